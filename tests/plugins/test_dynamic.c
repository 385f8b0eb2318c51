/* SPDX-License-Identifier: Apache-2.0
 * nonzero, unique, compress and masked_select of plugins/tensor: values and
 * gradients of NumPy (tests/reference/dynamic.py), many elements, requests, and
 * messages.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { MOST_OUT = 4 };

typedef struct dynamic_case {
  const char *op;
  const char *params;
  size_t n_in, n_out;
  host_operand data, truths;
  host_operand out[MOST_OUT];
  host_operand head, gradient;
} dynamic_case;

static const dynamic_case dynamic_cases[] = {
#include "dynamic_cases.inc"
};
enum { N_CASES = sizeof dynamic_cases / sizeof *dynamic_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(dynamic, .init = open_all, .fini = close_all);

static void expect_values(tn_array *array, const host_operand *want,
                          const dynamic_case *c) {
  host_expect_shape(array, &want->shape, c->op, c->params);
  double *v = host_many_values(array);
  for (int64_t i = 0; i < host_count(&want->shape); ++i)
    cr_assert(v[i] == want->v[i] || (isnan(v[i]) && isnan(want->v[i])),
              "%s %s, element %lld: %g, not %g", c->op, c->params, (long long)i,
              v[i], want->v[i]);
  free(v);
}

static void check_case(const dynamic_case *c, tn_dtype dtype) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  const host_shape *shape = &c->data.shape;
  tn_array *in[2] = {host_many(rt, dtype, shape->ndim, shape->dims, c->data.v),
                     NULL};
  tn_array *out[MOST_OUT] = {NULL}, *head = NULL, *grad = NULL;
  tn_tape *tape = NULL;
  if (c->n_in > 1) in[1] = host_operand_array(rt, TN_BOOL, &c->truths);
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, in[0]));
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params,
                  &(tn_outputs){c->n_out, out, NULL}));
  for (size_t i = 0; i < c->n_out; ++i) expect_values(out[i], &c->out[i], c);
  if (c->n_in > 1) {
    head = host_array(rt, dtype, c->head.shape, c->head.v);
    OK(tn_tape_gradient(tape,
                        &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                         .heads = {1, out},
                                         .head_gradients = *TN_IN(head),
                                         .of = {1, in},
                                         .gradients = *TN_OUT(&grad)}));
    expect_values(grad, &c->gradient, c);
  }
  for (size_t i = 0; i < c->n_out; ++i) tn_array_release(out[i]);
  tn_array_release(in[0]), tn_array_release(in[1]);
  tn_array_release(head), tn_array_release(grad);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(dynamic, values_and_gradients_are_those_of_numpy) {
  static const tn_dtype types[] = {TN_F64, TN_F32, TN_F16, TN_BF16};
  for (int i = 0; i < N_CASES; ++i)
    for (int k = 0; k < 4; ++k) check_case(&dynamic_cases[i], types[k]);
}

/* ------------------------------------------------------------------- larger */

/* Every third element of several parts. */
Test(dynamic, many_elements_keep_their_order) {
  enum { N = 40000 };
  const int64_t dims[] = {N / 100, 100};
  static double v[N];
  for (int i = 0; i < N; ++i) v[i] = i % 3 == 0 ? i + 1 : 0;
  tn_array *x = host_many(rt, TN_I32, 2, dims, v);
  tn_array *mask = host_many(rt, TN_BOOL, 2, dims, v);
  tn_array *places = NULL, *some = NULL;
  OK(tn_call(rt, host_operator(rt, "tensor.nonzero"), TN_IN(x), NULL,
             TN_OUT(&places)));
  OK(tn_call(rt, host_operator(rt, "tensor.masked_select"), TN_IN(x, mask),
             NULL, TN_OUT(&some)));
  const int64_t n = tn_array_size(some);
  cr_assert_eq(n, (N + 2) / 3);
  cr_assert_eq(tn_array_size(places), 2 * n);
  double *at = host_many_values(places), *chosen = host_many_values(some);
  for (int64_t i = 0; i < n; ++i) {
    cr_assert_eq((int64_t)chosen[i], 3 * i + 1);
    cr_assert_eq((int64_t)(at[i] * 100 + at[n + i]), 3 * i);
  }
  free(at), free(chosen);
  tn_array_release(x), tn_array_release(mask);
  tn_array_release(places), tn_array_release(some);
}

/* 70000 is longer than one thread sorts. */
Test(dynamic, distinct_elements_are_counted) {
  enum { N = 70000, DISTINCT = 1000 };
  const int64_t n = N;
  const tn_dtype types[] = {TN_F32, TN_I64};
  static double v[N];
  for (int i = 0; i < N; ++i) v[i] = i * 7919 % DISTINCT;
  for (int t = 0; t < 2; ++t) {
    tn_array *x = host_many(rt, types[t], 1, &n, v), *out[4] = {NULL};
    OK(tn_call(rt, host_operator(rt, "tensor.unique"), TN_IN(x), NULL,
               &(tn_outputs){4, out, NULL}));
    double *have[4];
    for (int i = 0; i < 4; ++i) have[i] = host_many_values(out[i]);
    cr_assert_eq(tn_array_size(out[0]), DISTINCT);
    for (int i = 0; i < DISTINCT; ++i) {
      cr_assert_eq(have[0][i], i);
      cr_assert_eq(v[(int)have[1][i]], i);
      cr_assert(have[1][i] < DISTINCT);
      cr_assert_eq(have[3][i], N / DISTINCT);
    }
    for (int i = 0; i < N; ++i) cr_assert_eq(have[2][i], v[i]);
    for (int i = 0; i < 4; ++i) free(have[i]), tn_array_release(out[i]);
    tn_array_release(x);
  }
}

/* ---------------------------------------------------------------- gradients */

/* Calls of the same input shapes and other output shapes share no plan. */
Test(dynamic, gradients_follow_the_shape_of_each_call) {
  enum { N = 6 };
  const double numbers[N] = {1, 2, 3, 4, 5, 6},
               heads[N] = {7, 8, 9, 10, 11, 12};
  const int64_t dims[] = {2, 3};
  tn_operator *op = host_operator(rt, "tensor.masked_select");
  tn_array *x = host_many(rt, TN_F32, 2, dims, numbers);
  for (int bits = 0; bits < 1 << N; ++bits) {
    double truths[N], want[N];
    int64_t n = 0;
    for (int i = 0; i < N; ++i) {
      truths[i] = bits >> i & 1;
      want[i] = truths[i] > 0 ? heads[n++] : 0;
    }
    tn_array *mask = host_many(rt, TN_BOOL, 2, dims, truths);
    tn_array *head = host_many(rt, TN_F32, 1, &n, heads);
    tn_array *y = NULL, *slope = NULL;
    OK(tn_call(rt, op, TN_IN(x, mask), NULL, TN_OUT(&y)));
    cr_assert_eq(tn_array_size(y), n);
    tn_array *in[] = {x, mask}, *slopes[] = {NULL, NULL};
    const tn_req req[] = {TN_REQ_WRITE, TN_REQ_NULL};
    OK(tn_call_backward(rt, op,
                        &(tn_backward){.struct_size = sizeof(tn_backward),
                                       .inputs = {2, in},
                                       .outputs = {1, &y},
                                       .out_grads = {1, &head},
                                       .in_grads = {2, slopes, req}}));
    slope = slopes[0];
    host_expect(slope, want, N, 0);
    tn_array_release(mask), tn_array_release(head);
    tn_array_release(y), tn_array_release(slope);
  }
  tn_array_release(x);
}

/* A gradient of another length than the selection. */
Test(dynamic, a_gradient_of_another_length_is_an_error) {
  const double numbers[] = {1, 2, 3}, truths[] = {1, 0, 1};
  const tn_req req[] = {TN_REQ_WRITE, TN_REQ_NULL};
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {3}}, numbers);
  tn_array *mask = host_many(rt, TN_BOOL, 1, (const int64_t[]){3}, truths);
  tn_array *in[] = {x, mask}, *slopes[] = {NULL, NULL};
  FAILS(tn_call_backward(rt, host_operator(rt, "tensor.masked_select"),
                         &(tn_backward){.struct_size = sizeof(tn_backward),
                                        .inputs = {2, in},
                                        .outputs = {1, &x},
                                        .out_grads = {1, &x},
                                        .in_grads = {2, slopes, req}}),
        TN_SHAPE, "has 3 elements, but 2 are selected");
  tn_array_release(x), tn_array_release(mask), tn_array_release(slopes[0]);
}

/* ----------------------------------------------------------------- requests */

Test(dynamic, an_output_without_request_is_left_out) {
  const double numbers[] = {2, 1, 2};
  const tn_req req[] = {TN_REQ_NULL, TN_REQ_NULL, TN_REQ_WRITE, TN_REQ_NULL};
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {3}}, numbers);
  tn_array *out[4] = {NULL};
  OK(tn_call(rt, host_operator(rt, "tensor.unique"), TN_IN(x), NULL,
             &(tn_outputs){4, out, req}));
  cr_assert(out[0] == NULL && out[1] == NULL && out[3] == NULL);
  host_expect(out[2], (double[]){1, 0, 1}, 3, 0);
  tn_array_release(x), tn_array_release(out[2]);
}

/* An array of the right shape is added to, another one is refused. */
Test(dynamic, an_output_of_the_caller_must_have_the_shape) {
  const double numbers[] = {5, 0, 7}, two[] = {10, 20}, truths[] = {1, 0, 1};
  const tn_req adds = TN_REQ_ADD;
  tn_operator *op = host_operator(rt, "tensor.masked_select");
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {3}}, numbers);
  tn_array *mask = host_many(rt, TN_BOOL, 1, (const int64_t[]){3}, truths);
  tn_array *y = host_array(rt, TN_F32, (host_shape){1, {2}}, two);
  OK(tn_call(rt, op, TN_IN(x, mask), NULL, &(tn_outputs){1, &y, &adds}));
  host_expect(y, (double[]){15, 27}, 2, 0);
  cr_assert_neq(tn_call(rt, op, TN_IN(x, mask), NULL, TN_OUT(&x)), TN_OK);
  tn_array_release(x), tn_array_release(mask), tn_array_release(y);
}

/* The scalar has no dimension, and one element. */
Test(dynamic, an_array_of_no_dimensions_has_one_element) {
  const double one = 3, truth = 1;
  tn_array *x = host_array(rt, TN_F64, (host_shape){0, {0}}, &one);
  tn_array *mask = host_many(rt, TN_BOOL, 0, NULL, &truth);
  tn_array *y = NULL, *z = NULL, *u[4] = {NULL};
  OK(tn_call(rt, host_operator(rt, "tensor.nonzero"), TN_IN(x), NULL,
             TN_OUT(&y)));
  cr_assert_eq(tn_array_tensor(y)->ndim, 2);
  cr_assert(tn_array_tensor(y)->shape[0] == 0 &&
            tn_array_tensor(y)->shape[1] == 1);
  OK(tn_call(rt, host_operator(rt, "tensor.masked_select"), TN_IN(x, mask),
             NULL, TN_OUT(&z)));
  host_expect(z, &one, 1, 0);
  OK(tn_call(rt, host_operator(rt, "tensor.unique"), TN_IN(x), NULL,
             &(tn_outputs){4, u, NULL}));
  host_expect(u[0], &one, 1, 0);
  tn_array_release(x), tn_array_release(mask);
  tn_array_release(y), tn_array_release(z);
  for (int i = 0; i < 4; ++i) tn_array_release(u[i]);
}

/* ----------------------------------------------------------------- messages */

Test(dynamic, a_condition_that_does_not_fit_is_an_error) {
  const double numbers[6] = {0}, truths[] = {1, 1, 1};
  tn_operator *op = host_operator(rt, "tensor.compress");
  tn_params *rows = host_params(op, "axis=0"), *no = host_params(op, "axis=2");
  tn_array *x = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, numbers);
  tn_array *mask = host_many(rt, TN_BOOL, 1, (const int64_t[]){3}, truths);
  tn_array *y = NULL;
  FAILS(tn_call(rt, op, TN_IN(x, mask), rows, TN_OUT(&y)), TN_SHAPE,
        "`condition` has 3 elements, more than the 2 slices of `data`");
  FAILS(tn_call(rt, op, TN_IN(x, mask), no, TN_OUT(&y)), TN_OUT_OF_RANGE,
        "axis=2");
  FAILS(tn_call(rt, host_operator(rt, "tensor.masked_select"), TN_IN(x, mask),
                NULL, TN_OUT(&y)),
        TN_SHAPE, "`mask` (3) does not fit `data` (2,3)");
  tn_array_release(x), tn_array_release(mask), tn_array_release(y);
  tn_params_release(rows), tn_params_release(no);
}
