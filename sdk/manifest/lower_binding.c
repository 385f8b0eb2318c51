/* SPDX-License-Identifier: Apache-2.0
 * lower_binding.c: reads `binding:`, a function of an existing library that
 * computes the operator. Nothing is compiled, so no part of the operator may be
 * code. No compiler checks the prototype, so types have fixed widths and an
 * example is required.
 */
#include <string.h>

#include "lower_binding.h"

static tnm_diags *get_diags(const tnm_bind *b) {
  return b->lower->diags;
}

/* ------------------------------------------------------------- the document */

/* Reports a part of the manifest that needs compiled code, `what`, which an
 * operator with a binding cannot have. */
static void report_excluded(const tnm_bind *b, tnm_pos pos, const char *what,
                            const char *help) {
  tnm_diag_spec spec = {"E0085", pos, "this is code"};
  size_t id =
      tnm_diag_add(get_diags(b), &spec,
                   "an operator with a binding is not compiled, so it has "
                   "no `%s`",
                   what);
  tnm_diag_add_place(get_diags(b), id, b->map->key_pos, "bound here");
  tnm_diag_add_help(get_diags(b), id, "%s", help);
}

/* Reports a key that an operator with a binding cannot have. */
static void report_excluded_key(const tnm_bind *b, const tnm_tree *other,
                                const char *help) {
  report_excluded(b, other->key_pos, other->key, help);
}

/* Reports a function of the author that infers shapes. */
static void refuse_shape_hook(const tnm_bind *b) {
  for (uint32_t list = 0; list < 3; ++list) {
    const tnm_operands *operands = &b->lower->operands[list];
    for (uint32_t i = 0; i < operands->n; ++i) {
      if (operands->v[i]->shape_kind != TN_SHAPE_HOOK) continue;
      const tnm_tree *shape = tnm_tree_get(operands->nodes[i], "shape");
      report_excluded_key(
          b, shape, "give the shape as a pattern or another operand's name");
      return;
    }
  }
}

/* Reports a gradient of formulas or kernels: an operator with a binding cannot
 * have one. `auto` may be the value of `gradient` or a key in it. */
static void refuse_gradient(const tnm_bind *b, const tnm_tree *gradient) {
  static const char *const kinds[] = {"formula", "kernel", "auto"};
  const char *help = "write `graph: {...}` with calls of other operators";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const tnm_tree *kind = tnm_tree_get(gradient, kinds[i]);
    if (kind != NULL) report_excluded_key(b, kind, help);
  }
  if (gradient->kind == TNM_SCALAR && strcmp(gradient->text, "auto") == 0)
    report_excluded(b, gradient->pos, "gradient: auto", help);
}

/* Reports formulas, kernels and functions of the author. */
static void refuse_own_code(const tnm_bind *b) {
  static const char *const code[] = {"forward", "kernels"};
  for (size_t i = 0; i < 2; ++i) {
    const tnm_tree *other = tnm_tree_get(b->lower->doc, code[i]);
    if (other != NULL) report_excluded_key(b, other, "keep one of the two");
  }
  const tnm_tree *gradient = tnm_tree_get(b->lower->doc, "gradient");
  if (gradient != NULL) refuse_gradient(b, gradient);
  refuse_shape_hook(b);
}

/* ----------------------------------------------------------------- operands */

/* Reports operand i of a list (TN_OPERAND_*) that a binding cannot pass, with
 * the reason `why`. */
static void report_bad_operand(const tnm_bind *b, uint32_t list, uint32_t i,
                               const char *why, const char *help) {
  const tnm_operands *operands = &b->lower->operands[list];
  const tnm_tree *name = tnm_tree_get(operands->nodes[i], "name");
  tnm_diag_spec spec = {"E0088", name->pos, NULL};
  size_t id =
      tnm_diag_add(get_diags(b), &spec, "`%s` %s", operands->names[i], why);
  tnm_diag_add_place(get_diags(b), id, b->map->key_pos, "bound here");
  tnm_diag_add_help(get_diags(b), id, "%s", help);
}

/* Checks that a binding can pass operand i of a list (TN_OPERAND_*). */
static void check_bound_operand(const tnm_bind *b, uint32_t list, uint32_t i) {
  const tn_arg *arg = b->lower->operands[list].v[i];
  const bool result = list == TN_OPERAND_OUT &&
                      b->out->result == TNM_RESULT_OUTPUT &&
                      b->out->output == i;
  if ((arg->flags & TN_ARG_VARIADIC) != 0 || arg->count != TN_NONE)
    report_bad_operand(b, list, i, "may be many tensors, an argument is one",
                       "declare as many operands as the function takes");
  else if ((arg->flags & TN_ARG_DYNAMIC) != 0)
    report_bad_operand(b, list, i, "has a shape that only code could state",
                       "give its shape as a pattern or another operand's name");
  else if (list == TN_OPERAND_OUT && !b->has_invalid && !result &&
           !b->passed[list][i])
    report_bad_operand(b, list, i, "is written by nothing",
                       "pass it, or say `returns: {c: ..., to: ...}`");
}

static void check_bound_operands(const tnm_bind *b) {
  for (uint32_t list = 0; list < 3; ++list)
    for (uint32_t i = 0; i < b->lower->operands[list].n; ++i)
      check_bound_operand(b, list, i);
}

/* ----------------------------------------------------------------- the keys */

/* Tests whether a text names a library: a file name that the dynamic linker
 * looks up, or a path. */
static bool is_library(const char *text) {
  return text[0] == '/' || strncmp(text, "./", 2) == 0 ||
         strchr(text, '/') == NULL;
}

/* Adds one name of a library to `libraries`. Returns false after a message. */
static bool read_library(tnm_bind *b, const tnm_tree *node,
                         const char **libraries) {
  if (!tnm_check_scalar(get_diags(b), node, "the name of a library"))
    return false;
  if (is_library(node->text)) {
    libraries[b->out->n_libraries++] = node->text;
    return true;
  }
  tnm_diag_spec spec = {"E0014", node->pos, NULL};
  size_t id =
      tnm_diag_add(get_diags(b), &spec,
                   "invalid value `%.80s`: expected a library", node->text);
  tnm_diag_add_help(
      get_diags(b), id,
      "write a name such as `libm.so.6`, a path that begins with `/`, "
      "or `./` for a file beside this manifest");
  return false;
}

static void read_libraries(tnm_bind *b) {
  const tnm_tree *value = tnm_tree_get(b->map, "library");
  const char **libraries =
      TNM_NEW(b->lower->arena, const char *, TNM_MAX_LIBRARIES);
  if (value == NULL || libraries == NULL) return;
  b->out->libraries = libraries;
  if (value->kind == TNM_SCALAR) {
    read_library(b, value, libraries);
    return;
  }
  if (value->n == 0 || value->n > TNM_MAX_LIBRARIES) {
    tnm_diag_spec spec = {"E0014", value->pos, NULL};
    tnm_diag_add(get_diags(b), &spec, "expected one to %d libraries",
                 TNM_MAX_LIBRARIES);
    return;
  }
  for (const tnm_tree *n = value->first; n != NULL; n = n->next)
    read_library(b, n, libraries);
}

/* Tests whether a text can be the name of a function in a library. */
static bool is_symbol(const char *text) {
  const char *first = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  const char *rest =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789$.";
  const size_t n = strlen(text);
  return n > 0 && n <= 4 * TNM_MAX_NAME && strchr(first, text[0]) != NULL &&
         strspn(text, rest) == n;
}

static void read_symbol(tnm_bind *b) {
  const tnm_tree *value = tnm_tree_get(b->map, "symbol");
  if (value == NULL) return;
  b->out->symbol = value->text;
  if (is_symbol(value->text)) return;
  tnm_diag_spec spec = {"E0015", value->pos, NULL};
  tnm_diag_add(get_diags(b), &spec, "`%.80s` cannot be the name of a function",
               value->text);
}

/* Tests whether two calls of the function may run at the same time. They may
 * not unless the author declares it. */
static bool may_run_together(const tnm_bind *b) {
  static const char *const words[] = {"one", "any", NULL};
  const tnm_tree *value = tnm_tree_get(b->map, "thread");
  return value != NULL &&
         tnm_read_word(get_diags(b), value, "`any` or `one`", words) == 1;
}

/* ------------------------------------------------------------------ results */

/* Reads `ok`: the function returns a status of this C type, and `ok` is the
 * value for success. */
static void read_status(tnm_bind *b, const tnm_tree *ok,
                        const tnm_c_type *type) {
  const tnm_range range = tnm_c_range(type->c);
  b->out->result = TNM_RESULT_STATUS;
  if (type->c <= TNM_C_U64) {
    tnm_read_int(get_diags(b), ok, range.low, range.high, &b->out->ok);
    return;
  }
  tnm_diag_spec spec = {"E0086", ok->key_pos, NULL};
  size_t id = tnm_diag_add(get_diags(b), &spec, "a status is an integer");
  tnm_diag_add_help(get_diags(b), id,
                    "write `c: int32`, or `to: ...` for a value");
}

/* Reads `to`: the function's result is the only element of this output. */
static void read_result_output(tnm_bind *b, const tnm_tree *c,
                               const tnm_tree *to, const tnm_c_type *type) {
  const tnm_operands *outputs = &b->lower->operands[TN_OPERAND_OUT];
  b->out->result = TNM_RESULT_OUTPUT;
  if (!tnm_check_scalar(get_diags(b), to, "an output")) return;
  b->out->output = tnm_find_operand(b->lower, TN_OPERAND_OUT, to->text);
  if (b->out->output != TN_NONE) {
    tnm_match_element(b, outputs->v[b->out->output], type, c->pos);
    return;
  }
  b->has_invalid = true;
  tnm_diag_spec spec = {"E0087", to->pos, NULL};
  size_t id =
      tnm_diag_add(get_diags(b), &spec, "`%.80s` is no output", to->text);
  tnm_suggest_word(get_diags(b), id, to->text, outputs->names, outputs->n);
}

/* Reads the mapping `returns`: `{c: int32, ok: 0}` or `{c: float, to: out}`. */
static void read_result(tnm_bind *b, tnm_tree *map) {
  tnm_c_type type;
  if (!tnm_schema_check(get_diags(b), &tnm_schema_result, map)) return;
  const tnm_tree *c = tnm_tree_get(map, "c");
  const tnm_tree *ok = tnm_tree_get(map, "ok");
  const tnm_tree *to = tnm_tree_get(map, "to");
  if (c == NULL || !tnm_read_c_type(get_diags(b), c, &type)) {
    b->has_invalid = true;
    return;
  }
  b->out->returns = type.c;
  if (type.c == TNM_C_POINTER) {
    tnm_diag_spec spec = {"E0086", c->pos, "a pointer"};
    tnm_diag_add(get_diags(b), &spec,
                 "nothing can be done with a pointer that a "
                 "function returns");
  } else if (ok != NULL && to != NULL) {
    tnm_diag_spec spec = {"E0017", to->key_pos, "second one"};
    size_t id =
        tnm_diag_add(get_diags(b), &spec, "`ok` and `to` exclude each other");
    tnm_diag_add_place(get_diags(b), id, ok->key_pos, "first one");
  } else if (ok != NULL) {
    read_status(b, ok, &type);
  } else if (to != NULL) {
    read_result_output(b, c, to, &type);
  }
}

/* Reads `returns`: the C type and the meaning of the function's result. */
static void read_returns(tnm_bind *b) {
  tnm_tree *value = tnm_tree_get(b->map, "returns");
  b->out->returns = TNM_C_VOID;
  if (value == NULL) return;
  if (value->kind == TNM_MAP) {
    read_result(b, value);
    return;
  }
  if (strcmp(value->text, "void") == 0) return;
  tnm_diag_spec spec = {"E0014", value->pos, NULL};
  size_t id = tnm_diag_add(
      get_diags(b), &spec,
      "invalid value `%.80s`: expected `void` or a mapping", value->text);
  tnm_diag_add_help(
      get_diags(b), id,
      "write `{c: int32, ok: 0}` for a status, `{c: float, to: out}` "
      "for a value");
}

/* ---------------------------------------------------------------- arguments */

/* Prepares the shape program of the arguments: it knows all dimensions and
 * packs of the operator. Returns false if memory ran out. */
static bool init_program(tnm_bind *b) {
  const tnm_lower *lower = b->lower;
  tnm_program_init(&b->program, lower->arena, lower->diags, &lower->scope);
  bool ok = true;
  for (uint32_t i = 0; ok && i < lower->op->n_dims; ++i) {
    const size_t n = strlen(lower->op->dims[i]);
    char *name = tn__arena_text(lower->arena, lower->op->dims[i], n);
    ok = name != NULL && tnm_reader_push(lower->reader, &b->program.dims, name);
  }
  for (uint32_t i = 0; ok && i < lower->op->n_packs; ++i) {
    const size_t n = strlen(lower->op->packs[i]);
    char *name = tn__arena_text(lower->arena, lower->op->packs[i], n);
    ok =
        name != NULL && tnm_reader_push(lower->reader, &b->program.packs, name);
  }
  return ok;
}

/* Reads `args`: the arguments of the function in order. */
static void read_args(tnm_bind *b) {
  const tnm_tree *list = tnm_tree_get(b->map, "args");
  if (list == NULL) {
    b->has_invalid = true;
    return;
  }
  if (list->n > TNM_MAX_ARGS) {
    tnm_diag_spec spec = {"E0007", list->key_pos, NULL};
    tnm_diag_add(get_diags(b), &spec, "a binding has at most %d arguments",
                 TNM_MAX_ARGS);
    b->has_invalid = true;
    return;
  }
  tnm_bound_arg *args = TNM_NEW(b->lower->arena, tnm_bound_arg, list->n);
  if (args == NULL) return;
  for (tnm_tree *node = list->first; node != NULL; node = node->next)
    if (!tnm_read_bound_arg(b, node, &args[b->out->n_args++]))
      b->has_invalid = true;
  b->out->args = args;
}

/* Allocates the marks of passed operands and the sources of dimensions.
 * Returns false if memory ran out. */
static bool alloc_marks(tnm_bind *b) {
  tn__arena *arena = b->lower->arena;
  const uint32_t n_dims = b->lower->op->n_dims;
  for (uint32_t list = 0; list < 3; ++list) {
    b->passed[list] = TNM_NEW(arena, bool, b->lower->operands[list].n);
    if (b->passed[list] == NULL) return false;
  }
  b->dims = TNM_NEW(arena, tnm_bound_arg, n_dims);
  for (uint32_t i = 0; b->dims != NULL && i < n_dims; ++i)
    b->dims[i].list = TN_NONE;
  b->out->dims = b->dims;
  return b->dims != NULL;
}

/* ----------------------------------------------------------------- examples */

/* Tests whether an example states an expected output. Without one it would
 * prove nothing. */
static bool has_expected_output(const tnm_bind *b, const tnm_example *example) {
  for (size_t i = 0; i < example->n_items; ++i)
    if (tnm_find_operand(b->lower, TN_OPERAND_OUT, example->items[i].name) !=
        TN_NONE)
      return true;
  return false;
}

/* Reports a binding without an example that has outputs: only calls can test
 * the prototype. */
static void check_examples(const tnm_bind *b) {
  const tnm_operator *out = b->lower->out;
  for (size_t i = 0; i < out->n_examples; ++i)
    if (has_expected_output(b, &out->examples[i])) return;
  tnm_diag_spec spec = {"E0089", b->map->key_pos, NULL};
  size_t id = tnm_diag_add(
      get_diags(b), &spec, "nothing checks the prototype of `%.80s`",
      b->out->symbol != NULL ? b->out->symbol : "the function");
  tnm_diag_add_help(
      get_diags(b), id,
      "add `examples:` with inputs and outputs; they are run before "
      "the operator may be used");
}

/* --------------------------------------------------------------- the kernel */

/* Returns the text of the requirement that the machine has the library:
 * "cblas_saxpy of libblas.so.3". */
static const char *write_requirement(const tnm_bind *b) {
  const char *text = tnm_format_text(b->lower->arena, "%s of", b->out->symbol);
  for (uint32_t i = 0; text != NULL && i < b->out->n_libraries; ++i)
    text = tnm_format_text(b->lower->arena, "%s%s %s", text, i > 0 ? " or" : "",
                           b->out->libraries[i]);
  return text;
}

/* Makes the table of the kernel that calls the function. `overlap`: two calls
 * may run at the same time. */
static void make_kernel(tnm_bind *b, bool overlap) {
  const tnm_lower *lower = b->lower;
  const tn_op *op = lower->op;
  tn_kernel *kernel = TNM_NEW(lower->arena, tn_kernel, 1);
  uint64_t *sets = TNM_NEW(lower->arena, uint64_t, op->n_dtype_vars);
  if (kernel == NULL || sets == NULL || b->out->symbol == NULL) return;
  *kernel = (tn_kernel){
      .struct_size = sizeof *kernel,
      .flags = overlap ? TN_KERNEL_REENTRANT : 0,
      .device_type = TN_DEVICE_CPU,
      .priority = 10,
      .writes = TN_WRITES_WRITE,
      .n_dtype_sets = op->n_dtype_vars,
      .when = TN_NONE,
      .op = lower->target_name,
      .id = tnm_format_text(lower->arena, "%s.cpu", tnm_kernel_stem(lower)),
      .requirement = write_requirement(b),
      .dtype_sets = sets};
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->inplace != TN_NONE) kernel->writes |= TN_WRITES_INPLACE;
  tnm_set_kernel_inplace(b->lower, NULL, kernel);
  b->out->kernel = kernel;
}

void tnm_lower_binding(tnm_lower *lower) {
  tnm_tree *map = tnm_tree_get(lower->doc, "binding");
  if (map == NULL) return;
  tnm_bind b = {
      .lower = lower, .map = map, .out = TNM_NEW(lower->arena, tnm_binding, 1)};
  if (b.out == NULL ||
      !tnm_schema_check(lower->diags, &tnm_schema_binding, map))
    return;
  b.out->pos = map->key_pos;
  refuse_own_code(&b);
  read_libraries(&b);
  read_symbol(&b);
  const bool overlap = may_run_together(&b);
  check_examples(&b);
  if (lower->incomplete) return;
  if (alloc_marks(&b) && init_program(&b)) {
    tnm_read_map(&b);
    read_args(&b);
    read_returns(&b);
    tnm_check_map(&b);
    check_bound_operands(&b);
    make_kernel(&b, overlap);
    if (!tnm_program_finish(&b.program, &b.out->nodes, &b.out->n_nodes))
      lower->arena->failed = true;
    lower->out->binding = b.out;
  }
  tnm_program_deinit(&b.program);
}
