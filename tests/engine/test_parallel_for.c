/* SPDX-License-Identifier: Apache-2.0
 * parallel_for: its slices, for every number of workers, and its failures.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine_state.h"
#include "fixture.h"
#include "graph.h"
#include "pool.h"

enum { MOST = 4096 };

/* The slices that ran, and how often. */
typedef struct record {
  int64_t n;
  int64_t grain;
  _Atomic int seen[MOST];
  _Atomic int wrong; /* calls with bounds that are no slice of the loop */
} record;

static int32_t note_slice(void *arg, int64_t begin, int64_t end) {
  record *self = (record *)arg;
  const int64_t slice = begin / self->grain;
  const int64_t rest = self->n - begin;
  const int64_t length = rest < self->grain ? rest : self->grain;
  if (begin % self->grain != 0 || end - begin != length)
    atomic_fetch_add(&self->wrong, 1);
  else
    atomic_fetch_add(&self->seen[slice], 1);
  return TN_OK;
}

static void expect_each_once(const record *self, const char *title) {
  const int64_t n = self->n / self->grain + (self->n % self->grain != 0);
  cr_assert_eq(self->wrong, 0, "%s", title);
  for (int64_t i = 0; i < MOST; ++i)
    cr_assert_eq(self->seen[i], i < n, "%s: slice %lld of %lld", title,
                 (long long)i, (long long)n);
}

static void expect_slices(tn__engine *engine, int64_t n, int64_t grain,
                          const char *title) {
  static record self;
  memset(&self, 0, sizeof self);
  self.n = n > 0 ? n : 0;
  self.grain = grain > 0 ? grain : 1;
  cr_assert_eq(tn__parallel_for(engine, n, grain, note_slice, &self), TN_OK);
  expect_each_once(&self, title);
}

Test(parallel_for, the_grain_decides_the_slices_and_each_runs_once) {
  static const int64_t lengths[] = {1, 2, 3, 7, 64, 100, 1000, 4096};
  static const int64_t grains[] = {1, 2, 3, 10, 64, 4096, 5000, INT64_MAX};
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    for (size_t i = 0; i < 8; ++i)
      for (size_t j = 0; j < 8; ++j)
        expect_slices(engine, lengths[i], grains[j], kinds[k].name);
    engine_close(engine);
  }
}

Test(parallel_for, of_nothing_calls_nothing_and_a_grain_below_one_is_one) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    expect_slices(engine, 0, 4, kinds[k].name);
    expect_slices(engine, -5, 4, kinds[k].name);
    expect_slices(engine, INT64_MIN, 1, kinds[k].name);
    expect_slices(engine, 9, 0, kinds[k].name);
    expect_slices(engine, 9, -3, kinds[k].name);
    expect_slices(engine, 9, INT64_MIN, kinds[k].name);
    engine_close(engine);
  }
}

static int32_t note_last(void *arg, int64_t begin, int64_t end) {
  int64_t *self = (int64_t *)arg;
  ++self[0];
  if (end == INT64_MAX) self[1] = begin;
  return TN_OK;
}

Test(parallel_for, the_greatest_loop_does_not_overflow) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    int64_t seen[2] = {0, 0};
    cr_assert_eq(
        tn__parallel_for(engine, INT64_MAX, INT64_MAX - 1, note_last, seen),
        TN_OK);
    cr_assert_eq(seen[0], 2);
    cr_assert_eq(seen[1], INT64_MAX - 1);
    engine_close(engine);
  }
}

/* ------------------------------------------------------------------ threads */

static void spin_us(int64_t us) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000000 +
             (now.tv_nsec - begin.tv_nsec) / 1000 <
         us);
}

typedef struct company {
  pthread_t caller;
  _Atomic int came;
} company;

/* The first slice is long enough to make help worth its while; the others end
 * when it has come. */
static int32_t await_company(void *arg, int64_t begin, int64_t end) {
  company *self = (company *)arg;
  (void)end;
  if (!pthread_equal(self->caller, pthread_self())) {
    atomic_store(&self->came, 1);
  } else if (begin == 0) {
    spin_us(1000);
  } else {
    while (atomic_load(&self->came) == 0) sched_yield();
  }
  return TN_OK;
}

Test(parallel_for, workers_take_part_in_long_loops, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    if (kinds[k].workers < 2) continue;
    tn__engine *engine = engine_open(&kinds[k]);
    company self = {.caller = pthread_self()};
    cr_assert_eq(tn__parallel_for(engine, 64, 1, await_company, &self), TN_OK);
    cr_assert_eq(self.came, 1, "%s", kinds[k].name);
    engine_close(engine);
  }
}

Test(parallel_for, fewer_slices_than_workers_are_shared, .timeout = 100) {
  tn__engine *engine = engine_pooled(8);
  company self = {.caller = pthread_self()};
  cr_assert_eq(tn__parallel_for(engine, 3, 1, await_company, &self), TN_OK);
  cr_assert_eq(self.came, 1);
  engine_close(engine);
}

/* The caller has long slices at first, then waits for participants. */
static int32_t work_and_await(void *arg, int64_t begin, int64_t end) {
  company *self = (company *)arg;
  (void)end;
  if (!pthread_equal(self->caller, pthread_self()))
    atomic_store(&self->came, 1);
  else if (begin < 20)
    spin_us(100);
  else
    while (atomic_load(&self->came) == 0) sched_yield();
  return TN_OK;
}

/* Both workers sleep, but one seems to search, like one that waits for the
 * caller's processor. */
Test(parallel_for, others_wake_up_if_searching_workers_do_not_come,
     .timeout = 100) {
  tn__engine *engine = engine_pooled(2);
  company self = {.caller = pthread_self()};
  tn__pool_start(engine->pool);
  while (atomic_load(&engine->pool->idle) != 2 * TN__ASLEEP) sched_yield();
  atomic_fetch_add(&engine->pool->idle, TN__SEARCHING);
  cr_assert_eq(tn__parallel_for(engine, 64, 1, work_and_await, &self), TN_OK);
  cr_assert_eq(self.came, 1);
  atomic_fetch_sub(&engine->pool->idle, TN__SEARCHING);
  engine_close(engine);
}

typedef struct hand {
  company company;
  tn__engine *engine;
  tn__var var;
  _Atomic int n;
  _Atomic int pushed;
  _Atomic int wrong;
} hand;

/* A participant tries to wait, and pushes. */
static int32_t wait_and_push(void *arg, int64_t begin, int64_t end) {
  hand *self = (hand *)arg;
  if (!pthread_equal(self->company.caller, pthread_self())) {
    if (tn__wait(self->engine, &self->var, TN__WAIT_ALL, TN__FOREVER) !=
        TN_INVALID)
      atomic_fetch_add(&self->wrong, 1);
    if (push(self->engine, run_count, &self->n, ON(U(self->var))) == TN_OK)
      atomic_fetch_add(&self->pushed, 1);
  }
  return await_company(&self->company, begin, end);
}

Test(parallel_for, a_slice_elsewhere_may_push_but_not_wait, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    if (kinds[k].workers < 2) continue;
    tn__engine *engine = engine_open(&kinds[k]);
    hand self = {.engine = engine, .company.caller = pthread_self()};
    cr_assert_eq(tn__parallel_for(engine, 64, 1, wait_and_push, &self), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(self.wrong, 0, "%s", kinds[k].name);
    cr_assert_gt(self.pushed, 0);
    cr_assert_eq(self.n, self.pushed);
    engine_close(engine);
  }
}

static int32_t expect_caller(void *arg, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  spin_us(50);
  return pthread_equal(*(pthread_t *)arg, pthread_self()) ? TN_OK : TN_INTERNAL;
}

/* Others could only release something meanwhile, which a slice may not. */
Test(parallel_for, between_enter_and_leave_the_caller_is_alone) {
  tn__engine *engine = engine_pooled(8);
  tn__var x = {0};
  _Atomic int n = 0;
  pthread_t self = pthread_self();
  cr_assert_eq(push(engine, run_count, &n, ON(U(x))), TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert(tn__gate_enter(engine));
  cr_assert_eq(tn__parallel_for(engine, 100, 1, expect_caller, &self), TN_OK);
  tn__gate_leave(engine);
  engine_close(engine);
}

typedef struct looper {
  tn__engine *engine;
  pthread_t thread;
  record record;
  tn_code rc;
} looper;

static void *loop_there(void *arg) {
  looper *self = (looper *)arg;
  for (int i = 0; i < 50 && self->rc == TN_OK; ++i)
    self->rc = tn__parallel_for(self->engine, self->record.n,
                                self->record.grain, note_slice, &self->record);
  return NULL;
}

Test(parallel_for, many_threads_loop_at_once, .timeout = 100) {
  enum { THREADS = 80 /* more than there are slots for loops */ };
  static looper loopers[THREADS];
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    for (int i = 0; i < THREADS; ++i) {
      memset(&loopers[i], 0, sizeof loopers[i]);
      loopers[i].engine = engine;
      loopers[i].record.n = 100 + i;
      loopers[i].record.grain = 1 + i % 7;
      pthread_create(&loopers[i].thread, NULL, loop_there, &loopers[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
      const record *seen = &loopers[i].record;
      pthread_join(loopers[i].thread, NULL);
      cr_assert_eq(loopers[i].rc, TN_OK, "%s", kinds[k].name);
      cr_assert_eq(seen->wrong, 0);
      for (int64_t s = 0; s * seen->grain < seen->n; ++s)
        cr_assert_eq(seen->seen[s], 50, "%s", kinds[k].name);
    }
    engine_close(engine);
  }
}

/* ------------------------------------------------------------------- ranges */

enum { TEAM = 4, EACH = 3 };

/* Slices that threads ran before all participants had begun. */
typedef struct team {
  _Atomic int64_t first[TEAM];
  _Atomic int n;
  atomic_bool is_alone; /* a thread has waited long enough */
} team;

/* An engine does not promise that a searching worker comes to a loop, so a
 * thread waits at most this long for the others. */
enum { PATIENCE_US = 100000 };

static int32_t meet(void *arg, int64_t begin, int64_t end) {
  team *self = (team *)arg;
  (void)end;
  if (begin == 0) {
    spin_us(2000);
    return TN_OK;
  }
  const int i = atomic_fetch_add(&self->n, 1);
  if (i < TEAM) atomic_store(&self->first[i], begin);
  for (int waited = 0; atomic_load(&self->n) < TEAM; waited += 10) {
    if (waited >= PATIENCE_US) atomic_store(&self->is_alone, true);
    if (atomic_load(&self->is_alone)) break;
    spin_us(10);
    sched_yield();
  }
  return TN_OK;
}

/* The caller has begun with slice 0 and waits in slice 1. */
Test(parallel_for, every_thread_begins_with_neighbours_of_its_own,
     .timeout = 100) {
  tn__engine *engine = engine_pooled(TEAM);
  int met = 0;
  for (int round = 0; round < 100 && met < 5; ++round) {
    team self = {0};
    bool seen[TEAM * EACH] = {false};
    cr_assert_eq(tn__parallel_for(engine, TEAM * EACH, 1, meet, &self), TN_OK);
    if (atomic_load(&self.is_alone)) continue;
    ++met;
    for (int i = 0; i < TEAM; ++i) seen[self.first[i]] = true;
    cr_assert(seen[1]);
    for (int i = 1; i < TEAM; ++i) cr_assert(seen[i * EACH], "home %d", i);
  }
  cr_assert_eq(met, 5);
  engine_close(engine);
}

enum { RANGE = 5 };

typedef struct course {
  pthread_t caller;
  int64_t ran[2 * RANGE]; /* by the caller, in this order */
  _Atomic int n;
  _Atomic int came;
} course;

static int32_t note_order(void *arg, int64_t begin, int64_t end) {
  course *self = (course *)arg;
  (void)end;
  if (pthread_equal(self->caller, pthread_self())) {
    self->ran[self->n] = begin;
    if (begin == 0) spin_us(2000);
    while (begin == 1 && atomic_load(&self->came) == 0) sched_yield();
    ++self->n;
    return TN_OK;
  }
  /* The participant is slow: the caller runs all other slices meanwhile. */
  atomic_store(&self->came, 1);
  while (atomic_load(&self->n) < 2 * RANGE - 1) sched_yield();
  return TN_OK;
}

Test(parallel_for, a_finished_thread_takes_from_the_end_of_other_ranges,
     .timeout = 100) {
  tn__engine *engine = engine_pooled(2);
  course self = {.caller = pthread_self()};
  cr_assert_eq(tn__parallel_for(engine, 2 * RANGE, 1, note_order, &self),
               TN_OK);
  cr_assert_eq(self.n, 2 * RANGE - 1);
  for (int i = 0; i < RANGE; ++i) cr_assert_eq(self.ran[i], i);
  for (int i = RANGE; i < self.n; ++i)
    cr_assert_eq(self.ran[i], 3 * RANGE - 1 - i);
  engine_close(engine);
}

/* ------------------------------------------------------------------- search */

static double cpu_us(pthread_t thread) {
  clockid_t clock;
  struct timespec t;
  cr_assert_eq(pthread_getcpuclockid(thread, &clock), 0);
  clock_gettime(clock, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int32_t spin_slice(void *arg, int64_t begin, int64_t end) {
  (void)arg;
  (void)begin;
  (void)end;
  spin_us(20);
  return TN_OK;
}

/* They have found many loops, and search longer. */
Test(parallel_for, workers_sleep_when_there_are_no_more_loops, .timeout = 100) {
  enum { WORKERS = 3 };
  tn__engine *engine = engine_pooled(WORKERS);
  tn__pool *pool = engine->pool;
  for (int i = 0; i < 200; ++i)
    cr_assert_eq(tn__parallel_for(engine, 20, 1, spin_slice, NULL), TN_OK);
  double spent = 0;
  for (int i = 0; i < WORKERS; ++i) spent -= cpu_us(pool->slots[i].thread);
  while (pool->idle != WORKERS * TN__ASLEEP) sched_yield();
  for (int i = 0; i < WORKERS; ++i) spent += cpu_us(pool->slots[i].thread);
  /* Far above TN__SEARCH_MAX_NS, as some systems count processor time in steps
   * of ten milliseconds. */
  cr_assert_lt(spent, WORKERS * 100e3);
  for (int i = 0; i < WORKERS; ++i) cr_assert_eq(pool->slots[i].search_ns, 0);
  engine_close(engine);
}

static int32_t note_company(void *arg, int64_t begin, int64_t end) {
  company *self = (company *)arg;
  (void)begin;
  (void)end;
  if (!pthread_equal(self->caller, pthread_self()))
    atomic_store(&self->came, 1);
  spin_us(2);
  return TN_OK;
}

/* Each is far too short to wake a worker for. */
Test(parallel_for, many_short_loops_in_a_row_wake_a_worker, .timeout = 100) {
  tn__engine *engine = engine_pooled(2);
  company self = {.caller = pthread_self()};
  while (atomic_load(&self.came) == 0) {
    cr_assert_eq(tn__parallel_for(engine, 4, 1, note_company, &self), TN_OK);
  }
  engine_close(engine);
}

/* ------------------------------------------------------------------- nested */

enum { OUTER = 12, INNER = 40 };

typedef struct nest {
  tn__engine *engine;
  _Atomic int count[OUTER][INNER];
} nest;

typedef struct row {
  nest *nest;
  int64_t at;
} row;

static int32_t count_inner(void *arg, int64_t begin, int64_t end) {
  row *self = (row *)arg;
  for (int64_t i = begin; i < end; ++i)
    atomic_fetch_add(&self->nest->count[self->at][i], 1);
  spin_us(5);
  return TN_OK;
}

static int32_t count_outer(void *arg, int64_t begin, int64_t end) {
  int32_t rc = TN_OK;
  for (int64_t i = begin; i < end && rc == TN_OK; ++i) {
    row self = {(nest *)arg, i};
    rc = tn__parallel_for(self.nest->engine, INNER, 3, count_inner, &self);
  }
  return rc;
}

static tn_code run_nest(void *arg, tn__token *token) {
  (void)token;
  return tn__parallel_for(((nest *)arg)->engine, OUTER, 1, count_outer, arg);
}

static void expect_counts(const nest *self, int expected, const char *title) {
  for (int i = 0; i < OUTER; ++i)
    for (int j = 0; j < INNER; ++j)
      cr_assert_eq(self->count[i][j], expected, "%s: %d, %d", title, i, j);
}

Test(parallel_for, loops_run_inside_of_loops, .timeout = 100) {
  static nest self;
  for (int k = 0; k < N_KINDS; ++k) {
    memset(&self, 0, sizeof self);
    self.engine = engine_open(&kinds[k]);
    for (int i = 0; i < 5; ++i) cr_assert_eq(run_nest(&self, NULL), TN_OK);
    expect_counts(&self, 5, kinds[k].name);
    engine_close(self.engine);
  }
}

/* All workers are busy with functions that loop, and help each other. */
Test(parallel_for, functions_loop_while_others_do, .timeout = 100) {
  static nest self;
  for (int k = 0; k < N_KINDS; ++k) {
    tn__var x[4] = {0};
    memset(&self, 0, sizeof self);
    self.engine = engine_open(&kinds[k]);
    for (int i = 0; i < 12; ++i)
      cr_assert_eq(push(self.engine, run_nest, &self, ON(U(x[i % 4]))), TN_OK);
    cr_assert_eq(tn__wait_all(self.engine), TN_OK);
    expect_counts(&self, 12, kinds[k].name);
    engine_close(self.engine);
  }
}

/* ------------------------------------------------------------------ results */

enum { PARTS = 200 };

typedef struct sum {
  double parts[PARTS];
  int64_t grain;
} sum;

static int32_t add_up(void *arg, int64_t begin, int64_t end) {
  sum *self = (sum *)arg;
  double total = 0;
  for (int64_t i = begin; i < end; ++i) total += 1 / (double)(3 * i + 1);
  self->parts[begin / self->grain] = total;
  return TN_OK;
}

/* Rounding depends on the slices, and those only on n and grain. */
Test(parallel_for, sums_are_the_same_bits_for_every_number_of_workers) {
  static sum first, other;
  first.grain = other.grain = 500;
  for (int64_t i = 0; i < PARTS; ++i)
    (void)add_up(&first, i * first.grain, (i + 1) * first.grain);
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    memset(other.parts, 0, sizeof other.parts);
    cr_assert_eq(tn__parallel_for(engine, PARTS * other.grain, other.grain,
                                  add_up, &other),
                 TN_OK);
    cr_assert_eq(memcmp(first.parts, other.parts, sizeof first.parts), 0, "%s",
                 kinds[k].name);
    engine_close(engine);
  }
}

/* ----------------------------------------------------------------- failures */

typedef struct mines {
  bool fails[PARTS];
  _Atomic int ran[PARTS];
} mines;

static int32_t step_on(void *arg, int64_t begin, int64_t end) {
  mines *self = (mines *)arg;
  (void)end;
  atomic_fetch_add(&self->ran[begin], 1);
  if (self->fails[begin]) return 1000 + (int32_t)begin;
  spin_us(begin % 10 == 0 ? 20 : 1);
  return TN_OK;
}

static void expect_lowest(tn__engine *engine, mines *self, const char *title) {
  int lowest = 0;
  while (lowest < PARTS && !self->fails[lowest]) ++lowest;
  const int32_t expected = lowest < PARTS ? 1000 + lowest : TN_OK;
  cr_assert_eq(tn__parallel_for(engine, PARTS, 1, step_on, self), expected,
               "%s: lowest %d", title, lowest);
  for (int i = 0; i < PARTS; ++i) {
    if (i <= lowest) cr_assert_eq(self->ran[i], 1, "%s: slice %d", title, i);
    cr_assert_leq(self->ran[i], 1, "%s: slice %d", title, i);
  }
}

Test(parallel_for, the_lowest_failing_slice_gives_the_code, .timeout = 100) {
  uint64_t state = seed_or(3);
  static mines self;
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    for (int round = 0; round < 40; ++round) {
      memset(&self, 0, sizeof self);
      for (int i = 0; i < round % 5; ++i)
        self.fails[next_random(&state) % PARTS] = true;
      expect_lowest(engine, &self, kinds[k].name);
    }
    engine_close(engine);
  }
}

/* The first slice brings help, the third fails, and then the second does. */
static int32_t fail_late(void *arg, int64_t begin, int64_t end) {
  _Atomic int *failing = (_Atomic int *)arg;
  (void)end;
  if (begin == 0) {
    spin_us(1000);
    return TN_OK;
  }
  if (begin == 2) atomic_store(failing, 1);
  while (begin == 1 && atomic_load(failing) == 0) sched_yield();
  if (begin == 1) spin_us(500);
  return 1000 + (int32_t)begin;
}

Test(parallel_for, a_lower_slice_counts_though_it_fails_later, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    if (kinds[k].workers < 2) continue;
    tn__engine *engine = engine_open(&kinds[k]);
    _Atomic int failing = 0;
    cr_assert_eq(tn__parallel_for(engine, 100, 1, fail_late, &failing), 1001,
                 "%s", kinds[k].name);
    engine_close(engine);
  }
}

/* More slices than a range of units can count one by one. */
typedef struct crowd {
  int64_t first; /* first failing slice; all odd ones after it fail too */
  uint8_t *ran;  /* one for each below */
  _Atomic int wrong;
} crowd;

static int32_t count_crowd(void *arg, int64_t begin, int64_t end) {
  crowd *self = (crowd *)arg;
  if (end != begin + 1) atomic_fetch_add(&self->wrong, 1);
  if (begin < self->first) ++self->ran[begin];
  return begin >= self->first && begin % 2 != 0 ? 77 : TN_OK;
}

static void expect_crowd(tn__engine *engine, int64_t n, const char *title) {
  crowd self = {.first = 100001};
  self.ran = calloc((size_t)self.first, 1);
  cr_assert_not_null(self.ran);
  cr_assert_eq(tn__parallel_for(engine, n, 1, count_crowd, &self), 77, "%s",
               title);
  cr_assert_eq(self.wrong, 0, "%s", title);
  for (int64_t i = 0; i < self.first; ++i)
    cr_assert_eq(self.ran[i], 1, "%s: slice %lld", title, (long long)i);
  free(self.ran);
}

Test(parallel_for, more_slices_than_can_run_end_at_a_failure, .timeout = 100) {
  static const int64_t lengths[] = {(INT64_C(1) << 30) - 1,
                                    INT64_C(1) << 30,
                                    (INT64_C(1) << 30) + 1,
                                    INT64_C(1) << 31,
                                    (INT64_C(1) << 32) + 1,
                                    INT64_MAX - 1,
                                    INT64_MAX};
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i)
      expect_crowd(engine, lengths[i], kinds[k].name);
    engine_close(engine);
  }
}

typedef struct accident {
  company company;
  _Atomic int64_t lowest;
} accident;

/* Every slice that another thread runs. */
static int32_t fail_elsewhere(void *arg, int64_t begin, int64_t end) {
  accident *self = (accident *)arg;
  int64_t lowest = atomic_load(&self->lowest);
  (void)await_company(&self->company, begin, end);
  if (pthread_equal(self->company.caller, pthread_self())) return TN_OK;
  while (begin < lowest &&
         !atomic_compare_exchange_weak(&self->lowest, &lowest, begin))
    continue;
  return tn__fail(TN_IO, "slice %lld is broken", (long long)begin);
}

Test(parallel_for, the_text_of_a_failure_comes_to_the_caller, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    if (kinds[k].workers < 2) continue;
    tn__engine *engine = engine_open(&kinds[k]);
    accident self = {.company.caller = pthread_self(), .lowest = INT64_MAX};
    char expected[64];
    (void)tn__fail(TN_INVALID, "something older");
    cr_assert_eq(tn__parallel_for(engine, 64, 1, fail_elsewhere, &self), TN_IO,
                 "%s", kinds[k].name);
    (void)snprintf(expected, sizeof expected, "slice %lld is broken",
                   (long long)self.lowest);
    cr_assert_str_eq(tn_error_text(), expected);
    engine_close(engine);
  }
}
