/* SPDX-License-Identifier: Apache-2.0
 * Inline jobs: a thread runs them on the spot although it does not own the
 * gate.
 */
#include <criterion/criterion.h>

#include "fixture.h"

/* An inline job that adds to a number; `var` orders the additions. */
typedef struct adder {
  tn__engine *engine;
  tn__var *var;
  int *number;
  int runs;
  bool decline;
  tn_code code;
} adder;

static uint32_t adder_choose(void *arg, tn__access *access) {
  adder *a = arg;
  if (a->decline || !tn__var_is_writable(a->var)) return TN__INLINE_REFUSED;
  access[0] = (tn__access){a->var, TN__UPDATE, 0};
  access[1] = access[0]; /* listed twice, as callers may */
  return 2;
}

static tn_code adder_run(void *arg) {
  adder *a = arg;
  ++*a->number;
  ++a->runs;
  return a->code ? tn__fail(a->code, "boom") : TN_OK;
}

static bool try_inline(adder *a, tn_code *code) {
  const tn__inline_job visitor = {"adder", adder_choose, adder_run, a};
  return tn__run_inline(a->engine, &visitor, code);
}

Test(run_inline, runs_on_the_spot_and_leaves_nothing) {
  tn__engine *engine = engine_pooled(1);
  tn__var var = {0};
  int number = 0;
  tn_code code = TN_BUSY;
  adder a = {.engine = engine, .var = &var, .number = &number};
  for (int i = 0; i < 3; ++i) cr_assert(try_inline(&a, &code));
  cr_assert_eq(code, TN_OK);
  cr_assert_eq(number, 3);
  cr_assert_eq(atomic_load(&var.word), 0);
  a.decline = true;
  cr_assert_not(try_inline(&a, &code));
  cr_assert_eq(number, 3);
  engine_close(engine);
}

Test(run_inline, is_not_made_while_the_variable_is_used) {
  tn__engine *engine = engine_pooled(1);
  tn__var var = {0};
  int number = 0;
  tn_code code = TN_OK;
  held job;
  adder a = {.engine = engine, .var = &var, .number = &number};
  held_begin(engine, &job, ON(W(var)));
  cr_assert_not(try_inline(&a, &code));
  held_end(&job, TN_OK);
  cr_assert_eq(tn__wait(engine, &var, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert(try_inline(&a, &code));
  engine_close(engine);
}

Test(run_inline, leaves_its_error_on_written_variables) {
  tn__engine *engine = engine_pooled(1);
  tn__var var = {0};
  int number = 0;
  tn_code code = TN_OK;
  adder a = {
      .engine = engine, .var = &var, .number = &number, .code = TN_INVALID};
  cr_assert(try_inline(&a, &code));
  cr_assert_eq(code, TN_INVALID);
  EXPECT_TEXT("boom");
  cr_assert_eq(tn__var_check(&var), TN_INVALID);
  EXPECT_TEXT("adder", "boom");
  cr_assert_eq(tn__wait_all(engine), TN_INVALID);
  cr_assert_not(try_inline(&a, &code), "it carries an error");
  tn__var_deinit(&var);
  engine_close(engine);
}

static tn_code try_inline_inside(void *arg, tn__token *token) {
  tn_code code = TN_OK;
  (void)token;
  return try_inline(arg, &code) ? TN_INTERNAL : TN_OK;
}

Test(run_inline, is_not_made_from_inside_or_where_nothing_runs_on_the_spot) {
  tn__var var = {0}, other = {0};
  int number = 0;
  tn_code code = TN_OK;
  for (size_t i = 0; i < N_KINDS; ++i) {
    tn__engine *engine = engine_open(&kinds[i]);
    adder a = {.engine = engine, .var = &var, .number = &number};
    cr_assert_eq(push(engine, try_inline_inside, &a, ON(W(other))), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    if (kinds[i].kind == TN__ENGINE_NAIVE || kinds[i].dispatch)
      cr_assert_not(try_inline(&a, &code));
    engine_close(engine);
  }
  cr_assert_eq(number, 0);
}

enum { ROUNDS = 20000, THREADS = 3 };

/* Runs inline if possible, and pushes otherwise. */
static tn_code run_add(void *arg, tn__token *token) {
  (void)token;
  return adder_run(arg);
}

static void *add_many(void *arg) {
  adder *a = arg;
  tn_code code = TN_OK;
  const tn__access access[] = {{a->var, TN__UPDATE, 0}};
  for (int i = 0; i < ROUNDS; ++i)
    if (!try_inline(a, &code))
      (void)tn__push(a->engine, &(tn__job){.name = "add",
                                           .run = run_add,
                                           .arg = a,
                                           .access = access,
                                           .n_access = 1,
                                           .flags = TN__JOB_SMALL});
  return NULL;
}

Test(run_inline, threads_take_turns) {
  tn__engine *engine = engine_pooled(1);
  tn__var var = {0};
  int number = 0;
  pthread_t threads[THREADS];
  adder adders[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    adders[i] = (adder){.engine = engine, .var = &var, .number = &number};
    cr_assert_eq(pthread_create(&threads[i], NULL, add_many, &adders[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i)
    cr_assert_eq(pthread_join(threads[i], NULL), 0);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(number, THREADS * ROUNDS);
  cr_assert_eq(atomic_load(&var.word), 0);
  engine_close(engine);
}
