/* SPDX-License-Identifier: Apache-2.0
 * scatter_gradients.cu: gradients of products, maxima and minima of scatter.h
 * on CUDA devices, and the gradients of these. Slices are sorted by place; a
 * thread computes the gradients of one element of a place and of all its
 * slices, in f64.
 */
#include "move.h"
#include "scatter_keys.cuh"
#include "tensor.cuh"

enum {
  GRADIENT,
  DATA,
  UPDATES,
  OUT,
  DATA_GRADIENT,
  UPDATE_GRADIENT,
  KEYS,
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> tensor_bending;

struct tensor_bent {
  tensor_places places;
  int64_t op;
};

/* The product of the factors that are not 0, and the number of zeros. */
struct tensor_factors {
  double product;
  int64_t zeros;
};

__device__ __forceinline__ void tensor_multiply(tensor_factors *f,
                                                double factor) {
  if (factor >= 0 && factor <= 0)
    ++f->zeros;
  else
    f->product *= factor;
}

__device__ __forceinline__ double tensor_other_factors(const tensor_factors &f,
                                                       double own) {
  if (f.zeros == 0) return f.product / own;
  return f.zeros == 1 && own >= 0 && own <= 0 ? f.product : 0.0;
}

__device__ __forceinline__ bool tensor_is_same(double a, double b) {
  return (a != a && b != b) || (a >= b && a <= b);
}

__device__ __forceinline__ void tensor_write_gradient(
    const tn_cuda_array &array, int64_t i, double value) {
  if (array.data != NULL) tn_cuda_write(array, i, value);
}

/* The run of keys of one place, and a column. */
struct tensor_run {
  const tn_cuda_key *keys;
  int64_t begin, end;
  int64_t inner, column;
};

__device__ __forceinline__ void tensor_bend_product(const tensor_bending &a,
                                                    const tensor_run &r) {
  const int64_t at = r.keys[r.begin].value * r.inner + r.column;
  const double data = tn_cuda_read<double>(a.at[DATA], at);
  const double gradient = tn_cuda_read<double>(a.at[GRADIENT], at);
  tensor_factors f = {1, 0};
  tensor_multiply(&f, data);
  for (int64_t k = r.begin; k < r.end; ++k)
    tensor_multiply(&f, tn_cuda_read<double>(a.at[UPDATES],
                                             r.keys[k].i * r.inner + r.column));
  tensor_write_gradient(a.at[DATA_GRADIENT], at,
                        gradient * tensor_other_factors(f, data));
  for (int64_t k = r.begin; k < r.end; ++k) {
    const int64_t i = r.keys[k].i * r.inner + r.column;
    const double own = tn_cuda_read<double>(a.at[UPDATES], i);
    tensor_write_gradient(a.at[UPDATE_GRADIENT], i,
                          gradient * tensor_other_factors(f, own));
  }
}

/* The gradient goes to the first operand that equals the result. */
__device__ __forceinline__ void tensor_bend_extreme(const tensor_bending &a,
                                                    const tensor_run &r) {
  const int64_t at = r.keys[r.begin].value * r.inner + r.column;
  const double gradient = tn_cuda_read<double>(a.at[GRADIENT], at);
  const double out = tn_cuda_read<double>(a.at[OUT], at);
  bool found = tensor_is_same(tn_cuda_read<double>(a.at[DATA], at), out);
  tensor_write_gradient(a.at[DATA_GRADIENT], at, found ? gradient : 0.0);
  for (int64_t k = r.begin; k < r.end; ++k) {
    const int64_t i = r.keys[k].i * r.inner + r.column;
    const bool own =
        !found && tensor_is_same(tn_cuda_read<double>(a.at[UPDATES], i), out);
    tensor_write_gradient(a.at[UPDATE_GRADIENT], i, own ? gradient : 0.0);
    found = found || own;
  }
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_bend_places(tensor_bending a, tensor_bent v) {
  const int64_t inner = v.places.inner, n = v.places.n;
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[KEYS].data;
  for (int64_t i = tensor_first<int64_t>(); i < n * inner;
       i += tensor_stride<int64_t>()) {
    tensor_run r = {keys, i / inner, i / inner + 1, inner, i % inner};
    if (keys[r.begin].value < 0) {
      tensor_write_gradient(a.at[UPDATE_GRADIENT],
                            keys[r.begin].i * inner + r.column, 0.0);
      continue;
    }
    if (r.begin > 0 && keys[r.begin - 1].value == keys[r.begin].value) continue;
    while (r.end < n && keys[r.end].value == keys[r.begin].value) ++r.end;
    if (v.op == TENSOR_SCATTER_MUL)
      tensor_bend_product(a, r);
    else
      tensor_bend_extreme(a, r);
  }
}

/* --------------------------------------------------------- second gradients */

/* Here the arrays of a run's place and updates are: */
enum {
  HEAD,
  SECOND_DATA,
  SECOND_UPDATES,
  SECOND_OUT,
  DATA_WEIGHT,
  UPDATE_WEIGHT,
  HEAD_RESULT,
  DATA_RESULT,
  UPDATE_RESULT,
  SECOND_KEYS,
  N_SECOND_ARRAYS
};
typedef tn_cuda_arrays<N_SECOND_ARRAYS> tensor_twice_bending;

/* The factors of a place with their weights: scatter_second.c explains it. */
struct tensor_weights {
  tensor_factors f;
  double shares;
  double zero_weights;
};

__device__ __forceinline__ void tensor_add_factor(tensor_weights *w, double x,
                                                  double weight) {
  tensor_multiply(&w->f, x);
  if (x >= 0 && x <= 0)
    w->zero_weights += weight;
  else
    w->shares += weight / x;
}

__device__ __forceinline__ double tensor_by_factor(const tensor_weights &w,
                                                   double x, double weight) {
  const bool is_zero = x >= 0 && x <= 0;
  const double product = w.f.product;
  if (w.f.zeros == 0) return product / x * (w.shares - weight / x);
  if (w.f.zeros == 1)
    return is_zero ? product * w.shares : product / x * w.zero_weights;
  return w.f.zeros == 2 && is_zero ? product * (w.zero_weights - weight) : 0.0;
}

__device__ __forceinline__ void tensor_bend_product_twice(
    const tensor_twice_bending &a, const tensor_run &r) {
  const int64_t at = r.keys[r.begin].value * r.inner + r.column;
  const double data = tn_cuda_read<double>(a.at[SECOND_DATA], at);
  const double weight = tn_cuda_read<double>(a.at[DATA_WEIGHT], at);
  /* absent if only the gradient of the head is requested */
  const double head =
      a.at[HEAD].data != NULL ? tn_cuda_read<double>(a.at[HEAD], at) : 0.0;
  tensor_weights w = {{1, 0}, 0, 0};
  tensor_add_factor(&w, data, weight);
  for (int64_t k = r.begin; k < r.end; ++k) {
    const int64_t i = r.keys[k].i * r.inner + r.column;
    tensor_add_factor(&w, tn_cuda_read<double>(a.at[SECOND_UPDATES], i),
                      tn_cuda_read<double>(a.at[UPDATE_WEIGHT], i));
  }
  tensor_write_gradient(a.at[HEAD_RESULT], at,
                        w.f.zeros == 0   ? w.f.product * w.shares
                        : w.f.zeros == 1 ? w.f.product * w.zero_weights
                                         : 0.0);
  tensor_write_gradient(a.at[DATA_RESULT], at,
                        head * tensor_by_factor(w, data, weight));
  for (int64_t k = r.begin; k < r.end; ++k) {
    const int64_t i = r.keys[k].i * r.inner + r.column;
    const double x = tn_cuda_read<double>(a.at[SECOND_UPDATES], i);
    const double own = tn_cuda_read<double>(a.at[UPDATE_WEIGHT], i);
    tensor_write_gradient(a.at[UPDATE_RESULT], i,
                          head * tensor_by_factor(w, x, own));
  }
}

/* The weight of the operand that equals the result. */
__device__ __forceinline__ void tensor_bend_extreme_twice(
    const tensor_twice_bending &a, const tensor_run &r) {
  const int64_t at = r.keys[r.begin].value * r.inner + r.column;
  const double out = tn_cuda_read<double>(a.at[SECOND_OUT], at);
  bool found = tensor_is_same(tn_cuda_read<double>(a.at[SECOND_DATA], at), out);
  double weight = found ? tn_cuda_read<double>(a.at[DATA_WEIGHT], at) : 0.0;
  for (int64_t k = r.begin; k < r.end; ++k) {
    const int64_t i = r.keys[k].i * r.inner + r.column;
    const bool own =
        !found &&
        tensor_is_same(tn_cuda_read<double>(a.at[SECOND_UPDATES], i), out);
    if (own) weight = tn_cuda_read<double>(a.at[UPDATE_WEIGHT], i);
    found = found || own;
    tensor_write_gradient(a.at[UPDATE_RESULT], i, 0.0);
  }
  tensor_write_gradient(a.at[HEAD_RESULT], at, weight);
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_bend_places_twice(tensor_twice_bending a, tensor_bent v) {
  const int64_t inner = v.places.inner, n = v.places.n;
  const tn_cuda_key *keys = (const tn_cuda_key *)a.at[SECOND_KEYS].data;
  for (int64_t i = tensor_first<int64_t>(); i < n * inner;
       i += tensor_stride<int64_t>()) {
    tensor_run r = {keys, i / inner, i / inner + 1, inner, i % inner};
    if (keys[r.begin].value < 0) {
      tensor_write_gradient(a.at[UPDATE_RESULT],
                            keys[r.begin].i * inner + r.column, 0.0);
      continue;
    }
    if (r.begin > 0 && keys[r.begin - 1].value == keys[r.begin].value) continue;
    while (r.end < n && keys[r.end].value == keys[r.begin].value) ++r.end;
    if (v.op == TENSOR_SCATTER_MUL)
      tensor_bend_product_twice(a, r);
    else
      tensor_bend_extreme_twice(a, r);
  }
}

/* --------------------------------------------------------------------- host */

uint64_t tensor_scatter_backward_bytes(const tensor_scatter *s) {
  return tn_cuda_key_bytes(s->places.n);
}

/* An array of results, without data if it is not requested. */
static tn_cuda_array array_of_results(const tn_tensor *to) {
  tn_cuda_array none;
  memset(&none, 0, sizeof none);
  return to != NULL ? tn_cuda_to(to, TN_REQ_WRITE) : none;
}

static int32_t bend_places(const tensor_scatter_gradient *g,
                           cudaStream_t stream) {
  const tensor_scatter *s = g->s;
  const tensor_bent v = {s->places, s->op};
  tensor_bending a = {};
  const int32_t code = tensor_sort_keys(s, stream, &a.at[KEYS]);
  if (code != TN_OK) return code;
  a.at[GRADIENT] = tn_cuda_from(g->gradient);
  a.at[DATA] = tn_cuda_from(g->data);
  a.at[UPDATES] = tn_cuda_from(s->slices);
  a.at[OUT] = tn_cuda_from(s->whole);
  a.at[DATA_GRADIENT] = array_of_results(g->data_gradient);
  a.at[UPDATE_GRADIENT] = array_of_results(g->slice_gradient);
  return tn_cuda_start_each(s->call, tensor_bend_places,
                            v.places.n * v.places.inner, stream, a, v);
}

/* Places without any slice keep the gradient of the result. */
int32_t tensor_scatter_backward(const tensor_scatter_gradient *g) {
  const tensor_scatter *s = g->s;
  int32_t code = TN_OK;
  if (g->data_gradient != NULL)
    code = tensor_copy(s->call, g->data_gradient, g->gradient);
  if (code != TN_OK || s->places.n * s->places.inner == 0) return code;
  return tn_cuda_on(
      s->call, [&](cudaStream_t stream) { return bend_places(g, stream); });
}

uint64_t tensor_scatter_second_bytes(const tensor_scatter *s) {
  return tn_cuda_key_bytes(s->places.n);
}

static int32_t bend_places_twice(const tensor_scatter_second *g,
                                 cudaStream_t stream) {
  const tensor_scatter *s = g->s;
  const tensor_bent v = {s->places, s->op};
  tensor_twice_bending a = {};
  const int32_t code = tensor_sort_keys(s, stream, &a.at[SECOND_KEYS]);
  if (code != TN_OK) return code;
  a.at[HEAD] = tn_cuda_from(g->head);
  a.at[SECOND_DATA] = tn_cuda_from(g->data);
  a.at[SECOND_UPDATES] = tn_cuda_from(s->slices);
  a.at[SECOND_OUT] = tn_cuda_from(s->whole);
  a.at[DATA_WEIGHT] = tn_cuda_from(g->data_weight);
  a.at[UPDATE_WEIGHT] = tn_cuda_from(g->slice_weight);
  a.at[HEAD_RESULT] = array_of_results(g->head_gradient);
  a.at[DATA_RESULT] = array_of_results(g->data_gradient);
  a.at[UPDATE_RESULT] = array_of_results(g->slice_gradient);
  return tn_cuda_start_each(s->call, tensor_bend_places_twice,
                            v.places.n * v.places.inner, stream, a, v);
}

/* A place without any slice has the weight of data, and no other factor. */
int32_t tensor_scatter_second_backward(const tensor_scatter_second *g) {
  const tensor_scatter *s = g->s;
  int32_t code = TN_OK;
  if (g->head_gradient != NULL)
    code = tensor_copy(s->call, g->head_gradient, g->data_weight);
  if (code == TN_OK && g->data_gradient != NULL)
    code = tensor_fill_zeros(s->call, g->data_gradient);
  if (code != TN_OK || s->places.n * s->places.inner == 0) return code;
  return tn_cuda_on(s->call, [&](cudaStream_t stream) {
    return bend_places_twice(g, stream);
  });
}
