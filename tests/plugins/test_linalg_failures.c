/* SPDX-License-Identifier: Apache-2.0
 * plugins/linalg: matrices that have no result, elements that are not read or
 * not finite, batches and matrices without elements, batches on several
 * workers, and plugins without LAPACK.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "lapack.h"

static tn_runtime *rt;

static tn_runtime *open_runtime(int has_openblas, uint32_t workers) {
  const tn_options options = {.struct_size = sizeof options,
                              .workers = workers};
  tn_runtime *made = NULL;
  OK(tn_runtime_create(&options, &made));
  if (has_openblas) OK(tn_plugin_load(made, OPENBLAS_FILE));
  OK(tn_plugin_load(made, ELEMWISE_FILE));
  OK(tn_plugin_load(made, TENSOR_FILE));
  OK(tn_plugin_load(made, PLUGIN_FILE));
  return made;
}

static void open_all(void) {
  rt = open_runtime(1, 0);
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(linalg_failures, .init = open_all, .fini = close_all);

/* Skips a test that needs all operators. */
static void require_lapack(void) {
  if (!has_lapack(rt)) cr_skip_test("there is no OpenBLAS with LAPACK");
}

/* A call with one input and one output, waited for. */
static tn_code call_one(const char *name, const char *text, tn_array *in,
                        tn_array **out) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  *out = NULL;
  tn_code code = tn_call(rt, op, TN_IN(in), params, TN_OUT(out));
  if (code == TN_OK) code = tn_array_wait(*out);
  tn_params_release(params);
  return code;
}

static tn_array *make(int32_t ndim, const int64_t *dims, const double *v) {
  return host_many(rt, TN_F64, ndim, dims, v);
}

/* Two matrices of n x n: the identity, and one with element (1, 1) = x. */
static tn_array *make_pair(int64_t n, double x) {
  const int64_t dims[] = {2, n, n};
  double *v = calloc((size_t)(2 * n * n), sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) v[i * (n + 1)] = v[n * n + i * (n + 1)] = 1;
  v[n * n + n + 1] = x;
  tn_array *array = make(3, dims, v);
  free(v);
  return array;
}

static void expect_failure(const char *name, const char *text, double x,
                           const char *says) {
  for (int64_t n = 2; n <= 40; n += 38) { /* loops of ours, and LAPACK */
    tn_array *in = make_pair(n, x), *out = NULL;
    FAILS(call_one(name, text, in, &out), TN_INVALID, says);
    tn_array_release(in), tn_array_release(out);
  }
}

Test(linalg_failures, a_matrix_that_is_not_positive_definite_is_an_error) {
  const char *const says =
      "matrix 1 of `a` is not positive definite (leading minor 2)";
  expect_failure("linalg.potrf", "", -1, says);
  expect_failure("linalg.potrf", "lower=false", 0, says);
  expect_failure("linalg.cholesky", "", -1, says);
}

Test(linalg_failures, a_singular_matrix_is_an_error) {
  expect_failure("linalg.inverse", "", 0,
                 "matrix 1 of `a` is singular (pivot 2)");
  expect_failure("linalg.potri", "", 0,
                 "matrix 1 of `a` has a 0 on the diagonal (row 2)");
}

Test(linalg_failures, a_singular_matrix_has_no_solution) {
  const double ones[] = {1, 1};
  tn_operator *op = host_operator(rt, "linalg.solve");
  tn_array *a = make(2, (int64_t[]){2, 2}, (double[]){1, 2, 2, 4});
  tn_array *b = make(2, (int64_t[]){2, 1}, ones), *x = NULL;
  tn_code code = tn_call(rt, op, TN_IN(a, b), NULL, TN_OUT(&x));
  if (code == TN_OK) code = tn_array_wait(x);
  FAILS(code, TN_INVALID, "matrix 0 of `a` is singular (pivot 2)");
  tn_array_release(a), tn_array_release(b), tn_array_release(x);
}

/* A matrix after the failed one has its result. */
Test(linalg_failures, a_singular_matrix_has_the_determinant_0) {
  tn_array *in = make_pair(2, 0), *out[2] = {NULL};
  OK(call_one("linalg.det", "", in, &out[0]));
  host_expect(out[0], (double[]){1, 0}, 2, 0);
  tn_array_release(out[0]);
  OK(tn_call(rt, host_operator(rt, "linalg.slogdet"), TN_IN(in), NULL,
             &(tn_outputs){2, (out[0] = NULL, out), NULL}));
  host_expect(out[0], (double[]){1, 0}, 2, 0);
  double v[HOST_MAX];
  cr_assert_eq(host_values(out[1], v), 2);
  cr_assert_float_eq(v[0], 0, 0);
  cr_assert(isinf(v[1]) && v[1] < 0);
  tn_array_release(in), tn_array_release(out[0]), tn_array_release(out[1]);
}

/* ------------------------------------------------------------ odd elements */

/* n x n, the identity but for one element. */
static tn_array *make_with(int64_t n, int64_t at, double x) {
  double *v = calloc((size_t)(n * n), sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) v[i * (n + 1)] = 1;
  v[at] = x;
  tn_array *array = make(2, (int64_t[]){n, n}, v);
  free(v);
  return array;
}

/* Outputs of an operator with one input. */
static size_t count_outputs(const char *name) {
  static const char *const two[] = {"linalg.syevd", "linalg.qr", "linalg.gelqf",
                                    "linalg.slogdet"};
  for (size_t i = 0; i < sizeof two / sizeof *two; ++i)
    if (strcmp(name, two[i]) == 0) return 2;
  return strcmp(name, "linalg.svd") == 0 ? 3 : 1;
}

/* The first outputs of operators of a matrix with one odd element. */
static void expect_nan(const char *name, const char *text, int64_t at, double x,
                       int is_nan) {
  for (int64_t n = 3; n <= 40; n += 37) {
    tn_operator *op = host_operator(rt, name);
    tn_params *params = host_params(op, text);
    tn_array *in = make_with(n, at < 0 ? n : at, x), *out[3] = {NULL};
    const size_t n_out = count_outputs(name);
    OK(tn_call(rt, op, TN_IN(in), params, &(tn_outputs){n_out, out, NULL}));
    double *v = host_many_values(out[0]);
    for (int64_t i = 0; i < tn_array_size(out[0]); ++i)
      cr_assert_eq(isnan(v[i]) != 0, is_nan, "%s %s n=%lld: %lld is %g", name,
                   text, (long long)n, (long long)i, v[i]);
    free(v);
    tn_params_release(params);
    tn_array_release(in);
    for (int i = 0; i < 3; ++i) tn_array_release(out[i]);
  }
}

Test(linalg_failures, a_matrix_that_is_not_finite_gives_nan) {
  require_lapack();
  static const char *const names[] = {
      "linalg.inverse", "linalg.det",   "linalg.slogdet", "linalg.gelqf",
      "linalg.qr",      "linalg.syevd", "linalg.svd"};
  const double odd[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    for (size_t k = 0; k < 3; ++k) expect_nan(names[i], "", -1, odd[k], 1);
}

/* Element (0, 1) is above the diagonal, and (1, 0) below. */
Test(linalg_failures, the_other_triangle_is_not_read) {
  require_lapack();
  static const char *const lower[] = {"linalg.potrf", "linalg.potri",
                                      "linalg.cholesky", "linalg.syevd"};
  for (size_t i = 0; i < sizeof lower / sizeof *lower; ++i)
    expect_nan(lower[i], "", 1, NAN, 0);
  expect_nan("linalg.potrf", "lower=false", -1, NAN, 0);
  expect_nan("linalg.potri", "lower=false", -1, NAN, 0);
}

Test(linalg_failures, triangular_solutions_do_not_read_the_other_triangle) {
  tn_operator *op = host_operator(rt, "linalg.trsm");
  for (int64_t n = 2; n <= 40; n += 38) {
    tn_array *a = make_with(n, 1, NAN), *b = make_with(n, 0, 7), *x = NULL;
    OK(tn_call(rt, op, TN_IN(a, b), NULL, TN_OUT(&x)));
    double *v = host_many_values(x);
    cr_assert_float_eq(v[0], 7, 0);
    for (int64_t i = 1; i < n * n; ++i)
      cr_assert_float_eq(v[i], i % (n + 1) == 0, 0);
    free(v);
    tn_array_release(a), tn_array_release(b), tn_array_release(x);
  }
}

/* -------------------------------------------------------------- no elements */

static void expect_shape(const char *name, int32_t ndim, const int64_t *dims,
                         host_shape want) {
  const double none[1] = {0};
  tn_operator *op = host_operator(rt, name);
  tn_array *in = make(ndim, dims, none), *out[3] = {NULL};
  const size_t n_out = count_outputs(name);
  OK(tn_call(rt, op, TN_IN(in), NULL, &(tn_outputs){n_out, out, NULL}));
  OK(tn_array_wait(out[0]));
  const tn_tensor *got = tn_array_tensor(out[0]);
  cr_assert_eq(got->ndim, want.ndim, "%s", name);
  for (int32_t d = 0; d < got->ndim; ++d)
    cr_assert_eq(got->shape[d], want.dims[d], "%s", name);
  tn_array_release(in);
  for (int i = 0; i < 3; ++i) tn_array_release(out[i]);
}

Test(linalg_failures, matrices_and_batches_may_have_no_elements) {
  require_lapack();
  static const char *const squares[] = {
      "linalg.potrf",   "linalg.potri", "linalg.cholesky",
      "linalg.inverse", "linalg.syevd", "linalg.svd",
      "linalg.qr",      "linalg.gelqf", "linalg.syrk"};
  for (size_t i = 0; i < sizeof squares / sizeof *squares; ++i) {
    expect_shape(squares[i], 2, (int64_t[]){0, 0}, (host_shape){2, {0, 0}});
    expect_shape(squares[i], 3, (int64_t[]){0, 2, 2},
                 (host_shape){3, {0, 2, 2}});
    expect_shape(squares[i], 3, (int64_t[]){2, 0, 0},
                 (host_shape){3, {2, 0, 0}});
  }
  expect_shape("linalg.qr", 2, (int64_t[]){3, 0}, (host_shape){2, {3, 0}});
  expect_shape("linalg.gelqf", 2, (int64_t[]){0, 3}, (host_shape){2, {0, 3}});
  expect_shape("linalg.svd", 2, (int64_t[]){0, 3}, (host_shape){2, {0, 0}});
}

Test(linalg_failures, the_determinant_of_nothing_is_1) {
  const double none[1] = {0};
  tn_array *in = make(3, (int64_t[]){2, 0, 0}, none), *out = NULL;
  OK(call_one("linalg.det", "", in, &out));
  host_expect(out, (double[]){1, 1}, 2, 0);
  tn_array_release(out);
  OK(call_one("linalg.sumlogdiag", "", in, &out));
  host_expect(out, (double[]){0, 0}, 2, 0);
  tn_array_release(in), tn_array_release(out);
}

/* ----------------------------------------------------------------- messages */

Test(linalg_failures, shapes_that_do_not_fit_are_refused_in_words) {
  require_lapack();
  const double zeros[HOST_MAX] = {0};
  tn_array *wide = make(2, (int64_t[]){2, 3}, zeros);
  tn_array *high = make(2, (int64_t[]){3, 2}, zeros), *out[2] = {NULL};
  const tn_outputs two = {2, out, NULL};
  FAILS(tn_call(rt, host_operator(rt, "linalg.qr"), TN_IN(wide), NULL, &two),
        TN_SHAPE, "use gelqf");
  FAILS(tn_call(rt, host_operator(rt, "linalg.gelqf"), TN_IN(high), NULL, &two),
        TN_SHAPE, "use qr");
  FAILS(tn_call(rt, host_operator(rt, "linalg.gemm2"), TN_IN(wide, wide), NULL,
                TN_OUT(&out[0])),
        TN_SHAPE, "columns of op(a) and rows of op(b)");
  FAILS(tn_call(rt, host_operator(rt, "linalg.inverse"), TN_IN(wide), NULL,
                TN_OUT(&out[0])),
        TN_SHAPE, "a");
  tn_array_release(wide), tn_array_release(high);
}

Test(linalg_failures, operators_without_lapack_say_so) {
  static const char *const names[] = {"linalg.gelqf", "linalg.qr",
                                      "linalg.syevd", "linalg.svd"};
  tn_runtime *plain = open_runtime(0, 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    tn_text *text = NULL;
    OK(tn_operator_explain(host_operator(plain, names[i]), NULL, NULL, &text));
    cr_assert_not_null(strstr(tn_text_get(text), "no plugin provides lapack/1"),
                       "%s", tn_text_get(text));
    tn_text_release(text);
  }
  tn_runtime_release(plain);
}

/* -------------------------------------------------------------------- many */

enum { COUNT = 200, SIDE = 20 };

/* Singular values of a batch, on some workers. */
static double *find_many(uint32_t workers, const char *name) {
  const int64_t dims[] = {COUNT, SIDE, SIDE};
  tn_runtime *some = open_runtime(1, workers);
  double *v = host_draw(COUNT * SIDE * SIDE, 5);
  tn_array *in = host_many(some, TN_F64, 3, dims, v), *out[3] = {NULL};
  OK(tn_call(some, host_operator(some, name), TN_IN(in), NULL,
             &(tn_outputs){count_outputs(name), out, NULL}));
  double *found = host_many_values(out[0]);
  tn_array_release(in);
  for (int i = 0; i < 3; ++i) tn_array_release(out[i]);
  tn_runtime_release(some);
  free(v);
  return found;
}

/* LAPACK runs on several threads at once. */
Test(linalg_failures, batches_are_the_same_for_all_numbers_of_workers) {
  require_lapack();
  static const char *const names[] = {"linalg.svd", "linalg.syevd", "linalg.qr",
                                      "linalg.inverse", "linalg.syrk"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    double *one = find_many(1, names[i]), *some = find_many(4, names[i]);
    for (int64_t k = 0; k < COUNT * SIDE * SIDE; ++k)
      cr_assert(memcmp(&one[k], &some[k], sizeof *one) == 0, "%s", names[i]);
    free(one), free(some);
  }
}
