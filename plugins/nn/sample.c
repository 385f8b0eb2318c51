/* SPDX-License-Identifier: Apache-2.0
 * sample.c: the loops of sample.h. The taps of a block of points are computed
 * once, and used for all channels.
 */
#include "sample_points.h"

#include <string.h>

#include "axis.h"
#include "operands.h"
#include "window.h"

enum {
  BLOCK = NN_SAMPLE_BLOCK,
  CHANNELS = 16 /* channels of a slice of the gradient of images */
};

/* A call, as the argument of a parallel loop. */
typedef struct sample_work {
  const nn_sample *sample;
  const nn_sample_arrays *arrays;
  char *to;
  int add;
} sample_work;

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
  const sample_work *w = arg;
  const nn_sample *s = w->sample;
  nn_sample_block block;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / count_blocks(s);
    const int64_t point = i % count_blocks(s) * BLOCK;
    const nn_sample_points points =
        nn_sample_get_points(s, w->arrays->grid, image, point);
    nn_sample_fill_points(&points, &block, NULL);
    for (int64_t c = 0; c < s->channels; ++c) {
      const int64_t plane = image * s->channels + c;
      nn_sample_gather_block(
          &s->mode, &block, locate_element(s, w->arrays->data, plane * s->size),
          locate_element(s, w->to, plane * s->points + point), w->add);
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

/* Adds a block of points to channels of an image. */
static void scatter_block(const sample_work *w, const nn_sample_points *points,
                          const nn_sample_block *block, nn_range channels) {
  const nn_sample *s = w->sample;
  const int64_t plane = points->image * s->channels + channels.begin;
  const nn_sample_planes planes = {
      channels.end - channels.begin,
      locate_element(s, w->arrays->out, plane * s->points + points->first),
      s->points, locate_element(s, w->to, plane * s->size), s->size};
  nn_sample_scatter_block(&s->mode, block, &planes);
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
      nn_sample_fill_points(&points, &block, NULL);
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

/* Computes the products of a block of points, over all channels. */
static void multiply_block(const sample_work *w, const nn_sample_points *points,
                           const nn_sample_block *block, products *to) {
  const nn_sample *s = w->sample;
  for (int64_t i = 0; i < block->taps * BLOCK; ++i) to->of[i] = 0;
  for (int64_t c = 0; c < s->channels; ++c) {
    const int64_t plane = points->image * s->channels + c;
    nn_sample_multiply_block(
        &s->mode, block, locate_element(s, w->arrays->data, plane * s->size),
        locate_element(s, w->arrays->out, plane * s->points + points->first),
        to->of);
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
    nn_sample_fill_points(&points, &block, &slopes);
    multiply_block(w, &points, &block, &by);
    for (int k = 0; k < s->rule.rank; ++k)
      for (int64_t p = 0; p < points.n; ++p)
        nn_operands_set(s->mode.compute, w->to,
                        first + p * s->point_step + k * s->coordinate_step,
                        sum_slopes(&block, slopes.of[k], &by, p), w->add);
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
