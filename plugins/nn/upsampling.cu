/* SPDX-License-Identifier: Apache-2.0
 * upsampling.cu: upsampling.yaml on CUDA devices. A thread computes an element
 * of an enlarged input, or an element of its gradient.
 */
#include "nn.cuh"
#include "upsampling_view.h"

/* Indices of the arrays that CUDA kernels get. */
enum { TO, FROM, N_ARRAYS };
typedef tn_cuda_arrays<N_ARRAYS> nn_upsampling_arrays;

/* Repeats the elements of an input in its planes of out. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_upsampling_repeat(nn_upsampling_arrays a, nn_upsampling_part v) {
  const int64_t width = v.width * v.factor[1], height = v.height * v.factor[0];
  const int64_t n = v.images * v.channels * height * width;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t x = i % width, y = i / width % height;
    const int64_t plane = i / width / height;
    const int64_t from =
        (plane * v.height + y / v.factor[0]) * v.width + x / v.factor[1];
    const int64_t to =
        plane / v.channels * v.all + v.first + plane % v.channels;
    nn_store_element<T>(a.at[TO], (to * height + y) * width + x,
                        nn_load_element<T>(a.at[FROM], from));
  }
}

/* Adds the gradients of the repetitions of each element of an input. */
template <class T>
__global__ void __launch_bounds__(TN_CUDA_THREADS)
    nn_upsampling_add(nn_upsampling_arrays a, nn_upsampling_part v) {
  const int64_t width = v.width * v.factor[1], height = v.height * v.factor[0];
  const int64_t n = v.images * v.channels * v.height * v.width;
  for (int64_t i = nn_first_index(); i < n; i += nn_index_step()) {
    const int64_t x = i % v.width, y = i / v.width % v.height;
    const int64_t plane = i / v.width / v.height;
    const int64_t in =
        plane / v.channels * v.all + v.first + plane % v.channels;
    nn_compute_type<T> sum = 0;
    for (int64_t r = 0; r < v.factor[0]; ++r)
      for (int64_t k = 0; k < v.factor[1]; ++k)
        sum += nn_load_element<T>(
            a.at[FROM],
            (in * height + y * v.factor[0] + r) * width + x * v.factor[1] + k);
    nn_store_element<T>(a.at[TO], i, sum);
  }
}

/* -------------------------------------------------------------------- host */

/* Launches the kernel of input i, forward or backward. */
template <class T>
static int32_t nn_upsampling_launch(const tn_frame *call, uint32_t i,
                                    cudaStream_t stream) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  const bool joins = nn_upsampling_params_of(call)->multi_input_mode ==
                     NN_UPSAMPLING_MULTI_INPUT_MODE_CONCAT;
  const tn_tensor *large = is_back ? &call->in[0] : &call->out[0];
  const nn_upsampling_part part = nn_upsampling_find_part(call, large, i);
  const int64_t small = part.images * part.channels * part.height * part.width;
  nn_upsampling_arrays a = {};
  a.at[TO] = is_back ? tn_cuda_to(&call->out[i], call->req[i])
                     : tn_cuda_to(large, call->req[0]);
  a.at[FROM] = tn_cuda_from(is_back ? large : &call->in[i]);
  if (!is_back && i > 0 && !joins) a.at[TO].adds = 1;
  if (is_back)
    return tn_cuda_start_each(call, nn_upsampling_add<T>, small, stream, a,
                              part);
  return tn_cuda_start_each(call, nn_upsampling_repeat<T>,
                            small * part.factor[0] * part.factor[1], stream, a,
                            part);
}

/* Launches the kernels of all inputs with a requested result. */
static int32_t nn_upsampling_launch_all(const tn_frame *call) {
  const bool is_back = (call->flags & TN_CALL_BACKWARD) != 0;
  return tn_cuda_on(call, [&](cudaStream_t stream) {
    return tn_cuda_by_float(call->in[0].dtype, [&](auto type) {
      int32_t code = TN_OK;
      for (uint32_t i = 0;
           i < nn_upsampling_count_inputs(call) && code == TN_OK; ++i)
        if (call->req[is_back ? i : 0] != TN_REQ_NULL)
          code = nn_upsampling_launch<decltype(type)>(call, i, stream);
      return code;
    });
  });
}

int32_t nn_upsampling_cuda(const tn_frame *call) {
  nn_upsampling_deconvolution own;
  if (!nn_upsampling_is_bilinear(call)) return nn_upsampling_launch_all(call);
  nn_upsampling_make_deconvolution(call, &own);
  return nn_deconvolution_cuda(&own.frame);
}

int32_t nn_upsampling_cuda_backward(const tn_frame *call) {
  nn_upsampling_deconvolution own;
  if (!nn_upsampling_is_bilinear(call)) return nn_upsampling_launch_all(call);
  nn_upsampling_make_deconvolution(call, &own);
  return nn_deconvolution_cuda_backward(&own.frame);
}
