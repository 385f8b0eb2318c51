/* SPDX-License-Identifier: Apache-2.0
 * softmax_output.cu: softmax_output.yaml on CUDA devices. Every form of it is a
 * tensor outer x classes x places: forward it is any softmax (softmax.cuh),
 * backward a thread computes an element.
 */
#include "softmax_output.gen.h"

#include "softmax.cuh"

/* Indices of the arrays that CUDA kernels get. Backward, FROM is the softmax
 * that forward computed. COUNT is one f64. */
enum { FROM, TO, LABEL, HEAD, COUNT, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_softmax_arrays;

struct nn_targets_view {
  nn_lines lines;
  int is_soft; /* labels are probabilities, otherwise class numbers */
  int use_ignore;
  int is_valid; /* normalization=valid: gradients are divided by COUNT */
  int reserved;
  double ignore;
  double hit;
  double miss;
  double factor;
  tn_cuda_divisor by_length;
};

/* Writes COUNT, the number of labels that are not ignored, at least 1. One
 * block runs it. */
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_count_labels(nn_softmax_arrays a, nn_targets_view v) {
  __shared__ double part[TN_CUDA_THREADS];
  double n = 0;
  for (int64_t i = threadIdx.x; i < v.lines.outer * v.lines.inner;
       i += TN_CUDA_THREADS)
    n += v.is_soft || tn_cuda_read<double>(a.at[LABEL], i) != v.ignore;
  n = tn_cuda_reduce(part, n, tn_cuda_plus());
  if (threadIdx.x == 0) *(double *)a.at[COUNT].data = n > 1 ? n : 1;
}

/* Returns the gradient of element i: the difference of the softmax and its
 * target, times the factor. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_softmax_find_gradient(
    const nn_softmax_arrays &a, const nn_targets_view &v, int64_t i) {
  typedef nn_compute_type<T> C;
  const int64_t row = tn_cuda_quotient(i, v.lines.by_inner);
  const int64_t outer = tn_cuda_quotient(row, v.by_length);
  const int64_t k = row - outer * v.lines.length;
  const int64_t place = i - (row - outer) * v.lines.inner;
  const double count = v.is_valid ? *(const double *)a.at[COUNT].data : 1;
  const C factor = (C)(v.factor / count), p = nn_load_element<T>(a.at[FROM], i);
  const double label = tn_cuda_read<double>(a.at[LABEL], v.is_soft ? i : place);
  if (v.is_soft) return (p - (C)label) * factor;
  if (v.use_ignore && label == v.ignore) return 0;
  const bool is_class = label >= 0 && label < (double)v.lines.length;
  const bool is_hit = is_class && (int64_t)label == k;
  const double other = is_class ? v.miss : 0;
  return (p - (C)(is_hit ? v.hit : other)) * factor;
}

/* Writes the gradient of data: softmax minus target, times a factor and, if
 * HEAD exists, the output gradient. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_softmax_write_gradients(nn_softmax_arrays a, nn_targets_view v) {
  const int64_t n = v.lines.outer * v.lines.length * v.lines.inner;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    nn_compute_type<T> slope = nn_softmax_find_gradient<T>(a, v, i);
    if (a.at[HEAD].data != NULL) slope *= nn_load_element<T>(a.at[HEAD], i);
    nn_store_element<T>(a.at[TO], i, slope);
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the lines of classes in a tensor with the shape of data. */
static nn_lines nn_softmax_find_lines(const tn_frame *call,
                                      const tn_tensor *data) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  const int32_t last = data->ndim - 1;
  const int32_t from = p->multi_output || !p->preserve_shape ? 1 : last;
  return nn_find_lines(data, from, p->multi_output ? 1 : last);
}

/* Sets the target probabilities and the factor of gradients from the
 * parameters. */
static void nn_softmax_set_targets(const tn_frame *call, nn_targets_view *v) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  double divisor = 1;
  v->is_valid = p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_VALID;
  if (!v->is_valid && !v->is_soft) divisor = (double)v->lines.inner;
  if (p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_BATCH)
    divisor *= (double)v->lines.outer;
  v->use_ignore = p->use_ignore;
  v->ignore = p->ignore_label;
  v->hit = v->lines.length > 1 ? 1 - p->smooth_alpha : 1;
  v->miss =
      v->lines.length > 1 ? p->smooth_alpha / (double)(v->lines.length - 1) : 0;
  v->factor = p->grad_scale / divisor;
}

/* Bytes of workspace for COUNT. */
int32_t nn_softmax_output_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (call->flags & TN_CALL_BACKWARD) ? sizeof(double) : 0;
  return TN_OK;
}

int32_t nn_softmax_output_cuda(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  const nn_softmax_view v =
      nn_softmax_make_view(nn_softmax_find_lines(call, out), 1, 0);
  return nn_softmax_launch(call, v, tn_cuda_to(out, call->req[0]),
                           tn_cuda_from(&call->in[NN_SOFTMAX_OUTPUT_IN_DATA]));
}

/* Launches the kernels that write the gradient of data. */
static int32_t nn_softmax_launch_gradients(const tn_frame *call,
                                           const nn_softmax_arrays &a,
                                           const nn_targets_view &v,
                                           cudaStream_t stream) {
  int32_t code = TN_OK;
  if (v.is_valid)
    code = tn_cuda_start(call, nn_softmax_count_labels, 1, stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_by_float(a.at[TO].dtype, [&](auto type) {
    return tn_cuda_start_each(call, nn_softmax_write_gradients<decltype(type)>,
                              v.lines.outer * v.lines.length * v.lines.inner,
                              stream, a, v);
  });
}

int32_t nn_softmax_output_cuda_backward(const tn_frame *call) {
  const tn_tensor *p = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_OUT_OUT];
  const tn_tensor *to = &call->out[NN_SOFTMAX_OUTPUT_IN_DATA];
  const tn_tensor *label = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_IN_LABEL];
  nn_targets_view v = {};
  nn_softmax_arrays a = {};
  if (call->req[NN_SOFTMAX_OUTPUT_IN_DATA] == TN_REQ_NULL) return TN_OK;
  if (tn_tensor_size(to) == 0) return TN_OK;
  v.lines = nn_softmax_find_lines(call, p);
  v.by_length = tn_cuda_divisor_of(v.lines.length);
  v.is_soft = label->ndim == p->ndim;
  a.at[FROM] = tn_cuda_from(p);
  a.at[TO] = tn_cuda_to(to, call->req[NN_SOFTMAX_OUTPUT_IN_DATA]);
  a.at[LABEL] = tn_cuda_from(label);
  a.at[COUNT] = tn_cuda_room(call->ws[0], TN_F64, 1);
  if (nn_softmax_output_params_of(call)->out_grad)
    a.at[HEAD] = tn_cuda_from(&call->in[NN_SOFTMAX_OUTPUT_BACKWARD_GRAD_OUT]);
  nn_softmax_set_targets(call, &v);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return nn_softmax_launch_gradients(call, a, v, stream);
  });
}
