/* SPDX-License-Identifier: Apache-2.0
 * uniform.c: a kernel that draws. Element i takes word i % 4 of block i / 4, so
 * that the numbers are the same for every number of threads.
 */
#include "tenon/kernel/kernel.h"
#include "uniform.gen.h"

typedef struct drawing {
  const tn_random *random;
  float *out;
} drawing;

static int32_t draw(void *arg, int64_t begin, int64_t end) {
  const drawing *d = arg;
  for (int64_t i = begin; i < end; ++i) {
    const tn_kernel_bits bits = tn_kernel_random(d->random, (uint64_t)i / 4);
    d->out[i] = tn_kernel_uniform_f32(bits.word[i % 4]);
  }
  return TN_OK;
}

int32_t lab_uniform(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->out[0]);
  drawing d = {call->run->random[0], (float *)call->out[0].data};
  return call->host->parallel_for(call, n, TN_KERNEL_GRAIN, draw, &d);
}
