/* SPDX-License-Identifier: Apache-2.0
 * pool.h: worker threads, and the places from which they take ready tokens.
 * This folder only.
 *
 * A ready token goes to the deque of the worker that made it ready. Other
 * threads put it into the shared list. Tokens with a priority go to a heap,
 * which workers check first (priority above 0) or last (below 0). A worker
 * takes its own newest token, then one from the heap and the shared list. Then
 * it dispatches records if the engine has a mailbox without a dispatcher. Then
 * it steals the oldest token of another worker.
 *
 * A worker that finds nothing searches for TN__SEARCH_NS and then sleeps. A
 * wake-up costs more than most functions. So a thread wakes one sleeper at a
 * time, and that one wakes the next if it finds more than it can do.
 *
 * A worker that finds a loop while it searches will search twice as long the
 * next time, up to TN__SEARCH_MAX_NS. One that finds nothing for that long
 * starts again with TN__SEARCH_NS. So workers stay awake between two short
 * loops, and loops that have ended cost at most one long search of each worker.
 * Beyond TN__SEARCH_NS one worker fewer searches than there are: the caller of
 * a loop takes part, so the loop has no use for the last worker.
 *
 * With more threads than processors a searching thread may have no processor,
 * and still keeps others asleep because it seems about to come. So a thread
 * sleeps when it notices that it had to wait for a processor, and a loop
 * without participants wakes workers again.
 */
#ifndef TENON_ENGINE_POOL_H_
#define TENON_ENGINE_POOL_H_

#include <fenv.h>
#include <pthread.h>

#include "deque.h"
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

enum { TN__HELPERS = 4, TN__LOOPS = 64 };

/* A loop that wants participants; parallel_for.c explains `state`. */
typedef struct tn__loop_slot {
  _Alignas(64) _Atomic uint32_t state;
  struct tn__loop_run *loop;
} tn__loop_slot;

struct tn__pool {
  tn__engine *engine;
  const tn__env *env;
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

  _Alignas(64) pthread_mutex_t heap_lock;
  struct tn__heap_entry *heap;
  size_t n_heap, heap_capacity;
  uint64_t heap_serial;
  _Atomic int32_t highest; /* highest priority in the heap; INT32_MIN: empty */

  pthread_mutex_t loop_lock; /* protects the errors of loops */
  _Atomic uint64_t
      unattended; /* ns of consecutive loops without participants */
  _Atomic uint64_t unattended_at;
  _Alignas(64) _Atomic uint64_t open_loops; /* a bit for each slot */
  tn__loop_slot loops[TN__LOOPS];
};

#define TN__SEARCH_NS 30000u
#define TN__SEARCH_MAX_NS (8 * TN__SEARCH_NS)

#define TN__ASLEEP 1u
#define TN__SEARCHING 0x10000u
#define TN__CLOSING 0x80000000u

/* With at most 4096 workers; sets engine->workers to their number. */
tn_code tn__pool_create(tn__engine *engine, uint32_t workers, tn__pool **out);
/* Ends all threads. They start again on demand, and at once if a token has
 * become ready meanwhile. */
void tn__pool_stop(tn__pool *pool);
/* NULL is allowed. All ready tokens must have run. */
void tn__pool_destroy(tn__pool *pool);

/* Starts the threads if there are none. tn__pool_ready calls it. */
void tn__pool_start(tn__pool *pool);

/* Adds a token that may run. Never fails: if the system refused all threads, a
 * waiting thread finds the token. */
void tn__pool_ready(tn__pool *pool, tn__token *token);

/* Sleeps until *word is no longer `seen`; false when `deadline` (tn__now, or
 * TN__FOREVER) has passed. tn__pool_wake_waiters ends such sleeps after a
 * change of *word. A sleep without a deadline helps to run jobs first. One with
 * a deadline helps only if the system has refused every thread, and such a job
 * may then last beyond the deadline. Without a pool (NULL) it cannot help. */
bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline);
void tn__pool_wake_waiters(_Atomic uint32_t *word);

/* The calling thread's worker number in this pool, from 1; 0: no worker. */
uint32_t tn__pool_worker_number(const tn__pool *pool);

/* The calling thread's slot in this pool, or NULL. */
tn__worker_slot *tn__pool_slot(const tn__pool *pool);

/* True if there is work for this slot besides the mailbox, or the threads are
 * to end. */
bool tn__pool_has_work(tn__worker_slot *slot);

/* Wakes up to `n` sleepers because there is more work than the caller can do;
 * fewer if threads are searching already. */
void tn__pool_wake_workers(tn__pool *pool, uint32_t n);

/* The same without regard to searching threads: none came, perhaps because they
 * have no processor. */
void tn__pool_wake_more(tn__pool *pool, uint32_t n);

/* Tokens with a priority. Push is false without memory; take is NULL if the
 * heap is empty. */
bool tn__heap_push(tn__pool *pool, tn__token *token);
tn__token *tn__heap_take(tn__pool *pool);

/* Runs slices of a loop that wants participants and is nested deeper than
 * `depth`; false: there is none. */
bool tn__loop_help(tn__pool *pool, uint32_t depth);
/* True if a loop has room for a participant. */
bool tn__loop_has_room(tn__pool *pool);

#endif /* TENON_ENGINE_POOL_H_ */
