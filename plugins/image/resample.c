/* SPDX-License-Identifier: Apache-2.0
 * resample.c: resample.h. A slice computes the rows of the input that its own
 * rows need along x, and combines them along y.
 */
#include "resample.h"

#include <string.h>

#include "tenon/kernel/kernel.h"

enum {
  HALF = 1 << (IMAGE_FIXED_BITS - 1),
  PART = 512 /* elements of a row that are summed at a time */
};

TN_KERNEL_INLINE uint8_t clip_sum(int32_t sum) {
  const int32_t x = sum >> IMAGE_FIXED_BITS;
  return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* Rows of the input that rows [begin, end) need. */
static void find_rows(const image_taps *down, int64_t begin, int64_t end,
                      int64_t *first, int64_t *last) {
  *first = INT64_MAX;
  *last = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t stop = down->first[i] + down->count[i];
    if (down->first[i] < *first) *first = down->first[i];
    if (stop > *last) *last = stop;
  }
}

/* ------------------------------------------------------------------- bytes */

/* Pixel i of a row. */
TN_KERNEL_INLINE void sum_pixel_u8(const image_taps *t, int64_t i,
                                   const uint8_t *row, uint8_t *out,
                                   const int64_t channels) {
  const int32_t *w = t->fixed + i * t->most;
  const uint8_t *p = row + t->first[i] * channels;
  for (int64_t c = 0; c < channels; ++c) {
    int32_t sum = HALF;
    for (int64_t k = 0; k < t->count[i]; ++k) sum += w[k] * p[k * channels + c];
    out[i * channels + c] = clip_sum(sum);
  }
}

static void sum_row_u8(const image_taps *t, const uint8_t *row, uint8_t *out,
                       int64_t channels) {
  for (int64_t i = 0; i < t->n; ++i) {
    if (channels == 3)
      sum_pixel_u8(t, i, row, out, 3);
    else if (channels == 1)
      sum_pixel_u8(t, i, row, out, 1);
    else
      sum_pixel_u8(t, i, row, out, channels);
  }
}

/* Rows that are combined along y. */
typedef struct row_block {
  const void *at; /* the first one */
  int64_t stride; /* elements from one to the next */
  int64_t n;      /* elements of a row */
} row_block;

TN_KERNEL_INLINE void sum_column_u8(const image_taps *t, int64_t i,
                                    const row_block *rows, uint8_t *out) {
  const int32_t *w = t->fixed + i * t->most;
  for (int64_t begin = 0; begin < rows->n; begin += PART) {
    int32_t sum[PART];
    const int64_t part = rows->n - begin < PART ? rows->n - begin : PART;
    for (int64_t x = 0; x < part; ++x) sum[x] = HALF;
    for (int64_t k = 0; k < t->count[i]; ++k) {
      const uint8_t *row = (const uint8_t *)rows->at + k * rows->stride + begin;
      const int32_t weight = w[k];
      for (int64_t x = 0; x < part; ++x) sum[x] += weight * row[x];
    }
    for (int64_t x = 0; x < part; ++x) out[begin + x] = clip_sum(sum[x]);
  }
}

static void sum_column_base(const image_taps *t, int64_t i,
                            const row_block *rows, uint8_t *out) {
  sum_column_u8(t, i, rows, out);
}

#if defined(__GNUC__) && defined(__x86_64__)

static TN_KERNEL_AVX2 void sum_column_avx2(const image_taps *t, int64_t i,
                                           const row_block *rows,
                                           uint8_t *out) {
  sum_column_u8(t, i, rows, out);
}

/* Loads 4 bytes as 4 numbers. */
TN_KERNEL_INLINE TN_KERNEL_AVX2 __m128i load_pixel(const uint8_t *p) {
  int32_t four;
  memcpy(&four, p, sizeof four);
  return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
}

/* Loads two neighbouring pixels of 3 or 4 bytes; `order` moves the second one
 * to the upper half. */
TN_KERNEL_INLINE TN_KERNEL_AVX2 __m256i load_pixels(const uint8_t *p,
                                                    __m128i order) {
  const __m128i both = _mm_loadl_epi64((const __m128i *)(const void *)p);
  return _mm256_cvtepu8_epi32(_mm_shuffle_epi8(both, order));
}

/* Sums of a pixel of 3 or 4 channels, before they are rounded. Of 3 channels,
 * the fourth sum has no meaning. Reads up to 2 bytes after the last pixel. */
TN_KERNEL_INLINE TN_KERNEL_AVX2 __m128i sum_pixel_avx2(const int32_t *w,
                                                       int64_t count,
                                                       const uint8_t *p,
                                                       int64_t channels,
                                                       __m128i order) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  __m256i sums = _mm256_setzero_si256();
  int64_t k = 0;
  for (; k + 2 <= count; k += 2, p += 2 * channels) {
    const __m128i pair =
        _mm_loadl_epi64((const __m128i *)(const void *)(w + k));
    const __m256i weights =
        _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(pair), twice);
    sums = _mm256_add_epi32(sums,
                            _mm256_mullo_epi32(load_pixels(p, order), weights));
  }
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums),
                              _mm256_extracti128_si256(sums, 1));
  if (k < count)
    sum = _mm_add_epi32(sum,
                        _mm_mullo_epi32(load_pixel(p), _mm_set1_epi32(w[k])));
  return sum;
}

/* Rows of 3 or 4 channels. The last pixels of a row are summed one by one,
 * because the bytes after them may not be readable. */
static TN_KERNEL_AVX2 void sum_row_avx2(const image_taps *t, int64_t n_in,
                                        const uint8_t *row, uint8_t *out,
                                        int64_t channels) {
  const char c = (char)channels;
  const __m128i half = _mm_set1_epi32(HALF);
  const __m128i order =
      _mm_setr_epi8(0, 1, 2, 3, c, (char)(c + 1), (char)(c + 2), (char)(c + 3),
                    -1, -1, -1, -1, -1, -1, -1, -1);
  for (int64_t i = 0; i < t->n; ++i) {
    uint8_t pixel[4];
    if (t->first[i] + t->count[i] >= n_in) {
      sum_pixel_u8(t, i, row, out, channels);
      continue;
    }
    __m128i sum = sum_pixel_avx2(t->fixed + i * t->most, t->count[i],
                                 row + t->first[i] * channels, channels, order);
    sum = _mm_srai_epi32(_mm_add_epi32(sum, half), IMAGE_FIXED_BITS);
    sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
    const int32_t four = _mm_cvtsi128_si32(sum);
    memcpy(pixel, &four, sizeof four);
    memcpy(out + i * channels, pixel, 3);
    if (channels == 4) out[i * 4 + 3] = pixel[3];
  }
}

#endif

/* Computes one row along x. */
static void resample_row_u8(const image_resampling *r, int64_t n_in,
                            const uint8_t *row, uint8_t *out) {
#if defined(__GNUC__) && defined(__x86_64__)
  if (r->level > 0 && (r->channels == 3 || r->channels == 4)) {
    sum_row_avx2(&r->across, n_in, row, out, r->channels);
    return;
  }
#endif
  (void)n_in;
  sum_row_u8(&r->across, row, out, r->channels);
}

/* Computes one row along y. */
static void combine_rows_u8(const image_resampling *r, int64_t i,
                            const row_block *rows, uint8_t *out) {
#if defined(__GNUC__) && defined(__x86_64__)
  if (r->level > 0) {
    sum_column_avx2(&r->down, i, rows, out);
    return;
  }
#endif
  sum_column_base(&r->down, i, rows, out);
}

/* The largest column that a row is read at, and 1. */
static int64_t count_columns(const image_taps *across) {
  int64_t most = 0;
  for (int64_t i = 0; i < across->n; ++i)
    if (across->first[i] + across->count[i] > most)
      most = across->first[i] + across->count[i];
  return most;
}

bool image_resample_u8(const image_resampling *r, int64_t begin, int64_t end,
                       image_room *middle) {
  const int64_t n = r->across.n * r->channels;
  const uint8_t *rows = (const uint8_t *)r->from;
  int64_t stride = r->from_stride, first = 0, last;
  if (begin >= end || n == 0) return true;
  if (!r->across.is_identity) {
    find_rows(&r->down, begin, end, &first, &last);
    uint8_t *between = image_reserve(middle, last - first, n);
    if (!between) return false;
    const int64_t n_in = count_columns(&r->across);
    for (int64_t y = first; y < last; ++y)
      resample_row_u8(r, n_in, rows + y * stride, between + (y - first) * n);
    rows = between;
    stride = n;
  }
  for (int64_t i = begin; i < end; ++i) {
    const row_block block = {rows + (r->down.first[i] - first) * stride, stride,
                             n};
    uint8_t *to = (uint8_t *)r->to + i * r->to_stride;
    if (r->down.is_identity)
      memcpy(to, block.at, (size_t)n);
    else
      combine_rows_u8(r, i, &block, to);
  }
  return true;
}

/* ------------------------------------------------------------------ floats */

TN_KERNEL_INLINE void sum_pixels_f32(const image_taps *t, const float *row,
                                     float *out, const int64_t channels) {
  for (int64_t i = 0; i < t->n; ++i) {
    const float *w = t->weight + i * t->most;
    const float *p = row + t->first[i] * channels;
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < t->count[i]; ++k)
        sum += w[k] * p[k * channels + c];
      out[i * channels + c] = sum;
    }
  }
}

static void sum_column_f32(const image_taps *t, int64_t i,
                           const row_block *rows, float *out) {
  const float *w = t->weight + i * t->most;
  for (int64_t x = 0; x < rows->n; ++x) out[x] = 0;
  for (int64_t k = 0; k < t->count[i]; ++k) {
    const float *row = (const float *)rows->at + k * rows->stride;
    const float weight = w[k];
    for (int64_t x = 0; x < rows->n; ++x) out[x] += weight * row[x];
  }
}

bool image_resample_f32(const image_resampling *r, int64_t begin, int64_t end,
                        image_room *middle) {
  const int64_t n = r->across.n * r->channels;
  int64_t first, last;
  if (begin >= end || n == 0) return true;
  find_rows(&r->down, begin, end, &first, &last);
  if (last - first > INT64_MAX / n) return false;
  float *between = image_reserve(middle, (last - first) * n, sizeof(float));
  if (!between) return false;
  for (int64_t y = first; y < last; ++y) {
    const float *row = (const float *)r->from + y * r->from_stride;
    float *out = between + (y - first) * n;
    if (r->channels == 3)
      sum_pixels_f32(&r->across, row, out, 3);
    else if (r->channels == 1)
      sum_pixels_f32(&r->across, row, out, 1);
    else
      sum_pixels_f32(&r->across, row, out, r->channels);
  }
  for (int64_t i = begin; i < end; ++i) {
    const row_block block = {between + (r->down.first[i] - first) * n, n, n};
    sum_column_f32(&r->down, i, &block, (float *)r->to + i * r->to_stride);
  }
  return true;
}
