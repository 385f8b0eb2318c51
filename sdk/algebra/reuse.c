/* SPDX-License-Identifier: Apache-2.0
 * reuse.c: replaces the parts of a term that compute an operator's output by
 * this output: tanh(x) + 1 becomes out + 1 if out is tanh(x).
 */
#include <math.h>
#include <string.h>

#include "term.h"

typedef struct swapper {
  terms *set;
  const term_swap *swaps;
  size_t n;
} swapper;

static const term *swap_term(swapper *s, const term *t);

/* The factors of a term without its number. */
static size_t factors_without_number(const term *t, const term *const **out,
                                     const term **single) {
  *single = t;
  *out = t->kind == TERM_PRODUCT ? t->args : single;
  return t->kind == TERM_PRODUCT ? t->n : 1;
}

/* The exponent of a base among factors, if both are numbers; otherwise 0. */
static double exponent_of(terms *set, const term *const *v, size_t n,
                          const term *base) {
  for (size_t i = 0; i < n; ++i) {
    if (tnm_term_base(v[i]) != base) continue;
    const term *exponent = tnm_term_exponent(set, v[i]);
    if (exponent->kind == TERM_NUMBER) return exponent->number;
  }
  return 0;
}

/* Whole and half exponents are exact, so a division leaves no rounding
 * error. */
static bool is_exact(double exponent) {
  return fabs(exponent) < 1e6 && 2 * exponent == floor(2 * exponent);
}

/* How often core divides t: a whole number, negative if its inverse divides t,
 * 0 if never. */
static double count_divisions(terms *set, const term *t, const term *core) {
  const term *single[2];
  const term *const *v, *const *w;
  const size_t n = factors_without_number(t, &v, &single[0]);
  const size_t m = factors_without_number(core, &w, &single[1]);
  double times = 0;
  for (size_t i = 0; i < m; ++i) {
    const term *exponent = tnm_term_exponent(set, w[i]);
    const term *base = tnm_term_base(w[i]);
    const double e = exponent_of(set, v, n, base);
    if (exponent->kind != TERM_NUMBER || !is_exact(exponent->number) ||
        !is_exact(e))
      return 0;
    const double ratio = trunc(e / exponent->number);
    if (ratio == 0 || ratio * times < 0) return 0;
    if (times == 0 || fabs(ratio) < fabs(times)) times = ratio;
  }
  return times;
}

/* Replaces core^k in t by image^k, and swaps in the rest; NULL if core does not
 * divide t. */
static const term *divide_out(swapper *s, const term *t, const term_swap *by) {
  const double times = count_divisions(s->set, t, by->core);
  if (times == 0) return NULL;
  const term *part =
      tnm_term_power(s->set, by->core, tnm_term_number(s->set, -times));
  const term *rest = tnm_term_mul(s->set, t, part);
  if (rest == t) return NULL;
  return tnm_term_mul(
      s->set, swap_term(s, rest),
      tnm_term_power(s->set, by->image, tnm_term_number(s->set, times)));
}

/* The product of the factors of a term that are uniform on a line, or of all
 * others. */
static const term *select_factors(terms *set, const term *t, bool uniform) {
  const term *single;
  const term *const *v;
  const size_t n = factors_without_number(t, &v, &single);
  const term **list = tnm_term_list(set, n);
  size_t found = 0;
  if (list == NULL) return set->nothing;
  for (size_t i = 0; i < n; ++i)
    if (tnm_term_is_uniform(v[i]) == uniform) list[found++] = v[i];
  return tnm_term_product(set, list, found);
}

/* t / by */
static const term *divide_term(terms *set, const term *t, const term *by) {
  return tnm_term_mul(set, t,
                      tnm_term_power(set, by, tnm_term_number(set, -1)));
}

/* c*sum(f*x) is sum(image*x) if c*f is the core: a factor that is uniform on a
 * line is in front of the sum. NULL if factor i of t is no such sum. */
static const term *divide_sum(swapper *s, const term *t, uint32_t i,
                              const term_swap *by) {
  terms *set = s->set;
  const term *sum = t->args[i];
  const term *outer = select_factors(set, by->core, true);
  const term *inner = select_factors(set, by->core, false);
  if (tnm_term_is(outer, 1) || tnm_term_is(inner, 1) ||
      count_divisions(set, t, outer) < 1 ||
      count_divisions(set, sum->args[0], inner) < 1)
    return NULL;
  const term *rest = divide_term(set, divide_term(set, t, outer), sum);
  const term *arg = swap_term(s, divide_term(set, sum->args[0], inner));
  return tnm_term_mul(
      set, swap_term(s, rest),
      tnm_term_reduce(set, TNM_R_SUM, tnm_term_mul(set, arg, by->image)));
}

/* Divides the core out of a sum over lines that is a factor of t; NULL if there
 * is none. */
static const term *divide_sums(swapper *s, const term *t, const term_swap *by) {
  for (uint32_t i = 0; t->kind == TERM_PRODUCT && i < t->n; ++i) {
    if (t->args[i]->kind != TERM_REDUCE || t->args[i]->index != TNM_R_SUM)
      continue;
    const term *divided = divide_sum(s, t, i, by);
    if (divided != NULL) return divided;
  }
  return NULL;
}

/* The same term with swapped operands. */
static const term *rebuild_term(swapper *s, const term *t) {
  terms *set = s->set;
  const term **list = tnm_term_list(set, t->n + 1);
  if (list == NULL) return set->nothing;
  for (uint32_t i = 0; i < t->n; ++i) list[i] = swap_term(s, t->args[i]);
  switch (t->kind) {
    case TERM_SUM:
      list[t->n] = tnm_term_number(set, t->number);
      return tnm_term_sum(set, list, t->n + 1);
    case TERM_PRODUCT:
      list[t->n] = tnm_term_number(set, t->number);
      return tnm_term_product(set, list, t->n + 1);
    case TERM_POWER:
      return tnm_term_power(set, list[0], list[1]);
    case TERM_CALL:
      return tnm_term_call(set, t->index, list);
    case TERM_COMPARE:
      return tnm_term_compare(set, (char)t->index, list[0], list[1]);
    case TERM_REDUCE:
      return tnm_term_reduce(set, t->index, list[0]);
    default:
      return t;
  }
}

/* A power of x if the core is a root of x: x is image^2, or its inverse. NULL
 * if t is no such power. */
static const term *swap_root(swapper *s, const term *t, const term_swap *by) {
  const term *core = by->core;
  if (core->kind != TERM_CALL || t->kind != TERM_POWER ||
      (core->index != TNM_F_SQRT && core->index != TNM_F_RSQRT) ||
      t->args[0] != core->args[0] || t->args[1]->kind != TERM_NUMBER)
    return NULL;
  const double times = core->index == TNM_F_SQRT ? 2 : -2;
  return tnm_term_power(s->set, by->image,
                        tnm_term_number(s->set, times * t->args[1]->number));
}

static const term *swap_new(swapper *s, const term *t) {
  if (t->kind == TERM_NUMBER || t->kind == TERM_LEAF) return t;
  for (size_t i = 0; i < s->n; ++i) {
    const term_swap *by = &s->swaps[i];
    const term *power = t->level == TNM_LEVEL_LINE ? swap_root(s, t, by) : NULL;
    if (power != NULL) return power;
    if (t == by->core) return by->image;
    if (t == tnm_term_scale(s->set, -1, by->core))
      return tnm_term_scale(s->set, -1, by->image);
    /* Single factors are visited one by one, and keep their places. */
    if (t->kind != TERM_POWER && by->core->kind != TERM_PRODUCT) continue;
    if (t->kind != TERM_PRODUCT && t->kind != TERM_POWER) continue;
    const term *divided = divide_out(s, t, by);
    if (divided == NULL) divided = divide_sums(s, t, by);
    if (divided != NULL) return divided;
  }
  return rebuild_term(s, t);
}

static const term *swap_term(swapper *s, const term *t) {
  if (s->set->full || s->set->arena->failed) return s->set->nothing;
  if (t->memo->image == NULL || t->memo->image_by != s->set->n_images) {
    const term *image = swap_new(s, t);
    t->memo->image = image;
    t->memo->image_by = s->set->n_images;
  }
  return t->memo->image;
}

const term *tnm_term_swap(terms *set, const term *t, const term_swap *swaps,
                          size_t n) {
  swapper s = {set, swaps, n};
  ++set->n_images;
  return swap_term(&s, t);
}
