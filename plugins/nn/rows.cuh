/* SPDX-License-Identifier: Apache-2.0
 * rows.cuh: contiguous lines on CUDA devices: threads read a row once, and keep
 * it in registers.
 */
#ifndef NN_ROWS_CUH_
#define NN_ROWS_CUH_

#include "nn.cuh"

/* Contiguous lines. A few threads of a block read each line once, and keep it
 * in registers. */
struct nn_rows {
  int64_t n;
  int64_t length;
  unsigned threads; /* threads for each row: a power of 2 up to 32, or all of a
                       block; 0: use nn_lines instead */
  int are_fours;    /* rows consist of whole packs of four elements */
};

/* Layout of a row in registers: each of THREADS keeps up to PACKS packs of
 * SIZE. THREADS is 0 for rows so short that fewer threads than a warp share
 * one. */
template <int THREADS, int PACKS, int SIZE>
struct nn_row_shape {
  static constexpr unsigned threads = THREADS;
  static constexpr int packs = PACKS;
  static constexpr int size = SIZE;
};

enum {
  NN_ROW_FEW = 4,
  NN_ROW_MANY = 32
}; /* elements of a row that one thread keeps, for short and long rows */

/* Chooses the number of threads for each row. It is 0 if lines are not
 * contiguous, empty or too long. */
static inline nn_rows nn_choose_rows(const nn_lines &lines) {
  const int64_t warp = 32, n = lines.length;
  nn_rows v = {lines.outer, n, 0, n % 4 == 0};
  if (lines.inner != 1 || n < 1) return v;
  if (n <= warp * NN_ROW_FEW)
    v.threads = nn_round_to_power_of_2((n + NN_ROW_FEW - 1) / NN_ROW_FEW, warp);
  else if (n <= warp * NN_ROW_MANY)
    v.threads = warp;
  else if (n <= TN_CUDA_THREADS * NN_ROW_MANY)
    v.threads = TN_CUDA_THREADS;
  return v;
}

/* Clears v->are_fours if the address of an array with rows is not aligned to
 * packs of four. Call it for each array before `v` is passed to a kernel. */
static inline void nn_check_row_packs(nn_rows *v, const tn_cuda_array &array) {
  v->are_fours = v->are_fours && nn_has_packs_of_4(array, v->length);
}

/* A thread's part of its row: the packs with the indices of nn_find_pack_index.
 * The row begins at pack `at` of the array. */
struct nn_row {
  int64_t number;
  int64_t at; /* index of the row's first element, in packs */
  unsigned first;
  unsigned end; /* number of packs in the row; 0 if the thread has no row */
  unsigned threads;
  int leads; /* true for one thread of each row */
};

/* Returns the row of the calling thread in the group of rows of one block. */
template <class S>
__device__ __forceinline__ nn_row nn_locate_row(const nn_rows &v,
                                                int64_t group) {
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

/* Returns the number of blocks that all rows need. */
static __host__ __device__ inline int64_t nn_count_row_blocks(
    const nn_rows &v) {
  const int64_t each = TN_CUDA_THREADS / v.threads;
  return (v.n + each - 1) / each;
}

/* Returns the index in the row of the thread's pack number `which`. */
template <class S>
__device__ __forceinline__ unsigned nn_find_pack_index(const nn_row &row,
                                                       int which) {
  return row.first +
         (unsigned)which * (S::threads > 0 ? S::threads : row.threads);
}

/* Loads a thread's elements of a row; elements after the end of the row become
 * `none`. */
template <class T, class S>
__device__ __forceinline__ void nn_load_row(
    const tn_cuda_array &from, const nn_row &row, nn_compute_type<T> none,
    nn_pack<nn_compute_type<T>, S::size> (&kept)[S::packs]) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const unsigned k = nn_find_pack_index<S>(row, u);
#pragma unroll
    for (int e = 0; e < S::size; ++e) kept[u].x[e] = none;
    if (k < row.end) kept[u] = nn_load_pack<T, S::size>(from, row.at + k);
  }
}

/* Stores a thread's elements of a row, or adds them. */
template <class T, class S>
__device__ __forceinline__ void nn_store_row(
    const tn_cuda_array &to, const nn_row &row,
    const nn_pack<nn_compute_type<T>, S::size> (&kept)[S::packs]) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const unsigned k = nn_find_pack_index<S>(row, u);
    if (k < row.end) nn_store_pack<T, S::size>(to, row.at + k, kept[u]);
  }
}

/* Calls each(element, is_inside) for all elements of a thread; is_inside is
 * false after the end of the row. */
template <class S, class C, class Each>
__device__ __forceinline__ void nn_visit_row(
    const nn_row &row, nn_pack<C, S::size> (&kept)[S::packs], Each each) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u) {
    const bool has = nn_find_pack_index<S>(row, u) < row.end;
#pragma unroll
    for (int e = 0; e < S::size; ++e) each(kept[u].x[e], has);
  }
}

/* Calls each(element of `one`, element of `two`) for all elements of two rows
 * in a thread, also after the end of the rows. */
template <class S, class C, class Each>
__device__ __forceinline__ void nn_visit_two_rows(
    nn_pack<C, S::size> (&one)[S::packs], nn_pack<C, S::size> (&two)[S::packs],
    Each each) {
#pragma unroll
  for (int u = 0; u < S::packs; ++u)
#pragma unroll
    for (int e = 0; e < S::size; ++e) each(one[u].x[e], two[u].x[e]);
}

/* Reduces one value of each thread of a row to one value, like tn_cuda_reduce.
 */
template <class S, class C, class Fold>
__device__ __forceinline__ C nn_reduce_row(C *part, C mine, Fold fold,
                                           const nn_row &row) {
  if (S::threads == TN_CUDA_THREADS) return tn_cuda_reduce(part, mine, fold);
  return tn_cuda_reduce_warp(mine, fold, row.threads);
}

/* Calls `run` with a value of the nn_row_shape that fits the rows. */
template <class Run>
static inline int32_t nn_run_by_row_shape(const nn_rows &v, Run run) {
  enum { BLOCK = TN_CUDA_THREADS, MANY = NN_ROW_MANY };
  if (v.length <= 32 * NN_ROW_FEW) return run(nn_row_shape<0, NN_ROW_FEW, 1>());
  if (v.threads == BLOCK && v.are_fours)
    return run(nn_row_shape<BLOCK, MANY / 4, 4>());
  if (v.threads == BLOCK) return run(nn_row_shape<BLOCK, MANY, 1>());
  if (v.are_fours) return run(nn_row_shape<32, MANY / 4, 4>());
  return run(nn_row_shape<32, MANY, 1>());
}

/* Launches the kernel that `rows` returns for an nn_row_shape. If v.rows has no
 * threads, launches `lines` instead, which uses v.lines. */
template <class Rows, class A, class V>
static inline int32_t nn_launch_rows(const tn_frame *call, void (*lines)(A, V),
                                     Rows rows, cudaStream_t stream, A a, V v) {
  if (v.rows.threads == 0)
    return tn_cuda_start(call, lines, nn_count_line_blocks(v.lines), stream, a,
                         v);
  return nn_run_by_row_shape(v.rows, [&](auto shape) {
    return tn_cuda_start(call, rows(shape), nn_count_row_blocks(v.rows), stream,
                         a, v);
  });
}

#endif /* NN_ROWS_CUH_ */
