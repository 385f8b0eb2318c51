/* SPDX-License-Identifier: Apache-2.0
 * nn.deformable_convolution: values and gradients of torchvision
 * (tests/reference/deformable.py), shapes of many panels beside nn.convolution
 * and difference quotients, positions that are no numbers, and messages about
 * mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case deformable_cases[] = {
#include "deformable_cases.inc"
};
enum { N_CASES = sizeof deformable_cases / sizeof *deformable_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(deformable, .init = open_all, .fini = close_all);

Test(deformable, values_and_gradients_are_those_of_torchvision) {
  for (size_t i = 0; i < N_CASES; ++i) {
    windows_check(rt, &deformable_cases[i], TN_F64, 1e-13);
    windows_check(rt, &deformable_cases[i], TN_F32, 1e-5);
    windows_check(rt, &deformable_cases[i], TN_F16, 0x1p-9);
    windows_check(rt, &deformable_cases[i], TN_BF16, 0x1p-6);
  }
}

/* ------------------------------------------------------------- many panels */

enum { DATA, WEIGHT, OFFSET, BIAS, MASK, N_IN };

/* A call: shapes of all inputs and of out. */
typedef struct call {
  const char *params; /* of both convolutions */
  const char *more;   /* of this one */
  host_shape in[N_IN];
  host_shape out;
} call;

/* Windows, channels and images need one panel, or several, of groups or of
 * parts of them. */
static const call calls[] = {
    {"kernel=[3,3] pad=[1,1] num_filter=3",
     "num_deformable_group=2",
     {{4, {1, 90, 30, 30}},
      {4, {3, 90, 3, 3}},
      {4, {1, 36, 30, 30}},
      {1, {3}},
      {4, {1, 18, 30, 30}}},
     {4, {1, 3, 30, 30}}},
    {"kernel=[3,2] stride=[2,1] dilate=[1,2] pad=[1,1] num_filter=12 "
     "num_group=6",
     "num_deformable_group=3",
     {{4, {9, 54, 11, 31}},
      {4, {12, 9, 3, 2}},
      {4, {9, 36, 6, 31}},
      {1, {12}},
      {4, {9, 18, 6, 31}}},
     {4, {9, 12, 6, 31}}},
    {"kernel=[5,5] pad=[2,2] num_filter=4 num_group=2",
     "num_deformable_group=1",
     {{4, {2, 100, 12, 24}},
      {4, {4, 50, 5, 5}},
      {4, {2, 50, 12, 24}},
      {1, {4}},
      {4, {2, 25, 12, 24}}},
     {4, {2, 4, 12, 24}}},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

/* Numbers of a shape: drawn ones; with seed 0 each is `constant`. */
static double *fill(const host_shape *shape, uint64_t seed, double constant) {
  const int64_t n = host_count(shape);
  double *v = host_draw(n, seed);
  for (int64_t i = 0; seed == 0 && i < n; ++i) v[i] = constant;
  return v;
}

static tn_array *array_of(tn_dtype dtype, const host_shape *shape,
                          const double *v) {
  return host_many(rt, dtype, shape->ndim, shape->dims, v);
}

/* Runs an operator with the first n inputs of `in`, and perhaps backward. */
static tn_array *run(const char *name, const char *text, size_t n,
                     tn_array **in, tn_array *head, tn_array **grads) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const tn_req req[N_IN] = {TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_WRITE,
                            TN_REQ_WRITE, TN_REQ_WRITE};
  tn_array *out = NULL;
  OK(tn_call(rt, op, &(tn_inputs){n, in}, params, TN_OUT(&out)));
  if (head)
    OK(tn_call_backward(rt, op,
                        &(tn_backward){.struct_size = sizeof(tn_backward),
                                       .params = params,
                                       .inputs = {n, in},
                                       .outputs = {1, &out},
                                       .out_grads = {1, &head},
                                       .in_grads = {n, grads, req}}));
  tn_params_release(params);
  return out;
}

/* Fails unless two arrays have the same elements, those of `want` multiplied by
 * `factor`. */
static void expect_multiple(tn_array *got, tn_array *want, double factor,
                            double tolerance) {
  const int64_t n = tn_array_size(got);
  double *x = host_many_values(got), *y = host_many_values(want);
  cr_assert_eq(n, tn_array_size(want));
  for (int64_t i = 0; i < n; ++i)
    cr_assert_float_eq(x[i], factor * y[i], tolerance, "%lld: %g, not %g",
                       (long long)i, x[i], factor * y[i]);
  free(x), free(y);
}

/* Compares a call without offsets, and with a mask of halves, with
 * nn.convolution of half the weights. */
static void check_convolution(const call *c, tn_dtype dtype, double tolerance) {
  char text[256];
  tn_array *in[N_IN], *grads[N_IN] = {NULL}, *plain[N_IN] = {NULL};
  for (size_t i = 0; i < N_IN; ++i) {
    const int is_constant = i == OFFSET || i == MASK;
    double *v = fill(&c->in[i], is_constant ? 0 : i + 1, i == MASK ? 0.5 : 0);
    in[i] = array_of(dtype, &c->in[i], v);
    free(v);
  }
  double *v = fill(&c->out, 9, 0), *half = host_many_values(in[WEIGHT]);
  for (int64_t i = 0; i < tn_array_size(in[WEIGHT]); ++i) half[i] /= 2;
  tn_array *head = array_of(dtype, &c->out, v);
  tn_array *weight = array_of(dtype, &c->in[WEIGHT], half);
  (void)snprintf(text, sizeof text, "%s %s", c->params, c->more);
  tn_array *out = run("nn.deformable_convolution", text, N_IN, in, head, grads);
  tn_array *same[] = {in[DATA], weight, in[BIAS]};
  tn_array *want = run("nn.convolution", c->params, 3, same, head, plain);
  expect_multiple(out, want, 1, tolerance);
  expect_multiple(grads[DATA], plain[0], 1, tolerance);
  expect_multiple(grads[WEIGHT], plain[1], 0.5, 100 * tolerance);
  expect_multiple(grads[BIAS], plain[2], 1, 100 * tolerance);
  for (size_t i = 0; i < N_IN; ++i)
    tn_array_release(in[i]), tn_array_release(grads[i]),
        tn_array_release(plain[i]);
  tn_array_release(out), tn_array_release(want), tn_array_release(head);
  tn_array_release(weight);
  free(v), free(half);
}

Test(deformable, it_is_a_convolution_without_offsets) {
  for (size_t i = 0; i < N_CALLS; ++i) {
    check_convolution(&calls[i], TN_F64, 1e-11);
    check_convolution(&calls[i], TN_F32, 1e-3);
  }
}

/* The sum of products of n elements. */
static double multiply(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/* The sum of products of out and head, with all inputs moved by `step` times
 * their directions. */
static double find_loss(const call *c, double *const *v, double *const *to,
                        const double *head, double step) {
  char text[256];
  tn_array *in[N_IN];
  for (size_t i = 0; i < N_IN; ++i) {
    const int64_t n = host_count(&c->in[i]);
    double *moved = malloc((size_t)n * sizeof *moved);
    cr_assert_not_null(moved);
    for (int64_t k = 0; k < n; ++k) moved[k] = v[i][k] + step * to[i][k];
    in[i] = array_of(TN_F64, &c->in[i], moved);
    free(moved);
  }
  (void)snprintf(text, sizeof text, "%s %s", c->params, c->more);
  tn_array *out = run("nn.deformable_convolution", text, N_IN, in, NULL, NULL);
  double *got = host_many_values(out);
  const double loss = multiply(got, head, host_count(&c->out));
  for (size_t i = 0; i < N_IN; ++i) tn_array_release(in[i]);
  tn_array_release(out);
  free(got);
  return loss;
}

/* Compares gradients with the difference quotient in a drawn direction. No
 * position passes an element. */
static void check_gradient(const call *c) {
  const double step = 1e-5;
  char text[256];
  double *v[N_IN], *to[N_IN], *head = fill(&c->out, 9, 0), sum = 0;
  tn_array *in[N_IN], *grads[N_IN] = {NULL};
  for (size_t i = 0; i < N_IN; ++i) {
    v[i] = fill(&c->in[i], i + 1, 0);
    to[i] = fill(&c->in[i], i + 11, 0);
    for (int64_t k = 0; i == OFFSET && k < host_count(&c->in[i]); ++k)
      v[i][k] = 3 * v[i][k] + 0.125;
    in[i] = array_of(TN_F64, &c->in[i], v[i]);
  }
  (void)snprintf(text, sizeof text, "%s %s", c->params, c->more);
  tn_array *h = array_of(TN_F64, &c->out, head);
  tn_array *out = run("nn.deformable_convolution", text, N_IN, in, h, grads);
  for (size_t i = 0; i < N_IN; ++i) {
    double *g = host_many_values(grads[i]);
    sum += multiply(g, to[i], host_count(&c->in[i]));
    free(g);
  }
  const double quotient =
      (find_loss(c, v, to, head, step) - find_loss(c, v, to, head, -step)) /
      (2 * step);
  cr_assert_float_eq(sum, quotient, 1e-5 * fmax(1, fabs(quotient)),
                     "%s: %.12g, not %.12g", c->params, sum, quotient);
  for (size_t i = 0; i < N_IN; ++i) {
    tn_array_release(in[i]), tn_array_release(grads[i]);
    free(v[i]), free(to[i]);
  }
  tn_array_release(h), tn_array_release(out);
  free(head);
}

Test(deformable, gradients_are_difference_quotients) {
  for (size_t i = 0; i < N_CALLS; ++i) check_gradient(&calls[i]);
}

/* --------------------------------------------------------------- positions */

/* One row of three elements, read at one position by a weight of 1. */
static double read_row(const double *row, double down, double across) {
  const double offset[] = {down, across}, one[] = {1};
  double v[HOST_MAX];
  tn_operator *op = host_operator(rt, "nn.deformable_convolution");
  tn_params *params =
      host_params(op, "kernel=[1,1] stride=[1,3] num_filter=1 no_bias=true");
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 1, 3}}, row);
  tn_array *w = host_array(rt, TN_F32, (host_shape){4, {1, 1, 1, 1}}, one);
  tn_array *at = host_array(rt, TN_F32, (host_shape){4, {1, 2, 1, 1}}, offset);
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(x, w, at), params, TN_OUT(&y)));
  cr_assert_eq(host_values(y, v), 1);
  tn_params_release(params);
  tn_array_release(x), tn_array_release(w);
  tn_array_release(at), tn_array_release(y);
  return v[0];
}

Test(deformable, positions_without_a_number_are_outside) {
  static const double row[] = {10, 20, 30};
  static const double far[] = {NAN, INFINITY, -INFINITY, 1e30, -1, 3};
  cr_assert_eq(read_row(row, 0, 1.5), 25);
  cr_assert_eq(read_row(row, 0.5, 2), 15);
  cr_assert_eq(read_row(row, 0, -0.5), 5);
  for (size_t i = 0; i < sizeof far / sizeof *far; ++i) {
    cr_assert_eq(read_row(row, 0, far[i]), 0);
    cr_assert_eq(read_row(row, far[i] < 0 ? -1 : far[i], 0), 0);
  }
}

Test(deformable, elements_without_weight_are_not_read) {
  static const double row[] = {10, NAN, 30};
  cr_assert_eq(read_row(row, 0, 0), 10);
  cr_assert_eq(read_row(row, 0, 2), 30);
  cr_assert(isnan(read_row(row, 0, 0.5)));
}

/* ---------------------------------------------------------------- mistakes */

/* The code of a call with these shapes; rank 0: no such input. */
static tn_code call_with(const char *text, const host_shape *shapes,
                         tn_array **out) {
  static const double numbers[HOST_MAX];
  tn_operator *op = host_operator(rt, "nn.deformable_convolution");
  tn_params *params = host_params(op, text);
  tn_array *in[N_IN] = {NULL};
  size_t n = 0;
  for (size_t i = 0; i < N_IN; ++i) {
    if (shapes[i].ndim == 0) continue;
    in[i] = host_array(rt, TN_F64, shapes[i], numbers);
    n = i + 1;
  }
  const tn_code code =
      tn_call(rt, op, &(tn_inputs){n, in}, params, TN_OUT(out));
  for (size_t i = 0; i < n; ++i) tn_array_release(in[i]);
  tn_params_release(params);
  return code;
}

Test(deformable, mistakes_have_messages) {
  const host_shape x = {4, {1, 2, 3, 3}}, w = {4, {1, 2, 2, 2}};
  const host_shape at = {4, {1, 8, 2, 2}}, mask = {4, {1, 4, 2, 2}};
  const host_shape good[N_IN] = {x, w, at, {0}, mask};
  const host_shape few[N_IN] = {x, w, mask};
  const host_shape plane[N_IN] = {x, w, at, {0}, at};
  const char *text = "kernel=[2,2] num_filter=1 no_bias=true";
  tn_array *y = NULL;
  OK(call_with(text, good, &y));
  FAILS(call_with(text, few, &y), TN_SHAPE, "`offset`");
  FAILS(call_with(text, plane, &y), TN_SHAPE, "`mask`");
  FAILS(call_with("kernel=[2,2] num_filter=1", good, &y), TN_SHAPE,
        "give `bias` or set no_bias=true");
  FAILS(call_with("kernel=[2,2] num_filter=1 no_bias=true "
                  "num_deformable_group=3",
                  good, &y),
        TN_SHAPE, "channels of `data` must divide into `num_deformable_group`");
  FAILS(call_with("kernel=[4,4] num_filter=1 no_bias=true", good, &y), TN_SHAPE,
        "the window is larger than the padded image");
  tn_array_release(y);
}

/* Images without elements have windows in their padding. */
Test(deformable, no_image_no_channel_and_no_element_are_allowed) {
  const char *text = "kernel=[2,2] pad=[1,1] num_filter=1";
  static const double zeros[HOST_MAX];
  const host_shape none[N_IN] = {
      {4, {0, 2, 1, 1}}, {4, {1, 2, 2, 2}}, {4, {0, 8, 2, 2}}, {1, {1}}};
  const host_shape flat[N_IN] = {
      {4, {1, 0, 1, 1}}, {4, {1, 0, 2, 2}}, {4, {1, 8, 2, 2}}, {1, {1}}};
  const host_shape empty[N_IN] = {
      {4, {1, 2, 0, 1}}, {4, {1, 2, 2, 2}}, {4, {1, 8, 1, 2}}, {1, {1}}};
  tn_array *y[3] = {NULL};
  OK(call_with(text, none, &y[0]));
  OK(call_with(text, flat, &y[1]));
  OK(call_with(text, empty, &y[2]));
  host_expect(y[1], zeros, 4, 0);
  host_expect(y[2], zeros, 2, 0);
  for (size_t i = 0; i < 3; ++i) tn_array_release(y[i]);
}
