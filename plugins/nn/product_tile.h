/* SPDX-License-Identifier: Apache-2.0
 * product_tile.h: one tile of a matrix product, for one element type and one
 * level of instructions. Included by product.c only, several times, with
 *
 *   TILE_T       the element type
 *   TILE_NAME    name(x): x with the type and level behind it
 *   TILE_TARGET  the attribute of the level, or nothing
 *   TILE_BYTES   of a vector register
 *   TILE_ROWS    of c whose sums are held in registers, two vectors wide
 *
 * which it undefines.
 */
enum {
  TILE_NAME(lanes) = TILE_BYTES / (int)sizeof(TILE_T),
  TILE_NAME(wide) = 2 * TILE_NAME(lanes)
};

typedef TILE_T TILE_NAME(vector) __attribute__((vector_size(TILE_BYTES)));

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

/* The sums of products of TILE_ROWS rows of a, of which those beyond `rows`
 * repeat the first, with a strip. */
TILE_TARGET static inline __attribute__((always_inline)) void TILE_NAME(
    multiply)(TILE_NAME(sums) * sums, const matrix *a, int64_t rows,
              const TILE_T *strip, int64_t depth) {
  const TILE_T *at[TILE_ROWS];
  TILE_NAME(vector) sum[TILE_ROWS][2];
  const int64_t step = a->column;
  memset(sum, 0, sizeof sum);
  for (int r = 0; r < TILE_ROWS; ++r)
    at[r] = (const TILE_T *)a->at + (r < rows ? r * a->row : 0);
  for (int64_t p = 0; p < depth; ++p) {
    const TILE_NAME(vector) *b = (const void *)(strip + p * TILE_NAME(wide));
    UNROLL
    for (int r = 0; r < TILE_ROWS; ++r) {
      sum[r][0] += at[r][p * step] * b[0];
      sum[r][1] += at[r][p * step] * b[1];
    }
  }
  memcpy(sums->v, sum, sizeof sum);
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

/* All rows of a block, for the strips that are packed at `strips`. */
TILE_TARGET static void TILE_NAME(rows)(const block *x, const TILE_T *strips,
                                        const target *c) {
  for (int64_t i = 0; i < x->m; i += TILE_ROWS) {
    const int64_t rows = x->m - i < TILE_ROWS ? x->m - i : TILE_ROWS;
    const matrix a = {(const TILE_T *)x->a.at + i * x->a.row, x->a.row,
                      x->a.column};
    for (int64_t j = 0; j < x->n; j += TILE_NAME(wide)) {
      TILE_NAME(sums) sums;
      const int64_t n = x->n - j < TILE_NAME(wide) ? x->n - j : TILE_NAME(wide);
      const target to = {(TILE_T *)c->at + i * c->row + j, c->row, c->alpha,
                         c->beta};
      TILE_NAME(multiply)(&sums, &a, rows, strips + j * x->k, x->k);
      TILE_NAME(store)(&sums, &to, rows, n);
    }
  }
}

/* A block of c whose op(b) is packed piece by piece into `room`. */
TILE_TARGET static void TILE_NAME(tile)(const block *whole, void *room) {
  target c = whole->c;
  for (int64_t p = 0; p < whole->k; p += DEPTH) {
    block x = *whole;
    x.k = whole->k - p < DEPTH ? whole->k - p : DEPTH;
    x.a.at = (const TILE_T *)whole->a.at + p * whole->a.column;
    for (int64_t j = 0; j < x.n; j += TILE_NAME(wide)) {
      const matrix b = {
          (const TILE_T *)whole->b.at + p * x.b.row + j * x.b.column, x.b.row,
          x.b.column};
      TILE_NAME(pack)
      ((TILE_T *)room + j * x.k, &b,
       x.n - j < TILE_NAME(wide) ? x.n - j : TILE_NAME(wide), x.k);
    }
    TILE_NAME(rows)(&x, room, &c);
    c.beta = 1;
  }
}

#undef TILE_T
#undef TILE_NAME
#undef TILE_TARGET
#undef TILE_BYTES
#undef TILE_ROWS
