/* SPDX-License-Identifier: Apache-2.0
 * test_host_tokens.c: the ends of jobs of a host (tenon/engine.h): completion
 * of asynchronous jobs, shutdown, refusals, and names in traces.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "jobs.h"

/* ------------------------------------------------------------- asynchronous */

/* With one worker: a pending completion occupies none. */
Test(host_tokens, completes_an_asynchronous_job_from_any_thread,
     .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    _Atomic int n_run = 0;
    keeper k;
    tn_runtime *rt = open_runtime(threaded[e], 1);
    tn_variable *x = make_variable(rt), *y = make_variable(rt);
    push_kept(rt, &k, x);
    EXPECT(tn_push(rt, JOB(count_run, &n_run, TN_USES({x, TN_READ}))), TN_OK);
    EXPECT(tn_push(rt, JOB(count_run, &n_run, TN_USES({y, TN_UPDATE}))), TN_OK);
    EXPECT(tn_variable_wait(y), TN_OK);
    cr_assert_eq(n_run, 1);
    EXPECT(tn_variable_wait_for(x, 0), TN_BUSY);
    EXPECT(tn_token_complete(k.token, TN_OK, NULL), TN_OK);
    EXPECT(tn_variable_wait_write(x), TN_OK);
    cr_assert_eq(n_run, 2);
    EXPECT(tn_token_complete(k.token, TN_OK, NULL), TN_INVALID);
    EXPECT_TEXT("`request` is complete already");
    tn_token_release(k.token);
    tn_variable_release(x), tn_variable_release(y);
    close_runtime(rt);
  }
}

static tn_code complete_at_once(void *arg, tn_token *token) {
  (void)arg;
  return tn_token_complete(token, TN_OK, NULL);
}

static tn_code fail_to_begin(void *arg, tn_token *token) {
  *(tn_token **)arg = tn_token_retain(token);
  return tn_fail(TN_DEVICE, "no line");
}

static tn_code forget_token(void *arg, tn_token *token) {
  (void)arg, (void)token;
  return TN_OK;
}

static tn_code complete_and_fail(void *arg, tn_token *token) {
  (void)arg;
  return tn_token_complete(token, TN_OK, NULL) ? TN_OK : TN_IO;
}

Test(host_tokens, ends_an_asynchronous_job_inside_of_its_begin,
     .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    _Atomic int n_dropped = 0;
    tn_token *token = NULL;
    tn_runtime *rt = open_runtime(engines[e], 2);
    tn_variable *x = make_variable(rt);
    EXPECT(tn_push(rt, ASYNC(complete_at_once, &n_dropped,
                             TN_USES({x, TN_OVERWRITE}), .drop = add_one)),
           TN_OK);
    EXPECT(
        tn_push(rt, ASYNC(complete_and_fail, NULL, TN_USES({x, TN_OVERWRITE}))),
        TN_OK);
    EXPECT(tn_variable_wait(x), TN_OK);
    EXPECT(tn_push(rt, ASYNC(fail_to_begin, &token, .name = "dial",
                             TN_USES({x, TN_OVERWRITE}))),
           early(engines[e], TN_DEVICE));
    EXPECT(tn_variable_wait(x), TN_DEVICE);
    EXPECT_TEXT("dial: no line");
    EXPECT(tn_token_complete(token, TN_OK, NULL), TN_INVALID);
    tn_token_release(token);
    EXPECT(tn_wait_all(rt), TN_DEVICE);
    cr_assert_eq(n_dropped, 1);
    tn_variable_release(x);
    close_runtime(rt);
  }
}

Test(host_tokens, completes_a_job_with_a_token_that_was_dropped,
     .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    keeper k;
    tn_runtime *rt = open_runtime(engines[e], 2);
    tn_variable *x = make_variable(rt), *y = make_variable(rt);
    EXPECT(tn_push(rt, ASYNC(forget_token, NULL, .name = "dial",
                             TN_USES({x, TN_OVERWRITE}))),
           early(engines[e], TN_INVALID));
    EXPECT(tn_variable_wait(x), TN_INVALID);
    EXPECT_TEXT("dial: its token was released before tn_token_complete");
    if (engines[e] != TN_ENGINE_NAIVE) {
      push_kept(rt, &k, y);
      tn_token_release(k.token);
      EXPECT(tn_variable_wait(y), TN_INVALID);
    }
    cr_assert_eq(tn_wait_all(rt), TN_INVALID);
    tn_variable_release(x), tn_variable_release(y);
    close_runtime(rt);
  }
}

Test(host_tokens, reports_the_text_of_a_completion, .timeout = 100) {
  const char *const texts[] = {"no reply", NULL};
  const char *const expected[] = {"request: no reply",
                                  "request failed with TN_IO"};
  keeper k;
  tn_operation *operation = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_THREADED, 1);
  tn_variable *x = make_variable(rt);
  (void)sem_init(&k.began, 0, 0);
  EXPECT(tn_operation_create(rt,
                             ASYNC(keep_token, &k, .name = "request",
                                   TN_USES({x, TN_OVERWRITE})),
                             &operation),
         TN_OK);
  for (int i = 0; i < 2; ++i) {
    EXPECT(tn_operation_push(operation), TN_OK);
    (void)sem_wait(&k.began);
    EXPECT(tn_token_complete(k.token, TN_IO, texts[i]), TN_OK);
    tn_token_release(k.token);
    EXPECT(tn_variable_wait(x), TN_IO);
    EXPECT_TEXT(expected[i]);
  }
  EXPECT(tn_wait_all(rt), TN_IO);
  tn_operation_release(operation), tn_variable_release(x);
  close_runtime(rt);
}

/* The job keeps its variable, its data and the runtime. */
Test(host_tokens, ends_a_runtime_after_its_last_asynchronous_job,
     .timeout = 100) {
  _Atomic int n_dropped = 0;
  keeper k;
  tn_variable *x = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  EXPECT(tn_variable_create(rt, &n_dropped, add_one, &x), TN_OK);
  push_kept(rt, &k, x);
  tn_variable_release(x);
  tn_runtime_release(rt);
  cr_assert_eq(n_dropped, 0);
  EXPECT(tn_token_complete(k.token, TN_OK, NULL), TN_OK);
  cr_assert_eq(n_dropped, 0);
  tn_token_release(k.token);
  cr_assert_eq(n_dropped, 1);
  cr_assert_eq(n_living, 0);
}

/* ----------------------------------------------------------------- shutdown */

static void *shut_down(void *arg) {
  return tn_runtime_shutdown(arg) == TN_OK ? arg : NULL;
}

/* One job runs, one waits for it, and one is asynchronous and pending. */
Test(host_tokens, completes_pending_jobs_without_running_at_a_shutdown,
     .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    _Atomic int n_run = 0;
    gate g;
    keeper k;
    pthread_t thread;
    void *succeeded = NULL;
    tn_runtime *rt = open_runtime(threaded[e], 1);
    tn_variable *x = make_variable(rt), *y = make_variable(rt);
    push_kept(rt, &k, y);
    push_gate(rt, &g, x);
    EXPECT(tn_push(rt, JOB(count_run, &n_run, TN_USES({x, TN_UPDATE}),
                           .drop = add_one, .name = "late")),
           TN_OK);
    EXPECT(tn_push(rt, ASYNC(keep_token, &k, TN_USES({x, TN_UPDATE}))), TN_OK);
    cr_assert(!tn_token_cancelled(k.token));
    cr_assert_eq(pthread_create(&thread, NULL, shut_down, rt), 0);
    while (tn_variable_wait_for(y, 1000000000) == TN_BUSY &&
           !tn_token_cancelled(k.token)) {
    }
    (void)sem_post(&g.go);
    cr_assert_eq(pthread_join(thread, &succeeded), 0);
    cr_assert_not_null(succeeded);
    cr_assert_eq(n_run, 1); /* by its drop */
    EXPECT(tn_variable_wait(x), TN_BUSY);
    EXPECT_TEXT("was not run: the engine is shutting down");
    EXPECT(tn_variable_wait(y), TN_BUSY);
    EXPECT_TEXT("request was not complete when the runtime was shut down");
    EXPECT(tn_token_complete(k.token, TN_OK, NULL), TN_BUSY);
    EXPECT_TEXT("because the runtime was shut down");
    tn_token_release(k.token);
    EXPECT(tn_push(rt, JOB(count_run, NULL, .name = "later")), TN_INVALID);
    EXPECT_TEXT("after tn_runtime_shutdown");
    EXPECT(tn_runtime_shutdown(rt), TN_OK);
    tn_variable_release(x), tn_variable_release(y);
    close_runtime(rt);
  }
}

/* Neither flag makes an exception, nor a prepared operation. */
Test(host_tokens, runs_no_kind_of_pending_job_after_a_shutdown,
     .timeout = 100) {
  static const uint32_t flags[] = {TN_JOB_SMALL, TN_JOB_ALWAYS,
                                   TN_JOB_SMALL | TN_JOB_ALWAYS};
  for (int e = 0; e < 2; ++e) {
    _Atomic int n_run = 0;
    gate g;
    keeper k; /* cancelled after the engine has dropped its pending jobs */
    pthread_t thread;
    tn_operation *operation = NULL;
    tn_runtime *rt = open_runtime(threaded[e], 1);
    tn_variable *x = make_variable(rt), *y = make_variable(rt);
    tn_variable *z = make_variable(rt);
    push_kept(rt, &k, z);
    push_gate(rt, &g, x);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; ++i)
      EXPECT(tn_push(rt, JOB(count_run, &n_run,
                             TN_USES({x, TN_READ}, {y, TN_UPDATE}),
                             .flags = flags[i])),
             TN_OK);
    EXPECT(
        tn_operation_create(
            rt, JOB(count_run, &n_run, TN_USES({x, TN_READ}, {y, TN_UPDATE})),
            &operation),
        TN_OK);
    for (int i = 0; i < 3; ++i) EXPECT(tn_operation_push(operation), TN_OK);
    cr_assert_eq(pthread_create(&thread, NULL, shut_down, rt), 0);
    do EXPECT(tn_variable_wait_for(z, 1000000000), TN_BUSY);
    while (!strstr(tn_error_text(), "when the runtime was shut down"));
    (void)sem_post(&g.go);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(n_run, 0);
    EXPECT(tn_variable_wait(x), TN_OK);
    EXPECT(tn_variable_wait(y), TN_BUSY);
    tn_token_release(k.token);
    tn_operation_release(operation);
    tn_variable_release(x), tn_variable_release(y), tn_variable_release(z);
    close_runtime(rt);
  }
}

/* The owner of the token has forgotten it: the memory is lost, but no thread
 * waits. */
Test(host_tokens, does_not_wait_for_a_lost_token_at_a_shutdown,
     .timeout = 100) {
  keeper k;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  tn_variable *x = make_variable(rt);
  push_kept(rt, &k, x);
  EXPECT(tn_runtime_shutdown(rt), TN_OK);
  EXPECT(tn_variable_wait(x), TN_BUSY);
  tn_variable_release(x);
  tn_runtime_release(rt);
  cr_assert(n_living > 0);
  tn_token_release(k.token); /* for the detectors of leaks */
  cr_assert_eq(n_living, 0);
}

Test(host_tokens, leaves_busy_on_the_outputs_of_calls_after_a_shutdown) {
  float got[2] = {0};
  const int64_t n = 2;
  tn_operator *op = NULL;
  tn_array *x = NULL, *y = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 2);
  EXPECT(tn_plugin_add(rt, &probe_plugin), TN_OK);
  EXPECT(tn_operator_get(rt, "probe.all", &op), TN_OK);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &y), TN_OK);
  EXPECT(tn_array_set(x, (const float[]){1, 2}, sizeof got), TN_OK);
  EXPECT(tn_runtime_shutdown(rt), TN_OK);
  EXPECT(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_BUSY);
  EXPECT(tn_array_wait(y), TN_BUSY);
  tn_array_release(x), tn_array_release(y);
  close_runtime(rt);
}

/* ----------------------------------------------------------------- refusals */

static _Atomic int n_refused;

static void note_refusal(void *arg) {
  (void)arg;
  atomic_fetch_add(&n_refused, 1);
}

/* Expects TN_INVALID with the text, and that the job's drop was called. */
static void refuse(tn_runtime *rt, tn_job *job, const char *text) {
  tn_operation *operation = NULL;
  job->struct_size = sizeof *job;
  job->drop = note_refusal;
  n_refused = 0;
  EXPECT(tn_push(rt, job), TN_INVALID);
  EXPECT_TEXT(text);
  cr_assert_eq(n_refused, 1);
  EXPECT(tn_operation_create(rt, job, &operation), TN_INVALID);
  EXPECT_TEXT(text);
  cr_assert_eq(n_refused, 2);
  cr_assert_null(operation);
}

#define REFUSE(text, ...) refuse(rt, &(tn_job){__VA_ARGS__}, text)

Test(host_tokens, refuses_jobs_that_make_no_sense) {
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  tn_runtime *other = open_runtime(TN_ENGINE_POOLED, 1);
  tn_variable *x = make_variable(rt), *z = make_variable(other);
  REFUSE("neither `run` nor `begin`", .name = "f");
  REFUSE("both `run` and `begin`", .run = count_run, .begin = forget_token);
  REFUSE("unknown flags 0x10", .run = count_run, .flags = 16);
  REFUSE("`access` is NULL", .run = count_run, .n_access = 1);
  REFUSE("access 1 of `f` has no variable", .run = count_run, .name = "f",
         TN_USES({x, TN_READ}, {NULL, TN_READ}));
  REFUSE("access 0 of `job` has an unknown mode", .run = count_run,
         TN_USES({x, 3}));
  REFUSE("access 0 of `job` has a variable of another runtime",
         .run = count_run, TN_USES({z, TN_READ}));
  REFUSE("accesses 0 and 1 of `f` have the same variable", .run = count_run,
         .name = "f", TN_USES({x, TN_READ}, {x, TN_OVERWRITE}));
  refuse(NULL, &(tn_job){.run = count_run}, "the argument `rt` is NULL");
  EXPECT(tn_push(rt, NULL), TN_INVALID);
  EXPECT(tn_push(rt, &(tn_job){.run = count_run}), TN_INVALID);
  EXPECT_TEXT("tn_job.struct_size is 0");
  tn_variable_release(x), tn_variable_release(z);
  tn_runtime_release(other);
  close_runtime(rt);
}

Test(host_tokens, finds_a_repeated_variable_among_many) {
  enum { N = 200 };
  tn_access access[N];
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  for (int i = 0; i < N; ++i)
    access[i] = (tn_access){make_variable(rt), TN_READ};
  EXPECT(tn_push(rt, JOB(read_nothing, NULL, .access = access, .n_access = N)),
         TN_OK);
  tn_variable *last = access[N - 1].variable;
  access[N - 1].variable = access[70].variable;
  REFUSE("accesses 70 and 199 of `job`", .run = count_run, .access = access,
         .n_access = N);
  access[N - 1].variable = last;
  for (int i = 0; i < N; ++i) tn_variable_release(access[i].variable);
  close_runtime(rt);
}

Test(host_tokens, refuses_to_write_a_broadcast_view) {
  const int64_t n = 1, m = 4;
  tn_array *x = NULL, *view = NULL;
  tn_variable *variable = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_array_broadcast(x, 1, &m, &view), TN_OK);
  EXPECT(tn_array_variable(view, &variable), TN_OK);
  REFUSE("writes a broadcast view", .run = count_run,
         TN_USES({variable, TN_UPDATE}));
  EXPECT(tn_push(rt, JOB(read_nothing, NULL, TN_USES({variable, TN_READ}))),
         TN_OK);
  tn_variable_release(variable), tn_array_release(view), tn_array_release(x);
  close_runtime(rt);
}

/* State of a function that calls the library. */
typedef struct inner {
  tn_runtime *rt;
  tn_variable *x;
  _Atomic int n_run;
} inner;

static tn_code wait_inside(void *arg) {
  const inner *i = arg;
  if (tn_wait_all(i->rt) != TN_INVALID) return TN_INTERNAL;
  if (tn_runtime_shutdown(i->rt) != TN_INVALID) return TN_INTERNAL;
  return tn_variable_wait(i->x);
}

static tn_code push_inside(void *arg) {
  inner *i = arg;
  return tn_push(i->rt, JOB(count_run, &i->n_run, TN_USES({i->x, TN_UPDATE})));
}

Test(host_tokens, refuses_waits_inside_of_functions_but_not_pushes,
     .timeout = 100) {
  const uint32_t flags[] = {0, TN_JOB_SMALL};
  for (int e = 0; e < N_ENGINES; ++e)
    for (int f = 0; f < 2; ++f) {
      inner i = {.rt = open_runtime(engines[e], 2)};
      i.x = make_variable(i.rt);
      tn_variable *y = make_variable(i.rt);
      const bool inside = f == 1 && engines[e] == TN_ENGINE_POOLED;
      EXPECT(tn_push(i.rt, JOB(wait_inside, &i, TN_USES({y, TN_UPDATE}),
                               .flags = flags[f])),
             inside ? TN_INVALID : early(engines[e], TN_INVALID));
      EXPECT(tn_variable_wait(y), TN_INVALID);
      EXPECT_TEXT("a wait from inside of a function");
      EXPECT(tn_push(i.rt, JOB(push_inside, &i, .flags = flags[f])), TN_OK);
      cr_assert_eq(tn_wait_all(i.rt), TN_INVALID);
      cr_assert_eq(i.n_run, 1);
      tn_variable_release(i.x), tn_variable_release(y);
      close_runtime(i.rt);
    }
}

/* ------------------------------------------------------------------- traces */

Test(host_tokens, shows_the_names_of_jobs_in_traces) {
  char path[] = "/tmp/tenon_engine_XXXXXX", text[4096] = "";
  _Atomic int n_run = 0;
  keeper k;
  tn_runtime *rt = open_runtime(TN_ENGINE_THREADED, 1);
  tn_variable *x = make_variable(rt);
  const int file = mkstemp(path);
  cr_assert(file >= 0);
  EXPECT(tn_trace_start(rt), TN_OK);
  EXPECT(tn_push(rt, JOB(count_run, &n_run, .name = "read page 7")), TN_OK);
  push_kept(rt, &k, x);
  EXPECT(tn_token_complete(k.token, TN_OK, NULL), TN_OK);
  tn_token_release(k.token);
  EXPECT(tn_trace_write(rt, path), TN_OK);
  FILE *trace = fopen(path, "r");
  cr_assert_not_null(trace);
  (void)fread(text, 1, sizeof text - 1, trace);
  (void)fclose(trace);
  (void)close(file), (void)unlink(path);
  cr_assert(strstr(text, "\"name\":\"read page 7\""), "%s", text);
  cr_assert(strstr(text, "\"name\":\"request\""), "%s", text);
  tn_variable_release(x);
  close_runtime(rt);
}
