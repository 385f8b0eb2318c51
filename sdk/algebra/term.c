/* SPDX-License-Identifier: Apache-2.0
 * term.c: the set of terms, which contains each term once, and the terms other
 * than sums and products.
 */
#include "term.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------- the set
 */

bool tnm_terms_init(terms *set, tn__arena *scratch, tn__arena *out) {
  tn__arena *arena = scratch;
  *set = (terms){.arena = scratch, .out = out};
  term *nothing = tn__arena_alloc(arena, sizeof *nothing);
  if (nothing == NULL) return false;
  nothing->memo = tn__arena_alloc(arena, sizeof *nothing->memo);
  if (nothing->memo == NULL) return false;
  nothing->kind = TERM_NUMBER;
  set->nothing = nothing;
  return true;
}

bool tnm_terms_is_complete(const terms *set) {
  return !set->arena->failed && !set->out->failed && !set->full &&
         !set->unknown;
}

const term **tnm_term_list(terms *set, size_t n) {
  if (n > 4 * (size_t)TERM_MAX_ARGS) set->full = true;
  if (set->full) return NULL;
  return tn__arena_alloc(set->arena, n * sizeof(const term *));
}

size_t tnm_term_find(const terms *set, uint32_t list, const term *const *v,
                     size_t n, const term *t) {
  const uint32_t at = t->memo->listed_at;
  if (t->memo->listed_by == list && at < n && v[at] == t) return at;
  if (t->memo->listed_by != list && set->n_lists == list) return n;
  for (size_t i = 0; i < n; ++i)
    if (v[i] == t) return i;
  return n;
}

void tnm_term_list_at(uint32_t list, size_t at, const term *t) {
  t->memo->listed_by = list;
  t->memo->listed_at = (uint32_t)at;
}

static int compare_ids(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a;
  const uint32_t y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static bool fill_key(terms *set, term *t) {
  uint32_t *key = tn__arena_alloc(set->arena, (t->n + 1) * sizeof *key);
  if (key == NULL) return false;
  for (uint32_t i = 0; i < t->n; ++i) key[i] = t->args[i]->id;
  if (t->kind == TERM_SUM || t->kind == TERM_PRODUCT)
    qsort(key, t->n, sizeof *key, compare_ids);
  t->key = key;
  return true;
}

static bool is_leaf_alike(const tnm_expr *a, const tnm_expr *b) {
  return a == b || (a && b && a->kind == b->kind && a->index == b->index);
}

/* Two numbers are the same if no result distinguishes them: 0 and -0 are
 * not. */
static uint64_t bits_of(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static bool is_alike(const term *a, const term *b) {
  return a->hash == b->hash && a->kind == b->kind && a->index == b->index &&
         a->n == b->n && bits_of(a->number) == bits_of(b->number) &&
         is_leaf_alike(a->leaf, b->leaf) &&
         memcmp(a->key, b->key, a->n * sizeof *a->key) == 0;
}

/* The low bits of a small number are all 0, so each step moves the high bits
 * down. Otherwise all numbers of a formula would be in one bucket. */
static uint64_t mix_in(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

static uint64_t hash_of(const term *t) {
  uint64_t hash = mix_in(bits_of(t->number), (uint64_t)t->kind);
  hash = mix_in(hash, t->index);
  if (t->leaf)
    hash = mix_in(hash, (uint64_t)t->leaf->kind << 32 | t->leaf->index);
  for (uint32_t i = 0; i < t->n; ++i) hash = mix_in(hash, t->key[i]);
  return hash;
}

static int find_level(const terms *set, const term *t) {
  int level = TNM_LEVEL_NONE;
  if (t->kind == TERM_REDUCE) return TNM_LEVEL_LINE;
  if (t->kind == TERM_LEAF) return tnm_expr_level(t->leaf, set->levels);
  for (uint32_t i = 0; i < t->n; ++i) level |= t->args[i]->level;
  return level;
}

static uint32_t find_stage(const term *t) {
  uint32_t stage = 0;
  for (uint32_t i = 0; i < t->n; ++i)
    if (t->args[i]->stage > stage) stage = t->args[i]->stage;
  return stage + (t->kind == TERM_REDUCE ? 1 : 0);
}

const term *tnm_term_create(terms *set, const term *like) {
  if (set->n >= TERM_MAX || like->n > TERM_MAX_ARGS ||
      set->n_operands > TERM_MAX_OPERANDS)
    set->full = true;
  if (set->full) return set->nothing;
  term *t = tn__arena_alloc(set->arena, sizeof *t);
  if (t == NULL) return set->nothing;
  *t = *like;
  if (!fill_key(set, t)) return set->nothing;
  t->hash = hash_of(t);
  term **bucket = &set->buckets[t->hash % TERM_BUCKETS];
  for (term *other = *bucket; other != NULL; other = other->next)
    if (is_alike(other, t)) return other;
  t->memo = tn__arena_alloc(set->arena, sizeof *t->memo);
  if (t->memo == NULL) return set->nothing;
  t->level = find_level(set, t);
  t->stage = find_stage(t);
  t->id = ++set->n;
  set->n_operands += t->n;
  t->next = *bucket;
  *bucket = t;
  return t;
}

/* --------------------------------------------------------------------- leaves
 */

const term *tnm_term_number(terms *set, double value) {
  /* Real numbers have no minus zero. */
  const term like = {.kind = TERM_NUMBER, .number = value == 0 ? 0 : value};
  return tnm_term_create(set, &like);
}

const term *tnm_term_leaf(terms *set, const tnm_expr *leaf) {
  const term like = {.kind = TERM_LEAF, .leaf = leaf};
  return tnm_term_create(set, &like);
}

bool tnm_term_is(const term *t, double value) {
  return t->kind == TERM_NUMBER && t->number == value;
}

bool tnm_term_is_whole(const term *t) {
  return t->kind == TERM_NUMBER && t->number == floor(t->number) &&
         fabs(t->number) < 1e9;
}

/* --------------------------------------------------------------------- powers
 */

/* Whether a number is in the range of normal floats, with a margin for
 * products. */
static bool is_moderate(double number) {
  return fabs(number) >= 1e-30 && fabs(number) <= 1e30;
}

bool tnm_can_merge_numbers(double one, double other, double both) {
  return is_moderate(both) || !is_moderate(one) || !is_moderate(other);
}

static const term *create_power(terms *set, const term *base,
                                const term *exponent) {
  const term *args[2] = {base, exponent};
  const term **list = tnm_term_list(set, 2);
  if (list == NULL) return set->nothing;
  memcpy(list, args, sizeof args);
  const term like = {.kind = TERM_POWER, .n = 2, .args = list};
  return tnm_term_create(set, &like);
}

const term *tnm_term_separate(terms *set, const term *product) {
  return create_power(set, product, tnm_term_number(set, 1));
}

/* (2*x*y^a)^n is 2^n * x^n * y^(a*n) for whole n. */
static const term *distribute_power(terms *set, const term *base,
                                    const term *exponent) {
  const term **list = tnm_term_list(set, base->n + 1);
  const double factor = pow(base->number, exponent->number);
  if (list == NULL) return set->nothing;
  if (!isfinite(factor) || factor == 0 ||
      !tnm_can_merge_numbers(base->number, base->number, factor))
    return create_power(set, base, exponent);
  list[0] = tnm_term_number(set, factor);
  for (uint32_t i = 0; i < base->n; ++i)
    list[i + 1] = tnm_term_power(set, base->args[i], exponent);
  return tnm_term_product(set, list, base->n + 1);
}

/* Whether a term is a function with a square equal to its argument to the power
 * *out. */
static bool is_root(const term *t, double *out) {
  if (t->kind != TERM_CALL) return false;
  *out = t->index == TNM_F_SQRT ? 1 : -1;
  return t->index == TNM_F_SQRT || t->index == TNM_F_RSQRT;
}

static const term *raise_to_whole(terms *set, const term *base,
                                  const term *exponent) {
  double root;
  if (base->kind == TERM_PRODUCT) return distribute_power(set, base, exponent);
  if (base->kind == TERM_POWER)
    return tnm_term_power(set, base->args[0],
                          tnm_term_mul(set, base->args[1], exponent));
  if (is_root(base, &root) && fmod(exponent->number, 2) == 0)
    return tnm_term_power(set, base->args[0],
                          tnm_term_number(set, root * exponent->number / 2));
  return create_power(set, base, exponent);
}

const term *tnm_term_power(terms *set, const term *base, const term *exponent) {
  if (tnm_term_is(exponent, 0) || tnm_term_is(base, 1))
    return tnm_term_number(set, 1);
  if (tnm_term_is(exponent, 1)) return base;
  if (base->kind == TERM_NUMBER && exponent->kind == TERM_NUMBER) {
    const double value = pow(base->number, exponent->number);
    if (isfinite(value)) return tnm_term_number(set, value);
  }
  if (tnm_term_is_whole(exponent)) return raise_to_whole(set, base, exponent);
  return create_power(set, base, exponent);
}

const term *tnm_term_base(const term *t) {
  return t->kind == TERM_POWER ? t->args[0] : t;
}

const term *tnm_term_exponent(terms *set, const term *t) {
  return t->kind == TERM_POWER ? t->args[1] : tnm_term_number(set, 1);
}

/* ---------------------------------------------------------------------- calls
 */

static bool are_numbers(const term *const *args, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (args[i]->kind != TERM_NUMBER) return false;
  return true;
}

static bool fold_call(const term *const *args, size_t n, uint32_t function,
                      double *out) {
  long double x[3] = {0};
  if (!are_numbers(args, n)) return false;
  for (size_t i = 0; i < n; ++i) x[i] = args[i]->number;
  *out = (double)tnm_function_value(function, x);
  return isfinite(*out);
}

/* The branch that an inner `select` with the same condition chooses. */
static const term *find_inner_branch(const term *branch, const term *condition,
                                     uint32_t which) {
  const bool same = branch->kind == TERM_CALL &&
                    branch->index == TNM_F_SELECT &&
                    branch->args[0] == condition;
  return same ? branch->args[which] : branch;
}

static const term *create_call(terms *set, uint32_t function,
                               const term *const *args) {
  const uint32_t n = tnm_function_at(function)->n_args;
  const term **list = tnm_term_list(set, n);
  if (list == NULL) return set->nothing;
  memcpy(list, args, n * sizeof *list);
  const term like = {
      .kind = TERM_CALL, .index = function, .n = n, .args = list};
  return tnm_term_create(set, &like);
}

static const term *create_select(terms *set, const term *const *args) {
  const term *v[3] = {args[0], find_inner_branch(args[1], args[0], 1),
                      find_inner_branch(args[2], args[0], 2)};
  if (v[0]->kind == TERM_NUMBER) return v[0]->number != 0 ? v[1] : v[2];
  if (v[1] == v[2]) return v[1];
  return create_call(set, TNM_F_SELECT, v);
}

const term *tnm_term_call(terms *set, uint32_t function,
                          const term *const *args) {
  double value;
  if (function == TNM_F_POW) return tnm_term_power(set, args[0], args[1]);
  if (function == TNM_F_SELECT) return create_select(set, args);
  if (fold_call(args, tnm_function_at(function)->n_args, function, &value))
    return tnm_term_number(set, value);
  if ((function == TNM_F_MIN || function == TNM_F_MAX) && args[0] == args[1])
    return args[0];
  return create_call(set, function, args);
}

const term *tnm_term_compare(terms *set, char op, const term *a,
                             const term *b) {
  if (a->kind == TERM_NUMBER && b->kind == TERM_NUMBER)
    return tnm_term_number(
        set, (double)tnm_operator_value(op, a->number, b->number));
  const term **list = tnm_term_list(set, 2);
  if (list == NULL) return set->nothing;
  list[0] = a;
  list[1] = b;
  const term like = {.kind = TERM_COMPARE,
                     .index = (uint32_t)(unsigned char)op,
                     .n = 2,
                     .args = list};
  return tnm_term_create(set, &like);
}
