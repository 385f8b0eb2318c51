/* SPDX-License-Identifier: Apache-2.0
 * priority_heap.c: ready tokens that have a priority, highest first, and equal
 * ones in the order in which they became ready. Few tokens have a priority, so
 * a lock and a binary heap suffice.
 */
#include <string.h>

#include "pool.h"
#include "token.h"

enum { FIRST_CAPACITY = 64 };

struct tn__heap_entry {
  tn__token *token;
  uint64_t serial;
};
typedef struct tn__heap_entry entry;

static bool is_before(const entry *a, const entry *b) {
  if (a->token->priority != b->token->priority)
    return a->token->priority > b->token->priority;
  return a->serial < b->serial;
}

static void swap_entries(entry *a, entry *b) {
  const entry old = *a;
  *a = *b;
  *b = old;
}

static void sift_up(entry *heap, size_t at) {
  for (; at > 0 && is_before(&heap[at], &heap[(at - 1) / 2]); at = (at - 1) / 2)
    swap_entries(&heap[at], &heap[(at - 1) / 2]);
}

static void sift_down(entry *heap, size_t n, size_t at) {
  for (;;) {
    size_t first = at;
    for (size_t child = 2 * at + 1; child <= 2 * at + 2; ++child)
      if (child < n && is_before(&heap[child], &heap[first])) first = child;
    if (first == at) return;
    swap_entries(&heap[at], &heap[first]);
    at = first;
  }
}

static bool reserve_entry(tn__pool *pool) {
  if (pool->n_heap < pool->heap_capacity) return true;
  const size_t capacity =
      pool->heap_capacity == 0 ? FIRST_CAPACITY : 2 * pool->heap_capacity;
  entry *heap = tn__alloc(pool->env, capacity * sizeof *heap);
  if (heap == NULL) return false;
  if (pool->n_heap > 0) memcpy(heap, pool->heap, pool->n_heap * sizeof *heap);
  tn__free(pool->env, pool->heap);
  pool->heap = heap;
  pool->heap_capacity = capacity;
  return true;
}

static void publish_highest(tn__pool *pool) {
  atomic_store(&pool->highest,
               pool->n_heap == 0 ? INT32_MIN : pool->heap[0].token->priority);
}

bool tn__heap_push(tn__pool *pool, tn__token *token) {
  pthread_mutex_lock(&pool->heap_lock);
  const bool room = reserve_entry(pool);
  if (room) {
    pool->heap[pool->n_heap] = (entry){token, pool->heap_serial++};
    sift_up(pool->heap, pool->n_heap++);
    publish_highest(pool);
  }
  pthread_mutex_unlock(&pool->heap_lock);
  return room;
}

tn__token *tn__heap_take(tn__pool *pool) {
  tn__token *token = NULL;
  pthread_mutex_lock(&pool->heap_lock);
  if (pool->n_heap > 0) {
    token = pool->heap[0].token;
    pool->heap[0] = pool->heap[--pool->n_heap];
    sift_down(pool->heap, pool->n_heap, 0);
    publish_highest(pool);
  }
  pthread_mutex_unlock(&pool->heap_lock);
  return token;
}
