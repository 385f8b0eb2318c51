/* SPDX-License-Identifier: Apache-2.0
 * fence_watcher.c: waits for the fences of variables before a token runs. A
 * token of a queue makes its queue wait on the device. A token of the host is
 * parked: the *watcher* of the fence's queue, a thread that blocks until the
 * fence is done, makes the token ready.
 */
#include "fence.h"
#include "ready_token.h"
#include "thread.h"

/* Blocks until all fences of this queue that the token waits for are done. */
static void await_fences_of(tn__queue *queue, tn__token *token) {
  for (uint32_t i = 0; i < token->n_claims; ++i) {
    tn__fence_search l = tn__fence_search_for(token->claims[i].mode);
    l.only = queue;
    tn__fence *f;
    while ((f = tn__fence_find(token->claims[i].var, &l)) != NULL) {
      tn__fence_block(f);
      tn__fence_release(f);
    }
  }
  tn__token_ready(token);
}

static void *run_watcher(void *arg) {
  tn__queue *queue = arg;
  pthread_mutex_lock(&queue->lock);
  while (queue->parked != NULL || queue->ending == 0) {
    tn__token *token = queue->parked;
    if (token == NULL) {
      pthread_cond_wait(&queue->changed, &queue->lock);
      continue;
    }
    queue->parked = token->next;
    if (queue->parked == NULL) queue->parked_end = &queue->parked;
    pthread_mutex_unlock(&queue->lock);
    await_fences_of(queue, token);
    pthread_mutex_lock(&queue->lock);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* False: there is no watcher thread. */
static bool park_token(tn__token *token, tn__queue *queue) {
  pthread_mutex_lock(&queue->lock);
  if (queue->watching == 0 && queue->engine->pool != NULL &&
      tn__thread_create(&queue->watcher, run_watcher, queue))
    queue->watching = 1;
  const bool watching = queue->watching != 0;
  if (watching) {
    token->next = NULL;
    *queue->parked_end = token;
    queue->parked_end = &token->next;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->lock);
  return watching;
}

/* Makes the token's queue wait on the device; false: the host must wait. */
static bool wait_in_queue(tn__token *token, tn__var *var, tn__fence *f) {
  if (token->queue == NULL) return false;
  const tn_code code = tn__fence_wait_on_device(token->queue, f);
  if (code == TN_UNSUPPORTED) return false;
  if (code != TN_OK) {
    tn__error *error = tn__error_create(token->engine, code);
    tn__error_announce(token->engine, error);
    tn__fence_put_error(var, error);
    tn__error_release(error);
    token->flags |= TN__TOKEN_LOST;
  }
  return true;
}

/* True: the token was parked. */
static bool await_before_use(tn__token *token, const tn__claim *claim) {
  tn__fence_search l = tn__fence_search_for(claim->mode);
  l.except = token->queue;
  l.skip_foreign = token->queue != NULL;
  tn__fence *f;
  while ((f = tn__fence_find(claim->var, &l)) != NULL) {
    bool parked = false;
    if (!tn__fence_query(f)) {
      if (wait_in_queue(token, claim->var, f))
        l.below = l.found;
      else if (!(parked = park_token(token, f->queue)))
        tn__fence_block(f);
    }
    tn__fence_release(f);
    if (parked) return true;
  }
  return false;
}

bool tn__fence_before(tn__token *token) {
  if (token->queue != NULL && (token->flags & TN__JOB_SMALL) == 0)
    tn__fence_record_pending(token->queue);
  for (uint32_t i = 0; i < token->n_claims; ++i)
    if ((atomic_load_explicit(&token->claims[i].var->word,
                              memory_order_acquire) &
         TN__VAR_FENCE) != 0 &&
        await_before_use(token, &token->claims[i]))
      return true;
  return false;
}
