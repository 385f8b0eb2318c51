/* SPDX-License-Identifier: Apache-2.0
 * lower_graph.c: lowers `gradient: {graph: ...}`: gradients that are calls of
 * other operators.
 *
 *   value     = "grad" "." name | name | call
 *   call      = plugin "." operator ["@" interface] "(" arguments ")"
 *   arguments = [value {"," value}] {"," name "=" literal}
 *   literal   = ["-"] number | parameter | "true" | "false" | '"' text '"'
 *
 * Operators of other plugins may be loaded later or never, so their existence
 * is known only when the gradient is computed. The calls are collected for
 * lower_calls.c, which knows the operators of the plugin and of `--with`.
 */
#include <inttypes.h>
#include <string.h>

#include "expr.h"
#include "front.h"

enum { MAX_STEPS = 256, MAX_ARGUMENTS = 32 };

typedef struct graph {
  tnm_lower *lower;
  const tnm_tree *entry;
  tnm_lexer lexer;
  tnm_token token; /* the next token */
  tn_step *steps;
  uint32_t n;
  uint32_t depth;
} graph;

/* Reads the next token into g->token. */
static void next_token(graph *g) {
  g->token = tnm_read_token(&g->lexer);
}

static bool is_next_char(const graph *g, char c) {
  return g->token.n == 1 && *g->token.text == c;
}

/* Skips `c` if it is the next token, and returns whether it was. */
static bool skip_char_if_next(graph *g, char c) {
  if (!is_next_char(g, c)) return false;
  next_token(g);
  return true;
}

/* Reports that the next token is not the expected `wanted`. Returns false, for
 * the caller to return. */
static bool report_unexpected(graph *g, const char *wanted) {
  const tnm_token *t = &g->token;
  const bool ends = t->kind == TNM_TOKEN_END;
  tnm_diag_spec spec = {"E0069", t->pos, ends ? "ends here" : "unexpected"};
  size_t id = tnm_diag_add(
      g->lower->diags, &spec, "expected %s in a graph, found %s%.*s%s", wanted,
      ends ? "the end" : "`", (int)t->n, t->text, ends ? "" : "`");
  tnm_diag_add_help(g->lower->diags, id,
                    "a graph is made of calls: "
                    "`elemwise.mul_scalar(grad.%s, scalar=2)`",
                    g->lower->op->outputs[0]->name);
  return false;
}

/* Skips `c`. Returns false after a message if it is not the next token. */
static bool expect_char(graph *g, char c, const char *wanted) {
  return skip_char_if_next(g, c) || report_unexpected(g, wanted);
}

/* Reports that `name` is not `what` ("an output"), and suggests similar names.
 * Returns false, for the caller to return. */
static bool report_unknown_word(graph *g, const tnm_token *t, const char *name,
                                const char *what) {
  tnm_scope scope = g->lower->scope;
  tnm_names names = {.arena = g->lower->arena};
  tnm_diag_spec spec = {"E0031", t->pos, "unknown name"};
  scope.gradient = true;
  size_t id =
      tnm_diag_add(g->lower->diags, &spec, "`%s` is not %s", name, what);
  tnm_names_add_scope(&names, &scope);
  tnm_names_add_note(&names, g->lower->diags, id, "in scope here");
  tnm_names_add_help(&names, g->lower->diags, id, name);
  return false;
}

/* -------------------------------------------------------------------- steps */

/* Appends a step to the graph. At run time, steps push values on a stack, and
 * a call pops its arguments from it. Returns false after a message if the
 * graph is full. */
static bool push_step(graph *g, tn_step step) {
  if (g->n < MAX_STEPS) {
    g->steps[g->n++] = step;
    return true;
  }
  tnm_diag_spec spec = {"E0037", g->token.pos, "one too many"};
  (void)tnm_diag_add(g->lower->diags, &spec, "graph has more than %d steps",
                     MAX_STEPS);
  return false;
}

static const char *copy_token_text(graph *g, const tnm_token *t) {
  const char *text = tn__arena_text(g->lower->arena, t->text, t->n);
  return text == NULL ? "" : text;
}

/* Reads the output's name in `grad.NAME`. Appends the step that pushes this
 * output gradient on the stack of values. Returns false after a message. */
static bool push_output_gradient(graph *g) {
  const tnm_token name = g->token;
  if (name.kind != TNM_TOKEN_NAME) return report_unexpected(g, "an output");
  const char *text = copy_token_text(g, &name);
  const uint32_t index = tnm_scope_output(&g->lower->scope, text);
  next_token(g);
  if (index == TN_NONE) return report_unknown_word(g, &name, text, "an output");
  return push_step(g, (tn_step){.what = TN_NEED_GRAD_OUT, .index = index});
}

/* Appends the step that pushes an input or output on the stack of values.
 * Returns false after a message if no operand has the name. */
static bool push_operand(graph *g, const tnm_token *name) {
  const char *text = copy_token_text(g, name);
  uint32_t index = tnm_scope_input(&g->lower->scope, text);
  if (index != TN_NONE)
    return push_step(g, (tn_step){.what = TN_NEED_IN, .index = index});
  index = tnm_scope_output(&g->lower->scope, text);
  if (index == TN_NONE)
    return report_unknown_word(g, name, text,
                               "an input, output or `grad.<output>`");
  return push_step(g, (tn_step){.what = TN_NEED_OUT, .index = index});
}

/* --------------------------------------------------------------- parameters */

/* Appends the text in double quotes that follows in the manifest to `params`.
 * Returns false after a message. */
static bool add_quoted_value(graph *g, tn__buf *params) {
  const char *begin = g->lexer.at;
  const char *end = strpbrk(begin, "\"\\");
  if (end == NULL || *end != '"') return report_unexpected(g, "a closing `\"`");
  tn__buf_add(params, "\"%.*s\"", (int)(end - begin), begin);
  g->lexer.pos.column += (uint32_t)(end + 1 - begin);
  g->lexer.at = end + 1;
  next_token(g);
  return true;
}

/* Appends the next token to `params`: `true`, `false`, or a parameter of the
 * differentiated operator as `$name`. Returns false after a message. */
static bool add_word_value(graph *g, tn__buf *params) {
  const tnm_token t = g->token;
  const char *text = copy_token_text(g, &t);
  next_token(g);
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
    tn__buf_add(params, "%s", text);
  else if (tnm_scope_param(&g->lower->scope, text) != TN_NONE)
    tn__buf_add(params, "$%s", text);
  else
    return report_unknown_word(g, &t, text,
                               "a parameter; text is in double quotes");
  return true;
}

/* Appends the value of a call's parameter to `params`: text, a word or a
 * number. Returns false after a message. */
static bool add_literal_value(graph *g, tn__buf *params) {
  if (is_next_char(g, '"')) return add_quoted_value(g, params);
  if (g->token.kind == TNM_TOKEN_NAME) return add_word_value(g, params);
  const bool minus = skip_char_if_next(g, '-');
  if (g->token.kind != TNM_TOKEN_NUMBER)
    return report_unexpected(g, "a number, a parameter or text");
  tn__buf_add(params, "%s%s", minus ? "-" : "", copy_token_text(g, &g->token));
  next_token(g);
  return true;
}

/* Stores a parameter of a call and its value, for a later check. `params` ends
 * with the text of the value. */
static void keep_param(graph *g, tnm_call *call, const tnm_token *name,
                       const tnm_tree *value) {
  tnm_call_param *param = TNM_NEW(g->lower->arena, tnm_call_param, 1);
  if (param == NULL) return;
  *param = (tnm_call_param){.name = copy_token_text(g, name),
                            .pos = name->pos,
                            .value = *value,
                            .next = call->params};
  call->params = param;
}

/* Returns a copy of a value's text without the quotes around it; NULL if
 * memory ran out. */
static char *remove_quotes(graph *g, const char *text, size_t n) {
  const bool quoted = n > 1 && text[0] == '"';
  return tn__arena_text(g->lower->arena, text + quoted, n - 2 * quoted);
}

/* Reads `name=value` in a call, and appends it to `params`. Returns false
 * after a message. */
static bool add_param(graph *g, tn__buf *params, tnm_call *call) {
  const tnm_token name = g->token;
  next_token(g);
  next_token(g); /* = */
  tn__buf_add(params, "%s%s=", params->n > 0 ? " " : "",
              copy_token_text(g, &name));
  const size_t begin = params->n;
  tnm_tree value = {.kind = TNM_SCALAR, .pos = g->token.pos};
  if (!add_literal_value(g, params)) return false;
  if (params->failed) return true;
  value.text = remove_quotes(g, params->s + begin, params->n - begin);
  if (value.text != NULL) keep_param(g, call, &name, &value);
  return true;
}

/* -------------------------------------------------------------------- calls */

static bool read_value(graph *g);

/* Tests for a name before `=`. */
static bool is_parameter_next(const graph *g) {
  if (g->token.kind != TNM_TOKEN_NAME) return false;
  tnm_lexer ahead = g->lexer;
  const tnm_token next = tnm_read_token(&ahead);
  return next.n == 1 && *next.text == '=';
}

/* Reads the arguments of a call up to `)`: first tensors, then parameters.
 * Returns false after a message. */
static bool read_arguments(graph *g, tnm_call *call, tn__buf *params) {
  if (skip_char_if_next(g, ')')) return true;
  do {
    if (is_parameter_next(g)) {
      if (!add_param(g, params, call)) return false;
    } else if (params->n > 0) {
      return report_unexpected(g, "`name=`");
    } else {
      if (!read_value(g)) return false;
      ++call->n_in;
    }
  } while (skip_char_if_next(g, ','));
  return expect_char(g, ')', "`,` or `)`");
}

/* Reads the rest of an operator's name after the name of its plugin:
 * `.elemwise.mul@1`. Without `@`, the interface is 1. Returns false after a
 * message. */
static bool read_name(graph *g, tnm_call *call) {
  const tnm_token op = g->token;
  call->interface = 1;
  call->pos = op.pos;
  if (op.kind != TNM_TOKEN_NAME)
    return report_unexpected(g, "the name of an operator");
  call->op = copy_token_text(g, &op);
  next_token(g);
  if (!skip_char_if_next(g, '@')) return true;
  const char *interface = copy_token_text(g, &g->token);
  if (g->token.kind != TNM_TOKEN_NUMBER ||
      strspn(interface, "0123456789") != strlen(interface) ||
      !tnm_parse_int(interface, &call->interface))
    return report_unexpected(g, "the number of an interface");
  next_token(g);
  return true;
}

/* Appends the step that calls an operator: it pops call->n_in values from the
 * stack and pushes its output. Returns false after a message or if memory ran
 * out. */
static bool push_call(graph *g, const char *plugin, tnm_call *call,
                      const tn__buf *params) {
  tnm_reader *reader = g->lower->reader;
  tn__arena *arena = g->lower->arena;
  tn_step step = {.what = TN_STEP_CALL,
                  .index = call->n_in,
                  .op = tnm_format_text(arena, "%s.%s@%" PRId64, plugin,
                                        call->op, call->interface)};
  if (params->failed) arena->failed = true;
  if (params->n > 0 && !params->failed)
    step.params = tn__arena_text(arena, params->s, params->n);
  call->plugin = plugin;
  (void)tnm_reader_push(reader, &reader->calls, call);
  return step.op != NULL && push_step(g, step);
}

/* Reads a call after the name of its plugin. Returns false after a message or
 * if memory ran out. */
static bool read_call(graph *g, const tnm_token *plugin) {
  tnm_call *call = TNM_NEW(g->lower->arena, tnm_call, 1);
  tn__buf params;
  if (call == NULL || !read_name(g, call) || !expect_char(g, '(', "`(`"))
    return false;
  tn__buf_init(&params, g->lower->arena->env);
  const bool ok = read_arguments(g, call, &params) &&
                  push_call(g, copy_token_text(g, plugin), call, &params);
  tn__buf_deinit(&params);
  return ok;
}

/* Reads a call, an operand or `grad.NAME`. Returns false after a message. */
static bool read_expression(graph *g) {
  const tnm_token name = g->token;
  if (name.kind != TNM_TOKEN_NAME)
    return report_unexpected(g, "a call or a tensor");
  next_token(g);
  if (!skip_char_if_next(g, '.')) return push_operand(g, &name);
  if (name.n == 4 && strncmp(name.text, "grad", 4) == 0)
    return push_output_gradient(g);
  return read_call(g, &name);
}

/* Reads an expression, which may be nested in others. Returns false after a
 * message if it is nested too deep or has a mistake. */
static bool read_value(graph *g) {
  if (++g->depth > MAX_ARGUMENTS) {
    tnm_diag_spec spec = {"E0037", g->token.pos, "one too many"};
    (void)tnm_diag_add(g->lower->diags, &spec,
                       "graph is more than %d calls deep", MAX_ARGUMENTS);
    return false;
  }
  const bool ok = read_expression(g);
  --g->depth;
  return ok;
}

/* ------------------------------------------------------------------ results */

/* Lists the operands and output gradients that the graph's steps use. */
static void set_needs(graph *g, tn_input_gradient *gradient) {
  tn_need *needs = TNM_NEW(g->lower->arena, tn_need, g->n);
  if (needs == NULL) return;
  for (uint32_t what = TN_NEED_GRAD_OUT; what <= TN_NEED_OUT; ++what) {
    for (uint32_t i = 0; i < g->n; ++i) {
      const tn_step *step = &g->steps[i];
      bool found = step->what != what;
      for (uint32_t k = 0; k < gradient->n_needs && !found; ++k)
        found = needs[k].what == what && needs[k].index == step->index;
      if (!found)
        needs[gradient->n_needs++] =
            (tn_need){.what = what, .index = step->index};
    }
  }
  gradient->needs = needs;
}

void tnm_lower_graph(tnm_lower *lower, const tnm_tree *entry,
                     tn_input_gradient *gradient) {
  if (!tnm_read_line(lower->diags, entry) || lower->op->n_outputs == 0) return;
  graph g = {.lower = lower,
             .entry = entry,
             .lexer = {entry->text, entry->pos},
             .steps = TNM_NEW(lower->arena, tn_step, MAX_STEPS)};
  if (g.steps == NULL) return;
  next_token(&g);
  if (!read_value(&g)) return;
  if (g.token.kind != TNM_TOKEN_END) {
    report_unexpected(&g, "the end");
    return;
  }
  set_needs(&g, gradient);
  gradient->formula = entry->text;
  gradient->steps = g.steps;
  gradient->n_steps = g.n;
}
