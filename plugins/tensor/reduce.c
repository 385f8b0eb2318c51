/* SPDX-License-Identifier: Apache-2.0
 * reduce.c: the order in which a reduction combines elements. Reduced axes are
 * moved after the kept ones, so each output element comes from one line.
 * reduction.h divides lines into extents. One extent gives a record; the
 * records of a line give its element. If rows are better than lines,
 * reduce_columns.c computes the reduction.
 */
#include <math.h>

#include "move.h"
#include "reduce_loops.h"

/* ------------------------------------------------------------------- lines */

/* Whether the axes are the last ones. */
static int is_last(uint32_t axes, int32_t ndim) {
  while (ndim > 0 && (axes >> (ndim - 1) & 1)) axes &= ~(1u << --ndim);
  return axes == 0;
}

/* Divides the lines of a view into extents. */
static int divide_lines(const reduce_view *view, tn_reduction *reduction) {
  tn_tensor out = view->tensor;
  out.ndim = view->kept;
  return tn_reduction_cut(&view->tensor, &out, reduction);
}

uint64_t reduce_count_bytes(const tn_tensor *in, const tn_tensor *out,
                            uint32_t axes) {
  reduce_view view;
  reduce_column_plan cut;
  tn_reduction reduction;
  if (tn_tensor_size(in) == 0) return 0;
  reduce_view_init(&view, in, axes);
  if (!reduce_plan_columns(&view, &cut)) {
    if (!is_last(axes, in->ndim) || !divide_lines(&view, &reduction)) return 0;
    return 8 * (uint64_t)(reduction.lines * reduction.parts);
  }
  if (cut.parts == 1) return 0;
  uint64_t bytes = 8 * (uint64_t)(cut.parts * cut.outer * cut.wide);
  /* The shape alone may suggest that the call is divided into lines; a size of
   * room that is no multiple of a record prevents that. */
  const int misleads = tn_reduction_cut(in, out, &reduction);
  while (misleads && bytes % (uint64_t)(reduction.lines * reduction.parts) == 0)
    ++bytes;
  return bytes;
}

/* ------------------------------------------------------------------- tasks */

static tn_kernel_body *find_body(const tn_kernel_bodies *bodies,
                                 const reduce_task *t) {
  return tn_kernel_body_at(bodies, t->mode.level);
}

static void init_task(reduce_task *t, const reduce_run *run) {
  const tn_dtype dtype = run->in->dtype;
  const int whole = tensor_wide_dtype(dtype) == TN_I64;
  const reduce_op *op = run->op, *then = op->records ? op->records : op;
  const int signless = dtype == TN_U64 && op->u64.line.at[0] != NULL;
  const reduce_loops *wide = signless ? &op->u64 : whole ? &op->i64 : &op->f64;
  const reduce_loops *records = signless ? &then->u64
                                : whole  ? &then->i64
                                         : &then->f64;
  const reduce_loops *direct = dtype == TN_F32 ? &op->f32 : wide;
  const int is_direct =
      dtype == TN_F32 || dtype == TN_F64 || tn_kernel_signed(dtype) == TN_I64;
  t->run = run;
  t->mode.compute = whole ? TN_I64 : TN_F64;
  t->mode.level = tn_kernel_level(run->call);
  t->line = find_body(&wide->line, t);
  t->column = find_body(&wide->column, t);
  t->merge = find_body(&records->line, t);
  t->merge_column = find_body(&records->column, t);
  t->direct = is_direct ? find_body(&direct->line, t) : NULL;
  t->direct_column = is_direct ? find_body(&direct->column, t) : NULL;
  if (whole)
    t->none = signless ? op->none_u64 : (uint64_t)op->none_i64;
  else
    t->none = tn_kernel_f64_bits(op->none_f64);
  t->count = 1;
}

/* Sets the number of elements of a line, once t->in is known. */
static void count_line(reduce_task *t, const tn_tensor *in, uint32_t axes) {
  for (int32_t i = 0; i < in->ndim; ++i)
    if (axes >> i & 1) t->count *= (double)in->shape[i];
}

/* Converts f64 records into results. */
static void finish_records(const reduce_task *t, int64_t n, double *records) {
  if (t->run->op->finish == REDUCE_MEAN)
    for (int64_t i = 0; i < n; ++i) records[i] /= t->count;
  if (t->run->op->finish == REDUCE_ROOT)
    for (int64_t i = 0; i < n; ++i) records[i] = sqrt(records[i]);
}

void reduce_write_results(const reduce_task *t, int64_t first, int64_t n,
                          void *records) {
  const tn_tensor *out = t->run->out;
  const int64_t bytes = tn_dtype_bytes(out->dtype);
  const int dense = tn_tensor_is_contiguous(out);
  const int64_t at_once = dense ? n : 1;
  uint64_t old[REDUCE_COLUMNS];
  if (t->mode.compute == TN_F64) finish_records(t, n, (double *)records);
  for (int64_t k = 0; k < n; k += at_once) {
    int64_t left = first + k, offset = dense ? left : 0;
    for (int32_t d = out->ndim; !dense && d-- > 0;) {
      offset += left % out->shape[d] * out->strides[d];
      left /= out->shape[d];
    }
    const tn_kernel_line to = {(char *)out->data + offset * bytes, 1, at_once,
                               out->dtype};
    uint64_t *record = (uint64_t *)records + k;
    if (t->run->req == TN_REQ_ADD) {
      tn_kernel_load(old, &t->mode, &to);
      tn_kernel_add_dense(record, old, &t->mode, at_once);
    }
    tn_kernel_store(&to, &t->mode, record);
  }
}

/* ----------------------------------------------------------------- extents */

/* Returns the record of at most TN_REDUCTION_EXTENT elements with joined axes.
 */
static uint64_t reduce_joined(const reduce_task *t, const char *at,
                              int32_t ndim, const int64_t *n,
                              const int64_t *step) {
  TN_KERNEL_LINED uint64_t scratch[TN_REDUCTION_EXTENT];
  const int64_t bytes = tn_dtype_bytes(t->in.tensor.dtype);
  const int32_t inner = ndim - 1;
  int64_t place[TN_MAX_NDIM] = {0};
  if (t->direct && inner == 0 && step[0] == 1)
    return reduce_line(t->direct, at, n[0]);
  int64_t done = 0;
  for (;;) {
    const tn_kernel_line line = {(char *)(uintptr_t)at, step[inner], n[inner],
                                 t->in.tensor.dtype};
    tn_kernel_load(scratch + done, &t->mode, &line);
    done += n[inner];
    int32_t d = inner - 1;
    for (; d >= 0; --d) {
      at += step[d] * bytes;
      if (++place[d] < n[d]) break;
      at -= place[d] * step[d] * bytes;
      place[d] = 0;
    }
    if (d < 0) return reduce_line(t->line, scratch, done);
  }
}

/* The record of one line's part of an extent. */
static uint64_t reduce_extent_line(const reduce_task *t, const char *at,
                                   int32_t ndim, const int64_t *shape,
                                   const int64_t *strides) {
  int64_t n[TN_MAX_NDIM], step[TN_MAX_NDIM];
  memcpy(n, shape, (size_t)ndim * sizeof *n);
  memcpy(step, strides, (size_t)ndim * sizeof *step);
  return reduce_joined(t, at, reduce_join_axes(ndim, n, step), n, step);
}

/* The records of an extent that begins at `at`, one for each of its lines. */
static void reduce_extent(const reduce_task *t, const char *at,
                          const int64_t *shape, int64_t lines,
                          uint64_t *records) {
  const reduce_view *in = &t->in;
  const int64_t bytes = tn_dtype_bytes(in->tensor.dtype);
  for (int64_t k = 0; k < lines; ++k) {
    int64_t left = k, offset = 0;
    for (int32_t d = in->kept; d-- > 0;) {
      offset += left % shape[d] * in->strides[d];
      left /= shape[d];
    }
    records[k] =
        reduce_extent_line(t, at + offset * bytes, in->tensor.ndim - in->kept,
                           shape + in->kept, in->strides + in->kept);
  }
}

static const char *locate_extent(const reduce_task *t,
                                 const tn_reduction_extent *part) {
  int64_t offset = 0;
  for (int32_t d = 0; d < t->reduction.ndim; ++d)
    offset += part->at[d] * t->in.strides[d];
  return (const char *)t->in.tensor.data +
         offset * tn_dtype_bytes(t->in.tensor.dtype);
}

static int32_t extent_slice(void *arg, int64_t begin, int64_t end) {
  const reduce_task *t = (const reduce_task *)arg;
  tn_reduction_extent part;
  for (int64_t i = begin; i < end; ++i) {
    tn_reduction_at(&t->reduction, i, &part);
    reduce_extent(t, locate_extent(t, &part), part.shape, part.lines,
                  (uint64_t *)t->run->workspace + part.record);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- merge */

static int32_t merge_slice(void *arg, int64_t begin, int64_t end) {
  const reduce_task *t = (const reduce_task *)arg;
  const uint64_t *from = (const uint64_t *)t->run->workspace;
  uint64_t records[REDUCE_COLUMNS];
  while (begin < end) {
    const int64_t left = end - begin;
    const int64_t n = left < REDUCE_COLUMNS ? left : REDUCE_COLUMNS;
    for (int64_t k = 0; k < n; ++k)
      records[k] =
          reduce_line(t->merge, from + (begin + k) * t->reduction.parts,
                      t->reduction.parts);
    reduce_write_results(t, begin, n, records);
    begin += n;
  }
  return TN_OK;
}

static int32_t merge_lines(reduce_task *t) {
  enum { GRAIN = 4096 };
  return t->run->call->host->parallel_for(t->run->call, t->reduction.lines,
                                          GRAIN, merge_slice, t);
}

/* --------------------------------------------------------- without records */

/* The arrangement of lines: kept and reduced axes, joined. */
typedef struct grid {
  const reduce_task *t;
  int32_t n_kept, n_gone;
  int64_t kept[TN_MAX_NDIM], kept_step[TN_MAX_NDIM];
  int64_t gone[TN_MAX_NDIM], gone_step[TN_MAX_NDIM];
} grid;

static void init_grid(grid *g, const reduce_task *t) {
  const int32_t kept = t->in.kept, gone = t->in.tensor.ndim - kept;
  g->t = t;
  memcpy(g->kept, t->in.shape, (size_t)kept * sizeof(int64_t));
  memcpy(g->kept_step, t->in.strides, (size_t)kept * sizeof(int64_t));
  memcpy(g->gone, t->in.shape + kept, (size_t)gone * sizeof(int64_t));
  memcpy(g->gone_step, t->in.strides + kept, (size_t)gone * sizeof(int64_t));
  g->n_kept = reduce_join_axes(kept, g->kept, g->kept_step);
  g->n_gone = reduce_join_axes(gone, g->gone, g->gone_step);
}

/* Lines that are no longer than an extent. Merging a single record would not
 * change it. */
static int32_t reduce_short_slice(void *arg, int64_t begin, int64_t end) {
  const grid *g = (const grid *)arg;
  const reduce_task *t = g->t;
  const int64_t bytes = tn_dtype_bytes(t->in.tensor.dtype);
  const int dense = t->direct && g->n_gone == 1 && g->gone_step[0] == 1;
  uint64_t records[REDUCE_COLUMNS];
  while (begin < end) {
    int64_t n = 0;
    for (; n < REDUCE_COLUMNS && begin + n < end; ++n) {
      int64_t left = begin + n, offset = 0;
      for (int32_t d = g->n_kept - 1; d > 0; --d) {
        offset += left % g->kept[d] * g->kept_step[d];
        left /= g->kept[d];
      }
      offset += left * g->kept_step[0];
      const char *at = (const char *)t->in.tensor.data + offset * bytes;
      records[n] = dense
                       ? reduce_line(t->direct, at, g->gone[0])
                       : reduce_joined(t, at, g->n_gone, g->gone, g->gone_step);
    }
    reduce_write_results(t, begin, n, records);
    begin += n;
  }
  return TN_OK;
}

static int32_t reduce_short_lines(const reduce_task *t) {
  enum { ELEMENTS = 16384 };
  const int64_t size = tn_tensor_size(&t->in.tensor) / t->reduction.lines;
  grid g;
  init_grid(&g, t);
  return t->run->call->host->parallel_for(t->run->call, t->reduction.lines,
                                          ELEMENTS / size, reduce_short_slice,
                                          &g);
}

/* Reduces line number i, extent by extent. */
static void reduce_long_line(const reduce_task *t, int64_t i) {
  enum { LANES = 32 };
  uint64_t lane[LANES];
  tn_reduction_extent part;
  for (int64_t k = 0; k < LANES; ++k) lane[k] = t->none;
  for (int64_t k = 0; k < t->reduction.parts; ++k) {
    uint64_t two[2];
    tn_reduction_at(&t->reduction, i * t->reduction.parts + k, &part);
    reduce_extent(t, locate_extent(t, &part), part.shape, 1, &two[0]);
    two[1] = lane[k % LANES];
    lane[k % LANES] = reduce_line(t->merge, two, 2);
  }
  lane[0] = reduce_line(t->merge, lane, LANES);
  reduce_write_results(t, i, 1, lane);
}

static int32_t reduce_long_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    reduce_long_line((const reduce_task *)arg, i);
  return TN_OK;
}

/* ------------------------------------------------------------- whole calls */

/* Writes the results of lines without elements. */
static int32_t write_empty_lines(const reduce_task *t) {
  const int64_t n = tn_tensor_size(t->run->out);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t record = t->none;
    reduce_write_results(t, i, 1, &record);
  }
  return TN_OK;
}

/* Computes one extent: it reduces the axes that have length 1 in the output. */
static int32_t reduce_one_extent(reduce_task *t) {
  const tn_tensor *in = t->run->in, *out = t->run->out;
  uint32_t axes = 0;
  for (int32_t i = 0; i < in->ndim; ++i)
    if (out->shape[i] == 1 && in->shape[i] != 1) axes |= 1u << i;
  reduce_view_init(&t->in, in, axes);
  reduce_extent(t, (const char *)in->data, t->in.shape, tn_tensor_size(out),
                (uint64_t *)t->run->workspace);
  return TN_OK;
}

/* Computes one of the stages of reduction.h. */
static int32_t run_stage(const reduce_run *run) {
  reduce_task t;
  init_task(&t, run);
  if (run->call->flags & TN_CALL_EXTENT) return reduce_one_extent(&t);
  count_line(&t, run->in, run->axes);
  (void)tn_reduction_cut(run->in, run->out, &t.reduction);
  return merge_lines(&t);
}

int32_t reduce_compute(const reduce_run *run) {
  enum { EXTENTS = 16 };
  const tn_host *host = run->call->host;
  reduce_task t;
  reduce_column_plan cut;
  if (run->call->flags & (TN_CALL_EXTENT | TN_CALL_MERGE))
    return run_stage(run);
  init_task(&t, run);
  reduce_view_init(&t.in, run->in, run->axes);
  count_line(&t, run->in, run->axes);
  if (tn_tensor_size(run->in) == 0) return write_empty_lines(&t);
  if (reduce_plan_columns(&t.in, &cut)) return reduce_columns(&t, &cut);
  (void)divide_lines(&t.in, &t.reduction);
  if (t.reduction.parts == 1) return reduce_short_lines(&t);
  if (!run->workspace)
    return host->parallel_for(run->call, t.reduction.lines, 1,
                              reduce_long_slice, &t);
  const int32_t code = host->parallel_for(
      run->call, tn_reduction_extents(&t.reduction), EXTENTS, extent_slice, &t);
  return code == TN_OK ? merge_lines(&t) : code;
}
