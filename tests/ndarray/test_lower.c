/* SPDX-License-Identifier: Apache-2.0
 * Lowering: kernels that do not support a request or a layout, and outputs in
 * the memory of an input. The probe doubles its input, so x = 1 2 gives 2 4 for
 * any request.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(lower, .init = world_open, .fini = world_close);

static tn_array *create_pair(float a, float b) {
  return floats(SHAPE(2), VALUES(a, b));
}

/* Calls `op` with all three requests, and for an output that is its input. The
 * kernel must get the request `seen` each time. */
static void all_ways(const char *op, tn_req write, tn_req add, tn_req same) {
  tn_array *x = create_pair(1, 2), *y = create_pair(9, 9);
  cr_assert_eq(call(op, IN(x), &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(2, 4));
  cr_assert_eq(probe.req[0], write, "write is %u", probe.req[0]);
  cr_assert_eq(call_req(op, IN(x), &y, TN_REQ_ADD), TN_OK);
  expect(y, VALUES(4, 8));
  cr_assert_eq(probe.req[0], add, "add is %u", probe.req[0]);
  cr_assert_eq(call(op, IN(x), &x), TN_OK);
  expect(x, VALUES(2, 4));
  cr_assert_eq(probe.req[0], same, "same is %u", probe.req[0]);
  cr_assert_eq(call_req(op, IN(x), &x, TN_REQ_ADD), TN_OK);
  expect(x, VALUES(6, 12));
  tn__array_release(x);
  tn__array_release(y);
}

Test(lower, passes_on_requests_that_the_kernel_supports) {
  all_ways("probe.all", TN_REQ_WRITE, TN_REQ_ADD, TN_REQ_INPLACE);
}

Test(lower, turns_everything_into_write) {
  all_ways("probe.write", TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_WRITE);
}

Test(lower, turns_everything_into_add_to_zeros) {
  all_ways("probe.add", TN_REQ_ADD, TN_REQ_ADD, TN_REQ_ADD);
}

Test(lower, turns_everything_into_work_on_a_copy) {
  all_ways("probe.place", TN_REQ_INPLACE, TN_REQ_INPLACE, TN_REQ_INPLACE);
}

Test(lower, uses_the_copy_as_input_and_as_output) {
  tn_array *x = create_pair(1, 2), *y = create_pair(9, 9);
  cr_assert_eq(call("probe.place", IN(x), &y), TN_OK);
  cr_assert_eq(probe.alias[0], 0);
  cr_assert_eq(probe.in[0].data, probe.out[0].data);
  cr_assert_eq(probe.out[0].data, tn__array_data(y));
  expect(x, VALUES(1, 2));
  tn__array_release(x);
  tn__array_release(y);
}

Test(lower, keeps_the_memory_of_an_inplace_pair) {
  tn_array *x = create_pair(1, 2);
  cr_assert_eq(call("probe.all", IN(x), &x), TN_OK);
  cr_assert_eq(probe.alias[0], 0);
  cr_assert_eq(probe.in[0].data, probe.out[0].data);
  cr_assert_eq(probe.in[0].shape, probe.out[0].shape);
  cr_assert_eq(probe.in[0].strides, probe.out[0].strides);
  tn__array_release(x);
}

Test(lower, works_in_place_through_equal_views) {
  tn_array *x = create_pair(1, 2), *view = NULL;
  cr_assert_eq(tn__array_reshape(x, SHAPE(2), &view), TN_OK);
  cr_assert_eq(call("probe.all", IN(x), &view), TN_OK);
  cr_assert_eq(probe.req[0], TN_REQ_INPLACE);
  expect(x, VALUES(2, 4));
  tn__array_release(view);
  tn__array_release(x);
}

/* The operator declares that its output, of any shape, may use the memory of
 * its input. */
Test(lower, works_in_place_of_dense_elements_under_another_shape) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *row = NULL;
  cr_assert_eq(tn__array_reshape(x, SHAPE(4), &row), TN_OK);
  cr_assert_eq(call("probe.flat", IN(x), &row), TN_OK, "%s", tn_error_text());
  cr_assert_eq(probe.req[0], TN_REQ_INPLACE);
  cr_assert_eq(probe.in[0].data, probe.out[0].data);
  cr_assert_eq(probe.in[0].ndim, 2);
  cr_assert_eq(probe.out[0].ndim, 1);
  expect(x, VALUES(2, 4, 6, 8));
  tn__array_release(row);
  tn__array_release(x);
}

Test(lower, does_not_work_in_place_of_columns_under_another_shape) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4));
  tn_array *row = NULL, *turned = NULL;
  const int32_t axes[] = {1, 0};
  cr_assert_eq(tn__array_reshape(x, SHAPE(4), &row), TN_OK);
  cr_assert_eq(tn__array_transpose(x, axes, &turned), TN_OK);
  cr_assert_eq(call("probe.flat", IN(turned), &row), TN_OK);
  cr_assert_eq(probe.req[0], TN_REQ_WRITE);
  expect(x, VALUES(2, 6, 4, 8));
  tn__array_release(turned);
  tn__array_release(row);
  tn__array_release(x);
}

Test(lower, uses_a_temporary_where_memory_overlaps_in_part) {
  tn_array *x = floats(SHAPE(3), VALUES(1, 2, 3)), *head = NULL, *tail = NULL;
  const tn_range first = {0, 0, 0, 2, 1}, last = {0, 0, 1, 3, 1};
  cr_assert_eq(tn__array_slice(x, &first, &head), TN_OK);
  cr_assert_eq(tn__array_slice(x, &last, &tail), TN_OK);
  cr_assert_eq(call("probe.all", IN(head), &tail), TN_OK);
  expect(x, VALUES(1, 2, 4));
  cr_assert_eq(probe.req[0], TN_REQ_WRITE);
  cr_assert_neq(probe.out[0].data, tn__array_data(tail));
  cr_assert_eq(call_req("probe.all", IN(tail), &head, TN_REQ_ADD), TN_OK);
  expect(x, VALUES(5, 10, 4));
  tn__array_release(head);
  tn__array_release(tail);
  tn__array_release(x);
}

Test(lower, reverses_an_array_into_itself) {
  tn_array *x = floats(SHAPE(3), VALUES(1, 2, 3)), *back = NULL;
  const tn_range range = {0, 0, -1, INT64_MIN, -1};
  cr_assert_eq(tn__array_slice(x, &range, &back), TN_OK);
  cr_assert_eq(call("probe.all", IN(back), &x), TN_OK);
  expect(x, VALUES(6, 4, 2));
  tn__array_release(back);
  tn__array_release(x);
}

/* The input is x[2], x[0]; its memory begins below its first element. */
Test(lower, sees_the_first_byte_of_a_reversed_view) {
  tn_array *x = floats(SHAPE(3), VALUES(1, 2, 3)), *down = NULL, *head = NULL;
  const tn_range back = {0, 0, 2, INT64_MIN, -2}, first = {0, 0, 0, 2, 1};
  cr_assert_eq(tn__array_slice(x, &back, &down), TN_OK);
  cr_assert_eq(tn__array_slice(x, &first, &head), TN_OK);
  cr_assert_eq(call("probe.all", IN(down), &head), TN_OK);
  expect(x, VALUES(6, 2, 3));
  tn__array_release(head);
  tn__array_release(down);
  tn__array_release(x);
}

Test(lower, does_not_work_in_place_where_the_input_is_used_twice) {
  tn_array *x = create_pair(1, 2);
  cr_assert_eq(call("probe.sum", IN(x, x), &x), TN_OK);
  cr_assert_eq(probe.req[0], TN_REQ_WRITE);
  cr_assert_neq(probe.out[0].data, probe.in[0].data);
  expect(x, VALUES(2, 4));
  tn__array_release(x);
}

Test(lower, does_not_work_in_place_of_an_undeclared_input) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20);
  cr_assert_eq(call("probe.sum", IN(x, y), &y), TN_OK);
  cr_assert_eq(probe.req[0], TN_REQ_WRITE);
  expect(y, VALUES(11, 22));
  cr_assert_eq(call("probe.sum", IN(x, y), &x), TN_OK);
  cr_assert_eq(probe.req[0], TN_REQ_INPLACE);
  expect(x, VALUES(12, 24));
  tn__array_release(y);
  tn__array_release(x);
}

/* ------------------------------------------------------------------- layout */

Test(lower, makes_dense_copies_of_inputs_and_outputs) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *t = NULL,
           *y = floats(SHAPE(2, 2), VALUES(9, 9, 9, 9)), *u = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__array_transpose(y, NULL, &u), TN_OK);
  cr_assert_eq(call("probe.dense", IN(t), &u), TN_OK, "%s", tn_error_text());
  expect(u, VALUES(2, 6, 4, 8));
  expect(y, VALUES(2, 4, 6, 8));
  cr_assert(probe.in_dense[0] && probe.out_dense[0]);
  cr_assert_eq(probe.in_flags[0], TN_IN_CONTIGUOUS);
  cr_assert_eq(call_req("probe.dense", IN(t), &u, TN_REQ_ADD), TN_OK);
  expect(y, VALUES(4, 8, 12, 16));
  cr_assert_eq(call("probe.dense", IN(t), &t), TN_OK);
  expect(x, VALUES(2, 4, 6, 8));
  tn__array_release(t);
  tn__array_release(x);
  tn__array_release(u);
  tn__array_release(y);
}

Test(lower, writes_over_an_input_that_was_copied_anyway) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *t = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(call("probe.dense", IN(t), &x), TN_OK);
  expect(x, VALUES(2, 6, 4, 8));
  cr_assert_eq(probe.out[0].data, tn__array_data(x));
  tn__array_release(t);
  tn__array_release(x);
}

Test(lower, a_copy_for_a_strided_output_is_dense) {
  tn_array *x = create_pair(1, 2), *y = floats(SHAPE(4), VALUES(9, 9, 9, 9)),
           *even = NULL;
  const tn_range range = {0, 0, 0, 4, 2};
  cr_assert_eq(tn__array_slice(y, &range, &even), TN_OK);
  cr_assert_eq(call("probe.place", IN(x), &even), TN_OK);
  expect(y, VALUES(2, 9, 4, 9));
  cr_assert(probe.in_dense[0]);
  tn__array_release(even);
  tn__array_release(y);
  tn__array_release(x);
}

/* --------------------------------------------------------------------- init */

/* probe.onto gives y + 3 x, and its output starts as a copy of y. */
Test(lower, starts_an_output_as_a_copy) {
  tn_array *y = create_pair(10, 20), *x = create_pair(1, 2), *out = NULL;
  cr_assert_eq(call("probe.onto", IN(y, x), &out), TN_OK, "%s",
               tn_error_text());
  expect(out, VALUES(13, 26));
  expect(y, VALUES(10, 20));
  cr_assert_eq(call_req("probe.onto", IN(y, x), &out, TN_REQ_ADD), TN_OK);
  expect(out, VALUES(26, 52));
  cr_assert_eq(call("probe.onto", IN(y, x), &x), TN_OK);
  expect(x, VALUES(13, 26));
  tn__array_release(out);
  tn__array_release(x);
  tn__array_release(y);
}

Test(lower, needs_no_copy_where_the_output_is_that_input) {
  tn_array *y = create_pair(10, 20), *x = create_pair(1, 2);
  cr_assert_eq(call("probe.onto", IN(y, x), &y), TN_OK);
  expect(y, VALUES(13, 26));
  cr_assert_eq(probe.req[0], TN_REQ_INPLACE);
  cr_assert_eq(probe.alias[0], 0);
  tn__array_release(x);
  tn__array_release(y);
}

/* ------------------------------------------------------- lists of input memory
 */

/* Calls `op`, which adds x and y, with its output in the memory of input `in`;
 * the kernel must get `alias`. */
static void add_into(const char *op, int in, int32_t alias) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20);
  tn_array *out = in == 0 ? x : y;
  cr_assert_eq(call(op, IN(x, y), &out), TN_OK, "%s", tn_error_text());
  expect(out, VALUES(11, 22));
  cr_assert_eq(probe.alias[0], alias, "%s: alias is %d", op, probe.alias[0]);
  cr_assert_eq(probe.req[0], alias < 0 ? TN_REQ_WRITE : TN_REQ_INPLACE);
  if (in == 0) expect(y, VALUES(10, 20));
  if (in == 1) expect(x, VALUES(1, 2));
  tn__array_release(x);
  tn__array_release(y);
}

Test(lower, works_in_the_memory_of_each_input_of_a_list) {
  add_into("probe.either", 0, 0);
  add_into("probe.either", 1, 1);
}

Test(lower, copies_an_input_that_the_kernel_does_not_list) {
  add_into("probe.second", 0, -1);
  add_into("probe.second", 1, 1);
}

Test(lower, takes_the_input_of_the_operator_for_an_older_table) {
  add_into("probe.older", 0, 0);
  add_into("probe.older", 1, -1);
}

Test(lower, works_in_place_of_a_view_of_the_second_input) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20), *view = NULL;
  cr_assert_eq(tn__array_reshape(y, SHAPE(2), &view), TN_OK);
  cr_assert_eq(call("probe.either", IN(x, y), &view), TN_OK);
  cr_assert_eq(probe.alias[0], 1);
  expect(y, VALUES(11, 22));
  tn__array_release(view);
  tn__array_release(x);
  tn__array_release(y);
}

/* The output is input 1, and shares an element with input 0. */
Test(lower, uses_a_temporary_where_the_output_touches_both_inputs) {
  tn_array *base = floats(SHAPE(3), VALUES(1, 2, 3)), *low = NULL, *high = NULL;
  const tn_range first = {0, 0, 0, 2, 1}, last = {0, 0, 1, 3, 1};
  cr_assert_eq(tn__array_slice(base, &first, &low), TN_OK);
  cr_assert_eq(tn__array_slice(base, &last, &high), TN_OK);
  cr_assert_eq(call("probe.either", IN(low, high), &high), TN_OK);
  cr_assert_eq(probe.alias[0], -1);
  expect(base, VALUES(1, 3, 5));
  tn__array_release(low);
  tn__array_release(high);
  tn__array_release(base);
}

Test(lower, uses_a_temporary_where_both_inputs_are_the_output) {
  tn_array *x = create_pair(1, 2);
  cr_assert_eq(call("probe.either", IN(x, x), &x), TN_OK);
  cr_assert_eq(probe.alias[0], -1);
  expect(x, VALUES(2, 4));
  tn__array_release(x);
}
