/* SPDX-License-Identifier: Apache-2.0
 * sample_points.c: the taps of points of a grid (sample_points.h). Linear
 * interpolation in two dimensions computes them with vectors, the rest point by
 * point.
 */
#include "sample_points.h"

#include <math.h>

#include "axis.h"
#include "operands.h"

enum { BLOCK = NN_SAMPLE_BLOCK };

/* ----------------------------------------------------------- point by point */

/* Sets the elements along each dimension for a point of an image. */
static void find_lines(const nn_sample_points *points, int64_t p,
                       nn_sample_line *lines) {
  const nn_sample *s = points->sample;
  const int64_t at =
      points->image * s->grid_step + (points->first + p) * s->point_step;
  for (int k = 0; k < s->rule.rank; ++k) {
    const int d = NN_SAMPLE_RANK - 1 - k;
    nn_sample_find_line(&s->rule, s->rule.size[d],
                        nn_operands_get(s->mode.compute, points->grid,
                                        at + k * s->coordinate_step),
                        &lines[d]);
  }
}

/* Returns the largest number of taps of a point. */
static int32_t count_taps(const nn_sample_rule *rule) {
  if (rule->mode == NN_SAMPLE_NEAREST) return 1;
  return rule->mode == NN_SAMPLE_CUBIC ? 16 : 1 << rule->rank;
}

/* Sets the slopes of point p. */
static void set_slopes(const nn_sample *s, const nn_sample_line *lines,
                       int64_t p, nn_sample_slopes *slopes) {
  for (int k = 0; k < s->rule.rank; ++k) {
    const nn_sample_taps taps =
        nn_sample_join_lines(&s->rule, lines, NN_SAMPLE_RANK - 1 - k);
    for (int t = 0; t < count_taps(&s->rule); ++t)
      slopes->of[k][t * BLOCK + p] =
          t < taps.n && taps.at[t] >= 0 ? taps.weight[t] : 0;
  }
}

static void fill_by_point(const nn_sample_points *points,
                          nn_sample_block *block, nn_sample_slopes *slopes) {
  const nn_sample *s = points->sample;
  nn_sample_line lines[NN_SAMPLE_RANK];
  for (int64_t p = 0; p < points->n; ++p) {
    find_lines(points, p, lines);
    const nn_sample_taps taps = nn_sample_join_lines(&s->rule, lines, -1);
    nn_sample_set_position(block, s->mode.compute, p, &taps);
    if (slopes) set_slopes(s, lines, p, slopes);
  }
}

/* ------------------------------------------------------ two dimensions, linear
 */

/* The two elements along one dimension for each point of a block. */
typedef struct pairs {
  int32_t at[2][BLOCK];
  double weight[2][BLOCK];
  double slope[2][BLOCK];
} pairs;

/* The arguments of a loop over the points of a block. */
typedef struct pairs_args {
  const nn_sample *sample;
  nn_sample_block *block;
  nn_sample_slopes *slopes; /* or NULL */
} pairs_args;

/* Finds the pairs of n coordinates, `step` elements apart. The products have a
 * loop of their own, so that no level fuses them with the subtraction: a
 * position at the border of two elements must not move to the other side. */
#define FIND_PAIRS(name, type)                                               \
  TN_KERNEL_BODY void name(const nn_sample_rule *rule, int32_t size,         \
                           const type *coordinate, int64_t step, int64_t n,  \
                           pairs *to) {                                      \
    const double half = (double)(rule->align_corners ? size - 1 : size) / 2; \
    const double shift = rule->align_corners ? 0 : 0.5;                      \
    const double last = size - 1;                                            \
    const int moves = rule->padding == NN_SAMPLE_BORDER;                     \
    double scaled[BLOCK];                                                    \
    for (int64_t p = 0; p < n; ++p)                                          \
      scaled[p] = ((double)coordinate[p * step] + 1) * half;                 \
    for (int64_t p = 0; p < n; ++p) {                                        \
      const double given = scaled[p] - shift;                                \
      const int within = (given > 0) & (given < last);                       \
      const double moved = given > 0 ? last : 0;                             \
      double x = moves && !within ? moved : given;                           \
      const int inside = (x >= -1) & (x < size);                             \
      x = inside ? x : 0;                                                    \
      const double first = floor(x), slope = moves && !within ? 0 : half;    \
      const int32_t i = (int32_t)first;                                      \
      const int low = inside & (i >= 0), high = inside & (i + 1 < size);     \
      to->at[0][p] = i < 0 ? 0 : i;                                          \
      to->at[1][p] = i + 1 < size ? i + 1 : size - 1;                        \
      to->weight[0][p] = low ? 1 - (x - first) : 0;                          \
      to->weight[1][p] = high ? x - first : 0;                               \
      to->slope[0][p] = low ? -slope : 0;                                    \
      to->slope[1][p] = high ? slope : 0;                                    \
    }                                                                        \
  }
FIND_PAIRS(find_pairs_f32, float)
FIND_PAIRS(find_pairs_f64, double)

/* Sets tap t = 2*i + k of n points: element i along the first dimension, k
 * along the second. */
#define JOIN_PAIRS(name, type)                                           \
  TN_KERNEL_BODY void name(const pairs_args *args, const pairs *y,       \
                           const pairs *x, int64_t n) {                  \
    const int32_t width = (int32_t)args->sample->rule.size[2];           \
    for (int t = 0; t < 4; ++t) {                                        \
      const int i = t / 2, k = t % 2;                                    \
      int32_t *at = args->block->at + t * BLOCK;                         \
      type *weight = (type *)(void *)args->block->weight + t * BLOCK;    \
      for (int64_t p = 0; p < n; ++p) {                                  \
        at[p] = y->at[i][p] * width + x->at[k][p];                       \
        weight[p] = (type)(y->weight[i][p] * x->weight[k][p]);           \
      }                                                                  \
      for (int64_t p = 0; args->slopes && p < n; ++p) {                  \
        double *by_x = args->slopes->of[0], *by_y = args->slopes->of[1]; \
        by_x[t * BLOCK + p] = y->weight[i][p] * x->slope[k][p];          \
        by_y[t * BLOCK + p] = y->slope[i][p] * x->weight[k][p];          \
      }                                                                  \
    }                                                                    \
  }
JOIN_PAIRS(join_pairs_f32, float)
JOIN_PAIRS(join_pairs_f64, double)

/* Fills a block from the first coordinates of its points, run->in[0]. */
#define FILL_PAIRS(name, type, find, join)                                     \
  TN_KERNEL_BODY void name(const tn_kernel_block *run, const void *params) {   \
    const pairs_args *args = params;                                           \
    const nn_sample *s = args->sample;                                         \
    const type *grid = run->in[0];                                             \
    pairs x, y;                                                                \
    find(&s->rule, (int32_t)s->rule.size[2], grid, s->point_step, run->n, &x); \
    find(&s->rule, (int32_t)s->rule.size[1], grid + s->coordinate_step,        \
         s->point_step, run->n, &y);                                           \
    join(args, &y, &x, run->n);                                                \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
FILL_PAIRS(fill_pairs_f32, float, find_pairs_f32, join_pairs_f32)
FILL_PAIRS(fill_pairs_f64, double, find_pairs_f64, join_pairs_f64)

/* Tests whether an interpolation has pairs of elements. Reflections are
 * computed point by point. */
static int has_pairs(const nn_sample_rule *rule) {
  return rule->rank == 2 && rule->mode == NN_SAMPLE_LINEAR &&
         rule->padding != NN_SAMPLE_REFLECTION;
}

void nn_sample_fill_points(const nn_sample_points *points,
                           nn_sample_block *block, nn_sample_slopes *slopes) {
  static const nn_loops loops = NN_LOOPS(fill_pairs);
  const nn_sample *s = points->sample;
  const pairs_args args = {s, block, slopes};
  const int64_t at =
      points->image * s->grid_step + points->first * s->point_step;
  block->n = points->n;
  block->taps = count_taps(&s->rule);
  if (!has_pairs(&s->rule)) {
    fill_by_point(points, block, slopes);
    return;
  }
  nn_run_loop(&s->mode, &loops,
              &(tn_kernel_block){.n = points->n,
                                 .in = {(const char *)points->grid +
                                        at * tn_dtype_bytes(s->mode.compute)}},
              &args);
}
