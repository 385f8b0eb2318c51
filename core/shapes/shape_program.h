/* SPDX-License-Identifier: Apache-2.0
 * shape_program.h: evaluates one element of a shape program, for the files that
 * infer shapes. tn__expr_eval of registry.h evaluates whole values.
 */
#ifndef TENON_SHAPE_PROGRAM_H_
#define TENON_SHAPE_PROGRAM_H_

#include "shapes.h"
#include "tables.h"

/* In tn__ivalue.n and in lengths: a list of unknown length. */
#define TN__UNKNOWN_LENGTH (-2)
/* In tn__ivalue.v of a pack with a known length: an unknown element. No
 * arithmetic yields this number. */
#define TN__UNKNOWN_ELEMENT INT64_MIN

typedef struct tn__element {
  int64_t v;
  bool known;
} tn__element;

/* TN__SCALAR, a length, or TN__UNKNOWN_LENGTH. */
tn_code tn__expr_length(const tn__scope *scope, uint32_t node, int32_t *out);

/* Element k of a list; an integer is the same for every k. */
tn_code tn__expr_at(const tn__scope *scope, uint32_t node, int32_t k,
                    tn__element *out);

/* Whether two nodes of one program are equal expressions. */
bool tn__is_same_node(const tn_node *nodes, uint32_t a, uint32_t b);

#endif /* TENON_SHAPE_PROGRAM_H_ */
