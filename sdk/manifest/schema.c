/* SPDX-License-Identifier: Apache-2.0
 * schema.c: the table of keys: every mapping of a manifest, its keys, the forms
 * of their values, and their meaning. The reference manual is printed from it.
 */
#include <string.h>

#include "front.h"

#define S TNM_SCALAR
#define L TNM_LIST
#define M TNM_MAP

static const tnm_key plugin_keys[] = {
    {"opgen", S, true, "format of the manifest: 1"},
    {"plugin", S, true, "name; the namespace of the plugin's operators"},
    {"release", S, true, "number of the plugin's release, from 1"},
    {"summary", S, true, "one line, with a capital and without a full stop"},
    {"license", S, true, "SPDX expression, such as Apache-2.0"},
    {"operators", L, true, "files of the operators; their order is ABI"},
    {"init", S, false, "C function that runs when the plugin is loaded"},
    {"fini", S, false, "C function that undoes it"},
    {"requires", M, false,
     "plugins that are loaded before it, with their least release: "
     "`{elemwise: \">=2\"}`"},
    {"unloadable", S, false,
     "true: no thread, no exit handler, no pointer outlives the plugin"},
    {NULL, 0, false, NULL}};

#define FAMILY_WORDS "one or a few words, such as `linear algebra`"

/* The keys of an operator, in the order in which `opgen fmt` writes them.
 * `must` is true if the required keys must be in this mapping, and false if a
 * family may have them instead. */
#define OPERATOR_KEYS(must)                                                  \
  {"interface", S, false, "release of the operator's own interface; 1"},     \
      {"replaces", S, false, "operator of another plugin to replace"},       \
      {"backward_only", S, false,                                            \
       "true: gradients use it; it is not listed for users"},                \
      {"since", S, false, "plugin release that introduced it; 1"},           \
      {"deprecated", M, false, "since when, and the replacement"},           \
      {"summary", S, must,                                                   \
       "one line, with a capital and without a full stop"},                  \
      {"doc", S, false, "Markdown"},                                         \
      {"params", L, false, "parameters; their order is ABI"},                \
      {"dtypes", M, false, "type variables, each with the types it may be"}, \
      {"axes", L | M, false,                                                 \
       "name of the axes over which formulas reduce: a parameter, "          \
       "`[axis]`, or a number, `{channel: 1}`"},                             \
      {"inputs", L, false, "inputs; their order is ABI"},                    \
      {"outputs", L, must, "outputs; their order is ABI"},                   \
      {"aux", L, false, "states that the operator changes"},                 \
      {"require", L, false, "conditions on parameters and shapes"},          \
      {"forward", M, false, "a formula for every output"},                   \
      {"binding", M, false, "a function of an existing library"},            \
      {"gradient", S | M, false,                                             \
       "`auto`, `none`, `{formula: ...}`, `{graph: ...}` or "                \
       "`{kernel: backward, needs: ...}`"},                                  \
      {"kernels", L, false, "kernels written by hand"},                      \
      {"examples", L, false, "inputs with the outputs they must give"},      \
      {"batch_invariant", S, false,                                          \
       "true: a row of the first input's first axis has the same results "   \
       "in every batch; tests compare"},                                     \
  {                                                                          \
    "gradcheck", M, false, "settings of the numeric gradient check"          \
  }

static const tnm_key operator_keys[] = {
    {"opgen", S, true, "format of the manifest: 1"},
    {"op", S, true, "name of the operator"},
    {"family", S, false, "its group in lists: " FAMILY_WORDS},
    OPERATOR_KEYS(true),
    {NULL, 0, false, NULL}};

static const tnm_key family_keys[] = {
    {"opgen", S, true, "format of the manifest: 1"},
    {"family", S, true, FAMILY_WORDS},
    OPERATOR_KEYS(false),
    {"each", L, true, "its members, each with `op` and its own keys"},
    {NULL, 0, false, NULL}};

static const tnm_key member_keys[] = {
    {"op", S, true, "name of the operator"},
    {"family", S, false, "another family than that of the document"},
    OPERATOR_KEYS(false),
    {NULL, 0, false, NULL}};

static const tnm_key kernels_for_keys[] = {
    {"opgen", S, true, "format of the manifest: 1"},
    {"kernels_for", S, true, "operator of another plugin: `nn.softmax@1`"},
    {"kernels", L, true, "kernels written by hand"},
    {"examples", L, false,
     "calls that the operator's own examples do not make, with their results"},
    {NULL, 0, false, NULL}};

static const tnm_key param_keys[] = {
    {"name", S, true, "name, lower case"},
    {"type", S, true, "bool int float string enum ints floats dtype"},
    {"rank", S, false, "length of a list: `2`, `1..3`, or another parameter"},
    {"values", L, false, "names of an enum, or types that a dtype takes"},
    {"optional", S, false, "true: None is a value"},
    {"default", S | L, false, "value if none is given; without: required"},
    {"min", S, false, "least value"},
    {"max", S, false, "greatest value"},
    {"above", S, false, "greatest number below all values"},
    {"below", S, false, "least number above all values"},
    {"nonzero", S, false, "true: 0 is no value"},
    {"alias", S, false, "second name"},
    {"dynamic", S, false, "true: may change between calls without preparing"},
    {"doc", S, false, "Markdown, one line"},
    {"since", S, false, "plugin release that introduced it"},
    {"deprecated", M, false, "since when, and the replacement"},
    {NULL, 0, false, NULL}};

static const tnm_key input_keys[] = {
    {"name", S, true, "name, lower case"},
    {"dtype", S, true, "type, type variable, or a parameter of type dtype"},
    {"shape", S | L | M, false, "operand, pattern, or `{c: function}`"},
    {"independent", S, false, "true: no rule relates its shape to others"},
    {"role", S, false, "data, weight or label"},
    {"optional", S, false, "true: may be absent"},
    {"variadic", S, false, "true: any number of them; the last input"},
    {"layout", S, false, "any or contiguous"},
    {"doc", S, false, "Markdown, one line"},
    {"since", S, false, "plugin release that introduced it"},
    {"deprecated", M, false, "since when, and the replacement"},
    {NULL, 0, false, NULL}};

static const tnm_key output_keys[] = {
    {"name", S, true, "name, lower case"},
    {"dtype", S, true, "type, type variable, or a parameter of type dtype"},
    {"shape", S | L | M, true,
     "operand, `broadcast`, `dynamic`, pattern, or `{c: function}`"},
    {"role", S, false,
     "data, or loss: an output with ones as the default output gradient; data"},
    {"inplace", S | L, false, "inputs that may give it their memory"},
    {"view", S, false, "input with the same elements in the same order"},
    {"init", S, false, "input that it starts as a copy of"},
    {"hidden", S, false, "true: users do not see it; trailing outputs only"},
    {"count", S, false, "how many there are, an expression over parameters"},
    {"layout", S, false, "any or contiguous"},
    {"doc", S, false, "Markdown, one line"},
    {"since", S, false, "plugin release that introduced it"},
    {"deprecated", M, false, "since when, and the replacement"},
    {NULL, 0, false, NULL}};

static const tnm_key aux_keys[] = {
    {"name", S, true, "name, lower case"},
    {"dtype", S, true, "type, type variable, or a parameter of type dtype"},
    {"shape", S | L | M, true, "operand, pattern, or `{c: function}`"},
    {"init", S, false, "number that every element starts as"},
    {"changes", S, false, "always, or training: other calls only read it"},
    {"layout", S, false, "any or contiguous"},
    {"doc", S, false, "Markdown, one line"},
    {"since", S, false, "plugin release that introduced it"},
    {"deprecated", M, false, "since when, and the replacement"},
    {NULL, 0, false, NULL}};

static const tnm_key hook_keys[] = {
    {"c", S, true, "C function that infers the shapes"},
    {NULL, 0, false, NULL}};

static const tnm_key line_keys[] = {
    {"line", S, false, "axes: the shape of the loop with 1 along them"},
    {"place", S, false, "axes: the lengths of these axes alone"},
    {NULL, 0, false, NULL}};

static const tnm_key require_keys[] = {
    {"that", S, true, "condition over parameters and dimensions"},
    {"say", S, true, "the message when it does not hold"},
    {NULL, 0, false, NULL}};

static const tnm_key deprecated_keys[] = {
    {"since", S, true, "plugin release that deprecated it"},
    {"use", S, true, "the replacement"},
    {NULL, 0, false, NULL}};

static const tnm_key gradient_keys[] = {
    {"formula", M, false, "input -> scalar expression"},
    {"graph", M, false, "input -> calls of other operators"},
    {"auto", S, false, "true: derived from `forward`"},
    {"kernel", S, false, "`backward`: every kernel supplies it"},
    {"needs", M, false, "input -> the operands that its gradient reads"},
    {"linear", L, false, "groups of inputs in which outputs are linear"},
    {"stop", L, false, "inputs that are never differentiated"},
    {"inplace", M, false,
     "input -> operands of the backward call that may give its gradient their "
     "memory"},
    {"none", S, false, "true: the operator has no gradient"},
    {"why", S, false, "the reason, shown when a gradient is requested"},
    {NULL, 0, false, NULL}};

static const tnm_key kernel_keys[] = {
    {"device", S, true, "cpu or cuda"},
    {"requires", M, false, "other requirements: `{cudnn: \">=8.0\"}`"},
    {"priority", S, false, "the highest that applies wins; 10"},
    {"when", S, false, "condition over parameters, ranks, sizes and shapes"},
    {"supports", S, false, "C function that may decline a call"},
    {"forward", S, false, "C function"},
    {"backward", S, false, "C function"},
    {"dtypes", L | M, false, "types it takes; all of the operator's"},
    {"writes", L, false, "write, add, inplace; write"},
    {"inplace", M, false,
     "output or grad.<input> -> fewer operands that may give it their memory"},
    {"state", M, false, "data that calls share"},
    {"workspace", M, false, "scratch memory"},
    {"resources", L, false, "rng, order"},
    {"options", L, false, "settings of the kernel, written like params"},
    {"registers", S, false,
     "C function that offers register kernels (registers.h)"},
    {"flags", L, false,
     "elementwise, reduction, reentrant, deterministic, capturable, async, "
     "wide_out, later"},
    {NULL, 0, false, NULL}};

static const tnm_key state_keys[] = {
    {"type", S, true, "C type"},
    {"create", S, true, "C function"},
    {"destroy", S, true, "C function"},
    {"key", L, false, "its dependencies: params, shapes, dtypes"},
    {NULL, 0, false, NULL}};

static const tnm_key workspace_keys[] = {
    {"bytes", S, true, "C function that says how many"},
    {"align", S, false, "power of two; 64"},
    {"max", S, false, "most that it may ask for: `64MiB`"},
    {NULL, 0, false, NULL}};

static const tnm_key binding_keys[] = {
    {"library", S | L, true,
     "file of the library; of several, the first that "
     "loads"},
    {"symbol", S, true, "function"},
    {"returns", S | M, false,
     "void, `{c: int32, ok: 0}` or `{c: float, to: out}`; void"},
    {"map", S, false, "input: a call for each of its elements; one call"},
    {"thread", S, false, "any: calls may overlap; one: they take turns; one"},
    {"args", L, true, "its arguments, in the order of C"},
    {NULL, 0, false, NULL}};

static const tnm_key bound_arg_keys[] = {
    {"c", S, true, "type in C: int8 ... uint64, float, double, `const float*`"},
    {"pass", S, false,
     "operand, parameter, number, or integer expression such as `size(x)`"},
    {"by", S, false, "`address`: a pointer to the number"},
    {"text", S, false, "constant text, in place of `pass`"},
    {NULL, 0, false, NULL}};

static const tnm_key result_keys[] = {
    {"c", S, true, "type in C"},
    {"ok", S, false, "the value that means success"},
    {"to", S, false, "output of one element that takes the value"},
    {NULL, 0, false, NULL}};

static const tnm_key example_keys[] = {
    {"name", S, true, "name, lower case"},
    {"training", S, false, "`true`: the call is one of training"},
    {"params", M, false, "parameter -> value"},
    {"grad", M, false, "output or input -> its gradient"},
    {"tol", S, false, "tolerance of the comparison"},
    {NULL, 0, false, NULL}};

static const tnm_key gradcheck_keys[] = {
    {"points", S, false, "how many random points"},
    {"eps", S, false, "step of the difference quotient"},
    {"tol", S, false, "tolerance of the comparison"},
    {"skip", S, false, "the reason why it is not done"},
    {NULL, 0, false, NULL}};

#undef S
#undef L
#undef M

const tnm_schema tnm_schema_plugin = {"a plugin", "plugin", plugin_keys, false};
const tnm_schema tnm_schema_operator = {"an operator", "operator",
                                        operator_keys, false};
const tnm_schema tnm_schema_family = {"a family", "family", family_keys, false};
const tnm_schema tnm_schema_member = {"a member of a family", "member",
                                      member_keys, false};
const tnm_schema tnm_schema_kernels_for = {
    "a `kernels_for` document", "kernels_for", kernels_for_keys, false};
const tnm_schema tnm_schema_param = {"a parameter", "parameter", param_keys,
                                     false};
const tnm_schema tnm_schema_input = {"an input", "input", input_keys, false};
const tnm_schema tnm_schema_output = {"an output", "output", output_keys,
                                      false};
const tnm_schema tnm_schema_aux = {"an auxiliary state", "aux", aux_keys,
                                   false};
const tnm_schema tnm_schema_hook = {"a shape hook", "shape", hook_keys, false};
const tnm_schema tnm_schema_line = {"a shape over lines", "shape", line_keys,
                                    false};
const tnm_schema tnm_schema_require = {"a requirement", "requirement",
                                       require_keys, false};
const tnm_schema tnm_schema_deprecated = {"`deprecated`", "deprecated",
                                          deprecated_keys, false};
const tnm_schema tnm_schema_gradient = {"a gradient", "gradient", gradient_keys,
                                        false};
const tnm_schema tnm_schema_kernel = {"a kernel", "kernel", kernel_keys, false};
const tnm_schema tnm_schema_state = {"`state`", "state", state_keys, false};
const tnm_schema tnm_schema_workspace = {"`workspace`", "workspace",
                                         workspace_keys, false};
const tnm_schema tnm_schema_example = {"an example", "example", example_keys,
                                       true};
const tnm_schema tnm_schema_gradcheck = {"`gradcheck`", "gradcheck",
                                         gradcheck_keys, false};

const tnm_schema tnm_schema_binding = {"`binding`", "binding", binding_keys,
                                       false};
const tnm_schema tnm_schema_bound_arg = {"an argument", "argument",
                                         bound_arg_keys, false};
const tnm_schema tnm_schema_result = {"`returns`", "`returns`", result_keys,
                                      false};

const tnm_schema *const tnm_schemas[] = {
    &tnm_schema_plugin,      &tnm_schema_operator,
    &tnm_schema_family,      &tnm_schema_member,
    &tnm_schema_param,       &tnm_schema_input,
    &tnm_schema_output,      &tnm_schema_aux,
    &tnm_schema_hook,        &tnm_schema_require,
    &tnm_schema_gradient,    &tnm_schema_kernel,
    &tnm_schema_kernels_for, &tnm_schema_state,
    &tnm_schema_workspace,   &tnm_schema_example,
    &tnm_schema_gradcheck,   &tnm_schema_deprecated,
    &tnm_schema_binding,     &tnm_schema_bound_arg,
    &tnm_schema_result,      NULL};

/* ----------------------------------------------------------------- checking */

/* Returns the schema's entry of a key; NULL if the schema does not have it. */
static const tnm_key *find_key(const tnm_schema *schema, const char *name) {
  for (const tnm_key *key = schema->keys; key->name != NULL; ++key) {
    if (strcmp(key->name, name) == 0) return key;
  }
  return NULL;
}

enum { MAX_SCHEMA_KEYS = 32 };

/* Lists the keys of a schema. Returns their number. */
static size_t list_key_names(const tnm_schema *schema, const char **names) {
  size_t n = 0;
  for (const tnm_key *key = schema->keys; key->name != NULL; ++key)
    names[n++] = key->name;
  return n;
}

/* Returns the name of the kind of mapping that has a key of this name; NULL if
 * none has. */
static const char *find_mapping_with_key(const char *name) {
  if (strcmp(name, "compute") == 0)
    return "`dtypes`: `dtypes: {T: [f32, f64], compute: {T: f64}}`";
  for (size_t i = 0; tnm_schemas[i] != NULL; ++i)
    if (find_key(tnm_schemas[i], name) != NULL) return tnm_schemas[i]->what;
  return NULL;
}

static void report_unknown_key(tnm_diags *diags, const tnm_schema *schema,
                               const tnm_tree *entry) {
  char under[64];
  snprintf(under, sizeof under, "not %s %s key",
           strchr("aeiou", schema->noun[0]) != NULL ? "an" : "a", schema->noun);
  tnm_diag_spec spec = {"E0012", entry->key_pos, under};
  size_t id = tnm_diag_add(diags, &spec, "unknown key `%s` in %s", entry->key,
                           schema->what);
  if (strchr(entry->key, ' ') != NULL) {
    tnm_diag_add_help(diags, id, "a value that holds `, ` needs double quotes");
    return;
  }
  const char *names[MAX_SCHEMA_KEYS];
  const size_t n = list_key_names(schema, names);
  const char *owner = find_mapping_with_key(entry->key);
  if (tn__find_nearest_word(entry->key, names, n) == NULL && owner != NULL)
    tnm_diag_add_help(diags, id, "`%s` is a key of %s", entry->key, owner);
  else
    tnm_suggest_word(diags, id, entry->key, names, n);
}

/* Returns the text for a set of forms, for messages. */
static const char *name_forms(int forms) {
  switch (forms) {
    case TNM_SCALAR:
      return "a single value";
    case TNM_LIST:
      return "a list";
    case TNM_MAP:
      return "a mapping";
    case TNM_SCALAR | TNM_LIST:
      return "a value or a list";
    case TNM_SCALAR | TNM_MAP:
      return "a word or a mapping";
    case TNM_LIST | TNM_MAP:
      return "a list or a mapping";
    default:
      return "a value, a list or a mapping";
  }
}

/* Reports a value that is a scalar, list or mapping where the schema allows
 * another form. */
static void report_wrong_form(tnm_diags *diags, const tnm_key *key,
                              const tnm_tree *value) {
  tnm_diag_spec spec = {"E0013", value->pos, name_forms(value->kind)};
  size_t id = tnm_diag_add(diags, &spec, "`%s` must be %s", key->name,
                           name_forms(key->forms));
  tnm_diag_add_help(diags, id, "`%s`: %s", key->name, key->doc);
}

static void report_empty_value(tnm_diags *diags, const tnm_key *key,
                               const tnm_tree *value) {
  tnm_diag_spec spec = {"E0013", value->key_pos, "nothing follows"};
  size_t id = tnm_diag_add(diags, &spec, "`%s` has no value", key->name);
  tnm_diag_add_help(diags, id, "`%s`: %s", key->name, key->doc);
}

/* Reports a list with too many items. */
static void report_long_value(tnm_diags *diags, const tnm_tree *value) {
  tnm_diag_spec spec = {"E0007", value->key_pos, NULL};
  tnm_diag_add(diags, &spec, "`%s` has more than %d items", value->key,
               TNM_MAX_KEYS);
}

/* Checks that a key has a value of a permitted form (scalar, list, mapping).
 * Returns false after a message. */
static bool check_value_form(tnm_diags *diags, const tnm_key *key,
                             const tnm_tree *entry) {
  if (entry->kind == TNM_SCALAR && entry->plain && entry->text[0] == '\0')
    report_empty_value(diags, key, entry);
  else if ((key->forms & entry->kind) == 0)
    report_wrong_form(diags, key, entry);
  else if (entry->kind == TNM_LIST && entry->n > TNM_MAX_KEYS)
    report_long_value(diags, entry);
  else
    return true;
  return false;
}

/* Renames a misspelt key to the key that the author probably means, unless the
 * mapping has that key too. Otherwise all rules that need the key would report
 * mistakes. */
static void correct_misspelt_key(const tnm_schema *schema, const tnm_tree *map,
                                 tnm_tree *entry) {
  const char *names[MAX_SCHEMA_KEYS];
  const char *meant =
      tn__find_nearest_word(entry->key, names, list_key_names(schema, names));
  if (meant == NULL || tnm_tree_has(map, meant)) return;
  if (find_key(schema, meant)->forms & entry->kind) entry->key = meant;
}

/* Checks the key and the value's form of one entry of a mapping. Returns false
 * after a message about the value. */
static bool check_entry(tnm_diags *diags, const tnm_schema *schema,
                        const tnm_tree *map, tnm_tree *entry) {
  if (entry->kind == 0) return true;
  const tnm_key *key = find_key(schema, entry->key);
  if (key == NULL && !schema->open) {
    report_unknown_key(diags, schema, entry);
    correct_misspelt_key(schema, map, entry);
    key = find_key(schema, entry->key);
  }
  return key == NULL || check_value_form(diags, key, entry);
}

/* Checks the keys of a mapping and the forms of their values. An entry with a
 * value of a wrong form keeps its key, so that the key is not reported as
 * missing too. */
bool tnm_schema_keys(tnm_diags *diags, const tnm_schema *schema,
                     tnm_tree *value) {
  if (value->kind != TNM_MAP) {
    tnm_diag_spec spec = {"E0013", value->pos, name_forms(value->kind)};
    size_t id =
        tnm_diag_add(diags, &spec, "%s must be a mapping", schema->what);
    tnm_diag_add_help(diags, id, "write `{%s: ...}`", schema->keys[0].name);
    return false;
  }
  for (tnm_tree *entry = value->first; entry != NULL; entry = entry->next) {
    if (!check_entry(diags, schema, value, entry)) entry->kind = 0;
  }
  return true;
}

/* Tests whether a key of the mapping is a misspelling of `name`. Such a key is
 * reported as unknown, so `name` must not be reported as missing too. */
static bool is_misspelt(const tnm_schema *schema, const tnm_tree *map,
                        const char *name) {
  for (const tnm_tree *child = map->first; child != NULL; child = child->next) {
    if (find_key(schema, child->key) == NULL &&
        tn__find_nearest_word(child->key, &name, 1) != NULL)
      return true;
  }
  return false;
}

/* Returns the position of the first key of a mapping. */
static tnm_pos find_map_start(const tnm_tree *map) {
  return map->first != NULL ? map->first->key_pos : map->pos;
}

/* Returns a usual value of a key, for an example in a help line; NULL if no
 * value is usual. */
static const char *find_sample_value(const char *key) {
  static const char *const samples[][2] = {{"opgen", "1"},
                                           {"release", "1"},
                                           {"license", "Apache-2.0"},
                                           {"device", "cpu"}};
  for (size_t i = 0; i < sizeof samples / sizeof *samples; ++i)
    if (strcmp(key, samples[i][0]) == 0) return samples[i][1];
  return "...";
}

void tnm_schema_required(tnm_diags *diags, const tnm_schema *schema,
                         const tnm_tree *value) {
  for (const tnm_key *key = schema->keys; key->name != NULL; ++key) {
    if (!key->required || tnm_tree_has(value, key->name) ||
        is_misspelt(schema, value, key->name))
      continue;
    tnm_diag_spec spec = {"E0011", find_map_start(value), "begins here"};
    size_t id =
        tnm_diag_add(diags, &spec, "%s needs `%s`", schema->what, key->name);
    tnm_diag_add_help(diags, id, "add `%s: %s`: %s", key->name,
                      find_sample_value(key->name), key->doc);
  }
}

bool tnm_schema_check(tnm_diags *diags, const tnm_schema *schema,
                      tnm_tree *value) {
  if (!tnm_schema_keys(diags, schema, value)) return false;
  tnm_schema_required(diags, schema, value);
  return true;
}
