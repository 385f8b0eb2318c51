/* SPDX-License-Identifier: Apache-2.0
 * nn.rnn: values and gradients of torch (tests/reference/rnn.py), many units
 * and rows against plain loops in f64, gradients against differences, dropped
 * elements, empty sequences, and operands that do not fit.
 */
#include <stdlib.h>

#include "cases.h"
#include "rnn_check.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(rnn, .init = open_all, .fini = close_all);

Test(rnn, values_and_gradients_are_those_of_torch) {
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  rnn_check(rt, cpu, TN_F64, 1e-12);
  rnn_check(rt, cpu, TN_F32, 4e-6);
  rnn_check(rt, cpu, TN_F16, 1e-2);
  rnn_check(rt, cpu, TN_BF16, 8e-2);
}

/* ------------------------------------------------------------------- sizes */

/* A layer of one direction. */
typedef struct problem {
  const char *params;
  int64_t gates; /* 1: tanh, 3: gru, 4: lstm */
  int64_t steps, batch, inputs, units;
} problem;

static double small_noise(int64_t i) {
  return cases_noise(i) / 8;
}

static double other_noise(int64_t i) {
  return cases_noise(3 * i + 1) / 2;
}

static int64_t count_parameters(const problem *p) {
  return p->gates * p->units * (p->inputs + p->units + 2);
}

static void fill(tn_runtime *own, cases_call *c, const problem *p,
                 tn_dtype dtype) {
  const int64_t n = count_parameters(p);
  *c = (cases_call){.op = "nn.rnn",
                    .params = p->params,
                    .n_in = p->gates == 4 ? 4 : 3,
                    .n_out = 4};
  c->in[0] = cases_array(
      own, dtype, 3, (int64_t[]){p->steps, p->batch, p->inputs}, cases_noise);
  c->in[1] = cases_array(own, dtype, 1, &n, small_noise);
  for (size_t i = 2; i < c->n_in; ++i)
    c->in[i] = cases_array(own, dtype, 3, (int64_t[]){1, p->batch, p->units},
                           other_noise);
  c->heads[0] = cases_array(
      own, dtype, 3, (int64_t[]){p->steps, p->batch, p->units}, other_noise);
  c->heads[1] = cases_array(own, dtype, 3, (int64_t[]){1, p->batch, p->units},
                            cases_noise);
  for (size_t i = 0; i < c->n_in; ++i) c->req[i] = TN_REQ_WRITE;
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* Returns the product of row `row` of W, or of R, and x, with the bias. */
static double gate(const double *weights, int64_t row, const double *x,
                   int64_t n, const double *bias) {
  double sum = bias[row];
  for (int64_t k = 0; k < n; ++k) sum += weights[row * n + k] * x[k];
  return sum;
}

/* Computes h, and c of lstm, after a step of one row. */
static void step(const problem *p, const double *parameters, const double *x,
                 double *h, double *c) {
  const int64_t n = p->units, all = p->gates * n;
  const double *w = parameters, *r = w + all * p->inputs;
  const double *bw = r + all * n, *br = bw + all;
  double *old = malloc((size_t)n * sizeof *old);
  cr_assert_not_null(old);
  memcpy(old, h, (size_t)n * sizeof *old);
  for (int64_t u = 0; u < n; ++u) {
    double a[4] = {0}, b[4] = {0};
    for (int64_t g = 0; g < p->gates; ++g) {
      a[g] = gate(w, g * n + u, x, p->inputs, bw);
      b[g] = gate(r, g * n + u, old, n, br);
    }
    if (p->gates == 1) h[u] = tanh(a[0] + b[0]);
    if (p->gates == 3) {
      const double z = sigmoid(a[1] + b[1]);
      const double top = tanh(a[2] + sigmoid(a[0] + b[0]) * b[2]);
      h[u] = (1 - z) * top + z * old[u];
    }
    if (p->gates == 4) {
      c[u] = sigmoid(a[1] + b[1]) * c[u] +
             sigmoid(a[0] + b[0]) * tanh(a[2] + b[2]);
      h[u] = sigmoid(a[3] + b[3]) * tanh(c[u]);
    }
  }
  free(old);
}

static void check_values(const problem *p) {
  cases_call c;
  fill(rt, &c, p, TN_F32);
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *parameters = cases_values(c.in[1]);
  double *h = cases_values(c.in[2]);
  double *cell = p->gates == 4 ? cases_values(c.in[3]) : NULL;
  double *got = cases_values(c.out[0]);
  for (int64_t t = 0; t < p->steps; ++t)
    for (int64_t r = 0; r < p->batch; ++r) {
      double *own = h + r * p->units;
      step(p, parameters, x + (t * p->batch + r) * p->inputs, own,
           cell ? cell + r * p->units : NULL);
      for (int64_t u = 0; u < p->units; ++u) {
        const double one = got[(t * p->batch + r) * p->units + u];
        cr_assert(fabs(one - own[u]) < 1e-5, "%s: %g, not %g", p->params, one,
                  own[u]);
      }
    }
  rnn_expect(c.out[1], h, 1e-5, "state_out");
  if (cell) rnn_expect(c.out[2], cell, 1e-5, "cell_out");
  free(x), free(parameters), free(h), free(cell), free(got);
  cases_release(&c);
}

Test(rnn, many_units_and_rows_are_right) {
  check_values(&(problem){"state_size=70 mode=rnn_tanh", 1, 5, 31, 9, 70});
  check_values(&(problem){"state_size=37 mode=lstm", 4, 4, 30, 20, 37});
  check_values(&(problem){"state_size=37 mode=gru", 3, 4, 27, 5, 37});
  check_values(&(problem){"state_size=128 mode=lstm", 4, 6, 1, 40, 128});
  check_values(&(problem){"state_size=64 mode=gru", 3, 3, 50, 64, 64});
}

static void make_lstm(tn_runtime *own, cases_call *c) {
  fill(own, c, &(problem){"state_size=37 mode=lstm", 4, 5, 61, 20, 37}, TN_F32);
}

static void make_gru(tn_runtime *own, cases_call *c) {
  fill(own, c, &(problem){"state_size=20 mode=gru", 3, 5, 61, 33, 20}, TN_F32);
}

Test(rnn, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_lstm);
  cases_same_for_all_threads(make_gru);
}

/* --------------------------------------------------------------- gradients */

/* Returns the sum of the products of out with its head, of a call in which an
 * input is moved. Random numbers are the same in each. */
static double weigh_outputs(cases_call *c, size_t index, tn_array *moved) {
  cases_call own = *c;
  double sum = 0;
  memset(own.out, 0, sizeof own.out);
  own.in[index] = moved;
  OK(tn_random_seed(rt, 5));
  cases_forward(rt, &own);
  double *out = cases_values(own.out[0]), *head = cases_values(c->heads[0]);
  for (int64_t i = 0; i < tn_array_size(own.out[0]); ++i)
    sum += out[i] * head[i];
  free(out), free(head);
  for (size_t i = 0; i < 4; ++i) tn_array_release(own.out[i]);
  return sum;
}

/* Compares the gradient of an input, in one direction, with a difference. */
static void check_direction(cases_call *c, size_t index) {
  const double step = 1e-5;
  const tn_tensor *shape = tn_array_tensor(c->in[index]);
  double *x = cases_values(c->in[index]), *grad = cases_values(c->grads[index]);
  double ends[2], want = 0;
  const int64_t n = tn_array_size(c->in[index]);
  for (int64_t i = 0; i < n; ++i) want += grad[i] * cases_noise(11 * i + 3);
  for (int k = 0; k < 2; ++k) {
    for (int64_t i = 0; i < n; ++i)
      x[i] += (k == 0 ? step : -2 * step) * cases_noise(11 * i + 3);
    tn_array *moved = host_many(rt, TN_F64, shape->ndim, shape->shape, x);
    ends[k] = weigh_outputs(c, index, moved);
    tn_array_release(moved);
  }
  const double got = (ends[0] - ends[1]) / (2 * step);
  cr_assert(fabs(got - want) < 1e-6 * fmax(1, fabs(want)),
            "%s, input %zu: %.9g, not %.9g", c->params, index, want, got);
  free(x), free(grad);
}

static void check_gradients(cases_call *c) {
  tn_array_release(c->heads[1]);
  c->heads[1] = NULL;
  OK(tn_random_seed(rt, 5));
  cases_forward(rt, c);
  cases_backward(rt, c);
  for (size_t i = 0; i < c->n_in; ++i) check_direction(c, i);
  cases_release(c);
}

Test(rnn, gradients_of_many_units_are_differences) {
  cases_call c;
  fill(rt, &c, &(problem){"state_size=37 mode=lstm", 4, 5, 30, 20, 37}, TN_F64);
  check_gradients(&c);
  fill(rt, &c, &(problem){"state_size=33 mode=gru", 3, 4, 26, 7, 33}, TN_F64);
  check_gradients(&c);
  fill(rt, &c, &(problem){"state_size=70 mode=rnn_tanh", 1, 6, 25, 9, 70},
       TN_F64);
  check_gradients(&c);
}

/* ------------------------------------------------------------------ dropout */

static void fill_layers(cases_call *c, const char *params, uint32_t flags) {
  const int64_t n = 2 * 4 * (4 + 4 + 2); /* 4 inputs, and 4 of 4 units */
  *c = (cases_call){
      .op = "nn.rnn", .params = params, .flags = flags, .n_in = 2, .n_out = 4};
  c->in[0] = cases_array(rt, TN_F64, 3, (int64_t[]){5, 30, 4}, cases_noise);
  c->in[1] = cases_array(rt, TN_F64, 1, &n, small_noise);
  c->heads[0] = cases_array(rt, TN_F64, 3, (int64_t[]){5, 30, 4}, other_noise);
  for (size_t i = 0; i < c->n_in; ++i) c->req[i] = TN_REQ_WRITE;
}

Test(rnn, dropped_elements_are_the_same_in_the_gradient) {
  cases_call c;
  fill_layers(&c, "state_size=4 num_layers=2 mode=rnn_tanh p=0.5",
              TN_CALL_TRAIN);
  check_gradients(&c);
}

Test(rnn, with_p_of_one_nothing_reaches_the_second_layer) {
  cases_call c;
  fill_layers(&c, "state_size=4 num_layers=2 mode=rnn_relu p=1", TN_CALL_TRAIN);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *grad = cases_values(c.grads[0]);
  for (int64_t i = 0; i < 5 * 30 * 4; ++i) cr_assert(grad[i] == 0);
  free(grad);
  cases_release(&c);
}

Test(rnn, nothing_is_dropped_outside_of_training) {
  cases_call plain, never;
  fill_layers(&plain, "state_size=4 num_layers=2 mode=rnn_tanh", 0);
  fill_layers(&never, "state_size=4 num_layers=2 mode=rnn_tanh p=0.5", 0);
  cases_forward(rt, &plain);
  cases_forward(rt, &never);
  double *want = cases_values(plain.out[0]);
  rnn_expect(never.out[0], want, 0, "out");
  free(want);
  cases_release(&plain), cases_release(&never);
}

/* ------------------------------------------------------------------- shapes */

static void check_empty(const problem *p) {
  cases_call c;
  fill(rt, &c, p, TN_F32);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *want = cases_values(c.in[2]);
  rnn_expect(c.out[1], want, 0, "state_out");
  free(want);
  double *grad = cases_values(c.grads[1]);
  for (int64_t i = 0; i < tn_array_size(c.grads[1]); ++i)
    cr_assert(grad[i] == 0);
  free(grad);
  cases_release(&c);
}

Test(rnn, no_steps_and_no_rows_change_nothing) {
  check_empty(&(problem){"state_size=3 mode=lstm", 4, 0, 2, 5, 3});
  check_empty(&(problem){"state_size=3 mode=gru", 3, 4, 0, 5, 3});
  check_empty(&(problem){"state_size=3 mode=rnn_tanh", 1, 0, 0, 5, 3});
}

static tn_code infer(const char *text, tn_sig *in, uint32_t n_in) {
  tn_operator *op = host_operator(rt, "nn.rnn");
  tn_params *params = host_params(op, text);
  tn_sig out[4] = {{.ndim = -1}, {.ndim = -1}, {.ndim = -1}, {.ndim = -1}};
  const tn_code rc = tn_operator_infer(
      op, params, &(tn_signature){n_in, 4, 0, 0, in, out, NULL});
  tn_params_release(params);
  return rc;
}

Test(rnn, operands_that_do_not_fit_are_errors) {
  tn_sig in[4] = {{TN_F32, 3, {5, 2, 3}},
                  {.ndim = -1, .dtype = TN_F32},
                  {.ndim = -1, .dtype = TN_F32},
                  {.ndim = -1, .dtype = TN_F32}};
  OK(infer("state_size=4 mode=lstm", in, 4));
  cr_assert_eq(in[1].shape[0], 4 * 4 * (3 + 4 + 2));
  cr_assert_eq(in[2].shape[2], 4);
  in[1] = (tn_sig){TN_F32, 1, {40}};
  FAILS(infer("state_size=4 mode=rnn_relu", in, 3), TN_SHAPE,
        "`parameters` (40) must have 36 elements, for rows of 3 elements in "
        "`data`");
  FAILS(infer("state_size=4 mode=gru", in, 4), TN_SHAPE,
        "give `state_cell` with mode=lstm only");
}
