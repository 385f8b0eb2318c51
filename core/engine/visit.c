/* SPDX-License-Identifier: Apache-2.0
 * visit.c: the short way of a thread that does not own the gate. It passes the
 * gate as a push does, marks what it uses, and runs on the spot; there is no
 * token of the slab and no way to wait.
 */
#include <assert.h>
#include <fenv.h>

#include "pool.h"

/* Where nothing may run on the pushing thread, or only in line with what this
 * thread runs already, a push decides. */
static bool may_visit(const tn__engine *engine) {
  return engine->kind == &tn__kind_pooled &&
         atomic_load_explicit(&engine->tracing, memory_order_relaxed) == 0 &&
         atomic_load_explicit(&engine->abandoned, memory_order_relaxed) == 0 &&
         !tn__inside(engine) && !tn__gate_mine(engine);
}

static tn_code run_visitor(void *arg, tn__token *token) {
  const tn__visitor *visitor = arg;
  (void)token;
  return visitor->run(visitor->arg);
}

static bool begin(tn__engine *engine, const tn__visitor *visitor,
                  tn__token *token) {
  tn__access access[TN__VISIT_ACCESS];
  tn__job job = {.name = visitor->name,
                 .run = run_visitor,
                 .arg = (void *)(uintptr_t)visitor,
                 .access = access,
                 .flags = TN__JOB_SMALL};
  const uint64_t self = tn__self_get();
  tn__gate_take(engine);
  atomic_store_explicit(&engine->chooser, self, memory_order_relaxed);
  job.n_access = visitor->choose(visitor->arg, access);
  atomic_store_explicit(&engine->chooser, 0, memory_order_relaxed);
  const bool chosen = job.n_access != TN__VISIT_NOT;
  if (chosen) {
    tn__token_fill(token, &job);
    const bool granted = tn__token_acquire(token, NULL);
    assert(granted); /* everything was free, and nobody has pushed since */
    (void)granted;
  }
  tn__gate_give(engine);
  return chosen;
}

bool tn__visit(tn__engine *engine, const tn__visitor *visitor, tn_code *code) {
  tn__link links[TN__VISIT_ACCESS];
  tn__token token = {
      .engine = engine, .flags = TN__TOKEN_STACK, .links = links};
  if (!may_visit(engine) || !begin(engine, visitor, &token)) return false;
  /* Workers take part, and all parts are to be computed in the same way. */
  fenv_t floating;
  (void)fegetenv(&floating);
  (void)fesetenv(FE_DFL_ENV);
  *code = tn__token_run(&token);
  (void)fesetenv(&floating);
  return true;
}
