/* SPDX-License-Identifier: Apache-2.0
 * call_query.c: predicts a call without making it: inferred shapes and dtypes,
 * and the kernels that apply. Calls do not use this file.
 */
#include "call.h"

/* -------------------------------------------------------------------- infer */

static tn_code check_sig(const tn__call_state *s, const tn_sig *sig,
                         const char *list, uint32_t i) {
  if (sig->ndim < -1 || sig->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID, "%s: %s[%u].ndim is %d; it must be -1 to %d",
                    s->op->name, list, i, (int)sig->ndim, TN_MAX_NDIM);
  if (sig->dtype != TN_DTYPE_UNKNOWN && !tn__dtype_bit(sig->dtype))
    return tn__fail(TN_DTYPE,
                    "%s: %s[%u].dtype is 0x%x, which is no element"
                    " type of op.h",
                    s->op->name, list, i, (unsigned)sig->dtype);
  for (int32_t k = 0; k < sig->ndim; ++k)
    if (sig->shape[k] < -1)
      return tn__fail(TN_INVALID,
                      "%s: %s[%u].shape[%d] is %lld; it must be -1"
                      " or more",
                      s->op->name, list, i, (int)k, (long long)sig->shape[k]);
  return TN_OK;
}

static tn_code check_list(const tn__call_state *s, const tn_sig *list,
                          uint32_t n, const char *name) {
  if (n == 0 || list) return TN_OK;
  return tn__fail(TN_INVALID, "%s: %u entries of %s, but the list is NULL",
                  s->op->name, n, name);
}

static tn_code sigs_copy(const tn__call_state *s, tn_sig *to,
                         const tn_sig *from, uint32_t n, const char *list) {
  TN__TRY(check_list(s, from, n, list));
  for (uint32_t i = 0; i < n; ++i) {
    TN__TRY(check_sig(s, &from[i], list, i));
    to[i] = from[i];
  }
  return TN_OK;
}

/* Value of tn_sig.ndim for an absent optional input. */
enum { ABSENT = -2 };

static const tn_arg *input_at(const tn_op *op, uint32_t i) {
  return op->inputs[i < op->n_inputs ? i : op->n_inputs - 1];
}

/* Marks an absent input and leaves its signature unknown. */
static tn_code input_copy(tn__call_state *s, const tn_sig *sig, uint32_t i) {
  static const tn_sig unknown = {.ndim = -1};
  const tn_arg *arg = input_at(s->desc, i);
  s->absent[i] = sig->ndim == ABSENT;
  s->io.in[i] = s->absent[i] ? unknown : *sig;
  if (!s->absent[i]) return check_sig(s, sig, "in", i);
  if (arg->flags & TN_ARG_OPTIONAL) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: in[%u].ndim is %d, which says that `%s` is absent, but "
                  "this input is not optional",
                  s->op->name, i, ABSENT, arg->name);
}

static tn_code inputs_copy(tn__call_state *s, const tn_signature *io) {
  TN__TRY(check_list(s, io->in, io->n_in, "in"));
  for (uint32_t i = 0; i < io->n_in; ++i) TN__TRY(input_copy(s, &io->in[i], i));
  for (uint32_t i = io->n_in; i < s->counts.n_in; ++i) s->absent[i] = 1;
  return TN_OK;
}

static tn_code io_count(tn__call_state *s, const tn_signature *io) {
  const tn__operand_counts *c = &s->counts;
  const tn_inputs counted = {(size_t)io->n_in + s->desc->n_aux, NULL};
  TN__TRY(tn__call_count_operands(s, &counted));
  if ((io->n_out == c->n_out || io->n_out == c->n_visible) &&
      (io->n_aux == c->n_aux || io->n_aux == 0))
    return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s has %u outputs (%u of them visible) and %u"
                  " aux states, but the signature has %u and %u",
                  s->op->name, c->n_out, c->n_visible, c->n_aux, io->n_out,
                  io->n_aux);
}

static tn_code io_complete(tn__call_state *s, tn_signature *io) {
  TN__TRY(io_count(s, io));
  TN__TRY(tn__call_reserve_operands(s));
  TN__TRY(inputs_copy(s, io));
  TN__TRY(sigs_copy(s, s->io.out, io->out, io->n_out, "out"));
  TN__TRY(sigs_copy(s, s->io.aux, io->aux, io->n_aux, "aux"));
  const tn__infer_args args = {s->desc,   s->op->name,      s->params,
                               s->absent, &s->launch.frame, true};
  tn_code rc = tn__infer_signature(&args, &s->io);
  if (rc != TN_OK && rc != TN_INCOMPLETE) return rc;
  for (uint32_t i = 0; i < io->n_in; ++i)
    if (!s->absent[i]) io->in[i] = s->io.in[i];
  for (uint32_t i = 0; i < io->n_out; ++i) io->out[i] = s->io.out[i];
  for (uint32_t i = 0; i < io->n_aux; ++i) io->aux[i] = s->io.aux[i];
  return rc;
}

tn_code tn__call_infer(tn__caller *caller, tn_operator *op,
                       const tn_params *params, tn_signature *io) {
  tn__call_state s;
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  TN__TRY(tn__call_state_init(&s, &target));
  return tn__call_state_deinit(&s, io_complete(&s, io));
}

static tn_code outputs_count(tn__call_state *s, uint32_t n_in,
                             tn__output_counts *out) {
  const tn_inputs counted = {(size_t)n_in + s->desc->n_aux, NULL};
  TN__TRY(tn__call_count_operands(s, &counted));
  *out = (tn__output_counts){s->counts.n_out, s->counts.n_visible};
  return TN_OK;
}

tn_code tn__call_outputs(tn__caller *caller, tn_operator *op,
                         const tn_params *params, uint32_t n_in,
                         tn__output_counts *out) {
  tn__call_state s;
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  TN__TRY(tn__call_state_init(&s, &target));
  return tn__call_state_deinit(&s, outputs_count(&s, n_in, out));
}

/* ------------------------------------------------------------------ explain */

static void declare_wanted(tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    tn__operand *operand = &s->out_info[i];
    operand->arg =
        s->desc->outputs[tn__call_find_output_arg(s, i, &operand->member)];
    operand->role = "output";
    operand->source = -1;
    s->req[i] = TN_REQ_WRITE;
    s->alias[i] = -1;
  }
}

/* Fills the frame like a call with these inputs and new outputs. */
static tn_code frame_make(tn__call_state *s, const tn_inputs *in) {
  TN__TRY(tn__call_count_operands(s, in));
  TN__TRY(tn__call_reserve_operands(s));
  declare_wanted(s);
  TN__TRY(tn__call_bind_inputs(s, in));
  TN__TRY(tn__call_find_device(s));
  TN__TRY(tn__call_infer_operands(s));
  for (uint32_t i = 0; i < s->counts.n_out; ++i)
    TN__TRY(tn__call_resolve_output(s, i, &s->io.out[i]));
  tn__call_fill_frame(s);
  TN__TRY(tn__call_lower_inputs(s));
  tn__find_dtype_vars(s->desc, &s->io, s->vars);
  return TN_OK;
}

static tn_code explain_query(const tn__env *env, tn_operator *op,
                             const tn__query *query, tn_text **out) {
  tn__buf buf;
  tn__buf_init(&buf, env);
  tn__kernel_explain(op, query, &buf);
  tn_code rc = tn__buf_text(&buf, out);
  tn__buf_deinit(&buf);
  return rc;
}

static tn_code explain_call(tn__call_state *s, const tn_inputs *in,
                            tn_text **out) {
  TN__TRY(frame_make(s, in));
  const tn__query query = {TN_PASS_FORWARD,  s->device->type, s->vars,
                           &s->launch.frame, &s->io,          s->absent};
  return explain_query(s->caller->env, s->op, &query, out);
}

/* Without inputs the params do not matter and need no defaults. */
static tn_code explain_always(const tn__env *env, tn_operator *op,
                              tn_text **out) {
  const tn__query query = {.pass = TN_PASS_FORWARD,
                           .device_type = TN_DEVICE_CPU};
  TN__TRY(tn__operator_hold(op));
  tn_code rc = explain_query(env, op, &query, out);
  tn__operator_unhold(op);
  return rc;
}

tn_code tn__call_explain(tn__caller *caller, tn_operator *op,
                         const tn_inputs *in, const tn_params *params,
                         tn_text **out) {
  tn__call_state s;
  const tn__target_op target = {caller, op, params, TN_PASS_FORWARD, 0};
  *out = NULL;
  if (!in) return explain_always(caller->env, op, out);
  TN__TRY(tn__call_state_init(&s, &target));
  return tn__call_state_deinit(&s, explain_call(&s, in, out));
}
