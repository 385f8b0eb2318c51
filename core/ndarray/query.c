/* SPDX-License-Identifier: Apache-2.0
 * query.c: what a call would do, without making it: shapes and dtypes that
 * follow, and kernels that apply. Not on the path of calls.
 */
#include "call.h"

/* ----------------------------------------------------------------- infer */

static tn_code sig_check(const tn__work *w, const tn_sig *sig, const char *list,
                         uint32_t i) {
  if (sig->ndim < -1 || sig->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID, "%s: %s[%u].ndim is %d; it must be -1 to %d",
                    w->op->name, list, i, (int)sig->ndim, TN_MAX_NDIM);
  if (sig->dtype != TN_DTYPE_UNKNOWN && !tn__dtype_bit(sig->dtype))
    return tn__fail(TN_DTYPE,
                    "%s: %s[%u].dtype is 0x%x, which is no element"
                    " type of op.h",
                    w->op->name, list, i, (unsigned)sig->dtype);
  for (int32_t k = 0; k < sig->ndim; ++k)
    if (sig->shape[k] < -1)
      return tn__fail(TN_INVALID,
                      "%s: %s[%u].shape[%d] is %lld; it must be -1"
                      " or more",
                      w->op->name, list, i, (int)k, (long long)sig->shape[k]);
  return TN_OK;
}

static tn_code list_check(const tn__work *w, const tn_sig *list, uint32_t n,
                          const char *name) {
  if (n == 0 || list) return TN_OK;
  return tn__fail(TN_INVALID, "%s: %u entries of %s, but the list is NULL",
                  w->op->name, n, name);
}

static tn_code sigs_copy(const tn__work *w, tn_sig *to, const tn_sig *from,
                         uint32_t n, const char *list) {
  TN__TRY(list_check(w, from, n, list));
  for (uint32_t i = 0; i < n; ++i) {
    TN__TRY(sig_check(w, &from[i], list, i));
    to[i] = from[i];
  }
  return TN_OK;
}

/* What tn_sig.ndim is for an optional input that is not given. */
enum { ABSENT = -2 };

static const tn_arg *input_at(const tn_op *op, uint32_t i) {
  return op->inputs[i < op->n_inputs ? i : op->n_inputs - 1];
}

/* An absent input is marked, and nothing is known of it. */
static tn_code input_copy(tn__work *w, const tn_sig *sig, uint32_t i) {
  static const tn_sig unknown = {.ndim = -1};
  const tn_arg *arg = input_at(w->desc, i);
  w->absent[i] = sig->ndim == ABSENT;
  w->io.in[i] = w->absent[i] ? unknown : *sig;
  if (!w->absent[i]) return sig_check(w, sig, "in", i);
  if (arg->flags & TN_ARG_OPTIONAL) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: in[%u].ndim is %d, which says that `%s` is absent, but "
                  "this input is not optional",
                  w->op->name, i, ABSENT, arg->name);
}

static tn_code inputs_copy(tn__work *w, const tn_signature *io) {
  TN__TRY(list_check(w, io->in, io->n_in, "in"));
  for (uint32_t i = 0; i < io->n_in; ++i) TN__TRY(input_copy(w, &io->in[i], i));
  for (uint32_t i = io->n_in; i < w->counts.n_in; ++i) w->absent[i] = 1;
  return TN_OK;
}

static tn_code io_count(tn__work *w, const tn_signature *io) {
  const tn__counts *c = &w->counts;
  const tn_inputs counted = {(size_t)io->n_in + w->desc->n_aux, NULL};
  TN__TRY(tn__work_count(w, &counted));
  if ((io->n_out == c->n_out || io->n_out == c->n_visible) &&
      (io->n_aux == c->n_aux || io->n_aux == 0))
    return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s has %u outputs (%u of them visible) and %u"
                  " aux states, but the signature has %u and %u",
                  w->op->name, c->n_out, c->n_visible, c->n_aux, io->n_out,
                  io->n_aux);
}

static tn_code io_complete(tn__work *w, tn_signature *io) {
  TN__TRY(io_count(w, io));
  TN__TRY(tn__work_room(w));
  TN__TRY(inputs_copy(w, io));
  TN__TRY(sigs_copy(w, w->io.out, io->out, io->n_out, "out"));
  TN__TRY(sigs_copy(w, w->io.aux, io->aux, io->n_aux, "aux"));
  const tn__infer_args args = {w->desc,   w->op->name,      w->params,
                               w->absent, &w->launch.frame, true};
  tn_code rc = tn__infer_signature(&args, &w->io);
  if (rc != TN_OK && rc != TN_INCOMPLETE) return rc;
  for (uint32_t i = 0; i < io->n_in; ++i)
    if (!w->absent[i]) io->in[i] = w->io.in[i];
  for (uint32_t i = 0; i < io->n_out; ++i) io->out[i] = w->io.out[i];
  for (uint32_t i = 0; i < io->n_aux; ++i) io->aux[i] = w->io.aux[i];
  return rc;
}

tn_code tn__call_infer(tn__caller *caller, tn_operator *op,
                       const tn_params *params, tn_signature *io) {
  tn__work w;
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  TN__TRY(tn__work_begin(&w, &target));
  return tn__work_end(&w, io_complete(&w, io));
}

static tn_code outputs_count(tn__work *w, uint32_t n_in,
                             tn__output_counts *out) {
  const tn_inputs counted = {(size_t)n_in + w->desc->n_aux, NULL};
  TN__TRY(tn__work_count(w, &counted));
  *out = (tn__output_counts){w->counts.n_out, w->counts.n_visible};
  return TN_OK;
}

tn_code tn__call_outputs(tn__caller *caller, tn_operator *op,
                         const tn_params *params, uint32_t n_in,
                         tn__output_counts *out) {
  tn__work w;
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  TN__TRY(tn__work_begin(&w, &target));
  return tn__work_end(&w, outputs_count(&w, n_in, out));
}

/* --------------------------------------------------------------- explain */

static void declare_wanted(tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    tn__operand *operand = &w->out_info[i];
    operand->arg = w->desc->outputs[tn__work_arg_out(w, i, &operand->member)];
    operand->what = "output";
    operand->source = -1;
    w->req[i] = TN_REQ_WRITE;
    w->alias[i] = -1;
  }
}

/* The frame as a call of these inputs into new outputs would show it. */
static tn_code frame_make(tn__work *w, const tn_inputs *in) {
  TN__TRY(tn__work_count(w, in));
  TN__TRY(tn__work_room(w));
  declare_wanted(w);
  TN__TRY(tn__work_bind_inputs(w, in));
  TN__TRY(tn__work_place(w));
  TN__TRY(tn__work_infer(w));
  for (uint32_t i = 0; i < w->counts.n_out; ++i)
    TN__TRY(tn__work_settle(w, i, &w->io.out[i]));
  tn__work_frame(w);
  TN__TRY(tn__work_lower_inputs(w));
  tn__find_dtype_vars(w->desc, &w->io, w->vars);
  return TN_OK;
}

static tn_code explain(const tn__env *env, tn_operator *op,
                       const tn__query *query, tn_text **out) {
  tn__buf buf;
  tn__buf_init(&buf, env);
  tn__kernel_explain(op, query, &buf);
  tn_code rc = tn__buf_text(&buf, out);
  tn__buf_deinit(&buf);
  return rc;
}

static tn_code explain_call(tn__work *w, const tn_inputs *in, tn_text **out) {
  TN__TRY(frame_make(w, in));
  const tn__query query = {TN_PASS_FORWARD,  w->device->type, w->vars,
                           &w->launch.frame, &w->io,          w->absent};
  return explain(w->caller->env, w->op, &query, out);
}

/* Without inputs the params do not matter, and need not have defaults. */
static tn_code explain_always(const tn__env *env, tn_operator *op,
                              tn_text **out) {
  const tn__query query = {.pass = TN_PASS_FORWARD,
                           .device_type = TN_DEVICE_CPU};
  TN__TRY(tn__operator_hold(op));
  tn_code rc = explain(env, op, &query, out);
  tn__operator_unhold(op);
  return rc;
}

tn_code tn__call_explain(tn__caller *caller, tn_operator *op,
                         const tn_inputs *in, const tn_params *params,
                         tn_text **out) {
  tn__work w;
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  *out = NULL;
  if (!in) return explain_always(caller->env, op, out);
  TN__TRY(tn__work_begin(&w, &target));
  return tn__work_end(&w, explain_call(&w, in, out));
}
