/* SPDX-License-Identifier: Apache-2.0
 * pool.c: the places of ready tokens, and the threads that take them: how they
 * start, wake up and end. workers.c is their work.
 *
 * A thread that adds work checks `idle` afterwards; workers.c explains why.
 */
#include "pool.h"

#include <assert.h>
#include <stdio.h>

#include "engine_state.h"
#include "futex.h"
#include "run_frame.h"
#include "thread.h"
#include "token.h"

enum { WORKERS_MAX = 4096 };

_Thread_local tn__worker_slot *tn__pool_slot_here
    __attribute__((tls_model("initial-exec")));

uint32_t tn__pool_worker_number(const tn__pool *pool) {
  const tn__worker_slot *slot = tn__pool_slot(pool);
  return slot != NULL && slot->number <= pool->n_workers ? slot->number : 0;
}

bool tn__pool_has_work(tn__worker_slot *slot) {
  tn__pool *pool = slot->pool;
  return !tn__deque_is_empty(&slot->deque) ||
         !tn__shared_is_empty(&pool->shared) ||
         atomic_load(&pool->heap.highest) != INT32_MIN ||
         tn__loop_has_room(&pool->loops) ||
         atomic_load_explicit(&pool->stopping, memory_order_relaxed) != 0;
}

/* ---------------------------------------------------------------- sleepers */

void tn__pool_wake_sleepers(tn__pool *pool, uint32_t n) {
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
  tn__pool_wake_sleepers(pool, atomic_load(&pool->idle) / TN__SEARCHING + n);
}

/* ----------------------------------------------------------------- threads */

static void start_threads(tn__pool *pool) {
  uint32_t n = 0;
  for (tn__worker_slot *slot = pool->slots;
       n < pool->n_workers && tn__thread_create(&slot->thread, pool->run, slot);
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
void tn__pool_end_threads(tn__pool *pool) {
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

/* ------------------------------------------------------- create and destroy */

static void init_pool(tn__pool *pool, tn__engine *engine, uint32_t workers,
                      void *(*run)(void *slot)) {
  *pool = (tn__pool){.engine = engine, .env = engine->env, .run = run};
  pool->n_workers = workers;
  tn__priority_heap_init(&pool->heap);
  pthread_mutex_init(&pool->start_lock, NULL);
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

tn_code tn__pool_create(tn__engine *engine, uint32_t workers,
                        void *(*run)(void *slot), tn__pool **out) {
  *out = NULL;
  tn__pool *pool =
      tn__alloc_aligned(engine->env, sizeof *pool, _Alignof(tn__pool));
  if (pool == NULL) return tn__fail_memory(sizeof *pool, "the worker threads");
  if (workers > WORKERS_MAX) workers = WORKERS_MAX;
  engine->workers = workers;
  init_pool(pool, engine, workers, run);
  const tn_code code = init_slots(pool);
  if (code == TN_OK)
    *out = pool;
  else
    tn__pool_destroy(pool);
  return code;
}

void tn__pool_destroy(tn__pool *pool) {
  if (pool == NULL) return;
  tn__pool_end_threads(pool);
  for (uint32_t i = 0; i < pool->n_slots; ++i)
    tn__deque_deinit(&pool->slots[i].deque);
  tn__free(pool->env, pool->slots);
  tn__priority_heap_deinit(&pool->heap, pool->env);
  tn__shared_deinit(&pool->shared, pool->env);
  pthread_mutex_destroy(&pool->loop_lock);
  pthread_mutex_destroy(&pool->start_lock);
  tn__free(pool->env, pool);
}

/* ------------------------------------------------------------------- ready */

void tn__pool_ready(tn__pool *pool, tn__token *token) {
  tn__worker_slot *slot = tn__pool_slot(pool);
  const bool heaped = token->priority != 0 &&
                      tn__priority_heap_push(&pool->heap, pool->env, token);
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
