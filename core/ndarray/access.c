/* SPDX-License-Identifier: Apache-2.0
 * access.c: copies elements in and out of an array, in push order, and waits.
 * On the cpu the calling thread copies; on devices their queues do. Few dense
 * bytes of a free array are copied inside of the gate, without a job.
 */
#include <string.h>

#include "ndarray.h"

/* Copies of at most this many bytes run between tn__gate_enter and
 * tn__gate_leave. Longer ones are jobs, so that other threads can push
 * meanwhile. */
enum { SHORT_BYTES = 1 << 16 };

/* One set or get. */
typedef struct access {
  tn__engine *engine;
  tn_tensor inside;  /* the array's elements */
  tn_tensor outside; /* the caller's memory */
  tn_array *array;
  int64_t strides[TN_MAX_NDIM]; /* of `outside` */
} access;

static tn_code check_bytes(const tn_array *array, const char *verb,
                           size_t bytes) {
  const tn_tensor *t = &array->tensor;
  size_t holds = tn__dense_bytes(t);
  if (bytes == holds) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%zu bytes were given to %s an array of %lld"
                  " elements of %s, which holds %zu bytes",
                  bytes, verb, (long long)tn_tensor_size(t),
                  tn__dtype_name(t->dtype), holds);
}

static void access_init(access *a, tn_array *array, void *data) {
  a->engine = array->env->engine;
  a->array = array;
  a->inside = a->outside = tn__array_metadata(array);
  a->outside.strides = a->strides;
  a->outside.data = data;
  tn__strides_dense(a->outside.ndim, a->outside.shape, a->strides);
}

/* Bits of the last byte that have elements; 0: all of them. */
static uint32_t count_tail_bits(const tn_tensor *t) {
  if (!tn_dtype_is_packed(t->dtype)) return 0;
  return (uint32_t)(tn_tensor_size(t) * tn_dtype_bits(t->dtype) % 8);
}

/* Clears the bits after the last element of a packed array. */
static void clear_tail(const tn_tensor *t, void *data) {
  const uint32_t bits = count_tail_bits(t);
  unsigned char *bytes = data;
  if (bits > 0)
    bytes[tn__dense_bytes(t) - 1] &= (unsigned char)((1u << bits) - 1);
}

/* --------------------------------------------------------------- on the cpu */

static tn_code set_run(void *arg, tn__token *token) {
  access *a = arg;
  (void)token;
  a->inside.data = tn__array_data(a->array);
  tn__tensor_cast(a->engine, &a->inside, &a->outside);
  clear_tail(&a->inside, a->inside.data);
  return TN_OK;
}

/* An array that was never written has no memory, and reads as zeros. */
static tn_code get_run(void *arg, tn__token *token) {
  access *a = arg;
  (void)token;
  a->inside.data = tn__array_data(a->array);
  tn__tensor_cast(a->engine, &a->outside, &a->inside);
  return TN_OK;
}

/* True for few bytes of a dense array. */
static bool is_short(const tn_array *array, size_t bytes) {
  return bytes <= SHORT_BYTES && bytes > 0 &&
         tn_tensor_is_contiguous(&array->tensor);
}

/* False: the array is in use, and a job must wait for it. */
static bool set_at_once(tn_array *array, const void *data, size_t bytes) {
  tn__engine *engine = array->env->engine;
  if (!tn__gate_enter(engine)) return false;
  bool free = tn__var_is_writable(&array->block->var);
  if (free) {
    void *to = tn__array_data(array);
    memcpy(to, data, bytes);
    clear_tail(&array->tensor, to);
  }
  tn__gate_leave(engine);
  return free;
}

static bool get_at_once(const tn_array *array, void *data, size_t bytes) {
  tn__engine *engine = array->env->engine;
  if (!tn__gate_enter(engine)) return false;
  const void *from = tn__array_data(array);
  bool free = from && tn__var_is_readable(&array->block->var);
  if (free) memcpy(data, from, bytes);
  tn__gate_leave(engine);
  return free;
}

static tn_code take_turn(access *a, uint32_t mode) {
  const tn__access use = {&a->array->block->var, mode, 0};
  bool set = mode != TN__READ;
  return tn__run_here(a->engine,
                      &(tn__job){.name = set ? "tn_array_set" : "tn_array_get",
                                 .run = set ? set_run : get_run,
                                 .arg = a,
                                 .access = &use,
                                 .n_access = 1});
}

static tn_code set_on_cpu(tn_array *array, const void *data, size_t bytes) {
  access a;
  if (!tn__array_data(array)) TN__TRY(tn__array_materialise_for_write(array));
  tn__array_count_write(array);
  if (is_short(array, bytes) && set_at_once(array, data, bytes)) return TN_OK;
  access_init(&a, array, (void *)(uintptr_t)data); /* only read */
  return take_turn(&a, tn__array_write_mode(array));
}

static tn_code get_on_cpu(tn_array *array, void *data, size_t bytes) {
  access a;
  if (is_short(array, bytes) && get_at_once(array, data, bytes)) return TN_OK;
  access_init(&a, array, data);
  return take_turn(&a, TN__READ);
}

/* ------------------------------------------------------------ other devices */

static void keep_memory(void *ctx) {
  (void)ctx; /* the caller owns the memory */
}

/* Creates an array of the caller's memory, in the shape of `array`. */
static tn_code outside_create(const tn_array *array, void *data, size_t bytes,
                              tn_array **out) {
  const tn_tensor *t = &array->tensor;
  static char nothing;
  const tn__foreign memory = {
      .data = bytes > 0 ? data : &nothing, .bytes = bytes, .drop = keep_memory};
  return tn__array_wrap(array->env->cpu,
                        &(tn_spec){t->dtype, t->ndim, t->shape}, &memory, out);
}

/* Returns when the devices no longer use the caller's memory, also after a
 * failed copy. `result` carries the error. */
static tn_code copy_wait(tn_array *to, tn_array *from, tn_array *outside,
                         tn_array *result) {
  tn_code rc = tn__array_copy(to, from);
  if (rc) return rc;
  rc = tn__array_wait(outside, TN__WAIT_ALL, TN__FOREVER);
  return outside == result || rc
             ? rc
             : tn__array_wait(result, TN__WAIT_WRITERS, TN__FOREVER);
}

/* Creates an array on the cpu with the caller's elements. */
static tn_code copy_outside(const tn_array *array, const void *data,
                            size_t bytes, tn_array **out) {
  const tn_tensor *t = &array->tensor;
  const tn_spec spec = {t->dtype, t->ndim, t->shape};
  TN__TRY(tn__array_create(array->env, &spec, out));
  const tn_code rc = set_on_cpu(*out, data, bytes);
  if (rc) tn__array_release(*out);
  return rc;
}

/* The caller's memory is only read, so a tail is cleared in a copy of it. */
static tn_code set_elsewhere(tn_array *array, const void *data, size_t bytes) {
  tn_array *outside = NULL;
  void *memory = (void *)(uintptr_t)data; /* only read */
  if (count_tail_bits(&array->tensor) > 0)
    TN__TRY(copy_outside(array, data, bytes, &outside));
  else
    TN__TRY(outside_create(array, memory, bytes, &outside));
  tn_code rc = copy_wait(array, outside, outside, array);
  tn__array_release(outside);
  return rc;
}

/* A device queue that waits for another one does not get its errors, so the
 * host waits. */
static tn_code get_elsewhere(tn_array *array, void *data, size_t bytes) {
  tn_array *outside = NULL;
  TN__TRY(tn__array_wait(array, TN__WAIT_WRITERS, TN__FOREVER));
  TN__TRY(outside_create(array, data, bytes, &outside));
  tn_code rc = copy_wait(outside, array, outside, outside);
  tn__array_release(outside);
  return rc;
}

/* ---------------------------------------------------------------- interface */

static bool on_cpu(const tn_array *array) {
  return array->block->device->type == TN_DEVICE_CPU;
}

tn_code tn__array_set(tn_array *array, const void *data, size_t bytes) {
  TN__TRY(check_bytes(array, "set", bytes));
  if (tn__tensor_has_repeats(&array->tensor))
    return tn__fail(TN_INVALID,
                    "the array is a broadcast view that repeats"
                    " elements; set the array it was made from");
  return on_cpu(array) ? set_on_cpu(array, data, bytes)
                       : set_elsewhere(array, data, bytes);
}

tn_code tn__array_get(tn_array *array, void *data, size_t bytes) {
  TN__TRY(check_bytes(array, "get", bytes));
  return on_cpu(array) ? get_on_cpu(array, data, bytes)
                       : get_elsewhere(array, data, bytes);
}

tn_code tn__array_wait(tn_array *array, uint32_t mode, uint64_t ns) {
  return tn__wait(array->env->engine, &array->block->var, mode, ns);
}
