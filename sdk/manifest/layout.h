/* SPDX-License-Identifier: Apache-2.0
 * layout.h: the canonical form of a manifest. order.c knows the order of keys,
 * layout.c writes blocks, layout_value.c single values and values in brackets.
 * For these three only.
 */
#ifndef TENON_MANIFEST_LAYOUT_H_
#define TENON_MANIFEST_LAYOUT_H_

#include "syntax.h"

/* Maximal columns of a line, blanks of one level of indentation, and blanks
 * between a value and a comment. A line may be longer, because scalars and
 * comments are never broken. */
enum { TNM_MAX_LINE = 120, TNM_INDENT = 2, TNM_GAP = 2 };

/* The state of a writer. */
typedef struct tnm_layout {
  tn__arena *arena;
  const char *text; /* the original manifest */
  size_t n;
  tn__buf *out;
  bool
      has_kept_lines; /* the output ends with a `|+` text and its empty lines; a
                         further empty line would become a part of the text */
} tnm_layout;

/* ------------------------------------------------------------------ order.c */

/* Returns the schema of the value of `key`, or of the items if the value is a
 * list. Returns NULL if the value is no mapping, or if its keys are names. */
const tnm_schema *tnm_schema_of_value(const tnm_schema *schema,
                                      const char *key);
/* The schema of a whole document. */
const tnm_schema *tnm_schema_document(const tnm_syntax *root);
/* Returns the children of a mapping in the order of the schema's keys. Unknown
 * keys keep their order among each other. Returns NULL if memory ran out. */
tnm_syntax **tnm_order_keys(tn__arena *arena, const tnm_schema *schema,
                            const tnm_syntax *map);

/* ----------------------------------------------------------- layout_value.c */

/* Column of the next character, from 0. */
size_t tnm_current_column(const tnm_layout *l);
/* Copies bytes of the manifest. */
void tnm_copy_bytes(tnm_layout *l, size_t begin, size_t end);
void tnm_new_line(tnm_layout *l, size_t indent);
/* Writes the comments that follow a value on its line. They keep their column
 * if at least `gap` blanks remain after the value. */
void tnm_write_trailing(tnm_layout *l, const tnm_comment *comments, size_t gap);
/* Tests whether a list or mapping in brackets must become a block, because a
 * line would become too long. `column` is the column of the opening bracket. */
bool tnm_needs_block(const tnm_layout *l, const tnm_syntax *node,
                     const tnm_schema *schema, size_t column);
/* Writes a scalar, or a list or mapping in brackets. `indent` is the
 * indentation of the entry that has this value. */
void tnm_write_value(tnm_layout *l, const tnm_syntax *node, size_t indent,
                     const tnm_schema *schema);

#endif /* TENON_MANIFEST_LAYOUT_H_ */
