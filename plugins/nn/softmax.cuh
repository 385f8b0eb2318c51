/* SPDX-License-Identifier: Apache-2.0
 * softmax.cuh: softmax of dense tensors on CUDA devices, for all operators that
 * have one inside.
 */
#ifndef NN_SOFTMAX_CUH_
#define NN_SOFTMAX_CUH_

#include "nn.cuh"

/* Which softmax of which lines. */
struct nn_softmax_view {
  nn_lines lines;
  double factor; /* of elements before anything else */
  int is_log;    /* its logarithm instead */
};

enum { NN_SOFTMAX_TO, NN_SOFTMAX_FROM };

/* `to` may be `from`: a thread writes what nobody else reads. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_lines(tn_cuda_arrays<2> a, nn_softmax_view v) {
  typedef nn_wide<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const tn_cuda_array &from = a.at[NN_SOFTMAX_FROM];
  const int64_t groups = nn_line_groups(v.lines), inner = v.lines.inner;
  const C factor = (C)v.factor;
  for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
    const nn_line line = nn_line_of(v.lines, g);
    C top = -(C)INFINITY, sum = 0;
    for (int64_t k = line.first; k < line.end; k += line.step)
      top = tn_cuda_largest()(top, nn_get<T>(from, line.at + k * inner));
    top = tn_cuda_fold(part, top, tn_cuda_largest(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step)
      sum += nn_exp((nn_get<T>(from, line.at + k * inner) - top) * factor);
    sum = tn_cuda_fold(part, sum, tn_cuda_plus(), v.lines.lanes);
    const C last = nn_log(sum), scale = 1 / sum;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C d = (nn_get<T>(from, i) - top) * factor;
      nn_put<T>(a.at[NN_SOFTMAX_TO], i,
                v.is_log ? d - last : nn_exp(d) * scale);
    }
  }
}

/* Sets `to` to the softmaxes of `from`, or adds them. */
static int32_t nn_softmax_run(const tn_frame *call, const nn_softmax_view &v,
                              const tn_cuda_array &to,
                              const tn_cuda_array &from) {
  const tn_cuda_arrays<2> a = {{to, from}};
  if (v.lines.length == 0) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to.dtype, [&](auto type) {
      return tn_cuda_start(call, nn_softmax_lines<decltype(type)>,
                           nn_line_groups(v.lines), stream, a, v);
    });
  });
}

#endif /* NN_SOFTMAX_CUH_ */
