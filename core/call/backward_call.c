/* SPDX-License-Identifier: Apache-2.0
 * backward_call.c: the slow path of one call of an operator's gradient. Its
 * inputs are [gradient of every output, every input, every output], its outputs
 * are the gradient of every input. A kernel gets only the operands that the
 * requested gradients need; the others are absent.
 */
#include "call.h"

/* ------------------------------------------------------------------- checks */

static tn_code check_gradient(const tn__call_state *s) {
  const tn_gradient *g = s->desc->gradient;
  if (g && g->kind == TN_GRADIENT_KERNEL) return TN_OK;
  if (g && g->kind == TN_GRADIENT_GRAPH)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: its gradient is a graph of other operators, which"
                    " a tape calls; ask tn_tape_gradient",
                    s->op->name);
  return tn__fail(TN_UNSUPPORTED, "%s has no gradient: %s", s->op->name,
                  g && g->why ? g->why : "its manifest gives none");
}

static tn_code check_list(const tn__call_state *s, const char *list, size_t n,
                          size_t least, size_t most) {
  if (n >= least && n <= most) return TN_OK;
  if (least == most)
    return tn__fail(TN_INVALID,
                    "%s: %s must have %zu entries, but %zu %s"
                    " given",
                    s->op->name, list, most, n, n == 1 ? "was" : "were");
  return tn__fail(TN_INVALID,
                  "%s: %s must have %zu to %zu entries, but %zu %s"
                  " given",
                  s->op->name, list, least, most, n, n == 1 ? "was" : "were");
}

static tn_code check_counts(const tn__call_state *s, const tn_backward *call) {
  const tn__operand_counts *c = &s->counts;
  size_t n_passed = call->inputs.n - c->n_aux;
  TN__TRY(check_list(s, "tn_backward.outputs", call->outputs.n, 0, c->n_out));
  TN__TRY(check_list(s, "tn_backward.out_grads", call->out_grads.n,
                     c->n_visible, c->n_out));
  return check_list(s, "tn_backward.in_grads", call->in_grads.n, n_passed,
                    c->n_in);
}

/* ----------------------------------------------------------------- operands */

static tn__operand *output_gradients(const tn__call_state *s) {
  return s->in_info; /* they are first */
}

static const tn_input_gradient *gradient_rule(const tn__call_state *s,
                                              uint32_t i) {
  int32_t member;
  return s->desc->gradient->inputs[tn__call_find_input_arg(s, i, &member)];
}

static tn_code bind_list(const tn__call_state *s, tn__operand *operands,
                         const tn_inputs *list, const char *role) {
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    tn__operand *operand = &operands[i];
    operand->arg =
        s->desc->outputs[tn__call_find_output_arg(s, i, &operand->member)];
    operand->role = role;
    operand->source = -1;
    operand->array = i < list->n ? list->arrays[i] : NULL;
    TN__TRY(tn__call_check_owner(s, operand));
  }
  return TN_OK;
}

static void declare_grads(tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_in; ++i) {
    tn__operand *operand = &s->out_info[i];
    operand->arg =
        s->desc->inputs[tn__call_find_input_arg(s, i, &operand->member)];
    operand->role = "gradient of input";
    operand->source = -1;
  }
}

static tn_code bind_operands(tn__call_state *s, const tn_backward *call) {
  declare_grads(s);
  TN__TRY(tn__call_bind_inputs(s, &call->inputs));
  TN__TRY(bind_list(s, s->fwd_out, &call->outputs, "output"));
  TN__TRY(bind_list(s, output_gradients(s), &call->out_grads,
                    "gradient of output"));
  return tn__call_bind_outputs(s, &call->in_grads);
}

static tn_code check_wanted(const tn__call_state *s) {
  char text[TN__OPERAND_TEXT];
  for (uint32_t i = 0; i < s->counts.n_in; ++i) {
    const tn__operand *operand = &s->out_info[i];
    if (s->req[i] == TN_REQ_NULL) continue;
    if (s->absent[i])
      return tn__fail(TN_INVALID,
                      "%s: %s is wanted, but the input is not"
                      " given; ask for TN_REQ_NULL",
                      s->op->name, tn__operand_text(operand, text));
    if (gradient_rule(s, i)->stop)
      return tn__fail(TN_UNSUPPORTED,
                      "%s: %s is wanted, but the operator never"
                      " differentiates it; ask for TN_REQ_NULL",
                      s->op->name, tn__operand_text(operand, text));
  }
  return TN_OK;
}

static tn_code match_all(const tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    if (s->fwd_out[i].array)
      TN__TRY(tn__call_check_operand(s, &s->fwd_out[i], &s->io.out[i]));
    if (output_gradients(s)[i].array)
      TN__TRY(
          tn__call_check_operand(s, &output_gradients(s)[i], &s->io.out[i]));
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- needs */

static void mark_need(uint32_t *flags, const tn_need *need) {
  if (!need->metadata)
    *flags = 0;
  else if (*flags & TN_IN_ABSENT)
    *flags = TN_IN_METADATA;
}

static void mark_inputs(tn__call_state *s, const tn_need *need) {
  uint32_t *flags = s->in_flags + s->counts.n_out;
  int32_t member;
  for (uint32_t i = 0; i < s->counts.n_in; ++i)
    if (tn__call_find_input_arg(s, i, &member) == need->index && !s->absent[i])
      mark_need(&flags[i], need);
}

static void mark_outputs(tn__call_state *s, uint32_t *flags,
                         const tn_need *need) {
  int32_t member;
  for (uint32_t i = 0; i < s->counts.n_out; ++i)
    if (tn__call_find_output_arg(s, i, &member) == need->index)
      mark_need(&flags[i], need);
}

static void mark_needs(tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_in; ++i)
    s->in_flags[i] = TN_IN_ABSENT;
  for (uint32_t i = 0; i < s->counts.n_in; ++i) {
    if (s->req[i] == TN_REQ_NULL) continue;
    const tn_input_gradient *r = gradient_rule(s, i);
    for (uint32_t k = 0; k < r->n_needs; ++k) {
      const tn_need *need = &r->needs[k];
      if (need->what == TN_NEED_IN)
        mark_inputs(s, need);
      else if (need->what == TN_NEED_OUT)
        mark_outputs(s, s->in_flags + s->counts.n_out + s->counts.n_in, need);
      else
        mark_outputs(s, s->in_flags, need);
    }
  }
}

/* Creates the missing operands. A missing gradient of an output is zero. A
 * missing output can only supply its shape. */
static tn_code complete_needs(tn__call_state *s) {
  char text[TN__OPERAND_TEXT];
  uint32_t first = s->counts.n_out + s->counts.n_in;
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    tn__operand *grad = &output_gradients(s)[i], *output = &s->fwd_out[i];
    if (!(s->in_flags[i] & TN_IN_ABSENT) && !grad->array) {
      TN__TRY(tn__call_create_array(s, grad, &s->io.out[i]));
      grad->before = TN__BEFORE_ZERO;
    }
    uint32_t flags = s->in_flags[first + i];
    if ((flags & TN_IN_ABSENT) || output->array) continue;
    if (!(flags & TN_IN_METADATA))
      return tn__fail(TN_INVALID,
                      "%s: the gradient needs the value of %s, but"
                      " it is not in tn_backward.outputs",
                      s->op->name, tn__operand_text(output, text));
    TN__TRY(tn__call_create_array(s, output, &s->io.out[i]));
  }
  return TN_OK;
}

/* Creates arrays without memory for gradients that are not requested: kernels
 * read their metadata. The gradient of an absent input gets none. */
static tn_code complete_unwanted(tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_in; ++i)
    if (s->req[i] == TN_REQ_NULL && !s->absent[i])
      TN__TRY(tn__call_resolve_output(s, i, &s->io.in[i]));
  return TN_OK;
}

/* --------------------------------------------------------------------- call */

static tn_code resolve_operands(tn__call_state *s, const tn_backward *call) {
  TN__TRY(check_gradient(s));
  TN__TRY(tn__call_count_operands(s, &call->inputs));
  TN__TRY(check_counts(s, call));
  TN__TRY(tn__call_reserve_operands(s));
  TN__TRY(bind_operands(s, call));
  TN__TRY(tn__call_find_device(s));
  TN__TRY(check_wanted(s));
  TN__TRY(tn__call_infer_operands(s));
  TN__TRY(match_all(s));
  for (uint32_t i = 0; i < s->counts.n_in; ++i)
    if (s->req[i] != TN_REQ_NULL)
      TN__TRY(tn__call_resolve_output(s, i, &s->io.in[i]));
  return tn__call_check_overlap(s);
}

tn_code tn__call_plan_backward(tn__call_state *s, const tn_backward *call) {
  TN__TRY(resolve_operands(s, call));
  if (tn__call_is_idle(s)) return TN_OK;
  mark_needs(s);
  TN__TRY(complete_needs(s));
  TN__TRY(complete_unwanted(s));
  return tn__call_plan_kernel(s);
}

tn_code tn__call_backward(tn__caller *caller, tn_operator *op,
                          const tn_backward *call) {
  tn__call_state *s = NULL;
  tn_code rc = TN_OK;
  const tn__target_op target = {caller, op, call->params, TN_PASS_BACKWARD,
                                call->flags};
  if (tn__backward_try_fast(&target, call, &rc)) return rc;
  TN__TRY(tn__call_state_create(&target, &s));
  rc = tn__call_plan_backward(s, call);
  if (rc || tn__call_is_idle(s)) return tn__call_state_release(s, rc);
  return tn__call_launch(s, &call->in_grads);
}
