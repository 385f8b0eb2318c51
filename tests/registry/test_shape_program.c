/* SPDX-License-Identifier: Apache-2.0
 * Shape programs: arithmetic, its limits, and the values that they can read.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "calls.h"

/* The value of the last of n nodes; expects the result `code`. */
static int64_t value_of(const tn_node *nodes, uint32_t n, tn_code code) {
  const tn__scope scope = {.nodes = nodes, .n_nodes = n};
  tn__ivalue value;
  cr_assert_eq(tn__expr_eval(&scope, n - 1, &value), code);
  return value.v[0];
}

static int64_t value_of_binary(uint32_t op, int64_t a, int64_t b,
                               tn_code code) {
  const tn_node nodes[] = {{TN_NODE_CONST, 0, 0, 0, a},
                           {TN_NODE_CONST, 0, 0, 0, b},
                           {op, 0, 1, 0, 0}};
  return value_of(nodes, COUNT(nodes), code);
}

Test(expression, division_rounds_towards_minus_infinity) {
  cr_assert_eq(value_of_binary(TN_NODE_DIV, 7, 2, TN_OK), 3);
  cr_assert_eq(value_of_binary(TN_NODE_DIV, -7, 2, TN_OK), -4);
  cr_assert_eq(value_of_binary(TN_NODE_DIV, 7, -2, TN_OK), -4);
  cr_assert_eq(value_of_binary(TN_NODE_DIV, -8, 2, TN_OK), -4);
  cr_assert_eq(value_of_binary(TN_NODE_MOD, -7, 3, TN_OK), 2);
  cr_assert_eq(value_of_binary(TN_NODE_MOD, 7, -3, TN_OK), -2);
  cr_assert_eq(value_of_binary(TN_NODE_MOD, 7, -1, TN_OK), 0);
  (void)value_of_binary(TN_NODE_DIV, 1, 0, TN_OUT_OF_RANGE);
  (void)value_of_binary(TN_NODE_MOD, 1, 0, TN_OUT_OF_RANGE);
}

Test(expression, overflow_is_an_error_not_a_number) {
  (void)value_of_binary(TN_NODE_ADD, INT64_MAX, 1, TN_OUT_OF_RANGE);
  (void)value_of_binary(TN_NODE_SUB, -2, INT64_MAX, TN_OUT_OF_RANGE);
  (void)value_of_binary(TN_NODE_MUL, INT64_MAX, 2, TN_OUT_OF_RANGE);
  (void)value_of_binary(TN_NODE_DIV, INT64_MIN, -1, TN_OUT_OF_RANGE);
  (void)value_of_binary(TN_NODE_POW, 10, 19, TN_OUT_OF_RANGE);
  (void)value_of_binary(TN_NODE_POW, 2, -1, TN_OUT_OF_RANGE);
  cr_assert_eq(value_of_binary(TN_NODE_POW, 10, 18, TN_OK),
               1000000000000000000);
  cr_assert_eq(value_of_binary(TN_NODE_POW, -1, INT64_MAX, TN_OK), -1);
}

Test(expression, comparisons_and_choices) {
  cr_assert_eq(value_of_binary(TN_NODE_MIN, 2, -3, TN_OK), -3);
  cr_assert_eq(value_of_binary(TN_NODE_MAX, 2, -3, TN_OK), 2);
  cr_assert_eq(value_of_binary(TN_NODE_EQ, 2, 2, TN_OK), 1);
  cr_assert_eq(value_of_binary(TN_NODE_NE, 2, 2, TN_OK), 0);
  cr_assert_eq(value_of_binary(TN_NODE_LT, 1, 2, TN_OK), 1);
  cr_assert_eq(value_of_binary(TN_NODE_LE, 2, 2, TN_OK), 1);
  cr_assert_eq(value_of_binary(TN_NODE_GT, 1, 2, TN_OK), 0);
  cr_assert_eq(value_of_binary(TN_NODE_GE, 1, 2, TN_OK), 0);
  /* select(0, 1/0, -5): does not evaluate the other branch */
  const tn_node nodes[] = {
      {TN_NODE_CONST, 0, 0, 0, 0},  {TN_NODE_CONST, 0, 0, 0, 1},
      {TN_NODE_DIV, 1, 0, 0, 0},    {TN_NODE_CONST, 0, 0, 0, -5},
      {TN_NODE_SELECT, 0, 2, 3, 0}, {TN_NODE_ABS, 4, 0, 0, 0}};
  cr_assert_eq(value_of(nodes, 5, TN_OK), -5);
  cr_assert_eq(value_of(nodes, 6, TN_OK), 5);
}

Test(expression, known_parts_of_operands_are_read) {
  static const tn_node nodes[] = {
      {TN_NODE_OPERAND_RANK, TN_OPERAND_IN, 0, 0, 0},
      {TN_NODE_OPERAND_SIZE, TN_OPERAND_IN, 0, 0, 0},
      {TN_NODE_OPERAND_SHAPE, TN_OPERAND_IN, 0, 0, 0},
      {TN_NODE_RANK, 2, 0, 0, 0},
      {TN_NODE_HAS, 1, 0, 0, 0},
      {TN_NODE_OPERAND_SIZE, TN_OPERAND_IN, 1, 0, 0}};
  tn_sig in[] = {SHAPE(2, 3, 4), SHAPE(2, -1)};
  const tn_signature io = {.n_in = 2, .in = in};
  const tn__scope scope = {.nodes = nodes, .n_nodes = 6, .io = &io};
  static const int64_t expected[] = {3, 24, 2, 3, 1};
  tn__ivalue value;
  for (uint32_t i = 0; i < COUNT(expected); ++i) {
    cr_assert_eq(tn__expr_eval(&scope, i, &value), TN_OK);
    cr_assert(value.known);
    cr_assert_eq(value.v[0], expected[i]);
  }
  cr_assert_eq(tn__expr_eval(&scope, 5, &value), TN_OK);
  cr_assert_not(value.known);
}

typedef struct float_params {
  double low;
  double high;
  int64_t count;
  int32_t has_high;
  int32_t pad;
} float_params;

/* Compares parameter 0 with parameter `b`, or with `number` if b is -1. */
static int64_t compare_floats(uint32_t op, int32_t b, double number,
                              const float_params *params) {
  static const tn_field low = {.type = TN_FIELD_FLOAT, .name = "low"};
  static const tn_field high = {.type = TN_FIELD_FLOAT,
                                .name = "high",
                                .flags = TN_FIELD_OPTIONAL,
                                .offset = offsetof(float_params, high),
                                .has_offset = offsetof(float_params, has_high)};
  static const tn_field count = {.type = TN_FIELD_INT,
                                 .name = "count",
                                 .offset = offsetof(float_params, count)};
  static const tn_field *const fields[] = {&low, &high, &count};
  tn_node node = {TN_NODE_COMPARE_PARAMS, 0, b, (int32_t)op, 0};
  memcpy(&node.value, &number, sizeof number);
  const tn__scope scope = {.nodes = &node,
                           .n_nodes = 1,
                           .fields = fields,
                           .n_fields = 3,
                           .params = params};
  tn__ivalue value;
  cr_assert_eq(tn__expr_eval(&scope, 0, &value), TN_OK, "%s", tn_error_text());
  return value.known ? value.v[0] : -1;
}

Test(expression, floats_are_compared_with_parameters_and_numbers) {
  const float_params p = {.low = 0.25, .high = 0.5, .count = 3, .has_high = 1};
  const float_params none = {.low = 0.25, .high = 7};
  const float_params nan = {.low = NAN, .high = NAN, .has_high = 1};
  cr_expect_eq(compare_floats(TN_NODE_LT, 1, 0, &p), 1);
  cr_expect_eq(compare_floats(TN_NODE_GE, 1, 0, &p), 0);
  cr_expect_eq(compare_floats(TN_NODE_LT, 2, 0, &p), 1);
  cr_expect_eq(compare_floats(TN_NODE_EQ, -1, 0.25, &p), 1);
  cr_expect_eq(compare_floats(TN_NODE_NE, -1, 0.25, &p), 0);
  cr_expect_eq(compare_floats(TN_NODE_LE, -1, 0.25, &p), 1);
  cr_expect_eq(compare_floats(TN_NODE_GT, -1, 0.25, &p), 0);
  cr_expect_eq(compare_floats(TN_NODE_GT, 1, 0, &none), 1, "None is 0");
  cr_expect_eq(compare_floats(TN_NODE_EQ, 1, 0, &nan), 0);
  cr_expect_eq(compare_floats(TN_NODE_LE, 1, 0, &nan), 0);
  cr_expect_eq(compare_floats(TN_NODE_NE, 1, 0, &nan), 1);
  cr_expect_eq(compare_floats(TN_NODE_LT, 1, 0, NULL), -1, "not known yet");
}

Test(expression, malformed_programs_are_refused) {
  const tn_node loop[] = {{TN_NODE_NEG, 0, 0, 0, 0}};
  const tn_node strange[] = {{999, 0, 0, 0, 0}};
  (void)value_of(loop, 1, TN_PLUGIN);
  (void)value_of(strange, 1, TN_PLUGIN);
  const tn__scope scope = {.nodes = loop, .n_nodes = 1};
  tn__ivalue value;
  cr_assert_eq(tn__expr_eval(&scope, 7, &value), TN_PLUGIN);
}
