/* SPDX-License-Identifier: Apache-2.0
 * step.h: the common part of optimizer kernels with states. One loop over a
 * weight, its gradient and the states, all dense, writes the new weight and the
 * states in one pass. step.cu uses the definitions of parameters here.
 */
#ifndef OPTIM_STEP_H_
#define OPTIM_STEP_H_

#include "tenon/kernel/kernel.h"

enum { OPTIM_MAX_STATES = 3 };

/* Reads in[0], the weight, and in[1], its gradient; in[2] and following are the
 * states, which it writes. `out` may be in[0]. */
typedef struct optim_loops {
  tn_kernel_bodies single; /* all are floats */
  tn_kernel_bodies twice;  /* all are doubles */
  uint32_t kept; /* 1: the last state is the weight in f32, and the loop
                    updates it in place; else 0 */
} optim_loops;

/* The loops name_f32 and name_f64, which TN_KERNEL_LEVELS compiles. */
#define OPTIM_LOOPS(name) \
  { TN_KERNEL_BODIES(name##_f32), TN_KERNEL_BODIES(name##_f64), 0 }
/* The loops of weights in half precision with an f32 copy. */
#define OPTIM_KEPT_LOOPS(name) \
  { .single = TN_KERNEL_BODIES(name##_f32), .kept = 1 }

/* State number `k` of a block, for writing. */
#define OPTIM_STATE(block, k) ((void *)(uintptr_t)(block)->in[2 + (k)])

/* The first change of a gradient: rescaled, plus `decay` times the weight,
 * clipped on both sides unless `limit` is infinite. */
typedef struct optim_gradient {
  double rescale;
  double decay;
  double limit;
} optim_gradient;

/* The meaning of clip_gradient and clip_weights: a negative value means no
 * limit. */
static inline double optim_limit_of(double clip) {
  return clip < 0 ? INFINITY : clip;
}

/* `clip` is the parameter clip_gradient. */
static inline optim_gradient optim_gradient_of(double rescale, double decay,
                                               double clip) {
  const optim_gradient g = {rescale, decay, optim_limit_of(clip)};
  return g;
}

/* Runs a loop over a call with inputs weight and gradient, and at most
 * OPTIM_MAX_STATES auxiliary states. The states have the type of the weight, or
 * of its f32 copy; f16 and bf16 pass through f32. The loop gets `params`.
 * Parallel. [worker] */
int32_t optim_step_run(const tn_frame *call, const optim_loops *loops,
                       const void *params);

#endif /* OPTIM_STEP_H_ */
