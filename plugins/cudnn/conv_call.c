/* SPDX-License-Identifier: Apache-2.0
 * conv_call.c: see conv_call.h. It uses the names of nn.convolution for the
 * arrays and options of all operators.
 */
#include "conv_call.h"

#include <stddef.h>
#include <stdlib.h>

#include "convolution.gen.h"
#include "deconvolution.gen.h"

#define SAME_NUMBER(name)                                                    \
  _Static_assert((int)NN_CONVOLUTION_##name == (int)NN_DECONVOLUTION_##name, \
                 "the operators number their arrays differently")
SAME_NUMBER(IN_DATA);
SAME_NUMBER(IN_WEIGHT);
SAME_NUMBER(IN_BIAS);
SAME_NUMBER(OUT_OUT);
SAME_NUMBER(BACKWARD_GRAD_OUT);
SAME_NUMBER(BACKWARD_IN_DATA);
SAME_NUMBER(BACKWARD_IN_WEIGHT);

#define SAME_OPTION(kernel, name)                                    \
  _Static_assert(offsetof(cudnn_##kernel##_cuda_options, name) ==    \
                     offsetof(cudnn_convolution_cuda_options, name), \
                 "the kernels have different options")
#define SAME_OPTIONS(kernel)                                 \
  SAME_OPTION(kernel, workspace);                            \
  SAME_OPTION(kernel, copies);                               \
  SAME_OPTION(kernel, fast);                                 \
  SAME_OPTION(kernel, deterministic);                        \
  SAME_OPTION(kernel, measure);                              \
  _Static_assert(sizeof(cudnn_##kernel##_cuda_options) ==    \
                     sizeof(cudnn_convolution_cuda_options), \
                 "the kernels have different options")
SAME_OPTIONS(convolution_activation);
SAME_OPTIONS(deconvolution);

/* ----------------------------------------------------------------- a call */

static tn_req get_request(const tn_frame *call, uint32_t i) {
  return i < call->n_out ? call->req[i] : TN_REQ_NULL;
}

cudnn_conv_arrays cudnn_conv_find_arrays(const cudnn_conv_call *c) {
  const tn_frame *call = c->call;
  if (!cudnn_is_backward(call))
    return (cudnn_conv_arrays){
        &call->in[NN_CONVOLUTION_IN_DATA], &call->in[NN_CONVOLUTION_IN_WEIGHT],
        &call->out[NN_CONVOLUTION_OUT_OUT],
        c->has_bias ? &call->in[NN_CONVOLUTION_IN_BIAS] : NULL};
  const int to_data = cudnn_is_wanted(call, NN_CONVOLUTION_IN_DATA);
  const int to_weight = cudnn_is_wanted(call, NN_CONVOLUTION_IN_WEIGHT);
  return (cudnn_conv_arrays){
      to_data ? &call->out[NN_CONVOLUTION_IN_DATA]
              : &call->in[NN_CONVOLUTION_BACKWARD_IN_DATA],
      to_weight ? &call->out[NN_CONVOLUTION_IN_WEIGHT]
                : &call->in[NN_CONVOLUTION_BACKWARD_IN_WEIGHT],
      &call->in[NN_CONVOLUTION_BACKWARD_GRAD_OUT],
      c->has_bias ? &call->out[NN_CONVOLUTION_IN_BIAS] : NULL};
}

int cudnn_conv_is_empty(const cudnn_conv_call *c) {
  const cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  return tn_tensor_size(a.out) == 0 ||
         (a.data->ndim > 0 && tn_tensor_size(a.data) == 0);
}

int cudnn_conv_needs_sums(const cudnn_conv_call *c) {
  if (cudnn_conv_is_empty(c)) return 1;
  if (!c->has_bias) return 0;
  if (cudnn_is_backward(c->call))
    return cudnn_is_wanted(c->call, NN_CONVOLUTION_IN_BIAS);
  return c->swaps || c->call->req[0] == TN_REQ_ADD;
}

/* ------------------------------------------------------------------- plans */

static uint32_t get_flags(const cudnn_convolution_cuda_options *options) {
  return (options->fast ? CUDNN_FAST : 0u) |
         (options->deterministic ? CUDNN_SAME_BITS : 0u) |
         (options->measure ? CUDNN_MEASURE : 0u);
}

void cudnn_conv_set_windows(cudnn_task *to, int64_t rank, const int64_t *stride,
                            const int64_t *dilate, const int64_t *pad) {
  to->rank = rank == 1 ? 2 : rank;
  cudnn_set_steps(to->stride, stride, rank, 1);
  cudnn_set_steps(to->dilate, dilate, rank, 1);
  cudnn_set_steps(to->pad, pad, rank, 0);
  cudnn_set_steps(to->pad_behind, pad, rank, 0);
}

void cudnn_conv_describe(const cudnn_conv_call *c, int what, cudnn_task *out) {
  const cudnn_convolution_cuda_options *options =
      cudnn_convolution_cuda_options_of(c->call);
  const cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  cudnn_task_begin(c->call, what, out);
  out->flags = get_flags(options);
  cudnn_set_shape(out->data, c->swaps ? a.out : a.data);
  cudnn_set_shape(out->weight, a.weight);
  cudnn_set_shape(out->out, c->swaps ? a.data : a.out);
  c->set_windows(c, out);
  out->most_workspace = options->workspace;
  if (options->copies)
    out->most_workspace = cudnn_room(out, options->workspace);
}

/* Adds the bias in the plan, which only a plan of kind CUDNN_FORWARD can. If
 * the call adds to out, or cuDNN has no engine for both, a sum writes the bias
 * first, and the plan adds to it. */
static int32_t plan_forward(const cudnn_conv_call *c, cudnn_plan **out) {
  const cudnn_instance *self = c->call->instance;
  cudnn_task task;
  cudnn_conv_describe(c, c->swaps ? CUDNN_DATA : CUDNN_FORWARD, &task);
  const uint32_t flags = task.flags;
  if (c->call->req[0] != TN_REQ_ADD && !(c->has_bias && c->swaps)) {
    task.flags = flags | (c->has_bias ? CUDNN_BIAS : 0u);
    const int32_t code = cudnn_plan_take(c->call, &task, out);
    if (code != TN_UNSUPPORTED || !c->has_bias || !self->scope->sum)
      return code;
  }
  task.flags = flags | CUDNN_ADD;
  return cudnn_plan_take(c->call, &task, out);
}

static int32_t plan_gradient(const cudnn_conv_call *c, int what, uint32_t place,
                             cudnn_plan **out) {
  cudnn_task task;
  const tn_req req = get_request(c->call, place);
  if (req == TN_REQ_NULL) return TN_OK;
  cudnn_conv_describe(c, what, &task);
  if (req == TN_REQ_ADD) task.flags |= CUDNN_ADD;
  return cudnn_plan_take(c->call, &task, out);
}

static int32_t plan_all(const cudnn_conv_call *c, cudnn_conv_plans *plans) {
  if (cudnn_conv_is_empty(c)) return TN_OK;
  if (!cudnn_is_backward(c->call))
    return plan_forward(c, &plans->plans[CUDNN_CONV_FIRST]);
  const int32_t code =
      plan_gradient(c, c->swaps ? CUDNN_FORWARD : CUDNN_DATA,
                    NN_CONVOLUTION_IN_DATA, &plans->plans[CUDNN_CONV_FIRST]);
  if (code != TN_OK) return code;
  return plan_gradient(c, CUDNN_WEIGHT, NN_CONVOLUTION_IN_WEIGHT,
                       &plans->plans[CUDNN_CONV_SECOND]);
}

int32_t cudnn_conv_create(const cudnn_conv_call *c, const cudnn_task *only,
                          cudnn_conv_plans **out) {
  cudnn_conv_plans *plans = calloc(1, sizeof *plans);
  *out = NULL;
  if (!plans) return TN_FAIL(c->call, TN_OUT_OF_MEMORY, "no memory for plans");
  plans->instance = c->call->instance;
  const int32_t code =
      only ? cudnn_plan_take(c->call, only, &plans->plans[CUDNN_CONV_FIRST])
           : plan_all(c, plans);
  if (code == TN_OK)
    *out = plans;
  else
    cudnn_conv_destroy(plans);
  return code;
}

void cudnn_conv_destroy(cudnn_conv_plans *plans) {
  for (int i = 0; i < CUDNN_CONV_N_PLANS; ++i)
    cudnn_plan_give(plans->instance, plans->plans[i]);
  free(plans);
}

int32_t cudnn_conv_bytes(const tn_frame *call, uint64_t *bytes) {
  const cudnn_conv_plans *plans = cudnn_convolution_cuda_state_of(call);
  *bytes = 0;
  for (int i = 0; i < CUDNN_CONV_N_PLANS; ++i) {
    const cudnn_plan *plan = plans->plans[i];
    if (plan && (uint64_t)plan->made.workspace > *bytes)
      *bytes = (uint64_t)plan->made.workspace;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

static cudnn_plan *get_plan(const cudnn_conv_call *c, int which) {
  return cudnn_convolution_cuda_state_of(c->call)->plans[which];
}

static int32_t run_plan(const cudnn_conv_call *c, cudnn_plan *plan,
                        const cudnn_conv_arrays *a) {
  cudnn_operand operands[] = {
      {CUDNN_ID_DATA, c->swaps ? a->out->data : a->data->data},
      {CUDNN_ID_WEIGHT, a->weight->data},
      {CUDNN_ID_OUT, c->swaps ? a->data->data : a->out->data},
      {CUDNN_ID_BIAS, NULL}};
  const int n = plan->task.flags & CUDNN_BIAS ? 4 : 3;
  if (n == 4) operands[3].at = a->bias->data;
  return cudnn_run(c->call, plan, operands, n);
}

int32_t cudnn_conv_run_forward(const cudnn_conv_call *c) {
  const cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  const tn_req req = c->call->req[0];
  int32_t code = TN_OK;
  if (cudnn_conv_is_empty(c))
    return c->has_bias ? cudnn_start_from_bias(c->call, a.out, a.bias, req)
                       : cudnn_clear(c->call, a.out, req);
  cudnn_plan *plan = get_plan(c, CUDNN_CONV_FIRST);
  if (c->has_bias && !(plan->task.flags & CUDNN_BIAS))
    code = cudnn_start_from_bias(c->call, a.out, a.bias, req);
  return code == TN_OK ? run_plan(c, plan, &a) : code;
}

static int32_t run_data(const cudnn_conv_call *c) {
  const tn_req req = get_request(c->call, NN_CONVOLUTION_IN_DATA);
  cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  if (req == TN_REQ_NULL) return TN_OK;
  if (cudnn_conv_is_empty(c)) return cudnn_clear(c->call, a.data, req);
  a.weight = &c->call->in[NN_CONVOLUTION_BACKWARD_IN_WEIGHT];
  return run_plan(c, get_plan(c, CUDNN_CONV_FIRST), &a);
}

static int32_t run_weight(const cudnn_conv_call *c) {
  const tn_req req = get_request(c->call, NN_CONVOLUTION_IN_WEIGHT);
  cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  if (req == TN_REQ_NULL) return TN_OK;
  if (cudnn_conv_is_empty(c)) return cudnn_clear(c->call, a.weight, req);
  a.data = &c->call->in[NN_CONVOLUTION_BACKWARD_IN_DATA];
  return run_plan(c, get_plan(c, CUDNN_CONV_SECOND), &a);
}

int32_t cudnn_conv_run_backward(const cudnn_conv_call *c) {
  const cudnn_conv_arrays a = cudnn_conv_find_arrays(c);
  int32_t code = run_data(c);
  if (code == TN_OK) code = run_weight(c);
  if (code == TN_OK && c->has_bias)
    code = cudnn_sum_bias(c->call, a.out, a.bias,
                          get_request(c->call, NN_CONVOLUTION_IN_BIAS));
  return code;
}
