/* SPDX-License-Identifier: Apache-2.0
 * linear_attention_loops.h: the steps of a head (linear_attention.h), included
 * by each.h. A state is a matrix of `depth` rows and `width` columns.
 */
#include "vector.h"

/* Copies n numbers, or zeros if there are none. Of an empty array there is no
 * address. */
BODY void NAME(copy_numbers)(REAL *to, const void *from, int64_t n) {
  if (n == 0) return;
  if (from)
    memcpy(to, from, (size_t)n * sizeof *to);
  else
    memset(to, 0, (size_t)n * sizeof *to);
}

/* Sets to[j] to the sum of x[i]*state[i][j] over all rows i. */
BODY void NAME(read_state)(const nn_linear_head *h, const REAL *state,
                           const REAL *x, REAL *to) {
  const int64_t width = h->width;
  for (int64_t j = 0; j < width; ++j) to[j] = 0;
  for (int64_t i = 0; i < h->depth; ++i, state += width) {
    const REAL a = x[i];
    TN_KERNEL_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) to[j] += a * state[j];
  }
}

/* Adds factor*x[i]*u[j] to state[i][j]. */
BODY void NAME(write_state)(const nn_linear_head *h, REAL *state, const REAL *x,
                            const REAL *u, const REAL factor) {
  const int64_t width = h->width;
  for (int64_t i = 0; i < h->depth; ++i, state += width) {
    const REAL a = factor * x[i];
    TN_KERNEL_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) state[j] += a * u[j];
  }
}

/* Adds factor times the product of each row of a state with u to to[i]. */
BODY void NAME(add_products)(const nn_linear_head *h, const REAL *state,
                             const REAL *u, const REAL factor, REAL *to) {
  for (int64_t i = 0; i < h->depth; ++i)
    to[i] += factor * NAME(dot_rows)(state + i * h->width, u, h->width);
}

/* Returns the factor of row i of the state in step t. */
BODY REAL NAME(find_factor)(const nn_linear_head *h, int64_t t, int64_t i) {
  const REAL *decay = h->decay;
  if (h->decays == 0) return 1;
  return MATH(exp)(decay[t * h->decays + (h->decays > 1 ? i : 0)]);
}

/* Sets `to` to a state with the decay of step t; it may be `from`. */
BODY void NAME(fade_state)(const nn_linear_head *h, int64_t t, const REAL *from,
                           REAL *to) {
  const int64_t width = h->width;
  REAL factor = NAME(find_factor)(h, t, 0);
  for (int64_t i = 0; i < h->depth; ++i, from += width, to += width) {
    if (h->decays > 1) factor = NAME(find_factor)(h, t, i);
    TN_KERNEL_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) to[j] = factor * from[j];
  }
}

/* Sets `to` to the state after step t, from the one before, and u to the value
 * that the step writes. `to` may be `from`. */
BODY void NAME(advance)(const nn_linear_head *h, int64_t t, const REAL *from,
                        REAL *to, REAL *u) {
  const REAL *k = (const REAL *)h->k + t * h->depth;
  const REAL *v = (const REAL *)h->v + t * h->width;
  if (h->decays > 0)
    NAME(fade_state)(h, t, from, to);
  else if (to != from)
    NAME(copy_numbers)(to, from, h->depth * h->width);
  if (h->beta) {
    const REAL beta = ((const REAL *)h->beta)[t];
    NAME(read_state)(h, to, k, u);
    for (int64_t j = 0; j < h->width; ++j) u[j] = beta * (v[j] - u[j]);
  } else {
    NAME(copy_numbers)(u, v, h->width);
  }
  NAME(write_state)(h, to, k, u, 1);
}

/* Computes a head. Its room has the state, then a value. */
LOOP(run_head) {
  const nn_linear_head *h = params;
  const int64_t size = h->depth * h->width;
  REAL *state = h->room, *u = state + size;
  (void)block;
  NAME(copy_numbers)(state, h->state, size);
  for (int64_t t = 0; t < h->steps; ++t) {
    NAME(advance)(h, t, state, state, u);
    for (int64_t r = 0; h->out && r < h->queries; ++r) {
      const int64_t row = r * h->steps + t;
      REAL *out = (REAL *)h->out + row * h->width;
      NAME(read_state)(h, state, (const REAL *)h->q + row * h->depth, out);
      for (int64_t j = 0; j < h->width; ++j) out[j] *= (REAL)h->scale;
    }
  }
  if (h->state_out) NAME(copy_numbers)(h->state_out, state, size);
}

/* ---------------------------------------------------------------- backward */

/* One step of a head, backward. */
typedef struct NAME(step) {
  const nn_linear_gradients *g;
  int64_t t;
  const REAL *before; /* state */
  const REAL *after;
  const REAL *u; /* the value that was written */
  REAL *grad;    /* gradient of the state after the step, then before it */
  REAL *faded;   /* room for a state */
  REAL *du;      /* room for three values */
} NAME(step);

/* Adds the gradients of the reading queries to that of the state, and computes
 * those of the queries. */
BODY void NAME(slope_queries)(const NAME(step) * s) {
  const nn_linear_head *h = s->g->head;
  if (!s->g->out) return;
  for (int64_t r = 0; r < h->queries; ++r) {
    const int64_t row = r * h->steps + s->t;
    const REAL *out = (const REAL *)s->g->out + row * h->width;
    if (s->g->q) {
      NAME(add_products)
      (h, s->after, out, (REAL)h->scale, (REAL *)s->g->q + row * h->depth);
    }
    NAME(write_state)
    (h, s->grad, (const REAL *)h->q + row * h->depth, out, (REAL)h->scale);
  }
}

/* Computes the gradients of the written value: of the value, of beta, and of
 * the state that was read. */
BODY void NAME(slope_value)(const NAME(step) * s) {
  const nn_linear_head *h = s->g->head;
  const int64_t t = s->t, width = h->width;
  const REAL *k = (const REAL *)h->k + t * h->depth;
  const REAL *v = (const REAL *)h->v + t * width;
  REAL *to = s->g->k ? (REAL *)s->g->k + t * h->depth : NULL;
  REAL *du = s->du, *old = du + width, *rest = old + width;
  NAME(read_state)(h, s->grad, k, du);
  if (to) NAME(add_products)(h, s->grad, s->u, 1, to);
  if (h->beta) {
    const REAL beta = ((const REAL *)h->beta)[t];
    NAME(read_state)(h, s->faded, k, old);
    for (int64_t j = 0; j < width; ++j) rest[j] = v[j] - old[j];
    if (s->g->beta) ((REAL *)s->g->beta)[t] = NAME(dot_rows)(du, rest, width);
    for (int64_t j = 0; j < width; ++j) du[j] *= beta;
    if (to) NAME(add_products)(h, s->faded, du, -1, to);
    NAME(write_state)(h, s->grad, k, du, -1);
  }
  if (s->g->v) {
    NAME(copy_numbers)((REAL *)s->g->v + t * width, du, width);
  }
}

/* Computes the gradient of the decay, and of the state before it. */
BODY void NAME(slope_decay)(const NAME(step) * s) {
  const nn_linear_head *h = s->g->head;
  const int64_t t = s->t, width = h->width;
  REAL *to = s->g->decay ? (REAL *)s->g->decay + t * h->decays : NULL;
  for (int64_t i = 0; to && i < h->depth; ++i)
    to[h->decays > 1 ? i : 0] +=
        NAME(dot_rows)(s->grad + i * width, s->faded + i * width, width);
  NAME(fade_state)(h, t, s->grad, s->grad);
}

/* Goes back by one step. */
BODY void NAME(go_back)(const NAME(step) * s) {
  const nn_linear_head *h = s->g->head;
  NAME(slope_queries)(s);
  if (h->decays > 0)
    NAME(fade_state)(h, s->t, s->before, s->faded);
  else
    NAME(copy_numbers)(s->faded, s->before, h->depth * h->width);
  NAME(slope_value)(s);
  if (h->decays > 0) NAME(slope_decay)(s);
}

/* Sets the gradients that steps add to, to 0. */
BODY void NAME(clear_gradients)(const nn_linear_gradients *g) {
  const nn_linear_head *h = g->head;
  const int64_t rows = h->steps * h->depth;
  if (g->q) NAME(copy_numbers)(g->q, NULL, h->queries * rows);
  if (g->k) NAME(copy_numbers)(g->k, NULL, rows);
  if (g->decay) NAME(copy_numbers)(g->decay, NULL, h->steps * h->decays);
}

/* Computes the gradients of a head. The states after each chunk are kept; those
 * inside of a chunk are computed again. */
LOOP(slope_head) {
  const nn_linear_gradients *g = params;
  const nn_linear_head *h = g->head;
  const int64_t size = h->depth * h->width;
  const int64_t chunks = nn_linear_count_chunks(h->steps, g->chunk);
  REAL *starts = h->room, *inside = starts + chunks * size;
  REAL *grad = inside + (g->chunk + 1) * size, *faded = grad + size;
  REAL *u = faded + size, *du = u + g->chunk * h->width;
  (void)block;
  NAME(clear_gradients)(g);
  NAME(copy_numbers)(inside, h->state, size);
  for (int64_t t = 0; t < h->steps; ++t) {
    if (t % g->chunk == 0)
      NAME(copy_numbers)(starts + t / g->chunk * size, inside, size);
    NAME(advance)(h, t, inside, inside, u);
  }
  NAME(copy_numbers)(grad, g->state_out, size);
  for (int64_t c = chunks; c-- > 0;) {
    const int64_t first = c * g->chunk, left = h->steps - first;
    const int64_t n = left < g->chunk ? left : g->chunk;
    NAME(copy_numbers)(inside, starts + c * size, size);
    for (int64_t i = 0; i < n; ++i) {
      NAME(advance)
      (h, first + i, inside + i * size, inside + (i + 1) * size,
       u + i * h->width);
    }
    for (int64_t i = n; i-- > 0;) {
      const NAME(step) s = {g,
                            first + i,
                            inside + i * size,
                            inside + (i + 1) * size,
                            u + i * h->width,
                            grad,
                            faded,
                            du};
      NAME(go_back)(&s);
    }
  }
  if (g->state) NAME(copy_numbers)(g->state, grad, size);
}
