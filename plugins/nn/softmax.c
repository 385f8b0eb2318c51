/* SPDX-License-Identifier: Apache-2.0
 * softmax.c: kernels of softmax.yaml, and the softmax of other operators
 * (softmax.h).
 */
#include "softmax.h"

#include "softmax.gen.h"

enum {
  SUMMED = 256, /* elements of a line that are summed in the type of the
                   computation */
  FEW = 32,     /* length of rows up to which several are computed together */
  STREAMED = 16384 /* largest row, in bytes, that is composed before it is
                      written past the caches */
};

#define NN_EACH "softmax_rows.h"
#include "each.h"

/* Whether rows are written past the caches: they fill cache lines, and no cache
 * would hold all `operands` operands. `to` must not be an input. */
static int is_streamed(const nn_softmax *s, int operands, const void *to) {
  enum { LINE = 64 };
  const int64_t bytes = tn_dtype_bytes(s->mode.compute);
  return s->axis_shape.inner == 1 && s->axis_shape.length > FEW &&
         operands * nn_axis_count_elements(&s->axis_shape) * bytes >=
             TN_KERNEL_STREAM &&
         (uintptr_t)to % LINE == 0 && s->axis_shape.length * bytes % LINE == 0;
}

/* ------------------------------------------------------------------ slices */

typedef struct softmax_work {
  const nn_softmax *softmax;
  const char *in[2]; /* forward: data; backward: output gradient and softmax */
  char *to;
  const nn_loops *rows;
  const nn_loops *columns;
} softmax_work;

/* Returns the arrays of a loop over n units from element `at` on. */
static tn_kernel_block make_block(const softmax_work *w, int64_t at,
                                  int64_t n) {
  const int64_t skip = at * tn_dtype_bytes(w->softmax->mode.compute);
  tn_kernel_block block = {.n = n, .out = w->to + skip};
  for (int i = 0; i < 2; ++i) block.in[i] = w->in[i] ? w->in[i] + skip : NULL;
  return block;
}

/* Computes rows [begin, end). */
static int32_t run_rows(void *arg, int64_t begin, int64_t end) {
  const softmax_work *w = arg;
  const nn_softmax *s = w->softmax;
  const tn_kernel_block block =
      make_block(w, begin * s->axis_shape.length, end - begin);
  nn_run_loop(&s->mode, w->rows, &block, s);
  return TN_OK;
}

/* Computes pieces [begin, end) of columns. */
static int32_t run_columns(void *arg, int64_t begin, int64_t end) {
  const softmax_work *w = arg;
  const nn_softmax *s = w->softmax;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = 0;
    const int64_t at = nn_locate_column_piece(&s->axis_shape, i, &n);
    const tn_kernel_block block = make_block(w, at, n);
    nn_run_loop(&s->mode, w->columns, &block, s);
  }
  return TN_OK;
}

/* Runs the loop of a pass, forward or backward, over all lines in parallel. */
static int32_t run_slices(softmax_work *w) {
  const nn_axis_shape *e = &w->softmax->axis_shape;
  const tn_frame *call = w->softmax->call;
  if (nn_axis_count_elements(e) == 0) return TN_OK;
  if (e->inner == 1)
    return nn_run_parallel(call, e->outer, e->length, run_rows, w);
  const int64_t wide = e->inner < NN_CHUNK ? e->inner : NN_CHUNK;
  return nn_run_parallel(call, nn_count_column_pieces(e), e->length * wide,
                         run_columns, w);
}

int32_t nn_softmax_forward(const nn_softmax *s, const void *from, void *to) {
  static const nn_loops loops[2] = {NN_LOOPS(compute_rows),
                                    NN_LOOPS(compute_columns)};
  static const nn_loops stream = NN_LOOPS(stream_rows);
  softmax_work w = {s, {from, NULL}, to, &loops[0], &loops[1]};
  const int fits = s->axis_shape.length * tn_dtype_bytes(s->mode.compute) <=
                   (int64_t)STREAMED;
  if (fits && to != from && is_streamed(s, 2, to)) w.rows = &stream;
  return run_slices(&w);
}

int32_t nn_softmax_compute_gradient(const nn_softmax *s,
                                    const void *out_gradient, const void *out,
                                    void *to) {
  static const nn_loops loops[2] = {NN_LOOPS(write_row_gradients),
                                    NN_LOOPS(write_column_gradients)};
  static const nn_loops stream = NN_LOOPS(stream_row_gradients);
  softmax_work w = {s, {out_gradient, out}, to, &loops[0], &loops[1]};
  if (!s->is_log && to != out_gradient && to != out && is_streamed(s, 3, to))
    w.rows = &stream;
  return run_slices(&w);
}

/* ------------------------------------------------------------------ calls
 * nn.softmax and nn.log_softmax have the same operands and parameters. */

/* The parameters that both operators have. */
typedef struct softmax_options {
  int64_t axis;
  double temperature;
  int is_log;
} softmax_options;

/* Returns the parameters of a call of softmax. */
static softmax_options read_softmax_options(const tn_frame *call) {
  const nn_softmax_params *p = nn_softmax_params_of(call);
  return (softmax_options){p->axis, p->temperature, 0};
}

/* Returns the parameters of a call of log_softmax. */
static softmax_options read_log_softmax_options(const tn_frame *call) {
  const nn_log_softmax_params *p = nn_log_softmax_params_of(call);
  return (softmax_options){p->axis, p->temperature, 1};
}

/* Finds the dimension of the softmax. A scalar is a line of one element. */
static int32_t find_dim(const tn_frame *call, int64_t axis,
                        const tn_tensor *data, int32_t *dim) {
  *dim = 0;
  if (data->ndim == 0 && (axis == 0 || axis == -1)) return TN_OK;
  return nn_axis_find_dim(call, axis, data, dim);
}

/* Checks that the axis exists; the output has the shape of data. */
static int32_t infer_shapes(const tn_frame *call, softmax_options q) {
  const tn_tensor *data = &call->in[NN_SOFTMAX_IN_DATA];
  int32_t dim;
  if (data->ndim < 0) return TN_OK;
  return find_dim(call, q.axis, data, &dim);
}

int32_t nn_softmax_infer(const tn_frame *call) {
  return infer_shapes(call, read_softmax_options(call));
}

int32_t nn_log_softmax_infer(const tn_frame *call) {
  return infer_shapes(call, read_log_softmax_options(call));
}

/* Bytes of workspace for converted operands: two forward; backward the softmax,
 * output gradient and result. */
int32_t nn_softmax_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 3 : 2;
  *bytes = n * nn_count_wide_bytes(&call->out[0]);
  return TN_OK;
}

/* Runs a forward or backward call of either operator. */
static int32_t run_call(const tn_frame *call, softmax_options q) {
  const tn_tensor *out = &call->out[0];
  nn_wide_operands w = nn_open_wide_operands(call, out->dtype, 0);
  nn_softmax s = {.call = call,
                  .mode = w.mode,
                  .factor = 1 / q.temperature,
                  .is_log = q.is_log};
  int32_t dim;
  int32_t code = find_dim(call, q.axis, out, &dim);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  s.axis_shape = nn_axis_find_shape(out, dim, dim);
  void *to = nn_locate_wide_output(&w, out, call->req[0]);
  const void *in = nn_widen_input(&w, &call->in[0]);
  if (call->flags & TN_CALL_BACKWARD) {
    const void *result =
        nn_widen_input(&w, &call->in[NN_SOFTMAX_BACKWARD_OUT_OUT]);
    code = nn_softmax_compute_gradient(&s, in, result, to);
  } else {
    code = nn_softmax_forward(&s, in, to);
  }
  if (code == TN_OK) nn_store_wide_output(&w, out, to);
  return code;
}

int32_t nn_softmax_compute(const tn_frame *call) {
  return run_call(call, read_softmax_options(call));
}

int32_t nn_log_softmax_compute(const tn_frame *call) {
  return run_call(call, read_log_softmax_options(call));
}
