/* SPDX-License-Identifier: Apache-2.0
 * norm_operands.h: weights and hidden outputs of normalisations on the CPU:
 * their shapes, their numbers in the type of the computation, and the division
 * of a workspace among them.
 */
#ifndef NN_NORM_OPERANDS_H_
#define NN_NORM_OPERANDS_H_

#include "tenon/kernel/kernel.h"

/* Infers the shapes of a normalisation of the lines along an axis: input 0 is
 * data, input 1 is gamma with a number for each place on a line, output 1 has a
 * number for each line. TN_OK, or a code after TN_FAIL. [any] */
int32_t nn_infer_along_axis(const tn_frame *call, int64_t axis);

/* Rounds a size in a workspace up to whole cache lines. [any] */
static inline uint64_t nn_round_up_bytes(int64_t bytes) {
  return ((uint64_t)bytes + 63) / 64 * 64;
}

/* Returns the first `bytes` bytes of *buffer, and moves *buffer to the rest.
 * [any] */
static inline char *nn_take_bytes(char **buffer, int64_t bytes) {
  char *at = *buffer;
  *buffer += nn_round_up_bytes(bytes);
  return at;
}

/* Converts the n numbers of a weight to the type of the computation; an absent
 * weight counts as ones. Returns `to`, which has room for them. [worker] */
const void *nn_read_weight(const tn_kernel_mode *mode, const tn_tensor *weight,
                           int64_t n, char *to);

/* Returns the address at which the kernel computes hidden output `index`: its
 * own, if it is requested and has the type of the computation, or `buffer`.
 * [worker] */
char *nn_locate_hidden(const tn_frame *call, uint32_t index,
                       const tn_kernel_mode *mode, char *buffer);

/* Writes hidden output `index` from the address at which it was computed, if it
 * is requested and not complete there. [worker] */
void nn_write_hidden(const tn_frame *call, uint32_t index,
                     const tn_kernel_mode *mode, const char *from);

/* Sets all elements of output `index` to one value, if it is requested: hidden
 * outputs of lines without elements. [worker] */
void nn_fill_output(const tn_frame *call, uint32_t index, double value);

#endif /* NN_NORM_OPERANDS_H_ */
