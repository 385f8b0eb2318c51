/* SPDX-License-Identifier: Apache-2.0
 * pooling.cu: pooling.yaml on CUDA devices. Forward, a thread computes a
 * window; if the window is the image, a part of a block does. Backward, a
 * thread computes an element and reads all windows that contain it, unless
 * there is only one window. For the largest, a first launch finds the largest
 * element of each window.
 *
 * Arithmetic on indices is most of the work. Indices have 32 bits if possible,
 * and images without depth have no index for it.
 */
#include "pooling.cuh"
#include "second.gen.h"

/* ----------------------------------------------------------------- forward */

template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_compute_windows(nn_pool_arrays a, nn_pool_view v) {
  typedef typename S::index I;
  typedef nn_compute_type<T> C;
  for (int64_t i = nn_first_index(); i < v.images * v.by_out_size.by;
       i += nn_index_step()) {
    const nn_pool_located_window<I> o = nn_pool_locate_window<S>(v, (I)i);
    C all = nn_pool_get_identity<C>(v);
    nn_pool_visit_elements<S>(v, nn_pool_find_elements<S>(v, o.at), [&](I at) {
      all = nn_pool_combine_values(
          v, all, nn_load_element<T>(a.at[DATA], o.first + at));
      return true;
    });
    if (v.kind == NN_POOL_AVG) all /= (C)nn_pool_count_elements<S>(v, o.at);
    nn_store_element<T>(a.at[TO], i, all);
  }
}

struct nn_pool_combiner {
  nn_pool_view v;
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return nn_pool_combine_values(v, a, b);
  }
};

/* Arguments of the kernels for a single window, which contains the whole image.
 * The image is a line, and a row if it is not too long. */
struct nn_pool_whole_view {
  nn_pool_view pool;
  nn_lines lines;
  nn_rows rows;
};

/* Reduces images that are lines; each is a single window. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_reduce_lines(nn_pool_arrays a, nn_pool_whole_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const nn_pool_combiner join = {v.pool};
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C all = nn_pool_get_identity<C>(v.pool);
    for (int64_t k = line.first; k < line.end; k += line.step)
      all = join(all, nn_load_element<T>(a.at[DATA], line.at + k));
    all = tn_cuda_reduce(part, all, join, v.lines.lanes);
    if (v.pool.kind == NN_POOL_AVG) all /= (C)v.lines.length;
    if (line.leads) nn_store_element<T>(a.at[TO], line.number, all);
  }
}

/* Reduces images that are rows; each is a single window. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_reduce_rows(nn_pool_arrays a, nn_pool_whole_view v) {
  typedef nn_compute_type<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const nn_pool_combiner join = {v.pool};
  for (int64_t g = blockIdx.x; g < nn_count_row_blocks(v.rows);
       g += gridDim.x) {
    const nn_row row = nn_locate_row<S>(v.rows, g);
    nn_pack<C, S::size> x[S::packs];
    C all = nn_pool_get_identity<C>(v.pool);
    nn_load_row<T, S>(a.at[DATA], row, all, x);
    nn_visit_row<S>(row, x, [&](C &e, bool) { all = join(all, e); });
    all = nn_reduce_row<S>(part, all, join, row);
    if (v.pool.kind == NN_POOL_AVG) all /= (C)v.rows.length;
    if (row.leads) nn_store_element<T>(a.at[TO], row.number, all);
  }
}

/* ---------------------------------------------------------------- backward */

/* Writes to CHOSEN the position of the first largest element of each window; -1
 * for a window without elements. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_find_largest(nn_pool_arrays a, nn_pool_view v) {
  typedef typename S::index I;
  typedef nn_compute_type<T> C;
  for (int64_t i = nn_first_index(); i < v.images * v.by_out_size.by;
       i += nn_index_step()) {
    const nn_pool_located_window<I> o = nn_pool_locate_window<S>(v, (I)i);
    C largest = 0;
    I chosen = -1;
    nn_pool_visit_elements<S>(v, nn_pool_find_elements<S>(v, o.at), [&](I at) {
      const C value = nn_load_element<T>(a.at[DATA], o.first + at);
      if (chosen < 0 || value > largest || value != value) {
        largest = value;
        chosen = at;
      }
      return value == value;
    });
    ((I *)a.at[CHOSEN].data)[i] = chosen;
  }
}

/* Computes windows of HEAD. For the largest, the result is the element of HEAD
 * at the position of the largest element of DATA. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_read_at_largest(nn_pool_arrays a, nn_pool_view v) {
  typedef typename S::index I;
  typedef nn_compute_type<T> C;
  for (int64_t i = nn_first_index(); i < v.images * v.by_out_size.by;
       i += nn_index_step()) {
    const nn_pool_located_window<I> o = nn_pool_locate_window<S>(v, (I)i);
    C largest = 0, all = 0;
    bool is_first = true;
    nn_pool_visit_elements<S>(v, nn_pool_find_elements<S>(v, o.at), [&](I at) {
      const C from = nn_load_element<T>(a.at[HEAD], o.first + at);
      if (v.kind != NN_POOL_MAX) {
        all += from;
        return true;
      }
      const C value = nn_load_element<T>(a.at[DATA], o.first + at);
      if (is_first || value > largest || value != value) {
        largest = value;
        all = from;
      }
      is_first = false;
      return value == value;
    });
    if (v.kind == NN_POOL_AVG) all /= (C)nn_pool_count_elements<S>(v, o.at);
    nn_store_element<T>(a.at[TO], i, all);
  }
}

/* Returns the gradient that one window contributes to the element at `place`.
 * `o` has the window's indices in its image, i its number among the windows of
 * all images. All loads are independent. */
template <class T, class S>
__device__ __forceinline__ nn_compute_type<T> nn_pool_read_window_gradient(
    const nn_pool_arrays &a, const nn_pool_view &v,
    const nn_pool_index<typename S::index> &o, int64_t i,
    typename S::index place) {
  typedef typename S::index I;
  typedef nn_compute_type<T> C;
  const C out_gradient = nn_load_element<T>(a.at[HEAD], i);
  if (v.kind == NN_POOL_MAX)
    return ((const I *)a.at[CHOSEN].data)[i] == place ? out_gradient : (C)0;
  if (v.kind != NN_POOL_AVG) return out_gradient;
  return out_gradient / (C)nn_pool_count_elements<S>(v, o);
}

/* Returns the range of windows that contain an element. */
template <class S>
__device__ __forceinline__ nn_pool_range<typename S::index>
nn_pool_find_windows(const nn_pool_view &v,
                     const nn_pool_index<typename S::index> &at) {
  typedef typename S::index I;
  nn_pool_range<I> w = {{0, 0, 0}, {1, 1, 1}};
#pragma unroll
  for (int d = S::first; d < NN_WINDOW_RANK; ++d) {
    const I reach = at.d[d] + (I)v.window.pad[d];
    const I before =
        reach - (I)v.window.dilate[d] * (I)(v.window.kernel[d] - 1) - 1;
    const I last = (I)tn_cuda_quotient(reach, v.by_stride[d]);
    const I n = (I)v.window.out[d];
    w.begin[d] =
        before < 0 ? 0 : (I)tn_cuda_quotient(before, v.by_stride[d]) + 1;
    w.end[d] = last < n ? last + 1 : n;
  }
  return w;
}

/* Whether an element of the image is in a window that reaches over it. */
template <class S>
__device__ __forceinline__ bool nn_pool_is_in_window(
    const nn_pool_view &v, const nn_pool_index<typename S::index> &at,
    const nn_pool_index<typename S::index> &o) {
  typedef typename S::index I;
  for (int d = S::first; d < NN_WINDOW_RANK && v.is_dilated; ++d) {
    const I from =
        at.d[d] + (I)v.window.pad[d] - o.d[d] * (I)v.window.stride[d];
    if (from % (I)v.window.dilate[d] != 0) return false;
  }
  return true;
}

/* Returns the gradient of the element at `place`: the sum over all windows that
 * contain it. The windows of its image begin at number `first`. */
template <class T, class S>
__device__ __forceinline__ nn_compute_type<T> nn_pool_sum_gradients(
    const nn_pool_arrays &a, const nn_pool_view &v, int64_t first,
    typename S::index place) {
  typedef typename S::index I;
  const nn_pool_index<I> at = nn_pool_split_index<S>(v.by_in, place);
  const nn_pool_range<I> w = nn_pool_find_windows<S>(v, at);
  nn_pool_index<I> o;
  nn_compute_type<T> sum = 0;
  for (o.d[0] = w.begin[0]; o.d[0] < w.end[0]; ++o.d[0])
    for (o.d[1] = w.begin[1]; o.d[1] < w.end[1]; ++o.d[1])
      for (o.d[2] = w.begin[2]; o.d[2] < w.end[2]; ++o.d[2])
        if (nn_pool_is_in_window<S>(v, at, o))
          sum += nn_pool_read_window_gradient<T, S>(
              a, v, o, first + nn_pool_join_index<S>(v.by_out, o), place);
  return sum;
}

/* Returns the same sum as nn_pool_sum_gradients. An element must be in at most
 * two windows along each dimension, so that all are read at once. */
template <class T, class S>
__device__ __forceinline__ nn_compute_type<T> nn_pool_sum_few_gradients(
    const nn_pool_arrays &a, const nn_pool_view &v, int64_t first,
    typename S::index place) {
  typedef typename S::index I;
  const nn_pool_range<I> w =
      nn_pool_find_windows<S>(v, nn_pool_split_index<S>(v.by_in, place));
  nn_compute_type<T> sum = 0;
#pragma unroll
  for (int k = 0; k < (S::first == 0 ? 8 : 4); ++k) {
    const nn_pool_index<I> o = {{w.begin[0] + (k >> 2),
                                 w.begin[1] + (k >> 1 & 1),
                                 w.begin[2] + (k & 1)}};
    if (o.d[0] < w.end[0] && o.d[1] < w.end[1] && o.d[2] < w.end[2])
      sum += nn_pool_read_window_gradient<T, S>(
          a, v, o, first + nn_pool_join_index<S>(v.by_out, o), place);
  }
  return sum;
}

/* Writes the gradient of data. */
template <class T, class S>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_write_gradients(nn_pool_arrays a, nn_pool_view v) {
  typedef typename S::index I;
  const int64_t size = v.by_in_size.by;
  tn_cuda_each<2>(
      v.images * size,
      [&](int64_t i) {
        const I image = (I)tn_cuda_quotient((I)i, v.by_in_size);
        const I place = (I)i - image * (I)size;
        const int64_t first = (int64_t)image * v.by_out_size.by;
        return v.are_pairs ? nn_pool_sum_few_gradients<T, S>(a, v, first, place)
                           : nn_pool_sum_gradients<T, S>(a, v, first, place);
      },
      [&](int64_t i, nn_compute_type<T> sum) {
        nn_store_element<T>(a.at[TO], i, sum);
      });
}

/* Writes the gradient of sums and means for a single window, which contains the
 * whole image: all elements get the same value. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_write_equal_gradients(nn_pool_arrays a, nn_pool_view v) {
  typedef nn_compute_type<T> C;
  const int64_t size = v.by_in_size.by;
  const C share = v.kind == NN_POOL_AVG ? (C)size : (C)1;
  tn_cuda_each(
      v.images * size,
      [&](int64_t i) {
        return nn_load_element<T>(a.at[HEAD],
                                  tn_cuda_quotient(i, v.by_in_size));
      },
      [&](int64_t i, C out_gradient) {
        nn_store_element<T>(a.at[TO], i, out_gradient / share);
      });
}

/* Writes the gradient of the largest for a single window, which contains the
 * whole image. The threads of a line find the first largest element together.
 */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_write_largest_gradients(nn_pool_arrays a, nn_pool_whole_view v) {
  typedef nn_compute_type<T> C;
  __shared__ int64_t part[TN_CUDA_THREADS];
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    const bool inside = line.end > 0;
    const C out_gradient =
        inside ? nn_load_element<T>(a.at[HEAD], line.number) : (C)0;
    const C largest =
        inside ? nn_load_element<T>(a.at[OUT], line.number) : (C)0;
    int64_t chosen = v.lines.length;
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const C value = nn_load_element<T>(a.at[DATA], line.at + k);
      if (value != largest && value == value) continue;
      chosen = k;
      break;
    }
    chosen = tn_cuda_reduce(part, chosen, tn_cuda_least(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step)
      nn_store_element<T>(a.at[TO], line.at + k,
                          k == chosen ? out_gradient : (C)0);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry and parameters of a call, for its CUDA kernels. */
static nn_pool_view nn_pool_make_view(const tn_frame *call) {
  const nn_pool pool = nn_pool_make(call);
  nn_pool_view v = {};
  v.window = pool.window;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    v.limit[d] = pool.limit[d];
    v.by_in[d] = tn_cuda_divisor_of(pool.window.in[d]);
    v.by_out[d] = tn_cuda_divisor_of(pool.window.out[d]);
    v.by_stride[d] = tn_cuda_divisor_of(pool.window.stride[d]);
  }
  v.by_in_size = tn_cuda_divisor_of(pool.in_size);
  v.by_out_size = tn_cuda_divisor_of(pool.out_size);
  v.images = nn_pool_count_images(call);
  v.kind = pool.kind;
  v.counts_padding = pool.counts_padding;
  v.is_dilated = nn_pool_is_dilated(&pool);
  v.are_pairs = !v.is_dilated;
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    v.are_pairs &= v.window.kernel[d] <= 2 * v.window.stride[d];
  return v;
}

/* Whether 32 bits are enough for all indices, also in padding. */
static bool nn_pool_has_32_bit_indices(const nn_pool_view &v) {
  const int64_t most = 1 << 29;
  if (v.images * v.by_in_size.by > 2 * most ||
      v.images * v.by_out_size.by > 2 * most)
    return false;
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    if (v.window.kernel[d] > most || v.window.stride[d] > most ||
        v.window.pad[d] > most || v.window.out[d] * v.window.stride[d] > most ||
        v.window.dilate[d] > most / v.window.kernel[d])
      return false;
  return true;
}

/* Tests whether images and windows have at most two dimensions. */
static bool nn_pool_has_no_depth(const nn_pool_view &v) {
  const nn_window &w = v.window;
  return w.in[0] == 1 && w.out[0] == 1 && w.kernel[0] == 1 && w.pad[0] == 0;
}

/* Calls `run` with a value of the nn_pool_shape that fits a call. */
template <class Run>
static int32_t nn_pool_run_by_shape(const nn_pool_view &v, Run run) {
  if (!nn_pool_has_32_bit_indices(v)) return run(nn_pool_shape<int64_t, 0>());
  if (!nn_pool_has_no_depth(v)) return run(nn_pool_shape<int32_t, 0>());
  return run(nn_pool_shape<int32_t, 1>());
}

/* Launches the kernel for windows that contain a whole image. */
template <class T>
static int32_t nn_pool_launch_whole(const tn_frame *call, nn_pool_whole_view v,
                                    const nn_pool_arrays &a,
                                    cudaStream_t stream) {
  v.rows = nn_choose_rows(v.lines);
  nn_check_row_packs(&v.rows, a.at[DATA]);
  return nn_launch_rows(
      call, nn_pool_reduce_lines<T>,
      [](auto shape) { return nn_pool_reduce_rows<T, decltype(shape)>; },
      stream, a, v);
}

int32_t nn_pooling_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_POOLING_OUT_OUT];
  nn_pool_whole_view v = {nn_pool_make_view(call), {}, {}};
  nn_pool_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_POOLING_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_POOLING_IN_DATA]);
  v.lines = nn_choose_lines(v.pool.images, v.pool.by_in_size.by, 1);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      typedef decltype(type) T;
      if (nn_pool_has_one_window(&v.pool.window))
        return nn_pool_launch_whole<T>(call, v, a, stream);
      return nn_pool_run_by_shape(v.pool, [&](auto shape) {
        return tn_cuda_start_each(call,
                                  nn_pool_compute_windows<T, decltype(shape)>,
                                  tn_tensor_size(out), stream, a, v.pool);
      });
    });
  });
}

/* Bytes of workspace of a backward call: CHOSEN, one index for each window. */
int32_t nn_pooling_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_pool_view v = nn_pool_make_view(call);
  const int64_t n = v.images * v.by_out_size.by;
  *bytes = 0;
  if ((call->flags & TN_CALL_BACKWARD) && v.kind == NN_POOL_MAX &&
      !nn_pool_has_one_window(&v.window))
    *bytes = (uint64_t)n * (nn_pool_has_32_bit_indices(v) ? sizeof(int32_t)
                                                          : sizeof(int64_t));
  return TN_OK;
}

/* Launches the kernels that write the gradient of data. */
template <class T, class S>
static int32_t nn_pool_launch_gradients(const tn_frame *call,
                                        const nn_pool_view &v, nn_pool_arrays a,
                                        cudaStream_t stream) {
  const int64_t windows = v.images * v.by_out_size.by;
  const tn_dtype index = sizeof(typename S::index) == 4 ? TN_I32 : TN_I64;
  int32_t code = TN_OK;
  if (v.kind == NN_POOL_MAX) {
    a.at[CHOSEN] = tn_cuda_room(call->ws[0], index, windows);
    code = tn_cuda_start_each(call, nn_pool_find_largest<T, S>, windows, stream,
                              a, v);
    a.at[CHOSEN].writes = 0;
  }
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_pool_write_gradients<T, S>,
                            v.images * v.by_in_size.by, stream, a, v);
}

/* Launches the kernel that writes the gradient of data, for windows that
 * contain a whole image. */
template <class T>
static int32_t nn_pool_launch_whole_gradients(const tn_frame *call,
                                              const nn_pool_whole_view &v,
                                              const nn_pool_arrays &a,
                                              cudaStream_t stream) {
  if (v.pool.kind == NN_POOL_MAX)
    return tn_cuda_start(call, nn_pool_write_largest_gradients<T>,
                         nn_count_line_blocks(v.lines), stream, a, v);
  return tn_cuda_start_each(call, nn_pool_write_equal_gradients<T>,
                            v.pool.images * v.pool.by_in_size.by, stream, a,
                            v.pool);
}

int32_t nn_pooling_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_POOLING_IN_DATA];
  nn_pool_whole_view v = {nn_pool_make_view(call), {}, {}};
  nn_pool_arrays a = {};
  if (call->req[NN_POOLING_IN_DATA] == TN_REQ_NULL) return TN_OK;
  v.lines = nn_choose_lines(v.pool.images, v.pool.by_in_size.by, 1);
  a.at[TO] = tn_cuda_to(to, call->req[NN_POOLING_IN_DATA]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_POOLING_BACKWARD_IN_DATA]);
  a.at[OUT] = tn_cuda_from(&call->in[NN_POOLING_BACKWARD_OUT_OUT]);
  a.at[HEAD] = tn_cuda_from(&call->in[NN_POOLING_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      typedef decltype(type) T;
      if (nn_pool_has_one_window(&v.pool.window))
        return nn_pool_launch_whole_gradients<T>(call, v, a, stream);
      return nn_pool_run_by_shape(v.pool, [&](auto shape) {
        return nn_pool_launch_gradients<T, decltype(shape)>(call, v.pool, a,
                                                            stream);
      });
    });
  });
}

/* Computes windows of input 1 at the positions of the largest elements of
 * input 0. */
int32_t nn_pooling_at_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const nn_pool_view v = nn_pool_make_view(call);
  nn_pool_arrays a = {};
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(out) == 0) return TN_OK;
  a.at[TO] = tn_cuda_to(out, call->req[0]);
  a.at[DATA] = tn_cuda_from(&call->in[0]);
  a.at[HEAD] = tn_cuda_from(&call->in[1]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      typedef decltype(type) T;
      return nn_pool_run_by_shape(v, [&](auto shape) {
        return tn_cuda_start_each(call,
                                  nn_pool_read_at_largest<T, decltype(shape)>,
                                  tn_tensor_size(out), stream, a, v);
      });
    });
  });
}
