/* SPDX-License-Identifier: Apache-2.0
 * Tests of describe.c: tables in words, with members that no shipped plugin
 * uses yet.
 */
#include <criterion/criterion.h>

#include "tenon_tool.h"

static const char *const modes[] = {"valid", "same"};

static const tn_field kernel = {.type = TN_FIELD_INTS,
                                .flags = TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN,
                                .name = "kernel",
                                .rank_of = TN_NONE,
                                .min_rank = 1,
                                .max_rank = 3,
                                .min_int = 1};
static const tn_field stride = {.type = TN_FIELD_INTS,
                                .name = "stride",
                                .default_text = "1",
                                .rank_of = 0,
                                .max_rank = TN_NONE};
static const tn_field mode = {.type = TN_FIELD_ENUM,
                              .name = "mode",
                              .default_text = "valid",
                              .rank_of = TN_NONE,
                              .max_rank = TN_NONE,
                              .n_values = 2,
                              .values = modes};
static const tn_field rate = {.type = TN_FIELD_FLOAT,
                              .flags = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX,
                              .name = "rate",
                              .default_text = "0.5",
                              .rank_of = TN_NONE,
                              .max_float = 1};
static const tn_field type = {.type = TN_FIELD_DTYPE,
                              .name = "type",
                              .default_text = "f32",
                              .rank_of = TN_NONE};
static const tn_field scales = {.type = TN_FIELD_FLOATS,
                                .name = "scales",
                                .rank_of = TN_NONE,
                                .min_rank = 2,
                                .max_rank = 2};
static const tn_field free_list = {.type = TN_FIELD_INTS,
                                   .flags = TN_FIELD_HAS_MAX,
                                   .name = "axes",
                                   .rank_of = TN_NONE,
                                   .max_rank = TN_NONE,
                                   .max_int = 15};

static const tn_dtype_var any_float = {.allowed = TN_BIT_F32 | TN_BIT_F64,
                                       .name = "T"};

static const tn_arg data = {.dtype_param = TN_NONE,
                            .shape_kind = TN_SHAPE_PATTERN,
                            .name = "data",
                            .shape_text = "[N, C, S...]"};
static const tn_arg bias = {.flags = TN_ARG_OPTIONAL,
                            .dtype_var = TN_NONE,
                            .dtype_param = TN_NONE,
                            .dtype = TN_I32,
                            .name = "bias"};
static const tn_arg more = {.flags = TN_ARG_VARIADIC,
                            .dtype_param = TN_NONE,
                            .shape_kind = TN_SHAPE_SAME,
                            .name = "more"};
static const tn_arg out = {.dtype_var = TN_NONE,
                           .dtype_param = 4,
                           .shape_kind = TN_SHAPE_BROADCAST,
                           .name = "out"};
static const tn_arg mask = {.flags = TN_ARG_HIDDEN,
                            .dtype_var = TN_NONE,
                            .dtype_param = TN_NONE,
                            .dtype = TN_BOOL,
                            .shape_kind = TN_SHAPE_HOOK,
                            .name = "mask"};

static const tn_field *const params[] = {&kernel, &stride, &mode, &rate, &type};
static const tn_arg *const inputs[] = {&data, &bias, &more};
static const tn_arg *const outputs[] = {&out, &mask};
static const tn_dtype_var *const types[] = {&any_float};

static const tn_op op = {.n_params = 5,
                         .n_dtype_vars = 1,
                         .n_inputs = 3,
                         .n_outputs = 2,
                         .params = params,
                         .dtype_vars = types,
                         .inputs = inputs,
                         .outputs = outputs};

static void expect_text(text *t, const char *expected) {
  cr_expect_str_eq(text_get(t), expected);
  text_deinit(t);
}

Test(describe, a_signature_shows_the_call_of_a_user) {
  text t = {0};
  describe_signature(&op, &t);
  expect_text(&t,
              "(data: T, bias?: i32, more...: T; kernel, stride=1, mode=valid, "
              "rate=0.5, type=f32) -> out: type");
}

static void expect_shape(const tn_arg *arg, const char *expected) {
  text t = {0};
  describe_shape(&op, arg, &t);
  expect_text(&t, expected);
}

Test(describe, shapes_are_patterns_references_or_words) {
  expect_shape(&data, "[N, C, S...]");
  expect_shape(&bias, "any shape");
  expect_shape(&more, "as data");
  expect_shape(&out, "broadcast of all inputs");
  expect_shape(&mask, "decided by the plugin");
}

static void expect_range(const tn_field *field, const char *expected) {
  text t = {0};
  describe_field_range(&op, field, &t);
  expect_text(&t, expected);
}

Test(describe, ranges_name_bounds_choices_and_lengths) {
  expect_range(&kernel, ">= 1, 1..3 of them");
  expect_range(&stride, "as many as kernel");
  expect_range(&mode, "valid|same");
  expect_range(&rate, "0..1");
  expect_range(&type, "");
  expect_range(&scales, "2 of them");
  expect_range(&free_list, "<= 15");
}

static void expect_notes(const tn_field *field, const char *expected) {
  text t = {0};
  describe_field_notes(field, &t);
  expect_text(&t, expected);
}

Test(describe, notes_of_a_parameter_are_its_other_name_and_its_life) {
  const tn_field both = {.flags = TN_FIELD_DYNAMIC, .alias = "alpha"};
  const tn_field old = {.alias = "beta", .deprecated_since = 3};
  expect_notes(&kernel, "");
  expect_notes(&both, " (also alpha, may change between calls)");
  expect_notes(&old, " (also beta, deprecated)");
}

/* n outputs, and as many as n + 1. */
Test(describe, an_output_of_which_there_are_several_says_how_many) {
  static const tn_field n = {.type = TN_FIELD_INT, .name = "n"};
  static const tn_field *const fields[] = {&n};
  static const tn_node nodes[] = {{.op = TN_NODE_PARAM},
                                  {.op = TN_NODE_CONST, .value = 1},
                                  {.op = TN_NODE_ADD, .a = 0, .b = 1}};
  static const tn_arg one = {
      .dtype_param = TN_NONE, .name = "one", .count = TN_NONE};
  static const tn_arg parts = {.dtype_param = TN_NONE, .name = "part"};
  static const tn_arg more_parts = {
      .dtype_param = TN_NONE, .name = "more", .count = 2};
  static const tn_arg *const ins[] = {&data};
  static const tn_arg *const outs[] = {&one, &parts, &more_parts};
  const tn_op split = {.n_params = 1,
                       .n_dtype_vars = 1,
                       .n_inputs = 1,
                       .n_outputs = 3,
                       .n_nodes = 3,
                       .params = fields,
                       .dtype_vars = types,
                       .inputs = ins,
                       .outputs = outs,
                       .nodes = nodes};
  text t = {0};
  describe_signature(&split, &t);
  expect_text(&t, "(data: T; n) -> one: T, part...: T, more...: T");
  cr_expect(!describe_is_counted(&split, &one));
  cr_expect(!describe_is_counted(&split, &data));
  describe_count(&split, &parts, &t);
  expect_text(&t, "as many as n says");
  describe_count(&split, &more_parts, &t);
  expect_text(&t, "as many as parameters and inputs say");
}

Test(describe, kernels_name_their_types_per_variable) {
  const uint64_t sets[] = {TN_BIT_F32 | TN_BIT_F64, 0};
  const tn_kernel two = {.n_dtype_sets = 2, .dtype_sets = sets};
  const tn_kernel none = {.n_dtype_sets = 0};
  text t = {0};
  describe_kernel_dtypes(&two, &t);
  expect_text(&t, "f32 f64, all");
  describe_kernel_dtypes(&none, &t);
  expect_text(&t, "all");
}

Test(describe, types_without_a_name_are_question_marks) {
  cr_expect_str_eq(dtype_name(TN_BF16), "bf16");
  cr_expect_str_eq(dtype_name(12345), "?");
  cr_expect_eq(dtype_from_name("u64"), TN_U64);
  cr_expect_eq(dtype_from_name("float"), TN_DTYPE_UNKNOWN);
}
