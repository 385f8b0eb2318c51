/* SPDX-License-Identifier: Apache-2.0
 * lower_generated.c: decides whether opgen can generate kernels from formulas,
 * and makes the tables of these kernels. opgen writes their C.
 */
#include <string.h>

#include "front.h"
#include "tenon/draft/registers.h"

bool tnm_refuse_formula(tnm_lower *lower, const tnm_tree *at, const char *name,
                        const char *why, const char *help) {
  tnm_diag_spec spec = {"E0055", at->key_pos, NULL};
  size_t id = tnm_diag_add(lower->diags, &spec,
                           "no kernel can be generated: `%s` %s", name, why);
  tnm_diag_add_help(lower->diags, id, "%s", help);
  return false;
}

/* Returns a help text that names the alternative to formulas under this key: a
 * kernel, for example. */
static const char *find_alternative(const tnm_tree *at) {
  if (strcmp(at->key, "forward") == 0)
    return "remove the formula and write a kernel in `kernels`";
  return "write `gradient: {kernel: backward, needs: {...}}` instead, and "
         "`backward: FUNCTION` in every kernel";
}

/* Tests whether calls with an operand may compute in u64. */
static bool may_be_u64(const tnm_lower *lower, const tn_arg *arg) {
  if (arg->dtype_param != TN_NONE) return false; /* decided by each call */
  const uint64_t dtypes = tnm_operand_dtypes(lower->op, arg);
  return (tnm_operand_classes(lower->out, arg, dtypes) & TNM_CLASS_U64) != 0;
}

/* Checks that generated loops support the kind of an operand. Returns false
 * after a message. */
static bool check_formula_operand(tnm_lower *lower, const tnm_tree *at,
                                  const tn_arg *arg) {
  uint32_t odd =
      arg->flags & (TN_ARG_VARIADIC | TN_ARG_OPTIONAL | TN_ARG_DYNAMIC);
  if (odd & TN_ARG_VARIADIC)
    return tnm_refuse_formula(lower, at, arg->name, "is variadic",
                              find_alternative(at));
  if (odd & TN_ARG_OPTIONAL)
    return tnm_refuse_formula(lower, at, arg->name, "is optional",
                              find_alternative(at));
  if (odd & TN_ARG_DYNAMIC)
    return tnm_refuse_formula(lower, at, arg->name, "has a dynamic shape",
                              find_alternative(at));
  if (arg->count != TN_NONE)
    return tnm_refuse_formula(lower, at, arg->name, "is counted",
                              find_alternative(at));
  if (lower->axes != NULL && may_be_u64(lower, arg))
    return tnm_refuse_formula(
        lower, at, arg->name, "may be u64, in which formulas reduce nothing",
        "take u64 out of `dtypes`, or write a kernel in `kernels`");
  return true;
}

/* Checks that generated loops support the kinds of all operands. Returns false
 * after a message. */
static bool check_formula_operands(tnm_lower *lower, const tnm_tree *at) {
  const tn_op *op = lower->op;
  if (op->n_aux > 0)
    return tnm_refuse_formula(lower, at, op->aux[0]->name,
                              "is an auxiliary state", find_alternative(at));
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    if (!check_formula_operand(lower, at, op->inputs[i])) return false;
  }
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    if (!check_formula_operand(lower, at, op->outputs[i])) return false;
  }
  return true;
}

/* Tests whether the outputs have the shape to which the inputs are broadcast.
 */
static bool is_broadcast(const tnm_lower *lower) {
  return lower->op->outputs[0]->shape_kind == TN_SHAPE_BROADCAST;
}

bool tnm_is_summed(const tnm_lower *lower) {
  const tn_op *op = lower->op;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (op->inputs[i]->shape_kind == TN_SHAPE_BROADCAST) return true;
  return false;
}

/* Returns the name of the operand with the shape that all others should have:
 * the input that the first output's rule names, another input of that shape, or
 * the first output. */
static const char *find_common_shape_name(const tnm_lower *lower) {
  const tn_op *op = lower->op;
  const tn_arg *out = op->outputs[0];
  if (out->shape_kind == TN_SHAPE_SAME && out->shape_list == TN_OPERAND_IN)
    return op->inputs[out->shape_index]->name;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (tnm_has_same_shape(lower, op->inputs[i], out))
      return op->inputs[i]->name;
  return out->name;
}

/* Checks that an operand has the shape of the first output, over which the
 * loop runs. Returns false after a message. */
static bool check_loop_shape(tnm_lower *lower, const tnm_tree *at,
                             const tn_arg *arg) {
  if (tnm_has_same_shape(lower, arg, lower->op->outputs[0])) return true;
  const char *help =
      is_broadcast(lower)
          ? tnm_format_text(lower->arena,
                            "write `shape: broadcast` for `%s`, too", arg->name)
          : tnm_format_text(
                lower->arena,
                "write `shape: %s` for `%s`, or `shape: broadcast` for "
                "every output, to which inputs are repeated then",
                find_common_shape_name(lower), arg->name);
  return tnm_refuse_formula(lower, at, arg->name,
                            "may differ in shape from the first output",
                            help != NULL ? help : "");
}

/* Returns the name of the first input that does not declare `shape:
 * broadcast`; NULL if all inputs declare it. */
static const char *find_unrepeated_input(const tn_op *op) {
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (op->inputs[i]->shape_kind != TN_SHAPE_BROADCAST)
      return op->inputs[i]->name;
  return NULL;
}

/* Checks that an output of the gradient of a broadcast has the shape of an
 * input, so that the host can sum the output over the repeated axes. Returns
 * false after a message. */
static bool check_summed_output(tnm_lower *lower, const tnm_tree *at,
                                const tn_arg *arg) {
  const tn_op *op = lower->op;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (tnm_has_same_shape(lower, arg, op->inputs[i])) return true;
  const char *name = find_unrepeated_input(op);
  const char *help = name == NULL
                         ? NULL
                         : tnm_format_text(lower->arena,
                                           "give it the shape of an input: "
                                           "`shape: %s`",
                                           name);
  return tnm_refuse_formula(
      lower, at, arg->name, "may have a shape that no input has",
      help != NULL ? help : "give it the shape of an input");
}

/* Checks that the operands have shapes over which a formula can be computed.
 * Broadcast inputs are repeated to the shape of the loop, and the host sums
 * smaller outputs over the repeated axes. Returns false after a message. */
static bool check_shapes(tnm_lower *lower, const tnm_tree *at) {
  const tn_op *op = lower->op;
  const bool summed = tnm_is_summed(lower);
  if (lower->axes != NULL) return tnm_check_lines(lower, at);
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (!(summed ? check_summed_output : check_loop_shape)(lower, at,
                                                           op->outputs[i]))
      return false;
  for (uint32_t i = 0; !summed && !is_broadcast(lower) && i < op->n_inputs; ++i)
    if (!check_loop_shape(lower, at, op->inputs[i])) return false;
  return true;
}

/* ------------------------------------------------------------------- tables */

static bool has_cpu_kernel(const tnm_lower *lower) {
  const tnm_tree *list = tnm_tree_get(lower->doc, "kernels");
  for (const tnm_tree *k = list == NULL ? NULL : list->first; k != NULL;
       k = k->next) {
    const char *device = tnm_get_text(k, "device");
    if (device != NULL && strcmp(device, "cpu") == 0) return true;
  }
  return false;
}

bool tnm_has_storage_kernel(const tnm_lower *lower) {
  return has_cpu_kernel(lower) || lower->out->parent != NULL;
}

uint64_t tnm_float_types(uint64_t allowed) {
  return (allowed & TNM_FLOATS) != 0 ? allowed & TNM_FLOATS : allowed;
}

/* Returns the sets of types of a generated kernel, one for each type variable,
 * without storage types, in which nothing computes. In a backward kernel, a
 * variable that may be a float is a float, because gradients are floats. */
static const uint64_t *dtype_sets(tnm_lower *lower, uint32_t pass) {
  const tn_op *op = lower->op;
  uint64_t *sets = TNM_NEW(lower->arena, uint64_t, op->n_dtype_vars);
  for (uint32_t i = 0; sets != NULL && i < op->n_dtype_vars; ++i) {
    sets[i] = op->dtype_vars[i]->allowed & ~TN_BITS_STORAGE;
    if (pass == TN_PASS_BACKWARD) sets[i] = tnm_float_types(sets[i]);
  }
  return sets;
}

/* Makes the table of a generated kernel for one pass (TN_PASS_*). */
static tn_kernel *new_kernel(tnm_lower *lower, uint32_t pass) {
  const char *plugin = lower->reader->name;
  tn_kernel *kernel = TNM_NEW(lower->arena, tn_kernel, 1);
  if (kernel == NULL) return NULL;
  *kernel = (tn_kernel){
      .struct_size = sizeof *kernel,
      .flags = TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC |
               TN_KERNEL_ELEMENTWISE | TN_KERNEL_REGISTERS,
      .pass = pass,
      .device_type = TN_DEVICE_CPU,
      .writes = TN_WRITES_WRITE | TN_WRITES_ADD,
      .n_dtype_sets = lower->op->n_dtype_vars,
      .when = TN_NONE,
      .op = tnm_format_text(lower->arena, "%s.%s@%u", plugin, lower->op->name,
                            lower->op->interface),
      .id = tnm_format_text(lower->arena, "%s.cpu%s", tnm_kernel_stem(lower),
                            has_cpu_kernel(lower) ? ".generated" : ""),
      .dtype_sets = dtype_sets(lower, pass)};
  if (lower->axes != NULL) tnm_set_line_flags(lower, kernel);
  return kernel;
}

/* Makes the table of the kernel that opgen generates from the forward
 * formulas. Returns false after a message if it can generate none. */
static bool generate_forward(tnm_lower *lower, const tnm_tree *at) {
  if (!check_formula_operands(lower, at) || !check_shapes(lower, at))
    return false;
  tn_kernel *kernel = new_kernel(lower, TN_PASS_FORWARD);
  if (kernel != NULL)
    tnm_set_generated_inplace(lower, kernel, lower->out->forward,
                              lower->out->n_forward);
  lower->out->generated = kernel;
  return true;
}

/* Makes the table of the kernel that opgen generates from the formulas of the
 * gradient. */
static void generate_backward(tnm_lower *lower, const tnm_tree *at) {
  if (!check_formula_operands(lower, at) || !check_shapes(lower, at)) return;
  tn_kernel *kernel = new_kernel(lower, TN_PASS_BACKWARD);
  if (kernel != NULL)
    tnm_set_generated_inplace(lower, kernel, lower->out->backward,
                              lower->out->n_backward);
  lower->out->generated_backward = kernel;
}

/* Checks the types of all formulas. */
static void check_formulas(tnm_lower *lower) {
  const tnm_operator *out = lower->out;
  const bool converts = tnm_has_storage_kernel(lower);
  for (size_t i = 0; i < out->n_forward; ++i) {
    const tnm_formula *f = &out->forward[i];
    if (!converts) tnm_check_no_storage(lower, f, lower->op->outputs[f->index]);
    tnm_check_classes(lower, f);
  }
  for (size_t i = 0; i < out->n_backward && !converts; ++i) {
    const tnm_formula *f = &out->backward[i];
    tnm_check_no_storage(lower, f, lower->op->inputs[f->index]);
  }
}

void tnm_lower_generated(tnm_lower *lower) {
  const tnm_operator *out = lower->out;
  if (lower->op->n_outputs == 0 || lower->untyped || lower->unshaped) return;
  check_formulas(lower);
  if (out->n_forward > 0 &&
      !generate_forward(lower, tnm_tree_get(lower->doc, "forward")))
    return;
  if (out->n_backward == 0) return;
  const tnm_tree *gradient = tnm_tree_get(lower->doc, "gradient");
  const tnm_tree *formulas = tnm_tree_get(gradient, "formula");
  generate_backward(lower, formulas == NULL ? gradient : formulas);
}
