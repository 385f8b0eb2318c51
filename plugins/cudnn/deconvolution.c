/* SPDX-License-Identifier: Apache-2.0
 * deconvolution.c: nn.deconvolution with cuDNN. Its call is the gradient of a
 * convolution that has `out` as its data and `data` as its out. So the forward
 * pass is a plan for a gradient of data, the gradient of `data` one for a
 * convolution, and the gradient of `weight` one for a gradient of weights. The
 * device's sums write the bias before the plan adds to it, and compute its
 * gradient.
 */
#include "deconvolution.gen.h"

#include <stdlib.h>

#include "kit.h"

enum { FIRST, SECOND, N_PLANS };
/* A forward call has one plan, at index FIRST. A backward call has the plan for
 * the gradient of `data` there, and that of `weight` next. */

struct cudnn_deconvolution_state {
  cudnn_instance *instance;
  cudnn_plan *plans[N_PLANS];
};

/* ----------------------------------------------------------------- a call */

static int is_backward(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD) != 0;
}

static int has_bias(const tn_frame *call) {
  return !nn_deconvolution_params_of(call)->no_bias;
}

static tn_req request_of(const tn_frame *call, uint32_t i) {
  return i < call->n_out ? call->req[i] : TN_REQ_NULL;
}

/* The arrays of a call by their names in the operator; in a backward call a
 * requested gradient, which has the shape of its array, or that array. */
typedef struct arrays {
  const tn_tensor *data;
  const tn_tensor *weight;
  const tn_tensor *out;
  const tn_tensor *bias; /* NULL: no bias */
} arrays;

static arrays arrays_of(const tn_frame *call) {
  if (!is_backward(call))
    return (arrays){
        &call->in[NN_DECONVOLUTION_IN_DATA],
        &call->in[NN_DECONVOLUTION_IN_WEIGHT],
        &call->out[NN_DECONVOLUTION_OUT_OUT],
        has_bias(call) ? &call->in[NN_DECONVOLUTION_IN_BIAS] : NULL};
  const int to_data = request_of(call, NN_DECONVOLUTION_IN_DATA) != TN_REQ_NULL;
  const int to_weight =
      request_of(call, NN_DECONVOLUTION_IN_WEIGHT) != TN_REQ_NULL;
  return (arrays){to_data ? &call->out[NN_DECONVOLUTION_IN_DATA]
                          : &call->in[NN_DECONVOLUTION_BACKWARD_IN_DATA],
                  to_weight ? &call->out[NN_DECONVOLUTION_IN_WEIGHT]
                            : &call->in[NN_DECONVOLUTION_BACKWARD_IN_WEIGHT],
                  &call->in[NN_DECONVOLUTION_BACKWARD_GRAD_OUT],
                  has_bias(call) ? &call->out[NN_DECONVOLUTION_IN_BIAS] : NULL};
}

/* Whether the sums have no terms. */
static int is_empty(const tn_frame *call) {
  const arrays a = arrays_of(call);
  return tn_tensor_size(a.out) == 0 ||
         (a.data->ndim > 0 && tn_tensor_size(a.data) == 0);
}

/* Elements from the first to the last of a window along dimension i. */
static int64_t reach_of(const nn_deconvolution_params *p, int64_t i) {
  return p->dilate.v[i] * (p->kernel.v[i] - 1) + 1;
}

/* Elements removed in front of dimension i of an image of `out`. */
static int64_t pad_of(const tn_frame *call, int64_t i) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  if (p->target_shape.n == 0) return p->pad.v[i];
  const int64_t n = arrays_of(call).data->shape[i + 2];
  const int64_t full = p->stride.v[i] * (n - 1) + reach_of(p, i);
  return (full - p->target_shape.v[i] + 1) / 2;
}

/* ------------------------------------------------------------------- plans */

static uint32_t flags_of(const tn_frame *call) {
  const cudnn_deconvolution_cuda_options *o =
      cudnn_deconvolution_cuda_options_of(call);
  return (o->fast ? CUDNN_FAST : 0u) |
         (o->deterministic ? CUDNN_SAME_BITS : 0u) |
         (o->measure ? CUDNN_MEASURE : 0u);
}

static void describe_task(const tn_frame *call, int what, cudnn_task *out) {
  const cudnn_deconvolution_cuda_options *options =
      cudnn_deconvolution_cuda_options_of(call);
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const arrays a = arrays_of(call);
  const int64_t rank = p->kernel.n;
  int64_t pad[CUDNN_MOST_RANK];
  for (int64_t i = 0; i < rank; ++i) pad[i] = pad_of(call, i);
  cudnn_task_begin(call, what, out);
  out->flags = flags_of(call);
  out->rank = rank == 1 ? 2 : rank;
  cudnn_set_shape(out->data, a.out);
  cudnn_set_shape(out->weight, a.weight);
  cudnn_set_shape(out->out, a.data);
  cudnn_set_steps(out->stride, p->stride.v, rank, 1);
  cudnn_set_steps(out->dilate, p->dilate.v, rank, 1);
  cudnn_set_steps(out->pad, pad, rank, 0);
  cudnn_set_steps(out->pad_behind, pad, rank, 0);
  out->most_workspace = options->workspace;
  if (options->copies)
    out->most_workspace = cudnn_room(out, options->workspace);
}

static int32_t plan_pass(const tn_frame *call, int what, int adds,
                         cudnn_plan **out) {
  cudnn_task task;
  describe_task(call, what, &task);
  if (adds) task.flags |= CUDNN_ADD;
  return cudnn_plan_take(call, &task, out);
}

static int32_t plan_gradient(const tn_frame *call, int what, uint32_t place,
                             cudnn_plan **out) {
  const tn_req req = request_of(call, place);
  if (req == TN_REQ_NULL) return TN_OK;
  return plan_pass(call, what, req == TN_REQ_ADD, out);
}

static int32_t plan_all(const tn_frame *call,
                        cudnn_deconvolution_state *state) {
  if (is_empty(call)) return TN_OK;
  if (!is_backward(call))
    return plan_pass(call, CUDNN_DATA,
                     has_bias(call) || call->req[0] == TN_REQ_ADD,
                     &state->plans[FIRST]);
  const int32_t code = plan_gradient(
      call, CUDNN_FORWARD, NN_DECONVOLUTION_IN_DATA, &state->plans[FIRST]);
  if (code != TN_OK) return code;
  return plan_gradient(call, CUDNN_WEIGHT, NN_DECONVOLUTION_IN_WEIGHT,
                       &state->plans[SECOND]);
}

int32_t cudnn_deconvolution_create(const tn_frame *call,
                                   cudnn_deconvolution_state **out) {
  cudnn_deconvolution_state *state = calloc(1, sizeof *state);
  *out = NULL;
  if (!state) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for plans");
  state->instance = call->instance;
  const int32_t code = plan_all(call, state);
  if (code == TN_OK)
    *out = state;
  else
    cudnn_deconvolution_destroy(state);
  return code;
}

void cudnn_deconvolution_destroy(cudnn_deconvolution_state *state) {
  for (int i = 0; i < N_PLANS; ++i)
    cudnn_plan_give(state->instance, state->plans[i]);
  free(state);
}

int32_t cudnn_deconvolution_bytes(const tn_frame *call, uint64_t *bytes) {
  const cudnn_deconvolution_state *state =
      cudnn_deconvolution_cuda_state_of(call);
  *bytes = 0;
  for (int i = 0; i < N_PLANS; ++i) {
    const cudnn_plan *plan = state->plans[i];
    if (plan && (uint64_t)plan->made.workspace > *bytes)
      *bytes = (uint64_t)plan->made.workspace;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Runs a plan; `a` has the arrays by their names in the operator. */
static int32_t run_plan(const tn_frame *call, int which, const arrays *a) {
  cudnn_plan *plan = cudnn_deconvolution_cuda_state_of(call)->plans[which];
  const cudnn_operand operands[] = {{CUDNN_ID_DATA, a->out->data},
                                    {CUDNN_ID_WEIGHT, a->weight->data},
                                    {CUDNN_ID_OUT, a->data->data}};
  return cudnn_run(call, plan, operands, 3);
}

int32_t cudnn_deconvolution(const tn_frame *call) {
  const arrays a = arrays_of(call);
  const tn_req req = call->req[0];
  int32_t code = TN_OK;
  if (has_bias(call))
    code = cudnn_start_from_bias(call, a.out, a.bias, req);
  else if (is_empty(call))
    code = cudnn_clear(call, a.out, req);
  if (code != TN_OK || is_empty(call)) return code;
  return run_plan(call, FIRST, &a);
}

static int32_t run_data(const tn_frame *call, tn_req req) {
  arrays a = arrays_of(call);
  if (req == TN_REQ_NULL) return TN_OK;
  if (is_empty(call)) return cudnn_clear(call, a.data, req);
  a.weight = &call->in[NN_DECONVOLUTION_BACKWARD_IN_WEIGHT];
  return run_plan(call, FIRST, &a);
}

static int32_t run_weight(const tn_frame *call, tn_req req) {
  arrays a = arrays_of(call);
  if (req == TN_REQ_NULL) return TN_OK;
  if (is_empty(call)) return cudnn_clear(call, a.weight, req);
  a.data = &call->in[NN_DECONVOLUTION_BACKWARD_IN_DATA];
  return run_plan(call, SECOND, &a);
}

int32_t cudnn_deconvolution_backward(const tn_frame *call) {
  const arrays a = arrays_of(call);
  int32_t code = run_data(call, request_of(call, NN_DECONVOLUTION_IN_DATA));
  if (code == TN_OK)
    code = run_weight(call, request_of(call, NN_DECONVOLUTION_IN_WEIGHT));
  if (code == TN_OK && has_bias(call))
    code = cudnn_sum_bias(call, a.out, a.bias,
                          request_of(call, NN_DECONVOLUTION_IN_BIAS));
  return code;
}

/* ------------------------------------------------------------------ choice */

/* Whether a call needs sums of the device. */
static int needs_sums(const tn_frame *call) {
  if (is_empty(call)) return 1;
  if (!has_bias(call)) return 0;
  return !is_backward(call) ||
         request_of(call, NN_DECONVOLUTION_IN_BIAS) != TN_REQ_NULL;
}

/* cuDNN takes images of `out` that have exactly as many windows as elements of
 * `data`. A target_shape with an odd number of removed elements and a stride of
 * 1 leaves one window out. */
static int32_t check_windows(const tn_frame *call) {
  const nn_deconvolution_params *p = nn_deconvolution_params_of(call);
  const arrays a = arrays_of(call);
  if (a.data->ndim < 0 || is_empty(call)) return TN_OK;
  for (int64_t i = 0; i < p->kernel.n; ++i) {
    const int64_t room =
        a.out->shape[i + 2] + 2 * pad_of(call, i) - reach_of(p, i);
    if (room / p->stride.v[i] + 1 != a.data->shape[i + 2])
      return TN_FAIL(call, TN_UNSUPPORTED,
                     "cuDNN removes as many elements at the end of an image as "
                     "at its front, and target_shape wants one less at the end "
                     "of dimension %d",
                     (int)i + 2);
  }
  return TN_OK;
}

int32_t cudnn_deconvolution_supports(const tn_frame *call) {
  const cudnn_instance *self = call->instance;
  if (!self->scope->sum && needs_sums(call))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "it takes the device's sums for a bias and its gradient, "
                   "and where there is nothing to multiply; this cuda.so was "
                   "built without nvcc");
  return check_windows(call);
}
