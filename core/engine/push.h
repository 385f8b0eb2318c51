/* SPDX-License-Identifier: Apache-2.0
 * push.h: from a job to a token with claims, and its place in the order. This
 * folder only.
 */
#ifndef TENON_ENGINE_PUSH_H_
#define TENON_ENGINE_PUSH_H_

#include "run_frame.h"
#include "token.h"

enum { TN__CLAIMS_HERE = 16 }; /* fit on a stack */

/* Fills one claim per variable, with the combined mode of its accesses. Returns
 * the number of claims. */
uint32_t tn__claims_fill(tn__claim *claims, const tn__access *access,
                         uint32_t n);
/* Creates a token for the job, without grants and requests. NULL without
 * memory, with the error text. */
tn__token *tn__token_create_for(tn__engine *engine, const tn__job *job,
                                tn__operation *operation);
/* The same for an existing token of the engine with enough claims. */
void tn__token_fill(tn__token *token, const tn__job *job);
/* The same if its claims already have `var` and `mode` of job->n_access
 * accesses; ignores job->access. */
void tn__token_begin(tn__token *token, const tn__job *job);
/* Counts a push from inside of `frame` (or NULL). Returns TN__TOKEN_EPOCH or 0.
 * The gate is held. */
uint32_t tn__count_pushed(tn__engine *engine, const tn__run_frame *frame);
/* Counts the token as pushed, from inside of `frame` (or NULL), and requests
 * all of its grants. True: it holds them. The gate is held. */
bool tn__token_acquire(tn__token *token, const tn__run_frame *frame);
/* The same for a token that is counted already. For the holder of the gate and
 * the dispatcher (mailbox.h). */
bool tn__token_grant(tn__token *token);

/* Runs a small job without grants, if that is allowed. */
bool tn__push_fast(tn__engine *engine, const tn__job *job, tn_code *code);
/* Drops a job that could not be pushed. Returns the code and keeps its text. */
tn_code tn__job_drop_failed(const tn__job *job, tn_code code);
/* tn__push, also for a prepared operation. */
tn_code tn__push_for(tn__engine *engine, const tn__job *job,
                     tn__operation *operation);

#endif /* TENON_ENGINE_PUSH_H_ */
