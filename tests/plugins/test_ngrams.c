/* SPDX-License-Identifier: Apache-2.0
 * tensor.count_ngrams: many rows and n-grams against plain loops, and messages.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(ngrams, .init = open_all, .fini = close_all);

enum { ROWS = 37, COLUMNS = 211, NGRAMS = 300 };

/* Numbers from -3 to 3 without a pattern. */
static int64_t draw(int64_t i) {
  const uint64_t x = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
  return (int64_t)((x ^ x >> 31) * 0xbf58476d1ce4e5b9u >> 33) % 7 - 3;
}

static tn_array *draw_array(tn_dtype dtype, int64_t rows, int64_t columns,
                            int64_t first) {
  const int64_t n = rows * columns;
  double *values = malloc((size_t)n * sizeof *values);
  cr_assert_not_null(values);
  for (int64_t i = 0; i < n; ++i) values[i] = (double)draw(first + i);
  tn_array *array = host_many(rt, dtype, 2, (int64_t[]){rows, columns}, values);
  free(values);
  return array;
}

/* Returns how often an n-gram occurs in a row. */
static int64_t count_one(const double *row, const double *ngram, int64_t length,
                         int64_t max_skip) {
  int64_t count = 0;
  for (int64_t step = 1; step <= (length > 1 ? max_skip + 1 : 1); ++step)
    for (int64_t i = 0; i + (length - 1) * step < COLUMNS; ++i) {
      int64_t k = 0;
      while (k < length && row[i + k * step] == ngram[k]) ++k;
      count += k == length;
    }
  return count;
}

static void check_length(tn_dtype dtype, int64_t length, int64_t max_skip) {
  tn_operator *op = host_operator(rt, "tensor.count_ngrams");
  tn_array *data = draw_array(dtype, ROWS, COLUMNS, 0), *out = NULL;
  tn_array *ngrams = draw_array(dtype, NGRAMS, length, 99999);
  char text[32];
  (void)snprintf(text, sizeof text, "max_skip=%lld", (long long)max_skip);
  tn_params *params = host_params(op, text);
  OK(tn_call(rt, op, TN_IN(data, ngrams), params, TN_OUT(&out)));
  double *x = host_many_values(data), *y = host_many_values(ngrams);
  double *got = host_many_values(out);
  for (int64_t r = 0; r < ROWS; ++r)
    for (int64_t g = 0; g < NGRAMS; ++g)
      cr_assert_eq((int64_t)got[r * NGRAMS + g],
                   count_one(x + r * COLUMNS, y + g * length, length, max_skip),
                   "length %lld, row %lld, n-gram %lld", (long long)length,
                   (long long)r, (long long)g);
  tn_array_release(data), tn_array_release(ngrams), tn_array_release(out);
  tn_params_release(params);
  free(x), free(y), free(got);
}

Test(ngrams, counts_are_those_of_plain_loops) {
  check_length(TN_I32, 1, 4);
  check_length(TN_I64, 2, 0);
  check_length(TN_I32, 2, 300);
  check_length(TN_I64, 3, 2);
}

Test(ngrams, ngrams_without_a_number_are_refused) {
  tn_operator *op = host_operator(rt, "tensor.count_ngrams");
  tn_array *data = draw_array(TN_I64, 1, 3, 0), *out = NULL;
  tn_array *ngrams = draw_array(TN_I64, 2, 0, 0);
  FAILS(tn_call(rt, op, TN_IN(data, ngrams), NULL, TN_OUT(&out)), TN_SHAPE,
        "a row of `ngrams` must have a number");
  tn_array_release(data), tn_array_release(ngrams);
}
