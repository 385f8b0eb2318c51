/* SPDX-License-Identifier: Apache-2.0
 * pool_lines.h: the loops of pool_lines.c for one element type. Included by it
 * only, twice, with
 *
 *   REAL     the element type
 *   NAME(x)  x with the type behind it
 *
 * which it undefines.
 */

/* The larger of two; NaN counts as larger than everything. */
TN_KERNEL_BODY REAL NAME(larger)(REAL a, REAL b) {
  return ((b > a) | (b != b)) ? b : a;
}

/* Columns of a line by what they leave when divided by `step`: phase p begins
 * at to + p * length. */
TN_KERNEL_BODY void NAME(sort)(const REAL *line, REAL *to, int64_t n,
                               const phases *s) {
  if (s->step == 2) {
    TN_KERNEL_INDEPENDENT
    for (int64_t j = 0; j < n / 2; ++j) {
      to[j] = line[2 * j];
      to[s->length + j] = line[2 * j + 1];
    }
    if (n % 2 != 0) to[n / 2] = line[n - 1];
    return;
  }
  for (int64_t p = 0; p < s->step; ++p)
    for (int64_t j = 0; p + j * s->step < n; ++j)
      to[p * s->length + j] = line[p + j * s->step];
}

/* The way back. */
TN_KERNEL_BODY void NAME(unsort)(REAL *line, const REAL *from, int64_t n,
                                 const phases *s) {
  if (s->step == 2) {
    TN_KERNEL_INDEPENDENT
    for (int64_t j = 0; j < n / 2; ++j) {
      line[2 * j] = from[j];
      line[2 * j + 1] = from[s->length + j];
    }
    if (n % 2 != 0) line[n - 1] = from[n / 2];
    return;
  }
  for (int64_t p = 0; p < s->step; ++p)
    for (int64_t j = 0; p + j * s->step < n; ++j)
      line[p + j * s->step] = from[p * s->length + j];
}

/* Joins a line to those above it. */
TN_KERNEL_BODY void NAME(join)(REAL *all, const REAL *line, int64_t n,
                               int largest) {
  if (largest) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) all[i] = NAME(larger)(all[i], line[i]);
  } else {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) all[i] += line[i];
  }
}

/* Of a line that is one window. */
TN_KERNEL_BODY REAL NAME(fold)(const REAL *x, int64_t n, int largest) {
  REAL part[LANES], all;
  for (int l = 0; l < LANES; ++l) part[l] = largest ? -(REAL)INFINITY : 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) NAME(join)(part, x + i, LANES, largest);
  NAME(join)(part, x + i, n - i, largest);
  all = part[0];
  for (int l = 1; l < LANES; ++l)
    all = largest ? NAME(larger)(all, part[l]) : all + part[l];
  return all;
}

/* Windows side by side, of a line in which those above each other are joined
 * already. */
TN_KERNEL_BODY void NAME(slide)(const nn_pool *p, const REAL *line,
                                REAL *sorted, REAL *to) {
  const nn_window *w = &p->window;
  const int largest = p->kind == NN_POOL_MAX;
  const phases s = phases_of(w);
  if (w->out[2] == 1) {
    const nn_range x = elements(w, 2, 0);
    to[0] = NAME(fold)(line + x.begin, x.end - x.begin, largest);
    return;
  }
  if (s.step > 1) NAME(sort)(line, sorted, w->in[2], &s);
  for (int64_t o = 0; o < w->out[2]; ++o) to[o] = largest ? -(REAL)INFINITY : 0;
  for (int64_t t = 0; t < w->kernel[2]; ++t) {
    const nn_range x = p->taps[t].inside;
    const REAL *from = (s.step > 1 ? sorted : line) + p->taps[t].at;
    NAME(join)(to + x.begin, from + x.begin, x.end - x.begin, largest);
  }
}

/* What sums of a line of windows are divided by, if not by 1. */
TN_KERNEL_BODY void NAME(divide)(const nn_pool *p, const int64_t *at,
                                 REAL *line) {
  const int64_t others = extent(p, 0, at[0]) * extent(p, 1, at[1]);
  const nn_range x = p->whole;
  const REAL whole = (REAL)(others * p->window.kernel[2]);
  for (int64_t o = 0; o < x.begin; ++o)
    line[o] /= (REAL)nn_most(others * extent(p, 2, o), 1);
  TN_KERNEL_INDEPENDENT
  for (int64_t o = x.begin; o < x.end; ++o) line[o] /= whole > 0 ? whole : 1;
  for (int64_t o = x.end; o < p->window.out[2]; ++o)
    line[o] /= (REAL)nn_most(others * extent(p, 2, o), 1);
}

/* The lines of a window above each other, joined. */
TN_KERNEL_BODY void NAME(stack)(const nn_pool *p, const REAL *data,
                                const int64_t *at, REAL *line) {
  const nn_window *w = &p->window;
  const nn_range z = elements(w, 0, at[0]), y = elements(w, 1, at[1]);
  const int largest = p->kind == NN_POOL_MAX;
  int first = 1;
  if (w->in[2] == 0) return;
  for (int64_t i = z.begin; i < z.end; ++i)
    for (int64_t j = y.begin; j < y.end; ++j, first = 0) {
      const REAL *from = data + (i * w->in[1] + j) * w->in[2];
      if (first)
        memcpy(line, from, (size_t)w->in[2] * sizeof *line);
      else
        NAME(join)(line, from, w->in[2], largest);
    }
  for (int64_t i = 0; first && i < w->in[2]; ++i)
    line[i] = largest ? -(REAL)INFINITY : 0;
}

/* The largest of pairs of a line and of the line below it. */
TN_KERNEL_BODY void NAME(pair_line)(const REAL *above, const REAL *below,
                                    REAL *to, int64_t n, const int add) {
  TN_KERNEL_INDEPENDENT
  for (int64_t o = 0; o < n; ++o) {
    const REAL a = NAME(larger)(above[2 * o], above[2 * o + 1]);
    const REAL b = NAME(larger)(below[2 * o], below[2 * o + 1]);
    const REAL all = NAME(larger)(a, b);
    to[o] = add ? to[o] + all : all;
  }
}

/* Windows of 2 x 2 that do not overlap. */
TN_KERNEL_BODY void NAME(pairs)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const REAL *data = image->data;
  REAL *to = image->out;
  for (int64_t i = 0; i < w->out[0]; ++i, data += w->in[1] * w->in[2])
    for (int64_t j = 0; j < w->out[1]; ++j, to += w->out[2]) {
      const REAL *line = data + 2 * j * w->in[2];
      if (image->add)
        NAME(pair_line)(line, line + w->in[2], to, w->out[2], 1);
      else
        NAME(pair_line)(line, line + w->in[2], to, w->out[2], 0);
    }
}

TN_KERNEL_BODY void NAME(forward)(const tn_kernel_block *block,
                                  const void *params) {
  const nn_pool_image *image = params;
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  if (is_pairs(p)) {
    NAME(pairs)(image);
    return;
  }
  REAL *line = image->scratch, *sorted = line + w->in[2];
  REAL *fresh = sorted + w->in[2] + w->stride[2];
  REAL *to = image->out;
  int64_t at[2];
  (void)block;
  for (at[0] = 0; at[0] < w->out[0]; ++at[0])
    for (at[1] = 0; at[1] < w->out[1]; ++at[1], to += w->out[2]) {
      REAL *result = image->add ? fresh : to;
      NAME(stack)(p, image->data, at, line);
      NAME(slide)(p, line, sorted, result);
      if (p->kind == NN_POOL_AVG) NAME(divide)(p, at, result);
      if (image->add) NAME(join)(to, fresh, w->out[2], 0);
    }
}
LEVELS(NAME(forward))

/* ---------------------------------------------------------------- backward */

/* Gives what is left of the gradients of a line of windows to those of their
 * largest elements that lie in one line of data, and takes it away. */
TN_KERNEL_BODY void NAME(give)(const nn_pool *p, const REAL *data,
                               const REAL *out, REAL *left, REAL *to) {
  const nn_window *w = &p->window;
  for (int64_t t = 0; t < w->kernel[2]; ++t) {
    const nn_range x = p->taps[t].inside;
    const int64_t skip = p->taps[t].at;
    const REAL *from = data + skip;
    REAL *gives = to + skip;
    TN_KERNEL_INDEPENDENT
    for (int64_t o = x.begin; o < x.end; ++o) {
      const REAL v = from[o], g = left[o];
      const int hit = (v == out[o]) | (v != v);
      gives[o] += hit ? g : 0;
      left[o] = hit ? 0 : g;
    }
  }
}

/* The gradient of the largest. `data` and `to` are sorted. */
TN_KERNEL_BODY void NAME(give_all)(const nn_pool_image *image, const REAL *data,
                                   REAL *to, REAL *left) {
  const nn_window *w = &image->pool->window;
  const phases s = phases_of(w);
  const int64_t pitch = s.step * s.length;
  const REAL *out = image->out, *head = image->head;
  for (int64_t i = 0; i < w->out[0]; ++i)
    for (int64_t j = 0; j < w->out[1]; ++j) {
      const nn_range z = elements(w, 0, i), y = elements(w, 1, j);
      memcpy(left, head, (size_t)w->out[2] * sizeof *left);
      for (int64_t a = z.begin; a < z.end; ++a)
        for (int64_t b = y.begin; b < y.end; ++b) {
          const int64_t line = (a * w->in[1] + b) * pitch;
          NAME(give)(image->pool, data + line, out, left, to + line);
        }
      out += w->out[2];
      head += w->out[2];
    }
}

TN_KERNEL_BODY void NAME(largest_backward)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const phases s = phases_of(w);
  const int64_t lines = w->in[0] * w->in[1], pitch = s.step * s.length;
  const REAL *data = image->data;
  REAL *to = image->to, *left = image->scratch;
  REAL *sorted = left + w->out[2], *given = sorted + lines * pitch;
  if (s.step == 1) {
    if (!image->add) memset(to, 0, (size_t)(lines * w->in[2]) * sizeof *to);
    NAME(give_all)(image, data, to, left);
    return;
  }
  if (!image->add) memset(given, 0, (size_t)(lines * pitch) * sizeof *given);
  for (int64_t i = 0; i < lines; ++i) {
    NAME(sort)(data + i * w->in[2], sorted + i * pitch, w->in[2], &s);
    if (image->add)
      NAME(sort)(to + i * w->in[2], given + i * pitch, w->in[2], &s);
  }
  NAME(give_all)(image, sorted, given, left);
  for (int64_t i = 0; i < lines; ++i)
    NAME(unsort)(to + i * w->in[2], given + i * pitch, w->in[2], &s);
}

/* What the first of the largest gets of a gradient, which is taken away. */
TN_KERNEL_BODY REAL NAME(take)(REAL x, REAL largest, REAL *left) {
  const int hit = (x == largest) | (x != x);
  const REAL all = *left;
  *left = hit ? 0 : all;
  return hit ? all : 0;
}

/* The gradients of pairs of a line and of the line below it. */
TN_KERNEL_BODY void NAME(pair_line_backward)(const nn_pool_pairs *p,
                                             const int add) {
  const REAL *out = p->out, *head = p->head;
  const REAL *above = p->data, *below = above + p->line;
  REAL *to_above = p->to, *to_below = to_above + p->line;
  TN_KERNEL_INDEPENDENT
  for (int64_t o = 0; o < p->n; ++o) {
    REAL left = head[o];
    const REAL a = NAME(take)(above[2 * o], out[o], &left);
    const REAL b = NAME(take)(above[2 * o + 1], out[o], &left);
    const REAL c = NAME(take)(below[2 * o], out[o], &left);
    const REAL d = NAME(take)(below[2 * o + 1], out[o], &left);
    to_above[2 * o] = add ? to_above[2 * o] + a : a;
    to_above[2 * o + 1] = add ? to_above[2 * o + 1] + b : b;
    to_below[2 * o] = add ? to_below[2 * o] + c : c;
    to_below[2 * o + 1] = add ? to_below[2 * o + 1] + d : d;
  }
}

/* The same of an image; elements in no window get nothing. */
TN_KERNEL_BODY void NAME(pairs_backward)(const nn_pool_image *image) {
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
      const nn_pool_pairs some = {
          .data = (const REAL *)image->data + i * plane + 2 * j * w->in[2],
          .out = (const REAL *)image->out + i * n + j * w->out[2],
          .head = (const REAL *)image->head + i * n + j * w->out[2],
          .to = to + 2 * j * w->in[2],
          .n = w->out[2],
          .line = w->in[2]};
      if (image->add)
        NAME(pair_line_backward)(&some, 1);
      else
        NAME(pair_line_backward)(&some, 0);
    }
  }
}

/* What a line of windows gives to each line of data that they lie on. */
TN_KERNEL_BODY void NAME(spread)(const nn_pool *p, const REAL *share,
                                 REAL *sorted, REAL *line) {
  const nn_window *w = &p->window;
  const phases s = phases_of(w);
  REAL *to = s.step > 1 ? sorted : line;
  memset(to, 0, (size_t)(s.step * s.length) * sizeof *to);
  for (int64_t t = 0; t < w->kernel[2]; ++t) {
    const nn_range x = p->taps[t].inside;
    NAME(join)
    (to + p->taps[t].at + x.begin, share + x.begin, x.end - x.begin, 0);
  }
  if (s.step > 1) NAME(unsort)(line, sorted, w->in[2], &s);
}

TN_KERNEL_BODY void NAME(sum_backward)(const nn_pool_image *image) {
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  const phases s = phases_of(w);
  REAL *share = image->scratch, *line = share + w->out[2];
  REAL *sorted = line + s.step * s.length, *to = image->to;
  const REAL *head = image->head;
  int64_t at[2];
  if (!image->add) memset(to, 0, (size_t)p->in_size * sizeof *to);
  for (at[0] = 0; at[0] < w->out[0]; ++at[0])
    for (at[1] = 0; at[1] < w->out[1]; ++at[1], head += w->out[2]) {
      const nn_range z = elements(w, 0, at[0]), y = elements(w, 1, at[1]);
      memcpy(share, head, (size_t)w->out[2] * sizeof *share);
      if (p->kind == NN_POOL_AVG) NAME(divide)(p, at, share);
      NAME(spread)(p, share, sorted, line);
      for (int64_t i = z.begin; i < z.end; ++i)
        for (int64_t j = y.begin; j < y.end; ++j)
          NAME(join)(to + (i * w->in[1] + j) * w->in[2], line, w->in[2], 0);
    }
}

TN_KERNEL_BODY void NAME(backward)(const tn_kernel_block *block,
                                   const void *params) {
  const nn_pool_image *image = params;
  (void)block;
  if (is_pairs(image->pool))
    NAME(pairs_backward)(image);
  else if (image->pool->kind == NN_POOL_MAX)
    NAME(largest_backward)(image);
  else
    NAME(sum_backward)(image);
}
LEVELS(NAME(backward))

#undef REAL
#undef NAME
