/* pool.gen.h: written by opgen 0.1.0 from pool.yaml; do not edit.
 * Manifest 26675be38e311b1a. */
#ifndef HOOKS_POOL_GEN_H_
#define HOOKS_POOL_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- hooks.pool@1 */

/* Pooling of a random subset. */

/* Values of `mode`. */
enum {
  HOOKS_POOL_MODE_MAX = 0,
  HOOKS_POOL_MODE_AVERAGE = 1,
  HOOKS_POOL_MODE_L2_NORM = 2,
};

typedef struct hooks_pool_params {
  /* What is computed of a window (default max) */
  int32_t mode;
  /* Height and width (required) */
  tn_ints window;
  /* default 1 */
  tn_floats weights;
  /* Whether windows may stick out (default false) */
  int32_t overhang;
  /* Draws the same subset every time (default None) */
  int64_t seed;
  int32_t has_seed; /* 0: None */
  /* A "name" for logs: no * / and ??/ or \ ends the comment (default "") */
  const char *label;
  /* Type of the result (default f32) */
  tn_dtype result;
} hooks_pool_params;

static inline const hooks_pool_params *hooks_pool_params_of(
    const tn_frame *call) {
  return (const hooks_pool_params *)call->params;
}

/* Places in call->in. */
enum {
  HOOKS_POOL_IN_DATA = 0,
  HOOKS_POOL_IN_INDEX = 1,
};

/* Places in call->out. */
enum {
  HOOKS_POOL_OUT_OUT = 0,
};

/* States shapes through call->host->set_shape, as tn_op.infer in op.h says.
 * [any] */
int32_t hooks_pool_infer(const tn_frame *call);

typedef struct hooks_pool_cpu_options {
  /* default 4 */
  int64_t threads;
  /* Allows reordering (default true) */
  int32_t fast;
} hooks_pool_cpu_options;

static inline const hooks_pool_cpu_options *hooks_pool_cpu_options_of(
    const tn_frame *call) {
  return (const hooks_pool_cpu_options *)call->options;
}

/* What calls with equal params, shapes and dtypes share. Made once and not
 * changed afterwards; create stores it in *out. [any] */
typedef struct hooks_pool_state hooks_pool_state;
int32_t hooks_pool_state_create(const tn_frame *call, hooks_pool_state **out);
void hooks_pool_state_destroy(hooks_pool_state *state);

static inline const hooks_pool_state *hooks_pool_cpu_state_of(
    const tn_frame *call) {
  return (const hooks_pool_state *)call->prepared;
}

/* hooks.pool.cpu. Each call may draw one Philox block from call->run->random[0]
 * for every element of its outputs. [worker] */
int32_t hooks_pool(const tn_frame *call);

/* Tables, for plugin.gen.c. */
extern const tn_op hooks_pool_op;
extern const tn_kernel hooks_pool_cpu_forward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* HOOKS_POOL_GEN_H_ */
