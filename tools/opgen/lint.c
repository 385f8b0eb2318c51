/* SPDX-License-Identifier: Apache-2.0
 * lint.c: the lints, one function each, and their levels from a command line.
 */
#include "lint.h"

#include <inttypes.h>
#include <string.h>

/* The subject of a lint. */
typedef struct linter {
  const tnm_plugin *plugin;
  const tnm_operator *op;
  tnm_diags *diags;
  const char *code; /* "W0101", or "E0101" */
} linter;

typedef void lint_fn(const linter *l);

/* Reports at the position of a path; returns the id of the message. */
#define REPORT(l, path, ...)                                              \
  tnm_diag_add(                                                           \
      (l)->diags,                                                         \
      &(tnm_diag_spec){(l)->code, tnm_find_place((l)->op, (path)), NULL}, \
      __VA_ARGS__)
#define AT(...) ((const char *const[]){__VA_ARGS__, NULL})

static bool is_empty(const char *text) {
  return text == NULL || text[strspn(text, " \n")] == '\0';
}

static bool is_hidden(const tn_op *op) {
  return (op->flags & TN_OP_BACKWARD_ONLY) != 0;
}

/* -------------------------------------------------------------------- prose */

static void lint_doc(const linter *l) {
  if (!is_empty(l->op->op->doc)) return;
  const size_t id =
      REPORT(l, AT("op"), "operator `%s` has no `doc`", l->op->op->name);
  tnm_diag_add_help(
      l->diags, id,
      "add `doc: ...` after the summary: its result, also in edge cases");
}

static void lint_param_doc(const linter *l) {
  for (uint32_t i = 0; i < l->op->op->n_params; ++i) {
    const tn_field *f = l->op->op->params[i];
    if (!is_empty(f->doc)) continue;
    const size_t id = REPORT(l, AT("params", f->name, "name"),
                             "parameter `%s` has no `doc`", f->name);
    tnm_diag_add_help(l->diags, id, "add `doc: ...` to it");
  }
}

static void lint_docs(const linter *l, const char *key,
                      const tn_arg *const *args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (!is_empty(args[i]->doc)) continue;
    const size_t id = REPORT(l, AT(key, args[i]->name, "name"),
                             "`%s` has no `doc`", args[i]->name);
    tnm_diag_add_help(l->diags, id, "add `doc: ...` to it");
  }
}

static void lint_operand_doc(const linter *l) {
  const tn_op *op = l->op->op;
  lint_docs(l, "inputs", op->inputs, op->n_inputs);
  lint_docs(l, "outputs", op->outputs, op->n_outputs);
  lint_docs(l, "aux", op->aux, op->n_aux);
}

/* ----------------------------------------------------------------- examples */

static void lint_example(const linter *l) {
  if (l->op->n_examples > 0) return;
  const size_t id =
      REPORT(l, AT("op"), "operator `%s` has no example", l->op->op->name);
  tnm_diag_add_help(
      l->diags, id,
      "add `examples: [{name: ..., ...}]`: they are tests and are "
      "shown in the manual");
}

static bool is_set(const tnm_operator *op, const char *name) {
  for (size_t i = 0; i < op->n_examples; ++i)
    for (size_t k = 0; k < op->examples[i].n_params; ++k)
      if (strcmp(op->examples[i].params[k].key, name) == 0) return true;
  return false;
}

static void lint_example_params(const linter *l) {
  const tn_op *op = l->op->op;
  for (uint32_t i = 0; i < op->n_params && l->op->n_examples > 0; ++i) {
    const char *name = op->params[i]->name;
    if (is_set(l->op, name)) continue;
    const size_t id = REPORT(l, AT("params", name, "name"),
                             "no example sets parameter `%s`", name);
    tnm_diag_add_help(
        l->diags, id,
        "add an example with `params: {%s: ...}`, another value than "
        "the default",
        name);
  }
}

static void lint_example_grad(const linter *l) {
  const tn_gradient *g = l->op->op->gradient;
  if (g == NULL || g->kind == TN_GRADIENT_NONE || l->op->n_examples == 0)
    return;
  for (size_t i = 0; i < l->op->n_examples; ++i)
    if (l->op->examples[i].n_grads > 0) return;
  const size_t id = REPORT(l, AT("examples"), "no example shows a gradient");
  tnm_diag_add_help(
      l->diags, id,
      "add `grad: {...}` to one, with the gradient of an output and "
      "those of the inputs");
}

/* ----------------------------------------------------------------- gradient */

static bool may_be_float(const tn_op *op, const tn_arg *arg) {
  const uint64_t floats = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64;
  if (arg->dtype_var != TN_NONE)
    return (op->dtype_vars[arg->dtype_var]->allowed & floats) != 0;
  return arg->dtype_param != TN_NONE ||
         (tn__dtype_bit(arg->dtype) & floats) != 0;
}

/* The reader writes a reason with this beginning if the author gave none. */
static bool is_reason(const char *why) {
  return !is_empty(why) && strncmp(why, "its manifest ", 13) != 0;
}

static void lint_gradient_why(const linter *l) {
  const tn_op *op = l->op->op;
  bool any = false;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    any |= may_be_float(op, op->inputs[i]);
  if (!any ||
      (op->gradient != NULL && op->gradient->kind != TN_GRADIENT_NONE) ||
      (op->gradient != NULL && is_reason(op->gradient->why)))
    return;
  const size_t id =
      REPORT(l, AT("gradient"),
             "operator `%s` has no gradient and does not say why", op->name);
  tnm_diag_add_help(
      l->diags, id,
      "write `gradient: {none: true, why: ...}`: a request for one reports it");
}

/* ------------------------------------------------------------- unused names */

/* Tests whether a word occurs in an expression. */
static bool has_word(const char *text, const char *word) {
  const char *letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
      "0123456789_";
  for (const char *at = text; at != NULL && *at != '\0';) {
    const size_t n = strspn(at, letters);
    if (n == strlen(word) && memcmp(at, word, n) == 0) return true;
    at += n;
    at += strcspn(at, letters);
  }
  return false;
}

static bool operand_mentions(const tn_arg *const *args, uint32_t n,
                             const char *word) {
  for (uint32_t i = 0; i < n; ++i)
    if (has_word(args[i]->formula, word) || has_word(args[i]->shape_text, word))
      return true;
  return false;
}

static bool node_uses(const tn_op *op, uint32_t index) {
  for (uint32_t i = 0; i < op->n_nodes; ++i) {
    const tn_node *node = &op->nodes[i];
    const bool compares = node->op == TN_NODE_COMPARE_PARAMS;
    if ((node->op == TN_NODE_PARAM || compares) && node->a == (int32_t)index)
      return true;
    if (compares && node->b == (int32_t)index) return true;
  }
  return false;
}

static bool gradient_mentions(const tn_op *op, const char *word) {
  for (uint32_t i = 0; op->gradient != NULL && i < op->gradient->n_inputs; ++i)
    if (has_word(op->gradient->inputs[i]->formula, word)) return true;
  return false;
}

static bool types_use(const tn_op *op, uint32_t index) {
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (op->inputs[i]->dtype_param == index) return true;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->dtype_param == index) return true;
  for (uint32_t i = 0; i < op->n_params; ++i)
    if (op->params[i]->rank_of == index) return true;
  return false;
}

/* Tests for possible readers: a function of the author may read any
 * parameter. */
static bool may_use(const tnm_operator *of, uint32_t i) {
  const tn_op *op = of->op;
  const char *name = op->params[i]->name;
  return of->n_kernels > 0 || of->infer_symbol != NULL || of->n_forward == 0 ||
         node_uses(op, i) || types_use(op, i) || gradient_mentions(op, name) ||
         operand_mentions(op->outputs, op->n_outputs, name);
}

static bool same_place(const tnm_pos *a, const tnm_pos *b) {
  return a->file == b->file && a->line == b->line && a->column == b->column;
}

/* Tests whether another member of a family with the same parameter uses it. */
static bool others_use(const linter *l, const char *name) {
  const tnm_pos here = tnm_find_place(l->op, AT("params", name, "name"));
  for (size_t k = 0; k < l->plugin->n_operators; ++k) {
    const tnm_operator *other = &l->plugin->operators[k];
    const tn_op *op = other->op;
    if (other == l->op || op == NULL || other->parent != NULL) continue;
    const tnm_pos there = tnm_find_place(other, AT("params", name, "name"));
    for (uint32_t i = 0; same_place(&here, &there) && i < op->n_params; ++i)
      if (strcmp(op->params[i]->name, name) == 0 && may_use(other, i))
        return true;
  }
  return false;
}

static void lint_param_unused(const linter *l) {
  const tn_op *op = l->op->op;
  if (is_hidden(op)) return;
  for (uint32_t i = 0; i < op->n_params; ++i) {
    const char *name = op->params[i]->name;
    if (may_use(l->op, i) || others_use(l, name)) continue;
    const size_t id = REPORT(l, AT("params", name, "name"),
                             "nothing reads parameter `%s`", name);
    tnm_diag_add_help(l->diags, id,
                      "use it in `forward`, or take it out before "
                      "the first release");
  }
}

static bool uses_type(const tn_arg *const *args, uint32_t n, uint32_t index) {
  for (uint32_t i = 0; i < n; ++i)
    if (args[i]->dtype_var == index) return true;
  return false;
}

static void lint_dtype_unused(const linter *l) {
  const tn_op *op = l->op->op;
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    if (uses_type(op->inputs, op->n_inputs, i) ||
        uses_type(op->outputs, op->n_outputs, i) ||
        uses_type(op->aux, op->n_aux, i))
      continue;
    const char *name = op->dtype_vars[i]->name;
    const size_t id =
        REPORT(l, AT("dtypes", name), "no operand is of type `%s`", name);
    tnm_diag_add_help(l->diags, id,
                      "take it out of `dtypes`, or give an operand "
                      "`dtype: %s`",
                      name);
  }
}

/* Counts the uses of a dimension in the nodes of patterns. */
static uint32_t count_dim(const tn_op *op, uint32_t dim) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < op->n_nodes; ++i)
    n += op->nodes[i].op == TN_NODE_DIM && op->nodes[i].a == (int32_t)dim;
  return n;
}

/* Checks the operand with the pattern that names it. */
static void lint_dim_unused(const linter *l) {
  const tn_op *op = l->op->op;
  for (uint32_t i = 0; i < op->n_dims; ++i) {
    if (count_dim(op, i) > 1) continue;
    for (uint32_t k = 0; k < op->n_inputs; ++k) {
      if (!has_word(op->inputs[k]->shape_text, op->dims[i])) continue;
      const size_t id =
          REPORT(l, AT("inputs", op->inputs[k]->name, "shape"),
                 "dimension `%s` is named once, so it says nothing but that "
                 "there is one",
                 op->dims[i]);
      tnm_diag_add_help(
          l->diags, id,
          "name it in another shape or in `require`, or write a pack "
          "such as `S...`");
    }
  }
}

static bool any_mentions(const tn_arg *const *args, uint32_t n,
                         const char *name) {
  for (uint32_t i = 0; i < n; ++i)
    if (has_word(args[i]->shape_text, name)) return true;
  return false;
}

/* Tests whether a call knows it before its outputs: from an input or state, or
 * from an output with the shape of one. */
static bool is_known_before(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    const tn_arg *in = op->inputs[i];
    if (in->shape_kind == TN_SHAPE_SAME && in->shape_list == TN_OPERAND_OUT &&
        has_word(op->outputs[in->shape_index]->shape_text, name))
      return true;
  }
  return any_mentions(op->inputs, op->n_inputs, name) ||
         any_mentions(op->aux, op->n_aux, name);
}

static void report_undetermined(const linter *l, const tn_arg *out,
                                const char *key, const char *name) {
  const size_t id = REPORT(l, AT("outputs", out->name, key),
                           "only outputs determine `%s`", name);
  tnm_diag_add_help(
      l->diags, id,
      "name it in an input, or say `%s` of this output by parameters", key);
}

static void lint_names(const linter *l, const char *const *names, uint32_t n) {
  const tn_op *op = l->op->op;
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t k = 0; k < op->n_outputs && !is_known_before(op, names[i]);
         ++k)
      if (has_word(op->outputs[k]->shape_text, names[i])) {
        report_undetermined(l, op->outputs[k], "shape", names[i]);
        break;
      }
}

static void lint_packs(const linter *l) {
  const char *names[2];
  const tn_op *op = l->op->op;
  const uint32_t i = lint_find_alike_packs(op, names);
  if (i == TN_NONE) return;
  const size_t id =
      REPORT(l, AT("inputs", op->inputs[i]->name, "shape"),
             "nothing says how many dimensions of `%s` are `%s` and how many "
             "`%s`",
             op->inputs[i]->name, names[0], names[1]);
  tnm_diag_add_help(l->diags, id,
                    "keep one of them, or give another operand the shape "
                    "`[%s...]`",
                    names[0]);
}

/* The author's function may set any shape. */
static void lint_undetermined(const linter *l) {
  const tn_op *op = l->op->op;
  for (uint32_t k = 0; k < op->n_outputs; ++k) {
    const uint32_t var = op->outputs[k]->dtype_var;
    if (var != TN_NONE && !uses_type(op->inputs, op->n_inputs, var) &&
        !uses_type(op->aux, op->n_aux, var))
      report_undetermined(l, op->outputs[k], "dtype",
                          op->dtype_vars[var]->name);
  }
  if (l->op->infer_symbol != NULL) return;
  lint_names(l, op->dims, op->n_dims);
  lint_names(l, op->packs, op->n_packs);
  lint_packs(l);
}

/* ------------------------------------------------------------------ kernels */

static void lint_uncomputed(const linter *l) {
  if (l->op->n_forward > 0 || l->op->binding != NULL) return;
  for (size_t i = 0; i < l->op->n_kernels; ++i)
    if (l->op->kernels[i].forward != NULL) return;
  const size_t id = REPORT(l, AT("op"), "nothing here computes operator `%s`",
                           l->op->op->name);
  tnm_diag_add_help(
      l->diags, id,
      "add `forward`, `kernels` or `binding`; where another plugin "
      "computes it (`kernels_for`), switch off lint `uncomputed`");
}

/* ----------------------------------------------------------- names and life */

static bool is_odd(const char *name) {
  const size_t n = strlen(name);
  return strstr(name, "__") != NULL || (n > 0 && name[n - 1] == '_');
}

static void lint_one_name(const linter *l, const char *name,
                          const char *const *path) {
  if (!is_odd(name)) return;
  const size_t id = REPORT(l, path, "`%s` is an odd name", name);
  tnm_diag_add_help(l->diags, id, "write words with single `_` between them");
}

static void lint_name_style(const linter *l) {
  const tn_op *op = l->op->op;
  lint_one_name(l, op->name, AT("op"));
  for (uint32_t i = 0; i < op->n_params; ++i)
    lint_one_name(l, op->params[i]->name,
                  AT("params", op->params[i]->name, "name"));
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    lint_one_name(l, op->inputs[i]->name,
                  AT("inputs", op->inputs[i]->name, "name"));
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    lint_one_name(l, op->outputs[i]->name,
                  AT("outputs", op->outputs[i]->name, "name"));
}

/* Tests whether `use` is one of the plugin's own operators; true for another
 * plugin, whose operators are unknown here. */
static bool is_known(const linter *l, const char *use) {
  const char *plugin = l->plugin->plugin->name;
  const size_t n = strlen(plugin);
  if (strncmp(use, plugin, n) != 0 || use[n] != '.') return true;
  for (uint32_t i = 0; i < l->plugin->plugin->n_operators; ++i)
    if (strcmp(l->plugin->plugin->operators[i]->name, use + n + 1) == 0)
      return true;
  return strchr(use, ' ') != NULL;
}

static void lint_deprecated_use(const linter *l) {
  const tn_op *op = l->op->op;
  if (op->deprecated_since == 0 || op->use == NULL || is_known(l, op->use))
    return;
  const size_t id =
      REPORT(l, AT("deprecated", "use"), "there is no operator `%s`", op->use);
  tnm_diag_add_help(l->diags, id, "name one that `%s` lists, or write words",
                    l->plugin->plugin->name);
}

/* An operator without `since` is as old as the plugin. */
static void lint_since(const linter *l) {
  const char *const *path = AT("since");
  const tnm_pos pos = tnm_find_place(l->op, path);
  const tnm_pos own = tnm_find_place(l->op, AT("op"));
  if (pos.line != own.line || pos.column != own.column) return;
  const size_t id = REPORT(l, AT("op"), "operator `%s` does not say `since`",
                           l->op->op->name);
  tnm_diag_add_help(l->diags, id,
                    "add `since: %" PRIu32
                    "`, the release that "
                    "introduced it",
                    l->op->op->since);
}

/* ---------------------------------------------------------------- the table */

typedef struct lint {
  const char *name;
  const char *codes[2]; /* for a warning and for an error */
  int level;
  lint_fn *find;
  const char *what;
} lint;

#define CODES(number) \
  { "W" number, "E" number }

static const lint lints[N_LINTS] = {
    {"doc", CODES("0101"), LINT_WARNING, lint_doc, "an operator without `doc`"},
    {"param-doc", CODES("0102"), LINT_WARNING, lint_param_doc,
     "a parameter without `doc`"},
    {"operand-doc", CODES("0103"), LINT_OFF, lint_operand_doc,
     "an input, output or state without `doc`"},
    {"example", CODES("0104"), LINT_WARNING, lint_example,
     "an operator without an example"},
    {"example-params", CODES("0105"), LINT_OFF, lint_example_params,
     "a parameter that no example sets"},
    {"example-grad", CODES("0106"), LINT_OFF, lint_example_grad,
     "an operator with a gradient that no example shows"},
    {"gradient-why", CODES("0107"), LINT_WARNING, lint_gradient_why,
     "no gradient, and no reason"},
    {"param-unused", CODES("0108"), LINT_WARNING, lint_param_unused,
     "a parameter that nothing reads"},
    {"dtype-unused", CODES("0109"), LINT_WARNING, lint_dtype_unused,
     "a type variable that no operand has"},
    {"dim-unused", CODES("0110"), LINT_OFF, lint_dim_unused,
     "a dimension that is named once"},
    {"name-style", CODES("0111"), LINT_WARNING, lint_name_style,
     "a name with `__`, or with `_` at its end"},
    {"deprecated-use", CODES("0112"), LINT_WARNING, lint_deprecated_use,
     "`use` names an operator that does not exist"},
    {"since", CODES("0113"), LINT_OFF, lint_since,
     "an operator without `since`"},
    {"undetermined", CODES("0114"), LINT_WARNING, lint_undetermined,
     "a dimension or type that no input of a call tells"},
    {"uncomputed", CODES("0115"), LINT_WARNING, lint_uncomputed,
     "an operator that nothing here computes"},
};

/* Derived operators have no manifest that could be better. */
void lint_run(const tnm_plugin *plugin, const lint_levels *levels,
              tnm_diags *diags) {
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    linter l = {.plugin = plugin, .op = &plugin->operators[i], .diags = diags};
    if (l.op->op == NULL || l.op->parent != NULL) continue;
    for (size_t k = 0; k < N_LINTS; ++k) {
      if (levels->v[k] == LINT_OFF) continue;
      l.code = lints[k].codes[levels->v[k] == LINT_ERROR];
      lints[k].find(&l);
    }
  }
}

static const char *const level_names[] = {"off", "warning", "error"};

void lint_list(void) {
  for (size_t i = 0; i < N_LINTS; ++i)
    printf("%s  %-14s  %-7s  %s\n", lints[i].codes[0], lints[i].name,
           level_names[lints[i].level], lints[i].what);
}

/* ------------------------------------------------------------------ options */

static int find_lint(const char *name, size_t n) {
  for (int i = 0; i < N_LINTS; ++i)
    if (strlen(lints[i].name) == n && memcmp(lints[i].name, name, n) == 0)
      return i;
  return -1;
}

static bool unknown_lint(const char *text, size_t n) {
  const char *names[N_LINTS];
  char word[64];
  for (size_t i = 0; i < N_LINTS; ++i) names[i] = lints[i].name;
  (void)snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), text);
  const char *near = tn__find_nearest_word(word, names, N_LINTS);
  if (near != NULL)
    opgen_usage_error("check", "unknown lint `%s`; did you mean `%s`?", word,
                      near);
  else
    opgen_usage_error("check", "unknown lint `%s`", word);
  return false;
}

static bool find_level(const char *text, int *level) {
  for (int i = 0; i < 3; ++i) {
    if (strcmp(text, level_names[i]) != 0) continue;
    *level = i;
    return true;
  }
  opgen_usage_error("check", "a lint is off, warning or error, not `%s`", text);
  return false;
}

/* Parses NAME, NAME=LEVEL, no-NAME or all. */
static bool set_level(lint_levels *levels, const char *text) {
  int level = LINT_WARNING;
  if (strcmp(text, "all") == 0) {
    for (size_t i = 0; i < N_LINTS; ++i)
      if (levels->v[i] == LINT_OFF) levels->v[i] = LINT_WARNING;
    return true;
  }
  const bool off = strncmp(text, "no-", 3) == 0;
  if (off) text += 3;
  const size_t n = strcspn(text, "=");
  const int at = find_lint(text, n);
  if (at < 0) return unknown_lint(text, n);
  if (text[n] == '=' && !off && !find_level(text + n + 1, &level)) return false;
  levels->v[at] = off ? LINT_OFF : level;
  return true;
}

bool lint_levels_init(lint_levels *levels, const opgen_args *args) {
  for (size_t i = 0; i < N_LINTS; ++i) levels->v[i] = lints[i].level;
  for (size_t i = 0; i < args->n_lints; ++i)
    if (!set_level(levels, args->lints[i])) return false;
  return true;
}
