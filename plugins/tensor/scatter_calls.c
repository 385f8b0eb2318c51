/* SPDX-License-Identifier: Apache-2.0
 * scatter_calls.c: the operators of scatter.yaml. Elements and tuples have the
 * same forms: one replaces, one adds, one reduces. The inputs are data, indices
 * and updates; scatter_nd has no data, and its updates are the input `data`.
 */
#include "scatter.h"

#include "move.h"
#include "scatter.gen.h"

/* How a call scatters: its parameters. */
typedef struct scatter_form {
  int is_tuples;
  int has_data;
  int64_t axis; /* of elements, or of tuples */
  tensor_scatter_op op;
} scatter_form;

/* Positions of inputs, in a forward call. */
enum { DATA, INDICES, UPDATES, N_INPUTS };
enum { ONLY_UPDATES, ONLY_INDICES, N_ONLY_INPUTS }; /* of scatter_nd */

static tensor_scatter_op read_reduction(int32_t reduction) {
  switch (reduction) {
    case TENSOR_SCATTER_REDUCE_REDUCTION_MUL:
      return TENSOR_SCATTER_MUL;
    case TENSOR_SCATTER_REDUCE_REDUCTION_MAX:
      return TENSOR_SCATTER_MAX;
    default:
      return TENSOR_SCATTER_MIN;
  }
}

/* Initialises an operation between `whole` and slices; `inputs` are those of
 * the forward call. */
static int32_t init_scatter(const tn_frame *call, const scatter_form *f,
                            const tn_tensor *inputs, const tn_tensor *whole,
                            tensor_scatter *s) {
  const tensor_tuples form = {f->axis, 0};
  *s =
      (tensor_scatter){.call = call,
                       .whole = whole,
                       .indices = &inputs[f->has_data ? INDICES : ONLY_INDICES],
                       .slices = &inputs[f->has_data ? UPDATES : ONLY_UPDATES],
                       .name = f->has_data ? "data" : "out",
                       .op = f->op,
                       .room = call->n_ws > 0 ? call->ws[0] : NULL};
  if (f->is_tuples) tensor_init_tuples(&form, whole, s->indices, &s->places);
  return f->is_tuples ? TN_OK
                      : tensor_init_elements(call, f->axis, whole, s->indices,
                                             &s->places);
}

/* ------------------------------------------------------------------ shapes */

static tensor_operand make_input(const tn_frame *call, uint32_t i,
                                 const char *name) {
  return (tensor_operand){TN_OPERAND_IN, i, &call->in[i], name};
}

static int32_t infer_with_data(const tn_frame *call, const scatter_form *f) {
  const tensor_operand operands[TENSOR_N_ROLES] = {
      make_input(call, DATA, "data"), make_input(call, INDICES, "indices"),
      make_input(call, UPDATES, "updates")};
  const tensor_tuples form = {f->axis, 0};
  return f->is_tuples ? tensor_infer_tuples(call, &form, operands)
                      : tensor_infer_elements(call, f->axis, operands);
}

int32_t tensor_scatter_elements_infer(const tn_frame *call) {
  const scatter_form f = {.axis =
                              tensor_scatter_elements_params_of(call)->axis};
  return infer_with_data(call, &f);
}

int32_t tensor_scatter_reduce_infer(const tn_frame *call) {
  const scatter_form f = {.axis = tensor_scatter_reduce_params_of(call)->axis};
  return infer_with_data(call, &f);
}

int32_t tensor_scatter_nd_update_infer(const tn_frame *call) {
  const scatter_form f = {
      .is_tuples = 1,
      .axis = tensor_scatter_nd_update_params_of(call)->index_axis};
  return infer_with_data(call, &f);
}

int32_t tensor_scatter_nd_reduce_infer(const tn_frame *call) {
  const scatter_form f = {
      .is_tuples = 1,
      .axis = tensor_scatter_nd_reduce_params_of(call)->index_axis};
  return infer_with_data(call, &f);
}

/* The operands of a gradient: out_head, data, indices, updates, out. */
static int32_t infer_gradient(const tn_frame *call, const scatter_form *f) {
  const tensor_operand operands[TENSOR_N_ROLES] = {
      make_input(call, 1 + DATA, "data"),
      make_input(call, 1 + INDICES, "indices"),
      make_input(call, 1 + UPDATES, "updates")};
  const tensor_tuples form = {f->axis, 0};
  return f->is_tuples ? tensor_infer_tuples(call, &form, operands)
                      : tensor_infer_elements(call, f->axis, operands);
}

int32_t tensor_scatter_reduce_grad_infer(const tn_frame *call) {
  const scatter_form f = {.axis =
                              tensor_scatter_reduce_grad_params_of(call)->axis};
  return infer_gradient(call, &f);
}

int32_t tensor_scatter_nd_reduce_grad_infer(const tn_frame *call) {
  const scatter_form f = {
      .is_tuples = 1,
      .axis = tensor_scatter_nd_reduce_grad_params_of(call)->index_axis};
  return infer_gradient(call, &f);
}

int32_t tensor_scatter_nd_infer(const tn_frame *call) {
  const tensor_scatter_nd_params *p = tensor_scatter_nd_params_of(call);
  const tensor_tuples form = {p->index_axis, 0};
  const int32_t ndim = (int32_t)p->shape.n;
  int64_t shape[TN_MAX_NDIM];
  const tn_tensor out = {.ndim = ndim, .shape = shape};
  const tensor_operand operands[TENSOR_N_ROLES] = {
      {TN_OPERAND_OUT, 0, &out, "out"},
      make_input(call, ONLY_INDICES, "indices"),
      make_input(call, ONLY_UPDATES, "data")};
  for (int32_t d = 0; d < ndim; ++d) shape[d] = p->shape.v[d];
  const int32_t code =
      call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape);
  return code == TN_OK ? tensor_infer_tuples(call, &form, operands) : code;
}

/* ----------------------------------------------------------------- forward */

static int32_t run_forward(const tn_frame *call, const scatter_form *f) {
  tensor_scatter s;
  int32_t code = init_scatter(call, f, call->in, &call->out[0], &s);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  if (code != TN_OK) return code;
  return tensor_scatter_run(&s, f->has_data ? &call->in[DATA] : NULL);
}

/* ---------------------------------------------------------------- gradient */

/* in = [gradient of out, inputs..., out]; out = [gradients of inputs] */
static int32_t clear_index_gradient(const tn_frame *call,
                                    const scatter_form *f) {
  const int i = f->has_data ? INDICES : ONLY_INDICES;
  return call->req[i] == TN_REQ_NULL ? TN_OK
                                     : tensor_fill_zeros(call, &call->out[i]);
}

/* The data of a scatter that replaces: the output gradient, with zeros at all
 * places. */
static int32_t run_data_gradient(const tn_frame *call, const scatter_form *f) {
  tensor_scatter s;
  int32_t code = tensor_copy(call, &call->out[DATA], &call->in[0]);
  if (code != TN_OK || f->op == TENSOR_SCATTER_ADD) return code;
  code = init_scatter(call, f, call->in + 1, &call->out[DATA], &s);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  return code == TN_OK ? tensor_clear_places(&s) : code;
}

/* The updates: the output gradient at their places. */
static int32_t run_update_gradient(const tn_frame *call,
                                   const scatter_form *f) {
  tensor_scatter s;
  int32_t code = init_scatter(call, f, call->in + 1, &call->in[0], &s);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  s.slices = &call->out[f->has_data ? UPDATES : ONLY_UPDATES];
  if (code != TN_OK) return code;
  return f->op == TENSOR_SCATTER_ADD ? tensor_gather_run(&s)
                                     : tensor_gather_last(&s);
}

static const tn_tensor *find_requested(const tn_frame *call, uint32_t i) {
  return call->req[i] == TN_REQ_NULL ? NULL : &call->out[i];
}

static int32_t run_reduced_gradient(const tn_frame *call,
                                    const scatter_form *f) {
  const tn_tensor *out = &call->in[1 + N_INPUTS];
  tensor_scatter s;
  int32_t code = init_scatter(call, f, call->in + 1, &call->in[0], &s);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  s.whole = out;
  const tensor_scatter_gradient g = {
      .s = &s,
      .data = &call->in[1 + DATA],
      .gradient = &call->in[0],
      .data_gradient = find_requested(call, DATA),
      .slice_gradient = find_requested(call, UPDATES)};
  return code == TN_OK ? tensor_scatter_backward(&g) : code;
}

static int32_t run_backward(const tn_frame *call, const scatter_form *f) {
  const int updates = f->has_data ? UPDATES : ONLY_UPDATES;
  int32_t code = clear_index_gradient(call, f);
  if (code != TN_OK) return code;
  if (f->op != TENSOR_SCATTER_SET && f->op != TENSOR_SCATTER_ADD)
    return call->req[DATA] == TN_REQ_NULL && call->req[UPDATES] == TN_REQ_NULL
               ? TN_OK
               : run_reduced_gradient(call, f);
  if (f->has_data && call->req[DATA] != TN_REQ_NULL)
    code = run_data_gradient(call, f);
  return code == TN_OK && call->req[updates] != TN_REQ_NULL
             ? run_update_gradient(call, f)
             : code;
}

/* ---------------------------------------------------- gradient of a gradient
 */

/* The operands of the gradient of scatter_reduce_grad: in = [gradients of
 * data_slope, indices_slope and updates_slope, out_head, data, indices,
 * updates, out, ...]; out = [gradients of out_head, data, indices, updates,
 * out] */
enum { DATA_WEIGHT, INDICES_WEIGHT, UPDATES_WEIGHT, HEAD, FIRST_INPUT };
enum { OF_HEAD, OF_DATA, OF_INDICES, OF_UPDATES, OF_OUT };

static int32_t run_second(const tn_frame *call, const scatter_form *f) {
  const tn_tensor *inputs = call->in + FIRST_INPUT;
  tensor_scatter s;
  int32_t code = TN_OK;
  if (call->req[OF_INDICES] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[OF_INDICES]);
  if (code == TN_OK && call->req[OF_OUT] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[OF_OUT]);
  if (code == TN_OK)
    code = init_scatter(call, f, inputs, &inputs[N_INPUTS], &s);
  if (code == TN_OK) code = tensor_scatter_check(&s);
  if (code != TN_OK) return code;
  const tensor_scatter_second g = {
      .s = &s,
      .data = &inputs[DATA],
      .head = &call->in[HEAD],
      .data_weight = &call->in[DATA_WEIGHT],
      .slice_weight = &call->in[UPDATES_WEIGHT],
      .head_gradient = find_requested(call, OF_HEAD),
      .data_gradient = find_requested(call, OF_DATA),
      .slice_gradient = find_requested(call, OF_UPDATES)};
  return tensor_scatter_second_backward(&g);
}

/* Runs the gradient of scatter_reduce as an operator. */
static int32_t run_as_operator(const tn_frame *call, const scatter_form *f) {
  tn_frame frame = *call;
  frame.flags |= TN_CALL_BACKWARD;
  return run_backward(&frame, f);
}

static int32_t count_second_bytes(const tn_frame *call, const scatter_form *f,
                                  uint64_t *bytes) {
  const int is_backward = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *inputs = call->in + (is_backward ? FIRST_INPUT : 1);
  tensor_scatter s;
  *bytes = 0;
  if (inputs[INDICES].ndim < 0 || inputs[N_INPUTS].ndim < 0) return TN_OK;
  const int32_t code = init_scatter(call, f, inputs, &inputs[N_INPUTS], &s);
  if (code == TN_OK)
    *bytes = is_backward ? tensor_scatter_second_bytes(&s)
                         : tensor_scatter_backward_bytes(&s);
  return code;
}

/* --------------------------------------------------------------- workspace */

static int32_t count_bytes(const tn_frame *call, const scatter_form *f,
                           uint64_t *bytes) {
  const int is_backward = (call->flags & TN_CALL_BACKWARD) != 0;
  const tn_tensor *inputs = call->in + is_backward;
  tensor_scatter s;
  *bytes = 0;
  if (inputs[f->has_data ? INDICES : ONLY_INDICES].ndim < 0) return TN_OK;
  const int32_t code = init_scatter(
      call, f, inputs, is_backward ? &call->in[0] : &call->out[0], &s);
  if (code != TN_OK) return code;
  if (!is_backward)
    *bytes = tensor_scatter_run_bytes(&s);
  else if (f->op == TENSOR_SCATTER_SET)
    *bytes = tensor_gather_last_bytes(&s);
  else if (f->op != TENSOR_SCATTER_ADD)
    *bytes = tensor_scatter_backward_bytes(&s);
  return TN_OK;
}

/* --------------------------------------------------------------- operators */

/* The functions of an operator with a form. */
#define OPERATOR(name, ...)                                              \
  int32_t tensor_##name(const tn_frame *call) {                          \
    const tensor_##name##_params *p = tensor_##name##_params_of(call);   \
    const scatter_form form = {__VA_ARGS__};                             \
    return run_forward(call, &form);                                     \
  }                                                                      \
  int32_t tensor_##name##_backward(const tn_frame *call) {               \
    const tensor_##name##_params *p = tensor_##name##_params_of(call);   \
    const scatter_form form = {__VA_ARGS__};                             \
    return run_backward(call, &form);                                    \
  }                                                                      \
  int32_t tensor_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const tensor_##name##_params *p = tensor_##name##_params_of(call);   \
    const scatter_form form = {__VA_ARGS__};                             \
    return count_bytes(call, &form, bytes);                              \
  }
OPERATOR(scatter_elements, 0, 1, p->axis, TENSOR_SCATTER_SET)
OPERATOR(scatter_add, 0, 1, p->axis, TENSOR_SCATTER_ADD)
OPERATOR(scatter_reduce, 0, 1, p->axis, read_reduction(p->reduction))
OPERATOR(scatter_nd, 1, 0, p->index_axis, TENSOR_SCATTER_SET)
OPERATOR(scatter_nd_update, 1, 1, p->index_axis, TENSOR_SCATTER_SET)
OPERATOR(scatter_nd_add, 1, 1, p->index_axis, TENSOR_SCATTER_ADD)
OPERATOR(scatter_nd_reduce, 1, 1, p->index_axis, read_reduction(p->reduction))

/* The functions of its gradient as an operator. */
#define GRADIENT(name, ...)                                              \
  int32_t tensor_##name(const tn_frame *call) {                          \
    const tensor_##name##_params *p = tensor_##name##_params_of(call);   \
    const scatter_form form = {__VA_ARGS__};                             \
    return run_as_operator(call, &form);                                 \
  }                                                                      \
  int32_t tensor_##name##_backward(const tn_frame *call) {               \
    const tensor_##name##_params *p = tensor_##name##_params_of(call);   \
    const scatter_form form = {__VA_ARGS__};                             \
    return run_second(call, &form);                                      \
  }                                                                      \
  int32_t tensor_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    const tensor_##name##_params *p = tensor_##name##_params_of(call);   \
    const scatter_form form = {__VA_ARGS__};                             \
    return count_second_bytes(call, &form, bytes);                       \
  }
GRADIENT(scatter_reduce_grad, 0, 1, p->axis, read_reduction(p->reduction))
GRADIENT(scatter_nd_reduce_grad, 1, 1, p->index_axis,
         read_reduction(p->reduction))
