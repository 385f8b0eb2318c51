/* SPDX-License-Identifier: Apache-2.0
 * engine.h: runs functions of the host in the order that their data demands.
 * Part of libtenon; the conventions are those of tenon.h.
 *
 *   #include <stdio.h>
 *   #include <tenon/engine.h>
 *
 *   typedef struct mean {
 *     double values[4], result;
 *   } mean;
 *
 *   static tn_code read_values(void *arg) {
 *     mean *m = arg;
 *     for (int i = 0; i < 4; ++i) m->values[i] = i;
 *     return TN_OK;
 *   }
 *   static tn_code compute_mean(void *arg) {
 *     mean *m = arg;
 *     for (int i = 0; i < 4; ++i) m->result += m->values[i] / 4;
 *     return TN_OK;
 *   }
 *
 *   int main(void) {
 *     mean m = {0};
 *     tn_runtime *rt = NULL;
 *     tn_variable *values = NULL, *result = NULL;
 *     tn_code rc = tn_runtime_create(NULL, &rt);
 *     if (!rc) rc = tn_variable_create(rt, NULL, NULL, &values);
 *     if (!rc) rc = tn_variable_create(rt, NULL, NULL, &result);
 *     if (!rc)
 *       rc = tn_push(rt, &(tn_job){.struct_size = sizeof(tn_job),
 *                                  .name = "read values",
 *                                  .run = read_values,
 *                                  .arg = &m,
 *                                  TN_USES({values, TN_OVERWRITE})});
 *     if (!rc)
 *       rc = tn_push(rt, &(tn_job){.struct_size = sizeof(tn_job),
 *                                  .name = "compute mean",
 *                                  .run = compute_mean,
 *                                  .arg = &m,
 *                                  TN_USES({values, TN_READ},
 *                                          {result, TN_UPDATE})});
 *     if (!rc) rc = tn_variable_wait(result);
 *     if (rc) fprintf(stderr, "%s\n", tn_error_text());
 *     printf("%g\n", m.result);
 *     tn_variable_release(result), tn_variable_release(values);
 *     tn_runtime_release(rt);
 *     return rc ? 1 : 0;
 *   }
 *
 * (It prints `1.5`; the tests compile and run exactly these lines.)
 *
 * ORDER
 *
 * A *variable* represents one piece of data. A *job* is a function with a list
 * of the variables that it reads, updates or overwrites. tn_push hands a job to
 * the engine of a runtime, and returns. One rule decides the order: two jobs
 * that share a variable, and of which at least one writes it, run in the order
 * in which they were pushed. All other pairs may run at the same time.
 *
 * The engine never looks at the data. A function that touches data without its
 * variable in the list is a data race.
 *
 * Calls of operators, copies and programs are jobs as well. tn_array_variable
 * returns the variable of an array, so a job of the host takes its place among
 * them.
 *
 * THREADS
 *
 * Functions run on the workers of the runtime, or on a thread that waits. Small
 * jobs (TN_JOB_SMALL) may run inside of tn_push. With TN_ENGINE_THREADED no
 * function runs inside of tn_push, and a thread that must not run any function
 * waits with a time limit (tn_variable_wait_for).
 *
 * "[job]" after a function means: from any thread of the application, and from
 * inside of a function that the engine runs, but not from a kernel. A function
 * may push, but not wait, because it might wait for itself; such a wait is
 * TN_INVALID. It pushes a job that uses the result instead.
 *
 * ERRORS
 *
 * A function fails with `return tn_fail(TN_IO, "cannot read %s", path)`. All
 * variables that it writes then carry the error. Jobs that read or update such
 * a variable do not run, and pass the error on. Each wait for the variable
 * reports it, with the names of the jobs. A job that overwrites the variable
 * clears it.
 *
 * SHUTDOWN
 *
 * tn_runtime_shutdown ends the work of a runtime early. Functions that run at
 * that moment return first, and calls of kernels that complete later
 * (plugin/call.h) are completed by their plugins. Pending jobs are completed
 * without running, and asynchronous jobs that have begun are cancelled. In all
 * cases `drop` of a job is called.
 *
 * Without a shutdown pending jobs still run: the last tn_runtime_release waits
 * for them. Only asynchronous jobs do not make it wait; they keep the runtime
 * until they are complete. Call tn_wait_all before, if all results matter.
 */
#ifndef TENON_ENGINE_H_
#define TENON_ENGINE_H_

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_variable tn_variable;   /* orders the uses of some data */
typedef struct tn_operation tn_operation; /* a job to push many times */
typedef struct tn_token tn_token;         /* completes an asynchronous job */

/* --------------------------------------------------------------- variables */

/* Creates a variable for data of the host. `drop(data)` is called once, after
 * the last job that uses the variable, when it has no owner; on any thread,
 * where it must not wait. `data` and `drop` may be NULL. On failure `drop` is
 * not called. The caller releases *out. [job] */
TN_API TN_MUST_USE tn_code tn_variable_create(tn_runtime *rt, void *data,
                                              void (*drop)(void *data),
                                              tn_variable **out);

/* The variable of an array, which it keeps. Arrays that share memory share the
 * variable. A job may use the elements, tn_array_tensor(array)->data, if its
 * list contains the variable; the array has memory then. On another device than
 * the CPU this is the device's address. The caller releases *out. [job] */
TN_API TN_MUST_USE tn_code tn_array_variable(tn_array *array,
                                             tn_variable **out);

/* Adds an owner; returns `variable`. [any] */
TN_API tn_variable *tn_variable_retain(tn_variable *variable);

/* Removes an owner; NULL is allowed. Pending jobs and prepared operations keep
 * the variable. [any] */
TN_API void tn_variable_release(tn_variable *variable);

/* Waits until the data can be read: every earlier job that writes it is
 * complete. Reports the error that the variable carries. [host-thread] */
TN_API TN_MUST_USE tn_code tn_variable_wait(tn_variable *variable);

/* Waits until the data can be written: no earlier job reads it any more either.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_variable_wait_write(tn_variable *variable);

/* Like tn_variable_wait, for at most `ns` nanoseconds; then TN_BUSY. It runs no
 * function on the waiting thread. With `ns` 0 it tests. [host-thread] */
TN_API TN_MUST_USE tn_code tn_variable_wait_for(tn_variable *variable,
                                                uint64_t ns);

/* -------------------------------------------------------------------- jobs */

enum {                  /* tn_access.mode */
       TN_READ = 0,     /* reads only */
       TN_UPDATE = 1,   /* reads and writes, or writes a part */
       TN_OVERWRITE = 2 /* writes everything, and clears an earlier error */
};

/* One variable of a job. A job must list a variable only once: TN_INVALID
 * names the second place. Two arrays that share memory may both be listed; the
 * stronger mode counts. Frozen. */
typedef struct tn_access {
  tn_variable *variable; /* borrowed for the call */
  uint32_t mode;         /* TN_READ, TN_UPDATE or TN_OVERWRITE */
} tn_access;

enum { /* tn_job.flags */
       /* The function is short and never waits, so it may run inside of tn_push
        * if its variables are free. Waking a worker takes longer than a
        * thousand such functions. A hint; without effect on `begin`. */
       TN_JOB_SMALL = 1u << 0,
       /* The function runs although a variable that it reads carries an error.
        */
       TN_JOB_ALWAYS = 1u << 1
};

/* A function with everything that the engine knows about it. Either `run` or
 * `begin` is set. */
typedef struct tn_job {
  uint32_t struct_size; /* sizeof(tn_job) */
  uint32_t flags;       /* TN_JOB_* */
  const char *name;     /* in traces and messages; copied; default "job" */
  /* Returns TN_OK, or a code after tn_fail. The job is complete when it
   * returns. [worker] */
  tn_code (*run)(void *arg);
  /* Begins an asynchronous job, which occupies no worker until it is complete:
   * see tn_token. [worker] */
  tn_code (*begin)(void *arg, tn_token *token);
  void *arg;
  /* Frees `arg`; NULL is allowed. Called exactly once, on any thread, when the
   * job is over: also if it did not run, and if the function that received this
   * struct failed. So the caller never frees `arg` itself. Like a function it
   * may push, but not wait. [any] */
  void (*drop)(void *arg);
  const tn_access *access; /* copied; see TN_USES */
  uint32_t n_access;
  int32_t priority; /* among jobs that could run, higher first; a hint */
} tn_job;

#ifndef __cplusplus
/* The members `access` and `n_access` of a tn_job. */
#define TN_USES(...)                          \
  .access = (const tn_access[]){__VA_ARGS__}, \
  .n_access =                                 \
      (uint32_t)(sizeof((const tn_access[]){__VA_ARGS__}) / sizeof(tn_access))
#endif

/* Sets the calling thread's error text, as printf formats it, and returns
 * `code`: for functions of jobs. The text should say what failed, where and
 * why. [any] */
TN_API tn_code tn_fail(tn_code code, const char *format, ...) TN_PRINTF(2, 3);

/* Pushes a job. The code says whether the push worked; a function that failed
 * before tn_push returned is reported as well. TN_INVALID for a NULL or foreign
 * variable, a repeated one, an unknown mode or flag, and after
 * tn_runtime_shutdown. [job] */
TN_API TN_MUST_USE tn_code tn_push(tn_runtime *rt, const tn_job *job);

/* ------------------------------------------------------ prepared operations */

/* Checks and stores a job that will be pushed many times. `drop` is called when
 * the operation is released and its last push is over. It keeps its variables.
 * The caller releases *out. [job] */
TN_API TN_MUST_USE tn_code tn_operation_create(tn_runtime *rt,
                                               const tn_job *job,
                                               tn_operation **out);

/* Pushes the operation, like tn_push but without `drop`. Two pushes run one
 * after the other only if the operation writes a variable. [job] */
TN_API TN_MUST_USE tn_code tn_operation_push(tn_operation *operation);

/* Adds an owner; returns `operation`. [any] */
TN_API tn_operation *tn_operation_retain(tn_operation *operation);

/* Removes an owner; NULL is allowed. Pending pushes still run. [any] */
TN_API void tn_operation_release(tn_operation *operation);

/* ------------------------------------------------------- asynchronous jobs */

/* The function `begin` starts some work, for example a request to a server, and
 * returns. The job is complete when any thread calls tn_token_complete.
 *
 *   static tn_code begin_request(void *arg, tn_token *token) {
 *     acme_request *request = arg;
 *     request->token = tn_token_retain(token);
 *     return acme_send(request);  // TN_OK, or a failure that ends the job
 *   }
 *   static void on_reply(acme_request *request, int status) {
 *     tn_token *token = request->token;
 *     tn_code rc = status == 0
 *                      ? tn_token_complete(token, TN_OK, NULL)
 *                      : tn_token_complete(token, TN_IO, "no reply");
 *     if (rc) fprintf(stderr, "%s\n", tn_error_text());
 *     tn_token_release(token);
 *   }
 *
 * With TN_ENGINE_NAIVE the job must be complete when `begin` returns; otherwise
 * it fails with TN_UNSUPPORTED.
 *
 * The token is borrowed from the runtime until `begin` returns; a thread that
 * completes the job later retains it, and then releases it. If `begin` fails,
 * the job is over, and tokens that were retained must still be released.
 *
 * No job can be left pending by mistake. A token that loses its last owner
 * before its completion completes the job with TN_INVALID. tn_runtime_shutdown
 * cancels all others. A token that has an owner keeps `arg`, the variables of
 * the job and the runtime. So an owner of a cancelled token may still use them.
 */

/* Adds an owner; returns `token`. [any] */
TN_API tn_token *tn_token_retain(tn_token *token);

/* Completes the job: TN_OK, or a failure and its text. The text is copied;
 * `text` NULL means the name of the code. TN_INVALID if the job is complete
 * already; TN_BUSY if tn_runtime_shutdown has cancelled it. [any] */
TN_API TN_MUST_USE tn_code tn_token_complete(tn_token *token, tn_code code,
                                             const char *text);

/* 1 if tn_runtime_shutdown has been called, so that the work should end early;
 * otherwise 0. [any] */
TN_API int32_t tn_token_cancelled(const tn_token *token);

/* Removes an owner; NULL is allowed. [any] */
TN_API void tn_token_release(tn_token *token);

/* ---------------------------------------------------------------- shutdown */

/* Closes the runtime for jobs, and returns when no function runs. Pending jobs,
 * also those of programs, are completed without running: the variables and
 * arrays that they would have written carry TN_BUSY. Later pushes are
 * TN_INVALID, and later calls of operators leave TN_BUSY on their outputs.
 * Waits, tn_array_get and releases work as before. May be called again.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_runtime_shutdown(tn_runtime *rt);

#ifdef __cplusplus
}
#endif
#endif /* TENON_ENGINE_H_ */
