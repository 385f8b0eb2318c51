/* SPDX-License-Identifier: Apache-2.0
 * leaky_relu.cu: leaky_relu.yaml on CUDA devices. A thread computes packs of
 * elements. The gradient of gamma, the slopes of prelu, is a sum over each
 * channel.
 */
#include "leaky_relu.gen.h"

#include "channels.cuh"
#include "random_scaling.cuh"
#include "tenon/kernel/philox.h"

/* Indices of the arrays that CUDA kernels get. Forward calls read DATA.
 * Backward calls read HEAD, the output gradient, and KEPT, the saved output; if
 * the operator saves none, KEPT is the result of the forward call. */
enum { OUT, DATA, GAMMA, KEPT, HEAD, SUMS, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_leaky_arrays;

struct nn_leaky_view {
  /* Channels of prelu; otherwise one channel of all elements. */
  nn_channels channels;
  int64_t n; /* packs */
  double slope;
  int type; /* NN_LEAKY_RELU_ACT_TYPE_* */
  int reserved;
};

#define SELU_SCALE 1.0507009873554805
#define SELU_LOW 1.7580993408473766

/* Returns the slope of the channel that contains pack i. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_leaky_read_gamma(
    const nn_leaky_arrays &a, const nn_leaky_view &v, int64_t i) {
  return nn_load_element<T>(a.at[GAMMA], nn_find_channel(v.channels, i));
}

/* Returns the function of the operator for an element x of pack i. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_leaky_compute_value(
    const nn_leaky_arrays &a, const nn_leaky_view &v, int64_t i,
    nn_compute_type<T> x) {
  typedef nn_compute_type<T> C;
  if (v.type == NN_LEAKY_RELU_ACT_TYPE_SELU)
    return x > 0 ? (C)SELU_SCALE * x : (C)SELU_LOW * nn_expm1(x);
  if (x > 0) return x;
  if (v.type == NN_LEAKY_RELU_ACT_TYPE_ELU) return (C)v.slope * nn_expm1(x);
  if (v.type == NN_LEAKY_RELU_ACT_TYPE_PRELU)
    return nn_leaky_read_gamma<T>(a, v, i) * x;
  return (C)v.slope * x;
}

/* Writes OUT for n packs, each within one channel; for prelu also KEPT, a copy
 * of DATA. */
template <class T, int N>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_leaky_write_values(nn_leaky_arrays a, nn_leaky_view v) {
  typedef nn_pack<nn_compute_type<T>, N> pack;
  tn_cuda_each(
      v.n, [&](int64_t i) { return nn_load_pack<T, N>(a.at[DATA], i); },
      [&](int64_t i, pack &x) {
        if (a.at[KEPT].data != NULL) nn_store_pack<T, N>(a.at[KEPT], i, x);
        if (a.at[OUT].data == NULL) return;
        for (int k = 0; k < N; ++k)
          x.x[k] = nn_leaky_compute_value<T>(a, v, i, x.x[k]);
        nn_store_pack<T, N>(a.at[OUT], i, x);
      });
}

/* Returns the factor by which the output gradient of an element is multiplied;
 * y is the element of KEPT, which for rrelu is the factor itself. */
template <class T>
__device__ __forceinline__ nn_compute_type<T> nn_leaky_find_factor(
    const nn_leaky_arrays &a, const nn_leaky_view &v, int64_t i,
    nn_compute_type<T> y) {
  typedef nn_compute_type<T> C;
  switch (v.type) {
    case NN_LEAKY_RELU_ACT_TYPE_RRELU:
      return y;
    case NN_LEAKY_RELU_ACT_TYPE_PRELU:
      return y > 0 ? 1 : nn_leaky_read_gamma<T>(a, v, i);
    case NN_LEAKY_RELU_ACT_TYPE_SELU:
      return y > 0 ? (C)SELU_SCALE : y + (C)SELU_LOW;
    case NN_LEAKY_RELU_ACT_TYPE_ELU:
      return y > 0 ? 1 : y + (C)v.slope;
    default:
      return y > 0 ? 1 : (C)v.slope;
  }
}

/* Operands of a backward call: a pack of output gradients, and the same
 * elements of KEPT, the saved output or the result of the forward call. */
template <class C, int N>
struct nn_leaky_operands {
  nn_pack<C, N> out_gradient;
  nn_pack<C, N> kept;
};

/* Loads pack i of the operands of a backward call. */
template <class T, int N>
__device__ __forceinline__ nn_leaky_operands<nn_compute_type<T>, N>
nn_leaky_load_operands(const nn_leaky_arrays &a, int64_t i) {
  const nn_leaky_operands<nn_compute_type<T>, N> terms = {
      nn_load_pack<T, N>(a.at[HEAD], i), nn_load_pack<T, N>(a.at[KEPT], i)};
  return terms;
}

/* Writes the gradient of data. */
template <class T, int N>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_leaky_write_gradients(nn_leaky_arrays a, nn_leaky_view v) {
  typedef nn_leaky_operands<nn_compute_type<T>, N> terms;
  tn_cuda_each(
      v.n, [&](int64_t i) { return nn_leaky_load_operands<T, N>(a, i); },
      [&](int64_t i, terms &x) {
        for (int k = 0; k < N; ++k)
          x.out_gradient.x[k] *= nn_leaky_find_factor<T>(a, v, i, x.kept.x[k]);
        nn_store_pack<T, N>(a.at[OUT], i, x.out_gradient);
      });
}

/* Writes for each piece of a channel its sum of the gradient of gamma, the
 * slopes of prelu. */
template <class T, int N>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_prelu_sum_gamma(nn_leaky_arrays a, nn_leaky_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double folded[TN_CUDA_THREADS];
  const nn_channels &c = v.channels;
  for (int64_t b = blockIdx.x; b < nn_count_channel_blocks(c); b += gridDim.x) {
    const nn_piece_part part = nn_locate_piece_part(c, b);
    C sum = 0;
    nn_visit_piece_part(
        c, part,
        [&](int64_t at) { return nn_leaky_load_operands<T, N>(a, at); },
        [&](int64_t, const nn_leaky_operands<C, N> &x) {
          for (int k = 0; k < N; ++k)
            if (!(x.kept.x[k] > 0)) sum += x.out_gradient.x[k] * x.kept.x[k];
        });
    const nn_sum_pair all = {
        tn_cuda_reduce(folded, (double)sum, tn_cuda_plus(), c.lanes), 0};
    nn_store_piece_sums(a.at[SUMS], c, part, all);
  }
}

/* -------------------------------------------------------------------- host */

/* Indices of the inputs of a backward call. The inputs are [gradient of out,
 * data, gamma, out]. Functions with a saved output have [gradients of out and
 * kept, data, gamma, out, kept]. */
enum { BACK_HEAD, BACK_GAMMA = 3, BACK_OUT = 3, BACK_KEPT = 5 };

/* Returns the geometry and parameters of a call, for its CUDA kernels. */
static nn_leaky_view nn_leaky_make_view(const tn_frame *call) {
  const nn_leaky_relu_params *p = nn_leaky_relu_params_of(call);
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *data = &call->in[0];
  nn_leaky_view v = {};
  v.n = tn_tensor_size(data);
  v.slope = p->slope;
  v.type = p->act_type;
  v.channels = nn_choose_channel_pieces(1, 1, v.n);
  if (v.type != NN_LEAKY_RELU_ACT_TYPE_PRELU) return v;
  const tn_tensor *gamma =
      &call->in[back ? (int)BACK_GAMMA : (int)NN_LEAKY_RELU_IN_GAMMA];
  if (gamma->shape[0] == 1 || data->ndim < 2) return v;
  const nn_lines lines = nn_find_lines(data, 1, 1);
  v.channels = nn_choose_channel_pieces(lines.outer, lines.length, lines.inner);
  return v;
}

/* Chooses packs of four elements if lines and arrays allow them. */
static void nn_leaky_choose_packs(nn_leaky_view *v, const nn_leaky_arrays &a) {
  static const int like_data[] = {OUT, DATA, KEPT, HEAD};
  const nn_channels c = v->channels;
  bool are_fours = c.inner % 4 == 0;
  for (int k : like_data)
    are_fours = are_fours && nn_has_packs_of_4(a.at[k], c.inner);
  if (!are_fours) return;
  v->channels = nn_choose_channel_pieces(c.outer, c.length, c.inner, true);
  v->n /= 4;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_leaky_relu_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if ((call->flags & TN_CALL_BACKWARD) &&
      nn_leaky_relu_params_of(call)->act_type == NN_LEAKY_RELU_ACT_TYPE_PRELU)
    *bytes = nn_count_sum_bytes(nn_leaky_make_view(call).channels);
  return TN_OK;
}

int32_t nn_leaky_relu_cuda(const tn_frame *call) {
  nn_leaky_view v = nn_leaky_make_view(call);
  nn_leaky_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_LEAKY_RELU_OUT_OUT],
                         call->req[NN_LEAKY_RELU_OUT_OUT]);
  a.at[DATA] = tn_cuda_from(&call->in[NN_LEAKY_RELU_IN_DATA]);
  if (v.type == NN_LEAKY_RELU_ACT_TYPE_PRELU) {
    a.at[GAMMA] = tn_cuda_from(&call->in[NN_LEAKY_RELU_IN_GAMMA]);
    a.at[KEPT] = tn_cuda_to(&call->out[NN_LEAKY_RELU_OUT_KEPT],
                            call->req[NN_LEAKY_RELU_OUT_KEPT]);
  }
  nn_leaky_choose_packs(&v, a);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->in[0].dtype, [&](auto type) {
      return nn_run_by_pack_size(v.channels.pack == 4, [&](auto size) {
        return tn_cuda_start_each(
            call, nn_leaky_write_values<decltype(type), decltype(size)::value>,
            v.n, stream, a, v);
      });
    });
  });
}

/* Launches the kernels that write the gradient of gamma. */
template <class T, int N>
static int32_t nn_prelu_launch_gamma_gradient(const tn_frame *call,
                                              const nn_leaky_view &v,
                                              nn_leaky_arrays a,
                                              cudaStream_t stream) {
  tn_cuda_arrays<NN_SUMS_ARRAYS> sums = {};
  sums.at[NN_SUMS_FIRST] = tn_cuda_to(&call->out[NN_LEAKY_RELU_IN_GAMMA],
                                      call->req[NN_LEAKY_RELU_IN_GAMMA]);
  if (sums.at[NN_SUMS_FIRST].data == NULL) return TN_OK;
  a.at[SUMS] = sums.at[NN_SUMS] = nn_make_sums_array(call->ws[0], v.channels);
  const int32_t code =
      tn_cuda_start(call, nn_prelu_sum_gamma<T, N>,
                    nn_count_channel_blocks(v.channels), stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_write_channel_sums<T>, v.channels.length,
                            stream, sums, v.channels);
}

/* Launches the kernels that write the requested gradients. The gradient of data
 * is the last one: it may be in the memory of an operand. */
template <class T, int N>
static int32_t nn_leaky_launch_backward(const tn_frame *call,
                                        const nn_leaky_view &v,
                                        const nn_leaky_arrays &a,
                                        cudaStream_t stream) {
  int32_t code = TN_OK;
  if (v.type == NN_LEAKY_RELU_ACT_TYPE_PRELU)
    code = nn_prelu_launch_gamma_gradient<T, N>(call, v, a, stream);
  if (code != TN_OK || a.at[OUT].data == NULL) return code;
  return tn_cuda_start_each(call, nn_leaky_write_gradients<T, N>, v.n, stream,
                            a, v);
}

int32_t nn_leaky_relu_cuda_backward(const tn_frame *call) {
  nn_leaky_view v = nn_leaky_make_view(call);
  nn_leaky_arrays a = {};
  a.at[OUT] = tn_cuda_to(&call->out[NN_LEAKY_RELU_IN_DATA],
                         call->req[NN_LEAKY_RELU_IN_DATA]);
  a.at[HEAD] = tn_cuda_from(&call->in[BACK_HEAD]);
  if (v.type == NN_LEAKY_RELU_ACT_TYPE_PRELU)
    a.at[GAMMA] = tn_cuda_from(&call->in[BACK_GAMMA]);
  a.at[KEPT] = tn_cuda_from(
      &call->in[v.type < NN_LEAKY_RELU_ACT_TYPE_PRELU ? (int)BACK_OUT
                                                      : (int)BACK_KEPT]);
  nn_leaky_choose_packs(&v, a);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->in[BACK_HEAD].dtype, [&](auto type) {
      return nn_run_by_pack_size(v.channels.pack == 4, [&](auto size) {
        return nn_leaky_launch_backward<decltype(type), decltype(size)::value>(
            call, v, a, stream);
      });
    });
  });
}

/* ----------------------------------------------------------- random slopes */

struct nn_random_slope {
  double lower;
  double width;
  double last; /* the largest random slope */

  __device__ __forceinline__ float operator()(float x, uint32_t word) const {
    const float drawn =
        (float)lower + (float)width * ((float)(word >> 8) * 0x1p-24f);
    const float most = (float)last;
    return x > 0 ? 1 : drawn < most ? drawn : most;
  }

  __device__ __forceinline__ double operator()(double x, uint32_t word) const {
    const double drawn = lower + width * ((double)word * 0x1p-32);
    return x > 0 ? 1 : drawn < last ? drawn : last;
  }
};

/* Computes rrelu: each negative element gets a random slope. */
int32_t nn_rrelu_cuda(const tn_frame *call) {
  const nn_leaky_relu_params *p = nn_leaky_relu_params_of(call);
  const int draws = (call->flags & TN_CALL_TRAIN) != 0;
  const nn_random_slope slope = {
      draws ? p->lower : (p->lower + p->upper) / 2,
      draws ? p->upper - p->lower : 0,
      draws && p->upper > p->lower
          ? tn_random_below(p->upper, call->in[0].dtype)
          : INFINITY};
  return nn_scaling_run(call, draws, slope);
}
