/* SPDX-License-Identifier: Apache-2.0
 * loop.c: parallel_for. A loop stands on its caller's stack; while it wants
 * hands it also stands in a slot of the pool, where workers find it. `state` of
 * a slot counts the hands that are at work and says how many it may be:
 *
 *   claim   free                         -> CLAIMED, by the caller
 *   open    CLAIMED                      -> CLAIMED | OPEN | limit
 *   join    OPEN, fewer hands than limit -> one more
 *   close   nothing is left to begin     -> without OPEN
 *   leave                                -> one less; the last wakes the caller
 *   free    closed, no hands             -> 0, by the caller
 *
 * So a hand that has joined finds the loop alive until it leaves.
 *
 * The slices are cut into as many ranges, of neighbours, as there are threads
 * that may come: the homes. A thread has the same home in every loop if it can,
 * so that it finds in its own cache what it left there in the loop before. It
 * works through its home from the beginning; then it takes from the ends of
 * others, the fullest first. Whoever comes late, or is slow, so loses always
 * the same slices, to the same thread.
 */
#include "floating.h"
#include "pool.h"

#define HAND 1u
#define HANDS 0xfffu
#define LIMIT 0x1000u /* times the limit */
#define LIMITS 0xfff000u
#define CLAIMED (1u << 24)
#define OPEN (1u << 25)
#define ASLEEP (1u << 26) /* the caller sleeps until the hands have left */

/* Ranges of a loop; more hands than that share homes. */
#define HOMES 64
/* A half of range.left counts so many. */
#define UNITS_MAX (INT64_C(1) << 30)

enum {
  WORTH_NS = 30000,   /* what must be left for each worker that is woken: it may
                         come too late for this loop, and then for the next */
  MISSED_NS = 100000, /* in loops for which nobody was there, close enough
                         together for a worker to see the next: one is woken */
  SHORT_NS = 3000,    /* a loop for which nobody is missed */
  LATE_NS = 60000,    /* from when on who was called, or looks around, will not
                         come: it waits for the caller's own processor */
  SPIN_NS = 20000,    /* how long the caller waits for the hands awake */
  LINGER_NS = 4000,   /* at most, and */
  LINGER_PART = 8,    /* of the time that it was at work: so long a hand leaves
                         others alone with what may lie in their caches */
  RELAX = 8,
  YIELD = 16
};

/* Units that nobody has begun: the first, and in the upper half the one behind
 * the last. */
typedef struct range {
  _Alignas(64) _Atomic uint64_t left;
} range;

typedef struct tn__loop {
  tn__loop_fn *fn;
  void *arg;
  int64_t n;
  int64_t grain;
  int64_t n_slices;
  int64_t unit;                        /* slices that are claimed at once */
  uint32_t n_homes;                    /* at most one for each unit */
  uint32_t depth;                      /* of nested loops, from 1 */
  int32_t code;                        /* of slice `failed` */
  tn__error *error;                    /* its text */
  _Alignas(64) _Atomic uint64_t taken; /* a bit for each home */
  _Alignas(64) _Atomic int64_t failed; /* the lowest; n_slices: none */
  range homes[HOMES];
} tn__loop;

/* A thread at work in a loop. */
typedef struct hand {
  tn__loop *loop;
  range *at;
  uint64_t since;
  bool home; /* `at` is its own, of which it takes the beginning */
} hand;

/* How many loops this thread is inside of. */
static _Thread_local uint32_t depth_here
    __attribute__((tls_model("initial-exec")));

static int64_t slices(int64_t n, int64_t grain) {
  return n / grain + (n % grain != 0);
}

/* The next slice on this thread computes as this one did. */
static int32_t run_body(tn__loop_fn *fn, void *arg, int64_t begin,
                        int64_t end) {
  const tn__floating floating = tn__floating_get();
  const int32_t code = fn(arg, begin, end);
  tn__floating_keep(&floating);
  return code;
}

static int32_t run_slice(const tn__loop *loop, int64_t slice) {
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

/* ------------------------------------------------------------------- homes */

static uint64_t range_of(uint32_t begin, uint32_t end) {
  return begin | (uint64_t)end << 32;
}

static uint32_t begin_of(uint64_t left) {
  return (uint32_t)left;
}

static bool has_failed(const tn__loop *loop) {
  return atomic_load_explicit(&loop->failed, memory_order_relaxed) <
         loop->n_slices;
}

/* Of those units that do not stand behind a slice that has failed. */
static uint32_t end_of(const tn__loop *loop, uint64_t left) {
  const uint32_t end = (uint32_t)(left >> 32);
  if (!has_failed(loop)) return end;
  const int64_t begun = slices(
      atomic_load_explicit(&loop->failed, memory_order_relaxed), loop->unit);
  return begun < end ? (uint32_t)begun : end;
}

static uint32_t n_left(const tn__loop *loop, const range *r) {
  const uint64_t left = atomic_load_explicit(&r->left, memory_order_relaxed);
  const uint32_t end = end_of(loop, left);
  return begin_of(left) < end ? end - begin_of(left) : 0;
}

/* A unit from the beginning of a range, or from its end; false: it is empty. */
static bool take(const tn__loop *loop, range *r, bool first, uint32_t *unit) {
  uint64_t left = atomic_load_explicit(&r->left, memory_order_relaxed);
  uint64_t rest;
  do {
    const uint32_t begin = begin_of(left);
    const uint32_t end = end_of(loop, left);
    if (begin >= end) return false;
    *unit = first ? begin : end - 1;
    rest = first ? range_of(begin + 1, end) : range_of(begin, end - 1);
  } while (!atomic_compare_exchange_weak_explicit(
      &r->left, &left, rest, memory_order_relaxed, memory_order_relaxed));
  return true;
}

static range *fullest(tn__loop *loop) {
  range *found = NULL;
  uint32_t most = 0;
  for (uint32_t i = 0; i < loop->n_homes; ++i) {
    const uint32_t n = n_left(loop, &loop->homes[i]);
    if (n <= most) continue;
    most = n;
    found = &loop->homes[i];
  }
  return found;
}

/* Its own home or, if somebody has taken that, the next that is free. */
static hand settle(tn__pool *pool, tn__loop *loop) {
  const uint32_t own = tn__pool_worker(pool) % loop->n_homes;
  uint64_t taken = atomic_load_explicit(&loop->taken, memory_order_relaxed);
  uint32_t at;
  do {
    uint32_t n = 0;
    for (at = own; n < loop->n_homes && (taken >> at & 1) != 0; ++n)
      at = at + 1 < loop->n_homes ? at + 1 : 0;
  } while (!atomic_compare_exchange_weak_explicit(
      &loop->taken, &taken, taken | 1ull << at, memory_order_relaxed,
      memory_order_relaxed));
  return (hand){loop, &loop->homes[at], tn__now(), true};
}

/* Every home has its owner, who may be about to end with it. */
static bool may_linger(const tn__loop *loop) {
  const uint64_t all = UINT64_MAX >> (HOMES - loop->n_homes);
  return !has_failed(loop) &&
         atomic_load_explicit(&loop->taken, memory_order_relaxed) == all;
}

static void linger(const hand *self) {
  const uint64_t now = tn__now();
  uint64_t most = (now - self->since) / LINGER_PART;
  if (most > LINGER_NS) most = LINGER_NS;
  while (may_linger(self->loop) && fullest(self->loop) != NULL &&
         tn__now() - now < most)
    for (int i = 0; i < RELAX; ++i) tn__relax();
}

/* The next unit of a hand; false if none is left to begin. Where a slice has
 * failed, the next to fail shall be the lowest of its range. */
static bool claim(hand *self, uint32_t *unit) {
  while (
      !take(self->loop, self->at, self->home || has_failed(self->loop), unit)) {
    if (self->home) linger(self);
    self->home = false;
    self->at = fullest(self->loop);
    if (self->at == NULL) return false;
  }
  return true;
}

static void cut(tn__loop *loop, uint32_t n_units, uint32_t n_homes) {
  loop->n_homes = n_homes;
  for (uint32_t i = 0; i < n_homes; ++i) {
    const uint64_t begin = (uint64_t)n_units * i / n_homes;
    const uint64_t end = (uint64_t)n_units * (i + 1) / n_homes;
    atomic_init(&loop->homes[i].left, range_of((uint32_t)begin, (uint32_t)end));
  }
}

/* ------------------------------------------------------------------- slots */

static uint64_t bit(const tn__pool *pool, const tn__loop_slot *slot) {
  return 1ull << (uint32_t)(slot - pool->loops);
}

static tn__loop_slot *open_slot(tn__pool *pool, tn__loop *loop) {
  uint32_t limit = pool->n_workers - 1;
  if (limit > HANDS) limit = HANDS;
  for (uint32_t i = 0; i < TN__LOOPS; ++i) {
    tn__loop_slot *slot = &pool->loops[i];
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (state != 0 ||
        !atomic_compare_exchange_strong(&slot->state, &state, CLAIMED))
      continue;
    slot->loop = loop;
    atomic_store_explicit(&slot->state, CLAIMED | OPEN | limit * LIMIT,
                          memory_order_release);
    atomic_fetch_or(&pool->open_loops, bit(pool, slot));
    return slot;
  }
  return NULL;
}

static void close_slot(tn__pool *pool, tn__loop_slot *slot) {
  atomic_fetch_and(&pool->open_loops, ~bit(pool, slot));
  atomic_fetch_and(&slot->state, ~OPEN);
}

static bool joinable(uint32_t state) {
  return (state & OPEN) != 0 && (state & HANDS) < (state & LIMITS) / LIMIT;
}

static bool join(tn__loop_slot *slot) {
  uint32_t state = atomic_load(&slot->state);
  do
    if (!joinable(state)) return false;
  while (!atomic_compare_exchange_weak(&slot->state, &state, state + HAND));
  return true;
}

static void leave(tn__loop_slot *slot) {
  const uint32_t state = atomic_fetch_sub(&slot->state, HAND);
  if ((state & HANDS) == 1 && (state & ASLEEP) != 0)
    tn__futex_wake(&slot->state, 1);
}

bool tn__loop_wanted(tn__pool *pool) {
  uint64_t open = atomic_load(&pool->open_loops);
  for (; open != 0; open &= open - 1) {
    tn__loop_slot *slot = &pool->loops[__builtin_ctzll(open)];
    if (joinable(atomic_load(&slot->state))) return true;
  }
  return false;
}

/* ------------------------------------------------------------------- slices */

static void note_failure(tn__pool *pool, tn__loop *loop, int64_t slice,
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

/* Every slice below the one that failed is run all the same. */
static void run_unit(tn__pool *pool, tn__loop *loop, uint32_t unit) {
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

/* In a frame, so that a slice finds itself inside of a function, as it does on
 * the caller's thread if that runs one. */
static bool serve(tn__pool *pool, tn__loop_slot *slot) {
  tn__loop *loop = slot->loop;
  tn__seat *seat = tn__pool_seat(pool);
  const uint32_t outer = depth_here;
  tn__frame frame = {.outer = tn__frame_top, .engine = pool->engine};
  hand self = settle(pool, loop);
  bool any = false;
  uint32_t unit;
  frame.depth = frame.outer != NULL ? frame.outer->depth : 0;
  tn__frame_top = &frame;
  depth_here = loop->depth;
  while (claim(&self, &unit)) {
    run_unit(pool, loop, unit);
    any = true;
  }
  depth_here = outer;
  tn__frame_top = frame.outer;
  close_slot(pool, slot);
  if (seat != NULL && any) ++seat->n_loops;
  return any;
}

bool tn__loop_help(tn__pool *pool, uint32_t depth) {
  uint64_t open = atomic_load(&pool->open_loops);
  for (; open != 0; open &= open - 1) {
    tn__loop_slot *slot = &pool->loops[__builtin_ctzll(open)];
    if (!join(slot)) continue;
    const bool any = slot->loop->depth > depth && serve(pool, slot);
    leave(slot);
    if (any) return true;
  }
  return false;
}

/* ------------------------------------------------------------- the caller's */

/* What it sees while it works. */
typedef struct course {
  tn__pool *pool;
  tn__loop_slot *slot;
  tn__loop *loop;
  uint64_t since;
  uint64_t called; /* when hands were; 0: never */
  int64_t n_done;
} course;

static uint32_t hands(const course *c) {
  return atomic_load_explicit(&c->slot->state, memory_order_relaxed) & HANDS;
}

static int64_t n_left_of(const tn__loop *loop) {
  int64_t n = 0;
  for (uint32_t i = 0; i < loop->n_homes; ++i)
    n += n_left(loop, &loop->homes[i]);
  return n;
}

/* Wakes sleepers if what is left is worth it, judged by the units so far: once,
 * and once more if fewer came. False: it may be worth it later. */
static bool call_hands(course *c, uint64_t now) {
  const bool again = c->called != 0;
  if (again && now - c->called < LATE_NS) return false;
  const int64_t left = n_left_of(c->loop);
  const double ns = (double)(now - c->since) / (double)c->n_done * (double)left;
  if (ns < WORTH_NS) return false;
  uint32_t n = c->pool->n_workers - 1;
  if (ns / WORTH_NS < n) n = (uint32_t)(ns / WORTH_NS);
  if (left < n) n = (uint32_t)left;
  tn__pool_start(c->pool);
  c->called = now;
  if (n <= hands(c)) return true;
  (again ? tn__pool_call_again : tn__pool_call)(c->pool, n - hands(c));
  return again;
}

/* Nobody came into a loop that was too short to wake somebody for. But others
 * may follow it. */
static void note_missed(const course *c, uint64_t now) {
  tn__pool *pool = c->pool;
  const uint64_t before =
      atomic_load_explicit(&pool->missed_at, memory_order_relaxed);
  uint64_t missed = now - c->since;
  if (missed < SHORT_NS) return;
  if (c->since < before || c->since - before < TN__LOOK_NS)
    missed += atomic_load_explicit(&pool->missed, memory_order_relaxed);
  atomic_store_explicit(&pool->missed_at, now, memory_order_relaxed);
  if (missed < MISSED_NS) {
    atomic_store_explicit(&pool->missed, missed, memory_order_relaxed);
    return;
  }
  atomic_store_explicit(&pool->missed, 0, memory_order_relaxed);
  tn__pool_start(pool);
  tn__pool_call(pool, 1);
}

/* Looks at the clock after 1, 2, 4, 8 ... units, until it need not call. */
static void run_and_call(course *c) {
  hand self = settle(c->pool, c->loop);
  int64_t look = 1;
  bool alone = true;
  uint32_t unit;
  while (claim(&self, &unit)) {
    run_unit(c->pool, c->loop, unit);
    ++c->n_done;
    alone = alone && hands(c) == 0;
    if (c->n_done != look) continue;
    look = call_hands(c, tn__now()) ? 0 : 2 * look;
  }
  if (alone && c->called == 0) note_missed(c, tn__now());
}

static bool relaxed(const tn__loop_slot *slot) {
  for (int i = 0; i < RELAX; ++i) {
    if ((atomic_load(&slot->state) & HANDS) == 0) return false;
    tn__relax();
  }
  return true;
}

/* Meanwhile the caller takes part in loops inside of its own, but in nothing
 * that could keep it for long. */
static void await_hands(tn__pool *pool, tn__loop_slot *slot) {
  const uint64_t until = tn__now() + SPIN_NS;
  uint32_t round = 0;
  while (relaxed(slot)) {
    if (tn__loop_help(pool, depth_here) || ++round % YIELD != 0) continue;
    if (tn__now() > until) break;
    sched_yield();
  }
  uint32_t state = atomic_load(&slot->state);
  tn__queues_due();
  while ((state & HANDS) != 0) {
    state = atomic_fetch_or(&slot->state, ASLEEP) | ASLEEP;
    if ((state & HANDS) != 0) tn__futex_wait(&slot->state, state, TN__FOREVER);
    state = atomic_load(&slot->state);
  }
}

/* Its text, which another thread may have set, is this thread's from here on.
 */
static int32_t tell_failure(const tn__loop *loop) {
  (void)tn__error_say(loop->error);
  tn__error_release(loop->error);
  return loop->code;
}

static int32_t run_together(tn__pool *pool, tn__loop_slot *slot,
                            tn__loop *loop) {
  course c = {pool, slot, loop, tn__now(), 0, 0};
  depth_here = loop->depth;
  run_and_call(&c);
  close_slot(pool, slot);
  await_hands(pool, slot);
  depth_here = loop->depth - 1;
  atomic_store_explicit(&slot->state, 0, memory_order_release);
  return loop->code == TN_OK ? TN_OK : tell_failure(loop);
}

/* Member by member: most homes need no value. */
static void fill(tn__loop *loop, int64_t n, int64_t grain, uint32_t workers) {
  loop->n = n;
  loop->grain = grain;
  loop->n_slices = slices(n, grain);
  loop->unit = (loop->n_slices - 1) / UNITS_MAX + 1;
  loop->depth = depth_here + 1;
  loop->code = TN_OK;
  loop->error = NULL;
  atomic_init(&loop->taken, 0);
  atomic_init(&loop->failed, loop->n_slices);
  const uint32_t n_units = (uint32_t)slices(loop->n_slices, loop->unit);
  if (workers > HOMES) workers = HOMES;
  cut(loop, n_units, workers < n_units ? workers : n_units);
}

int32_t tn__parallel_for(tn__engine *engine, int64_t n, int64_t grain,
                         tn__loop_fn *fn, void *arg) {
  if (n <= 0) return TN_OK;
  if (grain <= 0) grain = 1;
  tn__pool *pool = engine->pool;
  if (n <= grain || pool == NULL || pool->n_workers < 2 ||
      tn__gate_mine(engine))
    return run_alone(n, grain, fn, arg);
  tn__loop loop;
  fill(&loop, n, grain, pool->n_workers);
  loop.fn = fn;
  loop.arg = arg;
  tn__loop_slot *slot = open_slot(pool, &loop);
  if (slot == NULL) return run_alone(n, grain, fn, arg);
  return run_together(pool, slot, &loop);
}
