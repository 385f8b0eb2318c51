/* SPDX-License-Identifier: Apache-2.0
 * regression.cu: regression.yaml on CUDA devices. A thread computes an element.
 */
#include "regression.gen.h"

#include "nn.cuh"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. FROM is the data or the result.
 */
enum { TO, FROM, LABEL, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_regression_arrays;

/* The ways to compute an element. */
enum nn_regression_kind { COPY, SIGMOID, DIFFERENCE, SIGN, ZERO };

struct nn_regression_view {
  int64_t n;
  double factor;
  nn_regression_kind kind;
};

/* Computes element i. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_regression_compute(
    const nn_regression_arrays &a, const nn_regression_view &v, int64_t i) {
  typedef nn_compute_type<T> C;
  if (v.kind == ZERO) return 0;
  const C x = nn_load_element<T>(a.at[FROM], i), factor = (C)v.factor;
  if (v.kind == COPY) return x;
  if (v.kind == SIGMOID) return 1 / (1 + nn_exp(-x));
  const C label = nn_load_element<T>(a.at[LABEL], i);
  if (v.kind == DIFFERENCE) return (x - label) * factor;
  return x < label ? -factor : x > label ? factor : (C)0;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_regression_write(nn_regression_arrays a, nn_regression_view v) {
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step())
    nn_store_element<T>(a.at[TO], i, nn_regression_compute<T>(a, v, i));
}

/* -------------------------------------------------------------------- host */

/* Launches the kernel that writes output `out` from inputs `from` and label. */
static int32_t nn_regression_launch(const tn_frame *call, uint32_t out,
                                    uint32_t from, nn_regression_view v) {
  const tn_tensor *to = &call->out[out];
  nn_regression_arrays a = {};
  v.n = tn_tensor_size(to);
  a.at[TO] = tn_cuda_to(to, call->req[out]);
  if (a.at[TO].data == NULL) return TN_OK;
  if (v.kind != ZERO) a.at[FROM] = tn_cuda_from(&call->in[from]);
  if (v.kind == DIFFERENCE || v.kind == SIGN)
    a.at[LABEL] =
        tn_cuda_from(&call->in[NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_IN_LABEL]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_regression_write<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

/* Runs a forward call. */
static int32_t nn_regression_run_forward(const tn_frame *call,
                                         nn_regression_kind kind) {
  const nn_regression_view v = {0, 1, kind};
  return nn_regression_launch(call, 0, NN_LINEAR_REGRESSION_OUTPUT_IN_DATA, v);
}

/* Runs a backward call: the gradient of data, from input `from`. */
static int32_t nn_regression_run_backward(const tn_frame *call,
                                          nn_regression_kind kind,
                                          uint32_t from, double grad_scale) {
  const tn_tensor *to = &call->out[NN_LINEAR_REGRESSION_OUTPUT_IN_DATA];
  const int64_t n = tn_tensor_size(to);
  const int64_t examples = to->ndim > 0 ? to->shape[0] : 1;
  if (n == 0) return TN_OK;
  const nn_regression_view v = {n, grad_scale * (double)examples / (double)n,
                                kind};
  return nn_regression_launch(call, NN_LINEAR_REGRESSION_OUTPUT_IN_DATA, from,
                              v);
}

#define REGRESSION(name, forward, backward, from)                       \
  int32_t nn_##name##_cuda(const tn_frame *call) {                      \
    return nn_regression_run_forward(call, forward);                    \
  }                                                                     \
  int32_t nn_##name##_cuda_backward(const tn_frame *call) {             \
    return nn_regression_run_backward(                                  \
        call, backward, from, nn_##name##_params_of(call)->grad_scale); \
  }                                                                     \
  int32_t nn_##name##_grad_cuda(const tn_frame *call) {                 \
    const tn_frame own = nn_make_backward_call(call);                   \
    const nn_regression_view zeros = {0, 0, ZERO};                      \
    const int32_t code = nn_regression_launch(                          \
        call, NN_LINEAR_REGRESSION_OUTPUT_IN_LABEL, 0, zeros);          \
    return code == TN_OK ? nn_##name##_cuda_backward(&own) : code;      \
  }

REGRESSION(linear_regression_output, COPY, DIFFERENCE,
           NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_IN_DATA)
REGRESSION(mae_regression_output, COPY, SIGN,
           NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_IN_DATA)
REGRESSION(logistic_regression_output, SIGMOID, DIFFERENCE,
           NN_LINEAR_REGRESSION_OUTPUT_BACKWARD_OUT_OUT)
