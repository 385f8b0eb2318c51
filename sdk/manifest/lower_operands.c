/* SPDX-License-Identifier: Apache-2.0
 * lower_operands.c: lowers type variables, inputs, outputs and auxiliary
 * states, without their shapes: from the manifest to tn_dtype_var and tn_arg.
 */
#include <string.h>

#include "front.h"

/* ----------------------------------------------------------- type variables */

/* Checks the name of a type variable, which is the key of an entry. Returns
 * false after a message. */
static bool read_variable_name(tnm_lower *lower, const tnm_tree *entry) {
  const char *upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const char *key = entry->key;
  if (key[0] >= 'A' && key[0] <= 'Z' && strspn(key, upper) == strlen(key) &&
      strlen(key) <= TNM_MAX_NAME)
    return true;
  tnm_diag_spec spec = {"E0015", entry->key_pos, NULL};
  size_t id =
      tnm_diag_add(lower->diags, &spec,
                   "`%.80s` cannot be the name of a type variable", key);
  tnm_diag_add_help(lower->diags, id, "type variables are upper case: `T`");
  return false;
}

/* Returns the index of a type variable; TN_NONE if there is none. */
static uint32_t find_variable(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    if (strcmp(op->dtype_vars[i]->name, name) == 0) return i;
  }
  return TN_NONE;
}

/* Reports the name of a type variable that the operator does not have. */
static void report_no_variable(tnm_lower *lower, tnm_pos pos,
                               const char *name) {
  const char *names[TNM_MAX_KEYS];
  uint32_t n = 0;
  for (; n < lower->op->n_dtype_vars; ++n)
    names[n] = lower->op->dtype_vars[n]->name;
  tnm_diag_spec spec = {"E0023", pos, NULL};
  size_t id =
      tnm_diag_add(lower->diags, &spec, "`%.80s` is no type variable", name);
  tnm_suggest_word(lower->diags, id, name, names, n);
}

/* Checks the type that `compute` gives a type variable. Formulas must be able
 * to compute in it, and it must represent the default computing type of each
 * type of the variable. */
static void check_compute_type(tnm_lower *lower, const tnm_tree *at,
                               uint32_t variable, tn_dtype dtype) {
  const tn_dtype_var *var = lower->op->dtype_vars[variable];
  const char *const name = tn__dtype_name(dtype);
  const int least = tnm_class_of(dtype);
  tnm_diag_spec spec = {"E0094", at->pos, NULL};
  size_t id;
  if (dtype != TN_F32 && dtype != TN_F64 && dtype != TN_I32 &&
      dtype != TN_I64 && dtype != TN_U64) {
    id = tnm_diag_add(lower->diags, &spec, "nothing is computed in %s", name);
    tnm_diag_add_help(lower->diags, id, "known here: f32, f64, i32, i64, u64");
    return;
  }
  for (size_t bit = 0; bit < TN__N_DTYPES; ++bit) {
    const int own = tnm_class_of(tn__dtype_at(bit));
    if (!(var->allowed & (1ull << bit)) || own == 0) continue;
    const int joined = tnm_class_join(own, least);
    if (joined == least) continue;
    id = tnm_diag_add(lower->diags, &spec,
                      "`%s` may be %s, which computes in %s: more than %s",
                      var->name, tn__dtype_names[bit], tnm_class_name(own),
                      name);
    tnm_diag_add_help(lower->diags, id, "write `%s: %s`", var->name,
                      tnm_class_name(joined));
    return;
  }
}

/* Reads `compute: {T: f32}`: the types in which formulas compute. */
static void read_compute_types(tnm_lower *lower, const tnm_tree *map) {
  tn_dtype *compute = TNM_NEW(lower->arena, tn_dtype, lower->op->n_dtype_vars);
  if (compute == NULL) return;
  lower->out->compute = compute;
  if (map == NULL) return;
  if (map->kind != TNM_MAP) {
    tnm_diag_spec spec = {"E0013", map->pos, NULL};
    size_t id =
        tnm_diag_add(lower->diags, &spec, "`compute` must be a mapping");
    tnm_diag_add_help(lower->diags, id, "write `compute: {T: f32}`");
    return;
  }
  for (const tnm_tree *e = map->first; e != NULL; e = e->next) {
    uint32_t variable = find_variable(lower->op, e->key);
    tn_dtype dtype;
    if (variable == TN_NONE)
      report_no_variable(lower, e->key_pos, e->key);
    else if (tnm_read_dtype(lower->diags, e, &dtype)) {
      compute[variable] = dtype;
      check_compute_type(lower, e, variable, dtype);
    }
  }
}

void tnm_lower_dtypes(tnm_lower *lower) {
  const tnm_tree *map = tnm_tree_get(lower->doc, "dtypes");
  size_t n = map == NULL ? 0 : map->n;
  const tn_dtype_var **vars = TNM_NEW(lower->arena, const tn_dtype_var *, n);
  if (vars == NULL) return;
  lower->op->dtype_vars = vars;
  for (const tnm_tree *e = n > 0 ? map->first : NULL; e != NULL; e = e->next) {
    tn_dtype_var *var = TNM_NEW(lower->arena, tn_dtype_var, 1);
    if (var == NULL) return;
    if (strcmp(e->key, "compute") == 0 || !read_variable_name(lower, e))
      continue;
    *var = (tn_dtype_var){.struct_size = sizeof *var, .name = e->key};
    tnm_read_dtypes(lower->diags, e, &var->allowed);
    vars[lower->op->n_dtype_vars++] = var;
  }
  read_compute_types(lower, tnm_tree_get(map, "compute"));
}

/* Returns the index of the dtype parameter `name`; TN_NONE if there is none. */
static uint32_t find_dtype_param(const tnm_lower *lower, const char *name) {
  for (uint32_t i = 0; i < lower->op->n_params; ++i) {
    const tn_field *f = lower->params[i];
    if (f->type == TN_FIELD_DTYPE && strcmp(f->name, name) == 0) return i;
  }
  return TN_NONE;
}

static void report_unknown_dtype(tnm_lower *lower, const tnm_tree *node) {
  const char *known[TN__N_DTYPES + TNM_MAX_KEYS];
  size_t n = 0;
  for (; n < lower->op->n_dtype_vars; ++n)
    known[n] = lower->op->dtype_vars[n]->name;
  for (size_t i = 0; i < TN__N_DTYPES; ++i) known[n++] = tn__dtype_names[i];
  tnm_diag_spec spec = {"E0023", node->pos, "no such type"};
  size_t id =
      tnm_diag_add(lower->diags, &spec, "unknown type `%.80s`", node->text);
  tnm_suggest_word(lower->diags, id, node->text, known, n);
}

/* Reads the element type of an operand: a type, a type variable or a dtype
 * parameter. */
static void read_dtype(tnm_lower *lower, const tnm_tree *node, tn_arg *arg) {
  const tnm_tree *value = tnm_tree_get(node, "dtype");
  if (value == NULL) {
    lower->untyped = true;
    return;
  }
  arg->dtype_var = find_variable(lower->op, value->text);
  if (arg->dtype_var != TN_NONE) return;
  arg->dtype_param = find_dtype_param(lower, value->text);
  if (arg->dtype_param != TN_NONE) return;
  if (tn__dtype_parse(value->text, &arg->dtype)) return;
  lower->untyped = true;
  report_unknown_dtype(lower, value);
}

uint64_t tnm_operand_dtypes(const tn_op *op, const tn_arg *arg) {
  if (arg->dtype_param != TN_NONE)
    return tnm_param_dtypes(op->params[arg->dtype_param]);
  if (arg->dtype_var != TN_NONE) return op->dtype_vars[arg->dtype_var]->allowed;
  return tn__dtype_bit(arg->dtype);
}

/* Checks that an operand of packed types is declared as dense. If formulas
 * compute other types with any strides, a written kernel gets packed operands,
 * which are dense in any case. */
static void check_packed_layout(tnm_lower *lower, const tnm_tree *node,
                                const tn_arg *arg) {
  const tnm_tree *dtype = tnm_tree_get(node, "dtype");
  if (tnm_tree_get(lower->doc, "forward") != NULL &&
      tnm_has_storage_kernel(lower))
    return;
  if (lower->untyped || (arg->flags & TN_ARG_CONTIGUOUS) != 0) return;
  const uint64_t set = tnm_operand_dtypes(lower->op, arg) & TN_BITS_PACKED;
  if (set == 0) return;
  tnm_diag_spec spec = {"E0096", dtype->pos, NULL};
  const size_t id = tnm_diag_add(
      lower->diags, &spec,
      "`%s` may be %s, whose elements share bytes, but takes any strides",
      arg->name, tn__dtype_names[__builtin_ctzll(set)]);
  tnm_diag_add_help(lower->diags, id, "add `layout: contiguous`");
}

bool tnm_is_float(const tnm_lower *lower, const tn_arg *arg) {
  return arg->dtype_param != TN_NONE ||
         (tnm_operand_dtypes(lower->op, arg) & TNM_FLOATS) != 0;
}

/* ----------------------------------------------------------------- operands */

uint32_t tnm_find_operand(const tnm_lower *lower, uint32_t list,
                          const char *name) {
  const tnm_operands *o = &lower->operands[list];
  for (uint32_t i = 0; i < o->n; ++i) {
    if (strcmp(o->names[i], name) == 0) return i;
  }
  return TN_NONE;
}

/* Tests whether no parameter or operand has this name. Both occur in the same
 * expressions, so their names must differ. */
static bool is_unused_name(tnm_lower *lower, const tnm_tree *name) {
  const tnm_tree *params = tnm_tree_get(lower->doc, "params");
  const tnm_tree *first = NULL;
  for (const tnm_tree *p = params == NULL ? NULL : params->first; p != NULL;
       p = p->next) {
    const tnm_tree *other = tnm_tree_get(p, "name");
    if (other != NULL && strcmp(other->text, name->text) == 0) first = other;
  }
  for (uint32_t list = 0; list < 3 && first == NULL; ++list) {
    uint32_t i = tnm_find_operand(lower, list, name->text);
    if (i != TN_NONE)
      first = tnm_tree_get(lower->operands[list].nodes[i], "name");
  }
  if (first == NULL) return true;
  tnm_diag_spec spec = {"E0016", name->pos, "second time"};
  size_t id =
      tnm_diag_add(lower->diags, &spec, "name `%s` is taken", name->text);
  tnm_diag_add_place(lower->diags, id, first->pos, "first time");
  return false;
}

/* Reads the keys that become flags (TN_ARG_*) of an operand. */
static uint32_t read_flags(tnm_lower *lower, const tnm_tree *node) {
  static const char *const layouts[] = {"any", "contiguous", NULL};
  uint32_t flags = 0;
  if (tnm_get_bool(lower->diags, node, "optional")) flags |= TN_ARG_OPTIONAL;
  if (tnm_get_bool(lower->diags, node, "variadic")) flags |= TN_ARG_VARIADIC;
  if (tnm_get_bool(lower->diags, node, "hidden")) flags |= TN_ARG_HIDDEN;
  const tnm_tree *layout = tnm_tree_get(node, "layout");
  if (layout != NULL &&
      tnm_read_word(lower->diags, layout, "a layout", layouts) == 1)
    flags |= TN_ARG_CONTIGUOUS;
  return flags;
}

/* Reads the role (TN_ROLE_*) of an operand in training. */
static uint32_t read_role(tnm_lower *lower, uint32_t list,
                          const tnm_tree *node) {
  static const char *const inputs[] = {"data", "weight", "label", NULL};
  static const char *const outputs[] = {"data", "loss", NULL};
  const tnm_tree *role = tnm_tree_get(node, "role");
  if (role == NULL) return TN_ROLE_DATA;
  const bool output = list == TN_OPERAND_OUT;
  const int found = tnm_read_word(lower->diags, role,
                                  output ? "a role of an output" : "a role",
                                  output ? outputs : inputs);
  if (found <= 0) return TN_ROLE_DATA;
  return output ? TN_ROLE_LOSS : (uint32_t)found;
}

/* Reads the name of an input, the value of `inplace`, `view` or `init` of an
 * operand. Returns the index of that input. */
static uint32_t read_input_name(tnm_lower *lower, const tn_arg *arg,
                                const char *key, const tnm_tree *value) {
  if (value == NULL || !tnm_check_scalar(lower->diags, value, "an input"))
    return TN_NONE;
  const tnm_operands *inputs = &lower->operands[TN_OPERAND_IN];
  uint32_t found = tnm_find_operand(lower, TN_OPERAND_IN, value->text);
  tnm_diag_spec spec = {"E0025", value->pos, NULL};
  if (found == TN_NONE && !tnm_is_whole(lower, "inputs", inputs->n))
    return TN_NONE;
  if (found == TN_NONE) {
    size_t id = tnm_diag_add(lower->diags, &spec, "`%s: %.80s` names no input",
                             key, value->text);
    tnm_suggest_word(lower->diags, id, value->text, inputs->names, inputs->n);
    return TN_NONE;
  }
  const tn_arg *input = inputs->v[found];
  if (input->flags & TN_ARG_VARIADIC)
    tnm_diag_add(lower->diags, &spec, "`%s` cannot name a variadic input", key);
  else if (!lower->untyped && !tnm_has_same_dtype(arg, input))
    tnm_diag_add(lower->diags, &spec, "`%s` and `%s` differ in type", arg->name,
                 input->name);
  else
    return found;
  return TN_NONE;
}

/* Reads `inplace` of output number `out`: an input, or a list of them. */
static void read_inplace(tnm_lower *lower, const tnm_tree *value, tn_arg *arg,
                         uint32_t out) {
  const bool list = value != NULL && value->kind == TNM_LIST;
  const tnm_tree *name = list ? value->first : value;
  for (; name != NULL; name = list ? name->next : NULL) {
    const tn_inplace pair = {read_input_name(lower, arg, value->key, name),
                             out};
    if (pair.in == TN_NONE) continue;
    if (tnm_has_inplace(lower, TN_PASS_FORWARD, pair)) {
      tnm_report_second_inplace(lower, name);
      continue;
    }
    tnm_add_inplace(lower, TN_PASS_FORWARD, pair);
    if (arg->inplace == TN_NONE) arg->inplace = pair.in;
  }
}

/* Reads `inplace` and `view` of output number `out`: the inputs with memory
 * that the output may use. With `view`, the output also has the elements of the
 * input. */
static void read_shared_memory(tnm_lower *lower, const tnm_tree *node,
                               tn_arg *arg, uint32_t out) {
  const tnm_tree *view = tnm_tree_get(node, "view");
  const tnm_tree *inplace = tnm_tree_get(node, "inplace");
  read_inplace(lower, view != NULL ? view : inplace, arg, out);
  if (view == NULL) return;
  if (arg->inplace != TN_NONE) arg->flags |= TN_ARG_VIEW;
  if (inplace == NULL) return;
  const tnm_diag_spec spec = {"E0025", inplace->key_pos, NULL};
  const size_t id = tnm_diag_add(
      lower->diags, &spec,
      "`inplace` beside `view`, which already names the memory of `%s`",
      arg->name);
  tnm_diag_add_help(lower->diags, id, "remove `inplace`");
}

/* Reads the key `changes` of an auxiliary state: whether all calls change it,
 * or only those of training. */
static void read_state_changes(tnm_lower *lower, const tnm_tree *node,
                               tn_arg *arg) {
  static const char *const when[] = {"always", "training", NULL};
  const tnm_tree *value = tnm_tree_get(node, "changes");
  if (value != NULL &&
      tnm_read_word(lower->diags, value, "a time of changes", when) == 1)
    arg->flags |= TN_ARG_TRAINED;
}

/* Reads the initial value of an auxiliary state. */
static void read_initial_value(tnm_lower *lower, const tnm_tree *node,
                               tn_arg *arg) {
  const tnm_tree *value = tnm_tree_get(node, "init");
  double number;
  if (value != NULL && tnm_read_double(lower->diags, value, &number))
    arg->initial = value->text;
}

/* Reads all keys of an operand, except its name and shape, into *arg. */
static void read_arg(tnm_lower *lower, const tnm_operands *list,
                     const tnm_tree *node, tn_arg *arg) {
  tnm_life life = tnm_read_life(lower->reader, node, lower->op->since);
  *arg = (tn_arg){.struct_size = sizeof *arg,
                  .flags = read_flags(lower, node),
                  .role = read_role(lower, list->list, node),
                  .since = life.since,
                  .deprecated_since = life.deprecated_since,
                  .use = life.use,
                  .dtype_var = TN_NONE,
                  .dtype_param = TN_NONE,
                  .inplace = TN_NONE,
                  .init = TN_NONE,
                  .count = TN_NONE,
                  .name = tnm_get_text(node, "name"),
                  .doc = tnm_get_text(node, "doc")};
  read_dtype(lower, node, arg);
  check_packed_layout(lower, node, arg);
  if (list->list == TN_OPERAND_OUT) {
    read_shared_memory(lower, node, arg, list->n);
    arg->init = read_input_name(lower, arg, "init", tnm_tree_get(node, "init"));
  } else if (list->list == TN_OPERAND_AUX) {
    read_initial_value(lower, node, arg);
    read_state_changes(lower, node, arg);
  }
  if (list->n > 0)
    tnm_check_since(lower->diags, node, "operand", list->v[list->n - 1]->since,
                    arg->since);
}

/* -------------------------------------------------------------------- order */

/* Reports an operand that may not follow the operand before it. `text` is the
 * format of the message, with the operand's name. */
static void report_operand_order(tnm_lower *lower, const tnm_tree *node,
                                 const char *text, const char *help) {
  const tnm_tree *name = tnm_tree_get(node, "name");
  tnm_diag_spec spec = {"E0024", name->pos, "is too late"};
  size_t id = tnm_diag_add(lower->diags, &spec, text, name->text);
  tnm_diag_add_help(lower->diags, id, "%s", help);
}

/* Checks that optional inputs follow the others, and that a variadic input is
 * last. */
static void check_input_order(tnm_lower *lower) {
  const tnm_operands *list = &lower->operands[TN_OPERAND_IN];
  for (uint32_t i = 1; i < list->n; ++i) {
    uint32_t before = list->v[i - 1]->flags;
    uint32_t flags = list->v[i]->flags;
    if (before & TN_ARG_VARIADIC)
      report_operand_order(lower, list->nodes[i],
                           "input `%s` follows a variadic one",
                           "the variadic input is last");
    else if ((before & TN_ARG_OPTIONAL) && (flags & TN_ARG_VARIADIC))
      report_operand_order(lower, list->nodes[i],
                           "variadic input `%s` follows an optional one",
                           "an operator has optional inputs or a variadic one");
    else if ((before & TN_ARG_OPTIONAL) && !(flags & TN_ARG_OPTIONAL))
      report_operand_order(lower, list->nodes[i],
                           "input `%s` follows an optional one",
                           "optional inputs are last");
  }
}

/* Checks that hidden outputs follow the others, and that a counted output is
 * last. */
static void check_output_order(tnm_lower *lower) {
  const tnm_operands *list = &lower->operands[TN_OPERAND_OUT];
  for (uint32_t i = 1; i < list->n; ++i) {
    if (tnm_tree_get(list->nodes[i - 1], "count") != NULL)
      report_operand_order(lower, list->nodes[i],
                           "output `%s` follows a counted one",
                           "the output with `count` is last");
    else if ((list->v[i - 1]->flags & TN_ARG_HIDDEN) &&
             !(list->v[i]->flags & TN_ARG_HIDDEN))
      report_operand_order(lower, list->nodes[i],
                           "output `%s` follows a hidden one",
                           "hidden outputs are last");
  }
}

/* Reads one operand, and appends it to `list` unless it has a mistake. Returns
 * false only if memory ran out. */
static bool read_operand(tnm_lower *lower, tnm_operands *list,
                         const tnm_schema *schema, tnm_tree *node) {
  if (!tnm_schema_check(lower->diags, schema, node)) return true;
  const tnm_tree *name = tnm_tree_get(node, "name");
  if (name == NULL || !tnm_read_member_name(lower->diags, name, schema->what) ||
      !is_unused_name(lower, name))
    return true;
  tn_arg *arg = TNM_NEW(lower->arena, tn_arg, 1);
  if (arg == NULL) return false;
  read_arg(lower, list, node, arg);
  list->v[list->n] = arg;
  list->nodes[list->n] = node;
  list->names[list->n++] = name->text;
  return true;
}

/* Reads the list of operands `key`; `which` is its number (TN_OPERAND_*). */
static void read_operands(tnm_lower *lower, uint32_t which, const char *key,
                          const tnm_schema *schema) {
  const tnm_tree *nodes = tnm_tree_get(lower->doc, key);
  tnm_operands *list = &lower->operands[which];
  size_t n = nodes == NULL ? 0 : nodes->n;
  *list = (tnm_operands){.v = TNM_NEW(lower->arena, tn_arg *, n),
                         .nodes = TNM_NEW(lower->arena, const tnm_tree *, n),
                         .names = TNM_NEW(lower->arena, const char *, n),
                         .list = which};
  if (list->v == NULL || list->nodes == NULL || list->names == NULL) return;
  tnm_tree *node = n == 0 ? NULL : nodes->first;
  while (node != NULL && read_operand(lower, list, schema, node))
    node = node->next;
}

/* Returns the operands as the type that tn_op has. */
static const tn_arg *const *as_const_args(const tnm_operands *list) {
  return (const tn_arg *const *)list->v;
}

void tnm_lower_operands(tnm_lower *lower) {
  read_operands(lower, TN_OPERAND_IN, "inputs", &tnm_schema_input);
  read_operands(lower, TN_OPERAND_OUT, "outputs", &tnm_schema_output);
  read_operands(lower, TN_OPERAND_AUX, "aux", &tnm_schema_aux);
  check_input_order(lower);
  check_output_order(lower);
  lower->op->inputs = as_const_args(&lower->operands[TN_OPERAND_IN]);
  lower->op->outputs = as_const_args(&lower->operands[TN_OPERAND_OUT]);
  lower->op->aux = as_const_args(&lower->operands[TN_OPERAND_AUX]);
  lower->op->n_inputs = lower->operands[TN_OPERAND_IN].n;
  lower->op->n_outputs = lower->operands[TN_OPERAND_OUT].n;
  lower->op->n_aux = lower->operands[TN_OPERAND_AUX].n;
}
