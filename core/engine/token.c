/* SPDX-License-Identifier: Apache-2.0
 * token.c: what becomes of a token that holds its grants: it is run, or not, if
 * an error stands against it, and then completed, which lets others in.
 */
#include <stdio.h>
#include <string.h>

#include "pool.h"

enum {
  /* A worker that has run so many successors in a row looks around for what
   * may be more urgent. */
  SUCCESSORS_MAX = 64,
  NAME_MAX_ASYNC = 64
};

/* ------------------------------------------------------------------- frames */

_Thread_local tn__frame *tn__frame_top
    __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t tn__drops __attribute__((tls_model("initial-exec")));

tn__frame *tn__frame_of(const tn__engine *engine) {
  tn__frame *frame = tn__frame_top;
  while (frame != NULL && frame->engine != engine) frame = frame->outer;
  return frame;
}

bool tn__inside(const tn__engine *engine) {
  return tn__frame_of(engine) != NULL;
}

tn_code tn__outside(const tn__engine *engine, const char *what) {
  if (!tn__inside(engine) && !tn__entered(engine)) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s from inside of a function that the engine runs: it might "
                  "wait for itself; push a function that uses the result",
                  what);
}

/* ------------------------------------------------------------------- errors */

static uint64_t word_of(const tn__link *link) {
  return atomic_load_explicit(&link->var->word, memory_order_acquire);
}

/* The marks of all its variables together. */
static uint64_t marks(const tn__token *token) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < token->n_links; ++i)
    all |= word_of(&token->links[i]);
  return all;
}

/* What keeps the function from running: an error that it would read, or of a
 * wait for what it would overwrite. A device's may be found, and put there, by
 * any reader; so the mark is what counts. */
static tn__error *cause_of(const tn__token *token) {
  for (uint32_t i = 0; i < token->n_links; ++i)
    if ((token->links[i].mode != TN__OVERWRITE ||
         (token->flags & TN__TOKEN_LOST) != 0) &&
        (word_of(&token->links[i]) & TN__VAR_ERROR) != 0)
      return token->links[i].var->error;
  return NULL;
}

/* Whatever the variables that it writes carried, they carry this now. */
static void put_error(tn__token *token, tn__error *error) {
  for (uint32_t i = 0; i < token->n_links; ++i)
    if (token->links[i].mode != TN__READ)
      tn__error_put(token->links[i].var, error);
}

void tn__token_fail(tn__token *token, tn_code code) {
  tn__error *error =
      tn__error_create(token->engine, tn__error_sign(code, token->name));
  tn__error_announce(token->engine, error);
  put_error(token, error);
  tn__error_release(error);
}

static tn_code refuse(tn__token *token) {
  const tn_code code =
      tn__fail(TN_BUSY, "%s was not run: the engine is shutting down",
               token->name != NULL ? token->name : "a function");
  tn__error *error = tn__error_create(token->engine, code);
  put_error(token, error);
  tn__error_release(error);
  return code;
}

/* A variable that carries an error keeps it: nothing has overwritten it. */
static tn_code inherit(tn__token *token, tn__error *cause) {
  tn__error *error = tn__error_follow(token->engine, cause, token->name);
  for (uint32_t i = 0; i < token->n_links; ++i) {
    const tn__link *link = &token->links[i];
    if (link->mode == TN__OVERWRITE ||
        (link->mode == TN__UPDATE && link->var->error == NULL))
      tn__error_put(link->var, error);
  }
  const tn_code code = tn__error_say(error);
  tn__error_release(error);
  return code;
}

static void clear_overwritten(tn__token *token) {
  for (uint32_t i = 0; i < token->n_links; ++i)
    if (token->links[i].mode == TN__OVERWRITE)
      tn__error_put(token->links[i].var, NULL);
}

/* ---------------------------------------------------------------- execution */

bool tn__token_parked(tn__token *token) {
  if ((token->flags & TN__JOB_ISSUED) != 0) return false;
  return (token->queue != NULL || (marks(token) & TN__VAR_FENCE) != 0) &&
         tn__fence_before(token);
}

static tn_code call_in_frame(tn__token *token) {
  const bool async = (token->flags & TN__JOB_ASYNC) != 0;
  tn__frame frame = {
      .outer = tn__frame_top, .engine = token->engine, .token = token};
  frame.depth = frame.outer != NULL ? frame.outer->depth + 1 : 0;
  frame.flags = token->flags & TN__TOKEN_EPOCH;
  if (!async) frame.flags |= TN__FRAME_SYNC;
  tn__frame_top = &frame;
  const tn_code code = token->run(token->arg, token);
  tn__frame_top = frame.outer;
  return code;
}

/* The token may be gone when an asynchronous function returns, and its name
 * too: of that the beginning is kept. */
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
  const tn_code code = call_in_frame(token);
  tn__trace_span(engine, name, queue, begin);
  return code;
}

tn_code tn__token_call(tn__token *token) {
  tn__engine *engine = token->engine;
  const bool async = (token->flags & TN__JOB_ASYNC) != 0;
  const bool on_queue = token->queue != NULL;
  if ((token->flags & TN__TOKEN_LAST) != 0) return TN_OK;
  if (atomic_load_explicit(&engine->abandoned, memory_order_relaxed) != 0)
    return refuse(token);
  if ((marks(token) & TN__VAR_ERROR) != 0) {
    tn__error *cause = cause_of(token);
    if (cause != NULL && (token->flags & TN__JOB_ALWAYS) == 0)
      return inherit(token, cause);
    clear_overwritten(token);
  }
  tn_code code =
      atomic_load_explicit(&engine->tracing, memory_order_acquire) != 0
          ? call_with_span(token)
          : call_in_frame(token);
  if (on_queue && (!async || code != TN_OK))
    code = tn__fence_after(token, code);
  if (code != TN_OK) tn__token_fail(token, code);
  return code;
}

/* --------------------------------------------------------------- completion */

void tn__token_ready(tn__token *token) {
  if ((token->flags & (TN__TOKEN_WAIT | TN__TOKEN_HERE)) != 0) {
    /* It stands on another thread's stack, and is gone when that has seen the
     * 1: only its address is used then. */
    _Atomic uint32_t *over = &token->over;
    atomic_store(over, 1);
    tn__pool_wake(over);
  } else if (token->queue != NULL) {
    tn__queue_ready(token);
  } else {
    token->engine->kind->ready(token->engine, token);
  }
}

/* Who counts the last one is alone, and need not write. */
static bool last_grant(tn__token *token) {
  return atomic_load_explicit(&token->wait, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(&token->wait, 1, memory_order_acq_rel) == 1;
}

void tn__token_granted(tn__token *token) {
  if (last_grant(token)) tn__token_ready(token);
}

/* A successor that the completing worker may run itself. */
static bool may_keep(const tn__token *token) {
  return (token->flags & (TN__TOKEN_WAIT | TN__TOKEN_HERE)) == 0 &&
         token->queue == NULL && token->priority == 0;
}

/* Lets others in. If `keep` is not NULL and exactly one token becomes ready, it
 * is left there instead of being handed to the pool. */
static void release_grants(tn__token *token, tn__token **keep) {
  tn__token *only = NULL;
  bool several = keep == NULL;
  for (uint32_t i = 0; i < token->n_links; ++i) {
    tn__link *link = tn__var_release(&token->links[i]);
    while (link != NULL) {
      tn__token *next = link->token;
      link = tn__link_next(link); /* the grant may be the end of the link */
      if (!last_grant(next)) continue;
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

/* In a frame if there is none, so that a wait in there is refused. What it
 * pushes belongs to the epoch that goes on. */
static void drop_inside(tn__token *token) {
  tn__frame frame = {.outer = tn__frame_top, .engine = token->engine};
  if (token->drop == NULL && token->operation == NULL) return;
  const bool outside = !tn__inside(token->engine);
  frame.depth = frame.outer != NULL ? frame.outer->depth : 0;
  if (outside) tn__frame_top = &frame;
  tn__drop(token->drop, token->arg);
  if (token->operation != NULL) tn__operation_release(token->operation);
  if (outside) tn__frame_top = frame.outer;
}

static void finish(tn__token *token, tn__token **keep) {
  if ((token->flags & TN__TOKEN_LAST) != 0)
    tn__var_deinit(token->links[0].var);
  else
    release_grants(token, keep);
  drop_inside(token);
  tn__token_end(token);
}

void tn__token_complete(tn__token *token, tn_code code) {
  if (code != TN_OK) tn__token_fail(token, code);
  finish(token, NULL);
}

/* What finish calls may replace the thread's error text. */
static tn_code finish_failed(tn__token *token, tn_code code) {
  char text[TN__ERROR_MAX];
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  finish(token, NULL);
  return tn__fail(code, "%s", text);
}

tn_code tn__token_return(tn__token *token, tn_code code) {
  if (code != TN_OK) return finish_failed(token, code);
  finish(token, NULL);
  return TN_OK;
}

tn_code tn__token_run(tn__token *token) {
  return tn__token_return(token, tn__token_call(token));
}

void tn__token_execute(tn__token *token) {
  for (uint32_t n = 0; token != NULL; ++n) {
    tn__token *next = NULL;
    const bool async = (token->flags & TN__JOB_ASYNC) != 0;
    if (tn__token_parked(token)) return;
    if (tn__token_call(token) == TN_OK && async) return;
    finish(token, n < SUCCESSORS_MAX ? &next : NULL);
    token = next;
    if (token != NULL) tn__queues_due(); /* it may take its time */
  }
}

void tn__token_done(tn__token *token, tn_code code) {
  if (token->queue != NULL) code = tn__fence_after(token, code);
  token->engine->kind->done(token, code);
}

bool tn__token_cancelled(const tn__token *token) {
  return token != NULL && atomic_load_explicit(&token->engine->abandoned,
                                               memory_order_acquire) != 0;
}
