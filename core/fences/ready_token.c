/* SPDX-License-Identifier: Apache-2.0
 * ready_token.c: passes a ready token to the thread that runs it: the waiting
 * thread, a thread that drains the token's queue, or a worker.
 */
#include "ready_token.h"

#include "device_queue.h"
#include "futex.h"

void tn__token_ready(tn__token *token) {
  if ((token->flags & (TN__TOKEN_WAIT | TN__TOKEN_HERE)) != 0) {
    /* The token is on another thread's stack and is invalid once that thread
     * has seen the 1: from then on only its address is used. */
    _Atomic uint32_t *over = &token->over;
    atomic_store(over, 1);
    tn__futex_wake_all(over);
  } else if (token->queue != NULL) {
    tn__queue_add_ready(token);
  } else {
    token->engine->kind->ready(token->engine, token);
  }
}

void tn__token_granted(tn__token *token) {
  if (tn__token_is_last_grant(token)) tn__token_ready(token);
}
