/* SPDX-License-Identifier: Apache-2.0
 * sample_block.c: loops over the taps of a block of positions (sample_block.h).
 */
#include "sample_block.h"

#include "axis.h"

enum { BLOCK = NN_SAMPLE_BLOCK };

int32_t nn_sample_check_size(const tn_frame *call, int64_t size) {
  if (size <= INT32_MAX) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "an image of one channel has %lld elements, but at most %ld "
                 "are supported; divide it",
                 (long long)size, (long)INT32_MAX);
}

void nn_sample_set_position(nn_sample_block *block, tn_dtype dtype, int64_t p,
                            const nn_sample_taps *taps) {
  for (int t = 0; t < block->taps; ++t) {
    const int is_inside = t < taps->n && taps->at[t] >= 0;
    const double weight = is_inside ? taps->weight[t] : 0;
    block->at[t * BLOCK + p] = is_inside ? (int32_t)taps->at[t] : 0;
    if (dtype == TN_F32)
      ((float *)(void *)block->weight)[t * BLOCK + p] = (float)weight;
    else
      block->weight[t * BLOCK + p] = weight;
  }
}

/* Computes run->n positions: params is the block. */
#define GATHER(name, type)                                                   \
  TN_KERNEL_BODY void name(const tn_kernel_block *run, const void *params) { \
    const nn_sample_block *block = params;                                   \
    const type *x = run->in[0],                                              \
               *weight = (const type *)(const void *)block->weight;          \
    type sum[BLOCK];                                                         \
    type *y = run->out;                                                      \
    for (int64_t p = 0; p < run->n; ++p) sum[p] = 0;                         \
    for (int32_t t = 0; t < block->taps; ++t)                                \
      for (int64_t p = 0; p < run->n; ++p) {                                 \
        const type w = weight[t * BLOCK + p];                                \
        const type term = w * x[block->at[t * BLOCK + p]];                   \
        sum[p] += w < 0 || w > 0 ? term : 0;                                 \
      }                                                                      \
    for (int64_t p = 0; p < run->n; ++p)                                     \
      y[p] = run->in[1] ? y[p] + sum[p] : sum[p];                            \
  }                                                                          \
  TN_KERNEL_LEVELS(name)
GATHER(gather_f32, float)
GATHER(gather_f64, double)

void nn_sample_gather_block(const tn_kernel_mode *mode,
                            const nn_sample_block *block, const void *image,
                            void *to, int add) {
  static const nn_loops loops = NN_LOOPS(gather);
  nn_run_loop(mode, &loops,
              &(tn_kernel_block){
                  .n = block->n, .out = to, .in = {image, add ? to : NULL}},
              block);
}

#define SCATTER(name, type)                                                \
  /* Adds elements to those of an image. */                                \
  static void name(const nn_sample_block *block, const type *h, type *x) { \
    const type *weight = (const type *)(const void *)block->weight;        \
    for (int64_t p = 0; p < block->n; ++p)                                 \
      for (int32_t t = 0; t < block->taps; ++t) {                          \
        const type w = weight[t * BLOCK + p];                              \
        if (w < 0 || w > 0) x[block->at[t * BLOCK + p]] += w * h[p];       \
      }                                                                    \
  }
SCATTER(scatter_f32, float)
SCATTER(scatter_f64, double)

void nn_sample_scatter_block(const tn_kernel_mode *mode,
                             const nn_sample_block *block, const void *from,
                             void *image) {
  if (mode->compute == TN_F32)
    scatter_f32(block, from, image);
  else
    scatter_f64(block, from, image);
}

/* Adds the products of elements and taps: params is the block. */
#define MULTIPLY(name, type)                                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *run, const void *params) { \
    const nn_sample_block *block = params;                                   \
    const type *x = run->in[0], *h = run->in[1];                             \
    double *products = run->out;                                             \
    for (int32_t t = 0; t < block->taps; ++t)                                \
      for (int64_t p = 0; p < run->n; ++p)                                   \
        products[t * BLOCK + p] +=                                           \
            (double)x[block->at[t * BLOCK + p]] * (double)h[p];              \
  }                                                                          \
  TN_KERNEL_LEVELS(name)
MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)

void nn_sample_multiply_block(const tn_kernel_mode *mode,
                              const nn_sample_block *block, const void *image,
                              const void *from, double *products) {
  static const nn_loops loops = NN_LOOPS(multiply);
  nn_run_loop(mode, &loops,
              &(tn_kernel_block){
                  .n = block->n, .out = (void *)products, .in = {image, from}},
              block);
}
