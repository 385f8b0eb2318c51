/* SPDX-License-Identifier: Apache-2.0
 * deformable_convolution.cu: deformable_convolution.yaml on CUDA devices. A
 * thread computes some filters of a window, or the gradients of one offset and
 * one element of mask. A block computes some filters of an element of the
 * gradient of weight. The gradient of data adds taps in the order of windows:
 * the taps of a few images are sorted by the element that they read. The order
 * of all sums follows from shapes and positions.
 */
#include "deformable_view.h"
#include "plane_sums.cuh"
#include "tenon/kernel/scatter.cuh"
#include "window.h"

/* Indices of the arrays that CUDA kernels get; TO and MASK_TO are written. KEYS
 * has a key for each tap of the windows of some images: its element, counted
 * over groups of offsets. WEIGHTS has the weights of taps, f64. */
enum {
  TO,
  MASK_TO,
  DATA,
  WEIGHT,
  OFFSET,
  MASK,
  BIAS,
  OUT,
  KEYS,
  WEIGHTS,
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> nn_deformable_arrays;

enum {
  NN_DEFORMABLE_FILTERS = 8,         /* of a thread */
  NN_DEFORMABLE_KEY_BYTES = 64 << 20 /* of keys, unless one image needs more */
};

/* A call, and the images whose gradient a launch computes. */
struct nn_deformable_extent {
  nn_deformable_view view;
  int64_t first;  /* image */
  int64_t images; /* number */
};

/* One element of one window of an image, for a group of offsets. */
struct nn_deformable_element {
  int64_t image;
  int64_t group;
  int64_t tap;
  int64_t window;
};

/* Splits position i among the elements of mask. */
__device__ __forceinline__ nn_deformable_element
nn_deformable_split(const nn_deformable_view &v, int64_t i) {
  nn_deformable_element e;
  e.window = i % v.windows;
  e.tap = i / v.windows % v.taps;
  e.group = i / v.windows / v.taps % v.offset_groups;
  e.image = i / v.windows / v.taps / v.offset_groups;
  return e;
}

/* Returns the index of an element among those of mask. */
__device__ __forceinline__ int64_t nn_deformable_find_mask(
    const nn_deformable_view &v, const nn_deformable_element &e) {
  return nn_deformable_find_plane(&v, e.image, e.group, e.tap) + e.window;
}

/* Sets the elements of the image along both dimensions. */
template <class C>
__device__ __forceinline__ void nn_deformable_read_lines(
    const nn_deformable_arrays &a, const nn_deformable_view &v,
    const nn_deformable_element &e, nn_sample_line *lines) {
  const int64_t at =
      2 * nn_deformable_find_plane(&v, e.image, e.group, e.tap) + e.window;
  const double offset[] = {
      (double)tn_cuda_read<C>(a.at[OFFSET], at),
      (double)tn_cuda_read<C>(a.at[OFFSET], at + v.windows)};
  nn_deformable_find_lines(&v, e.tap, e.window, offset, lines);
}

/* Returns the taps of an element of a window. */
template <class C>
__device__ __forceinline__ nn_sample_taps nn_deformable_find_taps(
    const nn_deformable_arrays &a, const nn_deformable_view &v,
    const nn_deformable_element &e) {
  nn_sample_line lines[NN_SAMPLE_RANK];
  nn_deformable_read_lines<C>(a, v, e, lines);
  return nn_sample_join_lines(&v.rule, lines, -1);
}

/* Returns the factor of an element of a window. */
template <class C>
__device__ __forceinline__ C nn_deformable_read_mask(
    const nn_deformable_arrays &a, const nn_deformable_view &v,
    const nn_deformable_element &e) {
  return a.at[MASK].data == NULL
             ? (C)1
             : tn_cuda_read<C>(a.at[MASK], nn_deformable_find_mask(v, e));
}

/* Returns the interpolation of the taps in a channel. */
template <class C>
__device__ __forceinline__ C nn_deformable_sample(const nn_deformable_arrays &a,
                                                  const nn_deformable_view &v,
                                                  const nn_sample_taps &taps,
                                                  int64_t plane) {
  C sum = 0;
  for (int t = 0; t < taps.n; ++t) {
    const C w = (C)taps.weight[t];
    if (taps.at[t] >= 0 && w != 0)
      sum += w * tn_cuda_read<C>(a.at[DATA], plane * v.size + taps.at[t]);
  }
  return sum;
}

/* Returns the index of the first weight of a filter and a channel of its group.
 */
__device__ __forceinline__ int64_t nn_deformable_find_weight(
    const nn_deformable_view &v, int64_t filter, int64_t channel) {
  const int64_t each = v.channels / v.groups;
  return (filter * each + channel % each) * v.taps;
}

/* Some filters of a group: [first, first + n). */
struct nn_deformable_filters {
  int64_t first;
  int n;
};

/* Returns the number of pieces of a group's filters. */
static __host__ __device__ inline int64_t nn_deformable_count_pieces(
    const nn_deformable_view &v) {
  return (v.filters / v.groups + NN_DEFORMABLE_FILTERS - 1) /
         NN_DEFORMABLE_FILTERS;
}

/* Returns piece number `piece` of a group's filters. */
__device__ __forceinline__ nn_deformable_filters nn_deformable_find_filters(
    const nn_deformable_view &v, int64_t group, int64_t piece) {
  const int64_t each = v.filters / v.groups;
  const int64_t left = each - piece * NN_DEFORMABLE_FILTERS;
  nn_deformable_filters f;
  f.first = group * each + piece * NN_DEFORMABLE_FILTERS;
  f.n = left < NN_DEFORMABLE_FILTERS ? (int)left : (int)NN_DEFORMABLE_FILTERS;
  return f;
}

/* The sums of some filters. */
template <class C>
struct nn_deformable_sums {
  nn_deformable_filters of;
  C sum[NN_DEFORMABLE_FILTERS];
};

/* Adds the products of channels, which are in one group of offsets, for one
 * element of a window. */
template <class C>
__device__ __forceinline__ void nn_deformable_add_channels(
    const nn_deformable_arrays &a, const nn_deformable_view &v,
    const nn_deformable_element &e, const nn_range &channels,
    nn_deformable_sums<C> *to) {
  const nn_sample_taps taps = nn_deformable_find_taps<C>(a, v, e);
  const C factor = nn_deformable_read_mask<C>(a, v, e);
  for (int64_t c = channels.begin; c < channels.end; ++c) {
    const C sample =
        factor * nn_deformable_sample<C>(a, v, taps, e.image * v.channels + c);
    for (int k = 0; k < to->of.n; ++k) {
      const int64_t at = nn_deformable_find_weight(v, to->of.first + k, c);
      to->sum[k] += sample * tn_cuda_read<C>(a.at[WEIGHT], at + e.tap);
    }
  }
}

/* Computes out. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deformable_compute_out(nn_deformable_arrays a, nn_deformable_view v) {
  const int64_t pieces = nn_deformable_count_pieces(v);
  const int64_t n = v.images * v.groups * pieces * v.windows;
  const int64_t channels = v.channels / v.groups;
  const int64_t each = v.channels / v.offset_groups;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t group = i / v.windows / pieces % v.groups;
    const int64_t last = (group + 1) * channels;
    nn_deformable_element e;
    nn_deformable_sums<C> to = {};
    to.of = nn_deformable_find_filters(v, group, i / v.windows % pieces);
    e.window = i % v.windows;
    e.image = i / v.windows / pieces / v.groups;
    for (int64_t c = group * channels; v.size > 0 && c < last;
         c = (e.group + 1) * each) {
      e.group = c / each;
      const int64_t end = (e.group + 1) * each;
      const nn_range range = {c, end < last ? end : last};
      for (e.tap = 0; e.tap < v.taps; ++e.tap)
        nn_deformable_add_channels<C>(a, v, e, range, &to);
    }
    for (int k = 0; k < to.of.n; ++k) {
      const int64_t filter = to.of.first + k;
      if (a.at[BIAS].data != NULL)
        to.sum[k] += tn_cuda_read<C>(a.at[BIAS], filter);
      tn_cuda_write(a.at[TO],
                    (e.image * v.filters + filter) * v.windows + e.window,
                    to.sum[k]);
    }
  }
}

/* Returns the gradient of one element of one window in a channel: the sum over
 * the filters of its group. */
template <class C>
__device__ __forceinline__ C nn_deformable_sum_filters(
    const nn_deformable_arrays &a, const nn_deformable_view &v,
    const nn_deformable_element &e, int64_t channel) {
  const int64_t filters = v.filters / v.groups;
  const int64_t first = channel / (v.channels / v.groups) * filters;
  C sum = 0;
  for (int64_t f = first; f < first + filters; ++f)
    sum += tn_cuda_read<C>(a.at[WEIGHT],
                           nn_deformable_find_weight(v, f, channel) + e.tap) *
           tn_cuda_read<C>(a.at[OUT],
                           (e.image * v.filters + f) * v.windows + e.window);
  return sum;
}

/* Returns the sum of weights times products. */
__device__ __forceinline__ double nn_deformable_sum_products(
    const nn_sample_taps &taps, const double *products) {
  double sum = 0;
  for (int t = 0; t < taps.n; ++t)
    if (taps.at[t] >= 0 && taps.weight[t] != 0)
      sum += taps.weight[t] * products[t];
  return sum;
}

/* Computes the gradients of offset and mask. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deformable_compute_slopes(nn_deformable_arrays a, nn_deformable_view v) {
  const int64_t each = v.channels / v.offset_groups;
  const int64_t n = v.images * v.offset_groups * v.taps * v.windows;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const nn_deformable_element e = nn_deformable_split(v, i);
    const double factor = (double)nn_deformable_read_mask<C>(a, v, e);
    nn_sample_line lines[NN_SAMPLE_RANK];
    double products[NN_DEFORMABLE_TAPS] = {};
    nn_deformable_read_lines<C>(a, v, e, lines);
    const nn_sample_taps taps = nn_sample_join_lines(&v.rule, lines, -1);
    for (int64_t c = e.group * each; v.size > 0 && c < (e.group + 1) * each;
         ++c) {
      const double slope = (double)nn_deformable_sum_filters<C>(a, v, e, c);
      const int64_t plane = e.image * v.channels + c;
      for (int t = 0; t < taps.n; ++t)
        if (taps.at[t] >= 0)
          products[t] += slope * (double)tn_cuda_read<C>(
                                     a.at[DATA], plane * v.size + taps.at[t]);
    }
    for (int k = 0; k < 2 && a.at[TO].data != NULL; ++k) {
      const nn_sample_taps slopes = nn_sample_join_lines(&v.rule, lines, k + 1);
      tn_cuda_write(a.at[TO], 2 * (i - e.window) + k * v.windows + e.window,
                    (C)(factor * nn_deformable_sum_products(slopes, products)));
    }
    if (a.at[MASK_TO].data != NULL)
      tn_cuda_write(a.at[MASK_TO], i,
                    (C)nn_deformable_sum_products(taps, products));
  }
}

/* Computes the gradient of weight: the threads of a block add the products of
 * one element of some filters. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deformable_compute_weight(nn_deformable_arrays a, nn_deformable_view v) {
  __shared__ C part[TN_CUDA_THREADS];
  const int64_t pieces = nn_deformable_count_pieces(v);
  const int64_t each = v.channels / v.offset_groups;
  for (int64_t i = blockIdx.x; i < v.channels * v.taps * pieces;
       i += gridDim.x) {
    const int64_t channel = i / pieces / v.taps;
    const nn_deformable_filters f = nn_deformable_find_filters(
        v, channel / (v.channels / v.groups), i % pieces);
    nn_deformable_element e;
    C sum[NN_DEFORMABLE_FILTERS] = {};
    e.tap = i / pieces % v.taps;
    e.group = channel / each;
    for (int64_t k = threadIdx.x; v.size > 0 && k < v.images * v.windows;
         k += TN_CUDA_THREADS) {
      e.image = k / v.windows;
      e.window = k % v.windows;
      const C sample =
          nn_deformable_read_mask<C>(a, v, e) *
          nn_deformable_sample<C>(a, v, nn_deformable_find_taps<C>(a, v, e),
                                  e.image * v.channels + channel);
      for (int j = 0; j < f.n; ++j)
        sum[j] += sample * tn_cuda_read<C>(
                               a.at[OUT],
                               (e.image * v.filters + f.first + j) * v.windows +
                                   e.window);
    }
    for (int j = 0; j < f.n; ++j) {
      const C all = tn_cuda_reduce(part, sum[j], tn_cuda_plus());
      if (threadIdx.x == 0)
        tn_cuda_write(
            a.at[TO],
            nn_deformable_find_weight(v, f.first + j, channel) + e.tap, all);
      __syncthreads();
    }
  }
}

/* -------------------------------------------------------- gradient of data */

/* Returns the number of taps of some images. */
static __host__ __device__ inline int64_t nn_deformable_count_keys(
    const nn_deformable_view &v, int64_t images) {
  return images * v.offset_groups * v.taps * v.windows * NN_DEFORMABLE_TAPS;
}

/* Writes the keys and weights of the taps of some images. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deformable_write_keys(nn_deformable_arrays a, nn_deformable_extent x) {
  const nn_deformable_view &v = x.view;
  tn_cuda_key *keys = (tn_cuda_key *)a.at[KEYS].data;
  double *weights = (double *)a.at[WEIGHTS].data;
  const int64_t n = nn_deformable_count_keys(v, x.images) / NN_DEFORMABLE_TAPS;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    nn_deformable_element e = nn_deformable_split(v, i);
    const int64_t plane = e.image * v.offset_groups + e.group;
    e.image += x.first;
    const nn_sample_taps taps = nn_deformable_find_taps<C>(a, v, e);
    const double factor = (double)nn_deformable_read_mask<C>(a, v, e);
    for (int t = 0; t < NN_DEFORMABLE_TAPS; ++t) {
      const int64_t k = i * NN_DEFORMABLE_TAPS + t;
      const bool is_used = t < taps.n && taps.at[t] >= 0 && taps.weight[t] != 0;
      keys[k].value = is_used ? plane * v.size + taps.at[t] : -1;
      keys[k].i = k;
      weights[k] = is_used ? taps.weight[t] * factor : 0;
    }
  }
}

/* Computes the gradient of data for some images. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_deformable_add_keys(nn_deformable_arrays a, nn_deformable_extent x) {
  const nn_deformable_view &v = x.view;
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  const double *weights = (const double *)a.at[WEIGHTS].data;
  const int64_t n_keys = nn_deformable_count_keys(v, x.images);
  const int64_t each = v.channels / v.offset_groups;
  for (int64_t i = nn_first_index(); i < x.images * v.channels * v.size;
       i += nn_index_step()) {
    const int64_t channel = i / v.size % v.channels;
    const int64_t image = i / v.size / v.channels;
    const int64_t value =
        (image * v.offset_groups + channel / each) * v.size + i % v.size;
    C sum = 0;
    for (int64_t k = tn_cuda_search_keys(keys, n_keys, value);
         k < n_keys && keys[k].value == value; ++k) {
      nn_deformable_element e =
          nn_deformable_split(v, keys[k].i / NN_DEFORMABLE_TAPS);
      e.image += x.first;
      sum += (C)weights[keys[k].i] *
             nn_deformable_sum_filters<C>(a, v, e, channel);
    }
    tn_cuda_write(a.at[TO], x.first * v.channels * v.size + i, sum);
  }
}

/* Returns the number of images whose taps are sorted together. */
static int64_t nn_deformable_choose_images(const nn_deformable_view &v) {
  const uint64_t n = (uint64_t)nn_deformable_count_keys(v, 1);
  const uint64_t bytes = n * (2 * sizeof(tn_cuda_key) + sizeof(double));
  const int64_t most =
      bytes > 0 ? (int64_t)(NN_DEFORMABLE_KEY_BYTES / bytes) : v.images;
  if (most < 1) return v.images > 0 ? 1 : 0;
  return most < v.images ? most : v.images;
}

/* Launches the kernels of the gradient of data, for some images after others.
 */
template <class C>
static int32_t nn_deformable_launch_data(const tn_frame *call,
                                         const nn_deformable_view &v,
                                         nn_deformable_arrays a,
                                         cudaStream_t stream) {
  const int64_t each = nn_deformable_choose_images(v);
  char *room = (char *)call->ws[0];
  int32_t code = TN_OK;
  if (nn_deformable_is_empty(&v)) return TN_OK;
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  for (int64_t first = 0; first < v.images && code == TN_OK; first += each) {
    const int64_t left = v.images - first;
    const nn_deformable_extent x = {v, first, left < each ? left : each};
    const int64_t n = nn_deformable_count_keys(v, x.images);
    nn_deformable_arrays own = {};
    own.at[OFFSET] = a.at[OFFSET];
    own.at[MASK] = a.at[MASK];
    own.at[KEYS] = tn_cuda_key_array(room, n);
    own.at[WEIGHTS] = tn_cuda_room(room + tn_cuda_key_bytes(n), TN_F64, n);
    code = tn_cuda_start_each(call, nn_deformable_write_keys<C>,
                              n / NN_DEFORMABLE_TAPS, stream, own, x);
    a.at[WEIGHTS] = own.at[WEIGHTS];
    a.at[WEIGHTS].writes = 0;
    if (code == TN_OK) code = tn_cuda_sort(call, room, n, stream, &a.at[KEYS]);
    if (code == TN_OK)
      code = tn_cuda_start_each(call, nn_deformable_add_keys<C>,
                                x.images * v.channels * v.size, stream, a, x);
  }
  return code;
}

/* -------------------------------------------------------------------- host */

/* Sets *bytes to the workspace of a call: keys for the gradient of data. */
int32_t nn_deformable_convolution_cuda_bytes(const tn_frame *call,
                                             uint64_t *bytes) {
  const nn_deformable_view v = nn_deformable_view_call(call);
  const int64_t n = nn_deformable_count_keys(v, nn_deformable_choose_images(v));
  const bool has_data =
      (call->flags & TN_CALL_BACKWARD) != 0 &&
      call->req[NN_DEFORMABLE_CONVOLUTION_IN_DATA] != TN_REQ_NULL;
  *bytes = has_data && !nn_deformable_is_empty(&v)
               ? tn_cuda_key_bytes(n) + (uint64_t)n * sizeof(double)
               : 0;
  return TN_OK;
}

/* Returns an input as an array; without data if it is absent. */
static tn_cuda_array nn_deformable_optional(const tn_frame *call, uint32_t i) {
  const tn_cuda_array none = {};
  return nn_deformable_has_input(call, i) ? tn_cuda_from(&call->in[i]) : none;
}

int32_t nn_deformable_convolution_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const nn_deformable_view v = nn_deformable_view_call(call);
  nn_deformable_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[0]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_DEFORMABLE_CONVOLUTION_IN_DATA]);
  a.at[WEIGHT] = tn_cuda_from(&call->in[NN_DEFORMABLE_CONVOLUTION_IN_WEIGHT]);
  a.at[OFFSET] = tn_cuda_from(&call->in[NN_DEFORMABLE_CONVOLUTION_IN_OFFSET]);
  a.at[BIAS] = nn_deformable_optional(call, NN_DEFORMABLE_CONVOLUTION_IN_BIAS);
  a.at[MASK] = nn_deformable_optional(call, NN_DEFORMABLE_CONVOLUTION_IN_MASK);
  const int64_t n =
      v.images * v.groups * nn_deformable_count_pieces(v) * v.windows;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_deformable_compute_out<decltype(type)>,
                                n, stream, a, v);
    });
  });
}

/* Returns the array of the gradient of input i; without data if it is not
 * requested. */
static tn_cuda_array nn_deformable_gradient(const tn_frame *call, uint32_t i) {
  const tn_cuda_array none = {};
  if (i >= call->n_out || call->req[i] == TN_REQ_NULL) return none;
  return tn_cuda_to(&call->out[i], call->req[i]);
}

/* Launches the kernels of a backward call. */
template <class C>
static int32_t nn_deformable_launch_backward(const tn_frame *call,
                                             const nn_deformable_view &v,
                                             nn_deformable_arrays a,
                                             cudaStream_t stream) {
  const uint32_t bias = NN_DEFORMABLE_CONVOLUTION_IN_BIAS;
  int32_t code = TN_OK;
  if (call->req[NN_DEFORMABLE_CONVOLUTION_IN_DATA] != TN_REQ_NULL)
    code = nn_deformable_launch_data<C>(call, v, a, stream);
  a.at[TO] = nn_deformable_gradient(call, NN_DEFORMABLE_CONVOLUTION_IN_WEIGHT);
  if (code == TN_OK && a.at[TO].data != NULL)
    code = tn_cuda_start(call, nn_deformable_compute_weight<C>,
                         v.channels * v.taps * nn_deformable_count_pieces(v),
                         stream, a, v);
  a.at[TO] = nn_deformable_gradient(call, NN_DEFORMABLE_CONVOLUTION_IN_OFFSET);
  a.at[MASK_TO] =
      nn_deformable_gradient(call, NN_DEFORMABLE_CONVOLUTION_IN_MASK);
  if (code == TN_OK && (a.at[TO].data != NULL || a.at[MASK_TO].data != NULL))
    code = tn_cuda_start_each(call, nn_deformable_compute_slopes<C>,
                              v.images * v.offset_groups * v.taps * v.windows,
                              stream, a, v);
  if (code != TN_OK || nn_deformable_gradient(call, bias).data == NULL)
    return code;
  return nn_plane_sums_launch<C>(
      call, bias, &call->in[NN_DEFORMABLE_CONVOLUTION_BACKWARD_GRAD_OUT],
      {v.images, v.filters, v.windows}, stream);
}

int32_t nn_deformable_convolution_cuda_backward(const tn_frame *call) {
  const nn_deformable_view v = nn_deformable_view_call(call);
  nn_deformable_arrays a = {};
  a.at[OUT] =
      tn_cuda_from(&call->in[NN_DEFORMABLE_CONVOLUTION_BACKWARD_GRAD_OUT]);
  a.at[DATA] =
      nn_deformable_optional(call, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_DATA);
  a.at[WEIGHT] = nn_deformable_optional(
      call, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_WEIGHT);
  a.at[OFFSET] = nn_deformable_optional(
      call, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_OFFSET);
  a.at[MASK] =
      nn_deformable_optional(call, NN_DEFORMABLE_CONVOLUTION_BACKWARD_IN_MASK);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->in[0].dtype, [&](auto type) {
      return nn_deformable_launch_backward<decltype(type)>(call, v, a, stream);
    });
  });
}
