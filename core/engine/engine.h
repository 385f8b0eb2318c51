/* SPDX-License-Identifier: Apache-2.0
 * engine.h: runs functions in the order that their read and write sets demand.
 * Uses base. Knows no tensors, operators or devices. Terms: docs/glossary.md.
 *
 * One rule: two functions that share a variable, and of which at least one
 * writes it, run in the order in which they were pushed. All other pairs may
 * run at the same time.
 *
 *   tn__var x = {0}, y = {0};
 *   tn__push(engine, &(tn__job){.name = "y = f(x)", .run = f, .arg = data,
 *       .access = (tn__access[]){{&x, TN__READ}, {&y, TN__OVERWRITE}},
 *       .n_access = 2});
 *   rc = tn__wait(engine, &y, TN__WAIT_WRITERS, TN__FOREVER);
 *
 * Errors travel. A function that fails leaves its error on every variable that
 * it writes. Functions that read or update such a variable do not run; they
 * pass the error on. Each wait on the variable reports the error. The error
 * stays until a function has overwritten the whole variable. Other variables
 * are unaffected.
 *
 * Threads. Any thread may call any function of this header at any time. A
 * running function or a drop may call tn__push and tn__var_delete, but not the
 * waits. "Pushed before" means that the push has returned.
 *
 * An engine belongs to the process that created it. After a fork the child has
 * none of its threads, and its locks may be held for ever. So the child calls
 * no function for this engine, not even tn__engine_destroy; it creates its own.
 *
 * Headers of this folder, each of which includes only headers above it:
 *
 *   engine.h             this page
 *   futex.h              sleep and wake by system call
 *   engine_state.h       the engine itself, and its gate
 *   variable.h           the protocol of variables: claims and grants
 *   travelling_error.h   errors of variables
 *   token.h              executions of jobs
 *   slab.h, push.h, operation.h, device_queue.h, wait.h, trace.h
 *   deque.h, shared_list.h, pool.h    ready tokens and workers
 *   schedule_plan.h      dependencies of jobs that are pushed together
 *   mailbox.h            pushes that run nothing on the pushing thread
 *   fence.h              fences and marks
 *
 * Files without a header of their name:
 *
 *   engine.c             create, stop and destroy; the gate
 *   engine_json.c        the state of an engine as JSON
 *   inline.c             fast path of threads that do not own the gate
 *   naive.c              the engine that runs inside of push
 *   dispatch.c           takes records out of the mailbox
 *   priority_heap.c      ready tokens with a priority (pool.h)
 *   parallel_for.c       loops
 *   schedule.c           jobs with an order that is worked out once
 *   variable_fences.c    the fences that a variable carries
 *   foreign_fences.c     fences of other queues that a result depends on
 *   fence_watcher.c      host tokens that wait for a fence
 */
#ifndef TENON_CORE_ENGINE_H_
#define TENON_CORE_ENGINE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "base.h"

typedef struct tn__engine tn__engine;
typedef struct tn__operation tn__operation; /* prepared job */
typedef struct tn__schedule tn__schedule;   /* jobs ordered once */
typedef struct tn__queue tn__queue;         /* device queue */
typedef struct tn__token tn__token;         /* one execution of a job */

/* ------------------------------------------------------------------ engine */

enum {                        /* tn__engine_options.kind */
       TN__ENGINE_POOLED = 0, /* worker threads */
       TN__ENGINE_NAIVE = 1   /* runs inside push; for debugging */
};

typedef struct tn__engine_options {
  const tn__env *env; /* memory and log; outlives the engine */
  uint32_t kind;
  uint32_t workers;  /* number of worker threads; 0: one per core */
  uint32_t dispatch; /* 1: a push runs nothing, not even a small job; a waiting
                        thread may. The dispatcher runs small jobs that need not
                        wait, one at a time in push order */
  uint32_t reserved;
} tn__engine_options;

/* Threads start at the first push that needs them. */
tn_code tn__engine_create(const tn__engine_options *options, tn__engine **out);

/* Waits until everything that was pushed is complete, and ends the threads. The
 * engine stays usable: the next push, even a concurrent one, starts the threads
 * again. Not from inside a function. */
void tn__engine_stop(tn__engine *engine);

/* The same, but waits only for earlier pushes, so it returns even if other
 * threads keep pushing. */
void tn__engine_stop_pushed(tn__engine *engine);

/* From now on the engine drops functions instead of running them. The variables
 * that they would have written carry TN_BUSY "the engine is shutting down". */
void tn__engine_abandon(tn__engine *engine);

/* Stops and frees; NULL is allowed. No variable may be used afterwards. */
void tn__engine_destroy(tn__engine *engine);

/* Actual number of workers; at most 4096. */
uint32_t tn__engine_workers(const tn__engine *engine);

/* Adds its state as a JSON object: kind, threads, pending operations, queues.
 * Waits for no thread; values under a lock that is held are null. */
void tn__engine_json(tn__engine *engine, tn__buf *out);

/* Creates a thread with all signals blocked: signals belong to the application.
 */
bool tn__thread_create(pthread_t *out, void *(*run)(void *arg), void *arg);

/* Keeps all other threads from pushing until resume: their pushes wait. Pending
 * operations continue. For changes of tables that pushes read without a lock.
 */
void tn__engine_pause(tn__engine *engine);
void tn__engine_resume(tn__engine *engine);

/* --------------------------------------------------------------- variables */

/* Orders the functions that use one piece of data, and is stored inside of it.
 * All zero is a new variable. variable.h explains `word`; 0 means that no
 * function uses the variable and that it carries no error and no fence. */
typedef struct tn__var {
  _Atomic uint64_t word;
  struct tn__claim *tail;       /* circular queue of waiting claims */
  struct tn__error *error;      /* from the last writer, or NULL */
  struct tn__fence_mark *fence; /* of devices that use it, or NULL */
} tn__var;

#define TN__VAR_READERS 0xffffffff00000000ull /* their number in word */

/* True if a function that reads the variable could run at once, and the
 * variable carries no error and no fence. Useful while no other thread can push
 * (tn__gate_enter). */
static inline bool tn__var_is_readable(const tn__var *var) {
  return (atomic_load_explicit(&var->word, memory_order_acquire) &
          ~TN__VAR_READERS) == 0;
}
static inline bool tn__var_is_writable(const tn__var *var) {
  return atomic_load_explicit(&var->word, memory_order_acquire) == 0;
}

/* Pushes the deletion of a variable: `end(arg)` runs once, after all earlier
 * pushes that use the variable, and may free the memory that contains it. No
 * job may use the variable afterwards. Drops its error, if any. Without memory
 * the call changes nothing. */
tn_code tn__var_delete(tn__engine *engine, tn__var *var, void (*end)(void *arg),
                       void *arg);

/* Drops the error and the fences of an unused variable before its owner frees
 * the memory. The owner knows that no function uses it, for example from a
 * count. */
void tn__var_deinit(tn__var *var);

/* Returns TN_OK, or the code of the error that the variable carries after
 * tn__fail with its text. The caller has waited. */
tn_code tn__var_check(const tn__var *var);

/* Puts the thread's error text and `code` on a variable that the caller uses
 * alone: inside a function that writes it, or after tn__gate_enter. */
void tn__var_fail(tn__engine *engine, tn__var *var, tn_code code);

/* -------------------------------------------------------------------- jobs */

enum { /* tn__access.mode */
       TN__READ = 0,
       TN__UPDATE = 1,   /* reads and writes, or writes only a part */
       TN__OVERWRITE = 2 /* writes the whole variable and clears its error */
};

typedef struct tn__access {
  tn__var *var;
  uint32_t mode;
  uint32_t reserved;
} tn__access;

enum { /* tn__job.flags */
       /* Short, never waits, and uses no other engine. If it can run at once it
        * may run inside of push, on the pushing thread. In a schedule it may
        * run directly after its small neighbours. */
       TN__JOB_SMALL = 1u << 0,
       /* `run` only begins the work; tn__token_done completes it. */
       TN__JOB_ASYNC = 1u << 1,
       /* Runs although one of its variables carries an error. */
       TN__JOB_ALWAYS = 1u << 2,
       /* A host job that begins when the jobs before it are issued, and that
        * touches no data that devices still use. */
       TN__JOB_ISSUED = 1u << 3
};

/* A function to push. A variable may be listed more than once: the strongest
 * mode counts, and READ with OVERWRITE make an UPDATE. */
typedef struct tn__job {
  const char *name; /* for spans and messages; borrowed until the job is over */
  /* Returns TN_OK, or a code after tn__fail. Runs on any thread: a worker, or
   * inside of push or a wait. With TN__JOB_ASYNC tn__token_done must be called
   * once, by any thread, unless `run` itself fails. */
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  /* The engine calls it exactly once: when the job is over, even if it did not
   * run or the push failed. The job's grants are released by then. tn__wait_all
   * waits for drops as well. NULL is allowed. */
  void (*drop)(void *arg);
  const tn__access *access; /* copied */
  uint32_t n_access;
  uint32_t flags;   /* TN__JOB_* */
  int32_t priority; /* among ready jobs, higher first; a hint */
  uint32_t reserved;
  tn__queue *queue; /* device queue, or NULL: runs on the host's workers */
} tn__job;

/* Schedules a job. The code says whether the push worked, not whether the
 * function will succeed. If the function ran at once, it is the function's
 * code, which its variables carry as well. TN_OUT_OF_MEMORY, and TN_INVALID
 * between tn__gate_enter and tn__gate_leave, leave all variables unchanged. */
tn_code tn__push(tn__engine *engine, const tn__job *job);

/* Ends an asynchronous job: TN_OK, or a code with the thread's error text. The
 * token is invalid afterwards. */
void tn__token_done(tn__token *token, tn_code code);

/* Runs the job on the calling thread, in its turn, and returns when it is over:
 * its code, or the error that kept it from running. Until its turn the thread
 * helps with earlier jobs. Not from inside a function. */
tn_code tn__run_here(tn__engine *engine, const tn__job *job);

/* A job with access lists that are checked and stored once. `job->drop` is
 * called once, when the operation is freed, and not per push. */
tn_code tn__operation_create(tn__engine *engine, const tn__job *job,
                             tn__operation **out);
tn_code tn__operation_push(tn__operation *operation);
/* Pushes all of them in this order, with no push of another thread between
 * them, or none; then all variables are unchanged. So the code says only
 * whether the push worked. A function that fails leaves its error on the
 * variables that it writes, in the naive engine too, and the operations after
 * it are still pushed. */
tn_code tn__operations_push(tn__operation *const *operations, size_t n);
/* Pending pushes still run; the operation is freed after the last one. */
void tn__operation_delete(tn__operation *operation);

/* ------------------------------------------------------------------- waits */

enum {                       /* when a wait ends */
       TN__WAIT_WRITERS = 0, /* the variable can be read */
       TN__WAIT_ALL = 1      /* readers too: it can be overwritten */
};
#define TN__FOREVER UINT64_MAX

/* Waits for earlier pushes that use the variable, at most `ns` nanoseconds, and
 * reports the error that it carries then. TN_BUSY when the time is up.
 * TN_INVALID from inside a function. A wait without a time limit helps to
 * execute jobs. When its turn comes it may be inside of a long, unrelated
 * function; it returns, and later jobs go on, when that function is over. A
 * wait with a time limit does not help, and may notice the end of a device's
 * work up to a millisecond late. If the engine dispatches, the wait also gives
 * up when no thread has checked by then whether the variable is in use. */
tn_code tn__wait(tn__engine *engine, tn__var *var, uint32_t condition,
                 uint64_t ns);

/* Waits for all earlier pushes, and until devices have finished them. Reports
 * the errors of functions and devices that failed since the last call, each
 * once. */
tn_code tn__wait_all(tn__engine *engine);

/* -------------------------------------------------------------------- loop */

/* One slice [begin, end); returns TN_OK, or a code after tn__fail. When the
 * loop returns, the caller has the text of the failure that counts, even if
 * another thread ran that slice. A slice may push, but not wait. */
typedef int32_t tn__loop_fn(void *arg, int64_t begin, int64_t end);

/* Calls fn for the slices [0, grain), [grain, 2 grain) ... of [0, n), on the
 * calling thread and on idle workers, and returns when all are done. Returns
 * the code of the failing slice with the lowest begin, or TN_OK. Slices after a
 * failed one may be left out. May be called from anywhere, also nested. The
 * slices do not depend on the number of workers. A grain below 1 counts as 1.
 */
int32_t tn__parallel_for(tn__engine *engine, int64_t n, int64_t grain,
                         tn__loop_fn *fn, void *arg);

/* --------------------------------------------------------------- schedules */

/* Jobs that are pushed together many times, in this order. Creating the
 * schedule works out their dependencies once; a push costs one step per job.
 * The schedule is ordered against other pushes as one operation that uses all
 * variables of its jobs. An error reaches exactly the variables of jobs that
 * failed or did not run. If all jobs are TN__JOB_SMALL the schedule may run
 * inside of push. Jobs may not be asynchronous and have no queue. Their `drop`
 * is called when the schedule is freed. On failure no drop was called.
 *
 * Up to 32 neighbouring small jobs may form a group, which runs in order on one
 * thread. A group waits for all jobs that any member waits for; a job that
 * waits for a member waits for the whole group. The size of groups depends on
 * the number of workers, so that each worker gets groups if there are enough
 * small jobs. Jobs that are not small never wait for one another because of
 * groups: the members of a group wait for the same jobs that are not small,
 * directly or through others. Each job keeps its own errors, priority and
 * spans. */
tn_code tn__schedule_create(tn__engine *engine, const tn__job *jobs, size_t n,
                            tn__schedule **out);
/* A schedule has at most one pending run: the next push waits for the last one.
 */
tn_code tn__schedule_push(tn__schedule *schedule);
void tn__schedule_delete(tn__schedule *schedule); /* deferred */

/* ----------------------------------------------------------- device queues */

/* Functions of a device for fences in its queues. A fence is *issued* when the
 * work before it is enqueued, and *done* when that work has been executed.
 * Every function sets the error text when it fails. */
typedef struct tn__queue_ops {
  /* Records a fence after all work that is enqueued so far. */
  tn_code (*record)(void *queue, void **fence);
  /* Makes the queue itself wait for a fence of another queue. TN_UNSUPPORTED if
   * that queue is of another kind of device; then the host waits. */
  tn_code (*wait)(void *queue, void *fence);
  /* Tests whether the fence is done; never blocks. */
  tn_code (*query)(void *fence, bool *done);
  /* Blocks the calling thread until the fence is done. */
  tn_code (*block)(void *fence);
  void (*drop)(void *fence);
} tn__queue_ops;

/* Jobs with this queue run one at a time, and each enqueues work. For jobs of
 * the same queue a job counts as executed as soon as it is issued. Jobs of
 * another queue make that queue wait on the device. Jobs of the host begin when
 * the work is done. TN__JOB_SMALL means here that the device needs a short
 * time. Up to 16 small jobs that follow one another share a fence; it is
 * recorded when a thread needs it, or when the next job is not small or there
 * is none. `name` is copied. */
tn_code tn__queue_create(tn__engine *engine, const tn__queue_ops *ops,
                         void *ctx, const char *name, tn__queue **out);
/* Waits for all pushed jobs, and frees. Afterwards the queue does not use
 * `ctx`. */
void tn__queue_destroy(tn__queue *queue);
/* Waits until the device has executed all work of the queue's complete jobs
 * that are not TN__JOB_SMALL. Enqueues nothing. May be called from anywhere,
 * also from inside a function. The variables that the jobs wrote carry their
 * failures. */
void tn__queue_await(tn__queue *queue);
/* Records the pending fences of the queues that this thread drains. A function
 * on a queue calls it before it waits for another thread by means of its own,
 * since that thread may wait for such a fence. */
void tn__queues_record_pending(void);
/* The `ctx` of the queue that the job runs on; NULL on the host. */
void *tn__token_queue(const tn__token *token);

/* ------------------------------------------------------------------- trace */

/* Starts to record spans: name, queue, thread, begin and end of every function.
 * While no trace is recorded a span costs one test. */
tn_code tn__trace_start(tn__engine *engine);
/* Stops recording. */
void tn__trace_stop(tn__engine *engine);
/* Records a part of a function as a span within the span of the function. The
 * function's thread calls both. `begin` is 0 when no trace is recorded, which
 * costs one load; otherwise pass it to tn__trace_part when the part is done.
 * The name is copied. */
uint64_t tn__trace_begin(tn__engine *engine);
void tn__trace_part(tn__engine *engine, const char *name, uint64_t begin);
/* Writes the recorded spans as Chrome trace JSON; waits for no thread. */
tn_code tn__trace_write(tn__engine *engine, const char *path);
/* Frees the spans of a recording that has ended and was settled since: no
 * operation of that time is running. */
void tn__trace_forget(tn__engine *engine);

/* --------------------------------------------------------------- fast path */

/* The gate lets one thread at a time push. As long as only one thread pushes,
 * it owns the gate, and passing the gate costs two plain stores. Another thread
 * takes the gate away with a membarrier, and later pushes take a lock.
 *
 * Between enter and leave no other thread pushes, so variables that are
 * readable or writable stay so. A short function that never waits can run at
 * once, without a grant on its variables. If enter returns false, push a job
 * instead. Between enter and leave call nothing of this header except
 * tn__var_is_readable, tn__var_is_writable, tn__var_fail and tn__parallel_for,
 * which then uses this thread only. */
typedef struct tn__gate_node {
  _Alignas(64) uint64_t key; /* of one thread, for ever; 0: unused */
  uint64_t thread;           /* its tn__self */
  _Atomic uint32_t busy;     /* the thread is inside; only it writes this */
  uint32_t reserved;
} tn__gate_node;

typedef struct tn__gate {
  _Atomic(tn__gate_node *) owner; /* NULL: no owner */
  _Atomic(tn__gate_node *)
      holder; /* the owner, until another thread sees it outside */
} tn__gate;   /* first member of tn__engine */

/* A number for each thread, from 1; 0 until the thread first pushed. */
extern _Thread_local uint64_t tn__self
    __attribute__((tls_model("initial-exec")));

/* Enters the gate if the owner's key is `key` (engine.c). A thread that comes
 * too late sets and clears `busy` of its own node only, and no other thread's
 * passage depends on that node. */
static inline bool tn__gate_enter_as(tn__engine *engine, uint64_t key) {
  tn__gate *gate = (tn__gate *)engine;
  tn__gate_node *node =
      atomic_load_explicit(&gate->owner, memory_order_acquire);
  if (node == NULL || node->key != key ||
      atomic_load_explicit(&node->busy, memory_order_relaxed) != 0)
    return false;
  atomic_store_explicit(&node->busy, 1, memory_order_relaxed);
  /* Orders the compiler only: the thread that takes the gate away orders this
   * processor with a membarrier. */
  atomic_signal_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&gate->owner, memory_order_acquire) == node)
    return true;
  atomic_store_explicit(&node->busy, 0, memory_order_release);
  return false;
}

static inline bool tn__gate_enter(tn__engine *engine) {
  return tn__gate_enter_as(engine, tn__self);
}

static inline void tn__gate_leave(tn__engine *engine) {
  tn__gate *gate = (tn__gate *)engine;
  tn__gate_node *node =
      atomic_load_explicit(&gate->holder, memory_order_relaxed);
  atomic_store_explicit(&node->busy, 0, memory_order_release);
}

/* True if this thread runs a function of the engine. */
bool tn__is_inside(const tn__engine *engine);
/* True if this thread is between enter and leave, or inside of
 * tn__inline_job.choose. Then it must neither wait nor push. For functions that
 * allocate or free memory. */
bool tn__gate_is_entered(const tn__engine *engine);

/* A small job of a thread that does not own the gate. The thread keeps others
 * from pushing for a moment, and takes grants on the variables of the job. */
enum { TN__INLINE_ACCESS = 16 };
#define TN__INLINE_REFUSED UINT32_MAX
typedef struct tn__inline_job {
  const char *name; /* as tn__job.name */
  /* Called while no other thread pushes. Writes the accesses of `run`, all
   * readable or writable at this moment, and returns their number; or
   * TN__INLINE_REFUSED. The rules between tn__gate_enter and tn__gate_leave
   * apply. */
  uint32_t (*choose)(void *arg, tn__access *access /* TN__INLINE_ACCESS */);
  /* Then runs on this thread; short, and never waits. */
  tn_code (*run)(void *arg);
  void *arg;
} tn__inline_job;

/* True: the job ran, and *code is its result, which its variables carry as
 * well. False: push a job instead. */
bool tn__run_inline(tn__engine *engine, const tn__inline_job *job,
                    tn_code *code);

#endif /* TENON_CORE_ENGINE_H_ */
