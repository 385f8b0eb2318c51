/* SPDX-License-Identifier: Apache-2.0
 * emit_tables.c: writes <stem>.gen.c: the tables of operators and of written
 * kernels, with the steps of prepare. Writes <stem>.kernel.gen.c: the generated
 * kernels with their tables. Texts such as `doc` are only in the first, so that
 * their change recompiles no loop.
 */
#include <inttypes.h>
#include <string.h>

#include "emit.h"
#include "emit_kernel.h"
#include "tenon/draft/reduction.h"
#include "tenon/draft/registers.h"
#include "tenon/plugin/device.h"

static const c_bit kernel_bits[] = {
    {TN_KERNEL_REENTRANT, "TN_KERNEL_REENTRANT"},
    {TN_KERNEL_DETERMINISTIC, "TN_KERNEL_DETERMINISTIC"},
    {TN_KERNEL_ASYNC, "TN_KERNEL_ASYNC"},
    {TN_KERNEL_CAPTURABLE, "TN_KERNEL_CAPTURABLE"},
    {TN_KERNEL_ELEMENTWISE, "TN_KERNEL_ELEMENTWISE"},
    {TN_KERNEL_REDUCTION, "TN_KERNEL_REDUCTION"},
    {TN_KERNEL_REGISTERS, "TN_KERNEL_REGISTERS"},
    {TN_KERNEL_WIDE_OUT, "TN_KERNEL_WIDE_OUT"},
    {TN_KERNEL_LATER, "TN_KERNEL_LATER"},
    {0, NULL},
};

static const c_bit writes_bits[] = {
    {TN_WRITES_WRITE, "TN_WRITES_WRITE"},
    {TN_WRITES_INPLACE, "TN_WRITES_INPLACE"},
    {TN_WRITES_ADD, "TN_WRITES_ADD"},
    {0, NULL},
};

static const char *device_name(emit *e, int32_t type) {
  switch (type) {
    case TN_DEVICE_CPU:
      return "TN_DEVICE_CPU";
    case TN_DEVICE_CUDA:
      return "TN_DEVICE_CUDA";
    default:
      return name_format(e, "%" PRId32, type);
  }
}

/* ------------------------------------------------------------------ prepare */

bool kernel_needs_random(const tn_kernel *table) {
  for (uint32_t i = 0; i < table->n_resources; ++i)
    if (table->resources[i] == TN_RESOURCE_RANDOM) return true;
  return false;
}

static const tn_kernel *any_pass(const tnm_kernel *kernel) {
  return kernel->forward != NULL ? kernel->forward : kernel->backward;
}

static bool has_prepare(const tnm_kernel *kernel) {
  return kernel->workspace_symbol != NULL || kernel->state_type != NULL ||
         kernel->registers_symbol != NULL ||
         kernel_needs_random(any_pass(kernel));
}

static const char *const over_limit =
    "if (bytes > max) {\n"
    "return TN_FAIL(call, TN_OUT_OF_RANGE, "
    "\"%llu bytes of workspace; the manifest allows %llu\", "
    "(unsigned long long)bytes, (unsigned long long)max);\n"
    "}\n";

static void emit_workspace(emit *e, const char *name,
                           const tnm_kernel *kernel) {
  if (kernel->workspace_symbol == NULL) return;
  c_function_head(
      &e->c,
      &(c_function){"static int32_t ", name_format(e, "workspace_%s", name),
                    "const tn_frame *call, tn_plan *plan", " {"});
  if (kernel->workspace_max != 0)
    c_add(&e->c, "const uint64_t max = UINT64_C(%" PRIu64 ");\n",
          kernel->workspace_max);
  c_add(&e->c, "uint64_t bytes = 0;\n");
  c_add(&e->c,
        "const int32_t code = %s(call, &bytes);\n"
        "if (code != TN_OK) return code;\n",
        kernel->workspace_symbol);
  if (kernel->workspace_max != 0) c_add(&e->c, "%s", over_limit);
  c_add(&e->c,
        "plan->n_ws = 1;\n"
        "plan->ws[0].bytes = bytes;\n"
        "plan->ws[0].align = %" PRIu64
        ";\n"
        "return TN_OK;\n}\n\n",
        kernel->workspace_align);
}

static void emit_destroy(emit *e, const char *name, const tnm_kernel *kernel) {
  if (kernel->state_type == NULL) return;
  c_function_head(
      &e->c, &(c_function){"static void ", name_format(e, "destroy_%s", name),
                           "void *prepared", " {"});
  c_add(&e->c, "%s((%s *)prepared);\n}\n\n", kernel->state_destroy,
        kernel->state_type);
}

/* The workspace hook sees the state, through a copy of the frame. */
static void emit_state_steps(emit *e, const char *name,
                             const tnm_kernel *kernel) {
  c_add(&e->c,
        "%s *state = NULL;\n"
        "%sint32_t code = %s(call, &state);\n"
        "if (code != TN_OK) return code;\n",
        kernel->state_type, kernel->workspace_symbol ? "" : "const ",
        kernel->state_create);
  if (kernel->workspace_symbol != NULL)
    c_add(&e->c,
          "tn_frame with_state = *call;\n"
          "with_state.struct_size = sizeof with_state;\n"
          "with_state.prepared = state;\n"
          "code = workspace_%s(&with_state, plan);\n"
          "if (code != TN_OK) {\n%s(state);\nreturn code;\n}\n",
          name, kernel->state_destroy);
  c_add(&e->c, "plan->prepared = state;\nplan->destroy = destroy_%s;\n", name);
}

/* Writes the count of random blocks: one per written element. For a shape that
 * a kernel decides, the host assumes more blocks than a call can write. */
static void emit_blocks(emit *e) {
  const tn_op *op = e->op->op;
  uint32_t n_decided = 0;
  c_add(&e->c,
        "for (uint32_t i = 0; i < call->n_out; ++i) {\n"
        "const int64_t n = tn_tensor_size(&call->out[i]);\n"
        "plan->random_blocks += (uint64_t)n;\n"
        "}\n");
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    n_decided += (op->outputs[i]->flags & TN_ARG_DYNAMIC) != 0;
  if (n_decided > 0)
    c_add(&e->c, "plan->random_blocks += (uint64_t)%" PRIu32 " << 32;\n",
          n_decided);
}

static void emit_prepare(emit *e, const tnm_kernel *kernel) {
  const char *name = name_kernel(e, any_pass(kernel));
  if (!has_prepare(kernel)) return;
  emit_workspace(e, name, kernel);
  emit_destroy(e, name, kernel);
  c_function_head(
      &e->c,
      &(c_function){"static int32_t ", name_format(e, "prepare_%s", name),
                    "const tn_frame *call, tn_plan *plan", " {"});
  if (kernel->registers_symbol != NULL)
    c_add(&e->c,
          "if (call->flags & TN_CALL_REGISTERS) {\nreturn %s(call, plan);\n}\n",
          kernel->registers_symbol);
  if (kernel_needs_random(any_pass(kernel))) emit_blocks(e);
  if (kernel->state_type != NULL) emit_state_steps(e, name, kernel);
  if (kernel->state_type == NULL && kernel->workspace_symbol != NULL)
    c_add(&e->c, "return workspace_%s(call, plan);\n", name);
  else
    c_add(&e->c, "return TN_OK;\n");
  c_add(&e->c, "}\n\n");
}

/* ------------------------------------------------------------------- tables */

static void emit_sets(emit *e, const char *name, const tn_kernel *kernel) {
  if (kernel->n_dtype_sets == 0) return;
  c_open(&e->c, "static const uint64_t", name_format(e, "%s_dtypes[]", name));
  for (uint32_t i = 0; i < kernel->n_dtype_sets; ++i)
    c_bits(&e->c, NULL, dtype_bits, kernel->dtype_sets[i]);
  c_close(&e->c);
}

static void emit_resources(emit *e, const char *name, const tn_kernel *kernel) {
  if (kernel->n_resources == 0) return;
  c_open_list(&e->c, "static const uint32_t",
              name_format(e, "%s_resources", name));
  for (uint32_t i = 0; i < kernel->n_resources; ++i)
    c_item(&e->c, "",
           kernel->resources[i] == TN_RESOURCE_ORDER ? "TN_RESOURCE_ORDER"
                                                     : "TN_RESOURCE_RANDOM");
  c_close(&e->c);
}

/* Writes the in-place pairs. Generated code for older hosts has none. */
static void emit_pairs(emit *e, const char *name, const tn_kernel *kernel) {
  if (kernel->n_inplace == 0) return;
  c_add(&e->c, "#if TN_TARGET_MINOR >= 2\n");
  c_open_list(&e->c, "static const tn_inplace",
              name_format(e, "%s_inplace", name));
  for (uint32_t i = 0; i < kernel->n_inplace; ++i)
    c_item(&e->c, "",
           name_format(e, "{.in = %" PRIu32 ", .out = %" PRIu32 "}",
                       kernel->inplace[i].in, kernel->inplace[i].out));
  c_close(&e->c);
  c_add(&e->c, "#endif\n");
}

static void emit_numbers(emit *e, const tn_kernel *kernel) {
  c_file *c = &e->c;
  c_value(c, "struct_size", "sizeof(tn_kernel)");
  c_bits(c, "flags", kernel_bits, kernel->flags);
  c_value(c, "pass",
          kernel->pass == TN_PASS_BACKWARD ? "TN_PASS_BACKWARD"
                                           : "TN_PASS_FORWARD");
  c_value(c, "device_type", device_name(e, kernel->device_type));
  if (kernel->priority != 0)
    c_value(c, "priority", name_format(e, "%" PRId32, kernel->priority));
  c_bits(c, "writes", writes_bits, kernel->writes);
  c_u32(c, "n_dtype_sets", kernel->n_dtype_sets);
  c_u32(c, "n_resources", kernel->n_resources);
  if (kernel->options_size != 0)
    c_value(c, "options_size",
            name_format(e, "sizeof(%s)", fields_of_options(e, kernel).type));
  c_u32(c, "n_options", kernel->n_options);
  c_u32(c, "n_nodes", kernel->n_nodes);
  c_index(c, "when", kernel->when);
}

/* Writes a table with its functions; missing ones are NULL. */
void emit_kernel_table(emit *e, const tn_kernel *kernel,
                       const kernel_functions *functions) {
  const char *name = name_kernel_table(e, kernel);
  c_file *c = &e->c;
  emit_sets(e, name, kernel);
  emit_resources(e, name, kernel);
  emit_nodes(e, name_format(e, "%s_nodes", name), kernel->nodes,
             kernel->n_nodes);
  emit_pairs(e, name, kernel);
  c_open(c, "const tn_kernel", name);
  emit_numbers(e, kernel);
  c_string(c, "op", kernel->op);
  c_string(c, "id", kernel->id);
  c_string(c, "requirement", kernel->requirement);
  c_string(c, "when_text", kernel->when_text);
  c_value(c, "dtype_sets", name_if(e, kernel->n_dtype_sets, name, "dtypes"));
  c_value(c, "resources", name_if(e, kernel->n_resources, name, "resources"));
  if (kernel->n_options > 0)
    c_value(c, "options",
            name_format(e, "%s_list", fields_of_options(e, kernel).local));
  c_value(c, "nodes", name_if(e, kernel->n_nodes, name, "nodes"));
  c_value(c, "supports", functions->supports);
  c_value(c, "prepare", functions->prepare);
  c_value(c, "compute", functions->compute);
  if (kernel->n_inplace > 0) {
    c_add(c, "#if TN_TARGET_MINOR >= 2\n");
    c_u32(c, "n_inplace", kernel->n_inplace);
    c_value(c, "inplace", name_format(e, "%s_inplace", name));
    c_add(c, "#endif\n");
  }
  c_close(c);
}

void emit_written(emit *e, const tnm_kernel *kernel) {
  const field_set options = fields_of_options(e, any_pass(kernel));
  const char *prepare =
      has_prepare(kernel)
          ? name_format(e, "prepare_%s", name_kernel(e, any_pass(kernel)))
          : NULL;
  emit_fields_tables(e, &options);
  emit_prepare(e, kernel);
  if (kernel->forward != NULL)
    emit_kernel_table(e, kernel->forward,
                      &(kernel_functions){kernel->supports_symbol, prepare,
                                          kernel->forward_symbol});
  if (kernel->backward != NULL)
    emit_kernel_table(e, kernel->backward,
                      &(kernel_functions){kernel->supports_symbol, prepare,
                                          kernel->backward_symbol});
}

static void emit_generated(emit *e, const tnm_operator *op,
                           const tn_kernel *kernel) {
  tn__buf name;
  if (kernel == NULL) return;
  tn__buf_init(&name, e->env);
  emit_kernel_name(&name, op, kernel->pass);
  emit_kernel_table(
      e, kernel,
      &(kernel_functions){.prepare = name_format(e, "%s_prepare", name.s),
                          .compute = name.s});
  e->c.failed |= name.failed;
  tn__buf_deinit(&name);
}

void emit_target(emit *e, const tnm_operator *op) {
  const field_set params = fields_of_params(e, op);
  emit_fields_tables(e, &params);
  c_open(&e->c, "const tn_target", name_target(e, op));
  c_value(&e->c, "struct_size", "sizeof(tn_target)");
  if (op->target->params_size != 0)
    c_value(&e->c, "params_size", name_format(e, "sizeof(%s)", params.type));
  c_u32(&e->c, "n_params", op->target->n_params);
  c_string(&e->c, "op", op->target->op);
  if (params.n > 0)
    c_value(&e->c, "params", name_format(e, "%s_list", params.local));
  c_close(&e->c);
}

static void emit_operator(emit *e, const tnm_operator *op) {
  e->op = op;
  c_section(&e->c, name_operator(e, op).full);
  if (op->op != NULL && op->axes != NULL) emit_line_infer(&e->c, e->plugin, op);
  if (op->op != NULL)
    emit_op(e, op);
  else
    emit_target(e, op);
  c_add(&e->c, "\n");
  for (size_t i = 0; i < op->n_kernels; ++i)
    if (!op->kernels[i].companion) emit_written(e, &op->kernels[i]);
  e->op = NULL;
}

/* Tests whether a written kernel of the file has a flag without a name in
 * op.h. */
static bool has_flag(const emit *e, const char *stem, uint32_t flag) {
  for (size_t i = 0; i < e->plugin->n_operators; ++i) {
    const tnm_operator *op = &e->plugin->operators[i];
    for (size_t k = 0; k < op->n_kernels; ++k)
      if (strcmp(op->stem, stem) == 0 &&
          (any_pass(&op->kernels[k])->flags & flag))
        return true;
  }
  return false;
}

/* Tests whether an operator of the file has formulas over lines. */
bool has_axes(const emit *e, const char *stem) {
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (e->plugin->operators[i].axes != NULL &&
        strcmp(e->plugin->operators[i].stem, stem) == 0)
      return true;
  return false;
}

void emit_source(emit *e, const char *stem) {
  emit_hashed_banner(e, name_format(e, "%s.gen.c", stem), stem);
  c_add(&e->c, "#include \"%s.gen.h\"\n", stem);
  if (has_flag(e, stem, TN_KERNEL_REGISTERS))
    c_add(&e->c, "\n#include <tenon/draft/registers.h>\n");
  if (has_flag(e, stem, TN_KERNEL_WIDE_OUT))
    c_add(&e->c, "\n#include <tenon/plugin/device.h>\n");
  if (has_flag(e, stem, TN_KERNEL_REDUCTION))
    c_add(&e->c, "\n#include <tenon/draft/reduction.h>\n");
  if (has_axes(e, stem))
    c_add(&e->c, "\n#include <tenon/kernel/line_shapes.h>\n");
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (strcmp(e->plugin->operators[i].stem, stem) == 0)
      emit_operator(e, &e->plugin->operators[i]);
}

void emit_kernel_source(emit *e, const char *stem) {
  emit_banner(e, name_format(e, "%s.kernel.gen.c", stem), stem);
  c_add(&e->c,
        "#define TN_KERNEL_PLUGIN %s\n#include <tenon/kernel/%s.h>\n\n"
        "#include \"%s.formula.gen.h\"\n",
        name_identifier(e, e->plugin->plugin->name, false),
        has_axes(e, stem) ? "lines" : "kernel", stem);
  for (size_t i = 0; i < e->plugin->n_operators; ++i) {
    const tnm_operator *op = &e->plugin->operators[i];
    if (strcmp(op->stem, stem) != 0 || !needs_formulas(op)) continue;
    e->op = op;
    c_section(&e->c, name_operator(e, op).full);
    emit_kernels(&e->c, e->plugin, op);
    emit_generated(e, op, op->generated);
    emit_generated(e, op, op->generated_backward);
    e->op = NULL;
  }
}
