/* SPDX-License-Identifier: Apache-2.0
 * engine_stress.c: several threads push random graphs (tests/engine/graph.h)
 * with every kind of push: plain, from inside of functions, prepared, as
 * schedules, inline, run by the pushing thread, completed by another thread,
 * and with loops inside. Some tasks fail, and the workers of one engine get no
 * memory. Each thread compares its results with a serial run, while another one
 * waits for everything, pauses the engine and records traces. Meant for
 * ThreadSanitizer; a plain program, because Criterion does not start under it.
 * The number of graphs is the limit, never time.
 *
 *   engine_stress [graphs per thread and engine] [seed]
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { THREADS = 3, TASKS = 200, PLACES = 24, SLICES = 40, ACCESSES = 2 };

static unsigned long long seed = 1;
static long n_graphs = 20;

/* ------------------------------------------------------------------ engines */

typedef struct setting {
  const char *name;
  tn__engine_options options;
  bool hungry; /* every second allocation of a worker fails */
} setting;

static const setting settings[] = {
    {.name = "2 workers", .options = {.workers = 2}},
    {.name = "2 workers, dispatch", .options = {.workers = 2, .dispatch = 1}},
    {.name = "1 worker, dispatch", .options = {.workers = 1, .dispatch = 1}},
    {.name = "5 workers, dispatch", .options = {.workers = 5, .dispatch = 1}},
    {.name = "2 workers, dispatch, hungry",
     .options = {.workers = 2, .dispatch = 1},
     .hungry = true},
    {.name = "5 workers", .options = {.workers = 5}},
    {.name = "naive", .options = {.kind = TN__ENGINE_NAIVE}},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

/* Requests of a pushing thread succeed, so its pushes succeed. They must take
 * effect although other threads get no memory. */
static _Thread_local bool fed;
static _Atomic uint32_t n_refused;

static void *allocate(void *ctx, size_t bytes, size_t align) {
  const tn_allocator *real = ctx;
  if (!fed && atomic_fetch_add(&n_refused, 1) % 2 == 0) return NULL;
  return real->alloc(real->ctx, bytes, align);
}

static void release(void *ctx, void *block) {
  const tn_allocator *real = ctx;
  real->free(real->ctx, block);
}

static const tn__env *hungry_env(void) {
  static tn__env env;
  env = *tn__env_default();
  env.allocator = (tn_allocator){
      (void *)(uintptr_t)&tn__env_default()->allocator, allocate, release};
  return &env;
}

/* State that all threads of one engine share. */
typedef struct stage {
  tn__engine *engine;
  bool naive;
  bool hungry;
  tn__var shared;          /* orders the changes of `count` */
  long count;              /* without a lock */
  _Atomic long n_expected; /* of count */
  _Atomic int n_living;    /* threads that still push */
  _Atomic int n_ended;     /* deleted variables */
  _Atomic int n_deleted;
} stage;

static void die(const char *subject) {
  (void)fprintf(stderr, "engine_stress: %s: %s (seed %llu)\n", subject,
                tn_error_text(), seed);
  exit(1);
}

static void must(tn_code code, const char *subject) {
  if (code != TN_OK) die(subject);
}

/* ----------------------------------------------------------------- finisher */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  tn__token *tokens[1024];
  int n;
  bool over;
} finisher = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER};

static void *finish_tokens(void *arg) {
  uint64_t dice = seed + 99;
  (void)pthread_mutex_lock(&finisher.lock);
  while (!finisher.over || finisher.n > 0) {
    if (finisher.n == 0) {
      (void)pthread_cond_wait(&finisher.changed, &finisher.lock);
      continue;
    }
    const uint32_t at =
        (uint32_t)(next_random(&dice) >> 32) % (uint32_t)finisher.n;
    tn__token *token = finisher.tokens[at];
    finisher.tokens[at] = finisher.tokens[--finisher.n];
    (void)pthread_mutex_unlock(&finisher.lock);
    tn__token_done(token, TN_OK);
    (void)pthread_mutex_lock(&finisher.lock);
  }
  (void)pthread_mutex_unlock(&finisher.lock);
  return arg;
}

static tn_code hand_over(tn__token *token) {
  (void)pthread_mutex_lock(&finisher.lock);
  const bool room = finisher.n < 1024;
  if (room) finisher.tokens[finisher.n++] = token;
  (void)pthread_cond_signal(&finisher.changed);
  (void)pthread_mutex_unlock(&finisher.lock);
  if (!room) tn__token_done(token, TN_OK);
  return TN_OK;
}

/* -------------------------------------------------------------------- tasks */

/* A task, and additional work for its run. */
typedef struct step {
  stage *stage;
  task *task;
  tn__job job; /* the task's */
  tn__access access[GRAPH_ACCESSES];
  _Atomic int slices;
} step;

static tn_code run_count(void *arg, tn__token *token) {
  (void)token;
  ++((stage *)arg)->count;
  return TN_OK;
}

static tn_code push_count(stage *s, uint32_t flags) {
  const tn__job job = {.name = "count",
                       .run = run_count,
                       .arg = s,
                       .access = (tn__access[]){{&s->shared, TN__UPDATE, 0}},
                       .n_access = 1,
                       .flags = flags};
  const bool was_fed = fed; /* a push from inside of a function too */
  fed = true;
  const tn_code code = tn__push(s->engine, &job);
  fed = was_fed;
  if (code == TN_OK) atomic_fetch_add(&s->n_expected, 1);
  return code;
}

static tn_code run_nested(void *arg, tn__token *token) {
  step *self = (step *)arg;
  TN__TRY(push_count(self->stage, 0));
  TN__TRY(push_count(self->stage, TN__JOB_SMALL));
  return self->job.run(self->job.arg, token);
}

static int32_t count_slice(void *arg, int64_t begin, int64_t end) {
  step *self = (step *)arg;
  atomic_fetch_add(&self->slices, (int)(end - begin));
  return begin % 7 == 6
             ? tn__parallel_for(self->stage->engine, 0, 1, count_slice, arg)
             : TN_OK;
}

static tn_code run_loop(void *arg, tn__token *token) {
  step *self = (step *)arg;
  atomic_store(&self->slices, 0);
  const tn_code code =
      tn__parallel_for(self->stage->engine, SLICES, 3, count_slice, self);
  if (code != TN_OK || self->slices != SLICES) die("a loop");
  return self->job.run(self->job.arg, token);
}

static tn_code run_async(void *arg, tn__token *token) {
  step *self = (step *)arg;
  TN__TRY(self->job.run(self->job.arg, token));
  return hand_over(token);
}

/* ------------------------------------------------------------ kinds of push */

static void free_end(void *arg) {
  stage *s = *(stage **)arg;
  atomic_fetch_add(&s->n_ended, 1);
  free(arg);
}

typedef struct box {
  stage *stage; /* first: free_end */
  tn__var var;
} box;

/* A variable that is deleted while it is used, next to one that stays. */
static void use_and_delete(stage *s) {
  box *b = calloc(1, sizeof *b);
  if (b == NULL) exit(1);
  b->stage = s;
  for (int i = 0; i < 3; ++i) {
    const tn__job job = {
        .name = "use",
        .run = run_count,
        .arg = s,
        .access = (tn__access[]){{&b->var, i == 1 ? TN__UPDATE : TN__READ, 0},
                                 {&s->shared, TN__UPDATE, 0}},
        .n_access = ACCESSES};
    must(tn__push(s->engine, &job), "use");
    atomic_fetch_add(&s->n_expected, 1);
  }
  atomic_fetch_add(&s->n_deleted, 1);
  must(tn__var_delete(s->engine, &b->var, free_end, b), "deletion");
}

/* More variables than a token has room for. */
static void use_many(stage *s, place *places) {
  tn__access access[PLACES + 1];
  for (uint32_t i = 0; i < PLACES; ++i)
    access[i] = (tn__access){&places[i].var, TN__READ, 0};
  access[PLACES] = (tn__access){&s->shared, TN__UPDATE, 0};
  must(tn__push(s->engine, &(tn__job){.name = "many",
                                      .run = run_count,
                                      .arg = s,
                                      .access = access,
                                      .n_access = PLACES + 1,
                                      .flags = TN__JOB_ALWAYS}),
       "many");
  atomic_fetch_add(&s->n_expected, 1);
}

static void push_prepared(const step *self) {
  tn__operation *op;
  must(tn__operation_create(self->stage->engine, &self->job, &op), "prepare");
  (void)tn__operation_push(op);
  tn__operation_delete(op);
}

static uint32_t choose(void *arg, tn__access *access) {
  const tn__job *job = &((step *)arg)->job;
  for (uint32_t i = 0; i < job->n_access; ++i) {
    access[i] = job->access[i];
    if (access[i].mode == TN__READ ? !tn__var_is_readable(access[i].var)
                                   : !tn__var_is_writable(access[i].var))
      return TN__INLINE_REFUSED;
  }
  return job->n_access;
}

static tn_code run_inline_task(void *arg) {
  const tn__job *job = &((step *)arg)->job;
  return job->run(job->arg, NULL);
}

static bool try_inline(step *self) {
  tn_code code;
  const tn__inline_job job = {"inline", choose, run_inline_task, self};
  return tn__run_inline(self->stage->engine, &job, &code);
}

/* Pushes a task. A task that fails inside of push returns its error there. */
static void push_step(step *self, uint32_t how) {
  tn__engine *engine = self->stage->engine;
  tn__job job = self->job;
  job.arg = self;
  switch (how) {
    case 0:
      job.run = run_nested;
      break;
    case 1:
      job.run = run_loop;
      break;
    case 2:
      if (self->stage->naive) break;
      job.run = run_async;
      job.flags |= TN__JOB_ASYNC;
      break;
    case 3:
      (void)tn__run_here(engine, &self->job);
      return;
    case 4:
      push_prepared(self);
      return;
    case 5:
      if (try_inline(self)) return;
      break;
    default:
      break;
  }
  if (job.run == self->job.run) job.arg = self->job.arg;
  (void)tn__push(engine, &job);
}

static void wait_a_little(stage *s, place *places, uint64_t *dice) {
  static const uint64_t limits[] = {0, 1000, 50000, TN__FOREVER};
  const uint64_t bits = next_random(dice) >> 20;
  tn__var *var = &places[bits % PLACES].var;
  const tn_code code =
      tn__wait(s->engine, var, bits >> 20 & 1, limits[bits >> 10 & 3]);
  if (code != TN_OK && code != TN_BUSY && code != TN_INVALID) die("a wait");
}

/* ------------------------------------------------------------------ threads */

typedef struct pusher {
  stage *stage;
  pthread_t thread;
  uint64_t dice;
  task tasks[TASKS];
  step steps[TASKS];
  place expected[PLACES];
  place found[PLACES];
} pusher;

static void push_schedule(pusher *self, int times) {
  tn__job jobs[TASKS];
  tn__schedule *schedule;
  for (int i = 0; i < TASKS; ++i) jobs[i] = self->steps[i].job;
  must(tn__schedule_create(self->stage->engine, jobs, TASKS, &schedule),
       "schedule");
  for (int i = 0; i < times; ++i)
    must(tn__schedule_push(schedule), "schedule push");
  tn__schedule_delete(schedule);
}

static void push_steps(pusher *self) {
  for (int i = 0; i < TASKS; ++i) {
    const uint32_t bits = (uint32_t)(next_random(&self->dice) >> 32);
    push_step(&self->steps[i], bits % 16);
    if (bits >> 8 & 1) must(push_count(self->stage, TN__JOB_SMALL), "count");
    if ((bits >> 9 & 15) == 0) use_and_delete(self->stage);
    if ((bits >> 18 & 31) == 0) use_many(self->stage, self->found);
    if ((bits >> 13 & 31) == 0)
      wait_a_little(self->stage, self->found, &self->dice);
  }
}

static void run_graph(pusher *self, int number) {
  /* Without memory for its text an error is a different one. */
  const bool failing = number % 2 != 0 && !self->stage->hungry;
  const graph_kind graph = {
      .seed = next_random(&self->dice),
      .n_places = PLACES,
      .most_reads = 4,
      .small = (uint32_t)(number + number / 4) % GRAPH_SMALLS,
      .failing = failing ? 60 : 0};
  const int times = number % 4 == 3 ? 2 : 0; /* as a schedule */
  graph_make(self->tasks, TASKS, &graph);
  graph_reset(self->expected, PLACES);
  graph_reset(self->found, PLACES);
  for (int i = 0; i < (times != 0 ? times : 1); ++i)
    graph_serial(self->tasks, TASKS, self->expected);
  for (int i = 0; i < TASKS; ++i) {
    step *each = &self->steps[i];
    each->stage = self->stage;
    each->task = &self->tasks[i];
    each->job = graph_job(&self->tasks[i], self->found, each->access);
  }
  if (times != 0)
    push_schedule(self, times);
  else
    push_steps(self);
  if (graph_difference(self->stage->engine, self->expected, self->found,
                       PLACES) >= 0)
    die("a graph gave another result than a serial run");
  graph_deinit(self->found, PLACES);
}

static void *push_graphs(void *arg) {
  pusher *self = (pusher *)arg;
  fed = true;
  for (int i = 0; i < n_graphs; ++i) run_graph(self, i);
  atomic_fetch_sub(&self->stage->n_living, 1);
  return NULL;
}

/* Disturbs the pushing threads. */
static void disturb(stage *s) {
  for (int i = 0; s->n_living > 0; ++i) {
    const tn_code code = tn__wait_all(s->engine);
    if (code != TN_OK && code != TN_INVALID) die("wait for all");
    tn__engine_pause(s->engine);
    sched_yield();
    tn__engine_resume(s->engine);
    if (i % 3 == 0) must(tn__trace_start(s->engine), "trace");
    sched_yield();
    if (i % 3 == 1) tn__trace_stop(s->engine);
    if (i % 3 == 2) must(push_count(s, 0), "count");
  }
}

/* One phase: all threads push until their graphs are done. */
static void run_threads(stage *s, uint64_t *dice) {
  static pusher pushers[THREADS];
  s->n_living = THREADS;
  for (int i = 0; i < THREADS; ++i) {
    pushers[i].stage = s;
    pushers[i].dice = next_random(dice);
    if (pthread_create(&pushers[i].thread, NULL, push_graphs, &pushers[i]) != 0)
      die("no thread");
  }
  disturb(s);
  for (int i = 0; i < THREADS; ++i) (void)pthread_join(pushers[i].thread, NULL);
  tn__engine_stop(s->engine); /* and starts again with the next phase */
  (void)tn__wait_all(s->engine);
  tn__trace_stop(s->engine);
  if (s->count != s->n_expected) die("functions were lost");
  if (s->n_ended != s->n_deleted) die("deletions were lost");
}

static void run_engine(const setting *how, uint64_t *dice) {
  static stage s;
  tn__engine_options options = how->options;
  memset(&s, 0, sizeof s);
  options.env = how->hungry ? hungry_env() : tn__env_default();
  s.hungry = how->hungry;
  s.naive = options.kind == TN__ENGINE_NAIVE;
  must(tn__engine_create(&options, &s.engine), how->name);
  for (int phase = 0; phase < 2; ++phase) run_threads(&s, dice);
  tn__engine_destroy(s.engine);
}

int main(int argc, char **argv) {
  if (argc > 1) n_graphs = strtol(argv[1], NULL, 10);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  fed = true;
  (void)printf("engine_stress: seed %llu\n", seed);
  (void)fflush(stdout);
  uint64_t dice = seed * 2 + 1;
  if (pthread_create(&finisher.thread, NULL, finish_tokens, NULL) != 0)
    die("no thread");
  for (int i = 0; i < N_SETTINGS; ++i) run_engine(&settings[i], &dice);
  (void)pthread_mutex_lock(&finisher.lock);
  finisher.over = true;
  (void)pthread_cond_signal(&finisher.changed);
  (void)pthread_mutex_unlock(&finisher.lock);
  (void)pthread_join(finisher.thread, NULL);
  return 0;
}
