/* SPDX-License-Identifier: Apache-2.0
 * queue_drain.h: runs a ready token, or the ready tokens of a device queue.
 * This folder only.
 */
#ifndef TENON_ENGINE_QUEUE_DRAIN_H_
#define TENON_ENGINE_QUEUE_DRAIN_H_

#include "token.h"

/* Runs the token. The token of a queue runs the ready tokens of that queue. */
void tn__ready_execute(tn__token *token);

#endif /* TENON_ENGINE_QUEUE_DRAIN_H_ */
