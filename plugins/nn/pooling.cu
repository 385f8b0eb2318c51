/* SPDX-License-Identifier: Apache-2.0
 * pooling.cu: pooling.yaml on CUDA devices. Forward a thread has a window, or a
 * part of a block one that is the image; backward it has an element, and asks
 * all windows that it lies in, unless there is only one.
 */
#include "nn.cuh"
#include "pool_geometry.h"

/* What kernels are handed: backward TO is the gradient of DATA. */
enum { TO, DATA, OUT, HEAD, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_pool_arrays;

struct nn_pool_view {
  nn_window window;
  int64_t limit[NN_WINDOW_RANK]; /* as in nn_pool */
  int64_t in_size;
  int64_t out_size;
  int64_t images;
  int kind; /* NN_POOL_* */
  int counts_padding;
};

/* ------------------------------------------------------------------ windows */

/* A window: its elements that are no padding, begin to end. */
struct nn_pool_window {
  int64_t begin[NN_WINDOW_RANK];
  int64_t end[NN_WINDOW_RANK];
  int64_t count; /* of elements that a mean counts, at least 1 */
};

__device__ __forceinline__ nn_pool_window
nn_pool_window_at(const nn_pool_view &v, const int64_t *o) {
  nn_pool_window x;
  x.count = 1;
#pragma unroll
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int64_t first = o[d] * v.window.stride[d] - v.window.pad[d];
    const int64_t last = first + v.window.kernel[d];
    x.begin[d] = first < 0 ? 0 : first;
    x.end[d] = last < v.window.in[d] ? last : v.window.in[d];
    const int64_t reach = last < v.limit[d] ? last : v.limit[d];
    const int64_t n = v.counts_padding ? reach - first : x.end[d] - x.begin[d];
    x.count *= n < 0 ? 0 : n;
  }
  if (x.count < 1) x.count = 1;
  return x;
}

/* The indices of element i along the dimensions of an image. */
__device__ __forceinline__ void nn_pool_indices(const int64_t *lengths,
                                                int64_t i, int64_t *at) {
  at[2] = i % lengths[2];
  i /= lengths[2];
  at[1] = i % lengths[1];
  at[0] = i / lengths[1];
}

__device__ __forceinline__ int64_t nn_pool_place(const nn_window &w, int64_t z,
                                                 int64_t y, int64_t x) {
  return (z * w.in[1] + y) * w.in[2] + x;
}

template <class C>
__device__ __forceinline__ C nn_pool_none(const nn_pool_view &v) {
  return v.kind == NN_POOL_MAX ? -(C)INFINITY : (C)0;
}

template <class C>
__device__ __forceinline__ C nn_pool_join(const nn_pool_view &v, C a, C b) {
  return v.kind == NN_POOL_MAX ? tn_cuda_largest()(a, b) : a + b;
}

/* ------------------------------------------------------------------ forward */

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_windows(nn_pool_arrays a, nn_pool_view v) {
  typedef nn_wide<T> C;
  for (int64_t i = nn_first(); i < v.images * v.out_size; i += nn_step()) {
    const int64_t image = i / v.out_size * v.in_size;
    int64_t o[NN_WINDOW_RANK];
    nn_pool_indices(v.window.out, i % v.out_size, o);
    const nn_pool_window w = nn_pool_window_at(v, o);
    C all = nn_pool_none<C>(v);
    for (int64_t z = w.begin[0]; z < w.end[0]; ++z)
      for (int64_t y = w.begin[1]; y < w.end[1]; ++y)
        for (int64_t x = w.begin[2]; x < w.end[2]; ++x) {
          const int64_t at = image + nn_pool_place(v.window, z, y, x);
          all = nn_pool_join(v, all, nn_get<T>(a.at[DATA], at));
        }
    if (v.kind == NN_POOL_AVG) all /= (C)w.count;
    nn_put<T>(a.at[TO], i, all);
  }
}

struct nn_pool_joined {
  nn_pool_view v;
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return nn_pool_join(v, a, b);
  }
};

/* One window, the image, which is a line. */
struct nn_pool_whole_view {
  nn_pool_view pool;
  nn_lines lines;
};

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_images_whole(nn_pool_arrays a, nn_pool_whole_view v) {
  typedef nn_wide<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const nn_pool_joined join = {v.pool};
  for (int64_t g = blockIdx.x; g < nn_line_groups(v.lines); g += gridDim.x) {
    const nn_line line = nn_line_of(v.lines, g);
    C all = nn_pool_none<C>(v.pool);
    for (int64_t k = line.first; k < line.end; k += line.step)
      all = join(all, nn_get<T>(a.at[DATA], line.at + k));
    all = tn_cuda_fold(part, all, join, v.lines.lanes);
    if (v.pool.kind == NN_POOL_AVG) all /= (C)v.lines.length;
    if (line.leads) nn_put<T>(a.at[TO], line.number, all);
  }
}

/* ----------------------------------------------------------------- backward */

/* Whether element `at` of an image is the first of the largest of a window. */
template <class T>
__device__ __forceinline__ bool nn_pool_is_chosen(const nn_pool_arrays &a,
                                                  const nn_pool_view &v,
                                                  const nn_pool_window &w,
                                                  int64_t image, int64_t at,
                                                  nn_wide<T> largest) {
  typedef nn_wide<T> C;
  const C own = nn_get<T>(a.at[DATA], image + at);
  if (own == own && own != largest) return false;
  for (int64_t z = w.begin[0]; z < w.end[0]; ++z)
    for (int64_t y = w.begin[1]; y < w.end[1]; ++y)
      for (int64_t x = w.begin[2]; x < w.end[2]; ++x) {
        const int64_t i = nn_pool_place(v.window, z, y, x);
        const C value = nn_get<T>(a.at[DATA], image + i);
        if (value == largest || value != value) return i == at;
      }
  return false;
}

/* What window `o` of an image gives to element `at`. */
template <class T>
__device__ __forceinline__ nn_wide<T> nn_pool_given(const nn_pool_arrays &a,
                                                    const nn_pool_view &v,
                                                    const int64_t *o,
                                                    int64_t image, int64_t at) {
  typedef nn_wide<T> C;
  const nn_pool_window w = nn_pool_window_at(v, o);
  const int64_t i = image * v.out_size +
                    (o[0] * v.window.out[1] + o[1]) * v.window.out[2] + o[2];
  const C head = nn_get<T>(a.at[HEAD], i);
  if (v.kind == NN_POOL_SUM) return head;
  if (v.kind == NN_POOL_AVG) return head / (C)w.count;
  const C largest = nn_get<T>(a.at[OUT], i);
  return nn_pool_is_chosen<T>(a, v, w, image * v.in_size, at, largest) ? head
                                                                       : (C)0;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_slopes(nn_pool_arrays a, nn_pool_view v) {
  typedef nn_wide<T> C;
  const nn_window &w = v.window;
  for (int64_t i = nn_first(); i < v.images * v.in_size; i += nn_step()) {
    int64_t at[NN_WINDOW_RANK], first[NN_WINDOW_RANK], last[NN_WINDOW_RANK];
    C sum = 0;
    nn_pool_indices(w.in, i % v.in_size, at);
#pragma unroll
    for (int d = 0; d < NN_WINDOW_RANK; ++d) {
      const int64_t reach = at[d] + w.pad[d];
      first[d] =
          reach < w.kernel[d] ? 0 : (reach - w.kernel[d]) / w.stride[d] + 1;
      last[d] = reach / w.stride[d];
      if (last[d] >= w.out[d]) last[d] = w.out[d] - 1;
    }
    int64_t o[NN_WINDOW_RANK];
    for (o[0] = first[0]; o[0] <= last[0]; ++o[0])
      for (o[1] = first[1]; o[1] <= last[1]; ++o[1])
        for (o[2] = first[2]; o[2] <= last[2]; ++o[2])
          sum += nn_pool_given<T>(a, v, o, i / v.in_size, i % v.in_size);
    nn_put<T>(a.at[TO], i, sum);
  }
}

/* One window, the image, which is a line: its threads find the first of the
 * largest together. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_pool_slopes_whole(nn_pool_arrays a, nn_pool_whole_view v) {
  typedef nn_wide<T> C;
  __shared__ int64_t part[TN_CUDA_THREADS];
  const bool is_max = v.pool.kind == NN_POOL_MAX;
  for (int64_t g = blockIdx.x; g < nn_line_groups(v.lines); g += gridDim.x) {
    const nn_line line = nn_line_of(v.lines, g);
    const bool inside = line.end > 0;
    C head = inside ? nn_get<T>(a.at[HEAD], line.number) : (C)0;
    if (v.pool.kind == NN_POOL_AVG) head /= (C)v.lines.length;
    int64_t chosen = v.lines.length;
    const C largest =
        is_max && inside ? nn_get<T>(a.at[OUT], line.number) : (C)0;
    for (int64_t k = line.first; is_max && k < line.end; k += line.step) {
      const C value = nn_get<T>(a.at[DATA], line.at + k);
      if (value != largest && value == value) continue;
      chosen = k;
      break;
    }
    if (is_max)
      chosen = tn_cuda_fold(part, chosen, tn_cuda_least(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step)
      nn_put<T>(a.at[TO], line.at + k, !is_max || k == chosen ? head : (C)0);
  }
}

/* --------------------------------------------------------------------- host */

static nn_pool_view nn_pool_view_of(const tn_frame *call) {
  const nn_pool pool = nn_pool_of(call);
  nn_pool_view v = {};
  v.window = pool.window;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) v.limit[d] = pool.limit[d];
  v.in_size = pool.in_size;
  v.out_size = pool.out_size;
  v.images = nn_pool_images(call);
  v.kind = pool.kind;
  v.counts_padding = pool.counts_padding;
  return v;
}

int32_t nn_pooling_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_POOLING_OUT_OUT];
  nn_pool_whole_view v = {nn_pool_view_of(call), {}};
  nn_pool_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_POOLING_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_POOLING_IN_DATA]);
  v.lines = nn_lines_for(v.pool.images, v.pool.in_size, 1);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      typedef decltype(type) T;
      if (nn_pool_is_whole(&v.pool.window))
        return tn_cuda_start(call, nn_pool_images_whole<T>,
                             nn_line_groups(v.lines), stream, a, v);
      return tn_cuda_start_each(call, nn_pool_windows<T>, tn_tensor_size(out),
                                stream, a, v.pool);
    });
  });
}

int32_t nn_pooling_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_POOLING_IN_DATA];
  nn_pool_whole_view v = {nn_pool_view_of(call), {}};
  nn_pool_arrays a = {};
  if (call->req[NN_POOLING_IN_DATA] == TN_REQ_NULL) return TN_OK;
  v.lines = nn_lines_for(v.pool.images, v.pool.in_size, 1);
  a.at[TO] = tn_cuda_to(to, call->req[NN_POOLING_IN_DATA]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_POOLING_BACKWARD_IN_DATA]);
  a.at[OUT] = tn_cuda_from(&call->in[NN_POOLING_BACKWARD_OUT_OUT]);
  a.at[HEAD] = tn_cuda_from(&call->in[NN_POOLING_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      typedef decltype(type) T;
      if (nn_pool_is_whole(&v.pool.window))
        return tn_cuda_start(call, nn_pool_slopes_whole<T>,
                             nn_line_groups(v.lines), stream, a, v);
      return tn_cuda_start_each(call, nn_pool_slopes<T>, tn_tensor_size(to),
                                stream, a, v.pool);
    });
  });
}
