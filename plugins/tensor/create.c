/* SPDX-License-Identifier: Apache-2.0
 * create.c: the operators of create.yaml, which create arrays from parameters.
 */
#include "create.gen.h"

#include <math.h>

#include "move.h"

static int32_t fill_output(const tn_frame *call, double value) {
  const tensor_element element = tensor_element_of(value, call->out[0].dtype);
  return tensor_fill(call, &call->out[0], &element);
}

int32_t tensor_zeros(const tn_frame *call) {
  return tensor_fill_zeros(call, &call->out[0]);
}

int32_t tensor_ones(const tn_frame *call) {
  return fill_output(call, 1);
}

int32_t tensor_full(const tn_frame *call) {
  return fill_output(call, tensor_full_params_of(call)->value);
}

/* ------------------------------------------------------------------ arange */

/* Reads the range of a call, and the number of its different values. */
static int32_t read_range(const tn_frame *call, tensor_range *r, int64_t *n) {
  const tensor_arange_params *p = tensor_arange_params_of(call);
  const double end = p->has_stop ? p->stop : p->start;
  r->begin = p->has_stop ? p->start : 0;
  r->step = p->step;
  r->repeat = p->repeat;
  const double count = ceil((end - r->begin) / r->step);
  if (r->step == 0 || count != count)
    return TN_FAIL(call, TN_INVALID,
                   "from %g to %g in steps of %g: step must not be 0, nor any "
                   "of them NaN",
                   r->begin, end, r->step);
  if (count > 1e15 / (double)p->repeat)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "from %g to %g in steps of %g with repeat=%lld: that are "
                   "%g numbers",
                   r->begin, end, r->step, (long long)p->repeat,
                   count * (double)p->repeat);
  *n = count > 0 ? (int64_t)count : 0;
  return TN_OK;
}

int32_t tensor_arange_infer(const tn_frame *call) {
  tensor_range r;
  int64_t n = 0;
  const int32_t code = read_range(call, &r, &n);
  if (code != TN_OK) return code;
  n *= r.repeat;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 1, &n);
}

int32_t tensor_arange(const tn_frame *call) {
  tensor_range r;
  int64_t n;
  const int32_t code = read_range(call, &r, &n);
  return code == TN_OK ? tensor_count(call, &call->out[0], &r) : code;
}
