/* SPDX-License-Identifier: Apache-2.0
 * group_norm.c: kernels of group_norm.yaml. The channels of one group of one
 * image are contiguous: a row. instance_norm has as many groups as channels;
 * both operators have the same operands. Backward, a task has one group of some
 * images, and sums of its own for gamma and beta.
 */
#include "group_norm.gen.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"

enum { BLOCKS = 32 }; /* largest number of blocks of images */

/* Arguments of the loops. */
typedef struct group_args {
  int64_t groups;
  int64_t channels; /* channels of a group */
  int64_t inner;    /* elements of a channel of one image */
  double eps;
  const void *gamma; /* gamma and beta in the type of the computation */
  const void *beta;
  int64_t first;    /* group of the first row of the loop */
  int64_t distance; /* distance of the loop's rows, in rows */
  double *sums;     /* backward: 2*groups*channels sums */
} group_args;

#define NN_EACH "group_rows.h"
#include "each.h"

typedef struct group_work {
  const tn_frame *call;
  tn_kernel_mode mode;
  group_args args;
  int64_t bytes; /* bytes of an element */
  int64_t images;
  int64_t length;    /* elements of a row */
  int64_t each;      /* backward: images of a block */
  int64_t blocks;    /* backward: blocks of images */
  const char *in[2]; /* forward: data; backward: output gradient and data */
  char *to;          /* result; or NULL */
  char *mean;        /* of all rows; backward: NULL computes it again */
  char *rstd;
  double *sums; /* backward: sums of each block (group_args.sums) */
} group_work;

/* ------------------------------------------------------------------- sizes */

/* The parameters of both operators. */
typedef struct group_options {
  int64_t groups; /* 0: as many as channels */
  double eps;
} group_options;

/* Returns a tensor with the shape of data, in a forward or backward call. */
static const tn_tensor *find_data(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD)
             ? &call->in[NN_GROUP_NORM_BACKWARD_GRAD_OUT]
             : &call->in[NN_GROUP_NORM_IN_DATA];
}

/* Creates the state of a call without its operands. */
static group_work make_work(const tn_frame *call, group_options options) {
  const tn_tensor *data = find_data(call);
  const nn_axis_shape e = nn_axis_find_shape(data, 1, 1);
  const int64_t groups = options.groups > 0 ? options.groups : e.length;
  group_work w = {.call = call, .images = e.outer};
  w.args = (group_args){.groups = groups,
                        .channels = groups > 0 ? e.length / groups : 0,
                        .inner = e.inner,
                        .eps = options.eps,
                        .distance = 1};
  w.mode =
      (tn_kernel_mode){tn_kernel_compute(data->dtype), tn_kernel_level(call)};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  w.length = w.args.channels * e.inner;
  w.each = (e.outer + BLOCKS - 1) / BLOCKS;
  w.blocks = w.each > 0 ? (e.outer + w.each - 1) / w.each : 0;
  return w;
}

/* Returns the number of channels of an image. */
static int64_t count_channels(const group_work *w) {
  return w->args.groups * w->args.channels;
}

/* Returns the number of rows. */
static int64_t count_rows(const group_work *w) {
  return w->images * w->args.groups;
}

/* Returns the bytes of workspace for gamma and beta in the type of the
 * computation, and for the values that a pass keeps. */
static uint64_t count_own_bytes(const group_work *w, int back) {
  const int64_t channels = count_channels(w);
  const int64_t blocks = w->blocks > 0 ? w->blocks : 1;
  const uint64_t weights = 2 * nn_round_up_bytes(channels * w->bytes);
  if (!back) return weights + 2 * nn_round_up_bytes(count_rows(w) * w->bytes);
  return weights +
         nn_round_up_bytes(blocks * 2 * channels * (int64_t)sizeof(double));
}

/* Sets *bytes to the size of the workspace. */
static int32_t count_bytes(const tn_frame *call, group_options options,
                           uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const group_work w = make_work(call, options);
  *bytes = count_own_bytes(&w, back) +
           (back ? 3 : 2) * nn_count_wide_bytes(find_data(call));
  return TN_OK;
}

/* Returns the arguments of a loop over n rows from row `begin` on. */
static tn_kernel_block make_block(const group_work *w, int64_t begin,
                                  int64_t n) {
  const int64_t skip = begin * w->length * w->bytes;
  tn_kernel_block block = {.n = n};
  const int back = w->in[1] != NULL;
  for (int k = 0; k <= back; ++k) block.in[k] = w->in[k] + skip;
  block.in[back + 1] = w->mean ? w->mean + begin * w->bytes : NULL;
  block.in[back + 2] = w->rstd ? w->rstd + begin * w->bytes : NULL;
  block.out = w->to ? w->to + skip : NULL;
  return block;
}

/* ----------------------------------------------------------------- forward */

/* Normalises rows [begin, end). */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(normalize_groups);
  const group_work *w = arg;
  const tn_kernel_block block = make_block(w, begin, end - begin);
  group_args own = w->args;
  own.first = begin % own.groups;
  nn_run_loop(&w->mode, &loops, &block, &own);
  return TN_OK;
}

/* Runs a forward call. */
static int32_t run_forward(const tn_frame *call, group_options options) {
  const tn_tensor *out = &call->out[NN_GROUP_NORM_OUT_OUT];
  group_work w = make_work(call, options);
  if (w.length == 0) {
    nn_fill_output(call, NN_GROUP_NORM_OUT_MEAN, 0);
    nn_fill_output(call, NN_GROUP_NORM_OUT_RSTD, 1 / sqrt(w.args.eps));
    return TN_OK;
  }
  nn_wide_operands wide =
      nn_open_wide_operands(call, out->dtype, count_own_bytes(&w, 0));
  char *buffer = call->ws[0];
  const int64_t channels = count_channels(&w);
  w.args.gamma =
      nn_read_weight(&w.mode, &call->in[NN_GROUP_NORM_IN_GAMMA], channels,
                     nn_take_bytes(&buffer, channels * w.bytes));
  w.args.beta =
      nn_read_weight(&w.mode, &call->in[NN_GROUP_NORM_IN_BETA], channels,
                     nn_take_bytes(&buffer, channels * w.bytes));
  w.mean = nn_locate_hidden(call, NN_GROUP_NORM_OUT_MEAN, &w.mode,
                            nn_take_bytes(&buffer, count_rows(&w) * w.bytes));
  w.rstd = nn_locate_hidden(call, NN_GROUP_NORM_OUT_RSTD, &w.mode, buffer);
  w.in[0] = nn_widen_input(&wide, &call->in[NN_GROUP_NORM_IN_DATA]);
  w.to = nn_locate_wide_output(&wide, out, call->req[NN_GROUP_NORM_OUT_OUT]);
  const int32_t code =
      nn_run_parallel(call, count_rows(&w), w.length, forward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, out, w.to);
  nn_write_hidden(call, NN_GROUP_NORM_OUT_MEAN, &w.mode, w.mean);
  nn_write_hidden(call, NN_GROUP_NORM_OUT_RSTD, &w.mode, w.rstd);
  return TN_OK;
}

/* ---------------------------------------------------------------- backward */

/* Computes tasks [begin, end): task i has group i % groups of block i / groups
 * of images. */
static int32_t backward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(write_group_gradients);
  const group_work *w = arg;
  const int64_t groups = w->args.groups;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / groups * w->each, left = w->images - image;
    group_args own = w->args;
    own.first = i % groups;
    own.distance = groups;
    own.sums = w->sums + i / groups * 2 * count_channels(w);
    const tn_kernel_block block = make_block(w, image * groups + own.first,
                                             left < w->each ? left : w->each);
    nn_run_loop(&w->mode, &loops, &block, &own);
  }
  return TN_OK;
}

/* Adds the sums of all blocks in their order to those of the first block, and
 * writes the gradients of gamma and beta. */
static void write_weight_gradients(const group_work *w) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  const int64_t n = count_channels(w);
  for (int64_t b = 1; b < w->blocks; ++b)
    tn_kernel_add_dense(w->sums, w->sums + b * 2 * n, &mode, 2 * n);
  for (uint32_t k = 0; k < 2; ++k) {
    const tn_tensor *to = &w->call->out[NN_GROUP_NORM_IN_GAMMA + k];
    if (w->call->req[NN_GROUP_NORM_IN_GAMMA + k] != TN_REQ_NULL)
      tn_kernel_store_dense(to->data, to->dtype, w->sums + k * n, &mode, n);
  }
}

/* Runs a backward call. If only the gradient of beta is requested, there is no
 * data; the output gradient replaces it. */
static int32_t run_backward(const tn_frame *call, group_options options) {
  const tn_tensor *to = &call->out[NN_GROUP_NORM_IN_DATA];
  const tn_tensor *data = &call->in[NN_GROUP_NORM_BACKWARD_IN_DATA];
  group_work w = make_work(call, options);
  const int64_t channels = count_channels(&w);
  const int64_t blocks = w.blocks > 0 ? w.blocks : 1;
  nn_wide_operands wide = nn_open_wide_operands(call, find_data(call)->dtype,
                                                count_own_bytes(&w, 1));
  char *buffer = call->ws[0];
  w.args.gamma =
      nn_read_weight(&w.mode, &call->in[NN_GROUP_NORM_BACKWARD_IN_GAMMA],
                     channels, nn_take_bytes(&buffer, channels * w.bytes));
  w.sums = (double *)(void *)buffer;
  memset(w.sums, 0, (size_t)(blocks * 2 * channels) * sizeof *w.sums);
  if (data->data && data->dtype == w.mode.compute) { /* not rounded */
    w.mean = call->in[NN_GROUP_NORM_BACKWARD_OUT_MEAN].data;
    w.rstd = call->in[NN_GROUP_NORM_BACKWARD_OUT_RSTD].data;
  }
  w.in[0] = nn_widen_input(&wide, find_data(call));
  w.in[1] = data->data ? nn_widen_input(&wide, data) : w.in[0];
  w.to = nn_locate_wide_output(&wide, to, call->req[NN_GROUP_NORM_IN_DATA]);
  int32_t code = TN_OK;
  if (w.length > 0)
    code = nn_run_parallel(call, w.blocks * w.args.groups, w.each * w.length,
                           backward_slice, &w);
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, to, w.to);
  write_weight_gradients(&w);
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

#define GROUP_OPERATOR(name, groups_of_call)                                  \
  /* Returns the parameters of a call. */                                     \
  static group_options read_##name##_options(const tn_frame *call) {          \
    return (group_options){groups_of_call, nn_##name##_params_of(call)->eps}; \
  }                                                                           \
  int32_t nn_##name##_bytes(const tn_frame *call, uint64_t *bytes) {          \
    return count_bytes(call, read_##name##_options(call), bytes);             \
  }                                                                           \
  int32_t nn_##name(const tn_frame *call) {                                   \
    return run_forward(call, read_##name##_options(call));                    \
  }                                                                           \
  int32_t nn_##name##_backward(const tn_frame *call) {                        \
    return run_backward(call, read_##name##_options(call));                   \
  }

GROUP_OPERATOR(group_norm, nn_group_norm_params_of(call)->num_groups)
GROUP_OPERATOR(instance_norm, 0)
