/* SPDX-License-Identifier: Apache-2.0
 * product.c: products in normal form. Powers of one base are collected. Factors
 * of a selection with a branch 0 move into its other branch, so that they
 * cannot make NaN of the 0.
 */
#include <math.h>
#include <string.h>

#include "term.h"

/* A product under construction: number * base[i]^exponent[i] * ... */
typedef struct multiplier {
  terms *set;
  double number;
  const term **base;
  const term **exponent;
  size_t n;
  uint32_t list; /* number of the list, for tnm_term_find */
} multiplier;

static void multiply_one(multiplier *m, const term *t) {
  const term *base = tnm_term_base(t);
  const term *exponent = tnm_term_exponent(m->set, t);
  const size_t at = tnm_term_find(m->set, m->list, m->base, m->n, base);
  if (at < m->n) {
    m->exponent[at] = tnm_term_add(m->set, m->exponent[at], exponent);
    return;
  }
  tnm_term_list_at(m->list, m->n, base);
  m->base[m->n] = base;
  m->exponent[m->n++] = exponent;
}

static size_t count_factors(const term *const *v, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i)
    count += v[i]->kind == TERM_PRODUCT ? v[i]->n : 1;
  return count;
}

/* Whether the factors of a term become factors of the product. */
static bool is_merged(const multiplier *m, const term *t) {
  return t->kind == TERM_PRODUCT &&
         tnm_can_merge_numbers(m->number, t->number, m->number * t->number);
}

static void multiply_all(multiplier *m, const term *const *v, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (v[i]->kind == TERM_NUMBER) m->number *= v[i]->number;
  for (size_t i = 0; i < n; ++i) {
    if (v[i]->kind == TERM_NUMBER) continue;
    if (!is_merged(m, v[i])) {
      multiply_one(m, v[i]);
      continue;
    }
    m->number *= v[i]->number;
    for (uint32_t k = 0; k < v[i]->n; ++k) multiply_one(m, v[i]->args[k]);
  }
}

/* ------------------------------------------------------------------ selections
 */

static bool has_zero_branch(const term *t) {
  return t->kind == TERM_CALL && t->index == TNM_F_SELECT &&
         (tnm_term_is(t->args[1], 0) || tnm_term_is(t->args[2], 0));
}

/* x * select(c, y, 0) is select(c, x*y, 0). */
static const term *push_into(terms *set, const term *like, uint32_t at) {
  const term *selection = like->args[at];
  const term **list = tnm_term_list(set, like->n + 1);
  const term *v[3] = {selection->args[0]};
  if (list == NULL) return set->nothing;
  memcpy(list, like->args, like->n * sizeof *list);
  list[like->n] = tnm_term_number(set, like->number);
  for (uint32_t b = 1; b < 3; ++b) {
    list[at] = selection->args[b];
    v[b] = tnm_term_product(set, list, like->n + 1);
  }
  return tnm_term_call(set, TNM_F_SELECT, v);
}

/* -------------------------------------------------------------------- products
 */

static const term *negate_sum(terms *set, const term *sum) {
  const term **list = tnm_term_list(set, sum->n);
  if (list == NULL) return set->nothing;
  for (uint32_t i = 0; i < sum->n; ++i)
    list[i] = tnm_term_scale(set, -1, sum->args[i]);
  const term like = {.kind = TERM_SUM,
                     .number = sum->number == 0 ? 0 : -sum->number,
                     .n = sum->n,
                     .args = list};
  return tnm_term_create(set, &like);
}

static const term *create_product(terms *set, const term *like) {
  if (like->n == 0 || like->number == 0)
    return tnm_term_number(set, like->number);
  if (like->n == 1 && like->number == 1) return like->args[0];
  for (uint32_t i = 0; i < like->n; ++i)
    if (has_zero_branch(like->args[i])) return push_into(set, like, i);
  if (like->n == 1 && like->number == -1 && like->args[0]->kind == TERM_SUM)
    return negate_sum(set, like->args[0]);
  return tnm_term_create(set, like);
}

/* Lists the collected powers. False if one of them is a number or a product:
 * then the caller must collect again. */
static bool list_powers(multiplier *m, const term **list) {
  bool done = true;
  for (size_t i = 0; i < m->n; ++i) {
    list[i] = tnm_term_power(m->set, m->base[i], m->exponent[i]);
    if (list[i]->kind == TERM_PRODUCT && !is_merged(m, list[i]))
      list[i] = tnm_term_separate(m->set, list[i]);
    done =
        done && list[i]->kind != TERM_NUMBER && list[i]->kind != TERM_PRODUCT;
  }
  return done;
}

const term *tnm_term_product(terms *set, const term *const *v, size_t n) {
  const size_t capacity = count_factors(v, n) + 1;
  multiplier m = {.set = set,
                  .list = ++set->n_lists,
                  .number = 1,
                  .base = tnm_term_list(set, capacity),
                  .exponent = tnm_term_list(set, capacity)};
  const term **list = tnm_term_list(set, capacity);
  if (m.base == NULL || m.exponent == NULL || list == NULL) return set->nothing;
  multiply_all(&m, v, n);
  if (!list_powers(&m, list)) {
    list[m.n] = tnm_term_number(set, m.number);
    return tnm_term_product(set, list, m.n + 1);
  }
  const term like = {.kind = TERM_PRODUCT,
                     .number = m.number,
                     .n = (uint32_t)m.n,
                     .args = list};
  return create_product(set, &like);
}

const term *tnm_term_mul(terms *set, const term *a, const term *b) {
  const term *v[2] = {a, b};
  return tnm_term_product(set, v, 2);
}

const term *tnm_term_scale(terms *set, double factor, const term *a) {
  if (factor == 1) return a;
  return tnm_term_mul(set, tnm_term_number(set, factor), a);
}

const term *tnm_term_split(terms *set, const term *t, double *factor) {
  *factor = t->kind == TERM_PRODUCT || t->kind == TERM_NUMBER ? t->number : 1;
  if (*factor == 1) return t;
  term like = *t;
  like.number = 1;
  return create_product(set, &like);
}
