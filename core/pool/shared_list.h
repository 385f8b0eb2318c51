/* SPDX-License-Identifier: Apache-2.0
 * shared_list.h: ready tokens from threads without a deque. For the folders of
 * the engine.
 */
#ifndef TENON_POOL_SHARED_LIST_H_
#define TENON_POOL_SHARED_LIST_H_

#include "job.h"

/* Each end writes its own fields; the other end only reads them. */
typedef struct tn__shared {
  _Alignas(64) _Atomic uint32_t pushing; /* a lock, like `taking` */
  uint32_t reserved;
  _Atomic uint64_t end; /* number of tokens ever put into the ring */
  uint64_t known;       /* last value of `begin` that a push has read */
  tn__token **ring;     /* this and `capacity` change under both locks */
  uint64_t capacity;
  _Alignas(64) _Atomic uint32_t taking;
  uint32_t reserved_2;
  _Atomic uint64_t begin; /* number of tokens ever taken out of the ring */
  tn__token *list;        /* tokens that found no room in the ring */
  _Atomic size_t n_list;
} tn__shared;

void tn__shared_push(tn__shared *shared, const tn__env *env, tn__token *token);
/* Takes up to `max` tokens, oldest first; returns their number. */
uint32_t tn__shared_take(tn__shared *shared, tn__token **out, uint32_t max);
/* May be called at any time; sequentially consistent with pushes. */
bool tn__shared_is_empty(tn__shared *shared);
void tn__shared_deinit(tn__shared *shared, const tn__env *env);

#endif /* TENON_POOL_SHARED_LIST_H_ */
