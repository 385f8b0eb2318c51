/* SPDX-License-Identifier: Apache-2.0
 * bindings.c: prints the values that an operator's shape rule used for a shape:
 * "N=1, S=(3,3), kernel=(2,2)". The host reports only the result, so this file
 * reads the dimensions from the inputs' patterns again.
 */
#include <string.h>

#include "examples.h"

/* Finds a pattern's only spread term; n_terms if there is none, and false if
 * there are several. */
static bool spread_at(const tn_arg *arg, uint32_t *at) {
  *at = arg->n_terms;
  for (uint32_t i = 0; i < arg->n_terms; ++i) {
    if (!arg->terms[i].spread) continue;
    if (*at != arg->n_terms) return false;
    *at = i;
  }
  return true;
}

/* Tests whether term i of the pattern is exactly the variable of `want`; then
 * the part of the shape that it represents. */
static bool is_variable_term(const tn_op *op, const tn_arg *arg, uint32_t i,
                             const tn_node *want) {
  const tn_node *node = &op->nodes[arg->terms[i].node];
  return node->op == want->op && node->a == want->a;
}

static bool print_slice(const tn_arg *arg, const tn_sig *sig, uint32_t i,
                        tn__buf *out) {
  uint32_t spread = 0;
  if (!spread_at(arg, &spread)) return false;
  const int32_t n = (int32_t)arg->n_terms;
  const int32_t wide = sig->ndim - (n - 1);
  const bool is_pack = spread == i;
  if (spread == arg->n_terms ? sig->ndim != n : wide < 0) return false;
  const int32_t at = (int32_t)i + (i > spread ? wide - 1 : 0);
  if (is_pack)
    tn__buf_shape(out, wide, sig->shape + at);
  else
    tn__buf_add(out, "%lld", (long long)sig->shape[at]);
  return true;
}

/* Prints a dimension or pack, from the first input that contains it. */
static bool print_variable(const shape_case *c, const tn_node *node,
                           tn__buf *out) {
  const tn_op *op = c->op;
  for (uint32_t i = 0; i < op->n_inputs && i < c->io->n_in; ++i) {
    const tn_arg *arg = op->inputs[i];
    if (c->io->in[i].ndim < 0 || arg->shape_kind != TN_SHAPE_PATTERN) continue;
    for (uint32_t k = 0; k < arg->n_terms; ++k)
      if (is_variable_term(op, arg, k, node))
        return print_slice(arg, &c->io->in[i], k, out);
  }
  return false;
}

static bool print_param(const shape_case *c, const tn_field *field,
                        tn__buf *out) {
  const char *at = (const char *)tn_params_struct(c->params) + field->offset;
  int64_t number = 0;
  tn_ints list = {0};
  switch (field->type) {
    case TN_FIELD_INT:
      memcpy(&number, at, sizeof number);
      tn__buf_add(out, "%lld", (long long)number);
      return true;
    case TN_FIELD_INTS:
      memcpy(&list, at, sizeof list);
      if (list.n > TN_MAX_NDIM) return false;
      tn__buf_shape(out, (int32_t)list.n, list.v);
      return true;
    default:
      return false;
  }
}

static bool has_param(const tnm_example *example, const char *name) {
  for (size_t i = 0; i < example->n_params; ++i)
    if (strcmp(example->params[i].key, name) == 0) return true;
  return false;
}

static void add_binding(tn__buf *out, const char *name, const tn__buf *value) {
  tn__buf_add(out, "%s%s=%s", out->n > 0 ? ", " : "", name,
              value->s != NULL ? value->s : "");
}

/* Adds the variable or parameter of a node. Parameters with their defaults are
 * omitted. */
static void add_leaf(const shape_case *c, const tn_node *node, tn__buf *out) {
  const tn_op *op = c->op;
  tn__buf value;
  tn__buf_init(&value, out->env);
  if (node->op == TN_NODE_DIM && print_variable(c, node, &value)) {
    add_binding(out, op->dims[node->a], &value);
  } else if (node->op == TN_NODE_PACK && print_variable(c, node, &value)) {
    add_binding(out, op->packs[node->a], &value);
  } else if (node->op == TN_NODE_PARAM) {
    const tn_field *field = op->params[node->a];
    if (has_param(c->example, field->name) && print_param(c, field, &value))
      add_binding(out, field->name, &value);
  }
  out->failed |= value.failed;
  tn__buf_deinit(&value);
}

static bool is_leaf(const tn_node *node) {
  return node->op < TN_NODE_RANK || node->op == TN_NODE_COMPARE_PARAMS;
}

/* Adds the leaves of one term, from left to right, each once. `seen` has a mark
 * for every node of the operator. */
static void add_term(const shape_case *c, int32_t index, bool *seen,
                     tn__buf *out) {
  const tn_node *node = &c->op->nodes[index];
  if (seen[index]) return;
  seen[index] = true;
  if (is_leaf(node)) {
    for (int32_t i = 0; i < (int32_t)c->op->n_nodes; ++i)
      if (i != index && seen[i] && c->op->nodes[i].op == node->op &&
          c->op->nodes[i].a == node->a)
        return;
    add_leaf(c, node, out);
    return;
  }
  if (node->op < TN_NODE_NEG) return;
  add_term(c, node->a, seen, out);
  if (node->op != TN_NODE_NEG && node->op != TN_NODE_ABS)
    add_term(c, node->b, seen, out);
  if (node->op == TN_NODE_SELECT) add_term(c, node->c, seen, out);
}

void bindings_print(const shape_case *c, const tn_arg *arg, tn__buf *out) {
  bool *seen = tn__zalloc(out->env, c->op->n_nodes + 1u);
  if (seen == NULL) {
    out->failed = true;
    return;
  }
  if (arg->shape_kind == TN_SHAPE_PATTERN)
    for (uint32_t i = 0; i < arg->n_terms; ++i)
      add_term(c, arg->terms[i].node, seen, out);
  tn__free(out->env, seen);
}
