/* SPDX-License-Identifier: Apache-2.0
 * expr.h: shared by the files of the expression language: tokens, and the
 * grammar that scalar expressions and shape rules have in common. Names and
 * functions have no meaning yet; resolve.c and shape.c give them one.
 */
#ifndef TENON_MANIFEST_EXPR_H_
#define TENON_MANIFEST_EXPR_H_

#include "manifest.h"

/* ------------------------------------------------------------------- tokens */

enum {
  TNM_TOKEN_END = 0,
  TNM_TOKEN_NUMBER = 1,
  TNM_TOKEN_NAME = 2,
  TNM_TOKEN_OPERATOR = 3,
  TNM_TOKEN_BAD_NUMBER = 4, /* begins like a number but is malformed */
  TNM_TOKEN_BAD = 5         /* a character outside the language */
};

/* `op` is the letter of tnm_expr.op, one of "(),.", or TNM_SPREAD. */
#define TNM_SPREAD 's'

typedef struct tnm_token {
  int kind;
  char op;          /* TNM_TOKEN_OPERATOR */
  const char *text; /* the token's n bytes in the source; no 0 follows */
  size_t n;
  tnm_pos pos;
} tnm_token;

typedef struct tnm_lexer {
  const char *at;
  tnm_pos pos; /* position of the character *at; the length is undefined */
} tnm_lexer;

/* Reads the next token. At the end of the text each call returns
 * TNM_TOKEN_END. */
tnm_token tnm_read_token(tnm_lexer *lexer);

/* ------------------------------------------------------------------ grammar */

/* The kind of a node that is a name which is not resolved yet; `text` is the
 * name. After resolving, TNM_GRAD has the name of the output in `text`, and
 * TNM_CALL the name of the function. */
enum { TNM_NAME = 0 };

typedef struct tnm_parser {
  const tnm_source *source;
  tnm_lexer lexer;
  tnm_token token; /* the next token */
  uint32_t n_nodes;
  uint32_t depth;
} tnm_parser;

void tnm_parser_init(tnm_parser *parser, const tnm_source *source);

/* Parses the longest expression that begins at the next token. Returns NULL
 * after it has added a message, or without a message if the arena is exhausted.
 */
tnm_expr *tnm_parser_read_expr(tnm_parser *parser);

/* Skips the operator `op` if it is the next token. Returns false if the next
 * token is another one. */
bool tnm_parser_accept_op(tnm_parser *parser, char op);

/* Checks that no token follows. Returns false after it has added a message
 * about the next token. */
bool tnm_parser_expect_end(const tnm_parser *parser);

/* Checks that a call has `n` arguments, the number that its function requires.
 * Returns false after it has added a message. */
bool tnm_check_args(tnm_diags *diags, const tnm_expr *call, uint32_t n);
/* Checks that a call has `n` arguments. Returns false after it has added a
 * message; *id is the id of that message, so that the caller can add help
 * lines. */
bool tnm_count_args(tnm_diags *diags, const tnm_expr *call, uint32_t n,
                    size_t *id);

/* Number of arguments that the node of a call or an operator stores. A call
 * with too many arguments in the manifest has more than this. */
uint32_t tnm_expr_count_args(const tnm_expr *expr);

/* Returns the position that covers the text from the first character of `from`
 * to the last character of `to`. */
tnm_pos tnm_pos_span(tnm_pos from, tnm_pos to);

/* -------------------------------------------------------------------- names */

/* Index of `name` in a list of the scope, or TN_NONE. */
uint32_t tnm_scope_input(const tnm_scope *scope, const char *name);
uint32_t tnm_scope_output(const tnm_scope *scope, const char *name);
uint32_t tnm_scope_param(const tnm_scope *scope, const char *name);

/* A list of valid names, for notes and suggestions in messages. The caller
 * zeroes it and sets `arena`. If memory runs out, the list is incomplete. */
typedef struct tnm_names {
  tn__arena *arena;
  const char **v;
  size_t n;
  size_t capacity;
} tnm_names;

void tnm_names_add(tnm_names *names, const char *const *more, size_t n);
/* Adds all names of a scope to the list. Gradients come first, as
 * `grad.OUTPUT`. */
void tnm_names_add_scope(tnm_names *names, const tnm_scope *scope);
/* Adds the line "= note: in scope here: data, a, b" to message `id`. Does
 * nothing if the list of names is empty. */
void tnm_names_add_note(const tnm_names *names, tnm_diags *diags, size_t id,
                        const char *what);
/* Adds the line "= help: did you mean `data`?" to message `id`. Returns false,
 * without a line, if no name is similar to `word`. */
bool tnm_names_add_help(const tnm_names *names, tnm_diags *diags, size_t id,
                        const char *word);
/* Adds the line "= help: `hard` is a value of `kind`; ... write `1`" to message
 * `id`. Returns false, without a line, if no enum parameter has the value
 * `word`. */
bool tnm_add_enum_help(const tnm_scope *scope, tnm_diags *diags, size_t id,
                       const char *word);

/* ---------------------------------------------------------- shape_compare.c */

/* Returns the TN_NODE_* of a binary operator of expressions. */
uint32_t tnm_find_binary_node(char op);
/* Makes the node of a comparison of a parameter of type float with another
 * parameter or a number. Returns false for all other expressions. */
bool tnm_compare_floats(const tnm_scope *scope, const tnm_expr *expr,
                        tn_node *out);

#endif /* TENON_MANIFEST_EXPR_H_ */
