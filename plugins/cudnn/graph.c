/* SPDX-License-Identifier: Apache-2.0
 * graph.c: a convolution as cuDNN sees it: descriptors of arrays, operations on
 * them, and a plan by the first engine that the heuristics name and that keeps
 * what we promise. All descriptors are alike, things with attributes, so a
 * builder makes them and remembers the first failure.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

enum { VIRTUAL = 5 };  /* the name of what never is in memory */
enum { ALIGNED = 16 }; /* the loads of the fast engines */

typedef struct builder {
  const cudnn_target *target;
  const dnn_library *library;
  const cudnn_conv *conv;
  cudnn_made *made;
  int status; /* the first that was not DNN_OK */
} builder;

/* ------------------------------------------------------------- descriptors */

/* A descriptor that lives as long as the plan; NULL after a failure. */
static dnn_descriptor begin(builder *b, int type) {
  dnn_descriptor out = NULL;
  if (b->status != DNN_OK) return NULL;
  b->status = b->library->descriptor_create(type, &out);
  if (b->status != DNN_OK) return NULL;
  b->made->parts[b->made->n_parts++] = out;
  return out;
}

static void set(builder *b, dnn_descriptor to, int attribute, int type,
                const void *value) {
  if (b->status == DNN_OK)
    b->status = b->library->set(to, attribute, type, 1, value);
}

static void set_list(builder *b, dnn_descriptor to, int attribute, int64_t n,
                     const int64_t *values) {
  if (b->status == DNN_OK)
    b->status = b->library->set(to, attribute, DNN_INT64, n, values);
}

static void set_part(builder *b, dnn_descriptor to, int attribute,
                     dnn_descriptor part) {
  set(b, to, attribute, DNN_DESCRIPTOR, &part);
}

static dnn_descriptor end(builder *b, dnn_descriptor descriptor) {
  if (b->status == DNN_OK) b->status = b->library->finalize(descriptor);
  return descriptor;
}

/* ------------------------------------------------------------------- arrays */

static int type_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64:
      return DNN_F64;
    case TN_F16:
      return DNN_F16;
    case TN_BF16:
      return DNN_BF16;
    default:
      return DNN_F32;
  }
}

/* What sums are kept in. */
static int wide_type(const cudnn_conv *c) {
  return c->dtype == TN_F64 ? DNN_F64 : DNN_F32;
}

/* A dense array, in row-major order. What is virtual keeps its digits until the
 * bias is added. */
static dnn_descriptor tensor(builder *b, int64_t id, const int64_t *dims) {
  const cudnn_conv *c = b->conv;
  const int64_t n = c->rank + 2;
  const int type = id == VIRTUAL ? wide_type(c) : type_of(c->dtype);
  const bool is_virtual = id == VIRTUAL;
  const int64_t align = c->flags & CUDNN_UNALIGNED && !is_virtual
                            ? tn_dtype_bytes(c->dtype)
                            : ALIGNED;
  int64_t steps[CUDNN_MOST_DIMS], step = 1;
  for (int64_t d = n - 1; d >= 0; --d) {
    steps[d] = step;
    step *= dims[d];
  }
  const dnn_descriptor out = begin(b, DNN_TENSOR);
  set(b, out, DNN_TENSOR_TYPE, DNN_DATA_TYPE, &type);
  set_list(b, out, DNN_TENSOR_DIMS, n, dims);
  set_list(b, out, DNN_TENSOR_STEPS, n, steps);
  set(b, out, DNN_TENSOR_ID, DNN_INT64, &id);
  set(b, out, DNN_TENSOR_ALIGNMENT, DNN_INT64, &align);
  set(b, out, DNN_TENSOR_VIRTUAL, DNN_BOOLEAN, &is_virtual);
  return end(b, out);
}

/* --------------------------------------------------------------- operations */

static dnn_descriptor windows(builder *b) {
  const cudnn_conv *c = b->conv;
  const int type = wide_type(c), mode = DNN_CROSS_CORRELATION;
  const dnn_descriptor out = begin(b, DNN_CONVOLUTION);
  set(b, out, DNN_CONV_PRECISION, DNN_DATA_TYPE, &type);
  set(b, out, DNN_CONV_MODE, DNN_CONVOLUTION_MODE, &mode);
  set(b, out, DNN_CONV_RANK, DNN_INT64, &c->rank);
  set_list(b, out, DNN_CONV_STRIDES, c->rank, c->stride);
  set_list(b, out, DNN_CONV_DILATIONS, c->rank, c->dilate);
  set_list(b, out, DNN_CONV_PADS_BEFORE, c->rank, c->pad);
  set_list(b, out, DNN_CONV_PADS_BEHIND, c->rank, c->pad);
  return end(b, out);
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

static void set_factors(builder *b, dnn_descriptor to, const names *n) {
  const double beta = b->conv->flags & CUDNN_ADD ? 1 : 0, one = 1;
  const float beta_single = (float)beta, one_single = 1;
  const int is_wide = b->conv->dtype == TN_F64;
  const int type = is_wide ? DNN_DOUBLE : DNN_FLOAT;
  set(b, to, n->alpha, type, is_wide ? (const void *)&one : &one_single);
  set(b, to, n->beta, type, is_wide ? (const void *)&beta : &beta_single);
}

static dnn_descriptor convolution(builder *b, dnn_descriptor out) {
  const names *n = &all_names[b->conv->what];
  const dnn_descriptor data = tensor(b, CUDNN_ID_DATA, b->conv->data);
  const dnn_descriptor weight = tensor(b, CUDNN_ID_WEIGHT, b->conv->weight);
  const dnn_descriptor how = windows(b);
  const dnn_descriptor op = begin(b, n->descriptor);
  set_factors(b, op, n);
  set_part(b, op, n->conv, how);
  set_part(b, op, n->data, data);
  set_part(b, op, n->weight, weight);
  set_part(b, op, n->out, out);
  return end(b, op);
}

static dnn_descriptor addition(builder *b, dnn_descriptor x, dnn_descriptor y) {
  const cudnn_conv *c = b->conv;
  const int64_t dims[CUDNN_MOST_DIMS] = {1, c->out[1], 1, 1, 1};
  const int type = wide_type(c), mode = DNN_POINTWISE_ADD;
  const dnn_descriptor bias = tensor(b, CUDNN_ID_BIAS, dims);
  const dnn_descriptor how = begin(b, DNN_POINTWISE);
  set(b, how, DNN_POINTWISE_MODE_OF, DNN_POINTWISE_MODE, &mode);
  set(b, how, DNN_POINTWISE_PRECISION, DNN_DATA_TYPE, &type);
  (void)end(b, how);
  const dnn_descriptor op = begin(b, DNN_OP_POINTWISE);
  set_part(b, op, DNN_POINTWISE_OF, how);
  set_part(b, op, DNN_POINTWISE_X, x);
  set_part(b, op, DNN_POINTWISE_B, bias);
  set_part(b, op, DNN_POINTWISE_Y, y);
  return end(b, op);
}

static dnn_descriptor graph(builder *b) {
  const int has_bias = (b->conv->flags & CUDNN_BIAS) != 0;
  const dnn_descriptor out = tensor(b, CUDNN_ID_OUT, b->conv->out);
  const dnn_descriptor sum = has_bias ? tensor(b, VIRTUAL, b->conv->out) : out;
  dnn_descriptor ops[2] = {convolution(b, sum), NULL};
  if (has_bias) ops[1] = addition(b, sum, out);
  const dnn_descriptor all = begin(b, DNN_GRAPH);
  if (b->target->handle)
    set(b, all, DNN_GRAPH_HANDLE, DNN_HANDLE, &b->target->handle);
  if (b->status == DNN_OK)
    b->status = b->library->set(all, DNN_GRAPH_OPS, DNN_DESCRIPTOR,
                                has_bias ? 2 : 1, ops);
  return end(b, all);
}

/* ------------------------------------------------------------------ engines */

/* Whether an engine computes what is promised: sums in f32 at least, products
 * of f32 that lose nothing unless that is allowed, the same bits every time if
 * that is asked for. */
static int keeps_promises(const cudnn_conv *c, const int *notes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (notes[i] == DNN_NOTE_REDUCED_SUMS) return 0;
    if (notes[i] == DNN_NOTE_NONDETERMINISTIC &&
        (c->flags & CUDNN_DETERMINISTIC))
      return 0;
    if ((notes[i] == DNN_NOTE_TENSOR_CORE ||
         notes[i] == DNN_NOTE_DOWN_CONVERT) &&
        c->dtype == TN_F32 && !(c->flags & CUDNN_FAST))
      return 0;
  }
  return 1;
}

/* Whether the engine of a configuration does; an engine that tells nothing is
 * left alone. */
static int is_allowed(const builder *b, dnn_descriptor config) {
  const dnn_library *library = b->library;
  dnn_descriptor engine = NULL;
  int notes[DNN_N_NOTES], result = 0;
  int64_t n = 0;
  if (library->descriptor_create(DNN_ENGINE, &engine) != DNN_OK) return 0;
  if (library->get(config, DNN_CONFIG_ENGINE, DNN_DESCRIPTOR, 1, &n, &engine) ==
          DNN_OK &&
      library->get(engine, DNN_ENGINE_NOTES, DNN_NOTE, DNN_N_NOTES, &n,
                   notes) == DNN_OK)
    result = keeps_promises(b->conv, notes, n < DNN_N_NOTES ? n : DNN_N_NOTES);
  (void)library->descriptor_destroy(engine);
  return result;
}

/* A plan by a configuration: b->status says whether there is one. */
static dnn_descriptor plan_with(builder *b, dnn_descriptor config) {
  const dnn_descriptor plan = begin(b, DNN_PLAN);
  int64_t n = 0;
  if (b->target->handle)
    set(b, plan, DNN_PLAN_HANDLE, DNN_HANDLE, &b->target->handle);
  else
    set_part(b, plan, DNN_PLAN_DEVICE, b->target->properties);
  set_part(b, plan, DNN_PLAN_CONFIG, config);
  (void)end(b, plan);
  if (b->status == DNN_OK)
    b->status = b->library->get(plan, DNN_PLAN_WORKSPACE, DNN_INT64, 1, &n,
                                &b->made->workspace);
  if (b->status == DNN_OK && b->made->workspace > b->conv->most_workspace)
    b->status = DNN_NOT_SUPPORTED;
  return plan;
}

/* Tries one; what it left is taken back if it failed. The configuration
 * becomes a part of the plan. */
static int try_config(builder *b, dnn_descriptor config) {
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

/* The first of a list that will do becomes a plan; all others are destroyed. */
static int try_all(builder *b, dnn_descriptor *configs, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!found && is_allowed(b, configs[i]) && try_config(b, configs[i])) {
      b->made->parts[b->made->n_parts++] = configs[i];
      found = 1;
    } else {
      (void)b->library->descriptor_destroy(configs[i]);
    }
  }
  return found;
}

static dnn_descriptor ask(builder *b, dnn_descriptor of, int mode) {
  const dnn_descriptor heuristics = begin(b, DNN_HEURISTICS);
  set_part(b, heuristics, DNN_HEURISTICS_GRAPH, of);
  set(b, heuristics, DNN_HEURISTICS_MODE, DNN_HEUR_MODE, &mode);
  if (!b->target->handle)
    set_part(b, heuristics, DNN_HEURISTICS_DEVICE, b->target->properties);
  return end(b, heuristics);
}

/* As many descriptors as there are answers, for them to be written into; how
 * many there are is less after a failure. */
static int64_t make_room(const builder *b, dnn_descriptor *configs, int64_t n) {
  int64_t i = 0;
  while (i < n &&
         b->library->descriptor_create(DNN_CONFIG, &configs[i]) == DNN_OK)
    ++i;
  return i;
}

static int try_answers(builder *b, dnn_descriptor heuristics) {
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

/* Asks one heuristic: 1 if there is a plan. */
static int try_mode(builder *b, dnn_descriptor of, int mode) {
  b->status = DNN_OK;
  const dnn_descriptor heuristics = ask(b, of, mode);
  return b->status == DNN_OK && try_answers(b, heuristics);
}

int cudnn_make(const cudnn_target *target, const cudnn_conv *conv,
               cudnn_made *out) {
  builder b = {target, target->library, conv, out, DNN_OK};
  memset(out, 0, sizeof *out);
  const dnn_descriptor all = graph(&b);
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
