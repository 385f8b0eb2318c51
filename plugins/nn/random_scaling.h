/* SPDX-License-Identifier: Apache-2.0
 * random_scaling.h: operators that multiply elements by factors from random
 * words. Input 0 gives output 0; output 1, if requested, gets the factors.
 */
#ifndef NN_RANDOM_SCALING_H_
#define NN_RANDOM_SCALING_H_

#include "axis.h"

/* The loop computes factors from words and elements: in[0] are the words, in[1]
 * the elements, out their products, in[2], which it writes, the factors. For
 * f16 and bf16 the products are computed again from the rounded factors.
 * Element i of a call uses word i % 4 of Philox block i / 4. */
typedef struct nn_random_scaling {
  const tn_frame *call;
  const nn_loops *loops;
  const void *params; /* of the loop */
  int draws;          /* 0: words are 0 */
} nn_random_scaling;

/* [worker] */
int32_t nn_random_scaling_run(const nn_random_scaling *masked);

#endif /* NN_RANDOM_SCALING_H_ */
