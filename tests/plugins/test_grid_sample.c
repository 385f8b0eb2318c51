/* SPDX-License-Identifier: Apache-2.0
 * nn.grid_sample, bilinear_sampler, spatial_transformer, affine_grid and
 * grid_generator: values and gradients of torch (tests/reference/sampling.py),
 * positions that are no numbers or far outside, blocks of many points, and
 * messages about mistakes.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"

static const windows_case sample_cases[] = {
#include "sample_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(grid_sample, .init = open_all, .fini = close_all);

/* Positions are few bits, but those of halves are rounded for the affine
 * operators. */
Test(grid_sample, values_and_gradients_are_those_of_torch) {
  for (size_t i = 0; i < sizeof sample_cases / sizeof *sample_cases; ++i) {
    windows_check(rt, &sample_cases[i], TN_F64, 1e-12);
    windows_check(rt, &sample_cases[i], TN_F32, 1e-5);
    windows_check(rt, &sample_cases[i], TN_F16, 0x1p-8);
  }
}

static tn_code sample(const char *text, tn_array *x, tn_array *grid,
                      tn_array **y) {
  tn_operator *op = host_operator(rt, "nn.grid_sample");
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, TN_IN(x, grid), params, TN_OUT(y));
  tn_params_release(params);
  return code;
}

/* Fails unless positions along one row give `want`. */
static void expect_row(const char *text, int64_t n, const double *x,
                       const double *want) {
  static const double row[] = {10, 20, 30};
  double grid[HOST_MAX] = {0};
  tn_array *y = NULL;
  for (int64_t i = 0; i < n; ++i) grid[2 * i] = x[i];
  tn_array *data = host_array(rt, TN_F64, (host_shape){4, {1, 1, 1, 3}}, row);
  tn_array *at = host_array(rt, TN_F64, (host_shape){4, {1, 1, n, 2}}, grid);
  OK(sample(text, data, at, &y));
  host_expect(y, want, n, 1e-12);
  tn_array_release(data), tn_array_release(at), tn_array_release(y);
}

Test(grid_sample, positions_without_a_number_are_outside) {
  const double x[] = {NAN, 1e30, -INFINITY, 1, -1};
  expect_row("align_corners=true", 5, x, (double[]){0, 0, 0, 30, 10});
  expect_row("align_corners=true padding=border", 5, x,
             (double[]){10, 30, 10, 30, 10});
  expect_row("align_corners=true padding=reflection", 5, x,
             (double[]){10, 10, 10, 30, 10});
  expect_row("align_corners=true mode=nearest", 5, x,
             (double[]){0, 0, 0, 30, 10});
  expect_row("align_corners=true mode=cubic padding=border", 5, x,
             (double[]){10, 30, 10, 30, 10});
}

/* Reflected at the centres of elements 0 and 2 again and again. */
Test(grid_sample, positions_are_reflected_until_they_are_inside) {
  const double x[] = {2, 3, 5, 6, -3, 101};
  expect_row("align_corners=true padding=reflection", 6, x,
             (double[]){20, 10, 30, 20, 30, 30});
}

/* The element at the other corner is NaN, but has no weight. */
Test(grid_sample, elements_without_weight_are_not_read) {
  const double v[] = {NAN, 2, NAN, NAN}, grid[] = {1, -1};
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 2}}, v);
  tn_array *at = host_array(rt, TN_F32, (host_shape){4, {1, 1, 1, 2}}, grid);
  tn_array *y = NULL;
  OK(sample("align_corners=true", x, at, &y));
  host_expect(y, (double[]){2}, 1, 0);
  tn_array_release(x), tn_array_release(at), tn_array_release(y);
}

/* 128 points are computed together. */
Test(grid_sample, points_of_several_blocks_are_those_of_single_ones) {
  enum { N = 300, C = 3, SIZE = 35 };
  double *v = host_draw(C * SIZE, 3), *grid = host_draw(2 * N, 4);
  tn_array *x = host_many(rt, TN_F32, 4, (const int64_t[]){1, C, 5, 7}, v);
  tn_array *at = host_many(rt, TN_F32, 4, (const int64_t[]){1, N, 1, 2}, grid);
  tn_array *y = NULL;
  OK(sample("", x, at, &y));
  double *got = host_many_values(y);
  for (int64_t i = 0; i < N; i += 37) {
    tn_array *one =
        host_many(rt, TN_F32, 4, (const int64_t[]){1, 1, 1, 2}, grid + 2 * i);
    tn_array *alone = NULL;
    OK(sample("", x, one, &alone));
    double *want = host_many_values(alone);
    for (int64_t c = 0; c < C; ++c)
      cr_assert_float_eq(got[c * N + i], want[c], 1e-6);
    free(want);
    tn_array_release(one), tn_array_release(alone);
  }
  free(v), free(grid), free(got);
  tn_array_release(x), tn_array_release(at), tn_array_release(y);
}

Test(grid_sample, mistakes_have_messages) {
  const double v[HOST_MAX] = {0};
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 2}}, v);
  tn_array *none = host_array(rt, TN_F32, (host_shape){4, {1, 1, 0, 2}}, v);
  tn_array *flat = host_array(rt, TN_F32, (host_shape){3, {1, 1, 2}}, v);
  tn_array *at = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 2}}, v);
  tn_array *wide = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 3}}, v);
  tn_array *y = NULL;
  FAILS(sample("", x, flat, &y), TN_SHAPE,
        "`grid` (1,1,2) must have as many dimensions as `data` (1,1,2,2)");
  FAILS(sample("", flat, flat, &y), TN_SHAPE,
        "`data` must have 4 or 5, but (1,1,2) has 3");
  FAILS(sample("", none, at, &y), TN_SHAPE,
        "dimension 2 of `data` (1,1,0,2) is empty");
  FAILS(sample("", x, wide, &y), TN_SHAPE, "");
  tn_array_release(x), tn_array_release(none), tn_array_release(flat);
  tn_array_release(at), tn_array_release(wide);
}
