/* SPDX-License-Identifier: Apache-2.0
 * sample.c: the loops of sample.h. The taps of a block of points are computed
 * once, and used for all channels.
 */
#include "sample.h"

#include <string.h>

#include "axis.h"
#include "sample_block.h"
#include "window.h"

enum {
  BLOCK = NN_SAMPLE_BLOCK, /* points whose taps are computed together */
  CHANNELS = 16            /* channels of a slice of the gradient of images */
};

/* A call, as the argument of a parallel loop. */
typedef struct sample_work {
  const nn_sample *sample;
  const nn_sample_arrays *arrays;
  char *to;
  int add;
} sample_work;

/* Returns an element of the grid. */
static double read_coordinate(const nn_sample *s, const void *grid, int64_t i) {
  return s->mode.compute == TN_F32 ? (double)((const float *)grid)[i]
                                   : ((const double *)grid)[i];
}

/* Sets the elements along each dimension for a point of an image. */
static void find_lines(const nn_sample *s, const void *grid, int64_t image,
                       int64_t point, nn_sample_line *lines) {
  const int64_t at = image * s->grid_step + point * s->point_step;
  for (int k = 0; k < s->rule.rank; ++k) {
    const int d = NN_SAMPLE_RANK - 1 - k;
    nn_sample_find_line(&s->rule, s->rule.size[d],
                        read_coordinate(s, grid, at + k * s->coordinate_step),
                        &lines[d]);
  }
}

/* Returns the largest number of taps of a point. */
static int32_t count_taps(const nn_sample_rule *rule) {
  if (rule->mode == NN_SAMPLE_NEAREST) return 1;
  return rule->mode == NN_SAMPLE_CUBIC ? 16 : 1 << rule->rank;
}

/* Computes the taps of a block of points from `point` on, or of the rest of
 * them. */
static void fill_block(const nn_sample *s, const void *grid, int64_t image,
                       int64_t point, nn_sample_block *block) {
  nn_sample_line lines[NN_SAMPLE_RANK];
  block->n = nn_min(BLOCK, s->points - point);
  block->taps = count_taps(&s->rule);
  for (int64_t p = 0; p < block->n; ++p) {
    find_lines(s, grid, image, point + p, lines);
    const nn_sample_taps taps = nn_sample_join_lines(&s->rule, lines, -1);
    nn_sample_set_position(block, s->mode.compute, p, &taps);
  }
}

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
    fill_block(s, w->arrays->grid, image, point, &block);
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

/* Adds a block of points to channels [begin, end) of an image. */
static void scatter_block(const sample_work *w, const nn_sample_block *block,
                          int64_t image, int64_t point, nn_range channels) {
  const nn_sample *s = w->sample;
  for (int64_t c = channels.begin; c < channels.end; ++c) {
    const int64_t plane = image * s->channels + c;
    const char *h =
        locate_element(s, w->arrays->out, plane * s->points + point);
    char *x = locate_element(s, w->to, plane * s->size);
    nn_sample_scatter_block(&s->mode, block, h, x);
  }
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
      fill_block(s, w->arrays->grid, image, point, &block);
      scatter_block(w, &block, image, point, channels);
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

/* Returns the sum over all channels of a tap's element times the output
 * gradient of the point. */
static double multiply_channels(const nn_sample *s, const nn_sample_arrays *a,
                                int64_t x, int64_t h) {
  double sum = 0;
  for (int64_t c = 0; c < s->channels; ++c)
    sum += read_coordinate(s, a->data, x + c * s->size) *
           read_coordinate(s, a->out, h + c * s->points);
  return sum;
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

/* Computes the gradient of one point of an image. */
static void find_point_slopes(const sample_work *w, int64_t image,
                              int64_t point) {
  const nn_sample *s = w->sample;
  nn_sample_line lines[NN_SAMPLE_RANK];
  double products[NN_SAMPLE_TAPS];
  find_lines(s, w->arrays->grid, image, point, lines);
  const nn_sample_taps taps = nn_sample_join_lines(&s->rule, lines, -1);
  for (int t = 0; t < taps.n && s->rule.mode != NN_SAMPLE_NEAREST; ++t)
    if (taps.at[t] >= 0)
      products[t] = multiply_channels(
          s, w->arrays, image * s->channels * s->size + taps.at[t],
          image * s->channels * s->points + point);
  for (int k = 0; k < s->rule.rank; ++k) {
    const nn_sample_taps slopes =
        nn_sample_join_lines(&s->rule, lines, NN_SAMPLE_RANK - 1 - k);
    double sum = 0;
    for (int t = 0; t < taps.n && s->rule.mode != NN_SAMPLE_NEAREST; ++t)
      if (taps.at[t] >= 0 && (slopes.weight[t] < 0 || slopes.weight[t] > 0))
        sum += slopes.weight[t] * products[t];
    store_slope(
        w,
        image * s->grid_step + point * s->point_step + k * s->coordinate_step,
        sum);
  }
}

/* Computes the gradients of points [begin, end) of all images. */
static int32_t slope_slice(void *arg, int64_t begin, int64_t end) {
  const sample_work *w = arg;
  for (int64_t i = begin; i < end; ++i)
    find_point_slopes(w, i / w->sample->points, i % w->sample->points);
  return TN_OK;
}

int32_t nn_sample_run_grid(const nn_sample *sample,
                           const nn_sample_arrays *arrays, void *to, int add) {
  sample_work w = {sample, arrays, to, add};
  return nn_run_parallel(sample->call, sample->images * sample->points,
                         (sample->channels + 8) * 8, slope_slice, &w);
}
