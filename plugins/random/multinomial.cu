/* SPDX-License-Identifier: Apache-2.0
 * multinomial.cu: classes by the probabilities of a row on CUDA devices. A
 * thread adds up a row, another one finds the class of a draw.
 */
#include "order.gen.h"

#include "order_rows.h"
#include "tenon/kernel/philox.cuh"

enum { DATA, SUMS, CLASS, LOG_PROB, OFFSET, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> class_arrays;

struct class_view {
  int64_t rows, classes, draws; /* draws: elements of a row of the output */
  tn_cuda_random random;
};

/* Sums up to each class; NaN in all of them if the row has no distribution. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_add_up(class_arrays a, class_view v) {
  double *sums = (double *)a.at[SUMS].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t row = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; row < v.rows; row += step) {
    const int64_t first = row * v.classes;
    double sum = 0;
    for (int64_t k = 0; k < v.classes; ++k) {
      const double p = tn_cuda_read<double>(a.at[DATA], first + k);
      sum = p >= 0 ? sum + p : NAN;
      sums[first + k] = sum;
    }
    if (!(sum > 0 && sum < INFINITY)) sums[first + v.classes - 1] = NAN;
  }
}

/* Stores a number. */
struct class_store {
  double x;
  template <class T>
  __device__ __forceinline__ void operator()(T *to) const {
    *to = tn_cuda_put(x, T());
  }
};

/* The same for a whole number: -1 becomes the greatest one of an unsigned
 * type. */
struct class_number {
  int64_t x;
  template <class T>
  __device__ __forceinline__ void operator()(T *to) const {
    *to = tn_cuda_put(x, T());
  }
};

__device__ __forceinline__ int64_t random_find_class(const double *sums,
                                                     int64_t classes,
                                                     double u) {
  const double x = u * sums[classes - 1];
  int64_t low = 0, high = classes - 1;
  if (!(x >= 0)) return -1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sums[middle] > x)
      high = middle;
    else
      low = middle + 1;
  }
  while (low > 0 && sums[low] <= sums[low - 1]) --low;
  return low;
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_classes(class_arrays a, class_view v) {
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.rows * v.draws; i += step) {
    const int64_t first = i / v.draws * v.classes;
    const tn_kernel_bits bits =
        tn_cuda_draw(v.random, a.at[OFFSET], (uint64_t)i);
    const uint64_t word = (uint64_t)bits.word[1] << 32 | bits.word[0];
    const double u = (double)(int64_t)(word >> 11) * 0x1p-53;
    const int64_t k = random_find_class((const double *)a.at[SUMS].data + first,
                                        v.classes, u);
    const class_number number = {k};
    if (a.at[CLASS].data != NULL)
      tn_cuda_visit(a.at[CLASS].data, a.at[CLASS].dtype, i, number);
    if (a.at[LOG_PROB].data == NULL) continue;
    const class_store log_prob = {
        k < 0 ? NAN : log(tn_cuda_read<double>(a.at[DATA], first + k))};
    tn_cuda_visit(a.at[LOG_PROB].data, a.at[LOG_PROB].dtype, i, log_prob);
  }
}

static class_view make_view(const tn_frame *call, const tn_tensor *data,
                            const tn_tensor *out) {
  class_view v;
  v.classes = data->shape[data->ndim - 1];
  v.rows = 1;
  for (int32_t d = 0; d < data->ndim - 1; ++d) v.rows *= data->shape[d];
  v.draws = v.rows > 0 ? tn_tensor_size(out) / v.rows : 0;
  if (call->run->n_random > 0)
    v.random = tn_cuda_random_of(call->run->random[0]);
  return v;
}

extern "C" int32_t random_multinomial(const tn_frame *call) {
  const tn_tensor *data = &call->in[RANDOM_MULTINOMIAL_IN_DATA];
  const class_view v = make_view(call, data, &call->out[0]);
  class_arrays a = {};
  if (v.rows * v.draws == 0) return TN_OK;
  if (v.classes == 0)
    return TN_FAIL(call, TN_SHAPE, "`data` has no class; give it one or more");
  a.at[DATA] = tn_cuda_from(data);
  a.at[SUMS] = tn_cuda_room(call->ws[0], TN_F64, v.rows * v.classes);
  a.at[OFFSET] = tn_cuda_offset(call->run->random[0]);
  if (call->req[0] != TN_REQ_NULL)
    a.at[CLASS] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  if (call->req[1] != TN_REQ_NULL)
    a.at[LOG_PROB] = tn_cuda_to(&call->out[1], TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    const int32_t code =
        tn_cuda_start_each(call, random_add_up, v.rows, stream, a, v);
    if (code != TN_OK) return code;
    return tn_cuda_start_each(call, random_classes, v.rows * v.draws, stream, a,
                              v);
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
  for (; row < v.rows; row += step) {
    const int64_t first = row * v.classes;
    const class_store zero = {0};
    for (int64_t k = 0; k < v.classes; ++k)
      tn_cuda_visit(a.at[TO].data, a.at[TO].dtype, first + k, zero);
    for (int64_t j = row * v.draws; j < (row + 1) * v.draws; ++j) {
      const int64_t k = tn_cuda_read<int64_t>(a.at[DRAWN], j);
      if (k < 0 || k >= v.classes) continue;
      const class_store sum = {tn_cuda_read<double>(a.at[TO], first + k) +
                               tn_cuda_read<double>(a.at[GRAD], j) /
                                   tn_cuda_read<double>(a.at[OF], first + k)};
      tn_cuda_visit(a.at[TO].data, a.at[TO].dtype, first + k, sum);
    }
  }
}

extern "C" int32_t random_multinomial_backward(const tn_frame *call) {
  const tn_tensor *data = &call->in[RANDOM_MULTINOMIAL_BACKWARD_IN_DATA];
  const tn_tensor *drawn = &call->in[RANDOM_MULTINOMIAL_BACKWARD_OUT_OUT];
  const class_view v = make_view(call, data, drawn);
  slope_arrays a = {};
  if (v.rows * v.classes == 0 || call->req[0] == TN_REQ_NULL) return TN_OK;
  a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
  a.at[GRAD] =
      tn_cuda_from(&call->in[RANDOM_MULTINOMIAL_BACKWARD_GRAD_LOG_PROB]);
  a.at[DRAWN] = tn_cuda_from(drawn);
  a.at[OF] = tn_cuda_from(data);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, random_slopes, v.rows, stream, a, v);
  });
}
