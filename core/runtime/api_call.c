/* SPDX-License-Identifier: Apache-2.0
 * api_call.c: the functions of tenon.h about calls and prepared calls. Each
 * checks its arguments and calls core/call.
 */
#include "runtime.h"

/* Checks the lists of a forward call, for a public function of this name. */
static tn_code check_lists(const char *function, const tn_inputs *in,
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
  TN__REQUIRE(rt);
  TN__REQUIRE(op);
  TN__TRY(check_lists(__func__, in, out));
  TN__TRY(tn__runtime_check_call(&rt->env, __func__));
  const tn__target_op target = {&rt->caller, op, params, TN_PASS_FORWARD, 0};
  return tn__call(&target, in, out);
}

tn_code tn_call_train(tn_runtime *rt, tn_operator *op, const tn_inputs *in,
                      const tn_params *params, const tn_outputs *out) {
  TN__REQUIRE(rt);
  TN__REQUIRE(op);
  TN__TRY(check_lists(__func__, in, out));
  TN__TRY(tn__runtime_check_call(&rt->env, __func__));
  const tn__target_op target = {&rt->caller, op, params, TN_PASS_FORWARD,
                                TN_CALL_TRAIN};
  return tn__call(&target, in, out);
}

tn_code tn_call_backward(tn_runtime *rt, tn_operator *op,
                         const tn_backward *call) {
  TN__REQUIRE(rt);
  TN__REQUIRE(op);
  TN__REQUIRE(call);
  if (call->struct_size < sizeof *call)
    return tn__fail(TN_INVALID,
                    "tn_backward.struct_size is %u; set it to"
                    " sizeof(tn_backward)",
                    (unsigned)call->struct_size);
  if (call->flags & ~(uint32_t)TN_CALL_TRAIN)
    return tn__fail(TN_INVALID,
                    "tn_backward.flags is 0x%x; it may have TN_CALL_TRAIN only",
                    (unsigned)call->flags);
  if (call->inputs.n > 0) TN__REQUIRE(call->inputs.arrays);
  if (call->outputs.n > 0) TN__REQUIRE(call->outputs.arrays);
  if (call->out_grads.n > 0) TN__REQUIRE(call->out_grads.arrays);
  if (call->in_grads.n > 0) TN__REQUIRE(call->in_grads.arrays);
  TN__TRY(tn__runtime_check_call(&rt->env, __func__));
  return tn__call_backward(&rt->caller, op, call);
}

/* --------------------------------------------------------- prepared calls */

static tn_code check_preparation(const tn_preparation *what) {
  if (what->struct_size < sizeof *what)
    return tn__fail(TN_INVALID,
                    "tn_preparation.struct_size is %u; set it to"
                    " sizeof(tn_preparation)",
                    (unsigned)what->struct_size);
  if (what->flags & ~(uint32_t)TN_CALL_TRAIN)
    return tn__fail(TN_INVALID,
                    "tn_preparation.flags is 0x%x; it may have TN_CALL_TRAIN"
                    " only",
                    (unsigned)what->flags);
  TN__TRY(tn__argument_check(what->op, "tn_call_prepare", "what->op"));
  return check_lists("tn_call_prepare", &what->inputs, &what->outputs);
}

tn_code tn_call_prepare(tn_runtime *rt, const tn_preparation *what,
                        tn_prepared **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(what);
  TN__TRY(check_preparation(what));
  TN__TRY(tn__runtime_check(&rt->env));
  const tn__target_op target = {&rt->caller, what->op, what->params,
                                TN_PASS_FORWARD, what->flags};
  return tn__prepared_create(&target, &what->inputs, &what->outputs, out);
}

tn_code tn_call_run(tn_prepared *call) {
  TN__REQUIRE(call);
  TN__TRY(tn__runtime_check_call(tn__prepared_env(call), __func__));
  return tn__prepared_run(call);
}

tn_code tn_call_set(tn_prepared *call, const tn_value *value) {
  TN__REQUIRE(call);
  TN__REQUIRE(value);
  TN__TRY(tn__argument_check(value->key, __func__, "value->key"));
  TN__TRY(tn__runtime_check(tn__prepared_env(call)));
  return tn__prepared_set_param(call, value);
}

/* In a forked child nothing is freed, because locks may be held for ever there.
 */
void tn_prepared_release(tn_prepared *call) {
  if (!call) return;
  const tn_runtime *rt = tn__prepared_env(call)->owner;
  if (tn__creator_is_here(&rt->creator)) tn__prepared_release(call);
}
