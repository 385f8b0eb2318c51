/* SPDX-License-Identifier: Apache-2.0
 * affine.c: the kernel of rows.affine, forward and backward, for f32 and f64.
 */
#include "affine.gen.h"

/* The operands of one call, or of one gradient of it. */
typedef struct loop {
  const void *data, *weight, *bias; /* `bias` is NULL if it is absent */
  const void *grad;                 /* of the output; NULL when forward */
  void *out;
  int64_t rows, columns;
  double scale;
  int32_t add; /* add to `out` instead of overwriting it */
} loop;

/* A table of the loops for one element type. */
typedef struct loops {
  tn_loop_body *forward; /* over rows */
  tn_loop_body *grad[3]; /* of data, weight, bias */
} loops;

#define T float
#define NAME(f) f##_f32
#include "affine_loops.h"
#undef T
#undef NAME
#define T double
#define NAME(f) f##_f64
#include "affine_loops.h"

static const loops *loops_for(tn_dtype dtype) {
  return dtype == TN_F32 ? &loops_f32 : &loops_f64;
}

int32_t rows_affine(const tn_frame *call) {
  const tn_tensor *data = &call->in[ROWS_AFFINE_IN_DATA];
  loop l = {.data = data->data,
            .weight = call->in[ROWS_AFFINE_IN_WEIGHT].data,
            .bias = call->in[ROWS_AFFINE_IN_BIAS].data,
            .out = call->out[ROWS_AFFINE_OUT_OUT].data,
            .rows = data->shape[0],
            .columns = data->shape[1],
            .scale = rows_affine_params_of(call)->scale,
            .add = call->req[ROWS_AFFINE_OUT_OUT] == TN_REQ_ADD};
  return call->host->parallel_for(call, l.rows, 64,
                                  loops_for(data->dtype)->forward, &l);
}

/* The gradient of input `i`. That of `data` is computed row by row, the others
 * column by column, so that no two slices write one element. */
static int32_t compute_gradient(const tn_frame *call, loop *l, uint32_t i) {
  const loops *of = loops_for(call->in[ROWS_AFFINE_BACKWARD_GRAD_OUT].dtype);
  l->out = call->out[i].data;
  l->add = call->req[i] == TN_REQ_ADD;
  return call->host->parallel_for(
      call, i == ROWS_AFFINE_IN_DATA ? l->rows : l->columns, 64, of->grad[i],
      l);
}

int32_t rows_affine_backward(const tn_frame *call) {
  const tn_tensor *grad = &call->in[ROWS_AFFINE_BACKWARD_GRAD_OUT];
  loop l = {.data = call->in[ROWS_AFFINE_BACKWARD_IN_DATA].data,
            .weight = call->in[ROWS_AFFINE_BACKWARD_IN_WEIGHT].data,
            .grad = grad->data,
            .rows = grad->shape[0],
            .columns = grad->shape[1],
            .scale = rows_affine_params_of(call)->scale};
  int32_t code = TN_OK;
  for (uint32_t i = 0; i < call->n_out && code == TN_OK; ++i)
    if (call->req[i] != TN_REQ_NULL) code = compute_gradient(call, &l, i);
  return code;
}
