/* SPDX-License-Identifier: Apache-2.0
 * product_tile.h: blocks of a matrix product, for one element type and one
 * level of instructions. Included by product.h only, several times, with
 *
 *   TN_TILE_T       the element type
 *   TN_TILE_NAME    name(x): x with type and level as its suffix
 *   TN_TILE_TARGET  the attribute of the level, or nothing
 *   TN_TILE_BYTES   of a vector register
 *   TN_TILE_ROWS    of c with sums in registers, two vectors wide; a multiple
 *                   of 6
 *   TN_TILE_TRANSPOSE    the loop of transpose.h for such elements at the level
 *
 * which it undefines.
 *
 * Rows of op(a) are read in place, unless its columns are contiguous: then each
 * element of a row is in another cache line, often of the same set, and some
 * rows are gathered before. Strips of op(b), two vectors wide, are packed for
 * later rows. If the rows of op(b) are contiguous, the first rows that are
 * multiplied with a strip pack it, at almost no cost; if the columns are,
 * squares are transposed in registers.
 */
enum {
  TN_TILE_NAME(lanes) = TN_TILE_BYTES / (int)sizeof(TN_TILE_T),
  TN_TILE_NAME(wide) = 2 * TN_TILE_NAME(lanes),
  /* Rows that are turned at a time, and bands that are gathered. */
  TN_TILE_NAME(group) = 4 * TN_TILE_ROWS,
  TN_TILE_NAME(bands) = TN_PRODUCT_GATHER / TN_PRODUCT_FLAT /
                        (int)sizeof(TN_TILE_T) / TN_TILE_ROWS
};

/* Contiguous elements, at any address. */
typedef TN_TILE_T TN_TILE_NAME(vector)
    __attribute__((vector_size(TN_TILE_BYTES), aligned(sizeof(TN_TILE_T)),
                   may_alias));

/* Some rows times a strip: as many as the function handles. */
typedef struct TN_TILE_NAME(step) {
  const TN_TILE_T *a;
  int64_t a_row;
  int64_t a_column;
  const TN_TILE_T *b; /* whole vectors */
  int64_t b_row;
  TN_TILE_T *kept; /* address for packed strips, if they are packed */
  tn_product_target c;
  int64_t done; /* first rows of c that are not changed */
  int64_t n;    /* columns */
  int64_t depth;
} TN_TILE_NAME(step);

#define TN_TILE_EVER                               \
  TN_TILE_TARGET TN_KERNEL_UNCHECKED static inline \
      __attribute__((always_inline))

/* c = alpha * sums + beta * c. */
TN_TILE_EVER void TN_TILE_NAME(store)(const TN_TILE_NAME(step) * s,
                                      TN_TILE_NAME(vector) sum[][2],
                                      const int held, const int across) {
  typedef TN_TILE_NAME(vector) vector;
  const TN_TILE_T alpha = (TN_TILE_T)s->c.alpha, beta = (TN_TILE_T)s->c.beta;
  const int64_t row = s->c.row;
  const int done = (int)s->done, write = s->c.beta == 0;
  TN_TILE_T *at = (TN_TILE_T *)s->c.at;
  if (write && done == 0) {
    TN_PRODUCT_UNROLL
    for (int r = 0; r < held; ++r, at += row)
      for (int w = 0; w < across; ++w)
        ((vector *)(void *)at)[w] = alpha * sum[r][w];
    return;
  }
  TN_PRODUCT_UNROLL
  for (int r = 0; r < held; ++r, at += row) {
    vector *to = (vector *)(void *)at;
    if (r < done) continue;
    for (int w = 0; w < across; ++w)
      to[w] = write ? alpha * sum[r][w] : alpha * sum[r][w] + beta * to[w];
  }
}

/* `held` rows times a strip of `across` vectors. */
TN_TILE_EVER void TN_TILE_NAME(multiply)(const TN_TILE_NAME(step) * s,
                                         const int held, const int across,
                                         const int keep) {
  enum { L = TN_TILE_NAME(lanes), THREE = 3 };
  typedef TN_TILE_NAME(vector) vector;
  const int64_t row = s->a_row, step = s->a_column, b_row = s->b_row;
  const int64_t depth = s->depth;
  const TN_TILE_T *at[(TN_TILE_ROWS + 2) / THREE], *beside = s->b;
  const vector zero = {0};
  vector sum[TN_TILE_ROWS][2];
  TN_TILE_T *kept = s->kept;
  TN_PRODUCT_UNROLL
  for (int r = 0; r < held; ++r) {
    if (r % THREE == 0) at[r / THREE] = s->a + r * row;
    sum[r][0] = sum[r][1] = zero;
  }
  if (depth > TN_PRODUCT_FAR)
    for (int r = 0; r < held; ++r)
      for (int w = 0; w < across; ++w)
        __builtin_prefetch((TN_TILE_T *)s->c.at + r * s->c.row + w * L, 1);
  for (int64_t p = 0; p < depth; ++p, beside += b_row) {
    vector b[2];
    for (int w = 0; w < across; ++w)
      b[w] = ((const vector *)(const void *)beside)[w];
    if (keep)
      for (int w = 0; w < across; ++w, kept += L) {
        __builtin_prefetch(beside + TN_PRODUCT_PREFETCH * b_row + w * L);
        *(vector *)(void *)kept = b[w];
      }
    TN_PRODUCT_UNROLL
    for (int r = 0; r < held; ++r) {
      const TN_TILE_T a = at[r / THREE][r % THREE * row];
      for (int w = 0; w < across; ++w) sum[r][w] += a * b[w];
    }
    TN_PRODUCT_UNROLL
    for (int r = 0; r < held; r += THREE) at[r / THREE] += step;
  }
  TN_TILE_NAME(store)(s, sum, held, across);
}

/* The same with one vector if there are no more. */
TN_TILE_EVER void TN_TILE_NAME(across)(const TN_TILE_NAME(step) * s,
                                       const int held) {
  if (s->n > TN_TILE_NAME(lanes) && s->kept)
    TN_TILE_NAME(multiply)(s, held, 2, 1);
  else if (s->n > TN_TILE_NAME(lanes))
    TN_TILE_NAME(multiply)(s, held, 2, 0);
  else if (s->kept)
    TN_TILE_NAME(multiply)(s, held, 1, 1);
  else
    TN_TILE_NAME(multiply)(s, held, 1, 0);
}

TN_TILE_TARGET static void TN_TILE_NAME(most)(const TN_TILE_NAME(step) * s) {
  TN_TILE_NAME(across)(s, TN_TILE_ROWS);
}

TN_TILE_TARGET static void TN_TILE_NAME(half)(const TN_TILE_NAME(step) * s) {
  TN_TILE_NAME(across)(s, TN_TILE_ROWS / 2);
}

TN_TILE_TARGET static void TN_TILE_NAME(three)(const TN_TILE_NAME(step) * s) {
  TN_TILE_NAME(across)(s, 3);
}

TN_TILE_TARGET static void TN_TILE_NAME(one)(const TN_TILE_NAME(step) * s) {
  TN_TILE_NAME(across)(s, 1);
}

/* Copies n elements of at most two vectors, in as few moves as n has bits. */
TN_TILE_EVER void TN_TILE_NAME(copy)(TN_TILE_T *to, const TN_TILE_T *from,
                                     int64_t n) {
  int64_t at = 0;
  TN_PRODUCT_UNROLL
  for (int bit = TN_TILE_NAME(wide); bit > 0; bit /= 2)
    if (n & bit) {
      memcpy(to + at, from + at, (size_t)bit * sizeof *to);
      at += bit;
    }
}

/* Elements from one row of a packed strip to the next: whole vectors. */
TN_TILE_EVER int64_t TN_TILE_NAME(span)(int64_t n) {
  return n > TN_TILE_NAME(lanes) ? (int64_t)TN_TILE_NAME(wide)
                                 : (int64_t)TN_TILE_NAME(lanes);
}

/* A strip of n columns, filled up with zeros. */
TN_TILE_TARGET static void TN_TILE_NAME(pack)(TN_TILE_T *to,
                                              const tn_product_matrix *b,
                                              int64_t n, int64_t depth) {
  const TN_TILE_T *from = (const TN_TILE_T *)b->at;
  const int64_t span = TN_TILE_NAME(span)(n);
  if (n < span) memset(to, 0, (size_t)(depth * span) * sizeof *to);
  if (b->column == 1) {
    for (int64_t p = 0; p < depth; ++p)
      TN_TILE_NAME(copy)(to + p * span, from + p * b->row, n);
  } else if (b->row == 1) {
    const tn_transpose t = {
        (char *)to, (const char *)from, span, b->column, depth, n};
    TN_TILE_TRANSPOSE(&t);
  } else {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < depth; ++p)
        to[p * span + j] = from[p * b->row + j * b->column];
  }
}

/* The strips that some rows of a block are multiplied with: packed, or packed
 * by the first rows. */
typedef struct TN_TILE_NAME(strips) {
  TN_TILE_T *room;
  int in_place;        /* whole strips are read in place, */
  int keep;            /* and packed by their readers */
  TN_TILE_T *gathered; /* room for rows of op(a), if they are gathered */
} TN_TILE_NAME(strips);

/* Some rows of a block, as many as `multiply` handles; the first ones have been
 * done. */
typedef struct TN_TILE_NAME(band) {
  void (*multiply)(const TN_TILE_NAME(step) * s);
  tn_product_matrix a; /* the rows of op(a) */
  int64_t held;
  int64_t first;
  int64_t done;
} TN_TILE_NAME(band);

/* Brings rows of `made`, two vectors each, into the first n columns of c. */
TN_TILE_TARGET static void TN_TILE_NAME(join)(const tn_product_target *c,
                                              const TN_TILE_T *made,
                                              int64_t rows, int64_t n) {
  const TN_TILE_T beta = (TN_TILE_T)c->beta;
  for (int64_t r = 0; r < rows; ++r) {
    const TN_TILE_T *from = made + r * TN_TILE_NAME(wide);
    TN_TILE_T *to = (TN_TILE_T *)c->at + r * c->row;
    if (c->beta == 0)
      for (int64_t j = 0; j < n; ++j) to[j] = from[j];
    else
      for (int64_t j = 0; j < n; ++j) to[j] = from[j] + beta * to[j];
  }
}

/* The same with a partial strip; its sums are computed in a buffer. */
TN_TILE_TARGET static void TN_TILE_NAME(part)(const TN_TILE_NAME(step) * s,
                                              const TN_TILE_NAME(band) * band) {
  TN_TILE_T made[TN_TILE_ROWS * TN_TILE_NAME(wide)];
  TN_TILE_NAME(step) aside = *s;
  tn_product_target c = s->c;
  aside.c.at = made;
  aside.c.row = TN_TILE_NAME(wide);
  aside.c.beta = 0;
  band->multiply(&aside);
  c.at = (TN_TILE_T *)c.at + band->done * c.row;
  TN_TILE_NAME(join)
  (&c, made + band->done * TN_TILE_NAME(wide), band->held - band->done, s->n);
}

TN_TILE_TARGET static void TN_TILE_NAME(row)(const tn_product_block *x,
                                             const TN_TILE_NAME(strips) *
                                                 strips,
                                             const TN_TILE_NAME(band) * band) {
  enum { W = TN_TILE_NAME(wide) };
  TN_TILE_NAME(step) s;
  s.a = (const TN_TILE_T *)band->a.at;
  s.a_row = band->a.row;
  s.a_column = band->a.column;
  s.c = x->c;
  s.done = band->done;
  s.depth = x->k;
  TN_TILE_T *c = (TN_TILE_T *)x->c.at + band->first * x->c.row;
  for (int64_t j = 0; j < x->n; j += W) {
    TN_TILE_T *packed = strips->room + j * x->k;
    s.n = x->n - j < W ? x->n - j : (int64_t)W;
    s.c.at = c + j;
    s.b = packed;
    s.b_row = TN_TILE_NAME(span)(s.n);
    s.kept = (TN_TILE_T *)0;
    if (strips->in_place && s.n == s.b_row) {
      s.b = (const TN_TILE_T *)x->b.at + j;
      s.b_row = x->b.row;
      s.kept = strips->keep ? packed : (TN_TILE_T *)0;
    }
    if (s.n % TN_TILE_NAME(lanes) == 0)
      band->multiply(&s);
    else
      TN_TILE_NAME(part)(&s, band);
  }
}

/* The rows from `first` on that are multiplied at once: the smallest band that
 * covers the remaining rows, with some finished rows if too few remain. */
TN_TILE_EVER TN_TILE_NAME(band)
    TN_TILE_NAME(band_of)(const tn_product_block *x, int64_t first) {
  const int64_t m = x->m, left = m - first;
  TN_TILE_NAME(band) band = {TN_TILE_NAME(one), x->a, 1, first, 0};
  if (left > TN_TILE_ROWS / 2 && m >= TN_TILE_ROWS) {
    band.multiply = TN_TILE_NAME(most);
    band.held = TN_TILE_ROWS;
  } else if (left > 3 && m >= TN_TILE_ROWS / 2) {
    band.multiply = TN_TILE_NAME(half);
    band.held = TN_TILE_ROWS / 2;
  } else if (left > 1 && m >= 3) {
    band.multiply = TN_TILE_NAME(three);
    band.held = 3;
  }
  if (left < band.held) {
    band.first = m - band.held;
    band.done = band.held - left;
  }
  band.a.at = (const TN_TILE_T *)x->a.at + band.first * x->a.row;
  return band;
}

/* Gathers the rows of some bands of op(a) from `first` on, if its columns are
 * contiguous: band by band, column by column of each. It moves whole vectors;
 * the next column overwrites their ends, except that of the last. */
TN_TILE_TARGET static void TN_TILE_NAME(gather)(TN_TILE_T *to,
                                                const tn_product_block *x,
                                                int64_t first) {
  enum { ROWS = TN_TILE_ROWS, BANDS = TN_TILE_NAME(bands) };
  enum { L = TN_TILE_NAME(lanes), WIDE = (ROWS + L - 1) / L };
  typedef TN_TILE_NAME(vector) vector;
  const TN_TILE_T *from = (const TN_TILE_T *)x->a.at;
  const int64_t step = x->a.column, last = x->k - 1, band = ROWS * x->k;
  int64_t at[BANDS] = {first}, bands = 0;
  for (int64_t i = first; bands < BANDS && i < x->m; i += ROWS) {
    const TN_TILE_NAME(band) next = TN_TILE_NAME(band_of)(x, i);
    if (next.held == ROWS) at[bands++] = next.first;
  }
  for (int64_t p = 0; p < last; ++p, from += step, to += ROWS)
    for (int64_t i = 0; i < bands; ++i) {
      const vector *read = (const vector *)(const void *)(from + at[i]);
      vector *write = (vector *)(void *)(to + i * band);
      for (int w = 0; w < WIDE; ++w) write[w] = read[w];
    }
  for (int64_t i = 0; i < bands; ++i)
    memcpy(to + i * band, from + at[i], ROWS * sizeof *to);
}

/* All rows of a block. */
TN_TILE_TARGET static void TN_TILE_NAME(rows)(const tn_product_block *x,
                                              const TN_TILE_NAME(strips) *
                                                  strips) {
  enum { ROWS = TN_TILE_ROWS, BANDS = TN_TILE_NAME(bands) };
  TN_TILE_NAME(strips) now = *strips;
  for (int64_t i = 0; i < x->m;) {
    TN_TILE_NAME(band) band = TN_TILE_NAME(band_of)(x, i);
    if (now.gathered && band.held == ROWS) {
      const int64_t which = i / ROWS % BANDS;
      if (which == 0) TN_TILE_NAME(gather)(now.gathered, x, i);
      band.a.at = now.gathered + which * ROWS * x->k;
      band.a.column = ROWS;
    }
    TN_TILE_NAME(row)(x, &now, &band);
    if (now.keep) now.in_place = now.keep = 0;
    i = band.first + band.held;
  }
}

/* Packs the strips of a piece of op(b), one after the other, without those that
 * are read in place. */
TN_TILE_TARGET static void TN_TILE_NAME(pack_all)(const tn_product_block *x,
                                                  const TN_TILE_NAME(strips) *
                                                      strips) {
  enum { W = TN_TILE_NAME(wide) };
  for (int64_t j = 0; j < x->n; j += W) {
    const tn_product_matrix b = {(const TN_TILE_T *)x->b.at + j * x->b.column,
                                 x->b.row, x->b.column};
    const int64_t n = x->n - j < W ? x->n - j : (int64_t)W;
    if (!strips->in_place || n < TN_TILE_NAME(span)(n))
      TN_TILE_NAME(pack)(strips->room + j * x->k, &b, n, x->k);
  }
}

/* The same for c in column-major order: some rows at a time are computed in a
 * buffer and transposed. */
TN_TILE_TARGET static void TN_TILE_NAME(turned)(const tn_product_block *x,
                                                const TN_TILE_NAME(strips) *
                                                    strips) {
  enum { W = TN_PRODUCT_ROOM / TN_PRODUCT_DEPTH / (int)sizeof(TN_TILE_T) };
  TN_TILE_NAME(strips) now = *strips;
  TN_TILE_T made[TN_TILE_NAME(group) * W], turned[W * TN_TILE_NAME(group)];
  for (int64_t i = 0; i < x->m; i += TN_TILE_NAME(group)) {
    tn_product_block some = *x;
    some.m = x->m - i < TN_TILE_NAME(group) ? x->m - i
                                            : (int64_t)TN_TILE_NAME(group);
    some.a.at = (const TN_TILE_T *)x->a.at + i * x->a.row;
    some.c.at = made;
    some.c.row = W;
    some.c.beta = 0;
    TN_TILE_NAME(rows)(&some, &now);
    if (now.keep) now.in_place = now.keep = 0;
    const int direct = x->c.beta == 0;
    TN_TILE_T *to = (TN_TILE_T *)x->c.at + i;
    const tn_transpose t = {direct ? (char *)to : (char *)turned,
                            (const char *)made,
                            direct ? x->c.column : (int64_t)TN_TILE_NAME(group),
                            W,
                            x->n,
                            some.m};
    TN_TILE_TRANSPOSE(&t);
    const TN_TILE_T beta = (TN_TILE_T)x->c.beta;
    for (int64_t j = 0; !direct && j < x->n; ++j) {
      const TN_TILE_T *from = turned + j * TN_TILE_NAME(group);
      for (int64_t r = 0; r < some.m; ++r)
        to[j * x->c.column + r] = from[r] + beta * to[j * x->c.column + r];
    }
  }
}

/* The sum of the elements of four vectors, in pairs. */
TN_TILE_EVER TN_TILE_T TN_TILE_NAME(total)(const TN_TILE_NAME(vector) part[4]) {
  const TN_TILE_NAME(vector) all = (part[0] + part[1]) + (part[2] + part[3]);
  TN_TILE_T sum[TN_TILE_NAME(lanes)];
  memcpy(sum, &all, sizeof sum);
  TN_PRODUCT_UNROLL
  for (int half = TN_TILE_NAME(lanes) / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  return sum[0];
}

/* A block of one row, for op(b) in column-major order. */
TN_TILE_TARGET static void TN_TILE_NAME(dots)(const tn_product_block *x) {
  enum { LANES = TN_TILE_NAME(lanes) };
  const TN_TILE_T *a = (const TN_TILE_T *)x->a.at;
  for (int64_t j = 0; j < x->n; ++j) {
    const TN_TILE_T *b = (const TN_TILE_T *)x->b.at + j * x->b.column;
    TN_TILE_NAME(vector) part[4] = {{0}, {0}, {0}, {0}};
    TN_TILE_T *to = (TN_TILE_T *)x->c.at + j * x->c.column;
    int64_t p = 0;
    for (; p + 4 * LANES <= x->k; p += 4 * LANES) {
      const TN_TILE_NAME(vector) *u =
          (const TN_TILE_NAME(vector) *)(const void *)(a + p);
      const TN_TILE_NAME(vector) *v =
          (const TN_TILE_NAME(vector) *)(const void *)(b + p);
      for (int i = 0; i < 4; ++i) part[i] += u[i] * v[i];
    }
    TN_TILE_T sum = TN_TILE_NAME(total)(part);
    for (; p < x->k; ++p) sum += a[p] * b[p];
    *to = (TN_TILE_T)x->c.alpha * sum +
          (x->c.beta == 0 ? (TN_TILE_T)0 : (TN_TILE_T)x->c.beta * *to);
  }
}

/* One row times as many adjacent vectors. */
TN_TILE_EVER void TN_TILE_NAME(beside)(const tn_product_block *x, int64_t j,
                                       const int across) {
  enum { L = TN_TILE_NAME(lanes) };
  typedef TN_TILE_NAME(vector) vector;
  const TN_TILE_T *a = (const TN_TILE_T *)x->a.at;
  const TN_TILE_T *b = (const TN_TILE_T *)x->b.at + j;
  TN_TILE_T *to = (TN_TILE_T *)x->c.at + j * x->c.column;
  const TN_TILE_T alpha = (TN_TILE_T)x->c.alpha, beta = (TN_TILE_T)x->c.beta;
  const int64_t step = x->a.column, row = x->b.row, depth = x->k;
  const vector zero = {0};
  vector sum[TN_PRODUCT_BESIDE];
  for (int w = 0; w < across; ++w) sum[w] = zero;
  for (int64_t p = 0; p < depth; ++p, a += step, b += row) {
    TN_PRODUCT_UNROLL
    for (int w = 0; w < across; ++w)
      sum[w] += *a * ((const vector *)(const void *)b)[w];
  }
  for (int w = 0; w < across; ++w)
    for (int i = 0; i < L; ++i, to += x->c.column)
      *to = alpha * sum[w][i] + (beta == 0 ? (TN_TILE_T)0 : beta * *to);
}

/* A block of one row, for op(b) in row-major order. */
TN_TILE_TARGET static void TN_TILE_NAME(line)(const tn_product_block *x) {
  enum { L = TN_TILE_NAME(lanes), ALL = TN_PRODUCT_BESIDE * L };
  const TN_TILE_T *a = (const TN_TILE_T *)x->a.at;
  int64_t j = 0;
  for (; j + ALL <= x->n; j += ALL)
    TN_TILE_NAME(beside)(x, j, TN_PRODUCT_BESIDE);
  for (; j + L <= x->n; j += L) TN_TILE_NAME(beside)(x, j, 1);
  for (; j < x->n; ++j) {
    const TN_TILE_T *b = (const TN_TILE_T *)x->b.at + j;
    TN_TILE_T *to = (TN_TILE_T *)x->c.at + j * x->c.column, sum = 0;
    for (int64_t p = 0; p < x->k; ++p)
      sum += a[p * x->a.column] * b[p * x->b.row];
    *to = (TN_TILE_T)x->c.alpha * sum +
          (x->c.beta == 0 ? (TN_TILE_T)0 : (TN_TILE_T)x->c.beta * *to);
  }
}

/* A piece of a block with strips that fit `strips`. */
TN_TILE_TARGET static void TN_TILE_NAME(piece)(const tn_product_block *x,
                                               const TN_TILE_NAME(strips) *
                                                   strips) {
  if (tn_product_is_line(x)) {
    if (x->b.column == 1)
      TN_TILE_NAME(line)(x);
    else
      TN_TILE_NAME(dots)(x);
    return;
  }
  TN_TILE_NAME(pack_all)(x, strips);
  if (x->c.column == 1)
    TN_TILE_NAME(rows)(x, strips);
  else
    TN_TILE_NAME(turned)(x, strips);
}

/* A block of c, piece by piece: as much of op(b) as fits the buffer, or, for
 * one row, as many consecutive products as lose little by rounding. */
TN_TILE_TARGET static void TN_TILE_NAME(tile)(const tn_product_block *whole,
                                              void *at) {
  const int beside = whole->b.column == 1;
  const TN_TILE_NAME(strips) strips = {
      (TN_TILE_T *)at, beside, beside && whole->m > TN_TILE_ROWS,
      whole->gathers ? (TN_TILE_T *)at + TN_PRODUCT_WIDER / sizeof(TN_TILE_T)
                     : (TN_TILE_T *)0};
  tn_product_block x = *whole;
  int64_t most = tn_product_depth(whole);
  if (tn_product_is_line(whole))
    most = beside ? (int64_t)TN_PRODUCT_TERMS : whole->k;
  for (int64_t p = 0; p < whole->k; p += most) {
    x.k = whole->k - p < most ? whole->k - p : most;
    x.a.at = (const TN_TILE_T *)whole->a.at + p * whole->a.column;
    x.b.at = (const TN_TILE_T *)whole->b.at + p * whole->b.row;
    TN_TILE_NAME(piece)(&x, &strips);
    x.c.beta = 1;
  }
}

#undef TN_TILE_EVER
#undef TN_TILE_T
#undef TN_TILE_NAME
#undef TN_TILE_TARGET
#undef TN_TILE_BYTES
#undef TN_TILE_ROWS
#undef TN_TILE_TRANSPOSE
