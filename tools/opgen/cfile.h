/* SPDX-License-Identifier: Apache-2.0
 * cfile.h: writes C source text in the house style, so that clang-format
 * changes nothing. It knows C, but nothing of operators.
 */
#ifndef OPGEN_CFILE_H_
#define OPGEN_CFILE_H_

#include "base.h"

#define C_PAGE 80 /* columns */

/* Receives each declaration of a file: "static const tn_arg", "o_input_x", and
 * whether an equal declaration may repeat it. */
typedef struct c_listener {
  void (*tell)(void *self, const char *type, const char *name, bool again);
  void *self;
} c_listener;

/* A file in memory. `indent` is that of the items of the open initialiser;
 * `list` is the offset of the items of an open list, 0 without one. */
typedef struct c_file {
  tn__buf text;
  size_t indent;
  size_t list;
  const c_listener *listener; /* or NULL */
  bool has_long;              /* a literal is longer than C guarantees */
} c_file;

/* One name of a set of flags. */
typedef struct c_bit {
  uint64_t bit;
  const char *name;
} c_bit;

void c_init(c_file *file, const tn__env *env);
void c_deinit(c_file *file);

/* Ends a file. Some compilers warn of literals above the guaranteed length; a
 * pragma after the first comment turns that off. */
void c_finish(c_file *file);

/* Adds any text unchanged. */
void c_add(c_file *file, const char *format, ...) TN_PRINTF(2, 3);

/* Adds a comment on lines of its own, wrapped at blanks. An end of comment in
 * the text is made harmless. */
void c_comment(c_file *file, size_t indent, const char *text);

/* Reports a name to the listener after its declaration was added as plain text.
 * The functions below do so themselves. */
void c_declare(c_file *file, const char *type, const char *name, bool again);

/* Adds a rule across the page with a title at the end, between empty lines. */
void c_section(c_file *file, const char *title);

/* Ends the text in exactly one empty line, or in none. */
void c_blank_line(c_file *file);
void c_end(c_file *file);

/* Adds "type declarator = {": items follow, then c_close(). The declarator
 * begins with `*` if the type is a pointer. */
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
void c_u64(c_file *file, const char *field, uint64_t value);
void c_f64(c_file *file, const char *field, double value);
void c_string(c_file *file, const char *field, const char *text);

/* Adds ".field = offsetof(type, member),". */
void c_offsetof(c_file *file, const char *field, const char *type,
                const char *member);

/* Adds names of the bits with `|` between; an item if field is NULL. The table
 * ends with bit 0 and the name of the empty set; NULL: the field is omitted
 * then. */
void c_bits(c_file *file, const char *field, const c_bit *bits, uint64_t set);

/* "result name(parameters)" + end, broken in the house style; `result` ends in
 * a blank or an asterisk. */
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

/* Columns of the text up to its end or the end of its line, in code points. */
size_t c_width(const char *text);

#endif /* OPGEN_CFILE_H_ */
