/* SPDX-License-Identifier: Apache-2.0
 * nn.convolution at its edges: operands without elements, shapes inferred in
 * both directions, messages about mistakes, and kernels that decline a call.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "convolution.h"

/* No images: nothing comes out, and gradients of weights are sums of nothing.
 */
Test(convolution_shapes, no_images_give_nothing_and_zeros_for_weights) {
  static const double one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  static const double zero[8] = {0};
  const windows_case none = {
      "nn.convolution",
      "kernel=[2,2] num_filter=2",
      3,
      {{4, {0, 1, 4, 4}, one}, {4, {2, 1, 2, 2}, one}, {1, {2}, one}},
      {4, {0, 2, 3, 3}, one},
      {4, {0, 2, 3, 3}, one},
      3,
      {{4, {0, 1, 4, 4}, one}, {4, {2, 1, 2, 2}, zero}, {1, {2}, zero}}};
  tn_runtime *rt = open_runtime(0, 1, false);
  check_types(rt, &none);
  tn_runtime_release(rt);
}

Test(convolution_shapes, without_channels_the_bias_remains) {
  static const double bias[2] = {3, -4}, none[1] = {0};
  static const double out[8] = {3, 3, 3, 3, -4, -4, -4, -4};
  static const double head[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const double sums[2] = {10, 26};
  const windows_case c = {
      "nn.convolution",
      "kernel=[2,2] num_filter=2",
      3,
      {{4, {1, 0, 3, 3}, none}, {4, {2, 0, 2, 2}, none}, {1, {2}, bias}},
      {4, {1, 2, 2, 2}, out},
      {4, {1, 2, 2, 2}, head},
      3,
      {{4, {1, 0, 3, 3}, none}, {4, {2, 0, 2, 2}, none}, {1, {2}, sums}}};
  tn_runtime *rt = open_runtime(0, 1, false);
  check_types(rt, &c);
  tn_runtime_release(rt);
}

/* An image without lines: all windows are padding. */
Test(convolution_shapes, without_elements_the_bias_remains) {
  static const double bias[2] = {3, -4}, none[1] = {0}, zero[36] = {0};
  static const double out[12] = {3, 3, 3, 3, 3, 3, -4, -4, -4, -4, -4, -4};
  static const double head[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  static const double sums[2] = {21, 57};
  const windows_case c = {
      "nn.convolution",
      "kernel=[3,3] num_filter=2 pad=[2,1]",
      3,
      {{4, {1, 2, 0, 3}, none}, {4, {2, 2, 3, 3}, zero}, {1, {2}, bias}},
      {4, {1, 2, 2, 3}, out},
      {4, {1, 2, 2, 3}, head},
      3,
      {{4, {1, 2, 0, 3}, none}, {4, {2, 2, 3, 3}, zero}, {1, {2}, sums}}};
  tn_runtime *rt = open_runtime(0, 1, false);
  check_types(rt, &c);
  tn_runtime_release(rt);
}

/* Rank by rank: data in, weight and out found. */
static tn_code infer_shapes(tn_runtime *rt, const char *text, tn_sig in[3],
                            tn_sig *out) {
  tn_operator *op = host_operator(rt, "nn.convolution");
  tn_params *params = host_params(op, text);
  const uint32_t n = strstr(text, "no_bias=true") ? 2 : 3;
  const tn_code code =
      tn_operator_infer(op, params, &(tn_signature){n, 1, 0, 0, in, out, NULL});
  tn_params_release(params);
  return code;
}

static void is_shape(const tn_sig *sig, int32_t ndim, const int64_t *dims) {
  cr_assert_eq(sig->ndim, ndim);
  for (int32_t d = 0; d < ndim; ++d)
    cr_assert_eq(sig->shape[d], dims[d], "dimension %d: %lld", (int)d,
                 (long long)sig->shape[d]);
}

/* (224 + 2*3 - 6 - 1)/2 + 1 = 112; and incomplete_infer_convolution: data
 * (?,10,?,?), out (5,?,32,32) and windows that keep the size. */
Test(convolution_shapes, shapes_follow_from_each_other) {
  tn_runtime *rt = open_runtime(0, 1, false);
  tn_sig in[3] = {{.dtype = TN_F32, .ndim = 4, .shape = {1, 3, 224, 224}},
                  {.ndim = -1},
                  {.ndim = -1}};
  tn_sig out = {.ndim = -1};
  OK(infer_shapes(rt, "kernel=[7,7] stride=[2,2] pad=[3,3] num_filter=64", in,
                  &out));
  is_shape(&in[1], 4, (const int64_t[]){64, 3, 7, 7});
  is_shape(&in[2], 1, (const int64_t[]){64});
  is_shape(&out, 4, (const int64_t[]){1, 64, 112, 112});
  in[0] = (tn_sig){.dtype = TN_F32, .ndim = 4, .shape = {-1, 10, -1, -1}};
  in[1] = (tn_sig){.ndim = -1};
  out = (tn_sig){.ndim = 4, .shape = {5, -1, 32, 32}};
  OK(infer_shapes(rt, "kernel=[3,3] pad=[1,1] num_filter=21 no_bias=true", in,
                  &out));
  is_shape(&in[0], 4, (const int64_t[]){5, 10, 32, 32});
  is_shape(&in[1], 4, (const int64_t[]){21, 10, 3, 3});
  is_shape(&out, 4, (const int64_t[]){5, 21, 32, 32});
  tn_runtime_release(rt);
}

typedef struct mistake {
  const char *params;
  tn_sig data;
  tn_sig weight;
  const char *says[3];
} mistake;

#define SIG(n, ...)                                      \
  {                                                      \
    .dtype = TN_F32, .ndim = n, .shape = { __VA_ARGS__ } \
  }
#define UNKNOWN \
  { .ndim = -1 }

static const mistake mistakes[] = {
    {"kernel=[3,3] num_filter=4 no_bias=true",
     SIG(4, 1, 2, 5, 2),
     UNKNOWN,
     {"the window is larger than the padded image", "S = (5,2)",
      "kernel = (3,3)"}},
    {"kernel=[3] dilate=[4] pad=[1] num_filter=4 no_bias=true",
     SIG(3, 1, 2, 6),
     UNKNOWN,
     {"the window is larger than the padded image", "S = (6)", "pad = (1)"}},
    {"kernel=[3,3] num_filter=4 num_group=2 no_bias=true",
     SIG(4, 1, 3, 5, 5),
     UNKNOWN,
     {"channels of `data` must divide into `num_group`", "C = 3"}},
    {"kernel=[3,3] num_filter=3 num_group=2 no_bias=true",
     SIG(4, 1, 4, 5, 5),
     UNKNOWN,
     {"`num_filter` must divide into `num_group`", "num_filter = 3"}},
    {"kernel=[3,3] num_filter=4 no_bias=true",
     SIG(3, 1, 2, 5),
     UNKNOWN,
     {"a list of 1 with a list of 2", "`data` (1,2,5)"}},
    {"kernel=[3,3] num_filter=4 no_bias=true",
     SIG(4, 1, 2, 5, 5),
     SIG(4, 4, 3, 3, 3),
     {"weight", "3", "2"}},
};

Test(convolution_shapes, operands_that_do_not_fit_are_named_with_their_shapes) {
  tn_runtime *rt = open_runtime(0, 1, false);
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_sig in[3] = {m->data, m->weight, {.ndim = -1}}, out = {.ndim = -1};
    cr_assert_eq(infer_shapes(rt, m->params, in, &out), TN_SHAPE, "%s",
                 m->params);
    for (int k = 0; k < 3 && m->says[k]; ++k)
      cr_assert_not_null(strstr(tn_error_text(), m->says[k]),
                         "\"%s\" lacks \"%s\"", tn_error_text(), m->says[k]);
  }
  tn_sig in[3] = {SIG(4, 1, 2, 5, 5), UNKNOWN, UNKNOWN}, out = {.ndim = -1};
  tn_operator *op = host_operator(rt, "nn.convolution");
  tn_params *params = host_params(op, "kernel=[3,3] num_filter=4"), *none;
  FAILS(tn_operator_infer(op, params,
                          &(tn_signature){2, 1, 0, 0, in, &out, NULL}),
        TN_SHAPE, "give `bias` or set no_bias=true");
  tn_params_release(params);
  FAILS(tn_params_parse(op, "num_filter=1", &none), TN_INVALID, "kernel");
  FAILS(tn_params_parse(op, "kernel=[3,3] stride=[1,2,3] num_filter=1", &none),
        TN_INVALID, "stride");
  FAILS(tn_params_parse(op, "kernel=[0,3] num_filter=1", &none),
        TN_OUT_OF_RANGE, "kernel");
  FAILS(tn_params_parse(op, "kernel=[1,1,1,1] num_filter=1", &none), TN_INVALID,
        "kernel");
  tn_runtime_release(rt);
}

/* `tenon show --why` prints the reason why a kernel was not chosen. */
Test(convolution_shapes, kernels_decline_cases_of_other_kernels) {
  tn_runtime *rt = open_runtime(0, 1, false);
  tn_operator *op = host_operator(rt, "nn.convolution");
  tn_params *params = host_params(op, "kernel=[2,2] num_filter=1 no_bias=true");
  const int64_t shape[4] = {1, 2, 3, 3};
  double *v = host_draw(18, 1);
  tn_array *data = host_many(rt, TN_F32, 4, shape, v), *out = NULL;
  tn_array *weight = host_many(rt, TN_F32, 4, (const int64_t[]){1, 2, 2, 2}, v);
  OK(tn_operator_pin(op, kernels[1]));
  FAILS(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)),
        TN_UNSUPPORTED, "windows of one element");
  OK(tn_operator_pin(op, kernels[2]));
  FAILS(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)),
        TN_UNSUPPORTED, "groups of one channel");
  OK(tn_operator_pin(op, winograd));
  FAILS(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)),
        TN_UNSUPPORTED, "windows of 3 x 3 elements");
  OK(tn_operator_pin(op, kernels[3]));
  tn_params *one = host_params(op, "kernel=[1,1] num_filter=1 no_bias=true");
  tn_array *small = host_many(rt, TN_F32, 4, (const int64_t[]){1, 2, 1, 1}, v);
  FAILS(tn_call(rt, op, TN_IN(data, small), one, TN_OUT(&out)), TN_UNSUPPORTED,
        "windows of 2 to 128 elements");
  tn_params_release(one);
  tn_array_release(small);
  OK(tn_operator_pin(op, NULL));
  OK(tn_call(rt, op, TN_IN(data, weight), params, TN_OUT(&out)));
  tn_array_release(data), tn_array_release(weight), tn_array_release(out);
  free(v);
  tn_params_release(params);
  tn_runtime_release(rt);
}
