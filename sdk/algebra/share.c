/* SPDX-License-Identifier: Apache-2.0
 * share.c: bit-identical simplifications of a formula: exact constants, and
 * parts that occur twice.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algebra.h"

/* Whether two nodes are equal without their operands. */
static bool is_same_node(const tnm_expr *a, const tnm_expr *b) {
  return a->kind == b->kind && a->op == b->op && a->index == b->index &&
         a->n_args == b->n_args &&
         (a->kind != TNM_NUMBER || tnm_number_equal(a, b));
}

bool tnm_expr_equal(const tnm_expr *a, const tnm_expr *b) {
  if (a == b) return true;
  if (!is_same_node(a, b)) return false;
  for (uint32_t i = 0; i < a->n_args; ++i)
    if (!tnm_expr_equal(a->args[i], b->args[i])) return false;
  return true;
}

/* --------------------------------------------------------------------- folding
 */

/* Whole numbers up to this one are exact in every class. */
#define EXACT 16777216.0

static bool is_exact(double value) {
  return fabs(value) <= EXACT && value == floor(value);
}

static bool is_number(const tnm_expr *e, double value) {
  return e->kind == TNM_NUMBER && e->number == value;
}

static const tnm_expr *create_whole(tn__arena *arena, const tnm_expr *like,
                                    double value) {
  char text[32];
  tnm_expr *e = tn__arena_alloc(arena, sizeof *e);
  const int n = snprintf(text, sizeof text, "%.0f", value);
  if (e == NULL) return NULL;
  *e = (tnm_expr){.kind = TNM_NUMBER, .number = value, .pos = like->pos};
  e->text = tn__arena_text(arena, text, (size_t)n);
  return e->text == NULL ? NULL : e;
}

/* Computes the value of two whole numbers, if it is also whole and not
 * negative. */
static bool fold_numbers(const tnm_expr *e, double *out) {
  const tnm_expr *a = e->args[0];
  const tnm_expr *b = e->args[1];
  if (a->kind != TNM_NUMBER || b->kind != TNM_NUMBER) return false;
  if (!is_exact(a->number) || !is_exact(b->number)) return false;
  if (strchr("/%", e->op) && b->number == 0) return false;
  *out = (double)tnm_operator_value(e->op, a->number, b->number);
  return is_exact(*out) && *out >= 0;
}

/* x*1, x/1, x^1 and x - 0 are x for every x. x + 0 is not, because x = -0 gives
 * 0. */
static const tnm_expr *fold_neutral(const tnm_expr *e) {
  const tnm_expr *a = e->args[0];
  const tnm_expr *b = e->args[1];
  if (strchr("*/^", e->op) && is_number(b, 1)) return a;
  if (e->op == '*' && is_number(a, 1)) return b;
  if (e->op == '-' && is_number(b, 0)) return a;
  return NULL;
}

static bool is_tensor(const tnm_expr *e) {
  return e->kind == TNM_INPUT || e->kind == TNM_OUTPUT || e->kind == TNM_GRAD;
}

static bool has_tensor(const tnm_expr *e, const tnm_expr *tensor) {
  if (is_tensor(e)) return tnm_expr_equal(e, tensor);
  for (uint32_t i = 0; i < e->n_args; ++i)
    if (has_tensor(e->args[i], tensor)) return true;
  return false;
}

/* Whether `part` reads every tensor of `e`. */
static bool reads_all(const tnm_expr *part, const tnm_expr *e) {
  if (is_tensor(e)) return has_tensor(part, e);
  for (uint32_t i = 0; i < e->n_args; ++i)
    if (!reads_all(part, e->args[i])) return false;
  return true;
}

/* The branch that is always chosen, or NULL. */
static const tnm_expr *fold_select(const tnm_expr *e) {
  if (e->args[0]->kind == TNM_NUMBER)
    return e->args[e->args[0]->number != 0 ? 1 : 2];
  return tnm_expr_equal(e->args[1], e->args[2]) ? e->args[1] : NULL;
}

static const tnm_expr *fold_node(tn__arena *arena, const tnm_expr *e) {
  double value;
  if (e->kind == TNM_NEG && e->args[0]->kind == TNM_NEG)
    return e->args[0]->args[0];
  if (e->kind == TNM_BINARY) {
    if (fold_numbers(e, &value)) return create_whole(arena, e, value);
    const tnm_expr *same = fold_neutral(e);
    return same == NULL ? e : same;
  }
  if (e->kind != TNM_CALL || e->index != TNM_F_SELECT) return e;
  /* The result must read the same tensors, because they decide the class. */
  const tnm_expr *taken = fold_select(e);
  return taken != NULL && reads_all(taken, e) ? taken : e;
}

const tnm_expr *tnm_expr_fold(tn__arena *arena, const tnm_expr *expr) {
  tnm_expr *e = tn__arena_alloc(arena, sizeof *e);
  if (e == NULL) return NULL;
  *e = *expr;
  for (uint32_t i = 0; i < e->n_args; ++i) {
    e->args[i] = tnm_expr_fold(arena, expr->args[i]);
    if (e->args[i] == NULL) return NULL;
  }
  return fold_node(arena, e);
}

/* --------------------------------------------------------------------- sharing
 */

/* All different parts so far; operands precede the parts that contain them. */
typedef struct sharer {
  tn__arena *arena;
  const tnm_expr **v;
  uint32_t *uses;
  size_t n;
} sharer;

static bool is_alike(const tnm_expr *a, const tnm_expr *b) {
  return is_same_node(a, b) &&
         memcmp(a->args, b->args, a->n_args * sizeof a->args[0]) == 0;
}

static size_t find_or_add(sharer *s, const tnm_expr *e) {
  tnm_expr copy = *e;
  size_t at[3] = {0};
  for (uint32_t i = 0; i < e->n_args; ++i) {
    at[i] = find_or_add(s, e->args[i]);
    if (s->arena->failed) return 0;
    copy.args[i] = s->v[at[i]];
  }
  for (size_t i = 0; i < s->n; ++i)
    if (is_alike(s->v[i], &copy)) return i;
  tnm_expr *kept = tn__arena_alloc(s->arena, sizeof *kept);
  if (kept == NULL) return 0;
  *kept = copy;
  for (uint32_t i = 0; i < e->n_args; ++i) ++s->uses[at[i]];
  s->v[s->n] = kept;
  return s->n++;
}

static size_t count_nodes(const tnm_expr *e) {
  size_t n = 1;
  for (uint32_t i = 0; i < e->n_args; ++i) n += count_nodes(e->args[i]);
  return n;
}

/* A name or a number, perhaps with a minus: there is nothing to compute. */
static bool is_plain(const tnm_expr *e) {
  return e->n_args == 0 || (e->kind == TNM_NEG && e->args[0]->n_args == 0);
}

const tnm_expr *tnm_expr_share(tn__arena *arena, const tnm_expr *expr,
                               tnm_sharing *out) {
  const size_t n = count_nodes(expr);
  sharer s = {.arena = arena,
              .v = tn__arena_alloc(arena, n * sizeof *s.v),
              .uses = tn__arena_alloc(arena, n * sizeof *s.uses)};
  *out = (tnm_sharing){NULL, 0};
  if (s.v == NULL || s.uses == NULL) return NULL;
  const size_t root = find_or_add(&s, expr);
  if (arena->failed) return NULL;
  const tnm_expr *whole = s.v[root];
  for (size_t i = 0; i < s.n; ++i)
    if (s.uses[i] > 1 && !is_plain(s.v[i])) s.v[out->n++] = s.v[i];
  out->v = s.v;
  return whole;
}
