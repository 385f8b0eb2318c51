/* SPDX-License-Identifier: Apache-2.0
 * fence.c: what devices still do with a variable when the operations that asked
 * for it are complete. A variable carries the fence of its last writer and of
 * the readers since; its list changes under the variable's LOCK, and a fence
 * that is found done leaves it. Host tokens that have to wait for a fence are
 * parked with the watcher of the fence's queue, a thread that blocks for them.
 *
 * A device that fails at an operation is expected to fail at every later fence
 * of that queue: what is written on a queue carries only its newest fence. Of
 * what another queue made the queue waits for, the queue's own fence says
 * nothing, so the variable carries that one's fence as well: its *doubts*. What
 * is told is the operation of the oldest fence that fails: all that is known
 * of a device that fails late, and says at all fences that it has failed.
 *
 * Recording a fence takes a device a quarter of the time that a launch takes.
 * So small operations that follow one another on a queue share one, which is
 * *due* until somebody asks for it, or enough share it, or what follows is not
 * small, or nothing follows: whose fence it is then stands further behind than
 * need be, by small operations only.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "pool.h"

enum { PAUSE_MIN_NS = 15625, PAUSE_MAX_NS = 1000000, NAME = 64 };
enum { DOUBTS = 16 };     /* of other queues; what is beyond is waited for */
enum { SHARED = 16 };     /* operations with one fence */
enum { LOOK_NS = 20000 }; /* before a thread sleeps until one is recorded */

/* A point in a queue, held by all variables that the operations before it used,
 * and by whoever looks at it. */
typedef struct tn__fence {
  _Atomic int64_t n_owners;
  tn__queue *queue;
  void *point; /* the device's; NULL when dropped, or due */
  tn__error *error;
  _Atomic uint32_t done; /* then `error` is what came out of it */
  uint32_t n_blocked;    /* threads that are inside of ops->block */
  uint32_t n_shared;     /* operations that share it */
  _Atomic bool due;      /* it is yet to be recorded */
  uint64_t number;       /* rises along the queue */
  char name[NAME];       /* of the operation before it, or its beginning */
  char last[NAME];       /* of the last one that shares it, or "" */
  struct tn__fence *next;
  struct tn__fence *before;
} fence;

/* One fence on one variable. */
typedef struct tn__fences {
  struct tn__fences *next;
  fence *fence;
  uint64_t serial; /* falls along the list */
  uint32_t mode;   /* TN__READ, or any of the writers' */
  uint32_t doubt;  /* the writer's queue waits for it */
} mark;

/* ------------------------------------------------------------- a fence itself
 */

static void set_name(char to[NAME], const char *name) {
  const size_t n = name != NULL ? strnlen(name, NAME - 1) : 0;
  memcpy(to, n > 0 ? name : "", n);
  to[n] = '\0';
}

/* Takes the point over. NULL: no memory. The queue's lock is held. */
static fence *create(tn__queue *queue, void *point, const char *name) {
  fence *f = tn__alloc(queue->env, sizeof *f);
  if (f == NULL) return NULL;
  *f = (fence){.n_owners = 1,
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

static fence *retain(fence *f) {
  atomic_fetch_add_explicit(&f->n_owners, 1, memory_order_relaxed);
  return f;
}

/* The queue's lock is held. */
static void drop_point(fence *f) {
  if (f->point != NULL) f->queue->ops->drop(f->point);
  f->point = NULL;
}

/* False if it is the last owner. */
static bool release_shared(fence *f) {
  int64_t n = atomic_load_explicit(&f->n_owners, memory_order_relaxed);
  while (n > 1)
    if (atomic_compare_exchange_weak_explicit(&f->n_owners, &n, n - 1,
                                              memory_order_acq_rel,
                                              memory_order_relaxed))
      return true;
  return false;
}

/* The last owner goes under the queue's lock: what stands in the queue's list
 * has an owner, and tn__fence_finish may become another one. */
static void release(fence *f) {
  tn__queue *queue = f->queue;
  if (release_shared(f)) return;
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

static bool is_done(const fence *f) {
  return atomic_load_explicit(&f->done, memory_order_acquire) != 0;
}

/* Whether the device fails at it. */
static bool fails(const fence *f) {
  bool done = false;
  return !is_done(f) && f->point != NULL &&
         f->queue->ops->query(f->point, &done) != TN_OK;
}

/* Puts in front of the error text where it is from: the first failure of a
 * queue is between the oldest fence that fails and this one; others are its
 * echo. The queue's lock is held. */
static tn_code blame(const fence *f, tn_code code) {
  tn__queue *queue = f->queue;
  char text[TN__ERROR_MAX];
  const fence *oldest = f;
  (void)snprintf(text, sizeof text, "%s", tn_error_text());
  if (queue->culprit[0] == '\0') {
    for (const fence *each = f->next; each != NULL; each = each->next)
      if (fails(each)) oldest = each;
    const char *last = f->last[0] != '\0' || oldest == f ? f->last : f->name;
    (void)snprintf(queue->culprit, sizeof queue->culprit, "%s%s%s",
                   oldest->name, last[0] != '\0' ? " .. " : "", last);
  }
  (void)tn__fail(code, "%s", text);
  return tn__error_sign(code, queue->culprit);
}

/* The queue's lock is held, and the caller is an owner, so that the queue is
 * not the last. */
static void finish(fence *f, tn_code code) {
  if (is_done(f)) return;
  if (f->queue->newest == f) {
    f->queue->newest = NULL;
    atomic_fetch_sub_explicit(&f->n_owners, 1, memory_order_relaxed);
  }
  if (code == TN_OK) f->queue->culprit[0] = '\0';
  if (code != TN_OK) {
    f->error = tn__error_create(f->queue->engine, blame(f, code));
    tn__error_announce_again(f->queue->engine, f->error);
  }
  atomic_store_explicit(&f->done, 1, memory_order_release);
}

/* The fence that is due, behind all that was enqueued so far. The queue's lock
 * is held; what comes back is released when it has been given up. */
static fence *record_due(tn__queue *queue) {
  fence *f = queue->due, *old = queue->newest;
  const bool asked = queue->asked != 0;
  queue->due = NULL;
  queue->asked = 0;
  f->due = false;
  f->number = ++queue->n_fences;
  const tn_code code = queue->ops->record(queue->ctx, &f->point);
  if (code == TN_OK) queue->newest = f;
  if (code != TN_OK) finish(f, code);
  if (asked) pthread_cond_broadcast(&queue->changed);
  return code == TN_OK ? old : f;
}

void tn__fence_due(tn__queue *queue) {
  if (queue->due == NULL) return;
  pthread_mutex_lock(&queue->lock);
  fence *rest = record_due(queue);
  pthread_mutex_unlock(&queue->lock);
  if (rest != NULL) release(rest);
}

void tn__queues_due(void) {
  for (tn__queue *each = tn__draining; each != NULL; each = each->outer)
    tn__fence_due(each);
}

/* Until it is recorded, by the thread that drains the queue: nobody else may
 * enqueue. What this thread itself has due goes first: its queue's thread may
 * wait for that. The queue's lock is held, and given up meanwhile. */
static void await_due(fence *f) {
  tn__queue *queue = f->queue;
  if (!f->due) return;
  queue->asked = 1;
  pthread_mutex_unlock(&queue->lock);
  tn__queues_due();
  const uint64_t begin = tn__now();
  while (f->due && tn__now() - begin < LOOK_NS) tn__relax();
  pthread_mutex_lock(&queue->lock);
  while (f->due) {
    queue->asked = 1;
    pthread_cond_wait(&queue->changed, &queue->lock);
  }
}

/* Asks whether it is done. */
static bool query(fence *f) {
  tn__queue *queue = f->queue;
  if (is_done(f)) return true;
  pthread_mutex_lock(&queue->lock);
  if (f->due) {
    queue->asked = 1;
  } else if (!is_done(f)) {
    bool done = false;
    const tn_code code = queue->ops->query(f->point, &done);
    if (done || code != TN_OK) finish(f, code);
  }
  pthread_mutex_unlock(&queue->lock);
  return is_done(f);
}

/* The queue's lock is held, and given up meanwhile. */
static void block_locked(fence *f) {
  tn__queue *queue = f->queue;
  ++f->n_blocked;
  pthread_mutex_unlock(&queue->lock);
  const tn_code code = queue->ops->block(f->point);
  pthread_mutex_lock(&queue->lock);
  finish(f, code);
  if (--f->n_blocked == 0) pthread_cond_broadcast(&queue->changed);
}

static void block(fence *f) {
  tn__queue *queue = f->queue;
  pthread_mutex_lock(&queue->lock);
  await_due(f);
  if (!is_done(f)) block_locked(f);
  pthread_mutex_unlock(&queue->lock);
}

/* Makes another queue wait for it, on the device; its own fence stands in front
 * of that. What another kind of device means by a fence, this one cannot know.
 */
static tn_code wait_on_device(tn__queue *queue, fence *f) {
  tn_code code = TN_OK;
  if (queue->ops != f->queue->ops) return TN_UNSUPPORTED;
  tn__fence_due(queue);
  pthread_mutex_lock(&f->queue->lock);
  await_due(f);
  if (!is_done(f)) code = queue->ops->wait(queue->ctx, f->point);
  pthread_mutex_unlock(&f->queue->lock);
  return code;
}

/* -------------------------------------------------------- marks on variables
 */

static uint64_t lock(tn__var *var) {
  for (uint32_t n = 1;; ++n) {
    uint64_t word = atomic_load_explicit(&var->word, memory_order_relaxed);
    if ((word & TN__VAR_LOCK) == 0 &&
        atomic_compare_exchange_weak_explicit(
            &var->word, &word, word | TN__VAR_LOCK, memory_order_acq_rel,
            memory_order_relaxed))
      return word;
    if (n % 64 == 0) sched_yield();
    tn__relax();
  }
}

static void unlock(tn__var *var, uint64_t word) {
  word &= ~(TN__VAR_LOCK | TN__VAR_FENCE);
  if (var->fence != NULL) word |= TN__VAR_FENCE;
  atomic_store_explicit(&var->word, word, memory_order_release);
}

/* Moves a mark from where it stands to a list of those to be freed. */
static void unlink_mark(mark **at, mark **gone) {
  mark *m = *at;
  *at = m->next;
  m->next = *gone;
  *gone = m;
}

static void free_marks(mark *gone) {
  while (gone != NULL) {
    mark *next = gone->next;
    const tn__env *env = gone->fence->queue->env;
    release(gone->fence);
    tn__free(env, gone);
    gone = next;
  }
}

/* The failure of the device at what was to be written. LOCK is held. */
static uint64_t put_error(tn__var *var, uint64_t word, const mark *m) {
  if (m->mode == TN__READ || m->fence->error == NULL ||
      (word & TN__VAR_ERROR) != 0)
    return word;
  var->error = tn__error_retain(m->fence->error);
  return word | TN__VAR_ERROR;
}

/* What a look at a variable is about. While it goes on, marks that concern it
 * may vanish at any time, since others find them done, but none is added. */
typedef struct look {
  uint64_t below;          /* only serials below this one */
  uint64_t found;          /* the serial of what was found */
  const tn__queue *except; /* not of this queue, or NULL */
  const tn__queue *only;   /* of this queue only, or NULL */
  uint32_t mode;           /* of the use: a reader minds writers only */
  uint32_t no_doubts;      /* who waits for the writer waits for them */
} look;

static look look_for(uint32_t mode) {
  return (look){.mode = mode, .below = UINT64_MAX};
}

static bool concerns(const look *l, const mark *m) {
  if (l->mode == TN__READ && m->mode == TN__READ) return false;
  if (l->no_doubts && m->doubt) return false;
  return m->serial < l->below && m->fence->queue != l->except &&
         (l->only == NULL || m->fence->queue == l->only);
}

/* A fence that is not known to be done, which the caller releases; or NULL. */
static fence *find(tn__var *var, look *l) {
  mark *gone = NULL;
  fence *found = NULL;
  uint64_t word = lock(var);
  for (mark **at = &var->fence; *at != NULL && found == NULL;) {
    mark *m = *at;
    if (is_done(m->fence)) {
      word = put_error(var, word, m);
      unlink_mark(at, &gone);
      continue;
    }
    if (concerns(l, m)) {
      found = retain(m->fence);
      l->found = m->serial;
    }
    at = &m->next;
  }
  unlock(var, word);
  free_marks(gone);
  return found;
}

/* Those that the mark makes unnecessary. LOCK is held. */
static void unlink_older(tn__var *var, const mark *m, mark **gone) {
  for (mark **at = &var->fence; *at != NULL;) {
    const mark *old = *at;
    if (m->mode != TN__READ ||
        (old->mode == TN__READ && old->fence->queue == m->fence->queue))
      unlink_mark(at, gone);
    else
      at = &(*at)->next;
  }
}

/* Whether the variable has its mark already, from an operation before that
 * shares it. */
static bool has(tn__var *var, uint32_t mode, const fence *f) {
  const uint64_t word = lock(var);
  const mark *m = var->fence;
  const bool there = m != NULL && m->fence == f && !m->doubt &&
                     (mode == TN__READ || m->mode != TN__READ);
  unlock(var, word);
  return there;
}

static void add(tn__var *var, uint32_t mode, fence *f, bool doubt) {
  mark *gone = NULL;
  if (!doubt && f->n_shared > 1 && has(var, mode, f)) return;
  mark *m = tn__alloc(f->queue->env, sizeof *m);
  if (m == NULL) { /* It need not be remembered if it is done. */
    block(f);
    if (f->error != NULL && mode != TN__READ) tn__error_put(var, f->error);
    return;
  }
  *m = (mark){.fence = retain(f), .mode = mode, .doubt = doubt};
  const uint64_t word = lock(var);
  if (!doubt) unlink_older(var, m, &gone);
  m->next = var->fence;
  m->serial = m->next != NULL ? m->next->serial + 1 : 1;
  var->fence = m;
  unlock(var, word);
  free_marks(gone);
}

void tn__fence_drop(tn__var *var) {
  const uint64_t word = lock(var);
  mark *gone = var->fence;
  var->fence = NULL;
  unlock(var, word);
  free_marks(gone);
}

/* Devices know no wait that ends before the fence is done, and call nobody when
 * it is: up to a deadline they are asked again and again, with pauses that grow
 * to a millisecond, which is how late the answer may come. */
static bool await_done(fence *f, uint64_t deadline) {
  if (deadline == TN__FOREVER) block(f);
  for (uint64_t pause = PAUSE_MIN_NS; !query(f);) {
    const uint64_t now = tn__now();
    if (now >= deadline) return false;
    const uint64_t left = deadline - now;
    tn__futex_wait(&f->done, 0, now + (pause < left ? pause : left));
    if (pause < PAUSE_MAX_NS) pause *= 2;
  }
  return true;
}

bool tn__fence_wait(tn__var *var, uint32_t what, uint64_t deadline) {
  look l = look_for(what == TN__WAIT_ALL ? TN__UPDATE : TN__READ);
  fence *f;
  bool done = true;
  while (done && (f = find(var, &l)) != NULL) {
    done = await_done(f, deadline);
    release(f);
  }
  return done;
}

/* ------------------------------------------------------------------- parking
 */

/* Blocks for what of this queue a token waits for. */
static void watch(tn__queue *queue, tn__token *token) {
  for (uint32_t i = 0; i < token->n_links; ++i) {
    look l = look_for(token->links[i].mode);
    l.only = queue;
    fence *f;
    while ((f = find(token->links[i].var, &l)) != NULL) {
      block(f);
      release(f);
    }
  }
  tn__token_ready(token);
}

static void *run_watcher(void *arg) {
  tn__queue *queue = arg;
  pthread_mutex_lock(&queue->lock);
  while (queue->parked != NULL || queue->ending == 0) {
    tn__token *token = queue->parked;
    if (token == NULL) {
      pthread_cond_wait(&queue->changed, &queue->lock);
      continue;
    }
    queue->parked = token->next;
    if (queue->parked == NULL) queue->parked_end = &queue->parked;
    pthread_mutex_unlock(&queue->lock);
    watch(queue, token);
    pthread_mutex_lock(&queue->lock);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* False: there is no thread that could watch. */
static bool park(tn__token *token, tn__queue *queue) {
  pthread_mutex_lock(&queue->lock);
  if (queue->watching == 0 && queue->engine->pool != NULL &&
      tn__thread_create(&queue->watcher, run_watcher, queue))
    queue->watching = 1;
  const bool watching = queue->watching != 0;
  if (watching) {
    token->next = NULL;
    *queue->parked_end = token;
    queue->parked_end = &token->next;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->lock);
  return watching;
}

/* Lets the token's queue wait on the device; false: the host has to. */
static bool wait_in_queue(tn__token *token, tn__var *var, fence *f) {
  if (token->queue == NULL) return false;
  const tn_code code = wait_on_device(token->queue, f);
  if (code == TN_UNSUPPORTED) return false;
  if (code != TN_OK) {
    tn__error *error = tn__error_create(token->engine, code);
    tn__error_announce(token->engine, error);
    uint64_t word = lock(var);
    if ((word & TN__VAR_ERROR) == 0) {
      var->error = tn__error_retain(error);
      word |= TN__VAR_ERROR;
    }
    unlock(var, word);
    tn__error_release(error);
    token->flags |= TN__TOKEN_LOST;
  }
  return true;
}

/* True: parked. */
static bool before_use(tn__token *token, const tn__link *link) {
  look l = look_for(link->mode);
  l.except = token->queue;
  l.no_doubts = token->queue != NULL;
  fence *f;
  while ((f = find(link->var, &l)) != NULL) {
    bool parked = false;
    if (!query(f)) {
      if (wait_in_queue(token, link->var, f))
        l.below = l.found;
      else if (!(parked = park(token, f->queue)))
        block(f);
    }
    release(f);
    if (parked) return true;
  }
  return false;
}

bool tn__fence_before(tn__token *token) {
  if (token->queue != NULL && (token->flags & TN__JOB_SMALL) == 0)
    tn__fence_due(token->queue);
  for (uint32_t i = 0; i < token->n_links; ++i)
    if ((atomic_load_explicit(&token->links[i].var->word,
                              memory_order_acquire) &
         TN__VAR_FENCE) != 0 &&
        before_use(token, &token->links[i]))
      return true;
  return false;
}

/* -------------------------------------------------------------------- doubts
 */

/* The newest fence of each other queue that may yet fail, and with it what an
 * operation makes of what was made there; and a failure that is known. */
typedef struct doubts {
  fence *v[DOUBTS];
  uint32_t n;
  tn__error *error; /* or NULL */
} doubts;

static void doubt_known(doubts *d, tn__error *error) {
  if (d->error == NULL && error != NULL) d->error = tn__error_retain(error);
}

/* Takes the fence over. */
static void doubt_add(doubts *d, fence *f) {
  uint32_t i = 0;
  while (i < d->n && d->v[i]->queue != f->queue) ++i;
  if (i == DOUBTS) block(f);
  if (is_done(f)) {
    doubt_known(d, f->error);
    release(f);
  } else if (i == d->n) {
    d->v[d->n++] = f;
  } else if (d->v[i]->number < f->number) {
    release(d->v[i]);
    d->v[i] = f;
  } else {
    release(f);
  }
}

/* Of all that the operation reads. */
static void doubts_find(const tn__token *token, doubts *d) {
  *d = (doubts){.n = 0};
  if ((token->flags & TN__JOB_ALWAYS) != 0) return;
  for (uint32_t i = 0; i < token->n_links; ++i) {
    tn__var *var = token->links[i].var;
    look l = look_for(TN__READ);
    l.except = token->queue;
    fence *f;
    if (token->links[i].mode == TN__OVERWRITE) continue;
    while ((f = find(var, &l)) != NULL) {
      l.below = l.found;
      doubt_add(d, f);
    }
    if ((atomic_load_explicit(&var->word, memory_order_acquire) &
         TN__VAR_ERROR) != 0)
      doubt_known(d, var->error);
  }
}

/* What a fence that is done has waited for is done too. */
static void doubts_settle(doubts *d) {
  for (uint32_t i = 0; i < d->n; ++i) {
    block(d->v[i]);
    doubt_known(d, d->v[i]->error);
  }
}

/* Onto all that the operation writes. */
static void doubts_put(const tn__token *token, const doubts *d) {
  for (uint32_t i = 0; i < token->n_links; ++i) {
    const tn__link *link = &token->links[i];
    if (link->mode == TN__READ) continue;
    for (uint32_t k = 0; k < d->n; ++k)
      add(link->var, TN__UPDATE, d->v[k], true);
    if (d->error != NULL) tn__error_put(link->var, d->error);
  }
}

static void doubts_release(doubts *d) {
  for (uint32_t i = 0; i < d->n; ++i) release(d->v[i]);
  tn__error_release(d->error);
}

/* --------------------------------------------------------------------- after
 */

/* The queue keeps the newest, for those who wait for everything: asynchronous
 * jobs may record theirs at the same time. *out is NULL if there is no memory,
 * and then *point the caller's. */
static tn_code record(tn__queue *queue, const char *name, void **point,
                      fence **out) {
  fence *old = NULL;
  *out = NULL;
  pthread_mutex_lock(&queue->lock);
  const tn_code code = queue->ops->record(queue->ctx, point);
  if (code == TN_OK && (*out = create(queue, *point, name)) != NULL) {
    old = queue->newest;
    queue->newest = retain(*out);
  }
  pthread_mutex_unlock(&queue->lock);
  if (old != NULL) release(old);
  return code;
}

/* The fence that is due, for one more operation, or a new one. NULL: there is
 * no memory, or nobody who would record it in the end. */
static fence *share(tn__queue *queue, const char *name) {
  fence *rest = NULL;
  pthread_mutex_lock(&queue->lock);
  fence *f = queue->due;
  if (f != NULL) {
    ++f->n_shared;
    set_name(f->last, name);
  } else if (queue == tn__draining && (f = create(queue, NULL, name)) != NULL) {
    f->due = true;
    queue->due = f;
  }
  if (f != NULL) {
    (void)retain(f);
    if (f->n_shared == SHARED || queue->asked != 0) rest = record_due(queue);
  }
  pthread_mutex_unlock(&queue->lock);
  if (rest != NULL) release(rest);
  return f;
}

/* Onto all variables. */
static void fence_put(const tn__token *token, fence *f) {
  for (uint32_t i = 0; i < token->n_links; ++i)
    add(token->links[i].var, token->links[i].mode, f, false);
  release(f);
}

/* A fence behind all that was enqueued, on all variables. */
static tn_code fence_off(tn__token *token) {
  tn__queue *queue = token->queue;
  const uint32_t how = token->flags & (TN__JOB_SMALL | TN__JOB_ASYNC);
  void *point = NULL;
  fence *f = how == TN__JOB_SMALL ? share(queue, token->name) : NULL;
  doubts d;
  if (f == NULL) TN__TRY(record(queue, token->name, &point, &f));
  tn_code code = TN_OK;
  doubts_find(token, &d);
  if (f != NULL) {
    fence_put(token, f);
  } else {
    code = queue->ops->block(point);
    queue->ops->drop(point);
    doubts_settle(&d);
  }
  doubts_put(token, &d);
  doubts_release(&d);
  return code;
}

tn_code tn__fence_after(tn__token *token, tn_code code) {
  char text[TN__ERROR_MAX];
  if (code == TN_OK) return fence_off(token);
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  (void)fence_off(token);
  return tn__fail(code, "%s", text);
}

fence *tn__fence_newest(tn__queue *queue, bool due) {
  pthread_mutex_lock(&queue->lock);
  fence *f = due && queue->due != NULL ? queue->due : queue->newest;
  if (f != NULL) (void)retain(f);
  pthread_mutex_unlock(&queue->lock);
  return f;
}

void tn__fence_await(fence *f) {
  block(f);
  release(f);
}

/* ----------------------------------------------------------------- the end */

static fence *find_busy(const tn__queue *queue) {
  for (fence *f = queue->fences; f != NULL; f = f->next)
    if (!is_done(f) || f->n_blocked != 0) return f;
  return NULL;
}

void tn__fence_finish(tn__queue *queue) {
  fence *f;
  pthread_mutex_lock(&queue->lock);
  while ((f = find_busy(queue)) != NULL) {
    retain(f);
    if (!is_done(f)) block_locked(f);
    while (f->n_blocked != 0) pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    release(f);
    pthread_mutex_lock(&queue->lock);
  }
  for (f = queue->fences; f != NULL; f = f->next) drop_point(f);
  queue->ending = 1;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  if (queue->watching != 0) pthread_join(queue->watcher, NULL);
}
