/* quadratic.gen.c: written by opgen 0.1.0 from quadratic.yaml; do not edit.
 * Manifest cf74513c55946720. */
#include "quadratic.gen.h"

#include <tenon/kernel.h>

/* ----------------------------------------------------- elemwise.quadratic@1 */

_Static_assert(sizeof(elemwise_quadratic_params) == 24, "size");
_Static_assert(offsetof(elemwise_quadratic_params, a) == 0, "a");
_Static_assert(offsetof(elemwise_quadratic_params, b) == 8, "b");
_Static_assert(offsetof(elemwise_quadratic_params, c) == 16, "c");

static const tn_field quadratic_param_a = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_FLOAT,
    .offset = offsetof(elemwise_quadratic_params, a),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "a",
    .default_text = "0",
    .doc = "Coefficient of the quadratic term",
};

static const tn_field quadratic_param_b = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_FLOAT,
    .offset = offsetof(elemwise_quadratic_params, b),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "b",
    .default_text = "0",
    .doc = "Coefficient of the linear term",
};

static const tn_field quadratic_param_c = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_FLOAT,
    .offset = offsetof(elemwise_quadratic_params, c),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "c",
    .default_text = "0",
    .doc = "Constant term",
};

static const tn_field *const quadratic_param_list[] = {
    &quadratic_param_a,
    &quadratic_param_b,
    &quadratic_param_c,
};

static const tn_dtype_var quadratic_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const quadratic_dtypes[] = {
    &quadratic_dtype_T,
};

static const tn_arg quadratic_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "data",
    .doc = "Any shape, any strides",
};

static const tn_arg *const quadratic_input_list[] = {
    &quadratic_input_data,
};

static const tn_arg quadratic_output_out = {
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
    .formula = "a*data^2 + b*data + c",
};

static const tn_arg *const quadratic_output_list[] = {
    &quadratic_output_out,
};

static const tn_need quadratic_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_IN, .index = 0},
};

static const tn_input_gradient quadratic_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 2,
    .inplace = 0,
    .needs = quadratic_grad_data_needs,
    .formula = "grad.out*(2*a*data + b)",
};

static const tn_input_gradient *const quadratic_grads[] = {
    &quadratic_grad_data,
};

static const tn_gradient quadratic_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 1,
    .inputs = quadratic_grads,
};

const tn_op elemwise_quadratic_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .params_size = sizeof(elemwise_quadratic_params),
    .n_params = 3,
    .n_dtype_vars = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .name = "quadratic",
    .summary = "Quadratic function of every element",
    .doc = "Computes `a*data^2 + b*data + c`.\n",
    .params = quadratic_param_list,
    .dtype_vars = quadratic_dtypes,
    .inputs = quadratic_input_list,
    .outputs = quadratic_output_list,
    .gradient = &quadratic_gradient,
};

/* quadratic.yaml:19: out = a*data^2 + b*data + c */
static void quadratic_out_f32(const tn_kernel_block *block,
                              const void *params) {
  const elemwise_quadratic_params *p = params;
  const float a = (float)p->a;
  const float b = (float)p->b;
  const float c = (float)p->c;
  const float *data = block->in[0];
  float *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] = a * (data[i] * data[i]) + b * data[i] + c;
}

static void quadratic_out_f64(const tn_kernel_block *block,
                              const void *params) {
  const elemwise_quadratic_params *p = params;
  const double a = p->a;
  const double b = p->b;
  const double c = p->c;
  const double *data = block->in[0];
  double *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] = a * (data[i] * data[i]) + b * data[i] + c;
}

static const tn_kernel_map quadratic_forward_maps[] = {
    {
        .f32 = quadratic_out_f32,
        .f64 = quadratic_out_f64,
        .out = 0,
        .n_in = 1,
        .in = {0},
    },
};

static int32_t quadratic_forward(const tn_frame *call) {
  return tn_kernel_map_run(call, quadratic_forward_maps, 1);
}

/* quadratic.yaml:22: grad.data = grad.out*(2*a*data + b) */
static void quadratic_grad_data_f32(const tn_kernel_block *block,
                                    const void *params) {
  const elemwise_quadratic_params *p = params;
  const float a = (float)p->a;
  const float b = (float)p->b;
  const float *grad_out = block->in[0];
  const float *data = block->in[1];
  float *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    grad_data[i] = grad_out[i] * (2.0f * a * data[i] + b);
}

static void quadratic_grad_data_f64(const tn_kernel_block *block,
                                    const void *params) {
  const elemwise_quadratic_params *p = params;
  const double a = p->a;
  const double b = p->b;
  const double *grad_out = block->in[0];
  const double *data = block->in[1];
  double *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    grad_data[i] = grad_out[i] * (2.0 * a * data[i] + b);
}

static const tn_kernel_map quadratic_backward_maps[] = {
    {
        .f32 = quadratic_grad_data_f32,
        .f64 = quadratic_grad_data_f64,
        .out = 0,
        .n_in = 2,
        .in = {0, 1},
    },
};

static int32_t quadratic_backward(const tn_frame *call) {
  return tn_kernel_map_run(call, quadratic_backward_maps, 1);
}

static const uint64_t elemwise_quadratic_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel elemwise_quadratic_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "elemwise.quadratic@1",
    .id = "elemwise.quadratic.cpu",
    .dtype_sets = elemwise_quadratic_cpu_forward_kernel_dtypes,
    .compute = quadratic_forward,
};

static const uint64_t elemwise_quadratic_cpu_backward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel elemwise_quadratic_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "elemwise.quadratic@1",
    .id = "elemwise.quadratic.cpu",
    .dtype_sets = elemwise_quadratic_cpu_backward_kernel_dtypes,
    .compute = quadratic_backward,
};
