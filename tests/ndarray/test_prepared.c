/* SPDX-License-Identifier: Apache-2.0
 * Prepared calls: planned once, run many times, with the arrays of their
 * preparation.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(prepared, .init = world_open, .fini = world_close);

static tn_array *create_pair(float a, float b) {
  return floats(SHAPE(2), VALUES(a, b));
}

static tn_code prepare_call(const char *name, size_t n, tn_array *const *in,
                            tn_array **out, tn_prepared **result) {
  const tn__target_op target = {&w.caller, op_get(name), NULL, TN_PASS_FORWARD,
                                0};
  return tn__prepared_create(&target, &(tn_inputs){n, in},
                             &(tn_outputs){1, out, NULL}, result);
}

static void run_ok(tn_prepared *call) {
  cr_assert_eq(tn__prepared_run(call), TN_OK, "%s", tn_error_text());
}

Test(prepared, computes_nothing_before_it_is_run) {
  tn_array *x = create_pair(1, 2), *y = create_pair(7, 7);
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(probe.calls, 0);
  expect(y, VALUES(7, 7));
  run_ok(call);
  expect(y, VALUES(2, 4));
  tn__prepared_release(call);
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, computes_what_its_arrays_hold_at_each_run) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_OK);
  cr_assert_not_null(y);
  for (int i = 1; i <= 3; ++i) {
    const float values[] = {(float)i, (float)(10 * i)};
    cr_assert_eq(tn__array_set(x, values, sizeof values), TN_OK);
    run_ok(call);
    expect(y, VALUES((float)(2 * i), (float)(20 * i)));
  }
  cr_assert_eq(probe.calls, 3);
  tn__prepared_release(call);
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, keeps_its_arrays) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0), *view = NULL;
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_OK);
  cr_assert_eq(tn__array_reshape(y, SHAPE(2, 1), &view), TN_OK);
  tn__array_release(x);
  tn__array_release(y);
  run_ok(call);
  tn__prepared_release(call);
  expect(view, VALUES(2, 4));
  tn__array_release(view);
}

Test(prepared, works_in_place_and_through_temporaries) {
  tn_array *x = create_pair(1, 2), *y = x,
           *base = floats(SHAPE(3), VALUES(1, 2, 3)), *low = NULL, *high = NULL;
  const tn_range first = {.begin = 0, .end = 2}, last = {.begin = 1, .end = 3};
  tn_prepared *call = NULL, *other = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_OK);
  for (int i = 0; i < 3; ++i) run_ok(call);
  expect(x, VALUES(8, 16));
  cr_assert_eq(tn__array_slice(base, &first, &low), TN_OK);
  cr_assert_eq(tn__array_slice(base, &last, &high), TN_OK);
  cr_assert_eq(prepare_call("probe.all", IN(low), &high, &other), TN_OK);
  run_ok(other);
  expect(base, VALUES(1, 2, 4));
  run_ok(other);
  expect(base, VALUES(1, 2, 4));
  tn__prepared_release(call);
  tn__prepared_release(other);
  tn__array_release(x);
  tn__array_release(base);
  tn__array_release(low);
  tn__array_release(high);
}

Test(prepared, has_workspaces_of_its_own) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.scratch", IN(x), &y, &call), TN_OK);
  run_ok(call);
  const void *first = probe.ws[0];
  cr_assert_eq(probe.n_ws, 3);
  run_ok(call);
  cr_assert_eq(probe.ws[0], first);
  cr_assert_eq(probe.prepares, 1);
  tn__prepared_release(call);
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, draws_other_random_blocks_at_each_run) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.random", IN(x), &y, &call), TN_OK);
  run_ok(call);
  cr_assert_eq(probe.offset, 0);
  run_ok(call);
  cr_assert_eq(probe.offset, 10);
  tn__prepared_release(call);
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, a_failing_run_leaves_its_error_until_another_overwrites) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  tn_prepared *bad = NULL, *good = NULL;
  cr_assert_eq(prepare_call("probe.fail", IN(x), &y, &bad), TN_OK);
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &good), TN_OK);
  probe_code = TN_OUT_OF_RANGE;
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(tn__prepared_run(bad), TN_OUT_OF_RANGE);
    cr_assert_eq(tn__array_wait(y, TN__WAIT_WRITERS, TN__FOREVER),
                 TN_OUT_OF_RANGE);
    EXPECT_TEXT("probe.fail@1");
    run_ok(good);
    expect(y, VALUES(2, 4));
  }
  cr_assert_eq(tn__prepared_run(bad), TN_OUT_OF_RANGE);
  run_ok(good);
  (void)tn__wait_all(w.env.engine);
  tn__prepared_release(bad);
  tn__prepared_release(good);
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, refuses_outputs_with_a_dynamic_shape) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.pick", IN(x), &y, &call), TN_UNSUPPORTED);
  EXPECT_TEXT("decides the shape", "use tn_call");
  cr_assert_null(call);
  cr_assert_null(y);
  tn__array_release(x);
}

Test(prepared, refuses_the_same_operands_as_a_call) {
  tn_array *x = create_pair(1, 2), *y = floats(SHAPE(3), VALUES(1, 2, 3));
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_SHAPE);
  cr_assert_null(call);
  cr_assert_eq(prepare_call("probe.all", 0, NULL, &y, &call), TN_INVALID);
  cr_assert_null(call);
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, holds_its_plugin) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_OK);
  tn__caller_forget(&w.caller);
  cr_assert_eq(tn__plugin_unload(w.registry, "probe"), TN_BUSY);
  tn__prepared_release(call);
  tn__caller_forget(&w.caller);
  cr_assert_eq(tn__plugin_unload(w.registry, "probe"), TN_OK, "%s",
               tn_error_text());
  tn__array_release(x);
  tn__array_release(y);
}

Test(prepared, every_allocation_may_fail) {
  tn_array *x = create_pair(1, 2), *y = create_pair(0, 0);
  tn_prepared *call = NULL;
  for (int64_t i = 1; !call; ++i) {
    cr_assert_lt(i, 200);
    w.memory.asked = 0;
    w.memory.fail_at = i;
    tn_code rc = prepare_call("probe.scratch", IN(x), &y, &call);
    w.memory.fail_at = 0;
    cr_assert(call ? rc == TN_OK : rc == TN_OUT_OF_MEMORY, "%s",
              tn_error_text());
  }
  run_ok(call);
  tn__prepared_release(call);
  tn__array_release(x);
  tn__array_release(y);
}

/* Pending runs are executed anyway. */
TestSuite(prepared_dispatched, .fini = world_close);

Test(prepared_dispatched, may_be_released_while_runs_are_pending) {
  world_open_with(&(tn__engine_options){.workers = 1, .dispatch = 1});
  tn_array *x = create_pair(1, 1), *y = x;
  tn_prepared *call = NULL;
  cr_assert_eq(prepare_call("probe.all", IN(x), &y, &call), TN_OK);
  for (int i = 0; i < 20; ++i) run_ok(call);
  tn__prepared_release(call);
  expect(x, VALUES(1048576, 1048576));
  tn__array_release(x);
}
