/* SPDX-License-Identifier: Apache-2.0
 * step.h: what the kernels of steps share that keep states: a loop over a
 * weight, its gradient and the states, all dense, which writes the new weight
 * and the states in one pass. Read by step.cu too, for what
 * parameters mean.
 */
#ifndef OPTIM_STEP_H_
#define OPTIM_STEP_H_

#include "tenon/kernel.h"

enum { OPTIM_MAX_STATES = 3 };

/* Sets out from in[0], the weight, and in[1], its gradient; in[2] and following
 * are the states, which are written. `out` may be in[0]. */
typedef struct optim_loops {
  tn_kernel_bodies single; /* all are floats */
  tn_kernel_bodies twice;  /* all are doubles */
  uint32_t kept; /* 1: the last state is the weight in f32, which a loop is
                    given, and changes, in its place; else 0 */
} optim_loops;

/* The loops name_f32 and name_f64, which TN_KERNEL_LEVELS has compiled. */
#define OPTIM_LOOPS(name) \
  { TN_KERNEL_BODIES(name##_f32), TN_KERNEL_BODIES(name##_f64), 0 }
/* Those of weights in half precision that are kept in f32. */
#define OPTIM_KEPT_LOOPS(name) \
  { .single = TN_KERNEL_BODIES(name##_f32), .kept = 1 }

/* State number `k` of a block, to be written. */
#define OPTIM_STATE(block, k) ((void *)(uintptr_t)(block)->in[2 + (k)])

/* What becomes of a gradient first: rescaled, with `decay` times the weight
 * added, and clipped on both sides unless `limit` is infinite. */
typedef struct optim_gradient {
  double rescale;
  double decay;
  double limit;
} optim_gradient;

/* What clip_gradient and clip_weights mean: negative is none. */
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
 * OPTIM_MAX_STATES auxiliary states, of the type of the weight or, if it is
 * kept in f32, of that: f16 and bf16 by way of f32. `params` is handed to the
 * loop. Parallel. [worker] */
int32_t optim_step_run(const tn_frame *call, const optim_loops *loops,
                       const void *params);

#endif /* OPTIM_STEP_H_ */
