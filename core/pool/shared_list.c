/* SPDX-License-Identifier: Apache-2.0
 * shared_list.c: ready tokens from threads that are no workers. A ring with a
 * lock at either end, so that the pushing and the taking thread write to
 * separate cache lines. A worker takes many tokens at a time. Without memory
 * for a larger ring tokens go to a linked list.
 */
#include <sched.h>
#include <string.h>

#include "futex.h"
#include "shared_list.h"
#include "token.h"

enum { FIRST_CAPACITY = 1024, SPINS = 64 };

static void lock_word(_Atomic uint32_t *word) {
  for (uint32_t n = 1;
       atomic_exchange_explicit(word, 1, memory_order_acquire) != 0; ++n) {
    while (atomic_load_explicit(word, memory_order_relaxed) != 0) {
      tn__cpu_relax();
      if (++n % SPINS == 0) sched_yield();
    }
  }
}

static void unlock_word(_Atomic uint32_t *word) {
  atomic_store_explicit(word, 0, memory_order_release);
}

/* Both locks are held; the caller holds the one of `end`. */
static bool grow_locked(tn__shared *shared, const tn__env *env, uint64_t end) {
  const uint64_t old = shared->capacity;
  const uint64_t capacity = old == 0 ? FIRST_CAPACITY : 2 * old;
  tn__token **ring = tn__alloc(env, capacity * sizeof *ring);
  if (ring == NULL) return false;
  for (uint64_t i = shared->known; i < end; ++i)
    ring[i & (capacity - 1)] = shared->ring[i & (old - 1)];
  tn__free(env, shared->ring);
  shared->ring = ring;
  shared->capacity = capacity;
  return true;
}

/* Makes sure that there is room for one more. False without memory. */
static bool reserve_room(tn__shared *shared, const tn__env *env, uint64_t end) {
  if (end - shared->known < shared->capacity) return true;
  shared->known = atomic_load_explicit(&shared->begin, memory_order_acquire);
  if (end - shared->known < shared->capacity) return true;
  lock_word(&shared->taking);
  shared->known = atomic_load_explicit(&shared->begin, memory_order_relaxed);
  const bool room = grow_locked(shared, env, end);
  unlock_word(&shared->taking);
  return room;
}

static void put_in_list(tn__shared *shared, tn__token *token) {
  lock_word(&shared->taking);
  token->next = shared->list;
  shared->list = token;
  atomic_fetch_add(&shared->n_list, 1);
  unlock_word(&shared->taking);
}

void tn__shared_push(tn__shared *shared, const tn__env *env, tn__token *token) {
  lock_word(&shared->pushing);
  const uint64_t end = atomic_load_explicit(&shared->end, memory_order_relaxed);
  if (reserve_room(shared, env, end)) {
    shared->ring[end & (shared->capacity - 1)] = token;
    /* Sequentially consistent with the check for sleepers: see
     * tn__pool_wake_workers. */
    atomic_store(&shared->end, end + 1);
  } else {
    put_in_list(shared, token);
  }
  unlock_word(&shared->pushing);
}

/* The lock is held. */
static uint32_t take_from_list(tn__shared *shared, tn__token **out,
                               uint32_t max) {
  uint32_t n = 0;
  for (; n < max && shared->list != NULL; ++n) {
    out[n] = shared->list;
    shared->list = out[n]->next;
  }
  atomic_fetch_sub(&shared->n_list, n);
  return n;
}

/* The lock is held. */
static uint32_t take_from_ring(tn__shared *shared, tn__token **out,
                               uint32_t max) {
  const uint64_t begin =
      atomic_load_explicit(&shared->begin, memory_order_relaxed);
  const uint64_t n =
      atomic_load_explicit(&shared->end, memory_order_acquire) - begin;
  const uint32_t k = n < max ? (uint32_t)n : max;
  for (uint32_t i = 0; i < k; ++i)
    out[i] = shared->ring[(begin + i) & (shared->capacity - 1)];
  atomic_store_explicit(&shared->begin, begin + k, memory_order_release);
  return k;
}

bool tn__shared_is_empty(tn__shared *shared) {
  return atomic_load(&shared->end) == atomic_load(&shared->begin) &&
         atomic_load(&shared->n_list) == 0;
}

uint32_t tn__shared_take(tn__shared *shared, tn__token **out, uint32_t max) {
  if (tn__shared_is_empty(shared)) return 0;
  lock_word(&shared->taking);
  uint32_t n = take_from_ring(shared, out, max);
  if (n == 0) n = take_from_list(shared, out, max);
  unlock_word(&shared->taking);
  return n;
}

void tn__shared_deinit(tn__shared *shared, const tn__env *env) {
  tn__free(env, shared->ring);
}
