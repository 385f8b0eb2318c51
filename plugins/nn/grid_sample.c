/* SPDX-License-Identifier: Apache-2.0
 * grid_sample.c: shapes and kernels of grid_sample.yaml, by the loops of
 * sample.h.
 */
#include "grid_sample.gen.h"

#include <string.h>

#include "affine_positions.h"
#include "axis.h"
#include "nn.h"
#include "operands.h"
#include "sample.h"
#include "sample_block.h"
#include "sample_view.h"

/* ------------------------------------------------------------------ shapes */

/* Checks images and grid of known rank. */
static int32_t check_ranks(const tn_frame *call, int32_t ndim) {
  const nn_grid_sample_params *p = nn_grid_sample_params_of(call);
  const tn_tensor *data = &call->in[0], *grid = &call->in[1];
  if (ndim < 4 || ndim > 5)
    return TN_FAIL(call, TN_SHAPE,
                   "images have two or three dimensions, so `data` must have 4 "
                   "or 5, but %s has %d",
                   nn_print_shape(data).text, (int)ndim);
  if (ndim == 5 && p->mode == NN_GRID_SAMPLE_MODE_CUBIC)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "mode=cubic is for images of two dimensions; use linear");
  if (grid->ndim >= 0 && grid->ndim != ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`grid` %s must have as many dimensions as `data` %s",
                   nn_print_shape(grid).text, nn_print_shape(data).text);
  for (int32_t d = 2; d < ndim && data->ndim == ndim; ++d)
    if (data->shape[d] == 0)
      return TN_FAIL(call, TN_SHAPE,
                     "dimension %d of `data` %s is empty; pass images with "
                     "elements",
                     (int)d, nn_print_shape(data).text);
  return TN_OK;
}

/* Copies the dimensions of a tensor; -1 if its rank is unknown. */
static void copy_shape(const tn_tensor *from, int32_t ndim, int64_t *to) {
  for (int32_t d = 0; d < ndim; ++d)
    to[d] = from->ndim == ndim ? from->shape[d] : -1;
}

int32_t nn_grid_sample_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[0], *grid = &call->in[1];
  const tn_tensor *result = &call->out[0];
  int64_t in[TN_MAX_NDIM], at[TN_MAX_NDIM], out[TN_MAX_NDIM];
  int32_t ndim = data->ndim >= 0 ? data->ndim : grid->ndim;
  if (ndim < 0) ndim = result->ndim;
  if (ndim < 0) return TN_OK;
  int32_t code = check_ranks(call, ndim);
  if (code != TN_OK) return code;
  copy_shape(data, ndim, in);
  copy_shape(grid, ndim, at);
  copy_shape(result, ndim, out);
  if (in[0] < 0) in[0] = at[0] < 0 ? out[0] : at[0];
  if (in[1] < 0) in[1] = out[1];
  at[0] = out[0] = in[0];
  out[1] = in[1];
  for (int32_t d = 2; d < ndim; ++d) {
    if (at[d - 1] < 0) at[d - 1] = out[d];
    out[d] = at[d - 1];
  }
  at[ndim - 1] = ndim - 2;
  code = call->host->set_shape(call, TN_OPERAND_IN, 0, ndim, in);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, 1, ndim, at);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, out);
}

/* ----------------------------------------------------------------- kernels */

/* Returns the loops' description of a call. */
static nn_sample make_sample(const tn_frame *call, const nn_sample_view *view) {
  return (nn_sample){
      .call = call,
      .mode = {tn_kernel_compute(call->in[0].dtype), tn_kernel_level(call)},
      .rule = view->rule,
      .images = view->images,
      .channels = view->channels,
      .size = view->size,
      .points = view->points,
      .grid_step = view->grid_step,
      .point_step = view->point_step,
      .coordinate_step = view->coordinate_step};
}

/* Computes a forward call; `grid` has the positions. */
static int32_t run_forward(nn_operands *x, const nn_sample_view *view,
                           const void *grid) {
  const tn_frame *call = x->call;
  const nn_sample s = make_sample(call, view);
  const nn_sample_arrays a = {nn_operands_open_input(x, 0), grid, NULL};
  void *to = nn_operands_open_output(x, 0);
  int32_t code = nn_sample_check_size(call, view->size);
  if (code == TN_OK && tn_tensor_size(&call->out[0]) > 0)
    code = nn_sample_run_forward(&s, &a, to, nn_operands_is_added(x, 0));
  if (code == TN_OK) nn_operands_close_output(x, 0, to);
  return code;
}

/* Computes the gradient of data. */
static int32_t run_data(nn_operands *x, const nn_sample_view *view,
                        const nn_sample_arrays *a) {
  const nn_sample s = make_sample(x->call, view);
  void *to = nn_operands_open_output(x, 0);
  const int32_t code =
      nn_sample_run_data(&s, a, to, nn_operands_is_added(x, 0));
  if (code == TN_OK) nn_operands_close_output(x, 0, to);
  return code;
}

/* Tests whether the gradient of input i is requested and has elements. */
static int is_requested(const tn_frame *call, uint32_t i) {
  return call->req[i] != TN_REQ_NULL && tn_tensor_size(&call->out[i]) > 0;
}

/* Runs a call whose grid is an input. */
static int32_t run_call(const tn_frame *call, const nn_sample_view *view) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const nn_sample s = make_sample(call, view);
  if (!(call->flags & TN_CALL_BACKWARD))
    return run_forward(&x, view, nn_operands_open_input(&x, 1));
  const nn_sample_arrays a = {nn_operands_open_input(&x, 1),
                              nn_operands_open_input(&x, 2),
                              nn_operands_open_input(&x, 0)};
  int32_t code = nn_sample_check_size(call, view->size);
  if (code == TN_OK && is_requested(call, 0)) code = run_data(&x, view, &a);
  if (code != TN_OK || !is_requested(call, 1)) return code;
  void *to = nn_operands_open_output(&x, 1);
  code = nn_sample_run_grid(&s, &a, to, nn_operands_is_added(&x, 1));
  if (code == TN_OK) nn_operands_close_output(&x, 1, to);
  return code;
}

#define KERNEL(name)                                                 \
  int32_t nn_##name(const tn_frame *call) {                          \
    const nn_sample_view view = nn_##name##_view_call(call);         \
    return run_call(call, &view);                                    \
  }                                                                  \
  int32_t nn_##name##_backward(const tn_frame *call) {               \
    return nn_##name(call);                                          \
  }                                                                  \
  int32_t nn_##name##_bytes(const tn_frame *call, uint64_t *bytes) { \
    *bytes = nn_operands_count_bytes(call);                          \
    return TN_OK;                                                    \
  }
KERNEL(grid_sample)
KERNEL(bilinear_sampler)

/* ------------------------------------------------------ spatial transformer */

/* Bytes of the positions of all points; a multiple of 64. */
static uint64_t count_grid_bytes(const tn_frame *call) {
  const nn_sample_view view = nn_spatial_transformer_view_call(call);
  const int64_t n = view.images * view.points * 2;
  const int64_t bytes =
      n * tn_dtype_bytes(tn_kernel_compute(call->in[0].dtype));
  return ((uint64_t)bytes + 63) / 64 * 64;
}

/* Sets *bytes to the workspace of a call: the positions, and their gradient. */
int32_t nn_spatial_transformer_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call) + 2 * count_grid_bytes(call);
  return TN_OK;
}

/* Describes the affine positions of a call. */
static nn_affine_positions make_positions(const tn_frame *call) {
  return nn_affine_make_planes(
      nn_spatial_transformer_view_call(call).images,
      nn_spatial_transformer_params_of(call)->target_shape.v);
}

/* Runs the loop over positions in the type of the computation. */
static int32_t run_positions(const tn_frame *call, const void *from, void *to,
                             int is_back, int add) {
  const nn_affine_positions positions = make_positions(call);
  const tn_dtype dtype = tn_kernel_compute(call->in[0].dtype);
  return nn_affine_run(
      call, &positions,
      &(nn_affine_arrays){dtype, dtype, from, to, is_back, add});
}

int32_t nn_spatial_transformer(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const nn_sample_view view = nn_spatial_transformer_view_call(call);
  void *grid = (char *)call->ws[0] + nn_operands_count_bytes(call);
  const int32_t code =
      run_positions(call, nn_operands_open_input(&x, 1), grid, 0, 0);
  return code == TN_OK ? run_forward(&x, &view, grid) : code;
}

int32_t nn_spatial_transformer_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const nn_sample_view view = nn_spatial_transformer_view_call(call);
  const nn_sample s = make_sample(call, &view);
  char *grid = (char *)call->ws[0] + nn_operands_count_bytes(call);
  char *slopes = grid + count_grid_bytes(call);
  const nn_sample_arrays a = {nn_operands_open_input(&x, 1), grid,
                              nn_operands_open_input(&x, 0)};
  int32_t code = nn_sample_check_size(call, view.size);
  if (code == TN_OK)
    code = run_positions(call, nn_operands_open_input(&x, 2), grid, 0, 0);
  if (code == TN_OK && is_requested(call, 0)) code = run_data(&x, &view, &a);
  if (code != TN_OK || !is_requested(call, 1)) return code;
  void *to = nn_operands_open_output(&x, 1);
  code = nn_sample_run_grid(&s, &a, slopes, 0);
  if (code == TN_OK)
    code = run_positions(call, slopes, to, 1, nn_operands_is_added(&x, 1));
  if (code == TN_OK) nn_operands_close_output(&x, 1, to);
  return code;
}
