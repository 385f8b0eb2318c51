/* SPDX-License-Identifier: Apache-2.0
 * rms_norm.c: shapes and kernels of rms_norm.yaml. A line runs along the axis.
 * If its elements are adjacent it is a row, the unit of work; otherwise up to
 * NN_CHUNK adjacent lines are. Backward divides the units among at most BLOCKS
 * groups, each with sums of its own for gamma.
 */
#include "rms_norm.gen.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"
#include "second.h"

/* ------------------------------------------------------------------ shapes */

int32_t nn_rms_norm_infer(const tn_frame *call) {
  return nn_infer_along_axis(call, nn_rms_norm_params_of(call)->axis);
}

int32_t nn_rms_norm_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {2, 3}, out[] = {0, 1};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_rms_norm_infer, in, out, 2, 2});
}

/* ------------------------------------------------------------------- loops */

enum {
  BLOCKS = 32, /* largest number of groups of units */
  FLUSH = 64   /* rows after which partial sums are added to sums in f64 */
};

/* Arguments of the loops. */
typedef struct rms_args {
  nn_axis_shape e;
  double eps;
  const void *gamma; /* gamma in the type of the computation */
  void *part;        /* partial sums for the gradient of gamma over some rows,
                        initially 0 */
  double *sums;      /* sums for the gradient of gamma over a block */
} rms_args;

#define NN_EACH "rms_rows.h"
#include "each.h"

/* ------------------------------------------------------------------- work */

typedef struct rms_work {
  const tn_frame *call;
  tn_kernel_mode mode;
  rms_args args;
  int64_t bytes; /* bytes of an element */
  int64_t units;
  int64_t cost; /* elements of a unit */
  int64_t each; /* units of a block */
  int64_t blocks;
  const char *in[2]; /* forward: data; backward: output gradient and data */
  char *to;          /* result; or NULL */
  char *rstd;        /* rstd of all lines; backward: NULL computes it again */
  char *part;        /* backward: part of each block (rms_args.part) */
  double *sums;      /* backward: sums of each block (rms_args.sums) */
} rms_work;

/* Returns a tensor with the shape of data, in a forward or backward call. */
static const tn_tensor *find_data(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD)
             ? &call->in[NN_RMS_NORM_BACKWARD_GRAD_OUT]
             : &call->in[NN_RMS_NORM_IN_DATA];
}

/* Creates the state of a call without its operands. */
static rms_work make_work(const tn_frame *call) {
  enum {
    LEAST = TN_KERNEL_GRAIN
  }; /* least number of elements of a block with its own sums */
  const nn_rms_norm_params *p = nn_rms_norm_params_of(call);
  const tn_tensor *data = find_data(call);
  const int32_t dim = (int32_t)(p->axis < 0 ? p->axis + data->ndim : p->axis);
  rms_work w = {.call = call};
  w.args.e = nn_axis_find_shape(data, dim, dim);
  w.args.eps = p->eps;
  w.mode =
      (tn_kernel_mode){tn_kernel_compute(data->dtype), tn_kernel_level(call)};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  const nn_axis_shape *e = &w.args.e;
  const int64_t size = nn_axis_count_elements(e);
  if (size == 0) return w;
  w.units = e->inner == 1 ? e->outer : nn_count_column_pieces(e);
  w.cost = size / w.units;
  w.each = (w.units + BLOCKS - 1) / BLOCKS;
  if (w.each * w.cost < LEAST) w.each = (LEAST + w.cost - 1) / w.cost;
  w.blocks = (w.units + w.each - 1) / w.each;
  return w;
}

/* Returns the number of lines of the data along the axis. */
static int64_t count_lines(const rms_work *w) {
  return w->args.e.outer * w->args.e.inner;
}

/* Returns the arguments of a loop over units [begin, begin + n); n is 1 if
 * units are columns. */
static tn_kernel_block make_block(const rms_work *w, int64_t begin, int64_t n) {
  const nn_axis_shape *e = &w->args.e;
  tn_kernel_block block = {.n = n};
  int64_t at = begin * e->length, line = begin;
  if (e->inner > 1) {
    at = nn_locate_column_piece(e, begin, &block.n);
    line = at / (e->length * e->inner) * e->inner + at % e->inner;
  }
  const int back = w->in[1] != NULL;
  for (int k = 0; k <= back; ++k) block.in[k] = w->in[k] + at * w->bytes;
  block.in[back + 1] = w->rstd ? w->rstd + line * w->bytes : NULL;
  block.out = w->to ? w->to + at * w->bytes : NULL;
  return block;
}

/* Runs the loop for rows or columns over units [begin, end). */
static void run_units(const rms_work *w, const nn_loops loops[2],
                      const rms_args *l, int64_t begin, int64_t end) {
  const int columns = l->e.inner > 1;
  const int64_t step = columns ? 1 : end - begin;
  for (int64_t i = begin; i < end; i += step) {
    const tn_kernel_block block = make_block(w, i, step);
    nn_run_loop(&w->mode, &loops[columns], &block, l);
  }
}

/* Returns the bytes of workspace for gamma in the type of the computation, and
 * for the values that a pass keeps. */
static uint64_t count_own_bytes(const rms_work *w, int back) {
  const int64_t length = w->args.e.length;
  const uint64_t weight = nn_round_up_bytes(length * w->bytes);
  if (!back) return weight + nn_round_up_bytes(count_lines(w) * w->bytes);
  return weight + nn_round_up_bytes(w->blocks * length * w->bytes) +
         nn_round_up_bytes(w->blocks * length * (int64_t)sizeof(double));
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_rms_norm_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const rms_work w = make_work(call);
  *bytes = 0;
  if (w.units == 0) return TN_OK;
  *bytes = count_own_bytes(&w, back) +
           (back ? 3 : 2) * nn_count_wide_bytes(find_data(call));
  return TN_OK;
}

/* ----------------------------------------------------------------- forward */

/* Scales units [begin, end) of lines. */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops[2] = {NN_LOOPS(scale_rows),
                                    NN_LOOPS(scale_columns)};
  const rms_work *w = arg;
  run_units(w, loops, &w->args, begin, end);
  return TN_OK;
}

int32_t nn_rms_norm(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_RMS_NORM_OUT_OUT];
  rms_work w = make_work(call);
  if (w.units == 0) {
    nn_fill_output(call, NN_RMS_NORM_OUT_RSTD, 1 / sqrt(w.args.eps));
    return TN_OK;
  }
  nn_wide_operands wide =
      nn_open_wide_operands(call, out->dtype, count_own_bytes(&w, 0));
  char *buffer = call->ws[0];
  const int64_t n = w.args.e.length;
  w.args.gamma = nn_read_weight(&w.mode, &call->in[NN_RMS_NORM_IN_GAMMA], n,
                                nn_take_bytes(&buffer, n * w.bytes));
  w.rstd = nn_locate_hidden(call, NN_RMS_NORM_OUT_RSTD, &w.mode, buffer);
  w.in[0] = nn_widen_input(&wide, &call->in[NN_RMS_NORM_IN_DATA]);
  w.to = nn_locate_wide_output(&wide, out, call->req[NN_RMS_NORM_OUT_OUT]);
  const int32_t code =
      nn_run_parallel(call, w.units, w.cost, forward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, out, w.to);
  nn_write_hidden(call, NN_RMS_NORM_OUT_RSTD, &w.mode, w.rstd);
  return TN_OK;
}

/* ---------------------------------------------------------------- backward */

/* Computes the gradients of blocks [begin, end) of units. */
static int32_t backward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops[2] = {NN_LOOPS(write_row_gradients),
                                    NN_LOOPS(write_column_gradients)};
  const rms_work *w = arg;
  const int64_t n = w->args.e.length;
  for (int64_t b = begin; b < end; ++b) {
    const int64_t first = b * w->each, last = first + w->each;
    rms_args own = w->args;
    own.part = w->part + b * n * w->bytes;
    own.sums = w->sums + b * n;
    memset(own.part, 0, (size_t)(n * w->bytes));
    memset(own.sums, 0, (size_t)n * sizeof *own.sums);
    run_units(w, loops, &own, first, last < w->units ? last : w->units);
  }
  return TN_OK;
}

/* Adds the sums of all blocks in their order to those of the first block, and
 * writes the gradient of gamma. */
static void write_gamma_gradient(const rms_work *w) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  const tn_tensor *to = &w->call->out[NN_RMS_NORM_IN_GAMMA];
  const int64_t n = w->args.e.length;
  if (w->call->req[NN_RMS_NORM_IN_GAMMA] == TN_REQ_NULL) return;
  for (int64_t b = 1; b < w->blocks; ++b)
    tn_kernel_add_dense(w->sums, w->sums + b * n, &mode, n);
  tn_kernel_store_dense(to->data, to->dtype, w->sums, &mode, n);
}

int32_t nn_rms_norm_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_RMS_NORM_IN_DATA];
  const tn_tensor *data = &call->in[NN_RMS_NORM_BACKWARD_IN_DATA];
  if (call->req[NN_RMS_NORM_IN_DATA] == TN_REQ_NULL &&
      call->req[NN_RMS_NORM_IN_GAMMA] == TN_REQ_NULL)
    return TN_OK;
  rms_work w = make_work(call);
  const int64_t n = w.args.e.length;
  if (w.units == 0) {
    nn_fill_output(call, NN_RMS_NORM_IN_GAMMA, 0);
    return TN_OK;
  }
  nn_wide_operands wide =
      nn_open_wide_operands(call, data->dtype, count_own_bytes(&w, 1));
  char *buffer = call->ws[0];
  w.args.gamma =
      nn_read_weight(&w.mode, &call->in[NN_RMS_NORM_BACKWARD_IN_GAMMA], n,
                     nn_take_bytes(&buffer, n * w.bytes));
  w.part = nn_take_bytes(&buffer, w.blocks * n * w.bytes);
  w.sums = (double *)(void *)buffer;
  w.in[0] = nn_widen_input(&wide, find_data(call));
  w.in[1] = nn_widen_input(&wide, data);
  w.to = nn_locate_wide_output(&wide, to, call->req[NN_RMS_NORM_IN_DATA]);
  if (data->dtype == w.mode.compute) /* otherwise rstd was rounded */
    w.rstd = call->in[NN_RMS_NORM_BACKWARD_OUT_RSTD].data;
  const int32_t code =
      nn_run_parallel(call, w.blocks, w.each * w.cost, backward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, to, w.to);
  write_gamma_gradient(&w);
  return TN_OK;
}

/* ----------------------------------------------------- gradient as operator */

/* Sets *bytes to the size of the workspace. */
int32_t nn_rms_norm_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_rms_norm_bytes(&own, bytes);
}

int32_t nn_rms_norm_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_rms_norm_backward(&own);
}
