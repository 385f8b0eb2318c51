/* SPDX-License-Identifier: Apache-2.0
 * softmax.cuh: softmax of dense tensors on CUDA devices, for all operators that
 * contain one.
 */
#ifndef NN_SOFTMAX_CUH_
#define NN_SOFTMAX_CUH_

#include "rows.cuh"

/* The lines of a softmax, its kind, and its rows if lines are contiguous. */
struct nn_softmax_view {
  nn_lines lines;
  nn_rows rows;
  double factor; /* factor of elements before the softmax: 1 / temperature */
  int is_log;    /* the result is the logarithm of the softmax */
};

/* Returns the geometry and the kind of a softmax, for its CUDA kernels. */
static inline nn_softmax_view nn_softmax_make_view(const nn_lines &lines,
                                                   double factor, int is_log) {
  const nn_softmax_view v = {lines, nn_choose_rows(lines), factor, is_log};
  return v;
}

/* The sum of many numbers in one thread. Partial sums of 64 numbers are added
 * as f64. */
template <class C>
struct nn_long_sum {
  double whole;
  C part;
  int n; /* numbers in `part` */

  __device__ __forceinline__ nn_long_sum() : whole(0), part(0), n(0) {}

  __device__ __forceinline__ void add(C x) {
    part += x;
    if (++n < 64) return;
    whole += (double)part;
    part = 0;
    n = 0;
  }

  __device__ __forceinline__ C all() const {
    return (C)(whole + (double)part);
  }
};

enum { NN_SOFTMAX_TO, NN_SOFTMAX_FROM };

/* Computes the softmax of lines. Both arrays may be the same, because a thread
 * writes only elements that no other thread reads. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_compute_lines(tn_cuda_arrays<2> a, nn_softmax_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const tn_cuda_array &from = a.at[NN_SOFTMAX_FROM];
  const int64_t groups = nn_count_line_blocks(v.lines), inner = v.lines.inner;
  const C factor = (C)v.factor;
  for (int64_t g = blockIdx.x; g < groups; g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C top = -(C)INFINITY;
    nn_long_sum<C> own;
    for (int64_t k = line.first; k < line.end; k += line.step)
      top =
          tn_cuda_largest()(top, nn_load_element<T>(from, line.at + k * inner));
    top = tn_cuda_reduce(part, top, tn_cuda_largest(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step)
      own.add(nn_exp((nn_load_element<T>(from, line.at + k * inner) - top) *
                     factor));
    const C sum =
        tn_cuda_reduce(part, own.all(), tn_cuda_plus(), v.lines.lanes);
    const C last = nn_log(sum), scale = 1 / sum;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C d = (nn_load_element<T>(from, i) - top) * factor;
      nn_store_element<T>(a.at[NN_SOFTMAX_TO], i,
                          v.is_log ? d - last : nn_exp(d) * scale);
    }
  }
}

/* Computes the softmax of rows, which are kept in registers. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_compute_rows(tn_cuda_arrays<2> a, nn_softmax_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const C factor = (C)v.factor;
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> x[S::packs];
    C top = -(C)INFINITY, sum = 0;
    nn_load_row<T, S>(a.at[NN_SOFTMAX_FROM], row, -(C)INFINITY, x);
    nn_visit_row<S>(row, x,
                    [&](C &e, bool) { top = tn_cuda_largest()(top, e); });
    top = nn_reduce_row<S>(part, top, tn_cuda_largest(), row);
    nn_visit_row<S>(row, x, [&](C &e, bool has) {
      const C d = (e - top) * factor, power = nn_exp(d);
      e = v.is_log ? d : power;
      sum += has ? power : (C)0;
    });
    sum = nn_reduce_row<S>(part, sum, tn_cuda_plus(), row);
    const C last = nn_log(sum), scale = 1 / sum;
    nn_visit_row<S>(row, x,
                    [&](C &e, bool) { e = v.is_log ? e - last : e * scale; });
    nn_store_row<T, S>(a.at[NN_SOFTMAX_TO], row, x);
  }
}

/* Launches the kernel that writes the softmax of `from` to `to`, or adds it. */
static int32_t nn_softmax_launch(const tn_frame *call, nn_softmax_view v,
                                 const tn_cuda_array &to,
                                 const tn_cuda_array &from) {
  const tn_cuda_arrays<2> a = {{to, from}};
  if (v.lines.length == 0) return TN_OK;
  nn_check_row_packs(&v.rows, to);
  nn_check_row_packs(&v.rows, from);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to.dtype, [&](auto type) {
      typedef decltype(type) T;
      return nn_launch_rows(
          call, nn_softmax_compute_lines<T>,
          [](auto shape) {
            return nn_softmax_compute_rows<T, decltype(shape)>;
          },
          stream, a, v);
    });
  });
}

#endif /* NN_SOFTMAX_CUH_ */
