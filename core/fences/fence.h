/* SPDX-License-Identifier: Apache-2.0
 * fence.h: fences of device queues, and the marks that keep them on variables.
 * Shared by fence.c, variable_fences.c, fence_watcher.c and foreign_fences.c.
 */
#ifndef TENON_FENCES_FENCE_H_
#define TENON_FENCES_FENCE_H_

#include "device_queue.h"
#include "travelling_error.h"

enum { TN__FENCE_NAME = 64 };

/* ----------------------------------------------------------------- fence.c */

/* A point in a queue. Owned by the variables of the operations before it, and
 * by threads that read it. */
typedef struct tn__fence {
  _Atomic int64_t n_owners;
  tn__queue *queue;
  void *point; /* the device's fence; NULL if dropped or pending */
  tn__error *error;
  _Atomic uint32_t done;     /* then `error` is its result */
  uint32_t n_blocked;        /* threads that are inside of ops->block */
  uint32_t n_shared;         /* operations that share it */
  _Atomic bool pending;      /* not recorded yet */
  uint64_t number;           /* rises along the queue */
  char name[TN__FENCE_NAME]; /* first operation that it follows, may be cut */
  char last[TN__FENCE_NAME]; /* last operation that shares it, or "" */
  struct tn__fence *next;
  struct tn__fence *before;
} tn__fence;

tn__fence *tn__fence_retain(tn__fence *f);
void tn__fence_release(tn__fence *f);

/* True if the fence is known to be done. */
static inline bool tn__fence_is_done(const tn__fence *f) {
  return atomic_load_explicit(&f->done, memory_order_acquire) != 0;
}

/* Tests whether the fence is done. */
bool tn__fence_query(tn__fence *f);
/* Blocks until the fence is done. */
void tn__fence_block(tn__fence *f);
/* Makes another queue wait for the fence on the device. That queue's own
 * pending fence is recorded first. Another kind of device has other fences:
 * then TN_UNSUPPORTED. */
tn_code tn__fence_wait_on_device(tn__queue *queue, tn__fence *f);
/* Records a fence. The queue keeps the newest one for waits for everything.
 * Asynchronous jobs may record theirs at the same time. Without memory *out is
 * NULL, and the caller owns *point. */
tn_code tn__fence_record(tn__queue *queue, const char *name, void **point,
                         tn__fence **out);
/* Adds an operation to the pending fence, or creates one. NULL without memory,
 * or if no thread would record the fence. */
tn__fence *tn__fence_share(tn__queue *queue, const char *name);

/* ------------------------------------------------------- variable_fences.c */

/* A fence of a variable. */
typedef struct tn__fence_mark {
  struct tn__fence_mark *next;
  tn__fence *fence;
  uint64_t serial;  /* falls along the list */
  uint32_t mode;    /* TN__READ, or any writing mode */
  uint32_t foreign; /* of another queue, which the writer's queue waits for */
} tn__fence_mark;

/* The conditions of a search through the marks of a variable. During a search
 * marks that match may vanish at any time, since other threads find them done,
 * but none is added. */
typedef struct tn__fence_search {
  uint64_t below;          /* only serials below this one */
  uint64_t found;          /* serial of the mark that was found */
  const tn__queue *except; /* not of this queue, or NULL */
  const tn__queue *only;   /* of this queue only, or NULL */
  uint32_t mode;           /* of the use: a reader waits for writers only */
  uint32_t skip_foreign;   /* without foreign fences: the wait for the writer
                              includes them */
} tn__fence_search;

static inline tn__fence_search tn__fence_search_for(uint32_t mode) {
  return (tn__fence_search){.mode = mode, .below = UINT64_MAX};
}

/* Returns a fence that is not known to be done, or NULL. The caller releases
 * it.
 */
tn__fence *tn__fence_find(tn__var *var, tn__fence_search *l);
/* Adds a mark to the variable. Without memory it waits until the fence is done,
 * since such a fence needs no mark. */
void tn__fence_add(tn__var *var, uint32_t mode, tn__fence *f, bool foreign);
/* Puts the error on the variable unless it carries one. Takes LOCK. */
void tn__fence_put_error(tn__var *var, tn__error *error);

#endif /* TENON_FENCES_FENCE_H_ */
