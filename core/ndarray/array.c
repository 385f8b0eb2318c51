/* SPDX-License-Identifier: Apache-2.0
 * array.c: the life of an array and copies between it and the caller's memory.
 * Views are made in view.c.
 */
#include <string.h>

#include "ndarray.h"

/* Cannot overflow: tn__tensor_bytes has accepted the shape. */
static void strides_dense(int32_t ndim, const int64_t *shape,
                          int64_t *strides) {
  int64_t step = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    strides[i] = step;
    if (shape[i] > 1) step *= shape[i];
  }
}

static tn_code spec_check(const tn_spec *spec) {
  if (!tn__dtype_bit(spec->dtype))
    return tn__fail(TN_DTYPE,
                    "an array cannot have the dtype 0x%x, which is no"
                    " element type of op.h",
                    (unsigned)spec->dtype);
  if (spec->ndim < 0 || spec->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID,
                    "an array cannot have %d dimensions; 0 to %d"
                    " are allowed",
                    (int)spec->ndim, TN_MAX_NDIM);
  if (spec->ndim > 0 && !spec->shape)
    return tn__fail(TN_INVALID,
                    "the shape of an array with %d dimensions is"
                    " NULL",
                    (int)spec->ndim);
  for (int32_t i = 0; i < spec->ndim; ++i)
    if (spec->shape[i] < 0)
      return tn__fail(TN_INVALID,
                      "dimension %d of an array is %lld; it must be"
                      " 0 or more",
                      (int)i, (long long)spec->shape[i]);
  return TN_OK;
}

static tn_code too_large(const tn_spec *spec) {
  tn__fail(TN_OUT_OF_RANGE, "an array of %s with shape (",
           tn__dtype_name(spec->dtype));
  for (int32_t i = 0; i < spec->ndim; ++i)
    tn__fail_more(TN_OUT_OF_RANGE, "%s%lld", i ? "," : "",
                  (long long)spec->shape[i]);
  return tn__fail_more(TN_OUT_OF_RANGE,
                       ") has more bytes than an address can"
                       " count");
}

/* An array without block; shape and strides are the caller's to fill in. */
static tn_code shell_create(const tn__env *env, int32_t ndim, tn_array **out) {
  size_t bytes = sizeof(tn_array) + 2 * (size_t)ndim * sizeof(int64_t);
  tn_array *array = tn__alloc(env, bytes);
  if (!array) return tn__fail_memory(bytes, "an array's description");
  memset(array, 0, sizeof *array);
  array->env = env;
  atomic_init(&array->n_owners, 1);
  array->tensor.device_type = TN_DEVICE_CPU;
  array->tensor.ndim = ndim;
  array->tensor.shape = (int64_t *)(void *)(array + 1);
  array->tensor.strides = array->tensor.shape + ndim;
  *out = array;
  return TN_OK;
}

tn_code tn__array_create(const tn__env *env, const tn_spec *spec,
                         tn_array **out) {
  *out = NULL;
  TN__TRY(spec_check(spec));
  size_t bytes = 0;
  if (!tn__tensor_bytes(spec->dtype, spec->ndim, spec->shape, &bytes))
    return too_large(spec);
  tn_array *array = NULL;
  TN__TRY(shell_create(env, spec->ndim, &array));
  tn_code rc = tn__block_create(env, bytes, &array->block);
  if (rc) {
    tn__free(env, array);
    return rc;
  }
  array->tensor.dtype = spec->dtype;
  for (int32_t i = 0; i < spec->ndim; ++i)
    array->tensor.shape[i] = spec->shape[i];
  strides_dense(spec->ndim, spec->shape, array->tensor.strides);
  tn__env_retain(env);
  *out = array;
  return TN_OK;
}

tn_code tn__array_view(tn_array *from, const tn__view *view, tn_array **out) {
  *out = NULL;
  tn_array *array = NULL;
  TN__TRY(shell_create(from->env, view->ndim, &array));
  array->tensor.dtype = from->tensor.dtype;
  for (int32_t i = 0; i < view->ndim; ++i) {
    array->tensor.shape[i] = view->shape[i];
    array->tensor.strides[i] = view->strides[i];
  }
  array->offset =
      from->offset + view->offset * tn_dtype_bytes(from->tensor.dtype);
  array->block = tn__block_retain(from->block);
  tn__env_retain(array->env);
  *out = array;
  return TN_OK;
}

void tn__array_release(tn_array *array) {
  if (!array) return;
  if (atomic_fetch_sub_explicit(&array->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = array->env;
  tn__block_release(array->block);
  tn__free(env, array);
  tn__env_release(env); /* last: it may be the end of the runtime */
}

void *tn__array_data(const tn_array *array) {
  char *base = atomic_load_explicit(&array->block->data, memory_order_acquire);
  return base ? base + array->offset : NULL;
}

tn_tensor tn__array_metadata(const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  return (tn_tensor){.device_type = t->device_type,
                     .device_id = t->device_id,
                     .ndim = t->ndim,
                     .dtype = t->dtype,
                     .shape = t->shape,
                     .strides = t->strides};
}

/* Several threads may learn of the memory at the same time. Only the first
 * store happens, and everybody who reads the field has passed here. */
const tn_tensor *tn__array_tensor(const tn_array *array) {
  tn_array *self = (tn_array *)(uintptr_t)array;
  void *data = tn__array_data(array);
  void *none = NULL;
  if (data && !__atomic_load_n(&self->tensor.data, __ATOMIC_ACQUIRE))
    __atomic_compare_exchange_n(&self->tensor.data, &none, data, 0,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return &array->tensor;
}

tn_code tn__array_materialise(tn_array *array) {
  TN__TRY(tn__block_materialise(array->block));
  tn__array_tensor(array);
  return TN_OK;
}

static tn_code bytes_check(const tn_array *array, const char *verb,
                           size_t bytes) {
  const tn_tensor *t = &array->tensor;
  size_t holds = (size_t)tn_tensor_size(t) * (size_t)tn_dtype_bytes(t->dtype);
  if (bytes == holds) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%zu bytes were given to %s an array of %lld"
                  " elements of %s, which holds %zu bytes",
                  bytes, verb, (long long)tn_tensor_size(t),
                  tn__dtype_name(t->dtype), holds);
}

/* The array's elements with their place, and the caller's dense memory in the
 * same shape. */
static void pair(const tn_array *array, int64_t *strides, tn_tensor *inside,
                 tn_tensor *outside) {
  *inside = *outside = tn__array_metadata(array);
  inside->data = tn__array_data(array);
  outside->strides = strides;
  strides_dense(outside->ndim, outside->shape, strides);
}

tn_code tn__array_set(tn_array *array, const void *data, size_t bytes) {
  TN__TRY(bytes_check(array, "set", bytes));
  if (bytes == 0) return TN_OK;
  if (tn__tensor_repeats(&array->tensor))
    return tn__fail(TN_INVALID,
                    "the array is a broadcast view that repeats"
                    " elements; set the array it was made from");
  TN__TRY(tn__array_materialise(array));
  int64_t strides[TN_MAX_NDIM];
  tn_tensor inside, outside;
  pair(array, strides, &inside, &outside);
  outside.data = (void *)(uintptr_t)data; /* only read */
  tn__tensor_copy(&inside, &outside);
  return TN_OK;
}

/* An array that was never written has no memory, and reads as zeros. */
tn_code tn__array_get(tn_array *array, void *data, size_t bytes) {
  TN__TRY(bytes_check(array, "get", bytes));
  if (bytes == 0) return TN_OK;
  int64_t strides[TN_MAX_NDIM];
  tn_tensor inside, outside;
  pair(array, strides, &inside, &outside);
  outside.data = data;
  if (inside.data)
    tn__tensor_copy(&outside, &inside);
  else
    memset(data, 0, bytes);
  return TN_OK;
}
