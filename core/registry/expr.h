/* SPDX-License-Identifier: Apache-2.0
 * expr.h: shape programs, one element at a time, for the files that infer
 * shapes. Whole values are tn__expr_eval of registry.h.
 */
#ifndef TENON_EXPR_H_
#define TENON_EXPR_H_

#include "registry.h"
#include "tables.h"

/* In tn__ivalue.n and in lengths: a list of which not even that is known. */
#define TN__UNKNOWN_LENGTH (-2)
/* In tn__ivalue.v of a pack whose length is known: this element is not. No
 * arithmetic yields it. */
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

/* Whether two nodes of one program say the same. */
bool tn__same_node(const tn_node *nodes, uint32_t a, uint32_t b);

/* a / b rounded towards minus infinity; b is not 0. */
int64_t tn__floor_div(int64_t a, int64_t b);

#endif /* TENON_EXPR_H_ */
