/* SPDX-License-Identifier: Apache-2.0
 * Shapes and element types: each rule in each direction, partial knowledge, and
 * conflicts, which name both sources. All numbers are computed by hand.
 */
#include "calls.h"

/* ------------------------------------------------- other small descriptions */

typedef struct one_param {
  int64_t n;
  tn_dtype dtype;
  uint32_t pad;
} one_param;

#define FIELDS_OF one_param
static const tn_field *const one_fields[] = {
    FIELD(TN_FIELD_INT, n, "1", PLAIN),
    FIELD(TN_FIELD_DTYPE, dtype, "f32", PLAIN)};
#undef FIELDS_OF

/* Nodes that several operators share: n, N, C, S..., n*C, R..., S + R. */
static const tn_node one_nodes[] = {
    {TN_NODE_PARAM, 0, 0, 0, 0}, {TN_NODE_DIM, 0, 0, 0, 0},
    {TN_NODE_DIM, 1, 0, 0, 0},   {TN_NODE_PACK, 0, 0, 0, 0},
    {TN_NODE_MUL, 0, 2, 0, 0},   {TN_NODE_PACK, 1, 0, 0, 0},
    {TN_NODE_ADD, 3, 5, 0, 0}};
static const char *const two_dims[] = {"N", "C"};
static const char *const two_packs[] = {"S", "R"};

#define ONE_PARAM                                                            \
  .struct_size = sizeof(tn_op), .n_params = COUNT(one_fields),               \
  .params = one_fields, .params_size = sizeof(one_param), .n_dtype_vars = 1, \
  .dtype_vars = float_vars, .n_dims = 2, .dims = two_dims, .n_packs = 2,     \
  .packs = two_packs, .n_nodes = COUNT(one_nodes), .nodes = one_nodes

/* Fully connected: data [N, C], weight [n, C], bias [n], out [N, n]. */
static const tn_term fc_data[] = {{1, 0}, {2, 0}};
static const tn_term fc_weight[] = {{0, 0}, {2, 0}};
static const tn_term fc_bias[] = {{0, 0}};
static const tn_term fc_out[] = {{1, 0}, {0, 0}};
static const tn_arg *const fc_inputs[] = {
    ARG("data", T_ONE, PATTERN(fc_data, "[N, C]")),
    ARG("weight", T_ONE, PATTERN(fc_weight, "[n, C]")),
    ARG("bias", T_ONE, PATTERN(fc_bias, "[n]"), .flags = TN_ARG_OPTIONAL)};
static const tn_arg *const fc_outputs[] = {
    ARG("out", T_ONE, PATTERN(fc_out, "[N, n]"))};
static const tn_op fc_op = {ONE_PARAM,      .name = "dense",
                            .n_inputs = 3,  .inputs = fc_inputs,
                            .n_outputs = 1, .outputs = fc_outputs};

/* split: data [N, n*C, S...], n outputs [N, C, S...]. */
static const tn_term split_data[] = {{1, 0}, {4, 0}, {3, 1}};
static const tn_term split_out[] = {{1, 0}, {2, 0}, {3, 1}};
static const tn_arg *const split_inputs[] = {
    ARG("data", T_ONE, PATTERN(split_data, "[N, n*C, S...]"))};
static const tn_arg *const split_outputs[] = {
    ARG("out", TYPE_T, .count = 0, PATTERN(split_out, "[N, C, S...]"))};
static const tn_op split_op = {ONE_PARAM,      .name = "split",
                               .n_inputs = 1,  .inputs = split_inputs,
                               .n_outputs = 1, .outputs = split_outputs};

/* Two packs in one pattern: [S..., R...] from [S...] and [R...]. */
static const tn_term outer_a[] = {{3, 1}}, outer_b[] = {{5, 1}};
static const tn_term outer_out[] = {{3, 1}, {5, 1}};
static const tn_arg *const outer_inputs[] = {
    ARG("a", T_ONE, PATTERN(outer_a, "[S...]")),
    ARG("b", T_ONE, PATTERN(outer_b, "[R...]"))};
static const tn_arg *const outer_outputs[] = {
    ARG("out", T_ONE, PATTERN(outer_out, "[S..., R...]"))};
static const tn_op outer_op = {ONE_PARAM,      .name = "outer",
                               .n_inputs = 2,  .inputs = outer_inputs,
                               .n_outputs = 1, .outputs = outer_outputs};

/* A pack with a length that the term after it decides: [S..., (S + R)...],
 * [R...]. */
static const tn_term told_data[] = {{3, 1}, {6, 1}}, told_by[] = {{5, 1}};
static const tn_term told_out[] = {{3, 1}};
static const tn_arg *const told_inputs[] = {
    ARG("by", T_ONE, PATTERN(told_by, "[R...]")),
    ARG("data", T_ONE, PATTERN(told_data, "[S..., (S + R)...]"))};
static const tn_arg *const told_outputs[] = {
    ARG("out", T_ONE, PATTERN(told_out, "[S...]"))};
static const tn_op told_op = {ONE_PARAM,      .name = "told",
                              .n_inputs = 2,  .inputs = told_inputs,
                              .n_outputs = 1, .outputs = told_outputs};

/* broadcast_add, and a sum of any number of equal arrays. */
static const tn_arg *const any_inputs[] = {ARG("lhs", T_ONE),
                                           ARG("rhs", T_ONE)};
static const tn_arg *const broadcast_outputs[] = {
    ARG("out", T_ONE, .shape_kind = TN_SHAPE_BROADCAST)};
static const tn_op broadcast_op = {
    ONE_PARAM,      .name = "broadcast_add",
    .n_inputs = 2,  .inputs = any_inputs,
    .n_outputs = 1, .outputs = broadcast_outputs};

/* The operator of its gradient: the output gradient has the shape to which the
 * others are broadcast. */
static const tn_arg *const summed_inputs[] = {
    ARG("head", T_ONE, .shape_kind = TN_SHAPE_BROADCAST), ARG("lhs", T_ONE),
    ARG("rhs", T_ONE)};
static const tn_arg *const summed_outputs[] = {
    ARG("slope", T_ONE, .shape_kind = TN_SHAPE_SAME,
        .shape_list = TN_OPERAND_IN, .shape_index = 1)};
static const tn_op summed_op = {ONE_PARAM,      .name = "broadcast_add_grad",
                                .n_inputs = 3,  .inputs = summed_inputs,
                                .n_outputs = 1, .outputs = summed_outputs};

static const tn_arg *const sum_inputs[] = {
    ARG("first", T_ONE),
    ARG("more", T_ONE, SAME_AS_INPUT(0), .flags = TN_ARG_VARIADIC)};
static const tn_arg *const same_outputs[] = {
    ARG("out", T_ONE, SAME_AS_INPUT(0))};
static const tn_op sum_op = {ONE_PARAM,      .name = "sum",
                             .n_inputs = 2,  .inputs = sum_inputs,
                             .n_outputs = 1, .outputs = same_outputs};

/* cast: another type for the output, by parameter 1; less: always bool. */
static const tn_arg *const data_inputs[] = {ARG("data", T_ONE)};
static const tn_arg *const cast_outputs[] = {
    ARG("out", ONE, .dtype_var = TN_NONE, .dtype_param = 1, SAME_AS_INPUT(0))};
static const tn_op cast_op = {ONE_PARAM,      .name = "cast",
                              .n_inputs = 1,  .inputs = data_inputs,
                              .n_outputs = 1, .outputs = cast_outputs};
static const tn_arg *const less_outputs[] = {
    ARG("out", ONE, .dtype_var = TN_NONE, .dtype_param = TN_NONE,
        .dtype = TN_BOOL, SAME_AS_INPUT(0))};
static const tn_op less_op = {ONE_PARAM,      .name = "less",
                              .n_inputs = 2,  .inputs = add_inputs,
                              .n_outputs = 1, .outputs = less_outputs};

/* where: an output with a shape that only compute knows. */
static const tn_arg *const where_outputs[] = {
    ARG("out", T_ONE, .flags = TN_ARG_DYNAMIC)};
static const tn_op where_op = {ONE_PARAM,      .name = "where",
                               .n_inputs = 1,  .inputs = data_inputs,
                               .n_outputs = 1, .outputs = where_outputs};

/* --------------------------------------------------------------- equal shapes
 */

Test(same, the_fast_path_fills_outputs) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = c.in[1] = SHAPE(2, 3);
  expect_code(&c, TN_OK);
  is_shape(&c.out[0], SHAPE(2, 3));
  cr_assert_eq(c.out[0].dtype, TN_F32);
}

Test(same, partial_shapes_complete_each_other) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = SHAPE(-1, 10);
  c.in[1] = SHAPE(12, -1);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(12, 10));
  is_shape(&c.in[1], SHAPE(12, 10));
  is_shape(&c.out[0], SHAPE(12, 10));
}

Test(same, outputs_decide_inputs) {
  call c;
  call_init(&c, &add_op, NULL);
  c.out[0] = SHAPE(4, 0);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(4, 0));
  is_shape(&c.in[1], SHAPE(4, 0));
  cr_assert_eq(c.in[1].dtype, TN_F32);
}

Test(same, products_and_sums_of_partial_shapes_combine) {
  /* d = a*b + b*c with a = (2,?) and c = (?,3). */
  call ab, bc, sum;
  tn_sig a = SHAPE(2, -1), b = NOTHING, c = SHAPE(-1, 3);
  tn_sig left = NOTHING, right = NOTHING, d = NOTHING;
  call_init(&ab, &add_op, NULL);
  call_init(&bc, &add_op, NULL);
  call_init(&sum, &add_op, NULL);
  for (int sweep = 0; sweep < 3; ++sweep) {
    ab.in[0] = a, ab.in[1] = b, ab.out[0] = left;
    (void)!tn__infer_signature(&ab.args, &ab.io);
    a = ab.in[0], b = ab.in[1], left = ab.out[0];
    bc.in[0] = b, bc.in[1] = c, bc.out[0] = right;
    (void)!tn__infer_signature(&bc.args, &bc.io);
    b = bc.in[0], c = bc.in[1], right = bc.out[0];
    sum.in[0] = left, sum.in[1] = right, sum.out[0] = d;
    (void)!tn__infer_signature(&sum.args, &sum.io);
    left = sum.in[0], right = sum.in[1], d = sum.out[0];
  }
  const tn_sig *all[] = {&a, &b, &c, &left, &right, &d};
  for (size_t i = 0; i < COUNT(all); ++i) is_shape(all[i], SHAPE(2, 3));
}

Test(same, a_contradiction_names_both_inputs) {
  call c;
  call_init(&c, &add_op, NULL);
  c.args.name = "elemwise.add@1";
  c.in[0] = SHAPE(2, 3);
  c.in[1] = SHAPE(3, 3);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator elemwise.add@1: dimension 0 is 2 "
              "by input `lhs` (2,3) but 3 by input `rhs` (3,3)");
}

Test(same, a_contradiction_names_the_first_source) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[1] = SHAPE(3, -1); /* lhs gets 3 from rhs, and 4 from out */
  c.out[0] = SHAPE(5, 4);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 0 is 3 by "
              "input `rhs` (3,?) but 5 by output `out` (5,4)");
}

Test(same, ranks_that_differ_are_a_contradiction) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = SHAPE(2, 3);
  c.in[1] = SHAPE(2);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: the number of "
              "dimensions is 2 by input `lhs` (2,3) but 1 by input `rhs` (2)");
}

Test(same, unknown_operands_are_listed) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = UNTYPED(2, -1);
  expect_code(&c, TN_INCOMPLETE);
  cr_assert_str_eq(
      tn_error_text(),
      "operator demo.op@1: not enough is known of input `lhs` (2,?) of unknown "
      "type, input `rhs` (2,?) of unknown type, output `out` (2,?) of unknown "
      "type (`?` is an unknown dimension); state more shapes or types");
  is_shape(&c.in[1], UNTYPED(2, -1));
}

Test(same, further_inputs_follow_the_last_description) {
  call c;
  call_init(&c, &sum_op, &(one_param){0});
  c.io.n_in = 4;
  c.in[2] = SHAPE(7, -1);
  c.in[3] = SHAPE(-1, 5);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(7, 5));
  is_shape(&c.out[0], SHAPE(7, 5));
  c.in[3].shape[1] = 6;
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 1 is 5 by "
              "input `first` (7,5) but 6 by input `more` number 2 (7,6)");
}

Test(same, a_scalar_has_no_dimensions_and_is_known) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = c.in[1] = sig_of(TN_F64, 0, NULL);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.out[0].ndim, 0);
  cr_assert_eq(c.out[0].dtype, TN_F64);
}

/* --------------------------------------------------------------- patterns */

Test(pattern, a_dense_layer_finds_its_weights) {
  call c;
  call_init(&c, &fc_op, &(one_param){.n = 1000});
  c.in[0] = SHAPE(100, 100);
  expect_code(&c, TN_OK);
  is_shape(&c.in[1], SHAPE(1000, 100));
  is_shape(&c.in[2], SHAPE(1000));
  is_shape(&c.out[0], SHAPE(100, 1000));
}

Test(pattern, a_weight_of_the_wrong_shape_is_refused_with_its_rule) {
  call c;
  call_init(&c, &fc_op, &(one_param){.n = 1000});
  c.in[0] = SHAPE(100, 100);
  c.in[1] = SHAPE(1, 100);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 0 of input "
              "`weight` is 1 by input `weight` (1,100) but 1000 by the "
              "operator's rule; the rule of `weight` is [n, C]");
  c.in[1] = SHAPE(1000, 99);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 1 of input "
              "`weight` is 100 by input `data` (100,100) but 99 by input "
              "`weight` (1000,99); the rule of `weight` is [n, C]");
}

Test(pattern, a_dense_layer_works_from_both_ends) {
  call c;
  call_init(&c, &fc_op, &(one_param){.n = 21});
  c.in[0] = SHAPE(-1, 10);
  c.out[0] = SHAPE(5, -1);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(5, 10));
  is_shape(&c.in[1], SHAPE(21, 10));
  is_shape(&c.out[0], SHAPE(5, 21));
}

Test(pattern, types_flow_to_weights) {
  call c;
  call_init(&c, &fc_op, &(one_param){.n = 10});
  c.in[0] = sig_of(TN_F16, 2, (const int64_t[]){7, 7});
  expect_code(&c, TN_OK);
  cr_assert_eq(c.in[1].dtype, TN_F16);
  cr_assert_eq(c.in[2].dtype, TN_F16);
  cr_assert_eq(c.out[0].dtype, TN_F16);
}

Test(pattern, an_absent_input_takes_no_part) {
  const uint32_t absent[] = {0, 0, 1};
  call c;
  call_init(&c, &fc_op, &(one_param){.n = 4});
  c.args.absent = absent;
  c.in[0] = SHAPE(2, 3);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.in[2].ndim, -1);
  c.io.n_in = 2; /* the same call without the optional input */
  c.args.absent = NULL;
  expect_code(&c, TN_OK);
}

Test(pattern, the_wrong_rank_names_the_rule) {
  call c;
  call_init(&c, &fc_op, &(one_param){.n = 4});
  c.in[0] = SHAPE(2, 3, 4);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: the number of "
              "dimensions of input `data` is 3 by input `data` (2,3,4) but 2 "
              "by the operator's rule; the rule of `data` is [N, C]");
}

Test(pattern, products_are_solved_for_their_unknown_factor) {
  call c;
  uint32_t n_out = 0;
  call_init(&c, &split_op, &(one_param){.n = 3});
  cr_assert_eq(tn__infer_n_outputs(&c.args, 1, &n_out), TN_OK);
  cr_assert_eq(n_out, 3);
  c.io.n_out = 3;
  c.in[0] = SHAPE(-1, 15, -1);
  c.out[1] = SHAPE(3, -1, 2);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(3, 15, 2));
  for (int i = 0; i < 3; ++i) is_shape(&c.out[i], SHAPE(3, 5, 2));
}

Test(pattern, products_without_a_whole_factor_are_a_contradiction) {
  call c;
  call_init(&c, &split_op, &(one_param){.n = 3});
  c.io.n_out = 3;
  c.in[0] = SHAPE(1, 16);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: no sizes give "
              "dimension 1 of input `data` (1,16) the value 16; the rule of "
              "`data` is [N, n*C, S...]");
}

Test(pattern, the_number_of_outputs_is_checked) {
  call c;
  call_init(&c, &split_op, &(one_param){.n = 3});
  c.io.n_out = 2;
  c.in[0] = SHAPE(1, 15);
  expect_text(&c, TN_INVALID,
              "operator demo.op@1 has 3 outputs with these parameters, but 2 "
              "were given");
  uint32_t n_out = 0;
  call_init(&c, &split_op, &(one_param){.n = -1});
  cr_assert_eq(tn__infer_n_outputs(&c.args, 1, &n_out), TN_OUT_OF_RANGE);
}

Test(pattern, two_unknown_packs_wait_for_one_of_them) {
  call c;
  call_init(&c, &outer_op, &(one_param){0});
  c.out[0] = SHAPE(2, 3, 4);
  expect_code(&c, TN_INCOMPLETE);
  cr_assert_eq(c.in[0].ndim, -1);
  c.in[0] = SHAPE(2, -1);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(2, 3));
  is_shape(&c.in[1], SHAPE(4));
}

Test(pattern, a_term_decides_the_length_of_a_pack_before_it) {
  call c;
  call_init(&c, &told_op, &(one_param){0});
  c.in[0] = SHAPE(5, 6);
  c.in[1] = SHAPE(3, 4, 8, 10);
  expect_code(&c, TN_OK);
  is_shape(&c.out[0], SHAPE(3, 4));
  call_init(&c, &told_op, &(one_param){0});
  c.in[0] = SHAPE(5, 6);
  c.in[1] = SHAPE(3, 4);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: the number of "
              "dimensions of input `data` is 4 by input `by` (5,6) but 2 by "
              "input `data` (3,4); the rule of `data` is [S..., (S + R)...]");
}

Test(pattern, an_empty_pack_leaves_a_scalar) {
  call c;
  call_init(&c, &outer_op, &(one_param){0});
  c.in[0] = SHAPE(2, 3);
  c.out[0] = SHAPE(2, 3);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.in[1].ndim, 0);
}

Test(pattern, too_many_inputs_are_refused_by_name) {
  call c;
  call_init(&c, &add_op, NULL);
  c.io.n_in = 3;
  expect_text(&c, TN_INVALID,
              "operator demo.op@1 has 2 inputs (lhs, rhs), but 3 were given");
  c.io.n_in = 1;
  expect_text(&c, TN_INVALID,
              "operator demo.op@1 has 2 inputs (lhs, rhs), but 1 was given");
}

/* One input of one dimension, which is the last of these nodes, and an output
 * [N, C]. The input is 6; the output decides N and C. */
static call solve_input(const tn_node *nodes, uint32_t n, tn_sig out,
                        tn_code code) {
  const tn_term term[] = {{(int32_t)n - 1, 0}};
  static const tn_term pair[] = {{0, 0}, {1, 0}};
  const tn_arg *const inputs[] = {ARG("x", T_ONE, PATTERN(term, "[rule]"))};
  const tn_arg *const outputs[] = {ARG("y", T_ONE, PATTERN(pair, "[N, C]"))};
  const tn_op op = {.n_dtype_vars = 1,
                    .dtype_vars = float_vars,
                    .n_inputs = 1,
                    .inputs = inputs,
                    .n_outputs = 1,
                    .outputs = outputs,
                    .n_dims = 2,
                    .dims = two_dims,
                    .n_nodes = n,
                    .nodes = nodes};
  call c;
  call_init(&c, &op, NULL);
  c.in[0] = SHAPE(6);
  c.out[0] = out;
  expect_code(&c, code);
  return c;
}

/* The same for `a op b`, nodes 0: N, 1: C, 2: the constant 2. */
static int64_t solved_for_n(uint32_t op, int32_t a, int32_t b, tn_code code) {
  const tn_node nodes[] = {{TN_NODE_DIM, 0, 0, 0, 0},
                           {TN_NODE_DIM, 1, 0, 0, 0},
                           {TN_NODE_CONST, 0, 0, 0, 2},
                           {op, a, b, 0, 0}};
  const call c = solve_input(nodes, COUNT(nodes), SHAPE(-1, 9), code);
  return c.out[0].shape[0];
}

Test(pattern, each_operation_is_solved_where_one_number_fits) {
  cr_assert_eq(solved_for_n(TN_NODE_ADD, 0, 2, TN_OK), 4); /* N + 2 = 6 */
  cr_assert_eq(solved_for_n(TN_NODE_ADD, 2, 0, TN_OK), 4);
  cr_assert_eq(solved_for_n(TN_NODE_SUB, 0, 2, TN_OK), 8); /* N - 2 = 6 */
  cr_assert_eq(solved_for_n(TN_NODE_SUB, 1, 0, TN_OK), 3); /* 9 - N = 6 */
  cr_assert_eq(solved_for_n(TN_NODE_MUL, 0, 2, TN_OK), 3); /* N * 2 = 6 */
  (void)solved_for_n(TN_NODE_MUL, 0, 1, TN_SHAPE);         /* N * 9 = 6 */
  (void)solved_for_n(TN_NODE_SUB, 2, 0, TN_SHAPE);         /* 2 - N = 6 */
  cr_assert_eq(solved_for_n(TN_NODE_DIV, 0, 2, TN_INCOMPLETE), -1);
  cr_assert_eq(solved_for_n(TN_NODE_MAX, 0, 2, TN_INCOMPLETE), -1);
  cr_assert_eq(solved_for_n(TN_NODE_ADD, 0, 0, TN_INCOMPLETE), -1);
}

Test(pattern, a_selection_and_a_sign_are_solved) {
  /* select(1, -(2 - N), C) = 6 */
  const tn_node nodes[] = {
      {TN_NODE_DIM, 0, 0, 0, 0},   {TN_NODE_DIM, 1, 0, 0, 0},
      {TN_NODE_CONST, 0, 0, 0, 2}, {TN_NODE_SUB, 2, 0, 0, 0},
      {TN_NODE_NEG, 3, 0, 0, 0},   {TN_NODE_CONST, 0, 0, 0, 1},
      {TN_NODE_SELECT, 5, 4, 1, 0}};
  const call c = solve_input(nodes, COUNT(nodes), SHAPE(-1, 9), TN_OK);
  cr_assert_eq(c.out[0].shape[0], 8);
}

Test(pattern, the_shape_of_an_operand_in_a_rule_works_in_both_directions) {
  static const tn_node nodes[] = {
      {TN_NODE_OPERAND_SHAPE, TN_OPERAND_IN, 0, 0, 0}};
  static const tn_term spread[] = {{0, 1}};
  const tn_arg *const outputs[] = {
      ARG("out", T_ONE, PATTERN(spread, "[shape(data)...]"))};
  const tn_op op = {.n_dtype_vars = 1,
                    .dtype_vars = float_vars,
                    .n_inputs = 1,
                    .inputs = data_inputs,
                    .n_outputs = 1,
                    .outputs = outputs,
                    .n_nodes = 1,
                    .nodes = nodes};
  call c;
  call_init(&c, &op, NULL);
  c.in[0] = SHAPE(2, -1);
  c.out[0] = SHAPE(-1, 3);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(2, 3));
  is_shape(&c.out[0], SHAPE(2, 3));
}

Test(pattern, limits_are_errors) {
  static tn_sig many[1025];
  call c;
  call_init(&c, &sum_op, &(one_param){0});
  for (size_t i = 0; i < COUNT(many); ++i) many[i] = SHAPE(2);
  c.io.in = many;
  c.io.n_in = COUNT(many) - 1; /* and one output */
  expect_code(&c, TN_UNSUPPORTED);
  cr_assert_not_null(strstr(tn_error_text(), "1025 operands in one call"));
  c.io.n_in = COUNT(many) - 2;
  expect_code(&c, TN_OK);
  is_shape(&c.out[0], SHAPE(2));
  call_init(&c, &add_op, NULL);
  c.in[0].ndim = TN_MAX_NDIM + 1;
  expect_code(&c, TN_INVALID);
}

Test(pattern, a_long_list_of_unknowns_is_cut_after_ten) {
  static tn_sig many[12];
  call c;
  call_init(&c, &sum_op, &(one_param){0});
  for (size_t i = 0; i < COUNT(many); ++i) many[i] = NOTHING;
  c.io.in = many;
  c.io.n_in = COUNT(many);
  expect_code(&c, TN_INCOMPLETE);
  cr_assert_not_null(strstr(tn_error_text(), "`more` number 8 of unknown"));
  cr_assert_null(strstr(tn_error_text(), "number 9 "));
  cr_assert_not_null(strstr(tn_error_text(), " and 3 more"));
}

/* --------------------------------------------------------------- broadcast */

static const one_param no_param = {0};

/* Expects the broadcast shape `want` of a and b. */
static void expect_broadcast(tn_sig a, tn_sig b, tn_sig want) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = a, c.in[1] = b;
  expect_code(&c, TN_OK);
  is_shape(&c.out[0], want);
}

Test(broadcast, shapes_align_at_the_right) {
  expect_broadcast(SHAPE(2, 3), SHAPE(2, 3), SHAPE(2, 3));
  expect_broadcast(SHAPE(8, 1, 6, 1), SHAPE(7, 1, 5), SHAPE(8, 7, 6, 5));
  expect_broadcast(SHAPE(5, 4), SHAPE(1), SHAPE(5, 4));
  expect_broadcast(SHAPE(3), sig_of(TN_F32, 0, NULL), SHAPE(3));
  expect_broadcast(SHAPE(0, 3), SHAPE(1, 3), SHAPE(0, 3));
  expect_broadcast(SHAPE(1, 1), SHAPE(1), SHAPE(1, 1));
}

Test(broadcast, dimensions_that_differ_name_both_inputs) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = SHAPE(2, 3);
  c.in[1] = SHAPE(4);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 1 of output "
              "`out` is 3 by input `lhs` (2,3) but 4 by input `rhs` (4)");
  c.in[1] = SHAPE(0, 3); /* 0 extends only 1, as in numpy */
  expect_code(&c, TN_SHAPE);
}

Test(broadcast, an_output_of_one_makes_inputs_one) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = SHAPE(-1, 3);
  c.in[1] = SHAPE(-1, 1);
  c.out[0] = SHAPE(1, 3);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(1, 3));
  is_shape(&c.in[1], SHAPE(1, 1));
}

Test(broadcast, the_only_input_that_can_be_wide_is) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = SHAPE(-1, 3);
  c.in[1] = SHAPE(3);
  c.out[0] = SHAPE(5, 3);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(5, 3));
}

Test(broadcast, an_input_can_have_the_broadcast_shape_of_the_others) {
  call c;
  call_init(&c, &summed_op, &no_param);
  c.in[0] = sig_of(TN_F32, -1, NULL);
  c.in[1] = SHAPE(2, 1);
  c.in[2] = SHAPE(3);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(2, 3));
  is_shape(&c.out[0], SHAPE(2, 1));
  c.in[0] = SHAPE(4, 2, 3); /* not even if it could be repeated to that size */
  expect_text(
      &c, TN_SHAPE,
      "shapes contradict in operator demo.op@1: the number of dimensions "
      "of input `head` is 3 by input `head` (4,2,3) but 2 by input "
      "`lhs` (2,1)");
}

Test(broadcast, two_possible_inputs_stay_unknown) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = SHAPE(-1);
  c.in[1] = SHAPE(-1);
  c.out[0] = SHAPE(5);
  expect_code(&c, TN_INCOMPLETE);
  is_shape(&c.in[0], SHAPE(-1));
  c.in[0] = SHAPE(5); /* the other one may be 1 or 5 */
  expect_code(&c, TN_INCOMPLETE);
  is_shape(&c.in[1], SHAPE(-1));
}

Test(broadcast, the_only_input_of_unknown_rank_may_have_to_be_the_longest) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = sig_of(TN_F32, -1, NULL);
  c.in[1] = SHAPE(3);
  c.out[0] = SHAPE(2, 3);
  expect_code(&c, TN_INCOMPLETE);
  is_shape(&c.in[0], SHAPE(2, -1)); /* 1 or 3 */
}

Test(broadcast, an_output_cannot_be_wider_than_its_inputs) {
  call c;
  call_init(&c, &broadcast_op, &no_param);
  c.in[0] = c.in[1] = SHAPE(1, 3);
  c.out[0] = SHAPE(2, 3);
  expect_code(&c, TN_SHAPE);
  cr_assert_not_null(strstr(tn_error_text(),
                            "is 1 by input `lhs` (1,3) but 2 by output `out` "
                            "(2,3)"));
}

/* ------------------------------------------------------------ element types */

Test(types, mixed_types_name_both_operands) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = SHAPE(2, 3);
  c.in[1] = sig_of(TN_F64, 2, (const int64_t[]){2, 3});
  expect_text(&c, TN_DTYPE,
              "element types contradict in operator demo.op@1: T is f32 by "
              "input `lhs` but f64 by input `rhs`; convert one of them first, "
              "types are never converted silently");
}

Test(types, a_type_outside_the_set_is_refused) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = c.in[1] = sig_of(TN_I32, 1, (const int64_t[]){2});
  expect_text(&c, TN_DTYPE,
              "operator demo.op@1: input `lhs` is i32, but T is one of f16 "
              "bf16 f32 f64; convert it first");
}

Test(types, the_output_may_decide_the_inputs) {
  call c;
  call_init(&c, &add_op, NULL);
  c.in[0] = c.in[1] = UNTYPED(2);
  c.out[0] = sig_of(TN_F16, -1, NULL);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.in[0].dtype, TN_F16);
  cr_assert_eq(c.in[1].dtype, TN_F16);
}

Test(types, a_constant_type_is_filled_in_and_checked) {
  call c;
  call_init(&c, &less_op, &no_param);
  c.in[0] = c.in[1] = SHAPE(2);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.out[0].dtype, TN_BOOL);
  c.out[0].dtype = TN_F32;
  expect_text(&c, TN_DTYPE,
              "element types contradict in operator demo.op@1: output `out` is "
              "f32, but the operator wants bool there");
}

Test(types, a_parameter_may_decide) {
  call c;
  call_init(&c, &cast_op, &(one_param){.dtype = TN_I64});
  c.in[0] = SHAPE(2);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.out[0].dtype, TN_I64);
}

Test(types, a_variable_with_one_choice_is_known) {
  const tn_dtype_var only = {sizeof only, 0, TN_BIT_F64, "T"};
  const tn_dtype_var *const vars[] = {&only};
  tn_op op = add_op;
  op.dtype_vars = vars;
  call c;
  call_init(&c, &op, NULL);
  c.in[0] = UNTYPED(2);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.out[0].dtype, TN_F64);
}

Test(types, variables_are_read_from_a_signature) {
  tn_dtype vars[1] = {TN_BOOL};
  call c;
  call_init(&c, &add_op, NULL);
  tn__find_dtype_vars(&add_op, &c.io, vars);
  cr_assert_eq(vars[0], TN_DTYPE_UNKNOWN);
  c.in[1] = SHAPE(2);
  tn__find_dtype_vars(&add_op, &c.io, vars);
  cr_assert_eq(vars[0], TN_F32);
}

/* ---------------------------------------------------------- hooks, dynamics */

Test(hook, a_dynamic_output_may_stay_unknown) {
  call c;
  call_init(&c, &where_op, &no_param);
  c.in[0] = SHAPE(5);
  expect_code(&c, TN_OK);
  cr_assert_eq(c.out[0].ndim, -1);
  cr_assert_eq(c.out[0].dtype, TN_F32);
}

/* Implements the host's set_shape, as the registry's host table does it. */
static int32_t host_set_shape(const tn_frame *frame, uint32_t list,
                              uint32_t index, int32_t ndim,
                              const int64_t *shape) {
  tn__slot *slot = frame->run->host_data;
  const tn_sig sig = sig_of(TN_DTYPE_UNKNOWN, ndim, shape);
  return slot->set_shape(slot, frame, &sig, list, index);
}

static int32_t host_fail(const tn_frame *frame, int32_t code, const char *file,
                         int32_t line, const char *format, ...) {
  tn__slot *slot = frame->run->host_data;
  (void)file, (void)line;
  (void)snprintf(slot->text, sizeof slot->text, "%s", format);
  return slot->code = code;
}

static const tn_host host = {
    .struct_size = sizeof host, .fail = host_fail, .set_shape = host_set_shape};
static const tn_frame hook_base = {.struct_size = sizeof hook_base,
                                   .host = &host};

/* transpose of matrices, in both directions */
static int32_t transpose_infer(const tn_frame *frame) {
  const tn_tensor *from = &frame->in[0], *to = &frame->out[0];
  if (from->ndim > 2) return TN_FAIL(frame, TN_SHAPE, "matrices only");
  if (from->ndim == 2) {
    const int64_t turned[] = {from->shape[1], from->shape[0]};
    const int32_t rc =
        frame->host->set_shape(frame, TN_OPERAND_OUT, 0, 2, turned);
    if (rc != TN_OK) return rc;
  }
  if (to->ndim != 2) return TN_OK;
  const int64_t turned[] = {to->shape[1], to->shape[0]};
  return frame->host->set_shape(frame, TN_OPERAND_IN, 0, 2, turned);
}

static const tn_arg *const hook_inputs[] = {
    ARG("data", T_ONE, .shape_kind = TN_SHAPE_HOOK)};
static const tn_arg *const hook_outputs[] = {
    ARG("out", T_ONE, .shape_kind = TN_SHAPE_HOOK)};
static const tn_op hook_op = {ONE_PARAM,
                              .name = "transpose",
                              .n_inputs = 1,
                              .inputs = hook_inputs,
                              .n_outputs = 1,
                              .outputs = hook_outputs,
                              .infer = transpose_infer};

Test(hook, the_operators_own_function_runs_until_nothing_changes) {
  call c;
  call_init(&c, &hook_op, &no_param);
  c.args.base = &hook_base;
  c.in[0] = SHAPE(2, -1);
  c.out[0] = SHAPE(3, -1);
  expect_code(&c, TN_OK);
  is_shape(&c.in[0], SHAPE(2, 3));
  is_shape(&c.out[0], SHAPE(3, 2));
}

Test(hook, its_contradictions_and_refusals_are_reported) {
  call c;
  call_init(&c, &hook_op, &no_param);
  c.args.base = &hook_base;
  c.in[0] = SHAPE(2, 3);
  c.out[0] = SHAPE(2, 3);
  expect_text(&c, TN_SHAPE,
              "shapes contradict in operator demo.op@1: dimension 0 of output "
              "`out` is 2 by output `out` (2,3) but 3 by the operator's own "
              "infer function");
  c.in[0] = SHAPE(2, 3, 4);
  expect_text(&c, TN_SHAPE,
              "operator demo.op@1 refuses this call: matrices only");
}
