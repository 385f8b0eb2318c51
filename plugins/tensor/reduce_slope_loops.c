/* SPDX-License-Identifier: Apache-2.0
 * reduce_slope_loops.c: the loops of the gradients of reduce.h on the CPU.
 */
#include "reduce.h"
#include "tenon/kernel/kernel.h"

struct reduce_gradient {
  tn_kernel_map map;
};

int32_t reduce_run_gradient(const tn_frame *call,
                            const reduce_gradient *gradient) {
  return tn_kernel_map_run(call, &gradient->map, 1);
}

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
  .i32 = TN_KERNEL_BODIES(name##_i32), .i64 = TN_KERNEL_BODIES(name##_i64), \
  .u64 = TN_KERNEL_BODIES(name##_i64) /* the same bits */
#define FLOAT_BODIES(name) \
  .f32 = TN_KERNEL_BODIES(name##_f32), .f64 = TN_KERNEL_BODIES(name##_f64)

SLOPES(where_number, x == x ? g : 0)
SLOPES(where_equal, ((x == z) | ((x != x) & (z != z))) ? g : 0)
SLOPE(by_sign_f32, float, x > 0 ? g : x < 0 ? -g : x == x ? 0 : x)
SLOPE(by_sign_f64, double, x > 0 ? g : x < 0 ? -g : x == x ? 0 : x)
SLOPE(by_share_f32, float, z == 0 ? 0 : g * (x / z))
SLOPE(by_share_f64, double, z == 0 ? 0 : g * (x / z))
SLOPE(by_power_f32, float,
      z == -(float)INFINITY ? 0 : g * tn_math_exp_f32(x - z))
SLOPE(by_power_f64, double,
      z == -(double)INFINITY ? 0 : g * tn_math_exp_f64(x - z))
SLOPE(power_f32, float, tn_math_exp_f32(g - (x - x == 0 ? x : 0)))
SLOPE(power_f64, double, tn_math_exp_f64(g - (x - x == 0 ? x : 0)))
SLOPE(logarithm_f64, double, tn_math_log_f64(g) + (x - x == 0 ? x : 0))

const reduce_gradient reduce_gradient_where_number = {
    {BODIES(where_number), .n_in = 3, .in = {0, 1, 1}}};
const reduce_gradient reduce_gradient_where_equal = {
    {BODIES(where_equal), .n_in = 3, .in = {0, 1, 2}}};
const reduce_gradient reduce_gradient_by_sign = {
    {FLOAT_BODIES(by_sign), .n_in = 3, .in = {0, 1, 1}}};
const reduce_gradient reduce_gradient_by_share = {
    {FLOAT_BODIES(by_share), .n_in = 3, .in = {0, 1, 2}}};
const reduce_gradient reduce_gradient_by_power = {
    {FLOAT_BODIES(by_power), .n_in = 3, .in = {0, 1, 2}}};
const reduce_gradient reduce_gradient_power = {
    {FLOAT_BODIES(power), .n_in = 3, .in = {0, 1, 1}}};
const reduce_gradient reduce_gradient_logarithm = {
    {.f64 = TN_KERNEL_BODIES(logarithm_f64), .n_in = 3, .in = {0, 1, 1}}};

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
const reduce_gradient reduce_gradient_scale = {{BODIES(scale), .n_in = 1}};

/* ---------------------------------------------------------------- products */

/* The product of the other elements: of those that are not 0, if there is no 0,
 * or if x is the only one. `rest` is that product, `zeros` the number of zeros.
 * If NaN counts as 1, it is no element. A quotient of wrapped integers, the
 * least by -1, would end the program. */
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
      const int counts = (is_element) & (zeros[i] == (type)is_0);              \
      y[i] = counts ? (type)((wraps)g[i] * (wraps)(quotient)) : 0;             \
    }                                                                          \
  }                                                                            \
  TN_KERNEL_LEVELS(name)
OTHERS(others_f64, double, double, 1, rest / by)
OTHERS(numbers_f64, double, double, x == x, rest / by)
OTHERS(others_i64, int64_t, uint64_t, 1,
       by == -1 ? 0 - (uint64_t)rest : (uint64_t)(rest / by))
OTHERS(others_u64, uint64_t, uint64_t, 1, rest / by)

const reduce_gradient reduce_gradient_prod = {
    {.f64 = TN_KERNEL_BODIES(others_f64),
     .i64 = TN_KERNEL_BODIES(others_i64),
     .u64 = TN_KERNEL_BODIES(others_u64),
     .n_in = 4,
     .in = {0, 1, 2, 3}}};
const reduce_gradient reduce_gradient_nanprod = {
    {.f64 = TN_KERNEL_BODIES(numbers_f64),
     .i64 = TN_KERNEL_BODIES(others_i64),
     .u64 = TN_KERNEL_BODIES(others_u64),
     .n_in = 4,
     .in = {0, 1, 2, 3}}};
