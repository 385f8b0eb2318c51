/* SPDX-License-Identifier: Apache-2.0
 * tables.c: the members of every struct of op.h that a manifest describes, and
 * access to them. Functions, magic, struct_size and manifest_hash are omitted.
 * Reserved members are omitted too, but their offset is recorded. Lengths
 * belong to their arrays.
 */
#include "tables.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

/* PLACE and the macros below make one entry of a list of members. The macro S
 * is the name of the struct, and is set around each list. */
#define PLACE(f) (uint16_t) offsetof(S, f), (uint16_t)sizeof(((S *)0)->f)
#define SCALAR(form, f) \
  { #f, form, PLACE(f), 0, NULL, NULL, 0, 0 }
#define NAMED(form, f, names) \
  { #f, form, PLACE(f), 0, NULL, names[0], N_OF(names), sizeof names[0] }
#define TEXT(f) SCALAR(TNM_TEXT, f)
#define ARRAY(form, f, n, of) \
  { #f, form, PLACE(f), (uint16_t)offsetof(S, n), of, NULL, 0, 0 }
#define POINTER(f, of) \
  { #f, TNM_POINTER, PLACE(f), 0, of, NULL, 0, 0 }
#define FROZEN(T, members, reserved_at) \
  { sizeof(T), 0, 0, N_OF(members), reserved_at, members }
#define GROWING(T, first, members, reserved_at)                          \
  {                                                                      \
    sizeof(T), first, (uint16_t)offsetof(T, struct_size), N_OF(members), \
        reserved_at, members                                             \
  }
#define RESERVED(T) ((uint16_t)offsetof(T, reserved))

/* Arrays, since each pointer of a table would need a relocation. */
static const char field_types[][7] = {
    [TN_FIELD_BOOL] = "bool",     [TN_FIELD_INT] = "int",
    [TN_FIELD_FLOAT] = "float",   [TN_FIELD_STRING] = "string",
    [TN_FIELD_ENUM] = "enum",     [TN_FIELD_INTS] = "ints",
    [TN_FIELD_FLOATS] = "floats", [TN_FIELD_DTYPE] = "dtype"};
static const char field_flags[][9] = {"required", "optional", "dynamic",
                                      "has_min",  "has_max",  "above",
                                      "below",    "nonzero"};
static const char node_ops[][15] = {
    [TN_NODE_CONST] = "const",
    [TN_NODE_DIM] = "dim",
    [TN_NODE_PACK] = "pack",
    [TN_NODE_PARAM] = "param",
    [TN_NODE_RANK] = "rank",
    [TN_NODE_OPERAND_RANK] = "operand_rank",
    [TN_NODE_OPERAND_SIZE] = "operand_size",
    [TN_NODE_OPERAND_SHAPE] = "operand_shape",
    [TN_NODE_HAS] = "has",
    [TN_NODE_NEG] = "neg",
    [TN_NODE_ADD] = "add",
    [TN_NODE_SUB] = "sub",
    [TN_NODE_MUL] = "mul",
    [TN_NODE_DIV] = "div",
    [TN_NODE_MOD] = "mod",
    [TN_NODE_POW] = "pow",
    [TN_NODE_MIN] = "min",
    [TN_NODE_MAX] = "max",
    [TN_NODE_ABS] = "abs",
    [TN_NODE_EQ] = "eq",
    [TN_NODE_NE] = "ne",
    [TN_NODE_LT] = "lt",
    [TN_NODE_LE] = "le",
    [TN_NODE_GT] = "gt",
    [TN_NODE_GE] = "ge",
    [TN_NODE_SELECT] = "select",
    [TN_NODE_COMPARE_PARAMS] = "compare_params"};
static const char shape_kinds[][10] = {"any", "pattern", "same", "broadcast",
                                       "hook"};
static const char arg_flags[][11] = {"optional",   "variadic", "hidden",
                                     "contiguous", "dynamic",  "trained",
                                     "view"};
static const char roles[][7] = {"data", "weight", "label", "loss"};
static const char lists[][4] = {"in", "out", "aux"};
static const char gradient_kinds[][7] = {"none", "kernel", "graph"};
static const char need_kinds[][9] = {"grad_out", "in", "out"};
static const char op_flags[][14] = {"backward_only"};
static const char passes[][9] = {"forward", "backward"};
static const char kernel_flags[][14] = {
    "reentrant", "deterministic", "async",    "capturable", "elementwise",
    "reduction", "registers",     "wide_out", "later"};
static const char writes[][8] = {[TN_REQ_WRITE] = "write",
                                 [TN_REQ_INPLACE] = "inplace",
                                 [TN_REQ_ADD] = "add"};
static const char plugin_flags[][11] = {"unloadable"};

#define S tn_field
static const tnm_member field_members[] = {
    NAMED(TNM_ENUM, type, field_types),
    NAMED(TNM_FLAGS, flags, field_flags),
    SCALAR(TNM_U32, offset),
    SCALAR(TNM_INDEX, has_offset),
    SCALAR(TNM_U32, since),
    SCALAR(TNM_U32, deprecated_since),
    SCALAR(TNM_INDEX, rank_of),
    SCALAR(TNM_U32, min_rank),
    SCALAR(TNM_INDEX, max_rank),
    SCALAR(TNM_I64, min_int),
    SCALAR(TNM_I64, max_int),
    SCALAR(TNM_F64, min_float),
    SCALAR(TNM_F64, max_float),
    TEXT(name),
    TEXT(default_text),
    TEXT(doc),
    TEXT(alias),
    TEXT(use),
    ARRAY(TNM_TEXTS, values, n_values, NULL)};
#undef S
static const tnm_table table_field =
    GROWING(tn_field, 128, field_members, RESERVED(tn_field));

#define S tn_node
static const tnm_member node_members[] = {
    NAMED(TNM_ENUM, op, node_ops), SCALAR(TNM_I32, a), SCALAR(TNM_I32, b),
    SCALAR(TNM_I32, c), SCALAR(TNM_I64, value)};
#undef S
static const tnm_table table_node = FROZEN(tn_node, node_members, 0);

#define S tn_term
static const tnm_member term_members[] = {SCALAR(TNM_I32, node),
                                          SCALAR(TNM_U32, spread)};
#undef S
static const tnm_table table_term = FROZEN(tn_term, term_members, 0);

#define S tn_arg
static const tnm_member arg_members[] = {
    NAMED(TNM_FLAGS, flags, arg_flags),
    NAMED(TNM_ENUM, role, roles),
    SCALAR(TNM_U32, since),
    SCALAR(TNM_U32, deprecated_since),
    SCALAR(TNM_INDEX, dtype_var),
    SCALAR(TNM_DTYPE, dtype),
    SCALAR(TNM_INDEX, dtype_param),
    NAMED(TNM_ENUM, shape_kind, shape_kinds),
    NAMED(TNM_ENUM, shape_list, lists),
    SCALAR(TNM_U32, shape_index),
    SCALAR(TNM_INDEX, inplace),
    SCALAR(TNM_INDEX, init),
    SCALAR(TNM_INDEX, count),
    ARRAY(TNM_VALUES, terms, n_terms, &table_term),
    TEXT(name),
    TEXT(doc),
    TEXT(shape_text),
    TEXT(formula),
    TEXT(initial),
    TEXT(use)};
#undef S
static const tnm_table table_arg =
    GROWING(tn_arg, 120, arg_members, RESERVED(tn_arg));

#define S tn_dtype_var
static const tnm_member dtype_var_members[] = {SCALAR(TNM_DTYPES, allowed),
                                               TEXT(name)};
#undef S
static const tnm_table table_dtype_var =
    GROWING(tn_dtype_var, 24, dtype_var_members, RESERVED(tn_dtype_var));

#define S tn_require
static const tnm_member require_members[] = {SCALAR(TNM_U32, node), TEXT(that),
                                             TEXT(say)};
#undef S
static const tnm_table table_require =
    GROWING(tn_require, 24, require_members, 0);

#define S tn_need
static const tnm_member need_members[] = {NAMED(TNM_ENUM, what, need_kinds),
                                          SCALAR(TNM_U32, index),
                                          SCALAR(TNM_U32, metadata)};
#undef S
static const tnm_table table_need =
    FROZEN(tn_need, need_members, RESERVED(tn_need));

static const char step_kinds[][9] = {"grad_out", "in", "out", "call"};
#define S tn_step
static const tnm_member step_members[] = {NAMED(TNM_ENUM, what, step_kinds),
                                          SCALAR(TNM_U32, index), TEXT(op),
                                          TEXT(params)};
#undef S
static const tnm_table table_step = FROZEN(tn_step, step_members, 0);

#define S tn_input_gradient
static const tnm_member input_gradient_members[] = {
    SCALAR(TNM_U32, stop),
    SCALAR(TNM_INDEX, inplace),
    ARRAY(TNM_VALUES, needs, n_needs, &table_need),
    TEXT(formula),
    SCALAR(TNM_U32, linear),
    ARRAY(TNM_VALUES, steps, n_steps, &table_step)};
#undef S
static const tnm_table table_input_gradient =
    GROWING(tn_input_gradient, 32, input_gradient_members, 0);

#define S tn_gradient
static const tnm_member gradient_members[] = {
    NAMED(TNM_ENUM, kind, gradient_kinds),
    ARRAY(TNM_POINTERS, inputs, n_inputs, &table_input_gradient), TEXT(why)};
#undef S
static const tnm_table table_gradient =
    GROWING(tn_gradient, 32, gradient_members, RESERVED(tn_gradient));

#define S tn_op
static const tnm_member op_members[] = {
    NAMED(TNM_FLAGS, flags, op_flags),
    SCALAR(TNM_U32, interface),
    SCALAR(TNM_U32, since),
    SCALAR(TNM_U32, deprecated_since),
    SCALAR(TNM_U32, params_size),
    TEXT(name),
    TEXT(summary),
    TEXT(doc),
    TEXT(replaces),
    TEXT(use),
    ARRAY(TNM_POINTERS, params, n_params, &table_field),
    ARRAY(TNM_POINTERS, dtype_vars, n_dtype_vars, &table_dtype_var),
    ARRAY(TNM_POINTERS, inputs, n_inputs, &table_arg),
    ARRAY(TNM_POINTERS, outputs, n_outputs, &table_arg),
    ARRAY(TNM_POINTERS, aux, n_aux, &table_arg),
    ARRAY(TNM_TEXTS, dims, n_dims, NULL),
    ARRAY(TNM_TEXTS, packs, n_packs, NULL),
    ARRAY(TNM_VALUES, nodes, n_nodes, &table_node),
    ARRAY(TNM_POINTERS, requirements, n_requires, &table_require),
    POINTER(gradient, &table_gradient),
    TEXT(family)};
#undef S
const tnm_table tnm_table_op = GROWING(tn_op, 192, op_members, RESERVED(tn_op));

#define S tn_inplace
static const tnm_member inplace_members[] = {SCALAR(TNM_U32, in),
                                             SCALAR(TNM_U32, out)};
#undef S
static const tnm_table table_inplace = FROZEN(tn_inplace, inplace_members, 0);

#define S tn_kernel
static const tnm_member kernel_members[] = {
    NAMED(TNM_FLAGS, flags, kernel_flags),
    NAMED(TNM_ENUM, pass, passes),
    SCALAR(TNM_I32, device_type),
    SCALAR(TNM_I32, priority),
    NAMED(TNM_FLAGS, writes, writes),
    SCALAR(TNM_U32, options_size),
    SCALAR(TNM_INDEX, when),
    TEXT(op),
    TEXT(id),
    TEXT(requirement),
    TEXT(when_text),
    ARRAY(TNM_U64S, dtype_sets, n_dtype_sets, NULL),
    ARRAY(TNM_U32S, resources, n_resources, NULL),
    ARRAY(TNM_POINTERS, options, n_options, &table_field),
    ARRAY(TNM_VALUES, nodes, n_nodes, &table_node),
    ARRAY(TNM_VALUES, inplace, n_inplace, &table_inplace)};
#undef S
static const tnm_table table_kernel =
    GROWING(tn_kernel, 136, kernel_members, RESERVED(tn_kernel));

#define S tn_target
static const tnm_member target_members[] = {
    SCALAR(TNM_U32, params_size), TEXT(op),
    ARRAY(TNM_POINTERS, params, n_params, &table_field)};
#undef S
static const tnm_table table_target =
    GROWING(tn_target, 32, target_members, RESERVED(tn_target));

#define S tn_dependency
static const tnm_member dependency_members[] = {SCALAR(TNM_U32, release),
                                                TEXT(plugin)};
#undef S
static const tnm_table table_dependency =
    GROWING(tn_dependency, 16, dependency_members, 0);

/* abi_major and abi_minor come first, because the reader of an encoding expects
 * them there. */
#define S tn_plugin
static const tnm_member plugin_members[] = {
    SCALAR(TNM_U32, abi_major),
    SCALAR(TNM_U32, abi_minor),
    SCALAR(TNM_U32, min_host_minor),
    NAMED(TNM_FLAGS, flags, plugin_flags),
    SCALAR(TNM_U32, release),
    TEXT(name),
    TEXT(summary),
    TEXT(license),
    TEXT(opgen),
    ARRAY(TNM_POINTERS, operators, n_operators, &tnm_table_op),
    ARRAY(TNM_POINTERS, kernels, n_kernels, &table_kernel),
    ARRAY(TNM_POINTERS, targets, n_targets, &table_target),
    ARRAY(TNM_POINTERS, dependencies, n_dependencies, &table_dependency)};
#undef S
const tnm_table tnm_table_plugin =
    GROWING(tn_plugin, 128, plugin_members, RESERVED(tn_plugin));

/* Sizes of structs in the first ABI that has the struct. They stay the same
 * when a later ABI adds members. */
_Static_assert(sizeof(tn_field) >= 128 && sizeof(tn_arg) >= 120 &&
                   sizeof(tn_dtype_var) >= 24 && sizeof(tn_require) >= 24 &&
                   sizeof(tn_input_gradient) >= 32 &&
                   sizeof(tn_gradient) >= 32 && sizeof(tn_op) >= 192 &&
                   sizeof(tn_kernel) >= 136 && sizeof(tn_target) >= 32 &&
                   sizeof(tn_plugin) >= 128 && sizeof(tn_dependency) >= 16,
               "structs only grow");

void tnm_set_scalar(void *object, const tnm_member *m, uint64_t raw) {
  char *place = (char *)object + m->offset;
  if (m->form == TNM_I32 || m->form == TNM_I64)
    raw = (uint64_t)tnm_unzigzag(raw);
  uint32_t narrow = (uint32_t)raw;
  if (m->size == sizeof raw) memcpy(place, &raw, sizeof raw);
  if (m->size == sizeof narrow) memcpy(place, &narrow, sizeof narrow);
}

const void *tnm_get_pointer(const tnm_table *table, const void *object,
                            const tnm_member *m) {
  const void *pointer = NULL;
  if (tnm_has_member(table, object, m))
    memcpy(&pointer, (const char *)object + m->offset, sizeof pointer);
  return pointer;
}

uint32_t tnm_get_count(const tnm_table *table, const void *object,
                       const tnm_member *m) {
  uint32_t n = 0;
  if (tnm_has_member(table, object, m))
    memcpy(&n, (const char *)object + m->count, sizeof n);
  return n;
}

const void *tnm_get_element(const tnm_member *m, const void *array, size_t i) {
  if (m->form == TNM_POINTERS) return ((const void *const *)array)[i];
  return (const char *)array + i * m->of->size;
}
