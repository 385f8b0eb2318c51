/* SPDX-License-Identifier: Apache-2.0
 * The loop of limit.h: the widest vectors that the processor has, ordinary
 * stores or non-temporal ones, on huge pages.
 */
#include "limit.h"

#include <stdlib.h>

#include "call.h"
#include "measure.h"
#include "team.h"

/* `b` is NULL where one array is read. */
typedef void loop_fn(const float *a, const float *b, float *out, int64_t n);

/* -------------------------------------------------------------------- loops */

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static void add_512(const float *a,
                                                       const float *b,
                                                       float *out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16)
    _mm512_store_ps(
        out + i, _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i)));
}

__attribute__((target("avx512f"))) static void stream_512(const float *a,
                                                          const float *b,
                                                          float *out,
                                                          int64_t n) {
  for (int64_t i = 0; i < n; i += 16)
    _mm512_stream_ps(
        out + i, _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i)));
  _mm_sfence();
}

__attribute__((target("avx"))) static void add_256(const float *a,
                                                   const float *b, float *out,
                                                   int64_t n) {
  for (int64_t i = 0; i < n; i += 8)
    _mm256_store_ps(
        out + i, _mm256_add_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i)));
}

__attribute__((target("avx"))) static void stream_256(const float *a,
                                                      const float *b,
                                                      float *out, int64_t n) {
  for (int64_t i = 0; i < n; i += 8)
    _mm256_stream_ps(
        out + i, _mm256_add_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i)));
  _mm_sfence();
}

#define DOUBLED(name, target_isa, vector, step, load, add, store, fence) \
  __attribute__((target(target_isa))) static void name(                  \
      const float *a, const float *b, float *out, int64_t n) {           \
    (void)b;                                                             \
    for (int64_t i = 0; i < n; i += step) {                              \
      const vector x = load(a + i);                                      \
      store(out + i, add(x, x));                                         \
    }                                                                    \
    fence;                                                               \
  }
DOUBLED(double_512, "avx512f", __m512, 16, _mm512_load_ps, _mm512_add_ps,
        _mm512_store_ps, (void)0)
DOUBLED(double_stream_512, "avx512f", __m512, 16, _mm512_load_ps, _mm512_add_ps,
        _mm512_stream_ps, _mm_sfence())
DOUBLED(double_256, "avx", __m256, 8, _mm256_load_ps, _mm256_add_ps,
        _mm256_store_ps, (void)0)
DOUBLED(double_stream_256, "avx", __m256, 8, _mm256_load_ps, _mm256_add_ps,
        _mm256_stream_ps, _mm_sfence())

static loop_fn *loop_of(uint32_t n_in, enum limit_store store) {
  static loop_fn *const loops[2][2][2] = {
      {{double_256, double_stream_256}, {add_256, stream_256}},
      {{double_512, double_stream_512}, {add_512, stream_512}}};
  const int wide = __builtin_cpu_supports("avx512f") != 0;
  return loops[wide][n_in == 2][store];
}

#else

static void add_plain(const float *a, const float *b, float *out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

static void double_plain(const float *a, const float *b, float *out,
                         int64_t n) {
  (void)b;
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + a[i];
}

static loop_fn *loop_of(uint32_t n_in, enum limit_store store) {
  (void)store;
  return n_in == 2 ? add_plain : double_plain;
}

#endif

/* ------------------------------------------------------------------ threads */

/* The whole of it; each thread takes a part. */
typedef struct work {
  loop_fn *loop;
  const float *a;
  const float *b;
  float *out;
  float *back; /* reads `out` afterwards; NULL: no reader */
  int64_t n;
  uint32_t threads;
} work;

static void run_part(void *arg, uint32_t i) {
  const work *w = arg;
  const int64_t each = w->n / (int64_t)w->threads / 16 * 16;
  const int64_t begin = each * i;
  const int64_t n = i + 1 < w->threads ? each : w->n - begin;
  w->loop(w->a + begin, w->b ? w->b + begin : NULL, w->out + begin, n);
}

static void there_and_back(void *arg, uint32_t i) {
  const work *w = arg;
  work back = {w->loop, w->out, NULL, w->back, NULL, w->n, w->threads};
  run_part(arg, i);
  run_part(&back, i);
}

double limit_each(int64_t n, uint32_t n_in, uint32_t threads,
                  enum limit_store store) {
  float *a = measure_floats(n), *b = n_in == 2 ? measure_floats(n) : NULL,
        *out = measure_floats(n);
  work w = {loop_of(n_in, store), a, b, out, NULL, n, threads};
  const double taken = team_each(run_part, &w, threads, ADD_SECONDS);
  free(a);
  free(b);
  free(out);
  return taken;
}

double limit_each_read_next(int64_t n, uint32_t threads,
                            enum limit_store store) {
  float *a = measure_floats(n), *out = measure_floats(n);
  work w = {loop_of(1, store), a, NULL, out, a, n, threads};
  const double taken = team_each(there_and_back, &w, threads, ADD_SECONDS);
  free(a);
  free(out);
  return taken / 2;
}
