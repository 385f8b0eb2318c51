/* SPDX-License-Identifier: Apache-2.0
 * reduce_slopes.c: the gradients of what reduce.yaml describes. What came out,
 * and its gradient, are repeated to where the elements were; the rest is a loop
 * over elements.
 */
#include "reduce.gen.h"
#include "reduce.h"

/* Elements of the gradient of out, of data, and of out; y is the result. */
#define SLOPE(name, type, value)                                               \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *gs = (const type *)block->in[0];                               \
    const type *xs = (const type *)block->in[1];                               \
    const type *zs = (const type *)block->in[2];                               \
    type *y = (type *)block->out;                                              \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type g = gs[i], x = xs[i], z = zs[i];                              \
      (void)g, (void)x, (void)z;                                               \
      y[i] = (type)(value);                                                    \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
#define SLOPES(name, value)         \
  SLOPE(name##_f32, float, value)   \
  SLOPE(name##_f64, double, value)  \
  SLOPE(name##_i32, int32_t, value) \
  SLOPE(name##_i64, int64_t, value)
#define BODIES(name)                                                        \
  .f32 = TN_KERNEL_BODIES(name##_f32), .f64 = TN_KERNEL_BODIES(name##_f64), \
  .i32 = TN_KERNEL_BODIES(name##_i32), .i64 = TN_KERNEL_BODIES(name##_i64)
#define FLOAT_BODIES(name) \
  .f32 = TN_KERNEL_BODIES(name##_f32), .f64 = TN_KERNEL_BODIES(name##_f64)

SLOPES(where_number, x == x ? g : 0)
SLOPES(where_equal, ((x == z) | ((x != x) & (z != z))) ? g : 0)
SLOPE(by_sign_f32, float, x > 0 ? g : x < 0 ? -g : x == x ? 0 : x)
SLOPE(by_sign_f64, double, x > 0 ? g : x < 0 ? -g : x == x ? 0 : x)
SLOPE(by_share_f32, float, z == 0 ? 0 : g * (x / z))
SLOPE(by_share_f64, double, z == 0 ? 0 : g * (x / z))

static const tn_kernel_map number_map = {BODIES(where_number), .n_in = 3,
                                         .in = {0, 1, 1}};
static const tn_kernel_map equal_map = {BODIES(where_equal), .n_in = 3,
                                        .in = {0, 1, 2}};
static const tn_kernel_map sign_map = {FLOAT_BODIES(by_sign), .n_in = 3,
                                       .in = {0, 1, 1}};
static const tn_kernel_map share_map = {FLOAT_BODIES(by_share), .n_in = 3,
                                        .in = {0, 1, 2}};

/* The gradient itself, times a factor that is `params`. */
#define SCALE(name, type)                                                      \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *g = (const type *)block->in[0];                                \
    const type factor = (type) * (const double *)params;                       \
    type *y = (type *)block->out;                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) y[i] = (type)(g[i] * factor);       \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
SCALE(scale_f32, float)
SCALE(scale_f64, double)
SCALE(scale_i32, int32_t)
SCALE(scale_i64, int64_t)
static const tn_kernel_map scale_map = {BODIES(scale), .n_in = 1};

/* ------------------------------------------------------------------- calls */

/* Operands of these loops: the gradient of out and out repeated, data as it is.
 */
typedef struct operands {
  tn_tensor in[4];
  reduce_repeated grad;
  reduce_repeated out;
  reduce_repeated more;
  uint32_t axes;
} operands;

static int32_t open_operands(operands *o, const tn_frame *call) {
  const tn_tensor *slope = &call->out[0];
  const int32_t code = reduce_axes(call, slope->ndim, &o->axes);
  if (code != TN_OK) return code;
  reduce_repeat(&o->grad, &call->in[0], slope, o->axes);
  o->in[0] = o->grad.tensor;
  o->in[1] = call->in[1];
  if (call->in_flags[2] & TN_IN_ABSENT) return TN_OK;
  reduce_repeat(&o->out, &call->in[2], slope, o->axes);
  o->in[2] = o->out.tensor;
  return TN_OK;
}

static int32_t run_map(const tn_frame *call, const operands *o,
                       const tn_kernel_map *map, const void *params) {
  tn_frame own = *call;
  own.in = o->in;
  own.n_in = 4;
  own.params = params;
  own.prepared = NULL;
  return tn_kernel_map_run(&own, map, 1);
}

static int32_t run(const tn_frame *call, const tn_kernel_map *map) {
  operands o;
  const int32_t code = open_operands(&o, call);
  return code == TN_OK ? run_map(call, &o, map, NULL) : code;
}

static int32_t run_scale(const tn_frame *call, int mean) {
  operands o;
  double factor = 1;
  const int32_t code = open_operands(&o, call);
  if (code != TN_OK) return code;
  for (int32_t i = 0; mean && i < call->out[0].ndim; ++i)
    if (o.axes >> i & 1) factor *= (double)call->out[0].shape[i];
  factor = 1 / factor;
  return run_map(call, &o, &scale_map, &factor);
}

int32_t tensor_sum_backward(const tn_frame *call) {
  return run_scale(call, 0);
}

int32_t tensor_mean_backward(const tn_frame *call) {
  return run_scale(call, 1);
}

int32_t tensor_nansum_backward(const tn_frame *call) {
  return run(call, &number_map);
}

int32_t tensor_extreme_backward(const tn_frame *call) {
  return run(call, &equal_map);
}

int32_t tensor_norm_backward(const tn_frame *call) {
  return run(call,
             tensor_norm_params_of(call)->ord == 1 ? &sign_map : &share_map);
}

/* ---------------------------------------------------------------- products */

/* The product of the other elements: of what is not 0, if there is no 0, or if
 * x is the only one. `rest` is that product, `zeros` how many there are. Where
 * NaN counts as 1, it is no element. A quotient of integers that wrapped, the
 * least by -1, would stop the program. */
#define OTHERS(name, type, wraps, is_element, quotient)                        \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *g = (const type *)block->in[0];                                \
    const type *xs = (const type *)block->in[1];                               \
    const type *rests = (const type *)block->in[2];                            \
    const type *zeros = (const type *)block->in[3];                            \
    type *y = (type *)block->out;                                              \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const type x = xs[i], rest = rests[i];                                   \
      const int is_0 = x == 0;                                                 \
      const type by = is_0 ? 1 : x;                                            \
      const int counts = (is_element) & (zeros[i] == is_0);                    \
      y[i] = counts ? (type)((wraps)g[i] * (wraps)(quotient)) : 0;             \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
OTHERS(others_f64, double, double, 1, rest / by)
OTHERS(numbers_f64, double, double, x == x, rest / by)
OTHERS(others_i64, int64_t, uint64_t, 1,
       by == -1 ? 0 - (uint64_t)rest : (uint64_t)(rest / by))

static const tn_kernel_map others_map = {.f64 = TN_KERNEL_BODIES(others_f64),
                                         .i64 = TN_KERNEL_BODIES(others_i64),
                                         .n_in = 4,
                                         .in = {0, 1, 2, 3}};
static const tn_kernel_map numbers_map = {.f64 = TN_KERNEL_BODIES(numbers_f64),
                                          .i64 = TN_KERNEL_BODIES(others_i64),
                                          .n_in = 4,
                                          .in = {0, 1, 2, 3}};

/* Backward: a record of either kind for each line. */
int32_t tensor_prod_bytes(const tn_frame *call, uint64_t *bytes) {
  if (!(call->flags & TN_CALL_BACKWARD))
    return tensor_reduce_bytes(call, bytes);
  *bytes = 16 * (uint64_t)tn_tensor_size(&call->in[0]);
  return TN_OK;
}

/* A dense array of records in the shape of the gradient of out. */
static void records_like(reduce_repeated *to, const tn_tensor *grad, void *at) {
  const tn_dtype own = tn_kernel_compute(grad->dtype);
  int64_t step = 1;
  to->tensor = *grad;
  to->tensor.dtype = own == TN_I32 || own == TN_I64 ? TN_I64 : TN_F64;
  to->tensor.data = at;
  to->tensor.shape = to->shape;
  to->tensor.strides = to->strides;
  for (int32_t i = grad->ndim; i-- > 0; step *= grad->shape[i]) {
    to->shape[i] = grad->shape[i];
    to->strides[i] = step;
  }
}

static int32_t run_prod(const tn_frame *call, const reduce_op *rest,
                        const tn_kernel_map *map) {
  const int64_t lines = tn_tensor_size(&call->in[0]);
  operands o;
  reduce_repeated records[2];
  int32_t code = open_operands(&o, call);
  if (tn_tensor_size(&call->out[0]) == 0) return code;
  for (int k = 0; k < 2 && code == TN_OK; ++k) {
    reduce_repeated *repeated = k == 0 ? &o.out : &o.more;
    records_like(&records[k], &call->in[0], (double *)call->ws[0] + k * lines);
    const reduce_run run = {.call = call,
                            .op = k == 0 ? rest : &reduce_zeros,
                            .in = &call->in[1],
                            .out = &records[k].tensor,
                            .axes = o.axes,
                            .req = TN_REQ_WRITE};
    code = reduce_all(&run);
    reduce_repeat(repeated, &records[k].tensor, &call->out[0], o.axes);
    o.in[2 + k] = repeated->tensor;
  }
  return code == TN_OK ? run_map(call, &o, map, NULL) : code;
}

int32_t tensor_prod_backward(const tn_frame *call) {
  return run_prod(call, &reduce_rest, &others_map);
}

int32_t tensor_nanprod_backward(const tn_frame *call) {
  return run_prod(call, &reduce_nanrest, &numbers_map);
}
