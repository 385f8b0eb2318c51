/* SPDX-License-Identifier: Apache-2.0
 * add_view.c: an array is added to another, or to a view that repeats elements:
 * then each element gets the sum of what belongs to it, taken in f64 and
 * rounded once.
 */
#include "tape.h"

/* Elements of the result that are summed at a time. */
enum { LANES = 64 };

/* One dimension, in bytes. */
typedef struct axis {
  int64_t n;
  int64_t to;
  int64_t from;
} axis;

/* Dimensions along which the result moves, and those that it repeats; the last
 * of each list is the innermost. */
typedef struct axes {
  int32_t n;
  axis v[TN_MAX_NDIM + 1];
} axes;

typedef struct sums {
  axes kept;
  axes repeated;
  tn_dtype dtype;
} sums;

static void sums_init(sums *s, const tn_tensor *to, const tn_tensor *from) {
  const int64_t bytes = tn_dtype_bytes(to->dtype);
  *s = (sums){.kept = {1, {{1, 0, 0}}},
              .repeated = {1, {{1, 0, 0}}},
              .dtype = to->dtype};
  for (int32_t i = 0; i < to->ndim; ++i) {
    if (to->shape[i] == 1) continue;
    axes *list = to->strides[i] ? &s->kept : &s->repeated;
    list->v[list->n++] =
        (axis){to->shape[i], to->strides[i] * bytes, from->strides[i] * bytes};
  }
}

/* Steps all dimensions but the last as an odometer does; false at the end. */
static bool advance(const axes *a, int64_t *index, char **to,
                    const char **from) {
  for (int32_t i = a->n - 2; i >= 0; --i) {
    *to += a->v[i].to;
    *from += a->v[i].from;
    if (++index[i] < a->v[i].n) return true;
    index[i] = 0;
    *to -= a->v[i].to * a->v[i].n;
    *from -= a->v[i].from * a->v[i].n;
  }
  return false;
}

/* sum[i] += all elements of row r, r below `times`, at i; and to += sum. */
typedef struct block {
  double sum[LANES];
  int64_t lanes;
  int64_t to; /* bytes between lanes */
  int64_t from;
  int64_t times;
  int64_t step; /* bytes between rows */
} block;

typedef struct kind {
  void (*gather)(block *b, const char *from);
  void (*store)(const block *b, char *to);
} kind;

#define KIND(name, type, load, round)                                         \
  static void gather_##name(block *b, const char *from) {                     \
    for (int64_t r = 0; r < b->times; ++r, from += b->step)                   \
      for (int64_t i = 0; i < b->lanes; ++i)                                  \
        b->sum[i] += load(*(const type *)(const void *)(from + i * b->from)); \
  }                                                                           \
  static void store_##name(const block *b, char *to) {                        \
    for (int64_t i = 0; i < b->lanes; ++i) {                                  \
      type *y = (type *)(void *)(to + i * b->to);                             \
      *y = round(load(*y) + b->sum[i]);                                       \
    }                                                                         \
  }                                                                           \
  static const kind kind_##name = {gather_##name, store_##name};
#define WIDE(x) ((double)(x))
#define WIDE_F16(x) ((double)tn__f16_to_f32(x))
#define WIDE_BF16(x) ((double)tn__bf16_to_f32(x))
#define ROUND_F64(x) (x)
#define ROUND_F32(x) ((float)(x))
#define ROUND_F16(x) tn__f32_to_f16((float)(x))
#define ROUND_BF16(x) tn__f32_to_bf16((float)(x))
KIND(f64, double, WIDE, ROUND_F64)
KIND(f32, float, WIDE, ROUND_F32)
KIND(f16, uint16_t, WIDE_F16, ROUND_F16)
KIND(bf16, uint16_t, WIDE_BF16, ROUND_BF16)

static const kind *kind_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64:
      return &kind_f64;
    case TN_F32:
      return &kind_f32;
    case TN_F16:
      return &kind_f16;
    default:
      return &kind_bf16;
  }
}

/* Everything that belongs to the block's elements, and stores it. */
static void block_sum(const sums *s, block *b, char *to, const char *from) {
  const kind *way = kind_of(s->dtype);
  const axis *row = &s->repeated.v[s->repeated.n - 1];
  int64_t index[TN_MAX_NDIM + 1] = {0};
  char *unused = to;
  for (int64_t i = 0; i < b->lanes; ++i) b->sum[i] = 0;
  b->times = row->n;
  b->step = row->from;
  do way->gather(b, from);
  while (advance(&s->repeated, index, &unused, &from));
  way->store(b, to);
}

static void repeated_sum(const tn_tensor *to, const tn_tensor *from) {
  sums s;
  sums_init(&s, to, from);
  const axis *last = &s.kept.v[s.kept.n - 1];
  int64_t index[TN_MAX_NDIM + 1] = {0};
  char *y = to->data;
  const char *x = from->data;
  block b = {.to = last->to, .from = last->from};
  do {
    for (int64_t i = 0; i < last->n; i += LANES) {
      b.lanes = last->n - i < LANES ? last->n - i : LANES;
      block_sum(&s, &b, y + i * last->to, x + i * last->from);
    }
  } while (advance(&s.kept, index, &y, &x));
}

/* --------------------------------------------------------------- schedule */

/* Sums of so many bytes may run inside of the push. */
enum { SMALL_BYTES = 1 << 16 };

/* A sum on its way. It holds its arrays. */
typedef struct job {
  tn_array *to;
  tn_array *from;
} job;

static tn_tensor placed(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* What was never written is zero. */
static void sum_now(const tn_array *to, const tn_array *from) {
  const tn_tensor y = placed(to), x = placed(from);
  if (!x.data) return;
  if (tn__tensor_has_repeats(&y))
    repeated_sum(&y, &x);
  else
    tn__tensor_add(&y, &x);
}

static tn_code job_run(void *arg, tn__token *token) {
  const job *j = arg;
  tn__device *device = j->to->block->device;
  const tn_tensor y = placed(j->to), x = placed(j->from);
  if (device->table)
    return tn__elements_sum(&(tn__site){device, token, NULL}, &y, &x, true);
  sum_now(j->to, j->from);
  return TN_OK;
}

static void job_drop(void *arg) {
  job *j = arg;
  const tn__env *env = j->to->env;
  tn__array_unhold(j->to);
  tn__array_unhold(j->from);
  tn__free(env, j);
}

static tn_code push(tn_array *to, tn_array *from, bool small) {
  const tn__access access[] = {{&from->block->var, TN__READ, 0},
                               {&to->block->var, TN__UPDATE, 0}};
  job *j = tn__alloc(to->env, sizeof *j);
  if (!j) return tn__fail_memory(sizeof *j, "a sum of arrays");
  tn__array_hold(to);
  tn__array_hold(from);
  *j = (job){to, from};
  return tn__push(to->env->engine,
                  &(tn__job){.name = "sum of gradients",
                             .run = job_run,
                             .arg = j,
                             .drop = job_drop,
                             .access = access,
                             .n_access = 2,
                             .flags = small ? TN__JOB_SMALL : 0,
                             .queue = to->block->device->compute});
}

/* Nothing else uses the arrays: done at once. */
static bool sum_at_once(tn_array *to, tn_array *from) {
  tn__engine *engine = to->env->engine;
  if (!tn__gate_enter(engine)) return false;
  const bool free = tn__var_is_writable(&to->block->var) &&
                    tn__var_is_readable(&from->block->var);
  if (free) sum_now(to, from);
  tn__gate_leave(engine);
  return free;
}

static tn_code place_check(const tn_array *to, const tn_array *from) {
  const tn__device *device = to->block->device;
  char place[TN__DEVICE_TEXT];
  if (device == from->block->device &&
      tn__elements_can_add(device, to->tensor.dtype))
    return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "gradients of broadcast or added arrays cannot be summed on"
                  " %s; use operators that broadcast and add there themselves",
                  tn__device_text(device, place));
}

tn_code tn__array_sum(tn_array *to, tn_array *from) {
  const int64_t n = tn_tensor_size(&to->tensor);
  const bool small = n * tn_dtype_bytes(to->tensor.dtype) <= SMALL_BYTES;
  if (n == 0) return TN_OK;
  TN__TRY(place_check(to, from));
  TN__TRY(tn__array_materialise(to));
  tn__array_count_write(to);
  if (!to->block->device->table && small && to->block != from->block &&
      sum_at_once(to, from))
    return TN_OK;
  return push(to, from, small);
}
