/* SPDX-License-Identifier: Apache-2.0
 * adjoint.c: the gradients of formulas with reductions. An element of an input
 * changes all elements of its line, so the chain rule is applied from the
 * outputs to the inputs: each reduction is a variable of its own, and its
 * adjoint is the derivative of the loss by it.
 */
#include <string.h>

#include "term.h"

enum { MAX_REDUCTIONS = 64 };

/* The reductions of all formulas; those that contain others precede them. */
typedef struct adjoint {
  terms *set;
  const tnm_derivation *d;
  const term *const *formulas;
  const term *reductions[MAX_REDUCTIONS];
  const term *bars[MAX_REDUCTIONS]; /* their adjoints */
  size_t n;
} adjoint;

const term *tnm_term_operand(terms *set, const tnm_derivation *d, int kind,
                             uint32_t index) {
  tnm_expr *e = tn__arena_alloc(set->arena, sizeof *e);
  if (e == NULL) return set->nothing;
  e->kind = kind;
  e->index = index;
  e->text = kind == TNM_INPUT ? d->inputs[index] : d->outputs[index];
  return tnm_term_leaf(set, e);
}

/* ------------------------------------------------------------ the reductions
 */

/* Adds a reduction after all that have as many stages. */
static void add_reduction(adjoint *a, const term *t) {
  if (a->n == MAX_REDUCTIONS) {
    a->set->full = true;
    return;
  }
  size_t at = a->n++;
  for (; at > 0 && a->reductions[at - 1]->stage < t->stage; --at)
    a->reductions[at] = a->reductions[at - 1];
  a->reductions[at] = t;
}

static void collect_reductions(adjoint *a, const term *t) {
  if (t->stage == 0 || t->memo->seen_by == a->set->n_walks) return;
  t->memo->seen_by = a->set->n_walks;
  if (t->kind == TERM_REDUCE) add_reduction(a, t);
  for (uint32_t i = 0; i < t->n; ++i) collect_reductions(a, t->args[i]);
}

/* The derivative of a reduction by one element of its argument. */
static const term *find_weight(terms *set, const term *reduction) {
  const term *arg = reduction->args[0];
  switch (reduction->index) {
    case TNM_R_SUM:
      return tnm_term_number(set, 1);
    case TNM_R_LOGSUMEXP: {
      const term *below =
          tnm_term_add(set, arg, tnm_term_scale(set, -1, reduction));
      return tnm_term_call(set, TNM_F_EXP, &below);
    }
    default: /* max, min: all largest elements get the whole gradient */
      return tnm_term_compare(set, 'e', arg, reduction);
  }
}

/* -------------------------------------------------------------- the adjoints
 */

/* The part of the adjoint of `by` that comes by way of reduction i, at one
 * element. */
static const term *pass_reduction(adjoint *a, size_t i, const term *by) {
  terms *set = a->set;
  const term *reduction = a->reductions[i];
  const term *inner = tnm_term_derivative(set, reduction->args[0], by);
  if (tnm_term_is(inner, 0)) return inner;
  const term *v[3] = {a->bars[i], find_weight(set, reduction), inner};
  return tnm_term_product(set, v, 3);
}

/* The part that comes directly from output o, at one element. */
static const term *pass_output(adjoint *a, uint32_t o, const term *by) {
  return tnm_term_mul(a->set, tnm_term_operand(a->set, a->d, TNM_GRAD, o),
                      tnm_term_derivative(a->set, a->formulas[o], by));
}

/* The adjoint of a variable: the parts of all outputs and of the first n
 * reductions. A variable that is uniform on a line gets the sums of the parts
 * over the elements. */
static const term *find_adjoint(adjoint *a, size_t n, const term *by,
                                bool is_uniform) {
  terms *set = a->set;
  const term **parts = tnm_term_list(set, a->d->n_outputs + n);
  size_t count = 0;
  if (parts == NULL) return set->nothing;
  for (uint32_t o = 0; o < a->d->n_outputs; ++o) {
    const term *part = pass_output(a, o, by);
    const bool is_line = a->d->levels != NULL &&
                         (a->d->levels->outputs[o] & TNM_LEVEL_PLACE) == 0;
    parts[count++] =
        is_uniform && !is_line ? tnm_term_reduce(set, TNM_R_SUM, part) : part;
  }
  for (size_t i = 0; i < n; ++i) {
    const term *part = pass_reduction(a, i, by);
    parts[count++] = is_uniform ? tnm_term_reduce(set, TNM_R_SUM, part) : part;
  }
  return tnm_term_sum(set, parts, count);
}

void tnm_adjoint_derive(terms *set, const tnm_derivation *d,
                        const term *const *formulas, const term **out) {
  adjoint a = {.set = set, .d = d, .formulas = formulas};
  ++set->n_walks;
  for (uint32_t o = 0; o < d->n_outputs; ++o)
    collect_reductions(&a, formulas[o]);
  for (size_t i = 0; i < a.n && tnm_terms_is_complete(set); ++i)
    a.bars[i] = find_adjoint(&a, i, a.reductions[i], true);
  for (uint32_t i = 0; i < d->n_inputs && tnm_terms_is_complete(set); ++i) {
    if (d->stop != NULL && d->stop[i]) continue;
    const bool is_line =
        d->levels != NULL && (d->levels->inputs[i] & TNM_LEVEL_PLACE) == 0;
    out[i] =
        find_adjoint(&a, a.n, tnm_term_operand(set, d, TNM_INPUT, i), is_line);
  }
}
