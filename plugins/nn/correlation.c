/* SPDX-License-Identifier: Apache-2.0
 * correlation.c: shapes and kernels of correlation.yaml. A line of windows is
 * computed at once: for each element of a window, the products of a row of one
 * image with a row of the other.
 */
#include "correlation.gen.h"

#include <string.h>

#include "axis.h"
#include "correlation_view.h"
#include "nn.h"
#include "operands.h"
#include "window.h"

/* ------------------------------------------------------------------ shapes */

/* Sets *out to the number of windows along dimension d of n elements. */
static int32_t infer_dim(const tn_frame *call, int32_t d, int64_t n,
                         int64_t *out) {
  const nn_correlation_params *p = nn_correlation_params_of(call);
  const int64_t border = p->max_displacement + (p->kernel_size - 1) / 2;
  const int64_t room = n + 2 * p->pad_size - 2 * border;
  *out = -1;
  if (n < 0) return TN_OK;
  if (room < 1)
    return TN_FAIL(call, TN_SHAPE,
                   "dimension %d of the images %s with `pad_size` %lld has no "
                   "window: it must be larger than %lld, twice the border of "
                   "max_displacement and half a window",
                   (int)d, nn_print_shape(&call->in[0]).text,
                   (long long)p->pad_size, (long long)(2 * border));
  *out = nn_ceil_div(room, p->stride1);
  return TN_OK;
}

int32_t nn_correlation_infer(const tn_frame *call) {
  const nn_correlation_params *p = nn_correlation_params_of(call);
  const tn_tensor *data = &call->in[0], *result = &call->out[0];
  const int64_t count = 2 * (p->max_displacement / p->stride2) + 1;
  int64_t out[4] = {-1, count * count, -1, -1};
  if (p->kernel_size % 2 == 0)
    return TN_FAIL(call, TN_INVALID, "kernel_size is %lld, but must be odd",
                   (long long)p->kernel_size);
  if (data->ndim == 4) out[0] = data->shape[0];
  if (out[0] < 0 && result->ndim == 4) out[0] = result->shape[0];
  for (int32_t d = 2; d < 4 && data->ndim == 4; ++d) {
    const int32_t code = infer_dim(call, d, data->shape[d], &out[d]);
    if (code != TN_OK) return code;
  }
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 4, out);
}

/* ------------------------------------------------------------------- lines */

/* A line of windows, for one element of a window: window x compares element
 * own + x*stride of a row of one image with element other + x*stride of a row
 * of the other image. A row outside is NULL. */
typedef struct correlation_line {
  const void *own_row;
  const void *other_row;
  int64_t own;
  int64_t other;
} correlation_line;

/* Returns the windows for which element first + x*stride is in a row of n. */
static nn_range find_inside(int64_t first, int64_t stride, int64_t n,
                            nn_range among) {
  const int64_t begin = nn_ceil_div(-first, stride);
  const int64_t end = nn_ceil_div(n - first, stride);
  nn_range found = {nn_max(begin, among.begin), nn_min(end, among.end)};
  if (found.end < found.begin) found.end = found.begin;
  return found;
}

#define LOOPS(type, name)                                                \
  /* Returns an element of a row, 0 for one outside. */                  \
  static double read_##name(const void *row, int64_t i, int64_t n) {     \
    return row && i >= 0 && i < n ? (double)((const type *)row)[i] : 0;  \
  }                                                                      \
  /* Adds the products of a line of windows to `to`. */                  \
  static void add_line_##name(const nn_correlation_view *v,              \
                              const correlation_line *line, type *to) {  \
    const type *a = line->own_row, *b = line->other_row;                 \
    const nn_range all = {0, v->windows[1]};                             \
    nn_range r = find_inside(line->own, v->stride, v->size[1], all);     \
    r = find_inside(line->other, v->stride, v->size[1], r);              \
    if (!v->multiplies)                                                  \
      for (int64_t x = 0; x < all.end; ++x)                              \
        to[x] += (type)nn_correlation_compare(                           \
            v, read_##name(a, line->own + x * v->stride, v->size[1]),    \
            read_##name(b, line->other + x * v->stride, v->size[1]));    \
    if (!v->multiplies || !a || !b) return;                              \
    a += line->own;                                                      \
    b += line->other;                                                    \
    if (v->stride == 1)                                                  \
      for (int64_t x = r.begin; x < r.end; ++x) to[x] += a[x] * b[x];    \
    else                                                                 \
      for (int64_t x = r.begin; x < r.end; ++x)                          \
        to[x] += a[x * v->stride] * b[x * v->stride];                    \
  }                                                                      \
  /* Adds the gradients of a line of windows to the own row, at `to`. */ \
  static void spread_line_##name(const nn_correlation_view *v,           \
                                 const correlation_line *line,           \
                                 const type *head, type *to) {           \
    const type *a = line->own_row, *b = line->other_row;                 \
    const type share = (type)v->share;                                   \
    const nn_range all = {0, v->windows[1]};                             \
    nn_range r = find_inside(line->own, v->stride, v->size[1], all);     \
    if (!v->multiplies)                                                  \
      for (int64_t x = r.begin; x < r.end; ++x) {                        \
        const int64_t at = line->own + x * v->stride;                    \
        const double slope = nn_correlation_derive(                      \
            v, (double)a[at],                                            \
            read_##name(b, line->other + x * v->stride, v->size[1]));    \
        to[at] += head[x] * share * (type)slope;                         \
      }                                                                  \
    if (!v->multiplies || !b) return;                                    \
    r = find_inside(line->other, v->stride, v->size[1], r);              \
    to += line->own;                                                     \
    b += line->other;                                                    \
    for (int64_t x = r.begin; x < r.end; ++x)                            \
      to[x * v->stride] += head[x] * share * b[x * v->stride];           \
  }
LOOPS(float, f32)
LOOPS(double, f64)

/* ------------------------------------------------------------------- calls */

/* A call in f32 or f64, as the argument of a parallel loop. */
typedef struct correlation_work {
  nn_correlation_view view;
  tn_dtype dtype;
  const char *own; /* data1, or the images whose gradient is computed */
  const char *other;
  const char *head; /* the output gradient */
  char *to;
  int sign; /* 1 if `other` is displaced, -1 if `own` is */
} correlation_work;

/* Returns row y of a plane; NULL if it is outside. */
static const void *find_row(const correlation_work *w, const char *array,
                            int64_t plane, int64_t y) {
  const nn_correlation_view *v = &w->view;
  if (y < 0 || y >= v->size[0]) return NULL;
  return array +
         (plane * v->size[0] + y) * v->size[1] * tn_dtype_bytes(w->dtype);
}

/* Returns the line of windows y for element `tap` of windows, in channel
 * `plane` of all images, at a displacement. */
static correlation_line find_line(const correlation_work *w, int64_t plane,
                                  int64_t displacement, int64_t y,
                                  int64_t tap) {
  const nn_correlation_view *v = &w->view;
  const int64_t down = (displacement / v->count - v->reach) * v->step;
  const int64_t across = (displacement % v->count - v->reach) * v->step;
  const int64_t row = v->first + y * v->stride + tap / v->kernel;
  const int64_t column = v->first + tap % v->kernel;
  const int own_moves = w->sign < 0;
  return (correlation_line){
      .own_row = find_row(w, w->own, plane, row + (own_moves ? down : 0)),
      .other_row = find_row(w, w->other, plane, row + (own_moves ? 0 : down)),
      .own = column + (own_moves ? across : 0),
      .other = column + (own_moves ? 0 : across)};
}

/* Multiplies n elements by a factor. */
static void scale_elements(tn_dtype dtype, char *to, int64_t n, double factor) {
  if (dtype == TN_F32)
    for (int64_t i = 0; i < n; ++i) ((float *)(void *)to)[i] *= (float)factor;
  else
    for (int64_t i = 0; i < n; ++i) ((double *)(void *)to)[i] *= factor;
}

/* Computes planes [begin, end) of out. */
static int32_t compare_slice(void *arg, int64_t begin, int64_t end) {
  const correlation_work *w = arg;
  const nn_correlation_view *v = &w->view;
  const int64_t all = v->count * v->count, n = v->windows[0] * v->windows[1];
  const int64_t bytes = tn_dtype_bytes(w->dtype);
  for (int64_t i = begin; i < end; ++i) {
    char *to = w->to + i * n * bytes;
    memset(to, 0, (size_t)(n * bytes));
    for (int64_t k = 0; k < v->windows[0] * v->channels; ++k)
      for (int64_t tap = 0; tap < v->kernel * v->kernel; ++tap) {
        const int64_t y = k / v->channels;
        const int64_t plane = i / all * v->channels + k % v->channels;
        const correlation_line line = find_line(w, plane, i % all, y, tap);
        char *row = to + y * v->windows[1] * bytes;
        if (w->dtype == TN_F32)
          add_line_f32(v, &line, (float *)(void *)row);
        else
          add_line_f64(v, &line, (double *)(void *)row);
      }
    scale_elements(w->dtype, to, n, v->share);
  }
  return TN_OK;
}

/* Adds the gradients of all windows of an image at one displacement to a plane.
 */
static void spread_windows(const correlation_work *w, int64_t plane,
                           int64_t displacement) {
  const nn_correlation_view *v = &w->view;
  const int64_t bytes = tn_dtype_bytes(w->dtype);
  const int64_t image = plane / v->channels;
  const char *head = w->head + (image * v->count * v->count + displacement) *
                                   v->windows[0] * v->windows[1] * bytes;
  for (int64_t y = 0; y < v->windows[0]; ++y)
    for (int64_t tap = 0; tap < v->kernel * v->kernel; ++tap) {
      const correlation_line line = find_line(w, plane, displacement, y, tap);
      const char *h = head + y * v->windows[1] * bytes;
      if (!line.own_row) continue;
      char *to = w->to + ((const char *)line.own_row - w->own);
      if (w->dtype == TN_F32)
        spread_line_f32(v, &line, (const float *)(const void *)h,
                        (float *)(void *)to);
      else
        spread_line_f64(v, &line, (const double *)(const void *)h,
                        (double *)(void *)to);
    }
}

/* Computes planes [begin, end) of the gradient of images. */
static int32_t spread_slice(void *arg, int64_t begin, int64_t end) {
  const correlation_work *w = arg;
  const nn_correlation_view *v = &w->view;
  const int64_t bytes = v->size[0] * v->size[1] * tn_dtype_bytes(w->dtype);
  for (int64_t i = begin; i < end; ++i) {
    memset(w->to + i * bytes, 0, (size_t)bytes);
    for (int64_t d = 0; d < v->count * v->count; ++d) spread_windows(w, i, d);
  }
  return TN_OK;
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_correlation_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call);
  return TN_OK;
}

int32_t nn_correlation(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  correlation_work w = {.view = nn_correlation_view_call(call),
                        .dtype = x.dtype,
                        .own = nn_operands_open_input(&x, 0),
                        .other = nn_operands_open_input(&x, 1),
                        .to = nn_operands_open_output(&x, 0),
                        .sign = 1};
  const nn_correlation_view *v = &w.view;
  const int64_t n = v->windows[0] * v->windows[1];
  const int32_t code = nn_run_parallel(
      call, v->images * v->count * v->count,
      n * v->kernel * v->kernel * (v->channels + 1), compare_slice, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.to);
  return code;
}

int32_t nn_correlation_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const nn_correlation_view view = nn_correlation_view_call(call);
  const char *head = nn_operands_open_input(&x, 0);
  const char *data[] = {nn_operands_open_input(&x, 1),
                        nn_operands_open_input(&x, 2)};
  int32_t code = TN_OK;
  for (uint32_t i = 0; i < 2 && code == TN_OK; ++i) {
    if (call->req[i] == TN_REQ_NULL || tn_tensor_size(&call->out[i]) == 0)
      continue;
    correlation_work w = {.view = view,
                          .dtype = x.dtype,
                          .own = data[i],
                          .other = data[1 - i],
                          .head = head,
                          .to = nn_operands_open_output(&x, i),
                          .sign = i == 0 ? 1 : -1};
    code = nn_run_parallel(
        call, view.images * view.channels,
        view.count * view.count * view.size[0] * view.size[1] * view.kernel,
        spread_slice, &w);
    if (code == TN_OK) nn_operands_close_output(&x, i, w.to);
  }
  return code;
}
