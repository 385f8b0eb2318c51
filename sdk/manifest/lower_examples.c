/* SPDX-License-Identifier: Apache-2.0
 * lower_examples.c: lowers examples and the settings of the gradient check:
 * nested lists to numbers. Running them finds wrong shapes and results.
 */
#include <math.h>
#include <string.h>

#include "front.h"

/* The state of one example. */
typedef struct example_reader {
  tnm_lower *lower;
  const tnm_tree *node;
  tnm_example *out;
} example_reader;

/* ------------------------------------------------------------- nested lists */

/* Reports nested lists that are no tensor; `what` is the message. Returns
 * false, for the caller to return. */
static bool report_ragged_list(tnm_lower *lower, const tnm_tree *node,
                               const char *what) {
  tnm_diag_spec spec = {"E0062", node->pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "%s", what);
  tnm_diag_add_help(lower->diags, id,
                    "write nested lists of equal length: `[[1, 2], [3, 4]]`");
  return false;
}

/* Measures the shape of nested lists by their first items. Returns false after
 * a message if there are too many dimensions. */
static bool measure_shape(tnm_lower *lower, const tnm_tree *node,
                          tnm_data *out) {
  const tnm_tree *at = node;
  for (; at != NULL && at->kind == TNM_LIST; at = at->first) {
    if (out->ndim == TN_MAX_NDIM)
      return report_ragged_list(lower, node, "more than 16 dimensions");
    out->shape[out->ndim++] = (int64_t)at->n;
  }
  return true;
}

/* Reads one element of an example; `true` is 1, `false` is 0. Returns false
 * after a message. */
static bool read_number(tnm_lower *lower, const tnm_tree *node, double *value) {
  if (node->kind == TNM_SCALAR && strcmp(node->text, "true") == 0)
    *value = 1;
  else if (node->kind == TNM_SCALAR && strcmp(node->text, "false") == 0)
    *value = 0;
  else
    return tnm_read_double(lower->diags, node, value);
  return true;
}

/* Appends the numbers in `node`, at nesting level `depth`, to `values`.
 * Returns false after a message if a list does not have the length that the
 * shape demands. */
static bool fill_values(tnm_lower *lower, const tnm_tree *node, int32_t depth,
                        tnm_data *out, double *values) {
  if (depth == out->ndim) {
    if (node->kind == TNM_LIST)
      return report_ragged_list(lower, node,
                                "found a list in place of a number");
    return read_number(lower, node, &values[out->n++]);
  }
  if (node->kind != TNM_LIST)
    return report_ragged_list(lower, node, "found a number in place of a list");
  if ((int64_t)node->n != out->shape[depth])
    return report_ragged_list(
        lower, node, "this list differs in length from its neighbours");
  bool ok = true;
  for (const tnm_tree *item = node->first; item != NULL; item = item->next)
    ok = fill_values(lower, item, depth + 1, out, values) && ok;
  return ok;
}

/* Reads the shape and the elements of a tensor from nested lists. Returns
 * false after a message or if memory ran out. */
static bool read_data(tnm_lower *lower, const tnm_tree *node, tnm_data *out) {
  *out = (tnm_data){.pos = node->pos};
  if (node->kind == TNM_MAP)
    return report_ragged_list(lower, node, "found a mapping in place of data");
  if (!measure_shape(lower, node, out)) return false;
  size_t n = 1;
  for (int32_t i = 0; i < out->ndim; ++i) {
    if (!tn__mul(n, (size_t)out->shape[i], &n) || n > TNM_MAX_VALUES)
      return report_ragged_list(lower, node, "the lists differ in length");
  }
  double *values = TNM_NEW(lower->arena, double, n);
  if (values == NULL) return false;
  out->values = values;
  return fill_values(lower, node, 0, out, values);
}

/* ----------------------------------------------------------------- operands */

/* Finds the list (TN_OPERAND_*) with the operand of this name, and sets *arg.
 * Returns TN_NONE if no operand has the name. */
static uint32_t find_list(const tnm_lower *lower, const char *name,
                          const tn_arg **arg) {
  for (uint32_t list = 0; list < 3; ++list) {
    uint32_t i = tnm_find_operand(lower, list, name);
    if (i == TN_NONE) continue;
    *arg = lower->operands[list].v[i];
    return list;
  }
  return TN_NONE;
}

/* Reports a name that is no operand. In the example itself, the name may also
 * be a misspelt key. */
static void report_unknown_name(const example_reader *s, const tnm_tree *map,
                                const tnm_tree *entry) {
  tnm_lower *lower = s->lower;
  const char *known[4 * TNM_MAX_KEYS];
  size_t n = 0;
  for (uint32_t list = 0; list < 3; ++list) {
    const tnm_operands *o = &lower->operands[list];
    for (uint32_t i = 0; i < o->n && n < 3 * TNM_MAX_KEYS; ++i)
      known[n++] = o->names[i];
  }
  const tnm_key *key = map == s->node ? tnm_schema_example.keys : NULL;
  for (; key != NULL && key->name != NULL; ++key) known[n++] = key->name;
  tnm_diag_spec spec = {"E0063", entry->key_pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec, "`%.80s` is no operand of `%s`",
                           entry->key, lower->op->name);
  tnm_suggest_word(lower->diags, id, entry->key, known, n);
}

/* Reads the value of one operand into `items`. A variadic operand gets one item
 * for each tensor, others get one. Returns the number of items. */
static size_t read_operand(const example_reader *s, const tnm_tree *entry,
                           const tn_arg *arg, tnm_example_item *items) {
  bool many = (arg->flags & TN_ARG_VARIADIC) || arg->count != TN_NONE;
  if (!many || entry->kind != TNM_LIST) {
    items[0].name = arg->name;
    return read_data(s->lower, entry, &items[0].data) ? 1 : 0;
  }
  size_t n = 0;
  for (const tnm_tree *item = entry->first; item != NULL; item = item->next) {
    items[n].name = arg->name;
    if (read_data(s->lower, item, &items[n].data)) ++n;
  }
  return n;
}

/* Tests whether a key of an example is one of the schema, and no operand's
 * name. */
static bool is_example_key(const char *key) {
  for (const tnm_key *k = tnm_schema_example.keys; k->name != NULL; ++k) {
    if (strcmp(k->name, key) == 0) return true;
  }
  return false;
}

/* Returns an upper bound of the number of items in a mapping. */
static size_t count_items(const tnm_tree *map) {
  size_t n = map->n;
  for (const tnm_tree *e = map->first; e != NULL; e = e->next)
    n += e->kind == TNM_LIST ? e->n : 0;
  return n;
}

/* Reads the values of all operands in an example. Returns the items, and sets
 * *n to their number. */
static const tnm_example_item *read_operands(const example_reader *s,
                                             const tnm_tree *map, size_t *n) {
  tnm_example_item *items =
      TNM_NEW(s->lower->arena, tnm_example_item, count_items(map));
  if (items == NULL) return NULL;
  for (const tnm_tree *e = map->first; e != NULL; e = e->next) {
    const tn_arg *arg = NULL;
    if (map == s->node && is_example_key(e->key)) continue;
    if (find_list(s->lower, e->key, &arg) == TN_NONE)
      report_unknown_name(s, map, e);
    else
      *n += read_operand(s, e, arg, items + *n);
  }
  return items;
}

/* Reports required inputs that the example leaves out. */
static void check_example_inputs(const example_reader *s) {
  const tnm_operands *inputs = &s->lower->operands[TN_OPERAND_IN];
  const tnm_tree *name = tnm_tree_get(s->node, "name");
  for (uint32_t i = 0; i < inputs->n; ++i) {
    bool optional = inputs->v[i]->flags & (TN_ARG_OPTIONAL | TN_ARG_VARIADIC);
    if (optional || tnm_tree_get(s->node, inputs->names[i]) != NULL) continue;
    tnm_diag_spec spec = {"E0064", name == NULL ? s->node->pos : name->pos,
                          NULL};
    size_t id =
        tnm_diag_add(s->lower->diags, &spec, "this example gives no input `%s`",
                     inputs->names[i]);
    tnm_diag_add_help(s->lower->diags, id, "add `%s: [...]`", inputs->names[i]);
  }
}

/* Items of an example, or of its `grad`. */
typedef struct item_list {
  const tnm_example_item *v;
  size_t n;
} item_list;

/* Returns the value of the operand `name` in an example; NULL if there is
 * none. */
static const tnm_data *find_data(const item_list *list, const char *name) {
  for (size_t i = 0; i < list->n; ++i)
    if (strcmp(list->v[i].name, name) == 0) return &list->v[i].data;
  return NULL;
}

static bool has_same_values(const tnm_data *a, const tnm_data *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; ++i) {
    const double x = a->values[i], y = b->values[i];
    if (x != y && !(isnan(x) && isnan(y))) return false;
  }
  return true;
}

/* Reports an example in which output `view` does not have the elements of
 * input `of`, although it is declared as a view of it. */
static void check_view_values(const example_reader *s, const item_list *list,
                              const char *format, const char *view,
                              const char *of) {
  const tnm_data *out = find_data(list, view), *in = find_data(list, of);
  if (out == NULL || in == NULL || has_same_values(out, in)) return;
  const tnm_diag_spec spec = {"E0093", out->pos, NULL};
  const size_t id = tnm_diag_add(s->lower->diags, &spec, format, view, of);
  tnm_diag_add_help(
      s->lower->diags, id,
      "write the same elements for `%s`, or `inplace: %s` instead of "
      "`view: %s`",
      of, of, of);
}

/* Checks that each view in an example has the elements of its input. A view
 * computes nothing: programs share its memory, and its gradient runs no kernel.
 */
static void check_example_views(const example_reader *s) {
  const tnm_operands *inputs = &s->lower->operands[TN_OPERAND_IN];
  const tnm_operands *outputs = &s->lower->operands[TN_OPERAND_OUT];
  const item_list items = {s->out->items, s->out->n_items};
  const item_list grads = {s->out->grads, s->out->n_grads};
  const tnm_tree *gradient = tnm_tree_get(s->lower->doc, "gradient");
  const bool by_kernel = gradient && tnm_tree_get(gradient, "kernel");
  for (uint32_t i = 0; i < outputs->n; ++i) {
    const tn_arg *arg = outputs->v[i];
    if ((arg->flags & TN_ARG_VIEW) == 0) continue;
    const char *of = inputs->names[arg->inplace];
    check_view_values(s, &items,
                      "`%s` is a view of `%s`, but has other elements",
                      outputs->names[i], of);
    if (by_kernel && outputs->n == 1)
      check_view_values(
          s, &grads,
          "`%s` is a view: its gradient is that of `%s`, but has other "
          "elements",
          outputs->names[i], of);
  }
}

/* ------------------------------------------------------------------- params */

static const tn_field *find_field(const tnm_lower *lower, const char *key) {
  for (uint32_t i = 0; i < lower->op->n_params; ++i) {
    const tn_field *f = lower->params[i];
    if (strcmp(f->name, key) == 0 ||
        (f->alias != NULL && strcmp(f->alias, key) == 0))
      return f;
  }
  return NULL;
}

static void report_unknown_param(const example_reader *s,
                                 const tnm_tree *entry) {
  tnm_lower *lower = s->lower;
  const char *known[TNM_MAX_KEYS];
  size_t n = 0;
  for (; n < lower->op->n_params && n < TNM_MAX_KEYS; ++n)
    known[n] = lower->params[n]->name;
  tnm_diag_spec spec = {"E0063", entry->key_pos, NULL};
  size_t id =
      tnm_diag_add(lower->diags, &spec, "`%.80s` is no parameter of `%s`",
                   entry->key, lower->op->name);
  tnm_suggest_word(lower->diags, id, entry->key, known, n);
}

static void read_params(const example_reader *s) {
  const tnm_tree *map = tnm_tree_get(s->node, "params");
  if (map == NULL) return;
  tn_value *values = TNM_NEW(s->lower->arena, tn_value, map->n);
  if (values == NULL) return;
  for (const tnm_tree *e = map->first; e != NULL; e = e->next) {
    const tn_field *field = find_field(s->lower, e->key);
    if (field == NULL)
      report_unknown_param(s, e);
    else if (tnm_check_value(s->lower->diags, field, e, "value"))
      values[s->out->n_params++] =
          tn_value_text(field->name, tnm_value_text(s->lower->arena, e));
  }
  s->out->params = values;
}

/* ----------------------------------------------------------------- examples */

/* Reads the name of an example. Returns false after a message, or if the
 * example has no name. */
static bool read_name(const example_reader *s, tnm_unique *names) {
  const tnm_tree *name = tnm_tree_get(s->node, "name");
  if (name == NULL || !tnm_read_name(s->lower->diags, name, "an example") ||
      !tnm_unique_add(names, s->lower->diags, name))
    return false;
  s->out->name = name->text;
  return true;
}

/* Reads the tolerances of an example. */
static void read_tolerance(const example_reader *s) {
  const tnm_tree *tol = tnm_tree_get(s->node, "tol");
  if (tol == NULL || !tnm_read_double(s->lower->diags, tol, &s->out->tol) ||
      s->out->tol >= 0)
    return;
  tnm_diag_spec spec = {"E0014", tol->pos, NULL};
  tnm_diag_add(s->lower->diags, &spec, "a tolerance cannot be negative");
}

static void read_example(const example_reader *s, tnm_unique *names) {
  s->out->pos = s->node->pos;
  read_name(s, names);
  read_tolerance(s);
  s->out->training = tnm_get_bool(s->lower->diags, s->node, "training");
  if (s->lower->incomplete) return;
  read_params(s);
  s->out->items = read_operands(s, s->node, &s->out->n_items);
  check_example_inputs(s);
  const tnm_tree *grad = tnm_tree_get(s->node, "grad");
  if (grad != NULL) s->out->grads = read_operands(s, grad, &s->out->n_grads);
  check_example_views(s);
}

/* Reads the number of a key into *out, and reports numbers that are not above
 * 0. After a mistake *out is 0, which means the default. */
static void read_positive_number(tnm_lower *lower, const tnm_tree *map,
                                 const char *key, double *out) {
  const tnm_tree *node = tnm_tree_get(map, key);
  if (node == NULL || !tnm_read_double(lower->diags, node, out) ||
      (isfinite(*out) && *out > 0))
    return;
  *out = 0;
  tnm_diag_spec spec = {"E0014", node->pos, NULL};
  tnm_diag_add(lower->diags, &spec, "`%s` must be above 0", key);
}

/* Reads the settings of the numerical test of gradients. */
static void read_gradcheck(tnm_lower *lower) {
  tnm_tree *map = tnm_tree_get(lower->doc, "gradcheck");
  if (map == NULL ||
      !tnm_schema_check(lower->diags, &tnm_schema_gradcheck, map))
    return;
  tnm_gradcheck *out = &lower->out->gradcheck;
  const tnm_tree *points = tnm_tree_get(map, "points");
  if (points != NULL) tnm_read_u32(lower->diags, points, 1, &out->points);
  read_positive_number(lower, map, "eps", &out->eps);
  read_positive_number(lower, map, "tol", &out->tol);
  out->skip = tnm_get_text(map, "skip");
}

void tnm_lower_examples(tnm_lower *lower) {
  const tnm_tree *list = tnm_tree_get(lower->doc, "examples");
  read_gradcheck(lower);
  lower->out->batch_invariant =
      tnm_get_bool(lower->diags, lower->doc, "batch_invariant");
  if (list == NULL) return;
  tnm_example *examples = TNM_NEW(lower->arena, tnm_example, list->n);
  tnm_unique names;
  if (examples == NULL || !tnm_unique_init(&names, lower->arena, list->n))
    return;
  lower->out->examples = examples;
  for (tnm_tree *node = list->first; node != NULL; node = node->next) {
    if (!tnm_schema_check(lower->diags, &tnm_schema_example, node)) continue;
    example_reader s = {lower, node, &examples[lower->out->n_examples++]};
    read_example(&s, &names);
  }
}
