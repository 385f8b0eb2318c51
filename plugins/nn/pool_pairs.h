/* SPDX-License-Identifier: Apache-2.0
 * pool_pairs.h: loops over windows of 2 x 2 that do not overlap, for one
 * element type: a line of windows is computed from two lines of data in one
 * step. Only pool_lines.h includes it, with REAL, BITS and NAME(x) as there.
 */

/* Computes n windows of 2 x 2: the largest of two elements of `above` and two
 * of `below`. Adds them to `to` if `add`. */
TN_KERNEL_BODY void NAME(max_2x2_piece)(const REAL *above, const REAL *below,
                                        REAL *to, const int64_t n,
                                        const int add) {
  TN_KERNEL_INDEPENDENT
  TN_KERNEL_ROLLED
  for (int64_t o = 0; o < n; ++o) {
    const REAL a = NAME(choose_larger)(above[2 * o], above[2 * o + 1]);
    const REAL b = NAME(choose_larger)(below[2 * o], below[2 * o + 1]);
    const REAL all = NAME(choose_larger)(a, b);
    to[o] = add ? to[o] + all : all;
  }
}

/* Computes a line of n windows in pieces of `length`, a constant. */
TN_KERNEL_BODY void NAME(max_2x2_pieces)(const REAL *above, const REAL *below,
                                         REAL *to, int64_t n,
                                         const int64_t length) {
  for (int64_t at = 0; at >= 0; at = find_next_piece(at, n, length))
    NAME(max_2x2_piece)(above + 2 * at, below + 2 * at, to + at, length, 0);
}

/* Computes a line of n windows with the longest pieces that fit. */
TN_KERNEL_BODY void NAME(max_2x2_line)(const REAL *above, const REAL *below,
                                       REAL *to, int64_t n) {
  if (n >= 16)
    NAME(max_2x2_pieces)(above, below, to, n, 16);
  else if (n >= 8)
    NAME(max_2x2_pieces)(above, below, to, n, 8);
  else if (n >= 4)
    NAME(max_2x2_pieces)(above, below, to, n, 4);
  else
    NAME(max_2x2_piece)(above, below, to, n, 0);
}

/* Computes a line of sums or means of 2 x 2 windows. Multiplication by a
 * quarter is exact. */
TN_KERNEL_BODY void NAME(sum_2x2_line)(const REAL *above, const REAL *below,
                                       REAL *to, const nn_pool *p,
                                       const int add) {
  const REAL factor = (REAL)(p->kind == NN_POOL_AVG ? 0.25 : 1);
  const int64_t n = p->window.out[2];
  TN_KERNEL_INDEPENDENT
  for (int64_t o = 0; o < n; ++o) {
    const REAL a = above[2 * o] + below[2 * o];
    const REAL b = above[2 * o + 1] + below[2 * o + 1];
    const REAL all = (a + b) * factor;
    to[o] = add ? to[o] + all : all;
  }
}

/* Computes `out` of an image, for windows of 2 x 2 that do not overlap. */
TN_KERNEL_BODY void NAME(pool_2x2)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const REAL *data = image->data;
  REAL *to = image->out;
  for (int64_t i = 0; i < w->out[0]; ++i, data += w->in[1] * w->in[2])
    for (int64_t j = 0; j < w->out[1]; ++j, to += w->out[2]) {
      const REAL *line = data + 2 * j * w->in[2], *below = line + w->in[2];
      NAME(prefetch_line)(line + PREFETCH_DISTANCE * w->in[2], 2 * w->in[2]);
      if (image->pool->kind != NN_POOL_MAX) {
        NAME(sum_2x2_line)(line, below, to, image->pool, image->add);
        continue;
      }
      if (image->add)
        NAME(max_2x2_piece)(line, below, to, w->out[2], 1);
      else
        NAME(max_2x2_line)(line, below, to, w->out[2]);
    }
}

/* ---------------------------------------------------------------- backward */

/* Returns *left if x is the largest element, and clears it then, so that only
 * the first one gets the gradient; otherwise 0. */
TN_KERNEL_BODY REAL NAME(take_gradient)(REAL x, REAL largest, REAL *left) {
  const int hit = (x == largest) | (x != x);
  const REAL all = *left;
  *left = hit ? 0 : all;
  return hit ? all : 0;
}

/* Computes the gradients of n windows from number `at` on, in both lines of
 * data. */
TN_KERNEL_BODY void NAME(max_2x2_piece_backward)(const nn_pool_2x2_line *p,
                                                 int64_t at, const int64_t n,
                                                 const int add) {
  const REAL *out = (const REAL *)p->out + at;
  const REAL *out_gradient = (const REAL *)p->out_gradient + at;
  const REAL *above = (const REAL *)p->data + 2 * at, *below = above + p->line;
  REAL *to_above = (REAL *)p->to + 2 * at, *to_below = to_above + p->line;
  TN_KERNEL_INDEPENDENT
  TN_KERNEL_ROLLED
  for (int64_t o = 0; o < n; ++o) {
    REAL left = out_gradient[o];
    const REAL a = NAME(take_gradient)(above[2 * o], out[o], &left);
    const REAL b = NAME(take_gradient)(above[2 * o + 1], out[o], &left);
    const REAL c = NAME(take_gradient)(below[2 * o], out[o], &left);
    const REAL d = NAME(take_gradient)(below[2 * o + 1], out[o], &left);
    to_above[2 * o] = add ? to_above[2 * o] + a : a;
    to_above[2 * o + 1] = add ? to_above[2 * o + 1] + b : b;
    to_below[2 * o] = add ? to_below[2 * o] + c : c;
    to_below[2 * o + 1] = add ? to_below[2 * o + 1] + d : d;
  }
}

TN_KERNEL_BODY void NAME(max_2x2_pieces_backward)(const nn_pool_2x2_line *p,
                                                  const int64_t length) {
  for (int64_t at = 0; at >= 0; at = find_next_piece(at, p->n, length))
    NAME(max_2x2_piece_backward)(p, at, length, 0);
}

TN_KERNEL_BODY void NAME(max_2x2_line_backward)(const nn_pool_2x2_line *p) {
  if (p->n >= 16)
    NAME(max_2x2_pieces_backward)(p, 16);
  else if (p->n >= 8)
    NAME(max_2x2_pieces_backward)(p, 8);
  else if (p->n >= 4)
    NAME(max_2x2_pieces_backward)(p, 4);
  else
    NAME(max_2x2_piece_backward)(p, 0, p->n, 0);
}

/* Computes the gradient of the largest for an image. Elements in no window get
 * 0. */
TN_KERNEL_BODY void NAME(max_2x2_backward)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t plane = w->in[1] * w->in[2], lines = 2 * w->out[1];
  REAL *to = image->to;
  const int64_t n = w->out[1] * w->out[2];
  for (int64_t i = 0; i < w->out[0]; ++i, to += plane) {
    if (!image->add && 2 * w->out[2] < w->in[2])
      memset(to, 0, (size_t)plane * sizeof *to);
    else if (!image->add)
      memset(to + lines * w->in[2], 0,
             (size_t)(plane - lines * w->in[2]) * sizeof *to);
    for (int64_t j = 0; j < w->out[1]; ++j) {
      const nn_pool_2x2_line line_pair = {
          .data = (const REAL *)image->data + i * plane + 2 * j * w->in[2],
          .out = (const REAL *)image->out + i * n + j * w->out[2],
          .out_gradient =
              (const REAL *)image->out_gradient + i * n + j * w->out[2],
          .to = to + 2 * j * w->in[2],
          .n = w->out[2],
          .line = w->in[2]};
      if (image->add)
        NAME(max_2x2_piece_backward)(&line_pair, 0, line_pair.n, 1);
      else
        NAME(max_2x2_line_backward)(&line_pair);
    }
  }
}

/* Writes the gradients of a line of windows to both of its lines of data, for
 * sums or means. A line of data has n elements. */
TN_KERNEL_BODY void NAME(sum_2x2_line_backward)(const nn_pool *p,
                                                const REAL *out_gradient,
                                                REAL *to, int64_t n,
                                                const int add) {
  const REAL factor = (REAL)(p->kind == NN_POOL_AVG ? 0.25 : 1);
  TN_KERNEL_INDEPENDENT
  for (int64_t o = 0; o < p->window.out[2]; ++o) {
    const REAL all = out_gradient[o] * factor;
    to[2 * o] = add ? to[2 * o] + all : all;
    to[2 * o + 1] = add ? to[2 * o + 1] + all : all;
    to[n + 2 * o] = add ? to[n + 2 * o] + all : all;
    to[n + 2 * o + 1] = add ? to[n + 2 * o + 1] + all : all;
  }
  for (int64_t i = 2 * p->window.out[2]; !add && i < n; ++i)
    to[i] = to[n + i] = 0;
}

/* Computes the gradient of sums or means of 2 x 2 windows for an image. */
TN_KERNEL_BODY void NAME(sum_2x2_backward)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t n = w->in[2], bytes = n * (int64_t)sizeof(REAL);
  const REAL *out_gradient = image->out_gradient;
  nn_writer writer = nn_writer_open(image->to, image->buffer, image->level);
  for (int64_t i = 0; i < w->out[0]; ++i) {
    for (int64_t j = 0; j < w->out[1]; ++j, out_gradient += w->out[2]) {
      REAL *to = nn_writer_begin_line(&writer);
      if (image->add)
        NAME(sum_2x2_line_backward)(image->pool, out_gradient, to, n, 1);
      else
        NAME(sum_2x2_line_backward)(image->pool, out_gradient, to, n, 0);
      nn_writer_end_line(&writer, 2 * bytes);
    }
    for (int64_t j = 2 * w->out[1]; j < w->in[1]; ++j) {
      if (!image->add) memset(nn_writer_begin_line(&writer), 0, (size_t)bytes);
      nn_writer_end_line(&writer, bytes);
    }
  }
  nn_writer_close(&writer);
}
