/* SPDX-License-Identifier: Apache-2.0
 * regression_loops.h: the loops of regression.c, included by each.h. in[0] is
 * the data or the result, in[1] the label.
 */

LOOP(write_sigmoids) {
  const REAL *x = block->in[0];
  REAL *y = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] = MATH(sigmoid)(x[i]);
}

LOOP(write_differences) {
  const REAL *x = block->in[0], *label = block->in[1];
  const REAL factor = (REAL) * (const double *)params;
  REAL *y = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] = (x[i] - label[i]) * factor;
}

LOOP(write_signs) {
  const REAL *x = block->in[0], *label = block->in[1];
  const REAL factor = (REAL) * (const double *)params;
  REAL *y = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) {
    const REAL above = x[i] > label[i] ? factor : 0;
    y[i] = x[i] < label[i] ? -factor : above;
  }
}
