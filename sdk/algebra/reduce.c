/* SPDX-License-Identifier: Apache-2.0
 * reduce.c: reductions in normal form. Factors and addends that are the same
 * for the whole line are outside of a reduction, so that those of a derivative
 * cancel.
 */
#include "term.h"

bool tnm_term_is_uniform(const term *t) {
  return (t->level & TNM_LEVEL_PLACE) == 0;
}

const term *tnm_term_count(terms *set) {
  tnm_expr *e = tn__arena_alloc(set->arena, sizeof *e);
  if (e == NULL) return set->nothing;
  e->kind = TNM_COUNT;
  e->text = set->axes;
  return tnm_term_leaf(set, e);
}

/* The term of a reduction that no rule changes. */
static const term *create_reduction(terms *set, uint32_t reduction,
                                    const term *arg) {
  const term **list = tnm_term_list(set, 1);
  if (list == NULL) return set->nothing;
  list[0] = arg;
  const term like = {
      .kind = TERM_REDUCE, .index = reduction, .n = 1, .args = list};
  return tnm_term_create(set, &like);
}

/* Splits the operands of a sum or product into those that are uniform on a
 * line, with the number, and all others. False if nothing is uniform. */
static bool split_operands(terms *set, const term *t, const term **uniform,
                           const term **others) {
  const bool is_sum = t->kind == TERM_SUM;
  const term **in = tnm_term_list(set, t->n + 1);
  const term **out = tnm_term_list(set, t->n + 1);
  size_t n_in = 0, n_out = 0;
  if (in == NULL || out == NULL) return false;
  for (uint32_t i = 0; i < t->n; ++i)
    if (tnm_term_is_uniform(t->args[i]))
      out[n_out++] = t->args[i];
    else
      in[n_in++] = t->args[i];
  if (t->number != (is_sum ? 0 : 1))
    out[n_out++] = tnm_term_number(set, t->number);
  if (n_out == 0) return false;
  *uniform = is_sum ? tnm_term_sum(set, out, n_out)
                    : tnm_term_product(set, out, n_out);
  *others =
      is_sum ? tnm_term_sum(set, in, n_in) : tnm_term_product(set, in, n_in);
  return true;
}

static const term *reduce_sum(terms *set, const term *arg) {
  const term *uniform, *others;
  if (tnm_term_is_uniform(arg))
    return tnm_term_mul(set, tnm_term_count(set), arg);
  if (arg->kind == TERM_PRODUCT && split_operands(set, arg, &uniform, &others))
    return tnm_term_mul(set, uniform, reduce_sum(set, others));
  if (arg->kind == TERM_SUM && split_operands(set, arg, &uniform, &others))
    return tnm_term_add(set, tnm_term_mul(set, tnm_term_count(set), uniform),
                        reduce_sum(set, others));
  return create_reduction(set, TNM_R_SUM, arg);
}

/* max, min and logsumexp: of f + c it is that of f, plus c. */
static const term *reduce_shifted(terms *set, uint32_t reduction,
                                  const term *arg) {
  const term *uniform, *others;
  if (tnm_term_is_uniform(arg)) {
    const term *count = tnm_term_count(set);
    return reduction != TNM_R_LOGSUMEXP
               ? arg
               : tnm_term_add(set, arg, tnm_term_call(set, TNM_F_LOG, &count));
  }
  if (arg->kind == TERM_SUM && split_operands(set, arg, &uniform, &others))
    return tnm_term_add(set, uniform, reduce_shifted(set, reduction, others));
  return create_reduction(set, reduction, arg);
}

const term *tnm_term_reduce(terms *set, uint32_t reduction, const term *arg) {
  if (!tnm_terms_is_complete(set)) return set->nothing;
  if (reduction == TNM_R_SUM) return reduce_sum(set, arg);
  if (reduction != TNM_R_MEAN) return reduce_shifted(set, reduction, arg);
  const term *inverse =
      tnm_term_power(set, tnm_term_count(set), tnm_term_number(set, -1));
  return tnm_term_mul(set, inverse, reduce_sum(set, arg));
}
