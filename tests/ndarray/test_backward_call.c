/* SPDX-License-Identifier: Apache-2.0
 * Backward calls. probe.mul is x*y, so its gradients are g*y and g*x;
 * probe.split has outputs x+1 and 10 x, so its gradient is g0 + 10 g1.
 */
#include <criterion/criterion.h>

#include "fixture.h"
#include "probe.h"

TestSuite(backward, .init = world_open, .fini = world_close);

static tn_array *create_pair(float a, float b) {
  return floats(SHAPE(2), VALUES(a, b));
}

typedef struct setup {
  tn_array *in[2];
  tn_array *out[2];
  tn_array *heads[2];
  tn_array *grads[2];
  tn_req req[2];
  tn_backward call;
} setup;

/* x = 2 3, y = 5 7, gradient of the first output 1 10. */
static void setup_init(setup *s, size_t n_in, size_t n_out) {
  *s = (setup){.in = {create_pair(2, 3), n_in > 1 ? create_pair(5, 7) : NULL},
               .heads = {create_pair(1, 10), NULL},
               .req = {TN_REQ_WRITE, TN_REQ_WRITE}};
  s->call = (tn_backward){.struct_size = sizeof s->call,
                          .inputs = {n_in, s->in},
                          .outputs = {n_out, s->out},
                          .out_grads = {n_out, s->heads},
                          .in_grads = {n_in, s->grads, s->req}};
}

static void setup_deinit(setup *s) {
  for (int i = 0; i < 2; ++i) {
    tn__array_release(s->in[i]);
    tn__array_release(s->out[i]);
    tn__array_release(s->heads[i]);
    tn__array_release(s->grads[i]);
  }
}

static tn_code run_setup(setup *s, const char *op) {
  return tn__call_backward(&w.caller, op_get(op), &s->call);
}

Test(backward, gives_the_gradient_of_every_input) {
  setup s;
  setup_init(&s, 2, 1);
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK, "%s", tn_error_text());
  expect(s.grads[0], VALUES(5, 70));
  expect(s.grads[1], VALUES(2, 30));
  cr_assert_eq(probe.flags, TN_CALL_BACKWARD);
  cr_assert_eq(probe.n_in, 4);
  cr_assert_eq(probe.n_out, 2);
  setup_deinit(&s);
}

Test(backward, shows_only_the_needs_of_the_requested_gradients) {
  setup s;
  setup_init(&s, 2, 1);
  s.req[1] = TN_REQ_NULL;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  expect(s.grads[0], VALUES(5, 70));
  cr_assert_null(s.grads[1]);
  cr_assert_eq(probe.in_flags[0], TN_IN_CONTIGUOUS);
  cr_assert_eq(probe.in_flags[1], TN_IN_ABSENT);
  cr_assert_null(probe.in[1].data);
  cr_assert_eq(probe.in[1].ndim, -1);
  cr_assert_eq(probe.in_flags[2], TN_IN_CONTIGUOUS);
  cr_assert_eq(probe.in_flags[3], TN_IN_ABSENT);
  cr_assert_eq(probe.req[1], TN_REQ_NULL);
  setup_deinit(&s);
}

Test(backward, shows_the_metadata_of_a_gradient_without_request) {
  setup s;
  setup_init(&s, 2, 1);
  s.req[1] = TN_REQ_NULL;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  for (int again = 0; again < 2; ++again) { /* the second finds the recipe */
    cr_assert_eq(probe.req[1], TN_REQ_NULL);
    cr_assert_null(probe.out[1].data);
    cr_assert_eq(probe.out[1].ndim, 1);
    cr_assert_eq(probe.out[1].dtype, TN_F32);
    cr_assert_eq(probe.out_dense[1], 1);
    cr_assert_null(s.grads[1], "an unwanted gradient was delivered");
    cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  }
  setup_deinit(&s);
}

Test(backward, adds_to_existing_gradients) {
  setup s;
  setup_init(&s, 2, 1);
  s.grads[0] = create_pair(100, 100);
  s.req[0] = TN_REQ_ADD;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  expect(s.grads[0], VALUES(105, 170));
  cr_assert_eq(probe.req[0], TN_REQ_ADD);
  setup_deinit(&s);
}

Test(backward, works_in_the_memory_of_the_output_gradient_where_allowed) {
  setup s;
  setup_init(&s, 2, 1);
  s.req[1] = TN_REQ_NULL;
  s.grads[0] = s.heads[0];
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK, "%s", tn_error_text());
  expect(s.heads[0], VALUES(5, 70));
  cr_assert_eq(probe.req[0], TN_REQ_INPLACE);
  cr_assert_eq(probe.alias[0], 0);
  s.grads[0] = NULL;
  setup_deinit(&s);
}

Test(backward, may_write_over_an_input_that_it_does_not_read) {
  setup s;
  setup_init(&s, 2, 1);
  s.req[1] = TN_REQ_NULL;
  s.grads[0] = s.in[0]; /* the gradient of x needs y only */
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  expect(s.in[0], VALUES(5, 70));
  cr_assert_eq(probe.out[0].data, tn__array_data(s.in[0]));
  s.grads[0] = NULL;
  setup_deinit(&s);
}

Test(backward, may_write_over_an_input_that_it_reads) {
  setup s;
  setup_init(&s, 2, 1);
  s.grads[0] = s.in[0];
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  expect(s.in[0], VALUES(5, 70));
  expect(s.grads[1], VALUES(2, 30));
  s.grads[0] = NULL;
  setup_deinit(&s);
}

/* Runs the gradient of x*y with the gradients in the memory of `x` and `y`; the
 * kernel must get the aliases. */
static void run_times(setup *s, int32_t x, int32_t y) {
  cr_assert_eq(run_setup(s, "probe.times"), TN_OK, "%s", tn_error_text());
  expect(s->grads[0], VALUES(5, 70));
  expect(s->grads[1], VALUES(2, 30));
  cr_assert_eq(probe.alias[0], x);
  cr_assert_eq(probe.alias[1], y);
}

Test(backward, works_in_the_memory_of_inputs_that_the_kernel_lists) {
  setup s;
  setup_init(&s, 2, 1);
  s.grads[0] = tn__array_retain(s.in[1]); /* positions: head, x, y, out */
  run_times(&s, 2, -1);
  expect(s.in[1], VALUES(5, 70));
  setup_deinit(&s);
}

Test(backward, works_in_the_memory_of_two_inputs_at_once) {
  setup s;
  setup_init(&s, 2, 1);
  s.grads[0] = tn__array_retain(s.in[1]);
  s.grads[1] = tn__array_retain(s.heads[0]);
  run_times(&s, 2, 0);
  setup_deinit(&s);
}

Test(backward, copies_an_input_that_another_gradient_reads_later) {
  setup s;
  setup_init(&s, 2, 1);
  s.grads[0] = tn__array_retain(s.heads[0]);
  s.grads[1] = tn__array_retain(s.in[0]);
  run_times(&s, -1, 1);
  setup_deinit(&s);
}

Test(backward, uses_zeros_for_a_missing_output_gradient) {
  setup s;
  setup_init(&s, 1, 2);
  cr_assert_eq(run_setup(&s, "probe.split"), TN_OK, "%s", tn_error_text());
  expect(s.grads[0], VALUES(1, 10));
  s.heads[1] = s.heads[0];
  s.heads[0] = NULL;
  cr_assert_eq(run_setup(&s, "probe.split"), TN_OK);
  expect(s.grads[0], VALUES(10, 100));
  s.call.out_grads.n = 1; /* a hidden output's gradient may be omitted */
  cr_assert_eq(run_setup(&s, "probe.split"), TN_OK);
  expect(s.grads[0], VALUES(0, 0));
  setup_deinit(&s);
}

/* The gradient of probe.loss is size(x) * out, and label has none. */
Test(backward, shows_metadata_where_values_are_not_needed) {
  setup s;
  setup_init(&s, 2, 1);
  s.out[0] = create_pair(4, 5);
  s.req[1] = TN_REQ_NULL;
  cr_assert_eq(run_setup(&s, "probe.loss"), TN_OK, "%s", tn_error_text());
  expect(s.grads[0], VALUES(8, 10));
  cr_assert_eq(probe.in_flags[1], TN_IN_METADATA | TN_IN_CONTIGUOUS);
  cr_assert_null(probe.in[1].data);
  cr_assert_eq(probe.in[1].ndim, 1);
  cr_assert_eq(probe.in_flags[0], TN_IN_ABSENT);
  cr_assert_eq(probe.in_flags[3], TN_IN_CONTIGUOUS);
  setup_deinit(&s);
}

Test(backward, requires_the_outputs_that_it_needs) {
  setup s;
  setup_init(&s, 2, 1);
  s.req[1] = TN_REQ_NULL;
  cr_assert_eq(run_setup(&s, "probe.loss"), TN_INVALID);
  EXPECT_TEXT("value of output `out`", "tn_backward.outputs");
  s.call.outputs.n = 0;
  cr_assert_eq(run_setup(&s, "probe.loss"), TN_INVALID);
  setup_deinit(&s);
}

Test(backward, refuses_operators_without_a_gradient) {
  setup s;
  setup_init(&s, 2, 1);
  s.out[0] = create_pair(4, 5);
  cr_assert_eq(run_setup(&s, "probe.sum"), TN_UNSUPPORTED);
  EXPECT_TEXT("probe.sum@1 has no gradient: it only records");
  cr_assert_eq(run_setup(&s, "probe.loss"), TN_UNSUPPORTED);
  EXPECT_TEXT("gradient of input `label`", "never differentiates");
  setup_deinit(&s);
}

Test(backward, does_nothing_when_no_gradient_is_requested) {
  setup s;
  setup_init(&s, 2, 1);
  s.req[0] = s.req[1] = TN_REQ_NULL;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_OK);
  cr_assert_eq(probe.calls, 0);
  setup_deinit(&s);
}

Test(backward, reports_lists_of_a_wrong_length) {
  setup s;
  setup_init(&s, 2, 1);
  s.call.in_grads.n = 1;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_INVALID);
  EXPECT_TEXT("tn_backward.in_grads must have 2 entries, but 1 was given");
  s.call.in_grads.n = 2;
  s.call.out_grads.n = 2;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_INVALID);
  EXPECT_TEXT("tn_backward.out_grads must have 1 entries, but 2 were given");
  s.call.out_grads.n = 1;
  s.call.inputs.n = 1;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_INVALID);
  EXPECT_TEXT("probe.mul@1 takes 2 inputs (x, y), but 1 was given");
  setup_deinit(&s);
}

Test(backward, reports_gradients_of_a_wrong_shape) {
  setup s;
  setup_init(&s, 2, 1);
  tn_array *right = s.heads[0];
  s.heads[0] = floats(SHAPE(3), VALUES(1, 2, 3));
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_SHAPE);
  EXPECT_TEXT("gradient of output `out` must be f32 (2)", "is f32 (3)");
  s.grads[1] = s.heads[0];
  s.heads[0] = right;
  cr_assert_eq(run_setup(&s, "probe.mul"), TN_SHAPE);
  EXPECT_TEXT("gradient of input `y` must be f32 (2)", "is f32 (3)");
  setup_deinit(&s);
}

/* -------------------------------------------------------- calls like before */

/* The second of two equal calls takes the fast path. The third differs in an
 * input that the kernel does not read, the fourth in its requests. */
Test(backward, gives_the_same_when_it_is_repeated) {
  tn_array *a = floats(SHAPE(2), VALUES(2, 3)),
           *b = floats(SHAPE(2), VALUES(5, 7)),
           *g = floats(SHAPE(2), VALUES(1, 10)),
           *out = floats(SHAPE(2), VALUES(10, 21)), *in[] = {a, b};
  for (int i = 0; i < 4; ++i) {
    tn_array *grads[] = {NULL, NULL};
    const tn_req both[] = {TN_REQ_WRITE, TN_REQ_WRITE},
                 second[] = {TN_REQ_NULL, TN_REQ_WRITE};
    const tn_backward call = {.struct_size = sizeof call,
                              .inputs = {2, in},
                              .outputs = {i == 2, &out},
                              .out_grads = {1, &g},
                              .in_grads = {2, grads, i == 3 ? second : both}};
    cr_assert_eq(tn__call_backward(&w.caller, op_get("probe.mul"), &call),
                 TN_OK, "%s", tn_error_text());
    if (i < 3) expect(grads[0], VALUES(5, 70));
    if (i == 3) cr_assert_null(grads[0]);
    expect(grads[1], VALUES(2, 30));
    tn__array_release(grads[0]);
    tn__array_release(grads[1]);
  }
  tn__array_release(a);
  tn__array_release(b);
  tn__array_release(g);
  tn__array_release(out);
}
