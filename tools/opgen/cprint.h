/* SPDX-License-Identifier: Apache-2.0
 * cprint.h: common parts of the printer of C. Only cprint.c and ctext.c use it:
 * no other file knows columns.
 */
#ifndef OPGEN_CPRINT_H_
#define OPGEN_CPRINT_H_

#include "cfile.h"

#define C_PAGE 80   /* columns */
#define C_FURTHER 4 /* columns of a further line before those of the first */

/* Lay out one part at a column (ctext.c). */
void c_print_literal(tn__buf *out, size_t column, const char *field,
                     const char *text);
void c_print_comment(tn__buf *out, size_t column, const char *text,
                     const char *last);
void c_print_section(tn__buf *out, const char *title);
void c_print_bytes(tn__buf *out, size_t column, const char *bytes, size_t n);

/* Columns of the text up to its end or the end of its line, in code points. */
size_t c_width(const char *text);
/* Adds n blanks. */
void c_print_blanks(tn__buf *out, size_t n);

#endif /* OPGEN_CPRINT_H_ */
