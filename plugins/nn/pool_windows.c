/* SPDX-License-Identifier: Apache-2.0
 * pool_windows.c: computes a pooling window by window (pool_windows.h), for
 * windows with dilation.
 */
#include "pool_windows.h"

#include <math.h>
#include <string.h>

#include "pool_largest.h"

#define LOOPS(type, name)                                                     \
  /* Returns the position of the largest element of a window, -1 if it has    \
   * none: the first of several, or the first NaN. */                         \
  static int64_t find_largest_##name(                                         \
      const nn_pool *pool, const nn_pool_place *b, const type *data) {        \
    int64_t best = -1;                                                        \
    NN_POOL_EACH_ELEMENT(&pool->window, b, at) {                              \
      if (best >= 0 && isnan(data[best])) break;                              \
      if (best < 0 || data[at] > data[best] || isnan(data[at])) best = at;    \
    }                                                                         \
    return best;                                                              \
  }                                                                           \
  /* Returns the result of a window. */                                       \
  static type pool_window_##name(const nn_pool *pool, const nn_pool_place *b, \
                                 const type *data) {                          \
    type sum = 0;                                                             \
    if (pool->kind == NN_POOL_MAX) {                                          \
      const int64_t best = find_largest_##name(pool, b, data);                \
      return best < 0 ? -(type)INFINITY : data[best];                         \
    }                                                                         \
    NN_POOL_EACH_ELEMENT(&pool->window, b, at) sum += data[at];               \
    return pool->kind == NN_POOL_AVG ? sum / (type)b->count : sum;            \
  }                                                                           \
  /* Adds the gradient of a window to its elements. */                        \
  static void add_window_##name(const nn_pool_image *image,                   \
                                const nn_pool_place *b, type gradient) {      \
    const nn_pool *pool = image->pool;                                        \
    type *to = image->to;                                                     \
    if (pool->kind == NN_POOL_MAX) {                                          \
      const int64_t best = find_largest_##name(pool, b, image->data);         \
      if (best >= 0) to[best] += gradient;                                    \
      return;                                                                 \
    }                                                                         \
    if (pool->kind == NN_POOL_AVG) gradient /= (type)b->count;                \
    NN_POOL_EACH_ELEMENT(&pool->window, b, at) to[at] += gradient;            \
  }                                                                           \
  /* Computes all windows of an image, or its gradient. */                    \
  static void run_##name(const nn_pool_image *image) {                        \
    const nn_pool *pool = image->pool;                                        \
    const type *head = image->out_gradient;                                   \
    type *out = image->out;                                                   \
    if (head && !image->add)                                                  \
      memset(image->to, 0, (size_t)pool->in_size * sizeof(type));             \
    for (int64_t i = 0; i < pool->out_size; ++i) {                            \
      const nn_pool_place b = nn_pool_find_place(pool, i);                    \
      if (head) {                                                             \
        add_window_##name(image, &b, head[i]);                                \
        continue;                                                             \
      }                                                                       \
      const type y = pool_window_##name(pool, &b, image->data);               \
      out[i] = image->add ? out[i] + y : y;                                   \
    }                                                                         \
  }
LOOPS(float, f32)
LOOPS(double, f64)

#define LARGEST(type, name)                                            \
  /* Stores the largest elements of n windows from o on, or adds their \
   * gradients. */                                                     \
  static void store_##name(const nn_pool_image *image,                 \
                           const nn_pool_largest *chunk, int64_t o,    \
                           int64_t n) {                                \
    const type *head = image->out_gradient;                            \
    const type *values = (const type *)(const void *)chunk->values;    \
    type *to = image->to, *out = image->out;                           \
    for (int64_t i = 0; i < n && !head; ++i)                           \
      out[o + i] = image->add ? out[o + i] + values[i] : values[i];    \
    for (int64_t i = 0; i < n && head; ++i) {                          \
      const int64_t at = nn_pool_get_index(chunk, image->dtype, i);    \
      if (at >= 0) to[at] += head[o + i];                              \
    }                                                                  \
  }
LARGEST(float, f32)
LARGEST(double, f64)

/* Computes the largest elements of an image, or their gradient, by lines. */
static void run_lines(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t bytes = tn_dtype_bytes(image->dtype);
  nn_pool_largest chunk;
  if (image->out_gradient && !image->add)
    memset(image->to, 0, (size_t)(image->pool->in_size * bytes));
  for (int64_t i = 0; i < w->out[0] * w->out[1]; ++i)
    for (int64_t o = 0; o < w->out[2]; o += NN_POOL_CHUNK) {
      const int64_t n = nn_min(NN_POOL_CHUNK, w->out[2] - o);
      const nn_pool_line line = {.pool = image->pool,
                                 .mode = {image->dtype, image->level},
                                 .image = image->data,
                                 .number = i,
                                 .windows = {o, o + n}};
      nn_pool_find_line(&line, &chunk);
      if (image->dtype == TN_F32)
        store_f32(image, &chunk, i * w->out[2] + o, n);
      else
        store_f64(image, &chunk, i * w->out[2] + o, n);
    }
}

void nn_pool_run_windows(const nn_pool_image *image) {
  const nn_pool *pool = image->pool;
  if (pool->kind == NN_POOL_MAX && pool->in_size <= INT32_MAX)
    run_lines(image);
  else if (image->dtype == TN_F32)
    run_f32(image);
  else
    run_f64(image);
}
