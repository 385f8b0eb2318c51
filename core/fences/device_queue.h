/* SPDX-License-Identifier: Apache-2.0
 * device_queue.h: device queues, and the use of their fences by tokens. For the
 * folders of the engine.
 */
#ifndef TENON_FENCES_DEVICE_QUEUE_H_
#define TENON_FENCES_DEVICE_QUEUE_H_

#include "engine_state.h"
#include "queue.h"
#include "token.h"

/* A queue's own token, which goes to the pool when the queue has ready tokens.
 * Only its `next`, `queue`, `flags` and `priority` are used. */
enum { TN__TOKEN_DRAIN = 1 << 30 }; /* tn__token.flags */
/* The innermost queue that this thread drains, or NULL (fence.c). */
extern _Thread_local tn__queue *tn__draining
    __attribute__((tls_model("initial-exec")));

/* Reference counted: owned by its creator and by each fence. */
struct tn__queue {
  tn__engine *engine;
  const tn__env *env;
  const tn__queue_ops *ops;
  void *ctx; /* the caller's, until tn__queue_destroy */
  char *name;
  tn__queue *older; /* in the engine's list */
  uint64_t number;  /* rises from the oldest to the newest */
  _Atomic int64_t n_owners;
  pthread_mutex_t lock; /* protects the fields below */
  pthread_cond_t changed;
  tn__token *first; /* ready tokens, in the order in which they will run */
  tn__token *last;
  tn__token drain;
  uint32_t draining;         /* `drain` is in the pool, or runs */
  uint32_t watching;         /* there is a watcher */
  uint32_t ending;           /* the watcher is to end */
  uint32_t requested;        /* a thread wants `pending` to be recorded */
  tn__queue *outer;          /* next outer queue of the draining thread */
  uint64_t n_fences;         /* number of fences ever created */
  struct tn__fence *fences;  /* all fences with an owner */
  struct tn__fence *newest;  /* held until it is found done, or NULL */
  struct tn__fence *pending; /* or NULL; set by the draining thread */
  tn__token *parked;         /* for the watcher, oldest first */
  tn__token **parked_end;
  pthread_t watcher;
  char culprit[136]; /* operations that may have failed (fence.c), or "" */
};

/* Removes an owner; the last one frees the queue (fence.c). */
void tn__queue_release(tn__queue *queue);
/* After tn__drain: waits until no thread drains the queue and all of its fences
 * are done, and removes the creator's ownership. */
void tn__queue_end(tn__queue *queue);
/* Passes the queue to the thread that drains it. `draining` is set. */
void tn__queue_begin_draining(tn__queue *queue);

/* Before a token runs: makes its queue wait for the fences of its variables.
 * True: a token of the host was parked, and becomes ready again when the device
 * is done. A failure of the device goes to the variable. */
bool tn__fence_before(tn__token *token);
/* After a token of a queue ran with `code`: puts a fence on its variables. Also
 * if the token failed, since it may have enqueued work before; then the code
 * and its text stay. */
tn_code tn__fence_after(tn__token *token, tn_code code);
/* Waits until devices have written the variable, or until they no longer use
 * it. A failure goes to the variable. False: the deadline (tn__now) has passed
 * before. */
bool tn__fence_wait(tn__var *var, uint32_t condition, uint64_t deadline);
/* Waits until the devices have executed everything that is enqueued so far.
 * Announces their failures. */
void tn__queues_await(tn__engine *engine);
/* Inserts a ready token into the order of its queue. */
void tn__queue_add_ready(tn__token *token);

/* The queue's newest recorded fence; with `pending` the pending one, if there
 * is one. NULL if it is done. tn__fence_await waits for it and releases it. */
struct tn__fence *tn__fence_newest(tn__queue *queue, bool pending);
void tn__fence_await(struct tn__fence *fence);

/* Records the pending fence, if there is one. Called by the thread that drains
 * the queue. */
void tn__fence_record_pending(tn__queue *queue);
/* Before the queue's `ctx` becomes invalid: waits until all of its fences are
 * done, drops the device's fences and ends the watcher. */
void tn__fence_finish_all(tn__queue *queue);

#endif /* TENON_FENCES_DEVICE_QUEUE_H_ */
