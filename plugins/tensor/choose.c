/* SPDX-License-Identifier: Apache-2.0
 * choose.c: operators over several arrays of one shape: the choice between
 * elements of two arrays, and sums.
 */
/* This file has the common functions of the plugin (tenon/kernel/kernel.h). */
#define TN_KERNEL_HOME
#include "choose.gen.h"
#include "move.h"
#include "tenon/kernel/kernel.h"

/* ------------------------------------------------------------------- where */

/* The condition has the shape of x, or only its first dimension. */
int32_t tensor_where_infer(const tn_frame *call) {
  const tn_tensor *condition = &call->in[TENSOR_WHERE_IN_CONDITION];
  const tn_tensor *x = &call->in[TENSOR_WHERE_IN_X];
  if (condition->ndim < 0 || x->ndim < 0) return TN_OK;
  const int rows = condition->ndim == 1 && x->ndim > 1;
  if (!rows && condition->ndim != x->ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "`condition` has %d dimensions, `x` %d: it must have as "
                   "many, or one",
                   (int)condition->ndim, (int)x->ndim);
  int32_t code =
      call->host->set_shape(call, TN_OPERAND_IN, TENSOR_WHERE_IN_CONDITION,
                            rows ? 1 : x->ndim, x->shape);
  if (code == TN_OK && !rows)
    code = call->host->set_shape(call, TN_OPERAND_IN, TENSOR_WHERE_IN_X,
                                 x->ndim, condition->shape);
  return code;
}

#define CHOICE(name, type, condition, yes, no)                                 \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *c = (const type *)block->in[0];                                \
    const type *x = (const type *)block->in[1];                                \
    const type *y = (const type *)block->in[2];                                \
    type *out = (type *)block->out;                                            \
    (void)params, (void)x, (void)y;                                            \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i)                                     \
      out[i] = (condition) ? (yes) : (no);                                     \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
#define CHOICES(name, yes, no)                    \
  CHOICE(name##_f32, float, c[i] != 0, yes, no)   \
  CHOICE(name##_f64, double, c[i] != 0, yes, no)  \
  CHOICE(name##_i32, int32_t, c[i] != 0, yes, no) \
  CHOICE(name##_i64, int64_t, c[i] != 0, yes, no)
CHOICES(choose, x[i], y[i])
CHOICES(keep, x[i], 0)
CHOICES(drop, 0, x[i])

#define BODIES(name)                                                        \
  .f32 = TN_KERNEL_BODIES(name##_f32), .f64 = TN_KERNEL_BODIES(name##_f64), \
  .i32 = TN_KERNEL_BODIES(name##_i32), .i64 = TN_KERNEL_BODIES(name##_i64), \
  .u64 = TN_KERNEL_BODIES(name##_i64) /* the same bits */
static const tn_kernel_map choose_map = {BODIES(choose), .n_in = 3,
                                         .in = {0, 1, 2}};
static const tn_kernel_map gradient_maps[] = {
    {BODIES(keep), .out = TENSOR_WHERE_IN_X, .n_in = 3, .in = {0, 1, 1}},
    {BODIES(drop), .out = TENSOR_WHERE_IN_Y, .n_in = 3, .in = {0, 1, 1}}};

static const tn_tensor *get_condition(const tn_frame *call) {
  return &call->in[call->flags & TN_CALL_BACKWARD
                       ? TENSOR_WHERE_BACKWARD_IN_CONDITION
                       : TENSOR_WHERE_IN_CONDITION];
}

/* With a float condition, integers would be computed as floats, and not all of
 * them are floats. In that case the condition is converted to bool first. */
static int needs_conversion(const tn_frame *call) {
  const tn_tensor *chosen = &call->in[call->flags & TN_CALL_BACKWARD ? 0 : 1];
  return tensor_wide_dtype(chosen->dtype) == TN_I64 &&
         tensor_wide_dtype(get_condition(call)->dtype) == TN_F64;
}

int32_t tensor_where_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = needs_conversion(call)
               ? (uint64_t)tn_tensor_size(get_condition(call))
               : 0;
  return TN_OK;
}

#define TRUTH(name, type)                                                      \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *c = (const type *)block->in[0];                                \
    type *out = (type *)block->out;                                            \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) out[i] = c[i] != 0;                 \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
TRUTH(truth_f32, float)
TRUTH(truth_f64, double)
static const tn_kernel_map truth_map = {.f32 = TN_KERNEL_BODIES(truth_f32),
                                        .f64 = TN_KERNEL_BODIES(truth_f64),
                                        .n_in = 1};

/* Converts the condition to a dense bool array in the workspace. */
static int32_t convert_condition(const tn_frame *call, tensor_view *condition) {
  const tn_req write = TN_REQ_WRITE;
  tensor_view truth;
  tn_frame own = *call;
  int64_t step = 1;
  tensor_view_init(&truth, &condition->tensor);
  truth.tensor.dtype = TN_BOOL;
  truth.tensor.data = call->ws[0];
  for (int32_t i = truth.tensor.ndim; i-- > 0; step *= truth.shape[i])
    truth.strides[i] = step;
  own.in = &condition->tensor;
  own.out = &truth.tensor;
  own.n_in = own.n_out = 1;
  own.req = &write;
  own.prepared = NULL;
  const int32_t code = tn_kernel_map_run(&own, &truth_map, 1);
  tensor_view_init(condition, &truth.tensor);
  return code;
}

/* Runs maps over [condition, x, y]; `condition` is already converted. */
static int32_t run_choice(const tn_frame *call, const tn_tensor *x,
                          const tn_tensor *y, const tn_kernel_map *maps,
                          uint32_t n_maps) {
  tensor_view condition;
  tensor_view_init(&condition, get_condition(call));
  int32_t code = TN_OK;
  if (tn_tensor_size(x) == 0) return TN_OK;
  if (needs_conversion(call)) code = convert_condition(call, &condition);
  if (code != TN_OK) return code;
  for (int32_t i = condition.tensor.ndim; i < x->ndim; ++i) {
    condition.shape[i] = 1;
    condition.strides[i] = 0;
  }
  condition.tensor.ndim = x->ndim;
  const tn_tensor in[] = {condition.tensor, *x, *y};
  tn_frame own = *call;
  own.in = in;
  own.n_in = 3;
  own.prepared = NULL;
  return tn_kernel_map_run(&own, maps, n_maps);
}

int32_t tensor_where(const tn_frame *call) {
  return run_choice(call, &call->in[TENSOR_WHERE_IN_X],
                    &call->in[TENSOR_WHERE_IN_Y], &choose_map, 1);
}

int32_t tensor_where_backward(const tn_frame *call) {
  return run_choice(call, &call->in[0], &call->in[0], gradient_maps, 2);
}

/* ------------------------------------------------------------------- add_n */

/* Adds the known dimensions of a tensor to the common shape. */
static void merge_shape(int64_t *shape, int32_t *ndim, const tn_tensor *of) {
  if (of->ndim < 0) return;
  for (int32_t i = 0; i < of->ndim; ++i)
    if (*ndim < 0 || (i < *ndim && shape[i] < 0)) shape[i] = of->shape[i];
  if (*ndim < 0) *ndim = of->ndim;
}

int32_t tensor_add_n_infer(const tn_frame *call) {
  int64_t shape[TN_MAX_NDIM];
  int32_t ndim = -1, code = TN_OK;
  if (call->n_in == 0)
    return TN_FAIL(call, TN_INVALID, "there is no sum of no arrays: give one");
  merge_shape(shape, &ndim, &call->out[0]);
  for (uint32_t k = 0; k < call->n_in; ++k)
    merge_shape(shape, &ndim, &call->in[k]);
  if (ndim < 0) return TN_OK;
  for (uint32_t k = 0; k < call->n_in && code == TN_OK; ++k)
    code = call->host->set_shape(call, TN_OPERAND_IN, k, ndim, shape);
  return code == TN_OK
             ? call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape)
             : code;
}

/* Elements [begin, end) of out: adds up all inputs, and the old value, in parts
 * that fit the nearest cache. */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  enum { SOME = 1024 };
  const tn_frame *call = (const tn_frame *)arg;
  const tn_tensor *out = &call->out[0];
  const tn_kernel_mode mode = {tn_kernel_compute(out->dtype),
                               tn_kernel_level(call)};
  const int64_t bytes = tn_dtype_bytes(out->dtype);
  const int direct = out->dtype == mode.compute;
  for (int64_t n; begin < end; begin += n) {
    TN_KERNEL_LINED double sum[SOME], more[SOME];
    n = end - begin < SOME ? end - begin : SOME;
    for (uint32_t k = 0; k < call->n_in + 1; ++k) {
      const int old = k == call->n_in;
      const tn_tensor *from = old ? out : &call->in[k];
      const void *at = (const char *)from->data + begin * bytes;
      if (old && call->req[0] != TN_REQ_ADD) break;
      if (k == 0 || !direct)
        tn_kernel_load_dense(k == 0 ? sum : more, &mode, at, out->dtype, n);
      if (k > 0) tn_kernel_add_dense(sum, direct ? at : more, &mode, n);
    }
    tn_kernel_store_dense((char *)out->data + begin * bytes, out->dtype, sum,
                          &mode, n);
  }
  return TN_OK;
}

int32_t tensor_add_n(const tn_frame *call) {
  return call->host->parallel_for(call, tn_tensor_size(&call->out[0]),
                                  TN_KERNEL_GRAIN, sum_slice,
                                  (void *)(uintptr_t)call);
}

/* Every input gets the output gradient: a sum of one term. */
int32_t tensor_add_n_backward(const tn_frame *call) {
  tn_frame own = *call;
  own.n_in = own.n_out = 1;
  int32_t code = TN_OK;
  for (uint32_t k = 0; k < call->n_out && code == TN_OK; ++k) {
    own.out = &call->out[k];
    own.req = &call->req[k];
    if (call->req[k] != TN_REQ_NULL) code = tensor_add_n(&own);
  }
  return code;
}
