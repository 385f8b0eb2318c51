/* SPDX-License-Identifier: Apache-2.0
 * taps.c: taps.h. With antialiasing these are the weights of Pillow's
 * Resample.c: a filter that is as wide as the pixels of the result. Without,
 * they are those of torch's interpolate.
 */
#include "taps.h"

#include <math.h>
#include <string.h>

image_axis image_whole_axis(int64_t n_in, int64_t n_out, int32_t filter,
                            bool antialias) {
  return (image_axis){.n_in = n_in,
                      .last = (double)n_in,
                      .n_all = n_out,
                      .n_out = n_out,
                      .filter = filter,
                      .antialias = antialias};
}

static bool is_identity(const image_axis *a) {
  return a->n_in == a->n_all && a->first == 0 && a->last == (double)a->n_in &&
         a->begin == 0 && a->n_out == a->n_all && !a->is_mirrored;
}

/* Keys, 1981. */
static double weigh_cubic(double x, double a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static double weigh_smoothly(int32_t filter, double x) {
  const double d = fabs(x);
  if (filter == IMAGE_BICUBIC) return weigh_cubic(d, -0.5);
  return d < 1 ? 1 - d : 0;
}

/* Half of the width of the filter. */
static double find_support(const image_axis *a) {
  const double scale = (a->last - a->first) / (double)a->n_all;
  const double own = a->filter == IMAGE_BICUBIC ? 2 : 1;
  return own * (a->antialias && scale > 1 ? scale : 1);
}

static int64_t clamp_index(double x, int64_t most) {
  return x < 0 ? 0 : x > (double)most ? most : (int64_t)x;
}

/* Weights of a pixel by antialiasing; `w` has room for all of them. */
static void fill_smooth(const image_axis *a, int64_t o, int64_t *first,
                        int64_t *count, double *w) {
  const double scale = (a->last - a->first) / (double)a->n_all;
  const double support = find_support(a);
  const double wide = scale > 1 ? scale : 1, narrow = 1 / wide;
  const double centre = a->first + ((double)o + 0.5) * scale;
  double sum = 0;
  *first = clamp_index(centre - support + 0.5, a->n_in);
  *count = clamp_index(centre + support + 0.5, a->n_in) - *first;
  for (int64_t k = 0; k < *count; ++k) {
    w[k] = weigh_smoothly(a->filter,
                          ((double)(k + *first) - centre + 0.5) * narrow);
    sum += w[k];
  }
  for (int64_t k = 0; k < *count; ++k)
    if (sum != 0) w[k] /= sum;
}

/* Weights of a pixel by interpolation: pixels outside are those at the ends. */
static void fill_direct(const image_axis *a, int64_t o, int64_t *first,
                        int64_t *count, double *w) {
  const double scale = (a->last - a->first) / (double)a->n_all;
  const bool is_cubic = a->filter == IMAGE_BICUBIC;
  double at = a->first + ((double)o + 0.5) * scale - 0.5;
  if (!is_cubic && at < 0) at = 0;
  const double below = floor(at);
  const double t = at - below, start = below - (is_cubic ? 1 : 0);
  const int64_t n = is_cubic ? 4 : 2;
  *first = clamp_index(start, a->n_in - 1);
  *count = clamp_index(start + (double)(n - 1), a->n_in - 1) - *first + 1;
  for (int64_t k = 0; k < *count; ++k) w[k] = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double d = fabs(t - (double)(k - (is_cubic ? 1 : 0)));
    const int64_t i = clamp_index(start + (double)k, a->n_in - 1) - *first;
    w[i] += is_cubic ? weigh_cubic(d, -0.75) : 1 - d;
  }
}

static void fill_nearest(const image_axis *a, int64_t o, int64_t *first,
                         int64_t *count, double *w) {
  const double scale = (a->last - a->first) / (double)a->n_all;
  *first =
      clamp_index(floor(a->first + ((double)o + 0.5) * scale), a->n_in - 1);
  *count = 1;
  w[0] = 1;
}

/* Memory of the weights. */
typedef struct taps_memory {
  int64_t *first, *count;
  double *line; /* of one pixel */
  int32_t *fixed;
  float *weight;
} taps_memory;

static void store_weights(const taps_memory *m, int64_t at, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const double w = m->line[k];
    if (m->fixed)
      m->fixed[at + k] =
          (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << IMAGE_FIXED_BITS));
    else
      m->weight[at + k] = (float)w;
  }
}

static void fill_all(const image_axis *a, int64_t most, const taps_memory *m) {
  for (int64_t i = 0; i < a->n_out; ++i) {
    const int64_t to = a->is_mirrored ? a->n_out - 1 - i : i;
    const int64_t o = a->begin + i;
    if (a->filter == IMAGE_NEAREST)
      fill_nearest(a, o, &m->first[to], &m->count[to], m->line);
    else if (a->antialias)
      fill_smooth(a, o, &m->first[to], &m->count[to], m->line);
    else
      fill_direct(a, o, &m->first[to], &m->count[to], m->line);
    store_weights(m, to * most, m->count[to]);
  }
}

bool image_make_taps(const image_axis *axis, bool is_fixed, image_room *room,
                     image_taps *taps) {
  const double wide = ceil(find_support(axis)) * 2 + 1;
  const double limit = (double)axis->n_in < 4 ? 4 : (double)axis->n_in;
  const int64_t most = (int64_t)(wide < limit ? wide : limit);
  const int64_t n = axis->n_out;
  *taps = (image_taps){.n = n, .most = most, .is_identity = is_identity(axis)};
  if (n < 1 || most > INT32_MAX || n > INT32_MAX) return n < 1;
  char *at = image_reserve(room, n * (2 + most) + most, 8);
  if (!at) return false;
  taps_memory m = {.line = (double *)(void *)at};
  m.first = (int64_t *)(void *)(m.line + most);
  m.count = m.first + n;
  if (is_fixed)
    m.fixed = (int32_t *)(void *)(m.count + n);
  else
    m.weight = (float *)(void *)(m.count + n);
  fill_all(axis, most, &m);
  taps->first = m.first;
  taps->count = m.count;
  taps->fixed = m.fixed;
  taps->weight = m.weight;
  return true;
}
