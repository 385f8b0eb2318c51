/* SPDX-License-Identifier: Apache-2.0
 * Forward calls: assigned operands, outputs that are checked or created, and
 * reported failures. test_lower.c tests the requests that lower.c changes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "probe.h"

TestSuite(call, .init = world_open, .fini = world_close);

static tn_array *create_pair(float a, float b) {
  return floats(SHAPE(2), VALUES(a, b));
}

static void release_all(tn_array *a, tn_array *b, tn_array *c) {
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(c);
}

/* ----------------------------------------------------------------- operands */

Test(call, creates_the_output_for_the_caller) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(2, 4));
  cr_assert_eq(probe.calls, 1);
  cr_assert_eq(probe.req[0], TN_REQ_WRITE);
  cr_assert_eq(probe.alias[0], -1);
  cr_assert_eq(probe.in_flags[0], TN_IN_CONTIGUOUS);
  cr_assert_eq(probe.n_ws, 0);
  cr_assert_eq(probe.flags, 0);
  release_all(x, y, NULL);
}

Test(call, writes_into_an_existing_output) {
  tn_array *x = create_pair(1, 2), *y = create_pair(9, 9), *same = y;
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(y, same);
  expect(y, VALUES(2, 4));
  release_all(x, y, NULL);
}

Test(call, adds_to_an_existing_output) {
  tn_array *x = create_pair(1, 2), *y = create_pair(10, 20);
  cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_ADD), TN_OK);
  expect(y, VALUES(12, 24));
  cr_assert_eq(probe.req[0], TN_REQ_ADD);
  release_all(x, y, NULL);
}

Test(call, is_not_made_when_no_output_is_requested) {
  tn_array *x = create_pair(1, 2), *y = create_pair(8, 9), *none = NULL,
           *s = scalar(1);
  cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_NULL), TN_OK);
  expect(y, VALUES(8, 9));
  cr_assert_eq(call_req("probe.all", IN(x), &none, TN_REQ_NULL), TN_OK);
  cr_assert_null(none);
  cr_assert_eq(call_req("probe.all", IN(x), &s, TN_REQ_NULL), TN_OK);
  cr_assert_eq(probe.calls, 0);
  release_all(x, y, s);
}

Test(call, accepts_arrays_without_elements_and_without_dimensions) {
  tn_array *x = empty(TN_F32, SHAPE(0, 3)), *y = NULL, *s = scalar(4),
           *t = NULL;
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK);
  cr_assert_eq(tn__array_tensor(y)->shape[1], 3);
  cr_assert_eq(probe.calls, 1);
  cr_assert_eq(call("probe.sum", IN(s, s), &t), TN_OK);
  expect(t, VALUES(8));
  cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_ADD), TN_OK);
  release_all(x, y, s);
  tn__array_release(t);
}

Test(call, passes_views_as_they_are) {
  tn_array *x = floats(SHAPE(2, 2), VALUES(1, 2, 3, 4)), *t = NULL, *b = NULL,
           *row = create_pair(10, 20), *y = NULL;
  cr_assert_eq(tn__array_transpose(x, NULL, &t), TN_OK);
  cr_assert_eq(tn__array_broadcast(row, SHAPE(2, 2), &b), TN_OK);
  cr_assert_eq(call("probe.sum", IN(t, b), &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(11, 23, 12, 24));
  cr_assert_eq(probe.in_flags[0], 0);
  cr_assert_eq(probe.in_flags[1], 0);
  release_all(x, t, b);
  release_all(row, y, NULL);
}

Test(call, writes_into_a_strided_output) {
  tn_array *y = floats(SHAPE(4), VALUES(9, 9, 9, 9)), *odd = NULL,
           *x = create_pair(1, 2);
  const tn_range range = {0, 0, -1, INT64_MIN, -2};
  cr_assert_eq(tn__array_slice(y, &range, &odd), TN_OK);
  cr_assert_eq(call("probe.all", IN(x), &odd), TN_OK);
  expect(y, VALUES(9, 4, 9, 2));
  cr_assert_eq(probe.out_dense[0], 0);
  release_all(x, y, odd);
}

Test(call, marks_an_absent_optional_input) {
  tn_array *x = create_pair(1, 2), *bias = create_pair(5, 6), *y = NULL;
  cr_assert_eq(call("probe.opt", IN(x, bias), &y), TN_OK);
  expect(y, VALUES(6, 8));
  cr_assert_eq(call("probe.opt", IN(x), &y), TN_OK);
  expect(y, VALUES(101, 102));
  cr_assert_eq(probe.n_in, 2);
  cr_assert_eq(probe.in_flags[1], TN_IN_ABSENT);
  cr_assert_eq(probe.in[1].ndim, -1);
  cr_assert_null(probe.in[1].data);
  cr_assert_eq(call("probe.opt", IN(x, NULL), &y), TN_OK);
  expect(y, VALUES(101, 102));
  release_all(x, y, bias);
}

Test(call, accepts_any_number_of_variadic_inputs) {
  tn_array *x = create_pair(1, 2), *y = NULL, *in[20];
  for (int i = 0; i < 20; ++i) in[i] = x;
  for (size_t n = 1; n <= 20; ++n) {
    const float sum[] = {(float)n, (float)(2 * n)};
    if (n > 8) break; /* as many as the probe can record */
    cr_assert_eq(call("probe.join", n, in, &y), TN_OK, "%s", tn_error_text());
    expect(y, 2, sum);
    cr_assert_eq(probe.n_in, n);
  }
  cr_assert_eq(call("probe.join", 20, in, &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(20, 40)); /* more operands than fit without heap memory */
  cr_assert_eq(call("probe.join", 0, in, &y), TN_INVALID);
  EXPECT_TEXT("at least 1 input", "x, more...", "0 were given");
  release_all(x, y, NULL);
}

Test(call, lets_the_operator_mutate_aux_states) {
  tn_array *x = create_pair(3, 4), *total = scalar(10), *y = NULL;
  cr_assert_eq(call("probe.state", IN(x, total), &y), TN_OK);
  expect(total, VALUES(17));
  cr_assert_eq(probe.n_in, 1);
  cr_assert_eq(probe.n_aux, 1);
  cr_assert_eq(call("probe.state", IN(x), &y), TN_INVALID);
  EXPECT_TEXT("takes 1 input (x)", "1 aux state (total)", "1 was given");
  cr_assert_eq(call("probe.state", IN(x, NULL), &y), TN_INVALID);
  EXPECT_TEXT("aux state `total` is NULL");
  cr_assert_eq(call("probe.state", IN(x, x), &y), TN_INVALID);
  EXPECT_TEXT("aux state `total`", "input `x`", "share memory");
  release_all(x, y, total);
}

Test(call, omits_hidden_outputs) {
  tn_array *x = create_pair(1, 2), *both[2] = {NULL, NULL};
  const tn_inputs in = {1, &x};
  const tn_outputs one = {1, both, NULL}, all = {2, both, NULL};
  tn_operator *op = op_get("probe.split");
  cr_assert_eq(call_of(&w.caller, op, &in, NULL, &one), TN_OK, "%s",
               tn_error_text());
  expect(both[0], VALUES(2, 3));
  cr_assert_null(both[1]);
  cr_assert_eq(probe.n_out, 2);
  cr_assert_eq(probe.req[1], TN_REQ_NULL);
  cr_assert_null(probe.out[1].data);
  cr_assert_eq(call_of(&w.caller, op, &in, NULL, &all), TN_OK);
  expect(both[1], VALUES(10, 20));
  release_all(x, both[0], both[1]);
}

Test(call, computes_only_the_requested_outputs) {
  tn_array *x = create_pair(1, 2), *both[2] = {create_pair(7, 7), NULL};
  const tn_inputs in = {1, &x};
  const tn_req req[] = {TN_REQ_NULL, TN_REQ_WRITE};
  const tn_outputs out = {2, both, req};
  cr_assert_eq(call_of(&w.caller, op_get("probe.split"), &in, NULL, &out),
               TN_OK);
  expect(both[0], VALUES(7, 7));
  expect(both[1], VALUES(10, 20));
  release_all(x, both[0], both[1]);
}

Test(call, takes_the_shape_from_an_existing_output) {
  tn_array *y = NULL;
  cr_assert_eq(call("probe.fill", 0, NULL, &y), TN_INCOMPLETE);
  EXPECT_TEXT("probe.fill@1", "output `out`", "give an output array");
  y = create_pair(0, 0);
  const tn_req nothing = TN_REQ_NULL;
  cr_assert_eq(call_of(&w.caller, op_get("probe.fill"), &(tn_inputs){0, NULL},
                       NULL, &(tn_outputs){1, &y, &nothing}),
               TN_INCOMPLETE);
  EXPECT_TEXT("give an output array, and ask for it");
  cr_assert_eq(call("probe.fill", 0, NULL, &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(7, 7));
  tn__array_release(y);
}

/* ---------------------------------------------------- workspaces, resources */

Test(call, provides_workspaces_and_destroys_the_result_of_prepare) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call("probe.scratch", IN(x), &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(1, 2));
  cr_assert_eq(probe.n_ws, 3);
  cr_assert_eq((uintptr_t)probe.ws[0] % 64, 0);
  cr_assert_eq((uintptr_t)probe.ws[1] % 4096, 0);
  cr_assert_eq((uintptr_t)probe.ws[2] % 8, 0);
  cr_assert_eq(probe.ws_bytes[0], 5);
  cr_assert_eq(probe.ws_bytes[1], 100);
  cr_assert_geq((char *)probe.ws[1] - (char *)probe.ws[0], 5);
  cr_assert_geq((char *)probe.ws[2] - (char *)probe.ws[1], 100);
  cr_assert_not_null(probe.prepared);
  cr_assert_eq(probe.data_in_prepare, 0);
  cr_assert_eq(probe.prepares, 1);
  cr_assert_eq(probe.destroys, 0);
  tn__caller_forget(&w.caller);
  cr_assert_eq(probe.destroys, 1);
  release_all(x, y, NULL);
}

Test(call, refuses_an_invalid_plan) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call("probe.bad", IN(x), &y), TN_PLUGIN);
  EXPECT_TEXT("no power of two", "prepare of kernel probe.bad.cpu",
              "plugin probe release 3");
  cr_assert_null(y);
  cr_assert_eq(probe.calls, 0);
  cr_assert_eq(probe.destroys, 1);
  release_all(x, NULL, NULL);
}

Test(call, draws_other_random_blocks_each_time) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call("probe.random", IN(x), &y), TN_OK);
  cr_assert_eq(probe.key, 77);
  cr_assert_eq(probe.offset, 0);
  cr_assert_eq(call("probe.random", IN(x), &y), TN_OK);
  cr_assert_eq(probe.offset, 10);
  release_all(x, y, NULL);
}

/* One block for each element of the outputs, if prepare states none or is
 * missing. */
Test(call, draws_other_random_blocks_if_the_kernel_states_no_number) {
  tn_array *x = floats(SHAPE(2, 3), VALUES(1, 2, 3, 4, 5, 6)), *y = NULL;
  cr_assert_eq(call("probe.noise", IN(x), &y), TN_OK, "%s", tn_error_text());
  const uint64_t first = probe.offset;
  cr_assert_eq(call("probe.noise", IN(x), &y), TN_OK);
  cr_assert_eq(probe.offset, first + 6);
  cr_assert_eq(call("probe.noise", IN(x), &y), TN_OK);
  cr_assert_eq(probe.offset, first + 12);
  release_all(x, y, NULL);
}

Test(call, draws_other_random_blocks_for_outputs_of_any_size) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call("probe.draw", IN(x), &y), TN_OK, "%s", tn_error_text());
  const uint64_t first = probe.offset;
  tn__array_release(y);
  y = NULL;
  cr_assert_eq(call("probe.draw", IN(x), &y), TN_OK);
  cr_assert_geq(probe.offset, first + (1u << 30));
  release_all(x, y, NULL);
}

/* ---------------------------------------------------------------- bad input */

Test(call, reports_a_wrong_number_of_inputs) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call("probe.sum", IN(x, x, x), &y), TN_INVALID);
  EXPECT_TEXT("probe.sum@1 takes 2 inputs (x, y), but 3 were given");
  cr_assert_eq(call("probe.all", 0, NULL, &y), TN_INVALID);
  EXPECT_TEXT("probe.all@1 takes 1 input (x), but 0 were given");
  cr_assert_eq(call("probe.opt", 0, NULL, &y), TN_INVALID);
  EXPECT_TEXT("probe.opt@1 takes 1 to 2 inputs (x, bias), but 0 were given");
  cr_assert_eq(call("probe.sum", IN(x, NULL), &y), TN_INVALID);
  EXPECT_TEXT("input `y` is NULL", "not optional");
  tn__array_release(x);
}

Test(call, reports_a_wrong_number_of_outputs) {
  tn_array *x = create_pair(1, 2), *places[3] = {NULL, NULL, NULL};
  const tn_inputs in = {1, &x};
  const tn_outputs none = {0, places, NULL}, three = {3, places, NULL};
  tn_operator *op = op_get("probe.split");
  cr_assert_eq(call_of(&w.caller, op, &in, NULL, &none), TN_INVALID);
  EXPECT_TEXT("probe.split@1 has 1 output (out, high; 1 of them hidden",
              "0 places were given");
  cr_assert_eq(call_of(&w.caller, op, &in, NULL, &three), TN_INVALID);
  EXPECT_TEXT("3 places were given");
  tn__array_release(x);
}

Test(call, reports_invalid_requests) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  cr_assert_eq(call_req("probe.all", IN(x), &x, TN_REQ_INPLACE), TN_INVALID);
  EXPECT_TEXT("TN_REQ_INPLACE", "output `out`", "TN_REQ_WRITE");
  cr_assert_eq(call_req("probe.all", IN(x), &x, 9), TN_INVALID);
  EXPECT_TEXT("request 9");
  cr_assert_eq(call_req("probe.all", IN(x), &y, TN_REQ_ADD), TN_INVALID);
  EXPECT_TEXT("TN_REQ_ADD", "output `out`");
  expect(x, VALUES(1, 2));
  tn__array_release(x);
}

Test(call, reports_the_right_shape_of_a_wrong_output) {
  tn_array *x = create_pair(1, 2), *y = floats(SHAPE(1, 3), VALUES(1, 2, 3)),
           *z = empty(TN_F64, SHAPE(2));
  cr_assert_eq(call("probe.all", IN(x), &y), TN_SHAPE);
  EXPECT_TEXT(
      "probe.all@1: output `out` must be f32 (2), but the given array "
      "is f32 (1,3)");
  cr_assert_eq(call("probe.all", IN(x), &z), TN_DTYPE);
  EXPECT_TEXT("must be f32 (2)", "is f64 (2)");
  expect(y, VALUES(1, 2, 3));
  release_all(x, y, z);
}

Test(call, reports_shapes_and_dtypes_that_contradict) {
  tn_array *x = create_pair(1, 2), *y = floats(SHAPE(3), VALUES(1, 2, 3)),
           *out = NULL, *z = empty(TN_F64, SHAPE(2)),
           *i = empty(TN_I32, SHAPE(2));
  cr_assert_eq(call("probe.sum", IN(x, y), &out), TN_SHAPE);
  EXPECT_TEXT("probe.sum", "x", "y", "2", "3");
  cr_assert_eq(call("probe.sum", IN(x, z), &out), TN_DTYPE);
  EXPECT_TEXT("f32", "f64");
  cr_assert_eq(call("probe.all", IN(i), &out), TN_DTYPE);
  EXPECT_TEXT("i32");
  cr_assert_eq(call("probe.all", IN(z), &out), TN_UNSUPPORTED);
  EXPECT_TEXT("probe.all.cpu", "f64");
  cr_assert_null(out);
  release_all(x, y, z);
  tn__array_release(i);
}

Test(call, refuses_outputs_that_repeat_or_share_elements) {
  tn_array *one = scalar(1), *b = NULL, *x = create_pair(1, 2);
  cr_assert_eq(tn__array_broadcast(one, SHAPE(2), &b), TN_OK);
  cr_assert_eq(call("probe.all", IN(x), &b), TN_INVALID);
  EXPECT_TEXT("output `out`", "broadcast view", "repeats elements");
  tn_array *y = create_pair(0, 0), *both[2] = {y, y};
  const tn_inputs in = {1, &x};
  const tn_outputs out = {2, both, NULL};
  cr_assert_eq(call_of(&w.caller, op_get("probe.split"), &in, NULL, &out),
               TN_INVALID);
  EXPECT_TEXT("output `high`", "output `out`", "share memory");
  cr_assert_eq(probe.calls, 0);
  release_all(x, y, b);
  tn__array_release(one);
}

Test(call, refuses_objects_of_another_runtime) {
  tn_array *x = create_pair(1, 2), *y = NULL, *foreign = NULL;
  tn__env other = w.env;
  tn__device elsewhere = *w.env.cpu;
  const int64_t shape[] = {2};
  elsewhere.env = &other;
  other.cpu = &elsewhere;
  cr_assert_eq(tn__array_create(&other, &(tn_spec){TN_F32, 1, shape}, &foreign),
               TN_OK);
  cr_assert_eq(call("probe.all", IN(foreign), &y), TN_INVALID);
  EXPECT_TEXT("input `x`", "another runtime");
  cr_assert_eq(call("probe.all", IN(x), &foreign), TN_INVALID);
  EXPECT_TEXT("output `out`", "another runtime");
  tn__caller stranger = {.env = &other};
  const tn_inputs in = {1, &x};
  const tn_outputs out = {1, &y, NULL};
  cr_assert_eq(call_of(&stranger, op_get("probe.all"), &in, NULL, &out),
               TN_INVALID);
  EXPECT_TEXT("operator probe.all@1 belongs to another runtime");
  tn_params *params = NULL;
  cr_assert_eq(tn__params_parse(op_get("probe.sum"), "", &params), TN_OK);
  cr_assert_eq(call_of(&w.caller, op_get("probe.all"), &in, params, &out),
               TN_INVALID);
  EXPECT_TEXT("probe.all@1", "made for operator probe.sum@1");
  tn__params_release(params);
  release_all(x, y, foreign);
}

Test(call, reports_the_failed_kernel_and_its_operands) {
  tn_array *x = floats(SHAPE(1, 2), VALUES(1, 2)), *y = NULL;
  probe_code = TN_OUT_OF_RANGE;
  cr_assert_eq(call("probe.fail", IN(x), &y), TN_OUT_OF_RANGE);
  EXPECT_TEXT("probe.fail@1: element 3 is odd", "kernel probe.fail.cpu",
              "plugin probe release 3", "input `x` f32 (1,2)",
              "output `out` f32 (1,2)");
  cr_assert_null(y);
  probe_silent = 1;
  cr_assert_eq(call("probe.fail", IN(x), &y), TN_OUT_OF_RANGE);
  EXPECT_TEXT("gave no reason (TN_OUT_OF_RANGE)", "kernel probe.fail.cpu");
  probe_code = 42;
  cr_assert_eq(call("probe.fail", IN(x), &y), TN_PLUGIN);
  EXPECT_TEXT("returned 42, which is no code");
  tn__array_release(x);
}

static void guest_cannot_be_unloaded(void) {
  cr_assert_eq(tn__plugin_unload(w.registry, "guest"), TN_BUSY);
  EXPECT_TEXT(
      "1 call, graph, program, tape or prepared call of its kernel "
      "guest.all.cpu");
}

Test(call, holds_the_plugin_of_its_kernel_until_it_ends) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  second_plugin_hook = guest_cannot_be_unloaded;
  cr_assert_eq(tn__plugin_add(w.registry, &second_plugin), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(call("probe.all", IN(x), &y), TN_OK, "%s", tn_error_text());
  expect(y, VALUES(2, 4));
  tn__caller_forget(&w.caller);
  cr_assert_eq(tn__plugin_unload(w.registry, "guest"), TN_OK, "%s",
               tn_error_text());
  release_all(x, y, NULL);
}

Test(call, shows_the_kernel_whether_it_is_training) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  tn__target_op target = {&w.caller, op_get("probe.all"), NULL, TN_PASS_FORWARD,
                          TN_CALL_TRAIN};
  const tn_inputs in = {1, &x};
  const tn_outputs out = {1, &y, NULL};
  cr_assert_eq(tn__call(&target, &in, &out), TN_OK);
  cr_assert_eq(probe.flags, TN_CALL_TRAIN);
  target.flags = 0;
  cr_assert_eq(tn__call(&target, &in, &out), TN_OK);
  cr_assert_eq(probe.flags, 0);
  release_all(x, y, NULL);
}

Test(call, of_an_unloaded_operator_is_refused) {
  tn_array *x = create_pair(1, 2), *y = NULL;
  tn_operator *op = op_get("probe.all");
  const tn_inputs in = {1, &x};
  const tn_outputs out = {1, &y, NULL};
  cr_assert_eq(call_of(&w.caller, op, &in, NULL, &out), TN_OK);
  tn__caller_forget(&w.caller);
  cr_assert_eq(tn__plugin_unload(w.registry, "probe"), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(call_of(&w.caller, op, &in, NULL, &out), TN_NOT_FOUND);
  EXPECT_TEXT("probe.all@1");
  release_all(x, y, NULL);
}

/* -------------------------------------------------------------------- query */

Test(call, infer_completes_a_signature) {
  tn_sig in[2] = {{TN_F32, 2, {2, -1}}, {TN_DTYPE_UNKNOWN, 2, {-1, 3}}};
  tn_sig out[1] = {{TN_DTYPE_UNKNOWN, -1, {0}}};
  tn_signature io = {2, 1, 0, 0, in, out, NULL};
  tn_operator *op = op_get("probe.sum");
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(in[0].shape[1], 3);
  cr_assert_eq(in[1].dtype, TN_F32);
  cr_assert_eq(out[0].ndim, 2);
  cr_assert_eq(out[0].shape[0], 2);
  in[1].shape[0] = 4;
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_SHAPE);
  cr_assert_eq(in[1].shape[0], 4);
}

Test(call, infer_sees_which_optional_inputs_are_absent) {
  tn_sig in[2] = {{TN_F32, 2, {2, 3}}, {TN_DTYPE_UNKNOWN, -2, {0}}};
  tn_sig out[1] = {{TN_DTYPE_UNKNOWN, -1, {0}}};
  tn_signature io = {2, 1, 0, 0, in, out, NULL};
  cr_assert_eq(tn__call_infer(&w.caller, op_get("probe.opt"), NULL, &io), TN_OK,
               "%s", tn_error_text());
  cr_assert_eq(in[1].ndim, -2);
  cr_assert_eq(in[1].dtype, TN_DTYPE_UNKNOWN);
  cr_assert_eq(out[0].shape[1], 3);
  cr_assert_eq(tn__call_infer(&w.caller, op_get("probe.sum"), NULL, &io),
               TN_INVALID);
  EXPECT_TEXT(
      "in[1].ndim is -2, which says that `y` is absent, but this input "
      "is not optional");
  in[1].ndim = -3;
  cr_assert_eq(tn__call_infer(&w.caller, op_get("probe.opt"), NULL, &io),
               TN_INVALID);
  EXPECT_TEXT("in[1].ndim is -3");
}

Test(call, infer_refuses_invalid_signatures) {
  tn_sig in[2] = {{TN_F32, 1, {2}}, {TN_F32, 17, {0}}};
  tn_sig out[1] = {{TN_DTYPE_UNKNOWN, -1, {0}}};
  tn_signature io = {2, 1, 0, 0, in, out, NULL};
  tn_operator *op = op_get("probe.sum");
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_INVALID);
  EXPECT_TEXT("in[1].ndim is 17");
  in[1] = (tn_sig){TN_F32, 1, {-2}};
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_INVALID);
  EXPECT_TEXT("in[1].shape[0] is -2");
  in[1] = (tn_sig){3, 1, {2}};
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_DTYPE);
  EXPECT_TEXT("in[1].dtype is 0x3");
  io.n_in = 1;
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_INVALID);
  EXPECT_TEXT("takes 2 inputs (x, y), but 1 was given");
  io.n_in = 2;
  io.n_out = 3;
  cr_assert_eq(tn__call_infer(&w.caller, op, NULL, &io), TN_INVALID);
  EXPECT_TEXT("signature has 3 and 0");
}

Test(call, explain_names_every_kernel) {
  tn_array *x = create_pair(1, 2);
  tn_text *text = NULL;
  tn_operator *op = op_get("probe.mul");
  const tn_inputs in = {2, (tn_array *[]){x, x}};
  cr_assert_eq(tn__call_explain(&w.caller, op, NULL, NULL, &text), TN_OK);
  cr_assert_not_null(strstr(tn_text_get(text), "probe.mul.cpu"));
  tn_text_release(text);
  cr_assert_eq(tn__call_explain(&w.caller, op, &in, NULL, &text), TN_OK, "%s",
               tn_error_text());
  cr_assert_not_null(strstr(tn_text_get(text), "probe.mul.cpu"));
  tn_text_release(text);
  tn__array_release(x);
}
