/* SPDX-License-Identifier: Apache-2.0
 * affine_grid.c: shapes and kernels of affine_grid.yaml, and affine functions
 * of positions (affine_positions.h). Elements of every type are computed in
 * f64.
 */
#include "affine_grid.gen.h"

#include "affine_positions.h"
#include "axis.h"
#include "grid_view.h"
#include "nn.h"
#include "second.h"

/* ------------------------------------------------------------------ shapes */

int32_t nn_affine_grid_infer(const tn_frame *call) {
  const nn_affine_grid_params *p = nn_affine_grid_params_of(call);
  const tn_tensor *theta = &call->in[0], *out = &call->out[0];
  const int32_t ndim = (int32_t)p->size.n + 2;
  int64_t in[3] = {-1, p->size.n, p->size.n + 1}, to[TN_MAX_NDIM];
  if (theta->ndim == 3) in[0] = theta->shape[0];
  if (in[0] < 0 && out->ndim == ndim) in[0] = out->shape[0];
  to[0] = in[0];
  for (int64_t i = 0; i < p->size.n; ++i) to[i + 1] = p->size.v[i];
  to[ndim - 1] = p->size.n;
  const int32_t code = call->host->set_shape(call, TN_OPERAND_IN, 0, 3, in);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, to);
}

int32_t nn_grid_generator_infer(const tn_frame *call) {
  const nn_grid_generator_params *p = nn_grid_generator_params_of(call);
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  const int is_warp = nn_grid_generator_is_warp(call);
  int64_t in[4] = {-1, is_warp ? 2 : 6, -1, -1}, to[4] = {-1, 2, -1, -1};
  const int32_t n_in = is_warp ? 4 : 2;
  for (int d = 0; d < n_in; d += d == 0 ? 2 : 1) {
    if (data->ndim == n_in) in[d] = data->shape[d];
    if (in[d] < 0 && out->ndim == 4) in[d] = out->shape[d];
    to[d] = in[d];
  }
  for (int d = 0; d < 2 && !is_warp; ++d) {
    to[d + 2] = p->target_shape.v[d];
    if (to[d + 2] == 0)
      return TN_FAIL(call, TN_INVALID,
                     "transform_type=affine needs target_shape, the height and "
                     "width of an image");
  }
  const int32_t code = call->host->set_shape(call, TN_OPERAND_IN, 0, n_in, in);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 4, to);
}

int32_t nn_grid_generator_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {1}, out[] = {0};
  return nn_infer_like_forward(
      call, &(nn_forward_inference){nn_grid_generator_infer, in, out, 1, 1});
}

/* ---------------------------------------------------------------- elements */

/* Returns element i of an array as f64. */
static double load_element(const void *array, tn_dtype dtype, int64_t i) {
  const tn_kernel_mode mode = {TN_F64, 0};
  double x;
  if (dtype == TN_F32) return (double)((const float *)array)[i];
  tn_kernel_load_dense(
      &x, &mode, (const char *)array + i * tn_dtype_bytes(dtype), dtype, 1);
  return x;
}

/* Stores an element of a result, or adds it to the old one. */
static void store_element(const nn_affine_arrays *a, int64_t i, double x) {
  const tn_kernel_mode mode = {TN_F64, 0};
  if (a->add) x += load_element(a->to, a->to_dtype, i);
  tn_kernel_store_dense((char *)a->to + i * tn_dtype_bytes(a->to_dtype),
                        a->to_dtype, &x, &mode, 1);
}

/* ------------------------------------------------------------------- loops */

/* A call, as the argument of a parallel loop. */
typedef struct affine_work {
  const nn_affine_positions *positions;
  const nn_affine_arrays *arrays;
} affine_work;

/* Computes the positions of points [begin, end) of all images. */
static int32_t place_slice(void *arg, int64_t begin, int64_t end) {
  const affine_work *w = arg;
  const nn_affine_positions *p = w->positions;
  const int64_t points = nn_affine_count_points(p);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / points, point = i % points;
    double at[NN_AFFINE_RANK + 1];
    for (int k = 0; k <= p->rank; ++k)
      at[k] = nn_affine_find_coordinate(p, point, k);
    for (int row = 0; row < p->rank; ++row) {
      const int64_t first = (image * p->rank + row) * (p->rank + 1);
      double sum = 0;
      for (int k = 0; k <= p->rank; ++k)
        sum += load_element(w->arrays->from, w->arrays->from_dtype, first + k) *
               at[k];
      store_element(w->arrays, nn_affine_find_place(p, image, point, row), sum);
    }
  }
  return TN_OK;
}

/* Computes numbers [begin, end) of the gradients of all functions. */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const affine_work *w = arg;
  const nn_affine_positions *p = w->positions;
  for (int64_t i = begin; i < end; ++i) {
    const int k = (int)(i % (p->rank + 1));
    const int row = (int)(i / (p->rank + 1) % p->rank);
    const int64_t image = i / (p->rank + 1) / p->rank;
    double sum = 0;
    for (int64_t point = 0; point < nn_affine_count_points(p); ++point)
      sum += load_element(w->arrays->from, w->arrays->from_dtype,
                          nn_affine_find_place(p, image, point, row)) *
             nn_affine_find_coordinate(p, point, k);
    store_element(w->arrays, i, sum);
  }
  return TN_OK;
}

int32_t nn_affine_run(const tn_frame *call,
                      const nn_affine_positions *positions,
                      const nn_affine_arrays *arrays) {
  affine_work w = {positions, arrays};
  const int64_t points = nn_affine_count_points(positions);
  if (!arrays->is_back)
    return nn_run_parallel(call, positions->images * points, 16, place_slice,
                           &w);
  return nn_run_parallel(
      call, positions->images * positions->rank * (positions->rank + 1),
      4 * points, sum_slice, &w);
}

/* ----------------------------------------------------------------- kernels */

/* Runs a call that has the functions in one operand and positions in the other.
 */
static int32_t run_affine(const tn_frame *call,
                          const nn_affine_positions *positions) {
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  return nn_affine_run(
      call, positions,
      &(nn_affine_arrays){call->in[0].dtype, call->out[0].dtype,
                          call->in[0].data, call->out[0].data,
                          (call->flags & TN_CALL_BACKWARD) != 0, 0});
}

int32_t nn_affine_grid(const tn_frame *call) {
  const nn_affine_positions positions = nn_affine_grid_view_call(call);
  return run_affine(call, &positions);
}

int32_t nn_affine_grid_backward(const tn_frame *call) {
  return nn_affine_grid(call);
}

/* Computes elements [begin, end) of a grid from a flow, or of its gradient. */
static int32_t warp_slice(void *arg, int64_t begin, int64_t end) {
  const tn_frame *call = arg;
  const nn_flow_view v = nn_grid_generator_view_flow(call);
  const nn_affine_arrays a = {call->in[0].dtype, call->out[0].dtype,
                              call->in[0].data,  call->out[0].data,
                              v.is_back,         0};
  for (int64_t i = begin; i < end; ++i)
    store_element(
        &a, i,
        nn_flow_find_position(&v, i, load_element(a.from, a.from_dtype, i)));
  return TN_OK;
}

int32_t nn_grid_generator(const tn_frame *call) {
  if (nn_grid_generator_is_warp(call)) {
    tn_frame own = *call;
    if (call->req[0] == TN_REQ_NULL) return TN_OK;
    return nn_run_parallel(call, tn_tensor_size(&call->out[0]), 8, warp_slice,
                           &own);
  }
  const nn_affine_positions positions = nn_grid_generator_view_call(call);
  return run_affine(call, &positions);
}

int32_t nn_grid_generator_backward(const tn_frame *call) {
  return nn_grid_generator(call);
}

int32_t nn_grid_generator_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_grid_generator_backward(&own);
}
