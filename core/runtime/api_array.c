/* SPDX-License-Identifier: Apache-2.0
 * api_array.c: the functions of tenon.h about arrays and calls.
 */
#include "runtime.h"

/* ----------------------------------------------------------------- arrays */

tn_code tn_array_create(tn_runtime *rt, const tn_spec *spec, tn_array **out) {
  TN__WANT(out);
  *out = NULL;
  TN__WANT(rt);
  TN__WANT(spec);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__array_create(&rt->env, spec, out);
}

tn_array *tn_array_retain(tn_array *array) {
  if (array)
    atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  return array;
}

void tn_array_release(tn_array *array) {
  tn__array_release(array);
}

tn_code tn_array_set(tn_array *array, const void *data, size_t bytes) {
  TN__WANT(array);
  if (bytes > 0) TN__WANT(data);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_set(array, data, bytes);
}

tn_code tn_array_get(tn_array *array, void *data, size_t bytes) {
  TN__WANT(array);
  if (bytes > 0) TN__WANT(data);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_get(array, data, bytes);
}

const tn_tensor *tn_array_tensor(const tn_array *array) {
  return array ? tn__array_tensor(array) : NULL;
}

int64_t tn_array_size(const tn_array *array) {
  return array ? tn_tensor_size(&array->tensor) : 0;
}

tn_code tn_array_slice(tn_array *array, const tn_range *range, tn_array **out) {
  TN__WANT(out);
  *out = NULL;
  TN__WANT(array);
  TN__WANT(range);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_slice(array, range, out);
}

tn_code tn_array_index(tn_array *array, int32_t axis, int64_t index,
                       tn_array **out) {
  TN__WANT(out);
  *out = NULL;
  TN__WANT(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_index(array, axis, index, out);
}

tn_code tn_array_reshape(tn_array *array, int32_t ndim, const int64_t *shape,
                         tn_array **out) {
  TN__WANT(out);
  *out = NULL;
  TN__WANT(array);
  if (ndim > 0) TN__WANT(shape);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_reshape(array, ndim, shape, out);
}

tn_code tn_array_transpose(tn_array *array, const int32_t *axes,
                           tn_array **out) {
  TN__WANT(out);
  *out = NULL;
  TN__WANT(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_transpose(array, axes, out);
}

tn_code tn_array_broadcast(tn_array *array, int32_t ndim, const int64_t *shape,
                           tn_array **out) {
  TN__WANT(out);
  *out = NULL;
  TN__WANT(array);
  if (ndim > 0) TN__WANT(shape);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_broadcast(array, ndim, shape, out);
}

/* ------------------------------------------------------------------ calls */

/* The lists of a forward call, for a public function of this name. */
static tn_code lists_check(const char *function, const tn_inputs *in,
                           const tn_outputs *out) {
  TN__TRY(tn__argument_check(in, function, "in"));
  TN__TRY(tn__argument_check(out, function, "out"));
  if (in->n > 0)
    TN__TRY(tn__argument_check(in->arrays, function, "in->arrays"));
  if (out->n > 0)
    TN__TRY(tn__argument_check(out->arrays, function, "out->arrays"));
  return TN_OK;
}

tn_code tn_call(tn_runtime *rt, tn_operator *op, const tn_inputs *in,
                const tn_params *params, const tn_outputs *out) {
  TN__WANT(rt);
  TN__WANT(op);
  TN__TRY(lists_check(__func__, in, out));
  TN__TRY(tn__runtime_check(&rt->env));
  const tn__target_op target = {&rt->caller, op, params, TN_PASS_FORWARD, 0};
  return tn__call(&target, in, out);
}

tn_code tn_call_train(tn_runtime *rt, tn_operator *op, const tn_inputs *in,
                      const tn_params *params, const tn_outputs *out) {
  TN__WANT(rt);
  TN__WANT(op);
  TN__TRY(lists_check(__func__, in, out));
  TN__TRY(tn__runtime_check(&rt->env));
  const tn__target_op target = {&rt->caller, op, params, TN_PASS_FORWARD,
                                TN_CALL_TRAIN};
  return tn__call(&target, in, out);
}

tn_code tn_call_backward(tn_runtime *rt, tn_operator *op,
                         const tn_backward *call) {
  TN__WANT(rt);
  TN__WANT(op);
  TN__WANT(call);
  if (call->struct_size < sizeof *call)
    return tn__fail(TN_INVALID,
                    "tn_backward.struct_size is %u; set it to"
                    " sizeof(tn_backward)",
                    (unsigned)call->struct_size);
  if (call->flags & ~(uint32_t)TN_CALL_TRAIN)
    return tn__fail(TN_INVALID,
                    "tn_backward.flags is 0x%x; it may have TN_CALL_TRAIN only",
                    (unsigned)call->flags);
  if (call->inputs.n > 0) TN__WANT(call->inputs.arrays);
  if (call->outputs.n > 0) TN__WANT(call->outputs.arrays);
  if (call->out_grads.n > 0) TN__WANT(call->out_grads.arrays);
  if (call->in_grads.n > 0) TN__WANT(call->in_grads.arrays);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__call_backward(&rt->caller, op, call);
}
