/* SPDX-License-Identifier: Apache-2.0
 * nn.softmax_cross_entropy: NumPy's values, rows of every length, labels that
 * are none, and numbers that are huge.
 */
#include <stdlib.h>

#include "cases.h"

Test(cross_entropy, values_and_gradients_are_those_of_numpy) {
  tn_runtime *rt = host_open();
  cases_check(rt, "nn.softmax_cross_entropy", 3);
  tn_runtime_release(rt);
}

static double label_of(int64_t i) {
  return (double)(i % 11) - 1;
}

static void fill(tn_runtime *rt, cases_call *c, tn_dtype dtype, int64_t rows,
                 int64_t classes) {
  const int64_t dims[2] = {rows, classes}, none[1] = {1};
  *c = (cases_call){
      .op = "nn.softmax_cross_entropy", .params = "", .n_in = 2, .n_out = 2};
  c->in[0] = cases_array(rt, dtype, 2, dims, cases_noise);
  c->in[1] = cases_array(rt, TN_I32, 1, dims, label_of);
  c->heads[0] = cases_array(rt, dtype, 0, none, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

static void check(tn_dtype dtype, int64_t rows, int64_t classes,
                  double tolerance) {
  tn_runtime *rt = host_open();
  cases_call c;
  double total = 0;
  fill(rt, &c, dtype, rows, classes);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *slope = cases_values(c.grads[0]);
  double *got = cases_values(c.out[0]), *head = cases_values(c.heads[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t label = (int64_t)label_of(r);
    const int counts = label >= 0 && label < classes;
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += exp(x[r * classes + k]);
    if (counts) total += log(sum) - x[r * classes + label];
    for (int64_t k = 0; k < classes; ++k) {
      const double p = exp(x[r * classes + k]) / sum;
      const double want = counts ? (p - (k == label)) * head[0] : 0;
      cr_assert(fabs(slope[r * classes + k] - want) < tolerance);
    }
  }
  cr_assert(fabs(got[0] - total) < tolerance * fmax(1, total), "%g, not %g",
            got[0], total);
  free(x), free(slope), free(got), free(head);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(cross_entropy, rows_of_every_length_are_right) {
  check(TN_F32, 1000, 3, 2e-6);
  check(TN_F32, 70, 1000, 2e-6);
  check(TN_F64, 65, 257, 1e-13);
  check(TN_BF16, 30, 40, 1e-2);
}

static void make(tn_runtime *rt, cases_call *c) {
  fill(rt, c, TN_F32, 3000, 90);
}

Test(cross_entropy, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make);
}

/* exp(1e4) is infinite in f32; the loss is the distance of the label from the
 * maximum. */
Test(cross_entropy, huge_numbers_do_not_overflow) {
  const double x[4] = {1e4, 0, -1e4, -1e4};
  tn_runtime *rt = host_open();
  cases_call c = {
      .op = "nn.softmax_cross_entropy", .params = "", .n_in = 2, .n_out = 2};
  c.in[0] = host_array(rt, TN_F32, (host_shape){2, {2, 2}}, x);
  c.in[1] = host_array(rt, TN_F32, (host_shape){1, {2}}, (double[]){1, NAN});
  c.heads[0] = host_array(rt, TN_F32, (host_shape){0, {0}}, (double[]){2});
  c.req[0] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  host_expect(c.out[0], (double[]){1e4}, 1, 0);
  host_expect(c.grads[0], (double[]){2, -2, 0, 0}, 4, 0);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(cross_entropy, labels_must_be_as_many_as_rows) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.softmax_cross_entropy");
  tn_sig in[2] = {{TN_F32, 2, {4, 6}}, {TN_I32, 1, {5}}};
  tn_sig out[2] = {{.ndim = -1}, {.ndim = -1}};
  FAILS(tn_operator_infer(op, NULL, &(tn_signature){2, 2, 0, 0, in, out, NULL}),
        TN_SHAPE, "label");
  in[1] = (tn_sig){.ndim = -1, .dtype = TN_I32};
  OK(tn_operator_infer(op, NULL, &(tn_signature){2, 2, 0, 0, in, out, NULL}));
  cr_assert_eq(in[1].shape[0], 4);
  cr_assert_eq(out[0].ndim, 0);
  tn_runtime_release(rt);
}
