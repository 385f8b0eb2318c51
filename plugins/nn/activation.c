/* SPDX-License-Identifier: Apache-2.0
 * activation.c: kernels of activation.yaml, with one loop per function. The
 * generated kernel, their reference, computes all five functions and selects
 * one.
 */
#include "activation.gen.h"

#include "activated.h"
#include "mapped.h"

#define FORWARD(name, type, value) NN_FORWARD(name, type, (void)params, value)
#define BACKWARD(name, type, value) NN_BACKWARD(name, type, (void)params, value)

FORWARD(relu_f32, float, tn_math_max_f32(x, 0))
FORWARD(relu_f64, double, tn_math_max_f64(x, 0))
FORWARD(sigmoid_f32, float, tn_math_sigmoid_f32(x))
FORWARD(sigmoid_f64, double, tn_math_sigmoid_f64(x))
NN_FORWARD_WIDE(tanh_f32, tanh)
FORWARD(tanh_f64, double, tn_math_tanh_f64(x))
FORWARD(softrelu_f32, float, tn_math_softplus_f32(x))
FORWARD(softrelu_f64, double, tn_math_softplus_f64(x))
FORWARD(softsign_f32, float, x / (1 + tn_math_abs_f32(x)))
FORWARD(softsign_f64, double, x / (1 + tn_math_abs_f64(x)))

BACKWARD(relu_back_f32, float, tn_math_select_f32(y > 0, g, 0))
BACKWARD(relu_back_f64, double, tn_math_select_f64(y > 0, g, 0))
BACKWARD(sigmoid_back_f32, float, g *y *(1 - y))
BACKWARD(sigmoid_back_f64, double, g *y *(1 - y))
BACKWARD(tanh_back_f32, float, g *(1 - y * y))
BACKWARD(tanh_back_f64, double, g *(1 - y * y))
BACKWARD(softrelu_back_f32, float, -g *tn_math_expm1_f32(-y))
BACKWARD(softrelu_back_f64, double, -g *tn_math_expm1_f64(-y))
BACKWARD(softsign_back_f32, float,
         g *(1 - tn_math_abs_f32(y)) * (1 - tn_math_abs_f32(y)))
BACKWARD(softsign_back_f64, double,
         g *(1 - tn_math_abs_f64(y)) * (1 - tn_math_abs_f64(y)))

#define MAP(name) NN_MAP(name, 1, NN_ACTIVATION_IN_DATA)
#define MAP_BACK(name)                             \
  NN_MAP(name, 2, NN_ACTIVATION_BACKWARD_GRAD_OUT, \
         NN_ACTIVATION_BACKWARD_OUT_OUT)

/* The maps of each function, in the order of the values of act_type. */
static const tn_kernel_map forward[] = {MAP(relu), MAP(sigmoid), MAP(tanh),
                                        MAP(softrelu), MAP(softsign)};
static const tn_kernel_map backward[] = {
    MAP_BACK(relu_back), MAP_BACK(sigmoid_back), MAP_BACK(tanh_back),
    MAP_BACK(softrelu_back), MAP_BACK(softsign_back)};

/* Returns the loops of the activation function, or of its gradient in a
 * backward call. */
static const tn_kernel_map *find_map(const tn_frame *call) {
  const int32_t type = nn_activation_params_of(call)->act_type;
  return (call->flags & TN_CALL_BACKWARD) ? &backward[type] : &forward[type];
}

/* Creates the state of a prepared call. */
int32_t nn_activation_create(const tn_frame *call, nn_mapped **out) {
  return nn_mapped_create(call, find_map(call), out);
}

/* Offers the register kernels of a call. */
int32_t nn_activation_registers(const tn_frame *call, tn_plan *plan) {
  return tn_kernel_map_prepare(call, plan, find_map(call), 1);
}

int32_t nn_activation(const tn_frame *call) {
  return nn_mapped_run(call, find_map(call));
}

int32_t nn_activation_backward(const tn_frame *call) {
  return nn_activation(call);
}

/* --------------------------------------------------- after other operators */

tn_kernel_body *nn_activation_find_loop(const tn_frame *call, int32_t type) {
  const tn_kernel_bodies *bodies =
      tn_kernel_map_bodies(&forward[type], call->out[0].dtype);
  return tn_kernel_body_at(bodies, tn_kernel_level(call));
}

/* Runs a map on dense operands of one type. */
static int32_t run_map(const tn_frame *call, const tn_kernel_map *map) {
  const tn_dtype dtype = call->out[0].dtype;
  if (tn_kernel_compute(dtype) != dtype) return tn_kernel_map_mixed(call, map);
  return tn_kernel_map_dense(call, map,
                             &(tn_kernel_ready){tn_kernel_level(call), dtype});
}

int32_t nn_activation_apply(const tn_frame *call, int32_t type) {
  static const tn_req in_place = TN_REQ_INPLACE;
  static const uint32_t present = 0;
  static const int32_t alias = 0;
  tn_frame own = *call;
  own.n_in = own.n_out = 1;
  own.in = call->out;
  own.in_flags = &present;
  own.req = &in_place;
  own.alias = &alias;
  return run_map(&own, &forward[type]);
}

int32_t nn_activation_compute_gradient(const tn_frame *call, int32_t type,
                                       const tn_tensor *out,
                                       const tn_tensor *to) {
  static const tn_req write = TN_REQ_WRITE;
  static const int32_t alias = -1;
  const uint32_t flags[] = {0, TN_IN_ABSENT, 0};
  const tn_tensor in[] = {call->in[0], *out, *out};
  tn_frame own = *call;
  own.n_in = 3;
  own.n_out = 1;
  own.in = in;
  own.in_flags = flags;
  own.out = to;
  own.req = &write;
  own.alias = &alias;
  return run_map(&own, &backward[type]);
}
