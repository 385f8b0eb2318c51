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

/* Two steps, and the pair that they may become. */
typedef struct couple {
  tn_program *p;
  tn__step *first;
  tn__step *second;
  tn__step *base;    /* the step of the operator that is computed first in
                        forward direction */
  tn__step *next;    /* the other */
  tn_operator *op;   /* held */
  tn_params *params; /* retained */
  tn__step *step;    /* from the arena; NULL before it is made */
} couple;

/* -------------------------------------------------------------------- choice
 */

static bool is_plain(const tn__step *step, uint32_t node_kind) {
  return step->kind == TN__STEP_CALL && step->node->kind == node_kind &&
         step->info.kernel && step->n_parts == 0;
}

static bool is_back(const tn__step *step) {
  return step->node->kind == TN__NODE_BACKWARD;
}

static const tn__node *forward_of(const tn__step *back) {
  return tn__node_at(back->program->graph, back->node->of);
}

/* The step that writes the first input of `second`, if it is the step's first
 * output and both have nodes of these kinds. */
static tn__step *step_before(const tn_program *p, const tn__step *second,
                             uint32_t node_kind) {
  if (!is_plain(second, node_kind) || second->n_in == 0 ||
      second->in[0] == TN_NONE)
    return NULL;
  const uint32_t at = p->values[second->in[0]].step;
  tn__step *first = at == TN_NONE ? NULL : p->steps[at];
  if (!first || !is_plain(first, node_kind) || first->out[0] != second->in[0])
    return NULL;
  return first;
}

/* If `second` has one input and one output: the call with that input as first
 * output. NULL: none. */
static tn__step *first_of(const tn_program *p, const tn__step *second) {
  if (second->n_in != 1 || second->n_out != 1) return NULL;
  return step_before(p, second, TN__NODE_CALL);
}

/* The same if `second` is the gradient of a call, and it reads the gradient of
 * a call on its first output. */
static tn__step *first_back_of(const tn_program *p, const tn__step *second) {
  tn__step *first = step_before(p, second, TN__NODE_BACKWARD);
  if (!first) return NULL;
  const tn__node *of = forward_of(first);
  const bool follows = of->n_in == 1 && of->n_out == 1 &&
                       of->in[0].node == second->node->of &&
                       of->in[0].index == 0;
  return follows ? first : NULL;
}

static bool has_dynamic(const tn_op *op) {
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (op->params[i]->flags & TN_FIELD_DYNAMIC) return true;
  return false;
}

static bool is_awaited(const tn__step *step) {
  return step->signal || step->n_after > 0;
}

/* Whether the first step is better fused with its elementwise neighbours, which
 * happens without queues. */
static bool is_of_run(const tn__step *first) {
  if (is_back(first) && tn__step_queue(first)) return false;
  return (first->info.kernel->desc->flags & TN_KERNEL_ELEMENTWISE) != 0;
}

/* Whether the step must follow all readers of the memory that it overwrites. */
static bool is_late(const tn_program *p, const tn__step *step) {
  for (uint32_t i = 0; i < p->n_heads; ++i)
    if (p->late[i] && tn__entry_id(p->graph, p->heads[i]) == step->out[0])
      return true;
  return false;
}

/* The reason against a pair that holds for any kernel; NULL: none. */
static const char *why_two(const couple *c) {
  const tn_program *p = c->p;
  const tn__value *between = &p->values[c->second->in[0]];
  const bool kept = between->flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD);
  if (kept || between->n_uses != 1) return "other steps use its input";
  if (is_late(p, c->second)) return "it overwrites an argument";
  if (c->first->device != c->second->device) return "it runs elsewhere";
  if ((c->first->id < p->n_forward) != (c->second->id < p->n_forward))
    return "it is computed again, and that is not";
  if (is_of_run(c->first)) return "runs of elementwise calls are fused";
  if (is_awaited(c->first) || is_awaited(c->second))
    return "one waits for another, or another for it";
  if (c->first->node->op->pin || c->second->node->op->pin)
    return "a kernel of one of them is pinned";
  if (has_dynamic(c->first->node->desc) || has_dynamic(c->second->node->desc))
    return "parameters of one of them may change";
  return NULL;
}

static void options_add(const tn__kernel *kernel, tn__buf *to) {
  const tn_kernel *k = kernel->desc;
  const tn__fields fields = {k->options, k->n_options, k->options_size, k->id};
  if (k->n_options > 0) tn__fields_text(&fields, kernel->options, to);
}

static tn_code same_options(const couple *c, bool *out) {
  tn__buf one, both;
  tn__buf_init(&one, c->p->env);
  tn__buf_init(&both, c->p->env);
  options_add(c->base->info.kernel, &one);
  options_add(c->step->info.kernel, &both);
  const tn_code rc = one.failed || both.failed
                         ? tn__fail_memory(one.n + both.n, "options as text")
                         : TN_OK;
  *out = !rc && one.n == both.n &&
         (one.n == 0 || memcmp(one.s, both.s, one.n) == 0);
  tn__buf_deinit(&one);
  tn__buf_deinit(&both);
  return rc;
}

/* The reason against a pair with the kernel that was found for both. */
static tn_code why_not_both(const couple *c, const char **why) {
  const tn__kernel *one = c->base->info.kernel, *both = c->step->info.kernel;
  bool same = false;
  *why = "another plugin has the kernel for both";
  if (!both || both->plugin != one->plugin) return TN_OK;
  TN__TRY(same_options(c, &same));
  *why = same ? NULL : "the kernel for both has other options";
  return TN_OK;
}

/* --------------------------------------------------------------------- steps
 */

static void text_add(const tn__node *node, tn__buf *to) {
  const tn__fields fields = {node->desc->params, node->desc->n_params,
                             node->desc->params_size, node->op->name};
  const void *data = tn__node_struct(node);
  if (to->n > 0) tn__buf_add(to, " ");
  if (data) tn__fields_text(&fields, data, to);
}

/* Makes the parameters of both in text form, which reads back as equal values.
 */
static tn_code params_make(couple *c) {
  tn__buf text;
  tn__buf_init(&text, c->p->env);
  text_add(c->base->node, &text);
  text_add(c->next->node, &text);
  const tn_code rc =
      text.failed ? tn__fail_memory(text.n, "parameters")
                  : tn__params_parse(c->op, text.s ? text.s : "", &c->params);
  tn__buf_deinit(&text);
  return rc;
}

/* Sets the outputs of the first, with the second's in place of its own first.
 */
static tn_code operands_make(const couple *c, tn__step *step) {
  tn__arena *arena = &c->p->arena;
  uint32_t *out = tn__arena_alloc(arena, step->n_out * sizeof *out);
  if (!out) return tn__fail_memory(step->n_out * sizeof *out, "a step");
  memcpy(out, step->out, step->n_out * sizeof *out);
  out[0] = c->second->out[0];
  step->out = out;
  return TN_OK;
}

/* Sets the inputs of the pair's gradient: those of the second step, but the
 * output gradient and the output of the first step, which is the gradient of
 * the later call. */
static tn_code operands_make_back(const couple *c, tn__step *step) {
  tn__arena *arena = &c->p->arena;
  const tn__node *of = forward_of(c->base);
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

static tn_code step_make(couple *c) {
  tn__arena *arena = &c->p->arena;
  tn__step *step = tn__arena_alloc(arena, sizeof *step);
  tn__step **parts = tn__arena_alloc(arena, 2 * sizeof(tn__step *));
  if (arena->failed) return tn__fail_memory(sizeof *step, "a step");
  parts[0] = c->first;
  parts[1] = c->second;
  *step = *c->base;
  TN__TRY(is_back(step) ? operands_make_back(c, step) : operands_make(c, step));
  step->call[0] = step->call[1] = NULL;
  step->parts = parts;
  step->n_parts = 2;
  step->joint = c->params;
  step->other = NULL;
  step->pair_refusal = NULL;
  c->step = step;
  return TN_OK;
}

/* Whether the gradient of the pair reads an operand that is missing for the
 * requested gradients. */
static bool lacks_gradient(const couple *c) {
  const tn__step *step = c->step;
  const tn__node *of = forward_of(step);
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

static tn_code step_plan(couple *c) {
  const tn_program *p = c->p;
  const uint32_t train =
      c->base->id >= p->n_forward || p->n_forward < p->n_steps;
  TN__TRY(params_make(c));
  TN__TRY(step_make(c));
  if (is_back(c->base) && lacks_gradient(c))
    return tn__fail(TN_UNSUPPORTED,
                    "the gradient of both reads something else");
  TN__TRY(tn__step_plan(c->step, train, &c->step->call[train]));
  tn__step_describe(c->step, train);
  return TN_OK;
}

/* Removes one reader of an entry. */
static void drop_use(tn_program *p, const tn__step *step, uint32_t i) {
  if (step->in[i] == TN_NONE || (step->shape_only && step->shape_only[i]))
    return;
  --p->values[step->in[i]].n_uses;
}

/* Puts the pair into the place of the first step. No step between them must
 * precede the second one, which reads nothing else. Gradients get the place of
 * the second step, which has other inputs too; the inputs of the first still
 * exist there. */
static void enter_pair(couple *c) {
  tn_program *p = c->p;
  p->steps[c->next->id] = NULL;
  p->steps[c->base->id] = c->step;
  for (uint32_t i = 0; i < c->step->n_out; ++i)
    p->values[c->step->out[i]].step = c->step->id;
  p->values[c->first->out[0]].step = c->step->id;
  for (uint32_t i = 0; i < c->base->n_in; ++i)
    if (c->step->in[i] != c->base->in[i]) drop_use(p, c->base, i);
  p->stats.n_fused += 2;
}

static void drop_pair(const couple *c) {
  tn__params_release(c->params);
  if (!c->step) return;
  tn__planned_release(c->step->call[0]);
  tn__planned_release(c->step->call[1]);
}

/* A failure is a reason against the pair, except missing memory. */
static tn_code join_two(couple *c) {
  const char *why = why_two(c);
  tn_code rc = TN_OK;
  if (!why) {
    rc = step_plan(c);
    if (rc == TN_OK) rc = why_not_both(c, &why);
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

static tn_code join_at(tn_program *p, uint32_t i) {
  tn__step *second = p->steps[i];
  const bool back = is_back(second);
  tn__step *first = back ? first_back_of(p, second) : first_of(p, second);
  if (!first) return TN_OK;
  couple c = {.p = p,
              .first = first,
              .second = second,
              .base = back ? second : first,
              .next = back ? first : second};
  c.op = tn__fused_pair_hold(c.base->node->op, c.next->node->op);
  if (!c.op) return TN_OK;
  second->other = c.first;
  const tn_code rc = join_two(&c);
  tn__operator_unhold(c.op);
  return rc;
}

static void close_gaps(tn_program *p) {
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
    if (p->steps[i]) rc = join_at(p, i);
  close_gaps(p);
  return rc;
}
