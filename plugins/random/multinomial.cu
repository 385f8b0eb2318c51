/* SPDX-License-Identifier: Apache-2.0
 * multinomial.cu: classes by the probabilities of a row on CUDA devices. A
 * thread adds up a row, another one finds the class of a draw.
 */
#include "order.gen.h"

#include "tenon/kernel/philox.cuh"

#define CLASS_ONE static __device__ __forceinline__
#include "class_rows.h"

enum { DATA, SUMS, CLASS, LOG_PROB, OFFSET, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> class_arrays;

struct class_view {
  class_rows sizes;
  tn_cuda_random random;
};

/* Sums up to each class; NaN in all of them if the row has no distribution. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_add_up(class_arrays a, class_view v) {
  double *sums = (double *)a.at[SUMS].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t row = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; row < v.sizes.rows; row += step) {
    const int64_t first = row * v.sizes.classes;
    double sum = 0;
    for (int64_t k = 0; k < v.sizes.classes; ++k) {
      const double p = tn_cuda_read<double>(a.at[DATA], first + k);
      sum = p >= 0 ? sum + p : NAN;
      sums[first + k] = sum;
    }
    if (!(sum > 0 && sum < INFINITY)) sums[first + v.sizes.classes - 1] = NAN;
  }
}

/* Class -1 becomes the greatest number of an unsigned type. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_classes(class_arrays a, class_view v) {
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.sizes.rows * v.sizes.draws; i += step) {
    const int64_t first = i / v.sizes.draws * v.sizes.classes;
    const tn_kernel_bits bits =
        tn_cuda_draw(v.random, a.at[OFFSET], (uint64_t)i);
    const uint64_t word = (uint64_t)bits.word[1] << 32 | bits.word[0];
    const double u = (double)(int64_t)(word >> 11) * 0x1p-53;
    const int64_t k =
        find_class((const double *)a.at[SUMS].data + first, v.sizes.classes, u);
    if (a.at[CLASS].data != NULL) tn_cuda_write(a.at[CLASS], i, k);
    if (a.at[LOG_PROB].data == NULL) continue;
    tn_cuda_write<double>(
        a.at[LOG_PROB], i,
        k < 0 ? NAN : log(tn_cuda_read<double>(a.at[DATA], first + k)));
  }
}

static class_view make_view(const tn_frame *call, const tn_tensor *data,
                            const tn_tensor *out) {
  class_view v;
  v.sizes = find_class_rows(data, out);
  if (call->run->n_random > 0)
    v.random = tn_cuda_random_of(call->run->random[0]);
  return v;
}

extern "C" int32_t random_multinomial(const tn_frame *call) {
  const tn_tensor *data = &call->in[RANDOM_MULTINOMIAL_IN_DATA];
  const class_view v = make_view(call, data, &call->out[0]);
  class_arrays a = {};
  if (v.sizes.rows * v.sizes.draws == 0) return TN_OK;
  if (v.sizes.classes == 0)
    return TN_FAIL(call, TN_SHAPE, "`data` has no class; give it one or more");
  a.at[DATA] = tn_cuda_from(data);
  a.at[SUMS] =
      tn_cuda_room(call->ws[0], TN_F64, v.sizes.rows * v.sizes.classes);
  a.at[OFFSET] = tn_cuda_offset(call->run->random[0]);
  if (call->req[0] != TN_REQ_NULL)
    a.at[CLASS] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  if (call->req[1] != TN_REQ_NULL)
    a.at[LOG_PROB] = tn_cuda_to(&call->out[1], TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    const int32_t code =
        tn_cuda_start_each(call, random_add_up, v.sizes.rows, stream, a, v);
    if (code != TN_OK) return code;
    return tn_cuda_start_each(call, random_classes,
                              v.sizes.rows * v.sizes.draws, stream, a, v);
  });
}

/* ---------------------------------------------------------------- gradient */

enum { TO, GRAD, DRAWN, OF, N_SLOPES };
typedef tn_cuda_arrays<N_SLOPES> slope_arrays;

/* A thread for each row: its draws in order. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_slopes(slope_arrays a, class_view v) {
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t row = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; row < v.sizes.rows; row += step) {
    const int64_t first = row * v.sizes.classes;
    for (int64_t k = 0; k < v.sizes.classes; ++k)
      tn_cuda_write<double>(a.at[TO], first + k, 0);
    for (int64_t j = row * v.sizes.draws; j < (row + 1) * v.sizes.draws; ++j) {
      const int64_t k = tn_cuda_read<int64_t>(a.at[DRAWN], j);
      if (k < 0 || k >= v.sizes.classes) continue;
      tn_cuda_write<double>(a.at[TO], first + k,
                            tn_cuda_read<double>(a.at[TO], first + k) +
                                tn_cuda_read<double>(a.at[GRAD], j) /
                                    tn_cuda_read<double>(a.at[OF], first + k));
    }
  }
}

extern "C" int32_t random_multinomial_backward(const tn_frame *call) {
  const tn_tensor *data = &call->in[RANDOM_MULTINOMIAL_BACKWARD_IN_DATA];
  const tn_tensor *drawn = &call->in[RANDOM_MULTINOMIAL_BACKWARD_OUT_OUT];
  const class_view v = make_view(call, data, drawn);
  slope_arrays a = {};
  if (v.sizes.rows * v.sizes.classes == 0 || call->req[0] == TN_REQ_NULL)
    return TN_OK;
  a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  a.at[GRAD] =
      tn_cuda_from(&call->in[RANDOM_MULTINOMIAL_BACKWARD_GRAD_LOG_PROB]);
  a.at[DRAWN] = tn_cuda_from(drawn);
  a.at[OF] = tn_cuda_from(data);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, random_slopes, v.sizes.rows, stream, a, v);
  });
}
