/* SPDX-License-Identifier: Apache-2.0
 * product_tile.h: one tile of a matrix product, for one element type and one
 * level of instructions. Included by product.c only, several times, with
 *
 *   TILE_T       the element type
 *   TILE_NAME    name(x): x with the type and level behind it
 *   TILE_TARGET  the attribute of the level, or nothing
 *   TILE_BYTES   of a vector register
 *   TILE_ROWS    of c whose sums are held in registers, two vectors wide; a
 *                multiple of 6
 *
 * which it undefines.
 */
enum {
  TILE_NAME(lanes) = TILE_BYTES / (int)sizeof(TILE_T),
  TILE_NAME(wide) = 2 * TILE_NAME(lanes)
};

/* Elements side by side, at any address. */
typedef TILE_T TILE_NAME(vector)
    __attribute__((vector_size(TILE_BYTES), aligned(sizeof(TILE_T)),
                   may_alias));

/* What of c is held: rows x two vectors. */
typedef struct TILE_NAME(sums) {
  TILE_NAME(vector) v[TILE_ROWS][2];
} TILE_NAME(sums);

/* Columns [0, n) of depth rows of op(b), side by side and filled up with zeros
 * to the width of a strip. */
TILE_TARGET static void TILE_NAME(pack)(TILE_T *to, const matrix *b, int64_t n,
                                        int64_t depth) {
  const TILE_T *from = b->at;
  enum { W = TILE_NAME(wide) };
  if (n < W) memset(to, 0, (size_t)(depth * W) * sizeof *to);
  if (b->column == 1 && n == W) {
    for (int64_t p = 0; p < depth; ++p)
      memcpy(to + p * W, from + p * b->row, W * sizeof *to);
    return;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < depth; ++p)
      to[p * W + j] = from[p * b->row + j * b->column];
}

/* The sums of products of `held` rows of a, of which those beyond `rows` repeat
 * the first, with a strip whose rows lie `apart`. */
TILE_TARGET static inline __attribute__((always_inline)) void TILE_NAME(
    multiply)(TILE_NAME(sums) * sums, const matrix *a, const int64_t rows,
              const matrix *strip, int64_t depth, const int held) {
  const TILE_T *at[TILE_ROWS];
  const TILE_T *beside = strip->at;
  TILE_NAME(vector) sum[TILE_ROWS][2];
  const int64_t step = a->column;
  for (int r = 0; r < held; ++r) {
    at[r] = (const TILE_T *)a->at + (r < rows ? r * a->row : 0);
    sum[r][0] = sum[r][1] = (TILE_NAME(vector)){0};
  }
  for (int64_t p = 0; p < depth; ++p, beside += strip->row) {
    const TILE_NAME(vector) *b = (const void *)beside;
    UNROLL
    for (int r = 0; r < held; ++r) {
      sum[r][0] += at[r][p * step] * b[0];
      sum[r][1] += at[r][p * step] * b[1];
    }
  }
  for (int r = 0; r < held; ++r) {
    sums->v[r][0] = sum[r][0];
    sums->v[r][1] = sum[r][1];
  }
}

/* The same with no more rows held than there are, or a few more. */
TILE_TARGET static void TILE_NAME(choose)(TILE_NAME(sums) * sums,
                                          const matrix *a, int64_t rows,
                                          const matrix *strip, int64_t depth) {
  if (rows > TILE_ROWS / 2)
    TILE_NAME(multiply)(sums, a, rows, strip, depth, TILE_ROWS);
  else if (rows > TILE_ROWS / 6)
    TILE_NAME(multiply)(sums, a, rows, strip, depth, TILE_ROWS / 2);
  else
    TILE_NAME(multiply)(sums, a, rows, strip, depth, TILE_ROWS / 6);
}

/* Brings the sums into c. */
TILE_TARGET static void TILE_NAME(store)(const TILE_NAME(sums) * sums,
                                         const target *c, int64_t rows,
                                         int64_t n) {
  const TILE_T alpha = (TILE_T)c->alpha, beta = (TILE_T)c->beta;
  for (int64_t r = 0; r < rows; ++r) {
    const TILE_T *from = (const TILE_T *)sums->v[r];
    TILE_T *to = (TILE_T *)c->at + r * c->row;
    if (c->beta == 0)
      for (int64_t j = 0; j < n; ++j) to[j] = alpha * from[j];
    else
      for (int64_t j = 0; j < n; ++j) to[j] = alpha * from[j] + beta * to[j];
  }
}

/* Some rows of a block, for all of its strips; those that are whole and lie in
 * order are read where they are if `packed` is NULL. */
TILE_TARGET static void TILE_NAME(row)(const block *x, const TILE_T *packed,
                                       const target *c) {
  for (int64_t j = 0; j < x->n; j += TILE_NAME(wide)) {
    TILE_NAME(sums) sums;
    const int64_t n = x->n - j < TILE_NAME(wide) ? x->n - j : TILE_NAME(wide);
    const target to = {(TILE_T *)c->at + j, c->row, c->alpha, c->beta};
    const matrix strip = {
        packed ? packed + j * x->k : (const TILE_T *)x->b.at + j,
        packed ? TILE_NAME(wide) : x->b.row, 1};
    TILE_NAME(choose)(&sums, &x->a, x->m, &strip, x->k);
    TILE_NAME(store)(&sums, &to, x->m, n);
  }
}

TILE_TARGET static void TILE_NAME(rows)(const block *x, const TILE_T *packed,
                                        const target *c) {
  for (int64_t i = 0; i < x->m; i += TILE_ROWS) {
    const target to = {(TILE_T *)c->at + i * c->row, c->row, c->alpha, c->beta};
    block some = *x;
    some.m = x->m - i < TILE_ROWS ? x->m - i : TILE_ROWS;
    some.a.at = (const TILE_T *)x->a.at + i * x->a.row;
    TILE_NAME(row)(&some, packed, &to);
  }
}

/* Strips of a piece of op(b), one behind the other. */
TILE_TARGET static void TILE_NAME(pack_all)(TILE_T *room, const block *x) {
  for (int64_t j = 0; j < x->n; j += TILE_NAME(wide)) {
    const matrix b = {(const TILE_T *)x->b.at + j * x->b.column, x->b.row,
                      x->b.column};
    TILE_NAME(pack)
    (room + j * x->k, &b,
     x->n - j < TILE_NAME(wide) ? x->n - j : TILE_NAME(wide), x->k);
  }
}

/* A block of one row, where op(b) lies column by column. */
TILE_TARGET static void TILE_NAME(dots)(const block *x) {
  enum { LANES = TILE_NAME(lanes) };
  const TILE_T *a = x->a.at;
  for (int64_t j = 0; j < x->n; ++j) {
    const TILE_T *b = (const TILE_T *)x->b.at + j * x->b.column;
    TILE_NAME(vector) part[4] = {{0}, {0}, {0}, {0}};
    TILE_T *to = (TILE_T *)x->c.at + j, sum = 0;
    int64_t p = 0;
    for (; p + 4 * LANES <= x->k; p += 4 * LANES) {
      const TILE_NAME(vector) *u = (const void *)(a + p);
      const TILE_NAME(vector) *v = (const void *)(b + p);
      for (int i = 0; i < 4; ++i) part[i] += u[i] * v[i];
    }
    part[0] += part[1] + (part[2] + part[3]);
    for (int i = 0; i < LANES; ++i) sum += part[0][i];
    for (; p < x->k; ++p) sum += a[p] * b[p];
    *to = (TILE_T)x->c.alpha * sum +
          (x->c.beta == 0 ? 0 : (TILE_T)x->c.beta * *to);
  }
}

/* A block of c whose op(b) is packed piece by piece into `room`, if its pieces
 * are used more than once. */
TILE_TARGET static void TILE_NAME(tile)(const block *whole, void *room) {
  target c = whole->c;
  const int once = whole->m <= TILE_ROWS && whole->b.column == 1 &&
                   whole->n % TILE_NAME(wide) == 0;
  if (whole->m == 1 && whole->a.column == 1 && whole->b.row == 1) {
    TILE_NAME(dots)(whole);
    return;
  }
  for (int64_t p = 0; p < whole->k; p += DEPTH) {
    block x = *whole;
    x.k = whole->k - p < DEPTH ? whole->k - p : DEPTH;
    x.a.at = (const TILE_T *)whole->a.at + p * whole->a.column;
    x.b.at = (const TILE_T *)whole->b.at + p * whole->b.row;
    if (!once) TILE_NAME(pack_all)(room, &x);
    TILE_NAME(rows)(&x, once ? NULL : room, &c);
    c.beta = 1;
  }
}

#undef TILE_T
#undef TILE_NAME
#undef TILE_TARGET
#undef TILE_BYTES
#undef TILE_ROWS
