/* SPDX-License-Identifier: Apache-2.0
 * cpu.c: finds the instruction sets of this machine, and runs plugins' loops on
 * its cores. Only this file of the core uses instructions of one architecture.
 */
#include <stdio.h>

#include "runtime.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { /* bits of XCR0: registers that the operating system saves */
       XCR0_AVX = 0x06,
       XCR0_AVX512 = 0xe6
};

static uint64_t read_xcr0(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return ((uint64_t)high << 32) | low;
}

static uint64_t feature_if_set(uint32_t word, uint32_t mask, uint64_t feature) {
  return (word & mask) == mask ? feature : 0;
}

static uint64_t read_leaf_7(uint64_t xcr0) {
  uint32_t eax, ebx, ecx, edx, eax1, other;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return 0;
  const uint32_t avx512 =
      bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512CD;
  const uint32_t avx512_fp16 = 1u << 23, avx512_bf16 = 1u << 5;
  uint64_t found = feature_if_set(ebx, bit_AVX2, TN_CPU_AVX2);
  if ((xcr0 & XCR0_AVX512) != XCR0_AVX512) return found;
  if (!feature_if_set(ebx, avx512, TN_CPU_AVX512)) return found;
  found |= TN_CPU_AVX512 | feature_if_set(edx, avx512_fp16, TN_CPU_AVX512_FP16);
  if (eax >= 1 && __get_cpuid_count(7, 1, &eax1, &other, &other, &other))
    found |= feature_if_set(eax1, avx512_bf16, TN_CPU_AVX512_BF16);
  return found;
}

uint64_t tn__cpu_features(void) {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
  uint64_t found = feature_if_set(ecx, bit_SSE4_2, TN_CPU_SSE42);
  if (!(ecx & bit_OSXSAVE)) return found;
  uint64_t xcr0 = read_xcr0();
  if ((xcr0 & XCR0_AVX) != XCR0_AVX || !(ecx & bit_AVX)) return found;
  found |= TN_CPU_AVX | feature_if_set(ecx, bit_F16C, TN_CPU_F16C) |
           feature_if_set(ecx, bit_FMA, TN_CPU_FMA);
  return found | read_leaf_7(xcr0);
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

uint64_t tn__cpu_features(void) {
  const unsigned long asimd = 1ul << 1, sve = 1ul << 22;
  unsigned long caps = getauxval(AT_HWCAP);
  return ((caps & asimd) ? TN_CPU_NEON : 0) | ((caps & sve) ? TN_CPU_SVE : 0);
}

#else

uint64_t tn__cpu_features(void) {
  return 0;
}

#endif

void tn__cpu_text(uint64_t features, char *to, size_t bytes) {
  static const struct {
    uint64_t bit;
    char name[12]; /* no pointer, which would need a relocation */
  } names[] = {
      {TN_CPU_SSE42, "sse4.2"},
      {TN_CPU_AVX, "avx"},
      {TN_CPU_F16C, "f16c"},
      {TN_CPU_FMA, "fma"},
      {TN_CPU_AVX2, "avx2"},
      {TN_CPU_AVX512, "avx512"},
      {TN_CPU_AVX512_BF16, "avx512_bf16"},
      {TN_CPU_AVX512_FP16, "avx512_fp16"},
      {TN_CPU_NEON, "neon"},
      {TN_CPU_SVE, "sve"},
  };
  size_t n = 0;
  snprintf(to, bytes, "none");
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (!(features & names[i].bit)) continue;
    int added =
        snprintf(to + n, bytes - n, "%s%s", n ? " " : "", names[i].name);
    if (added < 0 || (size_t)added >= bytes - n) return;
    n += (size_t)added;
  }
}

int32_t tn__host_parallel_for(const tn_frame *call, int64_t n, int64_t grain,
                              tn_loop_body *body, void *arg) {
  const tn__plugin *plugin = call->host->host_data;
  if (!body) return tn__host_fail_no_body(call);
  tn__host_loop loop;
  tn__host_loop_open(&loop, call, body, arg);
  return tn__parallel_for(plugin->registry->env->engine, n, grain,
                          tn__host_loop_slice, &loop);
}
