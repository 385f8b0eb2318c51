/* SPDX-License-Identifier: Apache-2.0
 * nn.embedding: rows that indices of every type choose, gradients that are sums
 * over repeated ones, and indices that are none.
 */
#include <stdlib.h>

#include "cases.h"

enum { ROWS = 700, LENGTH = 130, N = 3000 };

static double index_of(int64_t i) {
  return (double)(i * i % 97 * 7); /* few of the rows, each many times */
}

static void fill(tn_runtime *rt, cases_call *c, tn_dtype index,
                 tn_dtype dtype) {
  const int64_t at[2] = {N / 3, 3}, weight[2] = {ROWS, LENGTH};
  const int64_t head[3] = {N / 3, 3, LENGTH};
  *c = (cases_call){.op = "nn.embedding",
                    .params = "input_dim=700 output_dim=130",
                    .n_in = 2,
                    .n_out = 1};
  c->in[0] = cases_array(rt, index, 2, at, index_of);
  c->in[1] = cases_array(rt, dtype, 2, weight, cases_noise);
  c->heads[0] = cases_array(rt, dtype, 3, head, cases_noise);
  c->req[1] = TN_REQ_WRITE;
}

/* Sums of at most so many numbers below 2, each rounded once. */
static void check(tn_dtype index, tn_dtype dtype, double tolerance) {
  tn_runtime *rt = host_open();
  cases_call c;
  fill(rt, &c, index, dtype);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *w = cases_values(c.in[1]), *y = cases_values(c.out[0]);
  double *g = cases_values(c.heads[0]), *slope = cases_values(c.grads[1]);
  double *want = calloc(ROWS * LENGTH, sizeof *want);
  cr_assert_not_null(want);
  for (int64_t i = 0; i < N; ++i)
    for (int64_t k = 0; k < LENGTH; ++k) {
      const int64_t row = (int64_t)index_of(i);
      cr_assert_eq(y[i * LENGTH + k], w[row * LENGTH + k]);
      want[row * LENGTH + k] += g[i * LENGTH + k];
    }
  for (int64_t i = 0; i < ROWS * LENGTH; ++i)
    cr_assert(fabs(slope[i] - want[i]) <= tolerance * fmax(1, fabs(want[i])),
              "%lld: %g, not %g", (long long)i, slope[i], want[i]);
  free(w), free(y), free(g), free(slope), free(want);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(embedding, rows_are_copied_and_gradients_of_repeated_ones_summed) {
  check(TN_I64, TN_F32, 1e-5);
  check(TN_I32, TN_F64, 1e-14);
  check(TN_F32, TN_F16, 1e-3);
  check(TN_F64, TN_BF16, 8e-3);
}

/* Existing values stay, and so do rows that were not selected. */
Test(embedding, gradients_are_added_where_they_belong) {
  tn_runtime *rt = host_open();
  cases_call c;
  fill(rt, &c, TN_I64, TN_F32);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *once = cases_values(c.grads[1]);
  c.req[1] = TN_REQ_ADD;
  cases_backward(rt, &c);
  double *twice = cases_values(c.grads[1]);
  for (int64_t i = 0; i < ROWS * LENGTH; ++i)
    cr_assert(fabs(twice[i] - 2 * once[i]) < 2e-5 * fmax(1, fabs(once[i])));
  free(once), free(twice);
  cases_release(&c);
  tn_runtime_release(rt);
}

static void make(tn_runtime *rt, cases_call *c) {
  fill(rt, c, TN_I64, TN_F32);
}

Test(embedding, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make);
}

Test(embedding, fractions_of_indices_do_not_count) {
  const double index[4] = {1.75, 0, -0.5, 2.999}, weight[3] = {10, 20, 30};
  tn_runtime *rt = host_open();
  cases_call c = {.op = "nn.embedding",
                  .params = "input_dim=3 output_dim=1",
                  .n_in = 2,
                  .n_out = 1};
  c.in[0] = host_array(rt, TN_F32, (host_shape){1, {4}}, index);
  c.in[1] = host_array(rt, TN_F32, (host_shape){2, {3, 1}}, weight);
  cases_forward(rt, &c);
  host_expect(c.out[0], (double[]){20, 10, 10, 30}, 4, 0);
  cases_release(&c);
  tn_runtime_release(rt);
}

static void refuse(tn_runtime *rt, tn_dtype dtype, double bad,
                   const char *text) {
  const double index[3] = {1, bad, 0}, weight[3] = {10, 20, 30};
  tn_operator *op = host_operator(rt, "nn.embedding");
  tn_params *params = host_params(op, "input_dim=3 output_dim=1");
  tn_array *wide = host_array(rt, TN_F64, (host_shape){1, {3}}, index);
  tn_array *rows = host_array(rt, TN_F32, (host_shape){2, {3, 1}}, weight);
  tn_array *at = NULL, *out = NULL;
  OK(tn_array_cast(wide, dtype, &at));
  tn_code rc = tn_call(rt, op, TN_IN(at, rows), params, TN_OUT(&out));
  if (rc == TN_OK) rc = tn_array_wait(out);
  FAILS(rc, TN_OUT_OF_RANGE, text);
  tn_array_release(wide), tn_array_release(at);
  tn_array_release(rows), tn_array_release(out);
  tn_params_release(params);
}

Test(embedding, an_index_of_no_row_is_named) {
  tn_runtime *rt = host_open();
  refuse(rt, TN_I64, 3,
         "element 1 of `data` is 3, but `weight` has the rows 0 to 2");
  refuse(rt, TN_I32, -1, "element 1 of `data` is -1");
  refuse(rt, TN_I32, 123456789, "is 123456789, but");
  refuse(rt, TN_I64, 0x1p62, "is 4611686018427387904, but");
  refuse(rt, TN_F32, 1.5e9, "is 1.5e+09, but");
  refuse(rt, TN_F32, NAN, "nan");
  refuse(rt, TN_F64, INFINITY, "inf");
  tn_runtime_release(rt);
}

Test(embedding, of_no_indices_the_gradient_is_zero) {
  const int64_t none[1] = {0}, heads[2] = {0, 2};
  tn_runtime *rt = host_open();
  cases_call c = {.op = "nn.embedding",
                  .params = "input_dim=3 output_dim=2",
                  .n_in = 2,
                  .n_out = 1};
  c.in[0] = cases_array(rt, TN_I32, 1, none, cases_noise);
  c.in[1] = cases_array(rt, TN_F32, 2, (const int64_t[]){3, 2}, cases_noise);
  c.heads[0] = cases_array(rt, TN_F32, 2, heads, cases_noise);
  c.req[1] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  host_expect(c.grads[1], (double[]){0, 0, 0, 0, 0, 0}, 6, 0);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(embedding, a_matrix_of_another_shape_is_refused) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.embedding");
  tn_params *params = host_params(op, "input_dim=3 output_dim=2"), *none = NULL;
  tn_sig in[2] = {{TN_I32, 1, {5}}, {TN_F32, 2, {4, 2}}};
  tn_sig out = {.ndim = -1};
  FAILS(tn_operator_infer(op, params,
                          &(tn_signature){2, 1, 0, 0, in, &out, NULL}),
        TN_SHAPE, "weight");
  in[1] = (tn_sig){.ndim = -1, .dtype = TN_F32};
  OK(tn_operator_infer(op, params,
                       &(tn_signature){2, 1, 0, 0, in, &out, NULL}));
  cr_assert_eq(in[1].shape[0], 3);
  cr_assert_eq(out.shape[1], 2);
  FAILS(tn_params_parse(op, "input_dim=3", &none), TN_INVALID, "output_dim");
  FAILS(tn_params_parse(op, "input_dim=0 output_dim=1", &none), TN_OUT_OF_RANGE,
        "input_dim");
  tn_params_release(params);
  tn_runtime_release(rt);
}

/* 17 MB of rows, which no cache holds beside the table. */
Test(embedding, many_rows_are_copied) {
  const int64_t n = 8200, length = 521, weight[2] = {700, length};
  tn_runtime *rt = host_open();
  cases_call c = {.op = "nn.embedding",
                  .params = "input_dim=700 output_dim=521",
                  .n_in = 2,
                  .n_out = 1};
  c.in[0] = cases_array(rt, TN_I32, 1, &n, index_of);
  c.in[1] = cases_array(rt, TN_F32, 2, weight, cases_noise);
  cases_forward(rt, &c);
  double *w = cases_values(c.in[1]), *y = cases_values(c.out[0]);
  for (int64_t i = 0; i < n * length; ++i)
    cr_assert_eq(y[i], w[(int64_t)index_of(i / length) * length + i % length]);
  free(w), free(y);
  cases_release(&c);
  tn_runtime_release(rt);
}

/* One of three rows twice. */
static double some_rows(int64_t i) {
  return i == 1 ? 9000 : 7;
}

/* 36 MB of gradient, of which two rows are not zero; rows begin anywhere in
 * lines of the caches. */
static void check_large(uint64_t mask, int64_t length, const char *params) {
  const int64_t at[1] = {3}, weight[2] = {9001, length}, head[2] = {3, length};
  const tn_options options = {
      .struct_size = sizeof options, .workers = 2, .cpu_mask = mask};
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  cases_call c = {
      .op = "nn.embedding", .params = params, .n_in = 2, .n_out = 1};
  c.in[0] = cases_array(rt, TN_I32, 1, at, some_rows);
  c.in[1] = cases_array(rt, TN_F32, 2, weight, cases_noise);
  c.heads[0] = cases_array(rt, TN_F32, 2, head, cases_noise);
  c.grads[1] = cases_array(rt, TN_F32, 2, weight, cases_noise);
  c.req[1] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *g = cases_values(c.heads[0]), *slope = cases_values(c.grads[1]);
  for (int64_t i = 0; i < 9001 * length; ++i) {
    const int64_t row = i / length, k = i % length;
    const double both = (float)(g[k] + g[2 * length + k]);
    const double want = row == 7 ? both : row == 9000 ? g[length + k] : 0;
    cr_assert_eq(slope[i], want, "%lld: %g", (long long)i, slope[i]);
  }
  free(g), free(slope);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(embedding, rows_of_large_gradients_that_nobody_chose_are_zero) {
  check_large(0, 1001, "input_dim=9001 output_dim=1001");
  check_large(0, 1008, "input_dim=9001 output_dim=1008");
  check_large(TN_CPU_AVX512, 1001, "input_dim=9001 output_dim=1001");
}
