/* SPDX-License-Identifier: Apache-2.0
 * linear_attention.h: one head of a call of linear_attention.yaml, as the loops
 * of linear_attention_loops.h see it. Arrays have the type of the computation
 * and begin with the head's first step.
 */
#ifndef NN_LINEAR_ATTENTION_H_
#define NN_LINEAR_ATTENTION_H_

#include <stdint.h>

typedef struct nn_linear_head {
  int64_t steps;
  int64_t depth;   /* elements of a query and of a key: rows of the state */
  int64_t width;   /* elements of a value: columns of the state */
  int64_t queries; /* heads of queries that read the state */
  int64_t decays;  /* decays of a step: none, one, or one for each row */
  double scale;
  const void *q; /* [queries][steps][depth] */
  const void *k; /* [steps][depth] */
  const void *v; /* [steps][width] */
  const void *decay;
  const void *beta;  /* NULL: absent */
  const void *state; /* before the first step; NULL: zeros */
  void *out;         /* [queries][steps][width]; NULL: not requested */
  void *state_out;   /* NULL: not requested */
  void *room;        /* see the loops */
} nn_linear_head;

/* The gradients of a head. Those that are NULL are absent, or not requested. */
typedef struct nn_linear_gradients {
  const nn_linear_head *head;
  int64_t chunk; /* steps between two states that are kept */
  const void *out;
  const void *state_out;
  void *q;
  void *k;
  void *v;
  void *decay;
  void *beta;
  void *state;
} nn_linear_gradients;

/* Returns the number of chunks of a call. [any] */
static inline int64_t nn_linear_count_chunks(int64_t steps, int64_t chunk) {
  return (steps + chunk - 1) / chunk;
}

/* Returns the numbers in the room of a forward call: a state and a value.
 * [any] */
static inline int64_t nn_linear_count_forward(int64_t depth, int64_t width) {
  return depth * width + width;
}

/* Returns the numbers in the room of a backward call: a state for each chunk
 * and for each step of one, and three more; a value for each step of a chunk,
 * and three more. [any] */
static inline int64_t nn_linear_count_backward(const nn_linear_head *h,
                                               int64_t chunk) {
  const int64_t states = nn_linear_count_chunks(h->steps, chunk) + chunk + 3;
  return states * h->depth * h->width + (chunk + 3) * h->width;
}

#endif /* NN_LINEAR_ATTENTION_H_ */
