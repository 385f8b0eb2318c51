/* SPDX-License-Identifier: Apache-2.0
 * sort_shapes.c: shapes and parameters of the operators of sort.yaml.
 */
#include "sort.gen.h"
#include "sort.h"

/* The parameters of both families. */
typedef struct order_params {
  int has_axis;
  int64_t axis;
  int64_t k; /* 0: all elements of a line */
  int is_ascend;
} order_params;

static order_params read_sort_params(const tn_frame *call) {
  const tensor_sort_params *p = tensor_sort_params_of(call);
  return (order_params){p->has_axis, p->axis, 0, p->is_ascend};
}

static order_params read_topk_params(const tn_frame *call) {
  const tensor_topk_params *p = tensor_topk_params_of(call);
  return (order_params){p->has_axis, p->axis, p->k, p->is_ascend};
}

/* Sets *n to the length of the lines of `data`, -1 if it is unknown, and *axis
 * to their axis. */
static int32_t find_length(const tn_frame *call, const order_params *p,
                           const tn_tensor *data, int32_t *axis, int64_t *n) {
  int32_t code = TN_OK;
  *axis = 0;
  if (p->has_axis) {
    code = tensor_axis(call, "axis", p->axis, data->ndim, axis);
    *n = code == TN_OK ? data->shape[*axis] : 0;
    return code;
  }
  *n = tensor_elements(data->ndim, data->shape);
  if (*n == TENSOR_TOO_MANY)
    code = TN_FAIL(call, TN_SHAPE,
                   "`data` %s has more elements than 64 bits can count",
                   tensor_shape_text(data->ndim, data->shape).text);
  return code;
}

static int32_t check_k(const tn_frame *call, const order_params *p, int64_t n) {
  if (n < 0 || p->k <= n) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "k=%lld: the lines have %lld elements; pass at most that, or "
                 "0 for all",
                 (long long)p->k, (long long)n);
}

static int32_t read_lines(const tn_frame *call, const order_params *p,
                          const tn_tensor *data, sort_lines *lines) {
  int32_t axis;
  const int32_t code = find_length(call, p, data, &axis, &lines->n);
  if (code != TN_OK) return code;
  lines->outer = lines->inner = 1;
  for (int32_t d = 0; p->has_axis && d < data->ndim; ++d)
    if (d != axis)
      *(d < axis ? &lines->outer : &lines->inner) *= data->shape[d];
  lines->k = p->k > 0 ? p->k : lines->n;
  lines->descending = !p->is_ascend;
  return check_k(call, p, lines->n);
}

int32_t sort_read_sort(const tn_frame *call, const tn_tensor *data,
                       sort_lines *lines) {
  const order_params p = read_sort_params(call);
  return read_lines(call, &p, data, lines);
}

int32_t sort_read_topk(const tn_frame *call, const tn_tensor *data,
                       sort_lines *lines) {
  const order_params p = read_topk_params(call);
  return read_lines(call, &p, data, lines);
}

/* ----------------------------------------------------------------- inference
 */

/* Proposes the shape of k elements of each line of `data`. */
static int32_t set_result(const tn_frame *call, const order_params *p,
                          const tn_tensor *data, uint32_t list) {
  int64_t shape[TN_MAX_NDIM], n;
  int32_t axis, ndim = p->has_axis ? data->ndim : 1;
  if (data->ndim < 0) return TN_OK;
  int32_t code = find_length(call, p, data, &axis, &n);
  if (code == TN_OK) code = check_k(call, p, n);
  if (code != TN_OK) return code;
  for (int32_t d = 0; p->has_axis && d < ndim; ++d) shape[d] = data->shape[d];
  shape[axis] = p->k > 0 ? p->k : n;
  return call->host->set_shape(call, list, 0, ndim, shape);
}

int32_t tensor_sort_infer(const tn_frame *call) {
  const order_params p = read_sort_params(call);
  return set_result(call, &p, &call->in[0], TN_OPERAND_OUT);
}

int32_t tensor_topk_infer(const tn_frame *call) {
  const order_params p = read_topk_params(call);
  return set_result(call, &p, &call->in[0], TN_OPERAND_OUT);
}

/* The mask has the shape of data; k must fit its lines. */
int32_t tensor_topk_mask_infer(const tn_frame *call) {
  const order_params p = read_topk_params(call);
  const tn_tensor *data = &call->in[0];
  int64_t n;
  int32_t axis;
  if (data->ndim < 0) return TN_OK;
  int32_t code = find_length(call, &p, data, &axis, &n);
  if (code == TN_OK) code = check_k(call, &p, n);
  return code == TN_OK ? call->host->set_shape(call, TN_OPERAND_OUT, 0,
                                               data->ndim, data->shape)
                       : code;
}

/* The gradient of the result is the first input, data the third one. */
int32_t tensor_sort_grad_infer(const tn_frame *call) {
  const order_params p = read_sort_params(call);
  return set_result(call, &p, &call->in[TENSOR_SORT_GRAD_IN_DATA],
                    TN_OPERAND_IN);
}

int32_t tensor_topk_grad_infer(const tn_frame *call) {
  const order_params p = read_topk_params(call);
  return set_result(call, &p, &call->in[TENSOR_TOPK_GRAD_IN_DATA],
                    TN_OPERAND_IN);
}
