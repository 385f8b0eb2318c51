/* SPDX-License-Identifier: Apache-2.0
 * check.h: shared by the files that check tables.
 */
#ifndef TENON_CHECK_H_
#define TENON_CHECK_H_

#include "tables.h"

enum {
  TNM_MOST_FIELDS = 1000, /* parameters of an operator, options of a kernel */
  TNM_MOST_OPERANDS = 1000,
  TNM_MOST_NODES = 4096, /* of one shape program */
  TNM_MOST_PARTS = 8192  /* of one expression, with each use counted */
};

/* Fields of a params or options struct. */
typedef struct tnm_fields {
  const tn_field *const *v;
  uint32_t n;
  uint32_t size; /* of their struct */
} tnm_fields;

/* `name` is an identifier; with `dots`, several with dots between, of which
 * those behind the first may be numbers. */
tn_code tnm_check_name(const char *what, const char *name, bool dots);
/* `index` is below n, or TN_NONE. */
tn_code tnm_check_limit(const char *what, uint32_t index, uint32_t n);
/* `defaults`: a target repeats only names, types and places. */
tn_code tnm_check_fields(const char *what, const tnm_fields *all,
                         bool defaults);
/* A shape program; `op` is NULL if the operator is not known here. */
tn_code tnm_check_nodes(const tn_op *op, const tn_node *nodes, uint32_t n);
/* Everything of an operator but what it replaces. */
tn_code tnm_check_op(const tn_op *op, bool code);

#endif /* TENON_CHECK_H_ */
