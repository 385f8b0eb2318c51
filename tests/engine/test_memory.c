/* SPDX-License-Identifier: Apache-2.0
 * Every allocation fails in turn. A call then either takes full effect, or has
 * no effect and reports that; no memory is lost.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

/* Numbers of functions that ran and of drops. */
typedef struct counts {
  _Atomic int ran;
  _Atomic int dropped;
} counts;

static tn_code run_one(void *arg, tn__token *token) {
  (void)token;
  atomic_fetch_add(&((counts *)arg)->ran, 1);
  return TN_OK;
}

static void drop_one(void *arg) {
  atomic_fetch_add(&((counts *)arg)->dropped, 1);
}

Test(memory, an_engine_is_created_or_is_not) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = NULL;
    const tn__engine_options options = {.env = memory_env(),
                                        .kind = kinds[k].kind,
                                        .workers = kinds[k].workers};
    int64_t at = 1;
    for (;; ++at) {
      memory_fail_at(at, false);
      const tn_code code = tn__engine_create(&options, &engine);
      memory_fail_at(0, false);
      if (code == TN_OK) break;
      cr_assert_eq(code, TN_OUT_OF_MEMORY, "%s: %d", kinds[k].name, (int)at);
      cr_assert_null(engine);
      cr_assert_eq(memory.living, 0, "%s: %d", kinds[k].name, (int)at);
    }
    cr_assert_gt(at, 2, "only %d allocations", (int)at);
    engine_close(engine);
  }
}

enum { PUSHES = 40, MANY = 40 /* variables of one function */ };

/* Pushes of several sizes. Returns the number of successes. Every push is
 * dropped. */
static int push_all(tn__engine *engine, counts *c, tn__var *x) {
  tn__access access[MANY];
  int n = 0;
  for (uint32_t i = 0; i < MANY; ++i)
    access[i] = (tn__access){&x[i], i % 3 == 0 ? TN__UPDATE : TN__READ, 0};
  for (int i = 0; i < PUSHES; ++i) {
    const tn__job job = {
        .name = "one",
        .run = run_one,
        .arg = c,
        .drop = drop_one,
        .access = access + i % 5,
        .n_access = i % 4 == 3 ? MANY - 5 : 1 + (uint32_t)i % 3,
        .priority = i % 3 - 1,
        .flags = i % 2 == 0 ? TN__JOB_SMALL : 0};
    const tn_code code = tn__push(engine, &job);
    cr_assert(code == TN_OK || code == TN_OUT_OF_MEMORY, "%d", code);
    if (code == TN_OUT_OF_MEMORY)
      cr_assert_not_null(strstr(tn_error_text(), "memory"));
    n += code == TN_OK;
  }
  return n;
}

static void expect_pushed_or_not(const kind *how, int64_t at, bool for_ever) {
  static tn__var x[MANY];
  tn__engine *engine = engine_open(how);
  counts c = {0, 0};
  memory_fail_at(at, for_ever);
  const int n = push_all(engine, &c, x);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  memory_fail_at(0, false);
  cr_assert_eq(c.ran, n, "%s, %d", how->name, (int)at);
  cr_assert_eq(c.dropped, PUSHES, "%s, %d", how->name, (int)at);
  for (int i = 0; i < MANY; ++i)
    cr_assert(tn__var_is_writable(&x[i]), "%s, %d", how->name, (int)at);
  cr_assert_eq(push_all(engine, &c, x), PUSHES, "and it goes on");
  engine_close(engine);
}

Test(memory, a_function_is_pushed_or_is_not, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    for (int64_t at = 1; at < 12; ++at) {
      expect_pushed_or_not(&kinds[k], at, false);
      expect_pushed_or_not(&kinds[k], at, true);
    }
}

/* The failure of a function is known although there is no memory for it. */
Test(memory, an_error_needs_none) {
  for (int k = 0; k < N_KINDS; ++k) {
    for (int64_t at = 1; at < 5; ++at) {
      tn__engine *engine = engine_open(&kinds[k]);
      tn__var x = {0}, y = {0};
      _Atomic int n = 0;
      /* The engine has memory for pending tokens, but not for errors. */
      cr_assert_eq(push(engine, run_count, &n, ON(U(x))), TN_OK);
      cr_assert_eq(push(engine, run_count, &n, ON(U(y))), TN_OK);
      cr_assert_eq(tn__wait_all(engine), TN_OK);
      memory_fail_at(at, true);
      const tn_code first =
          push(engine, run_boom, (void *)(uintptr_t) "x", ON(W(x)));
      const tn_code second = push(engine, run_count, &n, ON(R(x), W(y)));
      const tn_code code = tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER);
      const bool pushed = tn__var_check(&x) != TN_OK;
      if (pushed)
        cr_assert(code == TN_INVALID || code == TN_OUT_OF_MEMORY ||
                  second == TN_OUT_OF_MEMORY);
      else
        cr_assert_eq(first, TN_OUT_OF_MEMORY, "%s", kinds[k].name);
      cr_assert_eq(tn__wait_all(engine) != TN_OK, pushed, "%s, %d",
                   kinds[k].name, (int)at);
      memory_fail_at(0, false);
      tn__var_deinit(&x);
      tn__var_deinit(&y);
      engine_close(engine);
    }
  }
}

Test(memory, an_operation_is_created_or_is_not) {
  tn__engine *engine = engine_pooled(1);
  tn__operation *op = NULL;
  tn__var x = {0}, y = {0};
  counts c = {0, 0};
  const tn__job job = {.name = "op",
                       .run = run_one,
                       .arg = &c,
                       .drop = drop_one,
                       .access = (tn__access[]){R(x), U(y)},
                       .n_access = 2};
  const int64_t before = memory.living;
  for (int64_t at = 1; at <= 2; ++at) {
    memory_fail_at(at, false);
    cr_assert_eq(tn__operation_create(engine, &job, &op), TN_OUT_OF_MEMORY);
    memory_fail_at(0, false);
    cr_assert_null(op);
    cr_assert_eq(memory.living, before);
  }
  cr_assert_eq(c.dropped, 0);
  engine_close(engine);
}

/* Operations that are pushed together, of several sizes, and more than one
 * batch of the engine's memory. */
enum { OPERATIONS = 3, TOGETHER = 2100 };

typedef struct team {
  tn__engine *engine;
  counts c;
  tn__var x[MANY];
  tn__operation *one[OPERATIONS];
  tn__operation *all[TOGETHER];
} team;

static void team_open(team *t, const kind *how) {
  tn__access access[MANY];
  *t = (team){.engine = engine_open(how)};
  for (uint32_t i = 0; i < MANY; ++i)
    access[i] = (tn__access){&t->x[i], i % 3 ? TN__READ : TN__UPDATE, 0};
  for (uint32_t i = 0; i < OPERATIONS; ++i) {
    const tn__job job = {.name = "one",
                         .run = run_one,
                         .arg = &t->c,
                         .drop = drop_one,
                         .access = access,
                         .n_access = i == 2 ? MANY : 1 + 3 * i,
                         .flags = i == 1 ? TN__JOB_SMALL : 0};
    cr_assert_eq(tn__operation_create(t->engine, &job, &t->one[i]), TN_OK);
  }
  for (int i = 0; i < TOGETHER; ++i)
    t->all[i] = t->one[i % 100 == 9 ? 2 : i % 2];
}

static void team_close(team *t) {
  for (int i = 0; i < OPERATIONS; ++i) tn__operation_delete(t->one[i]);
  cr_assert_eq(t->c.dropped, OPERATIONS);
  engine_close(t->engine);
}

/* Returns whether they were pushed. */
static bool expect_all_or_none(const kind *how, int64_t at, bool for_ever) {
  static team t;
  team_open(&t, how);
  memory_fail_at(at, for_ever);
  const tn_code code = tn__operations_push(t.all, TOGETHER);
  if (code != TN_OK) EXPECT_TEXT("memory");
  memory_fail_at(0, false);
  cr_assert_eq(tn__wait_all(t.engine), TN_OK);
  cr_assert_eq(t.c.ran, code == TN_OK ? TOGETHER : 0, "%s, %d: %d ran",
               how->name, (int)at, t.c.ran);
  for (int i = 0; i < MANY; ++i) cr_assert(tn__var_is_writable(&t.x[i]));
  cr_assert_eq(tn__operations_push(t.all, TOGETHER), TN_OK);
  cr_assert_eq(tn__wait_all(t.engine), TN_OK);
  cr_assert_eq(t.c.ran, (code == TN_OK) * TOGETHER + TOGETHER);
  team_close(&t);
  return code == TN_OK;
}

Test(memory, operations_are_pushed_together_or_not_at_all, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    for (int mode = 0; mode < 2; ++mode) {
      int64_t at = 1;
      while (!expect_all_or_none(&kinds[k], at, mode == 1)) ++at;
      cr_assert_gt(at, 4, "%s: only %d allocations", kinds[k].name, (int)at);
    }
}

/* A function that runs on the spot pushes them, so they run after it. */
static tn_code run_team(void *arg, tn__token *token) {
  team *t = arg;
  (void)token;
  const tn_code code = tn__operations_push(t->all, 5);
  cr_assert_eq(t->c.ran, 0);
  return code;
}

Test(memory, a_function_may_push_operations_together, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) {
    static team t;
    team_open(&t, &kinds[k]);
    const tn__access use = {&t.x[0], TN__UPDATE, 0};
    const tn__job job = {.name = "outer",
                         .run = run_team,
                         .arg = &t,
                         .access = &use,
                         .n_access = 1,
                         .flags = TN__JOB_SMALL};
    for (int i = 0; i < 3; ++i) {
      t.c.ran = 0;
      cr_assert_eq(tn__push(t.engine, &job), TN_OK);
      cr_assert_eq(tn__wait_all(t.engine), TN_OK);
      cr_assert_eq(t.c.ran, 5, "%s: %d ran", kinds[k].name, t.c.ran);
    }
    team_close(&t);
  }
}

static void mark_end(void *arg) {
  *(bool *)arg = true;
}

/* After a reader, so that the pending deletion needs memory. */
Test(memory, a_variable_is_deleted_or_is_not, .timeout = 100) {
  for (int64_t at = 1; at < 4; ++at) {
    tn__engine *engine = engine_dispatch(1);
    tn__var x = {0};
    bool ended = false;
    held reader;
    held_begin(engine, &reader, ON(R(x)));
    memory_fail_at(at, true);
    const tn_code code = tn__var_delete(engine, &x, mark_end, &ended);
    memory_fail_at(0, false);
    held_end(&reader, TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(ended, code == TN_OK);
    if (code != TN_OK) {
      cr_assert_eq(code, TN_OUT_OF_MEMORY);
      cr_assert_eq(tn__var_delete(engine, &x, mark_end, &ended), TN_OK);
      cr_assert(ended);
    }
    engine_close(engine);
  }
}

/* A loop needs none. */
static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  atomic_fetch_add((_Atomic int *)arg, (int)(end - begin));
  return TN_OK;
}

Test(memory, a_loop_needs_none) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    _Atomic int n = 0;
    memory_fail_at(1, true);
    cr_assert_eq(tn__parallel_for(engine, 1000, 7, add_slice, &n), TN_OK);
    memory_fail_at(0, false);
    cr_assert_eq(n, 1000);
    engine_close(engine);
  }
}
