/* SPDX-License-Identifier: Apache-2.0
 * The one rule: functions that share a variable which at least one of them
 * writes run in push order. All others may run together.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

static tn_code run_store_self(void *arg, tn__token *token) {
  (void)token;
  *(pthread_t *)arg = pthread_self();
  return TN_OK;
}

Test(order, a_function_runs_once_with_its_argument) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    cr_assert_eq(push(engine, run_count, &n, ON(U(x))), TN_OK);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    cr_assert_eq(n, 1, "%s", kinds[k].name);
    engine_close(engine);
  }
}

Test(order, a_function_without_variables_runs_too) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    _Atomic int n = 0;
    for (int i = 0; i < 100; ++i)
      cr_assert_eq(push(engine, run_count, &n, NULL, 0), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    cr_assert_eq(n, 100, "%s", kinds[k].name);
    engine_close(engine);
  }
}

static void expect_appended(const order *log, int n, const char *title) {
  cr_assert_eq(log->n, n, "%s", title);
  for (int i = 0; i < n; ++i) cr_assert_eq(log->v[i], i, "%s, at %d", title, i);
}

Test(order, writers_of_one_variable_append_in_push_order) {
  static note notes[1000];
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    order log = {0};
    for (int i = 0; i < 1000; ++i) {
      notes[i] = (note){&log, i};
      const tn__job job = {.name = "append",
                           .run = run_note,
                           .arg = &notes[i],
                           .access = (tn__access[]){U(x)},
                           .n_access = 1,
                           .flags = i % 3 == 0 ? TN__JOB_SMALL : 0};
      cr_assert_eq(tn__push(engine, &job), TN_OK);
    }
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
    expect_appended(&log, 1000, kinds[k].name);
    engine_close(engine);
  }
}

Test(order, a_prepared_operation_appends_like_a_thousand_pushes) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    tn__operation *add = NULL;
    _Atomic int n = 0;
    const tn__job job = {.name = "add",
                         .run = run_count,
                         .arg = &n,
                         .access = (tn__access[]){R(y), U(x)},
                         .n_access = 2};
    cr_assert_eq(tn__operation_create(engine, &job, &add), TN_OK);
    for (int i = 0; i < 1000; ++i) cr_assert_eq(tn__operation_push(add), TN_OK);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_WRITERS, TN__FOREVER), TN_OK);
    cr_assert_eq(n, 1000, "%s", kinds[k].name);
    tn__operation_delete(add);
    engine_close(engine);
  }
}

/* ---------------------------------------------------------------- together */

typedef struct meeting {
  pthread_barrier_t *barrier;
  note note;
} meeting;

static tn_code run_meet(void *arg, tn__token *token) {
  meeting *self = (meeting *)arg;
  pthread_barrier_wait(self->barrier);
  return run_note(&self->note, token);
}

Test(order, readers_run_together_between_writers, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  pthread_barrier_t barrier;
  tn__var x = {0};
  order log = {0};
  pthread_barrier_init(&barrier, NULL, 2);
  meeting first = {&barrier, {&log, 1}}, second = {&barrier, {&log, 2}};
  note write = {&log, 3}, third = {&log, 4};
  push(engine, run_meet, &first, ON(R(x)));
  push(engine, run_meet, &second, ON(R(x)));
  push(engine, run_note, &write, ON(U(x)));
  push(engine, run_note, &third, ON(R(x)));
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(log.n, 4);
  cr_assert_eq(log.v[0] + log.v[1], 3); /* 1 and 2, in some order */
  cr_assert_eq(log.v[2], 3);
  cr_assert_eq(log.v[3], 4);
  engine_close(engine);
}

Test(order, readers_that_waited_for_a_writer_run_together, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  pthread_barrier_t barrier;
  tn__var x = {0};
  order log = {0};
  held writer;
  pthread_barrier_init(&barrier, NULL, 2);
  meeting first = {&barrier, {&log, 1}}, second = {&barrier, {&log, 2}};
  held_begin(engine, &writer, ON(U(x)));
  push(engine, run_meet, &first, ON(R(x)));
  push(engine, run_meet, &second, ON(R(x)));
  held_end(&writer, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(log.n, 2);
  engine_close(engine);
}

Test(order, functions_without_a_common_variable_run_together, .timeout = 100) {
  enum { N = 4 };
  tn__engine *engine = engine_dispatch(N);
  pthread_barrier_t barrier;
  tn__var x[N] = {0};
  order log = {0};
  meeting all[N];
  pthread_barrier_init(&barrier, NULL, N);
  for (int i = 0; i < N; ++i) {
    all[i] = (meeting){&barrier, {&log, i}};
    push(engine, run_meet, &all[i], ON(U(x[i])));
  }
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(log.n, N);
  engine_close(engine);
}

Test(order, a_writer_waits_for_each_reader, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  _Atomic int n = 0;
  held first, second;
  held_begin(engine, &first, ON(R(x)));
  held_begin(engine, &second, ON(R(x)));
  push(engine, run_count, &n, ON(W(x)));
  held_end(&second, TN_OK);
  cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, 1000), TN_BUSY);
  cr_assert_eq(n, 0);
  held_end(&first, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, 1);
  engine_close(engine);
}

Test(order, a_reader_does_not_pass_a_writer_that_waits, .timeout = 100) {
  tn__engine *engine = engine_dispatch(2);
  tn__var x = {0}, y = {0};
  order log = {0};
  note write = {&log, 1}, read = {&log, 2}, other = {&log, 0};
  held reader;
  held_begin(engine, &reader, ON(R(x)));
  push(engine, run_note, &write, ON(U(x)));
  push(engine, run_note, &read, ON(R(x), U(y)));
  push(engine, run_note, &other, NULL, 0);
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_WRITERS, 1000), TN_BUSY);
  held_end(&reader, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(log.n, 3);
  int at_write = log.v[0] == 1 ? 0 : log.v[1] == 1 ? 1 : 2;
  int at_read = log.v[0] == 2 ? 0 : log.v[1] == 2 ? 1 : 2;
  cr_assert_lt(at_write, at_read);
  engine_close(engine);
}

/* ------------------------------------------------------------ which thread */

typedef struct wait_for {
  sem_t go;
  sem_t over;
  pthread_t thread;
} wait_for;

static tn_code run_wait_for(void *arg, tn__token *token) {
  wait_for *self = (wait_for *)arg;
  (void)token;
  while (sem_wait(&self->go)) continue;
  self->thread = pthread_self();
  sem_post(&self->over);
  return TN_OK;
}

/* The function can only go on after push has returned. */
Test(order, push_returns_before_the_function_does, .timeout = 100) {
  tn__engine *engine = engine_dispatch(1);
  tn__var x = {0};
  wait_for self;
  sem_init(&self.go, 0, 0);
  sem_init(&self.over, 0, 0);
  cr_assert_eq(push(engine, run_wait_for, &self, ON(U(x))), TN_OK);
  sem_post(&self.go);
  while (sem_wait(&self.over)) continue;
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_not(pthread_equal(self.thread, pthread_self()));
  engine_close(engine);
}

Test(order, small_ready_functions_run_inside_of_push) {
  tn__engine *engine = engine_pooled(2);
  tn__var x = {0};
  pthread_t thread;
  const tn__job job = {.name = "who",
                       .run = run_store_self,
                       .arg = &thread,
                       .access = (tn__access[]){U(x)},
                       .n_access = 1,
                       .flags = TN__JOB_SMALL};
  for (int i = 0; i < 10; ++i) {
    memset(&thread, 0, sizeof thread);
    cr_assert_eq(tn__push(engine, &job), TN_OK);
    cr_assert(pthread_equal(thread, pthread_self()));
  }
  engine_close(engine);
}

Test(order, the_naive_engine_runs_everything_inside_of_push) {
  tn__engine *engine = engine_open(&kinds[0]);
  tn__var x = {0};
  pthread_t thread;
  memset(&thread, 0, sizeof thread);
  cr_assert_eq(push(engine, run_store_self, &thread, ON(U(x))), TN_OK);
  cr_assert(pthread_equal(thread, pthread_self()));
  engine_close(engine);
}

Test(order, the_gate_lets_its_owner_in_and_keeps_order, .timeout = 100) {
  tn__engine *engine = engine_pooled(1);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0;
  held writer;
  held_begin(engine, &writer, ON(U(x)));
  for (int i = 0; i < 100; ++i) push(engine, run_count, &n, ON(U(y)));
  cr_assert_eq(tn__wait(engine, &y, TN__WAIT_ALL, TN__FOREVER), TN_OK);
  cr_assert(tn__gate_enter(engine),
            "after so many pushes the gate has an owner");
  cr_assert(tn__var_is_writable(&y));
  cr_assert(tn__var_is_readable(&y));
  cr_assert_not(tn__var_is_readable(&x));
  cr_assert_not(tn__gate_enter(engine), "not twice");
  tn__gate_leave(engine);
  held_end(&writer, TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert(tn__var_is_writable(&x));
  cr_assert_eq(n, 100);
  engine_close(engine);
}

Test(order, a_push_between_enter_and_leave_is_refused) {
  tn__engine *engine = engine_pooled(1);
  tn__var x = {0};
  _Atomic int n = 0;
  for (int i = 0; i < 100; ++i) push(engine, run_count, &n, ON(U(x)));
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert(tn__gate_enter(engine));
  cr_assert_eq(push(engine, run_count, &n, ON(U(x))), TN_INVALID);
  tn__gate_leave(engine);
  cr_assert_eq(push(engine, run_count, &n, ON(U(x))), TN_OK);
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert_eq(n, 101);
  engine_close(engine);
}

/* --------------------------------------------------------------------- uses */

typedef struct training {
  double w;
  double seen[200];
  int n;
} training;

static tn_code run_update(void *arg, tn__token *token) {
  training *self = (training *)arg;
  (void)token;
  self->w += 0.5;
  return TN_OK;
}

static tn_code run_forward(void *arg, tn__token *token) {
  training *self = (training *)arg;
  (void)token;
  self->seen[self->n++] = self->w;
  return TN_OK;
}

Test(order, weights_are_read_between_updates_as_in_serial) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    training self = {0};
    tn__var w = {0}, seen = {0};
    for (int i = 0; i < 200; ++i) {
      push(engine, run_update, &self, ON(U(w)));
      push(engine, run_forward, &self, ON(R(w), U(seen)));
    }
    cr_assert_eq(tn__wait(engine, &seen, TN__WAIT_ALL, TN__FOREVER), TN_OK);
    for (int i = 0; i < 200; ++i)
      cr_assert_eq(self.seen[i], 0.5 * (i + 1), "%s", kinds[k].name);
    engine_close(engine);
  }
}

/* Every draw changes the generator's variable. So four workers draw the same
 * numbers as one: a counter gives 0, 1, 2 ... */
typedef struct draw {
  int *counter;
  int got;
} draw;

static tn_code run_draw(void *arg, tn__token *token) {
  draw *self = (draw *)arg;
  (void)token;
  self->got = (*self->counter)++;
  return TN_OK;
}

Test(order, a_shared_generator_gives_the_same_numbers_each_time) {
  tn__engine *engine = engine_dispatch(4);
  for (int run = 0; run < 100; ++run) {
    tn__var generator = {0}, out[20] = {0};
    draw draws[20];
    int counter = 0;
    for (int i = 0; i < 20; ++i) {
      draws[i].counter = &counter;
      push(engine, run_draw, &draws[i], ON(W(out[i]), U(generator)));
    }
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    for (int i = 0; i < 20; ++i) cr_assert_eq(draws[i].got, i);
  }
  engine_close(engine);
}
