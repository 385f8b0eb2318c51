/* SPDX-License-Identifier: Apache-2.0
 * check.h: declarations shared by the files that check tables (check*.c).
 */
#ifndef TENON_CHECK_H_
#define TENON_CHECK_H_

#include "tables.h"

enum {
  TNM_MOST_FIELDS = 1000, /* parameters of an operator, options of a kernel */
  TNM_MOST_OPERANDS = 1000,
  TNM_MOST_NODES = 4096, /* nodes of one shape program */
  TNM_MOST_PARTS = 8192  /* nodes of one expression; a node counts as many times
                            as the expression uses it */
};

/* Fields of a params or options struct. */
typedef struct tnm_fields {
  const tn_field *const *v;
  uint32_t n;
  uint32_t size; /* bytes of the struct with all fields */
} tnm_fields;

/* Checks that `name` is an identifier. If `dots` is true, the name may consist
 * of several parts that are separated by dots; every part except the first may
 * be a number. */
tn_code tnm_check_name(const char *what, const char *name, bool dots);
/* Checks that `index` is below n, or TN_NONE. */
tn_code tnm_check_limit(const char *what, uint32_t index, uint32_t n);
/* Checks parameters or options. If `defaults` is true, their default values are
 * checked too. The fields of a tn_target have names, types and offsets only. */
tn_code tnm_check_fields(const char *what, const tnm_fields *all,
                         bool defaults);
/* Checks a shape program; `op` is NULL if the operator is unknown. */
tn_code tnm_check_nodes(const tn_op *op, const tn_node *nodes, uint32_t n);
/* Checks everything of an operator except its replacement. If `has_functions`
 * is true, the tables are a descriptor in memory, so required functions must be
 * present. */
tn_code tnm_check_op(const tn_op *op, bool has_functions);

#endif /* TENON_CHECK_H_ */
