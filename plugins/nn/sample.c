/* SPDX-License-Identifier: Apache-2.0
 * sample.c: the loops of sample.h. The taps of a block of points are computed
 * once, and used for all channels.
 */
#include "sample_block.h"

#include <string.h>

#include "axis.h"
#include "window.h"

enum {
  BLOCK = NN_SAMPLE_BLOCK,
  CHANNELS = 16, /* channels of a slice of the gradient of images */
  TOGETHER = 4   /* channels whose gradients are added together */
};

/* A call, as the argument of a parallel loop. */
typedef struct sample_work {
  const nn_sample *sample;
  const nn_sample_arrays *arrays;
  char *to;
  int add;
} sample_work;

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

/* Computes run->n points of one channel: params is the nn_sample_block. */
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

/* Returns the address of element i. */
static char *locate_element(const nn_sample *s, const void *array, int64_t i) {
  return (char *)(uintptr_t)array + i * tn_dtype_bytes(s->mode.compute);
}

/* Returns the number of blocks of an image. */
static int64_t count_blocks(const nn_sample *s) {
  return (s->points + BLOCK - 1) / BLOCK;
}

/* Computes blocks [begin, end) of all images. */
static int32_t gather_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(gather);
  const sample_work *w = arg;
  const nn_sample *s = w->sample;
  nn_sample_block block;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / count_blocks(s);
    const int64_t point = i % count_blocks(s) * BLOCK;
    const nn_sample_points points =
        nn_sample_get_points(s, w->arrays->grid, image, point);
    nn_sample_fill_block(&points, &block, NULL);
    for (int64_t c = 0; c < s->channels; ++c) {
      const int64_t plane = image * s->channels + c;
      nn_run_loop(
          &s->mode, &loops,
          &(tn_kernel_block){
              .n = points.n,
              .out = locate_element(s, w->to, plane * s->points + point),
              .in = {locate_element(s, w->arrays->data, plane * s->size),
                     w->add ? w->to : NULL}},
          &block);
    }
  }
  return TN_OK;
}

int32_t nn_sample_run_forward(const nn_sample *sample,
                              const nn_sample_arrays *arrays, void *to,
                              int add) {
  sample_work w = {sample, arrays, to, add};
  const int64_t each = BLOCK * (sample->channels + 8) * 4;
  if (sample->channels == 0) return TN_OK;
  return nn_run_parallel(sample->call, sample->images * count_blocks(sample),
                         each, gather_slice, &w);
}

/* ------------------------------------------------------ gradient of images */

/* The arguments of a loop that adds points of the output gradient to images. */
typedef struct scatter_args {
  const nn_sample *sample;
  const nn_sample_block *block;
  int64_t n; /* points */
} scatter_args;

/* Adds points of the output gradient, from h on, to `channels` channels, from x
 * on: point after point, so that sums do not depend on the levels of
 * instructions. Several channels at once, because each addition waits for that
 * of the point before if both have a tap in common. */
#define SCATTER(name, type)                                                 \
  static inline void name##_some(const scatter_args *args, const type *h,   \
                                 type *x, int channels) {                   \
    const nn_sample_block *block = args->block;                             \
    const type *weight = (const type *)(const void *)block->weight;         \
    const int64_t size = args->sample->size, points = args->sample->points; \
    for (int64_t p = 0; p < args->n; ++p)                                   \
      for (int32_t t = 0; t < block->taps; ++t) {                           \
        const type w = weight[t * BLOCK + p];                               \
        if (!(w < 0 || w > 0)) continue;                                    \
        type *to = x + block->at[t * BLOCK + p];                            \
        for (int c = 0; c < channels; ++c)                                  \
          to[c * size] += w * h[c * points + p];                            \
      }                                                                     \
  }                                                                         \
  static void name(const scatter_args *args, const type *h, type *x,        \
                   int64_t channels) {                                      \
    int64_t c = 0;                                                          \
    for (; c + TOGETHER <= channels; c += TOGETHER)                         \
      name##_some(args, h + c * args->sample->points,                       \
                  x + c * args->sample->size, TOGETHER);                    \
    for (; c < channels; ++c)                                               \
      name##_some(args, h + c * args->sample->points,                       \
                  x + c * args->sample->size, 1);                           \
  }
SCATTER(scatter_f32, float)
SCATTER(scatter_f64, double)

/* Adds a block of points to channels of an image. */
static void scatter_block(const sample_work *w, const nn_sample_points *points,
                          const nn_sample_block *block, nn_range channels) {
  const nn_sample *s = w->sample;
  const scatter_args args = {s, block, points->n};
  const int64_t plane = points->image * s->channels + channels.begin;
  const void *h =
      locate_element(s, w->arrays->out, plane * s->points + points->first);
  void *x = locate_element(s, w->to, plane * s->size);
  if (s->mode.compute == TN_F32)
    scatter_f32(&args, h, x, channels.end - channels.begin);
  else
    scatter_f64(&args, h, x, channels.end - channels.begin);
}

/* Returns the number of groups of channels. */
static int64_t count_groups(const nn_sample *s) {
  return (s->channels + CHANNELS - 1) / CHANNELS;
}

/* Computes groups of channels [begin, end) of all images. */
static int32_t scatter_slice(void *arg, int64_t begin, int64_t end) {
  const sample_work *w = arg;
  const nn_sample *s = w->sample;
  nn_sample_block block;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / count_groups(s);
    const int64_t first = i % count_groups(s) * CHANNELS;
    const nn_range channels = {first, nn_min(first + CHANNELS, s->channels)};
    const int64_t n = (channels.end - first) * s->size;
    if (!w->add)
      memset(locate_element(s, w->to, (image * s->channels + first) * s->size),
             0, (size_t)(n * tn_dtype_bytes(s->mode.compute)));
    for (int64_t point = 0; point < s->points; point += BLOCK) {
      const nn_sample_points points =
          nn_sample_get_points(s, w->arrays->grid, image, point);
      nn_sample_fill_block(&points, &block, NULL);
      scatter_block(w, &points, &block, channels);
    }
  }
  return TN_OK;
}

int32_t nn_sample_run_data(const nn_sample *sample,
                           const nn_sample_arrays *arrays, void *to, int add) {
  sample_work w = {sample, arrays, to, add};
  const int64_t each = CHANNELS * (sample->size + 8 * sample->points);
  return nn_run_parallel(sample->call, sample->images * count_groups(sample),
                         each, scatter_slice, &w);
}

/* -------------------------------------------------------- gradient of grid */

/* Products of the output gradient of each point with its taps. */
typedef struct products {
  double of[NN_SAMPLE_TAPS * BLOCK];
} products;

/* Adds the products of one channel, run->in[0], with the output gradient of
 * run->n points, run->in[1]: params is the nn_sample_block. */
#define MULTIPLY(name, type)                                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *run, const void *params) { \
    const nn_sample_block *block = params;                                   \
    const type *x = run->in[0], *h = run->in[1];                             \
    double *sum = run->out;                                                  \
    for (int32_t t = 0; t < block->taps; ++t)                                \
      for (int64_t p = 0; p < run->n; ++p)                                   \
        sum[t * BLOCK + p] +=                                                \
            (double)x[block->at[t * BLOCK + p]] * (double)h[p];              \
  }                                                                          \
  TN_KERNEL_LEVELS(name)
MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)

/* Computes the products of a block of points, over all channels. */
static void multiply_block(const sample_work *w, const nn_sample_points *points,
                           const nn_sample_block *block, products *to) {
  static const nn_loops loops = NN_LOOPS(multiply);
  const nn_sample *s = w->sample;
  for (int64_t i = 0; i < block->taps * BLOCK; ++i) to->of[i] = 0;
  for (int64_t c = 0; c < s->channels; ++c) {
    const int64_t plane = points->image * s->channels + c;
    nn_run_loop(&s->mode, &loops,
                &(tn_kernel_block){
                    .n = points->n,
                    .out = to->of,
                    .in = {locate_element(s, w->arrays->data, plane * s->size),
                           locate_element(s, w->arrays->out,
                                          plane * s->points + points->first)}},
                block);
  }
}

/* Stores an element of the gradient of the grid. */
static void store_slope(const sample_work *w, int64_t i, double value) {
  if (w->sample->mode.compute == TN_F32) {
    float *to = (float *)(void *)w->to + i;
    *to = (float)(w->add ? (double)*to + value : value);
  } else {
    double *to = (double *)(void *)w->to + i;
    *to = w->add ? *to + value : value;
  }
}

/* Returns the gradient of coordinate k of point p. A tap without a slope counts
 * for nothing, even if its element is not finite. */
static double sum_slopes(const nn_sample_block *block, const double *slopes,
                         const products *by, int64_t p) {
  double sum = 0;
  for (int32_t t = 0; t < block->taps; ++t) {
    const double slope = slopes[t * BLOCK + p];
    if (slope < 0 || slope > 0) sum += slope * by->of[t * BLOCK + p];
  }
  return sum;
}

/* Computes the gradients of blocks [begin, end) of points of all images. */
static int32_t slope_slice(void *arg, int64_t begin, int64_t end) {
  const sample_work *w = arg;
  const nn_sample *s = w->sample;
  nn_sample_block block;
  nn_sample_slopes slopes;
  products by;
  for (int64_t i = begin; i < end; ++i) {
    const nn_sample_points points = nn_sample_get_points(
        s, w->arrays->grid, i / count_blocks(s), i % count_blocks(s) * BLOCK);
    const int64_t first =
        points.image * s->grid_step + points.first * s->point_step;
    nn_sample_fill_block(&points, &block, &slopes);
    multiply_block(w, &points, &block, &by);
    for (int k = 0; k < s->rule.rank; ++k)
      for (int64_t p = 0; p < points.n; ++p)
        store_slope(w, first + p * s->point_step + k * s->coordinate_step,
                    sum_slopes(&block, slopes.of[k], &by, p));
  }
  return TN_OK;
}

int32_t nn_sample_run_grid(const nn_sample *sample,
                           const nn_sample_arrays *arrays, void *to, int add) {
  sample_work w = {sample, arrays, to, add};
  const int64_t each = BLOCK * (sample->channels + 8) * 8;
  return nn_run_parallel(sample->call, sample->images * count_blocks(sample),
                         each, slope_slice, &w);
}
