/* SPDX-License-Identifier: Apache-2.0
 * foreign_fences.c: puts fences on the variables of a token after it has run on
 * a queue. A queue may wait for other queues, and its own fence does not report
 * their failures. So the variables that an operation writes also carry the
 * fences of other queues that the operation depends on: its *foreign fences*.
 */
#include <string.h>

#include "fence.h"

enum { FOREIGN_MAX = 16 }; /* of other queues; further ones are waited for */

/* The newest fence of each other queue that may still fail, and with it the
 * results of the operation that depends on that queue; and a known failure. */
typedef struct foreign_fences {
  tn__fence *v[FOREIGN_MAX];
  uint32_t n;
  tn__error *error; /* or NULL */
} foreign_fences;

static void note_error(foreign_fences *d, tn__error *error) {
  if (d->error == NULL && error != NULL) d->error = tn__error_retain(error);
}

/* Adds the fence; its owner is now `d`. */
static void add_foreign(foreign_fences *d, tn__fence *f) {
  uint32_t i = 0;
  while (i < d->n && d->v[i]->queue != f->queue) ++i;
  if (i == FOREIGN_MAX) tn__fence_block(f);
  if (tn__fence_is_done(f)) {
    note_error(d, f->error);
    tn__fence_release(f);
  } else if (i == d->n) {
    d->v[d->n++] = f;
  } else if (d->v[i]->number < f->number) {
    tn__fence_release(d->v[i]);
    d->v[i] = f;
  } else {
    tn__fence_release(f);
  }
}

/* Finds the foreign fences of all variables that the operation reads. */
static void find_foreign(const tn__token *token, foreign_fences *d) {
  *d = (foreign_fences){.n = 0};
  if ((token->flags & TN__JOB_ALWAYS) != 0) return;
  for (uint32_t i = 0; i < token->n_claims; ++i) {
    tn__var *var = token->claims[i].var;
    tn__fence_search l = tn__fence_search_for(TN__READ);
    l.except = token->queue;
    tn__fence *f;
    if (token->claims[i].mode == TN__OVERWRITE) continue;
    while ((f = tn__fence_find(var, &l)) != NULL) {
      l.below = l.found;
      add_foreign(d, f);
    }
    if ((atomic_load_explicit(&var->word, memory_order_acquire) &
         TN__VAR_ERROR) != 0)
      note_error(d, var->error);
  }
}

/* The operation's own fence is done, so the foreign fences that its queue
 * waited for are done too. Reads their errors. */
static void await_foreign(foreign_fences *d) {
  for (uint32_t i = 0; i < d->n; ++i) {
    tn__fence_block(d->v[i]);
    note_error(d, d->v[i]->error);
  }
}

/* Puts the foreign fences on all variables that the operation writes. */
static void put_foreign(const tn__token *token, const foreign_fences *d) {
  for (uint32_t i = 0; i < token->n_claims; ++i) {
    const tn__claim *claim = &token->claims[i];
    if (claim->mode == TN__READ) continue;
    for (uint32_t k = 0; k < d->n; ++k)
      tn__fence_add(claim->var, TN__UPDATE, d->v[k], true);
    if (d->error != NULL) tn__error_put(claim->var, d->error);
  }
}

static void release_foreign(foreign_fences *d) {
  for (uint32_t i = 0; i < d->n; ++i) tn__fence_release(d->v[i]);
  tn__error_release(d->error);
}

/* Puts the fence on all variables of the token. */
static void put_on_variables(const tn__token *token, tn__fence *f) {
  for (uint32_t i = 0; i < token->n_claims; ++i)
    tn__fence_add(token->claims[i].var, token->claims[i].mode, f, false);
  tn__fence_release(f);
}

/* Puts a fence after all enqueued work on all variables. */
static tn_code put_fence(tn__token *token) {
  tn__queue *queue = token->queue;
  const uint32_t how = token->flags & (TN__JOB_SMALL | TN__JOB_ASYNC);
  void *point = NULL;
  tn__fence *f =
      how == TN__JOB_SMALL ? tn__fence_share(queue, token->name) : NULL;
  foreign_fences d;
  if (f == NULL) TN__TRY(tn__fence_record(queue, token->name, &point, &f));
  tn_code code = TN_OK;
  find_foreign(token, &d);
  if (f != NULL) {
    put_on_variables(token, f);
  } else {
    code = queue->ops->block(point);
    queue->ops->drop(point);
    await_foreign(&d);
  }
  put_foreign(token, &d);
  release_foreign(&d);
  return code;
}

tn_code tn__fence_after(tn__token *token, tn_code code) {
  char text[TN__ERROR_MAX];
  if (code == TN_OK) return put_fence(token);
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  (void)put_fence(token);
  return tn__fail(code, "%s", text);
}
