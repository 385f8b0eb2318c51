/* SPDX-License-Identifier: Apache-2.0
 * test_nccl.c: plugins/nccl on the simulated driver and NCCL: the arguments of
 * its functions, groups of one rank, failures, and libraries that are missing
 * or too old. tests/comm has the values of all operators.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_nccl.h"
#include "fixture.h"
#include "library.h"
#include "tenon/engine.h"
#include "tenon/plugin/comm.h"

enum { MOST = 2 };

/* A rank: a runtime with a GPU of its own. */
typedef struct rank {
  tn_runtime *rt;
  const tn_comm *comm;
  tn_comm_group group;
  int number, size;
  uint32_t timeout_ms;
  tn_array *x;
} rank;

static rank ranks[MOST];

static void *join_rank(void *arg) {
  rank *r = arg;
  tn_comm_reason why = {""};
  const tn_comm_join how = {.struct_size = sizeof how,
                            .timeout_ms = r->timeout_ms,
                            .rank = r->number,
                            .size = r->size,
                            .name = "world",
                            .backend = "local",
                            .session = "test"};
  r->group.struct_size = sizeof r->group;
  cr_assert_eq(r->comm->join(r->comm->ctx, &how, &r->group, &why), TN_OK, "%s",
               why.text);
  return NULL;
}

static void open_rank(rank *r) {
  const void *table = NULL;
  const tn_options how = {.struct_size = sizeof how, .workers = 2};
  OK(tn_runtime_create(&how, &r->rt));
  OK(tn_plugin_load(r->rt, CUDA_FILE));
  OK(tn_plugin_load(r->rt, COMM_FILE));
  OK(tn_plugin_load(r->rt, NCCL_FILE));
  OK(tn_plugin_extension(r->rt, TN_COMM_EXTENSION, &table));
  r->comm = table;
}

/* An array (n, 2n, ...) of f32 on the GPU of the rank. */
static tn_array *make_array(rank *r, int64_t n) {
  float values[8];
  char text[16];
  tn_place place;
  tn_array *array = NULL;
  for (int64_t i = 0; i < n; ++i)
    values[i] = (float)((i + 1) * (r->number + 1));
  (void)snprintf(text, sizeof text, "cuda(%d)", r->number);
  OK(tn_place_parse(r->rt, text, &place));
  OK(tn_array_create_on(r->rt, &(tn_spec){TN_F32, 1, &n}, place, &array));
  OK(tn_array_set(array, values, (size_t)n * sizeof *values));
  return array;
}

static void open_ranks(int n, uint32_t timeout_ms) {
  pthread_t threads[MOST];
  fake_cuda_begin(&(fake_cuda_options){.devices = n, .seed = 3});
  for (int i = 0; i < n; ++i) {
    ranks[i] = (rank){.number = i, .size = n, .timeout_ms = timeout_ms};
    open_rank(&ranks[i]);
  }
  for (int i = 0; i < n; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, join_rank, &ranks[i]), 0);
  for (int i = 0; i < n; ++i) cr_assert_eq(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < n; ++i) ranks[i].x = make_array(&ranks[i], 3);
}

static void close_ranks(int n) {
  for (int i = 0; i < n; ++i) {
    tn_array_release(ranks[i].x);
    tn_runtime_release(ranks[i].rt);
  }
  cr_expect_eq(fake_nccl_open(), 0, "communicators remain");
  const char *told = fake_cuda_end();
  cr_assert_null(told, "%s", told);
}

static tn_array *call(rank *r, const char *name, const char *text,
                      tn_array *in) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *out = NULL;
  OK(tn_operator_get(r->rt, name, &op));
  OK(tn_params_parse(op, text, &params));
  OK(tn_call(r->rt, op, &(tn_inputs){in ? 1 : 0, &in}, params,
             &(tn_outputs){1, &out, NULL}));
  tn_params_release(params);
  return out;
}

static void expect_log(int number, const char *want) {
  char *log = fake_nccl_log(number);
  cr_expect_str_eq(log, want);
  free(log);
}

static void expect_values(tn_array *array, const float *want, size_t n) {
  float have[8];
  OK(tn_array_get(array, have, n * sizeof *have));
  for (size_t i = 0; i < n; ++i)
    cr_expect_eq(have[i], want[i], "element %zu is %g, not %g", i,
                 (double)have[i], (double)want[i]);
}

/* ------------------------------------------------------------------ one rank
 */

Test(nccl, a_group_of_one_uses_it_too) {
  open_ranks(1, 0);
  rank *r = &ranks[0];
  static const char *const calls[][3] = {
      {"comm.all_reduce", "op=max", "{\nall_reduce n=3 type=7 op=2\n}\n"},
      {"comm.all_reduce", "op=mean", "{\nall_reduce n=3 type=7 op=4\n}\n"},
      {"comm.reduce_scatter", "op=prod",
       "{\nreduce_scatter n=3 type=7 op=1\n}\n"},
      {"comm.reduce", "op=min", "{\nreduce n=3 type=7 op=3\n}\n"},
      {"comm.all_gather", "", "{\nall_gather n=12 type=1\n}\n"},
      {"comm.broadcast", "", "{\nbroadcast n=12 type=1 peer=0\n}\n"},
      {"comm.all_to_all", "",
       "{\nsend n=12 type=1 peer=0\nrecv n=12 type=1 peer=0\n}\n"}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    tn_array *y = call(r, calls[i][0], calls[i][1], r->x);
    expect_values(y, (const float[]){1, 2, 3}, 3);
    expect_log(0, calls[i][2]);
    tn_array_release(y);
  }
  close_ranks(1);
}

Test(nccl, arrays_without_elements_reach_no_function) {
  open_ranks(1, 0);
  tn_array *none = make_array(&ranks[0], 0);
  tn_array *y = call(&ranks[0], "comm.all_reduce", "", none);
  OK(tn_array_wait(y));
  expect_log(0, "");
  tn_array_release(y);
  tn_array_release(none);
  close_ranks(1);
}

/* ----------------------------------------------------------------- two ranks
 */

Test(nccl, computation_does_not_wait_for_a_call) {
  open_ranks(2, 0);
  tn_array *sum = call(&ranks[0], "comm.all_reduce", "", ranks[0].x);
  tn_array *other = make_array(&ranks[0], 3);
  tn_array *copy = make_array(&ranks[0], 3);
  OK(tn_array_copy(copy, other));
  expect_values(copy, (const float[]){1, 2, 3}, 3);
  tn_array *same = call(&ranks[1], "comm.all_reduce", "", ranks[1].x);
  expect_values(sum, (const float[]){3, 6, 9}, 3);
  expect_values(same, (const float[]){3, 6, 9}, 3);
  tn_array_release(sum);
  tn_array_release(same);
  tn_array_release(other);
  tn_array_release(copy);
  close_ranks(2);
}

/* Both ranks call once, so that their communicators are open. */
static void call_once(void) {
  tn_array *y[MOST];
  for (int i = 0; i < MOST; ++i)
    y[i] = call(&ranks[i], "comm.all_reduce", "", ranks[i].x);
  for (int i = 0; i < MOST; ++i) {
    OK(tn_array_wait(y[i]));
    tn_array_release(y[i]);
  }
}

Test(nccl, an_asynchronous_error_reaches_the_array) {
  open_ranks(2, 0);
  call_once();
  tn_array *y = call(&ranks[0], "comm.all_reduce", "", ranks[0].x);
  fake_nccl_break(0, NCCL_REMOTE_ERROR);
  FAILS(tn_array_wait(y), TN_IO,
        "comm.all_reduce@1: group `world`, rank 0 of 2: NCCL 2.32.3: remote "
        "process exited or there was a network error: the test broke it");
  cr_expect_eq(fake_nccl_aborts(), 1);
  tn_array *later = call(&ranks[0], "comm.broadcast", "", ranks[0].x);
  FAILS(tn_array_wait(later), TN_IO, "is broken on rank 0 of 2: comm.all");
  expect_values(ranks[0].x, (const float[]){1, 2, 3}, 3);
  tn_array_release(y);
  tn_array_release(later);
  close_ranks(2);
}

Test(nccl, a_rank_that_does_not_call_ends_in_a_timeout) {
  open_ranks(2, 200);
  call_once();
  tn_array *y = call(&ranks[0], "comm.all_reduce", "", ranks[0].x);
  FAILS(tn_array_wait(y), TN_BUSY, "not complete after 200 ms");
  tn_array_release(y);
  close_ranks(2);
}

Test(nccl, a_call_that_nccl_refuses_breaks_the_group) {
  open_ranks(2, 0);
  call_once();
  fake_nccl_refuse(NCCL_INVALID_USAGE);
  tn_array *y = call(&ranks[0], "comm.all_reduce", "", ranks[0].x);
  FAILS(tn_array_wait(y), TN_INVALID, "an error of the test");
  tn_array_release(y);
  close_ranks(2);
}

/* Waits until the rank has called NCCL. */
static void await_log(int number) {
  int is_empty = 1;
  while (is_empty) {
    char *log = fake_nccl_log(number);
    is_empty = log[0] == '\0';
    free(log);
  }
}

Test(nccl, a_shutdown_ends_calls) {
  open_ranks(2, 0);
  call_once();
  await_log(0);
  tn_array *y = call(&ranks[0], "comm.all_reduce", "", ranks[0].x);
  await_log(0);
  OK(tn_runtime_shutdown(ranks[0].rt));
  FAILS(tn_array_wait(y), TN_BUSY, "the runtime is shut down");
  tn_array_release(y);
  close_ranks(2);
}

Test(nccl, refuses_ranks_and_types_with_a_reason) {
  open_ranks(1, 0);
  tn_array *y = call(&ranks[0], "comm.broadcast", "root=1", ranks[0].x);
  FAILS(tn_array_wait(y), TN_OUT_OF_RANGE, "rank 1 is not in group `world`");
  tn_array_release(y);
  close_ranks(1);
}

/* ----------------------------------------------------------------- libraries
 */

Test(nccl, a_library_that_is_missing_is_reported) {
  static const char *const names[] = {"libnccl_of_nobody.so", NULL};
  nccl_library library;
  char why[240];
  cr_assert(!nccl_library_open(&library, names, why));
  cr_assert_not_null(strstr(why, "there is no NCCL: libnccl_of_nobody.so"));
  cr_assert_not_null(strstr(why, "install NCCL 2.14 or later"));
}

Test(nccl, a_library_that_is_too_old_is_reported) {
  nccl_library library;
  char why[240];
  fake_nccl_set_version(2804);
  cr_assert(!nccl_library_open(&library, nccl_names, why));
  cr_assert_not_null(strstr(why, "this is NCCL 2.8.4"), "%s", why);
  fake_nccl_set_version(21212);
  cr_assert(!nccl_library_open(&library, nccl_names, why));
  cr_assert_not_null(strstr(why, "this is NCCL 2.12.12"), "%s", why);
  fake_nccl_set_version(21403);
  cr_assert(nccl_library_open(&library, nccl_names, why), "%s", why);
  cr_assert_str_eq(library.name, "NCCL 2.14.3");
  nccl_library_close(&library);
}
