/* SPDX-License-Identifier: Apache-2.0
 * order.cu: random orders on CUDA devices: keys of random bits, sorted by the
 * functions of scatter.cuh.
 */
#include "order.gen.h"

#include "order_rows.h"
#include "tenon/kernel/philox.cuh"
#include "tenon/kernel/scatter.cuh"

enum { KEYS, OFFSET, N_KEY_ARRAYS };
typedef tn_cuda_arrays<N_KEY_ARRAYS> key_arrays;

struct key_view {
  int64_t n;
  tn_cuda_random random;
};

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_keys(key_arrays a, key_view v) {
  tn_cuda_key *keys = (tn_cuda_key *)a.at[KEYS].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.n; i += step) {
    const tn_kernel_bits bits =
        tn_cuda_draw(v.random, a.at[OFFSET], (uint64_t)i);
    keys[i].value = (int64_t)((uint64_t)bits.word[1] << 32 | bits.word[0]);
    keys[i].i = i;
  }
}

enum { ORDER, PLACES, TO, FROM, N_ROW_ARRAYS };
typedef tn_cuda_arrays<N_ROW_ARRAYS> row_arrays;

struct row_view {
  int64_t rows;
  int64_t bytes; /* of a row; 0: there is no array to move */
};

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_places(row_arrays a, row_view v) {
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[ORDER].data;
  int64_t *places = (int64_t *)a.at[PLACES].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.rows; i += step) places[i] = keys[i].i;
}

/* Byte by byte: to[i] = from[places[i]], or to[places[i]] = from[i]. */
template <int is_back>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_move(row_arrays a, row_view v) {
  const int64_t *places = (const int64_t *)a.at[PLACES].data;
  const char *from = (const char *)a.at[FROM].data;
  char *to = (char *)a.at[TO].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.rows * v.bytes; i += step) {
    const int64_t row = i / v.bytes, at = places[row] * v.bytes + i % v.bytes;
    if (places[row] < 0 || places[row] >= v.rows) continue;
    if (is_back)
      to[at] = from[i];
    else
      to[i] = from[at];
  }
}

/* Rows that no place names get the gradient 0. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    random_clear(row_arrays a, row_view v) {
  char *to = (char *)a.at[TO].data;
  const int64_t step = (int64_t)gridDim.x * TN_CUDA_THREADS;
  int64_t i = (int64_t)blockIdx.x * TN_CUDA_THREADS + threadIdx.x;
  for (; i < v.rows * v.bytes; i += step) to[i] = 0;
}

/* Draws an order of n numbers into `places`. */
static int32_t draw_order(const tn_frame *call, cudaStream_t stream,
                          int64_t *places, int64_t n) {
  key_view v;
  key_arrays a = {};
  row_arrays b = {};
  v.n = n;
  v.random = tn_cuda_random_of(call->run->random[0]);
  a.at[KEYS] = tn_cuda_key_array(call->ws[0], v.n);
  a.at[OFFSET] = tn_cuda_offset(call->run->random[0]);
  int32_t code = tn_cuda_start_each(call, random_keys, v.n, stream, a, v);
  if (code == TN_OK)
    code = tn_cuda_sort(call, call->ws[0], v.n, stream, &b.at[ORDER]);
  if (code != TN_OK) return code;
  b.at[PLACES] = tn_cuda_room(places, TN_I64, n);
  const row_view rows = {v.n, 0};
  return tn_cuda_start_each(call, random_places, v.n, stream, b, rows);
}

extern "C" int32_t random_permutation(const tn_frame *call) {
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return draw_order(call, stream, (int64_t *)call->out[0].data,
                      tn_tensor_size(&call->out[0]));
  });
}

extern "C" int32_t random_shuffle(const tn_frame *call) {
  const row_view v = {count_rows(&call->in[0]), row_bytes(&call->in[0])};
  int64_t *order = find_order(call, v.rows);
  if (v.rows == 0 || !needs_order(call)) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    row_arrays a = {};
    const int32_t code = draw_order(call, stream, order, v.rows);
    if (code != TN_OK || v.bytes == 0 || call->req[0] == TN_REQ_NULL)
      return code;
    a.at[PLACES] = tn_cuda_room(order, TN_I64, v.rows);
    a.at[PLACES].writes = 0;
    a.at[FROM] = tn_cuda_from(&call->in[0]);
    a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
    return tn_cuda_start_each(call, random_move<0>, v.rows * v.bytes, stream, a,
                              v);
  });
}

extern "C" int32_t random_shuffle_backward(const tn_frame *call) {
  const row_view v = {count_rows(&call->out[0]), row_bytes(&call->out[0])};
  if (v.rows * v.bytes == 0 || call->req[0] == TN_REQ_NULL) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    row_arrays a = {};
    a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
    const int32_t code =
        tn_cuda_start_each(call, random_clear, v.rows * v.bytes, stream, a, v);
    if (code != TN_OK) return code;
    a.at[PLACES] = tn_cuda_from(&call->in[RANDOM_SHUFFLE_BACKWARD_OUT_PLACES]);
    a.at[FROM] = tn_cuda_from(&call->in[RANDOM_SHUFFLE_BACKWARD_GRAD_OUT]);
    a.at[TO] = tn_cuda_to(&call->out[0], TN_REQ_WRITE);
    return tn_cuda_start_each(call, random_move<1>, v.rows * v.bytes, stream, a,
                              v);
  });
}
