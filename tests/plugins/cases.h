/* SPDX-License-Identifier: Apache-2.0
 * cases.h: an operator of one output with what should come out, and a check of
 * it under all requests.
 */
#ifndef TENON_TESTS_PLUGINS_CASES_H_
#define TENON_TESTS_PLUGINS_CASES_H_

#include "host.h"

enum { CASES_IN = 3, CASES_RANK = 5 };

typedef struct cases_operand {
  int32_t ndim;
  int64_t dims[CASES_RANK];
  const double *v;
} cases_operand;

typedef struct cases_case {
  const char *op;
  const char *params;
  size_t n_in;
  cases_operand in[CASES_IN];
  cases_operand out;
  cases_operand head; /* gradient of out */
  size_t n_grads;
  cases_operand grads[CASES_IN]; /* of the first n_grads inputs */
} cases_case;

int64_t cases_size(const cases_operand *o);

/* Computes the case in a type: out, and added to ones; all gradients, and each
 * alone, added to ones. What comes out may differ by `tolerance`, relative to
 * magnitudes above 1. */
void cases_check(tn_runtime *rt, const cases_case *c, tn_dtype dtype,
                 double tolerance);

#endif /* TENON_TESTS_PLUGINS_CASES_H_ */
