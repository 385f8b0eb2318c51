/* SPDX-License-Identifier: Apache-2.0
 * Recipes: calls like an earlier one use its results again, and only where they
 * apply. The probe's kernels count their calls.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(recipe, .init = world_open, .fini = world_close);

static tn_array *create_pair(float a, float b) {
  return floats(SHAPE(2), VALUES(a, b));
}

static void release_all(tn_array *a, tn_array *b, tn_array *c) {
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(c);
}

Test(recipe, prepares_once_for_calls_of_one_kind) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  for (int i = 0; i < 5; ++i)
    cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK, "%s",
                 tn_error_text());
  expect(y, VALUES(1, 2));
  cr_assert_eq(probe.prepares, 1);
  cr_assert_eq(probe.destroys, 0);
  cr_assert_eq(probe.calls, 5);
  release_all(x, y, NULL);
}

Test(recipe, gives_every_call_its_workspaces) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  for (int i = 0; i < 3; ++i) {
    probe.n_ws = 0;
    cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK);
    cr_assert_eq(probe.n_ws, 3);
    cr_assert_eq((uintptr_t)probe.ws[1] % 4096, 0);
    cr_assert_geq((char *)probe.ws[2] - (char *)probe.ws[1], 100);
  }
  release_all(x, y, NULL);
}

Test(recipe, prepares_again_for_other_shapes_strides_and_requests) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0),
           *z = floats(SHAPE(3), VALUES(1, 2, 3)), *t = NULL,
           *m = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *none = NULL;
  cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK);
  cr_assert_eq(call("probe.scratch", IN(z), &none), TN_OK);
  cr_assert_eq(probe.prepares, 2);
  cr_assert_eq(tn__array_index(m, 1, 0, &t), TN_OK);
  cr_assert_eq(call("probe.scratch", IN(t), &y), TN_OK);
  cr_assert_eq(probe.prepares, 3);
  expect(y, VALUES(1, 3));
  cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK);
  cr_assert_eq(probe.prepares, 3);
  release_all(x, y, z);
  release_all(t, m, none);
}

Test(recipe, destroys_the_result_of_prepare_when_it_is_dropped) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK);
  tn__caller_forget(&w.caller);
  cr_assert_eq(probe.destroys, 1);
  cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK);
  cr_assert_eq(probe.prepares, 2);
  release_all(x, y, NULL);
}

Test(recipe, does_not_grow_with_the_number_of_shapes) {
  for (int64_t n = 1; n <= 300; ++n) {
    tn_array *x = empty(TN_F32, 1, &n), *y = NULL;
    cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK, "%s",
                 tn_error_text());
    release_all(x, y, NULL);
  }
  cr_assert_eq(probe.prepares, 300);
  cr_assert_leq(probe.prepares - probe.destroys, 64);
}

Test(recipe, makes_new_outputs_that_share_no_memory) {
  tn_array *x = create_pair(1, 2), *y[3] = {NULL};
  for (int i = 0; i < 3; ++i)
    cr_assert_eq(call("probe.all", IN(x), &y[i]), TN_OK);
  cr_assert_neq(tn__array_data(y[0]), tn__array_data(y[1]));
  cr_assert_neq(tn__array_data(y[1]), tn__array_data(y[2]));
  for (int i = 0; i < 3; ++i) expect(y[i], VALUES(2, 4));
  release_all(y[0], y[1], y[2]);
  tn__array_release(x);
}

Test(recipe, knows_an_output_that_is_an_input_from_one_that_is_not) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0), *same = x;
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
    cr_assert_eq(probe.req[0], TN_REQ_WRITE);
    cr_assert_eq(probe.alias[0], -1);
  }
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(call("probe.all", IN(x), &same), TN_OK);
    cr_assert_eq(probe.req[0], TN_REQ_INPLACE);
    cr_assert_eq(probe.alias[0], 0);
  }
  expect(x, VALUES(4, 8));
  expect(y, VALUES(2, 4));
  release_all(x, y, NULL);
}

Test(recipe, knows_which_input_an_output_is) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20);
  for (int i = 0; i < 4; ++i) {
    tn_array *out = i % 2 == 0 ? x : y;
    cr_assert_eq(call("probe.either", IN(x, y), &out), TN_OK);
    cr_assert_eq(probe.alias[0], i % 2);
    cr_assert_eq(probe.out[0].data, tn__array_data(out));
  }
  expect(x, VALUES(32, 64)); /* x = 1+10, y = 11+10, x = 11+21, y = 32+21 */
  expect(y, VALUES(53, 106));
  release_all(x, y, NULL);
}

/* Two views of one block that overlap must not use the recipe of two blocks. */
Test(recipe, knows_views_that_overlap) {
  tn_array *base = floats(SHAPE(3), VALUES(1, 2, 3)), *low = NULL, *high = NULL,
           *x = create_pair(5, 6), *y = create_pair(0, 0);
  const tn_range first = {.begin = 0, .end = 2}, last = {.begin = 1, .end = 3};
  cr_assert_eq(tn__array_slice(base, &first, &low), TN_OK);
  cr_assert_eq(tn__array_slice(base, &last, &high), TN_OK);
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(call("probe.all", IN(low), &high), TN_OK);
  expect(base, VALUES(1, 2, 4));
  release_all(base, low, high);
  release_all(x, y, NULL);
}

Test(recipe, adds_and_overwrites_by_request) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20);
  for (int i = 0; i < 2; ++i)
    cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_ADD), TN_OK);
  expect(y, VALUES(14, 28));
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  expect(y, VALUES(2, 4));
  cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_NULL), TN_OK);
  cr_assert_eq(probe.calls, 3);
  release_all(x, y, NULL);
}

/* A kernel that only overwrites: each call adds through a temporary. */
Test(recipe, lowers_every_call) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20);
  for (int i = 0; i < 3; ++i)
    cr_assert_eq(call_req("probe.write", IN(x), &y, TN_REQ_ADD), TN_OK);
  expect(y, VALUES(16, 32));
  release_all(x, y, NULL);
}

/* The kernel uses 100 for an absent input. */
Test(recipe, distinguishes_optional_inputs_that_are_present) {
  tn_array *x = create_pair(1, 2), *b = create_pair(10, 20),
           *y = create_pair(0, 0);
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(call("probe.opt", IN(x, NULL), &y), TN_OK);
    cr_assert_eq(probe.in_flags[1], TN_IN_ABSENT);
    expect(y, VALUES(101, 102));
    cr_assert_eq(call("probe.opt", IN(x, b), &y), TN_OK);
    expect(y, VALUES(11, 22));
    cr_assert_eq(call("probe.opt", IN(x), &y), TN_OK);
    expect(y, VALUES(101, 102));
  }
  release_all(x, b, y);
}

Test(recipe, updates_states_each_time) {
  tn_array *x = create_pair(1, 2), *total = scalar(0), *y = create_pair(0, 0);
  for (int i = 0; i < 4; ++i)
    cr_assert_eq(call("probe.state", IN(x, total), &y), TN_OK, "%s",
                 tn_error_text());
  expect(total, VALUES(12));
  release_all(x, total, y);
}

static int guests;

static void guest_counts(void) {
  ++guests;
}

Test(recipe, uses_a_better_kernel_as_soon_as_there_is_one) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  for (int i = 0; i < 2; ++i) cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  second_plugin_hook = guest_counts;
  cr_assert_eq(tn__plugin_add(w.registry, &second_plugin), TN_OK);
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(guests, 1);
  cr_assert_eq(tn__operator_pin(op_get("probe.all"), "probe.all.cpu"), TN_OK);
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(guests, 1);
  release_all(x, y, NULL);
}

Test(recipe, keeps_a_plugin_until_it_is_dropped) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(tn__plugin_unload(w.registry, "probe"), TN_BUSY);
  tn__caller_forget(&w.caller);
  cr_assert_eq(tn__plugin_unload(w.registry, "probe"), TN_OK, "%s",
               tn_error_text());
  release_all(x, y, NULL);
}

Test(recipe, leaves_the_error_of_a_kernel_on_existing_outputs) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0), *z = NULL;
  float got[2];
  for (int i = 0; i < 2; ++i) {
    probe_code = TN_OUT_OF_RANGE;
    cr_assert_eq(call("probe.fail", IN(x), &y), TN_OUT_OF_RANGE);
    EXPECT_TEXT("probe.fail@1", "in compute of kernel probe.fail.cpu");
    cr_assert_eq(tn__array_get(y, got, sizeof got), TN_OUT_OF_RANGE);
    EXPECT_TEXT("probe.fail@1", "in compute of kernel probe.fail.cpu");
    cr_assert_eq(call("probe.all", IN(y), &z), TN_OUT_OF_RANGE);
    EXPECT_TEXT("probe.all@1 was not run", "probe.fail@1");
    cr_assert_null(z);
    cr_assert_eq(call("probe.all", IN(x), &y), TN_OK, "%s", tn_error_text());
    expect(y, VALUES(2, 4));
  }
  (void)tn__wait_all(w.env.engine);
  release_all(x, y, NULL);
}

Test(recipe, an_error_stays_when_a_call_only_adds) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  probe_code = TN_OUT_OF_RANGE;
  cr_assert_eq(call("probe.fail", IN(x), &y), TN_OUT_OF_RANGE);
  cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_ADD), TN_OUT_OF_RANGE);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER),
               TN_OUT_OF_RANGE);
  (void)tn__wait_all(w.env.engine);
  release_all(x, y, NULL);
}

/* A kernel that only adds gets zeros in a temporary, which is then added. That
 * does not overwrite the output. */
Test(recipe, an_error_stays_when_a_temporary_is_added) {
  tn_array *m = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)),
           *n = floats(SHAPE(2, 2), VALUES(1, 1, 1, 1)), *t = NULL;
  cr_assert_eq(tn__array_transpose(n, NULL, &t), TN_OK);
  cr_assert_eq(call_req("probe.add", IN(m), &t, TN_REQ_ADD), TN_OK, "%s",
               tn_error_text());
  expect(t, VALUES(3, 5, 7, 9));
  probe_code = TN_OUT_OF_RANGE;
  cr_assert_eq(call("probe.fail", IN(m), &t), TN_OUT_OF_RANGE);
  cr_assert_eq(call_req("probe.add", IN(m), &t, TN_REQ_ADD), TN_OUT_OF_RANGE);
  cr_assert_eq(tn__array_wait(t, TN__WAIT_WRITERS, TN__FOREVER),
               TN_OUT_OF_RANGE);
  (void)tn__wait_all(w.env.engine);
  release_all(m, n, t);
}

/* A runtime that runs nothing on the calling thread. */
TestSuite(dispatched, .fini = world_close);

Test(dispatched, calls_are_right_on_workers_too) {
  world_open_with(&(tn__engine_options){.workers = 2, .dispatch = 1});
  tn_array *x = create_pair(1, 1), *y = create_pair(0, 0);
  for (int i = 0; i < 10; ++i) {
    cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
    cr_assert_eq(call("probe.all", IN(y), &x), TN_OK);
  }
  expect(x, VALUES(1048576, 1048576));
  release_all(x, y, NULL);
}

/* ------------------------------------------------------------ other threads */

/* Calls of every kind, in a thread that has never pushed before. */
static void *calls_elsewhere(void *arg) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0), *same = x,
           *none = NULL, *total = scalar(0);
  tn_code *rc = arg;
  for (int i = 0; i < 8 && *rc == TN_OK; ++i) {
    *rc = call("probe.scratch", IN(x), &y);
    if (*rc == TN_OK) *rc = call_req("probe.all", IN(x), &y, TN_REQ_ADD);
    if (*rc == TN_OK) *rc = call("probe.random", IN(x), &none);
    if (*rc == TN_OK) *rc = call("probe.state", IN(x, total), &y);
    if (*rc == TN_OK) *rc = call("probe.all", IN(x), &same);
    tn__array_release(none);
    none = NULL;
  }
  expect(x, VALUES(256, 512));
  release_all(x, y, total);
  return NULL;
}

Test(recipe, serves_threads_that_do_not_own_the_gate) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  tn_code rc = TN_OK;
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK);
    cr_assert_eq(pthread_create(&thread, NULL, calls_elsewhere, &rc), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(rc, TN_OK);
  }
  cr_assert_eq(probe.prepares, 1);
  cr_assert_eq(probe.offset, 10 * (3 * 8 - 1));
  release_all(x, y, NULL);
}

static void *fails_elsewhere(void *arg) {
  tn_array *y = arg, *x = create_pair(1, 2), *z = NULL;
  probe_code = TN_OUT_OF_RANGE;
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(call("probe.fail", IN(x), &y), TN_OUT_OF_RANGE);
    EXPECT_TEXT("in compute of kernel probe.fail.cpu");
    cr_assert_eq(call("probe.fail", IN(x), &z), TN_OUT_OF_RANGE);
    cr_assert_null(z);
  }
  tn__array_release(x);
  return NULL;
}

Test(recipe, failures_of_other_threads_stay_on_existing_outputs) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  pthread_t thread;
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(pthread_create(&thread, NULL, fails_elsewhere, y), 0);
  cr_assert_eq(pthread_join(thread, NULL), 0);
  cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER),
               TN_OUT_OF_RANGE);
  EXPECT_TEXT("probe.fail@1");
  (void)tn__wait_all(w.env.engine);
  release_all(x, y, NULL);
}
