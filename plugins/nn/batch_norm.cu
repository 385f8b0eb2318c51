/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.cu: batch_norm.yaml on CUDA devices: sums of the pieces of
 * channels, then a thread for each channel, then one for each element.
 */
#include "batch_norm.gen.h"

#include "nn.cuh"

/* What kernels are handed: backward OUT is the gradient of data. What is not
 * wanted, or absent, has no data. */
enum {
  OUT,
  DATA,
  HEAD,
  GAMMA,
  BETA,
  MEAN,
  INV_STD,
  MOVING_MEAN,
  MOVING_VAR,
  SUMS,
  KNOWN, /* of each channel, in the type that is computed in */
  TO_GAMMA,
  TO_BETA,
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> nn_batch_arrays;

enum { CENTER, SCALE, SHIFT, SLOPE, N_KNOWN };

struct nn_batch_view {
  nn_channels channels;
  double eps;
  double momentum;
  int batch;     /* the statistics are those of the data */
  int measured;  /* backward: they are in SUMS */
  int fix_gamma; /* gamma counts as 1 */
  int reserved;
};

template <class C>
__device__ __forceinline__ C *nn_batch_known(const nn_batch_arrays &a,
                                             const nn_batch_view &v, int which,
                                             int64_t channel) {
  return (C *)a.at[KNOWN].data + which * v.channels.length + channel;
}

template <class T>
__device__ __forceinline__ double nn_batch_gamma(const nn_batch_arrays &a,
                                                 const nn_batch_view &v,
                                                 int64_t channel) {
  if (v.fix_gamma || a.at[GAMMA].data == NULL) return 1;
  return (double)nn_get<T>(a.at[GAMMA], channel);
}

/* --------------------------------------------------------------- statistics */

/* Of each piece of DATA the mean, and the sum of squares of distances to it. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_moments(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  __shared__ double folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_channel_parts(c); b += gridDim.x) {
    const nn_part part = nn_part_of(c, b);
    C sum = 0, spread = 0;
    for (int64_t j = part.first; j < part.end; j += part.step)
      sum += nn_get<T>(a.at[DATA], nn_channel_at(c, part.channel, j));
    const double mean =
        tn_cuda_fold(folded, (double)sum, tn_cuda_plus(), c.lanes) /
        (double)part.n;
    const C near = (C)mean;
    for (int64_t j = part.first; j < part.end; j += part.step) {
      const C d =
          nn_get<T>(a.at[DATA], nn_channel_at(c, part.channel, j)) - near;
      spread += d * d;
    }
    const double all =
        tn_cuda_fold(folded, (double)spread, tn_cuda_plus(), c.lanes);
    const double off = mean - (double)near;
    nn_sums_put(a.at[SUMS], c, part, mean, all - (double)part.n * off * off);
  }
}

struct nn_batch_statistics {
  double mean;
  double var;
};

/* Those of a channel from those of its pieces; of nothing they are 0. */
__device__ __forceinline__ nn_batch_statistics nn_batch_merge(
    const nn_batch_arrays &a, const nn_channels &c, int64_t channel) {
  const double *sums = (const double *)a.at[SUMS].data;
  double mean = 0, spread = 0, n = 0;
  for (int64_t p = 0; p < c.pieces; ++p) {
    const double more = (double)nn_part_size(c, p);
    const double step = sums[nn_sum_at(c, channel, p, 0)] - mean;
    const double share = more / (n + more);
    mean += step * share;
    spread += sums[nn_sum_at(c, channel, p, 1)] + step * step * n * share;
    n += more;
  }
  const nn_batch_statistics s = {mean, n > 0 ? spread / n : 0};
  return s;
}

/* ------------------------------------------------------------------ forward */

template <class T>
__device__ __forceinline__ void nn_batch_move(const tn_cuda_array &moving,
                                              int64_t channel, double keep,
                                              double fresh) {
  const double old = (double)nn_get<T>(moving, channel);
  tn_cuda_set((T *)moving.data + channel, keep * old + (1 - keep) * fresh, 0);
}

/* What elements need of their channel, moving averages, hidden outputs. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_begin(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  for (int64_t c = nn_first(); c < v.channels.length; c += nn_step()) {
    nn_batch_statistics s;
    if (v.batch) {
      s = nn_batch_merge(a, v.channels, c);
    } else {
      s.mean = (double)nn_get<T>(a.at[MOVING_MEAN], c);
      s.var = (double)nn_get<T>(a.at[MOVING_VAR], c);
    }
    const double inverse = 1 / sqrt(s.var + v.eps);
    if (v.batch && v.channels.pieces > 0) {
      nn_batch_move<T>(a.at[MOVING_MEAN], c, v.momentum, s.mean);
      nn_batch_move<T>(a.at[MOVING_VAR], c, v.momentum, s.var);
    }
    *nn_batch_known<C>(a, v, CENTER, c) = (C)s.mean;
    *nn_batch_known<C>(a, v, SCALE, c) =
        (C)(nn_batch_gamma<T>(a, v, c) * inverse);
    *nn_batch_known<C>(a, v, SHIFT, c) = nn_get<T>(a.at[BETA], c);
    if (a.at[MEAN].data != NULL) tn_cuda_write(a.at[MEAN], c, s.mean);
    if (a.at[INV_STD].data != NULL) tn_cuda_write(a.at[INV_STD], c, inverse);
  }
}

template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_apply(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  const int64_t n = nn_channel_size(v.channels) * v.channels.length;
  for (int64_t i = nn_first(); i < n; i += nn_step()) {
    const int64_t c = nn_channel_of(v.channels, i);
    const C d = nn_get<T>(a.at[DATA], i) - *nn_batch_known<C>(a, v, CENTER, c);
    nn_put<T>(a.at[OUT], i,
              d * *nn_batch_known<C>(a, v, SCALE, c) +
                  *nn_batch_known<C>(a, v, SHIFT, c));
  }
}

/* ----------------------------------------------------------------- backward */

/* The mean, and 1/sqrt(var + eps) as SLOPE. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_recall(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  for (int64_t c = nn_first(); c < v.channels.length; c += nn_step()) {
    double mean = 0, inverse = 0;
    if (v.measured) {
      const nn_batch_statistics s = nn_batch_merge(a, v.channels, c);
      mean = s.mean;
      inverse = 1 / sqrt(s.var + v.eps);
    } else if (a.at[MEAN].data != NULL) {
      mean = (double)nn_get<T>(a.at[MEAN], c);
      inverse = (double)nn_get<T>(a.at[INV_STD], c);
    }
    *nn_batch_known<C>(a, v, CENTER, c) = (C)mean;
    *nn_batch_known<C>(a, v, SLOPE, c) = (C)inverse;
  }
}

/* The sum of the gradient, and that of its products with x - mean. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_slopes(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  __shared__ double folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_channel_parts(c); b += gridDim.x) {
    const nn_part part = nn_part_of(c, b);
    C mean = 0, sum = 0, moment = 0;
    if (part.end > 0) mean = *nn_batch_known<C>(a, v, CENTER, part.channel);
    for (int64_t j = part.first; j < part.end; j += part.step) {
      const int64_t i = nn_channel_at(c, part.channel, j);
      const C head = nn_get<T>(a.at[HEAD], i);
      sum += head;
      if (a.at[DATA].data != NULL)
        moment += head * (nn_get<T>(a.at[DATA], i) - mean);
    }
    const double sums =
        tn_cuda_fold(folded, (double)sum, tn_cuda_plus(), c.lanes);
    const double moments =
        tn_cuda_fold(folded, (double)moment, tn_cuda_plus(), c.lanes);
    nn_sums_put(a.at[SUMS], c, part, sums, moments);
  }
}

/* The gradients of gamma and beta, and what elements need of their channel. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_finish(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  const int64_t size = nn_channel_size(v.channels);
  const double n = size > 0 ? (double)size : 1;
  for (int64_t c = nn_first(); c < v.channels.length; c += nn_step()) {
    const double sum = nn_sums_get(a.at[SUMS], v.channels, c, 0);
    const double moment = nn_sums_get(a.at[SUMS], v.channels, c, 1);
    const double inverse = (double)*nn_batch_known<C>(a, v, SLOPE, c);
    *nn_batch_known<C>(a, v, SCALE, c) =
        (C)(nn_batch_gamma<T>(a, v, c) * inverse);
    *nn_batch_known<C>(a, v, SHIFT, c) = (C)(sum / n);
    *nn_batch_known<C>(a, v, SLOPE, c) = (C)(inverse * inverse * moment / n);
    if (a.at[TO_BETA].data != NULL) tn_cuda_write(a.at[TO_BETA], c, sum);
    if (a.at[TO_GAMMA].data != NULL)
      tn_cuda_write(a.at[TO_GAMMA], c, v.fix_gamma ? 0 : moment * inverse);
  }
}

/* With moving averages the gradient of out is only scaled. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_back(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_wide<T> C;
  const int64_t n = nn_channel_size(v.channels) * v.channels.length;
  for (int64_t i = nn_first(); i < n; i += nn_step()) {
    const int64_t c = nn_channel_of(v.channels, i);
    C head = nn_get<T>(a.at[HEAD], i);
    if (v.batch) {
      const C d =
          nn_get<T>(a.at[DATA], i) - *nn_batch_known<C>(a, v, CENTER, c);
      head -= *nn_batch_known<C>(a, v, SHIFT, c);
      head -= d * *nn_batch_known<C>(a, v, SLOPE, c);
    }
    nn_put<T>(a.at[OUT], i, head * *nn_batch_known<C>(a, v, SCALE, c));
  }
}

/* --------------------------------------------------------------------- host */

static nn_batch_view nn_batch_view_of(const tn_frame *call) {
  const nn_batch_norm_params *p = nn_batch_norm_params_of(call);
  const tn_tensor *data = (call->flags & TN_CALL_BACKWARD)
                              ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                              : &call->in[NN_BATCH_NORM_IN_DATA];
  const int32_t dim = (int32_t)(p->axis < 0 ? p->axis + data->ndim : p->axis);
  const nn_lines lines = nn_lines_of(data, dim, dim);
  nn_batch_view v = {};
  v.channels = nn_channels_of(lines.outer, lines.length, lines.inner);
  v.eps = p->eps;
  v.momentum = p->momentum;
  v.batch = (call->flags & TN_CALL_TRAIN) && !p->use_global_stats;
  v.fix_gamma = p->fix_gamma;
  return v;
}

/* Sums, then what is known of channels. */
int32_t nn_batch_norm_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_batch_view v = nn_batch_view_of(call);
  *bytes = nn_sums_bytes(v.channels) +
           (uint64_t)(N_KNOWN * v.channels.length) * sizeof(double);
  return TN_OK;
}

static void nn_batch_rooms(const tn_frame *call, const nn_batch_view &v,
                           nn_batch_arrays *a) {
  char *known = (char *)call->ws[0] + nn_sums_bytes(v.channels);
  a->at[SUMS] = nn_sums_room(call->ws[0], v.channels);
  a->at[KNOWN] = tn_cuda_room(known, TN_F64, N_KNOWN * v.channels.length);
}

template <class T>
static int32_t nn_batch_run(const tn_frame *call, const nn_batch_view &v,
                            const nn_batch_arrays &a, cudaStream_t stream) {
  int32_t code = TN_OK;
  if (v.batch)
    code = tn_cuda_start(call, nn_batch_moments<T>,
                         nn_channel_parts(v.channels), stream, a, v);
  if (code == TN_OK)
    code = tn_cuda_start_each(call, nn_batch_begin<T>, v.channels.length,
                              stream, a, v);
  if (code != TN_OK || a.at[OUT].data == NULL) return code;
  return tn_cuda_start_each(call, nn_batch_apply<T>,
                            tn_tensor_size(&call->out[0]), stream, a, v);
}

int32_t nn_batch_norm_cuda(const tn_frame *call) {
  const nn_batch_view v = nn_batch_view_of(call);
  nn_batch_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_BATCH_NORM_OUT_OUT],
                         call->req[NN_BATCH_NORM_OUT_OUT]);
  a.at[MEAN] = tn_cuda_to(&call->out[NN_BATCH_NORM_OUT_MEAN],
                          call->req[NN_BATCH_NORM_OUT_MEAN]);
  a.at[INV_STD] = tn_cuda_to(&call->out[NN_BATCH_NORM_OUT_INV_STD],
                             call->req[NN_BATCH_NORM_OUT_INV_STD]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_BATCH_NORM_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_BATCH_NORM_IN_GAMMA]);
  a.at[BETA] = tn_cuda_from(&call->in[NN_BATCH_NORM_IN_BETA]);
  a.at[MOVING_MEAN] =
      tn_cuda_to(&call->aux[NN_BATCH_NORM_AUX_MOVING_MEAN], TN_REQ_WRITE);
  a.at[MOVING_VAR] =
      tn_cuda_to(&call->aux[NN_BATCH_NORM_AUX_MOVING_VAR], TN_REQ_WRITE);
  nn_batch_rooms(call, v, &a);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return nn_batch_run<decltype(type)>(call, v, a, stream);
    });
  });
}

/* The statistics of a half precision batch are measured once more: what was
 * kept of them has lost digits. */
template <class T>
static int32_t nn_batch_run_back(const tn_frame *call, const nn_batch_view &v,
                                 const nn_batch_arrays &a,
                                 cudaStream_t stream) {
  const int64_t parts = nn_channel_parts(v.channels);
  const int64_t length = v.channels.length;
  int32_t code = TN_OK;
  if (v.measured)
    code = tn_cuda_start(call, nn_batch_moments<T>, parts, stream, a, v);
  if (code == TN_OK)
    code = tn_cuda_start_each(call, nn_batch_recall<T>, length, stream, a, v);
  if (code == TN_OK)
    code = tn_cuda_start(call, nn_batch_slopes<T>, parts, stream, a, v);
  if (code == TN_OK)
    code = tn_cuda_start_each(call, nn_batch_finish<T>, length, stream, a, v);
  if (code != TN_OK || a.at[OUT].data == NULL) return code;
  return tn_cuda_start_each(call, nn_batch_back<T>,
                            nn_channel_size(v.channels) * length, stream, a, v);
}

int32_t nn_batch_norm_cuda_backward(const tn_frame *call) {
  const tn_tensor *head = &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT];
  nn_batch_view v = nn_batch_view_of(call);
  nn_batch_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_BATCH_NORM_IN_DATA],
                         call->req[NN_BATCH_NORM_IN_DATA]);
  a.at[TO_GAMMA] = tn_cuda_to(&call->out[NN_BATCH_NORM_IN_GAMMA],
                              call->req[NN_BATCH_NORM_IN_GAMMA]);
  a.at[TO_BETA] = tn_cuda_to(&call->out[NN_BATCH_NORM_IN_BETA],
                             call->req[NN_BATCH_NORM_IN_BETA]);
  a.at[HEAD] = tn_cuda_from(head);
  a.at[DATA] = tn_cuda_from(&call->in[NN_BATCH_NORM_BACKWARD_IN_DATA]);
  a.at[GAMMA] = tn_cuda_from(&call->in[NN_BATCH_NORM_BACKWARD_IN_GAMMA]);
  a.at[MEAN] = tn_cuda_from(&call->in[NN_BATCH_NORM_BACKWARD_OUT_MEAN]);
  a.at[INV_STD] = tn_cuda_from(&call->in[NN_BATCH_NORM_BACKWARD_OUT_INV_STD]);
  nn_batch_rooms(call, v, &a);
  v.measured = v.batch && a.at[DATA].data != NULL &&
               tn_kernel_compute(head->dtype) != head->dtype;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(head->dtype, [&](auto type) {
      return nn_batch_run_back<decltype(type)>(call, v, a, stream);
    });
  });
}
