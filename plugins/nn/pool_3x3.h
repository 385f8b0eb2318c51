/* SPDX-License-Identifier: Apache-2.0
 * pool_3x3.h: the gradient of the largest element of 3 x 3 windows with step
 * 2 and at most one element of padding, of floats, for AVX2 and AVX-512. Only
 * pool_lines.c includes it.
 *
 * A line of windows has the columns 2*o - 1, 2*o and 2*o + 1; without padding
 * the columns of a line count from one higher. These are three vectors, for as
 * many windows as a vector has lanes. They are compared with the largest
 * elements in registers, and the gradients are stored in the same order. A line
 * of windows shares its last line of data with the next one, which completes
 * it.
 */
enum { POOL3_SIDE = 3 };

typedef struct pool3_call pool3_call;

/* The arrays of one line of windows, which may be empty, with the three lines
 * of data below it. */
typedef struct pool3_line {
  int64_t windows;
  const float *out;
  const float *out_gradient;
  const float *from[POOL3_SIDE];
  float *to[2]; /* gradients of the first two lines of data; NULL for a line
                   outside of the image */
} pool3_line;

struct pool3_call {
  const nn_pool_image *image;
  /* Computes one line of windows; returns whether `out` contains NaN, which
   * equals no element. */
  int (*windows)(const pool3_call *t, const pool3_line *l);
  int64_t shift;   /* first column of data in the middle of a window: 0 or 1 */
  int64_t columns; /* number of columns of data from column `shift` on */
  int64_t lanes;   /* windows of a patch: lanes of a vector */
  int64_t patches;
  int streams;    /* stores whole cache lines past the caches */
  float *nothing; /* a line of NaN, in place of lines of padding */
  float *shared;  /* (patch, column 0 to 2, lane): gradients from a line of
                     windows for its last line of data */
};

/* Returns a mask of the first n bits. */
static inline uint32_t pool3_make_bits(int64_t n) {
  if (n <= 0) return 0;
  return n < 32 ? (1u << n) - 1 : ~0u;
}

/* ----------------------------------------------------------------- vectors */

/* The following functions exist for AVX2 and AVX-512. In a mask, bit k selects
 * element k of a vector. */
#define REGISTERS(target) static inline __attribute__((always_inline)) target
#define IN_256 REGISTERS(TN_KERNEL_AVX2)
#define IN_512 REGISTERS(TN_KERNEL_AVX512)

/* Converts the first eight bits into a vector mask. */
IN_256 __m256i pool3_make_mask_avx2(uint32_t bits) {
  const __m256i one = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i all = _mm256_set1_epi32((int)bits);
  return _mm256_cmpeq_epi32(_mm256_and_si256(all, one), one);
}

/* Loads the elements that `bits` selects, and takes the others from `other`. */
IN_256 __m256 pool3_load_avx2(const float *from, uint32_t bits, __m256 other) {
  if ((bits & 0xff) == 0xff) return _mm256_loadu_ps(from);
  const __m256i mask = pool3_make_mask_avx2(bits);
  return _mm256_blendv_ps(other, _mm256_maskload_ps(from, mask),
                          _mm256_castsi256_ps(mask));
}

/* Stores the elements of `v` that `bits` selects. It stores parts, because a
 * masked store takes as long as thirty others. */
IN_256 void pool3_store_avx2(float *to, __m256 v, uint32_t bits) {
  __m128 part = _mm256_castps256_ps128(v);
  if ((bits & 0xff) == 0xff) {
    _mm256_storeu_ps(to, v);
    return;
  }
  if ((bits & 0xf) == 0xf) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(v, 1);
    to += 4, bits >>= 4;
  }
  for (int k = 0; k < 3; ++k)
    if ((bits >> k & 1) != 0) to[k] = part[k];
}

/* Stores a vector past the caches to an aligned address. */
IN_256 void pool3_stream_avx2(float *to, __m256 v) {
  _mm256_stream_ps(to, v);
}

/* Loads two vectors, and `other` for elements that `bits` does not select.
 * *even gets the elements with even index, *odd the others. It rearranges
 * halves of vectors while it loads them. */
IN_256 void pool3_load_even_odd_avx2(const float *from, uint32_t bits,
                                     __m256 other, __m256 *even, __m256 *odd) {
  __m256 low, high;
  if (bits == 0xffff) {
    low = _mm256_castps128_ps256(_mm_loadu_ps(from));
    low = _mm256_insertf128_ps(low, _mm_loadu_ps(from + 8), 1);
    high = _mm256_castps128_ps256(_mm_loadu_ps(from + 4));
    high = _mm256_insertf128_ps(high, _mm_loadu_ps(from + 12), 1);
  } else {
    const __m256 a = pool3_load_avx2(from, bits, other);
    const __m256 b = pool3_load_avx2(from + 8, bits >> 8, other);
    low = _mm256_permute2f128_ps(a, b, 0x20);
    high = _mm256_permute2f128_ps(a, b, 0x31);
  }
  *even = _mm256_shuffle_ps(low, high, 0x88);
  *odd = _mm256_shuffle_ps(low, high, 0xdd);
}

/* Interleaves two vectors, the inverse of pool3_load_even_odd. */
IN_256 void pool3_interleave_avx2(__m256 even, __m256 odd, __m256 *a,
                                  __m256 *b) {
  const __m256 low = _mm256_unpacklo_ps(even, odd);
  const __m256 high = _mm256_unpackhi_ps(even, odd);
  *a = _mm256_permute2f128_ps(low, high, 0x20);
  *b = _mm256_permute2f128_ps(low, high, 0x31);
}

/* Shifts `v` up by one element; element 0 becomes the last element of `last`.
 */
IN_256 __m256 pool3_shift_right_avx2(__m256 last, __m256 v) {
  const __m256 middle = _mm256_permute2f128_ps(last, v, 0x21);
  return _mm256_castsi256_ps(_mm256_alignr_epi8(
      _mm256_castps_si256(v), _mm256_castps_si256(middle), 12));
}

/* Shifts `v` down by one element; the last element becomes the first of `next`.
 */
IN_256 __m256 pool3_shift_left_avx2(__m256 v, __m256 next) {
  const __m256 middle = _mm256_permute2f128_ps(v, next, 0x21);
  return _mm256_castsi256_ps(_mm256_alignr_epi8(_mm256_castps_si256(middle),
                                                _mm256_castps_si256(v), 4));
}

/* Returns the gradients of windows with x as their largest element, and sets
 * these gradients to 0 in *out_gradient, so that only the first such element
 * gets them.
 */
IN_256 __m256 pool3_take_gradient_avx2(__m256 x, __m256 largest,
                                       __m256 *out_gradient) {
  const __m256 hit = _mm256_cmp_ps(x, largest, _CMP_EQ_OQ);
  const __m256 gets = _mm256_and_ps(hit, *out_gradient);
  *out_gradient = _mm256_andnot_ps(hit, *out_gradient);
  return gets;
}

/* Returns a mask of the elements that are NaN. */
IN_256 uint32_t pool3_find_nan_avx2(__m256 v) {
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* Loads the elements in mask `bits`; the others come from `other`. */
IN_512 __m512 pool3_load_avx512(const float *from, uint32_t bits,
                                __m512 other) {
  return _mm512_mask_loadu_ps(other, (__mmask16)bits, from);
}

/* Stores the elements in mask `bits`. */
IN_512 void pool3_store_avx512(float *to, __m512 v, uint32_t bits) {
  if ((bits & 0xffff) == 0xffff)
    _mm512_storeu_ps(to, v);
  else
    _mm512_mask_storeu_ps(to, (__mmask16)bits, v);
}

/* Stores a vector past the caches. */
IN_512 void pool3_stream_avx512(float *to, __m512 v) {
  _mm512_stream_ps(to, v);
}

/* Loads two vectors, and separates their even and odd elements. Elements that
 * are not in mask `bits` come from `other`. */
IN_512 void pool3_load_even_odd_avx512(const float *from, uint32_t bits,
                                       __m512 other, __m512 *even,
                                       __m512 *odd) {
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i all = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                        22, 24, 26, 28, 30);
  const __m512 a = pool3_load_avx512(from, bits, other);
  const __m512 b = pool3_load_avx512(from + 16, bits >> 16, other);
  *even = _mm512_permutex2var_ps(a, all, b);
  *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(all, one), b);
}

/* Interleaves two vectors, the inverse of pool3_load_even_odd. */
IN_512 void pool3_interleave_avx512(__m512 even, __m512 odd, __m512 *a,
                                    __m512 *b) {
  const __m512i low =
      _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i eight = _mm512_set1_epi32(8);
  *a = _mm512_permutex2var_ps(even, low, odd);
  *b = _mm512_permutex2var_ps(even, _mm512_add_epi32(low, eight), odd);
}

/* Shifts `v` up by one element; element 0 becomes the last element of `last`.
 */
IN_512 __m512 pool3_shift_right_avx512(__m512 last, __m512 v) {
  return _mm512_castsi512_ps(_mm512_alignr_epi32(
      _mm512_castps_si512(v), _mm512_castps_si512(last), 15));
}

/* Shifts `v` down by one element; the last element becomes the first of
 * `next`. */
IN_512 __m512 pool3_shift_left_avx512(__m512 v, __m512 next) {
  return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(next),
                                                 _mm512_castps_si512(v), 1));
}

/* Returns the gradients of the windows whose largest element is x, and removes
 * them from *out_gradient. */
IN_512 __m512 pool3_take_gradient_avx512(__m512 x, __m512 largest,
                                         __m512 *out_gradient) {
  const __mmask16 hit = _mm512_cmp_ps_mask(x, largest, _CMP_EQ_OQ);
  const __m512i all = _mm512_castps_si512(*out_gradient);
  const __m512i gets = _mm512_maskz_mov_epi32(hit, all);
  *out_gradient = _mm512_castsi512_ps(_mm512_xor_si512(all, gets));
  return _mm512_castsi512_ps(gets);
}

/* Returns the mask of the elements that are NaN. */
IN_512 uint32_t pool3_find_nan_avx512(__m512 v) {
  return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
}

#define POOL3_NAME(x) x##_avx2
#define POOL3_TARGET TN_KERNEL_AVX2
#define POOL3_VECTOR __m256
#define POOL3_LANES 8
#include "pool_3x3_line.h"

#define POOL3_NAME(x) x##_avx512
#define POOL3_TARGET TN_KERNEL_AVX512
#define POOL3_VECTOR __m512
#define POOL3_LANES 16
#include "pool_3x3_line.h"

#undef REGISTERS
#undef IN_256
#undef IN_512

/* ------------------------------------------------------------------ images */

/* Whether the functions of this file can compute a call: the largest of 3 x 3
 * windows of floats with step 2. */
static inline int pool3_has_windows(const nn_pool_image *image) {
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  if (image->level == 0 || image->dtype != TN_F32 || p->kind != NN_POOL_MAX ||
      image->add)
    return 0;
  if (w->kernel[0] != 1 || w->stride[0] != 1 || w->pad[0] != 0) return 0;
  for (int d = 1; d < NN_WINDOW_RANK; ++d)
    if (w->kernel[d] != POOL3_SIDE || w->stride[d] != 2 || w->pad[d] > 1)
      return 0;
  return 1;
}

/* Number of patches of `lanes` windows in a line. */
static inline int64_t pool3_count_patches(const nn_window *w, int64_t lanes) {
  const int64_t columns = w->in[2] - (1 - w->pad[2]);
  return (nn_max((columns + 1) / 2, w->out[2]) + lanes - 1) / lanes;
}

/* Number of floats of scratch memory that pool3_backward needs. */
static inline int64_t pool3_count_scratch(const nn_window *w) {
  enum { MOST = 16 };
  return w->in[2] + pool3_count_patches(w, MOST) * POOL3_SIDE * MOST;
}

/* Computes the gradient of one plane of an image; returns whether `out`
 * contains NaN. */
static int pool3_compute_plane(const pool3_call *t, const float *data,
                               int64_t plane, nn_writer *writer) {
  const nn_window *w = &t->image->pool->window;
  const int64_t n = w->in[2], at = plane * w->out[1] * w->out[2];
  const float *out = (const float *)t->image->out + at;
  const float *out_gradient = (const float *)t->image->out_gradient + at;
  memset(t->shared, 0,
         (size_t)(t->patches * POOL3_SIDE * t->lanes) * sizeof *t->shared);
  int64_t line = -w->pad[1];
  int nan = 0;
  for (int64_t o = 0; line < w->in[1]; ++o, line += 2) {
    const int exists = o < w->out[1];
    pool3_line l = {
        .windows = exists ? w->out[2] : 0,
        .out = out + (exists ? o * w->out[2] : 0),
        .out_gradient = out_gradient + (exists ? o * w->out[2] : 0)};
    float *to = nn_writer_begin_line(writer);
    int64_t lines = 0;
    for (int64_t k = 0; k < POOL3_SIDE; ++k) {
      const int is_inside = line + k >= 0 && line + k < w->in[1];
      l.from[k] = is_inside ? data + (line + k) * n : t->nothing;
      if (is_inside && k < 2) l.to[k] = to + lines++ * n;
    }
    prefetch_line_f32(data + (line + PREFETCH_DISTANCE) * n, 2 * n);
    prefetch_line_f32(l.out + w->out[1] * w->out[2], w->out[2]);
    prefetch_line_f32(l.out_gradient + w->out[1] * w->out[2], w->out[2]);
    nan |= t->windows(t, &l);
    nn_writer_end_line(writer, lines * n * (int64_t)sizeof *to);
  }
  return nan;
}

/* Computes the gradient of an image that pool3_has_windows accepts. Returns 0
 * if `out` contains NaN; the result is then invalid. */
static int pool3_backward(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const uintptr_t at =
      (uintptr_t)image->to | (uintptr_t)w->in[2] * sizeof(float);
  const int wide = image->level == TN_KERNEL_N_LEVELS - 1;
  const int64_t lanes = wide ? 16 : 8;
  pool3_call t = {
      .image = image,
      .windows = wide ? pool3_compute_line_avx512 : pool3_compute_line_avx2,
      .lanes = lanes,
      .shift = 1 - w->pad[2],
      .columns = w->in[2] - (1 - w->pad[2]),
      .patches = pool3_count_patches(w, lanes),
      .streams = image->buffer && w->pad[2] == 1 && at % NN_WRITER_LINE == 0,
      .nothing = image->scratch};
  nn_writer writer =
      nn_writer_open(image->to, t.streams ? NULL : image->buffer, image->level);
  int nan = 0;
  t.shared = t.nothing + w->in[2];
  for (int64_t i = 0; i < w->in[2]; ++i) t.nothing[i] = NAN;
  for (int64_t plane = 0; plane < w->in[0]; ++plane)
    nan |= pool3_compute_plane(
        &t, (const float *)image->data + plane * w->in[1] * w->in[2], plane,
        &writer);
  nn_writer_close(&writer);
  if (t.streams) _mm_sfence();
  return !nan;
}
