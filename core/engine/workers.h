/* SPDX-License-Identifier: Apache-2.0
 * workers.h: the work of worker threads, and of threads that wait. This folder
 * only.
 *
 * A worker takes its own newest token, then one from the heap and the shared
 * list. Then it dispatches records if the engine has a mailbox without a
 * dispatcher. Then it steals the oldest token of another worker.
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
#ifndef TENON_ENGINE_WORKERS_H_
#define TENON_ENGINE_WORKERS_H_

#include "pool.h"

/* The function of a worker thread; `slot` is a tn__worker_slot. */
void *tn__worker_run(void *slot);
/* Ends all threads. They start again on demand, and at once if a token has
 * become ready meanwhile. */
void tn__pool_stop(tn__pool *pool);

/* Sleeps until *word is no longer `seen`; false when `deadline` (tn__now, or
 * TN__FOREVER) has passed. tn__futex_wake_all ends such sleeps after a change
 * of *word. A sleep without a deadline helps to run jobs first. One with a
 * deadline helps only if the system has refused every thread, and such a job
 * may then last beyond the deadline. Without a pool (NULL) it cannot help. */
bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline);

#endif /* TENON_ENGINE_WORKERS_H_ */
