/* SPDX-License-Identifier: Apache-2.0
 * l2_normalization.c: shapes and kernels of l2_normalization.yaml. A line has
 * the elements of one sum. If they are adjacent it is a row, the unit of work;
 * otherwise up to NN_CHUNK adjacent lines are.
 */
#include "l2_normalization.gen.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"
#include "second.h"

/* ------------------------------------------------------------------ shapes */

/* Dimensions that are summed. */
typedef struct l2_dims {
  int32_t first;
  int32_t last;
} l2_dims;

/* Returns the dimensions that a call sums, of data of rank ndim. */
static l2_dims find_dims(const tn_frame *call, int32_t ndim) {
  switch (nn_l2_normalization_params_of(call)->mode) {
    case NN_L2_NORMALIZATION_MODE_CHANNEL:
      return (l2_dims){1, 1};
    case NN_L2_NORMALIZATION_MODE_SPATIAL:
      return (l2_dims){2, ndim - 1};
    default:
      return (l2_dims){1, ndim - 1};
  }
}

int32_t nn_l2_normalization_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_L2_NORMALIZATION_IN_DATA];
  const int32_t least = nn_l2_normalization_params_of(call)->mode ==
                                NN_L2_NORMALIZATION_MODE_SPATIAL
                            ? 3
                            : 2;
  int64_t shape[TN_MAX_NDIM];
  if (data->ndim < 0) return TN_OK;
  if (data->ndim < least)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` %s has rank %d, but `mode` sums over dimension %d",
                   nn_print_shape(data).text, (int)data->ndim, (int)least - 1);
  const l2_dims dims = find_dims(call, data->ndim);
  for (int32_t d = 0; d < data->ndim; ++d)
    shape[d] = d < dims.first || d > dims.last ? data->shape[d] : 1;
  return call->host->set_shape(call, TN_OPERAND_OUT,
                               NN_L2_NORMALIZATION_OUT_NORM, data->ndim, shape);
}

int32_t nn_l2_normalization_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {2}, out[] = {0, 1};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_l2_normalization_infer, in, out, 1, 2});
}

/* ------------------------------------------------------------------- loops */

/* Arguments of the loops. */
typedef struct l2_args {
  nn_axis_shape e;
  double eps;
} l2_args;

#define NN_EACH "l2_rows.h"
#include "each.h"

typedef struct l2_work {
  tn_kernel_mode mode;
  l2_args args;
  int64_t bytes; /* bytes of an element */
  int64_t units;
  const nn_loops *loops; /* of rows and of columns */
  const char *in[2];     /* forward: data; backward: output gradient and out */
  char *norm;
  char *to; /* result; or NULL */
} l2_work;

/* Creates the state of a call; `like` has the shape of data. */
static l2_work make_work(const tn_frame *call, const tn_tensor *like) {
  const l2_dims dims = find_dims(call, like->ndim);
  l2_work w = {.args.eps = nn_l2_normalization_params_of(call)->eps};
  w.args.e = nn_axis_find_shape(like, dims.first, dims.last);
  w.mode =
      (tn_kernel_mode){tn_kernel_compute(like->dtype), tn_kernel_level(call)};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  w.units =
      w.args.e.inner == 1 ? w.args.e.outer : nn_count_column_pieces(&w.args.e);
  return w;
}

/* Returns the number of norms. */
static int64_t count_lines(const l2_work *w) {
  return w->args.e.outer * w->args.e.inner;
}

/* Computes units [begin, end) of lines. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const l2_work *w = arg;
  const nn_axis_shape *e = &w->args.e;
  const int columns = e->inner > 1;
  const int64_t step = columns ? 1 : end - begin;
  for (int64_t i = begin; i < end; i += step) {
    int64_t n = step, at = i * e->length, line = i;
    if (columns) {
      at = nn_locate_column_piece(e, i, &n);
      line = at / (e->length * e->inner) * e->inner + at % e->inner;
    }
    const int64_t skip = at * w->bytes;
    const tn_kernel_block block = {
        .n = n,
        .out = w->to ? w->to + skip : NULL,
        .in = {w->in[0] + skip, w->norm + line * w->bytes,
               w->in[1] ? w->in[1] + skip : NULL}};
    nn_run_loop(&w->mode, &w->loops[columns], &block, &w->args);
  }
  return TN_OK;
}

/* Computes all lines in parallel. */
static int32_t run_lines(const tn_frame *call, l2_work *w) {
  const nn_axis_shape *e = &w->args.e;
  const int64_t wide = e->inner < NN_CHUNK ? e->inner : NN_CHUNK;
  return nn_run_parallel(call, w->units, e->length * wide, run_slice, w);
}

/* ------------------------------------------------------------------- calls */

/* Sets *bytes to the size of the workspace: norms in the type of the
 * computation, and converted operands. */
int32_t nn_l2_normalization_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const l2_work w = make_work(call, &call->in[0]);
  *bytes = 0;
  if (tn_tensor_size(&call->in[0]) == 0) return TN_OK;
  *bytes = nn_round_up_bytes(count_lines(&w) * w.bytes) +
           (back ? 3 : 2) * nn_count_wide_bytes(&call->in[0]);
  return TN_OK;
}

int32_t nn_l2_normalization(const tn_frame *call) {
  static const nn_loops loops[2] = {NN_LOOPS(normalize_rows),
                                    NN_LOOPS(normalize_columns)};
  const tn_tensor *out = &call->out[NN_L2_NORMALIZATION_OUT_OUT];
  l2_work w = make_work(call, out);
  if (tn_tensor_size(out) == 0) {
    nn_fill_output(call, NN_L2_NORMALIZATION_OUT_NORM, sqrt(w.args.eps));
    return TN_OK;
  }
  nn_wide_operands wide = nn_open_wide_operands(
      call, out->dtype, nn_round_up_bytes(count_lines(&w) * w.bytes));
  w.loops = loops;
  w.norm = nn_locate_hidden(call, NN_L2_NORMALIZATION_OUT_NORM, &w.mode,
                            call->ws[0]);
  w.in[0] = nn_widen_input(&wide, &call->in[NN_L2_NORMALIZATION_IN_DATA]);
  w.to =
      nn_locate_wide_output(&wide, out, call->req[NN_L2_NORMALIZATION_OUT_OUT]);
  const int32_t code = run_lines(call, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, out, w.to);
  nn_write_hidden(call, NN_L2_NORMALIZATION_OUT_NORM, &w.mode, w.norm);
  return TN_OK;
}

int32_t nn_l2_normalization_backward(const tn_frame *call) {
  static const nn_loops loops[2] = {NN_LOOPS(write_row_gradients),
                                    NN_LOOPS(write_column_gradients)};
  const tn_tensor *to = &call->out[NN_L2_NORMALIZATION_IN_DATA];
  const tn_tensor *norm = &call->in[NN_L2_NORMALIZATION_BACKWARD_OUT_NORM];
  if (call->req[NN_L2_NORMALIZATION_IN_DATA] == TN_REQ_NULL ||
      tn_tensor_size(to) == 0)
    return TN_OK;
  l2_work w = make_work(call, to);
  nn_wide_operands wide = nn_open_wide_operands(
      call, to->dtype, nn_round_up_bytes(count_lines(&w) * w.bytes));
  w.loops = loops;
  w.norm = call->ws[0];
  tn_kernel_load_dense(w.norm, &w.mode, norm->data, norm->dtype,
                       count_lines(&w));
  w.in[0] =
      nn_widen_input(&wide, &call->in[NN_L2_NORMALIZATION_BACKWARD_GRAD_OUT]);
  w.in[1] =
      nn_widen_input(&wide, &call->in[NN_L2_NORMALIZATION_BACKWARD_OUT_OUT]);
  w.to = nn_locate_wide_output(&wide, to, TN_REQ_WRITE);
  const int32_t code = run_lines(call, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, to, w.to);
  return code;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_l2_normalization_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_l2_normalization_bytes(&own, bytes);
}

int32_t nn_l2_normalization_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_l2_normalization_backward(&own);
}
