/* SPDX-License-Identifier: Apache-2.0
 * sgd_mom_update.c: the kernels of sgd_mom_update.yaml and
 * mp_sgd_mom_update.yaml, which read and write the momentum and the weight in
 * one pass.
 */
#include "mp_sgd_mom_update.gen.h"
#include "sgd_mom_update.gen.h"

#include "step.h"

/* Parameters of a loop besides its operands. */
typedef struct step {
  double keep;  /* of the momentum */
  double decay; /* lr * wd */
  double rate;  /* lr */
  optim_gradient gradient;
} step;

/* out = weight + mom */
#define STEP(name, type, clip)                                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const step *s = params;                                                    \
    const type *weight = block->in[0], *gradient = block->in[1];               \
    type *mom = OPTIM_STATE(block, 0), *out = block->out;                      \
    const type keep = (type)s->keep, decay = (type)s->decay;                   \
    const type rate = (type)s->rate, rescale = (type)s->gradient.rescale;      \
    const type limit = (type)s->gradient.limit;                                \
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

int32_t optim_sgd_mom_update(const tn_frame *call) {
  static const optim_loops loops = OPTIM_LOOPS(step);
  const optim_sgd_mom_update_params *p = optim_sgd_mom_update_params_of(call);
  const step s = {p->momentum, p->lr * p->wd, p->lr,
                  optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  return optim_step_run(call, &loops, &s);
}

int32_t optim_mp_sgd_mom_update(const tn_frame *call) {
  static const optim_loops loops = OPTIM_KEPT_LOOPS(step);
  const optim_mp_sgd_mom_update_params *p =
      optim_mp_sgd_mom_update_params_of(call);
  const step s = {p->momentum, p->lr * p->wd, p->lr,
                  optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  return optim_step_run(call, &loops, &s);
}
