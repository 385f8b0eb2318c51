/* SPDX-License-Identifier: Apache-2.0
 * nn.linear_attention: values and gradients of torch
 * (tests/reference/linear_attention.py), the same results for all threads,
 * calls without steps, and operands that do not fit.
 */
#include <stdlib.h>

#include "cases.h"

enum { N_IN = 6, N_OUT = 2 };

/* An operand of no dimensions is absent. */
typedef struct linear_case {
  const char *params;
  host_operand in[N_IN];
  host_operand out[N_OUT];
  host_operand heads[N_OUT];
  host_operand grads[N_IN];
} linear_case;

static const linear_case linear_cases[] = {
#include "linear_attention_cases.inc"
};
enum { N_CASES = sizeof linear_cases / sizeof *linear_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(linear_attention, .init = open_all, .fini = close_all);

static void check_case(const linear_case *c, tn_dtype dtype, double tolerance) {
  cases_call call = {.op = "nn.linear_attention",
                     .params = c->params,
                     .n_in = N_IN,
                     .n_out = N_OUT};
  for (int i = 0; i < N_IN; ++i) {
    if (c->in[i].shape.ndim == 0) continue;
    call.in[i] = host_operand_array(rt, dtype, &c->in[i]);
    call.req[i] = TN_REQ_WRITE;
  }
  for (int i = 0; i < N_OUT; ++i)
    call.heads[i] = host_operand_array(rt, dtype, &c->heads[i]);
  cases_forward(rt, &call);
  for (int i = 0; i < N_OUT; ++i)
    host_expect_operand(call.out[i], &c->out[i], tolerance, call.op, c->params);
  cases_backward(rt, &call);
  for (int i = 0; i < N_IN; ++i)
    if (call.in[i])
      host_expect_operand(call.grads[i], &c->grads[i], tolerance, call.op,
                          c->params);
  cases_release(&call);
}

Test(linear_attention, values_and_gradients_are_those_of_torch) {
  for (int i = 0; i < N_CASES; ++i) {
    check_case(&linear_cases[i], TN_F64, 1e-12);
    check_case(&linear_cases[i], TN_F32, 4e-6);
    check_case(&linear_cases[i], TN_F16, 1e-2);
    check_case(&linear_cases[i], TN_BF16, 8e-2);
  }
}

/* ------------------------------------------------------------------- sizes */

static double small_noise(int64_t i) {
  return cases_noise(i) / 8;
}

static double decay_noise(int64_t i) {
  return -fabs(cases_noise(5 * i + 1)) / 4;
}

static double share_noise(int64_t i) {
  return fabs(cases_noise(3 * i + 2)) / 2;
}

/* Fills in a call with `steps` steps of 5 heads that read 5 states. */
static void fill(tn_runtime *own, cases_call *c, int64_t steps) {
  enum { B = 2, H = 5, D = 19, W = 37 };
  *c = (cases_call){
      .op = "nn.linear_attention", .params = "", .n_in = N_IN, .n_out = N_OUT};
  const int64_t keys[] = {B, H, steps, D}, values[] = {B, H, steps, W};
  const int64_t states[] = {B, H, D, W};
  c->in[0] = cases_array(own, TN_F32, 4, keys, cases_noise);
  c->in[1] = cases_array(own, TN_F32, 4, keys, small_noise);
  c->in[2] = cases_array(own, TN_F32, 4, values, cases_noise);
  c->in[3] = cases_array(own, TN_F32, 4, keys, decay_noise);
  c->in[4] = cases_array(own, TN_F32, 3, keys, share_noise);
  c->in[5] = cases_array(own, TN_F32, 4, states, small_noise);
  c->heads[0] = cases_array(own, TN_F32, 4, values, small_noise);
  c->heads[1] = cases_array(own, TN_F32, 4, states, share_noise);
  for (int i = 0; i < N_IN; ++i) c->req[i] = TN_REQ_WRITE;
}

static void make_long(tn_runtime *own, cases_call *c) {
  fill(own, c, 83);
}

Test(linear_attention, results_are_the_same_for_all_threads) {
  cases_same_for_all_threads(make_long);
}

/* Fails the test unless two arrays have the same numbers. */
static void expect_same(tn_array *a, tn_array *b) {
  const int64_t n = tn_array_size(a);
  double *x = cases_values(a), *y = cases_values(b);
  cr_assert_eq(n, tn_array_size(b));
  cr_assert_arr_eq(x, y, (size_t)n * sizeof *x);
  free(x), free(y);
}

Test(linear_attention, a_call_without_steps_keeps_the_state) {
  cases_call c;
  fill(rt, &c, 0);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  expect_same(c.out[1], c.in[5]);
  expect_same(c.grads[5], c.heads[1]);
  cases_release(&c);
}

/* ------------------------------------------------------------------ errors */

Test(linear_attention, decays_of_another_length_are_refused) {
  tn_operator *op = host_operator(rt, "nn.linear_attention");
  tn_array *in[4], *out[2] = {NULL};
  for (int i = 0; i < 4; ++i)
    in[i] = cases_array(rt, TN_F32, 4, (int64_t[]){1, 1, 2, i < 3 ? 3 : 2},
                        cases_noise);
  const tn_code code =
      tn_call(rt, op, &(tn_inputs){4, in}, NULL, &(tn_outputs){2, out, NULL});
  cr_assert_eq(code, TN_SHAPE);
  cr_assert(strstr(tn_error_text(),
                   "`decay` (1,1,2,2) must have one number or "
                   "3 for each step"),
            "%s", tn_error_text());
  for (int i = 0; i < 4; ++i) tn_array_release(in[i]);
}
