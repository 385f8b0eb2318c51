/* SPDX-License-Identifier: Apache-2.0
 * group_norm.cu: group_norm.yaml on CUDA devices. The channels of one group of
 * one image are contiguous: a line. Backward, one kernel sums each channel of
 * each image, and others compute the gradients from these sums.
 */
#include "group_norm.gen.h"

#include "nn.cuh"

/* Indices of the arrays that CUDA kernels get. Backward, OUT is the gradient of
 * data. Operands that are absent or not requested have no data. SUMS has two
 * numbers of each channel of each image, COEFFICIENTS two of each line. */
enum {
  OUT,
  DATA,
  GAMMA,
  BETA,
  MEAN,
  RSTD,
  HEAD,
  BY_GAMMA,
  BY_BETA,
  SUMS,
  COEFFICIENTS,
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> nn_group_arrays;

struct nn_group_view {
  nn_lines lines; /* all elements of a group of an image */
  nn_lines parts; /* all elements of a channel of an image */
  int64_t images;
  int64_t groups;
  int64_t channels; /* channels of a group */
  int64_t inner;    /* elements of a channel of an image */
  double eps;
  tn_cuda_divisor by_inner;
  tn_cuda_divisor by_channels;
  tn_cuda_divisor by_groups;
};

/* Returns the number of an image's first channel that belongs to a line. */
__device__ __forceinline__ int64_t nn_group_find_channel(const nn_group_view &v,
                                                         int64_t line) {
  const int64_t image = tn_cuda_quotient(line, v.by_groups);
  return (line - image * v.groups) * v.channels;
}

/* Writes OUT, MEAN and RSTD. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_group_normalize(nn_group_arrays a, nn_group_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  const double n = v.lines.length > 0 ? (double)v.lines.length : 1;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    C sum = 0, spread = 0;
    for (int64_t k = line.first; k < line.end; k += line.step)
      sum += nn_load_element<T>(a.at[DATA], line.at + k);
    const C mean =
        (C)(tn_cuda_reduce(part, (double)sum, tn_cuda_plus(), v.lines.lanes) /
            n);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const C d = nn_load_element<T>(a.at[DATA], line.at + k) - mean;
      spread += d * d;
    }
    const double var =
        tn_cuda_reduce(part, (double)spread, tn_cuda_plus(), v.lines.lanes) / n;
    const C rstd = (C)rsqrt(var + v.eps);
    if (line.leads) {
      nn_store_moment<T>(a.at[MEAN], line.number, mean);
      nn_store_moment<T>(a.at[RSTD], line.number, rstd);
    }
    if (a.at[OUT].data == NULL) continue;
    const int64_t first = nn_group_find_channel(v, line.number);
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const int64_t c = first + tn_cuda_quotient(k, v.by_inner);
      const C d = nn_load_element<T>(a.at[DATA], line.at + k) - mean;
      nn_store_element<T>(a.at[OUT], line.at + k,
                          d * rstd * nn_load_element<T>(a.at[GAMMA], c) +
                              nn_load_element<T>(a.at[BETA], c));
    }
  }
}

/* Stores two sums of each channel of each image: of HEAD, and of its products
 * with the distances of DATA from the mean. Without DATA the second one is not
 * requested. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_group_sum_channels(nn_group_arrays a, nn_group_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  double *sums = (double *)a.at[SUMS].data;
  const bool has_data = a.at[DATA].data != NULL;
  const C *means = (const C *)a.at[MEAN].data;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.parts);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.parts, g);
    C sum = 0, moment = 0, mean = 0;
    if (has_data && line.end > 0)
      mean = means[tn_cuda_quotient(line.number, v.by_channels)];
    for (int64_t k = line.first; k < line.end; k += line.step) {
      const C out_gradient = nn_load_element<T>(a.at[HEAD], line.at + k);
      sum += out_gradient;
      if (has_data)
        moment +=
            out_gradient * (nn_load_element<T>(a.at[DATA], line.at + k) - mean);
    }
    const double all =
        tn_cuda_reduce(part, (double)sum, tn_cuda_plus(), v.parts.lanes);
    const double both =
        tn_cuda_reduce(part, (double)moment, tn_cuda_plus(), v.parts.lanes);
    if (line.leads) sums[2 * line.number] = all;
    if (line.leads) sums[2 * line.number + 1] = both;
  }
}

/* Returns gamma of a channel; 1 if gamma is absent. */
template <class T>
__device__ __forceinline__ double nn_group_read_gamma(const nn_group_arrays &a,
                                                      int64_t channel) {
  if (a.at[GAMMA].data == NULL) return 1;
  return (double)nn_load_element<T>(a.at[GAMMA], channel);
}

/* Stores the coefficients of each line from the sums of its channels: the mean
 * of gamma*HEAD, and its mean product with the distances from the mean of DATA,
 * times rstd^2. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_group_find_coefficients(nn_group_arrays a, nn_group_view v) {
  typedef nn_compute_type<T> C;
  const double *sums = (const double *)a.at[SUMS].data;
  double *to = (double *)a.at[COEFFICIENTS].data;
  const double n = (double)v.lines.length;
  for (int64_t i = nn_first_index(); i < v.lines.outer; i += nn_index_step()) {
    const double rstd = (double)((const C *)a.at[RSTD].data)[i];
    const int64_t first = nn_group_find_channel(v, i);
    double shift = 0, slope = 0;
    for (int64_t c = 0; c < v.channels; ++c) {
      const double gamma = nn_group_read_gamma<T>(a, first + c);
      shift += gamma * sums[2 * (i * v.channels + c)];
      slope += gamma * sums[2 * (i * v.channels + c) + 1];
    }
    to[2 * i] = shift / n;
    to[2 * i + 1] = slope / n * rstd * rstd;
  }
}

/* Writes the gradient of data. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_group_write_gradients(nn_group_arrays a, nn_group_view v) {
  typedef nn_compute_type<T> C;
  const double *coefficients = (const double *)a.at[COEFFICIENTS].data;
  const int64_t n = v.lines.outer * v.lines.length;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t part = tn_cuda_quotient(i, v.by_inner);
    const int64_t line = tn_cuda_quotient(part, v.by_channels);
    const int64_t channel =
        nn_group_find_channel(v, line) + part - line * v.channels;
    const C mean = ((const C *)a.at[MEAN].data)[line];
    const C rstd = ((const C *)a.at[RSTD].data)[line];
    const C out_gradient = nn_load_element<T>(a.at[HEAD], i) *
                           (C)nn_group_read_gamma<T>(a, channel);
    const C d = nn_load_element<T>(a.at[DATA], i) - mean;
    nn_store_element<T>(a.at[OUT], i,
                        (out_gradient - (C)coefficients[2 * line] -
                         d * (C)coefficients[2 * line + 1]) *
                            rstd);
  }
}

/* Writes the gradients of gamma and beta: sums over all images in their order.
 */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_group_write_weights(nn_group_arrays a, nn_group_view v) {
  typedef nn_compute_type<T> C;
  const double *sums = (const double *)a.at[SUMS].data;
  const C *rstds = (const C *)a.at[RSTD].data;
  const int64_t channels = v.groups * v.channels;
  for (int64_t c = nn_first_index(); c < channels; c += nn_index_step()) {
    const int64_t group = tn_cuda_quotient(c, v.by_channels);
    double by_gamma = 0, by_beta = 0;
    for (int64_t image = 0; image < v.images; ++image) {
      const double *own = sums + 2 * (image * channels + c);
      by_beta += own[0];
      if (rstds != NULL)
        by_gamma += own[1] * (double)rstds[image * v.groups + group];
    }
    if (a.at[BY_GAMMA].data != NULL)
      tn_cuda_set((T *)a.at[BY_GAMMA].data + c, by_gamma, a.at[BY_GAMMA].adds);
    if (a.at[BY_BETA].data != NULL)
      tn_cuda_set((T *)a.at[BY_BETA].data + c, by_beta, a.at[BY_BETA].adds);
  }
}

/* -------------------------------------------------------------------- host */

/* The parameters of both operators. */
struct nn_group_options {
  int64_t groups; /* 0: as many as channels */
  double eps;
};

/* Returns a tensor with the shape of data, in a forward or backward call. */
static const tn_tensor *nn_group_find_data(const tn_frame *call) {
  return (call->flags & TN_CALL_BACKWARD)
             ? &call->in[NN_GROUP_NORM_BACKWARD_GRAD_OUT]
             : &call->in[NN_GROUP_NORM_IN_DATA];
}

/* Returns the geometry and parameters of a call, for its CUDA kernels. */
static nn_group_view nn_group_make_view(const tn_frame *call,
                                        nn_group_options options) {
  const tn_tensor *data = nn_group_find_data(call);
  const int64_t all = data->shape[1];
  nn_group_view v = {};
  v.images = data->shape[0];
  v.groups = options.groups > 0 ? options.groups : all;
  v.channels = v.groups > 0 ? all / v.groups : 0;
  v.inner = 1;
  for (int32_t d = 2; d < data->ndim; ++d) v.inner *= data->shape[d];
  v.eps = options.eps;
  v.lines = nn_choose_lines(v.images * v.groups, v.channels * v.inner, 1);
  v.parts = nn_choose_lines(v.images * all, v.inner, 1);
  v.by_inner = tn_cuda_divisor_of(v.inner);
  v.by_channels = tn_cuda_divisor_of(v.channels);
  v.by_groups = tn_cuda_divisor_of(v.groups);
  return v;
}

/* Returns the bytes of SUMS and COEFFICIENTS. */
static uint64_t nn_group_count_sum_bytes(const nn_group_view &v) {
  return (uint64_t)(2 * (v.parts.outer + v.lines.outer)) * sizeof(double);
}

/* Sets *bytes to the size of the workspace of a backward call: SUMS and
 * COEFFICIENTS, followed by mean and rstd in f32, which f16 and bf16 need. */
static int32_t nn_group_count_bytes(const tn_frame *call,
                                    nn_group_options options, uint64_t *bytes) {
  const nn_group_view v = nn_group_make_view(call, options);
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD)
    *bytes = nn_group_count_sum_bytes(v) +
             2 * (uint64_t)v.lines.outer * sizeof(float);
  return TN_OK;
}

/* Runs a forward call. */
static int32_t nn_group_run_forward(const tn_frame *call,
                                    nn_group_options options) {
  const nn_group_view v = nn_group_make_view(call, options);
  nn_group_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_GROUP_NORM_OUT_OUT],
                         call->req[NN_GROUP_NORM_OUT_OUT]);
  a.at[MEAN] = tn_cuda_to(&call->out[NN_GROUP_NORM_OUT_MEAN],
                          call->req[NN_GROUP_NORM_OUT_MEAN]);
  a.at[RSTD] = tn_cuda_to(&call->out[NN_GROUP_NORM_OUT_RSTD],
                          call->req[NN_GROUP_NORM_OUT_RSTD]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_GROUP_NORM_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_GROUP_NORM_IN_GAMMA]);
  a.at[BETA] = tn_cuda_from(&call->in[NN_GROUP_NORM_IN_BETA]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return tn_cuda_start(call, nn_group_normalize<decltype(type)>,
                           nn_count_line_blocks(v.lines), stream, a, v);
    });
  });
}

/* Computes mean and rstd again in f32, because the saved ones are rounded. */
template <class T>
static int32_t nn_group_recompute_moments(const tn_frame *call,
                                          const nn_group_view &v,
                                          nn_group_arrays *a,
                                          cudaStream_t stream) {
  const int64_t n = v.lines.outer;
  char *memory = (char *)call->ws[0] + nn_group_count_sum_bytes(v);
  nn_group_arrays own = {};
  own.at[DATA] = a->at[DATA];
  own.at[MEAN] = tn_cuda_room(memory, TN_F32, n);
  own.at[RSTD] = tn_cuda_room(memory + n * (int64_t)sizeof(float), TN_F32, n);
  a->at[MEAN] = own.at[MEAN];
  a->at[RSTD] = own.at[RSTD];
  return tn_cuda_start(call, nn_group_normalize<T>,
                       nn_count_line_blocks(v.lines), stream, own, v);
}

/* Launches the kernels of a backward call. Without elements of data nothing
 * reads RSTD. */
template <class T>
static int32_t nn_group_launch_backward(const tn_frame *call,
                                        const nn_group_view &v,
                                        nn_group_arrays a,
                                        cudaStream_t stream) {
  const int64_t n = v.lines.outer * v.lines.length;
  int32_t code = TN_OK;
  if (a.at[DATA].data != NULL && a.at[DATA].dtype != TN_F32 &&
      a.at[DATA].dtype != TN_F64)
    code = nn_group_recompute_moments<T>(call, v, &a, stream);
  if (a.at[DATA].data == NULL) a.at[RSTD].data = NULL;
  if (code == TN_OK)
    code = tn_cuda_start(call, nn_group_sum_channels<T>,
                         nn_count_line_blocks(v.parts), stream, a, v);
  if (code == TN_OK && a.at[OUT].data != NULL)
    code = tn_cuda_start_each(call, nn_group_find_coefficients<T>,
                              v.lines.outer, stream, a, v);
  if (code == TN_OK && a.at[OUT].data != NULL)
    code =
        tn_cuda_start_each(call, nn_group_write_gradients<T>, n, stream, a, v);
  if (code != TN_OK ||
      (a.at[BY_GAMMA].data == NULL && a.at[BY_BETA].data == NULL))
    return code;
  return tn_cuda_start_each(call, nn_group_write_weights<T>,
                            v.groups * v.channels, stream, a, v);
}

/* Runs a backward call. */
static int32_t nn_group_run_backward(const tn_frame *call,
                                     nn_group_options options) {
  const nn_group_view v = nn_group_make_view(call, options);
  const int64_t parts = 2 * v.parts.outer;
  double *sums = (double *)call->ws[0];
  nn_group_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_GROUP_NORM_IN_DATA],
                         call->req[NN_GROUP_NORM_IN_DATA]);
  a.at[BY_GAMMA] = tn_cuda_to(&call->out[NN_GROUP_NORM_IN_GAMMA],
                              call->req[NN_GROUP_NORM_IN_GAMMA]);
  a.at[BY_BETA] = tn_cuda_to(&call->out[NN_GROUP_NORM_IN_BETA],
                             call->req[NN_GROUP_NORM_IN_BETA]);
  a.at[HEAD] = tn_cuda_from(nn_group_find_data(call));
  a.at[DATA] = tn_cuda_from(&call->in[NN_GROUP_NORM_BACKWARD_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_GROUP_NORM_BACKWARD_IN_GAMMA]);
  a.at[MEAN] = tn_cuda_from(&call->in[NN_GROUP_NORM_BACKWARD_OUT_MEAN]);
  a.at[RSTD] = tn_cuda_from(&call->in[NN_GROUP_NORM_BACKWARD_OUT_RSTD]);
  a.at[SUMS] = tn_cuda_room(sums, TN_F64, parts);
  a.at[COEFFICIENTS] = tn_cuda_room(sums + parts, TN_F64, 2 * v.lines.outer);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(nn_group_find_data(call)->dtype, [&](auto type) {
      return nn_group_launch_backward<decltype(type)>(call, v, a, stream);
    });
  });
}

#define GROUP_OPERATOR(name, groups_of_call)                                  \
  /* Returns the parameters of a call. */                                     \
  static nn_group_options nn_##name##_read_options(const tn_frame *call) {    \
    const nn_group_options options = {groups_of_call,                         \
                                      nn_##name##_params_of(call)->eps};      \
    return options;                                                           \
  }                                                                           \
  int32_t nn_##name##_cuda_bytes(const tn_frame *call, uint64_t *bytes) {     \
    return nn_group_count_bytes(call, nn_##name##_read_options(call), bytes); \
  }                                                                           \
  int32_t nn_##name##_cuda(const tn_frame *call) {                            \
    return nn_group_run_forward(call, nn_##name##_read_options(call));        \
  }                                                                           \
  int32_t nn_##name##_cuda_backward(const tn_frame *call) {                   \
    return nn_group_run_backward(call, nn_##name##_read_options(call));       \
  }

GROUP_OPERATOR(group_norm, nn_group_norm_params_of(call)->num_groups)
GROUP_OPERATOR(instance_norm, 0)
