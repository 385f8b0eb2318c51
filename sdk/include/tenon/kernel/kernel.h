/* SPDX-License-Identifier: Apache-2.0
 * kernel.h: helpers for kernels on the CPU: half precision, random numbers, the
 * functions of the expression language (math.h, which it includes) and loops
 * over strided tensors (elementwise.h, as well). Header only, C11 or C++17,
 * op.h, libc and libm; nothing here is part of the ABI, everything is compiled
 * into the plugin. Generated kernels use it; hand-written ones can.
 */
#ifndef TENON_KERNEL_KERNEL_H_
#define TENON_KERNEL_KERNEL_H_

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/kernel/math.h"
#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function that is compiled once per file only. */
#if defined(__GNUC__)
#define TN_KERNEL_ONCE static __attribute__((noinline, unused))
#else
#define TN_KERNEL_ONCE static inline
#endif

/* Functions for any call are larger than most kernels: they convert elements,
 * walk over strides, and prepare calls. In a plugin of several files one file
 * can define them for all (TN_KERNEL_COMMON): each file defines
 * TN_KERNEL_PLUGIN as the plugin's name before it includes kernel.h, so that
 * two plugins can be linked into one program, and one of them TN_KERNEL_HOME as
 * well. Files of opgen do so, with plugin.kernel.gen.c as that one. */
#if defined(TN_KERNEL_PLUGIN)
#define TN_KERNEL_JOIN(a, b) a##b
#define TN_KERNEL_OWN(plugin, name) TN_KERNEL_JOIN(plugin, name)
#define tn_kernel_load_dense TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_load_dense)
#define tn_kernel_store_dense TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_store_dense)
#define tn_kernel_load TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_load)
#define tn_kernel_store TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_store)
#define tn_kernel_map_mixed TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_map_mixed)
#define tn_kernel_map_strided TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_map_strided)
#define tn_kernel_map_prepare TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_map_prepare)
#define tn_kernel_map_run TN_KERNEL_OWN(TN_KERNEL_PLUGIN, _tn_map_run)
#endif
#if !defined(TN_KERNEL_PLUGIN)
#define TN_KERNEL_COMMON TN_KERNEL_ONCE
#elif defined(__GNUC__)
#define TN_KERNEL_COMMON __attribute__((visibility("hidden")))
#else
#define TN_KERNEL_COMMON
#endif
#if !defined(TN_KERNEL_PLUGIN) || defined(TN_KERNEL_HOME)
#define TN_KERNEL_HAS_COMMON 1 /* this file defines them */
#else
#define TN_KERNEL_HAS_COMMON 0
#endif

/* -------------------------------------------------------------------- bits */

/* The bits of a float, and a float of bits. [any] */
static inline uint32_t tn_kernel_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float tn_kernel_f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t tn_kernel_f64_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double tn_kernel_f64_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* a if the condition is true, otherwise b; tn_math_select_f32 for bits.
 * [any] */
static inline uint32_t tn_kernel_select_bits(int condition, uint32_t a,
                                             uint32_t b) {
  const uint32_t mask = 0u - (uint32_t)(condition != 0);
  return (a & mask) | (b & ~mask);
}

/* ---------------------------------------------------------- half precision */

/* Exact. Without branches, so that loops are vectorised. [any] */
static inline float tn_kernel_f16_to_f32(uint16_t half) {
  const uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
  const uint32_t rest = ((uint32_t)half & 0x7fffu) << 13;
  const uint32_t exponent = rest & 0x0f800000u;
  const uint32_t normal = rest + 0x38000000u;  /* bias 127 instead of 15 */
  const uint32_t special = rest + 0x70000000u; /* exponent 255 instead of 31 */
  /* m * 2^-24 as the difference of (1 + m/1024) * 2^-14 and 2^-14. */
  const float subnormal = tn_kernel_f32_from_bits(rest + 0x38800000u) -
                          tn_kernel_f32_from_bits(0x38800000u);
  uint32_t bits =
      tn_kernel_select_bits(exponent == 0x0f800000u, special, normal);
  bits =
      tn_kernel_select_bits(exponent == 0, tn_kernel_f32_bits(subnormal), bits);
  return tn_kernel_f32_from_bits(bits | sign);
}

/* Rounds to nearest, ties to even; too large values become infinite, NaN a
 * quiet NaN of the same sign. [any] */
static inline uint16_t tn_kernel_f32_to_f16(float value) {
  const uint32_t all = tn_kernel_f32_bits(value);
  const uint32_t sign = (all >> 16) & 0x8000u;
  const uint32_t rest = all & 0x7fffffffu;
  const uint32_t odd = (rest >> 13) & 1u;
  const uint32_t normal = (rest - 0x38000000u + 0x0fffu + odd) >> 13;
  /* Adding 0.5 leaves multiples of 2^-24 in the lowest bits, rounded. */
  const uint32_t subnormal =
      tn_kernel_f32_bits(tn_kernel_f32_from_bits(rest) + 0.5f) - 0x3f000000u;
  const uint32_t special =
      tn_kernel_select_bits(rest > 0x7f800000u, 0x7e00u, 0x7c00u);
  uint32_t bits = tn_kernel_select_bits(rest < 0x38800000u, subnormal, normal);
  bits = tn_kernel_select_bits(rest >= 0x47800000u, special, bits);
  return (uint16_t)(bits | sign);
}

/* Exact. [any] */
static inline float tn_kernel_bf16_to_f32(uint16_t bits) {
  return tn_kernel_f32_from_bits((uint32_t)bits << 16);
}

/* Rounds to nearest, ties to even; NaN stays NaN. [any] */
static inline uint16_t tn_kernel_f32_to_bf16(float value) {
  const uint32_t all = tn_kernel_f32_bits(value);
  const uint32_t odd = (all >> 16) & 1u;
  const uint32_t rounded = (all + 0x7fffu + odd) >> 16;
  const uint32_t quiet = (all >> 16) | 0x40u;
  return (uint16_t)tn_kernel_select_bits((all & 0x7fffffffu) > 0x7f800000u,
                                         quiet, rounded);
}

/* ---------------------------------------------------------- random numbers */

/* One block of random bits. */
typedef struct tn_kernel_bits {
  uint32_t word[4];
} tn_kernel_bits;

/* One round of Philox 4x32 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", 2011). */
static inline void tn_kernel_philox_round(uint32_t c[4], const uint32_t k[2]) {
  const uint64_t a = (uint64_t)0xd2511f53u * c[0];
  const uint64_t b = (uint64_t)0xcd9e8d57u * c[2];
  const uint32_t second = (uint32_t)b;
  const uint32_t fourth = (uint32_t)a;
  c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
  c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
  c[1] = second;
  c[3] = fourth;
}

/* Philox 4x32-10: the block of a 128-bit counter under a 64-bit key. Words with
 * the lowest bits come first. The same on every device, bit for bit. [any] */
static inline tn_kernel_bits tn_kernel_philox(uint64_t key, uint64_t low,
                                              uint64_t high) {
  uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  tn_kernel_bits bits;
  bits.word[0] = (uint32_t)low;
  bits.word[1] = (uint32_t)(low >> 32);
  bits.word[2] = (uint32_t)high;
  bits.word[3] = (uint32_t)(high >> 32);
  for (int round = 0; round < 10; ++round) {
    tn_kernel_philox_round(bits.word, k);
    k[0] += 0x9e3779b9u;
    k[1] += 0xbb67ae85u;
  }
  return bits;
}

/* Block `index` of a call, below the number of blocks that its `prepare` set
 * (tn_plan.random_blocks), or the number of output elements. The draw of
 * element i should depend on i alone, say word i % 4 of block i / 4: then it
 * does not depend on the division of the work. [any] */
static inline tn_kernel_bits tn_kernel_random(const tn_random *random,
                                              uint64_t index) {
  return tn_kernel_philox(random->key, random->offset + index, 0);
}

/* Uniform in [0, 1): multiples of 2^-24 and of 2^-53, each as likely as any
 * other. [any] */
static inline float tn_kernel_uniform_f32(uint32_t word) {
  return (float)(word >> 8) * 0x1p-24f;
}

static inline double tn_kernel_uniform_f64(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

#ifdef __cplusplus
}
#endif

#include "tenon/kernel/elementwise.h"

#endif /* TENON_KERNEL_KERNEL_H_ */
