/* SPDX-License-Identifier: Apache-2.0
 * step.c: runs the loops of step.h over a call, in parallel slices. Elements of
 * half types pass through an f32 stage on the stack.
 */
#include "step.h"

typedef struct work {
  const tn_frame *call;
  const void *params;
  tn_kernel_mode mode;
  tn_kernel_body *body;
  const tn_tensor *weight; /* input of the loops */
  uint32_t n;              /* number of loop operands */
} work;

/* Address of element `at` of an operand. */
static void *address_of(const tn_tensor *tensor, int64_t at) {
  return (char *)tensor->data + at * tn_dtype_bytes(tensor->dtype);
}

/* Operand `k` of a loop: weight, gradient, states. */
static const tn_tensor *operand_of(const work *w, uint32_t k) {
  if (k == 0) return w->weight;
  return k == 1 ? &w->call->in[1] : &w->call->aux[k - 2];
}

/* Stores n elements of a stage into an operand. */
static void put_stage(const work *w, const tn_tensor *to, int64_t begin,
                      const float *stage, int64_t n) {
  tn_kernel_store_dense(address_of(to, begin), to->dtype, stage, &w->mode, n);
}

/* Elements with a half type among their operands, one f32 stage at a time. */
static void run_staged(const work *w, int64_t begin, int64_t n) {
  TN_KERNEL_LINED float stage[2 + OPTIM_MAX_STATES][TN_KERNEL_STAGE];
  tn_kernel_block block = {.n = n, .out = stage[0]};
  for (uint32_t k = 0; k < w->n; ++k) {
    const tn_tensor *from = operand_of(w, k);
    tn_kernel_load_dense(stage[k], &w->mode, address_of(from, begin),
                         from->dtype, n);
    block.in[k] = stage[k];
  }
  w->body(&block, w->params);
  for (uint32_t k = 2; k < w->n; ++k)
    put_stage(w, operand_of(w, k), begin, stage[k], n);
  if (w->weight != &w->call->in[0]) put_stage(w, w->weight, begin, stage[0], n);
  put_stage(w, &w->call->out[0], begin, stage[0], n);
}

static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tn_tensor *out = &w->call->out[0];
  if (out->dtype == w->mode.compute) {
    tn_kernel_block block = {.n = end - begin, .out = address_of(out, begin)};
    for (uint32_t k = 0; k < w->n; ++k)
      block.in[k] = address_of(operand_of(w, k), begin);
    w->body(&block, w->params);
    return TN_OK;
  }
  for (int64_t i = begin; i < end; i += TN_KERNEL_STAGE)
    run_staged(w, i, end - i < TN_KERNEL_STAGE ? end - i : TN_KERNEL_STAGE);
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
                compute == TN_F32 ? &loops->single : &loops->twice, level),
            .weight = loops->kept ? &call->aux[call->n_aux - 1] : &call->in[0],
            .n = 2 + call->n_aux - loops->kept};
  if (size == 0) return TN_OK;
  if (size <= TN_KERNEL_GRAIN) return run_slice(&w, 0, size);
  return call->host->parallel_for(call, size, TN_KERNEL_GRAIN, run_slice, &w);
}
