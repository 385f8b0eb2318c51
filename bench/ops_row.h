/* SPDX-License-Identifier: Apache-2.0
 * ops_row.h: an operator with its arrays, ready to be measured.
 */
#ifndef TENON_BENCH_OPS_ROW_H_
#define TENON_BENCH_OPS_ROW_H_

#include <tenon/tenon.h>

#include "ops.h"

typedef struct ops_row {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  tn_dtype dtype; /* of drawn arrays */
  size_t n_in;
  tn_array *in[OPS_IN];
  size_t n_out;
  size_t n_grads; /* inputs that are no states */
  uint32_t flags;
  tn_array *out[OPS_OUT];
  tn_array *head[OPS_OUT];
  tn_array *grads[OPS_IN];
  tn_req req[OPS_IN];
  tn_prepared *forward;
} ops_row;

/* Ends the program with the library's text unless the code is TN_OK. */
void ops_must_succeed(tn_code code);

/* A new array of numbers in [-1, 1). */
tn_array *ops_draw_array(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                         const int64_t *dims);

/* Calls the operator once, which makes the outputs, draws the gradient of the
 * first one, and prepares the call. All members up to `flags` are set. */
void ops_row_prepare(ops_row *row);
/* For measure_cpu: one call of the ops_row `row`. */
void ops_row_forward(void *row);
void ops_row_backward(void *row);
void ops_row_close(ops_row *row);

/* Whether a name has one of n parts in it; true for n 0. */
int ops_is_wanted(const char *name, int n, char **parts);

#endif /* TENON_BENCH_OPS_ROW_H_ */
