/* SPDX-License-Identifier: Apache-2.0
 * check.c: checks the consistency of tables: every index is inside its table,
 * every name is present, every offset is inside its struct. It runs on decoded
 * tables and on the descriptor of each loaded plugin, so that no later code has
 * to distrust a table. opgen judges the quality of the rules in them.
 *
 * A message starts with the innermost place; each level adds its own place.
 */
#include <string.h>

#include "check.h"
#include "tenon/draft/reduction.h"

/* ------------------------------------------------------------------ structs */

/* Largest number of elements of an array in a table. */
enum { MOST_ELEMENTS = 1 << 20 };

static tn_code check_struct(const tnm_table *table, const void *object);

/* Rejects a value that is none of the table's values. */
static tn_code check_enum_member(const tnm_table *table, const void *object,
                                 const tnm_member *m) {
  uint64_t raw = tnm_get_scalar(table, object, m);
  if (*tnm_get_name(m, raw)) return TN_OK;
  return tn__fail(TN_PLUGIN, "%s is %llu, which has no meaning", m->name,
                  (unsigned long long)raw);
}

/* Rejects a value with bits that have no name in the table: this library does
 * not know their meaning. */
static tn_code check_flags_member(const tnm_table *table, const void *object,
                                  const tnm_member *m) {
  const uint64_t raw = tnm_get_scalar(table, object, m);
  for (uint32_t i = 0; i < 32; ++i) {
    if (!(raw >> i & 1) || *tnm_get_name(m, i)) continue;
    return tn__fail(TN_PLUGIN,
                    "%s is 0x%llx, of which bit %u has no meaning for this "
                    "host; a newer one may know it",
                    m->name, (unsigned long long)raw, i);
  }
  return TN_OK;
}

/* Checks element i of an array member of a table. */
static tn_code check_element(const tnm_member *m, const void *array, size_t i) {
  if (m->form == TNM_U32S || m->form == TNM_U64S) return TN_OK;
  const void *element = m->form == TNM_TEXTS ? ((const void *const *)array)[i]
                                             : tnm_get_element(m, array, i);
  if (!element) return tn__fail(TN_PLUGIN, "%s[%zu] is NULL", m->name, i);
  if (m->form == TNM_TEXTS) return TN_OK;
  tn_code rc = check_struct(m->of, element);
  return rc ? tn__fail_more(rc, ", in %s[%zu]", m->name, i) : TN_OK;
}

/* Checks an array member of a table, with n elements. */
static tn_code check_array(const tnm_member *m, const void *array, uint32_t n) {
  if (n > MOST_ELEMENTS)
    return tn__fail(TN_PLUGIN, "%s has %u entries; at most %d are allowed",
                    m->name, n, MOST_ELEMENTS);
  if (n && !array)
    return tn__fail(TN_PLUGIN, "%s is NULL but should have %u entries", m->name,
                    n);
  for (size_t i = 0; i < n; ++i) TN__TRY(check_element(m, array, i));
  return TN_OK;
}

/* Checks one member of a table's struct. */
static tn_code check_member(const tnm_table *table, const void *object,
                            const tnm_member *m) {
  if (m->form == TNM_ENUM) return check_enum_member(table, object, m);
  if (m->form == TNM_FLAGS) return check_flags_member(table, object, m);
  if (m->form <= TNM_TEXT) return TN_OK;
  const void *pointer = tnm_get_pointer(table, object, m);
  if (m->form != TNM_POINTER)
    return check_array(m, pointer, tnm_get_count(table, object, m));
  return pointer ? check_struct(m->of, pointer) : TN_OK;
}

/* Rejects a reserved member that is not zero: this library would ignore its
 * meaning. */
static tn_code check_reserved(const tnm_table *table, const void *object,
                              uint32_t size) {
  uint32_t value = 0;
  const bool is_there =
      !table->first_size || size >= table->reserved + sizeof value;
  if (table->reserved && is_there)
    memcpy(&value, (const char *)object + table->reserved, sizeof value);
  if (!value) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "`reserved` is %u, which has no meaning for this host; a "
                  "newer one may know it",
                  value);
}

/* Checks all members of a table's struct. */
static tn_code check_struct(const tnm_table *table, const void *object) {
  uint32_t size = 0;
  memcpy(&size, (const char *)object + table->size_offset, sizeof size);
  if (table->first_size && size < table->first_size)
    return tn__fail(TN_PLUGIN,
                    "struct_size is %u; the struct of ABI 0.0 has %u bytes",
                    size, table->first_size);
  TN__TRY(check_reserved(table, object, size));
  for (size_t i = 0; i < table->n_members; ++i)
    TN__TRY(check_member(table, object, &table->members[i]));
  return TN_OK;
}

/* -------------------------------------------------------------------- names */

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Returns the length of the identifier at `s`; 0 if there is none. */
static size_t measure_identifier(const char *s) {
  size_t n = 0;
  while (is_letter(s[n]) || (n && is_digit(s[n]))) ++n;
  return n;
}

/* Skips identifiers that are separated by dots. Returns the end of the last
 * one, or NULL if the text does not begin with an identifier. */
static const char *skip_dotted(const char *s) {
  size_t n = measure_identifier(s);
  while (n && s[n] == '.') {
    size_t more = measure_identifier(s + n + 1);
    n = more ? n + 1 + more : 0;
  }
  return n ? s + n : NULL;
}

/* Skips a kernel id like "nn.convolution.cpu.2". Every part except the first
 * may be a number. */
static const char *skip_kernel_id(const char *s) {
  size_t n = measure_identifier(s);
  while (n && s[n] == '.') {
    const char *part = s + n + 1;
    size_t more = 0;
    while (is_letter(part[more]) || is_digit(part[more])) ++more;
    n = more ? n + 1 + more : 0;
  }
  return n ? s + n : NULL;
}

tn_code tnm_check_name(const char *what, const char *name, bool dots) {
  if (!name) return tn__fail(TN_PLUGIN, "%s has no name", what);
  const char *end =
      dots ? skip_kernel_id(name) : name + measure_identifier(name);
  if (end && *name && !*end) return TN_OK;
  return tn__fail(TN_PLUGIN, "the name \"%.80s\" of %s is not %s", name, what,
                  dots ? "made of letters, digits, '_' and '.'"
                       : "made of letters, digits and '_'");
}

/* Checks the name of an operator with plugin and interface:
 * "nn.convolution@1". `what` describes the named thing for messages. */
static tn_code check_full_name(const char *what, const char *name) {
  const char *at = name ? skip_dotted(name) : NULL;
  bool good = at && memchr(name, '.', (size_t)(at - name)) && *at == '@' &&
              at[1] >= '1' && at[1] <= '9';
  for (size_t i = 1; good && at[i]; ++i) good = is_digit(at[i]);
  if (good) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "%s names the operator \"%.80s\"; a full name such as "
                  "nn.convolution@1 is expected",
                  what, name ? name : "");
}

tn_code tnm_check_limit(const char *what, uint32_t index, uint32_t n) {
  if (index == TN_NONE || index < n) return TN_OK;
  return tn__fail(TN_PLUGIN, "%s is %u; there are %u", what, index, n);
}

/* ---------------------------------------------------- operators and kernels */

/* Checks the name of the operator that `op` replaces: it must belong to
 * another plugin. */
static tn_code check_replaced_operator(const tn_plugin *plugin,
                                       const tn_op *op) {
  size_t n = strlen(plugin->name);
  if (!op->replaces) return TN_OK;
  TN__TRY(tnm_check_name("the operator that it replaces", op->replaces, true));
  if (strchr(op->replaces, '.') &&
      (strncmp(op->replaces, plugin->name, n) || op->replaces[n] != '.'))
    return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "it asks to replace \"%.80s\"; only an operator of another "
                  "plugin can be replaced",
                  op->replaces);
}

/* Checks the table of a kernel. `has_functions`: the tables have pointers to
 * functions; tables from a note have none. */
static tn_code check_kernel(const tn_kernel *kernel, bool has_functions) {
  const tnm_fields options = {kernel->options, kernel->n_options,
                              kernel->options_size};
  TN__TRY(tnm_check_name("a kernel", kernel->id, true));
  TN__TRY(check_full_name("it", kernel->op));
  TN__TRY(tnm_check_fields("option", &options, true));
  TN__TRY(tnm_check_nodes(NULL, kernel->nodes, kernel->n_nodes));
  TN__TRY(tnm_check_limit("when", kernel->when, kernel->n_nodes));
  for (uint32_t i = 0; i < kernel->n_resources; ++i)
    if (kernel->resources[i] != TN_RESOURCE_RANDOM &&
        kernel->resources[i] != TN_RESOURCE_ORDER)
      return tn__fail(TN_PLUGIN, "resource %u is not known here",
                      kernel->resources[i]);
  if (kernel->device_type == TN_DEVICE_CPU && kernel->flags & TN_KERNEL_ASYNC)
    return tn__fail(TN_PLUGIN,
                    "it is for the cpu and has the flag `async`, which is for "
                    "devices with queues");
  if (kernel->flags & TN_KERNEL_LATER &&
      kernel->flags & (TN_KERNEL_ELEMENTWISE | TN_KERNEL_REDUCTION |
                       TN_KERNEL_ASYNC | TN_KERNEL_CAPTURABLE))
    return tn__fail(TN_PLUGIN,
                    "it has the flag `later`, which is for kernels that are "
                    "not `elementwise`, `reduction`, `async` or `capturable`");
  if (has_functions && !kernel->compute)
    return tn__fail(TN_PLUGIN, "compute is NULL");
  return TN_OK;
}

/* Checks kernel ids: the plugin may have the same id once for a forward kernel
 * and once for a backward kernel. */
static tn_code check_kernel_ids(const tn__env *env, const tn_plugin *plugin) {
  tn__map seen[2] = {{0}, {0}};
  char mark = 0; /* any address: only presence counts */
  tn_code rc = TN_OK;
  for (uint32_t i = 0; i < plugin->n_kernels && !rc; ++i) {
    const tn_kernel *kernel = plugin->kernels[i];
    tn__map *map = &seen[kernel->pass == TN_PASS_BACKWARD];
    rc = tn__map_get(map, kernel->id)
             ? tn__fail(TN_PLUGIN, "two kernels have the id \"%.80s\"",
                        kernel->id)
             : tn__map_set(env, map, kernel->id, &mark);
  }
  tn__map_deinit(env, &seen[0]);
  tn__map_deinit(env, &seen[1]);
  return rc;
}

/* Tests whether an earlier pair of the kernel is equal to pair `at`. */
static bool is_repeated(const tn_kernel *kernel, uint32_t at) {
  const tn_inplace *pairs = kernel->inplace;
  for (uint32_t i = 0; i < at; ++i)
    if (pairs[i].in == pairs[at].in && pairs[i].out == pairs[at].out)
      return true;
  return false;
}

/* Checks that the in-place pairs of a kernel name operands of a call of its
 * pass, and that no pair occurs twice. */
static tn_code check_inplace(const tn_kernel *kernel, const tn_op *op) {
  enum { MOST_PAIRS = 1000 };
  const bool backward = kernel->pass == TN_PASS_BACKWARD;
  const uint32_t n = TN_HAS(kernel, inplace) ? kernel->n_inplace : 0;
  const uint32_t n_in =
      backward ? 2 * op->n_outputs + op->n_inputs : op->n_inputs;
  const uint32_t n_out = backward ? op->n_inputs : op->n_outputs;
  if (n > MOST_PAIRS)
    return tn__fail(TN_PLUGIN,
                    "it has %u in-place pairs; at most %d are allowed", n,
                    MOST_PAIRS);
  for (uint32_t i = 0; i < n; ++i) {
    const tn_inplace *pair = &kernel->inplace[i];
    if (pair->in >= n_in || pair->out >= n_out)
      return tn__fail(TN_PLUGIN,
                      "inplace[%u] is output %u in input %u; a call has %u "
                      "outputs and %u inputs",
                      i, pair->out, pair->in, n_out, n_in);
    if (is_repeated(kernel, i))
      return tn__fail(TN_PLUGIN, "inplace[%u] occurs twice", i);
  }
  return TN_OK;
}

tn_code tn__kernel_fits(const tn_kernel *kernel, const tn_op *op) {
  const uint32_t n = kernel->n_dtype_sets;
  tn_code rc = TN_OK;
  if (n && n != op->n_dtype_vars)
    rc = tn__fail(TN_PLUGIN,
                  "it has %u dtype sets; the operator has %u type variables", n,
                  op->n_dtype_vars);
  if (!rc) rc = tnm_check_nodes(op, kernel->nodes, kernel->n_nodes);
  if (!rc) rc = check_inplace(kernel, op);
  return rc ? tn__fail_more(rc, ", in kernel %.80s", kernel->id) : TN_OK;
}

/* ------------------------------------------------------------------- plugin */

/* Checks the table that describes an operator for which a plugin has kernels.
 */
static tn_code check_target(const tn_target *target) {
  const tnm_fields params = {target->params, target->n_params,
                             target->params_size};
  TN__TRY(check_full_name("a target", target->op));
  return tnm_check_fields("parameter", &params, false);
}

/* Checks the plugins that a plugin requires. */
static tn_code check_dependencies(const tn_plugin *plugin) {
  if (!TN_HAS(plugin, dependencies)) return TN_OK;
  if (plugin->reserved_2)
    return tn__fail(TN_PLUGIN,
                    "`reserved_2` is %u, which has no meaning for this host",
                    plugin->reserved_2);
  for (uint32_t i = 0; i < plugin->n_dependencies; ++i) {
    const char *name = plugin->dependencies[i]->plugin;
    TN__TRY(tnm_check_name("a plugin that it requires", name, true));
    if (strcmp(name, plugin->name) == 0)
      return tn__fail(TN_PLUGIN, "it requires itself, \"%.80s\"", name);
  }
  return TN_OK;
}

/* Adds the names of operands to the set `seen`. Fails if the set already has
 * one of them. */
static tn_code add_names(const tn__env *env, tn__map *seen, const char *what,
                         const tn_arg *const *args, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (tn__map_get(seen, args[i]->name))
      return tn__fail(TN_PLUGIN, "two %s have the name \"%.80s\"", what,
                      args[i]->name);
    TN__TRY(tn__map_set(env, seen, args[i]->name, seen)); /* any address */
  }
  return TN_OK;
}

/* Checks that all operands of an operator have different names. A graph uses
 * these names for its variables and entries. */
static tn_code check_operands(const tn__env *env, const tn_op *op) {
  tn__map in = {0}, out = {0};
  tn_code rc =
      add_names(env, &in, "inputs or states", op->inputs, op->n_inputs);
  if (!rc) rc = add_names(env, &in, "inputs or states", op->aux, op->n_aux);
  if (!rc) rc = add_names(env, &out, "outputs", op->outputs, op->n_outputs);
  tn__map_deinit(env, &in);
  tn__map_deinit(env, &out);
  return rc;
}

/* Checks all tables of a plugin. `has_functions`: they have pointers to
 * functions; tables from a note have none. */
static tn_code check_plugin(const tn__env *env, const tn_plugin *plugin,
                            bool has_functions) {
  tn_code rc = check_struct(&tnm_table_plugin, plugin);
  if (!rc) rc = tnm_check_name("the plugin", plugin->name, true);
  if (!rc) rc = check_dependencies(plugin);
  for (uint32_t i = 0; i < plugin->n_operators && !rc; ++i) {
    rc = tnm_check_op(plugin->operators[i], has_functions);
    if (!rc) rc = check_operands(env, plugin->operators[i]);
    if (!rc) rc = check_replaced_operator(plugin, plugin->operators[i]);
    if (rc) rc = tn__fail_more(rc, ", in operators[%u]", i);
  }
  for (uint32_t i = 0; i < plugin->n_kernels && !rc; ++i) {
    rc = check_kernel(plugin->kernels[i], has_functions);
    if (rc) rc = tn__fail_more(rc, ", in kernels[%u]", i);
  }
  for (uint32_t i = 0; i < plugin->n_targets && !rc; ++i) {
    rc = check_target(plugin->targets[i]);
    if (rc) rc = tn__fail_more(rc, ", in targets[%u]", i);
  }
  return rc ? rc : check_kernel_ids(env, plugin);
}

tn_code tn__tables_check(const tn__env *env, const tn_plugin *plugin,
                         bool has_functions) {
  tn_code rc = check_plugin(env, plugin, has_functions);
  return rc == TN_PLUGIN
             ? tn__fail_more(rc,
                             ", in the tables of the plugin; the generator "
                             "that wrote them is at fault")
             : rc;
}
