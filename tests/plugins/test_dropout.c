/* SPDX-License-Identifier: Apache-2.0
 * nn.dropout: which elements are dropped, by Philox and not by the kernel; that
 * seeds and threads decide what they should; and what is refused.
 */
#include <stdlib.h>

#include "cases.h"
#include "tenon/kernel.h"

enum { N = 100003 };

/* A call on N numbers, with its mask. */
static void call_on_noise(tn_runtime *rt, cases_call *c, tn_dtype dtype,
                          const char *params) {
  const int64_t dims[1] = {N};
  *c = (cases_call){.op = "nn.dropout",
                    .params = params,
                    .flags = TN_CALL_TRAIN,
                    .n_in = 1,
                    .n_out = 2};
  c->in[0] = cases_array(rt, dtype, 1, dims, cases_noise);
  c->heads[0] = cases_array(rt, dtype, 1, dims, cases_noise);
  c->req[0] = TN_REQ_WRITE;
}

/* The words of a runtime's first call. */
static void check_words(tn_dtype dtype, const char *params, double p) {
  tn_runtime *rt = host_open();
  cases_call c;
  call_on_noise(rt, &c, dtype, params);
  OK(tn_random_seed(rt, 11));
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  double *mask = cases_values(c.out[1]), *slope = cases_values(c.grads[0]);
  int64_t dropped = 0;
  for (int64_t i = 0; i < N; ++i) {
    const tn_kernel_bits bits = tn_kernel_philox(11, (uint64_t)i / 4, 0);
    const int drops = (double)bits.word[i % 4] < floor(p * 0x1p32);
    const double want = drops ? 0 : 1 / (1 - p);
    cr_assert(fabs(mask[i] - want) <= 4e-3 * want, "%lld: %g, not %g",
              (long long)i, mask[i], want);
    cr_assert(fabs(y[i] - x[i] * want) <= 8e-3 * fabs(x[i] * want));
    cr_assert(fabs(slope[i] - x[i] * want) <= 8e-3 * fabs(x[i] * want));
    dropped += drops;
  }
  /* Five times the deviation of a binomial. */
  cr_assert(fabs((double)dropped - N * p) < 5 * sqrt(N * p * (1 - p)));
  free(x), free(y), free(mask), free(slope);
  cases_release(&c);
  tn_runtime_release(rt);
}

Test(dropout, elements_whose_words_are_low_are_dropped) {
  check_words(TN_F32, "", .5);
  check_words(TN_F32, "p=0.1", .1);
  check_words(TN_F64, "p=0.9", .9);
  check_words(TN_F16, "p=0.25", .25);
  check_words(TN_BF16, "p=0.5", .5);
}

/* The mask is what they are multiplied by, as it is kept: 1/0.9 is neither a
 * f16 nor a bf16. */
static void check_scale(tn_dtype dtype) {
  tn_runtime *rt = host_open();
  cases_call c;
  call_on_noise(rt, &c, dtype, "p=0.1");
  cases_expect_factor(rt, &c);
  tn_runtime_release(rt);
}

Test(dropout, elements_and_gradients_have_one_scale) {
  check_scale(TN_F16);
  check_scale(TN_BF16);
}

static double *first_values(tn_runtime *rt, uint32_t flags,
                            const char *params) {
  cases_call c;
  call_on_noise(rt, &c, TN_F32, params);
  c.flags = flags;
  cases_forward(rt, &c);
  double *values = cases_values(c.out[0]);
  cases_release(&c);
  return values;
}

static int differs(const double *a, const double *b) {
  return memcmp(a, b, N * sizeof *a) != 0;
}

Test(dropout, calls_differ_and_seeds_repeat_them) {
  tn_runtime *rt = host_open();
  OK(tn_random_seed(rt, 3));
  double *a = first_values(rt, TN_CALL_TRAIN, "");
  double *b = first_values(rt, TN_CALL_TRAIN, "");
  OK(tn_random_seed(rt, 3));
  double *again = first_values(rt, 0, "mode=always");
  cr_assert(differs(a, b));
  cr_assert(!differs(a, again));
  free(a), free(b), free(again);
  tn_runtime_release(rt);
}

Test(dropout, outside_of_training_nothing_is_dropped) {
  tn_runtime *rt = host_open();
  cases_call c;
  call_on_noise(rt, &c, TN_F32, "p=0.75");
  c.flags = 0;
  OK(tn_random_seed(rt, 3));
  cases_forward(rt, &c);
  double *x = cases_values(c.in[0]), *y = cases_values(c.out[0]);
  cr_assert(!differs(x, y));
  /* In place, without the mask. */
  tn_operator *op = host_operator(rt, c.op);
  tn_array *same = c.in[0];
  OK(tn_call(rt, op, TN_IN(same), NULL, TN_OUT(&same)));
  double *z = cases_values(c.in[0]);
  cr_assert(!differs(x, z));
  free(x), free(y), free(z);
  cases_release(&c);
  tn_runtime_release(rt);
}

static void make(tn_runtime *rt, cases_call *c) {
  call_on_noise(rt, c, TN_F32, "p=0.3");
}

Test(dropout, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make);
}

Test(dropout, a_probability_is_from_0_to_1) {
  tn_runtime *rt = host_open();
  tn_operator *op = host_operator(rt, "nn.dropout");
  tn_params *none = NULL;
  FAILS(tn_params_parse(op, "p=1.25", &none), TN_OUT_OF_RANGE, "p");
  FAILS(tn_params_parse(op, "p=-0.5", &none), TN_OUT_OF_RANGE, "p");
  FAILS(tn_params_parse(op, "mode=never", &none), TN_INVALID, "always");
  tn_runtime_release(rt);
}
