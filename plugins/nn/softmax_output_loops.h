/* SPDX-License-Identifier: Apache-2.0
 * softmax_output_loops.h: the loops of softmax_output.c for one element type.
 * Only that file includes it, twice, with these macros, which it undefines:
 *
 *   REAL     the element type
 *   NAME(x)  x with the type appended
 */

/* Computes the gradient at n positions, with classes axis_shape.inner elements
 * apart: in[0] is the softmax. */
TN_KERNEL_BODY void NAME(write_column_gradients)(const tn_kernel_block *block,
                                                 const void *params) {
  const targets *g = params;
  const REAL *p = block->in[0];
  REAL *y = block->out;
  const REAL label_target = (REAL)g->label_target,
             other_target = (REAL)g->other_target;
  const REAL factor = (REAL)g->factor;
  for (int64_t k = 0; k < g->axis_shape.length; ++k) {
    const int64_t at = k * g->axis_shape.inner;
    TN_KERNEL_INDEPENDENT
    for (int64_t s = 0; s < block->n; ++s) {
      const REAL other = g->chosen[s] >= 0 ? other_target : 0;
      const REAL want = g->chosen[s] == k ? label_target : other;
      const REAL slope = (p[at + s] - want) * factor;
      y[at + s] = g->chosen[s] == IGNORED ? 0 : slope;
    }
  }
}
NN_LEVELS(NAME(write_column_gradients))

/* Computes the gradient of n rows; a row has all classes of a position. */
TN_KERNEL_BODY void NAME(write_row_gradients)(const tn_kernel_block *block,
                                              const void *params) {
  const targets *g = params;
  const int64_t classes = g->axis_shape.length;
  const REAL factor = (REAL)g->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *p = (const REAL *)block->in[0] + r * classes;
    REAL *y = (REAL *)block->out + r * classes;
    const int64_t chosen = g->chosen[r];
    const REAL label = chosen >= 0 ? p[chosen] : 0; /* y may be p */
    const REAL other_target = chosen >= 0 ? (REAL)g->other_target : 0;
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < classes; ++i) y[i] = (p[i] - other_target) * factor;
    if (chosen >= 0) y[chosen] = (label - (REAL)g->label_target) * factor;
    if (chosen == IGNORED) memset(y, 0, (size_t)classes * sizeof *y);
  }
}
NN_LEVELS(NAME(write_row_gradients))

/* Computes the gradient for labels that are probabilities: in[1] are labels as
 * doubles. */
TN_KERNEL_BODY void NAME(write_soft_gradients)(const tn_kernel_block *block,
                                               const void *params) {
  const targets *g = params;
  const REAL *p = block->in[0];
  const double *label = block->in[1];
  REAL *y = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    y[i] = (p[i] - (REAL)label[i]) * (REAL)g->factor;
}
NN_LEVELS(NAME(write_soft_gradients))

/* Multiplies n elements of out by in[0]. */
TN_KERNEL_BODY void NAME(multiply_elements)(const tn_kernel_block *block,
                                            const void *params) {
  const REAL *out_gradient = block->in[0];
  REAL *y = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] *= out_gradient[i];
}
NN_LEVELS(NAME(multiply_elements))

#undef REAL
#undef NAME
