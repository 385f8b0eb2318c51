/* convolution.gen.h: written by opgen 0.1.0 from convolution.yaml; do not edit.
 * Manifest 05b4f6565a30ed28. */
#ifndef CUDNN_CONVOLUTION_GEN_H_
#define CUDNN_CONVOLUTION_GEN_H_

#include <tenon/op.h>

#if TN_ABI_MAJOR != 0
#error "written for op.h 0.x; regenerate with the opgen of this op.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------- nn.convolution@1 */

#ifndef TN_OPERATOR_NN_CONVOLUTION
#define TN_OPERATOR_NN_CONVOLUTION

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

#endif

/* Values of `tune`. */
enum {
  CUDNN_CONVOLUTION_CUDA_TUNE_OFF = 0,
  CUDNN_CONVOLUTION_CUDA_TUNE_LIMITED = 1,
  CUDNN_CONVOLUTION_CUDA_TUNE_FASTEST = 2,
};

typedef struct cudnn_convolution_cuda_options {
  /* Algorithm search (default limited) */
  int32_t tune;
} cudnn_convolution_cuda_options;

static inline const cudnn_convolution_cuda_options *
cudnn_convolution_cuda_options_of(const tn_frame *call) {
  return (const cudnn_convolution_cuda_options *)call->options;
}

/* The most that the manifest allows. */
#define CUDNN_CONVOLUTION_CUDA_WORKSPACE_MAX UINT64_C(1073741824)

/* States the bytes of call->ws[0], once the shapes are known; TN_CALL_BACKWARD
 * tells for which pass. [any] */
int32_t cudnn_convolution_workspace(const tn_frame *call, uint64_t *bytes);

/* What calls with equal params, shapes and dtypes share. Made once and not
 * changed afterwards; create stores it in *out. [any] */
typedef struct cudnn_convolution_state cudnn_convolution_state;
int32_t cudnn_convolution_state_create(const tn_frame *call,
                                       cudnn_convolution_state **out);
void cudnn_convolution_state_destroy(cudnn_convolution_state *state);

static inline const cudnn_convolution_state *cudnn_convolution_cuda_state_of(
    const tn_frame *call) {
  return (const cudnn_convolution_state *)call->prepared;
}

/* cudnn.convolution.cuda. [worker] */
int32_t cudnn_convolution(const tn_frame *call);
int32_t cudnn_convolution_backward(const tn_frame *call);

/* Tables, for plugin.gen.c. */
extern const tn_target cudnn_nn_convolution_target;
extern const tn_kernel cudnn_convolution_cuda_forward_kernel;
extern const tn_kernel cudnn_convolution_cuda_backward_kernel;

#ifdef __cplusplus
}
#endif
#endif /* CUDNN_CONVOLUTION_GEN_H_ */
