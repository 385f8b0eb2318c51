/* SPDX-License-Identifier: Apache-2.0
 * layer_norm.cu: layer_norm.yaml on CUDA devices. Each line is processed by a
 * part of a block. The gradients of gamma and beta are sums of channels: the
 * positions in lines.
 */
#include "layer_norm.gen.h"

#include "channels.cuh"
#include "rows.cuh"

/* Indices of the arrays that CUDA kernels get. Backward, OUT is the gradient of
 * data. Operands that are absent or not requested have no data. MEAN and RSTD
 * may have another type than the others. */
enum { OUT, DATA, GAMMA, BETA, MEAN, RSTD, HEAD, SUMS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_layer_arrays;

struct nn_layer_view {
  nn_lines lines;
  nn_rows rows; /* the lines as rows in registers, if their elements are
                   contiguous */
  nn_channels places;
  double eps;
};

/* Returns gamma of position k in a line; 1 if gamma is absent. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_layer_read_gamma(
    const nn_layer_arrays &a, int64_t k) {
  return a.at[GAMMA].data != NULL ? nn_load_element<T>(a.at[GAMMA], k) : 1;
}

/* Loads the mean or rstd of line i in the type of the computation. */
template <class C>
__device__ __forceinline__ C nn_layer_load_moment(const tn_cuda_array &from,
                                                  int64_t i) {
  return ((const C *)from.data)[i];
}

/* The mean and 1/sqrt(var + eps) of a line; both are 0 for a line without
 * elements. */
template <class C>
struct nn_moments {
  C mean;
  C rstd;
};

/* Computes the mean and rstd of a thread's line. */
template <class T>
__device__ __forceinline__ nn_moments<nn_compute_type<T>> nn_layer_measure_line(
    const nn_layer_arrays &a, const nn_layer_view &v, const nn_line &line) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  const int64_t inner = v.lines.inner;
  const double n = v.lines.length > 0 ? (double)v.lines.length : 1;
  C sum = 0, spread = 0;
  for (int64_t k = line.first; k < line.end; k += line.step)
    sum += nn_load_element<T>(a.at[DATA], line.at + k * inner);
  const C mean =
      (C)(tn_cuda_reduce(part, (double)sum, tn_cuda_plus(), v.lines.lanes) / n);
  for (int64_t k = line.first; k < line.end; k += line.step) {
    const C d = nn_load_element<T>(a.at[DATA], line.at + k * inner) - mean;
    spread += d * d;
  }
  const double var =
      tn_cuda_reduce(part, (double)spread, tn_cuda_plus(), v.lines.lanes) / n;
  const nn_moments<C> m = {mean, (C)rsqrt(var + v.eps)};
  return m;
}

/* Writes OUT, MEAN and RSTD of lines with elements that are not contiguous. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_layer_normalize_lines(nn_layer_arrays a, nn_layer_view v) {
  typedef nn_compute_type<T> C;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    const nn_moments<C> m = nn_layer_measure_line<T>(a, v, line);
    if (line.leads) {
      nn_store_moment<T>(a.at[MEAN], line.number, m.mean);
      nn_store_moment<T>(a.at[RSTD], line.number, m.rstd);
    }
    if (a.at[OUT].data == NULL) continue;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * v.lines.inner;
      const C d = nn_load_element<T>(a.at[DATA], i) - m.mean;
      nn_store_element<T>(a.at[OUT], i,
                          d * m.rstd * nn_load_element<T>(a.at[GAMMA], k) +
                              nn_load_element<T>(a.at[BETA], k));
    }
  }
}

/* Computes x * rstd * gamma + beta for a thread's part of a row; the mean was
 * already subtracted from x. */
template <class T, class S>
__device__ __forceinline__ void nn_layer_scale_row(
    const nn_layer_arrays &a, const nn_row &row, nn_compute_type<T> rstd,
    nn_pack<nn_compute_type<T>, S::size> (&x)[S::packs]) {
  typedef nn_pack<nn_compute_type<T>, S::size> pack;
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const unsigned k = nn_find_pack_index<S>(row, u);
    if (k >= row.end) continue;
    const pack gamma = nn_load_pack<T, S::size>(a.at[GAMMA], k);
    const pack beta = nn_load_pack<T, S::size>(a.at[BETA], k);
#pragma unroll
    for (int e = 0; e < S::size; ++e)
      x[u].x[e] = x[u].x[e] * rstd * gamma.x[e] + beta.x[e];
  }
}

/* Writes OUT, MEAN and RSTD of rows, which are kept in registers. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_layer_normalize_rows(nn_layer_arrays a, nn_layer_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  const double n = (double)v.rows.length;
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> x[S::packs];
    C sum = 0, spread = 0;
    nn_load_row<T, S>(a.at[DATA], row, (C)0, x);
    nn_visit_row<S>(row, x, [&](C &e, bool) { sum += e; });
    const C mean =
        (C)(nn_reduce_row<S>(part, (double)sum, tn_cuda_plus(), row) / n);
    nn_visit_row<S>(row, x, [&](C &e, bool has) {
      e -= mean;
      spread += has ? e * e : (C)0;
    });
    const double var =
        nn_reduce_row<S>(part, (double)spread, tn_cuda_plus(), row) / n;
    const C rstd = (C)rsqrt(var + v.eps);
    if (row.leads) {
      nn_store_moment<T>(a.at[MEAN], row.number, mean);
      nn_store_moment<T>(a.at[RSTD], row.number, rstd);
    }
    if (a.at[OUT].data == NULL) continue;
    nn_layer_scale_row<T, S>(a, row, rstd, x);
    nn_store_row<T, S>(a.at[OUT], row, x);
  }
}

/* Writes the gradient of data, line by line. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_layer_write_line_gradients(nn_layer_arrays a, nn_layer_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const int64_t inner = v.lines.inner;
  const C n = (C)v.lines.length;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C mean = 0, rstd = 0, sum = 0, moment = 0;
    if (line.end > 0) mean = nn_layer_load_moment<C>(a.at[MEAN], line.number);
    if (line.end > 0) rstd = nn_layer_load_moment<C>(a.at[RSTD], line.number);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C out_gradient =
          nn_load_element<T>(a.at[HEAD], i) * nn_layer_read_gamma<T>(a, k);
      sum += out_gradient;
      moment += out_gradient * (nn_load_element<T>(a.at[DATA], i) - mean);
    }
    const C shift =
        tn_cuda_reduce(part, sum, tn_cuda_plus(), v.lines.lanes) / n;
    const C slope =
        tn_cuda_reduce(part, moment, tn_cuda_plus(), v.lines.lanes) / n * rstd *
        rstd;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t i = line.at + k * inner;
      const C out_gradient =
          nn_load_element<T>(a.at[HEAD], i) * nn_layer_read_gamma<T>(a, k);
      const C d = nn_load_element<T>(a.at[DATA], i) - mean;
      nn_store_element<T>(a.at[OUT], i,
                          (out_gradient - shift - d * slope) * rstd);
    }
  }
}

/* Multiplies a thread's part of a row by gamma, unless gamma is absent. */
template <class T, class S>
__device__ __forceinline__ void nn_layer_multiply_gamma(
    const nn_layer_arrays &a, const nn_row &row,
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

/* Writes the gradient of data, row by row; rows are kept in registers. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_layer_write_row_gradients(nn_layer_arrays a, nn_layer_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const C n = (C)v.rows.length;
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> out_gradient[S::packs], x[S::packs];
    C mean = 0, rstd = 0, sum = 0, moment = 0;
    nn_load_row<T, S>(a.at[HEAD], row, (C)0, out_gradient);
    nn_load_row<T, S>(a.at[DATA], row, (C)0, x);
    if (row.end > 0) mean = nn_layer_load_moment<C>(a.at[MEAN], row.number);
    if (row.end > 0) rstd = nn_layer_load_moment<C>(a.at[RSTD], row.number);
    nn_layer_multiply_gamma<T, S>(a, row, out_gradient);
    nn_visit_two_rows<S>(out_gradient, x, [&](C &h, C &e) {
      e -= mean;
      sum += h;
      moment += h * e;
    });
    const C shift = nn_reduce_row<S>(part, sum, tn_cuda_plus(), row) / n;
    const C slope =
        nn_reduce_row<S>(part, moment, tn_cuda_plus(), row) / n * rstd * rstd;
    nn_visit_two_rows<S>(out_gradient, x, [&](C &h, C &e) {
      h = (h - shift - e * slope) * rstd;
    });
    nn_store_row<T, S>(a.at[OUT], row, out_gradient);
  }
}

/* An output gradient, and the normalised element (x - mean) * rstd. */
template <class C>
struct nn_layer_operands {
  C out_gradient;
  C normal;
};

/* Stores the sums of pieces for the gradients of gamma and beta. Without DATA
 * the gradient of gamma is not requested. MEAN and RSTD have the type of the
 * computation. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_layer_sum_weight_gradients(nn_layer_arrays a, nn_layer_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_sum_pair folded[TN_CUDA_THREADS];
  const nn_channels &p = v.places;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(p); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(p, b);
    const bool has_data = a.at[DATA].data != NULL;
    const C *means = (const C *)a.at[MEAN].data;
    const C *rstds = (const C *)a.at[RSTD].data;
    C by_gamma = 0, by_beta = 0;
    nn_visit_piece_part(
        p, part,
        [&](int64_t i) {
          const int64_t j = nn_find_channel_index(p, part.channel, i);
          nn_layer_operands<C> term = {nn_load_element<T>(a.at[HEAD], i), 0};
          if (has_data)
            term.normal =
                (nn_load_element<T>(a.at[DATA], i) - means[j]) * rstds[j];
          return term;
        },
        [&](int64_t, const nn_layer_operands<C> &term) {
          by_beta += term.out_gradient;
          by_gamma += term.out_gradient * term.normal;
        });
    const nn_sum_pair both = {(double)by_gamma, (double)by_beta};
    nn_store_piece_sums(
        a.at[SUMS], p, part,
        tn_cuda_reduce(folded, both, nn_add_sum_pairs(), p.lanes));
  }
}

/* -------------------------------------------------------------------- host */

/* Returns a tensor with the shape of data, in a forward or backward call. */
static const tn_tensor *nn_layer_find_data(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD)
             ? &call->in[NN_LAYER_NORM_BACKWARD_GRAD_OUT]
             : &call->in[NN_LAYER_NORM_IN_DATA];
}

/* Returns the geometry and parameters of a call, for its CUDA kernels. */
static nn_layer_view nn_layer_make_view(const tn_frame *call) {
  const nn_layer_norm_params *p = nn_layer_norm_params_of(call);
  const tn_tensor *data = nn_layer_find_data(call);
  const int32_t dim = (int32_t)(p->axis < 0 ? p->axis + data->ndim : p->axis);
  nn_layer_view v;
  v.lines = nn_find_lines(data, dim, dim);
  v.rows = nn_choose_rows(v.lines);
  v.places =
      nn_choose_channel_pieces(v.lines.outer, v.lines.length, v.lines.inner);
  v.eps = p->eps;
  return v;
}

/* Returns the number of lines of the data along the axis. */
static int64_t nn_layer_count_lines(const nn_layer_view &v) {
  return v.lines.outer * v.lines.inner;
}

/* Sets *bytes to the size of the workspace of a backward call: SUMS, followed
 * by mean and rstd of lines in f32, which f16 and bf16 need. */
int32_t nn_layer_norm_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_layer_view v = nn_layer_make_view(call);
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD)
    *bytes = nn_count_sum_bytes(v.places) +
             2 * (uint64_t)nn_layer_count_lines(v) * sizeof(float);
  return TN_OK;
}

/* Launches the kernels of a forward call. */
template <class T>
static int32_t nn_layer_launch_forward(const tn_frame *call, nn_layer_view v,
                                       const nn_layer_arrays &a,
                                       cudaStream_t stream) {
  nn_check_row_packs(&v.rows, a.at[OUT]);
  nn_check_row_packs(&v.rows, a.at[DATA]);
  nn_check_row_packs(&v.rows, a.at[GAMMA]);
  nn_check_row_packs(&v.rows, a.at[BETA]);
  return nn_launch_rows(
      call, nn_layer_normalize_lines<T>,
      [](auto shape) { return nn_layer_normalize_rows<T, decltype(shape)>; },
      stream, a, v);
}

/* Launches the kernel that writes the gradient of data. */
template <class T>
static int32_t nn_layer_launch_data_gradient(const tn_frame *call,
                                             nn_layer_view v,
                                             const nn_layer_arrays &a,
                                             cudaStream_t stream) {
  nn_check_row_packs(&v.rows, a.at[OUT]);
  nn_check_row_packs(&v.rows, a.at[HEAD]);
  nn_check_row_packs(&v.rows, a.at[DATA]);
  nn_check_row_packs(&v.rows, a.at[GAMMA]);
  return nn_launch_rows(
      call, nn_layer_write_line_gradients<T>,
      [](auto shape) {
        return nn_layer_write_row_gradients<T, decltype(shape)>;
      },
      stream, a, v);
}

int32_t nn_layer_norm_cuda(const tn_frame *call) {
  const nn_layer_view v = nn_layer_make_view(call);
  nn_layer_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_LAYER_NORM_OUT_OUT],
                         call->req[NN_LAYER_NORM_OUT_OUT]);
  a.at[MEAN] = tn_cuda_to(&call->out[NN_LAYER_NORM_OUT_MEAN],
                          call->req[NN_LAYER_NORM_OUT_MEAN]);
  a.at[RSTD] = tn_cuda_to(&call->out[NN_LAYER_NORM_OUT_RSTD],
                          call->req[NN_LAYER_NORM_OUT_RSTD]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_LAYER_NORM_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_LAYER_NORM_IN_GAMMA]);
  a.at[BETA] = tn_cuda_from(&call->in[NN_LAYER_NORM_IN_BETA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return nn_layer_launch_forward<decltype(type)>(call, v, a, stream);
    });
  });
}

/* Computes mean and rstd again in f32, because the saved ones are rounded. */
template <class T>
static int32_t nn_layer_recompute_moments(const tn_frame *call,
                                          const nn_layer_view &v,
                                          nn_layer_arrays *a,
                                          cudaStream_t stream) {
  const int64_t n = nn_layer_count_lines(v);
  char *memory = (char *)call->ws[0] + nn_count_sum_bytes(v.places);
  nn_layer_arrays own = {};
  own.at[DATA] = a->at[DATA];
  own.at[MEAN] = tn_cuda_room(memory, TN_F32, n);
  own.at[RSTD] = tn_cuda_room(memory + n * (int64_t)sizeof(float), TN_F32, n);
  a->at[MEAN] = own.at[MEAN];
  a->at[RSTD] = own.at[RSTD];
  return nn_layer_launch_forward<T>(call, v, own, stream);
}

/* Launches the kernels that write the gradients of gamma and beta. */
template <class T>
static int32_t nn_layer_launch_weight_gradients(
    const tn_frame *call, const nn_layer_view &v, nn_layer_arrays a,
    tn_cuda_arrays<NN_SUMS_ARRAYS> sums, cudaStream_t stream) {
  a.at[SUMS] = sums.at[NN_SUMS] = nn_make_sums_array(call->ws[0], v.places);
  const int32_t code =
      tn_cuda_start(call, nn_layer_sum_weight_gradients<T>,
                    nn_count_channel_blocks(v.places), stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_write_channel_sums<T>, v.places.length,
                            stream, sums, v.places);
}

/* Launches the kernels of a backward call. The gradient of data is the last
 * one: it may be in the memory of data or of the output gradient. */
template <class T>
static int32_t nn_layer_launch_backward(const tn_frame *call,
                                        const nn_layer_view &v,
                                        nn_layer_arrays a,
                                        cudaStream_t stream) {
  tn_cuda_arrays<NN_SUMS_ARRAYS> sums = {};
  int32_t code = TN_OK;
  for (int k = 0; k < 2; ++k)
    sums.at[NN_SUMS_FIRST + k] =
        tn_cuda_to(&call->out[NN_LAYER_NORM_IN_GAMMA + k],
                   call->req[NN_LAYER_NORM_IN_GAMMA + k]);
  if (a.at[DATA].data != NULL && a.at[DATA].dtype != TN_F32 &&
      a.at[DATA].dtype != TN_F64)
    code = nn_layer_recompute_moments<T>(call, v, &a, stream);
  if (code == TN_OK && (sums.at[NN_SUMS_FIRST].data != NULL ||
                        sums.at[NN_SUMS_SECOND].data != NULL))
    code = nn_layer_launch_weight_gradients<T>(call, v, a, sums, stream);
  if (code != TN_OK || a.at[OUT].data == NULL) return code;
  return nn_layer_launch_data_gradient<T>(call, v, a, stream);
}

int32_t nn_layer_norm_cuda_backward(const tn_frame *call) {
  const nn_layer_view v = nn_layer_make_view(call);
  nn_layer_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_LAYER_NORM_IN_DATA],
                         call->req[NN_LAYER_NORM_IN_DATA]);
  a.at[HEAD] = tn_cuda_from(nn_layer_find_data(call));
  a.at[DATA] = tn_cuda_from(&call->in[NN_LAYER_NORM_BACKWARD_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_LAYER_NORM_BACKWARD_IN_GAMMA]);
  a.at[MEAN] = tn_cuda_from(&call->in[NN_LAYER_NORM_BACKWARD_OUT_MEAN]);
  a.at[RSTD] = tn_cuda_from(&call->in[NN_LAYER_NORM_BACKWARD_OUT_RSTD]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(nn_layer_find_data(call)->dtype, [&](auto type) {
      return nn_layer_launch_backward<decltype(type)>(call, v, a, stream);
    });
  });
}
