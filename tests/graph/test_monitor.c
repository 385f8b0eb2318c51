/* SPDX-License-Identifier: Apache-2.0
 * Programs with monitors, and parameters that change between runs.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "program_fixture.h"

typedef struct sight {
  char names[16][40];
  double first[16];
  uint32_t n;
} sight;

static void note_array(void *ctx, const char *name, tn_array *array) {
  sight *s = ctx;
  double all[1 << 13];
  if (s->n == 16) return;
  (void)snprintf(s->names[s->n], sizeof *s->names, "%s", name);
  OK(tn__array_get(array, all, n_elements(array) * sizeof *all));
  s->first[s->n++] = all[0];
}

static void check_monitor(uint32_t flags) {
  sight seen = {.n = 0};
  const double x = number_at(0), y = x + x;
  tn_program *p = BIND(.flags = flags), *q = BIND(.flags = flags);
  OK(tn__program_forward(q, 0));
  OK(tn__program_monitor(p, note_array, &seen));
  OK(tn__program_forward(p, 0));
  cr_assert_eq(seen.n, 4, "%u", seen.n);
  cr_assert_str_eq(seen.names[0], "sum_output");
  cr_assert_str_eq(seen.names[1], "two_product");
  cr_assert_str_eq(seen.names[2], "two_sum");
  cr_assert_str_eq(seen.names[3], "last_output");
  cr_assert_eq(seen.first[0], y);
  cr_assert_eq(seen.first[1], y * x);
  cr_assert_eq(seen.first[2], y + 3 * x);
  cr_assert_eq(seen.first[3], y * x - (y + 3 * x));
  same_bits(head_of(p, 0), head_of(q, 0), "a watched run");
  OK(tn__program_monitor(p, NULL, NULL));
  OK(tn__program_forward(p, 0));
  same_bits(head_of(p, 0), head_of(q, 0), "a run behind a watched one");
  cr_assert_eq(seen.n, 4);
  tn__program_release(p), tn__program_release(q);
}

Test(monitor, monitors_see_every_visible_output) {
  net_open_on(2);
  give_array("x", create_filled(TN_F64, SHAPE(64, 128)));
  const tn_entry x = var_node(g, "x"), sum = OP(g, "add", NULL, "sum", x, x),
                 two = OP(g, "pair", NULL, "two", sum, x);
  HEADS(g, OP(g, "sub", NULL, "last", two, output_of(two, 1)));
  check_monitor(TN_BIND_NO_FUSE);
  check_monitor(0);
  drop_arrays();
  net_close();
}

/* Calls and gradients, but not hidden outputs of an operator. */
Test(monitor, monitors_see_gradients_too) {
  static const char *const want[] = {"k_out",
                                     "sq_output",
                                     "sq_backward_output",
                                     "k_backward_output0",
                                     "k_backward_output1",
                                     "sum0_output"};
  sight seen = {.n = 0};
  net_open_on(2);
  give_array("x", create_filled(TN_F64, SHAPE(3)));
  const tn_entry x = var_node(g, "x");
  HEADS(g, OP(g, "square", NULL, "sq", OP(g, "keep", NULL, "k", x, x)));
  tn_program *p = BIND(.request = TN_REQ_WRITE);
  tn_array *weight = create_filled(TN_F64, SHAPE(3));
  OK(tn__program_monitor(p, note_array, &seen));
  run_training(p, weight);
  double *slope = elements_of(slope_of(p, "x"));
  cr_assert_eq(seen.n, 6, "%u", seen.n);
  for (uint32_t i = 0; i < seen.n; ++i)
    cr_expect_str_eq(seen.names[i], want[i]);
  cr_expect_eq(seen.first[5], slope[0]);
  free(slope);
  tn__array_release(weight);
  tn__program_release(p);
  drop_arrays();
  net_close();
}

/* --------------------------------------------------------------- parameters */

static void set_and_run(uint32_t flags, uint64_t memory, bool watched) {
  tn_array *weight = create_filled(TN_F64, SHAPE(64, 128));
  tn_program *p =
      BIND(.flags = flags, .memory = memory, .request = TN_REQ_WRITE);
  sight seen = {.n = 0};
  if (watched) OK(tn__program_monitor(p, note_array, &seen));
  run_training(p, weight);
  for (int i = 0; i < 3; ++i) {
    const double rate = 0.5 + i, x = number_at(0), k = number_at(0);
    const tn_value value = tn_value_float("rate", rate);
    OK(tn__program_set(p, "first", &value));
    if (i == 1) OK(tn__program_forward(p, 0));
    run_training(p, weight);
    double *out = elements_of(head_of(p, 0)),
           *slope = elements_of(slope_of(p, "x"));
    cr_assert_float_eq(out[0], rate * x * rate * x, 1e-12, "rate %g: %g", rate,
                       out[0]);
    cr_assert_float_eq(slope[0], 2 * rate * rate * x * k, 1e-12,
                       "rate %g: slope %g", rate, slope[0]);
    free(out), free(slope);
  }
  const tn_value wrong = tn_value_float("speed", 1);
  cr_assert_neq(tn__program_set(p, "first", &wrong), TN_OK);
  FAILS(tn__program_set(p, "nobody", &wrong), TN_NOT_FOUND, "nobody");
  tn__program_release(p);
  tn__array_release(weight);
}

Test(monitor, parameters_change_between_runs) {
  net_open_on(2);
  give_array("x", create_filled(TN_F64, SHAPE(64, 128)));
  HEADS(g, OP(g, "square", NULL, NULL,
              OP(g, "scaled", NULL, "first", var_node(g, "x"))));
  set_and_run(TN_BIND_NO_FUSE, 0, false);
  set_and_run(0, 0, false);
  set_and_run(TN_BIND_NO_FUSE, TN_MEMORY_MINIMAL, false);
  set_and_run(0, TN_MEMORY_MINIMAL, false);
  set_and_run(0, 0, true);
  drop_arrays();
  net_close();
}

static void rate_is_three(tn_program *p, int64_t rows, int64_t columns) {
  tn_array *x = NULL, *from = create_filled(TN_F64, SHAPE(rows, columns));
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "x", &x));
  OK(tn__array_copy(x, from));
  for (uint32_t flags = 0; flags < 2; ++flags) {
    OK(tn__program_forward(p, flags ? TN_CALL_TRAIN : 0));
    double *out = elements_of(head_of(p, 0));
    cr_assert_float_eq(out[1], 9 * number_at(1) * number_at(1), 1e-12, "%g",
                       out[1]);
    free(out);
  }
  tn__array_release(from);
}

/* Changed parameters are valid for a monitor that is set later, and for a
 * program of other shapes. */
static void set_before(uint32_t flags) {
  tn_program *p = BIND(.flags = flags), *small = NULL, *smaller = NULL;
  const tn_value value = tn_value_float("rate", 3);
  const tn_known half = {"x", UNTYPED(32, 128)}, few = {"x", UNTYPED(8, 8)};
  sight seen = {.n = 0};
  OK(tn__program_set(p, "first", &value));
  OK(tn__program_monitor(p, note_array, &seen));
  OK(tn__program_forward(p, 0));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  cr_assert_eq(seen.n, 4);
  for (uint32_t i = 0; i < 4; i += 2) {
    cr_assert_str_eq(seen.names[i], "first_output");
    cr_assert_float_eq(seen.first[i], 3 * number_at(0), 1e-12);
  }
  OK(tn__program_reshape(p, &half, 1, &small));
  OK(tn__program_reshape(small, &few, 1, &smaller));
  rate_is_three(small, 32, 128);
  rate_is_three(smaller, 8, 8);
  tn__program_release(smaller), tn__program_release(small);
  tn__program_release(p);
}

Test(monitor, parameters_that_were_set_stay) {
  net_open_on(2);
  give_array("x", create_filled(TN_F64, SHAPE(64, 128)));
  HEADS(g, OP(g, "square", NULL, NULL,
              OP(g, "scaled", NULL, "first", var_node(g, "x"))));
  set_before(TN_BIND_NO_FUSE);
  set_before(0);
  drop_arrays();
  net_close();
}
