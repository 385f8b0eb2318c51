/* SPDX-License-Identifier: Apache-2.0
 * batch_norm.cu: batch_norm.yaml on CUDA devices, and, with relu,
 * batch_norm_activation.yaml. If a channel has several pieces, their sums come
 * first. Then each block computes the factors of its channels and its piece of
 * the elements.
 */
#include "batch_norm.gen.h"

#include <stddef.h>

#include "batch_norm_activation.gen.h"
#include "channels.cuh"

/* Indices of the arrays that CUDA kernels get. Backward, OUT is the gradient of
 * data. Operands that are absent or not requested have no data. */
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
  MOMENTS, /* means and squares of pieces, written by nn_batch_store_moments */
  SUMS,    /* sums of pieces, written by nn_batch_store_gradient_sums */
  TO_GAMMA,
  TO_BETA,
  RELU_OUT, /* backward: the result of the relu after the batch norm */
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> nn_batch_arrays;

struct nn_batch_view {
  nn_channels channels;
  nn_lines lines; /* the data as lines along the channels' axis */
  double eps;
  double momentum;
  /* 1 / elements of a channel: the weight of an element in a mean */
  double share;
  int batch;     /* mean and variance are computed from data */
  int measured;  /* backward: MOMENTS has means and variances, because the saved
                    ones are rounded */
  int fix_gamma; /* gamma is treated as 1 */
  int has_relu;  /* a relu follows the batch norm */
};

/* Whether each channel consists of one piece; then no sums of pieces are
 * stored. */
static __host__ __device__ inline int nn_batch_has_one_piece(
    const nn_batch_view &v) {
  return v.channels.pieces == 1;
}

/* Weights and statistics of a thread's channel, 0 for absent ones. All are
 * loaded before any is used. */
struct nn_batch_values {
  double gamma;
  double beta;
  double mean; /* forward: the moving average */
  double var;  /* forward: the moving average; backward: 1/sqrt(var + eps) */
};

/* Returns a number of one channel as f64; 0 if the array is absent. */
template <class T>
__device__ __forceinline__ double nn_batch_read_value(
    const tn_cuda_array &array, int64_t channel) {
  if (array.data == NULL) return 0;
  return (double)nn_load_element<T>(array, channel);
}

/* Loads the values of a thread's channel; `mean` and `var` are the indices of
 * their arrays. */
template <class T>
__device__ __forceinline__ nn_batch_values
nn_batch_load_values(const nn_batch_arrays &a, const nn_batch_view &v,
                     const nn_piece_part &part, int mean, int var) {
  nn_batch_values k = {1, 0, 0, 0};
  if (part.channel >= v.channels.length) return k;
  if (!v.fix_gamma && a.at[GAMMA].data != NULL)
    k.gamma = nn_batch_read_value<T>(a.at[GAMMA], part.channel);
  k.beta = nn_batch_read_value<T>(a.at[BETA], part.channel);
  k.mean = nn_batch_read_value<T>(a.at[mean], part.channel);
  k.var = nn_batch_read_value<T>(a.at[var], part.channel);
  return k;
}

/* -------------------------------------------------------------- statistics */

/* Computes the mean of a piece of DATA, and the sum of squared distances to
 * that mean. In this file N is the number of elements of a pack. */
template <class T, int N>
__device__ __forceinline__ nn_sum_pair
nn_batch_measure_piece(const nn_batch_arrays &a, const nn_channels &c,
                       const nn_piece_part &part, double *folded) {
  typedef nn_compute_type<T> C;
  const double n = part.n > 0 ? (double)part.n : 1;
  C sum = 0, spread = 0;
  const auto load = [&](int64_t at) {
    return nn_load_pack<T, N>(a.at[DATA], at);
  };
  nn_visit_piece_part(c, part, load, [&](int64_t, const nn_pack<C, N> &x) {
    for (int k = 0; k < N; ++k) sum += x.x[k];
  });
  const double mean =
      tn_cuda_reduce(folded, (double)sum, tn_cuda_plus(), c.lanes) / n;
  const C near = (C)mean;
  nn_visit_piece_part(c, part, load, [&](int64_t, const nn_pack<C, N> &x) {
    for (int k = 0; k < N; ++k) spread += (x.x[k] - near) * (x.x[k] - near);
  });
  const double all =
      tn_cuda_reduce(folded, (double)spread, tn_cuda_plus(), c.lanes);
  const double off = mean - (double)near;
  const nn_sum_pair pair = {mean, all - n * off * off};
  return pair;
}

/* Writes the mean of each piece, and the sum of squared distances to it, to
 * MOMENTS. */
template <class T, int N>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_store_moments(nn_batch_arrays a, nn_batch_view v) {
  __shared__ double folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(c); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(c, b);
    const nn_sum_pair pair = nn_batch_measure_piece<T, N>(a, c, part, folded);
    nn_store_piece_sums(a.at[MOMENTS], c, part, pair);
  }
}

/* Returns the sum of each(piece) over all pieces of a thread's channel. */
template <class Each>
__device__ __forceinline__ nn_sum_pair
nn_batch_reduce_pieces(const nn_channels &c, const nn_piece_part &part,
                       nn_sum_pair *folded, Each each) {
  nn_sum_pair sum = {0, 0};
  const int64_t pieces = part.channel < c.length ? c.pieces : 0;
#pragma unroll 1
  for (int64_t p = threadIdx.x >> c.lane_bits; p < pieces;
       p += 1u << nn_count_thread_bits(c))
    sum = nn_add_sum_pairs()(sum, each(p));
  return tn_cuda_reduce(folded, sum, nn_add_sum_pairs(), c.lanes);
}

/* Computes mean and variance of a thread's channel from the MOMENTS of its
 * pieces. Sums use distances to the mean of the first piece. */
__device__ __forceinline__ nn_sum_pair
nn_batch_merge_moments(const nn_batch_arrays &a, const nn_batch_view &v,
                       const nn_piece_part &part, nn_sum_pair *folded) {
  const nn_channels &c = v.channels;
  const double *moments = (const double *)a.at[MOMENTS].data;
  double first = 0;
  if (part.channel < c.length)
    first = moments[nn_find_sum_index(c, part.channel, 0, 0)];
  const nn_sum_pair sum =
      nn_batch_reduce_pieces(c, part, folded, [&](int64_t p) {
        const double n = (double)(nn_count_piece_packs(c, p) * c.pack);
        const double d =
            moments[nn_find_sum_index(c, part.channel, p, 0)] - first;
        const double spread = moments[nn_find_sum_index(c, part.channel, p, 1)];
        const nn_sum_pair pair = {n * d, n * d * d + spread};
        return pair;
      });
  const double off = sum.first * v.share;
  const nn_sum_pair pair = {first + off, sum.second * v.share - off * off};
  return pair;
}

/* Returns mean and variance of a thread's channel. WHOLE: each channel is one
 * piece, which is measured here instead of read from MOMENTS. */
template <class T, int N, bool WHOLE>
__device__ __forceinline__ nn_sum_pair nn_batch_find_moments(
    const nn_batch_arrays &a, const nn_batch_view &v, const nn_piece_part &part,
    const nn_batch_values &known, nn_sum_pair *folded) {
  nn_sum_pair pair = {known.mean, known.var};
  if (!v.batch) return pair;
  if (!WHOLE) return nn_batch_merge_moments(a, v, part, folded);
  pair = nn_batch_measure_piece<T, N>(a, v.channels, part, (double *)folded);
  pair.second *= v.share;
  return pair;
}

/* ----------------------------------------------------------------- forward */

/* Updates the moving averages, unless the batch is empty, and writes the
 * outputs mean and 1/sqrt(var + eps) of a channel. */
template <class T>
__device__ __forceinline__ void nn_batch_write_statistics(
    const nn_batch_arrays &a, const nn_batch_view &v, const nn_piece_part &part,
    const nn_batch_values &known, const nn_sum_pair &s, double inverse) {
  if (!part.leads || part.piece != 0) return;
  if (v.batch && part.n > 0) {
    const double keep = v.momentum, take = 1 - keep;
    nn_store_element<T>(
        a.at[MOVING_MEAN], part.channel,
        (nn_compute_type<T>)(keep * known.mean + take * s.first));
    nn_store_element<T>(
        a.at[MOVING_VAR], part.channel,
        (nn_compute_type<T>)(keep * known.var + take * s.second));
  }
  if (a.at[MEAN].data != NULL) tn_cuda_write(a.at[MEAN], part.channel, s.first);
  if (a.at[INV_STD].data != NULL)
    nn_store_element<T>(a.at[INV_STD], part.channel,
                        (nn_compute_type<T>)inverse);
}

/* Computes OUT from DATA. The second argument of __launch_bounds__ in this file
 * is the number of blocks on a multiprocessor. A block mostly waits. Several
 * blocks, with some registers spilled, take half as long as one or two without
 * spilling. */
template <class T, int N, bool WHOLE>
__global__ void __launch_bounds__(TN_CUDA_THREADS, 4)
    nn_batch_normalize(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_sum_pair folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(c); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(c, b);
    const nn_batch_values known =
        nn_batch_load_values<T>(a, v, part, MOVING_MEAN, MOVING_VAR);
    C mean = 0, scale = 0;
    nn_visit_piece_part(
        c, part, [&](int64_t at) { return nn_load_pack<T, N>(a.at[DATA], at); },
        [&] {
          const nn_sum_pair s =
              nn_batch_find_moments<T, N, WHOLE>(a, v, part, known, folded);
          const double inverse = rsqrt(s.second + v.eps);
          nn_batch_write_statistics<T>(a, v, part, known, s, inverse);
          mean = (C)s.first;
          scale = (C)(known.gamma * inverse);
        },
        [&](int64_t at, nn_pack<C, N> &x) {
          if (a.at[OUT].data == NULL) return;
          for (int k = 0; k < N; ++k) {
            const C y = (x.x[k] - mean) * scale + (C)known.beta;
            x.x[k] = v.has_relu && y < 0 ? (C)0 : y;
          }
          nn_store_pack<T, N>(a.at[OUT], at, x);
        });
  }
}

/* ---------------------------------------------------------------- backward */

/* Loads the saved values of a thread's channel. If `measured`, mean and
 * 1/sqrt(var + eps) come from MOMENTS. */
template <class T>
__device__ __forceinline__ nn_batch_values
nn_batch_load_saved_values(const nn_batch_arrays &a, const nn_batch_view &v,
                           const nn_piece_part &part, nn_sum_pair *folded) {
  nn_batch_values known = nn_batch_load_values<T>(a, v, part, MEAN, INV_STD);
  if (!v.measured) return known;
  const nn_sum_pair s = nn_batch_merge_moments(a, v, part, folded);
  known.mean = s.first;
  known.var = rsqrt(s.second + v.eps);
  return known;
}

/* A pack of output gradients, multiplied by the derivative of the relu if there
 * is one, and the same elements of DATA. */
template <class C, int N>
struct nn_batch_operands {
  nn_pack<C, N> out_gradient;
  nn_pack<C, N> data;
};

/* Loads pack `at` of the operands of a backward call. */
template <class T, int N>
__device__ __forceinline__ nn_batch_operands<nn_compute_type<T>, N>
nn_batch_load_operands(const nn_batch_arrays &a, int64_t at) {
  nn_batch_operands<nn_compute_type<T>, N> terms = {};
  terms.out_gradient = nn_load_pack<T, N>(a.at[HEAD], at);
  if (a.at[DATA].data != NULL) terms.data = nn_load_pack<T, N>(a.at[DATA], at);
  if (a.at[RELU_OUT].data == NULL) return terms;
  const nn_pack<nn_compute_type<T>, N> relu_out =
      nn_load_pack<T, N>(a.at[RELU_OUT], at);
  for (int k = 0; k < N; ++k)
    if (!(relu_out.x[k] > 0)) terms.out_gradient.x[k] = 0;
  return terms;
}

/* Computes two sums over a piece: of the output gradient, and of its products
 * with x - mean. Without DATA the second one is unused. */
template <class T, int N>
__device__ __forceinline__ nn_sum_pair nn_batch_sum_piece(
    const nn_batch_arrays &a, const nn_channels &c, const nn_piece_part &part,
    nn_compute_type<T> mean, nn_sum_pair *folded) {
  typedef nn_compute_type<T> C;
  C sum = 0, moment = 0;
  nn_visit_piece_part(
      c, part, [&](int64_t at) { return nn_batch_load_operands<T, N>(a, at); },
      [&](int64_t, const nn_batch_operands<C, N> &terms) {
        for (int k = 0; k < N; ++k) {
          sum += terms.out_gradient.x[k];
          moment += terms.out_gradient.x[k] * (terms.data.x[k] - mean);
        }
      });
  const nn_sum_pair pair = {(double)sum, (double)moment};
  return tn_cuda_reduce(folded, pair, nn_add_sum_pairs(), c.lanes);
}

/* Writes the two sums of nn_batch_sum_piece to SUMS, for each piece. */
template <class T, int N>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_batch_store_gradient_sums(nn_batch_arrays a, nn_batch_view v) {
  __shared__ nn_sum_pair folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(c); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(c, b);
    const nn_batch_values known =
        nn_batch_load_saved_values<T>(a, v, part, folded);
    nn_store_piece_sums(
        a.at[SUMS], c, part,
        nn_batch_sum_piece<T, N>(a, c, part, (nn_compute_type<T>)known.mean,
                                 folded));
  }
}

/* Returns these two sums over a thread's whole channel: from SUMS, or from its
 * only piece if WHOLE. */
template <class T, int N, bool WHOLE>
__device__ __forceinline__ nn_sum_pair nn_batch_find_gradient_sums(
    const nn_batch_arrays &a, const nn_batch_view &v, const nn_piece_part &part,
    nn_compute_type<T> mean, nn_sum_pair *folded) {
  const nn_channels &c = v.channels;
  if (WHOLE) return nn_batch_sum_piece<T, N>(a, c, part, mean, folded);
  const double *sums = (const double *)a.at[SUMS].data;
  return nn_batch_reduce_pieces(c, part, folded, [&](int64_t p) {
    const nn_sum_pair pair = {sums[nn_find_sum_index(c, part.channel, p, 0)],
                              sums[nn_find_sum_index(c, part.channel, p, 1)]};
    return pair;
  });
}

/* Writes the gradients of beta and gamma of a channel. */
template <class T>
__device__ __forceinline__ void nn_batch_write_weight_gradients(
    const nn_batch_arrays &a, const nn_batch_view &v, const nn_piece_part &part,
    const nn_sum_pair &sums, double inverse) {
  if (!part.leads || part.piece != 0) return;
  if (a.at[TO_BETA].data != NULL)
    nn_store_element<T>(a.at[TO_BETA], part.channel,
                        (nn_compute_type<T>)sums.first);
  if (a.at[TO_GAMMA].data != NULL)
    nn_store_element<T>(
        a.at[TO_GAMMA], part.channel,
        v.fix_gamma ? 0 : (nn_compute_type<T>)(sums.second * inverse));
}

/* Writes the gradients of gamma and beta, and the gradient of each piece of
 * DATA. If mean and variance are moving averages, the output gradient is only
 * scaled. */
template <class T, int N, bool WHOLE>
__global__ void __launch_bounds__(TN_CUDA_THREADS, N == 1 ? 4 : 3)
    nn_batch_write_gradients(nn_batch_arrays a, nn_batch_view v) {
  typedef nn_compute_type<T> C;
  __shared__ nn_sum_pair folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(c); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(c, b);
    const nn_batch_values known =
        nn_batch_load_saved_values<T>(a, v, part, folded);
    const double inverse = known.var;
    const C mean = (C)known.mean, scale = (C)(known.gamma * inverse);
    C shift = 0, slope = 0;
    nn_visit_piece_part(
        c, part,
        [&](int64_t at) { return nn_batch_load_operands<T, N>(a, at); },
        [&] {
          const nn_sum_pair sums = nn_batch_find_gradient_sums<T, N, WHOLE>(
              a, v, part, mean, folded);
          nn_batch_write_weight_gradients<T>(a, v, part, sums, inverse);
          if (!v.batch) return;
          shift = (C)(sums.first * v.share);
          slope = (C)(inverse * inverse * sums.second * v.share);
        },
        [&](int64_t at, nn_batch_operands<C, N> &terms) {
          if (a.at[OUT].data == NULL) return;
          for (int k = 0; k < N; ++k) {
            const C own = (terms.data.x[k] - mean) * slope + shift;
            terms.out_gradient.x[k] = (v.batch ? terms.out_gradient.x[k] - own
                                               : terms.out_gradient.x[k]) *
                                      scale;
          }
          nn_store_pack<T, N>(a.at[OUT], at, terms.out_gradient);
        });
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the geometry and parameters of a call, for its CUDA kernels. */
static nn_batch_view nn_batch_make_view(const tn_frame *call) {
  const nn_batch_norm_params *p = nn_batch_norm_params_of(call);
  const tn_tensor *data = (call->flags & TN_CALL_BACKWARD)
                              ? &call->in[NN_BATCH_NORM_BACKWARD_GRAD_OUT]
                              : &call->in[NN_BATCH_NORM_IN_DATA];
  const int32_t dim = (int32_t)(p->axis < 0 ? p->axis + data->ndim : p->axis);
  const nn_lines lines = nn_find_lines(data, dim, dim);
  nn_batch_view v = {};
  v.lines = lines;
  v.channels = nn_choose_channel_pieces(lines.outer, lines.length, lines.inner);
  v.eps = p->eps;
  v.momentum = p->momentum;
  v.share = lines.outer * lines.inner > 0
                ? 1 / (double)(lines.outer * lines.inner)
                : 0;
  v.batch = (call->flags & TN_CALL_TRAIN) && !p->use_global_stats;
  v.fix_gamma = p->fix_gamma;
  return v;
}

/* Sets *bytes to the size of the workspace: MOMENTS, followed by SUMS. */
int32_t nn_batch_norm_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 2 * nn_count_sum_bytes(nn_batch_make_view(call).channels);
  return TN_OK;
}

/* Sets the arrays MOMENTS and SUMS to their places in the workspace. */
static void nn_batch_place_workspace(const tn_frame *call,
                                     const nn_batch_view &v,
                                     nn_batch_arrays *a) {
  char *behind = (char *)call->ws[0] + nn_count_sum_bytes(v.channels);
  a->at[MOMENTS] = nn_make_sums_array(call->ws[0], v.channels);
  a->at[SUMS] = nn_make_sums_array(behind, v.channels);
}

/* Chooses packs of four elements if all arrays with the shape of data allow
 * them. */
static void nn_batch_choose_packs(nn_batch_view *v, const nn_batch_arrays &a) {
  static const int like_data[] = {OUT, DATA, HEAD, RELU_OUT};
  bool are_fours = v->lines.inner % 4 == 0;
  for (int k : like_data)
    are_fours = are_fours && nn_has_packs_of_4(a.at[k], v->lines.inner);
  v->channels = nn_choose_channel_pieces(v->lines.outer, v->lines.length,
                                         v->lines.inner, are_fours);
}

/* Launches the kernels of a forward call with packs of N elements. */
template <class T, int N>
static int32_t nn_batch_launch_forward(const tn_frame *call,
                                       const nn_batch_view &v,
                                       const nn_batch_arrays &a,
                                       cudaStream_t stream) {
  const int64_t parts = nn_count_channel_blocks(v.channels);
  int32_t code = TN_OK;
  if (v.batch && !nn_batch_has_one_piece(v))
    code =
        tn_cuda_start(call, nn_batch_store_moments<T, N>, parts, stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_start(call,
                       nn_batch_has_one_piece(v)
                           ? nn_batch_normalize<T, N, true>
                           : nn_batch_normalize<T, N, false>,
                       parts, stream, a, v);
}

/* Runs a forward call of batch_norm, or of batch_norm_activation if has_relu.
 */
static int32_t nn_batch_run_forward(const tn_frame *call, int has_relu) {
  nn_batch_view v = nn_batch_make_view(call);
  nn_batch_arrays a = {};
  v.has_relu = has_relu;
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
  nn_batch_place_workspace(call, v, &a);
  nn_batch_choose_packs(&v, a);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->out[0].dtype, [&](auto type) {
      return nn_run_by_pack_size(v.channels.pack == 4, [&](auto size) {
        return nn_batch_launch_forward<decltype(type), decltype(size)::value>(
            call, v, a, stream);
      });
    });
  });
}

int32_t nn_batch_norm_cuda(const tn_frame *call) {
  return nn_batch_run_forward(call, 0);
}

/* All functions above treat a call of batch_norm_activation as one of
 * batch_norm. */
static_assert(offsetof(nn_batch_norm_activation_params, axis) ==
                  offsetof(nn_batch_norm_params, axis),
              "the params do not begin with those of batch_norm");

int32_t nn_batch_norm_activation_cuda(const tn_frame *call) {
  return nn_batch_run_forward(call, 1);
}

/* Launches the kernels of a backward call. In f16 and bf16 mean and variance
 * are measured again, because the saved ones are rounded. */
template <class T, int N>
static int32_t nn_batch_launch_backward(const tn_frame *call,
                                        const nn_batch_view &v,
                                        const nn_batch_arrays &a,
                                        cudaStream_t stream) {
  const int64_t parts = nn_count_channel_blocks(v.channels);
  int32_t code = TN_OK;
  if (v.measured)
    code =
        tn_cuda_start(call, nn_batch_store_moments<T, N>, parts, stream, a, v);
  if (code == TN_OK && !nn_batch_has_one_piece(v))
    code = tn_cuda_start(call, nn_batch_store_gradient_sums<T, N>, parts,
                         stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_start(call,
                       nn_batch_has_one_piece(v)
                           ? nn_batch_write_gradients<T, N, true>
                           : nn_batch_write_gradients<T, N, false>,
                       parts, stream, a, v);
}

/* Indices of operands among the inputs of a backward call; `relu_out`, the
 * result of the relu, is negative without a relu. */
struct nn_batch_inputs {
  int out_gradient, relu_out, data, gamma, mean, inv_std;
};

/* Runs a backward call of batch_norm or batch_norm_activation. */
static int32_t nn_batch_run_backward(const tn_frame *call,
                                     const nn_batch_inputs &in) {
  const tn_tensor *out_gradient = &call->in[in.out_gradient];
  nn_batch_view v = nn_batch_make_view(call);
  nn_batch_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_BATCH_NORM_IN_DATA],
                         call->req[NN_BATCH_NORM_IN_DATA]);
  a.at[TO_GAMMA] = tn_cuda_to(&call->out[NN_BATCH_NORM_IN_GAMMA],
                              call->req[NN_BATCH_NORM_IN_GAMMA]);
  a.at[TO_BETA] = tn_cuda_to(&call->out[NN_BATCH_NORM_IN_BETA],
                             call->req[NN_BATCH_NORM_IN_BETA]);
  a.at[HEAD] = tn_cuda_from(out_gradient);
  if (in.relu_out >= 0) a.at[RELU_OUT] = tn_cuda_from(&call->in[in.relu_out]);
  a.at[DATA] = tn_cuda_from(&call->in[in.data]);
  a.at[GAMMA] = tn_cuda_from(&call->in[in.gamma]);
  a.at[MEAN] = tn_cuda_from(&call->in[in.mean]);
  a.at[INV_STD] = tn_cuda_from(&call->in[in.inv_std]);
  nn_batch_place_workspace(call, v, &a);
  v.measured = v.batch && a.at[DATA].data != NULL &&
               tn_kernel_compute(out_gradient->dtype) != out_gradient->dtype;
  nn_batch_choose_packs(&v, a);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(out_gradient->dtype, [&](auto type) {
      return nn_run_by_pack_size(v.channels.pack == 4, [&](auto size) {
        return nn_batch_launch_backward<decltype(type), decltype(size)::value>(
            call, v, a, stream);
      });
    });
  });
}

int32_t nn_batch_norm_cuda_backward(const tn_frame *call) {
  const nn_batch_inputs in = {
      NN_BATCH_NORM_BACKWARD_GRAD_OUT, -1,
      NN_BATCH_NORM_BACKWARD_IN_DATA,  NN_BATCH_NORM_BACKWARD_IN_GAMMA,
      NN_BATCH_NORM_BACKWARD_OUT_MEAN, NN_BATCH_NORM_BACKWARD_OUT_INV_STD};
  return nn_batch_run_backward(call, in);
}

int32_t nn_batch_norm_activation_cuda_backward(const tn_frame *call) {
  const nn_batch_inputs in = {NN_BATCH_NORM_ACTIVATION_BACKWARD_GRAD_OUT,
                              NN_BATCH_NORM_ACTIVATION_BACKWARD_OUT_OUT,
                              NN_BATCH_NORM_ACTIVATION_BACKWARD_IN_DATA,
                              NN_BATCH_NORM_ACTIVATION_BACKWARD_IN_GAMMA,
                              NN_BATCH_NORM_ACTIVATION_BACKWARD_OUT_MEAN,
                              NN_BATCH_NORM_ACTIVATION_BACKWARD_OUT_INV_STD};
  return nn_batch_run_backward(call, in);
}
