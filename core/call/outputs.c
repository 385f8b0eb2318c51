/* SPDX-License-Identifier: Apache-2.0
 * outputs.c: infers shapes and dtypes of a call, checks the caller's outputs
 * against them, and creates arrays for the other outputs.
 */
#include <string.h>

#include "call.h"

static void sig_of(const tn_array *array, tn_sig *sig) {
  const tn_tensor *t = &array->tensor;
  sig->dtype = t->dtype;
  sig->ndim = t->ndim;
  memcpy(sig->shape, t->shape, (size_t)t->ndim * sizeof *sig->shape);
}

static bool is_sig_known(const tn_sig *sig) {
  if (sig->dtype == TN_DTYPE_UNKNOWN || sig->ndim < 0) return false;
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0) return false;
  return true;
}

static bool is_dynamic(const tn__operand *operand) {
  return (operand->arg->flags & TN_ARG_DYNAMIC) != 0;
}

/* Takes signatures from the caller's outputs. They decide only shapes and
 * dtypes that the inputs leave open, so that the message for a wrong output can
 * state the right signature. A backward call also takes an output's signature
 * from its gradient. */
static bool take_output_sigs(tn__call_state *s) {
  bool fed = false;
  bool backward = s->pass == TN_PASS_BACKWARD;
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    const tn_array *array = s->fwd_out[i].array;
    if (!array && backward) array = s->in_info[i].array;
    if (!array || is_sig_known(&s->io.out[i])) continue;
    if (!backward && is_dynamic(&s->fwd_out[i])) continue;
    sig_of(array, &s->io.out[i]);
    fed = true;
  }
  return fed;
}

/* Takes the shapes of dynamic outputs, which the kernel has set, for a backward
 * call: from the outputs, or from their gradients if the call has no outputs.
 * No rule determines them. */
static bool take_dynamic_sigs(tn__call_state *s) {
  bool fed = false;
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    const tn_array *array = s->fwd_out[i].array;
    if (!is_dynamic(&s->fwd_out[i])) continue;
    if (!array) array = s->in_info[i].array;
    if (!array) continue;
    sig_of(array, &s->io.out[i]);
    fed = true;
  }
  return fed;
}

/* Fails for output `i`. Its array, if not requested, was ignored. */
static tn_code fail_incomplete(const tn__call_state *s, uint32_t i) {
  const tn__operand *operand = &s->fwd_out[i];
  const tn_sig *sig = &s->io.out[i];
  const bool requested = s->pass != TN_PASS_FORWARD || s->req[i] != TN_REQ_NULL;
  char text[TN__OPERAND_TEXT];
  tn__fail(TN_INCOMPLETE, "%s: the inputs do not determine %s; known is",
           s->op->name, tn__operand_text(operand, text));
  tn__fail_tensor(TN_INCOMPLETE, sig->dtype, sig->ndim, sig->shape);
  return tn__fail_more(TN_INCOMPLETE, "; give an output array%s",
                       requested ? "" : ", and ask for it");
}

/* Checks that all outputs are known, except for shapes that the kernel sets. */
static tn_code outputs_known(tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    const tn_sig *sig = &s->io.out[i];
    if (is_sig_known(sig)) continue;
    if (is_dynamic(&s->fwd_out[i]) && sig->dtype != TN_DTYPE_UNKNOWN) continue;
    return fail_incomplete(s, i);
  }
  return TN_OK;
}

tn_code tn__call_infer_operands(tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_in; ++i)
    if (!s->absent[i]) sig_of(s->fwd_in[i].array, &s->io.in[i]);
  for (uint32_t i = 0; i < s->counts.n_aux; ++i)
    sig_of(s->aux_info[i].array, &s->io.aux[i]);
  if (s->pass == TN_PASS_BACKWARD && take_dynamic_sigs(s)) s->from_outputs = 1;
  const tn__infer_args args = {s->desc,   s->op->name,      s->params,
                               s->absent, &s->launch.frame, true};
  tn_code rc = tn__infer_signature(&args, &s->io);
  if (rc == TN_INCOMPLETE && take_output_sigs(s)) {
    s->from_outputs = 1;
    rc = tn__infer_signature(&args, &s->io);
  }
  return rc == TN_INCOMPLETE ? outputs_known(s) : rc;
}

tn_code tn__call_check_operand(const tn__call_state *s,
                               const tn__operand *operand, const tn_sig *sig) {
  const tn_tensor *t = &operand->array->tensor;
  tn_code code = TN_OK;
  if (t->ndim != sig->ndim ||
      memcmp(t->shape, sig->shape, (size_t)t->ndim * sizeof *t->shape) != 0)
    code = TN_SHAPE;
  if (t->dtype != sig->dtype) code = TN_DTYPE;
  if (code == TN_OK) return TN_OK;
  char text[TN__OPERAND_TEXT];
  tn__fail(code, "%s: %s must be", s->op->name,
           tn__operand_text(operand, text));
  tn__fail_tensor(code, sig->dtype, sig->ndim, sig->shape);
  tn__fail_more(code, ", but the given array is");
  tn__fail_tensor(code, t->dtype, t->ndim, t->shape);
  return code;
}

tn_code tn__call_create_array(tn__call_state *s, tn__operand *operand,
                              const tn_sig *sig) {
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  TN__TRY(tn__array_create_on(s->device, &spec, &operand->array));
  operand->owned = 1;
  return TN_OK;
}

/* A new array for TN_REQ_NULL never gets memory. */
tn_code tn__call_resolve_output(tn__call_state *s, uint32_t i,
                                const tn_sig *sig) {
  tn__operand *operand = &s->out_info[i];
  if (s->pass == TN_PASS_FORWARD && is_dynamic(operand)) {
    operand->dynamic = 1;
    return TN_OK;
  }
  if (operand->array) return tn__call_check_operand(s, operand, sig);
  return tn__call_create_array(s, operand, sig);
}
