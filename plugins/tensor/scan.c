/* SPDX-License-Identifier: Apache-2.0
 * scan.c: running sums and products on the CPU. Elements are converted to f64
 * or i64 in chunks, scanned, and converted back. Adjacent lines are scanned row
 * by row. Sums of a long line are computed in pieces: first the sum of each
 * piece, then every piece from the sum of those before it; at once if these are
 * known already. A product of a piece
 * may overflow where the line has a 0, so a line of products is not cut.
 */
#include "scan.h"

#include <stdatomic.h>

#include "scan.gen.h"
#include "scan_loops.h"

enum {
  COLUMNS = 256,       /* adjacent lines that are scanned together */
  WIDE_COLUMNS = 1024, /* of f32: the processor prefetches long rows */
  NARROW = 8,          /* fewer adjacent lines are scanned one by one */
  PIECE = 65536        /* elements of a piece of a long line */
};

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
SUMS(scan_i64_sums, uint64_t)

static double scan_f64_sums(const scan_args *a, const double *x, int64_t n,
                            double sum, double *out) {
  static const tn_kernel_bodies bodies = TN_KERNEL_BODIES(scan_sums_f64);
  const tn_kernel_block block = {n, out, {x}};
  scan_sum_args args = {0, sum};
  tn_kernel_body_at(&bodies, a->mode.level)(&block, &args);
  return args.sum;
}

#define PRODUCTS(name, type)                                            \
  static type name(const type *x, int64_t n, type product, type *out) { \
    for (int64_t i = 0; i < n; ++i) out[i] = product = product * x[i];  \
    return product;                                                     \
  }
PRODUCTS(scan_f64_products, double)
PRODUCTS(scan_i64_products, uint64_t)

scan_number scan_elements(const scan_args *a, const scan_chunk *x, int64_t n,
                          scan_number before, scan_chunk *out) {
  scan_number last;
  if (a->mode.compute == TN_F64) {
    out->f64[0] = before.f64;
    last.f64 = a->is_product
                   ? scan_f64_products(x->f64, n, before.f64, out->f64 + 1)
                   : scan_f64_sums(a, x->f64, n, before.f64, out->f64 + 1);
  } else {
    out->i64[0] = before.i64;
    last.i64 = (a->is_product ? scan_i64_products : scan_i64_sums)(
        x->i64, n, before.i64, out->i64 + 1);
  }
  return last;
}

scan_number scan_find_none(const scan_args *a) {
  scan_number none;
  if (a->mode.compute == TN_F64)
    none.f64 = a->is_product;
  else
    none.i64 = (uint64_t)a->is_product;
  return none;
}

/* -------------------------------------------------------------------- lines */

tn_kernel_line scan_find_part(const scan_args *a, const tn_tensor *tensor,
                              int64_t i, int64_t begin, int64_t n) {
  const int64_t first = i / a->inner * a->n * a->inner + i % a->inner;
  const int64_t place = a->reverse ? a->n - 1 - begin : begin;
  const int64_t at = (first + place * a->inner) * tn_dtype_bytes(a->dtype);
  return (tn_kernel_line){(char *)tensor->data + at,
                          a->reverse ? -a->inner : a->inner, n, a->dtype};
}

/* Elements [begin, end) of line i; `base` is the result of those before. */
typedef struct scan_range {
  int64_t i, begin, end;
  scan_number base;
} scan_range;

static scan_number add_number(const scan_args *a, scan_number x,
                              scan_number y) {
  if (a->mode.compute == TN_F64)
    x.f64 += y.f64;
  else
    x.i64 += y.i64;
  return x;
}

/* Sums of f32 without copies. */
static scan_number scan_f32_range(const scan_args *a, const scan_range *r) {
  static const tn_kernel_bodies bodies = TN_KERNEL_BODIES(scan_sums_f32);
  const int64_t n = r->end - r->begin;
  const tn_kernel_line from = scan_find_part(a, a->from, r->i, r->begin, n);
  const tn_kernel_line to = scan_find_part(a, a->to, r->i, r->begin, n);
  const tn_kernel_block block = {n, to.at, {from.at}};
  scan_sum_args args = {r->base.f64, 0};
  tn_kernel_body_at(&bodies, a->mode.level)(&block, &args);
  return (scan_number){.f64 = args.sum};
}

/* Scans a range, and writes its results, or finds its own one alone. Returns
 * that, without the base. */
static scan_number scan_range_of(const scan_args *a, const scan_range *r,
                                 int writes) {
  scan_chunk in, out;
  const int first = !a->exclusive;
  scan_number own = scan_find_none(a);
  if (writes && a->dtype == TN_F32 && a->inner == 1 && !a->reverse &&
      !a->exclusive && !a->is_product)
    return scan_f32_range(a, r);
  for (int64_t at = r->begin; at < r->end; at += SCAN_CHUNK) {
    const int64_t n = scan_find_least(r->end - at, SCAN_CHUNK);
    const tn_kernel_line from = scan_find_part(a, a->from, r->i, at, n);
    tn_kernel_load(&in, &a->mode, &from);
    own = scan_elements(a, &in, n, own, &out);
    if (!writes) continue;
    for (int64_t k = 0; a->pieces > 1 && k <= n; ++k) {
      const scan_number x = {.i64 = out.i64[k]};
      out.i64[k] = add_number(a, r->base, x).i64;
    }
    const tn_kernel_line to = scan_find_part(a, a->to, r->i, at, n);
    tn_kernel_store(&to, &a->mode,
                    a->mode.compute == TN_F64 ? (const void *)(out.f64 + first)
                                              : out.i64 + first);
  }
  return own;
}

static int64_t find_piece_end(const scan_args *a, int64_t piece) {
  return scan_find_least(a->n, (piece + 1) * PIECE);
}

/* Piece k of all lines. */
static scan_range find_piece(const scan_args *a, int64_t k, scan_number base) {
  const int64_t piece = k % a->pieces;
  return (scan_range){k / a->pieces, piece * PIECE, find_piece_end(a, piece),
                      base};
}

/* The states of a piece. */
enum { WAITING, DONE };

/* Finds the sum of a piece, and its results if the sum of the pieces before is
 * known. One thread that computes all pieces needs no second pass. */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  for (int64_t k = begin; k < end; ++k) {
    scan_piece_sum *own = &a->sums[k];
    scan_range range = find_piece(a, k, scan_find_none(a));
    const int writes =
        k % a->pieces == 0 ||
        atomic_load_explicit(&own[-1].state, memory_order_acquire) == DONE;
    if (writes && k % a->pieces > 0) range.base = own[-1].all;
    own->sum = scan_range_of(a, &range, writes);
    if (!writes) continue;
    own->all = add_number(a, range.base, own->sum);
    atomic_store_explicit(&own->state, DONE, memory_order_release);
  }
  return TN_OK;
}

/* Adds the sums of pieces that are not done. */
static void add_sums(const scan_args *a) {
  for (int64_t k = 0; k < a->outer * a->inner * a->pieces; ++k) {
    scan_piece_sum *own = &a->sums[k];
    if (atomic_load_explicit(&own->state, memory_order_relaxed) == DONE)
      continue;
    own->all =
        k % a->pieces == 0 ? own->sum : add_number(a, own[-1].all, own->sum);
  }
}

static int32_t piece_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  for (int64_t k = begin; k < end; ++k) {
    if (atomic_load_explicit(&a->sums[k].state, memory_order_relaxed) == DONE)
      continue;
    const scan_range range = find_piece(
        a, k, k % a->pieces == 0 ? scan_find_none(a) : a->sums[k - 1].all);
    (void)scan_range_of(a, &range, 1);
  }
  return TN_OK;
}

static int32_t line_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  for (int64_t i = begin; i < end; ++i) {
    const scan_range range = {i, 0, a->n, scan_find_none(a)};
    (void)scan_range_of(a, &range, 1);
  }
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

static tn_kernel_body *find_f32_body(const scan_args *a, int many) {
  static const tn_kernel_bodies bodies[2][4] = {
      {TN_KERNEL_BODIES(scan_sum), TN_KERNEL_BODIES(scan_sum_before),
       TN_KERNEL_BODIES(scan_sum_rows), TN_KERNEL_BODIES(scan_sum_rows_before)},
      {TN_KERNEL_BODIES(scan_product), TN_KERNEL_BODIES(scan_product_before),
       TN_KERNEL_BODIES(scan_product_rows),
       TN_KERNEL_BODIES(scan_product_rows_before)}};
  return tn_kernel_body_at(&bodies[a->is_product][2 * many + a->exclusive],
                           a->mode.level);
}

/* The same for f32, without copies. */
static void scan_f32_columns(const scan_args *a, int64_t i, int64_t n) {
  TN_KERNEL_LINED double all[WIDE_COLUMNS];
  const int64_t step = a->reverse ? -a->inner : a->inner;
  const scan_row_args args = {all, step};
  for (int64_t c = 0; c < n; ++c) all[c] = a->is_product;
  for (int64_t r = 0; r < a->n;) {
    const int many = a->n - r >= SCAN_ROWS;
    const tn_kernel_line from = scan_find_part(a, a->from, i, r, n);
    const tn_kernel_line to = scan_find_part(a, a->to, i, r, n);
    const tn_kernel_block block = {n, to.at, {from.at}};
    find_f32_body(a, many)(&block, &args);
    r += many ? SCAN_ROWS : 1;
  }
}

/* Scans n adjacent lines, from line i on. */
static void scan_columns(const scan_args *a, int64_t i, int64_t n) {
  scan_chunk row, all;
  const tn_kernel_block block = {n, &all, {&row}};
  tn_kernel_body *body = find_row_body(a);
  const scan_number none = scan_find_none(a);
  for (int64_t c = 0; c < n; ++c) all.i64[c] = none.i64;
  for (int64_t r = 0; r < a->n; ++r) {
    tn_kernel_line from = scan_find_part(a, a->from, i, r, n);
    tn_kernel_line to = scan_find_part(a, a->to, i, r, n);
    from.stride = to.stride = 1;
    tn_kernel_load(&row, &a->mode, &from);
    if (a->exclusive) tn_kernel_store(&to, &a->mode, &all);
    body(&block, NULL);
    if (!a->exclusive) tn_kernel_store(&to, &a->mode, &all);
  }
}

static int64_t find_width(const scan_args *a) {
  return scan_find_least(a->inner, a->dtype == TN_F32 ? WIDE_COLUMNS : COLUMNS);
}

static int32_t column_slice(void *arg, int64_t begin, int64_t end) {
  const scan_args *a = (const scan_args *)arg;
  const int64_t width = find_width(a), blocks = (a->inner + width - 1) / width;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t first = k % blocks * width;
    (a->dtype == TN_F32 ? scan_f32_columns : scan_columns)(
        a, k / blocks * a->inner + first,
        scan_find_least(width, a->inner - first));
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- calls */

int32_t scan_init_args(scan_args *a, const tn_frame *call,
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
    a->sums = (scan_piece_sum *)call->ws[0];
    for (int64_t k = 0; k < lines * a->pieces; ++k)
      atomic_init(&a->sums[k].state, WAITING);
    const int32_t code =
        call->host->parallel_for(call, lines * a->pieces, 1, sum_slice, a);
    if (code != TN_OK) return code;
    add_sums(a);
    return call->host->parallel_for(call, lines * a->pieces, 1, piece_slice, a);
  }
  if (a->inner < NARROW)
    return call->host->parallel_for(call, lines, find_grain(a->n), line_slice,
                                    a);
  const int64_t width = find_width(a), blocks = (a->inner + width - 1) / width;
  return call->host->parallel_for(call, a->outer * blocks,
                                  find_grain(a->n * width), column_slice, a);
}

int32_t tensor_cumsum_bytes(const tn_frame *call, uint64_t *bytes) {
  scan_args a;
  *bytes = 0;
  const int32_t code = scan_init_args(&a, call, NULL);
  if (code != TN_OK || count_pieces(&a) == 1) return code;
  *bytes = (uint64_t)(a.outer * a.inner * count_pieces(&a)) * sizeof *a.sums;
  return TN_OK;
}

int32_t tensor_cumsum(const tn_frame *call) {
  scan_args a;
  const int32_t code = scan_init_args(&a, call, &call->in[0]);
  return code == TN_OK ? run_scan(&a) : code;
}

/* in = [gradient of out, data, out] */
int32_t tensor_cumsum_backward(const tn_frame *call) {
  scan_args a;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = scan_init_args(&a, call, &call->in[0]);
  a.reverse = !a.reverse;
  return code == TN_OK ? run_scan(&a) : code;
}

int32_t tensor_cumprod(const tn_frame *call) {
  scan_args a;
  const int32_t code = scan_init_args(&a, call, &call->in[0]);
  a.is_product = 1;
  return code == TN_OK ? run_scan(&a) : code;
}
