/* SPDX-License-Identifier: Apache-2.0
 * cases.h: a plugin against values that a script has written (CASES_FILE), and
 * small helpers of the tests that use them.
 */
#ifndef TENON_TESTS_PLUGINS_CASES_H_
#define TENON_TESTS_PLUGINS_CASES_H_

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "host.h"

/* Makes every case of the operator, in f64, f32, f16 and bf16, forward and
 * backward, and fails the test at the first number that is not the script's.
 * Fails it as well if there are fewer than `least` cases. */
void cases_check(tn_runtime *rt, const char *op, int least);

/* One call with fresh outputs and its gradient; every array is the caller's.
 * Counts of zero are allowed. */
typedef struct cases_call {
  const char *op;
  const char *params;
  uint32_t flags; /* TN_CALL_TRAIN or 0 */
  size_t n_in;    /* with states */
  size_t n_aux;   /* of these */
  size_t n_out;
  tn_array *in[8];
  tn_array *out[4];
  tn_array *heads[4]; /* NULL: zeros */
  tn_array *grads[8];
  tn_req req[8]; /* of the gradients */
} cases_call;

void cases_forward(tn_runtime *rt, cases_call *c);
void cases_backward(tn_runtime *rt, cases_call *c);
void cases_release(cases_call *c);

/* A dense array with value(i) as element i. */
tn_array *cases_array(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                      const int64_t *dims, double (*value)(int64_t i));

/* Numbers from -2 to 2 without a pattern. */
double cases_noise(int64_t i);

/* All elements as doubles; the caller frees them. */
double *cases_values(tn_array *array);

/* Makes a call of f16 or bf16 and its gradient. The second output is the factor
 * of its first input. Fails the test unless both results are products of that
 * factor, rounded once. Ends the call. */
void cases_expect_factor(tn_runtime *rt, cases_call *c);

/* Makes the same call and gradient in runtimes with 1, 2 and 5 workers, at
 * every level of instructions that this machine has, and fails the test unless
 * the bits are the same for every number of workers, and the numbers nearly the
 * same for every level. `make` fills in inputs and heads. */
void cases_same_for_all_threads(void (*make)(tn_runtime *rt, cases_call *c));

#endif /* TENON_TESTS_PLUGINS_CASES_H_ */
