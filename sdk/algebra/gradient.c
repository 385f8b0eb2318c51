/* SPDX-License-Identifier: Apache-2.0
 * gradient.c: computes the gradients of an operator's inputs from the formulas
 * of its outputs, in the form that keeps the fewest tensors.
 */
#include <string.h>

#include "term.h"

enum { MAX_REUSED = 6, MAX_TENSORS = 64, MAX_REDUCTIONS = 10 };

typedef struct gradient {
  const tnm_derivation *d;
  terms set;
  const term **plain; /* one per input, without outputs; NULL if stopped */
  const term **chosen;
  const term **trial;
  term_swap swaps[MAX_REUSED];
  size_t n_swaps;
} gradient;

static const term *leaf_of(gradient *g, int kind, uint32_t index) {
  return tnm_term_operand(&g->set, g->d, kind, index);
}

/* -------------------------------------------------------------------- the
 * plain
 */

static bool is_stopped(const gradient *g, uint32_t input) {
  return g->d->stop != NULL && g->d->stop[input];
}

/* The sum over the outputs of grad.o * do/dx. */
static const term *derive_plain(gradient *g, const term *const *formulas,
                                uint32_t input) {
  const term *by = leaf_of(g, TNM_INPUT, input);
  const term **sum = tnm_term_list(&g->set, g->d->n_outputs);
  if (sum == NULL) return g->set.nothing;
  for (uint32_t o = 0; o < g->d->n_outputs; ++o)
    sum[o] = tnm_term_mul(&g->set, leaf_of(g, TNM_GRAD, o),
                          tnm_term_derivative(&g->set, formulas[o], by));
  return tnm_term_sum(&g->set, sum, g->d->n_outputs);
}

/* Whether a reduction chooses one of several computed elements. An output is
 * rounded and would equal none of them. */
static bool is_computed_choice(const term *t) {
  return t->kind == TERM_REDUCE && t->args[0]->kind != TERM_LEAF &&
         (t->index == TNM_R_MAX || t->index == TNM_R_MIN);
}

static void derive_plain_all(gradient *g, const term *const *formulas) {
  for (uint32_t i = 0; i < g->d->n_inputs; ++i)
    g->plain[i] = is_stopped(g, i) ? NULL : derive_plain(g, formulas, i);
}

/* Adds a swap: an output equal to factor * core gives core = out / factor. Not
 * if a number is added to the core: then rounding has removed its last digits,
 * or all digits if it is small. Not if the core is only a name. */
static void add_swap(gradient *g, const term *formula, uint32_t output) {
  terms *set = &g->set;
  double factor;
  if (g->n_swaps == MAX_REUSED) return;
  const term *core = tnm_term_split(set, formula, &factor);
  if (core->kind == TERM_LEAF || core->kind == TERM_NUMBER) return;
  if (is_computed_choice(core)) return;
  const term *image = leaf_of(g, TNM_OUTPUT, output);
  g->swaps[g->n_swaps++] =
      (term_swap){core, tnm_term_scale(set, 1 / factor, image)};
}

/* ---------------------------------------------------------------------- choice
 */

/* Tensors that a form of all gradients keeps. Better forms keep fewer in all,
 * then fewer per gradient, then compute fewer reductions, then have more
 * outputs among them. Tensors of one element for each line do not count. */
typedef struct kept {
  uint64_t tensors; /* inputs, then outputs */
  unsigned all;
  unsigned each;
  unsigned reductions;
  unsigned outputs;
} kept;

/* Whether a tensor has more than one element for each line. */
static bool is_large(const term *t) {
  return t->kind == TERM_LEAF && !tnm_term_is_uniform(t);
}

/* Collects the tensors that a term reads; visits each part once. */
static void collect_tensors(const gradient *g, const term *t,
                            uint64_t *tensors) {
  if (t->memo->seen_by == g->set.n_walks) return;
  t->memo->seen_by = g->set.n_walks;
  if (is_large(t) && t->leaf->kind == TNM_INPUT)
    *tensors |= 1ull << t->leaf->index;
  if (is_large(t) && t->leaf->kind == TNM_OUTPUT)
    *tensors |= 1ull << (g->d->n_inputs + t->leaf->index);
  for (uint32_t i = 0; i < t->n; ++i) collect_tensors(g, t->args[i], tensors);
}

static unsigned count_bits(uint64_t bits) {
  unsigned n = 0;
  for (; bits != 0; bits &= bits - 1) ++n;
  return n;
}

static unsigned count_reductions(const gradient *g, const term *t) {
  if (t->stage == 0 || t->memo->seen_by == g->set.n_walks) return 0;
  t->memo->seen_by = g->set.n_walks;
  unsigned n = t->kind == TERM_REDUCE ? 1 : 0;
  for (uint32_t i = 0; i < t->n; ++i) n += count_reductions(g, t->args[i]);
  return n;
}

static kept measure_form(gradient *g, const term *const *form) {
  kept k = {0};
  for (uint32_t i = 0; i < g->d->n_inputs; ++i) {
    uint64_t tensors = 0;
    ++g->set.n_walks;
    if (form[i] != NULL) collect_tensors(g, form[i], &tensors);
    k.each += count_bits(tensors);
    k.tensors |= tensors;
  }
  ++g->set.n_walks;
  for (uint32_t i = 0; i < g->d->n_inputs; ++i)
    if (form[i] != NULL) k.reductions += count_reductions(g, form[i]);
  k.all = count_bits(k.tensors);
  k.outputs = count_bits(k.tensors >> g->d->n_inputs);
  return k;
}

static bool is_better(const kept *a, const kept *b) {
  if (a->all != b->all) return a->all < b->all;
  if (a->each != b->each) return a->each < b->each;
  if (a->reductions != b->reductions) return a->reductions < b->reductions;
  return a->outputs > b->outputs;
}

/* Makes a form of all gradients by a set of swaps. */
static void try_set(gradient *g, unsigned bits) {
  term_swap swaps[MAX_REUSED];
  size_t n = 0;
  for (size_t i = 0; i < g->n_swaps; ++i)
    if (bits & (1u << i)) swaps[n++] = g->swaps[i];
  for (uint32_t i = 0; i < g->d->n_inputs; ++i)
    g->trial[i] = g->plain[i] == NULL
                      ? NULL
                      : tnm_term_swap(&g->set, g->plain[i], swaps, n);
}

static void choose_form(gradient *g) {
  const size_t bytes = g->d->n_inputs * sizeof *g->plain;
  memcpy(g->chosen, g->plain, bytes);
  if (g->d->n_inputs + g->d->n_outputs > MAX_TENSORS) return;
  kept best = measure_form(g, g->plain);
  for (unsigned bits = 1; bits < 1u << g->n_swaps; ++bits) {
    try_set(g, bits);
    const kept k = measure_form(g, g->trial);
    if (!is_better(&k, &best) || !tnm_terms_is_complete(&g->set)) continue;
    best = k;
    memcpy(g->chosen, g->trial, bytes);
  }
}

/* ------------------------------------------------------------------ the result
 */

static bool has_reductions(const gradient *g, const term *const *formulas) {
  for (uint32_t o = 0; o < g->d->n_outputs; ++o)
    if (formulas[o]->stage > 0) return true;
  return g->d->levels != NULL;
}

static bool derive_all(gradient *g) {
  const tnm_derivation *d = g->d;
  const term **formulas = tnm_term_list(&g->set, d->n_outputs);
  g->plain = tnm_term_list(&g->set, d->n_inputs);
  g->chosen = tnm_term_list(&g->set, d->n_inputs);
  g->trial = tnm_term_list(&g->set, d->n_inputs);
  if (formulas == NULL || g->plain == NULL || g->chosen == NULL ||
      g->trial == NULL)
    return false;
  for (uint32_t o = 0; o < d->n_outputs; ++o)
    formulas[o] = tnm_term_read(&g->set, d->formulas[o]);
  if (has_reductions(g, formulas))
    tnm_adjoint_derive(&g->set, d, formulas, g->plain);
  else
    derive_plain_all(g, formulas);
  if (!tnm_terms_is_complete(&g->set)) return false;
  for (uint32_t o = 0; o < d->n_outputs && !d->sums; ++o)
    add_swap(g, formulas[o], o);
  choose_form(g);
  return true;
}

static int status_of(const terms *set) {
  if (set->arena->failed || set->out->failed) return TNM_DERIVE_MEMORY;
  if (set->unknown) return TNM_DERIVE_UNKNOWN;
  return set->full ? TNM_DERIVE_LONG : TNM_DERIVED;
}

/* Number of different tensors that a term reads. A kernel reads the row and the
 * result of a reduction like tensors. */
static unsigned count_tensors(const gradient *g, const term *t) {
  if (t->memo->seen_by == g->set.n_walks) return 0;
  t->memo->seen_by = g->set.n_walks;
  unsigned n = t->kind == TERM_LEAF && t->leaf->kind != TNM_PARAM ? 1 : 0;
  if (t->kind == TERM_REDUCE) n = 2;
  for (uint32_t i = 0; i < t->n; ++i) n += count_tensors(g, t->args[i]);
  return n;
}

static int write_all(gradient *g, const tnm_expr **out) {
  if (measure_form(g, g->chosen).reductions > MAX_REDUCTIONS)
    return TNM_DERIVE_LONG;
  for (uint32_t i = 0; i < g->d->n_inputs; ++i) {
    if (g->chosen[i] == NULL) continue;
    ++g->set.n_walks;
    if (count_tensors(g, g->chosen[i]) > TNM_EXPR_MAX_TENSORS)
      return TNM_DERIVE_LONG;
    out[i] = tnm_term_write(&g->set, g->chosen[i]);
    if (out[i] == NULL || !tnm_terms_is_complete(&g->set))
      return status_of(&g->set);
    if (!tnm_expr_is_short(out[i])) return TNM_DERIVE_LONG;
  }
  return TNM_DERIVED;
}

int tnm_derive(const tnm_derivation *d, const tnm_expr **out) {
  tn__arena scratch;
  gradient g = {.d = d};
  memset(out, 0, d->n_inputs * sizeof *out);
  tn__arena_init(&scratch, d->arena->env);
  int status = TNM_DERIVE_MEMORY;
  if (tnm_terms_init(&g.set, &scratch, d->arena)) {
    g.set.pos = d->pos;
    g.set.levels = d->levels;
    if (d->levels != NULL) g.set.axes = d->levels->axes;
    status = derive_all(&g) ? write_all(&g, out) : status_of(&g.set);
  }
  tn__arena_deinit(&scratch);
  return status;
}

/* ----------------------------------------------------------------- obstacles
 */

static bool is_dependent(const tnm_expr *e, const bool *stop) {
  if (e->kind == TNM_INPUT) return stop == NULL || !stop[e->index];
  for (uint32_t i = 0; i < e->n_args; ++i)
    if (is_dependent(e->args[i], stop)) return true;
  return false;
}

/* Whether all derivatives of a function are 0. */
static bool is_flat(const tnm_function *function) {
  for (uint32_t i = 0; i < function->n_args; ++i)
    if (strcmp(function->derivatives[i], "0") != 0) return false;
  return true;
}

static int obstacle_of(const tnm_expr *e) {
  if (e->kind == TNM_BINARY) return strchr("<>lgen", e->op) ? TNM_FLAT : 0;
  if (e->kind != TNM_CALL) return 0;
  const tnm_function *function = tnm_function_at(e->index);
  if (function->derivatives[0] == NULL) return TNM_UNKNOWN;
  return is_flat(function) ? TNM_FLAT : 0;
}

void tnm_find_obstacles(const tnm_expr *e, const bool *stop,
                        tnm_obstacle_callback *found, void *ctx) {
  const int obstacle = obstacle_of(e);
  if (obstacle != 0 && is_dependent(e, stop)) found(ctx, e, obstacle);
  if (obstacle == TNM_FLAT) return;
  const bool is_select = e->kind == TNM_CALL && e->index == TNM_F_SELECT;
  for (uint32_t i = is_select ? 1 : 0; i < e->n_args; ++i)
    tnm_find_obstacles(e->args[i], stop, found, ctx);
}

/* -------------------------------------------------------------- simplification
 */

const tnm_expr *tnm_expr_simplify(tn__arena *arena, const tnm_expr *expr) {
  tn__arena scratch;
  terms set;
  const tnm_expr *out = NULL;
  tn__arena_init(&scratch, arena->env);
  if (tnm_terms_init(&set, &scratch, arena)) {
    set.pos = expr->pos;
    const term *t = tnm_term_read(&set, expr);
    if (tnm_terms_is_complete(&set)) out = tnm_term_write(&set, t);
    if (!tnm_terms_is_complete(&set)) out = NULL;
  }
  if (scratch.failed) arena->failed = true;
  tn__arena_deinit(&scratch);
  return arena->failed || out != NULL ? out : expr;
}
