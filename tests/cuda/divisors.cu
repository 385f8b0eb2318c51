/* SPDX-License-Identifier: Apache-2.0
 * divisors.cu: tn_cuda_divisor for test_divisors.c, compiled for the host.
 */
#include "tenon/kernel/prefetch.cuh"

extern "C" __attribute__((visibility("default"))) int64_t divided(int64_t i,
                                                                  int64_t by) {
  return tn_cuda_quotient(i, tn_cuda_divisor_of(by));
}

extern "C" __attribute__((visibility("default"))) int32_t divided_small(
    int32_t i, int32_t by) {
  return tn_cuda_quotient(i, tn_cuda_divisor_of(by));
}
