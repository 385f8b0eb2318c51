/* SPDX-License-Identifier: Apache-2.0
 * host_job_stress.c: engine.h from several threads. They push random graphs
 * (tests/engine/graph.h) as plain, prepared and asynchronous jobs, from inside
 * of functions too. Some tasks fail, and variables are released while jobs use
 * them. Each thread compares its results with a serial run. At the end of each
 * engine one thread shuts it down while the others push; each job must then be
 * dropped exactly once, and all memory must be free. Meant for ThreadSanitizer;
 * a plain program, because Criterion does not start under it. The number of
 * graphs is the limit, never time.
 *
 *   host_job_stress [graphs per thread and engine] [seed]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/graph.h"
#include "tenon/engine.h"

enum { THREADS = 3, TASKS = 150, PLACES = 20, TOKENS = 64 };

static unsigned long long seed = 1;
static long n_graphs = 10;

static void die(const char *subject) {
  (void)fprintf(stderr, "host_job_stress: %s: %s (seed %llu)\n", subject,
                tn_error_text(), seed);
  exit(1);
}

static void must(tn_code code, const char *subject) {
  if (code != TN_OK) die(subject);
}

/* ------------------------------------------------------------------- memory */

static _Atomic int64_t n_living;

static void *allocate(void *ctx, size_t bytes, size_t align) {
  void *memory = NULL;
  (void)ctx;
  if (posix_memalign(&memory, align < 16 ? 16 : align, bytes)) return NULL;
  atomic_fetch_add(&n_living, 1);
  return memory;
}

static void deallocate(void *ctx, void *memory) {
  (void)ctx;
  if (memory != NULL) atomic_fetch_sub(&n_living, 1);
  free(memory);
}

/* ----------------------------------------------------------------- finisher */

/* A thread that completes asynchronous jobs in another order than they began,
 * and some of them by a release alone if `losing`. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  tn_token *tokens[TOKENS];
  int n;
  bool over;
  _Atomic bool losing;
} finisher = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER};

static void finish_token(tn_token *token, bool lose) {
  if (!lose) {
    const tn_code code = tn_token_complete(token, TN_OK, NULL);
    if (code != TN_OK && !tn_token_cancelled(token)) die("a completion");
    if (tn_token_complete(token, TN_OK, NULL) == TN_OK)
      die("a second completion");
  }
  tn_token_release(token);
}

static void *finish_tokens(void *arg) {
  uint64_t dice = seed + 99;
  (void)pthread_mutex_lock(&finisher.lock);
  while (!finisher.over || finisher.n > 0) {
    if (finisher.n == 0) {
      (void)pthread_cond_wait(&finisher.changed, &finisher.lock);
      continue;
    }
    const uint32_t bits = (uint32_t)(next_random(&dice) >> 32);
    const uint32_t at = bits % (uint32_t)finisher.n;
    const bool lose = finisher.losing && (bits >> 16) % 4 == 0;
    tn_token *token = finisher.tokens[at];
    finisher.tokens[at] = finisher.tokens[--finisher.n];
    (void)pthread_mutex_unlock(&finisher.lock);
    finish_token(token, lose);
    (void)pthread_mutex_lock(&finisher.lock);
  }
  (void)pthread_mutex_unlock(&finisher.lock);
  return arg;
}

static tn_code hand_over(tn_token *token) {
  (void)pthread_mutex_lock(&finisher.lock);
  const bool room = finisher.n < TOKENS;
  if (room) finisher.tokens[finisher.n++] = tn_token_retain(token);
  (void)pthread_cond_signal(&finisher.changed);
  (void)pthread_mutex_unlock(&finisher.lock);
  if (room) return TN_OK;
  const tn_code code = tn_token_complete(token, TN_OK, NULL);
  return tn_token_cancelled(token) ? TN_OK : code;
}

/* -------------------------------------------------------------------- stage */

/* State that all threads of one engine share. */
typedef struct stage {
  tn_runtime *rt;
  bool naive;
  tn_variable *shared;     /* orders the changes of `count` */
  long count;              /* without a lock */
  _Atomic long n_expected; /* of count */
  _Atomic long n_pushed;   /* jobs with a drop */
  _Atomic long n_dropped;
  _Atomic long n_variables; /* with a drop */
  _Atomic long n_ended;
  _Atomic bool closing; /* a shutdown may come at any moment */
} stage;

static void drop_job(void *arg) {
  atomic_fetch_add(&((stage *)arg)->n_dropped, 1);
}

static void end_variable(void *arg) {
  atomic_fetch_add(&((stage *)arg)->n_ended, 1);
}

static tn_code run_count(void *arg) {
  ++((stage *)arg)->count;
  return TN_OK;
}

/* False: the runtime was shut down. */
static bool push_count(stage *s, tn_variable *other, uint32_t flags) {
  const tn_access access[] = {{s->shared, TN_UPDATE}, {other, TN_READ}};
  const tn_job job = {.struct_size = sizeof job,
                      .flags = flags,
                      .name = "count",
                      .run = run_count,
                      .arg = s,
                      .drop = drop_job,
                      .access = access,
                      .n_access = other != NULL ? 2 : 1};
  atomic_fetch_add(&s->n_pushed, 1);
  if (tn_push(s->rt, &job) == TN_OK)
    atomic_fetch_add(&s->n_expected, 1);
  else if (!atomic_load(&s->closing))
    die("a push");
  else
    return false;
  return true;
}

/* A variable without an owner while jobs still use it. */
static void use_and_release(stage *s) {
  tn_variable *x = NULL;
  atomic_fetch_add(&s->n_variables, 1);
  must(tn_variable_create(s->rt, s, end_variable, &x), "a variable");
  for (int i = 0; i < 3; ++i) (void)push_count(s, x, 0);
  tn_variable_release(x);
}

/* -------------------------------------------------------------------- tasks */

typedef struct step {
  stage *stage;
  tn_code (*run)(void *arg, tn__token *token); /* the task's; not used as one */
  task *task;
} step;

static tn_code run_task(void *arg) {
  const step *self = arg;
  return self->run(self->task, NULL);
}

static tn_code run_nested(void *arg) {
  const step *self = arg;
  (void)push_count(self->stage, NULL, 0);
  (void)push_count(self->stage, NULL, TN_JOB_SMALL);
  return run_task(arg);
}

static tn_code begin_task(void *arg, tn_token *token) {
  TN__TRY(run_task(arg));
  return hand_over(token);
}

/* The accesses of a task, each variable once. */
static uint32_t list_access(const task *t, tn_variable *const *variables,
                            tn_access *access) {
  uint32_t mode[PLACES], n = 0;
  for (uint32_t i = 0; i < PLACES; ++i) mode[i] = UINT32_MAX;
  for (uint32_t i = 0; i < t->n_writes; ++i)
    mode[t->writes[i]] = t->update ? TN_UPDATE : TN_OVERWRITE;
  for (uint32_t i = 0; i < t->n_reads; ++i) {
    uint32_t *m = &mode[t->reads[i]];
    *m = *m == UINT32_MAX || *m == TN_READ ? TN_READ : TN_UPDATE;
  }
  for (uint32_t i = 0; i < PLACES; ++i)
    if (mode[i] != UINT32_MAX) access[n++] = (tn_access){variables[i], mode[i]};
  return n;
}

static void push_prepared(const step *self, tn_job *job) {
  tn_operation *operation = NULL;
  if (tn_operation_create(self->stage->rt, job, &operation)) die("prepare");
  if (tn_operation_push(operation)) {
    /* It failed already, and its variables carry that. */
  }
  tn_operation_release(operation);
}

/* A task that fails inside of a push returns its error there. */
static void push_task(step *self, tn_variable *const *variables, uint32_t how) {
  tn_access access[GRAPH_ACCESSES];
  tn_job job = {.struct_size = sizeof job,
                .name = "task",
                .run = run_task,
                .arg = self,
                .access = access,
                .priority = self->task->priority};
  job.n_access = list_access(self->task, variables, access);
  if (self->task->flags & TN__JOB_SMALL) job.flags = TN_JOB_SMALL;
  if (how % 8 == 0) job.run = run_nested;
  if (how % 8 == 1 && !self->stage->naive) {
    job.run = NULL;
    job.begin = begin_task;
  }
  if (how / 8 % 4 == 0) {
    push_prepared(self, &job);
  } else if (tn_push(self->stage->rt, &job)) {
    /* It failed already, and its variables carry that. */
  }
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
  tn_variable *variables[PLACES];
} pusher;

static void compare_places(pusher *self) {
  for (int i = 0; i < PLACES; ++i) {
    const tn_code code = tn_variable_wait_write(self->variables[i]);
    if (code != (self->expected[i].bad ? TN_INVALID : TN_OK) ||
        self->found[i].value != self->expected[i].value)
      die("a graph gave another result than a serial run");
  }
}

static void push_tasks(pusher *self) {
  for (int i = 0; i < TASKS; ++i) {
    const uint32_t bits = (uint32_t)(next_random(&self->dice) >> 32);
    tn__access access[GRAPH_ACCESSES];
    task *t = &self->tasks[i];
    const tn__job job = graph_job(t, self->found, access);
    self->steps[i] = (step){self->stage, job.run, t};
    push_task(&self->steps[i], self->variables, bits);
    if (bits >> 8 & 1) (void)push_count(self->stage, NULL, TN_JOB_SMALL);
    if ((bits >> 9 & 15) == 0) use_and_release(self->stage);
    if ((bits >> 13 & 31) == 0 &&
        tn_variable_wait_for(self->variables[bits >> 20 & 15], 50000)) {
      /* An error of the graph, or the time was up. */
    }
  }
}

static void run_graph(pusher *self, int number) {
  const graph_kind graph = {.seed = next_random(&self->dice),
                            .n_places = PLACES,
                            .most_reads = 4,
                            .small = (uint32_t)number % GRAPH_SMALLS,
                            .failing = number % 2 != 0 ? 60 : 0};
  graph_make(self->tasks, TASKS, &graph);
  graph_reset(self->expected, PLACES);
  graph_reset(self->found, PLACES);
  graph_serial(self->tasks, TASKS, self->expected);
  for (int i = 0; i < PLACES; ++i)
    must(tn_variable_create(self->stage->rt, NULL, NULL, &self->variables[i]),
         "a variable");
  push_tasks(self);
  compare_places(self);
  for (int i = 0; i < PLACES; ++i) tn_variable_release(self->variables[i]);
}

static void *push_graphs(void *arg) {
  pusher *self = arg;
  for (int i = 0; i < n_graphs; ++i) run_graph(self, i);
  return NULL;
}

static tn_code begin_pending(void *arg, tn_token *token) {
  (void)arg;
  return hand_over(token);
}

/* Pushes until the runtime is closed. */
static void *push_until_closed(void *arg) {
  pusher *self = arg;
  stage *s = self->stage;
  do {
    const tn_access access = {s->shared, TN_UPDATE};
    const tn_job job = {.struct_size = sizeof job,
                        .begin = begin_pending,
                        .arg = s,
                        .drop = drop_job,
                        .access = &access,
                        .n_access = 1};
    atomic_fetch_add(&s->n_pushed, 1);
    if (!s->naive && tn_push(s->rt, &job) != TN_OK && !atomic_load(&s->closing))
      die("a push");
    if (s->naive) drop_job(s);
    use_and_release(s);
  } while (push_count(s, NULL, 0));
  return NULL;
}

static void run_threads(stage *s, uint64_t *dice, void *(*run)(void *arg)) {
  static pusher pushers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    pushers[i].stage = s;
    pushers[i].dice = next_random(dice);
    if (pthread_create(&pushers[i].thread, NULL, run, &pushers[i]) != 0)
      die("no thread");
  }
  if (run == push_until_closed) {
    while (atomic_load(&s->n_dropped) < 300)
      if (tn_variable_wait_for(s->shared, 100000)) {
        /* The others use it. */
      }
    atomic_store(&s->closing, true);
    atomic_store(&finisher.losing, true);
    must(tn_runtime_shutdown(s->rt), "shutdown");
  }
  for (int i = 0; i < THREADS; ++i) (void)pthread_join(pushers[i].thread, NULL);
}

static stage now;

static void run_engine(uint32_t engine, uint32_t workers, uint64_t *dice) {
  const tn_options options = {.struct_size = sizeof options,
                              .engine = engine,
                              .workers = workers,
                              .allocator = {NULL, allocate, deallocate}};
  memset(&now, 0, sizeof now);
  now.naive = engine == TN_ENGINE_NAIVE;
  must(tn_runtime_create(&options, &now.rt), "a runtime");
  must(tn_variable_create(now.rt, NULL, NULL, &now.shared), "a variable");
  run_threads(&now, dice, push_graphs);
  const tn_code code = tn_wait_all(now.rt); /* reports tasks that failed */
  if (code != TN_OK && code != TN_INVALID) die("wait for all");
  if (now.count != now.n_expected) die("functions were lost");
  run_threads(&now, dice, push_until_closed);
  tn_variable_release(now.shared);
  tn_runtime_release(now.rt);
}

int main(int argc, char **argv) {
  static const struct {
    uint32_t engine, workers;
  } settings[] = {{TN_ENGINE_POOLED, 2},   {TN_ENGINE_POOLED, 5},
                  {TN_ENGINE_THREADED, 1}, {TN_ENGINE_THREADED, 2},
                  {TN_ENGINE_THREADED, 5}, {TN_ENGINE_NAIVE, 1}};
  if (argc > 1) n_graphs = strtol(argv[1], NULL, 10);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  (void)printf("host_job_stress: seed %llu\n", seed);
  (void)fflush(stdout);
  uint64_t dice = seed * 2 + 1;
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; ++i) {
    finisher.over = false;
    atomic_store(&finisher.losing, false);
    if (pthread_create(&finisher.thread, NULL, finish_tokens, NULL) != 0)
      die("no thread");
    run_engine(settings[i].engine, settings[i].workers, &dice);
    (void)pthread_mutex_lock(&finisher.lock);
    finisher.over = true;
    (void)pthread_cond_signal(&finisher.changed);
    (void)pthread_mutex_unlock(&finisher.lock);
    (void)pthread_join(finisher.thread, NULL);
    if (n_living != 0) die("memory was lost");
    if (now.n_dropped != now.n_pushed) die("drops were lost");
    if (now.n_ended != now.n_variables) die("variables were lost");
  }
  return 0;
}
