/* SPDX-License-Identifier: Apache-2.0
 * nn.resize and nn.upsampling: values and gradients by the specification of
 * ONNX, which torch confirms (tests/reference/resize.py), integers, NaN, many
 * rows, and messages about mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case resize_cases[] = {
#include "resize_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(resize, .init = open_all, .fini = close_all);

Test(resize, values_and_gradients_are_those_of_the_specification) {
  for (size_t i = 0; i < sizeof resize_cases / sizeof *resize_cases; ++i) {
    windows_check(rt, &resize_cases[i], TN_F64, 1e-12);
    windows_check(rt, &resize_cases[i], TN_F32, 1e-5);
    windows_check(rt, &resize_cases[i], TN_F16, 0x1p-9);
    windows_check(rt, &resize_cases[i], TN_BF16, 0x1p-6);
  }
}

/* A call with one input, and its code. */
static tn_code call_op(const char *text, tn_array *x, tn_array **y) {
  tn_operator *op = host_operator(rt, "nn.resize");
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, TN_IN(x), params, TN_OUT(y));
  tn_params_release(params);
  return code;
}

/* Fails unless a vector in a type becomes `want`. */
static void expect_vector(const char *text, tn_dtype dtype, int64_t n,
                          const double *v, int64_t n_want, const double *want) {
  tn_array *x = host_many(rt, dtype, 1, &n, v), *y = NULL;
  OK(call_op(text, x, &y));
  cr_assert_eq(tn_array_size(y), n_want);
  double *got = host_many_values(y);
  for (int64_t i = 0; i < n_want; ++i)
    cr_assert(got[i] >= want[i] && got[i] <= want[i], "%s: %lld: %g, not %g",
              text, (long long)i, got[i], want[i]);
  free(got);
  tn_array_release(x), tn_array_release(y);
}

/* Halves go to the even number; cubic weights lead out of the range. */
Test(resize, integers_are_rounded_and_limited) {
  const double u8[] = {0, 1, 2, 5}, edge[] = {255, 255, 0, 0};
  const double low[] = {-128, -128, 127, 127};
  expect_vector("sizes=[2] mode=linear", TN_U8, 4, u8, 2, (double[]){0, 4});
  expect_vector("sizes=[8] mode=cubic", TN_U8, 4, edge, 8,
                (double[]){255, 255, 255, 197, 58, 0, 0, 0});
  expect_vector("sizes=[8] mode=cubic", TN_I8, 4, low, 8,
                (double[]){-128, -128, -128, -70, 69, 127, 127, 127});
}

/* Position 1 of three elements is the second alone. */
Test(resize, elements_without_weight_are_not_read) {
  const double v[] = {NAN, 2, INFINITY};
  const char *const modes[] = {
      "axes=[0] sizes=[1] mode=linear",
      "axes=[0] sizes=[1] mode=cubic coordinates=half_pixel",
      "axes=[0] sizes=[1] mode=nearest"};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i)
    expect_vector(modes[i], TN_F64, 3, v, 1, (double[]){2});
}

/* 16 rows are transposed together, a single one is not. */
Test(resize, rows_do_not_depend_on_their_neighbours) {
  enum { ROWS = 37, IN = 9, OUT = 14 };
  static const char *const texts[] = {"axes=[1] sizes=[14] mode=linear",
                                      "axes=[1] sizes=[14] mode=cubic",
                                      "axes=[1] sizes=[14] mode=nearest"};
  double *v = host_draw(ROWS * IN, 4);
  for (size_t k = 0; k < sizeof texts / sizeof *texts; ++k) {
    tn_array *x = host_many(rt, TN_F32, 2, (const int64_t[]){ROWS, IN}, v);
    tn_array *all = NULL;
    OK(call_op(texts[k], x, &all));
    double *got = host_many_values(all);
    for (int64_t r = 0; r < ROWS; ++r) {
      tn_array *row =
          host_many(rt, TN_F32, 2, (const int64_t[]){1, IN}, v + r * IN);
      tn_array *alone = NULL;
      OK(call_op(texts[k], row, &alone));
      double *want = host_many_values(alone);
      for (int64_t i = 0; i < OUT; ++i)
        cr_assert_float_eq(got[r * OUT + i], want[i], 1e-6);
      free(want);
      tn_array_release(row), tn_array_release(alone);
    }
    free(got);
    tn_array_release(x), tn_array_release(all);
  }
  free(v);
}

/* 25 * 1.16 is 29 in f32, and a little less in f64; 25 * 2.12 is less than 53
 * in f32 alone. */
Test(resize, lengths_are_products_in_f32) {
  const double v[25] = {0};
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {25}}, v), *y = NULL;
  OK(call_op("scales=[1.16]", x, &y));
  cr_assert_eq(tn_array_size(y), 29);
  tn_array_release(y), y = NULL;
  OK(call_op("scales=[2.12]", x, &y));
  cr_assert_eq(tn_array_size(y), 52);
  tn_array_release(x), tn_array_release(y);
}

Test(resize, empty_results_are_allowed) {
  const double v[4] = {1, 2, 3, 4};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {4, 1}}, v), *y = NULL;
  OK(call_op("axes=[0] scales=[0.2] mode=linear", x, &y));
  cr_assert_eq(tn_array_size(y), 0);
  tn_array_release(x), tn_array_release(y);
  x = host_array(rt, TN_F32, (host_shape){2, {2, 2}}, v), y = NULL;
  OK(call_op("sizes=[0,4] keep_aspect=not_larger", x, &y));
  cr_assert_eq(tn_array_tensor(y)->shape[1], 0);
  tn_array_release(x), tn_array_release(y);
  x = host_array(rt, TN_F32, (host_shape){2, {0, 3}}, v), y = NULL;
  OK(call_op("axes=[1] sizes=[7] mode=linear", x, &y));
  cr_assert_eq(tn_array_size(y), 0);
  tn_array_release(x), tn_array_release(y);
}

Test(resize, mistakes_have_messages) {
  const double v[6] = {0};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, v), *y = NULL;
  tn_array *none = host_array(rt, TN_F32, (host_shape){2, {0, 3}}, v);
  FAILS(call_op("", x, &y), TN_INVALID, "give `scales` or `sizes`");
  FAILS(call_op("sizes=[3]", x, &y), TN_SHAPE,
        "`sizes` has 1 numbers, but `data` has 2 dimensions");
  FAILS(call_op("sizes=[3] axes=[0,1]", x, &y), TN_INVALID,
        "`axes` has 2 numbers, but `sizes` has 1");
  FAILS(call_op("sizes=[3] axes=[2]", x, &y), TN_OUT_OF_RANGE,
        "number 0 of `axes` is 2, but `data` has 2 dimensions");
  FAILS(call_op("sizes=[3,3] axes=[1,-1]", x, &y), TN_INVALID,
        "`axes` names dimension 1 twice");
  FAILS(call_op("scales=[1,0]", x, &y), TN_OUT_OF_RANGE,
        "number 1 of `scales` is 0");
  FAILS(call_op("sizes=[3,3] roi=[0,1]", x, &y), TN_INVALID,
        "`roi` has 2 numbers, but must have 4");
  FAILS(call_op("sizes=[3,3]", none, &y), TN_SHAPE,
        "dimension 0 of `data` is empty");
  FAILS(call_op("axes=[0] scales=[9e17]", x, &y), TN_OUT_OF_RANGE, "");
  tn_array_release(x), tn_array_release(none);
}

static tn_code upsample(const char *text, const tn_inputs *in, tn_array **y) {
  tn_operator *op = host_operator(rt, "nn.upsampling");
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, in, params, TN_OUT(y));
  tn_params_release(params);
  return code;
}

Test(resize, inputs_of_upsampling_that_do_not_fit_are_errors) {
  const double v[HOST_MAX] = {0};
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 2, 2, 2}}, v);
  tn_array *w = host_array(rt, TN_F32, (host_shape){4, {1, 2, 3, 3}}, v);
  tn_array *flat = host_array(rt, TN_F32, (host_shape){3, {1, 2, 2}}, v);
  tn_array *y = NULL;
  FAILS(upsample("scale=2", TN_IN(x, w), &y), TN_SHAPE,
        "images of input 1, (1,2,3,3), must have a size that divides 4");
  FAILS(upsample("scale=2", TN_IN(flat), &y), TN_SHAPE,
        "images have 4 dimensions");
  FAILS(upsample("scale=2 sample_type=bilinear num_filter=2", TN_IN(x), &y),
        TN_INVALID, "two inputs");
  FAILS(upsample("scale=2 sample_type=bilinear num_filter=3", TN_IN(x, w), &y),
        TN_SHAPE, "must have num_filter=3 channels");
  FAILS(upsample("scale=2 sample_type=bilinear num_filter=2", TN_IN(x, w), &y),
        TN_SHAPE, "");
  tn_array_release(x), tn_array_release(w), tn_array_release(flat);
}
