/* SPDX-License-Identifier: Apache-2.0
 * Empty tasks through the engine:
 *
 *   engine tasks WORKERS HOW SHRINK   tasks per second, by thread;
 *                                     bench/work.h has the patterns
 *   engine memory                     bytes and nanoseconds per variable and
 *                                     per operation
 *
 *   inline     the engine as it is: tasks are small
 *   forced     no task may run inside of push
 *   tokens     all tasks go through tokens: none is small
 *
 *   push       one push per task, its list of uses made there and then
 *   rerun      a schedule made once, pushed again
 *   operation  a prepared operation pushed again (the chain only)
 *   inside     each task pushes the next (the chain only)
 */
#include <engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "work.h"

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

static void *allocate_array(size_t n, size_t size) {
  void *result = calloc(n, size);
  if (!result) measure_fail("no memory for %zu times %zu bytes", n, size);
  return result;
}

static tn_code run_nothing(void *arg, tn__token *token) {
  (void)arg;
  (void)token;
  measure_task();
  return TN_OK;
}

static tn__engine *engine_of(const tn__env *env, uint32_t workers,
                             uint32_t dispatch) {
  tn__engine *engine = NULL;
  must_succeed(tn__engine_create(
      &(tn__engine_options){
          .env = env, .workers = workers, .dispatch = dispatch},
      &engine));
  return engine;
}

/* ----------------------------------------------------------------- patterns */

typedef struct pattern {
  tn__engine *engine;
  const work *work;
  tn__var *vars;
  tn__schedule *schedule;
  tn__operation *operation;
  size_t left;    /* of the chain that pushes itself */
  uint32_t flags; /* of the tasks */
} pattern;

/* Writes the uses of task i to `to`, as a job. */
static tn__job job_of(const pattern *p, size_t i, tn__access *to) {
  const uint32_t begin = p->work->first[i], end = p->work->first[i + 1];
  const uint32_t n = end - begin;
  for (uint32_t k = 0; k < n; ++k)
    to[k] = (tn__access){&p->vars[p->work->vars[begin + k]], TN__READ, 0};
  to[n - 1].mode = TN__UPDATE;
  return (tn__job){.name = "task",
                   .run = run_nothing,
                   .access = to,
                   .n_access = n,
                   .flags = p->flags};
}

static void push_tasks(void *arg) {
  const pattern *p = arg;
  tn__access access[WORK_USES_MAX];
  for (size_t k = 0; k < p->work->times; ++k)
    for (size_t i = 0; i < p->work->n_tasks; ++i) {
      const tn__job job = job_of(p, i, access);
      must_succeed(tn__push(p->engine, &job));
    }
  must_succeed(tn__wait_all(p->engine));
}

static void rerun_schedule(void *arg) {
  const pattern *p = arg;
  for (size_t k = 0; k < p->work->times; ++k) {
    must_succeed(tn__schedule_push(p->schedule));
    must_succeed(tn__wait_all(p->engine));
  }
}

static void rerun_operation(void *arg) {
  const pattern *p = arg;
  for (size_t i = 0; i < p->work->n_tasks; ++i)
    must_succeed(tn__operation_push(p->operation));
  must_succeed(tn__wait_all(p->engine));
}

static tn_code run_and_push(void *arg, tn__token *token);

static tn_code push_next(pattern *p) {
  return tn__push(p->engine,
                  &(tn__job){.name = "task",
                             .run = run_and_push,
                             .arg = p,
                             .access = (tn__access[]){{p->vars, TN__UPDATE, 0}},
                             .n_access = 1,
                             .flags = p->flags});
}

static tn_code run_and_push(void *arg, tn__token *token) {
  pattern *p = arg;
  (void)token;
  measure_task();
  return --p->left ? push_next(p) : TN_OK;
}

static void push_inside(void *arg) {
  pattern *p = arg;
  p->left = p->work->n_tasks;
  must_succeed(push_next(p));
  must_succeed(tn__wait_all(p->engine));
}

static void schedule_create(pattern *p) {
  const work *w = p->work;
  tn__access *uses = allocate_array(w->first[w->n_tasks], sizeof *uses);
  tn__job *jobs = allocate_array(w->n_tasks, sizeof *jobs);
  for (size_t i = 0; i < w->n_tasks; ++i)
    jobs[i] = job_of(p, i, uses + w->first[i]);
  must_succeed(tn__schedule_create(p->engine, jobs, w->n_tasks, &p->schedule));
  free(jobs);
  free(uses);
}

static void measure_pushes(pattern *p, const char *how,
                           void (*once)(void *arg)) {
  char name[64];
  snprintf(name, sizeof name, "%s/%s", p->work->name, how);
  measure_tasks(name, p->work->n_tasks * p->work->times, once, p);
}

static void measure_chain(pattern *p) {
  tn__access access[1];
  const tn__job job = job_of(p, 0, access);
  must_succeed(tn__operation_create(p->engine, &job, &p->operation));
  measure_pushes(p, "operation", rerun_operation);
  tn__operation_delete(p->operation);
  measure_pushes(p, "inside", push_inside);
}

static void measure_rerun(pattern *p) {
  schedule_create(p);
  measure_pushes(p, "rerun", rerun_schedule);
  tn__schedule_delete(p->schedule);
}

static void measure_pattern(tn__engine *engine, size_t index, size_t shrink,
                            bool small) {
  work *w = work_create(index, shrink);
  pattern p = {.engine = engine, .work = w};
  p.flags = small ? TN__JOB_SMALL : 0;
  p.vars = allocate_array(w->n_vars, sizeof *p.vars);
  measure_pushes(&p, "push", push_tasks);
  if (small) measure_rerun(&p);
  if (index == 0) measure_chain(&p);
  must_succeed(tn__wait_all(engine));
  for (size_t i = 0; i < w->n_vars; ++i) tn__var_deinit(&p.vars[i]);
  free(p.vars);
  work_release(w);
}

static void measure_all(uint32_t workers, const char *how, size_t shrink) {
  const bool dispatch = strcmp(how, "inline") != 0;
  const bool small = strcmp(how, "tokens") != 0;
  tn__engine *engine = engine_of(tn__env_default(), workers, dispatch);
  measure_join();
  for (size_t i = 0; i < WORKS; ++i) measure_pattern(engine, i, shrink, small);
  tn__engine_destroy(engine);
}

/* ------------------------------------------------------------------- memory */

enum { MANY = 1000000, WIDE = 8 };

static measure_ledger ledger;

static void print_value(const char *name, double value, const char *unit) {
  printf("%s %.1f %s\n", name, value, unit);
}

static tn_code hold_token(void *arg, tn__token *token) {
  __atomic_store_n((tn__token **)arg, token, __ATOMIC_RELEASE);
  return TN_OK;
}

/* Begins something that uses all of the variables and does not end. */
static tn__token *push_holder(tn__engine *engine, const tn__access *access,
                              uint32_t n) {
  tn__token *token = NULL;
  must_succeed(
      tn__push(engine, &(tn__job){.name = "hold",
                                  .run = hold_token,
                                  .arg = &token,
                                  .access = access,
                                  .n_access = n,
                                  .flags = TN__JOB_ASYNC | TN__JOB_SMALL}));
  while (!__atomic_load_n(&token, __ATOMIC_ACQUIRE)) continue;
  return token;
}

/* Pushes many jobs that must wait, releases them, and prints the cost of each.
 */
static void measure_pending(tn__engine *engine, uint32_t n, const char *name) {
  char line[64];
  tn__var vars[WIDE] = {0};
  tn__access access[WIDE];
  tn__token *token;
  int64_t before;
  double begin;
  for (uint32_t i = 0; i < n; ++i)
    access[i] = (tn__access){&vars[i], TN__UPDATE, 0};
  const tn__job job = {
      .name = "task", .run = run_nothing, .access = access, .n_access = n};
  token = push_holder(engine, access, n);
  before = __atomic_load_n(&ledger.bytes, __ATOMIC_RELAXED);
  begin = measure_now();
  for (uint32_t i = 0; i < MANY; ++i) must_succeed(tn__push(engine, &job));
  snprintf(line, sizeof line, "pending_%s_bytes", name);
  print_value(line, (double)(ledger.bytes - before) / MANY, "bytes");
  tn__token_done(token, TN_OK);
  must_succeed(tn__wait_all(engine));
  snprintf(line, sizeof line, "pending_%s_time", name);
  print_value(line, 1e9 * (measure_now() - begin) / MANY, "ns");
}

static void count_ended(void *arg) {
  ++*(uint64_t *)arg;
}

static void measure_variables(tn__engine *engine) {
  static uint64_t n_ended;
  const double begin = measure_now();
  tn__var *vars = allocate_array(MANY, sizeof *vars);
  for (size_t i = 0; i < MANY; ++i)
    must_succeed(tn__var_delete(engine, &vars[i], count_ended, &n_ended));
  must_succeed(tn__wait_all(engine));
  print_value("variable_bytes", (double)sizeof *vars, "bytes");
  print_value("variable_time", 1e9 * (measure_now() - begin) / MANY, "ns");
  if (n_ended != MANY) measure_fail("a variable did not end");
  free(vars);
}

static void measure_operations(tn__engine *engine) {
  tn__operation **all = allocate_array(MANY, sizeof *all);
  tn__var var = {0};
  const int64_t before = ledger.bytes;
  const double begin = measure_now();
  const tn__job job = {.name = "task",
                       .run = run_nothing,
                       .access = (tn__access[]){{&var, TN__UPDATE, 0}},
                       .n_access = 1};
  for (size_t i = 0; i < MANY; ++i)
    must_succeed(tn__operation_create(engine, &job, &all[i]));
  print_value("operation_bytes", (double)(ledger.bytes - before) / MANY,
              "bytes");
  for (size_t i = 0; i < MANY; ++i) tn__operation_delete(all[i]);
  must_succeed(tn__wait_all(engine));
  print_value("operation_time", 1e9 * (measure_now() - begin) / MANY, "ns");
  free(all);
}

static void memory_of_all(void) {
  tn__env env = *tn__env_default();
  tn__engine *engine;
  env.allocator = (tn_allocator){&ledger, measure_alloc, measure_free};
  engine = engine_of(&env, 1, 0);
  measure_variables(engine);
  measure_pending(engine, 1, "1_variable");
  measure_pending(engine, WIDE, "8_variables");
  measure_operations(engine);
  tn__engine_destroy(engine);
  if (ledger.pieces != 0)
    measure_fail("%lld pieces of memory left", (long long)ledger.pieces);
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "tasks")) {
    measure_all((uint32_t)atoi(argv[2]), argv[3], (size_t)atoi(argv[4]));
    return 0;
  }
  if (argc == 2 && !strcmp(argv[1], "memory")) {
    memory_of_all();
    return 0;
  }
  fputs(
      "usage: engine tasks WORKERS inline|forced|tokens SHRINK | engine "
      "memory\n",
      stderr);
  return 2;
}
