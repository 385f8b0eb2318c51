/* SPDX-License-Identifier: Apache-2.0
 * Outputs with a shape that the kernel sets: probe.pick keeps the elements
 * above zero.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(dynamic, .init = world_open, .fini = world_close);

Test(dynamic, output_gets_the_shape_that_compute_sets) {
  tn_array *x = floats(SHAPE(4), VALUES(-1, 2, 0, 3)), *y = NULL;
  cr_assert_eq(call("probe.pick", IN(x), &y), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__array_tensor(y)->ndim, 1);
  expect(y, VALUES(2, 3));
  tn__array_release(x);
  tn__array_release(y);
}

Test(dynamic, output_may_be_empty) {
  tn_array *x = floats(SHAPE(2), VALUES(-1, -2)), *y = NULL;
  cr_assert_eq(call("probe.pick", IN(x), &y), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_tensor_size(tn__array_tensor(y)), 0);
  tn__array_release(x);
  tn__array_release(y);
}

Test(dynamic, output_may_be_an_existing_array_that_fits) {
  tn_array *x = floats(SHAPE(3), VALUES(1, -2, 3));
  tn_array *y = floats(SHAPE(2), VALUES(10, 20));
  cr_assert_eq(call_req("probe.pick", IN(x), &y, TN_REQ_ADD), TN_OK);
  expect(y, VALUES(11, 23));
  cr_assert_eq(call("probe.pick", IN(x), &y), TN_OK);
  expect(y, VALUES(1, 3));
  cr_assert_eq(call("probe.pick", IN(x), &x), TN_SHAPE);
  EXPECT_TEXT("given output has another shape", "probe.pick.cpu");
  tn__array_release(x);
  tn__array_release(y);
}

static void expect_refusal(int how, tn_code code, const char *part) {
  tn_array *x = floats(SHAPE(2), VALUES(1, 2)), *y = NULL;
  probe_shape = how;
  cr_assert_eq(call("probe.pick", IN(x), &y), code);
  EXPECT_TEXT(part, "probe.pick.cpu");
  cr_assert_null(y);
  tn__array_release(x);
}

Test(dynamic, output_must_get_its_shape_once) {
  expect_refusal(1, TN_PLUGIN,
                 "did not state the shape of dynamic output `some`");
  expect_refusal(2, TN_INVALID, "stated before");
}

Test(dynamic, output_without_request_makes_no_call) {
  tn_array *x = floats(SHAPE(2), VALUES(1, 2)), *y = NULL;
  cr_assert_eq(call_req("probe.pick", IN(x), &y, TN_REQ_NULL), TN_OK);
  cr_assert_null(y);
  cr_assert_eq(probe.calls, 0);
  tn__array_release(x);
}
