/* SPDX-License-Identifier: Apache-2.0
 * sample_taps.h: the taps of a position in an image: the elements that an
 * interpolation reads, and their weights. Kernels of every device include it.
 */
#ifndef NN_SAMPLE_TAPS_H_
#define NN_SAMPLE_TAPS_H_

#include "tenon/kernel/math.h"

/* Values of the parameters of grid_sample.yaml. */
enum { NN_SAMPLE_LINEAR, NN_SAMPLE_NEAREST, NN_SAMPLE_CUBIC };
enum { NN_SAMPLE_ZEROS, NN_SAMPLE_BORDER, NN_SAMPLE_REFLECTION };

enum {
  NN_SAMPLE_RANK = 3,
  NN_SAMPLE_TAPS = 16 /* largest number of taps of a position */
};

/* An interpolation in images of two or three dimensions. */
typedef struct nn_sample_rule {
  int32_t mode;
  int32_t padding;
  int32_t align_corners;
  int32_t rank;
  int64_t size[NN_SAMPLE_RANK]; /* of an image; 1 before its first dimension */
} nn_sample_rule;

/* Elements along one dimension, at most four. */
typedef struct nn_sample_line {
  int32_t n;
  int32_t reserved;
  int64_t at[4]; /* -1: outside */
  double weight[4];
  double slope[4]; /* derivative of the weight by the coordinate */
} nn_sample_line;

/* Elements of an image. */
typedef struct nn_sample_taps {
  int32_t n;
  int32_t reserved;
  int64_t at[NN_SAMPLE_TAPS]; /* position in the image; -1: outside */
  double weight[NN_SAMPLE_TAPS];
} nn_sample_taps;

/* Returns x limited to an image of n elements, and clears *factor if it is
 * outside; NaN becomes 0. [any] */
TN_MATH_FN double nn_sample_clip(double x, int64_t n, double *factor) {
  const double last = (double)(n - 1);
  if (x > 0 && x < last) return x;
  *factor = 0;
  return x > 0 ? last : 0;
}

/* Returns x reflected at the ends of an image until it is inside: at the
 * centres of the last elements, or at their borders. Changes the sign of
 * *factor with each reflection. [any] */
TN_MATH_FN double nn_sample_reflect(const nn_sample_rule *rule, double x,
                                    int64_t n, double *factor) {
  const double low = rule->align_corners ? 0 : -0.5;
  const double span = rule->align_corners ? (double)(n - 1) : (double)n;
  if (!(span > 0) || !(fabs(x) < 1e18)) {
    *factor = 0;
    return 0;
  }
  if (x < low) *factor = -*factor;
  const double from = fabs(x - low);
  const double rest = fmod(from, span);
  const int is_odd = fmod(floor(from / span), 2.0) > 0.5;
  if (is_odd) *factor = -*factor;
  return nn_sample_clip((is_odd ? span - rest : rest) + low, n, factor);
}

/* Returns a position inside of the image, as the rule moves it; not for
 * NN_SAMPLE_ZEROS. [any] */
TN_MATH_FN double nn_sample_move(const nn_sample_rule *rule, double x,
                                 int64_t n, double *factor) {
  return rule->padding == NN_SAMPLE_REFLECTION
             ? nn_sample_reflect(rule, x, n, factor)
             : nn_sample_clip(x, n, factor);
}

/* Sets the four weights of a cubic interpolation at `r` after the second
 * element, and their derivatives. [any] */
TN_MATH_FN void nn_sample_set_cubic(nn_sample_line *line, double r) {
  const double a = -0.75;
  for (int k = 0; k < 4; ++k) {
    const double sign = k < 2 ? 1 : -1; /* of the derivative of the distance */
    const double d = sign * (r + 1 - k);
    line->weight[k] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                             : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    line->slope[k] = sign * (d <= 1 ? (3 * (a + 2) * d - 2 * (a + 3)) * d
                                    : (3 * a * d - 10 * a) * d + 8 * a);
  }
}

/* Returns the index of a whole position, -1 if it is outside. [any] */
TN_MATH_FN int64_t nn_sample_find_index(const nn_sample_rule *rule, double x,
                                        int64_t n) {
  double factor = 1;
  if (rule->padding != NN_SAMPLE_ZEROS)
    return (int64_t)nearbyint(nn_sample_move(rule, x, n, &factor));
  return x >= 0 && x < (double)n ? (int64_t)x : -1;
}

/* Sets the elements along a dimension of n elements for a position x, which
 * counts elements. Derivatives are multiplied by `factor`. [any] */
TN_MATH_FN void nn_sample_set_line(const nn_sample_rule *rule, int64_t n,
                                   double x, double factor,
                                   nn_sample_line *line) {
  line->n = rule->mode == NN_SAMPLE_LINEAR ? 2 : 1;
  if (rule->mode == NN_SAMPLE_CUBIC) line->n = 4;
  if (rule->padding != NN_SAMPLE_ZEROS && line->n < 4)
    x = nn_sample_move(rule, x, n, &factor);
  if (!(fabs(x) < 1e18)) {
    line->n = rule->padding == NN_SAMPLE_ZEROS ? 0 : 1;
    line->at[0] = nn_sample_find_index(rule, x, n);
    line->weight[0] = 1;
    line->slope[0] = 0;
    return;
  }
  const double first = floor(x);
  if (line->n == 4) nn_sample_set_cubic(line, x - first);
  if (line->n == 2) {
    line->weight[0] = 1 - (x - first);
    line->weight[1] = x - first;
    line->slope[0] = -1;
    line->slope[1] = 1;
  }
  if (line->n == 1) {
    line->weight[0] = 1;
    line->slope[0] = 0;
    line->at[0] = nn_sample_find_index(rule, nearbyint(x), n);
    return;
  }
  for (int k = 0; k < line->n; ++k) {
    const double at = first + k - (line->n == 4 ? 1 : 0);
    line->at[k] = nn_sample_find_index(rule, at, n);
    line->slope[k] *= factor;
  }
}

/* Sets the elements along a dimension of n elements for a coordinate, which is
 * -1 and 1 at the ends. [any] */
TN_MATH_FN void nn_sample_find_line(const nn_sample_rule *rule, int64_t n,
                                    double coordinate, nn_sample_line *line) {
  const double half = (double)(rule->align_corners ? n - 1 : n) / 2;
  const double x = (coordinate + 1) * half - (rule->align_corners ? 0 : 0.5);
  nn_sample_set_line(rule, n, x, half, line);
}

/* Returns the elements of an image from those along its dimensions. A
 * dimension `by` has derivatives in place of its weights; -1: none. [any] */
TN_MATH_FN nn_sample_taps nn_sample_join_lines(const nn_sample_rule *rule,
                                               const nn_sample_line *lines,
                                               int by) {
  nn_sample_taps taps;
  taps.n = 1;
  taps.at[0] = 0;
  taps.weight[0] = 1;
  for (int d = NN_SAMPLE_RANK - rule->rank; d < NN_SAMPLE_RANK; ++d) {
    const nn_sample_line *line = &lines[d];
    const double *w = d == by ? line->slope : line->weight;
    for (int k = taps.n * line->n - 1; k >= 0; --k) {
      const int before = k / line->n, own = k % line->n;
      const int is_outside = taps.at[before] < 0 || line->at[own] < 0;
      taps.weight[k] = is_outside ? 0 : taps.weight[before] * w[own];
      taps.at[k] =
          is_outside ? -1 : taps.at[before] * rule->size[d] + line->at[own];
    }
    taps.n *= line->n;
  }
  return taps;
}

#endif /* NN_SAMPLE_TAPS_H_ */
