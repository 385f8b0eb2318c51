/* SPDX-License-Identifier: Apache-2.0
 * host_token.c: asynchronous jobs of the host. A token is one execution of such
 * a job. It is completed once: by the host, by the loss of its last owner, or
 * by the shutdown of the runtime. A compare-and-swap of its state decides which
 * of them is first. A list of the runtime contains the tokens that have begun.
 */
#include "floating.h"
#include "host_job.h"

enum {               /* tn_token.state */
       WAITING = 0,  /* `begin` was not called */
       BEGUN = 1,    /* in the list of the runtime */
       OVER = 2,     /* completed, or over without a call of `begin` */
       CANCELLED = 3 /* completed by tn_runtime_shutdown */
};

struct tn_token {
  tn__host_job *job;
  tn_operation *operation;  /* held, and the owner of `job`; or NULL */
  tn__token *execution;     /* of the engine */
  struct tn_token *next;    /* in the list of the runtime, under its lock */
  struct tn_token **before; /* the pointer to this token in the list */
  _Atomic uint32_t state;
  uint32_t reserved;
  _Atomic int64_t n_owners; /* of the host, and the call of `begin` */
  _Atomic int64_t n_holds;  /* of the engine until the job is over, and of all
                               owners together */
};

/* --------------------------------------------------------------------- life */

/* The engine, until the job is over, and each owner of the token also own the
 * runtime. They release it when they have finished with the token. */
static void hold_token(tn_token *token) {
  atomic_fetch_add_explicit(&token->n_holds, 1, memory_order_relaxed);
}

static void unhold_token(tn_token *token) {
  if (atomic_fetch_sub_explicit(&token->n_holds, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = &token->job->rt->env;
  if (token->operation)
    tn__host_operation_unhold(token->operation);
  else
    tn__host_job_destroy(token->job);
  tn__free(env, token);
}

static void link_token(tn_runtime *rt, tn_token *token) {
  token->next = rt->begun;
  token->before = &rt->begun;
  if (token->next) token->next->before = &token->next;
  rt->begun = token;
}

static void unlink_token(tn_token *token) {
  *token->before = token->next;
  if (token->next) token->next->before = token->before;
}

/* Puts the token into the list. False: the runtime is closed. */
static bool enter_list(tn_token *token) {
  tn_runtime *rt = token->job->rt;
  (void)pthread_mutex_lock(&rt->begun_lock);
  const bool open = atomic_load(&rt->closed) == 0;
  if (open) {
    ++rt->n_beginning;
    atomic_store(&token->state, BEGUN);
    link_token(rt, token);
  }
  (void)pthread_mutex_unlock(&rt->begun_lock);
  return open;
}

/* Of all threads that complete the token one gets true, and takes it out of the
 * list. */
static bool claim_completion(tn_token *token, uint32_t state) {
  tn_runtime *rt = token->job->rt;
  uint32_t begun = BEGUN;
  if (!atomic_compare_exchange_strong(&token->state, &begun, state))
    return false;
  (void)pthread_mutex_lock(&rt->begun_lock);
  unlink_token(token);
  (void)pthread_mutex_unlock(&rt->begun_lock);
  return true;
}

/* ------------------------------------------------------------- owned tokens */

void tn__host_token_retain(tn_token *token) {
  tn__env_retain(&token->job->rt->env);
  atomic_fetch_add_explicit(&token->n_owners, 1, memory_order_relaxed);
}

static void remove_owner(tn_token *token) {
  if (atomic_fetch_sub_explicit(&token->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  if (claim_completion(token, OVER))
    tn__token_done(
        token->execution,
        tn__fail(TN_INVALID,
                 "%s: its token was released before tn_token_complete; retain "
                 "the token in `begin`, and release it after the completion",
                 token->job->name));
  unhold_token(token);
}

void tn__host_token_release(tn_token *token) {
  const tn__env *env = &token->job->rt->env;
  remove_owner(token);
  tn__env_release(env); /* may destroy the runtime */
}

static tn_code fail_over(const tn_token *token) {
  if (tn__host_token_is_cancelled(token))
    return tn__fail(TN_BUSY,
                    "tn_token_complete: `%s` is over already, because the "
                    "runtime was shut down",
                    token->job->name);
  return tn__fail(TN_INVALID,
                  "tn_token_complete: `%s` is complete already; a job is "
                  "completed once",
                  token->job->name);
}

tn_code tn__host_token_complete(tn_token *token, tn_code code,
                                const char *text) {
  if (!claim_completion(token, OVER)) return fail_over(token);
  tn__error_clear();
  if (code != TN_OK && text) (void)tn__fail(code, "%s", text);
  tn__token_done(token->execution, tn__host_job_result(token->job, code));
  return TN_OK;
}

bool tn__host_token_is_cancelled(const tn_token *token) {
  return atomic_load(&token->job->rt->closed) != 0;
}

const tn_runtime *tn__host_token_runtime(const tn_token *token) {
  return token->job->rt;
}

/* ------------------------------------------------------------------- pushes */

static tn_code call_begin(tn_token *token) {
  const tn__host_job *job = token->job;
  const tn__floating floating = tn__floating_get();
  tn__error_clear();
  const tn_code code = job->begin(job->arg, token);
  tn__floating_keep(&floating);
  return tn__host_job_result(job, code);
}

/* Removes the owner that the call of `begin` is. tn_runtime_release waits for
 * this. */
static void leave_begin(tn_token *token) {
  tn_runtime *rt = token->job->rt;
  tn__host_token_release(token);
  /* A runtime ends after its workers, so it is still there. */
  (void)pthread_mutex_lock(&rt->begun_lock);
  --rt->n_beginning;
  (void)pthread_cond_broadcast(&rt->begin_returned);
  (void)pthread_mutex_unlock(&rt->begun_lock);
}

/* From enter_list on, a shutdown may complete the token. A failure of a `begin`
 * that has completed the job comes too late. */
static tn_code begin_token(void *arg, tn__token *execution) {
  tn_token *token = arg;
  token->execution = execution;
  tn__host_token_retain(token);
  hold_token(token);
  if (!enter_list(token)) {
    tn__host_token_release(token); /* the engine holds it, too */
    return tn__fail(TN_BUSY, "%s was not run: the runtime was shut down",
                    token->job->name);
  }
  tn_code code = call_begin(token);
  if (code != TN_OK && !claim_completion(token, OVER)) code = TN_OK;
  leave_begin(token);
  return code;
}

static void end_token(void *arg) {
  tn_token *token = arg;
  uint32_t waiting = WAITING;
  const tn__env *env = &token->job->rt->env;
  (void)atomic_compare_exchange_strong(&token->state, &waiting, OVER);
  unhold_token(token);
  tn__env_release(env); /* may destroy the runtime */
}

static tn_code create_token(tn__host_job *job, tn_operation *operation,
                            tn_token **out) {
  const tn__env *env = &job->rt->env;
  if (!tn__runtime_try_retain(job->rt))
    return tn__fail(TN_INVALID,
                    "%s: an asynchronous job cannot be pushed while the "
                    "runtime ends; push it before the last release",
                    job->name);
  tn_token *token = tn__zalloc(env, sizeof *token);
  if (!token) {
    tn__env_release(env);
    return tn__fail_memory(sizeof *token, "an asynchronous job");
  }
  token->job = job;
  token->operation = operation;
  if (operation)
    atomic_fetch_add_explicit(&operation->n_holds, 1, memory_order_relaxed);
  atomic_init(&token->n_holds, 1);
  *out = token;
  return TN_OK;
}

tn_code tn__host_push_async(tn__host_job *job, tn_operation *operation) {
  tn_token *token = NULL;
  const tn_code rc = create_token(job, operation, &token);
  if (rc) return operation ? rc : tn__host_job_drop(job, rc);
  tn__job execution = tn__host_job_for_engine(job);
  execution.run = begin_token;
  execution.arg = token;
  execution.drop = end_token;
  return tn__push(job->rt->env.engine, &execution);
}

/* ----------------------------------------------------------------- shutdown */

/* Takes one token out of the list; NULL: there is none. The engine holds it. A
 * token that another thread completes at this moment leaves the list by itself.
 */
static tn_token *take_begun(tn_runtime *rt) {
  (void)pthread_mutex_lock(&rt->begun_lock);
  tn_token *token = rt->begun;
  while (token) {
    uint32_t begun = BEGUN;
    if (atomic_compare_exchange_strong(&token->state, &begun, CANCELLED)) break;
    token = token->next;
  }
  if (token) unlink_token(token);
  (void)pthread_mutex_unlock(&rt->begun_lock);
  return token;
}

static void cancel_begun(tn_runtime *rt) {
  tn_token *token;
  while ((token = take_begun(rt)) != NULL)
    tn__token_done(token->execution,
                   tn__fail(TN_BUSY,
                            "%s was not complete when the runtime was shut "
                            "down",
                            token->job->name));
}

tn_code tn__host_shutdown(tn_runtime *rt) {
  (void)pthread_mutex_lock(&rt->begun_lock);
  atomic_store(&rt->closed, 1);
  (void)pthread_mutex_unlock(&rt->begun_lock);
  tn__engine_abandon(rt->env.engine);
  cancel_begun(rt);
  return tn__runtime_wait_pushed(rt);
}
