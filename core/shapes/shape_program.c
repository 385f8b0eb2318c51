/* SPDX-License-Identifier: Apache-2.0
 * shape_program.c: evaluates shape programs. infer_solve.c does the reverse: it
 * finds variables from values.
 */
#include "shape_program.h"

#include <string.h>

/* Deeper programs are refused, so that a bad table cannot exhaust the stack. */
enum { DEPTH_MAX = 200 };

static uint32_t child_of(const tn_node *node, uint32_t which) {
  const int32_t children[] = {node->a, node->b, node->c};
  return (uint32_t)children[which];
}

static tn_code fail_bad_program(const char *what) {
  return tn__fail(TN_PLUGIN,
                  "a shape rule is malformed: %s; regenerate the plugin with "
                  "opgen",
                  what);
}

/* The node, if its operands have lower indexes: then every walk ends. */
static tn_code node_at(const tn__scope *scope, uint32_t index,
                       const tn_node **out) {
  if (index >= scope->n_nodes) return fail_bad_program("a node does not exist");
  const tn_node *node = &scope->nodes[index];
  for (uint32_t i = 0; i < tnm_node_arity(node->op); ++i)
    if (child_of(node, i) >= index)
      return fail_bad_program("a node comes before its operand");
  *out = node;
  return TN_OK;
}

bool tn__is_same_node(const tn_node *nodes, uint32_t a, uint32_t b) {
  if (a == b) return true;
  const tn_node *x = &nodes[a], *y = &nodes[b];
  const uint32_t arity = tnm_node_arity(x->op);
  if (x->op != y->op || x->value != y->value) return false;
  if (arity == 0) return x->a == y->a && x->b == y->b;
  for (uint32_t i = 0; i < arity; ++i)
    if (!tn__is_same_node(nodes, child_of(x, i), child_of(y, i))) return false;
  return true;
}

/* ---------------------------------------------------------------- operands */

/* Rank and shape of an operand, ndim -1 if unknown. */
typedef struct shape_view {
  int32_t ndim;
  const int64_t *shape;
} shape_view;

static shape_view view_in_io(const tn_signature *io, int32_t list,
                             uint32_t index) {
  const tn_sig *sigs[] = {io->in, io->out, io->aux};
  const uint32_t counts[] = {io->n_in, io->n_out, io->n_aux};
  if (list < 0 || list > 2 || index >= counts[list] || sigs[list] == NULL)
    return (shape_view){-1, NULL};
  return (shape_view){sigs[list][index].ndim, sigs[list][index].shape};
}

static shape_view view_in_frame(const tn_frame *frame, int32_t list,
                                uint32_t index) {
  const tn_tensor *tensors[] = {frame->in, frame->out, frame->aux};
  const uint32_t counts[] = {frame->n_in, frame->n_out, frame->n_aux};
  if (list < 0 || list > 2 || index >= counts[list])
    return (shape_view){-1, NULL};
  return (shape_view){tensors[list][index].ndim, tensors[list][index].shape};
}

static shape_view view_of(const tn__scope *scope, const tn_node *node) {
  if (scope->frame != NULL)
    return view_in_frame(scope->frame, node->a, (uint32_t)node->b);
  if (scope->io == NULL) return (shape_view){-1, NULL};
  return view_in_io(scope->io, node->a, (uint32_t)node->b);
}

static tn_code fail_overflow(void) {
  return tn__fail(TN_OUT_OF_RANGE,
                  "a size does not fit 64 bits in a shape rule; use smaller "
                  "shapes or parameters");
}

static tn_code size_of(shape_view view, tn__element *out) {
  int64_t n = 1;
  *out = (tn__element){0};
  if (view.ndim < 0) return TN_OK;
  for (int32_t i = 0; i < view.ndim; ++i)
    if (view.shape[i] < 0) return TN_OK;
  for (int32_t i = 0; i < view.ndim; ++i)
    if (__builtin_mul_overflow(n, view.shape[i], &n)) return fail_overflow();
  *out = (tn__element){n, true};
  return TN_OK;
}

static tn__element has_input(const tn__scope *scope, uint32_t index) {
  const tn_frame *frame = scope->frame;
  if (frame != NULL)
    return (tn__element){
        index < frame->n_in && (frame->in_flags[index] & TN_IN_ABSENT) == 0,
        true};
  if (scope->io == NULL) return (tn__element){0};
  const bool given = index < scope->io->n_in &&
                     (scope->absent == NULL || scope->absent[index] == 0);
  return (tn__element){given, true};
}

/* -------------------------------------------------------------- parameters */

/* An optional parameter that is None counts as 0, or as an empty list. */
static const void *param_of(const tn__scope *scope, const tn_node *node,
                            const tn_field **field) {
  *field = scope->fields[node->a];
  return (const unsigned char *)scope->params + (*field)->offset;
}

static tn_code param_length(const tn__scope *scope, const tn_node *node,
                            int32_t *out) {
  const tn_field *field = NULL;
  if ((uint32_t)node->a >= scope->n_fields)
    return fail_bad_program("a parameter does not exist");
  const uint32_t type = scope->fields[node->a]->type;
  *out = type == TN_FIELD_INTS ? TN__UNKNOWN_LENGTH : TN__SCALAR;
  if (type != TN_FIELD_INTS || scope->params == NULL) return TN_OK;
  const tn_ints *list = param_of(scope, node, &field);
  if (list->n > TN_MAX_NDIM)
    return tn__fail(TN_OUT_OF_RANGE,
                    "parameter `%s` has %lld values, but shapes have at most "
                    "%d dimensions",
                    field->name, (long long)list->n, TN_MAX_NDIM);
  *out = (int32_t)list->n;
  return TN_OK;
}

static tn_code param_at(const tn__scope *scope, const tn_node *node, int32_t k,
                        tn__element *out) {
  const tn_field *field = NULL;
  *out = (tn__element){0};
  if ((uint32_t)node->a >= scope->n_fields)
    return fail_bad_program("a parameter does not exist");
  if (scope->params == NULL) return TN_OK;
  const void *at = param_of(scope, node, &field);
  out->known = true;
  switch (field->type) {
    case TN_FIELD_BOOL:
    case TN_FIELD_ENUM:
      out->v = *(const int32_t *)at;
      return TN_OK;
    case TN_FIELD_INT:
      out->v = *(const int64_t *)at;
      return TN_OK;
    case TN_FIELD_INTS:
      out->v = k < ((const tn_ints *)at)->n ? ((const tn_ints *)at)->v[k] : 0;
      return TN_OK;
    default:
      return fail_bad_program("a parameter in it is not an integer");
  }
}

/* ------------------------------------------------------------------ lengths */

static tn_code length_of(const tn__scope *scope, uint32_t index, uint32_t depth,
                         int32_t *out);

static tn_code common_length(const tn__scope *scope, const tn_node *node,
                             uint32_t depth, int32_t *out) {
  int32_t common = TN__SCALAR;
  for (uint32_t i = 0; i < tnm_node_arity(node->op); ++i) {
    int32_t n = TN__SCALAR;
    TN__TRY(length_of(scope, child_of(node, i), depth + 1, &n));
    if (common >= 0 && n >= 0 && n != common)
      return tn__fail(TN_SHAPE,
                      "a shape rule combines a list of %d with a list of %d "
                      "values",
                      common, n);
    if (common < 0 && n != TN__SCALAR) common = n;
  }
  *out = common;
  return TN_OK;
}

static tn_code length_of(const tn__scope *scope, uint32_t index, uint32_t depth,
                         int32_t *out) {
  const tn_node *node = NULL;
  *out = TN__SCALAR;
  if (depth > DEPTH_MAX) return fail_bad_program("it is nested too deeply");
  TN__TRY(node_at(scope, index, &node));
  switch (node->op) {
    case TN_NODE_PACK:
      *out =
          scope->packs == NULL ? TN__UNKNOWN_LENGTH : scope->packs[node->a].n;
      return TN_OK;
    case TN_NODE_PARAM:
      return param_length(scope, node, out);
    case TN_NODE_OPERAND_SHAPE:
      *out = view_of(scope, node).ndim;
      if (*out < 0) *out = TN__UNKNOWN_LENGTH;
      return TN_OK;
    case TN_NODE_RANK:
      return TN_OK;
    default:
      return common_length(scope, node, depth, out);
  }
}

tn_code tn__expr_length(const tn__scope *scope, uint32_t node, int32_t *out) {
  return length_of(scope, node, 0, out);
}

/* --------------------------------------------------------------- arithmetic */

/* a / b rounded towards minus infinity; b is not 0. */
static int64_t divide_down(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static tn_code divide_numbers(uint32_t op, int64_t a, int64_t b, int64_t *out) {
  if (b == 0)
    return tn__fail(TN_OUT_OF_RANGE,
                    "a shape rule divides %lld by 0; give a parameter or a "
                    "dimension that is not 0",
                    (long long)a);
  if (b == -1) {
    if (op == TN_NODE_MOD) return *out = 0, TN_OK;
    return __builtin_sub_overflow(0, a, out) ? fail_overflow() : TN_OK;
  }
  const int64_t q = divide_down(a, b);
  *out = op == TN_NODE_DIV ? q : a - q * b;
  return TN_OK;
}

static tn_code compute_power(int64_t a, int64_t b, int64_t *out) {
  int64_t v = 1;
  if (b < 0)
    return tn__fail(TN_OUT_OF_RANGE,
                    "a shape rule takes %lld to the negative power %lld",
                    (long long)a, (long long)b);
  if (a == 0 || a == 1) return *out = b == 0 ? 1 : a, TN_OK;
  if (a == -1) return *out = b % 2 == 0 ? 1 : -1, TN_OK;
  for (int64_t i = 0; i < b; ++i)
    if (__builtin_mul_overflow(v, a, &v)) return fail_overflow();
  *out = v;
  return TN_OK;
}

static int64_t compare_numbers(uint32_t op, int64_t a, int64_t b) {
  switch (op) {
    case TN_NODE_EQ:
      return a == b;
    case TN_NODE_NE:
      return a != b;
    case TN_NODE_LT:
      return a < b;
    case TN_NODE_LE:
      return a <= b;
    case TN_NODE_GT:
      return a > b;
    default:
      return a >= b;
  }
}

static tn_code combine_numbers(uint32_t op, int64_t a, int64_t b,
                               int64_t *out) {
  bool over = false;
  switch (op) {
    case TN_NODE_ADD:
      over = __builtin_add_overflow(a, b, out);
      break;
    case TN_NODE_SUB:
      over = __builtin_sub_overflow(a, b, out);
      break;
    case TN_NODE_MUL:
      over = __builtin_mul_overflow(a, b, out);
      break;
    case TN_NODE_DIV:
    case TN_NODE_MOD:
      return divide_numbers(op, a, b, out);
    case TN_NODE_POW:
      return compute_power(a, b, out);
    case TN_NODE_MIN:
      *out = a < b ? a : b;
      break;
    case TN_NODE_MAX:
      *out = a > b ? a : b;
      break;
    default:
      *out = compare_numbers(op, a, b);
  }
  return over || *out == TN__UNKNOWN_ELEMENT ? fail_overflow() : TN_OK;
}

/* --------------------------------------------------------------- evaluation */

/* One element of one node; `depth` is the number of nodes above. */
typedef struct place {
  uint32_t node;
  int32_t k;
  uint32_t depth;
} place;

static tn_code eval_element(const tn__scope *scope, place at, tn__element *out);

static tn_code operand_element(const tn__scope *scope, const tn_node *node,
                               int32_t k, tn__element *out) {
  const shape_view view = view_of(scope, node);
  switch (node->op) {
    case TN_NODE_OPERAND_RANK:
      *out = (tn__element){view.ndim, view.ndim >= 0};
      return TN_OK;
    case TN_NODE_OPERAND_SIZE:
      return size_of(view, out);
    default:
      *out = (tn__element){0};
      if (k < view.ndim && view.shape[k] >= 0)
        *out = (tn__element){view.shape[k], true};
      return TN_OK;
  }
}

static tn__element variable_element(const tn__ivalue *values, int32_t index,
                                    int32_t k) {
  if (values == NULL) return (tn__element){0};
  const tn__ivalue *value = &values[index];
  if (value->n == TN__SCALAR)
    return (tn__element){value->v[0], value->known != 0};
  if (k >= value->n || value->v[k] == TN__UNKNOWN_ELEMENT)
    return (tn__element){0};
  return (tn__element){value->v[k], true};
}

/* The value of parameter `index`, a float or an int; 0 if it is None. */
static double number_of(const tn__scope *scope, int32_t index) {
  const tn_field *field = scope->fields[index];
  const unsigned char *at = scope->params;
  int64_t whole = 0;
  int32_t has = 1;
  double real = 0;
  if (field->flags & TN_FIELD_OPTIONAL)
    memcpy(&has, at + field->has_offset, sizeof has);
  if (!has) return 0;
  memcpy(&whole, at + field->offset, sizeof whole);
  memcpy(&real, at + field->offset, sizeof real);
  return field->type == TN_FIELD_INT ? (double)whole : real;
}

/* Compares a parameter with another one, or with a constant. */
static tn_code compare_params(const tn__scope *scope, const tn_node *node,
                              tn__element *out) {
  *out = (tn__element){0};
  if ((uint32_t)node->a >= scope->n_fields ||
      (node->b != -1 && (uint32_t)node->b >= scope->n_fields))
    return fail_bad_program("a parameter does not exist");
  if (scope->params == NULL) return TN_OK;
  const double a = number_of(scope, node->a);
  double b = 0;
  memcpy(&b, &node->value, sizeof b);
  if (node->b != -1) b = number_of(scope, node->b);
  const bool less = a<b, more = a> b, equal = a <= b && a >= b;
  const bool results[] = {equal,         !equal, less,
                          less || equal, more,   more || equal};
  *out = (tn__element){results[node->c - TN_NODE_EQ], true};
  return TN_OK;
}

static tn_code leaf_element(const tn__scope *scope, const tn_node *node,
                            int32_t k, tn__element *out) {
  switch (node->op) {
    case TN_NODE_CONST:
      *out = (tn__element){node->value, true};
      return TN_OK;
    case TN_NODE_DIM:
      *out = variable_element(scope->dims, node->a, 0);
      return TN_OK;
    case TN_NODE_PACK:
      *out = variable_element(scope->packs, node->a, k);
      return TN_OK;
    case TN_NODE_PARAM:
      return param_at(scope, node, k, out);
    case TN_NODE_COMPARE_PARAMS:
      return compare_params(scope, node, out);
    case TN_NODE_HAS:
      *out = has_input(scope, (uint32_t)node->a);
      return TN_OK;
    case TN_NODE_OPERAND_RANK:
    case TN_NODE_OPERAND_SIZE:
    case TN_NODE_OPERAND_SHAPE:
      return operand_element(scope, node, k, out);
    default:
      return fail_bad_program(
          "it has an operation that this host does not know");
  }
}

static tn_code rank_element(const tn__scope *scope, const tn_node *node,
                            uint32_t depth, tn__element *out) {
  int32_t n = 0;
  TN__TRY(length_of(scope, (uint32_t)node->a, depth + 1, &n));
  *out = (tn__element){n < 0 ? 0 : n, n != TN__UNKNOWN_LENGTH};
  return TN_OK;
}

/* Does not evaluate the other branch, which may divide by zero. */
static tn_code select_element(const tn__scope *scope, const tn_node *node,
                              place at, tn__element *out) {
  tn__element condition;
  *out = (tn__element){0};
  at.node = (uint32_t)node->a;
  TN__TRY(eval_element(scope, at, &condition));
  if (!condition.known) return TN_OK;
  at.node = (uint32_t)(condition.v != 0 ? node->b : node->c);
  return eval_element(scope, at, out);
}

static tn_code operator_element(const tn__scope *scope, const tn_node *node,
                                place at, tn__element *out) {
  tn__element a, b = {0, true};
  at.node = (uint32_t)node->a;
  TN__TRY(eval_element(scope, at, &a));
  *out = (tn__element){0};
  if (tnm_node_arity(node->op) == 2) {
    at.node = (uint32_t)node->b;
    TN__TRY(eval_element(scope, at, &b));
  }
  if (!a.known || !b.known) return TN_OK;
  out->known = true;
  if (node->op == TN_NODE_NEG)
    return combine_numbers(TN_NODE_SUB, 0, a.v, &out->v);
  if (node->op == TN_NODE_ABS && a.v < 0)
    return combine_numbers(TN_NODE_SUB, 0, a.v, &out->v);
  if (node->op == TN_NODE_ABS) return out->v = a.v, TN_OK;
  return combine_numbers(node->op, a.v, b.v, &out->v);
}

static tn_code eval_element(const tn__scope *scope, place at,
                            tn__element *out) {
  const tn_node *node = NULL;
  if (at.depth > DEPTH_MAX) return fail_bad_program("it is nested too deeply");
  TN__TRY(node_at(scope, at.node, &node));
  const uint32_t depth = at.depth++;
  if (node->op == TN_NODE_RANK) return rank_element(scope, node, depth, out);
  if (node->op == TN_NODE_SELECT) return select_element(scope, node, at, out);
  if (tnm_node_arity(node->op) > 0)
    return operator_element(scope, node, at, out);
  return leaf_element(scope, node, at.k, out);
}

tn_code tn__expr_at(const tn__scope *scope, uint32_t node, int32_t k,
                    tn__element *out) {
  return eval_element(scope, (place){.node = node, .k = k}, out);
}

tn_code tn__expr_eval(const tn__scope *scope, uint32_t node, tn__ivalue *out) {
  memset(out, 0, sizeof *out);
  TN__TRY(tn__expr_length(scope, node, &out->n));
  if (out->n == TN__UNKNOWN_LENGTH) return TN_OK;
  out->known = 1;
  const int32_t n = out->n == TN__SCALAR ? 1 : out->n;
  for (int32_t k = 0; k < n; ++k) {
    tn__element e;
    TN__TRY(tn__expr_at(scope, node, k, &e));
    out->v[k] = e.known ? e.v : TN__UNKNOWN_ELEMENT;
    if (!e.known) out->known = 0;
  }
  return TN_OK;
}
