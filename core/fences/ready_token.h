/* SPDX-License-Identifier: Apache-2.0
 * ready_token.h: counts the grants of a token, and passes a token that has all
 * to the thread that runs it. For the folders of the engine.
 */
#ifndef TENON_FENCES_READY_TOKEN_H_
#define TENON_FENCES_READY_TOKEN_H_

#include "token.h"

/* Counts one grant; true: it was the last. The thread that counts the last
 * grant is alone, and need not write. */
static inline bool tn__token_is_last_grant(tn__token *token) {
  return atomic_load_explicit(&token->wait, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(&token->wait, 1, memory_order_acq_rel) == 1;
}
/* Counts one grant; the last one makes the token ready. */
void tn__token_granted(tn__token *token);
/* The token holds its grants and waits for no fence: passes it to the waiting
 * thread, the queue or the pool that runs it. */
void tn__token_ready(tn__token *token);

#endif /* TENON_FENCES_READY_TOKEN_H_ */
