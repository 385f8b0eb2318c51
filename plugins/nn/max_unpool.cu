/* SPDX-License-Identifier: Apache-2.0
 * max_unpool.cu: max_unpool.yaml on CUDA devices. A thread finds the largest
 * element of a window, or adds the gradients of all windows that contain an
 * element. Elements of nn.max_unpool are sorted by their index, so that the
 * last one with each index is known.
 */
#include "max_unpool_view.h"
#include "second.h"
#include "tenon/kernel/scatter.cuh"
#include "windows.cuh"

/* Indices of the arrays that CUDA kernels get. */
enum { TO, FROM, INDICES, KEYS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_unpool_arrays;

/* ----------------------------------------------------------------- pooling */

struct nn_max_pool_extent {
  nn_window_view windows;
  int64_t images;
};

/* Finds the largest element of each window. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_max_pool_find_largest(nn_unpool_arrays a, nn_max_pool_extent v) {
  typedef nn_compute_type<T> C;
  const nn_window_view &w = v.windows;
  for (int64_t i = nn_first_index(); i < v.images * w.out_size;
       i += nn_index_step()) {
    const int64_t image = i / w.out_size;
    const nn_window_index o = nn_window_split(w.by_out, i - image * w.out_size);
    C largest = -(C)INFINITY;
    int64_t chosen = -1;
    for (int64_t t = 0; t < w.taps && largest == largest; ++t) {
      const int64_t at =
          nn_window_find_element(w, o, nn_window_split(w.by_kernel, t));
      if (at < 0) continue;
      const C x = nn_load_element<T>(a.at[FROM], image * w.in_size + at);
      if (chosen >= 0 && !(x > largest) && x == x) continue;
      largest = x;
      chosen = at;
    }
    if (a.at[TO].data != NULL) nn_store_element<T>(a.at[TO], i, largest);
    if (a.at[INDICES].data != NULL)
      tn_cuda_write<int64_t>(a.at[INDICES], i, chosen);
  }
}

/* Computes the gradient of all elements. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_max_pool_add_windows(nn_unpool_arrays a, nn_max_pool_extent v) {
  const nn_window_view &w = v.windows;
  const int64_t *indices = (const int64_t *)a.at[INDICES].data;
  for (int64_t i = nn_first_index(); i < v.images * w.in_size;
       i += nn_index_step()) {
    const int64_t image = i / w.in_size, place = i - image * w.in_size;
    const nn_window_index at = nn_window_split(w.by_in, place);
    nn_compute_type<T> sum = 0;
    /* Windows are visited in their order: the last tap first. */
    for (int64_t t = w.taps - 1; t >= 0; --t) {
      const int64_t o =
          nn_window_find_window(w, at, nn_window_split(w.by_kernel, t));
      if (o >= 0 && indices[image * w.out_size + o] == place)
        sum += nn_load_element<T>(a.at[FROM], image * w.out_size + o);
    }
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* Returns the geometry of a call, for its CUDA kernels. */
static nn_max_pool_extent nn_max_pool_make_extent(const tn_frame *call) {
  nn_max_pool_extent v = {};
  v.windows =
      nn_window_make_view(nn_max_pool_make_pool(call, &v.images).window);
  return v;
}

int32_t nn_max_pool_indices_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const nn_max_pool_extent v = nn_max_pool_make_extent(call);
  nn_unpool_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[0]);
  a.at[INDICES] = tn_cuda_to(&call->out[1], call->req[1]);
  a.at[FROM] = tn_cuda_from(&call->in[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_max_pool_find_largest<decltype(type)>,
                                tn_tensor_size(out), stream, a, v);
    });
  });
}

int32_t nn_max_pool_indices_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[0];
  const nn_max_pool_extent v = nn_max_pool_make_extent(call);
  nn_unpool_arrays a = {};
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  a.at[TO] = tn_cuda_to(to, call->req[0]);
  a.at[FROM] = tn_cuda_from(&call->in[NN_MAX_POOL_INDICES_BACKWARD_GRAD_OUT]);
  a.at[INDICES] =
      tn_cuda_from(&call->in[NN_MAX_POOL_INDICES_BACKWARD_OUT_INDICES]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_max_pool_add_windows<decltype(type)>,
                                tn_tensor_size(to), stream, a, v);
    });
  });
}

int32_t nn_max_pool_indices_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_max_pool_indices_cuda_backward(&own);
}

/* --------------------------------------------------------------- unpooling */

/* Writes a key for each element: its position in out, -1 if it has none. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_unpool_write_keys(nn_unpool_arrays a, nn_unpool_view v) {
  tn_cuda_key *keys = (tn_cuda_key *)a.at[KEYS].data;
  for (int64_t i = nn_first_index(); i < v.images * v.n_in;
       i += nn_index_step()) {
    const int64_t at = tn_cuda_read<int64_t>(a.at[INDICES], i);
    const bool is_inside = at >= 0 && at < v.n_out;
    keys[i].value = is_inside ? i / v.n_in * v.n_out + at : -1;
    keys[i].i = i;
  }
}

/* Sets all elements to 0. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_unpool_clear(nn_unpool_arrays a, nn_unpool_view v) {
  for (int64_t i = nn_first_index(); i < v.images * v.n_out;
       i += nn_index_step())
    nn_store_element<T>(a.at[TO], i, 0);
}

/* Writes the last element with each position in out; or, if TO is the gradient
 * of data, the gradients of all elements. */
template <class T, bool IS_BACK>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_unpool_write_last(nn_unpool_arrays a, nn_unpool_view v) {
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  const int64_t n = v.images * v.n_in;
  for (int64_t k = nn_first_index(); k < n; k += nn_index_step()) {
    const tn_cuda_key key = keys[k];
    const bool counts =
        key.value >= 0 && (k + 1 == n || keys[k + 1].value != key.value);
    if (IS_BACK)
      nn_store_element<T>(
          a.at[TO], key.i,
          counts ? nn_load_element<T>(a.at[FROM], key.value) : 0);
    else if (counts)
      nn_store_element<T>(a.at[TO], key.value,
                          nn_load_element<T>(a.at[FROM], key.i));
  }
}

/* Sets *bytes to the workspace of a call: the keys of all elements. */
int32_t nn_max_unpool_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_unpool_view v = nn_max_unpool_view_call(call);
  *bytes = tn_cuda_key_bytes(v.images * v.n_in);
  return TN_OK;
}

/* Launches the kernels of a call. */
template <class T>
static int32_t nn_unpool_launch(const tn_frame *call, nn_unpool_arrays a,
                                cudaStream_t stream) {
  const nn_unpool_view v = nn_max_unpool_view_call(call);
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const int64_t n = v.images * v.n_in;
  nn_unpool_arrays keys = {};
  int32_t code = TN_OK;
  if (!is_back && !a.at[TO].adds)
    code = tn_cuda_start_each(call, nn_unpool_clear<T>, v.images * v.n_out,
                              stream, a, v);
  if (code != TN_OK || n == 0) return code;
  keys.at[KEYS] = tn_cuda_key_array(call->ws[0], n);
  keys.at[INDICES] = a.at[INDICES];
  code = tn_cuda_start_each(call, nn_unpool_write_keys, n, stream, keys, v);
  if (code == TN_OK)
    code = tn_cuda_sort(call, call->ws[0], n, stream, &a.at[KEYS]);
  if (code != TN_OK) return code;
  return tn_cuda_start_each(
      call,
      is_back ? nn_unpool_write_last<T, true> : nn_unpool_write_last<T, false>,
      n, stream, a, v);
}

int32_t nn_max_unpool_cuda(const tn_frame *call) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_unpool_arrays a = {};
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[FROM] = tn_cuda_from(&call->in[0]);
  a.at[INDICES] =
      tn_cuda_from(&call->in[is_back ? (int)NN_MAX_UNPOOL_BACKWARD_IN_INDICES
                                     : (int)NN_MAX_UNPOOL_IN_INDICES]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return nn_unpool_launch<decltype(type)>(call, a, stream);
    });
  });
}

int32_t nn_max_unpool_cuda_backward(const tn_frame *call) {
  return nn_max_unpool_cuda(call);
}
