/* SPDX-License-Identifier: Apache-2.0
 * scatter.cu: scatter.h on CUDA devices. No thread waits for indices to be
 * read: a slice whose index is out of range is NaN, of integers 0, and changes
 * nothing. Where the order of slices counts, their numbers are sorted by place
 * (tenon/kernel/scatter.cuh), and one thread uses all slices of a place.
 */
#include "scatter.h"

#include "move.h"
#include "places.cuh"
#include "scatter_keys.cuh"

enum { WHOLE, INDICES, SLICES, KEYS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_scattering;

/* Arguments of the CUDA kernels. */
struct tensor_scattered {
  tensor_places places;
  uint64_t none[2]; /* element of a slice without a place */
  int64_t op;
};

/* ------------------------------------------------------------------ kernels */

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_gather_each(tensor_scattering a, tensor_scattered v) {
  const int64_t inner = v.places.inner;
  T none;
  memcpy(&none, v.none, sizeof none);
  for (int64_t i = tensor_first<int64_t>(); i < v.places.n * inner;
       i += tensor_stride<int64_t>()) {
    const int64_t from = tensor_place_of(a.at[INDICES], v.places, i / inner);
    ((T *)a.at[SLICES].data)[i] =
        from < 0 ? none : ((const T *)a.at[WHOLE].data)[from + i % inner];
  }
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_clear_each(tensor_scattering a, tensor_scattered v) {
  const int64_t inner = v.places.inner;
  for (int64_t i = tensor_first<int64_t>(); i < v.places.n * inner;
       i += tensor_stride<int64_t>()) {
    const int64_t to = tensor_place_of(a.at[INDICES], v.places, i / inner);
    if (to >= 0) ((T *)a.at[WHOLE].data)[to + i % inner] = (T)0;
  }
}

/* Whether the sorted key k is the last one, or the first one, of its place. */
__device__ __forceinline__ bool tensor_is_last(const tn_cuda_key *keys,
                                               int64_t k, int64_t n) {
  return k + 1 == n || keys[k + 1].value != keys[k].value;
}

__device__ __forceinline__ bool tensor_is_first(const tn_cuda_key *keys,
                                                int64_t k) {
  return k == 0 || keys[k - 1].value != keys[k].value;
}

/* Copies the last slice of each place to it. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_set_last(tensor_scattering a, tensor_scattered v) {
  const int64_t inner = v.places.inner, n = v.places.n;
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  for (int64_t i = tensor_first<int64_t>(); i < n * inner;
       i += tensor_stride<int64_t>()) {
    const int64_t k = i / inner, column = i % inner;
    if (keys[k].value >= 0 && tensor_is_last(keys, k, n))
      ((T *)a.at[WHOLE].data)[keys[k].value * inner + column] =
          ((const T *)a.at[SLICES].data)[keys[k].i * inner + column];
  }
}

/* Copies each place to its last slice, and 0 to the others. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_gather_last_each(tensor_scattering a, tensor_scattered v) {
  const int64_t inner = v.places.inner, n = v.places.n;
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  for (int64_t i = tensor_first<int64_t>(); i < n * inner;
       i += tensor_stride<int64_t>()) {
    const int64_t k = i / inner, column = i % inner;
    const bool wins = keys[k].value >= 0 && tensor_is_last(keys, k, n);
    ((T *)a.at[SLICES].data)[keys[k].i * inner + column] =
        wins ? ((const T *)a.at[WHOLE].data)[keys[k].value * inner + column]
             : (T)0;
  }
}

/* Integers wrap. */
__device__ __forceinline__ double tensor_product(double a, double b) {
  return a * b;
}

__device__ __forceinline__ int64_t tensor_product(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

template <class C>
__device__ __forceinline__ C tensor_change(int64_t op, C a, C b) {
  if (op == TENSOR_SCATTER_MUL) return tensor_product(a, b);
  if (op == TENSOR_SCATTER_MAX) return tn_cuda_largest()(a, b);
  return tn_cuda_least()(a, b);
}

/* Products, maxima and minima: a thread has a column of a place. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_reduce_places(tensor_scattering a, tensor_scattered v) {
  const int64_t inner = v.places.inner, n = v.places.n;
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  for (int64_t i = tensor_first<int64_t>(); i < n * inner;
       i += tensor_stride<int64_t>()) {
    int64_t k = i / inner;
    const int64_t column = i % inner, at = keys[k].value * inner + column;
    if (keys[k].value < 0 || !tensor_is_first(keys, k)) continue;
    C value = tn_cuda_read<C>(a.at[WHOLE], at);
    for (bool more = true; more; ++k) {
      value = tensor_change(
          v.op, value,
          tn_cuda_read<C>(a.at[SLICES], keys[k].i * inner + column));
      more = !tensor_is_last(keys, k, n);
    }
    tn_cuda_write(a.at[WHOLE], at, value);
  }
}

/* --------------------------------------------------------------------- host */

static tensor_scattered make_arguments(const tensor_scatter *s) {
  const tn_dtype dtype = s->whole->dtype;
  const bool is_float = tensor_wide_dtype(dtype) == TN_F64;
  const tensor_element none =
      tensor_element_of(is_float ? (double)NAN : 0, dtype);
  tensor_scattered v;
  memset(&v, 0, sizeof v);
  v.places = s->places;
  v.op = s->op;
  tensor_repeat(v.none, &none, tn_dtype_bytes(dtype));
  return v;
}

static int64_t count_elements(const tensor_scatter *s) {
  return s->places.n * s->places.inner;
}

int32_t tensor_scatter_check(const tensor_scatter *s) {
  const tensor_places *p = &s->places;
  const int64_t n = p->is_tuples ? p->depth : p->ndim;
  for (int64_t d = 0; d < n && p->n > 0; ++d)
    if (p->length[d] == 0 && (p->is_tuples || d == p->axis))
      return TN_FAIL(s->call, TN_OUT_OF_RANGE,
                     "there are %lld indices, but axis %d of `%s` has length 0",
                     (long long)p->n, (int)(p->batch_dims + d), s->name);
  return TN_OK;
}

/* Calls `start(type)` with an unsigned type of the width of an element. */
template <class Start>
static int32_t start_moves(const tensor_scatter *s, Start start) {
  if (count_elements(s) == 0) return TN_OK;
  return tn_cuda_on(s->call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(tn_dtype_bytes(s->whole->dtype),
                            [&](auto type) { return start(type, stream); });
  });
}

int32_t tensor_gather_run(const tensor_scatter *s) {
  const tensor_scattered v = make_arguments(s);
  tensor_scattering a = {};
  a.at[WHOLE] = tn_cuda_from(s->whole);
  a.at[INDICES] = tn_cuda_from(s->indices);
  a.at[SLICES] = tn_cuda_to(s->slices, TN_REQ_WRITE);
  return start_moves(s, [&](auto type, cudaStream_t stream) {
    return tn_cuda_start_each(s->call, tensor_gather_each<decltype(type)>,
                              count_elements(s), stream, a, v);
  });
}

int32_t tensor_clear_places(const tensor_scatter *s) {
  const tensor_scattered v = make_arguments(s);
  tensor_scattering a = {};
  a.at[WHOLE] = tn_cuda_to(s->whole, TN_REQ_WRITE);
  a.at[INDICES] = tn_cuda_from(s->indices);
  return start_moves(s, [&](auto type, cudaStream_t stream) {
    return tn_cuda_start_each(s->call, tensor_clear_each<decltype(type)>,
                              count_elements(s), stream, a, v);
  });
}

/* ----------------------------------------------------------------- scatters */

static tn_cuda_scatter make_sums(const tensor_scatter *s) {
  const tensor_places slices = tensor_count_slices(&s->places);
  return tn_cuda_scatter_of(1, slices.size, s->places.n, s->places.inner);
}

uint64_t tensor_scatter_run_bytes(const tensor_scatter *s) {
  const tn_cuda_scatter sums = make_sums(s);
  return s->op == TENSOR_SCATTER_ADD ? tn_cuda_scatter_bytes(&sums)
                                     : tn_cuda_key_bytes(s->places.n);
}

static int32_t add_slices(const tensor_scatter *s, cudaStream_t stream) {
  tn_cuda_scatter_arrays a = {};
  a.at[TN_CUDA_SCATTER_TO] = tn_cuda_to(s->whole, TN_REQ_ADD);
  a.at[TN_CUDA_SCATTER_SLICES] = tn_cuda_from(s->slices);
  const int32_t code = tensor_write_keys(s, stream);
  if (code != TN_OK) return code;
  return tn_cuda_by_sum(s->whole->dtype, [&](auto type) {
    return tn_cuda_scatter_add<decltype(type)>(s->call, s->room, make_sums(s),
                                               a, stream);
  });
}

static int32_t change_places(const tensor_scatter *s, cudaStream_t stream) {
  const tensor_scattered v = make_arguments(s);
  const int64_t n = count_elements(s);
  tensor_scattering a = {};
  const int32_t code = tensor_sort_keys(s, stream, &a.at[KEYS]);
  if (code != TN_OK) return code;
  a.at[WHOLE] = tn_cuda_to(s->whole, TN_REQ_WRITE);
  a.at[SLICES] = tn_cuda_from(s->slices);
  if (s->op == TENSOR_SCATTER_SET)
    return tn_cuda_by_width(tn_dtype_bytes(s->whole->dtype), [&](auto type) {
      return tn_cuda_start_each(s->call, tensor_set_last<decltype(type)>, n,
                                stream, a, v);
    });
  return tensor_by_wide(s->whole->dtype, [&](auto type) {
    return tn_cuda_start_each(s->call, tensor_reduce_places<decltype(type)>, n,
                              stream, a, v);
  });
}

int32_t tensor_scatter_run(const tensor_scatter *s, const tn_tensor *old) {
  int32_t code = TN_OK;
  if (old == NULL)
    code = tensor_fill_zeros(s->call, s->whole);
  else if (!tensor_is_in_place(s, old))
    code = tensor_copy(s->call, s->whole, old);
  if (code != TN_OK || count_elements(s) == 0) return code;
  return tn_cuda_on(s->call, [&](cudaStream_t stream) {
    return s->op == TENSOR_SCATTER_ADD ? add_slices(s, stream)
                                       : change_places(s, stream);
  });
}

uint64_t tensor_gather_last_bytes(const tensor_scatter *s) {
  return tn_cuda_key_bytes(s->places.n);
}

int32_t tensor_gather_last(const tensor_scatter *s) {
  const tensor_scattered v = make_arguments(s);
  return start_moves(s, [&](auto type, cudaStream_t stream) {
    tensor_scattering a = {};
    const int32_t code = tensor_sort_keys(s, stream, &a.at[KEYS]);
    a.at[WHOLE] = tn_cuda_from(s->whole);
    a.at[SLICES] = tn_cuda_to(s->slices, TN_REQ_WRITE);
    return code == TN_OK ? tn_cuda_start_each(
                               s->call, tensor_gather_last_each<decltype(type)>,
                               count_elements(s), stream, a, v)
                         : code;
  });
}
