/* SPDX-License-Identifier: Apache-2.0
 * Plans of schedules: required orders are kept with few edges, and groups make
 * no large job wait for another.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "../must.h"
#include "fixture.h"
#include "graph.h"
#include "schedule_plan.h"

enum { TASKS = 320, PLACES = 240 };

static tn__arena arena;

static void begin_arena(void) {
  tn__arena_init(&arena, memory_env());
}

static void end_arena(void) {
  tn__arena_deinit(&arena);
  must_hold(memory.living == 0, "memory is left");
}

TestSuite(schedule_plan, .init = begin_arena, .fini = end_arena,
          .timeout = 100);

static tn__schedule_plan create_plan(const tn__job *jobs, size_t n,
                                     uint32_t group) {
  tn__schedule_plan plan;
  cr_assert_eq(tn__schedule_plan_create(&arena, jobs, n, group, &plan), TN_OK,
               "%s", tn_error_text());
  return plan;
}

static tn__job job_of(const tn__access *access, uint32_t n, uint32_t flags) {
  return (tn__job){
      .name = "job", .access = access, .n_access = n, .flags = flags};
}

/* ----------------------------------------------------------- required order */

enum { WORDS = TASKS / 64 };

/* Bit j of row i: i comes before j. */
typedef struct relation {
  uint64_t rows[TASKS][WORDS];
} relation;

static bool is_before(const relation *r, uint32_t i, uint32_t j) {
  return (r->rows[i][j / 64] >> j % 64 & 1) != 0;
}

static void put_before(relation *r, uint32_t i, uint32_t j) {
  r->rows[i][j / 64] |= UINT64_C(1) << j % 64;
}

static bool do_collide(const tn__job *a, const tn__job *b) {
  for (uint32_t i = 0; i < a->n_access; ++i)
    for (uint32_t k = 0; k < b->n_access; ++k)
      if (a->access[i].var == b->access[k].var &&
          (a->access[i].mode != TN__READ || b->access[k].mode != TN__READ))
        return true;
  return false;
}

/* All pairs lead upwards. */
static void close_over(relation *r, uint32_t n) {
  for (uint32_t k = 0; k < n; ++k)
    for (uint32_t i = 0; i < k; ++i)
      for (int word = 0; is_before(r, i, k) && word < WORDS; ++word)
        r->rows[i][word] |= r->rows[k][word];
}

/* The rule of engine.h, for each two jobs. */
static void order_of_jobs(relation *r, const tn__job *jobs, uint32_t n) {
  memset(r, 0, sizeof *r);
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t j = i + 1; j < n; ++j)
      if (do_collide(&jobs[i], &jobs[j])) put_before(r, i, j);
  close_over(r, n);
}

/* Of steps; the edges that begin at a step and do not lead to the end. */
static void order_of_steps(relation *r, const tn__schedule_plan *plan) {
  static uint32_t n_before[TASKS + 2];
  const uint32_t n = plan->n;
  memset(r, 0, sizeof *r);
  memset(n_before, 0, sizeof n_before);
  for (uint32_t i = 0; i < n + 2; ++i) {
    cr_assert(i == n || plan->steps[i + 1].next > plan->steps[i].next,
              "step %u leads nowhere", i);
    for (uint32_t at = plan->steps[i].next; at < plan->steps[i + 1].next;
         ++at) {
      const uint32_t to = plan->order[at];
      ++n_before[to];
      cr_assert(i == n + 1 || to > i, "%u leads to %u", i, to);
      if (i < n && to < n) put_before(r, i, to);
      const bool is_free = at - plan->steps[i].next < plan->steps[i].n_free;
      cr_assert(!is_free || plan->steps[to].n_before == 1);
    }
  }
  for (uint32_t i = 0; i <= n; ++i) {
    cr_assert_eq(plan->steps[i].n_before, n_before[i], "step %u", i);
    cr_assert_gt(n_before[i], 0, "nothing leads to step %u", i);
  }
  close_over(r, n);
}

/* ------------------------------------------------------------ random graphs */

typedef struct shape {
  tn__job jobs[TASKS];
  tn__access access[TASKS][GRAPH_ACCESSES];
  task tasks[TASKS];
  place places[PLACES];
} shape;

/* Jobs of different `streams` share no place. */
static void make_jobs(shape *s, graph_kind graph, uint32_t streams) {
  graph.n_places /= streams;
  graph_make(s->tasks, TASKS, &graph);
  for (uint32_t i = 0; i < TASKS; ++i)
    s->jobs[i] =
        graph_job(&s->tasks[i], s->places + i / 3 % streams * graph.n_places,
                  s->access[i]);
}

static bool is_small(const tn__job *job) {
  return (job->flags & TN__JOB_SMALL) != 0;
}

/* The step of each job. */
static void locate(const tn__schedule_plan *plan, const tn__job *jobs,
                   uint32_t group, uint32_t *step_of) {
  cr_assert_eq(plan->steps[0].first, 0);
  cr_assert_eq(plan->steps[plan->n].first, TASKS);
  for (uint32_t i = 0; i < plan->n; ++i) {
    const uint32_t from = plan->steps[i].first, to = plan->steps[i + 1].first;
    cr_assert(from < to && to - from <= group);
    for (uint32_t job = from; job < to; ++job) {
      step_of[job] = i;
      cr_assert(to - from == 1 || is_small(&jobs[job]), "job %u", job);
    }
  }
}

static void expect_order(const shape *s, const relation *must, uint32_t group) {
  static relation does;
  static uint32_t step_of[TASKS];
  const tn__schedule_plan plan = create_plan(s->jobs, TASKS, group);
  locate(&plan, s->jobs, group, step_of);
  order_of_steps(&does, &plan);
  for (uint32_t i = 0; i < TASKS; ++i)
    for (uint32_t j = i + 1; j < TASKS; ++j) {
      const uint32_t from = step_of[i], to = step_of[j];
      const bool ordered = from == to || is_before(&does, from, to);
      const bool needed = is_before(must, i, j);
      const bool exact =
          group == 1 || (!is_small(&s->jobs[i]) && !is_small(&s->jobs[j]));
      if (ordered == needed || (ordered && !exact)) continue;
      cr_assert(ordered, "%u has to come before %u", i, j);
      cr_assert(needed, "nothing keeps %u and %u apart", i, j);
    }
}

static void expect_order_for(graph_kind graph, uint32_t streams) {
  static shape s;
  static relation must;
  for (graph.small = 0; graph.small < GRAPH_SMALLS; ++graph.small) {
    make_jobs(&s, graph, streams);
    order_of_jobs(&must, s.jobs, TASKS);
    expect_order(&s, &must, 1);
    expect_order(&s, &must, 5);
    expect_order(&s, &must, 64);
  }
}

Test(schedule_plan, keeps_required_orders_and_adds_none_between_large_jobs) {
  const uint64_t seed = seed_or(41);
  for (uint64_t i = 0; i < 3; ++i) {
    expect_order_for((graph_kind){seed + i, .n_places = 12}, 1);
    expect_order_for((graph_kind){seed + i, .n_places = 60, .most_reads = 3},
                     1);
    expect_order_for(
        (graph_kind){seed + i, .n_places = PLACES, .most_reads = 3}, 1);
    expect_order_for((graph_kind){seed + i, .n_places = 20, .most_reads = 4},
                     2);
    expect_order_for((graph_kind){seed + i, .n_places = 200, .most_reads = 3},
                     20);
  }
}

/* ------------------------------------------------------------------ by hand */

static uint32_t n_edges(const tn__schedule_plan *plan) {
  return plan->steps[plan->n + 2].next;
}

/* x -> y -> z, and z reads x too. Beginning, two edges, end. */
Test(schedule_plan, an_edge_that_others_imply_is_left_out) {
  tn__var x = {0}, y = {0}, z = {0};
  const tn__access writes_x[] = {W(x)}, writes_y[] = {R(x), W(y)},
                   writes_z[] = {R(x), R(y), W(z)};
  const tn__job jobs[] = {job_of(writes_x, 1, 0), job_of(writes_y, 2, 0),
                          job_of(writes_z, 3, 0)};
  const tn__schedule_plan plan = create_plan(jobs, 3, 64);
  cr_assert_eq(plan.n, 3);
  cr_assert_eq(n_edges(&plan), 4, "%u edges", n_edges(&plan));
}

/* Each reads the result of an earlier one: a chain from end to end, even if the
 * writers are far away. */
Test(schedule_plan, distant_predecessors_are_implied_in_a_chain) {
  enum { N = 300 };
  static tn__var x[N];
  static tn__access access[N][3];
  static tn__job jobs[N];
  for (int i = 0; i < N; ++i) {
    access[i][0] = (tn__access)R(x[i / 3]);
    access[i][1] = (tn__access)R(x[i > 0 ? i - 1 : 0]);
    access[i][2] = (tn__access)W(x[i]);
    jobs[i] = job_of(access[i], 3, 0);
  }
  const tn__schedule_plan plan = create_plan(jobs, N, 64);
  cr_assert_eq(plan.n, N);
  cr_assert_eq(n_edges(&plan), N + 1, "%u edges", n_edges(&plan));
}

/* Distant predecessors of a fan of readers imply nothing. */
Test(schedule_plan, a_large_fan_keeps_its_edges) {
  enum { N = 200 };
  static tn__var x, y[N];
  static tn__access access[N][2];
  static tn__job jobs[N];
  for (int i = 0; i < N; ++i) {
    const bool outer = i == 0 || i == N - 1;
    access[i][0] = (tn__access){&x, outer ? TN__UPDATE : TN__READ, 0};
    access[i][1] = (tn__access)W(y[i]);
    jobs[i] = job_of(access[i], 2, 0);
  }
  const tn__schedule_plan plan = create_plan(jobs, N, 64);
  cr_assert_eq(n_edges(&plan), 2 + 2 * (N - 2), "%u edges", n_edges(&plan));
}

Test(schedule_plan, small_jobs_form_groups_of_the_allowed_size) {
  enum { N = 100 };
  static tn__var x[N];
  static tn__access access[N];
  static tn__job jobs[N];
  for (int i = 0; i < N; ++i) {
    access[i] = (tn__access)U(x[i]);
    jobs[i] = job_of(&access[i], 1, TN__JOB_SMALL);
  }
  const tn__schedule_plan plan = create_plan(jobs, N, 16);
  cr_assert_eq(plan.n, 7);
  for (uint32_t i = 0; i < 7; ++i) cr_assert_eq(plan.steps[i].first, 16 * i);
  jobs[50].flags = 0;
  const tn__schedule_plan cut = create_plan(jobs, N, 16);
  cr_assert_eq(cut.n, 4 + 1 + 4, "50 small ones, a large one, 49 small ones");
}

/* Two alternating streams of large jobs, each followed by two small ones. Those
 * two are always a group, and never with those of the other stream. */
Test(schedule_plan, a_group_shares_its_predecessors) {
  enum { ROUNDS = 50, N = 2 * ROUNDS * 4 };
  static tn__var x[2], y[2][2];
  static tn__access access[N][2];
  static tn__job jobs[N];
  int n = 0;
  for (int i = 0; i < 2 * ROUNDS; ++i) {
    const int stream = i % 2;
    access[n][0] = (tn__access)U(x[stream]);
    jobs[n] = job_of(access[n], 1, 0);
    ++n;
    if (stream == 0) continue;
    for (int k = 0; k < 4; ++k) {
      access[n][0] = (tn__access)R(x[k / 2]);
      access[n][1] = (tn__access)U(y[k / 2][k % 2]);
      jobs[n] = job_of(access[n], 2, TN__JOB_SMALL);
      ++n;
    }
  }
  const tn__schedule_plan plan = create_plan(jobs, (size_t)n, 64);
  cr_assert_eq(plan.n, 4 * ROUNDS, "%u steps", plan.n);
  static const uint32_t first[] = {0, 1, 2, 4};
  for (uint32_t i = 0; i < plan.n; ++i)
    cr_assert_eq(plan.steps[i].first, i / 4 * 6 + first[i % 4]);
}

Test(schedule_plan, without_groups_there_are_only_the_uses) {
  tn__var x = {0};
  const tn__access access[] = {R(x), W(x)};
  const tn__job jobs[] = {job_of(access, 2, 0), job_of(access, 1, 0)};
  const tn__schedule_plan plan = create_plan(jobs, 2, 0);
  cr_assert_eq(plan.n, 0);
  cr_assert_eq(plan.n_jobs, 2);
  cr_assert_eq(plan.n_uses, 2);
  cr_assert_eq(plan.uses[0].mode, TN__UPDATE);
  cr_assert_eq(plan.uses[1].mode, TN__READ);
  cr_assert_eq(plan.n_access, 1);
  cr_assert_eq(plan.access[0].mode, TN__UPDATE);
}
