/* SPDX-License-Identifier: Apache-2.0
 * device_queue.c: device queues: their ready tokens, the engine's list of
 * queues, creation and end. queue_drain.c runs the tokens.
 */
#include <string.h>

#include "fence.h"

/* ------------------------------------------------------------------- ready */

/* Inserts the token after those of its own or a higher priority. The lock is
 * held. */
static void insert_token(tn__queue *queue, tn__token *token) {
  tn__token **at = &queue->first;
  if (queue->last != NULL && queue->last->priority >= token->priority)
    at = &queue->last->next;
  while (*at != NULL && (*at)->priority >= token->priority) at = &(*at)->next;
  token->next = *at;
  *at = token;
  if (token->next == NULL) queue->last = token;
}

void tn__queue_begin_draining(tn__queue *queue) {
  queue->engine->kind->ready(queue->engine, &queue->drain);
}

void tn__queue_add_ready(tn__token *token) {
  tn__queue *queue = token->queue;
  pthread_mutex_lock(&queue->lock);
  insert_token(queue, token);
  const bool begin = queue->draining == 0;
  queue->draining = 1;
  pthread_mutex_unlock(&queue->lock);
  if (begin) tn__queue_begin_draining(queue);
}

void *tn__token_queue(const tn__token *token) {
  return token != NULL && token->queue != NULL ? token->queue->ctx : NULL;
}

/* ------------------------------------------------------- create and destroy */

/* Adds the queue to the engine's list, which tn__queues_await uses. */
static void add_to_list(tn__queue *queue) {
  tn__engine *engine = queue->engine;
  pthread_mutex_lock(&engine->queue_lock);
  queue->number = engine->n_queues++;
  queue->older = engine->queues;
  engine->queues = queue;
  pthread_mutex_unlock(&engine->queue_lock);
}

static void remove_from_list(tn__queue *queue) {
  tn__engine *engine = queue->engine;
  pthread_mutex_lock(&engine->queue_lock);
  tn__queue **at = &engine->queues;
  while (*at != queue) at = &(*at)->older;
  *at = queue->older;
  pthread_mutex_unlock(&engine->queue_lock);
}

/* The newest fence of the next queue with a smaller number that has one. */
static struct tn__fence *next_fence(tn__engine *engine, uint64_t *below) {
  struct tn__fence *found = NULL;
  pthread_mutex_lock(&engine->queue_lock);
  tn__queue *queue = engine->queues;
  for (; queue != NULL && found == NULL; queue = queue->older) {
    if (queue->number >= *below) continue;
    *below = queue->number;
    found = tn__fence_newest(queue, true);
  }
  pthread_mutex_unlock(&engine->queue_lock);
  return found;
}

/* Queues may be created and destroyed meanwhile: their numbers make sure that
 * each is visited once. */
void tn__queues_await(tn__engine *engine) {
  uint64_t below = UINT64_MAX;
  struct tn__fence *fence;
  while ((fence = next_fence(engine, &below)) != NULL) tn__fence_await(fence);
}

/* The newest fence is after all complete jobs that are not small: each such job
 * records a fence, or waits. */
void tn__queue_await(tn__queue *queue) {
  struct tn__fence *fence = tn__fence_newest(queue, false);
  if (fence != NULL) tn__fence_await(fence);
}

tn_code tn__queue_create(tn__engine *engine, const tn__queue_ops *ops,
                         void *ctx, const char *name, tn__queue **out) {
  const tn__env *env = engine->env;
  *out = NULL;
  tn__queue *queue = tn__alloc_aligned(env, sizeof *queue, _Alignof(tn__queue));
  char *copy = tn__strdup(env, name);
  if (queue == NULL || copy == NULL) {
    tn__free(env, copy);
    tn__free(env, queue);
    return tn__fail_memory(sizeof *queue + strlen(name), "a device queue");
  }
  *queue = (tn__queue){.engine = engine,
                       .env = env,
                       .ops = ops,
                       .ctx = ctx,
                       .name = copy,
                       .n_owners = 1};
  queue->drain.engine = engine;
  queue->drain.queue = queue;
  queue->drain.flags = TN__TOKEN_DRAIN;
  queue->parked_end = &queue->parked;
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->changed, NULL);
  add_to_list(queue);
  tn__log(env, TN__LOG_ENGINE, TN_LOG_DEBUG, "opened the queue %s", name);
  *out = queue;
  return TN_OK;
}

/* Fences that variables carry outlive the queue, and are done then. */
void tn__queue_end(tn__queue *queue) {
  pthread_mutex_lock(&queue->lock);
  while (queue->draining != 0) pthread_cond_wait(&queue->changed, &queue->lock);
  pthread_mutex_unlock(&queue->lock);
  tn__fence_finish_all(queue);
  remove_from_list(queue);
  tn__queue_release(queue);
}
