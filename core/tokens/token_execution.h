/* SPDX-License-Identifier: Apache-2.0
 * token_execution.h: runs and completes tokens that hold their grants. For the
 * folders of the engine.
 */
#ifndef TENON_TOKENS_TOKEN_EXECUTION_H_
#define TENON_TOKENS_TOKEN_EXECUTION_H_

#include "token.h"

/* Runs a ready token and completes it, unless it is asynchronous or parked for
 * a fence. Then runs successors, one by one, that no other thread need run. */
void tn__token_execute(tn__token *token);
/* The same for one token that is not asynchronous. Returns its code. */
tn_code tn__token_run(tn__token *token);
/* True if the token must wait for a device before it can run on the host. Then
 * it becomes ready again later. */
bool tn__token_try_park(tn__token *token);
/* Runs the function unless an error prevents that. If it did not run or failed,
 * the variables that it writes carry the error. */
tn_code tn__token_call(tn__token *token);
/* Puts a failure, with the thread's error text, on the variables that the token
 * writes. */
void tn__token_fail(tn__token *token, tn_code code);
/* Releases the grants, calls the drop and frees. A code other than TN_OK is a
 * new failure, which first goes to the variables. */
void tn__token_complete(tn__token *token, tn_code code);
/* The same for a code that tn__token_call has put on the variables. Keeps the
 * thread's error text, since the caller returns the code. */
tn_code tn__token_return(tn__token *token, tn_code code);

#endif /* TENON_TOKENS_TOKEN_EXECUTION_H_ */
