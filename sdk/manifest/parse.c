/* SPDX-License-Identifier: Apache-2.0
 * parse.c: the grammar of the expression language, by recursive descent. It
 * knows no names: resolve.c and shape.c give them a meaning.
 *
 *   expression = sum [("<" | ">" | "<=" | ">=" | "==" | "!=") sum]
 *   sum        = product {("+" | "-") product}
 *   product    = prefix {("*" | "/" | "%") prefix}
 *   prefix     = "-" prefix | power
 *   power      = primary ["^" prefix]
 *   primary    = number | name | name "." name | name "(" arguments ")"
 *              | "(" expression ")"
 *
 * Codes of the whole language, in the order of the files that report them:
 *
 *   E0030  the grammar expects something else here        parse.c
 *   E0032  a character that is not part of the language   parse.c
 *   E0033  a malformed number, or one that is too large   parse.c, shape.c
 *   E0036  comparisons in a chain                         parse.c
 *   E0037  an expression that is too deep or too long     parse.c, shape.c
 *   E0031  unknown name                                   resolve.c, shape.c
 *   E0034  unknown function                               resolve.c, shape.c
 *   E0035  wrong number of arguments                      resolve.c, shape.c
 *   E0038  a parameter that is not a single number        resolve.c
 *   E0039  `grad.` of something that has no gradient      resolve.c, shape.c
 *   E0040  too many tensors in one formula                resolve.c
 *   E0041  `...` is missing, or spreads a single number   shape.c
 *   E0042  a name stands for a dimension and for a pack   shape.c
 *   E0043  a number that is not a whole number            shape.c
 *   E0044  a tensor or parameter that is no integer       shape.c
 *   E0045  rank, size, shape or has of something else     shape.c
 *   E0046  a list where a single integer is wanted        shape.c
 *   E0047  more items than a tensor has dimensions        shape.c
 *   E0048  a division by the number 0                     shape.c
 */
#include <stdlib.h>
#include <string.h>

#include "expr.h"

void tnm_parser_init(tnm_parser *parser, const tnm_source *source) {
  *parser = (tnm_parser){.source = source,
                         .lexer = {.at = source->text, .pos = source->pos}};
  parser->token = tnm_read_token(&parser->lexer);
}

tnm_pos tnm_pos_span(tnm_pos from, tnm_pos to) {
  if (to.column > from.column)
    from.length = to.column - from.column + to.length;
  return from;
}

/* ----------------------------------------------------------------- messages */

/* Reports a token that is no part of the expression language. */
static void report_bad_character(const tnm_parser *p) {
  const tnm_token *token = &p->token;
  tnm_diags *diags = p->source->diags;
  tnm_diag_spec spec = {"E0032", token->pos, "not part of an expression"};
  size_t id = tnm_diag_add(diags, &spec, "invalid character `%.*s`",
                           (int)token->n, token->text);
  switch (*token->text) {
    case '?':
    case ':':
      tnm_diag_add_help(diags, id,
                        "the expression language has no `? :`; write "
                        "`select(condition, a, b)`");
      break;
    case '=':
      tnm_diag_add_help(diags, id, "equality is written `==`");
      break;
    case '&':
      tnm_diag_add_help(
          diags, id, "comparisons give 1 or 0; `and` is written `(a) * (b)`");
      break;
    case '|':
      tnm_diag_add_help(diags, id,
                        "comparisons give 1 or 0; `or` is written `max(a, b)`");
      break;
    case '!':
      tnm_diag_add_help(diags, id, "`not x` is written `x == 0`");
      break;
    default:
      break;
  }
}

/* Tests whether the next token begins with "**", which means power in some
 * other languages. */
static bool is_double_star(const tnm_parser *p) {
  const char *at = p->token.text;
  return *at == '*' && at > p->source->text && at[-1] == '*';
}

/* Reports that the grammar does not allow the next token. */
static void report_unexpected(const tnm_parser *p, const char *wanted) {
  const tnm_token *token = &p->token;
  tnm_diags *diags = p->source->diags;
  tnm_diag_spec spec = {"E0030", token->pos, "unexpected"};
  if (token->kind == TNM_TOKEN_BAD) {
    report_bad_character(p);
  } else if (token->kind == TNM_TOKEN_BAD_NUMBER) {
    spec.code = "E0033";
    spec.under = "malformed";
    size_t id = tnm_diag_add(diags, &spec, "invalid number `%.*s`",
                             (int)token->n, token->text);
    tnm_diag_add_help(diags, id, "numbers are decimal: `2`, `0.5`, `1e-3`");
  } else if (token->kind == TNM_TOKEN_END) {
    spec.under = "ends here";
    (void)tnm_diag_add(diags, &spec, "expected %s at the end of the expression",
                       wanted);
  } else {
    size_t id = tnm_diag_add(diags, &spec, "expected %s, found `%.*s`", wanted,
                             (int)token->n, token->text);
    if (is_double_star(p))
      tnm_diag_add_help(diags, id, "powers are written `x^2`");
  }
}

/* Reports a formula with more than `limit` of `what` ("parts"). */
static void report_too_large(const tnm_parser *p, const char *what,
                             unsigned limit) {
  tnm_diag_spec spec = {"E0037", p->token.pos, "one too many"};
  size_t id = tnm_diag_add(p->source->diags, &spec,
                           "expression has more than %u %s", limit, what);
  tnm_diag_add_help(p->source->diags, id,
                    "compute parts of it in a kernel of your own");
}

/* -------------------------------------------------------------------- nodes */

/* Reads the next token into p->token. */
static void next_token(tnm_parser *p) {
  p->token = tnm_read_token(&p->lexer);
}

static bool is_next_operator(const tnm_parser *p, char op) {
  return p->token.kind == TNM_TOKEN_OPERATOR && p->token.op == op;
}

bool tnm_parser_accept_op(tnm_parser *parser, char op) {
  if (!is_next_operator(parser, op)) return false;
  next_token(parser);
  return true;
}

/* Creates a node. NULL after a message about the size, or when memory ran
 * out. */
static tnm_expr *new_node(tnm_parser *p, int kind, tnm_pos pos) {
  if (p->n_nodes == TNM_EXPR_MAX_NODES) {
    report_too_large(p, "parts", TNM_EXPR_MAX_NODES);
    return NULL;
  }
  ++p->n_nodes;
  tnm_expr *expr = tn__arena_alloc(p->source->arena, sizeof *expr);
  if (!expr) return NULL;
  expr->kind = kind;
  expr->pos = pos;
  return expr;
}

/* Creates a node with the text of a token. */
static tnm_expr *new_leaf(tnm_parser *p, int kind, const tnm_token *token) {
  tnm_expr *expr = new_node(p, kind, token->pos);
  if (!expr) return NULL;
  expr->text = tn__arena_text(p->source->arena, token->text, token->n);
  return expr->text ? expr : NULL;
}

/* Makes the node for `left op right`. Returns NULL if memory ran out. */
static tnm_expr *new_binary_node(tnm_parser *p, char op, const tnm_expr *left,
                                 const tnm_expr *right) {
  tnm_expr *expr = new_node(p, TNM_BINARY, tnm_pos_span(left->pos, right->pos));
  if (!expr) return NULL;
  expr->op = op;
  expr->args[0] = left;
  expr->args[1] = right;
  expr->n_args = 2;
  return expr;
}

/* Counts one more level of nesting. Returns false after a message if there are
 * too many. */
static bool enter_nesting_level(tnm_parser *p) {
  if (p->depth == TNM_EXPR_MAX_DEPTH) {
    report_too_large(p, "levels", TNM_EXPR_MAX_DEPTH);
    return false;
  }
  ++p->depth;
  return true;
}

/* ------------------------------------------------------------------ grammar */

static tnm_expr *parse_prefix(tnm_parser *p);

/* Parses a constant. Returns NULL after a message. */
static tnm_expr *parse_number(tnm_parser *p) {
  tnm_token token = p->token;
  tnm_expr *expr = new_leaf(p, TNM_NUMBER, &token);
  if (!expr) return NULL;
  /* the lexer accepts plain decimals only */
  char *end;
  if (tn__read_double(expr->text, &end, &expr->number) != TN_OK) {
    p->source->arena->failed = true;
    return NULL;
  }
  if (expr->number > 1.7976931348623157e308) {
    tnm_diag_spec spec = {"E0033", token.pos, "beyond the range of f64"};
    (void)tnm_diag_add(p->source->diags, &spec, "number `%s` is too large",
                       expr->text);
    return NULL;
  }
  next_token(p);
  return expr;
}

/* Skips the parenthesis that closes the one at `open`; *end becomes its
 * position. Returns false after a message if the next token is another one. */
static bool close_parenthesis(tnm_parser *p, const tnm_token *open,
                              tnm_pos *end) {
  *end = p->token.pos;
  if (tnm_parser_accept_op(p, ')')) return true;
  if (p->token.kind == TNM_TOKEN_BAD || p->token.kind == TNM_TOKEN_BAD_NUMBER) {
    report_unexpected(p, "`)`");
    return false;
  }
  bool ends = p->token.kind == TNM_TOKEN_END;
  tnm_diag_spec spec = {"E0030", p->token.pos, "expected `)`"};
  size_t id =
      ends ? tnm_diag_add(p->source->diags, &spec,
                          "`(` is not closed at the end of the expression")
           : tnm_diag_add(p->source->diags, &spec, "expected `)`, found `%.*s`",
                          (int)p->token.n, p->token.text);
  tnm_diag_add_place(p->source->diags, id, open->pos, "opened here");
  return false;
}

/* Parses `(expression)`. Returns NULL after a message. */
static tnm_expr *parse_parenthesised(tnm_parser *p) {
  tnm_token open = p->token;
  tnm_pos end;
  next_token(p);
  tnm_expr *expr = tnm_parser_read_expr(p);
  if (!expr || !close_parenthesis(p, &open, &end)) return NULL;
  expr->pos = tnm_pos_span(open.pos, end);
  return expr;
}

/* Number of arguments that a node has room for. */
enum { MAX_ARGS = sizeof((tnm_expr *)0)->args / sizeof(tnm_expr *) };

uint32_t tnm_expr_count_args(const tnm_expr *expr) {
  return expr->n_args < MAX_ARGS ? expr->n_args : MAX_ARGS;
}

bool tnm_count_args(tnm_diags *diags, const tnm_expr *call, uint32_t n,
                    size_t *id) {
  if (call->n_args == n) return true;
  tnm_diag_spec spec = {"E0035", call->pos, NULL};
  *id = tnm_diag_add(diags, &spec, "`%s` takes %u argument%s, found %u",
                     call->text, n, n == 1 ? "" : "s", call->n_args);
  return false;
}

bool tnm_check_args(tnm_diags *diags, const tnm_expr *call, uint32_t n) {
  size_t id = 0;
  return tnm_count_args(diags, call, n, &id);
}

/* Parses the arguments of a call; its name was read before. A node stores a
 * fixed number of arguments; further ones are only counted. The number is
 * checked when the function is known. */
static tnm_expr *parse_call(tnm_parser *p, const tnm_token *name) {
  tnm_expr *expr = new_leaf(p, TNM_CALL, name);
  tnm_token open = p->token;
  tnm_pos end = open.pos;
  if (!expr) return NULL;
  next_token(p);
  if (!is_next_operator(p, ')')) {
    do {
      const tnm_expr *arg = tnm_parser_read_expr(p);
      if (!arg) return NULL;
      if (expr->n_args < MAX_ARGS) expr->args[expr->n_args] = arg;
      ++expr->n_args;
    } while (tnm_parser_accept_op(p, ','));
  }
  if (!close_parenthesis(p, &open, &end)) return NULL;
  expr->pos = tnm_pos_span(name->pos, end);
  return expr;
}

/* Parses `grad.OUTPUT`, the gradient of an output and the only kind of name
 * with a dot. `name` is the token before the dot, which must be `grad`; the dot
 * is the next token. */
static tnm_expr *parse_output_gradient(tnm_parser *p, const tnm_token *name) {
  next_token(p);
  if (name->n != 4 || strncmp(name->text, "grad", 4) != 0) {
    tnm_diag_spec spec = {"E0039", name->pos, "has no members"};
    size_t id =
        tnm_diag_add(p->source->diags, &spec, "only `grad` may precede a `.`");
    tnm_diag_add_help(p->source->diags, id,
                      "the gradient of an output is written `grad.<output>`");
    return NULL;
  }
  if (p->token.kind != TNM_TOKEN_NAME) {
    report_unexpected(p, "the name of an output");
    return NULL;
  }
  tnm_expr *expr = new_leaf(p, TNM_GRAD, &p->token);
  if (!expr) return NULL;
  expr->pos = tnm_pos_span(name->pos, p->token.pos);
  next_token(p);
  return expr;
}

/* Parses a number, a name, a call, `grad.NAME` or an expression in
 * parentheses. Returns NULL after a message. */
static tnm_expr *parse_primary(tnm_parser *p) {
  if (p->token.kind == TNM_TOKEN_NUMBER) return parse_number(p);
  if (is_next_operator(p, '(')) return parse_parenthesised(p);
  if (p->token.kind != TNM_TOKEN_NAME) {
    report_unexpected(p, "a number, a name or `(`");
    return NULL;
  }
  tnm_token name = p->token;
  next_token(p);
  if (is_next_operator(p, '(')) return parse_call(p, &name);
  if (is_next_operator(p, '.')) return parse_output_gradient(p, &name);
  return new_leaf(p, TNM_NAME, &name);
}

/* Parses `a^b`, or `a` if no `^` follows. Returns NULL after a message. */
static tnm_expr *parse_power(tnm_parser *p) {
  tnm_expr *base = parse_primary(p);
  if (!base || !tnm_parser_accept_op(p, '^')) return base;
  const tnm_expr *exponent = parse_prefix(p);
  return exponent ? new_binary_node(p, '^', base, exponent) : NULL;
}

/* Parses an expression with or without a leading minus sign. Returns NULL
 * after a message. */
static tnm_expr *parse_inner_prefix(tnm_parser *p) {
  tnm_pos minus = p->token.pos;
  if (!tnm_parser_accept_op(p, '-')) return parse_power(p);
  const tnm_expr *operand = parse_prefix(p);
  if (!operand) return NULL;
  tnm_expr *expr = new_node(p, TNM_NEG, tnm_pos_span(minus, operand->pos));
  if (!expr) return NULL;
  expr->args[0] = operand;
  expr->n_args = 1;
  return expr;
}

/* Parses an expression that may begin with a sign. Every nested expression is
 * parsed through this function, so it limits the depth of nesting. */
static tnm_expr *parse_prefix(tnm_parser *p) {
  if (!enter_nesting_level(p)) return NULL;
  tnm_expr *expr = parse_inner_prefix(p);
  --p->depth;
  return expr;
}

/* Letters of the binary operators (tnm_expr.op) of each level of precedence,
 * from the lowest. */
static const char *const levels[] = {"lgen<>", "+-", "*/%"};

enum { COMPARISON = 0, N_LEVELS = sizeof levels / sizeof *levels };

/* Tests whether the next token is an operator of precedence level `level`. */
static bool is_next_at_level(const tnm_parser *p, size_t level) {
  return p->token.kind == TNM_TOKEN_OPERATOR &&
         strchr(levels[level], p->token.op);
}

/* Reports a second comparison in a row: `a < b < c`. */
static void report_chained_comparison(const tnm_parser *p) {
  tnm_diag_spec spec = {"E0036", p->token.pos, "second comparison"};
  size_t id =
      tnm_diag_add(p->source->diags, &spec, "comparisons cannot be chained");
  tnm_diag_add_help(p->source->diags, id, "write `(a < b) * (b < c)`");
}

/* Parses operands of a level and the operators between them. */
static tnm_expr *parse_binary(tnm_parser *p, size_t level) {
  if (level == N_LEVELS) return parse_prefix(p);
  tnm_expr *left = parse_binary(p, level + 1);
  while (left && is_next_at_level(p, level)) {
    char op = p->token.op;
    next_token(p);
    const tnm_expr *right = parse_binary(p, level + 1);
    if (!right) return NULL;
    left = new_binary_node(p, op, left, right);
    if (left && level == COMPARISON && is_next_at_level(p, level)) {
      report_chained_comparison(p);
      return NULL;
    }
  }
  return left;
}

tnm_expr *tnm_parser_read_expr(tnm_parser *parser) {
  return parse_binary(parser, COMPARISON);
}

/* Returns a help line for an operator of another language, like `&&`, between
 * two conditions. */
static const char *get_foreign_operator_help(const tnm_token *token) {
  static const char *const words[][2] = {
      {"and", "both hold where `a * b` is not 0: write `(x > 0) * (x < 1)`"},
      {"or", "one holds where `max(a, b)` is not 0"},
      {"not", "`a` does not hold where `a == 0`"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strlen(words[i][0]) == token->n &&
        strncmp(words[i][0], token->text, token->n) == 0)
      return words[i][1];
  return "a product is written `a * b`";
}

bool tnm_parser_expect_end(const tnm_parser *parser) {
  const tnm_token *token = &parser->token;
  if (token->kind == TNM_TOKEN_END) return true;
  if (token->kind == TNM_TOKEN_BAD || token->kind == TNM_TOKEN_BAD_NUMBER) {
    report_unexpected(parser, "an operator");
    return false;
  }
  tnm_diag_spec spec = {"E0030", token->pos, "unexpected"};
  size_t id = tnm_diag_add(parser->source->diags, &spec,
                           "expected an operator, found `%.*s`", (int)token->n,
                           token->text);
  if (token->kind != TNM_TOKEN_OPERATOR || token->op == '(')
    tnm_diag_add_help(parser->source->diags, id, "%s",
                      get_foreign_operator_help(token));
  return false;
}
