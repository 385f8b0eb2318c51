/* SPDX-License-Identifier: Apache-2.0
 * deque.h: the work-stealing deque of a worker. For the folders of the engine.
 */
#ifndef TENON_POOL_DEQUE_H_
#define TENON_POOL_DEQUE_H_

#include "job.h"

/* An entry of a deque: a token (`range` 0), or the steps in `range` of a
 * schedule's run. */
typedef struct tn__ready_work {
  void *of;
  uint64_t range;
} tn__ready_work;

/* One owner pushes and takes at the bottom; others steal at the top. */
typedef struct tn__deque {
  _Alignas(64) _Atomic int64_t top;
  _Alignas(64) _Atomic int64_t bottom;
  _Atomic(struct tn__ring *) ring;
  const tn__env *env;
} tn__deque;

tn_code tn__deque_init(tn__deque *deque, const tn__env *env);
void tn__deque_deinit(tn__deque *deque);
/* False if it is full and there is no memory to grow. */
bool tn__deque_push(tn__deque *deque, tn__ready_work work);
/* Pushes fewer than 256 tokens, all or none. The owner will take the first one
 * first. */
bool tn__deque_push_all(tn__deque *deque, tn__token **tokens, uint32_t n);
bool tn__deque_take(tn__deque *deque, tn__ready_work *out);
/* False also after a lost race. */
bool tn__deque_steal(tn__deque *deque, tn__ready_work *out);

static inline bool tn__deque_is_empty(tn__deque *deque) {
  return atomic_load_explicit(&deque->bottom, memory_order_seq_cst) <=
         atomic_load_explicit(&deque->top, memory_order_seq_cst);
}

#endif /* TENON_POOL_DEQUE_H_ */
