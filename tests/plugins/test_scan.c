/* SPDX-License-Identifier: Apache-2.0
 * cumsum, cumprod and logsumexp of plugins/tensor: values and gradients of
 * NumPy, SciPy and torch (tests/reference/scan.py), long lines, integers that
 * wrap, and numbers that are not finite.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct scan_case {
  const char *op;
  const char *params;
  host_operand data, out, head, gradient;
} scan_case;

static const scan_case scan_cases[] = {
#include "scan_cases.inc"
};
enum { N_CASES = sizeof scan_cases / sizeof *scan_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(scan, .init = open_all, .fini = close_all);

static int is_near(double a, double b, double tolerance) {
  if (a == b || (isnan(a) && isnan(b))) return 1;
  return fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

static void expect_values(tn_array *array, const host_operand *want,
                          const scan_case *c, double tolerance) {
  double v[HOST_MAX];
  host_expect_shape(array, &want->shape, c->op, c->params);
  cr_assert_eq(host_values(array, v), host_count(&want->shape));
  for (int64_t i = 0; i < host_count(&want->shape); ++i)
    cr_assert(is_near(v[i], want->v[i], tolerance),
              "%s %s, element %lld: %g, not %g", c->op, c->params, (long long)i,
              v[i], want->v[i]);
}

static void check_case(const scan_case *c, tn_dtype dtype, double tolerance) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *data = host_array(rt, dtype, c->data.shape, c->data.v);
  tn_array *head = host_array(rt, dtype, c->head.shape, c->head.v);
  tn_array *out = NULL, *grad = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, data));
  OK(tn_tape_call(tape, op, TN_IN(data), params, TN_OUT(&out)));
  expect_values(out, &c->out, c, tolerance);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(out),
                                       .head_gradients = *TN_IN(head),
                                       .of = *TN_IN(data),
                                       .gradients = *TN_OUT(&grad)}));
  expect_values(grad, &c->gradient, c, tolerance);
  tn_array_release(data), tn_array_release(head);
  tn_array_release(out), tn_array_release(grad);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(scan, values_and_gradients_are_those_of_other_libraries) {
  for (int i = 0; i < N_CASES; ++i) {
    const int is_exact = strstr(scan_cases[i].op, "cum") != NULL;
    check_case(&scan_cases[i], TN_F64, is_exact ? 0 : 1e-13);
    if (is_exact) check_case(&scan_cases[i], TN_F32, 0);
    if (is_exact) check_case(&scan_cases[i], TN_BF16, 1.0 / 128);
  }
}

/* ------------------------------------------------------------------ long lines
 */

/* A call of one input; the caller releases the result. */
static tn_array *call_one(const char *name, const char *text, tn_array *x) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *y = NULL;
  OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)));
  tn_params_release(params);
  return y;
}

/* Whole numbers: every order of additions gives the same sums. */
static void check_long(int64_t outer, int64_t n, int64_t inner, int flags) {
  const int exclusive = flags & 1, reverse = flags >> 1;
  const int64_t dims[] = {outer, n, inner}, size = outer * n * inner;
  char text[64];
  double *v = malloc((size_t)size * sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < size; ++i) v[i] = (double)(i * 7919 % 13 - 6);
  (void)snprintf(text, sizeof text, "axis=1 exclusive=%d reverse=%d", exclusive,
                 reverse);
  tn_array *x = host_many(rt, TN_F32, 3, dims, v);
  tn_array *y = call_one("tensor.cumsum", text, x);
  double *have = host_many_values(y);
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t first = line / inner * n * inner + line % inner;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = first + (reverse ? n - 1 - i : i) * inner;
      const double want = exclusive ? sum : sum + v[at];
      sum += v[at];
      cr_assert_eq(have[at], want, "%s, line %lld, element %lld: %g, not %g",
                   text, (long long)line, (long long)i, have[at], want);
    }
  }
  free(v), free(have);
  tn_array_release(x), tn_array_release(y);
}

Test(scan, sums_of_long_lines_are_exact) {
  for (int flags = 0; flags < 4; ++flags) {
    check_long(1, 300001, 1, flags);
    check_long(2, 140000, 3, flags);
    check_long(3, 1030, 40, flags);
    check_long(2, 1030, 300, flags);
    check_long(7, 1030, 1, flags);
    check_long(5, 6, 7, flags);
  }
}

enum { N_SUMS = 420000 };

/* Sums along axis 0 of N_SUMS elements, in rows of `inner`. */
static float *find_sums(int64_t inner, uint32_t workers, uint64_t cpu_mask) {
  const tn_options options = {
      .struct_size = sizeof options, .workers = workers, .cpu_mask = cpu_mask};
  const int64_t dims[] = {N_SUMS / inner, inner};
  float *v = malloc(N_SUMS * sizeof *v);
  cr_assert_not_null(v);
  for (int i = 0; i < N_SUMS; ++i) v[i] = 1.0f / (float)(i * 7919LL % 1009 + 1);
  tn_runtime_release(rt);
  rt = NULL;
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  tn_array *x = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, dims}, &x));
  OK(tn_array_set(x, v, N_SUMS * sizeof *v));
  tn_array *y = call_one("tensor.cumsum", "", x);
  OK(tn_array_get(y, v, N_SUMS * sizeof *v));
  tn_array_release(x), tn_array_release(y);
  return v;
}

Test(scan, threads_and_instructions_change_no_bit) {
  static const uint64_t masks[] = {0, TN_CPU_AVX512,
                                   TN_CPU_AVX512 | TN_CPU_AVX2};
  static const int64_t inner[] = {1, 40};
  for (int i = 0; i < 2; ++i) {
    float *want = find_sums(inner[i], 1, 0);
    for (uint32_t workers = 1; workers < 5; ++workers)
      for (int k = 0; k < 3; ++k) {
        float *have = find_sums(inner[i], workers, masks[k]);
        cr_assert_eq(memcmp(have, want, N_SUMS * sizeof *want), 0,
                     "%u workers, mask %d", workers, k);
        free(have);
      }
    free(want);
  }
}

/* In f32, 16777216 and one is 16777216. */
Test(scan, sums_are_kept_in_f64) {
  enum { N = 6 };
  const int64_t n = N;
  const double v[N] = {16777216, 1, 1, 1, 1, -16777216};
  const double want[N] = {16777216, 16777216, 16777218, 16777220, 16777220, 4};
  tn_array *x = host_many(rt, TN_F32, 1, &n, v);
  tn_array *y = call_one("tensor.cumsum", "", x);
  host_expect(y, want, n, 0);
  tn_array_release(x), tn_array_release(y);
}

/* The product of the twos alone is beyond f64. */
Test(scan, a_zero_at_the_beginning_stays) {
  enum { N = 200000 };
  const int64_t n = N;
  static double v[N];
  for (int i = 0; i < N; ++i) v[i] = i == 0 ? 0 : 2;
  tn_array *x = host_many(rt, TN_F64, 1, &n, v);
  tn_array *y = call_one("tensor.cumprod", "", x);
  double *have = host_many_values(y);
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], 0, "%d: %g", i, have[i]);
  free(have);
  tn_array_release(x), tn_array_release(y);
}

/* ------------------------------------------------------------------- integers
 */

Test(scan, integers_wrap) {
  const int64_t n = 3;
  const double hundred[] = {100, 100, 100};
  const uint64_t big[] = {UINT64_MAX, 2, 3};
  uint64_t got[3];
  tn_array *x = host_many(rt, TN_I8, 1, &n, hundred), *z = NULL;
  tn_array *y = call_one("tensor.cumsum", "", x);
  double *v = host_many_values(y);
  cr_assert(v[0] == 100 && v[1] == -56 && v[2] == 44);
  free(v);
  tn_array_release(y);
  y = call_one("tensor.cumprod", "", x);
  v = host_many_values(y);
  cr_assert(v[0] == 100 && v[1] == 16 && v[2] == 64);
  free(v);
  OK(tn_array_create(rt, &(tn_spec){TN_U64, 1, &n}, &z));
  OK(tn_array_set(z, big, sizeof big));
  tn_array_release(y);
  y = call_one("tensor.cumsum", "", z);
  OK(tn_array_get(y, got, sizeof got));
  cr_assert(got[0] == UINT64_MAX && got[1] == 1 && got[2] == 4);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

/* ---------------------------------------------------------------- not finite
 */

Test(scan, sums_of_infinities_are_nan) {
  const double v[] = {1, INFINITY, -INFINITY, 2};
  const int64_t n = 4;
  tn_array *x = host_many(rt, TN_F32, 1, &n, v);
  tn_array *y = call_one("tensor.cumsum", "", x);
  double *have = host_many_values(y);
  cr_assert(have[0] == 1 && isinf(have[1]) && isnan(have[2]) && isnan(have[3]));
  free(have);
  tn_array_release(x), tn_array_release(y);
}

/* -inf is the logarithm of 0; exponentials of 1000 do not overflow. */
Test(scan, logarithms_of_sums_of_extreme_powers_are_defined) {
  const double v[] = {-INFINITY, -INFINITY, INFINITY, 1, NAN, 1, 1000, 1000};
  const int64_t dims[] = {4, 2}, none[] = {2, 0};
  const tn_dtype types[] = {TN_F64, TN_F32};
  for (int k = 0; k < 2; ++k) {
    tn_array *x = host_many(rt, types[k], 2, dims, v);
    tn_array *y = call_one("tensor.logsumexp", "axis=[1]", x);
    double *have = host_many_values(y);
    cr_assert(have[0] == -INFINITY && have[1] == INFINITY && isnan(have[2]));
    cr_assert(fabs(have[3] - 1000.6931471805599) < 1e-4);
    free(have);
    tn_array_release(x), tn_array_release(y);
  }
  tn_array *x = host_many(rt, TN_F32, 2, none, v);
  tn_array *y = call_one("tensor.logsumexp", "axis=[1]", x);
  double *have = host_many_values(y);
  cr_assert(have[0] == -INFINITY && have[1] == -INFINITY);
  free(have);
  tn_array_release(x), tn_array_release(y);
}

/* Half of the weight each: 0.5 times the head; none where the sum is 0. */
Test(scan, a_sum_of_no_powers_has_no_gradient) {
  const double v[] = {-INFINITY, -INFINITY, 3, 3}, heads[] = {8, 8};
  tn_operator *op = host_operator(rt, "tensor.logsumexp");
  tn_params *params = host_params(op, "axis=[1]");
  tn_array *x = host_array(rt, TN_F32, (host_shape){2, {2, 2}}, v);
  tn_array *head = host_array(rt, TN_F32, (host_shape){1, {2}}, heads);
  tn_array *y = NULL, *slope = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_call(tape, op, TN_IN(x), params, TN_OUT(&y)));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(y),
                                       .head_gradients = *TN_IN(head),
                                       .of = *TN_IN(x),
                                       .gradients = *TN_OUT(&slope)}));
  host_expect(slope, (double[]){0, 0, 4, 4}, 4, 1e-6);
  tn_array_release(x), tn_array_release(head);
  tn_array_release(y), tn_array_release(slope);
  tn_tape_release(tape);
  tn_params_release(params);
}

/* ------------------------------------------------------------------- messages
 */

Test(scan, an_axis_that_does_not_exist_is_an_error) {
  const double numbers[4] = {0};
  tn_operator *op = host_operator(rt, "tensor.cumsum");
  tn_params *params = host_params(op, "axis=2");
  tn_array *x = host_array(rt, TN_F64, (host_shape){2, {2, 2}}, numbers);
  tn_array *y = NULL;
  FAILS(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)), TN_OUT_OF_RANGE,
        "axis=2");
  tn_array_release(x), tn_array_release(y);
  tn_params_release(params);
}
