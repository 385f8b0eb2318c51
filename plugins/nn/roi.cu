/* SPDX-License-Identifier: Apache-2.0
 * roi.cu: roi.yaml on CUDA devices. A thread computes a bin; backward, an
 * element of an image, to which it adds the gradients of all regions in their
 * order.
 */
#include "nn.cuh"
#include "roi_calls.h"

/* Indices of the arrays that CUDA kernels get. FROM has images, or the output
 * gradient; CHOSEN the indices of nn.roi_pooling. */
enum { TO, FROM, ROIS, CHOSEN, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_roi_arrays;

/* Returns number k of a region. */
template <class C>
__device__ __forceinline__ double nn_roi_read(const nn_roi_arrays &a,
                                              int64_t region, int k) {
  return (double)tn_cuda_read<C>(a.at[ROIS], region * 5 + k);
}

/* Returns the image of a region, -1 if it does not exist. */
template <class C>
__device__ __forceinline__ int64_t nn_roi_find_image(const nn_roi_arrays &a,
                                                     const nn_roi_view &v,
                                                     int64_t region) {
  const double image = nn_roi_read<C>(a, region, 0);
  return image > -1 && image < (double)v.images ? (int64_t)image : -1;
}

/* A bin of a channel of a region. */
struct nn_roi_bin {
  int64_t region;
  int64_t channel;
  int64_t down;
  int64_t across;
};

/* Returns bin i of a result. */
__device__ __forceinline__ nn_roi_bin nn_roi_locate_bin(const nn_roi_view &v,
                                                        int64_t i) {
  nn_roi_bin bin;
  bin.across = i % v.bins[1];
  bin.down = i / v.bins[1] % v.bins[0];
  const int64_t plane = i / v.bins[1] / v.bins[0];
  bin.channel = plane % v.channels;
  bin.region = plane / v.channels;
  return bin;
}

/* Computes the bins of nn.roi_pooling. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_roi_find_largest(nn_roi_arrays a, nn_roi_view v) {
  const int64_t n = v.regions * v.channels * v.bins[0] * v.bins[1];
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const nn_roi_bin bin = nn_roi_locate_bin(v, i);
    const int64_t image = nn_roi_find_image<C>(a, v, bin.region);
    const nn_roi_range down =
        nn_roi_find_bin(&v, 0, bin.down, nn_roi_read<C>(a, bin.region, 2),
                        nn_roi_read<C>(a, bin.region, 4));
    const nn_roi_range across =
        nn_roi_find_bin(&v, 1, bin.across, nn_roi_read<C>(a, bin.region, 1),
                        nn_roi_read<C>(a, bin.region, 3));
    const int64_t first =
        (image * v.channels + bin.channel) * v.size[0] * v.size[1];
    C largest = image < 0 ? (C)NAN : (C)0;
    int64_t chosen = -1;
    for (int64_t y = down.begin; y < down.end && image >= 0; ++y)
      for (int64_t x = across.begin; x < across.end && largest == largest;
           ++x) {
        const int64_t at = y * v.size[1] + x;
        const C e = tn_cuda_read<C>(a.at[FROM], first + at);
        if (chosen >= 0 && !(e > largest) && e == e) continue;
        largest = e;
        chosen = at;
      }
    if (a.at[TO].data != NULL) tn_cuda_write(a.at[TO], i, largest);
    if (a.at[CHOSEN].data != NULL)
      tn_cuda_write(a.at[CHOSEN], i, (int32_t)chosen);
  }
}

/* Computes the gradient of images of nn.roi_pooling. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_roi_add_largest(nn_roi_arrays a, nn_roi_view v) {
  const int64_t size = v.size[0] * v.size[1], bins = v.bins[0] * v.bins[1];
  const int32_t *chosen = (const int32_t *)a.at[CHOSEN].data;
  for (int64_t i = nn_first_index(); i < v.images * v.channels * size;
       i += nn_index_step()) {
    const int64_t plane = i / size, place = i - plane * size;
    const int64_t image = plane / v.channels, c = plane % v.channels;
    C sum = 0;
    for (int64_t r = 0; r < v.regions; ++r) {
      const int64_t first = (r * v.channels + c) * bins;
      if (nn_roi_find_image<C>(a, v, r) != image) continue;
      for (int64_t k = first; k < first + bins; ++k)
        if (chosen[k] == place) sum += tn_cuda_read<C>(a.at[FROM], k);
    }
    tn_cuda_write(a.at[TO], i, sum);
  }
}

/* Returns a region along dimension d. */
template <class C>
__device__ __forceinline__ nn_roi_line nn_roi_read_line(const nn_roi_arrays &a,
                                                        const nn_roi_view &v,
                                                        int64_t region, int d) {
  return nn_roi_find_line(&v, d, nn_roi_read<C>(a, region, 2 - d),
                          nn_roi_read<C>(a, region, 4 - d));
}

/* Computes the bins of nn.roi_align. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_roi_reduce_bins(nn_roi_arrays a, nn_roi_view v) {
  const int64_t n = v.regions * v.channels * v.bins[0] * v.bins[1];
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const nn_roi_bin bin = nn_roi_locate_bin(v, i);
    const int64_t image = nn_roi_find_image<C>(a, v, bin.region);
    const nn_roi_line rows = nn_roi_read_line<C>(a, v, bin.region, 0);
    const nn_roi_line columns = nn_roi_read_line<C>(a, v, bin.region, 1);
    const nn_roi_range down = nn_roi_find_readable(&rows, bin.down, v.size[0]);
    const nn_roi_range across =
        nn_roi_find_readable(&columns, bin.across, v.size[1]);
    const int64_t plane = image * v.channels + bin.channel;
    double sum = image < 0 ? (double)NAN : 0;
    for (int64_t y = down.begin; y < down.end && image >= 0; ++y) {
      const double w = nn_roi_weigh(&rows, bin.down, y, v.size[0]);
      double row = 0;
      if (!(w > 0)) continue;
      for (int64_t x = across.begin; x < across.end; ++x) {
        const double u = nn_roi_weigh(&columns, bin.across, x, v.size[1]);
        if (u > 0)
          row += u * (double)tn_cuda_read<C>(
                         a.at[FROM], (plane * v.size[0] + y) * v.size[1] + x);
      }
      sum += w * row;
    }
    tn_cuda_write(a.at[TO], i, (C)sum);
  }
}

/* Returns the gradient that a region adds to element `place` of a channel. */
template <class C>
__device__ __forceinline__ double nn_roi_sum_bins(const nn_roi_arrays &a,
                                                  const nn_roi_view &v,
                                                  int64_t region, int64_t c,
                                                  int64_t place) {
  const int64_t y = place / v.size[1], x = place % v.size[1];
  const nn_roi_line rows = nn_roi_read_line<C>(a, v, region, 0);
  const nn_roi_line columns = nn_roi_read_line<C>(a, v, region, 1);
  const int64_t first = (region * v.channels + c) * v.bins[0] * v.bins[1];
  double sum = 0;
  for (int64_t p = 0; p < v.bins[0]; ++p) {
    const nn_roi_range down = nn_roi_find_readable(&rows, p, v.size[0]);
    if (y < down.begin || y >= down.end) continue;
    const double w = nn_roi_weigh(&rows, p, y, v.size[0]);
    for (int64_t q = 0; q < v.bins[1] && w > 0; ++q) {
      const nn_roi_range across = nn_roi_find_readable(&columns, q, v.size[1]);
      if (x < across.begin || x >= across.end) continue;
      const double u = nn_roi_weigh(&columns, q, x, v.size[1]);
      if (u > 0)
        sum += w * u *
               (double)tn_cuda_read<C>(a.at[FROM], first + p * v.bins[1] + q);
    }
  }
  return sum;
}

/* Computes the gradient of images of nn.roi_align. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_roi_spread_bins(nn_roi_arrays a, nn_roi_view v) {
  const int64_t size = v.size[0] * v.size[1];
  for (int64_t i = nn_first_index(); i < v.images * v.channels * size;
       i += nn_index_step()) {
    const int64_t plane = i / size, image = plane / v.channels;
    double sum = 0;
    for (int64_t r = 0; r < v.regions; ++r)
      if (nn_roi_find_image<C>(a, v, r) == image)
        sum +=
            nn_roi_sum_bins<C>(a, v, r, plane % v.channels, i - plane * size);
    tn_cuda_write(a.at[TO], i, (C)sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the arrays of a call, without CHOSEN; input `rois` has the regions.
 */
static nn_roi_arrays nn_roi_make_arrays(const tn_frame *call, int rois) {
  nn_roi_arrays a = {};
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[FROM] = tn_cuda_from(&call->in[0]);
  a.at[ROIS] = tn_cuda_from(&call->in[rois]);
  return a;
}

int32_t nn_roi_pooling_cuda(const tn_frame *call) {
  const nn_roi_view v = nn_roi_pooling_view_call(call);
  nn_roi_arrays a = nn_roi_make_arrays(call, NN_ROI_POOLING_IN_ROIS);
  a.at[CHOSEN] = tn_cuda_to(&call->out[1], call->req[1]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_roi_find_largest<decltype(type)>,
                                tn_tensor_size(&call->out[0]), stream, a, v);
    });
  });
}

int32_t nn_roi_pooling_cuda_backward(const tn_frame *call) {
  const nn_roi_view v = nn_roi_pooling_view_call(call);
  nn_roi_arrays a = nn_roi_make_arrays(call, NN_ROI_POOLING_BACKWARD_IN_ROIS);
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  a.at[CHOSEN] = tn_cuda_from(&call->in[NN_ROI_POOLING_BACKWARD_OUT_CHOSEN]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_roi_add_largest<decltype(type)>,
                                tn_tensor_size(&call->out[0]), stream, a, v);
    });
  });
}

int32_t nn_roi_align_cuda(const tn_frame *call) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const nn_roi_view v = nn_roi_align_view_call(call);
  const int rois =
      is_back ? (int)NN_ROI_ALIGN_BACKWARD_IN_ROIS : (int)NN_ROI_ALIGN_IN_ROIS;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      typedef decltype(type) C;
      return tn_cuda_start_each(
          call, is_back ? nn_roi_spread_bins<C> : nn_roi_reduce_bins<C>,
          tn_tensor_size(&call->out[0]), stream, nn_roi_make_arrays(call, rois),
          v);
    });
  });
}

int32_t nn_roi_align_cuda_backward(const tn_frame *call) {
  return nn_roi_align_cuda(call);
}
