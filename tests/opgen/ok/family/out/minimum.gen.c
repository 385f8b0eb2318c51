/* minimum.gen.c: written by opgen 0.1.0 from minimum.yaml; do not edit.
 * Manifest 7e2e562fb2cadd38. */
#include "minimum.gen.h"

#include <tenon/kernel.h>

/* ----------------------------------------------------------- math.minimum@2 */

static const tn_dtype_var minimum_v2_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F32 | TN_BIT_I32,
    .name = "T",
};

static const tn_dtype_var *const minimum_v2_dtypes[] = {
    &minimum_v2_dtype_T,
};

static const tn_arg minimum_v2_input_a = {
    .struct_size = sizeof(tn_arg),
    .since = 3,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "a",
};

static const tn_arg minimum_v2_input_b = {
    .struct_size = sizeof(tn_arg),
    .since = 3,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "b",
    .shape_text = "a",
};

static const tn_arg *const minimum_v2_input_list[] = {
    &minimum_v2_input_a,
    &minimum_v2_input_b,
};

static const tn_arg minimum_v2_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 3,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = 1,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "a",
    .formula = "select(a < b, a, b)",
};

static const tn_arg *const minimum_v2_output_list[] = {
    &minimum_v2_output_out,
};

static const tn_gradient minimum_v2_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_NONE,
    .why = "integers have none",
};

const tn_op math_minimum_v2_op = {
    .struct_size = sizeof(tn_op),
    .interface = 2,
    .since = 3,
    .deprecated_since = 3,
    .n_dtype_vars = 1,
    .n_inputs = 2,
    .n_outputs = 1,
    .name = "minimum",
    .summary = "Smaller one of two elements",
    .use = "other.minimum",
    .dtype_vars = minimum_v2_dtypes,
    .inputs = minimum_v2_input_list,
    .outputs = minimum_v2_output_list,
    .gradient = &minimum_v2_gradient,
};

/* minimum.yaml:13: out = select(a < b, a, b) */
static void minimum_v2_out_f32(const tn_kernel_block *block,
                               const void *params) {
  (void)params;
  const float *a = block->in[0];
  const float *b = block->in[1];
  float *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i)
    out[i] = tn_kernel_select_f32(a[i] < b[i], a[i], b[i]);
}

static const tn_kernel_map minimum_v2_forward_maps[] = {
    {
        .f32 = minimum_v2_out_f32,
        .out = 0,
        .n_in = 2,
        .in = {0, 1},
    },
};

static int32_t minimum_v2_forward(const tn_frame *call) {
  return tn_kernel_map_run(call, minimum_v2_forward_maps, 1);
}

static const uint64_t math_minimum_v2_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F32,
};

const tn_kernel math_minimum_v2_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "math.minimum@2",
    .id = "math.minimum.v2.cpu",
    .dtype_sets = math_minimum_v2_cpu_forward_kernel_dtypes,
    .compute = minimum_v2_forward,
};

/* ------------------------------------------------------------- math.above@1 */

_Static_assert(sizeof(math_above_params) == 8, "size");
_Static_assert(offsetof(math_above_params, threshold) == 0, "threshold");

static const tn_field above_param_threshold = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_FLOAT,
    .flags = TN_FIELD_DYNAMIC | TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX,
    .offset = offsetof(math_above_params, threshold),
    .has_offset = TN_NONE,
    .since = 3,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .max_float = 1.0,
    .name = "threshold",
    .default_text = "0.5",
    .doc = "The limit",
    .alias = "t",
};

static const tn_field *const above_param_list[] = {
    &above_param_threshold,
};

static const tn_arg above_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 3,
    .dtype_var = TN_NONE,
    .dtype = TN_F64,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "data",
};

static const tn_arg *const above_input_list[] = {
    &above_input_data,
};

static const tn_arg above_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 3,
    .dtype_var = TN_NONE,
    .dtype = TN_F64,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "data",
    .formula = "data > threshold",
};

static const tn_arg *const above_output_list[] = {
    &above_output_out,
};

static const tn_need above_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
};

static const tn_input_gradient above_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 1,
    .inplace = 0,
    .needs = above_grad_data_needs,
    .formula = "0*grad.out",
};

static const tn_input_gradient *const above_grads[] = {
    &above_grad_data,
};

static const tn_gradient above_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 1,
    .inputs = above_grads,
};

const tn_op math_above_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 3,
    .params_size = sizeof(math_above_params),
    .n_params = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .name = "above",
    .summary = "Whether elements are above a threshold",
    .params = above_param_list,
    .inputs = above_input_list,
    .outputs = above_output_list,
    .gradient = &above_gradient,
};

/* minimum.yaml:24: out = data > threshold */
static void above_out_f64(const tn_kernel_block *block, const void *params) {
  const math_above_params *p = params;
  const double threshold = p->threshold;
  const double *data = block->in[0];
  double *out = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) out[i] = (double)(data[i] > threshold);
}

static const tn_kernel_map above_forward_maps[] = {
    {
        .f64 = above_out_f64,
        .out = 0,
        .n_in = 1,
        .in = {0},
    },
};

static int32_t above_forward(const tn_frame *call) {
  return tn_kernel_map_run(call, above_forward_maps, 1);
}

/* minimum.yaml:25: grad.data = 0*grad.out */
static void above_grad_data_f64(const tn_kernel_block *block,
                                const void *params) {
  (void)params;
  const double *grad_out = block->in[0];
  double *grad_data = block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) grad_data[i] = 0.0 * grad_out[i];
}

static const tn_kernel_map above_backward_maps[] = {
    {
        .f64 = above_grad_data_f64,
        .out = 0,
        .n_in = 1,
        .in = {0},
    },
};

static int32_t above_backward(const tn_frame *call) {
  return tn_kernel_map_run(call, above_backward_maps, 1);
}

const tn_kernel math_above_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
    .when = TN_NONE,
    .op = "math.above@1",
    .id = "math.above.cpu",
    .compute = above_forward,
};

const tn_kernel math_above_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags =
        TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC | TN_KERNEL_ELEMENTWISE,
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .when = TN_NONE,
    .op = "math.above@1",
    .id = "math.above.cpu",
    .compute = above_backward,
};
