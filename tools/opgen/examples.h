/* SPDX-License-Identifier: Apache-2.0
 * examples.h: how the examples of a manifest are read: by examples.c, which
 * finds a wrong shape, bindings.c, which says where the right one comes from,
 * and trial.c, which computes them.
 */
#ifndef OPGEN_EXAMPLES_H_
#define OPGEN_EXAMPLES_H_

#include "manifest.h"

/* One example with its parsed parameters and inferred shapes. */
typedef struct shape_case {
  const tn_op *op;
  const tnm_example *example;
  const tn_params *params;
  const tn_signature *io;
} shape_case;

/* "N=1, S=(3,3)": what occurs in the pattern of `arg`; nothing if it has none.
 */
void bindings_print(const shape_case *c, const tn_arg *arg, tn__buf *out);

/* The type that examples compute an operand in: f32 if it may be that; with a
 * kernel, of the types that this takes. */
tn_dtype example_dtype(const tn_op *op, const tn_arg *arg,
                       const tn_kernel *kernel);

/* Number `skip` among the items of that name, or NULL. */
const tnm_data *example_find(const tnm_example_item *items, size_t n,
                             const char *name, uint32_t skip);

/* Operand `i` of a list whose last entry may stand for many, and its number
 * among them. */
const tn_arg *example_arg(const tn_arg *const *args, uint32_t n, uint32_t i,
                          uint32_t *skip);

/* How many operands a list has in an example. */
uint32_t example_length(const tnm_example *example, const tn_arg *const *args,
                        uint32_t n);

#endif /* OPGEN_EXAMPLES_H_ */
