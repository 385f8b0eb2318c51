/* SPDX-License-Identifier: Apache-2.0
 * reduce_columns.c: reductions row by row. If the last axis is kept, the
 * elements of a line are far apart; and if lines are short, a loop over each is
 * mostly start and end. In both cases a loop reduces the elements of many lines
 * into as many adjacent records.
 *
 * Short dense rows are joined to one longer row, whose records are merged at
 * the end. Many rows are cut into parts, so that there is work for several
 * threads. Shapes and strides decide the cut.
 */
#include "reduce_loops.h"

enum {
  SHORT = 32,   /* elements of the longest line without a loop of its own */
  TASKS = 16,   /* slices, enough for all workers */
  PART = 65536, /* elements of a part, at least */
  STAGED = 8    /* rows in one conversion */
};

/* -------------------------------------------------------------------- cuts */

static int64_t multiply_lengths(const int64_t *n, int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; ++i) product *= n[i];
  return product;
}

static void divide_parts(reduce_column_plan *cut) {
  const int64_t tasks = cut->outer * cut->blocks;
  const int64_t most = cut->outer * cut->wide * cut->height / PART;
  cut->parts = 1;
  if (tasks >= TASKS) return;
  cut->parts = (TASKS + tasks - 1) / tasks;
  if (cut->parts > most) cut->parts = most > 0 ? most : 1;
  if (cut->parts > cut->height) cut->parts = cut->height;
}

int reduce_plan_columns(const reduce_view *view, reduce_column_plan *cut) {
  const int32_t kept = view->kept, gone = view->tensor.ndim - kept;
  memcpy(cut->kept, view->shape, (size_t)kept * sizeof(int64_t));
  memcpy(cut->kept_step, view->strides, (size_t)kept * sizeof(int64_t));
  memcpy(cut->rows, view->shape + kept, (size_t)gone * sizeof(int64_t));
  memcpy(cut->row_step, view->strides + kept, (size_t)gone * sizeof(int64_t));
  cut->n_kept = reduce_join_axes(kept, cut->kept, cut->kept_step);
  cut->n_rows = reduce_join_axes(gone, cut->rows, cut->row_step);
  cut->wide = cut->kept[cut->n_kept - 1];
  cut->height = multiply_lengths(cut->rows, cut->n_rows);
  if (cut->wide == 1) return 0;
  const int64_t across = cut->kept_step[cut->n_kept - 1],
                along = cut->row_step[cut->n_rows - 1];
  if (cut->height >= SHORT && llabs(along) <= llabs(across)) return 0;
  cut->outer = multiply_lengths(cut->kept, cut->n_kept - 1);
  cut->blocks = (cut->wide + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS;
  const int dense = across == 1 && along == cut->wide;
  cut->together =
      dense && cut->wide <= REDUCE_COLUMNS / 2 ? REDUCE_COLUMNS / cut->wide : 1;
  divide_parts(cut);
  return 1;
}

/* -------------------------------------------------------------------- rows */

/* A reduction by columns. */
typedef struct job {
  const reduce_task *t;
  const reduce_column_plan *cut;
} job;

/* Rows of contiguous elements, `apart` elements from each other. */
typedef struct patch {
  const char *at;
  int64_t n;
  int64_t step;
  int64_t rows;
  int64_t row_distance;
} patch;

static void run_column(tn_kernel_body *body, uint64_t *records,
                       const void *from, int64_t n, const reduce_rows *rows) {
  tn_kernel_block block;
  block.n = n;
  block.out = records;
  block.in[0] = from;
  body(&block, rows);
}

/* Reduces a patch into one record per column. */
static void add_patch(const reduce_task *t, uint64_t *records, patch p) {
  TN_KERNEL_LINED uint64_t staged[STAGED * REDUCE_COLUMNS];
  const tn_dtype dtype = t->in.tensor.dtype;
  const int64_t bytes = tn_dtype_bytes(dtype);
  if (t->direct_column && p.step == 1) {
    run_column(t->direct_column, records, p.at, p.n,
               &(reduce_rows){p.rows, p.row_distance});
    return;
  }
  while (p.rows > 0) {
    const int64_t n = p.rows < STAGED ? p.rows : STAGED;
    for (int64_t r = 0; r < n; ++r) {
      const tn_kernel_line line = {
          (char *)(uintptr_t)p.at + r * p.row_distance * bytes, p.step, p.n,
          dtype};
      tn_kernel_load(staged + r * p.n, &t->mode, &line);
    }
    run_column(t->column, records, staged, p.n, &(reduce_rows){n, p.n});
    p.at += n * p.row_distance * bytes;
    p.rows -= n;
  }
}

/* The same; joins several rows to one if the cut says so. */
static void add_rows(const job *j, uint64_t *records, patch p) {
  const int64_t k = j->cut->together, full = p.rows / k, rest = p.rows % k;
  if (k == 1) {
    add_patch(j->t, records, p);
    return;
  }
  patch some = {p.at, p.n * k, 1, full, p.n * k};
  if (full > 0) add_patch(j->t, records, some);
  some.at += full * k * p.n * tn_dtype_bytes(j->t->in.tensor.dtype);
  some.n = rest * p.n;
  some.rows = 1;
  if (rest > 0) add_patch(j->t, records, some);
}

/* Reduces rows [begin, end) into the records of n columns; row 0 begins `base`
 * elements after the input's start. */
static void add_range(const job *j, uint64_t *records, int64_t base, int64_t n,
                      int64_t begin, int64_t end) {
  const reduce_column_plan *cut = j->cut;
  const tn_tensor *in = &j->t->in.tensor;
  const int32_t inner = cut->n_rows - 1;
  while (begin < end) {
    int64_t left = begin, offset = base;
    for (int32_t d = inner; d >= 0; --d) {
      offset += left % cut->rows[d] * cut->row_step[d];
      left /= cut->rows[d];
    }
    int64_t rows = cut->rows[inner] - begin % cut->rows[inner];
    if (rows > end - begin) rows = end - begin;
    const patch p = {
        (const char *)in->data + offset * tn_dtype_bytes(in->dtype), n,
        cut->kept_step[cut->n_kept - 1], rows, cut->row_step[inner]};
    add_rows(j, records, p);
    begin += rows;
  }
}

/* ------------------------------------------------------------- whole calls */

static void fill_records(const reduce_task *t, uint64_t *records, int64_t n) {
  for (int64_t i = 0; i < n; ++i) records[i] = t->none;
}

/* One slice: part p of block b of columns, in group o. */
static int32_t columns_slice(void *arg, int64_t begin, int64_t end) {
  const job *j = (const job *)arg;
  const reduce_column_plan *cut = j->cut;
  const int64_t wide = cut->wide, all = cut->outer * wide;
  for (int64_t i = begin; i < end; ++i) {
    TN_KERNEL_LINED uint64_t records[REDUCE_COLUMNS];
    const int64_t b = i % cut->blocks, p = i / cut->blocks % cut->parts;
    const int64_t o = i / cut->parts / cut->blocks, first = b * REDUCE_COLUMNS;
    const int64_t left_n = wide - first;
    const int64_t n = left_n < REDUCE_COLUMNS ? left_n : REDUCE_COLUMNS;
    int64_t left = o, base = first * cut->kept_step[cut->n_kept - 1];
    for (int32_t d = cut->n_kept - 1; d-- > 0; left /= cut->kept[d])
      base += left % cut->kept[d] * cut->kept_step[d];
    fill_records(j->t, records, n * cut->together);
    add_range(j, records, base, n, cut->height * p / cut->parts,
              cut->height * (p + 1) / cut->parts);
    if (cut->together > 1)
      run_column(j->t->merge_column, records, records + n, n,
                 &(reduce_rows){cut->together - 1, n});
    if (cut->parts == 1)
      reduce_write_results(j->t, o * wide + first, n, records);
    else
      memcpy((uint64_t *)j->t->run->workspace + p * all + o * wide + first,
             records, (size_t)n * sizeof *records);
  }
  return TN_OK;
}

/* Columns [begin, end): merges the records of their parts. */
static int32_t parts_slice(void *arg, int64_t begin, int64_t end) {
  const job *j = (const job *)arg;
  const int64_t all = j->cut->outer * j->cut->wide;
  while (begin < end) {
    TN_KERNEL_LINED uint64_t records[REDUCE_COLUMNS];
    const int64_t left = end - begin;
    const int64_t n = left < REDUCE_COLUMNS ? left : REDUCE_COLUMNS;
    fill_records(j->t, records, n);
    run_column(j->t->merge_column, records,
               (const uint64_t *)j->t->run->workspace + begin, n,
               &(reduce_rows){j->cut->parts, all});
    reduce_write_results(j->t, begin, n, records);
    begin += n;
  }
  return TN_OK;
}

int32_t reduce_columns(const reduce_task *t, const reduce_column_plan *cut) {
  enum { GRAIN = 4096 };
  const tn_frame *call = t->run->call;
  reduce_column_plan own = *cut;
  const job j = {t, &own};
  if (!t->run->workspace) own.parts = 1;
  const int64_t tasks = own.outer * own.blocks * own.parts;
  const int64_t each = own.height * own.wide / own.blocks / own.parts;
  const int32_t code = call->host->parallel_for(
      call, tasks, each < PART / 4 ? PART / 4 / (each + 1) : 1, columns_slice,
      (void *)(uintptr_t)&j);
  if (code != TN_OK || own.parts == 1) return code;
  return call->host->parallel_for(call, own.outer * own.wide, GRAIN,
                                  parts_slice, (void *)(uintptr_t)&j);
}
