/* SPDX-License-Identifier: Apache-2.0
 * fence.c: fences of device queues: creates, records, tests, awaits and
 * releases them.
 *
 * A device that fails at an operation is expected to fail at every later fence
 * of that queue. The error names the operations between the oldest fence that
 * fails and the failing one. No more is known of a device that fails late and
 * reports a failure at all fences.
 *
 * Recording a fence takes a device a quarter of the time that a launch takes.
 * So small operations that follow one another on a queue share a fence. It is
 * *pending* until a thread needs it, enough operations share it, or no small
 * operation follows. A shared fence may be later in the queue than necessary,
 * but only by small operations.
 */
#include <stdio.h>
#include <string.h>

#include "fence.h"
#include "futex.h"

enum { SHARED_MAX = 16 }; /* operations with one fence */
enum { SPIN_NS = 20000 }; /* before a thread sleeps until a fence is recorded */

_Thread_local tn__queue *tn__draining
    __attribute__((tls_model("initial-exec")));

static void set_name(char to[TN__FENCE_NAME], const char *name) {
  const size_t n = name != NULL ? strnlen(name, TN__FENCE_NAME - 1) : 0;
  memcpy(to, n > 0 ? name : "", n);
  to[n] = '\0';
}

/* Creates a fence that owns the point. NULL without memory. The queue's lock is
 * held. */
static tn__fence *create_fence(tn__queue *queue, void *point,
                               const char *name) {
  tn__fence *f = tn__alloc(queue->env, sizeof *f);
  if (f == NULL) return NULL;
  *f = (tn__fence){.n_owners = 1,
                   .queue = queue,
                   .point = point,
                   .n_shared = 1,
                   .number = ++queue->n_fences};
  set_name(f->name, name);
  atomic_fetch_add_explicit(&queue->n_owners, 1, memory_order_relaxed);
  f->next = queue->fences;
  if (f->next != NULL) f->next->before = f;
  queue->fences = f;
  return f;
}

void tn__queue_release(tn__queue *queue) {
  if (atomic_fetch_sub_explicit(&queue->n_owners, 1, memory_order_acq_rel) != 1)
    return;
  pthread_cond_destroy(&queue->changed);
  pthread_mutex_destroy(&queue->lock);
  tn__free(queue->env, queue->name);
  tn__free(queue->env, queue);
}

tn__fence *tn__fence_retain(tn__fence *f) {
  atomic_fetch_add_explicit(&f->n_owners, 1, memory_order_relaxed);
  return f;
}

/* The queue's lock is held. */
static void drop_point(tn__fence *f) {
  if (f->point != NULL) f->queue->ops->drop(f->point);
  f->point = NULL;
}

/* Releases the fence and returns true, unless this is the last owner. */
static bool release_unless_last(tn__fence *f) {
  int64_t n = atomic_load_explicit(&f->n_owners, memory_order_relaxed);
  while (n > 1)
    if (atomic_compare_exchange_weak_explicit(&f->n_owners, &n, n - 1,
                                              memory_order_acq_rel,
                                              memory_order_relaxed))
      return true;
  return false;
}

void tn__fence_release(tn__fence *f) {
  tn__queue *queue = f->queue;
  if (release_unless_last(f)) return;
  pthread_mutex_lock(&queue->lock);
  if (atomic_fetch_sub_explicit(&f->n_owners, 1, memory_order_acq_rel) != 1) {
    pthread_mutex_unlock(&queue->lock);
    return;
  }
  if (f->before != NULL)
    f->before->next = f->next;
  else
    queue->fences = f->next;
  if (f->next != NULL) f->next->before = f->before;
  drop_point(f);
  pthread_mutex_unlock(&queue->lock);
  tn__error_release(f->error);
  tn__free(queue->env, f);
  tn__queue_release(queue);
}

/* True if the device reports a failure for the fence. */
static bool has_failed(const tn__fence *f) {
  bool done = false;
  return !tn__fence_is_done(f) && f->point != NULL &&
         f->queue->ops->query(f->point, &done) != TN_OK;
}

/* Puts the names of the possible culprits before the error text. The first
 * failure of a queue is between the oldest fence that fails and this one; later
 * failures are its consequences. The queue's lock is held. */
static tn_code name_culprit(const tn__fence *f, tn_code code) {
  tn__queue *queue = f->queue;
  char text[TN__ERROR_MAX];
  const tn__fence *oldest = f;
  (void)snprintf(text, sizeof text, "%s", tn_error_text());
  if (queue->culprit[0] == '\0') {
    for (const tn__fence *each = f->next; each != NULL; each = each->next)
      if (has_failed(each)) oldest = each;
    const char *last = f->last[0] != '\0' || oldest == f ? f->last : f->name;
    (void)snprintf(queue->culprit, sizeof queue->culprit, "%s%s%s",
                   oldest->name, last[0] != '\0' ? " .. " : "", last);
  }
  (void)tn__fail(code, "%s", text);
  return tn__error_add_name(code, queue->culprit);
}

/* The queue's lock is held. The caller is an owner, so that the queue is not
 * the last one. */
static void finish_fence(tn__fence *f, tn_code code) {
  if (tn__fence_is_done(f)) return;
  if (f->queue->newest == f) {
    f->queue->newest = NULL;
    atomic_fetch_sub_explicit(&f->n_owners, 1, memory_order_relaxed);
  }
  if (code == TN_OK) f->queue->culprit[0] = '\0';
  if (code != TN_OK) {
    f->error = tn__error_create(f->queue->engine, name_culprit(f, code));
    tn__error_announce_again(f->queue->engine, f->error);
  }
  atomic_store_explicit(&f->done, 1, memory_order_release);
}

/* Records the pending fence after all work that is enqueued so far. The queue's
 * lock is held. The caller releases the returned fence once it has released the
 * lock. */
static tn__fence *record_pending(tn__queue *queue) {
  tn__fence *f = queue->pending, *old = queue->newest;
  const bool requested = queue->requested != 0;
  queue->pending = NULL;
  queue->requested = 0;
  f->pending = false;
  f->number = ++queue->n_fences;
  const tn_code code = queue->ops->record(queue->ctx, &f->point);
  if (code == TN_OK) queue->newest = f;
  if (code != TN_OK) finish_fence(f, code);
  if (requested) pthread_cond_broadcast(&queue->changed);
  return code == TN_OK ? old : f;
}

void tn__fence_record_pending(tn__queue *queue) {
  if (queue->pending == NULL) return;
  pthread_mutex_lock(&queue->lock);
  tn__fence *rest = record_pending(queue);
  pthread_mutex_unlock(&queue->lock);
  if (rest != NULL) tn__fence_release(rest);
}

void tn__queues_record_pending(void) {
  for (tn__queue *each = tn__draining; each != NULL; each = each->outer)
    tn__fence_record_pending(each);
}

/* Waits until the thread that drains the queue has recorded the fence; no other
 * thread may enqueue. First records the pending fences of this thread, since
 * that thread may wait for them. The queue's lock is held, and released
 * meanwhile. */
static void await_pending(tn__fence *f) {
  tn__queue *queue = f->queue;
  if (!f->pending) return;
  queue->requested = 1;
  pthread_mutex_unlock(&queue->lock);
  tn__queues_record_pending();
  const uint64_t begin = tn__now();
  while (f->pending && tn__now() - begin < SPIN_NS) tn__cpu_relax();
  pthread_mutex_lock(&queue->lock);
  while (f->pending) {
    queue->requested = 1;
    pthread_cond_wait(&queue->changed, &queue->lock);
  }
}

bool tn__fence_query(tn__fence *f) {
  tn__queue *queue = f->queue;
  if (tn__fence_is_done(f)) return true;
  pthread_mutex_lock(&queue->lock);
  if (f->pending) {
    queue->requested = 1;
  } else if (!tn__fence_is_done(f)) {
    bool done = false;
    const tn_code code = queue->ops->query(f->point, &done);
    if (done || code != TN_OK) finish_fence(f, code);
  }
  pthread_mutex_unlock(&queue->lock);
  return tn__fence_is_done(f);
}

/* The queue's lock is held, and released meanwhile. */
static void block_locked(tn__fence *f) {
  tn__queue *queue = f->queue;
  ++f->n_blocked;
  pthread_mutex_unlock(&queue->lock);
  const tn_code code = queue->ops->block(f->point);
  pthread_mutex_lock(&queue->lock);
  finish_fence(f, code);
  if (--f->n_blocked == 0) pthread_cond_broadcast(&queue->changed);
}

void tn__fence_block(tn__fence *f) {
  tn__queue *queue = f->queue;
  pthread_mutex_lock(&queue->lock);
  await_pending(f);
  if (!tn__fence_is_done(f)) block_locked(f);
  pthread_mutex_unlock(&queue->lock);
}

tn_code tn__fence_wait_on_device(tn__queue *queue, tn__fence *f) {
  tn_code code = TN_OK;
  if (queue->ops != f->queue->ops) return TN_UNSUPPORTED;
  tn__fence_record_pending(queue);
  pthread_mutex_lock(&f->queue->lock);
  await_pending(f);
  if (!tn__fence_is_done(f)) code = queue->ops->wait(queue->ctx, f->point);
  pthread_mutex_unlock(&f->queue->lock);
  return code;
}

tn_code tn__fence_record(tn__queue *queue, const char *name, void **point,
                         tn__fence **out) {
  tn__fence *old = NULL;
  *out = NULL;
  pthread_mutex_lock(&queue->lock);
  const tn_code code = queue->ops->record(queue->ctx, point);
  if (code == TN_OK && (*out = create_fence(queue, *point, name)) != NULL) {
    old = queue->newest;
    queue->newest = tn__fence_retain(*out);
  }
  pthread_mutex_unlock(&queue->lock);
  if (old != NULL) tn__fence_release(old);
  return code;
}

tn__fence *tn__fence_share(tn__queue *queue, const char *name) {
  tn__fence *rest = NULL;
  pthread_mutex_lock(&queue->lock);
  tn__fence *f = queue->pending;
  if (f != NULL) {
    ++f->n_shared;
    set_name(f->last, name);
  } else if (queue == tn__draining &&
             (f = create_fence(queue, NULL, name)) != NULL) {
    f->pending = true;
    queue->pending = f;
  }
  if (f != NULL) {
    (void)tn__fence_retain(f);
    if (f->n_shared == SHARED_MAX || queue->requested != 0)
      rest = record_pending(queue);
  }
  pthread_mutex_unlock(&queue->lock);
  if (rest != NULL) tn__fence_release(rest);
  return f;
}

tn__fence *tn__fence_newest(tn__queue *queue, bool pending) {
  pthread_mutex_lock(&queue->lock);
  tn__fence *f =
      pending && queue->pending != NULL ? queue->pending : queue->newest;
  if (f != NULL) (void)tn__fence_retain(f);
  pthread_mutex_unlock(&queue->lock);
  return f;
}

void tn__fence_await(tn__fence *f) {
  tn__fence_block(f);
  tn__fence_release(f);
}

/* --------------------------------------------------------------------- end */

static tn__fence *find_busy(const tn__queue *queue) {
  for (tn__fence *f = queue->fences; f != NULL; f = f->next)
    if (!tn__fence_is_done(f) || f->n_blocked != 0) return f;
  return NULL;
}

void tn__fence_finish_all(tn__queue *queue) {
  tn__fence *f;
  pthread_mutex_lock(&queue->lock);
  while ((f = find_busy(queue)) != NULL) {
    tn__fence_retain(f);
    if (!tn__fence_is_done(f)) block_locked(f);
    while (f->n_blocked != 0) pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    tn__fence_release(f);
    pthread_mutex_lock(&queue->lock);
  }
  for (f = queue->fences; f != NULL; f = f->next) drop_point(f);
  queue->ending = 1;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  if (queue->watching != 0) pthread_join(queue->watcher, NULL);
}
