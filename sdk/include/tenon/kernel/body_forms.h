/* SPDX-License-Identifier: Apache-2.0
 * body_forms.h: forms of the bodies of elementwise.h: part by part, and, made
 * of those over f32, over f16 and bf16, and over an input that is a single
 * element. Part of kernel.h, by elementwise.h.
 *
 *   TN_KERNEL_BODY void sum(...) as in elementwise.h
 *   TN_KERNEL_LEVELS(sum)
 *   TN_KERNEL_HALVES(sum, 2)
 *   TN_KERNEL_ONES(sum)
 *
 *   static const tn_kernel_map map = {
 *       .f32 = TN_KERNEL_BODIES(sum), .n_in = 2, .in = {0, 1},
 *       .f16 = TN_KERNEL_F16_BODIES(sum),
 *       .bf16 = TN_KERNEL_BF16_BODIES(sum),
 *       .one = TN_KERNEL_ONE_BODIES(sum)};
 *
 * Dense calls of f16 or bf16 alone then go through registers: a vector of each
 * operand is widened, goes through the body, and is rounded. Without them, and
 * at the lowest level, such calls go through scratch memory. Likewise calls
 * with two inputs, one of them repeated along lines: no line is filled with it.
 * Results are the same except for the last place, where a compiler that
 * contracts uses one instruction for a product and a sum in one of two such
 * loops. Use it for bodies that do little; not for one that works part by part
 * (TN_KERNEL_PART).
 */
#include "tenon/kernel/kernel.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_BODY_FORMS_H_
#define TENON_KERNEL_BODY_FORMS_H_

/* ------------------------------------------------------------ part by part */

/* Elements of a block that are computed at once if they may be computed again,
 * and the end of such a part. [any] */
#define TN_KERNEL_PART 1024
static inline int64_t tn_kernel_part_end(const tn_kernel_block *block,
                                         int64_t begin) {
  const int64_t left = block->n - begin;
  return begin + (left < TN_KERNEL_PART ? left : TN_KERNEL_PART);
}

/* Where a part of an output of floats is computed: at its place, or, if that is
 * also the place of one of the n_in operands, in `room`, which has
 * TN_KERNEL_PART elements; and the copy from there to its place. [any] */
static inline float *tn_kernel_part_at(const tn_kernel_block *block,
                                       uint32_t n_in, int64_t begin,
                                       float *room) {
  for (uint32_t k = 0; k < n_in; ++k)
    if (block->in[k] == block->out) return room;
  return (float *)block->out + begin;
}
static inline void tn_kernel_part_store(const tn_kernel_block *block,
                                        int64_t begin, int64_t end,
                                        const float *part) {
  float *to = (float *)block->out + begin;
  if (part != to) memcpy(to, part, (size_t)(end - begin) * sizeof *to);
}

/* ------------------------------------------------------------------ halves */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)

#ifdef __cplusplus
extern "C" {
#endif

#define TN_KERNEL_INLINE static inline __attribute__((always_inline, unused))

/* Vectors of halves as floats, and back. */
TN_KERNEL_INLINE TN_KERNEL_AVX2 void tn_kernel_f16_read_avx2(
    float *to, const uint16_t *from) {
  const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)from);
  _mm256_storeu_ps(to, _mm256_cvtph_ps(halves));
}

TN_KERNEL_INLINE TN_KERNEL_AVX2 void tn_kernel_f16_write_avx2(
    uint16_t *to, const float *from) {
  _mm_storeu_si128(
      (__m128i *)(void *)to,
      _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

/* Two vectors at once. Unpacking works in both halves of a register, so the
 * floats are in another order than the elements, until they are packed. */
TN_KERNEL_INLINE TN_KERNEL_AVX2 void tn_kernel_bf16_read_avx2(
    float *to, const uint16_t *from) {
  const __m256i halves =
      _mm256_loadu_si256((const __m256i *)(const void *)from);
  const __m256i none = _mm256_setzero_si256();
  _mm256_storeu_ps(to,
                   _mm256_castsi256_ps(_mm256_unpacklo_epi16(none, halves)));
  _mm256_storeu_ps(to + 8,
                   _mm256_castsi256_ps(_mm256_unpackhi_epi16(none, halves)));
}

TN_KERNEL_INLINE TN_KERNEL_AVX2 void tn_kernel_bf16_write_avx2(
    uint16_t *to, const float *from) {
  _mm256_storeu_si256((__m256i *)(void *)to,
                      _mm256_packus_epi32(tn_kernel_bf16_words(from),
                                          tn_kernel_bf16_words(from + 8)));
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 void tn_kernel_f16_read_avx512(
    float *to, const uint16_t *from) {
  _mm512_storeu_ps(
      to,
      _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 void tn_kernel_f16_write_avx512(
    uint16_t *to, const float *from) {
  _mm256_storeu_si256((__m256i *)(void *)to,
                      _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from),
                                            _MM_FROUND_TO_NEAREST_INT));
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 void tn_kernel_bf16_read_avx512(
    float *to, const uint16_t *from) {
  const __m512i halves = _mm512_loadu_si512(from);
  const __m512i none = _mm512_setzero_si512();
  _mm512_storeu_ps(to,
                   _mm512_castsi512_ps(_mm512_unpacklo_epi16(none, halves)));
  _mm512_storeu_ps(to + 16,
                   _mm512_castsi512_ps(_mm512_unpackhi_epi16(none, halves)));
}

/* tn_kernel_bf16_words_avx512, of numbers that may be NaN. */
TN_KERNEL_INLINE TN_KERNEL_AVX512 __m512i
tn_kernel_bf16_any_avx512(const float *from) {
  const __m512 value = _mm512_loadu_ps(from);
  const __m512i high = _mm512_srli_epi32(_mm512_castps_si512(value), 16);
  return _mm512_mask_or_epi32(tn_kernel_bf16_words_avx512(value),
                              _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q),
                              high, _mm512_set1_epi32(0x40));
}

TN_KERNEL_INLINE TN_KERNEL_AVX512 void tn_kernel_bf16_write_avx512(
    uint16_t *to, const float *from) {
  _mm512_storeu_si512(
      to, _mm512_packus_epi32(tn_kernel_bf16_any_avx512(from),
                              tn_kernel_bf16_any_avx512(from + 16)));
}

#ifdef __cplusplus
}
#endif

/* One of them, `width` elements at a time. The rest of a block goes through
 * copies of `width` elements: the function calls itself once. gcc and clang
 * keep the floats in registers, as the body is inlined and its loop is one
 * vector long. Addresses are read once: the compiler assumes that an output of
 * halves may overlap them. */
#define TN_KERNEL_HALF(name, inputs, type, LEVEL, level, vector, width)   \
  static LEVEL void name##_##type##_##level(const tn_kernel_block *block, \
                                            const void *params) {         \
    const int64_t whole = block->n / (width) * (width);                   \
    const uint16_t *from[inputs];                                         \
    uint16_t *to = (uint16_t *)block->out;                                \
    for (int k = 0; k < (inputs); ++k)                                    \
      from[k] = (const uint16_t *)block->in[k];                           \
    for (int64_t i = 0; i < whole; i += (width)) {                        \
      float in[inputs][width], out[width];                                \
      for (int k = 0; k < (inputs); ++k)                                  \
        tn_kernel_##type##_read_##level(in[k], from[k] + i);              \
      for (int part = 0; part < (width); part += (vector)) {              \
        tn_kernel_block piece;                                            \
        piece.n = (vector);                                               \
        piece.out = out + part;                                           \
        for (int k = 0; k < (inputs); ++k) piece.in[k] = in[k] + part;    \
        name(&piece, params);                                             \
      }                                                                   \
      tn_kernel_##type##_write_##level(to + i, out);                      \
    }                                                                     \
    if (whole == block->n) return;                                        \
    const size_t rest = (size_t)(block->n - whole) * sizeof(uint16_t);    \
    uint16_t halves[(inputs) + 1][width];                                 \
    tn_kernel_block last;                                                 \
    memset(halves, 0, sizeof halves);                                     \
    last.n = (width);                                                     \
    last.out = halves[inputs];                                            \
    for (int k = 0; k < (inputs); ++k) {                                  \
      memcpy(halves[k], (const uint16_t *)block->in[k] + whole, rest);    \
      last.in[k] = halves[k];                                             \
    }                                                                     \
    name##_##type##_##level(&last, params);                               \
    memcpy((uint16_t *)block->out + whole, last.out, rest);               \
  }

#define TN_KERNEL_HALVES(name, inputs)                                \
  TN_KERNEL_HALF(name, inputs, f16, TN_KERNEL_AVX2, avx2, 8, 8)       \
  TN_KERNEL_HALF(name, inputs, bf16, TN_KERNEL_AVX2, avx2, 8, 16)     \
  TN_KERNEL_HALF(name, inputs, f16, TN_KERNEL_AVX512, avx512, 16, 16) \
  TN_KERNEL_HALF(name, inputs, bf16, TN_KERNEL_AVX512, avx512, 16, 32)
#define TN_KERNEL_F16_BODIES(name)               \
  {                                              \
    { NULL, name##_f16_avx2, name##_f16_avx512 } \
  }
#define TN_KERNEL_BF16_BODIES(name)                \
  {                                                \
    { NULL, name##_bf16_avx2, name##_bf16_avx512 } \
  }

/* For two inputs of floats; input `which` is one element. The rest of a block
 * goes through copies of a whole vector, as above. */
#define TN_KERNEL_ONE(name, which, LEVEL, level, width)                       \
  static LEVEL void name##_one##which##_##level(const tn_kernel_block *block, \
                                                const void *params) {         \
    const float *each = (const float *)block->in[1 - (which)];                \
    const int64_t whole = block->n / (width) * (width);                       \
    float one[width];                                                         \
    tn_kernel_block piece;                                                    \
    for (int k = 0; k < (width); ++k)                                         \
      one[k] = *(const float *)block->in[which];                              \
    piece.n = (width);                                                        \
    piece.in[which] = one;                                                    \
    for (int64_t i = 0; i < whole; i += (width)) {                            \
      piece.out = (float *)block->out + i;                                    \
      piece.in[1 - (which)] = each + i;                                       \
      name(&piece, params);                                                   \
    }                                                                         \
    if (whole == block->n) return;                                            \
    const size_t rest = (size_t)(block->n - whole) * sizeof(float);           \
    float in[width], out[width];                                              \
    memset(in, 0, sizeof in);                                                 \
    memcpy(in, each + whole, rest);                                           \
    piece.out = out;                                                          \
    piece.in[1 - (which)] = in;                                               \
    name(&piece, params);                                                     \
    memcpy((float *)block->out + whole, out, rest);                           \
  }

#define TN_KERNEL_ONES(name)                           \
  TN_KERNEL_ONE(name, 0, TN_KERNEL_AVX2, avx2, 8)      \
  TN_KERNEL_ONE(name, 1, TN_KERNEL_AVX2, avx2, 8)      \
  TN_KERNEL_ONE(name, 0, TN_KERNEL_AVX512, avx512, 16) \
  TN_KERNEL_ONE(name, 1, TN_KERNEL_AVX512, avx512, 16)
#define TN_KERNEL_ONE_BODIES(name)                    \
  {                                                   \
    {{NULL, name##_one0_avx2, name##_one0_avx512}}, { \
      { NULL, name##_one1_avx2, name##_one1_avx512 }  \
    }                                                 \
  }

#else
#define TN_KERNEL_ONES(name)
#define TN_KERNEL_ONE_BODIES(name) \
  {                                \
    {{NULL, NULL, NULL}}, {        \
      { NULL, NULL, NULL }         \
    }                              \
  }
#define TN_KERNEL_HALVES(name, inputs)
#define TN_KERNEL_F16_BODIES(name) \
  {                                \
    { NULL, NULL, NULL }           \
  }
#define TN_KERNEL_BF16_BODIES(name) TN_KERNEL_F16_BODIES(name)
#endif

#endif /* TENON_KERNEL_BODY_FORMS_H_ */
