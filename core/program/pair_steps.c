/* SPDX-License-Identifier: Apache-2.0
 * pair_steps.c: makes one step of two that an operator computes together, a
 * fused pair (tn_fused_pair, tenon/draft/pass.h). The result of the first is
 * then no entry that needs memory. The gradients of two such calls become one
 * step as well, by that operator's gradient, whether or not the calls form a
 * pair; the second's gradient comes first.
 *
 * Steps become pairs, not nodes by a pass, because kernels are known here: the
 * pair needs a kernel on the device. The graph also keeps the nodes that
 * gradients, names and monitors refer to: the two steps remain, as parts of the
 * pair, for monitored runs.
 */
#include <string.h>

#include "program.h"

/* The state of making a fused pair of two steps. */
typedef struct step_pair {
  tn_program *p;
  tn__step *first;
  tn__step *second;
  tn__step *base;    /* the step of the operator that comes first in forward
                        direction */
  tn__step *next;    /* the other */
  tn_operator *op;   /* held */
  tn_params *params; /* retained */
  tn__step *step;    /* from the arena; NULL before it is made */
} step_pair;

/* -------------------------------------------------------------------- choice
 */

static bool is_plain_call(const tn__step *step, uint32_t node_kind) {
  return step->kind == TN__STEP_CALL && step->node->kind == node_kind &&
         step->info.kernel && step->n_parts == 0;
}

static bool is_plain_gradient(const tn__step *step) {
  return step->node->kind == TN__NODE_BACKWARD;
}

static const tn__node *get_forward_node(const tn__step *back) {
  return tn__node_at(back->program->graph, back->node->of);
}

/* Finds the step that writes the first input of `second`. Returns NULL unless
 * that input is the first output of the found step, and both steps have nodes
 * of kind `node_kind`. */
static tn__step *find_input_writer(const tn_program *p, const tn__step *second,
                                   uint32_t node_kind) {
  if (!is_plain_call(second, node_kind) || second->n_in == 0 ||
      second->in[0] == TN_NONE)
    return NULL;
  const uint32_t at = p->values[second->in[0]].step;
  tn__step *first = at == TN_NONE ? NULL : p->steps[at];
  if (!first || !is_plain_call(first, node_kind) ||
      first->out[0] != second->in[0])
    return NULL;
  return first;
}

/* Finds the call with the first output that `second` reads, if `second` has one
 * input and one output. Returns NULL if there is none. */
static tn__step *find_first_call(const tn_program *p, const tn__step *second) {
  if (second->n_in != 1 || second->n_out != 1) return NULL;
  return find_input_writer(p, second, TN__NODE_CALL);
}

/* `second` is the gradient step of a call. Finds the gradient step of the call
 * that reads the result of that call. It runs before `second`, and writes the
 * gradient that `second` reads. Returns NULL if there is none. */
static tn__step *find_first_gradient(const tn_program *p,
                                     const tn__step *second) {
  tn__step *first = find_input_writer(p, second, TN__NODE_BACKWARD);
  if (!first) return NULL;
  const tn__node *of = get_forward_node(first);
  const bool follows = of->n_in == 1 && of->n_out == 1 &&
                       of->in[0].node == second->node->of &&
                       of->in[0].index == 0;
  return follows ? first : NULL;
}

static bool has_dynamic_param(const tn_op *op) {
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (op->params[i]->flags & TN_FIELD_DYNAMIC) return true;
  return false;
}

static bool has_waiting_steps(const tn__step *step) {
  return step->signal || step->n_after > 0;
}

/* Tests whether the first step should rather be fused with its elementwise
 * neighbours. Elementwise steps are fused only on devices without queues. */
static bool is_better_fused(const tn__step *first) {
  if (is_plain_gradient(first) && tn__step_queue(first)) return false;
  return (first->info.kernel->desc->flags & TN_KERNEL_ELEMENTWISE) != 0;
}

/* Tests whether the step writes into the array of an argument, so that it must
 * follow all readers of the argument. */
static bool must_be_late(const tn_program *p, const tn__step *step) {
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (p->heads.late[i] &&
        tn__entry_id(p->graph, p->heads.v[i]) == step->out[0])
      return true;
  return false;
}

/* Returns a reason against the pair that does not depend on its kernel; NULL:
 * none. */
static const char *explain_refused_pair(const step_pair *c) {
  const tn_program *p = c->p;
  const tn__value *between = &p->values[c->second->in[0]];
  const bool kept = between->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD);
  if (kept || between->n_uses != 1) return "other steps use its input";
  if (must_be_late(p, c->second)) return "it overwrites an argument";
  if (c->first->device != c->second->device) return "it runs elsewhere";
  if ((c->first->id < p->n_forward) != (c->second->id < p->n_forward))
    return "it is computed again, and that is not";
  if (is_better_fused(c->first)) return "runs of elementwise calls are fused";
  if (has_waiting_steps(c->first) || has_waiting_steps(c->second))
    return "one waits for another, or another for it";
  if (c->first->node->op->pin || c->second->node->op->pin)
    return "a kernel of one of them is pinned";
  if (has_dynamic_param(c->first->node->desc) ||
      has_dynamic_param(c->second->node->desc))
    return "parameters of one of them may change";
  return NULL;
}

static void print_options(const tn__kernel *kernel, tn__buf *to) {
  const tn_kernel *k = kernel->desc;
  const tn__fields fields = {k->options, k->n_options, k->options_size, k->id};
  if (k->n_options > 0) tn__fields_text(&fields, kernel->options, to);
}

static tn_code compare_options(const step_pair *c, bool *out) {
  tn__buf one, both;
  tn__buf_init(&one, c->p->env);
  tn__buf_init(&both, c->p->env);
  print_options(c->base->info.kernel, &one);
  print_options(c->step->info.kernel, &both);
  const tn_code rc = one.failed || both.failed
                         ? tn__fail_memory(one.n + both.n, "options as text")
                         : TN_OK;
  *out = !rc && one.n == both.n &&
         (one.n == 0 || memcmp(one.s, both.s, one.n) == 0);
  tn__buf_deinit(&one);
  tn__buf_deinit(&both);
  return rc;
}

/* Finds a kernel for the pair. *why becomes the reason why it cannot replace
 * the kernels of both steps; NULL: it can. */
static tn_code explain_refused_kernel(const step_pair *c, const char **why) {
  const tn__kernel *one = c->base->info.kernel, *both = c->step->info.kernel;
  bool same = false;
  *why = "another plugin has the kernel for both";
  if (!both || both->plugin != one->plugin) return TN_OK;
  TN__TRY(compare_options(c, &same));
  *why = same ? NULL : "the kernel for both has other options";
  return TN_OK;
}

/* --------------------------------------------------------------------- steps
 */

static void print_params(const tn__node *node, tn__buf *to) {
  const tn__fields fields = {node->desc->params, node->desc->n_params,
                             node->desc->params_size, node->op->name};
  const void *data = tn__node_struct(node);
  if (to->n > 0) tn__buf_add(to, " ");
  if (data) tn__fields_text(&fields, data, to);
}

/* Creates the parameters of the pair from the texts of the parameters of both
 * operators. A text reads back as equal values. */
static tn_code create_pair_params(step_pair *c) {
  tn__buf text;
  tn__buf_init(&text, c->p->env);
  print_params(c->base->node, &text);
  print_params(c->next->node, &text);
  const tn_code rc =
      text.failed ? tn__fail_memory(text.n, "parameters")
                  : tn__params_parse(c->op, text.s ? text.s : "", &c->params);
  tn__buf_deinit(&text);
  return rc;
}

/* Sets the operands of the pair: those of the first step, but the output of the
 * second step replaces its first output. */
static tn_code set_forward_operands(const step_pair *c, tn__step *step) {
  tn__arena *arena = &c->p->arena;
  uint32_t *out = tn__arena_alloc(arena, step->n_out * sizeof *out);
  if (!out) return tn__fail_memory(step->n_out * sizeof *out, "a step");
  memcpy(out, step->out, step->n_out * sizeof *out);
  out[0] = c->second->out[0];
  step->out = out;
  return TN_OK;
}

/* Sets the operands of the pair's gradient: the inputs of the second step, but
 * the output gradient and the output come from the first step, which is the
 * gradient of the later call. */
static tn_code set_gradient_operands(const step_pair *c, tn__step *step) {
  tn__arena *arena = &c->p->arena;
  const tn__node *of = get_forward_node(c->base);
  const uint32_t made = of->n_out + of->n_in, n = step->n_in;
  uint32_t *in = tn__arena_alloc(arena, n * sizeof *in);
  bool *shape_only = tn__arena_alloc(arena, n * sizeof *shape_only);
  if (arena->failed) return tn__fail_memory(n * sizeof *in, "a step");
  memcpy(in, step->in, n * sizeof *in);
  for (uint32_t i = 0; i < n; ++i)
    shape_only[i] = step->shape_only && step->shape_only[i];
  in[0] = c->first->in[0];
  in[made] = c->first->in[2];
  shape_only[0] = c->first->shape_only && c->first->shape_only[0];
  shape_only[made] = c->first->shape_only && c->first->shape_only[2];
  step->in = in;
  step->shape_only = shape_only;
  return TN_OK;
}

static tn_code make_step(step_pair *c) {
  tn__arena *arena = &c->p->arena;
  tn__step *step = tn__arena_alloc(arena, sizeof *step);
  tn__step **parts = tn__arena_alloc(arena, 2 * sizeof(tn__step *));
  if (arena->failed) return tn__fail_memory(sizeof *step, "a step");
  parts[0] = c->first;
  parts[1] = c->second;
  *step = *c->base;
  TN__TRY(is_plain_gradient(step) ? set_gradient_operands(c, step)
                                  : set_forward_operands(c, step));
  step->call[0] = step->call[1] = NULL;
  step->parts = parts;
  step->n_parts = 2;
  step->joint = c->params;
  step->other = NULL;
  step->pair_refusal = NULL;
  c->step = step;
  return TN_OK;
}

/* Tests whether the pair's gradient reads an operand that the program does not
 * have, to compute the requested gradients. */
static bool lacks_needed_operand(const step_pair *c) {
  const tn__step *step = c->step;
  const tn__node *of = get_forward_node(step);
  const tn_gradient *g = c->op->desc->gradient;
  if (!g || g->kind != TN_GRADIENT_KERNEL || g->n_inputs != of->n_in)
    return true;
  const uint32_t begin[] = {0, of->n_out, of->n_out + of->n_in};
  for (uint32_t i = 0; i < step->n_out; ++i) {
    if (c->p->values[step->out[i]].request == TN_REQ_NULL) continue;
    for (uint32_t k = 0; k < g->inputs[i]->n_needs; ++k) {
      const tn_need *need = &g->inputs[i]->needs[k];
      const uint32_t at = begin[need->what] + need->index;
      if (at >= step->n_in || step->in[at] == TN_NONE) return true;
      if (step->shape_only[at] && !need->metadata) return true;
    }
  }
  return false;
}

static tn_code plan_step(step_pair *c) {
  const tn_program *p = c->p;
  const uint32_t train =
      c->base->id >= p->n_forward || p->n_forward < p->n_steps;
  TN__TRY(create_pair_params(c));
  TN__TRY(make_step(c));
  if (is_plain_gradient(c->base) && lacks_needed_operand(c))
    return tn__fail(TN_UNSUPPORTED,
                    "the gradient of both reads something else");
  TN__TRY(tn__step_plan(c->step, train, &c->step->call[train]));
  tn__step_fill_info(c->step, train);
  return TN_OK;
}

/* Subtracts one from the number of steps that read input `i` of a step. */
static void remove_reader(tn_program *p, const tn__step *step, uint32_t i) {
  if (step->in[i] == TN_NONE || (step->shape_only && step->shape_only[i]))
    return;
  --p->values[step->in[i]].n_uses;
}

/* Puts the pair into the list of steps, at the place of the first step. No step
 * between the two must precede the second one, which reads nothing else. A pair
 * of gradients gets the place of the second step, which has further inputs; the
 * inputs of the first step still exist there. */
static void enter_pair(step_pair *c) {
  tn_program *p = c->p;
  p->steps[c->next->id] = NULL;
  p->steps[c->base->id] = c->step;
  for (uint32_t i = 0; i < c->step->n_out; ++i)
    p->values[c->step->out[i]].step = c->step->id;
  p->values[c->first->out[0]].step = c->step->id;
  for (uint32_t i = 0; i < c->base->n_in; ++i)
    if (c->step->in[i] != c->base->in[i]) remove_reader(p, c->base, i);
  p->stats.n_fused += 2;
}

static void drop_pair(const step_pair *c) {
  tn__params_release(c->params);
  if (!c->step) return;
  tn__planned_release(c->step->call[0]);
  tn__planned_release(c->step->call[1]);
}

/* Makes the pair and its step. If that fails, the failure is a reason against
 * the pair, except if memory runs out. */
static tn_code make_pair(step_pair *c) {
  const char *why = explain_refused_pair(c);
  tn_code rc = TN_OK;
  if (!why) {
    rc = plan_step(c);
    if (rc == TN_OK) rc = explain_refused_kernel(c, &why);
    if (rc != TN_OK) why = tn_error_text();
  }
  if (!why) {
    enter_pair(c);
    return TN_OK;
  }
  if (rc != TN_OUT_OF_MEMORY) {
    c->second->pair_refusal = tn__arena_text(&c->p->arena, why, strlen(why));
    rc = c->second->pair_refusal ? TN_OK
                                 : tn__fail_memory(strlen(why), "a reason");
  }
  drop_pair(c);
  return rc;
}

static tn_code make_pair_at(tn_program *p, uint32_t i) {
  tn__step *second = p->steps[i];
  const bool back = is_plain_gradient(second);
  tn__step *first =
      back ? find_first_gradient(p, second) : find_first_call(p, second);
  if (!first) return TN_OK;
  step_pair c = {.p = p,
                 .first = first,
                 .second = second,
                 .base = back ? second : first,
                 .next = back ? first : second};
  c.op = tn__fused_pair_hold(c.base->node->op, c.next->node->op);
  if (!c.op) return TN_OK;
  second->other = c.first;
  const tn_code rc = make_pair(&c);
  tn__operator_unhold(c.op);
  return rc;
}

static void remove_empty_steps(tn_program *p) {
  uint32_t n = 0, n_forward = 0;
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    tn__step *step = p->steps[i];
    if (!step) continue;
    step->id = n;
    n_forward += i < p->n_forward;
    p->steps[n++] = step;
  }
  p->n_steps = n;
  p->n_forward = n_forward;
  for (uint32_t i = 0; i < n; ++i) {
    const tn__step *step = p->steps[i];
    for (uint32_t k = 0; k < step->n_out; ++k) p->values[step->out[k]].step = i;
    for (uint32_t k = 0; k < step->n_parts; ++k)
      p->values[step->parts[k]->out[0]].step = i;
  }
}

tn_code tn__steps_pair(tn_program *p) {
  tn_code rc = TN_OK;
  if (p->how.flags & TN_BIND_NO_FUSE) return TN_OK;
  for (uint32_t i = 0; rc == TN_OK && i < p->n_steps; ++i)
    if (p->steps[i]) rc = make_pair_at(p, i);
  remove_empty_steps(p);
  return rc;
}
