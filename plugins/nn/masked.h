/* SPDX-License-Identifier: Apache-2.0
 * masked.h: operators whose elements are multiplied by factors that random
 * words decide: input 0 gives output 0, and output 1, if it is wanted, the
 * factors.
 */
#ifndef NN_MASKED_H_
#define NN_MASKED_H_

#include "axis.h"

/* The loop makes factors of words and elements: in[0] are the words, in[1] the
 * elements, out their products, in[2], which it writes, the factors. Of f16 and
 * bf16 the products are made again of factors as they are kept. Element i of a
 * call has word i % 4 of Philox block i / 4. */
typedef struct nn_masked {
  const tn_frame *call;
  const nn_loops *loops;
  const void *params; /* of the loop */
  int draws;          /* 0: words are 0 */
} nn_masked;

/* [worker] */
int32_t nn_masked_run(const nn_masked *masked);

#endif /* NN_MASKED_H_ */
