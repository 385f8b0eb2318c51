/* SPDX-License-Identifier: Apache-2.0
 * shape.c: turns patterns and conditions over shapes into programs of tn_node.
 * The codes of its messages are listed at the top of parse.c.
 *
 * A value of such a program is one integer or a list of them. The kind is known
 * here already, so a list in place of one dimension is a mistake of the
 * manifest and not of a call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "expr.h"

/* Maximal number of nodes of the shape program of one operator, for all its
 * patterns and conditions together. */
#define MAX_NODES 4096

/* A lowered expression: the index of the node that computes it, and whether it
 * is a list of integers. The index is -1 after a message or if memory ran out.
 */
typedef struct value {
  int32_t node;
  bool list;
} value;

static const value no_value = {-1, false};

/* Appends an item to a list. Returns false if memory runs out; then the arena
 * is marked, and tnm_program_finish reports it. */
static bool push_item(tnm_program *program, tn__vec *vec, void *item) {
  if (item && tn__vec_push(program->arena->env, vec, item) == TN_OK)
    return true;
  program->arena->failed = true;
  return false;
}

/* Adds a node to the shape program; `list`: its value is a list. Returns
 * no_value if there are too many nodes or memory ran out. */
static value add_node(tnm_program *program, const tn_node *node, bool list) {
  if (program->nodes.n >= MAX_NODES) return no_value;
  tn_node *own = tn__arena_alloc(program->arena, sizeof *own);
  if (own) *own = *node;
  if (!push_item(program, &program->nodes, own)) return no_value;
  return (value){(int32_t)program->nodes.n - 1, list};
}

/* -------------------------------------------------------------------- names */

/* Returns the index of a name of n bytes; -1 if the list does not have it. */
static int32_t find_name(const tn__vec *names, const char *name, size_t n) {
  for (size_t i = 0; i < names->n; ++i) {
    const char *known = names->v[i];
    if (strncmp(known, name, n) == 0 && known[n] == '\0') return (int32_t)i;
  }
  return -1;
}

/* Tests whether a name is one of a dimension or pack: it begins with a capital
 * letter. */
static bool is_variable(const char *name) {
  return name[0] >= 'A' && name[0] <= 'Z';
}

/* Appends a list of names. */
static void add_names(tnm_names *names, const tn__vec *vec) {
  for (size_t i = 0; i < vec->n; ++i) {
    const char *name = vec->v[i];
    tnm_names_add(names, &name, 1);
  }
}

/* Reports the name of a dimension in an expression that may not contain
 * dimensions. Patterns of the operator may have defined it. */
static void report_forbidden_dimension(tnm_program *program,
                                       const tnm_expr *expr) {
  const tnm_diag_spec spec = {"E0031", expr->pos, "a dimension"};
  const size_t id = tnm_diag_add(program->diags, &spec,
                                 "`%s` takes no dimensions", program->dimless);
  tnm_diag_add_help(
      program->diags, id,
      "it may ask for parameters, and for `rank(x)`, `size(x)` and "
      "`shape(x)` of operands; a function under `supports` sees "
      "everything");
}

/* Adds a help line to message `id` if a dimension has this name with other
 * upper or lower case letters. Returns whether it added the line. */
static bool add_capital_help(const tnm_program *program, const tnm_expr *expr,
                             size_t id) {
  const size_t n = strlen(expr->text);
  char *name = tn__arena_text(program->arena, expr->text, n);
  if (name == NULL || name[0] < 'a' || name[0] > 'z') return false;
  name[0] = (char)(name[0] - 'a' + 'A');
  if (find_name(&program->dims, name, n) < 0 &&
      find_name(&program->packs, name, n) < 0)
    return false;
  tnm_diag_add_help(program->diags, id,
                    "dimensions begin with a capital letter: `%s`", name);
  return true;
}

/* Adds a help line for an unknown name that is similar to no known name. The
 * author probably wants a new dimension. */
static void add_new_name_help(const tnm_program *program, const char *name,
                              size_t id) {
  if (program->dimless != NULL || name[0] < 'a' || name[0] > 'z') return;
  tnm_diag_add_help(
      program->diags, id,
      "a dimension begins with a capital letter: `%c%s`; a name in "
      "lower case is a parameter, declared in `params`",
      name[0] - 'a' + 'A', name + 1);
}

static void report_unknown_name(tnm_program *program, const tnm_expr *expr) {
  bool variable = is_variable(expr->text);
  tnm_diags *diags = program->diags;
  tnm_diag_spec spec = {"E0031", expr->pos, "unknown name"};
  size_t id =
      variable
          ? tnm_diag_add(diags, &spec, "no `shape:` introduces dimension `%s`",
                         expr->text)
          : tnm_diag_add(diags, &spec, "`%s` is not a dimension or parameter",
                         expr->text);
  tnm_names names = {.arena = program->arena};
  add_names(&names, &program->dims);
  add_names(&names, &program->packs);
  for (uint32_t i = 0; i < program->scope.n_params; ++i)
    tnm_names_add(&names, &program->scope.params[i]->name, 1);
  tnm_names_add_note(&names, diags, id, "in scope here");
  if (!add_capital_help(program, expr, id) &&
      !tnm_add_enum_help(&program->scope, diags, id, expr->text) &&
      !tnm_names_add_help(&names, diags, id, expr->text) && !variable)
    add_new_name_help(program, expr->text, id);
}

/* Finds the operand with the name `expr`: node->a becomes its list, node->b
 * its index. Returns false if `expr` is no operand's name. */
static bool find_operand(const tnm_program *program, const tnm_expr *expr,
                         tn_node *node) {
  if (expr->kind != TNM_NAME) return false;
  uint32_t index = tnm_scope_input(&program->scope, expr->text);
  node->a = TN_OPERAND_IN;
  if (index == TN_NONE) {
    index = tnm_scope_output(&program->scope, expr->text);
    node->a = TN_OPERAND_OUT;
  }
  if (index == TN_NONE) return false;
  node->b = (int32_t)index;
  return true;
}

/* Adds the node that reads parameter number `index`. Returns no_value after a
 * message if its type has no place in shapes. */
static value lower_param(tnm_program *program, const tnm_expr *expr,
                         uint32_t index) {
  tn_node node = {.op = TN_NODE_PARAM, .a = (int32_t)index};
  switch (program->scope.params[index]->type) {
    case TN_FIELD_BOOL:
    case TN_FIELD_INT:
    case TN_FIELD_ENUM:
      return add_node(program, &node, false);
    case TN_FIELD_INTS:
      return add_node(program, &node, true);
    default:
      break;
  }
  tnm_diag_spec spec = {"E0044", expr->pos, "not an integer"};
  size_t id =
      tnm_diag_add(program->diags, &spec,
                   "parameter `%s` cannot be used in a shape rule", expr->text);
  tnm_diag_add_help(program->diags, id,
                    "parameters of type bool, int, enum and ints can; a float "
                    "only in a comparison with a parameter or a number");
  return no_value;
}

/* Lowers the name of a dimension or pack. Returns no_value after a message. */
static value lower_variable(tnm_program *program, const tnm_expr *expr) {
  size_t n = strlen(expr->text);
  tn_node dim = {.op = TN_NODE_DIM,
                 .a = find_name(&program->dims, expr->text, n)};
  tn_node pack = {.op = TN_NODE_PACK,
                  .a = find_name(&program->packs, expr->text, n)};
  if (dim.a >= 0) return add_node(program, &dim, false);
  if (pack.a >= 0) return add_node(program, &pack, true);
  if (program->dimless != NULL)
    report_forbidden_dimension(program, expr);
  else
    report_unknown_name(program, expr);
  return no_value;
}

/* Lowers a name: a dimension, a pack or a parameter. Returns no_value after a
 * message. */
static value lower_name(tnm_program *program, const tnm_expr *expr) {
  tn_node operand;
  if (is_variable(expr->text)) return lower_variable(program, expr);
  uint32_t param = tnm_scope_param(&program->scope, expr->text);
  if (param != TN_NONE) return lower_param(program, expr, param);
  if (!find_operand(program, expr, &operand)) {
    report_unknown_name(program, expr);
    return no_value;
  }
  tnm_diag_spec spec = {"E0044", expr->pos, "a tensor"};
  size_t id =
      tnm_diag_add(program->diags, &spec,
                   "`%s` is a tensor, a shape rule wants integers", expr->text);
  tnm_diag_add_help(program->diags, id,
                    "write `rank(%s)`, `size(%s)` or `shape(%s)`", expr->text,
                    expr->text, expr->text);
  return no_value;
}

/* Lowers a constant. Returns no_value after a message if it is no integer. */
static value lower_number(tnm_program *program, const tnm_expr *expr) {
  char *end = NULL;
  errno = 0;
  tn_node node = {.op = TN_NODE_CONST};
  node.value = (int64_t)strtoll(expr->text, &end, 10);
  if (*end == '\0' && errno == 0) return add_node(program, &node, false);
  tnm_diag_spec spec = {*end ? "E0043" : "E0033", expr->pos, NULL};
  (void)tnm_diag_add(program->diags, &spec,
                     *end ? "`%s` is not a whole number"
                          : "`%s` is beyond the range of 64-bit integers",
                     expr->text);
  return no_value;
}

/* ---------------------------------------------------------------- functions */

static value lower_expr(tnm_program *program, const tnm_expr *expr);

/* Tests whether an expression has a value. Returns false for an unknown name,
 * which is probably a misspelt operand. */
static bool has_value(const tnm_program *program, const tnm_expr *expr) {
  return expr->kind != TNM_NAME || is_variable(expr->text) ||
         tnm_scope_param(&program->scope, expr->text) != TN_NONE;
}

/* Lowers one of the calls `rank(x)`, `size(x)`, `shape(x)` and `has(x)` of an
 * operand, or `rank(l)` of a list. `op` is the kind of the
 * node that computes the function. */
static value lower_operand_query(tnm_program *program, const tnm_expr *expr,
                                 uint32_t op) {
  const tnm_expr *arg = expr->args[0];
  tn_node node = {.op = op};
  bool known = find_operand(program, arg, &node);
  if (known && op == TN_NODE_HAS && node.a == TN_OPERAND_IN) {
    node.a = node.b;
    node.b = 0;
    return add_node(program, &node, false);
  }
  if (known && op != TN_NODE_HAS)
    return add_node(program, &node, op == TN_NODE_OPERAND_SHAPE);
  if (!known && op == TN_NODE_OPERAND_RANK && has_value(program, arg)) {
    value list = lower_expr(program, arg);
    node = (tn_node){.op = TN_NODE_RANK, .a = list.node};
    if (list.node < 0) return no_value;
    if (list.list) return add_node(program, &node, false);
  }
  const char *wanted = op == TN_NODE_HAS            ? "an input"
                       : op == TN_NODE_OPERAND_RANK ? "a tensor or a list"
                                                    : "a tensor";
  tnm_diag_spec spec = {"E0045", arg->pos, NULL};
  size_t id =
      tnm_diag_add(program->diags, &spec, "`%s` takes %s", expr->text, wanted);
  tnm_names names = {.arena = program->arena};
  tnm_names_add(&names, program->scope.inputs, program->scope.n_inputs);
  if (op != TN_NODE_HAS)
    tnm_names_add(&names, program->scope.outputs, program->scope.n_outputs);
  tnm_names_add_note(&names, program->diags, id, "tensors");
  if (arg->kind == TNM_NAME)
    tnm_names_add_help(&names, program->diags, id, arg->text);
  return no_value;
}

/* Tests whether an expression divides by the constant 0, as in `N/0`, which
 * fails in every call. */
static bool divides_by_zero(tnm_program *program, const tnm_expr *expr) {
  if (expr->kind != TNM_BINARY || (expr->op != '/' && expr->op != '%'))
    return false;
  const tnm_expr *by = expr->args[1];
  if (by->kind != TNM_NUMBER || by->number != 0) return false;
  const tnm_diag_spec spec = {"E0048", by->pos, "always 0"};
  const size_t id =
      tnm_diag_add(program->diags, &spec, "`%c` by 0 has no value", expr->op);
  tnm_diag_add_help(program->diags, id,
                    "divide by a dimension, a parameter or another number");
  return true;
}

/* Lowers an operation with up to three arguments. The result is a list if any
 * argument is a list. */
static value lower_operation(tnm_program *program, const tnm_expr *expr,
                             uint32_t op) {
  int32_t nodes[3] = {0, 0, 0};
  bool list = false;
  if (divides_by_zero(program, expr)) return no_value;
  bool failed = false;
  for (uint32_t i = 0; i < expr->n_args; ++i) {
    value arg = lower_expr(program, expr->args[i]);
    nodes[i] = arg.node;
    list = list || arg.list;
    failed = failed || arg.node < 0;
  }
  if (failed) return no_value;
  tn_node node = {.op = op, .a = nodes[0], .b = nodes[1], .c = nodes[2]};
  return add_node(program, &node, list);
}

static const struct function {
  const char *name;
  uint32_t n_args;
  uint32_t op;
  bool query;
} functions[] = {
    {"rank", 1, TN_NODE_OPERAND_RANK, true},
    {"size", 1, TN_NODE_OPERAND_SIZE, true},
    {"shape", 1, TN_NODE_OPERAND_SHAPE, true},
    {"has", 1, TN_NODE_HAS, true},
    {"min", 2, TN_NODE_MIN, false},
    {"max", 2, TN_NODE_MAX, false},
    {"abs", 1, TN_NODE_ABS, false},
    {"select", 3, TN_NODE_SELECT, false},
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static void report_unknown_function(tnm_program *program,
                                    const tnm_expr *expr) {
  tnm_pos pos = expr->pos;
  pos.length = (uint32_t)strlen(expr->text);
  tnm_diag_spec spec = {"E0034", pos, "unknown function"};
  size_t id = tnm_diag_add(program->diags, &spec,
                           "`%s` is not a function of shape rules", expr->text);
  tnm_names names = {.arena = program->arena};
  for (size_t i = 0; i < N_FUNCTIONS; ++i)
    tnm_names_add(&names, &functions[i].name, 1);
  tnm_names_add_note(&names, program->diags, id, "functions");
  tnm_names_add_help(&names, program->diags, id, expr->text);
}

/* Lowers a call of a function such as `size(x)`. Returns no_value after a
 * message. */
static value lower_call(tnm_program *program, const tnm_expr *expr) {
  for (size_t i = 0; i < N_FUNCTIONS; ++i) {
    const struct function *f = &functions[i];
    if (strcmp(f->name, expr->text) != 0) continue;
    if (!tnm_check_args(program->diags, expr, f->n_args)) return no_value;
    return f->query ? lower_operand_query(program, expr, f->op)
                    : lower_operation(program, expr, f->op);
  }
  report_unknown_function(program, expr);
  return no_value;
}

static value lower_binary(tnm_program *program, const tnm_expr *expr) {
  tn_node node;
  if (tnm_compare_floats(&program->scope, expr, &node))
    return add_node(program, &node, false);
  return lower_operation(program, expr, tnm_find_binary_node(expr->op));
}

/* Lowers an expression. Returns no_value after a message. */
static value lower_expr(tnm_program *program, const tnm_expr *expr) {
  switch (expr->kind) {
    case TNM_NUMBER:
      return lower_number(program, expr);
    case TNM_NAME:
      return lower_name(program, expr);
    case TNM_NEG:
      return lower_operation(program, expr, TN_NODE_NEG);
    case TNM_CALL:
      return lower_call(program, expr);
    case TNM_BINARY:
      return lower_binary(program, expr);
    default:
      break;
  }
  tnm_diag_spec spec = {"E0039", expr->pos, "not an integer"};
  (void)tnm_diag_add(program->diags, &spec,
                     "gradients have no place in a shape");
  return no_value;
}

/* Lowers an item of a pattern or an expression. Adds one message if the shape
 * program has become too long. */
static value lower_item(tnm_program *program, const tnm_item *item,
                        const tnm_expr *expr) {
  bool full = program->nodes.n >= MAX_NODES;
  value result = lower_expr(program, expr);
  if (full || program->nodes.n < MAX_NODES) return result;
  tnm_diag_spec spec = {"E0037", item->pos, "one too many"};
  (void)tnm_diag_add(program->diags, &spec,
                     "the shape rules of one operator have more than %d parts",
                     MAX_NODES);
  return no_value;
}

/* ----------------------------------------------------------------- patterns */

/* Returns the name of the pack of an item like `S...`, which only spreads that
 * pack; an empty token for other items. */
static tnm_token find_spread_pack(const tnm_item *item) {
  tnm_lexer lexer = {.at = item->text, .pos = item->pos};
  tnm_token name = tnm_read_token(&lexer);
  tnm_token spread = tnm_read_token(&lexer);
  bool direct = name.kind == TNM_TOKEN_NAME && is_variable(name.text) &&
                spread.op == TNM_SPREAD &&
                tnm_read_token(&lexer).kind == TNM_TOKEN_END;
  if (!direct) name.kind = TNM_TOKEN_END;
  return name;
}

/* Defines a pack with this name, if it is new. Returns false after a message
 * if a single dimension has the name, or if memory ran out. */
static bool define_pack(tnm_program *program, const tnm_token *name) {
  if (find_name(&program->packs, name->text, name->n) >= 0) return true;
  if (find_name(&program->dims, name->text, name->n) < 0)
    return push_item(program, &program->packs,
                     tn__arena_text(program->arena, name->text, name->n));
  tnm_diag_spec spec = {"E0042", name->pos, "spread here"};
  size_t id = tnm_diag_add(program->diags, &spec,
                           "`%.*s` is a single dimension already", (int)name->n,
                           name->text);
  tnm_diag_add_help(
      program->diags, id,
      "a pack is introduced by `%.*s...` in the first pattern that "
      "names it",
      (int)name->n, name->text);
  return false;
}

/* Defines a dimension for each upper-case name in an item, except packs. It
 * reads tokens, not trees: so even the names of an invalid pattern are known
 * and cause no second message. Returns false if memory ran out. */
static bool define_dims(tnm_program *program, const tnm_item *item) {
  tnm_lexer lexer = {.at = item->text, .pos = item->pos};
  tnm_token token = tnm_read_token(&lexer);
  while (token.kind != TNM_TOKEN_END) {
    if (token.kind == TNM_TOKEN_NAME && is_variable(token.text) &&
        find_name(&program->packs, token.text, token.n) < 0 &&
        find_name(&program->dims, token.text, token.n) < 0 &&
        !push_item(program, &program->dims,
                   tn__arena_text(program->arena, token.text, token.n)))
      return false;
    token = tnm_read_token(&lexer);
  }
  return true;
}

/* Defines all packs and dimensions that the items of a pattern name. Returns
 * false after a message or if memory ran out. */
static bool define_pattern_names(tnm_program *program, const tnm_item *items,
                                 size_t n) {
  bool ok = true;
  for (size_t i = 0; i < n; ++i) {
    tnm_token pack = find_spread_pack(&items[i]);
    if (pack.kind == TNM_TOKEN_NAME && !define_pack(program, &pack)) ok = false;
  }
  for (size_t i = 0; i < n; ++i)
    if (!define_dims(program, &items[i])) ok = false;
  return ok;
}

/* Reports a list in a pattern that is not spread by `...`. */
static void report_missing_spread(tnm_program *program, const tnm_expr *expr,
                                  const char *text) {
  tnm_diag_spec spec = {"E0041", expr->pos, "one dimension is wanted"};
  size_t id = tnm_diag_add(program->diags, &spec, "`%s` is a list", text);
  bool name =
      expr->kind == TNM_NAME || expr->kind == TNM_CALL || text[0] == '(';
  tnm_diag_add_help(program->diags, id,
                    name ? "write `%s...` for one dimension per element"
                         : "write `(%s)...` for one dimension per element",
                    text);
}

/* Reports `...` after a single number. */
static void report_needless_spread(tnm_program *program, const tnm_expr *expr) {
  tnm_diag_spec spec = {"E0041", expr->pos, "a single number"};
  size_t id =
      tnm_diag_add(program->diags, &spec, "nothing to spread before `...`");
  tnm_diag_add_help(
      program->diags, id,
      "packs are introduced by a pattern that names them alone, as "
      "`S...`");
}

/* Lowers one item of a pattern to a term of the shape. Returns false after a
 * message. */
static bool add_item(tnm_program *program, const tnm_item *item,
                     tn_term *term) {
  tnm_source source = {program->arena, program->diags, item->text, item->pos};
  tnm_parser parser;
  tnm_parser_init(&parser, &source);
  const tnm_expr *expr = tnm_parser_read_expr(&parser);
  if (!expr) return false;
  bool spread = tnm_parser_accept_op(&parser, TNM_SPREAD);
  if (!tnm_parser_expect_end(&parser)) return false;
  value result = lower_item(program, item, expr);
  if (result.node < 0) return false;
  if (result.list && !spread) report_missing_spread(program, expr, item->text);
  if (!result.list && spread) report_needless_spread(program, expr);
  *term = (tn_term){.node = result.node, .spread = spread};
  return result.list == spread;
}

/* Returns a pattern as text: "[N, C, S...]". */
static const char *print_pattern(tnm_program *program, const tnm_item *items,
                                 size_t n) {
  tn__buf buf;
  const char *text = NULL;
  tn__buf_init(&buf, program->arena->env);
  tn__buf_add(&buf, "[");
  for (size_t i = 0; i < n; ++i)
    tn__buf_add(&buf, "%s%s", i ? ", " : "", items[i].text);
  tn__buf_add(&buf, "]");
  if (buf.failed)
    program->arena->failed = true;
  else
    text = tn__arena_text(program->arena, buf.s, buf.n);
  tn__buf_deinit(&buf);
  return text;
}

bool tnm_program_pattern(tnm_program *program, const tnm_item *items, size_t n,
                         tn_arg *arg) {
  if (n > TN_MAX_NDIM) {
    tnm_diag_spec spec = {"E0047", items[TN_MAX_NDIM].pos, "one too many"};
    (void)tnm_diag_add(program->diags, &spec,
                       "a tensor has at most %d dimensions", TN_MAX_NDIM);
    return false;
  }
  tn_term *terms = tn__arena_alloc(program->arena, (n + 1) * sizeof *terms);
  if (!terms || !define_pattern_names(program, items, n)) return false;
  bool ok = true;
  for (size_t i = 0; i < n; ++i)
    if (!add_item(program, &items[i], &terms[i])) ok = false;
  if (!ok) return false;
  arg->shape_kind = TN_SHAPE_PATTERN;
  arg->terms = n ? terms : NULL;
  arg->n_terms = (uint32_t)n;
  arg->shape_text = print_pattern(program, items, n);
  return arg->shape_text != NULL;
}

/* --------------------------------------------------------------- conditions */

/* Tests whether a node computes a condition. */
static bool is_comparison(const tnm_program *program, uint32_t node) {
  const uint32_t op = ((const tn_node *)program->nodes.v[node])->op;
  return (op >= TN_NODE_EQ && op <= TN_NODE_GE) || op == TN_NODE_COMPARE_PARAMS;
}

bool tnm_program_value(tnm_program *program, const tnm_item *item,
                       uint32_t *node, bool *list) {
  tnm_source source = {program->arena, program->diags, item->text, item->pos};
  tnm_parser parser;
  tnm_parser_init(&parser, &source);
  const tnm_expr *expr = tnm_parser_read_expr(&parser);
  if (!expr || !tnm_parser_expect_end(&parser)) return false;
  value result = lower_item(program, item, expr);
  if (result.node < 0) return false;
  *node = (uint32_t)result.node;
  *list = result.list;
  return true;
}

/* Adds an integer expression to the program. If `lists` is true, the expression
 * may also compare lists. */
static bool read_integer(tnm_program *program, const tnm_item *item, bool lists,
                         uint32_t *node) {
  bool list = false;
  if (!tnm_program_value(program, item, node, &list)) return false;
  if (!list || (lists && is_comparison(program, *node))) return true;
  tnm_diag_spec spec = {"E0046", item->pos, "one integer is wanted"};
  (void)tnm_diag_add(program->diags, &spec, "`%s` is a list", item->text);
  return false;
}

bool tnm_program_integer(tnm_program *program, const tnm_item *item,
                         uint32_t *node) {
  return read_integer(program, item, false, node);
}

bool tnm_program_condition(tnm_program *program, const tnm_item *item,
                           uint32_t *node) {
  return read_integer(program, item, true, node);
}
