/* SPDX-License-Identifier: Apache-2.0
 * arg.c: positions of the largest and least elements, on the CPU. The loop of
 * tensor.max finds the largest element of a part of a line. Only if it is
 * larger than those before, a second loop finds its position. Both loops are
 * vectorised; one loop that carried positions would not be. Reductions by
 * columns do carry them.
 */
#include "arg.gen.h"
#include "move.h"
#include "reduce_loops.h"

enum {
  BOX = 1024,   /* elements of a part of a line */
  PIECE = 65536 /* elements of a line in one slice, if there are few lines */
};

/* Sets *out to the position of the first element that equals the record
 * `params`. */
#define FIND(name, type, wide)                                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *x = (const type *)block->in[0];                                \
    const type v = (type) * (const wide *)params;                              \
    const int nan = v != v;                                                    \
    int64_t i = 0;                                                             \
    for (; !nan && i + 64 <= block->n; i += 64) {                              \
      int hits = 0;                                                            \
      for (int j = 0; j < 64; ++j) hits |= x[i + j] == v;                      \
      if (hits) break;                                                         \
    }                                                                          \
    while (i < block->n - 1 && !(nan ? x[i] != x[i] : x[i] == v)) ++i;         \
    *(int64_t *)block->out = i;                                                \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
FIND(find_f32, float, double)
FIND(find_f64, double, double)
FIND(find_i64, int64_t, int64_t)

/* State of n columns: out is the best record of each, `places` its position;
 * rows [1, n) of params remain. */
typedef struct ranks {
  int64_t n;
  int64_t row_distance;
  int64_t first; /* number of row 0 */
  void *places;
} ranks;

#define COLUMN(name, type, place, before)                                      \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const ranks *rows = (const ranks *)params;                                 \
    const type *x = (const type *)block->in[0];                                \
    type *best = (type *)block->out;                                           \
    place *at = (place *)rows->places;                                         \
    for (int64_t r = 0; r < rows->n; ++r, x += rows->row_distance) {           \
      const place row = (place)(rows->first + r);                              \
      TN_KERNEL_INDEPENDENT                                                    \
      for (int64_t j = 0; j < block->n; ++j) {                                 \
        const type v = x[j], b = best[j];                                      \
        const place old = at[j];                                               \
        const int takes = (v before b) | ((v != v) & (b == b));                \
        best[j] = takes ? v : b;                                               \
        at[j] = takes ? row : old;                                             \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
COLUMN(most_f32, float, int32_t, >)
COLUMN(most_f64, double, int64_t, >)
COLUMN(most_i64, int64_t, int64_t, >)
COLUMN(most_u64, uint64_t, int64_t, >)
COLUMN(least_f32, float, int32_t, <)
COLUMN(least_f64, double, int64_t, <)
COLUMN(least_i64, int64_t, int64_t, <)
COLUMN(least_u64, uint64_t, int64_t, <)

/* A search for the largest or the least element: its loops. */
typedef struct extreme_search {
  const reduce_op *op;
  int least;
  tn_kernel_bodies f32, f64, i64, u64; /* columns */
} extreme_search;

static const extreme_search largest = {.op = &reduce_max,
                                       .f32 = TN_KERNEL_BODIES(most_f32),
                                       .f64 = TN_KERNEL_BODIES(most_f64),
                                       .i64 = TN_KERNEL_BODIES(most_i64),
                                       .u64 = TN_KERNEL_BODIES(most_u64)};
static const extreme_search smallest = {.op = &reduce_min,
                                        .least = 1,
                                        .f32 = TN_KERNEL_BODIES(least_f32),
                                        .f64 = TN_KERNEL_BODIES(least_f64),
                                        .i64 = TN_KERNEL_BODIES(least_i64),
                                        .u64 = TN_KERNEL_BODIES(least_u64)};

/* ------------------------------------------------------------------- tasks */

/* The best element so far: its value as a record, and its place in the line. */
typedef struct candidate {
  uint64_t value;
  int64_t place;
} candidate;

/* A call. `direct` are loops over elements in their own type, NULL if they must
 * be converted first. */
typedef struct task {
  const tn_frame *call;
  const extreme_search *search;
  reduce_column_plan cut;
  tn_kernel_mode mode;
  int direct;   /* elements have the type of the loops */
  int signless; /* they are u64 */
  int64_t bytes;
  int64_t pieces; /* pieces of a line */
  tn_kernel_body *line;
  tn_kernel_body *find;
  tn_kernel_body *column;
} task;

/* Returns the number of pieces of a line of n elements. */
static int64_t count_pieces(int64_t lines, int64_t n) {
  enum { MANY = 8 };
  return lines >= MANY ? 1 : (n + PIECE - 1) / PIECE;
}

static void init_task(task *t, const tn_frame *call,
                      const extreme_search *search) {
  static const tn_kernel_bodies find_f[] = {TN_KERNEL_BODIES(find_f32)},
                                find_d[] = {TN_KERNEL_BODIES(find_f64)},
                                find_i[] = {TN_KERNEL_BODIES(find_i64)};
  const tn_dtype dtype = call->in[0].dtype;
  const int whole = tensor_wide_dtype(dtype) == TN_I64;
  const int single = dtype == TN_F32, signless = dtype == TN_U64;
  const uint32_t level = tn_kernel_level(call);
  const reduce_loops *loops = single     ? &search->op->f32
                              : signless ? &search->op->u64
                              : whole    ? &search->op->i64
                                         : &search->op->f64;
  t->call = call;
  t->search = search;
  t->mode.compute = single ? TN_F32 : whole ? TN_I64 : TN_F64;
  t->mode.level = level;
  t->direct = tn_kernel_signed(dtype) == t->mode.compute;
  t->signless = signless;
  t->bytes = tn_dtype_bytes(dtype);
  t->line = tn_kernel_body_at(&loops->line, level);
  t->find = tn_kernel_body_at(single ? find_f : whole ? find_i : find_d, level);
  t->column = tn_kernel_body_at(single     ? &search->f32
                                : signless ? &search->u64
                                : whole    ? &search->i64
                                           : &search->f64,
                                level);
}

/* ------------------------------------------------------------------- lines */

/* Whether a record is better than another one of an earlier position. */
static int is_better(const task *t, uint64_t value, uint64_t than) {
  const double a = tn_kernel_f64_from_bits(value),
               b = tn_kernel_f64_from_bits(than);
  if (t->signless) return t->search->least ? value < than : value > than;
  if (t->mode.compute == TN_I64)
    return t->search->least ? (int64_t)value < (int64_t)than
                            : (int64_t)value > (int64_t)than;
  return b == b && (a != a || (t->search->least ? a < b : a > b));
}

/* Searches n elements; the first has position `place` in its line. */
static void search_part(const task *t, const char *at, int64_t step, int64_t n,
                        int64_t place, candidate *best) {
  TN_KERNEL_LINED uint64_t staged[BOX];
  const void *from = at;
  if (!t->direct || step != 1) {
    const tn_kernel_line line = {(char *)(uintptr_t)at, step, n,
                                 t->call->in[0].dtype};
    tn_kernel_load(staged, &t->mode, &line);
    from = staged;
  }
  const uint64_t value = reduce_line(t->line, from, n);
  if (best->place >= 0 && !is_better(t, value, best->value)) return;
  const tn_kernel_block block = {n, &best->place, {from}};
  t->find(&block, &value);
  best->value = value;
  best->place += place;
}

/* Searches elements [begin, end) of a line that begins at `base`. */
static candidate search_line(const task *t, int64_t base, int64_t begin,
                             int64_t end) {
  const reduce_column_plan *cut = &t->cut;
  const int32_t inner = cut->n_rows - 1;
  candidate best = {0, -1};
  while (begin < end) {
    int64_t left = begin, offset = base;
    for (int32_t d = inner; d >= 0; left /= cut->rows[d--])
      offset += left % cut->rows[d] * cut->row_step[d];
    int64_t n = cut->rows[inner] - begin % cut->rows[inner];
    if (n > BOX) n = BOX;
    if (n > end - begin) n = end - begin;
    search_part(t, (const char *)t->call->in[0].data + offset * t->bytes,
                cut->row_step[inner], n, begin, &best);
    begin += n;
  }
  return best;
}

/* Returns the first element of line i. */
static int64_t find_line_start(const reduce_column_plan *cut, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = cut->n_kept - 1; d >= 0; i /= cut->kept[d--])
    offset += i % cut->kept[d] * cut->kept_step[d];
  return offset;
}

static int32_t lines_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const int64_t height = t->cut.height;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i % t->pieces * PIECE, left = height - first;
    const candidate best =
        search_line(t, find_line_start(&t->cut, i / t->pieces), first,
                    t->pieces > 1 && left > PIECE ? first + PIECE : height);
    if (t->pieces == 1)
      ((int64_t *)t->call->out[0].data)[i] = best.place;
    else
      ((candidate *)t->call->ws[0])[i] = best;
  }
  return TN_OK;
}

static int32_t run_lines(task *t) {
  const tn_frame *call = t->call;
  const int64_t lines = tn_tensor_size(&call->out[0]), height = t->cut.height;
  const candidate *all = call->n_ws > 0 ? (const candidate *)call->ws[0] : NULL;
  t->pieces = count_pieces(lines, height);
  const int32_t code = call->host->parallel_for(
      call, lines * t->pieces, height < PIECE / 4 ? PIECE / 4 / height : 1,
      lines_slice, t);
  if (code != TN_OK || t->pieces == 1) return code;
  for (int64_t i = 0; i < lines; ++i) {
    candidate best = all[i * t->pieces];
    for (int64_t k = 1; k < t->pieces; ++k)
      if (is_better(t, all[i * t->pieces + k].value, best.value))
        best = all[i * t->pieces + k];
    ((int64_t *)call->out[0].data)[i] = best.place;
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- columns */

/* Searches n columns; the first begins `base` elements after the input's
 * start. */
static void search_columns(const task *t, int64_t base, int64_t n,
                           int64_t *out) {
  TN_KERNEL_LINED uint64_t best[REDUCE_COLUMNS], row[REDUCE_COLUMNS];
  TN_KERNEL_LINED int64_t wide[REDUCE_COLUMNS] = {0};
  const reduce_column_plan *cut = &t->cut;
  const int64_t step = cut->kept_step[cut->n_kept - 1];
  const int direct = t->direct && step == 1;
  const char *at = (const char *)t->call->in[0].data + base * t->bytes;
  const int64_t row_distance = cut->row_step[0];
  ranks rows = {direct ? cut->height : 1, row_distance, 0, wide};
  for (int64_t r = 0; r < cut->height; ++r, at += row_distance * t->bytes) {
    const tn_kernel_line line = {(char *)(uintptr_t)at, step, n,
                                 t->call->in[0].dtype};
    const tn_kernel_block block = {n, best, {direct ? (const void *)at : row}};
    rows.first = r;
    if (r == 0) tn_kernel_load(best, &t->mode, &line);
    if (!direct) tn_kernel_load(row, &t->mode, &line);
    t->column(&block, &rows);
    if (direct) break;
  }
  for (int64_t j = 0; j < n; ++j)
    out[j] = t->mode.compute == TN_F32 ? ((int32_t *)(void *)wide)[j] : wide[j];
}

static int32_t columns_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const reduce_column_plan *cut = &t->cut;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = i % cut->blocks * REDUCE_COLUMNS;
    const int64_t left = cut->wide - first;
    const int64_t line = i / cut->blocks * cut->wide + first;
    search_columns(t, find_line_start(cut, line),
                   left < REDUCE_COLUMNS ? left : REDUCE_COLUMNS,
                   (int64_t *)t->call->out[0].data + line);
  }
  return TN_OK;
}

static int32_t run_search(const tn_frame *call, const extreme_search *search);

int32_t tensor_argmax(const tn_frame *call) {
  return run_search(call, &largest);
}

int32_t tensor_argmin(const tn_frame *call) {
  return run_search(call, &smallest);
}

/* ------------------------------------------------------------------- calls */

/* Reads the parameter `axis`, which both operators have, as a mask of axes. */
static int32_t read_axes(const tn_frame *call, uint32_t *axes) {
  const tensor_argmax_params *p = tensor_argmax_params_of(call);
  return reduce_read_axis(call, p->has_axis ? &p->axis : NULL, call->in[0].ndim,
                          axes);
}

static int32_t run_search(const tn_frame *call, const extreme_search *search) {
  task t;
  reduce_view view;
  uint32_t axes;
  const int32_t code = read_axes(call, &axes);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  init_task(&t, call, search);
  reduce_view_init(&view, &call->in[0], axes);
  const int columns = reduce_plan_columns(&view, &t.cut);
  if (!columns || t.cut.height > INT32_MAX) return run_lines(&t);
  const int64_t each = t.cut.height * t.cut.wide / t.cut.blocks;
  return call->host->parallel_for(call, t.cut.outer * t.cut.blocks,
                                  each < PIECE / 4 ? PIECE / 4 / (each + 1) : 1,
                                  columns_slice, &t);
}

int32_t tensor_arg_infer(const tn_frame *call) {
  uint32_t axes;
  if (call->in[0].ndim < 0) return TN_OK;
  int32_t code = read_axes(call, &axes);
  if (code == TN_OK) code = reduce_check_not_empty(call, axes, "place");
  return code == TN_OK
             ? reduce_infer_shape(call, axes,
                                  tensor_argmax_params_of(call)->keepdims)
             : code;
}

int32_t tensor_arg_bytes(const tn_frame *call, uint64_t *bytes) {
  const int64_t lines = tn_tensor_size(&call->out[0]);
  *bytes = 0;
  if (lines == 0) return TN_OK;
  const int64_t n = count_pieces(lines, tn_tensor_size(&call->in[0]) / lines);
  if (n > 1) *bytes = sizeof(candidate) * (uint64_t)(lines * n);
  return TN_OK;
}
