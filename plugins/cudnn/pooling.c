/* SPDX-License-Identifier: Apache-2.0
 * pooling.c: nn.pooling with cuDNN, as far as cuDNN promises the results of the
 * operator: largest elements, means, and gradients of means. cuDNN does not
 * document which of several largest elements gets a gradient, so another kernel
 * computes that gradient.
 */
#include "pooling.gen.h"

#include <stdlib.h>

#include "kit.h"

enum { MOST_WORKSPACE = 64 << 20 };
enum { MAX, AVG };          /* values of pool_type */
enum { VALID, FULL, SAME }; /* values of pooling_convention */

struct cudnn_pooling_state {
  cudnn_instance *instance;
  cudnn_plan *plan; /* NULL: no elements */
};

static const tn_tensor *data_of(const tn_frame *call) {
  return cudnn_is_backward(call) ? &call->out[NN_POOLING_IN_DATA]
                                 : &call->in[NN_POOLING_IN_DATA];
}

static const tn_tensor *out_of(const tn_frame *call) {
  return cudnn_is_backward(call) ? &call->in[NN_POOLING_BACKWARD_GRAD_OUT]
                                 : &call->out[NN_POOLING_OUT_OUT];
}

/* ---------------------------------------------------------------- geometry */

/* The windows along a dimension. */
typedef struct line {
  int64_t in;
  int64_t out;
  int64_t window;
  int64_t stride;
  int64_t pad;
  int64_t behind; /* elements of windows after the end of the image */
} line;

static int64_t larger_of(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static line line_of(const tn_frame *call, int32_t d) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  line x = {.in = data_of(call)->shape[d + 2],
            .out = out_of(call)->shape[d + 2],
            .stride = 1};
  x.window = p->global_pool ? x.in : p->kernel.v[d];
  if (p->global_pool) return x;
  x.stride = p->stride.v[d];
  const int64_t reach = (x.out - 1) * x.stride + x.window;
  x.pad = p->pooling_convention == SAME ? larger_of(reach - x.in, 0) / 2
                                        : p->pad.v[d];
  x.behind = larger_of(reach - x.in - x.pad, 0);
  return x;
}

static uint32_t flags_of(const nn_pooling_params *p) {
  if (p->pool_type == MAX) return CUDNN_MAX;
  return p->count_include_pad ? 0u : CUDNN_INSIDE;
}

static void describe_task(const tn_frame *call, cudnn_task *out) {
  const int32_t rank = data_of(call)->ndim - 2, more = rank == 1;
  cudnn_task_begin(call, cudnn_is_backward(call) ? CUDNN_POOL_DATA : CUDNN_POOL,
                   out);
  out->flags = flags_of(nn_pooling_params_of(call));
  out->rank = rank + more;
  out->most_workspace = MOST_WORKSPACE;
  cudnn_set_shape(out->data, data_of(call));
  cudnn_set_shape(out->out, out_of(call));
  out->weight[2] = out->stride[0] = 1;
  for (int32_t d = 0; d < rank; ++d) {
    const line x = line_of(call, d);
    out->weight[d + more + 2] = x.window;
    out->stride[d + more] = x.stride;
    out->pad[d + more] = x.pad;
    out->pad_behind[d + more] = x.behind;
  }
}

/* ------------------------------------------------------------------ choice */

static int32_t check_line(const tn_frame *call, int32_t d) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  const line x = line_of(call, d);
  if (x.pad >= x.window || (x.out - 1) * x.stride - x.pad >= x.in)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "dimension %d has windows without an element of `data`",
                   (int)d + 2);
  if (p->pool_type == AVG && p->count_include_pad &&
      p->pooling_convention == FULL && x.behind > x.pad)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN counts what lies behind the padding of dimension %d "
                   "in a mean, the operator does not",
                   (int)d + 2);
  return TN_OK;
}

int32_t cudnn_pooling_supports(const tn_frame *call) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  int32_t code = TN_OK;
  if (p->pool_type != MAX && p->pool_type != AVG)
    return TN_FAIL(call, TN_UNSUPPORTED, "cuDNN has no sums of windows");
  for (int64_t d = 0; !p->global_pool && d < p->dilate.n; ++d)
    if (p->dilate.v[d] != 1)
      return TN_FAIL(call, TN_UNSUPPORTED,
                     "this kernel takes windows without dilation");
  if (p->pool_type == MAX && cudnn_is_backward(call))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "cuDNN does not say which of several largest elements gets "
                   "the gradient; the operator does: the first");
  for (int32_t d = 0; d < data_of(call)->ndim - 2 && code == TN_OK; ++d)
    code = check_line(call, d);
  return code;
}

/* ------------------------------------------------------------------- calls */

int32_t cudnn_pooling_create(const tn_frame *call, cudnn_pooling_state **out) {
  cudnn_pooling_state *state = calloc(1, sizeof *state);
  int32_t code = TN_OK;
  *out = NULL;
  if (!state) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for a plan");
  state->instance = call->instance;
  if (tn_tensor_size(out_of(call)) > 0) {
    cudnn_task task;
    describe_task(call, &task);
    code = cudnn_plan_take(call, &task, &state->plan);
  }
  if (code == TN_OK)
    *out = state;
  else
    free(state);
  return code;
}

void cudnn_pooling_destroy(cudnn_pooling_state *state) {
  cudnn_plan_give(state->instance, state->plan);
  free(state);
}

int32_t cudnn_pooling_bytes(const tn_frame *call, uint64_t *bytes) {
  cudnn_plan *plan = cudnn_pooling_cuda_state_of(call)->plan;
  *bytes = plan ? (uint64_t)plan->made.workspace : 0;
  return TN_OK;
}

int32_t cudnn_pooling(const tn_frame *call) {
  cudnn_plan *plan = cudnn_pooling_cuda_state_of(call)->plan;
  const cudnn_operand operands[] = {{CUDNN_ID_DATA, data_of(call)->data},
                                    {CUDNN_ID_OUT, out_of(call)->data}};
  return plan ? cudnn_run(call, plan, operands, 2) : TN_OK;
}

int32_t cudnn_pooling_backward(const tn_frame *call) {
  return cudnn_pooling(call);
}
