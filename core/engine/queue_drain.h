/* SPDX-License-Identifier: Apache-2.0
 * queue_drain.h: runs a ready token, or the ready tokens of a device queue.
 * This folder only.
 */
#ifndef TENON_ENGINE_QUEUE_DRAIN_H_
#define TENON_ENGINE_QUEUE_DRAIN_H_

#include "device_queue.h"
#include "token_execution.h"

/* Runs the ready tokens of the queue. Its own token has been taken. */
void tn__queue_drain(tn__queue *queue);

/* Runs the token. The own token of a queue drains that queue. */
static inline void tn__ready_execute(tn__token *token) {
  if ((token->flags & TN__TOKEN_DRAIN) != 0)
    tn__queue_drain(token->queue);
  else
    tn__token_execute(token);
}

#endif /* TENON_ENGINE_QUEUE_DRAIN_H_ */
