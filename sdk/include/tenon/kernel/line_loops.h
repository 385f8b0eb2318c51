/* SPDX-License-Identifier: Apache-2.0
 * line_loops.h: the loops over lines: rows of operands, steps, outputs and the
 * sums over lines. Part of lines.h, which includes it.
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

/* The work of one thread: one line, and one part of it at a time. */
typedef struct tn_lines_state {
  const tn_lines_work *w;
  int64_t group;
  int64_t at, n;                /* the current part */
  int64_t in[TN_KERNEL_MAX_IN]; /* first element of the line in each operand */
  int64_t out[TN_KERNEL_MAX_OPERANDS];
  uint64_t copied;   /* bit k: the part of operand k is in its row */
  uint64_t computed; /* bit s: the row of step s is in its row */
  uint64_t read;     /* bit k: the value of operand k of level LINE */
  tn_lines_value operands[TN_KERNEL_MAX_IN];
  tn_lines_value values[TN_LINES_MAX_STEPS];
  tn_lines_total totals[TN_LINES_MAX_STEPS];
  tn_lines_value count;
  char *scratch;
} tn_lines_state;

static inline void *tn_lines_row(const tn_lines_state *s, uint32_t row) {
  return s->scratch + row * s->w->room * s->w->bytes;
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

/* Copies the current part of a line to a row. */
static inline void tn_lines_gather(const tn_lines_state *s,
                                   const tn_lines_part *part, int64_t offset,
                                   void *row) {
  for (int64_t i = 0; i < s->n;) {
    const tn_kernel_line line =
        tn_lines_find_run(s->w, part, offset, s->at + i, s->n - i);
    tn_kernel_load((char *)row + i * s->w->bytes, &s->w->mode, &line);
    i += line.n;
  }
}

/* Copies a row to the current part of a line. */
static inline void tn_lines_scatter(const tn_lines_state *s,
                                    const tn_lines_part *part, int64_t offset,
                                    const void *row) {
  for (int64_t i = 0; i < s->n;) {
    const tn_kernel_line line =
        tn_lines_find_run(s->w, part, offset, s->at + i, s->n - i);
    tn_kernel_store(&line, &s->w->mode, (const char *)row + i * s->w->bytes);
    i += line.n;
  }
}

/* The element of the line in an operand of level LINE. */
static inline const void *tn_lines_read_value(tn_lines_state *s, uint32_t k) {
  const tn_lines_part *part = &s->w->in[k];
  if (!(s->read >> k & 1)) {
    tn_kernel_line line;
    line.at = part->data + s->in[k] * part->bytes;
    line.stride = 1;
    line.n = 1;
    line.dtype = part->dtype;
    tn_kernel_load(&s->operands[k], &s->w->mode, &line);
    s->read |= (uint64_t)1 << k;
  }
  return &s->operands[k];
}

/* The current part of an operand. */
static inline const void *tn_lines_read_operand(tn_lines_state *s, uint32_t k) {
  const tn_lines_part *part = &s->w->in[k];
  if (part->level == TN_LINES_LINE) return tn_lines_read_value(s, k);
  if (part->is_direct) return part->data + (s->in[k] + s->at) * part->bytes;
  void *row = tn_lines_row(s, part->row);
  if (!(s->copied >> k & 1)) tn_lines_gather(s, part, s->in[k], row);
  s->copied |= (uint64_t)1 << k;
  return row;
}

static inline const void *tn_lines_compute_row(tn_lines_state *s,
                                               uint32_t step);

/* A source of a step. */
static inline const void *tn_lines_read_source(tn_lines_state *s,
                                               uint32_t source) {
  if (source == TN_LINES_COUNT) return &s->count;
  if (source >= TN_LINES_RESULT) return &s->values[source - TN_LINES_RESULT];
  if (source >= TN_LINES_ROW_OF)
    return tn_lines_compute_row(s, source - TN_LINES_ROW_OF);
  return tn_lines_read_operand(s, source);
}

/* Computes n elements of a step. */
static inline void tn_lines_run_body(tn_lines_state *s, uint32_t step,
                                     void *out, int64_t n) {
  const tn_lines_step *own = &s->w->map->steps[step];
  tn_kernel_block block;
  block.n = n;
  block.out = out;
  for (uint32_t i = 0; i < own->n_in; ++i)
    block.in[i] = tn_lines_read_source(s, own->in[i]);
  tn_kernel_body_at(tn_lines_bodies(own, s->w->mode.compute), s->w->mode.level)(
      &block, s->w->call->params);
}

/* The row that a reduction reduces. */
static inline const void *tn_lines_compute_row(tn_lines_state *s,
                                               uint32_t step) {
  const tn_lines_step *own = &s->w->map->steps[step];
  if (tn_lines_is_plain(own)) return tn_lines_read_source(s, own->in[0]);
  void *row = tn_lines_row(s, s->w->rows[step]);
  if (!(s->computed >> step & 1)) tn_lines_run_body(s, step, row, s->n);
  s->computed |= (uint64_t)1 << step;
  return row;
}

/* Moves to a part of the line. Rows of the same part stay valid. */
static inline void tn_lines_set_part(tn_lines_state *s, int64_t at) {
  const int64_t left = s->w->length - at;
  const int64_t n = left < s->w->room ? left : s->w->room;
  if (s->at == at && s->n == n) return;
  s->at = at;
  s->n = n;
  s->copied = s->computed = 0;
}

/* --------------------------------------------------------------- reductions */

/* The loop that adds a row to a total. */
static inline tn_kernel_body *tn_lines_find_loop_of(const tn_lines_work *w,
                                                    uint32_t kind) {
  static const tn_kernel_bodies loops[3][4] = {
      {TN_KERNEL_BODIES(tn_lines_add_f32), TN_KERNEL_BODIES(tn_lines_add_f64),
       TN_KERNEL_BODIES(tn_lines_add_i32), TN_KERNEL_BODIES(tn_lines_add_i64)},
      {TN_KERNEL_BODIES(tn_lines_max_f32), TN_KERNEL_BODIES(tn_lines_max_f64),
       TN_KERNEL_BODIES(tn_lines_max_i32), TN_KERNEL_BODIES(tn_lines_max_i64)},
      {TN_KERNEL_BODIES(tn_lines_min_f32), TN_KERNEL_BODIES(tn_lines_min_f64),
       TN_KERNEL_BODIES(tn_lines_min_i32), TN_KERNEL_BODIES(tn_lines_min_i64)}};
  const uint32_t row = kind <= TN_LINES_MEAN ? 0 : kind - 1;
  const tn_dtype type = w->mode.compute;
  const uint32_t at = type == TN_F32   ? 0
                      : type == TN_F64 ? 1
                      : type == TN_I32 ? 2
                                       : 3;
  return tn_kernel_body_at(&loops[row][at], w->mode.level);
}

/* A total without elements. */
static inline tn_lines_total tn_lines_init_total(const tn_lines_work *w,
                                                 uint32_t kind) {
  tn_lines_total total = {0, 0};
  const int is_i32 = w->mode.compute == TN_I32;
  if (kind == TN_LINES_MAX) {
    total.real = -(double)INFINITY;
    total.whole = is_i32 ? INT32_MIN : INT64_MIN;
  } else if (kind == TN_LINES_MIN) {
    total.real = (double)INFINITY;
    total.whole = is_i32 ? INT32_MAX : INT64_MAX;
  }
  return total;
}

/* Adds the current part of a reduction's row to its total. */
static inline void tn_lines_add_part(tn_lines_state *s, uint32_t step) {
  const uint32_t kind = s->w->map->steps[step].kind;
  tn_kernel_block block;
  block.n = s->n;
  block.in[0] = tn_lines_compute_row(s, step);
  block.out = &s->totals[step];
  tn_lines_find_loop_of(s->w, kind)(&block, NULL);
}

static inline void tn_lines_finish_total(tn_lines_state *s, uint32_t step) {
  const uint32_t kind = s->w->map->steps[step].kind;
  double real = s->totals[step].real;
  if (kind == TN_LINES_MEAN) real /= (double)s->w->length;
  tn_lines_set_value(&s->values[step], s->w->mode.compute, real,
                     s->totals[step].whole);
}

/* Computes the reductions [first, end) of one stage. */
static inline void tn_lines_reduce(tn_lines_state *s, uint32_t first,
                                   uint32_t end) {
  const tn_lines_work *w = s->w;
  for (uint32_t k = first; k < end; ++k)
    s->totals[k] = tn_lines_init_total(w, w->map->steps[k].kind);
  for (int64_t at = 0; at < w->length; at += w->room) {
    tn_lines_set_part(s, at);
    for (uint32_t k = first; k < end; ++k)
      if (tn_lines_is_active(w, k)) tn_lines_add_part(s, k);
  }
  for (uint32_t k = first; k < end; ++k) tn_lines_finish_total(s, k);
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

/* ------------------------------------------------------------------ outputs */

/* Writes a single value to an output of level LINE. */
static inline void tn_lines_write_value(const tn_lines_state *s, uint32_t out,
                                        tn_lines_value *value) {
  const tn_lines_part *part = &s->w->out[out];
  tn_lines_value old;
  tn_kernel_line line;
  line.at = part->data + s->out[out] * part->bytes;
  line.stride = 1;
  line.n = 1;
  line.dtype = part->dtype;
  if (s->w->call->req[out] == TN_REQ_ADD) {
    tn_kernel_load(&old, &s->w->mode, &line);
    tn_kernel_add_dense(value, &old, &s->w->mode, 1);
  }
  tn_kernel_store(&line, &s->w->mode, value);
}

/* Computes a row and writes it past the caches, so that memory is not read for
 * it. Returns 0 if that cannot be or would not pay. */
static inline int tn_lines_stream(tn_lines_state *s, uint32_t step,
                                  uint32_t out, void *to) {
#if defined(__SSE2__)
  const int64_t bytes = s->n * s->w->bytes, whole = bytes / 64 * 64;
  void *row = tn_lines_row(s, 0);
  if (!s->w->streams || s->w->call->req[out] != TN_REQ_WRITE ||
      ((uintptr_t)to & 15) != 0)
    return 0;
  tn_lines_run_body(s, step, row, s->n);
  tn_kernel_stream_chunk(to, row, whole, NULL, 0);
  memcpy((char *)to + whole, (const char *)row + whole,
         (size_t)(bytes - whole));
  return 1;
#else
  (void)s, (void)out, (void)to, (void)step;
  return 0;
#endif
}

/* Computes the current part of an output of level FULL. */
static inline void tn_lines_write_part(tn_lines_state *s, uint32_t step,
                                       uint32_t out) {
  const tn_lines_part *part = &s->w->out[out];
  const int64_t offset = s->out[out];
  if (part->is_direct) {
    void *to = part->data + (offset + s->at) * part->bytes;
    if (!tn_lines_stream(s, step, out, to))
      tn_lines_run_body(s, step, to, s->n);
    return;
  }
  void *row = tn_lines_row(s, 0);
  tn_lines_run_body(s, step, row, s->n);
  if (s->w->call->req[out] == TN_REQ_ADD) {
    void *old = tn_lines_row(s, 1);
    tn_lines_gather(s, part, offset, old);
    tn_kernel_add_dense(row, old, &s->w->mode, s->n);
  }
  tn_lines_scatter(s, part, offset, row);
}

/* The sums in f64 of an output of level PLACE in a group. */
static inline double *tn_lines_sums_of(const tn_lines_work *w, int64_t group,
                                       uint32_t out) {
  int64_t at = 0;
  for (uint32_t o = 0; o < out; ++o)
    at += w->map->out_levels[o] == TN_LINES_PLACE && (w->requested >> o & 1);
  return w->sums + (group * w->n_places + at) * w->length;
}

/* Adds the current part of an output of level PLACE to the sums. */
static inline void tn_lines_spread_part(tn_lines_state *s, uint32_t step,
                                        uint32_t out) {
  static const tn_kernel_bodies loops[2] = {
      TN_KERNEL_BODIES(tn_lines_spread_f32),
      TN_KERNEL_BODIES(tn_lines_spread_f64)};
  const tn_lines_work *w = s->w;
  void *row = tn_lines_row(s, 0);
  tn_kernel_block block;
  block.n = s->n;
  block.in[0] = row;
  if (tn_lines_is_plain(&w->map->steps[step]))
    block.in[0] = tn_lines_read_source(s, w->map->steps[step].in[0]);
  else
    tn_lines_run_body(s, step, row, s->n);
  block.out = tn_lines_sums_of(w, s->group, out) + s->at;
  tn_kernel_body_at(&loops[w->mode.compute != TN_F32], w->mode.level)(&block,
                                                                      NULL);
}

/* Reads the single values of all operands, before an output overwrites them. */
static inline void tn_lines_read_values(tn_lines_state *s) {
  for (uint32_t k = 0; k < s->w->map->n_operands; ++k)
    if (s->w->in[k].level == TN_LINES_LINE && s->w->in[k].data)
      (void)tn_lines_read_value(s, k);
}

/* Computes the outputs from step `first` on. Outputs of level FULL are last,
 * because they may have the memory of an operand. */
static inline void tn_lines_write(tn_lines_state *s, uint32_t first) {
  const tn_lines_work *w = s->w;
  uint32_t k = first;
  tn_lines_read_values(s);
  for (; k < w->map->n_steps; ++k) {
    const uint32_t out = w->map->steps[k].out;
    tn_lines_value value;
    if (w->map->out_levels[out] != TN_LINES_LINE) break;
    if (!tn_lines_is_active(w, k)) continue;
    tn_lines_run_body(s, k, &value, 1);
    tn_lines_write_value(s, out, &value);
  }
  if (k == w->map->n_steps) return;
  for (int64_t at = 0; at < w->length; at += w->room) {
    tn_lines_set_part(s, at);
    for (uint32_t i = k; i < w->map->n_steps; ++i) {
      const uint32_t out = w->map->steps[i].out;
      if (!tn_lines_is_active(w, i)) continue;
      if (w->map->out_levels[out] == TN_LINES_PLACE)
        tn_lines_spread_part(s, i, out);
      else
        tn_lines_write_part(s, i, out);
    }
  }
}

/* -------------------------------------------------------------------- lines */

/* Finds the first element of a line in every tensor. */
static inline void tn_lines_find_line(const tn_lines_work *w, int64_t line,
                                      int64_t *in, int64_t *out) {
  for (uint32_t k = 0; k < w->map->n_operands; ++k) in[k] = 0;
  for (uint32_t o = 0; o < w->call->n_out; ++o) out[o] = 0;
  for (int32_t d = w->n_kept - 1; d >= 0; --d) {
    const int64_t place = d == 0 ? line : line % w->kept[d];
    for (uint32_t k = 0; k < w->map->n_operands; ++k)
      in[k] += place * w->in[k].kept[d];
    for (uint32_t o = 0; o < w->call->n_out; ++o)
      out[o] += place * w->out[o].kept[d];
    if (d > 0) line /= w->kept[d];
  }
}

static inline void tn_lines_set_line(tn_lines_state *s, int64_t line) {
  tn_lines_find_line(s->w, line, s->in, s->out);
  s->read = s->copied = s->computed = 0;
  s->at = s->n = -1;
}

static inline void tn_lines_run_line(tn_lines_state *s, int64_t line) {
  const tn_lines_map *map = s->w->map;
  uint32_t k = 0;
  tn_lines_set_line(s, line);
  while (k < map->n_steps && map->steps[k].kind != TN_LINES_OUT) {
    if (map->steps[k].kind == TN_LINES_VALUE) {
      if (tn_lines_is_active(s->w, k))
        tn_lines_run_body(s, k, &s->values[k], 1);
      ++k;
      continue;
    }
    const uint32_t end = tn_lines_find_stage_end(map, k);
    tn_lines_reduce(s, k, end);
    k = end;
  }
  tn_lines_write(s, k);
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_LINE_LOOPS_H_ */
