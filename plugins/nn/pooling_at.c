/* SPDX-License-Identifier: Apache-2.0
 * pooling_at.c: reads windows at the position of another array's largest
 * element, on the CPU. Only second gradients need it.
 */
#include "second.gen.h"

#include <math.h>

#include "pool_geometry.h"
#include "pool_windows.h"
#include "tenon/kernel/kernel.h"

typedef struct at_largest_work {
  const tn_frame *call;
  nn_pool pool;
} at_largest_work;

/* Returns element `at` of a tensor as f64. */
static double read_element(const tn_tensor *from, int64_t at) {
  const tn_kernel_mode mode = {TN_F64, 0};
  double x;
  tn_kernel_load_dense(
      &x, &mode, (const char *)from->data + at * tn_dtype_bytes(from->dtype),
      from->dtype, 1);
  return x;
}

/* State of the computation of one window: values of the elements that were
 * visited. */
typedef struct window_state {
  double largest;
  double chosen; /* element of input 1 at the position of the largest element of
                    input 0; 0 if the window is empty */
  double sum;
  int64_t n;
} window_state;

/* Adds the element at position `at` of both inputs to the state of a window. */
static void add_element(const at_largest_work *w, int64_t at, window_state *s) {
  const double from = read_element(&w->call->in[1], at);
  s->sum += from;
  if (w->pool.kind == NN_POOL_MAX && !isnan(s->largest)) {
    const double x = read_element(&w->call->in[0], at);
    if (s->n == 0 || x > s->largest || isnan(x)) {
      s->largest = x;
      s->chosen = from;
    }
  }
  ++s->n;
}

/* Returns the result of one window: the sum or mean of input 1, or its element
 * at the position of the largest element of input 0. */
static double pool_window(const at_largest_work *w, int64_t image,
                          int64_t number) {
  const int64_t *in = w->pool.window.in;
  const nn_pool_place b = nn_pool_find_place(&w->pool, number);
  const int64_t *step = w->pool.window.dilate;
  const int64_t first = image * w->pool.in_size;
  window_state s = {0, 0, 0, 0};
  for (int64_t z = b.begin[0]; z < b.end[0]; z += step[0])
    for (int64_t y = b.begin[1]; y < b.end[1]; y += step[1])
      for (int64_t x = b.begin[2]; x < b.end[2]; x += step[2])
        add_element(w, first + (z * in[1] + y) * in[2] + x, &s);
  if (w->pool.kind == NN_POOL_MAX) return s.chosen;
  return w->pool.kind == NN_POOL_AVG ? s.sum / (double)b.count : s.sum;
}

/* Computes images [begin, end). */
static int32_t pool_images(void *arg, int64_t begin, int64_t end) {
  const at_largest_work *w = (const at_largest_work *)arg;
  const tn_tensor *out = &w->call->out[0];
  const tn_kernel_mode mode = {TN_F64, 0};
  for (int64_t i = begin * w->pool.out_size; i < end * w->pool.out_size; ++i) {
    const double y = pool_window(w, i / w->pool.out_size, i % w->pool.out_size);
    tn_kernel_store_dense((char *)out->data + i * tn_dtype_bytes(out->dtype),
                          out->dtype, &y, &mode, 1);
  }
  return TN_OK;
}

/* Computes windows of input 1 at the positions of the largest elements of
 * input 0. */
int32_t nn_pooling_at(const tn_frame *call) {
  at_largest_work w = {call, nn_pool_make(call)};
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  return call->host->parallel_for(
      call, nn_pool_count_images(call),
      nn_max(TN_KERNEL_GRAIN / 16 / (w.pool.out_size + 1), 1), pool_images, &w);
}
