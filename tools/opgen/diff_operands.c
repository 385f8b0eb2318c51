/* SPDX-License-Identifier: Apache-2.0
 * diff_operands.c: compares types, inputs, outputs, states, their shapes, and
 * the requirements. Compiled code uses operands by position, saved graphs by
 * name, and rules by both.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "diff.h"
#include "tables.h"

static const char *const keys[] = {"inputs", "outputs", "aux"};
static const char *const nouns[] = {"input", "output", "state"};

static const tn_arg *const *args_of(const tn_op *op, uint32_t list) {
  return list == TN_OPERAND_IN    ? op->inputs
         : list == TN_OPERAND_OUT ? op->outputs
                                  : op->aux;
}

static uint32_t count_of(const tn_op *op, uint32_t list) {
  return list == TN_OPERAND_IN    ? op->n_inputs
         : list == TN_OPERAND_OUT ? op->n_outputs
                                  : op->n_aux;
}

static const char *operand_name(const tn_op *op, uint32_t list,
                                uint32_t index) {
  return index < count_of(op, list) ? args_of(op, list)[index]->name : "";
}

/* ----------------------------------------------------------------- programs */

/* Tests whether a name of OLD and one of NEW mean the same item. */
static bool same_name(const diff *d, const char *old, const char *new) {
  return strcmp(diff_new_name(d, old), new) == 0;
}

/* Tests whether two comparisons of parameters are the same. */
static bool same_comparison(const diff *d, const tn_node *a, const tn_node *b) {
  if (a->c != b->c || (a->b < 0) != (b->b < 0) ||
      !same_name(d, d->a->params[a->a]->name, d->b->params[b->a]->name))
    return false;
  if (a->b < 0) return a->value == b->value;
  return same_name(d, d->a->params[a->b]->name, d->b->params[b->b]->name);
}

/* Tests whether leaves name the same item, in any position. */
static bool same_leaf(const diff *d, const tn_node *a, const tn_node *b) {
  switch (a->op) {
    case TN_NODE_CONST:
      return a->value == b->value;
    case TN_NODE_PARAM:
      return same_name(d, d->a->params[a->a]->name, d->b->params[b->a]->name);
    case TN_NODE_COMPARE_PARAMS:
      return same_comparison(d, a, b);
    case TN_NODE_OPERAND_RANK:
    case TN_NODE_OPERAND_SIZE:
    case TN_NODE_OPERAND_SHAPE:
      return a->a == b->a &&
             same_name(d, operand_name(d->a, (uint32_t)a->a, (uint32_t)a->b),
                       operand_name(d->b, (uint32_t)b->a, (uint32_t)b->b));
    case TN_NODE_HAS:
      return same_name(d, operand_name(d->a, TN_OPERAND_IN, (uint32_t)a->a),
                       operand_name(d->b, TN_OPERAND_IN, (uint32_t)b->a));
    default:
      return a->a == b->a;
  }
}

/* Operands of a node are earlier nodes, so the recursion ends. */
static bool same_node(const diff *d, uint32_t old, uint32_t new) {
  const tn_node *a = &d->a->nodes[old], *b = &d->b->nodes[new];
  const uint32_t n = tnm_node_arity(a->op);
  if (a->op != b->op) return false;
  if (n == 0) return same_leaf(d, a, b);
  return same_node(d, (uint32_t)a->a, (uint32_t)b->a) &&
         (n < 2 || same_node(d, (uint32_t)a->b, (uint32_t)b->b)) &&
         (n < 3 || same_node(d, (uint32_t)a->c, (uint32_t)b->c));
}

static bool same_shape(const diff *d, const tn_arg *a, const tn_arg *b) {
  if (a->shape_kind != b->shape_kind || a->n_terms != b->n_terms ||
      (a->flags & TN_ARG_DYNAMIC) != (b->flags & TN_ARG_DYNAMIC))
    return false;
  if (a->shape_kind == TN_SHAPE_SAME)
    return a->shape_list == b->shape_list &&
           same_name(d, operand_name(d->a, a->shape_list, a->shape_index),
                     operand_name(d->b, b->shape_list, b->shape_index));
  for (uint32_t i = 0; i < a->n_terms; ++i)
    if (a->terms[i].spread != b->terms[i].spread ||
        !same_node(d, (uint32_t)a->terms[i].node, (uint32_t)b->terms[i].node))
      return false;
  return true;
}

/* -------------------------------------------------------------------- types */

static const char *dtype_of(const tn_op *op, const tn_arg *arg) {
  if (arg->dtype_param != TN_NONE) return op->params[arg->dtype_param]->name;
  if (arg->dtype_var != TN_NONE) return op->dtype_vars[arg->dtype_var]->name;
  return tn__dtype_name(arg->dtype);
}

static void compare_variable(diff *d, const tn_dtype_var *a,
                             const tn_dtype_var *b) {
  const char *const *path = DIFF_AT("dtypes", b->name);
  const uint64_t gone = a->allowed & ~b->allowed;
  const uint64_t more = b->allowed & ~a->allowed;
  if (gone != 0)
    diff_add(d, DIFF_MODEL, path, "types of `%s` without %s", b->name,
             diff_dtypes(d, gone));
  if (more != 0)
    diff_add(d, DIFF_OK, path, "types of `%s` with %s", b->name,
             diff_dtypes(d, more));
}

static const char *computes_in(const tnm_operator *op, uint32_t var) {
  if (op->compute == NULL || op->compute[var] == TN_DTYPE_UNKNOWN)
    return "its types";
  return tn__dtype_name(op->compute[var]);
}

/* For two manifests only: built plugins do not contain `compute`. */
static void compare_compute(diff *d, uint32_t a, uint32_t b) {
  if (d->was == NULL || d->written == NULL) return;
  const char *name = d->b->dtype_vars[b]->name;
  const char *was = computes_in(d->was, a), *is = computes_in(d->written, b);
  if (strcmp(was, is) != 0)
    diff_add(d, DIFF_MODEL, DIFF_AT("dtypes", "compute", name),
             "formulas of `%s` compute in %s -> %s", name, was, is);
}

static void compare_variables(diff *d) {
  for (uint32_t i = 0; i < d->b->n_dtype_vars; ++i)
    for (uint32_t k = 0; k < d->a->n_dtype_vars; ++k) {
      const tn_dtype_var *a = d->a->dtype_vars[k], *b = d->b->dtype_vars[i];
      if (strcmp(a->name, b->name) != 0) continue;
      compare_variable(d, a, b);
      compare_compute(d, k, i);
      if (i != k)
        diff_add(d, DIFF_ABI, DIFF_AT("dtypes", b->name),
                 "type variable `%s` moved to %u", b->name, i);
    }
}

/* -------------------------------------------------------------- one operand */

/* The compared operands. */
typedef struct pair {
  uint32_t list;
  const tn_arg *a;
  const tn_arg *b;
} pair;

/* A flag, with the consequences of its addition and of its removal. */
typedef struct flag_rule {
  uint32_t flag;
  const char *key;
  int appears;
  int goes;
  const char *appears_text;
  const char *goes_text;
} flag_rule;

static const flag_rule flag_rules[] = {
    {TN_ARG_OPTIONAL, "optional", DIFF_OK, DIFF_SOURCE, "may be absent now",
     "may not be absent any more"},
    {TN_ARG_VARIADIC, "variadic", DIFF_ABI, DIFF_ABI, "is any number now",
     "is exactly one now"},
    {TN_ARG_HIDDEN, "hidden", DIFF_SOURCE, DIFF_SOURCE, "is hidden now",
     "is visible now"},
    {TN_ARG_CONTIGUOUS, "layout", DIFF_OK, DIFF_ABI, "is handed over dense now",
     "may have any strides now"},
    {TN_ARG_TRAINED, "changes", DIFF_MODEL, DIFF_MODEL,
     "changes in training only now", "changes in every call now"},
    {TN_ARG_VIEW, "view", DIFF_OK, DIFF_OK, "is a view of its input now",
     "is computed now"},
};

static void compare_flags(diff *d, const pair *p) {
  for (size_t i = 0; i < sizeof flag_rules / sizeof *flag_rules; ++i) {
    const flag_rule *r = &flag_rules[i];
    const bool was = (p->a->flags & r->flag) != 0;
    const bool is = (p->b->flags & r->flag) != 0;
    if (was == is) continue;
    diff_add(d, is ? r->appears : r->goes,
             DIFF_AT(keys[p->list], p->b->name, r->key), "%s `%s` %s",
             nouns[p->list], p->b->name, is ? r->appears_text : r->goes_text);
  }
}

static void compare_role(diff *d, const pair *p) {
  static const char *const roles[] = {"data", "weight", "label", "loss"};
  if (p->a->role == p->b->role || p->a->role > 3 || p->b->role > 3) return;
  diff_add(d, DIFF_MODEL, DIFF_AT(keys[p->list], p->b->name, "role"),
           "role of `%s` changed %s -> %s", p->b->name, roles[p->a->role],
           roles[p->b->role]);
}

/* The name of the input at an index, or NULL. */
static const char *input_at(const tn_op *op, uint32_t index) {
  return index < op->n_inputs ? op->inputs[index]->name : NULL;
}

static void compare_memory(diff *d, const pair *p) {
  const char *was = input_at(d->a, p->a->inplace);
  const char *is = input_at(d->b, p->b->inplace);
  const char *const *path = DIFF_AT(keys[p->list], p->b->name, "inplace");
  if (was == NULL && is != NULL)
    diff_add(d, DIFF_OK, path, "output `%s` may take the memory of `%s` now",
             p->b->name, is);
  else if (was != NULL && is == NULL)
    diff_add(d, DIFF_OK, path,
             "output `%s` does not take the memory of `%s` any more",
             p->b->name, was);
  else if (!diff_is_same(diff_new_name(d, was), is))
    diff_add(d, DIFF_ABI, path, "inplace of `%s` changed %s -> %s", p->b->name,
             was, is);
  was = input_at(d->a, p->a->init);
  is = input_at(d->b, p->b->init);
  if (!diff_is_same(diff_new_name(d, was), is))
    diff_add(d, DIFF_MODEL, DIFF_AT(keys[p->list], p->b->name, "init"),
             "init of `%s` changed %s -> %s", p->b->name,
             diff_text(was, "none"), diff_text(is, "none"));
}

static void compare_formula(diff *d, const pair *p) {
  const char *const *path = DIFF_AT("forward", p->b->name);
  const char *was = p->a->formula, *is = p->b->formula;
  if (was == NULL && is != NULL)
    diff_add(d, DIFF_OK, path, "output `%s` has a formula now", p->b->name);
  else if (was != NULL && is == NULL)
    diff_add(d, DIFF_OK, path, "output `%s` has no formula any more",
             p->b->name);
  else if (was != NULL && !diff_is_same_formula(d, was, is))
    diff_add(d, DIFF_MODEL, path, "formula of `%s` changed %s -> %s",
             p->b->name, was, is);
}

static void compare_rules(diff *d, const pair *p) {
  const char *key = keys[p->list], *name = p->b->name;
  const char *was = dtype_of(d->a, p->a), *is = dtype_of(d->b, p->b);
  const bool same = p->a->dtype_param != TN_NONE ? same_name(d, was, is)
                                                 : strcmp(was, is) == 0;
  if (!same)
    diff_add(d, DIFF_MODEL, DIFF_AT(key, name, "dtype"),
             "type of `%s` changed %s -> %s", name, was, is);
  if (!same_shape(d, p->a, p->b))
    diff_add(d, DIFF_MODEL, DIFF_AT(key, name, "shape"),
             "shape of `%s` changed %s -> %s", name,
             diff_text(p->a->shape_text, "any"),
             diff_text(p->b->shape_text, "any"));
  const bool many = p->b->count != TN_NONE;
  if ((p->a->count != TN_NONE) != many ||
      (many && !same_node(d, p->a->count, p->b->count)))
    diff_add(d, DIFF_MODEL, DIFF_AT(key, name, "count"),
             "count of `%s` changed", name);
  if (!diff_is_same(p->a->initial, p->b->initial))
    diff_add(d, DIFF_MODEL, DIFF_AT(key, name, "init"),
             "initial value of `%s` changed %s -> %s", name,
             diff_text(p->a->initial, "none"),
             diff_text(p->b->initial, "none"));
}

static void compare_pair(diff *d, const pair *p) {
  char what[96];
  (void)snprintf(what, sizeof what, "%s `%s`", nouns[p->list], p->b->name);
  if (strcmp(p->a->name, p->b->name) != 0)
    diff_add(d, DIFF_SOURCE, DIFF_AT(keys[p->list], p->b->name, "name"),
             "%s `%s` renamed to `%s`", nouns[p->list], p->a->name, p->b->name);
  compare_flags(d, p);
  compare_role(d, p);
  compare_rules(d, p);
  if (p->list == TN_OPERAND_OUT) {
    compare_memory(d, p);
    compare_formula(d, p);
  }
  if (!diff_is_same(p->a->doc, p->b->doc))
    diff_add(d, DIFF_DOC, DIFF_AT(keys[p->list], p->b->name, "doc"),
             "doc of `%s` changed", p->b->name);
  diff_lives(d, DIFF_AT(keys[p->list], p->b->name, "since"), what,
             (diff_life){p->a->since, p->a->deprecated_since, p->a->use},
             (diff_life){p->b->since, p->b->deprecated_since, p->b->use});
}

/* ---------------------------------------------------------------- the lists */

static diff_list names_of(diff *d, const tn_op *op, uint32_t list) {
  const uint32_t n = count_of(op, list);
  const char **names = tn__arena_alloc(d->arena, (n + 1u) * sizeof *names);
  for (uint32_t i = 0; i < n && names != NULL; ++i)
    names[i] = args_of(op, list)[i]->name;
  return (diff_list){names, n};
}

static void report_new_input(diff *d, const diff_match *m, uint32_t i) {
  const tn_arg *arg = d->b->inputs[i];
  const char *const *path = DIFF_AT("inputs", arg->name);
  char what[96];
  (void)snprintf(what, sizeof what, "input `%s`", arg->name);
  if (!diff_is_last(m, i))
    diff_add(d, DIFF_ABI, path, "input `%s` added before others", arg->name);
  else if ((arg->flags & TN_ARG_OPTIONAL) == 0)
    diff_add(d, DIFF_SOURCE, path, "input `%s` added, not optional", arg->name);
  else if (diff_since(d, DIFF_AT("inputs", arg->name, "since"), what,
                      arg->since))
    diff_add(d, DIFF_OK, path, "input `%s` added last, optional, since %u",
             arg->name, arg->since);
}

static void report_new(diff *d, const diff_match *m, uint32_t list,
                       uint32_t i) {
  const char *name = args_of(d->b, list)[i]->name;
  const char *const *path = DIFF_AT(keys[list], name);
  if (list == TN_OPERAND_IN)
    report_new_input(d, m, i);
  else if (list == TN_OPERAND_OUT)
    diff_add(d, DIFF_ABI, path, "output `%s` added", name);
  else
    diff_add(d, DIFF_MODEL, path, "state `%s` added", name);
}

/* False if memory ran out. */
static bool match_list(diff *d, uint32_t list, diff_match *m) {
  const diff_list old = names_of(d, d->a, list), new = names_of(d, d->b, list);
  if (d->arena->failed || !diff_match_init(d, m, old, new)) return false;
  for (uint32_t i = 0; i < m->n_old && i < m->n_new; ++i) {
    if (m->to_new[i] != DIFF_GONE || m->to_old[i] != DIFF_GONE) continue;
    diff_match_pair(m, i, i);
    diff_rename_add(d, old.names[i], new.names[i]);
  }
  return diff_match_finish(d, m);
}

static void compare_list(diff *d, uint32_t list, const diff_match *m) {
  for (uint32_t i = 0; i < m->n_old; ++i) {
    const tn_arg *a = args_of(d->a, list)[i];
    if (m->to_new[i] == DIFF_GONE) {
      diff_add(d, list == TN_OPERAND_AUX ? DIFF_MODEL : DIFF_SOURCE,
               DIFF_AT(keys[list]), "%s `%s` removed", nouns[list], a->name);
      continue;
    }
    const pair p = {list, a, args_of(d->b, list)[m->to_new[i]]};
    if (m->moved[i])
      diff_add(d, DIFF_ABI, DIFF_AT(keys[list], p.b->name, "name"),
               "%s[%u] `%s` moved to %" PRId64, keys[list], i, p.b->name,
               m->to_new[i]);
    compare_pair(d, &p);
  }
  for (uint32_t i = 0; i < m->n_new; ++i)
    if (m->to_old[i] == DIFF_GONE) report_new(d, m, list, i);
}

/* ------------------------------------------------------------- requirements */

/* The requirement of one side that matches `that` of the other. */
static const tn_require *find_require(const diff *d, const tn_op *op,
                                      const char *that) {
  for (uint32_t i = 0; i < op->n_requires; ++i) {
    const char *own = op->requirements[i]->that;
    if (op == d->a ? diff_is_same_formula(d, own, that)
                   : diff_is_same_formula(d, that, own))
      return op->requirements[i];
  }
  return NULL;
}

static void compare_requirements(diff *d) {
  for (uint32_t i = 0; i < d->a->n_requires; ++i) {
    const tn_require *a = d->a->requirements[i];
    if (find_require(d, d->b, a->that) == NULL)
      diff_add(d, DIFF_OK, DIFF_AT("require"), "requirement %s dropped",
               a->that);
  }
  for (uint32_t i = 0; i < d->b->n_requires; ++i) {
    const tn_require *b = d->b->requirements[i];
    const tn_require *a = find_require(d, d->a, b->that);
    if (a == NULL)
      diff_add(d, DIFF_MODEL, DIFF_AT("require", b->that),
               "requirement %s added", b->that);
    else if (!diff_is_same(a->say, b->say))
      diff_add(d, DIFF_DOC, DIFF_AT("require", b->that, "say"),
               "words of the requirement %s changed", b->that);
  }
}

void diff_operands(diff *d) {
  diff_match m[3];
  compare_variables(d);
  /* all names before the first rule, which may name any of them */
  for (uint32_t list = 0; list < 3; ++list)
    if (!match_list(d, list, &m[list])) return;
  for (uint32_t list = 0; list < 3; ++list) compare_list(d, list, &m[list]);
  compare_requirements(d);
}
