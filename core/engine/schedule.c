/* SPDX-License-Identifier: Apache-2.0
 * schedule.c: many jobs as one operation. If all jobs are small they run in a
 * plain loop. Otherwise workers run them, and walk from each step to its
 * successors. Errors of variables and spans are kept out of both: only a
 * *careful* run handles them, and a run whose engine is abandoned meanwhile.
 */
#include "engine.h"
#include "engine_state.h"
#include "pool.h"
#include "run_frame.h"
#include "schedule_plan.h"
#include "token.h"
#include "trace.h"
#include "travelling_error.h"
#include "variable.h"

#define NO_STEP UINT32_MAX

enum {
  MANY = 256, /* this many small jobs are worth another thread */
  BATCH = 8,  /* from this number on, predecessors are counted together */
  GROUP_MIN = 8,
  GROUP_MAX = 32, /* small jobs in one step */
  SHARE = 4       /* groups for each thread, if there are enough jobs */
};

typedef struct job_call {
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
} job_call;

/* Fields that are rarely read. */
typedef struct job_details {
  const char *name;
  void (*drop)(void *arg);
  uint32_t flags;
  uint32_t reserved;
} job_details;

struct tn__schedule {
  tn__engine *engine;
  tn__operation *operation; /* NULL until it can be pushed */
  tn__arena arena;          /* memory of the fields below */
  job_call *calls;
  job_details *job_details;
  tn__schedule_plan plan;
  tn__var turn;                          /* orders the pushes of the schedule */
  tn__token *token;                      /* of the current run */
  uint32_t serial;                       /* runs in a loop, on one thread */
  uint32_t wakes_workers;                /* worth waking a worker */
  _Alignas(64) _Atomic uint32_t careful; /* this run handles errors and spans */
};

/* ------------------------------------------------------------ careful jobs */

static bool carries_error(const tn__var *var) {
  return (atomic_load_explicit(&var->word, memory_order_acquire) &
          TN__VAR_ERROR) != 0;
}

static bool must_be_careful(const tn__schedule *schedule) {
  if (atomic_load_explicit(&schedule->engine->tracing, memory_order_relaxed))
    return true;
  for (uint32_t i = 0; i < schedule->plan.n_access; ++i)
    if (carries_error(schedule->plan.access[i].var)) return true;
  return false;
}

/* The error that keeps the job from running, or NULL. */
static tn__error *find_cause(const tn__schedule *schedule, uint32_t job) {
  const tn__schedule_plan *plan = &schedule->plan;
  if ((schedule->job_details[job].flags & TN__JOB_ALWAYS) != 0) return NULL;
  for (uint32_t i = plan->first_use[job]; i < plan->first_use[job + 1]; ++i)
    if (plan->uses[i].mode != TN__OVERWRITE && carries_error(plan->uses[i].var))
      return plan->uses[i].var->error;
  return NULL;
}

/* Puts the error on the variables that the job writes (NULL: clears those that
 * it overwrites). */
static void put_error(const tn__schedule *schedule, uint32_t job,
                      tn__error *error) {
  const tn__schedule_plan *plan = &schedule->plan;
  for (uint32_t i = plan->first_use[job]; i < plan->first_use[job + 1]; ++i) {
    const tn__job_use *use = &plan->uses[i];
    if (use->mode == TN__OVERWRITE || (error != NULL && use->mode != TN__READ))
      tn__error_put(use->var, error);
  }
}

/* A variable that carries an error keeps it, unless the job would have
 * overwritten it. */
static void pass_error_on(const tn__schedule *schedule, uint32_t job,
                          tn__error *cause) {
  const tn__schedule_plan *plan = &schedule->plan;
  tn__error *error = tn__error_derive(schedule->engine, cause,
                                      schedule->job_details[job].name);
  for (uint32_t i = plan->first_use[job]; i < plan->first_use[job + 1]; ++i) {
    const tn__job_use *use = &plan->uses[i];
    if (use->mode == TN__OVERWRITE ||
        (use->mode == TN__UPDATE && !carries_error(use->var)))
      tn__error_put(use->var, error);
  }
  tn__error_release(error);
}

static void record_failure(tn__schedule *schedule, uint32_t job, tn_code code) {
  const char *name = schedule->job_details[job].name;
  tn__error *error =
      tn__error_create(schedule->engine, tn__error_add_name(code, name));
  atomic_store_explicit(&schedule->careful, 1, memory_order_relaxed);
  tn__error_announce(schedule->engine, error);
  put_error(schedule, job, error);
  tn__error_release(error);
}

static bool is_abandoned(const tn__schedule *schedule) {
  return atomic_load_explicit(&schedule->engine->abandoned,
                              memory_order_relaxed) != 0;
}

/* As for a job that is pushed by itself. */
static void refuse_job(const tn__schedule *schedule, uint32_t job) {
  tn__error *error =
      tn__error_refuse(schedule->engine, schedule->job_details[job].name);
  put_error(schedule, job, error);
  tn__error_release(error);
}

static void run_carefully(tn__schedule *schedule, uint32_t job,
                          tn__token *token) {
  tn__engine *engine = schedule->engine;
  const char *name = schedule->job_details[job].name;
  if (is_abandoned(schedule)) {
    refuse_job(schedule, job);
    return;
  }
  tn__error *cause = find_cause(schedule, job);
  if (cause != NULL) {
    pass_error_on(schedule, job, cause);
    return;
  }
  put_error(schedule, job, NULL);
  const bool tracing =
      atomic_load_explicit(&engine->tracing, memory_order_acquire) != 0;
  const uint64_t begin = tracing ? tn__now() : 0;
  const job_call *c = &schedule->calls[job];
  const tn_code code = c->run(c->arg, token);
  if (tracing) tn__trace_span(engine, name, NULL, begin);
  if (code != TN_OK) record_failure(schedule, job, code);
}

/* Runs jobs as long as they succeed. After a failure the remaining jobs, from
 * the returned one on, must run carefully. */
static uint32_t run_jobs(tn__schedule *schedule, uint32_t job, uint32_t end,
                         tn__token *token) {
  const job_call *calls = schedule->calls;
  tn_code code = TN_OK;
  while (job < end && (code = calls[job].run(calls[job].arg, token)) == TN_OK)
    ++job;
  if (code != TN_OK) record_failure(schedule, job++, code);
  return job;
}

/* -------------------------------------------------------------- in a loop */

static tn_code run_serial(void *arg, tn__token *token) {
  tn__schedule *schedule = arg;
  const uint32_t n = schedule->plan.n_jobs;
  uint32_t i = 0;
  if (!must_be_careful(schedule)) i = run_jobs(schedule, 0, n, token);
  for (; i < n; ++i) run_carefully(schedule, i, token);
  return TN_OK;
}

/* ----------------------------------------------------------------- walking */

/* One thread's walk through the steps. As long as it has a step to run or a
 * predecessor to count, the run is not over and the schedule lives. The last
 * count may end both. */
typedef struct walk {
  tn__schedule *schedule;
  tn__worker_slot *slot; /* NULL: the walk must run every step itself */
  uint32_t next;         /* the next step to run, or NO_STEP */
  uint32_t spilled;      /* list of steps that found no room elsewhere */
  uint32_t
      counted_at; /* place in `order` of the step that is counted together */
  uint32_t n_counted; /* number of those counts */
  bool over;          /* the run is over */
} walk;

static void spill_step(walk *w, uint32_t step) {
  w->schedule->plan.steps[step].spilled = w->spilled;
  w->spilled = step;
}

/* Offers steps to other threads; the walk's own worker finds them too. They may
 * be the last of the run, so the schedule may be freed once they are offered.
 */
static void offer_steps(walk *w, uint32_t begin, uint32_t end) {
  tn__schedule *schedule = w->schedule;
  const bool wakes_workers = schedule->wakes_workers != 0;
  const tn__ready_work work = {schedule, (uint64_t)begin << 32 | end};
  if (w->slot == NULL || !tn__deque_push(&w->slot->deque, work)) {
    while (end > begin) spill_step(w, schedule->plan.order[--end]);
  } else if (wakes_workers) {
    tn__pool_wake_workers(w->slot->pool, 1);
  }
}

/* The step at this place of `order` may run. */
static void reach_step(walk *w, uint32_t at) {
  const uint32_t step = w->schedule->plan.order[at];
  if (step == w->schedule->plan.n)
    w->over = true;
  else if (w->next == NO_STEP)
    w->next = step;
  else
    offer_steps(w, at, at + 1);
}

/* `n` predecessors of the step at this place are done. */
static void count_predecessors(walk *w, uint32_t at, uint32_t n) {
  tn__schedule_step *step =
      &w->schedule->plan.steps[w->schedule->plan.order[at]];
  if (atomic_fetch_sub_explicit(&step->left, n, memory_order_acq_rel) != n)
    return;
  atomic_store_explicit(&step->left, step->n_before, memory_order_relaxed);
  reach_step(w, at);
}

static void flush_counted(walk *w) {
  const uint32_t n = w->n_counted;
  w->n_counted = 0;
  if (n != 0) count_predecessors(w, w->counted_at, n);
}

/* Counts later and several at once: all threads would compete for the counter
 * of a step with many predecessors. */
static void count_later(walk *w, uint32_t at) {
  const uint32_t *order = w->schedule->plan.order;
  if (w->n_counted != 0 && order[w->counted_at] != order[at]) flush_counted(w);
  w->counted_at = at;
  ++w->n_counted;
}

static void pass_to_successors(walk *w, uint32_t from) {
  const tn__schedule_plan *plan = &w->schedule->plan;
  const tn__schedule_step *step = &plan->steps[from];
  uint32_t at = step->next;
  const uint32_t end = step[1].next;
  const uint32_t n_free = step->n_free; /* running them may free the step */
  if (n_free == 1) reach_step(w, at);
  if (n_free > 1) offer_steps(w, at, at + n_free);
  for (at += n_free; at < end; ++at) {
    const uint32_t n_before = plan->steps[plan->order[at]].n_before;
    if (n_before == 1)
      reach_step(w, at);
    else if (n_before < BATCH)
      count_predecessors(w, at, 1);
    else
      count_later(w, at);
  }
}

static void run_step(tn__schedule *schedule, uint32_t step) {
  uint32_t job = schedule->plan.steps[step].first;
  const uint32_t end = schedule->plan.steps[step + 1].first;
  tn__token *token = schedule->token;
  if (atomic_load_explicit(&schedule->careful, memory_order_relaxed) == 0 &&
      !is_abandoned(schedule))
    job = run_jobs(schedule, job, end, token);
  for (; job < end; ++job) run_carefully(schedule, job, token);
}

/* Runs steps until this walk knows no ready one. */
static void run_ready_steps(walk *w) {
  while (w->next != NO_STEP) {
    const uint32_t step = w->next;
    w->next = NO_STEP;
    run_step(w->schedule, step);
    pass_to_successors(w, step);
  }
}

static void finish_walk(walk *w) {
  for (;;) {
    run_ready_steps(w);
    if (w->spilled != NO_STEP) {
      w->next = w->spilled;
      w->spilled = w->schedule->plan.steps[w->next].spilled;
    } else if (w->n_counted != 0) {
      flush_counted(w);
    } else {
      return;
    }
  }
}

/* Offers half of the range whenever no other work is offered. */
static void run_range(walk *w, uint32_t begin, uint32_t end) {
  while (begin < end) {
    if (end - begin > 1 && w->slot != NULL &&
        tn__deque_is_empty(&w->slot->deque)) {
      const uint32_t middle = begin + (end - begin) / 2;
      offer_steps(w, middle, end);
      end = middle;
    }
    w->next = w->schedule->plan.order[begin++];
    run_ready_steps(w);
  }
}

static void begin_walk(walk *w, tn__schedule *schedule) {
  *w = (walk){.schedule = schedule,
              .slot = tn__pool_slot(schedule->engine->pool),
              .next = NO_STEP,
              .spilled = NO_STEP};
}

void tn__schedule_run_range(tn__schedule *schedule, uint64_t range) {
  tn__token *token = schedule->token;
  tn__run_frame frame = {.outer = tn__run_frame_top,
                         .engine = schedule->engine,
                         .token = token,
                         .flags = token->flags & TN__TOKEN_EPOCH};
  walk w;
  tn__run_frame_top = &frame;
  begin_walk(&w, schedule);
  run_range(&w, (uint32_t)(range >> 32), (uint32_t)range);
  finish_walk(&w);
  tn__run_frame_top = frame.outer;
  if (w.over) tn__token_done(token, TN_OK);
}

static tn_code run_parallel(void *arg, tn__token *token) {
  tn__schedule *schedule = arg;
  walk w;
  schedule->token = token;
  atomic_store_explicit(&schedule->careful, must_be_careful(schedule),
                        memory_order_relaxed);
  begin_walk(&w, schedule);
  pass_to_successors(&w, schedule->plan.n + 1);
  finish_walk(&w);
  if (w.over) tn__token_done(token, TN_OK);
  return TN_OK;
}

/* ------------------------------------------------------- create and delete */

static void free_schedule(tn__schedule *schedule) {
  const tn__env *env = schedule->engine->env;
  tn__var_deinit(&schedule->turn); /* an abandoned engine's error */
  tn__arena_deinit(&schedule->arena);
  tn__free(env, schedule);
}

/* Runs after the last push of a deleted schedule. */
static void end_schedule(void *arg) {
  tn__schedule *schedule = arg;
  if (schedule->operation == NULL) return;
  for (uint32_t i = 0; i < schedule->plan.n_jobs; ++i)
    if (schedule->job_details[i].drop != NULL)
      schedule->job_details[i].drop(schedule->calls[i].arg);
  free_schedule(schedule);
}

static tn_code copy_jobs(tn__schedule *schedule, const tn__job *jobs,
                         size_t n) {
  schedule->calls =
      tn__arena_alloc(&schedule->arena, n * sizeof *schedule->calls);
  schedule->job_details =
      tn__arena_alloc(&schedule->arena, n * sizeof *schedule->job_details);
  if (schedule->arena.failed)
    return tn__fail(TN_OUT_OF_MEMORY, "out of memory: a schedule of %zu jobs",
                    n);
  for (size_t i = 0; i < n; ++i) {
    schedule->calls[i] = (job_call){jobs[i].run, jobs[i].arg};
    schedule->job_details[i] =
        (job_details){jobs[i].name, jobs[i].drop, jobs[i].flags, 0};
  }
  return TN_OK;
}

static bool are_all_small(const tn__job *jobs, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if ((jobs[i].flags & TN__JOB_SMALL) == 0) return false;
  return true;
}

/* Maximum of small jobs in one step: few enough to leave groups for all threads
 * of the engine and the waiting one. */
static uint32_t group_size(const tn__schedule *schedule, size_t n) {
  const size_t n_groups = (size_t)SHARE * (schedule->engine->workers + 1);
  const size_t size = n / n_groups;
  if (schedule->serial) return 0;
  return size < GROUP_MIN   ? GROUP_MIN
         : size > GROUP_MAX ? GROUP_MAX
                            : (uint32_t)size;
}

static tn__job schedule_job(tn__schedule *schedule, const tn__job *jobs,
                            size_t n) {
  tn__schedule_plan *plan = &schedule->plan;
  tn__job job = {.name = "schedule", .arg = schedule, .drop = end_schedule};
  for (size_t i = 0; i < n; ++i)
    if (i == 0 || jobs[i].priority > job.priority)
      job.priority = jobs[i].priority;
  plan->access[plan->n_access] =
      (tn__access){.var = &schedule->turn, .mode = TN__UPDATE};
  job.access = plan->access;
  job.n_access = plan->n_access + 1;
  job.run = schedule->serial ? run_serial : run_parallel;
  job.flags = TN__JOB_ALWAYS;
  return job;
}

static tn_code build_schedule(tn__schedule *schedule, const tn__job *jobs,
                              size_t n) {
  const tn__engine *engine = schedule->engine;
  const bool small = engine->dispatch == 0 && are_all_small(jobs, n);
  schedule->serial = small || n == 0 || engine->pool == NULL;
  schedule->wakes_workers = !small || n >= MANY;
  TN__TRY(copy_jobs(schedule, jobs, n));
  TN__TRY(tn__schedule_plan_create(&schedule->arena, jobs, n,
                                   group_size(schedule, n), &schedule->plan));
  tn__job job = schedule_job(schedule, jobs, n);
  if (!schedule->serial) job.flags |= TN__JOB_ASYNC;
  if (small) job.flags |= TN__JOB_SMALL;
  return tn__operation_create(schedule->engine, &job, &schedule->operation);
}

tn_code tn__schedule_create(tn__engine *engine, const tn__job *jobs, size_t n,
                            tn__schedule **out) {
  *out = NULL;
  tn__schedule *schedule =
      tn__alloc_aligned(engine->env, sizeof *schedule, _Alignof(tn__schedule));
  if (schedule == NULL) return tn__fail_memory(sizeof *schedule, "a schedule");
  *schedule = (tn__schedule){.engine = engine};
  tn__arena_init(&schedule->arena, engine->env);
  const tn_code code = build_schedule(schedule, jobs, n);
  if (code == TN_OK)
    *out = schedule;
  else
    free_schedule(schedule);
  return code;
}

tn_code tn__schedule_push(tn__schedule *schedule) {
  return tn__operation_push(schedule->operation);
}

void tn__schedule_delete(tn__schedule *schedule) {
  if (schedule != NULL) tn__operation_delete(schedule->operation);
}
