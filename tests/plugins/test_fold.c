/* SPDX-License-Identifier: Apache-2.0
 * nn.unfold and nn.fold: values and gradients of loops in NumPy that torch
 * confirms (tests/reference/windows.py), sums in f16, and messages.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case fold_cases[] = {
#include "fold_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(fold, .init = open_all, .fini = close_all);

/* Sums of eighths are exact in every type but bf16. */
Test(fold, values_and_gradients_are_those_of_loops) {
  for (size_t i = 0; i < sizeof fold_cases / sizeof *fold_cases; ++i) {
    windows_check(rt, &fold_cases[i], TN_F64, 0);
    windows_check(rt, &fold_cases[i], TN_F32, 0);
    windows_check(rt, &fold_cases[i], TN_F16, 0);
    windows_check(rt, &fold_cases[i], TN_BF16, 0x1p-7);
  }
}

static tn_code call_op(const char *name, const char *text, host_shape shape,
                       const double *v, tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *x = host_array(rt, TN_F16, shape, v);
  const tn_code code = tn_call(rt, op, TN_IN(x), params, TN_OUT(out));
  tn_array_release(x);
  tn_params_release(params);
  return code;
}

/* 2048 is the first f16 with a distance of 2 to the next one: added one by one
 * in f16, ones would get lost. */
Test(fold, sums_of_halves_are_rounded_once) {
  const double columns[] = {2048, 1, 1, 1, 1};
  tn_array *out = NULL;
  OK(call_op("nn.fold", "output_size=[1] kernel=[5] pad=[2]",
             (host_shape){3, {1, 5, 1}}, columns, &out));
  host_expect(out, (double[]){1}, 1, 0);
  tn_array_release(out);
  out = NULL;
  OK(call_op("nn.fold", "output_size=[1] kernel=[1] stride=[1]",
             (host_shape){3, {1, 1, 1}}, columns, &out));
  host_expect(out, (double[]){2048}, 1, 0);
  tn_array_release(out);
  out = NULL;
  OK(call_op("nn.fold", "output_size=[5] kernel=[5] pad=[4]",
             (host_shape){3, {1, 5, 9}},
             (double[]){0, 0, 0, 0, 0, 0, 0, 0, 2048, 0, 0, 0, 0, 0, 0,
                        0, 1, 0, 0, 0, 0, 0, 0, 0,    1, 0, 0, 0, 0, 0,
                        0, 0, 1, 0, 0, 0, 0, 0, 0,    0, 1, 0, 0, 0, 0},
             &out));
  host_expect(out, (double[]){0, 0, 0, 0, 2052}, 5, 0);
  tn_array_release(out);
}

Test(fold, empty_images_and_channels_have_empty_columns) {
  const double none[1] = {0};
  tn_array *out = NULL;
  OK(call_op("nn.unfold", "kernel=[2]", (host_shape){3, {2, 0, 5}}, none,
             &out));
  cr_assert_eq(tn_array_tensor(out)->shape[1], 0);
  cr_assert_eq(tn_array_tensor(out)->shape[2], 4);
  tn_array_release(out);
  out = NULL;
  OK(call_op("nn.fold", "output_size=[0] kernel=[2] pad=[1]",
             (host_shape){3, {1, 2, 1}}, (double[]){1, 2}, &out));
  cr_assert_eq(tn_array_size(out), 0);
  tn_array_release(out);
}

Test(fold, shapes_that_do_not_fit_are_errors) {
  const double v[HOST_MAX] = {0};
  const host_shape image = {3, {1, 1, 4}}, columns = {3, {1, 3, 4}};
  tn_array *y = NULL;
  FAILS(call_op("nn.unfold", "kernel=[3,3]", image, v, &y), TN_SHAPE,
        "`data` must have 4 dimensions");
  FAILS(call_op("nn.unfold", "kernel=[7] pad=[1]", image, v, &y), TN_SHAPE,
        "a window of 7 elements is larger than the 6 elements");
  FAILS(call_op("nn.fold", "output_size=[5] kernel=[2]", columns, v, &y),
        TN_SHAPE, "columns of 3 elements do not divide into windows of 2");
  FAILS(call_op("nn.fold", "output_size=[9] kernel=[3]", columns, v, &y),
        TN_SHAPE, "");
  FAILS(call_op("nn.unfold", "kernel=[1,1] pad=[2147483647,2147483647]",
                (host_shape){4, {1, 0, 1, 1}}, v, &y),
        TN_OUT_OF_RANGE, "more windows than 64 bits count");
  FAILS(call_op("nn.unfold",
                "kernel=[2147483647,2147483647,2147483647] "
                "pad=[2147483647,2147483647,2147483647]",
                (host_shape){4, {1, 1, 1, 1}}, v, &y),
        TN_SHAPE, "`data` must have 5 dimensions");
}
