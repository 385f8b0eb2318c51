/* SPDX-License-Identifier: Apache-2.0
 * emit_fields.c: writes the struct of an operator's parameters or a kernel's
 * options for the author, and the table by which the host fills it.
 */
#include <string.h>

#include "emit.h"

field_set fields_of_params(emit *e, const tnm_operator *op) {
  const op_names names = name_operator(e, op);
  field_set set = {.type = names.params,
                   .macro = names.macro,
                   .member = "params",
                   .local = name_format(e, "%s_param", names.local)};
  if (op->op != NULL) {
    set.fields = op->op->params;
    set.n = op->op->n_params;
    set.size = op->op->params_size;
  } else {
    set.fields = op->target->params;
    set.n = op->target->n_params;
    set.size = op->target->params_size;
  }
  return set;
}

field_set fields_of_options(emit *e, const tn_kernel *kernel) {
  const char *name = name_kernel(e, kernel);
  return (field_set){.fields = kernel->options,
                     .n = kernel->n_options,
                     .type = name_format(e, "%s_options", name),
                     .macro = name_identifier(e, name, true),
                     .member = "options",
                     .local = name_format(e, "%s_option", name),
                     .size = kernel->options_size};
}

/* --------------------------------------------------------------- the struct */

static const char *c_type(uint32_t type) {
  switch (type) {
    case TN_FIELD_INT:
      return "int64_t ";
    case TN_FIELD_FLOAT:
      return "double ";
    case TN_FIELD_STRING:
      return "const char *";
    case TN_FIELD_INTS:
      return "tn_ints ";
    case TN_FIELD_FLOATS:
      return "tn_floats ";
    case TN_FIELD_DTYPE:
      return "tn_dtype ";
    default: /* TN_FIELD_BOOL, TN_FIELD_ENUM */
      return "int32_t ";
  }
}

static const char *default_note(emit *e, const tn_field *field) {
  if (field->default_text == NULL) return "required";
  const char *quote = field->type == TN_FIELD_STRING ? "\"" : "";
  return name_format(e, "default %s%s%s", quote, field->default_text, quote);
}

static void emit_enum(emit *e, const field_set *set, const tn_field *field) {
  const char *name = name_identifier(e, field->name, true);
  c_comment(&e->c, name_format(e, "Values of `%s`.", field->name));
  c_add(&e->c, "enum {\n");
  for (uint32_t i = 0; i < field->n_values; ++i) {
    const char *value = name_format(e, "%s_%s_%s", set->macro, name,
                                    name_identifier(e, field->values[i], true));
    c_declare(&e->c, "enum", value, false);
    c_add(&e->c, "%s = %u,\n", value, (unsigned)i);
  }
  c_add(&e->c, "};\n\n");
}

static void declare_member(emit *e, const field_set *set, const char *before,
                           const tn_field *field) {
  c_declare(&e->c, "member",
            name_format(e, "%s.%s%s", set->type, before, field->name), false);
}

static void emit_member(emit *e, const field_set *set, const tn_field *field) {
  c_comment(&e->c, default_note(e, field));
  declare_member(e, set, "", field);
  c_add(&e->c, "%s%s;\n", c_type(field->type), field->name);
  if ((field->flags & TN_FIELD_OPTIONAL) == 0) return;
  declare_member(e, set, "has_", field);
  c_add(&e->c, "int32_t has_%s; /* 0: None */\n", field->name);
}

static void emit_accessor(emit *e, const field_set *set) {
  c_add(&e->c, "\n");
  c_function_head(
      &e->c,
      &(c_function){name_format(e, "static inline const %s *", set->type),
                    name_format(e, "%s_of", set->type), "const tn_frame *call",
                    " {"});
  c_add(&e->c, "return (const %s *)call->%s;\n}\n\n", set->type, set->member);
}

void emit_fields_struct(emit *e, const field_set *set) {
  if (set->n == 0) return;
  for (uint32_t i = 0; i < set->n; ++i) {
    emit_set_owner(e, set->member, set->fields[i]->name);
    if (set->fields[i]->type == TN_FIELD_ENUM)
      emit_enum(e, set, set->fields[i]);
  }
  emit_set_owner(e, NULL, NULL);
  c_declare(&e->c, "struct", set->type, false);
  c_add(&e->c, "typedef struct %s {\n", set->type);
  for (uint32_t i = 0; i < set->n; ++i) {
    emit_set_owner(e, set->member, set->fields[i]->name);
    emit_member(e, set, set->fields[i]);
  }
  emit_set_owner(e, NULL, NULL);
  c_add(&e->c, "} %s;\n", set->type);
  emit_accessor(e, set);
}

/* --------------------------------------------------------------- the tables */

static const char *const type_names[] = {
    "0",
    "TN_FIELD_BOOL",
    "TN_FIELD_INT",
    "TN_FIELD_FLOAT",
    "TN_FIELD_STRING",
    "TN_FIELD_ENUM",
    "TN_FIELD_INTS",
    "TN_FIELD_FLOATS",
    "TN_FIELD_DTYPE",
};

static const c_bit flag_bits[] = {
    {TN_FIELD_REQUIRED, "TN_FIELD_REQUIRED"},
    {TN_FIELD_OPTIONAL, "TN_FIELD_OPTIONAL"},
    {TN_FIELD_DYNAMIC, "TN_FIELD_DYNAMIC"},
    {TN_FIELD_HAS_MIN, "TN_FIELD_HAS_MIN"},
    {TN_FIELD_HAS_MAX, "TN_FIELD_HAS_MAX"},
    {TN_FIELD_ABOVE, "TN_FIELD_ABOVE"},
    {TN_FIELD_BELOW, "TN_FIELD_BELOW"},
    {TN_FIELD_NONZERO, "TN_FIELD_NONZERO"},
    {0, NULL},
};

static void emit_values(emit *e, const char *name, const tn_field *field) {
  if (field->n_values == 0) return;
  emit_pointers_open(e, "char", name_format(e, "%s_values", name));
  for (uint32_t i = 0; i < field->n_values; ++i)
    c_item_string(&e->c, field->values[i]);
  c_close(&e->c);
}

static void emit_has_offset(emit *e, const field_set *set,
                            const tn_field *field) {
  if ((field->flags & TN_FIELD_OPTIONAL) != 0)
    c_offsetof(&e->c, "has_offset", set->type,
               name_format(e, "has_%s", field->name));
  else
    c_index(&e->c, "has_offset", field->has_offset);
}

static void emit_field(emit *e, const field_set *set, const tn_field *field) {
  const char *name = name_format(e, "%s_%s", set->local, field->name);
  c_file *c = &e->c;
  emit_values(e, name, field);
  c_open(c, "static const tn_field", name);
  c_value(c, "struct_size", "sizeof(tn_field)");
  c_value(c, "type", type_names[field->type]);
  c_bits(c, "flags", flag_bits, field->flags);
  c_offsetof(c, "offset", set->type, field->name);
  emit_has_offset(e, set, field);
  c_u32(c, "since", field->since);
  c_u32(c, "deprecated_since", field->deprecated_since);
  c_index(c, "rank_of", field->rank_of);
  c_u32(c, "min_rank", field->min_rank);
  c_u32(c, "max_rank", field->max_rank);
  c_u32(c, "n_values", field->n_values);
  c_i64(c, "min_int", field->min_int);
  c_i64(c, "max_int", field->max_int);
  c_f64(c, "min_float", field->min_float);
  c_f64(c, "max_float", field->max_float);
  c_string(c, "name", field->name);
  c_string(c, "default_text", field->default_text);
  c_string(c, "doc", field->doc);
  c_string(c, "alias", field->alias);
  c_string(c, "use", field->use);
  if (field->n_values > 0)
    c_value(c, "values", name_format(e, "%s_values", name));
  c_close(c);
}

/* Asserts for the compiler that the struct has the layout in the note. */
static void emit_asserts(emit *e, const field_set *set) {
  c_assert_layout(&e->c, set->type, NULL, set->size);
  for (uint32_t i = 0; i < set->n; ++i)
    c_assert_layout(&e->c, set->type, set->fields[i]->name,
                    set->fields[i]->offset);
  c_add(&e->c, "\n");
}

void emit_fields_tables(emit *e, const field_set *set) {
  if (set->n == 0) return;
  emit_asserts(e, set);
  for (uint32_t i = 0; i < set->n; ++i) {
    emit_set_owner(e, set->member, set->fields[i]->name);
    emit_field(e, set, set->fields[i]);
  }
  emit_set_owner(e, NULL, NULL);
  emit_pointers_open(e, "tn_field", name_format(e, "%s_list", set->local));
  for (uint32_t i = 0; i < set->n; ++i)
    c_item(&e->c, name_format(e, "&%s_", set->local), set->fields[i]->name);
  c_close(&e->c);
}
