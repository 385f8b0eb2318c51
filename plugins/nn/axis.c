/* SPDX-License-Identifier: Apache-2.0
 * axis.c: the common part of operators along an axis (axis.h).
 */
#include "axis.h"

#include "nn.h"

/* ----------------------------------------------------------------- extents */

nn_axis_shape nn_axis_find_shape(const tn_tensor *tensor, int32_t first,
                                 int32_t last) {
  nn_axis_shape e = {1, 1, 1};
  for (int32_t d = 0; d < tensor->ndim; ++d)
    *(d < first   ? &e.outer
      : d <= last ? &e.length
                  : &e.inner) *= tensor->shape[d];
  return e;
}

int64_t nn_axis_count_elements(const nn_axis_shape *e) {
  return e->outer * e->length * e->inner;
}

int32_t nn_axis_find_dim(const tn_frame *call, int64_t axis,
                         const tn_tensor *data, int32_t *dim) {
  const int64_t at = axis < 0 ? axis + data->ndim : axis;
  if (data->ndim == 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "there is no axis %lld in () of rank 0: it has none",
                   (long long)axis);
  if (at < 0 || at >= data->ndim)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "there is no axis %lld in %s of rank %d: it must be from "
                   "%d to %d",
                   (long long)axis, nn_print_shape(data).text, (int)data->ndim,
                   -(int)data->ndim, (int)data->ndim - 1);
  *dim = (int32_t)at;
  return TN_OK;
}

/* ------------------------------------------------------------------- loops */

void nn_run_loop(const tn_kernel_mode *mode, const nn_loops *loops,
                 const tn_kernel_block *block, const void *params) {
  const tn_kernel_bodies *bodies =
      mode->compute == TN_F32 ? &loops->f32 : &loops->f64;
  tn_kernel_body_at(bodies, mode->level)(block, params);
}

int32_t nn_run_parallel(const tn_frame *call, int64_t n, int64_t cost,
                        tn_loop_body *body, void *arg) {
  const int64_t each = cost > 0 ? cost : 1;
  const int64_t grain = (TN_KERNEL_GRAIN + each - 1) / each;
  if (n <= 0) return TN_OK;
  if (n <= grain) return body(arg, 0, n);
  return call->host->parallel_for(call, n, grain, body, arg);
}

/* Arguments of a parallel loop that copies elements. */
typedef struct copy_work {
  char *to;
  const char *from;
  int64_t bytes; /* bytes of an element */
} copy_work;

/* Copies elements [begin, end). */
static int32_t copy_slice(void *arg, int64_t begin, int64_t end) {
  const copy_work *w = arg;
  memcpy(w->to + begin * w->bytes, w->from + begin * w->bytes,
         (size_t)((end - begin) * w->bytes));
  return TN_OK;
}

int32_t nn_copy_input(const tn_frame *call, uint32_t in, uint32_t out) {
  const tn_tensor *to = &call->out[out];
  copy_work w = {to->data, call->in[in].data, tn_dtype_bytes(to->dtype)};
  if (call->req[out] == TN_REQ_NULL || w.to == w.from) return TN_OK;
  return nn_run_parallel(call, tn_tensor_size(to), 1, copy_slice, &w);
}

/* Returns the number of chunks of NN_CHUNK columns into which the lines of one
 * index of `outer` are divided. */
static int64_t count_chunks(const nn_axis_shape *e) {
  return (e->inner + NN_CHUNK - 1) / NN_CHUNK;
}

int64_t nn_count_column_pieces(const nn_axis_shape *e) {
  return e->outer * count_chunks(e);
}

int64_t nn_locate_column_piece(const nn_axis_shape *e, int64_t i, int64_t *n) {
  const int64_t outer = i / count_chunks(e),
                at = i % count_chunks(e) * NN_CHUNK;
  *n = e->inner - at < NN_CHUNK ? e->inner - at : NN_CHUNK;
  return outer * e->length * e->inner + at;
}

/* -------------------------------------------------------------- channels */

enum {
  PIECE = 4096, /* elements of a piece, if groups of channels are planes */
  ROWS = 128,   /* runs of a piece, if groups of channels are columns */
};

/* Returns the smaller one of two numbers. */
static int64_t find_smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

nn_channel_division nn_divide_channels(nn_axis_shape e) {
  nn_channel_division c = {.e = e, .wide = 1};
  if (c.e.length == 1) {
    c.e.inner *= c.e.outer;
    c.e.outer = 1;
  }
  if (c.e.inner == 1) c.wide = NN_CHUNK;
  c.inner_step = find_smaller(c.e.inner, PIECE);
  c.groups = (c.e.length + c.wide - 1) / c.wide;
  if (nn_axis_count_elements(&c.e) == 0) return c;
  c.outer_step = c.wide > 1 ? ROWS : PIECE / c.inner_step;
  c.inner_pieces = (c.e.inner + c.inner_step - 1) / c.inner_step;
  c.pieces = (c.e.outer + c.outer_step - 1) / c.outer_step * c.inner_pieces;
  return c;
}

nn_channel_piece nn_locate_channel_piece(const nn_channel_division *cut,
                                         int64_t channel, int64_t p) {
  const nn_axis_shape *e = &cut->e;
  const int64_t o = p / cut->inner_pieces * cut->outer_step;
  const int64_t i = p % cut->inner_pieces * cut->inner_step;
  return (nn_channel_piece){
      .first = (o * e->length + channel) * e->inner + i,
      .n = cut->wide > 1 ? find_smaller(cut->wide, e->length - channel)
                         : find_smaller(cut->inner_step, e->inner - i),
      .runs = find_smaller(cut->outer_step, e->outer - o),
      .run_distance = e->length * e->inner};
}

int64_t nn_count_piece_elements(const nn_channel_division *cut,
                                const nn_channel_piece *piece) {
  return cut->wide > 1 ? piece->runs : piece->runs * piece->n;
}

int32_t nn_run_channel_pieces(const tn_frame *call,
                              const nn_channel_division *cut,
                              tn_loop_body *body, void *arg) {
  const int64_t all = cut->groups * cut->pieces;
  const int64_t each = all > 0 ? nn_axis_count_elements(&cut->e) / all : 1;
  return nn_run_parallel(call, all, each, body, arg);
}

/* ------------------------------------------------------------------ wide */

uint64_t nn_count_wide_bytes(const tn_tensor *tensor) {
  const tn_dtype compute = tn_kernel_compute(tensor->dtype);
  if (tensor->ndim < 0 || compute == tensor->dtype) return 0;
  const int64_t bytes = tn_tensor_size(tensor) * tn_dtype_bytes(compute);
  return ((uint64_t)bytes + 63) / 64 * 64;
}

nn_wide_operands nn_open_wide_operands(const tn_frame *call, tn_dtype dtype,
                                       uint64_t skip) {
  nn_wide_operands w = {
      call, {tn_kernel_compute(dtype), tn_kernel_level(call)}, NULL};
  if (call->n_ws > 0 && call->ws[0]) w.memory = (char *)call->ws[0] + skip;
  return w;
}

/* Arguments of a parallel loop that converts a tensor. */
typedef struct conversion {
  const tn_kernel_mode *mode;
  const tn_tensor *tensor;
  char *wide;
} conversion;

/* Converts elements [begin, end) of an operand to the type of the computation.
 */
static int32_t widen_slice(void *arg, int64_t begin, int64_t end) {
  const conversion *c = arg;
  const tn_dtype dtype = c->tensor->dtype;
  tn_kernel_load_dense(
      c->wide + begin * tn_dtype_bytes(c->mode->compute), c->mode,
      (const char *)c->tensor->data + begin * tn_dtype_bytes(dtype), dtype,
      end - begin);
  return TN_OK;
}

/* Converts elements [begin, end) of a result to the type of the operand. */
static int32_t narrow_slice(void *arg, int64_t begin, int64_t end) {
  const conversion *c = arg;
  const tn_dtype dtype = c->tensor->dtype;
  tn_kernel_store_dense(
      (char *)c->tensor->data + begin * tn_dtype_bytes(dtype), dtype,
      c->wide + begin * tn_dtype_bytes(c->mode->compute), c->mode, end - begin);
  return TN_OK;
}

/* Returns the next part of the workspace, for the copy of an operand. */
static void *take_workspace(nn_wide_operands *w, const tn_tensor *tensor) {
  char *memory = w->memory;
  w->memory += nn_count_wide_bytes(tensor);
  return memory;
}

/* Converts an operand by a parallel loop that cannot fail. */
static void convert_operand(const nn_wide_operands *w, tn_loop_body *body,
                            conversion *c) {
  (void)nn_run_parallel(w->call, tn_tensor_size(c->tensor), 1, body, c);
}

const void *nn_widen_input(nn_wide_operands *w, const tn_tensor *tensor) {
  if (!tensor->data || tensor->dtype == w->mode.compute) return tensor->data;
  conversion c = {&w->mode, tensor, take_workspace(w, tensor)};
  convert_operand(w, widen_slice, &c);
  return c.wide;
}

void *nn_locate_wide_output(nn_wide_operands *w, const tn_tensor *tensor,
                            tn_req req) {
  if (req == TN_REQ_NULL) return NULL;
  return tensor->dtype == w->mode.compute ? tensor->data
                                          : take_workspace(w, tensor);
}

void nn_store_wide_output(const nn_wide_operands *w, const tn_tensor *tensor,
                          const void *from) {
  if (!from || tensor->dtype == w->mode.compute) return;
  conversion c = {&w->mode, tensor, (char *)(uintptr_t)from};
  convert_operand(w, narrow_slice, &c);
}
