/* SPDX-License-Identifier: Apache-2.0
 * wait.c: waits for one variable, for one function, and for everything.
 *
 * Tokens are counted in *epochs*. A token is counted as pushed in the current
 * epoch, under the gate, and as complete in the slab, where each thread has its
 * own counter. tn__wait_all begins the other epoch and waits until the two
 * counts of the old one are equal. So it does not wait for later pushes, and
 * threads share no counter.
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_queue.h"
#include "engine.h"
#include "engine_state.h"
#include "mailbox.h"
#include "push.h"
#include "ready_token.h"
#include "slab.h"
#include "token_execution.h"
#include "travelling_error.h"
#include "wait.h"
#include "workers.h"

/* ------------------------------------------------------------- one variable */

/* The bits of a word that show that there is something to wait for. */
static uint64_t busy_bits(uint32_t condition) {
  const uint64_t writers = TN__VAR_LOCK | TN__VAR_WRITER | TN__VAR_QUEUED;
  return condition == TN__WAIT_ALL ? writers | TN__VAR_READERS : writers;
}

static uint64_t deadline_of(const tn__engine *engine, uint64_t ns) {
  if (ns == TN__UNTIL_INTERRUPTED && engine->env->interrupted != NULL &&
      engine->mailbox == NULL)
    return ns;
  if (ns >= TN__UNTIL_INTERRUPTED) return TN__FOREVER;
  const uint64_t now = tn__now();
  return ns >= TN__FOREVER - now ? TN__FOREVER : now + ns;
}

static tn_code fail_timed_out(void) {
  return tn__fail(TN_BUSY, "the time to wait was up, or it was interrupted");
}

static void grant_claims(tn__claim *claim) {
  while (claim != NULL) {
    tn__token *token = claim->token;
    claim = tn__claim_next(claim);
    tn__token_granted(token);
  }
}

/* False when the time was up before the grant came. */
static bool await_grant(tn__token *token, uint64_t deadline) {
  tn__engine *engine = token->engine;
  tn__claim *others;
  if (tn__pool_await(engine->pool, &token->over, 0, deadline)) return true;
  if (tn__var_cancel(token->claims, &others)) {
    grant_claims(others);
    return false;
  }
  /* Another thread is about to grant it, and uses this thread's stack. */
  return tn__pool_await(engine->pool, &token->over, 0, TN__FOREVER);
}

/* Called in this thread's turn; devices may still be busy. */
static tn_code check_var(tn__var *var, uint32_t condition, uint64_t deadline) {
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  if (deadline == TN__UNTIL_INTERRUPTED) deadline = TN__FOREVER;
  if ((word & TN__VAR_FENCE) != 0 && !tn__fence_wait(var, condition, deadline))
    return fail_timed_out();
  return tn__var_check(var);
}

/* False: the time was up before the request. */
static bool ask_for_grant(tn__token *token, uint64_t deadline) {
  tn__engine *engine = token->engine;
  if (engine->mailbox != NULL) return tn__mailbox_put_waiting(token, deadline);
  const uint64_t owner = tn__gate_borrow(engine);
  if (tn__var_acquire(token->claims)) atomic_store(&token->over, 1);
  tn__gate_return(engine, owner);
  return true;
}

/* Waits of this time and more are in the log. */
enum { SLOW_MS = 100 };

/* When a wait begins; 0 if the log does not want to know. */
static uint64_t begin_wait(const tn__engine *engine) {
  return tn__log_wants(engine->env, TN__LOG_ENGINE, TN_LOG_DEBUG) ? tn__now()
                                                                  : 0;
}

static void log_slow_wait(const tn__engine *engine, uint64_t begin) {
  const uint64_t ms = begin != 0 ? (tn__now() - begin) / 1000000u : 0;
  if (ms >= SLOW_MS)
    tn__log(engine->env, TN__LOG_ENGINE, TN_LOG_DEBUG, "a wait took %llu ms",
            (unsigned long long)ms);
}

static tn_code wait_granted(tn__engine *engine, tn__var *var,
                            uint32_t condition, uint64_t deadline) {
  tn__claim claim = {.var = var};
  tn__token token = {.engine = engine,
                     .n_claims = 1,
                     .claims = &claim,
                     .wait = 1,
                     .flags = TN__TOKEN_WAIT | TN__TOKEN_STACK};
  claim.token = &token;
  claim.mode = condition == TN__WAIT_ALL ? TN__UPDATE : TN__READ;
  claim.may_leave = deadline != TN__FOREVER;
  const uint64_t begin = begin_wait(engine);
  if (!ask_for_grant(&token, deadline) || !await_grant(&token, deadline))
    return fail_timed_out();
  const tn_code code = check_var(var, condition, deadline);
  grant_claims(tn__var_release(&claim));
  log_slow_wait(engine, begin);
  return code;
}

/* Inside of the gate no job uses the variable. */
static tn_code wait_naive(tn__engine *engine, tn__var *var, uint32_t condition,
                          uint64_t deadline) {
  const uint64_t owner = tn__gate_borrow(engine);
  const tn_code code = check_var(var, condition, deadline);
  tn__gate_return(engine, owner);
  return code;
}

tn_code tn__wait(tn__engine *engine, tn__var *var, uint32_t condition,
                 uint64_t ns) {
  /* Loaded before the word, which shows the use of the variable only then. */
  const bool settled = tn__mailbox_is_settled(engine);
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  const uint64_t busy = word & busy_bits(condition);
  TN__TRY(tn__check_outside(engine, "a wait"));
  if (settled && (busy | (word & (TN__VAR_ERROR | TN__VAR_FENCE))) == 0)
    return TN_OK;
  if (tn__engine_is_naive(engine))
    return wait_naive(engine, var, condition, deadline_of(engine, ns));
  if (ns == 0 && (busy & ~TN__VAR_LOCK) != 0) return fail_timed_out();
  return wait_granted(engine, var, condition, deadline_of(engine, ns));
}

/* ------------------------------------------------------------- one function */

static void push_here(tn__token *token) {
  tn__engine *engine = token->engine;
  tn__gate_take(engine);
  if (tn__token_acquire(token, NULL)) atomic_store(&token->over, 1);
  tn__gate_give(engine);
}

static tn_code run_in_turn(tn__token *token) {
  tn__engine *engine = token->engine;
  token->flags |= TN__TOKEN_HERE;
  if (engine->mailbox != NULL)
    (void)tn__mailbox_put_waiting(token, TN__FOREVER);
  else
    push_here(token);
  do {
    (void)tn__pool_await(engine->pool, &token->over, 0, TN__FOREVER);
    atomic_store(&token->over, 0);
  } while (tn__token_try_park(token));
  return tn__token_run(token);
}

static tn_code run_on_stack(tn__engine *engine, const tn__job *job) {
  tn__claim claims[TN__CLAIMS_HERE];
  tn__token token = {
      .engine = engine, .flags = TN__TOKEN_STACK, .claims = claims};
  tn__token_fill(&token, job);
  return run_in_turn(&token);
}

static tn_code check_here(tn__engine *engine, const tn__job *job) {
  TN__TRY(tn__check_outside(engine, "running a function in its turn"));
  if ((job->flags & TN__JOB_ASYNC) == 0 && job->queue == NULL) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s cannot run on the calling thread: it is asynchronous, or "
                  "of a device queue; push it and wait for its variables",
                  job->name != NULL ? job->name : "a function");
}

tn_code tn__run_here(tn__engine *engine, const tn__job *job) {
  tn_code code = check_here(engine, job);
  if (code != TN_OK) return tn__job_drop_failed(job, code);
  if (tn__push_fast(engine, job, &code)) return code;
  if (tn__engine_is_naive(engine)) return engine->kind->push(engine, job, NULL);
  if (job->n_access <= TN__CLAIMS_HERE) return run_on_stack(engine, job);
  tn__token *token = tn__token_create_for(engine, job, NULL);
  if (token == NULL) return tn__job_drop_failed(job, TN_OUT_OF_MEMORY);
  return run_in_turn(token);
}

/* --------------------------------------------------------------- everything */

static void await_epoch(tn__engine *engine, uint32_t epoch) {
  atomic_store(&engine->draining, epoch + 1);
  if (engine->gate_allowed != 0)
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  for (;;) {
    const uint32_t seen = atomic_load(&engine->drained);
    if (tn__epoch_is_over(engine, epoch)) break;
    (void)tn__pool_await(engine->pool, &engine->drained, seen, TN__FOREVER);
  }
  atomic_store(&engine->draining, 0);
}

/* Begins the other epoch, which is empty, and waits for the end of this one. */
static void end_epoch(tn__engine *engine) {
  (void)pthread_mutex_lock(&engine->drain_lock);
  const uint64_t owner = tn__gate_borrow(engine);
  const uint32_t epoch =
      atomic_load_explicit(&engine->epoch, memory_order_relaxed);
  atomic_store_explicit(&engine->epoch, 1 - epoch, memory_order_relaxed);
  tn__gate_return(engine, owner);
  await_epoch(engine, epoch);
  (void)pthread_mutex_unlock(&engine->drain_lock);
}

static bool are_all_over(const tn__engine *engine) {
  return tn__epoch_is_over(engine, 0) && tn__epoch_is_over(engine, 1);
}

void tn__drain(tn__engine *engine) {
  while (!are_all_over(engine)) end_epoch(engine);
}

void tn__wait_for_pushed(tn__engine *engine) {
  if (!are_all_over(engine)) end_epoch(engine);
  tn__queues_await(engine);
}

static tn_code report_errors(tn__error *first, uint64_t n) {
  const tn_code code = tn__error_set_text(first);
  if (n > 1)
    (void)tn__fail_more(code, "\n(the first of %llu failures)",
                        (unsigned long long)n);
  for (const tn__error *each = first->next; each != NULL; each = each->next)
    (void)tn__fail_more(code, "\n%s", each->text);
  return code;
}

tn_code tn__wait_all(tn__engine *engine) {
  uint64_t n;
  TN__TRY(tn__check_outside(engine, "a wait for everything"));
  const uint64_t begin = begin_wait(engine);
  tn__wait_for_pushed(engine);
  log_slow_wait(engine, begin);
  tn__error *first = tn__error_collect(engine, &n);
  if (n == 0) return TN_OK;
  const tn_code code = first != NULL ? report_errors(first, n)
                                     : tn__error_set_text(engine->no_memory);
  while (first != NULL) {
    tn__error *next = first->next;
    tn__error_release(first);
    first = next;
  }
  return code;
}
