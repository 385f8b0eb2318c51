/* SPDX-License-Identifier: Apache-2.0
 * softmax_output.c: shapes and kernels of softmax_output.yaml. Every form of it
 * is a tensor outer x classes x places: a softmax for each of outer and places.
 */
#include "softmax_output.gen.h"

#include <string.h>

#include "nn.h"
#include "tenon/kernel.h"

/* ------------------------------------------------------------------ shapes */

static int32_t state(const tn_frame *call, uint32_t index, int32_t ndim,
                     const int64_t *shape) {
  return call->host->set_shape(call, TN_OPERAND_IN, index, ndim, shape);
}

/* The dimension of data that dimension d of a label of class numbers is. */
static int32_t data_dim(const nn_softmax_output_params *p, int32_t d) {
  return p->multi_output && d > 0 ? d + 1 : d;
}

/* How many dimensions such a label has. */
static int32_t label_rank(const nn_softmax_output_params *p, int32_t ndim) {
  return p->multi_output || p->preserve_shape ? ndim - 1 : 1;
}

static int32_t refuse_label(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`label` %s has neither a class number for each softmax of "
                 "`data` %s nor its probabilities",
                 nn_shape(&call->in[NN_SOFTMAX_OUTPUT_IN_LABEL]).text,
                 nn_shape(&call->in[NN_SOFTMAX_OUTPUT_IN_DATA]).text);
}

/* Data and label know the same dimensions. */
static int32_t infer_classes(const tn_frame *call) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  const tn_tensor *data = &call->in[NN_SOFTMAX_OUTPUT_IN_DATA];
  const tn_tensor *label = &call->in[NN_SOFTMAX_OUTPUT_IN_LABEL];
  const int32_t ndim = label_rank(p, data->ndim);
  int64_t known[TN_MAX_NDIM], shape[TN_MAX_NDIM];
  if (label->ndim >= 0 && label->ndim != ndim) return refuse_label(call);
  memcpy(known, data->shape, (size_t)data->ndim * sizeof *known);
  for (int32_t d = 0; d < ndim; ++d) {
    const int32_t same = data_dim(p, d);
    if (label->ndim == ndim && label->shape[d] >= 0) {
      if (known[same] >= 0 && known[same] != label->shape[d])
        return refuse_label(call);
      known[same] = label->shape[d];
    }
    shape[d] = known[same];
  }
  const int32_t code = state(call, NN_SOFTMAX_OUTPUT_IN_LABEL, ndim, shape);
  if (code != TN_OK) return code;
  return state(call, NN_SOFTMAX_OUTPUT_IN_DATA, data->ndim, known);
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
  if (label->ndim != data->ndim) return infer_classes(call);
  const int32_t code =
      state(call, NN_SOFTMAX_OUTPUT_IN_LABEL, data->ndim, data->shape);
  if (code != TN_OK) return code;
  return state(call, NN_SOFTMAX_OUTPUT_IN_DATA, label->ndim, label->shape);
}

/* ------------------------------------------------------------------- loops */

enum {
  FEW = 32,     /* classes of rows that are computed side by side */
  CHUNK = 256,  /* places, or elements, that are looked at together */
  NONE = -1,    /* no class */
  IGNORED = -2, /* no class, and no gradient */
};

typedef struct extent {
  int64_t outer;
  int64_t classes;
  int64_t places;
} extent;

/* What a gradient is the way to. */
typedef struct goals {
  extent extent;
  const int32_t *chosen; /* class, NONE or IGNORED of each place */
  double hit;            /* what is wanted of the class */
  double miss;           /* and of the others */
  double factor;
} goals;

/* TN_KERNEL_LEVELS of a name that is a macro itself. */
#define LEVELS(name) TN_KERNEL_LEVELS(name)

#define REAL float
#define BITS int32_t
#define NAME(x) x##_f32
#define exponential_f32 tn_math_exp_f32
#include "softmax_rows.h"

#define REAL double
#define BITS int64_t
#define NAME(x) x##_f64
#define exponential_f64 tn_math_exp_f64
#include "softmax_rows.h"

static extent extent_of(const tn_frame *call, const tn_tensor *data) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(call);
  extent e = {1, 1, 1};
  int32_t at = p->preserve_shape ? data->ndim - 1 : 1;
  if (p->multi_output) at = 1;
  for (int32_t d = 0; d < data->ndim; ++d) {
    if (d < at)
      e.outer *= data->shape[d];
    else if (d == at || !p->multi_output)
      e.classes *= data->shape[d];
    else
      e.places *= data->shape[d];
  }
  return e;
}

/* One function for both types and all levels. */
typedef struct loop_pair {
  tn_kernel_bodies f32;
  tn_kernel_bodies f64;
} loop_pair;

#define LOOPS(name) \
  { TN_KERNEL_BODIES(name##_f32), TN_KERNEL_BODIES(name##_f64) }

/* A call in f32 or f64. */
typedef struct work {
  const tn_frame *call;
  extent extent;
  tn_dtype dtype;
  uint32_t level;
  int64_t bytes; /* of an element */
  const char *from;
  char *to;
  const char *head;       /* gradient of out, or NULL */
  const tn_tensor *label; /* of a gradient */
  int is_soft;            /* labels are probabilities */
  goals goals;            /* but for `chosen` */
} work;

static void run(const work *w, const loop_pair *loops,
                const tn_kernel_block *block, const void *params) {
  const tn_kernel_bodies *bodies =
      w->dtype == TN_F32 ? &loops->f32 : &loops->f64;
  tn_kernel_body_at(bodies, w->level)(block, params);
}

/* Runs `body` over pieces of the outer dimension, and of places if there are
 * more than one, with about the grain of other loops. */
static int32_t run_all(const work *w, tn_loop_body *body, int64_t pieces) {
  const int64_t size = w->extent.outer * w->extent.classes * w->extent.places;
  const int64_t each = pieces > 0 ? size / pieces : 0;
  if (size == 0) return TN_OK;
  if (size <= TN_KERNEL_GRAIN) return body((void *)(uintptr_t)w, 0, pieces);
  return w->call->host->parallel_for(
      w->call, pieces, each > 0 ? (TN_KERNEL_GRAIN + each - 1) / each : 1, body,
      (void *)(uintptr_t)w);
}

/* Pieces of CHUNK places of one softmax after the other. */
static int64_t chunks(const extent *e) {
  return (e->places + CHUNK - 1) / CHUNK;
}

/* Where piece `i` begins, and how many places it has. */
static int64_t piece(const extent *e, int64_t i, int64_t *n) {
  const int64_t outer = i / chunks(e), at = i % chunks(e) * CHUNK;
  *n = e->places - at < CHUNK ? e->places - at : CHUNK;
  return outer * e->classes * e->places + at;
}

/* ----------------------------------------------------------------- forward */

static int32_t forward_rows(void *arg, int64_t begin, int64_t end) {
  static const loop_pair loops = LOOPS(rows);
  const work *w = arg;
  const int64_t skip = begin * w->extent.classes * w->bytes;
  const tn_kernel_block block = {
      .n = end - begin, .out = w->to + skip, .in = {w->from + skip}};
  run(w, &loops, &block, &w->extent);
  return TN_OK;
}

static int32_t forward_columns(void *arg, int64_t begin, int64_t end) {
  static const loop_pair loops = LOOPS(columns);
  const work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = 0;
    const int64_t skip = piece(&w->extent, i, &n) * w->bytes;
    const tn_kernel_block block = {
        .n = n, .out = w->to + skip, .in = {w->from + skip}};
    run(w, &loops, &block, &w->extent);
  }
  return TN_OK;
}

static int32_t forward(const work *w) {
  const extent *e = &w->extent;
  return e->places == 1 ? run_all(w, forward_rows, e->outer)
                        : run_all(w, forward_columns, e->outer * chunks(e));
}

/* ---------------------------------------------------------------- backward */

/* n labels from `at` on, as numbers. */
static void read_labels(const work *w, int64_t at, int64_t n, double *to) {
  const tn_kernel_mode mode = {TN_F64, w->level};
  const char *from =
      (const char *)w->label->data + at * tn_dtype_bytes(w->label->dtype);
  tn_kernel_load_dense(to, &mode, from, w->label->dtype, n);
}

/* The same as classes. */
static void read_classes(const work *w, int64_t at, int64_t n, int32_t *to) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(w->call);
  double label[CHUNK];
  read_labels(w, at, n, label);
  for (int64_t i = 0; i < n; ++i) {
    const double number = label[i];
    to[i] = number >= 0 && number < (double)w->extent.classes ? (int32_t)number
                                                              : NONE;
    if (p->use_ignore && number == p->ignore_label) to[i] = IGNORED;
  }
}

/* Multiplies n elements from `at` on with the gradient of out, if it counts. */
static void apply_head(const work *w, int64_t at, int64_t n) {
  static const loop_pair loops = LOOPS(times);
  const tn_kernel_block block = {
      .n = n, .out = w->to + at * w->bytes, .in = {w->head + at * w->bytes}};
  if (w->head) run(w, &loops, &block, NULL);
}

static int32_t backward_rows(void *arg, int64_t begin, int64_t end) {
  static const loop_pair loops = LOOPS(slope);
  const work *w = arg;
  const int64_t classes = w->extent.classes;
  int32_t chosen[CHUNK];
  goals goal = w->goals;
  goal.chosen = chosen;
  for (int64_t r = begin; r < end; r += CHUNK) {
    const int64_t n = end - r < CHUNK ? end - r : CHUNK;
    const int64_t skip = r * classes * w->bytes;
    const tn_kernel_block block = {
        .n = n, .out = w->to + skip, .in = {w->from + skip}};
    read_classes(w, r, n, chosen);
    run(w, &loops, &block, &goal);
    apply_head(w, r * classes, n * classes);
  }
  return TN_OK;
}

static int32_t backward_columns(void *arg, int64_t begin, int64_t end) {
  static const loop_pair loops = LOOPS(slopes);
  const work *w = arg;
  const extent *e = &w->extent;
  int32_t chosen[CHUNK];
  goals goal = w->goals;
  goal.chosen = chosen;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = 0;
    const int64_t at = piece(e, i, &n);
    const tn_kernel_block block = {
        .n = n, .out = w->to + at * w->bytes, .in = {w->from + at * w->bytes}};
    read_classes(w, i / chunks(e) * e->places + i % chunks(e) * CHUNK, n,
                 chosen);
    run(w, &loops, &block, &goal);
    for (int64_t k = 0; k < e->classes; ++k)
      apply_head(w, at + k * e->places, n);
  }
  return TN_OK;
}

/* Elements [begin, end), whatever their softmax. */
static int32_t backward_soft(void *arg, int64_t begin, int64_t end) {
  static const loop_pair loops = LOOPS(distance);
  const work *w = arg;
  double label[CHUNK];
  for (int64_t i = begin; i < end; i += CHUNK) {
    const int64_t n = end - i < CHUNK ? end - i : CHUNK;
    const tn_kernel_block block = {.n = n,
                                   .out = w->to + i * w->bytes,
                                   .in = {w->from + i * w->bytes, label}};
    read_labels(w, i, n, label);
    run(w, &loops, &block, &w->goals);
    apply_head(w, i, n);
  }
  return TN_OK;
}

/* Labels that are not ignore_label, at least 1. Of probabilities all count. */
static double count_valid(const work *w) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(w->call);
  const int64_t size = w->extent.outer * w->extent.places;
  int64_t n = w->is_soft ? size : 0;
  double label[CHUNK];
  for (int64_t at = 0; at < size && !w->is_soft; at += CHUNK) {
    const int64_t some = size - at < CHUNK ? size - at : CHUNK;
    read_labels(w, at, some, label);
    for (int64_t i = 0; i < some; ++i) n += label[i] != p->ignore_label;
  }
  return n > 0 ? (double)n : 1;
}

static void set_goals(work *w) {
  const nn_softmax_output_params *p = nn_softmax_output_params_of(w->call);
  const extent *e = &w->extent;
  double divisor = 1;
  if (p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_VALID)
    divisor = count_valid(w);
  else if (!w->is_soft)
    divisor = (double)(e->places > 0 ? e->places : 1);
  if (p->normalization == NN_SOFTMAX_OUTPUT_NORMALIZATION_BATCH)
    divisor *= (double)(e->outer > 0 ? e->outer : 1);
  w->goals = (goals){
      .extent = *e,
      .hit = e->classes > 1 ? 1 - p->smooth_alpha : 1,
      .miss = e->classes > 1 ? p->smooth_alpha / (double)(e->classes - 1) : 0,
      .factor = p->grad_scale / divisor};
}

static int32_t backward(work *w) {
  const extent *e = &w->extent;
  if (e->classes > INT32_MAX)
    return TN_FAIL(w->call, TN_UNSUPPORTED, "%lld classes are more than 2^31",
                   (long long)e->classes);
  set_goals(w);
  if (w->is_soft)
    return run_all(w, backward_soft, e->outer * e->classes * e->places);
  return e->places == 1 ? run_all(w, backward_rows, e->outer)
                        : run_all(w, backward_columns, e->outer * chunks(e));
}

/* ------------------------------------------------------------------- calls */

static uint64_t widened_bytes(const tn_tensor *tensor) {
  const uint64_t bytes = (uint64_t)tn_tensor_size(tensor) * sizeof(float);
  return (bytes + 63) / 64 * 64;
}

/* Forward computes in place; backward has p, its result and a head. */
int32_t nn_softmax_output_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 3 : 1;
  *bytes = 64 + n * widened_bytes(&call->out[0]);
  return TN_OK;
}

static work work_of(const tn_frame *call, const tn_tensor *like) {
  const tn_dtype dtype = tn_kernel_compute(like->dtype);
  return (work){.call = call,
                .extent = extent_of(call, like),
                .dtype = dtype,
                .level = tn_kernel_level(call),
                .bytes = tn_dtype_bytes(dtype)};
}

/* An operand's elements in the type to compute in, in part `part` of the
 * workspace if that is not its own. */
static char *widen(const work *w, const tn_tensor *tensor, int part) {
  const tn_kernel_mode mode = {w->dtype, w->level};
  if (tensor->dtype == w->dtype || !tensor->data) return tensor->data;
  char *to = (char *)w->call->ws[0] + (uint64_t)part * widened_bytes(tensor);
  tn_kernel_load_dense(to, &mode, tensor->data, tensor->dtype,
                       tn_tensor_size(tensor));
  return to;
}

/* Rounds what was computed elsewhere. */
static void narrow(const work *w) {
  const tn_kernel_mode mode = {w->dtype, w->level};
  const tn_tensor *out = &w->call->out[0];
  if (out->dtype != w->dtype)
    tn_kernel_store_dense(out->data, out->dtype, w->to, &mode,
                          tn_tensor_size(out));
}

static int32_t run_forward(const tn_frame *call) {
  const tn_tensor *out = &call->out[0];
  work w = work_of(call, out);
  w.from = widen(&w, &call->in[NN_SOFTMAX_OUTPUT_IN_DATA], 0);
  w.to = out->dtype == w.dtype ? out->data : call->ws[0];
  const int32_t code = forward(&w);
  if (code == TN_OK) narrow(&w);
  return code;
}

int32_t nn_softmax_output(const tn_frame *call) {
  return tn_tensor_size(&call->out[0]) > 0 ? run_forward(call) : TN_OK;
}

static int32_t run_backward(const tn_frame *call) {
  const tn_tensor *p = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_OUT_OUT];
  const tn_tensor *to = &call->out[NN_SOFTMAX_OUTPUT_IN_DATA];
  work w = work_of(call, p);
  w.label = &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_IN_LABEL];
  w.is_soft = w.label->ndim == p->ndim;
  w.from = widen(&w, p, 0);
  w.to =
      to->dtype == w.dtype ? to->data : (char *)call->ws[0] + widened_bytes(p);
  if (nn_softmax_output_params_of(call)->out_grad)
    w.head = widen(&w, &call->in[NN_SOFTMAX_OUTPUT_BACKWARD_GRAD_OUT], 2);
  const int32_t code = backward(&w);
  if (code == TN_OK) narrow(&w);
  return code;
}

int32_t nn_softmax_output_backward(const tn_frame *call) {
  if (call->req[NN_SOFTMAX_OUTPUT_IN_DATA] == TN_REQ_NULL) return TN_OK;
  return tn_tensor_size(&call->out[0]) > 0 ? run_backward(call) : TN_OK;
}
