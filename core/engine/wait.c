/* SPDX-License-Identifier: Apache-2.0
 * wait.c: waiting: for one variable, for one function, and for everything.
 *
 * Everything is counted in *epochs*: a token is counted as pushed in the epoch
 * that goes on, under the gate, and as complete in the slab, where each thread
 * has its own count. tn__wait_all begins the other epoch and waits until the
 * two counts of the old one are equal; so it does not wait for what is pushed
 * meanwhile, and nobody shares a counter.
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool.h"

/* ------------------------------------------------------------- one variable */

/* What of a word says that there is something to wait for. */
static uint64_t busy_bits(uint32_t what) {
  const uint64_t writers = TN__VAR_LOCK | TN__VAR_WRITER | TN__VAR_QUEUED;
  return what == TN__WAIT_ALL ? writers | TN__VAR_READERS : writers;
}

static uint64_t deadline_of(uint64_t ns) {
  if (ns == TN__FOREVER) return ns;
  const uint64_t now = tn__now();
  return ns >= TN__FOREVER - now ? TN__FOREVER : now + ns;
}

static tn_code timed_out(void) {
  return tn__fail(TN_BUSY, "the time to wait was up, and the result not there");
}

static void grant(tn__link *link) {
  while (link != NULL) {
    tn__token *token = link->token;
    link = tn__link_next(link);
    tn__token_granted(token);
  }
}

/* False when the time was up before the grant came. */
static bool await_grant(tn__token *token, uint64_t deadline) {
  tn__engine *engine = token->engine;
  tn__link *others;
  if (tn__pool_await(engine->pool, &token->over, 0, deadline)) return true;
  if (tn__var_cancel(token->links, &others)) {
    grant(others);
    return false;
  }
  /* Somebody is about to grant it, and uses this thread's stack. */
  return tn__pool_await(engine->pool, &token->over, 0, TN__FOREVER);
}

/* It is this thread's turn; devices may still be at work. */
static tn_code look(tn__var *var, uint32_t what, uint64_t deadline) {
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  if ((word & TN__VAR_FENCE) != 0 && !tn__fence_wait(var, what, deadline))
    return timed_out();
  return tn__var_check(var);
}

/* False: the time was up before it could ask. */
static bool ask_for_grant(tn__token *token, uint64_t deadline) {
  tn__engine *engine = token->engine;
  if (engine->post != NULL) return tn__post_here(token, deadline);
  const uint64_t owner = tn__gate_borrow(engine);
  if (tn__var_acquire(token->links)) atomic_store(&token->over, 1);
  tn__gate_return(engine, owner);
  return true;
}

static tn_code wait_granted(tn__engine *engine, tn__var *var, uint32_t what,
                            uint64_t deadline) {
  tn__link link = {.var = var};
  tn__token token = {.engine = engine,
                     .n_links = 1,
                     .links = &link,
                     .wait = 1,
                     .flags = TN__TOKEN_WAIT | TN__TOKEN_STACK};
  link.token = &token;
  link.mode = what == TN__WAIT_ALL ? TN__UPDATE : TN__READ;
  link.may_leave = deadline != TN__FOREVER;
  if (!ask_for_grant(&token, deadline) || !await_grant(&token, deadline))
    return timed_out();
  const tn_code code = look(var, what, deadline);
  grant(tn__var_release(&link));
  return code;
}

/* In its turn, nothing else uses the variable. */
static tn_code wait_naive(tn__engine *engine, tn__var *var, uint32_t what,
                          uint64_t deadline) {
  const uint64_t owner = tn__gate_borrow(engine);
  const tn_code code = look(var, what, deadline);
  tn__gate_return(engine, owner);
  return code;
}

tn_code tn__wait(tn__engine *engine, tn__var *var, uint32_t what, uint64_t ns) {
  /* Before the word, which says only then what it is used for. */
  const bool settled = tn__post_settled(engine);
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  const uint64_t busy = word & busy_bits(what);
  TN__TRY(tn__outside(engine, "a wait"));
  if (settled && (busy | (word & (TN__VAR_ERROR | TN__VAR_FENCE))) == 0)
    return TN_OK;
  if (engine->kind == &tn__kind_naive)
    return wait_naive(engine, var, what, deadline_of(ns));
  if (ns == 0 && (busy & ~TN__VAR_LOCK) != 0) return timed_out();
  return wait_granted(engine, var, what, deadline_of(ns));
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
  if (engine->post != NULL)
    (void)tn__post_here(token, TN__FOREVER);
  else
    push_here(token);
  do {
    (void)tn__pool_await(engine->pool, &token->over, 0, TN__FOREVER);
    atomic_store(&token->over, 0);
  } while (tn__token_parked(token));
  return tn__token_run(token);
}

static tn_code run_on_stack(tn__engine *engine, const tn__job *job) {
  tn__link links[TN__LINKS_HERE];
  tn__token token = {
      .engine = engine, .flags = TN__TOKEN_STACK, .links = links};
  tn__token_fill(&token, job);
  return run_in_turn(&token);
}

static tn_code check_here(tn__engine *engine, const tn__job *job) {
  TN__TRY(tn__outside(engine, "running a function in its turn"));
  if ((job->flags & TN__JOB_ASYNC) == 0 && job->queue == NULL) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s cannot run on the calling thread: it is asynchronous, or "
                  "of a device queue; push it and wait for what it writes",
                  job->name != NULL ? job->name : "a function");
}

tn_code tn__run_here(tn__engine *engine, const tn__job *job) {
  tn_code code = check_here(engine, job);
  if (code != TN_OK) return tn__job_failed(job, code);
  if (tn__push_short(engine, job, &code)) return code;
  if (engine->kind == &tn__kind_naive)
    return engine->kind->push(engine, job, NULL);
  if (job->n_access <= TN__LINKS_HERE) return run_on_stack(engine, job);
  tn__token *token = tn__token_of(engine, job, NULL);
  if (token == NULL) return tn__job_failed(job, TN_OUT_OF_MEMORY);
  return run_in_turn(token);
}

/* --------------------------------------------------------------- everything */

/* Complete ones are counted first: if the sums are equal then, they were so at
 * the moment between. */
static bool over(const tn__engine *engine, uint32_t epoch) {
  uint64_t completed = tn__slab_completed(engine->slab, epoch);
  if (engine->post != NULL)
    completed += atomic_load_explicit(&engine->post->n_completed[epoch],
                                      memory_order_acquire);
  return completed ==
         atomic_load_explicit(&engine->n_pushed[epoch], memory_order_acquire);
}

/* The count went up before, in a plain store. That either this thread reads the
 * mark of the one that waits, or that one the count, is what its membarrier is
 * for; without one, both change the same word. */
void tn__drain_notify(tn__engine *engine) {
  atomic_signal_fence(memory_order_seq_cst);
  if (engine->gate_allowed == 0) atomic_fetch_add(&engine->draining, 0);
  if (atomic_load_explicit(&engine->draining, memory_order_relaxed) == 0)
    return;
  /* Of two that come to this line one sees the other's count. */
  const uint32_t draining = atomic_fetch_add(&engine->draining, 0);
  if (draining == 0 || !over(engine, draining - 1)) return;
  atomic_fetch_add(&engine->drained, 1);
  tn__pool_wake(&engine->drained);
}

static void await_epoch(tn__engine *engine, uint32_t epoch) {
  atomic_store(&engine->draining, epoch + 1);
  if (engine->gate_allowed != 0)
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  for (;;) {
    const uint32_t seen = atomic_load(&engine->drained);
    if (over(engine, epoch)) break;
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

static bool all_over(const tn__engine *engine) {
  return over(engine, 0) && over(engine, 1);
}

void tn__drain(tn__engine *engine) {
  while (!all_over(engine)) end_epoch(engine);
}

void tn__settle(tn__engine *engine) {
  if (!all_over(engine)) end_epoch(engine);
  tn__queues_await(engine);
}

static tn_code tell(tn__error *first, uint64_t n) {
  const tn_code code = tn__error_say(first);
  if (n > 1)
    (void)tn__fail_more(code, "\n(the first of %llu failures)",
                        (unsigned long long)n);
  for (const tn__error *each = first->next; each != NULL; each = each->next)
    (void)tn__fail_more(code, "\n%s", each->text);
  return code;
}

tn_code tn__wait_all(tn__engine *engine) {
  uint64_t n;
  TN__TRY(tn__outside(engine, "a wait for everything"));
  tn__settle(engine);
  tn__error *first = tn__error_collect(engine, &n);
  if (n == 0) return TN_OK;
  const tn_code code =
      first != NULL ? tell(first, n) : tn__error_say(engine->no_memory);
  while (first != NULL) {
    tn__error *next = first->next;
    tn__error_release(first);
    first = next;
  }
  return code;
}
