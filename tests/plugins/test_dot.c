/* SPDX-License-Identifier: Apache-2.0
 * tensor.dot and tensor.batch_dot: values and gradients of torch
 * (tests/reference/tensor_reduce.py), sizes on both sides of where another
 * function multiplies, with OpenBLAS and without, shapes in both directions,
 * and messages about operands that do not fit.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"

/* A runtime with OpenBLAS, if there is one. */
static tn_runtime *open_with_blas(void) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

Test(dot, values_and_gradients_are_those_of_torch) {
  for (int blas = 0; blas < 2; ++blas) {
    tn_runtime *rt = blas ? open_with_blas() : host_open();
    cases_check(rt, "tensor.dot", 36);
    cases_check(rt, "tensor.batch_dot", 24);
    tn_runtime_release(rt);
  }
}

/* ------------------------------------------------------- against plain loops
 */

/* `count` products of (m,k) and (k,n). */
typedef struct extent {
  int64_t count;
  int64_t m;
  int64_t k;
  int64_t n;
} extent;

static const extent extents[] = {
    {1, 1, 1, 1},      {1, 1, 5000, 1},   {1, 300, 700, 1}, {1, 1, 700, 300},
    {1, 65, 63, 64},   {1, 64, 64, 65},   {1, 150, 90, 70}, {200, 3, 4, 5},
    {3, 70, 70, 70},   {7, 1, 33, 40},    {9, 40, 33, 1},   {1, 5, 0, 3},
    {33, 16, 300, 17}, {2, 321, 330, 321}};
enum { N_EXTENTS = sizeof extents / sizeof *extents };

/* Quarters from -1 to 1: every sum is exact in f32, in any order. */
static double quarters(int64_t i) {
  return floor(cases_noise(i) * 2) / 4;
}

/* Element (i, j) of matrix number c of rows x columns, or of its transpose. */
static double at(const double *v, int64_t c, const int64_t *dims, int turned,
                 int64_t i, int64_t j) {
  const int64_t row = turned ? j : i, column = turned ? i : j;
  return v[(c * dims[0] + row) * dims[1] + column];
}

static void check_extent(tn_runtime *rt, const extent *e, tn_dtype dtype, int a,
                         int b) {
  char params[64];
  const int64_t lhs[3] = {e->count, a ? e->k : e->m, a ? e->m : e->k};
  const int64_t rhs[3] = {e->count, b ? e->n : e->k, b ? e->k : e->n};
  const int batch = e->count > 1;
  (void)snprintf(params, sizeof params, "transpose_a=%s transpose_b=%s",
                 a ? "true" : "false", b ? "true" : "false");
  cases_call c = {.op = batch ? "tensor.batch_dot" : "tensor.dot",
                  .params = params,
                  .n_in = 2,
                  .n_out = 1};
  c.in[0] = cases_array(rt, dtype, batch ? 3 : 2, lhs + !batch, quarters);
  c.in[1] = cases_array(rt, dtype, batch ? 3 : 2, rhs + !batch, quarters);
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.in[1]);
  double *have = cases_values(c.out[0]);
  for (int64_t i = 0; i < e->count * e->m * e->n; ++i) {
    const int64_t number = i / e->n / e->m;
    double want = 0;
    for (int64_t p = 0; p < e->k; ++p)
      want += at(x, number, lhs + 1, a, i / e->n % e->m, p) *
              at(y, number, rhs + 1, b, p, i % e->n);
    cr_assert(have[i] == want, "%s %s (%lld: %lld,%lld,%lld): %g, not %g", c.op,
              params, (long long)e->count, (long long)e->m, (long long)e->k,
              (long long)e->n, have[i], want);
  }
  free(x), free(y), free(have);
  cases_release(&c);
}

Test(dot, products_of_every_size_are_those_of_plain_loops) {
  for (int blas = 0; blas < 2; ++blas) {
    tn_runtime *rt = blas ? open_with_blas() : host_open();
    for (int i = 0; i < N_EXTENTS; ++i)
      for (int how = 0; how < 4; ++how)
        check_extent(rt, &extents[i], how & 1 ? TN_F64 : TN_F32, how & 1,
                     how >> 1);
    tn_runtime_release(rt);
  }
}

static void make_batch(tn_runtime *rt, cases_call *c) {
  const int64_t lhs[3] = {50, 33, 40}, rhs[3] = {50, 40, 21};
  const int64_t out[3] = {50, 33, 21};
  *c = (cases_call){
      .op = "tensor.batch_dot", .params = "", .n_in = 2, .n_out = 1};
  c->in[0] = cases_array(rt, TN_F32, 3, lhs, cases_noise);
  c->in[1] = cases_array(rt, TN_F32, 3, rhs, cases_noise);
  c->heads[0] = cases_array(rt, TN_F32, 3, out, cases_noise);
  c->req[0] = c->req[1] = TN_REQ_WRITE;
}

static void make_column(tn_runtime *rt, cases_call *c) {
  const int64_t lhs[2] = {1300, 401};
  *c = (cases_call){.op = "tensor.dot", .params = "", .n_in = 2, .n_out = 1};
  c->in[0] = cases_array(rt, TN_F32, 2, lhs, cases_noise);
  c->in[1] = cases_array(rt, TN_F32, 1, lhs + 1, cases_noise);
  c->heads[0] = cases_array(rt, TN_F32, 1, lhs, cases_noise);
  c->req[0] = c->req[1] = TN_REQ_WRITE;
}

Test(dot, bits_do_not_depend_on_the_number_of_threads) {
  cases_same_for_all_threads(make_batch);
  cases_same_for_all_threads(make_column);
}

/* A gradient that is added to existing values, and one that is not requested.
 */
Test(dot, gradients_are_added_and_left_out_as_asked) {
  const double x[4] = {1, 2, 3, 4}, y[4] = {1, 0, 0, 1}, ones[4] = {1, 1, 1, 1};
  const double want[4] = {1 + 4, 1 + 4, 1 + 6, 1 + 6};
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  tn_runtime *rt = open_with_blas();
  for (int d = 0; d < 4; ++d) {
    const int64_t dims[2] = {2, 2};
    cases_call c = {.op = "tensor.dot", .params = "", .n_in = 2, .n_out = 1};
    c.in[0] = host_many(rt, dtypes[d], 2, dims, x);
    c.in[1] = host_many(rt, dtypes[d], 2, dims, y);
    c.heads[0] = host_many(rt, dtypes[d], 2, dims, ones);
    c.grads[1] = host_many(rt, dtypes[d], 2, dims, ones);
    c.req[1] = TN_REQ_ADD;
    cases_forward(rt, &c);
    cases_backward(rt, &c);
    host_expect(c.grads[1], want, 4, 0);
    cr_assert_null(c.grads[0]);
    cases_release(&c);
  }
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------- shapes
 */

/* The known types and shapes of both inputs and the output, before and after.
 */
typedef struct shape_case {
  const char *op;
  const char *params;
  host_shape before[3];
  host_shape after[3];
} shape_case;

static void infer_from(const shape_case *c, tn_operator *op, tn_params *params,
                       tn_sig *sigs, tn_code want) {
  for (int k = 0; k < 3; ++k) {
    sigs[k] = (tn_sig){.dtype = TN_F32, .ndim = c->before[k].ndim};
    for (int32_t d = 0; d < sigs[k].ndim; ++d)
      sigs[k].shape[d] = c->before[k].dims[d];
  }
  tn_signature io = {2, 1, 0, 0, sigs, &sigs[2], NULL};
  const tn_code code = tn_operator_infer(op, params, &io);
  cr_assert_eq(code, want, "%s %s: %s", c->op, c->params, tn_error_text());
}

static const shape_case shape_cases[] = {
    {"tensor.dot",
     "",
     {{2, {3, -1}}, {2, {4, -1}}, {2, {-1, 5}}},
     {{2, {3, 4}}, {2, {4, 5}}, {2, {3, 5}}}},
    {"tensor.dot",
     "transpose_a=true",
     {{3, {-1, 2, -1}}, {1, {7}}, {2, {-1, 4}}},
     {{3, {7, 2, 4}}, {1, {7}}, {2, {2, 4}}}},
    {"tensor.dot",
     "",
     {{1, {6}}, {1, {-1}}, {-1, {0}}},
     {{1, {6}}, {1, {6}}, {0, {0}}}},
    {"tensor.batch_dot",
     "transpose_b=true",
     {{3, {-1, 3, 4}}, {-1, {0}}, {3, {2, -1, 5}}},
     {{3, {2, 3, 4}}, {3, {2, 5, 4}}, {3, {2, 3, 5}}}},
    {"tensor.batch_dot",
     "",
     {{-1, {0}}, {4, {2, -1, 3, 4}}, {4, {-1, 6, 5, -1}}},
     {{4, {2, 6, 5, 3}}, {4, {2, 6, 3, 4}}, {4, {2, 6, 5, 4}}}},
};

Test(dot, known_dimensions_reach_all_shapes) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof shape_cases / sizeof *shape_cases; ++i) {
    const shape_case *c = &shape_cases[i];
    tn_operator *op = host_operator(rt, c->op);
    tn_params *params = host_params(op, c->params);
    tn_sig sigs[3];
    infer_from(c, op, params, sigs, TN_OK);
    for (int k = 0; k < 3; ++k) {
      cr_assert_eq(sigs[k].ndim, c->after[k].ndim, "case %zu, %d", i, k);
      for (int32_t d = 0; d < sigs[k].ndim; ++d)
        cr_assert_eq(sigs[k].shape[d], c->after[k].dims[d], "case %zu, %d", i,
                     k);
    }
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

Test(dot, an_output_of_another_shape_is_refused) {
  static const shape_case wrong[] = {
      {"tensor.dot", "", {{2, {3, 4}}, {2, {4, 5}}, {2, {2, 5}}}, {{0}}},
      {"tensor.dot", "", {{2, {3, 4}}, {2, {4, 5}}, {2, {3, 6}}}, {{0}}},
      {"tensor.dot", "", {{2, {3, 4}}, {2, {4, 5}}, {1, {15}}}, {{0}}},
      {"tensor.batch_dot",
       "",
       {{3, {2, 3, 4}}, {3, {2, 4, 5}}, {3, {1, 3, 5}}},
       {{0}}},
      {"tensor.batch_dot",
       "",
       {{3, {2, 3, 4}}, {3, {2, 4, 5}}, {3, {2, 3, 4}}},
       {{0}}}};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    tn_operator *op = host_operator(rt, wrong[i].op);
    tn_params *params = host_params(op, "");
    tn_sig sigs[3];
    infer_from(&wrong[i], op, params, sigs, TN_SHAPE);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

typedef struct mistake {
  const char *op;
  const char *params;
  host_shape in[2];
  const char *says;
} mistake;

static const mistake mistakes[] = {
    {"tensor.dot", "", {{2, {2, 3}}, {2, {2, 3}}}, "has length 3, that of"},
    {"tensor.dot", "", {{0, {0}}, {1, {3}}}, "`lhs` has no dimensions"},
    {"tensor.dot", "", {{1, {3}}, {0, {0}}}, "`rhs` has no dimensions"},
    {"tensor.batch_dot", "", {{1, {3}}, {1, {3}}}, "has 1 dimensions"},
    {"tensor.batch_dot", "", {{3, {2, 1, 1}}, {2, {1, 1}}}, "equally many"},
    {"tensor.batch_dot", "", {{3, {2, 1, 1}}, {3, {3, 1, 1}}}, "rhs"},
    {"tensor.batch_dot",
     "transpose_a=true",
     {{3, {2, 3, 4}}, {3, {2, 4, 3}}},
     "has length 3, that of `rhs` 4"},
};

Test(dot, operands_that_do_not_fit_are_refused_in_words) {
  const double zeros[HOST_MAX] = {0};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_operator *op = host_operator(rt, m->op);
    tn_params *params = host_params(op, m->params);
    tn_array *in[2] = {host_array(rt, TN_F32, m->in[0], zeros),
                       host_array(rt, TN_F32, m->in[1], zeros)};
    tn_array *out = NULL;
    FAILS(tn_call(rt, op, &(tn_inputs){2, in}, params, TN_OUT(&out)), TN_SHAPE,
          m->says);
    tn_array_release(in[0]), tn_array_release(in[1]);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}
