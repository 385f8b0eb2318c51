/* SPDX-License-Identifier: Apache-2.0
 * sequence.c: shapes and kernels of sequence.yaml. A kernel reads all lengths
 * before it writes, and moves the elements of one step of one sequence at a
 * time: a row.
 */
#include "sequence.h"

#include "axis.h"
#include "nn.h"
#include "norm_operands.h"
#include "second.h"

#define IN_DATA NN_SEQUENCE_MASK_IN_DATA
#define IN_LENGTH NN_SEQUENCE_MASK_IN_SEQUENCE_LENGTH
#define GRAD_OUT NN_SEQUENCE_MASK_BACKWARD_GRAD_OUT
#define BACKWARD_LENGTH NN_SEQUENCE_MASK_BACKWARD_IN_SEQUENCE_LENGTH

/* ------------------------------------------------------------------ shapes */

/* Merges the number of sequences in data and in the lengths. */
static int32_t infer_sequences(const tn_frame *call, int64_t axis) {
  const tn_tensor *data = &call->in[IN_DATA];
  const tn_tensor *length =
      call->n_in > IN_LENGTH ? &call->in[IN_LENGTH] : NULL;
  int64_t shape[TN_MAX_NDIM];
  if (data->ndim < 0) return TN_OK;
  if (data->ndim < 2)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` %s needs a dimension of steps and one of sequences",
                   nn_print_shape(data).text);
  if (!length) return TN_OK;
  memcpy(shape, data->shape, (size_t)data->ndim * sizeof *shape);
  int64_t *batch = &shape[1 - axis];
  if (length->ndim >= 0 &&
      (length->ndim != 1 ||
       (length->shape[0] >= 0 && *batch >= 0 && length->shape[0] != *batch)))
    return TN_FAIL(call, TN_SHAPE,
                   "`sequence_length` %s must have one number for each of the "
                   "sequences of `data` %s, which are along dimension %d",
                   nn_print_shape(length).text, nn_print_shape(data).text,
                   (int)(1 - axis));
  if (length->ndim == 1 && *batch < 0) *batch = length->shape[0];
  const int32_t code =
      call->host->set_shape(call, TN_OPERAND_IN, IN_LENGTH, 1, batch);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, IN_DATA, data->ndim, shape);
}

int32_t nn_sequence_mask_infer(const tn_frame *call) {
  return infer_sequences(call, nn_read_mask_options(call).axis);
}

int32_t nn_sequence_reverse_infer(const tn_frame *call) {
  return infer_sequences(call, 0);
}

int32_t nn_sequence_last_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[IN_DATA];
  const int64_t axis = nn_read_last_options(call).axis;
  int64_t shape[TN_MAX_NDIM];
  const int32_t code = infer_sequences(call, axis);
  if (code != TN_OK || data->ndim < 0) return code;
  int32_t n = 0;
  for (int32_t d = 0; d < data->ndim; ++d)
    if (d != axis) shape[n++] = data->shape[d];
  return call->host->set_shape(call, TN_OPERAND_OUT, NN_SEQUENCE_LAST_OUT_OUT,
                               n, shape);
}

int32_t nn_sequence_mask_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1, 2}, out[] = {0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_sequence_mask_infer, in, out, 2, 1});
}

int32_t nn_sequence_mask_grad_1_1_infer(const tn_frame *call) {
  static const uint32_t in[] = {1}, out[] = {0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_sequence_mask_infer, in, out, 1, 1});
}

/* ----------------------------------------------------------------- lengths */

/* The state of a call. */
typedef struct sequence_work {
  nn_sequences s;
  const int64_t *lengths; /* of each sequence; NULL: all steps */
  int64_t bytes;          /* bytes of a row */
  const char *from;
  char *to;
  int64_t width; /* bytes of an element */
  char value[8]; /* element after the end */
} sequence_work;

/* Sets *bytes to the size of the workspace: the lengths of all sequences. */
int32_t nn_sequence_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const uint32_t at = back ? (uint32_t)BACKWARD_LENGTH : (uint32_t)IN_LENGTH;
  const tn_tensor *length = &call->in[at];
  const int present = call->n_in > at && length->ndim == 1;
  *bytes = present ? (uint64_t)length->shape[0] * sizeof(int64_t) : 0;
  return TN_OK;
}

/* Reports a length out of range. Returns the failure. */
static int32_t refuse_length(const tn_frame *call, int64_t at, double length,
                             int64_t least, int64_t steps) {
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "element %lld of `sequence_length` is %g, but it must be from "
                 "%lld to %lld, the number of steps of `data`",
                 (long long)at, length, (long long)least, (long long)steps);
}

/* Reads the lengths of all sequences, which must be from `least` to the number
 * of steps. */
static int32_t read_lengths(const tn_frame *call, const tn_tensor *length,
                            int64_t least, sequence_work *w) {
  enum { STAGE = 256 };
  const tn_kernel_mode mode = {TN_F64, tn_kernel_level(call)};
  const int64_t bytes = tn_dtype_bytes(length->dtype);
  int64_t *to = call->ws[0];
  double part[STAGE];
  for (int64_t at = 0; at < w->s.batch; at += STAGE) {
    const int64_t left = w->s.batch - at, n = left < STAGE ? left : STAGE;
    tn_kernel_load_dense(part, &mode, (const char *)length->data + at * bytes,
                         length->dtype, n);
    for (int64_t i = 0; i < n; ++i) {
      if (!(part[i] >= (double)least && part[i] < (double)w->s.steps + 1))
        return refuse_length(call, at + i, part[i], least, w->s.steps);
      to[at + i] = (int64_t)part[i];
    }
  }
  w->lengths = to;
  return TN_OK;
}

/* Describes a call; `like` has the shape of data, and input number `length` has
 * the lengths. */
static int32_t open_work(const tn_frame *call, nn_sequence_options options,
                         const tn_tensor *like, int64_t least,
                         sequence_work *w) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const uint32_t length =
      back ? (uint32_t)BACKWARD_LENGTH : (uint32_t)IN_LENGTH;
  *w = (sequence_work){.s = nn_find_sequences(like, options.axis),
                       .width = tn_dtype_bytes(like->dtype)};
  w->bytes = w->s.inner * w->width;
  if (!options.uses_lengths) return TN_OK;
  return read_lengths(call, &call->in[length], least, w);
}

/* Returns the number of steps of a sequence. */
static int64_t find_length(const sequence_work *w, int64_t sequence) {
  return w->lengths ? w->lengths[sequence] : w->s.steps;
}

/* Returns the offset of the row of one step of one sequence. */
static int64_t locate_row(const sequence_work *w, int64_t step,
                          int64_t sequence) {
  return (step * w->s.step_rows + sequence * w->s.batch_rows) * w->bytes;
}

/* -------------------------------------------------------------------- mask */

/* Sets all elements of a row to the value. */
static void fill_row(const sequence_work *w, char *to) {
  for (int64_t i = 0; i < w->bytes; i += w->width)
    memcpy(to + i, w->value, (size_t)w->width);
}

/* Writes steps [begin, end) of all sequences. */
static int32_t mask_slice(void *arg, int64_t begin, int64_t end) {
  const sequence_work *w = arg;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t n = 0; n < w->s.batch; ++n) {
      const int64_t at = locate_row(w, t, n);
      if (t >= find_length(w, n))
        fill_row(w, w->to + at);
      else if (w->to != w->from)
        memcpy(w->to + at, w->from + at, (size_t)w->bytes);
    }
  return TN_OK;
}

/* Copies input `from` to output 0, with a value after the end of sequences. */
static int32_t run_mask(const tn_frame *call, uint32_t from, double value) {
  const tn_kernel_mode mode = {TN_F64, 0};
  const tn_tensor *out = &call->out[0];
  sequence_work w;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = open_work(call, nn_read_mask_options(call), out, 0, &w);
  if (code != TN_OK || tn_tensor_size(out) == 0) return code;
  if (!w.lengths) return nn_copy_input(call, from, 0);
  w.from = call->in[from].data;
  w.to = out->data;
  tn_kernel_store_dense(w.value, out->dtype, &value, &mode, 1);
  return nn_run_parallel(call, w.s.steps, w.s.batch * w.s.inner, mask_slice,
                         &w);
}

int32_t nn_sequence_mask(const tn_frame *call) {
  return run_mask(call, IN_DATA, nn_read_mask_options(call).value);
}

int32_t nn_sequence_mask_backward(const tn_frame *call) {
  return run_mask(call, GRAD_OUT, 0);
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_sequence_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_sequence_bytes(&own, bytes);
}

int32_t nn_sequence_mask_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  nn_fill_output(call, 1, 0);
  return nn_sequence_mask_backward(&own);
}

int32_t nn_sequence_mask_grad_1_1(const tn_frame *call) {
  return nn_copy_input(call, GRAD_OUT, 0);
}

/* ----------------------------------------------------------------- reverse */

/* Writes steps [begin, end) of all sequences. */
static int32_t reverse_slice(void *arg, int64_t begin, int64_t end) {
  const sequence_work *w = arg;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t n = 0; n < w->s.batch; ++n) {
      const int64_t length = find_length(w, n);
      const int64_t from = t < length ? length - 1 - t : t;
      memcpy(w->to + locate_row(w, t, n), w->from + locate_row(w, from, n),
             (size_t)w->bytes);
    }
  return TN_OK;
}

/* Runs a forward or backward call: both reverse input 0. */
int32_t nn_sequence_reverse(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  sequence_work w;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code =
      open_work(call, nn_read_reverse_options(call), out, 0, &w);
  if (code != TN_OK || tn_tensor_size(out) == 0) return code;
  w.from = call->in[0].data;
  w.to = out->data;
  return nn_run_parallel(call, w.s.steps, w.s.batch * w.s.inner, reverse_slice,
                         &w);
}

/* -------------------------------------------------------------------- last */

/* Writes the last steps of sequences [begin, end). */
static int32_t last_slice(void *arg, int64_t begin, int64_t end) {
  const sequence_work *w = arg;
  for (int64_t n = begin; n < end; ++n)
    memcpy(w->to + n * w->bytes,
           w->from + locate_row(w, find_length(w, n) - 1, n), (size_t)w->bytes);
  return TN_OK;
}

int32_t nn_sequence_last(const tn_frame *call) {
  const tn_tensor *data = &call->in[IN_DATA], *out = &call->out[0];
  sequence_work w;
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = open_work(call, nn_read_last_options(call), data, 1, &w);
  if (code != TN_OK || tn_tensor_size(out) == 0) return code;
  if (w.s.steps == 0)
    return TN_FAIL(call, TN_SHAPE, "`data` %s has no step, so none is the last",
                   nn_print_shape(data).text);
  w.from = data->data;
  w.to = out->data;
  return nn_run_parallel(call, w.s.batch, w.s.inner, last_slice, &w);
}

/* Writes steps [begin, end) of the gradient: zeros, but for last steps. */
static int32_t last_gradient_slice(void *arg, int64_t begin, int64_t end) {
  const sequence_work *w = arg;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t n = 0; n < w->s.batch; ++n) {
      char *to = w->to + locate_row(w, t, n);
      if (t == find_length(w, n) - 1)
        memcpy(to, w->from + n * w->bytes, (size_t)w->bytes);
      else
        memset(to, 0, (size_t)w->bytes);
    }
  return TN_OK;
}

int32_t nn_sequence_last_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[IN_DATA];
  sequence_work w;
  if (call->req[IN_DATA] == TN_REQ_NULL) return TN_OK;
  const int32_t code = open_work(call, nn_read_last_options(call), to, 1, &w);
  if (code != TN_OK || tn_tensor_size(to) == 0) return code;
  w.from = call->in[GRAD_OUT].data;
  w.to = to->data;
  return nn_run_parallel(call, w.s.steps, w.s.batch * w.s.inner,
                         last_gradient_slice, &w);
}
