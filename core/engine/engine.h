/* SPDX-License-Identifier: Apache-2.0
 * engine.h: runs functions in the order that what they read and write demands.
 * Uses base. Knows no tensor, no operator and no device.
 *
 * The one rule: two functions that share a variable which either of them writes
 * run in the order in which they were pushed. Whatever shares nothing, or is
 * only read, may run at the same time.
 *
 *   tn__var x = {0}, y = {0};
 *   tn__push(engine, &(tn__job){.name = "y = f(x)", .run = f, .arg = data,
 *       .access = (tn__access[]){{&x, TN__READ}, {&y, TN__OVERWRITE}},
 *       .n_access = 2});
 *   rc = tn__wait(engine, &y, TN__WAIT_WRITERS, TN__FOREVER);
 *
 * Errors travel. A function that fails leaves its error on every variable that
 * it writes; functions that read or update such a variable are not run and pass
 * the error on; each wait on the variable reports it, and it stays until a
 * function has overwritten the whole variable. Nothing else is disturbed.
 *
 * Threads. Every function here may be called from any thread, at the same time;
 * tn__push and tn__var_delete also from inside a running function or a drop,
 * the waits not. "Pushed before" means that the push had returned.
 *
 * An engine belongs to the process that created it. After a fork the child has
 * none of its threads, and locks may be held there for ever: the child calls
 * nothing of it, not even tn__engine_destroy, and creates an engine of its own.
 *
 * files: engine.h    this page
 *        order.h     the protocol of variables (inside the folder only)
 *        pool.h      workers and their queues (inside the folder only)
 *        engine.c    create, stop, release; which engine; the gate
 *        var.c       grants on variables: acquire, release, hand over
 *        push.c      push: the short way and the long way; deletion
 *        post.c      pushes that run nothing where they are pushed
 *        clerk.c     who takes them out, and runs what is small
 *        operation.c prepared operations
 *        token.c     execution and completion
 *        slab.c      memory of operations on their way
 *        error.c     errors that travel
 *        wait.c      waits, and running on the waiting thread
 *        naive.c     the engine that runs inside push
 *        pool.c      worker threads, sleeping and waking
 *        deque.c     the work-stealing deque
 *        shared.c    ready tokens from other threads
 *        heap.c      ready tokens with a priority
 *        futex.c     the system's part of sleeping
 *        loop.c      parallel_for
 *        schedule.c  operations whose order is worked out once
 *        plan.c      working it out
 *        visit.c     the short way of a thread that does not own the gate
 *        queue.c     device queues
 *        fence.c     what devices still do with a variable
 *        trace.c     spans, Chrome trace JSON
 */
#ifndef TENON_ENGINE_H_
#define TENON_ENGINE_H_

#include <stdatomic.h>

#include "base.h"

typedef struct tn__engine tn__engine;
typedef struct tn__operation tn__operation; /* prepared, pushed many times */
typedef struct tn__schedule tn__schedule;   /* many, ordered once */
typedef struct tn__queue tn__queue;         /* of a device */
typedef struct tn__token tn__token;         /* one execution of a function */

/* ------------------------------------------------------------------ engine */

enum {                        /* tn__engine_options.kind */
       TN__ENGINE_POOLED = 0, /* worker threads */
       TN__ENGINE_NAIVE = 1   /* everything inside push; for debugging */
};

typedef struct tn__engine_options {
  const tn__env *env; /* memory and log; outlives the engine */
  uint32_t kind;
  uint32_t workers;  /* threads that execute; 0: as many as there are cores */
  uint32_t dispatch; /* 1: a push runs nothing, however small; a thread that
                        waits may. What is small and need not wait is run by one
                        thread at a time, in push order */
  uint32_t reserved;
} tn__engine_options;

/* Threads are started when there is first something for them to do. */
tn_code tn__engine_create(const tn__engine_options *options, tn__engine **out);

/* Waits until everything pushed is complete and ends the threads. The engine
 * can be used again: the next push, also one meanwhile, starts them anew. Not
 * from inside a function. */
void tn__engine_stop(tn__engine *engine);

/* The same, but only for what was pushed before: it returns however much other
 * threads push meanwhile. */
void tn__engine_rest(tn__engine *engine);

/* From now on functions are dropped instead of run; what they would have
 * written carries TN_BUSY "the engine is shutting down". */
void tn__engine_abandon(tn__engine *engine);

/* Stops and frees; NULL is allowed. No variable may be used afterwards. */
void tn__engine_destroy(tn__engine *engine);

/* How many there really are; at most 4096. */
uint32_t tn__engine_workers(const tn__engine *engine);

/* Keeps every other thread from pushing until resume: what is pushed then
 * waits. Operations on their way go on. For changes of tables that pushes read
 * without a lock. */
void tn__engine_pause(tn__engine *engine);
void tn__engine_resume(tn__engine *engine);

/* --------------------------------------------------------------- variables */

/* What orders functions. Stands inside of what it orders; zeroed is new. `word`
 * is explained in order.h; 0 means that nothing uses the variable, and that it
 * carries no error and no fence. */
typedef struct tn__var {
  _Atomic uint64_t word;
  struct tn__link *tail;    /* of those who wait for it, circular */
  struct tn__error *error;  /* what the last writer left, or NULL */
  struct tn__fences *fence; /* what devices still do with it, or NULL */
} tn__var;

#define TN__VAR_READERS 0xffffffff00000000ull /* part of word: how many run */

/* True if a function that reads it could run at once, and that it carries
 * nothing. Of use while no other thread can push (tn__enter). */
static inline bool tn__var_readable(const tn__var *var) {
  return (atomic_load_explicit(&var->word, memory_order_acquire) &
          ~TN__VAR_READERS) == 0;
}
static inline bool tn__var_writable(const tn__var *var) {
  return atomic_load_explicit(&var->word, memory_order_acquire) == 0;
}

/* Pushes the end of a variable: `end(arg)` runs once, after everything pushed
 * before that uses it, and may free the memory that it stands in. Nothing may
 * be pushed on it afterwards. Its error, if any, is dropped. If there is no
 * memory for that, nothing has happened. */
tn_code tn__var_delete(tn__engine *engine, tn__var *var, void (*end)(void *arg),
                       void *arg);

/* Drops what an unused variable carries, before its memory is freed by an owner
 * who knows that nothing uses it (a count of owners, say). */
void tn__var_deinit(tn__var *var);

/* The error that a variable carries: TN_OK, or its code after tn__fail with its
 * text. The caller has waited. */
tn_code tn__var_check(const tn__var *var);

/* Puts the thread's error text and `code` on a variable that the caller has for
 * itself: inside a function that writes it, or after tn__enter. */
void tn__var_fail(tn__engine *engine, tn__var *var, tn_code code);

/* -------------------------------------------------------------------- jobs */

enum { /* tn__access.mode */
       TN__READ = 0,
       TN__UPDATE = 1,   /* reads and writes, or writes only a part */
       TN__OVERWRITE = 2 /* writes the whole variable: its error ends here */
};

typedef struct tn__access {
  tn__var *var;
  uint32_t mode;
  uint32_t reserved;
} tn__access;

enum { /* tn__job.flags */
       /* Short, waits for nothing, and uses no other engine: may run inside of
        * push, on the pushing thread, if it could run at once, and in a
        * schedule one after the other with those that stand next to it. */
       TN__JOB_SMALL = 1u << 0,
       /* `run` only begins the work; it is complete at tn__token_done. */
       TN__JOB_ASYNC = 1u << 1,
       /* Runs although something that it uses carries an error. */
       TN__JOB_ALWAYS = 1u << 2,
       /* On the host: begins when those before it are issued, and touches
        * nothing that devices still use. */
       TN__JOB_ISSUED = 1u << 3
};

/* A function to push. The same variable may be listed more than once: the
 * strongest mode counts, and READ with OVERWRITE make an UPDATE. */
typedef struct tn__job {
  const char *name; /* for spans and messages; borrowed until it is over */
  /* Returns TN_OK, or a code after tn__fail. Runs on a worker, or inside of
   * push or a wait, on any thread. For TN__JOB_ASYNC the token must be done
   * once, from any thread, unless `run` itself fails. */
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  /* Called exactly once: when the job is over, run or not, also when push
   * itself fails. Its variables are free by then; tn__wait_all waits for drops
   * as well. NULL is allowed. */
  void (*drop)(void *arg);
  const tn__access *access; /* copied */
  uint32_t n_access;
  uint32_t flags;   /* TN__JOB_* */
  int32_t priority; /* among those that are ready, higher ones first; a hint */
  uint32_t reserved;
  tn__queue *queue; /* of a device, or NULL: the host's workers */
} tn__job;

/* Schedules a job. The code says whether that worked, not what the function
 * will return; if it ran at once, it is what it returned (which its variables
 * carry as well). TN_OUT_OF_MEMORY, and TN_INVALID from inside of tn__enter,
 * leave every variable as it was. */
tn_code tn__push(tn__engine *engine, const tn__job *job);

/* Ends an asynchronous job: TN_OK, or a code with the thread's error text. The
 * token is gone afterwards. */
void tn__token_done(tn__token *token, tn_code code);

/* True if the engine was abandoned while the job waited. */
bool tn__token_cancelled(const tn__token *token);

/* Runs the job on the calling thread, in its turn, and returns when it is over:
 * what it returned, or the error that kept it from running. Meanwhile the
 * thread helps with what stands before it. Not from inside a function. */
tn_code tn__run_here(tn__engine *engine, const tn__job *job);

/* A job whose lists are checked and stored once. `job->drop` is not called per
 * push, but once, when the operation is freed. */
tn_code tn__operation_create(tn__engine *engine, const tn__job *job,
                             tn__operation **out);
tn_code tn__operation_push(tn__operation *operation);
/* Pushes them in this order, and nothing of other threads between them: all of
 * them, or none, and then every variable is as it was. So the code says only
 * whether that worked. What a function fails at is on what it writes, also in
 * the naive engine, and those behind it are pushed all the same. */
tn_code tn__operations_push(tn__operation *const *operations, size_t n);
/* Pushes that are on their way still run; it is freed behind the last. */
void tn__operation_delete(tn__operation *operation);

/* ------------------------------------------------------------------- waits */

enum {                       /* for what */
       TN__WAIT_WRITERS = 0, /* so that it can be read */
       TN__WAIT_ALL = 1      /* readers too, so that it can be overwritten */
};
#define TN__FOREVER UINT64_MAX

/* Waits for what was pushed before on the variable, at most `ns` nanoseconds,
 * and reports the error that it carries then. TN_BUSY when the time is up.
 * TN_INVALID from inside a function. A thread that waits for ever helps to
 * execute, and when its turn comes may be inside of a long function that has
 * nothing to do with the variable: it returns, and those who wait behind it go
 * on, when that is over. One with a time limit does not help, and may notice
 * the end of a device's work up to a millisecond late. If the engine
 * dispatches, it also gives up if by then nobody has got as far as to see
 * whether the variable is used. */
tn_code tn__wait(tn__engine *engine, tn__var *var, uint32_t what, uint64_t ns);

/* Waits for everything pushed before, and until devices are done with it.
 * Reports the errors of functions and devices that failed since the last time,
 * each once. */
tn_code tn__wait_all(tn__engine *engine);

/* -------------------------------------------------------------------- loop */

/* One slice [begin, end); TN_OK, or a code after tn__fail: the text of the
 * failure that counts is the caller's when the loop returns, whichever thread
 * ran the slice. It may push, but not wait. */
typedef int32_t tn__loop_fn(void *arg, int64_t begin, int64_t end);

/* Calls fn for the slices [0, grain), [grain, 2 grain) ... of [0, n), on the
 * calling thread and on workers that have nothing else to do, and returns when
 * all are done: the code of the failing slice that begins lowest, or TN_OK. A
 * slice that begins behind a failed one may be left out. From anywhere, also
 * nested; the slices are the same for every number of workers. A grain below 1
 * counts as 1. */
int32_t tn__parallel_for(tn__engine *engine, int64_t n, int64_t grain,
                         tn__loop_fn *fn, void *arg);

/* --------------------------------------------------------------- schedules */

/* Jobs that are pushed together again and again, in this order. What depends on
 * what among them is worked out here, once; pushing the schedule costs a step
 * per job. It is ordered against other pushes as one operation that uses all of
 * their variables; an error reaches exactly the variables of those jobs that
 * failed or were not run. If all of them are TN__JOB_SMALL it may run inside of
 * push. Jobs may not be asynchronous and have no queue; their `drop` is called
 * when the schedule is freed. On failure no drop was called.
 *
 * Up to 32 small jobs that stand next to one another may be run as one, in
 * their order on one thread; then each waits for what any of them waits for,
 * and what waits for one waits for all. How many depends on the number of
 * workers, so that there are groups for each of them if there are enough small
 * jobs. Jobs that are not small never wait for one another because of that:
 * such groups are made of small ones that have the same of those before them,
 * directly or through others. Errors, priorities and spans are each job's own.
 */
tn_code tn__schedule_create(tn__engine *engine, const tn__job *jobs, size_t n,
                            tn__schedule **out);
/* A schedule is on its way at most once: the next push waits for the last. */
tn_code tn__schedule_push(tn__schedule *schedule);
void tn__schedule_delete(tn__schedule *schedule); /* deferred */

/* ----------------------------------------------------------- device queues */

/* What a device can do with points in its queues. A fence is *issued* when what
 * stands before it has been enqueued, and *done* when that has been executed.
 * Every function sets the error text when it fails. */
typedef struct tn__queue_ops {
  /* A fence behind everything enqueued so far. */
  tn_code (*record)(void *queue, void **fence);
  /* Makes the queue itself wait for a fence of another queue, which may be of
   * another kind of device: then TN_UNSUPPORTED, and the host waits. */
  tn_code (*wait)(void *queue, void *fence);
  /* Whether it is done; never blocks. */
  tn_code (*query)(void *fence, bool *done);
  /* Blocks the calling thread until it is done. */
  tn_code (*block)(void *fence);
  void (*drop)(void *fence);
} tn__queue_ops;

/* Jobs with this queue run one at a time, each enqueues work, and counts as
 * executed for jobs of the same queue as soon as it is issued. Jobs of other
 * queues make their queue wait on the device; jobs of the host begin when it is
 * done. Up to 16 jobs that are TN__JOB_SMALL, here what takes the device a
 * short time, share a fence where they follow one another, which is recorded
 * when it is asked for, or nothing small follows. `name` is copied. */
tn_code tn__queue_create(tn__engine *engine, const tn__queue_ops *ops,
                         void *ctx, const char *name, tn__queue **out);
/* Waits for what was pushed, and frees; `ctx` is the caller's again. */
void tn__queue_destroy(tn__queue *queue);
/* Waits until the device has executed what the queue's jobs that are complete,
 * and not TN__JOB_SMALL, have enqueued, and enqueues nothing for that; from
 * anywhere, so inside of a function too. What failed is told by what the jobs
 * have written. */
void tn__queue_await(tn__queue *queue);
/* A function that runs on a queue is about to wait for another thread by means
 * of its own: what its queue owes others, it has then. */
void tn__queues_due(void);
/* The `ctx` of the queue that the job runs on; NULL on the host. */
void *tn__token_queue(const tn__token *token);

/* ------------------------------------------------------------------- trace */

/* Spans from here on: name, queue, thread, begin and end of every function.
 * Until then a span costs one test. */
tn_code tn__trace_start(tn__engine *engine);
/* Ends it. Writes what was recorded as Chrome trace JSON; waits for nothing. */
void tn__trace_stop(tn__engine *engine);
/* A part of a function, as a span within that of the function, whose thread
 * calls both: begin is 0 when nothing is recorded, which costs a load, and
 * otherwise what to hand over when the part is done. The name is copied. */
uint64_t tn__trace_begin(tn__engine *engine);
void tn__trace_part(tn__engine *engine, const char *name, uint64_t begin);
tn_code tn__trace_write(tn__engine *engine, const char *path);
/* Frees the spans of a recording that has ended and was settled since: no
 * operation of that time is running. */
void tn__trace_forget(tn__engine *engine);

/* --------------------------------------------------------------- short way */

/* The gate. As long as one thread does all the pushing, it owns the gate, and
 * passing it costs two plain stores; another thread takes it away with a
 * membarrier, and from then on pushes take a lock. Between enter and leave no
 * other thread pushes, so that what is readable or writable now stays so: a
 * function that is short and waits for nothing can be run there and then,
 * without any mark on its variables. False means: push a job instead. Nothing
 * of this header may be called in between, but the tests of a variable,
 * tn__var_fail and tn__parallel_for, which then runs on this thread alone. */
typedef struct tn__cell {
  _Alignas(64) uint64_t key; /* of one thread, for ever; 0: of none yet */
  uint64_t thread;           /* its tn__self */
  _Atomic uint32_t busy;     /* it is inside; only that thread writes this */
  uint32_t reserved;
} tn__cell;

typedef struct tn__gate {
  _Atomic(tn__cell *) owner;  /* NULL: nobody */
  _Atomic(tn__cell *) holder; /* the owner, until it is found to be outside */
} tn__gate;                   /* the first member of tn__engine */

/* A number for each thread, from 1; 0 until the thread first pushed. */
extern _Thread_local uint64_t tn__self
    __attribute__((tls_model("initial-exec")));

/* By the name that the gate knows the owner by (engine.c). A thread that comes
 * too late marks and clears its own cell, which nobody else's passing is judged
 * by. */
static inline bool tn__enter_as(tn__engine *engine, uint64_t key) {
  tn__gate *gate = (tn__gate *)engine;
  tn__cell *cell = atomic_load_explicit(&gate->owner, memory_order_acquire);
  if (cell == NULL || cell->key != key ||
      atomic_load_explicit(&cell->busy, memory_order_relaxed) != 0)
    return false;
  atomic_store_explicit(&cell->busy, 1, memory_order_relaxed);
  /* Only the compiler is held back: whoever takes the gate away makes this
   * processor's order visible with a membarrier. */
  atomic_signal_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&gate->owner, memory_order_acquire) == cell)
    return true;
  atomic_store_explicit(&cell->busy, 0, memory_order_release);
  return false;
}

static inline bool tn__enter(tn__engine *engine) {
  return tn__enter_as(engine, tn__self);
}

static inline void tn__leave(tn__engine *engine) {
  tn__gate *gate = (tn__gate *)engine;
  tn__cell *cell = atomic_load_explicit(&gate->holder, memory_order_relaxed);
  atomic_store_explicit(&cell->busy, 0, memory_order_release);
}

/* Whether this thread runs a function of the engine. */
bool tn__inside(const tn__engine *engine);
/* Whether this thread is between enter and leave, or chooses for a visitor:
 * then it must neither wait nor push. For who takes memory, or frees it. */
bool tn__entered(const tn__engine *engine);

/* What a thread does that does not own the gate: for a moment it keeps others
 * from pushing, and the function leaves marks on its variables. */
enum { TN__VISIT_ACCESS = 16 };
#define TN__VISIT_NOT UINT32_MAX
typedef struct tn__visitor {
  const char *name; /* as of a job */
  /* Nobody else pushes now. Writes down what `run` uses, all of it readable or
   * writable at this moment, and returns how much; or TN__VISIT_NOT. As between
   * enter and leave, nothing of this header may be called but the tests. */
  uint32_t (*choose)(void *arg, tn__access *access /* TN__VISIT_ACCESS */);
  /* Then runs on this thread, short and waiting for nothing. */
  tn_code (*run)(void *arg);
  void *arg;
} tn__visitor;

/* True: it ran, and *code is what it returned (which its variables carry as
 * well). False: push a job instead. */
bool tn__visit(tn__engine *engine, const tn__visitor *visitor, tn_code *code);

#endif /* TENON_ENGINE_H_ */
