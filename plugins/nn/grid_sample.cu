/* SPDX-License-Identifier: Apache-2.0
 * grid_sample.cu: grid_sample.yaml on CUDA devices. A thread computes an
 * element of out, or the gradient of a position. The gradient of images adds
 * taps in the order of points: the taps of all points are sorted by the element
 * that they read, so that those of an element are adjacent.
 */
#include "affine_positions.cuh"
#include "sample_view.h"
#include "tenon/kernel/scatter.cuh"

/* Indices of the arrays that CUDA kernels get. KEYS has a key for each tap of
 * all points: its element, counted over images of one channel. WEIGHTS has the
 * weights of taps, f64. */
enum { TO, DATA, GRID, OUT, KEYS, WEIGHTS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_sample_cuda_arrays;

/* Returns the largest number of taps of a point. */
static __host__ __device__ inline int64_t nn_sample_count_taps(
    const nn_sample_rule &rule) {
  if (rule.mode == NN_SAMPLE_NEAREST) return 1;
  return rule.mode == NN_SAMPLE_CUBIC ? 16 : (int64_t)1 << rule.rank;
}

/* Sets the elements along each dimension for a point of an image. */
template <class C>
__device__ __forceinline__ void nn_sample_find_lines(
    const nn_sample_cuda_arrays &a, const nn_sample_view &v, int64_t image,
    int64_t point, nn_sample_line *lines) {
  const int64_t at = image * v.grid_step + point * v.point_step;
  for (int k = 0; k < v.rule.rank; ++k) {
    const int d = NN_SAMPLE_RANK - 1 - k;
    nn_sample_find_line(
        &v.rule, v.rule.size[d],
        (double)tn_cuda_read<C>(a.at[GRID], at + k * v.coordinate_step),
        &lines[d]);
  }
}

/* Computes out. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sample_read_taps(nn_sample_cuda_arrays a, nn_sample_view v) {
  const int64_t n = v.images * v.channels * v.points;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t point = i % v.points, plane = i / v.points;
    nn_sample_line lines[NN_SAMPLE_RANK];
    nn_sample_find_lines<C>(a, v, plane / v.channels, point, lines);
    const nn_sample_taps taps = nn_sample_join_lines(&v.rule, lines, -1);
    C sum = 0;
    for (int t = 0; t < taps.n; ++t) {
      const C w = (C)taps.weight[t];
      if (taps.at[t] >= 0 && w != 0)
        sum += w * tn_cuda_read<C>(a.at[DATA], plane * v.size + taps.at[t]);
    }
    tn_cuda_write(a.at[TO], i, sum);
  }
}

/* Computes the gradient of the grid. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sample_write_slopes(nn_sample_cuda_arrays a, nn_sample_view v) {
  for (int64_t i = nn_first_index(); i < v.images * v.points;
       i += nn_index_step()) {
    const int64_t point = i % v.points, image = i / v.points;
    nn_sample_line lines[NN_SAMPLE_RANK];
    double products[NN_SAMPLE_TAPS];
    nn_sample_find_lines<C>(a, v, image, point, lines);
    nn_sample_taps taps = nn_sample_join_lines(&v.rule, lines, -1);
    if (v.rule.mode == NN_SAMPLE_NEAREST) taps.n = 0;
    for (int t = 0; t < taps.n; ++t) {
      products[t] = 0;
      for (int64_t c = 0; c < v.channels && taps.at[t] >= 0; ++c) {
        const int64_t plane = image * v.channels + c;
        products[t] +=
            (double)tn_cuda_read<C>(a.at[DATA], plane * v.size + taps.at[t]) *
            (double)tn_cuda_read<C>(a.at[OUT], plane * v.points + point);
      }
    }
    for (int k = 0; k < v.rule.rank; ++k) {
      const nn_sample_taps slopes =
          nn_sample_join_lines(&v.rule, lines, NN_SAMPLE_RANK - 1 - k);
      double sum = 0;
      for (int t = 0; t < taps.n; ++t)
        if (slopes.at[t] >= 0 && slopes.weight[t] != 0)
          sum += slopes.weight[t] * products[t];
      tn_cuda_write(
          a.at[TO],
          image * v.grid_step + point * v.point_step + k * v.coordinate_step,
          (C)sum);
    }
  }
}

/* Writes the keys and weights of the taps of all points. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sample_write_keys(nn_sample_cuda_arrays a, nn_sample_view v) {
  tn_cuda_key *keys = (tn_cuda_key *)a.at[KEYS].data;
  double *weights = (double *)a.at[WEIGHTS].data;
  const int64_t most = nn_sample_count_taps(v.rule);
  for (int64_t i = nn_first_index(); i < v.images * v.points;
       i += nn_index_step()) {
    const int64_t image = i / v.points;
    nn_sample_line lines[NN_SAMPLE_RANK];
    nn_sample_find_lines<C>(a, v, image, i % v.points, lines);
    const nn_sample_taps taps = nn_sample_join_lines(&v.rule, lines, -1);
    for (int t = 0; t < most; ++t) {
      const bool is_inside = t < taps.n && taps.at[t] >= 0;
      keys[i * most + t].value = is_inside ? image * v.size + taps.at[t] : -1;
      keys[i * most + t].i = i * most + t;
      weights[i * most + t] = is_inside ? taps.weight[t] : 0;
    }
  }
}

/* Computes the gradient of images. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sample_add_keys(nn_sample_cuda_arrays a, nn_sample_view v) {
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  const double *weights = (const double *)a.at[WEIGHTS].data;
  const int64_t most = nn_sample_count_taps(v.rule);
  const int64_t n_keys = v.images * v.points * most;
  const int64_t n = v.images * v.channels * v.size;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t plane = i / v.size, image = plane / v.channels;
    const int64_t element = image * v.size + i % v.size;
    C sum = 0;
    for (int64_t k = tn_cuda_search_keys(keys, n_keys, element);
         k < n_keys && keys[k].value == element; ++k) {
      const C w = (C)weights[keys[k].i];
      const int64_t point = keys[k].i / most - image * v.points;
      if (w != 0)
        sum += w * tn_cuda_read<C>(a.at[OUT], plane * v.points + point);
    }
    tn_cuda_write(a.at[TO], i, sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the number of taps of all points. */
static int64_t nn_sample_count_all_taps(const nn_sample_view &v) {
  return v.images * v.points * nn_sample_count_taps(v.rule);
}

/* Bytes of workspace for the gradient of images; `skip` bytes come first. */
static uint64_t nn_sample_count_bytes(const nn_sample_view &v) {
  const int64_t n = nn_sample_count_all_taps(v);
  return tn_cuda_key_bytes(n) + (uint64_t)n * sizeof(double);
}

/* Launches the kernels of the gradient of images. */
template <class C>
static int32_t nn_sample_launch_data(const tn_frame *call,
                                     const nn_sample_view &v,
                                     nn_sample_cuda_arrays a, void *room,
                                     cudaStream_t stream) {
  const int64_t n = nn_sample_count_all_taps(v);
  nn_sample_cuda_arrays own = {};
  own.at[GRID] = a.at[GRID];
  own.at[KEYS] = tn_cuda_key_array(room, n);
  own.at[WEIGHTS] =
      tn_cuda_room((char *)room + tn_cuda_key_bytes(n), TN_F64, n);
  int32_t code = tn_cuda_start_each(call, nn_sample_write_keys<C>,
                                    v.images * v.points, stream, own, v);
  a.at[WEIGHTS] = own.at[WEIGHTS];
  a.at[WEIGHTS].writes = 0;
  if (code == TN_OK) code = tn_cuda_sort(call, room, n, stream, &a.at[KEYS]);
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_sample_add_keys<C>,
                            v.images * v.channels * v.size, stream, a, v);
}

/* Launches the kernels of a backward call; a[TO] gets the gradient of the grid,
 * if it has data. */
template <class C>
static int32_t nn_sample_launch_backward(const tn_frame *call,
                                         const nn_sample_view &v,
                                         const nn_sample_cuda_arrays &a,
                                         void *room, cudaStream_t stream) {
  int32_t code = TN_OK;
  if (call->req[0] != TN_REQ_NULL)
    code = nn_sample_launch_data<C>(call, v, a, room, stream);
  if (code != TN_OK || a.at[TO].data == NULL) return code;
  return tn_cuda_start_each(call, nn_sample_write_slopes<C>,
                            v.images * v.points, stream, a, v);
}

/* Runs a call whose grid is an input. */
static int32_t nn_sample_run_cuda(const tn_frame *call,
                                  const nn_sample_view &v) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_sample_cuda_arrays a = {};
  a.at[DATA] = tn_cuda_from(&call->in[is_back ? 1 : 0]);
  a.at[GRID] = tn_cuda_from(&call->in[is_back ? 2 : 1]);
  if (is_back) a.at[OUT] = tn_cuda_from(&call->in[0]);
  a.at[TO] = is_back ? tn_cuda_to(&call->out[1], call->req[1])
                     : tn_cuda_to(&call->out[0], call->req[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      typedef decltype(type) C;
      if (is_back)
        return nn_sample_launch_backward<C>(call, v, a, call->ws[0], stream);
      return tn_cuda_start_each(call, nn_sample_read_taps<C>,
                                v.images * v.channels * v.points, stream, a, v);
    });
  });
}

/* Sets *bytes to the workspace of a call with this geometry. */
static int32_t nn_sample_set_bytes(const tn_frame *call,
                                   const nn_sample_view &v, uint64_t *bytes) {
  *bytes = (call->flags & TN_CALL_BACKWARD) ? nn_sample_count_bytes(v) : 0;
  return TN_OK;
}

#define KERNEL(name)                                                      \
  int32_t nn_##name##_cuda(const tn_frame *call) {                        \
    return nn_sample_run_cuda(call, nn_##name##_view_call(call));         \
  }                                                                       \
  int32_t nn_##name##_cuda_backward(const tn_frame *call) {               \
    return nn_##name##_cuda(call);                                        \
  }                                                                       \
  int32_t nn_##name##_cuda_bytes(const tn_frame *call, uint64_t *bytes) { \
    return nn_sample_set_bytes(call, nn_##name##_view_call(call), bytes); \
  }
KERNEL(grid_sample)
KERNEL(bilinear_sampler)

/* ------------------------------------------------------ spatial transformer */

/* Returns the affine positions of a call. */
static nn_affine_positions nn_spatial_transformer_make_positions(
    const tn_frame *call) {
  return nn_affine_make_planes(
      nn_spatial_transformer_view_call(call).images,
      nn_spatial_transformer_params_of(call)->target_shape.v);
}

/* Bytes of the positions of all points, in f64. */
static uint64_t nn_spatial_transformer_count_grid_bytes(
    const nn_sample_view &v) {
  return (uint64_t)(v.images * v.points * 2) * sizeof(double);
}

/* Sets *bytes to the workspace of a call: the positions and their gradient,
 * and memory for that of images. */
int32_t nn_spatial_transformer_cuda_bytes(const tn_frame *call,
                                          uint64_t *bytes) {
  const nn_sample_view v = nn_spatial_transformer_view_call(call);
  const int32_t code = nn_sample_set_bytes(call, v, bytes);
  *bytes += 2 * nn_spatial_transformer_count_grid_bytes(v);
  return code;
}

/* Launches all kernels of a call. */
template <class C>
static int32_t nn_spatial_transformer_launch(const tn_frame *call,
                                             cudaStream_t stream) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const nn_sample_view v = nn_spatial_transformer_view_call(call);
  const nn_affine_positions positions =
      nn_spatial_transformer_make_positions(call);
  const uint64_t bytes = nn_spatial_transformer_count_grid_bytes(v);
  const int64_t n = v.images * v.points * 2;
  const tn_dtype dtype = sizeof(C) == 8 ? TN_F64 : TN_F32;
  char *room = (char *)call->ws[0];
  nn_affine_cuda_arrays p = {};
  nn_sample_cuda_arrays a = {};
  p.at[NN_AFFINE_FROM] = tn_cuda_from(&call->in[is_back ? 2 : 1]);
  p.at[NN_AFFINE_TO] = tn_cuda_room(room, dtype, n);
  int32_t code = nn_affine_launch<C>(call, positions, p, false, stream);
  if (code != TN_OK) return code;
  a.at[DATA] = tn_cuda_from(&call->in[is_back ? 1 : 0]);
  a.at[GRID] = p.at[NN_AFFINE_TO];
  a.at[GRID].writes = 0;
  if (!is_back) {
    a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
    return tn_cuda_start_each(call, nn_sample_read_taps<C>,
                              v.images * v.channels * v.points, stream, a, v);
  }
  a.at[OUT] = tn_cuda_from(&call->in[0]);
  if (call->req[1] != TN_REQ_NULL)
    a.at[TO] = tn_cuda_room(room + bytes, dtype, n);
  code = nn_sample_launch_backward<C>(call, v, a, room + 2 * bytes, stream);
  if (code != TN_OK || call->req[1] == TN_REQ_NULL) return code;
  p.at[NN_AFFINE_FROM] = a.at[TO];
  p.at[NN_AFFINE_FROM].writes = 0;
  p.at[NN_AFFINE_TO] = tn_cuda_to(&call->out[1], call->req[1]);
  return nn_affine_launch<C>(call, positions, p, true, stream);
}

int32_t nn_spatial_transformer_cuda(const tn_frame *call) {
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_compute(call->out[0].dtype, [&](auto type) {
      return nn_spatial_transformer_launch<decltype(type)>(call, stream);
    });
  });
}

int32_t nn_spatial_transformer_cuda_backward(const tn_frame *call) {
  return nn_spatial_transformer_cuda(call);
}
