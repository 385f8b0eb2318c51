/* SPDX-License-Identifier: Apache-2.0
 * sequence.cu: sequence.yaml on CUDA devices. A thread moves an element. A
 * sequence with a length out of range becomes NaN, or 0 for integers.
 */
#include "sequence.h"

#include "nn.cuh"
#include "second.h"

/* Indices of the arrays that CUDA kernels get. LENGTH has no data if all steps
 * count. */
enum { TO, FROM, LENGTH, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_sequence_arrays;

/* The kinds of results. LAST_GRADIENT has the shape of data. */
enum nn_sequence_kind { MASK, REVERSE, LAST, LAST_GRADIENT };

struct nn_sequence_view {
  nn_sequences s;
  int64_t n; /* elements of the result */
  nn_sequence_kind kind;
  int steps_first; /* steps are along the first dimension */
  uint64_t value;  /* bits of the element after the end */
  uint64_t bad;    /* bits of elements of a length out of range */
  tn_cuda_divisor by_inner;
  tn_cuda_divisor by_row; /* number of rows of an index of the first dimension
                           */
};

/* Returns the number of steps of a sequence; -1 if it is out of range. */
__device__ __forceinline__ int64_t nn_sequence_find_length(
    const nn_sequence_arrays &a, const nn_sequence_view &v, int64_t sequence) {
  const int64_t least = v.kind == LAST || v.kind == LAST_GRADIENT;
  if (a.at[LENGTH].data == NULL) return v.s.steps >= least ? v.s.steps : -1;
  const double length = tn_cuda_read<double>(a.at[LENGTH], sequence);
  const bool fits = length >= (double)least && length < (double)v.s.steps + 1;
  return fits ? (int64_t)length : -1;
}

/* The position of an element of the result. */
struct nn_sequence_place {
  int64_t step;
  int64_t sequence;
  int64_t within; /* index in the row */
};

__device__ __forceinline__ nn_sequence_place
nn_sequence_locate(const nn_sequence_view &v, int64_t i) {
  const int64_t row = tn_cuda_quotient(i, v.by_inner);
  nn_sequence_place at = {0, row, i - row * v.s.inner};
  if (v.kind == LAST) return at;
  const int64_t first = tn_cuda_quotient(row, v.by_row);
  const int64_t second = row - first * (v.steps_first ? v.s.batch : v.s.steps);
  at.step = v.steps_first ? first : second;
  at.sequence = v.steps_first ? second : first;
  return at;
}

/* Returns the index of an element of data. */
__device__ __forceinline__ int64_t nn_sequence_find_index(
    const nn_sequence_view &v, int64_t step, const nn_sequence_place &at) {
  return (step * v.s.step_rows + at.sequence * v.s.batch_rows) * v.s.inner +
         at.within;
}

/* Returns the bits of element i of the result; W is an unsigned integer of the
 * width of elements. */
template <class W>
__device__ __forceinline__ W nn_sequence_compute(const nn_sequence_arrays &a,
                                                 const nn_sequence_view &v,
                                                 int64_t i) {
  const W *from = (const W *)a.at[FROM].data;
  const nn_sequence_place at = nn_sequence_locate(v, i);
  const int64_t length = nn_sequence_find_length(a, v, at.sequence);
  if (v.kind == LAST_GRADIENT)
    return at.step == length - 1 ? from[at.sequence * v.s.inner + at.within]
                                 : (W)0;
  if (length < 0) return (W)v.bad;
  if (v.kind == LAST) return from[nn_sequence_find_index(v, length - 1, at)];
  if (v.kind == MASK) return at.step < length ? from[i] : (W)v.value;
  const int64_t step = at.step < length ? length - 1 - at.step : at.step;
  return from[nn_sequence_find_index(v, step, at)];
}

template <class W>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sequence_write(nn_sequence_arrays a, nn_sequence_view v) {
  for (int64_t i = nn_first_index(); i < v.n; i += nn_index_step())
    ((W *)a.at[TO].data)[i] = nn_sequence_compute<W>(a, v, i);
}

/* -------------------------------------------------------------------- host */

/* Returns the bits of a number as an element of a type. */
static uint64_t nn_sequence_find_bits(tn_dtype dtype, double number) {
  const tn_kernel_mode mode = {TN_F64, 0};
  uint64_t bits = 0;
  tn_kernel_store_dense(&bits, dtype, &number, &mode, 1);
  return bits;
}

/* Launches the kernel for a call: `like` has the shape of data, and input
 * number `length` has the lengths. */
static int32_t nn_sequence_launch(const tn_frame *call, nn_sequence_kind kind,
                                  nn_sequence_options options,
                                  const tn_tensor *like) {
  const bool back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *out = &call->out[0];
  const uint32_t length =
      back ? (uint32_t)NN_SEQUENCE_MASK_BACKWARD_IN_SEQUENCE_LENGTH
           : (uint32_t)NN_SEQUENCE_MASK_IN_SEQUENCE_LENGTH;
  nn_sequence_arrays a = {};
  nn_sequence_view v = {};
  a.at[TO] = tn_cuda_to(out, call->req[0]);
  if (a.at[TO].data == NULL) return TN_OK;
  a.at[FROM] = tn_cuda_from(&call->in[0]);
  if (options.uses_lengths) a.at[LENGTH] = tn_cuda_from(&call->in[length]);
  v.s = nn_find_sequences(like, options.axis);
  v.n = tn_tensor_size(out);
  v.kind = kind;
  v.steps_first = options.axis == 0;
  v.value = nn_sequence_find_bits(out->dtype, options.value);
  v.bad = nn_sequence_find_bits(out->dtype, NAN);
  v.by_inner = tn_cuda_divisor_of(v.s.inner);
  v.by_row = tn_cuda_divisor_of(v.steps_first ? v.s.batch : v.s.steps);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_width(tn_dtype_bytes(out->dtype), [&](auto width) {
      return tn_cuda_start_each(call, nn_sequence_write<decltype(width)>, v.n,
                                stream, a, v);
    });
  });
}

int32_t nn_sequence_mask_cuda(const tn_frame *call) {
  return nn_sequence_launch(call, MASK, nn_read_mask_options(call),
                            &call->out[0]);
}

int32_t nn_sequence_mask_cuda_backward(const tn_frame *call) {
  nn_sequence_options options = nn_read_mask_options(call);
  options.value = 0;
  return nn_sequence_launch(call, MASK, options, &call->out[0]);
}

int32_t nn_sequence_last_cuda(const tn_frame *call) {
  return nn_sequence_launch(call, LAST, nn_read_last_options(call),
                            &call->in[NN_SEQUENCE_LAST_IN_DATA]);
}

int32_t nn_sequence_last_cuda_backward(const tn_frame *call) {
  return nn_sequence_launch(call, LAST_GRADIENT, nn_read_last_options(call),
                            &call->out[NN_SEQUENCE_LAST_IN_DATA]);
}

int32_t nn_sequence_reverse_cuda(const tn_frame *call) {
  return nn_sequence_launch(call, REVERSE, nn_read_reverse_options(call),
                            &call->out[0]);
}

/* Sets elements to zero bits. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_sequence_clear(tn_cuda_arrays<1> a, int64_t n) {
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step())
    tn_cuda_write(a.at[0], i, 0.0);
}

/* Computes the gradient of data; lengths have none: theirs is set to zeros. */
int32_t nn_sequence_mask_grad_cuda(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  const int64_t n = tn_tensor_size(&call->out[1]);
  tn_cuda_arrays<1> a = {};
  a.at[0] = tn_cuda_to(&call->out[1], call->req[1]);
  if (a.at[0].data != NULL) {
    const int32_t code = tn_cuda_on(call, [&](cudaStream_t stream) {
      return tn_cuda_start_each(call, nn_sequence_clear, n, stream, a, n);
    });
    if (code != TN_OK) return code;
  }
  return nn_sequence_mask_cuda_backward(&own);
}

int32_t nn_sequence_mask_grad_1_1_cuda(const tn_frame *call) {
  nn_sequence_options options = nn_read_mask_options(call);
  options.uses_lengths = 0;
  return nn_sequence_launch(call, MASK, options, &call->out[0]);
}
