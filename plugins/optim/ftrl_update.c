/* SPDX-License-Identifier: Apache-2.0
 * ftrl_update.c: the kernel of ftrl_update.yaml, which reads and writes the two
 * sums and the weight in one pass.
 */
#include "ftrl_update.gen.h"

#include "step.h"

/* Parameters of a loop besides its operands. */
typedef struct step {
  double slow; /* 1/lr */
  double lamda1, beta, wd;
  optim_gradient gradient;
} step;

#define STEP(name, type, clip, sqrt)                                           \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const step *s = params;                                                    \
    const type *weight = block->in[0], *gradient = block->in[1];               \
    type *z = OPTIM_STATE(block, 0), *n = OPTIM_STATE(block, 1);               \
    type *out = block->out;                                                    \
    const type slow = (type)s->slow, lamda1 = (type)s->lamda1;                 \
    const type beta = (type)s->beta, wd = (type)s->wd;                         \
    const type rescale = (type)s->gradient.rescale;                            \
    const type limit = (type)s->gradient.limit;                                \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type g = clip(rescale * gradient[i], -limit, limit);               \
      const type sum = n[i] + g * g, root = sqrt(sum);                         \
      const type d = z[i] + g - (root - sqrt(n[i])) * weight[i] * slow;        \
      const type beyond = clip(d, -lamda1, lamda1) - d;                        \
      z[i] = d;                                                                \
      n[i] = sum;                                                              \
      const type along = (beta + root) * slow + wd;                            \
      out[i] = beyond == 0 ? 0 : beyond / along;                               \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

STEP(step_f32, float, tn_math_clip_f32, sqrtf)
STEP(step_f64, double, tn_math_clip_f64, sqrt)

int32_t optim_ftrl_update(const tn_frame *call) {
  static const optim_loops loops = OPTIM_LOOPS(step);
  const optim_ftrl_update_params *p = optim_ftrl_update_params_of(call);
  const step s = {1 / p->lr, p->lamda1, p->beta, p->wd,
                  optim_gradient_of(p->rescale_grad, 0, p->clip_gradient)};
  return optim_step_run(call, &loops, &s);
}
