/* SPDX-License-Identifier: Apache-2.0
 * ctc_loss.cu: ctc_loss.yaml on CUDA devices. A block computes a sequence, step
 * by step, and a thread some of its states (ctc_rows.h explains alpha and
 * beta). Other kernels compute the logarithms of the softmax before, and the
 * gradient of each score after.
 */
#include "ctc_loss.gen.h"

#include "nn.cuh"

/* Indices of the arrays that CUDA kernels get. SUMS has the logarithm of the
 * softmax's divisor of each step, ALPHA a row of states of each step of each
 * sequence, BETA two rows of each sequence, INFO the steps, states and
 * probability of each sequence. */
enum {
  DATA,
  LABEL,
  DATA_LENGTHS,
  LABEL_LENGTHS,
  LOSS,
  BY_DATA,
  SUMS,
  ALPHA,
  BETA,
  INFO,
  HEAD,
  N_ARRAYS
};
typedef tn_cuda_arrays<N_ARRAYS> nn_ctc_arrays;

enum { NN_CTC_STEPS, NN_CTC_STATES, NN_CTC_WHOLE, NN_CTC_INFO };

struct nn_ctc_view {
  nn_lines lines; /* the scores of each step of each sequence */
  int64_t steps;
  int64_t batch;
  int64_t symbols;
  int64_t places; /* symbols of a label, at most */
  int64_t states; /* states of a sequence, at most */
  int64_t blank;
  int64_t least; /* least symbol of a label */
  tn_cuda_divisor by_symbols;
  tn_cuda_divisor by_batch;
};

/* Writes SUMS. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_ctc_sum_scores(nn_ctc_arrays a, nn_ctc_view v) {
  typedef nn_compute_type<T> C;
  __shared__ double part[TN_CUDA_THREADS];
  double *to = (double *)a.at[SUMS].data;
  for (int64_t g = blockIdx.x; g < nn_count_line_blocks(v.lines);
       g += gridDim.x) {
    const nn_line line = nn_locate_line(v.lines, g);
    double top = -(double)INFINITY;
    C sum = 0;
    for (int64_t k = line.first; k < line.end; k += line.step)
      top = tn_cuda_largest()(
          top, (double)nn_load_element<T>(a.at[DATA], line.at + k));
    top = tn_cuda_reduce(part, top, tn_cuda_largest(), v.lines.lanes);
    for (int64_t k = line.first; k < line.end; k += line.step)
      sum += nn_exp(nn_load_element<T>(a.at[DATA], line.at + k) - (C)top);
    const double all =
        tn_cuda_reduce(part, (double)sum, tn_cuda_plus(), v.lines.lanes);
    if (line.leads) to[line.number] = top + log(all);
  }
}

/* Reads the length of a sequence; -1 if it is out of range. */
__device__ __forceinline__ int64_t nn_ctc_read_length(
    const tn_cuda_array &lengths, int64_t sequence, int64_t most) {
  const double length = tn_cuda_read<double>(lengths, sequence);
  return length >= 0 && length < (double)most + 1 ? (int64_t)length : -1;
}

/* Returns the number of symbols of a label; -1 if one of them is out of range.
 */
__device__ __forceinline__ int64_t nn_ctc_count_symbols(const nn_ctc_arrays &a,
                                                        const nn_ctc_view &v,
                                                        int64_t sequence) {
  const bool has_length = a.at[LABEL_LENGTHS].data != NULL;
  int64_t end = v.places;
  if (has_length)
    end = nn_ctc_read_length(a.at[LABEL_LENGTHS], sequence, v.places);
  for (int64_t u = 0; u < end; ++u) {
    const double symbol =
        tn_cuda_read<double>(a.at[LABEL], sequence * v.places + u);
    if (!has_length && symbol < (double)v.least) return u;
    if (!(symbol >= (double)v.least &&
          symbol < (double)(v.least + v.symbols - 1)))
      return -1;
  }
  return end;
}

/* Returns the symbol of a state. */
__device__ __forceinline__ int64_t nn_ctc_find_symbol(const nn_ctc_arrays &a,
                                                      const nn_ctc_view &v,
                                                      int64_t sequence,
                                                      int64_t state) {
  if (state % 2 == 0) return v.blank;
  return (int64_t)tn_cuda_read<double>(a.at[LABEL],
                                       sequence * v.places + state / 2);
}

/* Whether a path may reach a state from the state before the last one. */
__device__ __forceinline__ bool nn_ctc_may_skip(const nn_ctc_arrays &a,
                                                const nn_ctc_view &v,
                                                int64_t sequence,
                                                int64_t state) {
  return state > 1 && state % 2 == 1 &&
         nn_ctc_find_symbol(a, v, sequence, state) !=
             nn_ctc_find_symbol(a, v, sequence, state - 2);
}

/* Returns the logarithm of the sum of three exponentials. */
__device__ __forceinline__ double nn_ctc_add(double one, double two,
                                             double three) {
  const double top = fmax(one, fmax(two, three));
  if (top == -(double)INFINITY) return one + two + three; /* or NaN */
  return top + log(exp(one - top) + exp(two - top) + exp(three - top));
}

/* Returns the logarithm of the probability of a state's symbol in a step. */
template <class T>
__device__ __forceinline__ double nn_ctc_find_own(const nn_ctc_arrays &a,
                                                  const nn_ctc_view &v,
                                                  int64_t step,
                                                  int64_t sequence,
                                                  int64_t state) {
  const int64_t row = step * v.batch + sequence;
  const int64_t symbol = nn_ctc_find_symbol(a, v, sequence, state);
  return (double)nn_load_element<T>(a.at[DATA], row * v.symbols + symbol) -
         ((const double *)a.at[SUMS].data)[row];
}

/* Returns the row of alpha of a step. */
__device__ __forceinline__ double *nn_ctc_locate_alpha(const nn_ctc_arrays &a,
                                                       const nn_ctc_view &v,
                                                       int64_t step,
                                                       int64_t sequence) {
  return (double *)a.at[ALPHA].data + (sequence * v.steps + step) * v.states;
}

/* Computes the rows of alpha of a sequence. All threads of a block call it. */
template <class T>
__device__ void nn_ctc_find_alphas(const nn_ctc_arrays &a, const nn_ctc_view &v,
                                   int64_t sequence, int64_t steps,
                                   int64_t states) {
  const double none = -(double)INFINITY;
  for (int64_t t = 0; t < steps; ++t) {
    double *to = nn_ctc_locate_alpha(a, v, t, sequence);
    const double *from = to - v.states;
    for (int64_t s = threadIdx.x; s < states; s += TN_CUDA_THREADS) {
      const double own = nn_ctc_find_own<T>(a, v, t, sequence, s);
      if (t == 0) {
        to[s] = s < 2 ? own : none;
        continue;
      }
      const bool skips = nn_ctc_may_skip(a, v, sequence, s);
      to[s] = own + nn_ctc_add(from[s], s > 0 ? from[s - 1] : none,
                               skips ? from[s - 2] : none);
    }
    __syncthreads();
  }
}

/* Writes ALPHA, INFO and LOSS. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_ctc_find_losses(nn_ctc_arrays a, nn_ctc_view v) {
  for (int64_t n = blockIdx.x; n < v.batch; n += gridDim.x) {
    double *info = (double *)a.at[INFO].data + n * NN_CTC_INFO;
    const int64_t symbols = nn_ctc_count_symbols(a, v, n);
    int64_t steps = v.steps;
    if (a.at[DATA_LENGTHS].data != NULL)
      steps = nn_ctc_read_length(a.at[DATA_LENGTHS], n, v.steps);
    const bool fits = symbols >= 0 && steps >= 0;
    const int64_t states = fits ? 2 * symbols + 1 : 0;
    if (!fits) steps = 0;
    nn_ctc_find_alphas<T>(a, v, n, steps, states);
    if (threadIdx.x != 0) continue;
    double whole = states == 1 ? 0 : -(double)INFINITY;
    if (steps > 0) {
      const double *last = nn_ctc_locate_alpha(a, v, steps - 1, n);
      whole = states == 1 ? last[0]
                          : nn_ctc_add(last[states - 1], last[states - 2],
                                       -(double)INFINITY);
    }
    info[NN_CTC_STEPS] = (double)steps;
    info[NN_CTC_STATES] = (double)states;
    info[NN_CTC_WHOLE] = fits ? whole : -(double)INFINITY;
    if (a.at[LOSS].data != NULL)
      nn_store_element<T>(
          a.at[LOSS], n,
          fits ? (nn_compute_type<T>)(0 - whole) : (nn_compute_type<T>)NAN);
  }
}

/* Computes beta, and replaces each alpha by the logarithm of the probability
 * that the path is in the state, given the label. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_ctc_find_shares(nn_ctc_arrays a, nn_ctc_view v) {
  const double none = -(double)INFINITY;
  for (int64_t n = blockIdx.x; n < v.batch; n += gridDim.x) {
    const double *info = (const double *)a.at[INFO].data + n * NN_CTC_INFO;
    const int64_t steps = (int64_t)info[NN_CTC_STEPS];
    const int64_t states = (int64_t)info[NN_CTC_STATES];
    double *rows = (double *)a.at[BETA].data + 2 * n * v.states;
    for (int64_t t = steps - 1; t >= 0; --t) {
      double *alpha = nn_ctc_locate_alpha(a, v, t, n);
      double *beta = rows + t % 2 * v.states;
      const double *later = rows + (t + 1) % 2 * v.states;
      for (int64_t s = threadIdx.x; s < states; s += TN_CUDA_THREADS) {
        double sum[3] = {none, none, none};
        for (int k = 0; k < 3 && t + 1 < steps; ++k)
          if (s + k < states && (k < 2 || nn_ctc_may_skip(a, v, n, s + 2)))
            sum[k] = later[s + k] + nn_ctc_find_own<T>(a, v, t + 1, n, s + k);
        beta[s] = t + 1 < steps    ? nn_ctc_add(sum[0], sum[1], sum[2])
                  : s < states - 2 ? none
                                   : 0;
        alpha[s] += beta[s] - info[NN_CTC_WHOLE];
      }
      __syncthreads();
    }
  }
}

/* Writes BY_DATA: the softmax minus the probability that the path has the
 * symbol in the step. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_ctc_write_gradients(nn_ctc_arrays a, nn_ctc_view v) {
  const int64_t size = v.steps * v.batch * v.symbols;
  for (int64_t i = nn_first_index(); i < size; i += nn_index_step()) {
    const int64_t row = tn_cuda_quotient(i, v.by_symbols);
    const int64_t step = tn_cuda_quotient(row, v.by_batch);
    const int64_t n = row - step * v.batch, symbol = i - row * v.symbols;
    const double *info = (const double *)a.at[INFO].data + n * NN_CTC_INFO;
    double slope = 0;
    if ((double)step < info[NN_CTC_STEPS] &&
        info[NN_CTC_WHOLE] != -(double)INFINITY) {
      const double *shares = nn_ctc_locate_alpha(a, v, step, n);
      slope = exp((double)nn_load_element<T>(a.at[DATA], i) -
                  ((const double *)a.at[SUMS].data)[row]);
      const int64_t states = (int64_t)info[NN_CTC_STATES];
      for (int64_t s = symbol == v.blank ? 0 : 1; s < states; s += 2)
        if (nn_ctc_find_symbol(a, v, n, s) == symbol) slope -= exp(shares[s]);
    }
    nn_store_element<T>(a.at[BY_DATA], i, (nn_compute_type<T>)slope);
  }
}

/* Multiplies the saved gradient, DATA, by that of the losses. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_ctc_multiply(nn_ctc_arrays a, nn_ctc_view v) {
  const int64_t size = v.steps * v.batch * v.symbols;
  for (int64_t i = nn_first_index(); i < size; i += nn_index_step()) {
    const int64_t row = tn_cuda_quotient(i, v.by_symbols);
    const int64_t n = row - tn_cuda_quotient(row, v.by_batch) * v.batch;
    nn_store_element<T>(
        a.at[BY_DATA], i,
        nn_load_element<T>(a.at[DATA], i) * nn_load_element<T>(a.at[HEAD], n));
  }
}

/* -------------------------------------------------------------------- host */

/* Returns the sizes of a call; `like` has the shape of data. */
static nn_ctc_view nn_ctc_make_view(const tn_frame *call,
                                    const tn_tensor *like) {
  const bool is_last =
      nn_ctc_loss_params_of(call)->blank_label == NN_CTC_LOSS_BLANK_LABEL_LAST;
  nn_ctc_view v = {};
  v.steps = like->shape[0];
  v.batch = like->shape[1];
  v.symbols = like->shape[2];
  v.lines = nn_choose_lines(v.steps * v.batch, v.symbols, 1);
  v.blank = is_last ? v.symbols - 1 : 0;
  v.least = is_last ? 0 : 1;
  v.by_symbols = tn_cuda_divisor_of(v.symbols);
  v.by_batch = tn_cuda_divisor_of(v.batch);
  if (call->flags & TN_CALL_BACKWARD) return v;
  v.places = call->in[NN_CTC_LOSS_IN_LABEL].shape[1];
  v.states = 2 * v.places + 1;
  return v;
}

/* Numbers of SUMS, ALPHA, BETA and INFO in a workspace. */
struct nn_ctc_sizes {
  int64_t at[4];
};

static nn_ctc_sizes nn_ctc_count_numbers(const nn_ctc_view &v) {
  const nn_ctc_sizes sizes = {{v.steps * v.batch, v.steps * v.batch * v.states,
                               2 * v.batch * v.states, v.batch * NN_CTC_INFO}};
  return sizes;
}

/* Sets *bytes to the size of the workspace of a forward call. */
int32_t nn_ctc_loss_cuda_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const nn_ctc_sizes sizes = nn_ctc_count_numbers(
      nn_ctc_make_view(call, &call->in[NN_CTC_LOSS_IN_DATA]));
  for (int k = 0; k < 4; ++k) *bytes += (uint64_t)sizes.at[k] * sizeof(double);
  return TN_OK;
}

/* Launches the kernels of a forward call. */
template <class T>
static int32_t nn_ctc_launch_forward(const tn_frame *call,
                                     const nn_ctc_arrays &a,
                                     const nn_ctc_view &v,
                                     cudaStream_t stream) {
  int32_t code = tn_cuda_start(call, nn_ctc_sum_scores<T>,
                               nn_count_line_blocks(v.lines), stream, a, v);
  if (code == TN_OK)
    code = tn_cuda_start(call, nn_ctc_find_losses<T>, v.batch, stream, a, v);
  if (code != TN_OK || a.at[BY_DATA].data == NULL) return code;
  code = tn_cuda_start(call, nn_ctc_find_shares<T>, v.batch, stream, a, v);
  if (code != TN_OK) return code;
  return tn_cuda_start_each(call, nn_ctc_write_gradients<T>,
                            v.steps * v.batch * v.symbols, stream, a, v);
}

int32_t nn_ctc_loss_cuda(const tn_frame *call) {
  const nn_ctc_loss_params *p = nn_ctc_loss_params_of(call);
  const tn_tensor *data = &call->in[NN_CTC_LOSS_IN_DATA];
  const nn_ctc_view v = nn_ctc_make_view(call, data);
  const nn_ctc_sizes sizes = nn_ctc_count_numbers(v);
  double *memory = (double *)call->ws[0];
  nn_ctc_arrays a = {};
  if (v.batch == 0) return TN_OK;
  a.at[DATA] = tn_cuda_from(data);
  a.at[LABEL] = tn_cuda_from(&call->in[NN_CTC_LOSS_IN_LABEL]);
  if (p->use_data_lengths)
    a.at[DATA_LENGTHS] = tn_cuda_from(&call->in[NN_CTC_LOSS_IN_DATA_LENGTHS]);
  if (p->use_label_lengths)
    a.at[LABEL_LENGTHS] = tn_cuda_from(&call->in[NN_CTC_LOSS_IN_LABEL_LENGTHS]);
  a.at[LOSS] = tn_cuda_to(&call->out[NN_CTC_LOSS_OUT_OUT],
                          call->req[NN_CTC_LOSS_OUT_OUT]);
  a.at[BY_DATA] = tn_cuda_to(&call->out[NN_CTC_LOSS_OUT_BY_DATA],
                             call->req[NN_CTC_LOSS_OUT_BY_DATA]);
  for (int k = 0; k < 4; ++k) {
    if (sizes.at[k] > 0)
      a.at[SUMS + k] = tn_cuda_room(memory, TN_F64, sizes.at[k]);
    memory += sizes.at[k];
  }
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(data->dtype, [&](auto type) {
      return nn_ctc_launch_forward<decltype(type)>(call, a, v, stream);
    });
  });
}

int32_t nn_ctc_loss_cuda_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_CTC_LOSS_IN_DATA];
  const nn_ctc_view v = nn_ctc_make_view(call, to);
  nn_ctc_arrays a = {};
  a.at[BY_DATA] = tn_cuda_to(to, call->req[NN_CTC_LOSS_IN_DATA]);
  if (a.at[BY_DATA].data == NULL) return TN_OK;
  a.at[DATA] = tn_cuda_from(&call->in[NN_CTC_LOSS_BACKWARD_OUT_BY_DATA]);
  a.at[HEAD] = tn_cuda_from(&call->in[NN_CTC_LOSS_BACKWARD_GRAD_OUT]);
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(to->dtype, [&](auto type) {
      return tn_cuda_start_each(call, nn_ctc_multiply<decltype(type)>,
                                v.steps * v.batch * v.symbols, stream, a, v);
    });
  });
}
