/* unary.gen.c: written by opgen 0.1.0 from unary.yaml; do not edit.
 * Manifest 83dacaff2f66b29f. */
#include "unary.gen.h"

#include <tenon/kernel.h>

/* --------------------------------------------------------------- math.exp@1 */

static const tn_dtype_var exp_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const exp_dtypes[] = {
    &exp_dtype_T,
};

static const tn_arg exp_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "data",
};

static const tn_arg *const exp_input_list[] = {
    &exp_input_data,
};

static const tn_arg exp_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = 0,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "data",
    .formula = "exp(data)",
};

static const tn_arg *const exp_output_list[] = {
    &exp_output_out,
};

static const tn_need exp_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_OUT, .index = 0},
};

static const tn_input_gradient exp_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 2,
    .inplace = 0,
    .needs = exp_grad_data_needs,
    .formula = "grad.out*out",
};

static const tn_input_gradient *const exp_grads[] = {
    &exp_grad_data,
};

static const tn_gradient exp_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 1,
    .inputs = exp_grads,
};

const tn_op math_exp_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .n_dtype_vars = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .name = "exp",
    .summary = "Exponential",
    .dtype_vars = exp_dtypes,
    .inputs = exp_input_list,
    .outputs = exp_output_list,
    .gradient = &exp_gradient,
};

/* unary.yaml:10: out = exp(data) */
static void exp_out_f32(const tn_kernel_block *block, const void *params) {
  (void)params;
  const float *data = block->in[0];
  float *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = expf(data[i]);
}

static void exp_out_f64(const tn_kernel_block *block, const void *params) {
  (void)params;
  const double *data = block->in[0];
  double *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = exp(data[i]);
}

static const tn_kernel_map exp_forward_maps[] = {
    {
        .f32 = exp_out_f32,
        .f64 = exp_out_f64,
        .out = 0,
        .n_in = 1,
        .in = {0},
    },
};

static int32_t exp_forward(const tn_frame *call) {
  return tn_kernel_map_run(call, exp_forward_maps, 1);
}

/* unary.yaml:11: grad.data = grad.out*out */
static void exp_grad_data_f32(const tn_kernel_block *block,
                              const void *params) {
  (void)params;
  const float *grad_out = block->in[0];
  const float *out = block->in[1];
  float *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) grad_data[i] = grad_out[i] * out[i];
}

static void exp_grad_data_f64(const tn_kernel_block *block,
                              const void *params) {
  (void)params;
  const double *grad_out = block->in[0];
  const double *out = block->in[1];
  double *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) grad_data[i] = grad_out[i] * out[i];
}

static const tn_kernel_map exp_backward_maps[] = {
    {
        .f32 = exp_grad_data_f32,
        .f64 = exp_grad_data_f64,
        .out = 0,
        .n_in = 2,
        .in = {0, 2},
    },
};

static int32_t exp_backward(const tn_frame *call) {
  return tn_kernel_map_run(call, exp_backward_maps, 1);
}

static const uint64_t math_exp_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel math_exp_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "math.exp@1",
    .id = "math.exp.cpu",
    .dtype_sets = math_exp_cpu_forward_kernel_dtypes,
    .compute = exp_forward,
};

static const uint64_t math_exp_cpu_backward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel math_exp_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "math.exp@1",
    .id = "math.exp.cpu",
    .dtype_sets = math_exp_cpu_backward_kernel_dtypes,
    .compute = exp_backward,
};

/* -------------------------------------------------------------- math.tanh@1 */

static const tn_dtype_var tanh_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const tanh_dtypes[] = {
    &tanh_dtype_T,
};

static const tn_arg tanh_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "data",
};

static const tn_arg *const tanh_input_list[] = {
    &tanh_input_data,
};

static const tn_arg tanh_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = 0,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "data",
    .formula = "tanh(data)",
};

static const tn_arg *const tanh_output_list[] = {
    &tanh_output_out,
};

static const tn_need tanh_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_OUT, .index = 0},
};

static const tn_input_gradient tanh_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 2,
    .inplace = 0,
    .needs = tanh_grad_data_needs,
    .formula = "grad.out*(1 - out^2)",
};

static const tn_input_gradient *const tanh_grads[] = {
    &tanh_grad_data,
};

static const tn_gradient tanh_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 1,
    .inputs = tanh_grads,
};

const tn_op math_tanh_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .n_dtype_vars = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .name = "tanh",
    .summary = "Hyperbolic tangent",
    .dtype_vars = tanh_dtypes,
    .inputs = tanh_input_list,
    .outputs = tanh_output_list,
    .gradient = &tanh_gradient,
};

/* unary.yaml:14: out = tanh(data) */
static void tanh_out_f32(const tn_kernel_block *block, const void *params) {
  (void)params;
  const float *data = block->in[0];
  float *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = tanhf(data[i]);
}

static void tanh_out_f64(const tn_kernel_block *block, const void *params) {
  (void)params;
  const double *data = block->in[0];
  double *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = tanh(data[i]);
}

static const tn_kernel_map tanh_forward_maps[] = {
    {
        .f32 = tanh_out_f32,
        .f64 = tanh_out_f64,
        .out = 0,
        .n_in = 1,
        .in = {0},
    },
};

static int32_t tanh_forward(const tn_frame *call) {
  return tn_kernel_map_run(call, tanh_forward_maps, 1);
}

/* unary.yaml:15: grad.data = grad.out*(1 - out^2) */
static void tanh_grad_data_f32(const tn_kernel_block *block,
                               const void *params) {
  (void)params;
  const float *grad_out = block->in[0];
  const float *out = block->in[1];
  float *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    grad_data[i] = grad_out[i] * (1.0f - out[i] * out[i]);
}

static void tanh_grad_data_f64(const tn_kernel_block *block,
                               const void *params) {
  (void)params;
  const double *grad_out = block->in[0];
  const double *out = block->in[1];
  double *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    grad_data[i] = grad_out[i] * (1.0 - out[i] * out[i]);
}

static const tn_kernel_map tanh_backward_maps[] = {
    {
        .f32 = tanh_grad_data_f32,
        .f64 = tanh_grad_data_f64,
        .out = 0,
        .n_in = 2,
        .in = {0, 2},
    },
};

static int32_t tanh_backward(const tn_frame *call) {
  return tn_kernel_map_run(call, tanh_backward_maps, 1);
}

static const uint64_t math_tanh_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel math_tanh_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "math.tanh@1",
    .id = "math.tanh.cpu",
    .dtype_sets = math_tanh_cpu_forward_kernel_dtypes,
    .compute = tanh_forward,
};

static const uint64_t math_tanh_cpu_backward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel math_tanh_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "math.tanh@1",
    .id = "math.tanh.cpu",
    .dtype_sets = math_tanh_cpu_backward_kernel_dtypes,
    .compute = tanh_backward,
};

/* -------------------------------------------------------------- math.sign@1 */

static const tn_dtype_var sign_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const sign_dtypes[] = {
    &sign_dtype_T,
};

static const tn_arg sign_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "data",
};

static const tn_arg *const sign_input_list[] = {
    &sign_input_data,
};

static const tn_arg sign_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = 0,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "data",
    .formula = "sign(data)",
};

static const tn_arg *const sign_output_list[] = {
    &sign_output_out,
};

static const tn_gradient sign_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_NONE,
    .why = "it is zero almost everywhere",
};

const tn_op math_sign_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .n_dtype_vars = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .name = "sign",
    .summary = "Sign of every element",
    .dtype_vars = sign_dtypes,
    .inputs = sign_input_list,
    .outputs = sign_output_list,
    .gradient = &sign_gradient,
};

/* unary.yaml:18: out = sign(data) */
static void sign_out_f32(const tn_kernel_block *block, const void *params) {
  (void)params;
  const float *data = block->in[0];
  float *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = tn_kernel_sign_f32(data[i]);
}

static void sign_out_f64(const tn_kernel_block *block, const void *params) {
  (void)params;
  const double *data = block->in[0];
  double *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = tn_kernel_sign_f64(data[i]);
}

static const tn_kernel_map sign_forward_maps[] = {
    {
        .f32 = sign_out_f32,
        .f64 = sign_out_f64,
        .out = 0,
        .n_in = 1,
        .in = {0},
    },
};

static int32_t sign_forward(const tn_frame *call) {
  return tn_kernel_map_run(call, sign_forward_maps, 1);
}

static const uint64_t math_sign_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel math_sign_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "math.sign@1",
    .id = "math.sign.cpu",
    .dtype_sets = math_sign_cpu_forward_kernel_dtypes,
    .compute = sign_forward,
};
