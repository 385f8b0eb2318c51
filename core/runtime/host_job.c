/* SPDX-License-Identifier: Apache-2.0
 * host_job.c: jobs of the host that are complete when their function returns,
 * and prepared operations.
 */
#include <string.h>

#include "floating.h"
#include "host_job.h"

_Static_assert((uint32_t)TN_READ == (uint32_t)TN__READ &&
                   (uint32_t)TN_UPDATE == (uint32_t)TN__UPDATE &&
                   (uint32_t)TN_OVERWRITE == (uint32_t)TN__OVERWRITE,
               "the modes of hosts are those of the engine");

/* ------------------------------------------------------------------- copies */

static const char *name_of(const tn_job *job) {
  return job->name ? job->name : "job";
}

static uint32_t flags_of(const tn_job *job) {
  uint32_t flags = job->begin ? TN__JOB_ASYNC : 0;
  if (job->run && (job->flags & TN_JOB_SMALL)) flags |= TN__JOB_SMALL;
  if (job->flags & TN_JOB_ALWAYS) flags |= TN__JOB_ALWAYS;
  return flags;
}

/* `room` is the memory for lists and name. */
static void fill_job(tn__host_job *copy, const tn_job *job, void *room) {
  const uint32_t n = job->n_access;
  copy->access = room;
  copy->variables = (tn_variable **)(copy->access + n);
  char *name = (char *)(copy->variables + n);
  strcpy(name, name_of(job));
  copy->name = name;
  for (uint32_t i = 0; i < n; ++i) {
    tn_variable *variable = job->access[i].variable;
    tn__variable_hold(variable);
    copy->variables[i] = variable;
    copy->access[i] = (tn__access){
        variable->var, tn__variable_mode(variable, job->access[i].mode), 0};
  }
}

tn_code tn__host_job_create(tn_runtime *rt, const tn_job *job,
                            tn__host_job **out) {
  const size_t each = sizeof(tn__access) + sizeof(tn_variable *);
  const size_t bytes =
      sizeof(tn__host_job) + job->n_access * each + strlen(name_of(job)) + 1;
  tn__host_job *copy = tn__alloc(&rt->env, bytes);
  *out = copy;
  if (!copy) return tn__fail_memory(bytes, "a job");
  *copy = (tn__host_job){.rt = rt,
                         .run = job->run,
                         .begin = job->begin,
                         .arg = job->arg,
                         .drop = job->drop,
                         .n_access = job->n_access,
                         .flags = flags_of(job),
                         .priority = job->priority};
  fill_job(copy, job, copy + 1);
  return TN_OK;
}

void tn__host_job_destroy(tn__host_job *job) {
  if (job->drop) job->drop(job->arg);
  for (uint32_t i = 0; i < job->n_access; ++i)
    tn__variable_unhold(job->variables[i]);
  tn__free(&job->rt->env, job);
}

tn_code tn__host_job_prepare(const tn__host_job *job) {
  for (uint32_t i = 0; i < job->n_access; ++i)
    TN__TRY(tn__variable_prepare(job->variables[i], job->access[i].mode));
  return TN_OK;
}

tn__job tn__host_job_for_engine(const tn__host_job *job) {
  return (tn__job){.name = job->name,
                   .access = job->access,
                   .n_access = job->n_access,
                   .flags = job->flags,
                   .priority = job->priority};
}

static tn_code drop_with_text(void (*drop)(void *arg), void *arg,
                              tn_code code) {
  char text[TN__ERROR_MAX];
  if (!drop) return code;
  memcpy(text, tn_error_text(), strlen(tn_error_text()) + 1);
  drop(arg);
  return tn__fail(code, "%s", text);
}

tn_code tn__host_job_refuse(const tn_job *job, tn_code code) {
  return drop_with_text(job->drop, job->arg, code);
}

static void end_job(void *arg) {
  tn__host_job_destroy(arg);
}

tn_code tn__host_job_drop(tn__host_job *job, tn_code code) {
  return drop_with_text(end_job, job, code);
}

/* ---------------------------------------------------------------- functions */

tn_code tn__host_job_result(const tn__host_job *job, tn_code code) {
  if (code == TN_OK) return code;
  if (code > 0 || code < TN_INTERNAL)
    return tn__fail(TN_INTERNAL,
                    "%s: its function returned %d, which is no code; return "
                    "TN_OK, or a code of op.h after tn_fail",
                    job->name, (int)code);
  if (tn_error_text()[0] == '\0')
    (void)tn__fail(code, "%s failed with %s and gave no reason (tn_fail)",
                   job->name, tn_code_name(code));
  return code;
}

static tn_code call_function(const tn__host_job *job) {
  const tn__floating floating = tn__floating_get();
  tn__error_clear();
  const tn_code code = job->run(job->arg);
  tn__floating_keep(&floating);
  return tn__host_job_result(job, code);
}

static tn_code run_job(void *arg, tn__token *token) {
  (void)token;
  return call_function(arg);
}

/* The engine calls end_job even if the push fails. */
static tn_code push_copy(tn__host_job *copy) {
  tn__job job = tn__host_job_for_engine(copy);
  job.run = run_job;
  job.arg = copy;
  job.drop = end_job;
  return tn__push(copy->rt->env.engine, &job);
}

tn_code tn__host_push(tn_runtime *rt, const tn_job *job) {
  tn__host_job *copy = NULL;
  tn_code rc = tn__host_job_create(rt, job, &copy);
  if (rc) return tn__host_job_refuse(job, rc);
  rc = tn__host_job_prepare(copy);
  if (rc) return tn__host_job_drop(copy, rc);
  return job->begin ? tn__host_push_async(copy, NULL) : push_copy(copy);
}

/* --------------------------------------------------------------- operations */

static tn_code run_operation(void *arg, tn__token *token) {
  const tn_operation *operation = arg;
  (void)token;
  return call_function(operation->job);
}

void tn__host_operation_unhold(tn_operation *operation) {
  if (atomic_fetch_sub_explicit(&operation->n_holds, 1, memory_order_acq_rel) >
      1)
    return;
  const tn__env *env = &operation->job->rt->env;
  tn__host_job_destroy(operation->job);
  tn__free(env, operation);
}

static void end_operation(void *arg) {
  tn__host_operation_unhold(arg);
}

static tn_code prepare_operation(tn_operation *operation) {
  tn__job job = tn__host_job_for_engine(operation->job);
  if (operation->job->begin) return TN_OK;
  job.run = run_operation;
  job.arg = operation;
  job.drop = end_operation;
  return tn__operation_create(operation->job->rt->env.engine, &job,
                              &operation->prepared);
}

static tn_code create_operation(tn__host_job *copy, tn_operation **out) {
  const tn__env *env = &copy->rt->env;
  tn_operation *operation = tn__zalloc(env, sizeof *operation);
  if (!operation) return tn__fail_memory(sizeof *operation, "an operation");
  operation->job = copy;
  atomic_init(&operation->n_owners, 1);
  atomic_init(&operation->n_holds, 1);
  const tn_code rc = prepare_operation(operation);
  if (rc) {
    tn__free(env, operation);
    return rc;
  }
  tn__env_retain(env);
  *out = operation;
  return TN_OK;
}

tn_code tn__host_operation_create(tn_runtime *rt, const tn_job *job,
                                  tn_operation **out) {
  tn__host_job *copy = NULL;
  tn_code rc = tn__host_job_create(rt, job, &copy);
  if (rc) return tn__host_job_refuse(job, rc);
  rc = create_operation(copy, out);
  return rc ? tn__host_job_drop(copy, rc) : TN_OK;
}

tn_code tn__host_operation_push(tn_operation *operation) {
  TN__TRY(tn__host_job_prepare(operation->job));
  return operation->prepared ? tn__operation_push(operation->prepared)
                             : tn__host_push_async(operation->job, operation);
}

void tn__host_operation_release(tn_operation *operation) {
  if (atomic_fetch_sub_explicit(&operation->n_owners, 1, memory_order_acq_rel) >
      1)
    return;
  const tn__env *env = &operation->job->rt->env;
  if (operation->prepared)
    tn__operation_delete(operation->prepared);
  else
    tn__host_operation_unhold(operation);
  tn__env_release(env); /* last: it may destroy the runtime */
}
