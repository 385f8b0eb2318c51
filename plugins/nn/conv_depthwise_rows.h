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
typedef BITS NAME(mask)
    __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));

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

#define MASK(at) (*(const NAME(mask) *)(const void *)(at))

/* Windows counted across the ends of lines, from x on, in vectors of which the
 * first begins in `column`: of `high` x `wide` elements. */
TN_KERNEL_BODY void NAME(some_windows)(const lines *l, int64_t x,
                                       int64_t column, const int64_t high,
                                       const int64_t wide, const int held) {
  enum { L = NAME(lanes) };
  const REAL *from = (const REAL *)l->from + x, *weight = l->weight;
  const int64_t n = l->rows * l->columns - x;
  NAME(vector) sum[HELD];
  for (int r = 0; r < held; ++r) sum[r] = (NAME(vector)){0} + (REAL)l->bias;
  for (int64_t k = 0; k < wide; ++k) {
    const BITS *inside = (const BITS *)l->inside + k * l->apart + column;
    for (int64_t i = 0; i < high; ++i) {
      const int64_t t = i * wide + k;
      const REAL *at = from + l->offset[t];
      const REAL w = weight[l->turned ? l->taps - 1 - t : t];
      for (int r = 0; r < held; ++r)
        sum[r] += w * (NAME(vector))((NAME(mask))VECTOR(at + r * L) &
                                     MASK(inside + r * L));
    }
  }
  for (int r = 0; r < held && r * L < n; ++r) NAME(store_some)
  ((REAL *)l->to + x + r * L, &sum[r], n - r * L, l->add);
}

/* What windows of 3 x 3 elements read, and their weights. */
typedef struct NAME(three) {
  const REAL *line[3];   /* the middle of each line */
  const BITS *inside[2]; /* the masks of the elements beside it */
  REAL weight[9];
  REAL bias;
} NAME(three);

TN_KERNEL_BODY NAME(three) NAME(three_of)(const lines *l) {
  const REAL *weight = l->weight;
  NAME(three)
  t = {.inside = {(const BITS *)l->inside,
                  (const BITS *)l->inside + 2 * l->apart},
       .bias = (REAL)l->bias};
  for (int i = 0; i < 3; ++i)
    t.line[i] = (const REAL *)l->from + l->offset[3 * i + 1];
  for (int i = 0; i < 9 && weight; ++i)
    t.weight[i] = weight[l->turned ? 8 - i : i];
  return t;
}

/* The same as some_windows for them: sums of whole vectors. */
TN_KERNEL_BODY void NAME(three_windows)(const NAME(three) * t, int64_t x,
                                        int64_t column, NAME(vector) * sum,
                                        const int held) {
  enum { L = NAME(lanes) };
  NAME(mask) first[HELD], last[HELD];
  for (int r = 0; r < held; ++r) {
    sum[r] = (NAME(vector)){0} + t->bias;
    first[r] = MASK(t->inside[0] + column + r * L);
    last[r] = MASK(t->inside[1] + column + r * L);
  }
  for (int i = 0; i < 3; ++i) {
    const REAL *at = t->line[i] + x, *w = t->weight + 3 * i;
    for (int r = 0; r < held; ++r, at += L) {
      sum[r] += w[0] * (NAME(vector))((NAME(mask))VECTOR(at - 1) & first[r]);
      sum[r] += w[1] * VECTOR(at);
      sum[r] += w[2] * (NAME(vector))((NAME(mask))VECTOR(at + 1) & last[r]);
    }
  }
}

TN_KERNEL_BODY void NAME(all_three)(const lines *l, const int add) {
  enum { L = NAME(lanes), STEP = HELD * L };
  const NAME(three) t = NAME(three_of)(l);
  const int64_t n = l->rows * l->columns, columns = l->columns;
  const int64_t step = STEP % columns;
  REAL *to = l->to;
  NAME(vector) sum[HELD];
  int64_t x = 0, column = 0;
  for (; x + STEP <= n; x += STEP) {
    NAME(three_windows)(&t, x, column, sum, HELD);
    column += step;
    column -= column >= columns ? columns : 0;
    for (int r = 0; r < HELD; ++r) {
      NAME(vector) *at = (NAME(vector) *)(void *)(to + x + r * L);
      if (add) sum[r] += *at;
      *at = sum[r];
    }
  }
  for (; x < n; x += L, column = (column + L) % columns) {
    NAME(three_windows)(&t, x, column, sum, 1);
    NAME(store_some)(to + x, sum, n - x, add);
  }
}

/* All windows of an image, counted so. */
TN_KERNEL_BODY void NAME(all_windows)(const lines *l) {
  enum { L = NAME(lanes), STEP = HELD * L };
  const int64_t n = l->rows * l->columns, wide = l->wide;
  int64_t x = 0, column = 0;
  if (l->three && l->add) {
    NAME(all_three)(l, 1);
    return;
  }
  if (l->three) {
    NAME(all_three)(l, 0);
    return;
  }
  for (; x + STEP <= n; x += STEP, column = (column + STEP) % l->columns)
    NAME(some_windows)(l, x, column, l->taps / wide, wide, HELD);
  for (; x < n; x += L, column = (column + L) % l->columns)
    NAME(some_windows)(l, x, column, l->taps / wide, wide, 1);
}

/* Line y of an image, or zeros. */
TN_KERNEL_BODY const REAL *NAME(line_at)(const lines *l, int64_t y) {
  return y < 0 || y >= l->rows ? (const REAL *)l->zeros
                               : (const REAL *)l->from + y * l->columns;
}

/* The elements around those of line y from column `at` on. */
TN_KERNEL_BODY void NAME(read_around)(const lines *l, int64_t y, int64_t at,
                                      const NAME(mask) * masks,
                                      NAME(vector) * v) {
  const REAL *line = NAME(line_at)(l, y);
  for (int k = 0; k < 3; ++k)
    v[k] = (NAME(vector))((NAME(mask))VECTOR(line + at + k - 1) & masks[k]);
}

/* An image of out, for windows of 3 x 3 elements around those of data, column
 * by column of vectors: each line that is read serves three. Vectors begin
 * inside of lines, the last one where it overlaps the one before it. */
TN_KERNEL_BODY void NAME(all_around)(const lines *l, const int add) {
  enum { L = NAME(lanes) };
  const NAME(three) t = NAME(three_of)(l);
  const int64_t columns = l->columns, rows = l->rows;
  const NAME(mask) *all = l->inside;
  for (int64_t x = 0; x < columns; x += L, all += 4) {
    const int64_t at = nn_least(x, columns - L);
    const NAME(mask) masks[4] = {all[0], all[1], all[2], all[3]};
    REAL *to = (REAL *)l->to + at;
    NAME(vector) v[9], sum[3];
    NAME(read_around)(l, -1, at, masks, v + 3);
    NAME(read_around)(l, 0, at, masks, v + 6);
    for (int64_t y = 0; y < rows; ++y, to += columns) {
      NAME(vector) *out = (NAME(vector) *)(void *)to;
      for (int k = 0; k < 6; ++k) v[k] = v[k + 3];
      NAME(read_around)(l, y + 1, at, masks, v + 6);
      for (int i = 0; i < 3; ++i) {
        sum[i] = t.weight[3 * i] * v[3 * i];
        sum[i] += t.weight[3 * i + 1] * v[3 * i + 1];
        sum[i] += t.weight[3 * i + 2] * v[3 * i + 2];
      }
      sum[0] += sum[1] + (sum[2] + t.bias);
      if (add) {
        const NAME(vector) both = *out + sum[0];
        sum[0] = (NAME(vector))(((NAME(mask))both & masks[3]) |
                                ((NAME(mask)) * out & ~masks[3]));
      }
      *out = sum[0];
    }
  }
}

/* All lines of an image of out. */
TN_KERNEL_BODY void NAME(all_lines)(const tn_kernel_block *block,
                                    const void *params) {
  const lines *l = params;
  int64_t y = 0;
  (void)block;
  if (l->zeros && l->add)
    NAME(all_around)(l, 1);
  else if (l->zeros)
    NAME(all_around)(l, 0);
  else if (l->wide > 0)
    NAME(all_windows)(l);
  if (l->wide > 0) return;
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

/* A vector of windows, counted across the ends of lines; of its last only
 * those that `keep` has. */
TN_KERNEL_BODY void NAME(add_windows)(const lines *l, int64_t x,
                                      const NAME(vector) * head,
                                      const NAME(mask) * keep,
                                      NAME(vector) * sum, const int taps) {
  const REAL *from = (const REAL *)l->from + x;
  const BITS *inside = (const BITS *)l->inside + x % l->columns;
  for (int t = 0; t < taps; ++t) {
    NAME(mask)
    v = (NAME(mask))VECTOR(from + l->offset[t]) &
        MASK(inside + (l->first + t) % l->wide * l->apart);
    if (keep) v &= *keep;
    sum[t] += *head * (NAME(vector))v;
  }
}

/* The same for all of 3 x 3 elements, in a vector that begins in `column`. */
TN_KERNEL_BODY void NAME(add_three)(const NAME(three) * t, int64_t x,
                                    int64_t column, const NAME(vector) * head,
                                    NAME(vector) * sum) {
  const NAME(mask) first = MASK(t->inside[0] + column);
  const NAME(mask) last = MASK(t->inside[1] + column);
  for (int i = 0; i < 3; ++i) {
    const REAL *at = t->line[i] + x;
    sum[3 * i] += *head * (NAME(vector))((NAME(mask))VECTOR(at - 1) & first);
    sum[3 * i + 1] += *head * VECTOR(at);
    sum[3 * i + 2] += *head * (NAME(vector))((NAME(mask))VECTOR(at + 1) & last);
  }
}

/* The same as some_products for windows counted so. */
TN_KERNEL_BODY void NAME(window_products)(const lines *l, const int taps) {
  enum { L = NAME(lanes) };
  const int64_t n = l->rows * l->columns, rest = n % L, step = L % l->columns;
  const REAL *heads = l->to;
  NAME(vector) *sums = l->sums, sum[HELD_TAPS], head;
  int64_t x = 0, column = 0;
  for (int t = 0; t < taps; ++t) sum[t] = sums[t];
  if (l->three && taps == 9) {
    const NAME(three) t = NAME(three_of)(l);
    for (; x + L <= n; x += L) {
      head = VECTOR(heads + x);
      NAME(add_three)(&t, x, column, &head, sum);
      column += step;
      column -= column >= l->columns ? l->columns : 0;
    }
  }
  for (; x + L <= n; x += L) {
    head = VECTOR(heads + x);
    NAME(add_windows)(l, x, &head, NULL, sum, taps);
  }
  if (rest > 0) {
    NAME(mask) keep;
    NAME(keep_some)(&keep, rest);
    NAME(load_some)(&head, heads + x, rest);
    NAME(add_windows)(l, x, &head, &keep, sum, taps);
  }
  for (int t = 0; t < taps; ++t) sums[t] = sum[t];
}

/* The same for windows around the elements of data: each line that is read
 * serves three. */
TN_KERNEL_BODY void NAME(products_around)(const lines *l) {
  enum { L = NAME(lanes) };
  const int64_t columns = l->columns, rows = l->rows;
  const NAME(mask) *all = l->inside;
  NAME(vector) *sums = l->sums, sum[9];
  for (int t = 0; t < 9; ++t) sum[t] = sums[t];
  for (int64_t x = 0; x < columns; x += L, all += 4) {
    const int64_t at = nn_least(x, columns - L);
    const REAL *heads = (const REAL *)l->to + at;
    const NAME(mask) masks[4] = {all[0], all[1], all[2], all[3]};
    NAME(vector) v[9];
    NAME(read_around)(l, -1, at, masks, v + 3);
    NAME(read_around)(l, 0, at, masks, v + 6);
    for (int64_t y = 0; y < rows; ++y, heads += columns) {
      const NAME(vector) head =
          (NAME(vector))((NAME(mask))VECTOR(heads) & masks[3]);
      for (int k = 0; k < 6; ++k) v[k] = v[k + 3];
      NAME(read_around)(l, y + 1, at, masks, v + 6);
      for (int t = 0; t < 9; ++t) sum[t] += head * v[t];
    }
  }
  for (int t = 0; t < 9; ++t) sums[t] = sum[t];
}

/* Adds head * from, for each element of the window, to the sums of lanes. */
TN_KERNEL_BODY void NAME(some_products)(const lines *l, const int taps) {
  NAME(vector) *sums = l->sums;
  NAME(vector) sum[HELD_TAPS];
  NAME(mask) keep;
  if (l->wide > 0) {
    NAME(window_products)(l, taps);
    return;
  }
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
  if (l.zeros) {
    NAME(products_around)(&l);
    return;
  }
  for (; t + HELD_TAPS <= l.taps; t += HELD_TAPS) {
    NAME(some_products)(&l, HELD_TAPS);
    l.offset += HELD_TAPS;
    l.first += HELD_TAPS;
    l.sums = (NAME(vector) *)l.sums + HELD_TAPS;
  }
  for (; t < l.taps; ++t) {
    NAME(some_products)(&l, 1);
    l.offset += 1;
    l.first += 1;
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
#undef MASK
#undef REAL
#undef BITS
#undef NAME
