/* SPDX-License-Identifier: Apache-2.0
 * nn.deconvolution: values of torch (tests/reference/windows.py), the adjoint
 * of nn.convolution with every algorithm, and messages about mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case deconv_cases[] = {
#include "deconv_cases.inc"
};
enum { N_CASES = sizeof deconv_cases / sizeof *deconv_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(deconvolution, .init = open_all, .fini = close_all);

Test(deconvolution, values_and_gradients_are_those_of_torch) {
  for (size_t i = 0; i < N_CASES; ++i) {
    windows_check(rt, &deconv_cases[i], TN_F64, 1e-14);
    windows_check(rt, &deconv_cases[i], TN_F32, 1e-5);
    windows_check(rt, &deconv_cases[i], TN_F16, 0x1p-9);
    windows_check(rt, &deconv_cases[i], TN_BF16, 0x1p-6);
  }
}

/* ----------------------------------------------------------------- adjoint */

static tn_array *call_op(const char *name, const char *text, tn_array *data,
                         tn_array *weight) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *out = NULL;
  OK(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)));
  tn_params_release(params);
  return out;
}

/* The sum of products of all elements. */
static double multiply(tn_array *a, tn_array *b) {
  const int64_t n = tn_array_size(a);
  double *x = host_many_values(a), *y = host_many_values(b), sum = 0;
  cr_assert_eq(n, tn_array_size(b));
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  free(x), free(y);
  return sum;
}

static tn_array *draw(tn_dtype dtype, const host_shape *shape, uint64_t seed) {
  int64_t n = 1;
  for (int32_t d = 0; d < shape->ndim; ++d) n *= shape->dims[d];
  double *v = host_draw(n, seed);
  tn_array *array = host_many(rt, dtype, shape->ndim, shape->dims, v);
  free(v);
  return array;
}

/* A convolution of `data` that gives `out`; `size` are the parameters that only
 * the deconvolution has. */
typedef struct pair {
  const char *params;
  const char *size;
  int64_t data_channels; /* num_filter of the deconvolution */
  host_shape data, weight, out;
} pair;

static void check_pair(const pair *p, tn_dtype dtype) {
  char there[256], back[256];
  (void)snprintf(there, sizeof there, "%s num_filter=%lld no_bias=true",
                 p->params, (long long)p->out.dims[1]);
  (void)snprintf(back, sizeof back, "%s num_filter=%lld %s", p->params,
                 (long long)p->data_channels, p->size);
  tn_array *x = draw(dtype, &p->data, 1), *w = draw(dtype, &p->weight, 2);
  tn_array *y = draw(dtype, &p->out, 3);
  tn_array *conv = call_op("nn.convolution", there, x, w);
  tn_array *deconv = call_op("nn.deconvolution", back, y, w);
  const double a = multiply(conv, y), b = multiply(x, deconv);
  cr_assert_float_eq(a, b, dtype == TN_F64 ? 1e-9 : 1e-2, "%s: %g, not %g",
                     p->params, b, a);
  tn_array_release(x), tn_array_release(w), tn_array_release(y);
  tn_array_release(conv), tn_array_release(deconv);
}

/* Windows of 3 x 3 over 16 channels are computed by transforms in f32, others
 * by matrix products or directly. */
Test(deconvolution, it_is_the_adjoint_of_a_convolution) {
  static const pair pairs[] = {{"kernel=[3,3] pad=[1,1]",
                                "",
                                16,
                                {4, {2, 16, 12, 12}},
                                {4, {24, 16, 3, 3}},
                                {4, {2, 24, 12, 12}}},
                               {"kernel=[4,4] stride=[2,2] pad=[1,1]",
                                "",
                                8,
                                {4, {2, 8, 14, 10}},
                                {4, {40, 8, 4, 4}},
                                {4, {2, 40, 7, 5}}},
                               {"kernel=[3,3] stride=[2,2] num_group=6",
                                "adj=[1,0]",
                                6,
                                {4, {1, 6, 10, 7}},
                                {4, {6, 1, 3, 3}},
                                {4, {1, 6, 4, 3}}},
                               {"kernel=[5] stride=[3] dilate=[2] pad=[4]",
                                "adj=[1]",
                                3,
                                {3, {2, 3, 32}},
                                {3, {5, 3, 5}},
                                {3, {2, 5, 11}}}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    check_pair(&pairs[i], TN_F64);
    check_pair(&pairs[i], TN_F32);
  }
}

/* One window less than a convolution would have: with stride 1 the last element
 * is kept although an odd number is removed. */
Test(deconvolution, an_odd_target_is_part_of_the_whole_with_many_channels) {
  const host_shape data = {4, {1, 16, 17, 17}}, weight = {4, {16, 16, 3, 3}};
  tn_array *x = draw(TN_F32, &data, 5), *w = draw(TN_F32, &weight, 6);
  tn_array *all =
      call_op("nn.deconvolution", "kernel=[3,3] num_filter=16", x, w);
  tn_array *part =
      call_op("nn.deconvolution",
              "kernel=[3,3] num_filter=16 target_shape=[18,16]", x, w);
  double *whole = host_many_values(all), *got = host_many_values(part);
  for (int64_t k = 0; k < 16; ++k)
    for (int64_t i = 0; i < 18; ++i)
      for (int64_t j = 0; j < 16; ++j)
        cr_assert_float_eq(
            got[(k * 18 + i) * 16 + j], whole[(k * 19 + i + 1) * 19 + j + 2],
            1e-4, "%lld %lld %lld", (long long)k, (long long)i, (long long)j);
  free(whole), free(got);
  tn_array_release(x), tn_array_release(w);
  tn_array_release(all), tn_array_release(part);
}

/* --------------------------------------------------------------- mistakes */

/* A call with images (1, 2, 3) or of another size, and its code. */
static tn_code call_with(const char *text, host_shape data, host_shape weight) {
  static const double numbers[HOST_MAX];
  tn_operator *op = host_operator(rt, "nn.deconvolution");
  tn_params *params = host_params(op, text);
  tn_array *x = host_array(rt, TN_F64, data, numbers), *y = NULL;
  tn_array *w = host_array(rt, TN_F64, weight, numbers);
  const tn_code code = tn_call(rt, op, TN_IN(x, w), params, TN_OUT(&y));
  tn_array_release(x), tn_array_release(w), tn_array_release(y);
  tn_params_release(params);
  return code;
}

Test(deconvolution, mistakes_have_messages) {
  const host_shape x = {3, {1, 2, 3}}, w = {3, {2, 1, 2}};
  FAILS(call_with("kernel=[2] num_filter=1 adj=[1]", x, w), TN_SHAPE,
        "`adj` must be less than `stride`");
  FAILS(call_with("kernel=[2] num_filter=1 target_shape=[5]", x, w), TN_SHAPE,
        "target_shape is 5 in dimension 2, but `data` (1,2,3) gives only 4");
  FAILS(call_with("kernel=[2] num_filter=1 target_shape=[2,2]", x, w),
        TN_INVALID, "target_shape has 2 numbers, but `kernel` has 1");
  FAILS(call_with("kernel=[2] num_filter=1 pad=[2]", x, w), TN_SHAPE,
        "`pad` of 2 removes all of the 4 elements");
  FAILS(call_with("kernel=[2] num_filter=1 no_bias=false", x, w), TN_SHAPE,
        "give `bias` or set no_bias=true");
  FAILS(call_with("kernel=[2] num_filter=1", (host_shape){3, {1, 2, 0}}, w),
        TN_SHAPE, "dimension 2 of `data` (1,2,0) is empty");
  FAILS(
      call_with("kernel=[2,1] num_filter=1", x, (host_shape){4, {2, 1, 2, 1}}),
      TN_SHAPE, "`kernel` has 2 dimensions, so `data` must have 4");
}

Test(deconvolution, no_image_and_no_channel_are_allowed) {
  OK(call_with("kernel=[2] num_filter=1", (host_shape){3, {0, 2, 3}},
               (host_shape){3, {2, 1, 2}}));
  OK(call_with("kernel=[2] num_filter=1", (host_shape){3, {2, 0, 3}},
               (host_shape){3, {0, 1, 2}}));
}
