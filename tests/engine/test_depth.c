/* SPDX-License-Identifier: Apache-2.0
 * Nested pushes in functions and in drops do not let the stack grow, however
 * deep they are.
 */
#include <criterion/criterion.h>

#include "fixture.h"

enum { DEEP = 200000 };

/* So many of them on a stack would need far more than the usual 8 MiB. */
typedef struct nest {
  tn__engine *engine;
  tn__var *vars; /* used in turns */
  uint32_t n_vars;
  uint32_t flags;
  _Atomic int left;
  _Atomic int dropped;
} nest;

static void push_next(nest *self, run_fn *run, void (*drop)(void *arg)) {
  const int left = atomic_fetch_sub(&self->left, 1);
  if (left <= 0) return;
  tn__var *var = &self->vars[(uint32_t)left % self->n_vars];
  const tn__job job = {.name = "nested",
                       .run = run,
                       .arg = self,
                       .drop = drop,
                       .access = (tn__access[]){U(*var)},
                       .n_access = 1,
                       .flags = self->flags};
  cr_assert_eq(tn__push(self->engine, &job), TN_OK, "%s", tn_error_text());
}

static void count_drop(void *arg) {
  nest *self = arg;
  ++self->dropped;
}

static tn_code run_and_push(void *arg, tn__token *token) {
  (void)token;
  push_next(arg, run_and_push, count_drop);
  return TN_OK;
}

static tn_code run_nothing(void *arg, tn__token *token) {
  (void)arg;
  (void)token;
  return TN_OK;
}

static void drop_and_push(void *arg) {
  count_drop(arg);
  push_next(arg, run_nothing, drop_and_push);
}

static void expect_all(const kind *how, uint32_t n_vars, run_fn *run,
                       void (*drop)(void *arg)) {
  tn__var vars[64] = {0};
  tn__engine *engine = engine_open(how);
  nest self = {.engine = engine,
               .vars = vars,
               .n_vars = n_vars,
               .flags = TN__JOB_SMALL,
               .left = DEEP};
  push_next(&self, run, drop);
  while (self.dropped < DEEP) cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(self.dropped, DEEP, "%s", how->name);
  engine_close(engine);
}

Test(depth, a_function_that_uses_the_same_pushes_the_next, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    expect_all(&kinds[k], 1, run_and_push, count_drop);
}

Test(depth, a_function_that_uses_something_else_pushes_the_next,
     .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    expect_all(&kinds[k], 64, run_and_push, count_drop);
}

Test(depth, a_drop_pushes_the_next, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    expect_all(&kinds[k], 1, run_nothing, drop_and_push);
}

Test(depth, a_drop_pushes_the_next_on_something_else, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    expect_all(&kinds[k], 64, run_nothing, drop_and_push);
}

/* A list in which each piece holds the next and deletes it at its end. */
typedef struct piece {
  tn__var var;
  tn__engine *engine;
  struct piece *next;
  int *ended;
} piece;

static void end_piece(void *arg) {
  piece *self = arg;
  ++*self->ended;
  if (self->next != NULL)
    cr_assert_eq(
        tn__var_delete(self->engine, &self->next->var, end_piece, self->next),
        TN_OK);
}

Test(depth, the_end_of_a_variable_deletes_the_next, .timeout = 100) {
  static piece pieces[DEEP];
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    int ended = 0;
    for (int i = 0; i < DEEP; ++i)
      pieces[i] = (piece){.engine = engine,
                          .next = i + 1 < DEEP ? &pieces[i + 1] : NULL,
                          .ended = &ended};
    cr_assert_eq(tn__var_delete(engine, &pieces[0].var, end_piece, &pieces[0]),
                 TN_OK);
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < DEEP)
      cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(ended, DEEP, "%s", kinds[k].name);
    engine_close(engine);
  }
}
