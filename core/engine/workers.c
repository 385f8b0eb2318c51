/* SPDX-License-Identifier: Apache-2.0
 * workers.c: the work of worker threads and of waiting threads: the choice of
 * their next work, and how they fall asleep.
 *
 * No work gets lost between a push and a worker that falls asleep. Both sides
 * write first and check then, in the one order of sequentially consistent
 * operations. A thread that adds work checks `idle` afterwards; a worker that
 * falls asleep counts itself in `idle` and checks for work afterwards. While a
 * thread is searching (TN__SEARCHING), no thread needs a wake-up: the last
 * searching thread that finds work checks whether there is more, and wakes the
 * next.
 */
#include "workers.h"

#include <fenv.h>
#include <sched.h>

#include "engine_state.h"
#include "futex.h"
#include "mailbox.h"
#include "parallel_for.h"
#include "queue_drain.h"
#include "schedule_plan.h"
#include "token.h"

enum {
  AWAIT_NS = 20000,   /* how long a waiting thread searches */
  BATCH = 32,         /* tokens from the shared list at once */
  CROWDED_NS = 50000, /* a yield so long: others use the processor */
  RELAX = 8,          /* pauses between two checks */
  YIELD = 16          /* checks between two yields of the processor */
};

/* ---------------------------------------------------------------- searching */

static bool is_dispatch_wanted(tn__pool *pool) {
  tn__mailbox *mailbox = pool->engine->mailbox;
  return mailbox != NULL && tn__dispatch_is_wanted(mailbox);
}

static bool has_ready(tn__pool *pool) {
  if (!tn__shared_is_empty(&pool->shared) ||
      atomic_load(&pool->heap.highest) != INT32_MIN)
    return true;
  if (is_dispatch_wanted(pool)) return true;
  for (uint32_t i = 0; i < pool->n_slots; ++i)
    if (!tn__deque_is_empty(&pool->slots[i].deque)) return true;
  return false;
}

static bool has_anything(tn__pool *pool) {
  return tn__loop_has_room(&pool->loops) || has_ready(pool);
}

static bool is_searching(const tn__worker_slot *slot) {
  return slot->searching != 0;
}

static void start_searching(tn__worker_slot *slot) {
  if (is_searching(slot)) return;
  slot->searching = 1;
  atomic_fetch_add(&slot->pool->idle, TN__SEARCHING);
}

/* The slot has found work. If that is a loop it wakes no other worker for the
 * loop: the loop's caller knows whether that is worth it. */
static void stop_searching(tn__worker_slot *slot, bool loop) {
  if (!is_searching(slot)) return;
  tn__pool *pool = slot->pool;
  slot->searching = 0;
  const uint32_t idle =
      atomic_fetch_sub(&pool->idle, TN__SEARCHING) - TN__SEARCHING;
  if (idle < TN__SEARCHING && idle != 0 &&
      (loop ? has_ready(pool) : has_anything(pool)))
    tn__pool_wake_workers(pool, 1);
}

/* ------------------------------------------------------------------- doing */

static void execute_work(tn__ready_work work) {
  if (work.range != 0) {
    tn__schedule_run_range(work.of, work.range);
    return;
  }
  tn__ready_execute(work.of);
}

/* Takes several from the shared list: the oldest one to run, the others for the
 * deque, where thieves find them. */
static bool take_shared(tn__worker_slot *slot, tn__ready_work *out) {
  tn__pool *pool = slot->pool;
  tn__token *tokens[BATCH];
  const uint32_t n = tn__shared_take(&pool->shared, tokens, BATCH);
  if (n == 0) return false;
  for (uint32_t i = 1; i < n; ++i) tn__token_prefetch(tokens[i]);
  *out = (tn__ready_work){tokens[0], 0};
  if (n > 1 && !tn__deque_push_all(&slot->deque, tokens + 1, n - 1))
    for (uint32_t i = 1; i < n; ++i)
      tn__shared_push(&pool->shared, pool->env, tokens[i]);
  return true;
}

static bool take_urgent(tn__pool *pool, int32_t above, tn__ready_work *out) {
  if (atomic_load_explicit(&pool->heap.highest, memory_order_relaxed) <= above)
    return false;
  *out = (tn__ready_work){tn__priority_heap_take(&pool->heap), 0};
  return out->of != NULL;
}

static bool steal_work(tn__worker_slot *slot, tn__ready_work *out) {
  tn__pool *pool = slot->pool;
  slot->random = slot->random * 1664525 + 1013904223;
  const uint32_t first = (slot->random >> 16) % pool->n_slots;
  for (uint32_t i = 0; i < pool->n_slots; ++i) {
    tn__worker_slot *victim = &pool->slots[(first + i) % pool->n_slots];
    if (victim != slot && tn__deque_steal(&victim->deque, out)) return true;
  }
  return false;
}

/* A helping thread leaves the mailbox to workers if one of them is idle, or if
 * a record was taken since the last check. */
static bool is_left_to_workers(tn__worker_slot *slot) {
  tn__pool *pool = slot->pool;
  const uint64_t seen = slot->seen;
  if (slot->number <= pool->n_workers) return false;
  slot->seen =
      atomic_load_explicit(&pool->engine->mailbox->begin, memory_order_relaxed);
  return slot->seen != seen ||
         atomic_load_explicit(&pool->idle, memory_order_relaxed) != 0;
}

static bool dispatch_some(tn__worker_slot *slot) {
  tn__mailbox *mailbox = slot->pool->engine->mailbox;
  if (mailbox == NULL || is_left_to_workers(slot) ||
      !tn__dispatch_begin(mailbox))
    return false;
  stop_searching(slot, false);
  return tn__dispatch_records(mailbox, slot);
}

/* Runs one piece of work, if there is any. */
static bool do_one_thing(tn__worker_slot *slot) {
  tn__pool *pool = slot->pool;
  tn__ready_work work;
  if (take_urgent(pool, 0, &work) || tn__deque_take(&slot->deque, &work) ||
      take_shared(slot, &work)) {
    stop_searching(slot, false);
    if (!tn__deque_is_empty(&slot->deque)) tn__pool_wake_workers(pool, 1);
    execute_work(work);
    return true;
  }
  if (dispatch_some(slot)) return true;
  if (tn__loop_has_room(&pool->loops)) {
    stop_searching(slot, true);
    if (tn__loop_help(pool, 0)) return true;
  }
  if (steal_work(slot, &work) || take_urgent(pool, INT32_MIN, &work)) {
    stop_searching(slot, false);
    execute_work(work);
    return true;
  }
  return false;
}

/* ---------------------------------------------------------------- sleeping */

/* Revokes that this thread is about to sleep. False: another thread has woken
 * it meanwhile and has counted that in `wakeups`. */
static bool cancel_sleep(tn__pool *pool) {
  uint32_t idle = atomic_load(&pool->idle);
  do
    if (idle % TN__SEARCHING == 0) return false;
  while (!atomic_compare_exchange_weak(&pool->idle, &idle,
                                       idle + TN__SEARCHING - TN__ASLEEP));
  return true;
}

/* False: there is no wake-up, and *wakeups is the value that was read. */
static bool answer_wakeup(tn__pool *pool, uint32_t *wakeups) {
  *wakeups = atomic_load(&pool->wakeups);
  while ((*wakeups & ~TN__CLOSING) != 0)
    if (atomic_compare_exchange_weak(&pool->wakeups, wakeups, *wakeups - 1))
      return true;
  return false;
}

/* Returns as a searching thread: the thread that woke it has counted it so. */
static void sleep_until_woken(tn__worker_slot *slot) {
  tn__pool *pool = slot->pool;
  uint32_t wakeups;
  atomic_fetch_add(&pool->idle, TN__ASLEEP - TN__SEARCHING);
  if (has_anything(pool) && cancel_sleep(pool)) return;
  while (!answer_wakeup(pool, &wakeups)) {
    if ((wakeups & TN__CLOSING) != 0 && cancel_sleep(pool)) return;
    tn__futex_wait(&pool->wakeups, wakeups, TN__FOREVER);
  }
}

/* A loop ends the pause, since it may be over soon. False: other threads want
 * the processor. */
static bool relax_or_yield(tn__pool *pool, uint32_t round) {
  for (int i = 0; i < RELAX; ++i) {
    tn__cpu_relax();
    if (pool != NULL && tn__loop_has_room(&pool->loops)) return true;
  }
  if (round % YIELD != YIELD - 1) return true;
  const uint64_t since = tn__now();
  sched_yield();
  return tn__now() - since < CROWDED_NS;
}

/* pool.h explains the reasons. */
static bool may_search_on(const tn__worker_slot *slot, uint64_t since) {
  const tn__pool *pool = slot->pool;
  const uint64_t ns = tn__now() - since;
  if (ns < TN__SEARCH_NS) return true;
  return ns < slot->search_ns &&
         atomic_load_explicit(&pool->idle, memory_order_relaxed) /
                 TN__SEARCHING <
             pool->n_workers;
}

static void extend_search(tn__worker_slot *slot) {
  const uint32_t now =
      slot->search_ns < TN__SEARCH_NS ? TN__SEARCH_NS : slot->search_ns;
  slot->search_ns = 2 * now < TN__SEARCH_MAX_NS ? 2 * now : TN__SEARCH_MAX_NS;
}

/* A thread that searches on a processor that others want sleeps instead. It
 * would count as one that is about to come, and a thread that wakes up finds a
 * free processor. */
static void search_then_sleep(tn__worker_slot *slot) {
  const uint64_t since = tn__now();
  const uint32_t n_loops = slot->n_loops;
  bool alone = true;
  start_searching(slot);
  for (uint32_t round = 0; alone && may_search_on(slot, since); ++round) {
    alone = relax_or_yield(slot->pool, round);
    const bool done = do_one_thing(slot);
    if (slot->n_loops != n_loops) extend_search(slot);
    if (done || !is_searching(slot) ||
        atomic_load_explicit(&slot->pool->stopping, memory_order_relaxed) != 0)
      return;
  }
  slot->search_ns = 0;
  sleep_until_woken(slot);
}

/* ----------------------------------------------------------------- threads */

void *tn__worker_run(void *arg) {
  tn__worker_slot *slot = arg;
  tn__pool_slot_here = slot;
  (void)fesetenv(FE_DFL_ENV); /* the creator may have another one */
  while (atomic_load_explicit(&slot->pool->stopping, memory_order_acquire) == 0)
    if (!do_one_thing(slot)) search_then_sleep(slot);
  stop_searching(slot, false);
  return NULL;
}

void tn__pool_stop(tn__pool *pool) {
  tn__pool_end_threads(pool);
  if (!has_anything(pool)) return;
  tn__pool_start(pool);
  tn__pool_wake_workers(pool, 1);
}

/* ----------------------------------------------------------------- waiting */

/* A thread that already has a slot is inside of a function, and gets none. */
static tn__worker_slot *take_slot(tn__pool *pool) {
  if (pool == NULL || tn__pool_slot(pool) != NULL) return NULL;
  for (uint32_t i = pool->n_workers; i < pool->n_slots; ++i) {
    tn__worker_slot *slot = &pool->slots[i];
    uint32_t taken = atomic_load_explicit(&slot->taken, memory_order_relaxed);
    if (taken == 0 && atomic_compare_exchange_strong(&slot->taken, &taken, 1)) {
      slot->before = tn__pool_slot_here;
      tn__pool_slot_here = slot;
      (void)fegetenv(&slot->floating);
      (void)fesetenv(FE_DFL_ENV);
      return slot;
    }
  }
  return NULL;
}

/* Other threads steal the tokens that a helping thread leaves in its deque. */
static void leave_slot(tn__worker_slot *slot) {
  if (slot == NULL) return;
  tn__pool *pool = slot->pool;
  tn__pool_slot_here = slot->before;
  (void)fesetenv(&slot->floating);
  const bool left = !tn__deque_is_empty(&slot->deque);
  atomic_store(&slot->taken, 0);
  if (!left) return;
  tn__pool_start(pool);
  tn__pool_wake_workers(pool, 1);
}

/* Helps until the word changes, the deadline passes, or there was no work for a
 * while. A record that is left to workers may be the one to wait for. */
static void help_until_change(tn__worker_slot *slot, _Atomic uint32_t *word,
                              uint32_t seen, uint64_t deadline) {
  uint64_t quiet = 0;
  for (uint32_t round = 0; atomic_load(word) == seen; ++round) {
    const bool done = slot != NULL && do_one_thing(slot);
    if (done && deadline >= TN__UNTIL_INTERRUPTED) {
      quiet = 0;
      continue;
    }
    const uint64_t now = tn__now();
    if (done || quiet == 0) quiet = now + AWAIT_NS;
    if (now >= deadline) return;
    if (now >= quiet && (slot == NULL || !is_dispatch_wanted(slot->pool)))
      return;
    if (!done) (void)relax_or_yield(slot != NULL ? slot->pool : NULL, round);
  }
}

/* Whether the host ends the wait of this thread. A signal for the thread ends
 * its sleep. */
static bool is_interrupted(const tn__pool *pool) {
  const tn__env *env = pool->env;
  return env->interrupted(env->interrupted_ctx) != 0;
}

bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline) {
  bool alone = false;
  while (atomic_load(word) == seen) {
    /* The duration of a job to help with is unknown. */
    const bool helps = deadline >= TN__UNTIL_INTERRUPTED || alone;
    tn__worker_slot *slot = helps ? take_slot(pool) : NULL;
    help_until_change(slot, word, seen, deadline);
    leave_slot(slot);
    if (atomic_load(word) != seen) break;
    if (deadline < TN__UNTIL_INTERRUPTED && tn__now() >= deadline) return false;
    if (deadline == TN__UNTIL_INTERRUPTED && is_interrupted(pool)) return false;
    if (pool != NULL) {
      tn__pool_start(pool);
      alone = atomic_load(&pool->n_threads) == 0;
    }
    /* Without workers the waiting threads do all work, and may not sleep. */
    if (alone)
      sched_yield();
    else
      tn__futex_wait(word, seen, deadline);
  }
  return true;
}
