/* SPDX-License-Identifier: Apache-2.0
 * conv_tiles_loop.h: the loops of conv_tiles.c for one level of instructions.
 * Only conv_tiles_plan.h includes it, several times, with these macros, which
 * it undefines:
 *
 *   TILES_NAME(x)  x with the level appended
 *   TILES_TARGET   the attribute of the level, or nothing
 *   TILES_BYTES    of a vector register
 *   TILES_ROWS     rows of a tile with sums in registers, up to three vectors
 *                  wide: 4 or 8
 *   TILES_REPEAT   precedes the loop over rows of weights
 *   TILES_LANES(x, h)  x(0, h), x(1, h), ... for each lane
 *   TILES_TAKE(from, n)    loads n elements, 0 < n < lanes, and zeros
 *   TILES_PUT(to, v, n)    stores the first n elements of a vector
 *   TILES_SECOND(to, v, n) stores them to every second element
 */
enum { TILES_NAME(lanes) = TILES_BYTES / (int)sizeof(float) };

typedef float TILES_NAME(vector)
    __attribute__((vector_size(TILES_BYTES), aligned(sizeof(float)),
                   may_alias));

typedef int32_t TILES_NAME(places)
    __attribute__((vector_size(TILES_BYTES), may_alias));

#define EVER TN_KERNEL_UNCHECKED inline __attribute__((always_inline))
#define VECTOR(at) (*(const TILES_NAME(vector) *)(const void *)(at))

/* Computes a tile of `rows` rows and `wide` vectors. */
TILES_TARGET static EVER void TILES_NAME(multiply_tile)(const tile *t,
                                                        const int rows,
                                                        const int wide) {
  enum { L = TILES_NAME(lanes) };
  TILES_NAME(vector) sum[TILES_ROWS][3];
  const float *left[TILES_ROWS], *right = t->right;
  const int64_t *steps = t->steps;
  for (int r = 0; r < rows; ++r) {
    left[r] = t->left[r];
    for (int w = 0; w < wide; ++w)
      sum[r][w] =
          t->add ? VECTOR(t->to + (r * wide + w) * L) : (TILES_NAME(vector)){0};
  }
  TILES_REPEAT
  for (int64_t k = 0; k < t->depth; ++k, right += wide * L) {
    const int64_t step = steps[k];
    __builtin_prefetch(t->next + step);
    NN_CONV_UNROLL
    for (int r = 0; r < rows; ++r) {
      const float u = left[r][step];
      for (int w = 0; w < wide; ++w) sum[r][w] += u * VECTOR(right + w * L);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < wide; ++w)
      *(TILES_NAME(vector) *)(void *)(t->to + (r * wide + w) * L) = sum[r][w];
}

TILES_TARGET static EVER void TILES_NAME(choose_width)(const tile *t,
                                                       const int rows) {
  if (t->wide == 3)
    TILES_NAME(multiply_tile)(t, rows, 3);
  else if (t->wide == 2)
    TILES_NAME(multiply_tile)(t, rows, 2);
  else
    TILES_NAME(multiply_tile)(t, rows, 1);
}

TILES_TARGET static void TILES_NAME(multiply)(const tile *t) {
  if (t->rows > TILES_ROWS / 2)
    TILES_NAME(choose_width)(t, TILES_ROWS);
  else
    TILES_NAME(choose_width)(t, TILES_ROWS / 2);
}

/* Source lanes of the two results of a step that exchanges squares of h x h
 * elements between two vectors. */
#define FIRST(l, h) ((l) & (h) ? TILES_NAME(lanes) + (l) - (h) : (l))
#define SECOND(l, h) ((l) & (h) ? TILES_NAME(lanes) + (l) : (l) + (h))

#define CHANGE(v, h)                                                         \
  NN_CONV_UNROLL                                                             \
  for (int i = 0; i < TILES_NAME(lanes); ++i) {                              \
    if ((i & (h)) != 0) continue;                                            \
    const TILES_NAME(vector) a = (v)[i], b = (v)[i + (h)];                   \
    (v)[i] = TILES_SHUFFLE(TILES_NAME(places), a, b, TILES_LANES(FIRST, h)); \
    (v)[i + (h)] =                                                           \
        TILES_SHUFFLE(TILES_NAME(places), a, b, TILES_LANES(SECOND, h));     \
  }

/* Transposes a square matrix of as many vectors as a vector has lanes. */
TILES_TARGET static EVER void TILES_NAME(transpose_square)(TILES_NAME(vector) *
                                                           v) {
#if TILES_BYTES == 64
  CHANGE(v, 8)
#endif
#if TILES_BYTES >= 32
  CHANGE(v, 4)
#endif
  CHANGE(v, 2)
  CHANGE(v, 1)
}

/* Stores a row of a transposed square: a whole vector if `open`, otherwise n
 * elements. */
TILES_TARGET static EVER void TILES_NAME(store_row)(const transposition *t,
                                                    TILES_NAME(vector) v,
                                                    float *to, int64_t n) {
  if (n == TILES_NAME(lanes) || t->open) {
    if (t->add) v += VECTOR(to);
    *(TILES_NAME(vector) *)(void *)to = v;
  } else {
    if (t->add) v += TILES_TAKE(to, n);
    TILES_PUT(to, v, n);
  }
}

/* Transposes one square: `n` elements from `k` on of `lines` lines from `i` on.
 * Both are at most the lanes of a vector. */
TILES_TARGET static EVER void TILES_NAME(transpose_block)(
    const transposition *t, int64_t i, int64_t k, int64_t lines, int64_t n) {
  enum { L = TILES_NAME(lanes) };
  const float *from = t->from + i * t->line_distance + k;
  float *to = t->to + k * t->row + i;
  TILES_NAME(vector) v[L];
  NN_CONV_UNROLL
  for (int l = 0; l < L; ++l) {
    if (l >= lines)
      v[l] = (TILES_NAME(vector)){0};
    else if (n == L)
      v[l] = VECTOR(from + l * t->line_distance);
    else
      v[l] = TILES_TAKE(from + l * t->line_distance, n);
  }
  TILES_NAME(transpose_square)(v);
  NN_CONV_UNROLL
  for (int l = 0; l < L; ++l) {
    if (l >= n) continue;
    if (t->bias) v[l] += t->bias[k + l];
    TILES_NAME(store_row)(t, v[l], to + l * t->row, lines);
  }
}

TILES_TARGET static void TILES_NAME(transpose)(const transposition *t) {
  enum { L = TILES_NAME(lanes) };
  for (int64_t i = 0; i < t->n; i += L) {
    const int64_t lines = nn_min(t->n - i, L);
    int64_t k = 0;
    for (; k + L <= t->depth && lines == L; k += L) {
      for (int64_t l = 0; l < L; ++l)
        __builtin_prefetch(t->from + (i + l) * t->line_distance + k +
                           PREFETCH_DISTANCE);
      TILES_NAME(transpose_block)(t, i, k, L, L);
    }
    for (; k < t->depth; k += L)
      TILES_NAME(transpose_block)(t, i, k, lines, nn_min(t->depth - k, L));
  }
}

/* Copies lines of a plane, and prefetches others. */
TILES_TARGET static void TILES_NAME(copy_lines)(const line_copy *x) {
  enum { L = TILES_NAME(lanes) };
  const float *from = x->from;
  float *to = x->to;
  const int64_t whole = x->length / L * L, rest = x->length - whole;
  for (int64_t y = 0; y < x->n; ++y, from += x->from_row, to += x->to_row) {
    for (int64_t i = 0; i < x->length; i += 16)
      __builtin_prefetch(from + x->prefetch_distance + i);
    for (int64_t i = 0; i < whole; i += L)
      *(TILES_NAME(vector) *)(void *)(to + i) = VECTOR(from + i);
    if (rest > 0) TILES_PUT(to + whole, TILES_TAKE(from + whole, rest), rest);
  }
}

/* Stores one line of sums with their elements s->step apart, or adds them. */
TILES_TARGET static EVER void TILES_NAME(store_line)(const line_store *s,
                                                     const float *from,
                                                     float *to) {
  enum { L = TILES_NAME(lanes) };
  for (int64_t i = 0; i < s->length; i += L) {
    const int64_t n = s->length - i;
    float *at = to + i * s->step;
    TILES_NAME(vector) v;
    if (n < L)
      v = TILES_TAKE(from + i, n);
    else
      v = VECTOR(from + i);
    if (s->step == 1 && n >= L) {
      if (s->add) v += VECTOR(at);
      *(TILES_NAME(vector) *)(void *)at = v;
    } else if (s->step == 1) {
      if (s->add) v += TILES_TAKE(at, n);
      TILES_PUT(at, v, n);
    } else if (s->step == 2 && !s->add) {
      TILES_SECOND(at, v, nn_min(n, L));
    } else {
      for (int l = 0; l < L; ++l)
        if (l < n) at[l * s->step] = s->add ? at[l * s->step] + v[l] : v[l];
    }
  }
}

TILES_TARGET static void TILES_NAME(store_lines)(const line_store *s) {
  const float *from = s->from;
  float *to = s->to;
  for (int64_t y = 0; y < s->n; ++y, from += s->length, to += s->to_row)
    TILES_NAME(store_line)(s, from, to);
}

static const loops TILES_NAME(loops) = {TILES_ROWS,
                                        TILES_NAME(lanes),
                                        TILES_NAME(multiply),
                                        TILES_NAME(transpose),
                                        TILES_NAME(copy_lines),
                                        TILES_NAME(store_lines)};

#undef EVER
#undef VECTOR
#undef FIRST
#undef SECOND
#undef CHANGE
#undef TILES_NAME
#undef TILES_TARGET
#undef TILES_BYTES
#undef TILES_ROWS
#undef TILES_REPEAT
#undef TILES_LANES
#undef TILES_TAKE
#undef TILES_PUT
#undef TILES_SECOND
