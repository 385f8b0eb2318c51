/* SPDX-License-Identifier: Apache-2.0
 * Sequences of plugins/nn: sequence_mask, sequence_last and sequence_reverse.
 * Values of NumPy and gradients of torch (tests/reference/sequences.py), larger
 * shapes, all element types, and lengths that do not fit.
 */
#include <stdlib.h>

#include "cases.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(sequences, .init = open_all, .fini = close_all);

Test(sequences, values_are_those_of_numpy_and_gradients_those_of_torch) {
  cases_check(rt, "nn.sequence_mask", 5);
  cases_check(rt, "nn.sequence_last", 5);
  cases_check(rt, "nn.sequence_reverse", 4);
}

/* ------------------------------------------------------------- large shapes */

enum { STEPS = 61, BATCH = 83, INNER = 17 };

static double length_of(int64_t n) {
  return 1 + (double)(n * 7 % STEPS);
}

static double head(int64_t i) {
  return cases_noise(3 * i + 1);
}

static void fill(tn_runtime *host, const char *op, int axis, cases_call *c) {
  const int64_t dims[3] = {axis ? BATCH : STEPS, axis ? STEPS : BATCH, INNER};
  const int64_t batch = BATCH;
  const int64_t rest[2] = {BATCH, INNER};
  *c = (cases_call){.op = op,
                    .params = axis ? "use_sequence_length=true axis=1"
                                   : "use_sequence_length=true",
                    .n_in = 2,
                    .n_out = 1,
                    .req = {TN_REQ_WRITE, TN_REQ_NULL}};
  c->in[0] = cases_array(host, TN_F32, 3, dims, cases_noise);
  c->in[1] = cases_array(host, TN_F32, 1, &batch, length_of);
  c->heads[0] = strstr(op, "last") ? cases_array(host, TN_F32, 2, rest, head)
                                   : cases_array(host, TN_F32, 3, dims, head);
}

static int64_t place(int axis, int64_t t, int64_t n, int64_t i) {
  return (axis ? n * STEPS + t : t * BATCH + n) * INNER + i;
}

/* The step of data that step t of the result is; -1: zeros. */
static int64_t origin(const char *op, int64_t t, int64_t length) {
  if (strstr(op, "mask")) return t < length ? t : -1;
  if (strstr(op, "reverse")) return t < length ? length - 1 - t : t;
  return length - 1;
}

static void check_large(const char *op, int axis) {
  cases_call c;
  const bool is_last = strstr(op, "last") != NULL;
  fill(rt, op, axis, &c);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  double *g = cases_values(c.heads[0]), *dx = cases_values(c.grads[0]);
  for (int64_t t = 0; t < (is_last ? 1 : STEPS); ++t)
    for (int64_t n = 0; n < BATCH; ++n)
      for (int64_t i = 0; i < INNER; ++i) {
        const int64_t from = origin(op, t, (int64_t)length_of(n));
        const int64_t at = is_last ? n * INNER + i : place(axis, t, n, i);
        const double want = from < 0 ? 0 : x[place(axis, from, n, i)];
        cr_assert_float_eq(y[at], want, 0, "%s: %lld", op, (long long)at);
        if (from >= 0) dx[place(axis, from, n, i)] -= g[at];
      }
  for (int64_t i = 0; i < STEPS * BATCH * INNER; ++i)
    cr_assert_float_eq(dx[i], 0, 0, "%s, gradient %lld", op, (long long)i);
  free(x), free(y), free(g), free(dx);
  cases_release(&c);
}

Test(sequences, large_shapes_are_moved_step_by_step) {
  check_large("nn.sequence_mask", 0);
  check_large("nn.sequence_mask", 1);
  check_large("nn.sequence_last", 0);
  check_large("nn.sequence_last", 1);
  check_large("nn.sequence_reverse", 0);
}

/* ------------------------------------------------------------------ types */

static const tn_dtype types[] = {TN_BOOL, TN_F16, TN_BF16, TN_F32,
                                 TN_F64,  TN_I8,  TN_U8,   TN_I16,
                                 TN_U16,  TN_I32, TN_U32,  TN_I64};

Test(sequences, all_types_are_moved) {
  const double numbers[] = {1, 0, 1, 1, 1, 1}, lengths[] = {1, 3};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    tn_operator *op = host_operator(rt, "nn.sequence_mask");
    tn_params *params = host_params(op, "use_sequence_length=true value=1");
    tn_array *x = host_many(rt, types[i], 2, (const int64_t[]){3, 2}, numbers);
    tn_array *length = host_many(rt, TN_I32, 1, (const int64_t[]){2}, lengths);
    tn_array *y = NULL;
    OK(tn_call(rt, op, TN_IN(x, length), params, TN_OUT(&y)));
    double *got = host_many_values(y);
    for (int k = 0; k < 6; ++k) cr_assert_float_eq(got[k], k != 1, 0);
    free(got);
    tn_array_release(x), tn_array_release(y), tn_array_release(length);
    tn_params_release(params);
  }
}

/* ---------------------------------------------------------------- failures */

static tn_code call(const char *name, const char *text, const tn_inputs *in,
                    tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, in, params, TN_OUT(out));
  tn_params_release(params);
  return code;
}

Test(sequences, a_length_out_of_range_is_an_error) {
  const double numbers[] = {1, 2, 3, 4, 5, 6};
  const double above[] = {1, 4}, below[] = {-1, 2}, none[] = {0, 3};
  const double nan[] = {1, NAN};
  const char *const uses = "use_sequence_length=true";
  const host_shape two = {1, {2}};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {3, 2}}, numbers);
  tn_array *high = host_array(rt, TN_F32, two, above);
  tn_array *low = host_array(rt, TN_F32, two, below), *y = NULL;
  tn_array *zero = host_array(rt, TN_F32, two, none);
  tn_array *bad = host_array(rt, TN_F32, two, nan);
  FAILS(call("nn.sequence_mask", uses, TN_IN(x, high), &y), TN_OUT_OF_RANGE,
        "element 1 of `sequence_length` is 4, but it must be from 0 to 3, the "
        "number of steps of `data`");
  FAILS(call("nn.sequence_reverse", uses, TN_IN(x, low), &y), TN_OUT_OF_RANGE,
        "element 0 of `sequence_length` is -1");
  FAILS(call("nn.sequence_last", uses, TN_IN(x, zero), &y), TN_OUT_OF_RANGE,
        "element 0 of `sequence_length` is 0, but it must be from 1 to 3");
  FAILS(call("nn.sequence_mask", uses, TN_IN(x, bad), &y), TN_OUT_OF_RANGE,
        "element 1 of `sequence_length` is");
  OK(call("nn.sequence_mask", "", TN_IN(x, high), &y)); /* not used */
  tn_array_release(x), tn_array_release(y), tn_array_release(high);
  tn_array_release(low), tn_array_release(zero), tn_array_release(bad);
}

Test(sequences, operands_that_do_not_fit_are_errors) {
  const double numbers[] = {1, 2, 3, 4, 5, 6};
  const host_shape three = {1, {3}};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {3, 2}}, numbers);
  tn_array *length = host_array(rt, TN_F32, three, numbers), *y = NULL;
  FAILS(call("nn.sequence_mask", "use_sequence_length=true", TN_IN(x), &y),
        TN_SHAPE, "give `sequence_length` or set use_sequence_length=false");
  FAILS(call("nn.sequence_mask", "use_sequence_length=true", TN_IN(x, length),
             &y),
        TN_SHAPE,
        "`sequence_length` (3) must have one number for each of the sequences "
        "of `data` (3,2), which are along dimension 1");
  FAILS(call("nn.sequence_last", "", TN_IN(length), &y), TN_SHAPE,
        "`data` (3) needs a dimension of steps and one of sequences");
  FAILS(call("nn.sequence_mask", "use_sequence_length=true axis=1",
             TN_IN(x, length), &y),
        TN_OUT_OF_RANGE, "element 2 of `sequence_length` is 3");
  tn_array_release(x), tn_array_release(y), tn_array_release(length);
}

Test(sequences, without_steps_none_is_the_last) {
  const int64_t none[3] = {0, 2, 3};
  tn_array *x = cases_array(rt, TN_F32, 3, none, head), *y = NULL, *z = NULL;
  FAILS(call("nn.sequence_last", "", TN_IN(x), &y), TN_SHAPE,
        "`data` (0,2,3) has no step, so none is the last");
  OK(call("nn.sequence_reverse", "", TN_IN(x), &z));
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}
