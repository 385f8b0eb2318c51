/* SPDX-License-Identifier: Apache-2.0
 * pool.c: worker threads: the choice of their next work, and how they sleep and
 * wake.
 *
 * No work gets lost between a push and a worker that falls asleep. Both sides
 * write first and check then, in the one order of sequentially consistent
 * operations. A thread that adds work checks `idle` afterwards; a worker that
 * falls asleep counts itself in `idle` and checks for work afterwards. While a
 * thread is searching (TN__SEARCHING), no thread needs a wake-up: the last
 * searching thread that finds work checks whether there is more, and wakes the
 * next.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>

#include "device_queue.h"
#include "engine_state.h"
#include "futex.h"
#include "mailbox.h"
#include "schedule_plan.h"
#include "trace.h"

enum {
  AWAIT_NS = 20000, /* how long a waiting thread searches */
  BATCH = 32,       /* tokens from the shared list at once */
  WORKERS_MAX = 4096,
  CROWDED_NS = 50000, /* a yield so long: others use the processor */
  RELAX = 8,          /* pauses between two checks */
  YIELD = 16          /* checks between two yields of the processor */
};

static _Thread_local tn__worker_slot *slot_here
    __attribute__((tls_model("initial-exec")));

tn__worker_slot *tn__pool_slot(const tn__pool *pool) {
  return slot_here != NULL && slot_here->pool == pool ? slot_here : NULL;
}

uint32_t tn__pool_worker_number(const tn__pool *pool) {
  const tn__worker_slot *slot = tn__pool_slot(pool);
  return slot != NULL && slot->number <= pool->n_workers ? slot->number : 0;
}

/* ---------------------------------------------------------------- searching */

bool tn__pool_has_work(tn__worker_slot *slot) {
  tn__pool *pool = slot->pool;
  return !tn__deque_is_empty(&slot->deque) ||
         !tn__shared_is_empty(&pool->shared) ||
         atomic_load(&pool->highest) != INT32_MIN || tn__loop_has_room(pool) ||
         atomic_load_explicit(&pool->stopping, memory_order_relaxed) != 0;
}

static bool is_dispatch_wanted(tn__pool *pool) {
  tn__mailbox *mailbox = pool->engine->mailbox;
  return mailbox != NULL && tn__dispatch_is_wanted(mailbox);
}

static bool has_ready(tn__pool *pool) {
  if (!tn__shared_is_empty(&pool->shared) ||
      atomic_load(&pool->highest) != INT32_MIN)
    return true;
  if (is_dispatch_wanted(pool)) return true;
  for (uint32_t i = 0; i < pool->n_slots; ++i)
    if (!tn__deque_is_empty(&pool->slots[i].deque)) return true;
  return false;
}

static bool has_anything(tn__pool *pool) {
  return tn__loop_has_room(pool) || has_ready(pool);
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

void tn__pool_wake_workers(tn__pool *pool, uint32_t n) {
  uint32_t idle = atomic_load(&pool->idle);
  uint32_t woken = 0;
  do {
    const uint32_t n_asleep = idle % TN__SEARCHING;
    const uint32_t n_searching = idle / TN__SEARCHING;
    if (n_asleep == 0 || n_searching >= n) return;
    woken = n - n_searching < n_asleep ? n - n_searching : n_asleep;
  } while (!atomic_compare_exchange_weak(
      &pool->idle, &idle, idle + woken * (TN__SEARCHING - TN__ASLEEP)));
  atomic_fetch_add(&pool->wakeups, woken);
  tn__futex_wake(&pool->wakeups, woken);
}

void tn__pool_wake_more(tn__pool *pool, uint32_t n) {
  tn__pool_wake_workers(pool, atomic_load(&pool->idle) / TN__SEARCHING + n);
}

/* ------------------------------------------------------------------- doing */

static void execute_work(tn__ready_work work) {
  if (work.range != 0) {
    tn__schedule_run_range(work.of, work.range);
    return;
  }
  tn__token *token = work.of;
  if ((token->flags & TN__TOKEN_DRAIN) != 0)
    tn__queue_drain(token->queue);
  else
    tn__token_execute(token);
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
  if (atomic_load_explicit(&pool->highest, memory_order_relaxed) <= above)
    return false;
  *out = (tn__ready_work){tn__heap_take(pool), 0};
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
  if (tn__loop_has_room(pool)) {
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
    if (pool != NULL && tn__loop_has_room(pool)) return true;
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

static void *run_worker(void *arg) {
  tn__worker_slot *slot = arg;
  slot_here = slot;
  (void)fesetenv(FE_DFL_ENV); /* the creator may have another one */
  while (atomic_load_explicit(&slot->pool->stopping, memory_order_acquire) == 0)
    if (!do_one_thing(slot)) search_then_sleep(slot);
  stop_searching(slot, false);
  return NULL;
}

bool tn__thread_create(pthread_t *out, void *(*run)(void *arg), void *arg) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int failed = pthread_create(out, NULL, run, arg);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return failed == 0;
}

static void start_threads(tn__pool *pool) {
  uint32_t n = 0;
  for (tn__worker_slot *slot = pool->slots;
       n < pool->n_workers &&
       tn__thread_create(&slot->thread, run_worker, slot);
       ++n, ++slot) {
    char name[24];
    snprintf(name, sizeof name, "tenon %u", n + 1);
    pthread_setname_np(slot->thread, name);
  }
  atomic_store(&pool->n_threads, n);
  if (n < pool->n_workers)
    tn__log(pool->env, TN__LOG_ENGINE, TN_LOG_WARNING,
            "the system granted %u of %u worker threads; going on with them", n,
            pool->n_workers);
  else
    tn__log(pool->env, TN__LOG_ENGINE, TN_LOG_DEBUG, "started %u workers", n);
}

/* A thread that adds work checks `started` afterwards. tn__pool_stop clears it
 * and checks for work afterwards. */
void tn__pool_start(tn__pool *pool) {
  /* A worker need not, and must not: the thread that waits for its end holds
   * the lock. */
  if (atomic_load(&pool->started) != 0 || tn__pool_worker_number(pool) != 0)
    return;
  pthread_mutex_lock(&pool->start_lock);
  if (atomic_load(&pool->started) == 0) {
    start_threads(pool);
    atomic_store(&pool->started, 1);
  }
  pthread_mutex_unlock(&pool->start_lock);
}

/* Every thread removes itself from `idle`, and answers the wake-up if another
 * thread has counted it as woken. So no wake-up is left or under way. */
static void end_threads(tn__pool *pool) {
  pthread_mutex_lock(&pool->start_lock);
  const uint32_t n = atomic_load(&pool->n_threads);
  atomic_store(&pool->stopping, 1);
  atomic_fetch_or(&pool->wakeups, TN__CLOSING);
  tn__futex_wake(&pool->wakeups, n);
  for (uint32_t i = 0; i < n; ++i) pthread_join(pool->slots[i].thread, NULL);
  assert(atomic_load(&pool->idle) == 0);
  assert(atomic_load(&pool->wakeups) == TN__CLOSING);
  atomic_store(&pool->wakeups, 0);
  atomic_store(&pool->stopping, 0);
  atomic_store(&pool->n_threads, 0);
  atomic_store(&pool->started, 0);
  pthread_mutex_unlock(&pool->start_lock);
}

void tn__pool_stop(tn__pool *pool) {
  end_threads(pool);
  if (!has_anything(pool)) return;
  tn__pool_start(pool);
  tn__pool_wake_workers(pool, 1);
}

/* ------------------------------------------------------- create and destroy */

static void init_pool(tn__pool *pool, tn__engine *engine, uint32_t workers) {
  *pool = (tn__pool){.engine = engine, .env = engine->env};
  pool->n_workers = workers;
  atomic_init(&pool->highest, INT32_MIN);
  pthread_mutex_init(&pool->start_lock, NULL);
  pthread_mutex_init(&pool->heap_lock, NULL);
  pthread_mutex_init(&pool->loop_lock, NULL);
}

/* On failure n_slots is the number of slots to free. */
static tn_code init_slots(tn__pool *pool) {
  const uint32_t n = pool->n_workers + TN__HELPERS;
  const size_t bytes = n * sizeof *pool->slots;
  pool->slots = tn__alloc_aligned(pool->env, bytes, _Alignof(tn__worker_slot));
  if (pool->slots == NULL) return tn__fail_memory(bytes, "the worker threads");
  for (uint32_t i = 0; i < n; ++i) {
    tn__worker_slot *slot = &pool->slots[i];
    *slot = (tn__worker_slot){.pool = pool, .number = i + 1, .random = i};
    TN__TRY(tn__deque_init(&slot->deque, pool->env));
    pool->n_slots = i + 1;
  }
  return TN_OK;
}

tn_code tn__pool_create(tn__engine *engine, uint32_t workers, tn__pool **out) {
  *out = NULL;
  tn__pool *pool =
      tn__alloc_aligned(engine->env, sizeof *pool, _Alignof(tn__pool));
  if (pool == NULL) return tn__fail_memory(sizeof *pool, "the worker threads");
  if (workers > WORKERS_MAX) workers = WORKERS_MAX;
  engine->workers = workers;
  init_pool(pool, engine, workers);
  const tn_code code = init_slots(pool);
  if (code == TN_OK)
    *out = pool;
  else
    tn__pool_destroy(pool);
  return code;
}

void tn__pool_destroy(tn__pool *pool) {
  if (pool == NULL) return;
  end_threads(pool);
  for (uint32_t i = 0; i < pool->n_slots; ++i)
    tn__deque_deinit(&pool->slots[i].deque);
  tn__free(pool->env, pool->slots);
  tn__free(pool->env, pool->heap);
  tn__shared_deinit(&pool->shared, pool->env);
  pthread_mutex_destroy(&pool->loop_lock);
  pthread_mutex_destroy(&pool->heap_lock);
  pthread_mutex_destroy(&pool->start_lock);
  tn__free(pool->env, pool);
}

/* ------------------------------------------------------------------- ready */

void tn__pool_ready(tn__pool *pool, tn__token *token) {
  tn__worker_slot *slot = tn__pool_slot(pool);
  const bool heaped = token->priority != 0 && tn__heap_push(pool, token);
  if (!heaped && slot != NULL &&
      tn__deque_push(&slot->deque, (tn__ready_work){token, 0})) {
    /* The worker of a completed token takes the tokens that became ready next,
     * and checks then whether they are too many. A function that pushes may run
     * for long. */
    if (tn__is_inside(pool->engine)) tn__pool_wake_workers(pool, 1);
    return;
  }
  if (!heaped) tn__shared_push(&pool->shared, pool->env, token);
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
      slot->before = slot_here;
      slot_here = slot;
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
  slot_here = slot->before;
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
    if (done && deadline == TN__FOREVER) {
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

bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline) {
  bool alone = false;
  while (atomic_load(word) == seen) {
    /* The duration of a job to help with is unknown. */
    const bool helps = deadline == TN__FOREVER || alone;
    tn__worker_slot *slot = helps ? take_slot(pool) : NULL;
    help_until_change(slot, word, seen, deadline);
    leave_slot(slot);
    if (atomic_load(word) != seen) break;
    if (deadline != TN__FOREVER && tn__now() >= deadline) return false;
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

void tn__pool_wake_waiters(_Atomic uint32_t *word) {
  tn__futex_wake(word, INT32_MAX);
}
