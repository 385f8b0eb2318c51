/* SPDX-License-Identifier: Apache-2.0
 * test_running.c: the parts that work in a runtime: its engine, random streams,
 * traces and memory; and the end of plugins and runtimes with pending work.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../forked.h"
#include "probe.h"
#include "runtime.h"

static tn_runtime *rt;

static void open_with(uint32_t engine, uint32_t workers) {
  const tn_options options = {.struct_size = sizeof options,
                              .engine = engine,
                              .workers = workers,
                              .seed = 5};
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK, "%s", tn_error_text());
}

static void setup(void) {
  open_with(TN_ENGINE_POOLED, 2);
}

static void teardown(void) {
  tn_runtime_release(rt);
}

TestSuite(running, .init = setup, .fini = teardown);

static tn_array *make_array(int64_t n) {
  tn_array *x = NULL;
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  return x;
}

static tn_array *make_pair(float a, float b) {
  const float values[] = {a, b};
  tn_array *x = make_array(2);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
  return x;
}

static void expect_pair(tn_array *x, float a, float b) {
  float got[2] = {0};
  cr_assert_eq(tn_array_get(x, got, sizeof got), TN_OK, "%s", tn_error_text());
  cr_assert(got[0] == a && got[1] == b, "%g %g", (double)got[0],
            (double)got[1]);
}

static void call_operator(const char *name, tn_array *x, tn_array **y) {
  tn_operator *op = NULL;
  cr_assert_eq(tn_operator_get(rt, name, &op), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(y)), TN_OK, "%s",
               tn_error_text());
}

/* ------------------------------------------------------------------ engine */

static void call_and_copy(void) {
  tn_array *x = make_pair(1, 2), *y = NULL, *z = NULL;
  call_operator("probe.all", x, &y);
  cr_assert_eq(tn_array_cast(y, TN_F32, &z), TN_OK);
  expect_pair(z, 2, 4);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

Test(running, works_with_any_number_of_workers) {
  cr_assert_eq(tn__engine_workers(rt->env.engine), 2);
  call_and_copy();
  const uint32_t workers[] = {1, 8};
  for (int i = 0; i < 2; ++i) {
    tn_runtime_release(rt);
    open_with(TN_ENGINE_POOLED, workers[i]);
    cr_assert_eq(tn__engine_workers(rt->env.engine), workers[i]);
    call_and_copy();
  }
}

Test(running, works_without_any_worker) {
  tn_runtime_release(rt);
  open_with(TN_ENGINE_NAIVE, 0);
  call_and_copy();
}

typedef struct slices {
  _Atomic int n;
  _Atomic int64_t sum;
  int64_t fail_from;
} slices;

static int32_t note_slice(void *arg, int64_t note_start, int64_t end) {
  slices *s = arg;
  atomic_fetch_add(&s->n, 1);
  for (int64_t i = note_start; i < end; ++i) atomic_fetch_add(&s->sum, i);
  return note_start >= s->fail_from ? TN_DEVICE : TN_OK;
}

Test(running, gives_plugins_the_loop_of_its_engine) {
  const tn__plugin *plugin = rt->registry->plugins.v[0];
  const tn_frame frame = {.struct_size = sizeof frame, .host = &plugin->host};
  slices s = {.fail_from = INT64_MAX};
  cr_assert_eq(plugin->host.parallel_for(&frame, 10, 4, note_slice, &s), TN_OK);
  cr_assert(s.n == 3 && s.sum == 45);
  slices none = {.fail_from = INT64_MAX};
  cr_assert_eq(plugin->host.parallel_for(&frame, 0, 4, note_slice, &none),
               TN_OK);
  cr_assert_eq(none.n, 0);
  slices failing = {.fail_from = 4};
  cr_assert_eq(plugin->host.parallel_for(&frame, 10, 4, note_slice, &failing),
               TN_DEVICE);
}

/* A job that is pending until the test ends it. */
typedef struct pending {
  sem_t began;
  tn__token *token;
} pending;

static tn_code note_start(void *arg, tn__token *token) {
  pending *p = arg;
  p->token = token;
  sem_post(&p->began);
  return TN_OK;
}

static void begin_pending(pending *p, tn_array *x) {
  const tn__access access = {&x->block->var, TN__UPDATE, 0};
  sem_init(&p->began, 0, 0);
  cr_assert_eq(tn__push(rt->env.engine, &(tn__job){.name = "pending",
                                                   .run = note_start,
                                                   .arg = p,
                                                   .access = &access,
                                                   .n_access = 1,
                                                   .flags = TN__JOB_ASYNC}),
               TN_OK);
  sem_wait(&p->began);
}

Test(running, waits_report_time_outs_and_errors) {
  tn_array *x = make_pair(1, 2);
  pending p;
  begin_pending(&p, x);
  cr_assert_eq(tn_array_wait_for(x, 1000), TN_BUSY);
  tn__token_done(p.token, tn__fail(TN_DEVICE, "boom"));
  cr_assert_eq(tn_array_wait(x), TN_DEVICE);
  cr_assert_not_null(strstr(tn_error_text(), "boom"));
  cr_assert_eq(tn_array_wait_write(x), TN_DEVICE);
  cr_assert_eq(tn_wait_all(rt), TN_DEVICE);
  cr_assert_not_null(strstr(tn_error_text(), "boom"));
  cr_assert_eq(tn_wait_all(rt), TN_OK);
  cr_assert_eq(tn_array_wait(x), TN_DEVICE);
  tn_array_release(x);
}

/* ---------------------------------------------------------- random streams */

static uint64_t draw_numbers(void) {
  tn_array *x = make_pair(1, 2), *y = NULL;
  call_operator("probe.random", x, &y);
  cr_assert_eq(tn_array_wait(y), TN_OK);
  tn_array_release(x), tn_array_release(y);
  return probe.offset;
}

Test(running, random_state_can_be_kept_and_restored) {
  tn_random_state state, later;
  cr_assert_eq(tn_random_get(rt, &state), TN_OK);
  cr_assert(state.seed == 5 && state.drawn == 0);
  uint64_t first = draw_numbers();
  cr_assert_eq(probe.key, 5);
  cr_assert_eq(tn_random_get(rt, &state), TN_OK);
  cr_assert_eq(state.drawn, 10); /* the blocks that the kernel requests */
  uint64_t second = draw_numbers();
  cr_assert_neq(first, second);
  cr_assert_eq(tn_random_seed(rt, 9), TN_OK);
  cr_assert_eq(draw_numbers(), first);
  cr_assert_eq(probe.key, 9);
  cr_assert_eq(tn_random_set(rt, &state), TN_OK);
  cr_assert_eq(tn_random_get(rt, &later), TN_OK);
  cr_assert(later.seed == state.seed && later.drawn == state.drawn);
  cr_assert_eq(draw_numbers(), second);
  cr_assert_eq(probe.key, 5);
}

/* ------------------------------------------------------------------ traces */

Test(running, traces_name_the_functions_that_ran) {
  char path[] = "/tmp/tenon-trace-XXXXXX", text[4096];
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  close(fd);
  tn_array *x = make_array(100000), *y = NULL;
  cr_assert_eq(tn_trace_start(rt), TN_OK);
  cr_assert_eq(tn_array_cast(x, TN_F64, &y), TN_OK);
  cr_assert_eq(tn_trace_write(rt, path), TN_OK, "%s", tn_error_text());
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  unlink(path);
  cr_assert_not_null(strstr(text, "\"tn_array_copy\""), "%s", text);
  cr_assert_eq(tn_trace_start(rt), TN_OK);
  cr_assert_eq(tn_trace_write(rt, "/no/such/folder/trace"), TN_IO);
  cr_assert_not_null(strstr(tn_error_text(), "/no/such/folder/trace"));
  tn_array_release(x), tn_array_release(y);
}

/* ------------------------------------------------------------------ memory */

static tn_memory memory_of_cpu(void) {
  tn_memory m = {.struct_size = sizeof m};
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  cr_assert_eq(tn_memory_get(rt, cpu, &m), TN_OK);
  return m;
}

Test(running, memory_is_kept_until_it_is_trimmed) {
  static const float values[100000];
  tn_array *x = make_array(100000);
  cr_assert_eq(memory_of_cpu().live, 0);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
  cr_assert_eq(memory_of_cpu().live, sizeof values);
  cr_assert_geq(memory_of_cpu().held, sizeof values);
  tn_array_release(x);
  tn_memory m = memory_of_cpu();
  cr_assert_eq(m.live, 0);
  cr_assert_gt(m.held, 0);
  cr_assert_eq(m.peak_live, sizeof values);
  cr_assert_eq(tn_memory_trim(rt, (tn_place){TN_DEVICE_CPU, 0}), TN_OK);
  m = memory_of_cpu();
  cr_assert_eq(m.held, 0);
  cr_assert_geq(m.peak_held, sizeof values);
}

/* -------------------------------------------------------------------- ends */

Test(running, results_that_calls_keep_do_not_hold_a_plugin) {
  tn_array *x = make_pair(1, 2), *y = NULL;
  for (int i = 0; i < 3; ++i) call_operator("probe.all", x, &y);
  cr_assert_eq(tn_plugin_unload(rt, "probe"), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK, "%s", tn_error_text());
  call_operator("probe.all", x, &y);
  expect_pair(y, 2, 4);
  tn_array_release(x), tn_array_release(y);
}

/* Jobs of another thread, from `began` until `over`. */
typedef struct traffic {
  atomic_bool over;
  sem_t began;
} traffic;

/* Ends each job only after the next one began, so one is always pending. */
static void *overlap_jobs(void *arg) {
  traffic *t = arg;
  pending p[2];
  tn_array *x[] = {make_pair(1, 2), make_pair(3, 4)};
  int at = 0;
  begin_pending(&p[at], x[at]);
  sem_post(&t->began);
  for (; !atomic_load(&t->over); at = 1 - at) {
    begin_pending(&p[1 - at], x[1 - at]);
    tn__token_done(p[at].token, TN_OK);
  }
  tn__token_done(p[at].token, TN_OK);
  tn_array_release(x[0]), tn_array_release(x[1]);
  return NULL;
}

/* Prepares a call, which keeps the plugin from being unloaded. */
static tn_prepared *hold_plugin(tn_array *x, tn_array **y) {
  tn_operator *op = NULL;
  tn_prepared *held = NULL;
  cr_assert_eq(tn_operator_get(rt, "probe.all", &op), TN_OK);
  const tn_preparation parts = {.struct_size = sizeof parts,
                                .op = op,
                                .inputs = {1, &x},
                                .outputs = {1, y, NULL}};
  cr_assert_eq(tn_call_prepare(rt, &parts, &held), TN_OK, "%s",
               tn_error_text());
  return held;
}

Test(running, unloading_and_writing_a_trace_do_not_wait_for_later_pushes,
     .timeout = 100) {
  char path[] = "/tmp/tenon-trace-XXXXXX";
  pthread_t thread;
  traffic t = {.over = false};
  tn_array *x = make_pair(1, 2), *y = NULL;
  tn_prepared *held = hold_plugin(x, &y);
  close(mkstemp(path));
  sem_init(&t.began, 0, 0);
  cr_assert(!pthread_create(&thread, NULL, overlap_jobs, &t));
  sem_wait(&t.began);
  for (int i = 0; i < 10; ++i) {
    cr_assert_eq(tn_trace_start(rt), TN_OK, "%s", tn_error_text());
    cr_assert_eq(tn_trace_write(rt, path), TN_OK, "%s", tn_error_text());
    const tn_code code = tn_plugin_unload(rt, "probe");
    cr_assert_eq(code, TN_BUSY, "%s", tn_error_text());
  }
  atomic_store(&t.over, true);
  (void)pthread_join(thread, NULL);
  (void)unlink(path);
  tn_prepared_release(held);
  tn_array_release(x), tn_array_release(y);
}

static tn_code unload_inside(void *arg, tn__token *token) {
  (void)token;
  *(tn_code *)arg = tn_plugin_unload(rt, "probe");
  return TN_OK;
}

Test(running, a_plugin_is_not_unloaded_from_inside_of_an_operator) {
  tn_code code = TN_OK;
  tn_array *x = make_pair(1, 2);
  const tn__access access = {&x->block->var, TN__UPDATE, 0};
  cr_assert_eq(tn__push(rt->env.engine, &(tn__job){.name = "unload",
                                                   .run = unload_inside,
                                                   .arg = &code,
                                                   .access = &access,
                                                   .n_access = 1}),
               TN_OK);
  cr_assert_eq(tn_array_wait(x), TN_OK);
  cr_assert_eq(code, TN_INVALID);
  tn_array_release(x);
}

static void *end_pending(void *arg) {
  pending *p = arg;
  const struct timespec latency = {0, 20000000};
  nanosleep(&latency, NULL);
  tn__token_done(p->token, TN_OK);
  return NULL;
}

Test(running, the_end_waits_for_pending_work) {
  tn_array *x = make_pair(1, 2), *y = NULL;
  pending p;
  pthread_t device;
  begin_pending(&p, x);
  cr_assert_eq(tn_array_cast(x, TN_F64, &y), TN_OK);
  tn_array_release(x), tn_array_release(y);
  pthread_create(&device, NULL, end_pending, &p);
  tn_runtime_release(rt);
  pthread_join(device, NULL);
  setup(); /* for the end of the suite */
}

/* The exit status is 0 if every result in the child was right. */
static int check_in_child(tn_array *x, tn_prepared *prepared) {
  tn_array *y = NULL;
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  tn_memory m = {.struct_size = sizeof m};
  tn_place place;
  if (tn_array_wait(x) != TN_UNSUPPORTED) return 1;
  if (tn_array_copy(x, x) != TN_UNSUPPORTED) return 2;
  if (tn_array_to(x, cpu, &y) != TN_UNSUPPORTED) return 3;
  if (tn_call_run(prepared) != TN_UNSUPPORTED) return 4;
  if (tn_wait_all(rt) != TN_UNSUPPORTED) return 5;
  if (tn_trace_start(rt) != TN_UNSUPPORTED) return 6;
  if (tn_random_seed(rt, 1) != TN_UNSUPPORTED) return 7;
  if (tn_memory_get(rt, cpu, &m) != TN_UNSUPPORTED) return 8;
  if (tn_memory_trim(rt, cpu) != TN_UNSUPPORTED) return 9;
  if (tn_place_parse(rt, "cpu", &place) != TN_UNSUPPORTED) return 10;
  tn_prepared_release(prepared);
  tn_array_release(x);
  tn_runtime_release(rt);
  setup(); /* a new runtime with new workers */
  call_and_copy();
  tn_runtime_release(rt);
  return 0;
}

/* With workers, and with pending work that no thread of the child can end. */
Test(running, a_forked_child_gets_errors_and_may_release) {
  skip_where_forks_keep_all();
  tn_array *x = make_pair(1, 2), *y = NULL, *z = NULL;
  tn_prepared *prepared = hold_plugin(x, &z);
  pending p;
  begin_pending(&p, x);
  cr_assert_eq(tn_array_cast(x, TN_F32, &y), TN_OK);
  pid_t pid = fork();
  if (pid == 0) _exit(check_in_child(x, prepared));
  int status = -1;
  cr_assert_eq(waitpid(pid, &status, 0), pid);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
  tn__token_done(p.token, TN_OK);
  expect_pair(y, 1, 2);
  tn_prepared_release(prepared);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}
