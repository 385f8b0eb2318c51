/* SPDX-License-Identifier: Apache-2.0
 * examples.h: reads the examples of a manifest, for examples.c, which finds a
 * wrong shape, bindings.c, which explains the right one, and trial.c, which
 * computes them.
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

/* Prints "N=1, S=(3,3)": the variables in the pattern of `arg`; nothing if it
 * has none. */
void bindings_print(const shape_case *c, const tn_arg *arg, tn__buf *out);

/* The type in which examples compute an operand: f32 if it is allowed; with a
 * kernel, one of the types that it accepts. */
tn_dtype example_dtype(const tn_op *op, const tn_arg *arg,
                       const tn_kernel *kernel);

/* Finds number `skip` among the items of that name, or NULL. */
const tnm_data *example_find(const tnm_example_item *items, size_t n,
                             const char *name, uint32_t skip);

/* Operand `i` of a list with a variadic entry at its end, and its number in
 * that entry. */
const tn_arg *example_arg(const tn_arg *const *args, uint32_t n, uint32_t i,
                          uint32_t *skip);

/* Number of operands of a list in an example. */
uint32_t example_length(const tnm_example *example, const tn_arg *const *args,
                        uint32_t n);

#endif /* OPGEN_EXAMPLES_H_ */
