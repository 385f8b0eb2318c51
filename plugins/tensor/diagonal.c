/* SPDX-License-Identifier: Apache-2.0
 * diagonal.c: the operators of triangle.yaml. A diagonal of a dense matrix is a
 * view with a stride of one row and one column, so eye and diag are fills and
 * copies (move.h). The file is compiled for CUDA devices, too.
 */
#include "move.h"
#include "triangle.gen.h"
#include "triangle.h"

/* -------------------------------------------------------------- triangles */

static int32_t copy_side(const tn_frame *call, int64_t k, int64_t upper) {
  const tn_tensor *to = &call->out[0], *from = &call->in[0];
  const tensor_triangle side = {to->shape[to->ndim - 2],
                                to->shape[to->ndim - 1], k, upper};
  return tensor_copy_triangle(call, &side, to, from, NULL);
}

/* Also their gradients: in = [gradient of out, ...]. */
int32_t tensor_tril(const tn_frame *call) {
  return copy_side(call, tensor_tril_params_of(call)->k, 0);
}

int32_t tensor_triu(const tn_frame *call) {
  return copy_side(call, tensor_triu_params_of(call)->k, 1);
}

int32_t tensor_tri(const tn_frame *call) {
  const tn_tensor *to = &call->out[0];
  const tensor_triangle side = {to->shape[0], to->shape[1],
                                tensor_tri_params_of(call)->k, 0};
  const tensor_element one = tensor_element_of(1, to->dtype);
  return tensor_copy_triangle(call, &side, to, NULL, &one);
}

/* -------------------------------------------------------------- diagonals */

static int64_t smaller_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Number of elements on diagonal k. */
static int64_t diagonal_length(int64_t rows, int64_t columns, int64_t k) {
  const int64_t n =
      k < 0 ? smaller_of(rows + k, columns) : smaller_of(rows, columns - k);
  return n > 0 ? n : 0;
}

/* Sets *view to diagonal k of a dense matrix: one axis. */
static void view_diagonal(tensor_view *view, const tn_tensor *matrix,
                          int64_t k) {
  const int64_t columns = matrix->shape[1];
  const int64_t n = diagonal_length(matrix->shape[0], columns, k);
  const int64_t size = tn_tensor_size(matrix);
  tensor_view_shaped(view, matrix, 1, &size);
  tensor_view_cut(view, 0, k < 0 ? -k * columns : k, n, columns + 1);
}

int32_t tensor_eye_infer(const tn_frame *call) {
  const tensor_eye_params *p = tensor_eye_params_of(call);
  const int64_t shape[2] = {p->n, p->has_m ? p->m : p->n};
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 2, shape);
}

int32_t tensor_eye(const tn_frame *call) {
  const tensor_element one = tensor_element_of(1, call->out[0].dtype);
  tensor_view diagonal;
  const int32_t code = tensor_fill_zeros(call, &call->out[0]);
  view_diagonal(&diagonal, &call->out[0], tensor_eye_params_of(call)->k);
  if (code != TN_OK || diagonal.shape[0] == 0) return code;
  return tensor_fill(call, &diagonal.tensor, &one);
}

int32_t tensor_diag_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_DIAG_IN_DATA];
  const int64_t k = tensor_diag_params_of(call)->k;
  const int64_t *length = data->shape;
  int64_t shape[2] = {-1, -1};
  if (data->ndim < 0) return TN_OK;
  if (data->ndim != 1 && data->ndim != 2)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` has %d dimensions; pass a matrix for its diagonal, "
                   "or a vector for the matrix with it",
                   (int)data->ndim);
  if (data->ndim == 1 && length[0] >= 0)
    shape[0] = shape[1] = length[0] + (k < 0 ? -k : k);
  if (data->ndim == 2 && length[0] >= 0 && length[1] >= 0)
    shape[0] = diagonal_length(length[0], length[1], k);
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 3 - data->ndim, shape);
}

/* Copies a diagonal of `from` to `to`, or writes the vector `from` on one of
 * `to`. */
static int32_t move_diagonal(const tn_frame *call, const tn_tensor *to,
                             const tn_tensor *from) {
  const int64_t k = tensor_diag_params_of(call)->k;
  tensor_view diagonal;
  int32_t code = TN_OK;
  if (to->ndim == 2) code = tensor_fill_zeros(call, to);
  view_diagonal(&diagonal, to->ndim == 2 ? to : from, k);
  if (code != TN_OK || diagonal.shape[0] == 0) return code;
  return to->ndim == 2 ? tensor_copy(call, &diagonal.tensor, from)
                       : tensor_copy(call, to, &diagonal.tensor);
}

int32_t tensor_diag(const tn_frame *call) {
  return move_diagonal(call, &call->out[0], &call->in[TENSOR_DIAG_IN_DATA]);
}

int32_t tensor_diag_backward(const tn_frame *call) {
  return move_diagonal(call, &call->out[0],
                       &call->in[TENSOR_DIAG_BACKWARD_GRAD_OUT]);
}
