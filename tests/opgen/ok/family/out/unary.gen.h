/* unary.gen.h: written by opgen 0.1.0 from unary.yaml; do not edit.
 * Manifest 83dacaff2f66b29f. */
#ifndef MATH_UNARY_GEN_H_
#define MATH_UNARY_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- math.exp@1 */

/* Exponential. */

/* Places in call->in. */
enum {
  MATH_EXP_IN_DATA = 0,
};

/* Places in call->out. */
enum {
  MATH_EXP_OUT_OUT = 0,
};

/* Backward: places in call->in. call->out holds the gradients of the inputs. */
enum {
  MATH_EXP_BACKWARD_GRAD_OUT = 0,
  MATH_EXP_BACKWARD_IN_DATA = 1,
  MATH_EXP_BACKWARD_OUT_OUT = 2,
};

/* Tables, for plugin.gen.c. */
extern const tn_op math_exp_op;
extern const tn_kernel math_exp_cpu_forward_kernel;
extern const tn_kernel math_exp_cpu_backward_kernel;

/* -------------------------------------------------------------- math.tanh@1 */

/* Hyperbolic tangent. */

/* Places in call->in. */
enum {
  MATH_TANH_IN_DATA = 0,
};

/* Places in call->out. */
enum {
  MATH_TANH_OUT_OUT = 0,
};

/* Backward: places in call->in. call->out holds the gradients of the inputs. */
enum {
  MATH_TANH_BACKWARD_GRAD_OUT = 0,
  MATH_TANH_BACKWARD_IN_DATA = 1,
  MATH_TANH_BACKWARD_OUT_OUT = 2,
};

/* Tables, for plugin.gen.c. */
extern const tn_op math_tanh_op;
extern const tn_kernel math_tanh_cpu_forward_kernel;
extern const tn_kernel math_tanh_cpu_backward_kernel;

/* -------------------------------------------------------------- math.sign@1 */

/* Sign of every element. */

/* Places in call->in. */
enum {
  MATH_SIGN_IN_DATA = 0,
};

/* Places in call->out. */
enum {
  MATH_SIGN_OUT_OUT = 0,
};

/* Tables, for plugin.gen.c. */
extern const tn_op math_sign_op;
extern const tn_kernel math_sign_cpu_forward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* MATH_UNARY_GEN_H_ */
