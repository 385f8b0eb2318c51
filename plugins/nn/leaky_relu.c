/* SPDX-License-Identifier: Apache-2.0
 * leaky_relu.c: shapes of leaky_relu.yaml, and its kernels except those of
 * prelu.
 */
#include "leaky_relu.gen.h"

#include <math.h>

#include "mapped.h"
#include "nn.h"
#include "random_scaling.h"
#include "tenon/kernel/philox.h"

/* ------------------------------------------------------------------ shapes */

/* Reports a gamma that has neither one number nor one for each channel.
 * Returns the failure. */
static int32_t refuse_gamma(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`gamma` %s must have one number, or one for each index along "
                 "the second dimension of `data` %s",
                 nn_print_shape(&call->in[NN_LEAKY_RELU_IN_GAMMA]).text,
                 nn_print_shape(&call->in[NN_LEAKY_RELU_IN_DATA]).text);
}

/* Accepts one number for all channels, or the usual one for each channel. */
static int32_t infer_gamma(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_LEAKY_RELU_IN_DATA];
  const tn_tensor *gamma = &call->in[NN_LEAKY_RELU_IN_GAMMA];
  if (gamma->ndim >= 0 && gamma->ndim != 1) return refuse_gamma(call);
  if (data->ndim < 0) return TN_OK;
  const int64_t channels = data->ndim > 1 ? data->shape[1] : 1;
  if (gamma->ndim < 0 || gamma->shape[0] < 0) {
    const int told = channels == 1 || (call->flags & TN_CALL_DEFAULTS) != 0;
    const int64_t n = told ? channels : -1;
    return call->host->set_shape(call, TN_OPERAND_IN, NN_LEAKY_RELU_IN_GAMMA, 1,
                                 &n);
  }
  if (gamma->shape[0] != 1 && channels >= 0 && gamma->shape[0] != channels)
    return refuse_gamma(call);
  return TN_OK;
}

int32_t nn_leaky_relu_infer(const tn_frame *call) {
  const nn_leaky_relu_params *p = nn_leaky_relu_params_of(call);
  if (!isfinite(p->lower) || !isfinite(p->upper))
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "`lower` is %g and `upper` is %g: both must be finite",
                   p->lower, p->upper);
  if (p->lower > p->upper)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "`lower` is %g, but must not be above `upper`, which is %g",
                   p->lower, p->upper);
  if (p->act_type != NN_LEAKY_RELU_ACT_TYPE_PRELU) return TN_OK;
  return infer_gamma(call);
}

/* ------------------------------------------ functions of one element alone */

#define SELU_SCALE 1.0507009873554805
#define SELU_LOW 1.7580993408473766

/* Declares `slope` for a loop; some functions do not use it. */
#define SLOPE(type)                                                       \
  const type slope = (type)((const nn_leaky_relu_params *)params)->slope; \
  (void)slope
#define FORWARD(name, type, value) NN_FORWARD(name, type, SLOPE(type), value)
#define BACKWARD(name, type, value) NN_BACKWARD(name, type, SLOPE(type), value)

FORWARD(leaky_f32, float, tn_math_select_f32(x > 0, x, slope *x))
FORWARD(leaky_f64, double, tn_math_select_f64(x > 0, x, slope *x))
FORWARD(elu_f32, float,
        tn_math_select_f32(x > 0, x, slope *tn_math_expm1_f32(x)))
FORWARD(elu_f64, double,
        tn_math_select_f64(x > 0, x, slope *tn_math_expm1_f64(x)))
FORWARD(selu_f32, float,
        tn_math_select_f32(x > 0, (float)SELU_SCALE *x,
                           (float)SELU_LOW *tn_math_expm1_f32(x)))
FORWARD(selu_f64, double,
        tn_math_select_f64(x > 0, SELU_SCALE *x,
                           SELU_LOW *tn_math_expm1_f64(x)))

BACKWARD(leaky_back_f32, float, tn_math_select_f32(y > 0, g, g *slope))
BACKWARD(leaky_back_f64, double, tn_math_select_f64(y > 0, g, g *slope))
BACKWARD(elu_back_f32, float, tn_math_select_f32(y > 0, g, g *(y + slope)))
BACKWARD(elu_back_f64, double, tn_math_select_f64(y > 0, g, g *(y + slope)))
BACKWARD(selu_back_f32, float,
         g *tn_math_select_f32(y > 0, (float)SELU_SCALE, y + (float)SELU_LOW))
BACKWARD(selu_back_f64, double,
         g *tn_math_select_f64(y > 0, SELU_SCALE, y + SELU_LOW))

#define MAP(name) NN_MAP(name, 1, NN_LEAKY_RELU_IN_DATA)
/* A backward call has [gradient of out, data, gamma, out]. */
#define MAP_BACK(name) NN_MAP(name, 2, 0, 3)

/* Returns the loops of the activation function, or of its gradient in a
 * backward call; they are in the order of the values of act_type. */
static const tn_kernel_map *find_map(const tn_frame *call) {
  static const tn_kernel_map forward[] = {MAP(leaky), MAP(elu), MAP(selu)};
  static const tn_kernel_map backward[] = {
      MAP_BACK(leaky_back), MAP_BACK(elu_back), MAP_BACK(selu_back)};
  const int32_t type = nn_leaky_relu_params_of(call)->act_type;
  return (call->flags & TN_CALL_BACKWARD) ? &backward[type] : &forward[type];
}

/* Creates the state of a prepared call. */
int32_t nn_leaky_relu_create(const tn_frame *call, nn_mapped **out) {
  return nn_mapped_create(call, find_map(call), out);
}

/* Offers the register kernels of a call. */
int32_t nn_leaky_relu_registers(const tn_frame *call, tn_plan *plan) {
  return tn_kernel_map_prepare(call, plan, find_map(call), 1);
}

int32_t nn_leaky_relu(const tn_frame *call) {
  return nn_mapped_run(call, find_map(call));
}

int32_t nn_leaky_relu_backward(const tn_frame *call) {
  return nn_leaky_relu(call);
}

/* ----------------------------------------------------------- random slopes */

typedef struct slope_range {
  double lower;
  double width;
  double last; /* the largest random slope */
} slope_range;

/* Defines a loop for random_scaling.h; `uniform` is an expression that converts
 * `word` to a number in [0, 1). */
#define DRAW(name, type, uniform)                                              \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const slope_range *r = params;                                             \
    const type lower = (type)r->lower, width = (type)r->width;                 \
    const type last = (type)r->last;                                           \
    const uint32_t *words = block->in[0];                                      \
    const type *at = block->in[1];                                             \
    type *factor = (type *)(uintptr_t)block->in[2];                            \
    type *y = block->out;                                                      \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) {                                   \
      const uint32_t word = words[i];                                          \
      const type x = at[i];                                                    \
      const type drawn = lower + width * (uniform);                            \
      const type below = drawn < last ? drawn : last;                          \
      const type f = x > 0 ? 1 : below;                                        \
      factor[i] = f;                                                           \
      y[i] = x * f;                                                            \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

DRAW(draw_f32, float, tn_kernel_uniform_f32(word))
DRAW(draw_f64, double, (double)word * 0x1p-32)

/* Computes rrelu: each negative element gets a random slope. */
int32_t nn_rrelu(const tn_frame *call) {
  static const nn_loops loops = NN_LOOPS(draw);
  const nn_leaky_relu_params *p = nn_leaky_relu_params_of(call);
  const int draws = (call->flags & TN_CALL_TRAIN) != 0;
  const slope_range r = {draws ? p->lower : (p->lower + p->upper) / 2,
                         draws ? p->upper - p->lower : 0,
                         draws && p->upper > p->lower
                             ? tn_random_below(p->upper, call->in[0].dtype)
                             : INFINITY};
  return nn_random_scaling_run(&(nn_random_scaling){
      .call = call, .loops = &loops, .params = &r, .draws = draws});
}

#define TIMES(name, type)                                                      \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *g = block->in[0], *factor = block->in[1];                      \
    type *y = block->out;                                                      \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) y[i] = g[i] * factor[i];            \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

TIMES(times_f32, float)
TIMES(times_f64, double)

/* Multiplies the output gradient by the saved factors. The inputs are
 * [gradients of out and kept, data, gamma, out, kept]. */
int32_t nn_rrelu_backward(const tn_frame *call) {
  static const tn_kernel_map map = {.f32 = TN_KERNEL_BODIES(times_f32),
                                    .f64 = TN_KERNEL_BODIES(times_f64),
                                    .n_in = 2,
                                    .in = {0, 5}};
  return tn_kernel_map_run(call, &map, 1);
}
