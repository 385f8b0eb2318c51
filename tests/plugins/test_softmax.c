/* SPDX-License-Identifier: Apache-2.0
 * nn.softmax and nn.log_softmax: NumPy's values, lines of every length, numbers
 * that are no numbers, and parameters that cannot be.
 */
#include <stdlib.h>

#include "cases.h"

Test(softmax, values_and_gradients_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  cases_check(rt, "nn.softmax", 6);
  cases_check(rt, "nn.log_softmax", 6);
  tn_runtime_release(rt);
}

/* Rows and columns of one to many vectors, with rests. */
static void check_lines(tn_runtime *rt, tn_dtype dtype, const int64_t dims[3]) {
  const int64_t length = dims[1], inner = dims[2];
  cases_call plain = {
      .op = "nn.softmax", .params = "axis=1", .n_in = 1, .n_out = 1};
  cases_call logs = {
      .op = "nn.log_softmax", .params = "axis=1", .n_in = 1, .n_out = 1};
  plain.in[0] = cases_array(rt, dtype, 3, dims, cases_noise);
  logs.in[0] = tn_array_retain(plain.in[0]);
  cases_forward(rt, &plain);
  cases_forward(rt, &logs);
  double *x = cases_values(plain.in[0]), *p = cases_values(plain.out[0]);
  double *l = cases_values(logs.out[0]);
  for (int64_t i = 0; i < dims[0] * inner; ++i) {
    const int64_t at = i / inner * length * inner + i % inner;
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += exp(x[at + k * inner]);
    for (int64_t k = 0; k<length; k += length> 10000 ? 997 : 1) {
      const double want = exp(x[at + k * inner]) / sum;
      cr_assert(fabs(p[at + k * inner] - want) < 2e-6 * want,
                "%lld of %lld: %.9g, not %.9g", (long long)k, (long long)length,
                p[at + k * inner], want);
      cr_assert(fabs(l[at + k * inner] - log(want)) <
                4e-6 * fabs(log(want)) + 1e-7);
    }
  }
  free(x), free(p), free(l);
  cases_release(&plain), cases_release(&logs);
}

/* Sums of a million f32 in f32 are off by 7e-5. */
Test(softmax, long_lines_lose_no_digits) {
  tn_runtime *rt = host_open();
  check_lines(rt, TN_F32, (int64_t[]){1, 1000000, 1});
  check_lines(rt, TN_F32, (int64_t[]){1, 300000, 3});
  tn_runtime_release(rt);
}

Test(softmax, lines_of_every_length_sum_to_one) {
  static const int64_t lengths[] = {1, 2, 15, 16, 31, 33, 64, 100, 257, 1500};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    check_lines(rt, TN_F32, (int64_t[]){3, lengths[i], 1});
    check_lines(rt, TN_F32, (int64_t[]){3, lengths[i], 7});
    check_lines(rt, TN_F64, (int64_t[]){3, lengths[i], 1});
  }
  check_lines(rt, TN_F32, (int64_t[]){3, 3, 600});
  tn_runtime_release(rt);
}

/* Rows that fill lines of the cache, and rows that do not. */
Test(softmax, rows_larger_than_caches_sum_to_one) {
  tn_runtime *rt = host_open();
  check_lines(rt, TN_F32, (int64_t[]){66001, 64, 1});
  check_lines(rt, TN_F32, (int64_t[]){4201, 1001, 1});
  check_lines(rt, TN_F64, (int64_t[]){1101, 2048, 1});
  tn_runtime_release(rt);
}

static void make_rows(tn_runtime *rt, cases_call *c) {
  const int64_t dims[2] = {700, 301};
  *c = (cases_call){
      .op = "nn.softmax", .params = "temperature=3", .n_in = 1, .n_out = 1};
  c->in[0] = cases_array(rt, TN_F32, 2, dims, cases_noise);
  c->heads[0] = cases_array(rt, TN_F32, 2, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

static void make_columns(tn_runtime *rt, cases_call *c) {
  const int64_t dims[3] = {9, 30, 500};
  *c = (cases_call){
      .op = "nn.log_softmax", .params = "axis=1", .n_in = 1, .n_out = 1};
  c->in[0] = cases_array(rt, TN_BF16, 3, dims, cases_noise);
  c->heads[0] = cases_array(rt, TN_BF16, 3, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

/* No cache holds the operands of its gradient. */
static void make_large(tn_runtime *rt, cases_call *c) {
  const int64_t dims[2] = {45000, 64};
  *c = (cases_call){
      .op = "nn.softmax", .params = "temperature=0.5", .n_in = 1, .n_out = 1};
  c->in[0] = cases_array(rt, TN_F32, 2, dims, cases_noise);
  c->heads[0] = cases_array(rt, TN_F32, 2, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

static void make_large_logs(tn_runtime *rt, cases_call *c) {
  const int64_t dims[2] = {67000, 64};
  *c = (cases_call){.op = "nn.log_softmax", .n_in = 1, .n_out = 1};
  c->params = "temperature=0.5";
  c->in[0] = cases_array(rt, TN_F32, 2, dims, cases_noise);
  c->heads[0] = cases_array(rt, TN_F32, 2, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

Test(softmax, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_rows);
  cases_same_for_all_threads(make_large);
  cases_same_for_all_threads(make_large_logs);
}

Test(softmax, neither_do_those_of_columns_in_half_precision) {
  cases_same_for_all_threads(make_columns);
}

/* exp(1e30) is infinite in every type; NaN stays. Elements next to an infinite
 * maximum become NaN, since its size is unknown. */
Test(softmax, huge_numbers_do_not_overflow_and_nan_stays_in_its_line) {
  tn_runtime *rt = host_open();
  const double x[12] = {1e30, 1e30,      -1e30, 0, NAN,      0,
                        5,    -INFINITY, 5,     1, INFINITY, 2};
  cases_call c = {.op = "nn.softmax", .params = "", .n_in = 1, .n_out = 1};
  cases_call l = {.op = "nn.log_softmax", .params = "", .n_in = 1, .n_out = 1};
  c.in[0] = host_array(rt, TN_F32, (host_shape){2, {4, 3}}, x);
  l.in[0] = tn_array_retain(c.in[0]);
  cases_forward(rt, &c), cases_forward(rt, &l);
  double *p = cases_values(c.out[0]), *q = cases_values(l.out[0]);
  cr_assert(p[0] == .5 && p[1] == .5 && p[2] == 0);
  for (int i = 3; i < 6; ++i) cr_assert(isnan(p[i]) && isnan(q[i]));
  cr_assert(p[6] == .5 && p[7] == 0 && p[8] == .5);
  cr_assert_eq(q[7], -INFINITY);
  for (int i = 9; i < 12; ++i) cr_assert(isnan(p[i]) && isnan(q[i]));
  free(p), free(q);
  cases_release(&c), cases_release(&l);
  tn_runtime_release(rt);
}

static void refuse(tn_runtime *rt, const char *op, const char *text,
                   int32_t ndim, const char *part) {
  tn_operator *of = host_operator(rt, op);
  tn_params *params = host_params(of, text);
  tn_sig in = {.dtype = TN_F32, .ndim = ndim, .shape = {2, 3}};
  tn_sig out = {.ndim = -1};
  FAILS(tn_operator_infer(of, params,
                          &(tn_signature){1, 1, 0, 0, &in, &out, NULL}),
        TN_OUT_OF_RANGE, part);
  tn_params_release(params);
}

static void refuse_temperature(tn_runtime *rt, const char *op,
                               const char *text) {
  tn_params *none = NULL;
  FAILS(tn_params_parse(host_operator(rt, op), text, &none), TN_OUT_OF_RANGE,
        "`temperature`");
}

Test(softmax, an_axis_or_a_temperature_that_cannot_be_is_refused) {
  tn_runtime *rt = host_open();
  refuse(rt, "nn.softmax", "axis=2", 2, "no axis 2 in (2,3) of rank 2");
  refuse(rt, "nn.softmax", "axis=-3", 2, "from -2 to 1");
  refuse(rt, "nn.log_softmax", "axis=1", 0, "no axis 1");
  refuse_temperature(rt, "nn.log_softmax", "temperature=0");
  refuse_temperature(rt, "nn.softmax", "temperature=-1");
  refuse_temperature(rt, "nn.softmax", "temperature=1e-39");
  refuse_temperature(rt, "nn.log_softmax", "temperature=nan");
  tn_runtime_release(rt);
}

/* 1 divided by it is a number in f32 too: the largest element has it all. */
Test(softmax, the_least_temperature_gives_numbers) {
  tn_runtime *rt = host_open();
  const double x[3] = {1, 3, 2}, h[3] = {1, 2, 3};
  cases_call c = {
      .op = "nn.softmax", .params = "temperature=1e-38", .n_in = 1, .n_out = 1};
  c.in[0] = host_array(rt, TN_F32, (host_shape){1, {3}}, x);
  c.heads[0] = host_array(rt, TN_F32, (host_shape){1, {3}}, h);
  c.req[0] = TN_REQ_WRITE;
  cases_forward(rt, &c), cases_backward(rt, &c);
  host_expect(c.out[0], (const double[]){0, 1, 0}, 3, 0);
  host_expect(c.grads[0], (const double[]){0, 0, 0}, 3, 0);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(softmax, a_pin_that_is_no_kernel_names_each_once) {
  tn_runtime *rt = host_open();
  FAILS(tn_operator_pin(host_operator(rt, "nn.softmax"), "fast"), TN_NOT_FOUND,
        "nn.softmax@1 has no kernel \"fast\"; it has nn.softmax.cpu, "
        "nn.softmax.cpu.2");
  cr_assert_null(strstr(strstr(tn_error_text(), "cpu.2"), ","));
  tn_runtime_release(rt);
}
