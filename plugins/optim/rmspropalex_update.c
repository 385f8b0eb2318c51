/* SPDX-License-Identifier: Apache-2.0
 * rmspropalex_update.c: the kernel of rmspropalex_update.yaml, which reads and
 * writes the averages, the last step and the weight in one pass.
 */
#include "rmspropalex_update.gen.h"

#include "step.h"

/* Parameters of a loop besides its operands. */
typedef struct step {
  double keep;  /* of the averages */
  double again; /* of the last step */
  double rate, epsilon;
  double most; /* largest absolute value of a weight */
  optim_gradient gradient;
} step;

/* out = weight + delta */
#define STEP(name, type, clip, sqrt)                                           \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const step *s = params;                                                    \
    const type *weight = block->in[0], *gradient = block->in[1];               \
    type *n = OPTIM_STATE(block, 0), *mean = OPTIM_STATE(block, 1);            \
    type *delta = OPTIM_STATE(block, 2), *out = block->out;                    \
    const type keep = (type)s->keep, fresh = (type)(1 - s->keep);              \
    const type again = (type)s->again, rate = (type)s->rate;                   \
    const type epsilon = (type)s->epsilon, most = (type)s->most;               \
    const type rescale = (type)s->gradient.rescale;                            \
    const type decay = (type)s->gradient.decay;                                \
    const type limit = (type)s->gradient.limit;                                \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type g =                                                           \
          clip(rescale * gradient[i] + decay * weight[i], -limit, limit);      \
      const type square = keep * n[i] + fresh * (g * g);                       \
      const type average = keep * mean[i] + fresh * g;                         \
      const type apart = square - average * average;                           \
      const type variance = clip(apart, 0, (type)INFINITY);                    \
      const type moved =                                                       \
          again * delta[i] - rate * g / sqrt(variance + epsilon);              \
      n[i] = square;                                                           \
      mean[i] = average;                                                       \
      delta[i] = moved;                                                        \
      out[i] = clip(weight[i] + moved, -most, most);                           \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

STEP(step_f32, float, tn_math_clip_f32, sqrtf)
STEP(step_f64, double, tn_math_clip_f64, sqrt)

int32_t optim_rmspropalex_update(const tn_frame *call) {
  static const optim_loops loops = OPTIM_LOOPS(step);
  const optim_rmspropalex_update_params *p =
      optim_rmspropalex_update_params_of(call);
  const step s = {
      .keep = p->gamma1,
      .again = p->gamma2,
      .rate = p->lr,
      .epsilon = p->epsilon,
      .most = optim_limit_of(p->clip_weights),
      .gradient = optim_gradient_of(p->rescale_grad, p->wd, p->clip_gradient)};
  return optim_step_run(call, &loops, &s);
}
