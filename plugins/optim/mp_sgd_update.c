/* SPDX-License-Identifier: Apache-2.0
 * mp_sgd_update.c: the kernel of mp_sgd_update.yaml.
 */
#include "mp_sgd_update.gen.h"

#include "step.h"

/* Parameters of a loop besides its operands. */
typedef struct step {
  float keep; /* of the weight: 1 - lr * wd */
  float rate; /* lr */
  optim_gradient gradient;
} step;

TN_KERNEL_BODY void step_f32(const tn_kernel_block *block, const void *params) {
  const step *s = params;
  const float *weight = block->in[0], *gradient = block->in[1];
  float *out = block->out;
  const float keep = s->keep, rate = s->rate;
  const float rescale = (float)s->gradient.rescale;
  const float limit = (float)s->gradient.limit;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) {
    const float g = tn_math_clip_f32(rescale * gradient[i], -limit, limit);
    out[i] = keep * weight[i] - rate * g;
  }
}
TN_KERNEL_LEVELS(step_f32)

int32_t optim_mp_sgd_update(const tn_frame *call) {
  static const optim_loops loops = OPTIM_KEPT_LOOPS(step);
  const optim_mp_sgd_update_params *p = optim_mp_sgd_update_params_of(call);
  const step s = {(float)(1 - p->lr * p->wd), (float)p->lr,
                  optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  return optim_step_run(call, &loops, &s);
}
