/* SPDX-License-Identifier: Apache-2.0
 * The reductions of plugins/tensor, places, choices and repetitions: values and
 * gradients of torch (tests/reference/tensor_reduce.py), lines and columns of
 * every length against plain loops, NaN, ties, nothing to reduce, numbers that
 * no float holds, and messages about parameters that do not fit.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"

static const char *const reductions[] = {"sum", "mean", "prod",   "max",
                                         "min", "norm", "nansum", "nanprod"};
enum { N_REDUCTIONS = sizeof reductions / sizeof *reductions };

/* "tensor.sum" */
static const char *full_name(const char *name) {
  static char full[32];
  (void)snprintf(full, sizeof full, "tensor.%s", name);
  return full;
}

Test(reduce, values_and_gradients_are_those_of_torch) {
  tn_runtime *rt = host_open();
  for (int i = 0; i < N_REDUCTIONS; ++i)
    cases_check(rt, full_name(reductions[i]), 11);
  tn_runtime_release(rt);
}

Test(reduce, places_choices_and_repetitions_are_those_of_torch) {
  tn_runtime *rt = host_open();
  cases_check(rt, "tensor.argmax", 5);
  cases_check(rt, "tensor.argmin", 5);
  cases_check(rt, "tensor.pick", 4);
  cases_check(rt, "tensor.broadcast_to", 3);
  cases_check(rt, "tensor.broadcast_axis", 1);
  cases_check(rt, "tensor.broadcast_like", 1);
  cases_check(rt, "tensor.where", 2);
  cases_check(rt, "tensor.add_n", 3);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------- against plain loops
 */

/* Row-major, reduced along the middle. */
typedef struct extent {
  int64_t outer;
  int64_t n;
  int64_t inner;
} extent;

static const extent extents[] = {
    {1, 1, 1},    {3, 31, 1},   {2, 32, 1},    {5, 33, 1},    {1, 5003, 1},
    {2, 1025, 1}, {40, 4, 1},   {300, 7, 1},   {1, 1000, 3},  {2, 777, 5},
    {1, 9, 1000}, {3, 65, 257}, {1, 40000, 4}, {1, 3000, 70}, {70, 3, 129}};
enum { N_EXTENTS = sizeof extents / sizeof *extents };

/* Near 1, so that products of many stay numbers. */
static double near_one(int64_t i) {
  return (double)(float)(1 + cases_noise(i) / 0x1p13) *
         (cases_noise(i + 7) < 0 ? -1 : 1);
}

/* The result of a reduction of n numbers, `step` apart. */
static double reduced(const char *name, const double *x, int64_t n,
                      int64_t step) {
  long double sum = 0, product = 1, squares = 0;
  double most = x[0], least = x[0];
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i * step];
    sum += v, product *= v, squares += (long double)v * v;
    most = fmax(most, v), least = fmin(least, v);
  }
  if (strstr(name, "sum")) return (double)sum;
  if (strstr(name, "prod")) return (double)product;
  if (strcmp(name, "mean") == 0) return (double)(sum / n);
  if (strcmp(name, "norm") == 0) return (double)sqrtl(squares);
  return strcmp(name, "max") == 0 ? most : least;
}

static void check_extent(tn_runtime *rt, const char *name, const extent *e,
                         tn_dtype dtype) {
  const int64_t dims[3] = {e->outer, e->n, e->inner};
  cases_call c = {
      .op = full_name(name), .params = "axis=[1]", .n_in = 1, .n_out = 1};
  c.in[0] = cases_array(rt, dtype, 3, dims, near_one);
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *have = cases_values(c.out[0]);
  const double tolerance = dtype == TN_F64 ? 1e-12 : 1.2e-7;
  for (int64_t i = 0; i < e->outer * e->inner; ++i) {
    const int64_t at = i / e->inner * e->n * e->inner + i % e->inner;
    const double want = reduced(name, x + at, e->n, e->inner);
    cr_assert(fabs(have[i] - want) <= tolerance * fabs(want) + 1e-12,
              "%s of (%lld,%lld,%lld), element %lld: %.17g, not %.17g", name,
              (long long)e->outer, (long long)e->n, (long long)e->inner,
              (long long)i, have[i], want);
  }
  free(x), free(have);
  cases_release(&c);
}

Test(reduce, lines_and_columns_of_every_length_are_those_of_plain_loops) {
  tn_runtime *rt = host_open();
  for (int k = 0; k < N_REDUCTIONS; ++k)
    for (int i = 0; i < N_EXTENTS; ++i) {
      check_extent(rt, reductions[k], &extents[i], TN_F32);
      check_extent(rt, reductions[k], &extents[i], TN_F64);
    }
  tn_runtime_release(rt);
}

/* The first of the largest, or least, by a plain loop. */
static int64_t place_of(const double *x, int64_t n, int64_t step, int least) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (least ? x[i * step] < x[best * step] : x[i * step] > x[best * step])
      best = i;
  return best;
}

/* Few numbers, so that many are equal. */
static double coarse(int64_t i) {
  return floor(cases_noise(i) * 3);
}

static void check_places(tn_runtime *rt, const extent *e, tn_dtype dtype,
                         int least) {
  const int64_t dims[3] = {e->outer, e->n, e->inner};
  cases_call c = {.op = least ? "tensor.argmin" : "tensor.argmax",
                  .params = "axis=1",
                  .n_in = 1,
                  .n_out = 1};
  c.in[0] = cases_array(rt, dtype, 3, dims, coarse);
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *have = cases_values(c.out[0]);
  for (int64_t i = 0; i < e->outer * e->inner; ++i) {
    const int64_t at = i / e->inner * e->n * e->inner + i % e->inner;
    const int64_t want = place_of(x + at, e->n, e->inner, least);
    cr_assert_eq((int64_t)have[i], want,
                 "%s of (%lld,%lld,%lld), element %lld: %g, not %lld", c.op,
                 (long long)e->outer, (long long)e->n, (long long)e->inner,
                 (long long)i, have[i], (long long)want);
  }
  free(x), free(have);
  cases_release(&c);
}

Test(reduce, the_place_is_that_of_the_first_of_equal_elements) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_I8, TN_I64};
  tn_runtime *rt = host_open();
  for (int i = 0; i < N_EXTENTS; ++i)
    for (int d = 0; d < 5; ++d)
      for (int least = 0; least < 2; ++least)
        check_places(rt, &extents[i], dtypes[d], least);
  check_places(rt, &(extent){1, 150000, 1}, TN_F32, 0);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------------------- NaN */

enum { N_LINE = 200 };

/* The only element of an operator's result, of a line or a column of numbers
 * with NaN at one place. */
static double with_nan(tn_runtime *rt, const char *op, tn_dtype dtype,
                       int64_t place, int column) {
  double x[2 * N_LINE];
  const int64_t dims[2] = {column ? N_LINE : 1, column ? 2 : N_LINE};
  const int64_t n = dims[0] * dims[1];
  for (int64_t i = 0; i < n; ++i) x[i] = i / dims[1] == 3 ? 2 : 1;
  x[place * (column ? 2 : 1)] = NAN;
  cases_call c = {.op = op,
                  .params = strstr(op, "arg") ? column ? "axis=0" : "axis=1"
                            : column          ? "axis=[0]"
                                              : "axis=[1]",
                  .n_in = 1,
                  .n_out = 1};
  c.in[0] = host_many(rt, dtype, 2, dims, x);
  cases_forward(rt, &c);
  double *have = cases_values(c.out[0]);
  const double first = have[0];
  free(have);
  cases_release(&c);
  return first;
}

Test(reduce, nan_is_passed_on_or_over_at_any_place) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16};
  tn_runtime *rt = host_open();
  for (int d = 0; d < 3; ++d)
    for (int64_t place = 10; place < N_LINE; place += 7)
      for (int column = 0; column < 2; ++column) {
        const tn_dtype t = dtypes[d];
        cr_assert(isnan(with_nan(rt, "tensor.max", t, place, column)));
        cr_assert(isnan(with_nan(rt, "tensor.min", t, place, column)));
        cr_assert(isnan(with_nan(rt, "tensor.sum", t, place, column)));
        cr_assert(isnan(with_nan(rt, "tensor.norm", t, place, column)));
        const double some = with_nan(rt, "tensor.nansum", t, place, column);
        cr_assert_float_eq(some, N_LINE - 1 + (column ? 1 : 0), 0);
        const double all = with_nan(rt, "tensor.nanprod", t, place, column);
        cr_assert_float_eq(all, column ? 2 : 1, 0);
        const double most = with_nan(rt, "tensor.argmax", t, place, column);
        const double least = with_nan(rt, "tensor.argmin", t, place, column);
        cr_assert_eq((int64_t)most, place);
        cr_assert_eq((int64_t)least, place);
      }
  tn_runtime_release(rt);
}

/* The largest and the least of 13 rows of 50 numbers, with NaN at one place. */
static void check_nan_in_rows(tn_runtime *rt, const char *op, int64_t row,
                              int64_t column) {
  enum { ROWS = 13, COLUMNS = 50 };
  const int64_t dims[2] = {ROWS, COLUMNS};
  const int sign = strcmp(op, "tensor.max") == 0 ? 1 : -1;
  double x[ROWS * COLUMNS];
  for (int64_t i = 0; i < ROWS * COLUMNS; ++i)
    x[i] = sign * (i / COLUMNS == i % 7 ? (double)i : -1 - (double)(i % 5));
  x[row * COLUMNS + column] = NAN;
  cases_call c = {.op = op, .params = "axis=[0]", .n_in = 1, .n_out = 1};
  c.in[0] = host_many(rt, TN_F32, 2, dims, x);
  cases_forward(rt, &c);
  double *have = cases_values(c.out[0]);
  for (int64_t j = 0; j < COLUMNS; ++j) {
    double want = x[j];
    for (int64_t i = 1; i < ROWS; ++i)
      want = sign > 0 ? fmax(want, x[i * COLUMNS + j])
                      : fmin(want, x[i * COLUMNS + j]);
    cr_assert(j == column ? isnan(have[j]) : have[j] == want,
              "%s, NaN in row %lld of column %lld: column %lld has %g", op,
              (long long)row, (long long)column, (long long)j, have[j]);
  }
  free(have);
  cases_release(&c);
}

Test(reduce, nan_stays_in_its_column) {
  tn_runtime *rt = host_open();
  for (int64_t row = 0; row < 13; ++row)
    for (int64_t column = 0; column < 50; column += row % 2 == 0 ? 7 : 11) {
      check_nan_in_rows(rt, "tensor.max", row, column);
      check_nan_in_rows(rt, "tensor.min", row, column);
    }
  tn_runtime_release(rt);
}

static void expect_slope(tn_runtime *rt, const char *op, const double *want) {
  const double x[4] = {2, NAN, 3, 5}, one = 1;
  cases_call c = {.op = op, .params = "", .n_in = 1, .n_out = 1};
  c.in[0] = host_many(rt, TN_F64, 1, (const int64_t[]){4}, x);
  c.heads[0] = host_many(rt, TN_F64, 0, NULL, &one);
  c.req[0] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *have = cases_values(c.grads[0]);
  for (int i = 0; i < 4; ++i)
    cr_assert(have[i] == want[i], "%s, element %d: %g", op, i, have[i]);
  free(have);
  cases_release(&c);
}

Test(reduce, the_gradient_of_nan_is_zero_where_nan_is_passed_over) {
  tn_runtime *rt = host_open();
  expect_slope(rt, "tensor.nansum", (const double[]){1, 0, 1, 1});
  expect_slope(rt, "tensor.nanprod", (const double[]){15, 0, 10, 6});
  expect_slope(rt, "tensor.max", (const double[]){0, 1, 0, 0});
  tn_runtime_release(rt);
}

/* ------------------------------------------------ products of the others */

enum { FACTORS = 70 }; /* more than a loop has partial results */

/* One line, and the gradients of its elements where that of out is 2. */
typedef struct line {
  const char *name;
  double x[4], want[4];
} line;

/* The gradient of a line before and after many ones, along both axes. */
static void check_line(tn_runtime *rt, const char *op, const line *l,
                       int column) {
  double *x = calloc(2 * FACTORS, sizeof *x);
  const int64_t shape[2] = {column ? FACTORS : 2, column ? 2 : FACTORS};
  const double heads[2] = {2, 2};
  const int apart = column ? 2 : 1, first = column ? 1 : FACTORS;
  cr_assert_not_null(x);
  for (int i = 0; i < 2 * FACTORS; ++i) x[i] = 1;
  for (int i = 0; i < 4; ++i) x[first + (i * 17 + 5) * apart] = l->x[i];
  cases_call c = {.op = op, .n_in = 1, .n_out = 1};
  c.params = column ? "axis=[0]" : "axis=[1]";
  c.in[0] = host_many(rt, TN_F64, 2, shape, x);
  c.heads[0] = host_many(rt, TN_F64, 1, (const int64_t[]){2}, heads);
  c.req[0] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *have = cases_values(c.grads[0]);
  for (int i = 0; i < 4; ++i) {
    const double y = have[first + (i * 17 + 5) * apart], want = l->want[i];
    const int same = isnan(want)   ? isnan(y)
                     : isinf(want) ? y == want
                                   : fabs(y - want) <= 1e-14 * fabs(want);
    cr_expect(same, "%s, %s, element %d: %g, not %g", op, l->name, i, y, want);
  }
  cr_expect_eq(have[0], 2, "the other line: %g", have[0]);
  free(x), free(have);
  cases_release(&c);
}

/* Expected values are products by hand. */
Test(reduce, the_gradient_of_a_product_is_the_product_of_the_others) {
  static const line lines[] = {
      {"overflow", {1e200, 1e200, 1e-200, 3}, {6, 6, INFINITY, 2e200}},
      {"underflow", {1e-200, 1e-200, 1e200, 3}, {6, 6, 0, 2e-200}},
      {"far apart",
       {1e300, 1e300, 1e-300, 1e-300},
       {2e-300, 2e-300, 2e300, 2e300}},
      {"a denormal partial product",
       {1e-160, 1e-160, 1e200, 1e150},
       {2e190, 2e190, 2e-170, 2e-120}},
      {"an infinity", {INFINITY, 2, 3, 4}, {48, INFINITY, INFINITY, INFINITY}},
      {"two infinities",
       {INFINITY, -INFINITY, 3, 4},
       {-INFINITY, INFINITY, -INFINITY, -INFINITY}},
      {"zero and infinity", {0, INFINITY, 3, 4}, {INFINITY, 0, NAN, NAN}},
      {"zero of small ones", {0, 1e-300, 1e-300, 1e300}, {2e-300, 0, 0, 0}},
      {"a small one", {5e-324, 2, 3, 4}, {48, 1.2e-322, 8e-323, 6e-323}},
      {"plain", {2, 3, 4, 5}, {120, 80, 60, 48}},
  };
  static const line numbers[] = {
      {"NaN and far", {NAN, 1e200, 1e200, 1e-200}, {0, 2, 2, INFINITY}},
      {"NaN and an infinity",
       {NAN, INFINITY, 2, 3},
       {0, 12, INFINITY, INFINITY}},
  };
  tn_runtime *rt = host_open();
  for (int column = 0; column < 2; ++column) {
    for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
      check_line(rt, "tensor.prod", &lines[i], column);
      check_line(rt, "tensor.nanprod", &lines[i], column);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
      check_line(rt, "tensor.nanprod", &numbers[i], column);
  }
  tn_runtime_release(rt);
}

/* No f64 holds the product of the first half, nor of a lane of it. */
Test(reduce, the_gradient_of_a_long_product_is_within_reach) {
  enum { N = 100000 };
  tn_runtime *rt = host_open();
  double *x = calloc(N, sizeof *x);
  const double one = 1;
  cr_assert_not_null(x);
  for (int i = 0; i < N; ++i) x[i] = i < N / 2 ? 0.5 : 2;
  cases_call c = {.op = "tensor.prod", .params = "", .n_in = 1, .n_out = 1};
  c.in[0] = host_many(rt, TN_F32, 1, (const int64_t[]){N}, x);
  c.heads[0] = host_many(rt, TN_F32, 0, NULL, &one);
  c.req[0] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *have = cases_values(c.grads[0]);
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], i < N / 2 ? 2 : 0.5);
  free(x), free(have);
  cases_release(&c);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------ integers
 */

static tn_array *whole_array(tn_runtime *rt, int64_t n, const int64_t *values) {
  tn_array *array = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_I64, 1, &n}, &array));
  OK(tn_array_set(array, values, (size_t)n * sizeof *values));
  return array;
}

Test(reduce, integers_that_no_float_holds_are_distinguished) {
  const int64_t x[3] = {INT64_MAX - 2, INT64_MAX - 1, INT64_MAX - 2};
  const int64_t want_max = INT64_MAX - 1, want_sum = INT64_MAX - 7;
  int64_t have = 0; /* twice INT64_MAX is -2 */
  tn_runtime *rt = host_open();
  static const char *const ops[] = {"tensor.max", "tensor.sum",
                                    "tensor.argmax"};
  const int64_t want[] = {want_max, want_sum, 1};
  for (int i = 0; i < 3; ++i) {
    cases_call c = {.op = ops[i], .params = "", .n_in = 1, .n_out = 1};
    c.in[0] = whole_array(rt, 3, x);
    cases_forward(rt, &c);
    OK(tn_array_get(c.out[0], &have, sizeof have));
    cr_assert_eq(have, want[i], "%s: %lld", ops[i], (long long)have);
    cases_release(&c);
  }
  tn_runtime_release(rt);
}

/* The gradient is a quotient, and the least integer has none by -1. */
Test(reduce, a_product_of_integers_that_wrapped_stops_no_program) {
  const int64_t x[2] = {INT64_MIN, -1}, one = 1;
  int64_t have[2];
  tn_runtime *rt = host_open();
  cases_call c = {.op = "tensor.prod", .params = "", .n_in = 1, .n_out = 1};
  c.in[0] = whole_array(rt, 2, x);
  OK(tn_array_create(rt, &(tn_spec){TN_I64, 0, NULL}, &c.heads[0]));
  OK(tn_array_set(c.heads[0], &one, sizeof one));
  c.req[0] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  OK(tn_array_get(c.grads[0], have, sizeof have));
  cr_assert_eq(have[1], INT64_MIN);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(reduce, a_float_condition_chooses_whole_integers) {
  const int64_t x[2] = {INT64_MAX - 2, 1}, y[2] = {3, INT64_MAX - 4};
  const double truth[2] = {NAN, 0};
  int64_t have[2];
  tn_runtime *rt = host_open();
  cases_call c = {.op = "tensor.where", .params = "", .n_in = 3, .n_out = 1};
  c.in[0] = host_many(rt, TN_F32, 1, (const int64_t[]){2}, truth);
  c.in[1] = whole_array(rt, 2, x);
  c.in[2] = whole_array(rt, 2, y);
  cases_forward(rt, &c);
  OK(tn_array_get(c.out[0], have, sizeof have));
  cr_assert_eq(have[0], x[0]);
  cr_assert_eq(have[1], y[1]);
  cases_release(&c);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------- threads and levels
 */

static void make_with(tn_runtime *rt, cases_call *c, const char *op,
                      const char *params, int64_t rows, int64_t columns) {
  const int64_t dims[2] = {rows, columns};
  *c = (cases_call){.op = op, .params = params, .n_in = 1, .n_out = 1};
  c->in[0] = cases_array(rt, TN_F32, 2, dims, near_one);
}

static void make_lines(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.sum", "axis=[1]", 30, 5000);
}
static void make_few_columns(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.mean", "axis=[0]", 100000, 3);
}
static void make_columns(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.norm", "axis=[0]", 700, 601);
}
static void make_sums(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.sum", "axis=[0]", 703, 601);
}
static void make_one_line(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.argmax", "", 500, 601);
}
static void make_most(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.max", "axis=[1]", 300, 821);
}
static void make_least(tn_runtime *rt, cases_call *c) {
  make_with(rt, c, "tensor.min", "axis=[0]", 700, 601);
}
static void make_product(tn_runtime *rt, cases_call *c) {
  const int64_t n = 40;
  make_with(rt, c, "tensor.prod", "axis=[1]", n, 3001);
  c->heads[0] = cases_array(rt, TN_F32, 1, &n, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

Test(reduce, bits_do_not_depend_on_the_number_of_threads) {
  cases_same_for_all_threads(make_lines);
  cases_same_for_all_threads(make_few_columns);
  cases_same_for_all_threads(make_columns);
  cases_same_for_all_threads(make_sums);
  cases_same_for_all_threads(make_one_line);
  cases_same_for_all_threads(make_most);
  cases_same_for_all_threads(make_least);
  cases_same_for_all_threads(make_product);
}

/* Checks the result of each line along `axis` of a square with `on` on its
 * diagonal and -1 elsewhere. */
static void check_diagonal(tn_runtime *rt, const char *op, int64_t n, double on,
                           double want) {
  const int64_t dims[2] = {n, n};
  double *x = malloc((size_t)(n * n) * sizeof *x);
  cr_assert_not_null(x);
  for (int64_t i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0 ? on : -1;
  for (int axis = 0; axis < 2; ++axis) {
    cases_call c = {.op = full_name(op),
                    .params = axis == 0 ? "axis=[0]" : "axis=[1]",
                    .n_in = 1,
                    .n_out = 1};
    c.in[0] = host_many(rt, TN_F32, 2, dims, x);
    cases_forward(rt, &c);
    double *have = cases_values(c.out[0]);
    for (int64_t i = 0; i < n; ++i)
      cr_assert(isnan(want) ? isnan(have[i]) : have[i] == want,
                "%s of %lld, axis %d, element %lld: %g, not %g", op,
                (long long)n, axis, (long long)i, have[i], want);
    free(have);
    cases_release(&c);
  }
  free(x);
}

Test(reduce, the_selected_element_is_found_at_any_place) {
  static const uint64_t masks[] = {0, TN_CPU_AVX512,
                                   TN_CPU_AVX512 | TN_CPU_AVX2};
  for (size_t m = 0; m < 3; ++m) {
    const tn_options options = {
        .struct_size = sizeof options, .workers = 1, .cpu_mask = masks[m]};
    tn_runtime *rt = NULL;
    OK(tn_runtime_create(&options, &rt));
    OK(tn_plugin_load(rt, PLUGIN_FILE));
    for (int64_t n = 2; n < 140; n += n < 40 ? 1 : 3) {
      check_diagonal(rt, "max", n, NAN, NAN);
      check_diagonal(rt, "min", n, NAN, NAN);
      check_diagonal(rt, "max", n, 3, 3);
      check_diagonal(rt, "min", n, -INFINITY, -INFINITY);
      check_diagonal(rt, "sum", n, 0.5, 0.5 - (double)(n - 1));
    }
    tn_runtime_release(rt);
  }
}

/* ------------------------------------------------------- nothing, and mistakes
 */

/* The one element that is made of an array of shape (0). */
static double of_nothing(tn_runtime *rt, const char *op) {
  const int64_t none = 0;
  cases_call c = {.op = op, .params = "", .n_in = 1, .n_out = 1};
  c.in[0] = host_many(rt, TN_F32, 1, &none, NULL);
  cases_forward(rt, &c);
  double *have = cases_values(c.out[0]);
  const double first = have[0];
  free(have);
  cases_release(&c);
  return first;
}

Test(reduce, of_no_elements_there_is_a_sum_and_a_product_and_no_mean) {
  tn_runtime *rt = host_open();
  cr_assert(of_nothing(rt, "tensor.sum") == 0);
  cr_assert(of_nothing(rt, "tensor.nansum") == 0);
  cr_assert(of_nothing(rt, "tensor.norm") == 0);
  cr_assert(of_nothing(rt, "tensor.prod") == 1);
  cr_assert(of_nothing(rt, "tensor.nanprod") == 1);
  cr_assert(isnan(of_nothing(rt, "tensor.mean")));
  tn_runtime_release(rt);
}

/* A call that must fail, with arrays of these shapes. */
typedef struct mistake {
  const char *op;
  const char *params;
  size_t n_in;
  host_shape in[3];
  tn_code code;
  const char *says;
} mistake;

static const mistake mistakes[] = {
    {"sum", "axis=[2]", 1, {{2, {2, 3}}}, TN_OUT_OF_RANGE, "no axis 2 of an"},
    {"mean", "axis=[-3]", 1, {{2, {2, 3}}}, TN_OUT_OF_RANGE, "no axis -3"},
    {"prod", "axis=[0]", 1, {{0, {0}}}, TN_OUT_OF_RANGE, "of 0 dimensions"},
    {"min", "axis=[1,-1]", 1, {{2, {2, 3}}}, TN_INVALID, "named twice"},
    {"norm", "exclude=true", 1, {{2, {2, 3}}}, TN_INVALID, "`axis` is None"},
    {"norm", "ord=3", 1, {{2, {2, 3}}}, TN_OUT_OF_RANGE, "ord"},
    {"max", "", 1, {{1, {0}}}, TN_INVALID, "axis 0 of `data` has length 0"},
    {"min", "axis=[1]", 1, {{2, {2, 0}}}, TN_INVALID, "axis 1 of `data`"},
    {"argmax", "", 1, {{2, {0, 3}}}, TN_INVALID, "no place of no elements"},
    {"argmin", "axis=2", 1, {{2, {2, 3}}}, TN_OUT_OF_RANGE, "no axis 2"},
    {"pick", "axis=1", 2, {{2, {2, 0}}, {1, {2}}}, TN_INVALID, "to pick"},
    {"pick", "", 2, {{3, {2, 2, 3}}, {1, {2}}}, TN_SHAPE, "one less"},
    {"pick", "", 2, {{2, {2, 3}}, {1, {3}}}, TN_SHAPE, "index"},
    {"broadcast_to", "shape=[2]", 1, {{2, {2, 3}}}, TN_SHAPE, "one of 1"},
    {"broadcast_to", "shape=[4,3]", 1, {{2, {2, 3}}}, TN_SHAPE, "become 4"},
    {"broadcast_to", "shape=[0,3]", 1, {{1, {3}}}, TN_SHAPE, "does not have"},
    {"broadcast_axis",
     "axis=[0] size=[4]",
     1,
     {{1, {3}}},
     TN_SHAPE,
     "length 3"},
    {"broadcast_like", "", 2, {{1, {3}}, {1, {4}}}, TN_SHAPE, "become 4"},
    {"where", "", 3, {{2, {2, 3}}, {1, {3}}, {1, {3}}}, TN_SHAPE, "or one"},
    {"where",
     "",
     3,
     {{1, {2}}, {2, {3, 4}}, {2, {3, 4}}},
     TN_SHAPE,
     "condition"},
    {"add_n", "", 2, {{1, {3}}, {1, {4}}}, TN_SHAPE, "args"},
};

Test(reduce, parameters_that_do_not_fit_are_refused_with_a_message) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_operator *op = host_operator(rt, full_name(m->op));
    tn_params *params = NULL;
    tn_array *in[3] = {NULL}, *out = NULL;
    const double zeros[HOST_MAX] = {0};
    tn_code code = tn_params_parse(op, m->params, &params);
    for (size_t k = 0; k < m->n_in; ++k)
      in[k] = host_array(rt, TN_F32, m->in[k], zeros);
    if (code == TN_OK)
      code = tn_call(rt, op, &(tn_inputs){m->n_in, in}, params, TN_OUT(&out));
    cr_assert_eq(code, m->code, "%s %s: %d %s", m->op, m->params, (int)code,
                 tn_error_text());
    cr_assert_not_null(strstr(tn_error_text(), m->says), "%s %s: %s", m->op,
                       m->params, tn_error_text());
    for (size_t k = 0; k < m->n_in; ++k) tn_array_release(in[k]);
    tn_array_release(out);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

Test(reduce, of_no_lines_nothing_is_asked) {
  const int64_t dims[2] = {0, 0};
  static const char *const ops[] = {"tensor.max", "tensor.argmin"};
  tn_runtime *rt = host_open();
  for (int i = 0; i < 2; ++i) {
    cases_call c = {.op = ops[i],
                    .params = i == 0 ? "axis=[0]" : "axis=0",
                    .n_in = 1,
                    .n_out = 1};
    c.in[0] = host_many(rt, TN_F32, 2, dims, NULL);
    cases_forward(rt, &c);
    cr_assert_eq(tn_array_size(c.out[0]), 0);
    cases_release(&c);
  }
  tn_runtime_release(rt);
}

Test(reduce, places_beyond_the_line_are_moved_to_its_ends) {
  const double x[6] = {1, 2, 3, 4, 5, 6}, index[2] = {-1.5, NAN};
  const double far[2] = {1e30, 2.9};
  const double want[2] = {1, 4}, want_far[2] = {3, 6};
  tn_runtime *rt = host_open();
  for (int i = 0; i < 2; ++i) {
    cases_call c = {.op = "tensor.pick", .params = "", .n_in = 2, .n_out = 1};
    c.in[0] = host_many(rt, TN_F32, 2, (const int64_t[]){2, 3}, x);
    c.in[1] = host_many(rt, TN_F32, 1, (const int64_t[]){2}, i ? far : index);
    cases_forward(rt, &c);
    host_expect(c.out[0], i ? want_far : want, 2, 0);
    cases_release(&c);
  }
  tn_runtime_release(rt);
}
