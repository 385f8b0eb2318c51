/* SPDX-License-Identifier: Apache-2.0
 * backward.c: one call of an operator's gradient. A backward call's inputs are
 * [gradient of every output, every input, every output], its outputs the
 * gradient of every input; a kernel sees only what the wanted ones need.
 */
#include "call.h"

/* ---------------------------------------------------------------- checks */

static tn_code gradient_check(const tn__work *w) {
  const tn_gradient *g = w->desc->gradient;
  if (g && g->kind == TN_GRADIENT_KERNEL) return TN_OK;
  if (g && g->kind == TN_GRADIENT_GRAPH)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: its gradient is a graph of other operators, which"
                    " a tape calls; ask tn_tape_gradient",
                    w->op->name);
  return tn__fail(TN_UNSUPPORTED, "%s has no gradient: %s", w->op->name,
                  g && g->why ? g->why : "its manifest gives none");
}

static tn_code list_check(const tn__work *w, const char *list, size_t n,
                          size_t least, size_t most) {
  if (n >= least && n <= most) return TN_OK;
  if (least == most)
    return tn__fail(TN_INVALID,
                    "%s: %s must have %zu entries, but %zu %s"
                    " given",
                    w->op->name, list, most, n, n == 1 ? "was" : "were");
  return tn__fail(TN_INVALID,
                  "%s: %s must have %zu to %zu entries, but %zu %s"
                  " given",
                  w->op->name, list, least, most, n, n == 1 ? "was" : "were");
}

static tn_code counts_check(const tn__work *w, const tn_backward *call) {
  const tn__counts *c = &w->counts;
  size_t given = call->inputs.n - c->n_aux;
  TN__TRY(list_check(w, "tn_backward.outputs", call->outputs.n, 0, c->n_out));
  TN__TRY(list_check(w, "tn_backward.out_grads", call->out_grads.n,
                     c->n_visible, c->n_out));
  return list_check(w, "tn_backward.in_grads", call->in_grads.n, given,
                    c->n_in);
}

/* -------------------------------------------------------------- operands */

static tn__operand *grads(const tn__work *w) {
  return w->in_info; /* of the outputs: they come first */
}

static const tn_input_gradient *rule(const tn__work *w, uint32_t i) {
  int32_t member;
  return w->desc->gradient->inputs[tn__work_arg_in(w, i, &member)];
}

static tn_code bind_list(const tn__work *w, tn__operand *operands,
                         const tn_inputs *list, const char *what) {
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    tn__operand *operand = &operands[i];
    operand->arg = w->desc->outputs[tn__work_arg_out(w, i, &operand->member)];
    operand->what = what;
    operand->source = -1;
    operand->array = i < list->n ? list->arrays[i] : NULL;
    TN__TRY(tn__work_own(w, operand));
  }
  return TN_OK;
}

static bool is_expanded(const tn__work *w) {
  return w->counts.n_in != w->desc->n_inputs ||
         w->counts.n_out != w->desc->n_outputs;
}

/* Positions in `inplace` are those of the declared operands. */
static void declare_grads(tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_in; ++i) {
    tn__operand *operand = &w->out_info[i];
    operand->arg = w->desc->inputs[tn__work_arg_in(w, i, &operand->member)];
    operand->what = "gradient of input";
    operand->source = -1;
    operand->inplace = is_expanded(w) ? TN_NONE : rule(w, i)->inplace;
  }
}

static tn_code bind(tn__work *w, const tn_backward *call) {
  declare_grads(w);
  TN__TRY(tn__work_bind_inputs(w, &call->inputs));
  TN__TRY(bind_list(w, w->fwd_out, &call->outputs, "output"));
  TN__TRY(bind_list(w, grads(w), &call->out_grads, "gradient of output"));
  return tn__work_bind_outputs(w, &call->in_grads);
}

static tn_code wanted_check(const tn__work *w) {
  char text[TN__OPERAND_TEXT];
  for (uint32_t i = 0; i < w->counts.n_in; ++i) {
    const tn__operand *operand = &w->out_info[i];
    if (w->req[i] == TN_REQ_NULL) continue;
    if (w->absent[i])
      return tn__fail(TN_INVALID,
                      "%s: %s is wanted, but the input is not"
                      " given; ask for TN_REQ_NULL",
                      w->op->name, tn__operand_text(operand, text));
    if (rule(w, i)->stop)
      return tn__fail(TN_UNSUPPORTED,
                      "%s: %s is wanted, but the operator never"
                      " differentiates it; ask for TN_REQ_NULL",
                      w->op->name, tn__operand_text(operand, text));
  }
  return TN_OK;
}

static tn_code match_all(const tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    if (w->fwd_out[i].array)
      TN__TRY(tn__work_match(w, &w->fwd_out[i], &w->io.out[i]));
    if (grads(w)[i].array)
      TN__TRY(tn__work_match(w, &grads(w)[i], &w->io.out[i]));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- needs */

static void mark(uint32_t *flags, const tn_need *need) {
  if (!need->metadata)
    *flags = 0;
  else if (*flags & TN_IN_ABSENT)
    *flags = TN_IN_METADATA;
}

static void mark_inputs(tn__work *w, const tn_need *need) {
  uint32_t *flags = w->in_flags + w->counts.n_out;
  int32_t member;
  for (uint32_t i = 0; i < w->counts.n_in; ++i)
    if (tn__work_arg_in(w, i, &member) == need->index && !w->absent[i])
      mark(&flags[i], need);
}

static void mark_outputs(tn__work *w, uint32_t *flags, const tn_need *need) {
  int32_t member;
  for (uint32_t i = 0; i < w->counts.n_out; ++i)
    if (tn__work_arg_out(w, i, &member) == need->index) mark(&flags[i], need);
}

static void mark_needs(tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_in; ++i)
    w->in_flags[i] = TN_IN_ABSENT;
  for (uint32_t i = 0; i < w->counts.n_in; ++i) {
    if (w->req[i] == TN_REQ_NULL) continue;
    const tn_input_gradient *r = rule(w, i);
    for (uint32_t k = 0; k < r->n_needs; ++k) {
      const tn_need *need = &r->needs[k];
      if (need->what == TN_NEED_IN)
        mark_inputs(w, need);
      else if (need->what == TN_NEED_OUT)
        mark_outputs(w, w->in_flags + w->counts.n_out + w->counts.n_in, need);
      else
        mark_outputs(w, w->in_flags, need);
    }
  }
}

/* A missing gradient of an output is zero. A missing output can stand in for
 * nothing but its own shape. */
static tn_code complete_needs(tn__work *w) {
  char text[TN__OPERAND_TEXT];
  uint32_t first = w->counts.n_out + w->counts.n_in;
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    tn__operand *grad = &grads(w)[i], *output = &w->fwd_out[i];
    if (!(w->in_flags[i] & TN_IN_ABSENT) && !grad->array) {
      TN__TRY(tn__work_make(w, grad, &w->io.out[i]));
      grad->before = TN__BEFORE_ZERO;
    }
    uint32_t flags = w->in_flags[first + i];
    if ((flags & TN_IN_ABSENT) || output->array) continue;
    if (!(flags & TN_IN_METADATA))
      return tn__fail(TN_INVALID,
                      "%s: the gradient needs the value of %s, but"
                      " it is not in tn_backward.outputs",
                      w->op->name, tn__operand_text(output, text));
    TN__TRY(tn__work_make(w, output, &w->io.out[i]));
  }
  return TN_OK;
}

/* Unwanted gradients get arrays without memory, for their metadata; that of an
 * absent input gets none. */
static tn_code complete_unwanted(tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_in; ++i)
    if (w->req[i] == TN_REQ_NULL && !w->absent[i])
      TN__TRY(tn__work_settle(w, i, &w->io.in[i]));
  return TN_OK;
}

/* ------------------------------------------------------------------ call */

static tn_code settle(tn__work *w, const tn_backward *call) {
  TN__TRY(gradient_check(w));
  TN__TRY(tn__work_count(w, &call->inputs));
  TN__TRY(counts_check(w, call));
  TN__TRY(tn__work_room(w));
  TN__TRY(bind(w, call));
  TN__TRY(tn__work_place(w));
  TN__TRY(wanted_check(w));
  TN__TRY(tn__work_infer(w));
  TN__TRY(match_all(w));
  for (uint32_t i = 0; i < w->counts.n_in; ++i)
    if (w->req[i] != TN_REQ_NULL) TN__TRY(tn__work_settle(w, i, &w->io.in[i]));
  return tn__work_overlap(w);
}

tn_code tn__backward_plan(tn__work *w, const tn_backward *call) {
  TN__TRY(settle(w, call));
  if (tn__work_idle(w)) return TN_OK;
  mark_needs(w);
  TN__TRY(complete_needs(w));
  TN__TRY(complete_unwanted(w));
  return tn__work_plan(w);
}

tn_code tn__call_backward(tn__caller *caller, tn_operator *op,
                          const tn_backward *call) {
  tn__work *w = NULL;
  tn_code rc = TN_OK;
  const tn__target_op target = {caller, op, call->params, TN_PASS_BACKWARD,
                                call->flags};
  if (tn__backward_short(&target, call, &rc)) return rc;
  TN__TRY(tn__work_open(&target, &w));
  rc = tn__backward_plan(w, call);
  if (rc || tn__work_idle(w)) return tn__work_close(w, rc);
  return tn__work_launch(w, &call->in_grads);
}
