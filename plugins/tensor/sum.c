/* SPDX-License-Identifier: Apache-2.0
 * sum.c: sums over axes. The axes are put behind those that stay; then each
 * element of the output is the sum of a line, which fold.h says how to cut. Of
 * one box comes a record of f64 or i64: 32 sums, each of every 32nd element,
 * added up as a tree; of the records of a line comes its sum in the same way.
 * So the compiler has 32 sums to vectorise, and the order is the same at every
 * level of instructions.
 *
 * Where the last axis stays, lines lie across memory, and rows are added to one
 * another instead.
 */
#include "sum.gen.h"

#include <tenon/fold.h>
#include <tenon/kernel.h>

enum { LANES = 32, COLUMNS = 256 };

/* -------------------------------------------------------------------- bodies
 */

#define TREE(lane)                       \
  for (int w = LANES / 2; w > 0; w /= 2) \
    for (int j = 0; j < w; ++j) lane[j] += lane[j + w]

#define SUM_BODY(name, type, wide)                                             \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *x = (const type *)block->in[0];                                \
    wide lane[LANES] = {0};                                                    \
    int64_t i = 0;                                                             \
    (void)params;                                                              \
    for (; i + LANES <= block->n; i += LANES)                                  \
      for (int j = 0; j < LANES; ++j) lane[j] += (wide)x[i + j];               \
    for (int j = 0; i + j < block->n; ++j) lane[j] += (wide)x[i + j];          \
    TREE(lane);                                                                \
    *(wide *)block->out = lane[0];                                             \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
SUM_BODY(sum_f32, float, double)
SUM_BODY(sum_f64, double, double)
SUM_BODY(sum_i64, uint64_t, uint64_t) /* wraps */

static const tn_kernel_bodies f32_bodies = TN_KERNEL_BODIES(sum_f32),
                              f64_bodies = TN_KERNEL_BODIES(sum_f64),
                              i64_bodies = TN_KERNEL_BODIES(sum_i64);

/* ---------------------------------------------------------------------- axes
 */

/* Which axes are summed over, as bits; or a code with TN_FAIL. */
static int32_t read_axes(const tn_frame *call, int32_t ndim, uint32_t *axes) {
  const tensor_sum_params *p = tensor_sum_params_of(call);
  *axes = 0;
  if (!p->has_axis) {
    *axes = (1u << ndim) - 1;
    return TN_OK;
  }
  for (int64_t i = 0; i < p->axis.n; ++i) {
    const int64_t axis = p->axis.v[i] < 0 ? p->axis.v[i] + ndim : p->axis.v[i];
    if (axis < 0 || axis >= ndim)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "there is no axis %lld of an array of %d dimensions",
                     (long long)p->axis.v[i], (int)ndim);
    if (*axes >> axis & 1)
      return TN_FAIL(call, TN_INVALID, "axis %lld is named twice",
                     (long long)axis);
    *axes |= 1u << axis;
  }
  return TN_OK;
}

int32_t tensor_sum_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_SUM_IN_DATA];
  int64_t shape[TN_MAX_NDIM];
  int32_t ndim = 0;
  uint32_t axes;
  if (data->ndim < 0) return TN_OK;
  const int32_t code = read_axes(call, data->ndim, &axes);
  if (code != TN_OK) return code;
  for (int32_t i = 0; i < data->ndim; ++i)
    if (!(axes >> i & 1))
      shape[ndim++] = data->shape[i];
    else if (tensor_sum_params_of(call)->keepdims)
      shape[ndim++] = 1;
  return call->host->set_shape(call, TN_OPERAND_OUT, TENSOR_SUM_OUT_OUT, ndim,
                               shape);
}

/* An input whose axes that stay come first. */
typedef struct view {
  tn_tensor tensor;
  int32_t kept;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
} view;

static void view_make(view *v, const tn_tensor *data, uint32_t axes) {
  int32_t n = 0;
  v->tensor = *data;
  v->tensor.shape = v->shape;
  v->tensor.strides = v->strides;
  for (uint32_t summed = 0; summed < 2; ++summed) {
    for (int32_t i = 0; i < data->ndim; ++i) {
      if ((axes >> i & 1) != summed) continue;
      v->shape[n] = data->shape[i];
      v->strides[n++] = data->strides[i];
    }
    if (summed == 0) v->kept = n;
  }
}

/* Whether the axes are the last ones. */
static int is_last(uint32_t axes, int32_t ndim) {
  while (ndim > 0 && (axes >> (ndim - 1) & 1)) axes &= ~(1u << --ndim);
  return axes == 0;
}

/* Lines shorter than that are summed where they are. */
enum { SHORT = 32 };

int32_t tensor_sum_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *data = &call->in[TENSOR_SUM_IN_DATA];
  tn_fold fold;
  uint32_t axes;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = read_axes(call, data->ndim, &axes);
  if (code != TN_OK || !is_last(axes, data->ndim)) return code;
  if (!tn_fold_cut(data, &call->out[TENSOR_SUM_OUT_OUT], &fold)) return TN_OK;
  if (tn_tensor_size(data) / fold.lines >= SHORT)
    *bytes = 8 * (uint64_t)(fold.lines * fold.parts);
  return TN_OK;
}

/* --------------------------------------------------------------------- boxes
 */

typedef struct task {
  const tn_frame *call;
  const tn_tensor *out;
  view in;
  tn_fold fold;
  uint64_t *records;      /* NULL: none are kept */
  tn_kernel_mode mode;    /* of records */
  tn_kernel_body *sum;    /* of records */
  tn_kernel_body *direct; /* of elements as they are, or NULL */
} task;

static void task_init(task *t, const tn_frame *call) {
  const tn_dtype own = tn_kernel_compute(call->in[0].dtype);
  const int whole = own == TN_I32 || own == TN_I64;
  t->call = call;
  t->out = &call->out[TENSOR_SUM_OUT_OUT];
  t->mode.compute = whole ? TN_I64 : TN_F64;
  t->mode.level = tn_kernel_level(call);
  t->sum = tn_kernel_body_at(whole ? &i64_bodies : &f64_bodies, t->mode.level);
  t->direct = call->in[0].dtype == t->mode.compute ? t->sum
              : call->in[0].dtype == TN_F32
                  ? tn_kernel_body_at(&f32_bodies, t->mode.level)
                  : NULL;
  t->records =
      call->n_ws > 0 && call->ws_bytes[0] > 0 ? (uint64_t *)call->ws[0] : NULL;
}

static uint64_t sum_of(tn_kernel_body *body, const void *from, int64_t n) {
  uint64_t record = 0;
  const tn_kernel_block block = {n, &record, {from}};
  body(&block, NULL);
  return record;
}

/* Axes that lie one behind the other become one; returns how many are left. */
static int32_t join(int32_t ndim, int64_t *shape, int64_t *strides) {
  int32_t last = -1;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] == 1) continue;
    if (last >= 0 && strides[last] == strides[i] * shape[i]) {
      shape[last] *= shape[i];
      strides[last] = strides[i];
      continue;
    }
    shape[++last] = shape[i];
    strides[last] = strides[i];
  }
  if (last >= 0) return last + 1;
  shape[0] = 1;
  strides[0] = 1;
  return 1;
}

/* The record of one line's part of a box, at most TN_FOLD_BOX elements. */
static uint64_t fold_line(const task *t, const char *at, int32_t ndim,
                          const int64_t *shape, const int64_t *strides) {
  TN_KERNEL_LINED uint64_t scratch[TN_FOLD_BOX];
  const int64_t bytes = tn_dtype_bytes(t->in.tensor.dtype);
  int64_t n[TN_MAX_NDIM], step[TN_MAX_NDIM], place[TN_MAX_NDIM] = {0};
  memcpy(n, shape, (size_t)ndim * sizeof *n);
  memcpy(step, strides, (size_t)ndim * sizeof *step);
  const int32_t inner = join(ndim, n, step) - 1;
  if (t->direct && inner == 0 && step[0] == 1)
    return sum_of(t->direct, at, n[0]);
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
    if (d < 0) return sum_of(t->sum, scratch, done);
  }
}

/* The records of a box that begins at `at`: of each of its lines. */
static void fold_box(const task *t, const char *at, const int64_t *shape,
                     int64_t lines, uint64_t *records) {
  const view *in = &t->in;
  const int64_t bytes = tn_dtype_bytes(in->tensor.dtype);
  for (int64_t k = 0; k < lines; ++k) {
    int64_t left = k, offset = 0;
    for (int32_t d = in->kept; d-- > 0;) {
      offset += left % shape[d] * in->strides[d];
      left /= shape[d];
    }
    records[k] = fold_line(t, at + offset * bytes, in->tensor.ndim - in->kept,
                           shape + in->kept, in->strides + in->kept);
  }
}

static const char *box_at(const task *t, const tn_fold_part *part) {
  int64_t offset = 0;
  for (int32_t d = 0; d < t->fold.ndim; ++d)
    offset += part->at[d] * t->in.strides[d];
  return (const char *)t->in.tensor.data +
         offset * tn_dtype_bytes(t->in.tensor.dtype);
}

static int32_t fold_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  tn_fold_part part;
  for (int64_t i = begin; i < end; ++i) {
    tn_fold_at(&t->fold, i, &part);
    fold_box(t, box_at(t, &part), part.shape, part.lines,
             t->records + part.record);
  }
  return TN_OK;
}

/* --------------------------------------------------------------------- merge
 */

/* Sums number `first` and following go where they belong. */
static void put(const task *t, int64_t first, int64_t n, void *sums) {
  const tn_tensor *out = t->out;
  const int64_t bytes = tn_dtype_bytes(out->dtype);
  const int dense = tn_tensor_is_contiguous(out);
  const int64_t at_once = dense ? n : 1;
  uint64_t old[COLUMNS];
  for (int64_t k = 0; k < n; k += at_once) {
    int64_t left = first + k, offset = dense ? left : 0;
    for (int32_t d = out->ndim; !dense && d-- > 0;) {
      offset += left % out->shape[d] * out->strides[d];
      left /= out->shape[d];
    }
    const tn_kernel_line to = {(char *)out->data + offset * bytes, 1, at_once,
                               out->dtype};
    uint64_t *sum = (uint64_t *)sums + k;
    if (t->call->req[TENSOR_SUM_OUT_OUT] == TN_REQ_ADD) {
      tn_kernel_load(old, &t->mode, &to);
      tn_kernel_add_dense(sum, old, &t->mode, at_once);
    }
    tn_kernel_store(&to, &t->mode, sum);
  }
}

static int32_t merge_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  uint64_t sums[COLUMNS];
  while (begin < end) {
    const int64_t n = end - begin < COLUMNS ? end - begin : COLUMNS;
    for (int64_t k = 0; k < n; ++k)
      sums[k] = sum_of(t->sum, t->records + (begin + k) * t->fold.parts,
                       t->fold.parts);
    put(t, begin, n, sums);
    begin += n;
  }
  return TN_OK;
}

static int32_t merge(task *t) {
  enum { GRAIN = 4096 };
  return t->call->host->parallel_for(t->call, t->fold.lines, GRAIN, merge_slice,
                                     t);
}

/* ----------------------------------------------------------- without records
 */

/* One line after the other, each box by box; boxes of a line that is cut follow
 * one another. */
static int32_t lines_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  tn_fold_part part;
  for (int64_t i = begin; i < end; ++i) {
    uint64_t sums[TN_FOLD_BOX], lane[LANES] = {0};
    if (t->fold.parts == 1) {
      tn_fold_at(&t->fold, i, &part);
      fold_box(t, box_at(t, &part), part.shape, part.lines, sums);
      for (int64_t k = 0; k < part.lines; ++k)
        sums[k] = sum_of(t->sum, &sums[k], 1);
      for (int64_t k = 0; k < part.lines; k += COLUMNS)
        put(t, part.record + k,
            part.lines - k < COLUMNS ? part.lines - k : COLUMNS, sums + k);
      continue;
    }
    for (int64_t k = 0; k < t->fold.parts; ++k) {
      uint64_t two[2];
      tn_fold_at(&t->fold, i * t->fold.parts + k, &part);
      fold_box(t, box_at(t, &part), part.shape, 1, &two[0]);
      two[1] = lane[k % LANES];
      lane[k % LANES] = sum_of(t->sum, two, 2);
    }
    lane[0] = sum_of(t->sum, lane, LANES);
    put(t, i, 1, lane);
  }
  return TN_OK;
}

/* Of COLUMNS elements along the last axis that stays, the rows are added up. */
static int32_t columns_slice(void *arg, int64_t begin, int64_t end) {
  const task *t = (const task *)arg;
  const view *in = &t->in;
  const int32_t last = in->kept - 1;
  const int64_t wide = in->shape[last],
                bytes = tn_dtype_bytes(in->tensor.dtype);
  const int64_t n_blocks = (wide + COLUMNS - 1) / COLUMNS;
  int64_t n_rows = 1;
  for (int32_t d = in->kept; d < in->tensor.ndim; ++d) n_rows *= in->shape[d];
  for (int64_t i = begin; i < end; ++i) {
    TN_KERNEL_LINED uint64_t sums[COLUMNS] = {0}, row[COLUMNS];
    const int64_t first = i % n_blocks * COLUMNS;
    const int64_t n = wide - first < COLUMNS ? wide - first : COLUMNS;
    int64_t left = i / n_blocks, base = first * in->strides[last];
    for (int32_t d = last; d-- > 0; left /= in->shape[d])
      base += left % in->shape[d] * in->strides[d];
    for (int64_t r = 0; r < n_rows; ++r) {
      int64_t offset = base;
      left = r;
      for (int32_t d = in->tensor.ndim; d-- > in->kept; left /= in->shape[d])
        offset += left % in->shape[d] * in->strides[d];
      const tn_kernel_line line = {(char *)in->tensor.data + offset * bytes,
                                   in->strides[last], n, in->tensor.dtype};
      tn_kernel_load(row, &t->mode, &line);
      tn_kernel_add_dense(sums, row, &t->mode, n);
    }
    put(t, i / n_blocks * wide + first, n, sums);
  }
  return TN_OK;
}

static int32_t run_columns(task *t) {
  const int64_t wide = t->in.shape[t->in.kept - 1];
  const int64_t lines = tn_tensor_size(t->out);
  return t->call->host->parallel_for(
      t->call, lines / wide * ((wide + COLUMNS - 1) / COLUMNS), 1,
      columns_slice, t);
}

/* ------------------------------------------------------------------- kernels
 */

static int32_t put_zeros(const task *t) {
  const int64_t n = tn_tensor_size(t->out);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t zero = 0;
    put(t, i, 1, &zero);
  }
  return TN_OK;
}

/* Of the whole call. */
static int32_t run_whole(task *t, uint32_t axes) {
  enum { BOXES = 16 };
  const int32_t ndim = t->call->in[0].ndim;
  view_make(&t->in, &t->call->in[0], axes);
  if (tn_tensor_size(&t->call->in[0]) == 0) return put_zeros(t);
  const int32_t kept = t->in.kept;
  if (kept > 0 && !(axes >> (ndim - 1) & 1)) return run_columns(t);
  tn_tensor out = t->in.tensor;
  out.ndim = kept;
  (void)tn_fold_cut(&t->in.tensor, &out, &t->fold);
  const int64_t n = tn_fold_boxes(&t->fold);
  if (!t->records)
    return t->call->host->parallel_for(
        t->call, t->fold.parts == 1 ? n : t->fold.lines, BOXES, lines_slice, t);
  const int32_t code =
      t->call->host->parallel_for(t->call, n, BOXES, fold_slice, t);
  return code == TN_OK ? merge(t) : code;
}

/* A box: the axes that have 1 in the output are summed over. */
static int32_t run_box(task *t) {
  const tn_tensor *in = &t->call->in[0];
  uint32_t axes = 0;
  int64_t lines = tn_tensor_size(t->out);
  for (int32_t i = 0; i < in->ndim; ++i)
    if (t->out->shape[i] == 1 && in->shape[i] != 1) axes |= 1u << i;
  view_make(&t->in, in, axes);
  fold_box(t, (const char *)in->data, t->in.shape, lines, t->records);
  return TN_OK;
}

int32_t tensor_sum(const tn_frame *call) {
  task t;
  uint32_t axes;
  task_init(&t, call);
  if (call->flags & TN_CALL_FOLD) return run_box(&t);
  const int32_t code = read_axes(call, call->in[0].ndim, &axes);
  if (code != TN_OK) return code;
  if (!(call->flags & TN_CALL_MERGE)) return run_whole(&t, axes);
  (void)tn_fold_cut(&call->in[0], t.out, &t.fold);
  return merge(&t);
}

/* ------------------------------------------------------------------ backward
 */

#define COPY_BODY(name, type)                                                  \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    (void)params;                                                              \
    memcpy(block->out, block->in[0], (size_t)block->n * sizeof(type));         \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
COPY_BODY(copy_f32, float)
COPY_BODY(copy_f64, double)
COPY_BODY(copy_i32, int32_t)
COPY_BODY(copy_i64, int64_t)

static const tn_kernel_map copy_map = {.f32 = TN_KERNEL_BODIES(copy_f32),
                                       .f64 = TN_KERNEL_BODIES(copy_f64),
                                       .i32 = TN_KERNEL_BODIES(copy_i32),
                                       .i64 = TN_KERNEL_BODIES(copy_i64),
                                       .n_in = 1};

/* The gradient of a sum, repeated to where its terms were. */
int32_t tensor_sum_backward(const tn_frame *call) {
  const tn_tensor *slope = &call->out[0], *grad = &call->in[0];
  int64_t shape[TN_MAX_NDIM], strides[TN_MAX_NDIM];
  uint32_t axes;
  const int32_t code = read_axes(call, slope->ndim, &axes);
  if (code != TN_OK) return code;
  const int keepdims = tensor_sum_params_of(call)->keepdims != 0;
  for (int32_t i = 0, k = 0; i < slope->ndim; ++i) {
    const int summed = (int)(axes >> i & 1);
    shape[i] = summed ? 1 : slope->shape[i];
    strides[i] = summed ? 0 : grad->strides[k];
    if (!summed || keepdims) ++k;
  }
  tn_tensor repeated = *grad;
  repeated.ndim = slope->ndim;
  repeated.shape = shape;
  repeated.strides = strides;
  tn_frame copy = *call;
  copy.in = &repeated;
  copy.n_in = 1;
  copy.prepared = NULL;
  return tn_kernel_map_run(&copy, &copy_map, 1);
}
