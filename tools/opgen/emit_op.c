/* SPDX-License-Identifier: Apache-2.0
 * emit_op.c: writes the meaning of an operator as the constant tables of op.h.
 * A table follows the tables it refers to. Zero members are omitted, so that
 * every written member matters.
 */
#include <inttypes.h>
#include <string.h>

#include "emit.h"

const c_bit dtype_bits[] = {
    {TN_BIT_F16, "TN_BIT_F16"},
    {TN_BIT_BF16, "TN_BIT_BF16"},
    {TN_BIT_F32, "TN_BIT_F32"},
    {TN_BIT_F64, "TN_BIT_F64"},
    {TN_BIT_I8, "TN_BIT_I8"},
    {TN_BIT_I16, "TN_BIT_I16"},
    {TN_BIT_I32, "TN_BIT_I32"},
    {TN_BIT_I64, "TN_BIT_I64"},
    {TN_BIT_U8, "TN_BIT_U8"},
    {TN_BIT_U16, "TN_BIT_U16"},
    {TN_BIT_U32, "TN_BIT_U32"},
    {TN_BIT_U64, "TN_BIT_U64"},
    {TN_BIT_BOOL, "TN_BIT_BOOL"},
    {TN_BIT_F8E4M3FN, "TN_BIT_F8E4M3FN"},
    {TN_BIT_F8E4M3FNUZ, "TN_BIT_F8E4M3FNUZ"},
    {TN_BIT_F8E5M2, "TN_BIT_F8E5M2"},
    {TN_BIT_F8E5M2FNUZ, "TN_BIT_F8E5M2FNUZ"},
    {TN_BIT_F8E8M0, "TN_BIT_F8E8M0"},
    {TN_BIT_F4E2M1, "TN_BIT_F4E2M1"},
    {TN_BIT_I4, "TN_BIT_I4"},
    {TN_BIT_U4, "TN_BIT_U4"},
    {TN_BIT_I2, "TN_BIT_I2"},
    {TN_BIT_U2, "TN_BIT_U2"},
    {0, "0"},
};

static const c_bit arg_bits[] = {
    {TN_ARG_OPTIONAL, "TN_ARG_OPTIONAL"},
    {TN_ARG_VARIADIC, "TN_ARG_VARIADIC"},
    {TN_ARG_HIDDEN, "TN_ARG_HIDDEN"},
    {TN_ARG_CONTIGUOUS, "TN_ARG_CONTIGUOUS"},
    {TN_ARG_DYNAMIC, "TN_ARG_DYNAMIC"},
    {TN_ARG_TRAINED, "TN_ARG_TRAINED"},
    {TN_ARG_VIEW, "TN_ARG_VIEW"},
    {0, NULL},
};

static const char *const shape_kinds[] = {
    NULL,
    "TN_SHAPE_PATTERN",
    "TN_SHAPE_SAME",
    "TN_SHAPE_BROADCAST",
    "TN_SHAPE_HOOK",
};

static const char *const roles[] = {NULL, "TN_ROLE_WEIGHT", "TN_ROLE_LABEL",
                                    "TN_ROLE_LOSS"};

static const char *const operand_lists[] = {NULL, "TN_OPERAND_OUT",
                                            "TN_OPERAND_AUX"};

const char *name_if(emit *e, uint32_t n, const char *name, const char *suffix) {
  return n == 0 ? NULL : name_format(e, "%s_%s", name, suffix);
}

void emit_pointers_open(emit *e, const char *type, const char *name) {
  c_open_list(&e->c, name_format(e, "static const %s", type),
              name_format(e, "*const %s", name));
}

/* -------------------------------------------------------------------- nodes */

static const char *node_name(uint32_t op) {
  static const char *const names[] = {
      [TN_NODE_CONST] = "TN_NODE_CONST",
      [TN_NODE_DIM] = "TN_NODE_DIM",
      [TN_NODE_PACK] = "TN_NODE_PACK",
      [TN_NODE_PARAM] = "TN_NODE_PARAM",
      [TN_NODE_RANK] = "TN_NODE_RANK",
      [TN_NODE_OPERAND_RANK] = "TN_NODE_OPERAND_RANK",
      [TN_NODE_OPERAND_SIZE] = "TN_NODE_OPERAND_SIZE",
      [TN_NODE_OPERAND_SHAPE] = "TN_NODE_OPERAND_SHAPE",
      [TN_NODE_HAS] = "TN_NODE_HAS",
      [TN_NODE_NEG] = "TN_NODE_NEG",
      [TN_NODE_ADD] = "TN_NODE_ADD",
      [TN_NODE_SUB] = "TN_NODE_SUB",
      [TN_NODE_MUL] = "TN_NODE_MUL",
      [TN_NODE_DIV] = "TN_NODE_DIV",
      [TN_NODE_MOD] = "TN_NODE_MOD",
      [TN_NODE_POW] = "TN_NODE_POW",
      [TN_NODE_MIN] = "TN_NODE_MIN",
      [TN_NODE_MAX] = "TN_NODE_MAX",
      [TN_NODE_ABS] = "TN_NODE_ABS",
      [TN_NODE_EQ] = "TN_NODE_EQ",
      [TN_NODE_NE] = "TN_NODE_NE",
      [TN_NODE_LT] = "TN_NODE_LT",
      [TN_NODE_LE] = "TN_NODE_LE",
      [TN_NODE_GT] = "TN_NODE_GT",
      [TN_NODE_GE] = "TN_NODE_GE",
      [TN_NODE_SELECT] = "TN_NODE_SELECT",
      [TN_NODE_COMPARE_PARAMS] = "TN_NODE_COMPARE_PARAMS",
  };
  return names[op];
}

static const char *node_part(emit *e, const char *field, int64_t value) {
  if (value == 0) return "";
  return name_format(e, ", .%s = %" PRId64, field, value);
}

void emit_nodes(emit *e, const char *name, const tn_node *nodes, uint32_t n) {
  if (n == 0) return;
  c_open_list(&e->c, "static const tn_node", name);
  for (uint32_t i = 0; i < n; ++i)
    c_item(&e->c, "",
           name_format(e, "{.op = %s%s%s%s%s}", node_name(nodes[i].op),
                       node_part(e, "a", nodes[i].a),
                       node_part(e, "b", nodes[i].b),
                       node_part(e, "c", nodes[i].c),
                       node_part(e, "value", nodes[i].value)));
  c_close(&e->c);
}

/* ----------------------------------------------------------------- operands */

static void emit_terms(emit *e, const char *name, const tn_arg *arg) {
  if (arg->n_terms == 0) return;
  c_open_list(&e->c, "static const tn_term", name_format(e, "%s_shape", name));
  for (uint32_t i = 0; i < arg->n_terms; ++i)
    c_item(&e->c, "",
           name_format(e, "{.node = %" PRId32 "%s}", arg->terms[i].node,
                       arg->terms[i].spread ? ", .spread = 1" : ""));
  c_close(&e->c);
}

static const char *dtype_macro(emit *e, tn_dtype dtype) {
  if (dtype == TN_DTYPE_UNKNOWN) return NULL;
  return name_format(e, "TN_%s",
                     name_identifier(e, tn__dtype_name(dtype), true));
}

static void emit_arg_text(emit *e, const tn_arg *arg) {
  c_string(&e->c, "name", arg->name);
  c_string(&e->c, "doc", arg->doc);
  c_string(&e->c, "shape_text", arg->shape_text);
  c_string(&e->c, "formula", arg->formula);
  c_string(&e->c, "initial", arg->initial);
  c_string(&e->c, "use", arg->use);
}

static void emit_arg(emit *e, const char *prefix, const tn_arg *arg) {
  const char *name = name_format(e, "%s_%s", prefix, arg->name);
  c_file *c = &e->c;
  emit_terms(e, name, arg);
  c_open(c, "static const tn_arg", name);
  c_value(c, "struct_size", "sizeof(tn_arg)");
  c_bits(c, "flags", arg_bits, arg->flags);
  c_value(c, "role", roles[arg->role]);
  c_u32(c, "since", arg->since);
  c_u32(c, "deprecated_since", arg->deprecated_since);
  c_index(c, "dtype_var", arg->dtype_var);
  c_value(c, "dtype", dtype_macro(e, arg->dtype));
  c_index(c, "dtype_param", arg->dtype_param);
  c_value(c, "shape_kind", shape_kinds[arg->shape_kind]);
  c_value(c, "shape_list", operand_lists[arg->shape_list]);
  if (arg->shape_kind == TN_SHAPE_SAME)
    c_index(c, "shape_index", arg->shape_index);
  c_u32(c, "n_terms", arg->n_terms);
  c_index(c, "inplace", arg->inplace);
  c_index(c, "init", arg->init);
  c_index(c, "count", arg->count);
  c_value(c, "terms", name_if(e, arg->n_terms, name, "shape"));
  emit_arg_text(e, arg);
  c_close(c);
}

typedef struct arg_list {
  const char *list; /* "inputs" */
  const tn_arg *const *args;
  uint32_t n;
  const char *kind; /* "input" */
} arg_list;

static void emit_args(emit *e, const char *local, const arg_list *list) {
  if (list->n == 0) return;
  const char *prefix = name_format(e, "%s_%s", local, list->kind);
  for (uint32_t i = 0; i < list->n; ++i) {
    emit_set_owner(e, list->list, list->args[i]->name);
    emit_arg(e, prefix, list->args[i]);
  }
  emit_set_owner(e, NULL, NULL);
  emit_pointers_open(e, "tn_arg", name_format(e, "%s_list", prefix));
  for (uint32_t i = 0; i < list->n; ++i)
    c_item(&e->c, name_format(e, "&%s_", prefix), list->args[i]->name);
  c_close(&e->c);
}

/* ----------------------------------------------- variables and requirements */

static void emit_dtype_vars(emit *e, const char *local, const tn_op *op) {
  if (op->n_dtype_vars == 0) return;
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    const tn_dtype_var *var = op->dtype_vars[i];
    c_open(&e->c, "static const tn_dtype_var",
           name_format(e, "%s_dtype_%s", local, var->name));
    c_value(&e->c, "struct_size", "sizeof(tn_dtype_var)");
    c_bits(&e->c, "allowed", dtype_bits, var->allowed);
    c_string(&e->c, "name", var->name);
    c_close(&e->c);
  }
  emit_pointers_open(e, "tn_dtype_var", name_format(e, "%s_dtypes", local));
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i)
    c_item(&e->c, name_format(e, "&%s_dtype_", local), op->dtype_vars[i]->name);
  c_close(&e->c);
}

static void emit_strings(emit *e, const char *name, const char *const *strings,
                         uint32_t n) {
  if (n == 0) return;
  emit_pointers_open(e, "char", name);
  for (uint32_t i = 0; i < n; ++i) c_item_string(&e->c, strings[i]);
  c_close(&e->c);
}

static void emit_requires(emit *e, const char *local, const tn_op *op) {
  if (op->n_requires == 0) return;
  for (uint32_t i = 0; i < op->n_requires; ++i) {
    c_open(&e->c, "static const tn_require",
           name_format(e, "%s_require_%" PRIu32, local, i));
    c_value(&e->c, "struct_size", "sizeof(tn_require)");
    c_index(&e->c, "node", op->requirements[i]->node);
    c_string(&e->c, "that", op->requirements[i]->that);
    c_string(&e->c, "say", op->requirements[i]->say);
    c_close(&e->c);
  }
  emit_pointers_open(e, "tn_require", name_format(e, "%s_requires", local));
  for (uint32_t i = 0; i < op->n_requires; ++i)
    c_item(&e->c, "", name_format(e, "&%s_require_%" PRIu32, local, i));
  c_close(&e->c);
}

/* ------------------------------------------------------------- the operator */

static void emit_op_head(emit *e, const tn_op *op) {
  c_file *c = &e->c;
  c_value(c, "struct_size", "sizeof(tn_op)");
  c_value(
      c, "flags",
      (op->flags & TN_OP_BACKWARD_ONLY) != 0 ? "TN_OP_BACKWARD_ONLY" : NULL);
  c_u32(c, "interface", op->interface);
  c_u32(c, "since", op->since);
  c_u32(c, "deprecated_since", op->deprecated_since);
}

static void emit_op_counts(emit *e, const char *params, const tn_op *op) {
  c_file *c = &e->c;
  if (op->params_size != 0)
    c_value(c, "params_size", name_format(e, "sizeof(%s)", params));
  c_u32(c, "n_params", op->n_params);
  c_u32(c, "n_dtype_vars", op->n_dtype_vars);
  c_u32(c, "n_inputs", op->n_inputs);
  c_u32(c, "n_outputs", op->n_outputs);
  c_u32(c, "n_aux", op->n_aux);
  c_u32(c, "n_dims", op->n_dims);
  c_u32(c, "n_packs", op->n_packs);
  c_u32(c, "n_nodes", op->n_nodes);
  c_u32(c, "n_requires", op->n_requires);
}

static void emit_op_lists(emit *e, const char *local, const tn_op *op) {
  c_file *c = &e->c;
  c_value(c, "params", name_if(e, op->n_params, local, "param_list"));
  c_value(c, "dtype_vars", name_if(e, op->n_dtype_vars, local, "dtypes"));
  c_value(c, "inputs", name_if(e, op->n_inputs, local, "input_list"));
  c_value(c, "outputs", name_if(e, op->n_outputs, local, "output_list"));
  c_value(c, "aux", name_if(e, op->n_aux, local, "aux_list"));
  c_value(c, "dims", name_if(e, op->n_dims, local, "dims"));
  c_value(c, "packs", name_if(e, op->n_packs, local, "packs"));
  c_value(c, "nodes", name_if(e, op->n_nodes, local, "nodes"));
  c_value(c, "requirements", name_if(e, op->n_requires, local, "requires"));
  if (op->gradient != NULL)
    c_value(c, "gradient", name_format(e, "&%s_gradient", local));
}

/* A plugin for hosts older than 0.2 is compiled without the family. */
static void emit_family(c_file *c, const char *family) {
  if (family == NULL) return;
  c_add(c, "#if TN_TARGET_MINOR >= 2\n");
  c_string(c, "family", family);
  c_add(c, "#endif\n");
}

static void emit_op_table(emit *e, const op_names *names,
                          const tnm_operator *op) {
  c_file *c = &e->c;
  c_open(c, "const tn_op", name_format(e, "%s_op", names->symbol));
  emit_op_head(e, op->op);
  emit_op_counts(e, names->params, op->op);
  c_string(c, "name", op->op->name);
  c_string(c, "summary", op->op->summary);
  c_string(c, "doc", op->op->doc);
  c_string(c, "replaces", op->op->replaces);
  c_string(c, "use", op->op->use);
  emit_op_lists(e, names->local, op->op);
  c_value(c, "infer",
          op->axes == NULL ? op->infer_symbol
                           : name_format(e, "%s_infer", names->local));
  emit_family(c, op->op->family);
  c_close(c);
}

void emit_op(emit *e, const tnm_operator *source) {
  const op_names names = name_operator(e, source);
  const field_set params = fields_of_params(e, source);
  const tn_op *op = source->op;
  emit_fields_tables(e, &params);
  emit_dtype_vars(e, names.local, op);
  emit_nodes(e, name_format(e, "%s_nodes", names.local), op->nodes,
             op->n_nodes);
  emit_args(e, names.local,
            &(arg_list){"inputs", op->inputs, op->n_inputs, "input"});
  emit_args(e, names.local,
            &(arg_list){"outputs", op->outputs, op->n_outputs, "output"});
  emit_args(e, names.local, &(arg_list){"aux", op->aux, op->n_aux, "aux"});
  emit_strings(e, name_format(e, "%s_dims", names.local), op->dims, op->n_dims);
  emit_strings(e, name_format(e, "%s_packs", names.local), op->packs,
               op->n_packs);
  emit_requires(e, names.local, op);
  emit_gradient(e, names.local, op);
  emit_op_table(e, &names, source);
}
