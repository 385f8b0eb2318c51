/* SPDX-License-Identifier: Apache-2.0
 * product_tile.h: one tile of a matrix product, for one element type and one
 * level of instructions. Included by product.h only, several times, with
 *
 *   TN_TILE_T       the element type
 *   TN_TILE_NAME    name(x): x with the type and level behind it
 *   TN_TILE_TARGET  the attribute of the level, or nothing
 *   TN_TILE_BYTES   of a vector register
 *   TN_TILE_ROWS    of c whose sums are held in registers, two vectors wide; a
 *                multiple of 6
 *
 * which it undefines.
 */
enum {
  TN_TILE_NAME(lanes) = TN_TILE_BYTES / (int)sizeof(TN_TILE_T),
  TN_TILE_NAME(wide) = 2 * TN_TILE_NAME(lanes)
};

/* Elements side by side, at any address. */
typedef TN_TILE_T TN_TILE_NAME(vector)
    __attribute__((vector_size(TN_TILE_BYTES), aligned(sizeof(TN_TILE_T)),
                   may_alias));

/* What of c is held: rows x two vectors. */
typedef struct TN_TILE_NAME(sums) {
  TN_TILE_NAME(vector) v[TN_TILE_ROWS][2];
} TN_TILE_NAME(sums);

/* Columns [0, n) of depth rows of op(b), side by side and filled up with zeros
 * to the width of a strip. */
TN_TILE_TARGET static void TN_TILE_NAME(pack)(TN_TILE_T *to,
                                              const tn_product_matrix *b,
                                              int64_t n, int64_t depth) {
  const TN_TILE_T *from = (const TN_TILE_T *)b->at;
  enum { W = TN_TILE_NAME(wide) };
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
TN_TILE_TARGET static inline __attribute__((always_inline)) void TN_TILE_NAME(
    multiply)(TN_TILE_NAME(sums) * sums, const tn_product_matrix *a,
              const int64_t rows, const tn_product_matrix *strip, int64_t depth,
              const int held) {
  const TN_TILE_T *at[TN_TILE_ROWS];
  const TN_TILE_T *beside = (const TN_TILE_T *)strip->at;
  const TN_TILE_NAME(vector) zero = {0};
  TN_TILE_NAME(vector) sum[TN_TILE_ROWS][2];
  const int64_t step = a->column;
  for (int r = 0; r < held; ++r) {
    at[r] = (const TN_TILE_T *)a->at + (r < rows ? r * a->row : 0);
    sum[r][0] = sum[r][1] = zero;
  }
  for (int64_t p = 0; p < depth; ++p, beside += strip->row) {
    const TN_TILE_NAME(vector) *b =
        (const TN_TILE_NAME(vector) *)(const void *)beside;
    TN_PRODUCT_UNROLL
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
TN_TILE_TARGET static void TN_TILE_NAME(choose)(TN_TILE_NAME(sums) * sums,
                                                const tn_product_matrix *a,
                                                int64_t rows,
                                                const tn_product_matrix *strip,
                                                int64_t depth) {
  if (rows > TN_TILE_ROWS / 2)
    TN_TILE_NAME(multiply)(sums, a, rows, strip, depth, TN_TILE_ROWS);
  else if (rows > TN_TILE_ROWS / 6)
    TN_TILE_NAME(multiply)(sums, a, rows, strip, depth, TN_TILE_ROWS / 2);
  else
    TN_TILE_NAME(multiply)(sums, a, rows, strip, depth, TN_TILE_ROWS / 6);
}

/* Brings the sums into c. */
TN_TILE_TARGET static void TN_TILE_NAME(store)(const TN_TILE_NAME(sums) * sums,
                                               const tn_product_target *c,
                                               int64_t rows, int64_t n) {
  const TN_TILE_T alpha = (TN_TILE_T)c->alpha, beta = (TN_TILE_T)c->beta;
  for (int64_t r = 0; r < rows; ++r) {
    const TN_TILE_T *from = (const TN_TILE_T *)sums->v[r];
    TN_TILE_T *to = (TN_TILE_T *)c->at + r * c->row;
    if (c->beta == 0)
      for (int64_t j = 0; j < n; ++j) to[j] = alpha * from[j];
    else
      for (int64_t j = 0; j < n; ++j) to[j] = alpha * from[j] + beta * to[j];
  }
}

/* Some rows of a block, for all of its strips; those that are whole and lie in
 * order are read where they are if `packed` is NULL. */
TN_TILE_TARGET static void TN_TILE_NAME(row)(const tn_product_block *x,
                                             const TN_TILE_T *packed,
                                             const tn_product_target *c) {
  for (int64_t j = 0; j < x->n; j += TN_TILE_NAME(wide)) {
    TN_TILE_NAME(sums) sums;
    const int64_t n =
        x->n - j < TN_TILE_NAME(wide) ? x->n - j : (int64_t)TN_TILE_NAME(wide);
    const tn_product_target to = {(TN_TILE_T *)c->at + j, c->row, c->alpha,
                                  c->beta};
    const tn_product_matrix strip = {
        packed ? packed + j * x->k : (const TN_TILE_T *)x->b.at + j,
        packed ? (int64_t)TN_TILE_NAME(wide) : x->b.row, 1};
    TN_TILE_NAME(choose)(&sums, &x->a, x->m, &strip, x->k);
    TN_TILE_NAME(store)(&sums, &to, x->m, n);
  }
}

TN_TILE_TARGET static void TN_TILE_NAME(rows)(const tn_product_block *x,
                                              const TN_TILE_T *packed,
                                              const tn_product_target *c) {
  for (int64_t i = 0; i < x->m; i += TN_TILE_ROWS) {
    const tn_product_target to = {(TN_TILE_T *)c->at + i * c->row, c->row,
                                  c->alpha, c->beta};
    tn_product_block some = *x;
    some.m = x->m - i < TN_TILE_ROWS ? x->m - i : TN_TILE_ROWS;
    some.a.at = (const TN_TILE_T *)x->a.at + i * x->a.row;
    TN_TILE_NAME(row)(&some, packed, &to);
  }
}

/* Strips of a piece of op(b), one behind the other. */
TN_TILE_TARGET static void TN_TILE_NAME(pack_all)(TN_TILE_T *room,
                                                  const tn_product_block *x) {
  for (int64_t j = 0; j < x->n; j += TN_TILE_NAME(wide)) {
    const tn_product_matrix b = {(const TN_TILE_T *)x->b.at + j * x->b.column,
                                 x->b.row, x->b.column};
    TN_TILE_NAME(pack)
    (room + j * x->k, &b,
     x->n - j < TN_TILE_NAME(wide) ? x->n - j : (int64_t)TN_TILE_NAME(wide),
     x->k);
  }
}

/* A block of one row, where op(b) lies column by column. */
TN_TILE_TARGET static void TN_TILE_NAME(dots)(const tn_product_block *x) {
  enum { LANES = TN_TILE_NAME(lanes) };
  const TN_TILE_T *a = (const TN_TILE_T *)x->a.at;
  for (int64_t j = 0; j < x->n; ++j) {
    const TN_TILE_T *b = (const TN_TILE_T *)x->b.at + j * x->b.column;
    TN_TILE_NAME(vector) part[4] = {{0}, {0}, {0}, {0}};
    TN_TILE_T *to = (TN_TILE_T *)x->c.at + j, sum = 0;
    int64_t p = 0;
    for (; p + 4 * LANES <= x->k; p += 4 * LANES) {
      const TN_TILE_NAME(vector) *u =
          (const TN_TILE_NAME(vector) *)(const void *)(a + p);
      const TN_TILE_NAME(vector) *v =
          (const TN_TILE_NAME(vector) *)(const void *)(b + p);
      for (int i = 0; i < 4; ++i) part[i] += u[i] * v[i];
    }
    part[0] += part[1] + (part[2] + part[3]);
    for (int i = 0; i < LANES; ++i) sum += part[0][i];
    for (; p < x->k; ++p) sum += a[p] * b[p];
    *to = (TN_TILE_T)x->c.alpha * sum +
          (x->c.beta == 0 ? (TN_TILE_T)0 : (TN_TILE_T)x->c.beta * *to);
  }
}

/* A block of c whose op(b) is packed piece by piece into the room `at`, if its
 * pieces are used more than once. */
TN_TILE_TARGET static void TN_TILE_NAME(tile)(const tn_product_block *whole,
                                              void *at) {
  tn_product_target c = whole->c;
  TN_TILE_T *room = (TN_TILE_T *)at;
  const int once = whole->m <= TN_TILE_ROWS && whole->b.column == 1 &&
                   whole->n % TN_TILE_NAME(wide) == 0;
  if (whole->m == 1 && whole->a.column == 1 && whole->b.row == 1) {
    TN_TILE_NAME(dots)(whole);
    return;
  }
  for (int64_t p = 0; p < whole->k; p += TN_PRODUCT_DEPTH) {
    tn_product_block x = *whole;
    x.k = whole->k - p < TN_PRODUCT_DEPTH ? whole->k - p
                                          : (int64_t)TN_PRODUCT_DEPTH;
    x.a.at = (const TN_TILE_T *)whole->a.at + p * whole->a.column;
    x.b.at = (const TN_TILE_T *)whole->b.at + p * whole->b.row;
    if (!once) TN_TILE_NAME(pack_all)(room, &x);
    TN_TILE_NAME(rows)(&x, once ? (TN_TILE_T *)0 : room, &c);
    c.beta = 1;
  }
}

#undef TN_TILE_T
#undef TN_TILE_NAME
#undef TN_TILE_TARGET
#undef TN_TILE_BYTES
#undef TN_TILE_ROWS
