/* SPDX-License-Identifier: Apache-2.0
 * softmax_cross_entropy.c: kernels of softmax_cross_entropy.yaml, row by row.
 */
#include "softmax_cross_entropy.gen.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"

/* Arguments of a loop over some rows. */
typedef struct row_args {
  int64_t classes;
  const int64_t *labels; /* class number of each row; -1: no class */
  double *losses;        /* forward: gets the losses */
  double out_gradient;   /* backward: the output gradient, one number */
} row_args;

#define NN_EACH "cross_rows.h"
#include "each.h"

typedef struct cross_work {
  const nn_loops *loops;
  const tn_tensor *label;
  tn_kernel_mode mode;
  int64_t rows;
  int64_t classes;
  int64_t bytes; /* bytes of an element */
  const char *x;
  char *norm; /* norm[2] of each row (cross_rows.h); NULL: not known */
  char *to;   /* backward: gradient of data */
  double *losses;
  double out_gradient;
} cross_work;

/* Runs the loop of the pass, forward or backward, over rows [begin, end). */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const cross_work *w = arg;
  int64_t labels[NN_LABELS];
  for (int64_t r = begin; r < end; r += NN_LABELS) {
    const int64_t n = end - r < NN_LABELS ? end - r : NN_LABELS;
    const int64_t skip = r * w->classes * w->bytes;
    const row_args c = {w->classes, labels, w->losses ? w->losses + r : NULL,
                        w->out_gradient};
    const tn_kernel_block block = {
        .n = n,
        .out = w->to ? w->to + skip : NULL,
        .in = {w->x + skip, w->norm ? w->norm + 2 * r * w->bytes : NULL}};
    nn_read_labels(&(nn_labels){w->label, w->classes, w->mode.level}, r, n,
                   labels);
    nn_run_loop(&w->mode, w->loops, &block, &c);
  }
  return TN_OK;
}

/* Describes a call without its operands; `data` has the shape (rows, classes).
 */
static cross_work make_work(const tn_frame *call, const tn_tensor *data) {
  cross_work w = {.rows = data->shape[0], .classes = data->shape[1]};
  w.mode.compute = tn_kernel_compute(data->dtype);
  w.mode.level = tn_kernel_level(call);
  w.bytes = tn_dtype_bytes(w.mode.compute);
  return w;
}

/* Bytes of workspace for forward losses and norms; converted operands follow
 * them. */
static uint64_t count_own_bytes(const cross_work *w) {
  return nn_round_up_bytes(w->rows * (int64_t)sizeof(double)) +
         nn_round_up_bytes(2 * w->rows * w->bytes);
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_softmax_cross_entropy_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data =
      &call->in[back ? NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_IN_DATA
                     : NN_SOFTMAX_CROSS_ENTROPY_IN_DATA];
  const cross_work w = make_work(call, data);
  *bytes = count_own_bytes(&w) + (back ? 2 : 1) * nn_count_wide_bytes(data);
  return TN_OK;
}

/* Runs the loops over all rows. Rows without classes have no loss, and zeros
 * for norms. */
static int32_t run_loops(const tn_frame *call, cross_work *w) {
  if (w->classes > 0)
    return nn_run_parallel(call, w->rows, w->classes, run_slice, w);
  if (w->losses == NULL || w->rows == 0) return TN_OK;
  memset(w->losses, 0, (size_t)w->rows * sizeof *w->losses);
  memset(w->norm, 0, (size_t)(2 * w->rows * w->bytes));
  return TN_OK;
}

int32_t nn_softmax_cross_entropy(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(find_losses);
  const tn_tensor *data = &call->in[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA];
  const tn_tensor *out = &call->out[NN_SOFTMAX_CROSS_ENTROPY_OUT_OUT];
  const tn_tensor *norm = &call->out[NN_SOFTMAX_CROSS_ENTROPY_OUT_NORM];
  const int shown = call->req[NN_SOFTMAX_CROSS_ENTROPY_OUT_NORM] != TN_REQ_NULL;
  cross_work w = make_work(call, data);
  const tn_kernel_mode f64 = {TN_F64, w.mode.level};
  nn_wide_operands wide =
      nn_open_wide_operands(call, data->dtype, count_own_bytes(&w));
  w.loops = &loops;
  w.label = &call->in[NN_SOFTMAX_CROSS_ENTROPY_IN_LABEL];
  w.losses = call->ws[0];
  w.norm =
      (char *)call->ws[0] + nn_round_up_bytes(w.rows * (int64_t)sizeof(double));
  if (shown && norm->dtype == w.mode.compute) w.norm = norm->data;
  w.x = nn_widen_input(&wide, data);
  const int32_t code = run_loops(call, &w);
  if (code != TN_OK) return code;
  if (shown && w.norm != norm->data)
    tn_kernel_store_dense(norm->data, norm->dtype, w.norm, &w.mode, 2 * w.rows);
  double sum = 0;
  for (int64_t r = 0; r < w.rows; ++r) sum += w.losses[r];
  if (call->req[NN_SOFTMAX_CROSS_ENTROPY_OUT_OUT] != TN_REQ_NULL)
    tn_kernel_store_dense(out->data, out->dtype, &sum, &f64, 1);
  return TN_OK;
}

int32_t nn_softmax_cross_entropy_backward(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(write_gradients);
  const tn_tensor *data = &call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_IN_DATA];
  const tn_tensor *out_gradient =
      &call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_GRAD_OUT];
  const tn_tensor *norm = &call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_OUT_NORM];
  const tn_tensor *to = &call->out[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA];
  if (call->req[NN_SOFTMAX_CROSS_ENTROPY_IN_DATA] == TN_REQ_NULL) return TN_OK;
  cross_work w = make_work(call, data);
  const tn_kernel_mode f64 = {TN_F64, w.mode.level};
  nn_wide_operands wide =
      nn_open_wide_operands(call, data->dtype, count_own_bytes(&w));
  w.loops = &loops;
  w.label = &call->in[NN_SOFTMAX_CROSS_ENTROPY_BACKWARD_IN_LABEL];
  tn_kernel_load_dense(&w.out_gradient, &f64, out_gradient->data,
                       out_gradient->dtype, 1);
  w.norm = norm->dtype == w.mode.compute ? norm->data : NULL;
  w.x = nn_widen_input(&wide, data);
  w.to = nn_locate_wide_output(&wide, to, TN_REQ_WRITE);
  const int32_t code = run_loops(call, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, to, w.to);
  return code;
}
