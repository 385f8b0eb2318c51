/* SPDX-License-Identifier: Apache-2.0
 * move.c: move.h on the CPU. A copy is a walk over two operands, whose
 * dimensions have been joined as far as both allow. Where both have lines side
 * by side, lines are copied; where each has another dimension side by side,
 * squares are turned (turn.h); otherwise elements go one by one.
 */
#include "move.h"

#include <string.h>

#include "tenon/turn.h"

/* ------------------------------------------------------------------- lines */

/* n_lines lines of n elements; strides in elements. */
typedef struct lines {
  char *to;
  const char *from;
  int64_t n;
  int64_t to_step, from_step; /* along a line */
  int64_t n_lines;
  int64_t to_next, from_next; /* between lines */
} lines;

/* Lines shorter than that (in bytes) are not worth a call of memcpy. */
enum { SHORT_LINE = 64 };

/* Asks for the next line as well if it is long: the processor by itself does
 * not look beyond a page. */
static inline void copy_line(void *to, const void *next_to, const void *from,
                             const void *next_from, int64_t bytes) {
  enum { LEAST = 1024, MOST = 4096, LINE = 64 };
  for (int64_t i = 0; bytes >= LEAST && i < bytes && i < MOST; i += LINE) {
    __builtin_prefetch((const char *)next_to + i, 1);
    __builtin_prefetch((const char *)next_from + i, 0);
  }
  memcpy(to, from, (size_t)bytes);
}

#define COPY_LINES(name, type)                                    \
  static void name(const lines *l) {                              \
    for (int64_t k = 0; k < l->n_lines; ++k) {                    \
      type *to = (type *)(void *)l->to + k * l->to_next;          \
      const type *from =                                          \
          (const type *)(const void *)l->from + k * l->from_next; \
      if (l->to_step == 1 && l->from_step == 0)                   \
        for (int64_t i = 0; i < l->n; ++i) to[i] = *from;         \
      else if (l->to_step != 1 || l->from_step != 1)              \
        for (int64_t i = 0; i < l->n; ++i)                        \
          to[i * l->to_step] = from[i * l->from_step];            \
      else if (l->n * (int64_t)sizeof(type) < SHORT_LINE)         \
        for (int64_t i = 0; i < l->n; ++i) to[i] = from[i];       \
      else                                                        \
        copy_line(to, to + l->to_next, from, from + l->from_next, \
                  l->n * (int64_t)sizeof(type));                  \
    }                                                             \
  }
COPY_LINES(copy_8, uint8_t)
COPY_LINES(copy_16, uint16_t)
COPY_LINES(copy_32, uint32_t)
COPY_LINES(copy_64, uint64_t)

static void copy_lines(const lines *l, int64_t bytes) {
  if (bytes == 1)
    copy_8(l);
  else if (bytes == 2)
    copy_16(l);
  else if (bytes == 4)
    copy_32(l);
  else
    copy_64(l);
}

/* As many lines as follow one another from a run on, along the dimension in
 * front of the last, in [index, end). */
static int64_t lines_from(const tn_kernel_walk *walk, const tn_kernel_run *run,
                          int64_t left) {
  const int32_t d = walk->ndim - 2;
  if (d < 0 || run->n < walk->shape[d + 1] || left < 2 * run->n) return 1;
  const int64_t most = walk->shape[d] - run->place[d];
  return left / run->n < most ? left / run->n : most;
}

static int32_t lines_slice(void *arg, int64_t begin, int64_t end) {
  const tn_kernel_walk *walk = (const tn_kernel_walk *)arg;
  const int32_t d = walk->ndim > 1 ? walk->ndim - 2 : 0;
  while (begin < end) {
    tn_kernel_run run;
    tn_kernel_walk_run(walk, begin, end, &run);
    const lines l = {.to = run.at[0],
                     .from = run.at[1],
                     .n = run.n,
                     .to_step = run.stride[0],
                     .from_step = run.stride[1],
                     .n_lines = lines_from(walk, &run, end - begin),
                     .to_next = walk->stride[0][d],
                     .from_next = walk->stride[1][d]};
    copy_lines(&l, walk->bytes[0]);
    begin += l.n_lines * l.n;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- turns */

/* Rows of `to` that a slice turns, and columns that it turns at a time: what is
 * written then fits into the first cache. */
enum { TURN_ROWS = 32, TURN_COLUMNS = 256 };

/* A copy whose operands have different dimensions side by side. */
typedef struct turning {
  tn_kernel_walk walk;
  int32_t rows;   /* the dimension that is side by side in `from`; in `to` it is
                     the last */
  int64_t blocks; /* of rows */
  tn_turn_fn *turn;
} turning;

/* Whether squares can be turned, and along which dimension of the walk. */
static int find_turn(const tn_kernel_walk *walk, int32_t *rows) {
  const int32_t last = walk->ndim - 1;
  if (walk->stride[0][last] != 1 || walk->stride[1][last] == 1 ||
      walk->stride[1][last] == 0 || walk->shape[last] < 4)
    return 0;
  for (*rows = 0; *rows < last; ++*rows)
    if (walk->stride[1][*rows] == 1 && walk->shape[*rows] >= 4) return 1;
  return 0;
}

/* Block `index` of rows. */
static void turn_block(const turning *t, int64_t index) {
  const tn_kernel_walk *walk = &t->walk;
  const int32_t last = walk->ndim - 1;
  const int64_t first = index % t->blocks * TURN_ROWS;
  const int64_t left_rows = walk->shape[t->rows] - first;
  int64_t left = index / t->blocks;
  int64_t to = first * walk->stride[0][t->rows], from = first;
  for (int32_t d = last; d-- > 0;) {
    if (d == t->rows) continue;
    const int64_t place = left % walk->shape[d];
    to += place * walk->stride[0][d];
    from += place * walk->stride[1][d];
    left /= walk->shape[d];
  }
  for (int64_t i = 0; i < walk->shape[last]; i += TURN_COLUMNS) {
    const int64_t n = walk->shape[last] - i;
    const tn_turn part = {
        .to = walk->data[0] + (to + i) * walk->bytes[0],
        .from =
            walk->data[1] + (from + i * walk->stride[1][last]) * walk->bytes[1],
        .to_stride = walk->stride[0][t->rows],
        .from_stride = walk->stride[1][last],
        .n_rows = left_rows < TURN_ROWS ? left_rows : TURN_ROWS,
        .n_columns = n < TURN_COLUMNS ? n : TURN_COLUMNS};
    t->turn(&part);
  }
}

static int32_t turn_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) turn_block((const turning *)arg, i);
  return TN_OK;
}

static int32_t run_turns(const tn_frame *call, turning *t) {
  const tn_kernel_walk *walk = &t->walk;
  const int32_t last = walk->ndim - 1;
  const int64_t each = TURN_ROWS * walk->shape[last];
  t->turn = tn_turn_of(walk->bytes[0], tn_kernel_level(call));
  t->blocks = (walk->shape[t->rows] + TURN_ROWS - 1) / TURN_ROWS;
  const int64_t n =
      walk->size / walk->shape[last] / walk->shape[t->rows] * t->blocks;
  const int64_t grain = each < TN_KERNEL_GRAIN ? TN_KERNEL_GRAIN / each : 1;
  return call->host->parallel_for(call, n, grain, turn_slice, t);
}

/* ------------------------------------------------------------------- copies */

int32_t tensor_copy(const tn_frame *call, const tn_tensor *to,
                    const tn_tensor *from) {
  turning t;
  tn_kernel_walk_init(&t.walk, to);
  if (!tn_kernel_walk_add(&t.walk, from))
    return TN_FAIL(call, TN_INTERNAL, "views of different shapes: %s and %s",
                   tensor_shape_text(to->ndim, to->shape).text,
                   tensor_shape_text(from->ndim, from->shape).text);
  if (t.walk.size == 0) return TN_OK;
  tn_kernel_walk_begin(&t.walk);
  if (find_turn(&t.walk, &t.rows)) return run_turns(call, &t);
  if (t.walk.size <= TN_KERNEL_GRAIN)
    return lines_slice(&t.walk, 0, t.walk.size);
  return call->host->parallel_for(call, t.walk.size, TN_KERNEL_GRAIN,
                                  lines_slice, &t.walk);
}

int32_t tensor_fill(const tn_frame *call, const tn_tensor *to,
                    const void *element) {
  tn_tensor one = *to;
  int64_t none = 0;
  one.data = (void *)(uintptr_t)element; /* only read */
  one.ndim = 0;
  one.shape = one.strides = &none;
  return tensor_copy(call, to, &one);
}

/* --------------------------------------------------------------------- sums
 */

enum { SUM_PART = 256 };

typedef struct summing {
  tn_kernel_walk walk; /* `to`, and the first of the elements that are summed */
  const tn_tensor *from;
  int32_t n_axes;
  int64_t n_terms;
  tn_kernel_mode mode;
  tn_dtype dtype;
} summing;

/* How far from the first term a term lies, in elements. */
static int64_t term_at(const summing *s, int64_t term) {
  int64_t offset = 0;
  for (int32_t d = s->n_axes; d-- > 0; term /= s->from->shape[d])
    offset += term % s->from->shape[d] * s->from->strides[d];
  return offset;
}

/* The sums of a run of at most SUM_PART elements. */
static void sum_run(const summing *s, const tn_kernel_run *run) {
  TN_KERNEL_LINED uint64_t sums[SUM_PART] = {0}, row[SUM_PART];
  for (int64_t term = 0; term < s->n_terms; ++term) {
    const tn_kernel_line line = {
        run->at[1] + term_at(s, term) * s->walk.bytes[1], run->stride[1],
        run->n, s->dtype};
    tn_kernel_load(row, &s->mode, &line);
    tn_kernel_add_dense(sums, row, &s->mode, run->n);
  }
  const tn_kernel_line to = {run->at[0], run->stride[0], run->n, s->dtype};
  tn_kernel_store(&to, &s->mode, sums);
}

static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const summing *s = (const summing *)arg;
  while (begin < end) {
    tn_kernel_run run;
    const int64_t most = end - begin < SUM_PART ? end : begin + SUM_PART;
    tn_kernel_walk_run(&s->walk, begin, most, &run);
    sum_run(s, &run);
    begin += run.n;
  }
  return TN_OK;
}

int32_t tensor_sum_front(const tn_frame *call, const tn_tensor *to,
                         const tn_tensor *from, int32_t n_axes) {
  summing s = {.from = from, .n_axes = n_axes, .n_terms = 1};
  s.dtype = tensor_sum_dtype(to->dtype);
  tensor_view first;
  for (int32_t d = 0; d < n_axes; ++d) s.n_terms *= from->shape[d];
  tensor_view_init(&first, from);
  first.tensor.ndim -= n_axes;
  first.tensor.shape += n_axes;
  first.tensor.strides += n_axes;
  s.mode.compute = tensor_wide_dtype(to->dtype);
  s.mode.level = tn_kernel_level(call);
  tn_kernel_walk_init(&s.walk, to);
  if (!tn_kernel_walk_add(&s.walk, &first.tensor))
    return TN_FAIL(call, TN_INTERNAL, "views of different shapes");
  if (s.walk.size == 0) return TN_OK;
  tn_kernel_walk_begin(&s.walk);
  return call->host->parallel_for(call, s.walk.size, TN_KERNEL_GRAIN, sum_slice,
                                  &s);
}

/* -------------------------------------------------------- wide elements,
 * ranges
 */

/* A walk over two operands, and the types of their elements. */
typedef struct crossing {
  tn_kernel_walk walk;
  tn_kernel_mode mode;
  tn_dtype to, from;
} crossing;

static int32_t cross(const tn_frame *call, crossing *c, const tn_tensor *to,
                     const tn_tensor *from, tn_loop_body *slice) {
  c->mode.compute = tensor_wide_dtype(to->dtype);
  c->mode.level = tn_kernel_level(call);
  c->to = tensor_sum_dtype(to->dtype);
  c->from = tensor_sum_dtype(from->dtype);
  tn_kernel_walk_init(&c->walk, to);
  if (!tn_kernel_walk_add(&c->walk, from))
    return TN_FAIL(call, TN_INTERNAL, "views of different shapes");
  if (c->walk.size == 0) return TN_OK;
  tn_kernel_walk_begin(&c->walk);
  return call->host->parallel_for(call, c->walk.size, TN_KERNEL_GRAIN, slice,
                                  c);
}

static int32_t convert_slice(void *arg, int64_t begin, int64_t end) {
  const crossing *c = (const crossing *)arg;
  while (begin < end) {
    TN_KERNEL_LINED uint64_t row[TN_KERNEL_STAGE];
    tn_kernel_run run;
    const int64_t most =
        end - begin < TN_KERNEL_STAGE ? end : begin + TN_KERNEL_STAGE;
    tn_kernel_walk_run(&c->walk, begin, most, &run);
    const tn_kernel_line to = {run.at[0], run.stride[0], run.n, c->to};
    const tn_kernel_line from = {run.at[1], run.stride[1], run.n, c->from};
    tn_kernel_load(row, &c->mode, &from);
    tn_kernel_store(&to, &c->mode, row);
    begin += run.n;
  }
  return TN_OK;
}

int32_t tensor_convert(const tn_frame *call, const tn_tensor *to,
                       const tn_tensor *from) {
  crossing c;
  return cross(call, &c, to, from, convert_slice);
}

static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const crossing *c = (const crossing *)arg;
  while (begin < end) {
    tn_kernel_run run;
    tn_kernel_walk_run(&c->walk, begin, end, &run);
    const int64_t to = run.stride[0], from = run.stride[1];
    for (int64_t i = 0; c->to == TN_F64 && i < run.n; ++i)
      ((double *)(void *)run.at[0])[i * to] +=
          ((const double *)(const void *)run.at[1])[i * from];
    for (int64_t i = 0; c->to != TN_F64 && i < run.n; ++i)
      ((uint64_t *)(void *)run.at[0])[i * to] +=
          ((const uint64_t *)(const void *)run.at[1])[i * from];
    begin += run.n;
  }
  return TN_OK;
}

int32_t tensor_add(const tn_frame *call, const tn_tensor *to,
                   const tn_tensor *from) {
  crossing c;
  return cross(call, &c, to, from, add_slice);
}

/* Elements of an array that count, which are made some at a time. */
typedef struct counting {
  const tn_tensor *to;
  tensor_range range;
  tn_kernel_mode mode;
} counting;

static int32_t count_slice(void *arg, int64_t begin, int64_t end) {
  enum { PART = 256 };
  const counting *c = (const counting *)arg;
  const int64_t bytes = tn_dtype_bytes(c->to->dtype);
  for (int64_t i = begin; i < end; i += PART) {
    double value[PART];
    const int64_t n = end - i < PART ? end - i : PART;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t steps = (i + k) / c->range.repeat;
      value[k] = c->range.begin + (double)steps * c->range.step;
    }
    char *to = (char *)c->to->data + i * bytes;
    if (c->to->dtype != TN_U64)
      tn_kernel_store_dense(to, c->to->dtype, value, &c->mode, n);
    for (int64_t k = 0; c->to->dtype == TN_U64 && k < n; ++k) {
      const tensor_element e = tensor_element_of(value[k], TN_U64);
      memcpy(to + k * bytes, &e, 8);
    }
  }
  return TN_OK;
}

int32_t tensor_count(const tn_frame *call, const tn_tensor *to,
                     const tensor_range *range) {
  counting c = {to, *range, {TN_F64, tn_kernel_level(call)}};
  const int64_t n = tn_tensor_size(to);
  if (n == 0) return TN_OK;
  return call->host->parallel_for(call, n, TN_KERNEL_GRAIN, count_slice, &c);
}
