/* SPDX-License-Identifier: Apache-2.0
 * nn.cuh: what kernels of this plugin for CUDA devices share: functions of both
 * types, loops over elements, lines that are folded, and sums of channels. All
 * tensors are dense; T is the type of elements, nn_wide<T> that in which they
 * are computed.
 */
#ifndef NN_NN_CUH_
#define NN_NN_CUH_

#include "tenon/kernel.cuh"

/* ---------------------------------------------------------------- functions */

#define NN_FUNCTION(name, single, twice)             \
  __device__ __forceinline__ float name(float x) {   \
    return single(x);                                \
  }                                                  \
  __device__ __forceinline__ double name(double x) { \
    return twice(x);                                 \
  }
NN_FUNCTION(nn_exp, expf, exp)
NN_FUNCTION(nn_expm1, expm1f, expm1)
NN_FUNCTION(nn_log, logf, log)
#undef NN_FUNCTION

/* ----------------------------------------------------------------- elements */

template <class T>
using nn_wide = typename tn_cuda_compute<T>::type;

template <class T>
__device__ __forceinline__ nn_wide<T> nn_get(const tn_cuda_array &array,
                                             int64_t i) {
  return tn_cuda_get<nn_wide<T>>(((const T *)array.data)[i]);
}

/* Sets an element, or adds to it. */
template <class T>
__device__ __forceinline__ void nn_put(const tn_cuda_array &array, int64_t i,
                                       nn_wide<T> value) {
  tn_cuda_set((T *)array.data + i, value, array.adds);
}

/* What a thread has of n pieces of work:
 * for (i = nn_first(); i < n; i += nn_step()) */
__device__ __forceinline__ int64_t nn_first(void) {
  return (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
}

__device__ __forceinline__ int64_t nn_step(void) {
  return (int64_t)gridDim.x * TN_CUDA_THREADS;
}

/* ------------------------------------------------------------------- blocks */

/* The least power of 2 that is not below n, at most `most`. */
static inline unsigned nn_lanes_for(int64_t n, unsigned most) {
  unsigned lanes = 1;
  while (lanes < most && lanes < n) lanes *= 2;
  return lanes;
}

/* A dense tensor as lines along an axis: element k of line o*inner + s stands
 * at (o*length + k)*inner + s. A block has `lanes` of them at a time. */
struct nn_lines {
  int64_t outer;
  int64_t length;
  int64_t inner;
  unsigned lanes;
};

/* What a thread has of its line:
 * for (k = line.first; k < line.end; k += line.step) at line.at + k*inner */
struct nn_line {
  int64_t number;
  int64_t at;
  int64_t first;
  int64_t end; /* 0 where there is no line */
  int64_t step;
  int leads; /* one thread of each line */
};

__device__ __forceinline__ nn_line nn_line_of(const nn_lines &v,
                                              int64_t group) {
  nn_line line;
  line.number = group * v.lanes + threadIdx.x % v.lanes;
  line.at = line.number / v.inner * v.length * v.inner + line.number % v.inner;
  line.first = threadIdx.x / v.lanes;
  line.step = TN_CUDA_THREADS / v.lanes;
  const bool inside = line.number < v.outer * v.inner;
  line.end = inside ? v.length : 0;
  line.leads = inside && line.first == 0;
  return line;
}

/* How many blocks' work the lines are. */
static __host__ __device__ inline int64_t nn_line_groups(const nn_lines &v) {
  return (v.outer * v.inner + v.lanes - 1) / v.lanes;
}

/* Neighbours in memory are read by neighbours of a block: lanes where lines lie
 * side by side, otherwise as many short ones as a block has threads for. */
static inline nn_lines nn_lines_for(int64_t outer, int64_t length,
                                    int64_t inner) {
  nn_lines v = {outer, length, inner, 1};
  if (inner > 1) v.lanes = nn_lanes_for(inner, 32);
  while (inner == 1 && v.lanes < TN_CUDA_THREADS &&
         2 * v.lanes * length <= TN_CUDA_THREADS)
    v.lanes *= 2;
  return v;
}

/* Dimensions `first` to `last` as one axis. */
static inline nn_lines nn_lines_of(const tn_tensor *tensor, int32_t first,
                                   int32_t last) {
  int64_t outer = 1, length = 1, inner = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    (d < first ? outer : d > last ? inner : length) *= tensor->shape[d];
  return nn_lines_for(outer, length, inner);
}

/* ----------------------------------------------------------------- channels */

/* The same tensor, whose indices along the axis are channels: outer*inner
 * elements of each. They are cut into pieces, by shape alone, of which each is
 * a block's, for up to `lanes` channels side by side: its sums are f64, and are
 * put together in the order of pieces. */
struct nn_channels {
  int64_t outer;
  int64_t length;
  int64_t inner;
  int64_t pieces;
  int64_t each; /* elements of a piece */
  unsigned lanes;
};

/* What a thread has of a piece:
 * for (j = part.first; j < part.end; j += part.step)
 *   at nn_channel_at(v, part.channel, j) */
struct nn_part {
  int64_t channel;
  int64_t piece;
  int64_t n; /* elements of the piece */
  int64_t first;
  int64_t end;
  int64_t step;
  int leads; /* one thread of each channel */
};

static __host__ __device__ inline int64_t nn_channel_size(
    const nn_channels &v) {
  return v.outer * v.inner;
}

static __host__ __device__ inline int64_t nn_channel_parts(
    const nn_channels &v) {
  return (v.length + v.lanes - 1) / v.lanes * v.pieces;
}

__device__ __forceinline__ int64_t nn_channel_at(const nn_channels &v,
                                                 int64_t channel, int64_t j) {
  return (j / v.inner * v.length + channel) * v.inner + j % v.inner;
}

/* Whose an element is. */
__device__ __forceinline__ int64_t nn_channel_of(const nn_channels &v,
                                                 int64_t i) {
  return i / v.inner % v.length;
}

__device__ __forceinline__ int64_t nn_part_size(const nn_channels &v,
                                                int64_t piece) {
  const int64_t left = nn_channel_size(v) - piece * v.each;
  return left < v.each ? left : v.each;
}

__device__ __forceinline__ nn_part nn_part_of(const nn_channels &v,
                                              int64_t number) {
  nn_part part;
  part.channel = number / v.pieces * v.lanes + threadIdx.x % v.lanes;
  part.piece = number % v.pieces;
  part.n = nn_part_size(v, part.piece);
  part.first = part.piece * v.each + threadIdx.x / v.lanes;
  part.step = TN_CUDA_THREADS / v.lanes;
  const bool inside = part.channel < v.length;
  part.end = inside ? part.piece * v.each + part.n : 0;
  part.leads = inside && threadIdx.x < v.lanes;
  return part;
}

/* Where sum `which` of two stands in an array of f64. */
__device__ __forceinline__ int64_t nn_sum_at(const nn_channels &v,
                                             int64_t channel, int64_t piece,
                                             int which) {
  return (piece * 2 + which) * v.length + channel;
}

/* Keeps the two sums of a piece. */
__device__ __forceinline__ void nn_sums_put(const tn_cuda_array &sums,
                                            const nn_channels &v,
                                            const nn_part &part, double first,
                                            double second) {
  if (!part.leads) return;
  double *to = (double *)sums.data;
  to[nn_sum_at(v, part.channel, part.piece, 0)] = first;
  to[nn_sum_at(v, part.channel, part.piece, 1)] = second;
}

/* Those of all pieces of a channel. */
__device__ __forceinline__ double nn_sums_get(const tn_cuda_array &sums,
                                              const nn_channels &v,
                                              int64_t channel, int which) {
  double sum = 0;
  for (int64_t p = 0; p < v.pieces; ++p)
    sum += ((const double *)sums.data)[nn_sum_at(v, channel, p, which)];
  return sum;
}

enum { NN_SUMS, NN_SUMS_FIRST, NN_SUMS_SECOND, NN_SUMS_ARRAYS };

/* The sums of channels to where they are wanted: either may be without data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sums_finish(tn_cuda_arrays<NN_SUMS_ARRAYS> a, nn_channels v) {
  for (int64_t c = nn_first(); c < v.length; c += nn_step())
    for (int k = 0; k < 2; ++k) {
      const tn_cuda_array &to = a.at[NN_SUMS_FIRST + k];
      if (to.data != NULL)
        tn_cuda_set((T *)to.data + c, nn_sums_get(a.at[NN_SUMS], v, c, k),
                    to.adds);
    }
}

static inline nn_channels nn_channels_of(int64_t outer, int64_t length,
                                         int64_t inner) {
  enum { MOST = 256 }; /* pieces, as one thread puts them together */
  nn_channels v = {outer, length, inner, 0, 1, 1};
  const int64_t n = outer * inner;
  if (inner == 1) v.lanes = nn_lanes_for(length, 32);
  v.each = v.lanes > 1 ? 512 : 4096;
  if (v.each < (n + MOST - 1) / MOST) v.each = (n + MOST - 1) / MOST;
  if (length > 0) v.pieces = (n + v.each - 1) / v.each;
  return v;
}

/* Bytes of an array of sums. */
static inline uint64_t nn_sums_bytes(const nn_channels &v) {
  return (uint64_t)(2 * v.pieces * v.length) * sizeof(double);
}

static inline tn_cuda_array nn_sums_room(void *room, const nn_channels &v) {
  return tn_cuda_room(room, TN_F64, 2 * v.pieces * v.length);
}

#endif /* NN_NN_CUH_ */
