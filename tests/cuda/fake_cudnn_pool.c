/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_pool.c: pooling for fake_cudnn.c, a window at a time.
 */
#include <math.h>
#include <stdlib.h>

#include "dnn.h"
#include "fake_cudnn_conv.h"

/* A window of an image: its elements, and how many there would be without the
 * edges. */
typedef struct window {
  int64_t from[3];
  int64_t to[3];
  double elements;
} window;

static window window_at(const pool_work *k, const int64_t o[3]) {
  window w = {.elements = 1};
  int64_t inside = 1;
  for (int d = 0; d < 3; ++d) {
    const int64_t begin = o[d] * k->stride[d] - k->pad[d];
    const int64_t end = begin + k->window[d];
    w.from[d] = begin < 0 ? 0 : begin;
    w.to[d] = end > k->x[d + 2] ? k->x[d + 2] : end;
    inside *= w.to[d] - w.from[d];
    w.elements *= (double)k->window[d];
  }
  if (k->mode == DNN_POOL_MEAN_INSIDE) w.elements = (double)inside;
  return w;
}

/* One window: the largest and the sum of its elements; in a gradient `share` is
 * added to each. */
static double visit(const pool_work *k, const window *w, double *image,
                    double share) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = w->from[0]; i < w->to[0]; ++i)
    for (int64_t j = w->from[1]; j < w->to[1]; ++j)
      for (int64_t l = w->from[2]; l < w->to[2]; ++l) {
        double *v = &image[(i * k->x[3] + j) * k->x[4] + l];
        if (isnan(*v) || *v > largest) largest = *v;
        if (isnan(largest)) return largest;
        sum += *v;
        *v += share;
      }
  return k->mode == DNN_POOL_MAX ? largest : sum / w->elements;
}

/* Calls visit for all windows of an image. */
static void run_image(const pool_work *k, double *image, void *out,
                      int64_t at) {
  int64_t o[3];
  for (o[0] = 0; o[0] < k->y[2]; ++o[0])
    for (o[1] = 0; o[1] < k->y[3]; ++o[1])
      for (o[2] = 0; o[2] < k->y[4]; ++o[2], ++at) {
        const window w = window_at(k, o);
        if (k->is_gradient)
          (void)visit(k, &w, image, fake_get(out, k->type, at) / w.elements);
        else
          fake_put(out, k->type, at, visit(k, &w, image, 0));
      }
}

void pool_run(fake *f, const void *arg) {
  const pool_work *k = arg;
  const int64_t size = k->x[2] * k->x[3] * k->x[4];
  const int64_t windows = k->y[2] * k->y[3] * k->y[4];
  void *x = fake_reach(f, k->at[0]), *y = fake_reach(f, k->at[1]);
  double *image = malloc((size_t)size * sizeof *image);
  if (!image) abort();
  for (int64_t n = 0; n < k->x[0] * k->x[1]; ++n) {
    for (int64_t i = 0; i < size; ++i)
      image[i] = k->is_gradient ? 0 : fake_get(x, k->type, n * size + i);
    run_image(k, image, y, n * windows);
    for (int64_t i = 0; k->is_gradient && i < size; ++i)
      fake_put(x, k->type, n * size + i, image[i]);
  }
  free(image);
}
