/* SPDX-License-Identifier: Apache-2.0
 * plugins/linalg: values and gradients of two orders of torch
 * (tests/reference/linalg.py), with OpenBLAS and without, in f64 and f32;
 * factors of matrices that are large enough for blocks. The same on another
 * device (LINALG_PLACE, with the plugins of LINALG_FILES), with options for the
 * kernels of plugins/cusolver (LINALG_SOLVER).
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "lapack.h"
#include "tenon/kernel_options.h"

enum { MOST = 3 }; /* inputs or outputs of an operator */

/* Operands with ndim -1 are absent. */
typedef struct linalg_case {
  const char *op;
  const char *params;
  size_t n_in;
  size_t n_out;
  size_t n_turns; /* first gradients that are differentiated again */
  host_operand in[MOST], out[MOST], heads[MOST], grads[MOST], turns[MOST],
      seconds[MOST];
} linalg_case;

static const linalg_case cases[] = {
#include "linalg_cases.inc"
};

static const char *find_place(void) {
  const char *place = getenv("LINALG_PLACE");
  return place && getenv("LINALG_FILES") ? place : "cpu";
}

static int is_on_cpu(void) {
  return strcmp(find_place(), "cpu") == 0;
}

/* Sets the options of all kernels of plugins/cusolver, which is loaded. */
static void tune_solver(tn_runtime *rt, const char *options) {
  static const char *const names[] = {
      "trmm",     "trmm_back", "trsm",    "trsm_back", "potrf",
      "cholesky", "potri",     "inverse", "det",       "solve",
      "slogdet",  "gelqf",     "qr",      "syevd",     "svd"};
  char op[40], kernel[40];
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    (void)snprintf(op, sizeof op, "linalg.%s", names[i]);
    (void)snprintf(kernel, sizeof kernel, "cusolver.%s.cuda", names[i]);
    OK(tn_operator_tune(host_operator(rt, op), kernel, options));
  }
}

/* A runtime with the plugin and those of its gradients. */
static tn_runtime *open_runtime(int has_openblas) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  if (!is_on_cpu()) host_load_all(rt, getenv("LINALG_FILES"));
  if (has_openblas) OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  OK(tn_plugin_load(rt, TENSOR_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  if (getenv("LINALG_SOLVER")) tune_solver(rt, getenv("LINALG_SOLVER"));
  return rt;
}

/* The array at another place. Takes `array`. */
static tn_array *move_to(tn_runtime *rt, tn_array *array, const char *place) {
  tn_array *moved = NULL;
  tn_place at;
  OK(tn_place_parse(rt, place, &at));
  OK(tn_array_to(array, at, &moved));
  tn_array_release(array);
  return moved;
}

/* A copy on the CPU. */
static tn_array *fetch(tn_array *array) {
  tn_array *copy = NULL;
  OK(tn_array_to(array, (tn_place){TN_DEVICE_CPU, 0}, &copy));
  return copy;
}

static int needs_lapack(const char *op) {
  static const char *const names[] = {"linalg.gelqf", "linalg.qr",
                                      "linalg.syevd", "linalg.svd"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(op, names[i]) == 0) return 1;
  return 0;
}

/* ------------------------------------------------------- values, gradients */

typedef struct precision {
  tn_dtype dtype;
  double tolerance;
} precision;

static void expect_values(tn_array *array, const host_operand *want,
                          const linalg_case *c, double tolerance) {
  tn_array *near = fetch(array);
  double v[HOST_MAX];
  host_expect_shape(array, &want->shape, c->op, c->params);
  const int64_t n = host_values(near, v);
  tn_array_release(near);
  for (int64_t i = 0; i < n; ++i)
    cr_assert(fabs(v[i] - want->v[i]) <= tolerance * fmax(1, fabs(want->v[i])),
              "%s %s: element %lld is %.17g, not %.17g", c->op, c->params,
              (long long)i, v[i], want->v[i]);
}

static void make_arrays(tn_runtime *rt, const host_operand *list, size_t n,
                        tn_dtype dtype, tn_array **to) {
  for (size_t i = 0; i < n; ++i)
    to[i] = move_to(rt, host_array(rt, dtype, list[i].shape, list[i].v),
                    find_place());
}

static void release_arrays(tn_array **arrays, size_t n) {
  for (size_t i = 0; i < n; ++i) tn_array_release(arrays[i]);
}

typedef struct query {
  size_t n_heads;
  tn_array **heads;
  tn_array **weights;
  size_t n;
  tn_array **of;
  uint32_t flags;
} query;

static void find_gradients(tn_tape *tape, const query *q, tn_array **to) {
  OK(tn_tape_gradient(
      tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                             .flags = q->flags,
                             .heads = {q->n_heads, q->heads},
                             .head_gradients = {q->n_heads, q->weights},
                             .of = {q->n, q->of},
                             .gradients = {q->n, to, NULL}}));
}

static void check_second(tn_runtime *rt, tn_tape *tape, const linalg_case *c,
                         tn_array **in, tn_array **grads, const precision *p) {
  tn_array *turns[MOST] = {NULL}, *seconds[MOST] = {NULL};
  make_arrays(rt, c->turns, c->n_turns, p->dtype, turns);
  find_gradients(tape,
                 &(query){.n_heads = c->n_turns,
                          .heads = grads,
                          .weights = turns,
                          .n = c->n_turns,
                          .of = in},
                 seconds);
  for (size_t i = 0; i < c->n_turns; ++i)
    expect_values(seconds[i], &c->seconds[i], c, 50 * p->tolerance);
  release_arrays(turns, MOST);
  release_arrays(seconds, MOST);
}

static void check_case(tn_runtime *rt, const linalg_case *c,
                       const precision *p) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[MOST] = {NULL}, *out[MOST] = {NULL};
  tn_array *heads[MOST] = {NULL}, *grads[MOST] = {NULL};
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  make_arrays(rt, c->in, c->n_in, p->dtype, in);
  make_arrays(rt, c->heads, c->n_out, p->dtype, heads);
  for (size_t i = 0; i < c->n_in; ++i) OK(tn_tape_watch(tape, in[i]));
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params,
                  &(tn_outputs){c->n_out, out, NULL}));
  for (size_t i = 0; i < c->n_out; ++i)
    expect_values(out[i], &c->out[i], c, p->tolerance);
  find_gradients(tape,
                 &(query){.n_heads = c->n_out,
                          .heads = out,
                          .weights = heads,
                          .n = c->n_in,
                          .of = in,
                          .flags = TN_TAPE_RECORD},
                 grads);
  for (size_t i = 0; i < c->n_in; ++i)
    expect_values(grads[i], &c->grads[i], c, 10 * p->tolerance);
  if (c->n_turns > 0) check_second(rt, tape, c, in, grads, p);
  tn_tape_release(tape);
  tn_params_release(params);
  release_arrays(in, MOST), release_arrays(out, MOST);
  release_arrays(heads, MOST), release_arrays(grads, MOST);
}

/* Whether the operator has a kernel in this test. */
static int is_available(const char *op, int has_openblas) {
  return !is_on_cpu() || has_openblas || !needs_lapack(op);
}

static void check_all(int has_openblas) {
  static const precision types[] = {{TN_F64, 1e-11}, {TN_F32, 2e-4}};
  tn_runtime *rt = open_runtime(has_openblas);
  const bool has_all = has_openblas && has_lapack(rt);
  int n = 0;
  if (has_openblas && !has_all) puts("# without LAPACK: four operators less");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (!is_available(cases[i].op, has_all)) continue;
    check_case(rt, &cases[i], &types[0]);
    check_case(rt, &cases[i], &types[1]);
    ++n;
  }
  cr_assert_geq(n, 40);
  tn_runtime_release(rt);
}

Test(linalg, values_and_gradients_are_those_of_torch) {
  check_all(1);
}

Test(linalg, small_matrices_need_no_openblas) {
  check_all(0);
}

/* ----------------------------------------------------------- single outputs */

/* The gradient of the sum of output k alone, with respect to a matrix of 2 x
 * 2. */
static void expect_gradient(tn_runtime *rt, const char *name, size_t k,
                            const double *a, const double *want) {
  const size_t n_out = strcmp(name, "linalg.svd") == 0 ? 3 : 2;
  const host_shape square = {2, {2, 2}};
  tn_array *x = move_to(rt, host_array(rt, TN_F64, square, a), find_place());
  tn_array *out[MOST] = {NULL}, *ones = NULL, *gradient = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_call(tape, host_operator(rt, name), TN_IN(x), NULL,
                  &(tn_outputs){n_out, out, NULL}));
  OK(tn_call(rt, host_operator(rt, "elemwise.ones_like"), TN_IN(out[k]), NULL,
             TN_OUT(&ones)));
  find_gradients(
      tape,
      &(query){
          .n_heads = 1, .heads = &out[k], .weights = &ones, .n = 1, .of = &x},
      &gradient);
  tn_array *near = fetch(gradient);
  host_expect(near, want, 4, 1e-12);
  tn_tape_release(tape);
  tn_array_release(near), tn_array_release(gradient), tn_array_release(ones);
  tn_array_release(x), release_arrays(out, MOST);
}

/* Unlike those of vectors. Expected values: u * vt, I, and a^-T. */
Test(linalg, gradients_of_values_are_finite_where_values_are_equal) {
  tn_runtime *rt = open_runtime(1);
  if (is_on_cpu() && !has_lapack(rt))
    cr_skip_test("there is no OpenBLAS with LAPACK");
  const double diagonal[] = {3, 0, 0, -2}, one[] = {1, 0, 0, 1};
  const double swap[] = {0, 1, 1, 0}, signs[] = {1, 0, 0, -1};
  const double twice[] = {2, 0, 0, 2}, half[] = {0.5, 0, 0, 0.5};
  expect_gradient(rt, "linalg.svd", 1, diagonal, signs);
  expect_gradient(rt, "linalg.svd", 1, one, one);
  expect_gradient(rt, "linalg.svd", 1, swap, swap);
  expect_gradient(rt, "linalg.syevd", 1, twice, one);
  expect_gradient(rt, "linalg.slogdet", 1, twice, half);
  tn_runtime_release(rt);
}

/* ---------------------------------------------------------- large matrices */

/* x (m x k) times y (k x n). The caller frees it. */
static double *multiply(const double *x, const double *y, int64_t m, int64_t k,
                        int64_t n) {
  double *z = calloc((size_t)(m * n) + 1, sizeof *z);
  cr_assert_not_null(z);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        z[i * n + j] += x[i * k + l] * y[l * n + j];
  return z;
}

static double *transpose(const double *x, int64_t rows, int64_t columns) {
  double *y = calloc((size_t)(rows * columns) + 1, sizeof *y);
  cr_assert_not_null(y);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
  return y;
}

static void expect_near(const double *x, const double *y, int64_t n,
                        double tolerance, const char *op) {
  for (int64_t i = 0; i < n; ++i)
    cr_assert(fabs(x[i] - y[i]) <= tolerance, "%s: element %lld is %g, not %g",
              op, (long long)i, x[i], y[i]);
}

/* x^T x, for x (m x n). */
static double *multiply_transposed(const double *x, int64_t m, int64_t n) {
  double *t = transpose(x, m, n), *z = multiply(t, x, n, m, n);
  free(t);
  return z;
}

static void expect_identity(const double *x, int64_t n, double tolerance,
                            const char *name) {
  for (int64_t i = 0; i < n * n; ++i)
    cr_assert(fabs(x[i] - (i % (n + 1) == 0)) <= tolerance, "%s: %lld is %g",
              name, (long long)i, x[i]);
}

enum { LARGE = 150, SHORT = 90 };

typedef struct large_call {
  tn_runtime *rt;
  const char *op;
  double tolerance;
  tn_dtype dtype;
} large_call;

/* Calls an operator with a matrix; the caller frees the n_out results. */
static void call_large(const large_call *x, const double *a,
                       const int64_t *dims, double **out, size_t n_out) {
  tn_array *in =
      move_to(x->rt, host_many(x->rt, x->dtype, 2, dims, a), find_place());
  tn_array *made[MOST] = {NULL};
  OK(tn_call(x->rt, host_operator(x->rt, x->op), TN_IN(in), NULL,
             &(tn_outputs){n_out, made, NULL}));
  for (size_t i = 0; i < n_out; ++i) {
    tn_array *near = fetch(made[i]);
    out[i] = host_many_values(near);
    tn_array_release(near);
  }
  tn_array_release(in), release_arrays(made, MOST);
}

/* The same for another operator; valid until the next call. */
static const large_call *with_operator(const large_call *x, const char *op) {
  static large_call other;
  other = *x;
  other.op = op;
  return &other;
}

/* A matrix (rows x columns) of drawn numbers, twice the identity added. */
static double *draw_matrix(int64_t rows, int64_t columns) {
  double *a = host_draw(rows * columns, 11);
  for (int64_t i = 0; i < rows && i < columns; ++i) a[i * columns + i] += 2;
  return a;
}

static void check_cholesky(const large_call *x) {
  const int64_t n = LARGE, dims[] = {n, n};
  double *b = draw_matrix(n, n), *a = multiply_transposed(b, n, n), *l[1];
  for (int64_t i = 0; i < n; ++i) a[i * n + i] += 1;
  call_large(with_operator(x, "linalg.potrf"), a, dims, l, 1);
  double *t = transpose(l[0], n, n), *again = multiply(l[0], t, n, n, n);
  expect_near(again, a, n * n, x->tolerance * LARGE, "potrf");
  double *inverse[1];
  call_large(with_operator(x, "linalg.potri"), l[0], dims, inverse, 1);
  double *one = multiply(inverse[0], a, n, n, n);
  expect_identity(one, n, x->tolerance * LARGE * LARGE, "potri");
  free(a), free(b), free(l[0]), free(t), free(again), free(inverse[0]);
  free(one);
}

static void check_inverse(const large_call *x) {
  const int64_t n = LARGE, dims[] = {n, n};
  double *a = draw_matrix(n, n), *inverse[1], *parts[2];
  for (int64_t i = 0; i < n; ++i) a[i * n + i] += 30;
  call_large(with_operator(x, "linalg.inverse"), a, dims, inverse, 1);
  double *one = multiply(a, inverse[0], n, n, n);
  expect_identity(one, n, x->tolerance * LARGE, "inverse");
  call_large(with_operator(x, "linalg.slogdet"), a, dims, parts, 2);
  double *rest[2];
  call_large(with_operator(x, "linalg.slogdet"), inverse[0], dims, rest, 2);
  cr_assert_float_eq(parts[0][0], rest[0][0], 0);
  cr_assert_float_eq(parts[1][0], -rest[1][0], x->tolerance * LARGE);
  free(a), free(inverse[0]), free(one), free(parts[0]), free(parts[1]);
  free(rest[0]), free(rest[1]);
}

static void check_orthogonal(const large_call *x) {
  const int64_t m = SHORT, n = LARGE;
  double *a = draw_matrix(m, n), *tall = transpose(a, m, n), *lq[2], *qr[2];
  call_large(with_operator(x, "linalg.gelqf"), a, (int64_t[]){m, n}, lq, 2);
  call_large(with_operator(x, "linalg.qr"), tall, (int64_t[]){n, m}, qr, 2);
  double *wide = multiply(lq[1], lq[0], m, m, n);
  double *high = multiply(qr[0], qr[1], n, m, m);
  double *columns = transpose(lq[0], m, n);
  double *q = multiply_transposed(columns, n, m);
  double *r = multiply_transposed(qr[0], n, m);
  expect_near(wide, a, m * n, x->tolerance * LARGE, "gelqf");
  expect_near(high, tall, m * n, x->tolerance * LARGE, "qr");
  expect_identity(q, m, x->tolerance * LARGE, "rows of q");
  expect_identity(r, m, x->tolerance * LARGE, "columns of q");
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = i + 1; j < m; ++j) {
      cr_assert_float_eq(lq[1][i * m + j], 0, 0);
      cr_assert_float_eq(qr[1][j * m + i], 0, 0);
    }
  free(a), free(tall), free(lq[0]), free(lq[1]), free(qr[0]), free(qr[1]);
  free(wide), free(high), free(columns), free(q), free(r);
}

static void check_eigen(const large_call *x, int64_t n) {
  const int64_t dims[] = {n, n};
  double *b = draw_matrix(n, n), *t = transpose(b, n, n), *found[2];
  for (int64_t i = 0; i < n * n; ++i) b[i] += t[i];
  call_large(with_operator(x, "linalg.syevd"), b, dims, found, 2);
  double *columns = transpose(found[0], n, n);
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) cr_assert_leq(found[1][i - 1], found[1][i]);
    for (int64_t j = 0; j < n; ++j) found[0][i * n + j] *= found[1][i];
  }
  double *again = multiply(columns, found[0], n, n, n);
  double *one = multiply_transposed(columns, n, n);
  expect_near(again, b, n * n, x->tolerance * LARGE, "syevd");
  expect_identity(one, n, x->tolerance * LARGE, "rows of u");
  free(b), free(t), free(found[0]), free(found[1]), free(columns);
  free(again), free(one);
}

/* Takes a (m x n). */
static void check_factors(const large_call *x, double *a, int64_t m,
                          int64_t n) {
  const int64_t k = m < n ? m : n;
  double *found[3];
  call_large(with_operator(x, "linalg.svd"), a, (int64_t[]){m, n}, found, 3);
  double *one = multiply_transposed(found[0], m, k);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) found[0][i * k + j] *= found[1][j];
  double *again = multiply(found[0], found[2], m, k, n);
  expect_near(again, a, m * n, x->tolerance * LARGE, "svd");
  expect_identity(one, k, x->tolerance * LARGE, "columns of u");
  for (int64_t j = 0; j < k; ++j)
    cr_assert(found[1][j] >= (j + 1 < k ? found[1][j + 1] : 0));
  free(a), free(one), free(again);
  free(found[0]), free(found[1]), free(found[2]);
}

static void check_svd(const large_call *x, int64_t m, int64_t n) {
  check_factors(x, draw_matrix(m, n), m, n);
}

/* Matrices of rank 0 and 1 have vectors for singular values of 0 too. */
static void check_low_rank(const large_call *x) {
  enum { M = 7, N = 5 };
  for (int64_t rank = 0; rank < 2; ++rank) {
    double *high = calloc(M * N, sizeof *high);
    double *wide = calloc(M * N, sizeof *wide);
    cr_assert(high && wide);
    for (int64_t i = 0; i < M * N; ++i)
      high[i] = wide[i] = (double)(rank * (i / N + 1));
    check_factors(x, high, M, N);
    check_factors(x, wide, N, M);
  }
}

static void check_large(int has_openblas, tn_dtype dtype, double tolerance) {
  tn_runtime *rt = open_runtime(has_openblas);
  const large_call x = {.rt = rt, .dtype = dtype, .tolerance = tolerance};
  check_cholesky(&x);
  check_inverse(&x);
  if ((has_openblas && has_lapack(rt)) || !is_on_cpu()) {
    const int64_t n = is_on_cpu() ? LARGE : 31; /* a simulated GPU is slow */
    check_orthogonal(&x);
    check_eigen(&x, n);
    check_svd(&x, n, n / 2);
    check_svd(&x, n / 2, n);
    check_svd(&x, n, n);
    check_low_rank(&x);
  }
  tn_runtime_release(rt);
}

Test(linalg, factors_of_large_matrices_multiply_to_them) {
  check_large(1, TN_F64, 1e-12);
  check_large(1, TN_F32, 1e-4);
  check_large(0, TN_F64, 1e-12);
}

/* --------------------------------------------------------- on other devices */

/* Expects NaN in the results of a matrix of 2 x 2 that begins with 1, 2. */
static void expect_nan(const large_call *x, double third, double fourth,
                       size_t n_out) {
  const double a[] = {1, 2, third, fourth};
  double *found[MOST];
  call_large(x, a, (int64_t[]){2, 2}, found, n_out);
  for (size_t k = 0; k < n_out; ++k) {
    cr_assert(isnan(found[k][0]), "%s gave %g", x->op, found[k][0]);
    free(found[k]);
  }
}

/* The host does not wait for the device there, so it cannot report an error. */
Test(linalg, a_matrix_without_a_result_gives_nan_on_a_device) {
  if (is_on_cpu()) cr_skip_test("LINALG_PLACE and LINALG_FILES name no device");
  tn_runtime *rt = open_runtime(0);
  const large_call x = {.rt = rt, .dtype = TN_F64};
  expect_nan(with_operator(&x, "linalg.potrf"), 2, 1, 1);
  expect_nan(with_operator(&x, "linalg.cholesky"), NAN, 9, 1);
  expect_nan(with_operator(&x, "linalg.potri"), 3, 0, 1);
  expect_nan(with_operator(&x, "linalg.inverse"), 2, 4, 1);
  expect_nan(with_operator(&x, "linalg.inverse"), 5, INFINITY, 1);
  expect_nan(with_operator(&x, "linalg.det"), NAN, 4, 1);
  expect_nan(with_operator(&x, "linalg.slogdet"), INFINITY, 4, 2);
  expect_nan(with_operator(&x, "linalg.qr"), 5, NAN, 2);
  expect_nan(with_operator(&x, "linalg.syevd"), NAN, 5, 2);
  expect_nan(with_operator(&x, "linalg.svd"), 5, INFINITY, 3);
  expect_nan(with_operator(&x, "linalg.gelqf"), 5, -INFINITY, 2);
  tn_runtime_release(rt);
}
