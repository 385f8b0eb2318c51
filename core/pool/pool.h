/* SPDX-License-Identifier: Apache-2.0
 * pool.h: the places of ready tokens, and the threads that take them. For the
 * folders of the engine.
 *
 * A ready token goes to the deque of the worker that made it ready. Other
 * threads put it into the shared list. Tokens with a priority go to a heap,
 * which workers check first (priority above 0) or last (below 0).
 */
#ifndef TENON_CORE_POOL_H_
#define TENON_CORE_POOL_H_

#include <fenv.h>
#include <pthread.h>

#include "deque.h"
#include "loop_slots.h"
#include "priority_heap.h"
#include "shared_list.h"

typedef struct tn__pool tn__pool;

/* A place from which a thread takes work: of a worker, or of a helping thread
 * that waits meanwhile. */
typedef struct tn__worker_slot {
  tn__deque deque;
  tn__pool *pool;
  pthread_t thread;
  struct tn__worker_slot *before; /* of the same thread, in another pool */
  fenv_t floating; /* saved floating-point environment of a helping thread */
  uint32_t number; /* from 1; slots of helping threads follow the workers */
  uint32_t random;
  uint32_t searching; /* counted in `idle` as searching */
  uint32_t n_loops;   /* loops in which it has run slices; wraps around */
  uint32_t search_ns; /* duration of its search; 0: TN__SEARCH_NS */
  uint64_t seen; /* last `begin` of the mailbox that a helping thread read */
  _Atomic uint32_t taken; /* slot of a helping thread: in use */
} tn__worker_slot;

enum { TN__HELPERS = 4 };

struct tn__pool {
  tn__engine *engine;
  const tn__env *env;
  void *(*run)(void *slot); /* of a worker thread */
  tn__worker_slot *slots;
  uint32_t n_workers;
  uint32_t n_slots; /* slots of workers and of helping threads */
  pthread_mutex_t start_lock;
  _Atomic uint32_t started;
  _Atomic uint32_t stopping;
  _Atomic uint32_t n_threads; /* threads that the system created */

  tn__shared shared;

  /* Idle workers: multiples of TN__ASLEEP count those that sleep or are about
   * to, multiples of TN__SEARCHING those that search. `wakeups` counts wake-ups
   * that no thread has answered yet; TN__CLOSING is added while the threads are
   * to end. */
  _Alignas(64) _Atomic uint32_t idle;
  _Atomic uint32_t wakeups;

  _Alignas(64) tn__priority_heap heap;

  pthread_mutex_t loop_lock; /* protects the errors of loops */
  _Atomic uint64_t
      unattended; /* ns of consecutive loops without participants */
  _Atomic uint64_t unattended_at;
  tn__loop_slots loops;
};

#define TN__SEARCH_NS 30000u
#define TN__SEARCH_MAX_NS (8 * TN__SEARCH_NS)

#define TN__ASLEEP 1u
#define TN__SEARCHING 0x10000u
#define TN__CLOSING 0x80000000u

/* With at most 4096 workers; sets engine->workers to their number. `run` is the
 * function of their threads; its argument is a tn__worker_slot. */
tn_code tn__pool_create(tn__engine *engine, uint32_t workers,
                        void *(*run)(void *slot), tn__pool **out);
/* Ends all threads. They start again on demand. */
void tn__pool_end_threads(tn__pool *pool);
/* NULL is allowed. All ready tokens must have run. */
void tn__pool_destroy(tn__pool *pool);

/* Starts the threads if there are none. tn__pool_ready calls it. */
void tn__pool_start(tn__pool *pool);

/* Adds a token that may run. Never fails: if the system refused all threads, a
 * waiting thread finds the token. */
void tn__pool_ready(tn__pool *pool, tn__token *token);

/* Slot of this thread in the pool whose work it does, or NULL. */
extern _Thread_local tn__worker_slot *tn__pool_slot_here
    __attribute__((tls_model("initial-exec")));
/* The calling thread's slot in this pool, or NULL. */
static inline tn__worker_slot *tn__pool_slot(const tn__pool *pool) {
  tn__worker_slot *slot = tn__pool_slot_here;
  return slot != NULL && slot->pool == pool ? slot : NULL;
}

/* The calling thread's worker number in this pool, from 1; 0: no worker. */
uint32_t tn__pool_worker_number(const tn__pool *pool);

/* True if there is work for this slot besides the mailbox, or the threads are
 * to end. */
bool tn__pool_has_work(tn__worker_slot *slot);

/* Wakes up to `n` sleepers; fewer if threads are searching already. */
void tn__pool_wake_sleepers(tn__pool *pool, uint32_t n);
/* The same, because there is more work than the caller can do. Mostly there is
 * no sleeper, or a thread is searching. */
static inline void tn__pool_wake_workers(tn__pool *pool, uint32_t n) {
  const uint32_t idle = atomic_load(&pool->idle);
  if (idle % TN__SEARCHING != 0 && idle / TN__SEARCHING < n)
    tn__pool_wake_sleepers(pool, n);
}

/* The same without regard to searching threads: none came, perhaps because they
 * have no processor. */
void tn__pool_wake_more(tn__pool *pool, uint32_t n);

#endif /* TENON_CORE_POOL_H_ */
