/* SPDX-License-Identifier: Apache-2.0
 * test_maps.c: functions that are called once for each element, numbers by
 * value and by address, constant text.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "lab.h"

/* The only operator of a manifest. */
static tn_operator *load(lab *l, const char *text) {
  tn_operator *op = NULL;
  lab_open(l, NULL);
  OK(lab_load(l, text));
  OK(tn_operator_at(l->rt, 0, &op));
  return op;
}

/* Values of the Bessel function by mpmath, to 17 digits. */
static const char bessel[] =
    "opgen: 1\n"
    "op: jn\n"
    "summary: Bessel function of the first kind\n"
    "params: [{name: n, type: int, default: 0}]\n"
    "inputs: [{name: x, dtype: f64}]\n"
    "outputs: [{name: out, dtype: f64, shape: x, inplace: x}]\n"
    "binding:\n"
    "  library: libm.so.6\n"
    "  symbol: jn\n"
    "  map: x\n"
    "  returns: {c: double, to: out}\n"
    "  thread: any\n"
    "  args:\n"
    "    - {c: int32, pass: n}\n"
    "    - {c: double, pass: x}\n"
    "examples:\n"
    "  - {name: zero, x: [[0, 2.5]], out: [[1, -0.048383776468197996]]}\n"
    "  - {name: third, params: {n: 3}, x: [-4], out: [-0.43017147387562194]}\n"
    "  - {name: empty, x: [], out: []}\n";

Test(maps, a_function_of_one_number_is_called_for_each_element) {
  lab l;
  tn_operator *op = load(&l, bessel);
  tn_params *params = host_params(op, "n=1");
  const double values[] = {0.5, 0, 0.5, -0.5};
  const double want[] = {0.24226845767487389, 0, 0.24226845767487389,
                         -0.24226845767487389};
  tn_array *x = host_array(l.rt, TN_F64, (host_shape){2, {2, 2}}, values);
  tn_array *out = NULL;
  OK(tn_call(l.rt, op, TN_IN(x), params, TN_OUT(&out)));
  host_expect(out, want, 4, 1e-15);
  OK(tn_call(l.rt, op, TN_IN(x), params, TN_OUT(&x)));
  host_expect(x, want, 4, 1e-15);
  tn_params_release(params);
  tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

Test(maps, strided_elements_are_mapped_and_added) {
  const tn_range odd = {.axis = 0, .begin = 0, .end = 4, .step = 2};
  const tn_req more = TN_REQ_ADD;
  lab l;
  tn_operator *op = load(&l, bessel);
  const double values[] = {0, 7, 2.5, 7};
  tn_array *all = host_array(l.rt, TN_F64, (host_shape){1, {4}}, values);
  tn_array *out =
      host_array(l.rt, TN_F64, (host_shape){1, {2}}, (const double[]){1, 2});
  tn_array *x = NULL;
  OK(tn_array_slice(all, &odd, &x));
  OK(tn_call(l.rt, op, TN_IN(x), NULL, &(tn_outputs){1, &out, &more}));
  host_expect(out, (const double[]){2, 1.951616223531802}, 2, 1e-15);
  tn_array_release(all), tn_array_release(x), tn_array_release(out);
  lab_close(&l);
}

static const char parts[] =
    "opgen: 1\n"
    "op: part\n"
    "summary: Multiples of a unit, and the rest\n"
    "params: [{name: unit, type: float, default: 1}]\n"
    "inputs:\n"
    "  - {name: x, dtype: f64, shape: [M, N]}\n"
    "  - {name: turn, dtype: i16, shape: [M, N]}\n"
    "outputs:\n"
    "  - {name: whole, dtype: i64, shape: [M, N]}\n"
    "  - {name: rest, dtype: f64, shape: x}\n"
    "binding:\n"
    "  library: \"@\"\n"
    "  symbol: lib_part\n"
    "  map: x\n"
    "  returns: {c: int32, ok: 0}\n"
    "  args:\n"
    "    - {c: const double*, pass: unit, by: address}\n"
    "    - {c: double, pass: x}\n"
    "    - {c: int16, pass: turn}\n"
    "    - {c: int64*, pass: whole}\n"
    "    - {c: double*, pass: rest}\n"
    "examples:\n"
    "  - {name: doc, x: [[1.5, 2.25]], turn: [[1, -1]], whole: [[1, -2]],\n"
    "    rest: [[0.5, 0.25]]}\n";

Test(maps, pointers_to_outputs_are_those_of_their_elements) {
  lab l;
  tn_operator *op = load(&l, parts);
  tn_params *params = host_params(op, "unit=4");
  const double values[] = {1, 9.5, 4};
  const tn_req only_rest[] = {TN_REQ_NULL, TN_REQ_WRITE};
  const host_shape shape = {2, {3, 1}};
  tn_array *x = host_array(l.rt, TN_F64, shape, values);
  tn_array *turn =
      host_many(l.rt, TN_I16, 2, shape.dims, (const double[]){1, -1, -32768});
  tn_array *out[2] = {NULL, NULL}, *rest[2] = {NULL, NULL};
  OK(tn_call(l.rt, op, TN_IN(x, turn), params, &(tn_outputs){2, out, NULL}));
  host_expect(out[0], (const double[]){0, -2, -32768}, 3, 0);
  host_expect(out[1], (const double[]){1, 1.5, 0}, 3, 0);
  OK(tn_call(l.rt, op, TN_IN(x, turn), params,
             &(tn_outputs){2, rest, only_rest}));
  host_expect(rest[1], (const double[]){1, 1.5, 0}, 3, 0);
  tn_params_release(params);
  tn_array_release(x), tn_array_release(turn);
  tn_array_release(out[0]), tn_array_release(out[1]);
  tn_array_release(rest[1]);
  lab_close(&l);
}

Test(maps, a_status_names_the_element_that_failed) {
  lab l;
  tn_operator *op = load(&l, parts);
  const host_shape shape = {2, {1, 3}};
  tn_array *x = host_array(l.rt, TN_F64, shape, (const double[]){1, 2, -3});
  tn_array *turn =
      host_many(l.rt, TN_I16, 2, shape.dims, (const double[]){1, 1, 1});
  tn_array *out[2] = {NULL, NULL};
  FAILS(tn_call(l.rt, op, TN_IN(x, turn), NULL, &(tn_outputs){2, out, NULL}),
        TN_INVALID,
        "lib_part returned -3 for element 2 of `x`; 0 means success");
  tn_array_release(x), tn_array_release(turn);
  tn_array_release(out[0]), tn_array_release(out[1]);
  lab_close(&l);
}

/* The examples run between guarded pages: an element is no longer than it is.
 */
Test(maps, an_element_of_the_wrong_width_is_found_by_the_examples) {
  char text[sizeof parts];
  lab l;
  strcpy(text, parts);
  memcpy(strstr(text, "dtype: i64"), "dtype: i32", 10);
  memcpy(strstr(text, "int64*"), "int32*", 6);
  lab_open(&l, NULL);
  FAILS(lab_load(&l, text), TN_PLUGIN, "`doc` of lab.part");
  lab_close(&l);
}

/* ------------------------------------------------------- numbers and text */

static const char scale[] =
    "opgen: 1\n"
    "op: scale\n"
    "summary: A function that takes addresses of numbers\n"
    "params: [{name: step, type: int, default: 1, min: 1}]\n"
    "inputs:\n"
    "  - {name: x, dtype: f32, shape: [N]}\n"
    "  - {name: alpha, dtype: f32, shape: []}\n"
    "outputs: [{name: out, dtype: f32, shape: [N/step]}]\n"
    "binding:\n"
    "  library: \"@\"\n"
    "  symbol: lib_scale_\n"
    "  args:\n"
    "    - {c: const char*, text: negative}\n"
    "    - {c: const int32*, pass: N/step, by: address}\n"
    "    - {c: const float*, pass: alpha}\n"
    "    - {c: const float*, pass: x}\n"
    "    - {c: const int16*, pass: step, by: address}\n"
    "    - {c: float*, pass: out}\n"
    "examples:\n"
    "  - {name: doc, x: [1, 2], alpha: 10, out: [-10, -20]}\n"
    "  - {name: second, params: {step: 2}, x: [1, 2, 3], alpha: 1, out: "
    "[-1]}\n";

Test(maps, numbers_arrive_by_address_and_text_is_constant) {
  lab l;
  tn_operator *op = load(&l, scale);
  tn_params *params = host_params(op, "step=2");
  tn_array *x = host_array(l.rt, TN_F32, (host_shape){1, {4}},
                           (const double[]){1, 2, 3, 4});
  tn_array *alpha =
      host_array(l.rt, TN_F32, (host_shape){0, {0}}, (const double[]){0.5});
  tn_array *out = NULL;
  OK(tn_call(l.rt, op, TN_IN(x, alpha), params, TN_OUT(&out)));
  host_expect(out, (const double[]){-0.5, -1.5}, 2, 0);
  tn_params_release(params);
  tn_array_release(out);
  params = host_params(op, "step=40000");
  out = NULL;
  FAILS(tn_call(l.rt, op, TN_IN(x, alpha), params, TN_OUT(&out)),
        TN_OUT_OF_RANGE,
        "`step` is 40000, which does not fit int16, argument 5 of lib_scale_");
  tn_params_release(params);
  tn_array_release(x), tn_array_release(alpha), tn_array_release(out);
  lab_close(&l);
}

Test(maps, an_input_without_dimensions_is_passed_by_value) {
  lab l;
  tn_operator *op = load(&l,
                         "opgen: 1\nop: shift\nsummary: Adds a number\n"
                         "inputs:\n"
                         "  - {name: x, dtype: f32}\n"
                         "  - {name: by, dtype: f64, shape: []}\n"
                         "outputs: [{name: out, dtype: f32, shape: x}]\n"
                         "binding:\n"
                         "  library: \"@\"\n"
                         "  symbol: lib_shift\n"
                         "  args:\n"
                         "    - {c: int32, pass: size(x)}\n"
                         "    - {c: double, pass: by}\n"
                         "    - {c: const float*, pass: x}\n"
                         "    - {c: float*, pass: out}\n"
                         "examples:\n"
                         "  - {name: doc, x: [1, 2], by: 4, out: [5, 6]}\n");
  tn_array *x =
      host_array(l.rt, TN_F32, (host_shape){1, {2}}, (const double[]){1, 2});
  tn_array *by =
      host_array(l.rt, TN_F64, (host_shape){0, {0}}, (const double[]){-0.25});
  tn_array *out = NULL;
  OK(tn_call(l.rt, op, TN_IN(x, by), NULL, TN_OUT(&out)));
  host_expect(out, (const double[]){0.75, 1.75}, 2, 0);
  tn_array_release(x), tn_array_release(by), tn_array_release(out);
  lab_close(&l);
}
