/* convolution.gen.c: written by opgen 0.1.0 from convolution.yaml; do not edit.
 * Manifest c60e3677e98b619a. */
#include "convolution.gen.h"

/* --------------------------------------------------------- nn.convolution@1 */

_Static_assert(sizeof(nn_convolution_params) == 80, "size");
_Static_assert(offsetof(nn_convolution_params, kernel) == 0, "kernel");
_Static_assert(offsetof(nn_convolution_params, stride) == 16, "stride");
_Static_assert(offsetof(nn_convolution_params, dilate) == 32, "dilate");
_Static_assert(offsetof(nn_convolution_params, pad) == 48, "pad");
_Static_assert(offsetof(nn_convolution_params, num_filter) == 64, "num_filter");
_Static_assert(offsetof(nn_convolution_params, num_group) == 72, "num_group");

static const tn_field convolution_param_kernel = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INTS,
    .flags = TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN,
    .offset = offsetof(nn_convolution_params, kernel),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .min_rank = 1,
    .max_rank = 3,
    .min_int = 1,
    .name = "kernel",
    .doc = "Window size",
};

static const tn_field convolution_param_stride = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INTS,
    .flags = TN_FIELD_HAS_MIN,
    .offset = offsetof(nn_convolution_params, stride),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = 0,
    .min_rank = 1,
    .max_rank = 3,
    .min_int = 1,
    .name = "stride",
    .default_text = "1",
    .doc = "Step between windows",
};

static const tn_field convolution_param_dilate = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INTS,
    .flags = TN_FIELD_HAS_MIN,
    .offset = offsetof(nn_convolution_params, dilate),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = 0,
    .min_rank = 1,
    .max_rank = 3,
    .min_int = 1,
    .name = "dilate",
    .default_text = "1",
    .doc = "Step inside a window",
};

static const tn_field convolution_param_pad = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INTS,
    .flags = TN_FIELD_HAS_MIN,
    .offset = offsetof(nn_convolution_params, pad),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = 0,
    .min_rank = 1,
    .max_rank = 3,
    .name = "pad",
    .default_text = "0",
    .doc = "Zeros on both sides",
};

static const tn_field convolution_param_num_filter = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INT,
    .flags = TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN,
    .offset = offsetof(nn_convolution_params, num_filter),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .min_int = 1,
    .name = "num_filter",
    .doc = "Output channels",
};

static const tn_field convolution_param_num_group = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INT,
    .flags = TN_FIELD_HAS_MIN,
    .offset = offsetof(nn_convolution_params, num_group),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .min_int = 1,
    .name = "num_group",
    .default_text = "1",
    .doc = "Independent channel groups",
};

static const tn_field *const convolution_param_list[] = {
    &convolution_param_kernel,     /* 0 */
    &convolution_param_stride,     /* 1 */
    &convolution_param_dilate,     /* 2 */
    &convolution_param_pad,        /* 3 */
    &convolution_param_num_filter, /* 4 */
    &convolution_param_num_group,  /* 5 */
};

static const tn_dtype_var convolution_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const convolution_dtypes[] = {
    &convolution_dtype_T,
};

static const tn_node convolution_nodes[] = {
    {.op = TN_NODE_DIM},                   /* 0 */
    {.op = TN_NODE_DIM, .a = 1},           /* 1 */
    {.op = TN_NODE_PACK},                  /* 2 */
    {.op = TN_NODE_PARAM, .a = 4},         /* 3 */
    {.op = TN_NODE_DIM, .a = 1},           /* 4 */
    {.op = TN_NODE_PARAM, .a = 5},         /* 5 */
    {.op = TN_NODE_DIV, .a = 4, .b = 5},   /* 6 */
    {.op = TN_NODE_PARAM},                 /* 7 */
    {.op = TN_NODE_PARAM, .a = 4},         /* 8 */
    {.op = TN_NODE_DIM},                   /* 9 */
    {.op = TN_NODE_PARAM, .a = 4},         /* 10 */
    {.op = TN_NODE_PACK},                  /* 11 */
    {.op = TN_NODE_CONST, .value = 2},     /* 12 */
    {.op = TN_NODE_PARAM, .a = 3},         /* 13 */
    {.op = TN_NODE_MUL, .a = 12, .b = 13}, /* 14 */
    {.op = TN_NODE_ADD, .a = 11, .b = 14}, /* 15 */
    {.op = TN_NODE_PARAM, .a = 2},         /* 16 */
    {.op = TN_NODE_PARAM},                 /* 17 */
    {.op = TN_NODE_CONST, .value = 1},     /* 18 */
    {.op = TN_NODE_SUB, .a = 17, .b = 18}, /* 19 */
    {.op = TN_NODE_MUL, .a = 16, .b = 19}, /* 20 */
    {.op = TN_NODE_SUB, .a = 15, .b = 20}, /* 21 */
    {.op = TN_NODE_CONST, .value = 1},     /* 22 */
    {.op = TN_NODE_SUB, .a = 21, .b = 22}, /* 23 */
    {.op = TN_NODE_PARAM, .a = 1},         /* 24 */
    {.op = TN_NODE_DIV, .a = 23, .b = 24}, /* 25 */
    {.op = TN_NODE_CONST, .value = 1},     /* 26 */
    {.op = TN_NODE_ADD, .a = 25, .b = 26}, /* 27 */
    {.op = TN_NODE_DIM, .a = 1},           /* 28 */
    {.op = TN_NODE_PARAM, .a = 5},         /* 29 */
    {.op = TN_NODE_MOD, .a = 28, .b = 29}, /* 30 */
    {.op = TN_NODE_CONST},                 /* 31 */
    {.op = TN_NODE_EQ, .a = 30, .b = 31},  /* 32 */
    {.op = TN_NODE_PARAM, .a = 4},         /* 33 */
    {.op = TN_NODE_PARAM, .a = 5},         /* 34 */
    {.op = TN_NODE_MOD, .a = 33, .b = 34}, /* 35 */
    {.op = TN_NODE_CONST},                 /* 36 */
    {.op = TN_NODE_EQ, .a = 35, .b = 36},  /* 37 */
};

static const tn_term convolution_input_data_shape[] = {
    {.node = 0},
    {.node = 1},
    {.node = 2, .spread = 1},
};

static const tn_arg convolution_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 3,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = convolution_input_data_shape,
    .name = "data",
    .shape_text = "[N, C, S...]",
};

static const tn_term convolution_input_weight_shape[] = {
    {.node = 3},
    {.node = 6},
    {.node = 7, .spread = 1},
};

static const tn_arg convolution_input_weight = {
    .struct_size = sizeof(tn_arg),
    .role = TN_ROLE_WEIGHT,
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 3,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = convolution_input_weight_shape,
    .name = "weight",
    .shape_text = "[num_filter, C/num_group, kernel...]",
};

static const tn_term convolution_input_bias_shape[] = {
    {.node = 8},
};

static const tn_arg convolution_input_bias = {
    .struct_size = sizeof(tn_arg),
    .flags = TN_ARG_OPTIONAL,
    .role = TN_ROLE_WEIGHT,
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 1,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = convolution_input_bias_shape,
    .name = "bias",
    .shape_text = "[num_filter]",
};

static const tn_arg *const convolution_input_list[] = {
    &convolution_input_data,
    &convolution_input_weight,
    &convolution_input_bias,
};

static const tn_term convolution_output_out_shape[] = {
    {.node = 9},
    {.node = 10},
    {.node = 27, .spread = 1},
};

static const tn_arg convolution_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 3,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = convolution_output_out_shape,
    .name = "out",
    .shape_text =
        "[N, num_filter, ((S + 2*pad - dilate*(kernel - 1) - 1)/stride + "
        "1)...]",
};

static const tn_arg *const convolution_output_list[] = {
    &convolution_output_out,
};

static const char *const convolution_dims[] = {
    "N",
    "C",
};

static const char *const convolution_packs[] = {
    "S",
};

static const tn_require convolution_require_0 = {
    .struct_size = sizeof(tn_require),
    .node = 32,
    .that = "C % num_group == 0",
    .say = "channels of `data` must divide into `num_group`",
};

static const tn_require convolution_require_1 = {
    .struct_size = sizeof(tn_require),
    .node = 37,
    .that = "num_filter % num_group == 0",
    .say = "`num_filter` must divide into `num_group`",
};

static const tn_require *const convolution_requires[] = {
    &convolution_require_0,
    &convolution_require_1,
};

static const tn_need convolution_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_IN, .index = 1},
};

static const tn_input_gradient convolution_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 2,
    .inplace = TN_NONE,
    .needs = convolution_grad_data_needs,
};

static const tn_need convolution_grad_weight_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_IN, .index = 0},
};

static const tn_input_gradient convolution_grad_weight = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 2,
    .inplace = TN_NONE,
    .needs = convolution_grad_weight_needs,
};

static const tn_need convolution_grad_bias_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
};

static const tn_input_gradient convolution_grad_bias = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 1,
    .inplace = TN_NONE,
    .needs = convolution_grad_bias_needs,
};

static const tn_input_gradient *const convolution_grads[] = {
    &convolution_grad_data,
    &convolution_grad_weight,
    &convolution_grad_bias,
};

static const tn_gradient convolution_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 3,
    .inputs = convolution_grads,
};

const tn_op nn_convolution_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .params_size = sizeof(nn_convolution_params),
    .n_params = 6,
    .n_dtype_vars = 1,
    .n_inputs = 3,
    .n_outputs = 1,
    .n_dims = 2,
    .n_packs = 1,
    .n_nodes = 38,
    .n_requires = 2,
    .name = "convolution",
    .summary = "N-D convolution with groups, strides and dilation",
    .doc =
        "`out[n,k] = bias[k] + sum over c of data[n,c] * weight[k,c]` on each "
        "window.\n",
    .params = convolution_param_list,
    .dtype_vars = convolution_dtypes,
    .inputs = convolution_input_list,
    .outputs = convolution_output_list,
    .dims = convolution_dims,
    .packs = convolution_packs,
    .nodes = convolution_nodes,
    .requirements = convolution_requires,
    .gradient = &convolution_gradient,
};

static int32_t workspace_nn_convolution_cpu(const tn_frame *call,
                                            tn_plan *plan) {
  uint64_t bytes = 0;
  const int32_t code = nn_convolution_cpu_workspace(call, &bytes);
  if (code != TN_OK) return code;
  plan->n_ws = 1;
  plan->ws[0].bytes = bytes;
  plan->ws[0].align = 64;
  return TN_OK;
}

static int32_t prepare_nn_convolution_cpu(const tn_frame *call, tn_plan *plan) {
  return workspace_nn_convolution_cpu(call, plan);
}

static const uint64_t nn_convolution_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel nn_convolution_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "nn.convolution@1",
    .id = "nn.convolution.cpu",
    .dtype_sets = nn_convolution_cpu_forward_kernel_dtypes,
    .prepare = prepare_nn_convolution_cpu,
    .compute = nn_convolution_cpu,
};

static const uint64_t nn_convolution_cpu_backward_kernel_dtypes[] = {
    TN_BIT_F32 | TN_BIT_F64,
};

const tn_kernel nn_convolution_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "nn.convolution@1",
    .id = "nn.convolution.cpu",
    .dtype_sets = nn_convolution_cpu_backward_kernel_dtypes,
    .prepare = prepare_nn_convolution_cpu,
    .compute = nn_convolution_cpu_backward,
};
