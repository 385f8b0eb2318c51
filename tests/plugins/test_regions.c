/* SPDX-License-Identifier: Apache-2.0
 * nn.roi_pooling, nn.roi_align and nn.correlation: values and gradients of
 * loops after the definitions (tests/reference/regions.py), regions far
 * outside, numbers of images, and messages about mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case region_cases[] = {
#include "region_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(regions, .init = open_all, .fini = close_all);

Test(regions, values_and_gradients_are_those_of_definitions) {
  for (size_t i = 0; i < sizeof region_cases / sizeof *region_cases; ++i) {
    windows_check(rt, &region_cases[i], TN_F64, 1e-12);
    windows_check(rt, &region_cases[i], TN_F32, 1e-5);
    windows_check(rt, &region_cases[i], TN_F16, 0x1p-8);
    windows_check(rt, &region_cases[i], TN_BF16, 0x1p-5);
  }
}

/* A call with two inputs, and its code; the first output is *out. */
static tn_code call_op(const char *name, const char *text, tn_array *a,
                       tn_array *b, tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *outputs[2] = {NULL, NULL};
  const tn_outputs to = {tn_operator_desc(op)->n_outputs, outputs, NULL};
  const tn_code code = tn_call(rt, op, TN_IN(a, b), params, &to);
  tn_array_release(outputs[1]);
  *out = outputs[0];
  tn_params_release(params);
  return code;
}

static const double nine[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* Images of 3 x 3 elements, and one region. */
static void expect_region(const char *name, const char *text, const double *roi,
                          double want) {
  tn_array *x = host_array(rt, TN_F64, (host_shape){4, {1, 1, 3, 3}}, nine);
  tn_array *r = host_array(rt, TN_F64, (host_shape){2, {1, 5}}, roi);
  tn_array *y = NULL;
  OK(call_op(name, text, x, r, &y));
  host_expect(y, &want, 1, 1e-12);
  tn_array_release(x), tn_array_release(r), tn_array_release(y);
}

Test(regions, regions_without_bounds_are_limited) {
  const double far[] = {0, 1e30, 1e30, 1e31, 1e31};
  const double all[] = {0, -1e30, -1e30, 1e30, 1e30};
  const double none[] = {0, NAN, NAN, NAN, NAN};
  expect_region("nn.roi_pooling", "pooled_size=[1,1]", far, 0);
  expect_region("nn.roi_pooling", "pooled_size=[1,1]", all, 9);
  expect_region("nn.roi_pooling", "pooled_size=[1,1]", none, 0);
  expect_region("nn.roi_align", "pooled_size=[1,1]", far, 0);
  expect_region("nn.roi_align", "pooled_size=[1,1]", none, 0);
  expect_region("nn.roi_align", "pooled_size=[1,1] sampling_ratio=1", all, 1);
}

/* A region of the wrong order has the size 1, or no samples. */
Test(regions, a_region_of_the_wrong_order_is_small) {
  const double turned[] = {0, 2, 2, 0, 0};
  expect_region("nn.roi_pooling", "pooled_size=[1,1]", turned, 9);
  expect_region("nn.roi_align", "pooled_size=[1,1] aligned=true", turned, 0);
}

Test(regions, nan_is_the_largest_element_of_a_bin) {
  const double v[] = {1, NAN, 3, 4}, roi[] = {0, 0, 0, 1, 1};
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 2}}, v);
  tn_array *r = host_array(rt, TN_F32, (host_shape){2, {1, 5}}, roi);
  tn_array *y = NULL;
  OK(call_op("nn.roi_pooling", "pooled_size=[1,1]", x, r, &y));
  double *got = host_many_values(y);
  cr_assert(isnan(got[0]));
  free(got);
  tn_array_release(x), tn_array_release(r), tn_array_release(y);
}

Test(regions, no_regions_and_no_channels_are_allowed) {
  const double none[1] = {0}, roi[] = {0, 0, 0, 1, 1};
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 3, 3}}, nine);
  tn_array *r = host_array(rt, TN_F32, (host_shape){2, {0, 5}}, none);
  tn_array *y = NULL;
  OK(call_op("nn.roi_align", "pooled_size=[2,2]", x, r, &y));
  cr_assert_eq(tn_array_size(y), 0);
  tn_array_release(y);
  OK(call_op("nn.roi_pooling", "pooled_size=[2,2]", x, r, &y));
  cr_assert_eq(tn_array_size(y), 0);
  tn_array_release(y), tn_array_release(x), tn_array_release(r);
  x = host_array(rt, TN_F32, (host_shape){4, {1, 0, 3, 3}}, none);
  r = host_array(rt, TN_F32, (host_shape){2, {1, 5}}, roi);
  OK(call_op("nn.roi_align", "pooled_size=[2,2]", x, r, &y));
  cr_assert_eq(tn_array_size(y), 0);
  tn_array_release(y);
  OK(call_op("nn.correlation", "", x, x, &y));
  host_expect(y, (double[9]){0}, 9, 0);
  tn_array_release(y), tn_array_release(x), tn_array_release(r);
}

Test(regions, mistakes_have_messages) {
  const double roi[] = {1, 0, 0, 1, 1}, none[] = {NAN, 0, 0, 1, 1};
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 3, 3}}, nine);
  tn_array *small = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 3}}, nine);
  tn_array *r = host_array(rt, TN_F32, (host_shape){2, {1, 5}}, roi);
  tn_array *odd = host_array(rt, TN_F32, (host_shape){2, {1, 5}}, none);
  tn_array *y = NULL;
  FAILS(call_op("nn.roi_align", "pooled_size=[1,1]", x, r, &y), TN_OUT_OF_RANGE,
        "region 0 is of image 1, but `data` has 1 images");
  FAILS(call_op("nn.roi_pooling", "pooled_size=[1,1]", x, odd, &y),
        TN_OUT_OF_RANGE, "region 0 is of image");
  FAILS(call_op("nn.correlation", "kernel_size=2", x, x, &y), TN_INVALID,
        "kernel_size is 2, but must be odd");
  FAILS(call_op("nn.correlation", "", small, small, &y), TN_SHAPE,
        "dimension 2 of the images (1,1,2,3) with `pad_size` 0 has no window");
  tn_array_release(x), tn_array_release(small);
  tn_array_release(r), tn_array_release(odd);
}
