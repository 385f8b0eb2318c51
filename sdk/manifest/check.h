/* SPDX-License-Identifier: Apache-2.0
 * check.h: what the two files that check tables share.
 */
#ifndef TENON_CHECK_H_
#define TENON_CHECK_H_

#include "tables.h"

/* Fields of a params or options struct. */
typedef struct tnm_fields {
  const tn_field *const *v;
  uint32_t n;
  uint32_t size; /* of the struct that they stand in */
} tnm_fields;

/* `name` is an identifier; with `dots`, several with dots between, of which
 * those behind the first may be numbers. */
tn_code tnm_check_name(const char *what, const char *name, bool dots);
/* `index` is below n, or TN_NONE. */
tn_code tnm_check_limit(const char *what, uint32_t index, uint32_t n);
/* `defaults`: a target repeats only names, types and places. */
tn_code tnm_check_fields(const char *what, const tnm_fields *all,
                         bool defaults);
tn_code tnm_check_nodes(const tn_op *op, const tn_node *nodes, uint32_t n);
/* Everything of an operator but what it replaces. */
tn_code tnm_check_op(const tn_op *op, bool code);

#endif /* TENON_CHECK_H_ */
