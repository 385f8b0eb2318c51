/* SPDX-License-Identifier: Apache-2.0
 * describe.c: the constant tables of a plugin in words for people. Works on
 * loaded plugins and on inspected files alike: it calls no function of theirs.
 */
#include <inttypes.h>

#include "tenon_tool.h"

const char *describe_dtype(const tn_op *op, const tn_arg *arg) {
  if (arg->dtype_var < op->n_dtype_vars)
    return op->dtype_vars[arg->dtype_var]->name;
  if (arg->dtype_param < op->n_params)
    return op->params[arg->dtype_param]->name;
  return dtype_name(arg->dtype);
}

/* Name of an operand that a rule refers to. */
static const char *operand_name(const tn_op *op, uint32_t list,
                                uint32_t index) {
  if (list == TN_OPERAND_IN && index < op->n_inputs)
    return op->inputs[index]->name;
  if (list == TN_OPERAND_OUT && index < op->n_outputs)
    return op->outputs[index]->name;
  if (list == TN_OPERAND_AUX && index < op->n_aux) return op->aux[index]->name;
  return "?";
}

static bool is_input(const tn_op *op, const tn_arg *arg) {
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if (op->inputs[i] == arg) return true;
  return false;
}

void describe_shape(const tn_op *op, const tn_arg *arg, text *out) {
  switch (arg->shape_kind) {
    case TN_SHAPE_SAME:
      text_add(out, "as %s",
               operand_name(op, arg->shape_list, arg->shape_index));
      break;
    case TN_SHAPE_BROADCAST:
      text_add(out, is_input(op, arg) ? "broadcast of the other inputs"
                                      : "broadcast of all inputs");
      break;
    case TN_SHAPE_HOOK:
      text_add(out, "decided by the plugin");
      break;
    case TN_SHAPE_PATTERN:
      text_add(out, "%s", arg->shape_text ? arg->shape_text : "a pattern");
      break;
    default:
      text_add(out, "any shape");
      break;
  }
}

const char *describe_field_type(const tn_field *field) {
  switch (field->type) {
    case TN_FIELD_BOOL:
      return "bool";
    case TN_FIELD_INT:
      return "int";
    case TN_FIELD_FLOAT:
      return "float";
    case TN_FIELD_STRING:
      return "string";
    case TN_FIELD_ENUM:
      return "enum";
    case TN_FIELD_INTS:
      return "ints";
    case TN_FIELD_FLOATS:
      return "floats";
    case TN_FIELD_DTYPE:
      return "dtype";
    default:
      return "?";
  }
}

static void add_limit(const tn_field *field, bool upper, text *out) {
  bool integer = field->type == TN_FIELD_INT || field->type == TN_FIELD_INTS;
  if (integer) {
    text_add(out, "%" PRId64, upper ? field->max_int : field->min_int);
  } else {
    double limit = upper ? field->max_float : field->min_float;
    number_add(out, TN_F64, &limit);
  }
}

static void add_range(const tn_field *field, text *out) {
  bool has_min = field->flags & TN_FIELD_HAS_MIN;
  bool has_max = field->flags & TN_FIELD_HAS_MAX;
  bool above = field->flags & TN_FIELD_ABOVE;
  bool below = field->flags & TN_FIELD_BELOW;
  if (has_min && has_max && !above && !below) {
    add_limit(field, false, out);
    text_add(out, "..");
    add_limit(field, true, out);
  } else {
    if (has_min) text_add(out, above ? "> " : ">= ");
    if (has_min) add_limit(field, false, out);
    if (has_max)
      text_add(out, "%s%s ", has_min ? ", " : "", below ? "<" : "<=");
    if (has_max) add_limit(field, true, out);
  }
  if (field->flags & TN_FIELD_NONZERO)
    text_add(out, "%snot 0", has_min || has_max ? ", " : "");
}

static void add_length(const tn_op *op, const tn_field *field, text *out) {
  if (field->rank_of < op->n_params) {
    text_add(out, "as many as %s", op->params[field->rank_of]->name);
  } else if (field->max_rank == TN_NONE) {
    if (field->min_rank) text_add(out, "%" PRIu32 " or more", field->min_rank);
  } else if (field->max_rank == field->min_rank) {
    text_add(out, "%" PRIu32 " of them", field->min_rank);
  } else {
    text_add(out, "%" PRIu32 "..%" PRIu32 " of them", field->min_rank,
             field->max_rank);
  }
}

void describe_field_range(const tn_op *op, const tn_field *field, text *out) {
  size_t before = out->n;
  for (uint32_t i = 0; i < field->n_values; ++i)
    text_add(out, "%s%s", i ? "|" : "", field->values[i]);
  add_range(field, out);
  if (field->type != TN_FIELD_INTS && field->type != TN_FIELD_FLOATS) return;
  if (out->n > before) text_add(out, ", ");
  size_t comma = out->n;
  add_length(op, field, out);
  if (out->n > comma || comma == before) return;
  out->n = comma - 2; /* nothing followed the comma */
  out->data[out->n] = '\0';
}

void describe_field_notes(const tn_field *field, text *out) {
  const char *separator = " (";
  if (field->alias) {
    text_add(out, "%salso %s", separator, field->alias);
    separator = ", ";
  }
  if (field->flags & TN_FIELD_DYNAMIC) {
    text_add(out, "%smay change between calls", separator);
    separator = ", ";
  }
  if (field->deprecated_since) {
    text_add(out, "%sdeprecated", separator);
    separator = ", ";
  }
  if (*separator == ',') text_add(out, ")");
}

/* Of inputs that says nothing. */
bool describe_is_counted(const tn_op *op, const tn_arg *arg) {
  return !is_input(op, arg) && arg->count < op->n_nodes;
}

void describe_count(const tn_op *op, const tn_arg *arg, text *out) {
  const tn_node *node = &op->nodes[arg->count];
  if (node->op == TN_NODE_PARAM && node->a >= 0 &&
      (uint32_t)node->a < op->n_params)
    text_add(out, "as many as %s says", op->params[node->a]->name);
  else
    text_add(out, "as many as parameters and inputs say");
}

/* --------------------------------------------------------------- signature */

static void add_arg(const tn_op *op, const tn_arg *arg, text *out) {
  const bool many =
      arg->flags & TN_ARG_VARIADIC || describe_is_counted(op, arg);
  text_add(out, "%s%s: %s", arg->name,
           many                           ? "..."
           : arg->flags & TN_ARG_OPTIONAL ? "?"
                                          : "",
           describe_dtype(op, arg));
}

static void add_inputs(const tn_op *op, text *out) {
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    if (i) text_add(out, ", ");
    add_arg(op, op->inputs[i], out);
  }
}

static void add_params(const tn_op *op, text *out) {
  for (uint32_t i = 0; i < op->n_params; ++i) {
    const tn_field *field = op->params[i];
    text_add(out, "%s%s", i ? ", " : "", field->name);
    if (field->default_text) text_add(out, "=%s", field->default_text);
  }
}

void describe_signature(const tn_op *op, text *out) {
  text_add(out, "(");
  add_inputs(op, out);
  if (op->n_inputs && op->n_params) text_add(out, "; ");
  add_params(op, out);
  text_add(out, ") ->");
  const char *separator = " ";
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    if (op->outputs[i]->flags & TN_ARG_HIDDEN) continue;
    text_add(out, "%s", separator);
    add_arg(op, op->outputs[i], out);
    separator = ", ";
  }
}

void describe_kernel_dtypes(const tn_kernel *kernel, text *out) {
  const char *separator = "";
  for (uint32_t i = 0; i < kernel->n_dtype_sets; ++i) {
    text_add(out, "%s", separator);
    if (kernel->dtype_sets[i])
      dtype_set_add(out, kernel->dtype_sets[i]);
    else
      text_add(out, "all");
    separator = ", ";
  }
  if (!kernel->n_dtype_sets) text_add(out, "all");
}
