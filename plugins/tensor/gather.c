/* SPDX-License-Identifier: Apache-2.0
 * gather.c: the operators of gather.yaml and gather_nd.yaml. Elements of `data`
 * at places that indices name; the gradient adds to these places.
 */
#include "gather.gen.h"
#include "gather_nd.gen.h"
#include "move.h"
#include "scatter.h"

/* Positions of operands; those of both operators are equal. */
enum { DATA, INDICES };
enum { GRADIENT, BACK_DATA, BACK_INDICES };

/* ------------------------------------------------------------------ shapes */

/* Whole, indices and slices of a forward call. */
typedef struct operand_list {
  tensor_operand of[TENSOR_N_ROLES];
} operand_list;

static operand_list list_operands(const tn_frame *call) {
  return (operand_list){
      {{TN_OPERAND_IN, DATA, &call->in[DATA], "data"},
       {TN_OPERAND_IN, INDICES, &call->in[INDICES], "indices"},
       {TN_OPERAND_OUT, 0, &call->out[0], "out"}}};
}

int32_t tensor_gather_elements_infer(const tn_frame *call) {
  const operand_list operands = list_operands(call);
  return tensor_infer_elements(
      call, tensor_gather_elements_params_of(call)->axis, operands.of);
}

static tensor_tuples read_tuples(const tn_frame *call) {
  const tensor_gather_nd_params *p = tensor_gather_nd_params_of(call);
  return (tensor_tuples){p->index_axis, p->batch_dims};
}

int32_t tensor_gather_nd_infer(const tn_frame *call) {
  const operand_list operands = list_operands(call);
  const tensor_tuples form = read_tuples(call);
  return tensor_infer_tuples(call, &form, operands.of);
}

/* ----------------------------------------------------------------- kernels */

/* Initialises places, of which the operator knows the form. */
typedef int32_t places_fn(const tn_frame *call, const tn_tensor *whole,
                          const tn_tensor *indices, tensor_places *p);

static int32_t find_elements(const tn_frame *call, const tn_tensor *whole,
                             const tn_tensor *indices, tensor_places *p) {
  return tensor_init_elements(
      call, tensor_gather_elements_params_of(call)->axis, whole, indices, p);
}

static int32_t find_tuples(const tn_frame *call, const tn_tensor *whole,
                           const tn_tensor *indices, tensor_places *p) {
  const tensor_tuples form = read_tuples(call);
  tensor_init_tuples(&form, whole, indices, p);
  return TN_OK;
}

static int32_t run_forward(const tn_frame *call, places_fn *find) {
  tensor_scatter s = {.call = call,
                      .whole = &call->in[DATA],
                      .indices = &call->in[INDICES],
                      .slices = &call->out[0],
                      .name = "data"};
  int32_t code = find(call, s.whole, s.indices, &s.places);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  return code == TN_OK ? tensor_gather_run(&s) : code;
}

/* The sum of the gradients of all slices from a place. */
static tensor_scatter make_sum(const tn_frame *call) {
  return (tensor_scatter){.call = call,
                          .whole = &call->out[DATA],
                          .indices = &call->in[BACK_INDICES],
                          .slices = &call->in[GRADIENT],
                          .name = "data",
                          .op = TENSOR_SCATTER_ADD,
                          .room = call->n_ws > 0 ? call->ws[0] : NULL};
}

/* in = [gradient of out, data, indices, out] */
static int32_t run_backward(const tn_frame *call, places_fn *find) {
  tensor_scatter s = make_sum(call);
  int32_t code = TN_OK;
  if (call->req[INDICES] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[INDICES]);
  if (code != TN_OK || call->req[DATA] == TN_REQ_NULL) return code;
  code = find(call, s.whole, s.indices, &s.places);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  return code == TN_OK ? tensor_scatter_run(&s, NULL) : code;
}

static int32_t count_bytes(const tn_frame *call, places_fn *find,
                           uint64_t *bytes) {
  *bytes = 0;
  if (!(call->flags & TN_CALL_BACKWARD)) return TN_OK;
  tensor_scatter s = make_sum(call);
  if (s.indices->ndim < 0) return TN_OK;
  const int32_t code = find(call, s.whole, s.indices, &s.places);
  if (code == TN_OK) *bytes = tensor_scatter_run_bytes(&s);
  return code;
}

int32_t tensor_gather_elements(const tn_frame *call) {
  return run_forward(call, find_elements);
}

int32_t tensor_gather_elements_backward(const tn_frame *call) {
  return run_backward(call, find_elements);
}

int32_t tensor_gather_elements_bytes(const tn_frame *call, uint64_t *bytes) {
  return count_bytes(call, find_elements, bytes);
}

int32_t tensor_gather_nd(const tn_frame *call) {
  return run_forward(call, find_tuples);
}

int32_t tensor_gather_nd_backward(const tn_frame *call) {
  return run_backward(call, find_tuples);
}

int32_t tensor_gather_nd_bytes(const tn_frame *call, uint64_t *bytes) {
  return count_bytes(call, find_tuples, bytes);
}
