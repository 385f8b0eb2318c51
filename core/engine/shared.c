/* SPDX-License-Identifier: Apache-2.0
 * shared.c: ready tokens from threads that are no workers. A ring under a lock
 * that is held for a few instructions: who pushes takes it once per token, and
 * a worker once for many. Without memory for a larger ring they stand in a
 * list.
 */
#include <sched.h>
#include <string.h>

#include "pool.h"

enum { FIRST_CAPACITY = 1024, SPINS = 64 };

static void lock(tn__shared *shared) {
  for (uint32_t n = 1;
       atomic_exchange_explicit(&shared->lock, 1, memory_order_acquire) != 0;
       ++n) {
    while (atomic_load_explicit(&shared->lock, memory_order_relaxed) != 0) {
      tn__relax();
      if (++n % SPINS == 0) sched_yield();
    }
  }
}

static void unlock(tn__shared *shared) {
  atomic_store_explicit(&shared->lock, 0, memory_order_release);
}

static bool grow(tn__shared *shared, const tn__env *env) {
  const size_t old = shared->capacity;
  const size_t capacity = old == 0 ? FIRST_CAPACITY : 2 * old;
  tn__token **ring = tn__alloc(env, capacity * sizeof *ring);
  if (ring == NULL) return false;
  for (size_t i = 0; i < shared->n_ring; ++i)
    ring[i] = shared->ring[(shared->first + i) & (old - 1)];
  tn__free(env, shared->ring);
  shared->ring = ring;
  shared->capacity = capacity;
  shared->first = 0;
  return true;
}

static void put(tn__shared *shared, const tn__env *env, tn__token *token) {
  if (shared->n_ring == shared->capacity && !grow(shared, env)) {
    token->next = shared->list;
    shared->list = token;
    return;
  }
  shared->ring[(shared->first + shared->n_ring++) & (shared->capacity - 1)] =
      token;
}

static tn__token *get(tn__shared *shared) {
  if (shared->n_ring > 0) {
    --shared->n_ring;
    return shared->ring[shared->first++ & (shared->capacity - 1)];
  }
  tn__token *token = shared->list;
  shared->list = token->next;
  return token;
}

void tn__shared_push(tn__shared *shared, const tn__env *env, tn__token *token) {
  lock(shared);
  put(shared, env, token);
  /* In one order with a look at who sleeps: see tn__pool_call. */
  atomic_store(&shared->n,
               atomic_load_explicit(&shared->n, memory_order_relaxed) + 1);
  unlock(shared);
}

uint32_t tn__shared_take(tn__shared *shared, tn__token **out, uint32_t max) {
  if (atomic_load_explicit(&shared->n, memory_order_relaxed) == 0) return 0;
  lock(shared);
  const size_t n = atomic_load_explicit(&shared->n, memory_order_relaxed);
  const uint32_t k = n < max ? (uint32_t)n : max;
  for (uint32_t i = 0; i < k; ++i) out[i] = get(shared);
  atomic_store_explicit(&shared->n, n - k, memory_order_relaxed);
  unlock(shared);
  return k;
}

void tn__shared_deinit(tn__shared *shared, const tn__env *env) {
  tn__free(env, shared->ring);
}
