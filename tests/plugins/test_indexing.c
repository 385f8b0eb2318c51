/* SPDX-License-Identifier: Apache-2.0
 * Places in arrays, through the public API: the meaning of indices out of
 * range, messages about axes, shapes and lists that do not fit, and arrays
 * without elements. Expected values are counted by hand.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(indexing, .init = open_all, .fini = close_all);

#define COUNT(...) (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define VEC(...)                                                \
  host_array(rt, TN_F64, (host_shape){1, {COUNT(__VA_ARGS__)}}, \
             (double[]){__VA_ARGS__})
#define HOLDS(array, ...) \
  host_expect((array), (double[]){__VA_ARGS__}, COUNT(__VA_ARGS__), 0)

static tn_code call(const char *name, const char *text, const tn_inputs *in,
                    tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const tn_code rc = tn_call(rt, op, in, params, &(tn_outputs){1, out, NULL});
  tn_params_release(params);
  return rc;
}

/* ------------------------------------------------------------ out of range */

Test(indexing, indices_out_of_range_are_clipped_or_counted_around) {
  tn_array *x = VEC(10, 20, 30), *y = NULL;
  tn_array *at = VEC(-1, 3, -4, 1e300, -INFINITY, NAN, 2.9, -0.9);
  OK(call("tensor.take", "mode=clip", TN_IN(x, at), &y));
  HOLDS(y, 10, 30, 10, 30, 10, 10, 30, 10);
  tn_array_release(at);
  at = VEC(-1, 3, -4, 5, NAN, 2.9, 1e300, -3); /* 2^62 is 3k + 1 */
  OK(call("tensor.take", "mode=wrap", TN_IN(x, at), &y));
  HOLDS(y, 30, 10, 30, 30, 10, 30, 20, 10);
  tn_array_release(x), tn_array_release(at), tn_array_release(y);
}

/* The error names index and place, and nothing has been written. */
Test(indexing, indices_out_of_range_are_errors_if_asked_for) {
  tn_array *x = VEC(10, 20, 30), *at = VEC(0, 2, 3, -1), *nan = VEC(NAN);
  tn_array *y = VEC(7, 7, 7, 7), *z = NULL;
  FAILS(call("tensor.take", "mode=raise", TN_IN(x, at), &y), TN_OUT_OF_RANGE,
        "index 3 (number 2 of `indices`) is out of range; 0 to 2 are");
  tn_array_release(y);
  FAILS(call("tensor.take", "mode=raise", TN_IN(x, nan), &z), TN_OUT_OF_RANGE,
        "index nan (number 0 of `indices`)");
  tn_array *far = VEC(1, -1e300);
  FAILS(call("tensor.take", "mode=raise", TN_IN(x, far), &z), TN_OUT_OF_RANGE,
        "index -1e+300 (number 1 of `indices`)");
  tn_array_release(x), tn_array_release(at), tn_array_release(nan);
  tn_array_release(far);
}

Test(indexing, an_axis_without_places_has_no_slices) {
  tn_array *x = host_array(rt, TN_F64, (host_shape){2, {0, 2}}, NULL);
  tn_array *none = host_array(rt, TN_F64, (host_shape){1, {0}}, NULL);
  tn_array *zero = VEC(0), *y = NULL;
  FAILS(call("tensor.take", "", TN_IN(x, zero), &y), TN_OUT_OF_RANGE,
        "1 index has no place to stand for: the axis of `data` has length 0");
  y = NULL;
  OK(call("tensor.take", "", TN_IN(x, none), &y));
  cr_assert_eq(tn_array_size(y), 0);
  cr_assert_eq(tn_array_tensor(y)->shape[1], 2);
  tn_array_release(x), tn_array_release(none), tn_array_release(zero);
  tn_array_release(y);
}

Test(indexing, rows_of_indices_out_of_range_are_off) {
  tn_array *at = VEC(1, -1, 3, NAN, 2.5), *y = NULL;
  OK(call("tensor.one_hot", "depth=3 on_value=4 off_value=0.5 dtype=f64",
          TN_IN(at), &y));
  HOLDS(y, 0.5, 4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,
        4);
  tn_array_release(at), tn_array_release(y);
}

Test(indexing, places_beyond_the_ends_are_cut_off) {
  static const struct {
    const char *params;
    int64_t n;
    double v[5];
  } cases[] = {
      {"begin=[-100] end=[2]", 2, {1, 2}},
      {"begin=[3] end=[100]", 2, {4, 5}},
      {"begin=[7] end=[9]", 0, {0}},
      {"begin=[3] end=[1]", 0, {0}},
      {"begin=[-2] end=[-1]", 1, {4}},
      {"begin=[0] end=[5] step=[3]", 2, {1, 4}},
      {"begin=[100] end=[-100] step=[-1]", 5, {5, 4, 3, 2, 1}},
      {"begin=[3] end=[0] step=[-2]", 2, {4, 2}},
      {"begin=[0] end=[3] step=[-1]", 0, {0}},
      {"begin=[0] end=[9223372036854775807] step=[9223372036854775807]",
       1,
       {1}},
      {"begin=[-1] end=[-9223372036854775808] step=[-9223372036854775808]",
       1,
       {5}},
  };
  tn_array *x = VEC(1, 2, 3, 4, 5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tn_array *y = NULL;
    OK(call("tensor.slice", cases[i].params, TN_IN(x), &y));
    cr_assert_eq(tn_array_size(y), cases[i].n, "%s: %lld", cases[i].params,
                 (long long)tn_array_size(y));
    host_expect(y, cases[i].v, cases[i].n, 0);
    tn_array_release(y);
  }
  tn_array_release(x);
}

/* ------------------------------------------------------------ long sums */

/* 5000 slices of one place, and one of another: sums of halves that halves
 * could not hold on the way. */
static void check_halves(tn_dtype dtype, double want) {
  enum { N = 5000, COLUMNS = 3 };
  const tn_req req[2] = {TN_REQ_WRITE, TN_REQ_NULL};
  tn_runtime *own = host_open();
  double *ones = malloc(sizeof *ones * (N + 1) * COLUMNS);
  int32_t *at_values = calloc(N + 1, sizeof *at_values);
  tn_array *at = NULL, *grads[2] = {NULL, NULL};
  cr_assert(ones != NULL && at_values != NULL);
  for (int i = 0; i < (N + 1) * COLUMNS; ++i) ones[i] = 1;
  for (int i = 0; i < N; ++i) at_values[i] = 2;
  OK(tn_array_create(own, &(tn_spec){TN_I32, 1, (int64_t[]){N + 1}}, &at));
  OK(tn_array_set(at, at_values, sizeof *at_values * (N + 1)));
  tn_array *g = host_many(own, dtype, 2, (int64_t[]){N + 1, COLUMNS}, ones);
  tn_array *data = host_many(own, dtype, 2, (int64_t[]){4, COLUMNS}, ones);
  const tn_backward back = {.struct_size = sizeof back,
                            .inputs = {2, (tn_array *[]){data, at}},
                            .outputs = {1, &g},
                            .out_grads = {1, &g},
                            .in_grads = {2, grads, req}};
  OK(tn_call_backward(own, host_operator(own, "tensor.take"), &back));
  const double slopes[] = {1, 1, 1, 0, 0, 0, want, want, want, 0, 0, 0};
  host_expect(grads[0], slopes, 12, 0);
  tn_array *all[] = {at, g, data, grads[0]};
  for (int i = 0; i < 4; ++i) tn_array_release(all[i]);
  free(ones), free(at_values);
  tn_runtime_release(own);
}

Test(indexing, gradients_of_halves_are_added_up_as_f32) {
  check_halves(TN_F16, 5000);
  check_halves(TN_BF16, 4992); /* of 32s the nearest to 5000 */
}

/* ------------------------------------------------------- any number of threads
 */

enum { ROWS = 7, WIDE = 1500, TAKEN = 400 };

/* The gradient of rows that are taken many times, on so many workers. */
static float *gradient_on(uint32_t workers) {
  tn_runtime *own = NULL;
  const tn_options options = {.struct_size = sizeof options,
                              .workers = workers};
  OK(tn_runtime_create(&options, &own));
  OK(tn_plugin_load(own, PLUGIN_FILE));
  const tn_spec data_is = {TN_F32, 2, (int64_t[]){ROWS, WIDE}};
  const tn_spec out_is = {TN_F32, 2, (int64_t[]){TAKEN, WIDE}};
  const tn_spec at_is = {TN_I32, 1, (int64_t[]){TAKEN}};
  float *head = malloc(sizeof *head * TAKEN * WIDE);
  float *slope = malloc(sizeof *slope * ROWS * WIDE);
  int32_t places[TAKEN];
  for (int i = 0; i < TAKEN; ++i) places[i] = i * i % ROWS;
  for (int i = 0; i < TAKEN * WIDE; ++i)
    head[i] = 1.0f / (float)(1 + i % 1013) - 0.01f * (float)(i % 7);
  tn_array *data = NULL, *at = NULL, *out = NULL, *g = NULL;
  tn_array *grads[2] = {NULL, NULL};
  OK(tn_array_create(own, &data_is, &data));
  OK(tn_array_create(own, &at_is, &at));
  OK(tn_array_create(own, &out_is, &out));
  OK(tn_array_create(own, &out_is, &g));
  OK(tn_array_set(at, places, sizeof places));
  OK(tn_array_set(g, head, sizeof *head * TAKEN * WIDE));
  const tn_req req[2] = {TN_REQ_WRITE, TN_REQ_NULL};
  const tn_backward back = {.struct_size = sizeof back,
                            .inputs = {2, (tn_array *[]){data, at}},
                            .outputs = {1, &out},
                            .out_grads = {1, &g},
                            .in_grads = {2, grads, req}};
  OK(tn_call_backward(own, host_operator(own, "tensor.take"), &back));
  OK(tn_array_get(grads[0], slope, sizeof *slope * ROWS * WIDE));
  tn_array_release(data), tn_array_release(at), tn_array_release(out);
  tn_array_release(g), tn_array_release(grads[0]);
  tn_runtime_release(own);
  free(head);
  return slope;
}

Test(indexing, sums_of_slices_do_not_depend_on_the_workers) {
  float *one = gradient_on(1), *two = gradient_on(2), *eight = gradient_on(8);
  cr_assert_eq(memcmp(one, two, sizeof *one * ROWS * WIDE), 0);
  cr_assert_eq(memcmp(one, eight, sizeof *one * ROWS * WIDE), 0);
  float sum = 0; /* of column 3 in row 2, in the order of indices */
  for (int i = 0; i < TAKEN; ++i) {
    const int at = i * WIDE + 3;
    if (i * i % ROWS == 2)
      sum += 1.0f / (float)(1 + at % 1013) - 0.01f * (float)(at % 7);
  }
  cr_assert_float_eq(one[2 * WIDE + 3], sum, 1e-5);
  free(one), free(two), free(eight);
}

/* ----------------------------------------------------------- no elements, 0-d
 */

typedef struct empty_case {
  const char *op;
  const char *params;
  host_shape in;
  host_shape out;
} empty_case;

static const empty_case empty_cases[] = {
    {"tensor.reshape", "shape=[-1,2]", {2, {0, 3}}, {2, {0, 2}}},
    {"tensor.reshape", "shape=[1,1]", {0, {0}}, {2, {1, 1}}},
    {"tensor.flatten", "", {3, {2, 0, 3}}, {2, {2, 0}}},
    {"tensor.expand_dims", "axis=0", {0, {0}}, {1, {1}}},
    {"tensor.squeeze", "axis=0", {1, {1}}, {0, {0}}},
    {"tensor.transpose", "", {2, {2, 0}}, {2, {0, 2}}},
    {"tensor.transpose", "", {0, {0}}, {0, {0}}},
    {"tensor.swap_axes", "dim1=0 dim2=1", {2, {0, 3}}, {2, {3, 0}}},
    {"tensor.reverse", "axis=[0]", {2, {3, 0}}, {2, {3, 0}}},
    {"tensor.concat", "dim=0", {2, {0, 3}}, {2, {0, 3}}},
    {"tensor.stack", "axis=0", {0, {0}}, {1, {1}}},
    {"tensor.slice", "begin=[] end=[] step=[]", {0, {0}}, {0, {0}}},
    {"tensor.slice", "begin=[0] end=[5]", {2, {0, 3}}, {2, {0, 3}}},
    {"tensor.tile", "reps=[2,0]", {1, {3}}, {2, {2, 0}}},
    {"tensor.repeat", "repeats=2", {1, {0}}, {1, {0}}},
    {"tensor.repeat", "repeats=0 axis=0", {2, {2, 3}}, {2, {0, 3}}},
};

Test(indexing, arrays_without_elements_and_numbers_are_arrays) {
  const double ones[6] = {1, 1, 1, 1, 1, 1};
  for (size_t i = 0; i < sizeof empty_cases / sizeof *empty_cases; ++i) {
    const empty_case *c = &empty_cases[i];
    tn_array *x = host_array(rt, TN_F32, c->in, ones), *y = NULL;
    OK(call(c->op, c->params, TN_IN(x), &y));
    cr_assert_eq(tn_array_tensor(y)->ndim, c->out.ndim, "%s", c->op);
    for (int32_t d = 0; d < c->out.ndim; ++d)
      cr_assert_eq(tn_array_tensor(y)->shape[d], c->out.dims[d], "%s %s", c->op,
                   c->params);
    host_expect(y, ones, tn_array_size(y), 0);
    tn_array_release(x), tn_array_release(y);
  }
}

/* --------------------------------------------------------------- mistakes */

typedef struct mistake {
  const char *op;
  const char *params;
  uint32_t n_in;
  host_shape in[2];
  tn_code code;
  const char *texts[3]; /* all of them are said */
} mistake;

static const mistake mistakes[] = {
    {"tensor.reshape",
     "shape=[4,-1]",
     1,
     {{2, {2, 3}}},
     TN_SHAPE,
     {"`data` (2,3) has 6 elements", "(4,?)"}},
    {"tensor.reshape",
     "shape=[7]",
     1,
     {{2, {2, 3}}},
     TN_SHAPE,
     {"6 elements", "(7)"}},
    {"tensor.reshape",
     "shape=[-1,-1]",
     1,
     {{2, {2, 3}}},
     TN_INVALID,
     {"more than one -1"}},
    {"tensor.reshape",
     "shape=[0,0,0]",
     1,
     {{2, {2, 3}}},
     TN_SHAPE,
     {"`shape` has 0 for dimension 3 of `data` (2,3)"}},
    {"tensor.reshape",
     "shape=[0,-3]",
     1,
     {{2, {2, 3}}},
     TN_SHAPE,
     {"-3 for dimension 3"}},
    {"tensor.reshape",
     "shape=[-4,2]",
     1,
     {{2, {2, 3}}},
     TN_INVALID,
     {"lacks the two numbers"}},
    {"tensor.reshape",
     "shape=[-4,4,-1,0]",
     1,
     {{2, {6, 3}}},
     TN_SHAPE,
     {"cannot split a dimension of 6 into 4 and -1"}},
    {"tensor.reshape",
     "shape=[-4,-1,-1]",
     1,
     {{1, {6}}},
     TN_SHAPE,
     {"into -1 and -1"}},
    {"tensor.reshape",
     "shape=[0,0,-1]",
     1,
     {{2, {0, 3}}},
     TN_INCOMPLETE,
     {"(0,3,?)"}},
    {"tensor.flatten",
     "",
     1,
     {{0, {0}}},
     TN_SHAPE,
     {"`data` has no dimension"}},
    {"tensor.expand_dims",
     "axis=3",
     1,
     {{2, {2, 3}}},
     TN_OUT_OF_RANGE,
     {"axis=3", "-3 to 2 are"}},
    {"tensor.squeeze",
     "axis=1",
     1,
     {{2, {1, 3}}},
     TN_SHAPE,
     {"axis 1 of `data` (1,3) has length 3"}},
    {"tensor.reshape_like",
     "",
     2,
     {{2, {2, 3}}, {1, {5}}},
     TN_SHAPE,
     {"as many elements"}},
    {"tensor.transpose",
     "axes=[0,1]",
     1,
     {{3, {2, 3, 4}}},
     TN_SHAPE,
     {"`axes` names 2 axes, but `data` has 3"}},
    {"tensor.transpose",
     "axes=[0,-2]",
     1,
     {{2, {2, 3}}},
     TN_INVALID,
     {"axis -2 stands twice"}},
    {"tensor.swap_axes",
     "dim1=0 dim2=2",
     1,
     {{2, {2, 3}}},
     TN_OUT_OF_RANGE,
     {"dim2=2", "-2 to 1 are"}},
    {"tensor.reverse",
     "axis=[1,-1]",
     1,
     {{2, {2, 3}}},
     TN_INVALID,
     {"axis -1 is named twice"}},
    {"tensor.concat",
     "dim=1",
     2,
     {{2, {2, 3}}, {2, {4, 3}}},
     TN_SHAPE,
     {"parts", "2", "4"}},
    {"tensor.concat",
     "dim=2",
     2,
     {{2, {2, 3}}, {2, {2, 3}}},
     TN_OUT_OF_RANGE,
     {"dim=2"}},
    {"tensor.concat", "", 0, {{0}}, TN_INVALID, {"at least one"}},
    {"tensor.stack", "", 2, {{2, {2, 3}}, {1, {3}}}, TN_SHAPE, {"parts"}},
    {"tensor.split",
     "num_outputs=1 axis=2",
     1,
     {{2, {2, 3}}},
     TN_OUT_OF_RANGE,
     {"axis=2"}},
    {"tensor.split",
     "num_outputs=1 squeeze_axis=true",
     1,
     {{2, {2, 3}}},
     TN_SHAPE,
     {"length 3; squeeze_axis=true wants num_outputs=1"}},
    {"tensor.slice",
     "begin=[0,0] end=[1,1]",
     1,
     {{1, {3}}},
     TN_SHAPE,
     {"speaks of 2 axes, but `data` has 1"}},
    {"tensor.slice",
     "begin=[0] end=[1] step=[0]",
     1,
     {{1, {3}}},
     TN_INVALID,
     {"`step` of axis 0 is 0"}},
    {"tensor.slice_axis",
     "axis=-2",
     1,
     {{1, {3}}},
     TN_OUT_OF_RANGE,
     {"axis=-2"}},
    {"tensor.take",
     "axis=1",
     2,
     {{1, {3}}, {1, {2}}},
     TN_OUT_OF_RANGE,
     {"axis=1"}},
    {"tensor.repeat",
     "repeats=2 axis=1",
     1,
     {{1, {3}}},
     TN_OUT_OF_RANGE,
     {"axis=1"}},
    {"tensor.pad",
     "pad_width=[1,1]",
     1,
     {{2, {2, 3}}},
     TN_SHAPE,
     {"`pad_width` has 2 numbers; two for each of 2 dimensions are 4"}},
    {"tensor.pad",
     "mode=reflect pad_width=[0,3]",
     1,
     {{1, {3}}},
     TN_SHAPE,
     {"axis 0 of `data` has length 3", "at least 4"}},
    {"tensor.pad",
     "mode=edge pad_width=[1,0]",
     1,
     {{1, {0}}},
     TN_SHAPE,
     {"has length 0", "at least 1"}},
    {"tensor.arange",
     "start=1 step=0",
     0,
     {{0}},
     TN_INVALID,
     {"step must not be 0"}},
    {"tensor.arange",
     "start=1e300",
     0,
     {{0}},
     TN_OUT_OF_RANGE,
     {"1e+300 numbers"}},
};

Test(indexing, operands_that_do_not_fit_are_named_with_the_rule) {
  const double ones[24] = {0};
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_array *in[2] = {NULL, NULL}, *out = NULL;
    for (uint32_t k = 0; k < m->n_in; ++k)
      in[k] = host_array(rt, TN_F32, m->in[k], ones);
    const tn_code rc = call(m->op, m->params, &(tn_inputs){m->n_in, in}, &out);
    cr_assert_eq(rc, m->code, "mistake %zu, %s: %d: %s", i, m->op, rc,
                 tn_error_text());
    cr_assert_null(out);
    for (int k = 0; k < 3 && m->texts[k]; ++k)
      cr_assert_not_null(strstr(tn_error_text(), m->texts[k]),
                         "mistake %zu: \"%s\" lacks \"%s\"", i, tn_error_text(),
                         m->texts[k]);
    tn_array_release(in[0]), tn_array_release(in[1]);
  }
}

Test(indexing, a_length_that_cannot_be_cut_is_refused) {
  tn_operator *op = host_operator(rt, "tensor.split");
  tn_params *params = host_params(op, "num_outputs=2"), *none = NULL;
  const double zeros[6] = {0};
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 3}}, zeros);
  tn_array *out[2] = {NULL, NULL};
  FAILS(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){2, out, NULL}),
        TN_SHAPE,
        "axis 1 of `data` (2,3) has length 3; it must be a multiple of "
        "num_outputs=2");
  FAILS(tn_params_parse(op, "num_outputs=0", &none), TN_OUT_OF_RANGE,
        "num_outputs");
  tn_array_release(x);
  tn_params_release(params);
}
