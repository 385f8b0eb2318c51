/* SPDX-License-Identifier: Apache-2.0
 * test_later.c: calls of kernels that complete later (tn_host.defer). Programs:
 * test_later_programs.c.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "jobs.h"
#include "later_plugin.h"

enum { N = 3 };
static const float ones[N] = {1, 2, 3};

static tn_runtime *open_later(uint32_t engine, uint32_t workers) {
  tn_runtime *rt = open_runtime(engine, workers);
  EXPECT(tn_plugin_add(rt, &later_plugin), TN_OK);
  later_set_mode(LATER_KEEP);
  return rt;
}

static tn_operator *find(tn_runtime *rt, const char *name) {
  tn_operator *op = NULL;
  EXPECT(tn_operator_get(rt, name, &op), TN_OK);
  return op;
}

static tn_array *make_array(tn_runtime *rt, const float *values) {
  const int64_t shape[] = {N};
  tn_array *array = NULL;
  EXPECT(tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &array), TN_OK);
  EXPECT(tn_array_set(array, values, N * sizeof *values), TN_OK);
  return array;
}

static void expect_values(tn_array *array, float a, float b, float c) {
  float got[N] = {0};
  EXPECT(tn_array_get(array, got, sizeof got), TN_OK);
  cr_assert(got[0] == a && got[1] == b && got[2] == c, "%g %g %g",
            (double)got[0], (double)got[1], (double)got[2]);
}

static tn_code call_to(tn_runtime *rt, const char *name, tn_array *x,
                       tn_array **out) {
  return tn_call(rt, find(rt, name), TN_IN(x), NULL, TN_OUT(out));
}

static tn_array *call(tn_runtime *rt, const char *name, tn_array *x) {
  tn_array *out = NULL;
  EXPECT(call_to(rt, name, x, &out), TN_OK);
  return out;
}

/* -------------------------------------------------------------- completions */

Test(later, another_thread_completes_a_call, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *rt = open_later(engines[e], 1);
    tn_array *x = make_array(rt, ones);
    later_start_helper();
    tn_array *y = call(rt, "later.twice", x), *z = call(rt, "later.twice", y);
    expect_values(z, 4, 8, 12);
    later_stop_helper();
    tn_array_release(x), tn_array_release(y), tn_array_release(z);
    close_runtime(rt);
  }
}

Test(later, a_call_in_flight_holds_no_worker_and_its_readers_wait,
     .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones), *u = make_array(rt, ones);
    tn_array *y = call(rt, "later.twice", x), *z = call(rt, "later.next", y);
    later_await(1);
    tn_array *v = call(rt, "later.next", u);
    expect_values(v, 2, 3, 4);
    EXPECT(tn_array_wait_for(y, 0), TN_BUSY);
    EXPECT(tn_array_wait_for(z, 0), TN_BUSY);
    EXPECT(tn_array_wait_for(x, 0), TN_OK); /* it is only read */
    later_complete(TN_OK, NULL);
    expect_values(z, 3, 5, 7);
    tn_array_release(x), tn_array_release(y), tn_array_release(z);
    tn_array_release(u), tn_array_release(v);
    close_runtime(rt);
  }
}

Test(later, a_call_may_be_complete_when_compute_returns, .timeout = 100) {
  static const later_mode modes[] = {LATER_AT_ONCE, LATER_OTHER, LATER_NEVER};
  for (int e = 0; e < N_ENGINES; ++e)
    for (int m = 0; m < 3; ++m) {
      tn_runtime *rt = open_later(engines[e], 2);
      tn_array *x = make_array(rt, ones);
      later_set_mode(modes[m]);
      tn_array *y = call(rt, "later.twice", x);
      expect_values(y, 2, 4, 6);
      tn_array_release(x), tn_array_release(y);
      close_runtime(rt);
    }
}

/* With one worker: a kernel that waits for the other call would hold it. */
Test(later, calls_may_complete_each_other, .timeout = 100) {
  enum { PAIRS = 50 };
  for (int e = 0; e < 2; ++e) {
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones), *out[2 * PAIRS];
    for (int i = 0; i < 2 * PAIRS; ++i) out[i] = call(rt, "later.meet", x);
    for (int i = 0; i < 2 * PAIRS; ++i) {
      expect_values(out[i], 2, 4, 6);
      tn_array_release(out[i]);
    }
    tn_array_release(x);
    close_runtime(rt);
  }
}

Test(later, many_calls_are_in_flight_at_once, .timeout = 100) {
  enum { CALLS = 300 };
  tn_runtime *rt = open_later(TN_ENGINE_POOLED, 1);
  tn_array *x = make_array(rt, ones), *out[CALLS];
  for (int i = 0; i < CALLS; ++i) out[i] = call(rt, "later.twice", x);
  later_await(CALLS);
  later_start_helper();
  for (int i = 0; i < CALLS; ++i) {
    expect_values(out[i], 2, 4, 6);
    tn_array_release(out[i]);
  }
  later_stop_helper();
  tn_array_release(x);
  close_runtime(rt);
}

/* ---------------------------------------------------------------- operands */

Test(later, outputs_in_the_memory_of_an_input_and_sums_are_written,
     .timeout = 100) {
  const tn_req add = TN_REQ_ADD;
  for (int e = 0; e < 2; ++e) {
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones), *sum = make_array(rt, ones);
    EXPECT(call_to(rt, "later.twice", x, &x), TN_OK);
    later_await(1);
    later_complete(TN_OK, NULL);
    expect_values(x, 2, 4, 6);
    EXPECT(tn_call(rt, find(rt, "later.twice"), TN_IN(x), NULL,
                   &(tn_outputs){1, &sum, &add}),
           TN_OK);
    later_await(1);
    later_complete(TN_OK, NULL);
    expect_values(sum, 5, 10, 15);
    tn_array_release(x), tn_array_release(sum);
    close_runtime(rt);
  }
}

/* The kernel gets dense copies, which the completion writes back. */
Test(later, views_are_written_at_the_completion, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones), *back = NULL;
    EXPECT(
        tn_array_slice(
            x,
            &(tn_range){.axis = 0, .begin = N - 1, .end = -N - 1, .step = -1},
            &back),
        TN_OK);
    tn_array *y = make_array(rt, ones);
    EXPECT(call_to(rt, "later.twice", y, &back), TN_OK);
    later_await(1);
    later_complete(TN_OK, NULL);
    expect_values(x, 6, 4, 2);
    tn_array *z = call(rt, "later.twice", back);
    later_await(1);
    later_complete(TN_OK, NULL);
    expect_values(z, 4, 8, 12);
    tn_array_release(x), tn_array_release(y), tn_array_release(z);
    tn_array_release(back);
    close_runtime(rt);
  }
}

/* The thread of the call waits: the result's shape is known at its return. */
Test(later, an_output_may_get_its_shape_in_compute, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *rt = open_later(engines[e], 1);
    tn_array *x = make_array(rt, ones);
    later_start_helper();
    tn_array *y = call(rt, "later.pick", x);
    later_stop_helper();
    expect_values(y, 2, 4, 6);
    tn_array_release(x), tn_array_release(y);
    close_runtime(rt);
  }
}

Test(later, prepared_calls_run_one_after_the_other, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones);
    tn_prepared *prepared = NULL;
    const tn_preparation what = {.struct_size = sizeof what,
                                 .op = find(rt, "later.twice"),
                                 .inputs = *TN_IN(x),
                                 .outputs = *TN_OUT(&x)};
    EXPECT(tn_call_prepare(rt, &what, &prepared), TN_OK);
    for (int i = 0; i < 3; ++i) EXPECT(tn_call_run(prepared), TN_OK);
    for (int i = 0; i < 3; ++i) {
      later_await(1);
      later_complete(TN_OK, NULL);
    }
    expect_values(x, 8, 16, 24);
    EXPECT(tn_call_run(prepared), TN_OK);
    later_await(1);
    tn_prepared_release(prepared); /* in flight */
    later_complete(TN_OK, NULL);
    expect_values(x, 16, 32, 48);
    tn_array_release(x);
    close_runtime(rt);
  }
}

Test(later, tapes_differentiate_calls, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *rt = open_later(engines[e], 1);
    tn_array *x = make_array(rt, ones), *y = NULL, *z = NULL, *dx = NULL;
    tn_tape *tape = NULL;
    later_start_helper();
    EXPECT(tn_tape_create(rt, &tape), TN_OK);
    EXPECT(tn_tape_watch(tape, x), TN_OK);
    EXPECT(
        tn_tape_call(tape, find(rt, "later.twice"), TN_IN(x), NULL, TN_OUT(&y)),
        TN_OK);
    EXPECT(
        tn_tape_call(tape, find(rt, "later.twice"), TN_IN(y), NULL, TN_OUT(&z)),
        TN_OK);
    EXPECT(tn_tape_gradient(
               tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                      .heads = *TN_IN(z),
                                      .of = *TN_IN(x),
                                      .gradients = *TN_OUT(&dx)}),
           TN_OK);
    expect_values(dx, 4, 4, 4);
    EXPECT(tn_wait_all(rt), TN_OK); /* nothing else waits for z */
    later_stop_helper();
    tn_tape_release(tape);
    tn_array_release(x), tn_array_release(y), tn_array_release(z);
    tn_array_release(dx);
    close_runtime(rt);
  }
}

/* ---------------------------------------------------------------- failures */

Test(later, a_failure_travels_with_the_outputs, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones);
    tn_array *y = call(rt, "later.twice", x), *z = call(rt, "later.next", y);
    later_await(1);
    later_complete(TN_IO, "the line is cut");
    EXPECT(tn_array_wait(y), TN_IO);
    EXPECT_TEXT(
        "later.twice@1: the line is cut; in compute of kernel "
        "later.twice.cpu, plugin later release 1; input `x` f32 (3)");
    EXPECT(tn_array_wait(z), TN_IO);
    EXPECT_TEXT("later.next@1 was not run: ");
    EXPECT(tn_wait_all(rt), TN_IO);
    EXPECT(call_to(rt, "later.twice", x, &y), TN_OK);
    later_await(1);
    later_complete_failed(TN_DEVICE, "by TN_FAIL");
    EXPECT(tn_array_wait(y), TN_DEVICE);
    EXPECT_TEXT("later.twice@1: by TN_FAIL; in compute");
    EXPECT(call_to(rt, "later.twice", x, &y), TN_OK);
    later_await(1);
    later_complete(77, NULL);
    EXPECT(tn_array_wait(y), TN_PLUGIN);
    EXPECT_TEXT("the kernel gave no reason (it returned 77, which is no code)");
    EXPECT(call_to(rt, "later.twice", x, &y), TN_OK);
    later_await(1);
    later_complete(TN_OK, NULL);
    expect_values(y, 2, 4, 6); /* overwritten: no error is left */
    EXPECT(tn_wait_all(rt), TN_DEVICE);
    tn_array_release(x), tn_array_release(y), tn_array_release(z);
    close_runtime(rt);
  }
}

Test(later, a_ticket_needs_the_flag_and_an_end, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    tn_runtime *rt = open_later(engines[e], 1);
    tn_array *x = make_array(rt, ones), *y = make_array(rt, ones);
    const tn_code known = early(engines[e], TN_UNSUPPORTED);
    const tn_code rc = call_to(rt, "later.early", x, &y);
    cr_assert(rc == known || rc == TN_UNSUPPORTED);
    EXPECT(tn_array_wait(y), TN_UNSUPPORTED);
    EXPECT_TEXT(
        "later.early@1: defer: only compute of a kernel with TN_KERNEL_LATER "
        "(`flags: [later]`) can complete later");
    later_set_mode(LATER_FAIL);
    EXPECT(call_to(rt, "later.twice", x, &y), early(engines[e], TN_IO));
    EXPECT(tn_array_wait(y), TN_IO);
    EXPECT_TEXT("later.twice@1: no line; in compute of kernel");
    later_set_mode(LATER_NO_TICKET);
    EXPECT(call_to(rt, "later.twice", x, &y), early(engines[e], TN_PLUGIN));
    EXPECT(tn_array_wait(y), TN_PLUGIN);
    EXPECT_TEXT("compute returned TN_LATER without a ticket");
    tn_array_release(x), tn_array_release(y);
    cr_assert(tn_wait_all(rt) != TN_OK);
    close_runtime(rt);
  }
}

/* --------------------------------------------------------------------- ends */

static void *shut_down(void *arg) {
  EXPECT(tn_runtime_shutdown(arg), TN_OK);
  return NULL;
}

/* The memory of the call is in use until its completion. */
Test(later, a_shutdown_waits_for_calls_and_tells_them, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    pthread_t other;
    tn_runtime *rt = open_later(threaded[e], 1);
    tn_array *x = make_array(rt, ones), *y = call(rt, "later.twice", x);
    later_await(1);
    cr_assert_eq(later_is_cancelled(), 0);
    cr_assert_eq(pthread_create(&other, NULL, shut_down, rt), 0);
    while (!later_is_cancelled()) (void)sched_yield();
    EXPECT(tn_array_wait_for(y, 0), TN_BUSY);
    later_complete(TN_BUSY, "it ends early");
    (void)pthread_join(other, NULL);
    EXPECT(tn_array_wait(y), TN_BUSY);
    EXPECT_TEXT("later.twice@1: it ends early");
    tn_array_release(x), tn_array_release(y);
    close_runtime(rt);
  }
}

typedef struct waiting_call {
  tn_runtime *rt;
  tn_array *x, *y;
} waiting_call;

static void *call_and_wait(void *arg) {
  waiting_call *c = arg;
  EXPECT(call_to(c->rt, "later.twice", c->x, &c->y), TN_BUSY);
  return NULL;
}

/* Its call waits inside of the push. */
Test(later, a_shutdown_of_a_naive_engine_tells_calls, .timeout = 100) {
  pthread_t pushing, other;
  tn_runtime *rt = open_later(TN_ENGINE_NAIVE, 0);
  waiting_call c = {rt, make_array(rt, ones), make_array(rt, ones)};
  cr_assert_eq(pthread_create(&pushing, NULL, call_and_wait, &c), 0);
  later_await(1);
  cr_assert_eq(pthread_create(&other, NULL, shut_down, rt), 0);
  while (!later_is_cancelled()) (void)sched_yield();
  later_complete(TN_BUSY, "it ends early");
  (void)pthread_join(pushing, NULL);
  (void)pthread_join(other, NULL);
  tn_array_release(c.x), tn_array_release(c.y);
  close_runtime(rt);
}

static void *release(void *arg) {
  tn_runtime_release(arg);
  return NULL;
}

Test(later, the_last_release_waits_for_calls, .timeout = 100) {
  pthread_t other;
  tn_runtime *rt = open_later(TN_ENGINE_POOLED, 1);
  tn_array *x = make_array(rt, ones), *y = call(rt, "later.twice", x);
  later_await(1);
  tn_array_release(x), tn_array_release(y); /* the call keeps them */
  cr_assert_eq(pthread_create(&other, NULL, release, rt), 0);
  cr_assert_eq(later_is_cancelled(), 0);
  later_complete(TN_OK, NULL);
  (void)pthread_join(other, NULL);
  cr_assert_eq(n_living, 0);
}

static void *unload(void *arg) {
  EXPECT(tn_plugin_unload(arg, "later"), TN_OK);
  return NULL;
}

Test(later, a_plugin_is_unloaded_after_its_calls, .timeout = 100) {
  pthread_t other;
  tn_operator *op = NULL;
  tn_runtime *rt = open_later(TN_ENGINE_POOLED, 1);
  tn_array *x = make_array(rt, ones), *y = call(rt, "later.twice", x);
  later_await(1);
  cr_assert_eq(pthread_create(&other, NULL, unload, rt), 0);
  EXPECT(tn_array_wait_for(y, 1000000), TN_BUSY);
  EXPECT(tn_operator_get(rt, "later.twice", &op), TN_OK);
  later_complete(TN_OK, NULL);
  (void)pthread_join(other, NULL);
  EXPECT(tn_operator_get(rt, "later.twice", &op), TN_NOT_FOUND);
  expect_values(y, 2, 4, 6);
  tn_array_release(x), tn_array_release(y);
  close_runtime(rt);
}

/* ------------------------------------------------------------------- traces */

static char *read_trace(tn_runtime *rt) {
  char path[] = "/tmp/tenon-later-XXXXXX";
  const int fd = mkstemp(path);
  char *text = calloc(1, 1 << 16);
  cr_assert(fd >= 0 && text);
  EXPECT(tn_trace_write(rt, path), TN_OK);
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file);
  cr_assert_gt(fread(text, 1, (1 << 16) - 1, file), 0);
  (void)fclose(file), (void)close(fd), (void)unlink(path);
  return text;
}

static double time_of(const char *event) {
  const char *ts = event ? strstr(event, "\"ts\":") : NULL;
  cr_assert_not_null(ts);
  return strtod(ts + 5, NULL);
}

/* The span of the other call is within that of the call in flight. */
Test(later, a_trace_shows_calls_from_their_begin_to_their_completion,
     .timeout = 100) {
  tn_runtime *rt = open_later(TN_ENGINE_POOLED, 1);
  tn_array *x = make_array(rt, ones);
  EXPECT(tn_trace_start(rt), TN_OK);
  tn_array *y = call(rt, "later.twice", x);
  later_await(1);
  tn_array *z = call(rt, "later.next", x);
  EXPECT(tn_array_wait(z), TN_OK);
  later_complete(TN_OK, NULL);
  EXPECT(tn_array_wait(y), TN_OK);
  char *text = read_trace(rt);
#define EVENT(name, category, phase) \
  "{\"name\":\"" name "\",\"cat\":\"" category "\",\"ph\":\"" phase "\""
  const char *begin = strstr(text, EVENT("later.twice@1", "later", "b")),
             *end = strstr(text, EVENT("later.twice@1", "later", "e")),
             *next = strstr(text, EVENT("later.next@1", "host", "X"));
  cr_assert(begin && end && next, "%s", text);
  cr_assert(strstr(begin, ",\"id\":1}") && strstr(end, ",\"id\":1}"));
  cr_assert_lt(time_of(begin), time_of(next));
  cr_assert_lt(time_of(next), time_of(end));
  cr_assert_not_null(strstr(text, EVENT("later.twice@1", "host", "X")));
  free(text);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
  close_runtime(rt);
}
