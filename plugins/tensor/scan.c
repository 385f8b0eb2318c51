/* SPDX-License-Identifier: Apache-2.0
 * scan.c: running sums and products on the CPU. Elements are converted to f64
 * or i64 in chunks, scanned, and converted back. Adjacent lines are scanned row
 * by row. Sums of a long line are computed in pieces: first the sum of each
 * piece, then every piece from the sum of those before it. A product of a piece
 * may overflow where the line has a 0, so a line of products is not cut.
 */
#include "scan.gen.h"

#include "move.h"
#include "tenon/kernel/kernel.h"

enum {
  CHUNK = 512,   /* elements that are converted together */
  COLUMNS = 256, /* adjacent lines that are scanned together */
  NARROW = 8,    /* fewer adjacent lines are scanned one by one */
  PIECE = 65536, /* elements of a piece of a long line */
  UNITS = 64     /* slices of the gradient, each with a workspace */
};

typedef union scan_number {
  double f64;
  uint64_t i64;
} scan_number;

typedef struct scan_args {
  const tn_frame *call;
  const tn_tensor *from;
  const tn_tensor *to;
  int64_t outer, n, inner;
  int64_t pieces;    /* of a line */
  scan_number *sums; /* of each piece of each line, if there are several */
  tn_dtype dtype;
  tn_kernel_mode mode; /* f64 or i64 */
  int exclusive;
  int reverse;
  int is_product;
} scan_args;

/* ------------------------------------------------------------------- chunks */

/* Sums of four elements at a time, so that additions do not wait for each
 * other. Returns the last one. */
#define SUMS(name, type)                                            \
  static type name(const type *x, int64_t n, type sum, type *out) { \
    int64_t i = 0;                                                  \
    for (; i + 4 <= n; i += 4) {                                    \
      const type two = x[i] + x[i + 1], three = two + x[i + 2];     \
      const type four = two + (x[i + 2] + x[i + 3]);                \
      out[i] = sum + x[i];                                          \
      out[i + 1] = sum + two;                                       \
      out[i + 2] = sum + three;                                     \
      out[i + 3] = sum = sum + four;                                \
    }                                                               \
    for (; i < n; ++i) out[i] = sum = sum + x[i];                   \
    return sum;                                                     \
  }
SUMS(scan_f64_sums, double)
SUMS(scan_i64_sums, uint64_t)

#define PRODUCTS(name, type)                                            \
  static type name(const type *x, int64_t n, type product, type *out) { \
    for (int64_t i = 0; i < n; ++i) out[i] = product = product * x[i];  \
    return product;                                                     \
  }
PRODUCTS(scan_f64_products, double)
PRODUCTS(scan_i64_products, uint64_t)

/* Elements as they are computed with. */
typedef union scan_chunk {
  double f64[CHUNK + 1];
  uint64_t i64[CHUNK + 1];
} scan_chunk;

/* Sets out[i + 1] to the result of elements 0 to i, and out[0] to `before`.
 * Returns the last result. */
static scan_number scan_elements(const scan_args *a, const scan_chunk *x,
                                 int64_t n, scan_number before,
                                 scan_chunk *out) {
  scan_number last;
  if (a->mode.compute == TN_F64) {
    out->f64[0] = before.f64;
    last.f64 = (a->is_product ? scan_f64_products : scan_f64_sums)(
        x->f64, n, before.f64, out->f64 + 1);
  } else {
    out->i64[0] = before.i64;
    last.i64 = (a->is_product ? scan_i64_products : scan_i64_sums)(
        x->i64, n, before.i64, out->i64 + 1);
  }
  return last;
}

static scan_number find_none(const scan_args *a) {
  scan_number none;
  if (a->mode.compute == TN_F64)
    none.f64 = a->is_product;
  else
    none.i64 = (uint64_t)a->is_product;
  return none;
}

/* -------------------------------------------------------------------- lines */

/* Elements [begin, begin + n) of line i, in the order of the scan. */
static tn_kernel_line find_part(const scan_args *a, const tn_tensor *tensor,
                                int64_t i, int64_t begin, int64_t n) {
  const int64_t first = i / a->inner * a->n * a->inner + i % a->inner;
  const int64_t place = a->reverse ? a->n - 1 - begin : begin;
  const int64_t at = (first + place * a->inner) * tn_dtype_bytes(a->dtype);
  return (tn_kernel_line){(char *)tensor->data + at,
                          a->reverse ? -a->inner : a->inner, n, a->dtype};
}

static int64_t find_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Scans elements [begin, end) of line i. Returns the last result. */
static scan_number scan_part(const scan_args *a, int64_t i, int64_t begin,
                             int64_t end, scan_number before) {
  scan_chunk in, out;
  const int first = !a->exclusive;
  for (int64_t at = begin; at < end; at += CHUNK) {
    const int64_t n = find_least(end - at, CHUNK);
    const tn_kernel_line from = find_part(a, a->from, i, at, n);
    tn_kernel_load(&in, &a->mode, &from);
    before = scan_elements(a, &in, n, before, &out);
    const tn_kernel_line to = find_part(a, a->to, i, at, n);
    tn_kernel_store(&to, &a->mode,
                    a->mode.compute == TN_F64 ? (const void *)(out.f64 + first)
                                              : out.i64 + first);
  }
  return before;
}

/* Adds n numbers to partial sums, each of every sixteenth number. */
enum { LANES = 16 };
static void add_numbers(const double *x, int64_t n, double *sums) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; ++j) sums[j] += x[i + j];
  for (int j = 0; i + j < n; ++j) sums[j] += x[i + j];
}

/* Adds all elements [begin, end) of line i. */
static scan_number sum_part(const scan_args *a, int64_t i, int64_t begin,
                            int64_t end) {
  scan_chunk in;
  double f64[LANES] = {0};
  scan_number sum = find_none(a);
  for (int64_t at = begin; at < end; at += CHUNK) {
    const int64_t n = find_least(end - at, CHUNK);
    const tn_kernel_line from = find_part(a, a->from, i, at, n);
    tn_kernel_load(&in, &a->mode, &from);
    if (a->mode.compute != TN_F64)
      for (int64_t k = 0; k < n; ++k) sum.i64 += in.i64[k];
    else
      add_numbers(in.f64, n, f64);
  }
  for (int j = 0; a->mode.compute == TN_F64 && j < LANES; ++j)
    sum.f64 += f64[j];
  return sum;
}

static int64_t find_piece_end(const scan_args *a, int64_t piece) {
  return find_least(a->n, (piece + 1) * PIECE);
}

static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t piece = k % a->pieces;
    a->sums[k] =
        sum_part(a, k / a->pieces, piece * PIECE, find_piece_end(a, piece));
  }
  return TN_OK;
}

/* Sums of the pieces become sums of all pieces before. */
static void add_sums(const scan_args *a) {
  scan_number sum = find_none(a);
  for (int64_t k = 0; k < a->outer * a->inner * a->pieces; ++k) {
    const scan_number own = a->sums[k];
    if (k % a->pieces == 0) sum = find_none(a);
    a->sums[k] = sum;
    if (a->mode.compute == TN_F64)
      sum.f64 += own.f64;
    else
      sum.i64 += own.i64;
  }
}

static int32_t piece_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t piece = k % a->pieces;
    (void)scan_part(a, k / a->pieces, piece * PIECE, find_piece_end(a, piece),
                    a->sums[k]);
  }
  return TN_OK;
}

static int32_t line_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  for (int64_t i = begin; i < end; ++i)
    (void)scan_part(a, i, 0, a->n, find_none(a));
  return TN_OK;
}

/* --------------------------------------------------------------------- rows */

#define ROW(name, type, operation)                                             \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *x = (const type *)block->in[0];                                \
    type *all = (type *)block->out;                                            \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) all[i] = all[i] operation x[i];     \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
ROW(row_f64_sums, double, +)
ROW(row_f64_products, double, *)
ROW(row_i64_sums, uint64_t, +)
ROW(row_i64_products, uint64_t, *)

static tn_kernel_body *find_row_body(const scan_args *a) {
  static const tn_kernel_bodies bodies[] = {
      TN_KERNEL_BODIES(row_f64_sums), TN_KERNEL_BODIES(row_f64_products),
      TN_KERNEL_BODIES(row_i64_sums), TN_KERNEL_BODIES(row_i64_products)};
  const int first = a->mode.compute == TN_F64 ? 0 : 2;
  return tn_kernel_body_at(&bodies[first + a->is_product], a->mode.level);
}

/* Scans n adjacent lines, from line i on. */
static void scan_columns(const scan_args *a, int64_t i, int64_t n) {
  scan_chunk row, all;
  const tn_kernel_block block = {n, &all, {&row}};
  tn_kernel_body *body = find_row_body(a);
  const scan_number none = find_none(a);
  for (int64_t c = 0; c < n; ++c) all.i64[c] = none.i64;
  for (int64_t r = 0; r < a->n; ++r) {
    tn_kernel_line from = find_part(a, a->from, i, r, n);
    tn_kernel_line to = find_part(a, a->to, i, r, n);
    from.stride = to.stride = 1;
    tn_kernel_load(&row, &a->mode, &from);
    if (a->exclusive) tn_kernel_store(&to, &a->mode, &all);
    body(&block, NULL);
    if (!a->exclusive) tn_kernel_store(&to, &a->mode, &all);
  }
}

static int32_t column_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  const int64_t blocks = (a->inner + COLUMNS - 1) / COLUMNS;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t first = k % blocks * COLUMNS;
    scan_columns(a, k / blocks * a->inner + first,
                 find_least(COLUMNS, a->inner - first));
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- calls */

/* The parameters of both operators. */
static int32_t init_args(scan_args *a, const tn_frame *call,
                         const tn_tensor *from) {
  const tensor_cumsum_params *p = tensor_cumsum_params_of(call);
  const tn_tensor *to = &call->out[0];
  int32_t axis;
  const int32_t code = tensor_axis(call, "axis", p->axis, to->ndim, &axis);
  memset(a, 0, sizeof *a);
  if (code != TN_OK) return code;
  a->call = call;
  a->from = from;
  a->to = to;
  a->n = to->shape[axis];
  a->outer = a->inner = 1;
  for (int32_t d = 0; d < to->ndim; ++d)
    if (d != axis) *(d < axis ? &a->outer : &a->inner) *= to->shape[d];
  a->dtype = tensor_sum_dtype(to->dtype);
  a->mode.compute = tensor_wide_dtype(a->dtype);
  a->mode.level = tn_kernel_level(call);
  a->exclusive = p->exclusive;
  a->reverse = p->reverse;
  return TN_OK;
}

/* Pieces of each line of sums. */
static int64_t count_pieces(const scan_args *a) {
  if (a->inner >= NARROW || a->n < 2 * PIECE) return 1;
  return (a->n + PIECE - 1) / PIECE;
}

static int64_t find_grain(int64_t each) {
  return each < TN_KERNEL_GRAIN / 4 ? TN_KERNEL_GRAIN / 4 / each : 1;
}

static int32_t run_scan(scan_args *a) {
  const tn_frame *call = a->call;
  const int64_t lines = a->outer * a->inner;
  if (lines * a->n == 0) return TN_OK;
  a->pieces = a->is_product ? 1 : count_pieces(a);
  if (a->pieces > 1) {
    a->sums = (scan_number *)call->ws[0];
    const int32_t code =
        call->host->parallel_for(call, lines * a->pieces, 1, sum_slice, a);
    if (code != TN_OK) return code;
    add_sums(a);
    return call->host->parallel_for(call, lines * a->pieces, 1, piece_slice, a);
  }
  if (a->inner < NARROW)
    return call->host->parallel_for(call, lines, find_grain(a->n), line_slice,
                                    a);
  const int64_t blocks = (a->inner + COLUMNS - 1) / COLUMNS;
  return call->host->parallel_for(
      call, a->outer * blocks, find_grain(a->n * find_least(a->inner, COLUMNS)),
      column_slice, a);
}

int32_t tensor_cumsum_bytes(const tn_frame *call, uint64_t *bytes) {
  scan_args a;
  *bytes = 0;
  const int32_t code = init_args(&a, call, NULL);
  if (code != TN_OK || count_pieces(&a) == 1) return code;
  *bytes = (uint64_t)(a.outer * a.inner * count_pieces(&a)) * sizeof *a.sums;
  return TN_OK;
}

int32_t tensor_cumsum(const tn_frame *call) {
  scan_args a;
  const int32_t code = init_args(&a, call, &call->in[0]);
  return code == TN_OK ? run_scan(&a) : code;
}

/* in = [gradient of out, data, out] */
int32_t tensor_cumsum_backward(const tn_frame *call) {
  scan_args a;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = init_args(&a, call, &call->in[0]);
  a.reverse = !a.reverse;
  return code == TN_OK ? run_scan(&a) : code;
}

int32_t tensor_cumprod(const tn_frame *call) {
  scan_args a;
  const int32_t code = init_args(&a, call, &call->in[0]);
  a.is_product = 1;
  return code == TN_OK ? run_scan(&a) : code;
}

/* ----------------------------------------------------- gradients of products
 */

typedef struct slope_args {
  scan_args scan;        /* of data, from the first element on */
  const tn_tensor *head; /* gradient of out */
  int64_t units;
  scan_number *products; /* n of each unit: those before each element */
} slope_args;

/* The products of the elements before each element of line i. */
static void write_products(const slope_args *s, int64_t i,
                           scan_number *products) {
  const scan_args *a = &s->scan;
  scan_number before = find_none(a);
  scan_chunk in, out;
  for (int64_t at = 0; at < a->n; at += CHUNK) {
    const int64_t n = find_least(a->n - at, CHUNK);
    const tn_kernel_line from = find_part(a, a->from, i, at, n);
    tn_kernel_load(&in, &a->mode, &from);
    before = scan_elements(a, &in, n, before, &out);
    memcpy(products + at, &out, (size_t)n * sizeof *products);
  }
}

/* Elements [0, n) of a chunk become gradients: `rest` is the gradient of the
 * product that ends before element i, divided by it. */
#define SLOPES(name, type, field)                                              \
  static type name(const scan_chunk *head, const scan_number *products,        \
                   scan_chunk *x, int64_t n, type rest, int exclusive) {       \
    for (int64_t k = 0; k < n; ++k) {                                          \
      const type product = products[-k].field;                                 \
      const type after = rest, own = rest + head->field[k];                    \
      rest =                                                                   \
          exclusive ? head->field[k] + x->field[k] * rest : x->field[k] * own; \
      x->field[k] = product * (exclusive ? after : own);                       \
    }                                                                          \
    return rest;                                                               \
  }
SLOPES(slope_f64, double, f64)
SLOPES(slope_i64, uint64_t, i64)

/* Goes from the end of line i to its beginning. */
static void write_slopes(const slope_args *s, int64_t i,
                         const scan_number *products) {
  scan_args back = s->scan;
  scan_number rest = {.i64 = 0};
  scan_chunk head, x;
  back.reverse = !back.reverse;
  for (int64_t at = 0; at < back.n; at += CHUNK) {
    const int64_t n = find_least(back.n - at, CHUNK);
    const scan_number *last = products + back.n - 1 - at;
    const tn_kernel_line heads = find_part(&back, s->head, i, at, n);
    const tn_kernel_line data = find_part(&back, back.from, i, at, n);
    const tn_kernel_line to = find_part(&back, back.to, i, at, n);
    tn_kernel_load(&head, &back.mode, &heads);
    tn_kernel_load(&x, &back.mode, &data);
    if (back.mode.compute == TN_F64)
      rest.f64 = slope_f64(&head, last, &x, n, rest.f64, back.exclusive);
    else
      rest.i64 = slope_i64(&head, last, &x, n, rest.i64, back.exclusive);
    tn_kernel_store(&to, &back.mode, &x);
  }
}

static int32_t slope_slice(void *arg, int64_t begin, int64_t end) {
  const slope_args *s = (const slope_args *)arg;
  const int64_t lines = s->scan.outer * s->scan.inner;
  for (int64_t unit = begin; unit < end; ++unit) {
    scan_number *products = s->products + unit * s->scan.n;
    for (int64_t i = unit * lines / s->units; i < (unit + 1) * lines / s->units;
         ++i) {
      write_products(s, i, products);
      write_slopes(s, i, products);
    }
  }
  return TN_OK;
}

/* A unit has at least 4096 elements, if there are enough. */
static int64_t count_units(const scan_args *a) {
  const int64_t lines = a->outer * a->inner;
  return find_least(find_least(lines, UNITS), lines * a->n / 4096 + 1);
}

int32_t tensor_cumprod_bytes(const tn_frame *call, uint64_t *bytes) {
  scan_args a;
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  const int32_t code = init_args(&a, call, NULL);
  if (code == TN_OK)
    *bytes = (uint64_t)(count_units(&a) * a.n) * sizeof(scan_number);
  return code;
}

/* in = [gradient of out, data, out] */
int32_t tensor_cumprod_backward(const tn_frame *call) {
  slope_args s = {.head = &call->in[TENSOR_CUMPROD_BACKWARD_GRAD_OUT]};
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code =
      init_args(&s.scan, call, &call->in[TENSOR_CUMPROD_BACKWARD_IN_DATA]);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  s.scan.is_product = 1;
  s.units = count_units(&s.scan);
  s.products = (scan_number *)call->ws[0];
  return call->host->parallel_for(call, s.units, 1, slope_slice, &s);
}
