/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.c: nn.batch_norm with cuDNN, and the forward pass of
 * nn.batch_norm_activation for relu. cuDNN sees an array as outer x channels x
 * inner, for every axis.
 *
 * cuDNN computes its moving variance with a divisor of n - 1, the operator with
 * n. So the plan computes the variance of the batch alone, and a second graph
 * of pointwise operations updates the average. If gamma counts as 1, cuDNN gets
 * an array of ones.
 */
#include "batch_norm.gen.h"

#include <stddef.h>
#include <stdlib.h>

#include "kit.h"

enum {
  MOST_BESIDE = 64 << 20, /* bytes of workspace in addition to copies of
                           * arrays */
  SIDE_BY_SIDE = 4        /* adjacent channels that its engines load in f32 */
};

/* A forward call has two plans, a gradient one; others are NULL. */
struct cudnn_batch_norm_state {
  cudnn_instance *instance;
  cudnn_plan *main;
  cudnn_plan *channels; /* for arrays of channels: CUDNN_INVERSE, CUDNN_MOVE */
};

/* ------------------------------------------------------------------ a call */

static int uses_batch(const tn_frame *call) {
  return (call->flags & TN_CALL_TRAIN) &&
         !nn_batch_norm_params_of(call)->use_global_stats;
}

/* A gradient of beta alone is only a sum. */
static int is_sum(const tn_frame *call) {
  return cudnn_is_backward(call) &&
         !cudnn_is_wanted(call, NN_BATCH_NORM_IN_DATA) &&
         !cudnn_is_wanted(call, NN_BATCH_NORM_IN_GAMMA);
}

typedef struct extent {
  int64_t outer;
  int64_t channels;
  int64_t inner;
} extent;

static extent extent_of(const tn_frame *call) {
  const tn_tensor *x = cudnn_is_backward(call)
                           ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                           : &call->in[NN_BATCH_NORM_IN_DATA];
  const int64_t axis = nn_batch_norm_params_of(call)->axis;
  const int64_t dim = axis < 0 ? axis + x->ndim : axis;
  extent e = {1, x->shape[dim], 1};
  for (int64_t d = 0; d < x->ndim; ++d) {
    if (d < dim) e.outer *= x->shape[d];
    if (d > dim) e.inner *= x->shape[d];
  }
  return e;
}

/* ------------------------------------------------------------------ choice */

static int32_t check_batch(const tn_frame *call, const extent *e) {
  if (e->channels % SIDE_BY_SIDE != 0)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN has no engine for %lld channels in f32: it wants a "
                   "multiple of %d",
                   (long long)e->channels, SIDE_BY_SIDE);
  if (e->outer * e->inner == 1)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN divides by the number of elements of a channel less "
                   "one, and there is one");
  return TN_OK;
}

int32_t cudnn_batch_norm_supports(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  const extent e = extent_of(call);
  if (!self->scope->sum)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "it takes the device's sums to copy numbers of channels; "
                   "this cuda.so was built without nvcc");
  if (e.outer * e.channels * e.inner == 0)
    return TN_FAIL(call, TN_UNSUPPORTED, "there is nothing to normalise");
  if (is_sum(call)) return TN_OK;
  if (uses_batch(call)) return check_batch(call, &e);
  if (cudnn_is_backward(call))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN's gradient is that of statistics of the batch, and "
                   "these are moving averages");
  return TN_OK;
}

int32_t cudnn_batch_norm_activation_supports(const tn_frame *call) {
  return cudnn_batch_norm_supports(call);
}

/* ------------------------------------------------------------------- plans */

/* cuDNN needs an image of two dimensions for a batch norm, and one matrix for
 * pointwise operations. It has no engine for these if images are not NHWC. With
 * several matrices its engine computes wrong elements in all but the first if
 * they share one number per row (9.19, on an H200). So each row of the matrix
 * has its own number. */
static void describe_task(const tn_frame *call, int what, cudnn_task *out) {
  const extent e = extent_of(call);
  const int is_matrix = what >= CUDNN_NORM_KNOWN;
  const int is_list = what == CUDNN_INVERSE || what == CUDNN_MOVE;
  cudnn_task_begin(call, what, out);
  out->rank = is_matrix ? 1 : 2;
  out->data[0] = is_matrix ? 1 : e.outer;
  out->data[1] = what == CUDNN_NORM_KNOWN ? e.outer * e.channels : e.channels;
  out->data[2] = is_list ? 1 : e.inner;
  if (!is_matrix) out->data[3] = 1;
  for (int d = 0; d < CUDNN_MOST_DIMS; ++d)
    out->out[d] = out->weight[d] = out->data[d];
  out->most_workspace = cudnn_room(out, MOST_BESIDE);
}

static int32_t take_plan(const tn_frame *call, int what, uint32_t flags,
                         cudnn_plan **out) {
  cudnn_task task;
  describe_task(call, what, &task);
  task.flags = flags;
  return cudnn_plan_take(call, &task, out);
}

static int32_t plan_all(const tn_frame *call, uint32_t flags,
                        cudnn_batch_norm_state *state) {
  const int batch = uses_batch(call);
  if (is_sum(call)) return TN_OK;
  if (cudnn_is_backward(call))
    return take_plan(call, CUDNN_NORM_DATA, 0, &state->main);
  const int32_t code = take_plan(call, batch ? CUDNN_NORM : CUDNN_NORM_KNOWN,
                                 flags, &state->main);
  if (code != TN_OK) return code;
  return take_plan(call, batch ? CUDNN_MOVE : CUDNN_INVERSE, 0,
                   &state->channels);
}

static int32_t create_state(const tn_frame *call, uint32_t flags,
                            cudnn_batch_norm_state **out) {
  cudnn_batch_norm_state *state = calloc(1, sizeof *state);
  *out = NULL;
  if (!state) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for plans");
  state->instance = call->instance;
  const int32_t code = plan_all(call, flags, state);
  if (code == TN_OK)
    *out = state;
  else
    cudnn_batch_norm_destroy(state);
  return code;
}

int32_t cudnn_batch_norm_create(const tn_frame *call,
                                cudnn_batch_norm_state **out) {
  return create_state(call, 0, out);
}

int32_t cudnn_batch_norm_activation_create(const tn_frame *call,
                                           cudnn_batch_norm_state **out) {
  return create_state(call, CUDNN_RELU, out);
}

void cudnn_batch_norm_destroy(cudnn_batch_norm_state *state) {
  cudnn_plan_give(state->instance, state->main);
  cudnn_plan_give(state->instance, state->channels);
  free(state);
}

/* --------------------------------------------------------------- workspace */

/* Arrays after the workspace of the plans, each with one number per channel;
 * with moving averages, one per channel of each image. At the end there is room
 * for a data array that was not requested. */
enum { ONES, ZEROS, FIRST, SECOND, THIRD, FOURTH, N_ROOMS };

static int64_t round_up(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

static int64_t plans_bytes(const cudnn_batch_norm_state *state) {
  const int64_t main = state->main ? state->main->made.workspace : 0;
  const int64_t more = state->channels ? state->channels->made.workspace : 0;
  return round_up(main > more ? main : more);
}

static int64_t room_bytes(const tn_frame *call, const extent *e) {
  const int64_t images =
      cudnn_is_backward(call) || uses_batch(call) ? 1 : e->outer;
  return round_up(images * e->channels * (int64_t)sizeof(float));
}

/* Bytes of out in a forward call, of the gradient of data in a backward
 * call. */
static int64_t data_bytes(const tn_frame *call, const extent *e) {
  if (is_sum(call) || cudnn_is_wanted(call, NN_BATCH_NORM_IN_DATA)) return 0;
  return e->outer * e->channels * e->inner * (int64_t)sizeof(float);
}

static int32_t bytes_of(const tn_frame *call,
                        const cudnn_batch_norm_state *state, uint64_t *bytes) {
  const extent e = extent_of(call);
  *bytes = (uint64_t)(plans_bytes(state) + N_ROOMS * room_bytes(call, &e) +
                      data_bytes(call, &e));
  return TN_OK;
}

int32_t cudnn_batch_norm_bytes(const tn_frame *call, uint64_t *bytes) {
  return bytes_of(call, cudnn_batch_norm_cuda_state_of(call), bytes);
}

int32_t cudnn_batch_norm_activation_bytes(const tn_frame *call,
                                          uint64_t *bytes) {
  return bytes_of(call, cudnn_batch_norm_activation_cuda_state_of(call), bytes);
}

/* -------------------------------------------------------------------- runs */

typedef struct run {
  const tn_frame *call;
  const cudnn_batch_norm_state *state;
  extent e;
  char *rooms;
} run;

static run run_of(const tn_frame *call, const cudnn_batch_norm_state *state) {
  run r = {call, state, extent_of(call), NULL};
  r.rooms = (char *)call->ws[0] + plans_bytes(state);
  return r;
}

static void *room_of(const run *r, int which) {
  return r->rooms + which * room_bytes(r->call, &r->e);
}

/* Address of an array of the call, or of room in the workspace if it was not
 * requested. */
static void *find_output(const run *r, uint32_t out, int otherwise) {
  return cudnn_is_wanted(r->call, out) ? r->call->out[out].data
                                       : room_of(r, otherwise);
}

static int32_t enqueue_sum(const run *r, const tn_device_sum *what) {
  const cudnn_instance *self = r->call->instance;
  return self->scope->sum(self->scope, r->call, what);
}

/* Copies one number per channel; writes `value` if `from` is NULL. */
static int32_t copy_channels(const run *r, void *to, const void *from,
                             double value) {
  const tn_sum_axis axis = {r->e.channels, 1, from ? 1 : 0};
  return enqueue_sum(r, &(tn_device_sum){.struct_size = sizeof(tn_device_sum),
                                         .dtype = TN_F32,
                                         .n_kept = 1,
                                         .axes = &axis,
                                         .to = to,
                                         .from = from,
                                         .value = value});
}

/* Repeats the numbers of channels for each image; keeps their address for one
 * image. */
static int32_t repeat_channels(const run *r, const void **list, int to) {
  const tn_sum_axis axes[] = {{r->e.outer, r->e.channels, 0},
                              {r->e.channels, 1, 1}};
  const void *from = *list;
  if (r->e.outer == 1) return TN_OK;
  *list = room_of(r, to);
  return enqueue_sum(r, &(tn_device_sum){.struct_size = sizeof(tn_device_sum),
                                         .dtype = TN_F32,
                                         .n_kept = 2,
                                         .axes = axes,
                                         .to = room_of(r, to),
                                         .from = from});
}

/* A number that cuDNN reads from host memory when it enqueues, aligned like an
 * array. */
typedef struct number {
  _Alignas(16) float value;
} number;

/* Gamma, or ones if it counts as 1 or the call does not have it because nothing
 * depends on it. */
static int32_t find_gamma(const run *r, uint32_t in, const void **out) {
  const tn_tensor *gamma = &r->call->in[in];
  *out = gamma->data;
  if (gamma->data && !nn_batch_norm_params_of(r->call)->fix_gamma) return TN_OK;
  *out = room_of(r, ONES);
  return copy_channels(r, room_of(r, ONES), NULL, 1);
}

/* Computes keep*moving + share*fresh. Not in place: cuDNN does not document
 * that. */
static int32_t update_average(const run *r, uint32_t aux, const void *fresh,
                              double share) {
  const double keep = nn_batch_norm_params_of(r->call)->momentum;
  const number kept = {(float)keep}, shared = {(float)((1 - keep) * share)};
  void *moving = r->call->aux[aux].data;
  const cudnn_operand operands[] = {{CUDNN_ID_OLD_MEAN, moving},
                                    {CUDNN_ID_MEAN, fresh},
                                    {CUDNN_ID_NEW_MEAN, room_of(r, ONES)},
                                    {CUDNN_ID_KEEP, &kept},
                                    {CUDNN_ID_SHARE, &shared}};
  const int32_t code = cudnn_run(r->call, r->state->channels, operands, 5);
  return code == TN_OK ? copy_channels(r, moving, room_of(r, ONES), 0) : code;
}

static int32_t move_both(const run *r, const void *mean, const void *var) {
  const double n = (double)(r->e.outer * r->e.inner);
  const int32_t code =
      update_average(r, NN_BATCH_NORM_AUX_MOVING_MEAN, mean, 1);
  if (code != TN_OK) return code;
  return update_average(r, NN_BATCH_NORM_AUX_MOVING_VAR, var, (n - 1) / n);
}

/* Uses the statistics of the batch. Averages of 0 with a kept share of 0 become
 * those of the batch. */
static int32_t run_batch(const run *r, const void *gamma) {
  const tn_frame *call = r->call;
  const number eps = {(float)nn_batch_norm_params_of(call)->eps}, all = {1};
  const void *mean = find_output(r, NN_BATCH_NORM_OUT_MEAN, FIRST);
  const cudnn_operand operands[] = {
      {CUDNN_ID_DATA, call->in[NN_BATCH_NORM_IN_DATA].data},
      {CUDNN_ID_OUT, find_output(r, NN_BATCH_NORM_OUT_OUT, N_ROOMS)},
      {CUDNN_ID_SCALE, gamma},
      {CUDNN_ID_BIAS, call->in[NN_BATCH_NORM_IN_BETA].data},
      {CUDNN_ID_MEAN, mean},
      {CUDNN_ID_INVERSE, find_output(r, NN_BATCH_NORM_OUT_INV_STD, SECOND)},
      {CUDNN_ID_OLD_MEAN, room_of(r, ZEROS)},
      {CUDNN_ID_OLD_VAR, room_of(r, ZEROS)},
      {CUDNN_ID_NEW_MEAN, room_of(r, THIRD)},
      {CUDNN_ID_NEW_VAR, room_of(r, FOURTH)},
      {CUDNN_ID_EPS, &eps},
      {CUDNN_ID_SHARE, &all}};
  int32_t code = copy_channels(r, room_of(r, ZEROS), NULL, 0);
  if (code == TN_OK) code = cudnn_run(call, r->state->main, operands, 12);
  return code == TN_OK ? move_both(r, mean, room_of(r, FOURTH)) : code;
}

/* Uses the moving averages. `beta` and all other arrays of channels are
 * repeated for each image. */
static int32_t run_known(const run *r, const void *gamma) {
  const tn_frame *call = r->call;
  const number eps = {(float)nn_batch_norm_params_of(call)->eps};
  const void *known = call->aux[NN_BATCH_NORM_AUX_MOVING_MEAN].data;
  const void *beta = call->in[NN_BATCH_NORM_IN_BETA].data, *mean = known;
  const void *inverse = find_output(r, NN_BATCH_NORM_OUT_INV_STD, FIRST);
  const cudnn_operand first[] = {
      {CUDNN_ID_OLD_VAR, call->aux[NN_BATCH_NORM_AUX_MOVING_VAR].data},
      {CUDNN_ID_INVERSE, inverse},
      {CUDNN_ID_EPS, &eps}};
  int32_t code = cudnn_run(call, r->state->channels, first, 3);
  if (code == TN_OK) code = repeat_channels(r, &mean, SECOND);
  if (code == TN_OK) code = repeat_channels(r, &inverse, THIRD);
  if (code == TN_OK) code = repeat_channels(r, &gamma, FOURTH);
  if (code == TN_OK) code = repeat_channels(r, &beta, ZEROS);
  if (code != TN_OK) return code;
  const cudnn_operand second[] = {
      {CUDNN_ID_DATA, call->in[NN_BATCH_NORM_IN_DATA].data},
      {CUDNN_ID_OUT, find_output(r, NN_BATCH_NORM_OUT_OUT, N_ROOMS)},
      {CUDNN_ID_MEAN, mean},
      {CUDNN_ID_INVERSE, inverse},
      {CUDNN_ID_SCALE, gamma},
      {CUDNN_ID_BIAS, beta}};
  code = cudnn_run(call, r->state->main, second, 6);
  if (code != TN_OK || !cudnn_is_wanted(call, NN_BATCH_NORM_OUT_MEAN))
    return code;
  return copy_channels(r, call->out[NN_BATCH_NORM_OUT_MEAN].data, known, 0);
}

static int32_t run_forward(const tn_frame *call,
                           const cudnn_batch_norm_state *state) {
  const run r = run_of(call, state);
  const void *gamma = NULL;
  const int32_t code = find_gamma(&r, NN_BATCH_NORM_IN_GAMMA, &gamma);
  if (code != TN_OK) return code;
  return uses_batch(call) ? run_batch(&r, gamma) : run_known(&r, gamma);
}

int32_t cudnn_batch_norm(const tn_frame *call) {
  return run_forward(call, cudnn_batch_norm_cuda_state_of(call));
}

/* --------------------------------------------------------------- gradients */

static int32_t sum_beta(const run *r) {
  const extent *e = &r->e;
  const tn_sum_axis axes[] = {{e->channels, 1, e->inner},
                              {e->outer, 0, e->channels * e->inner},
                              {e->inner, 0, 1}};
  if (!cudnn_is_wanted(r->call, NN_BATCH_NORM_IN_BETA)) return TN_OK;
  return enqueue_sum(
      r, &(tn_device_sum){
             .struct_size = sizeof(tn_device_sum),
             .dtype = TN_F32,
             .n_kept = 1,
             .n_summed = 2,
             .axes = axes,
             .to = r->call->out[NN_BATCH_NORM_IN_BETA].data,
             .from = r->call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT].data});
}

static int32_t run_gradients(const run *r) {
  const tn_frame *call = r->call;
  const int fixed = nn_batch_norm_params_of(call)->fix_gamma;
  void *to_gamma = find_output(r, NN_BATCH_NORM_IN_GAMMA, FIRST);
  const void *gamma = NULL;
  int32_t code = find_gamma(r, NN_BATCH_NORM_BACKWARD_IN_GAMMA, &gamma);
  const cudnn_operand operands[] = {
      {CUDNN_ID_DATA, call->in[NN_BATCH_NORM_BACKWARD_IN_DATA].data},
      {CUDNN_ID_OUT, call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT].data},
      {CUDNN_ID_MEAN, call->in[NN_BATCH_NORM_BACKWARD_OUT_MEAN].data},
      {CUDNN_ID_INVERSE, call->in[NN_BATCH_NORM_BACKWARD_OUT_INV_STD].data},
      {CUDNN_ID_SCALE, gamma},
      {CUDNN_ID_TO_SCALE, to_gamma},
      {CUDNN_ID_TO_BIAS, find_output(r, NN_BATCH_NORM_IN_BETA, SECOND)},
      {CUDNN_ID_TO_DATA, find_output(r, NN_BATCH_NORM_IN_DATA, N_ROOMS)}};
  if (code == TN_OK) code = cudnn_run(call, r->state->main, operands, 8);
  return code == TN_OK && fixed ? copy_channels(r, to_gamma, NULL, 0) : code;
}

int32_t cudnn_batch_norm_backward(const tn_frame *call) {
  const run r = run_of(call, cudnn_batch_norm_cuda_state_of(call));
  return is_sum(call) ? sum_beta(&r) : run_gradients(&r);
}

/* --------------------------------------------------------- with activation */

/* All functions above treat its call as one of nn.batch_norm. */
_Static_assert(offsetof(nn_batch_norm_activation_params, axis) ==
                   offsetof(nn_batch_norm_params, axis),
               "the params do not begin with those of batch_norm");

int32_t cudnn_batch_norm_activation(const tn_frame *call) {
  return run_forward(call, cudnn_batch_norm_activation_cuda_state_of(call));
}
