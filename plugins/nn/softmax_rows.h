/* SPDX-License-Identifier: Apache-2.0
 * softmax_rows.h: the loops of softmax_output.c for one element type. Included
 * by it only, twice, with
 *
 *   REAL     the element type
 *   NAME(x)  x with the type behind it
 *
 * which it undefines. Sums have a fixed number of partial sums, so that they
 * are the same with vectors of every length.
 */

/* The largest of n; NaN is passed over, as it comes back in the exponential. */
TN_KERNEL_BODY REAL NAME(largest)(const REAL *x, int64_t n) {
  REAL lane[LANES], all = x[0];
  int64_t i = 0;
  for (int l = 0; l < LANES; ++l) lane[l] = x[0];
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; ++l)
      lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  for (; i < n; ++i) all = x[i] > all ? x[i] : all;
  for (int l = 0; l < LANES; ++l) all = lane[l] > all ? lane[l] : all;
  return all;
}

TN_KERNEL_BODY REAL NAME(sum)(const REAL *x, int64_t n) {
  REAL lane[LANES] = {0}, all = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; ++l) lane[l] += x[i + l];
  for (; i < n; ++i) all += x[i];
  for (int l = 0; l < LANES; ++l) all += lane[l];
  return all;
}

/* Rows of classes that lie side by side. */
TN_KERNEL_BODY void NAME(rows)(const tn_kernel_block *block,
                               const void *params) {
  const extent *e = params;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *x = (const REAL *)block->in[0] + r * e->classes;
    REAL *y = (REAL *)block->out + r * e->classes;
    const REAL top = NAME(largest)(x, e->classes);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < e->classes; ++i)
      y[i] = NAME(exponential)(x[i] - top);
    const REAL factor = 1 / NAME(sum)(y, e->classes);
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < e->classes; ++i) y[i] *= factor;
  }
}
LEVELS(NAME(rows))

/* Some places side by side; their classes lie e->places apart. */
TN_KERNEL_BODY void NAME(columns)(const tn_kernel_block *block,
                                  const void *params) {
  const extent *e = params;
  const REAL *x = block->in[0];
  REAL *y = block->out;
  REAL top[CHUNK], sum[CHUNK] = {0};
  memcpy(top, x, (size_t)block->n * sizeof *x);
  for (int64_t k = 1; k < e->classes; ++k)
    for (int64_t s = 0; s < block->n; ++s) {
      const REAL v = x[k * e->places + s];
      top[s] = v > top[s] ? v : top[s];
    }
  for (int64_t k = 0; k < e->classes; ++k) {
    const int64_t at = k * e->places;
    TN_KERNEL_INDEPENDENT
    for (int64_t s = 0; s < block->n; ++s) {
      const REAL v = NAME(exponential)(x[at + s] - top[s]);
      y[at + s] = v;
      sum[s] += v;
    }
  }
  for (int64_t s = 0; s < block->n; ++s) sum[s] = 1 / sum[s];
  for (int64_t k = 0; k < e->classes; ++k)
    for (int64_t s = 0; s < block->n; ++s) y[k * e->places + s] *= sum[s];
}
LEVELS(NAME(columns))

/* The gradient at some places, where classes lie e->places apart: in[0] is p,
 * in[1] the goals. */
TN_KERNEL_BODY void NAME(slopes)(const tn_kernel_block *block,
                                 const void *params) {
  const goals *g = params;
  const REAL *p = block->in[0];
  REAL *y = block->out;
  const REAL hit = (REAL)g->hit, miss = (REAL)g->miss;
  const REAL factor = (REAL)g->factor;
  for (int64_t k = 0; k < g->extent.classes; ++k) {
    const int64_t at = k * g->extent.places;
    TN_KERNEL_INDEPENDENT
    for (int64_t s = 0; s < block->n; ++s) {
      const REAL want = g->chosen[s] == k ? hit : miss;
      const REAL slope = (p[at + s] - want) * factor;
      y[at + s] = g->chosen[s] == IGNORED ? 0 : slope;
    }
  }
}
LEVELS(NAME(slopes))

/* The gradient of one row of classes. */
TN_KERNEL_BODY void NAME(slope)(const tn_kernel_block *block,
                                const void *params) {
  const goals *g = params;
  const REAL *p = block->in[0];
  REAL *y = block->out;
  const REAL miss = (REAL)g->miss, factor = (REAL)g->factor;
  const int64_t chosen = g->chosen[0];
  if (chosen == IGNORED) {
    memset(y, 0, (size_t)block->n * sizeof *y);
    return;
  }
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] = (p[i] - miss) * factor;
  if (chosen >= 0) y[chosen] = (p[chosen] - (REAL)g->hit) * factor;
}
LEVELS(NAME(slope))

/* The gradient of probabilities: in[1] are doubles. */
TN_KERNEL_BODY void NAME(distance)(const tn_kernel_block *block,
                                   const void *params) {
  const goals *g = params;
  const REAL *p = block->in[0];
  const double *label = block->in[1];
  REAL *y = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    y[i] = (p[i] - (REAL)label[i]) * (REAL)g->factor;
}
LEVELS(NAME(distance))

/* y *= in[0] */
TN_KERNEL_BODY void NAME(times)(const tn_kernel_block *block,
                                const void *params) {
  const REAL *head = block->in[0];
  REAL *y = block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] *= head[i];
}
LEVELS(NAME(times))

#undef REAL
#undef NAME
