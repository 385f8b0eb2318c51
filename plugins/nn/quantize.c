/* SPDX-License-Identifier: Apache-2.0
 * quantize.c: kernels of quantize.yaml: in parts that are converted to f32 or
 * f64, computed, and stored in the type of the output.
 */
#include "quantize.gen.h"

#include <float.h>

#include "axis.h"

#define NN_QUANTIZE_ONE static inline
#include "quantize.h"

/* ------------------------------------------------------------------- shapes */

static int32_t refuse_dtype(const tn_frame *call, const char *name) {
  return TN_FAIL(call, TN_DTYPE, "%s are i8, u8, i16 or u16; say so by dtype",
                 name);
}

static int is_small(tn_dtype dtype) {
  return dtype == TN_I8 || dtype == TN_U8 || dtype == TN_I16 || dtype == TN_U16;
}

/* One scale, or one for each index along the axis; the same for `zero`. */
static int32_t infer_scales(const tn_frame *call, int has_axis, int64_t axis) {
  const tn_tensor *data = &call->in[0];
  int64_t n = 0;
  int32_t dim = 0, code = TN_OK;
  if (has_axis) {
    if (data->ndim < 0) return TN_OK;
    code = nn_axis_find_dim(call, axis, data, &dim);
    if (code != TN_OK) return code;
    n = data->shape[dim];
  }
  for (uint32_t i = 1; i < call->n_in && code == TN_OK; ++i)
    if (call->in[i].ndim != -2)
      code = call->host->set_shape(call, TN_OPERAND_IN, i, has_axis, &n);
  return code;
}

int32_t nn_quantize_infer(const tn_frame *call) {
  const nn_quantize_params *p = nn_quantize_params_of(call);
  if (!is_small(p->dtype)) return refuse_dtype(call, "these integers");
  return infer_scales(call, p->has_axis, p->axis);
}

int32_t nn_dequantize_infer(const tn_frame *call) {
  const nn_dequantize_params *p = nn_dequantize_params_of(call);
  return infer_scales(call, p->has_axis, p->axis);
}

int32_t nn_requantize_infer(const tn_frame *call) {
  const nn_requantize_params *p = nn_requantize_params_of(call);
  if (!is_small(p->dtype)) return refuse_dtype(call, "these integers");
  return infer_scales(call, p->has_axis, p->axis);
}

/* -------------------------------------------------------------------- loops */

/* Elements that are converted together. */
enum { PART = 1024 };

typedef struct scaling scaling;

/* Turns n numbers of `x`, from element `first` on, into `to`. */
typedef void scaling_body(const scaling *s, int64_t first, int64_t n,
                          const double *x, double *to);

/* One call: element i has the scale and zero point i / inner % length. */
struct scaling {
  const tn_frame *call;
  const tn_tensor *data, *scale, *zero; /* `zero` NULL: absent */
  const tn_tensor *out;
  scaling_body *body;
  int64_t inner, length;
};

static double read_number(const tn_tensor *t, int64_t i) {
  static const tn_kernel_mode mode = {TN_F64, 0};
  double x;
  tn_kernel_load_dense(&x, &mode,
                       (const char *)t->data + i * tn_dtype_bytes(t->dtype),
                       t->dtype, 1);
  return x;
}

/* The scale and the zero point of element i, and how many of the next n have
 * the same. */
static int64_t find_scale(const scaling *s, int64_t i, int64_t n, double *scale,
                          double *zero) {
  const int64_t at = i / s->inner % s->length, left = s->inner - i % s->inner;
  *scale = read_number(s->scale, at);
  *zero = s->zero != NULL ? read_number(s->zero, at) : 0;
  return n < left ? n : left;
}

static int32_t scale_parts(void *arg, int64_t begin, int64_t end) {
  static const tn_kernel_mode mode = {TN_F64, 0};
  const scaling *s = (const scaling *)arg;
  const int64_t size = tn_tensor_size(s->data);
  double x[PART], to[PART];
  for (int64_t first = begin * PART; first < size && first < end * PART;
       first += PART) {
    const int64_t n = size - first < PART ? size - first : PART;
    tn_kernel_load_dense(
        x, &mode,
        (const char *)s->data->data + first * tn_dtype_bytes(s->data->dtype),
        s->data->dtype, n);
    s->body(s, first, n, x, to);
    tn_kernel_store_dense(
        (char *)s->out->data + first * tn_dtype_bytes(s->out->dtype),
        s->out->dtype, to, &mode, n);
  }
  return TN_OK;
}

/* The quotient of two numbers of f32, halves included, is one of f32. */
static void quantize_part(const scaling *s, int64_t first, int64_t n,
                          const double *x, double *to) {
  const int is_wide = s->data->dtype == TN_F64;
  const double least = nn_quantize_least(s->out->dtype);
  const double most = nn_quantize_most(s->out->dtype);
  for (int64_t i = 0; i < n;) {
    double scale, zero;
    const int64_t run = find_scale(s, first + i, n - i, &scale, &zero);
    for (const int64_t stop = i + run; i < stop; ++i) {
      const double rounded = is_wide
                                 ? rint(x[i] / scale)
                                 : (double)rintf((float)x[i] / (float)scale);
      to[i] = nn_quantize_cut(rounded, zero, least, most);
    }
  }
}

static void dequantize_part(const scaling *s, int64_t first, int64_t n,
                            const double *x, double *to) {
  for (int64_t i = 0; i < n;) {
    double scale, zero;
    const int64_t run = find_scale(s, first + i, n - i, &scale, &zero);
    for (const int64_t stop = i + run; i < stop; ++i)
      to[i] = (x[i] - zero) * scale;
  }
}

static void requantize_part(const scaling *s, int64_t first, int64_t n,
                            const double *x, double *to) {
  const double least = nn_quantize_least(s->out->dtype);
  const double most = nn_quantize_most(s->out->dtype);
  for (int64_t i = 0; i < n;) {
    double scale, zero;
    const int64_t run = find_scale(s, first + i, n - i, &scale, &zero);
    for (const int64_t stop = i + run; i < stop; ++i)
      to[i] = nn_quantize_cut(rint(x[i] * scale), zero, least, most);
  }
}

static int32_t run_scaling(scaling *s) {
  const int64_t size = tn_tensor_size(s->data);
  if (size == 0) return TN_OK;
  return nn_run_parallel(s->call, (size + PART - 1) / PART, PART, scale_parts,
                         s);
}

/* A call of one of the three operators, which have equal operands. */
static int32_t run_call(const tn_frame *call, int has_axis, int64_t axis,
                        scaling_body *body) {
  const tn_tensor *data = &call->in[0];
  const tn_tensor *zero =
      call->n_in > 2 && call->in[2].data != NULL ? &call->in[2] : NULL;
  scaling s = {call, data, &call->in[1], zero, &call->out[0], body, 1, 1};
  if (has_axis) {
    int32_t dim = 0;
    const int32_t code = nn_axis_find_dim(call, axis, data, &dim);
    if (code != TN_OK) return code;
    const nn_axis_shape e = nn_axis_find_shape(data, dim, dim);
    s.length = e.length;
    s.inner = e.inner;
  } else {
    s.inner = tn_tensor_size(data);
  }
  return run_scaling(&s);
}

int32_t nn_quantize(const tn_frame *call) {
  const nn_quantize_params *p = nn_quantize_params_of(call);
  return run_call(call, p->has_axis, p->axis, quantize_part);
}

int32_t nn_dequantize(const tn_frame *call) {
  const nn_dequantize_params *p = nn_dequantize_params_of(call);
  return run_call(call, p->has_axis, p->axis, dequantize_part);
}

int32_t nn_requantize(const tn_frame *call) {
  const nn_requantize_params *p = nn_requantize_params_of(call);
  return run_call(call, p->has_axis, p->axis, requantize_part);
}

/* ------------------------------------------------------------------ dynamic */

int32_t nn_dynamic_quantize(const tn_frame *call) {
  const tn_tensor *data = &call->in[0];
  const float *x = (const float *)data->data;
  const int64_t n = tn_tensor_size(data);
  float least = 0, most = 0, scale = 1;
  for (int64_t i = 0; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  if (least < 0 || most > 0) scale = (most - least) / 255;
  if (!(scale <= FLT_MAX)) scale = most / 255 - least / 255;
  uint8_t zero = (uint8_t)nn_quantize_cut(rintf(-least / scale), 0, 0, 255);
  const tn_tensor scale_of = {.data = &scale, .dtype = TN_F32};
  const tn_tensor zero_of = {.data = &zero, .dtype = TN_U8};
  if (call->req[1] != TN_REQ_NULL) *(float *)call->out[1].data = scale;
  if (call->req[2] != TN_REQ_NULL) *(uint8_t *)call->out[2].data = zero;
  scaling s = {call,          data,          &scale_of, &zero_of,
               &call->out[0], quantize_part, n,         1};
  return call->req[0] != TN_REQ_NULL ? run_scaling(&s) : TN_OK;
}
