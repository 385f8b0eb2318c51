/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.h: functions of batch_norm.c for batch_norm_activation.c.
 */
#ifndef NN_BATCH_NORM_H_
#define NN_BATCH_NORM_H_

#include "tenon/kernel/kernel.h"

/* Runs a forward call of nn.batch_norm, or of an operator with the same frames.
 * `after`, unless it is NULL, runs on each element of out in the type of the
 * computation; its in[0] is its out. [worker] */
int32_t nn_batch_norm_forward(const tn_frame *call, tn_kernel_body *after);

#endif /* NN_BATCH_NORM_H_ */
