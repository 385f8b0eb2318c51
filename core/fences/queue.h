/* SPDX-License-Identifier: Apache-2.0
 * queue.h: device queues, as jobs and devices use them. Part of the contract of
 * engine.h.
 */
#ifndef TENON_FENCES_QUEUE_H_
#define TENON_FENCES_QUEUE_H_

#include "job.h"

/* Functions of a device for fences in its queues. A fence is *issued* when the
 * work before it is enqueued, and *done* when that work has been executed.
 * Every function sets the error text when it fails. */
typedef struct tn__queue_ops {
  /* Records a fence after all work that is enqueued so far. */
  tn_code (*record)(void *queue, void **fence);
  /* Makes the queue itself wait for a fence of another queue. TN_UNSUPPORTED if
   * that queue is of another kind of device; then the host waits. */
  tn_code (*wait)(void *queue, void *fence);
  /* Tests whether the fence is done; never blocks. */
  tn_code (*query)(void *fence, bool *done);
  /* Blocks the calling thread until the fence is done. */
  tn_code (*block)(void *fence);
  void (*drop)(void *fence);
} tn__queue_ops;

/* Jobs with this queue run one at a time, and each enqueues work. For jobs of
 * the same queue a job counts as executed as soon as it is issued. Jobs of
 * another queue make that queue wait on the device. Jobs of the host begin when
 * the work is done. TN__JOB_SMALL means here that the device needs a short
 * time. Up to 16 small jobs that follow one another share a fence; it is
 * recorded when a thread needs it, or when the next job is not small or there
 * is none. `name` is copied. */
tn_code tn__queue_create(tn__engine *engine, const tn__queue_ops *ops,
                         void *ctx, const char *name, tn__queue **out);
/* Waits until the device has executed all work of the queue's complete jobs
 * that are not TN__JOB_SMALL. Enqueues nothing. May be called from anywhere,
 * also from inside a function. The variables that the jobs wrote carry their
 * failures. */
void tn__queue_await(tn__queue *queue);
/* Records the pending fences of the queues that this thread drains. A function
 * on a queue calls it before it waits for another thread by means of its own,
 * since that thread may wait for such a fence. */
void tn__queues_record_pending(void);
/* The `ctx` of the queue that the job runs on; NULL on the host. */
void *tn__token_queue(const tn__token *token);

/* Drops the error and the fences of an unused variable before its owner frees
 * the memory. The owner knows that no function uses it, for example from a
 * count. */
void tn__var_deinit(tn__var *var);

#endif /* TENON_FENCES_QUEUE_H_ */
