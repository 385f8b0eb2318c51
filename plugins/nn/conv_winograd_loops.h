/* SPDX-License-Identifier: Apache-2.0
 * conv_winograd_loops.h: the functions of conv_winograd_tile.h at each level of
 * instructions, and their table. Only conv_winograd.c includes it.
 */
#ifndef NN_CONV_WINOGRAD_LOOPS_H_
#define NN_CONV_WINOGRAD_LOOPS_H_

#include "conv.h"
#include "tenon/kernel/kernel.h"

/* Largest number of weights that transform_back transforms. */
#define WINO_BACK 64

/* The functions of one level; conv_winograd_tile.h explains each. `rows` is the
 * number of filters in a filter block. */
typedef struct loops {
  int rows;
  void (*gather)(const float *line, float *d, int64_t n, int64_t distance);
  void (*scatter)(float *line, const float *y, int64_t n, int64_t distance,
                  float bias);
  void (*transform_filters)(const float *w, float *to, int64_t distance);
  void (*transform_data)(float *d, float *v, int64_t n, int64_t distance);
  void (*transform_results)(float *m, float *y, int64_t n, int64_t distance);
  void (*transform_gradients)(float *y, float *u, int64_t n, int64_t distance);
  void (*transform_back)(const float *m, float *w, int64_t n, int64_t distance);
  void (*multiply)(const float *u, const float *v, float *m, int64_t depth,
                   int64_t n);
} loops;

#define WINO_NAME(x) x##_base
#define WINO_TARGET
#define WINO_BYTES 16
#define WINO_ROWS 4
#include "conv_winograd_tile.h"

#if defined(TN_KERNEL_AVX2)
#define WINO_NAME(x) x##_avx2
#define WINO_TARGET TN_KERNEL_AVX2
#define WINO_BYTES 32
#define WINO_ROWS 4
#include "conv_winograd_tile.h"

#define WINO_NAME(x) x##_avx512
#define WINO_TARGET TN_KERNEL_AVX512
#define WINO_BYTES 64
#define WINO_ROWS 8
#include "conv_winograd_tile.h"
#endif

#endif /* NN_CONV_WINOGRAD_LOOPS_H_ */
