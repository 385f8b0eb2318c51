/* join.gen.c: written by opgen 0.1.0 from join.yaml; do not edit.
 * Manifest bd2eee68e74b04f9. */
#include "join.gen.h"

/* ------------------------------------------------------------ shapes.join@1 */

_Static_assert(sizeof(shapes_join_params) == 8, "size");
_Static_assert(offsetof(shapes_join_params, axis) == 0, "axis");

static const tn_field join_param_axis = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INT,
    .flags = TN_FIELD_HAS_MIN,
    .offset = offsetof(shapes_join_params, axis),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "axis",
    .default_text = "0",
    .doc = "Where they are joined",
};

static const tn_field *const join_param_list[] = {
    &join_param_axis,
};

static const tn_dtype_var join_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F32 | TN_BIT_F64 | TN_BIT_I8 | TN_BIT_I16 | TN_BIT_I32 |
               TN_BIT_I64 | TN_BIT_U8 | TN_BIT_U16 | TN_BIT_U32 | TN_BIT_U64 |
               TN_BIT_BOOL,
    .name = "T",
};

static const tn_dtype_var *const join_dtypes[] = {
    &join_dtype_T,
};

static const tn_arg join_input_parts = {
    .struct_size = sizeof(tn_arg),
    .flags = TN_ARG_VARIADIC,
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "parts",
    .doc = "At least one",
};

static const tn_arg *const join_input_list[] = {
    &join_input_parts,
};

static const tn_arg join_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_HOOK,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "{c: shapes_join_infer}",
};

static const tn_arg *const join_output_list[] = {
    &join_output_out,
};

static const tn_need join_grad_parts_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
    {.what = TN_NEED_IN, .index = 0, .metadata = 1},
};

static const tn_input_gradient join_grad_parts = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 2,
    .inplace = TN_NONE,
    .needs = join_grad_parts_needs,
};

static const tn_input_gradient *const join_grads[] = {
    &join_grad_parts,
};

static const tn_gradient join_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 1,
    .inputs = join_grads,
};

const tn_op shapes_join_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .params_size = sizeof(shapes_join_params),
    .n_params = 1,
    .n_dtype_vars = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .name = "join",
    .summary = "Arrays one after the other along an axis",
    .params = join_param_list,
    .dtype_vars = join_dtypes,
    .inputs = join_input_list,
    .outputs = join_output_list,
    .gradient = &join_gradient,
    .infer = shapes_join_infer,
};

static const uint64_t shapes_join_cpu_forward_kernel_dtypes[] = {
    0,
};

const tn_kernel shapes_join_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "shapes.join@1",
    .id = "shapes.join.cpu",
    .dtype_sets = shapes_join_cpu_forward_kernel_dtypes,
    .compute = shapes_join,
};

static const uint64_t shapes_join_cpu_backward_kernel_dtypes[] = {
    0,
};

const tn_kernel shapes_join_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC,
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "shapes.join@1",
    .id = "shapes.join.cpu",
    .dtype_sets = shapes_join_cpu_backward_kernel_dtypes,
    .compute = shapes_join_backward,
};

/* ----------------------------------------------------------- shapes.split@1 */

_Static_assert(sizeof(shapes_split_params) == 8, "size");
_Static_assert(offsetof(shapes_split_params, parts) == 0, "parts");

static const tn_field split_param_parts = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INT,
    .flags = TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN,
    .offset = offsetof(shapes_split_params, parts),
    .has_offset = TN_NONE,
    .since = 2,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .min_int = 1,
    .name = "parts",
    .doc = "How many",
};

static const tn_field *const split_param_list[] = {
    &split_param_parts,
};

static const tn_dtype_var split_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var *const split_dtypes[] = {
    &split_dtype_T,
};

static const tn_node split_nodes[] = {
    {.op = TN_NODE_DIM},                 /* 0 */
    {.op = TN_NODE_PACK},                /* 1 */
    {.op = TN_NODE_DIM},                 /* 2 */
    {.op = TN_NODE_PARAM},               /* 3 */
    {.op = TN_NODE_DIV, .a = 2, .b = 3}, /* 4 */
    {.op = TN_NODE_PACK},                /* 5 */
    {.op = TN_NODE_PARAM},               /* 6 */
    {.op = TN_NODE_DIM},                 /* 7 */
    {.op = TN_NODE_PARAM},               /* 8 */
    {.op = TN_NODE_MOD, .a = 7, .b = 8}, /* 9 */
    {.op = TN_NODE_CONST},               /* 10 */
    {.op = TN_NODE_EQ, .a = 9, .b = 10}, /* 11 */
};

static const tn_term split_input_data_shape[] = {
    {.node = 0},
    {.node = 1, .spread = 1},
};

static const tn_arg split_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 2,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 2,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .terms = split_input_data_shape,
    .name = "data",
    .shape_text = "[N, S...]",
};

static const tn_arg *const split_input_list[] = {
    &split_input_data,
};

static const tn_term split_output_part_shape[] = {
    {.node = 4},
    {.node = 5, .spread = 1},
};

static const tn_arg split_output_part = {
    .struct_size = sizeof(tn_arg),
    .since = 2,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .shape_kind = TN_SHAPE_PATTERN,
    .n_terms = 2,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = 6,
    .terms = split_output_part_shape,
    .name = "part",
    .shape_text = "[N/parts, S...]",
};

static const tn_arg *const split_output_list[] = {
    &split_output_part,
};

static const char *const split_dims[] = {
    "N",
};

static const char *const split_packs[] = {
    "S",
};

static const tn_require split_require_0 = {
    .struct_size = sizeof(tn_require),
    .node = 11,
    .that = "N % parts == 0",
    .say = "the first dimension must divide into `parts`",
};

static const tn_require *const split_requires[] = {
    &split_require_0,
};

static const tn_need split_grad_data_needs[] = {
    {.what = TN_NEED_GRAD_OUT, .index = 0},
};

static const tn_input_gradient split_grad_data = {
    .struct_size = sizeof(tn_input_gradient),
    .n_needs = 1,
    .inplace = TN_NONE,
    .needs = split_grad_data_needs,
};

static const tn_input_gradient *const split_grads[] = {
    &split_grad_data,
};

static const tn_gradient split_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_KERNEL,
    .n_inputs = 1,
    .inputs = split_grads,
};

const tn_op shapes_split_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 2,
    .params_size = sizeof(shapes_split_params),
    .n_params = 1,
    .n_dtype_vars = 1,
    .n_inputs = 1,
    .n_outputs = 1,
    .n_dims = 1,
    .n_packs = 1,
    .n_nodes = 12,
    .n_requires = 1,
    .name = "split",
    .summary = "Equal parts of an array along its first axis",
    .params = split_param_list,
    .dtype_vars = split_dtypes,
    .inputs = split_input_list,
    .outputs = split_output_list,
    .dims = split_dims,
    .packs = split_packs,
    .nodes = split_nodes,
    .requirements = split_requires,
    .gradient = &split_gradient,
};

static const uint64_t shapes_split_cpu_forward_kernel_dtypes[] = {
    0,
};

const tn_kernel shapes_split_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "shapes.split@1",
    .id = "shapes.split.cpu",
    .dtype_sets = shapes_split_cpu_forward_kernel_dtypes,
    .compute = shapes_split,
};

static const uint64_t shapes_split_cpu_backward_kernel_dtypes[] = {
    0,
};

const tn_kernel shapes_split_cpu_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE,
    .n_dtype_sets = 1,
    .when = TN_NONE,
    .op = "shapes.split@1",
    .id = "shapes.split.cpu",
    .dtype_sets = shapes_split_cpu_backward_kernel_dtypes,
    .compute = shapes_split_backward,
};
