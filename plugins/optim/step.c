/* SPDX-License-Identifier: Apache-2.0
 * step.c: see step.h.
 */
#include "step.h"

typedef struct work {
  const tn_frame *call;
  const void *params;
  tn_kernel_mode mode;
  tn_kernel_body *body;
} work;

/* Where element `at` of an operand lies. */
static void *place(const tn_tensor *tensor, int64_t at) {
  return (char *)tensor->data + at * tn_dtype_bytes(tensor->dtype);
}

/* Operand `k` of a loop: weight, gradient, states. */
static const tn_tensor *operand(const tn_frame *call, uint32_t k) {
  return k < 2 ? &call->in[k] : &call->aux[k - 2];
}

/* Elements of which some are of a half type, a stage at a time in f32. */
static void staged(const work *w, int64_t begin, int64_t n) {
  const tn_frame *call = w->call;
  TN_KERNEL_LINED float stage[2 + OPTIM_MAX_STATES][TN_KERNEL_STAGE];
  tn_kernel_block block = {.n = n, .out = stage[0]};
  for (uint32_t k = 0; k < 2 + call->n_aux; ++k) {
    const tn_tensor *from = operand(call, k);
    tn_kernel_load_dense(stage[k], &w->mode, place(from, begin), from->dtype,
                         n);
    block.in[k] = stage[k];
  }
  w->body(&block, w->params);
  for (uint32_t k = 2; k < 2 + call->n_aux; ++k) {
    const tn_tensor *to = operand(call, k);
    tn_kernel_store_dense(place(to, begin), to->dtype, stage[k], &w->mode, n);
  }
  tn_kernel_store_dense(place(&call->out[0], begin), call->out[0].dtype,
                        stage[0], &w->mode, n);
}

static int32_t slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tn_frame *call = w->call;
  if (call->out[0].dtype == w->mode.compute) {
    tn_kernel_block block = {.n = end - begin,
                             .out = place(&call->out[0], begin)};
    for (uint32_t k = 0; k < 2 + call->n_aux; ++k)
      block.in[k] = place(operand(call, k), begin);
    w->body(&block, w->params);
    return TN_OK;
  }
  for (int64_t i = begin; i < end; i += TN_KERNEL_STAGE)
    staged(w, i, end - i < TN_KERNEL_STAGE ? end - i : TN_KERNEL_STAGE);
  return TN_OK;
}

int32_t optim_step_run(const tn_frame *call, const optim_loops *loops,
                       const void *params) {
  const tn_dtype compute = tn_kernel_compute(call->out[0].dtype);
  const uint32_t level = tn_kernel_level(call);
  const int64_t size = tn_tensor_size(&call->out[0]);
  work w = {.call = call,
            .params = params,
            .mode = {compute, level},
            .body = tn_kernel_body_at(
                compute == TN_F32 ? &loops->single : &loops->twice, level)};
  if (size == 0) return TN_OK;
  if (size <= TN_KERNEL_GRAIN) return slice(&w, 0, size);
  return call->host->parallel_for(call, size, TN_KERNEL_GRAIN, slice, &w);
}
