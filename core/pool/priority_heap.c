/* SPDX-License-Identifier: Apache-2.0
 * priority_heap.c: ready tokens that have a priority, highest first, and equal
 * ones in the order in which they became ready. Few tokens have a priority, so
 * a lock and a binary heap suffice.
 */
#include "priority_heap.h"

#include <string.h>

#include "token.h"

enum { FIRST_CAPACITY = 64 };

struct tn__priority_heap_entry {
  tn__token *token;
  uint64_t serial;
};
typedef struct tn__priority_heap_entry entry;

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

static bool reserve_entry(tn__priority_heap *heap, const tn__env *env) {
  if (heap->n < heap->capacity) return true;
  const size_t capacity =
      heap->capacity == 0 ? FIRST_CAPACITY : 2 * heap->capacity;
  entry *entries = tn__alloc(env, capacity * sizeof *entries);
  if (entries == NULL) return false;
  if (heap->n > 0) memcpy(entries, heap->entries, heap->n * sizeof *entries);
  tn__free(env, heap->entries);
  heap->entries = entries;
  heap->capacity = capacity;
  return true;
}

static void publish_highest(tn__priority_heap *heap) {
  atomic_store(&heap->highest,
               heap->n == 0 ? INT32_MIN : heap->entries[0].token->priority);
}

void tn__priority_heap_init(tn__priority_heap *heap) {
  pthread_mutex_init(&heap->lock, NULL);
  atomic_init(&heap->highest, INT32_MIN);
}

void tn__priority_heap_deinit(tn__priority_heap *heap, const tn__env *env) {
  tn__free(env, heap->entries);
  pthread_mutex_destroy(&heap->lock);
}

bool tn__priority_heap_push(tn__priority_heap *heap, const tn__env *env,
                            tn__token *token) {
  pthread_mutex_lock(&heap->lock);
  const bool room = reserve_entry(heap, env);
  if (room) {
    heap->entries[heap->n] = (entry){token, heap->serial++};
    sift_up(heap->entries, heap->n++);
    publish_highest(heap);
  }
  pthread_mutex_unlock(&heap->lock);
  return room;
}

tn__token *tn__priority_heap_take(tn__priority_heap *heap) {
  tn__token *token = NULL;
  pthread_mutex_lock(&heap->lock);
  if (heap->n > 0) {
    token = heap->entries[0].token;
    heap->entries[0] = heap->entries[--heap->n];
    sift_down(heap->entries, heap->n, 0);
    publish_highest(heap);
  }
  pthread_mutex_unlock(&heap->lock);
  return token;
}
