/* convolution.gen.c: written by opgen 0.1.0 from convolution.yaml; do not edit.
 * Manifest 05b4f6565a30ed28. */
#include "convolution.gen.h"

/* --------------------------------------------------------- nn.convolution@1 */

_Static_assert(sizeof(nn_convolution_params) == 80, "size");
_Static_assert(offsetof(nn_convolution_params, kernel) == 0, "kernel");
_Static_assert(offsetof(nn_convolution_params, stride) == 16, "stride");
_Static_assert(offsetof(nn_convolution_params, dilate) == 32, "dilate");
_Static_assert(offsetof(nn_convolution_params, pad) == 48, "pad");
_Static_assert(offsetof(nn_convolution_params, num_filter) == 64, "num_filter");
_Static_assert(offsetof(nn_convolution_params, num_group) == 72, "num_group");

static const tn_field nn_convolution_param_kernel = {
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

static const tn_field nn_convolution_param_stride = {
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

static const tn_field nn_convolution_param_dilate = {
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

static const tn_field nn_convolution_param_pad = {
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

static const tn_field nn_convolution_param_num_filter = {
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

static const tn_field nn_convolution_param_num_group = {
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

static const tn_field *const nn_convolution_param_list[] = {
    &nn_convolution_param_kernel,     /* 0 */
    &nn_convolution_param_stride,     /* 1 */
    &nn_convolution_param_dilate,     /* 2 */
    &nn_convolution_param_pad,        /* 3 */
    &nn_convolution_param_num_filter, /* 4 */
    &nn_convolution_param_num_group,  /* 5 */
};

const tn_target cudnn_nn_convolution_target = {
    .struct_size = sizeof(tn_target),
    .params_size = sizeof(nn_convolution_params),
    .n_params = 6,
    .op = "nn.convolution@1",
    .params = nn_convolution_param_list,
};

_Static_assert(sizeof(cudnn_convolution_cuda_options) == 4, "size");
_Static_assert(offsetof(cudnn_convolution_cuda_options, tune) == 0, "tune");

static const char *const cudnn_convolution_cuda_option_tune_values[] = {
    "off",
    "limited",
    "fastest",
};

static const tn_field cudnn_convolution_cuda_option_tune = {
    .struct_size = sizeof(tn_field),
    .type = TN_FIELD_ENUM,
    .offset = offsetof(cudnn_convolution_cuda_options, tune),
    .has_offset = TN_NONE,
    .since = 1,
    .rank_of = TN_NONE,
    .max_rank = TN_NONE,
    .n_values = 3,
    .name = "tune",
    .default_text = "limited",
    .doc = "Algorithm search",
    .values = cudnn_convolution_cuda_option_tune_values,
};

static const tn_field *const cudnn_convolution_cuda_option_list[] = {
    &cudnn_convolution_cuda_option_tune,
};

static int32_t workspace_cudnn_convolution_cuda(const tn_frame *call,
                                                tn_plan *plan) {
  const uint64_t max = UINT64_C(1073741824);
  uint64_t bytes = 0;
  const int32_t code = cudnn_convolution_workspace(call, &bytes);
  if (code != TN_OK) return code;
  if (bytes > max) {
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "%llu bytes of workspace; the manifest allows %llu",
                   (unsigned long long)bytes, (unsigned long long)max);
  }
  plan->n_ws = 1;
  plan->ws[0].bytes = bytes;
  plan->ws[0].align = 64;
  return TN_OK;
}

static void destroy_cudnn_convolution_cuda(void *prepared) {
  cudnn_convolution_state_destroy((cudnn_convolution_state *)prepared);
}

static int32_t prepare_cudnn_convolution_cuda(const tn_frame *call,
                                              tn_plan *plan) {
  cudnn_convolution_state *state = NULL;
  int32_t code = cudnn_convolution_state_create(call, &state);
  if (code != TN_OK) return code;
  tn_frame with_state = *call;
  with_state.struct_size = sizeof with_state;
  with_state.prepared = state;
  code = workspace_cudnn_convolution_cuda(&with_state, plan);
  if (code != TN_OK) {
    cudnn_convolution_state_destroy(state);
    return code;
  }
  plan->prepared = state;
  plan->destroy = destroy_cudnn_convolution_cuda;
  return TN_OK;
}

static const uint64_t cudnn_convolution_cuda_forward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

static const tn_node cudnn_convolution_cuda_forward_kernel_nodes[] = {
    {.op = TN_NODE_PARAM},
    {.op = TN_NODE_RANK},
    {.op = TN_NODE_CONST, .value = 2},
    {.op = TN_NODE_GE, .a = 1, .b = 2},
};

const tn_kernel cudnn_convolution_cuda_forward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_FORWARD,
    .device_type = TN_DEVICE_CUDA,
    .priority = 100,
    .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .options_size = sizeof(cudnn_convolution_cuda_options),
    .n_options = 1,
    .n_nodes = 4,
    .when = 3,
    .op = "nn.convolution@1",
    .id = "cudnn.convolution.cuda",
    .requirement = "cudnn >=8.0",
    .when_text = "rank(kernel) >= 2",
    .dtype_sets = cudnn_convolution_cuda_forward_kernel_dtypes,
    .options = cudnn_convolution_cuda_option_list,
    .nodes = cudnn_convolution_cuda_forward_kernel_nodes,
    .prepare = prepare_cudnn_convolution_cuda,
    .compute = cudnn_convolution,
};

static const uint64_t cudnn_convolution_cuda_backward_kernel_dtypes[] = {
    TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64,
};

static const tn_node cudnn_convolution_cuda_backward_kernel_nodes[] = {
    {.op = TN_NODE_PARAM},
    {.op = TN_NODE_RANK},
    {.op = TN_NODE_CONST, .value = 2},
    {.op = TN_NODE_GE, .a = 1, .b = 2},
};

const tn_kernel cudnn_convolution_cuda_backward_kernel = {
    .struct_size = sizeof(tn_kernel),
    .pass = TN_PASS_BACKWARD,
    .device_type = TN_DEVICE_CUDA,
    .priority = 100,
    .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
    .n_dtype_sets = 1,
    .options_size = sizeof(cudnn_convolution_cuda_options),
    .n_options = 1,
    .n_nodes = 4,
    .when = 3,
    .op = "nn.convolution@1",
    .id = "cudnn.convolution.cuda",
    .requirement = "cudnn >=8.0",
    .when_text = "rank(kernel) >= 2",
    .dtype_sets = cudnn_convolution_cuda_backward_kernel_dtypes,
    .options = cudnn_convolution_cuda_option_list,
    .nodes = cudnn_convolution_cuda_backward_kernel_nodes,
    .prepare = prepare_cudnn_convolution_cuda,
    .compute = cudnn_convolution_backward,
};
