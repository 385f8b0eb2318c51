/* SPDX-License-Identifier: Apache-2.0
 * loop_stress.c: several threads run loops on one engine, also nested and
 * failing ones. Each slice writes its own plain variable, so a slice that runs
 * twice, or is read too early, is a race. Meant for ThreadSanitizer; a plain
 * program, because Criterion does not start under it.
 *
 *   loop_stress [loops per thread] [seed]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "graph.h"

enum { THREADS = 3, WORKERS = 4, MOST = 600, INNER = 20 };

static tn__engine *engine;
static uint64_t seed = 1;

typedef struct looper {
  pthread_t thread;
  uint64_t state;
  int64_t loops;
  int64_t n;
  int64_t grain;
  int64_t fails;   /* the slice with this element fails, and some after it */
  uint32_t work;   /* of a slice */
  bool nested;     /* each slice has its own loop */
  int ran[MOST];   /* by element */
  int inner[MOST]; /* by slice: elements of its inner loop */
  int parts[MOST][INNER];
} looper;

static void die(const char *subject) {
  (void)fprintf(stderr, "loop_stress: %s (seed %llu)\n", subject,
                (unsigned long long)seed);
  exit(1);
}

static int32_t run_inner(void *arg, int64_t begin, int64_t end) {
  int *parts = (int *)arg;
  for (int64_t i = begin; i < end; ++i) ++parts[i];
  return TN_OK;
}

static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  looper *self = (looper *)arg;
  for (int64_t i = begin; i < end; ++i) ++self->ran[i];
  for (volatile uint32_t i = 0; i < self->work;) i = i + 1;
  if (self->nested) {
    int *parts = self->parts[begin / self->grain];
    memset(parts, 0, sizeof self->parts[0]);
    if (tn__parallel_for(engine, INNER, 3, run_inner, parts) != TN_OK)
      die("an inner loop failed");
    for (int i = 0; i < INNER; ++i)
      self->inner[begin / self->grain] += parts[i];
  }
  if (begin <= self->fails && self->fails < end) return 1000;
  return begin > self->fails && begin % 3 == 0 ? 1001 : TN_OK;
}

static void check_run(const looper *self, int32_t code) {
  const bool fails = self->fails < self->n;
  const int64_t whole = fails ? self->fails + 1 : self->n;
  if (code != (fails ? 1000 : TN_OK)) die("another code than the lowest");
  for (int64_t i = 0; i < self->n; ++i) {
    if (self->ran[i] > 1) die("a slice was run twice");
    if (i < whole && self->ran[i] != 1) die("a slice was left out");
    if (self->nested && self->ran[i] != 0 &&
        self->inner[i / self->grain] != INNER)
      die("an inner loop is not whole");
  }
}

static int64_t draw_below(looper *self, uint64_t n) {
  return (int64_t)(next_random(&self->state) % n);
}

static void *run_loops(void *arg) {
  looper *self = (looper *)arg;
  for (int64_t i = 0; i < self->loops; ++i) {
    memset(self->ran, 0, sizeof self->ran);
    memset(self->inner, 0, sizeof self->inner);
    self->n = 1 + draw_below(self, MOST);
    self->grain = 1 + draw_below(self, 12);
    self->fails = draw_below(self, 4) == 0 ? draw_below(self, MOST) : INT64_MAX;
    self->work = (uint32_t)draw_below(self, 2000);
    self->nested = draw_below(self, 5) == 0;
    check_run(self,
              tn__parallel_for(engine, self->n, self->grain, run_slice, self));
  }
  return NULL;
}

int main(int argc, char **argv) {
  static looper loopers[THREADS];
  const int64_t loops = argc > 1 ? atoll(argv[1]) : 2000;
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  (void)printf("loop_stress: seed %llu\n", (unsigned long long)seed);
  const tn__engine_options options = {.env = tn__env_default(),
                                      .workers = WORKERS};
  if (tn__engine_create(&options, &engine) != TN_OK) die("no engine");
  for (int i = 0; i < THREADS; ++i) {
    loopers[i].state = seed + 1 + (uint64_t)i * 7919;
    loopers[i].loops = loops;
    if (pthread_create(&loopers[i].thread, NULL, run_loops, &loopers[i]) != 0)
      die("no thread");
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(loopers[i].thread, NULL);
  tn__engine_destroy(engine);
  return 0;
}
