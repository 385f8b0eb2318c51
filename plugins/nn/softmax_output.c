/* SPDX-License-Identifier: Apache-2.0
 * softmax_output.c: shapes and kernels of softmax_output.yaml. Every form of it
 * is a tensor outer x classes x places: a softmax for each of outer and places.
 */
#include "softmax_output.gen.h"

#include <string.h>

#include "nn.h"
#include "softmax.h"

/* ------------------------------------------------------------------ shapes */

/* Reports the inferred shape of input `index` to the host. */
static int32_t set_input_shape(const tn_frame *call, uint32_t index,
                               int32_t ndim, const int64_t *shape) {
  return call->host->set_shape(call, TN_OPERAND_IN, index, ndim, shape);
}

/* Returns the dimension of data that has the length of dimension d of a label
 * with class numbers. */
static int32_t find_data_dim(const nn_softmax_output_params *p, int32_t d) {
  return p->multi_output && d > 0 ? d + 1 : d;
}

/* Returns the rank of a label with class numbers, for data of rank ndim. */
static int32_t find_label_rank(const nn_softmax_output_params *p,
                               int32_t ndim) {
  return p->multi_output || p->preserve_shape ? ndim - 1 : 1;
}

/* Reports a label that has neither class numbers nor probabilities. Returns
 * the failure. */
static int32_t refuse_label(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`label` %s has neither a class number for each softmax of "
                 "`data` %s nor its probabilities",
                 nn_print_shape(&call->in[NN_SOFTMAX_OUTPUT_IN_LABEL]).text,
                 nn_print_shape(&call->in[NN_SOFTMAX_OUTPUT_IN_DATA]).text);
}

/* Merges the dimensions of data and of a label with class numbers. */
static int32_t infer_class_numbers(const tn_frame *call) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  const tn_tensor *data = &call->in[NN_SOFTMAX_OUTPUT_IN_DATA];
  const tn_tensor *label = &call->in[NN_SOFTMAX_OUTPUT_IN_LABEL];
  const int32_t ndim = find_label_rank(p, data->ndim);
  int64_t known[TN_MAX_NDIM], shape[TN_MAX_NDIM];
  if (label->ndim >= 0 && label->ndim != ndim) return refuse_label(call);
  memcpy(known, data->shape, (size_t)data->ndim * sizeof *known);
  for (int32_t d = 0; d < ndim; ++d) {
    const int32_t same = find_data_dim(p, d);
    if (label->ndim == ndim && label->shape[d] >= 0) {
      if (known[same] >= 0 && known[same] != label->shape[d])
        return refuse_label(call);
      known[same] = label->shape[d];
    }
    shape[d] = known[same];
  }
  const int32_t code =
      set_input_shape(call, NN_SOFTMAX_OUTPUT_IN_LABEL, ndim, shape);
  if (code != TN_OK) return code;
  return set_input_shape(call, NN_SOFTMAX_OUTPUT_IN_DATA, data->ndim, known);
}

int32_t nn_softmax_output_infer(const tn_frame *call) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  const tn_tensor *data = &call->in[NN_SOFTMAX_OUTPUT_IN_DATA];
  const tn_tensor *label = &call->in[NN_SOFTMAX_OUTPUT_IN_LABEL];
  const int32_t least = p->preserve_shape && !p->multi_output ? 1 : 2;
  if (data->ndim < 0) return TN_OK;
  if (data->ndim < least)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` has rank %d, but its classes are in dimension %d",
                   (int)data->ndim, (int)least - 1);
  /* Class numbers are the default, and probabilities are allowed. */
  if (label->ndim < 0 && !(call->flags & TN_CALL_DEFAULTS)) return TN_OK;
  if (label->ndim != data->ndim) return infer_class_numbers(call);
  const int32_t code = set_input_shape(call, NN_SOFTMAX_OUTPUT_IN_LABEL,
                                       data->ndim, data->shape);
  if (code != TN_OK) return code;
  return set_input_shape(call, NN_SOFTMAX_OUTPUT_IN_DATA, label->ndim,
                         label->shape);
}

/* ------------------------------------------------------------------- loops */

enum {
  CHUNK = NN_CHUNK, /* positions, or elements, in one step */
  NONE = -1,        /* no class */
  IGNORED = -2,     /* no class, and the gradient is 0 */
};

/* The target probabilities. The gradient is the difference of softmax and
 * target, times `factor`. */
typedef struct targets {
  nn_axis_shape axis_shape;
  const int32_t *chosen; /* class number, NONE or IGNORED of each position */
  double label_target;   /* target of the label's class */
  double
      other_target; /* target of the other classes, if the label is a class */
  double factor;
} targets;

#define REAL float
#define NAME(x) x##_f32
#include "softmax_output_loops.h"

#define REAL double
#define NAME(x) x##_f64
#include "softmax_output_loops.h"

/* Returns the shape of data around its axis of classes. */
static nn_axis_shape find_axis_shape(const tn_frame *call,
                                     const tn_tensor *data) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  const int32_t last = data->ndim - 1;
  if (p->multi_output) return nn_axis_find_shape(data, 1, 1);
  return nn_axis_find_shape(data, p->preserve_shape ? last : 1, last);
}

/* The state of a backward call in f32 or f64. */
typedef struct output_work {
  const tn_frame *call;
  nn_axis_shape axis_shape;
  tn_kernel_mode mode;
  int64_t bytes; /* bytes of an element */
  const char *from;
  char *to;
  const char *out_gradient; /* gradient of out, or NULL */
  const tn_tensor *label;
  int is_soft;     /* labels are probabilities */
  targets targets; /* targets without `chosen` */
} output_work;

/* ---------------------------------------------------------------- backward */

/* Reads n labels from `at` on as f64. */
static void read_labels(const output_work *w, int64_t at, int64_t n,
                        double *to) {
  const tn_kernel_mode mode = {TN_F64, w->mode.level};
  const char *from =
      (const char *)w->label->data + at * tn_dtype_bytes(w->label->dtype);
  tn_kernel_load_dense(to, &mode, from, w->label->dtype, n);
}

/* Reads n labels from `at` on as class numbers, NONE or IGNORED. */
static void read_classes(const output_work *w, int64_t at, int64_t n,
                         int32_t *to) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(w->call);
  double label[CHUNK];
  read_labels(w, at, n, label);
  for (int64_t i = 0; i < n; ++i) {
    const double number = label[i];
    to[i] = number >= 0 && number < (double)w->axis_shape.length
                ? (int32_t)number
                : NONE;
    if (p->use_ignore && number == p->ignore_label) to[i] = IGNORED;
  }
}

/* Multiplies n elements from `at` on by the output gradient, unless it is
 * absent. */
static void multiply_by_head(const output_work *w, int64_t at, int64_t n) {
  static const nn_loops loops = NN_LOOPS(multiply_elements);
  if (w->out_gradient == NULL) return;
  const tn_kernel_block block = {.n = n,
                                 .out = w->to + at * w->bytes,
                                 .in = {w->out_gradient + at * w->bytes}};
  nn_run_loop(&w->mode, &loops, &block, NULL);
}

/* Computes the gradients of rows [begin, end). */
static int32_t compute_row_gradients(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(write_row_gradients);
  const output_work *w = arg;
  const int64_t classes = w->axis_shape.length;
  int32_t chosen[CHUNK];
  targets target = w->targets;
  target.chosen = chosen;
  for (int64_t r = begin; r < end; r += CHUNK) {
    const int64_t n = end - r < CHUNK ? end - r : CHUNK;
    const int64_t skip = r * classes * w->bytes;
    const tn_kernel_block block = {
        .n = n, .out = w->to + skip, .in = {w->from + skip}};
    read_classes(w, r, n, chosen);
    nn_run_loop(&w->mode, &loops, &block, &target);
    multiply_by_head(w, r * classes, n * classes);
  }
  return TN_OK;
}

/* Computes the gradients of pieces [begin, end) of columns. */
static int32_t compute_column_gradients(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(write_column_gradients);
  const output_work *w = arg;
  const nn_axis_shape *e = &w->axis_shape;
  int32_t chosen[CHUNK];
  targets target = w->targets;
  target.chosen = chosen;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = 0;
    const int64_t at = nn_locate_column_piece(e, i, &n);
    const tn_kernel_block block = {
        .n = n, .out = w->to + at * w->bytes, .in = {w->from + at * w->bytes}};
    read_classes(w, at / (e->length * e->inner) * e->inner + at % e->inner, n,
                 chosen);
    nn_run_loop(&w->mode, &loops, &block, &target);
    for (int64_t k = 0; k < e->length; ++k)
      multiply_by_head(w, at + k * e->inner, n);
  }
  return TN_OK;
}

/* Computes the gradient of elements [begin, end) for labels that are
 * probabilities. */
static int32_t compute_probability_gradients(void *arg, int64_t begin,
                                             int64_t end) {
  static const nn_loops loops = NN_LOOPS(write_soft_gradients);
  const output_work *w = arg;
  double label[CHUNK];
  for (int64_t i = begin; i < end; i += CHUNK) {
    const int64_t n = end - i < CHUNK ? end - i : CHUNK;
    const tn_kernel_block block = {.n = n,
                                   .out = w->to + i * w->bytes,
                                   .in = {w->from + i * w->bytes, label}};
    read_labels(w, i, n, label);
    nn_run_loop(&w->mode, &loops, &block, &w->targets);
    multiply_by_head(w, i, n);
  }
  return TN_OK;
}

/* Returns the number of labels other than ignore_label, at least 1.
 * Probabilities are never ignored. */
static double count_valid_labels(const output_work *w) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(w->call);
  const int64_t size = w->axis_shape.outer * w->axis_shape.inner;
  int64_t n = w->is_soft ? size : 0;
  double label[CHUNK];
  for (int64_t at = 0; at < size && !w->is_soft; at += CHUNK) {
    const int64_t n_part = size - at < CHUNK ? size - at : CHUNK;
    read_labels(w, at, n_part, label);
    for (int64_t i = 0; i < n_part; ++i) n += label[i] != p->ignore_label;
  }
  return n > 0 ? (double)n : 1;
}

/* Computes the targets of classes and the factor of gradients from the
 * parameters. */
static void set_targets(output_work *w) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(w->call);
  const nn_axis_shape *e = &w->axis_shape;
  double divisor = 1;
  if (p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_VALID)
    divisor = count_valid_labels(w);
  else if (!w->is_soft)
    divisor = (double)(e->inner > 0 ? e->inner : 1);
  if (p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_BATCH)
    divisor *= (double)(e->outer > 0 ? e->outer : 1);
  w->targets = (targets){
      .axis_shape = *e,
      .label_target = e->length > 1 ? 1 - p->smooth_alpha : 1,
      .other_target =
          e->length > 1 ? p->smooth_alpha / (double)(e->length - 1) : 0,
      .factor = p->grad_scale / divisor};
}

/* Computes the gradient of data in parallel. */
static int32_t run_gradient(output_work *w) {
  const nn_axis_shape *e = &w->axis_shape;
  if (e->length > INT32_MAX)
    return TN_FAIL(w->call, TN_UNSUPPORTED, "%lld classes are more than 2^31",
                   (long long)e->length);
  set_targets(w);
  const int64_t wide = e->inner < CHUNK ? e->inner : CHUNK;
  if (w->is_soft)
    return nn_run_parallel(w->call, nn_axis_count_elements(e), 1,
                           compute_probability_gradients, w);
  return e->inner == 1
             ? nn_run_parallel(w->call, e->outer, e->length,
                               compute_row_gradients, w)
             : nn_run_parallel(w->call, nn_count_column_pieces(e),
                               e->length * wide, compute_column_gradients, w);
}

/* ------------------------------------------------------------------- calls */

/* Sets *bytes to the size of the workspace for converted operands: two
 * forward; backward the softmax, output gradient and result. */
int32_t nn_softmax_output_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 3 : 2;
  *bytes = n * nn_count_wide_bytes(&call->out[0]);
  return TN_OK;
}

int32_t nn_softmax_output(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  nn_wide_operands wide = nn_open_wide_operands(call, out->dtype, 0);
  const nn_softmax s = {.call = call,
                        .axis_shape = find_axis_shape(call, out),
                        .mode = wide.mode,
                        .factor = 1};
  void *to = nn_locate_wide_output(&wide, out, call->req[0]);
  const void *in = nn_widen_input(&wide, &call->in[NN_SOFTMAX_OUTPUT_IN_DATA]);
  const int32_t code = nn_softmax_forward(&s, in, to);
  if (code == TN_OK) nn_store_wide_output(&wide, out, to);
  return code;
}

/* Prepares the operands of a backward call, and computes the gradient of data.
 */
static int32_t run_backward(const tn_frame *call) {
  const tn_tensor *p = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_OUT_OUT];
  const tn_tensor *to = &call->out[NN_SOFTMAX_OUTPUT_IN_DATA];
  nn_wide_operands wide = nn_open_wide_operands(call, to->dtype, 0);
  output_work w = {
      .call = call, .axis_shape = find_axis_shape(call, p), .mode = wide.mode};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  w.label = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_IN_LABEL];
  w.is_soft = w.label->ndim == p->ndim;
  w.from = nn_widen_input(&wide, p);
  w.to = nn_locate_wide_output(&wide, to, TN_REQ_WRITE);
  if (nn_softmax_output_params_of(call)->out_grad)
    w.out_gradient =
        nn_widen_input(&wide, &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_GRAD_OUT]);
  const int32_t code = run_gradient(&w);
  if (code == TN_OK) nn_store_wide_output(&wide, to, w.to);
  return code;
}

int32_t nn_softmax_output_backward(const tn_frame *call) {
  if (call->req[NN_SOFTMAX_OUTPUT_IN_DATA] == TN_REQ_NULL) return TN_OK;
  return tn_tensor_size(&call->out[0]) > 0 ? run_backward(call) : TN_OK;
}
