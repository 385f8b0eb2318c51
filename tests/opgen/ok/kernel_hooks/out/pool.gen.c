/* pool.gen.c: written by opgen 0.1.0 from pool.yaml; do not edit.
 * Manifest 26675be38e311b1a. */
#include "pool.gen.h"

/* ------------------------------------------------------------- hooks.pool@1 */

_Static_assert(sizeof(hooks_pool_params) == 80, "size");
_Static_assert(offsetof(hooks_pool_params, mode) == 0, "mode");
_Static_assert(offsetof(hooks_pool_params, window) == 8, "window");
_Static_assert(offsetof(hooks_pool_params, weights) == 24, "weights");
_Static_assert(offsetof(hooks_pool_params, overhang) == 40, "overhang");
_Static_assert(offsetof(hooks_pool_params, seed) == 48, "seed");
_Static_assert(offsetof(hooks_pool_params, label) == 64, "label");
_Static_assert(offsetof(hooks_pool_params, result) == 72, "result");

static const char *const pool_param_mode_values[] = {
    "max",
    "average",
    "l2_norm",
};

static const tn_field pool_param_mode = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_ENUM,
    .offset = offsetof(hooks_pool_params, mode),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .n_values = 3,
    .name = "mode",
    .default_text = "max",
    .doc = "What is computed of a window",
    .values = pool_param_mode_values,
};

static const tn_field pool_param_window = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INTS,
    .flags = TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN,
    .offset = offsetof(hooks_pool_params, window),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .min_rank = 2,
    .max_rank = 2,
    .min_int = 1,
    .name = "window",
    .doc = "Height and width",
};

static const tn_field pool_param_weights = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_FLOATS,
    .offset = offsetof(hooks_pool_params, weights),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = 1,
    .min_rank = 2,
    .max_rank = 2,
    .name = "weights",
    .default_text = "1",
};

static const tn_field pool_param_overhang = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_BOOL,
    .offset = offsetof(hooks_pool_params, overhang),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "overhang",
    .default_text = "false",
    .doc = "Whether windows may stick out",
};

static const tn_field pool_param_seed = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INT,
    .flags = TN_FIELD_OPTIONAL,
    .offset = offsetof(hooks_pool_params, seed),
    .has_offset = offsetof(hooks_pool_params, has_seed),
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "seed",
    .default_text = "None",
    .doc = "Draws the same subset every time",
};

static const tn_field pool_param_label = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_STRING,
    .offset = offsetof(hooks_pool_params, label),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "label",
    .default_text = "",
    .doc = "A \"name\" for logs: no */ and ?\?/ or \\ ends the comment",
};

static const tn_field pool_param_result = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_DTYPE,
    .offset = offsetof(hooks_pool_params, result),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "result",
    .default_text = "f32",
    .doc = "Type of the result",
};

static const tn_field *const pool_param_list[] = {
    &pool_param_mode,     /* 0 */
    &pool_param_window,   /* 1 */
    &pool_param_weights,  /* 2 */
    &pool_param_overhang, /* 3 */
    &pool_param_seed,     /* 4 */
    &pool_param_label,    /* 5 */
    &pool_param_result,   /* 6 */
};

static const tn_dtype_var pool_dtype_T = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_F32 | TN_BIT_F64,
    .name = "T",
};

static const tn_dtype_var pool_dtype_I = {
    .struct_size = sizeof(tn_dtype_var),
    .allowed = TN_BIT_I32 | TN_BIT_I64,
    .name = "I",
};

static const tn_dtype_var *const pool_dtypes[] = {
    &pool_dtype_T,
    &pool_dtype_I,
};

static const tn_arg pool_input_data = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = 0,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "data",
};

static const tn_arg pool_input_index = {
    .struct_size = sizeof(tn_arg),
    .role = TN_ROLE_LABEL,
    .since = 1,
    .dtype_var = 1,
    .dtype_param = TN_NONE,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "index",
};

static const tn_arg *const pool_input_list[] = {
    &pool_input_data,
    &pool_input_index,
};

static const tn_arg pool_output_out = {
    .struct_size = sizeof(tn_arg),
    .since = 1,
    .dtype_var = TN_NONE,
    .dtype_param = 6,
    .shape_kind = TN_SHAPE_HOOK,
    .inplace = TN_NONE,
    .init = TN_NONE,
    .count = TN_NONE,
    .name = "out",
    .shape_text = "{c: hooks_pool_infer}",
};

static const tn_arg *const pool_output_list[] = {
    &pool_output_out,
};

static const tn_gradient pool_gradient = {
    .struct_size = sizeof(tn_gradient),
    .kind = TN_GRADIENT_NONE,
    .why = "the subset is random",
};

const tn_op hooks_pool_op = {
    .struct_size = sizeof(tn_op),
    .interface = 1,
    .since = 1,
    .params_size = sizeof(hooks_pool_params),
    .n_params = 7,
    .n_dtype_vars = 2,
    .n_inputs = 2,
    .n_outputs = 1,
    .name = "pool",
    .summary = "Pooling of a random subset",
    .params = pool_param_list,
    .dtype_vars = pool_dtypes,
    .inputs = pool_input_list,
    .outputs = pool_output_list,
    .gradient = &pool_gradient,
    .infer = hooks_pool_infer,
};

_Static_assert(sizeof(hooks_pool_cpu_options) == 16, "size");
_Static_assert(offsetof(hooks_pool_cpu_options, threads) == 0, "threads");
_Static_assert(offsetof(hooks_pool_cpu_options, fast) == 8, "fast");

static const tn_field hooks_pool_cpu_option_threads = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_INT,
    .flags = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX,
    .offset = offsetof(hooks_pool_cpu_options, threads),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .min_int = 1,
    .max_int = 64,
    .name = "threads",
    .default_text = "4",
};

static const tn_field hooks_pool_cpu_option_fast = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_BOOL,
    .offset = offsetof(hooks_pool_cpu_options, fast),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .name = "fast",
    .default_text = "true",
    .doc = "Allows reordering",
};

static const tn_field *const hooks_pool_cpu_option_list[] = {
    &hooks_pool_cpu_option_threads,
    &hooks_pool_cpu_option_fast,
};

static void destroy_hooks_pool_cpu(void *prepared) {
  hooks_pool_state_destroy((hooks_pool_state *)prepared);
}

static int32_t prepare_hooks_pool_cpu(const tn_frame *call, tn_plan *plan) {
  for (uint32_t i = 0; i < call->n_out; ++i) {
    const int64_t n = tn_tensor_size(&call->out[i]);
    plan->random_blocks += (uint64_t)n;
  }
  hooks_pool_state *state = NULL;
  const int32_t code = hooks_pool_state_create(call, &state);
  if (code != TN_OK) return code;
  plan->prepared = state;
  plan->destroy = destroy_hooks_pool_cpu;
  return TN_OK;
}

static const uint64_t hooks_pool_cpu_forward_kernel_dtypes[] = {
    TN_BIT_F32,
    0,
};

static const uint32_t hooks_pool_cpu_forward_kernel_resources[] = {
    TN_RESOURCE_RANDOM,
};

const tn_kernel hooks_pool_cpu_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_ASYNC | TN_KERNEL_CAPTURABLE,
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CPU,
    .priority = 10,
    .writes = TN_WRITES_WRITE,
    .n_dtype_sets = 2,
    .n_resources = 1,
    .options_size = sizeof(hooks_pool_cpu_options),
    .n_options = 2,
    .when = TN_NONE,
    .op = "hooks.pool@1",
    .id = "hooks.pool.cpu",
    .dtype_sets = hooks_pool_cpu_forward_kernel_dtypes,
    .resources = hooks_pool_cpu_forward_kernel_resources,
    .options = hooks_pool_cpu_option_list,
    .prepare = prepare_hooks_pool_cpu,
    .compute = hooks_pool,
};
