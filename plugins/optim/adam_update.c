/* SPDX-License-Identifier: Apache-2.0
 * adam_update.c: the kernel of adam_update.yaml, which reads and writes the two
 * moments and the weight in one pass.
 */
#include "adam_update.gen.h"

#include "step.h"

/* Parameters of a loop besides its operands. */
typedef struct step {
  double beta1, beta2;
  double rate;    /* of the mean: lr, corrected */
  double root;    /* of the square root of var: its correction */
  double epsilon; /* added to that */
  optim_gradient gradient;
} step;

/* out = weight - rate*mean/(root*sqrt(var) + epsilon) */
#define STEP(name, type, clip, sqrt)                                           \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const step *s = params;                                                    \
    const type *weight = block->in[0], *gradient = block->in[1];               \
    type *mean = OPTIM_STATE(block, 0), *var = OPTIM_STATE(block, 1);          \
    type *out = block->out;                                                    \
    const type beta1 = (type)s->beta1, new1 = (type)(1 - s->beta1);            \
    const type beta2 = (type)s->beta2, new2 = (type)(1 - s->beta2);            \
    const type rate = (type)s->rate, root = (type)s->root;                     \
    const type epsilon = (type)s->epsilon;                                     \
    const type rescale = (type)s->gradient.rescale;                            \
    const type decay = (type)s->gradient.decay;                                \
    const type limit = (type)s->gradient.limit;                                \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type g =                                                           \
          clip(rescale * gradient[i] + decay * weight[i], -limit, limit);      \
      const type m = beta1 * mean[i] + new1 * g;                               \
      const type v = beta2 * var[i] + new2 * (g * g);                          \
      mean[i] = m;                                                             \
      var[i] = v;                                                              \
      out[i] = weight[i] - rate * m / (root * sqrt(v) + epsilon);              \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

STEP(step_f32, float, tn_math_clip_f32, sqrtf)
STEP(step_f64, double, tn_math_clip_f64, sqrt)

/* 1 - beta^n: the weight of n numbers in an average that began at 0. An average
 * with beta 1 keeps its first value and has no correction. */
static double weight_of(double beta, int64_t n) {
  return n == 0 || beta == 1 ? 1 : 1 - pow(beta, (double)n);
}

int32_t optim_adam_update(const tn_frame *call) {
  static const optim_loops loops = OPTIM_LOOPS(step);
  const optim_adam_update_params *p = optim_adam_update_params_of(call);
  const step s = {
      .beta1 = p->beta1,
      .beta2 = p->beta2,
      .rate = p->lr / weight_of(p->beta1, p->step),
      .root = 1 / sqrt(weight_of(p->beta2, p->step)),
      .epsilon = p->epsilon,
      .gradient = optim_gradient_of(p->rescale_grad, p->wd, p->clip_gradient)};
  return optim_step_run(call, &loops, &s);
}
