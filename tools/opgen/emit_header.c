/* SPDX-License-Identifier: Apache-2.0
 * emit_header.c: writes <stem>.gen.h, the interface between a manifest and its
 * author's functions: structs, positions, and prototypes. So a wrong signature
 * is a compiler error at the author's function. It contains no text of the
 * manifest: a change of `doc` recompiles no kernel.
 */
#include <inttypes.h>
#include <string.h>

#include "emit.h"

/* ---------------------------------------------------------------- positions */

typedef struct positions {
  const char *list;  /* "inputs" */
  const char *macro; /* "NN_CONVOLUTION_IN" */
  const tn_arg *const *args;
  uint32_t n;
  uint32_t from;
} positions;

static void emit_names(emit *e, const positions *p) {
  for (uint32_t i = 0; i < p->n; ++i) {
    const char *name = name_format(e, "%s_%s", p->macro,
                                   name_identifier(e, p->args[i]->name, true));
    emit_set_owner(e, p->list, p->args[i]->name);
    c_declare(&e->c, "enum", name, false);
    c_add(&e->c, "%s = %" PRIu32 ",\n", name, p->from + i);
  }
  emit_set_owner(e, NULL, NULL);
}

static void emit_list(emit *e, const char *where, const positions *p) {
  if (p->n == 0) return;
  c_comment(&e->c, where);
  c_add(&e->c, "enum {\n");
  emit_names(e, p);
  c_add(&e->c, "};\n\n");
}

static bool has_count(const tn_op *op) {
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->count != TN_NONE) return true;
  return false;
}

static bool has_variadic(const tn_op *op) {
  return op->n_inputs > 0 &&
         (op->inputs[op->n_inputs - 1]->flags & TN_ARG_VARIADIC) != 0;
}

/* Positions after a list of any length are computed from n_in. */
static void emit_backward(emit *e, const char *macro, const tn_op *op) {
  const char *name = name_format(e, "%s_BACKWARD", macro);
  if (op->gradient == NULL || op->gradient->kind == TN_GRADIENT_NONE) return;
  if (has_count(op)) {
    c_comment(
        &e->c,
        "Backward: call->in holds the gradients of all outputs, then the "
        "inputs, then all outputs; call->out the gradients of the inputs.");
    c_add(&e->c, "\n");
    return;
  }
  c_comment(&e->c,
            has_variadic(op)
                ? "Backward: places in call->in; the outputs come last. "
                  "call->out holds the gradients of the inputs."
                : "Backward: places in call->in. call->out holds the gradients "
                  "of the inputs.");
  c_add(&e->c, "enum {\n");
  emit_names(e, &(positions){"outputs", name_format(e, "%s_GRAD", name),
                             op->outputs, op->n_outputs, 0});
  emit_names(e, &(positions){"inputs", name_format(e, "%s_IN", name),
                             op->inputs, op->n_inputs, op->n_outputs});
  if (!has_variadic(op))
    emit_names(
        e, &(positions){"outputs", name_format(e, "%s_OUT", name), op->outputs,
                        op->n_outputs, op->n_outputs + op->n_inputs});
  c_add(&e->c, "};\n\n");
}

static void emit_positions(emit *e, const char *macro, const tn_op *op) {
  emit_list(e, "Places in call->in.",
            &(positions){"inputs", name_format(e, "%s_IN", macro), op->inputs,
                         op->n_inputs, 0});
  emit_list(e, "Places in call->out.",
            &(positions){"outputs", name_format(e, "%s_OUT", macro),
                         op->outputs, op->n_outputs, 0});
  emit_list(e, "Places in call->aux.",
            &(positions){"aux", name_format(e, "%s_AUX", macro), op->aux,
                         op->n_aux, 0});
  emit_backward(e, macro, op);
}

/* --------------------------------------------------------------- prototypes */

static void emit_prototype(emit *e, const char *symbol,
                           const char *parameters) {
  if (symbol == NULL) return;
  c_function_head(&e->c, &(c_function){"int32_t ", symbol, parameters, ";"});
}

static const tnm_operator *owner_of(const emit *e, const tnm_kernel *kernel) {
  for (const tnm_operator *op = e->plugin->operators;; ++op)
    for (size_t i = 0; i < op->n_kernels; ++i)
      if (&op->kernels[i] == kernel) return op;
}

static bool names_symbol(const tnm_kernel *kernel, const char *symbol) {
  const char *names[] = {kernel->supports_symbol, kernel->workspace_symbol,
                         kernel->state_type,      kernel->state_create,
                         kernel->state_destroy,   kernel->registers_symbol};
  for (size_t n = 0; n < sizeof names / sizeof *names; ++n)
    if (names[n] != NULL && strcmp(names[n], symbol) == 0) return true;
  return false;
}

/* Tests whether an earlier kernel of the file names the same hook or state, so
 * that its prototype exists already. Other files have headers of their own. */
static bool is_repeated(const emit *e, const tnm_kernel *kernel,
                        const char *symbol) {
  const tnm_operator *last = owner_of(e, kernel);
  for (const tnm_operator *op = e->plugin->operators; op <= last; ++op) {
    if (strcmp(op->stem, last->stem) != 0) continue;
    for (size_t k = 0; k < op->n_kernels && &op->kernels[k] != kernel; ++k)
      if (names_symbol(&op->kernels[k], symbol)) return true;
  }
  return false;
}

/* Writes the prototype of a hook and its purpose; nothing if there is none, or
 * if it was written before. */
static void emit_hook(emit *e, const tnm_kernel *kernel, const char *symbol,
                      const char *what, const char *parameters) {
  if (symbol == NULL || is_repeated(e, kernel, symbol)) return;
  c_comment(&e->c, what);
  emit_prototype(e, symbol, parameters);
  c_add(&e->c, "\n");
}

static void emit_workspace(emit *e, const tnm_kernel *kernel,
                           const tn_kernel *table) {
  const char *most =
      name_format(e, "%s_WORKSPACE_MAX", name_identifier(e, table->id, true));
  if (kernel->workspace_max != 0) {
    c_declare(&e->c, "#define", most, false);
    c_add(&e->c,
          "/* The most that the manifest allows. */\n"
          "#define %s UINT64_C(%" PRIu64 ")\n\n",
          most, kernel->workspace_max);
  }
  emit_hook(e, kernel, kernel->workspace_symbol,
            "States the bytes of call->ws[0], once the shapes are known; "
            "TN_CALL_BACKWARD tells for which pass. [any]",
            "const tn_frame *call, uint64_t *bytes");
}

static void emit_state(emit *e, const tnm_kernel *kernel,
                       const tn_kernel *table) {
  const char *type = kernel->state_type;
  if (type == NULL) return;
  if (!is_repeated(e, kernel, type)) {
    c_comment(
        &e->c,
        "Data that calls with equal params, shapes and dtypes share. Made once "
        "and not changed afterwards; create stores it in *out. [any]");
    c_declare(&e->c, "struct", type, true);
    c_add(&e->c, "typedef struct %s %s;\n", type, type);
  }
  if (!is_repeated(e, kernel, kernel->state_create))
    emit_prototype(e, kernel->state_create,
                   name_format(e, "const tn_frame *call, %s **out", type));
  if (!is_repeated(e, kernel, kernel->state_destroy)) {
    c_function_head(&e->c,
                    &(c_function){"void ", kernel->state_destroy,
                                  name_format(e, "%s *state", type), ";"});
    c_add(&e->c, "\n");
  }
  c_function_head(
      &e->c, &(c_function){name_format(e, "static inline const %s *", type),
                           name_format(e, "%s_state_of", name_kernel(e, table)),
                           "const tn_frame *call", " {"});
  c_add(&e->c, "return (const %s *)call->prepared;\n}\n\n", type);
}

static void emit_kernel(emit *e, const tnm_kernel *kernel) {
  const tn_kernel *table =
      kernel->forward != NULL ? kernel->forward : kernel->backward;
  const field_set options = fields_of_options(e, table);
  emit_fields_struct(e, &options);
  emit_hook(e, kernel, kernel->supports_symbol,
            "TN_OK, or TN_UNSUPPORTED after TN_FAIL with the reason why "
            "another kernel has to take the call; TN_CALL_BACKWARD tells for "
            "which pass. [any]",
            "const tn_frame *call");
  emit_workspace(e, kernel, table);
  emit_hook(
      e, kernel, kernel->registers_symbol,
      "Called with TN_CALL_REGISTERS: stores a tn_register_offer "
      "(tenon/draft/registers.h) in plan->prepared, or NULL; TN_CALL_BACKWARD "
      "tells for which pass. [any]",
      "const tn_frame *call, tn_plan *plan");
  emit_state(e, kernel, table);
  c_comment(&e->c,
            name_format(e, "%s.%s [worker]", table->id,
                        kernel_needs_random(table)
                            ? " Each call may draw one Philox block from "
                              "call->run->random[0] for every element of its "
                              "outputs."
                            : ""));
  emit_prototype(e, kernel->forward_symbol, "const tn_frame *call");
  emit_prototype(e, kernel->backward_symbol, "const tn_frame *call");
  c_add(&e->c, "\n");
}

static void emit_infer(emit *e, const tnm_operator *op) {
  if (op->infer_symbol == NULL) return;
  c_comment(&e->c,
            "States shapes through call->host->set_shape, as tn_op.infer in "
            "op.h says. [any]");
  emit_prototype(e, op->infer_symbol, "const tn_frame *call");
  c_add(&e->c, "\n");
}

/* ------------------------------------------------------------------- tables */

static void emit_extern(emit *e, const char *type, const char *symbol) {
  c_add(&e->c, "extern const %s %s;\n", type, symbol);
}

static void emit_externs(emit *e, const tnm_operator *op) {
  const tn_kernel *generated[] = {op->generated, op->generated_backward};
  if (op->op != NULL)
    emit_extern(e, "tn_op",
                name_format(e, "%s_op", name_operator(e, op).symbol));
  else
    emit_extern(e, "tn_target", name_target(e, op));
  for (size_t i = 0; i < 2; ++i)
    if (generated[i] != NULL)
      emit_extern(e, "tn_kernel", name_kernel_table(e, generated[i]));
  for (size_t i = 0; i < op->n_kernels; ++i) {
    if (op->kernels[i].companion) continue;
    const tn_kernel *pair[] = {op->kernels[i].forward, op->kernels[i].backward};
    for (size_t k = 0; k < 2; ++k)
      if (pair[k] != NULL)
        emit_extern(e, "tn_kernel", name_kernel_table(e, pair[k]));
  }
}

/* ----------------------------------------------------------------- the file */

/* Another plugin's operator may occur in two headers of this one. */
static void emit_described(emit *e, const op_names *names,
                           const tnm_operator *op) {
  const field_set params = fields_of_params(e, op);
  if (op->op == NULL)
    c_add(&e->c, "#ifndef TN_OPERATOR_%s\n#define TN_OPERATOR_%s\n\n",
          names->macro, names->macro);
  emit_fields_struct(e, &params);
  if (describe_op(op) != NULL) emit_positions(e, names->macro, describe_op(op));
  if (op->op == NULL) c_add(&e->c, "#endif\n\n");
}

static void emit_operator(emit *e, const tnm_operator *op) {
  const op_names names = name_operator(e, op);
  e->op = op;
  c_section(&e->c, names.full);
  emit_described(e, &names, op);
  emit_infer(e, op);
  for (size_t i = 0; i < op->n_kernels; ++i) emit_kernel(e, &op->kernels[i]);
  c_comment(&e->c, "Tables, for plugin.gen.c.");
  emit_externs(e, op);
  e->op = NULL;
}

void emit_header(emit *e, const char *stem) {
  const char *guard = name_format(
      e, "%s_%s_GEN_H_", name_identifier(e, e->plugin->plugin->name, true),
      name_identifier(e, stem, true));
  emit_banner(e, name_format(e, "%s.gen.h", stem), stem);
  emit_guard(e, guard);
  emit_include(e);
  c_add(&e->c, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (strcmp(e->plugin->operators[i].stem, stem) == 0)
      emit_operator(e, &e->plugin->operators[i]);
  c_add(&e->c, "\n");
  c_add(&e->c, "#ifdef __cplusplus\n}\n#endif\n#endif /* %s */\n", guard);
}
