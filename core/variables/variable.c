/* SPDX-License-Identifier: Apache-2.0
 * variable.c: grants on variables: acquire, release, and hand over to the next
 * claims. Each function is one row of the table in variable.h; tests/model
 * checks them in every order.
 */
#include <sched.h>

#include "futex.h"
#include "token.h"

#define READERS(word) ((word) >> 32)

static void relax_or_yield(uint32_t n) {
  if (n % 64 == 63) (void)sched_yield();
  tn__cpu_relax();
}

/* Loads the word once no thread holds LOCK. */
static uint64_t load_unlocked(tn__var *var) {
  uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  for (uint32_t n = 0; (word & TN__VAR_LOCK) != 0; ++n) {
    relax_or_yield(n);
    word = atomic_load_explicit(&var->word, memory_order_acquire);
  }
  return word;
}

static bool change_word(tn__var *var, uint64_t from, uint64_t to) {
  return atomic_compare_exchange_weak_explicit(
      &var->word, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

static void unlock_var(tn__var *var, uint64_t word) {
  atomic_store_explicit(&var->word, word & ~TN__VAR_LOCK, memory_order_release);
}

static uint64_t lock_var(tn__var *var) {
  for (;;) {
    const uint64_t word = load_unlocked(var);
    if (change_word(var, word, word | TN__VAR_LOCK)) return word;
  }
}

void tn__var_mark(tn__var *var, uint64_t clear, uint64_t set) {
  for (;;) {
    const uint64_t word = load_unlocked(var);
    const uint64_t want = (word & ~clear) | set;
    if (word == want || change_word(var, word, want)) return;
  }
}

/* LOCK is held. */
static void append_claim(tn__var *var, tn__claim *claim) {
  if (var->tail == NULL) {
    claim->next = claim;
  } else {
    claim->next = var->tail->next;
    var->tail->next = claim;
  }
  var->tail = claim;
}

/* True if `word` allows a grant of this mode, apart from the queue. */
static bool can_grant(uint64_t word, uint32_t mode) {
  if ((word & TN__VAR_WRITER) != 0) return false;
  return mode == TN__READ || READERS(word) == 0;
}

static uint64_t add_grant(uint64_t word, uint32_t mode) {
  return mode == TN__READ ? word + TN__VAR_READER : word | TN__VAR_WRITER;
}

/* The bits of the word that joining the queue sets. */
static uint64_t queue_bits(const tn__claim *claim) {
  return claim->may_leave != 0 ? TN__VAR_QUEUED | TN__VAR_LEAVING
                               : TN__VAR_QUEUED;
}

bool tn__var_acquire(tn__claim *claim) {
  tn__var *var = claim->var;
  for (;;) {
    const uint64_t word = load_unlocked(var);
    if ((word & TN__VAR_QUEUED) == 0 && can_grant(word, claim->mode)) {
      if (change_word(var, word, add_grant(word, claim->mode))) return true;
    } else if (change_word(var, word, word | TN__VAR_LOCK)) {
      append_claim(var, claim);
      unlock_var(var, word | queue_bits(claim));
      return false;
    }
  }
}

static tn__claim *take_first(tn__claim **tail) {
  tn__claim *head = (*tail)->next;
  if (head == *tail)
    *tail = NULL;
  else
    (*tail)->next = head->next;
  return head;
}

/* A writer takes the queue after it along, if that begins with another writer
 * and no claim in it may leave. LOCK is held. */
static void take_along(tn__var *var, uint64_t word, tn__claim *writer) {
  if (var->tail == NULL || (word & TN__VAR_LEAVING) != 0 ||
      var->tail->next->mode == TN__READ)
    return;
  writer->next = var->tail;
  var->tail = NULL;
}

/* Takes from the head of the queue the claims that `word` allows: a writer, or
 * readers up to the next writer. LOCK is held. */
static tn__claim *hand_over(tn__var *var, uint64_t *word) {
  tn__claim *first = NULL;
  tn__claim **end = &first;
  while (var->tail != NULL && can_grant(*word, var->tail->next->mode)) {
    tn__claim *head = take_first(&var->tail);
    tn__prefetch_write(head->token);
    *word = add_grant(*word, head->mode);
    *end = head;
    end = &head->next;
  }
  *end = NULL;
  if (first != NULL && first->mode != TN__READ) take_along(var, *word, first);
  if (var->tail == NULL) *word &= ~(TN__VAR_QUEUED | TN__VAR_LEAVING);
  return first;
}

/* Hands over from writer to writer without a change of the variable. NULL: the
 * writer has taken no queue along, or a reader is its head. */
static tn__claim *hand_on(tn__claim *writer) {
  tn__claim *tail = writer->next;
  if (tail == NULL || tail->next->mode == TN__READ) return NULL;
  tn__claim *head = take_first(&tail);
  head->next = tail;
  if (tail != NULL) tn__token_prefetch(tail->next->token);
  return head;
}

/* Returns the queue that the writer has taken along to the head of the
 * variable's queue. LOCK is held. */
static void return_queue(tn__var *var, const tn__claim *writer) {
  tn__claim *tail = writer->next;
  if (var->tail == NULL) {
    var->tail = tail;
    return;
  }
  tn__claim *head = tail->next;
  tail->next = var->tail->next;
  var->tail->next = head;
}

static tn__claim *release_reader(tn__var *var) {
  for (;;) {
    const uint64_t word = load_unlocked(var);
    uint64_t after = word - TN__VAR_READER;
    if ((word & TN__VAR_QUEUED) == 0 || READERS(after) != 0) {
      if (change_word(var, word, after)) return NULL;
    } else if (change_word(var, word, word | TN__VAR_LOCK)) {
      tn__claim *granted = hand_over(var, &after);
      unlock_var(var, after);
      return granted;
    }
  }
}

static tn__claim *release_writer(tn__var *var, const tn__claim *claim) {
  const bool along = claim->next != NULL;
  for (;;) {
    const uint64_t word = load_unlocked(var);
    uint64_t after = word & ~TN__VAR_WRITER;
    if ((word & TN__VAR_QUEUED) == 0 && !along) {
      if (change_word(var, word, after)) return NULL;
    } else if (change_word(var, word, word | TN__VAR_LOCK)) {
      if (along) {
        return_queue(var, claim);
        after |= TN__VAR_QUEUED;
      }
      tn__claim *granted = hand_over(var, &after);
      unlock_var(var, after);
      return granted;
    }
  }
}

tn__claim *tn__var_release(tn__claim *claim) {
  if (claim->mode == TN__READ) return release_reader(claim->var);
  tn__claim *next = hand_on(claim);
  return next != NULL ? next : release_writer(claim->var, claim);
}

/* Removes a claim from the circular queue, if it is there. LOCK is held. */
static bool remove_claim(tn__var *var, tn__claim *claim) {
  tn__claim *before = var->tail;
  if (before == NULL) return false;
  while (before->next != claim) {
    before = before->next;
    if (before == var->tail) return false;
  }
  if (before == claim) {
    var->tail = NULL;
    return true;
  }
  before->next = claim->next;
  if (var->tail == claim) var->tail = before;
  return true;
}

bool tn__var_cancel(tn__claim *claim, tn__claim **granted) {
  tn__var *var = claim->var;
  uint64_t word = lock_var(var);
  const bool found = remove_claim(var, claim);
  *granted = found ? hand_over(var, &word) : NULL;
  unlock_var(var, word);
  return found;
}
