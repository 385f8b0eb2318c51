/* SPDX-License-Identifier: Apache-2.0
 * plugins/cusolver on the simulated driver with the simulated cuSOLVER and
 * cuBLAS: the choice between it and the companion of linalg, batches, matrices
 * without a result, outputs that are not requested, failures, and programs that
 * would be recorded. tests/plugins/test_linalg.c has the values of torch.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "fake_lapack.h"
#include "read_values.h"
#include "tenon/kernel_options.h"

enum { EDGE = 64, MOST_OUT = 3 }; /* the least edge of a matrix by default */

TestSuite(solver, .init = fixture_init, .fini = fixture_close);

/* With a driver for that version of CUDA. */
static void open_for(int version) {
  fixture_open(
      &(fake_cuda_options){.devices = 2, .version = version, .seed = 6});
  OK(tn_plugin_load(fixture, LINALG_FILE));
  OK(tn_plugin_load(fixture, LINALG_CUDA_FILE));
  OK(tn_plugin_load(fixture, CUSOLVER_FILE));
  (void)fake_solver_calls();
  (void)fake_cublas_calls();
}

static void open_solver(void) {
  open_for(13000);
}

/* Calls of either library since the last question. */
static int count_calls(void) {
  return fake_solver_calls() + fake_cublas_calls();
}

/* ---------------------------------------------------------------- matrices */

/* `count` matrices of small numbers that depend on their position. */
static double *draw(int64_t count, int64_t rows, int64_t columns) {
  const int64_t n = count * rows * columns;
  double *v = malloc((size_t)(n + 1) * sizeof *v);
  uint64_t state = 12345;
  cr_assert_not_null(v);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v[i] = (double)(state >> 40) / 0x1p23 - 1;
  }
  return v;
}

/* Symmetric matrices that are positive definite, because the diagonal is large.
 */
static double *draw_definite(int64_t count, int64_t n) {
  double *v = draw(count, n, n);
  for (int64_t k = 0; k < count; ++k)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j)
        v[(k * n + j) * n + i] = v[(k * n + i) * n + j] =
            v[(k * n + i) * n + j] + (i == j ? 2 * (double)n : 0);
  return v;
}

static tn_array *create(const char *place, int64_t count, int64_t rows,
                        int64_t columns, const double *v) {
  const int64_t dims[] = {count, rows, columns};
  tn_array *array = NULL;
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F64, 3, dims},
                        fixture_place(place), &array));
  OK(tn_array_set(array, v, (size_t)(count * rows * columns) * sizeof *v));
  return array;
}

static tn_operator *find_operator(const char *name) {
  tn_operator *op = NULL;
  OK(tn_operator_get(fixture, name, &op));
  return op;
}

static size_t count_outputs(const char *op) {
  return tn_operator_desc(find_operator(op))->n_outputs;
}

/* All outputs of a call on one or two arrays; the caller releases them. */
static tn_code call(const char *op, tn_array *a, tn_array *b, tn_array **out) {
  const size_t n_out = count_outputs(op);
  tn_array *in[] = {a, b};
  for (size_t i = 0; i < n_out; ++i) out[i] = NULL;
  return tn_call(fixture, find_operator(op), &(tn_inputs){b ? 2 : 1, in}, NULL,
                 &(tn_outputs){n_out, out, NULL});
}

/* The first output of a call on `count` matrices. Frees v and w. */
static double *compute(const char *op, int64_t count, int64_t rows,
                       int64_t columns, double *v, double *w) {
  tn_array *a = create("cuda(0)", count, rows, columns, v), *out[MOST_OUT];
  tn_array *b = w ? create("cuda(0)", count, rows, columns, w) : NULL;
  int64_t n = 0;
  OK(call(op, a, b, out));
  double *x = read_values(out[0], &n);
  for (size_t i = 0; i < count_outputs(op); ++i) tn_array_release(out[i]);
  tn_array_release(a);
  if (b) tn_array_release(b);
  free(v), free(w);
  return x;
}

/* ------------------------------------------------------------------ choice */

static int count_calls_of(const char *op, int64_t count, int64_t n) {
  free(compute(op, count, n, n, draw_definite(count, n), NULL));
  return count_calls();
}

Test(solver, computes_matrices_from_an_edge_on) {
  open_solver();
  cr_expect_eq(count_calls_of("linalg.cholesky", 1, EDGE - 1), 0);
  cr_expect_eq(count_calls_of("linalg.cholesky", 1, EDGE), 1);
  cr_expect_eq(count_calls_of("linalg.inverse", 1, EDGE - 1), 0);
  cr_expect_eq(count_calls_of("linalg.inverse", 1, EDGE), 2);
  cr_expect_eq(count_calls_of("linalg.qr", 1, EDGE), 2);
}

Test(solver, computes_matrices_from_the_edge_of_its_option_on) {
  open_solver();
  OK(tn_operator_tune(find_operator("linalg.potri"), "cusolver.potri.cuda",
                      "least=2"));
  cr_expect_eq(count_calls_of("linalg.potri", 1, 2), 1);
  /* the libraries have no function for several of these */
  cr_expect_eq(count_calls_of("linalg.potri", 2, 31), 0);
  cr_expect_eq(count_calls_of("linalg.potri", 2, 32), 2);
}

/* A driver for CUDA 11 has no cuSOLVER that serves; the plugin loads, and the
 * companion of linalg computes. */
Test(solver, leaves_matrices_to_the_companion_without_libraries) {
  const int64_t n = EDGE;
  open_for(11080);
  double *a = draw_definite(1, n);
  double *l = compute("linalg.cholesky", 1, n, n, draw_definite(1, n), NULL);
  cr_expect_eq(count_calls(), 0);
  cr_expect_eq(l[0], sqrt(a[0]));
  free(a), free(l);
}

/* ----------------------------------------------------------------- batches */

/* The largest difference between l l^T and a. */
static double compare_squares(const double *l, const double *a, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += l[i * n + k] * l[j * n + k];
      most = fmax(most, fabs(sum - a[i * n + j]));
    }
  return most;
}

/* One function computes three small matrices, and three calls two large ones.
 */
Test(solver, factorises_batches) {
  static const int64_t edges[] = {EDGE, 260}, counts[] = {3, 2};
  static const int calls[] = {1, 2};
  open_solver();
  for (int k = 0; k < 2; ++k) {
    const int64_t n = edges[k], count = counts[k];
    double *a = draw_definite(count, n);
    double *l =
        compute("linalg.cholesky", count, n, n, draw_definite(count, n), NULL);
    cr_expect_eq(count_calls(), calls[k]);
    for (int64_t i = 0; i < count; ++i)
      cr_expect_lt(compare_squares(l + i * n * n, a + i * n * n, n), 1e-10);
    free(a), free(l);
  }
}

/* The results of a batch, and of its matrices one by one. */
static void expect_equal_parts(const char *op, int64_t rows, int64_t columns,
                               int64_t size) {
  const int64_t count = 3, n = rows * columns;
  double *all = draw(count, rows, columns);
  double *x =
      compute(op, count, rows, columns, draw(count, rows, columns), NULL);
  cr_expect_gt(count_calls(), 2, "%s", op);
  for (int64_t k = 0; k < count; ++k) {
    double *one = malloc((size_t)n * sizeof *one);
    cr_assert_not_null(one);
    memcpy(one, all + k * n, (size_t)n * sizeof *one);
    double *y = compute(op, 1, rows, columns, one, NULL);
    cr_expect_arr_eq(x + k * size, y, (size_t)size * sizeof *y, "%s: %lld", op,
                     (long long)k);
    free(y);
  }
  free(all), free(x);
}

Test(solver, computes_each_matrix_of_a_batch) {
  const int64_t m = EDGE, n = EDGE + 6;
  open_solver();
  expect_equal_parts("linalg.potri", m, m, m * m);
  expect_equal_parts("linalg.qr", n, m, n * m);
  expect_equal_parts("linalg.gelqf", m, n, m * n);
  expect_equal_parts("linalg.syevd", m, m, m * m);
  expect_equal_parts("linalg.svd", n, m, n * m);
  expect_equal_parts("linalg.svd", m, n, m * m);
}

/* a x = b. */
Test(solver, solves_batches_for_many_columns) {
  const int64_t n = EDGE, count = 3;
  double *a = draw_definite(count, n), *b = draw(count, n, n);
  open_solver();
  double *x = compute("linalg.solve", count, n, n, draw_definite(count, n),
                      draw(count, n, n));
  cr_expect_eq(count_calls(), 2);
  for (int64_t k = 0; k < count; ++k)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = -b[(k * n + i) * n + j];
        for (int64_t l = 0; l < n; ++l)
          sum += a[(k * n + i) * n + l] * x[(k * n + l) * n + j];
        cr_assert_lt(fabs(sum), 1e-10);
      }
  free(a), free(b), free(x);
}

/* ----------------------------------------------- matrices without a result */

static int is_nan(const double *v, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (v[i] == v[i]) return 0;
  return 1;
}

static int is_finite(const double *v, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(v[i])) return 0;
  return 1;
}

/* The second of three matrices gets `value` at its first element. */
static void expect_one_nan(const char *op, int64_t size, double value) {
  const int64_t n = EDGE;
  double *v = draw_definite(3, n);
  v[n * n] = value;
  double *x = compute(op, 3, n, n, v, NULL);
  cr_expect(is_finite(x, size), "%s", op);
  cr_expect(is_nan(x + size, size), "%s", op);
  cr_expect(is_finite(x + 2 * size, size), "%s", op);
  cr_expect_gt(count_calls(), 0);
  free(x);
}

Test(solver, gives_nan_for_a_matrix_that_is_not_definite) {
  open_solver();
  expect_one_nan("linalg.potrf", EDGE * EDGE, -1);
}

Test(solver, gives_nan_for_a_factor_with_a_zero) {
  open_solver();
  expect_one_nan("linalg.potri", EDGE * EDGE, 0);
}

Test(solver, gives_nan_for_matrices_that_are_not_finite) {
  static const char *const squares[] = {
      "linalg.cholesky", "linalg.potri", "linalg.inverse", "linalg.qr",
      "linalg.gelqf",    "linalg.syevd", "linalg.svd"};
  open_solver();
  for (size_t i = 0; i < sizeof squares / sizeof *squares; ++i)
    expect_one_nan(squares[i], EDGE * EDGE, (double)INFINITY);
  expect_one_nan("linalg.det", 1, (double)NAN);
  expect_one_nan("linalg.slogdet", 1, (double)NAN);
}

/* All elements of a singular matrix are 1. */
static void expect_singular(const char *op, int64_t size, double want) {
  const int64_t n = EDGE;
  double *v = draw_definite(2, n);
  for (int64_t i = 0; i < n * n; ++i) v[i] = 1;
  double *x = compute(op, 2, n, n, v, NULL);
  if (want == want)
    cr_expect_eq(x[0], want, "%s", op);
  else
    cr_expect(is_nan(x, size), "%s", op);
  cr_expect(is_finite(x + size, size), "%s", op);
  free(x);
}

Test(solver, gives_nan_or_0_for_a_singular_matrix) {
  open_solver();
  expect_singular("linalg.inverse", EDGE * EDGE, (double)NAN);
  expect_singular("linalg.det", 1, 0);
  expect_singular("linalg.slogdet", 1, 0);
  cr_expect_gt(count_calls(), 0);
}

/* ----------------------------------------------------------------- programs */

/* A program whose only result is output k of the operator. */
static tn_program *bind_output(const char *op, uint32_t k, uint32_t flags,
                               int64_t rows, int64_t columns) {
  const tn_sig sig = {TN_F64, 2, {rows, columns}};
  tn_graph *g = NULL;
  tn_entry x, out[MOST_OUT];
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "a", &sig, &x));
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .name = "n",
                                    .n_in = 1,
                                    .in = &x},
                   out));
  x = out[0];
  x.index = k;
  OK(tn_graph_heads_set(g, &x, 1));
  tn_program *p = bind_graph(g, flags);
  double *v = draw(1, rows, columns);
  OK(tn_array_set(find_array(p, TN_PROGRAM_ARGUMENT, "a"), v,
                  (size_t)(rows * columns) * sizeof *v));
  free(v);
  return p;
}

/* Compares the only output of a program with that of a call that has all. */
static void expect_alone(const char *op, uint32_t k, int64_t rows,
                         int64_t columns) {
  tn_program *p = bind_output(op, k, 0, rows, columns);
  tn_array *y = NULL, *out[MOST_OUT];
  int64_t n = 0;
  OK(tn_program_forward(p, 0));
  OK(tn_program_output(p, 0, &y));
  double *have = read_values(y, &n), *v = draw(1, rows, columns);
  tn_array *a = create("cuda(0)", 1, rows, columns, v);
  OK(call(op, a, NULL, out));
  double *want = read_values(out[k], &n);
  cr_expect_arr_eq(have, want, (size_t)n * sizeof *have, "%s %u", op, k);
  cr_expect_gt(count_calls(), 1);
  for (size_t i = 0; i < count_outputs(op); ++i) tn_array_release(out[i]);
  tn_array_release(a);
  free(have), free(want), free(v);
  tn_program_release(p);
}

Test(solver, computes_single_outputs) {
  open_solver();
  for (uint32_t k = 0; k < 2; ++k) {
    expect_alone("linalg.qr", k, EDGE + 6, EDGE);
    expect_alone("linalg.gelqf", k, EDGE, EDGE + 6);
    expect_alone("linalg.syevd", k, EDGE, EDGE);
  }
  for (uint32_t k = 0; k < 3; ++k) {
    expect_alone("linalg.svd", k, EDGE + 6, EDGE);
    expect_alone("linalg.svd", k, EDGE, EDGE + 6);
  }
}

/* Libraries of factorisations may not be recorded. The simulated ones notice
 * it. */
Test(solver, is_not_recorded) {
  open_solver();
  tn_program *p = bind_output("linalg.qr", 0, TN_BIND_CAPTURE, EDGE, EDGE);
  for (int i = 0; i < 3; ++i) OK(tn_program_forward(p, 0));
  expect_uncaptured(p, 0, "cusolver.qr.cuda");
  tn_program_release(p);
}

/* ------------------------------------------------- devices, threads, failures
 */

Test(solver, has_handles_for_each_device) {
  open_solver();
  double *v = draw_definite(1, EDGE);
  for (int i = 0; i < 4; ++i) {
    tn_array *a = create(i % 2 ? "cuda(1)" : "cuda(0)", 1, EDGE, EDGE, v);
    tn_array *out = NULL;
    OK(call("linalg.inverse", a, NULL, &out));
    tn_array_release(a), tn_array_release(out);
  }
  free(v);
  OK(tn_wait_all(fixture));
  cr_expect_eq(count_calls(), 8);
}

Test(solver, reports_a_failure_and_continues) {
  open_solver();
  double *v = draw_definite(1, EDGE);
  tn_array *a = create("cuda(0)", 1, EDGE, EDGE, v), *out = NULL;
  OK(call("linalg.cholesky", a, NULL, &out));
  tn_array_release(out);
  OK(tn_wait_all(fixture));
  fake_solver_fail(7);
  tn_code code = call("linalg.cholesky", a, NULL, &out);
  if (code == TN_OK) code = tn_array_wait(out);
  cr_expect_eq(code, TN_DEVICE);
  cr_expect_not_null(
      strstr(tn_error_text(), "a Cholesky factor: internal error"), "%s",
      tn_error_text());
  tn_array_release(out);
  OK(call("linalg.cholesky", a, NULL, &out));
  OK(tn_array_wait(out));
  tn_array_release(out), tn_array_release(a);
  free(v);
}
