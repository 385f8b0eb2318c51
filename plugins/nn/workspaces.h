/* SPDX-License-Identifier: Apache-2.0
 * workspaces.h: the slices of a parallel loop share a few workspaces. Each
 * running slice takes the first free one. So one thread usually gets the same
 * workspace, which is in its cache, and there are fewer workspaces than slices.
 */
#ifndef NN_WORKSPACES_H_
#define NN_WORKSPACES_H_

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

/* Largest number of workspaces of a loop. A loop has no more threads. */
enum { NN_MAX_WORKSPACES = 16 };

typedef struct nn_workspaces {
  char *memory;          /* memory of all workspaces */
  uint64_t bytes;        /* bytes of one workspace */
  uint32_t n;            /* number of workspaces */
  _Atomic uint32_t busy; /* a bit for each workspace in use */
} nn_workspaces;

/* Returns the number of workspaces for a parallel loop of `slices` slices: one
 * for each slice, but at least 1 and at most NN_MAX_WORKSPACES. [any] */
static inline uint32_t nn_choose_workspace_count(int64_t slices) {
  if (slices < 1) return 1;
  return slices < NN_MAX_WORKSPACES ? (uint32_t)slices : NN_MAX_WORKSPACES;
}

/* Reserves a workspace until nn_release_workspace; returns its number. Waits if
 * none is free: threads with a workspace never wait for threads without one.
 * [worker] */
static inline uint32_t nn_take_workspace(nn_workspaces *workspaces) {
  uint32_t busy = atomic_load_explicit(&workspaces->busy, memory_order_relaxed);
  for (;;) {
    uint32_t slot = 0;
    while (slot < workspaces->n && (busy >> slot & 1) != 0) ++slot;
    if (slot == workspaces->n) {
      (void)sched_yield();
      busy = atomic_load_explicit(&workspaces->busy, memory_order_relaxed);
    } else if (atomic_compare_exchange_weak_explicit(
                   &workspaces->busy, &busy, busy | 1u << slot,
                   memory_order_acquire, memory_order_relaxed)) {
      return slot;
    }
  }
}

/* Makes workspace number `slot` free for another slice. */
static inline void nn_release_workspace(nn_workspaces *workspaces,
                                        uint32_t slot) {
  (void)atomic_fetch_and_explicit(&workspaces->busy, ~(1u << slot),
                                  memory_order_release);
}

/* Returns the memory of workspace number `slot`. */
static inline char *nn_locate_workspace(const nn_workspaces *workspaces,
                                        uint32_t slot) {
  return workspaces->memory + slot * workspaces->bytes;
}

#endif /* NN_WORKSPACES_H_ */
