/* SPDX-License-Identifier: Apache-2.0
 * levels.h: the levels of instructions that this machine has, or
 * that are emulated.
 */
#ifndef TESTS_KERNEL_LEVELS_H_
#define TESTS_KERNEL_LEVELS_H_

#include "tenon/kernel/kernel.h"

/* The processor features that a host reports at each level, the baseline first;
 * and their number, at most TN_KERNEL_N_LEVELS. */
static inline size_t levels(uint64_t *features) {
  size_t n = 0;
  features[n++] = 0;
#if defined(__x86_64__)
  const uint64_t avx2 = TN_CPU_AVX2 | TN_CPU_FMA | TN_CPU_F16C;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    features[n++] = avx2;
#if defined(TN_KERNEL_EMULATED)
  if (n == 2) features[n++] = avx2 | TN_CPU_AVX512;
#endif
  if (n == 2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    features[n++] = avx2 | TN_CPU_AVX512;
#endif
  return n;
}

#endif /* TESTS_KERNEL_LEVELS_H_ */
