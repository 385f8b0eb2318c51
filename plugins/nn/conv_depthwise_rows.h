/* SPDX-License-Identifier: Apache-2.0
 * conv_depthwise_rows.h: the loops of conv_depthwise.c, included by each.h.
 */

enum { NAME(lanes) = BYTES / (int)sizeof(REAL) };

typedef REAL NAME(vector)
    __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef BITS NAME(mask)
    __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));

#define VECTOR(at) (*(const NAME(vector) *)(const void *)(at))

/* Loads the first n elements into *v; the others become zeros. */
BODY void NAME(load_elements)(NAME(vector) * v, const REAL *x, int64_t n) {
  *v = (NAME(vector)){0};
  if (n >= NAME(lanes))
    *v = VECTOR(x);
  else
    memcpy(v, x, (size_t)n * sizeof *x);
}

/* Stores the first n elements, or adds them to the old ones. */
BODY void NAME(store_elements)(REAL *y, NAME(vector) * v, int64_t n, int add) {
  NAME(vector) old;
  if (add) {
    NAME(load_elements)(&old, y, n);
    *v += old;
  }
  if (n >= NAME(lanes))
    *(NAME(vector) *)(void *)y = *v;
  else
    memcpy(y, v, (size_t)n * sizeof *y);
}

/* Copies a line to its padded copy: with several phases every `step`-th column
 * to the same phase, otherwise with gaps between columns. */
BODY void NAME(pad_line)(const padded_layout *s, const REAL *from, REAL *row,
                         const int64_t step) {
  const nn_range inside = s->inside;
  for (int64_t j = inside.begin; step == 1 && j < inside.end; ++j)
    row[j * s->spacing[1] + s->pad[1]] = from[j];
  for (int64_t p = 0; step > 1 && p < step; ++p) {
    const int64_t at = s->pad[1] - p;
    const int64_t end = nn_ceil_div(inside.end + at, step);
    for (int64_t k = nn_ceil_div(inside.begin + at, step); k < end; ++k)
      row[p * s->phase + k] = from[k * step - at];
  }
}

/* Makes the padded copy of an image, with zeros around its elements and between
 * them. Its columns are sorted by their remainder modulo the step of windows.
 */
LOOP(pad_image) {
  const padded_layout *s = params;
  const REAL *from = block->in[0];
  REAL *to = block->out;
  memset(to, 0, (size_t)(s->rows * s->pitch) * sizeof *to);
  for (int64_t i = 0; i < s->from_rows; ++i, from += s->from_columns) {
    const int64_t y = i * s->spacing[0] + s->pad[0];
    REAL *row = to + y * s->pitch;
    if (y < 0 || y >= s->rows) continue;
    if (s->step == 1 && s->spacing[1] == 1)
      memcpy(row + s->pad[1] + s->inside.begin, from + s->inside.begin,
             (size_t)(s->inside.end - s->inside.begin) * sizeof *to);
    else if (s->step == 1)
      NAME(pad_line)(s, from, row, 1);
    else if (s->step == 2)
      NAME(pad_line)(s, from, row, 2);
    else
      NAME(pad_line)(s, from, row, s->step);
  }
}

/* Computes one vector of each of `n_sums` lines of out, from line y and column
 * x on. Each sum is over a window. */
BODY void NAME(compute_lines)(const line_loop *l, int64_t y, int64_t x,
                              const int n_sums) {
  const REAL *from = (const REAL *)l->from + y * l->down + x;
  const REAL *weight = l->weight;
  NAME(vector) sum[REGISTER_SUMS];
  for (int r = 0; r < n_sums; ++r) sum[r] = (NAME(vector)){0} + (REAL)l->bias;
  for (int64_t t = 0; t < l->taps; ++t)
    for (int r = 0; r < n_sums; ++r)
      sum[r] += weight[t] * VECTOR(from + r * l->down + l->offset[t]);
  for (int r = 0; r < n_sums; ++r) NAME(store_elements)
  ((REAL *)l->to + (y + r) * l->columns + x, &sum[r], l->columns - x, l->add);
}

/* Does the same as compute_lines for windows of 3 x 3 with step 1: each input
 * line serves three output lines. */
TN_KERNEL_UNCHECKED BODY void NAME(compute_lines_3x3)(const line_loop *l,
                                                      int64_t y, int64_t x,
                                                      const int n_sums) {
  const REAL *from = (const REAL *)l->from + y * l->down + x;
  const REAL *w = l->weight;
  NAME(vector) sum[REGISTER_SUMS];
  REAL weight[9];
  for (int t = 0; t < 9; ++t) weight[t] = w[l->reversed ? 8 - t : t];
  for (int r = 0; r < n_sums; ++r) sum[r] = (NAME(vector)){0} + (REAL)l->bias;
  NN_CONV_UNROLL
  for (int i = 0; i < n_sums + 2; ++i)
    for (int k = 0; k < 3; ++k) {
      const NAME(vector) v = VECTOR(from + i * l->down + k);
      NN_CONV_UNROLL
      for (int r = 0; r < n_sums; ++r)
        if (i - r >= 0 && i - r < 3) sum[r] += weight[(i - r) * 3 + k] * v;
    }
  for (int r = 0; r < n_sums; ++r) NAME(store_elements)
  ((REAL *)l->to + (y + r) * l->columns + x, &sum[r], l->columns - x, l->add);
}

/* Computes `n_sums` lines of out from line y on. Unless it adds, the last
 * vector of a line overlaps the one before, because partial vectors are slower
 * to write. */
BODY void NAME(compute_line_group)(const line_loop *l, int64_t y,
                                   const int n_sums) {
  const int overlaps = l->columns >= NAME(lanes) && !l->add;
  const int64_t last = l->columns - NAME(lanes);
  for (int64_t x = 0; x < l->columns; x += NAME(lanes)) {
    const int64_t at = overlaps && x > last ? last : x;
    if (l->three)
      NAME(compute_lines_3x3)(l, y, at, n_sums);
    else
      NAME(compute_lines)(l, y, at, n_sums);
  }
}

#define MASK(at) (*(const NAME(mask) *)(const void *)(at))

/* Computes `n_sums` vectors of windows from number x on, counted across the
 * ends of lines; the first window is in `column`. Windows have `high` x `wide`
 * elements. */
BODY void NAME(compute_windows)(const line_loop *l, int64_t x, int64_t column,
                                const int64_t high, const int64_t wide,
                                const int n_sums) {
  enum { L = NAME(lanes) };
  const REAL *from = (const REAL *)l->from + x, *weight = l->weight;
  const int64_t n = l->rows * l->columns - x;
  NAME(vector) sum[REGISTER_SUMS];
  for (int r = 0; r < n_sums; ++r) sum[r] = (NAME(vector)){0} + (REAL)l->bias;
  for (int64_t k = 0; k < wide; ++k) {
    const BITS *inside =
        (const BITS *)l->inside + k * l->mask_distance + column;
    for (int64_t i = 0; i < high; ++i) {
      const int64_t t = i * wide + k;
      const REAL *at = from + l->offset[t];
      const REAL w = weight[l->reversed ? l->taps - 1 - t : t];
      for (int r = 0; r < n_sums; ++r)
        sum[r] += w * (NAME(vector))((NAME(mask))VECTOR(at + r * L) &
                                     MASK(inside + r * L));
    }
  }
  for (int r = 0; r < n_sums && r * L < n; ++r) NAME(store_elements)
  ((REAL *)l->to + x + r * L, &sum[r], n - r * L, l->add);
}

/* The inputs and weights of windows of 3 x 3 elements. */
typedef struct NAME(window_3x3) {
  const REAL *line[3];   /* middle element of each line of window 0 */
  const BITS *inside[2]; /* masks of the elements on both sides */
  REAL weight[9];
  REAL bias;
} NAME(window_3x3);

BODY NAME(window_3x3) NAME(make_window_3x3)(const line_loop *l) {
  const REAL *weight = l->weight;
  NAME(window_3x3)
  t = {.inside = {(const BITS *)l->inside,
                  (const BITS *)l->inside + 2 * l->mask_distance},
       .bias = (REAL)l->bias};
  for (int i = 0; i < 3; ++i)
    t.line[i] = (const REAL *)l->from + l->offset[3 * i + 1];
  for (int i = 0; i < 9 && weight; ++i)
    t.weight[i] = weight[l->reversed ? 8 - i : i];
  return t;
}

/* Computes `n_sums` vectors of windows of 3 x 3 elements, as compute_windows
 * does. */
BODY void NAME(compute_windows_3x3)(const NAME(window_3x3) * t, int64_t x,
                                    int64_t column, NAME(vector) * sum,
                                    const int n_sums) {
  enum { L = NAME(lanes) };
  NAME(mask) first[REGISTER_SUMS], last[REGISTER_SUMS];
  for (int r = 0; r < n_sums; ++r) {
    sum[r] = (NAME(vector)){0} + t->bias;
    first[r] = MASK(t->inside[0] + column + r * L);
    last[r] = MASK(t->inside[1] + column + r * L);
  }
  for (int i = 0; i < 3; ++i) {
    const REAL *at = t->line[i] + x, *w = t->weight + 3 * i;
    for (int r = 0; r < n_sums; ++r, at += L) {
      sum[r] += w[0] * (NAME(vector))((NAME(mask))VECTOR(at - 1) & first[r]);
      sum[r] += w[1] * VECTOR(at);
      sum[r] += w[2] * (NAME(vector))((NAME(mask))VECTOR(at + 1) & last[r]);
    }
  }
}

BODY void NAME(compute_image_3x3)(const line_loop *l, const int add) {
  enum { L = NAME(lanes), STEP = REGISTER_SUMS * L };
  const NAME(window_3x3) t = NAME(make_window_3x3)(l);
  const int64_t n = l->rows * l->columns, columns = l->columns;
  const int64_t step = STEP % columns;
  REAL *to = l->to;
  NAME(vector) sum[REGISTER_SUMS];
  int64_t x = 0, column = 0;
  for (; x + STEP <= n; x += STEP) {
    NAME(compute_windows_3x3)(&t, x, column, sum, REGISTER_SUMS);
    column += step;
    column -= column >= columns ? columns : 0;
    for (int r = 0; r < REGISTER_SUMS; ++r) {
      NAME(vector) *at = (NAME(vector) *)(void *)(to + x + r * L);
      if (add) sum[r] += *at;
      *at = sum[r];
    }
  }
  for (; x < n; x += L, column = (column + L) % columns) {
    NAME(compute_windows_3x3)(&t, x, column, sum, 1);
    NAME(store_elements)(to + x, sum, n - x, add);
  }
}

/* Computes all windows of an image, counted across the ends of lines. */
BODY void NAME(compute_all_windows)(const line_loop *l) {
  enum { L = NAME(lanes), STEP = REGISTER_SUMS * L };
  const int64_t n = l->rows * l->columns, wide = l->wide;
  int64_t x = 0, column = 0;
  if (l->three && l->add) {
    NAME(compute_image_3x3)(l, 1);
    return;
  }
  if (l->three) {
    NAME(compute_image_3x3)(l, 0);
    return;
  }
  for (; x + STEP <= n; x += STEP, column = (column + STEP) % l->columns)
    NAME(compute_windows)(l, x, column, l->taps / wide, wide, REGISTER_SUMS);
  for (; x < n; x += L, column = (column + L) % l->columns)
    NAME(compute_windows)(l, x, column, l->taps / wide, wide, 1);
}

/* Loads a vector of a line into v[1], and the vectors of left and right
 * neighbours into v[0] and v[2]; padding becomes 0. */
BODY void NAME(load_neighbours)(const REAL *line, const NAME(mask) * masks,
                                NAME(vector) * v) {
  for (int k = 0; k < 3; ++k)
    v[k] = (NAME(vector))((NAME(mask))VECTOR(line + k - 1) & masks[k]);
}

/* Adds the products of a window's line with one input line to *sum. */
BODY void NAME(add_line_products)(const NAME(vector) * weight,
                                  const NAME(vector) * v, NAME(vector) * sum) {
  NAME(vector) own = weight[0] * v[0];
  own += weight[1] * v[1];
  own += weight[2] * v[2];
  *sum += own;
}

/* Stores a vector of a line of windows; if `add`, adds it to the columns in
 * `keep`. */
BODY void NAME(store_columns)(REAL *to, const NAME(vector) * sum,
                              const NAME(mask) * keep, const int add) {
  NAME(vector) *out = (NAME(vector) *)(void *)to;
  if (add) {
    const NAME(vector) both = *out + *sum;
    *out = (NAME(vector))(((NAME(mask))both & *keep) |
                          ((NAME(mask)) * out & ~*keep));
  } else {
    *out = *sum;
  }
}

/* Computes an image of out, for windows of 3 x 3 elements around the elements
 * of data, one column of vectors after the other. Each line is read once;
 * registers keep its contributions until the lines of windows around it are
 * complete. Vectors begin inside of lines; the last one may overlap the one
 * before. */
BODY void NAME(compute_image_in_place)(const line_loop *l, const int add) {
  enum { L = NAME(lanes) };
  const NAME(window_3x3) t = NAME(make_window_3x3)(l);
  const int64_t columns = l->columns;
  const NAME(mask) *all = l->inside;
  NAME(vector) weight[9], v[3], none = (NAME(vector)){0} + t.bias;
  for (int i = 0; i < 9; ++i) weight[i] = (NAME(vector)){0} + t.weight[i];
  for (int64_t x = 0; x < columns; x += L, all += 4) {
    const int64_t at = nn_min(x, columns - L);
    const REAL *line = (const REAL *)l->from + at;
    REAL *to = (REAL *)l->to + at;
    NAME(vector) first = none, second = none;
    NAME(load_neighbours)(line, all, v);
    NAME(add_line_products)(weight + 3, v, &first);
    NAME(add_line_products)(weight, v, &second);
    for (int64_t y = 1; y < l->rows; ++y, to += columns) {
      line += columns;
      NAME(load_neighbours)(line, all, v);
      NAME(add_line_products)(weight + 6, v, &first);
      NAME(store_columns)(to, &first, all + 3, add);
      first = second;
      NAME(add_line_products)(weight + 3, v, &first);
      second = none;
      NAME(add_line_products)(weight, v, &second);
    }
    NAME(store_columns)(to, &first, all + 3, add);
  }
}

/* Computes an image of out. */
LOOP(compute_image) {
  const line_loop *l = params;
  int64_t y = 0;
  (void)block;
  if (l->in_place && l->add)
    NAME(compute_image_in_place)(l, 1);
  else if (l->in_place)
    NAME(compute_image_in_place)(l, 0);
  else if (l->wide > 0)
    NAME(compute_all_windows)(l);
  if (l->wide > 0) return;
  for (; y + REGISTER_SUMS <= l->rows; y += REGISTER_SUMS)
    NAME(compute_line_group)(l, y, REGISTER_SUMS);
  for (; y < l->rows; ++y) NAME(compute_line_group)(l, y, 1);
}

/* Sets the first n lanes of a mask. Masks are necessary because a product with
 * zero would not remove infinite elements. */
BODY void NAME(mask_lanes)(NAME(mask) * keep, int64_t n) {
  BITS lanes[NAME(lanes)];
  for (int i = 0; i < NAME(lanes); ++i) lanes[i] = i < n ? -1 : 0;
  memcpy(keep, lanes, sizeof lanes);
}

/* Adds the products of the last columns of line y, which are fewer than a
 * vector. */
BODY void NAME(add_last_products)(const line_loop *l, int64_t y,
                                  const NAME(mask) * keep, NAME(vector) * sum,
                                  const int taps) {
  const int64_t n = l->columns % NAME(lanes), x = l->columns - n;
  const REAL *from = (const REAL *)l->from + y * l->down + x;
  const REAL *at = (const REAL *)l->to + y * l->columns + x;
  NAME(vector) out_gradient, v;
  /* The last lanes of a full vector are of the next line; `keep` removes them.
   */
  if (y + 1 < l->rows && l->columns >= NAME(lanes))
    out_gradient = VECTOR(at);
  else
    NAME(load_elements)(&out_gradient, at, n);
  out_gradient = (NAME(vector))((NAME(mask))out_gradient & *keep);
  for (int t = 0; t < taps; ++t) {
    v = (NAME(vector))((NAME(mask))VECTOR(from + l->offset[t]) & *keep);
    sum[t] += out_gradient * v;
  }
}

/* Adds the products of a vector of windows, counted across the ends of lines,
 * to the sums of `taps` taps. If `keep` is not NULL, only its lanes are used.
 */
BODY void NAME(add_window_products)(const line_loop *l, int64_t x,
                                    const NAME(vector) * out_gradient,
                                    const NAME(mask) * keep, NAME(vector) * sum,
                                    const int taps) {
  const REAL *from = (const REAL *)l->from + x;
  const BITS *inside = (const BITS *)l->inside + x % l->columns;
  for (int t = 0; t < taps; ++t) {
    NAME(mask)
    v = (NAME(mask))VECTOR(from + l->offset[t]) &
        MASK(inside + (l->first + t) % l->wide * l->mask_distance);
    if (keep) v &= *keep;
    sum[t] += *out_gradient * (NAME(vector))v;
  }
}

/* Adds the products of a vector of windows to the sums of all 3 x 3 taps; the
 * first window is in `column`. */
BODY void NAME(add_products_3x3)(const NAME(window_3x3) * t, int64_t x,
                                 int64_t column,
                                 const NAME(vector) * out_gradient,
                                 NAME(vector) * sum) {
  const NAME(mask) first = MASK(t->inside[0] + column);
  const NAME(mask) last = MASK(t->inside[1] + column);
  for (int i = 0; i < 3; ++i) {
    const REAL *at = t->line[i] + x;
    sum[3 * i] +=
        *out_gradient * (NAME(vector))((NAME(mask))VECTOR(at - 1) & first);
    sum[3 * i + 1] += *out_gradient * VECTOR(at);
    sum[3 * i + 2] +=
        *out_gradient * (NAME(vector))((NAME(mask))VECTOR(at + 1) & last);
  }
}

/* Adds output gradient * input to the sums of `taps` taps, for windows that are
 * counted across the ends of lines. */
BODY void NAME(sum_window_products)(const line_loop *l, const int taps) {
  enum { L = NAME(lanes) };
  const int64_t n = l->rows * l->columns, rest = n % L, step = L % l->columns;
  const REAL *out_gradients = l->to;
  NAME(vector) *sums = l->sums, sum[REGISTER_TAPS], out_gradient;
  int64_t x = 0, column = 0;
  for (int t = 0; t < taps; ++t) sum[t] = sums[t];
  if (l->three && taps == 9) {
    const NAME(window_3x3) t = NAME(make_window_3x3)(l);
    for (; x + L <= n; x += L) {
      out_gradient = VECTOR(out_gradients + x);
      NAME(add_products_3x3)(&t, x, column, &out_gradient, sum);
      column += step;
      column -= column >= l->columns ? l->columns : 0;
    }
  }
  for (; x + L <= n; x += L) {
    out_gradient = VECTOR(out_gradients + x);
    NAME(add_window_products)(l, x, &out_gradient, NULL, sum, taps);
  }
  if (rest > 0) {
    NAME(mask) keep;
    NAME(mask_lanes)(&keep, rest);
    NAME(load_elements)(&out_gradient, out_gradients + x, rest);
    NAME(add_window_products)(l, x, &out_gradient, &keep, sum, taps);
  }
  for (int t = 0; t < taps; ++t) sums[t] = sum[t];
}

/* Adds the products of a vector of an input line with the lines of the output
 * gradient after, on and before it; out_gradient[i] exists for i in `existing`.
 * It handles one vector at a time, because registers have no room for more. */
BODY void NAME(add_line_gradients)(const REAL *line, const NAME(mask) * masks,
                                   const NAME(vector) * out_gradient,
                                   NAME(vector) * sum,
                                   const nn_range existing) {
  for (int k = 0; k < 3; ++k) {
    const NAME(vector) v =
        (NAME(vector))((NAME(mask))VECTOR(line + k - 1) & masks[k]);
    for (int64_t i = existing.begin; i < existing.end; ++i)
      sum[3 * i + k] += out_gradient[i] * v;
  }
}

/* Adds the products of one column of vectors, at column `at`. */
BODY void NAME(add_column_gradients)(const line_loop *l, int64_t at,
                                     const NAME(mask) * masks,
                                     NAME(vector) * sum) {
  const int64_t columns = l->columns;
  const REAL *line = (const REAL *)l->from + at;
  const REAL *out_gradients = (const REAL *)l->to + at;
  NAME(vector) out_gradient[3];
  out_gradient[1] =
      (NAME(vector))((NAME(mask))VECTOR(out_gradients) & masks[3]);
  if (l->rows == 1) {
    NAME(add_line_gradients)(line, masks, out_gradient, sum, (nn_range){1, 2});
    return;
  }
  out_gradient[0] =
      (NAME(vector))((NAME(mask))VECTOR(out_gradients + columns) & masks[3]);
  NAME(add_line_gradients)(line, masks, out_gradient, sum, (nn_range){0, 2});
  for (int64_t y = 2; y < l->rows; ++y) {
    line += columns;
    out_gradient[2] = out_gradient[1];
    out_gradient[1] = out_gradient[0];
    out_gradient[0] = (NAME(vector))(
        (NAME(mask))VECTOR(out_gradients + y * columns) & masks[3]);
    NAME(add_line_gradients)(line, masks, out_gradient, sum, (nn_range){0, 3});
  }
  out_gradient[2] = out_gradient[1];
  out_gradient[1] = out_gradient[0];
  NAME(add_line_gradients)
  (line + columns, masks, out_gradient, sum, (nn_range){1, 3});
}

/* Adds output gradient * input to all sums, for windows of 3 x 3 elements
 * around those of data. Each line that is read serves three lines of windows.
 */
BODY void NAME(sum_products_in_place)(const line_loop *l) {
  enum { L = NAME(lanes) };
  const NAME(mask) *masks = l->inside;
  NAME(vector) *sums = l->sums, sum[9];
  for (int t = 0; t < 9; ++t) sum[t] = sums[t];
  for (int64_t x = 0; x < l->columns; x += L, masks += 4)
    NAME(add_column_gradients)(l, nn_min(x, l->columns - L), masks, sum);
  for (int t = 0; t < 9; ++t) sums[t] = sum[t];
}

/* Adds output gradient * input to the sums of `taps` taps from l->first on;
 * sums have one number for each lane. */
BODY void NAME(sum_products)(const line_loop *l, const int taps) {
  NAME(vector) *sums = l->sums;
  NAME(vector) sum[REGISTER_TAPS];
  NAME(mask) keep;
  if (l->wide > 0) {
    NAME(sum_window_products)(l, taps);
    return;
  }
  NAME(mask_lanes)(&keep, l->columns % NAME(lanes));
  for (int t = 0; t < taps; ++t) sum[t] = sums[t];
  for (int64_t y = 0; y < l->rows; ++y) {
    int64_t x = 0;
    for (; x + NAME(lanes) <= l->columns; x += NAME(lanes)) {
      const REAL *from = (const REAL *)l->from + y * l->down + x;
      const NAME(vector) out_gradient =
          VECTOR((const REAL *)l->to + y * l->columns + x);
      for (int t = 0; t < taps; ++t)
        sum[t] += out_gradient * VECTOR(from + l->offset[t]);
    }
    if (x < l->columns) NAME(add_last_products)(l, y, &keep, sum, taps);
  }
  for (int t = 0; t < taps; ++t) sums[t] = sum[t];
}

LOOP(sum_all_products) {
  line_loop l = *(const line_loop *)params;
  int64_t t = 0;
  (void)block;
  if (l.in_place) {
    NAME(sum_products_in_place)(&l);
    return;
  }
  for (; t + REGISTER_TAPS <= l.taps; t += REGISTER_TAPS) {
    NAME(sum_products)(&l, REGISTER_TAPS);
    l.offset += REGISTER_TAPS;
    l.first += REGISTER_TAPS;
    l.sums = (NAME(vector) *)l.sums + REGISTER_TAPS;
  }
  for (; t < l.taps; ++t) {
    NAME(sum_products)(&l, 1);
    l.offset += 1;
    l.first += 1;
    l.sums = (NAME(vector) *)l.sums + 1;
  }
}

/* Adds the lanes of each sum; writes the result to out, or adds it. */
LOOP(sum_lanes) {
  const line_loop *l = params;
  const REAL *sums = l->sums;
  REAL *to = block->out;
  for (int64_t t = 0; t < l->taps; ++t) {
    double sum = 0;
    for (int i = 0; i < NAME(lanes); ++i)
      sum += (double)sums[t * NAME(lanes) + i];
    to[t] = (REAL)(sum + (l->add ? (double)to[t] : 0));
  }
}

#undef VECTOR
#undef MASK
