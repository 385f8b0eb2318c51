/* SPDX-License-Identifier: Apache-2.0
 * move.c: move.h on the CPU. A copy is a walk over two operands; adjacent
 * dimensions are joined as far as both operands allow. If both are contiguous
 * along one dimension, it copies lines. If they are contiguous along different
 * ones, it transposes squares (transpose.h). Otherwise it copies single
 * elements.
 */
#include "move.h"

#include <string.h>

#include "tenon/kernel/copy_row.h"
#include "tenon/kernel/transpose.h"

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

/* Lines with fewer bytes are not worth a call of memcpy. */
enum { SHORT_LINE = 64 };

/* Prefetches the next line as well if it is long: the processor's own prefetch
 * ends at a page. */
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

/* The number of consecutive lines from a run on, along the dimension before the
 * last, in [index, end). */
static int64_t count_lines(const tn_kernel_walk *walk, const tn_kernel_run *run,
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
                     .n_lines = count_lines(walk, &run, end - begin),
                     .to_next = walk->stride[0][d],
                     .from_next = walk->stride[1][d]};
    copy_lines(&l, walk->bytes[0]);
    begin += l.n_lines * l.n;
  }
  return TN_OK;
}

/* -------------------------------------------------------------- transposes */

/* Rows of `to` in one slice, so many that columns of `from` are long enough for
 * prefetching, or fewer if there would be few slices; and columns in one
 * step. */
enum { TURN_ROWS = 128, TURN_FEW = 32, TURN_SLICES = 16, TURN_COLUMNS = 128 };

/* A copy between operands that are contiguous along different dimensions. */
typedef struct transposition {
  const tn_kernel_walk *walk;
  int32_t rows;   /* the dimension that is contiguous in `from`; in `to` it is
                     the last */
  int64_t height; /* rows of a block */
  int64_t blocks; /* number of blocks of rows */
  tn_transpose_fn *turn;
} transposition;

/* Whether squares can be transposed, and along which dimension of the walk. */
static int find_transposition(const tn_kernel_walk *walk, int32_t *rows) {
  const int32_t last = walk->ndim - 1;
  if (walk->stride[0][last] != 1 || walk->stride[1][last] == 1 ||
      walk->stride[1][last] == 0 || walk->shape[last] < 4)
    return 0;
  for (*rows = 0; *rows < last; ++*rows)
    if (walk->stride[1][*rows] == 1 && walk->shape[*rows] >= 4) return 1;
  return 0;
}

/* Transposes block `index` of rows. */
static void transpose_block(const transposition *t, int64_t index) {
  const tn_kernel_walk *walk = t->walk;
  const int32_t last = walk->ndim - 1;
  const int64_t first = index % t->blocks * t->height;
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
    const tn_transpose part = {
        .to = walk->data[0] + (to + i) * walk->bytes[0],
        .from =
            walk->data[1] + (from + i * walk->stride[1][last]) * walk->bytes[1],
        .to_stride = walk->stride[0][t->rows],
        .from_stride = walk->stride[1][last],
        .n_rows = left_rows < t->height ? left_rows : t->height,
        .n_columns = n < TURN_COLUMNS ? n : TURN_COLUMNS};
    t->turn(&part);
  }
}

static int32_t transpose_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    transpose_block((const transposition *)arg, i);
  return TN_OK;
}

static int32_t run_transposition(const tn_frame *call, transposition *t) {
  const tn_kernel_walk *walk = t->walk;
  const int32_t last = walk->ndim - 1;
  const int64_t rows = walk->size / walk->shape[last];
  t->turn = tn_transpose_of(walk->bytes[0], tn_kernel_level(call));
  t->height = rows < TURN_SLICES * TURN_ROWS ? TURN_FEW : TURN_ROWS;
  t->blocks = (walk->shape[t->rows] + t->height - 1) / t->height;
  const int64_t n = rows / walk->shape[t->rows] * t->blocks;
  const int64_t each = t->height * walk->shape[last];
  const int64_t grain = each < TN_KERNEL_GRAIN ? TN_KERNEL_GRAIN / each : 1;
  return call->host->parallel_for(call, n, grain, transpose_slice, t);
}

/* ------------------------------------------------------------------ copies */

static int32_t init_walk(const tn_frame *call, tn_kernel_walk *walk,
                         const tn_tensor *to, const tn_tensor *from) {
  tn_kernel_walk_init(walk, to);
  if (!tn_kernel_walk_add(walk, from))
    return TN_FAIL(call, TN_INTERNAL, "views of different shapes: %s and %s",
                   tensor_shape_text(to->ndim, to->shape).text,
                   tensor_shape_text(from->ndim, from->shape).text);
  if (walk->size > 0) tn_kernel_walk_begin(walk);
  return TN_OK;
}

static int32_t walk_copy(const tn_frame *call, tn_kernel_walk *walk) {
  transposition t = {.walk = walk};
  if (walk->size == 0) return TN_OK;
  if (find_transposition(walk, &t.rows)) return run_transposition(call, &t);
  if (walk->size <= TN_KERNEL_GRAIN) return lines_slice(walk, 0, walk->size);
  return call->host->parallel_for(call, walk->size, TN_KERNEL_GRAIN,
                                  lines_slice, walk);
}

int32_t tensor_copy(const tn_frame *call, const tn_tensor *to,
                    const tn_tensor *from) {
  tn_kernel_walk walk;
  const int32_t code = init_walk(call, &walk, to, from);
  return code == TN_OK ? walk_copy(call, &walk) : code;
}

/* ----------------------------------------------------------------- stripes */

enum {
  STRIPES = 8,            /* pieces in one copy */
  NARROW = 1024,          /* elements of the smallest piece worth it */
  LINES = 16,             /* least number of lines, enough for all workers */
  LONG_LINE = 65536,      /* bytes from which memcpy is faster */
  FORCED_LONG_LINE = 1024 /* the same if memcpy copies the lines anyway */
};

/* A piece: lines of at least SHORT_LINE bytes, contiguous in both operands; the
 * distances of lines are in bytes. */
typedef struct stripe {
  char *to;
  const char *from;
  int64_t bytes;
  int64_t to_next, from_next;
} stripe;

/* Pieces of the same lines. */
typedef struct stripes {
  stripe each[STRIPES];
  int32_t n;
  uint32_t level;
  int64_t n_lines;
  int64_t line; /* bytes of all */
} stripes;

/* Adds a piece to the stripes; returns 0 if its lines differ, or if it is
 * faster alone. */
static int add_stripe_piece(stripes *s, const tn_kernel_walk *walk) {
  if (s->n == STRIPES || walk->size < NARROW || walk->ndim != 2 ||
      walk->stride[0][1] != 1 || walk->stride[1][1] != 1)
    return 0;
  const int64_t bytes = walk->shape[1] * walk->bytes[0];
  const int64_t most = s->level > 0 ? LONG_LINE : FORCED_LONG_LINE;
  if (bytes < SHORT_LINE || bytes >= most || walk->shape[0] < LINES ||
      (s->n > 0 && walk->shape[0] != s->n_lines))
    return 0;
  s->each[s->n++] = (stripe){walk->data[0], walk->data[1], bytes,
                             walk->stride[0][0] * walk->bytes[0],
                             walk->stride[1][0] * walk->bytes[1]};
  s->n_lines = walk->shape[0];
  s->line += bytes;
  return 1;
}

static inline void next_line(stripe *s) {
  s->to += s->to_next;
  s->from += s->from_next;
}

#if TN_COPY_ROW_VECTORS
#define COPY_STRIPES(name, target, copy)                            \
  static target void name(stripes *s, int64_t n_lines) {            \
    for (int64_t i = 0; i < n_lines; ++i)                           \
      for (stripe *each = s->each; each < s->each + s->n; ++each) { \
        copy(each->to, each->from, NULL, each->bytes);              \
        next_line(each);                                            \
      }                                                             \
  }
COPY_STRIPES(copy_wide, TN_KERNEL_AVX512, tn_copy_row_avx512)
COPY_STRIPES(copy_half, TN_KERNEL_AVX2, tn_copy_row_avx2)
#endif

static int32_t stripes_slice(void *arg, int64_t begin, int64_t end) {
  stripes own = *(const stripes *)arg;
  for (int32_t k = 0; k < own.n; ++k) {
    own.each[k].to += begin * own.each[k].to_next;
    own.each[k].from += begin * own.each[k].from_next;
  }
#if TN_COPY_ROW_VECTORS
  if (own.level > 0) {
    (own.level == TN_KERNEL_N_LEVELS - 1 ? copy_wide : copy_half)(&own,
                                                                  end - begin);
    return TN_OK;
  }
#endif
  for (int64_t i = begin; i < end; ++i)
    for (stripe *each = own.each; each < own.each + own.n; ++each) {
      memcpy(each->to, each->from, (size_t)each->bytes);
      next_line(each);
    }
  return TN_OK;
}

static int32_t run_stripes(const tn_frame *call, stripes *s) {
  enum { GRAIN = 4 * TN_KERNEL_GRAIN }; /* bytes */
  if (s->n_lines * s->line <= GRAIN) return stripes_slice(s, 0, s->n_lines);
  return call->host->parallel_for(call, s->n_lines,
                                  s->line < GRAIN ? GRAIN / s->line : 1,
                                  stripes_slice, s);
}

/* Copies as many large pieces with the same lines as there are, or else one;
 * *done is their number. */
static int32_t copy_elements(const tn_frame *call, uint32_t n,
                             const tensor_piece *pieces, uint32_t *done) {
  stripes s = {.level = tn_kernel_level(call)};
  tn_kernel_walk walk;
  int32_t code = TN_OK;
  for (*done = 0; *done < n; ++*done) {
    code = init_walk(call, &walk, pieces[*done].to, pieces[*done].from);
    if (code != TN_OK || !add_stripe_piece(&s, &walk)) break;
  }
  if (code != TN_OK) return code;
  if (*done > 1) return run_stripes(call, &s);
  if (*done == 1) return tensor_copy(call, pieces->to, pieces->from);
  *done = 1;
  return walk_copy(call, &walk);
}

int32_t tensor_copy_pieces(const tn_frame *call, uint32_t n,
                           const tensor_piece *pieces) {
  int32_t code = TN_OK;
  for (uint32_t k = 0, done = 1; k < n && code == TN_OK; k += done) {
    done = 1;
    if (tn_tensor_size(pieces[k].to) < NARROW)
      code = tensor_copy(call, pieces[k].to, pieces[k].from);
    else
      code = copy_elements(call, n - k, pieces + k, &done);
  }
  return code;
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

/* -------------------------------------------------------------------- sums */

enum { SUM_PART = 256 };

typedef struct summing {
  tn_kernel_walk walk; /* `to`, and the first term of each sum */
  const tn_tensor *from;
  int32_t n_axes;
  int64_t n_terms;
  tn_kernel_mode mode;
  tn_dtype dtype;
} summing;

/* Returns the distance from the first term to a term, in elements. */
static int64_t find_term(const summing *s, int64_t term) {
  int64_t offset = 0;
  for (int32_t d = s->n_axes; d-- > 0; term /= s->from->shape[d])
    offset += term % s->from->shape[d] * s->from->strides[d];
  return offset;
}

/* Computes the sums of a run of at most SUM_PART elements. */
static void sum_elements(const summing *s, const tn_kernel_run *run) {
  TN_KERNEL_LINED uint64_t sums[SUM_PART] = {0}, row[SUM_PART];
  for (int64_t term = 0; term < s->n_terms; ++term) {
    const tn_kernel_line line = {
        run->at[1] + find_term(s, term) * s->walk.bytes[1], run->stride[1],
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
    sum_elements(s, &run);
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
  if (s.n_terms == 0) return tensor_fill_zeros(call, to);
  tn_kernel_walk_begin(&s.walk);
  return call->host->parallel_for(call, s.walk.size, TN_KERNEL_GRAIN, sum_slice,
                                  &s);
}

/* --------------------------------------------------- wide elements, ranges */

/* A walk over two operands, and the types of their elements. */
typedef struct conversion {
  tn_kernel_walk walk;
  tn_kernel_mode mode;
  tn_dtype to, from;
} conversion;

static int32_t convert_elements(const tn_frame *call, conversion *c,
                                const tn_tensor *to, const tn_tensor *from,
                                tn_loop_body *slice) {
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
  const conversion *c = (const conversion *)arg;
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
  conversion c;
  return convert_elements(call, &c, to, from, convert_slice);
}

static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const conversion *c = (const conversion *)arg;
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
  conversion c;
  return convert_elements(call, &c, to, from, add_slice);
}

/* Elements of a counting array, written in parts. */
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
    tn_kernel_store_dense(to, c->to->dtype, value, &c->mode, n);
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
