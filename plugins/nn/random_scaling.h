/* SPDX-License-Identifier: Apache-2.0
 * random_scaling.h: operators that multiply elements by factors from random
 * words. Input 0 gives output 0; output 1, if requested, gets the factors.
 */
#ifndef NN_RANDOM_SCALING_H_
#define NN_RANDOM_SCALING_H_

#include "axis.h"

/* Arguments of nn_random_scaling_run. The loop reads random words in in[0] and
 * elements in in[1]; it writes their products to out and the factors to in[2].
 * For f16 and bf16 the products are computed again from rounded factors.
 * Element i of a call uses word i % 4 of Philox block i / 4. */
typedef struct nn_random_scaling {
  const tn_frame *call;
  const nn_loops *loops;
  const void *params; /* params of the loop */
  int draws; /* the call draws random words; 0: all random words are 0 */
} nn_random_scaling;

/* Computes a call: output 0 is input 0 times the factors, output 1 gets the
 * factors. [worker] */
int32_t nn_random_scaling_run(const nn_random_scaling *masked);

#endif /* NN_RANDOM_SCALING_H_ */
