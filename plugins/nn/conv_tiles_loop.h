/* SPDX-License-Identifier: Apache-2.0
 * conv_tiles_loop.h: the products of conv_tiles.c for one level of
 * instructions. Included by it only, several times, with
 *
 *   TILES_NAME(x)  x with the level behind it
 *   TILES_TARGET   the attribute of the level, or nothing
 *   TILES_BYTES    of a vector register
 *   TILES_GATHER(to, from, at, keep)
 *                  elements `at` of `from`, or 0 where they are not kept
 *   TILES_ROWS     rows of a tile whose sums are held in registers, up to three
 *                  vectors wide: 4 or 8
 *
 * which it undefines.
 */
enum {
  TILES_NAME(lanes) = TILES_BYTES / (int)sizeof(float),
  TILES_NAME(across) = 3 * TILES_NAME(lanes)
};

typedef float TILES_NAME(vector)
    __attribute__((vector_size(TILES_BYTES), aligned(sizeof(float)),
                   may_alias));

typedef int32_t TILES_NAME(places)
    __attribute__((vector_size(TILES_BYTES), may_alias));

#define EVER inline __attribute__((always_inline))

/* The tile of `rows` rows and `wide` vectors; the rows of its left factor lie
 * side by side, or are `lines`. */
TILES_TARGET static EVER void TILES_NAME(some)(const product *p, const int rows,
                                               const int wide,
                                               const int lines) {
  enum { L = TILES_NAME(lanes), W = TILES_NAME(across) };
  TILES_NAME(vector) sum[TILES_ROWS][3];
  const float *b = p->right;
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < wide; ++w) {
      const TILES_NAME(vector) *at = (const void *)(p->to + r * W + w * L);
      sum[r][w] = p->add ? *at : (TILES_NAME(vector)){0};
    }
  for (int64_t k = 0; k < p->depth; ++k, b += W) {
    const TILES_NAME(vector) *v = (const void *)b;
    const float *a = p->left + (lines ? k : k * TILES_ROWS);
    NN_CONV_UNROLL
    for (int r = 0; r < rows; ++r) {
      const float u = a[lines ? r * DEPTH : r];
      for (int w = 0; w < wide; ++w) sum[r][w] += u * v[w];
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < wide; ++w)
      *(TILES_NAME(vector) *)(void *)(p->to + r * W + w * L) = sum[r][w];
}

TILES_TARGET static EVER void TILES_NAME(choose)(const product *p,
                                                 const int rows,
                                                 const int lines) {
  if (p->n > 2 * TILES_NAME(lanes))
    TILES_NAME(some)(p, rows, 3, lines);
  else if (p->n > TILES_NAME(lanes))
    TILES_NAME(some)(p, rows, 2, lines);
  else
    TILES_NAME(some)(p, rows, 1, lines);
}

TILES_TARGET static void TILES_NAME(packed)(const product *p) {
  if (p->rows > TILES_ROWS / 2)
    TILES_NAME(choose)(p, TILES_ROWS, 0);
  else
    TILES_NAME(choose)(p, TILES_ROWS / 2, 0);
}

TILES_TARGET static void TILES_NAME(lines)(const product *p) {
  TILES_NAME(choose)(p, TILES_ROWS, 1);
}

/* A tap of some points. */
TILES_TARGET static void TILES_NAME(pick)(const picks *x, const float *plane,
                                          float *to) {
  const bits *from = (const void *)plane;
  for (int64_t i = 0; i < x->n; i += TILES_NAME(lanes)) {
    TILES_NAME(places) at[NN_WINDOW_RANK], base;
    memcpy(&base, x->base + i, sizeof base);
    TILES_NAME(places) keep = ~(TILES_NAME(places)){0};
    for (int d = 0; d < NN_WINDOW_RANK; ++d) {
      if (x->in[d] == 1 && x->shift[d] == 0 && d == 0) continue;
      memcpy(&at[d], x->place[d] + i, sizeof base);
      at[d] += x->shift[d];
      keep &= (at[d] >= 0) & (at[d] < x->in[d]);
    }
    TILES_GATHER(to + i, from, (base + x->skip) & keep, keep);
  }
}

/* Every `step`th element of `to`: sums with a bias, or added to it. */
TILES_TARGET static void TILES_NAME(spread)(float *to, const float *from,
                                            int64_t n, int64_t step,
                                            float bias) {
  if (step == 1) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] + bias;
    return;
  }
  TN_KERNEL_ROLLED
  for (int64_t i = 0; i < n; ++i) to[i * step] = from[i] + bias;
}

/* Every second element of a line. */
TILES_TARGET static void TILES_NAME(halve)(float *to, const float *from,
                                           int64_t n) {
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
}

/* `n` lines, `apart` elements apart, become columns of a strip that has a row
 * for each of `depth` elements. All are asked for first: as columns are
 * written, they are read in an order that no processor foresees. */
TILES_TARGET static void TILES_NAME(turn)(float *to, const float *from,
                                          int64_t apart, int64_t n,
                                          int64_t depth) {
  enum { L = TILES_NAME(lanes), W = TILES_NAME(across) };
  int64_t i = 0;
  for (int64_t f = 0; f < n; ++f)
    for (int64_t k = 0; k < depth; k += 16)
      __builtin_prefetch(from + f * apart + k);
  for (; i + L <= depth; i += L)
    for (int64_t f = 0; f < n; ++f) {
      const float *line = from + f * apart + i;
      float *column = to + i * W + f;
      NN_CONV_UNROLL
      for (int l = 0; l < L; ++l) column[l * W] = line[l];
    }
  for (; i < depth; ++i)
    for (int64_t f = 0; f < n; ++f) to[i * W + f] = from[f * apart + i];
}

static const loops TILES_NAME(loops) = {
    TILES_ROWS,         TILES_NAME(lanes), TILES_NAME(across),
    TILES_NAME(packed), TILES_NAME(lines), TILES_NAME(pick),
    TILES_NAME(spread), TILES_NAME(halve), TILES_NAME(turn)};

#undef EVER
#undef TILES_NAME
#undef TILES_TARGET
#undef TILES_BYTES
#undef TILES_ROWS
#undef TILES_GATHER
