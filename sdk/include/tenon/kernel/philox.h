/* SPDX-License-Identifier: Apache-2.0
 * philox.h: many random numbers at a time. tn_kernel_philox (kernel.h) computes
 * one block, this file vectors of blocks, with the same words. Header only, C11
 * or C++17, op.h, libc and libm; nothing here is part of the ABI.
 *
 *   uint32_t word[1024];
 *   tn_philox_words(word, call->run->random[0], begin / 4, 256, level);
 */
#ifndef TENON_KERNEL_PHILOX_H_
#define TENON_KERNEL_PHILOX_H_

#include <math.h>

#include "tenon/kernel/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first of some blocks: a key and a counter. Only the lower half of the
 * counter grows from one block to the next. */
typedef struct tn_philox_place {
  uint64_t key, low, high;
} tn_philox_place;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)

/* Words of 32 bits are in lanes of 64: a product reads the lower half of each
 * and ignores the upper one, and its halves fit the next round. The rounds of
 * one vector wait for each other, so several are interleaved. */
#define TN_PHILOX_SETS 4
#if defined(__clang__)
#define TN_PHILOX_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TN_PHILOX_UNROLL _Pragma("GCC unroll 16")
#endif

TN_KERNEL_ONCE TN_KERNEL_AVX512 void tn_philox_fill_avx512(
    uint32_t *to, const tn_philox_place *place, uint64_t counter) {
  __m512i c[4][TN_PHILOX_SETS];
  const __m512i a = _mm512_set1_epi64((int64_t)0xd2511f53u);
  const __m512i b = _mm512_set1_epi64((int64_t)0xcd9e8d57u);
  uint32_t k[2] = {(uint32_t)place->key, (uint32_t)(place->key >> 32)};
  for (int s = 0; s < TN_PHILOX_SETS; ++s) {
    c[0][s] = _mm512_add_epi64(_mm512_set1_epi64((int64_t)counter + 8 * s),
                               _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    c[1][s] = _mm512_srli_epi64(c[0][s], 32);
    c[2][s] = _mm512_set1_epi64((int64_t)place->high);
    c[3][s] = _mm512_set1_epi64((int64_t)(place->high >> 32));
  }
  for (int round = 0; round < 10; ++round) {
    const __m512i k0 = _mm512_set1_epi64((int64_t)k[0]);
    const __m512i k1 = _mm512_set1_epi64((int64_t)k[1]);
    for (int s = 0; s < TN_PHILOX_SETS; ++s) {
      const __m512i p = _mm512_mul_epu32(c[0][s], a);
      const __m512i q = _mm512_mul_epu32(c[2][s], b);
      c[0][s] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), c[1][s], k0,
                                          0x96);
      c[2][s] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), c[3][s], k1,
                                          0x96);
      c[1][s] = q;
      c[3][s] = p;
    }
    k[0] += 0x9e3779b9u;
    k[1] += 0xbb67ae85u;
  }
  for (int s = 0; s < TN_PHILOX_SETS; ++s) {
    const __m512i low = _mm512_mask_blend_epi32(0xaaaa, c[0][s],
                                                _mm512_slli_epi64(c[1][s], 32));
    const __m512i high = _mm512_mask_blend_epi32(
        0xaaaa, c[2][s], _mm512_slli_epi64(c[3][s], 32));
    const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i last = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    _mm512_storeu_si512(to + 32 * s,
                        _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(to + 32 * s + 16,
                        _mm512_permutex2var_epi64(low, last, high));
  }
}

/* The keys of all rounds, and the words of the first round that depend on the
 * upper half of the counter alone. */
typedef struct tn_philox_keys {
  __m256i round[10][2];
  __m256i first[3];
} tn_philox_keys;

TN_KERNEL_ONCE TN_KERNEL_AVX2 void tn_philox_schedule(
    tn_philox_keys *keys, const tn_philox_place *place) {
  uint32_t k[2] = {(uint32_t)place->key, (uint32_t)(place->key >> 32)};
  const uint64_t product = (uint64_t)0xcd9e8d57u * (uint32_t)place->high;
  keys->first[0] = _mm256_set1_epi64x((int64_t)(product >> 32 ^ k[0]));
  keys->first[1] = _mm256_set1_epi64x((int64_t)product);
  keys->first[2] = _mm256_set1_epi64x((int64_t)(place->high >> 32 ^ k[1]));
  for (int round = 0; round < 10; ++round) {
    keys->round[round][0] = _mm256_set1_epi64x((int64_t)k[0]);
    keys->round[round][1] = _mm256_set1_epi64x((int64_t)k[1]);
    k[0] += 0x9e3779b9u;
    k[1] += 0xbb67ae85u;
  }
}

/* 4 * sets blocks. */
TN_KERNEL_INLINE TN_KERNEL_AVX2 void tn_philox_fill_avx2(
    uint32_t *to, const tn_philox_keys *keys, uint64_t counter,
    const int sets) {
  __m256i c[4][TN_PHILOX_SETS];
  const __m256i a = _mm256_set1_epi64x((int64_t)0xd2511f53u);
  const __m256i b = _mm256_set1_epi64x((int64_t)0xcd9e8d57u);
  for (int s = 0; s < sets; ++s) {
    const __m256i n =
        _mm256_add_epi64(_mm256_set1_epi64x((int64_t)counter + 4 * s),
                         _mm256_set_epi64x(3, 2, 1, 0));
    c[3][s] = _mm256_mul_epu32(n, a);
    c[1][s] = keys->first[1];
    c[0][s] = _mm256_xor_si256(_mm256_srli_epi64(n, 32), keys->first[0]);
    c[2][s] = _mm256_xor_si256(_mm256_srli_epi64(c[3][s], 32), keys->first[2]);
  }
  TN_PHILOX_UNROLL
  for (int round = 1; round < 10; ++round) {
    TN_PHILOX_UNROLL
    for (int s = 0; s < sets; ++s) {
      const __m256i p = _mm256_mul_epu32(c[0][s], a);
      const __m256i q = _mm256_mul_epu32(c[2][s], b);
      const __m256i x = _mm256_xor_si256(c[1][s], keys->round[round][0]);
      const __m256i y = _mm256_xor_si256(c[3][s], keys->round[round][1]);
      c[0][s] = _mm256_xor_si256(_mm256_srli_epi64(q, 32), x);
      c[2][s] = _mm256_xor_si256(_mm256_srli_epi64(p, 32), y);
      c[1][s] = q;
      c[3][s] = p;
    }
  }
  for (int s = 0; s < sets; ++s) {
    const __m256i low =
        _mm256_blend_epi32(c[0][s], _mm256_slli_epi64(c[1][s], 32), 0xaa);
    const __m256i high =
        _mm256_blend_epi32(c[2][s], _mm256_slli_epi64(c[3][s], 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(low, high); /* blocks 0 and 2 */
    const __m256i odd = _mm256_unpackhi_epi64(low, high);  /* 1 and 3 */
    _mm256_storeu_si256((__m256i *)(void *)(to + 16 * s),
                        _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(to + 16 * s + 8),
                        _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

/* Computes blocks [0, n) but the last n % 4; returns their number. */
TN_KERNEL_ONCE TN_KERNEL_AVX2 int64_t
tn_philox_words_avx2(uint32_t *to, const tn_philox_place *place, int64_t n) {
  enum { MOST = 4 * TN_PHILOX_SETS };
  tn_philox_keys keys;
  int64_t i = 0;
  tn_philox_schedule(&keys, place);
  for (; i + MOST <= n; i += MOST)
    tn_philox_fill_avx2(to + 4 * i, &keys, place->low + (uint64_t)i,
                        TN_PHILOX_SETS);
  for (; i + 4 <= n; i += 4)
    tn_philox_fill_avx2(to + 4 * i, &keys, place->low + (uint64_t)i, 1);
  return i;
}
#endif

/* Word w of block `first` + i goes to to[4*i + w], for i below n: the words of
 * tn_kernel_philox, at the level of instructions that tn_kernel_level gave,
 * which changes no bit of them. [any] */
TN_KERNEL_ONCE void tn_philox_blocks(uint32_t *to, const tn_philox_place *first,
                                     int64_t n, uint32_t level) {
  int64_t i = 0;
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
  for (; level == 2 && i + 32 <= n; i += 32)
    tn_philox_fill_avx512(to + 4 * i, first, first->low + (uint64_t)i);
  if (level >= 1 && i + 4 <= n) {
    const tn_philox_place rest = {first->key, first->low + (uint64_t)i,
                                  first->high};
    i += tn_philox_words_avx2(to + 4 * i, &rest, n - i);
  }
#else
  (void)level;
#endif
  for (; i < n; ++i) {
    const tn_kernel_bits bits =
        tn_kernel_philox(first->key, first->low + (uint64_t)i, first->high);
    memcpy(to + 4 * i, bits.word, sizeof bits.word);
  }
}

/* The same of the stream of a call: the words of tn_kernel_random. [any] */
TN_KERNEL_ONCE void tn_philox_words(uint32_t *to, const tn_random *random,
                                    uint64_t first, int64_t n, uint32_t level) {
  const tn_philox_place place = {random->key, random->offset + first, 0};
  tn_philox_blocks(to, &place, n, level);
}

/* Returns the largest value of a float type that is below x. Rounding a drawn
 * number can reach the upper bound of its range; a kernel that draws below x
 * takes the lesser of both. [any] */
static inline double tn_random_below(double x, tn_dtype dtype) {
  const float single = (float)x;
  if (dtype == TN_F64) return nextafter(x, -INFINITY);
  if (dtype == TN_F32)
    return (double)single < x ? (double)single
                              : (double)nextafterf(single, -INFINITY);
  uint16_t bits = dtype == TN_F16 ? tn_kernel_f32_to_f16(single)
                                  : tn_kernel_f32_to_bf16(single);
  const float own = dtype == TN_F16 ? tn_kernel_f16_to_f32(bits)
                                    : tn_kernel_bf16_to_f32(bits);
  if (own < single) return (double)own;
  if ((bits & 0x7fff) == 0)
    bits = 0x8001;
  else
    bits = (uint16_t)(bits & 0x8000 ? bits + 1 : bits - 1);
  return (double)(dtype == TN_F16 ? tn_kernel_f16_to_f32(bits)
                                  : tn_kernel_bf16_to_f32(bits));
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_PHILOX_H_ */
