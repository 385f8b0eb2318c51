/* SPDX-License-Identifier: Apache-2.0
 * api_engine.c: the functions of engine.h. Each checks its arguments and calls
 * host_*.c. Nothing is freed in a forked child, because locks may be held for
 * ever there.
 */
#include "host_job.h"

static bool is_here(const tn_runtime *rt) {
  return tn__creator_is_here(&rt->creator);
}

/* ---------------------------------------------------------------- variables */

tn_code tn_variable_create(tn_runtime *rt, void *data, void (*drop)(void *data),
                           tn_variable **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__variable_create(rt, data, drop, out);
}

tn_code tn_array_variable(tn_array *array, tn_variable **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__variable_create_of(array, out);
}

tn_variable *tn_variable_retain(tn_variable *variable) {
  if (variable)
    atomic_fetch_add_explicit(&variable->n_owners, 1, memory_order_relaxed);
  return variable;
}

void tn_variable_release(tn_variable *variable) {
  if (variable && is_here(variable->rt)) tn__variable_release(variable);
}

static tn_code wait_variable(tn_variable *variable, uint32_t condition,
                             uint64_t ns) {
  TN__TRY(tn__runtime_check(&variable->rt->env));
  return tn__wait(variable->rt->env.engine, variable->var, condition, ns);
}

tn_code tn_variable_wait(tn_variable *variable) {
  TN__REQUIRE(variable);
  return wait_variable(variable, TN__WAIT_WRITERS, TN__UNTIL_INTERRUPTED);
}

tn_code tn_variable_wait_write(tn_variable *variable) {
  TN__REQUIRE(variable);
  return wait_variable(variable, TN__WAIT_ALL, TN__UNTIL_INTERRUPTED);
}

tn_code tn_variable_wait_for(tn_variable *variable, uint64_t ns) {
  TN__REQUIRE(variable);
  return wait_variable(variable, TN__WAIT_WRITERS, ns);
}

/* --------------------------------------------------------------------- jobs */

tn_code tn_fail(tn_code code, const char *format, ...) {
  va_list args;
  if (!format) return tn__argument_fail("tn_fail", "format");
  va_start(args, format);
  (void)tn__vfail(code, format, args);
  va_end(args);
  return code;
}

static tn_code check_size(const tn_job *job) {
  if (job->struct_size >= sizeof *job) return TN_OK;
  return tn__fail(TN_INVALID,
                  "tn_job.struct_size is %u; set it to sizeof(tn_job)",
                  (unsigned)job->struct_size);
}

static tn_code check_job(const char *function, const tn_runtime *rt,
                         const tn_job *job) {
  TN__TRY(tn__argument_check(rt, function, "rt"));
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__check_job(function, rt, job);
}

tn_code tn_push(tn_runtime *rt, const tn_job *job) {
  TN__REQUIRE(job);
  TN__TRY(check_size(job));
  const tn_code rc = check_job(__func__, rt, job);
  return rc ? tn__host_job_refuse(job, rc) : tn__host_push(rt, job);
}

/* --------------------------------------------------------------- operations */

tn_code tn_operation_create(tn_runtime *rt, const tn_job *job,
                            tn_operation **out) {
  TN__REQUIRE(job);
  TN__TRY(check_size(job));
  tn_code rc = tn__argument_check(out, __func__, "out");
  if (rc == TN_OK) {
    *out = NULL;
    rc = check_job(__func__, rt, job);
  }
  return rc ? tn__host_job_refuse(job, rc)
            : tn__host_operation_create(rt, job, out);
}

tn_code tn_operation_push(tn_operation *operation) {
  TN__REQUIRE(operation);
  const tn__host_job *job = operation->job;
  TN__TRY(tn__runtime_check(&job->rt->env));
  TN__TRY(tn__check_open(__func__, job->rt, job->name));
  return tn__host_operation_push(operation);
}

tn_operation *tn_operation_retain(tn_operation *operation) {
  if (operation)
    atomic_fetch_add_explicit(&operation->n_owners, 1, memory_order_relaxed);
  return operation;
}

void tn_operation_release(tn_operation *operation) {
  if (operation && is_here(operation->job->rt))
    tn__host_operation_release(operation);
}

/* ------------------------------------------------------------------- tokens */

tn_token *tn_token_retain(tn_token *token) {
  if (token) tn__host_token_retain(token);
  return token;
}

tn_code tn_token_complete(tn_token *token, tn_code code, const char *text) {
  TN__REQUIRE(token);
  TN__TRY(tn__runtime_check(&tn__host_token_runtime(token)->env));
  return tn__host_token_complete(token, code, text);
}

int32_t tn_token_cancelled(const tn_token *token) {
  return token && tn__host_token_is_cancelled(token);
}

void tn_token_release(tn_token *token) {
  if (token && is_here(tn__host_token_runtime(token)))
    tn__host_token_release(token);
}

/* ----------------------------------------------------------------- shutdown */

tn_code tn_runtime_shutdown(tn_runtime *rt) {
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  if (tn__is_inside(rt->env.engine) || tn__gate_is_entered(rt->env.engine))
    return tn__fail(TN_INVALID,
                    "tn_runtime_shutdown was called from inside of a function "
                    "that the engine runs, and would wait for that function; "
                    "call it from another thread");
  return tn__host_shutdown(rt);
}
