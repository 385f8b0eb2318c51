/* SPDX-License-Identifier: Apache-2.0
 * naive.c: the engine for debugging, which runs every function inside of push.
 *
 * Whoever runs functions keeps everybody else from pushing, so that only one
 * runs at any time, and grants are always given at once. What a function pushes
 * is counted at once, as whoever deletes an operation, or waits, asks for that;
 * it waits in a list until the function has returned, and is run before the
 * outermost push returns.
 */
#include <assert.h>

#include "pool.h"

enum {            /* tn__token.over of an asynchronous one, 0 at first */
       DOING = 1, /* tn__token_done is leaving its outcome */
       DONE,      /* in time */
       ENDING,    /* `run` has returned, and it was not done */
       LATE       /* its memory and its count live until it is done */
};

/* The next state, unless somebody else was faster. */
static bool enter_state(tn__token *token, uint32_t state) {
  uint32_t none = 0;
  return atomic_compare_exchange_strong(&token->over, &none, state);
}

static void leave_state(tn__token *token, uint32_t state) {
  atomic_store(&token->over, state);
  tn__pool_wake(&token->over);
}

static tn_code end_late(tn__token *token) {
  const tn_code code = tn__fail(
      TN_UNSUPPORTED,
      "%s had only begun its work when it returned: the naive engine runs "
      "functions to their end; call tn__token_done before, or use the pooled "
      "engine",
      token->name != NULL ? token->name : "a function");
  tn__token_fail(token, code);
  for (uint32_t i = 0; i < token->n_links; ++i)
    (void)tn__var_release(&token->links[i]);
  token->n_links = 0;
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

/* The device has finished before the push returns; where it failed, it has left
 * that on what the function wrote. */
static tn_code block(tn__token *token) {
  tn_code code = TN_OK;
  for (uint32_t i = 0; i < token->n_links; ++i) {
    const tn__link *link = &token->links[i];
    (void)tn__fence_wait(link->var, TN__WAIT_ALL, TN__FOREVER);
    if (code == TN_OK && link->mode == TN__OVERWRITE)
      code = tn__var_check(link->var);
  }
  return code;
}

static tn_code run_sync(tn__token *token) {
  tn_code code = tn__token_call(token);
  if (code == TN_OK && token->queue != NULL) code = block(token);
  return tn__token_return(token, code);
}

static tn_code run(tn__token *token) {
  const bool granted = tn__token_grant(token);
  assert(granted); /* nothing else runs */
  (void)granted;
  if (tn__token_parked(token)) return TN_OK;
  return (token->flags & TN__JOB_ASYNC) != 0 ? run_async(token)
                                             : run_sync(token);
}

static tn_code run_with_all_that_follows(tn__engine *engine, tn__token *token) {
  engine->running = true;
  const tn_code code = run(token);
  while (engine->nested != NULL) {
    tn__token *next = engine->nested;
    engine->nested = next->next;
    if (engine->nested == NULL) engine->nested_end = &engine->nested;
    (void)run(next);
  }
  engine->running = false;
  return code;
}

/* Everybody else is kept from pushing. */
static tn_code push_token(tn__engine *engine, tn__token *token) {
  token->flags |= tn__count_pushed(engine, tn__frame_of(engine));
  if (token->operation != NULL) tn__operation_count(token->operation);
  if (!engine->running) return run_with_all_that_follows(engine, token);
  *engine->nested_end = token;
  engine->nested_end = &token->next;
  return TN_OK;
}

static tn_code naive_push(tn__engine *engine, const tn__job *job,
                          tn__operation *operation) {
  tn__token *token = tn__token_of(engine, job, operation);
  if (token == NULL) return tn__job_failed(job, TN_OUT_OF_MEMORY);
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
    (void)push_token(engine, token); /* what it writes says what it returned */
  }
  return TN_OK;
}

static void naive_ready(tn__engine *engine, tn__token *token) {
  (void)engine;
  tn__token_execute(token);
}

const tn__engine_kind tn__kind_naive = {.push = naive_push,
                                        .push_all = naive_push_all,
                                        .ready = naive_ready,
                                        .done = naive_done};
