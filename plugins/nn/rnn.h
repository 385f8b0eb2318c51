/* SPDX-License-Identifier: Apache-2.0
 * rnn.h: a call of rnn.yaml: its sizes, and the places of weights and of kept
 * values. Each layer has one or two directions; a pass runs over layers, and
 * over all steps of a direction at once, in slices of the batch: no cell uses a
 * value of another row.
 */
#ifndef NN_RNN_H_
#define NN_RNN_H_

#include "axis.h"
#include "rnn.gen.h"

enum {
  NN_RNN_ACROSS = 4, /* vectors of a strip (rnn_loops.h), at most */
  NN_RNN_ROWS = 24,  /* rows of the batch in a slice */
};

#if defined(__clang__)
#define NN_RNN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NN_RNN_UNROLL _Pragma("GCC unroll 16")
#endif

/* Sizes and parameters of a call. */
typedef struct nn_rnn_call {
  const tn_frame *call;
  tn_kernel_mode mode;
  int64_t bytes; /* bytes of an element */
  int64_t kind;  /* NN_RNN_MODE_* */
  int64_t gates;
  int64_t values; /* kept values of a cell */
  int64_t steps;
  int64_t batch;
  int64_t inputs; /* elements of a row of data */
  int64_t units;
  int64_t layers;
  int64_t directions;
  double p;
} nn_rnn_call;

/* Returns the sizes of a call. [any] */
nn_rnn_call nn_rnn_describe(const tn_frame *call);

/* Returns input `i` of a forward call, in a forward or a backward call; NULL if
 * it is absent. [any] */
const tn_tensor *nn_rnn_input(const tn_frame *call, uint32_t i);

/* Returns the length of a row that a layer reads. */
static inline int64_t nn_rnn_count_inputs(const nn_rnn_call *a, int64_t layer) {
  return layer == 0 ? a->inputs : a->directions * a->units;
}

/* Returns the elements of the output of a layer. */
static inline int64_t nn_rnn_count_outputs(const nn_rnn_call *a) {
  return a->steps * a->batch * a->directions * a->units;
}

/* Places in `parameters`, in elements: of W and of the first bias of a layer
 * and direction. R follows W, and bR follows bW. */
int64_t nn_rnn_locate_weights(const nn_rnn_call *a, int64_t layer,
                              int64_t direction);
int64_t nn_rnn_locate_biases(const nn_rnn_call *a, int64_t layer,
                             int64_t direction);

/* Places in `kept`, in elements: the output of a layer that is not the last
 * one; its factors of dropout, if p is not 0; and the values of the cells of a
 * layer and direction. The last function returns the length of `kept`. */
int64_t nn_rnn_locate_output(const nn_rnn_call *a, int64_t layer);
int64_t nn_rnn_locate_factors(const nn_rnn_call *a, int64_t layer);
int64_t nn_rnn_locate_values(const nn_rnn_call *a, int64_t layer,
                             int64_t direction);
int64_t nn_rnn_count_kept(const nn_rnn_call *a);

/* All steps of some rows in one direction of a layer; rnn_loops.h. Addresses
 * are those of the first row, distances are in elements. */
typedef struct nn_rnn_steps {
  int64_t kind;
  int64_t gates;
  int64_t steps;
  int64_t rows;
  int64_t units;
  int is_reverse;
  const void *packed; /* weights R, strip by strip */
  const void *x;      /* products of the input */
  const void *biases; /* sums of bW and bR, without the `bias` of gru */
  int64_t x_step;
  const void *bias;  /* gru: bR of the third gate */
  const void *state; /* h before the first step */
  void *cell;        /* lstm: c, before the first and after the last step */
  void *out;
  int64_t out_row;
  int64_t out_step;
  void *kept; /* NULL: not requested */
  int64_t kept_row;
  int64_t kept_step;
} nn_rnn_steps;

/* One step of one row, backward; rnn_slopes.h. */
typedef struct nn_rnn_slopes {
  int64_t kind;
  const void *grad; /* gradient of h after the step */
  const void *cell; /* lstm: c before the step */
  void *cell_carry; /* lstm: gradient of c after the step, then before it */
  void *carry;      /* gru: a part of the gradient of h before the step */
  void *second;     /* gru: gradients of the products of h */
} nn_rnn_slopes;

/* Arrays in the type of the computation are parts of a workspace, or operands.
 */
typedef struct nn_rnn_memory {
  char *at; /* the next part; NULL while sizes are counted */
  uint64_t bytes;
} nn_rnn_memory;

/* Returns the next part of a workspace, n elements; NULL while sizes are
 * counted. */
char *nn_rnn_take(nn_rnn_memory *memory, const nn_rnn_call *a, int64_t n);

/* Returns the address of element i of an array; NULL if there is no array. */
static inline char *nn_rnn_skip(const nn_rnn_call *a, const char *array,
                                int64_t i) {
  return array ? (char *)(uintptr_t)array + i * a->bytes : NULL;
}

/* Sets *bytes to the size of the workspace of a backward call. [any] */
int32_t nn_rnn_backward_bytes(const tn_frame *call, uint64_t *bytes);

#endif /* NN_RNN_H_ */
