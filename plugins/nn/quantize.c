/* SPDX-License-Identifier: Apache-2.0
 * quantize.c: kernels of quantize.yaml: in parts that are converted to f32 or
 * f64, computed, and stored in the type of the output.
 */
#include "quantize.gen.h"

#include <float.h>

#include "axis.h"
#include "quantize.h"
#include "tenon/kernel/storage_loops.h"
#include "window.h"

/* ------------------------------------------------------------------- shapes */

/* One scale, one for each index along the axis, or one for each block; the same
 * for `zero`. */
static int32_t infer_scales(const tn_frame *call, int has_axis, int64_t axis,
                            int64_t block) {
  const tn_tensor *data = &call->in[0];
  int64_t shape[TN_MAX_NDIM] = {0};
  int32_t dim = 0, code = TN_OK, ndim = has_axis;
  if (block > 0 && !has_axis)
    return TN_FAIL(call, TN_INVALID,
                   "block_size=%lld without an axis; pass the axis that is "
                   "divided into blocks",
                   (long long)block);
  if (has_axis) {
    if (data->ndim < 0) return TN_OK;
    code = nn_axis_find_dim(call, axis, data, &dim);
    if (code != TN_OK) return code;
    shape[0] = data->shape[dim];
  }
  if (block > 0) {
    const int64_t length = data->shape[dim];
    ndim = data->ndim;
    for (int32_t d = 0; d < ndim; ++d) shape[d] = data->shape[d];
    if (length > 0) shape[dim] = (length - 1) / block + 1;
  }
  for (uint32_t i = 1; i < call->n_in && code == TN_OK; ++i)
    code = call->host->set_shape(call, TN_OPERAND_IN, i, ndim, shape);
  return code;
}

int32_t nn_quantize_infer(const tn_frame *call) {
  const nn_quantize_params *p = nn_quantize_params_of(call);
  return infer_scales(call, p->has_axis, p->axis, p->block_size);
}

int32_t nn_dequantize_infer(const tn_frame *call) {
  const nn_dequantize_params *p = nn_dequantize_params_of(call);
  return infer_scales(call, p->has_axis, p->axis, p->block_size);
}

int32_t nn_requantize_infer(const tn_frame *call) {
  const nn_requantize_params *p = nn_requantize_params_of(call);
  return infer_scales(call, p->has_axis, p->axis, 0);
}

/* -------------------------------------------------------------------- loops */

/* Elements that are converted together: whole bytes of packed types. */
enum { PART = 1024 };

/* A part of a call, in the type of the computation. */
typedef struct quantize_part {
  int64_t n;
  void *to;
  const void *x, *scale, *zero;
  int32_t least, most; /* bounds of an output of integers */
} quantize_part;

typedef void quantize_body(const quantize_part *p);

#define QUANTIZE_LEVELS(name) \
  TN_STORAGE_LEVELS(name, (const quantize_part *p), (p))

#define LOOP_REAL float
#define LOOP_NAME(name) name##_f32
#define LOOP_RINT rintf
#define LOOP_SELECT tn_math_select_f32
#include "quantize_loops.h"

#define LOOP_REAL double
#define LOOP_NAME(name) name##_f64
#define LOOP_RINT rint
#define LOOP_SELECT tn_math_select_f64
#include "quantize_loops.h"

static void requantize(const quantize_part *p) {
  const double *x = (const double *)p->x, *scale = (const double *)p->scale;
  const double *zero = (const double *)p->zero;
  for (int64_t i = 0; i < p->n; ++i)
    ((double *)p->to)[i] = cut_f64(x[i] * scale[i], zero[i], p);
}

/* ----------------------------------------------------------------- scalings */

/* One call. */
typedef struct scaling {
  const tn_tensor *data, *scale, *zero; /* `zero` NULL: absent */
  const tn_tensor *out;
  nn_quantize_view view;
  tn_kernel_mode mode;
  tn_storage_rule rule; /* of an output of a storage type */
  quantize_body *body;
  double no_zero; /* a zero point that changes no number: -0 in sums */
} scaling;

/* Reads n elements of a dense tensor from element `first` on. Packed ones begin
 * in the middle of a byte: those before them are read as well, and dropped. */
static void read_numbers(void *to, const tn_kernel_mode *mode,
                         const tn_tensor *t, int64_t first, int64_t n) {
  const char *data = (const char *)t->data;
  if (!tn_storage_has(t->dtype)) {
    tn_kernel_load_dense(to, mode, data + first * tn_dtype_bytes(t->dtype),
                         t->dtype, n);
    return;
  }
  const int64_t per_byte = tn_storage_per_byte(t->dtype);
  const int64_t extra = first % per_byte;
  const int64_t bytes = tn_dtype_bytes(mode->compute);
  double room[PART + 4];
  data += first / per_byte;
  if (extra == 0) {
    tn_storage_load_dense(to, mode, data, t->dtype, n);
    return;
  }
  tn_storage_load_dense(room, mode, data, t->dtype, n + extra);
  memcpy(to, (const char *)room + extra * bytes, (size_t)(n * bytes));
}

static void repeat_number(void *to, tn_dtype dtype, double x, int64_t n) {
  if (dtype == TN_F32)
    for (int64_t i = 0; i < n; ++i) ((float *)to)[i] = (float)x;
  else
    for (int64_t i = 0; i < n; ++i) ((double *)to)[i] = x;
}

/* Sets the scale, or the zero point, of each of n elements from element `first`
 * on: all inside of one line are equal, or follow each other. */
static void spread_rows(const scaling *s, const tn_tensor *t, char *to,
                        int64_t first, int64_t n) {
  static const tn_kernel_mode as_f64 = {TN_F64, 0};
  const nn_quantize_view *v = &s->view;
  const int64_t bytes = tn_dtype_bytes(s->mode.compute);
  /* Without blocks, elements along the last axis have scales of their own. */
  const int64_t row = v->inner > 1 ? v->inner : v->length;
  const int are_equal = (v->inner > 1) == (v->block == 0);
  int64_t run = 0;
  for (int64_t i = 0; i < n; i += run) {
    const int64_t at = nn_quantize_scale_at(v, first + i);
    double x;
    run = nn_min(row - (first + i) % row, n - i);
    if (are_equal) {
      read_numbers(&x, &as_f64, t, at, 1);
      repeat_number(to + i * bytes, s->mode.compute, x, run);
    } else {
      read_numbers(to + i * bytes, &s->mode, t, at, run);
    }
  }
}

/* The same for blocks along the last axis, whose scales follow each other. */
static void spread_blocks(const scaling *s, const tn_tensor *t, char *to,
                          int64_t first, int64_t n) {
  static const tn_kernel_mode as_f64 = {TN_F64, 0};
  const nn_quantize_view *v = &s->view;
  const int64_t bytes = tn_dtype_bytes(s->mode.compute);
  const int64_t at = nn_quantize_scale_at(v, first);
  const int64_t last = nn_quantize_scale_at(v, first + n - 1);
  double scales[PART];
  int64_t l = first % v->length, run = 0;
  read_numbers(scales, &as_f64, t, at, last - at + 1);
  for (int64_t i = 0, k = 0; i < n; i += run, ++k) {
    run = nn_min(v->block - l % v->block, v->length - l);
    run = nn_min(run, n - i);
    repeat_number(to + i * bytes, s->mode.compute, scales[k], run);
    l = l + run < v->length ? l + run : 0;
  }
}

static void spread_numbers(const scaling *s, const tn_tensor *t, void *to,
                           int64_t first, int64_t n) {
  if (s->view.inner == 1 && s->view.block > 0)
    spread_blocks(s, t, (char *)to, first, n);
  else
    spread_rows(s, t, (char *)to, first, n);
}

static int32_t scale_parts(void *arg, int64_t begin, int64_t end) {
  const scaling *s = (const scaling *)arg;
  const tn_tensor *out = s->out;
  const int64_t size = tn_tensor_size(s->data);
  double x[PART], scale[PART], zero[PART];
  quantize_part p = {0, x, x, scale, zero, 0, 0};
  if (nn_quantize_is_integer(out->dtype)) {
    p.least = nn_quantize_least(out->dtype);
    p.most = nn_quantize_most(out->dtype);
  }
  if (s->zero == NULL) repeat_number(zero, s->mode.compute, s->no_zero, PART);
  for (int64_t first = begin * PART; first < size && first < end * PART;
       first += PART) {
    char *to = (char *)out->data + tn_dtype_bytes_of(out->dtype, first);
    p.n = nn_min(size - first, PART);
    read_numbers(x, &s->mode, s->data, first, p.n);
    spread_numbers(s, s->scale, scale, first, p.n);
    if (s->zero != NULL) spread_numbers(s, s->zero, zero, first, p.n);
    s->body(&p);
    if (tn_storage_has(out->dtype))
      tn_storage_store_dense(to, &s->rule, x, &s->mode, p.n);
    else
      tn_kernel_store_dense(to, out->dtype, x, &s->mode, p.n);
  }
  return TN_OK;
}

static int32_t run_scaling(const tn_frame *call, scaling *s) {
  const int64_t size = tn_tensor_size(s->data);
  if (size == 0) return TN_OK;
  return nn_run_parallel(call, nn_ceil_div(size, PART), PART, scale_parts, s);
}

/* The operands of a call of one of the three operators. */
static scaling open_scaling(const tn_frame *call, int has_axis, int64_t axis,
                            int64_t block) {
  scaling s = {.data = &call->in[0], .scale = &call->in[1]};
  if (call->n_in > 2 && call->in[2].data != NULL) s.zero = &call->in[2];
  s.out = &call->out[0];
  s.view = nn_quantize_find_view(s.data, has_axis, axis, block);
  s.mode.compute = TN_F64;
  s.mode.level = tn_kernel_level(call);
  return s;
}

/* A quotient of halves is one of f32; and the sum with a zero point that the
 * type of the output rounds. */
static void set_quantize(scaling *s, int32_t saturate) {
  const int is_integer = nn_quantize_is_integer(s->out->dtype);
  const uint32_t level = s->mode.level;
  s->no_zero = -0.0;
  s->rule.dtype = s->out->dtype;
  s->rule.saturate = saturate;
  if (s->data->dtype == TN_F64) {
    s->body = is_integer ? TN_STORAGE_AT(quantize_integers_f64, level)
                         : TN_STORAGE_AT(quantize_floats_f64, level);
    return;
  }
  s->mode.compute = TN_F32;
  s->body = is_integer ? TN_STORAGE_AT(quantize_integers_f32, level)
                       : TN_STORAGE_AT(quantize_floats_f32, level);
}

int32_t nn_quantize(const tn_frame *call) {
  const nn_quantize_params *p = nn_quantize_params_of(call);
  scaling s = open_scaling(call, p->has_axis, p->axis, p->block_size);
  set_quantize(&s, p->saturate);
  return run_scaling(call, &s);
}

/* Returns whether products in f32 are those of f64 after their last rounding:
 * the difference is exact, and the product has the bits of f32, or is stored as
 * one. */
static int is_exact_in_f32(const scaling *s) {
  const int64_t bits = tn_dtype_bits(s->data->dtype);
  if (s->out->dtype == TN_F64 || bits > 16) return 0;
  if (!nn_quantize_is_integer(s->data->dtype) && s->zero != NULL) return 0;
  return s->out->dtype == TN_F32 || bits <= 8;
}

int32_t nn_dequantize(const tn_frame *call) {
  const nn_dequantize_params *p = nn_dequantize_params_of(call);
  scaling s = open_scaling(call, p->has_axis, p->axis, p->block_size);
  s.body = TN_STORAGE_AT(dequantize_f64, s.mode.level);
  if (is_exact_in_f32(&s)) {
    s.mode.compute = TN_F32;
    s.body = TN_STORAGE_AT(dequantize_f32, s.mode.level);
  }
  return run_scaling(call, &s);
}

int32_t nn_requantize(const tn_frame *call) {
  const nn_requantize_params *p = nn_requantize_params_of(call);
  scaling s = open_scaling(call, p->has_axis, p->axis, 0);
  s.body = requantize;
  return run_scaling(call, &s);
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
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  scaling s = open_scaling(call, 0, 0, 0);
  s.scale = &scale_of;
  s.zero = &zero_of;
  set_quantize(&s, 1);
  return run_scaling(call, &s);
}
