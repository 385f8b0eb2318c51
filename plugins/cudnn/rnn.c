/* SPDX-License-Identifier: Apache-2.0
 * rnn.c: nn.rnn with cuDNN's functions for recurrent layers. Its cells, gates
 * and parameters are those of the operator.
 *
 * A backward call of cuDNN needs memory that a forward call for training has
 * filled. Only cuDNN knows its size, and the operator has no output for it. So
 * a forward call fills nothing, and a backward call computes the forward pass
 * again, into its workspace. `kept`, which only the kernels of the CPU read,
 * gets zeros, so that equal calls have equal outputs.
 */
#include "rnn.h"

#include <stdlib.h>

#include "rnn.gen.h"

struct cudnn_rnn_state {
  cudnn_instance *instance;
  int32_t device;
  cudnn_rnn_sizes sizes;
  cudnn_rnn_plan plan;
};

/* ----------------------------------------------------------------- a call */

/* The address of an input; NULL if it is absent. */
static const void *find_input(const tn_frame *call, uint32_t i) {
  if (i >= call->n_in || call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA))
    return NULL;
  return call->in[i].data;
}

/* The address of an output; NULL if it is not requested. */
static void *find_output(const tn_frame *call, uint32_t i) {
  return cudnn_is_wanted(call, i) ? call->out[i].data : NULL;
}

static int is_lstm(const tn_frame *call) {
  return nn_rnn_params_of(call)->mode == NN_RNN_MODE_LSTM;
}

static unsigned find_kind(const nn_rnn_params *p) {
  return p->mode == NN_RNN_MODE_LSTM       ? DNN_RNN_LSTM
         : p->mode == NN_RNN_MODE_GRU      ? DNN_RNN_GRU
         : p->mode == NN_RNN_MODE_RNN_TANH ? DNN_RNN_TANH
                                           : DNN_RNN_RELU;
}

/* Without options, which are unknown while kernels are chosen. */
static cudnn_rnn_sizes describe_sizes(const tn_frame *call) {
  const nn_rnn_params *p = nn_rnn_params_of(call);
  const tn_tensor *data = cudnn_is_backward(call)
                              ? &call->in[NN_RNN_BACKWARD_IN_DATA]
                              : &call->in[NN_RNN_IN_DATA];
  return (cudnn_rnn_sizes){
      .kind = find_kind(p),
      .mode = cudnn_is_backward(call) ? DNN_RNN_TRAINING : DNN_RNN_INFERENCE,
      .dtype = data->dtype,
      .steps = data->shape[0],
      .batch = data->shape[1],
      .inputs = data->shape[2],
      .units = p->state_size,
      .layers = p->num_layers,
      .directions = p->bidirectional ? 2 : 1};
}

/* Whether there is no cell. */
static int is_empty(const cudnn_rnn_sizes *s) {
  return s->steps == 0 || s->batch == 0;
}

/* ------------------------------------------------------------------ choice */

/* Whether a product of sizes is more than cuDNN counts. */
static int is_too_large(const cudnn_rnn_sizes *s) {
  const double wide = (double)s->directions * (double)s->units;
  return s->inputs > INT32_MAX || wide * (double)s->layers > INT32_MAX ||
         (double)s->steps * (double)s->batch > INT32_MAX ||
         (double)s->batch * wide * (double)s->layers > INT32_MAX;
}

int32_t cudnn_rnn_supports(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  const nn_rnn_params *p = nn_rnn_params_of(call);
  const cudnn_rnn_sizes s = describe_sizes(call);
  if (!self->scope->sum)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "it takes the device's sums to clear gradients and to move "
                   "weights; this cuda.so was built without nvcc");
  if (s.inputs == 0)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN has no sequences of rows without elements");
  if (is_too_large(&s))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN counts elements of states in 32 bits");
  if (p->p > 0 && s.layers > 1 &&
      call->flags & (TN_CALL_TRAIN | TN_CALL_BACKWARD))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN drops other elements between layers than the "
                   "operator promises; set p=0, and call nn.dropout between "
                   "calls of nn.rnn with one layer each");
  return TN_OK;
}

/* ------------------------------------------------------------------- plans */

static int make_plan(void *arg, dnn_handle handle) {
  cudnn_rnn_state *state = arg;
  return cudnn_rnn_plan_make(&state->instance->library, handle, &state->sizes,
                             &state->plan);
}

int32_t cudnn_rnn_create(const tn_frame *call, cudnn_rnn_state **out) {
  cudnn_rnn_state *state = calloc(1, sizeof *state);
  *out = NULL;
  if (!state) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for a plan");
  state->instance = call->instance;
  state->device = call->run->device_id;
  state->sizes = describe_sizes(call);
  state->sizes.is_fast = cudnn_rnn_cuda_options_of(call)->fast;
  const int32_t code = is_empty(&state->sizes)
                           ? TN_OK
                           : cudnn_with_planner(call, make_plan, state);
  if (code == TN_OK)
    *out = state;
  else
    free(state);
  return code;
}

/* On a lost device only host memory can be freed. */
void cudnn_rnn_destroy(cudnn_rnn_state *state) {
  const tn_device_scope *scope = state->instance->scope;
  tn_device_error error = {.struct_size = sizeof error};
  const int entered = scope->enter(scope, state->device, &error) == TN_OK;
  cudnn_rnn_plan_unmake(&state->instance->library, &state->plan);
  if (entered) scope->leave(scope, state->device);
  free(state);
}

/* --------------------------------------------------------------- workspace */

/* The parts of the workspace; those that a call does not need are NULL. */
typedef struct rooms {
  char *next; /* NULL while sizes are counted */
  uint64_t bytes;
  void *work;
  void *reserve;
  void *weights;    /* in the order of cuDNN */
  void *to_weights; /* their gradient */
  void *y;          /* `out` where the call has none */
  void *dx;         /* the gradient of data where none is requested */
  void *dy;         /* zeros */
} rooms;

static void *take_room(rooms *r, int64_t bytes) {
  const uint64_t whole = ((uint64_t)bytes + 255) / 256 * 256;
  void *room = r->next;
  if (r->next) r->next += whole;
  r->bytes += whole;
  return bytes > 0 ? room : NULL;
}

static rooms find_rooms(const tn_frame *call, const cudnn_rnn_state *state,
                        void *memory) {
  const cudnn_rnn_sizes *s = &state->sizes;
  const cudnn_rnn_plan *plan = &state->plan;
  const int64_t bytes = tn_dtype_bytes(s->dtype) * s->steps * s->batch;
  const int64_t out = bytes * s->directions * s->units;
  rooms r = {.next = memory};
  r.work = take_room(&r, (int64_t)plan->work);
  r.reserve = take_room(&r, (int64_t)plan->reserve);
  if (plan->ranges) r.weights = take_room(&r, (int64_t)plan->weights);
  if (!cudnn_is_backward(call)) {
    if (!cudnn_is_wanted(call, NN_RNN_OUT_OUT)) r.y = take_room(&r, out);
    return r;
  }
  if (plan->ranges && cudnn_is_wanted(call, NN_RNN_IN_PARAMETERS))
    r.to_weights = take_room(&r, (int64_t)plan->weights);
  r.y = take_room(&r, out);
  if (!cudnn_is_wanted(call, NN_RNN_IN_DATA))
    r.dx = take_room(&r, bytes * s->inputs);
  if (!find_input(call, NN_RNN_BACKWARD_GRAD_OUT)) r.dy = take_room(&r, out);
  return r;
}

/* Counts the bytes of the same parts; no address is known yet. */
int32_t cudnn_rnn_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = find_rooms(call, cudnn_rnn_cuda_state_of(call), NULL).bytes;
  return TN_OK;
}

/* -------------------------------------------------------------- copies */

/* Copies n elements; writes zeros if there is nothing to copy. */
static int32_t copy_elements(const tn_frame *call, void *to, const void *from,
                             int64_t n) {
  const cudnn_rnn_state *state = cudnn_rnn_cuda_state_of(call);
  const tn_device_scope *scope = state->instance->scope;
  const tn_sum_axis axis = {n, 1, from ? 1 : 0};
  return scope->sum(scope, call,
                    &(tn_device_sum){.struct_size = sizeof(tn_device_sum),
                                     .dtype = state->sizes.dtype,
                                     .n_kept = 1,
                                     .axes = &axis,
                                     .to = to,
                                     .from = from});
}

/* Moves weights, or their gradient, to the order of cuDNN or back. */
static int32_t move_weights(const tn_frame *call, void *to, const void *from,
                            int is_back) {
  const cudnn_rnn_state *state = cudnn_rnn_cuda_state_of(call);
  const int64_t bytes = tn_dtype_bytes(state->sizes.dtype);
  int32_t code = TN_OK;
  for (int64_t i = 0; i < state->plan.n_ranges && code == TN_OK; ++i) {
    const cudnn_rnn_range *range = &state->plan.ranges[i];
    const int64_t there = is_back ? range->ours : range->theirs;
    const int64_t here = is_back ? range->theirs : range->ours;
    code = copy_elements(call, (char *)to + there * bytes,
                         (const char *)from + here * bytes, range->n);
  }
  return code;
}

/* Elements of the weights as cuDNN has them. */
static int64_t count_theirs(const cudnn_rnn_state *state) {
  return (int64_t)state->plan.weights / tn_dtype_bytes(state->sizes.dtype);
}

/* ------------------------------------------------------------- empty calls */

/* Writes a state, or its gradient, as it is; zeros if it is absent. */
static int32_t pass_on(const tn_frame *call, uint32_t to, uint32_t from) {
  if (!cudnn_is_wanted(call, to)) return TN_OK;
  const int64_t n = tn_tensor_size(&call->out[to]);
  if (n == 0) return TN_OK;
  return copy_elements(call, call->out[to].data, find_input(call, from), n);
}

static int32_t run_empty(const tn_frame *call) {
  const int32_t code = pass_on(call, NN_RNN_OUT_STATE_OUT, NN_RNN_IN_STATE);
  if (code != TN_OK) return code;
  return pass_on(call, NN_RNN_OUT_CELL_OUT, NN_RNN_IN_STATE_CELL);
}

static int32_t run_empty_backward(const tn_frame *call) {
  void *to_weights = find_output(call, NN_RNN_IN_PARAMETERS);
  int32_t code = pass_on(call, NN_RNN_IN_STATE, NN_RNN_BACKWARD_GRAD_STATE_OUT);
  if (code == TN_OK)
    code = pass_on(call, NN_RNN_IN_STATE_CELL, NN_RNN_BACKWARD_GRAD_CELL_OUT);
  if (code != TN_OK || !to_weights) return code;
  return copy_elements(call, to_weights, NULL,
                       tn_tensor_size(&call->out[NN_RNN_IN_PARAMETERS]));
}

/* ------------------------------------------------------------------- calls */

/* A pass of cuDNN. Addresses are NULL where a call has no such array. */
typedef struct pass {
  const tn_frame *call;
  const cudnn_rnn_state *state;
  rooms r;
  const void *x;
  const void *weights;
  const void *hx;
  const void *cx;
  void *y;
  void *hy;
  void *cy;
  void *to_weights;
} pass;

/* Opens a pass, and brings the weights to the order of cuDNN. */
static int32_t open_pass(const tn_frame *call, pass *p) {
  const uint32_t skip =
      cudnn_is_backward(call) ? NN_RNN_BACKWARD_IN_DATA - NN_RNN_IN_DATA : 0;
  *p = (pass){.call = call, .state = cudnn_rnn_cuda_state_of(call)};
  p->r = find_rooms(call, p->state, call->n_ws > 0 ? call->ws[0] : NULL);
  p->x = find_input(call, skip + NN_RNN_IN_DATA);
  p->weights = find_input(call, skip + NN_RNN_IN_PARAMETERS);
  p->hx = find_input(call, skip + NN_RNN_IN_STATE);
  if (is_lstm(call)) p->cx = find_input(call, skip + NN_RNN_IN_STATE_CELL);
  if (!p->r.weights) return TN_OK;
  const void *from = p->weights;
  p->weights = p->r.weights;
  return move_weights(call, p->r.weights, from, 0);
}

static int run_forward(void *arg, dnn_handle handle) {
  const pass *p = arg;
  const cudnn_rnn_plan *plan = &p->state->plan;
  return p->state->instance->library.rnn_forward(
      handle, plan->rnn, p->state->sizes.mode, NULL, plan->x, p->x, plan->y,
      p->y, plan->states, p->hx, p->hy, plan->states, p->cx, p->cy,
      plan->weights, p->weights, plan->work, p->r.work, plan->reserve,
      p->r.reserve);
}

static int32_t clear_kept(const tn_frame *call) {
  const tn_tensor *kept = &call->out[NN_RNN_OUT_KEPT];
  const int64_t n = tn_tensor_size(kept);
  if (!cudnn_is_wanted(call, NN_RNN_OUT_KEPT) || n == 0) return TN_OK;
  return copy_elements(call, kept->data, NULL, n);
}

int32_t cudnn_rnn(const tn_frame *call) {
  pass p;
  if (is_empty(&cudnn_rnn_cuda_state_of(call)->sizes)) return run_empty(call);
  int32_t code = open_pass(call, &p);
  if (code == TN_OK) code = clear_kept(call);
  if (code != TN_OK) return code;
  p.y = p.r.y ? p.r.y : call->out[NN_RNN_OUT_OUT].data;
  p.hy = find_output(call, NN_RNN_OUT_STATE_OUT);
  if (is_lstm(call)) p.cy = find_output(call, NN_RNN_OUT_CELL_OUT);
  return cudnn_with_runner(call, run_forward, &p);
}

static int run_data(const pass *p, dnn_handle handle) {
  const tn_frame *call = p->call;
  const cudnn_rnn_plan *plan = &p->state->plan;
  const int has_cell = is_lstm(call);
  return p->state->instance->library.rnn_back(
      handle, plan->rnn, NULL, plan->y, p->y,
      p->r.dy ? p->r.dy : find_input(call, NN_RNN_BACKWARD_GRAD_OUT), plan->x,
      p->r.dx ? p->r.dx : find_output(call, NN_RNN_IN_DATA), plan->states,
      p->hx, find_input(call, NN_RNN_BACKWARD_GRAD_STATE_OUT),
      find_output(call, NN_RNN_IN_STATE), plan->states, p->cx,
      has_cell ? find_input(call, NN_RNN_BACKWARD_GRAD_CELL_OUT) : NULL,
      has_cell ? find_output(call, NN_RNN_IN_STATE_CELL) : NULL, plan->weights,
      p->weights, plan->work, p->r.work, plan->reserve, p->r.reserve);
}

static int run_weights(const pass *p, dnn_handle handle) {
  const cudnn_rnn_plan *plan = &p->state->plan;
  return p->state->instance->library.rnn_weights_back(
      handle, plan->rnn, DNN_RNN_ADD_WEIGHTS, NULL, plan->x, p->x, plan->states,
      p->hx, plan->y, p->y, plan->weights, p->to_weights, plan->work, p->r.work,
      plan->reserve, p->r.reserve);
}

/* The gradient of weights reads `reserve`, which that of data has filled. */
static int run_backward(void *arg, dnn_handle handle) {
  const pass *p = arg;
  int status = run_forward(arg, handle);
  if (status == DNN_OK) status = run_data(p, handle);
  if (status == DNN_OK && p->to_weights) status = run_weights(p, handle);
  return status;
}

/* Writes zeros where cuDNN adds, and where a gradient is absent. */
static int32_t clear_gradients(pass *p) {
  const cudnn_rnn_sizes *s = &p->state->sizes;
  int32_t code = TN_OK;
  if (p->to_weights)
    code = copy_elements(p->call, p->to_weights, NULL, count_theirs(p->state));
  if (code != TN_OK || !p->r.dy) return code;
  return copy_elements(p->call, p->r.dy, NULL,
                       s->steps * s->batch * s->directions * s->units);
}

int32_t cudnn_rnn_backward(const tn_frame *call) {
  pass p;
  if (is_empty(&cudnn_rnn_cuda_state_of(call)->sizes))
    return run_empty_backward(call);
  int32_t code = open_pass(call, &p);
  p.y = p.r.y;
  p.to_weights =
      p.r.to_weights ? p.r.to_weights : find_output(call, NN_RNN_IN_PARAMETERS);
  if (code == TN_OK) code = clear_gradients(&p);
  if (code == TN_OK) code = cudnn_with_runner(call, run_backward, &p);
  if (code != TN_OK || !p.r.to_weights) return code;
  return move_weights(call, call->out[NN_RNN_IN_PARAMETERS].data,
                      p.r.to_weights, 1);
}
