/* SPDX-License-Identifier: Apache-2.0
 * rotary.cu: rotary.yaml on CUDA devices. A thread rotates a pair, or copies an
 * element after the pairs of a row.
 */
#include "rotary.gen.h"

#include "nn.cuh"

enum { TO, FROM, COS, SIN, POSITIONS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_rotary_arrays;

struct nn_rotary_view {
  int64_t n; /* pairs and single elements of all rows */
  int64_t places;
  int64_t heads; /* heads of a place that are adjacent in memory, or 1 */
  int64_t above; /* rows of a batch */
  int64_t depth;
  int64_t pairs;
  int64_t n_positions; /* rows of cos */
  int interleaved;
  int is_backward;
};

/* Returns the row of cos and sin for a row of data; -1: out of range. */
__device__ __forceinline__ int64_t nn_rotary_find_position(
    const nn_rotary_arrays &a, const nn_rotary_view &v, int64_t row) {
  const int64_t place = row / v.heads % v.places;
  if (a.at[POSITIONS].data == NULL) return place;
  const int64_t p =
      tn_cuda_read<int64_t>(a.at[POSITIONS], row / v.above * v.places + place);
  return p < 0 || p >= v.n_positions ? -1 : p;
}

/* Writes TO. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_rotary_rotate(nn_rotary_arrays a, nn_rotary_view v) {
  typedef nn_compute_type<T> C;
  const int64_t each = v.depth - v.pairs;
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step()) {
    const int64_t row = i / each, k = i % each;
    if (k >= v.pairs) {
      const int64_t at = row * v.depth + v.pairs + k;
      nn_store_element<T>(a.at[TO], at, nn_load_element<T>(a.at[FROM], at));
      continue;
    }
    const int64_t first = row * v.depth + (v.interleaved ? 2 * k : k);
    const int64_t second = first + (v.interleaved ? 1 : v.pairs);
    const int64_t p = nn_rotary_find_position(a, v, row);
    const C none = (C)NAN;
    const C cosine =
        p < 0 ? none : nn_load_element<T>(a.at[COS], p * v.pairs + k);
    C sine = p < 0 ? none : nn_load_element<T>(a.at[SIN], p * v.pairs + k);
    if (v.is_backward) sine = -sine;
    const C x = nn_load_element<T>(a.at[FROM], first);
    const C y = nn_load_element<T>(a.at[FROM], second);
    nn_store_element<T>(a.at[TO], first, x * cosine - y * sine);
    nn_store_element<T>(a.at[TO], second, y * cosine + x * sine);
  }
}

/* Rotates `from`; in[first] is the input cos. */
static int32_t nn_rotary_run(const tn_frame *call, const tn_tensor *from,
                             uint32_t first) {
  const nn_rotary_params *p = nn_rotary_params_of(call);
  const uint32_t at = first + NN_ROTARY_IN_POSITIONS - NN_ROTARY_IN_COS;
  nn_rotary_view v = {};
  nn_rotary_arrays a = {};
  v.heads = p->num_heads > 0 ? p->num_heads : 1;
  v.depth = from->shape[from->ndim - 1] / v.heads;
  v.places = from->shape[from->ndim - 2];
  v.above = v.places * (p->num_heads > 0 ? p->num_heads : from->shape[1]);
  v.n_positions = call->in[first].shape[0];
  v.pairs = call->in[first].shape[1];
  v.n = from->shape[0] * v.above * (v.depth - v.pairs);
  v.interleaved = p->interleaved;
  v.is_backward = (call->flags & TN_CALL_BACKWARD) != 0;
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  a.at[FROM] = tn_cuda_from(from);
  a.at[COS] = tn_cuda_from(&call->in[first]);
  a.at[SIN] = tn_cuda_from(&call->in[first + 1]);
  if (at < call->n_in && !(call->in_flags[at] & TN_IN_ABSENT))
    a.at[POSITIONS] = tn_cuda_from(&call->in[at]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(from->dtype, [&](auto type) {
      typedef decltype(type) T;
      return tn_cuda_start_each(call, nn_rotary_rotate<T>, v.n, stream, a, v);
    });
  });
}

int32_t nn_rotary_cuda(const tn_frame *call) {
  return nn_rotary_run(call, &call->in[NN_ROTARY_IN_DATA], NN_ROTARY_IN_COS);
}

int32_t nn_rotary_cuda_backward(const tn_frame *call) {
  return nn_rotary_run(call, &call->in[NN_ROTARY_BACKWARD_GRAD_OUT],
                       NN_ROTARY_BACKWARD_IN_COS);
}
