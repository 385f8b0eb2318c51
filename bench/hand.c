/* SPDX-License-Identifier: Apache-2.0
 * Which of the loops of hand_loops.h runs, and how it is cut among threads.
 */
#include "hand.h"

#include <stddef.h>
#include <string.h>

#include "call.h"
#include "measure.h"
#include "team.h"

typedef void hand_fn(const hand_work *work);

typedef struct hand_loop {
  const char *name;
  hand_fn *run;
} hand_loop;

enum { N_LOOPS = 16 };

#if defined(__x86_64__)
#include <immintrin.h>

/* ----------------------------------------------------------------- AVX-512 */

#define VECTOR __m512
#define WIDTH 16
#define TARGET "avx512f,avx512bw,avx512dq,avx512vl,fma"
#define NAMED(name) name##_512
#define V(intrinsic) _mm512_##intrinsic
#define V_ROUND(x) _mm512_roundscale_ps(x, 0)
#define V_SCALE(x, k) _mm512_scalef_ps(x, k)
#define V_SIGN_OF(x, sign) \
  _mm512_or_ps(x, _mm512_and_ps(sign, NAMED(all)(-0.0f)))
#define V_EVEN(low, high)                                                     \
  _mm512_permutex2var_ps(low,                                                 \
                         _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, \
                                          12, 10, 8, 6, 4, 2, 0),             \
                         high)
#define V_HALVES(at) _mm256_loadu_si256((const __m256i *)(const void *)(at))
#define V_STORE_HALVES(at, x) _mm256_storeu_si256((__m256i *)(void *)(at), x)
#define V_LOAD_F16(at) _mm512_cvtph_ps(V_HALVES(at))
#define V_STORE_F16(at, x) V_STORE_HALVES(at, _mm512_cvtps_ph(x, 0))
#define V_LOAD_BF16(at) \
  _mm512_castsi512_ps(  \
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(V_HALVES(at)), 16))
#define V_STORE_BF16(at, x) \
  V_STORE_HALVES(at, _mm512_cvtepi32_epi16(NAMED(upper_half)(x)))

/* Rounded to nearest, ties to even. */
static inline __attribute__((target(TARGET), always_inline)) __m512i NAMED(
    upper_half)(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i sum =
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_srli_epi32(sum, 16);
}

#include "hand_loops.h"

#undef V_HALVES
#undef V_STORE_HALVES

/* -------------------------------------------------------------------- AVX2 */

#define VECTOR __m256
#define WIDTH 8
#define TARGET "avx2,fma,f16c"
#define NAMED(name) name##_256
#define V(intrinsic) _mm256_##intrinsic
#define V_ROUND(x) \
  _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_SCALE(x, k)                   \
  _mm256_castsi256_ps(_mm256_add_epi32( \
      _mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(k), 23)))
#define V_SIGN_OF(x, sign) \
  _mm256_or_ps(x, _mm256_and_ps(sign, NAMED(all)(-0.0f)))
#define V_EVEN(low, high)                 \
  _mm256_castpd_ps(_mm256_permute4x64_pd( \
      _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88)), 0xd8))
#define V_HALVES(at) _mm_loadu_si128((const __m128i *)(const void *)(at))
#define V_STORE_HALVES(at, x) _mm_storeu_si128((__m128i *)(void *)(at), x)
#define V_LOAD_F16(at) _mm256_cvtph_ps(V_HALVES(at))
#define V_STORE_F16(at, x) V_STORE_HALVES(at, _mm256_cvtps_ph(x, 0))
#define V_LOAD_BF16(at) \
  _mm256_castsi256_ps(  \
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(V_HALVES(at)), 16))
#define V_STORE_BF16(at, x) V_STORE_HALVES(at, NAMED(upper_half)(x))

static inline __attribute__((target(TARGET), always_inline)) __m128i NAMED(
    upper_half)(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum =
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i upper = _mm256_srli_epi32(sum, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper),
                          _mm256_extracti128_si256(upper, 1));
}

#include "hand_loops.h"

static const hand_loop *loops_here(void) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return loops_512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return loops_256;
  return NULL;
}
#else
static const hand_loop *loops_here(void) {
  return NULL;
}
#endif

/* ------------------------------------------------------------------ threads */

typedef struct shared_work {
  const hand_work *work;
  hand_fn *run;
  uint32_t threads;
} shared_work;

static const void *skip_elements(const void *at, int64_t elements,
                                 int64_t bytes) {
  return (const char *)at + elements * bytes;
}

static int64_t skipped_of_b(const hand_work *w, int64_t begin) {
  if (w->layout == HAND_ROW) return 0;
  return w->layout == HAND_COLUMN ? begin / w->columns : begin;
}

static void run_part(void *arg, uint32_t i) {
  const shared_work *s = arg;
  const hand_work *w = s->work;
  const int64_t rows = w->n / w->columns;
  const int64_t begin = rows * i / s->threads * w->columns;
  const int64_t end = rows * (i + 1) / s->threads * w->columns;
  hand_work mine = *w;
  mine.a = skip_elements(w->a, w->layout == HAND_STRIDED ? 2 * begin : begin,
                         w->bytes);
  mine.b = skip_elements(w->b, skipped_of_b(w, begin), w->bytes);
  mine.out = (char *)w->out + begin * w->bytes;
  mine.n = end - begin;
  s->run(&mine);
}

double hand_each(const hand_work *work, uint32_t threads) {
  const hand_loop *loops = loops_here();
  shared_work s = {.work = work, .threads = threads};
  for (int i = 0; loops && i < N_LOOPS; ++i)
    if (strcmp(loops[i].name, work->name) == 0) s.run = loops[i].run;
  return s.run ? team_each(run_part, &s, threads, ADD_SECONDS) : 0;
}
