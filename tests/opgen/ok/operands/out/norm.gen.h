/* norm.gen.h: written by opgen 0.1.0 from norm.yaml; do not edit.
 * Manifest 45c67796d922b13a. */
#ifndef SHAPES_NORM_GEN_H_
#define SHAPES_NORM_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------ shapes.norm@1 */

/* Normalisation over a batch. */

typedef struct shapes_norm_params {
  /* Keeps the root away from zero (default 1.0e-5) */
  double eps;
} shapes_norm_params;

static inline const shapes_norm_params *shapes_norm_params_of(
    const tn_frame *call) {
  return (const shapes_norm_params *)call->params;
}

/* Places in call->in. */
enum {
  SHAPES_NORM_IN_DATA = 0,
  SHAPES_NORM_IN_GAMMA = 1,
  SHAPES_NORM_IN_BETA = 2,
};

/* Places in call->out. */
enum {
  SHAPES_NORM_OUT_OUT = 0,
  SHAPES_NORM_OUT_MEAN = 1,
};

/* Places in call->aux. */
enum {
  SHAPES_NORM_AUX_RUNNING_MEAN = 0,
  SHAPES_NORM_AUX_RUNNING_VAR = 1,
};

/* Backward: places in call->in. call->out holds the gradients of the inputs. */
enum {
  SHAPES_NORM_BACKWARD_GRAD_OUT = 0,
  SHAPES_NORM_BACKWARD_GRAD_MEAN = 1,
  SHAPES_NORM_BACKWARD_IN_DATA = 2,
  SHAPES_NORM_BACKWARD_IN_GAMMA = 3,
  SHAPES_NORM_BACKWARD_IN_BETA = 4,
  SHAPES_NORM_BACKWARD_OUT_OUT = 5,
  SHAPES_NORM_BACKWARD_OUT_MEAN = 6,
};

/* shapes.norm.cpu. [worker] */
int32_t shapes_norm(const tn_frame *call);
int32_t shapes_norm_backward(const tn_frame *call);

/* Tables, for plugin.gen.c. */
extern const tn_op shapes_norm_op;
extern const tn_kernel shapes_norm_cpu_forward_kernel;
extern const tn_kernel shapes_norm_cpu_backward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* SHAPES_NORM_GEN_H_ */
