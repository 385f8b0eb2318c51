/* SPDX-License-Identifier: Apache-2.0
 * strided_cast.c: copies across element types. Every value passes through the
 * widest type of its kind, which represents it exactly: double, int64_t or
 * uint64_t. A cast loads into that type, converts to another kind if needed,
 * and stores. So there is a loop per type, not one per pair of types, and every
 * conversion rounds once.
 */
#include <math.h>
#include <string.h>

#include "strided_walk.h"

enum { CHUNK = TN__DOUBLES };

/* Values between load and store. */
typedef union chunk {
  double f[CHUNK];
  int64_t i[CHUNK];
  uint64_t u[CHUNK];
} chunk;

/* Load and store dense elements. They use memcpy because callers' memory need
 * not be aligned for its type. */
typedef void load_fn(chunk *to, const char *from, int64_t n);
typedef void store_fn(char *to, const chunk *from, int64_t n);

/* -------------------------------------------------------------------- loads */

#define LOAD(name, type, member, value)                             \
  static void load_##name(chunk *to, const char *from, int64_t n) { \
    type x;                                                         \
    for (int64_t k = 0; k < n; ++k) {                               \
      memcpy(&x, from + k * (int64_t)sizeof x, sizeof x);           \
      to->member[k] = value(x);                                     \
    }                                                               \
  }
#define F16_VALUE(x) ((double)tn__f16_to_f32(x))
#define BF16_VALUE(x) ((double)tn__bf16_to_f32(x))
#define AS_IT_IS(x) (x)
#define NOT_0(x) ((x) != 0)

LOAD(f16, uint16_t, f, F16_VALUE)
LOAD(bf16, uint16_t, f, BF16_VALUE)
LOAD(f32, float, f, AS_IT_IS)
LOAD(i8, int8_t, i, AS_IT_IS)
LOAD(i16, int16_t, i, AS_IT_IS)
LOAD(i32, int32_t, i, AS_IT_IS)
LOAD(u8, uint8_t, i, AS_IT_IS)
LOAD(u16, uint16_t, i, AS_IT_IS)
LOAD(u32, uint32_t, i, AS_IT_IS)
LOAD(truth, uint8_t, i, NOT_0)
LOAD(i8_as_f, int8_t, f, AS_IT_IS)
LOAD(i16_as_f, int16_t, f, AS_IT_IS)
LOAD(i32_as_f, int32_t, f, AS_IT_IS)
LOAD(u8_as_f, uint8_t, f, AS_IT_IS)
LOAD(u16_as_f, uint16_t, f, AS_IT_IS)
LOAD(u32_as_f, uint32_t, f, AS_IT_IS)
LOAD(truth_as_f, uint8_t, f, NOT_0)

static void load_whole(chunk *to, const char *from, int64_t n) {
  memcpy(to, from, (size_t)n * sizeof *to->f);
}

/* ------------------------------------------------------------------- stores */

/* Rounds to odd. Such a value can be rounded again, to fewer bits, with the
 * same result as one rounding. */
static inline float f64_odd(double x) {
  float f = (float)x;
  uint32_t bits;
  if ((double)f == x || x != x) return f;
  memcpy(&bits, &f, sizeof bits);
  if (fabs((double)f) > fabs(x)) --bits;
  bits |= 1;
  memcpy(&f, &bits, sizeof f);
  return f;
}

#define STORE(name, type, member, value)                             \
  static void store_##name(char *to, const chunk *from, int64_t n) { \
    for (int64_t k = 0; k < n; ++k) {                                \
      const type x = (type)value(from->member[k]);                   \
      memcpy(to + k * (int64_t)sizeof x, &x, sizeof x);              \
    }                                                                \
  }
#define F16_OF(x) tn__f32_to_f16(f64_odd(x))
#define BF16_OF(x) tn__f32_to_bf16(f64_odd(x))

/* Integers wrap, signed and unsigned. */
STORE(f16, uint16_t, f, F16_OF)
STORE(bf16, uint16_t, f, BF16_OF)
STORE(f32, float, f, AS_IT_IS)
STORE(8, uint8_t, u, AS_IT_IS)
STORE(16, uint16_t, u, AS_IT_IS)
STORE(32, uint32_t, u, AS_IT_IS)
STORE(truth, uint8_t, u, NOT_0)

static void store_whole(char *to, const chunk *from, int64_t n) {
  memcpy(to, from, (size_t)n * sizeof *from->f);
}

/* -------------------------------------------------------------------- types */

typedef struct element {
  tn_dtype dtype;
  int size;
  load_fn *as_f; /* exact; NULL for integers that a double cannot represent */
  load_fn *as_i; /* NULL for floats */
  store_fn *store;
  double low;  /* bounds of converted doubles: not below this, */
  double high; /* nor above this; for 64 bits, below this */
} element;

static const element *element_of(tn_dtype dtype) {
  static const element elements[TN__N_ARITHMETIC] = {
      {TN_F16, 2, load_f16, NULL, store_f16, 0, 0},
      {TN_BF16, 2, load_bf16, NULL, store_bf16, 0, 0},
      {TN_F32, 4, load_f32, NULL, store_f32, 0, 0},
      {TN_F64, 8, load_whole, NULL, store_whole, 0, 0},
      {TN_I8, 1, load_i8_as_f, load_i8, store_8, INT8_MIN, INT8_MAX},
      {TN_I16, 2, load_i16_as_f, load_i16, store_16, INT16_MIN, INT16_MAX},
      {TN_I32, 4, load_i32_as_f, load_i32, store_32, INT32_MIN, INT32_MAX},
      {TN_I64, 8, NULL, load_whole, store_whole, -0x1p63, 0x1p63},
      {TN_U8, 1, load_u8_as_f, load_u8, store_8, 0, UINT8_MAX},
      {TN_U16, 2, load_u16_as_f, load_u16, store_16, 0, UINT16_MAX},
      {TN_U32, 4, load_u32_as_f, load_u32, store_32, 0, UINT32_MAX},
      {TN_U64, 8, NULL, load_whole, store_whole, 0, 0x1p64},
      {TN_BOOL, 1, load_truth_as_f, load_truth, store_truth, 0, 1}};
  for (size_t i = 0; i < TN__N_ARITHMETIC - 1; ++i)
    if (elements[i].dtype == dtype) return &elements[i];
  return &elements[TN__N_ARITHMETIC - 1];
}

static inline bool is_float(const element *e) {
  return e->as_i == NULL;
}

/* -------------------------------------------------------------- conversions */

/* Converts to another kind, in place; `to` is the stored type. Doubles are
 * truncated towards zero. A value out of range becomes the nearest bound, and
 * NaN becomes 0. */
typedef void turn_fn(chunk *v, int64_t n, const element *to);

static inline double u64_odd(uint64_t x) {
  if (x >> 53) x = (x >> 11 | ((x & 0x7ff) != 0)) << 11;
  return (double)x;
}

static inline double i64_odd(int64_t x) {
  if (x >= -(1ll << 53) && x <= 1ll << 53) return (double)x;
  return x < 0 ? -u64_odd(0 - (uint64_t)x) : u64_odd((uint64_t)x);
}

#define TURN(name, from, into, value)                               \
  static void turn_##name(chunk *v, int64_t n, const element *to) { \
    (void)to;                                                       \
    for (int64_t k = 0; k < n; ++k) v->into[k] = value(v->from[k]); \
  }
/* A double is rounded again if it is stored as a narrower type. */
TURN(i_to_f64, i, f, (double))
TURN(u_to_f64, u, f, (double))
TURN(i_to_narrow, i, f, i64_odd)
TURN(u_to_narrow, u, f, u64_odd)
TURN(f_to_truth, f, i, NOT_0)

static void turn_f_to_i32(chunk *v, int64_t n, const element *to) {
  const double low = to->low, high = to->high;
  for (int64_t k = 0; k < n; ++k) {
    double x = v->f[k];
    x = x == x ? x : 0;
    x = x > low ? x : low;
    x = x < high ? x : high;
    v->i[k] = (int32_t)x;
  }
}

/* For i64 and u32. */
static void turn_f_to_i64(chunk *v, int64_t n, const element *to) {
  const int64_t most = to->size == 8 ? INT64_MAX : UINT32_MAX;
  const int64_t least = to->size == 8 ? INT64_MIN : 0;
  for (int64_t k = 0; k < n; ++k) {
    const double x = v->f[k];
    if (x > to->low && x < to->high)
      v->i[k] = (int64_t)x;
    else
      v->i[k] = x != x ? 0 : x > 0 ? most : least;
  }
}

static void turn_f_to_u64(chunk *v, int64_t n, const element *to) {
  for (int64_t k = 0; k < n; ++k) {
    const double x = v->f[k];
    v->u[k] = x >= to->high ? UINT64_MAX : x > 0 ? (uint64_t)x : 0;
  }
}

static turn_fn *turn_of_double(const element *to) {
  if (to->dtype == TN_BOOL) return turn_f_to_truth;
  if (is_float(to)) return NULL;
  if (to->dtype == TN_U64) return turn_f_to_u64;
  return to->high > INT32_MAX ? turn_f_to_i64 : turn_f_to_i32;
}

static turn_fn *turn_of_integer(const element *from, const element *to) {
  const bool is_u64 = from->dtype == TN_U64;
  if (!is_float(to)) return NULL;
  if (to->dtype == TN_F64) return is_u64 ? turn_u_to_f64 : turn_i_to_f64;
  return is_u64 ? turn_u_to_narrow : turn_i_to_narrow;
}

/* --------------------------------------------------------------------- rows */

/* Copies elements of `size` bytes between any steps. */
static void move_elements(char *to, int64_t to_step, const char *from,
                          int64_t from_step, int64_t n, int size) {
#define MOVE(bytes)               \
  for (int64_t k = 0; k < n; ++k) \
  memcpy(to + k * to_step, from + k * from_step, bytes)
  switch (size) {
    case 1:
      MOVE(1);
      break;
    case 2:
      MOVE(2);
      break;
    case 4:
      MOVE(4);
      break;
    default:
      MOVE(8);
      break;
  }
#undef MOVE
}

static void load_row(load_fn *load, int size, chunk *to, const char *from,
                     int64_t step, int64_t n) {
  char dense[sizeof(chunk)];
  if (step != size) move_elements(dense, size, from, step, n, size);
  load(to, step != size ? dense : from, n);
}

static void store_row(store_fn *store, int size, char *to, int64_t step,
                      const chunk *from, int64_t n) {
  char dense[sizeof(chunk)];
  store(step != size ? dense : to, from, n);
  if (step != size) move_elements(to, step, dense, size, n, size);
}

typedef struct cast {
  const element *from;
  const element *to;
  load_fn *load;
  turn_fn *turn; /* or NULL */
} cast;

static void cast_row(char *to, const char *from, const tn__row *row) {
  const cast *how = row->ctx;
  chunk values;
  for (int64_t done = 0; done < row->n; done += CHUNK) {
    const int64_t n = row->n - done < CHUNK ? row->n - done : CHUNK;
    load_row(how->load, how->from->size, &values, from + done * row->from,
             row->from, n);
    if (how->turn) how->turn(&values, n, how->to);
    store_row(how->to->store, how->to->size, to + done * row->to, row->to,
              &values, n);
  }
}

/* Small integers become doubles on load, which represent them exactly. */
static cast cast_of(const element *to, const element *from) {
  const bool as_f = is_float(from) || (is_float(to) && from->as_f);
  turn_fn *turn = as_f ? turn_of_double(to) : turn_of_integer(from, to);
  return (cast){from, to, as_f ? from->as_f : from->as_i, turn};
}

void tn__tensor_cast(tn__engine *engine, const tn_tensor *to,
                     const tn_tensor *from) {
  if (!from->data) {
    tn__tensor_zero(to);
    return;
  }
  if (to->dtype == from->dtype) {
    tn__tensor_copy_shared(engine, to, from);
    return;
  }
  const cast how = cast_of(element_of(to->dtype), element_of(from->dtype));
  tn__walk_rows_shared(engine, to, from, cast_row, &how);
}

/* ----------------------------------------------------------- rows of floats */

/* A chunk has the address of its doubles. */
void tn__doubles_load(tn_dtype dtype, double *to, const char *from,
                      int64_t step, int64_t n) {
  const element *e = element_of(dtype);
  load_row(e->as_f, e->size, (chunk *)(void *)to, from, step, n);
}

void tn__doubles_store(tn_dtype dtype, char *to, int64_t step,
                       const double *from, int64_t n) {
  const element *e = element_of(dtype);
  store_row(e->store, e->size, to, step, (const chunk *)(const void *)from, n);
}
