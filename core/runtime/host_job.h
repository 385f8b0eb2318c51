/* SPDX-License-Identifier: Apache-2.0
 * host_job.h: jobs of the host (tenon/engine.h) in the engine of a runtime. The
 * functions expect checked arguments.
 *
 * A job keeps its variables: a variable ends without a push to the engine, when
 * its last job is over and it has no owner.
 *
 * files: host_variable.c  variables, of the host and of arrays
 *        host_job.c       jobs that are complete when they return; operations
 *        host_token.c     asynchronous jobs, and their end at a shutdown
 *        check_job.c      checks of tn_job
 *        api_engine.c     the public functions
 */
#ifndef TENON_HOST_JOB_H_
#define TENON_HOST_JOB_H_

#include "runtime.h"
#include "tenon/engine.h"

/* ---------------------------------------------------------- host_variable.c */

struct tn_variable {
  tn_runtime *rt;
  tn__var *var; /* `own`, or the variable of the array's block */
  tn__var own;
  tn_array *array; /* held, or NULL */
  _Atomic int64_t n_owners;
  _Atomic int64_t n_holds; /* of jobs; all owners together count as one */
  void *data;
  void (*drop)(void *data);
};

tn_code tn__variable_create(tn_runtime *rt, void *data,
                            void (*drop)(void *data), tn_variable **out);
tn_code tn__variable_create_of(tn_array *array, tn_variable **out);
void tn__variable_release(tn_variable *variable);
void tn__variable_hold(tn_variable *variable);
void tn__variable_unhold(tn_variable *variable);
/* Mode of an access for the engine: a part of a block is never overwritten. */
uint32_t tn__variable_mode(const tn_variable *variable, uint32_t mode);
/* Before a push: an array gets memory, and its writes are counted. */
tn_code tn__variable_prepare(const tn_variable *variable, uint32_t mode);

/* --------------------------------------------------------------- host_job.c */

/* A copy of a tn_job, with its name and lists in the same memory. */
typedef struct tn__host_job {
  tn_runtime *rt;
  tn_code (*run)(void *arg);
  tn_code (*begin)(void *arg, tn_token *token);
  void *arg;
  void (*drop)(void *arg);
  const char *name;
  tn__access *access;
  tn_variable **variables; /* held */
  uint32_t n_access;
  uint32_t flags; /* TN__JOB_* */
  int32_t priority;
  uint32_t reserved;
} tn__host_job;

struct tn_operation {
  tn__host_job *job;
  tn__operation *prepared; /* NULL: asynchronous */
  _Atomic int64_t n_owners;
  _Atomic int64_t n_holds; /* of pending pushes; all owners count as one */
};

/* Calls the drop of a job that is not pushed. Returns the code and keeps its
 * text. */
tn_code tn__host_job_refuse(const tn_job *job, tn_code code);
/* Both take over `arg`, even if they fail. */
tn_code tn__host_push(tn_runtime *rt, const tn_job *job);
tn_code tn__host_operation_create(tn_runtime *rt, const tn_job *job,
                                  tn_operation **out);
tn_code tn__host_operation_push(tn_operation *operation);
void tn__host_operation_release(tn_operation *operation);
void tn__host_operation_unhold(tn_operation *operation);

/* Shared with host_token.c. */
tn_code tn__host_job_create(tn_runtime *rt, const tn_job *job,
                            tn__host_job **out);
/* Calls the drop, and frees. */
void tn__host_job_destroy(tn__host_job *job);
/* The same for a job that is not pushed. Returns the code and keeps its text.
 */
tn_code tn__host_job_drop(tn__host_job *job, tn_code code);
/* Prepares the variables of a push. */
tn_code tn__host_job_prepare(const tn__host_job *job);
/* The job for the engine, without its function. */
tn__job tn__host_job_for_engine(const tn__host_job *job);
/* Checks the code that a function returned, and adds a text if there is none.
 * tn__error_clear was called before the function. */
tn_code tn__host_job_result(const tn__host_job *job, tn_code code);

/* ------------------------------------------------------------- host_token.c */

/* Takes over the job, unless it belongs to an operation, which it holds. */
tn_code tn__host_push_async(tn__host_job *job, tn_operation *operation);
void tn__host_token_retain(tn_token *token);
void tn__host_token_release(tn_token *token);
tn_code tn__host_token_complete(tn_token *token, tn_code code,
                                const char *text);
bool tn__host_token_is_cancelled(const tn_token *token);
const tn_runtime *tn__host_token_runtime(const tn_token *token);
/* Closes the runtime, cancels its tokens, and waits until no function runs. */
tn_code tn__host_shutdown(tn_runtime *rt);

/* -------------------------------------------------------------- check_job.c */

/* TN_INVALID with the mistake, for a public function of this name. */
tn_code tn__check_job(const char *function, const tn_runtime *rt,
                      const tn_job *job);
/* TN_INVALID if the runtime is closed, or the caller is a kernel. */
tn_code tn__check_open(const char *function, const tn_runtime *rt,
                       const char *name);

#endif /* TENON_HOST_JOB_H_ */
