/* SPDX-License-Identifier: Apache-2.0
 * Tests of literal.c, generate.c and print.c: text becomes a tensor, a tensor
 * becomes text, and a caret shows malformed text.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* Parses f32 elements and prints them again. */
static void expect_printed(const char *source, const char *expected) {
  tensor t = {0};
  text out = {0}, why = {0};
  cr_assert(literal_parse(source, TN_F32, &t, &why), "%s", text_get(&why));
  print_tensor(&t, false, &out);
  cr_expect_str_eq(text_get(&out), expected);
  tensor_deinit(&t);
  text_deinit(&out);
}

static void expect_shape(const char *source, int32_t ndim,
                         const int64_t *shape) {
  tensor t = {0};
  text why = {0};
  cr_assert(literal_parse(source, TN_F32, &t, &why), "%s", text_get(&why));
  cr_assert_eq(t.ndim, ndim);
  for (int32_t i = 0; i < ndim; ++i) cr_expect_eq(t.shape[i], shape[i]);
  tensor_deinit(&t);
}

static void expect_refused(const char *source, const char *expected) {
  tensor t = {0};
  text why = {0};
  cr_expect_not(literal_parse(source, TN_F32, &t, &why));
  cr_expect_str_eq(text_get(&why), expected);
  text_deinit(&why);
}

Test(literal, rows_are_under_each_other) {
  expect_printed("[[6,11],[18,27]]", "[[6, 11],\n [18, 27]]\n");
  expect_printed("[[[1,2],[3,4]],[[5,6],[7,8]]]",
                 "[[[1, 2],\n  [3, 4]],\n [[5, 6],\n  [7, 8]]]\n");
  expect_printed("[1, 2.5, -3]", "[1, 2.5, -3]\n");
}

Test(literal, a_single_number_is_an_array_without_dimensions) {
  expect_printed(" 1.5 ", "1.5\n");
  expect_shape("7", 0, NULL);
  expect_printed("-inf", "-inf\n");
}

Test(literal, blanks_and_line_ends_mean_nothing) {
  expect_printed("[ [1 , 2]\n,\t[3,4] ]", "[[1, 2],\n [3, 4]]\n");
}

Test(literal, empty_lists_are_empty_dimensions) {
  expect_printed("[]", "[]\n");
  expect_printed("[[],[]]", "[]\n");
  expect_shape("[]", 1, (int64_t[]){0});
  expect_shape("[[],[],[]]", 2, (int64_t[]){3, 0});
}

Test(literal, shapes_follow_the_nesting) {
  expect_shape("[[[1],[2]]]", 3, (int64_t[]){1, 2, 1});
  expect_shape("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", 16,
               (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

Test(literal, elements_have_the_asked_type) {
  tensor t = {0};
  text why = {0};
  cr_assert(literal_parse("[true,false,1]", TN_BOOL, &t, &why));
  cr_expect_arr_eq(t.data, ((unsigned char[]){1, 0, 1}), 3);
  tensor_deinit(&t);
  cr_assert(literal_parse("[-2,300]", TN_I16, &t, &why));
  cr_expect_arr_eq(t.data, ((int16_t[]){-2, 300}), 4);
  tensor_deinit(&t);
}

Test(literal, packed_elements_are_read_and_printed) {
  tensor t = {0};
  text out = {0}, why = {0};
  cr_assert(literal_parse("[-8,7,-1]", TN_I4, &t, &why), "%s", text_get(&why));
  cr_expect_eq(t.bytes, 2);
  cr_expect_arr_eq(t.data, ((unsigned char[]){0x78, 0x0f}), 2);
  print_tensor(&t, false, &out);
  cr_expect_str_eq(text_get(&out), "[-8, 7, -1]\n");
  tensor_deinit(&t), text_deinit(&out);
  cr_assert(literal_parse("[[0.5,-6],[1,2]]", TN_F4E2M1, &t, &why));
  cr_expect_arr_eq(t.data, ((unsigned char[]){0xf1, 0x42}), 2);
  print_tensor(&t, false, &out);
  cr_expect_str_eq(text_get(&out), "[[0.5, -6],\n [1, 2]]\n");
  tensor_deinit(&t), text_deinit(&out);
}

Test(literal, refuses_ragged_lists_with_a_caret) {
  expect_refused("[[1,2],[3]]",
                 "this list has 1 element, the first at its depth has 2: all "
                 "lists at one depth must be equally long\n"
                 "  [[1,2],[3]]\n"
                 "           ^");
  expect_refused("[[1],[2,3]]",
                 "this list has at least 2 elements, the first at its depth "
                 "has 1: all lists at one depth must be equally long\n"
                 "  [[1],[2,3]]\n"
                 "          ^");
  expect_refused("[1,[2]]",
                 "a list where other lists have a number: all numbers must "
                 "stand at the same depth, which is 1 so far\n"
                 "  [1,[2]]\n"
                 "     ^");
  expect_refused("[[1],2]",
                 "a number where other lists have a list: all numbers must "
                 "stand at the same depth, which is 2 so far\n"
                 "  [[1],2]\n"
                 "       ^");
}

Test(literal, refuses_stray_characters_with_a_caret) {
  expect_refused("[1 2]", "expected `,` or `]`, found `2`\n  [1 2]\n     ^");
  expect_refused("[1,]", "expected a number or `[`, found `]`\n  [1,]\n     ^");
  expect_refused("[1,2", "expected `,` or `]`, found the end\n  [1,2\n      ^");
  expect_refused("[1]]", "expected nothing more, found `]`\n  [1]]\n     ^");
  expect_refused("[1,x]", "`x` is not a number\n  [1,x]\n     ^");
  expect_refused("[\xc3\xa9,;]",
                 "`\xc3\xa9` is not a number\n  [\xc3\xa9,;]\n   ^");
  expect_refused("(1)", "expected a number or `[`, found `(`\n  (1)\n  ^");
}

Test(literal, refuses_an_empty_text) {
  const char *expected =
      "the text is empty; write a number or a list, such as [[1,2],[3,4]]";
  expect_refused("", expected);
  expect_refused("  \n", expected);
}

Test(literal, refuses_too_many_dimensions) {
  expect_refused("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]",
                 "lists are nested too deeply: an array has at most 16 "
                 "dimensions\n"
                 "  [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]\n"
                 "                  ^");
}

Test(literal, survives_a_hundred_thousand_brackets) {
  enum { N = 100000 };
  char *source = (char *)malloc(N + 1);
  tensor t = {0};
  text why = {0};
  cr_assert_not_null(source);
  memset(source, '[', N);
  source[N] = '\0';
  cr_expect_not(literal_parse(source, TN_F32, &t, &why));
  cr_expect_not_null(strstr(text_get(&why), "nested too deeply"));
  text_deinit(&why);
  free(source);
}

/* 40 characters before the fault and 30 from it on. */
Test(literal, shows_only_the_part_of_a_long_text_around_the_fault) {
  expect_refused(
      "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,!,21,22,"
      "23,24,25,26,27,28,29,30]",
      "`!` is not a number\n"
      "  ...,7,8,9,10,11,12,13,14,15,16,17,18,19,20,!,21,22,23,24,25,26,27,28,"
      "29,3...\n"
      "                                             ^");
}

/* ---------------------------------------------------------------- summaries */

static void expect_zeros_printed(const char *source, bool full,
                                 const char *expected) {
  uint64_t state = 0;
  tensor t = {0};
  text out = {0}, why = {0};
  const input_options options = {TN_I32, &state};
  cr_assert(generate_parse(source, &options, &t, &why), "%s", text_get(&why));
  print_tensor(&t, full, &out);
  if (expected)
    cr_expect_str_eq(text_get(&out), expected);
  else
    cr_expect_null(strstr(text_get(&out), "..."));
  tensor_deinit(&t);
  text_deinit(&out);
}

Test(print, large_arrays_are_shown_at_their_edges) {
  expect_zeros_printed("zeros(1001)", false, "[0, 0, 0, ..., 0, 0, 0]\n");
  expect_zeros_printed("ones(600, 2)", false,
                       "[[1, 1],\n [1, 1],\n [1, 1],\n ...,\n"
                       " [1, 1],\n [1, 1],\n [1, 1]]\n");
}

Test(print, full_and_small_arrays_are_shown_whole) {
  expect_zeros_printed("zeros(1000)", false, NULL);
  expect_zeros_printed("zeros(1001)", true, NULL);
}

Test(print, json_is_nested_and_names_values_without_a_number) {
  tensor t = {0};
  text out = {0}, why = {0};
  cr_assert(literal_parse("[[1,2.5],[nan,-inf]]", TN_F64, &t, &why));
  print_tensor_json("out", &t, &out);
  cr_expect_str_eq(text_get(&out),
                   "{\"name\": \"out\", \"dtype\": \"f64\", \"shape\": [2, 2], "
                   "\"data\": [[1, 2.5], [\"nan\", \"-inf\"]]}");
  tensor_deinit(&t);
  text_deinit(&out);
}

/* --------------------------------------------------------------- generators */

static void expect_generator_refused(const char *source, tn_dtype dtype,
                                     const char *expected) {
  uint64_t state = 0;
  tensor t = {0};
  text why = {0};
  const input_options options = {dtype, &state};
  cr_expect(generate_matches(source));
  cr_expect_not(generate_parse(source, &options, &t, &why));
  cr_expect_str_eq(text_get(&why), expected);
  text_deinit(&why);
}

Test(generate, refuses_unsupported_generators) {
  expect_generator_refused(
      "rand(2)", TN_F32,
      "unknown generator; there are randn, zeros and ones\n  rand(2)\n  ^");
  expect_generator_refused(
      "ones(2,-1)", TN_F32,
      "expected a dimension, such as 3\n  ones(2,-1)\n         ^");
  expect_generator_refused("ones(2", TN_F32,
                           "expected `,` or `)`\n  ones(2\n        ^");
  expect_generator_refused("ones(2)x", TN_F32,
                           "nothing may follow `)`\n  ones(2)x\n         ^");
  expect_generator_refused("randn(2)", TN_I32,
                           "randn makes fractions, which i32 cannot hold; use "
                           "--dtype f32, or zeros or ones");
  expect_generator_refused(
      "zeros(4294967296,4294967296)", TN_F32,
      "no memory for an array of shape (4294967296, 4294967296) and type f32; "
      "make it smaller");
}

/* Mean and variance of normal numbers; the bounds are five standard errors. */
Test(generate, normal_numbers_have_mean_0_and_variance_1) {
  enum { N = 10000 };
  uint64_t state = 42;
  tensor t = {0};
  text why = {0};
  const input_options options = {TN_F64, &state};
  cr_assert(generate_parse("randn(10000)", &options, &t, &why));
  double sum = 0, squares = 0;
  for (size_t i = 0; i < N; ++i) {
    double x = element_get(TN_F64, t.data + 8 * i);
    sum += x;
    squares += x * x;
  }
  cr_expect_lt(sum / N, 0.05);
  cr_expect_gt(sum / N, -0.05);
  cr_expect_lt(squares / N, 1.071);
  cr_expect_gt(squares / N, 0.929);
  tensor_deinit(&t);
}
