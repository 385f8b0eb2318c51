/* SPDX-License-Identifier: Apache-2.0
 * Calls of bound functions: every type of argument, results, narrowing,
 * threads, and promises of the registry for every plugin.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab.h"

static const char add[] =
    "opgen: 1\n"
    "op: add\n"
    "summary: Sum of two tensors\n"
    "inputs:\n"
    "  - {name: x, dtype: f32}\n"
    "  - {name: y, dtype: f32, shape: x}\n"
    "outputs: [{name: out, dtype: f32, shape: x, inplace: x}]\n"
    "binding:\n"
    "  library: [libnowhere.so.7, \"@\"]\n"
    "  symbol: lib_add\n"
    "  returns: void\n"
    "  thread: any\n"
    "  args:\n"
    "    - {c: int32, pass: size(out)}\n"
    "    - {c: const float*, pass: x}\n"
    "    - {c: const float*, pass: y}\n"
    "    - {c: float*, pass: out}\n"
    "examples: [{name: doc, x: [1, 2], y: [10, 20], out: [11, 22]}]\n";

static const double one_to_four[] = {1, 2, 3, 4};
static const double tens[] = {10, 20, 30, 40};

/* The only operator of a manifest. */
static tn_operator *load(lab *l, const char *text) {
  tn_operator *op = NULL;
  lab_open(l, NULL);
  OK(lab_load(l, text));
  OK(tn_operator_at(l->rt, 0, &op));
  return op;
}

static tn_array *floats(lab *l, int64_t n, const double *values) {
  return host_array(l->rt, TN_F32, (host_shape){1, {n}}, values);
}

Test(calls,
     the_folder_names_the_plugin_and_the_first_library_that_opens_is_taken) {
  lab l;
  tn_operator *op = load(&l, add);
  tn_array *x = floats(&l, 4, one_to_four), *y = floats(&l, 4, tens);
  tn_array *out = NULL;
  cr_assert_str_eq(tn_operator_name(op), "lab.add@1");
  OK(tn_call(l.rt, op, TN_IN(x, y), NULL, TN_OUT(&out)));
  host_expect(out, (const double[]){11, 22, 33, 44}, 4, 0);
  tn_array_release(x), tn_array_release(y), tn_array_release(out);
  lab_close(&l);
}

/* Columns of a matrix are not dense: the function gets a copy. */
Test(calls, strided_inputs_and_outputs_reach_the_function_dense) {
  const tn_range odd = {.axis = 0, .begin = 0, .end = 4, .step = 2};
  lab l;
  tn_operator *op = load(&l, add);
  tn_array *all = floats(&l, 4, one_to_four), *y = floats(&l, 2, tens);
  tn_array *x = NULL, *into = floats(&l, 4, tens), *out = NULL;
  OK(tn_array_slice(all, &odd, &x));
  OK(tn_array_slice(into, &odd, &out));
  OK(tn_call(l.rt, op, TN_IN(x, y), NULL, TN_OUT(&out)));
  host_expect(into, (const double[]){11, 20, 23, 40}, 4, 0);
  tn_array_release(x), tn_array_release(y), tn_array_release(all);
  tn_array_release(out), tn_array_release(into);
  lab_close(&l);
}

Test(calls, requests_to_add_and_to_work_in_place_are_lowered) {
  const tn_req more = TN_REQ_ADD;
  lab l;
  tn_operator *op = load(&l, add);
  tn_array *x = floats(&l, 4, one_to_four), *y = floats(&l, 4, tens);
  tn_array *out = floats(&l, 4, tens);
  OK(tn_call(l.rt, op, TN_IN(x, y), NULL, &(tn_outputs){1, &out, &more}));
  host_expect(out, (const double[]){21, 42, 63, 84}, 4, 0);
  OK(tn_call(l.rt, op, TN_IN(x, y), NULL, TN_OUT(&x)));
  host_expect(x, (const double[]){11, 22, 33, 44}, 4, 0);
  tn_array_release(x), tn_array_release(y), tn_array_release(out);
  lab_close(&l);
}

/* ---------------------------------------------------------------- arguments */

static const char digits[] =
    "opgen: 1\n"
    "op: digits\n"
    "summary: One argument of every type\n"
    "params:\n"
    "  - {name: i, type: int, default: -1}\n"
    "  - {name: f, type: float, default: 0.5}\n"
    "  - {name: on, type: bool, default: true}\n"
    "  - {name: mode, type: enum, values: [low, high], default: low}\n"
    "  - {name: axes, type: ints, default: [3, 4]}\n"
    "  - {name: scales, type: floats, default: [0.25, 0.75]}\n"
    "inputs: [{name: x, dtype: f32, shape: [B, S..., C]}]\n"
    "outputs: [{name: out, dtype: f64, shape: [12]}]\n"
    "binding:\n"
    "  library: \"@\"\n"
    "  symbol: lib_digits\n"
    "  args:\n"
    "    - {c: int8, pass: i}\n"
    "    - {c: uint8, pass: mode}\n"
    "    - {c: int16, pass: -300}\n"
    "    - {c: uint16, pass: on}\n"
    "    - {c: int32, pass: B - C}\n"
    "    - {c: uint32, pass: 4294967295}\n"
    "    - {c: int64, pass: \"select(on, -9007199254740992, 0)\"}\n"
    "    - {c: uint64, pass: size(x)*rank(x)}\n"
    "    - {c: float, pass: f}\n"
    "    - {c: double, pass: -1.25e100}\n"
    "    - {c: const int64*, pass: axes}\n"
    "    - {c: const double*, pass: scales}\n"
    "    - {c: double*, pass: out}\n"
    "examples:\n"
    "  - name: doc\n"
    "    x: [[[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]]\n"
    "    out: [-1, 0, -300, 1, -3, 4294967295, -9007199254740992, 30, 0.5,\n"
    "      -1.25e100, 4, 0.75]\n";

Test(calls, arguments_of_every_type_arrive) {
  const double zeros[24] = {0};
  const double expected[] = {127, 1,  -300,      0,         1, 4294967295,
                             0,   72, 0.0078125, -1.25e100, 8, -2};
  lab l;
  tn_operator *op = load(&l, digits);
  tn_params *params = host_params(
      op, "i=127 f=0.0078125 on=false mode=high axes=[7,8] scales=[1,-2]");
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){3, {3, 4, 2}}, zeros);
  tn_array *out = NULL;
  OK(tn_call(l.rt, op, TN_IN(x), params, TN_OUT(&out)));
  host_expect(out, expected, 12, 0);
  tn_params_release(params);
  tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

/* The second example's bias is absent, and `other` None. */
static const char lists[] =
    "opgen: 1\n"
    "op: lists\n"
    "summary: Lists of integers, and text\n"
    "params:\n"
    "  - {name: axes, type: ints, default: [3, 200]}\n"
    "  - {name: word, type: string, default: four}\n"
    "  - {name: other, type: string, optional: true}\n"
    "inputs:\n"
    "  - {name: x, dtype: f32, shape: [A, S...]}\n"
    "  - {name: bias, dtype: f32, shape: [M], independent: true, "
    "optional: true}\n"
    "outputs: [{name: out, dtype: f64, shape: [11]}]\n"
    "binding:\n"
    "  library: \"@\"\n"
    "  symbol: lib_lists\n"
    "  args:\n"
    "    - {c: int32, pass: rank(x)}\n"
    "    - {c: const int64*, pass: shape(x)}\n"
    "    - {c: const int32*, pass: 2*shape(x) - A}\n"
    "    - {c: const uint8*, pass: axes}\n"
    "    - {c: const char*, pass: word}\n"
    "    - {c: const char*, pass: other}\n"
    "    - {c: const int64*, pass: shape(bias)}\n"
    "    - {c: double*, pass: out}\n"
    "examples:\n"
    "  - name: all\n"
    "    params: {other: \"!\"}\n"
    "    x: [[[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]]\n"
    "    bias: [1, 2, 3, 4]\n"
    "    out: [2, 1, 5, 2, 0, 8, 3, 200, 4, 33, 4]\n"
    "  - name: without\n"
    "    x: [1, 2, 3]\n"
    "    out: [3, 0, 0, 3, 0, 0, 3, 200, 4, -1, -1]\n";

/* Before that the examples ran between guarded pages: lists have the declared
 * length, and text ends with a 0. */
Test(calls, lists_of_integers_and_text_arrive) {
  const double zeros[24] = {0};
  const double expected[] = {3, 4, 2, 3, 5, 1, 0, 255, 1, 'z', -1};
  lab l;
  tn_operator *op = load(&l, lists);
  tn_params *params = host_params(op, "axes=[0,255] word=w other=zyx");
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){3, {3, 4, 2}}, zeros);
  tn_array *out = NULL;
  OK(tn_call(l.rt, op, TN_IN(x), params, TN_OUT(&out)));
  host_expect(out, expected, 11, 0);
  tn_params_release(params);
  tn_array_release(out);
  params = host_params(op, "axes=[1,256]");
  out = NULL;
  FAILS(tn_call(l.rt, op, TN_IN(x), params, TN_OUT(&out)), TN_OUT_OF_RANGE,
        "`axes` holds 256, which does not fit uint8, argument 4 of lib_lists");
  tn_params_release(params);
  tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

/* Reading one number too many reaches a guarded page. */
Test(calls, a_list_of_the_wrong_width_is_found_by_the_examples) {
  char text[sizeof lists];
  lab l;
  strcpy(text, lists);
  memcpy(strstr(text, "const int64*, pass: shape(x)"), "const int16*", 12);
  lab_open(&l, NULL);
  FAILS(lab_load(&l, text), TN_PLUGIN, "`all` of lab.lists");
  lab_close(&l);
}

static tn_code call_digits(lab *l, tn_operator *op, const char *text) {
  const double zero = 0;
  tn_params *params = host_params(op, text);
  tn_array *x = host_array(l->rt, TN_F32, (host_shape){2, {1, 1}}, &zero);
  tn_array *out = NULL;
  const tn_code rc = tn_call(l->rt, op, TN_IN(x), params, TN_OUT(&out));
  tn_params_release(params);
  tn_array_release(x), tn_array_release(out);
  return rc;
}

Test(calls, a_value_that_is_too_wide_is_refused_and_never_cut_off) {
  lab l;
  tn_operator *op = load(&l, digits);
  FAILS(call_digits(&l, op, "i=128"), TN_OUT_OF_RANGE,
        "`i` is 128, which does not fit int8, argument 1 of lib_digits");
  FAILS(call_digits(&l, op, "i=-129"), TN_OUT_OF_RANGE, "`i` is -129");
  OK(call_digits(&l, op, "i=-128"));
  FAILS(call_digits(&l, op, "f=1e39"), TN_OUT_OF_RANGE,
        "`f` is 1e+39, which does not fit float, argument 9 of lib_digits");
  OK(call_digits(&l, op, "f=3e38"));
  OK(call_digits(&l, op, "f=inf"));
  OK(call_digits(&l, op, "f=nan"));
  lab_close(&l);
}

Test(calls, a_size_that_is_too_wide_is_refused) {
  char text[1024];
  const int64_t n = 32768;
  static float values[32768];
  lab l;
  strcpy(text, lab_simple("lib_square"));
  memcpy(strstr(text, "int32, pass"), "int16", 5);
  char *doc = strstr(text, "x: [1, 2, 3], out: [1, 2, 3]");
  memcpy(doc, "x: [1, 2, 3], out: [1, 4, 9]", 28);
  tn_operator *op = load(&l, text);
  tn_array *x = NULL, *out = NULL;
  OK(tn_array_create(l.rt, &(tn_spec){TN_F32, 1, &n}, &x));
  OK(tn_array_set(x, values, sizeof values));
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&out)));
  FAILS(tn_array_wait(out), TN_OUT_OF_RANGE,
        "`size(x)` is 32768, which does not fit int16, argument 1 of "
        "lib_square");
  tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

/* ------------------------------------------------------------------ results */

Test(calls, a_status_that_is_not_ok_fails_the_call) {
  lab l;
  tn_operator *op = load(&l,
                         "opgen: 1\nop: largest\nsummary: Largest element\n"
                         "inputs: [{name: x, dtype: f32, shape: [N]}]\n"
                         "outputs: [{name: out, dtype: f32, shape: []}]\n"
                         "binding:\n"
                         "  library: \"@\"\n"
                         "  symbol: lib_largest\n"
                         "  returns: {c: int32, ok: 0}\n"
                         "  args:\n"
                         "    - {c: int64, pass: N}\n"
                         "    - {c: const float*, pass: x}\n"
                         "    - {c: float*, pass: out}\n"
                         "examples: [{name: doc, x: [3, 9, 4], out: 9}]\n");
  tn_array *x = floats(&l, 4, tens), *none = floats(&l, 0, NULL);
  tn_array *out = NULL, *failed = NULL;
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&out)));
  host_expect(out, (const double[]){40}, 1, 0);
  FAILS(tn_call(l.rt, op, TN_IN(none), NULL, TN_OUT(&failed)), TN_INVALID,
        "lib_largest returned -7; 0 means success");
  tn_array_release(x), tn_array_release(none), tn_array_release(out);
  lab_close(&l);
}

Test(calls, a_narrow_result_becomes_the_element_of_an_output) {
  const int32_t values[] = {-1, 5, -3};
  const int64_t n = 3;
  int8_t count = 0;
  tn_array *x = NULL, *out = NULL;
  lab l;
  tn_operator *op =
      load(&l,
           "opgen: 1\nop: count\nsummary: How many are negative, negated\n"
           "inputs: [{name: x, dtype: i32}]\n"
           "outputs: [{name: out, dtype: i8, shape: [1]}]\n"
           "binding:\n"
           "  library: \"@\"\n"
           "  symbol: lib_count\n"
           "  returns: {c: int8, to: out}\n"
           "  args:\n"
           "    - {c: int64, pass: size(x)}\n"
           "    - {c: const int32*, pass: x}\n"
           "examples: [{name: doc, x: [[-1, 0]], out: [-1]}]\n");
  OK(tn_array_create(l.rt, &(tn_spec){TN_I32, 1, &n}, &x));
  OK(tn_array_set(x, values, sizeof values));
  OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&out)));
  OK(tn_array_get(out, &count, sizeof count));
  cr_expect_eq(count, -2);
  tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

Test(calls, an_output_that_nobody_wants_is_computed_elsewhere) {
  const double values[] = {1.5, -2.25, 3.75};
  const tn_req only_rest[] = {TN_REQ_NULL, TN_REQ_WRITE};
  tn_array *out[2] = {NULL, NULL};
  lab l;
  tn_operator *op =
      load(&l,
           "opgen: 1\nop: parts\nsummary: Whole and broken part\n"
           "inputs: [{name: x, dtype: f32}]\n"
           "outputs:\n"
           "  - {name: whole, dtype: f32, shape: x}\n"
           "  - {name: rest, dtype: f32, shape: x}\n"
           "binding:\n"
           "  library: \"@\"\n"
           "  symbol: lib_parts\n"
           "  args:\n"
           "    - {c: int64, pass: size(x)}\n"
           "    - {c: const float*, pass: x}\n"
           "    - {c: float*, pass: whole}\n"
           "    - {c: float*, pass: rest}\n"
           "examples: [{name: doc, x: [1.5], whole: [1], rest: [0.5]}]\n");
  tn_array *x = floats(&l, 3, values);
  OK(tn_call(l.rt, op, TN_IN(x), NULL, &(tn_outputs){2, out, only_rest}));
  cr_expect_null(out[0]);
  host_expect(out[1], (const double[]){0.5, -0.25, 0.75}, 3, 0);
  tn_array_release(x), tn_array_release(out[1]);
  lab_close(&l);
}

Test(calls, an_absent_input_is_a_null_pointer_and_a_state_is_changed) {
  lab l;
  tn_operator *op =
      load(&l,
           "opgen: 1\nop: biased\nsummary: Adds what may be absent\n"
           "inputs:\n"
           "  - {name: x, dtype: f32, shape: [N]}\n"
           "  - {name: bias, dtype: f32, shape: [N], optional: true}\n"
           "outputs: [{name: out, dtype: f32, shape: [N]}]\n"
           "aux: [{name: calls, dtype: i64, shape: [1], init: 0}]\n"
           "binding:\n"
           "  library: \"@\"\n"
           "  symbol: lib_biased\n"
           "  args:\n"
           "    - {c: int64, pass: N}\n"
           "    - {c: const float*, pass: x}\n"
           "    - {c: const float*, pass: bias}\n"
           "    - {c: int32, pass: has(bias)}\n"
           "    - {c: float*, pass: out}\n"
           "    - {c: int64*, pass: calls}\n"
           "examples:\n"
           "  - {name: without, x: [1, 2], calls: [4], out: [1, 2]}\n"
           "  - {name: given, x: [1, 2], bias: [5, 5], calls: [0],\n"
           "     out: [6, 7]}\n");
  const int64_t one = 1;
  int64_t count = 0;
  tn_array *x = floats(&l, 4, one_to_four), *bias = floats(&l, 4, tens);
  tn_array *calls = NULL, *out = NULL;
  OK(tn_array_create(l.rt, &(tn_spec){TN_I64, 1, &one}, &calls));
  OK(tn_array_set(calls, &count, sizeof count));
  OK(tn_call(l.rt, op, TN_IN(x, NULL, calls), NULL, TN_OUT(&out)));
  host_expect(out, one_to_four, 4, 0);
  OK(tn_call(l.rt, op, TN_IN(x, bias, calls), NULL, TN_OUT(&out)));
  host_expect(out, (const double[]){11, 22, 33, 44}, 4, 0);
  OK(tn_array_get(calls, &count, sizeof count));
  cr_expect_eq(count, 2);
  tn_array_release(x), tn_array_release(bias), tn_array_release(calls);
  tn_array_release(out);
  lab_close(&l);
}

/* ------------------------------------------------------------------ threads */

enum { CALLS = 8, LARGE = 1 << 20 };

/* Calls of `symbol` on arrays so large that workers take them; how many of them
 * met another one. */
static int count_meetings(const char *symbol, const char *thread) {
  const tn_options options = {.struct_size = sizeof options, .workers = 4};
  char text[1024];
  const int64_t n = LARGE;
  static float values[LARGE];
  tn_array *x = NULL, *out[CALLS] = {NULL};
  tn_operator *op = NULL;
  int met = 0;
  lab l;
  strcpy(text, lab_simple(symbol));
  memcpy(strstr(text, "int32, pass"), "int64", 5);
  memcpy(strstr(text, "thread: any") + 8, thread, 3);
  memcpy(strstr(text, "out: [1, 2, 3]"), "out: [0, 0, 0]", 14);
  lab_open(&l, &options);
  OK(lab_load(&l, text));
  OK(tn_operator_at(l.rt, 0, &op));
  OK(tn_array_create(l.rt, &(tn_spec){TN_F32, 1, &n}, &x));
  OK(tn_array_set(x, values, sizeof values));
  for (int i = 0; i < CALLS; ++i)
    OK(tn_call(l.rt, op, TN_IN(x), NULL, TN_OUT(&out[i])));
  for (int i = 0; i < CALLS; ++i) {
    OK(tn_array_get(out[i], values, sizeof values));
    met += values[0] > 0;
    tn_array_release(out[i]);
  }
  tn_array_release(x);
  lab_close(&l);
  return met;
}

Test(calls, functions_of_one_thread_take_turns) {
  cr_expect_eq(count_meetings("lib_alone", "one"), 0);
}

Test(calls, functions_of_any_thread_overlap) {
  cr_expect_gt(count_meetings("lib_together", "any"), 1);
}

/* ------------------------------------------------------------- the registry */

Test(calls, a_manifest_is_unloaded_like_any_plugin) {
  lab l;
  tn_operator *op = load(&l, digits), *again = NULL;
  tn_params *params = host_params(op, "i=3");
  FAILS(tn_plugin_unload(l.rt, "lab"), TN_BUSY,
        "1 params of lab.digits@1 not released");
  tn_params_release(params);
  OK(tn_plugin_unload(l.rt, "lab"));
  FAILS(tn_operator_get(l.rt, "lab.digits", &again), TN_NOT_FOUND, "digits");
  FAILS(tn_params_parse(op, "", &params), TN_NOT_FOUND, "no definition");
  lab_close(&l);
}

Test(calls, the_same_file_and_the_same_name_are_loaded_once) {
  lab l;
  (void)load(&l, add);
  FAILS(lab_load(&l, add), TN_EXISTS, "op.yaml: is loaded already");
  FAILS(tn_plugin_load(l.rt, lab_file(&l, "other.yaml", digits)), TN_EXISTS,
        "a plugin named \"lab\" is loaded already");
  OK(tn_plugin_unload(l.rt, "lab"));
  OK(lab_load(&l, add));
  lab_close(&l);
}

Test(calls, a_plugin_yaml_names_the_plugin_and_lists_its_operators) {
  tn_operator *op = NULL;
  tn_plugin_info info;
  char path[128];
  lab l;
  lab_open(&l, NULL);
  (void)lab_file(&l, "op.yaml", add);
  (void)lab_file(&l, "other.yaml", digits);
  strcpy(path, lab_file(&l, "plugin.yaml",
                        "opgen: 1\nplugin: pair\nrelease: 3\n"
                        "summary: Two bindings\nlicense: MIT\n"
                        "operators: [op.yaml, other.yaml]\n"));
  OK(tn_plugin_load(l.rt, path));
  OK(tn_plugin_at(l.rt, 0, &info));
  cr_expect_str_eq(info.plugin->name, "pair");
  cr_expect_eq(info.plugin->release, 3);
  cr_expect_eq(info.plugin->n_operators, 2);
  OK(tn_operator_get(l.rt, "pair.digits", &op));
  OK(tn_plugin_unload(l.rt, "pair"));
  OK(tn_plugin_load(l.rt, lab_file(&l, "op.yaml", add)));
  OK(tn_operator_get(l.rt, "pair.add", &op));
  FAILS(tn_operator_get(l.rt, "pair.digits", &op), TN_NOT_FOUND, "digits");
  lab_close(&l);
}

Test(calls, a_library_may_be_beside_its_manifest) {
  char text[1024], path[128];
  lab l;
  lab_open(&l, NULL);
  strcpy(text, lab_simple("lib_square"));
  memcpy(strstr(text, "int32, pass"), "int16", 5);
  memcpy(strstr(text, "out: [1, 2, 3]"), "out: [1, 4, 9]", 14);
  char *at = strstr(text, "@");
  memmove(at + 11, at + 1, strlen(at + 1) + 1);
  memcpy(at, "./beside.so", 11);
  (void)snprintf(path, sizeof path, "%s/beside.so", l.folder);
  cr_assert_eq(symlink(LIBRARY_FILE, path), 0);
  OK(lab_load(&l, text));
  lab_close(&l);
}

Test(calls, an_inspection_shows_the_loaded_operators) {
  tn_inspection *inspection = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_inspection_open(l.rt, lab_file(&l, "op.yaml", add), &inspection));
  const tn_plugin *plugin = tn_inspection_plugin(inspection);
  cr_expect_str_eq(plugin->name, "lab");
  cr_expect_str_eq(plugin->operators[0]->name, "add");
  cr_expect(strncmp(plugin->kernels[0]->requirement,
                    "lib_add of libnowhere.so.7 or /", 31) == 0,
            "%s", plugin->kernels[0]->requirement);
  cr_expect_null(tn_inspection_refusal(inspection));
  tn_inspection_close(inspection);
  lab_close(&l);
}

Test(calls, a_manifest_of_formulas_is_not_refused) {
  tn_inspection *inspection = NULL;
  lab l;
  lab_open(&l, NULL);
  OK(tn_inspection_open(
      l.rt,
      lab_file(&l, "op.yaml",
               "opgen: 1\nop: twice\nsummary: Twice\n"
               "inputs: [{name: x, dtype: f32}]\n"
               "outputs: [{name: out, dtype: f32, shape: x}]\n"
               "forward: {out: 2*x}\n"),
      &inspection));
  cr_expect_null(tn_inspection_refusal(inspection));
  tn_inspection_close(inspection);
  lab_close(&l);
}

/* ----------------------------------------------------------------- gradients
 */

/* out = x + x, with a gradient that calls another operator, or the operator
 * itself. */
#define TWICE(gradient)                            \
  "opgen: 1\n"                                     \
  "op: twice\n"                                    \
  "summary: Sum of a tensor and itself\n"          \
  "inputs: [{name: x, dtype: f32}]\n"              \
  "outputs: [{name: out, dtype: f32, shape: x}]\n" \
  "binding:\n"                                     \
  "  library: \"@\"\n"                             \
  "  symbol: lib_add\n"                            \
  "  args:\n"                                      \
  "    - {c: int32, pass: size(out)}\n"            \
  "    - {c: const float*, pass: x}\n"             \
  "    - {c: const float*, pass: x}\n"             \
  "    - {c: float*, pass: out}\n"                 \
  "gradient: {graph: {x: \"" gradient              \
  "(grad.out)\"}}\n"                               \
  "examples: [{name: doc, x: [1, 2], out: [2, 4]}]\n"

/* The gradient of twice(twice(x)) for x. */
static tn_code slope_of_four_times(lab *l, tn_operator *op, tn_array **slope) {
  tn_tape *tape = NULL;
  tn_array *x = floats(l, 4, one_to_four), *y = NULL, *z = NULL;
  OK(tn_tape_create(l->rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_call(tape, op, TN_IN(x), NULL, TN_OUT(&y)));
  OK(tn_tape_call(tape, op, TN_IN(y), NULL, TN_OUT(&z)));
  host_expect(z, (const double[]){4, 8, 12, 16}, 4, 0);
  tn_tape_query query = {.struct_size = sizeof query,
                         .heads = *TN_IN(z),
                         .of = *TN_IN(x),
                         .gradients = *TN_OUT(slope)};
  const tn_code rc = tn_tape_gradient(tape, &query);
  tn_tape_release(tape);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
  return rc;
}

Test(calls, a_gradient_is_a_graph_of_calls_that_a_tape_makes) {
  lab l;
  tn_operator *op = load(&l, TWICE("lab.twice"));
  tn_array *slope = NULL;
  OK(slope_of_four_times(&l, op, &slope));
  host_expect(slope, (const double[]){4, 4, 4, 4}, 4, 0);
  tn_array_release(slope);
  lab_close(&l);
}

Test(calls, an_operator_that_a_gradient_calls_and_nobody_has_is_named) {
  lab l;
  tn_operator *op = load(&l, TWICE("nowhere.double"));
  tn_array *slope = NULL;
  FAILS(slope_of_four_times(&l, op, &slope), TN_UNSUPPORTED, "nowhere.double");
  cr_expect_null(slope);
  lab_close(&l);
}

/* blas.axpy calls elemwise.mul_scalar. */
static void check_axpy(lab *l, tn_operator *op) {
  tn_tape *tape = NULL;
  tn_array *x = floats(l, 4, one_to_four), *y = floats(l, 4, one_to_four);
  tn_array *z = NULL, *slopes[2] = {NULL};
  tn_params *params = host_params(op, "alpha=3");
  OK(tn_tape_create(l->rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_watch(tape, y));
  OK(tn_tape_call(tape, op, TN_IN(x, y), params, TN_OUT(&z)));
  host_expect(z, (const double[]){4, 8, 12, 16}, 4, 0);
  tn_tape_query query = {.struct_size = sizeof query,
                         .heads = *TN_IN(z),
                         .head_gradients = *TN_IN(x),
                         .of = *TN_IN(x, y),
                         .gradients = {2, slopes, NULL}};
  OK(tn_tape_gradient(tape, &query));
  host_expect(slopes[0], (const double[]){3, 6, 9, 12}, 4, 0);
  host_expect(slopes[1], (const double[]){1, 2, 3, 4}, 4, 0);
  tn_tape_release(tape);
  tn_params_release(params);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
  tn_array_release(slopes[0]), tn_array_release(slopes[1]);
}

Test(calls, axpy_of_plugins_blas_has_its_gradients) {
  lab l;
  lab_open(&l, NULL);
  const tn_code rc = tn_plugin_load(l.rt, BLAS_FOLDER "/axpy.yaml");
  if (rc == TN_NOT_FOUND) {
    lab_close(&l);
    cr_skip_test("neither libopenblas.so.0 nor libblas.so.3 is here");
  }
  OK(rc);
  OK(tn_plugin_load(l.rt, ELEMWISE_FILE));
  check_axpy(&l, host_operator(l.rt, "blas.axpy"));
  lab_close(&l);
}
