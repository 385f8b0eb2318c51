/* SPDX-License-Identifier: Apache-2.0
 * Clock, repetition, counts and the counting allocator of measure.h.
 */
#include "measure.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 64, BATCHES = 5, SINGLES = 4096 };
static const double enough = 0.05; /* seconds of one measurement of tasks */
static const double slow = 1;      /* after so many, once has to do */

/* ------------------------------------------------------------- repetition */

double measure_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void measure_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

static double time_runs(void (*once)(void *arg), void *arg, uint64_t times) {
  const double begin = measure_now();
  for (uint64_t i = 0; i < times; ++i) once(arg);
  return measure_now() - begin;
}

static int order_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double measure_each(void (*once)(void *arg), void *arg, double seconds) {
  double taken[BATCHES];
  uint64_t times = 1;
  once(arg);
  while (time_runs(once, arg, times) < seconds / BATCHES) times *= 2;
  for (int i = 0; i < BATCHES; ++i) taken[i] = time_runs(once, arg, times);
  qsort(taken, BATCHES, sizeof *taken, order_doubles);
  return 1e9 * taken[BATCHES / 2] / (double)times;
}

double measure_single(void (*once)(void *arg), void *arg, double seconds) {
  static double taken[SINGLES];
  int n = 0;
  once(arg);
  for (const double begin = measure_now();
       n < BATCHES || (n < SINGLES && measure_now() - begin < seconds); ++n)
    taken[n] = time_runs(once, arg, 1);
  qsort(taken, (size_t)n, sizeof *taken, order_doubles);
  return 1e9 * taken[n / 2];
}

double measure_best(void (*once)(void *arg), void *arg, int rounds) {
  double best = time_runs(once, arg, 1);
  for (int i = 1; i < rounds; ++i) {
    const double taken = time_runs(once, arg, 1);
    if (taken < best) best = taken;
  }
  return 1e9 * best;
}

static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_timed(void (*once)(void *arg), void *arg, uint64_t times) {
  const double start = cpu_now();
  for (uint64_t i = 0; i < times; ++i) once(arg);
  return cpu_now() - start;
}

/* The clock is a call of the kernel, so it is read once in UNNOTICED. */
double measure_cpu(void (*once)(void *arg), void *arg, double seconds) {
  static const double UNNOTICED = 5e-5;
  double best = 0;
  uint64_t times = 1;
  once(arg);
  while (cpu_timed(once, arg, times) < UNNOTICED) times *= 2;
  for (int batch = 0; batch < BATCHES; ++batch) {
    double spent = 0;
    uint64_t n = 0;
    for (; spent < seconds / BATCHES; n += times)
      spent += cpu_timed(once, arg, times);
    if (batch == 0 || spent / (double)n < best) best = spent / (double)n;
  }
  return best * 1e9;
}

/* ------------------------------------------------------------------ tasks */

static measure_tally tallies[THREADS] __attribute__((aligned(128)));
static uint32_t n_tallies;
__thread measure_tally *measure_mine;

measure_tally *measure_join(void) {
  const uint32_t i = __atomic_fetch_add(&n_tallies, 1, __ATOMIC_RELAXED);
  if (i >= THREADS) measure_fail("more than %d threads", THREADS);
  return measure_mine = &tallies[i];
}

static void print_rate(const char *name, uint64_t tasks, double seconds) {
  uint64_t sum = 0;
  printf("%s %.3f ", name, 1e-6 * (double)tasks / seconds);
  for (uint32_t i = 0; i < n_tallies; ++i) {
    printf("%s%llu", i ? "+" : "", (unsigned long long)tallies[i].n);
    sum += tallies[i].n;
  }
  putchar('\n');
  fflush(stdout);
  if (sum != tasks)
    measure_fail("%s: %llu tasks ran, but there were %llu", name,
                 (unsigned long long)sum, (unsigned long long)tasks);
}

/* Repeats until it has taken `least` seconds; returns how many it took. */
static double count_runs(uint64_t *times, double least, void (*once)(void *arg),
                         void *arg) {
  const double begin = measure_now();
  double taken;
  *times = 0;
  for (uint32_t i = 0; i < n_tallies; ++i) tallies[i].n = 0;
  do {
    once(arg);
    ++*times;
    taken = measure_now() - begin;
  } while (taken < least);
  return taken;
}

void measure_tasks(const char *name, uint64_t tasks, void (*once)(void *arg),
                   void *arg) {
  uint64_t times;
  double taken = count_runs(&times, 0, once, arg);
  if (taken < slow) taken = count_runs(&times, enough, once, arg);
  print_rate(name, times * tasks, taken);
}

/* ----------------------------------------------------------------- memory */

float *measure_floats(int64_t n) {
  const size_t page = 2 << 20, bytes = (size_t)n * sizeof(float);
  float *memory = aligned_alloc(page, (bytes + page - 1) / page * page);
  if (!memory) measure_fail("no memory for %zu bytes", bytes);
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  for (int64_t i = 0; i < n; ++i) memory[i] = (float)i;
  return memory;
}

void *measure_alloc(void *ctx, size_t bytes, size_t align) {
  measure_ledger *ledger = ctx;
  void *memory = NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  if (posix_memalign(&memory, align, bytes)) return NULL;
  __atomic_fetch_add(&ledger->bytes, (int64_t)malloc_usable_size(memory),
                     __ATOMIC_RELAXED);
  __atomic_fetch_add(&ledger->pieces, 1, __ATOMIC_RELAXED);
  return memory;
}

void measure_free(void *ctx, void *memory) {
  measure_ledger *ledger = ctx;
  if (!memory) return;
  __atomic_fetch_sub(&ledger->bytes, (int64_t)malloc_usable_size(memory),
                     __ATOMIC_RELAXED);
  __atomic_fetch_sub(&ledger->pieces, 1, __ATOMIC_RELAXED);
  free(memory);
}
