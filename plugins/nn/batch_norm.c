/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.c: shapes and kernels of batch_norm.yaml. A tensor is outer x
 * channels x inner. Each channel is divided into pieces, by shape alone. A loop
 * computes two sums of each piece, which are then added in the order of pieces.
 */
#include "batch_norm.gen.h"

#include "axis.h"
#include "batch_norm.h"
#include "nn.h"
#include "writer.h"

/* ------------------------------------------------------------------ shapes */

/* Reports a gamma that does not have one number for each channel. Returns the
 * failure. */
static int32_t refuse_gamma(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`gamma` %s must have one number for each channel of `data` "
                 "%s, which are along axis %lld",
                 nn_print_shape(&call->in[NN_BATCH_NORM_IN_GAMMA]).text,
                 nn_print_shape(&call->in[NN_BATCH_NORM_IN_DATA]).text,
                 (long long)nn_batch_norm_params_of(call)->axis);
}

int32_t nn_batch_norm_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_BATCH_NORM_IN_DATA];
  const tn_tensor *gamma = &call->in[NN_BATCH_NORM_IN_GAMMA];
  int64_t shape[TN_MAX_NDIM], channels = -1;
  int32_t dim;
  if (gamma->ndim >= 0 && gamma->ndim != 1) return refuse_gamma(call);
  if (gamma->ndim == 1) channels = gamma->shape[0];
  if (data->ndim < 0) return TN_OK;
  int32_t code =
      nn_axis_find_dim(call, nn_batch_norm_params_of(call)->axis, data, &dim);
  if (code != TN_OK) return code;
  if (channels >= 0 && data->shape[dim] >= 0 && data->shape[dim] != channels)
    return refuse_gamma(call);
  if (channels < 0) channels = data->shape[dim];
  memcpy(shape, data->shape, (size_t)data->ndim * sizeof *shape);
  shape[dim] = channels;
  code = call->host->set_shape(call, TN_OPERAND_IN, NN_BATCH_NORM_IN_DATA,
                               data->ndim, shape);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, NN_BATCH_NORM_IN_GAMMA, 1,
                               &channels);
}

/* ------------------------------------------------------------------- loops */

/* With at least so many groups of channels, one slice does all work of a
 * group. */
enum { SEVERAL = 16 };

/* Arguments of a loop over one piece, of one channel or of several adjacent
 * channels. */
typedef struct piece_args {
  int64_t runs;
  int64_t run_distance;
  const double *mean;
  const double *scale;
  const double *shift;
  const double *factor;
  double *sums[2];
  int streamed; /* the result is written past the caches */
  uint32_t level;
} piece_args;

#define NN_EACH "batch_rows.h"
#include "each.h"

/* ------------------------------------------------------------------ pieces */

/* Indices of `values`, arrays with one number for each channel. */
enum { MEAN, VAR, GAMMA, BETA, SCALE, SHIFT, SLOPE, N_VALUES };

typedef struct batch_work batch_work;

/* A forward or backward pass: the loop that sums pieces, the function that
 * computes the values of a channel from the sums, and the loop that writes
 * elements. */
typedef struct pass {
  nn_loops sums[2]; /* the loops for groups that are planes, and for groups that
                       are columns */
  void (*finish)(const batch_work *w, int64_t channel);
  nn_loops apply[2];
} pass;

struct batch_work {
  const tn_frame *call;
  const pass *pass;
  nn_channel_division cut;
  tn_kernel_mode mode;
  int64_t bytes; /* bytes of an element */
  const char *in[2];
  char *to;     /* address of the result; NULL if only sums are requested */
  int streamed; /* the result is larger than the caches, and is written past
                   them */
  tn_kernel_body *after;    /* loop over elements of the result, or NULL */
  double *values[N_VALUES]; /* one number for each channel */
  double *sums;             /* [piece][2][channel] */
};

/* Returns the address of sum `which` of piece `p`, for a channel and the
 * channels after it. */
static double *locate_sums(const batch_work *w, int64_t channel, int64_t p,
                           int which) {
  return w->sums + (p * 2 + which) * w->cut.e.length + channel;
}

/* Runs a loop on piece p of a group of channels. */
static void run_piece(const batch_work *w, const nn_loops *loops, int64_t group,
                      int64_t p) {
  const int64_t c = group * w->cut.wide;
  const nn_channel_piece at = nn_locate_channel_piece(&w->cut, c, p);
  const int64_t skip = at.first * w->bytes;
  tn_kernel_block block = {.n = at.n, .out = w->to ? w->to + skip : NULL};
  for (int k = 0; k < 2; ++k) block.in[k] = w->in[k] ? w->in[k] + skip : NULL;
  const piece_args b = {
      .streamed = w->streamed,
      .level = w->mode.level,
      .runs = at.runs,
      .run_distance = at.run_distance,
      .mean = w->values[MEAN] + c,
      .scale = w->values[SCALE] + c,
      .shift = w->values[SHIFT] + c,
      .factor = w->values[SLOPE] + c,
      .sums = {locate_sums(w, c, p, 0), locate_sums(w, c, p, 1)}};
  nn_run_loop(&w->mode, &loops[w->cut.wide > 1], &block, &b);
}

/* Runs the function `after` on the result of a piece, while its elements are in
 * a cache. */
static void run_after_piece(const batch_work *w, int64_t group, int64_t p) {
  const nn_channel_piece at =
      nn_locate_channel_piece(&w->cut, group * w->cut.wide, p);
  for (int64_t r = 0; r < at.runs; ++r) {
    char *to = w->to + (at.first + r * at.run_distance) * w->bytes;
    w->after(&(tn_kernel_block){.n = at.n, .out = to, .in = {to}}, NULL);
  }
}

/* Computes the values of all channels of a group from their sums. */
static void finish_group(const batch_work *w, int64_t group) {
  const int64_t first = group * w->cut.wide;
  for (int64_t c = first; c < first + w->cut.wide && c < w->cut.e.length; ++c)
    w->pass->finish(w, c);
}

/* ------------------------------------------------------------------ slices */

/* Adds up pieces [begin, end) of all groups. */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const batch_work *w = arg;
  for (int64_t i = begin; i < end; ++i)
    run_piece(w, w->pass->sums, i / w->cut.pieces, i % w->cut.pieces);
  return TN_OK;
}

/* Writes the results of pieces [begin, end) of all groups. */
static int32_t apply_slice(void *arg, int64_t begin, int64_t end) {
  const batch_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    run_piece(w, w->pass->apply, i / w->cut.pieces, i % w->cut.pieces);
    if (w->after) run_after_piece(w, i / w->cut.pieces, i % w->cut.pieces);
  }
  return TN_OK;
}

/* Does all work of some groups while their elements are still in a cache. */
static int32_t group_slice(void *arg, int64_t begin, int64_t end) {
  const batch_work *w = arg;
  const int64_t pieces = w->cut.pieces;
  for (int64_t g = begin; g < end; ++g) {
    (void)sum_slice(arg, g * pieces, (g + 1) * pieces);
    finish_group(w, g);
    if (w->to) (void)apply_slice(arg, g * pieces, (g + 1) * pieces);
  }
  return TN_OK;
}

/* Computes sums, values of channels, and elements if requested. */
static int32_t run_groups(batch_work *w) {
  const nn_channel_division *c = &w->cut;
  if (c->groups >= SEVERAL || c->pieces <= 1)
    return nn_run_parallel(
        w->call, c->groups,
        c->groups > 0 ? nn_axis_count_elements(&c->e) / c->groups : 1,
        group_slice, w);
  int32_t code = nn_run_channel_pieces(w->call, c, sum_slice, w);
  if (code != TN_OK) return code;
  for (int64_t g = 0; g < c->groups; ++g) finish_group(w, g);
  return w->to ? nn_run_channel_pieces(w->call, c, apply_slice, w) : TN_OK;
}

/* ---------------------------------------------------------------- channels */

/* Returns the bytes of workspace for the values of channels and the sums of
 * pieces. */
static uint64_t count_value_bytes(const nn_channel_division *c) {
  const int64_t n = c->e.length * (N_VALUES + 2 * c->pieces);
  return ((uint64_t)n * sizeof(double) + 63) / 64 * 64;
}

/* Returns the division of the data's channels into groups and pieces. */
static nn_channel_division divide_call(const tn_frame *call) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const int64_t axis = nn_batch_norm_params_of(call)->axis;
  const tn_tensor *data = back ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                               : &call->in[NN_BATCH_NORM_IN_DATA];
  const int32_t dim = (int32_t)(axis < 0 ? axis + data->ndim : axis);
  return nn_divide_channels(nn_axis_find_shape(data, dim, dim));
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_batch_norm_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *like = back ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                               : &call->in[NN_BATCH_NORM_IN_DATA];
  const nn_channel_division c = divide_call(call);
  *bytes = count_value_bytes(&c) + (back ? 3 : 2) * nn_count_wide_bytes(like);
  return TN_OK;
}

/* Creates the state of a call and opens its converted operands. Each pass sets
 * the operands that it needs. */
static batch_work make_work(const tn_frame *call, const pass *used_pass,
                            nn_wide_operands *wide) {
  batch_work w = {.call = call, .pass = used_pass, .cut = divide_call(call)};
  *wide =
      nn_open_wide_operands(call, call->in[0].dtype, count_value_bytes(&w.cut));
  w.mode = wide->mode;
  w.bytes = tn_dtype_bytes(w.mode.compute);
  const int64_t operands = (call->flags & TN_CALL_BACKWARD) != 0 ? 3 : 2;
  w.streamed =
      operands * nn_axis_count_elements(&w.cut.e) * w.bytes >= NN_WRITER_LARGE;
  double *at = call->ws[0];
  for (int k = 0; k < N_VALUES; ++k, at += w.cut.e.length) w.values[k] = at;
  w.sums = at;
  return w;
}

/* Reads an operand with one number for each channel; all become `other` if it
 * is absent. */
static void read_values(const batch_work *w, int which, const tn_tensor *from,
                        double other) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  double *to = w->values[which];
  const int64_t n = w->cut.e.length;
  if (from && from->data)
    tn_kernel_load_dense(to, &mode, from->data, from->dtype, n);
  for (int64_t c = 0; c < n && !(from && from->data); ++c) to[c] = other;
}

/* Writes one number for each channel to an output. */
static void write_values(const batch_work *w, const tn_tensor *to,
                         const double *from) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  tn_kernel_store_dense(to->data, to->dtype, from, &mode, w->cut.e.length);
}

/* Reads gamma as f64; it counts as 1 if it is fixed. */
static void read_gamma(const batch_work *w, const tn_tensor *gamma) {
  const int fixed = nn_batch_norm_params_of(w->call)->fix_gamma;
  read_values(w, GAMMA, fixed ? NULL : gamma, 1);
}

/* Returns 1/sqrt(var + eps) of a channel. */
static double find_inv_std(const batch_work *w, int64_t channel) {
  return 1 /
         sqrt(w->values[VAR][channel] + nn_batch_norm_params_of(w->call)->eps);
}

/* Returns the number of elements of a channel. */
static int64_t count_elements(const batch_work *w) {
  return w->cut.e.outer * w->cut.e.inner;
}

/* Computes mean and variance of a channel from those of its pieces. */
static void merge_moments(const batch_work *w, int64_t channel) {
  double mean = 0, spread = 0, n = 0;
  for (int64_t p = 0; p < w->cut.pieces; ++p) {
    const nn_channel_piece at = nn_locate_channel_piece(&w->cut, channel, p);
    const double more = (double)nn_count_piece_elements(&w->cut, &at);
    const double step = *locate_sums(w, channel, p, 0) - mean;
    const double share = more / (n + more);
    mean += step * share;
    spread += *locate_sums(w, channel, p, 1) + step * step * n * share;
    n += more;
  }
  w->values[MEAN][channel] = mean;
  w->values[VAR][channel] = n > 0 ? spread / n : 0;
}

/* ----------------------------------------------------------------- forward */

/* Computes the factor and the summand with which the elements of a channel
 * become results. */
static void finish_scale(const batch_work *w, int64_t channel) {
  w->values[SCALE][channel] =
      w->values[GAMMA][channel] * find_inv_std(w, channel);
  w->values[SHIFT][channel] = w->values[BETA][channel];
}

/* Computes mean and variance of a channel from the sums of its pieces, and the
 * channel's scale. */
static void finish_forward(const batch_work *w, int64_t channel) {
  merge_moments(w, channel);
  finish_scale(w, channel);
}

static const pass forward_pass = {
    {NN_LOOPS(measure_plane), NN_LOOPS(measure_columns)},
    finish_forward,
    {NN_LOOPS(scale_plane), NN_LOOPS(scale_columns)}};

/* Tests whether mean and variance are those of the batch, not the moving
 * averages. */
static int has_batch_statistics(const tn_frame *call) {
  return (call->flags & TN_CALL_TRAIN) &&
         !nn_batch_norm_params_of(call)->use_global_stats;
}

/* Updates the moving average in state number `aux` with the values
 * w->values[batch] of the batch. */
static void move_average(const batch_work *w, uint32_t aux, int batch) {
  const double keep = nn_batch_norm_params_of(w->call)->momentum;
  double *moving = w->values[SLOPE];
  read_values(w, SLOPE, &w->call->aux[aux], 0);
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    moving[c] = keep * moving[c] + (1 - keep) * w->values[batch][c];
  write_values(w, &w->call->aux[aux], moving);
}

/* Updates moving averages and writes hidden outputs. */
static void publish_results(const batch_work *w) {
  const tn_frame *call = w->call;
  if (has_batch_statistics(call) && count_elements(w) > 0) {
    move_average(w, NN_BATCH_NORM_AUX_MOVING_MEAN, MEAN);
    move_average(w, NN_BATCH_NORM_AUX_MOVING_VAR, VAR);
  }
  if (call->req[NN_BATCH_NORM_OUT_MEAN] != TN_REQ_NULL)
    write_values(w, &call->out[NN_BATCH_NORM_OUT_MEAN], w->values[MEAN]);
  if (call->req[NN_BATCH_NORM_OUT_INV_STD] == TN_REQ_NULL) return;
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    w->values[SLOPE][c] = find_inv_std(w, c);
  write_values(w, &call->out[NN_BATCH_NORM_OUT_INV_STD], w->values[SLOPE]);
}

int32_t nn_batch_norm(const tn_frame *call) {
  return nn_batch_norm_forward(call, NULL);
}

int32_t nn_batch_norm_forward(const tn_frame *call, tn_kernel_body *after) {
  const tn_tensor *out = &call->out[NN_BATCH_NORM_OUT_OUT];
  const int batch = has_batch_statistics(call);
  int32_t code = TN_OK;
  nn_wide_operands wide;
  batch_work w = make_work(call, &forward_pass, &wide);
  w.after = after;
  if (after) w.streamed = 0; /* the result is read again */
  w.in[0] = nn_widen_input(&wide, &call->in[NN_BATCH_NORM_IN_DATA]);
  w.to = nn_locate_wide_output(&wide, out, call->req[NN_BATCH_NORM_OUT_OUT]);
  read_gamma(&w, &call->in[NN_BATCH_NORM_IN_GAMMA]);
  read_values(&w, BETA, &call->in[NN_BATCH_NORM_IN_BETA], 0);
  read_values(&w, MEAN,
              batch ? NULL : &call->aux[NN_BATCH_NORM_AUX_MOVING_MEAN], 0);
  read_values(&w, VAR, batch ? NULL : &call->aux[NN_BATCH_NORM_AUX_MOVING_VAR],
              0);
  if (batch) {
    code = run_groups(&w);
  } else {
    for (int64_t c = 0; c < w.cut.e.length; ++c) finish_scale(&w, c);
    if (w.to) code = nn_run_channel_pieces(call, &w.cut, apply_slice, &w);
  }
  if (code != TN_OK) return code;
  if (w.to) nn_store_wide_output(&wide, out, w.to);
  publish_results(&w);
  return TN_OK;
}

/* ---------------------------------------------------------------- backward */

/* Computes the values of a channel from its sums. values[VAR] holds 1/sqrt(var
 * + eps) in this pass; values[BETA] and values[GAMMA] become the gradients. */
static void finish_backward(const batch_work *w, int64_t channel) {
  const int64_t all = count_elements(w);
  const double inverse = w->values[VAR][channel];
  const double n = all > 0 ? (double)all : 1;
  double sum = 0, moment = 0;
  for (int64_t p = 0; p < w->cut.pieces; ++p) {
    sum += *locate_sums(w, channel, p, 0);
    moment += *locate_sums(w, channel, p, 1);
  }
  w->values[SCALE][channel] = w->values[GAMMA][channel] * inverse;
  w->values[SHIFT][channel] = sum / n;
  w->values[SLOPE][channel] = inverse * inverse * moment / n;
  w->values[BETA][channel] = sum;
  w->values[GAMMA][channel] = moment * inverse;
}

static const pass backward_pass = {
    {NN_LOOPS(sum_plane_gradients), NN_LOOPS(sum_column_gradients)},
    finish_backward,
    {NN_LOOPS(write_plane_gradients), NN_LOOPS(write_column_gradients)}};

/* Computes mean and 1/sqrt(var + eps) of each channel from data in f16 or bf16,
 * because the saved values are rounded. A backward call runs it first. */
static int32_t recompute_statistics(const batch_work *w) {
  static const pass measure_pass = {
      .sums = {NN_LOOPS(measure_plane), NN_LOOPS(measure_columns)},
      .finish = merge_moments};
  batch_work own = *w;
  own.pass = &measure_pass;
  own.in[0] = w->in[1];
  own.to = NULL;
  const int32_t code = run_groups(&own);
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    w->values[VAR][c] = find_inv_std(w, c);
  return code;
}

/* Computes the gradient of data if mean and variance are moving averages: the
 * output gradient times the scale. */
static int32_t scale_by_fixed_statistics(batch_work *w) {
  const pass scale = {
      .apply = {NN_LOOPS(scale_plane), NN_LOOPS(scale_columns)}};
  batch_work own = *w;
  own.pass = &scale;
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    w->values[MEAN][c] = w->values[SHIFT][c] = 0;
  return nn_run_channel_pieces(own.call, &own.cut, apply_slice, &own);
}

/* Writes the requested gradients of gamma and beta. */
static void write_gradients(const batch_work *w) {
  const tn_frame *call = w->call;
  if (call->req[NN_BATCH_NORM_IN_BETA] != TN_REQ_NULL)
    write_values(w, &call->out[NN_BATCH_NORM_IN_BETA], w->values[BETA]);
  if (call->req[NN_BATCH_NORM_IN_GAMMA] == TN_REQ_NULL) return;
  if (nn_batch_norm_params_of(call)->fix_gamma) read_values(w, GAMMA, NULL, 0);
  write_values(w, &call->out[NN_BATCH_NORM_IN_GAMMA], w->values[GAMMA]);
}

/* Computes a backward call. If only the gradient of beta is requested, there is
 * no data; the output gradient replaces it. */
int32_t nn_batch_norm_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_BATCH_NORM_IN_DATA];
  const tn_tensor *data = &call->in[NN_BATCH_NORM_BACKWARD_IN_DATA];
  nn_wide_operands wide;
  batch_work w = make_work(call, &backward_pass, &wide);
  w.in[0] = nn_widen_input(&wide, &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]);
  w.in[1] = data->data ? nn_widen_input(&wide, data) : w.in[0];
  char *factor =
      nn_locate_wide_output(&wide, to, call->req[NN_BATCH_NORM_IN_DATA]);
  const int batch = has_batch_statistics(call);
  int32_t code = TN_OK;
  read_gamma(&w, &call->in[NN_BATCH_NORM_BACKWARD_IN_GAMMA]);
  read_values(&w, MEAN, &call->in[NN_BATCH_NORM_BACKWARD_OUT_MEAN], 0);
  read_values(&w, VAR, &call->in[NN_BATCH_NORM_BACKWARD_OUT_INV_STD], 0);
  if (batch && data->data && data->dtype != w.mode.compute)
    code = recompute_statistics(&w);
  w.to = batch ? factor : NULL;
  if (code == TN_OK) code = run_groups(&w);
  w.to = factor;
  if (code == TN_OK && !batch && factor) code = scale_by_fixed_statistics(&w);
  if (code != TN_OK) return code;
  if (factor) nn_store_wide_output(&wide, to, factor);
  write_gradients(&w);
  return TN_OK;
}
