/* SPDX-License-Identifier: Apache-2.0
 * pool_3x3_line.h: a line of windows, for one level of instructions. Only
 * pool_3x3.h includes it, for each level, with these macros, which it
 * undefines:
 *
 *   POOL3_NAME(x)  x with the level appended
 *   POOL3_TARGET   the attribute of the level
 *   POOL3_VECTOR   the type of a register
 *   POOL3_LANES    of it
 */
#define IN_REGISTERS static inline __attribute__((always_inline)) POOL3_TARGET

/* For each window of a patch, its three elements on one line of data, or their
 * gradients. */
typedef struct POOL3_NAME(pool3_columns) {
  POOL3_VECTOR left;
  POOL3_VECTOR middle;
  POOL3_VECTOR right;
} POOL3_NAME(pool3_columns);

/* Loads the elements of a patch's windows on one line of data. *before has the
 * odd columns of the previous patch, and gets those of this one. */
IN_REGISTERS POOL3_NAME(pool3_columns)
    POOL3_NAME(pool3_load_columns)(const float *from, uint32_t bits,
                                   POOL3_VECTOR nothing, POOL3_VECTOR *before) {
  POOL3_NAME(pool3_columns) part;
  POOL3_NAME(pool3_load_even_odd)
  (from, bits, nothing, &part.middle, &part.right);
  part.left = POOL3_NAME(pool3_shift_right)(*before, part.right);
  *before = part.right;
  return part;
}

/* Finds the gradients of the three elements of each window on a line; takes
 * them from *out_gradient. */
IN_REGISTERS POOL3_NAME(pool3_columns)
    POOL3_NAME(pool3_take_gradients)(const POOL3_NAME(pool3_columns) * x,
                                     POOL3_VECTOR largest,
                                     POOL3_VECTOR *out_gradient) {
  POOL3_NAME(pool3_columns) gets;
  gets.left = POOL3_NAME(pool3_take_gradient)(x->left, largest, out_gradient);
  gets.middle =
      POOL3_NAME(pool3_take_gradient)(x->middle, largest, out_gradient);
  gets.right = POOL3_NAME(pool3_take_gradient)(x->right, largest, out_gradient);
  return gets;
}

/* Stores the gradients of one line of data in the columns of a patch. `left`
 * are the left gradients of the next patch, which belong to the same columns as
 * the right ones of this patch. */
IN_REGISTERS void POOL3_NAME(pool3_store_columns)(
    const pool3_call *t, float *to, const POOL3_NAME(pool3_columns) * part,
    POOL3_VECTOR left, uint32_t bits) {
  const POOL3_VECTOR odd =
      POOL3_NAME(pool3_shift_left)(part->left, left) + part->right;
  POOL3_VECTOR a, b;
  POOL3_NAME(pool3_interleave)(part->middle, odd, &a, &b);
  if (t->streams) {
    if ((bits & 1) != 0) POOL3_NAME(pool3_stream)(to, a);
    if ((bits >> POOL3_LANES) != 0)
      POOL3_NAME(pool3_stream)(to + POOL3_LANES, b);
  } else if (bits == pool3_make_bits(2 * POOL3_LANES)) {
    POOL3_NAME(pool3_store)(to, a, ~0u);
    POOL3_NAME(pool3_store)(to + POOL3_LANES, b, ~0u);
  } else {
    POOL3_NAME(pool3_store)(to, a, bits);
    POOL3_NAME(pool3_store)(to + POOL3_LANES, b, bits >> POOL3_LANES);
  }
}

/* Adds the gradients that the previous line of windows left in `shared` to
 * those of the first line of data. Keeps the gradients of the last line of data
 * in `shared` for the next line of windows. */
IN_REGISTERS void POOL3_NAME(pool3_add_shared)(
    float *shared, POOL3_NAME(pool3_columns) * first,
    const POOL3_NAME(pool3_columns) * last) {
  POOL3_VECTOR *to[] = {&first->left, &first->middle, &first->right};
  const POOL3_VECTOR gets[] = {last->left, last->middle, last->right};
  for (int k = 0; k < POOL3_SIDE; ++k, shared += POOL3_LANES) {
    *to[k] += POOL3_NAME(pool3_load)(shared, ~0u, gets[k]);
    POOL3_NAME(pool3_store)(shared, gets[k], ~0u);
  }
}

/* Values that a patch passes to the next patch of the same line of windows. */
typedef struct POOL3_NAME(pool3_line_state) {
  POOL3_VECTOR before[POOL3_SIDE];
  POOL3_NAME(pool3_columns) done[2]; /* gradients that are not stored yet */
  uint32_t bits; /* mask of the columns of data in the patch */
  uint32_t nan;
} POOL3_NAME(pool3_line_state);

/* Computes the gradients from the windows of patch p for their three lines of
 * data. `whole`: all windows and columns of the patch exist. */
IN_REGISTERS void POOL3_NAME(pool3_compute_gradients)(
    const pool3_call *t, const pool3_line *l, int64_t p,
    POOL3_NAME(pool3_line_state) * s, POOL3_NAME(pool3_columns) * gets,
    const int whole) {
  const POOL3_VECTOR none = {0}, nothing = none + NAN;
  const int64_t at = p * POOL3_LANES, n = whole ? POOL3_LANES : l->windows - at;
  const int64_t columns = whole ? 2 * POOL3_LANES : t->columns - 2 * at;
  const uint32_t windows = pool3_make_bits(nn_min(n, POOL3_LANES));
  const POOL3_VECTOR largest =
      POOL3_NAME(pool3_load)(l->out + at, windows, nothing);
  POOL3_VECTOR out_gradient =
      POOL3_NAME(pool3_load)(l->out_gradient + at, windows, none);
  s->bits = pool3_make_bits(nn_min(columns, 2 * POOL3_LANES));
  s->nan |= POOL3_NAME(pool3_find_nan)(largest) & windows;
  for (int k = 0; k < POOL3_SIDE; ++k) {
    gets[k] = POOL3_NAME(pool3_load_columns)(l->from[k] + t->shift + 2 * at,
                                             s->bits, nothing, &s->before[k]);
    gets[k] =
        POOL3_NAME(pool3_take_gradients)(&gets[k], largest, &out_gradient);
  }
}

/* Computes patch number p, and stores the gradients of the patch before it.
 * `whole` is true if all windows and columns of both exist. */
IN_REGISTERS void POOL3_NAME(pool3_compute_patch)(
    const pool3_call *t, const pool3_line *l, int64_t p,
    POOL3_NAME(pool3_line_state) * s, const int whole) {
  enum { COLUMNS = 2 * POOL3_LANES };
  const int64_t at = t->shift + (p - 1) * COLUMNS;
  const uint32_t bits = whole ? pool3_make_bits(COLUMNS) : s->bits;
  POOL3_NAME(pool3_columns) gets[POOL3_SIDE];
  POOL3_NAME(pool3_compute_gradients)(t, l, p, s, gets, whole);
  POOL3_NAME(pool3_add_shared)
  (t->shared + p * POOL3_SIDE * POOL3_LANES, &gets[0], &gets[2]);
  for (int k = 0; k < 2; ++k) {
    float *to = l->to[k];
    if (to && p > 0) POOL3_NAME(pool3_store_columns)
    (t, to + at, &s->done[k], gets[k].left, bits);
    else if (to && t->shift > 0) to[0] = gets[k].left[0];
    s->done[k] = gets[k];
  }
}

/* Computes the gradients of one line of windows, patch by patch; returns
 * whether `out` contains NaN. */
static POOL3_TARGET int POOL3_NAME(pool3_compute_line)(const pool3_call *t,
                                                       const pool3_line *l) {
  enum { L = POOL3_LANES };
  const POOL3_VECTOR none = {0};
  const int64_t whole = nn_min(t->columns / (2 * L), l->windows / L);
  POOL3_NAME(pool3_line_state) s;
  s.nan = 0;
  for (int k = 0; k < POOL3_SIDE; ++k)
    s.before[k] = none + (t->shift > 0 ? l->from[k][0] : NAN);
  for (int64_t p = 0; p < whole; ++p)
    POOL3_NAME(pool3_compute_patch)(t, l, p, &s, 1);
  for (int64_t p = whole; p < t->patches; ++p)
    POOL3_NAME(pool3_compute_patch)(t, l, p, &s, 0);
  const int64_t last = t->shift + (t->patches - 1) * 2 * L;
  for (int k = 0; k < 2; ++k)
    if (l->to[k]) POOL3_NAME(pool3_store_columns)
  (t, l->to[k] + last, &s.done[k], none, s.bits);
  return s.nan != 0;
}

#undef IN_REGISTERS
#undef POOL3_NAME
#undef POOL3_TARGET
#undef POOL3_VECTOR
#undef POOL3_LANES
