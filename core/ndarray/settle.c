/* SPDX-License-Identifier: Apache-2.0
 * settle.c: shapes and dtypes of a bound call are inferred, given outputs are
 * checked against them, and arrays are made for the others.
 */
#include <string.h>

#include "call.h"

static void sig_of(const tn_array *array, tn_sig *sig) {
  const tn_tensor *t = &array->tensor;
  sig->dtype = t->dtype;
  sig->ndim = t->ndim;
  memcpy(sig->shape, t->shape, (size_t)t->ndim * sizeof *sig->shape);
}

static bool sig_known(const tn_sig *sig) {
  if (sig->dtype == TN_DTYPE_UNKNOWN || sig->ndim < 0) return false;
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0) return false;
  return true;
}

static bool is_dynamic(const tn__operand *operand) {
  return (operand->arg->flags & TN_ARG_DYNAMIC) != 0;
}

/* Outputs decide only what the inputs leave open; so a wrong one is told what
 * it should have been. A backward call knows an output by its gradient too. */
static bool feed_outputs(tn__work *w) {
  bool fed = false;
  bool backward = w->pass == TN_PASS_BACKWARD;
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    const tn_array *array = w->fwd_out[i].array;
    if (!array && backward) array = w->in_info[i].array;
    if (!array || sig_known(&w->io.out[i])) continue;
    if (!backward && is_dynamic(&w->fwd_out[i])) continue;
    sig_of(array, &w->io.out[i]);
    fed = true;
  }
  return fed;
}

/* Of output `i`. An array for which nothing is asked was not looked at. */
static tn_code incomplete(const tn__work *w, uint32_t i) {
  const tn__operand *operand = &w->fwd_out[i];
  const tn_sig *sig = &w->io.out[i];
  const bool asked = w->pass != TN_PASS_FORWARD || w->req[i] != TN_REQ_NULL;
  char text[TN__OPERAND_TEXT];
  tn__fail(TN_INCOMPLETE, "%s: the inputs do not tell what %s is; known is",
           w->op->name, tn__operand_text(operand, text));
  tn__fail_tensor(TN_INCOMPLETE, sig->dtype, sig->ndim, sig->shape);
  return tn__fail_more(TN_INCOMPLETE, "; give an output array%s",
                       asked ? "" : ", and ask for it");
}

/* What compute will decide need not be known. */
static tn_code outputs_known(tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    const tn_sig *sig = &w->io.out[i];
    if (sig_known(sig)) continue;
    if (is_dynamic(&w->fwd_out[i]) && sig->dtype != TN_DTYPE_UNKNOWN) continue;
    return incomplete(w, i);
  }
  return TN_OK;
}

tn_code tn__work_infer(tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_in; ++i)
    if (!w->absent[i]) sig_of(w->fwd_in[i].array, &w->io.in[i]);
  for (uint32_t i = 0; i < w->counts.n_aux; ++i)
    sig_of(w->aux_info[i].array, &w->io.aux[i]);
  const tn__infer_args args = {w->desc,   w->op->name,      w->params,
                               w->absent, &w->launch.frame, true};
  tn_code rc = tn__infer_signature(&args, &w->io);
  if (rc == TN_INCOMPLETE && feed_outputs(w)) {
    w->fed = 1;
    rc = tn__infer_signature(&args, &w->io);
  }
  return rc == TN_INCOMPLETE ? outputs_known(w) : rc;
}

tn_code tn__work_match(const tn__work *w, const tn__operand *operand,
                       const tn_sig *sig) {
  const tn_tensor *t = &operand->array->tensor;
  tn_code code = TN_OK;
  if (t->ndim != sig->ndim ||
      memcmp(t->shape, sig->shape, (size_t)t->ndim * sizeof *t->shape) != 0)
    code = TN_SHAPE;
  if (t->dtype != sig->dtype) code = TN_DTYPE;
  if (code == TN_OK) return TN_OK;
  char text[TN__OPERAND_TEXT];
  tn__fail(code, "%s: %s must be", w->op->name,
           tn__operand_text(operand, text));
  tn__fail_tensor(code, sig->dtype, sig->ndim, sig->shape);
  tn__fail_more(code, ", but the given array is");
  tn__fail_tensor(code, t->dtype, t->ndim, t->shape);
  return code;
}

tn_code tn__work_make(tn__work *w, tn__operand *operand, const tn_sig *sig) {
  const tn_spec spec = {sig->dtype, sig->ndim, sig->shape};
  TN__TRY(tn__array_create_on(w->device, &spec, &operand->array));
  operand->owned = 1;
  return TN_OK;
}

/* An array that is made for TN_REQ_NULL never gets memory. */
tn_code tn__work_settle(tn__work *w, uint32_t i, const tn_sig *sig) {
  tn__operand *operand = &w->out_info[i];
  if (w->pass == TN_PASS_FORWARD && is_dynamic(operand)) {
    operand->dynamic = 1;
    return TN_OK;
  }
  if (operand->array) return tn__work_match(w, operand, sig);
  return tn__work_make(w, operand, sig);
}
