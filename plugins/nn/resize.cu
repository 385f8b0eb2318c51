/* SPDX-License-Identifier: Apache-2.0
 * resize.cu: resize.yaml on CUDA devices. For each resized axis a first kernel
 * writes the taps of all elements to the workspace; for a gradient, another
 * finds the range of elements that may read each element. Then a pass for each
 * axis computes one element with each thread.
 */
#include "nn.cuh"
#include "resize_view.h"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. TAPS has nn_resize_taps,
 * WEIGHTS as many f64 for each of them as an element has taps at most, RANGES
 * pairs of begin and end. */
enum { TO, FROM, TAPS, WEIGHTS, RANGES, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_resize_arrays;

/* A pass over (outer, n_from, inner) with a result of (outer, n_to, inner). */
struct nn_resize_extent {
  nn_resize_axis axis;
  int64_t outer;
  int64_t inner;
  int64_t n_from;
  int64_t n_to;
  int64_t most; /* weights of an element */
  double outside;
  tn_cuda_divisor by_inner;
  tn_cuda_divisor by_to;
  int rounds; /* results are whole numbers */
  int reserved;
};

/* Writes the taps of each element of an axis. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_resize_write_taps(nn_resize_arrays a, nn_resize_extent v) {
  nn_resize_taps *taps = (nn_resize_taps *)a.at[TAPS].data;
  double *weights = (double *)a.at[WEIGHTS].data;
  for (int64_t o = nn_first_index(); o < v.axis.n_out; o += nn_index_step())
    taps[o] = nn_resize_find_taps(&v.axis, o, weights + o * v.most);
}

/* Returns the number of elements of out before the first one whose position is
 * at least x; positions must not decrease, or not increase if is_falling. */
__device__ __forceinline__ int64_t nn_resize_search(const nn_resize_axis &axis,
                                                    double x, bool is_falling) {
  int64_t low = 0, high = axis.n_out;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const double at = nn_resize_find_position(&axis, middle);
    if (is_falling ? at > -x : at < x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Writes for each element of data the range of elements of out that may read
 * it. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_resize_write_ranges(nn_resize_arrays a, nn_resize_extent v) {
  int64_t *ranges = (int64_t *)a.at[RANGES].data;
  const nn_resize_axis &axis = v.axis;
  const double reach = nn_resize_find_support(&axis) + 1;
  const bool is_falling = nn_resize_find_position(&axis, axis.n_out - 1) <
                          nn_resize_find_position(&axis, 0);
  const double sign = is_falling ? -1 : 1;
  for (int64_t i = nn_first_index(); i < axis.n_in; i += nn_index_step()) {
    const bool is_low = i == 0, is_high = i == axis.n_in - 1;
    const bool has_begin = is_falling ? !is_high : !is_low;
    const bool has_end = is_falling ? !is_low : !is_high;
    const double at = sign * (double)i;
    ranges[2 * i] =
        has_begin ? nn_resize_search(axis, at - reach, is_falling) : 0;
    ranges[2 * i + 1] =
        has_end ? nn_resize_search(axis, at + reach, is_falling) : axis.n_out;
  }
}

/* Stores an element of the result of a pass. */
template <class C>
__device__ __forceinline__ void nn_resize_store(const nn_resize_arrays &a,
                                                const nn_resize_extent &v,
                                                int64_t i, C value) {
  tn_cuda_write(a.at[TO], i, v.rounds ? (C)rint((double)value) : value);
}

/* Computes the result of a forward pass. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_resize_add_taps(nn_resize_arrays a, nn_resize_extent v) {
  const nn_resize_taps *taps = (const nn_resize_taps *)a.at[TAPS].data;
  const double *weights = (const double *)a.at[WEIGHTS].data;
  const int64_t n = v.outer * v.n_to * v.inner;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t row = tn_cuda_quotient(i, v.by_inner);
    const int64_t outer = tn_cuda_quotient(row, v.by_to);
    const int64_t o = row - outer * v.n_to;
    const nn_resize_taps t = taps[o];
    const int64_t from =
        (outer * v.n_from + t.first) * v.inner + i - row * v.inner;
    C sum = t.n > 0 ? (C)0 : (C)v.outside;
    for (int64_t k = 0; k < t.n; ++k) {
      const C w = (C)weights[o * v.most + k];
      if (w != 0) sum += w * tn_cuda_read<C>(a.at[FROM], from + k * v.inner);
    }
    nn_resize_store(a, v, i, sum);
  }
}

/* Computes the result of a pass of the gradient. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_resize_add_readers(nn_resize_arrays a, nn_resize_extent v) {
  const nn_resize_taps *taps = (const nn_resize_taps *)a.at[TAPS].data;
  const double *weights = (const double *)a.at[WEIGHTS].data;
  const int64_t *ranges = (const int64_t *)a.at[RANGES].data;
  const int64_t n = v.outer * v.n_to * v.inner;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t row = tn_cuda_quotient(i, v.by_inner);
    const int64_t outer = tn_cuda_quotient(row, v.by_to);
    const int64_t own = row - outer * v.n_to;
    const int64_t from = outer * v.n_from * v.inner + i - row * v.inner;
    C sum = 0;
    for (int64_t o = ranges[2 * own]; o < ranges[2 * own + 1]; ++o) {
      const int64_t k = own - taps[o].first;
      if (k < 0 || k >= taps[o].n) continue;
      const C w = (C)weights[o * v.most + k];
      if (w != 0) sum += w * tn_cuda_read<C>(a.at[FROM], from + o * v.inner);
    }
    nn_resize_store(a, v, i, sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Memory of an axis in the workspace, in multiples of 8 bytes. */
static int64_t nn_resize_count_axis_words(const nn_resize_axis &axis) {
  return axis.n_out * (2 + nn_resize_count_taps(&axis)) + 2 * axis.n_in;
}

/* Returns the largest number of elements between passes. */
static int64_t nn_resize_count_most(const tn_frame *call,
                                    const nn_resize_view &v) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor &from = call->in[0];
  int64_t shape[TN_MAX_NDIM], most = 0;
  for (int32_t d = 0; d < from.ndim; ++d) shape[d] = from.shape[d];
  for (int32_t i = 0; i < v.n; ++i) {
    const int32_t k = is_back ? v.n - 1 - i : i;
    int64_t n = 1;
    shape[v.dim[k]] = is_back ? v.axis[k].n_in : v.axis[k].n_out;
    for (int32_t d = 0; d < from.ndim; ++d) n *= shape[d];
    most = n > most ? n : most;
  }
  return most;
}

/* Bytes of workspace: taps, weights and ranges of all axes, and two arrays. */
int32_t nn_resize_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_resize_view v = nn_resize_view_call(call);
  int64_t words = 2 * nn_resize_count_most(call, v);
  for (int32_t k = 0; k < v.n; ++k)
    words += nn_resize_count_axis_words(v.axis[k]);
  *bytes = (uint64_t)words * 8;
  return TN_OK;
}

/* Prepares the arrays of an axis at `room`, and launches the kernels that fill
 * them. */
static int32_t nn_resize_launch_tables(const tn_frame *call,
                                       const nn_resize_extent &v, void *room,
                                       nn_resize_arrays *a,
                                       cudaStream_t stream) {
  int64_t *at = (int64_t *)room;
  const int64_t weights = v.axis.n_out * v.most;
  a->at[TAPS] = tn_cuda_room(at, TN_I64, 2 * v.axis.n_out);
  a->at[WEIGHTS] = tn_cuda_room(at + 2 * v.axis.n_out, TN_F64, weights);
  int32_t code = tn_cuda_start_each(call, nn_resize_write_taps, v.axis.n_out,
                                    stream, *a, v);
  a->at[TAPS].writes = a->at[WEIGHTS].writes = 0;
  if (code != TN_OK || !(call->flags & TN_CALL_BACKWARD)) return code;
  nn_resize_arrays ranges = {};
  ranges.at[RANGES] =
      tn_cuda_room(at + 2 * v.axis.n_out + weights, TN_I64, 2 * v.axis.n_in);
  code = tn_cuda_start_each(call, nn_resize_write_ranges, v.axis.n_in, stream,
                            ranges, v);
  a->at[RANGES] = ranges.at[RANGES];
  a->at[RANGES].writes = 0;
  return code;
}

/* Returns the geometry of a pass over dimension dim of a tensor of `shape`. */
static nn_resize_extent nn_resize_make_extent(const tn_frame *call,
                                              const nn_resize_axis &axis,
                                              int32_t dim,
                                              const int64_t *shape) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_resize_extent v = {};
  v.axis = axis;
  v.n_from = is_back ? axis.n_out : axis.n_in;
  v.n_to = is_back ? axis.n_in : axis.n_out;
  v.most = nn_resize_count_taps(&axis);
  v.outer = v.inner = 1;
  for (int32_t d = 0; d < call->in[0].ndim; ++d) {
    if (d < dim) v.outer *= shape[d];
    if (d > dim) v.inner *= shape[d];
  }
  v.by_inner = tn_cuda_divisor_of(v.inner);
  v.by_to = tn_cuda_divisor_of(v.n_to);
  if (!is_back) v.outside = nn_resize_params_of(call)->extrapolation_value;
  return v;
}

/* Launches all passes, which compute in the type C. */
template <class C>
static int32_t nn_resize_launch(const tn_frame *call, cudaStream_t stream) {
  const nn_resize_view view = nn_resize_view_call(call);
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *out = &call->out[0];
  const int64_t most = nn_resize_count_most(call, view);
  const tn_dtype between = sizeof(C) == 8 ? TN_F64 : TN_F32;
  int64_t *room = (int64_t *)call->ws[0];
  int64_t shape[TN_MAX_NDIM];
  nn_resize_arrays a = {};
  int32_t code = TN_OK;
  for (int32_t d = 0; d < out->ndim; ++d) shape[d] = call->in[0].shape[d];
  a.at[TO] = tn_cuda_from(&call->in[0]);
  for (int32_t i = 0; i < view.n && code == TN_OK; ++i) {
    const int32_t k = is_back ? view.n - 1 - i : i;
    nn_resize_extent v =
        nn_resize_make_extent(call, view.axis[k], view.dim[k], shape);
    const int64_t n = v.outer * v.n_to * v.inner;
    nn_resize_arrays own = {};
    code = nn_resize_launch_tables(call, v, room + 2 * most, &own, stream);
    if (code != TN_OK) return code;
    own.at[FROM] = a.at[TO];
    own.at[FROM].writes = own.at[FROM].adds = 0;
    own.at[TO] =
        tn_cuda_room((int64_t *)call->ws[0] + i % 2 * most, between, n);
    if (i == view.n - 1) {
      own.at[TO] = tn_cuda_to(out, call->req[0]);
      v.rounds = out->dtype == TN_I8 || out->dtype == TN_U8;
    }
    code = tn_cuda_start_each(
        call, is_back ? nn_resize_add_readers<C> : nn_resize_add_taps<C>, n,
        stream, own, v);
    a.at[TO] = own.at[TO];
    room += nn_resize_count_axis_words(view.axis[k]);
    shape[view.dim[k]] = v.n_to;
  }
  return code;
}

int32_t nn_resize_cuda(const tn_frame *call) {
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return nn_resize_launch<decltype(type)>(call, stream);
    });
  });
}

int32_t nn_resize_cuda_backward(const tn_frame *call) {
  return nn_resize_cuda(call);
}

int32_t nn_resize_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_resize_cuda(&own);
}

int32_t nn_resize_grad_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_resize_cuda_bytes(&own, bytes);
}
