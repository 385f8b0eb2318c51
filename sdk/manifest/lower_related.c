/* SPDX-License-Identifier: Apache-2.0
 * lower_related.c: checks that the rules of an operator relate its inputs and
 * states to each other. A kernel that gets tensors of unrelated shapes computes
 * addresses in one from the shape of another, and reads outside of it. A
 * union-find structure groups operands that share a dimension, a condition or a
 * rule.
 */
#include <string.h>

#include "front.h"

/* Members of groups: all operands, dimensions and packs, then the function
 * that infers shapes, and broadcasting. */
typedef struct groups {
  const tnm_lower *lower;
  uint32_t *parent;
  uint32_t first[5]; /* of inputs, outputs, states, dimensions, packs */
  uint32_t hook;
  uint32_t broadcast;
  uint32_t n;
} groups;

enum { DIMS = 3, PACKS = 4 };

static bool init_groups(groups *g, const tnm_lower *lower) {
  const tn_op *op = lower->op;
  const uint32_t counts[] = {op->n_inputs, op->n_outputs, op->n_aux, op->n_dims,
                             op->n_packs};
  *g = (groups){.lower = lower};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    g->first[i] = g->n;
    g->n += counts[i];
  }
  g->hook = g->n++;
  g->broadcast = g->n++;
  g->parent = TNM_NEW(lower->arena, uint32_t, g->n);
  for (uint32_t i = 0; g->parent != NULL && i < g->n; ++i) g->parent[i] = i;
  return g->parent != NULL;
}

static uint32_t find_group(const groups *g, uint32_t member) {
  while (g->parent[member] != member) {
    g->parent[member] = g->parent[g->parent[member]];
    member = g->parent[member];
  }
  return member;
}

/* Joins two groups. The lower number remains, so the group of the first input
 * wins. */
static void join_groups(const groups *g, uint32_t a, uint32_t b) {
  const uint32_t x = find_group(g, a), y = find_group(g, b);
  g->parent[x < y ? y : x] = x < y ? x : y;
}

/* Joins all operands of an expression to a member; TN_NONE: to one another.
 * Returns the member. Parameters relate nothing: two inputs of `n` and `n + M`
 * elements may still differ in ways that a kernel does not check. */
static uint32_t join_node(const groups *g, uint32_t member, uint32_t node) {
  const tn_node *n = &g->lower->op->nodes[node];
  const uint32_t args[] = {(uint32_t)n->a, (uint32_t)n->b, (uint32_t)n->c};
  uint32_t named = TN_NONE;
  if (n->op == TN_NODE_DIM)
    named = g->first[DIMS] + args[0];
  else if (n->op == TN_NODE_PACK)
    named = g->first[PACKS] + args[0];
  else if (n->op == TN_NODE_OPERAND_RANK || n->op == TN_NODE_OPERAND_SIZE ||
           n->op == TN_NODE_OPERAND_SHAPE)
    named = g->first[args[0]] + args[1];
  if (named != TN_NONE && member != TN_NONE) join_groups(g, member, named);
  if (member == TN_NONE) member = named;
  for (uint32_t i = 0; i < tnm_node_arity(n->op); ++i)
    member = join_node(g, member, args[i]);
  return member;
}

static void join_operand(const groups *g, uint32_t list, uint32_t index) {
  const tn_arg *arg = g->lower->operands[list].v[index];
  const uint32_t member = g->first[list] + index;
  if (arg->shape_kind == TN_SHAPE_SAME)
    join_groups(g, member, g->first[arg->shape_list] + arg->shape_index);
  else if (arg->shape_kind == TN_SHAPE_BROADCAST)
    join_groups(g, member, g->broadcast);
  else if (arg->shape_kind == TN_SHAPE_HOOK)
    join_groups(g, member, g->hook);
  for (uint32_t i = 0; i < arg->n_terms; ++i)
    (void)join_node(g, member, (uint32_t)arg->terms[i].node);
}

static bool has_kind(const tnm_lower *lower, uint32_t kind) {
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < lower->operands[list].n; ++i)
      if (lower->operands[list].v[i]->shape_kind == kind) return true;
  return false;
}

static void join_all(const groups *g) {
  const tn_op *op = g->lower->op;
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < g->lower->operands[list].n; ++i)
      join_operand(g, list, i);
  for (uint32_t i = 0; i < op->n_requires; ++i)
    (void)join_node(g, TN_NONE, op->requirements[i]->node);
  if (!has_kind(g->lower, TN_SHAPE_BROADCAST)) return;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    join_groups(g, g->first[TN_OPERAND_IN] + i, g->broadcast);
}

/* ----------------------------------------------------------------- messages */

/* A pattern of numbers and parameters only needs no relation. */
static bool is_fixed(const groups *g, uint32_t list, uint32_t index) {
  const tn_arg *arg = g->lower->operands[list].v[index];
  while (arg->shape_kind == TN_SHAPE_SAME) {
    list = arg->shape_list;
    index = arg->shape_index;
    arg = g->lower->operands[list].v[index];
  }
  const uint32_t member = g->first[list] + index;
  if (arg->shape_kind != TN_SHAPE_PATTERN) return false;
  for (uint32_t i = g->first[DIMS]; i < g->hook; ++i)
    if (find_group(g, i) == find_group(g, member)) return false;
  return true;
}

static void report_needless(const groups *g, uint32_t index, uint32_t other) {
  const tnm_operands *inputs = &g->lower->operands[TN_OPERAND_IN];
  const tnm_tree *key = tnm_tree_get(inputs->nodes[index], "independent");
  const tnm_diag_spec spec = {"E0097", key->pos, "not independent"};
  const size_t id =
      tnm_diag_add(g->lower->diags, &spec,
                   "a rule relates the shape of `%s` to that of `%s`",
                   inputs->names[index], inputs->names[other]);
  tnm_diag_add_help(g->lower->diags, id, "remove `independent`");
}

/* Checks inputs that are declared independent although a rule names them. */
static bool check_declared(const groups *g, const bool *declared) {
  const uint32_t n = g->lower->op->n_inputs;
  bool good = true;
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t k = 0; k < n && declared[i]; ++k) {
      if (k == i || find_group(g, i) != find_group(g, k)) continue;
      report_needless(g, i, k);
      good = false;
      break;
    }
  }
  return good;
}

/* Tests for tensors of a variadic input with no rule except for their
 * number. */
static bool is_loose(const groups *g, const tn_arg *arg) {
  return (arg->flags & TN_ARG_VARIADIC) != 0 &&
         arg->shape_kind == TN_SHAPE_ANY &&
         !has_kind(g->lower, TN_SHAPE_BROADCAST);
}

static void report_unrelated(const groups *g, uint32_t list, uint32_t index,
                             const char *other) {
  const tnm_operands *operands = &g->lower->operands[list];
  const tnm_tree *name = tnm_tree_get(operands->nodes[index], "name");
  const tnm_diag_spec spec = {"E0097", name->pos, "unrelated"};
  const size_t id =
      other == NULL
          ? tnm_diag_add(g->lower->diags, &spec,
                         "no rule relates the shapes of the tensors `%s`",
                         name->text)
          : tnm_diag_add(g->lower->diags, &spec,
                         "no rule relates the shape of `%s` to that of `%s`",
                         name->text, other);
  tnm_diag_add_help(g->lower->diags, id,
                    "use one dimension in both, as `[N, C]`, a condition in "
                    "`require`, or `{c: function}`%s",
                    list != TN_OPERAND_IN
                        ? ""
                        : "; write `independent: true` if the "
                          "kernel takes any shape");
}

/* A group: operands with shapes that some rule relates. Keeps the first group,
 * in *first, and reports the first operand of each other one, except fixed
 * shapes and independent inputs. A loose input is always reported. */
static void check_list(const groups *g, uint32_t list, const bool *declared,
                       bool *seen, const char **first) {
  const tnm_operands *operands = &g->lower->operands[list];
  const bool inputs = list == TN_OPERAND_IN;
  for (uint32_t i = 0; i < operands->n; ++i) {
    const uint32_t group = find_group(g, g->first[list] + i);
    const bool loose = is_loose(g, operands->v[i]);
    if (is_fixed(g, list, i) || (seen[group] && !loose)) continue;
    seen[group] = true;
    if (inputs && declared[i]) continue;
    if (loose || *first != NULL)
      report_unrelated(g, list, i, loose ? NULL : *first);
    else
      *first = operands->names[i];
  }
}

/* A function that infers shapes sees all of them and is trusted to compare
 * them. */
void tnm_check_related(const tnm_lower *lower) {
  const uint32_t n = lower->op->n_inputs;
  const tnm_tree *const *nodes = lower->operands[TN_OPERAND_IN].nodes;
  bool *declared = TNM_NEW(lower->arena, bool, n);
  const char *first = NULL;
  groups g;
  if (declared == NULL || !init_groups(&g, lower)) return;
  bool *seen = TNM_NEW(lower->arena, bool, g.n);
  for (uint32_t i = 0; i < n; ++i)
    declared[i] = tnm_get_bool(lower->diags, nodes[i], "independent");
  if (seen == NULL || tnm_diags_errors(lower->diags) > lower->n_errors) return;
  join_all(&g);
  if (!check_declared(&g, declared) || has_kind(lower, TN_SHAPE_HOOK)) return;
  check_list(&g, TN_OPERAND_IN, declared, seen, &first);
  check_list(&g, TN_OPERAND_AUX, declared, seen, &first);
}
