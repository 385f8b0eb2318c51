/* SPDX-License-Identifier: Apache-2.0
 * scan.cu: running sums and products on CUDA devices. A block adds up a line,
 * or a piece of a long one: then sums of the pieces are computed first. If
 * many lines are adjacent, a thread has each of them, and always if elements
 * are multiplied: a product of some may overflow where the line has a 0.
 */
#include "move.h"
#include "scan.gen.h"
#include "tensor.cuh"

enum { FROM, TO, HEAD, SUMS, DIRECTION, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> tensor_scanning;

/* Arguments of the CUDA kernels. */
struct tensor_scanned {
  int64_t outer, n, inner;
  int64_t pieces; /* of a line */
  int64_t piece;  /* elements of each but the last */
  int32_t exclusive;
  int32_t reverse;
};

/* Position of element `i` of a line, in the order of the scan. */
__device__ __forceinline__ int64_t tensor_scan_at(const tensor_scanned &v,
                                                  int64_t line, int64_t i) {
  const int64_t place = v.reverse ? v.n - 1 - i : i;
  return (line / v.inner * v.n + place) * v.inner + line % v.inner;
}

__device__ __forceinline__ double tensor_scan_times(double a, double b) {
  return a * b;
}
__device__ __forceinline__ int64_t tensor_scan_times(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

template <class C, bool IsProduct>
__device__ __forceinline__ C tensor_scan_both(C a, C b) {
  return IsProduct ? tensor_scan_times(a, b) : tn_cuda_sum(a, b);
}

/* A thread scans a line. */
template <class C, bool IsProduct>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_lines(tensor_scanning a, tensor_scanned v) {
  for (int64_t line = tensor_first<int64_t>(); line < v.outer * v.inner;
       line += tensor_stride<int64_t>()) {
    C all = IsProduct;
    for (int64_t i = 0; i < v.n; ++i) {
      const int64_t at = tensor_scan_at(v, line, i);
      const C before = all;
      all =
          tensor_scan_both<C, IsProduct>(all, tn_cuda_read<C>(a.at[FROM], at));
      tn_cuda_write(a.at[TO], at, v.exclusive ? before : all);
    }
  }
}

/* A block adds up a piece of a line, 256 elements at a time: in each round a
 * thread adds the sum that is twice as far before it. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_pieces(tensor_scanning a, tensor_scanned v) {
  __shared__ C part[TN_CUDA_THREADS];
  const int own = (int)threadIdx.x;
  for (int64_t b = blockIdx.x; b < v.outer * v.inner * v.pieces;
       b += gridDim.x) {
    const int64_t line = b / v.pieces, first = b % v.pieces * v.piece;
    const int64_t end = v.n - first < v.piece ? v.n : first + v.piece;
    C before = a.at[SUMS].data != NULL ? ((const C *)a.at[SUMS].data)[b] : 0;
    for (int64_t begin = first; begin < end; begin += TN_CUDA_THREADS) {
      const bool is_inside = begin + own < end;
      const int64_t at = is_inside ? tensor_scan_at(v, line, begin + own) : 0;
      part[own] = is_inside ? tn_cuda_read<C>(a.at[FROM], at) : 0;
      __syncthreads();
      for (int apart = 1; apart < TN_CUDA_THREADS; apart *= 2) {
        const C other = own >= apart ? part[own - apart] : 0;
        __syncthreads();
        part[own] = tn_cuda_sum(other, part[own]);
        __syncthreads();
      }
      const int last = v.exclusive ? own - 1 : own;
      const C sum = last < 0 ? before : tn_cuda_sum(before, part[last]);
      if (is_inside) tn_cuda_write(a.at[TO], at, sum);
      before = tn_cuda_sum(before, part[TN_CUDA_THREADS - 1]);
      __syncthreads();
    }
  }
}

/* A block adds all elements of a piece. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_sums(tensor_scanning a, tensor_scanned v) {
  __shared__ C part[TN_CUDA_THREADS];
  for (int64_t b = blockIdx.x; b < v.outer * v.inner * v.pieces;
       b += gridDim.x) {
    const int64_t line = b / v.pieces, first = b % v.pieces * v.piece;
    const int64_t end = v.n - first < v.piece ? v.n : first + v.piece;
    C sum = 0;
    for (int64_t i = first + threadIdx.x; i < end; i += TN_CUDA_THREADS)
      sum = tn_cuda_sum(
          sum, tn_cuda_read<C>(a.at[FROM], tensor_scan_at(v, line, i)));
    sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
    if (threadIdx.x == 0) ((C *)a.at[SUMS].data)[b] = sum;
    __syncthreads();
  }
}

/* Sums of pieces become sums of all pieces before. */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_add_sums(tensor_scanning a, tensor_scanned v) {
  for (int64_t line = tensor_first<int64_t>(); line < v.outer * v.inner;
       line += tensor_stride<int64_t>()) {
    C *sums = (C *)a.at[SUMS].data + line * v.pieces;
    C all = 0;
    for (int64_t piece = 0; piece < v.pieces; ++piece) {
      const C own = sums[piece];
      sums[piece] = all;
      all = tn_cuda_sum(all, own);
    }
  }
}

/* A thread has a line: the products before each element go to SUMS, and then
 * the gradients from the end on (scan.c). */
template <class C>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_slopes(tensor_scanning a, tensor_scanned v) {
  C *products = (C *)a.at[SUMS].data;
  for (int64_t line = tensor_first<int64_t>(); line < v.outer * v.inner;
       line += tensor_stride<int64_t>()) {
    C all = 1, rest = 0;
    for (int64_t i = 0; i < v.n; ++i) {
      const int64_t at = tensor_scan_at(v, line, i);
      products[at] = all;
      all = tensor_scan_times(all, tn_cuda_read<C>(a.at[FROM], at));
    }
    for (int64_t i = v.n - 1; i >= 0; --i) {
      const int64_t at = tensor_scan_at(v, line, i);
      const C head = tn_cuda_read<C>(a.at[HEAD], at);
      const C x = tn_cuda_read<C>(a.at[FROM], at);
      const C after = rest, own = tn_cuda_sum(rest, head);
      rest = v.exclusive ? tn_cuda_sum(head, tensor_scan_times(x, rest))
                         : tensor_scan_times(x, own);
      tn_cuda_write(a.at[TO], at,
                    tensor_scan_times(products[at], v.exclusive ? after : own));
    }
  }
}

/* A number, and its derivative along a direction of data (scan_slopes.c). */
struct tensor_scan_dual {
  double value, slope;
};

__device__ __forceinline__ tensor_scan_dual tensor_scan_times_dual(
    const tensor_scanning &a, tensor_scan_dual all, int64_t at) {
  const double x = tn_cuda_read<double>(a.at[FROM], at);
  const double direction = tn_cuda_read<double>(a.at[DIRECTION], at);
  const tensor_scan_dual next = {all.value * x,
                                 all.slope * x + all.value * direction};
  return next;
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_tangents(tensor_scanning a, tensor_scanned v) {
  for (int64_t line = tensor_first<int64_t>(); line < v.outer * v.inner;
       line += tensor_stride<int64_t>()) {
    tensor_scan_dual all = {1, 0};
    for (int64_t i = 0; i < v.n; ++i) {
      const int64_t at = tensor_scan_at(v, line, i);
      const tensor_scan_dual before = all;
      all = tensor_scan_times_dual(a, all, at);
      tn_cuda_write(a.at[TO], at, v.exclusive ? before.slope : all.slope);
    }
  }
}

__global__ void __launch_bounds__(TN_CUDA_THREADS)
    tensor_scan_dual_slopes(tensor_scanning a, tensor_scanned v) {
  tensor_scan_dual *products = (tensor_scan_dual *)a.at[SUMS].data;
  for (int64_t line = tensor_first<int64_t>(); line < v.outer * v.inner;
       line += tensor_stride<int64_t>()) {
    tensor_scan_dual all = {1, 0}, rest = {0, 0};
    for (int64_t i = 0; i < v.n; ++i) {
      const int64_t at = tensor_scan_at(v, line, i);
      products[at] = all;
      all = tensor_scan_times_dual(a, all, at);
    }
    for (int64_t i = v.n - 1; i >= 0; --i) {
      const int64_t at = tensor_scan_at(v, line, i);
      const double head = tn_cuda_read<double>(a.at[HEAD], at);
      const tensor_scan_dual product = products[at];
      tensor_scan_dual used = rest;
      if (!v.exclusive) used.value += head;
      rest = tensor_scan_times_dual(a, used, at);
      if (v.exclusive) rest.value += head;
      tn_cuda_write(a.at[TO], at,
                    product.slope * used.value + product.value * used.slope);
    }
  }
}

/* -------------------------------------------------------------------- host */

enum { PIECE = 16384, ADJACENT = 32 };

/* The parameters of both operators. */
static int32_t scanned_of(const tn_frame *call, tensor_scanned *v) {
  const tensor_cumsum_params *p = tensor_cumsum_params_of(call);
  const tn_tensor *to = &call->out[0];
  int32_t axis;
  const int32_t code = tensor_axis(call, "axis", p->axis, to->ndim, &axis);
  memset(v, 0, sizeof *v);
  if (code != TN_OK) return code;
  v->outer = v->inner = 1;
  for (int32_t d = 0; d < to->ndim; ++d)
    if (d != axis) (d < axis ? v->outer : v->inner) *= to->shape[d];
  v->n = to->shape[axis];
  v->exclusive = p->exclusive;
  v->reverse = p->reverse;
  v->piece = v->n;
  v->pieces = 1;
  if (v->inner >= ADJACENT || v->n < 2 * PIECE) return TN_OK;
  v->piece = PIECE;
  v->pieces = (v->n + PIECE - 1) / PIECE;
  return TN_OK;
}

static tensor_scanning arrays_of(const tn_frame *call, const tn_tensor *from) {
  tensor_scanning a = {};
  a.at[FROM] = tn_cuda_from(from);
  a.at[TO] = tn_cuda_to(&call->out[0], call->req[0]);
  for (tn_cuda_array &array : a.at) array.dtype = tensor_sum_dtype(array.dtype);
  return a;
}

/* Sums along lines. */
template <class C>
static int32_t add_lines(const tn_frame *call, tensor_scanning a,
                         const tensor_scanned &v, cudaStream_t stream) {
  const int64_t lines = v.outer * v.inner;
  if (v.inner >= ADJACENT)
    return tn_cuda_start_each(call, tensor_scan_lines<C, false>, lines, stream,
                              a, v);
  if (v.pieces > 1) {
    a.at[SUMS] = tn_cuda_room(call->ws[0], TN_I64, lines * v.pieces);
    int32_t code = tn_cuda_start(call, tensor_scan_sums<C>, lines * v.pieces,
                                 stream, a, v);
    if (code == TN_OK)
      code = tn_cuda_start_each(call, tensor_scan_add_sums<C>, lines, stream, a,
                                v);
    if (code != TN_OK) return code;
    a.at[SUMS].writes = 0;
  }
  return tn_cuda_start(call, tensor_scan_pieces<C>, lines * v.pieces, stream, a,
                       v);
}

static int32_t run_sums(const tn_frame *call, int turns) {
  tensor_scanned v;
  const int32_t code = scanned_of(call, &v);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  if (turns) v.reverse = !v.reverse;
  const tensor_scanning a = arrays_of(call, &call->in[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(call->out[0].dtype, [&](auto type) {
      return add_lines<decltype(type)>(call, a, v, stream);
    });
  });
}

int32_t tensor_cumsum_bytes(const tn_frame *call, uint64_t *bytes) {
  tensor_scanned v;
  *bytes = 0;
  const int32_t code = scanned_of(call, &v);
  if (code != TN_OK || v.pieces == 1) return code;
  *bytes = (uint64_t)(v.outer * v.inner * v.pieces) * sizeof(int64_t);
  return TN_OK;
}

int32_t tensor_cumsum(const tn_frame *call) {
  return run_sums(call, 0);
}

/* in = [gradient of out, data, out] */
int32_t tensor_cumsum_backward(const tn_frame *call) {
  return call->req[0] == TN_REQ_NULL ? TN_OK : run_sums(call, 1);
}

int32_t tensor_cumprod_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD)
    *bytes = (uint64_t)tn_tensor_size(&call->out[0]) * sizeof(int64_t);
  return TN_OK;
}

int32_t tensor_cumprod(const tn_frame *call) {
  tensor_scanned v;
  const int32_t code = scanned_of(call, &v);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  const tensor_scanning a = arrays_of(call, &call->in[0]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call, tensor_scan_lines<decltype(type), true>,
                                v.outer * v.inner, stream, a, v);
    });
  });
}

/* in = [gradient of out, data, out] */
int32_t tensor_cumprod_backward(const tn_frame *call) {
  tensor_scanned v;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = scanned_of(call, &v);
  const int64_t size = tn_tensor_size(&call->out[0]);
  if (code != TN_OK || size == 0) return code;
  tensor_scanning a =
      arrays_of(call, &call->in[TENSOR_CUMPROD_BACKWARD_IN_DATA]);
  a.at[HEAD] = tn_cuda_from(&call->in[TENSOR_CUMPROD_BACKWARD_GRAD_OUT]);
  a.at[HEAD].dtype = a.at[FROM].dtype;
  a.at[SUMS] = tn_cuda_room(call->ws[0], TN_I64, size);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tensor_by_wide(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start_each(call, tensor_scan_slopes<decltype(type)>,
                                v.outer * v.inner, stream, a, v);
    });
  });
}

int32_t tensor_cumprod_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (uint64_t)tn_tensor_size(&call->out[0]) * sizeof(int64_t);
  return TN_OK;
}

/* --------------------------------------------------------- second gradients */

/* in = [data, direction] */
int32_t tensor_cumprod_tangent(const tn_frame *call) {
  tensor_scanned v;
  const int32_t code = scanned_of(call, &v);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  tensor_scanning a =
      arrays_of(call, &call->in[TENSOR_CUMPROD_TANGENT_IN_DATA]);
  a.at[DIRECTION] =
      tn_cuda_from(&call->in[TENSOR_CUMPROD_TANGENT_IN_DIRECTION]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_scan_tangents, v.outer * v.inner,
                              stream, a, v);
  });
}

int32_t tensor_cumprod_second_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (uint64_t)tn_tensor_size(&call->out[0]) * sizeof(tensor_scan_dual);
  return TN_OK;
}

/* in = [gradient of out, data, direction] */
int32_t tensor_cumprod_second(const tn_frame *call) {
  tensor_scanned v;
  const int32_t code = scanned_of(call, &v);
  const int64_t size = tn_tensor_size(&call->out[0]);
  if (code != TN_OK || size == 0) return code;
  tensor_scanning a = arrays_of(call, &call->in[TENSOR_CUMPROD_SECOND_IN_DATA]);
  a.at[HEAD] = tn_cuda_from(&call->in[TENSOR_CUMPROD_SECOND_IN_OUT_HEAD]);
  a.at[DIRECTION] = tn_cuda_from(&call->in[TENSOR_CUMPROD_SECOND_IN_DIRECTION]);
  a.at[SUMS] = tn_cuda_room(call->ws[0], TN_I64, 2 * size);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_start_each(call, tensor_scan_dual_slopes, v.outer * v.inner,
                              stream, a, v);
  });
}
