/* SPDX-License-Identifier: Apache-2.0
 * pool.c: worker threads: what they do next, and how they sleep and are woken.
 *
 * Nothing gets lost between a push and a worker that falls asleep, because both
 * sides write first and look then, in the one order of sequentially consistent
 * operations: who adds work looks at `idle` afterwards; who falls asleep counts
 * itself in `idle` and looks for work afterwards. As long as somebody looks
 * around (TN__LOOKING), nobody needs to be woken: the last one who finds
 * something checks whether there is more, and calls the next.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>

#include "pool.h"

enum {
  AWAIT_NS = 20000, /* how long a waiting thread looks around */
  BATCH = 32,       /* from the shared list at once */
  WORKERS_MAX = 4096,
  CROWDED_NS = 50000, /* of a yield: others have the processor */
  RELAX = 8,          /* pauses between two looks */
  YIELD = 16          /* looks between two offers of the processor to others */
};

static _Thread_local tn__seat *here __attribute__((tls_model("initial-exec")));

tn__seat *tn__pool_seat(const tn__pool *pool) {
  return here != NULL && here->pool == pool ? here : NULL;
}

uint32_t tn__pool_worker(const tn__pool *pool) {
  const tn__seat *seat = tn__pool_seat(pool);
  return seat != NULL && seat->number <= pool->n_workers ? seat->number : 0;
}

/* ----------------------------------------------------------------- looking */

bool tn__pool_busy(tn__seat *seat) {
  tn__pool *pool = seat->pool;
  return !tn__deque_empty(&seat->deque) || !tn__shared_empty(&pool->shared) ||
         atomic_load(&pool->highest) != INT32_MIN || tn__loop_wanted(pool) ||
         atomic_load_explicit(&pool->stopping, memory_order_relaxed) != 0;
}

static bool post_wanted(tn__pool *pool) {
  tn__post *post = pool->engine->post;
  return post != NULL && tn__post_wanted(post);
}

static bool ready(tn__pool *pool) {
  if (!tn__shared_empty(&pool->shared) ||
      atomic_load(&pool->highest) != INT32_MIN)
    return true;
  if (post_wanted(pool)) return true;
  for (uint32_t i = 0; i < pool->n_seats; ++i)
    if (!tn__deque_empty(&pool->seats[i].deque)) return true;
  return false;
}

static bool anything(tn__pool *pool) {
  return tn__loop_wanted(pool) || ready(pool);
}

static bool looking(const tn__seat *seat) {
  return seat->looking != 0;
}

static void start_looking(tn__seat *seat) {
  if (looking(seat)) return;
  seat->looking = 1;
  atomic_fetch_add(&seat->pool->idle, TN__LOOKING);
}

/* The seat has found something. If that is a loop nobody else is called for it:
 * its caller knows whether it is worth that. */
static void stop_looking(tn__seat *seat, bool loop) {
  if (!looking(seat)) return;
  tn__pool *pool = seat->pool;
  seat->looking = 0;
  const uint32_t idle =
      atomic_fetch_sub(&pool->idle, TN__LOOKING) - TN__LOOKING;
  if (idle < TN__LOOKING && idle != 0 && (loop ? ready(pool) : anything(pool)))
    tn__pool_call(pool, 1);
}

void tn__pool_call(tn__pool *pool, uint32_t n) {
  uint32_t idle = atomic_load(&pool->idle);
  uint32_t woken = 0;
  do {
    const uint32_t n_asleep = idle % TN__LOOKING;
    const uint32_t n_looking = idle / TN__LOOKING;
    if (n_asleep == 0 || n_looking >= n) return;
    woken = n - n_looking < n_asleep ? n - n_looking : n_asleep;
  } while (!atomic_compare_exchange_weak(
      &pool->idle, &idle, idle + woken * (TN__LOOKING - TN__ASLEEP)));
  atomic_fetch_add(&pool->bell, woken);
  tn__futex_wake(&pool->bell, woken);
}

void tn__pool_call_again(tn__pool *pool, uint32_t n) {
  tn__pool_call(pool, atomic_load(&pool->idle) / TN__LOOKING + n);
}

/* ------------------------------------------------------------------- doing */

static void execute(tn__work work) {
  if (work.range != 0) {
    tn__schedule_work(work.of, work.range);
    return;
  }
  tn__token *token = work.of;
  if ((token->flags & TN__TOKEN_DRAIN) != 0)
    tn__queue_drain(token->queue);
  else
    tn__token_execute(token);
}

/* Several from the shared list: the oldest to run, the others for the deque,
 * where thieves find them. */
static bool take_shared(tn__seat *seat, tn__work *out) {
  tn__pool *pool = seat->pool;
  tn__token *tokens[BATCH];
  const uint32_t n = tn__shared_take(&pool->shared, tokens, BATCH);
  if (n == 0) return false;
  for (uint32_t i = 1; i < n; ++i) tn__token_fetch(tokens[i]);
  *out = (tn__work){tokens[0], 0};
  if (n > 1 && !tn__deque_push_all(&seat->deque, tokens + 1, n - 1))
    for (uint32_t i = 1; i < n; ++i)
      tn__shared_push(&pool->shared, pool->env, tokens[i]);
  return true;
}

static bool take_urgent(tn__pool *pool, int32_t above, tn__work *out) {
  if (atomic_load_explicit(&pool->highest, memory_order_relaxed) <= above)
    return false;
  *out = (tn__work){tn__heap_take(pool), 0};
  return out->of != NULL;
}

static bool steal(tn__seat *seat, tn__work *out) {
  tn__pool *pool = seat->pool;
  seat->random = seat->random * 1664525 + 1013904223;
  const uint32_t first = (seat->random >> 16) % pool->n_seats;
  for (uint32_t i = 0; i < pool->n_seats; ++i) {
    tn__seat *victim = &pool->seats[(first + i) % pool->n_seats];
    if (victim != seat && tn__deque_steal(&victim->deque, out)) return true;
  }
  return false;
}

/* A guest leaves the post to workers, if one of them has nothing else to do, or
 * has taken something since the guest looked last. */
static bool is_left_to_workers(tn__seat *seat) {
  tn__pool *pool = seat->pool;
  const uint64_t seen = seat->seen;
  if (seat->number <= pool->n_workers) return false;
  seat->seen =
      atomic_load_explicit(&pool->engine->post->begin, memory_order_relaxed);
  return seat->seen != seen ||
         atomic_load_explicit(&pool->idle, memory_order_relaxed) != 0;
}

static bool serve_post(tn__seat *seat) {
  tn__post *post = seat->pool->engine->post;
  if (post == NULL || is_left_to_workers(seat) || !tn__post_take(post))
    return false;
  stop_looking(seat, false);
  return tn__post_serve(post, seat);
}

/* Does one thing, if there is any. */
static bool act(tn__seat *seat) {
  tn__pool *pool = seat->pool;
  tn__work work;
  if (take_urgent(pool, 0, &work) || tn__deque_take(&seat->deque, &work) ||
      take_shared(seat, &work)) {
    stop_looking(seat, false);
    if (!tn__deque_empty(&seat->deque)) tn__pool_call(pool, 1);
    execute(work);
    return true;
  }
  if (serve_post(seat)) return true;
  if (tn__loop_wanted(pool)) {
    stop_looking(seat, true);
    if (tn__loop_help(pool, 0)) return true;
  }
  if (steal(seat, &work) || take_urgent(pool, INT32_MIN, &work)) {
    stop_looking(seat, false);
    execute(work);
    return true;
  }
  return false;
}

/* ---------------------------------------------------------------- sleeping */

/* Takes back that this thread is about to sleep. False: somebody has woken it
 * meanwhile, and has rung the bell. */
static bool cancel_sleep(tn__pool *pool) {
  uint32_t idle = atomic_load(&pool->idle);
  do
    if (idle % TN__LOOKING == 0) return false;
  while (!atomic_compare_exchange_weak(&pool->idle, &idle,
                                       idle + TN__LOOKING - TN__ASLEEP));
  return true;
}

/* False: nobody has rung, and *bell is what the bell was then. */
static bool answer_bell(tn__pool *pool, uint32_t *bell) {
  *bell = atomic_load(&pool->bell);
  while ((*bell & ~TN__CLOSING) != 0)
    if (atomic_compare_exchange_weak(&pool->bell, bell, *bell - 1)) return true;
  return false;
}

/* Comes back as one that looks around: whoever woke it has counted it so. */
static void sleep_on(tn__seat *seat) {
  tn__pool *pool = seat->pool;
  uint32_t bell;
  atomic_fetch_add(&pool->idle, TN__ASLEEP - TN__LOOKING);
  if (anything(pool) && cancel_sleep(pool)) return;
  while (!answer_bell(pool, &bell)) {
    if ((bell & TN__CLOSING) != 0 && cancel_sleep(pool)) return;
    tn__futex_wait(&pool->bell, bell, TN__FOREVER);
  }
}

/* A loop ends the pause: it is over soon. False: the processor is wanted by
 * others. */
static bool relax(tn__pool *pool, uint32_t round) {
  for (int i = 0; i < RELAX; ++i) {
    tn__relax();
    if (pool != NULL && tn__loop_wanted(pool)) return true;
  }
  if (round % YIELD != YIELD - 1) return true;
  const uint64_t since = tn__now();
  sched_yield();
  return tn__now() - since < CROWDED_NS;
}

/* pool.h says why. */
static bool looks_on(const tn__seat *seat, uint64_t since) {
  const tn__pool *pool = seat->pool;
  const uint64_t ns = tn__now() - since;
  if (ns < TN__LOOK_NS) return true;
  return ns < seat->patience &&
         atomic_load_explicit(&pool->idle, memory_order_relaxed) / TN__LOOKING <
             pool->n_workers;
}

static void grow_patience(tn__seat *seat) {
  const uint32_t now =
      seat->patience < TN__LOOK_NS ? TN__LOOK_NS : seat->patience;
  seat->patience = 2 * now < TN__LOOK_MOST_NS ? 2 * now : TN__LOOK_MOST_NS;
}

/* Who looks around on a processor that others want sleeps instead: it counts as
 * one that would come, and who is woken finds a processor that is free. */
static void rest(tn__seat *seat) {
  const uint64_t since = tn__now();
  const uint32_t n_loops = seat->n_loops;
  bool alone = true;
  start_looking(seat);
  for (uint32_t round = 0; alone && looks_on(seat, since); ++round) {
    alone = relax(seat->pool, round);
    const bool done = act(seat);
    if (seat->n_loops != n_loops) grow_patience(seat);
    if (done || !looking(seat) ||
        atomic_load_explicit(&seat->pool->stopping, memory_order_relaxed) != 0)
      return;
  }
  seat->patience = 0;
  sleep_on(seat);
}

/* ----------------------------------------------------------------- threads */

static void *work(void *arg) {
  tn__seat *seat = arg;
  here = seat;
  (void)fesetenv(FE_DFL_ENV); /* whoever created the thread may have another */
  while (atomic_load_explicit(&seat->pool->stopping, memory_order_acquire) == 0)
    if (!act(seat)) rest(seat);
  stop_looking(seat, false);
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
  for (tn__seat *seat = pool->seats;
       n < pool->n_workers && tn__thread_create(&seat->thread, work, seat);
       ++n, ++seat) {
    char name[24];
    snprintf(name, sizeof name, "tenon %u", n + 1);
    pthread_setname_np(seat->thread, name);
  }
  atomic_store(&pool->n_threads, n);
  if (n < pool->n_workers)
    tn__log(pool->env, TN_LOG_WARNING,
            "the system granted %u of %u worker threads; going on with them", n,
            pool->n_workers);
}

/* Who adds work looks at `started` afterwards, and tn__pool_stop, which clears
 * it, looks for work afterwards. */
void tn__pool_start(tn__pool *pool) {
  /* A worker need not, and may not: who waits for its end holds the lock. */
  if (atomic_load(&pool->started) != 0 || tn__pool_worker(pool) != 0) return;
  pthread_mutex_lock(&pool->start_lock);
  if (atomic_load(&pool->started) == 0) {
    start_threads(pool);
    atomic_store(&pool->started, 1);
  }
  pthread_mutex_unlock(&pool->start_lock);
}

/* Every thread takes itself out of `idle`, and answers the bell if somebody has
 * counted it as woken: so no ring is left, nor one on its way. */
static void end_threads(tn__pool *pool) {
  pthread_mutex_lock(&pool->start_lock);
  const uint32_t n = atomic_load(&pool->n_threads);
  atomic_store(&pool->stopping, 1);
  atomic_fetch_or(&pool->bell, TN__CLOSING);
  tn__futex_wake(&pool->bell, n);
  for (uint32_t i = 0; i < n; ++i) pthread_join(pool->seats[i].thread, NULL);
  assert(atomic_load(&pool->idle) == 0);
  assert(atomic_load(&pool->bell) == TN__CLOSING);
  atomic_store(&pool->bell, 0);
  atomic_store(&pool->stopping, 0);
  atomic_store(&pool->n_threads, 0);
  atomic_store(&pool->started, 0);
  pthread_mutex_unlock(&pool->start_lock);
}

void tn__pool_stop(tn__pool *pool) {
  end_threads(pool);
  if (!anything(pool)) return;
  tn__pool_start(pool);
  tn__pool_call(pool, 1);
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

/* On failure n_seats says how many are to be taken back. */
static tn_code init_seats(tn__pool *pool) {
  const uint32_t n = pool->n_workers + TN__GUESTS;
  const size_t bytes = n * sizeof *pool->seats;
  pool->seats = tn__alloc_aligned(pool->env, bytes, _Alignof(tn__seat));
  if (pool->seats == NULL) return tn__fail_memory(bytes, "the worker threads");
  for (uint32_t i = 0; i < n; ++i) {
    tn__seat *seat = &pool->seats[i];
    *seat = (tn__seat){.pool = pool, .number = i + 1, .random = i};
    TN__TRY(tn__deque_init(&seat->deque, pool->env));
    pool->n_seats = i + 1;
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
  const tn_code code = init_seats(pool);
  if (code == TN_OK)
    *out = pool;
  else
    tn__pool_destroy(pool);
  return code;
}

void tn__pool_destroy(tn__pool *pool) {
  if (pool == NULL) return;
  end_threads(pool);
  for (uint32_t i = 0; i < pool->n_seats; ++i)
    tn__deque_deinit(&pool->seats[i].deque);
  tn__free(pool->env, pool->seats);
  tn__free(pool->env, pool->heap);
  tn__shared_deinit(&pool->shared, pool->env);
  pthread_mutex_destroy(&pool->loop_lock);
  pthread_mutex_destroy(&pool->heap_lock);
  pthread_mutex_destroy(&pool->start_lock);
  tn__free(pool->env, pool);
}

/* ------------------------------------------------------------------- ready */

void tn__pool_ready(tn__pool *pool, tn__token *token) {
  tn__seat *seat = tn__pool_seat(pool);
  const bool heaped = token->priority != 0 && tn__heap_push(pool, token);
  if (!heaped && seat != NULL &&
      tn__deque_push(&seat->deque, (tn__work){token, 0})) {
    /* What a completed token makes ready its worker takes next, and looks then
     * whether it is too much. A function that pushes may run for long. */
    if (tn__inside(pool->engine)) tn__pool_call(pool, 1);
    return;
  }
  if (!heaped) tn__shared_push(&pool->shared, pool->env, token);
  tn__pool_start(pool);
  tn__pool_call(pool, 1);
}

/* ----------------------------------------------------------------- waiting */

/* A thread that has a seat already is inside of something, and gets none. */
static tn__seat *sit(tn__pool *pool) {
  if (pool == NULL || tn__pool_seat(pool) != NULL) return NULL;
  for (uint32_t i = pool->n_workers; i < pool->n_seats; ++i) {
    tn__seat *seat = &pool->seats[i];
    uint32_t taken = atomic_load_explicit(&seat->taken, memory_order_relaxed);
    if (taken == 0 && atomic_compare_exchange_strong(&seat->taken, &taken, 1)) {
      seat->before = here;
      here = seat;
      (void)fegetenv(&seat->floating);
      (void)fesetenv(FE_DFL_ENV);
      return seat;
    }
  }
  return NULL;
}

/* Others steal what a guest leaves behind. */
static void stand_up(tn__seat *seat) {
  if (seat == NULL) return;
  tn__pool *pool = seat->pool;
  here = seat->before;
  (void)fesetenv(&seat->floating);
  const bool left = !tn__deque_empty(&seat->deque);
  atomic_store(&seat->taken, 0);
  if (!left) return;
  tn__pool_start(pool);
  tn__pool_call(pool, 1);
}

/* Until the word changes, or the deadline passes, or there has been nothing to
 * do for a while. What is posted and left to workers may be what is waited for.
 */
static void help_until(tn__seat *seat, _Atomic uint32_t *word, uint32_t seen,
                       uint64_t deadline) {
  uint64_t quiet = 0;
  for (uint32_t round = 0; atomic_load(word) == seen; ++round) {
    const bool done = seat != NULL && act(seat);
    if (done && deadline == TN__FOREVER) {
      quiet = 0;
      continue;
    }
    const uint64_t now = tn__now();
    if (done || quiet == 0) quiet = now + AWAIT_NS;
    if (now >= deadline) return;
    if (now >= quiet && (seat == NULL || !post_wanted(seat->pool))) return;
    if (!done) (void)relax(seat != NULL ? seat->pool : NULL, round);
  }
}

bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline) {
  bool alone = false;
  while (atomic_load(word) == seen) {
    /* Nobody knows how long what it would help with takes. */
    const bool helps = deadline == TN__FOREVER || alone;
    tn__seat *seat = helps ? sit(pool) : NULL;
    help_until(seat, word, seen, deadline);
    stand_up(seat);
    if (atomic_load(word) != seen) break;
    if (deadline != TN__FOREVER && tn__now() >= deadline) return false;
    if (pool != NULL) {
      tn__pool_start(pool);
      alone = atomic_load(&pool->n_threads) == 0;
    }
    /* Without workers those who wait do everything, and may not sleep. */
    if (alone)
      sched_yield();
    else
      tn__futex_wait(word, seen, deadline);
  }
  return true;
}

void tn__pool_wake(_Atomic uint32_t *word) {
  tn__futex_wake(word, INT32_MAX);
}
