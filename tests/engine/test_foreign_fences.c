/* SPDX-License-Identifier: Apache-2.0
 * Failing queues of devices. The results that other queues compute from broken
 * data report the failure too, and all others are unaffected.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "fixture.h"
#include "wait.h"

/* ------------------------------------------------------------------- device */

/* A queue with work that is done when a thread blocks for it. */
typedef struct line {
  _Atomic uint64_t enqueued;
  _Atomic uint64_t done;
  bool broken;
} line;

typedef struct point {
  line *line;
  uint64_t number;
} point;

static _Atomic int n_points;

static tn_code record_point(void *queue, void **fence) {
  line *self = queue;
  point *p = malloc(sizeof *p);
  *p = (point){self, ++self->enqueued};
  *fence = p;
  ++n_points;
  return TN_OK;
}

static tn_code wait_for_point(void *queue, void *fence) {
  (void)queue, (void)fence;
  return TN_OK;
}

static tn_code query_point(void *fence, bool *done) {
  const point *p = fence;
  *done = p->line->done >= p->number;
  return *done && p->line->broken ? tn__fail(TN_DEVICE, "it is bent") : TN_OK;
}

static tn_code block_for_point(void *fence) {
  const point *p = fence;
  bool done = false;
  if (p->line->done < p->number) p->line->done = p->number;
  return query_point(fence, &done);
}

static void drop_point(void *fence) {
  free(fence);
  --n_points;
}

static const tn__queue_ops ops = {record_point, wait_for_point, query_point,
                                  block_for_point, drop_point};

/* -------------------------------------------------------------------- stage */

enum { LINES = 7, SOURCES = 6 /* on a queue each, but the last */ };

typedef struct stage {
  tn__engine *engine;
  line lines[LINES];
  tn__queue *queues[LINES];
  tn__var x[SOURCES], y, z, sum, other;
} stage;

static void stage_open(stage *s, const kind *how) {
  *s = (stage){.engine = engine_open(how)};
  for (int i = 0; i < LINES; ++i)
    cr_assert_eq(
        tn__queue_create(s->engine, &ops, &s->lines[i], "line", &s->queues[i]),
        TN_OK);
}

static void stage_close(stage *s) {
  (void)tn__wait_all(s->engine);
  for (int i = 0; i < SOURCES; ++i) tn__var_deinit(&s->x[i]);
  tn__var *const rest[] = {&s->y, &s->z, &s->sum, &s->other};
  for (int i = 0; i < 4; ++i) tn__var_deinit(rest[i]);
  for (int i = 0; i < LINES; ++i) tn__queue_destroy(s->queues[i]);
  cr_assert_eq(n_points, 0, "%d fences are left", n_points);
  engine_close(s->engine);
}

static tn_code run_nothing(void *arg, tn__token *token) {
  (void)arg, (void)token;
  return TN_OK;
}

static void push_on(stage *s, int queue, const tn__access *access, uint32_t n) {
  const tn_code code =
      tn__push(s->engine, &(tn__job){.name = "work",
                                     .run = run_nothing,
                                     .access = access,
                                     .n_access = n,
                                     .queue = s->queues[queue]});
  /* The naive engine returns the result. */
  cr_assert(code == TN_OK || tn__engine_is_naive(s->engine), "%s",
            tn_error_text());
}

static tn_code wait_code(stage *s, tn__var *var) {
  return tn__wait(s->engine, var, TN__WAIT_ALL, TN__FOREVER);
}

/* The last queue computes y from all x and z from y; another queue computes a
 * sum of z. */
static void push_all(stage *s) {
  for (int i = 0; i < SOURCES; ++i) push_on(s, i, ON(W(s->x[i])));
  push_on(s, SOURCES,
          ON(R(s->x[0]), R(s->x[1]), R(s->x[2]), R(s->x[3]), R(s->x[4]),
             R(s->x[5]), W(s->y)));
  push_on(s, SOURCES, ON(R(s->y), W(s->z)));
  push_on(s, SOURCES, ON(R(s->x[(s->lines[0].broken ? 1 : 0)]), W(s->other)));
  push_on(s, 1, ON(R(s->z), U(s->sum)));
}

static void expect_failures(stage *s, int broken) {
  cr_assert_neq(wait_code(s, &s->z), TN_OK, "of queue %d", broken);
  cr_assert_neq(wait_code(s, &s->sum), TN_OK, "of queue %d", broken);
  cr_assert_neq(wait_code(s, &s->y), TN_OK, "of queue %d", broken);
  for (int i = 0; i < SOURCES; ++i)
    cr_assert_eq(wait_code(s, &s->x[i]) != TN_OK, i == broken, "%d and %d", i,
                 broken);
  cr_assert_eq(wait_code(s, &s->other), TN_OK, "%s", tn_error_text());
}

static void break_each(const kind *how, int64_t fail_at) {
  for (int broken = 0; broken < SOURCES; ++broken) {
    stage s;
    if (broken == 1) continue; /* the sum's own queue */
    stage_open(&s, how);
    push_all(&s); /* the engine has memory for its pending tokens */
    cr_assert_eq(wait_code(&s, &s.sum), TN_OK);
    s.lines[broken].broken = true;
    memory_fail_at(fail_at, fail_at != 0);
    push_all(&s);
    expect_failures(&s, broken);
    memory_fail_at(0, false);
    /* An update keeps the failure, an overwrite does not. */
    push_on(&s, 1, ON(U(s.sum)));
    push_on(&s, SOURCES, ON(W(s.z)));
    cr_assert_neq(wait_code(&s, &s.sum), TN_OK);
    cr_assert_eq(wait_code(&s, &s.z), TN_OK, "%s", tn_error_text());
    stage_close(&s);
  }
}

Test(foreign_fences, a_failure_of_a_queue_reaches_results_of_other_queues,
     .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k) break_each(&kinds[k], 0);
}

Test(foreign_fences, it_is_reported_without_memory, .timeout = 100) {
  for (int k = 0; k < N_KINDS; ++k)
    for (int64_t at = 1; at < 40; ++at) break_each(&kinds[k], at);
}

/* A newer fence replaces the earlier ones of its queue. */
Test(foreign_fences, they_do_not_pile_up, .timeout = 100) {
  stage s;
  stage_open(&s, &kinds[1]);
  for (int i = 0; i < 1000; ++i) {
    push_on(&s, 0, ON(W(s.x[0])));
    push_on(&s, 1, ON(R(s.x[0]), U(s.sum)));
  }
  tn__drain(s.engine); /* issued, and not done */
  cr_assert_lt(n_points, 20, "%d fences are kept", n_points);
  s.lines[0].broken = true;
  cr_assert_neq(wait_code(&s, &s.sum), TN_OK);
  stage_close(&s);
}
