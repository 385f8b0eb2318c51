/* SPDX-License-Identifier: Apache-2.0
 * api_array.c: the functions of tenon.h about arrays and their views. Each
 * checks its arguments and calls core/ndarray.
 */
#include "runtime.h"

/* ------------------------------------------------------------------- life */

tn_code tn_array_create(tn_runtime *rt, const tn_spec *spec, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(spec);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__array_create(&rt->env, spec, out);
}

typedef tn_code create_at(tn__device *device, const tn_spec *spec,
                          tn_array **out);

static tn_code create_for(tn_runtime *rt, const tn_spec *spec, tn_place place,
                          create_at *create, tn_array **out) {
  tn__device *device = NULL;
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(spec);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(tn__device_find(rt->devices, place.device_type, place.device_id,
                          &device));
  return create(device, spec, out);
}

tn_code tn_array_create_on(tn_runtime *rt, const tn_spec *spec, tn_place place,
                           tn_array **out) {
  return create_for(rt, spec, place, tn__array_create_on, out);
}

tn_code tn_array_create_pinned(tn_runtime *rt, const tn_spec *spec,
                               tn_place place, tn_array **out) {
  return create_for(rt, spec, place, tn__array_create_pinned, out);
}

tn_array *tn_array_retain(tn_array *array) {
  if (array)
    atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  return array;
}

/* In a forked child nothing is freed, because locks may be held for ever there.
 */
void tn_array_release(tn_array *array) {
  if (!array) return;
  const tn_runtime *rt = array->env->owner;
  if (tn__creator_is_here(&rt->creator)) tn__array_release(array);
}

const tn_tensor *tn_array_tensor(const tn_array *array) {
  return array ? tn__array_tensor(array) : NULL;
}

int64_t tn_array_size(const tn_array *array) {
  return array ? tn_tensor_size(&array->tensor) : 0;
}

/* --------------------------------------------------------------- elements */

tn_code tn_array_set(tn_array *array, const void *data, size_t bytes) {
  TN__REQUIRE(array);
  if (bytes > 0) TN__REQUIRE(data);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_set(array, data, bytes);
}

tn_code tn_array_get(tn_array *array, void *data, size_t bytes) {
  TN__REQUIRE(array);
  if (bytes > 0) TN__REQUIRE(data);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_get(array, data, bytes);
}

tn_code tn_array_wait(tn_array *array) {
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_wait(array, TN__WAIT_WRITERS, TN__UNTIL_INTERRUPTED);
}

tn_code tn_array_wait_write(tn_array *array) {
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_wait(array, TN__WAIT_ALL, TN__UNTIL_INTERRUPTED);
}

tn_code tn_array_wait_for(tn_array *array, uint64_t ns) {
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_wait(array, TN__WAIT_WRITERS, ns);
}

tn_code tn_array_copy(tn_array *to, tn_array *from) {
  TN__REQUIRE(to);
  TN__REQUIRE(from);
  TN__TRY(tn__runtime_check(to->env));
  return tn__array_copy(to, from);
}

tn_code tn_array_cast(tn_array *array, tn_dtype dtype, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_cast(array, dtype, out);
}

tn_code tn_array_to(tn_array *array, tn_place place, tn_array **out) {
  tn__device *device = NULL;
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  const tn_runtime *rt = array->env->owner;
  TN__TRY(tn__device_find(rt->devices, place.device_type, place.device_id,
                          &device));
  return tn__array_to(array, device, out);
}

/* ------------------------------------------------------------------ views */

tn_code tn_array_slice(tn_array *array, const tn_range *range, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__REQUIRE(range);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_slice(array, range, out);
}

tn_code tn_array_index(tn_array *array, int32_t axis, int64_t index,
                       tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_index(array, axis, index, out);
}

tn_code tn_array_reshape(tn_array *array, int32_t ndim, const int64_t *shape,
                         tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  if (ndim > 0) TN__REQUIRE(shape);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_reshape(array, ndim, shape, out);
}

tn_code tn_array_transpose(tn_array *array, const int32_t *axes,
                           tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_transpose(array, axes, out);
}

tn_code tn_array_broadcast(tn_array *array, int32_t ndim, const int64_t *shape,
                           tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  if (ndim > 0) TN__REQUIRE(shape);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_broadcast(array, ndim, shape, out);
}

tn_code tn_array_bits(tn_array *array, tn_dtype dtype, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_bits(array, dtype, out);
}
