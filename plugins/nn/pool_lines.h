/* SPDX-License-Identifier: Apache-2.0
 * pool_lines.h: the loops of pool_lines.c for one element type. Only that file
 * includes it, twice, with REAL, the element type, BITS, an unsigned integer of
 * the same width, and NAME(x), x with the type appended; it undefines them.
 */

/* The larger of two; NaN counts as larger than everything. It uses two
 * conditional expressions, because compilers do not vectorise a chain of one
 * with two conditions. */
TN_KERNEL_BODY REAL NAME(larger)(REAL a, REAL b) {
  const REAL all = b > a ? b : a;
  return b != b ? b : all;
}

/* Sorts columns of a line by their remainder modulo `step`: phase p begins at
 * to + p * length. */
TN_KERNEL_BODY void NAME(sort)(const REAL *line, REAL *to, int64_t n,
                               const phases *s) {
  if (s->step == 1) {
    memcpy(to, line, (size_t)n * sizeof *to);
    return;
  }
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

/* The inverse: replaces the old elements, or adds to them. */
TN_KERNEL_BODY void NAME(unsort)(REAL *line, const REAL *from, int64_t n,
                                 const phases *s, const int add) {
  if (s->step == 2 && !add) {
    TN_KERNEL_INDEPENDENT
    for (int64_t j = 0; j < n / 2; ++j) {
      line[2 * j] = from[j];
      line[2 * j + 1] = from[s->length + j];
    }
    if (n % 2 != 0) line[n - 1] = from[n / 2];
    return;
  }
  for (int64_t p = 0; p < s->step; ++p)
    for (int64_t j = 0; p + j * s->step < n; ++j) {
      REAL *to = &line[p + j * s->step];
      *to = from[p * s->length + j] + (add ? *to : 0);
    }
}

/* Prefetches a line for reading. */
TN_KERNEL_BODY void NAME(expect)(const REAL *line, int64_t n) {
  for (int64_t i = 0; i < n; i += VECTOR) __builtin_prefetch(line + i, 0);
}

/* The same for writing. Sorted lines are read again at once, from other
 * addresses than they were written to. Such a load waits for all earlier
 * stores, which must not take as long as memory does. */
TN_KERNEL_BODY void NAME(expect_out)(const REAL *line, int64_t n) {
  for (int64_t i = 0; i < n; i += VECTOR) __builtin_prefetch(line + i, 1);
}

#include "pool_pairs.h"

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

/* The result of a line that is one window. */
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

/* Adjacent windows of a vertically joined line. */
TN_KERNEL_BODY void NAME(slide)(const nn_pool *p, const REAL *line,
                                REAL *sorted, REAL *to) {
  const nn_window *w = &p->window;
  const int largest = p->kind == NN_POOL_MAX;
  const phases s = phases_of(w);
  if (w->out[2] == 1) {
    const nn_range x = elements_of(w, 2, 0);
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

/* Divides sums of a line of windows, unless the divisor is 1. */
TN_KERNEL_BODY void NAME(divide)(const nn_pool *p, const int64_t *at,
                                 REAL *line) {
  const int64_t others = extent_of(p, 0, at[0]) * extent_of(p, 1, at[1]);
  const nn_range x = p->whole;
  const REAL whole = (REAL)(others * p->window.kernel[2]);
  for (int64_t o = 0; o < x.begin; ++o)
    line[o] /= (REAL)nn_most(others * extent_of(p, 2, o), 1);
  TN_KERNEL_INDEPENDENT
  for (int64_t o = x.begin; o < x.end; ++o) line[o] /= whole > 0 ? whole : 1;
  for (int64_t o = x.end; o < p->window.out[2]; ++o)
    line[o] /= (REAL)nn_most(others * extent_of(p, 2, o), 1);
}

/* Joins the lines of a window vertically. */
TN_KERNEL_BODY void NAME(stack)(const nn_pool *p, const REAL *data,
                                const int64_t *at, REAL *line) {
  const nn_window *w = &p->window;
  const nn_range z = elements_of(w, 0, at[0]), y = elements_of(w, 1, at[1]);
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

/* Prefetches the first lines of later windows. */
TN_KERNEL_BODY void NAME(expect_lines)(const nn_pool_image *image,
                                       const int64_t *at) {
  const nn_window *w = &image->pool->window;
  if (image->data == NULL) return;
  const int64_t y = elements_of(w, 1, at[1]).end + AHEAD;
  const int64_t line = elements_of(w, 0, at[0]).begin * w->in[1] + y;
  NAME(expect)
  ((const REAL *)image->data + line * w->in[2], w->stride[1] * w->in[2]);
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
      NAME(expect_lines)(image, at);
      NAME(stack)(p, image->data, at, line);
      NAME(slide)(p, line, sorted, result);
      if (p->kind == NN_POOL_AVG) NAME(divide)(p, at, result);
      if (image->add) NAME(join)(to, fresh, w->out[2], 0);
    }
}
LEVELS(NAME(forward))

/* ---------------------------------------------------------------- backward */

/* A line of windows on a line of data: up to GROUP elements of each window,
 * their positions, and their gradients. */
typedef struct NAME(meeting) {
  const nn_pool_tap *taps;
  const REAL *data; /* sorted, with margins */
  const REAL *out;
  REAL *left;
  REAL *parts; /* a line for each element */
  const back_lines *lines;
} NAME(meeting);

/* Gives the remaining gradients of a line of windows to the largest of their
 * `n` elements, and removes them. */
TN_KERNEL_BODY void NAME(claim)(const NAME(meeting) * m, const int n,
                                const int first) {
  const REAL *out = m->out, *from[GROUP];
  REAL *left = m->left, *part[GROUP];
  BITS begin[GROUP], length[GROUP];
  for (int t = 0; t < n; ++t) {
    const nn_range x = m->taps[t].inside;
    from[t] = m->data + m->taps[t].at_back;
    part[t] = m->parts + t * m->lines->apart;
    begin[t] = (BITS)x.begin;
    length[t] = (BITS)(x.end - x.begin);
  }
  TN_KERNEL_INDEPENDENT
  for (int64_t o = 0; o < m->lines->windows; ++o) {
    const REAL largest = out[o];
    REAL g = left[o];
    for (int t = 0; t < n; ++t) {
      const REAL v = from[t][o];
      const BITS at = (BITS)o - begin[t];
      const int hit = ((v == largest) | (v != v)) & (at < length[t]);
      const REAL gets = hit ? g : 0;
      part[t][o] = first ? gets : part[t][o] + gets;
      g = hit ? 0 : g;
    }
    left[o] = g;
  }
}

TN_KERNEL_BODY void NAME(claim_some)(const NAME(meeting) * m, int64_t n,
                                     int first) {
  if (n >= GROUP && first)
    NAME(claim)(m, GROUP, 1);
  else if (n >= GROUP)
    NAME(claim)(m, GROUP, 0);
  else if (n == 2)
    NAME(claim)(m, 2, first);
  else
    NAME(claim)(m, 1, first);
}

/* Adds the gradients of window elements to columns, if windows have at most
 * GROUP adjacent elements. Elements of one phase are added, so that each line
 * is written once. */
TN_KERNEL_BODY void NAME(gather)(const NAME(meeting) * m, int64_t n,
                                 int64_t step, REAL *given) {
  const int64_t apart = m->lines->apart, out = m->lines->windows;
  for (int64_t t = 0; t < nn_least(n, step); ++t) {
    const REAL *one = m->parts + t * apart;
    const REAL *two = one + step * apart - 1, *three = two + step * apart - 1;
    REAL *to = given + m->taps[t].at_back;
    if (t + step >= n) {
      memcpy(to, one, (size_t)out * sizeof *to);
    } else if (t + 2 * step >= n) {
      TN_KERNEL_INDEPENDENT
      for (int64_t o = 0; o < out + 1; ++o) to[o] = one[o] + two[o];
    } else {
      TN_KERNEL_INDEPENDENT
      for (int64_t o = 0; o < out + 2; ++o) to[o] = one[o] + two[o] + three[o];
    }
  }
}

/* An image with the state of its gradient. `out` and `left` have a line of
 * lines.windows elements for each line of windows. */
typedef struct NAME(largest_work) {
  const nn_pool_image *image;
  back_lines lines;
  REAL *out;
  REAL *left;
  REAL *sorted;
  REAL *given;
  REAL *parts;
} NAME(largest_work);

/* Computes the gradient of the line (z, y) of data, sorted. */
TN_KERNEL_BODY void NAME(meet)(const NAME(largest_work) * k, nn_range z,
                               nn_range y) {
  const nn_window *w = &k->image->pool->window;
  const nn_pool_tap *taps = k->image->pool->taps;
  const int64_t n = w->kernel[2], line = k->lines.windows;
  for (int64_t t = 0; t < n; t += GROUP) {
    const int64_t some = nn_least(n - t, GROUP);
    NAME(meeting) m = {taps + t, k->sorted, NULL, NULL, k->parts, &k->lines};
    int first = 1;
    for (int64_t i = z.begin; i < z.end; ++i)
      for (int64_t j = y.begin; j < y.end; ++j, first = 0) {
        m.out = k->out + (i * w->out[1] + j) * line;
        m.left = k->left + (i * w->out[1] + j) * line;
        NAME(claim_some)(&m, some, first);
      }
    if (n <= GROUP)
      NAME(gather)(&m, n, w->stride[2], k->given);
    else
      for (int64_t e = 0; e < some; ++e) NAME(join)
    (k->given + taps[t + e].at_back, k->parts + e * k->lines.apart, line, 0);
  }
}

/* Copies a line of windows to a buffer with room for whole vectors. */
TN_KERNEL_BODY void NAME(widen)(REAL *to, const REAL *from, int64_t n,
                                int64_t room) {
  memcpy(to, from, (size_t)n * sizeof *to);
  for (int64_t o = n; o < room; ++o) to[o] = 0;
}

/* Copies lines of windows to their buffers and sets the margins of others. */
TN_KERNEL_BODY void NAME(largest_begin)(const nn_pool_image *image,
                                        NAME(largest_work) * k) {
  const nn_window *w = &image->pool->window;
  const back_lines lines = back_lines_of(w);
  const int64_t n = w->out[0] * w->out[1], line = lines.windows;
  const REAL *out = image->out, *head = image->head;
  k->image = image;
  k->lines = lines;
  k->out = image->scratch;
  k->left = k->out + n * line;
  k->sorted = k->left + n * line;
  k->given = k->sorted + lines.columns;
  k->parts = k->given + lines.columns + MARGIN;
  memset(k->sorted, 0, (size_t)lines.rest * sizeof *k->sorted);
  for (int64_t j = 0; j < n; ++j) {
    NAME(widen)(k->out + j * line, out + j * w->out[2], w->out[2], line);
    NAME(widen)(k->left + j * line, head + j * w->out[2], w->out[2], line);
  }
}

/* The gradient of the largest, line by line of data: each is read and written
 * once. */
TN_KERNEL_BODY void NAME(largest_backward)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t n = w->in[2], bytes = n * (int64_t)sizeof(REAL);
  const REAL *data = image->data;
  nn_writer writer = nn_writer_open(image->to, image->room, image->level);
  NAME(largest_work) k;
  NAME(largest_begin)(image, &k);
  const phases s = {w->stride[2], k.lines.phase};
  for (int64_t a = 0; a < w->in[0]; ++a)
    for (int64_t b = 0; b < w->in[1]; ++b, data += n) {
      const nn_range z = windows_on(w, 0, a), y = windows_on(w, 1, b);
      REAL *to = nn_writer_line(&writer);
      NAME(expect)(data + AHEAD * n, n);
      if (!image->room) NAME(expect_out)(to + AHEAD * n, n);
      if (z.begin < z.end && y.begin < y.end) {
        if (w->kernel[2] > GROUP)
          memset(k.given, 0, (size_t)k.lines.columns * sizeof *k.given);
        NAME(sort)(data, k.sorted + k.lines.front, n, &s);
        NAME(meet)(&k, z, y);
        NAME(unsort)(to, k.given + k.lines.front, n, &s, image->add);
      } else if (!image->add) {
        memset(to, 0, (size_t)bytes);
      }
      nn_writer_next(&writer, bytes);
    }
  nn_writer_close(&writer);
}

/* Adds a line of windows to each of its lines of data. */
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
  if (s.step > 1) NAME(unsort)(line, sorted, w->in[2], &s, 0);
}

/* The same for all lines of windows. */
TN_KERNEL_BODY void NAME(spread_all)(const nn_pool_image *image, REAL *lines,
                                     REAL *share) {
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  const REAL *head = image->head;
  int64_t at[2];
  for (at[0] = 0; at[0] < w->out[0]; ++at[0])
    for (at[1] = 0; at[1] < w->out[1]; ++at[1], head += w->out[2]) {
      memcpy(share, head, (size_t)w->out[2] * sizeof *share);
      if (p->kind == NN_POOL_AVG) NAME(divide)(p, at, share);
      NAME(spread)(p, share, share + w->out[2], lines);
      lines += line_of(w);
    }
}

/* Sets each line of data to the sum of its lines of windows. */
TN_KERNEL_BODY void NAME(sum_backward)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t n = w->in[2];
  REAL *lines = image->scratch;
  nn_writer writer = nn_writer_open(image->to, image->room, image->level);
  NAME(spread_all)
  (image, lines, lines + w->out[0] * w->out[1] * line_of(w));
  for (int64_t a = 0; a < w->in[0]; ++a)
    for (int64_t b = 0; b < w->in[1]; ++b) {
      const nn_range z = windows_on(w, 0, a), y = windows_on(w, 1, b);
      REAL *to = nn_writer_line(&writer);
      int fresh = !image->add;
      for (int64_t i = z.begin; i < z.end; ++i)
        for (int64_t j = y.begin; j < y.end; ++j, fresh = 0) {
          const REAL *line = lines + (i * w->out[1] + j) * line_of(w);
          if (fresh)
            memcpy(to, line, (size_t)n * sizeof *to);
          else
            NAME(join)(to, line, n, 0);
        }
      if (fresh) memset(to, 0, (size_t)n * sizeof *to);
      nn_writer_next(&writer, n * (int64_t)sizeof *to);
    }
  nn_writer_close(&writer);
}

TN_KERNEL_BODY void NAME(backward)(const tn_kernel_block *block,
                                   const void *params) {
  const nn_pool_image *image = params;
  (void)block;
  const int largest = image->pool->kind == NN_POOL_MAX;
  if (is_pairs(image->pool) && largest)
    NAME(pairs_backward)(image);
  else if (is_pairs(image->pool))
    NAME(give_pairs)(image);
  else if (largest)
    NAME(largest_backward)(image);
  else
    NAME(sum_backward)(image);
}
LEVELS(NAME(backward))

#undef REAL
#undef BITS
#undef NAME
