/* SPDX-License-Identifier: Apache-2.0
 * embedding.cu: embedding.yaml on CUDA devices. Backward, positions are sorted
 * by their rows, in passes that merge sorted runs: everything about them
 * follows from the indices. Then a block has a row of the gradient.
 */
#include "embedding.gen.h"

#include "nn.cuh"

/* What kernels are handed: TO is written. Keys are row * positions + position,
 * of positions that have no row behind all others. */
enum { TO, INDEX, WEIGHT, HEAD, KEYS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_embedding_arrays;

struct nn_embedding_view {
  int64_t n; /* positions */
  int64_t rows;
  int64_t length; /* of a row */
  int64_t run;    /* sorted keys that are there already */
  unsigned lanes; /* columns of a block */
};

/* The row of a position; the number of rows if there is none. */
__device__ __forceinline__ int64_t
nn_embedding_row(const nn_embedding_arrays &a, const nn_embedding_view &v,
                 int64_t position) {
  const double index = tn_cuda_read<double>(a.at[INDEX], position);
  return index > -1 && index < (double)v.rows ? (int64_t)index : v.rows;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_copy(nn_embedding_arrays a, nn_embedding_view v) {
  typedef nn_wide<T> C;
  for (int64_t i = nn_first(); i < v.n * v.length; i += nn_step()) {
    const int64_t row = nn_embedding_row(a, v, i / v.length);
    C x = (C)NAN;
    if (row < v.rows)
      x = nn_get<T>(a.at[WEIGHT], row * v.length + i % v.length);
    nn_put<T>(a.at[TO], i, x);
  }
}

/* -------------------------------------------------------------------- order */

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_keys(nn_embedding_arrays a, nn_embedding_view v) {
  T *keys = (T *)a.at[TO].data;
  for (int64_t i = nn_first(); i < v.n; i += nn_step())
    keys[i] = nn_embedding_row(a, v, i) * v.n + i;
}

/* The first of sorted keys that is not below `key`. */
__device__ __forceinline__ int64_t nn_embedding_find(const int64_t *keys,
                                                     int64_t begin, int64_t end,
                                                     int64_t key) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (keys[middle] < key)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/* Pairs of sorted runs become one: a key goes behind those of its own run that
 * are less, and those of the other. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_merge(nn_embedding_arrays a, nn_embedding_view v) {
  const T *keys = (const T *)a.at[KEYS].data;
  T *to = (T *)a.at[TO].data;
  for (int64_t i = nn_first(); i < v.n; i += nn_step()) {
    const int64_t own = i / v.run * v.run;
    const int64_t pair = i / (2 * v.run) * (2 * v.run);
    const int64_t other = own == pair ? own + v.run : pair;
    const int64_t begin = other < v.n ? other : v.n;
    const int64_t end = begin + v.run < v.n ? begin + v.run : v.n;
    const int64_t less = nn_embedding_find(keys, begin, end, keys[i]) - begin;
    to[pair + (i - own) + less] = keys[i];
  }
}

/* ----------------------------------------------------------------- gradient */

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_embedding_sums(nn_embedding_arrays a, nn_embedding_view v) {
  typedef nn_wide<T> C;
  __shared__ C part[TN_CUDA_THREADS];
  const int64_t *keys = (const int64_t *)a.at[KEYS].data;
  const int64_t step = TN_CUDA_THREADS / v.lanes;
  for (int64_t row = blockIdx.x; row < v.rows; row += gridDim.x) {
    const int64_t begin = nn_embedding_find(keys, 0, v.n, row * v.n);
    const int64_t end = nn_embedding_find(keys, begin, v.n, (row + 1) * v.n);
    if (begin == end && a.at[TO].adds) continue;
    for (int64_t first = 0; first < v.length; first += v.lanes) {
      const int64_t column = first + threadIdx.x % v.lanes;
      C sum = 0;
      for (int64_t k = begin + threadIdx.x / v.lanes;
           k < end && column < v.length; k += step)
        sum += nn_get<T>(a.at[HEAD], (keys[k] - row * v.n) * v.length + column);
      if (begin < end) sum = nn_fold(part, sum, v.lanes, tn_cuda_plus());
      if (threadIdx.x < v.lanes && column < v.length)
        nn_put<T>(a.at[TO], row * v.length + column, sum);
    }
  }
}

/* --------------------------------------------------------------------- host */

static nn_embedding_view nn_embedding_view_of(const tn_frame *call) {
  const nn_embedding_params *p = nn_embedding_params_of(call);
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_embedding_view v = {};
  v.n = tn_tensor_size(&call->in[back ? (int)NN_EMBEDDING_BACKWARD_IN_DATA
                                      : (int)NN_EMBEDDING_IN_DATA]);
  v.rows = p->input_dim;
  v.length = p->output_dim;
  v.lanes = nn_lanes_for(v.length, 32);
  return v;
}

/* The keys twice: passes go from one place to the other. */
int32_t nn_embedding_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD)
    *bytes = 2 * (uint64_t)nn_embedding_view_of(call).n * sizeof(int64_t);
  return TN_OK;
}

int32_t nn_embedding_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_EMBEDDING_OUT_OUT];
  const nn_embedding_view v = nn_embedding_view_of(call);
  nn_embedding_arrays a = {};
  a.at[TO] = tn_cuda_to(out, call->req[NN_EMBEDDING_OUT_OUT]);
  a.at[INDEX] = tn_cuda_from(&call->in[NN_EMBEDDING_IN_DATA]);
  a.at[WEIGHT] = tn_cuda_from(&call->in[NN_EMBEDDING_IN_WEIGHT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_embedding_copy<decltype(type)>,
                                tn_tensor_size(out), stream, a, v);
    });
  });
}

/* Leaves where the sorted keys are in *keys. */
static int32_t nn_embedding_sort(const tn_frame *call, nn_embedding_view v,
                                 cudaStream_t stream, tn_cuda_array *keys) {
  nn_embedding_arrays a = {};
  tn_cuda_array spare = tn_cuda_room(
      (char *)call->ws[0] + v.n * (int64_t)sizeof(int64_t), TN_I64, v.n);
  *keys = tn_cuda_room(call->ws[0], TN_I64, v.n);
  a.at[INDEX] = tn_cuda_from(&call->in[NN_EMBEDDING_BACKWARD_IN_DATA]);
  a.at[TO] = *keys;
  int32_t code =
      tn_cuda_start_each(call, nn_embedding_keys<int64_t>, v.n, stream, a, v);
  for (v.run = 1; v.run < v.n && code == TN_OK; v.run *= 2) {
    a.at[KEYS] = *keys;
    a.at[TO] = spare;
    code = tn_cuda_start_each(call, nn_embedding_merge<int64_t>, v.n, stream, a,
                              v);
    spare = *keys;
    *keys = a.at[TO];
  }
  return code;
}

int32_t nn_embedding_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_EMBEDDING_IN_WEIGHT];
  const nn_embedding_view v = nn_embedding_view_of(call);
  nn_embedding_arrays a = {};
  if (call->req[NN_EMBEDDING_IN_WEIGHT] == TN_REQ_NULL) return TN_OK;
  a.at[TO] = tn_cuda_to(to, call->req[NN_EMBEDDING_IN_WEIGHT]);
  a.at[HEAD] = tn_cuda_from(&call->in[NN_EMBEDDING_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    const int32_t code = nn_embedding_sort(call, v, stream, &a.at[KEYS]);
    if (code != TN_OK) return code;
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start(call, nn_embedding_sums<decltype(type)>, v.rows,
                           stream, a, v);
    });
  });
}
