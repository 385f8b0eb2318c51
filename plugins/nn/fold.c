/* SPDX-License-Identifier: Apache-2.0
 * fold.c: shapes and kernels of fold.yaml. One loop copies windows to columns,
 * another adds columns to images; each is the gradient of the other.
 */
#include "fold.gen.h"

#include <string.h>

#include "axis.h"
#include "fold_view.h"
#include "nn.h"
#include "operands.h"

/* ------------------------------------------------------------------ shapes */

/* Sets *n to the number of windows of an image of size `in`; -1 if a dimension
 * is unknown. */
static int32_t count_windows(const tn_frame *call, const nn_window_lists *lists,
                             const int64_t *in, int64_t *n) {
  *n = 1;
  for (int64_t i = 0; i < lists->kernel->n; ++i) {
    const int64_t windows = in[i] < 0 ? -1 : nn_window_count(lists, i, in[i]);
    if (in[i] >= 0 && windows < 0)
      return TN_FAIL(call, TN_SHAPE,
                     "a window of %lld elements is larger than the %lld "
                     "elements of dimension %lld of an image with its padding; "
                     "choose a smaller `kernel` or more `pad`",
                     (long long)nn_window_find_reach(lists, i),
                     (long long)tn_size_plus(in[i], 2 * lists->pad->v[i]),
                     (long long)i + 2);
    const int is_known = *n >= 0 && windows >= 0;
    *n = is_known ? tn_size_times(*n, windows) : -1;
    if (is_known && *n < 0)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "an image has more windows than 64 bits count; choose a "
                     "smaller `pad`");
  }
  return TN_OK;
}

/* Sets *taps to the number of elements of a window. */
static int32_t count_taps(const tn_frame *call, const tn_ints *kernel,
                          int64_t *taps) {
  *taps = 1;
  for (int64_t i = 0; i<kernel->n && * taps> 0; ++i)
    *taps = tn_size_times(*taps, kernel->v[i]);
  if (*taps > 0) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "a window of `kernel` has more elements than 64 bits count; "
                 "choose a smaller `kernel`");
}

/* The shapes of images and columns, with -1 for unknown dimensions. */
typedef struct fold_shapes {
  int64_t images[TN_MAX_NDIM];
  int64_t columns[3];
} fold_shapes;

/* Computes all dimensions of both that follow from others. */
static int32_t relate_shapes(const tn_frame *call, const nn_window_lists *lists,
                             fold_shapes *s) {
  int64_t taps = 0, windows = -1;
  int32_t code = count_taps(call, lists->kernel, &taps);
  if (code == TN_OK) code = count_windows(call, lists, s->images + 2, &windows);
  if (code != TN_OK) return code;
  if (s->images[0] < 0) s->images[0] = s->columns[0];
  if (s->images[1] < 0 && s->columns[1] >= 0) {
    if (s->columns[1] % taps != 0)
      return TN_FAIL(call, TN_SHAPE,
                     "columns of %lld elements do not divide into windows of "
                     "%lld elements; `data` must have whole channels",
                     (long long)s->columns[1], (long long)taps);
    s->images[1] = s->columns[1] / taps;
  }
  s->columns[0] = s->images[0];
  s->columns[1] = s->images[1] < 0 ? -1 : tn_size_times(s->images[1], taps);
  if (windows >= 0) s->columns[2] = windows;
  if (s->columns[1] >= 0 || s->images[1] < 0) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "columns of %lld windows of %lld elements have more elements "
                 "than 64 bits count",
                 (long long)s->images[1], (long long)taps);
}

/* Copies the known dimensions of a tensor of rank n; -1 for unknown ones. */
static int32_t read_shape(const tn_frame *call, const tn_tensor *from,
                          const char *name, int32_t n, int64_t *to) {
  if (from->ndim >= 0 && from->ndim != n)
    return TN_FAIL(call, TN_SHAPE,
                   "`%s` must have %d dimensions for this `kernel`, but %s has "
                   "%d",
                   name, (int)n, nn_print_shape(from).text, (int)from->ndim);
  for (int32_t d = 0; d < n; ++d) to[d] = from->ndim < 0 ? -1 : from->shape[d];
  return TN_OK;
}

/* Infers the shapes of a call; `is_fold`: data has the columns. */
static int32_t infer_shapes(const tn_frame *call, const nn_window_lists *lists,
                            const tn_ints *size) {
  const int32_t rank = (int32_t)lists->kernel->n + 2;
  const int32_t n_in = size ? 3 : rank, n_out = size ? rank : 3;
  fold_shapes s;
  int64_t *in = size ? s.columns : s.images;
  int64_t *out = size ? s.images : s.columns;
  int32_t code = read_shape(call, &call->in[0], "data", n_in, in);
  if (code == TN_OK) code = read_shape(call, &call->out[0], "out", n_out, out);
  for (int64_t i = 0; size && i < size->n; ++i) s.images[i + 2] = size->v[i];
  if (code == TN_OK) code = relate_shapes(call, lists, &s);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, 0, n_in, in);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, n_out, out);
}

int32_t nn_unfold_infer(const tn_frame *call) {
  const nn_unfold_params *p = nn_unfold_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  return infer_shapes(call, &lists, NULL);
}

int32_t nn_fold_infer(const tn_frame *call) {
  const nn_fold_params *p = nn_fold_params_of(call);
  const nn_window_lists lists = {&p->kernel, &p->stride, &p->dilate, &p->pad};
  return infer_shapes(call, &lists, &p->output_size);
}

/* ------------------------------------------------------------------- loops */

/* A call in f32 or f64, as the argument of a parallel loop. */
typedef struct fold_work {
  nn_fold_view view;
  tn_dtype dtype;
  const char *from;
  char *to;
  int add;
} fold_work;

/* One line of windows along the last dimension: for each of them the element
 * of one tap, where it is inside of the image. */
typedef struct fold_line {
  int64_t windows; /* index of the first one in its plane */
  nn_range inside; /* windows with an element; the element of the first one is
                      number `at` of its plane */
  int64_t at;
} fold_line;

/* The indices of a tap. */
typedef struct fold_tap {
  int64_t d[NN_WINDOW_RANK];
} fold_tap;

/* Returns the indices of tap t. */
static fold_tap split_tap(const nn_window *w, int64_t t) {
  const int64_t rest = t / w->kernel[2];
  return (fold_tap){
      {rest / w->kernel[1], rest % w->kernel[1], t % w->kernel[2]}};
}

/* Returns the line of windows o0, o1 for a tap. It is empty in the padding. */
static fold_line find_line(const nn_window *w, const fold_tap *t, int64_t o0,
                           int64_t o1) {
  const nn_range all = {0, w->out[2]};
  const int64_t z = o0 * w->stride[0] + t->d[0] * w->dilate[0] - w->pad[0];
  const int64_t y = o1 * w->stride[1] + t->d[1] * w->dilate[1] - w->pad[1];
  fold_line line = {(o0 * w->out[1] + o1) * w->out[2], {0, 0}, 0};
  if (z < 0 || z >= w->in[0] || y < 0 || y >= w->in[1]) return line;
  line.inside = nn_window_find_inside(w, 2, t->d[2], all);
  line.at = (z * w->in[1] + y) * w->in[2] + line.inside.begin * w->stride[2] +
            t->d[2] * w->dilate[2] - w->pad[2];
  return line;
}

#define LOOPS(type, name)                                                      \
  /* Copies a line of windows; zeros outside of the image. */                  \
  static void copy_line_##name(const fold_work *w, const fold_line *line,      \
                               const type *from, type *to) {                   \
    const int64_t n = w->view.window.out[2], step = w->view.window.stride[2];  \
    const int64_t begin = line->inside.begin, end = line->inside.end;          \
    from += line->at;                                                          \
    to += line->windows;                                                       \
    if (w->add) {                                                              \
      for (int64_t i = begin; i < end; ++i) to[i] += from[(i - begin) * step]; \
      return;                                                                  \
    }                                                                          \
    for (int64_t i = 0; i < begin; ++i) to[i] = 0;                             \
    if (step == 1 && end > begin)                                              \
      memcpy(to + begin, from, (size_t)(end - begin) * sizeof *to);            \
    for (int64_t i = begin; step != 1 && i < end; ++i)                         \
      to[i] = from[(i - begin) * step];                                        \
    for (int64_t i = end; i < n; ++i) to[i] = 0;                               \
  }                                                                            \
  /* Adds a line of windows to its elements of an image. */                    \
  static void add_line_##name(const fold_work *w, const fold_line *line,       \
                              const type *from, type *to) {                    \
    const int64_t step = w->view.window.stride[2];                             \
    const int64_t n = line->inside.end - line->inside.begin;                   \
    from += line->windows + line->inside.begin;                                \
    to += line->at;                                                            \
    if (step == 1)                                                             \
      for (int64_t i = 0; i < n; ++i) to[i] += from[i];                        \
    else                                                                       \
      for (int64_t i = 0; i < n; ++i) to[i * step] += from[i];                 \
  }
LOOPS(float, f32)
LOOPS(double, f64)

/* Copies one row of columns: tap t of all windows of a plane. */
static void copy_row(const fold_work *w, int64_t plane, int64_t t) {
  const nn_fold_view *v = &w->view;
  const fold_tap tap = split_tap(&v->window, t);
  const int64_t from = plane * v->in_size;
  const int64_t to = (plane * v->taps + t) * v->windows;
  for (int64_t i = 0; i < v->window.out[0] * v->window.out[1]; ++i) {
    const fold_line line =
        find_line(&v->window, &tap, i / v->window.out[1], i % v->window.out[1]);
    if (w->dtype == TN_F32)
      copy_line_f32(w, &line, (const float *)(const void *)w->from + from,
                    (float *)(void *)w->to + to);
    else
      copy_line_f64(w, &line, (const double *)(const void *)w->from + from,
                    (double *)(void *)w->to + to);
  }
}

/* Copies rows [begin, end) of the columns of all planes. */
static int32_t copy_slice(void *arg, int64_t begin, int64_t end) {
  const fold_work *w = arg;
  for (int64_t i = begin; i < end; ++i)
    copy_row(w, i / w->view.taps, i % w->view.taps);
  return TN_OK;
}

/* Adds one row of columns to a plane. */
static void add_row(const fold_work *w, int64_t plane, int64_t t) {
  const nn_fold_view *v = &w->view;
  const fold_tap tap = split_tap(&v->window, t);
  const int64_t to = plane * v->in_size;
  const int64_t from = (plane * v->taps + t) * v->windows;
  for (int64_t i = 0; i < v->window.out[0] * v->window.out[1]; ++i) {
    const fold_line line =
        find_line(&v->window, &tap, i / v->window.out[1], i % v->window.out[1]);
    if (line.inside.begin == line.inside.end) continue;
    if (w->dtype == TN_F32)
      add_line_f32(w, &line, (const float *)(const void *)w->from + from,
                   (float *)(void *)w->to + to);
    else
      add_line_f64(w, &line, (const double *)(const void *)w->from + from,
                   (double *)(void *)w->to + to);
  }
}

/* Adds all columns of planes [begin, end), in the order of taps. */
static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const fold_work *w = arg;
  const int64_t bytes = w->view.in_size * tn_dtype_bytes(w->dtype);
  for (int64_t i = begin; i < end; ++i) {
    if (!w->add) memset(w->to + i * bytes, 0, (size_t)bytes);
    for (int64_t t = 0; w->view.windows > 0 && t < w->view.taps; ++t)
      add_row(w, i, t);
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- kernels */

/* Runs a call whose output 0 has the columns, or the images if `is_folded`. */
static int32_t run_call(const tn_frame *call, nn_fold_view view,
                        int is_folded) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const int64_t columns = view.taps * view.windows;
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  fold_work w = {.view = view,
                 .dtype = x.dtype,
                 .from = nn_operands_open_input(&x, 0),
                 .to = nn_operands_open_output(&x, 0),
                 .add = nn_operands_is_added(&x, 0)};
  const int32_t code =
      is_folded ? nn_run_parallel(call, view.planes, columns, add_slice, &w)
                : nn_run_parallel(call, view.planes * view.taps, view.windows,
                                  copy_slice, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.to);
  return code;
}

/* Sets *bytes to the workspace of a call. */
static int32_t count_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call);
  return TN_OK;
}

int32_t nn_unfold_bytes(const tn_frame *call, uint64_t *bytes) {
  return count_bytes(call, bytes);
}

int32_t nn_fold_bytes(const tn_frame *call, uint64_t *bytes) {
  return count_bytes(call, bytes);
}

int32_t nn_unfold(const tn_frame *call) {
  return run_call(call, nn_unfold_view_call(call), 0);
}

int32_t nn_unfold_backward(const tn_frame *call) {
  return run_call(call, nn_unfold_view_call(call), 1);
}

int32_t nn_fold(const tn_frame *call) {
  return run_call(call, nn_fold_view_call(call), 1);
}

int32_t nn_fold_backward(const tn_frame *call) {
  return run_call(call, nn_fold_view_call(call), 0);
}
