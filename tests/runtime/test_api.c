/* SPDX-License-Identifier: Apache-2.0
 * test_api.c: each public function of tenon.h once with valid arguments, once
 * with NULL, and once with names that do not exist. The tests of the folders
 * below cover the functions themselves.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "probe.h"
#include "tenon/tenon.h"

static tn_runtime *rt;
static tn_array *x;

static void drop_log(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

static void setup(void) {
  const tn_options options = {.struct_size = sizeof options, .log = drop_log};
  const float values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK);
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &x), TN_OK);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
}

static void teardown(void) {
  tn_array_release(x);
  tn_runtime_release(rt);
}

TestSuite(api, .init = setup, .fini = teardown);

static void expect_text(const char *part) {
  cr_assert_not_null(strstr(tn_error_text(), part), "\"%s\" is missing in: %s",
                     part, tn_error_text());
}

static tn_operator *get_op(const char *name) {
  tn_operator *op = NULL;
  cr_assert_eq(tn_operator_get(rt, name, &op), TN_OK, "%s", tn_error_text());
  return op;
}

static bool text_has(tn_text *text, const char *part) {
  bool has = strstr(tn_text_get(text), part) != NULL;
  tn_text_release(text);
  return has;
}

Test(api, reports_its_version) {
  cr_assert_str_eq(tn_version(), TN_VERSION);
}

/* ---------------------------------------------------------------- plugins */

Test(api, lists_and_unloads_plugins) {
  tn_plugin_info info;
  cr_assert_eq(tn_plugin_at(rt, 0, &info), TN_OK);
  cr_assert_eq(info.plugin, &probe_plugin);
  cr_assert_str_eq(info.path, "(static)");
  cr_assert_eq(tn_plugin_at(rt, 1, &info), TN_NOT_FOUND);
  cr_assert_null(info.plugin);
  cr_assert_eq(tn_plugin_unload(rt, "prob"), TN_NOT_FOUND);
  expect_text("prob");
  tn_operator *op = get_op("probe.all");
  cr_assert_eq(tn_plugin_unload(rt, "probe"), TN_OK, "%s", tn_error_text());
  cr_assert_null(tn_operator_desc(op));
  cr_assert_str_eq(tn_operator_name(op), "probe.all@1");
}

Test(api, does_not_unload_plugins_in_use) {
  tn_params *params = NULL;
  cr_assert_eq(tn_params_parse(get_op("probe.all"), "", &params), TN_OK);
  cr_assert_eq(tn_plugin_unload(rt, "probe"), TN_BUSY);
  expect_text("probe");
  tn_params_release(params);
  cr_assert_eq(tn_plugin_unload(rt, "probe"), TN_OK);
}

Test(api, loads_no_missing_file) {
  tn_inspection *inspection = NULL;
  cr_assert_eq(tn_plugin_load(rt, "/no/such/plugin.so"), TN_NOT_FOUND);
  expect_text("/no/such/plugin.so");
  cr_assert_eq(tn_inspection_open(rt, "/no/such/plugin.so", &inspection),
               TN_NOT_FOUND);
  cr_assert_null(inspection);
  cr_assert_eq(tn_plugins_load_path(rt, NULL), TN_INVALID);
  expect_text("search_path");
  cr_assert_neq(tn_plugins_load_path(rt, "relative"), TN_OK);
  expect_text("relative");
}

/* If the library is linked into a test, its folder is the folder of the test.
 */
Test(api, looks_for_standard_plugins_next_to_the_library) {
  cr_assert_eq(tn_plugins_load_standard(rt), TN_NOT_FOUND, "%s",
               tn_error_text());
  expect_text("/tenon");
}

Test(api, prints_a_plugin_as_json) {
  tn_text *text = NULL;
  cr_assert_eq(tn_plugin_json(rt, &probe_plugin, &text), TN_OK);
  cr_assert(text_has(text, "\"probe\""));
}

/* -------------------------------------------------------------- operators */

Test(api, finds_and_lists_operators) {
  tn_operator *op = get_op("probe.all"), *found = NULL;
  cr_assert_eq(tn_operator_get(rt, "probe.all@1", &found), TN_OK);
  cr_assert_eq(found, op);
  cr_assert_str_eq(tn_operator_desc(op)->name, "all");
  cr_assert_eq(tn_operator_get(rt, "probe.al", &found), TN_NOT_FOUND);
  cr_assert_null(found);
  expect_text("probe.al");
  size_t n = 0;
  while (tn_operator_at(rt, n, &found) == TN_OK) ++n;
  cr_assert_eq(n, probe_plugin.n_operators);
}

Test(api, describes_and_explains_an_operator) {
  tn_text *text = NULL;
  tn_operator *op = get_op("probe.all");
  cr_assert_eq(tn_operator_json(op, &text), TN_OK);
  cr_assert(text_has(text, "\"all\""));
  cr_assert_eq(tn_operator_explain(op, TN_IN(x), NULL, &text), TN_OK, "%s",
               tn_error_text());
  cr_assert(text_has(text, "probe.all.cpu"));
}

/* probe.mul has a backward kernel without a gradient. */
Test(api, reports_if_there_is_a_second_gradient) {
  tn_text *text = NULL;
  cr_assert_eq(tn_operator_json(get_op("probe.mul"), &text), TN_OK);
  cr_assert(text_has(text, ", \"second_gradient\": false}"));
}

Test(api, names_element_types_and_reads_their_names) {
  tn_dtype dtype = TN_F64;
  cr_assert_str_eq(tn_dtype_name(TN_BF16), "bf16");
  cr_assert_str_eq(tn_dtype_name(TN_BOOL), "bool");
  cr_assert_str_eq(tn_dtype_name(0x123), "?");
  cr_assert_eq(tn_dtype_parse("u16", &dtype), TN_OK);
  cr_assert_eq(dtype, TN_U16);
  cr_assert_eq(tn_dtype_parse("float32", &dtype), TN_INVALID);
  cr_assert_eq(dtype, TN_DTYPE_UNKNOWN);
  expect_text("`float32` is no element type");
  cr_assert_eq(tn_dtype_parse("f23", &dtype), TN_INVALID);
  expect_text("did you mean `f32`?");
}

Test(api, pins_a_kernel) {
  tn_operator *op = get_op("probe.all");
  cr_assert_eq(tn_operator_pin(op, "probe.all.cpu"), TN_OK);
  cr_assert_eq(tn_operator_pin(op, "probe.none"), TN_NOT_FOUND);
  expect_text("probe.none");
  cr_assert_eq(tn_operator_pin(op, NULL), TN_OK);
}

Test(api, infers_shapes_and_types) {
  tn_sig in[1] = {{TN_F32, 2, {2, 3}}}, out[1] = {{TN_DTYPE_UNKNOWN, -1, {0}}};
  tn_signature io = {1, 1, 0, 0, in, out, NULL};
  cr_assert_eq(tn_operator_infer(get_op("probe.all"), NULL, &io), TN_OK);
  cr_assert(out[0].ndim == 2 && out[0].shape[1] == 3);
}

Test(api, refuses_unknown_params) {
  tn_params *params = NULL;
  const tn_value value = tn_value_int("b", 1), nameless = tn_value_int(NULL, 1);
  tn_operator *op = get_op("probe.all");
  cr_assert_eq(tn_params_parse(op, "b=1", &params), TN_NOT_FOUND);
  cr_assert_null(params);
  expect_text("b");
  cr_assert_eq(tn_params_create(op, &value, 1, &params), TN_NOT_FOUND);
  cr_assert_eq(tn_params_create(op, &nameless, 1, &params), TN_INVALID);
  expect_text("value 0 is NULL");
}

Test(api, tells_values_that_are_no_parameters) {
  const tn_value values[] = {tn_value_int("a", 1), tn_value_int("b", 2)};
  const uint8_t expected[] = {1, 1};
  uint8_t unknown[2] = {7, 7};
  tn_operator *op = get_op("probe.all");
  const tn_value nameless = tn_value_int(NULL, 1);
  cr_assert_eq(tn_params_find_unknown(op, &nameless, 1, unknown), TN_INVALID);
  expect_text("tn_params_find_unknown: the key of value 0 is NULL");
  cr_assert_eq(unknown[0], 7);
  cr_assert_eq(tn_params_find_unknown(op, values, 2, unknown), TN_OK);
  cr_assert_arr_eq(unknown, expected, 2);
  cr_assert_eq(tn_params_find_unknown(op, NULL, 0, NULL), TN_OK);
}

/* ----------------------------------------------------------------- arrays */

Test(api, creates_views) {
  tn_array *v = NULL;
  float got[6];
  const tn_range range = {1, 0, 1, 3, 0};
  cr_assert_eq(tn_array_slice(x, &range, &v), TN_OK);
  cr_assert_eq(tn_array_size(v), 4);
  tn_array_release(v);
  cr_assert_eq(tn_array_index(x, 0, 1, &v), TN_OK);
  cr_assert_eq(tn_array_get(v, got, 12), TN_OK);
  cr_assert_eq(got[0], 4);
  tn_array_release(v);
  cr_assert_eq(tn_array_reshape(x, 1, (const int64_t[]){-1}, &v), TN_OK);
  cr_assert_eq(tn_array_tensor(v)->shape[0], 6);
  tn_array_release(v);
  cr_assert_eq(tn_array_transpose(x, NULL, &v), TN_OK);
  cr_assert_eq(tn_array_get(v, got, 24), TN_OK);
  cr_assert_eq(got[1], 4);
  tn_array_release(v);
  cr_assert_eq(tn_array_broadcast(x, 3, (const int64_t[]){5, 2, 3}, &v), TN_OK);
  cr_assert_eq(tn_array_size(v), 30);
  cr_assert_eq(tn_array_retain(v), v);
  tn_array_release(v);
  tn_array_release(v);
  cr_assert_eq(tn_array_bits(x, TN_I32, &v), TN_OK);
  cr_assert_eq(tn_array_tensor(v)->dtype, TN_I32);
  tn_array_release(v);
}

Test(api, waits_for_arrays) {
  cr_assert_eq(tn_array_wait(x), TN_OK);
  cr_assert_eq(tn_array_wait_write(x), TN_OK);
  cr_assert_eq(tn_array_wait_for(x, 0), TN_OK);
  cr_assert_eq(tn_wait_all(rt), TN_OK);
}

Test(api, copies_and_casts_arrays) {
  tn_array *y = NULL, *z = NULL;
  int32_t got[6];
  const tn_place cpu = {TN_DEVICE_CPU, 0}, none = {TN_DEVICE_CPU, 1};
  cr_assert_eq(tn_array_cast(x, TN_I32, &y), TN_OK);
  cr_assert_eq(tn_array_to(y, cpu, &z), TN_OK);
  cr_assert_eq(tn_array_copy(y, x), TN_OK);
  cr_assert_eq(tn_array_get(z, got, sizeof got), TN_OK);
  cr_assert(got[0] == 1 && got[5] == 6);
  tn_array_release(z);
  cr_assert_eq(tn_array_to(y, none, &z), TN_NOT_FOUND);
  cr_assert_null(z);
  expect_text("no cpu(1)");
  tn_array_release(y);
}

/* ---------------------------------------------------------------- devices */

Test(api, creates_arrays_on_devices) {
  tn_place place;
  tn_array *y = NULL;
  const int64_t shape[] = {2};
  const tn_spec spec = {TN_F32, 1, shape};
  cr_assert_eq(tn_place_parse(rt, "cpu", &place), TN_OK);
  cr_assert(place.device_type == TN_DEVICE_CPU && place.device_id == 0);
  cr_assert_eq(tn_array_create_on(rt, &spec, place, &y), TN_OK);
  cr_assert_eq(tn_array_tensor(y)->device_type, TN_DEVICE_CPU);
  tn_array_release(y);
  place.device_id = 3;
  cr_assert_eq(tn_array_create_on(rt, &spec, place, &y), TN_NOT_FOUND);
  cr_assert_null(y);
  cr_assert_eq(tn_place_parse(rt, "cpu(", &place), TN_INVALID);
  cr_assert_eq(tn_place_parse(rt, "moon(0)", &place), TN_NOT_FOUND);
  expect_text("moon");
}

Test(api, reports_the_memory_of_devices) {
  const tn_place cpu = {TN_DEVICE_CPU, 0}, none = {77, 0};
  tn_memory m = {.struct_size = sizeof m};
  cr_assert_eq(tn_memory_get(rt, cpu, &m), TN_OK);
  cr_assert_eq(m.limit, UINT64_MAX);
  cr_assert_eq(m.struct_size, sizeof m);
  struct {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t limit;
    uint64_t beyond;
  } older = {16, 0, 0, 5};
  cr_assert_eq(tn_memory_get(rt, cpu, (tn_memory *)(void *)&older), TN_OK);
  cr_assert(older.limit == UINT64_MAX && older.beyond == 5);
  m.struct_size = 4;
  cr_assert_eq(tn_memory_get(rt, cpu, &m), TN_INVALID);
  expect_text("struct_size is 4");
  m.struct_size = sizeof m;
  cr_assert_eq(tn_memory_get(rt, none, &m), TN_NOT_FOUND);
  cr_assert_eq(tn_memory_trim(rt, cpu), TN_OK);
  cr_assert_eq(tn_memory_trim(rt, none), TN_NOT_FOUND);
}

/* ------------------------------------------------------------------ calls */

Test(api, prepares_a_call) {
  tn_array *y = NULL, *in[] = {x, x};
  float got[6];
  tn_prepared *call = NULL;
  tn_preparation what = {.struct_size = sizeof what,
                         .op = get_op("probe.mul"),
                         .inputs = {2, in},
                         .outputs = {1, &y, NULL}};
  cr_assert_eq(tn_call_prepare(rt, &what, &call), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_call_run(call), TN_OK);
  cr_assert_eq(tn_array_get(y, got, sizeof got), TN_OK);
  cr_assert_eq(got[5], 36);
  const tn_value value = tn_value_int("none", 1);
  cr_assert_eq(tn_call_set(call, &value), TN_NOT_FOUND);
  tn_prepared_release(call);
  tn_array_release(y);
  what.struct_size = 8;
  cr_assert_eq(tn_call_prepare(rt, &what, &call), TN_INVALID);
  cr_assert_null(call);
  expect_text("tn_preparation.struct_size is 8");
  what.struct_size = sizeof what;
  what.flags = 6;
  cr_assert_eq(tn_call_prepare(rt, &what, &call), TN_INVALID);
  expect_text("tn_preparation.flags is 0x6");
}

Test(api, calls_forward_and_backward) {
  tn_operator *op = get_op("probe.mul");
  tn_array *in[] = {x, x}, *y = NULL, *grads[2] = {NULL, NULL};
  float got[6];
  cr_assert_eq(tn_call(rt, op, TN_IN(x, x), NULL, TN_OUT(&y)), TN_OK);
  cr_assert_eq(tn_array_get(y, got, sizeof got), TN_OK);
  cr_assert_eq(got[5], 36);
  tn_backward b = {.struct_size = sizeof b,
                   .inputs = {2, in},
                   .outputs = {1, &y},
                   .out_grads = {1, &y},
                   .in_grads = {2, grads, NULL}};
  cr_assert_eq(tn_call_backward(rt, op, &b), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_array_get(grads[1], got, sizeof got), TN_OK);
  cr_assert_eq(got[2], 27); /* 3 * 3 * 3 */
  b.struct_size = 8;
  cr_assert_eq(tn_call_backward(rt, op, &b), TN_INVALID);
  expect_text("tn_backward.struct_size is 8");
  b.struct_size = sizeof b;
  b.flags = 6;
  cr_assert_eq(tn_call_backward(rt, op, &b), TN_INVALID);
  expect_text("tn_backward.flags is 0x6");
  b.flags = TN_CALL_TRAIN;
  cr_assert_eq(tn_call_backward(rt, op, &b), TN_OK);
  cr_assert_eq(tn_call_train(rt, op, TN_IN(x, x), NULL, TN_OUT(&y)), TN_OK);
  cr_assert_eq(tn_array_get(y, got, sizeof got), TN_OK);
  cr_assert_eq(got[5], 36);
  for (int i = 0; i < 2; ++i) tn_array_release(grads[i]);
  tn_array_release(y);
}

/* ------------------------------------------------------------------- NULL */

#define REFUSES(call, name)            \
  do {                                 \
    cr_expect_eq((call), TN_INVALID);  \
    expect_text("`" name "` is NULL"); \
  } while (0)

Test(api, names_the_argument_that_is_null) {
  tn_operator *op = get_op("probe.all"), *found = NULL;
  tn_array *y = NULL;
  tn_text *text = NULL;
  tn_params *params = NULL;
  tn_inspection *inspection = NULL;
  tn_plugin_info info;
  tn_device_entry entry;
  tn_signature io = {0};
  const tn_range range = {0};
  const tn_value value = tn_value_int("a", 1);
  uint8_t unknown = 0;
  tn_dtype dtype;
  REFUSES(tn_plugin_load(NULL, "x"), "rt");
  REFUSES(tn_plugin_load(rt, NULL), "path");
  REFUSES(tn_plugin_add(rt, NULL), "plugin");
  REFUSES(tn_plugins_load_standard(NULL), "rt");
  REFUSES(tn_plugins_load_path(NULL, "/"), "rt");
  REFUSES(tn_plugin_unload(rt, NULL), "name");
  REFUSES(tn_plugin_extension(rt, "comm/1", NULL), "out");
  REFUSES(tn_plugin_at(NULL, 0, &info), "rt");
  REFUSES(tn_plugin_at(rt, 0, NULL), "out");
  REFUSES(tn_plugin_json(rt, NULL, &text), "plugin");
  REFUSES(tn_inspection_open(rt, NULL, &inspection), "path");
  REFUSES(tn_operator_get(rt, NULL, &found), "name");
  REFUSES(tn_operator_get(rt, "a.b", NULL), "out");
  REFUSES(tn_operator_at(NULL, 0, &found), "rt");
  REFUSES(tn_operator_json(NULL, &text), "op");
  REFUSES(tn_dtype_parse(NULL, &dtype), "name");
  REFUSES(tn_dtype_parse("f32", NULL), "out");
  REFUSES(tn_operator_explain(op, NULL, NULL, NULL), "out");
  REFUSES(tn_operator_pin(NULL, "x"), "op");
  REFUSES(tn_operator_infer(NULL, NULL, &io), "op");
  REFUSES(tn_operator_infer(op, NULL, NULL), "io");
  REFUSES(tn_operator_outputs(NULL, NULL, 1, NULL, NULL), "op");
  REFUSES(tn_params_create(op, NULL, 1, &params), "values");
  REFUSES(tn_params_find_unknown(op, NULL, 1, &unknown), "values");
  REFUSES(tn_params_find_unknown(op, &value, 1, NULL), "unknown");
  REFUSES(tn_params_parse(op, NULL, &params), "text");
  REFUSES(tn_params_text(NULL, &text), "params");
  REFUSES(tn_params_json(NULL, &text), "params");
  REFUSES(tn_array_create(rt, NULL, &y), "spec");
  REFUSES(tn_array_set(NULL, "x", 1), "array");
  REFUSES(tn_array_set(x, NULL, 24), "data");
  REFUSES(tn_array_get(x, NULL, 24), "data");
  REFUSES(tn_array_slice(x, NULL, &y), "range");
  REFUSES(tn_array_slice(x, &range, NULL), "out");
  REFUSES(tn_array_index(NULL, 0, 0, &y), "array");
  REFUSES(tn_array_reshape(x, 1, NULL, &y), "shape");
  REFUSES(tn_array_transpose(NULL, NULL, &y), "array");
  REFUSES(tn_array_broadcast(x, 2, NULL, &y), "shape");
  REFUSES(tn_array_bits(NULL, TN_I32, &y), "array");
  REFUSES(tn_call(NULL, op, TN_IN(x), NULL, TN_OUT(&y)), "rt");
  REFUSES(tn_call(rt, NULL, TN_IN(x), NULL, TN_OUT(&y)), "op");
  REFUSES(tn_call(rt, op, NULL, NULL, TN_OUT(&y)), "in");
  REFUSES(tn_call(rt, op, TN_IN(x), NULL, NULL), "out");
  REFUSES(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(NULL)), "out->arrays");
  REFUSES(tn_call_backward(rt, op, NULL), "call");
  REFUSES(tn_device_at(NULL, 0, &entry), "rt");
}

Test(api, names_the_argument_that_is_null_when_work_is_scheduled) {
  const tn_spec spec = {TN_F32, 0, NULL};
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  tn_preparation what = {.struct_size = sizeof what};
  tn_place place;
  tn_prepared *call = NULL;
  tn_array *y = NULL;
  tn_memory m = {.struct_size = sizeof m};
  tn_random_state state = {0, 0};
  REFUSES(tn_wait_all(NULL), "rt");
  REFUSES(tn_random_seed(NULL, 1), "rt");
  REFUSES(tn_random_get(NULL, &state), "rt");
  REFUSES(tn_random_get(rt, NULL), "out");
  REFUSES(tn_random_set(NULL, &state), "rt");
  REFUSES(tn_random_set(rt, NULL), "state");
  REFUSES(tn_trace_start(NULL), "rt");
  REFUSES(tn_trace_write(NULL, "x"), "rt");
  REFUSES(tn_trace_write(rt, NULL), "path");
  REFUSES(tn_place_parse(NULL, "cpu", &place), "rt");
  REFUSES(tn_place_parse(rt, NULL, &place), "text");
  REFUSES(tn_place_parse(rt, "cpu", NULL), "out");
  REFUSES(tn_array_create_on(NULL, &spec, cpu, &y), "rt");
  REFUSES(tn_array_create_on(rt, NULL, cpu, &y), "spec");
  REFUSES(tn_array_create_on(rt, &spec, cpu, NULL), "out");
  REFUSES(tn_array_wait(NULL), "array");
  REFUSES(tn_array_wait_write(NULL), "array");
  REFUSES(tn_array_wait_for(NULL, 1), "array");
  REFUSES(tn_array_copy(NULL, x), "to");
  REFUSES(tn_array_copy(x, NULL), "from");
  REFUSES(tn_array_cast(NULL, TN_F32, &y), "array");
  REFUSES(tn_array_cast(x, TN_F32, NULL), "out");
  REFUSES(tn_array_to(NULL, cpu, &y), "array");
  REFUSES(tn_array_to(x, cpu, NULL), "out");
  REFUSES(tn_call_prepare(NULL, &what, &call), "rt");
  REFUSES(tn_call_prepare(rt, NULL, &call), "what");
  REFUSES(tn_call_prepare(rt, &what, NULL), "out");
  REFUSES(tn_call_prepare(rt, &what, &call), "what->op");
  REFUSES(tn_call_run(NULL), "call");
  REFUSES(tn_call_set(NULL, &(tn_value){0}), "call");
  REFUSES(tn_memory_get(NULL, cpu, &m), "rt");
  REFUSES(tn_memory_get(rt, cpu, NULL), "out");
  REFUSES(tn_memory_trim(NULL, cpu), "rt");
}

Test(api, returns_null_for_null) {
  cr_assert_null(tn_inspection_plugin(NULL));
  cr_assert_null(tn_inspection_note(NULL));
  cr_assert_null(tn_inspection_refusal(NULL));
  cr_assert_null(tn_operator_name(NULL));
  cr_assert_null(tn_operator_desc(NULL));
  cr_assert_null(tn_params_struct(NULL));
  cr_assert_null(tn_array_tensor(NULL));
  cr_assert_null(tn_array_retain(NULL));
  cr_assert_eq(tn_array_size(NULL), 0);
  tn_inspection_close(NULL);
  tn_params_release(NULL);
  tn_array_release(NULL);
  tn_prepared_release(NULL);
}
