/* norm.gen.c: written by opgen 0.1.0 from norm.yaml; do not edit.
 * Manifest 45c67796d922b13a. */
#include "norm.gen.h"

/* ------------------------------------------------------------ shapes.norm@1 */

_Static_assert(sizeof(shapes_norm_params) == 8, "size");
_Static_assert(offsetof(shapes_norm_params, eps) == 0, "eps");

static const tn_field norm_param_eps = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_FLOAT,
    .flags = TN_FIELD_HAS_MIN,
    .offset = offsetof(shapes_norm_params, eps),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "eps",
    .default_text = "1.0e-5",
    .doc = "Keeps the root away from zero",
};

static const tn_field *const norm_param_list[] = {
    &norm_param_eps,
};

static const tn_dtype_var norm_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const norm_dtypes[] = {
    &norm_dtype_T,
};

static const tn_node norm_nodes[] = {
    {.op = TN_NODE_DIM},         /* 0 */
    {.op = TN_NODE_DIM, .a = 1}, /* 1 */
    {.op = TN_NODE_PACK},        /* 2 */
    {.op = TN_NODE_DIM, .a = 1}, /* 3 */
    {.op = TN_NODE_DIM, .a = 1}, /* 4 */
    {.op = TN_NODE_DIM, .a = 1}, /* 5 */
    {.op = TN_NODE_DIM, .a = 1}, /* 6 */
    {.op = TN_NODE_DIM, .a = 1}, /* 7 */
};

static const tn_term norm_input_data_shape[] = {
    {.node = 0},
    {.node = 1},
    {.node = 2, .spread = 1},
};

static const tn_arg norm_input_data = {
    .struct_size = sizeof(tn_arg),
    .flags = TN_ARG_CONTIGUOUS,
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 3,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = norm_input_data_shape,
    .name = "data",
    .shape_text = "[N, C, S...]",
};

static const tn_term norm_input_gamma_shape[] = {
    {.node = 3},
};

static const tn_arg norm_input_gamma = {
    .struct_size = sizeof(tn_arg),
    .role = TN_ROLE_WEIGHT,
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 1,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = norm_input_gamma_shape,
    .name = "gamma",
    .shape_text = "[C]",
};

static const tn_term norm_input_beta_shape[] = {
    {.node = 4},
};

static const tn_arg norm_input_beta = {
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
    .terms = norm_input_beta_shape,
    .name = "beta",
    .shape_text = "[C]",
};

static const tn_arg *const norm_input_list[] = {
    &norm_input_data,
    &norm_input_gamma,
    &norm_input_beta,
};

static const tn_arg norm_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_SAME,
    .shape_index = 0,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "data",
};

static const tn_term norm_output_mean_shape[] = {
    {.node = 5},
};

static const tn_arg norm_output_mean = {
    .struct_size = sizeof(tn_arg),
    .flags = TN_ARG_HIDDEN,
    .since = 1,
    .dtype_var = TN_NONE,
    .dtype = TN_F64,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 1,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = norm_output_mean_shape,
    .name = "mean",
    .shape_text = "[C]",
};

static const tn_arg *const norm_output_list[] = {
    &norm_output_out,
    &norm_output_mean,
};

static const tn_term norm_aux_running_mean_shape[] = {
    {.node = 6},
};

static const tn_arg norm_aux_running_mean = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 1,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = norm_aux_running_mean_shape,
    .name = "running_mean",
    .doc = "Of all batches so far",
    .shape_text = "[C]",
    .initial = "0",
};

static const tn_term norm_aux_running_var_shape[] = {
    {.node = 7},
};

static const tn_arg norm_aux_running_var = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 1,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = norm_aux_running_var_shape,
    .name = "running_var",
    .shape_text = "[C]",
    .initial = "1",
};

static const tn_arg *const norm_aux_list[] = {
    &norm_aux_running_mean,
    &norm_aux_running_var,
};

static const char *const norm_dims[] = {
    "N",
    "C",
};

static const char *const norm_packs[] = {
    "S",
};

static const tn_need norm_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_IN, .index = 0},
    {.what = TN_NEED_IN, .index = 1},
    {.what = TN_NEED_OUT, .index = 1},
};

static const tn_input_gradient norm_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 4,
    .inplace = TN_NONE,
    .needs = norm_grad_data_needs,
};

static const tn_need norm_grad_gamma_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_IN, .index = 0},
    {.what = TN_NEED_OUT, .index = 1},
};

static const tn_input_gradient norm_grad_gamma = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 3,
    .inplace = TN_NONE,
    .needs = norm_grad_gamma_needs,
};

static const tn_input_gradient norm_grad_beta = {
    .struct_size = sizeof(tn_input_gradient),
    .stop = 1,
    .inplace = TN_NONE,
};

static const tn_input_gradient *const norm_grads[] = {
    &norm_grad_data,
    &norm_grad_gamma,
    &norm_grad_beta,
};

static const tn_gradient norm_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 3,
    .inputs = norm_grads,
};

const tn_op shapes_norm_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .params_size = sizeof(shapes_norm_params),
    .n_params = 1,
    .n_dtype_vars = 1,
    .n_inputs = 3,
    .n_outputs = 2,
    .n_aux = 2,
    .n_dims = 2,
    .n_packs = 1,
    .n_nodes = 8,
    .name = "norm",
    .summary = "Normalisation over a batch",
    .doc =
        "Subtracts the mean and divides by the standard deviation of every "
        "channel.\n"
        "\n"
        "With `beta` the result is moved, \"shifted\" as papers say; what?\?! "
        "becomes of a\n"
        "line that is longer than a page of eighty columns is broken at a "
        "blank somewhere.\n",
    .params = norm_param_list,
    .dtype_vars = norm_dtypes,
    .inputs = norm_input_list,
    .outputs = norm_output_list,
    .aux = norm_aux_list,
    .dims = norm_dims,
    .packs = norm_packs,
    .nodes = norm_nodes,
    .gradient = &norm_gradient,
};

static const uint64_t shapes_norm_cpu_forward_kernel_dtypes[] = {
    0,
};

const tn_kernel shapes_norm_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "shapes.norm@1",
    .id = "shapes.norm.cpu",
    .dtype_sets = shapes_norm_cpu_forward_kernel_dtypes,
    .compute = shapes_norm,
};

static const uint64_t shapes_norm_cpu_backward_kernel_dtypes[] = {
    0,
};

const tn_kernel shapes_norm_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "shapes.norm@1",
    .id = "shapes.norm.cpu",
    .dtype_sets = shapes_norm_cpu_backward_kernel_dtypes,
    .compute = shapes_norm_backward,
};
