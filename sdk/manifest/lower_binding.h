/* SPDX-License-Identifier: Apache-2.0
 * lower_binding.h: shared by the files that read `binding:`.
 *
 *   lower_binding.c  the keys, the kernel, keys that exclude each other
 *   binding_args.c   one argument or result: its type and its value
 *   binding_expression.c
 *                    an argument that is an expression
 *   binding_map.c    `map`: a call for each element
 *   binding_range.c  the possible values of an integer expression
 */
#ifndef TENON_MANIFEST_LOWER_BINDING_H_
#define TENON_MANIFEST_LOWER_BINDING_H_

#include "binding.h"
#include "front.h"

/* The state of reading one mapping `binding:`. */
typedef struct tnm_bind {
  tnm_lower *lower;
  tnm_tree *map;
  tnm_binding *out;
  tnm_program program; /* integer expressions of the arguments */
  tnm_bound_arg *dims; /* sources of the dimension variables */
  bool *passed[3];     /* marks of the operands that the function gets; index:
                          TN_OPERAND_* */
  bool mapped;         /* at least one argument is an element of the input of
                          `map` */
  bool has_invalid;    /* an argument or result is invalid, and was reported */
} tnm_bind;

/* A C type, read from the key `c` of an argument or result. */
typedef struct tnm_c_type {
  uint32_t c;       /* TNM_C_* */
  uint32_t element; /* C type that a pointer points to */
  bool constant;    /* a pointer to const */
} tnm_c_type;

/* One entry of `args`. */
typedef struct tnm_bind_entry {
  const tnm_tree *c;
  const tnm_tree *pass;
  tnm_c_type type;
} tnm_bind_entry;

/* Reads the C type in the text of `node`, for example "const float*". Returns
 * false after a message. */
bool tnm_read_c_type(tnm_diags *diags, const tnm_tree *node, tnm_c_type *out);

/* Reads one entry of `args`. False after a message. */
bool tnm_read_bound_arg(tnm_bind *bind, tnm_tree *node, tnm_bound_arg *out);

/* Reads an entry of `args` with an expression: its `pass` is no operand, number
 * or parameter. Returns false after a message. */
bool tnm_read_bound_expression(tnm_bind *bind, const tnm_bind_entry *at,
                               tnm_bound_arg *out);

/* Adds a message about the keys `pass` or `c` of an argument. Returns the id of
 * the message. */
size_t tnm_report_mismatch(tnm_bind *bind, tnm_pos pos, const char *under,
                           const char *what);
/* Tests for a pointer to constant integers. */
bool tnm_is_integer_list(const tnm_c_type *type);

/* Reads `map: x`; does nothing without it. */
void tnm_read_map(tnm_bind *bind);
/* Tests whether the shape rules of the operator give operand `index` of `list`
 * the same shape as the input that `map:` names. */
bool tnm_has_map_shape(const tnm_bind *bind, uint32_t list, uint32_t index);
/* Checks a binding with `map`: the function must get an element of the map's
 * input, and each call must have a place for its result. */
void tnm_check_map(tnm_bind *bind);

/* Tests whether the C type matches every type that the operand may have.
 * Returns false after a message at `pos`. */
bool tnm_match_element(tnm_bind *bind, const tn_arg *arg,
                       const tnm_c_type *type, tnm_pos pos);

/* Returns the range of values of a node, from its operation and the limits of
 * parameters. Sizes count as at most 2^31 - 1; larger ones are checked in each
 * call. */
tnm_range tnm_node_range(const tnm_bind *bind, const tn_node *const *nodes,
                         uint32_t node);

#endif /* TENON_MANIFEST_LOWER_BINDING_H_ */
