/* SPDX-License-Identifier: Apache-2.0
 * infer_solve.c: solves shape rules for a variable. If an expression with a
 * known value has one unknown variable, and exactly one whole number fits, that
 * number is its value.
 */
#include "infer.h"

static const tn_node *node_of(const tn__unifier *u, uint32_t node) {
  return &u->op->nodes[node];
}

static uint32_t pack_from(const tn__unifier *u, int32_t index, int32_t k) {
  const tn__ivalue *pack = &u->packs[index];
  const bool known = k < pack->n && pack->v[k] != TN__UNKNOWN_ELEMENT;
  return known ? u->pack_from[index][k] : TN__FROM_RULE;
}

uint32_t tn__node_source(const tn__unifier *u, uint32_t node, int32_t k) {
  const tn_node *n = node_of(u, node);
  const int32_t children[] = {n->a, n->b, n->c};
  if (n->op == TN_NODE_DIM)
    return u->dims[n->a].known != 0 ? u->dim_from[n->a] : TN__FROM_RULE;
  if (n->op == TN_NODE_PACK) return pack_from(u, n->a, k);
  if (n->op >= TN_NODE_OPERAND_RANK && n->op <= TN_NODE_OPERAND_SHAPE)
    return tn__operand_id(u, (uint32_t)n->a, (uint32_t)n->b);
  for (uint32_t i = 0; i < tnm_node_arity(n->op); ++i) {
    const uint32_t from = tn__node_source(u, (uint32_t)children[i], k);
    if (from != TN__FROM_RULE) return from;
  }
  return TN__FROM_RULE;
}

tn_code tn__target_value(tn__unifier *u, const tn__fact_target *target,
                         uint32_t node, tn__element *out) {
  const tn_code rc = tn__expr_at(&u->scope, node, target->k, out);
  return rc == TN_OK ? rc : tn__fail_rule(u, target->rule->shape_text, rc);
}

/* ------------------------------------------------------------------ binding */

static tn_code bind_dim(tn__unifier *u, const tn__fact_target *target,
                        int32_t index, int64_t value) {
  if (value < 0) return tn__fail_no_solution(u, target);
  u->dims[index].v[0] = value;
  u->dims[index].known = 1;
  u->dim_from[index] = (uint16_t)tn__dim_source(u, target->id, target->dim);
  u->changed = true;
  return TN_OK;
}

static int32_t is_all_known(const tn__ivalue *list) {
  for (int32_t i = 0; i < list->n; ++i)
    if (list->v[i] == TN__UNKNOWN_ELEMENT) return 0;
  return 1;
}

static tn_code bind_pack(tn__unifier *u, const tn__fact_target *target,
                         int32_t index, int64_t value) {
  tn__ivalue *pack = &u->packs[index];
  if (value < 0) return tn__fail_no_solution(u, target);
  if (target->k >= pack->n) return TN_OK;
  pack->v[target->k] = value;
  pack->known = is_all_known(pack);
  u->pack_from[index][target->k] =
      (uint16_t)tn__dim_source(u, target->id, target->dim);
  u->changed = true;
  return TN_OK;
}

void tn__solve_length(tn__unifier *u, uint32_t node, int32_t n, uint32_t from) {
  const tn_node *x = node_of(u, node);
  const int32_t children[] = {x->a, x->b, x->c};
  if (x->op == TN_NODE_RANK)
    return; /* the length of this list does not depend on its operand */
  for (uint32_t i = 0; i < tnm_node_arity(x->op); ++i)
    tn__solve_length(u, (uint32_t)children[i], n, from);
  if (x->op != TN_NODE_PACK || u->packs[x->a].n != TN__UNKNOWN_LENGTH) return;
  tn__ivalue *pack = &u->packs[x->a];
  pack->n = n;
  pack->known = n == 0;
  for (int32_t i = 0; i < n; ++i) pack->v[i] = TN__UNKNOWN_ELEMENT;
  u->length_from[x->a] = (uint16_t)from;
  u->changed = true;
}

/* --------------------------------------------------------------- divisions */

static bool is_zero(const tn__unifier *u, uint32_t node) {
  const tn_node *n = node_of(u, node);
  return n->op == TN_NODE_CONST && n->value == 0;
}

/* Whether `rule` is `x % d == 0`. */
static bool is_divisibility_rule(const tn__unifier *u, uint32_t rule,
                                 const tn_node *division) {
  const tn_node *eq = node_of(u, rule);
  if (eq->op != TN_NODE_EQ) return false;
  const bool right = is_zero(u, (uint32_t)eq->b);
  if (!right && !is_zero(u, (uint32_t)eq->a)) return false;
  const tn_node *mod = node_of(u, (uint32_t)(right ? eq->a : eq->b));
  return mod->op == TN_NODE_MOD &&
         tn__is_same_node(u->op->nodes, (uint32_t)mod->a,
                          (uint32_t)division->a) &&
         tn__is_same_node(u->op->nodes, (uint32_t)mod->b,
                          (uint32_t)division->b);
}

/* A division rounds down, so many numbers have the same quotient, unless the
 * operator requires that there is no remainder. */
static bool is_exact(const tn__unifier *u, const tn_node *division,
                     int64_t divisor) {
  if (divisor == 1 || divisor == -1) return true;
  if (divisor == 0) return false;
  for (uint32_t i = 0; i < u->op->n_requires; ++i)
    if (is_divisibility_rule(u, u->op->requirements[i]->node, division))
      return true;
  return false;
}

/* ------------------------------------------------------------------ solving */

/* `a op b = value` with one unknown side. */
typedef struct equation {
  const tn_node *node;
  tn__element a;
  tn__element b;
  int64_t value;
} equation;

/* 1: *out is the unknown side. 0: nothing fits. -1: many or no numbers
 * follow. */
static int32_t rest_of(const tn__unifier *u, const equation *e, int64_t *out) {
  const int64_t c = e->a.known ? e->a.v : e->b.v;
  switch (e->node->op) {
    case TN_NODE_ADD:
      return !__builtin_sub_overflow(e->value, c, out);
    case TN_NODE_SUB:
      return e->a.known ? !__builtin_sub_overflow(c, e->value, out)
                        : !__builtin_add_overflow(e->value, c, out);
    case TN_NODE_MUL:
      if (c == 0) return e->value == 0 ? -1 : 0;
      if (c == -1) return !__builtin_sub_overflow(0, e->value, out);
      if (e->value % c != 0) return 0;
      *out = e->value / c;
      return 1;
    default: /* TN_NODE_DIV */
      if (e->a.known || !is_exact(u, e->node, c)) return -1;
      return !__builtin_mul_overflow(e->value, c, out);
  }
}

static tn_code solve_binary(tn__unifier *u, const tn__fact_target *target,
                            const tn_node *node, int64_t value) {
  equation e = {.node = node, .value = value};
  int64_t rest = 0;
  TN__TRY(tn__target_value(u, target, (uint32_t)node->a, &e.a));
  TN__TRY(tn__target_value(u, target, (uint32_t)node->b, &e.b));
  if (e.a.known == e.b.known) return TN_OK;
  const int32_t found = rest_of(u, &e, &rest);
  if (found == 0) return tn__fail_no_solution(u, target);
  if (found < 0) return TN_OK;
  return tn__solve_node(u, target, (uint32_t)(e.a.known ? node->b : node->a),
                        rest);
}

static tn_code solve_select(tn__unifier *u, const tn__fact_target *target,
                            const tn_node *node, int64_t value) {
  tn__element condition;
  TN__TRY(tn__target_value(u, target, (uint32_t)node->a, &condition));
  if (!condition.known) return TN_OK;
  return tn__solve_node(
      u, target, (uint32_t)(condition.v != 0 ? node->b : node->c), value);
}

/* `shape(x)...` in the pattern of another operand. */
static tn_code solve_operand(tn__unifier *u, const tn__fact_target *target,
                             const tn_node *node, int64_t value) {
  const uint32_t id = tn__operand_id(u, (uint32_t)node->a, (uint32_t)node->b);
  if (id == TN_NONE || tn__operand_is_absent(u, id) ||
      target->k >= tn__operand_sig(u, id)->ndim)
    return TN_OK;
  const tn__fact_target to = {
      .id = id,
      .dim = target->k,
      .from = tn__dim_source(u, target->id, target->dim),
      .rule = target->rule};
  return tn__fact_dim(u, &to, value);
}

tn_code tn__solve_node(tn__unifier *u, const tn__fact_target *target,
                       uint32_t node, int64_t value) {
  const tn_node *n = node_of(u, node);
  switch (n->op) {
    case TN_NODE_DIM:
      return bind_dim(u, target, n->a, value);
    case TN_NODE_PACK:
      return bind_pack(u, target, n->a, value);
    case TN_NODE_OPERAND_SHAPE:
      return solve_operand(u, target, n, value);
    case TN_NODE_NEG:
      return __builtin_sub_overflow(0, value, &value)
                 ? tn__fail_no_solution(u, target)
                 : tn__solve_node(u, target, (uint32_t)n->a, value);
    case TN_NODE_ADD:
    case TN_NODE_SUB:
    case TN_NODE_MUL:
    case TN_NODE_DIV:
      return solve_binary(u, target, n, value);
    case TN_NODE_SELECT:
      return solve_select(u, target, n, value);
    default:
      return TN_OK;
  }
}
