/* SPDX-License-Identifier: Apache-2.0
 * token_execution.c: the life of a token that holds its grants. It runs, or
 * does not because of an error, and is then completed, which grants others.
 */
#include <stdio.h>
#include <string.h>

#include "device_queue.h"
#include "futex.h"
#include "operation.h"
#include "ready_token.h"
#include "run_frame.h"
#include "slab.h"
#include "token_execution.h"
#include "trace.h"
#include "travelling_error.h"

enum {
  /* After so many successors in a row a worker checks for more urgent work. */
  SUCCESSORS_MAX = 64,
  NAME_MAX_ASYNC = 64
};

/* ------------------------------------------------------------------- errors */

static uint64_t word_of(const tn__claim *claim) {
  return atomic_load_explicit(&claim->var->word, memory_order_acquire);
}

/* The words of all its variables, combined. */
static uint64_t collect_words(const tn__token *token) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < token->n_claims; ++i)
    all |= word_of(&token->claims[i]);
  return all;
}

/* The error that keeps the function from running: of a variable that it reads,
 * or of a wait for the data that it overwrites. Any reader may find a device's
 * error and put it there, so the bit of the word decides. */
static tn__error *cause_of(const tn__token *token) {
  for (uint32_t i = 0; i < token->n_claims; ++i)
    if ((token->claims[i].mode != TN__OVERWRITE ||
         (token->flags & TN__TOKEN_LOST) != 0) &&
        (word_of(&token->claims[i]) & TN__VAR_ERROR) != 0)
      return token->claims[i].var->error;
  return NULL;
}

/* Replaces the errors of all variables that the token writes. */
static void put_error_on(tn__token *token, tn__error *error) {
  for (uint32_t i = 0; i < token->n_claims; ++i)
    if (token->claims[i].mode != TN__READ)
      tn__error_put(token->claims[i].var, error);
}

void tn__token_fail(tn__token *token, tn_code code) {
  tn__error *error =
      tn__error_create(token->engine, tn__error_add_name(code, token->name));
  tn__error_announce(token->engine, error);
  put_error_on(token, error);
  tn__error_release(error);
}

static tn_code refuse_token(tn__token *token) {
  tn__error *error = tn__error_refuse(token->engine, token->name);
  put_error_on(token, error);
  tn__error_release(error);
  return TN_BUSY;
}

/* A variable that carries an error keeps it: no function has overwritten it. */
static tn_code pass_error_on(tn__token *token, tn__error *cause) {
  tn__error *error = tn__error_derive(token->engine, cause, token->name);
  for (uint32_t i = 0; i < token->n_claims; ++i) {
    const tn__claim *claim = &token->claims[i];
    if (claim->mode == TN__OVERWRITE ||
        (claim->mode == TN__UPDATE && claim->var->error == NULL))
      tn__error_put(claim->var, error);
  }
  const tn_code code = tn__error_set_text(error);
  tn__error_release(error);
  return code;
}

static void clear_overwritten(tn__token *token) {
  for (uint32_t i = 0; i < token->n_claims; ++i)
    if (token->claims[i].mode == TN__OVERWRITE)
      tn__error_put(token->claims[i].var, NULL);
}

/* ---------------------------------------------------------------- execution */

bool tn__token_try_park(tn__token *token) {
  if ((token->flags & TN__JOB_ISSUED) != 0) return false;
  return (token->queue != NULL ||
          (collect_words(token) & TN__VAR_FENCE) != 0) &&
         tn__fence_before(token);
}

bool tn__is_told(void) {
  return tn__run_frame_top != NULL &&
         (tn__run_frame_top->flags & TN__FRAME_TOLD) != 0;
}

static tn_code call_in_frame(tn__token *token, uint32_t flags) {
  const bool async = (token->flags & TN__JOB_ASYNC) != 0;
  tn__run_frame frame = {
      .outer = tn__run_frame_top, .engine = token->engine, .token = token};
  frame.depth = frame.outer != NULL ? frame.outer->depth + 1 : 0;
  frame.flags = (token->flags & TN__TOKEN_EPOCH) | flags;
  if (!async) frame.flags |= TN__FRAME_SYNC;
  tn__run_frame_top = &frame;
  const tn_code code = token->run(token->arg, token);
  tn__run_frame_top = frame.outer;
  return code;
}

/* The token and its name may be freed when an asynchronous function returns, so
 * this keeps the beginning of the name. */
static tn_code call_with_span(tn__token *token) {
  tn__engine *engine = token->engine;
  const tn__queue *queue = token->queue;
  const char *name = token->name;
  char copy[NAME_MAX_ASYNC];
  if (name != NULL && (token->flags & TN__JOB_ASYNC) != 0) {
    (void)snprintf(copy, sizeof copy, "%s", name);
    name = copy;
  }
  const uint64_t begin = tn__now();
  const tn_code code = call_in_frame(token, 0);
  tn__trace_span(engine, name, queue, begin);
  return code;
}

tn_code tn__token_call(tn__token *token) {
  tn__engine *engine = token->engine;
  const bool async = (token->flags & TN__JOB_ASYNC) != 0;
  const bool on_queue = token->queue != NULL;
  if ((token->flags & TN__TOKEN_LAST) != 0) return TN_OK;
  if (atomic_load_explicit(&engine->abandoned, memory_order_relaxed) != 0)
    return refuse_token(token);
  if ((collect_words(token) & TN__VAR_ERROR) != 0) {
    tn__error *cause = cause_of(token);
    if (cause != NULL && (token->flags & TN__JOB_ALWAYS) == 0) {
      if ((token->flags & TN__JOB_TOLD) != 0)
        (void)call_in_frame(token, TN__FRAME_TOLD);
      return pass_error_on(token, cause);
    }
    clear_overwritten(token);
  }
  tn_code code =
      atomic_load_explicit(&engine->tracing, memory_order_acquire) != 0
          ? call_with_span(token)
          : call_in_frame(token, 0);
  if (on_queue && (!async || code != TN_OK))
    code = tn__fence_after(token, code);
  if (code != TN_OK) tn__token_fail(token, code);
  return code;
}

/* --------------------------------------------------------------- completion */

/* True for a successor that the completing worker may run itself. */
static bool may_keep(const tn__token *token) {
  return (token->flags & (TN__TOKEN_WAIT | TN__TOKEN_HERE)) == 0 &&
         token->queue == NULL && token->priority == 0;
}

/* Releases the grants. If `keep` is not NULL and exactly one token becomes
 * ready, that token goes to *keep instead of the pool. */
static void release_grants(tn__token *token, tn__token **keep) {
  tn__token *only = NULL;
  bool several = keep == NULL;
  for (uint32_t i = 0; i < token->n_claims; ++i) {
    tn__claim *claim = tn__var_release(&token->claims[i]);
    while (claim != NULL) {
      tn__token *next = claim->token;
      claim = tn__claim_next(claim); /* a granted token may be freed */
      if (!tn__token_is_last_grant(next)) continue;
      if (!several && only == NULL && may_keep(next)) {
        only = next;
        continue;
      }
      several = true;
      if (only != NULL) tn__token_ready(only);
      only = NULL;
      tn__token_ready(next);
    }
  }
  if (keep != NULL) *keep = only;
}

/* Adds a frame if there is none, so that a wait inside of the drop is refused.
 * Jobs that the drop pushes belong to the current epoch. */
static void drop_inside(tn__token *token) {
  tn__run_frame frame = {.outer = tn__run_frame_top, .engine = token->engine};
  if (token->drop == NULL && token->operation == NULL) return;
  const bool outside = !tn__is_inside(token->engine);
  frame.depth = frame.outer != NULL ? frame.outer->depth : 0;
  if (outside) tn__run_frame_top = &frame;
  tn__call_drop(token->drop, token->arg);
  if (token->operation != NULL) tn__operation_release(token->operation);
  if (outside) tn__run_frame_top = frame.outer;
}

static void finish_token(tn__token *token, tn__token **keep) {
  if ((token->flags & TN__TOKEN_LAST) != 0)
    tn__var_deinit(token->claims[0].var);
  else
    release_grants(token, keep);
  drop_inside(token);
  tn__token_end(token);
}

void tn__token_complete(tn__token *token, tn_code code) {
  if (code != TN_OK) tn__token_fail(token, code);
  finish_token(token, NULL);
}

/* Functions that finish_token calls may replace the thread's error text. */
static tn_code finish_failed(tn__token *token, tn_code code) {
  char text[TN__ERROR_MAX];
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  finish_token(token, NULL);
  return tn__fail(code, "%s", text);
}

tn_code tn__token_return(tn__token *token, tn_code code) {
  if (code != TN_OK) return finish_failed(token, code);
  finish_token(token, NULL);
  return TN_OK;
}

tn_code tn__token_run(tn__token *token) {
  return tn__token_return(token, tn__token_call(token));
}

void tn__token_execute(tn__token *token) {
  for (uint32_t n = 0; token != NULL; ++n) {
    tn__token *next = NULL;
    const bool async = (token->flags & TN__JOB_ASYNC) != 0;
    if (tn__token_try_park(token)) return;
    if (tn__token_call(token) == TN_OK && async) return;
    finish_token(token, n < SUCCESSORS_MAX ? &next : NULL);
    token = next;
    if (token != NULL) tn__queues_record_pending(); /* it may run for long */
  }
}

void tn__token_done(tn__token *token, tn_code code) {
  if (token->queue != NULL) code = tn__fence_after(token, code);
  token->engine->kind->done(token, code);
}
