/* SPDX-License-Identifier: Apache-2.0
 * on_host.h: read before a .cu when a compiler of the host compiles it
 * (-include): the loops of elementwise.cuh, and the memory that the arguments
 * of their kernels refer to.
 */
#ifndef TENON_TESTS_CUDA_ON_HOST_H_
#define TENON_TESTS_CUDA_ON_HOST_H_

#include "cuda_runtime.h"
/* after the words of the runtime */
#include "tenon/kernel/elementwise.cuh"

static inline void fake_cuda_declare(fake_cuda_work *work,
                                     const tn_cuda_flat &flat) {
  fake_cuda_uses(work, flat.live, 1, 0);
  for (int k = 0; k < flat.n_operands; ++k)
    fake_cuda_uses(work, flat.data[k], (size_t)(flat.n * flat.width), k == 0);
}

static inline void fake_cuda_translate(tn_cuda_flat &flat) {
  for (int k = 0; k < flat.n_operands; ++k)
    flat.data[k] = fake_cuda_reach(flat.data[k]);
  if (flat.live != NULL) flat.live = fake_cuda_reach(flat.live);
}

template <int N>
static inline void fake_cuda_declare(fake_cuda_work *work,
                                     const tn_cuda_arrays<N> &arrays) {
  for (const tn_cuda_array &array : arrays.at)
    if (array.data != NULL)
      fake_cuda_uses(work, (const char *)array.data + array.low,
                     (size_t)array.bytes, array.writes);
}

template <int N>
static inline void fake_cuda_translate(tn_cuda_arrays<N> &arrays) {
  for (tn_cuda_array &array : arrays.at)
    if (array.data != NULL) array.data = fake_cuda_reach(array.data);
}

/* From the lowest to the highest element, for any strides. */
static inline void fake_cuda_declare(fake_cuda_work *work,
                                     const tn_cuda_view &view) {
  fake_cuda_uses(work, view.live, 1, 0);
  for (int k = 0; k < view.n_operands; ++k) {
    const int64_t width = tn_dtype_bytes(view.dtype[k]);
    int64_t low = 0, high = 0;
    for (int d = 0; d < view.ndim; ++d) {
      const int64_t reach = (view.shape[d] - 1) * view.stride[k][d];
      (reach < 0 ? low : high) += reach;
    }
    fake_cuda_uses(work, (const char *)view.data[k] + low * width,
                   (size_t)((high - low + 1) * width), k == 0);
  }
}

static inline void fake_cuda_translate(tn_cuda_view &view) {
  for (int k = 0; k < view.n_operands; ++k)
    view.data[k] = fake_cuda_reach(view.data[k]);
  if (view.live != NULL) view.live = fake_cuda_reach(view.live);
}

#endif /* TENON_TESTS_CUDA_ON_HOST_H_ */
