/* SPDX-License-Identifier: Apache-2.0
 * sgd_mom_update.c: the kernel of sgd_mom_update.yaml, which reads and writes
 * the momentum and the weight in one pass.
 */
#include "sgd_mom_update.gen.h"

#include "tenon/kernel.h"

/* What one loop body needs beside its operands. */
typedef struct step {
  double keep;    /* of the momentum */
  double decay;   /* lr * wd */
  double rate;    /* lr */
  double rescale; /* of the gradient */
  double limit;   /* of the gradient; negative: none */
} step;

/* out = weight + mom; in[0] is weight, in[1] gradient, in[2] mom, which is
 * written. */
#define STEP(name, type, clip)                                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const step *s = params;                                                    \
    const type *weight = block->in[0], *gradient = block->in[1];               \
    type *mom = (type *)(uintptr_t)block->in[2], *out = block->out;            \
    const type keep = (type)s->keep, decay = (type)s->decay;                   \
    const type rate = (type)s->rate, rescale = (type)s->rescale;               \
    const type limit = (type)(s->limit < 0 ? (double)INFINITY : s->limit);     \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type g = clip(rescale * gradient[i], -limit, limit);               \
      const type m = keep * mom[i] - decay * weight[i] - rate * g;             \
      mom[i] = m;                                                              \
      out[i] = weight[i] + m;                                                  \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

STEP(step_f32, float, tn_math_clip_f32)
STEP(step_f64, double, tn_math_clip_f64)

typedef struct work {
  const tn_frame *call;
  step step;
  tn_kernel_mode mode;
  tn_kernel_body *body;
} work;

/* Where element `at` of an operand lies. */
static void *place(const tn_tensor *tensor, int64_t at) {
  return (char *)tensor->data + at * tn_dtype_bytes(tensor->dtype);
}

/* Elements of a half type, a stage at a time in f32. */
static void staged(const work *w, int64_t begin, int64_t n) {
  const tn_frame *call = w->call;
  const tn_dtype dtype = call->out[0].dtype;
  float weight[TN_KERNEL_STAGE], gradient[TN_KERNEL_STAGE];
  float mom[TN_KERNEL_STAGE];
  const tn_kernel_block block = {
      .n = n, .out = weight, .in = {weight, gradient, mom}};
  tn_kernel_load_dense(weight, &w->mode, place(&call->in[0], begin), dtype, n);
  tn_kernel_load_dense(gradient, &w->mode, place(&call->in[1], begin), dtype,
                       n);
  tn_kernel_load_dense(mom, &w->mode, place(&call->aux[0], begin), dtype, n);
  w->body(&block, &w->step);
  tn_kernel_store_dense(place(&call->aux[0], begin), dtype, mom, &w->mode, n);
  tn_kernel_store_dense(place(&call->out[0], begin), dtype, weight, &w->mode,
                        n);
}

static int32_t slice(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tn_frame *call = w->call;
  if (call->out[0].dtype == w->mode.compute) {
    const tn_kernel_block block = {
        .n = end - begin,
        .out = place(&call->out[0], begin),
        .in = {place(&call->in[0], begin), place(&call->in[1], begin),
               place(&call->aux[0], begin)}};
    w->body(&block, &w->step);
    return TN_OK;
  }
  for (int64_t i = begin; i < end; i += TN_KERNEL_STAGE)
    staged(w, i, end - i < TN_KERNEL_STAGE ? end - i : TN_KERNEL_STAGE);
  return TN_OK;
}

int32_t optim_sgd_mom_update(const tn_frame *call) {
  static const tn_kernel_bodies single = TN_KERNEL_BODIES(step_f32);
  static const tn_kernel_bodies twice = TN_KERNEL_BODIES(step_f64);
  const optim_sgd_mom_update_params *p = optim_sgd_mom_update_params_of(call);
  const tn_dtype compute = tn_kernel_compute(call->out[0].dtype);
  const uint32_t level = tn_kernel_level(call);
  const int64_t size = tn_tensor_size(&call->out[0]);
  work w = {
      .call = call,
      .step = {p->momentum, p->lr * p->wd, p->lr, p->rescale_grad,
               p->clip_gradient},
      .mode = {compute, level},
      .body = tn_kernel_body_at(compute == TN_F32 ? &single : &twice, level)};
  if (size == 0) return TN_OK;
  if (size <= TN_KERNEL_GRAIN) return slice(&w, 0, size);
  return call->host->parallel_for(call, size, TN_KERNEL_GRAIN, slice, &w);
}
