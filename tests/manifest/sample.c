/* SPDX-License-Identifier: Apache-2.0
 * sample.c: the tables of sample.h.
 */
#include "sample.h"

static int32_t compute_nothing(const tn_frame *call) {
  (void)call;
  return TN_OK;
}

/* struct { tn_ints kernel, stride; int32_t mode, has_bias; double bias; } */
static void init_fields(sample *s) {
  const tn_field base = {.struct_size = sizeof base,
                         .has_offset = TN_NONE,
                         .since = 1,
                         .rank_of = TN_NONE,
                         .max_rank = TN_NONE};
  s->kernel_size = s->stride = s->mode = s->bias = base;
  s->kernel_size.type = s->stride.type = TN_FIELD_INTS;
  s->kernel_size.flags = TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN;
  s->kernel_size.name = "kernel";
  s->kernel_size.min_int = 1;
  s->kernel_size.doc = "Size of the window";
  s->kernel_size.min_rank = 1;
  s->kernel_size.max_rank = 3;
  s->stride.name = "stride";
  s->stride.offset = 16;
  s->stride.rank_of = 0;
  s->stride.default_text = "1";
  s->stride.min_int = INT64_MIN;
  s->stride.max_int = INT64_MAX;
  s->mode.type = TN_FIELD_ENUM;
  s->mode.name = "mode";
  s->mode.offset = 32;
  s->mode.default_text = "valid";
  s->mode.n_values = 2;
  s->mode.values = s->modes;
  s->bias.type = TN_FIELD_FLOAT;
  s->bias.flags = TN_FIELD_OPTIONAL;
  s->bias.name = "bias";
  s->bias.offset = 40;
  s->bias.has_offset = 36;
  s->bias.default_text = "None";
  s->bias.min_float = -0.5;
  s->bias.alias = "offset_value";
}

static void init_args(sample *s) {
  const tn_arg base = {.struct_size = sizeof base,
                       .dtype_var = 0,
                       .dtype_param = TN_NONE,
                       .inplace = TN_NONE,
                       .init = TN_NONE,
                       .count = TN_NONE};
  s->data = s->weight = s->out = s->mean = base;
  s->data.name = "data";
  s->data.shape_kind = TN_SHAPE_PATTERN;
  s->data.n_terms = 3;
  s->data.terms = s->data_terms;
  s->data.shape_text = "[N, C, S...]";
  s->weight.name = "weight";
  s->weight.flags = TN_ARG_OPTIONAL;
  s->weight.role = TN_ROLE_WEIGHT;
  s->out.name = "out";
  s->out.shape_kind = TN_SHAPE_SAME;
  s->out.shape_list = TN_OPERAND_IN;
  s->out.inplace = 0;
  s->mean.name = "mean";
  s->mean.dtype_var = TN_NONE;
  s->mean.dtype = TN_F32;
  s->mean.initial = "0";
}

static void init_programs(sample *s) {
  s->nodes[0] = (tn_node){TN_NODE_DIM, 0, 0, 0, 0};
  s->nodes[1] = (tn_node){TN_NODE_DIM, 1, 0, 0, 0};
  s->nodes[2] = (tn_node){TN_NODE_PACK, 0, 0, 0, 0};
  s->nodes[3] = (tn_node){TN_NODE_CONST, 0, 0, 0, -7};
  s->nodes[4] = (tn_node){TN_NODE_GT, 1, 3, 0, 0};
  s->when[0] = (tn_node){TN_NODE_OPERAND_RANK, TN_OPERAND_IN, 1, 0, 0};
  s->when[1] = (tn_node){TN_NODE_NEG, 0, 0, 0, 0};
  for (int32_t i = 0; i < 3; ++i)
    s->data_terms[i] = (tn_term){i, i == 2 ? 1 : 0};
  s->require = (tn_require){sizeof s->require, 4, "C > -7", "C is too small"};
}

static void init_gradient(sample *s) {
  s->needs[0] = (tn_need){TN_NEED_GRAD_OUT, 0, 0, 0};
  s->needs[1] = (tn_need){TN_NEED_IN, 1, 1, 0};
  s->data_gradient = (tn_input_gradient){
      .struct_size = sizeof s->data_gradient,
      .n_needs = 2,
      .inplace = TN_NONE,
      .needs = s->needs,
  };
  s->weight_gradient = s->data_gradient;
  s->weight_gradient.stop = 1;
  s->weight_gradient.n_needs = 0;
  s->weight_gradient.needs = NULL;
  s->gradients[0] = &s->data_gradient;
  s->gradients[1] = &s->weight_gradient;
  s->gradient = (tn_gradient){.struct_size = sizeof s->gradient,
                              .kind = TN_GRADIENT_KERNEL,
                              .n_inputs = 2,
                              .inputs = s->gradients};
}

static void init_op(sample *s) {
  s->type = (tn_dtype_var){sizeof s->type, 0, TN_BIT_F32 | TN_BIT_F64, "T"};
  s->op = (tn_op){.struct_size = sizeof s->op,
                  .interface = 2,
                  .since = 1,
                  .params_size = 48,
                  .n_params = 4,
                  .n_dtype_vars = 1,
                  .n_inputs = 2,
                  .n_outputs = 1,
                  .n_aux = 1,
                  .n_dims = 2,
                  .n_packs = 1,
                  .n_nodes = 5,
                  .n_requires = 1,
                  .name = "conv",
                  .summary = "Convolution",
                  .replaces = "nn.convolution",
                  .params = s->params,
                  .dtype_vars = s->types,
                  .inputs = s->inputs,
                  .outputs = s->outputs,
                  .aux = s->aux,
                  .dims = s->dims,
                  .packs = s->packs,
                  .nodes = s->nodes,
                  .requirements = s->requirements,
                  .gradient = &s->gradient,
                  .family = "convolution"};
}

static void init_kernels(sample *s) {
  s->kernel = (tn_kernel){.struct_size = sizeof s->kernel,
                          .flags = TN_KERNEL_REENTRANT,
                          .device_type = TN_DEVICE_CPU,
                          .priority = -3,
                          .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
                          .n_dtype_sets = 1,
                          .n_resources = 1,
                          .n_options = 0,
                          .n_nodes = 2,
                          .when = 1,
                          .op = "acme.conv@2",
                          .id = "acme.conv.cpu",
                          .dtype_sets = s->dtype_sets,
                          .resources = s->resources,
                          .options = s->options,
                          .nodes = s->when,
                          .compute = compute_nothing};
  s->backward = s->kernel;
  s->backward.pass = TN_PASS_BACKWARD;
  s->target = (tn_target){.struct_size = sizeof s->target,
                          .params_size = 48,
                          .n_params = 4,
                          .op = "other.conv@1",
                          .params = s->params};
}

void sample_init(sample *s) {
  *s = (sample){.modes = {"valid", "full"},
                .dims = {"N", "C"},
                .packs = {"S"},
                .dtype_sets = {TN_BIT_F32},
                .resources = {TN_RESOURCE_RANDOM}};
  init_fields(s);
  init_args(s);
  init_programs(s);
  init_gradient(s);
  init_op(s);
  init_kernels(s);
  s->params[0] = &s->kernel_size, s->params[1] = &s->stride;
  s->params[2] = &s->mode, s->params[3] = &s->bias;
  s->inputs[0] = &s->data, s->inputs[1] = &s->weight;
  s->outputs[0] = &s->out, s->aux[0] = &s->mean;
  s->types[0] = &s->type, s->requirements[0] = &s->require;
  s->operators[0] = &s->op, s->targets[0] = &s->target;
  s->kernels[0] = &s->kernel, s->kernels[1] = &s->backward;
  s->plugin = (tn_plugin){.magic = TN_PLUGIN_MAGIC,
                          .struct_size = sizeof s->plugin,
                          .abi_minor = TN_ABI_MINOR,
                          .min_host_minor = TN_ABI_MINOR,
                          .flags = TN_PLUGIN_UNLOADABLE,
                          .release = 300,
                          .n_operators = 1,
                          .n_kernels = 2,
                          .n_targets = 1,
                          .name = "acme",
                          .summary = "Sch\xc3\xb6n",
                          .license = "Apache-2.0",
                          .opgen = "0.1.0",
                          .operators = s->operators,
                          .kernels = s->kernels,
                          .targets = s->targets};
}
