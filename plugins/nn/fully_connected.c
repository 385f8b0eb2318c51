/* SPDX-License-Identifier: Apache-2.0
 * fully_connected.c: shapes and kernels of fully_connected.yaml. Everything is
 * a matrix product: forward data * weight^T, gradients grad * weight and grad^T
 * * data. The kernels differ in the product function, and in whether the
 * operands are widened to f32 first.
 */
#include "fully_connected.gen.h"

#include <string.h>

#include "nn.h"
#include "operands.h"
#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"

/* ------------------------------------------------------------------ shapes */

/* Reports the inferred shape of data to the host. */
static int32_t set_data_shape(const tn_frame *call, int32_t ndim,
                              const int64_t *shape) {
  return call->host->set_shape(call, TN_OPERAND_IN, NN_FULLY_CONNECTED_IN_DATA,
                               ndim, shape);
}

/* Reports the inferred shape of the weight, (num_hidden, depth), to the host.
 */
static int32_t set_weight_shape(const tn_frame *call, int64_t depth) {
  const int64_t shape[2] = {nn_fully_connected_params_of(call)->num_hidden,
                            depth};
  return call->host->set_shape(call, TN_OPERAND_IN,
                               NN_FULLY_CONNECTED_IN_WEIGHT, 2, shape);
}

/* Reports the inferred shape of out to the host. */
static int32_t set_out_shape(const tn_frame *call, int32_t ndim,
                             const int64_t *shape) {
  return call->host->set_shape(call, TN_OPERAND_OUT, NN_FULLY_CONNECTED_OUT_OUT,
                               ndim, shape);
}

/* Returns the number of elements in a row of the weight; -1 if it is unknown.
 */
static int64_t find_depth(const tn_frame *call) {
  const tn_tensor *weight = &call->in[NN_FULLY_CONNECTED_IN_WEIGHT];
  return weight->ndim == 2 ? weight->shape[1] : -1;
}

/* Returns the only unknown dimension after the first: 0 if all are known, -1 if
 * several are unknown. *product becomes the product of the known ones, or -1 if
 * it exceeds 64 bits. */
static int32_t find_unknown(const tn_tensor *data, int64_t *product) {
  int32_t unknown = 0;
  *product = 1;
  for (int32_t d = 1; d < data->ndim; ++d) {
    if (data->shape[d] == 0) *product = 0;
    if (data->shape[d] < 0)
      unknown = unknown == 0 ? d : -1;
    else if (*product >= 0)
      *product = tn_size_times(*product, data->shape[d]);
    if (unknown < 0) return -1;
  }
  return unknown;
}

/* Reports a row of data whose number of elements overflows. Returns the
 * failure. */
static int32_t refuse_row(const tn_frame *call) {
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "a row of `data` %s has more elements than 64 bits count; set "
                 "flatten=false, or give smaller rows",
                 nn_print_shape(&call->in[NN_FULLY_CONNECTED_IN_DATA]).text);
}

/* Reports that a row of data and a row of the weight differ in length. `n` is
 * the length of the row of data, after the text `qualifier`, which may be
 * empty. */
static int32_t refuse_depth(const tn_frame *call, const char *qualifier,
                            int64_t n) {
  const tn_tensor *data = &call->in[NN_FULLY_CONNECTED_IN_DATA];
  const tn_tensor *weight = &call->in[NN_FULLY_CONNECTED_IN_WEIGHT];
  return TN_FAIL(call, TN_SHAPE,
                 "a row of `data` %s has %s%lld elements, but a row of "
                 "`weight` %s has %lld",
                 nn_print_shape(data).text, qualifier, (long long)n,
                 nn_print_shape(weight).text, (long long)weight->shape[1]);
}

/* Infers the unknown dimension of data, in `shape`, and the shape of the weight
 * from each other. */
static int32_t infer_depth(const tn_frame *call, int64_t *shape) {
  const tn_tensor *data = &call->in[NN_FULLY_CONNECTED_IN_DATA];
  const int64_t depth = find_depth(call);
  int64_t product = 1;
  const int32_t unknown = find_unknown(data, &product);
  if (unknown >= 0 && product < 0) return refuse_row(call);
  if (unknown < 0 || (unknown > 0 && (depth < 0 || product == 0))) return TN_OK;
  if (unknown > 0 && depth % product != 0)
    return refuse_depth(call, "a multiple of ", product);
  if (unknown > 0) shape[unknown] = depth / product;
  if (unknown == 0 && depth >= 0 && depth != product)
    return refuse_depth(call, "", product);
  return set_weight_shape(call, unknown > 0 ? depth : product);
}

/* Infers shapes with flatten=true: a row of data has all dimensions after the
 * first. */
static int32_t infer_flat(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_FULLY_CONNECTED_IN_DATA];
  const tn_tensor *out = &call->out[NN_FULLY_CONNECTED_OUT_OUT];
  int64_t shape[TN_MAX_NDIM];
  int64_t result[2] = {-1, nn_fully_connected_params_of(call)->num_hidden};
  if (data->ndim == 0)
    return TN_FAIL(call, TN_SHAPE, "`data` has no dimension to count rows by");
  if (data->ndim > 0) result[0] = data->shape[0];
  int32_t code = set_out_shape(call, 2, result);
  if (code != TN_OK || data->ndim < 0) return code;
  memcpy(shape, data->shape, (size_t)data->ndim * sizeof *shape);
  if (shape[0] < 0 && out->ndim == 2) shape[0] = out->shape[0];
  code = infer_depth(call, shape);
  return code == TN_OK ? set_data_shape(call, data->ndim, shape) : code;
}

/* Infers shapes with flatten=false: the result keeps all dimensions but the
 * last. */
static int32_t infer_kept(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_FULLY_CONNECTED_IN_DATA];
  const tn_tensor *out = &call->out[NN_FULLY_CONNECTED_OUT_OUT];
  const int32_t ndim = data->ndim >= 0 ? data->ndim : out->ndim;
  int64_t shape[TN_MAX_NDIM];
  if (ndim < 0) return TN_OK;
  if (ndim == 0)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` and `out` have a last dimension, not rank 0");
  for (int32_t d = 0; d < ndim; ++d) {
    shape[d] = data->ndim == ndim ? data->shape[d] : -1;
    if (d < ndim - 1 && shape[d] < 0 && out->ndim == ndim)
      shape[d] = out->shape[d];
  }
  if (shape[ndim - 1] < 0) shape[ndim - 1] = find_depth(call);
  if (find_depth(call) >= 0 && shape[ndim - 1] != find_depth(call))
    return refuse_depth(call, "", shape[ndim - 1]);
  int32_t code = set_data_shape(call, ndim, shape);
  if (code == TN_OK) code = set_weight_shape(call, shape[ndim - 1]);
  shape[ndim - 1] = nn_fully_connected_params_of(call)->num_hidden;
  return code == TN_OK ? set_out_shape(call, ndim, shape) : code;
}

int32_t nn_fully_connected_infer(const tn_frame *call) {
  return nn_fully_connected_params_of(call)->flatten ? infer_flat(call)
                                                     : infer_kept(call);
}

/* ---------------------------------------------------------------- products */

/* A function that computes a matrix product. */
typedef int32_t multiply_fn(const tn_frame *call, const tn_blas_gemm *g);

/* A matrix with dense rows, in f32 or f64. */
typedef struct matrix {
  void *at;
  int64_t rows;
  int64_t columns;
} matrix;

/* The operands of a call, and its product function. */
typedef struct context {
  nn_operands wide;
  multiply_fn *multiply;
} context;

/* Starts a call; `multiply` is the matrix product to use. */
static context make_context(const tn_frame *call, multiply_fn *multiply) {
  return (context){nn_operands_open(call, call->n_ws > 0 ? call->ws[0] : NULL),
                   multiply};
}

/* Returns the type and level for loops over elements. */
static tn_kernel_mode get_mode(const context *x) {
  return (tn_kernel_mode){x->wide.dtype, x->wide.level};
}

/* Computes c = op(a) * op(b) + beta * c, with the matrices in g. */
static int32_t run_product(const context *x, tn_blas_gemm *g, double beta) {
  g->struct_size = sizeof *g;
  g->dtype = x->wide.dtype;
  g->alpha = 1;
  g->beta = beta;
  return x->multiply(x->wide.call, g);
}

/* Returns the address of row i of a matrix. */
static char *locate_row(const context *x, const matrix *m, int64_t i) {
  return (char *)m->at + i * m->columns * tn_dtype_bytes(x->wide.dtype);
}

/* Computes out = data * weight^T + bias, added to the old elements if `add`. */
static int32_t compute_out(const context *x, const matrix *in, matrix *out,
                           int add) {
  const matrix *data = &in[0], *weight = &in[1], *bias = &in[2];
  const tn_kernel_mode mode = get_mode(x);
  const size_t bytes = (size_t)(out->columns * tn_dtype_bytes(x->wide.dtype));
  for (int64_t i = 0; bias->at && i < out->rows; ++i) {
    if (add)
      tn_kernel_add_dense(locate_row(x, out, i), bias->at, &mode, out->columns);
    else
      memcpy(locate_row(x, out, i), bias->at, bytes);
  }
  return run_product(x,
                     &(tn_blas_gemm){.transpose_b = 1,
                                     .m = out->rows,
                                     .n = out->columns,
                                     .k = data->columns,
                                     .a = data->at,
                                     .b = weight->at,
                                     .c = out->at,
                                     .lda = data->columns,
                                     .ldb = weight->columns,
                                     .ldc = out->columns},
                     add || bias->at ? 1 : 0);
}

/* Computes the gradient of data = grad * weight; `grad` is the output
 * gradient. */
static int32_t compute_data_gradient(const context *x, const matrix *grad,
                                     const matrix *weight, const matrix *out,
                                     int add) {
  return run_product(x,
                     &(tn_blas_gemm){.m = grad->rows,
                                     .n = weight->columns,
                                     .k = grad->columns,
                                     .a = grad->at,
                                     .b = weight->at,
                                     .c = out->at,
                                     .lda = grad->columns,
                                     .ldb = weight->columns,
                                     .ldc = weight->columns},
                     add);
}

/* Computes the gradient of weight = grad^T * data; `grad` is the output
 * gradient. */
static int32_t compute_weight_gradient(const context *x, const matrix *grad,
                                       const matrix *data, const matrix *out,
                                       int add) {
  return run_product(x,
                     &(tn_blas_gemm){.transpose_a = 1,
                                     .m = grad->columns,
                                     .n = data->columns,
                                     .k = grad->rows,
                                     .a = grad->at,
                                     .b = data->at,
                                     .c = out->at,
                                     .lda = grad->columns,
                                     .ldb = data->columns,
                                     .ldc = data->columns},
                     add);
}

/* Computes the gradient of bias: the sum of the rows of `grad`, the output
 * gradient. */
static void compute_bias_gradient(const context *x, const matrix *grad,
                                  const matrix *out, int add) {
  const tn_kernel_mode mode = get_mode(x);
  if (!add)
    memset(out->at, 0, (size_t)(grad->columns * tn_dtype_bytes(x->wide.dtype)));
  for (int64_t i = 0; i < grad->rows; ++i)
    tn_kernel_add_dense(out->at, locate_row(x, grad, i), &mode, grad->columns);
}

/* Sets *bytes to the size of the workspace for f16 and bf16. */
int32_t nn_fully_connected_half_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call) + 64;
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Computes out with the matrix product `multiply`. */
static int32_t run_forward(const tn_frame *call, multiply_fn *multiply) {
  context x = make_context(call, multiply);
  const tn_tensor *weight = &call->in[NN_FULLY_CONNECTED_IN_WEIGHT];
  const int64_t n = weight->shape[0], depth = weight->shape[1];
  const int64_t rows = tn_tensor_size(&call->out[0]) / n;
  const int has_bias =
      !(call->in_flags[NN_FULLY_CONNECTED_IN_BIAS] & TN_IN_ABSENT);
  const matrix in[3] = {
      {nn_operands_open_input(&x.wide, NN_FULLY_CONNECTED_IN_DATA), rows,
       depth},
      {nn_operands_open_input(&x.wide, NN_FULLY_CONNECTED_IN_WEIGHT), n, depth},
      {has_bias ? nn_operands_open_input(&x.wide, NN_FULLY_CONNECTED_IN_BIAS)
                : NULL,
       1, n}};
  matrix out = {nn_operands_open_output(&x.wide, 0), rows, n};
  const int32_t code =
      compute_out(&x, in, &out, nn_operands_is_added(&x.wide, 0));
  if (code == TN_OK) nn_operands_close_output(&x.wide, 0, out.at);
  return code;
}

/* Computes gradient i of a call, and converts it to the type of its output. */
static int32_t run_gradient(context *x, const matrix *grad, uint32_t i) {
  const tn_tensor *to = &x->wide.call->out[i];
  matrix out = {nn_operands_open_output(&x->wide, i), 0, 0};
  int32_t code = TN_OK;
  if (i == NN_FULLY_CONNECTED_IN_DATA) {
    const tn_tensor *weight =
        &x->wide.call->in[NN_FULLY_CONNECTED_BACKWARD_IN_WEIGHT];
    const matrix w = {
        nn_operands_open_input(&x->wide, NN_FULLY_CONNECTED_BACKWARD_IN_WEIGHT),
        weight->shape[0], weight->shape[1]};
    code = compute_data_gradient(x, grad, &w, &out,
                                 nn_operands_is_added(&x->wide, i));
  } else if (i == NN_FULLY_CONNECTED_IN_WEIGHT) {
    const matrix data = {
        nn_operands_open_input(&x->wide, NN_FULLY_CONNECTED_BACKWARD_IN_DATA),
        grad->rows, to->shape[1]};
    code = compute_weight_gradient(x, grad, &data, &out,
                                   nn_operands_is_added(&x->wide, i));
  } else {
    compute_bias_gradient(x, grad, &out, nn_operands_is_added(&x->wide, i));
  }
  if (code == TN_OK) nn_operands_close_output(&x->wide, i, out.at);
  return code;
}

/* Computes the requested gradients with the matrix product `multiply`. The
 * gradient of data is the last one: it may be in the memory of data. */
static int32_t run_backward(const tn_frame *call, multiply_fn *multiply) {
  context x = make_context(call, multiply);
  const tn_tensor *out_gradient =
      &call->in[NN_FULLY_CONNECTED_BACKWARD_GRAD_OUT];
  const int64_t n = out_gradient->shape[out_gradient->ndim - 1];
  const matrix grad = {
      nn_operands_open_input(&x.wide, NN_FULLY_CONNECTED_BACKWARD_GRAD_OUT),
      n > 0 ? tn_tensor_size(out_gradient) / n : 0, n};
  int32_t code = TN_OK;
  for (uint32_t i = call->n_out; i-- > 0 && code == TN_OK;)
    if (call->req[i] != TN_REQ_NULL) code = run_gradient(&x, &grad, i);
  return code;
}

int32_t nn_fully_connected_blas(const tn_frame *call) {
  return run_forward(call, nn_multiply);
}

int32_t nn_fully_connected_blas_backward(const tn_frame *call) {
  return run_backward(call, nn_multiply);
}

int32_t nn_fully_connected_plain(const tn_frame *call) {
  return run_forward(call, nn_multiply_plain);
}

int32_t nn_fully_connected_plain_backward(const tn_frame *call) {
  return run_backward(call, nn_multiply_plain);
}

int32_t nn_fully_connected_half(const tn_frame *call) {
  return run_forward(call, nn_multiply);
}

int32_t nn_fully_connected_half_backward(const tn_frame *call) {
  return run_backward(call, nn_multiply);
}
