/* SPDX-License-Identifier: Apache-2.0
 * var.c: grants on variables: how a token gets one, gives it back, and hands it
 * over to those who wait. Each function is one row of the table in order.h;
 * tests/model checks them in every order.
 */
#include <sched.h>

#include "pool.h"

#define READERS(word) ((word) >> 32)

static void relax(uint32_t n) {
  if (n % 64 == 63) (void)sched_yield();
  tn__relax();
}

/* The word while nobody holds LOCK. */
static uint64_t settled(tn__var *var) {
  uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  for (uint32_t n = 0; (word & TN__VAR_LOCK) != 0; ++n) {
    relax(n);
    word = atomic_load_explicit(&var->word, memory_order_acquire);
  }
  return word;
}

static bool change(tn__var *var, uint64_t from, uint64_t to) {
  return atomic_compare_exchange_weak_explicit(
      &var->word, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

static void unlock(tn__var *var, uint64_t word) {
  atomic_store_explicit(&var->word, word & ~TN__VAR_LOCK, memory_order_release);
}

static uint64_t lock(tn__var *var) {
  for (;;) {
    const uint64_t word = settled(var);
    if (change(var, word, word | TN__VAR_LOCK)) return word;
  }
}

void tn__var_mark(tn__var *var, uint64_t clear, uint64_t set) {
  for (;;) {
    const uint64_t word = settled(var);
    const uint64_t want = (word & ~clear) | set;
    if (word == want || change(var, word, want)) return;
  }
}

/* LOCK is held. */
static void append(tn__var *var, tn__link *link) {
  if (var->tail == NULL) {
    link->next = link;
  } else {
    link->next = var->tail->next;
    var->tail->next = link;
  }
  var->tail = link;
}

/* Whether `word` lets a grant of this mode in, queue aside. */
static bool admits(uint64_t word, uint32_t mode) {
  if ((word & TN__VAR_WRITER) != 0) return false;
  return mode == TN__READ || READERS(word) == 0;
}

static uint64_t with(uint64_t word, uint32_t mode) {
  return mode == TN__READ ? word + TN__VAR_READER : word | TN__VAR_WRITER;
}

/* The bits of the word that joining the queue sets. */
static uint64_t queued(const tn__link *link) {
  return link->may_leave != 0 ? TN__VAR_QUEUED | TN__VAR_LEAVING
                              : TN__VAR_QUEUED;
}

bool tn__var_acquire(tn__link *link) {
  tn__var *var = link->var;
  for (;;) {
    const uint64_t word = settled(var);
    if ((word & TN__VAR_QUEUED) == 0 && admits(word, link->mode)) {
      if (change(var, word, with(word, link->mode))) return true;
    } else if (change(var, word, word | TN__VAR_LOCK)) {
      append(var, link);
      unlock(var, word | queued(link));
      return false;
    }
  }
}

static tn__link *take_head(tn__link **tail) {
  tn__link *head = (*tail)->next;
  if (head == *tail)
    *tail = NULL;
  else
    (*tail)->next = head->next;
  return head;
}

/* A writer takes what waits behind it along, if that begins with another
 * writer, and nobody in it may want to leave. LOCK is held. */
static void take_along(tn__var *var, uint64_t word, tn__link *writer) {
  if (var->tail == NULL || (word & TN__VAR_LEAVING) != 0 ||
      var->tail->next->mode == TN__READ)
    return;
  writer->next = var->tail;
  var->tail = NULL;
}

/* Takes from the head of the queue what `word` lets in: a writer, or readers up
 * to the next writer. LOCK is held. */
static tn__link *hand_over(tn__var *var, uint64_t *word) {
  tn__link *first = NULL;
  tn__link **end = &first;
  while (var->tail != NULL && admits(*word, var->tail->next->mode)) {
    tn__link *head = take_head(&var->tail);
    tn__fetch(head->token);
    *word = with(*word, head->mode);
    *end = head;
    end = &head->next;
  }
  *end = NULL;
  if (first != NULL && first->mode != TN__READ) take_along(var, *word, first);
  if (var->tail == NULL) *word &= ~(TN__VAR_QUEUED | TN__VAR_LEAVING);
  return first;
}

/* From writer to writer: nothing of the variable changes. NULL: the first that
 * this one has taken along, if any, is a reader. */
static tn__link *hand_on(tn__link *writer) {
  tn__link *tail = writer->next;
  if (tail == NULL || tail->next->mode == TN__READ) return NULL;
  tn__link *head = take_head(&tail);
  head->next = tail;
  if (tail != NULL) tn__token_fetch(tail->next->token);
  return head;
}

/* What the writer has taken along goes back to the head of the queue. LOCK is
 * held. */
static void bring_back(tn__var *var, const tn__link *writer) {
  tn__link *tail = writer->next;
  if (var->tail == NULL) {
    var->tail = tail;
    return;
  }
  tn__link *head = tail->next;
  tail->next = var->tail->next;
  var->tail->next = head;
}

static tn__link *release_reader(tn__var *var) {
  for (;;) {
    const uint64_t word = settled(var);
    uint64_t after = word - TN__VAR_READER;
    if ((word & TN__VAR_QUEUED) == 0 || READERS(after) != 0) {
      if (change(var, word, after)) return NULL;
    } else if (change(var, word, word | TN__VAR_LOCK)) {
      tn__link *granted = hand_over(var, &after);
      unlock(var, after);
      return granted;
    }
  }
}

static tn__link *release_writer(tn__var *var, const tn__link *link) {
  const bool along = link->next != NULL;
  for (;;) {
    const uint64_t word = settled(var);
    uint64_t after = word & ~TN__VAR_WRITER;
    if ((word & TN__VAR_QUEUED) == 0 && !along) {
      if (change(var, word, after)) return NULL;
    } else if (change(var, word, word | TN__VAR_LOCK)) {
      if (along) {
        bring_back(var, link);
        after |= TN__VAR_QUEUED;
      }
      tn__link *granted = hand_over(var, &after);
      unlock(var, after);
      return granted;
    }
  }
}

tn__link *tn__var_release(tn__link *link) {
  if (link->mode == TN__READ) return release_reader(link->var);
  tn__link *next = hand_on(link);
  return next != NULL ? next : release_writer(link->var, link);
}

/* Takes a link out of the circle, if it stands there. LOCK is held. */
static bool leave(tn__var *var, tn__link *link) {
  tn__link *before = var->tail;
  if (before == NULL) return false;
  while (before->next != link) {
    before = before->next;
    if (before == var->tail) return false;
  }
  if (before == link) {
    var->tail = NULL;
    return true;
  }
  before->next = link->next;
  if (var->tail == link) var->tail = before;
  return true;
}

bool tn__var_cancel(tn__link *link, tn__link **granted) {
  tn__var *var = link->var;
  uint64_t word = lock(var);
  const bool found = leave(var, link);
  *granted = found ? hand_over(var, &word) : NULL;
  unlock(var, word);
  return found;
}
