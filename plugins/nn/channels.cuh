/* SPDX-License-Identifier: Apache-2.0
 * channels.cuh: divides the channels of a tensor into pieces for the blocks of
 * a CUDA kernel, and adds the sums of pieces. A channel has all elements with
 * one index along an axis.
 */
#ifndef NN_CHANNELS_CUH_
#define NN_CHANNELS_CUH_

#include "nn.cuh"

/* A tensor as channels, one for each index along the axis: outer*inner elements
 * of each, or as many packs of elements, which are then the unit of counts.
 * Channels are cut into pieces, by shape and packs alone. A block has one piece
 * of up to `lanes` adjacent channels. Its sums are f64, and are merged in the
 * order of pieces. Every channel has a piece. */
struct nn_channels {
  int64_t outer;
  int64_t length;
  int64_t inner;
  int64_t pieces;
  int64_t each; /* packs of a piece, except the last one */
  unsigned lanes;
  unsigned lane_bits; /* binary logarithm of lanes */
  int pack;           /* elements of a pack: 1, or 4 */
  int reserved;
  tn_cuda_divisor by_inner;
  tn_cuda_divisor by_length;
  tn_cuda_divisor by_outer; /* division by length * inner, the number of packs
                               with one index of `outer` */
  tn_cuda_divisor by_pieces;
};

/* A thread's part of a piece: packs of its channel from `first` on, below
 * `end`. nn_visit_piece_part visits every n-th of them, where n is the number
 * of threads for the channel. */
struct nn_piece_part {
  int64_t channel;
  int64_t piece;
  int64_t n; /* elements of the piece */
  int64_t first;
  int64_t end;
  int leads; /* true for one thread of each channel */
};

/* Returns the binary logarithm of the number of threads that a block has for
 * each channel. */
__device__ __forceinline__ unsigned nn_count_thread_bits(const nn_channels &v) {
  return 8 - v.lane_bits;
}
static_assert(TN_CUDA_THREADS == 1 << 8, "nn_count_thread_bits");

/* Returns the number of blocks that all pieces of all channels need. */
static __host__ __device__ inline int64_t nn_count_channel_blocks(
    const nn_channels &v) {
  return (v.length + v.lanes - 1) / v.lanes * v.pieces;
}

/* Returns the channel of pack i of the tensor. */
__device__ __forceinline__ int64_t nn_find_channel(const nn_channels &v,
                                                   int64_t i) {
  const int64_t line = tn_cuda_quotient(i, v.by_inner);
  return line - tn_cuda_quotient(line, v.by_length) * v.length;
}

/* Returns the index within its channel of pack number `at` of the tensor. */
__device__ __forceinline__ int64_t nn_find_channel_index(const nn_channels &v,
                                                         int64_t channel,
                                                         int64_t at) {
  const int64_t outer = tn_cuda_quotient(at, v.by_outer);
  return at - (outer * (v.length - 1) + channel) * v.inner;
}

/* Returns the number of packs of a piece. */
__device__ __forceinline__ int64_t nn_count_piece_packs(const nn_channels &v,
                                                        int64_t piece) {
  const int64_t left = v.outer * v.inner - piece * v.each;
  return left < v.each ? left : v.each;
}

/* Returns the calling thread's part of the piece of block `number`. */
__device__ __forceinline__ nn_piece_part
nn_locate_piece_part(const nn_channels &v, int64_t number) {
  const int64_t group = tn_cuda_quotient(number, v.by_pieces);
  nn_piece_part part;
  part.channel = group * v.lanes + (threadIdx.x & (v.lanes - 1));
  part.piece = number - group * v.pieces;
  const int64_t packs = nn_count_piece_packs(v, part.piece);
  part.n = packs * v.pack;
  part.first = part.piece * v.each + (threadIdx.x >> v.lane_bits);
  const bool inside = part.channel < v.length;
  part.end = inside ? part.piece * v.each + packs : 0;
  part.leads = inside && threadIdx.x < v.lanes;
  return part;
}

/* Calls store(at, load(at)) for each pack of a thread's part of a piece, where
 * `at` is the pack's number in the tensor. Loads are issued ahead of stores, as
 * in tn_cuda_prefetch. All threads call `between` before the first store. */
template <class Load, class Between, class Store>
__device__ __forceinline__ void nn_visit_piece_part(const nn_channels &v,
                                                    const nn_piece_part &part,
                                                    Load load, Between between,
                                                    Store store) {
  enum { AHEAD = 2 };
  tn_cuda_walk walk =
      tn_cuda_walk_of(part.first, part.end, nn_count_thread_bits(v), v.by_inner,
                      v.length * v.inner, 1);
  walk.at += part.channel * v.inner;
  tn_cuda_prefetch_along<AHEAD>(walk, load, between, store);
}

template <class Load, class Store>
__device__ __forceinline__ void nn_visit_piece_part(const nn_channels &v,
                                                    const nn_piece_part &part,
                                                    Load load, Store store) {
  nn_visit_piece_part(
      v, part, load, [] {}, store);
}

/* Two numbers that are reduced together. */
struct nn_sum_pair {
  double first;
  double second;
};

/* Returns the pair of the thread whose number in the warp differs by
 * `lane_distance`. */
__device__ __forceinline__ nn_sum_pair tn_cuda_other(nn_sum_pair mine,
                                                     unsigned lane_distance) {
  const nn_sum_pair other = {tn_cuda_other(mine.first, lane_distance),
                             tn_cuda_other(mine.second, lane_distance)};
  return other;
}

struct nn_add_sum_pairs {
  __device__ __forceinline__ nn_sum_pair operator()(nn_sum_pair a,
                                                    nn_sum_pair b) const {
    const nn_sum_pair sum = {a.first + b.first, a.second + b.second};
    return sum;
  }
};

/* Returns the position of sum `which`, 0 or 1, of a piece in an array of f64.
 */
__device__ __forceinline__ int64_t nn_find_sum_index(const nn_channels &v,
                                                     int64_t channel,
                                                     int64_t piece, int which) {
  return (piece * 2 + which) * v.length + channel;
}

/* Stores both numbers of `pair`, sums over a piece of a channel, in the array
 * `sums`. One thread of each channel stores them. */
__device__ __forceinline__ void nn_store_piece_sums(const tn_cuda_array &sums,
                                                    const nn_channels &v,
                                                    const nn_piece_part &part,
                                                    const nn_sum_pair &pair) {
  if (!part.leads) return;
  double *to = (double *)sums.data;
  to[nn_find_sum_index(v, part.channel, part.piece, 0)] = pair.first;
  to[nn_find_sum_index(v, part.channel, part.piece, 1)] = pair.second;
}

/* Returns sum `which` of a channel: the sum over its pieces in their order. */
__device__ __forceinline__ double nn_add_piece_sums(const tn_cuda_array &sums,
                                                    const nn_channels &v,
                                                    int64_t channel,
                                                    int which) {
  double sum = 0;
  for (int64_t p = 0; p < v.pieces; ++p)
    sum += ((const double *)sums.data)[nn_find_sum_index(v, channel, p, which)];
  return sum;
}

enum { NN_SUMS, NN_SUMS_FIRST, NN_SUMS_SECOND, NN_SUMS_ARRAYS };

/* Writes both sums of each channel to their arrays. Either array may have no
 * data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_write_channel_sums(tn_cuda_arrays<NN_SUMS_ARRAYS> a, nn_channels v) {
  for (int64_t c = nn_first_index(); c < v.length; c += nn_index_step())
    for (int k = 0; k < 2; ++k) {
      const tn_cuda_array &to = a.at[NN_SUMS_FIRST + k];
      if (to.data != NULL)
        tn_cuda_set((T *)to.data + c, nn_add_piece_sums(a.at[NN_SUMS], v, c, k),
                    to.adds);
    }
}

/* Divides a tensor of outer x length x inner elements into pieces. With
 * are_fours it uses packs of four: inner must be a multiple of four and all
 * arrays aligned. Single elements have at least as many pieces. */
static inline nn_channels nn_choose_channel_pieces(int64_t outer,
                                                   int64_t length,
                                                   int64_t inner,
                                                   bool are_fours = false) {
  enum {
    MOST = 256
  }; /* largest number of pieces of a channel, because one thread adds them */
  enum {
    WHOLE = 8192
  }; /* elements of a channel that stay one piece, because a second launch would
        cost more */
  enum { BUSY = 4 }; /* packs for a thread */
  enum { BLOCKS = 256 };
  nn_channels v = {};
  v.pack = are_fours ? 4 : 1;
  v.outer = outer;
  v.length = length;
  v.inner = inner / v.pack;
  v.lanes = inner == 1 ? nn_round_to_power_of_2(length, 32) : 1;
  const int64_t n = v.outer * v.inner, share = (n + MOST - 1) / MOST;
  v.each = v.lanes > 1 ? 512 : 4096 / v.pack;
  if (n <= (v.lanes > 1 ? 1024 : WHOLE / v.pack)) v.each = n > 0 ? n : 1;
  if (v.each < share) v.each = share;
  /* A block has several short channels, as long as there are many blocks. */
  while (v.each == n && v.lanes < 32 &&
         2 * v.lanes * n <= BUSY * TN_CUDA_THREADS &&
         2 * v.lanes * BLOCKS <= length)
    v.lanes *= 2;
  while (1u << v.lane_bits < v.lanes) ++v.lane_bits;
  if (length > 0) v.pieces = n > 0 ? (n + v.each - 1) / v.each : 1;
  v.by_inner = tn_cuda_divisor_of(v.inner);
  v.by_length = tn_cuda_divisor_of(length);
  v.by_outer = tn_cuda_divisor_of(length * v.inner);
  v.by_pieces = tn_cuda_divisor_of(v.pieces);
  return v;
}

/* Bytes of workspace for both sums of all pieces. */
static inline uint64_t nn_count_sum_bytes(const nn_channels &v) {
  return (uint64_t)(2 * v.pieces * v.length) * sizeof(double);
}

/* Returns the array of sums in a workspace. */
static inline tn_cuda_array nn_make_sums_array(void *memory,
                                               const nn_channels &v) {
  return tn_cuda_room(memory, TN_F64, 2 * v.pieces * v.length);
}

#endif /* NN_CHANNELS_CUH_ */
