/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_rnn.h: a recurrent call of fake_cudnn.c: fake_cudnn_rnn.c checks
 * its arguments, fake_cudnn_cells.c computes it.
 */
#ifndef TENON_TESTS_FAKE_CUDNN_RNN_H_
#define TENON_TESTS_FAKE_CUDNN_RNN_H_

#include <stdint.h>

#include "fake_cuda.h"

/* The passes in their order; each leaves its number in `reserve`. */
enum { RNN_FORWARD = 1, RNN_DATA = 2, RNN_WEIGHTS = 3 };

/* Addresses that a call does not have are NULL. */
typedef struct rnn_work {
  int pass;
  int kind; /* DNN_RNN_* */
  int type; /* DNN_F32 ... */
  int keeps;
  int rounds; /* x and matrices to TF32 */
  int has_other_order;
  int64_t gates;
  int64_t steps;
  int64_t batch;
  int64_t inputs;
  int64_t units;
  int64_t layers;
  int64_t directions;
  const void *x;
  const void *hx;
  const void *cx;
  const void *weights;
  void *y; /* written by RNN_FORWARD alone */
  void *hy;
  void *cy;
  const void *dy;
  const void *dhy;
  const void *dcy;
  void *dx;
  void *dhx;
  void *dcx;
  void *dweights; /* added to */
  void *work;
  void *reserve;
} rnn_work;

#pragma GCC visibility push(hidden)

/* Elements of a row of a matrix. A pseudo layer is a layer and direction;
 * `which` counts gates of x, then gates of h. */
int64_t rnn_row(const rnn_work *k, int64_t pseudo_layer, int64_t which);

/* The place of a matrix or its bias in the weights, in elements. */
int64_t rnn_locate(const rnn_work *k, int64_t pseudo_layer, int64_t which,
                   int is_bias);
int64_t rnn_count_weights(const rnn_work *k);
int64_t rnn_reserve_bytes(const rnn_work *k);

/* On the fake's thread. */
void rnn_run(fake *f, const void *rnn_work);

#pragma GCC visibility pop

#endif /* TENON_TESTS_FAKE_CUDNN_RNN_H_ */
