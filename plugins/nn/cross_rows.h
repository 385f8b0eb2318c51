/* SPDX-License-Identifier: Apache-2.0
 * cross_rows.h: the loops of softmax_cross_entropy.c, included by each.h.
 */
#include "vector.h"

/* Sets norm[0] to the largest element of a row, and norm[1] to the logarithm of
 * the sum of exp(x - norm[0]). */
BODY void NAME(find_norm)(const REAL *x, int64_t n, REAL norm[2]) {
  const REAL top = NAME(find_largest)(x, n);
  NAME(prefetch_row)(x + n, n);
  norm[0] = top;
  norm[1] = MATH(log)(NAME(sum_exp)(x, n, top, 1));
}

/* Computes the losses of rows: in[0] are rows, in[1] gets their norms,
 * c->losses their losses. */
LOOP(find_losses) {
  const row_args *c = params;
  REAL *norm = (REAL *)(uintptr_t)block->in[1];
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * c->classes;
    const int64_t label = c->labels[r];
    NAME(find_norm)(x, c->classes, norm + 2 * r);
    c->losses[r] =
        label < 0 ? 0
                  : (double)norm[2 * r + 1] - (double)(x[label] - norm[2 * r]);
  }
}

/* Computes the gradients of rows: in[0] are rows, in[1] their norms or NULL,
 * out gets the gradients. */
LOOP(write_gradients) {
  const row_args *c = params;
  const REAL out_gradient = (REAL)c->out_gradient;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * c->classes;
    const REAL *norms = block->in[1];
    REAL *y = (REAL *)block->out + r * c->classes;
    const int64_t label = c->labels[r];
    REAL norm[2];
    if (label < 0) {
      memset(y, 0, (size_t)c->classes * sizeof *y);
      continue;
    }
    if (norms)
      memcpy(norm, norms + 2 * r, sizeof norm);
    else
      NAME(find_norm)(x, c->classes, norm);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < c->classes; ++i)
      y[i] = MATH(exp_down)((x[i] - norm[0]) - norm[1]) * out_gradient;
    y[label] -= out_gradient;
  }
}
