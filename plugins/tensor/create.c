/* SPDX-License-Identifier: Apache-2.0
 * create.c: the operators of create.yaml, which make arrays of parameters.
 */
#include "create.gen.h"

#include "move.h"
#include "tenon/kernel.h"

static int32_t fill(const tn_frame *call, double value) {
  const tensor_element element = tensor_element_of(value, call->out[0].dtype);
  return tensor_fill(call, &call->out[0], &element);
}

int32_t tensor_zeros(const tn_frame *call) {
  return tensor_fill_zeros(call, &call->out[0]);
}

int32_t tensor_ones(const tn_frame *call) {
  return fill(call, 1);
}

int32_t tensor_full(const tn_frame *call) {
  return fill(call, tensor_full_params_of(call)->value);
}

/* ------------------------------------------------------------------ arange */

/* Begin, step and number of different values. */
typedef struct range {
  double begin, step;
  int64_t n;
} range;

static int32_t read_range(const tn_frame *call, range *r) {
  const tensor_arange_params *p = tensor_arange_params_of(call);
  const double end = p->has_stop ? p->stop : p->start;
  r->begin = p->has_stop ? p->start : 0;
  r->step = p->step;
  const double n = ceil((end - r->begin) / r->step);
  if (r->step == 0 || n != n)
    return TN_FAIL(call, TN_INVALID,
                   "from %g to %g in steps of %g: step must not be 0, nor any "
                   "of them NaN",
                   r->begin, end, r->step);
  if (n > 1e15 / (double)p->repeat)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "from %g to %g in steps of %g: that are %g numbers",
                   r->begin, end, r->step, n);
  r->n = n > 0 ? (int64_t)n : 0;
  return TN_OK;
}

int32_t tensor_arange_infer(const tn_frame *call) {
  range r = {0};
  const int32_t code = read_range(call, &r);
  if (code != TN_OK) return code;
  const int64_t n = r.n * tensor_arange_params_of(call)->repeat;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 1, &n);
}

enum { PART = 256 };

typedef struct counting {
  const tn_tensor *out;
  range range;
  int64_t repeat;
  tn_kernel_mode mode;
} counting;

static int32_t count_slice(void *arg, int64_t begin, int64_t end) {
  const counting *c = (const counting *)arg;
  const int64_t bytes = tn_dtype_bytes(c->out->dtype);
  for (int64_t i = begin; i < end; i += PART) {
    double value[PART];
    const int64_t n = end - i < PART ? end - i : PART;
    for (int64_t k = 0; k < n; ++k)
      value[k] = c->range.begin + (double)((i + k) / c->repeat) * c->range.step;
    char *to = (char *)c->out->data + i * bytes;
    if (c->out->dtype != TN_U64)
      tn_kernel_store_dense(to, c->out->dtype, value, &c->mode, n);
    for (int64_t k = 0; c->out->dtype == TN_U64 && k < n; ++k) {
      const tensor_element e = tensor_element_of(value[k], TN_U64);
      memcpy(to + k * bytes, &e, 8);
    }
  }
  return TN_OK;
}

int32_t tensor_arange(const tn_frame *call) {
  counting c = {.out = &call->out[0],
                .repeat = tensor_arange_params_of(call)->repeat,
                .mode = {TN_F64, tn_kernel_level(call)}};
  const int32_t code = read_range(call, &c.range);
  const int64_t n = tn_tensor_size(c.out);
  if (code != TN_OK || n == 0) return code;
  return call->host->parallel_for(call, n, TN_KERNEL_GRAIN, count_slice, &c);
}
