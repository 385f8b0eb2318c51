/* SPDX-License-Identifier: Apache-2.0
 * order.c: the order of the keys of a manifest: that of the schema's table.
 * Where keys are names (types, operands, formulas), the author's order stays,
 * because the ABI may depend on it.
 */
#include <string.h>

#include "layout.h"

/* In a mapping of schema `from`, the value of `key`, or each item of its list,
 * is a mapping of schema `to`. */
typedef struct nested_schema {
  const tnm_schema *from;
  const char *key;
  const tnm_schema *to;
} nested_schema;

#define BELOW_OPERATOR(schema)                        \
  {&(schema), "deprecated", &tnm_schema_deprecated},  \
      {&(schema), "params", &tnm_schema_param},       \
      {&(schema), "inputs", &tnm_schema_input},       \
      {&(schema), "outputs", &tnm_schema_output},     \
      {&(schema), "aux", &tnm_schema_aux},            \
      {&(schema), "require", &tnm_schema_require},    \
      {&(schema), "gradient", &tnm_schema_gradient},  \
      {&(schema), "binding", &tnm_schema_binding},    \
      {&(schema), "kernels", &tnm_schema_kernel},     \
      {&(schema), "examples", &tnm_schema_example}, { \
    &(schema), "gradcheck", &tnm_schema_gradcheck     \
  }

static const nested_schema nested_schemas[] = {
    BELOW_OPERATOR(tnm_schema_operator),
    BELOW_OPERATOR(tnm_schema_family),
    BELOW_OPERATOR(tnm_schema_member),
    {&tnm_schema_family, "each", &tnm_schema_member},
    {&tnm_schema_binding, "args", &tnm_schema_bound_arg},
    {&tnm_schema_binding, "returns", &tnm_schema_result},
    {&tnm_schema_kernels_for, "kernels", &tnm_schema_kernel},
    {&tnm_schema_kernels_for, "examples", &tnm_schema_example},
    {&tnm_schema_kernel, "state", &tnm_schema_state},
    {&tnm_schema_kernel, "workspace", &tnm_schema_workspace},
    {&tnm_schema_kernel, "options", &tnm_schema_param},
    {&tnm_schema_param, "deprecated", &tnm_schema_deprecated},
    {&tnm_schema_input, "deprecated", &tnm_schema_deprecated},
    {&tnm_schema_output, "deprecated", &tnm_schema_deprecated},
    {&tnm_schema_aux, "deprecated", &tnm_schema_deprecated},
};

const tnm_schema *tnm_schema_of_value(const tnm_schema *schema,
                                      const char *key) {
  if (schema == NULL || key == NULL) return NULL;
  for (size_t i = 0; i < sizeof nested_schemas / sizeof *nested_schemas; ++i)
    if (nested_schemas[i].from == schema &&
        strcmp(nested_schemas[i].key, key) == 0)
      return nested_schemas[i].to;
  return NULL;
}

/* Tests whether a mapping has a key of this name. */
static bool has_key(const tnm_syntax *map, const char *key) {
  for (const tnm_syntax *c = map->first; c != NULL; c = c->next)
    if (c->name != NULL && strcmp(c->name, key) == 0) return true;
  return false;
}

const tnm_schema *tnm_schema_document(const tnm_syntax *root) {
  if (root == NULL || root->kind != TNM_MAP) return NULL;
  if (has_key(root, "op")) return &tnm_schema_operator;
  if (has_key(root, "family")) return &tnm_schema_family;
  if (has_key(root, "kernels_for")) return &tnm_schema_kernels_for;
  return has_key(root, "plugin") ? &tnm_schema_plugin : NULL;
}

/* Returns the position of a key in the order of the schema. An unknown key of
 * an example is the name of an operand, and belongs between `params` and
 * `grad`. In other mappings an unknown key is a mistake, and goes to the end.
 */
static size_t find_key_position(const tnm_schema *schema, const char *name) {
  size_t rank = 0;
  for (const tnm_key *key = schema->keys; key->name != NULL; ++key, rank += 2)
    if (strcmp(key->name, name) == 0) return rank;
  return schema == &tnm_schema_example ? 5 : rank;
}

tnm_syntax **tnm_order_keys(tn__arena *arena, const tnm_schema *schema,
                            const tnm_syntax *map) {
  tnm_syntax **out = tn__arena_alloc(arena, (map->n + 1) * sizeof *out);
  size_t n = 0;
  if (out == NULL) return NULL;
  for (tnm_syntax *c = map->first; c != NULL; c = c->next) {
    size_t at = n++;
    while (schema != NULL && at > 0 && c->name != NULL &&
           out[at - 1]->name != NULL &&
           find_key_position(schema, out[at - 1]->name) >
               find_key_position(schema, c->name)) {
      out[at] = out[at - 1];
      --at;
    }
    out[at] = c;
  }
  return out;
}
