/* SPDX-License-Identifier: Apache-2.0
 * scatter.cuh: adds slices at the places that indices name, on CUDA devices:
 * the gradient of an operator that reads rows of a table. For CUDA C++ only;
 * nothing here is part of the ABI.
 *
 * An array to[outer, length, inner] gets of slices[outer, n, inner], for each
 * of n indices,
 *
 *   to[o, place of i, c] += slices[o, i, c]
 *
 * The caller writes a tn_cuda_key for each index, its place and its number, one
 * after the other; places outside of 0 to length - 1 are ignored. The
 * functions do the rest:
 *
 *   tn_cuda_scatter v = tn_cuda_scatter_of(outer, length, n, inner);
 *   bytes of workspace:  tn_cuda_scatter_bytes(&v)
 *
 *   ... launch: write keys to tn_cuda_key_array(call->ws[0], v.n) ...
 *   tn_cuda_scatter_arrays a = {};
 *   a.at[TN_CUDA_SCATTER_TO] = tn_cuda_to(to, req);
 *   a.at[TN_CUDA_SCATTER_SLICES] = tn_cuda_from(slices);
 *   code = tn_cuda_scatter_add<T>(call, call->ws[0], v, a, stream);
 *
 * where T is the type of elements, one of those of tn_cuda_by_sum.
 *
 * Keys are sorted by their places, so that those of one place are adjacent, and
 * cut into pieces of equal length, however often an index occurs. A thread adds
 * the slices of one place in a piece, and a block adds the sums of several
 * pieces: no atomics, and an order that depends on the shape and on the indices
 * alone. Sums are kept in f32 for f16, bf16 and f32, in f64 for f64, and
 * rounded once; integers wrap, a sum of bools is true if any term is.
 */
#ifndef TENON_KERNEL_SCATTER_CUH_
#define TENON_KERNEL_SCATTER_CUH_

#include "tenon/kernel/prefetch.cuh"

/* -------------------------------------------------------------------- order */

/* A value, and its number among all keys. */
struct tn_cuda_key {
  int64_t value;
  int64_t i;
};

enum { TN_CUDA_KEYS, TN_CUDA_SORTED, TN_CUDA_KEY_ARRAYS };
typedef tn_cuda_arrays<TN_CUDA_KEY_ARRAYS> tn_cuda_keys;

struct tn_cuda_runs {
  int64_t n;     /* keys */
  int64_t line;  /* keys of a line: lines are sorted separately */
  int64_t width; /* of the runs that are sorted */
};

/* By values, equal ones by numbers. */
__device__ __forceinline__ bool tn_cuda_is_before(const tn_cuda_key &a,
                                                  const tn_cuda_key &b) {
  return a.value < b.value || (a.value == b.value && a.i < b.i);
}

/* The first runs, of 256, in place. A block sorts several lines if they are
 * short. */
template <class K>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_sort_runs(tn_cuda_keys a, tn_cuda_runs v) {
  __shared__ K run[TN_CUDA_THREADS];
  const bool is_short = v.line < TN_CUDA_THREADS;
  const int64_t each =
      is_short ? TN_CUDA_THREADS / v.line * v.line : (int64_t)TN_CUDA_THREADS;
  const int64_t line = is_short ? v.n : v.line;
  const int64_t runs = (line + each - 1) / each;
  K *keys = (K *)a.at[TN_CUDA_SORTED].data;
  for (int64_t r = blockIdx.x; r < v.n / line * runs; r += gridDim.x) {
    const int64_t begin = r % runs * each, left = line - begin;
    const int64_t first = r / runs * line + begin;
    const int n = left < each ? (int)left : (int)each;
    const int own = (int)threadIdx.x;
    const int from = is_short ? own / (int)v.line * (int)v.line : 0;
    const int to = is_short ? from + (int)v.line : n;
    int place = from;
    if (own < n) run[own] = keys[first + own];
    __syncthreads();
    for (int k = from; k < to && own < n; ++k)
      place += tn_cuda_is_before(run[k], run[own]);
    if (own < n) keys[first + place] = run[own];
    __syncthreads();
  }
}

/* Two runs of a line become one of twice the width: a key follows those before
 * it in its own run, and the lesser ones of the other run. */
template <class K>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_merge_runs(tn_cuda_keys a, tn_cuda_runs v) {
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.n; i += step) {
    const int64_t begin = i / v.line * v.line, own = i - begin;
    const K *keys = (const K *)a.at[TN_CUDA_KEYS].data + begin;
    K *sorted = (K *)a.at[TN_CUDA_SORTED].data + begin;
    const K key = keys[own];
    const int64_t run = own / v.width, both = run / 2 * 2 * v.width;
    const int64_t other = (run ^ 1) * v.width;
    int64_t low = other < v.line ? other : v.line;
    int64_t high = other + v.width < v.line ? other + v.width : v.line;
    const int64_t first = low;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (tn_cuda_is_before(keys[middle], key))
        low = middle + 1;
      else
        high = middle;
    }
    sorted[both + own - run * v.width + low - first] = key;
  }
}

/* Bytes of workspace for n keys: passes go from one half to the other. */
static inline uint64_t tn_cuda_key_bytes(int64_t n) {
  return 2 * sizeof(tn_cuda_key) * (uint64_t)n;
}

/* The first half of the workspace, for the keys. */
static inline tn_cuda_array tn_cuda_key_array(void *room, int64_t n) {
  return tn_cuda_room(room, TN_I64, 2 * n);
}

/* Sorts the keys there, each line of `v` separately; *sorted becomes the array
 * of the sorted keys, for reading. */
static inline int32_t tn_cuda_sort_lines(const tn_frame *call, void *room,
                                         tn_cuda_runs v, cudaStream_t stream,
                                         tn_cuda_array *sorted) {
  tn_cuda_array from = tn_cuda_key_array(room, v.n);
  tn_cuda_array to = tn_cuda_key_array((tn_cuda_key *)room + v.n, v.n);
  tn_cuda_keys a = {};
  a.at[TN_CUDA_SORTED] = from;
  v.width = TN_CUDA_THREADS;
  int32_t code = tn_cuda_start_each(call, tn_cuda_sort_runs<tn_cuda_key>, v.n,
                                    stream, a, v);
  for (; code == TN_OK && v.width < v.line; v.width *= 2) {
    a.at[TN_CUDA_KEYS] = from;
    a.at[TN_CUDA_SORTED] = to;
    a.at[TN_CUDA_KEYS].writes = 0;
    code = tn_cuda_start_each(call, tn_cuda_merge_runs<tn_cuda_key>, v.n,
                              stream, a, v);
    const tn_cuda_array next = from;
    from = to;
    to = next;
  }
  *sorted = from;
  sorted->writes = 0;
  return code;
}

/* Sorts all n keys. */
static inline int32_t tn_cuda_sort(const tn_frame *call, void *room, int64_t n,
                                   cudaStream_t stream, tn_cuda_array *sorted) {
  const tn_cuda_runs v = {n, n, 0};
  return tn_cuda_sort_lines(call, room, v, stream, sorted);
}

/* Returns the number of sorted keys before the first one of at least `value`.
 */
__device__ __forceinline__ int64_t tn_cuda_search_keys(const tn_cuda_key *keys,
                                                       int64_t n,
                                                       int64_t value) {
  int64_t low = 0;
  while (low < n) {
    const int64_t middle = low + (n - low) / 2;
    if (keys[middle].value < value)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

/* ------------------------------------------------------------------- places */

enum {
  TN_CUDA_SCATTER_TO,
  TN_CUDA_SCATTER_SLICES,
  TN_CUDA_SCATTER_KEYS,
  TN_CUDA_SCATTER_PARTS, /* two sums of each piece: see tn_cuda_scatter_part */
  TN_CUDA_SCATTER_ARRAYS
};
typedef tn_cuda_arrays<TN_CUDA_SCATTER_ARRAYS> tn_cuda_scatter_arrays;

struct tn_cuda_scatter {
  int64_t outer, length, n, inner;
  int64_t each; /* keys of a piece */
  int64_t pieces;
  unsigned lanes; /* columns of a block that puts pieces together */
};

/* The type that sums are kept in. */
template <class T, int is_whole = tn_cuda_is_whole<T>::value>
struct tn_cuda_scatter_wide {
  typedef int64_t type;
};
template <class T>
struct tn_cuda_scatter_wide<T, 0> {
  typedef typename tn_cuda_compute<T>::type type;
};

/* Part 0 of a piece is the sum of a place that begins before the piece, part 1
 * of one that begins in it and continues after it. */
__device__ __forceinline__ int64_t
tn_cuda_scatter_part(const tn_cuda_scatter &v, int64_t outer, int64_t piece,
                     int which, int64_t column) {
  return ((outer * v.pieces + piece) * 2 + which) * v.inner + column;
}

__device__ __forceinline__ int64_t tn_cuda_scatter_end(const tn_cuda_scatter &v,
                                                       int64_t piece) {
  const int64_t end = (piece + 1) * v.each;
  return end < v.n ? end : v.n;
}

/* Returns true if the next key has the same place. */
__device__ __forceinline__ bool tn_cuda_scatter_goes_on(const tn_cuda_key *keys,
                                                        int64_t n, int64_t k) {
  return k + 1 < n && keys[k + 1].value == keys[k].value;
}

template <class T>
__device__ __forceinline__ void tn_cuda_scatter_put(
    const tn_cuda_scatter_arrays &a, const tn_cuda_scatter &v, int64_t outer,
    int64_t place, int64_t column,
    typename tn_cuda_scatter_wide<T>::type value) {
  const tn_cuda_array &to = a.at[TN_CUDA_SCATTER_TO];
  const int64_t at = (outer * v.length + place) * v.inner + column;
  tn_cuda_set((T *)to.data + at, value, to.adds);
}

/* A thread has a column of a piece. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_scatter_pieces(tn_cuda_scatter_arrays a, tn_cuda_scatter v) {
  typedef typename tn_cuda_scatter_wide<T>::type C;
  const tn_cuda_key *keys =
      (const tn_cuda_key *)a.at[TN_CUDA_SCATTER_KEYS].data;
  C *parts = (C *)a.at[TN_CUDA_SCATTER_PARTS].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.outer * v.pieces * v.inner; i += step) {
    const int64_t column = i % v.inner, piece = i / v.inner % v.pieces;
    const int64_t outer = i / v.inner / v.pieces;
    const int64_t end = tn_cuda_scatter_end(v, piece);
    const T *slices =
        (const T *)a.at[TN_CUDA_SCATTER_SLICES].data + outer * v.n * v.inner;
    const int64_t k = piece * v.each;
    int came = k > 0 && keys[k - 1].value == keys[k].value;
    C sum = 0;
    tn_cuda_prefetch<8>(
        k, end, 1,
        [&](int64_t at) {
          const int64_t i = keys[at].i;
          return tn_cuda_get<C>(slices[i * v.inner + column]);
        },
        [&](int64_t at, C value) {
          const int64_t place = keys[at].value;
          const bool goes_on = tn_cuda_scatter_goes_on(keys, v.n, at);
          sum = tn_cuda_sum(sum, value);
          if (goes_on && at + 1 < end) return;
          if (came || goes_on)
            parts[tn_cuda_scatter_part(v, outer, piece, !came, column)] = sum;
          else if (place >= 0 && place < v.length)
            tn_cuda_scatter_put<T>(a, v, outer, place, column, sum);
          came = 0;
          sum = 0;
        });
  }
}

/* The first key from `begin` on that has another place than the one there. */
__device__ __forceinline__ int64_t tn_cuda_scatter_last(const tn_cuda_key *keys,
                                                        int64_t begin,
                                                        int64_t n) {
  const int64_t place = keys[begin].value;
  while (begin < n) {
    const int64_t middle = begin + (n - begin) / 2;
    if (keys[middle].value <= place)
      begin = middle + 1;
    else
      n = middle;
  }
  return begin;
}

/* A block handles a place that begins in a piece and continues after it, if
 * there is one, for some columns: its threads add the next pieces. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tn_cuda_scatter_whole(tn_cuda_scatter_arrays a, tn_cuda_scatter v) {
  typedef typename tn_cuda_scatter_wide<T>::type C;
  __shared__ C part[TN_CUDA_THREADS];
  const tn_cuda_key *keys =
      (const tn_cuda_key *)a.at[TN_CUDA_SCATTER_KEYS].data;
  const C *parts = (const C *)a.at[TN_CUDA_SCATTER_PARTS].data;
  const int64_t groups = (v.inner + v.lanes - 1) / v.lanes;
  for (int64_t g = blockIdx.x; g < v.outer * v.pieces * groups;
       g += gridDim.x) {
    const int64_t piece = g / groups % v.pieces, outer = g / groups / v.pieces;
    const int64_t first = piece * v.each, end = tn_cuda_scatter_end(v, piece);
    const int64_t place = keys[end - 1].value;
    const bool came = first > 0 && keys[first - 1].value == place;
    if (came || place < 0 || place >= v.length ||
        !tn_cuda_scatter_goes_on(keys, v.n, end - 1))
      continue;
    const int64_t last = (tn_cuda_scatter_last(keys, end, v.n) - 1) / v.each;
    const int64_t column = g % groups * v.lanes + threadIdx.x % v.lanes;
    C sum = 0;
    for (int64_t p = piece + 1 + threadIdx.x / v.lanes;
         p <= last && column < v.inner; p += TN_CUDA_THREADS / v.lanes)
      sum =
          tn_cuda_sum(sum, parts[tn_cuda_scatter_part(v, outer, p, 0, column)]);
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus(), v.lanes);
    if (threadIdx.x >= v.lanes || column >= v.inner) continue;
    const C begun = parts[tn_cuda_scatter_part(v, outer, piece, 1, column)];
    tn_cuda_scatter_put<T>(a, v, outer, place, column, tn_cuda_sum(begun, sum));
  }
}

/* --------------------------------------------------------------------- host */

/* Pieces are short for little work, so that many threads have some, and longer
 * for more work. */
static inline tn_cuda_scatter tn_cuda_scatter_of(int64_t outer, int64_t length,
                                                 int64_t n, int64_t inner) {
  const int64_t many = 1 << 19; /* threads */
  tn_cuda_scatter v = {outer, length, n, inner, 32, 0, 1};
  while (v.each < 512 && n / v.each * (outer * inner) > many) v.each *= 2;
  while (v.lanes < 32 && v.lanes < inner) v.lanes *= 2;
  v.pieces = (n + v.each - 1) / v.each;
  return v;
}

/* Bytes of workspace, of any type of elements. */
static inline uint64_t tn_cuda_scatter_bytes(const tn_cuda_scatter *v) {
  const int64_t parts = 2 * v->outer * v->pieces * v->inner;
  return tn_cuda_key_bytes(v->n) + (uint64_t)parts * sizeof(int64_t);
}

/* Sorts the keys in `room`, and adds their slices to TO, or sets it; places
 * that no index names are not changed. The arrays KEYS and PARTS are set
 * here. */
template <class T>
static inline int32_t tn_cuda_scatter_add(const tn_frame *call, void *room,
                                          const tn_cuda_scatter &v,
                                          tn_cuda_scatter_arrays a,
                                          cudaStream_t stream) {
  tn_cuda_array &parts = a.at[TN_CUDA_SCATTER_PARTS];
  const int64_t n = v.outer * v.pieces * v.inner;
  if (n == 0) return TN_OK;
  int32_t code =
      tn_cuda_sort(call, room, v.n, stream, &a.at[TN_CUDA_SCATTER_KEYS]);
  if (code != TN_OK) return code;
  parts = tn_cuda_room((char *)room + tn_cuda_key_bytes(v.n), TN_I64, 2 * n);
  code = tn_cuda_start_each(call, tn_cuda_scatter_pieces<T>, n, stream, a, v);
  if (code != TN_OK || v.pieces == 1) return code;
  const int64_t groups = (v.inner + v.lanes - 1) / v.lanes;
  parts.writes = 0;
  return tn_cuda_start(call, tn_cuda_scatter_whole<T>,
                       v.outer * v.pieces * groups, stream, a, v);
}

#endif /* TENON_KERNEL_SCATTER_CUH_ */
