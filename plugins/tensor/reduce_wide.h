/* SPDX-License-Identifier: Apache-2.0
 * reduce_wide.h: loops over floats for AVX-512 (wide_...) and AVX2 (half_...)
 * that compilers do not find. Only reduce_ops.c includes it, after the loops
 * that these replace. Partial results, and so all bits, are the same.
 */

/* Precedes a loop over vectors that must stay in registers. */
#if defined(__clang__)
#define WIDE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WIDE_UNROLL _Pragma("GCC unroll 8")
#endif

/* A factor of one that the compiler does not know; otherwise it would only
 * add. */
#define WIDE_ONE(bits)         \
  double unknown = 1;          \
  __asm__("" : "+x"(unknown)); \
  const __m##bits##d one = _mm##bits##_set1_pd(unknown)

/* -------------------------------------------------------------------- sums */

/* sum##k gets eight floats, widened as they are loaded. The product with one
 * changes nothing, but runs on other execution units than the widening, for
 * which additions would have to wait. */
#define WIDE_SUM(k)                                                           \
  sum##k = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8 * (k))), \
                           one, sum##k)

/* Adds elements 8*k to 8*k + 7 of the `left` remaining floats, as doubles. */
#define WIDE_REST(k)                                                       \
  do {                                                                     \
    const __mmask8 some = (__mmask8)(left >> 8 * (k));                     \
    const __m256 v = _mm256_maskz_loadu_ps(some, x + i + 8 * (k));         \
    sum##k = _mm512_mask3_fmadd_pd(_mm512_cvtps_pd(v), one, sum##k, some); \
  } while (0)

/* Makes a record of four partial results. */
#define WIDE_RECORD(record, four)                                      \
  do {                                                                 \
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four),       \
                                   _mm256_extractf128_pd(four, 1));    \
    *(double *)(record) =                                              \
        _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two)); \
  } while (0)

static TN_KERNEL_AVX512 void wide_sum_line(const tn_kernel_block *block,
                                           const void *params) {
  const float *x = (const float *)block->in[0];
  __m512d sum0 = _mm512_setzero_pd(), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  WIDE_ONE(512);
  int64_t i = 0;
  if (block->n < 32) {
    sum_f32_line_avx512(block, params);
    return;
  }
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
  WIDE_RECORD(block->out, four);
}

/* Four floats at a time. Missing ones are zeros, which do not change a sum that
 * has begun with a number. */
static TN_KERNEL_AVX2 void half_sum_line(const tn_kernel_block *block,
                                         const void *params) {
  const float *x = (const float *)block->in[0];
  const __m128i places = _mm_setr_epi32(0, 1, 2, 3);
  __m256d sum[8];
  WIDE_ONE(256);
  int64_t i = 0;
  if (block->n < 32) {
    sum_f32_line_avx2(block, params);
    return;
  }
  WIDE_UNROLL
  for (int k = 0; k < 8; ++k) sum[k] = _mm256_setzero_pd();
  for (; i + 32 <= block->n; i += 32) {
    AHEAD(x + i);
    AHEAD(x + i + 16);
    WIDE_UNROLL
    for (int k = 0; k < 8; ++k)
      sum[k] = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * k)),
                               one, sum[k]);
  }
  if (i < block->n) {
    const int left = (int)(block->n - i);
    WIDE_UNROLL
    for (int k = 0; k < 8; ++k) {
      const __m128i some =
          _mm_cmpgt_epi32(_mm_set1_epi32(left - 4 * k), places);
      const __m128 v = _mm_maskload_ps(x + i + 4 * k, some);
      sum[k] = _mm256_fmadd_pd(_mm256_cvtps_pd(v), one, sum[k]);
    }
  }
  WIDE_UNROLL
  for (int k = 0; k < 4; ++k) sum[k] = _mm256_add_pd(sum[k], sum[k + 4]);
  sum[0] = _mm256_add_pd(_mm256_add_pd(sum[0], sum[2]),
                         _mm256_add_pd(sum[1], sum[3]));
  WIDE_RECORD(block->out, sum[0]);
}

/* ------------------------------------------- the largest and the least one */

/* Vectors of a number of bits. */
#define WIDE_LANES_512 16
#define WIDE_LANES_256 8

/* Instructions for the largest float return the second operand if both are
 * equal or one is NaN. With the old value as second operand that is right for
 * numbers. NaN is detected separately, with one comparison per two vectors; if
 * there is one, the ordinary loop computes everything. */
#define WIDE_NAN_512 __mmask16
#define WIDE_NAN_256 __m256
#define WIDE_NO_NAN_512 0
#define WIDE_NO_NAN_256 _mm256_setzero_ps()
#define WIDE_LOOK_512(nan, a, b) \
  (__mmask16)(nan | _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q))
#define WIDE_LOOK_256(nan, a, b) \
  _mm256_or_ps(nan, _mm256_cmp_ps(a, b, _CMP_UNORD_Q))
#define WIDE_FOUND_512(nan) (nan != 0)
#define WIDE_FOUND_256(nan) (_mm256_movemask_ps(nan) != 0)

/* Loads the remaining floats, at least one; missing ones are `none`. */
#define WIDE_SOME_512(at, left, none) \
  _mm512_mask_loadu_ps(               \
      none, (__mmask16)((left) < 16 ? (1u << (left)) - 1 : 65535), at)
#define WIDE_SOME_256(at, left, none) half_some(at, (int)(left), none)
static inline TN_KERNEL_AVX2 __m256 half_some(const float *at, int left,
                                              __m256 none) {
  const __m256i some = _mm256_cmpgt_epi32(
      _mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_blendv_ps(none, _mm256_maskload_ps(at, some),
                          _mm256_castsi256_ps(some));
}

/* Eight results: combines the halves of vectors. */
#define WIDE_EIGHT_512(op, v) \
  _mm256_##op(_mm512_extractf32x8_ps(v, 1), _mm512_castps512_ps256(v))
#define WIDE_EIGHT_256(op, v) v

/* 64 partial results: the upper half is merged into the lower one until one
 * remains. */
#define WIDE_LINE(prefix, name, target, level, bits, op, none)              \
  static target void prefix##_##name##_line(const tn_kernel_block *block,   \
                                            const void *params) {           \
    enum { LANES = WIDE_LANES_##bits, VECTORS = 64 / LANES };               \
    const float *x = (const float *)block->in[0];                           \
    const __m##bits start = _mm##bits##_set1_ps(none);                      \
    WIDE_NAN_##bits nan = WIDE_NO_NAN_##bits;                               \
    __m##bits top[VECTORS];                                                 \
    int64_t i = 0;                                                          \
    WIDE_UNROLL                                                             \
    for (int k = 0; k < VECTORS; ++k) top[k] = start;                       \
    for (; i + 64 <= block->n; i += 64) {                                   \
      WIDE_UNROLL                                                           \
      for (int j = 0; j < 64; j += 16) AHEAD(x + i + j);                    \
      WIDE_UNROLL                                                           \
      for (int k = 0; k < VECTORS; k += 2) {                                \
        const float *at = x + i + LANES * k;                                \
        const __m##bits a = _mm##bits##_loadu_ps(at);                       \
        const __m##bits b = _mm##bits##_loadu_ps(at + LANES);               \
        top[k] = _mm##bits##_##op(a, top[k]);                               \
        top[k + 1] = _mm##bits##_##op(b, top[k + 1]);                       \
        nan = WIDE_LOOK_##bits(nan, a, b);                                  \
      }                                                                     \
    }                                                                       \
    WIDE_UNROLL                                                             \
    for (int k = 0; k < VECTORS; ++k) {                                     \
      const int64_t left = block->n - i - LANES * k;                        \
      if (left <= 0) continue;                                              \
      const __m##bits v = WIDE_SOME_##bits(x + i + LANES * k, left, start); \
      top[k] = _mm##bits##_##op(v, top[k]);                                 \
      nan = WIDE_LOOK_##bits(nan, v, v);                                    \
    }                                                                       \
    if (WIDE_FOUND_##bits(nan)) {                                           \
      name##_f32_line_##level(block, params);                               \
      return;                                                               \
    }                                                                       \
    WIDE_UNROLL                                                             \
    for (int k = 4; k < VECTORS; ++k)                                       \
      top[k - 4] = _mm##bits##_##op(top[k], top[k - 4]);                    \
    top[0] = _mm##bits##_##op(_mm##bits##_##op(top[3], top[1]),             \
                              _mm##bits##_##op(top[2], top[0]));            \
    const __m256 eight = WIDE_EIGHT_##bits(op, top[0]);                     \
    const __m128 four = _mm_##op(_mm256_extractf128_ps(eight, 1),           \
                                 _mm256_castps256_ps128(eight));            \
    const __m128 two = _mm_##op(_mm_movehl_ps(four, four), four);           \
    *(double *)block->out =                                                 \
        (double)_mm_cvtss_f32(_mm_##op(_mm_movehdup_ps(two), two));         \
  }
#define WIDE_LINES(name, op, none)                               \
  WIDE_LINE(wide, name, TN_KERNEL_AVX512, avx512, 512, op, none) \
  WIDE_LINE(half, name, TN_KERNEL_AVX2, avx2, 256, op, none)
WIDE_LINES(max, max_ps, -INFINITY)
WIDE_LINES(min, min_ps, INFINITY)

/* Halves of a vector, widened. */
#define WIDE_LOW_512(v) _mm512_cvtps_pd(_mm512_castps512_ps256(v))
#define WIDE_HIGH_512(v) _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))
#define WIDE_LOW_256(v) _mm256_cvtps_pd(_mm256_castps256_ps128(v))
#define WIDE_HIGH_256(v) _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))

/* Four rows at a time, sixteen columns of each, with prefetch of the next four.
 * The ordinary loop computes the rest, and everything if there is NaN. */
#define WIDE_COLUMN(prefix, name, target, level, bits, op, op_pd)              \
  static target void prefix##_##name##_column(const tn_kernel_block *block,    \
                                              const void *params) {            \
    enum { LANES = WIDE_LANES_##bits, VECTORS = 16 / LANES };                  \
    const reduce_rows *rows = (const reduce_rows *)params;                     \
    const int64_t row_distance = rows->row_distance,                           \
                  whole = block->n / 16 * 16;                                  \
    const reduce_rows four = {4, row_distance},                                \
                      rest = {rows->n % 4, row_distance};                      \
    const float *x = (const float *)block->in[0];                              \
    double *all = (double *)block->out;                                        \
    const tn_kernel_block side = {block->n - whole, all + whole, {x + whole}}; \
    name##_f32_column_##level(&side, params);                                  \
    for (int64_t r = 0; r + 4 <= rows->n; r += 4, x += 4 * row_distance)       \
      for (int64_t j = 0; j < whole; j += 16) {                                \
        WIDE_NAN_##bits nan = WIDE_NO_NAN_##bits;                              \
        __m##bits most[VECTORS];                                               \
        WIDE_UNROLL                                                            \
        for (int k = 0; k < VECTORS; ++k) {                                    \
          const float *at = x + j + LANES * k;                                 \
          const __m##bits a = _mm##bits##_loadu_ps(at);                        \
          const __m##bits b = _mm##bits##_loadu_ps(at + row_distance);         \
          const __m##bits c = _mm##bits##_loadu_ps(at + 2 * row_distance);     \
          const __m##bits d = _mm##bits##_loadu_ps(at + 3 * row_distance);     \
          most[k] = _mm##bits##_##op(_mm##bits##_##op(d, c),                   \
                                     _mm##bits##_##op(b, a));                  \
          nan = WIDE_LOOK_##bits(WIDE_LOOK_##bits(nan, a, b), c, d);           \
        }                                                                      \
        if (WIDE_FOUND_##bits(nan)) {                                          \
          const tn_kernel_block some = {16, all + j, {x + j}};                 \
          name##_f32_column_##level(&some, &four);                             \
          continue;                                                            \
        }                                                                      \
        for (int k = 4; k < 8; ++k)                                            \
          __builtin_prefetch(x + j + k * row_distance);                        \
        WIDE_UNROLL                                                            \
        for (int k = 0; k < VECTORS; ++k) {                                    \
          double *low = all + j + LANES * k, *high = low + LANES / 2;          \
          _mm##bits##_storeu_pd(                                               \
              low, _mm##bits##_##op_pd(WIDE_LOW_##bits(most[k]),               \
                                       _mm##bits##_loadu_pd(low)));            \
          _mm##bits##_storeu_pd(                                               \
              high, _mm##bits##_##op_pd(WIDE_HIGH_##bits(most[k]),             \
                                        _mm##bits##_loadu_pd(high)));          \
        }                                                                      \
      }                                                                        \
    const tn_kernel_block last = {whole, all, {x}};                            \
    name##_f32_column_##level(&last, &rest);                                   \
  }
#define WIDE_COLUMNS(name, op, op_pd)                               \
  WIDE_COLUMN(wide, name, TN_KERNEL_AVX512, avx512, 512, op, op_pd) \
  WIDE_COLUMN(half, name, TN_KERNEL_AVX2, avx2, 256, op, op_pd)
WIDE_COLUMNS(max, max_ps, max_pd)
WIDE_COLUMNS(min, min_ps, min_pd)

/* --------------------------------------------------------- sums of columns */

/* Four rows at a time, as in the ordinary loop, one cache line of each, with
 * prefetch of the next four. Compilers widen more floats at once and then have
 * to permute them. */
#define WIDE_SUMS(prefix, target, level, bits, lanes, from)                    \
  static target void prefix##_sum_column(const tn_kernel_block *block,         \
                                         const void *params) {                 \
    const reduce_rows *rows = (const reduce_rows *)params;                     \
    const int64_t row_distance = rows->row_distance,                           \
                  whole = block->n / 16 * 16;                                  \
    const reduce_rows rest = {rows->n % 4, row_distance};                      \
    const float *x = (const float *)block->in[0];                              \
    double *all = (double *)block->out;                                        \
    const tn_kernel_block side = {block->n - whole, all + whole, {x + whole}}; \
    WIDE_ONE(bits);                                                            \
    if (rows->n < 4) {                                                         \
      sum_f32_column_##level(block, params);                                   \
      return;                                                                  \
    }                                                                          \
    if (side.n > 0) sum_f32_column_##level(&side, params);                     \
    for (int64_t r = 0; r + 4 <= rows->n; r += 4, x += 4 * row_distance)       \
      for (int64_t j = 0; j < whole; j += 16) {                                \
        for (int k = 4; k < 8; ++k)                                            \
          __builtin_prefetch(x + j + k * row_distance);                        \
        WIDE_UNROLL                                                            \
        for (int64_t i = j; i < j + 16; i += (lanes))                          \
          _mm##bits##_storeu_pd(                                               \
              all + i,                                                         \
              WIDE_PLUS(                                                       \
                  bits,                                                        \
                  WIDE_PLUS(bits,                                              \
                            WIDE_PLUS(bits, from(x + i),                       \
                                      from(x + i + row_distance)),             \
                            WIDE_PLUS(bits, from(x + i + 2 * row_distance),    \
                                      from(x + i + 3 * row_distance))),        \
                  _mm##bits##_loadu_pd(all + i)));                             \
      }                                                                        \
    const tn_kernel_block last = {whole, all, {x}};                            \
    if (rest.n > 0) sum_f32_column_##level(&last, &rest);                      \
  }
#define WIDE_8(at) _mm512_cvtps_pd(_mm256_loadu_ps(at))
#define WIDE_4(at) _mm256_cvtps_pd(_mm_loadu_ps(at))
#define WIDE_PLUS(bits, a, b) _mm##bits##_fmadd_pd(a, one, b)
WIDE_SUMS(wide, TN_KERNEL_AVX512, avx512, 512, 8, WIDE_8)
WIDE_SUMS(half, TN_KERNEL_AVX2, avx2, 256, 4, WIDE_4)

#undef WIDE_UNROLL
#undef WIDE_ONE
#undef WIDE_SUM
#undef WIDE_REST
#undef WIDE_RECORD
#undef WIDE_LANES_512
#undef WIDE_LANES_256
#undef WIDE_NAN_512
#undef WIDE_NAN_256
#undef WIDE_NO_NAN_512
#undef WIDE_NO_NAN_256
#undef WIDE_LOOK_512
#undef WIDE_LOOK_256
#undef WIDE_FOUND_512
#undef WIDE_FOUND_256
#undef WIDE_SOME_512
#undef WIDE_SOME_256
#undef WIDE_EIGHT_512
#undef WIDE_EIGHT_256
#undef WIDE_LINE
#undef WIDE_LINES
#undef WIDE_LOW_512
#undef WIDE_LOW_256
#undef WIDE_HIGH_512
#undef WIDE_HIGH_256
#undef WIDE_COLUMN
#undef WIDE_COLUMNS
#undef WIDE_SUMS
#undef WIDE_8
#undef WIDE_4
#undef WIDE_PLUS
