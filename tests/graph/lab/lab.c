/* SPDX-License-Identifier: Apache-2.0
 * lab.c: the simplest kernels, in f64, of the operators for graphs in tests.
 * They check that operands which a gradient does not need are absent.
 */
#include <stdbool.h>
#include <string.h>

#include "plugin.gen.h"
#include "several.gen.h"
#include "shapes.gen.h"
#include "tenon/kernel/kernel.h"

static const double *input_of(const tn_frame *call, uint32_t i) {
  return (const double *)call->in[i].data;
}

static double *output_of(const tn_frame *call, uint32_t i) {
  return (double *)call->out[i].data;
}

static int is_requested(const tn_frame *call, uint32_t i) {
  return call->req[i] != TN_REQ_NULL;
}

static int has_values(const tn_frame *call, uint32_t i) {
  return !(call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA));
}

int32_t lab_never(const tn_frame *call) {
  return TN_FAIL(call, TN_INTERNAL, "this operator is never computed");
}

/* -------------------------------------------------------------------- keep */

int32_t lab_keep(const tn_frame *call) {
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    if (is_requested(call, 0))
      output_of(call, 0)[i] = input_of(call, 0)[i] * input_of(call, 1)[i];
    if (is_requested(call, 1)) output_of(call, 1)[i] = input_of(call, 1)[i];
  }
  return TN_OK;
}

/* in: gradients of out and slope, x, y, out, slope. */
int32_t lab_keep_backward(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->in[0]);
  if (has_values(call, 1) || has_values(call, 3) || has_values(call, 4) ||
      has_values(call, 2) != is_requested(call, 1) ||
      has_values(call, 5) != is_requested(call, 0))
    return TN_FAIL(call, TN_INTERNAL, "the needs were not respected");
  for (int64_t i = 0; i < n; ++i) {
    if (is_requested(call, 0))
      output_of(call, 0)[i] = input_of(call, 0)[i] * input_of(call, 5)[i];
    if (is_requested(call, 1))
      output_of(call, 1)[i] = input_of(call, 0)[i] * input_of(call, 2)[i];
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- total */

int32_t lab_total(const tn_frame *call) {
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i) {
    double sum = 0;
    for (uint32_t k = 0; k < call->n_in; ++k) sum += input_of(call, k)[i];
    output_of(call, 0)[i] = sum;
  }
  return TN_OK;
}

int32_t lab_total_backward(const tn_frame *call) {
  for (uint32_t k = 0; k < call->n_out; ++k)
    for (int64_t i = 0;
         is_requested(call, k) && i < tn_tensor_size(&call->out[k]); ++i)
      output_of(call, k)[i] = input_of(call, 0)[i];
  return TN_OK;
}

/* ------------------------------------------------------------------- track */

int32_t lab_track(const tn_frame *call) {
  double *sum = (double *)call->aux[0].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    sum[i] += input_of(call, 0)[i];
    if (is_requested(call, 0)) output_of(call, 0)[i] = input_of(call, 0)[i];
  }
  return TN_OK;
}

int32_t lab_track_backward(const tn_frame *call) {
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    output_of(call, 0)[i] = input_of(call, 0)[i];
  return TN_OK;
}

/* -------------------------------------------------------------------- room */

/* Writes all of it; it is larger than the padding of any array. */
int32_t lab_room_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = call->flags & TN_CALL_TRAIN ? 4u << 20 : 0;
  return TN_OK;
}

int32_t lab_room(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->in[0]);
  if (call->flags & TN_CALL_TRAIN) memset(call->ws[0], 7, call->ws_bytes[0]);
  memcpy(call->out[0].data, call->in[0].data, (size_t)n * sizeof(double));
  return TN_OK;
}

/* -------------------------------------------------------------------- seen */

/* A gradient is that of the view. */
int32_t lab_seen(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->in[0]);
  memcpy(call->out[0].data, call->in[0].data,
         (size_t)(n * tn_dtype_bytes(call->in[0].dtype)));
  return TN_OK;
}

/* ------------------------------------------------------------------ invert */

int32_t lab_invert(const tn_frame *call) {
  const int64_t n = tn_tensor_bytes(&call->in[0]);
  const uint8_t *x = call->in[0].data;
  uint8_t *y = call->out[0].data;
  for (int64_t i = 0; i < n; ++i) y[i] = (uint8_t)~x[i];
  if (call->in[0].dtype == TN_U4 && tn_tensor_size(&call->in[0]) % 2 == 1)
    y[n - 1] &= 0x0f;
  return TN_OK;
}

/* -------------------------------------------------------------------- like */

int32_t lab_like(const tn_frame *call) {
  const bool from_whole = call->in[0].dtype == TN_I32;
  const bool whole = call->out[0].dtype == TN_I32;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    const double x = from_whole ? (double)((int32_t *)call->in[0].data)[i]
                                : input_of(call, 0)[i];
    if (whole)
      ((int32_t *)call->out[0].data)[i] = (int32_t)x;
    else
      output_of(call, 0)[i] = x;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- noise */

/* Factors in [0.5, 1.5). */
int32_t lab_noise(const tn_frame *call) {
  const tn_random *random = call->run->random[0];
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) {
    const uint32_t bits = tn_kernel_random(random, (uint64_t)i).word[0];
    const double factor = 0.5 + (double)bits / 4294967296.0;
    if (is_requested(call, 0))
      output_of(call, 0)[i] = input_of(call, 0)[i] * factor;
    if (is_requested(call, 1)) output_of(call, 1)[i] = factor;
  }
  return TN_OK;
}

/* in: gradients of out and factor, data, out, factor. */
int32_t lab_noise_backward(const tn_frame *call) {
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i)
    output_of(call, 0)[i] = input_of(call, 0)[i] * input_of(call, 4)[i];
  return TN_OK;
}

/* ------------------------------------------------------------------- broad */

/* Offset of element number `at` of `loop` in `t`, whose dimensions are the last
 * ones of the loop, or repeated. */
static int64_t find_offset(const tn_tensor *t, const tn_tensor *loop,
                           int64_t at) {
  int64_t offset = 0;
  for (int32_t i = loop->ndim; i-- > 0;) {
    const int32_t k = i - (loop->ndim - t->ndim);
    if (k >= 0 && t->shape[k] != 1)
      offset += at % loop->shape[i] * t->strides[k];
    at /= loop->shape[i];
  }
  return offset;
}

int32_t lab_broad(const tn_frame *call) {
  const tn_tensor *a = &call->in[0], *b = &call->in[1], *to = &call->out[0];
  for (int64_t i = 0; i < tn_tensor_size(to); ++i) {
    const int64_t p = find_offset(a, to, i), q = find_offset(b, to, i),
                  r = find_offset(to, to, i);
    if (to->dtype == TN_F64)
      ((double *)to->data)[r] =
          ((const double *)a->data)[p] + 3 * ((const double *)b->data)[q];
    else if (to->dtype == TN_F32)
      ((float *)to->data)[r] =
          ((const float *)a->data)[p] + 3 * ((const float *)b->data)[q];
    else
      ((int32_t *)to->data)[r] =
          ((const int32_t *)a->data)[p] + 3 * ((const int32_t *)b->data)[q];
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- dense */

/* sum over t of a[i, t] * b[t, j], by strides. */
typedef struct product {
  const double *a, *b;
  int64_t a_row, a_step, b_step, b_column;
  int64_t rows, columns, depth;
} product;

static void multiply_by(double *to, const product *p) {
  for (int64_t i = 0; i < p->rows; ++i)
    for (int64_t j = 0; j < p->columns; ++j) {
      double sum = 0;
      for (int64_t t = 0; t < p->depth; ++t)
        sum += p->a[i * p->a_row + t * p->a_step] *
               p->b[t * p->b_step + j * p->b_column];
      to[i * p->columns + j] = sum;
    }
}

int32_t lab_dense(const tn_frame *call) {
  const int64_t n = call->in[0].shape[0], c = call->in[0].shape[1];
  const int64_t m = call->in[1].shape[0];
  multiply_by(
      output_of(call, 0),
      &(product){input_of(call, 0), input_of(call, 1), c, 1, 1, c, n, m, c});
  for (int64_t i = 0; has_values(call, 2) && i < n * m; ++i)
    output_of(call, 0)[i] += input_of(call, 2)[i % m];
  return TN_OK;
}

/* in: gradient of out, data, weight, bias, out. */
int32_t lab_dense_backward(const tn_frame *call) {
  const int64_t n = call->in[0].shape[0], m = call->in[0].shape[1];
  const double *g = input_of(call, 0);
  if (has_values(call, 1) != is_requested(call, 1) ||
      has_values(call, 2) != is_requested(call, 0) || has_values(call, 3))
    return TN_FAIL(call, TN_INTERNAL, "the needs were not respected");
  if (is_requested(call, 0)) {
    const int64_t c = call->out[0].shape[1];
    multiply_by(output_of(call, 0),
                &(product){g, input_of(call, 2), m, 1, c, 1, n, c, m});
  }
  if (is_requested(call, 1)) {
    const int64_t c = call->out[1].shape[1];
    multiply_by(output_of(call, 1),
                &(product){g, input_of(call, 1), 1, m, c, 1, m, c, n});
  }
  for (int64_t j = 0; is_requested(call, 2) && j < m; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += g[i * m + j];
    output_of(call, 2)[j] = sum;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ slices */

/* Copies between the whole and its parts, in both directions. */
static void slices_copy(double *to, const double *from, int64_t rows,
                        int64_t each, int64_t to_step, int64_t from_step) {
  for (int64_t i = 0; i < rows; ++i)
    memcpy(to + i * to_step, from + i * from_step, (size_t)each * sizeof *to);
}

int32_t lab_slices(const tn_frame *call) {
  const int64_t rows = call->in[0].shape[0], parts = call->n_out;
  if (tn_tensor_size(&call->in[0]) == 0) return TN_OK;
  const int64_t each = tn_tensor_size(&call->in[0]) / rows / parts;
  for (uint32_t k = 0; k < call->n_out; ++k)
    if (is_requested(call, k))
      slices_copy(output_of(call, k), input_of(call, 0) + (int64_t)k * each,
                  rows, each, each, each * parts);
  return TN_OK;
}

/* in: gradients of the parts, data, the parts. */
int32_t lab_slices_backward(const tn_frame *call) {
  const uint32_t parts = (call->n_in - 1) / 2;
  const int64_t rows = call->out[0].shape[0];
  if (tn_tensor_size(&call->out[0]) == 0) return TN_OK;
  const int64_t each = tn_tensor_size(&call->out[0]) / rows / parts;
  for (uint32_t k = 0; k < parts; ++k)
    slices_copy(output_of(call, 0) + (int64_t)k * each, input_of(call, k), rows,
                each, each * parts, each);
  return TN_OK;
}

/* ------------------------------------------------------------------ concat */

/* The second dimension of the joined array: the sum of the parts' if all are
 * known; -1 otherwise. */
static int64_t concat_sum(const tn_frame *call) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < call->n_in; ++k) {
    if (call->in[k].ndim < 2 || call->in[k].shape[1] < 0) return -1;
    sum += call->in[k].shape[1];
  }
  return sum;
}

static int32_t concat_tell(const tn_frame *call, const int64_t *like,
                           int32_t ndim) {
  int64_t shape[TN_MAX_NDIM];
  memcpy(shape, like, (size_t)ndim * sizeof *shape);
  shape[1] = -1;
  for (uint32_t k = 0; k < call->n_in; ++k) {
    const int32_t code =
        call->host->set_shape(call, TN_OPERAND_IN, k, ndim, shape);
    if (code != TN_OK) return code;
  }
  shape[1] = concat_sum(call);
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape);
}

/* All dimensions but the second equal those of every part. */
int32_t lab_gate_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[0], *gamma = &call->in[1];
  const bool usual = (call->flags & TN_CALL_DEFAULTS) != 0;
  const int64_t n = usual && data->ndim == 2 ? data->shape[1] : -1;
  const bool known = gamma->ndim == 1 && gamma->shape[0] >= 0;
  return call->host->set_shape(call, TN_OPERAND_IN, 1, 1,
                               known ? gamma->shape : &n);
}

int32_t lab_concat_infer(const tn_frame *call) {
  for (uint32_t k = 0; k < call->n_in; ++k) {
    const tn_tensor *t = &call->in[k];
    if (t->ndim < 2) continue;
    const int32_t code = concat_tell(call, t->shape, t->ndim);
    if (code != TN_OK) return code;
  }
  const tn_tensor *t = &call->out[0];
  return t->ndim < 2 ? TN_OK : concat_tell(call, t->shape, t->ndim);
}
