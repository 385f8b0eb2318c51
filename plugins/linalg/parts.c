/* SPDX-License-Identifier: Apache-2.0
 * parts.c: the operators of parts.yaml. They move or sum the elements of square
 * matrices.
 */
#include "parts.gen.h"

#include "linalg.h"

/* Calls loop `which` for the matrix: `in` and `out` are the numbers of
 * dimensions that belong to one matrix there. */
typedef struct square_loop {
  int which;
  int32_t in;
  int32_t out;
} square_loop;

static int64_t run_square(const linalg_one *one, square_loop loop) {
  const tn_tensor *x = &one->call->in[0], *out = &one->call->out[0];
  const int64_t n = x->shape[x->ndim - 1];
  if (out->data)
    one->loops->square[loop.which](n, linalg_at(x, loop.in, one->i),
                                   linalg_at(out, loop.out, one->i));
  return 0;
}

static int32_t run_all(const tn_frame *call, int32_t n_dims,
                       linalg_step *step) {
  const tn_tensor *x = &call->in[0];
  const double n = (double)x->shape[x->ndim - 1];
  const linalg_kernel kernel = {.step = step, .work = 4 * n * n + 1};
  return linalg_run_all(call, linalg_count(x, n_dims), &kernel);
}

/* An operator that calls one loop. */
#define OPERATOR(name, which, in, out)                     \
  static int64_t step_##name(const linalg_one *one) {      \
    return run_square(one, (square_loop){which, in, out}); \
  }                                                        \
  int32_t linalg_##name(const tn_frame *call) {            \
    return run_all(call, in, step_##name);                 \
  }

OPERATOR(sumlogdiag, LINALG_SUM_LOG_DIAGONAL, 2, 0)
OPERATOR(extract_diagonal, LINALG_EXTRACT_DIAGONAL, 2, 1)
OPERATOR(make_diagonal, LINALG_MAKE_DIAGONAL, 1, 2)
OPERATOR(symmetric_part, LINALG_SYMMETRIC_PART, 2, 2)
OPERATOR(minus_transpose, LINALG_MINUS_TRANSPOSE, 2, 2)
OPERATOR(half_triangle, LINALG_HALF_TRIANGLE, 2, 2)
OPERATOR(mirror_lower, LINALG_MIRROR_LOWER, 2, 2)
OPERATOR(sum_differences, LINALG_SUM_DIFFERENCES, 2, 1)

static int64_t step_as_lower(const linalg_one *one) {
  const int lower = linalg_as_lower_params_of(one->call)->lower != 0;
  return run_square(
      one, (square_loop){lower ? LINALG_LOWER : LINALG_UPPER_TRANSPOSED, 2, 2});
}

int32_t linalg_as_lower(const tn_frame *call) {
  return run_all(call, 2, step_as_lower);
}

static int64_t step_from_lower(const linalg_one *one) {
  const int lower = linalg_from_lower_params_of(one->call)->lower != 0;
  return run_square(
      one, (square_loop){lower ? LINALG_LOWER : LINALG_LOWER_TRANSPOSED, 2, 2});
}

int32_t linalg_from_lower(const tn_frame *call) {
  return run_all(call, 2, step_from_lower);
}

static int64_t step_divide_by_gaps(const linalg_one *one) {
  const tn_frame *call = one->call;
  one->loops->divide_by_gaps(
      linalg_columns(&call->in[0]), linalg_at(&call->in[0], 2, one->i),
      linalg_at(&call->in[1], 1, one->i), linalg_at(&call->out[0], 2, one->i));
  return 0;
}

int32_t linalg_divide_by_gaps(const tn_frame *call) {
  return run_all(call, 2, step_divide_by_gaps);
}
