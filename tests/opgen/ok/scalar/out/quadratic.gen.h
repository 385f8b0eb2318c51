/* quadratic.gen.h: written by opgen 0.1.0 from quadratic.yaml; do not edit.
 * Manifest cf74513c55946720. */
#ifndef ELEMWISE_QUADRATIC_GEN_H_
#define ELEMWISE_QUADRATIC_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------- elemwise.quadratic@1 */

/* Quadratic function of every element. */

typedef struct elemwise_quadratic_params {
  /* Coefficient of the quadratic term (default 0) */
  double a;
  /* Coefficient of the linear term (default 0) */
  double b;
  /* Constant term (default 0) */
  double c;
} elemwise_quadratic_params;

static inline const elemwise_quadratic_params *elemwise_quadratic_params_of(
    const tn_frame *call) {
  return (const elemwise_quadratic_params *)call->params;
}

/* Places in call->in. */
enum {
  ELEMWISE_QUADRATIC_IN_DATA = 0,
};

/* Places in call->out. */
enum {
  ELEMWISE_QUADRATIC_OUT_OUT = 0,
};

/* Backward: places in call->in. call->out holds the gradients of the inputs. */
enum {
  ELEMWISE_QUADRATIC_BACKWARD_GRAD_OUT = 0,
  ELEMWISE_QUADRATIC_BACKWARD_IN_DATA = 1,
  ELEMWISE_QUADRATIC_BACKWARD_OUT_OUT = 2,
};

/* Tables, for plugin.gen.c. */
extern const tn_op elemwise_quadratic_op;
extern const tn_kernel elemwise_quadratic_cpu_forward_kernel;
extern const tn_kernel elemwise_quadratic_cpu_backward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* ELEMWISE_QUADRATIC_GEN_H_ */
