/* SPDX-License-Identifier: Apache-2.0
 * pool.h: worker threads, ready tokens, the mailbox, device queues, and the
 * engine itself. Inside core/engine only.
 *
 * A ready token goes to the deque of the worker that made it ready. Other
 * threads put it into the shared list. Tokens with a priority go to a heap,
 * which workers check first (priority above 0) or last (below 0). A worker
 * takes its own newest token, then one from the heap and the shared list. Then
 * it dispatches records if the engine has a mailbox without a dispatcher. Then
 * it steals the oldest token of another worker.
 *
 * A worker that finds nothing searches for TN__SEARCH_NS and then sleeps. A
 * wake-up costs more than most functions. So a thread wakes one sleeper at a
 * time, and that one wakes the next if it finds more than it can do.
 *
 * A worker that finds a loop while it searches will search twice as long the
 * next time, up to TN__SEARCH_MAX_NS. One that finds nothing for that long
 * starts again with TN__SEARCH_NS. So workers stay awake between two short
 * loops, and loops that have ended cost at most one long search of each worker.
 * Beyond TN__SEARCH_NS one worker fewer searches than there are: the caller of
 * a loop takes part, so the loop has no use for the last worker.
 *
 * With more threads than processors a searching thread may have no processor,
 * and still keeps others asleep because it seems about to come. So a thread
 * sleeps when it notices that it had to wait for a processor, and a loop
 * without participants wakes workers again.
 */
#ifndef TENON_POOL_H_
#define TENON_POOL_H_

#include <fenv.h>
#include <pthread.h>

#include "order.h"

typedef struct tn__pool tn__pool;

/* An entry of a deque: a token (`range` 0), or the steps in `range` of a
 * schedule's run. */
typedef struct tn__ready_work {
  void *of;
  uint64_t range;
} tn__ready_work;

/* -------------------------------------------------------------- deque.c */

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

/* ------------------------------------------------------------ shared_list.c */

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

/* --------------------------------------------------------------- pool.c */

/* A place from which a thread takes work: of a worker, or of a helping thread
 * that waits meanwhile. */
typedef struct tn__worker_slot {
  tn__deque deque;
  tn__pool *pool;
  pthread_t thread;
  struct tn__worker_slot *before; /* of the same thread, in another pool */
  fenv_t floating; /* saved floating-point environment of a helping thread */
  uint32_t number; /* from 1; slots of helping threads follow the workers */
  uint32_t random;
  uint32_t searching; /* counted in `idle` as searching */
  uint32_t n_loops;   /* loops in which it has run slices; wraps around */
  uint32_t search_ns; /* duration of its search; 0: TN__SEARCH_NS */
  uint64_t seen; /* last `begin` of the mailbox that a helping thread read */
  _Atomic uint32_t taken; /* slot of a helping thread: in use */
} tn__worker_slot;

enum { TN__HELPERS = 4, TN__LOOPS = 64 };

/* A loop that wants participants; parallel_for.c explains `state`. */
typedef struct tn__loop_slot {
  _Alignas(64) _Atomic uint32_t state;
  struct tn__loop_run *loop;
} tn__loop_slot;

struct tn__pool {
  tn__engine *engine;
  const tn__env *env;
  tn__worker_slot *slots;
  uint32_t n_workers;
  uint32_t n_slots; /* slots of workers and of helping threads */
  pthread_mutex_t start_lock;
  _Atomic uint32_t started;
  _Atomic uint32_t stopping;
  _Atomic uint32_t n_threads; /* threads that the system created */

  tn__shared shared;

  /* Idle workers: multiples of TN__ASLEEP count those that sleep or are about
   * to, multiples of TN__SEARCHING those that search. `wakeups` counts wake-ups
   * that no thread has answered yet; TN__CLOSING is added while the threads are
   * to end. */
  _Alignas(64) _Atomic uint32_t idle;
  _Atomic uint32_t wakeups;

  _Alignas(64) pthread_mutex_t heap_lock;
  struct tn__heap_entry *heap;
  size_t n_heap, heap_capacity;
  uint64_t heap_serial;
  _Atomic int32_t highest; /* highest priority in the heap; INT32_MIN: empty */

  pthread_mutex_t loop_lock; /* protects the errors of loops */
  _Atomic uint64_t
      unattended; /* ns of consecutive loops without participants */
  _Atomic uint64_t unattended_at;
  _Alignas(64) _Atomic uint64_t open_loops; /* a bit for each slot */
  tn__loop_slot loops[TN__LOOPS];
};

#define TN__SEARCH_NS 30000u
#define TN__SEARCH_MAX_NS (8 * TN__SEARCH_NS)

#define TN__ASLEEP 1u
#define TN__SEARCHING 0x10000u
#define TN__CLOSING 0x80000000u

/* With at most 4096 workers; sets engine->workers to their number. */
tn_code tn__pool_create(tn__engine *engine, uint32_t workers, tn__pool **out);
/* Ends all threads. They start again on demand, and at once if a token has
 * become ready meanwhile. */
void tn__pool_stop(tn__pool *pool);
/* NULL is allowed. All ready tokens must have run. */
void tn__pool_destroy(tn__pool *pool);

/* Starts the threads if there are none. tn__pool_ready calls it. */
void tn__pool_start(tn__pool *pool);

/* Adds a token that may run. Never fails: if the system refused all threads, a
 * waiting thread finds the token. */
void tn__pool_ready(tn__pool *pool, tn__token *token);

/* Sleeps until *word is no longer `seen`; false when `deadline` (tn__now, or
 * TN__FOREVER) has passed. tn__pool_wake_waiters ends such sleeps after a
 * change of *word. A sleep without a deadline helps to run jobs first. One with
 * a deadline helps only if the system has refused every thread, and such a job
 * may then last beyond the deadline. Without a pool (NULL) it cannot help. */
bool tn__pool_await(tn__pool *pool, _Atomic uint32_t *word, uint32_t seen,
                    uint64_t deadline);
void tn__pool_wake_waiters(_Atomic uint32_t *word);

/* The calling thread's worker number in this pool, from 1; 0: no worker. */
uint32_t tn__pool_worker_number(const tn__pool *pool);

/* The calling thread's slot in this pool, or NULL. */
tn__worker_slot *tn__pool_slot(const tn__pool *pool);

/* True if there is work for this slot besides the mailbox, or the threads are
 * to end. */
bool tn__pool_has_work(tn__worker_slot *slot);

/* Wakes up to `n` sleepers because there is more work than the caller can do;
 * fewer if threads are searching already. */
void tn__pool_wake_workers(tn__pool *pool, uint32_t n);

/* The same without regard to searching threads: none came, perhaps because they
 * have no processor. */
void tn__pool_wake_more(tn__pool *pool, uint32_t n);

/* ---------------------------------------------------------- priority_heap.c */

/* Tokens with a priority. Push is false without memory; take is NULL if the
 * heap is empty. */
bool tn__heap_push(tn__pool *pool, tn__token *token);
tn__token *tn__heap_take(tn__pool *pool);

/* -------------------------------------------------------------- futex.c */

/* Sleeps while *word is `seen`, at most until `deadline`. May return early. */
void tn__futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline);
void tn__futex_wake(_Atomic uint32_t *word, uint32_t n);

static inline void tn__cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* ----------------------------------------------------------- parallel_for.c */

/* Runs slices of a loop that wants participants and is nested deeper than
 * `depth`; false: there is none. */
bool tn__loop_help(tn__pool *pool, uint32_t depth);
/* True if a loop has room for a participant. */
bool tn__loop_has_room(tn__pool *pool);

/* ---------------------------------------------------------- schedule_plan.c */

/* A step of a schedule: a job, or a group. A group is a run of neighbouring
 * small jobs, executed one after the other. A small job joins the group before
 * it if both wait, at any distance, for the same jobs that are not small. So a
 * job that is not small never waits for another one because of a group; a small
 * job may.
 *
 * Its jobs are `first` up to the next step's `first`. Its successors are in
 * `order` from `next` up to the next step's `next`: first n_free groups that
 * wait for no other step and can be passed on as one range, then the others. A
 * step that also waits for one of these successors is left out, as far as the
 * planner found that out. */
typedef struct tn__schedule_step {
  uint32_t next;
  uint32_t n_free;
  uint32_t first;
  uint32_t n_before; /* predecessors */
  _Atomic uint32_t
      left; /* predecessors left in this run; a single one is not counted */
  uint32_t spilled; /* next step in a list of steps to run */
} tn__schedule_step;

/* A variable of a job and how the job uses it. */
typedef struct tn__job_use {
  tn__var *var;
  uint32_t mode;
  uint32_t reserved;
} tn__job_use;

typedef struct tn__schedule_plan {
  /* n steps, then the end of all, then the beginning, then one that only marks
   * the end of the beginning's successors. */
  tn__schedule_step *steps;
  uint32_t n;
  uint32_t n_jobs;
  uint32_t *order;
  uint32_t *first_use; /* of each job, in `uses`; n_jobs + 1 */
  tn__job_use *uses;   /* each variable of a job once */
  tn__access *access;  /* of all jobs together, each variable once */
  uint32_t n_uses;
  uint32_t n_access;
} tn__schedule_plan;

/* Works out the dependencies of the jobs, with at most `group` jobs in a group.
 * With 0 it records only the uses and creates no steps. The arena owns the
 * memory of the plan. */
tn_code tn__schedule_plan_create(tn__arena *arena, const tn__job *jobs,
                                 size_t n, uint32_t group,
                                 tn__schedule_plan *out);

/* ----------------------------------------------------------- schedule.c */

/* Runs the steps of a range of `order`, and the steps that become ready by
 * that. */
void tn__schedule_run_range(struct tn__schedule *schedule, uint64_t range);

/* ---------------------------------------------------------------- mailbox.c */

/* Pushes of an engine that runs nothing on the pushing thread: records in push
 * order, in segments that are reused and kept until the engine ends. The
 * pushing thread appends under the gate. The dispatcher, a worker or a waiting
 * thread, takes from the beginning (dispatch.c). The two share only the
 * records, so a variable stays in the dispatcher's cache. `begin` and `end`
 * count bytes. */
typedef struct tn__mailbox_segment {
  struct tn__mailbox_segment *next;
  size_t bytes;
  unsigned char data[];
} tn__mailbox_segment;

typedef struct tn__mailbox {
  tn__engine *engine;
  const tn__env *env;
  /* Used under the gate. */
  _Alignas(64) unsigned char *to; /* place of the next record */
  unsigned char *limit;           /* the end of its segment */
  tn__mailbox_segment *last;
  tn__mailbox_segment *empty; /* a list */
  uint64_t n_written;         /* value of `end` */
  _Alignas(64) _Atomic uint64_t end;
  /* The thread that has set `taking` is the dispatcher. `wanted` counts the
   * threads that wait to set it; the dispatcher gives way to them. */
  _Alignas(64) _Atomic uint32_t taking;
  _Atomic uint32_t wanted;
  /* Used by the dispatcher. */
  _Alignas(64) _Atomic uint64_t begin; /* records below are done with */
  _Atomic uint64_t n_completed[2];     /* without a token, in each epoch */
  uint64_t known;                      /* last value of `end` that was read */
  uint32_t unreported; /* jobs were completed since the waiting threads were
                          notified */
  uint32_t inside;     /* the dispatcher itself has added a record */
  unsigned char *from;
  tn__mailbox_segment *first;
  _Alignas(64) _Atomic(tn__mailbox_segment *) used; /* returned ones; a list */
} tn__mailbox;

enum { /* tn__record.flags, besides TN__JOB_* and TN__TOKEN_* */
       TN__RECORD_NEXT = 1u << 24,  /* goes on in the next segment */
       TN__RECORD_TOKEN = 1u << 25, /* a tn__record_token */
       TN__RECORD_MORE = 1u << 26,  /* tn__record_more follows */
       TN__RECORD_CLAIMS = 32, /* claims that fit on the dispatcher's stack */
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
  uintptr_t uses[]; /* a variable's address plus the mode */
} tn__record_job;

typedef struct tn__record_more {
  tn__operation *operation; /* held, or NULL */
  tn__claim *claims;        /* for more than TN__RECORD_CLAIMS uses, or NULL */
  int64_t priority;
} tn__record_more;

tn_code tn__mailbox_create(tn__engine *engine, tn__mailbox **out);
/* NULL is allowed. The mailbox is empty. */
void tn__mailbox_destroy(tn__mailbox *mailbox);

/* Adds a record of a token without grants. The token of a wait is not counted.
 * False without memory: nothing has changed. */
bool tn__mailbox_put_token(tn__token *token, const tn__run_frame *frame);

/* Lets a token on the stack of a waiting thread request its grants in its turn.
 * The token of a wait is not counted. False: the time was up, and it has
 * requested nothing; never if the deadline is TN__FOREVER. */
bool tn__mailbox_put_waiting(tn__token *token, uint64_t deadline);

/* True if all records so far are acquired or over, so that the words of
 * variables show their use. True without a mailbox. */
bool tn__mailbox_is_settled(const tn__engine *engine);

/* --------------------------------------------------------------- dispatch.c */

/* True if there are records and no dispatcher. */
bool tn__dispatch_is_wanted(tn__mailbox *mailbox);
/* Makes this thread the dispatcher, if there are records. */
bool tn__dispatch_begin(tn__mailbox *mailbox);
/* Takes records and runs small jobs with free variables, until there is other
 * work; a helping thread takes one batch. Then this thread is no longer the
 * dispatcher. False: it could take no record. */
bool tn__dispatch_records(tn__mailbox *mailbox, tn__worker_slot *slot);
/* Called after a record was added: makes sure that a thread will take it. */
void tn__dispatch_request(tn__mailbox *mailbox);
/* Requests the grants of a token that is counted, after all records so far and
 * without a record of its own. With a deadline other than TN__FOREVER it runs
 * no function. False: the time was up, and it has requested nothing. */
bool tn__dispatch_overtake(tn__token *token, uint64_t deadline);

/* ----------------------------------------------------------- device_queue.c */

/* A queue's own token, which goes to the pool when the queue has ready tokens.
 * Only its `next`, `queue`, `flags` and `priority` are used. */
enum { TN__TOKEN_DRAIN = 1 << 30 }; /* tn__token.flags */
void tn__queue_drain(tn__queue *queue);
/* The innermost queue that this thread drains, or NULL. */
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

void tn__queue_release(tn__queue *queue);

/* -------------------------------------------------------------- fence.c */

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

/* -------------------------------------------------------------- trace.c */

/* Frees all recorded spans; the engine ends. */
void tn__trace_drop(tn__engine *engine);

/* ------------------------------------------------------------- engine.c */

/* Number of threads that may ever own the gate of an engine. A node cannot pass
 * to another thread, since its first thread may still read it. */
enum { TN__GATE_NODES = 64 };

struct tn__engine {
  /* Written by the pushing thread. */
  tn__gate gate;                /* first: engine.h */
  _Atomic uint64_t n_pushed[2]; /* tokens, in each epoch (wait.c) */
  _Atomic uint32_t epoch;
  uint32_t n_same; /* consecutive pushes by `last`, under gate_lock */
  uint64_t last;
  /* Rarely written. */
  _Alignas(64) const tn__env *env;
  const struct tn__engine_kind *kind;
  tn__pool *pool;       /* NULL: naive */
  tn__mailbox *mailbox; /* NULL: pushes request grants themselves */
  struct tn__slab *slab;
  _Atomic(struct tn__trace *) trace; /* NULL: there was none yet */
  uint32_t workers;
  uint32_t dispatch;
  _Atomic uint32_t tracing;
  _Atomic uint32_t abandoned;
  _Atomic uint32_t draining; /* 1 + the epoch that a thread waits for, or 0 */
  _Atomic uint32_t drained;  /* futex: changes when that epoch may have ended */
  uint32_t gate_allowed;     /* 0: the system has no membarrier */
  /* The rest. */
  _Alignas(64) pthread_mutex_t gate_lock; /* used while the gate has no owner */
  _Atomic uint64_t chooser;               /* tn__self of the thread inside of
                                             tn__inline_job.choose, or 0 */
  _Atomic uint64_t paused_by;
  uint32_t n_paused;
  uint64_t paused_owner; /* owner of the gate when it was paused */
  uint32_t n_revoked;    /* each doubles the pushes that make the next owner */
  tn__token *nested;     /* naive: pushed from inside, oldest first */
  tn__token **nested_end;
  bool running; /* naive: a function runs, and keeps all other pushes out */
  pthread_mutex_t drain_lock; /* epochs end one after the other */
  pthread_mutex_t error_lock;
  struct tn__error *unreported; /* failures that wait_all has not reported */
  struct tn__error **unreported_end;
  uint64_t n_unreported;
  struct tn__error *no_memory; /* the reserved error, which needs no memory */
  pthread_mutex_t queue_lock;  /* protects the two fields below */
  tn__queue *queues;           /* newest first */
  uint64_t n_queues;           /* number of queues ever created */
  tn__gate_node nodes[TN__GATE_NODES]; /* of threads that have owned the gate */
};

/* The functions that differ between the kinds of engines. */
typedef struct tn__engine_kind {
  tn_code (*push)(tn__engine *engine, const tn__job *job,
                  tn__operation *operation);
  /* Pushes a list of tokens, all or none, while all other threads are kept from
   * pushing. */
  tn_code (*push_all)(tn__engine *engine, tn__token *first);
  void (*ready)(tn__engine *engine, tn__token *token);
  void (*done)(tn__token *token, tn_code code); /* of asynchronous tokens */
} tn__engine_kind;

extern const tn__engine_kind tn__kind_pooled;      /* push.c */
extern const tn__engine_kind tn__kind_dispatching; /* mailbox.c */
extern const tn__engine_kind tn__kind_naive;       /* naive.c */

/* Lets this thread push: as the owner of the gate, or by the lock. Not while
 * tn__gate_is_mine. */
void tn__gate_take(tn__engine *engine);
void tn__gate_give(tn__engine *engine);
/* The same for waits, which are no pushes: the owner stays the owner. */
uint64_t tn__gate_borrow(tn__engine *engine);
void tn__gate_return(tn__engine *engine, uint64_t owner);
/* True if this thread is between tn__gate_enter and tn__gate_leave. */
bool tn__gate_is_mine(const tn__engine *engine);
/* Returns tn__self; the thread gets a number if it has none. */
uint64_t tn__self_get(void);

#endif /* TENON_POOL_H_ */
