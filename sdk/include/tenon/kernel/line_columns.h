/* SPDX-License-Identifier: Apache-2.0
 * line_columns.h: the loops over lines whose elements are not adjacent, while
 * those of neighbouring lines are. Part of lines.h, which includes it.
 *
 * Up to TN_LINES_WIDTH neighbouring lines are computed together, place by
 * place. So a row has one element of each line at one place. Results are
 * arrays, and operands of level PLACE are single values.
 */
#ifndef TENON_KERNEL_LINE_COLUMNS_H_
#define TENON_KERNEL_LINE_COLUMNS_H_

#include "tenon/kernel/line_loops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The work of one thread: neighbouring lines, and one place at a time. */
typedef struct tn_lines_columns {
  const tn_lines_work *w;
  int64_t group;
  int64_t n;                    /* lines */
  int64_t place;                /* on them */
  int64_t in[TN_KERNEL_MAX_IN]; /* the first element of the first line */
  int64_t out[TN_KERNEL_MAX_OPERANDS];
  uint64_t copied;   /* bit k: operand k at this place is in its row */
  uint64_t computed; /* bit s: the row of step s at this place */
  uint64_t read;     /* bit k: operand k of level LINE is in its row */
  tn_lines_value places[TN_KERNEL_MAX_IN]; /* operands of level PLACE */
  tn_lines_value count;
  char *scratch;  /* rows, then the results of all steps */
  double *totals; /* of all steps */
} tn_lines_columns;

static inline void *tn_lines_column_row(const tn_lines_columns *s,
                                        uint32_t row) {
  return s->scratch + row * s->w->width * s->w->bytes;
}

static inline void *tn_lines_results(const tn_lines_columns *s, uint32_t step) {
  return tn_lines_column_row(s, s->w->n_rows + step);
}

/* The stride from place to place for the first n places; places of several axes
 * have several. */
static inline int64_t tn_lines_find_place(const tn_lines_work *w,
                                          const tn_lines_part *part,
                                          int64_t place) {
  int64_t at = 0;
  for (int32_t d = w->n_reduced - 1; d > 0; --d) {
    at += place % w->reduced[d] * part->reduced[d];
    place /= w->reduced[d];
  }
  return at + place * part->reduced[0];
}

/* The elements of all lines at the current place. */
static inline tn_kernel_line tn_lines_find_column(const tn_lines_columns *s,
                                                  const tn_lines_part *part,
                                                  int64_t offset) {
  tn_kernel_line line;
  offset += tn_lines_find_place(s->w, part, s->place);
  line.at = part->data + offset * part->bytes;
  line.stride = part->kept[s->w->n_kept - 1];
  line.n = s->n;
  line.dtype = part->dtype;
  return line;
}

static inline int tn_lines_is_dense(const tn_lines_work *w,
                                    const tn_kernel_line *line) {
  return line->dtype == w->mode.compute && line->stride == 1;
}

/* An operand at the current place: elements of all lines, or one of level
 * PLACE.
 */
static inline const void *tn_lines_read_column(tn_lines_columns *s,
                                               uint32_t k) {
  const tn_lines_part *part = &s->w->in[k];
  const uint64_t bit = (uint64_t)1 << k;
  uint64_t *done = part->level == TN_LINES_LINE ? &s->read : &s->copied;
  tn_kernel_line line = tn_lines_find_column(s, part, s->in[k]);
  const int is_place = part->level == TN_LINES_PLACE;
  if (is_place) line.n = line.stride = 1;
  if (tn_lines_is_dense(s->w, &line)) return line.at;
  void *row =
      is_place ? (void *)&s->places[k] : tn_lines_column_row(s, part->row);
  if (!(*done & bit)) tn_kernel_load(row, &s->w->mode, &line);
  *done |= bit;
  return row;
}

static inline const void *tn_lines_compute_column(tn_lines_columns *s,
                                                  uint32_t step);

static inline const void *tn_lines_read_column_source(tn_lines_columns *s,
                                                      uint32_t source) {
  if (source == TN_LINES_COUNT) return &s->count;
  if (source >= TN_LINES_RESULT)
    return tn_lines_results(s, source - TN_LINES_RESULT);
  if (source >= TN_LINES_ROW_OF)
    return tn_lines_compute_column(s, source - TN_LINES_ROW_OF);
  return tn_lines_read_column(s, source);
}

static inline void tn_lines_run_columns_body(tn_lines_columns *s, uint32_t step,
                                             void *out) {
  const tn_lines_step *own = &s->w->map->steps[step];
  tn_kernel_block block;
  block.n = s->n;
  block.out = out;
  for (uint32_t i = 0; i < own->n_in; ++i)
    block.in[i] = tn_lines_read_column_source(s, own->in[i]);
  tn_lines_find_step_body(s->w, own)(&block, s->w->call->params);
}

/* The row that a reduction reduces, at the current place. */
static inline const void *tn_lines_compute_column(tn_lines_columns *s,
                                                  uint32_t step) {
  const tn_lines_step *own = &s->w->map->steps[step];
  if (own->is_plain) return tn_lines_read_column_source(s, own->in[0]);
  void *row = tn_lines_column_row(s, s->w->rows[step]);
  if (!(s->computed >> step & 1)) tn_lines_run_columns_body(s, step, row);
  s->computed |= (uint64_t)1 << step;
  return row;
}

static inline void tn_lines_set_place(tn_lines_columns *s, int64_t place) {
  s->place = place;
  s->copied = s->computed = 0;
}

/* --------------------------------------------------------------- reductions */

/* The loop that combines a row with totals. */
static inline tn_kernel_body *tn_lines_find_column_loop(const tn_lines_work *w,
                                                        uint32_t kind) {
  static const tn_kernel_bodies loops[3][2] = {
      {TN_KERNEL_BODIES(tn_lines_spread_f32),
       TN_KERNEL_BODIES(tn_lines_spread_f64)},
      {TN_KERNEL_BODIES(tn_lines_most_f32),
       TN_KERNEL_BODIES(tn_lines_most_f64)},
      {TN_KERNEL_BODIES(tn_lines_least_f32),
       TN_KERNEL_BODIES(tn_lines_least_f64)}};
  const uint32_t row = kind <= TN_LINES_MEAN ? 0 : kind - 1;
  return tn_kernel_body_at(&loops[row][w->mode.compute != TN_F32],
                           w->mode.level);
}

/* Computes the reductions [first, end) of one stage. */
static inline void tn_lines_reduce_columns(tn_lines_columns *s, uint32_t first,
                                           uint32_t end) {
  const tn_lines_work *w = s->w;
  for (uint32_t k = first; k < end; ++k) {
    const double start = tn_lines_init_total(w, w->map->steps[k].kind).real;
    for (int64_t j = 0; j < s->n; ++j) s->totals[k * w->width + j] = start;
  }
  for (int64_t place = 0; place < w->length; ++place) {
    tn_lines_set_place(s, place);
    for (uint32_t k = first; k < end; ++k) {
      tn_kernel_block block;
      if (!tn_lines_is_active(w, k)) continue;
      block.n = s->n;
      block.in[0] = tn_lines_compute_column(s, k);
      block.out = s->totals + k * w->width;
      tn_lines_find_column_loop(w, w->map->steps[k].kind)(&block, NULL);
    }
  }
  for (uint32_t k = first; k < end; ++k)
    tn_lines_finish_reals(w, k, s->totals + k * w->width, s->n,
                          tn_lines_results(s, k));
}

/* ------------------------------------------------------------------ outputs */

/* Computes an output of level LINE, or of level FULL at the current place. */
static inline void tn_lines_write_column(tn_lines_columns *s, uint32_t step,
                                         uint32_t out) {
  const tn_lines_work *w = s->w;
  const int adds = w->call->req[out] == TN_REQ_ADD;
  const tn_kernel_line line =
      tn_lines_find_column(s, &w->out[out], s->out[out]);
  if (!adds && tn_lines_is_dense(w, &line)) {
    tn_lines_run_columns_body(s, step, line.at);
    return;
  }
  void *row = tn_lines_column_row(s, 0);
  tn_lines_run_columns_body(s, step, row);
  if (adds) {
    void *old = tn_lines_column_row(s, w->old);
    tn_kernel_load(old, &w->mode, &line);
    tn_kernel_add_dense(row, old, &w->mode, s->n);
  }
  tn_kernel_store(&line, &w->mode, row);
}

/* Adds the elements of all lines to the sum of an output of level PLACE. */
static inline void tn_lines_add_column(tn_lines_columns *s, uint32_t step,
                                       uint32_t out) {
  const tn_lines_work *w = s->w;
  void *row = tn_lines_column_row(s, 0);
  static const tn_kernel_bodies loops[2] = {TN_KERNEL_BODIES(tn_lines_add_f32),
                                            TN_KERNEL_BODIES(tn_lines_add_f64)};
  tn_lines_total total;
  tn_kernel_block block;
  block.n = s->n;
  block.in[0] = row;
  if (w->map->steps[step].is_plain)
    block.in[0] = tn_lines_read_column_source(s, w->map->steps[step].in[0]);
  else
    tn_lines_run_columns_body(s, step, row);
  total.real = 0;
  block.out = &total;
  tn_kernel_body_at(&loops[w->mode.compute != TN_F32], w->mode.level)(&block,
                                                                      NULL);
  tn_lines_find_sums(w, s->group, out)[s->place] += total.real;
}

/* Computes the outputs from step `first` on, in the order of tn_lines_write. */
static inline void tn_lines_write_columns(tn_lines_columns *s, uint32_t first) {
  const tn_lines_work *w = s->w;
  uint32_t k = first;
  tn_lines_set_place(s, 0);
  for (uint32_t i = 0; i < w->map->n_operands; ++i)
    if (w->in[i].level == TN_LINES_LINE && w->in[i].data)
      (void)tn_lines_read_column(s, i);
  for (; k < w->map->n_steps; ++k) {
    const uint32_t out = w->map->steps[k].out;
    if (w->map->out_levels[out] != TN_LINES_LINE) break;
    if (tn_lines_is_active(w, k)) tn_lines_write_column(s, k, out);
  }
  for (int64_t place = 0; k < w->map->n_steps && place < w->length; ++place) {
    tn_lines_set_place(s, place);
    for (uint32_t i = k; i < w->map->n_steps; ++i) {
      const uint32_t out = w->map->steps[i].out;
      if (!tn_lines_is_active(w, i)) continue;
      if (w->map->out_levels[out] == TN_LINES_PLACE)
        tn_lines_add_column(s, i, out);
      else
        tn_lines_write_column(s, i, out);
    }
  }
}

/* -------------------------------------------------------------------- lines */

/* Computes `n` neighbouring lines from `line` on. */
static inline void tn_lines_run_column(tn_lines_columns *s, int64_t line,
                                       int64_t n) {
  const tn_lines_map *map = s->w->map;
  uint32_t k = 0;
  tn_lines_find_line(s->w, line, s->in, s->out);
  s->n = n;
  s->read = 0;
  tn_lines_set_place(s, 0);
  while (k < map->n_steps && map->steps[k].kind != TN_LINES_OUT) {
    if (map->steps[k].kind == TN_LINES_VALUE) {
      if (tn_lines_is_active(s->w, k))
        tn_lines_run_columns_body(s, k, tn_lines_results(s, k));
      ++k;
      continue;
    }
    const uint32_t end = tn_lines_find_stage_end(map, k);
    tn_lines_reduce_columns(s, k, end);
    k = end;
  }
  tn_lines_write_columns(s, k);
}

/* Computes the lines [first, last) of a group. */
static inline void tn_lines_run_columns(const tn_lines_work *w, int64_t group,
                                        char *scratch) {
  const int64_t inner = w->kept[w->n_kept - 1];
  tn_lines_columns s;
  memset(&s, 0, sizeof s);
  s.w = w;
  s.group = group;
  s.totals = (double *)scratch;
  s.scratch = scratch + w->map->n_steps * w->width * (int64_t)sizeof(double);
  tn_lines_set_value(&s.count, w->mode.compute, (double)w->length, w->length);
  const int64_t first = group * w->each;
  const int64_t last = w->lines - first < w->each ? w->lines : first + w->each;
  for (int64_t line = first, n; line < last; line += n) {
    n = inner - line % inner;
    if (n > w->width) n = w->width;
    if (n > last - line) n = last - line;
    tn_lines_run_column(&s, line, n);
  }
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_LINE_COLUMNS_H_ */
