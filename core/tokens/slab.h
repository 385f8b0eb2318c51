/* SPDX-License-Identifier: Apache-2.0
 * slab.h: the memory of tokens, and the number of complete ones. For the
 * folders of the engine.
 */
#ifndef TENON_TOKENS_SLAB_H_
#define TENON_TOKENS_SLAB_H_

#include "token.h"

typedef struct tn__slab tn__slab;

tn_code tn__slab_create(const tn__env *env, tn__slab **out);
void tn__slab_destroy(tn__slab *slab);
/* With room for n_claims; NULL without memory. */
tn__token *tn__token_create(tn__engine *engine, uint32_t n_claims);
/* The same with claims that the token then owns, or NULL. */
tn__token *tn__token_create_with(tn__engine *engine, uint32_t n_claims,
                                 tn__claim *claims);
/* Frees a token that was never counted. */
void tn__token_discard(tn__token *token);
/* Counts the token as complete in its epoch, and frees it. */
void tn__token_end(tn__token *token);
/* Adds completions that need no token: their number in each epoch. */
void tn__slab_count_also(tn__slab *slab, const _Atomic uint64_t *n_completed);
/* Number of operations that were pushed in the epoch and are not complete. */
uint64_t tn__epoch_count_pending(const tn__engine *engine, uint32_t epoch);
/* True if it is 0. */
bool tn__epoch_is_over(const tn__engine *engine, uint32_t epoch);
/* Wakes the threads that wait for tokens to complete, after their count rose.
 */
void tn__drain_notify(tn__engine *engine);

#endif /* TENON_TOKENS_SLAB_H_ */
