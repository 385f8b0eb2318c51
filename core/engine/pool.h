/* SPDX-License-Identifier: Apache-2.0
 * pool.h: worker threads, what is ready to run, and sleeping. Inside
 * core/engine only.
 *
 * A ready token goes to the deque of the worker that made it ready, or, from
 * any other thread, to the shared list; tokens with a priority to a heap that
 * is asked first (above 0) or last (below). A worker takes its own newest, then
 * from the heap and the shared list, then what is posted, if the engine has a
 * post and nobody else is at it, then steals the oldest of another. One that
 * finds nothing looks around for TN__LOOK_NS and then sleeps. Waking costs more
 * than most functions, so one sleeper is woken at a time, and it wakes the next
 * if it finds more than it can do.
 *
 * Who finds a loop while it looks around will look twice as long the next time,
 * up to TN__LOOK_MOST_NS, and who finds nothing for so long is back at
 * TN__LOOK_NS: between two short loops a thread is not put to sleep, while
 * loops that have ended cost no more than one long look of each worker. Beyond
 * TN__LOOK_NS one worker fewer looks around than there are, because a loop has
 * no use for the last one: its caller is there as well.
 *
 * With more threads than processors, as where all workers and a thread that
 * waits are at work, one that looks around may have no processor, and keeps
 * others asleep as it seems to be about to come. So it sleeps when it finds
 * that it was kept waiting, and a loop that nobody came into calls again.
 */
#ifndef TENON_POOL_H_
#define TENON_POOL_H_

#include <fenv.h>
#include <pthread.h>

#include "order.h"

typedef struct tn__pool tn__pool;

/* What a worker takes from a deque: a token (`range` 0), or those steps of a
 * schedule's run that `range` stands for. */
typedef struct tn__work {
  void *of;
  uint64_t range;
} tn__work;

/* -------------------------------------------------------------- deque.c */

/* One owner pushes and takes at the bottom, others steal at the top. */
typedef struct tn__deque {
  _Alignas(64) _Atomic int64_t top;
  _Alignas(64) _Atomic int64_t bottom;
  _Atomic(struct tn__ring *) ring;
  const tn__env *env;
} tn__deque;

tn_code tn__deque_init(tn__deque *deque, const tn__env *env);
void tn__deque_deinit(tn__deque *deque);
/* False if it is full and there is no memory to grow. */
bool tn__deque_push(tn__deque *deque, tn__work work);
/* Tokens, fewer than 256, of which the first will be taken first: all or none.
 */
bool tn__deque_push_all(tn__deque *deque, tn__token **tokens, uint32_t n);
bool tn__deque_take(tn__deque *deque, tn__work *out);
bool tn__deque_steal(tn__deque *deque, tn__work *out); /* or lost a race */

static inline bool tn__deque_empty(tn__deque *deque) {
  return atomic_load_explicit(&deque->bottom, memory_order_seq_cst) <=
         atomic_load_explicit(&deque->top, memory_order_seq_cst);
}

/* ------------------------------------------------------------- shared.c */

/* What the one end writes, the other only reads. */
typedef struct tn__shared {
  _Alignas(64) _Atomic uint32_t pushing; /* a lock, as `taking` */
  uint32_t reserved;
  _Atomic uint64_t end; /* counts those ever put into the ring */
  uint64_t known;       /* of `begin`, by who pushes */
  tn__token **ring;     /* this and `capacity` change under both locks */
  uint64_t capacity;
  _Alignas(64) _Atomic uint32_t taking;
  uint32_t reserved_2;
  _Atomic uint64_t begin; /* those ever taken out of it */
  tn__token *list;        /* those that it had no room for */
  _Atomic size_t n_list;
} tn__shared;

void tn__shared_push(tn__shared *shared, const tn__env *env, tn__token *token);
/* Takes up to `max`, the oldest first; how many. */
uint32_t tn__shared_take(tn__shared *shared, tn__token **out, uint32_t max);
/* At any time, in one order with the pushes. */
bool tn__shared_empty(tn__shared *shared);
void tn__shared_deinit(tn__shared *shared, const tn__env *env);

/* --------------------------------------------------------------- pool.c */

/* A place to work from: a thread of the pool's own, or one that waits and
 * helps meanwhile (a guest). */
typedef struct tn__seat {
  tn__deque deque;
  tn__pool *pool;
  pthread_t thread;
  struct tn__seat *before; /* where a guest's thread sits in another pool */
  fenv_t floating;         /* how a guest's thread computes otherwise */
  uint32_t number;         /* from 1; guests come after the workers */
  uint32_t random;
  uint32_t looking;       /* counted in `idle` as one that looks around */
  uint32_t n_loops;       /* in which it has run slices; wraps around */
  uint32_t patience;      /* ns for which it looks around; 0: TN__LOOK_NS */
  uint64_t seen;          /* by a guest, of the post's `begin` */
  _Atomic uint32_t taken; /* of a guest's */
} tn__seat;

enum { TN__GUESTS = 4, TN__LOOPS = 64 };

/* A loop that wants hands; `state` is explained in loop.c. */
typedef struct tn__loop_slot {
  _Alignas(64) _Atomic uint32_t state;
  struct tn__loop *loop;
} tn__loop_slot;

struct tn__pool {
  tn__engine *engine;
  const tn__env *env;
  tn__seat *seats;
  uint32_t n_workers;
  uint32_t n_seats; /* workers and guests */
  pthread_mutex_t start_lock;
  _Atomic uint32_t started;
  _Atomic uint32_t stopping;
  _Atomic uint32_t n_threads; /* that the system granted */

  tn__shared shared;

  /* Who has nothing to do: in steps of TN__ASLEEP those who sleep, or are about
   * to, and of TN__LOOKING those who look around. `bell` counts wake-ups that
   * nobody has answered yet; TN__CLOSING stands on top of them while the
   * threads are to end. */
  _Alignas(64) _Atomic uint32_t idle;
  _Atomic uint32_t bell;

  _Alignas(64) pthread_mutex_t heap_lock;
  struct tn__heap_entry *heap;
  size_t n_heap, heap_capacity;
  uint64_t heap_serial;
  _Atomic int32_t highest; /* priority in the heap; INT32_MIN: it is empty */

  pthread_mutex_t loop_lock; /* of the errors of loops */
  _Atomic uint64_t missed;   /* ns of loops in a row that nobody came into */
  _Atomic uint64_t missed_at;
  _Alignas(64) _Atomic uint64_t open_loops; /* a bit for each slot */
  tn__loop_slot loops[TN__LOOPS];
};

#define TN__LOOK_NS 30000u
#define TN__LOOK_MOST_NS (8 * TN__LOOK_NS)

#define TN__ASLEEP 1u
#define TN__LOOKING 0x10000u
#define TN__CLOSING 0x80000000u

/* With at most 4096 workers; how many is left in engine->workers. */
tn_code tn__pool_create(tn__engine *engine, uint32_t workers, tn__pool **out);
/* All threads end. They start again on demand, at once if something has become
 * ready meanwhile. */
void tn__pool_stop(tn__pool *pool);
/* NULL is allowed. What is ready must have run. */
void tn__pool_destroy(tn__pool *pool);

/* Makes sure that there are threads. tn__pool_ready does it. */
void tn__pool_start(tn__pool *pool);

/* Hands over a token that may run. Never fails: without threads (the system
 * refused them) a waiting thread finds it. */
void tn__pool_ready(tn__pool *pool, tn__token *token);

/* Sleeps until *word is no longer `seen`; false when `deadline` (tn__now, or
 * TN__FOREVER) has passed. tn__pool_wake ends such sleeps after *word was
 * changed. One that waits for ever helps first. One with a deadline helps only
 * if the system has refused every thread, and what it helps with may then last
 * beyond the deadline. Without a pool (NULL) there is nothing to help with. */
bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline);
void tn__pool_wake(_Atomic uint32_t *word);

/* A thread that gets no signals: those belong to the application. */
bool tn__thread_create(pthread_t *out, void *(*run)(void *arg), void *arg);

/* The calling thread's worker number from 1 in this pool; 0: none of them. */
uint32_t tn__pool_worker(const tn__pool *pool);

/* The calling thread's seat in this pool; NULL: none. */
tn__seat *tn__pool_seat(const tn__pool *pool);

/* Whether there is something else than the post for this seat: work, or the end
 * of the threads. */
bool tn__pool_busy(tn__seat *seat);

/* There is more to do than the caller can do: wakes up to `n` sleepers, unless
 * somebody is looking around already. */
void tn__pool_call(tn__pool *pool, uint32_t n);

/* The same, whoever is looking around: nobody came, perhaps because those have
 * no processor. */
void tn__pool_call_again(tn__pool *pool, uint32_t n);

/* --------------------------------------------------------------- heap.c */

/* Tokens with a priority. Push is false if there is no memory; take is NULL if
 * there is none. */
bool tn__heap_push(tn__pool *pool, tn__token *token);
tn__token *tn__heap_take(tn__pool *pool);

/* -------------------------------------------------------------- futex.c */

/* Sleeps as long as *word is `seen`, at most until `deadline`. May return
 * early. */
void tn__futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline);
void tn__futex_wake(_Atomic uint32_t *word, uint32_t n);

static inline void tn__relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* --------------------------------------------------------------- loop.c */

/* Runs slices of a loop that wants hands and is nested deeper than `depth`;
 * false: there is none. */
bool tn__loop_help(tn__pool *pool, uint32_t depth);
/* Whether there is a loop that has room for a hand. */
bool tn__loop_wanted(tn__pool *pool);

/* --------------------------------------------------------------- plan.c */

/* A step of a schedule: a job, or a group, which is some small jobs that stand
 * next to one another in the order of the schedule and are run one after the
 * other. A small job joins the group before it if the two wait, at whatever
 * distance, for the same ones of the jobs that are not small: so no job of
 * those comes to wait for another through a group, though a small one may.
 *
 * Its jobs go from `first` up to the next step's `first`. Its successors stand
 * in `order` from `next` up to the next step's `next`: first n_free groups that
 * wait for nothing else and can be handed on as one range, then the others.
 * What waits for a successor does not stand there for this step's sake, as far
 * as that was found out. */
typedef struct tn__step {
  uint32_t next;
  uint32_t n_free;
  uint32_t first;
  uint32_t n_before;     /* predecessors */
  _Atomic uint32_t left; /* of them, in this run; nobody counts a single one */
  uint32_t spilled;      /* behind it in a list of steps to be run */
} tn__step;

/* What a job does with a variable. */
typedef struct tn__use {
  tn__var *var;
  uint32_t mode;
  uint32_t reserved;
} tn__use;

typedef struct tn__plan {
  /* n, then the end of all, then their beginning, then one that only says where
   * the beginning's successors end. */
  tn__step *steps;
  uint32_t n;
  uint32_t n_jobs;
  uint32_t *order;
  uint32_t *first_use; /* of each job, in `uses`; n_jobs + 1 */
  tn__use *uses;       /* each variable of a job once */
  tn__access *access;  /* of all jobs together, each variable once */
  uint32_t n_uses;
  uint32_t n_access;
} tn__plan;

/* Works out what depends on what, with at most `group` jobs in a group; with 0
 * only what they use, and there are no steps. The plan's memory is the arena's.
 */
tn_code tn__plan_create(tn__arena *arena, const tn__job *jobs, size_t n,
                        uint32_t group, tn__plan *out);

/* ----------------------------------------------------------- schedule.c */

/* Runs the steps of a range of `order`, and what they make ready. */
void tn__schedule_work(struct tn__schedule *schedule, uint64_t range);

/* --------------------------------------------------------------- post.c */

/* What was pushed to an engine that runs nothing on the pushing thread: records
 * in push order, in segments that are used again, and kept until the engine
 * ends. Who pushes writes behind the end, under the gate; the clerk, a worker
 * or a thread that waits, takes from the beginning (clerk.c). So nothing but
 * the records passes between the two, and a variable stays with the clerk.
 * `begin` and `end` count bytes. */
typedef struct tn__segment {
  struct tn__segment *next;
  size_t bytes;
  unsigned char data[];
} tn__segment;

typedef struct tn__post {
  tn__engine *engine;
  const tn__env *env;
  /* Under the gate. */
  _Alignas(64) unsigned char *to; /* where the next record goes */
  unsigned char *limit;           /* the end of its segment */
  tn__segment *last;
  tn__segment *empty; /* a list */
  uint64_t posted;    /* what `end` is */
  _Alignas(64) _Atomic uint64_t end;
  /* Whoever has set `taking` is the clerk; `wanted` counts those who wait to
   * set it, and whom the clerk makes way for. */
  _Alignas(64) _Atomic uint32_t taking;
  _Atomic uint32_t wanted;
  /* The clerk's. */
  _Alignas(64) _Atomic uint64_t begin; /* all below are acquired, or over */
  _Atomic uint64_t n_completed[2];     /* without a token, in each epoch */
  uint64_t known;                      /* of `end` */
  uint32_t untold; /* some were completed since who waits was told */
  uint32_t inside; /* it has posted something itself */
  unsigned char *from;
  tn__segment *first;
  _Alignas(64) _Atomic(tn__segment *) used; /* given back; a list */
} tn__post;

enum { /* tn__record.flags, beside TN__JOB_* and TN__TOKEN_* */
       TN__RECORD_NEXT = 1u << 24,  /* goes on in the next segment */
       TN__RECORD_TOKEN = 1u << 25, /* a tn__record_token */
       TN__RECORD_MORE = 1u << 26,  /* tn__record_more stands behind it */
       TN__RECORD_LINKS = 32,       /* so many find room on the clerk's stack */
       TN__SEGMENT = 32 * 1024
};

typedef struct tn__record {
  uint32_t flags;
  uint32_t n_uses;
} tn__record;

typedef struct tn__record_token {
  tn__record head;
  tn__token *token;
} tn__record_token;

typedef struct tn__record_job {
  tn__record head;
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  void (*drop)(void *arg);
  const char *name;
  uintptr_t uses[]; /* a variable's address and the mode together */
} tn__record_job;

typedef struct tn__record_more {
  tn__operation *operation; /* held, or NULL */
  tn__link *links;          /* for more than TN__RECORD_LINKS uses, or NULL */
  int64_t priority;
} tn__record_more;

tn_code tn__post_create(tn__engine *engine, tn__post **out);
void tn__post_destroy(tn__post *post); /* NULL is allowed; it is empty */

/* Posts a token that holds nothing yet; if it is of a wait it is not counted.
 * False if there is no memory: nothing has happened. */
bool tn__post_token(tn__token *token, const tn__frame *frame);

/* Lets a token on the stack of a waiting thread ask for its grants in its turn;
 * it is not counted if it is of a wait. False: the time was up, and it has
 * asked for nothing; never if the deadline is TN__FOREVER. */
bool tn__post_here(tn__token *token, uint64_t deadline);

/* Whether everything posted up to now is acquired or over, so that the words of
 * variables say what they are used for; true without a post. */
bool tn__post_settled(const tn__engine *engine);

/* -------------------------------------------------------------- clerk.c */

/* Whether there is something to take and nobody who takes it. */
bool tn__post_wanted(tn__post *post);
/* Makes this thread the clerk, if there is something to take. */
bool tn__post_take(tn__post *post);
/* Takes records, and runs what is small and has its variables for itself, until
 * there is something else to do; a guest takes a batch. Then this thread is no
 * longer the clerk. False: nothing could be taken. */
bool tn__post_serve(tn__post *post, tn__seat *seat);
/* There is a record: sees to it that somebody will take it. */
void tn__post_ring(tn__post *post);
/* Asks for the grants of a token that is counted, behind all that is posted so
 * far and without a record of its own. Before the deadline is TN__FOREVER it
 * runs no function. False: the time was up, and it has asked for nothing. */
bool tn__post_overtake(tn__token *token, uint64_t deadline);

/* -------------------------------------------------------------- queue.c */

/* A queue's own token, which the pool gets when the queue has something to do:
 * of it only `next`, `queue`, `flags` and `priority` mean something. */
enum { TN__TOKEN_DRAIN = 1 << 30 }; /* tn__token.flags */
void tn__queue_drain(tn__queue *queue);
/* What this thread drains just now, the innermost; or NULL. */
extern _Thread_local tn__queue *tn__draining
    __attribute__((tls_model("initial-exec")));

/* Counted: by its owner, and by each fence. */
struct tn__queue {
  tn__engine *engine;
  const tn__env *env;
  const tn__queue_ops *ops;
  void *ctx; /* the caller's, until tn__queue_destroy */
  char *name;
  tn__queue *older; /* in the engine's list */
  uint64_t number;  /* rises from the oldest to the newest */
  _Atomic int64_t n_owners;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t changed;
  tn__token *first; /* ready ones, in the order in which they will run */
  tn__token *last;
  tn__token drain;
  uint32_t draining;        /* `drain` is on its way, or being executed */
  uint32_t watching;        /* there is a watcher */
  uint32_t ending;          /* it is to end */
  uint32_t asked;           /* somebody wants `due` to be recorded */
  tn__queue *outer;         /* that the thread drains which drains this one */
  uint64_t n_fences;        /* that there ever were */
  struct tn__fence *fences; /* that somebody holds */
  struct tn__fence *newest; /* held until it is found done, or NULL */
  struct tn__fence *due;    /* not recorded yet, or NULL; set by the drainer */
  tn__token *parked;        /* for the watcher, oldest first */
  tn__token **parked_end;
  pthread_t watcher;
  char culprit[136]; /* where it has failed (fence.c), or "" */
};

void tn__queue_release(tn__queue *queue);

/* -------------------------------------------------------------- fence.c */

/* The newest of the queue that is recorded, or the one that is due; NULL if it
 * is done. tn__fence_await waits for it and releases it. */
struct tn__fence *tn__fence_newest(tn__queue *queue, bool due);
void tn__fence_await(struct tn__fence *fence);

/* Records the fence that small operations share, if one is due. Of the thread
 * that drains the queue. */
void tn__fence_due(tn__queue *queue);
/* Before the queue's `ctx` goes: all of its fences are done, and what belongs
 * to the device is dropped; the watcher ends. */
void tn__fence_finish(tn__queue *queue);

/* -------------------------------------------------------------- trace.c */

/* Frees what was recorded; the engine ends. */
void tn__trace_drop(tn__engine *engine);

/* ------------------------------------------------------------- engine.c */

/* Threads that may ever own the gate of an engine. A cell cannot be given to
 * another thread, since its first one may still look at it. */
enum { TN__CELLS = 64 };

struct tn__engine {
  /* Written by whoever pushes. */
  tn__gate gate;                /* first: engine.h */
  _Atomic uint64_t n_pushed[2]; /* tokens, in each epoch (wait.c) */
  _Atomic uint32_t epoch;
  uint32_t n_same; /* pushes in a row by `last`, under gate_lock */
  uint64_t last;
  /* Hardly ever written. */
  _Alignas(64) const tn__env *env;
  const struct tn__engine_kind *kind;
  tn__pool *pool; /* NULL: naive */
  tn__post *post; /* NULL: pushes ask for grants themselves */
  struct tn__slab *slab;
  _Atomic(struct tn__trace *) trace; /* NULL: there was none yet */
  uint32_t workers;
  uint32_t dispatch;
  _Atomic uint32_t tracing;
  _Atomic uint32_t abandoned;
  _Atomic uint32_t draining; /* 1 + the epoch whose end is waited for, or 0 */
  _Atomic uint32_t drained;  /* futex: changes when it may have ended */
  uint32_t gate_allowed;     /* 0: the system has no membarrier */
  /* The rest. */
  _Alignas(64) pthread_mutex_t gate_lock; /* while nobody owns the gate */
  _Atomic uint64_t chooser; /* tn__self of who chooses for a visitor; or 0 */
  _Atomic uint64_t paused_by;
  uint32_t n_paused;
  uint64_t paused_owner; /* of the gate, when it was paused */
  uint32_t n_revoked;    /* each doubles the patience before the next owner */
  tn__token *nested;     /* naive: pushed from inside, oldest first */
  tn__token **nested_end;
  bool running;               /* naive: somebody who keeps the others out */
  pthread_mutex_t drain_lock; /* epochs end one after the other */
  pthread_mutex_t error_lock;
  struct tn__error *untold; /* failures that wait_all has not reported */
  struct tn__error **untold_end;
  uint64_t n_untold;
  struct tn__error *no_memory; /* the error that needs none */
  pthread_mutex_t queue_lock;  /* of what the two below say */
  tn__queue *queues;           /* the newest first */
  uint64_t n_queues;           /* that there ever were */
  tn__cell cells[TN__CELLS];   /* of threads that have owned the gate */
};

/* What sets the engines apart. */
typedef struct tn__engine_kind {
  tn_code (*push)(tn__engine *engine, const tn__job *job,
                  tn__operation *operation);
  /* A list of tokens that belong together, while everybody else is kept from
   * pushing: all, or it fails and none. */
  tn_code (*push_all)(tn__engine *engine, tn__token *first);
  void (*ready)(tn__engine *engine, tn__token *token);
  void (*done)(tn__token *token, tn_code code); /* of asynchronous ones */
} tn__engine_kind;

extern const tn__engine_kind tn__kind_pooled; /* push.c */
extern const tn__engine_kind tn__kind_posted; /* post.c */
extern const tn__engine_kind tn__kind_naive;  /* naive.c */

/* Lets this thread push: as the owner of the gate, or by the lock. Not while
 * tn__gate_mine. */
void tn__gate_take(tn__engine *engine);
void tn__gate_give(tn__engine *engine);
/* The same for waits, which are not pushes: the owner stays the owner. */
uint64_t tn__gate_borrow(tn__engine *engine);
void tn__gate_return(tn__engine *engine, uint64_t owner);
/* Whether this thread is between tn__enter and tn__leave. */
bool tn__gate_mine(const tn__engine *engine);
/* tn__self; the thread gets one if it has none. */
uint64_t tn__self_get(void);

#endif /* TENON_POOL_H_ */
