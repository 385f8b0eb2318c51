/* SPDX-License-Identifier: Apache-2.0
 * cfile.h: C source text that is written in the house style at once, so that
 * clang-format has nothing to change. Knows C, but nothing of operators.
 */
#ifndef OPGEN_CFILE_H_
#define OPGEN_CFILE_H_

#include "base.h"

#define C_PAGE 80 /* columns */

/* Is told of what a file declares: "static const tn_arg", "o_input_x", and
 * whether it may be declared again if it is the same. */
typedef struct c_listener {
  void (*tell)(void *self, const char *type, const char *name, bool again);
  void *self;
} c_listener;

/* A file in memory. `indent` is that of the items of the open initialiser;
 * `list` is where the items of an open list begin, 0 if it is none. */
typedef struct c_file {
  tn__buf text;
  size_t indent;
  size_t list;
  const c_listener *listener; /* or NULL */
  bool has_long;              /* a literal is longer than C promises */
} c_file;

/* One name of a set of flags. */
typedef struct c_bit {
  uint64_t bit;
  const char *name;
} c_bit;

void c_init(c_file *file, const tn__env *env);
void c_deinit(c_file *file);

/* Ends a file: compilers that warn of literals that are longer than every
 * compiler must take are told, behind the first comment, that such are meant.
 */
void c_finish(c_file *file);

/* Any text, as it is. */
void c_add(c_file *file, const char *format, ...) TN_PRINTF(2, 3);

/* A comment of its own line or lines, wrapped at blanks. What would end the
 * comment is defused. */
void c_comment(c_file *file, size_t indent, const char *text);

/* Tells the listener of a name whose declaration was added as it is. The
 * functions below do so themselves. */
void c_declare(c_file *file, const char *type, const char *name, bool again);

/* A rule across the page that ends in a title, between empty lines. */
void c_section(c_file *file, const char *title);

/* Ends the text in exactly one empty line, or in none. */
void c_blank_line(c_file *file);
void c_end(c_file *file);

/* "type declarator = {": items follow, then c_close(). The declarator begins
 * with `*` if the type is a pointer. */
void c_open(c_file *file, const char *type, const char *declarator);
void c_close(c_file *file);

/* The same for an array, "type declarator[] = {". Items of one line each; from
 * five on they are numbered. */
void c_open_list(c_file *file, const char *type, const char *declarator);

/* "before text," as one item. */
void c_item(c_file *file, const char *before, const char *text);
void c_item_string(c_file *file, const char *text);

/* ".field = value," of the open initialiser. What is zero or NULL is left out.
 */
void c_value(c_file *file, const char *field, const char *value);
void c_u32(c_file *file, const char *field, uint32_t value);
/* An index, of which 0 is one like others; TN_NONE by its name. */
void c_index(c_file *file, const char *field, uint32_t value);
void c_i64(c_file *file, const char *field, int64_t value);
void c_u64(c_file *file, const char *field, uint64_t value);
void c_f64(c_file *file, const char *field, double value);
void c_string(c_file *file, const char *field, const char *text);

/* ".field = offsetof(type, member)," */
void c_offsetof(c_file *file, const char *field, const char *type,
                const char *member);

/* Names of the bits with `|` between; an item if field is NULL. The table ends
 * with bit 0, whose name stands for the empty set; NULL: it is left out. */
void c_bits(c_file *file, const char *field, const c_bit *bits, uint64_t set);

/* "result name(parameters)" + end, broken where the house style breaks it;
 * `result` ends in a blank or an asterisk. */
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

/* Columns of the text up to its end or the end of its line: code points. */
size_t c_width(const char *text);

#endif /* OPGEN_CFILE_H_ */
