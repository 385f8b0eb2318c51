/* SPDX-License-Identifier: Apache-2.0
 * variable_fences.c: the fences that a variable carries. Devices may still use
 * a variable when the operations that enqueued the work are complete. So a
 * variable carries the fence of its last writer and of the readers since, each
 * in a *mark*. The list of marks changes under the variable's LOCK. A fence
 * that is found done leaves the list.
 */
#include <sched.h>

#include "fence.h"
#include "futex.h"

enum { PAUSE_MIN_NS = 15625, PAUSE_MAX_NS = 1000000 };

static uint64_t lock_var(tn__var *var) {
  for (uint32_t n = 1;; ++n) {
    uint64_t word = atomic_load_explicit(&var->word, memory_order_relaxed);
    if ((word & TN__VAR_LOCK) == 0 &&
        atomic_compare_exchange_weak_explicit(
            &var->word, &word, word | TN__VAR_LOCK, memory_order_acq_rel,
            memory_order_relaxed))
      return word;
    if (n % 64 == 0) sched_yield();
    tn__cpu_relax();
  }
}

static void unlock_var(tn__var *var, uint64_t word) {
  word &= ~(TN__VAR_LOCK | TN__VAR_FENCE);
  if (var->fence != NULL) word |= TN__VAR_FENCE;
  atomic_store_explicit(&var->word, word, memory_order_release);
}

/* Moves a mark from its list to a list of marks to free. */
static void unlink_mark(tn__fence_mark **at, tn__fence_mark **gone) {
  tn__fence_mark *m = *at;
  *at = m->next;
  m->next = *gone;
  *gone = m;
}

static void free_marks(tn__fence_mark *gone) {
  while (gone != NULL) {
    tn__fence_mark *next = gone->next;
    const tn__env *env = gone->fence->queue->env;
    tn__fence_release(gone->fence);
    tn__free(env, gone);
    gone = next;
  }
}

/* Puts the device's failure at a write on the variable. LOCK is held. */
static uint64_t put_error(tn__var *var, uint64_t word,
                          const tn__fence_mark *m) {
  if (m->mode == TN__READ || m->fence->error == NULL ||
      (word & TN__VAR_ERROR) != 0)
    return word;
  var->error = tn__error_retain(m->fence->error);
  return word | TN__VAR_ERROR;
}

static bool is_wanted(const tn__fence_search *l, const tn__fence_mark *m) {
  if (l->mode == TN__READ && m->mode == TN__READ) return false;
  if (l->skip_foreign && m->foreign) return false;
  return m->serial < l->below && m->fence->queue != l->except &&
         (l->only == NULL || m->fence->queue == l->only);
}

tn__fence *tn__fence_find(tn__var *var, tn__fence_search *l) {
  tn__fence_mark *gone = NULL;
  tn__fence *found = NULL;
  uint64_t word = lock_var(var);
  for (tn__fence_mark **at = &var->fence; *at != NULL && found == NULL;) {
    tn__fence_mark *m = *at;
    if (tn__fence_is_done(m->fence)) {
      word = put_error(var, word, m);
      unlink_mark(at, &gone);
      continue;
    }
    if (is_wanted(l, m)) {
      found = tn__fence_retain(m->fence);
      l->found = m->serial;
    }
    at = &m->next;
  }
  unlock_var(var, word);
  free_marks(gone);
  return found;
}

/* Unlinks the marks that the new mark makes unnecessary. LOCK is held. */
static void unlink_older(tn__var *var, const tn__fence_mark *m,
                         tn__fence_mark **gone) {
  for (tn__fence_mark **at = &var->fence; *at != NULL;) {
    const tn__fence_mark *old = *at;
    if (m->mode != TN__READ ||
        (old->mode == TN__READ && old->fence->queue == m->fence->queue))
      unlink_mark(at, gone);
    else
      at = &(*at)->next;
  }
}

/* True if the variable already has the mark, from an earlier operation that
 * shares the fence. */
static bool has_mark(tn__var *var, uint32_t mode, const tn__fence *f) {
  const uint64_t word = lock_var(var);
  const tn__fence_mark *m = var->fence;
  const bool there = m != NULL && m->fence == f && !m->foreign &&
                     (mode == TN__READ || m->mode != TN__READ);
  unlock_var(var, word);
  return there;
}

void tn__fence_add(tn__var *var, uint32_t mode, tn__fence *f, bool foreign) {
  tn__fence_mark *gone = NULL;
  if (!foreign && f->n_shared > 1 && has_mark(var, mode, f)) return;
  tn__fence_mark *m = tn__alloc(f->queue->env, sizeof *m);
  if (m == NULL) {
    tn__fence_block(f);
    if (f->error != NULL && mode != TN__READ) tn__error_put(var, f->error);
    return;
  }
  *m = (tn__fence_mark){
      .fence = tn__fence_retain(f), .mode = mode, .foreign = foreign};
  const uint64_t word = lock_var(var);
  if (!foreign) unlink_older(var, m, &gone);
  m->next = var->fence;
  m->serial = m->next != NULL ? m->next->serial + 1 : 1;
  var->fence = m;
  unlock_var(var, word);
  free_marks(gone);
}

void tn__fence_put_error(tn__var *var, tn__error *error) {
  uint64_t word = lock_var(var);
  if ((word & TN__VAR_ERROR) == 0) {
    var->error = tn__error_retain(error);
    word |= TN__VAR_ERROR;
  }
  unlock_var(var, word);
}

static void drop_fences(tn__var *var) {
  const uint64_t word = lock_var(var);
  tn__fence_mark *gone = var->fence;
  var->fence = NULL;
  unlock_var(var, word);
  free_marks(gone);
}

void tn__var_deinit(tn__var *var) {
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  if ((word & TN__VAR_FENCE) != 0) drop_fences(var);
  tn__error_put(var, NULL);
}

/* Devices have no wait with a time limit, and no call when a fence is done. Up
 * to a deadline the fence is tested again and again, with pauses that grow to a
 * millisecond. So the result may be a millisecond late. */
static bool await_done(tn__fence *f, uint64_t deadline) {
  if (deadline == TN__FOREVER) tn__fence_block(f);
  for (uint64_t pause = PAUSE_MIN_NS; !tn__fence_query(f);) {
    const uint64_t now = tn__now();
    if (now >= deadline) return false;
    const uint64_t left = deadline - now;
    tn__futex_wait(&f->done, 0, now + (pause < left ? pause : left));
    if (pause < PAUSE_MAX_NS) pause *= 2;
  }
  return true;
}

bool tn__fence_wait(tn__var *var, uint32_t condition, uint64_t deadline) {
  tn__fence_search l =
      tn__fence_search_for(condition == TN__WAIT_ALL ? TN__UPDATE : TN__READ);
  tn__fence *f;
  bool done = true;
  while (done && (f = tn__fence_find(var, &l)) != NULL) {
    done = await_done(f, deadline);
    tn__fence_release(f);
  }
  return done;
}
