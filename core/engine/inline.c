/* SPDX-License-Identifier: Apache-2.0
 * inline.c: the fast path of a thread that does not own the gate. It passes the
 * gate as a push does, takes grants on its variables, and runs on the spot. It
 * needs no token of the slab, and it never waits.
 */
#include <assert.h>
#include <fenv.h>

#include "engine.h"
#include "kinds.h"
#include "push.h"
#include "token_execution.h"

/* False if a push has to decide: nothing may run on the pushing thread, or this
 * thread already runs a function. */
static bool can_run_inline(const tn__engine *engine) {
  return engine->kind == &tn__kind_pooled &&
         atomic_load_explicit(&engine->tracing, memory_order_relaxed) == 0 &&
         atomic_load_explicit(&engine->abandoned, memory_order_relaxed) == 0 &&
         !tn__is_inside(engine) && !tn__gate_is_mine(engine);
}

static tn_code run_inline_job(void *arg, tn__token *token) {
  const tn__inline_job *inline_job = arg;
  (void)token;
  return inline_job->run(inline_job->arg);
}

static bool choose_and_grant(tn__engine *engine,
                             const tn__inline_job *inline_job,
                             tn__token *token) {
  tn__access access[TN__INLINE_ACCESS];
  tn__job job = {.name = inline_job->name,
                 .run = run_inline_job,
                 .arg = (void *)(uintptr_t)inline_job,
                 .access = access,
                 .flags = TN__JOB_SMALL};
  const uint64_t self = tn__self_get();
  tn__gate_take(engine);
  atomic_store_explicit(&engine->chooser, self, memory_order_relaxed);
  job.n_access = inline_job->choose(inline_job->arg, access);
  atomic_store_explicit(&engine->chooser, 0, memory_order_relaxed);
  const bool chosen = job.n_access != TN__INLINE_REFUSED;
  if (chosen) {
    tn__token_fill(token, &job);
    const bool granted = tn__token_acquire(token, NULL);
    assert(granted); /* all variables were free, and no push came since */
    (void)granted;
  }
  tn__gate_give(engine);
  return chosen;
}

bool tn__run_inline(tn__engine *engine, const tn__inline_job *inline_job,
                    tn_code *code) {
  tn__claim claims[TN__INLINE_ACCESS];
  tn__token token = {
      .engine = engine, .flags = TN__TOKEN_STACK, .claims = claims};
  if (!can_run_inline(engine) || !choose_and_grant(engine, inline_job, &token))
    return false;
  /* Workers may take part; all parts must be computed in the same
   * floating-point environment. */
  fenv_t floating;
  (void)fegetenv(&floating);
  (void)fesetenv(FE_DFL_ENV);
  *code = tn__token_run(&token);
  (void)fesetenv(&floating);
  return true;
}
