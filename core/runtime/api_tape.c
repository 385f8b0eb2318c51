/* SPDX-License-Identifier: Apache-2.0
 * api_tape.c: the functions of tenon.h about tapes. Each checks its arguments
 * and calls core/tape.
 */
#include "runtime.h"
#include "tape.h"

static tn_code check_tape(const tn_tape *tape) {
  return tn__runtime_check(tape->caller->env);
}

tn_code tn_tape_create(tn_runtime *rt, tn_tape **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__tape_create(&rt->caller, out);
}

/* In a forked child nothing is freed, because locks may be held for ever there.
 */
void tn_tape_release(tn_tape *tape) {
  if (!tape) return;
  const tn_runtime *rt = tape->caller->env->owner;
  if (tn__creator_is_here(&rt->creator)) tn__tape_release(tape);
}

tn_code tn_tape_watch(tn_tape *tape, tn_array *array) {
  TN__REQUIRE(tape);
  TN__REQUIRE(array);
  TN__TRY(check_tape(tape));
  return tn__tape_watch(tape, array);
}

tn_code tn_tape_detach(tn_tape *tape, tn_array *array, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(tape);
  TN__REQUIRE(array);
  TN__TRY(check_tape(tape));
  return tn__tape_detach(tape, array, out);
}

/* ------------------------------------------------------------------ calls */

/* The arguments of a call, and the name of its public function. */
typedef struct request {
  const char *function;
  tn_tape *tape;
  tn_operator *op;
  const tn_params *params;
  uint32_t flags;
} request;

static tn_code call_on_tape(const request *r, const tn_inputs *in,
                            const tn_outputs *out) {
  TN__TRY(tn__argument_check(r->tape, r->function, "tape"));
  TN__TRY(tn__argument_check(r->op, r->function, "op"));
  TN__TRY(tn__argument_check(in, r->function, "in"));
  TN__TRY(tn__argument_check(out, r->function, "out"));
  if (in->n > 0)
    TN__TRY(tn__argument_check(in->arrays, r->function, "in->arrays"));
  if (out->n > 0)
    TN__TRY(tn__argument_check(out->arrays, r->function, "out->arrays"));
  TN__TRY(check_tape(r->tape));
  TN__TRY(tn__runtime_check_call(r->tape->caller->env, r->function));
  const tn__target_op target = {r->tape->caller, r->op, r->params,
                                TN_PASS_FORWARD, r->flags};
  return tn__tape_call(r->tape, &target, in, out);
}

tn_code tn_tape_call(tn_tape *tape, tn_operator *op, const tn_inputs *in,
                     const tn_params *params, const tn_outputs *out) {
  return call_on_tape(&(request){__func__, tape, op, params, 0}, in, out);
}

tn_code tn_tape_call_train(tn_tape *tape, tn_operator *op, const tn_inputs *in,
                           const tn_params *params, const tn_outputs *out) {
  return call_on_tape(&(request){__func__, tape, op, params, TN_CALL_TRAIN}, in,
                      out);
}

/* --------------------------------------------------------------- gradient */

tn_code tn_tape_gradient(tn_tape *tape, const tn_tape_query *query) {
  TN__REQUIRE(tape);
  TN__REQUIRE(query);
  if (query->struct_size < sizeof *query)
    return tn__fail(TN_INVALID,
                    "tn_tape_query.struct_size is %u; set it to"
                    " sizeof(tn_tape_query)",
                    (unsigned)query->struct_size);
  if (query->flags & ~(uint32_t)(TN_TAPE_KEEP | TN_TAPE_RECORD))
    return tn__fail(TN_INVALID,
                    "tn_tape_query.flags is 0x%x; it may have TN_TAPE_KEEP and"
                    " TN_TAPE_RECORD only",
                    (unsigned)query->flags);
  if (query->heads.n > 0) TN__REQUIRE(query->heads.arrays);
  if (query->head_gradients.n > 0) TN__REQUIRE(query->head_gradients.arrays);
  if (query->of.n > 0) TN__REQUIRE(query->of.arrays);
  if (query->gradients.n > 0) TN__REQUIRE(query->gradients.arrays);
  TN__TRY(check_tape(tape));
  TN__TRY(tn__runtime_check_call(tape->caller->env, __func__));
  return tn__tape_gradient(tape, query);
}
