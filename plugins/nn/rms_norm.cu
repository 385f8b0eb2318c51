/* SPDX-License-Identifier: Apache-2.0
 * rms_norm.cu: rms_norm.yaml on CUDA devices. Each line is processed by a part
 * of a block. The gradient of gamma is a sum of channels: the positions in
 * lines.
 */
#include "rms_norm.gen.h"

#include "channels.cuh"
#include "rows.cuh"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. Backward, OUT is the gradient of
 * data. Operands that are absent or not requested have no data. RSTD may have
 * another type than the others. */
enum { OUT, DATA, GAMMA, RSTD, HEAD, SUMS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_rms_arrays;

struct nn_rms_view {
  nn_lines lines;
  nn_rows rows; /* the lines as rows in registers, if their elements are
                   contiguous */
  nn_channels places;
  double eps;
};

/* Returns gamma of position k in a line; 1 if gamma is absent. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_rms_read_gamma(
    const nn_rms_arrays &a, int64_t k) {
  return a.at[GAMMA].data != NULL ? nn_load_element<T>(a.at[GAMMA], k) : 1;
}

/* Writes OUT and RSTD of lines with elements that are not contiguous. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_rms_scale_lines(nn_rms_arrays a, nn_rms_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  const int64_t inner = v.lines.inner;
  const double n = v.lines.length > 0 ? (double)v.lines.length : 1;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C squares = 0;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const C x = nn_load_element<T>(a.at[DATA], line.at + k * inner);
      squares += x * x;
    }
    const double sum =
        tn_cuda_reduce(part, (double)squares, tn_cuda_plus(), v.lines.lanes);
    const C rstd = (C)rsqrt(sum / n + v.eps);
    if (line.leads) nn_store_moment<T>(a.at[RSTD], line.number, rstd);
    if (a.at[OUT].data == NULL) continue;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      nn_store_element<T>(a.at[OUT], i,
                          nn_load_element<T>(a.at[DATA], i) * rstd *
                              nn_load_element<T>(a.at[GAMMA], k));
    }
  }
}

/* Multiplies a thread's part of a row by gamma, unless gamma is absent. */
template <class T, class S>
__device__ __forceinline__ void nn_rms_multiply_gamma(
    const nn_rms_arrays &a, const nn_row &row,
    nn_pack<nn_compute_type<T>, S::size> (&x)[S::packs]) {
  if (a.at[GAMMA].data == NULL) return;
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const unsigned k = nn_find_pack_index<S>(row, u);
    if (k >= row.end) continue;
    const nn_pack<nn_compute_type<T>, S::size> gamma =
        nn_load_pack<T, S::size>(a.at[GAMMA], k);
#pragma unroll
    for (int e = 0; e < S::size; ++e) x[u].x[e] *= gamma.x[e];
  }
}

/* Writes OUT and RSTD of rows, which are kept in registers. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_rms_scale_rows(nn_rms_arrays a, nn_rms_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  const double n = (double)v.rows.length;
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> x[S::packs];
    C squares = 0;
    nn_load_row<T, S>(a.at[DATA], row, (C)0, x);
    nn_visit_row<S>(row, x, [&](C &e, bool) { squares += e * e; });
    const double sum =
        nn_reduce_row<S>(part, (double)squares, tn_cuda_plus(), row);
    const C rstd = (C)rsqrt(sum / n + v.eps);
    if (row.leads) nn_store_moment<T>(a.at[RSTD], row.number, rstd);
    if (a.at[OUT].data == NULL) continue;
    nn_visit_row<S>(row, x, [&](C &e, bool) { e *= rstd; });
    nn_rms_multiply_gamma<T, S>(a, row, x);
    nn_store_row<T, S>(a.at[OUT], row, x);
  }
}

/* Writes the gradient of data, line by line. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_rms_write_line_gradients(nn_rms_arrays a, nn_rms_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const int64_t inner = v.lines.inner;
  const C n = (C)v.lines.length;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C rstd = 0, moment = 0;
    if (line.end > 0) rstd = ((const C *)a.at[RSTD].data)[line.number];
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      moment += nn_load_element<T>(a.at[HEAD], i) * nn_rms_read_gamma<T>(a, k) *
                nn_load_element<T>(a.at[DATA], i);
    }
    const C slope =
        tn_cuda_reduce(part, moment, tn_cuda_plus(), v.lines.lanes) / n * rstd *
        rstd;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C out_gradient =
          nn_load_element<T>(a.at[HEAD], i) * nn_rms_read_gamma<T>(a, k);
      const C x = nn_load_element<T>(a.at[DATA], i);
      nn_store_element<T>(a.at[OUT], i, (out_gradient - x * slope) * rstd);
    }
  }
}

/* Writes the gradient of data, row by row; rows are kept in registers. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_rms_write_row_gradients(nn_rms_arrays a, nn_rms_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const C n = (C)v.rows.length;
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> out_gradient[S::packs], x[S::packs];
    C rstd = 0, moment = 0;
    nn_load_row<T, S>(a.at[HEAD], row, (C)0, out_gradient);
    nn_load_row<T, S>(a.at[DATA], row, (C)0, x);
    if (row.end > 0) rstd = ((const C *)a.at[RSTD].data)[row.number];
    nn_rms_multiply_gamma<T, S>(a, row, out_gradient);
    nn_visit_two_rows<S>(out_gradient, x, [&](C &h, C &e) { moment += h * e; });
    const C slope =
        nn_reduce_row<S>(part, moment, tn_cuda_plus(), row) / n * rstd * rstd;
    nn_visit_two_rows<S>(out_gradient, x,
                         [&](C &h, C &e) { h = (h - e * slope) * rstd; });
    nn_store_row<T, S>(a.at[OUT], row, out_gradient);
  }
}

/* Stores the sums of pieces for the gradient of gamma. RSTD has the type of the
 * computation. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_rms_sum_gamma_gradients(nn_rms_arrays a, nn_rms_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_sum_pair folded[TN_CUDA_THREADS];
  const nn_channels &p = v.places;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(p); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(p, b);
    const C *rstds = (const C *)a.at[RSTD].data;
    C by_gamma = 0;
    nn_visit_piece_part(
        p, part,
        [&](int64_t i) {
          const int64_t j = nn_find_channel_index(p, part.channel, i);
          return nn_load_element<T>(a.at[HEAD], i) *
                 (nn_load_element<T>(a.at[DATA], i) * rstds[j]);
        },
        [&](int64_t, C term) { by_gamma += term; });
    const nn_sum_pair own = {(double)by_gamma, 0};
    nn_store_piece_sums(
        a.at[SUMS], p, part,
        tn_cuda_reduce(folded, own, nn_add_sum_pairs(), p.lanes));
  }
}

/* -------------------------------------------------------------------- host */

/* Returns a tensor with the shape of data, in a forward or backward call. */
static const tn_tensor *nn_rms_find_data(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD)
             ? &call->in[NN_RMS_NORM_BACKWARD_GRAD_OUT]
             : &call->in[NN_RMS_NORM_IN_DATA];
}

/* Returns the geometry and parameters of a call, for its CUDA kernels. */
static nn_rms_view nn_rms_make_view(const tn_frame *call) {
  const nn_rms_norm_params *p = nn_rms_norm_params_of(call);
  const tn_tensor *data = nn_rms_find_data(call);
  const int32_t dim = (int32_t)(p->axis < 0 ? p->axis + data->ndim : p->axis);
  nn_rms_view v;
  v.lines = nn_find_lines(data, dim, dim);
  v.rows = nn_choose_rows(v.lines);
  v.places =
      nn_choose_channel_pieces(v.lines.outer, v.lines.length, v.lines.inner);
  v.eps = p->eps;
  return v;
}

/* Returns the number of lines of the data along the axis. */
static int64_t nn_rms_count_lines(const nn_rms_view &v) {
  return v.lines.outer * v.lines.inner;
}

/* Sets *bytes to the size of the workspace of a backward call: SUMS, followed
 * by rstd of lines in f32, which f16 and bf16 need. */
int32_t nn_rms_norm_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_rms_view v = nn_rms_make_view(call);
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD)
    *bytes = nn_count_sum_bytes(v.places) +
             (v.lines.length > 0 ? (uint64_t)nn_rms_count_lines(v) : 0) *
                 sizeof(float);
  return TN_OK;
}

/* Launches the kernels of a forward call. */
template <class T>
static int32_t nn_rms_launch_forward(const tn_frame *call, nn_rms_view v,
                                     const nn_rms_arrays &a,
                                     cudaStream_t stream) {
  nn_check_row_packs(&v.rows, a.at[OUT]);
  nn_check_row_packs(&v.rows, a.at[DATA]);
  nn_check_row_packs(&v.rows, a.at[GAMMA]);
  return nn_launch_rows(
      call, nn_rms_scale_lines<T>,
      [](auto shape) { return nn_rms_scale_rows<T, decltype(shape)>; }, stream,
      a, v);
}

/* Launches the kernel that writes the gradient of data. */
template <class T>
static int32_t nn_rms_launch_data_gradient(const tn_frame *call, nn_rms_view v,
                                           const nn_rms_arrays &a,
                                           cudaStream_t stream) {
  nn_check_row_packs(&v.rows, a.at[OUT]);
  nn_check_row_packs(&v.rows, a.at[HEAD]);
  nn_check_row_packs(&v.rows, a.at[DATA]);
  nn_check_row_packs(&v.rows, a.at[GAMMA]);
  return nn_launch_rows(
      call, nn_rms_write_line_gradients<T>,
      [](auto shape) { return nn_rms_write_row_gradients<T, decltype(shape)>; },
      stream, a, v);
}

int32_t nn_rms_norm_cuda(const tn_frame *call) {
  const nn_rms_view v = nn_rms_make_view(call);
  nn_rms_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_RMS_NORM_OUT_OUT],
                         call->req[NN_RMS_NORM_OUT_OUT]);
  a.at[RSTD] = tn_cuda_to(&call->out[NN_RMS_NORM_OUT_RSTD],
                          call->req[NN_RMS_NORM_OUT_RSTD]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_RMS_NORM_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_RMS_NORM_IN_GAMMA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return nn_rms_launch_forward<decltype(type)>(call, v, a, stream);
    });
  });
}

/* Computes rstd again in f32, because the saved one is rounded. */
template <class T>
static int32_t nn_rms_recompute(const tn_frame *call, const nn_rms_view &v,
                                nn_rms_arrays *a, cudaStream_t stream) {
  nn_rms_arrays own = {};
  own.at[DATA] = a->at[DATA];
  own.at[RSTD] =
      tn_cuda_room((char *)call->ws[0] + nn_count_sum_bytes(v.places), TN_F32,
                   nn_rms_count_lines(v));
  a->at[RSTD] = own.at[RSTD];
  return nn_rms_launch_forward<T>(call, v, own, stream);
}

/* Launches the kernels of a backward call. */
template <class T>
static int32_t nn_rms_launch_backward(const tn_frame *call,
                                      const nn_rms_view &v, nn_rms_arrays a,
                                      cudaStream_t stream) {
  tn_cuda_arrays<NN_SUMS_ARRAYS> sums = {};
  int32_t code = TN_OK;
  sums.at[NN_SUMS_FIRST] = tn_cuda_to(&call->out[NN_RMS_NORM_IN_GAMMA],
                                      call->req[NN_RMS_NORM_IN_GAMMA]);
  if (a.at[DATA].data != NULL && v.lines.length > 0 &&
      a.at[DATA].dtype != TN_F32 && a.at[DATA].dtype != TN_F64)
    code = nn_rms_recompute<T>(call, v, &a, stream);
  if (code == TN_OK && a.at[OUT].data != NULL)
    code = nn_rms_launch_data_gradient<T>(call, v, a, stream);
  if (code != TN_OK || sums.at[NN_SUMS_FIRST].data == NULL) return code;
  a.at[SUMS] = sums.at[NN_SUMS] = nn_make_sums_array(call->ws[0], v.places);
  code = tn_cuda_start(call, nn_rms_sum_gamma_gradients<T>,
                       nn_count_channel_blocks(v.places), stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_write_channel_sums<T>, v.places.length,
                            stream, sums, v.places);
}

int32_t nn_rms_norm_cuda_backward(const tn_frame *call) {
  const nn_rms_view v = nn_rms_make_view(call);
  nn_rms_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_RMS_NORM_IN_DATA],
                         call->req[NN_RMS_NORM_IN_DATA]);
  a.at[HEAD] = tn_cuda_from(nn_rms_find_data(call));
  a.at[DATA] = tn_cuda_from(&call->in[NN_RMS_NORM_BACKWARD_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_RMS_NORM_BACKWARD_IN_GAMMA]);
  a.at[RSTD] = tn_cuda_from(&call->in[NN_RMS_NORM_BACKWARD_OUT_RSTD]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(nn_rms_find_data(call)->dtype, [&](auto type) {
      return nn_rms_launch_backward<decltype(type)>(call, v, a, stream);
    });
  });
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_rms_norm_grad_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_rms_norm_cuda_bytes(&own, bytes);
}

int32_t nn_rms_norm_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_rms_norm_cuda_backward(&own);
}
