/* convolution.gen.h: written by opgen 0.1.0 from convolution.yaml; do not edit.
 * Manifest c60e3677e98b619a. */
#ifndef NN_CONVOLUTION_GEN_H_
#define NN_CONVOLUTION_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------- nn.convolution@1 */

/* N-D convolution with groups, strides and dilation. */

typedef struct nn_convolution_params {
  /* Window size (required) */
  tn_ints kernel;
  /* Step between windows (default 1) */
  tn_ints stride;
  /* Step inside a window (default 1) */
  tn_ints dilate;
  /* Zeros on both sides (default 0) */
  tn_ints pad;
  /* Output channels (required) */
  int64_t num_filter;
  /* Independent channel groups (default 1) */
  int64_t num_group;
} nn_convolution_params;

static inline const nn_convolution_params *nn_convolution_params_of(
    const tn_frame *call) {
  return (const nn_convolution_params *)call->params;
}

/* Places in call->in. */
enum {
  NN_CONVOLUTION_IN_DATA = 0,
  NN_CONVOLUTION_IN_WEIGHT = 1,
  NN_CONVOLUTION_IN_BIAS = 2,
};

/* Places in call->out. */
enum {
  NN_CONVOLUTION_OUT_OUT = 0,
};

/* Backward: places in call->in. call->out holds the gradients of the inputs. */
enum {
  NN_CONVOLUTION_BACKWARD_GRAD_OUT = 0,
  NN_CONVOLUTION_BACKWARD_IN_DATA = 1,
  NN_CONVOLUTION_BACKWARD_IN_WEIGHT = 2,
  NN_CONVOLUTION_BACKWARD_IN_BIAS = 3,
  NN_CONVOLUTION_BACKWARD_OUT_OUT = 4,
};

/* States the bytes of call->ws[0], once the shapes are known; TN_CALL_BACKWARD
 * tells for which pass. [any] */
int32_t nn_convolution_cpu_workspace(const tn_frame *call, uint64_t *bytes);

/* nn.convolution.cpu. [worker] */
int32_t nn_convolution_cpu(const tn_frame *call);
int32_t nn_convolution_cpu_backward(const tn_frame *call);

/* Tables, for plugin.gen.c. */
extern const tn_op nn_convolution_op;
extern const tn_kernel nn_convolution_cpu_forward_kernel;
extern const tn_kernel nn_convolution_cpu_backward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* NN_CONVOLUTION_GEN_H_ */
