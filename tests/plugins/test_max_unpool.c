/* SPDX-License-Identifier: Apache-2.0
 * nn.max_pool_indices and nn.max_unpool: values and gradients of torch
 * (tests/reference/pooling.py), windows with dilation and lp_pooling, repeated
 * indices, NaN, and messages about mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

/* A case of either operator. */
typedef struct unpool_case {
  const char *op;
  const char *params;
  windows_operand data, out, indices, head, gradient;
} unpool_case;

static const unpool_case unpool_cases[] = {
#include "unpool_cases.inc"
};

static const windows_case dilated_cases[] = {
#include "dilated_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(unpool, .init = open_all, .fini = close_all);

Test(unpool, windows_with_dilation_and_powers_are_those_of_torch) {
  for (size_t i = 0; i < sizeof dilated_cases / sizeof *dilated_cases; ++i) {
    windows_check(rt, &dilated_cases[i], TN_F64, 1e-12);
    windows_check(rt, &dilated_cases[i], TN_F32, 1e-5);
    windows_check(rt, &dilated_cases[i], TN_F16, 0x1p-8);
    windows_check(rt, &dilated_cases[i], TN_BF16, 0x1p-5);
  }
}

static void expect_all(tn_array *array, const windows_operand *want) {
  double *v = host_many_values(array);
  const int64_t n = windows_size(want);
  cr_assert_eq(tn_array_size(array), n);
  for (int64_t i = 0; i < n; ++i)
    cr_assert(v[i] >= want->v[i] && v[i] <= want->v[i], "%lld: %g, not %g",
              (long long)i, v[i], want->v[i]);
  free(v);
}

static void check_case(const unpool_case *c, tn_dtype dtype) {
  const bool pools = strcmp(c->op, "nn.max_pool_indices") == 0;
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[2], *out[2] = {NULL, NULL}, *heads[2] = {NULL, NULL};
  tn_array *grads[2] = {NULL, NULL};
  const tn_req req[2] = {TN_REQ_WRITE, TN_REQ_NULL};
  in[0] = host_many(rt, dtype, c->data.ndim, c->data.dims, c->data.v);
  in[1] = host_many(rt, TN_I64, c->indices.ndim, c->indices.dims, c->indices.v);
  heads[0] = host_many(rt, dtype, c->head.ndim, c->head.dims, c->head.v);
  const tn_inputs inputs = {pools ? 1 : 2, in};
  const tn_outputs outputs = {pools ? 2 : 1, out, NULL};
  OK(tn_call(rt, op, &inputs, params, &outputs));
  expect_all(out[0], &c->out);
  if (pools) expect_all(out[1], &c->indices);
  OK(tn_call_backward(rt, op,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = inputs,
                                     .outputs = {outputs.n, out},
                                     .out_grads = {outputs.n, heads},
                                     .in_grads = {inputs.n, grads, req}}));
  expect_all(grads[0], &c->gradient);
  for (int i = 0; i < 2; ++i) {
    tn_array_release(in[i]), tn_array_release(out[i]);
    tn_array_release(heads[i]), tn_array_release(grads[i]);
  }
  tn_params_release(params);
}

Test(unpool, values_and_gradients_are_those_of_torch) {
  for (size_t i = 0; i < sizeof unpool_cases / sizeof *unpool_cases; ++i) {
    check_case(&unpool_cases[i], TN_F64);
    check_case(&unpool_cases[i], TN_F32);
    check_case(&unpool_cases[i], TN_F16);
  }
}

static tn_code unpool(const char *text, const double *indices, tn_array **out) {
  static const double numbers[3] = {1, 2, 3};
  const int64_t dims[3] = {1, 1, 3};
  tn_operator *op = host_operator(rt, "nn.max_unpool");
  tn_params *params = host_params(op, text);
  tn_array *x = host_many(rt, TN_F32, 3, dims, numbers);
  tn_array *at = host_many(rt, TN_I32, 3, dims, indices);
  const tn_code code = tn_call(rt, op, TN_IN(x, at), params, TN_OUT(out));
  tn_array_release(x), tn_array_release(at);
  tn_params_release(params);
  return code;
}

Test(unpool, an_index_out_of_range_is_an_error) {
  tn_array *y = NULL;
  FAILS(unpool("output_size=[4]", (double[]){0, 4, 1}, &y), TN_OUT_OF_RANGE,
        "index 4 (number 1 of `indices`) is out of range: an image of `out` "
        "has 4 elements");
  FAILS(unpool("output_size=[4]", (double[]){0, 1, -2}, &y), TN_OUT_OF_RANGE,
        "index -2 (number 2 of `indices`)");
  FAILS(unpool("output_size=[2,2]", (double[]){0, 1, 2}, &y), TN_SHAPE,
        "output_size has 2 numbers, so `data` must have 4 dimensions");
  OK(unpool("output_size=[4]", (double[]){3, -1, 3}, &y));
  host_expect(y, (double[]){0, 0, 0, 3}, 4, 0);
  tn_array_release(y);
}

Test(unpool, nan_is_the_largest_and_an_empty_window_has_no_index) {
  const double v[] = {1, NAN, 5, NAN};
  tn_operator *op = host_operator(rt, "nn.max_pool_indices");
  tn_params *params = host_params(
      op, "kernel=[1] stride=[3] pooling_convention=full dilate=[7]");
  tn_params *pairs = host_params(op, "kernel=[2] dilate=[2]");
  tn_array *x = host_array(rt, TN_F32, (host_shape){3, {1, 1, 4}}, v);
  tn_array *out[2] = {NULL, NULL};
  OK(tn_call(rt, op, TN_IN(x), pairs, &(tn_outputs){2, out, NULL}));
  double *at = host_many_values(out[1]);
  cr_assert_eq((int)at[0], 2);
  cr_assert_eq((int)at[1], 1);
  free(at);
  tn_array_release(out[0]), tn_array_release(out[1]);
  out[0] = out[1] = NULL;
  tn_array_release(x);
  x = host_array(rt, TN_F32, (host_shape){3, {1, 1, 3}}, v);
  OK(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){2, out, NULL}));
  at = host_many_values(out[1]);
  cr_assert_eq((int)at[0], 0);
  cr_assert_eq((int)at[1], -1);
  free(at);
  tn_array_release(x), tn_array_release(out[0]), tn_array_release(out[1]);
  tn_params_release(params), tn_params_release(pairs);
}

/* Lines of more than 256 windows, with steps of 1 to 3 elements. */
Test(unpool, long_lines_have_the_elements_of_pooling) {
  enum { H = 5, W = 700 };
  static const char *const texts[] = {"kernel=[2,3] pad=[1,1]",
                                      "kernel=[3,3] stride=[2,2] pad=[1,1]",
                                      "kernel=[1,5] stride=[1,3] dilate=[1,2]"};
  double *v = host_draw(2 * H * W, 9);
  for (size_t k = 0; k < sizeof texts / sizeof *texts; ++k)
    for (int wide = 0; wide < 2; ++wide) {
      tn_operator *op = host_operator(rt, "nn.max_pool_indices");
      tn_operator *plain = host_operator(rt, "nn.pooling");
      tn_params *params = host_params(op, texts[k]);
      tn_params *same = host_params(plain, texts[k]);
      tn_array *x = host_many(rt, wide ? TN_F64 : TN_F32, 4,
                              (const int64_t[]){1, 2, H, W}, v);
      tn_array *out[2] = {NULL, NULL}, *y = NULL;
      OK(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){2, out, NULL}));
      OK(tn_call(rt, plain, TN_IN(x), same, TN_OUT(&y)));
      const int64_t n = tn_array_size(y);
      double *got = host_many_values(out[0]), *at = host_many_values(out[1]);
      double *want = host_many_values(y);
      for (int64_t i = 0; i < n; ++i) {
        const double e = v[i / (n / 2) * H * W + (int64_t)at[i]];
        cr_assert(got[i] >= want[i] && got[i] <= want[i], "%s: %lld", texts[k],
                  (long long)i);
        cr_assert(e >= want[i] && e <= want[i], "%s: %lld", texts[k],
                  (long long)i);
      }
      free(got), free(at), free(want);
      tn_array_release(x), tn_array_release(y);
      tn_array_release(out[0]), tn_array_release(out[1]);
      tn_params_release(params), tn_params_release(same);
    }
  free(v);
}

/* A pooling of one line. */
typedef struct line_case {
  int n, kernel, stride, pad, dilate;
} line_case;

/* Compares a line of small numbers, among them NaN and infinities, with a
 * search element by element. */
static void check_line(const line_case *c, tn_dtype dtype) {
  static const double kinds[] = {-INFINITY, -INFINITY, 1, 2, 2, INFINITY, NAN};
  double *v = host_draw(c->n, (uint64_t)(c->n * 97 + c->kernel));
  const int reach = (c->kernel - 1) * c->dilate;
  const int windows = (c->n + 2 * c->pad - reach - 1) / c->stride + 1;
  char text[128];
  tn_array *out[2] = {NULL, NULL};
  for (int i = 0; i < c->n; ++i) v[i] = kinds[(int)(fabs(v[i]) * 1000) % 7];
  snprintf(text, sizeof text, "kernel=[%d] stride=[%d] pad=[%d] dilate=[%d]",
           c->kernel, c->stride, c->pad, c->dilate);
  tn_params *params =
      host_params(host_operator(rt, "nn.max_pool_indices"), text);
  tn_array *x = host_many(rt, dtype, 3, (const int64_t[]){1, 1, c->n}, v);
  OK(tn_call(rt, host_operator(rt, "nn.max_pool_indices"), TN_IN(x), params,
             &(tn_outputs){2, out, NULL}));
  double *at = host_many_values(out[1]), *y = host_many_values(out[0]);
  cr_assert_eq(tn_array_size(out[0]), windows, "%s of %d", text, c->n);
  for (int o = 0; o < windows; ++o) {
    int best = -1;
    for (int t = 0; t < c->kernel; ++t) {
      const int i = o * c->stride - c->pad + t * c->dilate;
      if (i < 0 || i >= c->n) continue;
      if (best < 0 || v[i] > v[best] || (isnan(v[i]) && !isnan(v[best])))
        best = i;
      if (isnan(v[best])) break;
    }
    cr_assert_eq((int)at[o], best, "%s of %d, window %d: %g, not %d", text,
                 c->n, o, at[o], best);
    if (best >= 0) cr_assert(y[o] == v[best] || isnan(v[best]));
  }
  free(at), free(y), free(v);
  tn_array_release(out[0]), tn_array_release(out[1]), tn_array_release(x);
  tn_params_release(params);
}

Test(unpool, each_window_has_the_first_of_its_largest_elements) {
  for (int n = 1; n < 80; n += 6)
    for (int kernel = 1; kernel < 6; ++kernel)
      for (int stride = 1; stride < 5; ++stride)
        for (int dilate = 1; dilate < 4; ++dilate) {
          const line_case c = {n, kernel, stride, kernel / 2, dilate};
          if (n + 2 * c.pad <= (kernel - 1) * dilate) continue;
          check_line(&c, TN_F32);
          check_line(&c, TN_F64);
        }
  check_line(&(line_case){700, 90, 2, 45, 1}, TN_F32);
  check_line(&(line_case){700, 50, 1, 20, 3}, TN_F32);
}
