/* SPDX-License-Identifier: Apache-2.0
 * parallel_for.c: parallel_for. A loop is on its caller's stack. While it wants
 * participants it also has a slot of the pool (loop_slots.h), where workers
 * find it.
 *
 * The slices are cut into ranges of neighbours, one for each thread that may
 * come. A thread gets the same range in every loop if possible, so its cache
 * still contains the data of the loop before. It works through its own range
 * from the beginning, and then takes from the ends of other ranges, the fullest
 * first. So a thread that is late or slow always loses the same slices, to the
 * same thread.
 */
#include "parallel_for.h"

#include "engine.h"
#include "engine_state.h"
#include "floating.h"
#include "futex.h"
#include "pool.h"
#include "run_frame.h"
#include "travelling_error.h"

/* Ranges of a loop; more participants than that share ranges. */
#define RANGES_MAX 64
/* Half of range.left can count so many units. */
#define UNITS_MAX (INT64_C(1) << 30)

enum {
  /* Remaining work that is worth waking one worker. It may be late for this
   * loop, but then serves the next. */
  WAKE_WORTH_NS = 30000,
  /* So much time of loops without participants wakes one worker. The loops are
   * close enough together for a worker to reach the next. */
  UNATTENDED_NS = 100000,

  SHORT_NS = 3000, /* a shorter loop needs no participants */
  /* After this time a woken or searching thread will not come: it waits for the
   * caller's own processor. */
  LATE_NS = 60000,

  SPIN_NS = 20000, /* how long the caller waits awake for participants */
  /* A participant leaves units to threads that may have their data in cache for
   * this part of its working time, at most LINGER_NS. */
  LINGER_PART = 8,
  LINGER_NS = 4000,

  RELAX = 8,
  YIELD = 16
};

/* Units that no thread has begun: the first one, and in the upper half the end.
 */
typedef struct range {
  _Alignas(64) _Atomic uint64_t left;
} range;

typedef struct tn__loop_run {
  tn__loop_fn *fn;
  void *arg;
  int64_t n;
  int64_t grain;
  int64_t n_slices;
  int64_t unit;                        /* slices that are claimed at once */
  uint32_t n_ranges;                   /* at most one for each unit */
  uint32_t depth;                      /* of nested loops, from 1 */
  int32_t code;                        /* of slice `failed` */
  tn__error *error;                    /* its text */
  _Alignas(64) _Atomic uint64_t taken; /* a bit for each range */
  _Alignas(64) _Atomic int64_t failed; /* lowest slice; n_slices: none */
  range ranges[RANGES_MAX];
} tn__loop_run;

/* A thread that works in a loop. */
typedef struct participant {
  tn__loop_run *loop;
  range *at;
  uint64_t since;
  bool is_own; /* `at` is its own range, used from the beginning */
} participant;

/* Number of loops that this thread is inside of. */
static _Thread_local uint32_t depth_here
    __attribute__((tls_model("initial-exec")));

static int64_t count_slices(int64_t n, int64_t grain) {
  return n / grain + (n % grain != 0);
}

/* Runs a slice and restores the floating-point state after it. */
static int32_t run_body(tn__loop_fn *fn, void *arg, int64_t begin,
                        int64_t end) {
  const tn__floating floating = tn__floating_get();
  const int32_t code = fn(arg, begin, end);
  tn__floating_keep(&floating);
  return code;
}

static int32_t run_slice(const tn__loop_run *loop, int64_t slice) {
  const int64_t begin = slice * loop->grain;
  const int64_t end =
      loop->n - begin > loop->grain ? begin + loop->grain : loop->n;
  return run_body(loop->fn, loop->arg, begin, end);
}

static int32_t run_alone(int64_t n, int64_t grain, tn__loop_fn *fn, void *arg) {
  int64_t begin = 0;
  for (; n - begin > grain; begin += grain) {
    const int32_t code = run_body(fn, arg, begin, begin + grain);
    if (code != TN_OK) return code;
  }
  return run_body(fn, arg, begin, n);
}

/* ------------------------------------------------------------------- ranges */

static uint64_t pack_range(uint32_t begin, uint32_t end) {
  return begin | (uint64_t)end << 32;
}

static uint32_t begin_of(uint64_t left) {
  return (uint32_t)left;
}

static bool has_failed(const tn__loop_run *loop) {
  return atomic_load_explicit(&loop->failed, memory_order_relaxed) <
         loop->n_slices;
}

/* End of the units that do not follow a failed slice. */
static uint32_t end_of(const tn__loop_run *loop, uint64_t left) {
  const uint32_t end = (uint32_t)(left >> 32);
  if (!has_failed(loop)) return end;
  const int64_t begun = count_slices(
      atomic_load_explicit(&loop->failed, memory_order_relaxed), loop->unit);
  return begun < end ? (uint32_t)begun : end;
}

static uint32_t count_left(const tn__loop_run *loop, const range *r) {
  const uint64_t left = atomic_load_explicit(&r->left, memory_order_relaxed);
  const uint32_t end = end_of(loop, left);
  return begin_of(left) < end ? end - begin_of(left) : 0;
}

/* Takes a unit from the beginning of a range, or from its end; false: it is
 * empty. */
static bool take_unit(const tn__loop_run *loop, range *r, bool first,
                      uint32_t *unit) {
  uint64_t left = atomic_load_explicit(&r->left, memory_order_relaxed);
  uint64_t rest;
  do {
    const uint32_t begin = begin_of(left);
    const uint32_t end = end_of(loop, left);
    if (begin >= end) return false;
    *unit = first ? begin : end - 1;
    rest = first ? pack_range(begin + 1, end) : pack_range(begin, end - 1);
  } while (!atomic_compare_exchange_weak_explicit(
      &r->left, &left, rest, memory_order_relaxed, memory_order_relaxed));
  return true;
}

static range *find_fullest(tn__loop_run *loop) {
  range *found = NULL;
  uint32_t most = 0;
  for (uint32_t i = 0; i < loop->n_ranges; ++i) {
    const uint32_t n = count_left(loop, &loop->ranges[i]);
    if (n <= most) continue;
    most = n;
    found = &loop->ranges[i];
  }
  return found;
}

/* Returns the thread's own range or, if that is in use, the next free one. */
static participant choose_range(tn__pool *pool, tn__loop_run *loop) {
  const uint32_t own = tn__pool_worker_number(pool) % loop->n_ranges;
  uint64_t taken = atomic_load_explicit(&loop->taken, memory_order_relaxed);
  uint32_t at;
  do {
    uint32_t n = 0;
    for (at = own; n < loop->n_ranges && (taken >> at & 1) != 0; ++n)
      at = at + 1 < loop->n_ranges ? at + 1 : 0;
  } while (!atomic_compare_exchange_weak_explicit(
      &loop->taken, &taken, taken | 1ull << at, memory_order_relaxed,
      memory_order_relaxed));
  return (participant){loop, &loop->ranges[at], tn__now(), true};
}

/* True if every range has an owner, which may be about to finish it. */
static bool may_linger(const tn__loop_run *loop) {
  const uint64_t all = UINT64_MAX >> (RANGES_MAX - loop->n_ranges);
  return !has_failed(loop) &&
         atomic_load_explicit(&loop->taken, memory_order_relaxed) == all;
}

static void linger_at_end(const participant *self) {
  const uint64_t now = tn__now();
  uint64_t most = (now - self->since) / LINGER_PART;
  if (most > LINGER_NS) most = LINGER_NS;
  while (may_linger(self->loop) && find_fullest(self->loop) != NULL &&
         tn__now() - now < most)
    for (int i = 0; i < RELAX; ++i) tn__cpu_relax();
}

/* The next unit of a participant; false if none is left to begin. After a
 * failure it takes from the beginning, so that the next slice to fail is the
 * lowest of its range. */
static bool claim_unit(participant *self, uint32_t *unit) {
  while (!take_unit(self->loop, self->at,
                    self->is_own || has_failed(self->loop), unit)) {
    if (self->is_own) linger_at_end(self);
    self->is_own = false;
    self->at = find_fullest(self->loop);
    if (self->at == NULL) return false;
  }
  return true;
}

static void cut_ranges(tn__loop_run *loop, uint32_t n_units,
                       uint32_t n_ranges) {
  loop->n_ranges = n_ranges;
  for (uint32_t i = 0; i < n_ranges; ++i) {
    const uint64_t begin = (uint64_t)n_units * i / n_ranges;
    const uint64_t end = (uint64_t)n_units * (i + 1) / n_ranges;
    atomic_init(&loop->ranges[i].left,
                pack_range((uint32_t)begin, (uint32_t)end));
  }
}

/* ------------------------------------------------------------------- slices */

static void note_failure(tn__pool *pool, tn__loop_run *loop, int64_t slice,
                         int32_t code) {
  pthread_mutex_lock(&pool->loop_lock);
  if (slice < atomic_load_explicit(&loop->failed, memory_order_relaxed)) {
    tn__error_release(loop->error);
    loop->error = tn__error_create(pool->engine, (tn_code)code);
    loop->code = code;
    atomic_store_explicit(&loop->failed, slice, memory_order_relaxed);
  }
  pthread_mutex_unlock(&pool->loop_lock);
}

/* Every slice below the failed one still runs. */
static void run_unit(tn__pool *pool, tn__loop_run *loop, uint32_t unit) {
  int64_t slice = unit * loop->unit;
  const int64_t left = loop->n_slices - slice;
  const int64_t end = slice + (left < loop->unit ? left : loop->unit);
  while (slice < end &&
         slice < atomic_load_explicit(&loop->failed, memory_order_relaxed)) {
    const int32_t code = run_slice(loop, slice);
    if (code != TN_OK) note_failure(pool, loop, slice, code);
    ++slice;
  }
}

/* Adds a frame, so that a slice is inside of a function, as on the caller's
 * thread if that runs one. */
static bool serve_loop(tn__pool *pool, tn__loop_slot *slot) {
  tn__loop_run *loop = slot->loop;
  tn__worker_slot *own_slot = tn__pool_slot(pool);
  const uint32_t outer = depth_here;
  tn__run_frame frame = {.outer = tn__run_frame_top, .engine = pool->engine};
  participant self = choose_range(pool, loop);
  bool any = false;
  uint32_t unit;
  frame.depth = frame.outer != NULL ? frame.outer->depth : 0;
  tn__run_frame_top = &frame;
  depth_here = loop->depth;
  while (claim_unit(&self, &unit)) {
    run_unit(pool, loop, unit);
    any = true;
  }
  depth_here = outer;
  tn__run_frame_top = frame.outer;
  tn__loop_close(&pool->loops, slot);
  if (own_slot != NULL && any) ++own_slot->n_loops;
  return any;
}

bool tn__loop_help(tn__pool *pool, uint32_t depth) {
  uint64_t open = atomic_load(&pool->loops.open);
  for (; open != 0; open &= open - 1) {
    tn__loop_slot *slot = &pool->loops.v[__builtin_ctzll(open)];
    if (!tn__loop_join(slot)) continue;
    const bool any = slot->loop->depth > depth && serve_loop(pool, slot);
    tn__loop_leave(slot);
    if (any) return true;
  }
  return false;
}

/* ------------------------------------------------------------------- caller */

/* The state of the caller while it works. */
typedef struct caller {
  tn__pool *pool;
  tn__loop_slot *slot;
  tn__loop_run *loop;
  uint64_t since;
  uint64_t woken_at; /* when it woke workers; 0: never */
  int64_t n_done;
} caller;

static uint32_t count_participants(const caller *c) {
  return atomic_load_explicit(&c->slot->state, memory_order_relaxed) &
         TN__LOOP_PARTICIPANTS;
}

static int64_t count_all_left(const tn__loop_run *loop) {
  int64_t n = 0;
  for (uint32_t i = 0; i < loop->n_ranges; ++i)
    n += count_left(loop, &loop->ranges[i]);
  return n;
}

/* Wakes sleepers if the remaining work is worth it, judged by the units so far:
 * once, and once more if fewer came. False: it may be worth it later. */
static bool wake_participants(caller *c, uint64_t now) {
  const bool again = c->woken_at != 0;
  if (again && now - c->woken_at < LATE_NS) return false;
  const int64_t left = count_all_left(c->loop);
  const double ns = (double)(now - c->since) / (double)c->n_done * (double)left;
  if (ns < WAKE_WORTH_NS) return false;
  uint32_t n = c->pool->n_workers - 1;
  if (ns / WAKE_WORTH_NS < n) n = (uint32_t)(ns / WAKE_WORTH_NS);
  if (left < n) n = (uint32_t)left;
  tn__pool_start(c->pool);
  c->woken_at = now;
  if (n <= count_participants(c)) return true;
  (again ? tn__pool_wake_more : tn__pool_wake_workers)(
      c->pool, n - count_participants(c));
  return again;
}

/* Notes a loop without participants that was too short to wake a worker for.
 * Others may follow it. */
static void note_unattended(const caller *c, uint64_t now) {
  tn__pool *pool = c->pool;
  const uint64_t before =
      atomic_load_explicit(&pool->unattended_at, memory_order_relaxed);
  uint64_t unattended = now - c->since;
  if (unattended < SHORT_NS) return;
  if (c->since < before || c->since - before < TN__SEARCH_NS)
    unattended += atomic_load_explicit(&pool->unattended, memory_order_relaxed);
  atomic_store_explicit(&pool->unattended_at, now, memory_order_relaxed);
  if (unattended < UNATTENDED_NS) {
    atomic_store_explicit(&pool->unattended, unattended, memory_order_relaxed);
    return;
  }
  atomic_store_explicit(&pool->unattended, 0, memory_order_relaxed);
  tn__pool_start(pool);
  tn__pool_wake_workers(pool, 1);
}

/* Reads the clock after 1, 2, 4, 8 ... units, until no wake-up is needed. */
static void run_and_wake(caller *c) {
  participant self = choose_range(c->pool, c->loop);
  int64_t look = 1;
  bool alone = true;
  uint32_t unit;
  while (claim_unit(&self, &unit)) {
    run_unit(c->pool, c->loop, unit);
    ++c->n_done;
    alone = alone && count_participants(c) == 0;
    if (c->n_done != look) continue;
    look = wake_participants(c, tn__now()) ? 0 : 2 * look;
  }
  if (alone && c->woken_at == 0) note_unattended(c, tn__now());
}

static bool relax_while_busy(const tn__loop_slot *slot) {
  for (int i = 0; i < RELAX; ++i) {
    if ((atomic_load(&slot->state) & TN__LOOP_PARTICIPANTS) == 0) return false;
    tn__cpu_relax();
  }
  return true;
}

/* Meanwhile the caller takes part in loops nested in its own, but in nothing
 * that could keep it for long. */
static void await_participants(tn__pool *pool, tn__loop_slot *slot) {
  const uint64_t until = tn__now() + SPIN_NS;
  uint32_t round = 0;
  while (relax_while_busy(slot)) {
    if (tn__loop_help(pool, depth_here) || ++round % YIELD != 0) continue;
    if (tn__now() > until) break;
    sched_yield();
  }
  uint32_t state = atomic_load(&slot->state);
  tn__queues_record_pending();
  while ((state & TN__LOOP_PARTICIPANTS) != 0) {
    state = atomic_fetch_or(&slot->state, TN__LOOP_CALLER_SLEEPS) |
            TN__LOOP_CALLER_SLEEPS;
    if ((state & TN__LOOP_PARTICIPANTS) != 0)
      tn__futex_wait(&slot->state, state, TN__FOREVER);
    state = atomic_load(&slot->state);
  }
}

/* Sets this thread's error text from the loop's error, which another thread may
 * have created. */
static int32_t return_failure(const tn__loop_run *loop) {
  (void)tn__error_set_text(loop->error);
  tn__error_release(loop->error);
  return loop->code;
}

static int32_t run_together(tn__pool *pool, tn__loop_slot *slot,
                            tn__loop_run *loop) {
  caller c = {pool, slot, loop, tn__now(), 0, 0};
  depth_here = loop->depth;
  run_and_wake(&c);
  tn__loop_close(&pool->loops, slot);
  await_participants(pool, slot);
  depth_here = loop->depth - 1;
  atomic_store_explicit(&slot->state, 0, memory_order_release);
  return loop->code == TN_OK ? TN_OK : return_failure(loop);
}

/* Sets member by member: most ranges need no value. */
static void fill_loop(tn__loop_run *loop, int64_t n, int64_t grain,
                      uint32_t workers) {
  loop->n = n;
  loop->grain = grain;
  loop->n_slices = count_slices(n, grain);
  loop->unit = (loop->n_slices - 1) / UNITS_MAX + 1;
  loop->depth = depth_here + 1;
  loop->code = TN_OK;
  loop->error = NULL;
  atomic_init(&loop->taken, 0);
  atomic_init(&loop->failed, loop->n_slices);
  const uint32_t n_units = (uint32_t)count_slices(loop->n_slices, loop->unit);
  if (workers > RANGES_MAX) workers = RANGES_MAX;
  cut_ranges(loop, n_units, workers < n_units ? workers : n_units);
}

int32_t tn__parallel_for(tn__engine *engine, int64_t n, int64_t grain,
                         tn__loop_fn *fn, void *arg) {
  if (n <= 0) return TN_OK;
  if (grain <= 0) grain = 1;
  tn__pool *pool = engine->pool;
  if (n <= grain || pool == NULL || pool->n_workers < 2 ||
      tn__gate_is_mine(engine))
    return run_alone(n, grain, fn, arg);
  tn__loop_run loop;
  fill_loop(&loop, n, grain, pool->n_workers);
  loop.fn = fn;
  loop.arg = arg;
  tn__loop_slot *slot = tn__loop_open(&pool->loops, &loop, pool->n_workers - 1);
  if (slot == NULL) return run_alone(n, grain, fn, arg);
  return run_together(pool, slot, &loop);
}
