/* SPDX-License-Identifier: Apache-2.0
 * random_scaling.cuh: operators that multiply elements by factors from random
 * words, on CUDA devices. Input 0 gives output 0; output 1, if requested, gets
 * the factors. Element i uses word i % 4 of Philox block i / 4, so a thread has
 * four elements.
 */
#ifndef NN_RANDOM_SCALING_CUH_
#define NN_RANDOM_SCALING_CUH_

#include "nn.cuh"
#include "tenon/kernel/philox.cuh"

enum {
  NN_SCALING_OUT,
  NN_SCALING_FACTORS,
  NN_SCALING_DATA,
  NN_SCALING_OFFSET,
  NN_SCALING_ARRAYS
};

/* Arguments of the kernels. `factor` returns the factor of an element from the
 * element and its random word. */
template <class Factor>
struct nn_scaling_view {
  int64_t n;
  int draws; /* the call draws random words; 0: all random words are 0 */
  int reserved;
  tn_cuda_random random;
  Factor factor;
};

/* Draws the four random words of block k; zeros if v.draws is 0. */
template <class Factor>
__device__ __forceinline__ tn_kernel_bits
nn_scaling_draw_words(const tn_cuda_arrays<NN_SCALING_ARRAYS> &a,
                      const nn_scaling_view<Factor> &v, int64_t k) {
  const tn_kernel_bits none = {};
  if (!v.draws) return none;
  return tn_cuda_draw(v.random, a.at[NN_SCALING_OFFSET], (uint64_t)k);
}

/* Returns the factor of an element, rounded to the element type T, so that
 * forward and backward scale equally. */
template <class T, class Factor>
__device__ __forceinline__ nn_compute_type<T> nn_scaling_round_factor(
    const Factor &factor, nn_compute_type<T> x, uint32_t word) {
  return tn_cuda_get<nn_compute_type<T>>(tn_cuda_put(factor(x, word), T()));
}

/* Scales the elements of arrays that consist of whole packs of four. */
template <class T, class Factor>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_scaling_scale_packs(tn_cuda_arrays<NN_SCALING_ARRAYS> a,
                           nn_scaling_view<Factor> v) {
  typedef nn_pack<nn_compute_type<T>, 4> fours;
  tn_cuda_each(
      v.n / 4,
      [&](int64_t k) { return nn_load_pack<T, 4>(a.at[NN_SCALING_DATA], k); },
      [&](int64_t k, const fours &x) {
        const tn_kernel_bits bits = nn_scaling_draw_words(a, v, k);
        fours factor, out;
        for (int w = 0; w < 4; ++w) {
          factor.x[w] =
              nn_scaling_round_factor<T>(v.factor, x.x[w], bits.word[w]);
          out.x[w] = x.x[w] * factor.x[w];
        }
        if (a.at[NN_SCALING_FACTORS].data != NULL)
          nn_store_pack<T, 4>(a.at[NN_SCALING_FACTORS], k, factor);
        if (a.at[NN_SCALING_OUT].data != NULL)
          nn_store_pack<T, 4>(a.at[NN_SCALING_OUT], k, out);
      });
}

/* Scales the elements of any arrays, four in a thread. */
template <class T, class Factor>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_scaling_scale_elements(tn_cuda_arrays<NN_SCALING_ARRAYS> a,
                              nn_scaling_view<Factor> v) {
  typedef nn_compute_type<T> C;
  for (int64_t k = nn_first_index(); k < (v.n + 3) / 4; k += nn_index_step()) {
    const tn_kernel_bits bits = nn_scaling_draw_words(a, v, k);
    for (int w = 0; w < 4 && 4 * k + w < v.n; ++w) {
      const C x = nn_load_element<T>(a.at[NN_SCALING_DATA], 4 * k + w);
      const C factor = nn_scaling_round_factor<T>(v.factor, x, bits.word[w]);
      if (a.at[NN_SCALING_FACTORS].data != NULL)
        nn_store_element<T>(a.at[NN_SCALING_FACTORS], 4 * k + w, factor);
      if (a.at[NN_SCALING_OUT].data != NULL)
        nn_store_element<T>(a.at[NN_SCALING_OUT], 4 * k + w, x * factor);
    }
  }
}

/* Computes a call: output 0 is input 0 times `factor`, output 1 gets the
 * factors. */
template <class Factor>
static int32_t nn_scaling_run(const tn_frame *call, int draws,
                              const Factor &factor) {
  const tn_tensor *data = &call->in[0];
  nn_scaling_view<Factor> v = {tn_tensor_size(data), draws, 0, {}, factor};
  tn_cuda_arrays<NN_SCALING_ARRAYS> a = {};
  a.at[NN_SCALING_OUT] = tn_cuda_to(&call->out[0], call->req[0]);
  if (call->n_out > 1)
    a.at[NN_SCALING_FACTORS] = tn_cuda_to(&call->out[1], call->req[1]);
  a.at[NN_SCALING_DATA] = tn_cuda_from(data);
  const bool are_fours = nn_has_packs_of_4(a.at[NN_SCALING_OUT], v.n) &&
                         nn_has_packs_of_4(a.at[NN_SCALING_FACTORS], v.n) &&
                         nn_has_packs_of_4(a.at[NN_SCALING_DATA], v.n);
  if (draws) {
    a.at[NN_SCALING_OFFSET] = tn_cuda_offset(call->run->random[0]);
    v.random = tn_cuda_random_of(call->run->random[0]);
  }
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(data->dtype, [&](auto type) {
      typedef decltype(type) T;
      if (are_fours)
        return tn_cuda_start_each(call, nn_scaling_scale_packs<T, Factor>,
                                  v.n / 4, stream, a, v);
      return tn_cuda_start_each(call, nn_scaling_scale_elements<T, Factor>,
                                (v.n + 3) / 4, stream, a, v);
    });
  });
}

#endif /* NN_RANDOM_SCALING_CUH_ */
