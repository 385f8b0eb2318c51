/* SPDX-License-Identifier: Apache-2.0
 * lanes.h: a workspace that the slices of a parallel loop share. Each running
 * slice uses the first free piece. So one thread has the same piece in its
 * cache all the time, and there are fewer pieces than slices.
 */
#ifndef NN_LANES_H_
#define NN_LANES_H_

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

enum { NN_LANES = 16 }; /* largest number of threads in such a loop */

typedef struct nn_lanes {
  char *room;
  uint64_t bytes; /* of a piece */
  uint32_t n;
  _Atomic uint32_t busy; /* a bit for each piece */
} nn_lanes;

/* Number of pieces that `slices` can use, at least 1. [any] */
static inline uint32_t nn_lanes_for(int64_t slices) {
  if (slices < 1) return 1;
  return slices < NN_LANES ? (uint32_t)slices : NN_LANES;
}

/* Reserves a piece until nn_lanes_give. Waits if none is free: threads with a
 * piece never wait for threads without one. [worker] */
static inline uint32_t nn_lanes_take(nn_lanes *lanes) {
  uint32_t busy = atomic_load_explicit(&lanes->busy, memory_order_relaxed);
  for (;;) {
    uint32_t lane = 0;
    while (lane < lanes->n && (busy >> lane & 1) != 0) ++lane;
    if (lane == lanes->n) {
      (void)sched_yield();
      busy = atomic_load_explicit(&lanes->busy, memory_order_relaxed);
    } else if (atomic_compare_exchange_weak_explicit(
                   &lanes->busy, &busy, busy | 1u << lane, memory_order_acquire,
                   memory_order_relaxed)) {
      return lane;
    }
  }
}

static inline void nn_lanes_give(nn_lanes *lanes, uint32_t lane) {
  (void)atomic_fetch_and_explicit(&lanes->busy, ~(1u << lane),
                                  memory_order_release);
}

static inline char *nn_lanes_at(const nn_lanes *lanes, uint32_t lane) {
  return lanes->room + lane * lanes->bytes;
}

#endif /* NN_LANES_H_ */
