/* SPDX-License-Identifier: Apache-2.0
 * lower_related.c: checks that the rules of an operator relate its inputs and
 * states to each other. A kernel that gets tensors of unrelated shapes computes
 * addresses in one from the shape of another, and reads outside of it. A
 * union-find structure groups operands that share a dimension, a condition or a
 * rule.
 */
#include <string.h>

#include "front.h"

/* Sets of operands with shapes that a rule relates, as a union-find structure.
 * Its members are the operands, dimension variables and packs, then one member
 * for the function that infers shapes, and one for broadcasting. */
typedef struct related_sets {
  const tnm_lower *lower;
  uint32_t *parent;   /* parent of each member in its set, by number; a root is
                         its own parent */
  uint32_t first[5];  /* number of the first member that is an input, output,
                         state, dimension, pack */
  uint32_t hook;      /* number of the member for the inferring function */
  uint32_t broadcast; /* number of the member for broadcasting */
  uint32_t n;
} related_sets;

enum { DIMS = 3, PACKS = 4 };

/* Makes a set of its own for each operand, dimension and pack, for the
 * author's shape function and for broadcasting. Returns false if memory ran
 * out. */
static bool init_sets(related_sets *g, const tnm_lower *lower) {
  const tn_op *op = lower->op;
  const uint32_t counts[] = {op->n_inputs, op->n_outputs, op->n_aux, op->n_dims,
                             op->n_packs};
  *g = (related_sets){.lower = lower};
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

/* Returns the number of the set that contains a member: that of its root. */
static uint32_t find_set(const related_sets *g, uint32_t member) {
  while (g->parent[member] != member) {
    g->parent[member] = g->parent[g->parent[member]];
    member = g->parent[member];
  }
  return member;
}

/* Makes one set of two. The lower number becomes the number of the set, so
 * a set with the first input has the lowest number. */
static void join_sets(const related_sets *g, uint32_t a, uint32_t b) {
  const uint32_t x = find_set(g, a), y = find_set(g, b);
  g->parent[x < y ? y : x] = x < y ? x : y;
}

/* Puts all operands, dimensions and packs that an expression names into one
 * set. `node` is the root of the expression. `member` is a number that is in
 * the set already, or TN_NONE for a new set. Returns a number in the set, or
 * TN_NONE if it is empty. Parameters relate nothing: two inputs of `n` and `n +
 * M` elements may still differ in ways that a kernel does not check. */
static uint32_t join_expression_operands(const related_sets *g, uint32_t member,
                                         uint32_t node) {
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
  if (named != TN_NONE && member != TN_NONE) join_sets(g, member, named);
  if (member == TN_NONE) member = named;
  for (uint32_t i = 0; i < tnm_node_arity(n->op); ++i)
    member = join_expression_operands(g, member, args[i]);
  return member;
}

/* Puts an operand into one set with everything that its shape rule names. */
static void join_shape_rule(const related_sets *g, uint32_t list,
                            uint32_t index) {
  const tn_arg *arg = g->lower->operands[list].v[index];
  const uint32_t member = g->first[list] + index;
  if (arg->shape_kind == TN_SHAPE_SAME)
    join_sets(g, member, g->first[arg->shape_list] + arg->shape_index);
  else if (arg->shape_kind == TN_SHAPE_BROADCAST)
    join_sets(g, member, g->broadcast);
  else if (arg->shape_kind == TN_SHAPE_HOOK)
    join_sets(g, member, g->hook);
  for (uint32_t i = 0; i < arg->n_terms; ++i)
    (void)join_expression_operands(g, member, (uint32_t)arg->terms[i].node);
}

/* Tests whether an operand of the operator has a shape of this kind
 * (TN_SHAPE_*). */
static bool has_shape_kind(const tnm_lower *lower, uint32_t kind) {
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < lower->operands[list].n; ++i)
      if (lower->operands[list].v[i]->shape_kind == kind) return true;
  return false;
}

/* Joins the sets of operands whose shapes a rule relates. */
static void join_related_operands(const related_sets *g) {
  const tn_op *op = g->lower->op;
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < g->lower->operands[list].n; ++i)
      join_shape_rule(g, list, i);
  for (uint32_t i = 0; i < op->n_requires; ++i)
    (void)join_expression_operands(g, TN_NONE, op->requirements[i]->node);
  if (!has_shape_kind(g->lower, TN_SHAPE_BROADCAST)) return;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    join_sets(g, g->first[TN_OPERAND_IN] + i, g->broadcast);
}

/* ----------------------------------------------------------------- messages */

/* Tests whether the shape of an operand depends on numbers and parameters only.
 * No rule must relate such a shape to others. */
static bool has_fixed_shape(const related_sets *g, uint32_t list,
                            uint32_t index) {
  const tn_arg *arg = g->lower->operands[list].v[index];
  while (arg->shape_kind == TN_SHAPE_SAME) {
    list = arg->shape_list;
    index = arg->shape_index;
    arg = g->lower->operands[list].v[index];
  }
  const uint32_t member = g->first[list] + index;
  if (arg->shape_kind != TN_SHAPE_PATTERN) return false;
  for (uint32_t i = g->first[DIMS]; i < g->hook; ++i)
    if (find_set(g, i) == find_set(g, member)) return false;
  return true;
}

/* Reports an input that is declared independent although a rule relates its
 * shape to that of input `other`. */
static void report_needless_independent(const related_sets *g, uint32_t index,
                                        uint32_t other) {
  const tnm_operands *inputs = &g->lower->operands[TN_OPERAND_IN];
  const tnm_tree *key = tnm_tree_get(inputs->nodes[index], "independent");
  const tnm_diag_spec spec = {"E0097", key->pos, "not independent"};
  const size_t id =
      tnm_diag_add(g->lower->diags, &spec,
                   "a rule relates the shape of `%s` to that of `%s`",
                   inputs->names[index], inputs->names[other]);
  tnm_diag_add_help(g->lower->diags, id, "remove `independent`");
}

/* Checks inputs that are declared independent although a rule names them.
 * Returns false after a message. */
static bool check_independent_inputs(const related_sets *g,
                                     const bool *declared) {
  const uint32_t n = g->lower->op->n_inputs;
  bool good = true;
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t k = 0; k < n && declared[i]; ++k) {
      if (k == i || find_set(g, i) != find_set(g, k)) continue;
      report_needless_independent(g, i, k);
      good = false;
      break;
    }
  }
  return good;
}

/* Tests whether an operand is variadic and no rule relates the shapes of its
 * tensors to each other. */
static bool has_unrelated_tensors(const related_sets *g, const tn_arg *arg) {
  return (arg->flags & TN_ARG_VARIADIC) != 0 &&
         arg->shape_kind == TN_SHAPE_ANY &&
         !has_shape_kind(g->lower, TN_SHAPE_BROADCAST);
}

/* Reports operand `index` of `list` (TN_OPERAND_*): no rule relates its shape
 * to that of `other`. If `other` is NULL, no rule relates the shapes of the
 * tensors of this variadic operand. */
static void report_unrelated_operand(const related_sets *g, uint32_t list,
                                     uint32_t index, const char *other) {
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

/* Reports the operands of a list that no rule relates to the operands before
 * them. *first is the name of the first operand of the first set; the
 * function reports the first operand of each further set. Operands of fixed
 * shape and declared independent inputs are not reported. A variadic input with
 * unrelated tensors is reported even in the first set. */
static void report_unrelated_sets(const related_sets *g, uint32_t list,
                                  const bool *declared, bool *seen,
                                  const char **first) {
  const tnm_operands *operands = &g->lower->operands[list];
  const bool inputs = list == TN_OPERAND_IN;
  for (uint32_t i = 0; i < operands->n; ++i) {
    const uint32_t set = find_set(g, g->first[list] + i);
    const bool loose = has_unrelated_tensors(g, operands->v[i]);
    if (has_fixed_shape(g, list, i) || (seen[set] && !loose)) continue;
    seen[set] = true;
    if (inputs && declared[i]) continue;
    if (loose || *first != NULL)
      report_unrelated_operand(g, list, i, loose ? NULL : *first);
    else
      *first = operands->names[i];
  }
}

/* Reports inputs whose shape no rule relates to other operands. If the
 * author's function infers shapes, nothing is reported: that function gets all
 * shapes and can compare them. */
void tnm_check_related(const tnm_lower *lower) {
  const uint32_t n = lower->op->n_inputs;
  const tnm_tree *const *nodes = lower->operands[TN_OPERAND_IN].nodes;
  bool *declared = TNM_NEW(lower->arena, bool, n);
  const char *first = NULL;
  related_sets g;
  if (declared == NULL || !init_sets(&g, lower)) return;
  bool *seen = TNM_NEW(lower->arena, bool, g.n);
  for (uint32_t i = 0; i < n; ++i)
    declared[i] = tnm_get_bool(lower->diags, nodes[i], "independent");
  if (seen == NULL || tnm_diags_errors(lower->diags) > lower->n_errors) return;
  join_related_operands(&g);
  if (!check_independent_inputs(&g, declared) ||
      has_shape_kind(lower, TN_SHAPE_HOOK))
    return;
  report_unrelated_sets(&g, TN_OPERAND_IN, declared, seen, &first);
  report_unrelated_sets(&g, TN_OPERAND_AUX, declared, seen, &first);
}
