/* SPDX-License-Identifier: Apache-2.0
 * layout.h: the canonical form of a manifest. order.c knows the order of keys,
 * layout.c writes blocks, layout_value.c single values and values in brackets.
 * For these three only.
 */
#ifndef TENON_MANIFEST_LAYOUT_H_
#define TENON_MANIFEST_LAYOUT_H_

#include "syntax.h"

/* Columns of a line, blanks per level, and blanks between a value and a
 * comment. Scalars and comments are never broken, so a line may be longer. */
enum { TNM_MAX_LINE = 120, TNM_INDENT = 2, TNM_GAP = 2 };

/* The state of a writer. */
typedef struct tnm_layout {
  tn__arena *arena;
  const char *text; /* the original manifest */
  size_t n;
  tn__buf *out;
  bool kept; /* a `|+` text came last: empty lines would belong to it */
} tnm_layout;

/* ------------------------------------------------------------------ order.c */

/* The schema of a key's value, or of the items of its list; NULL where keys are
 * names. */
const tnm_schema *tnm_schema_of_value(const tnm_schema *schema,
                                      const char *key);
/* The schema of a whole document. */
const tnm_schema *tnm_schema_document(const tnm_syntax *root);
/* The children of a mapping in the order of the schema; unknown ones keep their
 * relative order. NULL if memory ran out. */
tnm_syntax **tnm_order_keys(tn__arena *arena, const tnm_schema *schema,
                            const tnm_syntax *map);

/* ----------------------------------------------------------- layout_value.c */

/* Column of the next character, from 0. */
size_t tnm_current_column(const tnm_layout *l);
/* Copies bytes of the manifest. */
void tnm_copy_bytes(tnm_layout *l, size_t begin, size_t end);
void tnm_new_line(tnm_layout *l, size_t indent);
/* Writes comments after a value: in their column, at least `gap` blanks
 * away. */
void tnm_write_trailing(tnm_layout *l, const tnm_comment *comments, size_t gap);
/* Tests whether brackets that begin in a column must become a block to keep
 * lines short. */
bool tnm_needs_block(const tnm_layout *l, const tnm_syntax *node,
                     const tnm_schema *schema, size_t column);
/* Writes a scalar or the content of brackets. `indent` belongs to its entry. */
void tnm_write_value(tnm_layout *l, const tnm_syntax *node, size_t indent,
                     const tnm_schema *schema);

#endif /* TENON_MANIFEST_LAYOUT_H_ */
