/* SPDX-License-Identifier: Apache-2.0
 * lower_binding.h: between the files that read `binding:`.
 *
 * files: lower_binding.c  the keys, the kernel, what excludes what
 *        binding_args.c   one argument or result: its type, what it gets
 *        binding_range.c  which values an integer expression may have
 */
#ifndef TENON_MANIFEST_LOWER_BINDING_H_
#define TENON_MANIFEST_LOWER_BINDING_H_

#include "binding.h"
#include "front.h"

/* One `binding:`. */
typedef struct tnm_bind {
  tnm_lower *lower;
  tnm_tree *map;
  tnm_binding *out;
  tnm_program program; /* integer expressions of the arguments */
  tnm_bound_arg *dims; /* sources of the dimension variables */
  bool *passed[3];     /* operands that the function gets, by TN_OPERAND_* */
  bool broken;         /* an argument or result was a mistake */
} tnm_bind;

/* A type as written. */
typedef struct tnm_c_type {
  uint32_t c;       /* TNM_C_* */
  uint32_t element; /* of a pointer */
  bool constant;    /* a pointer to const */
} tnm_c_type;

/* False after a message. */
bool tnm_read_c_type(tnm_diags *diags, const tnm_tree *node, tnm_c_type *out);

/* One entry of `args`. False after a message. */
bool tnm_read_bound_arg(tnm_bind *bind, tnm_tree *node, tnm_bound_arg *out);

/* Whether every type that the operand may have is the C type; false after a
 * message at `pos`. */
bool tnm_match_element(tnm_bind *bind, const tn_arg *arg,
                       const tnm_c_type *type, tnm_pos pos);

/* The values that a node may have, as far as its rules and the ranges of
 * parameters tell. Sizes count as numbers up to 2^31 - 1: what is longer is
 * found when it is called. */
tnm_range tnm_node_range(const tnm_bind *bind, const tn_node *const *nodes,
                         uint32_t node);

#endif /* TENON_MANIFEST_LOWER_BINDING_H_ */
