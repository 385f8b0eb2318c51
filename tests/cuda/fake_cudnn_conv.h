/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_conv.h: the loops of fake_cudnn.c, which compute a graph.
 */
#ifndef TENON_TESTS_FAKE_CUDNN_CONV_H_
#define TENON_TESTS_FAKE_CUDNN_CONV_H_

#include "fake_cuda.h"

/* Engines by their global index. */
enum {
  ENGINE_FALLBACK,
  ENGINE_PLAIN,
  ENGINE_REDUCED,
  ENGINE_RESTLESS,
  ENGINE_TF32,
  N_ENGINES
};

enum { ARRAY_X, ARRAY_W, ARRAY_Y, ARRAY_BIAS, N_ARRAYS };

/* A convolution of images in up to three dimensions; dimensions before the last
 * `rank` are 1. One of the first three arrays is written. */
typedef struct conv_work {
  int type; /* DNN_F32 ... of all arrays */
  int written;
  int engine;
  int odd;     /* every other call of the process */
  int is_slow; /* takes some milliseconds more */
  int has_relu;
  double beta; /* factor of the existing values; 0 reads nothing */
  double alpha;
  int64_t x[5];
  int64_t w[5];
  int64_t y[5];
  int64_t stride[3];
  int64_t dilate[3];
  int64_t pad[3];
  void *at[N_ARRAYS]; /* ARRAY_BIAS: NULL if there is none */
} conv_work;

/* A pooling of such images, or the gradient of means. */
typedef struct pool_work {
  int type;
  int mode; /* DNN_POOL_* */
  int is_gradient;
  int64_t x[5];
  int64_t y[5];
  int64_t window[3];
  int64_t stride[3];
  int64_t pad[3]; /* in front */
  void *at[2];    /* of x and y */
} pool_work;

/* On the fake's thread. */
void conv_run(fake *f, const void *conv_work);
void pool_run(fake *f, const void *pool_work);

int64_t fake_width(int type);
double fake_get(const void *at, int type, int64_t i);
/* Rounds to nearest even. */
void fake_put(void *at, int type, int64_t i, double value);

/* A factor as TF32 has it: ten bits after the binary point. */
double fake_to_tf32(double value);

#endif /* TENON_TESTS_FAKE_CUDNN_CONV_H_ */
