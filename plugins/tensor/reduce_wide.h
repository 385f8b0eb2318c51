/* SPDX-License-Identifier: Apache-2.0
 * reduce_wide.h: loops over floats for AVX-512 that compilers do not find, and
 * one for AVX2.
 * Included by reduce_ops.c only, behind the loops that they stand for, whose
 * partial results, and so whose bits, are theirs.
 */

/* ------------------------------------------------------------------- sums */

/* sum##k gets eight floats, widened on their way from memory. They are
 * multiplied by one, which changes nothing, but is done by other units than
 * widening is, where additions have to wait for it. */
#define WIDE_SUM(k)                                                           \
  sum##k = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8 * (k))), \
                           one, sum##k)

/* The same of those that there still are. */
#define WIDE_REST(k)                                                       \
  do {                                                                     \
    const __mmask8 some = (__mmask8)(left >> 8 * (k));                     \
    const __m256 v = _mm256_maskz_loadu_ps(some, x + i + 8 * (k));         \
    sum##k = _mm512_mask3_fmadd_pd(_mm512_cvtps_pd(v), one, sum##k, some); \
  } while (0)

static TN_KERNEL_AVX512 void wide_sum_line(const tn_kernel_block *block,
                                           const void *params) {
  const float *x = (const float *)block->in[0];
  __m512d sum0 = _mm512_setzero_pd(), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  __m512d one = _mm512_set1_pd(1);
  int64_t i = 0;
  if (block->n < 32) {
    sum_f32_line_avx512(block, params);
    return;
  }
  /* A compiler that knew the factor would add. */
  __asm__("" : "+v"(one));
  for (; i + 32 <= block->n; i += 32) {
    AHEAD(x + i);
    AHEAD(x + i + 16);
    WIDE_SUM(0);
    WIDE_SUM(1);
    WIDE_SUM(2);
    WIDE_SUM(3);
  }
  if (i < block->n) {
    const uint32_t left = (1u << (block->n - i)) - 1;
    WIDE_REST(0);
    WIDE_REST(1);
    WIDE_REST(2);
    WIDE_REST(3);
  }
  sum0 = _mm512_add_pd(_mm512_add_pd(sum0, sum2), _mm512_add_pd(sum1, sum3));
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(sum0),
                                     _mm512_extractf64x4_pd(sum0, 1));
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  *(double *)block->out =
      _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}

/* ------------------------------------------- the largest and the least one */

/* Instructions for the largest take the second operand where both are equal,
 * or one is NaN: with what was there before for the second, they are what is
 * wanted of numbers. Whether there is NaN is looked for beside, two vectors in
 * one comparison, and where there is, the ordinary loop does it all. */
#define WIDE_NAN(a, b) _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q)

/* Brings the upper half of lanes into the lower one: `op` of registers of so
 * many bits. */
#define WIDE_TREE(op, result)                                         \
  do {                                                                \
    const __m256 eight = _mm256_##op(_mm512_extractf32x8_ps(top0, 1), \
                                     _mm512_castps512_ps256(top0));   \
    const __m128 four = _mm_##op(_mm256_extractf128_ps(eight, 1),     \
                                 _mm256_castps256_ps128(eight));      \
    const __m128 two = _mm_##op(_mm_movehl_ps(four, four), four);     \
    (result) = _mm_cvtss_f32(_mm_##op(_mm_movehdup_ps(two), two));    \
  } while (0)

#define WIDE_LINE(name, op, none)                                              \
  static TN_KERNEL_AVX512 void wide_##name##_line(                             \
      const tn_kernel_block *block, const void *params) {                      \
    const float *x = (const float *)block->in[0];                              \
    __m512 top0 = _mm512_set1_ps(none), top1 = top0, top2 = top0, top3 = top0; \
    uint32_t nan = 0;                                                          \
    int64_t i = 0;                                                             \
    float all;                                                                 \
    for (; i + 64 <= block->n; i += 64) {                                      \
      const __m512 a = _mm512_loadu_ps(x + i);                                 \
      const __m512 b = _mm512_loadu_ps(x + i + 16);                            \
      const __m512 c = _mm512_loadu_ps(x + i + 32);                            \
      const __m512 d = _mm512_loadu_ps(x + i + 48);                            \
      for (int j = 0; j < 64; j += 16) AHEAD(x + i + j);                       \
      top0 = _mm512_##op(a, top0);                                             \
      top1 = _mm512_##op(b, top1);                                             \
      top2 = _mm512_##op(c, top2);                                             \
      top3 = _mm512_##op(d, top3);                                             \
      nan |= (uint32_t)(WIDE_NAN(a, b) | WIDE_NAN(c, d));                      \
    }                                                                          \
    for (int k = 0; i < block->n; i += 16, ++k) {                              \
      const int64_t left = block->n - i;                                       \
      const __mmask16 some =                                                   \
          (__mmask16)(left < 16 ? (1u << left) - 1 : 65535);                   \
      const __m512 v =                                                         \
          _mm512_mask_loadu_ps(_mm512_set1_ps(none), some, x + i);             \
      if (k == 0) top0 = _mm512_##op(v, top0);                                 \
      if (k == 1) top1 = _mm512_##op(v, top1);                                 \
      if (k == 2) top2 = _mm512_##op(v, top2);                                 \
      if (k == 3) top3 = _mm512_##op(v, top3);                                 \
      nan |= (uint32_t)WIDE_NAN(v, v);                                         \
    }                                                                          \
    if (nan != 0) {                                                            \
      name##_f32_line_avx512(block, params);                                   \
      return;                                                                  \
    }                                                                          \
    top0 = _mm512_##op(_mm512_##op(top3, top1), _mm512_##op(top2, top0));      \
    WIDE_TREE(op, all);                                                        \
    *(double *)block->out = (double)all;                                       \
  }
WIDE_LINE(max, max_ps, -INFINITY)
WIDE_LINE(min, min_ps, INFINITY)

/* Four rows at a time, sixteen columns of each; what is left, and where there
 * is NaN, is the ordinary loop's. */
#define WIDE_COLUMN(name, op, op_pd)                                           \
  static TN_KERNEL_AVX512 void wide_##name##_column(                           \
      const tn_kernel_block *block, const void *params) {                      \
    const reduce_rows *rows = (const reduce_rows *)params;                     \
    const int64_t apart = rows->apart, whole = block->n / 16 * 16;             \
    const reduce_rows four = {4, apart}, rest = {rows->n % 4, apart};          \
    const float *x = (const float *)block->in[0];                              \
    double *all = (double *)block->out;                                        \
    const tn_kernel_block side = {block->n - whole, all + whole, {x + whole}}; \
    name##_f32_column_avx512(&side, params);                                   \
    for (int64_t r = 0; r + 4 <= rows->n; r += 4, x += 4 * apart)              \
      for (int64_t j = 0; j < whole; j += 16) {                                \
        const __m512 a = _mm512_loadu_ps(x + j);                               \
        const __m512 b = _mm512_loadu_ps(x + j + apart);                       \
        const __m512 c = _mm512_loadu_ps(x + j + 2 * apart);                   \
        const __m512 d = _mm512_loadu_ps(x + j + 3 * apart);                   \
        const __m512 v = _mm512_##op(_mm512_##op(d, c), _mm512_##op(b, a));    \
        const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));        \
        const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));    \
        const __m512d low_all = _mm512_loadu_pd(all + j);                      \
        const __m512d high_all = _mm512_loadu_pd(all + j + 8);                 \
        if ((WIDE_NAN(a, b) | WIDE_NAN(c, d)) != 0) {                          \
          const tn_kernel_block some = {16, all + j, {x + j}};                 \
          name##_f32_column_avx512(&some, &four);                              \
          continue;                                                            \
        }                                                                      \
        for (int k = 0; k < 4; ++k)                                            \
          __builtin_prefetch(x + j + (k + 4) * apart);                         \
        _mm512_storeu_pd(all + j, _mm512_##op_pd(low, low_all));               \
        _mm512_storeu_pd(all + j + 8, _mm512_##op_pd(high, high_all));         \
      }                                                                        \
    const tn_kernel_block last = {whole, all, {x}};                            \
    name##_f32_column_avx512(&last, &rest);                                    \
  }
WIDE_COLUMN(max, max_ps, max_pd)
WIDE_COLUMN(min, min_ps, min_pd)

/* ----------------------------------------------------------- sums of columns
 */

/* Four rows at a time, as the ordinary loop has them, a line of the cache of
 * each; the next four are asked for. Compilers widen more floats at once and
 * then sort them. */
#define WIDE_SUMS(name, target, level, lanes, set, from, load, store, plus)    \
  static target void name(const tn_kernel_block *block, const void *params) {  \
    const reduce_rows *rows = (const reduce_rows *)params;                     \
    const int64_t apart = rows->apart, whole = block->n / 16 * 16;             \
    const reduce_rows rest = {rows->n % 4, apart};                             \
    const float *x = (const float *)block->in[0];                              \
    double *all = (double *)block->out;                                        \
    const tn_kernel_block side = {block->n - whole, all + whole, {x + whole}}; \
    set;                                                                       \
    if (rows->n < 4) {                                                         \
      sum_f32_column_##level(block, params);                                   \
      return;                                                                  \
    }                                                                          \
    if (side.n > 0) sum_f32_column_##level(&side, params);                     \
    for (int64_t r = 0; r + 4 <= rows->n; r += 4, x += 4 * apart)              \
      for (int64_t j = 0; j < whole; j += 16) {                                \
        for (int k = 4; k < 8; ++k) __builtin_prefetch(x + j + k * apart);     \
        for (int64_t i = j; i < j + 16; i += (lanes))                          \
          store(all + i, plus(plus(plus(from(x + i), from(x + i + apart)),     \
                                   plus(from(x + i + 2 * apart),               \
                                        from(x + i + 3 * apart))),             \
                              load(all + i)));                                 \
      }                                                                        \
    const tn_kernel_block last = {whole, all, {x}};                            \
    if (rest.n > 0) sum_f32_column_##level(&last, &rest);                      \
  }
#define WIDE_8(x) _mm512_cvtps_pd(_mm256_loadu_ps(x))
#define WIDE_4(x) _mm256_cvtps_pd(_mm_loadu_ps(x))
#define WIDE_PLUS(a, b) _mm512_fmadd_pd(a, one, b)
WIDE_SUMS(wide_sum_column, TN_KERNEL_AVX512, avx512, 8,
          __m512d one = _mm512_set1_pd(1);
          __asm__(""
                  : "+v"(one)),
          WIDE_8, _mm512_loadu_pd, _mm512_storeu_pd, WIDE_PLUS)
WIDE_SUMS(half_sum_column, TN_KERNEL_AVX2, avx2, 4, (void)0, WIDE_4,
          _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd)

#undef WIDE_SUMS
#undef WIDE_8
#undef WIDE_4
#undef WIDE_PLUS
#undef WIDE_SUM
#undef WIDE_REST
#undef WIDE_NAN
#undef WIDE_TREE
#undef WIDE_LINE
#undef WIDE_COLUMN
