/* SPDX-License-Identifier: Apache-2.0
 * forms.c: the simplest kernels that use everything a manifest can request. A
 * test plugin: a wrong operand, workspace or state must show in the numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "find.gen.h"
#include "grow.gen.h"
#include "join.gen.h"
#include "linear.gen.h"
#include "noise.gen.h"
#include "plugin.gen.h"
#include "split.gen.h"
#include "tenon/kernel/checked_size.h"
#include "track.gen.h"

/* Per runtime: how many calls of noise there were. */
typedef struct forms_instance {
  int64_t n_noise;
} forms_instance;

int32_t forms_init(const tn_host *host, tn_registrar *registrar,
                   void **instance) {
  (void)host;
  *instance = calloc(1, sizeof(forms_instance));
  if (*instance == NULL)
    return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  return TN_OK;
}

void forms_fini(void *instance) {
  free(instance);
}

static const float *floats_in(const tn_frame *call, uint32_t i) {
  return (const float *)call->in[i].data;
}

/* Where result i of output `out` goes: overwritten, or added to. */
static void put(const tn_frame *call, uint32_t out, int64_t i, float value) {
  float *to = (float *)call->out[out].data;
  to[i] = call->req[out] == TN_REQ_ADD ? to[i] + value : value;
}

/* ---------------------------------------------------------- split and join */

int32_t forms_split(const tn_frame *call) {
  const float *data = floats_in(call, FORMS_SPLIT_IN_DATA);
  for (uint32_t k = 0; k < call->n_out; ++k) {
    const int64_t n = tn_tensor_size(&call->in[0]) / (int64_t)call->n_out;
    for (int64_t i = 0; call->req[k] != TN_REQ_NULL && i < n; ++i)
      put(call, k, i, data[(int64_t)k * n + i]);
  }
  return TN_OK;
}

/* in: gradients of the n parts, data, the n parts. */
int32_t forms_split_backward(const tn_frame *call) {
  const uint32_t parts = (call->n_in - 1) / 2;
  const int64_t n = tn_tensor_size(&call->out[0]) / (int64_t)parts;
  for (uint32_t k = 0; k < parts; ++k)
    for (int64_t i = 0; i < n; ++i)
      put(call, 0, (int64_t)k * n + i, floats_in(call, k)[i]);
  return TN_OK;
}

int32_t forms_join_infer(const tn_frame *call) {
  int64_t shape[TN_MAX_NDIM] = {0};
  const tn_tensor *first = call->in;
  if (call->n_in == 0 || first->ndim == 0)
    return TN_FAIL(call, TN_SHAPE, "parts of no axis cannot be joined");
  if (first->ndim < 0) return TN_OK;
  memcpy(shape, first->shape, (size_t)first->ndim * sizeof *shape);
  shape[0] = 0;
  for (uint32_t k = 0; k < call->n_in; ++k) {
    const tn_tensor *part = &call->in[k];
    if (part->ndim < 0) return TN_OK;
    if (part->ndim != first->ndim)
      return TN_FAIL(call, TN_SHAPE, "part %u has rank %d, the first has %d",
                     (unsigned)k, (int)part->ndim, (int)first->ndim);
    if (part->shape[0] < 0) return TN_OK;
    for (int32_t d = 1; d < part->ndim; ++d)
      if (part->shape[d] != first->shape[d])
        return TN_FAIL(call, TN_SHAPE, "part %u differs along axis %d",
                       (unsigned)k, (int)d);
    shape[0] = tn_size_plus(shape[0], part->shape[0]);
    if (shape[0] < 0)
      return TN_FAIL(call, TN_OUT_OF_RANGE, "the parts are too long");
  }
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, first->ndim, shape);
}

int32_t forms_join(const tn_frame *call) {
  int64_t at = 0;
  for (uint32_t k = 0; k < call->n_in; ++k)
    for (int64_t i = 0; i < tn_tensor_size(&call->in[k]); ++i)
      put(call, 0, at++, floats_in(call, k)[i]);
  return TN_OK;
}

/* in: gradient of the whole, the parts (shapes only), the whole. */
int32_t forms_join_backward(const tn_frame *call) {
  int64_t at = 0;
  for (uint32_t k = 0; k < call->n_out; ++k) {
    const int64_t n = tn_tensor_size(&call->in[1 + k]);
    if (call->in_flags[1 + k] != TN_IN_METADATA &&
        call->in_flags[1 + k] != (TN_IN_METADATA | TN_IN_CONTIGUOUS))
      return TN_FAIL(call, TN_INTERNAL, "part %u is more than its shape",
                     (unsigned)k);
    for (int64_t i = 0; call->req[k] != TN_REQ_NULL && i < n; ++i)
      put(call, k, i, floats_in(call, 0)[at + i]);
    at += n;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ linear */

/* Room for one row of results. */
int32_t forms_linear_workspace(const tn_frame *call, uint64_t *bytes) {
  const tn_tensor *last = &call->out[call->n_out - 1];
  *bytes = (uint64_t)tn_tensor_size(last) * sizeof(float);
  return TN_OK;
}

static float factor_of(const tn_frame *call) {
  return (float)forms_linear_cpu_options_of(call)->factor;
}

int32_t forms_linear(const tn_frame *call) {
  const tn_tensor *weight = &call->in[FORMS_LINEAR_IN_WEIGHT];
  const int64_t n = call->in[0].shape[0], m = weight->shape[0];
  const int64_t depth = weight->shape[1];
  const int has_bias = !(call->in_flags[FORMS_LINEAR_IN_BIAS] & TN_IN_ABSENT);
  float *sums = (float *)call->ws[0];
  if ((uintptr_t)sums % 256 != 0 ||
      call->ws_bytes[0] < (uint64_t)(n * m) * sizeof *sums)
    return TN_FAIL(call, TN_INTERNAL, "the workspace is not as ordered");
  for (int64_t i = 0; i < n * m; ++i)
    sums[i] = has_bias ? floats_in(call, FORMS_LINEAR_IN_BIAS)[i % m] : 0;
  for (int64_t i = 0; i < n * m; ++i)
    for (int64_t k = 0; k < depth; ++k)
      sums[i] += floats_in(call, 0)[i / m * depth + k] *
                 floats_in(call, 1)[i % m * depth + k];
  for (int64_t i = 0; i < n * m; ++i)
    put(call, 0, i, factor_of(call) * sums[i]);
  return TN_OK;
}

/* sum over t of a[i, t] * b[t, j], by strides. */
typedef struct product {
  const float *a, *b;
  int64_t a_row, a_step, b_step, b_column;
  int64_t rows, columns, depth;
} product;

static void multiply(const tn_frame *call, uint32_t out, const product *p) {
  for (int64_t i = 0; i < p->rows; ++i)
    for (int64_t j = 0; j < p->columns; ++j) {
      float sum = 0;
      for (int64_t t = 0; t < p->depth; ++t)
        sum += p->a[i * p->a_row + t * p->a_step] *
               p->b[t * p->b_step + j * p->b_column];
      put(call, out, i * p->columns + j, factor_of(call) * sum);
    }
}

/* Operands that a gradient does not need must be absent. */
static int is_absent(const tn_frame *call, uint32_t i) {
  return (call->in_flags[i] & TN_IN_ABSENT) != 0 && call->in[i].data == NULL;
}

int32_t forms_linear_backward(const tn_frame *call) {
  const tn_tensor *grad = &call->in[FORMS_LINEAR_BACKWARD_GRAD_OUT];
  const float *g = floats_in(call, FORMS_LINEAR_BACKWARD_GRAD_OUT);
  const float *x = floats_in(call, FORMS_LINEAR_BACKWARD_IN_DATA);
  const float *w = floats_in(call, FORMS_LINEAR_BACKWARD_IN_WEIGHT);
  const int64_t n = grad->shape[0], m = grad->shape[1];
  const int wants_data = call->req[0] != TN_REQ_NULL;
  const int wants_weight = call->req[1] != TN_REQ_NULL;
  if (is_absent(call, FORMS_LINEAR_BACKWARD_IN_WEIGHT) == wants_data ||
      is_absent(call, FORMS_LINEAR_BACKWARD_IN_DATA) == wants_weight ||
      !is_absent(call, FORMS_LINEAR_BACKWARD_IN_BIAS))
    return TN_FAIL(call, TN_INTERNAL, "the needs were not respected");
  if (wants_data) {
    const int64_t k = call->out[0].shape[1];
    multiply(call, 0, &(product){g, w, m, 1, k, 1, n, k, m});
  }
  if (wants_weight) {
    const int64_t k = call->out[1].shape[1];
    multiply(call, 1, &(product){g, x, 1, m, k, 1, m, k, n});
  }
  for (int64_t j = 0; call->req[2] != TN_REQ_NULL && j < m; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += g[i * m + j];
    put(call, 2, j, factor_of(call) * sum);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- track */

int32_t forms_track(const tn_frame *call) {
  const forms_track_params *p = forms_track_params_of(call);
  const float *data = floats_in(call, FORMS_TRACK_IN_DATA);
  const int64_t n = tn_tensor_size(&call->in[0]);
  float *average = (float *)call->aux[0].data;
  float mean = 0;
  for (int64_t i = 0; i < n; ++i) mean += data[i] / (float)n;
  for (int64_t i = 0; call->req[0] != TN_REQ_NULL && i < n; ++i)
    put(call, FORMS_TRACK_OUT_OUT, i, data[i] - mean);
  if (call->req[1] != TN_REQ_NULL) put(call, FORMS_TRACK_OUT_MEAN, 0, mean);
  if (call->flags & TN_CALL_TRAIN)
    *average = (float)p->momentum * *average + (1 - (float)p->momentum) * mean;
  return TN_OK;
}

/* ------------------------------------------------------------------- noise */

struct forms_noise_state {
  int64_t size;
};

int32_t forms_noise_create(const tn_frame *call, forms_noise_state **out) {
  if (call->in[0].data != NULL)
    return TN_FAIL(call, TN_INTERNAL, "there is data before the call");
  *out = malloc(sizeof **out);
  if (*out == NULL) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory");
  (*out)->size = tn_tensor_size(&call->in[0]);
  return TN_OK;
}

void forms_noise_destroy(forms_noise_state *state) {
  free(state);
}

/* [key + size from the state, offset + 1000 * calls before in this runtime]. */
int32_t forms_noise(const tn_frame *call) {
  const forms_noise_state *state = call->prepared;
  forms_instance *instance = call->instance;
  const tn_random *random = call->run->random[0];
  int64_t *out = (int64_t *)call->out[0].data;
  out[0] = (int64_t)random->key + state->size;
  out[1] = (int64_t)random->offset + 1000 * instance->n_noise++;
  return TN_OK;
}

/* -------------------------------------------------------------------- find */

int32_t forms_find(const tn_frame *call) {
  const float *data = floats_in(call, FORMS_FIND_IN_DATA);
  const int64_t n = tn_tensor_size(&call->in[0]);
  int64_t count = 0, at = 0;
  for (int64_t i = 0; i < n; ++i) count += data[i] < 0 || data[i] > 0;
  const int32_t code =
      call->host->set_shape(call, TN_OPERAND_OUT, 0, 1, &count);
  if (code != TN_OK) return code;
  int64_t *out = (int64_t *)call->out[0].data;
  for (int64_t i = 0; i < n; ++i)
    if (data[i] < 0 || data[i] > 0) out[at++] = i;
  return TN_OK;
}

/* -------------------------------------------------------------------- grow */

int32_t forms_grow(const tn_frame *call) {
  return TN_FAIL(call, TN_INTERNAL, "the call should have been refused");
}
