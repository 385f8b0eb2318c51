/* SPDX-License-Identifier: Apache-2.0
 * convolution.c: nn.convolution with cuDNN. Each result has its plan: one for a
 * forward call, one each for data and weight in a backward call. The gradient
 * of a bias is a sum of the device. If there is nothing to multiply, sums of
 * the device write the result, zeros or the bias. The file also has the forward
 * pass of nn.convolution_activation for relu after a bias.
 */
#include "convolution.gen.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

enum { FIRST, SECOND, N_PLANS };
/* A forward call has one plan, at index FIRST. A backward call has the plan of
 * data there, and the plan of weight next. */

struct cudnn_convolution_state {
  cudnn_instance *instance;
  cudnn_plan *plans[N_PLANS];
  int begins; /* out starts as the bias, and the plan adds to it */
};

/* ----------------------------------------------------------------- a call */

static int is_backward(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD) != 0;
}

static int has_bias(const tn_frame *call) {
  return !nn_convolution_params_of(call)->no_bias;
}

static tn_req request_of(const tn_frame *call, uint32_t i) {
  return i < call->n_out ? call->req[i] : TN_REQ_NULL;
}

/* The arrays of a call by their names in the graph. A missing array has the
 * shape of its gradient. */
typedef struct arrays {
  const tn_tensor *data;
  const tn_tensor *weight;
  const tn_tensor *out;
  const tn_tensor *bias; /* NULL: no bias */
} arrays;

static arrays arrays_of(const tn_frame *call) {
  if (!is_backward(call))
    return (arrays){&call->in[NN_CONVOLUTION_IN_DATA],
                    &call->in[NN_CONVOLUTION_IN_WEIGHT],
                    &call->out[NN_CONVOLUTION_OUT_OUT],
                    has_bias(call) ? &call->in[NN_CONVOLUTION_IN_BIAS] : NULL};
  const int to_data = request_of(call, NN_CONVOLUTION_IN_DATA) != TN_REQ_NULL;
  const int to_weight =
      request_of(call, NN_CONVOLUTION_IN_WEIGHT) != TN_REQ_NULL;
  return (arrays){to_data ? &call->out[NN_CONVOLUTION_IN_DATA]
                          : &call->in[NN_CONVOLUTION_BACKWARD_IN_DATA],
                  to_weight ? &call->out[NN_CONVOLUTION_IN_WEIGHT]
                            : &call->in[NN_CONVOLUTION_BACKWARD_IN_WEIGHT],
                  &call->in[NN_CONVOLUTION_BACKWARD_GRAD_OUT],
                  has_bias(call) ? &call->out[NN_CONVOLUTION_IN_BIAS] : NULL};
}

/* Whether the sums have no terms. */
static int is_empty(const tn_frame *call) {
  const arrays a = arrays_of(call);
  return tn_tensor_size(a.out) == 0 ||
         (a.data->ndim > 0 && tn_tensor_size(a.data) == 0);
}

/* ------------------------------------------------------------------- plans */

static uint32_t flags_of(const tn_frame *call) {
  const cudnn_convolution_cuda_options *o =
      cudnn_convolution_cuda_options_of(call);
  return (o->fast ? CUDNN_FAST : 0u) |
         (o->deterministic ? CUDNN_SAME_BITS : 0u) |
         (o->measure ? CUDNN_MEASURE : 0u);
}

static void describe_task(const tn_frame *call, int what, cudnn_task *out) {
  const cudnn_convolution_cuda_options *options =
      cudnn_convolution_cuda_options_of(call);
  const nn_convolution_params *p = nn_convolution_params_of(call);
  const arrays a = arrays_of(call);
  const int64_t rank = p->kernel.n;
  cudnn_task_begin(call, what, out);
  out->flags = flags_of(call);
  out->rank = rank == 1 ? 2 : rank;
  cudnn_set_shape(out->data, a.data);
  cudnn_set_shape(out->weight, a.weight);
  cudnn_set_shape(out->out, a.out);
  cudnn_set_steps(out->stride, p->stride.v, rank, 1);
  cudnn_set_steps(out->dilate, p->dilate.v, rank, 1);
  cudnn_set_steps(out->pad, p->pad.v, rank, 0);
  cudnn_set_steps(out->pad_behind, p->pad.v, rank, 0);
  out->most_workspace = options->workspace;
  if (options->copies)
    out->most_workspace = cudnn_room(out, options->workspace);
}

/* Adds the bias in the plan. If the call adds to out, or cuDNN has no engine
 * for both, a sum adds the bias first. */
static int32_t plan_forward(const tn_frame *call,
                            cudnn_convolution_state *state) {
  const cudnn_instance *self = call->instance;
  const int adds = call->req[0] == TN_REQ_ADD;
  cudnn_task task;
  int32_t code = TN_UNSUPPORTED;
  describe_task(call, CUDNN_FORWARD, &task);
  const uint32_t flags = task.flags;
  if (!adds) {
    task.flags = flags | (has_bias(call) ? CUDNN_BIAS : 0u);
    code = cudnn_plan_take(call, &task, &state->plans[FIRST]);
    if (code != TN_UNSUPPORTED || !has_bias(call) || !self->scope->sum)
      return code;
  }
  task.flags = flags | CUDNN_ADD;
  state->begins = has_bias(call);
  return cudnn_plan_take(call, &task, &state->plans[FIRST]);
}

static int32_t plan_gradient(const tn_frame *call,
                             cudnn_convolution_state *state, int which,
                             uint32_t place) {
  cudnn_task task;
  const tn_req req = request_of(call, place);
  if (req == TN_REQ_NULL) return TN_OK;
  describe_task(call, which == FIRST ? CUDNN_DATA : CUDNN_WEIGHT, &task);
  if (req == TN_REQ_ADD) task.flags |= CUDNN_ADD;
  return cudnn_plan_take(call, &task, &state->plans[which]);
}

static int32_t plan_all(const tn_frame *call, cudnn_convolution_state *state) {
  if (is_empty(call)) return TN_OK;
  if (!is_backward(call)) return plan_forward(call, state);
  const int32_t code =
      plan_gradient(call, state, FIRST, NN_CONVOLUTION_IN_DATA);
  if (code != TN_OK) return code;
  return plan_gradient(call, state, SECOND, NN_CONVOLUTION_IN_WEIGHT);
}

int32_t cudnn_convolution_create(const tn_frame *call,
                                 cudnn_convolution_state **out) {
  cudnn_convolution_state *state = calloc(1, sizeof *state);
  *out = NULL;
  if (!state) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for plans");
  state->instance = call->instance;
  const int32_t code = plan_all(call, state);
  if (code == TN_OK)
    *out = state;
  else
    cudnn_convolution_destroy(state);
  return code;
}

void cudnn_convolution_destroy(cudnn_convolution_state *state) {
  for (int i = 0; i < N_PLANS; ++i)
    cudnn_plan_give(state->instance, state->plans[i]);
  free(state);
}

int32_t cudnn_convolution_bytes(const tn_frame *call, uint64_t *bytes) {
  const cudnn_convolution_state *state = cudnn_convolution_cuda_state_of(call);
  *bytes = 0;
  for (int i = 0; i < N_PLANS; ++i) {
    const cudnn_plan *plan = state->plans[i];
    if (plan && (uint64_t)plan->made.workspace > *bytes)
      *bytes = (uint64_t)plan->made.workspace;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

static int32_t run_plan(const tn_frame *call, int which, const arrays *a) {
  cudnn_plan *plan = cudnn_convolution_cuda_state_of(call)->plans[which];
  cudnn_operand operands[] = {{CUDNN_ID_DATA, a->data->data},
                              {CUDNN_ID_WEIGHT, a->weight->data},
                              {CUDNN_ID_OUT, a->out->data},
                              {CUDNN_ID_BIAS, NULL}};
  const int n = plan->task.flags & CUDNN_BIAS ? 4 : 3;
  if (n == 4) operands[3].at = a->bias->data;
  return cudnn_run(call, plan, operands, n);
}

int32_t cudnn_convolution(const tn_frame *call) {
  const cudnn_convolution_state *state = cudnn_convolution_cuda_state_of(call);
  const arrays a = arrays_of(call);
  const tn_req req = call->req[0];
  int32_t code = TN_OK;
  if (is_empty(call))
    return has_bias(call) ? cudnn_start_from_bias(call, a.out, a.bias, req)
                          : cudnn_clear(call, a.out, req);
  if (state->begins) code = cudnn_start_from_bias(call, a.out, a.bias, req);
  return code == TN_OK ? run_plan(call, FIRST, &a) : code;
}

static int32_t run_data(const tn_frame *call, tn_req req) {
  arrays a = arrays_of(call);
  if (req == TN_REQ_NULL) return TN_OK;
  if (is_empty(call)) return cudnn_clear(call, a.data, req);
  a.weight = &call->in[NN_CONVOLUTION_BACKWARD_IN_WEIGHT];
  return run_plan(call, FIRST, &a);
}

static int32_t run_weight(const tn_frame *call, tn_req req) {
  arrays a = arrays_of(call);
  if (req == TN_REQ_NULL) return TN_OK;
  if (is_empty(call)) return cudnn_clear(call, a.weight, req);
  a.data = &call->in[NN_CONVOLUTION_BACKWARD_IN_DATA];
  return run_plan(call, SECOND, &a);
}

int32_t cudnn_convolution_backward(const tn_frame *call) {
  const arrays a = arrays_of(call);
  int32_t code = run_data(call, request_of(call, NN_CONVOLUTION_IN_DATA));
  if (code == TN_OK)
    code = run_weight(call, request_of(call, NN_CONVOLUTION_IN_WEIGHT));
  if (code == TN_OK && has_bias(call))
    code = cudnn_sum_bias(call, a.out, a.bias,
                          request_of(call, NN_CONVOLUTION_IN_BIAS));
  return code;
}

/* ------------------------------------------------------------------ choice */

/* Whether a call needs sums of the device. */
static int needs_sums(const tn_frame *call) {
  if (is_empty(call)) return 1;
  if (!has_bias(call)) return 0;
  return is_backward(call)
             ? request_of(call, NN_CONVOLUTION_IN_BIAS) != TN_REQ_NULL
             : call->req[0] == TN_REQ_ADD;
}

int32_t cudnn_convolution_supports(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  if (self->scope->sum || !needs_sums(call)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes the device's sums for the gradient of a bias, for a "
                 "bias that is added to what is there, and where there is "
                 "nothing to multiply; this cuda.so was built without nvcc");
}

/* --------------------------------------------------------- with activation */

/* All functions above treat its call as one of nn.convolution. */
_Static_assert(offsetof(nn_convolution_activation_params, no_bias) ==
                   offsetof(nn_convolution_params, no_bias),
               "the params do not begin with those of convolution");
_Static_assert(sizeof(cudnn_convolution_activation_cuda_options) ==
                       sizeof(cudnn_convolution_cuda_options) &&
                   offsetof(cudnn_convolution_activation_cuda_options,
                            measure) ==
                       offsetof(cudnn_convolution_cuda_options, measure),
               "the options are others");

/* Without a bias the heuristics of cuDNN 9.19 only offer engines that are
 * compiled at run time, and only for factors that may be rounded. */
int32_t cudnn_convolution_activation_supports(const tn_frame *call) {
  if (has_bias(call) && !is_empty(call)) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "it takes convolutions with a bias, of which there is "
                 "something to multiply");
}

int32_t cudnn_convolution_activation_create(const tn_frame *call,
                                            cudnn_convolution_state **out) {
  cudnn_convolution_state *state = calloc(1, sizeof *state);
  cudnn_task task;
  *out = NULL;
  if (!state) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for plans");
  state->instance = call->instance;
  describe_task(call, CUDNN_FORWARD, &task);
  task.flags |= CUDNN_BIAS | CUDNN_RELU;
  const int32_t code = cudnn_plan_take(call, &task, &state->plans[FIRST]);
  if (code == TN_OK)
    *out = state;
  else
    cudnn_convolution_destroy(state);
  return code;
}

int32_t cudnn_convolution_activation_bytes(const tn_frame *call,
                                           uint64_t *bytes) {
  return cudnn_convolution_bytes(call, bytes);
}

int32_t cudnn_convolution_activation(const tn_frame *call) {
  const arrays a = arrays_of(call);
  return run_plan(call, FIRST, &a);
}
