/* SPDX-License-Identifier: Apache-2.0
 * The loop of limit.h: the widest vectors that the processor has, ordinary
 * stores or non-temporal ones, on huge pages.
 */
#include "limit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "call.h"
#include "measure.h"

enum { THREADS = 16 };
#define STOP UINT32_MAX /* share.go: the thread ends */

typedef void add_fn(const float *a, const float *b, float *out, int64_t n);

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

static add_fn *loop_of(enum limit_store store) {
  const int wide = __builtin_cpu_supports("avx512f");
  if (store == LIMIT_ORDINARY) return wide ? add_512 : add_256;
  return wide ? stream_512 : stream_256;
}

#else

static void add_plain(const float *a, const float *b, float *out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

static add_fn *loop_of(enum limit_store store) {
  (void)store;
  return add_plain;
}

#endif

/* ------------------------------------------------------------------ threads */

/* One thread's share. `done` follows `go`. */
typedef struct share {
  _Alignas(128) _Atomic uint32_t go;
  _Alignas(128) _Atomic uint32_t done;
  add_fn *add;
  const float *a;
  const float *b;
  float *out;
  int64_t n;
  pthread_t thread;
} share;

typedef struct team {
  share shares[THREADS]; /* the first is the caller's */
  uint32_t n;
} team;

static void work_on(const share *s) {
  s->add(s->a, s->b, s->out, s->n);
}

static void *lie_in_wait(void *arg) {
  share *s = arg;
  for (uint32_t seen = 0;;) {
    const uint32_t go = atomic_load_explicit(&s->go, memory_order_acquire);
    if (go == STOP) return NULL;
    if (go == seen) continue;
    work_on(s);
    seen = go;
    atomic_store_explicit(&s->done, go, memory_order_release);
  }
}

static void once(void *arg) {
  team *t = arg;
  for (uint32_t i = 1; i < t->n; ++i)
    atomic_fetch_add_explicit(&t->shares[i].go, 1, memory_order_release);
  work_on(&t->shares[0]);
  for (uint32_t i = 1; i < t->n; ++i)
    while (atomic_load_explicit(&t->shares[i].done, memory_order_acquire) !=
           atomic_load_explicit(&t->shares[i].go, memory_order_relaxed))
      continue;
}

static float *floats(int64_t n) {
  const size_t bytes = (size_t)n * sizeof(float);
  float *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) measure_fail("no memory for %zu bytes", bytes);
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  for (int64_t i = 0; i < n; ++i) memory[i] = (float)i;
  return memory;
}

static void start(team *t, uint32_t threads) {
  t->n = threads;
  for (uint32_t i = 1; i < threads; ++i)
    if (pthread_create(&t->shares[i].thread, NULL, lie_in_wait, &t->shares[i]))
      measure_fail("no thread");
}

static void stop(team *t) {
  for (uint32_t i = 1; i < t->n; ++i) {
    atomic_store(&t->shares[i].go, STOP);
    pthread_join(t->shares[i].thread, NULL);
  }
}

double limit_add(int64_t n, uint32_t threads, enum limit_store store) {
  static team t;
  float *a = floats(n), *b = floats(n), *out = floats(n);
  const int64_t each = n / (int64_t)threads / 16 * 16;
  double taken;
  if (threads < 1 || threads > THREADS) measure_fail("1 to 16 threads");
  t = (team){0};
  for (uint32_t i = 0; i < threads; ++i) {
    const int64_t begin = each * i;
    t.shares[i] = (share){.add = loop_of(store),
                          .a = a + begin,
                          .b = b + begin,
                          .out = out + begin,
                          .n = i + 1 < threads ? each : n - begin};
  }
  start(&t, threads);
  taken = measure_each(once, &t, ADD_SECONDS);
  stop(&t);
  munmap(a, (size_t)n * sizeof(float));
  munmap(b, (size_t)n * sizeof(float));
  munmap(out, (size_t)n * sizeof(float));
  return taken;
}
