/* SPDX-License-Identifier: Apache-2.0
 * Parameters: from text and values to the struct that kernels read, and back.
 */
#include <float.h>
#include <math.h>

#include "../must.h"
#include "tables.h"

/* Every kind of parameter, as opgen would generate it. */
typedef struct all_params {
  double a;
  double bounded;
  int64_t count;
  int32_t flag;
  int32_t mode;
  const char *label;
  tn_ints kernel;
  tn_ints stride;
  tn_floats sizes;
  tn_dtype dtype;
  int32_t has_axis;
  int64_t axis;
  const char *note;
  int32_t has_note;
  int32_t pad;
} all_params;

#define FIELDS_OF all_params
static const char *const modes[] = {"nearest", "bilinear", "cubic"};
static const tn_field *const all_fields[] = {
    FIELD(TN_FIELD_FLOAT, a, "0", PLAIN, .alias = "alpha"),
    FIELD(TN_FIELD_FLOAT, bounded, "0.5", PLAIN,
          .flags = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX, .min_float = 0,
          .max_float = 1),
    FIELD(TN_FIELD_INT, count, "3", PLAIN,
          .flags = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX, .min_int = -2,
          .max_int = 9),
    FIELD(TN_FIELD_BOOL, flag, "false", PLAIN),
    FIELD(TN_FIELD_ENUM, mode, "bilinear", PLAIN, .n_values = 3,
          .values = modes),
    FIELD(TN_FIELD_STRING, label, "", PLAIN, .deprecated_since = 4,
          .use = "note"),
    FIELD(TN_FIELD_INTS, kernel, "[3, 3]", NOT_NONE, .flags = TN_FIELD_HAS_MIN,
          .min_int = 1, .rank_of = TN_NONE, .min_rank = 1, .max_rank = 3),
    FIELD(TN_FIELD_INTS, stride, "1", NOT_NONE, .flags = TN_FIELD_HAS_MIN,
          .min_int = 1, .rank_of = 6, .max_rank = TN_NONE),
    FIELD(TN_FIELD_FLOATS, sizes, "[]", PLAIN),
    FIELD(TN_FIELD_DTYPE, dtype, "f32", PLAIN),
    FIELD(TN_FIELD_INT, axis, "None", ANY_RANK, .flags = TN_FIELD_OPTIONAL,
          .has_offset = offsetof(all_params, has_axis)),
    FIELD(TN_FIELD_STRING, note, "None", ANY_RANK, .flags = TN_FIELD_OPTIONAL,
          .has_offset = offsetof(all_params, has_note)),
};
static const tn_op all_op = {.struct_size = sizeof(tn_op),
                             .name = "all",
                             .params_size = sizeof(all_params),
                             .n_params = COUNT(all_fields),
                             .params = all_fields};
#undef FIELDS_OF

typedef struct need_params {
  int64_t units;
  tn_ints window;
} need_params;

#define FIELDS_OF need_params
static const tn_field *const need_fields[] = {
    FIELD(TN_FIELD_INT, units, NULL, PLAIN, .flags = TN_FIELD_REQUIRED),
    FIELD(TN_FIELD_INTS, window, NULL, PLAIN, .flags = TN_FIELD_REQUIRED)};
static const tn_op need_op = {.struct_size = sizeof(tn_op),
                              .name = "need",
                              .params_size = sizeof(need_params),
                              .n_params = COUNT(need_fields),
                              .params = need_fields};
#undef FIELDS_OF

typedef struct stored_params {
  tn_dtype dtype;
} stored_params;

#define FIELDS_OF stored_params
static const char *const stored_types[] = {"i4", "f8e5m2"};
static const tn_field *const stored_fields[] = {FIELD(
    TN_FIELD_DTYPE, dtype, "i4", PLAIN, .n_values = 2, .values = stored_types)};
static const tn_op stored_op = {.struct_size = sizeof(tn_op),
                                .name = "stored",
                                .params_size = sizeof(stored_params),
                                .n_params = COUNT(stored_fields),
                                .params = stored_fields};
#undef FIELDS_OF

typedef struct open_params {
  double share; /* above 0, below 1 */
  double high;  /* above 0 */
  tn_floats steps;
  int64_t count;
} open_params;

#undef FIELDS_OF
#define FIELDS_OF open_params
static const tn_field *const open_fields[] = {
    FIELD(TN_FIELD_FLOAT, share, "0.5", PLAIN,
          .flags = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX | TN_FIELD_ABOVE |
                   TN_FIELD_BELOW,
          .min_float = 0, .max_float = 1),
    FIELD(TN_FIELD_FLOAT, high, "1", PLAIN,
          .flags = TN_FIELD_HAS_MIN | TN_FIELD_ABOVE, .min_float = 0),
    FIELD(TN_FIELD_FLOATS, steps, "[1]", PLAIN, .flags = TN_FIELD_NONZERO),
    FIELD(TN_FIELD_INT, count, "1", PLAIN, .flags = TN_FIELD_NONZERO)};
static const tn_op open_op = {.struct_size = sizeof(tn_op),
                              .name = "open",
                              .params_size = sizeof(open_params),
                              .n_params = COUNT(open_fields),
                              .params = open_fields};
#undef FIELDS_OF

static world w;

static void setup_world(void) {
  world_init(&w, &all_op, "demo.all");
}

/* Expects that all memory is freed. */
static void teardown_world(void) {
  must_hold(w.memory.living == 0, "memory is left");
  must_hold(atomic_load(&w.op.params) == 0, "parameters are left");
}

TestSuite(params, .init = setup_world, .fini = teardown_world);

static tn_params *parse_params(const char *text) {
  tn_params *params = NULL;
  const tn_code rc = tn__params_parse(&w.op, text, &params);
  cr_assert_eq(rc, TN_OK, "%s: %s", text, tn_error_text());
  return params;
}

/* Parses, expects a failure, and a message that contains `part`. */
static void expect_refusal(const char *text, tn_code code, const char *part) {
  tn_params *params = (tn_params *)&w;
  const tn_code rc = tn__params_parse(&w.op, text, &params);
  cr_assert_eq(rc, code, "%s: %s", text, tn_error_text());
  cr_assert_null(params);
  cr_assert_not_null(strstr(tn_error_text(), part), "%s: %s", text,
                     tn_error_text());
}

static char *print_params(const tn_params *params, bool json) {
  static char text[2048];
  const tn__fields fields = {params->fields, params->n_fields, 0, ""};
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  (json ? tn__fields_json : tn__fields_text)(&fields, params->data, &buf);
  cr_assert_not(buf.failed);
  (void)snprintf(text, sizeof text, "%s", buf.s);
  tn__buf_deinit(&buf);
  return text;
}

Test(params, defaults_replace_missing_values) {
  tn_params *params = parse_params("");
  const all_params *p = params->data;
  cr_assert_eq(p->a, 0.0);
  cr_assert_eq(p->bounded, 0.5);
  cr_assert_eq(p->count, 3);
  cr_assert_eq(p->flag, 0);
  cr_assert_eq(p->mode, 1);
  cr_assert_str_eq(p->label, "");
  cr_assert_eq(p->kernel.n, 2);
  cr_assert_eq(p->kernel.v[1], 3);
  cr_assert_eq(p->stride.n, 2);
  cr_assert_eq(p->stride.v[1], 1);
  cr_assert_eq(p->sizes.n, 0);
  cr_assert_eq(p->dtype, TN_F32);
  cr_assert_eq(p->has_axis, 0);
  cr_assert_eq(p->has_note, 0);
  tn__params_release(params);
}

Test(params, every_kind_is_read_from_text) {
  tn_params *params = parse_params(
      "a=1.5 bounded=1 count=-2 flag=TRUE mode=cubic label=\"two words\" "
      "kernel=(1, 2,3) stride=[2,2,2] sizes=[0.5, 1e3,] dtype=bf16 axis=-1 "
      "note=\"None\"");
  const all_params *p = params->data;
  cr_assert_eq(p->a, 1.5);
  cr_assert_eq(p->bounded, 1.0);
  cr_assert_eq(p->count, -2);
  cr_assert_eq(p->flag, 1);
  cr_assert_eq(p->mode, 2);
  cr_assert_str_eq(p->label, "two words");
  cr_assert_eq(p->kernel.n, 3);
  cr_assert_eq(p->kernel.v[0], 1);
  cr_assert_eq(p->kernel.v[2], 3);
  cr_assert_eq(p->stride.v[2], 2);
  cr_assert_eq(p->sizes.n, 2);
  cr_assert_eq(p->sizes.v[0], 0.5);
  cr_assert_eq(p->sizes.v[1], 1000.0);
  cr_assert_eq(p->dtype, TN_BF16);
  cr_assert_eq(p->has_axis, 1);
  cr_assert_eq(p->axis, -1);
  cr_assert_eq(p->has_note, 1);
  cr_assert_str_eq(p->note, "None");
  tn__params_release(params);
}

Test(params, one_value_is_repeated_to_the_rank_of_another_list) {
  tn_params *params = parse_params("kernel=[5, 5, 5] stride=2");
  const all_params *p = params->data;
  cr_assert_eq(p->stride.n, 3);
  cr_assert_eq(p->stride.v[0], 2);
  cr_assert_eq(p->stride.v[2], 2);
  tn__params_release(params);
  expect_refusal("kernel=[5, 5, 5] stride=[1, 2]", TN_INVALID,
                 "has 2 values, but `kernel` has 3");
}

Test(params, ranks_outside_their_limits_are_refused) {
  expect_refusal("kernel=[1,2,3,4]", TN_INVALID, "has 4 values, but at most 3");
  expect_refusal("kernel=[]", TN_INVALID, "has 0 values, but at least 1");
}

Test(params, a_list_of_one_length_has_exactly_that) {
  const tn_field pair = {.type = TN_FIELD_INTS,
                         .has_offset = TN_NONE,
                         .rank_of = TN_NONE,
                         .min_rank = 2,
                         .max_rank = 2,
                         .name = "pair",
                         .default_text = "[1, 2]"};
  const tn_field *const fields[] = {&pair};
  const tn_op op = {
      .params_size = sizeof(tn_ints), .n_params = 1, .params = fields};
  w.op.desc = &op;
  expect_refusal("pair=[1]", TN_INVALID,
                 "has 1 value, but exactly 2 are wanted");
  expect_refusal("pair=[1,2,3]", TN_INVALID,
                 "has 3 values, but exactly 2 are wanted");
}

Test(params, typed_values_are_checked_like_text) {
  const int64_t window[] = {7, 5};
  const double sizes[] = {0.25};
  const tn_value values[] = {tn_value_int("a", 2),
                             tn_value_float("bounded", 0.25),
                             tn_value_ints("kernel", window, 2),
                             tn_value_floats("sizes", sizes, 1),
                             tn_value_text("mode", "nearest"),
                             tn_value_int("flag", 1),
                             tn_value_text("axis", NULL)};
  tn_params *params = NULL;
  cr_assert_eq(tn__params_create(&w.op, values, COUNT(values), &params), TN_OK,
               "%s", tn_error_text());
  const all_params *p = params->data;
  cr_assert_eq(p->a, 2.0);
  cr_assert_eq(p->bounded, 0.25);
  cr_assert_eq(p->kernel.v[0], 7);
  cr_assert_eq(p->sizes.v[0], 0.25);
  cr_assert_eq(p->mode, 0);
  cr_assert_eq(p->flag, 1);
  cr_assert_eq(p->has_axis, 0);
  tn__params_release(params);
}

Test(params, typed_values_of_the_wrong_kind_are_refused) {
  const double sizes[] = {1};
  const tn_value wrong[] = {
      tn_value_float("count", 3.0), tn_value_floats("kernel", sizes, 1),
      tn_value_int("mode", 1),      tn_value_int("label", 1),
      tn_value_int("flag", 2),      tn_value_ints("kernel", NULL, 2),
      tn_value_text("count", NULL)};
  for (size_t i = 0; i < COUNT(wrong); ++i) {
    tn_params *params = NULL;
    cr_assert_eq(tn__params_create(&w.op, &wrong[i], 1, &params), TN_INVALID);
    cr_assert_null(params);
    cr_assert_not_null(strstr(tn_error_text(), wrong[i].key));
    cr_assert_not_null(strstr(tn_error_text(), "demo.all@1"));
  }
}

Test(params, an_enum_may_be_passed_by_its_number) {
  tn_value mode = {"mode", TN_FIELD_ENUM, 0, {2}};
  tn_params *params = NULL;
  cr_assert_eq(tn__params_create(&w.op, &mode, 1, &params), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(((const all_params *)params->data)->mode, 2);
  tn__params_release(params);
  mode.as.i = 3;
  cr_assert_eq(tn__params_create(&w.op, &mode, 1, &params), TN_OUT_OF_RANGE);
  cr_assert_not_null(strstr(tn_error_text(), "has 3 values, but number 3"));
}

Test(params, a_missing_parameter_is_named_with_its_type_and_a_sample) {
  w.op.desc = &need_op;
  expect_refusal("", TN_INVALID, "needs the parameter `units` (an integer)");
  expect_refusal("units=1", TN_INVALID, "for example window=[1, 2]");
  expect_refusal("units=None window=1", TN_INVALID, "None is no value");
}

Test(params, ranges_name_the_bound) {
  expect_refusal("count=10", TN_OUT_OF_RANGE,
                 "the greatest value allowed is 9");
  expect_refusal("count=-3", TN_OUT_OF_RANGE, "the least value allowed is -2");
  expect_refusal("bounded=1.0001", TN_OUT_OF_RANGE,
                 "1.0001 is too large; the greatest value allowed is 1");
  expect_refusal("bounded=-inf", TN_OUT_OF_RANGE,
                 "the least value allowed is 0");
  expect_refusal("kernel=[3, 0]", TN_OUT_OF_RANGE,
                 "0 is too small; the least value allowed is 1");
  tn__params_release(parse_params("count=9 bounded=1"));
  tn__params_release(parse_params("count=-2 bounded=0"));
}

/* 4.9e-324 is the double after 0, 0.99999999999999989 the one before 1. */
Test(params, an_excluded_bound_is_no_value_but_its_neighbour_is) {
  w.op.desc = &open_op;
  expect_refusal("share=0", TN_OUT_OF_RANGE,
                 "0 is too small; the value must be above 0");
  expect_refusal("share=-0", TN_OUT_OF_RANGE, "the value must be above 0");
  expect_refusal("share=-5e-324", TN_OUT_OF_RANGE, "must be above 0");
  expect_refusal("share=1", TN_OUT_OF_RANGE,
                 "1 is too large; the value must be below 1");
  expect_refusal("share=inf", TN_OUT_OF_RANGE, "must be below 1");
  expect_refusal("share=nan", TN_OUT_OF_RANGE, "nan is in no range");
  tn__params_release(parse_params("share=5e-324"));
  tn__params_release(parse_params("share=0.99999999999999989"));
  tn__params_release(parse_params("high=inf"));
}

Test(params, nonzero_numbers_are_neither_0_nor_minus_0) {
  w.op.desc = &open_op;
  expect_refusal("count=0", TN_OUT_OF_RANGE, "0 is not allowed");
  expect_refusal("steps=[1, 0]", TN_OUT_OF_RANGE, "0 is not allowed");
  expect_refusal("steps=[-0, 1]", TN_OUT_OF_RANGE, "0 is not allowed");
  expect_refusal("steps=[nan]", TN_OUT_OF_RANGE, "nan is in no range");
  tn__params_release(parse_params("count=-1 steps=[-5e-324, inf]"));
}

Test(params, nan_and_infinity_are_values_where_there_is_no_range) {
  tn_params *params = parse_params("a=nan");
  cr_assert(isnan(((const all_params *)params->data)->a));
  tn__params_release(params);
  params = parse_params("a=-Infinity");
  cr_assert_eq(((const all_params *)params->data)->a, -HUGE_VAL);
  tn__params_release(params);
  expect_refusal("bounded=nan", TN_OUT_OF_RANGE, "nan is in no range");
}

Test(params, an_unknown_enum_value_lists_the_known_ones) {
  expect_refusal(
      "mode=bilinera", TN_INVALID,
      "choose one of nearest, bilinear, cubic; did you mean `bilinear`?");
  expect_refusal("dtype=float99", TN_INVALID,
                 "`float99` is not an element type");
}

Test(params, a_dtype_takes_storage_types_only_if_its_values_list_them) {
  expect_refusal("dtype=i4", TN_INVALID,
                 "i4 is not one of its types; choose one of f16, bf16, f32, "
                 "f64, i8, i16, i32, i64, u8, u16, u32, u64, bool");
  w.op.desc = &stored_op;
  tn_params *params = parse_params("dtype=f8e5m2");
  cr_expect_eq(((const stored_params *)params->data)->dtype, TN_F8E5M2);
  tn__params_release(params);
  expect_refusal("dtype=f16", TN_INVALID,
                 "f16 is not one of its types; choose one of i4, f8e5m2");
  expect_refusal("dtype=i5", TN_INVALID,
                 "`i5` is not an element type; choose one of i4, f8e5m2; did "
                 "you mean `i4`?");
}

Test(params, an_unknown_key_suggests_the_nearest_and_lists_all) {
  expect_refusal("kernal=3", TN_NOT_FOUND, "did you mean `kernel`?");
  expect_refusal("zzz=3", TN_NOT_FOUND,
                 "its parameters are `a`, `bounded`, `count`");
  w.op.desc = &add_op;
  expect_refusal("a=1", TN_NOT_FOUND, "takes no parameters; remove `a`");
}

Test(params, hidden_keys_are_ignored) {
  tn__params_release(parse_params("__layout__=NCHW a=1 __layout__=again"));
  expect_refusal("__a=1", TN_NOT_FOUND, "`__a` is not a parameter");
}

/* A name, an alias, a key of a front end, a misspelt one, and an empty one. */
Test(params, values_that_are_no_parameters_are_told_apart) {
  const tn_value values[] = {
      tn_value_text("a", "1"), tn_value_text("alpha", "x"),
      tn_value_text("__layer__", "2"), tn_value_text("alfa", "3"),
      tn_value_text("", "4")};
  const uint8_t expected[] = {0, 0, 1, 1, 1};
  uint8_t unknown[5] = {7, 7, 7, 7, 7};
  cr_assert_eq(tn__params_find_unknown(&w.op, values, 5, unknown), TN_OK);
  cr_assert_arr_eq(unknown, expected, 5);
}

Test(params, an_alias_is_the_same_parameter) {
  tn_params *params = parse_params("alpha=4");
  cr_assert_eq(((const all_params *)params->data)->a, 4.0);
  tn__params_release(params);
  expect_refusal("a=1 a=1", TN_INVALID, "given twice");
  expect_refusal("a=1 alpha=1", TN_INVALID, "as `a` and as `alpha`");
}

Test(params, a_deprecated_parameter_is_logged_when_it_is_passed) {
  logged[0] = '\0';
  tn__params_release(parse_params("a=1"));
  cr_assert_str_empty(logged);
  tn__params_release(parse_params("label=x"));
  cr_assert_str_eq(logged,
                   "parameter `label` of demo.all@1 is deprecated since "
                   "release 4; use note");
}

Test(params, a_copy_logs_no_deprecated_parameters) {
  static const char *const texts[] = {"a=1", "label=x"};
  for (size_t i = 0; i < COUNT(texts); ++i) {
    tn_params *params = parse_params(texts[i]), *copy = NULL;
    logged[0] = '\0';
    cr_assert_eq(tn__params_copy(params, &copy), TN_OK);
    cr_assert_str_empty(logged);
    cr_assert(tn__params_equal(params, copy));
    tn__defaults_free(&w.env, copy);
    tn__params_release(params);
  }
}

Test(params, booleans_are_true_false_1_0_in_any_case) {
  static const struct {
    const char *text;
    int32_t value;
  } cases[] = {{"flag=true", 1},  {"flag=True", 1},  {"flag=1", 1},
               {"flag=false", 0}, {"flag=FALSE", 0}, {"flag=0", 0}};
  for (size_t i = 0; i < COUNT(cases); ++i) {
    tn_params *params = parse_params(cases[i].text);
    cr_assert_eq(((const all_params *)params->data)->flag, cases[i].value);
    tn__params_release(params);
  }
  expect_refusal("flag=yes", TN_INVALID, "`yes` is not true or false");
}

Test(params, malformed_numbers_are_refused_and_trailing_blanks_are_not) {
  expect_refusal("a=1.5x", TN_INVALID, "parameter `a` of demo.all@1: `1.5x`");
  expect_refusal("count=1.5", TN_INVALID, "`1.5` is not an integer");
  expect_refusal("count=", TN_INVALID, "`` is not an integer");
  expect_refusal("kernel=[1 2]", TN_INVALID, "is not a list of integers");
  expect_refusal("kernel=[1,,2]", TN_INVALID, "is not a list of integers");
  expect_refusal("kernel=[,]", TN_INVALID, "is not a list of integers");
  const tn_value blank = tn_value_text("count", "3 ");
  tn_params *params = NULL;
  cr_assert_eq(tn__params_create(&w.op, &blank, 1, &params), TN_OK);
  tn__params_release(params);
}

Test(params, numbers_that_do_not_fit_are_reported) {
  expect_refusal("a=1e400", TN_OUT_OF_RANGE, "`1e400` does not fit");
  expect_refusal("a=1e-400", TN_OUT_OF_RANGE, "too near to 0");
  expect_refusal("count=9223372036854775808", TN_OUT_OF_RANGE, "64 bits");
  expect_refusal("kernel=[99999999999999999999]", TN_OUT_OF_RANGE, "64 bits");
  tn_params *params = parse_params("a=4.9406564584124654e-324");
  cr_assert_eq(((const all_params *)params->data)->a, DBL_TRUE_MIN);
  tn__params_release(params);
}

Test(params, text_that_is_not_key_value_is_refused) {
  expect_refusal("a", TN_INVALID, "a word without `=`");
  expect_refusal("=1", TN_INVALID, "a value without a key");
  expect_refusal("a=1 b", TN_INVALID, "a word without `=`");
  expect_refusal("label=\"open", TN_INVALID, "without closing quote");
  expect_refusal("label=\"bad \\q\"", TN_INVALID, "an unknown escape");
  expect_refusal("kernel=[1, 2", TN_INVALID, "without closing bracket");
  expect_refusal("kernel=[1]a=2", TN_INVALID, "no blank after a value");
}

Test(params, printing_and_parsing_again_changes_nothing) {
  static const char *const texts[] = {
      "",
      "a=0.1 bounded=0.30000000000000004 sizes=[1e-300, 3.3333333333333335]",
      "a=-0.0 count=-1 flag=1 mode=nearest axis=-9223372036854775808",
      "label=\"a \\\"b\\\" \\\\ \\n\\t\\r [1] =\" note=\"None\" dtype=bool",
      "label=None note=\"\" kernel=7 stride=3",
      "a=nan sizes=[inf, -inf]"};
  for (size_t i = 0; i < COUNT(texts); ++i) {
    tn_params *first = parse_params(texts[i]);
    char *text = strdup(print_params(first, false));
    tn_params *second = parse_params(text);
    cr_assert_str_eq(print_params(second, false), text);
    cr_assert_eq(first->hash, second->hash, "%s", text);
    const all_params *p = first->data, *q = second->data;
    cr_assert_eq(memcmp(&p->a, &q->a, sizeof p->a), 0);
    cr_assert_str_eq(p->label, q->label);
    free(text);
    tn__params_release(second);
    tn__params_release(first);
  }
}

Test(params, text_names_enums_and_shortest_numbers) {
  tn_params *params = parse_params("a=0.1 label=\"say \\\"hi\\\"\"");
  cr_assert_str_eq(print_params(params, false),
                   "a=0.1 bounded=0.5 count=3 flag=false mode=bilinear "
                   "label=\"say \\\"hi\\\"\" kernel=[3, 3] stride=[1, 1] "
                   "sizes=[] dtype=f32 axis=None note=None");
  tn__params_release(params);
}

Test(params, json_is_an_object_of_all_parameters) {
  tn_params *params = parse_params("a=inf flag=1 axis=2 sizes=[0.5, nan]");
  cr_assert_str_eq(print_params(params, true),
                   "{\"a\": \"inf\", \"bounded\": 0.5, \"count\": 3, "
                   "\"flag\": true, \"mode\": \"bilinear\", \"label\": \"\", "
                   "\"kernel\": [3, 3], \"stride\": [1, 1], "
                   "\"sizes\": [0.5, \"nan\"], \"dtype\": \"f32\", "
                   "\"axis\": 2, \"note\": null}");
  tn__params_release(params);
}

Test(params, equal_parameters_have_equal_hashes_and_others_do_not) {
  tn_params *a = parse_params("a=1 kernel=[3, 3] stride=[1, 1]");
  tn_params *b = parse_params("stride=1 alpha=1.0");
  tn_params *c = parse_params("a=1 stride=2");
  tn_params *d = parse_params("a=1 axis=0");
  cr_assert_eq(a->hash, b->hash);
  cr_assert_neq(a->hash, c->hash);
  cr_assert_neq(a->hash, d->hash);
  tn__params_release(a);
  tn__params_release(b);
  tn__params_release(c);
  tn__params_release(d);
}

Test(params, parameters_hold_their_plugin) {
  tn_params *params = parse_params("a=1");
  cr_assert_eq(atomic_load(&w.op.params), 1);
  tn__params_release(params);
  cr_assert_eq(atomic_load(&w.op.params), 0);
  tn__params_release(NULL);
}

Test(params, an_operator_without_definition_has_no_parameters) {
  w.op.desc = NULL;
  expect_refusal("a=1", TN_NOT_FOUND, "demo.all@1");
}

Test(params, a_broken_default_is_the_plugins_fault) {
  const tn_field broken = {.type = TN_FIELD_INT,
                           .has_offset = TN_NONE,
                           .rank_of = TN_NONE,
                           .name = "n",
                           .default_text = "many"};
  const tn_field *const fields[] = {&broken};
  const tn_op op = {.params_size = 8, .n_params = 1, .params = fields};
  w.op.desc = &op;
  expect_refusal("", TN_PLUGIN, "the plugin is at fault");
}

Test(params, every_failing_allocation_is_survived) {
  static const char text[] = "a=1 label=\"x y\" kernel=[1, 2] sizes=[1,2,3]";
  for (int forever = 0; forever < 2; ++forever) {
    tn_code rc = TN_OUT_OF_MEMORY;
    int64_t n = 0;
    while (rc != TN_OK) {
      tn_params *params = NULL;
      w.memory.seen = 0;
      w.memory.refuse = ++n;
      w.memory.forever = forever != 0;
      rc = tn__params_parse(&w.op, text, &params);
      cr_assert(rc == TN_OK || rc == TN_OUT_OF_MEMORY);
      cr_assert_eq(params == NULL, rc != TN_OK);
      tn__params_release(params);
      cr_assert_eq(w.memory.living, 0);
      cr_assert_eq(atomic_load(&w.op.params), 0);
    }
    cr_assert_geq(n, 4); /* the copy of the text, the struct, the object */
  }
}

Test(params, printing_survives_a_failing_allocation) {
  tn_params *params = parse_params("");
  const tn__fields fields = {params->fields, params->n_fields, 0, ""};
  tn__buf buf;
  tn__buf_init(&buf, &w.env);
  w.memory.seen = 0, w.memory.refuse = 1, w.memory.forever = true;
  tn__fields_text(&fields, params->data, &buf);
  cr_assert(buf.failed);
  tn_text *out = NULL;
  cr_assert_eq(tn__buf_text(&buf, &out), TN_OUT_OF_MEMORY);
  cr_assert_null(out);
  tn__params_release(params);
}

Test(params, kernels_compiled_for_a_prefix_of_the_parameters_are_accepted) {
  tn_target target = {.struct_size = sizeof target,
                      .params_size = 24,
                      .n_params = 3,
                      .op = "demo.all@1",
                      .params = all_fields};
  cr_assert(tn__fields_prefix(&target, &all_op));
  const tn_field *const moved[] = {all_fields[1], all_fields[0]};
  target.params = moved, target.n_params = 2;
  cr_assert_not(tn__fields_prefix(&target, &all_op));
  cr_assert_not_null(strstr(tn_error_text(), "the name of `bounded` differs"));
  tn_field other = *all_fields[0];
  const tn_field *const changed[] = {&other};
  target.params = changed, target.n_params = 1;
  other.type = TN_FIELD_INT;
  cr_assert_not(tn__fields_prefix(&target, &all_op));
  cr_assert_not_null(strstr(tn_error_text(), "the type of `a` differs"));
  target.params = all_fields, target.n_params = COUNT(all_fields);
  target.params_size = sizeof(all_params) + 8;
  cr_assert_not(tn__fields_prefix(&target, &all_op));
}
