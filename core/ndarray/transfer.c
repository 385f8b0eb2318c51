/* SPDX-License-Identifier: Apache-2.0
 * transfer.c: copies between arrays as operations of the engine. The host
 * copies any strides and dtypes. Devices copy dense runs of bytes and, within a
 * device that has sums, any strides. Every other copy uses host memory in
 * between: a *staging*.
 */
#include <string.h>

#include "ndarray.h"

/* Copies of at most this many bytes may run inside of the push. */
enum { SMALL_BYTES = 1 << 16 };

/* ------------------------------------------------------------------- a copy */

/* A pending copy. It holds the arrays. It records whether `from` had memory at
 * the push, because a later write may allocate it before the copy runs. */
typedef struct copy {
  const tn__env *env;
  tn_array *to;
  tn_array *from;
  bool from_nothing; /* it had no memory: zeros */
} copy;

static tn_code copy_create(tn_array *to, tn_array *from, copy **out) {
  copy *c = tn__alloc(to->env, sizeof *c);
  if (!c) return tn__fail_memory(sizeof *c, "a copy of an array");
  *c = (copy){to->env, to, from, tn__array_data(from) == NULL};
  tn__array_hold(to);
  tn__array_hold(from);
  *out = c;
  return TN_OK;
}

static void copy_drop(void *arg) {
  copy *c = arg;
  tn__array_unhold(c->to);
  tn__array_unhold(c->from);
  tn__free(c->env, c);
}

/* Copies overlapping arrays through a temporary, so that no element is written
 * before it is read. */
static tn_code copy_aside(tn__engine *engine, const tn_tensor *to,
                          const tn_tensor *from, tn__device *cpu) {
  const size_t bytes = tn__dense_bytes(from);
  int64_t strides[TN_MAX_NDIM];
  tn_tensor aside = *from;
  TN__TRY(tn__heap_alloc(cpu, bytes,
                         "a copy between parts of an array that overlap",
                         &aside.data));
  aside.strides = strides;
  tn__strides_dense(aside.ndim, aside.shape, strides);
  tn__tensor_cast(engine, &aside, from);
  tn__tensor_cast(engine, to, &aside);
  tn__heap_free(cpu, aside.data, bytes);
  return TN_OK;
}

static tn_code run_on_host(void *arg, tn__token *token) {
  const copy *c = arg;
  tn_tensor to = tn__array_tensor_with_data(c->to),
            from = tn__array_tensor_with_data(c->from);
  (void)token;
  if (c->from_nothing) from.data = NULL;
  if (tn__arrays_overlap(c->to, c->from) != TN__DISJOINT)
    return copy_aside(c->env->engine, &to, &from, c->env->cpu);
  tn__tensor_cast(c->env->engine, &to, &from);
  return TN_OK;
}

static tn_code run_on_queue(void *arg, tn__token *token) {
  const copy *c = arg;
  tn_tensor to = tn__array_tensor_with_data(c->to),
            from = tn__array_tensor_with_data(c->from);
  const tn_copy bytes = {.struct_size = sizeof bytes,
                         .to = to.data,
                         .from = from.data,
                         .bytes = tn__dense_bytes(&to),
                         .to_type = to.device_type,
                         .to_id = to.device_id,
                         .from_type = from.device_type,
                         .from_id = from.device_id};
  return tn__device_copy(token, &bytes);
}

static tn_code run_on_device(void *arg, tn__token *token) {
  const copy *c = arg;
  const tn__site site = {c->to->block->device, token, NULL};
  tn_tensor to = tn__array_tensor_with_data(c->to),
            from = tn__array_tensor_with_data(c->from);
  return tn__elements_copy(&site, &to, &from);
}

/* ------------------------------------------------------------------- pushes */

static tn_code copy_push(tn_array *to, tn_array *from, tn__queue *queue,
                         tn_code (*run)(void *arg, tn__token *token)) {
  copy *c = NULL;
  TN__TRY(copy_create(to, from, &c));
  bool small =
      run == run_on_host && tn__dense_bytes(&to->tensor) <= SMALL_BYTES;
  const tn__access access[] = {{&from->block->var, TN__READ, 0},
                               {&to->block->var, tn__array_write_mode(to), 0}};
  return tn__push(to->env->engine,
                  &(tn__job){.name = "tn_array_copy",
                             .run = run,
                             .arg = c,
                             .drop = copy_drop,
                             .access = access,
                             .n_access = 2,
                             .flags = small ? TN__JOB_SMALL : 0,
                             .queue = queue});
}

static tn_code push_on_host(tn_array *to, tn_array *from) {
  return copy_push(to, from, NULL, run_on_host);
}

/* Both are dense, and a queue copies between the two devices. */
static tn_code push_on_queue(tn_array *to, tn_array *from) {
  tn__queue *queue =
      tn__device_copy_queue(to->block->device, from->block->device);
  return copy_push(to, from, queue, run_on_queue);
}

/* Copies at once: the arrays are small, on the host, and free. */
static bool copy_at_once(tn_array *to, tn_array *from) {
  tn__engine *engine = to->env->engine;
  if (tn__dense_bytes(&to->tensor) > SMALL_BYTES || to->block == from->block)
    return false;
  if (!tn__gate_enter(engine)) return false;
  bool free = tn__var_is_writable(&to->block->var) &&
              tn__var_is_readable(&from->block->var);
  if (free) {
    tn_tensor y = tn__array_tensor_with_data(to),
              x = tn__array_tensor_with_data(from);
    tn__tensor_cast(NULL, &y, &x);
  }
  tn__gate_leave(engine);
  return free;
}

/* ------------------------------------------------------------------ staging */

/* An array on a device while a copy is pushed: all bytes from its first to its
 * last element as a dense array, the same on the host, and a view of the host's
 * elements with the array's shape. */
typedef struct staging {
  tn_array *range; /* on the device, a view of `array` */
  tn_array *host;
  tn_array *view; /* a view of `host`, instead of `array` */
} staging;

static void staging_deinit(staging *s) {
  tn__array_release(s->view);
  tn__array_release(s->host);
  tn__array_release(s->range);
}

/* Counts the elements from the first to the last, and those before the array's
 * own first one. */
static void measure_range(const tn_tensor *t, int64_t *n, int64_t *before) {
  *n = 1;
  *before = 0;
  for (int32_t i = 0; i < t->ndim; ++i) {
    int64_t reach = (t->shape[i] - 1) * t->strides[i];
    *n += reach < 0 ? -reach : reach;
    *before += reach < 0 ? -reach : 0;
  }
}

static tn_code create_staging(staging *s, tn_array *array) {
  const tn_tensor *t = &array->tensor;
  int64_t n, before, one = 1;
  measure_range(t, &n, &before);
  const tn__view range = {1, &n, &one, -before};
  const tn__view view = {t->ndim, t->shape, t->strides, before};
  const tn_spec spec = {t->dtype, 1, &n};
  TN__TRY(tn__array_view(array, &range, &s->range));
  TN__TRY(tn__array_create(array->env, &spec, &s->host));
  return tn__array_view(s->host, &view, &s->view);
}

/* An array on the host needs no staging. */
static tn_code staging_init(staging *s, tn_array *array) {
  *s = (staging){NULL, NULL, NULL};
  if (array->block->device->type == TN_DEVICE_CPU) {
    s->view = array;
    atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
    return TN_OK;
  }
  tn_code rc = create_staging(s, array);
  if (rc) staging_deinit(s);
  return rc;
}

/* True if the range has elements that are not of the array: they must be
 * fetched before the range is written back. */
static bool staging_has_gaps(const staging *s) {
  return s->range &&
         tn_tensor_size(&s->range->tensor) != tn_tensor_size(&s->view->tensor);
}

/* Fetches the source, copies on the host, and writes the target back. A source
 * without memory is not fetched: its staging has none either, and reads as
 * zeros. */
static tn_code push_staged(staging *to, staging *from) {
  bool fetch = from->range && tn__array_data(from->range);
  if (fetch) TN__TRY(tn__array_materialise(from->host));
  if (to->range) TN__TRY(tn__array_materialise(to->host));
  if (fetch) TN__TRY(push_on_queue(from->host, from->range));
  if (staging_has_gaps(to)) TN__TRY(push_on_queue(to->host, to->range));
  TN__TRY(push_on_host(to->view, from->view));
  return to->range ? push_on_queue(to->range, to->host) : TN_OK;
}

/* No other thread pushes in between, so the steps have one place in the push
 * order. */
static tn_code copy_staged(tn_array *to, tn_array *from) {
  tn__engine *engine = to->env->engine;
  staging y, x;
  TN__TRY(staging_init(&y, to));
  tn_code rc = staging_init(&x, from);
  if (rc == TN_OK) {
    tn__engine_pause(engine);
    rc = push_staged(&y, &x);
    tn__engine_resume(engine);
    staging_deinit(&x);
  }
  staging_deinit(&y);
  return rc;
}

/* ---------------------------------------------------------------- interface */

static tn_code check_shapes(const tn_array *to, const tn_array *from) {
  const tn_tensor *y = &to->tensor, *x = &from->tensor;
  size_t bytes = (size_t)x->ndim * sizeof *x->shape;
  if (y->ndim == x->ndim &&
      (bytes == 0 || memcmp(y->shape, x->shape, bytes) == 0))
    return TN_OK;
  tn__fail(TN_SHAPE, "tn_array_copy: from");
  tn__fail_tensor(TN_SHAPE, x->dtype, x->ndim, x->shape);
  tn__fail_more(TN_SHAPE, " to");
  tn__fail_tensor(TN_SHAPE, y->dtype, y->ndim, y->shape);
  return tn__fail_more(TN_SHAPE, "; the shapes must be equal");
}

/* Elements of storage types are numbers to operators only. */
static tn_code check_dtypes(const tn_array *to, const tn_array *from) {
  const tn_dtype y = to->tensor.dtype, x = from->tensor.dtype;
  if (x == y || !(tn__dtype_is_storage(x) || tn__dtype_is_storage(y)))
    return TN_OK;
  return tn__fail(TN_DTYPE,
                  "tn_array_copy: from %s to %s: a copy does not convert "
                  "storage types; call the operator elemwise.cast",
                  tn__dtype_name(x), tn__dtype_name(y));
}

static tn_code check_copy(const tn_array *to, const tn_array *from) {
  if (to->env != from->env)
    return tn__fail(TN_INVALID,
                    "tn_array_copy: the arrays belong to different runtimes; "
                    "copy between those with tn_array_get and tn_array_set");
  if (tn__tensor_has_repeats(&to->tensor))
    return tn__fail(TN_INVALID,
                    "tn_array_copy: `to` is a broadcast view that repeats "
                    "elements; copy to the array it was made from");
  TN__TRY(check_dtypes(to, from));
  return check_shapes(to, from);
}

/* True if a queue can copy the arrays as they are. */
static bool is_direct(const tn_array *to, const tn_array *from) {
  return to->tensor.dtype == from->tensor.dtype &&
         tn_tensor_is_contiguous(&to->tensor) &&
         tn_tensor_is_contiguous(&from->tensor) && tn__array_data(from) &&
         tn__arrays_overlap(to, from) == TN__DISJOINT &&
         tn__device_copy_queue(to->block->device, from->block->device);
}

/* True if both are on a device that copies elements with any strides. */
static bool is_within(const tn_array *to, const tn_array *from) {
  const tn__device *device = to->block->device;
  return device == from->block->device && tn__device_can_sum(device) &&
         to->tensor.dtype == from->tensor.dtype && tn__array_data(from) &&
         tn__arrays_overlap(to, from) == TN__DISJOINT;
}

tn_code tn__array_copy(tn_array *to, tn_array *from) {
  TN__TRY(check_copy(to, from));
  if (tn__arrays_overlap(to, from) == TN__ALIAS) return TN_OK;
  TN__TRY(tn__array_materialise_for_write(to));
  tn__array_count_write(to);
  bool on_host = to->block->device->type == TN_DEVICE_CPU &&
                 from->block->device->type == TN_DEVICE_CPU;
  if (on_host && copy_at_once(to, from)) return TN_OK;
  if (on_host || tn_tensor_size(&to->tensor) == 0)
    return push_on_host(to, from);
  if (is_direct(to, from)) return push_on_queue(to, from);
  if (is_within(to, from))
    return copy_push(to, from, to->block->device->compute, run_on_device);
  return copy_staged(to, from);
}

static tn_code copy_into_new(tn_array *array, tn__device *device,
                             tn_dtype dtype, tn_array **out) {
  tn_array *created = NULL;
  const tn_tensor *t = &array->tensor;
  *out = NULL;
  TN__TRY(tn__array_create_on(device, &(tn_spec){dtype, t->ndim, t->shape},
                              &created));
  tn_code rc = tn__array_copy(created, array);
  if (rc)
    tn__array_release(created);
  else
    *out = created;
  return rc;
}

tn_code tn__array_cast(tn_array *array, tn_dtype dtype, tn_array **out) {
  return copy_into_new(array, array->block->device, dtype, out);
}

tn_code tn__array_to(tn_array *array, tn__device *device, tn_array **out) {
  return copy_into_new(array, device, array->tensor.dtype, out);
}
