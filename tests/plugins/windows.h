/* SPDX-License-Identifier: Apache-2.0
 * windows.h: an operator of one output with expected values, and a check of it
 * under all requests.
 */
#ifndef TENON_TESTS_PLUGINS_WINDOWS_H_
#define TENON_TESTS_PLUGINS_WINDOWS_H_

#include "host.h"

enum { WINDOWS_IN = 5, WINDOWS_RANK = 5 };

typedef struct windows_operand {
  int32_t ndim;
  int64_t dims[WINDOWS_RANK];
  const double *v; /* NULL: empty, or an absent input without a gradient */
} windows_operand;

typedef struct windows_case {
  const char *op;
  const char *params;
  size_t n_in;
  windows_operand in[WINDOWS_IN];
  windows_operand out;
  windows_operand head; /* gradient of out */
  size_t n_grads;
  windows_operand grads[WINDOWS_IN]; /* of the first n_grads inputs */
} windows_case;

/* Where operands are put: "cuda(1)"; NULL: where arrays begin. */
extern const char *windows_place;

int64_t windows_size(const windows_operand *o);

/* Computes the case in a type, of an operator with one output and perhaps a
 * hidden one: out, and added to ones; all gradients, and each
 * alone, added to ones. Results may differ by `tolerance`, relative to
 * magnitudes above 1. */
void windows_check(tn_runtime *rt, const windows_case *c, tn_dtype dtype,
                   double tolerance);

#endif /* TENON_TESTS_PLUGINS_WINDOWS_H_ */
