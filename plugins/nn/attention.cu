/* SPDX-License-Identifier: Apache-2.0
 * attention.cu: attention.yaml on CUDA devices. A block computes a chunk of the
 * columns of 32 rows of a result, from all tiles that these rows use: so
 * nothing is added by two blocks. Backward computes the weights again for each
 * result.
 */
#include "attention.cuh"

#include "attention_draws.h"

/* ----------------------------------------------------------------- forward */

/* The softmax of a thread's row so far. */
template <class C>
struct nn_attention_softmax {
  C top;
  C sum;
};

/* Takes scores into the softmax of the rows, and replaces them by weights.
 * Returns the factor of earlier sums. */
template <class C>
__device__ __forceinline__ C nn_attention_take(nn_attention_softmax<C> &s,
                                               C (&score)[NN_ATTENTION_EACH]) {
  C top = score[0], sum = 0;
  for (int j = 1; j < NN_ATTENTION_EACH; ++j)
    top = tn_cuda_largest()(top, score[j]);
  top = tn_cuda_reduce_warp(top, tn_cuda_largest(), NN_ATTENTION_LANES);
  top = tn_cuda_largest()(s.top, top);
  const C from = top <= -(C)INFINITY ? (C)0 : top;
  for (int j = 0; j < NN_ATTENTION_EACH; ++j) {
    score[j] = nn_exp(score[j] - from);
    sum += score[j];
  }
  sum = tn_cuda_reduce_warp(sum, tn_cuda_plus(), NN_ATTENTION_LANES);
  const C factor = nn_exp(s.top - from);
  s.top = top;
  s.sum = s.sum * factor + sum;
  return factor;
}

/* Writes the weights of the thread to shared memory, with dropped ones as 0. */
template <class C>
__device__ __forceinline__ void nn_attention_share(
    nn_attention_shared<C> &shared, const nn_attention_arrays &a,
    const nn_attention_view &v, const nn_attention_place &p,
    const C (&weight)[NN_ATTENTION_EACH]) {
  for (int j = 0; j < NN_ATTENTION_EACH; ++j) {
    nn_attention_place own = p;
    own.row += nn_attention_row();
    own.column += nn_attention_column(j);
    shared.weight[nn_attention_row()][nn_attention_column(j)] =
        weight[j] * nn_attention_find_factor<C>(a, v, own);
  }
}

/* Returns the tile of rows, without columns, that unit `u` of so many chunks
 * computes. */
__device__ __forceinline__ nn_attention_place nn_attention_locate_rows(
    const nn_attention_view &v, int64_t u, int64_t chunks) {
  const int64_t tiles = nn_attention_count(v.rows, NN_ATTENTION_EDGE);
  const int64_t tile = u / chunks, head = tile / tiles;
  const nn_attention_place p = {head / v.heads, head % v.heads,
                                tile % tiles * NN_ATTENTION_EDGE, 0};
  return p;
}

/* Writes the output `drawn`. */
__device__ __forceinline__ void nn_attention_write_drawn(
    const nn_attention_arrays &a, const nn_attention_view &v) {
  const tn_cuda_array &offset = a.at[NN_ATTENTION_OFFSET];
  const tn_cuda_array &drawn = a.at[NN_ATTENTION_DRAWN];
  if (drawn.data == NULL || blockIdx.x != 0 || threadIdx.x != 0) return;
  const int64_t from = offset.data != NULL ? *(const int64_t *)offset.data
                                           : (int64_t)v.random.offset;
  tn_cuda_write(drawn, 0, (int64_t)v.drops);
  tn_cuda_write(drawn, 1, v.drops ? (int64_t)v.random.key : (int64_t)0);
  tn_cuda_write(drawn, 2, v.drops ? from : (int64_t)0);
}

/* Writes TO, LSE and DRAWN. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_attention_attend(nn_attention_arrays a, nn_attention_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_attention_shared<C> shared;
  const int64_t chunks =
      v.width > 0 ? nn_attention_count(v.width, NN_ATTENTION_CHUNK) : 1;
  const int64_t units = v.batch * v.heads *
                        nn_attention_count(v.rows, NN_ATTENTION_EDGE) * chunks;
  nn_attention_write_drawn(a, v);
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t chunk = u % chunks * NN_ATTENTION_CHUNK;
    nn_attention_place p = nn_attention_locate_rows(v, u, chunks);
    nn_attention_softmax<C> s = {-(C)INFINITY, 0};
    nn_attention_sums<C> sums = {};
    const int64_t end = nn_attention_find_end(a, v, p);
    for (; p.column < end; p.column += NN_ATTENTION_EDGE) {
      nn_attention_scores<C> score;
      if (nn_attention_hides_tile(a, v, p)) continue;
      nn_attention_score<T>(shared, a, v, p, score);
      const C factor = nn_attention_take(s, score.x);
      for (int k = 0; k < NN_ATTENTION_PIECES; ++k)
        for (int j = 0; j < NN_ATTENTION_EACH; ++j) sums.piece[k][j] *= factor;
      nn_attention_share(shared, a, v, p, score.x);
      nn_attention_add_rows<T, false>(shared, a.at[NN_ATTENTION_V],
                                      nn_attention_find_keys(v, p, v.width),
                                      chunk, sums);
    }
    const nn_attention_lines lines = nn_attention_find_rows(v, p, v.width);
    if (a.at[NN_ATTENTION_TO].data != NULL)
      nn_attention_store<T>(a.at[NN_ATTENTION_TO], lines, chunk,
                            s.sum == 0 ? (C)0 : 1 / s.sum, sums);
    if (a.at[NN_ATTENTION_LSE].data != NULL && chunk == 0 &&
        nn_attention_column(0) == 0 && nn_attention_row() < lines.n)
      tn_cuda_write(
          a.at[NN_ATTENTION_LSE], lines.first + nn_attention_row(),
          s.sum == 0 ? -(double)INFINITY : (double)s.top + log((double)s.sum));
  }
}

/* ---------------------------------------------------------------- backward */

/* Results of the backward pass. */
enum { NN_ATTENTION_OF_Q, NN_ATTENTION_OF_K, NN_ATTENTION_OF_V };

/* Returns the product of the thread's row of the output gradient and of out. */
template <class T, class C>
__device__ __forceinline__ C nn_attention_dot(const nn_attention_arrays &a,
                                              const nn_attention_lines &lines) {
  const int r = nn_attention_row();
  C dot = 0;
  if (r < lines.n)
    for (int64_t d = nn_attention_column(0); d < lines.length;
         d += NN_ATTENTION_LANES) {
      const int64_t i = (lines.first + r) * lines.length + d;
      dot += nn_load_element<T>(a.at[NN_ATTENTION_H], i) *
             nn_load_element<T>(a.at[NN_ATTENTION_OUT], i);
    }
  return tn_cuda_reduce_warp(dot, tn_cuda_plus(), NN_ATTENTION_LANES);
}

/* Writes the factors of a tile to shared memory: its weights for the gradient
 * of v, otherwise the gradients of its scores. */
template <class T, int of, class C>
__device__ __forceinline__ void nn_attention_find_factors(
    nn_attention_shared<C> &shared, const nn_attention_arrays &a,
    const nn_attention_view &v, const nn_attention_place &p) {
  const nn_attention_lines rows = nn_attention_find_rows(v, p, v.width);
  const int r = nn_attention_row();
  nn_attention_scores<C> score;
  C slope[NN_ATTENTION_EACH], lse = 0;
  if (r < rows.n) lse = tn_cuda_read<C>(a.at[NN_ATTENTION_LSE], rows.first + r);
  if (lse <= -(C)INFINITY) lse = 0;
  nn_attention_score<T>(shared, a, v, p, score);
  for (int j = 0; j < NN_ATTENTION_EACH; ++j)
    score.x[j] = nn_exp(score.x[j] - lse);
  if (of == NN_ATTENTION_OF_V) {
    nn_attention_share(shared, a, v, p, score.x);
    return;
  }
  const C sum = nn_attention_dot<T, C>(a, rows);
  const nn_attention_source h = {a.at[NN_ATTENTION_H], rows};
  const nn_attention_source values = {a.at[NN_ATTENTION_V],
                                      nn_attention_find_keys(v, p, v.width)};
  nn_attention_multiply<T>(shared, h, values, slope);
  for (int j = 0; j < NN_ATTENTION_EACH; ++j) {
    nn_attention_place own = p;
    own.row += r;
    own.column += nn_attention_column(j);
    slope[j] *= nn_attention_find_factor<C>(a, v, own);
    shared.weight[r][nn_attention_column(j)] =
        score.x[j] * (slope[j] - sum) * score.bend[j] * (C)v.scale;
  }
}

/* Reads the output `drawn` of the forward pass. */
__device__ __forceinline__ void nn_attention_read_drawn(
    const nn_attention_arrays &a, nn_attention_view *v) {
  const int64_t *drawn = (const int64_t *)a.at[NN_ATTENTION_DRAWN].data;
  v->drops = drawn[0] != 0;
  v->random.key = (uint64_t)drawn[1];
  v->random.offset = (uint64_t)drawn[2];
}

/* Writes the gradient of q to TO. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_attention_write_q(nn_attention_arrays a, nn_attention_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_attention_shared<C> shared;
  const int64_t chunks = nn_attention_count(v.depth, NN_ATTENTION_CHUNK);
  const int64_t units = v.batch * v.heads *
                        nn_attention_count(v.rows, NN_ATTENTION_EDGE) * chunks;
  nn_attention_read_drawn(a, &v);
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t chunk = u % chunks * NN_ATTENTION_CHUNK;
    nn_attention_place p = nn_attention_locate_rows(v, u, chunks);
    nn_attention_sums<C> sums = {};
    const int64_t end = nn_attention_find_end(a, v, p);
    for (; p.column < end; p.column += NN_ATTENTION_EDGE) {
      if (nn_attention_hides_tile(a, v, p)) continue;
      nn_attention_find_factors<T, NN_ATTENTION_OF_Q>(shared, a, v, p);
      nn_attention_add_rows<T, false>(shared, a.at[NN_ATTENTION_K],
                                      nn_attention_find_keys(v, p, v.depth),
                                      chunk, sums);
    }
    nn_attention_store<T>(a.at[NN_ATTENTION_TO],
                          nn_attention_find_rows(v, p, v.depth), chunk, (C)1,
                          sums);
  }
}

/* Writes the gradient of k or v to TO. Each head of k and v sums over its group
 * of heads of q. */
template <class T, int of>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_attention_write_columns(nn_attention_arrays a, nn_attention_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_attention_shared<C> shared;
  const int64_t length = of == NN_ATTENTION_OF_K ? v.depth : v.width;
  const tn_cuda_array &from =
      a.at[of == NN_ATTENTION_OF_K ? NN_ATTENTION_Q : NN_ATTENTION_H];
  const int64_t chunks = nn_attention_count(length, NN_ATTENTION_CHUNK);
  const int64_t tiles = nn_attention_count(v.columns, NN_ATTENTION_EDGE);
  const int64_t units = v.batch * v.key_heads * tiles * chunks;
  nn_attention_read_drawn(a, &v);
  for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
    const int64_t chunk = u % chunks * NN_ATTENTION_CHUNK;
    const int64_t tile = u / chunks, head = tile / tiles;
    const int64_t group = v.heads / v.key_heads;
    nn_attention_place p = {head / v.key_heads, head % v.key_heads * group, 0,
                            tile % tiles * NN_ATTENTION_EDGE};
    nn_attention_sums<C> sums = {};
    for (int64_t g = 0; g < group; ++g, ++p.head)
      for (p.row = 0; p.row < v.rows; p.row += NN_ATTENTION_EDGE) {
        if (nn_attention_hides_tile(a, v, p)) continue;
        nn_attention_find_factors<T, of>(shared, a, v, p);
        nn_attention_add_rows<T, true>(
            shared, from, nn_attention_find_rows(v, p, length), chunk, sums);
      }
    p.head = head % v.key_heads * group;
    nn_attention_store<T>(a.at[NN_ATTENTION_TO],
                          nn_attention_find_keys(v, p, length), chunk, (C)1,
                          sums);
  }
}

/* ------------------------------------------------------------------- calls */

/* Sets the distances of elements of the mask. */
static void nn_attention_set_mask(nn_attention_view *v, const tn_tensor *mask) {
  for (int32_t d = 0; d < mask->ndim; ++d)
    if (mask->shape[d] != 1)
      v->mask_step[4 - mask->ndim + d] = mask->strides[d];
}

/* Returns x, or the nearest number that can be added to the number of a row. */
static int64_t nn_attention_limit(int64_t x) {
  const int64_t most = (int64_t)1 << 60;
  return x > most ? most : x < -most ? -most : x;
}

/* Returns the view of a call; in[0] is q, followed by the other inputs. */
static nn_attention_view nn_attention_make_view(const tn_frame *call,
                                                const tn_tensor *in) {
  const nn_attention_params *params = nn_attention_params_of(call);
  const tn_tensor *q = &in[NN_ATTENTION_IN_Q], *value = &in[NN_ATTENTION_IN_V];
  nn_attention_view v = {};
  v.batch = q->shape[0];
  v.heads = q->shape[1];
  v.rows = q->shape[2];
  v.depth = q->shape[3];
  v.key_heads = value->shape[1];
  v.columns = value->shape[2];
  v.width = value->shape[3];
  v.offset = nn_attention_limit(params->causal_offset);
  v.window = nn_attention_limit(params->window);
  v.scale = params->has_scale ? params->scale
            : v.depth > 0     ? 1 / sqrt((double)v.depth)
                              : 1;
  v.softcap = params->softcap;
  v.kept = params->p < 1 ? 1 / (1 - params->p) : 0;
  v.limit = params->p < 1 ? (uint32_t)(params->p * 0x1p32) : 0;
  v.causal = params->causal;
  return v;
}

/* Returns an optional input as an array; without data if it is absent. */
static tn_cuda_array nn_attention_optional(const tn_frame *call, uint32_t i) {
  const tn_cuda_array none = {};
  if (i >= call->n_in || call->in_flags[i] & TN_IN_ABSENT) return none;
  return tn_cuda_from(&call->in[i]);
}

/* Sets the arrays of the inputs; the first one is input `first` of the call. */
static void nn_attention_set_inputs(const tn_frame *call, uint32_t first,
                                    nn_attention_arrays *a,
                                    nn_attention_view *v) {
  const tn_tensor *in = &call->in[first];
  *v = nn_attention_make_view(call, in);
  a->at[NN_ATTENTION_Q] = tn_cuda_from(&in[NN_ATTENTION_IN_Q]);
  a->at[NN_ATTENTION_K] = tn_cuda_from(&in[NN_ATTENTION_IN_K]);
  a->at[NN_ATTENTION_V] = tn_cuda_from(&in[NN_ATTENTION_IN_V]);
  a->at[NN_ATTENTION_MASK] =
      nn_attention_optional(call, first + NN_ATTENTION_IN_MASK);
  a->at[NN_ATTENTION_LENGTHS] =
      nn_attention_optional(call, first + NN_ATTENTION_IN_KEY_LENGTHS);
  if (a->at[NN_ATTENTION_MASK].data != NULL)
    nn_attention_set_mask(v, &in[NN_ATTENTION_IN_MASK]);
}

int32_t nn_attention_cuda_drops(const tn_frame *call) {
  return nn_attention_check_draws(call);
}

int32_t nn_attention_cuda(const tn_frame *call) {
  nn_attention_arrays a = {};
  nn_attention_view v;
  nn_attention_set_inputs(call, 0, &a, &v);
  a.at[NN_ATTENTION_TO] = tn_cuda_to(&call->out[NN_ATTENTION_OUT_OUT],
                                     call->req[NN_ATTENTION_OUT_OUT]);
  a.at[NN_ATTENTION_LSE] = tn_cuda_to(&call->out[NN_ATTENTION_OUT_LSE],
                                      call->req[NN_ATTENTION_OUT_LSE]);
  a.at[NN_ATTENTION_DRAWN] = tn_cuda_to(&call->out[NN_ATTENTION_OUT_DRAWN],
                                        call->req[NN_ATTENTION_OUT_DRAWN]);
  v.drops = call->run->n_random > 0;
  if (v.drops) {
    a.at[NN_ATTENTION_OFFSET] = tn_cuda_offset(call->run->random[0]);
    v.random = tn_cuda_random_of(call->run->random[0]);
  }
  const int64_t chunks =
      v.width > 0 ? nn_attention_count(v.width, NN_ATTENTION_CHUNK) : 1;
  const int64_t units = v.batch * v.heads *
                        nn_attention_count(v.rows, NN_ATTENTION_EDGE) * chunks;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->in[0].dtype, [&](auto type) {
      typedef decltype(type) T;
      return tn_cuda_start(call, nn_attention_attend<T>, units > 0 ? units : 1,
                           stream, a, v);
    });
  });
}

/* Launches the kernel of one gradient: `of` q, k or v. */
template <class T>
static int32_t nn_attention_launch(const tn_frame *call, uint32_t of,
                                   cudaStream_t stream, nn_attention_arrays a,
                                   const nn_attention_view &v) {
  const int64_t length = of == NN_ATTENTION_OF_V ? v.width : v.depth;
  const int64_t chunks = nn_attention_count(length, NN_ATTENTION_CHUNK);
  const int64_t rows = nn_attention_count(v.rows, NN_ATTENTION_EDGE);
  const int64_t columns = nn_attention_count(v.columns, NN_ATTENTION_EDGE);
  a.at[NN_ATTENTION_TO] = tn_cuda_to(&call->out[of], call->req[of]);
  if (of == NN_ATTENTION_OF_Q)
    return tn_cuda_start(call, nn_attention_write_q<T>,
                         v.batch * v.heads * rows * chunks, stream, a, v);
  return tn_cuda_start(call,
                       of == NN_ATTENTION_OF_K
                           ? nn_attention_write_columns<T, NN_ATTENTION_OF_K>
                           : nn_attention_write_columns<T, NN_ATTENTION_OF_V>,
                       v.batch * v.key_heads * columns * chunks, stream, a, v);
}

int32_t nn_attention_cuda_backward(const tn_frame *call) {
  nn_attention_arrays a = {};
  nn_attention_view v;
  nn_attention_set_inputs(call, NN_ATTENTION_BACKWARD_IN_Q, &a, &v);
  a.at[NN_ATTENTION_H] =
      tn_cuda_from(&call->in[NN_ATTENTION_BACKWARD_GRAD_OUT]);
  a.at[NN_ATTENTION_OUT] =
      nn_attention_optional(call, NN_ATTENTION_BACKWARD_OUT_OUT);
  a.at[NN_ATTENTION_LSE] =
      tn_cuda_from(&call->in[NN_ATTENTION_BACKWARD_OUT_LSE]);
  a.at[NN_ATTENTION_DRAWN] =
      tn_cuda_from(&call->in[NN_ATTENTION_BACKWARD_OUT_DRAWN]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(
        call->in[NN_ATTENTION_BACKWARD_IN_Q].dtype, [&](auto type) {
          typedef decltype(type) T;
          int32_t code = TN_OK;
          for (uint32_t of = 0; of < 3 && code == TN_OK; ++of)
            if (call->req[of] != TN_REQ_NULL && tn_tensor_size(&call->out[of]))
              code = nn_attention_launch<T>(call, of, stream, a, v);
          return code;
        });
  });
}
