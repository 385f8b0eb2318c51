/* SPDX-License-Identifier: Apache-2.0
 * conv_depthwise_rows.h: the loops of conv_depthwise.c for one element type.
 * Included by it only, twice, with
 *
 *   REAL     the element type
 *   BITS     an integer as wide
 *   NAME(x)  x with the type behind it
 *
 * which it undefines. Vectors have 64 bytes at every level of instructions, so
 * that sums are taken apart alike.
 */

enum { NAME(lanes) = 64 / (int)sizeof(REAL) };

typedef REAL NAME(vector)
    __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef BITS NAME(mask) __attribute__((vector_size(64), may_alias));

#define VECTOR(at) (*(const NAME(vector) *)(const void *)(at))

/* The first n, and zeros. */
TN_KERNEL_BODY void NAME(load_some)(NAME(vector) * v, const REAL *x,
                                    int64_t n) {
  *v = (NAME(vector)){0};
  if (n >= NAME(lanes))
    *v = VECTOR(x);
  else
    memcpy(v, x, (size_t)n * sizeof *x);
}

/* The first n, or added to what is there. */
TN_KERNEL_BODY void NAME(store_some)(REAL *y, NAME(vector) * v, int64_t n,
                                     int add) {
  NAME(vector) old;
  if (add) {
    NAME(load_some)(&old, y, n);
    *v += old;
  }
  if (n >= NAME(lanes))
    *(NAME(vector) *)(void *)y = *v;
  else
    memcpy(y, v, (size_t)n * sizeof *y);
}

/* An image with zeros around its elements and between them, its columns sorted
 * by what they leave when divided by the step of windows. */
TN_KERNEL_BODY void NAME(spread)(const spread *s, const REAL *from, REAL *to) {
  memset(to, 0, (size_t)(s->rows * s->pitch) * sizeof *to);
  for (int64_t i = 0; i < s->from_rows; ++i, from += s->from_columns) {
    const int64_t y = i * s->stuff[0] + s->pad[0];
    REAL *row = to + y * s->pitch;
    if (y < 0 || y >= s->rows) continue;
    if (s->step == 1 && s->stuff[1] == 1) {
      memcpy(row + s->pad[1] + s->inside.begin, from + s->inside.begin,
             (size_t)(s->inside.end - s->inside.begin) * sizeof *to);
      continue;
    }
    for (int64_t j = s->inside.begin; j < s->inside.end; ++j) {
      const int64_t x = j * s->stuff[1] + s->pad[1];
      row[x % s->step * s->phase + x / s->step] = from[j];
    }
  }
}

/* `held` lines of out from column x on, each the sum over a window. */
TN_KERNEL_BODY void NAME(some_lines)(const lines *l, int64_t y, int64_t x,
                                     const int held) {
  const REAL *from = (const REAL *)l->from + y * l->down + x;
  const REAL *weight = l->weight;
  NAME(vector) sum[HELD];
  for (int r = 0; r < held; ++r) sum[r] = (NAME(vector)){0} + (REAL)l->bias;
  for (int64_t t = 0; t < l->taps; ++t)
    for (int r = 0; r < held; ++r)
      sum[r] += weight[t] * VECTOR(from + r * l->down + l->offset[t]);
  for (int r = 0; r < held; ++r) NAME(store_some)
  ((REAL *)l->to + (y + r) * l->columns + x, &sum[r], l->columns - x, l->add);
}

/* The same for windows of 3 x 3 whose lines lie one below the other: each line
 * that is read serves three. */
TN_KERNEL_BODY void NAME(some_three)(const lines *l, int64_t y, int64_t x,
                                     const int held) {
  const REAL *from = (const REAL *)l->from + y * l->down + x;
  const REAL *weight = l->weight;
  NAME(vector) sum[HELD];
  for (int r = 0; r < held; ++r) sum[r] = (NAME(vector)){0} + (REAL)l->bias;
  for (int i = 0; i < held + 2; ++i, from += l->down)
    for (int k = 0; k < 3; ++k) {
      const NAME(vector) v = VECTOR(from + k);
      for (int r = 0; r < held; ++r)
        if (i - r >= 0 && i - r < 3)
          sum[r] +=
              weight[l->turned ? 8 - (i - r) * 3 - k : (i - r) * 3 + k] * v;
    }
  for (int r = 0; r < held; ++r) NAME(store_some)
  ((REAL *)l->to + (y + r) * l->columns + x, &sum[r], l->columns - x, l->add);
}

/* `held` lines. Where nothing is added, the last vector of a line overlaps the
 * one before it, as a part of a vector takes longer to write. */
TN_KERNEL_BODY void NAME(held_lines)(const lines *l, int64_t y,
                                     const int held) {
  const int overlaps = l->columns >= NAME(lanes) && !l->add;
  const int64_t last = l->columns - NAME(lanes);
  for (int64_t x = 0; x < l->columns; x += NAME(lanes)) {
    const int64_t at = overlaps && x > last ? last : x;
    if (l->three)
      NAME(some_three)(l, y, at, held);
    else
      NAME(some_lines)(l, y, at, held);
  }
}

/* All lines of an image of out. */
TN_KERNEL_BODY void NAME(all_lines)(const tn_kernel_block *block,
                                    const void *params) {
  const lines *l = params;
  int64_t y = 0;
  (void)block;
  for (; y + HELD <= l->rows; y += HELD) NAME(held_lines)(l, y, HELD);
  for (; y < l->rows; ++y) NAME(held_lines)(l, y, 1);
}
LEVELS(NAME(all_lines))

/* The first n lanes are kept, the others are zero: multiplying them by zero
 * would not do if they are infinite. */
TN_KERNEL_BODY void NAME(keep_some)(NAME(mask) * keep, int64_t n) {
  BITS lanes[NAME(lanes)];
  for (int i = 0; i < NAME(lanes); ++i) lanes[i] = i < n ? -1 : 0;
  memcpy(keep, lanes, sizeof lanes);
}

/* The last columns of a line, n of them. */
TN_KERNEL_BODY void NAME(last_products)(const lines *l, int64_t y,
                                        const NAME(mask) * keep,
                                        NAME(vector) * sum, const int taps) {
  const int64_t n = l->columns % NAME(lanes), x = l->columns - n;
  const REAL *from = (const REAL *)l->from + y * l->down + x;
  const REAL *at = (const REAL *)l->to + y * l->columns + x;
  NAME(vector) head, v;
  if (y + 1 < l->rows && l->columns >= NAME(lanes))
    head = VECTOR(at); /* and a part of the next line */
  else
    NAME(load_some)(&head, at, n);
  head = (NAME(vector))((NAME(mask))head & *keep);
  for (int t = 0; t < taps; ++t) {
    v = (NAME(vector))((NAME(mask))VECTOR(from + l->offset[t]) & *keep);
    sum[t] += head * v;
  }
}

/* Adds head * from, for each element of the window, to the sums of lanes. */
TN_KERNEL_BODY void NAME(some_products)(const lines *l, const int taps) {
  NAME(vector) *sums = l->sums;
  NAME(vector) sum[HELD_TAPS];
  NAME(mask) keep;
  NAME(keep_some)(&keep, l->columns % NAME(lanes));
  for (int t = 0; t < taps; ++t) sum[t] = sums[t];
  for (int64_t y = 0; y < l->rows; ++y) {
    int64_t x = 0;
    for (; x + NAME(lanes) <= l->columns; x += NAME(lanes)) {
      const REAL *from = (const REAL *)l->from + y * l->down + x;
      const NAME(vector) head =
          VECTOR((const REAL *)l->to + y * l->columns + x);
      for (int t = 0; t < taps; ++t)
        sum[t] += head * VECTOR(from + l->offset[t]);
    }
    if (x < l->columns) NAME(last_products)(l, y, &keep, sum, taps);
  }
  for (int t = 0; t < taps; ++t) sums[t] = sum[t];
}

TN_KERNEL_BODY void NAME(all_products)(const tn_kernel_block *block,
                                       const void *params) {
  lines l = *(const lines *)params;
  int64_t t = 0;
  (void)block;
  for (; t + HELD_TAPS <= l.taps; t += HELD_TAPS) {
    NAME(some_products)(&l, HELD_TAPS);
    l.offset += HELD_TAPS;
    l.sums = (NAME(vector) *)l.sums + HELD_TAPS;
  }
  for (; t < l.taps; ++t) {
    NAME(some_products)(&l, 1);
    l.offset += 1;
    l.sums = (NAME(vector) *)l.sums + 1;
  }
}
LEVELS(NAME(all_products))

/* The sum of the lanes of each sum, or added to what is there. */
static void NAME(gather_sums)(const lines *l, REAL *to) {
  const REAL *sums = l->sums;
  for (int64_t t = 0; t < l->taps; ++t) {
    double sum = 0;
    for (int i = 0; i < NAME(lanes); ++i)
      sum += (double)sums[t * NAME(lanes) + i];
    to[t] = (REAL)(sum + (l->add ? (double)to[t] : 0));
  }
}

static void NAME(spread_image)(const spread *s, const void *from, void *to) {
  NAME(spread)(s, from, to);
}

#undef VECTOR
#undef REAL
#undef BITS
#undef NAME
