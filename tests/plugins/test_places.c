/* SPDX-License-Identifier: Apache-2.0
 * Operators of plugins/tensor that read and change elements at places of any
 * dimensions, or move them: scatter, gather_nd, roll, crop and others. Values
 * and gradients are those of NumPy and torch (tests/reference/places.py).
 * Indices of all types, work in place, sums in f16, repeated places of many
 * elements, and messages about indices and shapes that do not fit.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct places_case {
  const char *op;
  const char *params;
  size_t n_in;
  size_t n_gradients; /* of the inputs that are no indices */
  host_operand data, indices, updates;
  host_operand out, head;
  host_operand gradients[2];
} places_case;

static const places_case places_cases[] = {
#include "places_cases.inc"
};

enum { N_CASES = sizeof places_cases / sizeof *places_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(places, .init = open_all, .fini = close_all);

/* The arrays of a case in their order: data, indices, updates. */
static void make_inputs(const places_case *c, tn_dtype dtype, tn_dtype index,
                        tn_array **in) {
  in[0] = host_operand_array(rt, dtype, &c->data);
  if (c->n_in > 1) in[1] = host_operand_array(rt, index, &c->indices);
  if (c->n_in > 2) in[2] = host_operand_array(rt, dtype, &c->updates);
}

static void check_gradients(const places_case *c, tn_dtype dtype, tn_tape *tape,
                            tn_array **in, tn_array *out) {
  tn_array *head = host_operand_array(rt, dtype, &c->head);
  tn_array *of[2] = {in[0], in[2]}, *found[2] = {NULL, NULL};
  OK(tn_tape_gradient(
      tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                             .heads = *TN_IN(out),
                             .head_gradients = *TN_IN(head),
                             .of = {c->n_gradients, of},
                             .gradients = {c->n_gradients, found, NULL}}));
  for (size_t i = 0; i < c->n_gradients; ++i) {
    host_expect_operand(found[i], &c->gradients[i], 0, c->op, c->params);
    tn_array_release(found[i]);
  }
  tn_array_release(head);
}

static void check_case(const places_case *c, tn_dtype dtype, tn_dtype index) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[3] = {NULL, NULL, NULL}, *out = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  make_inputs(c, dtype, index, in);
  if (c->n_gradients > 0) OK(tn_tape_watch(tape, in[0]));
  if (c->n_gradients > 1) OK(tn_tape_watch(tape, in[2]));
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  host_expect_operand(out, &c->out, 0, c->op, c->params);
  if (c->n_gradients > 0) check_gradients(c, dtype, tape, in, out);
  for (int i = 0; i < 3; ++i) tn_array_release(in[i]);
  tn_array_release(out);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(places, values_and_gradients_are_those_of_numpy_and_torch) {
  for (size_t i = 0; i < N_CASES; ++i) {
    check_case(&places_cases[i], TN_F64, TN_I64);
    check_case(&places_cases[i], TN_F32, TN_I32);
    check_case(&places_cases[i], TN_F16, TN_I8);
  }
}

/* Unsigned indices have no negative values; these are left out. */
Test(places, indices_have_any_integer_type) {
  static const tn_dtype unsigned_types[] = {TN_U8, TN_U16, TN_U32};
  for (size_t i = 0; i < N_CASES; ++i) {
    places_case c = places_cases[i];
    if (c.n_in < 2) continue;
    check_case(&c, TN_F64, TN_I16);
    if (strcmp(c.op, "tensor.batch_take") == 0) continue;
    int negative = 0;
    for (int64_t k = 0; k < host_count(&c.indices.shape); ++k)
      negative |= c.indices.v[k] < 0;
    for (int k = 0; k < 3 && !negative; ++k)
      check_case(&c, TN_F32, unsigned_types[k]);
  }
}

static tn_code call_op(const char *name, const char *text, const tn_inputs *in,
                       tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, in, params, TN_OUT(out));
  tn_params_release(params);
  return code;
}

static tn_array *vector(tn_dtype dtype, int64_t n, const double *v) {
  host_operand filled = {.shape = {1, {n}}};
  memcpy(filled.v, v, (size_t)n * sizeof *v);
  return host_operand_array(rt, dtype, &filled);
}

/* ---------------------------------------------------------------- in place */

/* The output is the memory of data. */
Test(places, data_changes_in_place) {
  tn_array *x = vector(TN_F32, 4, (double[]){1, 2, 3, 4});
  tn_array *at = vector(TN_I64, 3, (double[]){1, 1, -1});
  tn_array *u = vector(TN_F32, 3, (double[]){10, 20, 30}), *y = x;
  OK(call_op("tensor.scatter_add", "", TN_IN(x, at, u), &y));
  host_expect(x, (double[]){1, 32, 3, 34}, 4, 0);
  OK(call_op("tensor.scatter_elements", "", TN_IN(x, at, u), &y));
  host_expect(x, (double[]){1, 20, 3, 30}, 4, 0);
  OK(call_op("tensor.scatter_reduce", "reduction=max", TN_IN(x, at, u), &y));
  host_expect(x, (double[]){1, 20, 3, 30}, 4, 0);
  tn_array_release(x), tn_array_release(at), tn_array_release(u);
}

Test(places, an_index_out_of_range_is_an_error_in_place_too) {
  tn_array *x = vector(TN_F32, 3, (double[]){1, 2, 3});
  tn_array *at = vector(TN_I64, 2, (double[]){0, 3});
  tn_array *u = vector(TN_F32, 2, (double[]){10, 20}), *y = x;
  FAILS(call_op("tensor.scatter_add", "", TN_IN(x, at, u), &y), TN_OUT_OF_RANGE,
        "index 3 (number 1 of `indices`) is out of range: axis 0 of `data` has "
        "length 3");
  tn_array_release(x), tn_array_release(at), tn_array_release(u);
}

/* ---------------------------------------------------------------- numbers */

/* Several threads find several: the message names the first. */
Test(places, the_first_index_out_of_range_is_named) {
  enum { N = 200000 };
  static double index[N];
  const int64_t n = N;
  tn_array *x = host_many(rt, TN_F32, 1, &n, index), *y = NULL;
  index[123456] = N;
  index[123500] = -N - 1;
  index[199999] = 1e9;
  tn_array *at = host_many(rt, TN_I64, 1, &n, index);
  OK(call_op("tensor.scatter_add", "", TN_IN(x, at, x), &y));
  FAILS(tn_array_wait(y), TN_OUT_OF_RANGE,
        "index 200000 (number 123456 of `indices`) is out of range: axis 0 of "
        "`data` has length 200000");
  tn_array_release(x), tn_array_release(at), tn_array_release(y);
}

/* 2048 is the first f16 with a distance of 2 to the next one: added one by one
 * in f16, ones would get lost. */
Test(places, sums_of_halves_are_rounded_once) {
  tn_array *x = vector(TN_F16, 2, (double[]){2048, 0});
  tn_array *at = vector(TN_I64, 4, (double[]){0, 0, 0, 0});
  tn_array *u = vector(TN_F16, 4, (double[]){1, 1, 1, 1}), *y = NULL;
  OK(call_op("tensor.scatter_add", "", TN_IN(x, at, u), &y));
  host_expect(y, (double[]){2052, 0}, 2, 0);
  tn_array_release(y), y = NULL;
  tn_array *tuples = NULL;
  OK(tn_array_reshape(at, 2, (int64_t[]){4, 1}, &tuples));
  OK(call_op("tensor.scatter_nd_add", "", TN_IN(x, tuples, u), &y));
  host_expect(y, (double[]){2052, 0}, 2, 0);
  tn_array_release(x), tn_array_release(at), tn_array_release(u);
  tn_array_release(y), tn_array_release(tuples);
}

/* NaN is the result of maxima and minima, in any order. */
Test(places, nan_is_above_and_below_all_numbers) {
  tn_array *x = vector(TN_F32, 2, (double[]){1, (double)NAN});
  tn_array *at = vector(TN_I64, 3, (double[]){0, 0, 1});
  tn_array *u = vector(TN_F32, 3, (double[]){(double)NAN, 5, 5});
  static const char *const texts[] = {"reduction=max", "reduction=min"};
  for (int i = 0; i < 2; ++i) {
    tn_array *y = NULL;
    double got[HOST_MAX];
    OK(call_op("tensor.scatter_reduce", texts[i], TN_IN(x, at, u), &y));
    host_values(y, got);
    cr_assert(isnan(got[0]) && isnan(got[1]));
    tn_array_release(y);
  }
  tn_array_release(x), tn_array_release(at), tn_array_release(u);
}

/* One update of the one element of data. */
static void expect_changed(const char *name, const char *text, tn_dtype dtype,
                           const double *numbers) {
  tn_array *x = vector(dtype, 1, numbers), *u = vector(dtype, 1, numbers + 1);
  tn_array *at = vector(TN_I64, 1, (double[]){0}), *y = NULL, *wide = NULL;
  OK(call_op(name, text, TN_IN(x, at, u), &y));
  OK(tn_array_cast(y, TN_F64, &wide));
  host_expect(wide, numbers + 2, 1, 0);
  tn_array_release(x), tn_array_release(u), tn_array_release(at);
  tn_array_release(y), tn_array_release(wide);
}

/* -128 * -1 and 200 + 100 go around the end of their types. */
Test(places, integers_wrap) {
  expect_changed("tensor.scatter_reduce", "reduction=mul", TN_I8,
                 (double[]){-128, -1, -128});
  expect_changed("tensor.scatter_add", "", TN_U8, (double[]){200, 100, 44});
  expect_changed("tensor.scatter_reduce", "reduction=min", TN_U32,
                 (double[]){4e9, 1, 1});
  expect_changed("tensor.scatter_reduce", "reduction=max", TN_I16,
                 (double[]){-5, 3, 3});
}

/* ------------------------------------------------------------------- sizes */

enum { ROWS = 700, COLUMNS = 1030, N_UPDATES = 3000 };

/* Row 7 gets updates 0, 3, 6, ..., others one each: many threads, and slices of
 * more than one block of columns. */
static int64_t row_of(int64_t i) {
  return i % 3 == 0 ? 7 : i % ROWS;
}

static tn_array *make_large(int64_t rows, int64_t columns, int is_index) {
  const int64_t n = rows * columns;
  double *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; ++i)
    v[i] = is_index ? (double)row_of(i / columns) : (double)(i % 17 - 8);
  tn_array *array = host_many(rt, is_index ? TN_I64 : TN_F32, 2,
                              (int64_t[]){rows, columns}, v);
  free(v);
  return array;
}

/* Compares with a loop over the updates; the integers are exact in f32. */
static void expect_large(tn_array *y, int64_t columns, int adds) {
  double *want = calloc((size_t)(ROWS * columns), sizeof *want);
  double *got = host_many_values(y);
  for (int64_t i = 0; i < ROWS * columns; ++i) want[i] = (double)(i % 17 - 8);
  for (int64_t i = 0; i < N_UPDATES * columns; ++i) {
    double *at = &want[row_of(i / columns) * columns + i % columns];
    const double update = (double)(i % 17 - 8);
    *at = adds ? *at + update : update;
  }
  for (int64_t i = 0; i < ROWS * columns; ++i)
    cr_assert_float_eq(got[i], want[i], 0, "element %lld", (long long)i);
  free(want);
  free(got);
}

static void check_large(const char *name, int64_t columns, int by_element,
                        int adds) {
  tn_array *x = make_large(ROWS, columns, 0), *y = NULL;
  tn_array *u = make_large(N_UPDATES, columns, 0);
  tn_array *at = make_large(N_UPDATES, by_element ? columns : 1, 1);
  OK(call_op(name, "", TN_IN(x, at, u), &y));
  expect_large(y, columns, adds);
  tn_array_release(x), tn_array_release(y);
  tn_array_release(u), tn_array_release(at);
}

Test(places, many_updates_of_one_place_keep_their_order) {
  static const int64_t columns[] = {1, 3, 130, COLUMNS};
  const tn_options options = {.struct_size = sizeof options, .workers = 4};
  tn_runtime_release(rt);
  rt = NULL;
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  for (int i = 0; i < 4; ++i) {
    check_large("tensor.scatter_elements", columns[i], 1, 0);
    check_large("tensor.scatter_add", columns[i], 1, 1);
    check_large("tensor.scatter_nd_update", columns[i], 0, 0);
    check_large("tensor.scatter_nd_add", columns[i], 0, 1);
  }
}

/* ---------------------------------------------------------------- messages */

static tn_array *zeros(tn_dtype dtype, int32_t ndim, const int64_t *dims) {
  int64_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= dims[d];
  double *v = calloc((size_t)n + 1, sizeof *v);
  tn_array *array = host_many(rt, dtype, ndim, dims, v);
  free(v);
  return array;
}

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

Test(places, tuples_that_are_too_long_are_errors) {
  tn_array *x = zeros(TN_F32, 2, DIMS(2, 2)), *y = NULL;
  tn_array *three = zeros(TN_I64, 2, DIMS(1, 3));
  tn_array *number = zeros(TN_I64, 0, NULL);
  FAILS(call_op("tensor.gather_nd", "index_axis=-1", TN_IN(x, three), &y),
        TN_SHAPE,
        "a tuple of `indices` (1,3) has 3 indices, and batch_dims is 0, but "
        "`data` has 2 dimensions");
  FAILS(call_op("tensor.gather_nd", "", TN_IN(x, number), &y), TN_SHAPE,
        "`indices` has 0 dimensions: it needs one for the tuples");
  FAILS(call_op("tensor.gather_nd", "batch_dims=1", TN_IN(x, three), &y),
        TN_SHAPE, "batch_dims needs index_axis=-1");
  tn_array_release(x), tn_array_release(three), tn_array_release(number);
}

Test(places, an_index_of_a_tuple_out_of_range_is_an_error) {
  const host_operand tuples = {.shape = {2, {2, 2}}, .v = {0, 1, 1, -4}};
  tn_array *x = zeros(TN_F32, 2, DIMS(2, 3)), *y = NULL;
  tn_array *at = host_operand_array(rt, TN_I32, &tuples);
  FAILS(call_op("tensor.gather_nd", "index_axis=-1", TN_IN(x, at), &y),
        TN_OUT_OF_RANGE,
        "index -4 (number 3 of `indices`) is out of range: axis 1 of `data` "
        "has length 3");
  tn_array_release(x), tn_array_release(at);
}

Test(places, updates_of_another_shape_are_errors) {
  tn_array *x = zeros(TN_F32, 2, DIMS(2, 2)), *y = NULL;
  tn_array *at = zeros(TN_I64, 2, DIMS(3, 1)), *u = zeros(TN_F32, 1, DIMS(3));
  FAILS(call_op("tensor.scatter_nd_update", "", TN_IN(x, at, u), &y), TN_SHAPE,
        "updates");
  FAILS(call_op("tensor.scatter_elements", "", TN_IN(x, at, u), &y), TN_SHAPE,
        "updates");
  tn_array_release(x), tn_array_release(at), tn_array_release(u);
}

Test(places, windows_beyond_the_edge_are_errors) {
  tn_array *x = zeros(TN_F32, 4, DIMS(1, 1, 3, 3)), *y = NULL;
  tn_array *flat = zeros(TN_F32, 2, DIMS(3, 3));
  FAILS(call_op("tensor.crop", "h_w=[2,2] offset=[2,0]", TN_IN(x), &y),
        TN_SHAPE,
        "the window has 2 places along axis 2 from place 2 on, but `data` has "
        "only 3 there");
  FAILS(call_op("tensor.crop", "h_w=[4,2] center_crop=true", TN_IN(x), &y),
        TN_SHAPE, "the window has 4 places along axis 2");
  FAILS(call_op("tensor.crop", "h_w=[2,0]", TN_IN(x), &y), TN_INVALID,
        "there is no `like`, and `h_w` is (2,0)");
  FAILS(call_op("tensor.crop", "h_w=[1,1]", TN_IN(flat), &y), TN_SHAPE,
        "`data` has 2 dimensions; images have four");
  tn_array_release(x), tn_array_release(flat);
}

Test(places, shifts_of_any_size_are_possible) {
  tn_array *x = vector(TN_F32, 3, (double[]){1, 2, 3}), *y = NULL;
  /* -2^63 is 1 modulo 3: -9223372036854775808 = 3 * -3074457345618258603 + 1 */
  OK(call_op("tensor.roll", "shift=[-9223372036854775808]", TN_IN(x), &y));
  host_expect(y, (double[]){3, 1, 2}, 3, 0);
  FAILS(call_op("tensor.roll", "shift=[1,2] axes=[0,0,0]", TN_IN(x), &y),
        TN_INVALID, "`shift` has 2 numbers and `axes` 3");
  FAILS(call_op("tensor.roll", "shift=[1] axes=[1]", TN_IN(x), &y),
        TN_OUT_OF_RANGE, "axes=1");
  tn_array_release(x), tn_array_release(y);
}
