/* SPDX-License-Identifier: Apache-2.0
 * check_job.c: refuses jobs of the host that make no sense.
 */
#include <stdlib.h>
#include <string.h>

#include "host_job.h"

static const char *name_of(const tn_job *job) {
  return job->name ? job->name : "job";
}

static tn_code check_functions(const char *function, const tn_job *job) {
  const uint32_t known = TN_JOB_SMALL | TN_JOB_ALWAYS;
  if (!job->run == !job->begin)
    return tn__fail(
        TN_INVALID,
        "%s: `%s` has %s; set `run` for a job that is complete "
        "when it returns, or `begin` for an asynchronous one",
        function, name_of(job),
        job->run ? "both `run` and `begin`" : "neither `run` nor `begin`");
  if (job->flags & ~known)
    return tn__fail(TN_INVALID, "%s: `%s` has the unknown flags 0x%x", function,
                    name_of(job), (unsigned)(job->flags & ~known));
  if (job->n_access > 0 && !job->access)
    return tn__fail(TN_INVALID,
                    "%s: `%s` has n_access %u, but `access` is NULL", function,
                    name_of(job), (unsigned)job->n_access);
  return TN_OK;
}

static bool is_broadcast(const tn_variable *variable) {
  return variable->array && tn__tensor_has_repeats(&variable->array->tensor);
}

static tn_code check_access(const char *function, const tn_runtime *rt,
                            const tn_job *job, uint32_t i) {
  const tn_access *access = &job->access[i];
  const char *mistake =
      !access->variable             ? "has no variable; create one first"
      : access->mode > TN_OVERWRITE ? "has an unknown mode; use TN_READ, "
                                      "TN_UPDATE or TN_OVERWRITE"
      : access->variable->rt != rt
          ? "has a variable of another runtime; an engine orders only its own"
      : access->mode != TN_READ && is_broadcast(access->variable)
          ? "writes a broadcast view, which repeats elements; write the array "
            "that it was made from"
          : NULL;
  if (!mistake) return TN_OK;
  return tn__fail(TN_INVALID, "%s: access %u of `%s` %s", function, (unsigned)i,
                  name_of(job), mistake);
}

/* --------------------------------------------------------------- duplicates */

/* Variable number i is in the list for the second time. */
static tn_code fail_repeated(const char *function, const tn_job *job,
                             const tn_variable *variable) {
  uint32_t place[2] = {0, 0};
  for (uint32_t i = 0, n = 0; i < job->n_access && n < 2; ++i)
    if (job->access[i].variable == variable) place[n++] = i;
  return tn__fail(TN_INVALID,
                  "%s: accesses %u and %u of `%s` have the same variable; list "
                  "it once, with TN_UPDATE if the job reads and writes it",
                  function, (unsigned)place[0], (unsigned)place[1],
                  name_of(job));
}

static tn_code check_few(const char *function, const tn_job *job) {
  for (uint32_t i = 1; i < job->n_access; ++i)
    for (uint32_t k = 0; k < i; ++k)
      if (job->access[i].variable == job->access[k].variable)
        return fail_repeated(function, job, job->access[i].variable);
  return TN_OK;
}

static int compare_addresses(const void *a, const void *b) {
  const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return x < y ? -1 : x > y;
}

static tn_code check_many(const char *function, const tn_runtime *rt,
                          const tn_job *job) {
  const size_t bytes = job->n_access * sizeof(uintptr_t);
  uintptr_t *sorted = tn__alloc(&rt->env, bytes);
  tn_code rc = TN_OK;
  if (!sorted) return tn__fail_memory(bytes, "a check of a job's variables");
  for (uint32_t i = 0; i < job->n_access; ++i)
    sorted[i] = (uintptr_t)job->access[i].variable;
  qsort(sorted, job->n_access, sizeof *sorted, compare_addresses);
  for (uint32_t i = 1; i < job->n_access && rc == TN_OK; ++i)
    if (sorted[i] == sorted[i - 1])
      rc = fail_repeated(function, job, (const tn_variable *)sorted[i]);
  tn__free(&rt->env, sorted);
  return rc;
}

/* ---------------------------------------------------------------- interface */

tn_code tn__check_open(const char *function, const tn_runtime *rt,
                       const char *name) {
  if (atomic_load_explicit(&rt->closed, memory_order_acquire) != 0)
    return tn__fail(TN_INVALID,
                    "%s: `%s` was pushed after tn_runtime_shutdown, which "
                    "closes the runtime for jobs",
                    function, name);
  if (tn__gate_is_entered(rt->env.engine) && !tn__is_inside(rt->env.engine))
    return tn__fail(TN_INVALID,
                    "%s: `%s` was pushed from inside of a kernel, which must "
                    "not push; push it before or after the call",
                    function, name);
  return TN_OK;
}

tn_code tn__check_job(const char *function, const tn_runtime *rt,
                      const tn_job *job) {
  enum { FEW = 32 };
  TN__TRY(check_functions(function, job));
  for (uint32_t i = 0; i < job->n_access; ++i)
    TN__TRY(check_access(function, rt, job, i));
  TN__TRY(job->n_access <= FEW ? check_few(function, job)
                               : check_many(function, rt, job));
  return tn__check_open(function, rt, name_of(job));
}
