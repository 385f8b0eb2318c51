/* SPDX-License-Identifier: Apache-2.0
 * prelu.c: the kernel of leaky_relu.yaml with learned slopes. Its loops run
 * over the pieces of channels of axis.h.
 */
#include "axis.h"
#include "leaky_relu.gen.h"

/* Arguments of a loop over one piece of a channel or of several. */
typedef struct piece_args {
  int64_t runs;
  int64_t run_distance;
  const double *gamma;
  double *sums;
} piece_args;

#define NN_EACH "prelu_rows.h"
#include "each.h"

typedef struct prelu_work {
  const nn_loops *loops; /* the loops for groups that are planes, and for groups
                            that are columns */
  nn_channel_division cut;
  tn_kernel_mode mode;
  int64_t bytes;     /* bytes of an element */
  const char *in[2]; /* forward: data; backward: output gradient and data */
  char *to;
  double *gamma;
  double *sums; /* [piece][channel]; forward NULL */
} prelu_work;

/* Indices of the inputs of a backward call: [gradients of out and kept, data,
 * gamma, out, kept]. */
enum { BACK_GAMMA = 3, BACK_KEPT = 5 };

/* Returns the division of data into pieces of channels. With one slope, all
 * elements are one channel. */
static nn_channel_division divide_call(const tn_frame *call) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *gamma =
      &call->in[back ? BACK_GAMMA : NN_LEAKY_RELU_IN_GAMMA];
  const tn_tensor *data = &call->in[0];
  if (gamma->shape[0] == 1 || data->ndim < 2)
    return nn_divide_channels((nn_axis_shape){1, 1, tn_tensor_size(data)});
  return nn_divide_channels(nn_axis_find_shape(data, 1, 1));
}

/* Returns the bytes of workspace for gamma and, if `back`, for the sums of
 * pieces. */
static uint64_t count_own_bytes(const nn_channel_division *cut, int back) {
  const int64_t n = cut->e.length * (1 + (back ? cut->pieces : 0));
  return ((uint64_t)n * sizeof(double) + 63) / 64 * 64;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_prelu_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const nn_channel_division cut = divide_call(call);
  *bytes = count_own_bytes(&cut, back) +
           (back ? 3 : 2) * nn_count_wide_bytes(&call->in[0]);
  return TN_OK;
}

/* Runs the loop of the pass, forward or backward, over pieces [begin, end) of
 * all groups. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const prelu_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t c = i / w->cut.pieces * w->cut.wide, p = i % w->cut.pieces;
    const nn_channel_piece piece = nn_locate_channel_piece(&w->cut, c, p);
    const int64_t skip = piece.first * w->bytes;
    const tn_kernel_block block = {
        .n = piece.n,
        .out = w->to ? w->to + skip : NULL,
        .in = {w->in[0] + skip, w->in[1] ? w->in[1] + skip : NULL}};
    const piece_args at = {piece.runs, piece.run_distance, w->gamma + c,
                           w->sums ? w->sums + p * w->cut.e.length + c : NULL};
    nn_run_loop(&w->mode, &w->loops[w->cut.wide > 1], &block, &at);
  }
  return TN_OK;
}

/* Describes a call, and copies gamma to the workspace as f64. */
static prelu_work make_work(const tn_frame *call, const tn_tensor *gamma) {
  prelu_work w = {.cut = divide_call(call)};
  const tn_kernel_mode f64 = {TN_F64, tn_kernel_level(call)};
  w.mode = (tn_kernel_mode){tn_kernel_compute(call->in[0].dtype), f64.level};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  w.gamma = call->ws[0];
  if (w.cut.e.length > 0)
    tn_kernel_load_dense(w.gamma, &f64, gamma->data, gamma->dtype,
                         w.cut.e.length);
  return w;
}

/* ----------------------------------------------------------------- forward */

/* Copies elements [begin, end) of data to the output `kept`. */
static int32_t copy_slice(void *arg, int64_t begin, int64_t end) {
  const tn_frame *call = arg;
  const int64_t bytes = tn_dtype_bytes(call->in[0].dtype);
  memcpy((char *)call->out[NN_LEAKY_RELU_OUT_KEPT].data + begin * bytes,
         (const char *)call->in[NN_LEAKY_RELU_IN_DATA].data + begin * bytes,
         (size_t)((end - begin) * bytes));
  return TN_OK;
}

/* Computes a forward call. It copies data before out may overwrite it. */
int32_t nn_prelu(const tn_frame *call) {
  static const nn_loops loops[2] = {NN_LOOPS(scale_plane),
                                    NN_LOOPS(scale_columns)};
  const tn_tensor *data = &call->in[NN_LEAKY_RELU_IN_DATA];
  const tn_tensor *out = &call->out[NN_LEAKY_RELU_OUT_OUT];
  int32_t code = TN_OK;
  if (call->req[NN_LEAKY_RELU_OUT_KEPT] != TN_REQ_NULL)
    code = nn_run_parallel(call, tn_tensor_size(data), 1, copy_slice,
                           (void *)(uintptr_t)call);
  if (code != TN_OK || call->req[NN_LEAKY_RELU_OUT_OUT] == TN_REQ_NULL)
    return code;
  prelu_work w = make_work(call, &call->in[NN_LEAKY_RELU_IN_GAMMA]);
  nn_wide_operands wide =
      nn_open_wide_operands(call, data->dtype, count_own_bytes(&w.cut, 0));
  w.loops = loops;
  w.in[0] = nn_widen_input(&wide, data);
  w.to = nn_locate_wide_output(&wide, out, TN_REQ_WRITE);
  code = nn_run_channel_pieces(call, &w.cut, run_slice, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, out, w.to);
  return code;
}

/* ---------------------------------------------------------------- backward */

/* Writes the gradient of gamma: the sum of the pieces of each channel, in their
 * order. */
static void write_gamma_gradient(const tn_frame *call, const prelu_work *w) {
  const tn_kernel_mode f64 = {TN_F64, w->mode.level};
  const tn_tensor *to = &call->out[NN_LEAKY_RELU_IN_GAMMA];
  const int64_t n = w->cut.e.length;
  if (call->req[NN_LEAKY_RELU_IN_GAMMA] == TN_REQ_NULL) return;
  for (int64_t c = 0; c < n; ++c) {
    w->gamma[c] = 0;
    for (int64_t p = 0; p < w->cut.pieces; ++p)
      w->gamma[c] += w->sums[p * n + c];
  }
  tn_kernel_store_dense(to->data, to->dtype, w->gamma, &f64, n);
}

int32_t nn_prelu_backward(const tn_frame *call) {
  static const nn_loops loops[2] = {NN_LOOPS(write_plane_gradients),
                                    NN_LOOPS(write_column_gradients)};
  const tn_tensor *to = &call->out[NN_LEAKY_RELU_IN_DATA];
  const tn_tensor *out_gradient = &call->in[0];
  prelu_work w = make_work(call, &call->in[BACK_GAMMA]);
  nn_wide_operands wide = nn_open_wide_operands(call, out_gradient->dtype,
                                                count_own_bytes(&w.cut, 1));
  w.loops = loops;
  w.sums = w.gamma + w.cut.e.length;
  w.in[0] = nn_widen_input(&wide, out_gradient);
  w.in[1] = nn_widen_input(&wide, &call->in[BACK_KEPT]);
  w.to = nn_locate_wide_output(&wide, to, call->req[NN_LEAKY_RELU_IN_DATA]);
  const int32_t code = nn_run_channel_pieces(call, &w.cut, run_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, to, w.to);
  write_gamma_gradient(call, &w);
  return TN_OK;
}
