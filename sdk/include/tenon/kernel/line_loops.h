/* SPDX-License-Identifier: Apache-2.0
 * line_loops.h: the loops over lines: rows of operands, joined loops, outputs
 * and the sums over lines. Part of lines.h, which includes it.
 *
 * A thread computes a batch of lines at a time: one stage of reductions for all
 * of them, then its values, then the next stage, and the outputs.
 */
#ifndef TENON_KERNEL_LINE_LOOPS_H_
#define TENON_KERNEL_LINE_LOOPS_H_

#include "tenon/kernel/line_sums.h"
#include "tenon/kernel/line_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- one thread
 */

/* A single value in the type to compute in. */
typedef union tn_lines_value {
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
} tn_lines_value;

/* The argument of a joined loop: the same part of each line of a batch. Its
 * first member is the block of other bodies. All elements are of the type to
 * compute in. */
typedef struct tn_lines_rows {
  tn_kernel_block block; /* n elements of each line; in[k] is operand k */
  int64_t lines;
  int64_t step[TN_KERNEL_MAX_IN]; /* elements of an operand from line to line */
  const void *count;              /* the number of elements of a line */
  void *results[TN_LINES_MAX_STEPS]; /* one for each line */
  tn_lines_total *totals[TN_LINES_MAX_STEPS];
  void *rows[TN_LINES_MAX_STEPS]; /* that steps keep, n elements apart */
  void *out[TN_KERNEL_MAX_OPERANDS];
  int64_t out_step[TN_KERNEL_MAX_OPERANDS];
} tn_lines_rows;

/* The work of one thread. */
typedef struct tn_lines_state {
  tn_lines_rows r;
  const tn_lines_work *w;
  int64_t group;
  int64_t at;                   /* first element of the current part */
  int64_t in[TN_KERNEL_MAX_IN]; /* first element of the batch in operands */
  int64_t out[TN_KERNEL_MAX_OPERANDS];
  uint64_t copied;   /* bit k: the part of operand k is in its row */
  uint64_t computed; /* bit s: that of step s */
  uint64_t shared;   /* bit k: operand k has the same row for all lines */
  int64_t n_added;   /* lines that tn_lines_work.parts has the sums of */
  tn_lines_value count;
  tn_lines_value operands[TN_KERNEL_MAX_IN][TN_LINES_BATCH]; /* of level LINE */
  tn_lines_value values[TN_LINES_MAX_STEPS][TN_LINES_BATCH];
  tn_lines_total totals[TN_LINES_MAX_STEPS][TN_LINES_BATCH];
  char *scratch;
} tn_lines_state;

static inline void *tn_lines_row(const tn_lines_state *s, uint32_t row) {
  return s->scratch + row * s->w->batch * s->w->room * s->w->bytes;
}

static inline void tn_lines_set_value(tn_lines_value *to, tn_dtype type,
                                      double real, int64_t whole) {
  if (type == TN_F32)
    to->f32 = (float)real;
  else if (type == TN_F64)
    to->f64 = real;
  else if (type == TN_I32)
    to->i32 = (int32_t)(uint32_t)(uint64_t)whole;
  else
    to->i64 = whole;
}

/* The distance from a line of a batch to the next one, in elements. */
static inline int64_t tn_lines_find_step(const tn_lines_work *w,
                                         const tn_lines_part *part) {
  return part->kept[w->n_kept - 1];
}

/* The longest run of elements of a line with one stride, from element `at` on
 * and of at most n elements. */
static inline tn_kernel_line tn_lines_find_run(const tn_lines_work *w,
                                               const tn_lines_part *part,
                                               int64_t offset, int64_t at,
                                               int64_t n) {
  tn_kernel_line line;
  int32_t d = w->n_reduced - 1;
  const int64_t place = at % w->reduced[d];
  const int64_t left = w->reduced[d] - place;
  offset += place * part->reduced[d];
  for (int64_t rest = at / w->reduced[d]; rest > 0 && d > 0;
       rest /= w->reduced[d]) {
    --d;
    offset += rest % w->reduced[d] * part->reduced[d];
  }
  line.at = part->data + offset * part->bytes;
  line.stride = part->reduced[w->n_reduced - 1];
  line.n = n < left ? n : left;
  line.dtype = part->dtype;
  return line;
}

/* Copies between a row and the current part of one line. */
static inline void tn_lines_copy_line(const tn_lines_state *s,
                                      const tn_lines_part *part, int64_t offset,
                                      void *row, int writes) {
  for (int64_t i = 0; i < s->r.block.n;) {
    char *at = (char *)row + i * s->w->bytes;
    const tn_kernel_line line =
        tn_lines_find_run(s->w, part, offset, s->at + i, s->r.block.n - i);
    if (writes)
      tn_kernel_store(&line, &s->w->mode, at);
    else
      tn_kernel_load(at, &s->w->mode, &line);
    i += line.n;
  }
}

/* Copies between a row and the current part of all lines; at once if they are
 * dense together. */
static inline void tn_lines_copy(const tn_lines_state *s,
                                 const tn_lines_part *part, int64_t offset,
                                 void *row, int writes) {
  const tn_lines_work *w = s->w;
  const int64_t step = tn_lines_find_step(w, part), n = s->r.block.n;
  const int64_t lines = part->level == TN_LINES_PLACE ? 1 : s->r.lines;
  if (w->n_reduced == 1 && part->reduced[0] == 1 && step == n) {
    tn_kernel_line line;
    line.at = part->data + (offset + s->at) * part->bytes;
    line.stride = 1;
    line.n = n * lines;
    line.dtype = part->dtype;
    if (writes)
      tn_kernel_store(&line, &w->mode, row);
    else
      tn_kernel_load(row, &w->mode, &line);
    return;
  }
  for (int64_t j = 0; j < lines; ++j)
    tn_lines_copy_line(s, part, offset + j * step,
                       (char *)row + j * n * w->bytes, writes);
}

/* Makes the current part of an operand a row. Those of level LINE are read
 * when a batch begins. */
static inline void tn_lines_find_operand(tn_lines_state *s, uint32_t k) {
  const tn_lines_part *part = &s->w->in[k];
  const int is_full = part->level == TN_LINES_FULL;
  if (part->level == TN_LINES_LINE) return;
  if (part->is_direct) {
    s->r.block.in[k] = part->data + (s->in[k] + s->at) * part->bytes;
    s->r.step[k] = is_full ? tn_lines_find_step(s->w, part) : 0;
    return;
  }
  void *row = tn_lines_row(s, part->row);
  if (!(s->copied >> k & 1)) tn_lines_copy(s, part, s->in[k], row, 0);
  s->copied |= (uint64_t)1 << k;
  s->r.block.in[k] = row;
  s->r.step[k] = is_full ? s->r.block.n : 0;
}

/* Moves to a part of the lines. Rows of the same part stay valid. */
static inline void tn_lines_set_part(tn_lines_state *s, int64_t at) {
  const int64_t left = s->w->length - at;
  const int64_t n = left < s->w->room ? left : s->w->room;
  if (s->at == at && s->r.block.n == n) return;
  s->at = at;
  s->r.block.n = n;
  s->copied = s->computed = 0;
}

/* ------------------------------------------------------------------ outputs */

/* The number of an output of level PLACE among those of all groups. */
static inline int64_t tn_lines_find_place_out(const tn_lines_work *w,
                                              int64_t group, uint32_t out) {
  int64_t at = group * w->n_places;
  for (uint32_t o = 0; o < out; ++o)
    at += w->map->out_levels[o] == TN_LINES_PLACE && (w->requested >> o & 1);
  return at;
}

/* Its sums in f64. */
static inline double *tn_lines_find_sums(const tn_lines_work *w, int64_t group,
                                         uint32_t out) {
  return w->sums + tn_lines_find_place_out(w, group, out) * w->length;
}

/* Whether a row is written past the caches, so that memory is not read for
 * it. */
static inline int tn_lines_has_stream(const tn_lines_state *s, uint32_t out,
                                      const void *to) {
#if defined(__SSE2__)
  const tn_lines_work *w = s->w;
  const int64_t step = tn_lines_find_step(w, &w->out[out]) * w->bytes;
  return w->streams && w->call->req[out] == TN_REQ_WRITE &&
         w->out[out].is_direct &&
         (((uintptr_t)to | (uintptr_t)step |
           (uintptr_t)(s->r.block.n * w->bytes)) &
          15) == 0;
#else
  (void)s, (void)out, (void)to;
  return 0;
#endif
}

/* Decides the destination of an output of a joined loop. */
static inline void tn_lines_find_output(tn_lines_state *s, uint32_t out) {
  const tn_lines_work *w = s->w;
  const tn_lines_part *part = &w->out[out];
  if (w->map->out_levels[out] == TN_LINES_PLACE) {
    const int64_t at = tn_lines_find_place_out(w, s->group, out);
    s->r.out[out] = w->parts ? (void *)(w->parts + at * w->pitch + s->at)
                             : (void *)(w->sums + at * w->length + s->at);
    s->r.out_step[out] = 0;
    return;
  }
  char *to = part->data + (s->out[out] + s->at) * part->bytes;
  if (part->is_direct && !tn_lines_has_stream(s, out, to)) {
    s->r.out[out] = to;
    s->r.out_step[out] = tn_lines_find_step(w, part);
    return;
  }
  s->r.out[out] = tn_lines_row(s, part->row);
  s->r.out_step[out] = s->r.block.n;
}

/* Writes the rows of an output to memory, unless they are there. */
static inline void tn_lines_finish_output(tn_lines_state *s, uint32_t out) {
  const tn_lines_work *w = s->w;
  const tn_lines_part *part = &w->out[out];
  char *row = (char *)s->r.out[out];
  const int64_t bytes = s->r.block.n * w->bytes;
  char *to = part->data + (s->out[out] + s->at) * part->bytes;
  if (part->level == TN_LINES_PLACE || row == to) return;
  if (part->is_direct) {
#if defined(__SSE2__)
    const int64_t whole = bytes / 64 * 64;
    const int64_t step = tn_lines_find_step(w, part) * w->bytes;
    for (int64_t j = 0; j < s->r.lines; ++j, to += step, row += bytes) {
      tn_kernel_stream_chunk(to, row, whole, NULL, 0);
      memcpy(to + whole, row + whole, (size_t)(bytes - whole));
    }
#endif
    return;
  }
  if (w->call->req[out] == TN_REQ_ADD) {
    void *old = tn_lines_row(s, w->old);
    tn_lines_copy(s, part, s->out[out], old, 0);
    tn_kernel_add_dense(row, old, &w->mode, s->r.block.n * s->r.lines);
  }
  tn_lines_copy(s, part, s->out[out], row, 1);
}

/* Adds the sums in f32 of a group to those in f64, and clears them. */
static inline void tn_lines_flush(tn_lines_state *s) {
  static const tn_kernel_bodies loops = TN_KERNEL_BODIES(tn_lines_spread_f32);
  const tn_lines_work *w = s->w;
  tn_kernel_block block;
  s->n_added = 0;
  block.n = w->length;
  for (int64_t k = 0; w->parts && k < w->n_places; ++k) {
    float *part = w->parts + (s->group * w->n_places + k) * w->pitch;
    block.in[0] = part;
    block.out = w->sums + (s->group * w->n_places + k) * w->length;
    tn_kernel_body_at(&loops, w->mode.level)(&block, NULL);
    memset(part, 0, (size_t)w->length * sizeof *part);
  }
}

/* ------------------------------------------------------------- joined loops */

static inline void tn_lines_run_joined(tn_lines_state *s,
                                       const tn_lines_joined *joined);

/* Computes the rows of a part that a joined loop reads, again if they were
 * those of another part. The totals of their loop have been used already. */
static inline void tn_lines_find_rows(tn_lines_state *s, uint64_t rows) {
  const tn_lines_map *map = s->w->map;
  for (uint32_t j = 0; (rows & ~s->computed) != 0 && j < map->n_joined; ++j)
    if ((map->joined[j].steps & rows & ~s->computed) != 0 &&
        (map->joined[j].steps & ~s->w->active) == 0)
      tn_lines_run_joined(s, &map->joined[j]);
}

/* Computes the current part of all lines. */
static inline void tn_lines_run_joined(tn_lines_state *s,
                                       const tn_lines_joined *joined) {
  const tn_lines_work *w = s->w;
  tn_lines_find_rows(s, joined->rows);
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    if (joined->reads >> k & 1) tn_lines_find_operand(s, k);
  for (uint32_t k = 0; k < w->map->n_steps; ++k)
    if (joined->steps >> k & 1) {
      if (w->map->steps[k].kind == TN_LINES_OUT)
        tn_lines_find_output(s, w->map->steps[k].out);
      else if (w->map->steps[k].keeps_row)
        s->r.rows[k] = tn_lines_row(s, w->rows[k]);
    }
  tn_lines_find_joined(w, joined)(&s->r.block, w->call->params);
  s->computed |= joined->steps;
  for (uint32_t k = 0; k < w->map->n_steps; ++k)
    if ((joined->steps >> k & 1) && w->map->steps[k].kind == TN_LINES_OUT)
      tn_lines_finish_output(s, w->map->steps[k].out);
}

/* Computes the current part of several steps, all that are needed of a stage or
 * of the outputs. */
static inline void tn_lines_run_part(tn_lines_state *s, uint64_t steps) {
  const tn_lines_map *map = s->w->map;
  uint64_t left = steps & s->w->active;
  for (uint32_t j = 0; left != 0 && j < map->n_joined; ++j) {
    if ((map->joined[j].steps & ~left) != 0) continue;
    tn_lines_run_joined(s, &map->joined[j]);
    left &= ~map->joined[j].steps;
  }
}

/* Computes several steps for the whole lines. */
static inline void tn_lines_run_parts(tn_lines_state *s, uint64_t steps) {
  for (int64_t at = 0; at < s->w->length; at += s->w->room) {
    tn_lines_set_part(s, at);
    tn_lines_run_part(s, steps);
  }
}

/* --------------------------------------------------------------- reductions */

/* A total without elements. */
static inline tn_lines_total tn_lines_init_total(const tn_lines_work *w,
                                                 uint32_t kind) {
  tn_lines_total total;
  const tn_dtype type = w->mode.compute;
  const int is_max = kind == TN_LINES_MAX;
  if (type == TN_F32 || type == TN_F64) {
    total.real = is_max                 ? -(double)INFINITY
                 : kind == TN_LINES_MIN ? (double)INFINITY
                                        : 0;
    return total;
  }
  total.whole = 0;
  if (is_max) total.whole = type == TN_I32 ? INT32_MIN : INT64_MIN;
  if (kind == TN_LINES_MIN)
    total.whole = type == TN_I32 ? INT32_MAX : INT64_MAX;
  return total;
}

/* Makes results in f32 or f64 of n totals of a reduction, which are doubles. */
static inline void tn_lines_finish_reals(const tn_lines_work *w, uint32_t step,
                                         const void *totals, int64_t n,
                                         void *to) {
  static const tn_kernel_bodies loops[2] = {
      TN_KERNEL_BODIES(tn_lines_finish_f32),
      TN_KERNEL_BODIES(tn_lines_finish_f64)};
  const int is_mean = w->map->steps[step].kind == TN_LINES_MEAN;
  const double divisor = is_mean ? (double)w->length : 1;
  tn_kernel_block block;
  block.n = n;
  block.in[0] = totals;
  block.out = to;
  tn_kernel_body_at(&loops[w->mode.compute != TN_F32], w->mode.level)(&block,
                                                                      &divisor);
}

/* Makes results of the totals of a reduction. */
static inline void tn_lines_finish_totals(tn_lines_state *s, uint32_t step) {
  const tn_dtype type = s->w->mode.compute;
  const tn_lines_total *totals = s->totals[step];
  const int64_t n = s->r.lines;
  void *to = s->values[step];
  if (type == TN_F32 || type == TN_F64)
    tn_lines_finish_reals(s->w, step, totals, n, to);
  else if (type == TN_I32)
    for (int64_t j = 0; j < n; ++j)
      ((int32_t *)to)[j] = (int32_t)(uint32_t)(uint64_t)totals[j].whole;
  else
    memcpy(to, totals, (size_t)n * sizeof *totals);
}

/* Computes the reductions [first, end) of one stage. */
static inline void tn_lines_reduce(tn_lines_state *s, uint32_t first,
                                   uint32_t end) {
  const tn_lines_work *w = s->w;
  uint64_t steps = 0;
  for (uint32_t k = first; k < end; ++k) {
    const tn_lines_total start = tn_lines_init_total(w, w->map->steps[k].kind);
    if (!tn_lines_is_active(w, k)) continue;
    steps |= (uint64_t)1 << k;
    for (int64_t j = 0; j < s->r.lines; ++j) s->totals[k][j] = start;
  }
  tn_lines_run_parts(s, steps);
  for (uint32_t k = first; k < end; ++k)
    if (steps >> k & 1) tn_lines_finish_totals(s, k);
}

/* Number of the first step after `first` that belongs to another stage. */
static inline uint32_t tn_lines_find_stage_end(const tn_lines_map *map,
                                               uint32_t first) {
  uint32_t end = first + 1;
  while (end < map->n_steps && map->steps[end].kind < TN_LINES_VALUE &&
         map->steps[end].stage == map->steps[first].stage)
    ++end;
  return end;
}

/* -------------------------------------------------------------------- values
 */

static inline const void *tn_lines_read_value(const tn_lines_state *s,
                                              uint32_t source) {
  if (source == TN_LINES_COUNT) return &s->count;
  if (source >= TN_LINES_RESULT) return s->values[source - TN_LINES_RESULT];
  return s->operands[source];
}

/* Computes a value of all lines, or an output of level LINE. */
static inline void tn_lines_run_values(tn_lines_state *s, uint32_t step) {
  const tn_lines_step *own = &s->w->map->steps[step];
  tn_kernel_block block;
  block.n = s->r.lines;
  block.out = s->values[step];
  for (uint32_t i = 0; i < own->n_in; ++i)
    block.in[i] = tn_lines_read_value(s, own->in[i]);
  tn_lines_find_step_body(s->w, own)(&block, s->w->call->params);
}

/* The elements of all lines in a tensor of level LINE. */
static inline tn_kernel_line tn_lines_find_values(const tn_lines_state *s,
                                                  const tn_lines_part *part,
                                                  int64_t offset) {
  tn_kernel_line line;
  line.at = part->data + offset * part->bytes;
  line.stride = tn_lines_find_step(s->w, part);
  line.n = s->r.lines;
  line.dtype = part->dtype;
  return line;
}

/* Computes an output of level LINE. */
static inline void tn_lines_write_values(tn_lines_state *s, uint32_t step) {
  const uint32_t out = s->w->map->steps[step].out;
  void *values = s->values[step];
  const tn_kernel_line line =
      tn_lines_find_values(s, &s->w->out[out], s->out[out]);
  tn_lines_value old[TN_LINES_BATCH];
  tn_lines_run_values(s, step);
  if (s->w->call->req[out] == TN_REQ_ADD) {
    tn_kernel_load(old, &s->w->mode, &line);
    tn_kernel_add_dense(values, old, &s->w->mode, line.n);
  }
  tn_kernel_store(&line, &s->w->mode, values);
}

/* Reads the values of all operands, before an output overwrites them. */
static inline void tn_lines_read_values(tn_lines_state *s) {
  for (uint32_t k = 0; k < s->w->map->n_operands; ++k) {
    const tn_lines_part *part = &s->w->in[k];
    if (part->level != TN_LINES_LINE || !part->data) continue;
    const tn_kernel_line line = tn_lines_find_values(s, part, s->in[k]);
    tn_kernel_load(s->operands[k], &s->w->mode, &line);
  }
}

/* -------------------------------------------------------------------- lines */

/* The first element of a line in a tensor, from its places in the dimensions of
 * lines. */
static inline int64_t tn_lines_find_first(const tn_lines_work *w,
                                          const tn_lines_part *part,
                                          const int64_t *places) {
  int64_t at = places[0] * part->kept[0];
  for (int32_t d = 1; d < w->n_kept; ++d) at += places[d] * part->kept[d];
  return at;
}

/* Finds the first element of a line in every tensor. */
static inline void tn_lines_find_line(const tn_lines_work *w, int64_t line,
                                      int64_t *in, int64_t *out) {
  int64_t places[TN_MAX_NDIM];
  for (int32_t d = w->n_kept - 1; d > 0; --d) {
    places[d] = line % w->kept[d];
    line /= w->kept[d];
  }
  places[0] = line;
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    in[k] = tn_lines_find_first(w, &w->in[k], places);
  for (uint32_t o = 0; o < w->call->n_out; ++o)
    out[o] = tn_lines_find_first(w, &w->out[o], places);
}

/* Moves to `n` lines from `line` on. */
static inline void tn_lines_set_lines(tn_lines_state *s, int64_t line,
                                      int64_t n) {
  tn_lines_find_line(s->w, line, s->in, s->out);
  s->r.lines = n;
  s->copied &= s->shared;
  s->computed = 0;
  tn_lines_read_values(s);
}

/* Computes the current lines. Outputs of level LINE come before the others,
 * which may have the memory of an operand. */
static inline void tn_lines_run_lines(tn_lines_state *s) {
  const tn_lines_map *map = s->w->map;
  uint32_t k = 0;
  uint64_t rest = 0;
  while (k < map->n_steps) {
    const tn_lines_step *step = &map->steps[k];
    const int is_active = tn_lines_is_active(s->w, k);
    if (step->kind < TN_LINES_VALUE) {
      const uint32_t end = tn_lines_find_stage_end(map, k);
      tn_lines_reduce(s, k, end);
      k = end;
      continue;
    }
    if (step->kind == TN_LINES_VALUE && is_active) tn_lines_run_values(s, k);
    if (step->kind == TN_LINES_OUT) {
      if (map->out_levels[step->out] != TN_LINES_LINE)
        rest |= (uint64_t)1 << k;
      else if (is_active)
        tn_lines_write_values(s, k);
    }
    ++k;
  }
  if ((rest & s->w->active) != 0) tn_lines_run_parts(s, rest);
}

/* Prepares the work on a group of lines. */
static inline void tn_lines_set_group(tn_lines_state *s, const tn_lines_work *w,
                                      int64_t group, char *scratch) {
  const tn_lines_map *map = w->map;
  s->w = w;
  s->group = group;
  s->scratch = scratch;
  s->at = s->r.block.n = -1;
  s->copied = s->computed = s->shared = 0;
  s->n_added = 0;
  tn_lines_set_value(&s->count, w->mode.compute, (double)w->length, w->length);
  s->r.count = &s->count;
  for (uint32_t k = 0; k < map->n_steps; ++k) {
    s->r.results[k] = s->values[k];
    s->r.totals[k] = s->totals[k];
  }
  for (uint32_t k = 0; k < map->n_operands; ++k) {
    if (w->in[k].level == TN_LINES_LINE) s->r.block.in[k] = s->operands[k];
    if (w->in[k].level == TN_LINES_PLACE) s->shared |= (uint64_t)1 << k;
  }
}

/* Computes the lines of a group in batches. */
static inline void tn_lines_run_rows(const tn_lines_work *w, int64_t group,
                                     char *scratch) {
  const int64_t inner = w->kept[w->n_kept - 1];
  const int64_t first = group * w->each;
  const int64_t last = w->lines - first < w->each ? w->lines : first + w->each;
  tn_lines_state s;
  tn_lines_set_group(&s, w, group, scratch);
  for (int64_t line = first, n; line < last; line += n) {
    n = inner - line % inner;
    if (n > w->batch) n = w->batch;
    if (n > last - line) n = last - line;
    tn_lines_set_lines(&s, line, n);
    tn_lines_run_lines(&s);
    s.n_added += n;
    if (s.n_added >= TN_LINES_FLUSHED || line + n == last) tn_lines_flush(&s);
  }
#if defined(__SSE2__)
  if (w->streams) _mm_sfence();
#endif
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_LINE_LOOPS_H_ */
