/* SPDX-License-Identifier: Apache-2.0
 * u64 in plugins/elemwise and plugins/tensor: the values of NumPy
 * (tests/reference/u64.py) in all operators that have integers, dense, strided,
 * broadcast, added and in place; conversions; and long arrays. U64_PLACE names
 * another device than the CPU, with the plugins of U64_FILES.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define U64_LISTS
#include "u64_cases.inc"
#undef U64_LISTS

#define COUNT(list) ((int64_t)(sizeof(list) / sizeof *(list)))
enum { MOST = 64 };

/* The inputs of a case: all pairs of `left` and `right`, as arrays of one shape
 * or as a column and a row; pairs of `left` and `far`; `ones`; or, for
 * operators of plugins/tensor, the products of `left` and `right`. */
typedef enum kind { ALIKE, BROADCAST, SHIFT, ONE, TABLE } kind;

typedef struct u64_case {
  kind kind;
  const char *op, *params;
  tn_dtype out;
  int64_t n;
  uint64_t expected[MOST];
} u64_case;

static const u64_case cases[] = {
#define U64_CASES
#include "u64_cases.inc"
#undef U64_CASES
};

/* Bits of the elements. */
typedef struct conversion {
  tn_dtype from, to;
  int64_t n;
  uint64_t values[MOST], expected[MOST];
} conversion;

static const conversion conversions[] = {
#define U64_CONVERSIONS
#include "u64_cases.inc"
#undef U64_CONVERSIONS
};

static tn_runtime *rt;
static tn_place place;

static void open_all(void) {
  const char *files = getenv("U64_FILES"), *name = getenv("U64_PLACE");
  rt = host_open();
  host_load_all(rt, TENSOR_FILE);
  if (files != NULL) host_load_all(rt, files);
  OK(tn_place_parse(rt, name != NULL ? name : "cpu", &place));
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(u64, .init = open_all, .fini = close_all);

/* ------------------------------------------------------------------ arrays */

/* Moves an array to the place of the tests. */
static tn_array *move_array(tn_array *near) {
  tn_array *array = NULL;
  OK(tn_array_to(near, place, &array));
  tn_array_release(near);
  return array;
}

/* A matrix with the lowest bytes of the values. */
static tn_array *create_matrix(tn_dtype dtype, int64_t rows, int64_t columns,
                               const uint64_t *values) {
  const int64_t shape[] = {rows, columns}, n = rows * columns;
  const size_t width = (size_t)tn_dtype_bytes(dtype);
  tn_array *array = NULL;
  unsigned char *bytes = malloc((size_t)n * width);
  cr_assert_not_null(bytes);
  for (int64_t i = 0; i < n; ++i)
    memcpy(bytes + (size_t)i * width, &values[i], width);
  OK(tn_array_create(rt, &(tn_spec){dtype, 2, shape}, &array));
  OK(tn_array_set(array, bytes, (size_t)n * width));
  free(bytes);
  return move_array(array);
}

/* The same elements as every second column of a wider matrix, which is in the
 * opposite order. */
static tn_array *create_strided(tn_dtype dtype, int64_t rows, int64_t columns,
                                const uint64_t *values) {
  uint64_t *wide = calloc((size_t)(2 * rows * columns), sizeof *wide);
  cr_assert_not_null(wide);
  for (int64_t i = 0; i < rows * columns; ++i)
    wide[2 * (i / columns * columns + columns - 1 - i % columns) + 1] =
        values[i];
  tn_array *all = create_matrix(dtype, rows, 2 * columns, wide), *part = NULL;
  const tn_range odd = {
      .axis = 1, .begin = 2 * columns - 1, .end = -2 * columns - 1, .step = -2};
  OK(tn_array_slice(all, &odd, &part));
  tn_array_release(all);
  free(wide);
  return part;
}

typedef tn_array *create_fn(tn_dtype dtype, int64_t rows, int64_t columns,
                            const uint64_t *values);

/* The bits of all elements; the caller frees them. */
static uint64_t *read_bits(tn_array *array) {
  const int64_t n = tn_array_size(array);
  const size_t width = (size_t)tn_dtype_bytes(tn_array_tensor(array)->dtype);
  unsigned char *bytes = malloc((size_t)n * width);
  uint64_t *bits = calloc((size_t)n, sizeof *bits);
  tn_array *near = NULL;
  cr_assert(bytes != NULL && bits != NULL);
  OK(tn_array_to(array, (tn_place){TN_DEVICE_CPU, 0}, &near));
  OK(tn_array_get(near, bytes, (size_t)n * width));
  for (int64_t i = 0; i < n; ++i)
    memcpy(&bits[i], bytes + (size_t)i * width, width);
  tn_array_release(near);
  free(bytes);
  return bits;
}

static void expect_bits(tn_array *array, const uint64_t *want, int64_t n,
                        const char *text) {
  uint64_t *bits = read_bits(array);
  cr_assert_eq(tn_array_size(array), n, "%s", text);
  for (int64_t i = 0; i < n; ++i)
    cr_assert_eq(bits[i], want[i], "%s, element %lld: %llu, not %llu", text,
                 (long long)i, (unsigned long long)bits[i],
                 (unsigned long long)want[i]);
  free(bits);
}

/* ------------------------------------------------------------------- cases */

/* The inputs of a case; returns their number. */
static size_t create_inputs(const u64_case *c, create_fn *create,
                            tn_array **in) {
  const int is_shift = c->kind == SHIFT;
  const int64_t rows = COUNT(left);
  const int64_t columns = is_shift ? COUNT(far) : COUNT(right);
  const uint64_t *second = is_shift ? far : right;
  uint64_t a[MOST], b[MOST];
  if (c->kind == ONE) {
    in[0] = create(TN_U64, 3, c->n / 3, ones);
    return 1;
  }
  if (c->kind == TABLE) {
    for (int64_t i = 0; i < rows * columns; ++i)
      a[i] = left[i / columns] * right[i % columns];
    in[0] = create(TN_U64, rows, columns, a);
    return 1;
  }
  if (c->kind == BROADCAST) {
    in[0] = create(TN_U64, rows, 1, left);
    in[1] = create(TN_U64, 1, columns, second);
    return 2;
  }
  for (int64_t i = 0; i < c->n; ++i) {
    a[i] = left[i / columns];
    b[i] = second[i % columns];
  }
  in[0] = create(TN_U64, rows, columns, a);
  in[1] = create(TN_U64, rows, columns, b);
  return 2;
}

/* Calls the operator of a case; the result is new or goes to *out. */
static void call_case(const u64_case *c, const tn_inputs *in, tn_array **out,
                      tn_req req) {
  char name[64];
  (void)snprintf(name, sizeof name, "%s.%s",
                 c->kind == TABLE ? "tensor" : "elemwise", c->op);
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, c->params);
  OK(tn_call(rt, op, in, params, &(tn_outputs){1, out, &req}));
  tn_params_release(params);
}

static int64_t count_columns(const u64_case *c) {
  return c->n / (c->kind == ONE ? 3 : COUNT(left));
}

static void check_new(const u64_case *c, create_fn *create) {
  tn_array *in[2] = {NULL}, *out = NULL;
  const size_t n = create_inputs(c, create, in);
  call_case(c, &(tn_inputs){n, in}, &out, TN_REQ_WRITE);
  cr_expect_eq(tn_array_tensor(out)->dtype, c->out, "%s", c->op);
  expect_bits(out, c->expected, c->n, c->op);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
}

/* Results are written to, and then added to, memory of any strides. */
static void check_added(const u64_case *c, create_fn *create) {
  if (c->kind == TABLE) return; /* tests of reductions add */
  const int64_t columns = count_columns(c);
  const int is_bool = c->out == TN_BOOL;
  uint64_t old[MOST], want[MOST];
  tn_array *in[2] = {NULL};
  for (int64_t i = 0; i < c->n; ++i) {
    old[i] = is_bool ? (uint64_t)(i % 2) : UINT64_MAX - 10 * (uint64_t)i;
    want[i] = is_bool ? old[i] | c->expected[i] : old[i] + c->expected[i];
  }
  const size_t n = create_inputs(c, create, in);
  tn_array *out = create(c->out, c->n / columns, columns, old);
  call_case(c, &(tn_inputs){n, in}, &out, TN_REQ_ADD);
  expect_bits(out, want, c->n, c->op);
  call_case(c, &(tn_inputs){n, in}, &out, TN_REQ_WRITE);
  expect_bits(out, c->expected, c->n, c->op);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
}

static void check_in_place(const u64_case *c, create_fn *create) {
  tn_array *in[2] = {NULL};
  if (c->out != TN_U64 || c->kind == BROADCAST || c->kind == TABLE) return;
  const size_t n = create_inputs(c, create, in);
  tn_array *out = tn_array_retain(in[0]);
  call_case(c, &(tn_inputs){n, in}, &out, TN_REQ_WRITE);
  expect_bits(out, c->expected, c->n, c->op);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
}

Test(u64, dense_operands_have_the_results_of_numpy) {
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    check_new(&cases[i], create_matrix);
    check_in_place(&cases[i], create_matrix);
  }
}

Test(u64, strided_operands_have_the_results_of_numpy) {
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    check_new(&cases[i], create_strided);
    check_in_place(&cases[i], create_strided);
  }
}

Test(u64, results_are_added_modulo_2_64) {
  for (int64_t i = 0; i < COUNT(cases); ++i) {
    check_added(&cases[i], create_matrix);
    check_added(&cases[i], create_strided);
  }
}

/* ------------------------------------------------------------- conversions */

static void check_conversion(const conversion *c, create_fn *create) {
  char params[32], text[64];
  tn_operator *op = host_operator(rt, "elemwise.cast");
  tn_array *in = create(c->from, 1, c->n, c->values), *out = NULL;
  (void)snprintf(params, sizeof params, "dtype=%s", tn_dtype_name(c->to));
  (void)snprintf(text, sizeof text, "%s to %s", tn_dtype_name(c->from),
                 tn_dtype_name(c->to));
  tn_params *p = host_params(op, params);
  OK(tn_call(rt, op, TN_IN(in), p, TN_OUT(&out)));
  expect_bits(out, c->expected, c->n, text);
  tn_array_release(in), tn_array_release(out), tn_params_release(p);
}

Test(u64, conversions_are_rounded_once_and_wrap_or_saturate) {
  for (int64_t i = 0; i < COUNT(conversions); ++i) {
    check_conversion(&conversions[i], create_matrix);
    check_conversion(&conversions[i], create_strided);
  }
}

/* ------------------------------------------------------------------- where */

Test(u64, where_chooses_elements_with_all_their_bits) {
  const uint64_t chosen[] = {1, 0}, y[] = {UINT64_MAX};
  uint64_t want[2 * COUNT(left)];
  for (int64_t i = 0; i < COUNT(left); ++i)
    want[2 * i] = left[i], want[2 * i + 1] = UINT64_MAX;
  for (int k = 0; k < 2; ++k) {
    create_fn *create = k == 0 ? create_matrix : create_strided;
    tn_array *out = NULL, *in[] = {create(TN_BOOL, 1, 2, chosen),
                                   create(TN_U64, COUNT(left), 1, left),
                                   create(TN_U64, 1, 1, y)};
    OK(tn_call(rt, host_operator(rt, "elemwise.where"), &(tn_inputs){3, in},
               NULL, TN_OUT(&out)));
    expect_bits(out, want, COUNT(want), "where");
    for (int i = 0; i < 3; ++i) tn_array_release(in[i]);
    tn_array_release(out);
  }
}

/* A condition of floats is converted, so that it does not decide the type. */
Test(u64, where_of_tensor_has_any_condition) {
  static const tn_dtype types[] = {TN_BOOL, TN_U64, TN_I64, TN_F32};
  const float half = 0.5f;
  const uint64_t x[2] = {left[7], left[3]}, y[2] = {1, UINT64_MAX - 1};
  const uint64_t want[2] = {x[0], y[1]};
  for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
    uint64_t chosen[2] = {types[k] == TN_I64 ? UINT64_MAX : 1, 0};
    tn_array *out = NULL;
    if (types[k] == TN_F32) memcpy(&chosen[0], &half, sizeof half);
    tn_array *in[] = {create_matrix(types[k], 1, 2, chosen),
                      create_strided(TN_U64, 1, 2, x),
                      create_matrix(TN_U64, 1, 2, y)};
    OK(tn_call(rt, host_operator(rt, "tensor.where"), &(tn_inputs){3, in}, NULL,
               TN_OUT(&out)));
    expect_bits(out, want, 2, "tensor.where");
    for (int i = 0; i < 3; ++i) tn_array_release(in[i]);
    tn_array_release(out);
  }
}

/* -------------------------------------------------------------------- long */

enum { LONG = 200003 }; /* several slices of a parallel loop, and a rest */

static uint64_t divide(uint64_t a, uint64_t b) {
  return a / b;
}

static uint64_t multiply(uint64_t a, uint64_t b) {
  return a * b;
}

static uint64_t find_larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

Test(u64, long_arrays_have_the_results_of_c) {
  static const struct {
    const char *op;
    uint64_t (*compute)(uint64_t a, uint64_t b);
  } rows[] = {{"elemwise.floor_divide", divide},
              {"elemwise.mul", multiply},
              {"elemwise.maximum", find_larger}};
  static uint64_t v[2][LONG], want[LONG];
  uint64_t state = 40;
  for (int64_t i = 0; i < LONG; ++i)
    for (int k = 0; k < 2; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v[k][i] = (state >> (i % 3 == 0 ? 40 : 0)) | 1;
    }
  tn_array *a = create_matrix(TN_U64, 1, LONG, v[0]);
  tn_array *b = create_matrix(TN_U64, 1, LONG, v[1]);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    tn_array *out = NULL;
    for (int64_t i = 0; i < LONG; ++i)
      want[i] = rows[r].compute(v[0][i], v[1][i]);
    OK(tn_call(rt, host_operator(rt, rows[r].op), TN_IN(a, b), NULL,
               TN_OUT(&out)));
    expect_bits(out, want, LONG, rows[r].op);
    tn_array_release(out);
  }
  tn_array_release(a), tn_array_release(b);
}

enum { ROWS = 1001, COLUMNS = 131 };

/* The greatest and the least element of a line, and their places. */
static void find_extremes(const uint64_t *line, int length, int step,
                          uint64_t *found) {
  int most = 0, least = 0;
  for (int k = 1; k < length; ++k) {
    if (line[k * step] > line[most * step]) most = k;
    if (line[k * step] < line[least * step]) least = k;
  }
  found[0] = line[most * step], found[1] = line[least * step];
  found[2] = (uint64_t)most, found[3] = (uint64_t)least;
}

/* Lines of rows, and of columns. */
Test(u64, long_reductions_compare_without_a_sign) {
  static const char *const ops[] = {"tensor.max", "tensor.min", "tensor.argmax",
                                    "tensor.argmin"};
  static uint64_t v[ROWS * COLUMNS], want[4][ROWS];
  uint64_t state = 7;
  for (int i = 0; i < ROWS * COLUMNS; ++i)
    v[i] = state = state * 6364136223846793005u + 1442695040888963407u;
  tn_array *table = create_matrix(TN_U64, ROWS, COLUMNS, v);
  for (int axis = 0; axis < 2; ++axis) {
    const int n = axis == 0 ? COLUMNS : ROWS;
    for (int i = 0; i < n; ++i) {
      uint64_t found[4];
      if (axis == 0)
        find_extremes(v + i, ROWS, COLUMNS, found);
      else
        find_extremes(v + i * COLUMNS, COLUMNS, 1, found);
      for (int k = 0; k < 4; ++k) want[k][i] = found[k];
    }
    for (int k = 0; k < 4; ++k) {
      char text[32];
      tn_array *out = NULL;
      tn_operator *op = host_operator(rt, ops[k]);
      (void)snprintf(text, sizeof text, k < 2 ? "axis=(%d)" : "axis=%d", axis);
      tn_params *params = host_params(op, text);
      OK(tn_call(rt, op, TN_IN(table), params, TN_OUT(&out)));
      expect_bits(out, want[k], n, ops[k]);
      tn_array_release(out), tn_params_release(params);
    }
  }
  tn_array_release(table);
}
