/* SPDX-License-Identifier: Apache-2.0
 * The patterns of work.h through the engine of Apache MXNet 1.9.1:
 *
 *   mxnet LIBRARY ENGINE WORKERS SHRINK
 *
 *   device    its ThreadedEnginePerDevice, a queue with WORKERS threads
 *   pooled    its ThreadedEnginePooled: one queue and always
 *             16 threads, for any value of WORKERS
 *
 * LIBRARY is a libmxnet.so. The program opens it with dlopen, since its headers
 * need others that its package lacks. Its C interface pushes and waits but
 * creates no variables, so two functions are found by their mangled C++ names.
 * A check before the measurement confirms that they work as assumed: tasks must
 * find every variable as the order of pushes left it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../measure.h"
#include "../work.h"

/* ---------------------------------------------------- the parts of MXNet in
 * use
 */

/* Where something runs: device type 1 is the CPU. */
typedef struct context {
  int type;
  int32_t id;
} context;

/* The function that an asynchronous task calls when it is complete. */
typedef struct done {
  void (*call)(void *engine, void *param, const void *error);
  void *engine;
  void *param;
} done;

typedef void body(void *run_context, void *on_complete, void *arg);

static struct {
  void *(*engine)(void);
  void *(*variable)(void *engine);
  int (*push)(body *run, void *arg, void (*deleter)(void *), const context *,
              void *const *reads, int n_reads, void *const *writes,
              int n_writes, const void *property, int priority,
              const char *name, int wait);
  int (*wait_all)(void);
  int (*shut_down)(void);
  const char *(*error)(void);
} mxnet;

static void *library;

static void find_symbol(void *to, const char *name) {
  void *symbol = dlsym(library, name);
  if (!symbol) measure_fail("%s", dlerror());
  memcpy(to, &symbol, sizeof symbol);
}

static void open_library(const char *path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) measure_fail("%s", dlerror());
  find_symbol(&mxnet.engine, "_ZN5mxnet6Engine3GetEv");
  find_symbol(&mxnet.variable,
              "_ZN5mxnet6engine14ThreadedEngine11NewVariableEv");
  find_symbol(&mxnet.push, "MXEnginePushAsync");
  find_symbol(&mxnet.wait_all, "MXNDArrayWaitAll");
  find_symbol(&mxnet.shut_down, "MXNotifyShutdown");
  find_symbol(&mxnet.error, "MXGetLastError");
}

static void must_succeed(int failed) {
  if (failed) measure_fail("%s", mxnet.error());
}

static void end_task(void *on_complete) {
  const done *d = on_complete;
  d->call(d->engine, d->param, NULL);
}

/* --------------------------------------------------------------- variables */

static void **vars; /* the engine's, which keeps them until the end */
static size_t n_vars;

static void *allocate_array(size_t n, size_t size) {
  void *result = calloc(n ? n : 1, size);
  if (!result) measure_fail("no memory for %zu times %zu bytes", n, size);
  return result;
}

/* Sees to it that there are n. */
static void need_vars(size_t n) {
  if (n <= n_vars) return;
  vars = realloc(vars, n * sizeof *vars);
  if (!vars) measure_fail("no memory for %zu variables", n);
  while (n_vars < n) vars[n_vars++] = mxnet.variable(mxnet.engine());
}

/* Pushes task i of w, which runs `run` with `arg`. */
static void push_one(const work *w, size_t i, body *run, void *arg) {
  static const context cpu = {1, 0};
  void *uses[WORK_USES_MAX];
  const uint32_t *use = w->vars + w->first[i];
  const uint32_t n = w->first[i + 1] - w->first[i];
  for (uint32_t k = 0; k < n; ++k) uses[k] = vars[use[k]];
  must_succeed(mxnet.push(run, arg, NULL, &cpu, uses, (int)n - 1, uses + n - 1,
                          1, NULL, 0, NULL, 0));
}

/* ------------------------------------------------------- is the order kept */

typedef struct seen {
  const work *w;
  size_t task;
  uint32_t *expected; /* writes before this task, for each of its uses */
  uint32_t *writes;   /* so far, by variable */
  size_t *wrong;
} seen;

static void check_uses(void *run_context, void *on_complete, void *arg) {
  const seen *s = arg;
  const uint32_t *use = s->w->vars + s->w->first[s->task];
  const uint32_t n = s->w->first[s->task + 1] - s->w->first[s->task];
  (void)run_context;
  for (uint32_t k = 0; k < n; ++k)
    if (__atomic_load_n(&s->writes[use[k]], __ATOMIC_RELAXED) != s->expected[k])
      __atomic_fetch_add(s->wrong, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&s->writes[use[n - 1]], 1, __ATOMIC_RELAXED);
  end_task(on_complete);
}

/* Writes to `expected` the value that each use of each task must find. */
static void find_expected(const work *w, uint32_t *expected) {
  uint32_t *writes = allocate_array(w->n_vars, sizeof *writes);
  for (size_t i = 0; i < w->n_tasks; ++i) {
    for (uint32_t at = w->first[i]; at < w->first[i + 1]; ++at)
      expected[at] = writes[w->vars[at]];
    ++writes[w->vars[w->first[i + 1] - 1]];
  }
  free(writes);
}

static void check_order(const work *w) {
  size_t wrong = 0;
  seen *all = allocate_array(w->n_tasks, sizeof *all);
  uint32_t *writes = allocate_array(w->n_vars, sizeof *writes);
  uint32_t *expected = allocate_array(w->first[w->n_tasks], sizeof *expected);
  find_expected(w, expected);
  need_vars(w->n_vars);
  for (size_t i = 0; i < w->n_tasks; ++i) {
    all[i] = (seen){w, i, expected + w->first[i], writes, &wrong};
    push_one(w, i, check_uses, &all[i]);
  }
  must_succeed(mxnet.wait_all());
  if (wrong) measure_fail("%s: %zu uses found the wrong state", w->name, wrong);
  free(expected);
  free(writes);
  free(all);
}

/* --------------------------------------------------------------- measuring */

static void run_empty(void *run_context, void *on_complete, void *arg) {
  (void)run_context;
  (void)arg;
  measure_task();
  end_task(on_complete);
}

static void push_tasks(void *arg) {
  const work *w = arg;
  for (size_t k = 0; k < w->times; ++k)
    for (size_t i = 0; i < w->n_tasks; ++i) push_one(w, i, run_empty, NULL);
  must_succeed(mxnet.wait_all());
}

static void all_patterns(size_t shrink, const char *variant) {
  for (size_t i = 0; i < WORKS; ++i) {
    char name[64];
    work *w = work_create(i, shrink);
    check_order(w);
    snprintf(name, sizeof name, "%s/%s", w->name, variant);
    measure_tasks(name, w->n_tasks * w->times, push_tasks, w);
    work_release(w);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  setenv(
      "MXNET_ENGINE_TYPE",
      strcmp(argv[2], "pooled") ? "ThreadedEnginePerDevice" : "ThreadedEngine",
      1);
  setenv("MXNET_CPU_WORKER_NTHREADS", argv[3], 1);
  open_library(argv[1]);
  measure_join();
  all_patterns((size_t)atoi(argv[4]), argv[2]);
  free(vars);
  must_succeed(mxnet.shut_down());
  return 0;
}
