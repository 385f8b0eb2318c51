/* SPDX-License-Identifier: Apache-2.0
 * lp_pooling.c: shapes and kernels of lp_pooling.yaml, window by window.
 */
#include "lp_pooling.gen.h"

#include <math.h>
#include <string.h>

#include "axis.h"
#include "lp_pooling_view.h"
#include "operands.h"
#include "pool_windows.h"

int32_t nn_lp_pooling_infer(const tn_frame *call) {
  nn_pool_call own;
  nn_lp_pooling_make_call(call, &own);
  return nn_pooling_infer(&own.frame);
}

/* ------------------------------------------------------------------- loops */

/* A call in f32 or f64, as the argument of a parallel loop over images. */
typedef struct lp_work {
  nn_pool pool;
  double p;
  tn_dtype dtype;
  const char *data;
  char *out; /* backward: the result of the forward pass, which is read */
  const char *out_gradient; /* NULL in forward passes */
  char *to;                 /* the gradient of data */
  int add;
} lp_work;

#define LOOPS(type, name, power, root, magnitude)                             \
  /* Returns x^p for x of at least 0. */                                      \
  static type raise_##name(type x, double p) {                                \
    if (p >= 2 && p <= 2) return x * x;                                       \
    return p <= 1 ? x : power(x, (type)p);                                    \
  }                                                                           \
  /* Returns the result of a window. */                                       \
  static type reduce_window_##name(const lp_work *w, const nn_pool_place *b,  \
                                   const type *x) {                           \
    type sum = 0;                                                             \
    NN_POOL_EACH_ELEMENT(&w->pool.window, b, at)                              \
    sum += raise_##name(magnitude(x[at]), w->p);                              \
    if (w->p >= 2 && w->p <= 2) return root(sum);                             \
    return w->p <= 1 ? sum : power(sum, (type)(1 / w->p));                    \
  }                                                                           \
  /* Adds the gradient of a window with the result y to its elements. */      \
  static void add_window_##name(const lp_work *w, const nn_pool_place *b,     \
                                const type *x, type *to, type y, type head) { \
    if (y >= 0 && y <= 0) return;                                             \
    NN_POOL_EACH_ELEMENT(&w->pool.window, b, at) {                            \
      const type part = raise_##name(magnitude(x[at]) / y, w->p - 1);         \
      const type sign = x[at] > 0 ? 1 : x[at] < 0 ? -1 : x[at];               \
      to[at] += head * sign * (w->p <= 1 ? 1 : part);                         \
    }                                                                         \
  }                                                                           \
  /* Computes the windows of image i, or the gradient of its elements. */     \
  static void run_image_##name(const lp_work *w, int64_t i) {                 \
    const int64_t in = i * w->pool.in_size, out = i * w->pool.out_size;       \
    const type *x = (const type *)(const void *)w->data + in;                 \
    const type *head = (const type *)(const void *)w->out_gradient;           \
    type *y = (type *)(void *)w->out + out;                                   \
    type *to = (type *)(void *)w->to;                                         \
    if (head) {                                                               \
      to += in;                                                               \
      head += out;                                                            \
      if (!w->add) memset(to, 0, (size_t)w->pool.in_size * sizeof *to);       \
    }                                                                         \
    for (int64_t o = 0; o < w->pool.out_size; ++o) {                          \
      const nn_pool_place b = nn_pool_find_place(&w->pool, o);                \
      if (head)                                                               \
        add_window_##name(w, &b, x, to, y[o], head[o]);                       \
      else if (w->add)                                                        \
        y[o] += reduce_window_##name(w, &b, x);                               \
      else                                                                    \
        y[o] = reduce_window_##name(w, &b, x);                                \
    }                                                                         \
  }
LOOPS(float, f32, powf, sqrtf, fabsf)
LOOPS(double, f64, pow, sqrt, fabs)

/* Computes images [begin, end). */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const lp_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    if (w->dtype == TN_F32)
      run_image_f32(w, i);
    else
      run_image_f64(w, i);
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- kernels */

/* Runs a pass over all images. */
static int32_t run_images(const tn_frame *call, lp_work *w) {
  nn_pool_call own;
  nn_lp_pooling_make_call(call, &own);
  const int64_t taps = nn_window_multiply_lengths(w->pool.window.kernel);
  const int64_t n = nn_pool_count_images(&own.frame);
  if (w->pool.in_size + w->pool.out_size == 0) return TN_OK;
  return nn_run_parallel(call, n, w->pool.in_size + 8 * w->pool.out_size * taps,
                         run_slice, w);
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_lp_pooling_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call);
  return TN_OK;
}

int32_t nn_lp_pooling(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  lp_work w = {.pool = nn_lp_pooling_make_pool(call),
               .p = nn_lp_pooling_params_of(call)->p_value,
               .dtype = x.dtype,
               .data = nn_operands_open_input(&x, NN_LP_POOLING_IN_DATA),
               .out = nn_operands_open_output(&x, NN_LP_POOLING_OUT_OUT),
               .add = nn_operands_is_added(&x, NN_LP_POOLING_OUT_OUT)};
  const int32_t code = run_images(call, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.out);
  return code;
}

int32_t nn_lp_pooling_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  lp_work w = {
      .pool = nn_lp_pooling_make_pool(call),
      .p = nn_lp_pooling_params_of(call)->p_value,
      .dtype = x.dtype,
      .data = nn_operands_open_input(&x, NN_LP_POOLING_BACKWARD_IN_DATA),
      .out = nn_operands_open_input(&x, NN_LP_POOLING_BACKWARD_OUT_OUT),
      .out_gradient =
          nn_operands_open_input(&x, NN_LP_POOLING_BACKWARD_GRAD_OUT),
      .to = nn_operands_open_output(&x, NN_LP_POOLING_IN_DATA),
      .add = nn_operands_is_added(&x, NN_LP_POOLING_IN_DATA)};
  const int32_t code = run_images(call, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.to);
  return code;
}
