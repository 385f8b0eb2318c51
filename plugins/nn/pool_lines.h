/* SPDX-License-Identifier: Apache-2.0
 * pool_lines.h: the loops of pool_lines.c for one element type. Only that file
 * includes it, twice, with REAL, the element type, BITS, an unsigned integer of
 * the same width, and NAME(x), x with the type appended; it undefines them.
 */

/* Returns the larger of two numbers; NaN counts as larger than all others. Two
 * conditional expressions are used, because compilers do not vectorise one with
 * two conditions. */
TN_KERNEL_BODY REAL NAME(choose_larger)(REAL a, REAL b) {
  const REAL all = b > a ? b : a;
  return b != b ? b : all;
}

/* Sorts the columns of a line by their remainder modulo `step`: phase p begins
 * at to + p * length. */
TN_KERNEL_BODY void NAME(sort_columns)(const REAL *line, REAL *to, int64_t n,
                                       const sorted_layout *s) {
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

/* Stores sorted columns in their original order, the inverse of sort_columns.
 * Adds them to the old elements if `add`. */
TN_KERNEL_BODY void NAME(unsort_columns)(REAL *line, const REAL *from,
                                         int64_t n, const sorted_layout *s,
                                         const int add) {
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

/* Prefetches a line of n elements for reading. */
TN_KERNEL_BODY void NAME(prefetch_line)(const REAL *line, int64_t n) {
  for (int64_t i = 0; i < n; i += VECTOR) __builtin_prefetch(line + i, 0);
}

/* Prefetches a line for writing. Sorted lines are read again at once, from
 * other addresses than they were written to. Such a load waits for all earlier
 * stores, which must not wait for memory. */
TN_KERNEL_BODY void NAME(prefetch_output)(const REAL *line, int64_t n) {
  for (int64_t i = 0; i < n; i += VECTOR) __builtin_prefetch(line + i, 1);
}

#include "pool_pairs.h"

/* Combines two lines element by element: all[i] becomes the larger of both if
 * `largest`, otherwise their sum. */
TN_KERNEL_BODY void NAME(combine_lines)(REAL *all, const REAL *line, int64_t n,
                                        int largest) {
  if (largest) {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      all[i] = NAME(choose_larger)(all[i], line[i]);
  } else {
    TN_KERNEL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) all[i] += line[i];
  }
}

/* Returns the largest element, or the sum, of a line that is one window. */
TN_KERNEL_BODY REAL NAME(reduce_line)(const REAL *x, int64_t n, int largest) {
  REAL part[LANES], all;
  for (int l = 0; l < LANES; ++l) part[l] = largest ? -(REAL)INFINITY : 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    NAME(combine_lines)(part, x + i, LANES, largest);
  NAME(combine_lines)(part, x + i, n - i, largest);
  all = part[0];
  for (int l = 1; l < LANES; ++l)
    all = largest ? NAME(choose_larger)(all, part[l]) : all + part[l];
  return all;
}

/* Computes the largest element, or the sum, of all windows of a line.
 * combine_rows has already combined the lines of the windows. */
TN_KERNEL_BODY void NAME(pool_line)(const nn_pool *p, const REAL *line,
                                    REAL *sorted, REAL *to) {
  const nn_window *w = &p->window;
  const int largest = p->kind == NN_POOL_MAX;
  const sorted_layout s = find_sorted_layout(w);
  if (w->out[2] == 1) {
    const nn_range x = find_elements(w, 2, 0);
    to[0] = NAME(reduce_line)(line + x.begin, x.end - x.begin, largest);
    return;
  }
  if (s.step > 1) NAME(sort_columns)(line, sorted, w->in[2], &s);
  for (int64_t o = 0; o < w->out[2]; ++o) to[o] = largest ? -(REAL)INFINITY : 0;
  for (int64_t t = 0; t < w->kernel[2]; ++t) {
    const nn_range x = p->taps[t].inside;
    const REAL *from = (s.step > 1 ? sorted : line) + p->taps[t].at;
    NAME(combine_lines)(to + x.begin, from + x.begin, x.end - x.begin, largest);
  }
}

/* Divides the sums of a line of windows by the number of elements that a mean
 * counts, at least 1. */
TN_KERNEL_BODY void NAME(divide_sums)(const nn_pool *p, const int64_t *at,
                                      REAL *line) {
  const int64_t others =
      count_mean_elements(p, 0, at[0]) * count_mean_elements(p, 1, at[1]);
  const nn_range x = p->whole;
  const REAL whole = (REAL)(others * p->window.kernel[2]);
  for (int64_t o = 0; o < x.begin; ++o)
    line[o] /= (REAL)nn_max(others * count_mean_elements(p, 2, o), 1);
  TN_KERNEL_INDEPENDENT
  for (int64_t o = x.begin; o < x.end; ++o) line[o] /= whole > 0 ? whole : 1;
  for (int64_t o = x.end; o < p->window.out[2]; ++o)
    line[o] /= (REAL)nn_max(others * count_mean_elements(p, 2, o), 1);
}

/* Combines the lines of data of one line of windows into `line`: their
 * elementwise maximum or sum. */
TN_KERNEL_BODY void NAME(combine_rows)(const nn_pool *p, const REAL *data,
                                       const int64_t *at, REAL *line) {
  const nn_window *w = &p->window;
  const nn_range z = find_elements(w, 0, at[0]), y = find_elements(w, 1, at[1]);
  const int largest = p->kind == NN_POOL_MAX;
  int first = 1;
  if (w->in[2] == 0) return;
  for (int64_t i = z.begin; i < z.end; ++i)
    for (int64_t j = y.begin; j < y.end; ++j, first = 0) {
      const REAL *from = data + (i * w->in[1] + j) * w->in[2];
      if (first)
        memcpy(line, from, (size_t)w->in[2] * sizeof *line);
      else
        NAME(combine_lines)(line, from, w->in[2], largest);
    }
  for (int64_t i = 0; first && i < w->in[2]; ++i)
    line[i] = largest ? -(REAL)INFINITY : 0;
}

/* Prefetches the lines of data that a later line of windows reads first. */
TN_KERNEL_BODY void NAME(prefetch_windows)(const nn_pool_image *image,
                                           const int64_t *at) {
  const nn_window *w = &image->pool->window;
  if (image->data == NULL) return;
  const int64_t y = find_elements(w, 1, at[1]).end + PREFETCH_DISTANCE;
  const int64_t line = find_elements(w, 0, at[0]).begin * w->in[1] + y;
  NAME(prefetch_line)
  ((const REAL *)image->data + line * w->in[2], w->stride[1] * w->in[2]);
}

TN_KERNEL_BODY void NAME(pool_forward)(const tn_kernel_block *block,
                                       const void *params) {
  const nn_pool_image *image = params;
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  if (has_2x2_windows(p)) {
    NAME(pool_2x2)(image);
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
      NAME(prefetch_windows)(image, at);
      NAME(combine_rows)(p, image->data, at, line);
      NAME(pool_line)(p, line, sorted, result);
      if (p->kind == NN_POOL_AVG) NAME(divide_sums)(p, at, result);
      if (image->add) NAME(combine_lines)(to, fresh, w->out[2], 0);
    }
}
LEVELS(NAME(pool_forward))

/* ---------------------------------------------------------------- backward */

/* Arguments of assign_gradients: a line of windows, a line of data, and the
 * gradients for up to GROUP columns of each window. */
typedef struct NAME(line_pair) {
  const nn_pool_tap *taps;
  const REAL *data; /* sorted columns, with margins */
  const REAL *out;
  REAL *left;
  REAL *parts; /* gradients: for each column of a window, a line with one
                  gradient for each window */
  const gradient_layout *lines;
} NAME(line_pair);

/* Assigns the gradient of each window to the first of n columns that equals the
 * largest element, and then clears it in `left`. `first` replaces `parts`;
 * otherwise the gradients are added to it. */
TN_KERNEL_BODY void NAME(assign_gradients)(const NAME(line_pair) * m,
                                           const int n, const int first) {
  const REAL *out = m->out, *from[GROUP];
  REAL *left = m->left, *part[GROUP];
  BITS begin[GROUP], length[GROUP];
  for (int t = 0; t < n; ++t) {
    const nn_range x = m->taps[t].inside;
    from[t] = m->data + m->taps[t].at_back;
    part[t] = m->parts + t * m->lines->column_distance;
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

/* Calls assign_gradients with a constant number of columns, so that compilers
 * unroll its loop. */
TN_KERNEL_BODY void NAME(assign_some_gradients)(const NAME(line_pair) * m,
                                                int64_t n, int first) {
  if (n >= GROUP && first)
    NAME(assign_gradients)(m, GROUP, 1);
  else if (n >= GROUP)
    NAME(assign_gradients)(m, GROUP, 0);
  else if (n == 2)
    NAME(assign_gradients)(m, 2, first);
  else
    NAME(assign_gradients)(m, 1, first);
}

/* Adds the gradients for the n columns of windows into a sorted line of data,
 * for n up to GROUP. Columns of one phase are added together, so that each line
 * is written once. */
TN_KERNEL_BODY void NAME(add_gradients)(const NAME(line_pair) * m, int64_t n,
                                        int64_t step, REAL *line_gradient) {
  const int64_t column_distance = m->lines->column_distance,
                out = m->lines->windows;
  for (int64_t t = 0; t < nn_min(n, step); ++t) {
    const REAL *one = m->parts + t * column_distance;
    const REAL *two = one + step * column_distance - 1,
               *three = two + step * column_distance - 1;
    REAL *to = line_gradient + m->taps[t].at_back;
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

/* Buffers for the gradient of the largest of one image. `out` and `left` have a
 * line of lines.windows elements for each line of windows. */
typedef struct NAME(max_work) {
  const nn_pool_image *image;
  gradient_layout lines;
  REAL *out;
  REAL *left;
  REAL *sorted;
  REAL *line_gradient;
  REAL *parts;
} NAME(max_work);

/* Computes the gradient of one line of data, sorted, from the lines of windows
 * in z and y that contain it. */
TN_KERNEL_BODY void NAME(compute_max_line)(const NAME(max_work) * k, nn_range z,
                                           nn_range y) {
  const nn_window *w = &k->image->pool->window;
  const nn_pool_tap *taps = k->image->pool->taps;
  const int64_t n = w->kernel[2], line = k->lines.windows;
  for (int64_t t = 0; t < n; t += GROUP) {
    const int64_t n_taps = nn_min(n - t, GROUP);
    NAME(line_pair) m = {taps + t, k->sorted, NULL, NULL, k->parts, &k->lines};
    int first = 1;
    for (int64_t i = z.begin; i < z.end; ++i)
      for (int64_t j = y.begin; j < y.end; ++j, first = 0) {
        m.out = k->out + (i * w->out[1] + j) * line;
        m.left = k->left + (i * w->out[1] + j) * line;
        NAME(assign_some_gradients)(&m, n_taps, first);
      }
    if (n <= GROUP)
      NAME(add_gradients)(&m, n, w->stride[2], k->line_gradient);
    else
      for (int64_t e = 0; e < n_taps; ++e) NAME(combine_lines)
    (k->line_gradient + taps[t + e].at_back,
     k->parts + e * k->lines.column_distance, line, 0);
  }
}

/* Copies n elements, and zeros after them up to `buffer` elements. */
TN_KERNEL_BODY void NAME(copy_padded)(REAL *to, const REAL *from, int64_t n,
                                      int64_t buffer) {
  memcpy(to, from, (size_t)n * sizeof *to);
  for (int64_t o = n; o < buffer; ++o) to[o] = 0;
}

/* Sets the buffers of *k: copies all lines of windows, and clears the others.
 */
TN_KERNEL_BODY void NAME(begin_max)(const nn_pool_image *image,
                                    NAME(max_work) * k) {
  const nn_window *w = &image->pool->window;
  const gradient_layout lines = find_gradient_layout(w);
  const int64_t n = w->out[0] * w->out[1], line = lines.windows;
  const REAL *out = image->out, *out_gradient = image->out_gradient;
  k->image = image;
  k->lines = lines;
  k->out = image->scratch;
  k->left = k->out + n * line;
  k->sorted = k->left + n * line;
  k->line_gradient = k->sorted + lines.columns;
  k->parts = k->line_gradient + lines.columns + MARGIN;
  memset(k->sorted, 0, (size_t)lines.rest * sizeof *k->sorted);
  for (int64_t j = 0; j < n; ++j) {
    NAME(copy_padded)(k->out + j * line, out + j * w->out[2], w->out[2], line);
    NAME(copy_padded)
    (k->left + j * line, out_gradient + j * w->out[2], w->out[2], line);
  }
}

/* Computes the gradient of an image for the largest of windows. Each line of
 * data is read and written once. */
TN_KERNEL_BODY void NAME(backward_max)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t n = w->in[2], bytes = n * (int64_t)sizeof(REAL);
  const REAL *data = image->data;
  nn_writer writer = nn_writer_open(image->to, image->buffer, image->level);
  NAME(max_work) k;
  NAME(begin_max)(image, &k);
  const sorted_layout s = {w->stride[2], k.lines.phase};
  for (int64_t a = 0; a < w->in[0]; ++a)
    for (int64_t b = 0; b < w->in[1]; ++b, data += n) {
      const nn_range z = find_windows(w, 0, a), y = find_windows(w, 1, b);
      REAL *to = nn_writer_begin_line(&writer);
      NAME(prefetch_line)(data + PREFETCH_DISTANCE * n, n);
      if (!image->buffer) NAME(prefetch_output)(to + PREFETCH_DISTANCE * n, n);
      if (z.begin < z.end && y.begin < y.end) {
        if (w->kernel[2] > GROUP)
          memset(k.line_gradient, 0,
                 (size_t)k.lines.columns * sizeof *k.line_gradient);
        NAME(sort_columns)(data, k.sorted + k.lines.front, n, &s);
        NAME(compute_max_line)(&k, z, y);
        NAME(unsort_columns)
        (to, k.line_gradient + k.lines.front, n, &s, image->add);
      } else if (!image->add) {
        memset(to, 0, (size_t)bytes);
      }
      nn_writer_end_line(&writer, bytes);
    }
  nn_writer_close(&writer);
}

/* Computes the gradient of a line of data from one line of windows: each window
 * adds its gradient to all its columns. */
TN_KERNEL_BODY void NAME(distribute_line)(const nn_pool *p, const REAL *share,
                                          REAL *sorted, REAL *line) {
  const nn_window *w = &p->window;
  const sorted_layout s = find_sorted_layout(w);
  REAL *to = s.step > 1 ? sorted : line;
  memset(to, 0, (size_t)(s.step * s.length) * sizeof *to);
  for (int64_t t = 0; t < w->kernel[2]; ++t) {
    const nn_range x = p->taps[t].inside;
    NAME(combine_lines)
    (to + p->taps[t].at + x.begin, share + x.begin, x.end - x.begin, 0);
  }
  if (s.step > 1) NAME(unsort_columns)(line, sorted, w->in[2], &s, 0);
}

/* Calls distribute_line for all lines of windows of an image; means are divided
 * first. `lines` gets one line of data for each. */
TN_KERNEL_BODY void NAME(distribute_lines)(const nn_pool_image *image,
                                           REAL *lines, REAL *share) {
  const nn_pool *p = image->pool;
  const nn_window *w = &p->window;
  const REAL *out_gradient = image->out_gradient;
  int64_t at[2];
  for (at[0] = 0; at[0] < w->out[0]; ++at[0])
    for (at[1] = 0; at[1] < w->out[1]; ++at[1], out_gradient += w->out[2]) {
      memcpy(share, out_gradient, (size_t)w->out[2] * sizeof *share);
      if (p->kind == NN_POOL_AVG) NAME(divide_sums)(p, at, share);
      NAME(distribute_line)(p, share, share + w->out[2], lines);
      lines += count_line_elements(w);
    }
}

/* Computes the gradient of an image for sums and means: each line of data is
 * the sum of the results of distribute_line for its lines of windows. */
TN_KERNEL_BODY void NAME(backward_sum)(const nn_pool_image *image) {
  const nn_window *w = &image->pool->window;
  const int64_t n = w->in[2];
  REAL *lines = image->scratch;
  nn_writer writer = nn_writer_open(image->to, image->buffer, image->level);
  NAME(distribute_lines)
  (image, lines, lines + w->out[0] * w->out[1] * count_line_elements(w));
  for (int64_t a = 0; a < w->in[0]; ++a)
    for (int64_t b = 0; b < w->in[1]; ++b) {
      const nn_range z = find_windows(w, 0, a), y = find_windows(w, 1, b);
      REAL *to = nn_writer_begin_line(&writer);
      int fresh = !image->add;
      for (int64_t i = z.begin; i < z.end; ++i)
        for (int64_t j = y.begin; j < y.end; ++j, fresh = 0) {
          const REAL *line =
              lines + (i * w->out[1] + j) * count_line_elements(w);
          if (fresh)
            memcpy(to, line, (size_t)n * sizeof *to);
          else
            NAME(combine_lines)(to, line, n, 0);
        }
      if (fresh) memset(to, 0, (size_t)n * sizeof *to);
      nn_writer_end_line(&writer, n * (int64_t)sizeof *to);
    }
  nn_writer_close(&writer);
}

/* Computes the gradient of one image, or adds to it; params is the
 * nn_pool_image. */
TN_KERNEL_BODY void NAME(pool_backward)(const tn_kernel_block *block,
                                        const void *params) {
  const nn_pool_image *image = params;
  (void)block;
  const int largest = image->pool->kind == NN_POOL_MAX;
  if (has_2x2_windows(image->pool) && largest)
    NAME(max_2x2_backward)(image);
  else if (has_2x2_windows(image->pool))
    NAME(sum_2x2_backward)(image);
  else if (largest)
    NAME(backward_max)(image);
  else
    NAME(backward_sum)(image);
}
LEVELS(NAME(pool_backward))

#undef REAL
#undef BITS
#undef NAME
