/* SPDX-License-Identifier: Apache-2.0
 * lint_packs.c: finds patterns with several packs that no call can tell apart.
 * The host knows the number of dimensions of an operand. From that it computes
 * the length of one pack, but not of two.
 */
#include "lint.h"
#include "tables.h"

/* The known facts about an operator's packs, in the order in which a host finds
 * them. */
typedef struct packs {
  const tn_op *op;
  bool *known; /* per pack: its length follows from ranks and parameters */
  bool changed;
} packs;

static bool is_list_param(const tn_op *op, const tn_node *n) {
  return n->op == TN_NODE_PARAM && op->params[n->a]->type == TN_FIELD_INTS;
}

/* Tests whether the list of a node has a known length. */
static bool has_length(const packs *p, uint32_t node) {
  const tn_node *n = &p->op->nodes[node];
  const int32_t children[] = {n->a, n->b, n->c};
  if (n->op == TN_NODE_PACK) return p->known[n->a];
  if (n->op == TN_NODE_OPERAND_SHAPE || is_list_param(p->op, n)) return true;
  if (n->op == TN_NODE_RANK) return false;
  for (uint32_t i = 0; i < tnm_node_arity(n->op); ++i)
    if (has_length(p, (uint32_t)children[i])) return true;
  return false;
}

/* Marks the packs of an expression as known: all its lists have the same
 * length. */
static void mark_known(packs *p, uint32_t node) {
  const tn_node *n = &p->op->nodes[node];
  const int32_t children[] = {n->a, n->b, n->c};
  if (n->op == TN_NODE_RANK) return;
  for (uint32_t i = 0; i < tnm_node_arity(n->op); ++i)
    mark_known(p, (uint32_t)children[i]);
  if (n->op != TN_NODE_PACK || p->known[n->a]) return;
  p->known[n->a] = true;
  p->changed = true;
}

/* The first pack in an expression, or NULL. */
static const char *first_pack(const tn_op *op, uint32_t node) {
  const tn_node *n = &op->nodes[node];
  const int32_t children[] = {n->a, n->b, n->c};
  const char *found = n->op == TN_NODE_PACK ? op->packs[n->a] : NULL;
  if (n->op == TN_NODE_RANK) return NULL;
  for (uint32_t i = 0; found == NULL && i < tnm_node_arity(n->op); ++i)
    found = first_pack(op, (uint32_t)children[i]);
  return found;
}

/* The number of different spread terms of unknown length, up to two, told apart
 * by the first pack in each. */
static uint32_t unknown_packs(const packs *p, const tn_arg *arg,
                              const char *names[2]) {
  uint32_t n = 0;
  if (arg->shape_kind != TN_SHAPE_PATTERN) return 0;
  for (uint32_t i = 0; i < arg->n_terms && n < 2; ++i) {
    const uint32_t node = (uint32_t)arg->terms[i].node;
    if (arg->terms[i].spread == 0 || has_length(p, node)) continue;
    const char *name = first_pack(p->op, node);
    if (name != NULL && (n == 0 || names[0] != name)) names[n++] = name;
  }
  return n;
}

static void look_at(packs *p, const tn_arg *arg) {
  const char *names[2];
  if (arg->shape_kind != TN_SHAPE_PATTERN) return;
  const bool alone = unknown_packs(p, arg, names) == 1;
  for (uint32_t i = 0; i < arg->n_terms; ++i) {
    const uint32_t node = (uint32_t)arg->terms[i].node;
    if (arg->terms[i].spread != 0 && (alone || has_length(p, node)))
      mark_known(p, node);
  }
}

/* Repeats until nothing new follows: each round finds a pack, or ends. */
static void find_out(packs *p) {
  const tn_op *op = p->op;
  do {
    p->changed = false;
    for (uint32_t i = 0; i < op->n_inputs; ++i) look_at(p, op->inputs[i]);
    for (uint32_t i = 0; i < op->n_outputs; ++i) look_at(p, op->outputs[i]);
    for (uint32_t i = 0; i < op->n_aux; ++i) look_at(p, op->aux[i]);
  } while (p->changed);
}

uint32_t lint_find_alike_packs(const tn_op *op, const char *names[2]) {
  const tn__env *env = tn__env_default();
  packs p = {.op = op, .known = tn__zalloc(env, op->n_packs + 1)};
  uint32_t found = TN_NONE;
  if (p.known == NULL) return TN_NONE;
  find_out(&p);
  for (uint32_t i = 0; found == TN_NONE && i < op->n_inputs; ++i)
    if (unknown_packs(&p, op->inputs[i], names) == 2) found = i;
  tn__free(env, p.known);
  return found;
}
