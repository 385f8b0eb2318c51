/* SPDX-License-Identifier: Apache-2.0
 * copy_row.h: copies rows of bytes by vectors.
 *
 *   tn_copy_row_avx2(to, from, NULL, bytes);    in a function for AVX2
 *
 * memcpy chooses its method for every row again, which costs a fifth of the
 * time of a row of usual length, and prefetches no other row. Header only; gcc
 * and clang on x86-64, C11 or C++17; not for CUDA: elsewhere nothing is
 * declared, and TN_COPY_ROW_VECTORS is 0.
 */
#ifndef TENON_KERNEL_COPY_ROW_H_
#define TENON_KERNEL_COPY_ROW_H_

#include "tenon/kernel/kernel.h"

#if defined(TN_KERNEL_AVX2)
#define TN_COPY_ROW_VECTORS 1

#ifdef __cplusplus
extern "C" {
#endif

/* tn_copy_row_avx2, tn_copy_row_avx512: `bytes` bytes, at least as many as a
 * vector of the level has. If `soon` is not NULL, as many bytes from there on
 * are prefetched: a row that is copied later, at an address that the processor
 * cannot predict. Rows do not overlap. [any] */
#define TN_COPY_ROW(name, target, vector, load, store)                         \
  TN_KERNEL_INLINE target void name(char *to, const char *from,                \
                                    const char *soon, int64_t bytes) {         \
    enum { BYTES = sizeof(vector), LINE = 64 };                                \
    int64_t i = 0;                                                             \
    for (; i + 4 * BYTES <= bytes; i += 4 * BYTES) {                           \
      const vector a = load((const vector *)(const void *)(from + i));         \
      const vector b = load((const vector *)(const void *)(from + i + BYTES)); \
      const vector c =                                                         \
          load((const vector *)(const void *)(from + i + 2 * BYTES));          \
      const vector d =                                                         \
          load((const vector *)(const void *)(from + i + 3 * BYTES));          \
      for (int64_t k = i; soon && k < i + 4 * BYTES; k += LINE)                \
        __builtin_prefetch(soon + k);                                          \
      store((vector *)(void *)(to + i), a);                                    \
      store((vector *)(void *)(to + i + BYTES), b);                            \
      store((vector *)(void *)(to + i + 2 * BYTES), c);                        \
      store((vector *)(void *)(to + i + 3 * BYTES), d);                        \
    }                                                                          \
    for (; i + BYTES <= bytes; i += BYTES) {                                   \
      if (soon) __builtin_prefetch(soon + i);                                  \
      store((vector *)(void *)(to + i),                                        \
            load((const vector *)(const void *)(from + i)));                   \
    }                                                                          \
    if (i < bytes)                                                             \
      store((vector *)(void *)(to + bytes - BYTES),                            \
            load((const vector *)(const void *)(from + bytes - BYTES)));       \
  }
TN_COPY_ROW(tn_copy_row_avx2, TN_KERNEL_AVX2, __m256i, _mm256_loadu_si256,
            _mm256_storeu_si256)
TN_COPY_ROW(tn_copy_row_avx512, TN_KERNEL_AVX512, __m512i, _mm512_loadu_si512,
            _mm512_storeu_si512)

#ifdef __cplusplus
}
#endif
#else
#define TN_COPY_ROW_VECTORS 0
#endif
#endif /* TENON_KERNEL_COPY_ROW_H_ */
