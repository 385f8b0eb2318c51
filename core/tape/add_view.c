/* SPDX-License-Identifier: Apache-2.0
 * add_view.c: adds an array to another one, or to a view that repeats elements.
 * Each element of such a view gets the sum of all elements for it, computed in
 * f64 and rounded once. The sum runs at once if nothing else uses the arrays,
 * otherwise as a job of the engine.
 */
#include "tape.h"

/* Elements of the result that are summed together. */
enum { LANES = 64 };

/* One dimension, with strides in bytes. */
typedef struct axis {
  int64_t n;
  int64_t to;
  int64_t from;
} axis;

/* Dimensions along which the result has strides, and those that it repeats. The
 * last of each list is the innermost. */
typedef struct axes {
  int32_t n;
  axis v[TN_MAX_NDIM + 1];
} axes;

typedef struct sums {
  axes kept;
  axes repeated;
  tn_dtype dtype;
} sums;

static void init_sums(sums *s, const tn_tensor *to, const tn_tensor *from) {
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

/* Advances the index in all dimensions but the last, as an odometer; false at
 * the end. */
static bool advance_index(const axes *a, int64_t *index, char **to,
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

/* Sums for neighbouring elements. sum[i] is the sum of element i over `times`
 * rows; it is added to `to`. */
typedef struct block {
  double sum[LANES];
  int64_t lanes;
  int64_t to; /* bytes between lanes */
  int64_t from;
  int64_t times;
  int64_t step; /* bytes between rows */
} block;

typedef struct element_kind {
  void (*gather)(block *b, const char *from);
  void (*store)(const block *b, char *to);
} element_kind;

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
  static const element_kind kind_##name = {gather_##name, store_##name};
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

static const element_kind *find_kind(tn_dtype dtype) {
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

/* Adds all elements that belong to the block's elements of the result. */
static void sum_block(const sums *s, block *b, char *to, const char *from) {
  const element_kind *type = find_kind(s->dtype);
  const axis *row = &s->repeated.v[s->repeated.n - 1];
  int64_t index[TN_MAX_NDIM + 1] = {0};
  char *unused = to;
  for (int64_t i = 0; i < b->lanes; ++i) b->sum[i] = 0;
  b->times = row->n;
  b->step = row->from;
  do type->gather(b, from);
  while (advance_index(&s->repeated, index, &unused, &from));
  type->store(b, to);
}

static void sum_repeated(const tn_tensor *to, const tn_tensor *from) {
  sums s;
  init_sums(&s, to, from);
  const axis *last = &s.kept.v[s.kept.n - 1];
  int64_t index[TN_MAX_NDIM + 1] = {0};
  char *y = to->data;
  const char *x = from->data;
  block b = {.to = last->to, .from = last->from};
  do {
    for (int64_t i = 0; i < last->n; i += LANES) {
      b.lanes = last->n - i < LANES ? last->n - i : LANES;
      sum_block(&s, &b, y + i * last->to, x + i * last->from);
    }
  } while (advance_index(&s.kept, index, &y, &x));
}

/* --------------------------------------------------------------- schedule */

/* Sums of at most so many bytes may run inside of the push. */
enum { SMALL_BYTES = 1 << 16 };

/* A pushed sum. It holds its arrays. */
typedef struct job {
  tn_array *to;
  tn_array *from;
} job;

static tn_tensor tensor_with_data(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}

/* An array without memory was never written; its elements are zeros. */
static void sum_now(const tn_array *to, const tn_array *from) {
  const tn_tensor y = tensor_with_data(to), x = tensor_with_data(from);
  if (!x.data) return;
  if (tn__tensor_has_repeats(&y))
    sum_repeated(&y, &x);
  else
    tn__tensor_add(&y, &x);
}

static tn_code run_job(void *arg, tn__token *token) {
  const job *j = arg;
  tn__device *device = j->to->block->device;
  const tn_tensor y = tensor_with_data(j->to), x = tensor_with_data(j->from);
  if (device->table)
    return tn__elements_sum(&(tn__site){device, token, NULL}, &y, &x, true);
  sum_now(j->to, j->from);
  return TN_OK;
}

static void drop_job(void *arg) {
  job *j = arg;
  const tn__env *env = j->to->env;
  tn__array_unhold(j->to);
  tn__array_unhold(j->from);
  tn__free(env, j);
}

static tn_code push_sum(tn_array *to, tn_array *from, bool small) {
  const tn__access access[] = {{&from->block->var, TN__READ, 0},
                               {&to->block->var, TN__UPDATE, 0}};
  job *j = tn__alloc(to->env, sizeof *j);
  if (!j) return tn__fail_memory(sizeof *j, "a sum of arrays");
  tn__array_hold(to);
  tn__array_hold(from);
  *j = (job){to, from};
  return tn__push(to->env->engine,
                  &(tn__job){.name = "sum of gradients",
                             .run = run_job,
                             .arg = j,
                             .drop = drop_job,
                             .access = access,
                             .n_access = 2,
                             .flags = small ? TN__JOB_SMALL : 0,
                             .queue = to->block->device->compute});
}

/* Adds at once if nothing else uses the arrays. */
static bool try_sum_now(tn_array *to, tn_array *from) {
  tn__engine *engine = to->env->engine;
  if (!tn__gate_enter(engine)) return false;
  const bool free = tn__var_is_writable(&to->block->var) &&
                    tn__var_is_readable(&from->block->var);
  if (free) sum_now(to, from);
  tn__gate_leave(engine);
  return free;
}

static tn_code check_device(const tn_array *to, const tn_array *from) {
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

tn_code tn__array_accumulate(tn_array *to, tn_array *from) {
  const int64_t n = tn_tensor_size(&to->tensor);
  const bool small = n * tn_dtype_bytes(to->tensor.dtype) <= SMALL_BYTES;
  if (n == 0) return TN_OK;
  TN__TRY(check_device(to, from));
  TN__TRY(tn__array_materialise(to));
  tn__array_count_write(to);
  if (!to->block->device->table && small && to->block != from->block &&
      try_sum_now(to, from))
    return TN_OK;
  return push_sum(to, from, small);
}
