/* SPDX-License-Identifier: Apache-2.0
 * cuda.c: writes the loops of an operator for CUDA, as C++: per output and type
 * a struct that calls the formula, a table of its launches, and the compute
 * function. tenon/kernel/elementwise.cuh does the rest.
 */
#include <inttypes.h>
#include <string.h>

#include "emit_kernel.h"

static const char *struct_name(const kernel_pass *pass, const formula_use *use,
                               int class_bit) {
  return pass_format(pass, "%s_at", formula_name(pass, use, class_bit));
}

static const char *cuda_name(const kernel_pass *pass) {
  return pass_format(pass, "%s_%s_cuda", pass->plugin->plugin->name,
                     pass_name(pass));
}

/* "&p, x[0]" */
static const char *call_arguments(const kernel_pass *pass,
                                  const formula_use *use) {
  const char *text = use->n_params > 0 ? "&p" : "";
  for (size_t i = 0; i < use->n_tensors; ++i)
    text = pass_format(pass, "%s%sx[%zu]", text, *text != '\0' ? ", " : "", i);
  return text;
}

/* A recorded call reads changing parameters on the device, so the struct has to
 * be created there too. */
static bool is_live(const kernel_pass *pass, const formula_use *use) {
  const tn_op *op = pass->op->op;
  for (uint32_t i = 0; use->n_params > 0 && i < op->n_params; ++i)
    if (op->params[i]->flags & TN_FIELD_DYNAMIC) return true;
  return false;
}

static void add_constructor(const kernel_pass *pass, const formula_use *use,
                            const char *name) {
  if (use->n_params == 0) {
    c_add(pass->c, "explicit %s(const void *) {}\n", name);
    return;
  }
  c_add(pass->c,
        "%sexplicit %s(const void *params) : p(*(const %s *)params) {}\n",
        is_live(pass, use) ? "__host__ __device__ " : "", name,
        pass_params(pass));
}

static void add_struct(const kernel_pass *pass, const formula_use *use,
                       int class_bit) {
  const char *name = struct_name(pass, use, class_bit);
  const char *type = class_type(class_bit);
  c_add(pass->c,
        "struct %s%s {\n"
        "typedef %s type;\n"
        "enum { n_in = %zu };\n",
        name, is_live(pass, use) ? " : tn_cuda_live" : "", type,
        use->n_tensors);
  if (use->n_params > 0) c_add(pass->c, "%s p;\n", pass_params(pass));
  add_constructor(pass, use, name);
  c_add(pass->c, "__device__ %s operator()(const %s *%s) const {\n", type, type,
        use->n_tensors > 0 ? "x" : "");
  c_function_head(pass->c,
                  &(c_function){"return ", formula_name(pass, use, class_bit),
                                call_arguments(pass, use), ";"});
  c_add(pass->c, "}\n};\n\n");
}

/* --------------------------------------------------------------- the tables */

static void add_map(const kernel_pass *pass, const formula_use *use) {
  c_file *c = pass->c;
  c_add(c, "{\n{\n");
  for (const int *bit = formula_classes; *bit != 0; ++bit)
    if (use->classes & *bit)
      c_add(c, "tn_cuda_run<%s>,\n",
            struct_name(pass, use, formula_code_class(use, *bit)));
    else if (*bit != TNM_CLASS_U64) /* the last one, NULL by itself */
      c_add(c, "NULL,\n");
  c_add(c, "},\n%" PRIu32 ",\n%zu,\n{", use->formula->index, use->n_tensors);
  for (size_t i = 0; i < use->n_tensors; ++i)
    c_add(c, "%s%" PRIu32, i ? ", " : "",
          formula_input_index(pass, use->tensors[i]));
  c_add(c, "%s},\n", use->n_tensors > 0 ? "" : "0");
  const int least = formula_least_class(pass, use);
  if (least != 0) c_add(c, "%s,\n", class_dtype(least));
  c_add(c, "},\n");
}

static void add_pass(const kernel_pass *pass) {
  if (pass->op->axes != NULL) {
    emit_cuda_line_kernel(pass);
    return;
  }
  formula_use *uses = tn__arena_alloc(pass->arena, pass->n * sizeof *uses);
  if (uses == NULL) {
    pass->c->failed = true;
    return;
  }
  for (size_t i = 0; i < pass->n; ++i) {
    if (!formula_use_init(pass, &pass->formulas[i], &uses[i])) return;
    formula_comment(pass, &uses[i], "");
    for (const int *bit = formula_classes; *bit != 0; ++bit)
      if (formula_own_classes(&uses[i]) & *bit)
        add_struct(pass, &uses[i], *bit);
  }
  c_add(pass->c, "static const tn_cuda_map %s_maps[] = {\n", pass_name(pass));
  for (size_t i = 0; i < pass->n; ++i) add_map(pass, &uses[i]);
  c_add(pass->c, "};\n\n");
  c_function_head(pass->c, &(c_function){"int32_t ", cuda_name(pass),
                                         "const tn_frame *call", " {"});
  c_add(pass->c, "return tn_cuda_map_run(call, %s_maps, %zu);\n}\n\n",
        pass_name(pass), pass->n);
}

static void add_prototype(const kernel_pass *pass) {
  if (pass->op->axes != NULL) emit_cuda_line_prototypes(pass);
  c_function_head(pass->c, &(c_function){"int32_t ", cuda_name(pass),
                                         "const tn_frame *call", ";"});
}

void emit_cuda_kernels(c_file *c, const tnm_plugin *plugin,
                       const tnm_operator *op) {
  for_each_pass(c, plugin, op, add_pass);
}

void emit_cuda_prototypes(c_file *c, const tnm_plugin *plugin,
                          const tnm_operator *op) {
  for_each_pass(c, plugin, op, add_prototype);
}
