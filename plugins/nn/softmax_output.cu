/* SPDX-License-Identifier: Apache-2.0
 * softmax_output.cu: softmax_output.yaml on CUDA devices. Every form of it is a
 * tensor outer x classes x places: forward a block has a softmax, whose threads
 * halve what they have found; backward a thread has an element.
 */
#include "softmax_output.gen.h"

#include "tenon/elementwise.cuh"

enum { NN_THREADS = 256 }; /* of a block */

/* What a kernel is handed. Types are those of memory. */
struct nn_softmax_view {
  int64_t outer;
  int64_t classes;
  int64_t inner;
  tn_dtype dtype;
  tn_dtype label_dtype;
  int is_soft; /* labels are probabilities */
  int use_ignore;
  int is_valid; /* normalization=valid: divided by *count */
  int reserved;
  double ignore;
  double hit;
  double miss;
  double factor;
  void *from; /* data; backward p */
  void *to;
  void *label;
  void *head;  /* the gradient of out, or NULL */
  void *count; /* a double */
};

template <class C>
__device__ __forceinline__ C nn_softmax_get(void *array, tn_dtype dtype,
                                            int64_t i) {
  C value;
  tn_cuda_reader<C> reader = {&value};
  tn_cuda_visit(array, dtype, i, reader);
  return value;
}

template <class C>
__device__ __forceinline__ void nn_softmax_put(const nn_softmax_view &v,
                                               int64_t i, C value) {
  tn_cuda_writer<C> writer = {value, 0};
  tn_cuda_visit(v.to, v.dtype, i, writer);
}

__device__ __forceinline__ float nn_softmax_exp(float x) {
  return expf(x);
}
__device__ __forceinline__ double nn_softmax_exp(double x) {
  return exp(x);
}

/* The largest, or the sum, of what the threads of a block have. */
template <class C>
__device__ __forceinline__ C nn_softmax_fold(C *part, C mine, bool largest) {
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = NN_THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const C a = part[threadIdx.x], b = part[threadIdx.x + half];
      part[threadIdx.x] = !largest ? a + b : b > a || b != b ? b : a;
    }
    __syncthreads();
  }
  const C all = part[0];
  __syncthreads();
  return all;
}

template <class C>
__global__ void __launch_bounds__(NN_THREADS)
    nn_softmax_rows(nn_softmax_view v) {
  __shared__ C part[NN_THREADS];
  for (int64_t s = blockIdx.x; s < v.outer * v.inner; s += gridDim.x) {
    const int64_t at = s / v.inner * v.classes * v.inner + s % v.inner;
    C most = nn_softmax_get<C>(v.from, v.dtype, at), total = 0;
    for (int64_t k = threadIdx.x; k < v.classes; k += NN_THREADS) {
      const C x = nn_softmax_get<C>(v.from, v.dtype, at + k * v.inner);
      if (x > most || x != x) most = x;
    }
    most = nn_softmax_fold(part, most, true);
    for (int64_t k = threadIdx.x; k < v.classes; k += NN_THREADS)
      total += nn_softmax_exp(
          nn_softmax_get<C>(v.from, v.dtype, at + k * v.inner) - most);
    total = nn_softmax_fold(part, total, false);
    for (int64_t k = threadIdx.x; k < v.classes; k += NN_THREADS) {
      const int64_t i = at + k * v.inner;
      const C x = nn_softmax_get<C>(v.from, v.dtype, i);
      nn_softmax_put(v, i, nn_softmax_exp(x - most) / total);
    }
  }
}

/* Labels that count, by one block. */
template <class C>
__global__ void __launch_bounds__(NN_THREADS)
    nn_softmax_count(nn_softmax_view v) {
  __shared__ double part[NN_THREADS];
  double n = 0;
  for (int64_t i = threadIdx.x; i < v.outer * v.inner; i += NN_THREADS)
    n += v.is_soft ||
         nn_softmax_get<double>(v.label, v.label_dtype, i) != v.ignore;
  n = nn_softmax_fold(part, n, false);
  if (threadIdx.x == 0) *(double *)v.count = n > 1 ? n : 1;
}

template <class C>
__device__ __forceinline__ C nn_softmax_slope(const nn_softmax_view &v,
                                              int64_t i) {
  const int64_t k = i / v.inner % v.classes;
  const int64_t place = i / (v.inner * v.classes) * v.inner + i % v.inner;
  const C factor =
      (C)(v.is_valid ? v.factor / *(const double *)v.count : v.factor);
  const C p = nn_softmax_get<C>(v.from, v.dtype, i);
  const double label =
      nn_softmax_get<double>(v.label, v.label_dtype, v.is_soft ? i : place);
  if (v.is_soft) return (p - (C)label) * factor;
  if (v.use_ignore && label == v.ignore) return 0;
  const bool is_class = label >= 0 && label < (double)v.classes;
  const bool is_hit = is_class && (int64_t)label == k;
  return (p - (C)(is_hit ? v.hit : v.miss)) * factor;
}

template <class C>
__global__ void __launch_bounds__(NN_THREADS)
    nn_softmax_slopes(nn_softmax_view v) {
  const int64_t n = v.outer * v.classes * v.inner;
  const int64_t step = (int64_t)gridDim.x * NN_THREADS;
  int64_t i = (int64_t)blockIdx.x * NN_THREADS + threadIdx.x;
  for (; i < n; i += step) {
    C slope = nn_softmax_slope<C>(v, i);
    if (v.head != NULL) slope *= nn_softmax_get<C>(v.head, v.dtype, i);
    nn_softmax_put(v, i, slope);
  }
}

/* --------------------------------------------------------------------- host */

static nn_softmax_view nn_softmax_extent(const tn_frame *call,
                                         const tn_tensor *data) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  const int32_t last = data->ndim - 1;
  const int32_t from = p->multi_output || !p->preserve_shape ? 1 : last;
  const int32_t to = p->multi_output ? 1 : last;
  nn_softmax_view v;
  memset(&v, 0, sizeof v);
  v.outer = v.classes = v.inner = 1;
  v.dtype = data->dtype;
  for (int32_t d = 0; d <= last; ++d)
    (d < from ? v.outer : d > to ? v.inner : v.classes) *= data->shape[d];
  return v;
}

static void *nn_softmax_place(const tn_tensor *tensor) {
  return (char *)tensor->data + tensor->byte_offset;
}

static unsigned nn_softmax_blocks(const tn_frame *call, int64_t softmaxes) {
  return tn_cuda_blocks(call, softmaxes * NN_THREADS);
}

/* What a gradient is the way to. */
static void nn_softmax_goals(const tn_frame *call, nn_softmax_view *v) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  double divisor = 1;
  v->is_valid = p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_VALID;
  if (!v->is_valid && !v->is_soft) divisor = (double)v->inner;
  if (p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_BATCH)
    divisor *= (double)v->outer;
  v->use_ignore = p->use_ignore;
  v->ignore = p->ignore_label;
  v->hit = v->classes > 1 ? 1 - p->smooth_alpha : 1;
  v->miss = v->classes > 1 ? p->smooth_alpha / (double)(v->classes - 1) : 0;
  v->factor = p->grad_scale / divisor;
}

/* Runs what `launch` launches with the device of the call current. */
static int32_t nn_softmax_run(const tn_frame *call, const nn_softmax_view &v,
                              void (*launch)(const tn_frame *call,
                                             const nn_softmax_view &v)) {
  int before = 0;
  int32_t code = tn_cuda_check(call, cudaGetDevice(&before));
  if (code != TN_OK) return code;
  const int other = before != call->run->device_id;
  if (other) code = tn_cuda_check(call, cudaSetDevice(call->run->device_id));
  if (code == TN_OK) {
    launch(call, v);
    code = tn_cuda_check(call, cudaGetLastError());
  }
  if (other) (void)cudaSetDevice(before);
  return code;
}

static void nn_softmax_forward(const tn_frame *call, const nn_softmax_view &v) {
  const cudaStream_t stream = (cudaStream_t)call->run->stream;
  const unsigned blocks = nn_softmax_blocks(call, v.outer * v.inner);
  if (v.dtype == TN_F64)
    tn_cuda_launch(nn_softmax_rows<double>, blocks, stream, v);
  else
    tn_cuda_launch(nn_softmax_rows<float>, blocks, stream, v);
}

static void nn_softmax_backward(const tn_frame *call,
                                const nn_softmax_view &v) {
  const cudaStream_t stream = (cudaStream_t)call->run->stream;
  const unsigned blocks = tn_cuda_blocks(call, v.outer * v.classes * v.inner);
  if (v.is_valid) tn_cuda_launch(nn_softmax_count<double>, 1, stream, v);
  if (v.dtype == TN_F64)
    tn_cuda_launch(nn_softmax_slopes<double>, blocks, stream, v);
  else
    tn_cuda_launch(nn_softmax_slopes<float>, blocks, stream, v);
}

/* Room for the number of labels that count. */
int32_t nn_softmax_output_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (call->flags & TN_CALL_BACKWARD) ? sizeof(double) : 0;
  return TN_OK;
}

int32_t nn_softmax_output_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  nn_softmax_view v = nn_softmax_extent(call, out);
  if (tn_tensor_size(out) == 0) return TN_OK;
  v.from = nn_softmax_place(&call->in[NN_SOFTMAX_OUTPUT_IN_DATA]);
  v.to = nn_softmax_place(out);
  return nn_softmax_run(call, v, nn_softmax_forward);
}

int32_t nn_softmax_output_cuda_backward(const tn_frame *call) {
  const tn_tensor *p = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_OUT_OUT];
  const tn_tensor *to = &call->out[NN_SOFTMAX_OUTPUT_IN_DATA];
  const tn_tensor *label = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_IN_LABEL];
  if (call->req[NN_SOFTMAX_OUTPUT_IN_DATA] == TN_REQ_NULL) return TN_OK;
  if (tn_tensor_size(to) == 0) return TN_OK;
  nn_softmax_view v = nn_softmax_extent(call, p);
  v.label_dtype = label->dtype;
  v.is_soft = label->ndim == p->ndim;
  v.from = nn_softmax_place(p);
  v.to = nn_softmax_place(to);
  v.label = nn_softmax_place(label);
  v.count = call->ws[0];
  if (nn_softmax_output_params_of(call)->out_grad)
    v.head = nn_softmax_place(&call->in[NN_SOFTMAX_OUTPUT_BACKWARD_GRAD_OUT]);
  nn_softmax_goals(call, &v);
  return nn_softmax_run(call, v, nn_softmax_backward);
}
