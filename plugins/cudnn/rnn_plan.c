/* SPDX-License-Identifier: Apache-2.0
 * rnn_plan.c: the descriptors of a recurrent call, the sizes of its memory, and
 * the order of its weights. The operator has the order that cuDNN uses today,
 * but cuDNN does not promise it. So the plan asks cuDNN for the address of each
 * matrix and each bias.
 */
#include "rnn.h"

#include <stdlib.h>
#include <string.h>

static int64_t count_gates(const cudnn_rnn_sizes *s) {
  return s->kind == DNN_RNN_LSTM ? 4 : s->kind == DNN_RNN_GRU ? 3 : 1;
}

/* The length of a row that a layer reads. */
static int64_t count_inputs(const cudnn_rnn_sizes *s, int64_t layer) {
  return layer == 0 ? s->inputs : s->directions * s->units;
}

static unsigned find_type(tn_dtype dtype) {
  return dtype == TN_F64    ? DNN_F64
         : dtype == TN_F16  ? DNN_F16
         : dtype == TN_BF16 ? DNN_BF16
                            : DNN_F32;
}

/* Products of f32 are exact unless rounding is allowed. Those of halves are
 * exact in tensor cores, which add them in f32. */
static unsigned find_math(const cudnn_rnn_sizes *s) {
  if (s->dtype == TN_F16 || s->dtype == TN_BF16) return DNN_MATH_TENSOR_CORES;
  return s->dtype == TN_F32 && !s->is_fast ? DNN_MATH_FMA : DNN_MATH_DEFAULT;
}

/* ------------------------------------------------------------- descriptors */

/* A plan that is being created. */
typedef struct maker {
  const dnn_library *library;
  dnn_handle handle;
  const cudnn_rnn_sizes *sizes;
  cudnn_rnn_plan *plan;
} maker;

/* Between layers nothing is dropped, so there are no states of random
 * numbers. */
static int make_dropout(const maker *m) {
  const int status = m->library->dropout_create(&m->plan->dropout);
  if (status != DNN_OK) return status;
  return m->library->dropout_set(m->plan->dropout, m->handle, 0, NULL, 0, 0);
}

static int make_layers(const maker *m) {
  const cudnn_rnn_sizes *s = m->sizes;
  const int status = m->library->rnn_create(&m->plan->rnn);
  if (status != DNN_OK) return status;
  return m->library->rnn_set(
      m->plan->rnn, DNN_RNN_STANDARD, s->kind, DNN_RNN_TWO_BIASES,
      s->directions == 2 ? DNN_RNN_TWO_DIRECTIONS : DNN_RNN_ONE_DIRECTION,
      DNN_RNN_LINEAR_INPUT, find_type(s->dtype),
      s->dtype == TN_F64 ? DNN_F64 : DNN_F32, find_math(s), (int32_t)s->inputs,
      (int32_t)s->units, (int32_t)s->units, (int32_t)s->layers,
      m->plan->dropout, 0);
}

/* Describes rows of all steps; all sequences have the same length. */
static int make_rows(const maker *m, int64_t elements, const int *lengths,
                     dnn_rnn_data *out) {
  const cudnn_rnn_sizes *s = m->sizes;
  const int status = m->library->rnn_data_create(out);
  if (status != DNN_OK) return status;
  return m->library->rnn_data_set(*out, find_type(s->dtype),
                                  DNN_RNN_STEPS_PACKED, (int)s->steps,
                                  (int)s->batch, (int)elements, lengths, NULL);
}

static int make_sequences(const maker *m) {
  const cudnn_rnn_sizes *s = m->sizes;
  int *lengths = malloc((size_t)s->batch * sizeof *lengths);
  if (!lengths) return DNN_NO_HOST_MEMORY;
  for (int64_t i = 0; i < s->batch; ++i) lengths[i] = (int)s->steps;
  int status = make_rows(m, s->inputs, lengths, &m->plan->x);
  if (status == DNN_OK)
    status = make_rows(m, s->directions * s->units, lengths, &m->plan->y);
  free(lengths);
  return status;
}

static int make_states(const maker *m) {
  const cudnn_rnn_sizes *s = m->sizes;
  const int dims[] = {(int)(s->layers * s->directions), (int)s->batch,
                      (int)s->units};
  const int steps[] = {(int)(s->batch * s->units), (int)s->units, 1};
  const int status = m->library->tensor_create(&m->plan->states);
  if (status != DNN_OK) return status;
  return m->library->tensor_set(m->plan->states, find_type(s->dtype), 3, dims,
                                steps);
}

int cudnn_rnn_describe(const dnn_library *library, const cudnn_rnn_sizes *sizes,
                       cudnn_rnn_plan *out) {
  const maker m = {library, NULL, sizes, out};
  int status = make_layers(&m);
  if (status == DNN_OK) status = make_sequences(&m);
  return status == DNN_OK ? make_states(&m) : status;
}

/* ----------------------------------------------------------------- weights */

/* One matrix or bias of a layer and direction. */
typedef struct piece {
  int64_t layer; /* layer * directions + direction */
  int64_t which; /* gates of the input, then gates of h */
  int is_bias;
  int64_t n;
} piece;

/* A search for pieces in the order of the operator. */
typedef struct search {
  const maker *m;
  dnn_tensor matrix;
  dnn_tensor bias;
  int64_t ours; /* elements so far */
} search;

static void add_range(const search *f, int64_t theirs, int64_t n) {
  cudnn_rnn_plan *plan = f->m->plan;
  cudnn_rnn_range *next = plan->ranges + plan->n_ranges;
  if (plan->n_ranges > 0 && next[-1].theirs + next[-1].n == theirs) {
    next[-1].n += n;
    return;
  }
  *next = (cudnn_rnn_range){f->ours, theirs, n};
  ++plan->n_ranges;
}

static int find_piece(search *f, const piece *p) {
  const maker *m = f->m;
  void *matrix = NULL, *bias = NULL;
  const int status = m->library->rnn_weights_find(
      m->handle, m->plan->rnn, (int32_t)p->layer, m->plan->weights, NULL,
      (int32_t)p->which, f->matrix, &matrix, f->bias, &bias);
  if (status != DNN_OK) return status;
  const int64_t at = (int64_t)(uintptr_t)(p->is_bias ? bias : matrix);
  add_range(f, at / tn_dtype_bytes(m->sizes->dtype), p->n);
  f->ours += p->n;
  return DNN_OK;
}

static int find_pieces(search *f, int64_t layer, int is_bias) {
  const cudnn_rnn_sizes *s = f->m->sizes;
  const int64_t gates = count_gates(s);
  int status = DNN_OK;
  for (int64_t i = 0; i < 2 * gates && status == DNN_OK; ++i) {
    const int64_t row =
        i < gates ? count_inputs(s, layer / s->directions) : s->units;
    status = find_piece(
        f, &(piece){layer, i, is_bias, s->units * (is_bias ? 1 : row)});
  }
  return status;
}

static int find_all(search *f) {
  const int64_t n = f->m->sizes->layers * f->m->sizes->directions;
  int status = f->m->library->tensor_create(&f->matrix);
  if (status == DNN_OK) status = f->m->library->tensor_create(&f->bias);
  for (int64_t i = 0; i < 2 * n && status == DNN_OK; ++i)
    status = find_pieces(f, i % n, i >= n);
  if (f->matrix) (void)f->m->library->tensor_destroy(f->matrix);
  if (f->bias) (void)f->m->library->tensor_destroy(f->bias);
  return status;
}

/* Whether cuDNN may read the parameters where they are. */
static int is_same_order(const maker *m) {
  const cudnn_rnn_plan *plan = m->plan;
  return plan->n_ranges == 1 && plan->ranges[0].theirs == 0 &&
         (int64_t)plan->weights ==
             plan->ranges[0].n * tn_dtype_bytes(m->sizes->dtype);
}

static int find_weights(const maker *m) {
  const cudnn_rnn_sizes *s = m->sizes;
  search f = {.m = m};
  int status =
      m->library->rnn_weights_size(m->handle, m->plan->rnn, &m->plan->weights);
  if (status != DNN_OK) return status;
  m->plan->ranges =
      calloc((size_t)(4 * count_gates(s) * s->layers * s->directions),
             sizeof *m->plan->ranges);
  if (!m->plan->ranges) return DNN_NO_HOST_MEMORY;
  status = find_all(&f);
  if (status != DNN_OK || !is_same_order(m)) return status;
  free(m->plan->ranges);
  m->plan->ranges = NULL;
  m->plan->n_ranges = 0;
  return DNN_OK;
}

/* -------------------------------------------------------------------- plans */

int cudnn_rnn_plan_make(const dnn_library *library, dnn_handle handle,
                        const cudnn_rnn_sizes *sizes, cudnn_rnn_plan *out) {
  const maker m = {library, handle, sizes, out};
  memset(out, 0, sizeof *out);
  int status = make_dropout(&m);
  if (status == DNN_OK) status = cudnn_rnn_describe(library, sizes, out);
  if (status == DNN_OK) status = find_weights(&m);
  if (status == DNN_OK)
    status = library->rnn_spaces(handle, out->rnn, sizes->mode, out->x,
                                 &out->work, &out->reserve);
  if (status != DNN_OK) cudnn_rnn_plan_unmake(library, out);
  return status;
}

void cudnn_rnn_plan_unmake(const dnn_library *library, cudnn_rnn_plan *plan) {
  if (plan->states) (void)library->tensor_destroy(plan->states);
  if (plan->y) (void)library->rnn_data_destroy(plan->y);
  if (plan->x) (void)library->rnn_data_destroy(plan->x);
  if (plan->rnn) (void)library->rnn_destroy(plan->rnn);
  if (plan->dropout) (void)library->dropout_destroy(plan->dropout);
  free(plan->ranges);
  memset(plan, 0, sizeof *plan);
}
