/* SPDX-License-Identifier: Apache-2.0
 * test_host_jobs.c: jobs of a host (tenon/engine.h), in every engine: order,
 * variables of arrays, lives, errors and prepared operations.
 */
#include "jobs.h"

/* -------------------------------------------------------------------- order */

/* A log of numbers. Without the right order its writers race. */
typedef struct list {
  int n;
  int v[1024];
} list;

typedef struct note {
  list *log;
  int number;
} note;

static tn_code run_note(void *arg) {
  const note *n = arg;
  n->log->v[n->log->n++] = n->number;
  return TN_OK;
}

Test(host_jobs, runs_writers_of_a_variable_in_the_order_of_pushes) {
  enum { N = 1000 };
  static note notes[N];
  for (int e = 0; e < N_ENGINES; ++e) {
    list log = {0};
    tn_runtime *rt = open_runtime(engines[e], 4);
    tn_variable *x = make_variable(rt);
    for (int i = 0; i < N; ++i) {
      notes[i] = (note){&log, i};
      EXPECT(tn_push(rt, JOB(run_note, &notes[i], TN_USES({x, TN_UPDATE}),
                             .flags = i % 2 ? TN_JOB_SMALL : 0)),
             TN_OK);
    }
    EXPECT(tn_variable_wait(x), TN_OK);
    for (int i = 0; i < N; ++i) cr_assert_eq(log.v[i], i);
    tn_variable_release(x);
    close_runtime(rt);
  }
}

/* Meets the other readers of one variable at a barrier. */
static tn_code run_meeting(void *arg) {
  (void)pthread_barrier_wait(arg);
  return TN_OK;
}

Test(host_jobs, runs_readers_at_the_same_time, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    pthread_barrier_t meeting;
    pthread_barrier_init(&meeting, NULL, 3);
    tn_runtime *rt = open_runtime(threaded[e], 3);
    tn_variable *x = make_variable(rt);
    for (int i = 0; i < 3; ++i)
      EXPECT(tn_push(rt, JOB(run_meeting, &meeting, TN_USES({x, TN_READ}))),
             TN_OK);
    EXPECT(tn_variable_wait_write(x), TN_OK);
    tn_variable_release(x);
    close_runtime(rt);
    pthread_barrier_destroy(&meeting);
  }
}

Test(host_jobs, prefers_jobs_with_a_priority, .timeout = 100) {
  list log = {0};
  note low = {&log, 1}, high = {&log, 2};
  gate g;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 1);
  tn_variable *x = make_variable(rt), *y = make_variable(rt),
              *z = make_variable(rt);
  push_gate(rt, &g, x);
  EXPECT(tn_push(rt, JOB(run_note, &low, TN_USES({y, TN_UPDATE}))), TN_OK);
  EXPECT(
      tn_push(rt, JOB(run_note, &high, TN_USES({z, TN_UPDATE}), .priority = 1)),
      TN_OK);
  (void)sem_post(&g.go);
  /* A wait with a limit leaves the jobs to the only worker. */
  while (tn_variable_wait_for(y, 1000000000) == TN_BUSY) {
  }
  while (tn_variable_wait_for(z, 1000000000) == TN_BUSY) {
  }
  cr_assert(log.v[0] == 2 && log.v[1] == 1, "%d %d", log.v[0], log.v[1]);
  tn_variable_release(x), tn_variable_release(y), tn_variable_release(z);
  close_runtime(rt);
}

/* Ends the first three waits, and sends the job on before a fourth one. */
typedef struct patience {
  gate g;
  int n_asked;
} patience;

static int32_t lose_patience(void *ctx) {
  patience *p = ctx;
  if (++p->n_asked <= 3) return 1;
  (void)sem_post(&p->g.go);
  return 0;
}

Test(host_jobs, lets_the_host_end_a_wait, .timeout = 100) {
  patience p = {.n_asked = 0};
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 1,
                              .interrupted = lose_patience,
                              .interrupted_ctx = &p};
  tn_runtime *rt = NULL;
  EXPECT(tn_runtime_create(&options, &rt), TN_OK);
  tn_variable *x = make_variable(rt);
  push_gate(rt, &p.g, x);
  EXPECT(tn_variable_wait(x), TN_BUSY);
  EXPECT_TEXT("interrupted");
  EXPECT(tn_variable_wait_write(x), TN_BUSY);
  EXPECT(tn_variable_wait(x), TN_BUSY);
  cr_assert_eq(p.n_asked, 3);
  EXPECT(tn_variable_wait(x), TN_OK);
  tn_variable_release(x);
  tn_runtime_release(rt);
}

typedef struct place {
  pthread_t thread;
  sem_t done;
} place;

static tn_code run_place(void *arg) {
  place *p = arg;
  p->thread = pthread_self();
  (void)sem_post(&p->done);
  return TN_OK;
}

/* Where a small job with free variables runs. */
static pthread_t find_place(uint32_t engine) {
  place p;
  (void)sem_init(&p.done, 0, 0);
  tn_runtime *rt = open_runtime(engine, 1);
  EXPECT(tn_push(rt, JOB(run_place, &p, .flags = TN_JOB_SMALL)), TN_OK);
  (void)sem_wait(&p.done); /* no wait of the library, which could help */
  close_runtime(rt);
  return p.thread;
}

Test(host_jobs, runs_nothing_on_the_pushing_thread_if_threaded,
     .timeout = 100) {
  cr_assert(pthread_equal(find_place(TN_ENGINE_POOLED), pthread_self()));
  cr_assert(!pthread_equal(find_place(TN_ENGINE_THREADED), pthread_self()));
}

/* The operator of a call is short, and would run inside of tn_call. */
Test(host_jobs, orders_calls_of_operators_if_threaded) {
  float got[2] = {0};
  const int64_t n = 2;
  tn_operator *op = NULL;
  tn_array *x = NULL, *y = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_THREADED, 2);
  EXPECT(tn_plugin_add(rt, &probe_plugin), TN_OK);
  EXPECT(tn_operator_get(rt, "probe.all", &op), TN_OK);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_array_set(x, (const float[]){1, 2}, sizeof got), TN_OK);
  EXPECT(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_OK);
  EXPECT(tn_array_get(y, got, sizeof got), TN_OK);
  cr_assert(got[0] == 2 && got[1] == 4);
  tn_array_release(x), tn_array_release(y);
  close_runtime(rt);
}

/* ------------------------------------------------------------------- arrays */

static tn_code fill_array(void *arg) {
  const tn_tensor *t = tn_array_tensor(arg);
  float *data = t->data;
  data[0] = 3, data[1] = 4;
  return TN_OK;
}

static void release_array(void *arg) {
  tn_array_release(arg);
}

Test(host_jobs, takes_its_place_among_calls_by_the_variable_of_an_array) {
  for (int e = 0; e < N_ENGINES; ++e) {
    float got[2] = {0};
    const int64_t n = 2;
    tn_operator *op = NULL;
    tn_array *x = NULL, *y = NULL;
    tn_variable *variable = NULL;
    tn_runtime *rt = open_runtime(engines[e], 2);
    EXPECT(tn_plugin_add(rt, &probe_plugin), TN_OK);
    EXPECT(tn_operator_get(rt, "probe.all", &op), TN_OK);
    EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
    EXPECT(tn_array_variable(x, &variable), TN_OK);
    EXPECT(tn_push(rt, JOB(fill_array, tn_array_retain(x),
                           TN_USES({variable, TN_OVERWRITE}),
                           .drop = release_array)),
           TN_OK);
    tn_variable_release(variable);
    EXPECT(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_OK);
    EXPECT(tn_array_get(y, got, sizeof got), TN_OK);
    cr_assert(got[0] == 6 && got[1] == 8, "%g %g", (double)got[0],
              (double)got[1]);
    tn_array_release(x), tn_array_release(y);
    close_runtime(rt);
  }
}

static tn_code read_zeros(void *arg) {
  const float *data = tn_array_tensor(arg)->data;
  return data[0] == 0 && data[1] == 0
             ? TN_OK
             : tn_fail(TN_INVALID, "%g %g", (double)data[0], (double)data[1]);
}

Test(host_jobs, reads_an_array_that_was_never_written_as_zeros) {
  const int64_t n = 2;
  tn_array *x = NULL;
  tn_variable *variable = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 2);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_array_variable(x, &variable), TN_OK);
  EXPECT(tn_push(rt, JOB(read_zeros, x, TN_USES({variable, TN_READ}))), TN_OK);
  EXPECT(tn_wait_all(rt), TN_OK);
  tn_variable_release(variable), tn_array_release(x);
  close_runtime(rt);
}

static tn_code fail_always(void *arg) {
  (void)arg;
  return tn_fail(TN_IO, "boom at disk");
}

/* The view is a part of the array, so a write of it leaves the error of the
 * rest. */
Test(host_jobs, counts_a_write_of_a_view_as_an_update) {
  const int64_t n = 4;
  tn_array *x = NULL, *part = NULL;
  tn_variable *all = NULL, *some = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_NAIVE, 1);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_array_slice(x, &(tn_range){.begin = 0, .end = 2}, &part), TN_OK);
  EXPECT(tn_array_variable(x, &all), TN_OK);
  EXPECT(tn_array_variable(part, &some), TN_OK);
  EXPECT(tn_push(rt, JOB(fail_always, NULL, TN_USES({all, TN_OVERWRITE}))),
         TN_IO);
  EXPECT(tn_push(rt, JOB(fill_array, part, TN_USES({some, TN_OVERWRITE}))),
         TN_IO);
  EXPECT(tn_push(rt, JOB(fill_array, x, TN_USES({all, TN_OVERWRITE}))), TN_OK);
  EXPECT(tn_variable_wait(some), TN_OK);
  tn_variable_release(some), tn_variable_release(all);
  tn_array_release(part), tn_array_release(x);
  tn_runtime_release(rt);
}

Test(host_jobs, accepts_two_arrays_that_share_memory) {
  const int64_t n = 4;
  tn_array *x = NULL, *part = NULL;
  tn_variable *all = NULL, *some = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 2);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_array_slice(x, &(tn_range){.begin = 0, .end = 2}, &part), TN_OK);
  EXPECT(tn_array_variable(x, &all), TN_OK);
  EXPECT(tn_array_variable(part, &some), TN_OK);
  EXPECT(tn_push(rt, JOB(fill_array, part,
                         TN_USES({all, TN_READ}, {some, TN_UPDATE}))),
         TN_OK);
  EXPECT(tn_variable_wait(all), TN_OK);
  tn_variable_release(some), tn_variable_release(all);
  tn_array_release(part), tn_array_release(x);
  close_runtime(rt);
}

/* --------------------------------------------------------------------- life */

Test(host_jobs, drops_data_after_the_last_use_of_its_variable, .timeout = 100) {
  _Atomic int n_dropped = 0;
  gate g;
  tn_variable *x = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, 2);
  EXPECT(tn_variable_create(rt, &n_dropped, add_one, &x), TN_OK);
  push_gate(rt, &g, x);
  tn_variable_release(tn_variable_retain(x));
  tn_variable_release(x);
  cr_assert_eq(n_dropped, 0);
  (void)sem_post(&g.go);
  EXPECT(tn_wait_all(rt), TN_OK);
  cr_assert_eq(n_dropped, 1);
  close_runtime(rt);
}

/* A pending job of the host runs although the runtime is released. */
Test(host_jobs, runs_pending_jobs_before_the_runtime_ends, .timeout = 100) {
  _Atomic int n_run = 0, n_dropped = 0;
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *rt = open_runtime(engines[e], 2);
    tn_variable *x = make_variable(rt);
    for (int i = 0; i < 50; ++i)
      EXPECT(tn_push(rt, JOB(count_run, &n_run, TN_USES({x, TN_UPDATE}))),
             TN_OK);
    EXPECT(tn_push(rt, JOB(count_run, &n_dropped, TN_USES({x, TN_UPDATE}),
                           .drop = add_one)),
           TN_OK);
    tn_variable_release(x);
    close_runtime(rt);
    cr_assert(n_run == 50 * (e + 1) && n_dropped == 2 * (e + 1));
  }
}

static sem_t freed;

static void free_and_post(void *ctx, void *memory) {
  count_free(ctx, memory);
  if (n_living == 0) (void)sem_post(&freed);
}

/* The drop of the job releases the last owner of the runtime, on a worker. The
 * worker cannot wait for itself. */
Test(host_jobs, ends_a_runtime_that_a_job_releases, .timeout = 100) {
  gate g;
  const int64_t n = 2;
  tn_array *x = NULL;
  tn_runtime *rt = NULL;
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 1,
                              .allocator = {NULL, count_alloc, free_and_post}};
  (void)sem_init(&freed, 0, 0);
  EXPECT(tn_runtime_create(&options, &rt), TN_OK);
  tn_variable *v = make_variable(rt);
  push_gate(rt, &g, v);
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  EXPECT(tn_push(rt, JOB(read_nothing, x, TN_USES({v, TN_READ}),
                         .drop = release_array)),
         TN_OK);
  tn_variable_release(v);
  tn_runtime_release(rt);
  (void)sem_post(&g.go);
  (void)sem_wait(&freed);
}

/* ------------------------------------------------------------------- errors */

Test(host_jobs, passes_errors_along_variables, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    _Atomic int n_run = 0;
    tn_runtime *rt = open_runtime(engines[e], 2);
    tn_variable *x = make_variable(rt), *y = make_variable(rt),
                *z = make_variable(rt);
    EXPECT(tn_push(rt, JOB(fail_always, NULL, .name = "read",
                           TN_USES({x, TN_OVERWRITE}))),
           early(engines[e], TN_IO));
    EXPECT(tn_push(rt, JOB(count_run, &n_run, .name = "compute",
                           TN_USES({x, TN_READ}, {y, TN_UPDATE}))),
           early(engines[e], TN_IO));
    EXPECT(tn_push(rt, JOB(count_run, &n_run, TN_USES({z, TN_UPDATE}))), TN_OK);
    EXPECT(tn_push(rt,
                   JOB(count_run, &n_run, TN_USES({x, TN_READ}, {z, TN_UPDATE}),
                       .flags = TN_JOB_ALWAYS)),
           TN_OK);
    EXPECT(tn_variable_wait(y), TN_IO);
    EXPECT_TEXT("compute was not run: read: boom at disk");
    EXPECT(tn_variable_wait(z), TN_OK);
    cr_assert_eq(n_run, 2);
    EXPECT(tn_push(rt, JOB(count_run, &n_run, TN_USES({x, TN_OVERWRITE}))),
           TN_OK);
    EXPECT(tn_variable_wait(x), TN_OK);
    EXPECT(tn_wait_all(rt), TN_IO);
    EXPECT(tn_wait_all(rt), TN_OK);
    tn_variable_release(x), tn_variable_release(y), tn_variable_release(z);
    close_runtime(rt);
  }
}

static tn_code return_arg(void *arg) {
  return *(const tn_code *)arg;
}

/* The text of an earlier failure of the thread is not the reason. */
Test(host_jobs, does_not_invent_the_reason_of_a_failure) {
  tn_code device = TN_DEVICE, wrong = 7;
  tn_runtime *rt = open_runtime(TN_ENGINE_NAIVE, 1);
  tn_variable *x = make_variable(rt);
  EXPECT(tn_variable_wait(NULL), TN_INVALID);
  EXPECT(tn_push(rt, JOB(return_arg, &device, .name = "send",
                         TN_USES({x, TN_UPDATE}))),
         TN_DEVICE);
  cr_assert_str_eq(tn_error_text(),
                   "send failed with TN_DEVICE and gave no reason (tn_fail)");
  EXPECT(tn_push(rt, JOB(return_arg, &wrong, .name = "send",
                         TN_USES({x, TN_OVERWRITE}))),
         TN_INTERNAL);
  EXPECT_TEXT("returned 7, which is no code");
  tn_variable_release(x);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------------- operations */

Test(host_jobs, pushes_a_prepared_operation_many_times, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    _Atomic int n_dropped = 0;
    list log = {0};
    note one = {&log, 1};
    tn_operation *operation = NULL, *counting = NULL;
    tn_runtime *rt = open_runtime(engines[e], 3);
    tn_variable *x = make_variable(rt), *y = make_variable(rt);
    EXPECT(tn_operation_create(rt, JOB(run_note, &one, TN_USES({x, TN_UPDATE})),
                               &operation),
           TN_OK);
    EXPECT(
        tn_operation_create(rt,
                            JOB(count_run, &n_dropped, TN_USES({y, TN_UPDATE}),
                                .drop = add_one, .priority = -1),
                            &counting),
        TN_OK);
    for (int i = 0; i < 1000; ++i) EXPECT(tn_operation_push(operation), TN_OK);
    EXPECT(tn_operation_push(counting), TN_OK);
    tn_variable_release(x), tn_variable_release(y);
    tn_operation_release(tn_operation_retain(operation));
    tn_operation_release(operation), tn_operation_release(counting);
    EXPECT(tn_wait_all(rt), TN_OK);
    cr_assert_eq(log.n, 1000);
    cr_assert_eq(n_dropped, 2);
    close_runtime(rt);
  }
}
