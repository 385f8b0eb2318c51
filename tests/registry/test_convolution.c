/* SPDX-License-Identifier: Apache-2.0
 * The shape rules of a convolution in both directions; no manifest has harder
 * ones. All numbers are computed by hand.
 */
#include "calls.h"

typedef struct conv_params {
  tn_ints kernel;
  tn_ints stride;
  tn_ints dilate;
  tn_ints pad;
  int64_t num_filter;
  int64_t num_group;
} conv_params;

#define FIELDS_OF conv_params
static const tn_field *const conv_fields[] = {
    FIELD(TN_FIELD_INTS, kernel, NULL, PLAIN),
    FIELD(TN_FIELD_INTS, stride, "1", PLAIN),
    FIELD(TN_FIELD_INTS, dilate, "1", PLAIN),
    FIELD(TN_FIELD_INTS, pad, "0", PLAIN),
    FIELD(TN_FIELD_INT, num_filter, NULL, PLAIN),
    FIELD(TN_FIELD_INT, num_group, "1", PLAIN)};
#undef FIELDS_OF

static const tn_node conv_nodes[] = {
    {TN_NODE_PARAM, 0, 0, 0, 0}, /* 0: kernel */
    {TN_NODE_PARAM, 1, 0, 0, 0}, /* 1: stride */
    {TN_NODE_PARAM, 2, 0, 0, 0}, /* 2: dilate */
    {TN_NODE_PARAM, 3, 0, 0, 0}, /* 3: pad */
    {TN_NODE_PARAM, 4, 0, 0, 0}, /* 4: num_filter */
    {TN_NODE_PARAM, 5, 0, 0, 0}, /* 5: num_group */
    {TN_NODE_DIM, 0, 0, 0, 0},   /* 6: N */
    {TN_NODE_DIM, 1, 0, 0, 0},   /* 7: C */
    {TN_NODE_PACK, 0, 0, 0, 0},  /* 8: S */
    {TN_NODE_DIV, 7, 5, 0, 0},   /* 9: C/num_group */
    {TN_NODE_CONST, 0, 0, 0, 2}, /* 10 */
    {TN_NODE_CONST, 0, 0, 0, 1}, /* 11 */
    {TN_NODE_MUL, 10, 3, 0, 0},  /* 12: 2*pad */
    {TN_NODE_ADD, 8, 12, 0, 0},  /* 13: S + 2*pad */
    {TN_NODE_SUB, 0, 11, 0, 0},  /* 14: kernel - 1 */
    {TN_NODE_MUL, 2, 14, 0, 0},  /* 15: dilate*(kernel - 1) */
    {TN_NODE_SUB, 13, 15, 0, 0}, /* 16 */
    {TN_NODE_SUB, 16, 11, 0, 0}, /* 17 */
    {TN_NODE_DIV, 17, 1, 0, 0},  /* 18: .../stride */
    {TN_NODE_ADD, 18, 11, 0, 0}, /* 19: ... + 1 */
    {TN_NODE_MOD, 7, 5, 0, 0},   /* 20: C % num_group */
    {TN_NODE_CONST, 0, 0, 0, 0}, /* 21 */
    {TN_NODE_EQ, 20, 21, 0, 0},  /* 22 */
};
static const tn_term conv_data[] = {{6, 0}, {7, 0}, {8, 1}};
static const tn_term conv_weight[] = {{4, 0}, {9, 0}, {0, 1}};
static const tn_term conv_bias[] = {{4, 0}};
static const tn_term conv_out[] = {{6, 0}, {4, 0}, {19, 1}};
static const tn_arg *const conv_inputs[] = {
    ARG("data", T_ONE, PATTERN(conv_data, "[N, C, S...]")),
    ARG("weight", T_ONE,
        PATTERN(conv_weight, "[num_filter, C/num_group, kernel...]")),
    ARG("bias", T_ONE, PATTERN(conv_bias, "[num_filter]"),
        .flags = TN_ARG_OPTIONAL)};
static const tn_arg *const conv_outputs[] = {
    ARG("out", T_ONE, PATTERN(conv_out, "[N, num_filter, ...]"))};
static const tn_require conv_require = {
    .struct_size = sizeof(tn_require),
    .node = 22,
    .that = "C % num_group == 0",
    .say = "channels of `data` must divide into `num_group`"};
static const tn_require *const conv_requires[] = {&conv_require};
static const char *const conv_dims[] = {"N", "C"};
static const char *const conv_packs[] = {"S"};
static const tn_op conv_op = {.struct_size = sizeof(tn_op),
                              .name = "convolution",
                              .n_params = COUNT(conv_fields),
                              .params = conv_fields,
                              .params_size = sizeof(conv_params),
                              .n_dtype_vars = 1,
                              .dtype_vars = float_vars,
                              .n_inputs = 3,
                              .inputs = conv_inputs,
                              .n_outputs = 1,
                              .outputs = conv_outputs,
                              .n_dims = 2,
                              .dims = conv_dims,
                              .n_packs = 1,
                              .packs = conv_packs,
                              .n_nodes = COUNT(conv_nodes),
                              .nodes = conv_nodes,
                              .n_requires = 1,
                              .requirements = conv_requires};

static const int64_t ones[] = {1, 1}, zeros[] = {0, 0}, twos[] = {2, 2};
static const int64_t threes[] = {3, 3}, sevens[] = {7, 7};

static conv_params params_of(const int64_t *kernel, const int64_t *stride,
                             const int64_t *pad, int64_t num_filter) {
  return (conv_params){{kernel, 2}, {stride, 2}, {ones, 2},
                       {pad, 2},    num_filter,  1};
}

Test(convolution, shapes_follow_from_data_and_parameters) {
  /* (224 + 2*3 - 6 - 1)/2 + 1 = 111 + 1 */
  const conv_params p = params_of(sevens, twos, threes, 64);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, 3, 224, 224);
  expect_code(&c, TN_OK);
  is_shape(&c.in[1], SHAPE(64, 3, 7, 7));
  is_shape(&c.in[2], SHAPE(64));
  is_shape(&c.out[0], SHAPE(1, 64, 112, 112));
}

Test(convolution, the_window_decides_the_rank_and_the_weight_the_channels) {
  const conv_params p = params_of(threes, ones, ones, 20);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[1] = SHAPE(-1, 2, -1, -1);
  expect_code(&c, TN_INCOMPLETE);
  is_shape(&c.in[0], SHAPE(-1, 2, -1, -1));
  is_shape(&c.in[1], SHAPE(20, 2, 3, 3));
  is_shape(&c.out[0], SHAPE(-1, 20, -1, -1));
}

Test(convolution, dilation_widens_the_window) {
  /* 7 - 2*(3 - 1) - 1 = 2, + 1 = 3; 9 gives 5 */
  conv_params p = params_of(threes, ones, zeros, 4);
  p.dilate.v = twos;
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(2, 1, 7, 9);
  expect_code(&c, TN_OK);
  is_shape(&c.out[0], SHAPE(2, 4, 3, 5));
}

Test(convolution, the_output_decides_the_data_if_the_stride_is_one) {
  const conv_params p = params_of(threes, ones, ones, 21);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(-1, 10, -1, -1);
  c.out[0] = SHAPE(5, 21, 32, 32);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(5, 10, 32, 32));
  is_shape(&c.in[1], SHAPE(21, 10, 3, 3));
}

Test(convolution, a_larger_stride_has_no_unique_solution) {
  const conv_params p = params_of(threes, twos, ones, 21);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(-1, 10, -1, -1);
  c.out[0] = SHAPE(5, 21, 16, 16);
  expect_code(&c, TN_INCOMPLETE);
  is_shape(&c.in[0], SHAPE(5, 10, -1, -1)); /* 31 and 32 both give 16 */
  is_shape(&c.in[1], SHAPE(21, 10, 3, 3));
}

Test(convolution, a_required_division_is_exact_and_can_be_solved) {
  conv_params p = params_of(threes, ones, ones, 20);
  p.num_group = 5;
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, -1, 8, 8);
  c.in[1] = SHAPE(20, 2, 3, 3);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(1, 10, 8, 8));
  tn_op loose = conv_op; /* without the requirement, 10 ... 14 fit */
  loose.n_requires = 0;
  call_init(&c, &loose, &p);
  c.in[0] = SHAPE(1, -1, 8, 8);
  c.in[1] = SHAPE(20, 2, 3, 3);
  expect_code(&c, TN_INCOMPLETE);
  is_shape(&c.in[0], SHAPE(1, -1, 8, 8));
}

Test(convolution, a_broken_requirement_states_the_reason) {
  conv_params p = params_of(threes, ones, ones, 21);
  p.num_group = 3;
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, 10, 8, 8);
  expect_text(&c, TN_SHAPE,
              "operator demo.op@1: channels of `data` must divide into "
              "`num_group` (it requires C % num_group == 0; here C = 10, "
              "num_group = 3)");
}

/* 1/7 channels would be 0, which contradicts any weight. */
Test(convolution, a_broken_requirement_explains_a_conflict_of_shapes) {
  conv_params p = params_of(threes, ones, ones, 21);
  p.num_group = 7;
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, 1, 8, 8);
  c.in[1] = SHAPE(21, 1, 3, 3);
  expect_text(&c, TN_SHAPE,
              "operator demo.op@1: channels of `data` must divide into "
              "`num_group` (it requires C % num_group == 0; here C = 1, "
              "num_group = 7)");
  is_shape(&c.in[1], SHAPE(21, 1, 3, 3));
  p.num_group = 1;
  c.in[1] = SHAPE(21, 2, 3, 3);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 1 of input "
              "`weight` is 1 by input `data` (1,1,8,8) but 2 by input `weight` "
              "(21,2,3,3); the rule of `weight` is [num_filter, C/num_group, "
              "kernel...]");
}

Test(convolution, a_rank_that_the_window_does_not_have_is_refused) {
  const conv_params p = params_of(threes, ones, ones, 21);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, 10, 8);
  expect_code(&c, TN_SHAPE);
  cr_assert_eq(c.in[1].ndim, -1);
  cr_assert_not_null(strstr(tn_error_text(), "operator demo.op@1"));
  cr_assert_not_null(strstr(tn_error_text(), "list of 1 with a list of 2"));
}

Test(convolution, a_window_larger_than_the_data_is_refused) {
  /* (1 + 0 - 2 - 1)/1 + 1 = -1 */
  const conv_params p = params_of(threes, ones, zeros, 1);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, 1, 1, 5);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 2 of output "
              "`out` would be -1 by input `data` (1,1,1,5); the rule of `out` "
              "is [N, num_filter, ...]");
}

Test(convolution, a_division_by_zero_is_reported_with_the_operator) {
  conv_params p = params_of(threes, ones, zeros, 1);
  p.num_group = 0;
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(1, 4, 5, 5);
  expect_code(&c, TN_OUT_OF_RANGE);
  cr_assert_not_null(strstr(tn_error_text(), "operator demo.op@1"));
  cr_assert_not_null(strstr(tn_error_text(), "divides 4 by 0"));
  cr_assert_eq(c.in[1].ndim, -1);
}

Test(convolution, empty_batches_are_ordinary) {
  const conv_params p = params_of(threes, ones, ones, 2);
  call c;
  call_init(&c, &conv_op, &p);
  c.in[0] = SHAPE(0, 3, 8, 8);
  expect_code(&c, TN_OK);
  is_shape(&c.out[0], SHAPE(0, 2, 8, 8));
}
