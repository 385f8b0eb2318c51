/* SPDX-License-Identifier: Apache-2.0
 * examples.h: between examples.c, which finds a wrong shape, and bindings.c,
 * which says where the right one comes from.
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

#endif /* OPGEN_EXAMPLES_H_ */
