/* SPDX-License-Identifier: Apache-2.0
 * cfile.h: a C source file as a list of parts: lines of code, texts, comments.
 * Emitters add parts and say nothing of their place on the page; c_print() lays
 * out all of them in the house style, so that clang-format changes nothing.
 *
 *   cfile.c   adds parts; it knows C, but nothing of operators
 *   cprint.c  lays out a file: blocks, blank lines, long lines
 *   ctext.c   lays out literals, comments, and bytes
 */
#ifndef OPGEN_CFILE_H_
#define OPGEN_CFILE_H_

#include "base.h"

/* An expression of at most so many characters fits on a line in any statement
 * of a function. A longer one has to become several statements: the printer
 * breaks no expressions. */
#define C_LONGEST_EXPRESSION 56

/* Receives each declaration of a file: "static const tn_arg", "o_input_x", and
 * whether an equal declaration may repeat it. */
typedef struct c_listener {
  void (*tell)(void *self, const char *type, const char *name, bool again);
  void *self;
} c_listener;

/* A file. `words` contains the texts of the parts, `parts` their list. */
typedef struct c_file {
  tn__buf words;
  tn__buf parts;              /* of c_part */
  size_t line;                /* offset of the open line in `words` */
  const c_listener *listener; /* or NULL */
  bool has_long;              /* a literal is longer than C guarantees */
  bool failed;                /* memory ran out */
} c_file;

/* One name of a set of flags. */
typedef struct c_bit {
  uint64_t bit;
  const char *name;
} c_bit;

void c_init(c_file *file, const tn__env *env);
void c_deinit(c_file *file);

/* Adds lines of code without indentation, each as long as it likes and ended by
 * "\n". An empty one is a blank line; two in a row, or one at an end of the
 * file, are the same as one. A `{` at the end of a line opens a block or an
 * initialiser, a `}` at the beginning of one closes it. */
void c_add(c_file *file, const char *format, ...) TN_PRINTF(2, 3);

/* Adds a comment. An end of comment in the text is made harmless. */
void c_comment(c_file *file, const char *text);
/* Does the same; `last` begins a line of its own. */
void c_comment_lines(c_file *file, const char *text, const char *last);

/* Adds a rule across the page with a title at the end, between blank lines. */
void c_section(c_file *file, const char *title);

/* Adds bytes as items of an initialiser, with their characters beside them. */
void c_bytes(c_file *file, const void *bytes, size_t n);

/* Reports a name to the listener after its declaration was added by c_add().
 * The functions below do so themselves. */
void c_declare(c_file *file, const char *type, const char *name, bool again);

/* Adds "type declarator = {": items follow, then c_close(), which adds a blank
 * line too. The declarator begins with `*` if the type is a pointer. */
void c_open(c_file *file, const char *type, const char *declarator);
void c_close(c_file *file);

/* Does the same for an array, "type declarator[] = {". Items of one line each;
 * five or more are numbered. */
void c_open_list(c_file *file, const char *type, const char *declarator);

/* Adds "before text," as one item. */
void c_item(c_file *file, const char *before, const char *text);
void c_item_string(c_file *file, const char *text);

/* Adds ".field = value," to the open initialiser. Zero and NULL are omitted. */
void c_value(c_file *file, const char *field, const char *value);
void c_u32(c_file *file, const char *field, uint32_t value);
/* Adds an index; 0 is a normal value, TN_NONE has its name. */
void c_index(c_file *file, const char *field, uint32_t value);
void c_i64(c_file *file, const char *field, int64_t value);
void c_f64(c_file *file, const char *field, double value);
void c_string(c_file *file, const char *field, const char *text);

/* Adds ".field = offsetof(type, member),". */
void c_offsetof(c_file *file, const char *field, const char *type,
                const char *member);

/* Adds names of the bits with `|` between; an item if field is NULL. The table
 * ends with bit 0 and the name of the empty set; NULL: the field is omitted
 * then. */
void c_bits(c_file *file, const char *field, const c_bit *bits, uint64_t set);

/* "result name(parameters)" + end; `result` ends in a blank or an asterisk. */
typedef struct c_function {
  const char *result;
  const char *name;
  const char *parameters;
  const char *end; /* ";" or " {" */
} c_function;
void c_function_head(c_file *file, const c_function *function);

/* Asserts the offset of a member, or the size of the type if it is NULL. */
void c_assert_layout(c_file *file, const char *type, const char *member,
                     uint32_t value);

/* ----------------------------------------------------------------- printing */

/* Adds the file as text. Some compilers warn of literals above the guaranteed
 * length; a pragma after the first comment turns that off. */
void c_print(const c_file *file, tn__buf *out);

typedef enum c_kind {
  C_LINE,    /* a line of code */
  C_LIST,    /* a line that opens an array of items of one line each */
  C_LITERAL, /* the name of a field or "", and the text */
  C_COMMENT, /* the text, and the last line or "" */
  C_SECTION,
  C_BYTES
} c_kind;

typedef struct c_part {
  c_kind kind;
  size_t at; /* in `words`: one or two texts with a NUL after each */
  size_t n;  /* bytes, of C_BYTES */
} c_part;

#endif /* OPGEN_CFILE_H_ */
