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
 */
#include "pool.h"

#define HAND 1u
#define HANDS 0xfffu
#define LIMIT 0x1000u /* times the limit */
#define LIMITS 0xfff000u
#define CLAIMED (1u << 24)
#define OPEN (1u << 25)
#define ASLEEP (1u << 26) /* the caller sleeps until the hands have left */

enum {
  WORTH_NS = 30000, /* what must be left for each worker that is woken: it may
                       come too late for this loop, and then for the next */
  SPIN_NS = 20000,  /* how long the caller waits for the hands awake */
  RELAX = 8,
  YIELD = 16
};

typedef struct tn__loop {
  tn__loop_fn *fn;
  void *arg;
  int64_t n;
  int64_t grain;
  int64_t n_slices;
  uint32_t depth;   /* of nested loops, from 1 */
  int32_t code;     /* of slice `failed` */
  tn__error *error; /* its text */
  _Alignas(64) _Atomic int64_t next;
  _Alignas(64) _Atomic int64_t failed; /* the lowest; n_slices: none */
} tn__loop;

/* How many loops this thread is inside of. */
static _Thread_local uint32_t depth_here
    __attribute__((tls_model("initial-exec")));

static int64_t slices(int64_t n, int64_t grain) {
  return n / grain + (n % grain != 0);
}

static int32_t run_slice(const tn__loop *loop, int64_t slice) {
  const int64_t begin = slice * loop->grain;
  const int64_t end =
      loop->n - begin > loop->grain ? begin + loop->grain : loop->n;
  return loop->fn(loop->arg, begin, end);
}

static int32_t run_alone(int64_t n, int64_t grain, tn__loop_fn *fn, void *arg) {
  int64_t begin = 0;
  for (; n - begin > grain; begin += grain) {
    const int32_t code = fn(arg, begin, begin + grain);
    if (code != TN_OK) return code;
  }
  return fn(arg, begin, n);
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

/* Claims the next slice and runs it; false if none is left. Since slices are
 * claimed in order, every one below a failed one has been begun. */
static bool run_next(tn__pool *pool, tn__loop *loop) {
  const int64_t slice =
      atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
  if (slice >= atomic_load_explicit(&loop->failed, memory_order_relaxed))
    return false;
  const int32_t code = run_slice(loop, slice);
  if (code != TN_OK) note_failure(pool, loop, slice, code);
  return true;
}

/* In a frame, so that a slice finds itself inside of a function, as it does on
 * the caller's thread if that runs one. */
static bool serve(tn__pool *pool, tn__loop_slot *slot) {
  tn__loop *loop = slot->loop;
  const uint32_t outer = depth_here;
  tn__frame frame = {.outer = tn__frame_top, .engine = pool->engine};
  bool any = false;
  frame.depth = frame.outer != NULL ? frame.outer->depth : 0;
  tn__frame_top = &frame;
  depth_here = loop->depth;
  while (run_next(pool, loop)) any = true;
  depth_here = outer;
  tn__frame_top = frame.outer;
  close_slot(pool, slot);
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

/* Wakes sleepers if what is left is worth it, judged by the slices so far. */
static bool call_hands(tn__pool *pool, const tn__loop *loop, int64_t n_done,
                       uint64_t since) {
  const int64_t begun = atomic_load_explicit(&loop->next, memory_order_relaxed);
  const int64_t left = loop->n_slices - begun;
  if (left <= 0) return true;
  const double ns = (double)(tn__now() - since) / (double)n_done * (double)left;
  if (ns < WORTH_NS) return false;
  uint32_t n = pool->n_workers - 1;
  if (ns / WORTH_NS < n) n = (uint32_t)(ns / WORTH_NS);
  if (left < n) n = (uint32_t)left;
  tn__pool_start(pool);
  tn__pool_call(pool, n);
  return true;
}

/* Looks at the clock after 1, 2, 4, 8 ... slices, until it has called. */
static void run_and_call(tn__pool *pool, tn__loop *loop) {
  const uint64_t since = tn__now();
  int64_t n_done = 0;
  int64_t look = 1;
  while (run_next(pool, loop)) {
    if (++n_done != look) continue;
    look = call_hands(pool, loop, n_done, since) ? 0 : 2 * look;
  }
}

/* Meanwhile the caller takes part in loops inside of its own, but in nothing
 * that could keep it for long. */
static void await_hands(tn__pool *pool, tn__loop_slot *slot) {
  const uint64_t until = tn__now() + SPIN_NS;
  uint32_t round = 0;
  uint32_t state = atomic_load(&slot->state);
  while ((state & HANDS) != 0) {
    if (!tn__loop_help(pool, depth_here)) {
      for (int i = 0; i < RELAX; ++i) tn__relax();
      if (++round % YIELD == 0) {
        if (tn__now() > until) break;
        sched_yield();
      }
    }
    state = atomic_load(&slot->state);
  }
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
  depth_here = loop->depth;
  run_and_call(pool, loop);
  close_slot(pool, slot);
  await_hands(pool, slot);
  depth_here = loop->depth - 1;
  atomic_store_explicit(&slot->state, 0, memory_order_release);
  return loop->code == TN_OK ? TN_OK : tell_failure(loop);
}

int32_t tn__parallel_for(tn__engine *engine, int64_t n, int64_t grain,
                         tn__loop_fn *fn, void *arg) {
  if (n <= 0) return TN_OK;
  if (grain <= 0) grain = 1;
  tn__pool *pool = engine->pool;
  if (n <= grain || pool == NULL || pool->n_workers < 2 ||
      tn__gate_mine(engine))
    return run_alone(n, grain, fn, arg);
  const int64_t n_slices = slices(n, grain);
  tn__loop loop = {.fn = fn,
                   .arg = arg,
                   .n = n,
                   .grain = grain,
                   .n_slices = n_slices,
                   .depth = depth_here + 1,
                   .failed = n_slices};
  tn__loop_slot *slot = open_slot(pool, &loop);
  if (slot == NULL) return run_alone(n, grain, fn, arg);
  return run_together(pool, slot, &loop);
}
