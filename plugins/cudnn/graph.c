/* SPDX-License-Identifier: Apache-2.0
 * graph.c: a task as a cuDNN graph: arrays, operations on them, and a plan. The
 * plan uses the first engine of the heuristics that keeps the promises of the
 * operator.
 */
#include <stdlib.h>
#include <string.h>

#include "kit.h"

/* -------------------------------------------------------------- operations */

static dnn_descriptor describe_windows(cudnn_builder *b) {
  const cudnn_task *t = b->task;
  const int type = cudnn_wide_type(t), mode = DNN_CROSS_CORRELATION;
  const dnn_descriptor out = cudnn_begin(b, DNN_CONVOLUTION);
  cudnn_set(b, out, DNN_CONV_PRECISION, DNN_DATA_TYPE, &type);
  cudnn_set(b, out, DNN_CONV_MODE, DNN_CONVOLUTION_MODE, &mode);
  cudnn_set(b, out, DNN_CONV_RANK, DNN_INT64, &t->rank);
  cudnn_set_list(b, out, DNN_CONV_STRIDES, t->rank, t->stride);
  cudnn_set_list(b, out, DNN_CONV_DILATIONS, t->rank, t->dilate);
  cudnn_set_list(b, out, DNN_CONV_PADS_BEFORE, t->rank, t->pad);
  cudnn_set_list(b, out, DNN_CONV_PADS_BEHIND, t->rank, t->pad_behind);
  return cudnn_end(b, out);
}

/* The attributes of an operation, by CUDNN_FORWARD, CUDNN_DATA, CUDNN_WEIGHT.
 */
typedef struct names {
  int descriptor, alpha, beta, conv, data, weight, out;
} names;

static const names all_names[] = {
    {DNN_OP_FORWARD, DNN_FORWARD_ALPHA, DNN_FORWARD_BETA, DNN_FORWARD_CONV,
     DNN_FORWARD_X, DNN_FORWARD_W, DNN_FORWARD_Y},
    {DNN_OP_DATA, DNN_DATA_ALPHA, DNN_DATA_BETA, DNN_DATA_CONV, DNN_DATA_DX,
     DNN_DATA_W, DNN_DATA_DY},
    {DNN_OP_WEIGHT, DNN_WEIGHT_ALPHA, DNN_WEIGHT_BETA, DNN_WEIGHT_CONV,
     DNN_WEIGHT_X, DNN_WEIGHT_DW, DNN_WEIGHT_DY},
};

static void set_factors(cudnn_builder *b, dnn_descriptor to, const names *n) {
  const double beta = b->task->flags & CUDNN_ADD ? 1 : 0, one = 1;
  const float beta_single = (float)beta, one_single = 1;
  const int is_wide = b->task->dtype == TN_F64;
  const int type = is_wide ? DNN_DOUBLE : DNN_FLOAT;
  cudnn_set(b, to, n->alpha, type, is_wide ? (const void *)&one : &one_single);
  cudnn_set(b, to, n->beta, type, is_wide ? (const void *)&beta : &beta_single);
}

static dnn_descriptor add_convolution(cudnn_builder *b, dnn_descriptor out) {
  const names *n = &all_names[b->task->what];
  const dnn_descriptor data = cudnn_tensor(b, CUDNN_ID_DATA, b->task->data);
  const dnn_descriptor weight =
      cudnn_tensor(b, CUDNN_ID_WEIGHT, b->task->weight);
  const dnn_descriptor how = describe_windows(b);
  const dnn_descriptor op = cudnn_begin(b, n->descriptor);
  set_factors(b, op, n);
  cudnn_set_part(b, op, n->conv, how);
  cudnn_set_part(b, op, n->data, data);
  cudnn_set_part(b, op, n->weight, weight);
  cudnn_set_part(b, op, n->out, out);
  return cudnn_end(b, op);
}

static dnn_descriptor add_addition(cudnn_builder *b, dnn_descriptor x,
                                   dnn_descriptor y) {
  const int64_t dims[CUDNN_MOST_DIMS] = {1, b->task->out[1], 1, 1, 1};
  const dnn_descriptor bias = cudnn_tensor(b, CUDNN_ID_BIAS, dims);
  return cudnn_pointwise(b, DNN_POINTWISE_ADD, x, bias, y);
}

/* The largest element or the mean of each window; NaN propagates. */
static dnn_descriptor describe_pool(cudnn_builder *b) {
  const cudnn_task *t = b->task;
  const int is_max = (t->flags & CUDNN_MAX) != 0;
  const int type = cudnn_wide_type(t), passes_nan = 1;
  const int mode = is_max                    ? DNN_POOL_MAX
                   : t->flags & CUDNN_INSIDE ? DNN_POOL_MEAN_INSIDE
                                             : DNN_POOL_MEAN;
  const int padding = is_max ? DNN_PAD_NEGATIVE_INFINITY : DNN_PAD_ZERO;
  const dnn_descriptor out = cudnn_begin(b, DNN_RESAMPLE);
  cudnn_set(b, out, DNN_RESAMPLE_MODE_OF, DNN_RESAMPLE_MODE, &mode);
  cudnn_set(b, out, DNN_RESAMPLE_PRECISION, DNN_DATA_TYPE, &type);
  cudnn_set(b, out, DNN_RESAMPLE_NAN, DNN_NAN, &passes_nan);
  cudnn_set(b, out, DNN_RESAMPLE_PADDING, DNN_PADDING_MODE, &padding);
  cudnn_set(b, out, DNN_RESAMPLE_RANK, DNN_INT64, &t->rank);
  cudnn_set_list(b, out, DNN_RESAMPLE_WINDOW, t->rank, t->weight + 2);
  cudnn_set_list(b, out, DNN_RESAMPLE_STRIDES, t->rank, t->stride);
  cudnn_set_list(b, out, DNN_RESAMPLE_PADS_BEFORE, t->rank, t->pad);
  cudnn_set_list(b, out, DNN_RESAMPLE_PADS_BEHIND, t->rank, t->pad_behind);
  return cudnn_end(b, out);
}

static dnn_descriptor add_pooling(cudnn_builder *b, dnn_descriptor out) {
  const int forward = b->task->what == CUDNN_POOL;
  const dnn_descriptor data = cudnn_tensor(b, CUDNN_ID_DATA, b->task->data);
  const dnn_descriptor how = describe_pool(b);
  const dnn_descriptor op =
      cudnn_begin(b, forward ? DNN_OP_POOL : DNN_OP_POOL_DATA);
  cudnn_set_part(b, op, forward ? DNN_POOL_X : DNN_POOL_DX, data);
  cudnn_set_part(b, op, forward ? DNN_POOL_Y : DNN_POOL_DY, out);
  cudnn_set_part(b, op, forward ? DNN_POOL_OF : DNN_POOL_DATA_OF, how);
  return cudnn_end(b, op);
}

static int is_pooling(const cudnn_task *task) {
  return task->what == CUDNN_POOL || task->what == CUDNN_POOL_DATA;
}

/* Creates the operations of a task, each with the result of the one before as
 * input; returns their number. */
static int add_operations(cudnn_builder *b,
                          dnn_descriptor ops[CUDNN_MOST_OPS]) {
  const int64_t *shape = b->task->out;
  const int has_bias = (b->task->flags & CUDNN_BIAS) != 0;
  const int has_relu = (b->task->flags & CUDNN_RELU) != 0;
  const dnn_descriptor out = cudnn_tensor(b, CUDNN_ID_OUT, shape);
  dnn_descriptor sum = out, biased = out;
  int n = 0;
  if (has_bias || has_relu) sum = cudnn_tensor(b, CUDNN_ID_BETWEEN, shape);
  if (has_bias && has_relu) biased = cudnn_tensor(b, CUDNN_ID_BIASED, shape);
  ops[n++] =
      is_pooling(b->task) ? add_pooling(b, out) : add_convolution(b, sum);
  if (has_bias) ops[n++] = add_addition(b, sum, biased);
  if (has_relu)
    ops[n++] = cudnn_pointwise(b, DNN_POINTWISE_RELU, has_bias ? biased : sum,
                               NULL, out);
  return n;
}

static dnn_descriptor create_graph(cudnn_builder *b) {
  dnn_descriptor ops[CUDNN_MOST_OPS] = {NULL};
  const int n = b->task->what >= CUDNN_NORM ? cudnn_norm_operations(b, ops)
                                            : add_operations(b, ops);
  const dnn_descriptor all = cudnn_begin(b, DNN_GRAPH);
  if (b->target->handle)
    cudnn_set(b, all, DNN_GRAPH_HANDLE, DNN_HANDLE, &b->target->handle);
  if (b->status == DNN_OK)
    b->status = b->library->set(all, DNN_GRAPH_OPS, DNN_DESCRIPTOR, n, ops);
  return cudnn_end(b, all);
}

/* ----------------------------------------------------------------- engines */

/* Whether an engine might round factors in f32, because it multiplies matrices.
 * One engine compiles kernels for pointwise operations. Its notes mention
 * tensor cores, which it uses for other operations only; pointwise operations
 * state their precision themselves. */
static int may_round(const cudnn_task *t) {
  return t->what < CUDNN_NORM_KNOWN && t->dtype == TN_F32;
}

/* TF32 has the range of f32 and is allowed. An engine that converts its inputs
 * may convert them to halves, in which 65536 is infinite. */
static int rounds_too_much(const cudnn_task *t, int note) {
  return note == DNN_NOTE_DOWN_CONVERT ||
         (note == DNN_NOTE_TENSOR_CORE && !(t->flags & CUDNN_FAST));
}

/* Whether an engine keeps the promises: sums in f32 at least, exact products of
 * f32 unless rounding is allowed, and the same bits every time if requested. */
static int keeps_promises(const cudnn_task *t, const int *notes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (notes[i] == DNN_NOTE_REDUCED_SUMS) return 0;
    if (notes[i] == DNN_NOTE_NONDETERMINISTIC && (t->flags & CUDNN_SAME_BITS))
      return 0;
    if (may_round(t) && rounds_too_much(t, notes[i])) return 0;
  }
  return 1;
}

/* Whether the engine of a configuration is allowed; an engine that reports no
 * notes is not. */
static int is_allowed(const cudnn_builder *b, dnn_descriptor config) {
  const dnn_library *library = b->library;
  dnn_descriptor engine = NULL;
  int notes[DNN_N_NOTES], result = 0;
  int64_t n = 0;
  if (library->descriptor_create(DNN_ENGINE, &engine) != DNN_OK) return 0;
  if (library->get(config, DNN_CONFIG_ENGINE, DNN_DESCRIPTOR, 1, &n, &engine) ==
          DNN_OK &&
      library->get(engine, DNN_ENGINE_NOTES, DNN_NOTE, DNN_N_NOTES, &n,
                   notes) == DNN_OK)
    result = keeps_promises(b->task, notes, n < DNN_N_NOTES ? n : DNN_N_NOTES);
  (void)library->descriptor_destroy(engine);
  return result;
}

/* Creates a plan with a configuration; b->status says whether it succeeded. */
static dnn_descriptor plan_with(cudnn_builder *b, dnn_descriptor config) {
  const dnn_descriptor plan = cudnn_begin(b, DNN_PLAN);
  int64_t n = 0;
  if (b->target->handle)
    cudnn_set(b, plan, DNN_PLAN_HANDLE, DNN_HANDLE, &b->target->handle);
  else
    cudnn_set_part(b, plan, DNN_PLAN_DEVICE, b->target->properties);
  cudnn_set_part(b, plan, DNN_PLAN_CONFIG, config);
  (void)cudnn_end(b, plan);
  if (b->status == DNN_OK)
    b->status = b->library->get(plan, DNN_PLAN_WORKSPACE, DNN_INT64, 1, &n,
                                &b->made->workspace);
  if (b->status == DNN_OK && b->made->workspace > b->task->most_workspace)
    b->status = DNN_NOT_SUPPORTED;
  return plan;
}

/* Tries one configuration and destroys its descriptors after a failure. The
 * configuration becomes a part of the plan. */
static int try_config(cudnn_builder *b, dnn_descriptor config) {
  const int n_parts = b->made->n_parts;
  b->status = DNN_OK;
  const dnn_descriptor plan = plan_with(b, config);
  if (b->status == DNN_OK) {
    b->made->plan = plan;
    return 1;
  }
  while (b->made->n_parts > n_parts)
    (void)b->library->descriptor_destroy(b->made->parts[--b->made->n_parts]);
  return 0;
}

/* Whether an engine may be used and enough engines before it have been
 * skipped. */
static int is_next(cudnn_builder *b, dnn_descriptor config) {
  return is_allowed(b, config) && b->n_passed++ >= b->task->n_passed;
}

/* Creates a plan with the first usable configuration of a list; destroys all
 * others. */
static int try_all(cudnn_builder *b, dnn_descriptor *configs, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!found && is_next(b, configs[i]) && try_config(b, configs[i])) {
      b->made->parts[b->made->n_parts++] = configs[i];
      found = 1;
    } else {
      (void)b->library->descriptor_destroy(configs[i]);
    }
  }
  return found;
}

static dnn_descriptor query_heuristic(cudnn_builder *b, dnn_descriptor of,
                                      int mode) {
  const dnn_descriptor heuristics = cudnn_begin(b, DNN_HEURISTICS);
  cudnn_set_part(b, heuristics, DNN_HEURISTICS_GRAPH, of);
  cudnn_set(b, heuristics, DNN_HEURISTICS_MODE, DNN_HEUR_MODE, &mode);
  if (!b->target->handle)
    cudnn_set_part(b, heuristics, DNN_HEURISTICS_DEVICE, b->target->properties);
  return cudnn_end(b, heuristics);
}

/* Creates a descriptor for each result of the query; returns their number,
 * which is lower after a failure. */
static int64_t make_room(const cudnn_builder *b, dnn_descriptor *configs,
                         int64_t n) {
  int64_t i = 0;
  while (i < n &&
         b->library->descriptor_create(DNN_CONFIG, &configs[i]) == DNN_OK)
    ++i;
  return i;
}

static int try_answers(cudnn_builder *b, dnn_descriptor heuristics) {
  const dnn_library *library = b->library;
  int64_t n = 0, n_made = 0, n_found = 0;
  if (library->get(heuristics, DNN_HEURISTICS_RESULTS, DNN_DESCRIPTOR, 0, &n,
                   NULL) != DNN_OK ||
      n <= 0)
    return 0;
  dnn_descriptor *configs = calloc((size_t)n, sizeof *configs);
  if (!configs) return 0;
  n_made = make_room(b, configs, n);
  if (library->get(heuristics, DNN_HEURISTICS_RESULTS, DNN_DESCRIPTOR, n_made,
                   &n_found, configs) != DNN_OK)
    n_found = 0;
  while (n_made > n_found) (void)library->descriptor_destroy(configs[--n_made]);
  const int found = try_all(b, configs, n_made);
  free(configs);
  return found;
}

/* Tries the results of one heuristic: 1 if there is a plan. */
static int try_mode(cudnn_builder *b, dnn_descriptor of, int mode) {
  b->status = DNN_OK;
  const dnn_descriptor heuristics = query_heuristic(b, of, mode);
  return b->status == DNN_OK && try_answers(b, heuristics);
}

int cudnn_make(const cudnn_target *target, const cudnn_task *task,
               cudnn_made *out) {
  cudnn_builder b = {target, target->library, task, out, DNN_OK, 0};
  memset(out, 0, sizeof *out);
  const dnn_descriptor all = create_graph(&b);
  if (b.status == DNN_OK && !try_mode(&b, all, DNN_HEUR_A) &&
      !try_mode(&b, all, DNN_HEUR_FALLBACK))
    b.status = DNN_NOT_SUPPORTED;
  if (b.status != DNN_OK) cudnn_unmake(b.library, out);
  return b.status;
}

void cudnn_unmake(const dnn_library *library, cudnn_made *made) {
  while (made->n_parts > 0)
    (void)library->descriptor_destroy(made->parts[--made->n_parts]);
  made->plan = NULL;
}
