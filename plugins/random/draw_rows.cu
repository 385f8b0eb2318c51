/* SPDX-License-Identifier: Apache-2.0
 * draw_rows.cu: draw_rows.h on CUDA devices: a thread for each element.
 */
#include "draw_rows.h"
#include "tenon/kernel/philox.cuh"

enum { TO, FIRST, SECOND, OFFSET, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> random_arrays;

/* Argument of the CUDA kernel. */
struct random_view {
  int64_t n;
  tn_cuda_random random;
  draw_rows_params params;
};

/* The place of an element in the stream of the call. */
struct draw_source {
  const tn_cuda_random *random;
  const tn_cuda_array *offset;
  uint64_t index;
};

#define DRAW_ONE static __device__ __forceinline__

DRAW_ONE tn_kernel_bits draw_block(const draw_source *source, uint32_t sub) {
  return tn_cuda_draw(*source->random, *source->offset, source->index, sub);
}

#include "draw_one.h"

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_rows(random_arrays a, random_view v) {
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.n; i += step) {
    const draw_source source = {&v.random, &a.at[OFFSET], (uint64_t)i};
    double x = v.params.a, y = v.params.b;
    if (v.params.of_inputs) {
      const int64_t row = i / v.params.columns;
      x = tn_cuda_read<double>(a.at[FIRST], row);
      y = a.at[SECOND].data != NULL ? tn_cuda_read<double>(a.at[SECOND], row)
                                    : 0;
    }
    tn_cuda_write<double>(
        a.at[TO], i, draw_one(&source, v.params.kind, x, y, a.at[TO].dtype));
  }
}

int32_t draw_rows(const tn_frame *call, const draw_rows_params *params) {
  random_view v;
  random_arrays a = {};
  v.n = tn_tensor_size(&call->out[0]);
  v.random = tn_cuda_random_of(call->run->random[0]);
  v.params = *params;
  a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  if (params->of_inputs) a.at[FIRST] = tn_cuda_from(&call->in[0]);
  if (call->n_in > 1) a.at[SECOND] = tn_cuda_from(&call->in[1]);
  a.at[OFFSET] = tn_cuda_offset(call->run->random[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, random_rows, v.n, stream, a, v);
  });
}
