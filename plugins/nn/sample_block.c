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

/* Returns the term of a tap. One of weight 0 has none, because its element may
 * be NaN. The element is read in any case, so that no branch is needed. */
static inline float weigh_float(float weight, float element) {
  return weight < 0 || weight > 0 ? weight * element : 0;
}
static inline double weigh_double(double weight, double element) {
  return weight < 0 || weight > 0 ? weight * element : 0;
}

/* The term of tap t for point p. */
#define TERM(type, t) weigh_##type(weight[(t)*BLOCK + p], x[at[(t)*BLOCK + p]])

/* Computes run->n positions: params is the block. */
#define GATHER(name, type)                                                   \
  TN_KERNEL_BODY void name(const tn_kernel_block *run, const void *params) { \
    const nn_sample_block *block = params;                                   \
    const int32_t *at = block->at;                                           \
    const type *x = run->in[0],                                              \
               *weight = (const type *)(const void *)block->weight;          \
    type sum[BLOCK];                                                         \
    type *y = run->out;                                                      \
    if (block->taps == 4) {                                                  \
      for (int64_t p = 0; p < run->n; ++p)                                   \
        sum[p] =                                                             \
            TERM(type, 0) + TERM(type, 1) + TERM(type, 2) + TERM(type, 3);   \
    } else {                                                                 \
      for (int64_t p = 0; p < run->n; ++p) sum[p] = 0;                       \
      for (int32_t t = 0; t < block->taps; ++t)                              \
        for (int64_t p = 0; p < run->n; ++p) sum[p] += TERM(type, t);        \
    }                                                                        \
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

/* Adds the positions of several images, one after the other: position after
 * position, so that sums do not depend on the level of instructions. Four
 * images at once, because an addition waits for that of the position before if
 * both have a tap in common. */
#define SCATTER(name, type)                                                 \
  static inline void name##_some(const nn_sample_block *block,              \
                                 const nn_sample_planes *planes, int64_t c, \
                                 int images) {                              \
    const type *weight = (const type *)(const void *)block->weight;         \
    const type *h = (const type *)planes->from + c * planes->from_step;     \
    type *x = (type *)planes->images + c * planes->image_step;              \
    for (int64_t p = 0; p < block->n; ++p)                                  \
      for (int32_t t = 0; t < block->taps; ++t) {                           \
        const type w = weight[t * BLOCK + p];                               \
        if (!(w < 0 || w > 0)) continue;                                    \
        type *to = x + block->at[t * BLOCK + p];                            \
        for (int i = 0; i < images; ++i)                                    \
          to[i * planes->image_step] += w * h[i * planes->from_step + p];   \
      }                                                                     \
  }                                                                         \
  static void name(const nn_sample_block *block,                            \
                   const nn_sample_planes *planes) {                        \
    int64_t c = 0;                                                          \
    for (; c + 4 <= planes->n; c += 4) name##_some(block, planes, c, 4);    \
    for (; c < planes->n; ++c) name##_some(block, planes, c, 1);            \
  }
SCATTER(scatter_f32, float)
SCATTER(scatter_f64, double)

void nn_sample_scatter_block(const tn_kernel_mode *mode,
                             const nn_sample_block *block,
                             const nn_sample_planes *planes) {
  if (mode->compute == TN_F32)
    scatter_f32(block, planes);
  else
    scatter_f64(block, planes);
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
