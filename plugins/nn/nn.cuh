/* SPDX-License-Identifier: Apache-2.0
 * nn.cuh: what kernels of this plugin for CUDA devices share: functions of both
 * types, loops over elements, lines that are folded, rows that threads keep,
 * and sums of channels. All tensors are dense; T is the type of elements,
 * nn_wide<T> that in which they are computed.
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

/* N neighbours, 1 or 4, which a thread moves in one go. */
template <class T, int N>
struct alignas(N * sizeof(T)) nn_pack {
  T x[N];
};

/* Whether an array that has data is a whole number of fours that lie where
 * fours do; one without data does not mind. */
static inline bool nn_is_fours(const tn_cuda_array &array, int64_t n) {
  const uintptr_t bytes = 4 * (uintptr_t)tn_dtype_bytes(array.dtype);
  return array.data == NULL ||
         (n % 4 == 0 && (uintptr_t)array.data % bytes == 0);
}

/* Pack i of an array. */
template <class T, int N>
__device__ __forceinline__ nn_pack<nn_wide<T>, N> nn_get_pack(
    const tn_cuda_array &array, int64_t i) {
  const nn_pack<T, N> in = ((const nn_pack<T, N> *)array.data)[i];
  nn_pack<nn_wide<T>, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) out.x[k] = tn_cuda_get<nn_wide<T>>(in.x[k]);
  return out;
}

/* Sets a pack, or adds to it. */
template <class T, int N>
__device__ __forceinline__ void nn_put_pack(
    const tn_cuda_array &array, int64_t i,
    const nn_pack<nn_wide<T>, N> &value) {
  nn_pack<T, N> *to = (nn_pack<T, N> *)array.data + i;
  nn_pack<T, N> out;
  if (array.adds) out = *to;
#pragma unroll
  for (int k = 0; k < N; ++k) tn_cuda_set(&out.x[k], value.x[k], array.adds);
  *to = out;
}

template <int N>
struct nn_pack_size {
  enum { value = N };
};

/* Calls `run` with a value whose type says how many neighbours packs have. */
template <class Run>
static inline int32_t nn_by_pack(bool are_fours, Run run) {
  return are_fours ? run(nn_pack_size<4>()) : run(nn_pack_size<1>());
}

/* -------------------------------------------------------------------- lines */

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
  tn_cuda_divisor by_inner;
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
  const int64_t before = tn_cuda_quotient(line.number, v.by_inner) * v.inner;
  line.at = before * v.length + (line.number - before);
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
 * side by side, all threads' where there are lines enough for that and none is
 * long; otherwise as many short ones as a block has threads for. */
static inline nn_lines nn_lines_for(int64_t outer, int64_t length,
                                    int64_t inner) {
  enum { MANY = 1 << 15, SHORT = 256 };
  const int alone = inner >= 32 && outer * inner >= MANY && length <= SHORT;
  nn_lines v = {outer, length, inner, 1, tn_cuda_divisor_of(inner)};
  if (inner > 1)
    v.lanes = alone ? (unsigned)TN_CUDA_THREADS : nn_lanes_for(inner, 32);
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

/* --------------------------------------------------------------------- rows */

/* Lines that are dense, each of which some threads of a block read once, and
 * keep. */
struct nn_rows {
  int64_t n;
  int64_t length;
  unsigned threads; /* of a row: a power of 2, at most 32, or all of a block */
  int are_fours;    /* rows are packs of four */
};

/* How they are kept: each of THREADS keeps up to PACKS packs of SIZE. THREADS
 * is 0 where rows are so short that fewer than a warp have one. */
template <int THREADS, int PACKS, int SIZE>
struct nn_row_shape {
  static constexpr unsigned threads = THREADS;
  static constexpr int packs = PACKS;
  static constexpr int size = SIZE;
};

enum { NN_ROW_FEW = 4, NN_ROW_MANY = 32 }; /* elements that a thread keeps */

/* Rows without `threads` are none, or too long. */
static inline nn_rows nn_rows_of(const nn_lines &lines) {
  const int64_t warp = 32, n = lines.length;
  nn_rows v = {lines.outer, n, 0, 0};
  if (lines.inner != 1 || n < 1) return v;
  if (n <= warp * NN_ROW_FEW)
    v.threads = nn_lanes_for((n + NN_ROW_FEW - 1) / NN_ROW_FEW, warp);
  else if (n <= warp * NN_ROW_MANY)
    v.threads = warp;
  else if (n <= TN_CUDA_THREADS * NN_ROW_MANY)
    v.threads = TN_CUDA_THREADS;
  return v;
}

/* Says that an array of rows will be read or written; all are before `v` is
 * handed on. */
static inline void nn_rows_meet(nn_rows *v, const tn_cuda_array &array,
                                bool is_first) {
  v->are_fours = (is_first || v->are_fours) && nn_is_fours(array, v->length);
}

/* What a thread has of its row: the packs that nn_row_pack tells, from `at` on.
 */
struct nn_row {
  int64_t number;
  int64_t at; /* in packs */
  unsigned first;
  unsigned end; /* 0 where there is no row */
  unsigned threads;
  int leads; /* one thread of each row */
};

template <class S>
__device__ __forceinline__ nn_row nn_row_of(const nn_rows &v, int64_t group) {
  const unsigned threads = S::threads > 0 ? S::threads : v.threads;
  nn_row row;
  row.number = group * (TN_CUDA_THREADS / threads) + threadIdx.x / threads;
  row.at = row.number * (v.length / S::size);
  row.first = threadIdx.x % threads;
  row.threads = threads;
  row.end = row.number < v.n ? (unsigned)(v.length / S::size) : 0;
  row.leads = row.end > 0 && row.first == 0;
  return row;
}

/* How many blocks' work the rows are. */
static __host__ __device__ inline int64_t nn_row_groups(const nn_rows &v) {
  const int64_t each = TN_CUDA_THREADS / v.threads;
  return (v.n + each - 1) / each;
}

/* The place in the row of what a thread keeps as number `which`. */
template <class S>
__device__ __forceinline__ unsigned nn_row_pack(const nn_row &row, int which) {
  return row.first +
         (unsigned)which * (S::threads > 0 ? S::threads : row.threads);
}

/* Keeps a thread's elements; `none` where the row has no more. */
template <class T, class S>
__device__ __forceinline__ void nn_row_get(
    const tn_cuda_array &from, const nn_row &row, nn_wide<T> none,
    nn_pack<nn_wide<T>, S::size> (&kept)[S::packs]) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const unsigned k = nn_row_pack<S>(row, u);
#pragma unroll
    for (int e = 0; e < S::size; ++e) kept[u].x[e] = none;
    if (k < row.end) kept[u] = nn_get_pack<T, S::size>(from, row.at + k);
  }
}

template <class T, class S>
__device__ __forceinline__ void nn_row_put(
    const tn_cuda_array &to, const nn_row &row,
    const nn_pack<nn_wide<T>, S::size> (&kept)[S::packs]) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const unsigned k = nn_row_pack<S>(row, u);
    if (k < row.end) nn_put_pack<T, S::size>(to, row.at + k, kept[u]);
  }
}

/* Calls each(element, whether the row has it) with all that a thread keeps. */
template <class S, class C, class Each>
__device__ __forceinline__ void nn_row_each(
    const nn_row &row, nn_pack<C, S::size> (&kept)[S::packs], Each each) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const bool has = nn_row_pack<S>(row, u) < row.end;
#pragma unroll
    for (int e = 0; e < S::size; ++e) each(kept[u].x[e], has);
  }
}

/* Calls each(element of one, element of the other) with all of two that a
 * thread keeps, those behind the end of the row included. */
template <class S, class C, class Each>
__device__ __forceinline__ void nn_row_both(
    nn_pack<C, S::size> (&one)[S::packs], nn_pack<C, S::size> (&two)[S::packs],
    Each each) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u)
#pragma unroll
    for (int e = 0; e < S::size; ++e) each(one[u].x[e], two[u].x[e]);
}

/* Like tn_cuda_fold, for the threads of a row. */
template <class S, class C, class Fold>
__device__ __forceinline__ C nn_row_fold(C *part, C mine, Fold fold,
                                         const nn_row &row) {
  if (S::threads == TN_CUDA_THREADS) return tn_cuda_fold(part, mine, fold);
  return tn_cuda_fold_warp(mine, fold, row.threads);
}

/* Calls `run` with a value whose type is the shape of rows. */
template <class Run>
static inline int32_t nn_by_rows(const nn_rows &v, Run run) {
  enum { BLOCK = TN_CUDA_THREADS, MANY = NN_ROW_MANY };
  if (v.length <= 32 * NN_ROW_FEW) return run(nn_row_shape<0, NN_ROW_FEW, 1>());
  if (v.threads == BLOCK && v.are_fours)
    return run(nn_row_shape<BLOCK, MANY / 4, 4>());
  if (v.threads == BLOCK) return run(nn_row_shape<BLOCK, MANY, 1>());
  if (v.are_fours) return run(nn_row_shape<32, MANY / 4, 4>());
  return run(nn_row_shape<32, MANY, 1>());
}

/* ----------------------------------------------------------------- channels */

/* The same tensor, whose indices along the axis are channels: outer*inner
 * elements of each, or that many packs of elements, which are then what is
 * counted. They are cut into pieces, by shape alone, of which each is a
 * block's, for up to `lanes` channels side by side: its sums are f64, and are
 * put together in the order of pieces. Every channel has a piece. */
struct nn_channels {
  int64_t outer;
  int64_t length;
  int64_t inner;
  int64_t pieces;
  int64_t each; /* packs of a piece */
  unsigned lanes;
  unsigned lane_bits; /* lanes are 2 to the power of it */
  int pack;           /* elements of a pack: 1, or 4 */
  int reserved;
  tn_cuda_divisor by_inner;
  tn_cuda_divisor by_length;
  tn_cuda_divisor by_outer; /* packs of all channels for one of `outer` */
  tn_cuda_divisor by_pieces;
};

/* What a thread has of a piece: packs of its channel from `first` on, below
 * `end`, of which nn_part_each visits every so-many-th. */
struct nn_part {
  int64_t channel;
  int64_t piece;
  int64_t n; /* elements of the piece */
  int64_t first;
  int64_t end;
  int leads; /* one thread of each channel */
};

/* Threads of a block that have a channel: 2 to the power of it. */
__device__ __forceinline__ unsigned nn_part_bits(const nn_channels &v) {
  return 8 - v.lane_bits;
}
static_assert(TN_CUDA_THREADS == 1 << 8, "nn_part_bits");

/* Elements of a channel. */
static __host__ __device__ inline int64_t nn_channel_size(
    const nn_channels &v) {
  return v.outer * v.inner * v.pack;
}

static __host__ __device__ inline int64_t nn_channel_parts(
    const nn_channels &v) {
  return (v.length + v.lanes - 1) / v.lanes * v.pieces;
}

/* Whose pack i is. */
__device__ __forceinline__ int64_t nn_channel_of(const nn_channels &v,
                                                 int64_t i) {
  const int64_t line = tn_cuda_quotient(i, v.by_inner);
  return line - tn_cuda_quotient(line, v.by_length) * v.length;
}

/* Which of its channel's packs number `at` is. */
__device__ __forceinline__ int64_t nn_channel_index(const nn_channels &v,
                                                    int64_t channel,
                                                    int64_t at) {
  const int64_t outer = tn_cuda_quotient(at, v.by_outer);
  return at - (outer * (v.length - 1) + channel) * v.inner;
}

/* Packs of a piece. */
__device__ __forceinline__ int64_t nn_part_packs(const nn_channels &v,
                                                 int64_t piece) {
  const int64_t left = v.outer * v.inner - piece * v.each;
  return left < v.each ? left : v.each;
}

__device__ __forceinline__ nn_part nn_part_of(const nn_channels &v,
                                              int64_t number) {
  const int64_t group = tn_cuda_quotient(number, v.by_pieces);
  nn_part part;
  part.channel = group * v.lanes + (threadIdx.x & (v.lanes - 1));
  part.piece = number - group * v.pieces;
  const int64_t packs = nn_part_packs(v, part.piece);
  part.n = packs * v.pack;
  part.first = part.piece * v.each + (threadIdx.x >> v.lane_bits);
  const bool inside = part.channel < v.length;
  part.end = inside ? part.piece * v.each + packs : 0;
  part.leads = inside && threadIdx.x < v.lanes;
  return part;
}

/* Like tn_cuda_ahead, over what a thread has of a piece: store(at, load(at)),
 * where `at` is the number of a pack in the tensor. Before the first store all
 * threads call `between`. */
template <class Load, class Between, class Store>
__device__ __forceinline__ void nn_part_each(const nn_channels &v,
                                             const nn_part &part, Load load,
                                             Between between, Store store) {
  enum { AHEAD = 4 };
  tn_cuda_walk walk = tn_cuda_walk_of(part.first, part.end, nn_part_bits(v),
                                      v.by_inner, v.length * v.inner, 1);
  walk.at += part.channel * v.inner;
  tn_cuda_ahead_along<AHEAD>(walk, load, between, store);
}

template <class Load, class Store>
__device__ __forceinline__ void nn_part_each(const nn_channels &v,
                                             const nn_part &part, Load load,
                                             Store store) {
  nn_part_each(
      v, part, load, [] {}, store);
}

/* Two numbers that are folded in one go. */
struct nn_pair {
  double first;
  double second;
};

__device__ __forceinline__ nn_pair tn_cuda_other(nn_pair mine, unsigned apart) {
  const nn_pair other = {tn_cuda_other(mine.first, apart),
                         tn_cuda_other(mine.second, apart)};
  return other;
}

struct nn_pair_plus {
  __device__ __forceinline__ nn_pair operator()(nn_pair a, nn_pair b) const {
    const nn_pair sum = {a.first + b.first, a.second + b.second};
    return sum;
  }
};

/* Where sum `which` of two stands in an array of f64. */
__device__ __forceinline__ int64_t nn_sum_at(const nn_channels &v,
                                             int64_t channel, int64_t piece,
                                             int which) {
  return (piece * 2 + which) * v.length + channel;
}

/* Keeps the two sums of a piece. */
__device__ __forceinline__ void nn_sums_put(const tn_cuda_array &sums,
                                            const nn_channels &v,
                                            const nn_part &part,
                                            const nn_pair &pair) {
  if (!part.leads) return;
  double *to = (double *)sums.data;
  to[nn_sum_at(v, part.channel, part.piece, 0)] = pair.first;
  to[nn_sum_at(v, part.channel, part.piece, 1)] = pair.second;
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

/* As packs of four if lines are whole numbers of them, and all arrays lie where
 * fours do: that of single elements has no fewer pieces. */
static inline nn_channels nn_channels_of(int64_t outer, int64_t length,
                                         int64_t inner,
                                         bool are_fours = false) {
  enum { MOST = 256 };   /* pieces, as one thread puts them together */
  enum { WHOLE = 8192 }; /* elements that are not worth a second launch */
  nn_channels v = {};
  v.pack = are_fours ? 4 : 1;
  v.outer = outer;
  v.length = length;
  v.inner = inner / v.pack;
  v.lanes = inner == 1 ? nn_lanes_for(length, 32) : 1;
  while (1u << v.lane_bits < v.lanes) ++v.lane_bits;
  const int64_t n = v.outer * v.inner, share = (n + MOST - 1) / MOST;
  v.each = v.lanes > 1 ? 512 : 4096 / v.pack;
  if (n <= (v.lanes > 1 ? 1024 : WHOLE / v.pack)) v.each = n > 0 ? n : 1;
  if (v.each < share) v.each = share;
  if (length > 0) v.pieces = n > 0 ? (n + v.each - 1) / v.each : 1;
  v.by_inner = tn_cuda_divisor_of(v.inner);
  v.by_length = tn_cuda_divisor_of(length);
  v.by_outer = tn_cuda_divisor_of(length * v.inner);
  v.by_pieces = tn_cuda_divisor_of(v.pieces);
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
