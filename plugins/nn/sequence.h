/* SPDX-License-Identifier: Apache-2.0
 * sequence.h: the common part of sequence.yaml on all devices: the parameters
 * of its operators, and the form of their calls. The three operators begin with
 * the same operands.
 */
#ifndef NN_SEQUENCE_H_
#define NN_SEQUENCE_H_

#include "sequence.gen.h"
#include "tenon/kernel/kernel.h"

/* A tensor of sequences: steps along one of the first two dimensions, and
 * `inner` adjacent elements of each step of each sequence. */
typedef struct nn_sequences {
  int64_t steps;
  int64_t batch;      /* number of sequences */
  int64_t inner;      /* elements of a step */
  int64_t step_rows;  /* distance of steps, in units of `inner` elements */
  int64_t batch_rows; /* distance of sequences, in the same unit */
} nn_sequences;

/* The parameters of an operator. */
typedef struct nn_sequence_options {
  int64_t axis;
  int uses_lengths;
  double value; /* of sequence_mask */
} nn_sequence_options;

/* Returns the sequences of a tensor with the shape of data. [any] */
static inline nn_sequences nn_find_sequences(const tn_tensor *data,
                                             int64_t axis) {
  nn_sequences s;
  s.steps = data->shape[axis];
  s.batch = data->shape[1 - axis];
  s.inner = 1;
  for (int32_t d = 2; d < data->ndim; ++d) s.inner *= data->shape[d];
  s.step_rows = axis == 0 ? s.batch : 1;
  s.batch_rows = axis == 0 ? 1 : s.steps;
  return s;
}

/* Return the parameters of a call. [any] */
static inline nn_sequence_options nn_read_mask_options(const tn_frame *call) {
  const nn_sequence_mask_params *p = nn_sequence_mask_params_of(call);
  const nn_sequence_options options = {p->axis, p->use_sequence_length,
                                       p->value};
  return options;
}

static inline nn_sequence_options nn_read_last_options(const tn_frame *call) {
  const nn_sequence_last_params *p = nn_sequence_last_params_of(call);
  const nn_sequence_options options = {p->axis, p->use_sequence_length, 0};
  return options;
}

static inline nn_sequence_options nn_read_reverse_options(
    const tn_frame *call) {
  const nn_sequence_options options = {
      0, nn_sequence_reverse_params_of(call)->use_sequence_length, 0};
  return options;
}

#endif /* NN_SEQUENCE_H_ */
