/* SPDX-License-Identifier: Apache-2.0
 * naive.c: the engine for debugging, which runs every function inside of push.
 *
 * The thread that runs functions keeps all others from pushing. So only one
 * function runs at any time, and every grant comes at once. A job that a
 * function pushes is counted at once, since a deletion of its operation and the
 * waits rely on the count. It waits in a list until the function has returned,
 * and runs before the outermost push returns.
 */
#include <assert.h>

#include "device_queue.h"
#include "futex.h"
#include "kinds.h"
#include "operation.h"
#include "push.h"
#include "queue_drain.h"
#include "token_execution.h"
#include "workers.h"

enum {            /* tn__token.over of an asynchronous token, 0 at first */
       DOING = 1, /* tn__token_done stores its result */
       DONE,      /* done in time */
       ENDING,    /* `run` has returned before tn__token_done */
       LATE       /* its memory and its count last until tn__token_done */
};

/* Enters the first state, unless another thread was faster. */
static bool enter_state(tn__token *token, uint32_t state) {
  uint32_t none = 0;
  return atomic_compare_exchange_strong(&token->over, &none, state);
}

static void leave_state(tn__token *token, uint32_t state) {
  atomic_store(&token->over, state);
  tn__futex_wake_all(&token->over);
}

static tn_code end_late(tn__token *token) {
  const tn_code code = tn__fail(
      TN_UNSUPPORTED,
      "%s had only begun its work when it returned: the naive engine runs "
      "functions to their end; call tn__token_done before, or use the pooled "
      "engine",
      token->name != NULL ? token->name : "a function");
  tn__token_fail(token, code);
  for (uint32_t i = 0; i < token->n_claims; ++i)
    (void)tn__var_release(&token->claims[i]);
  token->n_claims = 0;
  leave_state(token, LATE);
  return code;
}

static tn_code run_async(tn__token *token) {
  const tn_code code = tn__token_call(token);
  if (code != TN_OK) return tn__token_return(token, code);
  if (enter_state(token, ENDING)) return end_late(token);
  (void)tn__pool_await(NULL, &token->over, DOING, TN__FOREVER);
  return tn__token_return(token, token->code);
}

static void naive_done(tn__token *token, tn_code code) {
  if (enter_state(token, DOING)) {
    token->code = code;
    if (code != TN_OK) tn__token_fail(token, code);
    leave_state(token, DONE);
  } else {
    (void)tn__pool_await(NULL, &token->over, ENDING, TN__FOREVER);
    tn__token_complete(token, TN_OK);
  }
}

/* Waits for the device before the push returns. The device leaves its failure
 * on the variables that the function wrote. */
static tn_code await_device(tn__token *token) {
  tn_code code = TN_OK;
  for (uint32_t i = 0; i < token->n_claims; ++i) {
    const tn__claim *claim = &token->claims[i];
    (void)tn__fence_wait(claim->var, TN__WAIT_ALL, TN__FOREVER);
    if (code == TN_OK && claim->mode == TN__OVERWRITE)
      code = tn__var_check(claim->var);
  }
  return code;
}

static tn_code run_sync(tn__token *token) {
  tn_code code = tn__token_call(token);
  if (code == TN_OK && token->queue != NULL) code = await_device(token);
  return tn__token_return(token, code);
}

static tn_code run_token(tn__token *token) {
  const bool granted = tn__token_grant(token);
  assert(granted); /* nothing else runs */
  (void)granted;
  if (tn__token_try_park(token)) return TN_OK;
  return (token->flags & TN__JOB_ASYNC) != 0 ? run_async(token)
                                             : run_sync(token);
}

static tn_code run_with_nested(tn__engine *engine, tn__token *token) {
  engine->running = true;
  const tn_code code = run_token(token);
  while (engine->nested != NULL) {
    tn__token *next = engine->nested;
    engine->nested = next->next;
    if (engine->nested == NULL) engine->nested_end = &engine->nested;
    (void)run_token(next);
  }
  engine->running = false;
  return code;
}

/* All other threads are kept from pushing. */
static tn_code push_token(tn__engine *engine, tn__token *token) {
  token->flags |= tn__count_pushed(engine, tn__run_frame_of(engine));
  if (token->operation != NULL) tn__operation_count(token->operation);
  if (!engine->running) return run_with_nested(engine, token);
  *engine->nested_end = token;
  engine->nested_end = &token->next;
  return TN_OK;
}

static tn_code naive_push(tn__engine *engine, const tn__job *job,
                          tn__operation *operation) {
  tn__token *token = tn__token_create_for(engine, job, operation);
  if (token == NULL) return tn__job_drop_failed(job, TN_OUT_OF_MEMORY);
  tn__engine_pause(engine);
  const tn_code code = push_token(engine, token);
  tn__engine_resume(engine);
  return code;
}

static tn_code naive_push_all(tn__engine *engine, tn__token *first) {
  while (first != NULL) {
    tn__token *token = first;
    first = token->next;
    token->next = NULL;
    (void)push_token(engine, token); /* a failure is on its variables */
  }
  return TN_OK;
}

static void naive_ready(tn__engine *engine, tn__token *token) {
  (void)engine;
  tn__ready_execute(token);
}

const tn__engine_kind tn__kind_naive = {.push = naive_push,
                                        .push_all = naive_push_all,
                                        .ready = naive_ready,
                                        .done = naive_done};
