/* SPDX-License-Identifier: Apache-2.0
 * svm_output.cu: svm_output.yaml on CUDA devices. A thread computes an element.
 */
#include "svm_output.gen.h"

#include "nn.cuh"

enum { TO, DATA, LABEL, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_svm_arrays;

struct nn_svm_view {
  int64_t n; /* elements */
  int64_t classes;
  double margin;
  double factor;
  int is_backward; /* otherwise data is copied */
  int is_linear;
  tn_cuda_divisor by_classes;
};

/* Returns the gradient of element i. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_svm_find_gradient(
    const nn_svm_arrays &a, const nn_svm_view &v, int64_t i) {
  typedef nn_compute_type<T> C;
  const int64_t row = tn_cuda_quotient(i, v.by_classes);
  const double label = tn_cuda_read<double>(a.at[LABEL], row);
  const bool is_class = label >= 0 && label < (double)v.classes;
  const bool is_hit = is_class && (int64_t)label == i - row * v.classes;
  const C x = nn_load_element<T>(a.at[DATA], i), sign = is_hit ? -1 : 1;
  const C margin = (C)v.margin, factor = sign * (C)v.factor;
  if (!(margin > -sign * x)) return 0;
  return v.is_linear ? factor : 2 * factor * (margin + sign * x);
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_svm_write(nn_svm_arrays a, nn_svm_view v) {
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step())
    nn_store_element<T>(a.at[TO], i,
                        v.is_backward ? nn_svm_find_gradient<T>(a, v, i)
                                      : nn_load_element<T>(a.at[DATA], i));
}

/* Launches the kernel for a call with these arrays. */
static int32_t nn_svm_launch(const tn_frame *call, const nn_svm_arrays &a,
                             nn_svm_view v) {
  const nn_svm_output_params *p = nn_svm_output_params_of(call);
  if (a.at[TO].data == NULL) return TN_OK;
  v.n = tn_tensor_size(&call->out[0]);
  v.classes = v.n / call->out[0].shape[0];
  v.margin = p->margin;
  v.factor = p->regularization_coefficient;
  v.is_linear = p->use_linear;
  v.by_classes = tn_cuda_divisor_of(v.classes);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(a.at[TO].dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_svm_write<decltype(type)>, v.n, stream,
                                a, v);
    });
  });
}

int32_t nn_svm_output_cuda(const tn_frame *call) {
  nn_svm_arrays a = {};
  const nn_svm_view v = {};
  a.at[TO] = tn_cuda_to(&call->out[NN_SVM_OUTPUT_OUT_OUT],
                        call->req[NN_SVM_OUTPUT_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_SVM_OUTPUT_IN_DATA]);
  return nn_svm_launch(call, a, v);
}

int32_t nn_svm_output_cuda_backward(const tn_frame *call) {
  nn_svm_arrays a = {};
  nn_svm_view v = {};
  v.is_backward = 1;
  a.at[TO] = tn_cuda_to(&call->out[NN_SVM_OUTPUT_IN_DATA],
                        call->req[NN_SVM_OUTPUT_IN_DATA]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_SVM_OUTPUT_BACKWARD_IN_DATA]);
  a.at[LABEL] = tn_cuda_from(&call->in[NN_SVM_OUTPUT_BACKWARD_IN_LABEL]);
  return nn_svm_launch(call, a, v);
}
