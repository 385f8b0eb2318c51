/* SPDX-License-Identifier: Apache-2.0
 * layer_norm.c: shapes and kernels of layer_norm.yaml. A line runs
 * along the axis. If its elements are adjacent it is a row, the unit of work;
 * otherwise up to NN_CHUNK adjacent lines are. Backward divides the units among
 * at most BLOCKS groups, each with sums of its own for gamma and beta.
 */
#include "layer_norm.gen.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"
#include "writer.h"

/* ------------------------------------------------------------------ shapes */

int32_t nn_layer_norm_infer(const tn_frame *call) {
  return nn_infer_along_axis(call, nn_layer_norm_params_of(call)->axis);
}

/* ------------------------------------------------------------------- loops */

enum {
  BLOCKS = 32, /* largest number of groups of units */
  /* Number of rows after which partial sums are added to sums in f64. */
  FLUSH = 64,
  FOUR = 4, /* rows with gradients that are computed together */
  SIDE = 4, /* vectors of a row that are written past the caches together */
};

/* Arguments of the loops. */
typedef struct layer_args {
  nn_axis_shape e;
  double eps;
  uint32_t level;
  const void *gamma; /* gamma and beta in the type of the computation */
  const void *beta;
  int recompute; /* backward: compute mean and rstd from data */
  void *part;    /* partial sums for the gradients of gamma and beta over some
                    rows, initially 0 */
  double *sums;  /* sums for the gradients of gamma and beta over the rows of a
                    block */
  void *buffer;  /* buffer for FOUR rows of the gradient of data, if these are
                  written past the caches; or NULL */
} layer_args;

#define NN_EACH "layer_rows.h"
#include "each.h"

/* ------------------------------------------------------------------- work */

typedef struct layer_work {
  const tn_frame *call;
  tn_kernel_mode mode;
  layer_args layer_args;
  int64_t bytes; /* bytes of an element */
  int64_t units;
  int64_t cost; /* elements of a unit */
  int64_t each; /* units of a block */
  int64_t blocks;
  const char *in[2]; /* forward: data; backward: output gradient and data */
  char *to;          /* result; or NULL */
  char *mean;        /* mean and rstd of all lines */
  char *rstd;
  char *part;    /* backward: for each block, partial sums (layer_args.part) */
  double *sums;  /* backward: for each block, 2*length sums (layer_args.sums) */
  char *buffers; /* backward: for each block, a buffer for rows of the gradient
                    of data; NULL unless that gradient is larger than caches */
} layer_work;

/* Sets the parts of the state that depend on shapes and parameters. */
static void set_sizes(layer_work *w, const tn_tensor *data,
                      const tn_frame *call) {
  enum {
    LEAST = TN_KERNEL_GRAIN
  }; /* least number of elements of a block with its own sums */
  const nn_layer_norm_params *p = nn_layer_norm_params_of(call);
  const int32_t dim = (int32_t)(p->axis < 0 ? p->axis + data->ndim : p->axis);
  nn_axis_shape *e = &w->layer_args.e;
  *e = nn_axis_find_shape(data, dim, dim);
  w->layer_args.eps = p->eps;
  w->layer_args.level = tn_kernel_level(call);
  w->call = call;
  w->mode =
      (tn_kernel_mode){tn_kernel_compute(data->dtype), tn_kernel_level(call)};
  w->bytes = tn_dtype_bytes(w->mode.compute);
  w->units = w->cost = w->each = w->blocks = 0;
  if (nn_axis_count_elements(e) == 0) return;
  w->units = e->inner == 1 ? e->outer : nn_count_column_pieces(e);
  w->cost = nn_axis_count_elements(e) / w->units;
  w->each = (w->units + BLOCKS - 1) / BLOCKS;
  if (w->each * w->cost < LEAST) w->each = (LEAST + w->cost - 1) / w->cost;
  w->blocks = (w->units + w->each - 1) / w->each;
}

/* Returns the number of lines of the data along the axis. */
static int64_t count_lines(const layer_work *w) {
  return w->layer_args.e.outer * w->layer_args.e.inner;
}

/* Returns the arguments of a loop over units [begin, begin + n); n is 1 if
 * units are columns. */
static tn_kernel_block make_block(const layer_work *w, int64_t begin,
                                  int64_t n) {
  const nn_axis_shape *e = &w->layer_args.e;
  tn_kernel_block block = {.n = n};
  int64_t at = begin * e->length, line = begin;
  if (e->inner > 1) {
    at = nn_locate_column_piece(e, begin, &block.n);
    line = at / (e->length * e->inner) * e->inner + at % e->inner;
  }
  const int back = w->in[1] != NULL;
  for (int k = 0; k <= back; ++k) block.in[k] = w->in[k] + at * w->bytes;
  block.in[back + 1] = w->mean ? w->mean + line * w->bytes : NULL;
  block.in[back + 2] = w->rstd ? w->rstd + line * w->bytes : NULL;
  block.out = w->to ? w->to + at * w->bytes : NULL;
  return block;
}

/* Runs the loop for rows or columns over units [begin, end). */
static void run_units(const layer_work *w, const nn_loops loops[2],
                      const layer_args *l, int64_t begin, int64_t end) {
  const int columns = l->e.inner > 1;
  const int64_t step = columns ? 1 : end - begin;
  for (int64_t i = begin; i < end; i += step) {
    const tn_kernel_block block = make_block(w, i, step);
    nn_run_loop(&w->mode, &loops[columns], &block, l);
  }
}

/* Returns the bytes of a block's buffer for rows that are written past the
 * caches; 0 if they are not. */
static uint64_t count_row_buffer_bytes(const layer_work *w) {
  const nn_axis_shape *e = &w->layer_args.e;
  if (e->inner > 1 ||
      3 * nn_axis_count_elements(e) * w->bytes < NN_WRITER_LARGE)
    return 0;
  return nn_writer_count_bytes(FOUR * e->length * w->bytes);
}

/* Returns the bytes of workspace for gamma and beta in the type of the
 * computation, and for the values that a pass keeps. */
static uint64_t count_own_bytes(const layer_work *w, int back) {
  const int64_t length = w->layer_args.e.length;
  const uint64_t weights = 2 * nn_round_up_bytes(length * w->bytes);
  if (!back) return weights + 2 * nn_round_up_bytes(count_lines(w) * w->bytes);
  const int64_t blocks = w->blocks > 0 ? w->blocks : 1;
  return weights + nn_round_up_bytes(blocks * 2 * length * w->bytes) +
         nn_round_up_bytes(blocks * 2 * length * (int64_t)sizeof(double)) +
         (uint64_t)blocks * count_row_buffer_bytes(w);
}

/* Returns a tensor with the shape of data, in a forward or backward call. */
static const tn_tensor *find_data(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD)
             ? &call->in[NN_LAYER_NORM_BACKWARD_GRAD_OUT]
             : &call->in[NN_LAYER_NORM_IN_DATA];
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_layer_norm_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  layer_work w;
  set_sizes(&w, find_data(call), call);
  *bytes = count_own_bytes(&w, back) +
           (back ? 3 : 2) * nn_count_wide_bytes(find_data(call));
  return TN_OK;
}

/* ----------------------------------------------------------------- forward */

/* Normalises units [begin, end) of lines. */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops[2] = {NN_LOOPS(normalize_rows),
                                    NN_LOOPS(normalize_columns)};
  const layer_work *w = arg;
  run_units(w, loops, &w->layer_args, begin, end);
  return TN_OK;
}

int32_t nn_layer_norm(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_LAYER_NORM_OUT_OUT];
  layer_work w = {.call = call};
  set_sizes(&w, find_data(call), call);
  if (w.units == 0) {
    nn_fill_output(call, NN_LAYER_NORM_OUT_MEAN, 0);
    nn_fill_output(call, NN_LAYER_NORM_OUT_RSTD, 1 / sqrt(w.layer_args.eps));
    return TN_OK;
  }
  nn_wide_operands wide =
      nn_open_wide_operands(call, out->dtype, count_own_bytes(&w, 0));
  char *buffer = call->ws[0];
  const int64_t weight = w.layer_args.e.length * w.bytes;
  w.layer_args.gamma =
      nn_read_weight(&w.mode, &call->in[NN_LAYER_NORM_IN_GAMMA],
                     w.layer_args.e.length, nn_take_bytes(&buffer, weight));
  w.layer_args.beta =
      nn_read_weight(&w.mode, &call->in[NN_LAYER_NORM_IN_BETA],
                     w.layer_args.e.length, nn_take_bytes(&buffer, weight));
  w.mean = nn_locate_hidden(call, NN_LAYER_NORM_OUT_MEAN, &w.mode,
                            nn_take_bytes(&buffer, count_lines(&w) * w.bytes));
  w.rstd = nn_locate_hidden(call, NN_LAYER_NORM_OUT_RSTD, &w.mode,
                            nn_take_bytes(&buffer, count_lines(&w) * w.bytes));
  w.in[0] = nn_widen_input(&wide, &call->in[NN_LAYER_NORM_IN_DATA]);
  w.to = nn_locate_wide_output(&wide, out, call->req[NN_LAYER_NORM_OUT_OUT]);
  const int32_t code =
      nn_run_parallel(call, w.units, w.cost, forward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, out, w.to);
  nn_write_hidden(call, NN_LAYER_NORM_OUT_MEAN, &w.mode, w.mean);
  nn_write_hidden(call, NN_LAYER_NORM_OUT_RSTD, &w.mode, w.rstd);
  return TN_OK;
}

/* ---------------------------------------------------------------- backward */

static const nn_loops back_loops[2] = {NN_LOOPS(write_row_gradients),
                                       NN_LOOPS(write_column_gradients)};

/* Returns the loops of a backward call: those that write past the caches, if
 * that is possible and worthwhile. */
static const nn_loops *find_loops(const layer_work *w) {
  static const nn_loops stream = NN_LOOPS(stream_row_gradients);
  const int fits = (uintptr_t)w->to % NN_WRITER_LINE == 0 &&
                   w->layer_args.e.length * w->bytes % NN_WRITER_LINE == 0;
  return w->buffers && w->to && !w->layer_args.recompute && fits ? &stream
                                                                 : back_loops;
}

/* Computes the gradients of blocks [begin, end) of units. */
static int32_t backward_slice(void *arg, int64_t begin, int64_t end) {
  const layer_work *w = arg;
  const nn_loops *loops = find_loops(w);
  const int64_t n = 2 * w->layer_args.e.length;
  for (int64_t b = begin; b < end; ++b) {
    const int64_t first = b * w->each, last = first + w->each;
    layer_args own = w->layer_args;
    own.part = w->part + b * n * w->bytes;
    own.sums = w->sums + b * n;
    if (w->buffers)
      own.buffer = w->buffers + (uint64_t)b * count_row_buffer_bytes(w);
    memset(own.part, 0, (size_t)(n * w->bytes));
    memset(own.sums, 0, (size_t)n * sizeof *own.sums);
    run_units(w, loops, &own, first, last < w->units ? last : w->units);
  }
  return TN_OK;
}

/* Adds the sums of all blocks in their order to those of the first block, and
 * writes the gradients of gamma and beta. */
static void write_weight_gradients(const layer_work *w) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  const int64_t length = w->layer_args.e.length;
  double *all = w->sums;
  if (w->blocks == 0) memset(all, 0, (size_t)(2 * length) * sizeof *all);
  for (int64_t b = 1; b < w->blocks; ++b)
    tn_kernel_add_dense(all, all + b * 2 * length, &mode, 2 * length);
  for (uint32_t k = 0; k < 2; ++k) {
    const tn_tensor *to = &w->call->out[NN_LAYER_NORM_IN_GAMMA + k];
    if (w->call->req[NN_LAYER_NORM_IN_GAMMA + k] != TN_REQ_NULL)
      tn_kernel_store_dense(to->data, to->dtype, all + k * length, &mode,
                            length);
  }
}

/* Computes a backward call. If only the gradient of beta is requested, there is
 * no data; the output gradient replaces it. */
int32_t nn_layer_norm_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_LAYER_NORM_IN_DATA];
  const tn_tensor *data = &call->in[NN_LAYER_NORM_BACKWARD_IN_DATA];
  layer_work w = {.call = call};
  set_sizes(&w, find_data(call), call);
  const int64_t length = w.layer_args.e.length;
  nn_wide_operands wide = nn_open_wide_operands(call, find_data(call)->dtype,
                                                count_own_bytes(&w, 1));
  char *buffer = call->ws[0];
  w.layer_args.gamma = nn_read_weight(
      &w.mode, &call->in[NN_LAYER_NORM_BACKWARD_IN_GAMMA],
      w.layer_args.e.length, nn_take_bytes(&buffer, length * w.bytes));
  (void)nn_take_bytes(&buffer, length * w.bytes);
  w.part = nn_take_bytes(&buffer, w.blocks * 2 * length * w.bytes);
  w.sums = (double *)(void *)nn_take_bytes(
      &buffer, w.blocks * 2 * length * (int64_t)sizeof(double));
  if (count_row_buffer_bytes(&w) > 0) w.buffers = buffer;
  w.layer_args.recompute = !data->data || data->dtype != w.mode.compute;
  w.mean = call->in[NN_LAYER_NORM_BACKWARD_OUT_MEAN].data;
  w.rstd = call->in[NN_LAYER_NORM_BACKWARD_OUT_RSTD].data;
  w.in[0] = nn_widen_input(&wide, find_data(call));
  w.in[1] = data->data ? nn_widen_input(&wide, data) : w.in[0];
  w.to = nn_locate_wide_output(&wide, to, call->req[NN_LAYER_NORM_IN_DATA]);
  if (w.layer_args.recompute) w.mean = w.rstd = NULL;
  const int32_t code =
      nn_run_parallel(call, w.blocks, w.each * w.cost, backward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, to, w.to);
  write_weight_gradients(&w);
  return TN_OK;
}
