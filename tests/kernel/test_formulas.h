/* SPDX-License-Identifier: Apache-2.0
 * test_formulas.h: the output of formulas.py for test_formulas: a formula as
 * plain C, element by element, and as the loops of the CPU.
 */
#ifndef TEST_FORMULAS_H_
#define TEST_FORMULAS_H_

#include "tenon/kernel/kernel.h"

/* The compiler does not see the parameters, no more than it does in a loop: if
 * it did, it would make x*x of pow(x, 2), which is not always the same. */
typedef void plain_formula(int64_t n, void *out, const void *const *in,
                           const void *params);

typedef struct formula_case {
  const char *name; /* "quadratic_out_f32" */
  tn_dtype compute;
  size_t n_in;
  const void *params;
  plain_formula *plain;
  tn_kernel_bodies loop;
} formula_case;

extern const formula_case formula_cases[];
extern const size_t n_formula_cases;

#endif /* TEST_FORMULAS_H_ */
