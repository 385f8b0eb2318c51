/* SPDX-License-Identifier: Apache-2.0
 * tn_formula_define: the operator that a formula becomes, and the messages
 * about formulas that become none.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugins/host.h"
#include "tenon/define.h"

static tn_runtime *open_runtime(void) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  return rt;
}

static tn_code define_formula(tn_runtime *rt, const char *expression,
                              tn_operator **out) {
  const tn_formula formula = {.struct_size = sizeof formula,
                              .expression = expression};
  return tn_formula_define(rt, &formula, out);
}

static void refuse_formula(const char *expression, const char *part) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = (tn_operator *)(uintptr_t)1;
  FAILS(define_formula(rt, expression, &op), TN_INVALID, part);
  cr_expect_null(op);
  tn_runtime_release(rt);
}

Test(text, names_are_inputs_in_the_order_of_their_use) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  const tn_value params[] = {
      {.key = "scale", .type = TN_FIELD_FLOAT, .as.f = 2.5},
      {.key = "shift", .type = TN_FIELD_INT, .as.i = -3},
      {.key = "slope", .type = TN_FIELD_STRING, .as.s = "0.125"}};
  const tn_formula formula = {.struct_size = sizeof formula,
                              .n = 3,
                              .params = params,
                              .name = "mine",
                              .expression = "scale*b + slope*a*b + shift"};
  OK(tn_formula_define(rt, &formula, &op));
  const tn_op *desc = tn_operator_desc(op);
  cr_assert_eq(desc->n_inputs, 2);
  cr_expect_str_eq(desc->inputs[0]->name, "b");
  cr_expect_str_eq(desc->inputs[1]->name, "a");
  cr_assert_eq(desc->n_params, 3);
  cr_expect_str_eq(desc->params[0]->name, "scale");
  cr_expect_str_eq(desc->params[0]->default_text, "2.5");
  tn_array *b =
      host_array(rt, TN_F32, (host_shape){1, {2}}, (const double[]){1, 2});
  tn_array *a =
      host_array(rt, TN_F32, (host_shape){0, {0}}, (const double[]){8});
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(b, a), NULL, TN_OUT(&y)));
  host_expect(y, (const double[]){0.5, 4}, 2, 0);
  tn_array_release(a), tn_array_release(b), tn_array_release(y);
  tn_runtime_release(rt);
}

Test(text, formulas_without_a_name_get_different_ones) {
  tn_runtime *rt = open_runtime();
  tn_operator *ops[2] = {NULL, NULL};
  OK(define_formula(rt, "x + 1", &ops[0]));
  OK(define_formula(rt, "x + 1", &ops[1]));
  cr_expect_neq(ops[0], ops[1]);
  OK(tn_operator_remove(rt, ops[0]));
  OK(define_formula(rt, "x + 1", &ops[0]));
  tn_runtime_release(rt);
}

Test(text, a_name_is_used_once) {
  tn_runtime *rt = open_runtime();
  const tn_formula formula = {
      .struct_size = sizeof formula, .name = "f", .expression = "x + 1"};
  OK(tn_formula_define(rt, &formula, NULL));
  FAILS(tn_formula_define(rt, &formula, NULL), TN_EXISTS, "host.f");
  tn_runtime_release(rt);
}

static bool accepts_dtype(tn_runtime *rt, tn_operator *op, tn_dtype dtype) {
  tn_array *x =
      host_array(rt, dtype, (host_shape){0, {0}}, (const double[]){1});
  tn_array *y = NULL;
  const tn_code rc = tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y));
  tn_array_release(x), tn_array_release(y);
  return rc == TN_OK;
}

Test(text, the_functions_decide_the_types) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  OK(define_formula(rt, "x^2 + 1", &op));
  cr_expect(accepts_dtype(rt, op, TN_I32) && accepts_dtype(rt, op, TN_BF16));
  OK(define_formula(rt, "exp(x)", &op));
  cr_expect(!accepts_dtype(rt, op, TN_I32) && accepts_dtype(rt, op, TN_F16));
  OK(define_formula(rt, "0.5*x", &op));
  cr_expect(!accepts_dtype(rt, op, TN_I32) && accepts_dtype(rt, op, TN_F64));
  OK(define_formula(rt, "bit_and(x, 6)", &op));
  cr_expect(accepts_dtype(rt, op, TN_I64) && !accepts_dtype(rt, op, TN_F32));
  tn_runtime_release(rt);
}

Test(text, an_input_may_have_the_name_of_the_output) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  OK(define_formula(rt, "out*result", &op));
  cr_expect_str_eq(tn_operator_desc(op)->outputs[0]->name, "value");
  tn_runtime_release(rt);
}

/* trigamma has no derivative here; the rest works. */
Test(text, a_formula_without_derivative_has_no_gradient) {
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  OK(define_formula(rt, "trigamma(x)", &op));
  cr_expect(accepts_dtype(rt, op, TN_F64));
  cr_expect_eq(tn_operator_desc(op)->gradient->kind, TN_GRADIENT_NONE);
  tn_runtime_release(rt);
}

Test(text, mistakes_have_their_place_in_the_formula) {
  refuse_formula("x + foo(y)",
                 "(formula):1:5: error[E0034]: `foo` is not a "
                 "function");
  refuse_formula("x + ", "(formula):1:");
  refuse_formula("", "(formula):1:1: error[E0030]");
  refuse_formula("x ** 2", "powers are written `x^2`");
  refuse_formula("exp(x, y)", "error[E0035]");
  refuse_formula("x < y < z", "error[E0036]");
  refuse_formula("x\n+ y", "(formula):1:");
  refuse_formula("grad.out*x", "error[E0039]");
  refuse_formula("x\x01", "(formula):1:2");
  refuse_formula("sum(x, axis)*axis", "`axis` is the name of axes");
  refuse_formula("1 + 2", "has no input");
  refuse_formula("Data + 1", "Data");
  refuse_formula("int + 1", "int");
}

Test(text, parameters_are_numbers_of_the_formula) {
  tn_runtime *rt = open_runtime();
  tn_value value = {.key = "k", .type = TN_FIELD_FLOAT, .as.f = 1};
  tn_formula formula = {.struct_size = sizeof formula,
                        .n = 1,
                        .params = &value,
                        .expression = "x + 1"};
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID,
        "the parameter `k` is not in the formula `x + 1`");
  formula.expression = "x + k";
  value = (tn_value){.key = "k", .type = TN_FIELD_STRING, .as.s = "big"};
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID, "big");
  value = (tn_value){.key = "k", .type = TN_FIELD_STRING, .as.s = NULL};
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID,
        "the parameter `k` of a formula must be a number");
  value = (tn_value){.key = "k", .type = TN_FIELD_INTS};
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID, "must be a number");
  value.key = NULL;
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID,
        "parameter 0 of the formula has no name");
  formula.struct_size = 8;
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID,
        "set it to sizeof(tn_formula)");
  formula = (tn_formula){
      .struct_size = sizeof formula, .name = "No Name", .expression = "x + 1"};
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID, "No Name");
  formula.expression = NULL;
  FAILS(tn_formula_define(rt, &formula, NULL), TN_INVALID,
        "tn_formula.expression is NULL");
  tn_runtime_release(rt);
}

/* A text of `n` times `part`, then `end`. The caller frees it. */
static char *repeat_text(const char *part, size_t n, const char *end) {
  const size_t each = strlen(part);
  char *text = malloc(n * each + strlen(end) + 1);
  cr_assert_not_null(text);
  for (size_t i = 0; i < n; ++i) memcpy(text + i * each, part, each);
  strcpy(text + n * each, end);
  return text;
}

Test(text, formulas_beyond_the_limits_are_refused) {
  char *deep = repeat_text("-", 100000, "x");
  char *nested = repeat_text("exp(", 100000, "x");
  char *open = repeat_text("(", 100000, "x");
  char *longest = repeat_text("x + ", 5000, "x");
  refuse_formula(deep, "expression has more than 64 levels");
  refuse_formula(nested, "expression has more than 64 levels");
  refuse_formula(open, "expression has more than 64 levels");
  refuse_formula(longest, "expression has more than 4096 parts");
  free(deep), free(nested), free(open), free(longest);
  refuse_formula("a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p",
                 "reads more than 15 different tensors");
}

/* The longest chain: 2048 names and 2047 additions. */
Test(text, a_formula_at_the_limit_is_computed) {
  char *chain = repeat_text("x + ", 2047, "x");
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  OK(define_formula(rt, chain, &op));
  tn_array *x =
      host_array(rt, TN_F64, (host_shape){1, {2}}, (const double[]){1, 2});
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  host_expect(y, (const double[]){2048, 4096}, 2, 0);
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
  free(chain);
}

/* Many constants at once: a block has fewer elements then. */
Test(text, a_formula_of_many_constants_is_computed) {
  enum { N = 1000 };
  char *text = malloc(N * 16), *at = text;
  double want = 3;
  tn_runtime *rt = open_runtime();
  tn_operator *op = NULL;
  cr_assert_not_null(text);
  at += sprintf(at, "x");
  for (int i = 1; i <= N; ++i) at += sprintf(at, " + %d", i), want += i;
  OK(define_formula(rt, text, &op));
  tn_array *x = host_array(rt, TN_F64, (host_shape){1, {5}},
                           (const double[]){3, 3, 3, 3, 3});
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
  host_expect(y, (const double[]){want, want, want, want, want}, 5, 0);
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
  free(text);
}
