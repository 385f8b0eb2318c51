/* SPDX-License-Identifier: Apache-2.0
 * against_cpu.c: operators on cuda(0) against the same on the cpu: shapes of
 * several blocks and rows longer than one, every element type and request,
 * forward and backward, in training and outside of it, all drawn from a seed
 * that is printed. Then the same calls are made again and again, and the memory
 * of the device must not grow.
 *
 *   against_cpu [--seed N] [--rounds N] [--calls N] [--own 1] PLUGIN.so ...
 *
 * --own 1: leaves out operators that libraries of CUDA compute, since some
 * tools report faults inside of these.
 *
 * TAP; 1 if a case failed, 77 without a GPU.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

enum { NONE = -1, ALIKE = -2, MOST_ARRAYS = 8, MOST_RESULTS = 32 };
enum { MOST_ELEMENTS = 40000, FEWER = 6000, FEW = 400 };
enum { LABEL = 4 }; /* symbols of a label */

/* An operator with parameters, and the rules for calls of it. */
typedef struct subject {
  const char *op, *params;
  int n_in;        /* inputs that are given */
  int least, most; /* rank of the first; shapes of others follow */
  int64_t edge;    /* its dimensions are at least this */
  int whole;       /* the input that holds whole numbers from -1, or NONE */
  int below;       /* and the meaning of each, see below; with ALIKE: so many
                      inputs have the shape of the first */
} subject;

/* Libraries compute the first. */
enum { OF_LIBRARIES = 3 };

static const subject subjects[] = {
    {"nn.fully_connected", "num_hidden=33", 3, 2, 3, 1, NONE, 0},
    {"nn.fully_connected", "num_hidden=64", 3, 2, 3, 1, NONE, 0},
    {"nn.convolution", "kernel=(3,2) pad=(1,1) num_filter=4", 3, 4, 4, 3, NONE,
     0},
    {"nn.activation", "act_type=tanh", 1, 0, 4, 1, NONE, 0},
    {"nn.leaky_relu", "", 1, 0, 4, 1, NONE, 0},
    {"nn.leaky_relu", "act_type=elu slope=0.5", 1, 1, 4, 1, NONE, 0},
    {"nn.leaky_relu", "act_type=selu", 1, 1, 4, 1, NONE, 0},
    {"nn.leaky_relu", "act_type=prelu", 2, 1, 4, 1, NONE, 0},
    {"nn.leaky_relu", "act_type=rrelu", 1, 1, 4, 1, NONE, 0},
    {"nn.dropout", "p=0.25", 1, 0, 4, 1, NONE, 0},
    {"nn.dropout", "p=0.75 mode=always", 1, 1, 4, 1, NONE, 0},
    {"nn.softmax", "", 1, 1, 4, 1, NONE, 0},
    {"nn.softmax", "axis=0 temperature=2", 1, 1, 4, 1, NONE, 0},
    {"nn.log_softmax", "", 1, 1, 4, 1, NONE, 0},
    {"nn.log_softmax", "axis=1 temperature=0.5", 1, 2, 4, 1, NONE, 0},
    {"nn.softmax_cross_entropy", "", 2, 2, 2, 4, 1, 4},
    {"nn.softmax_output", "normalization=valid use_ignore=true", 2, 2, 4, 4, 1,
     4},
    {"nn.softmax_output", "multi_output=true", 2, 3, 4, 4, 1, 4},
    {"nn.embedding", "input_dim=50 output_dim=7", 2, 1, 3, 1, 0, 50},
    {"nn.embedding", "input_dim=3 output_dim=70", 2, 1, 2, 1, 0, 3},
    {"nn.attention", "", 3, 4, 4, 1, ALIKE, 3},
    {"nn.attention", "causal=true window=9 softcap=2", 3, 4, 4, 1, ALIKE, 3},
    {"nn.attention", "causal=true causal_offset=-3 p=0.25", 3, 4, 4, 1, ALIKE,
     3},
    {"nn.layer_norm", "", 3, 1, 4, 1, NONE, 0},
    {"nn.layer_norm", "axis=0 eps=0.1", 3, 2, 4, 1, NONE, 0},
    {"nn.batch_norm", "fix_gamma=false", 3, 2, 4, 1, NONE, 0},
    {"nn.batch_norm", "axis=-1 eps=0.1", 3, 2, 4, 1, NONE, 0},
    {"nn.batch_norm", "use_global_stats=true fix_gamma=false", 3, 2, 4, 1, NONE,
     0},
    {"nn.pooling", "kernel=(3) pad=(1) stride=(2) pool_type=max", 1, 3, 3, 3,
     NONE, 0},
    {"nn.pooling", "kernel=(3,2) pad=(1,1) stride=(2,1) pool_type=max", 1, 4, 4,
     3, NONE, 0},
    {"nn.pooling",
     "kernel=(3,2) pad=(1,1) stride=(2,3) pool_type=avg "
     "pooling_convention=full",
     1, 4, 4, 3, NONE, 0},
    {"nn.pooling",
     "kernel=(2,3,2) pad=(1,1,0) stride=(2,2,1) pool_type=avg "
     "count_include_pad=false",
     1, 5, 5, 3, NONE, 0},
    {"nn.pooling",
     "kernel=(3,2) stride=(2,2) pool_type=sum pooling_convention=same", 1, 4, 4,
     3, NONE, 0},
    {"nn.pooling", "kernel=(3,3) pad=(1,1) stride=(1,1) pool_type=max", 1, 4, 4,
     3, NONE, 0},
    {"nn.pooling", "kernel=(5,3) pad=(2,1) stride=(2,1) pool_type=avg", 1, 4, 4,
     3, NONE, 0},
    {"nn.pooling", "global_pool=true pool_type=max", 1, 3, 5, 1, NONE, 0},
    {"nn.pooling", "global_pool=true pool_type=avg", 1, 3, 5, 1, NONE, 0},
    {"nn.pooling", "global_pool=true pool_type=sum", 1, 3, 5, 1, NONE, 0},
    {"nn.rms_norm", "", 2, 1, 4, 1, NONE, 0},
    {"nn.rms_norm", "axis=0 eps=0.1", 2, 2, 4, 1, NONE, 0},
    {"nn.group_norm", "num_groups=1", 3, 2, 4, 1, NONE, 0},
    {"nn.group_norm", "num_groups=2", 3, 2, 4, 2, NONE, 0},
    {"nn.instance_norm", "", 3, 2, 4, 1, NONE, 0},
    {"nn.l2_normalization", "", 1, 2, 4, 1, NONE, 0},
    {"nn.l2_normalization", "mode=channel", 1, 2, 4, 1, NONE, 0},
    {"nn.l2_normalization", "mode=spatial", 1, 3, 4, 1, NONE, 0},
    {"nn.lrn", "nsize=5 alpha=2", 1, 2, 4, 1, NONE, 0},
    {"nn.lrn", "nsize=3 beta=0.5 knorm=1", 1, 2, 4, 1, NONE, 0},
    {"nn.softmax_activation", "", 1, 2, 4, 1, NONE, 0},
    {"nn.softmax_activation", "mode=channel", 1, 2, 4, 1, NONE, 0},
    {"nn.linear_regression_output", "grad_scale=2", 2, 1, 4, 1, NONE, 0},
    {"nn.mae_regression_output", "", 2, 1, 4, 1, NONE, 0},
    {"nn.logistic_regression_output", "", 2, 1, 4, 1, NONE, 0},
    {"nn.svm_output", "margin=0.5", 2, 2, 3, 1, 1, 5},
    {"nn.svm_output", "use_linear=true", 2, 2, 3, 1, 1, 5},
    {"nn.make_loss", "normalization=valid valid_thresh=0.5", 1, 1, 4, 1, NONE,
     0},
    {"nn.make_loss", "normalization=batch grad_scale=3", 1, 1, 4, 1, NONE, 0},
    {"nn.kl_sparse_reg", "momentum=0.5", 1, 2, 2, 1, NONE, 0},
    {"nn.ctc_loss", "", 2, 3, 3, 4, 1, 4},
    {"nn.ctc_loss", "blank_label=last", 2, 3, 3, 4, 1, 3},
    {"nn.sequence_mask", "use_sequence_length=true value=2", 2, 2, 4, 4, 1, 5},
    {"nn.sequence_mask", "use_sequence_length=true axis=1", 2, 2, 4, 4, 1, 5},
    {"nn.sequence_last", "use_sequence_length=true", 2, 2, 4, 4, 1, 5},
    {"nn.sequence_last", "axis=1", 1, 2, 4, 4, NONE, 0},
    {"nn.sequence_reverse", "use_sequence_length=true", 2, 2, 4, 4, 1, 5},
    {"nn.pooling", "kernel=(3,2) pad=(1,1) dilate=(2,1) pool_type=max", 1, 4, 4,
     4, NONE, 0},
    {"nn.pooling", "kernel=(2,2) dilate=(2,3) stride=(1,2) pool_type=avg", 1, 4,
     4, 5, NONE, 0},
    {"nn.lp_pooling", "kernel=(3,2) pad=(1,1) p_value=3", 1, 4, 4, 3, NONE, 0},
    {"nn.max_pool_indices", "kernel=(3,2) stride=(2,2) pad=(1,1)", 1, 4, 4, 3,
     NONE, 0},
    {"nn.max_unpool", "output_size=(9)", 2, 3, 3, 3, 1, 9},
    {"nn.deconvolution",
     "kernel=(3,2) stride=(2,1) pad=(1,0) num_filter=3 no_bias=false", 3, 4, 4,
     2, NONE, 0},
    {"nn.deconvolution",
     "kernel=(3) stride=(2) dilate=(2) pad=(1) adj=(1) num_filter=2", 2, 3, 3,
     1, NONE, 0},
    {"nn.unfold", "kernel=(3,2) stride=(2,1) pad=(1,1)", 1, 4, 4, 2, NONE, 0},
    {"nn.resize", "scales=(2,2) axes=(-1,-2) mode=linear", 1, 2, 4, 1, NONE, 0},
    {"nn.resize", "scales=(0.7) axes=(0) mode=cubic antialias=true", 1, 1, 3, 2,
     NONE, 0},
    {"nn.resize", "sizes=(9,2) axes=(0,1)", 1, 2, 3, 1, NONE, 0},
    {"nn.upsampling", "scale=2", 1, 4, 4, 1, NONE, 0},
    {"nn.correlation", "kernel_size=3 max_displacement=2 pad_size=3 stride1=2",
     2, 4, 4, 3, NONE, 0},
    {"nn.spatial_transformer", "target_shape=(5,7)", 2, 4, 4, 2, NONE, 0},
    {"nn.unfold", "kernel=(2) dilate=(2) pad=(1)", 1, 3, 3, 2, NONE, 0},
    {"optim.sgd_update", "lr=0.5 wd=0.25", 2, 1, 3, 1, NONE, 0},
    {"optim.sgd_mom_update", "lr=0.5 momentum=0.5 clip_gradient=1", 2, 1, 3, 1,
     NONE, 0},
    {"optim.adam_update", "lr=0.5 wd=0.25 step=3", 2, 1, 3, 1, NONE, 0},
    {"optim.rmsprop_update", "lr=0.5 clip_weights=1", 2, 1, 3, 1, NONE, 0},
    {"optim.ftrl_update", "lr=0.5 lamda1=0.25", 2, 1, 3, 1, NONE, 0},
    {"optim.rmspropalex_update", "lr=0.5 clip_weights=1", 2, 1, 3, 1, NONE, 0},
    {"optim.mp_sgd_update", "lr=0.5 wd=0.25", 2, 1, 3, 1, NONE, 0},
    {"optim.mp_sgd_mom_update", "lr=0.5 momentum=0.5 clip_gradient=1", 2, 1, 3,
     1, NONE, 0},
    {"elemwise.cast", "dtype=f32", 1, 0, 4, 1, NONE, 0},
    {"elemwise.cast", "dtype=f8e5m2", 1, 0, 4, 1, NONE, 0},
    {"elemwise.cast", "dtype=i4", 1, 1, 4, 1, NONE, 0},
    {"nn.quantize", "dtype=u2 axis=0", 2, 1, 4, 1, NONE, 0},
    {"nn.quantize", "dtype=f4e2m1 axis=-1 block_size=5", 2, 1, 4, 1, NONE, 0},
    {"nn.dequantize", "", 2, 1, 4, 1, NONE, 0},
    {"nn.dequantize", "axis=0 block_size=3", 2, 1, 4, 1, NONE, 0}};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

/* -------------------------------------------------------------------- drawn */

static uint64_t state;

static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

typedef struct type {
  tn_dtype dtype;
  uint64_t bit;
  const char *name;
  double near; /* largest difference of results */
} type;

static const type types[] = {{TN_F16, TN_BIT_F16, "f16", 1e-2},
                             {TN_BF16, TN_BIT_BF16, "bf16", 8e-2},
                             {TN_F32, TN_BIT_F32, "f32", 1e-4},
                             {TN_F64, TN_BIT_F64, "f64", 1e-10},
                             {TN_I32, TN_BIT_I32, "i32", 1e-10},
                             {TN_I64, TN_BIT_I64, "i64", 1e-10},
                             {TN_I4, TN_BIT_I4, "i4", 0},
                             {TN_U2, TN_BIT_U2, "u2", 0},
                             {TN_F8E4M3FN, TN_BIT_F8E4M3FN, "f8e4m3fn", 0},
                             {TN_F8E5M2, TN_BIT_F8E5M2, "f8e5m2", 0},
                             {TN_F4E2M1, TN_BIT_F4E2M1, "f4e2m1", 0}};
enum { N_TYPES = sizeof types / sizeof *types, N_ARITHMETIC = 6 };

static const type *type_of(tn_dtype dtype) {
  const type *t = types;
  while (t->dtype != dtype) ++t;
  return t;
}

static bool is_storage(tn_dtype dtype) {
  return (type_of(dtype)->bit & TN_BITS_STORAGE) != 0;
}

/* Draws a permitted bit of the set. */
static tn_dtype draw_type(uint64_t allowed) {
  const type *t;
  const bool any = (allowed & TN_BITS_STORAGE) != 0;
  do t = &types[draw(any ? N_TYPES : N_ARITHMETIC)];
  while (!(t->bit & allowed));
  return t->dtype;
}

/* One dimension is long, as far as there is room for it: seldom for rows and
 * channels of several pieces. Sometimes the others leave it much of that: a
 * thousand channels of a few elements. */
static void draw_shape(const subject *s, tn_sig *sig) {
  int64_t n = 1;
  const uint32_t others = draw(3) == 0 ? 2 : 6;
  sig->ndim = s->least + (int32_t)draw((uint32_t)(s->most - s->least + 1));
  for (int32_t d = 0; d < sig->ndim; ++d)
    n *= sig->shape[d] = s->edge + draw(others);
  if (sig->ndim == 0) return;
  const uint32_t d = draw((uint32_t)sig->ndim);
  const int64_t most = s->whole == ALIKE ? FEW
                       : draw(6) == 0    ? MOST_ELEMENTS
                                         : FEWER;
  const int64_t room = most / (n / sig->shape[d]);
  if (room > s->edge)
    sig->shape[d] = s->edge + draw((uint32_t)(room - s->edge));
}

/* Everything that was drawn for one call on both devices. */
typedef struct question {
  const subject *subject;
  tn_operator *op;
  const tn_op *desc;
  tn_params *params;
  uint32_t n_out;
  uint64_t seed; /* of the numbers */
  uint32_t flags;
  tn_sig in[MOST_ARRAYS], out[MOST_ARRAYS], aux[MOST_ARRAYS];
  tn_req req[MOST_ARRAYS];  /* of outputs */
  tn_req back[MOST_ARRAYS]; /* of gradients */
} question;

static tn_code infer_outputs(question *q) {
  tn_signature io = {(uint32_t)q->subject->n_in,
                     q->n_out,
                     q->desc->n_aux,
                     0,
                     q->in,
                     q->out,
                     q->aux};
  for (uint32_t i = 0; i < MOST_ARRAYS; ++i) {
    if (i > 0) q->in[i].ndim = -1;
    if (i > 0 && q->subject->whole == ALIKE &&
        i < (uint32_t)q->subject->below) {
      q->in[i].ndim = q->in[0].ndim;
      memcpy(q->in[i].shape, q->in[0].shape, sizeof q->in[0].shape);
    }
    q->out[i] = q->aux[i] = (tn_sig){.ndim = -1};
  }
  if (strcmp(q->subject->op, "nn.ctc_loss") == 0) /* nothing decides it */
    q->in[1] = (tn_sig){q->in[1].dtype, 2, {-1, LABEL}};
  return tn_operator_infer(q->op, q->params, &io);
}

/* The last output may be there for some parameters only. */
static tn_code infer(question *q) {
  q->n_out = q->desc->n_outputs;
  tn_code rc = infer_outputs(q);
  if (rc && q->desc->outputs[q->n_out - 1]->count != TN_NONE) {
    --q->n_out;
    rc = infer_outputs(q);
  }
  return rc;
}

static tn_req draw_request(void) {
  static const tn_req requests[] = {TN_REQ_WRITE, TN_REQ_ADD, TN_REQ_NULL};
  return requests[draw(8) < 7 ? draw(2) : 2];
}

/* Draws a shape that the operator accepts: of some it wants an even number of
 * channels. */
static tn_code draw_shapes(const subject *s, question *q) {
  tn_code rc = TN_SHAPE;
  for (int tries = 0; tries < 50 && rc == TN_SHAPE; ++tries) {
    draw_shape(s, &q->in[0]);
    rc = infer(q);
  }
  return rc;
}

static tn_code draw_question(tn_runtime *rt, const subject *s, question *q) {
  tn_dtype vars[MOST_ARRAYS];
  *q = (question){.subject = s};
  tn_code rc = tn_operator_get(rt, s->op, &q->op);
  if (rc == TN_OK) rc = tn_params_parse(q->op, s->params, &q->params);
  if (rc != TN_OK) return rc;
  q->desc = tn_operator_desc(q->op);
  for (uint32_t i = 0; i < q->desc->n_dtype_vars; ++i)
    vars[i] = draw_type(q->desc->dtype_vars[i]->allowed);
  for (int i = 0; i < s->n_in; ++i)
    q->in[i].dtype = vars[q->desc->inputs[i]->dtype_var];
  rc = draw_shapes(s, q);
  if (rc != TN_OK) return rc;
  for (uint32_t i = 0; i < MOST_ARRAYS; ++i) q->req[i] = draw_request();
  for (uint32_t i = 0; i < MOST_ARRAYS; ++i) q->back[i] = draw_request();
  q->req[0] = draw(4) ? TN_REQ_WRITE : TN_REQ_ADD;
  if (is_storage(q->out[0].dtype)) q->req[0] = TN_REQ_WRITE;
  for (int i = 0; i < s->n_in; ++i) /* storage types have no sums */
    if (is_storage(q->in[i].dtype)) q->back[i] = TN_REQ_WRITE;
  q->flags = draw(2) ? TN_CALL_TRAIN : 0;
  q->seed = (uint64_t)draw(1u << 30);
  return TN_OK;
}

/* ----------------------------------------------------------------- one side */

/* Everything that one device answers, in the order of asking. */
typedef struct answer {
  tn_runtime *rt;
  size_t n;
  char name[MOST_RESULTS][48];
  tn_dtype dtype[MOST_RESULTS];
  size_t size[MOST_RESULTS];
  double *v[MOST_RESULTS];
} answer;

static void answer_free(answer *a) {
  for (size_t i = 0; i < a->n; ++i) free(a->v[i]);
  *a = (answer){0};
}

/* A device, and the arrays of one call on it. */
typedef struct side {
  tn_runtime *rt;
  tn_place place;
  const question *q;
  tn_array *in[2 * MOST_ARRAYS];
  tn_array *out[MOST_ARRAYS];
  tn_array *heads[MOST_ARRAYS];
  tn_array *grads[MOST_ARRAYS];
} side;

static void release(tn_array **arrays, int n) {
  for (int i = 0; i < n; ++i) tn_array_release(arrays[i]);
  memset(arrays, 0, (size_t)n * sizeof *arrays);
}

static void side_free(side *s) {
  release(s->in, 2 * MOST_ARRAYS);
  release(s->out, MOST_ARRAYS);
  release(s->heads, MOST_ARRAYS);
  release(s->grads, MOST_ARRAYS);
}

/* Numbers from -2 to 2 in steps of 1/8, so that some are equal; whole ones from
 * `low` where it is below 0 and there is a bound. */
static double number(int below, int low) {
  if (below > 0) return low + (int)draw((uint32_t)(below - low));
  return ((int)draw(33) - 16) / 8.0;
}

/* The array without the elements before it, with a shape. */
static tn_code trim(tn_array *all, int64_t before, const tn_sig *sig,
                    tn_array **out) {
  tn_array *rest = NULL;
  const tn_range range = {.begin = before, .end = tn_array_size(all)};
  tn_code rc = tn_array_slice(all, &range, &rest);
  if (!rc) rc = tn_array_reshape(rest, sig->ndim, sig->shape, out);
  tn_array_release(rest);
  return rc;
}

/* The same numbers in another type; those of storage types by cast. */
static tn_code convert(tn_runtime *rt, tn_array *from, tn_dtype dtype,
                       tn_array **out) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  char text[32];
  if (!is_storage(dtype) && !is_storage(tn_array_tensor(from)->dtype))
    return tn_array_cast(from, dtype, out);
  (void)snprintf(text, sizeof text, "dtype=%s", type_of(dtype)->name);
  tn_code rc = tn_operator_get(rt, "elemwise.cast", &op);
  if (!rc) rc = tn_params_parse(op, text, &params);
  if (!rc) rc = tn_call(rt, op, TN_IN(from), params, TN_OUT(out));
  tn_params_release(params);
  return rc;
}

/* A new array of numbers on the side's device, sometimes one element after the
 * begin of its memory. `below`: integers; other numbers grow by 2 from the
 * first to the last, so that pieces differ. */
static tn_code fill(const side *s, const tn_sig *sig, int below, int low,
                    tn_array **out) {
  tn_array *exact = NULL, *cast = NULL, *there = NULL;
  const int64_t before = draw(4) == 0 && !is_storage(sig->dtype);
  int64_t n = 1;
  for (int32_t d = 0; d < sig->ndim; ++d) n *= sig->shape[d];
  n += before;
  double *v = malloc((size_t)(n + 1) * sizeof *v);
  if (!v) return TN_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; ++i) {
    v[i] = number(below, low);
    if (below == 0) v[i] += (double)(16 * i / n) / 8;
  }
  tn_code rc = tn_array_create(s->rt, &(tn_spec){TN_F64, 1, &n}, &exact);
  if (!rc) rc = tn_array_set(exact, v, (size_t)n * sizeof *v);
  if (!rc) rc = convert(s->rt, exact, sig->dtype, &cast);
  if (!rc) rc = tn_array_to(cast, s->place, &there);
  if (!rc) rc = trim(there, before, sig, out);
  tn_array_release(exact);
  tn_array_release(cast);
  tn_array_release(there);
  free(v);
  return rc;
}

/* The least of an input's whole numbers: the class -1 is none, rows of
 * embeddings begin at 0, and lengths of sequences at 1. */
static int find_least(const subject *u) {
  if (strncmp(u->op, "nn.sequence_", 12) == 0) return 1;
  return u->whole == 0 ? 0 : -1;
}

/* Inputs, followed by states, which are not negative. */
static tn_code fill_inputs(side *s) {
  const question *q = s->q;
  const subject *u = q->subject;
  tn_code rc = TN_OK;
  state = q->seed;
  for (int i = 0; i < u->n_in && !rc; ++i)
    rc = fill(s, &q->in[i], i == u->whole ? u->below : 0, find_least(u),
              &s->in[i]);
  for (uint32_t i = 0; i < q->desc->n_aux && !rc; ++i)
    rc = fill(s, &q->aux[i], 3, 0, &s->in[(uint32_t)u->n_in + i]);
  return rc;
}

static tn_code keep(answer *a, const char *what, const char *name,
                    tn_array *array) {
  tn_array *exact = NULL;
  const size_t n = (size_t)tn_array_size(array);
  tn_code rc = convert(a->rt, array, TN_F64, &exact);
  if (rc || a->n == MOST_RESULTS) return rc;
  a->dtype[a->n] = tn_array_tensor(array)->dtype;
  a->size[a->n] = n;
  a->v[a->n] = malloc((n + 1) * sizeof(double));
  (void)snprintf(a->name[a->n], sizeof a->name[0], "%s `%s`", what, name);
  rc = a->v[a->n] ? tn_array_get(exact, a->v[a->n], n * sizeof(double))
                  : TN_OUT_OF_MEMORY;
  tn_array_release(exact);
  a->n += a->v[a->n] != NULL;
  return rc;
}

static tn_code forward(side *s, const tn_req *req) {
  const question *q = s->q;
  const tn_inputs in = {(size_t)q->subject->n_in + q->desc->n_aux, s->in};
  const tn_outputs out = {q->n_out, s->out, req};
  const tn_code rc = tn_random_seed(s->rt, q->seed);
  if (rc) return rc;
  return q->flags ? tn_call_train(s->rt, q->op, &in, q->params, &out)
                  : tn_call(s->rt, q->op, &in, q->params, &out);
}

/* Outputs as requested, and states. */
static tn_code ask_forward(side *s, answer *a) {
  const question *q = s->q;
  const uint32_t first = (uint32_t)q->subject->n_in;
  tn_code rc = fill_inputs(s);
  for (uint32_t i = 0; i < q->n_out && !rc; ++i) {
    rc = fill(s, &q->out[i], 0, 0, &s->out[i]);
  }
  if (!rc) rc = forward(s, q->req);
  for (uint32_t i = 0; i < q->n_out && !rc; ++i)
    if (s->out[i]) rc = keep(a, "output", q->desc->outputs[i]->name, s->out[i]);
  for (uint32_t i = 0; i < q->desc->n_aux && !rc; ++i)
    rc = keep(a, "state", q->desc->aux[i]->name, s->in[first + i]);
  side_free(s);
  return rc;
}

/* Gradients, from the side's own outputs; none of an operator that has none. */
static tn_code ask_backward(side *s, answer *a) {
  const question *q = s->q;
  const size_t n_in = (size_t)q->subject->n_in;
  tn_req req[MOST_ARRAYS];
  tn_code rc = fill_inputs(s);
  if (!rc) rc = forward(s, NULL);
  if (!rc) rc = fill(s, &q->out[0], 0, 0, &s->heads[0]);
  for (size_t i = 0; i < n_in && !rc; ++i) {
    req[i] = (int)i == q->subject->whole ? TN_REQ_NULL : q->back[i];
    if (req[i] != TN_REQ_NULL) rc = fill(s, &q->in[i], 0, 0, &s->grads[i]);
  }
  const tn_backward call = {.struct_size = sizeof call,
                            .flags = q->flags,
                            .params = q->params,
                            .inputs = {n_in + q->desc->n_aux, s->in},
                            .outputs = {q->n_out, s->out},
                            .out_grads = {q->n_out, s->heads},
                            .in_grads = {n_in, s->grads, req}};
  if (!rc) rc = tn_call_backward(s->rt, q->op, &call);
  for (size_t i = 0; i < n_in && !rc; ++i)
    if (s->grads[i])
      rc = keep(a, "gradient of", q->desc->inputs[i]->name, s->grads[i]);
  side_free(s);
  return rc;
}

static tn_code ask(tn_runtime *rt, tn_place place, const question *q,
                   answer *a) {
  side s = {.rt = rt, .place = place, .q = q};
  a->rt = rt;
  tn_code rc = ask_forward(&s, a);
  if (!rc) rc = ask_backward(&s, a);
  side_free(&s);
  return rc == TN_UNSUPPORTED && a->n > 0 ? TN_OK : rc;
}

/* --------------------------------------------------------------- comparison */

static int n_cases, n_failed;

static void describe(const question *q, uint64_t seed) {
  printf(" %d - %s %s: %s", n_cases, q->subject->op, q->subject->params,
         type_of(q->in[0].dtype)->name);
  for (int i = 1; i < q->subject->n_in; ++i)
    printf("/%s", type_of(q->in[i].dtype)->name);
  for (int32_t d = 0; d < q->in[0].ndim; ++d)
    printf("%s%lld", d ? "x" : " ", (long long)q->in[0].shape[d]);
  printf("%s, seed %llu\n", q->flags ? ", training" : "",
         (unsigned long long)seed);
}

/* The largest difference of results: of their type, and of f32 unless the call
 * computed in f64. */
static double find_near(const question *q, tn_dtype dtype) {
  const double near = type_of(dtype)->near, least = type_of(TN_F32)->near;
  return q->in[0].dtype == TN_F64 ? near : fmax(near, least);
}

/* Prints the first element with too large an error. Each element of a sum may
 * be wrong by as much as its largest one. */
static bool alike(const question *q, const answer *here, const answer *there,
                  char *told, size_t room) {
  if (here->n != there->n) {
    (void)snprintf(told, room, "%zu results, not %zu", there->n, here->n);
    return false;
  }
  for (size_t k = 0; k < here->n; ++k) {
    double most = 1;
    for (size_t i = 0; i < here->size[k]; ++i)
      if (fabs(here->v[k][i]) > most && isfinite(here->v[k][i]))
        most = fabs(here->v[k][i]);
    for (size_t i = 0; i < here->size[k]; ++i) {
      const double want = here->v[k][i], have = there->v[k][i];
      if (isnan(want) ? isnan(have) : want >= have && want <= have) continue;
      if (fabs(want - have) <= most * find_near(q, here->dtype[k])) continue;
      (void)snprintf(told, room, "%s, element %zu is %.9g, on the cpu %.9g",
                     there->name[k], i, have, want);
      return false;
    }
  }
  return true;
}

static void compare(tn_runtime *rt, tn_place place, const subject *s,
                    uint64_t seed) {
  const tn_place cpu = {TN_DEVICE_CPU, 0};
  answer here = {0}, there = {0};
  question q;
  char told[256];
  state = (seed * N_SUBJECTS + (uint64_t)(s - subjects)) * 0x9e3779b97f4a7c15u;
  ++n_cases;
  tn_code rc = draw_question(rt, s, &q);
  if (!rc) rc = ask(rt, cpu, &q, &here);
  if (!rc) rc = ask(rt, place, &q, &there);
  if (rc) (void)snprintf(told, sizeof told, "%s", tn_error_text());
  const bool good = !rc && alike(&q, &here, &there, told, sizeof told);
  n_failed += !good;
  printf("%s", good ? "ok" : "not ok");
  describe(&q, seed);
  if (!good) printf("# %s\n", told);
  answer_free(&here);
  answer_free(&there);
  tn_params_release(q.params);
}

/* ------------------------------------------------------------------- growth */

/* Some calls of every subject from the first on, always the same. */
static tn_code make_calls(tn_runtime *rt, tn_place place, long first, long n) {
  tn_code rc = TN_OK;
  for (long i = 0; i < n && !rc; ++i) {
    const long at = first + i % (N_SUBJECTS - first);
    answer a = {0};
    question q;
    state = (uint64_t)at * 0x9e3779b97f4a7c15u;
    rc = draw_question(rt, &subjects[at], &q);
    if (!rc) rc = ask(rt, place, &q, &a);
    answer_free(&a);
    tn_params_release(q.params);
  }
  if (!rc) rc = tn_wait_all(rt);
  return rc ? rc : tn_memory_trim(rt, place);
}

/* After `n` more calls no more is in use than was at any time before, although
 * workspaces stay: which ones, depends on the order of the work. */
static void stay(tn_runtime *rt, tn_place place, long from, long n) {
  tn_memory first = {.struct_size = sizeof first};
  tn_memory last = {.struct_size = sizeof last};
  tn_code rc = make_calls(rt, place, from, 2 * N_SUBJECTS);
  if (!rc) rc = tn_memory_get(rt, place, &first);
  if (!rc) rc = make_calls(rt, place, from, n);
  if (!rc) rc = tn_memory_get(rt, place, &last);
  const bool good =
      !rc && last.live <= first.peak_live && last.held <= first.peak_held;
  n_failed += !good;
  printf("%sok %d - %ld calls take no memory\n", good ? "" : "not ", ++n_cases,
         n);
  if (rc) printf("# %s\n", tn_error_text());
  if (!good && !rc)
    printf(
        "# %llu bytes are in use and %llu taken, but before at most %llu "
        "and %llu\n",
        (unsigned long long)last.live, (unsigned long long)last.held,
        (unsigned long long)first.peak_live,
        (unsigned long long)first.peak_held);
}

/* --------------------------------------------------------------------- main */

typedef struct options {
  long long seed, rounds, calls, own;
} options;

/* The word after an option of that name; NULL: there is none. */
static long long *option(options *o, const char *name) {
  if (!strcmp(name, "--seed")) return &o->seed;
  if (!strcmp(name, "--rounds")) return &o->rounds;
  if (!strcmp(name, "--own")) return &o->own;
  return strcmp(name, "--calls") ? NULL : &o->calls;
}

/* Options, and plugins, which are loaded in their order. */
static tn_code read_all(tn_runtime *rt, char **argv, options *o) {
  tn_code rc = TN_OK;
  while (*argv && !rc) {
    long long *number = option(o, *argv);
    if (number && argv[1])
      *number = strtoll(*++argv, NULL, 0);
    else
      rc = tn_plugin_load(rt, *argv);
    ++argv;
  }
  return rc;
}

int main(int argc, char **argv) {
  (void)argc;
  options o = {.seed = 1, .rounds = 2, .calls = 4 * N_SUBJECTS};
  tn_runtime *rt = NULL;
  tn_place place;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = read_all(rt, argv + 1, &o);
  if (rc) {
    printf("Bail out! %s\n", tn_error_text());
  } else if (tn_place_parse(rt, "cuda(0)", &place)) {
    printf("1..0 # SKIP %s\n", tn_error_text());
    tn_runtime_release(rt);
    return 77;
  } else {
    const int first = o.own ? OF_LIBRARIES : 0;
    for (long long round = 0; round < o.rounds; ++round)
      for (int i = first; i < N_SUBJECTS; ++i)
        compare(rt, place, &subjects[i], (uint64_t)(o.seed + round));
    stay(rt, place, first, (long)o.calls);
    printf("1..%d\n", n_cases);
  }
  tn_runtime_release(rt);
  return rc || n_failed > 0;
}
