/* SPDX-License-Identifier: Apache-2.0
 * sort.cu: the operators of sort.yaml on CUDA devices. Elements become keys of
 * 64 bits, which are sorted line by line (scatter.cuh). topk sorts whole lines
 * too.
 */
#include "sort.gen.h"
#include "sort.h"
#include "tenon/kernel/scatter.cuh"
#include "tensor.cuh"

enum { DATA, KEYS, VALUES, PLACES, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_sorting;

/* Arguments of the CUDA kernels. */
struct tensor_sorted {
  sort_lines lines;
  int64_t n;    /* elements of data, or results */
  int is_float; /* kinds of elements */
  int is_u64;
  uint64_t one; /* of a mask */
};

/* The bits of an f64 as an integer of the same order; NaN is the greatest. */
__device__ __forceinline__ int64_t tensor_order_of(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return INT64_MAX;
  if (x == 0) return 0;
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

/* A key for each element; its number is its place in the line. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_sort_keys(tensor_sorting a, tensor_sorted v) {
  const int64_t n = v.lines.n, inner = v.lines.inner;
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t column = i % inner, place = i / inner % n;
    const int64_t line = i / inner / n * inner + column;
    int64_t order = v.is_float
                        ? tensor_order_of(tn_cuda_read<double>(a.at[DATA], i))
                        : tn_cuda_read<int64_t>(a.at[DATA], i);
    if (v.is_u64) order ^= INT64_MIN;
    tn_cuda_key *key = (tn_cuda_key *)a.at[KEYS].data + line * n + place;
    key->value = v.lines.descending ? ~order : order;
    key->i = place;
  }
}

/* Position in data of result number i. */
__device__ __forceinline__ int64_t tensor_result_at(const tensor_sorted &v,
                                                    int64_t i, int64_t place) {
  const int64_t inner = v.lines.inner;
  return (i / inner / v.lines.k * v.lines.n + place) * inner + i % inner;
}

/* The place that the sorted keys have for result number i. */
__device__ __forceinline__ int64_t tensor_sorted_place(const tensor_sorting &a,
                                                       const tensor_sorted &v,
                                                       int64_t i) {
  const int64_t inner = v.lines.inner, k = v.lines.k;
  const int64_t line = i / inner / k * inner + i % inner;
  return ((const tn_cuda_key *)a.at[KEYS]
              .data)[line * v.lines.n + i / inner % k]
      .i;
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_sort_results(tensor_sorting a, tensor_sorted v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t place = tensor_sorted_place(a, v, i);
    if (a.at[VALUES].data != NULL)
      ((T *)a.at[VALUES].data)[i] =
          ((const T *)a.at[DATA].data)[tensor_result_at(v, i, place)];
    if (a.at[PLACES].data != NULL) ((int64_t *)a.at[PLACES].data)[i] = place;
  }
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_sort_marks(tensor_sorting a, tensor_sorted v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>())
    ((T *)a.at[VALUES]
         .data)[tensor_result_at(v, i, tensor_sorted_place(a, v, i))] =
        (T)v.one;
}

/* Each result goes to its place, unless that is out of range. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_sort_scatter(tensor_sorting a, tensor_sorted v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t place = ((const int64_t *)a.at[PLACES].data)[i];
    if (place >= 0 && place < v.lines.n)
      ((T *)a.at[DATA].data)[tensor_result_at(v, i, place)] =
          ((const T *)a.at[VALUES].data)[i];
  }
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_sort_gather_each(tensor_sorting a, tensor_sorted v) {
  for (int64_t i = tensor_first<int64_t>(); i < v.n;
       i += tensor_stride<int64_t>()) {
    const int64_t place = ((const int64_t *)a.at[PLACES].data)[i];
    const bool is_inside = place >= 0 && place < v.lines.n;
    ((T *)a.at[VALUES].data)[i] =
        is_inside ? ((const T *)a.at[DATA].data)[tensor_result_at(v, i, place)]
                  : (T)0;
  }
}

/* -------------------------------------------------------------------- host */

static int64_t count_elements(const sort_lines &lines) {
  return lines.outer * lines.n * lines.inner;
}

static tensor_sorted sorted_of(const sort_lines &lines, tn_dtype dtype) {
  tensor_sorted v;
  memset(&v, 0, sizeof v);
  v.lines = lines;
  v.n = lines.outer * lines.k * lines.inner;
  v.is_float = tensor_wide_dtype(dtype) == TN_F64;
  v.is_u64 = dtype == TN_U64;
  v.one = tensor_element_of(1, dtype).bits;
  return v;
}

/* Sorts all lines; *sorted becomes the array of the keys. */
static int32_t sort_keys(const tn_frame *call, const tensor_sorted &results,
                         cudaStream_t stream, tn_cuda_array *sorted) {
  tensor_sorted v = results;
  tensor_sorting a = {};
  v.n = count_elements(v.lines);
  a.at[DATA] = tn_cuda_from(&call->in[0]);
  a.at[KEYS] = tn_cuda_key_array(call->ws[0], v.n);
  const int32_t code =
      tn_cuda_start_each(call, tensor_sort_keys, v.n, stream, a, v);
  const tn_cuda_runs runs = {v.n, v.lines.n, 0};
  return code == TN_OK
             ? tn_cuda_sort_lines(call, call->ws[0], runs, stream, sorted)
             : code;
}

/* Computes the outputs; a call without one of them has NULL. */
static int32_t run_sort(const tn_frame *call, const sort_lines &lines,
                        tn_cuda_array values, tn_cuda_array places) {
  const tn_tensor *data = &call->in[0];
  const tensor_sorted v = sorted_of(lines, data->dtype);
  if (v.n == 0) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    tensor_sorting a = {};
    a.at[DATA] = tn_cuda_from(data);
    a.at[VALUES] = values;
    a.at[PLACES] = places;
    const int32_t code = sort_keys(call, v, stream, &a.at[KEYS]);
    if (code != TN_OK) return code;
    return tn_cuda_by_width(tn_dtype_bytes(data->dtype), [&](auto type) {
      return tn_cuda_start_each(call, tensor_sort_results<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

static int32_t find_bytes(const tn_frame *call, const sort_lines &lines,
                          uint64_t *bytes) {
  (void)call;
  *bytes = tn_cuda_key_bytes(count_elements(lines));
  return TN_OK;
}

int32_t tensor_sort_bytes(const tn_frame *call, uint64_t *bytes) {
  sort_lines lines;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = sort_read_sort(call, &call->in[0], &lines);
  return code == TN_OK ? find_bytes(call, lines, bytes) : code;
}

int32_t tensor_topk_bytes(const tn_frame *call, uint64_t *bytes) {
  sort_lines lines;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = sort_read_topk(call, &call->in[0], &lines);
  return code == TN_OK ? find_bytes(call, lines, bytes) : code;
}

int32_t tensor_sort(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_sort(call, &call->in[0], &lines);
  if (code != TN_OK) return code;
  return run_sort(call, lines,
                  tn_cuda_to(&call->out[TENSOR_SORT_OUT_OUT],
                             call->req[TENSOR_SORT_OUT_OUT]),
                  tn_cuda_to(&call->out[TENSOR_SORT_OUT_PLACES],
                             call->req[TENSOR_SORT_OUT_PLACES]));
}

int32_t tensor_argsort(const tn_frame *call) {
  sort_lines lines;
  const tn_cuda_array none = {};
  const int32_t code = sort_read_sort(call, &call->in[0], &lines);
  return code == TN_OK ? run_sort(call, lines, none,
                                  tn_cuda_to(&call->out[0], call->req[0]))
                       : code;
}

int32_t tensor_topk(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_topk(call, &call->in[0], &lines);
  if (code != TN_OK) return code;
  return run_sort(call, lines,
                  tn_cuda_to(&call->out[TENSOR_TOPK_OUT_VALUES],
                             call->req[TENSOR_TOPK_OUT_VALUES]),
                  tn_cuda_to(&call->out[TENSOR_TOPK_OUT_INDICES],
                             call->req[TENSOR_TOPK_OUT_INDICES]));
}

int32_t tensor_topk_mask(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  sort_lines lines;
  int32_t code = sort_read_topk(call, &call->in[0], &lines);
  if (code == TN_OK) code = tensor_fill_zeros(call, out);
  if (code != TN_OK) return code;
  const tensor_sorted v = sorted_of(lines, out->dtype);
  if (v.n == 0) return TN_OK;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    tensor_sorting a = {};
    a.at[VALUES] = tn_cuda_to(out, call->req[0]);
    const int32_t sorted = sort_keys(call, v, stream, &a.at[KEYS]);
    if (sorted != TN_OK) return sorted;
    return tn_cuda_by_width(tn_dtype_bytes(out->dtype), [&](auto type) {
      return tn_cuda_start_each(call, tensor_sort_marks<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

/* ---------------------------------------------------------------- gradients */

/* in = [gradient of out, of places, data, out, places] */
static int32_t scatter_places(const tn_frame *call, const sort_lines &lines) {
  const tn_tensor *data = &call->out[0];
  const tensor_sorted v = sorted_of(lines, data->dtype);
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = tensor_fill_zeros(call, data);
  if (code != TN_OK || v.n == 0) return code;
  tensor_sorting a = {};
  a.at[DATA] = tn_cuda_to(data, TN_REQ_WRITE);
  a.at[VALUES] = tn_cuda_from(&call->in[TENSOR_SORT_BACKWARD_GRAD_OUT]);
  a.at[PLACES] = tn_cuda_from(&call->in[TENSOR_SORT_BACKWARD_OUT_PLACES]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(tn_dtype_bytes(data->dtype), [&](auto type) {
      return tn_cuda_start_each(call, tensor_sort_scatter<decltype(type)>, v.n,
                                stream, a, v);
    });
  });
}

int32_t tensor_sort_backward(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_sort(call, &call->out[0], &lines);
  return code == TN_OK ? scatter_places(call, lines) : code;
}

int32_t tensor_topk_backward(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_topk(call, &call->out[0], &lines);
  return code == TN_OK ? scatter_places(call, lines) : code;
}

/* in = [gradient of data_slope, five inputs of sort_grad, data_slope] */
static int32_t gather_places(const tn_frame *call, const sort_lines &lines) {
  const tn_tensor *to = &call->out[0];
  const tensor_sorted v = sorted_of(lines, to->dtype);
  int32_t code = TN_OK;
  for (uint32_t i = 1; i < call->n_out && code == TN_OK; ++i)
    if (call->req[i] != TN_REQ_NULL)
      code = tensor_fill_zeros(call, &call->out[i]);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL || v.n == 0) return code;
  tensor_sorting a = {};
  a.at[DATA] =
      tn_cuda_from(&call->in[TENSOR_SORT_GRAD_BACKWARD_GRAD_DATA_SLOPE]);
  a.at[PLACES] = tn_cuda_from(&call->in[TENSOR_SORT_GRAD_BACKWARD_IN_PLACES]);
  a.at[VALUES] = tn_cuda_to(to, TN_REQ_WRITE);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(tn_dtype_bytes(to->dtype), [&](auto type) {
      return tn_cuda_start_each(call, tensor_sort_gather_each<decltype(type)>,
                                v.n, stream, a, v);
    });
  });
}

int32_t tensor_sort_gather(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_sort(
      call, &call->in[TENSOR_SORT_GRAD_BACKWARD_GRAD_DATA_SLOPE], &lines);
  return code == TN_OK ? gather_places(call, lines) : code;
}

int32_t tensor_topk_gather(const tn_frame *call) {
  sort_lines lines;
  const int32_t code = sort_read_topk(
      call, &call->in[TENSOR_SORT_GRAD_BACKWARD_GRAD_DATA_SLOPE], &lines);
  return code == TN_OK ? gather_places(call, lines) : code;
}
