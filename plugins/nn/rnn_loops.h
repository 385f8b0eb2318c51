/* SPDX-License-Identifier: Apache-2.0
 * rnn_loops.h: the steps of a recurrent layer (rnn.h), included by each.h.
 *
 * A strip has some units, as vectors: the gates of LANES units for lstm and
 * gru, otherwise NN_RNN_ACROSS vectors of units. The weights of a strip are
 * packed, so that each step reads them in order.
 */
#include "vector.h"

enum { NAME(most) = BYTES == 64 ? 6 : 2 }; /* rows with sums in registers */
enum { NAME(half) = BYTES == 64 ? 3 : 1 };

/* Writes the number of units of a vector to *out, an int64_t. */
LOOP(report_lanes) {
  int64_t *lanes = block->out;
  (void)params;
  *lanes = NAME(lanes);
}

/* A product of some rows h and a strip. */
typedef struct NAME(strip) {
  const REAL *weights;
  const REAL *h;
  int64_t row; /* distance of rows of h */
  int64_t n;   /* units of h */
  REAL *sums;  /* [row][vector][lane] */
} NAME(strip);

/* Computes the products of `rows` rows and a strip of `across` vectors. */
BODY void NAME(sum_rows)(const NAME(strip) * s, const int rows,
                         const int across) {
  enum { L = NAME(lanes) };
  NAME(vector) sum[NAME(most)][NN_RNN_ACROSS];
  const REAL *w = s->weights;
  NN_RNN_UNROLL
  for (int r = 0; r < rows; ++r)
    for (int g = 0; g < across; ++g) sum[r][g] = (NAME(vector)){0};
  for (int64_t k = 0; k < s->n; ++k, w += across * L) {
    NAME(vector) b[NN_RNN_ACROSS];
    NN_RNN_UNROLL
    for (int g = 0; g < across; ++g) b[g] = NN_VECTOR(w + g * L);
    NN_RNN_UNROLL
    for (int r = 0; r < rows; ++r) {
      const REAL a = s->h[r * s->row + k];
      for (int g = 0; g < across; ++g) sum[r][g] += a * b[g];
    }
  }
  NN_RNN_UNROLL
  for (int r = 0; r < rows; ++r)
    for (int g = 0; g < across; ++g)
      *(NAME(vector) *)(void *)(s->sums + (r * across + g) * L) = sum[r][g];
}

/* Computes the same for one row, with two sets of sums, since one would wait
 * for itself. */
BODY void NAME(sum_row_of_strip)(const NAME(strip) * s, const int across) {
  enum { L = NAME(lanes) };
  NAME(vector) sum[2][NN_RNN_ACROSS];
  const REAL *w = s->weights;
  int64_t k = 0;
  for (int g = 0; g < across; ++g) sum[0][g] = sum[1][g] = (NAME(vector)){0};
  for (; k + 2 <= s->n; k += 2, w += 2 * across * L) {
    const REAL a = s->h[k], b = s->h[k + 1];
    NN_RNN_UNROLL
    for (int g = 0; g < across; ++g) {
      sum[0][g] += a * NN_VECTOR(w + g * L);
      sum[1][g] += b * NN_VECTOR(w + (across + g) * L);
    }
  }
  NN_RNN_UNROLL
  for (int g = 0; g < across; ++g) {
    if (k < s->n) sum[0][g] += s->h[k] * NN_VECTOR(w + g * L);
    *(NAME(vector) *)(void *)(s->sums + g * L) = sum[0][g] + sum[1][g];
  }
}

/* Computes the products of `rows` rows, and returns their number: the largest
 * possible one up to `left`. */
BODY int NAME(sum_strip)(const NAME(strip) * s, int64_t left,
                         const int across) {
  if (left >= NAME(most)) {
    NAME(sum_rows)(s, NAME(most), across);
    return NAME(most);
  }
  if (NAME(half) > 1 && left >= NAME(half)) {
    NAME(sum_rows)(s, NAME(half), across);
    return NAME(half);
  }
  NAME(sum_row_of_strip)(s, across);
  return 1;
}

/* ------------------------------------------------------------------- cells */

/* One row of a strip at one step: `n` units from `unit` on. */
typedef struct NAME(place) {
  const REAL *biases; /* of all gates */
  const REAL *x;      /* products of the input, gate by gate */
  const REAL *h;      /* h before the step */
  REAL *out;          /* h after it */
  REAL *cell;         /* lstm: c, before and after */
  REAL *kept;         /* values for the gradient, or NULL */
  int64_t unit;
  int64_t n;
} NAME(place);

/* Adds the products of the input and the biases to the sums of n units of one
 * gate. */
BODY void NAME(add_input)(const NAME(place) * p, int64_t at, const REAL *sum,
                          REAL *to, const int64_t n) {
  enum { L = NAME(lanes) };
  if (n < L) memset(to, 0, L * sizeof *to);
  for (int64_t i = 0; i < n; ++i)
    to[i] = sum[i] + (p->x[at + i] + p->biases[at + i]);
}

/* Keeps value number `which` of n units for the gradient. */
BODY void NAME(keep)(const nn_rnn_steps *l, const NAME(place) * p, int which,
                     const REAL *from, const int64_t n) {
  if (p->kept)
    memcpy(p->kept + which * l->units + p->unit, from,
           (size_t)n * sizeof *from);
}

BODY void NAME(finish_lstm)(const nn_rnn_steps *l, const NAME(place) * p,
                            const REAL *sum, const int64_t n) {
  enum { L = NAME(lanes) };
  REAL gate[4][L], c[L] = {0}, h[L];
  for (int g = 0; g < 4; ++g)
    NAME(add_input)(p, g * l->units + p->unit, sum + g * L, gate[g], n);
  memcpy(c, p->cell + p->unit, (size_t)n * sizeof *c);
  TN_KERNEL_INDEPENDENT
  for (int i = 0; i < L; ++i) {
    gate[0][i] = MATH(sigmoid)(gate[0][i]);
    gate[1][i] = MATH(sigmoid)(gate[1][i]);
    gate[2][i] = MATH(tanh)(gate[2][i]);
    gate[3][i] = MATH(sigmoid)(gate[3][i]);
    c[i] = gate[1][i] * c[i] + gate[0][i] * gate[2][i];
    h[i] = gate[3][i] * MATH(tanh)(c[i]);
  }
  memcpy(p->cell + p->unit, c, (size_t)n * sizeof *c);
  memcpy(p->out + p->unit, h, (size_t)n * sizeof *h);
  for (int g = 0; g < 4; ++g) NAME(keep)(l, p, g, gate[g], n);
  NAME(keep)(l, p, 4, c, n);
}

BODY void NAME(finish_gru)(const nn_rnn_steps *l, const NAME(place) * p,
                           const REAL *sum, const int64_t n) {
  enum { L = NAME(lanes) };
  const REAL *bias = l->bias;
  const REAL none[L] = {0};
  REAL gate[3][L], m[L] = {0}, old[L] = {0}, h[L];
  for (int g = 0; g < 2; ++g)
    NAME(add_input)(p, g * l->units + p->unit, sum + g * L, gate[g], n);
  NAME(add_input)(p, 2 * l->units + p->unit, none, gate[2], n);
  for (int64_t i = 0; i < n; ++i) m[i] = sum[2 * L + i] + bias[p->unit + i];
  memcpy(old, p->h + p->unit, (size_t)n * sizeof *old);
  TN_KERNEL_INDEPENDENT
  for (int i = 0; i < L; ++i) {
    gate[0][i] = MATH(sigmoid)(gate[0][i]);
    gate[1][i] = MATH(sigmoid)(gate[1][i]);
    gate[2][i] = MATH(tanh)(gate[2][i] + gate[0][i] * m[i]);
    h[i] = gate[2][i] + gate[1][i] * (old[i] - gate[2][i]);
  }
  memcpy(p->out + p->unit, h, (size_t)n * sizeof *h);
  for (int g = 0; g < 3; ++g) NAME(keep)(l, p, g, gate[g], n);
  NAME(keep)(l, p, 3, m, n);
}

BODY void NAME(finish_plain)(const nn_rnn_steps *l, const NAME(place) * p,
                             const REAL *sum, const int64_t n) {
  enum { L = NAME(lanes) };
  REAL a[L];
  NAME(add_input)(p, p->unit, sum, a, n);
  if (l->kind == NN_RNN_MODE_RNN_TANH) {
    TN_KERNEL_INDEPENDENT
    for (int i = 0; i < L; ++i) a[i] = MATH(tanh)(a[i]);
  } else {
    TN_KERNEL_INDEPENDENT
    for (int i = 0; i < L; ++i) a[i] = a[i] < 0 ? 0 : a[i];
  }
  memcpy(p->out + p->unit, a, (size_t)n * sizeof *a);
}

/* Computes the cells of n units. */
BODY void NAME(finish_units)(const nn_rnn_steps *l, const NAME(place) * p,
                             const REAL *sum, const int64_t n) {
  if (l->kind == NN_RNN_MODE_LSTM)
    NAME(finish_lstm)(l, p, sum, n);
  else if (l->kind == NN_RNN_MODE_GRU)
    NAME(finish_gru)(l, p, sum, n);
  else
    NAME(finish_plain)(l, p, sum, n);
}

/* Computes the cells of one row of a strip, which begins at p->unit. */
BODY void NAME(finish_row)(const nn_rnn_steps *l, NAME(place) * p,
                           const REAL *sum) {
  enum { L = NAME(lanes) };
  const int64_t vectors = l->gates > 1 ? 1 : NN_RNN_ACROSS;
  for (int64_t v = 0; v < vectors && p->unit < l->units; ++v) {
    p->n = l->units - p->unit;
    if (p->n >= L)
      NAME(finish_units)(l, p, sum, L);
    else
      NAME(finish_units)(l, p, sum, p->n);
    p->unit += L;
    sum += L;
  }
}

/* Computes one step of a strip for all rows, t being the index of the step and
 * `before` the one before; -1: `before` is the state. */
static TARGET void NAME(run_strip)(const nn_rnn_steps *l, int64_t t,
                                   int64_t before, int64_t index) {
  enum { L = NAME(lanes), ALL = NAME(most) * NN_RNN_ACROSS * L };
  REAL sums[ALL];
  const int64_t across = l->gates > 1 ? l->gates : NN_RNN_ACROSS;
  const int64_t units = l->gates > 1 ? L : NN_RNN_ACROSS * L;
  NAME(strip)
  s = {(const REAL *)l->packed + index * l->units * across * L, NULL,
       before < 0 ? l->units : l->out_row, l->units, sums};
  const REAL *h =
      before < 0 ? l->state : (const REAL *)l->out + before * l->out_step;
  for (int64_t r = 0, n; r < l->rows; r += n) {
    s.h = h + r * s.row;
    n = across == 3 ? NAME(sum_strip)(&s, l->rows - r, 3)
                    : NAME(sum_strip)(&s, l->rows - r, NN_RNN_ACROSS);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = r + i;
      NAME(place)
      p = {.biases = l->biases,
           .x = (const REAL *)l->x + t * l->x_step + row * l->gates * l->units,
           .h = h + row * s.row,
           .out = (REAL *)l->out + t * l->out_step + row * l->out_row,
           .unit = index * units};
      if (l->cell) p.cell = (REAL *)l->cell + row * l->units;
      if (l->kept)
        p.kept = (REAL *)l->kept + t * l->kept_step + row * l->kept_row;
      NAME(finish_row)(l, &p, sums + i * across * L);
    }
  }
}

/* Computes all steps of some rows of one direction of a layer. */
LOOP(run_steps) {
  enum { L = NAME(lanes) };
  const nn_rnn_steps *l = params;
  const int64_t units = l->gates > 1 ? L : NN_RNN_ACROSS * L;
  int64_t before = -1;
  (void)block;
  for (int64_t s = 0; s < l->steps; ++s) {
    const int64_t t = l->is_reverse ? l->steps - 1 - s : s;
    for (int64_t i = 0; i * units < l->units; ++i)
      NAME(run_strip)(l, t, before, i);
    before = t;
  }
}
