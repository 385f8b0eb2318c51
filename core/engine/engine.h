/* SPDX-License-Identifier: Apache-2.0
 * engine.h: runs functions in the order that their read and write sets demand.
 * Knows no tensors, operators or devices. Terms: docs/glossary.md.
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
 * This header is the contract, with the headers that it includes. Each of the
 * five folders uses those above it, and files call downward:
 *
 *   variables   order of reads and writes: claims, grants, gate, errors
 *   pool        places of ready tokens and loops; worker threads
 *   fences      device queues; fences of variables
 *   tokens      execution, completion and memory of tokens; spans
 *   engine      this folder
 *
 * Files of this folder, each of which calls only files above it:
 *
 *   schedule_plan.c   dependencies of jobs that are pushed together
 *   push.c            from a job to a token and its grants; the fast path
 *   prepare.c         prepared operations
 *   inline.c          fast path of threads that do not own the gate
 *   schedule.c        jobs with an order that is worked out once
 *   queue_drain.c     runs the tokens of a device queue
 *   parallel_for.c    loops
 *   dispatch.c        takes records out of the mailbox
 *   mailbox.c         pushes that run nothing on the pushing thread
 *   workers.c         the work of workers and of waiting threads
 *   wait.c            waits for a variable, a function, everything
 *   naive.c           the engine that runs inside of push
 *   engine_json.c     the state of an engine as JSON
 *   engine.c          create, stop and destroy
 */
#ifndef TENON_CORE_ENGINE_H_
#define TENON_CORE_ENGINE_H_

#include "futex.h"
#include "gate.h"
#include "job.h"
#include "queue.h"
#include "run_frame.h"
#include "trace.h"

typedef struct tn__schedule tn__schedule; /* jobs ordered once */

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

/* --------------------------------------------------------------- variables */

/* Pushes the deletion of a variable: `end(arg)` runs once, after all earlier
 * pushes that use the variable, and may free the memory that contains it. No
 * job may use the variable afterwards. Drops its error, if any. Without memory
 * the call changes nothing. */
tn_code tn__var_delete(tn__engine *engine, tn__var *var, void (*end)(void *arg),
                       void *arg);

/* -------------------------------------------------------------------- jobs */

/* Schedules a job. The code says whether the push worked, not whether the
 * function will succeed. If the function ran at once, it is the function's
 * code, which its variables carry as well. TN_OUT_OF_MEMORY, and TN_INVALID
 * between tn__gate_enter and tn__gate_leave, leave all variables unchanged. */
tn_code tn__push(tn__engine *engine, const tn__job *job);

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

/* ------------------------------------------------------------------- waits */

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

/* Waits for all pushed jobs, and frees. Afterwards the queue does not use
 * `ctx`. */
void tn__queue_destroy(tn__queue *queue);
/* --------------------------------------------------------------- fast path */

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
