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
  const char *text; /* inside the source; n bytes, not terminated */
  size_t n;
  tnm_pos pos;
} tnm_token;

typedef struct tnm_lexer {
  const char *at;
  tnm_pos pos; /* of *at; its length is undefined */
} tnm_lexer;

/* Reads the next token. At the end of the text each call returns
 * TNM_TOKEN_END. */
tnm_token tnm_read_token(tnm_lexer *lexer);

/* ------------------------------------------------------------------ grammar */

/* The kind of a name before it is resolved: `text` is the name. TNM_GRAD keeps
 * the name of the output in `text`, TNM_CALL the name of the function. */
enum { TNM_NAME = 0 };

typedef struct tnm_parser {
  const tnm_source *source;
  tnm_lexer lexer;
  tnm_token token; /* the next token */
  uint32_t n_nodes;
  uint32_t depth;
} tnm_parser;

void tnm_parser_init(tnm_parser *parser, const tnm_source *source);

/* Parses the longest expression. NULL after a message, or without one if the
 * arena is exhausted. */
tnm_expr *tnm_parser_read_expr(tnm_parser *parser);

/* Skips the sign `op` if it is the next token; false if it is not. */
bool tnm_parser_accept_op(tnm_parser *parser, char op);

/* True at the end of the text, otherwise false after a message. */
bool tnm_parser_expect_end(const tnm_parser *parser);

/* Checks that a call has the `n` arguments of its function; false after a
 * message. */
bool tnm_check_args(tnm_diags *diags, const tnm_expr *call, uint32_t n);
/* Does the same; *id is the id of the message, for help lines. */
bool tnm_count_args(tnm_diags *diags, const tnm_expr *call, uint32_t n,
                    size_t *id);

/* Number of arguments that a node keeps; a wrong call may have more. */
uint32_t tnm_expr_count_args(const tnm_expr *expr);

/* The range from the first character of `from` to the last one of `to`. */
tnm_pos tnm_pos_span(tnm_pos from, tnm_pos to);

/* -------------------------------------------------------------------- names */

/* Index of `name` in a list of the scope, or TN_NONE. */
uint32_t tnm_scope_input(const tnm_scope *scope, const char *name);
uint32_t tnm_scope_output(const tnm_scope *scope, const char *name);
uint32_t tnm_scope_param(const tnm_scope *scope, const char *name);

/* The valid names, for notes and suggestions. Zero-initialised except for
 * `arena`; names that do not fit in memory are missing. */
typedef struct tnm_names {
  tn__arena *arena;
  const char **v;
  size_t n;
  size_t capacity;
} tnm_names;

void tnm_names_add(tnm_names *names, const char *const *more, size_t n);
/* Adds all names of a scope; gradients first, as `grad.out`. */
void tnm_names_add_scope(tnm_names *names, const tnm_scope *scope);
/* Adds "= note: in scope here: data, a, b"; nothing if there are no names. */
void tnm_names_add_note(const tnm_names *names, tnm_diags *diags, size_t id,
                        const char *what);
/* Adds "= help: did you mean `data`?"; false without help if none is near. */
bool tnm_names_add_help(const tnm_names *names, tnm_diags *diags, size_t id,
                        const char *word);
/* Adds "= help: `hard` is a value of `kind`; ... write `1`"; false if no
 * parameter has that value. */
bool tnm_add_enum_help(const tnm_scope *scope, tnm_diags *diags, size_t id,
                       const char *word);

#endif /* TENON_MANIFEST_EXPR_H_ */
