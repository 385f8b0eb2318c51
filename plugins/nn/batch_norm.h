/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.h: what batch_norm.c offers to the operator that does more.
 */
#ifndef NN_BATCH_NORM_H_
#define NN_BATCH_NORM_H_

#include "tenon/kernel.h"

/* A forward call of nn.batch_norm, or of an operator whose frames are like its.
 * `after`, unless it is NULL, is done to each element of out in the type that
 * is computed in; its in[0] is its out. [worker] */
int32_t nn_batch_norm_forward(const tn_frame *call, tn_kernel_body *after);

#endif /* NN_BATCH_NORM_H_ */
