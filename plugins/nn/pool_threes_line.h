/* SPDX-License-Identifier: Apache-2.0
 * pool_threes_line.h: a line of windows, for one level of instructions. Only
 * pool_threes.h includes it, for each level, with these macros, which it
 * undefines:
 *
 *   THREES_NAME(x)  x with the level appended
 *   THREES_TARGET   the attribute of the level
 *   THREES_VECTOR   the type of a register
 *   THREES_LANES    of it
 */
#define IN_REGISTERS static inline __attribute__((always_inline)) THREES_TARGET

/* The elements of a patch's windows on a line, or their gradients. */
typedef struct THREES_NAME(threes_part) {
  THREES_VECTOR left;
  THREES_VECTOR middle;
  THREES_VECTOR right;
} THREES_NAME(threes_part);

/* Loads elements of a line for its next windows; `before` are the odd ones of
 * the windows before. */
IN_REGISTERS THREES_NAME(threes_part)
    THREES_NAME(threes_load)(const float *from, uint32_t bits,
                             THREES_VECTOR nothing, THREES_VECTOR *before) {
  THREES_NAME(threes_part) part;
  THREES_NAME(threes_apart)(from, bits, nothing, &part.middle, &part.right);
  part.left = THREES_NAME(threes_before)(*before, part.right);
  *before = part.right;
  return part;
}

IN_REGISTERS THREES_NAME(threes_part)
    THREES_NAME(threes_claims)(const THREES_NAME(threes_part) * x,
                               THREES_VECTOR largest, THREES_VECTOR *head) {
  THREES_NAME(threes_part) gets;
  gets.left = THREES_NAME(threes_claim)(x->left, largest, head);
  gets.middle = THREES_NAME(threes_claim)(x->middle, largest, head);
  gets.right = THREES_NAME(threes_claim)(x->right, largest, head);
  return gets;
}

/* Stores columns of a patch; the left ones of the next patch are known. */
IN_REGISTERS void THREES_NAME(threes_store)(const threes *t, float *to,
                                            const THREES_NAME(threes_part) *
                                                part,
                                            THREES_VECTOR left, uint32_t bits) {
  const THREES_VECTOR odd =
      THREES_NAME(threes_behind)(part->left, left) + part->right;
  THREES_VECTOR a, b;
  THREES_NAME(threes_joined)(part->middle, odd, &a, &b);
  if (t->past) {
    if ((bits & 1) != 0) THREES_NAME(threes_past)(to, a);
    if ((bits >> THREES_LANES) != 0)
      THREES_NAME(threes_past)(to + THREES_LANES, b);
  } else if (bits == threes_bits(2 * THREES_LANES)) {
    THREES_NAME(threes_put)(to, a, ~0u);
    THREES_NAME(threes_put)(to + THREES_LANES, b, ~0u);
  } else {
    THREES_NAME(threes_put)(to, a, bits);
    THREES_NAME(threes_put)(to + THREES_LANES, b, bits >> THREES_LANES);
  }
}

/* Adds the gradients of the line before to the first line of windows, and keeps
 * those of the last line for the next one. */
IN_REGISTERS void THREES_NAME(threes_share)(float *shared,
                                            THREES_NAME(threes_part) * first,
                                            const THREES_NAME(threes_part) *
                                                last) {
  THREES_VECTOR *to[] = {&first->left, &first->middle, &first->right};
  const THREES_VECTOR gets[] = {last->left, last->middle, last->right};
  for (int k = 0; k < THREES; ++k, shared += THREES_LANES) {
    *to[k] += THREES_NAME(threes_take)(shared, ~0u, gets[k]);
    THREES_NAME(threes_put)(shared, gets[k], ~0u);
  }
}

/* State that a patch passes to the next one of its line. */
typedef struct THREES_NAME(threes_state) {
  THREES_VECTOR before[THREES];
  THREES_NAME(threes_part) done[2]; /* gradients that are not stored yet */
  uint32_t bits;                    /* columns of it */
  uint32_t nan;
} THREES_NAME(threes_state);

/* Adds the gradients of a patch's windows to its three lines. */
IN_REGISTERS void THREES_NAME(threes_give)(const threes *t,
                                           const threes_line *l, int64_t p,
                                           THREES_NAME(threes_state) * s,
                                           THREES_NAME(threes_part) * gets,
                                           const int whole) {
  const THREES_VECTOR none = {0}, nothing = none + NAN;
  const int64_t at = p * THREES_LANES,
                n = whole ? THREES_LANES : l->windows - at;
  const int64_t columns = whole ? 2 * THREES_LANES : t->columns - 2 * at;
  const uint32_t windows = threes_bits(nn_least(n, THREES_LANES));
  const THREES_VECTOR largest =
      THREES_NAME(threes_take)(l->out + at, windows, nothing);
  THREES_VECTOR head = THREES_NAME(threes_take)(l->head + at, windows, none);
  s->bits = threes_bits(nn_least(columns, 2 * THREES_LANES));
  s->nan |= THREES_NAME(threes_nan)(largest) & windows;
  for (int k = 0; k < THREES; ++k) {
    gets[k] = THREES_NAME(threes_load)(l->from[k] + t->shift + 2 * at, s->bits,
                                       nothing, &s->before[k]);
    gets[k] = THREES_NAME(threes_claims)(&gets[k], largest, &head);
  }
}

/* Computes patch number p, and stores the one before it; `whole` if both have
 * all of their windows and columns. */
IN_REGISTERS void THREES_NAME(threes_patch)(const threes *t,
                                            const threes_line *l, int64_t p,
                                            THREES_NAME(threes_state) * s,
                                            const int whole) {
  enum { COLUMNS = 2 * THREES_LANES };
  const int64_t at = t->shift + (p - 1) * COLUMNS;
  const uint32_t bits = whole ? threes_bits(COLUMNS) : s->bits;
  THREES_NAME(threes_part) gets[THREES];
  THREES_NAME(threes_give)(t, l, p, s, gets, whole);
  THREES_NAME(threes_share)
  (t->shared + p * THREES * THREES_LANES, &gets[0], &gets[2]);
  for (int k = 0; k < 2; ++k) {
    float *to = l->to[k];
    if (to && p > 0)
      THREES_NAME(threes_store)(t, to + at, &s->done[k], gets[k].left, bits);
    else if (to && t->shift > 0)
      to[0] = gets[k].left[0];
    s->done[k] = gets[k];
  }
}

static THREES_TARGET int THREES_NAME(threes_windows)(const threes *t,
                                                     const threes_line *l) {
  enum { L = THREES_LANES };
  const THREES_VECTOR none = {0};
  const int64_t whole = nn_least(t->columns / (2 * L), l->windows / L);
  THREES_NAME(threes_state) s;
  s.nan = 0;
  for (int k = 0; k < THREES; ++k)
    s.before[k] = none + (t->shift > 0 ? l->from[k][0] : NAN);
  for (int64_t p = 0; p < whole; ++p) THREES_NAME(threes_patch)(t, l, p, &s, 1);
  for (int64_t p = whole; p < t->patches; ++p)
    THREES_NAME(threes_patch)(t, l, p, &s, 0);
  const int64_t last = t->shift + (t->patches - 1) * 2 * L;
  for (int k = 0; k < 2; ++k)
    if (l->to[k])
      THREES_NAME(threes_store)(t, l->to[k] + last, &s.done[k], none, s.bits);
  return s.nan != 0;
}

#undef IN_REGISTERS
#undef THREES_NAME
#undef THREES_TARGET
#undef THREES_VECTOR
#undef THREES_LANES
