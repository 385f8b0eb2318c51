/* SPDX-License-Identifier: Apache-2.0
 * binding_map.c: reads `map: x` of a binding. The function is called once for
 * each element of an input and gets elements of all operands of the same shape.
 */
#include <string.h>

#include "expr.h"
#include "lower_binding.h"

/* Tests whether two terms of shapes are the same dimension or pack. */
static bool is_same_term(const tnm_bind *b, const tn_term *x,
                         const tn_term *y) {
  const tn_node *m = &b->lower->op->nodes[x->node];
  const tn_node *n = &b->lower->op->nodes[y->node];
  return x->spread == y->spread && m->op == n->op && m->a == n->a &&
         (m->op == TN_NODE_DIM || m->op == TN_NODE_PACK);
}

/* Tests whether two patterns have the same dimensions, compared one by one. */
static bool is_same_pattern(const tnm_bind *b, const tn_arg *x,
                            const tn_arg *y) {
  bool same = x->shape_kind == TN_SHAPE_PATTERN &&
              y->shape_kind == TN_SHAPE_PATTERN && x->n_terms == y->n_terms;
  for (uint32_t i = 0; same && i < x->n_terms; ++i)
    same = is_same_term(b, &x->terms[i], &y->terms[i]);
  return same;
}

/* Follows `shape: OTHER` rules from operand to operand, and returns the last
 * operand. A valid rule names an earlier operand, so the loop ends; a fixed
 * bound ends it for invalid rules. */
static const tn_arg *follow_shape(const tnm_bind *b, const tn_arg *arg) {
  for (uint32_t step = 0; step < 64 && arg->shape_kind == TN_SHAPE_SAME; ++step)
    arg = b->lower->operands[arg->shape_list].v[arg->shape_index];
  return arg;
}

bool tnm_has_map_shape(const tnm_bind *b, uint32_t list, uint32_t index) {
  if (b->out->map == TN_NONE) return false;
  const tn_arg *map =
      follow_shape(b, b->lower->operands[TN_OPERAND_IN].v[b->out->map]);
  const tn_arg *arg = follow_shape(b, b->lower->operands[list].v[index]);
  return arg == map || is_same_pattern(b, arg, map);
}

void tnm_read_map(tnm_bind *b) {
  const tnm_operands *inputs = &b->lower->operands[TN_OPERAND_IN];
  const tnm_tree *node = tnm_tree_get(b->map, "map");
  b->out->map = TN_NONE;
  if (node == NULL ||
      !tnm_check_scalar(b->lower->diags, node, "the name of an input"))
    return;
  b->out->map = tnm_find_operand(b->lower, TN_OPERAND_IN, node->text);
  if (b->out->map == TN_NONE) {
    const tnm_diag_spec spec = {"E0031", node->pos, "unknown name"};
    const size_t id =
        tnm_diag_add(b->lower->diags, &spec, "`%.80s` is no input", node->text);
    tnm_suggest_word(b->lower->diags, id, node->text, inputs->names, inputs->n);
    b->has_invalid = true;
    return;
  }
  if ((inputs->v[b->out->map]->flags & TN_ARG_OPTIONAL) == 0) return;
  const tnm_diag_spec spec = {"E0088", node->pos, NULL};
  const size_t id =
      tnm_diag_add(b->lower->diags, &spec,
                   "`%s` may be absent: then there is no element to "
                   "call for",
                   node->text);
  tnm_diag_add_help(b->lower->diags, id,
                    "map over an input that is always there");
}

void tnm_check_map(tnm_bind *b) {
  const tnm_tree *node = tnm_tree_get(b->map, "map");
  if (node == NULL || b->out->map == TN_NONE || b->has_invalid) return;
  const tnm_diag_spec spec = {"E0088", node->pos, NULL};
  if (!b->mapped) {
    const size_t id =
        tnm_diag_add(b->lower->diags, &spec,
                     "no argument is an element of `%s`", node->text);
    tnm_diag_add_help(b->lower->diags, id, "pass it by value, as `c: double`");
  }
  if (b->out->result != TNM_RESULT_OUTPUT ||
      tnm_has_map_shape(b, TN_OPERAND_OUT, b->out->output))
    return;
  const char *name = b->lower->operands[TN_OPERAND_OUT].names[b->out->output];
  const size_t id = tnm_diag_add(b->lower->diags, &spec,
                                 "a call for each element of `%s` returns more "
                                 "than `%s` takes",
                                 node->text, name);
  tnm_diag_add_help(b->lower->diags, id, "write `shape: %s` for `%s`",
                    node->text, name);
}
