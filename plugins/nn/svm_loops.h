/* SPDX-License-Identifier: Apache-2.0
 * svm_loops.h: the loop of svm_output.c, included by each.h.
 */

/* Writes the gradients of rows: in[0] are the scores. */
LOOP(write_hinge_gradients) {
  const svm_args *l = params;
  const int64_t n = l->classes;
  const REAL margin = (REAL)l->margin, factor = (REAL)l->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * n;
    REAL *y = (REAL *)block->out + r * n;
    const int64_t label = l->labels[r];
    if (l->is_linear) {
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[i] = margin > -x[i] ? factor : 0;
      if (label >= 0) y[label] = margin > x[label] ? -factor : 0;
    } else {
      TN_KERNEL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        y[i] = margin > -x[i] ? 2 * factor * (margin + x[i]) : 0;
      if (label >= 0)
        y[label] = margin > x[label] ? -2 * factor * (margin - x[label]) : 0;
    }
  }
}
