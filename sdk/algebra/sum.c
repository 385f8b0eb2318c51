/* SPDX-License-Identifier: Apache-2.0
 * sum.c: sums in normal form. Equal operands are collected, selections with one
 * condition become one, and common factors of all operands are factored out.
 */
#include <math.h>
#include <string.h>

#include "term.h"

/* A sum under construction: number + factor[i] * rest[i] + ... */
typedef struct adder {
  terms *set;
  double number;
  double scale; /* common number of all factors */
  const term **rest;
  double *factor;
  size_t n;
  uint32_t list; /* number of the list, for tnm_term_find */
} adder;

static void add_one(adder *a, const term *t) {
  double factor;
  const term *rest = tnm_term_split(a->set, t, &factor);
  if (rest->kind == TERM_NUMBER) {
    a->number += factor * rest->number;
    return;
  }
  const size_t at = tnm_term_find(a->set, a->list, a->rest, a->n, rest);
  if (at < a->n) {
    a->factor[at] += factor;
    return;
  }
  tnm_term_list_at(a->list, a->n, rest);
  a->rest[a->n] = rest;
  a->factor[a->n++] = factor;
}

static size_t count_operands(const term *const *v, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) count += v[i]->kind == TERM_SUM ? v[i]->n : 1;
  return count;
}

static bool init_adder(adder *a, terms *set, size_t capacity) {
  *a = (adder){.set = set, .list = ++set->n_lists};
  a->rest = tnm_term_list(set, capacity);
  a->factor = tn__arena_alloc(set->arena, capacity * sizeof *a->factor);
  return a->rest != NULL && a->factor != NULL;
}

static void add_all(adder *a, const term *const *v, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (v[i]->kind != TERM_SUM) {
      add_one(a, v[i]);
      continue;
    }
    a->number += v[i]->number;
    for (uint32_t k = 0; k < v[i]->n; ++k) add_one(a, v[i]->args[k]);
  }
}

/* ------------------------------------------------------------------ selections
 */

static bool is_select(const term *t) {
  return t->kind == TERM_CALL && t->index == TNM_F_SELECT;
}

static void drop_operand(adder *a, size_t at) {
  --a->n;
  for (size_t i = at; i < a->n; ++i) {
    a->rest[i] = a->rest[i + 1];
    a->factor[i] = a->factor[i + 1];
  }
}

/* select(c, x, y) + select(c, z, w) is select(c, x + z, y + w). */
static bool merge_at(adder *a, size_t i) {
  const term *first = a->rest[i];
  for (size_t k = i + 1; k < a->n; ++k) {
    const term *other = a->rest[k];
    if (!is_select(other) || other->args[0] != first->args[0]) continue;
    const term *v[3] = {first->args[0]};
    for (uint32_t b = 1; b < 3; ++b)
      v[b] = tnm_term_add(a->set,
                          tnm_term_scale(a->set, a->factor[i], first->args[b]),
                          tnm_term_scale(a->set, a->factor[k], other->args[b]));
    const term *merged = tnm_term_call(a->set, TNM_F_SELECT, v);
    drop_operand(a, k);
    drop_operand(a, i);
    add_all(a, &merged, 1);
    return true;
  }
  return false;
}

static void merge_selections(adder *a) {
  for (size_t i = 0; i < a->n;) {
    if (!is_select(a->rest[i]) || !merge_at(a, i)) ++i;
  }
}

static void drop_zeros(adder *a) {
  for (size_t i = a->n; i-- > 0;)
    if (a->factor[i] == 0) drop_operand(a, i);
}

/* --------------------------------------------------------------------- factors
 */

/* The factors of a term without its number. */
static size_t factors_of(const term *t, const term *const **out,
                         const term **single) {
  if (t->kind == TERM_PRODUCT) {
    *out = t->args;
    return t->n;
  }
  *single = t;
  *out = single;
  return 1;
}

/* The exponent of a base in a term if it is a number, otherwise 0. */
static double exponent_in(terms *set, const term *t, const term *base) {
  const term *single;
  const term *const *v;
  const size_t n = factors_of(t, &v, &single);
  for (size_t i = 0; i < n; ++i) {
    if (tnm_term_base(v[i]) != base) continue;
    const term *exponent = tnm_term_exponent(set, v[i]);
    if (exponent->kind == TERM_NUMBER) return exponent->number;
  }
  return 0;
}

/* The exponent of a base that is a factor of all operands; 0 if there is
 * none. */
static double find_common_exponent(const adder *a, const term *base) {
  double common = exponent_in(a->set, a->rest[0], base);
  for (size_t i = 1; i < a->n && common != 0; ++i) {
    const double e = exponent_in(a->set, a->rest[i], base);
    if (e * common <= 0) return 0;
    if (fabs(e) < fabs(common)) common = e;
  }
  return common;
}

/* The absolute value of all factors if it is equal, otherwise 1. */
static double find_common_number(const adder *a) {
  for (size_t i = 1; i < a->n; ++i)
    if (fabs(a->factor[i]) != fabs(a->factor[0])) return 1;
  return fabs(a->factor[0]);
}

/* The product of the powers that are factors of all operands; 1 if there are
 * none. */
static const term *find_common_factor(const adder *a) {
  const term *single;
  const term *const *v;
  const size_t n = factors_of(a->rest[0], &v, &single);
  const term **list = tnm_term_list(a->set, n);
  size_t found = 0;
  if (list == NULL) return a->set->nothing;
  for (size_t i = 0; i < n; ++i) {
    const term *base = tnm_term_base(v[i]);
    /* tnm_term_product would not find a separate product as a factor of its
     * inverse. */
    if (base->kind == TERM_PRODUCT) continue;
    /* A sum divided by the count is a mean. */
    if (base->kind == TERM_LEAF && base->leaf->kind == TNM_COUNT) continue;
    const double e = find_common_exponent(a, base);
    if (e != 0)
      list[found++] = tnm_term_power(a->set, base, tnm_term_number(a->set, e));
  }
  return tnm_term_product(a->set, list, found);
}

static const term *factor_out(adder *a, const term *common) {
  const term *inverse =
      tnm_term_power(a->set, common, tnm_term_number(a->set, -1));
  const term **list = tnm_term_list(a->set, a->n);
  if (list == NULL) return a->set->nothing;
  for (size_t i = 0; i < a->n; ++i)
    list[i] = tnm_term_mul(
        a->set, tnm_term_scale(a->set, a->factor[i] / a->scale, a->rest[i]),
        inverse);
  const term *sum = tnm_term_sum(a->set, list, a->n);
  return tnm_term_scale(a->set, a->scale, tnm_term_mul(a->set, common, sum));
}

/* ------------------------------------------------------------------------ sums
 */

static const term *create_sum(adder *a) {
  const term **list = tnm_term_list(a->set, a->n);
  if (list == NULL) return a->set->nothing;
  for (size_t i = 0; i < a->n; ++i)
    list[i] = tnm_term_scale(a->set, a->factor[i], a->rest[i]);
  const term like = {
      .kind = TERM_SUM, .number = a->number, .n = (uint32_t)a->n, .args = list};
  return tnm_term_create(a->set, &like);
}

static const term *finish_sum(adder *a) {
  if (a->n == 0) return tnm_term_number(a->set, a->number);
  if (a->number == 0 && a->n == 1)
    return tnm_term_scale(a->set, a->factor[0], a->rest[0]);
  if (a->number == 0 && tnm_terms_is_complete(a->set)) {
    const term *common = find_common_factor(a);
    a->scale = find_common_number(a);
    if (a->scale != 1 || !tnm_term_is(common, 1)) return factor_out(a, common);
  }
  return create_sum(a);
}

const term *tnm_term_sum(terms *set, const term *const *v, size_t n) {
  adder a;
  if (!init_adder(&a, set, count_operands(v, n) + 1)) return set->nothing;
  add_all(&a, v, n);
  drop_zeros(&a);
  merge_selections(&a);
  drop_zeros(&a);
  if (a.number == 0) a.number = 0; /* no minus zero */
  return finish_sum(&a);
}

const term *tnm_term_add(terms *set, const term *a, const term *b) {
  const term *v[2] = {a, b};
  return tnm_term_sum(set, v, 2);
}
