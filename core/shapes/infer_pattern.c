/* SPDX-License-Identifier: Apache-2.0
 * infer_pattern.c: matches one operand with its pattern, `[N, C/num_group,
 * S...]`. First it finds the number of dimensions of each term, then it
 * compares each dimension.
 */
#include "infer.h"

/* The known widths of a pattern's terms. */
typedef struct layout {
  int64_t known;   /* sum of the known widths */
  uint32_t n_open; /* terms of unknown width */
  uint32_t open;   /* node of one of them */
  uint32_t from;   /* source of a width that is not from the rule itself */
} layout;

/* The operand that decides the length of a pack in this term. */
static uint32_t width_source(const tn__unifier *u, uint32_t node) {
  const tn_node *n = &u->op->nodes[node];
  const int32_t children[] = {n->a, n->b, n->c};
  if (n->op == TN_NODE_RANK) return TN__FROM_RULE;
  if (n->op == TN_NODE_PACK)
    return u->packs[n->a].n < 0 ? TN__FROM_RULE : u->length_from[n->a];
  for (uint32_t i = 0; i < tnm_node_arity(n->op); ++i) {
    const uint32_t from = width_source(u, (uint32_t)children[i]);
    if (from != TN__FROM_RULE) return from;
  }
  return TN__FROM_RULE;
}

/* Width of one term. Lists in one expression have equal lengths: if one of them
 * has a known width, the packs next to it get it. */
static tn_code width_of(tn__unifier *u, const tn_arg *arg, uint32_t term,
                        int32_t *out) {
  *out = 1;
  if (arg->terms[term].spread == 0) return TN_OK;
  const uint32_t node = (uint32_t)arg->terms[term].node;
  const tn_code rc = tn__expr_length(&u->scope, node, out);
  if (rc != TN_OK) return tn__fail_rule(u, arg->shape_text, rc);
  if (*out == TN__SCALAR)
    *out = 1;
  else if (*out >= 0)
    tn__solve_length(u, node, *out, width_source(u, node));
  return TN_OK;
}

static tn_code measure_once(tn__unifier *u, const tn_arg *arg, layout *out) {
  *out = (layout){.from = TN__FROM_RULE};
  for (uint32_t i = 0; i < arg->n_terms; ++i) {
    int32_t width = 0;
    TN__TRY(width_of(u, arg, i, &width));
    if (width < 0) {
      out->n_open++, out->open = (uint32_t)arg->terms[i].node;
      continue;
    }
    out->known += width;
    if (arg->terms[i].spread != 0 && out->from == TN__FROM_RULE)
      out->from = width_source(u, (uint32_t)arg->terms[i].node);
  }
  return TN_OK;
}

/* Repeats until no width becomes known: a term such as `(S*kernel)...` may
 * decide the width of a pack in a term before it. */
static tn_code measure_terms(tn__unifier *u, const tn_arg *arg, layout *out) {
  uint32_t n_open = 0;
  TN__TRY(measure_once(u, arg, out));
  do {
    n_open = out->n_open;
    if (n_open > 0) TN__TRY(measure_once(u, arg, out));
  } while (out->n_open < n_open);
  return TN_OK;
}

/* Finds ranks and lengths; *open reports whether some stay unknown. */
static tn_code find_rank(tn__unifier *u, uint32_t id, const tn_arg *arg,
                         bool *open) {
  const tn_sig *sig = tn__operand_sig(u, id);
  const tn__fact_target target = {.id = id, .rule = arg};
  layout l;
  TN__TRY(measure_terms(u, arg, &l));
  *open = l.n_open > 1 || (l.n_open == 1 && sig->ndim < 0);
  if (*open) return TN_OK;
  tn__fact_target told = target;
  told.from = l.from;
  if (l.n_open == 0) return tn__fact_rank(u, &told, l.known);
  if (sig->ndim < l.known) return tn__fact_rank(u, &told, l.known);
  tn__solve_length(u, l.open, (int32_t)(sig->ndim - l.known),
                   tn__rank_source(u, id));
  return TN_OK;
}

static tn_code match_dim(tn__unifier *u, const tn__fact_target *at,
                         uint32_t node) {
  const int64_t have = tn__operand_sig(u, at->id)->shape[at->dim];
  tn__element want;
  TN__TRY(tn__target_value(u, at, node, &want));
  if (!want.known) return have < 0 ? TN_OK : tn__solve_node(u, at, node, have);
  tn__fact_target target = *at;
  target.from = tn__node_source(u, node, at->k);
  return tn__fact_dim(u, &target, want.v);
}

static tn_code match_dims(tn__unifier *u, uint32_t id, const tn_arg *arg) {
  tn__fact_target target = {.id = id, .rule = arg};
  for (uint32_t i = 0; i < arg->n_terms; ++i) {
    int32_t width = 0;
    TN__TRY(width_of(u, arg, i, &width));
    for (target.k = 0; target.k < width; ++target.k, ++target.dim)
      TN__TRY(match_dim(u, &target, (uint32_t)arg->terms[i].node));
  }
  return TN_OK;
}

tn_code tn__infer_pattern(tn__unifier *u, uint32_t id, const tn_arg *arg) {
  bool open = false;
  TN__TRY(find_rank(u, id, arg, &open));
  return open ? TN_OK : match_dims(u, id, arg);
}
