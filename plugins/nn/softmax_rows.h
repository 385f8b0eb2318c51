/* SPDX-License-Identifier: Apache-2.0
 * softmax_rows.h: the loops of softmax_output.c for one element type. Included
 * by it only, twice, with
 *
 *   REAL     the element type
 *   NAME(x)  x with the type behind it
 *
 *   BITS     an integer as wide
 *
 * which it undefines. Sums have a fixed number of partial sums, so that they
 * are the same with vectors of every length.
 */

enum { NAME(lanes) = 64 / (int)sizeof(REAL) };

typedef REAL NAME(vector)
    __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef BITS NAME(mask) __attribute__((vector_size(64), may_alias));

/* The largest of n; NaN is passed over, as it comes back in the exponential. */
TN_KERNEL_BODY REAL NAME(largest)(const REAL *x, int64_t n) {
  REAL all = x[0];
  int64_t i = 0;
  if (n >= NAME(lanes)) {
    NAME(vector) most = *(const NAME(vector) *)(const void *)x;
    for (; i + NAME(lanes) <= n; i += NAME(lanes)) {
      const NAME(vector) v = *(const NAME(vector) *)(const void *)(x + i);
      const NAME(mask) above = (NAME(mask))(v > most);
      most =
          (NAME(vector))((above & (NAME(mask))v) | (~above & (NAME(mask))most));
    }
    for (int l = 0; l < NAME(lanes); ++l) all = most[l] > all ? most[l] : all;
  }
  for (; i < n; ++i) all = x[i] > all ? x[i] : all;
  return all;
}

TN_KERNEL_BODY REAL NAME(sum)(const REAL *x, int64_t n) {
  NAME(vector) part = {0};
  REAL all = 0;
  int64_t i = 0;
  for (; i + NAME(lanes) <= n; i += NAME(lanes))
    part += *(const NAME(vector) *)(const void *)(x + i);
  for (int l = 0; l < NAME(lanes); ++l) all += part[l];
  for (; i < n; ++i) all += x[i];
  return all;
}

/* Some places side by side; their classes lie e->places apart. */
TN_KERNEL_BODY void NAME(columns)(const tn_kernel_block *block,
                                  const void *params) {
  const extent *e = params;
  const REAL *x = block->in[0];
  REAL *y = block->out;
  REAL top[CHUNK], sum[CHUNK];
  memcpy(top, x, (size_t)block->n * sizeof *x);
  memset(sum, 0, (size_t)block->n * sizeof *sum);
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

/* Rows of few classes, many at a time: turned, they are places. */
TN_KERNEL_BODY void NAME(short_rows)(const REAL *x, REAL *y, int64_t n,
                                     int64_t classes) {
  REAL turned[FEW * NAME(lanes)];
  const extent e = {1, classes, NAME(lanes)};
  const tn_kernel_block block = {
      .n = NAME(lanes), .out = turned, .in = {turned}};
  memset(turned, 0, (size_t)classes * NAME(lanes) * sizeof *turned);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k < classes; ++k)
      turned[k * NAME(lanes) + r] = x[r * classes + k];
  NAME(columns)(&block, &e);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t k = 0; k < classes; ++k)
      y[r * classes + k] = turned[k * NAME(lanes) + r];
}

TN_KERNEL_BODY void NAME(long_row)(const REAL *x, REAL *y, int64_t classes) {
  const REAL top = NAME(largest)(x, classes);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < classes; ++i) y[i] = NAME(exponential)(x[i] - top);
  const REAL factor = 1 / NAME(sum)(y, classes);
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < classes; ++i) y[i] *= factor;
}

/* Rows of classes that lie side by side. */
TN_KERNEL_BODY void NAME(rows)(const tn_kernel_block *block,
                               const void *params) {
  const int64_t classes = ((const extent *)params)->classes;
  const int64_t each = classes <= FEW ? NAME(lanes) : 1;
  for (int64_t r = 0; r < block->n; r += each) {
    const REAL *x = (const REAL *)block->in[0] + r * classes;
    REAL *y = (REAL *)block->out + r * classes;
    if (each > 1) NAME(short_rows)
    (x, y, block->n - r < each ? block->n - r : each, classes);
    else NAME(long_row)(x, y, classes);
  }
}
LEVELS(NAME(rows))

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

/* The gradient of rows of classes. */
TN_KERNEL_BODY void NAME(slope)(const tn_kernel_block *block,
                                const void *params) {
  const goals *g = params;
  const int64_t classes = g->extent.classes;
  const REAL miss = (REAL)g->miss, factor = (REAL)g->factor;
  for (int64_t r = 0; r < block->n; ++r) {
    const REAL *p = (const REAL *)block->in[0] + r * classes;
    REAL *y = (REAL *)block->out + r * classes;
    const int64_t chosen = g->chosen[r];
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < classes; ++i) y[i] = (p[i] - miss) * factor;
    if (chosen >= 0) y[chosen] = (p[chosen] - (REAL)g->hit) * factor;
    if (chosen == IGNORED) memset(y, 0, (size_t)classes * sizeof *y);
  }
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
#undef BITS
#undef NAME
