/* SPDX-License-Identifier: Apache-2.0
 * queue_drain.c: runs the tokens of a device queue, one at a time, in the order
 * in which they became ready. Any worker that finds the queue drains it.
 */
#include "queue_drain.h"

#include "pool.h"

enum { IN_A_ROW = 64 }; /* tokens before the worker checks for other work */

/* NULL: there is none; then the draining ends if `end` allows that. */
static tn__token *take_token(tn__queue *queue, bool end) {
  pthread_mutex_lock(&queue->lock);
  tn__token *token = queue->first;
  if (token != NULL) {
    queue->first = token->next;
    if (queue->first == NULL) queue->last = NULL;
  } else if (end) {
    queue->draining = 0;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->lock);
  return token;
}

/* A job may have made tokens ready that wait in this worker's deque while the
 * worker continues with the queue. */
static void wake_for_deque(tn__pool *pool) {
  tn__worker_slot *slot = tn__pool_slot(pool);
  if (slot != NULL && !tn__deque_is_empty(&slot->deque))
    tn__pool_wake_workers(pool, 1);
}

/* False: there is no token left, and the draining is over. */
static bool drain_next(tn__queue *queue) {
  tn__token *token = take_token(queue, false);
  if (token == NULL) {
    tn__fence_record_pending(queue);
    token = take_token(queue, true);
  }
  if (token == NULL) return false;
  tn__token_execute(token);
  return true;
}

void tn__queue_drain(tn__queue *queue) {
  tn__pool *pool = queue->engine->pool;
  const bool alone = pool == NULL;
  tn__queue *outer = tn__draining;
  bool more = true;
  queue->outer = outer;
  tn__draining = queue;
  for (uint32_t n = 0; more && (alone || n < IN_A_ROW); ++n) {
    more = drain_next(queue);
    if (more && !alone) wake_for_deque(pool);
  }
  if (more) tn__fence_record_pending(queue);
  tn__draining = outer;
  if (more) tn__queue_begin_draining(queue);
}
