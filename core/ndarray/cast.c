/* SPDX-License-Identifier: Apache-2.0
 * cast.c: copies across element types. Every value passes through the widest
 * type of its kind, which holds it exactly: double, int64_t or uint64_t. So
 * there is one load per dtype and one store per dtype and kind, and every
 * conversion rounds once.
 */
#include <math.h>
#include <string.h>

#include "walk.h"

enum { CHUNK = TN__DOUBLES, KINDS = 3 };

enum { /* kinds of values */
       KIND_F = 0,
       KIND_I = 1,
       KIND_U = 2
};

typedef union chunk {
  double f[CHUNK];
  int64_t i[CHUNK];
  uint64_t u[CHUNK];
} chunk;

typedef void load_fn(chunk *to, const char *from, int64_t step, int64_t n);
typedef void store_fn(char *to, int64_t step, const chunk *from, int64_t n);

/* ------------------------------------------------------------------ loads */

/* The loop is written twice so that the compiler vectorises the dense one;
 * memcpy because callers' memory need not be aligned for its type. */
#define LOAD(name, type, member, value)                              \
  static void load_##name(chunk *to, const char *from, int64_t step, \
                          int64_t n) {                               \
    const int64_t size = (int64_t)sizeof(type);                      \
    type x;                                                          \
    if (step == size) {                                              \
      for (int64_t k = 0; k < n; ++k) {                              \
        memcpy(&x, from + k * size, sizeof x);                       \
        to->member[k] = value(x);                                    \
      }                                                              \
      return;                                                        \
    }                                                                \
    for (int64_t k = 0; k < n; ++k) {                                \
      memcpy(&x, from + k * step, sizeof x);                         \
      to->member[k] = value(x);                                      \
    }                                                                \
  }

#define F16_VALUE(x) ((double)tn__f16_to_f32(x))
#define BF16_VALUE(x) ((double)tn__bf16_to_f32(x))
#define F_VALUE(x) ((double)(x))
#define I_VALUE(x) ((int64_t)(x))
#define U_VALUE(x) (x)
#define BOOL_VALUE(x) ((int64_t)((x) != 0))

LOAD(f16, uint16_t, f, F16_VALUE)
LOAD(bf16, uint16_t, f, BF16_VALUE)
LOAD(f32, float, f, F_VALUE)
LOAD(f64, double, f, F_VALUE)
LOAD(i8, int8_t, i, I_VALUE)
LOAD(i16, int16_t, i, I_VALUE)
LOAD(i32, int32_t, i, I_VALUE)
LOAD(i64, int64_t, i, I_VALUE)
LOAD(u8, uint8_t, i, I_VALUE)
LOAD(u16, uint16_t, i, I_VALUE)
LOAD(u32, uint32_t, i, I_VALUE)
LOAD(u64, uint64_t, u, U_VALUE)
LOAD(truth, uint8_t, i, BOOL_VALUE)

/* ------------------------------------------------------------ conversions */

/* Rounded to odd, a value can be rounded once more, to fewer bits, and is then
 * what one rounding would have made of it. */
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

static inline double u64_odd(uint64_t x) {
  if (x >> 53) x = (x >> 11 | ((x & 0x7ff) != 0)) << 11;
  return (double)x;
}

static inline double i64_odd(int64_t x) {
  return x < 0 ? -u64_odd(0 - (uint64_t)x) : u64_odd((uint64_t)x);
}

/* Towards zero; what does not fit becomes the nearest bound, NaN becomes 0.
 * `above` is the least double that is too large, or the bound itself. */
#define FROM_DOUBLE(name, type, low, above, high) \
  static inline type name##_of(double x) {        \
    if (x >= (above)) return (high);              \
    if (x > (double)(low)) return (type)x;        \
    return x == x ? (low) : 0;                    \
  }
FROM_DOUBLE(i8, int8_t, INT8_MIN, 127.0, INT8_MAX)
FROM_DOUBLE(i16, int16_t, INT16_MIN, 32767.0, INT16_MAX)
FROM_DOUBLE(i32, int32_t, INT32_MIN, 2147483647.0, INT32_MAX)
FROM_DOUBLE(i64, int64_t, INT64_MIN, 0x1p63, INT64_MAX)
FROM_DOUBLE(u8, uint8_t, 0, 255.0, UINT8_MAX)
FROM_DOUBLE(u16, uint16_t, 0, 65535.0, UINT16_MAX)
FROM_DOUBLE(u32, uint32_t, 0, 4294967295.0, UINT32_MAX)
FROM_DOUBLE(u64, uint64_t, 0, 0x1p64, UINT64_MAX)

/* ----------------------------------------------------------------- stores */

#define STORE(name, type, member, value)                              \
  static void store_##name##_##member(char *to, int64_t step,         \
                                      const chunk *from, int64_t n) { \
    const int64_t size = (int64_t)sizeof(type);                       \
    if (step == size) {                                               \
      for (int64_t k = 0; k < n; ++k) {                               \
        const type x = (type)value(from->member[k]);                  \
        memcpy(to + k * size, &x, sizeof x);                          \
      }                                                               \
      return;                                                         \
    }                                                                 \
    for (int64_t k = 0; k < n; ++k) {                                 \
      const type x = (type)value(from->member[k]);                    \
      memcpy(to + k * step, &x, sizeof x);                            \
    }                                                                 \
  }
/* Integers become floats by rounding, and other integers by wrapping. */
#define AS_IT_IS(x) (x)
#define NOT_0(x) ((x) != 0)
#define F16_OF_F(x) tn__f32_to_f16(f64_odd(x))
#define F16_OF_I(x) F16_OF_F(i64_odd(x))
#define F16_OF_U(x) F16_OF_F(u64_odd(x))
#define BF16_OF_F(x) tn__f32_to_bf16(f64_odd(x))
#define BF16_OF_I(x) BF16_OF_F(i64_odd(x))
#define BF16_OF_U(x) BF16_OF_F(u64_odd(x))
#define STORES(name, type, of_f, of_i, of_u) \
  STORE(name, type, f, of_f)                 \
  STORE(name, type, i, of_i)                 \
  STORE(name, type, u, of_u)

STORES(f16, uint16_t, F16_OF_F, F16_OF_I, F16_OF_U)
STORES(bf16, uint16_t, BF16_OF_F, BF16_OF_I, BF16_OF_U)
STORES(f32, float, AS_IT_IS, AS_IT_IS, AS_IT_IS)
STORES(f64, double, AS_IT_IS, AS_IT_IS, AS_IT_IS)
STORES(i8, int8_t, i8_of, AS_IT_IS, AS_IT_IS)
STORES(i16, int16_t, i16_of, AS_IT_IS, AS_IT_IS)
STORES(i32, int32_t, i32_of, AS_IT_IS, AS_IT_IS)
STORES(i64, int64_t, i64_of, AS_IT_IS, AS_IT_IS)
STORES(u8, uint8_t, u8_of, AS_IT_IS, AS_IT_IS)
STORES(u16, uint16_t, u16_of, AS_IT_IS, AS_IT_IS)
STORES(u32, uint32_t, u32_of, AS_IT_IS, AS_IT_IS)
STORES(u64, uint64_t, u64_of, AS_IT_IS, AS_IT_IS)
STORES(truth, uint8_t, NOT_0, NOT_0, NOT_0)

/* ------------------------------------------------------------------ table */

typedef struct element {
  tn_dtype dtype;
  int kind;
  load_fn *load;
  store_fn *store[KINDS]; /* by the kind of what is stored */
} element;

#define ELEMENT(dtype, name, kind)                         \
  {                                                        \
    dtype, kind, load_##name, {                            \
      store_##name##_f, store_##name##_i, store_##name##_u \
    }                                                      \
  }

static const element *element_of(tn_dtype dtype) {
  static const element elements[TN__N_DTYPES] = {
      ELEMENT(TN_F16, f16, KIND_F),   ELEMENT(TN_BF16, bf16, KIND_F),
      ELEMENT(TN_F32, f32, KIND_F),   ELEMENT(TN_F64, f64, KIND_F),
      ELEMENT(TN_I8, i8, KIND_I),     ELEMENT(TN_I16, i16, KIND_I),
      ELEMENT(TN_I32, i32, KIND_I),   ELEMENT(TN_I64, i64, KIND_I),
      ELEMENT(TN_U8, u8, KIND_I),     ELEMENT(TN_U16, u16, KIND_I),
      ELEMENT(TN_U32, u32, KIND_I),   ELEMENT(TN_U64, u64, KIND_U),
      ELEMENT(TN_BOOL, truth, KIND_I)};
  for (size_t i = 0; i < TN__N_DTYPES - 1; ++i)
    if (elements[i].dtype == dtype) return &elements[i];
  return &elements[TN__N_DTYPES - 1];
}

typedef struct cast {
  load_fn *load;
  store_fn *store;
} cast;

static void cast_row(char *to, const char *from, const tn__row *row) {
  const cast *how = row->ctx;
  chunk values;
  for (int64_t done = 0; done < row->n; done += CHUNK) {
    int64_t n = row->n - done < CHUNK ? row->n - done : CHUNK;
    how->load(&values, from + done * row->from, row->from, n);
    how->store(to + done * row->to, row->to, &values, n);
  }
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
  const element *source = element_of(from->dtype);
  const cast how = {source->load, element_of(to->dtype)->store[source->kind]};
  tn__walk_shared(engine, to, from, cast_row, &how);
}

/* ------------------------------------------------------------ rows of floats
 */

/* A chunk is where its doubles are. */
void tn__doubles_load(tn_dtype dtype, double *to, const char *from,
                      int64_t step, int64_t n) {
  element_of(dtype)->load((chunk *)(void *)to, from, step, n);
}

void tn__doubles_store(tn_dtype dtype, char *to, int64_t step,
                       const double *from, int64_t n) {
  element_of(dtype)->store[KIND_F](to, step, (const chunk *)(const void *)from,
                                   n);
}
