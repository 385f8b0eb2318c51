/* SPDX-License-Identifier: Apache-2.0
 * nn_on_host.cc: plugins/nn/softmax_output.cu for the fake device, with what
 * its argument says of memory.
 */
#include "../../plugins/nn/softmax_output.cu"

static inline void fake_cuda_declare(fake_cuda_work *work,
                                     const nn_softmax_view &v) {
  const size_t n = (size_t)(v.outer * v.classes * v.inner);
  const size_t bytes = n * (size_t)tn_dtype_bytes(v.dtype);
  const size_t labels = v.is_soft ? n : (size_t)(v.outer * v.inner);
  fake_cuda_uses(work, v.from, bytes, 0);
  fake_cuda_uses(work, v.to, bytes, 1);
  fake_cuda_uses(work, v.head, bytes, 0);
  fake_cuda_uses(work, v.label, labels * (size_t)tn_dtype_bytes(v.label_dtype),
                 0);
  fake_cuda_uses(work, v.count, sizeof(double), 1);
}

static inline void fake_cuda_translate(nn_softmax_view &v) {
  void **const places[] = {&v.from, &v.to, &v.head, &v.label, &v.count};
  for (void **place : places)
    if (*place != NULL) *place = fake_cuda_reach(*place);
}
