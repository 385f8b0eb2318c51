/* SPDX-License-Identifier: Apache-2.0
 * line_walk.h: the tables of formulas over lines, and the lines of a call:
 * their number, their lengths and the strides of all operands. Part of lines.h
 * and lines.cuh.
 */
#ifndef TENON_KERNEL_LINE_WALK_H_
#define TENON_KERNEL_LINE_WALK_H_

#include "tenon/kernel/kernel.h"
#include "tenon/kernel/line_shapes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- tables */

enum { /* kinds of steps */
       TN_LINES_SUM = 0,
       TN_LINES_MEAN = 1,
       TN_LINES_MAX = 2,
       TN_LINES_MIN = 3,
       TN_LINES_VALUE = 4,
       TN_LINES_OUT = 5
};

enum {                        /* sources of a step, in tn_lines_step.in */
       TN_LINES_OPERAND = 0,  /* + an index in tn_lines_map.operands */
       TN_LINES_ROW_OF = 64,  /* + a reduction: the row that it reduces */
       TN_LINES_RESULT = 128, /* + a reduction or value: its result */
       TN_LINES_COUNT = 255   /* the number of elements of a line */
};

enum {
  TN_LINES_MAX_STEPS = 48,
  TN_LINES_PART = 1024,  /* elements of a row of a line that has several */
  TN_LINES_BATCH = 32,   /* most lines that a loop over rows computes */
  TN_LINES_NEAR = 12288, /* elements of such lines in all operands, at most;
                           but at least one line */
  TN_LINES_WIDTH = 256, /* most neighbouring lines that are computed together */
  TN_LINES_LEAST_WIDTH = 64, /* fewest of them */
  TN_LINES_SHORT = 32, /* elements of a line that is computed so in any order */
  TN_LINES_FLUSHED = 16,   /* lines whose sums at each place are added in f32 */
  TN_LINES_GROUPS = 32,    /* most groups of lines with sums of their own */
  TN_LINES_SCRATCH = 65536 /* bytes of all rows of a thread */
};

/* One step. Steps follow those that they read; reductions of one stage are
 * adjacent. Its loops compute it for several lines: a value of each, or the
 * elements at one place (line_columns.h). */
typedef struct tn_lines_step {
  tn_kernel_bodies f32, f64, i32, i64;
  uint32_t needed; /* bit o: output o of the call needs this step */
  uint8_t kind;
  uint8_t stage;     /* of a reduction */
  uint8_t may_lack;  /* a MAX that may have no elements: -infinity */
  uint8_t out;       /* of an output: index in call->out */
  uint8_t is_plain;  /* in[0] is the row; there are no loops */
  uint8_t keeps_row; /* other steps read the row of this reduction */
  uint8_t n_in;
  uint8_t in[TN_KERNEL_MAX_IN];
} tn_lines_step;

/* A loop over rows that computes several steps at once: reductions of a stage,
 * or outputs of levels FULL and PLACE. Its body reads a tn_lines_rows
 * (line_loops.h). */
typedef struct tn_lines_joined {
  tn_kernel_bodies f32, f64, i32, i64;
  uint64_t steps; /* bit s: it computes step s */
  uint64_t rows;  /* bit s: it reads the row of step s */
  uint32_t reads; /* bit k: it reads operand k */
} tn_lines_joined;

/* One pass of an operator. */
typedef struct tn_lines_map {
  const tn_lines_step *steps;
  uint32_t n_steps;
  uint32_t n_operands;
  uint8_t operands[TN_KERNEL_MAX_IN];         /* indices in call->in */
  uint8_t levels[TN_KERNEL_MAX_IN];           /* TN_LINES_*, of each operand */
  uint8_t out_levels[TN_KERNEL_MAX_OPERANDS]; /* of each output of the call */
  uint32_t loop;  /* index of the operand with the shape of the loop: in
                     call->in; backward in call->out */
  tn_dtype least; /* no call computes in less; or TN_DTYPE_UNKNOWN */
  uint32_t n_joined;
  const tn_lines_joined *joined; /* one of several steps is before those that
                                    compute a part of these */
} tn_lines_map;

/* ----------------------------------------------------------------- the loop */

/* A tensor of the call as part of the loop. */
typedef struct tn_lines_part {
  char *data;
  int64_t bytes; /* of an element */
  tn_dtype dtype;
  uint8_t level;
  uint8_t is_direct;            /* a row can be used where it is */
  uint8_t row;                  /* of the copy of a row */
  int64_t kept[TN_MAX_NDIM];    /* strides from line to line */
  int64_t reduced[TN_MAX_NDIM]; /* strides along a line */
} tn_lines_part;

/* A call. */
typedef struct tn_lines_work {
  const tn_frame *call;
  const tn_lines_map *map;
  tn_kernel_mode mode;
  int64_t bytes; /* of an element of the type to compute in */
  int64_t lines, length;
  int64_t room;  /* elements of a row */
  int64_t batch; /* lines that a loop over rows computes */
  int64_t width; /* neighbouring lines that are computed together; 0: rows */
  int32_t n_kept, n_reduced;
  int64_t kept[TN_MAX_NDIM], reduced[TN_MAX_NDIM]; /* lengths, at least one */
  tn_lines_part in[TN_KERNEL_MAX_IN];
  tn_lines_part out[TN_KERNEL_MAX_OPERANDS];
  uint8_t streams;    /* 1: outputs of the loop do not fit into any cache */
  uint32_t requested; /* bit o: output o */
  uint64_t active;    /* bit s: step s */
  uint32_t n_rows;
  uint8_t rows[TN_LINES_MAX_STEPS]; /* of each step */
  uint8_t old;                      /* the row of old elements of outputs */
  int64_t each, groups; /* lines of a group with its own sums; 0: none */
  uint32_t n_places;    /* requested outputs of level PLACE */
  double *sums;         /* of all groups */
  float *parts;         /* sums of a few lines, in f32; or NULL */
  int64_t pitch;        /* of these, elements from one output to the next */
} tn_lines_work;

static inline int tn_lines_is_active(const tn_lines_work *w, uint32_t step) {
  return (int)(w->active >> step & 1);
}

/* The loop of a call's type and level, among those of all types. */
static inline tn_kernel_body *tn_lines_find_body(const tn_lines_work *w,
                                                 const tn_kernel_bodies *f32,
                                                 const tn_kernel_bodies *f64,
                                                 const tn_kernel_bodies *i32,
                                                 const tn_kernel_bodies *i64) {
  const tn_dtype type = w->mode.compute;
  return tn_kernel_body_at(type == TN_F32   ? f32
                           : type == TN_F64 ? f64
                           : type == TN_I32 ? i32
                                            : i64,
                           w->mode.level);
}

static inline tn_kernel_body *tn_lines_find_step_body(const tn_lines_work *w,
                                                      const tn_lines_step *s) {
  return tn_lines_find_body(w, &s->f32, &s->f64, &s->i32, &s->i64);
}

static inline tn_kernel_body *tn_lines_find_joined(const tn_lines_work *w,
                                                   const tn_lines_joined *j) {
  return tn_lines_find_body(w, &j->f32, &j->f64, &j->i32, &j->i64);
}

/* Splits the strides of a tensor into those along a line and the others. */
static inline void tn_lines_split(tn_lines_part *part, const tn_tensor *t,
                                  uint32_t level, int32_t ndim,
                                  const uint8_t *is_reduced) {
  int32_t at = 0, n_kept = 0, n_reduced = 0;
  part->data = (char *)t->data;
  part->dtype = t->dtype;
  part->bytes = tn_dtype_bytes(t->dtype);
  part->level = (uint8_t)level;
  for (int32_t d = 0; d < ndim; ++d) {
    const uint32_t own = is_reduced[d] ? TN_LINES_PLACE : TN_LINES_LINE;
    const int has_dim = (level & own) || level == TN_LINES_LINE;
    const int64_t stride = (level & own) ? t->strides[at] : 0;
    if (is_reduced[d])
      part->reduced[n_reduced++] = stride;
    else
      part->kept[n_kept++] = stride;
    at += has_dim;
  }
}

/* The strides of a part in one of the two groups of dimensions. */
static inline int64_t *tn_lines_strides(tn_lines_part *part, int is_reduced) {
  return is_reduced ? part->reduced : part->kept;
}

/* Whether dimension d of a group and the next one are one dimension for a
 * tensor. */
static inline int tn_lines_can_join(const int64_t *strides, int32_t d,
                                    const int64_t *shape) {
  return shape[d] == 1 || shape[d + 1] == 1 ||
         strides[d] == strides[d + 1] * shape[d + 1];
}

/* Joins dimension d of a group and the next one in the strides of a tensor. */
static inline void tn_lines_join_one(int64_t *strides, int32_t d, int32_t n,
                                     const int64_t *shape) {
  if (shape[d + 1] == 1) strides[d + 1] = strides[d];
  for (int32_t i = d; i + 1 < n; ++i) strides[i] = strides[i + 1];
}

/* Joins the dimensions of a group that are one dimension for all tensors. */
static inline int32_t tn_lines_join(tn_lines_work *w, int is_reduced,
                                    int64_t *shape, int32_t n) {
  const uint32_t n_in = w->map->n_operands, n_all = n_in + w->call->n_out;
  for (int32_t d = n - 2; d >= 0; --d) {
    int can_join = 1;
    for (uint32_t k = 0; k < n_all; ++k) {
      tn_lines_part *part = k < n_in ? &w->in[k] : &w->out[k - n_in];
      can_join = can_join && tn_lines_can_join(
                                 tn_lines_strides(part, is_reduced), d, shape);
    }
    if (!can_join) continue;
    for (uint32_t k = 0; k < n_all; ++k) {
      tn_lines_part *part = k < n_in ? &w->in[k] : &w->out[k - n_in];
      tn_lines_join_one(tn_lines_strides(part, is_reduced), d, n, shape);
    }
    shape[d + 1] *= shape[d];
    for (int32_t i = d; i + 1 < n; ++i) shape[i] = shape[i + 1];
    --n;
  }
  if (n == 0) shape[0] = 1;
  return n == 0 ? 1 : n;
}

/* Whether rows of a tensor can be used where they are. */
static inline uint8_t tn_lines_is_direct(const tn_lines_work *w,
                                         const tn_lines_part *part) {
  return w->n_reduced == 1 && part->dtype == w->mode.compute &&
         (part->reduced[0] == 1 || w->length == 1);
}

/* The type that a call computes in; TN_DTYPE_UNKNOWN: none. */
static inline tn_dtype tn_lines_find_type(const tn_frame *call,
                                          const tn_lines_map *map) {
  tn_dtype type = map->least;
  for (uint32_t k = 0; k < map->n_operands; ++k) {
    const tn_tensor *t = &call->in[map->operands[k]];
    if (t->ndim < 0) continue;
    const tn_dtype own = tn_kernel_compute(t->dtype);
    if (own == TN_DTYPE_UNKNOWN) return own;
    type = type == TN_DTYPE_UNKNOWN ? own : tn_kernel_compute_join(type, own);
  }
  for (uint32_t o = 0; o < call->n_out; ++o) {
    const tn_dtype own = tn_kernel_compute(call->out[o].dtype);
    if (own == TN_DTYPE_UNKNOWN) return own;
    type = type == TN_DTYPE_UNKNOWN ? own : tn_kernel_compute_join(type, own);
  }
  return type;
}

/* Splits all tensors of the call; an absent operand keeps zeros. */
static inline int32_t tn_lines_find_loop(tn_lines_work *w,
                                         const tn_lines_axes *axes) {
  const tn_frame *call = w->call;
  const tn_lines_map *map = w->map;
  const tn_tensor *loop = call->flags & TN_CALL_BACKWARD ? &call->out[map->loop]
                                                         : &call->in[map->loop];
  uint8_t is_reduced[TN_MAX_NDIM];
  const int32_t ndim = loop->ndim;
  const int32_t code = tn_lines_find_dims(call, axes, ndim, is_reduced);
  if (code != TN_OK) return code;
  w->lines = w->length = 1;
  for (int32_t d = 0; d < ndim; ++d) {
    if (is_reduced[d])
      w->reduced[w->n_reduced++] = loop->shape[d];
    else
      w->kept[w->n_kept++] = loop->shape[d];
    if (is_reduced[d])
      w->length *= loop->shape[d];
    else
      w->lines *= loop->shape[d];
  }
  for (uint32_t k = 0; k < map->n_operands; ++k)
    if (call->in[map->operands[k]].ndim >= 0)
      tn_lines_split(&w->in[k], &call->in[map->operands[k]], map->levels[k],
                     ndim, is_reduced);
  for (uint32_t o = 0; o < call->n_out; ++o)
    tn_lines_split(&w->out[o], &call->out[o], map->out_levels[o], ndim,
                   is_reduced);
  w->n_reduced = tn_lines_join(w, 1, w->reduced, w->n_reduced);
  w->n_kept = tn_lines_join(w, 0, w->kept, w->n_kept);
  return TN_OK;
}

/* Whether neighbouring lines are to be computed together: there are enough of
 * them, and the elements of a line are few or are apart in a tensor of the
 * loop, while those of its neighbours are not. */
static inline int tn_lines_has_columns(const tn_lines_work *w) {
  const int32_t kept = w->n_kept - 1, reduced = w->n_reduced - 1;
  const tn_dtype type = w->mode.compute;
  if ((type != TN_F32 && type != TN_F64) || w->length < 2 ||
      w->kept[kept] < TN_LINES_LEAST_WIDTH)
    return 0;
  if (w->length <= TN_LINES_SHORT) return 1;
  for (uint32_t k = 0; k < w->map->n_operands + w->call->n_out; ++k) {
    const uint32_t n = w->map->n_operands;
    const tn_lines_part *part = k < n ? &w->in[k] : &w->out[k - n];
    if (part->level == TN_LINES_FULL)
      return part->reduced[reduced] != 1 && part->kept[kept] == 1;
  }
  return 0;
}

/* Whether rows of an operand have to be copied. */
static inline int tn_lines_needs_copy(const tn_lines_work *w,
                                      const tn_lines_part *part,
                                      int has_columns) {
  if (!has_columns) return !part->is_direct && part->level > TN_LINES_LINE;
  return part->level != TN_LINES_PLACE &&
         (part->dtype != w->mode.compute || part->kept[w->n_kept - 1] != 1);
}

/* Gives a row to each operand that has to be copied. */
static inline void tn_lines_add_copies(tn_lines_work *w, int has_columns) {
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    if (tn_lines_needs_copy(w, &w->in[k], has_columns))
      w->in[k].row = (uint8_t)w->n_rows++;
}

/* Divides the scratch memory for neighbouring lines: two rows for an output,
 * and one for each computed row. As many lines are computed together as it has
 * rows, results and totals for. */
static inline void tn_lines_divide_columns(tn_lines_work *w) {
  w->n_rows = 2;
  w->old = 1;
  tn_lines_add_copies(w, 1);
  for (uint32_t s = 0; s < w->map->n_steps; ++s)
    if (w->map->steps[s].kind < TN_LINES_VALUE && !w->map->steps[s].is_plain)
      w->rows[s] = (uint8_t)w->n_rows++;
  const int64_t each = (w->n_rows + w->map->n_steps) * w->bytes +
                       w->map->n_steps * (int64_t)sizeof(double);
  w->width = TN_LINES_SCRATCH / each / 16 * 16;
  if (w->width > TN_LINES_WIDTH) w->width = TN_LINES_WIDTH;
}

/* Gives rows to outputs of the loop that are not written where they are. */
static inline void tn_lines_add_outputs(tn_lines_work *w) {
  int adds = 0;
  for (uint32_t o = 0; o < w->call->n_out; ++o) {
    tn_lines_part *part = &w->out[o];
    if (part->level != TN_LINES_FULL || !(w->requested >> o & 1)) continue;
    adds = adds || w->call->req[o] == TN_REQ_ADD;
    if (!part->is_direct || w->streams) part->row = (uint8_t)w->n_rows++;
  }
  w->old = (uint8_t)w->n_rows;
  w->n_rows += (uint32_t)adds;
}

/* Divides the scratch memory for rows: those that steps keep, copies and
 * outputs. A few lines fit the first cache together. */
static inline void tn_lines_divide_rows(tn_lines_work *w) {
  int64_t full = 0;
  w->n_rows = 0;
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    full += w->in[k].level == TN_LINES_FULL;
  for (uint32_t o = 0; o < w->call->n_out; ++o)
    full += w->out[o].level == TN_LINES_FULL;
  tn_lines_add_copies(w, 0);
  tn_lines_add_outputs(w);
  for (uint32_t s = 0; s < w->map->n_steps; ++s)
    if (w->map->steps[s].keeps_row) w->rows[s] = (uint8_t)w->n_rows++;
  const int64_t rows = w->n_rows > 0 ? w->n_rows : 1;
  const int64_t most = TN_LINES_SCRATCH / w->bytes / rows / 16 * 16;
  w->room = w->length > 0 ? (w->length + 15) / 16 * 16 : 16;
  if (w->n_rows > 0 && w->room > most) {
    w->room = TN_LINES_PART;
    if (w->room > most) w->room = most;
  }
  w->batch = TN_LINES_NEAR / (w->room * (full > 0 ? full : 1));
  if (w->n_rows > 0 && w->batch > most / w->room) w->batch = most / w->room;
  if (w->batch > TN_LINES_BATCH) w->batch = TN_LINES_BATCH;
  if (w->batch < 1 || w->room < w->length) w->batch = 1;
}

/* Divides the scratch memory into rows. */
static inline void tn_lines_divide_scratch(tn_lines_work *w) {
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    w->in[k].is_direct = tn_lines_is_direct(w, &w->in[k]);
  for (uint32_t o = 0; o < w->call->n_out; ++o)
    w->out[o].is_direct =
        w->call->req[o] != TN_REQ_ADD && tn_lines_is_direct(w, &w->out[o]);
  if (tn_lines_has_columns(w))
    tn_lines_divide_columns(w);
  else
    tn_lines_divide_rows(w);
}

/* Decides whether outputs are written past the caches. */
static inline void tn_lines_find_streams(tn_lines_work *w) {
  int64_t bytes = 0;
  for (uint32_t k = 0; k < w->map->n_operands; ++k)
    if (w->in[k].level == TN_LINES_FULL) bytes += w->in[k].bytes;
  for (uint32_t o = 0; o < w->call->n_out; ++o)
    if (w->map->out_levels[o] == TN_LINES_FULL && (w->requested >> o & 1))
      bytes += w->out[o].bytes;
  w->streams = bytes * w->lines * w->length >= TN_KERNEL_STREAM;
}

/* Divides the lines into groups, by the shape alone. */
static inline void tn_lines_divide_lines(tn_lines_work *w) {
  const int64_t least = w->length == 0 ? 1 : TN_KERNEL_GRAIN / w->length;
  for (uint32_t o = 0; o < w->call->n_out; ++o)
    if (w->map->out_levels[o] == TN_LINES_PLACE && (w->requested >> o & 1))
      ++w->n_places;
  w->each = (w->lines + TN_LINES_GROUPS - 1) / TN_LINES_GROUPS;
  if (w->each < least) w->each = least;
  if (w->width > 0) w->each = (w->each + w->width - 1) / w->width * w->width;
  if (w->each < 1) w->each = 1;
  w->groups = (w->lines + w->each - 1) / w->each;
}

/* Describes a call. TN_OK, or a code with TN_FAIL. */
static inline int32_t tn_lines_begin(tn_lines_work *w, const tn_frame *call,
                                     const tn_lines_map *map,
                                     const tn_lines_axes *axes) {
  memset(w, 0, sizeof *w);
  w->call = call;
  w->map = map;
  w->mode.compute = tn_lines_find_type(call, map);
  w->mode.level = tn_kernel_level(call);
  if (w->mode.compute == TN_DTYPE_UNKNOWN)
    return TN_FAIL(call, TN_DTYPE,
                   "an operand has a type in which nothing is computed");
  if (w->mode.compute == TN_U64)
    return TN_FAIL(call, TN_DTYPE,
                   "formulas with reductions do not compute in u64");
  w->bytes = tn_dtype_bytes(w->mode.compute);
  for (uint32_t o = 0; o < call->n_out; ++o)
    if (call->req[o] != TN_REQ_NULL) w->requested |= 1u << o;
  const int32_t code = tn_lines_find_loop(w, axes);
  if (code != TN_OK) return code;
  for (uint32_t s = 0; s < map->n_steps; ++s)
    if (map->steps[s].needed & w->requested) w->active |= (uint64_t)1 << s;
  tn_lines_find_streams(w);
  tn_lines_divide_scratch(w);
  tn_lines_divide_lines(w);
  return TN_OK;
}

/* Refuses the largest element of lines without elements. */
static inline int32_t tn_lines_check_length(const tn_lines_work *w) {
  if (w->length > 0 || w->lines == 0) return TN_OK;
  for (uint32_t k = 0; k < w->map->n_steps; ++k) {
    const tn_lines_step *step = &w->map->steps[k];
    if ((step->kind == TN_LINES_MAX || step->kind == TN_LINES_MIN) &&
        !step->may_lack && tn_lines_is_active(w, k))
      return TN_FAIL(w->call, TN_INVALID,
                     "there is no %s of no elements: a line of the input has "
                     "length 0",
                     step->kind == TN_LINES_MAX ? "maximum" : "minimum");
  }
  return TN_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_LINE_WALK_H_ */
