/* SPDX-License-Identifier: Apache-2.0
 * priority_heap.h: ready tokens that have a priority. For the folders of the
 * engine.
 */
#ifndef TENON_POOL_PRIORITY_HEAP_H_
#define TENON_POOL_PRIORITY_HEAP_H_

#include <pthread.h>

#include "job.h"

typedef struct tn__priority_heap {
  pthread_mutex_t lock; /* protects the fields below but `highest` */
  struct tn__priority_heap_entry *entries;
  size_t n, capacity;
  uint64_t serial;
  _Atomic int32_t highest; /* highest priority in the heap; INT32_MIN: empty */
} tn__priority_heap;

void tn__priority_heap_init(tn__priority_heap *heap);
void tn__priority_heap_deinit(tn__priority_heap *heap, const tn__env *env);
/* False without memory. */
bool tn__priority_heap_push(tn__priority_heap *heap, const tn__env *env,
                            tn__token *token);
/* NULL if the heap is empty. */
tn__token *tn__priority_heap_take(tn__priority_heap *heap);

#endif /* TENON_POOL_PRIORITY_HEAP_H_ */
