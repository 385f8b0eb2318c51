/* SPDX-License-Identifier: Apache-2.0
 * attention.cuh: tiles of scores of attention.yaml on CUDA devices. A tile has
 * 32 rows of q and 32 of k, the columns of the scores. Thread t computes row
 * t/8 of it, in the columns t%8, t%8 + 8, ...; a result has the same threads,
 * for up to NN_ATTENTION_CHUNK of its columns.
 */
#ifndef NN_ATTENTION_CUH_
#define NN_ATTENTION_CUH_

#include "nn.cuh"
#include "tenon/kernel/philox.cuh"

enum {
  NN_ATTENTION_EDGE = 32,   /* rows and columns of a tile */
  NN_ATTENTION_LANES = 8,   /* threads of a row */
  NN_ATTENTION_EACH = 4,    /* elements of a row for each thread */
  NN_ATTENTION_PIECES = 8,  /* pieces of a chunk, each 32 columns */
  NN_ATTENTION_CHUNK = 256, /* columns of a result that a block computes */
};

/* Arrays of the kernels. TO, LSE and DRAWN are written forward; backward, TO is
 * a gradient, H the output gradient. */
enum {
  NN_ATTENTION_TO,
  NN_ATTENTION_LSE,
  NN_ATTENTION_DRAWN,
  NN_ATTENTION_Q,
  NN_ATTENTION_K,
  NN_ATTENTION_V,
  NN_ATTENTION_MASK,
  NN_ATTENTION_LENGTHS,
  NN_ATTENTION_H,
  NN_ATTENTION_OUT,
  NN_ATTENTION_OFFSET,
  NN_ATTENTION_ARRAYS
};
typedef tn_cuda_arrays<NN_ATTENTION_ARRAYS> nn_attention_arrays;

/* Shapes and parameters of a call. */
struct nn_attention_view {
  int64_t batch;
  int64_t heads;
  int64_t key_heads;
  int64_t rows;
  int64_t columns;
  int64_t depth;
  int64_t width;
  int64_t offset;
  int64_t window;
  int64_t mask_step[4]; /* distances of elements of the mask; 0: broadcast */
  double scale;
  double softcap;
  double kept;    /* factor of weights that are not dropped */
  uint32_t limit; /* weights with a word below are dropped */
  int causal;
  int drops;
  int reserved;
  tn_cuda_random random;
};

/* Shared memory of a block. */
template <class C>
struct nn_attention_shared {
  C one[NN_ATTENTION_EDGE][NN_ATTENTION_EDGE + 1];
  C two[NN_ATTENTION_EDGE][NN_ATTENTION_EDGE + 1];
  C weight[NN_ATTENTION_EDGE][NN_ATTENTION_EDGE + 1];
};

/* A tile of one head of q. */
struct nn_attention_place {
  int64_t batch;
  int64_t head;
  int64_t row;
  int64_t column;
};

/* Rows of an array: n rows of `length` elements from row `first` on. */
struct nn_attention_lines {
  int64_t first;
  int64_t n;
  int64_t length;
};

/* Rows of an array of the device. */
struct nn_attention_source {
  const tn_cuda_array &array;
  nn_attention_lines lines;
};

/* Scores of a thread, later weights, and derivatives of softcap. */
template <class C>
struct nn_attention_scores {
  C x[NN_ATTENTION_EACH];
  C bend[NN_ATTENTION_EACH];
};

__device__ __forceinline__ float nn_attention_tanh(float x) {
  return tanhf(x);
}

__device__ __forceinline__ double nn_attention_tanh(double x) {
  return tanh(x);
}

/* The numbers of the calling thread in a tile. */
__device__ __forceinline__ int nn_attention_row(void) {
  return (int)threadIdx.x / NN_ATTENTION_LANES;
}

__device__ __forceinline__ int nn_attention_column(int j) {
  return (int)threadIdx.x % NN_ATTENTION_LANES + NN_ATTENTION_LANES * j;
}

/* Returns the rows of q, or of an array with its rows, in a tile. */
__device__ __forceinline__ nn_attention_lines nn_attention_find_rows(
    const nn_attention_view &v, const nn_attention_place &p, int64_t length) {
  const nn_attention_lines lines = {
      (p.batch * v.heads + p.head) * v.rows + p.row, v.rows - p.row, length};
  return lines;
}

/* Returns the rows of k or v in a tile. */
__device__ __forceinline__ nn_attention_lines nn_attention_find_keys(
    const nn_attention_view &v, const nn_attention_place &p, int64_t length) {
  const int64_t head = p.head / (v.heads / v.key_heads);
  const nn_attention_lines lines = {
      (p.batch * v.key_heads + head) * v.columns + p.column,
      v.columns - p.column, length};
  return lines;
}

/* Loads 32 rows and 32 columns from column `from` on; others become 0. */
template <class T, class C>
__device__ __forceinline__ void nn_attention_load(
    C (&to)[NN_ATTENTION_EDGE][NN_ATTENTION_EDGE + 1],
    const tn_cuda_array &array, const nn_attention_lines &lines, int64_t from) {
  enum { EDGE = NN_ATTENTION_EDGE };
  for (int i = (int)threadIdx.x; i < EDGE * EDGE; i += TN_CUDA_THREADS) {
    const int r = i / EDGE, c = i % EDGE;
    const bool has = r < lines.n && from + c < lines.length;
    to[r][c] = has ? nn_load_element<T>(
                         array, (lines.first + r) * lines.length + from + c)
                   : (C)0;
  }
}

/* Sets `dot` to the products of the thread's row of `a` with its rows of b. All
 * threads call it; shared memory is free before and after. */
template <class T, class C>
__device__ __forceinline__ void nn_attention_multiply(
    nn_attention_shared<C> &shared, const nn_attention_source &a,
    const nn_attention_source &b, C (&dot)[NN_ATTENTION_EACH]) {
  const int r = nn_attention_row();
  for (int j = 0; j < NN_ATTENTION_EACH; ++j) dot[j] = 0;
  for (int64_t from = 0; from < a.lines.length; from += NN_ATTENTION_EDGE) {
    nn_attention_load<T>(shared.one, a.array, a.lines, from);
    nn_attention_load<T>(shared.two, b.array, b.lines, from);
    __syncthreads();
    for (int d = 0; d < NN_ATTENTION_EDGE; ++d)
#pragma unroll
      for (int j = 0; j < NN_ATTENTION_EACH; ++j)
        dot[j] += shared.one[r][d] * shared.two[nn_attention_column(j)][d];
    __syncthreads();
  }
}

/* Returns the number of columns that the rows of a batch use. */
__device__ __forceinline__ int64_t nn_attention_count_columns(
    const nn_attention_arrays &a, const nn_attention_view &v, int64_t batch) {
  if (a.at[NN_ATTENTION_LENGTHS].data == NULL) return v.columns;
  const int64_t n = tn_cuda_read<int64_t>(a.at[NN_ATTENTION_LENGTHS], batch);
  return n < 0 ? 0 : n < v.columns ? n : v.columns;
}

/* Returns the first column after those that the rows of a tile may use. */
__device__ __forceinline__ int64_t
nn_attention_find_end(const nn_attention_arrays &a, const nn_attention_view &v,
                      const nn_attention_place &p) {
  const int64_t n = nn_attention_count_columns(a, v, p.batch);
  const int64_t high = p.row + NN_ATTENTION_EDGE + v.offset;
  return v.causal && high < n ? high : n;
}

/* Decides whether the mask hides a whole tile: rows see none of its columns. */
__device__ __forceinline__ bool nn_attention_hides_tile(
    const nn_attention_arrays &a, const nn_attention_view &v,
    const nn_attention_place &p) {
  if (p.column >= nn_attention_find_end(a, v, p)) return true;
  return v.window > 0 &&
         p.column + NN_ATTENTION_EDGE <= p.row + v.offset - v.window + 1;
}

/* Returns the masked score of a row and a column. `bend` becomes the derivative
 * of softcap. */
template <class C>
__device__ __forceinline__ C nn_attention_mask(const nn_attention_arrays &a,
                                               const nn_attention_view &v,
                                               const nn_attention_place &p,
                                               C score, C *bend) {
  const int64_t own = p.row + v.offset;
  const bool hidden = p.row >= v.rows ||
                      p.column >= nn_attention_count_columns(a, v, p.batch) ||
                      (v.causal && p.column > own) ||
                      (v.window > 0 && p.column <= own - v.window);
  *bend = 1;
  if (hidden) return -(C)INFINITY;
  if (v.softcap > 0) {
    const C t = nn_attention_tanh(score / (C)v.softcap);
    score = (C)v.softcap * t;
    *bend = 1 - t * t;
  }
  const tn_cuda_array &mask = a.at[NN_ATTENTION_MASK];
  if (mask.data == NULL) return score;
  const C added = tn_cuda_read<C>(
      mask, p.batch * v.mask_step[0] + p.head * v.mask_step[1] +
                p.row * v.mask_step[2] + p.column * v.mask_step[3]);
  if (mask.dtype == TN_BOOL) return added != 0 ? score : -(C)INFINITY;
  return added <= -(C)INFINITY ? added : score + added;
}

/* Returns the factor of a weight: 0 if it is dropped. */
template <class C>
__device__ __forceinline__ C nn_attention_find_factor(
    const nn_attention_arrays &a, const nn_attention_view &v,
    const nn_attention_place &p) {
  if (!v.drops) return 1;
  const tn_kernel_bits bits =
      tn_cuda_draw(v.random, a.at[NN_ATTENTION_OFFSET],
                   (uint64_t)((p.batch * v.heads + p.head) * v.rows + p.row),
                   (uint64_t)(1 + p.column / 4));
  return bits.word[p.column % 4] < v.limit ? (C)0 : (C)v.kept;
}

/* Computes the masked scores of the thread in a tile. */
template <class T, class C>
__device__ __forceinline__ void nn_attention_score(
    nn_attention_shared<C> &shared, const nn_attention_arrays &a,
    const nn_attention_view &v, const nn_attention_place &p,
    nn_attention_scores<C> &score) {
  const nn_attention_source q = {a.at[NN_ATTENTION_Q],
                                 nn_attention_find_rows(v, p, v.depth)};
  const nn_attention_source k = {a.at[NN_ATTENTION_K],
                                 nn_attention_find_keys(v, p, v.depth)};
  nn_attention_multiply<T>(shared, q, k, score.x);
#pragma unroll
  for (int j = 0; j < NN_ATTENTION_EACH; ++j) {
    nn_attention_place own = p;
    own.row += nn_attention_row();
    own.column += nn_attention_column(j);
    score.x[j] =
        nn_attention_mask(a, v, own, (C)v.scale * score.x[j], &score.bend[j]);
  }
}

/* A thread's part of a result: row nn_attention_row(), up to
 * NN_ATTENTION_PIECES pieces of 32 columns. */
template <class C>
struct nn_attention_sums {
  C piece[NN_ATTENTION_PIECES][NN_ATTENTION_EACH];
};

/* Adds the product of the tile in shared.weight, transposed if `turned`, and 32
 * rows of an array to `sums`, in the columns from `chunk` on. All threads call
 * it after they have written shared.weight; it is free afterwards. */
template <class T, bool turned, class C>
__device__ __forceinline__ void nn_attention_add_rows(
    nn_attention_shared<C> &shared, const tn_cuda_array &array,
    const nn_attention_lines &lines, int64_t chunk,
    nn_attention_sums<C> &sums) {
  const int r = nn_attention_row();
#pragma unroll
  for (int k = 0; k < NN_ATTENTION_PIECES; ++k) {
    const int64_t from = chunk + k * NN_ATTENTION_EDGE;
    if (from >= lines.length) break;
    nn_attention_load<T>(shared.two, array, lines, from);
    __syncthreads();
    for (int t = 0; t < NN_ATTENTION_EDGE; ++t) {
      const C weight = turned ? shared.weight[t][r] : shared.weight[r][t];
#pragma unroll
      for (int j = 0; j < NN_ATTENTION_EACH; ++j)
        sums.piece[k][j] += weight * shared.two[t][nn_attention_column(j)];
    }
    __syncthreads();
  }
}

/* Stores the rows of a result times `factor`. */
template <class T, class C>
__device__ __forceinline__ void nn_attention_store(
    const tn_cuda_array &to, const nn_attention_lines &lines, int64_t chunk,
    C factor, const nn_attention_sums<C> &sums) {
  const int r = nn_attention_row();
  if (r >= lines.n) return;
#pragma unroll
  for (int k = 0; k < NN_ATTENTION_PIECES; ++k)
#pragma unroll
    for (int j = 0; j < NN_ATTENTION_EACH; ++j) {
      const int64_t d = chunk + k * NN_ATTENTION_EDGE + nn_attention_column(j);
      if (d < lines.length)
        nn_store_element<T>(to, (lines.first + r) * lines.length + d,
                            sums.piece[k][j] * factor);
    }
}

/* Returns the number of pieces of n elements in `all`. */
static __host__ __device__ inline int64_t nn_attention_count(int64_t all,
                                                             int64_t n) {
  return (all + n - 1) / n;
}

#endif /* NN_ATTENTION_CUH_ */
