/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.c: shapes and kernels of batch_norm.yaml. A tensor is outer x
 * channels x inner. Each channel is cut into pieces, by shape alone; each piece
 * gives two sums, which are merged in the order of pieces.
 */
#include "batch_norm.gen.h"

#include "axis.h"
#include "batch_norm.h"
#include "nn.h"
#include "writer.h"

/* ------------------------------------------------------------------ shapes */

static int32_t refuse_gamma(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`gamma` %s must have one number for each channel of `data` "
                 "%s, which are along axis %lld",
                 nn_shape(&call->in[NN_BATCH_NORM_IN_GAMMA]).text,
                 nn_shape(&call->in[NN_BATCH_NORM_IN_DATA]).text,
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
      nn_axis_find(call, nn_batch_norm_params_of(call)->axis, data, &dim);
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

enum {
  SEVERAL = 16
}; /* number of groups from which each is done by one
    * slice */

/* Arguments of a loop for a piece: of one channel, or of several adjacent
 * ones. */
typedef struct box {
  int64_t runs;
  int64_t apart;
  const double *mean;
  const double *scale;
  const double *shift;
  const double *slope;
  double *sums[2];
  int past; /* the result is written past the caches */
  uint32_t level;
} box;

#define NN_EACH "batch_rows.h"
#include "each.h"

/* ------------------------------------------------------------------ pieces */

/* Values of each channel. */
enum { MEAN, VAR, GAMMA, BETA, SCALE, SHIFT, SLOPE, N_KNOWN };

typedef struct work work;

/* One direction: the sums of pieces, the values of a channel from them, and the
 * loop over elements. */
typedef struct pass {
  nn_loops sums[2]; /* of planes, of columns */
  void (*finish)(const work *w, int64_t channel);
  nn_loops apply[2];
} pass;

struct work {
  const tn_frame *call;
  const pass *pass;
  nn_cut cut;
  tn_kernel_mode mode;
  int64_t bytes; /* of an element */
  const char *in[2];
  char *to;               /* NULL: only sums are requested */
  int past;               /* too large for every cache */
  tn_kernel_body *after;  /* loop over elements of the result, or NULL */
  double *known[N_KNOWN]; /* each for all channels */
  double *sums;           /* [piece][2][channel] */
};

/* Sum number `which` of piece `p`, of a channel and the channels after it. */
static double *sums_at(const work *w, int64_t channel, int64_t p, int which) {
  return w->sums + (p * 2 + which) * w->cut.e.length + channel;
}

static void run_piece(const work *w, const nn_loops *loops, int64_t group,
                      int64_t p) {
  const int64_t c = group * w->cut.wide;
  const nn_box at = nn_cut_at(&w->cut, c, p);
  const int64_t skip = at.first * w->bytes;
  tn_kernel_block block = {.n = at.n, .out = w->to ? w->to + skip : NULL};
  for (int k = 0; k < 2; ++k) block.in[k] = w->in[k] ? w->in[k] + skip : NULL;
  const box b = {.past = w->past,
                 .level = w->mode.level,
                 .runs = at.runs,
                 .apart = at.apart,
                 .mean = w->known[MEAN] + c,
                 .scale = w->known[SCALE] + c,
                 .shift = w->known[SHIFT] + c,
                 .slope = w->known[SLOPE] + c,
                 .sums = {sums_at(w, c, p, 0), sums_at(w, c, p, 1)}};
  nn_loop_run(&w->mode, &loops[w->cut.wide > 1], &block, &b);
}

/* Runs the fused function on a piece, while its elements are in a cache. */
static void run_after(const work *w, int64_t group, int64_t p) {
  const nn_box at = nn_cut_at(&w->cut, group * w->cut.wide, p);
  for (int64_t r = 0; r < at.runs; ++r) {
    char *to = w->to + (at.first + r * at.apart) * w->bytes;
    w->after(&(tn_kernel_block){.n = at.n, .out = to, .in = {to}}, NULL);
  }
}

static void finish_group(const work *w, int64_t group) {
  const int64_t first = group * w->cut.wide;
  for (int64_t c = first; c < first + w->cut.wide && c < w->cut.e.length; ++c)
    w->pass->finish(w, c);
}

/* ------------------------------------------------------------------ slices */

static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  for (int64_t i = begin; i < end; ++i)
    run_piece(w, w->pass->sums, i / w->cut.pieces, i % w->cut.pieces);
  return TN_OK;
}

static int32_t apply_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    run_piece(w, w->pass->apply, i / w->cut.pieces, i % w->cut.pieces);
    if (w->after) run_after(w, i / w->cut.pieces, i % w->cut.pieces);
  }
  return TN_OK;
}

/* Does all work of some groups while their elements are still in a cache. */
static int32_t group_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const int64_t pieces = w->cut.pieces;
  for (int64_t g = begin; g < end; ++g) {
    (void)sum_slice(arg, g * pieces, (g + 1) * pieces);
    finish_group(w, g);
    if (w->to) (void)apply_slice(arg, g * pieces, (g + 1) * pieces);
  }
  return TN_OK;
}

/* Computes sums, values of channels, and elements if requested. */
static int32_t run_all(work *w) {
  const nn_cut *c = &w->cut;
  if (c->groups >= SEVERAL || c->pieces <= 1)
    return nn_share(w->call, c->groups,
                    c->groups > 0 ? nn_extent_size(&c->e) / c->groups : 1,
                    group_slice, w);
  int32_t code = nn_cut_share(w->call, c, sum_slice, w);
  if (code != TN_OK) return code;
  for (int64_t g = 0; g < c->groups; ++g) finish_group(w, g);
  return w->to ? nn_cut_share(w->call, c, apply_slice, w) : TN_OK;
}

/* ---------------------------------------------------------------- channels */

static uint64_t known_bytes(const nn_cut *c) {
  const int64_t n = c->e.length * (N_KNOWN + 2 * c->pieces);
  return ((uint64_t)n * sizeof(double) + 63) / 64 * 64;
}

static nn_cut cut_of_call(const tn_frame *call) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const int64_t axis = nn_batch_norm_params_of(call)->axis;
  const tn_tensor *data = back ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                               : &call->in[NN_BATCH_NORM_IN_DATA];
  const int32_t dim = (int32_t)(axis < 0 ? axis + data->ndim : axis);
  return nn_cut_of(nn_extent_of(data, dim, dim));
}

int32_t nn_batch_norm_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *like = back ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                               : &call->in[NN_BATCH_NORM_IN_DATA];
  const nn_cut c = cut_of_call(call);
  *bytes = known_bytes(&c) + (back ? 3 : 2) * nn_wide_bytes(like);
  return TN_OK;
}

/* Leaves the operands unset; each pass reads those it needs. */
static work work_of(const tn_frame *call, const pass *way, nn_wide *wide) {
  work w = {.call = call, .pass = way, .cut = cut_of_call(call)};
  *wide = nn_wide_begin(call, call->in[0].dtype, known_bytes(&w.cut));
  w.mode = wide->mode;
  w.bytes = tn_dtype_bytes(w.mode.compute);
  const int64_t operands = (call->flags & TN_CALL_BACKWARD) != 0 ? 3 : 2;
  w.past = operands * nn_extent_size(&w.cut.e) * w.bytes >= NN_WRITER_LARGE;
  double *at = call->ws[0];
  for (int k = 0; k < N_KNOWN; ++k, at += w.cut.e.length) w.known[k] = at;
  w.sums = at;
  return w;
}

/* Reads an operand, one number for each channel; `other` if it is absent. */
static void read_known(const work *w, int which, const tn_tensor *from,
                       double other) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  double *to = w->known[which];
  const int64_t n = w->cut.e.length;
  if (from && from->data)
    tn_kernel_load_dense(to, &mode, from->data, from->dtype, n);
  for (int64_t c = 0; c < n && !(from && from->data); ++c) to[c] = other;
}

static void write_known(const work *w, const tn_tensor *to,
                        const double *from) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  tn_kernel_store_dense(to->data, to->dtype, from, &mode, w->cut.e.length);
}

static void read_gamma(const work *w, const tn_tensor *gamma) {
  const int fixed = nn_batch_norm_params_of(w->call)->fix_gamma;
  read_known(w, GAMMA, fixed ? NULL : gamma, 1);
}

static double inv_std(const work *w, int64_t channel) {
  return 1 /
         sqrt(w->known[VAR][channel] + nn_batch_norm_params_of(w->call)->eps);
}

/* Elements of a channel. */
static int64_t count_elements(const work *w) {
  return w->cut.e.outer * w->cut.e.inner;
}

/* Computes mean and variance of a channel from those of its pieces. */
static void merge_moments(const work *w, int64_t channel) {
  double mean = 0, spread = 0, n = 0;
  for (int64_t p = 0; p < w->cut.pieces; ++p) {
    const nn_box at = nn_cut_at(&w->cut, channel, p);
    const double more = (double)nn_cut_count(&w->cut, &at);
    const double step = *sums_at(w, channel, p, 0) - mean;
    const double share = more / (n + more);
    mean += step * share;
    spread += *sums_at(w, channel, p, 1) + step * step * n * share;
    n += more;
  }
  w->known[MEAN][channel] = mean;
  w->known[VAR][channel] = n > 0 ? spread / n : 0;
}

/* ----------------------------------------------------------------- forward */

static void finish_scale(const work *w, int64_t channel) {
  w->known[SCALE][channel] = w->known[GAMMA][channel] * inv_std(w, channel);
  w->known[SHIFT][channel] = w->known[BETA][channel];
}

static void finish_forward(const work *w, int64_t channel) {
  merge_moments(w, channel);
  finish_scale(w, channel);
}

static const pass forward_pass = {
    {NN_LOOPS(plane_moments), NN_LOOPS(column_moments)},
    finish_forward,
    {NN_LOOPS(plane_scale), NN_LOOPS(column_scale)}};

static int uses_batch(const tn_frame *call) {
  return (call->flags & TN_CALL_TRAIN) &&
         !nn_batch_norm_params_of(call)->use_global_stats;
}

static void move_average(const work *w, uint32_t aux, int batch) {
  const double keep = nn_batch_norm_params_of(w->call)->momentum;
  double *moving = w->known[SLOPE];
  read_known(w, SLOPE, &w->call->aux[aux], 0);
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    moving[c] = keep * moving[c] + (1 - keep) * w->known[batch][c];
  write_known(w, &w->call->aux[aux], moving);
}

/* Updates moving averages and writes hidden outputs. */
static void publish_results(const work *w) {
  const tn_frame *call = w->call;
  if (uses_batch(call) && count_elements(w) > 0) {
    move_average(w, NN_BATCH_NORM_AUX_MOVING_MEAN, MEAN);
    move_average(w, NN_BATCH_NORM_AUX_MOVING_VAR, VAR);
  }
  if (call->req[NN_BATCH_NORM_OUT_MEAN] != TN_REQ_NULL)
    write_known(w, &call->out[NN_BATCH_NORM_OUT_MEAN], w->known[MEAN]);
  if (call->req[NN_BATCH_NORM_OUT_INV_STD] == TN_REQ_NULL) return;
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    w->known[SLOPE][c] = inv_std(w, c);
  write_known(w, &call->out[NN_BATCH_NORM_OUT_INV_STD], w->known[SLOPE]);
}

int32_t nn_batch_norm(const tn_frame *call) {
  return nn_batch_norm_forward(call, NULL);
}

int32_t nn_batch_norm_forward(const tn_frame *call, tn_kernel_body *after) {
  const tn_tensor *out = &call->out[NN_BATCH_NORM_OUT_OUT];
  const int batch = uses_batch(call);
  int32_t code = TN_OK;
  nn_wide wide;
  work w = work_of(call, &forward_pass, &wide);
  w.after = after;
  if (after) w.past = 0; /* the result is read again */
  w.in[0] = nn_wide_read(&wide, &call->in[NN_BATCH_NORM_IN_DATA]);
  w.to = nn_wide_room(&wide, out, call->req[NN_BATCH_NORM_OUT_OUT]);
  read_gamma(&w, &call->in[NN_BATCH_NORM_IN_GAMMA]);
  read_known(&w, BETA, &call->in[NN_BATCH_NORM_IN_BETA], 0);
  read_known(&w, MEAN, batch ? NULL : &call->aux[NN_BATCH_NORM_AUX_MOVING_MEAN],
             0);
  read_known(&w, VAR, batch ? NULL : &call->aux[NN_BATCH_NORM_AUX_MOVING_VAR],
             0);
  if (batch) {
    code = run_all(&w);
  } else {
    for (int64_t c = 0; c < w.cut.e.length; ++c) finish_scale(&w, c);
    if (w.to) code = nn_cut_share(call, &w.cut, apply_slice, &w);
  }
  if (code != TN_OK) return code;
  if (w.to) nn_wide_write(&wide, out, w.to);
  publish_results(&w);
  return TN_OK;
}

/* ---------------------------------------------------------------- backward */

/* known[VAR] holds 1/sqrt(var + eps) here, known[BETA] and known[GAMMA] become
 * the gradients. */
static void finish_backward(const work *w, int64_t channel) {
  const int64_t all = count_elements(w);
  const double inverse = w->known[VAR][channel];
  const double n = all > 0 ? (double)all : 1;
  double sum = 0, moment = 0;
  for (int64_t p = 0; p < w->cut.pieces; ++p) {
    sum += *sums_at(w, channel, p, 0);
    moment += *sums_at(w, channel, p, 1);
  }
  w->known[SCALE][channel] = w->known[GAMMA][channel] * inverse;
  w->known[SHIFT][channel] = sum / n;
  w->known[SLOPE][channel] = inverse * inverse * moment / n;
  w->known[BETA][channel] = sum;
  w->known[GAMMA][channel] = moment * inverse;
}

static const pass backward_pass = {
    {NN_LOOPS(plane_slopes), NN_LOOPS(column_slopes)},
    finish_backward,
    {NN_LOOPS(plane_back), NN_LOOPS(column_back)}};

/* Computes the statistics of a half precision batch again: the saved ones are
 * rounded. */
static int32_t measure_again(const work *w) {
  static const pass again = {
      .sums = {NN_LOOPS(plane_moments), NN_LOOPS(column_moments)},
      .finish = merge_moments};
  work own = *w;
  own.pass = &again;
  own.in[0] = w->in[1];
  own.to = NULL;
  const int32_t code = run_all(&own);
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    w->known[VAR][c] = inv_std(w, c);
  return code;
}

/* With moving averages the gradient of out is only scaled. */
static int32_t apply_fixed(work *w) {
  const pass scale = {.apply = {NN_LOOPS(plane_scale), NN_LOOPS(column_scale)}};
  work own = *w;
  own.pass = &scale;
  for (int64_t c = 0; c < w->cut.e.length; ++c)
    w->known[MEAN][c] = w->known[SHIFT][c] = 0;
  return nn_cut_share(own.call, &own.cut, apply_slice, &own);
}

static void write_gradients(const work *w) {
  const tn_frame *call = w->call;
  if (call->req[NN_BATCH_NORM_IN_BETA] != TN_REQ_NULL)
    write_known(w, &call->out[NN_BATCH_NORM_IN_BETA], w->known[BETA]);
  if (call->req[NN_BATCH_NORM_IN_GAMMA] == TN_REQ_NULL) return;
  if (nn_batch_norm_params_of(call)->fix_gamma) read_known(w, GAMMA, NULL, 0);
  write_known(w, &call->out[NN_BATCH_NORM_IN_GAMMA], w->known[GAMMA]);
}

/* If only the gradient of beta is requested, there is no data; the gradient of
 * out replaces it. */
int32_t nn_batch_norm_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_BATCH_NORM_IN_DATA];
  const tn_tensor *data = &call->in[NN_BATCH_NORM_BACKWARD_IN_DATA];
  nn_wide wide;
  work w = work_of(call, &backward_pass, &wide);
  w.in[0] = nn_wide_read(&wide, &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]);
  w.in[1] = data->data ? nn_wide_read(&wide, data) : w.in[0];
  char *slope = nn_wide_room(&wide, to, call->req[NN_BATCH_NORM_IN_DATA]);
  const int batch = uses_batch(call);
  int32_t code = TN_OK;
  read_gamma(&w, &call->in[NN_BATCH_NORM_BACKWARD_IN_GAMMA]);
  read_known(&w, MEAN, &call->in[NN_BATCH_NORM_BACKWARD_OUT_MEAN], 0);
  read_known(&w, VAR, &call->in[NN_BATCH_NORM_BACKWARD_OUT_INV_STD], 0);
  if (batch && data->data && data->dtype != w.mode.compute)
    code = measure_again(&w);
  w.to = batch ? slope : NULL;
  if (code == TN_OK) code = run_all(&w);
  w.to = slope;
  if (code == TN_OK && !batch && slope) code = apply_fixed(&w);
  if (code != TN_OK) return code;
  if (slope) nn_wide_write(&wide, to, slope);
  write_gradients(&w);
  return TN_OK;
}
