/* minimum.gen.h: written by opgen 0.1.0 from minimum.yaml; do not edit.
 * Manifest 7e2e562fb2cadd38. */
#ifndef MATH_MINIMUM_GEN_H_
#define MATH_MINIMUM_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------- math.minimum@2 */

/* Smaller one of two elements. */

/* Places in call->in. */
enum {
  MATH_MINIMUM_V2_IN_A = 0,
  MATH_MINIMUM_V2_IN_B = 1,
};

/* Places in call->out. */
enum {
  MATH_MINIMUM_V2_OUT_OUT = 0,
};

/* Tables, for plugin.gen.c. */
extern const tn_op math_minimum_v2_op;
extern const tn_kernel math_minimum_v2_cpu_forward_kernel;

/* ------------------------------------------------------------- math.above@1 */

/* Whether elements are above a threshold. */

typedef struct math_above_params {
  /* The limit (default 0.5) */
  double threshold;
} math_above_params;

static inline const math_above_params *math_above_params_of(
    const tn_frame *call) {
  return (const math_above_params *)call->params;
}

/* Places in call->in. */
enum {
  MATH_ABOVE_IN_DATA = 0,
};

/* Places in call->out. */
enum {
  MATH_ABOVE_OUT_OUT = 0,
};

/* Backward: places in call->in. call->out holds the gradients of the inputs. */
enum {
  MATH_ABOVE_BACKWARD_GRAD_OUT = 0,
  MATH_ABOVE_BACKWARD_IN_DATA = 1,
  MATH_ABOVE_BACKWARD_OUT_OUT = 2,
};

/* Tables, for plugin.gen.c. */
extern const tn_op math_above_op;
extern const tn_kernel math_above_cpu_forward_kernel;
extern const tn_kernel math_above_cpu_backward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* MATH_MINIMUM_GEN_H_ */
