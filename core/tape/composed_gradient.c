/* SPDX-License-Identifier: Apache-2.0
 * composed_gradient.c: computes the gradient of a recorded call by calls of
 * other operators. The operator's table contains these calls in postfix order.
 * If the gradient is recorded, the calls are recorded too and can be
 * differentiated again.
 */
#include <string.h>

#include "tape.h"

/* The evaluation of one input's gradient. Every array on the stack is retained.
 */
typedef struct machine {
  tn__sweep *sweep;
  const tn__tape_entry *entry;
  tn_array **stack;
  uint32_t n;
} machine;

/* ------------------------------------------------------------------ tensors */

static const tn__tape_operand *find_operand(const tn__tape_entry *e,
                                            const tn_step *step) {
  const bool in = step->what == TN_NEED_IN;
  const tn__tape_operand *list = in ? e->in : e->out;
  const uint32_t n = in ? e->n_in : e->n_out;
  for (uint32_t i = 0; i < n; ++i)
    if (list[i].declared == step->index) return &list[i];
  return NULL;
}

/* Operands that were not kept or have no gradient are zeros, if their shape is
 * known. */
static tn_code push_tensor(machine *m, const tn_step *step) {
  const tn__tape_operand *operand = find_operand(m->entry, step);
  tn_array *array = NULL;
  if (operand)
    array = step->what == TN_NEED_GRAD_OUT
                ? tn__sweep_gradient_of(m->sweep, operand)
                : operand->saved;
  if (array)
    tn__array_retain(array);
  else if (operand && operand->layout)
    TN__TRY(tn__tape_get_constant(m->sweep->tape, 0, operand->layout, &array));
  if (!array)
    return tn__fail(TN_INVALID,
                    "%s: its gradient reads an operand that was not given",
                    m->entry->op->name);
  m->stack[m->n++] = array;
  return TN_OK;
}

/* -------------------------------------------------------------------- calls */

/* Replaces the inputs on the stack by the first output. Other outputs are not
 * requested. */
static tn_code call_operator(machine *m, const tn_step *step, tn_operator *op) {
  enum { MOST = 16 };
  tn_array *outs[MOST] = {NULL};
  tn_req req[MOST] = {TN_REQ_WRITE};
  tn_params *params = NULL;
  const uint32_t first = m->n - step->index;
  TN__TRY(tn__params_template(tn__tape_entry_params(m->entry), step->params, op,
                              &params));
  const tn__target_op target = {m->sweep->tape->caller, op, params,
                                TN_PASS_FORWARD, m->entry->flags};
  const tn_inputs in = {step->index, m->stack + first};
  const tn_outputs out = {
      op->desc->n_outputs < MOST ? op->desc->n_outputs : MOST, outs, req};
  const tn_code rc = m->sweep->record
                         ? tn__tape_call(m->sweep->tape, &target, &in, &out)
                         : tn__call(&target, &in, &out);
  tn__params_release(params);
  if (rc != TN_OK) return rc;
  while (m->n > first) tn__array_release(m->stack[--m->n]);
  m->stack[m->n++] = outs[0];
  return TN_OK;
}

static tn_code push_call(machine *m, const tn_step *step) {
  tn_operator *op = NULL;
  tn_code rc =
      tn__operator_get(m->sweep->tape->caller->registry, step->op, &op);
  if (rc == TN_NOT_FOUND)
    return tn__fail(TN_UNSUPPORTED, "%s has no gradient here: %s",
                    m->entry->op->name, tn_error_text());
  if (rc == TN_OK) rc = tn__operator_hold(op);
  if (rc != TN_OK) return rc;
  rc = call_operator(m, step, op);
  tn__operator_unhold(op);
  return rc ? tn__fail_more(rc, "; it is called for the gradient of %s",
                            m->entry->op->name)
            : TN_OK;
}

/* ------------------------------------------------------------------ results */

static bool has_layout(const tn_array *array, const tn__layout *layout) {
  const tn_tensor *t = &array->tensor;
  return t->ndim == layout->ndim && t->dtype == layout->dtype &&
         memcmp(t->shape, layout->shape, (size_t)t->ndim * sizeof *t->shape) ==
             0;
}

static tn_code add_result(const machine *m, uint32_t i, bool made) {
  const tn__tape_operand *to = &m->entry->in[i];
  if (!has_layout(m->stack[0], to->layout))
    return tn__fail(TN_SHAPE,
                    "%s: the graph of its gradient gives for input `%s` an"
                    " array of another shape or type",
                    m->entry->op->name,
                    m->entry->desc->inputs[to->declared]->name);
  return tn__sweep_add(m->sweep, to->value, to->layout, m->stack[0], made);
}

static tn_code run_steps(machine *m, const tn_input_gradient *rule,
                         uint32_t i) {
  for (uint32_t k = 0; k < rule->n_steps; ++k) {
    const tn_step *step = &rule->steps[k];
    TN__TRY(step->what == TN_STEP_CALL ? push_call(m, step)
                                       : push_tensor(m, step));
  }
  return add_result(m, i, rule->steps[rule->n_steps - 1].what == TN_STEP_CALL);
}

tn_code tn__sweep_pass_composed(tn__sweep *sweep, const tn__tape_entry *e) {
  const tn__env *env = sweep->tape->caller->env;
  for (uint32_t i = 0; i < e->n_in; ++i) {
    const tn_input_gradient *rule =
        e->desc->gradient->inputs[e->in[i].declared];
    if (!tn__sweep_is_live_input(sweep, e, i)) continue;
    machine m = {.sweep = sweep, .entry = e};
    const size_t bytes = rule->n_steps * sizeof *m.stack;
    m.stack = tn__zalloc(env, bytes);
    if (!m.stack) return tn__fail_memory(bytes, "the graph of a gradient");
    const tn_code rc = run_steps(&m, rule, i);
    while (m.n > 0) tn__array_release(m.stack[--m.n]);
    tn__free(env, m.stack);
    TN__TRY(rc);
  }
  return TN_OK;
}
