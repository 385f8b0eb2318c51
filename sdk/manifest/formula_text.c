/* SPDX-License-Identifier: Apache-2.0
 * formula_text.c: writes the manifest of a formula that has none. The names of
 * the formula decide the inputs, and its functions the types.
 */
#include <inttypes.h>
#include <string.h>

#include "expr.h"
#include "front.h"

#define ALL_FLOATS "f16, bf16, f32, f64"
#define ALL_INTEGERS "i8, u8, i16, u16, i32, u32, i64"

typedef struct writer {
  const tn_formula *from;
  tn__arena *arena;
  tnm_diags *diags;
  tnm_source source;
  const char *axes; /* the name of axes in reductions, or NULL */
  const char **inputs;
  uint32_t n_inputs;
  bool *used; /* per parameter */
  const tnm_expr *expr;
} writer;

/* ------------------------------------------------------------------- names */

static bool is_named(const tnm_expr *e, const char *name) {
  return e->kind == TNM_NAME && (!name || !strcmp(e->text, name));
}

/* The name of axes if a call is a reduction over them, otherwise NULL. */
static const char *find_own_axes(const tnm_expr *e) {
  if (e->kind != TNM_CALL) return NULL;
  if (!strcmp(e->text, "count"))
    return e->n_args == 1 && is_named(e->args[0], NULL) ? e->args[0]->text
                                                        : NULL;
  if (tnm_reduction_find(e->text) == TN_NONE || e->n_args != 2) return NULL;
  const bool is_function = tnm_function_find(e->text) != TN_NONE;
  return is_named(e->args[1], is_function ? "axis" : NULL) ? e->args[1]->text
                                                           : NULL;
}

static void find_axes(writer *w, const tnm_expr *e) {
  const char *own = find_own_axes(e);
  if (own && !w->axes) w->axes = own;
  for (uint32_t i = 0; i < tnm_expr_count_args(e); ++i)
    find_axes(w, e->args[i]);
}

static size_t find_param(const tn_formula *from, const char *name) {
  size_t i = 0;
  while (i < from->n && strcmp(from->params[i].key, name) != 0) ++i;
  return i;
}

static void add_name(writer *w, const char *name) {
  const size_t param = find_param(w->from, name);
  if (param < w->from->n) w->used[param] = true;
  if (param < w->from->n || (w->axes && !strcmp(name, w->axes))) return;
  for (uint32_t i = 0; i < w->n_inputs; ++i)
    if (!strcmp(w->inputs[i], name)) return;
  w->inputs[w->n_inputs++] = name;
}

/* Adds the names of an expression, in their order. */
static void add_names(writer *w, const tnm_expr *e) {
  if (e->kind == TNM_NAME) add_name(w, e->text);
  for (uint32_t i = 0; i < tnm_expr_count_args(e); ++i)
    add_names(w, e->args[i]);
}

/* ------------------------------------------------------------------- types */

/* Parses the formula with the meaning of its names. */
static const tnm_expr *parse_formula(writer *w) {
  const size_t n = w->from->n;
  tn_field *fields = tn__arena_alloc(w->arena, (n + 1) * sizeof *fields);
  const tn_field **list = tn__arena_alloc(w->arena, (n + 1) * sizeof *list);
  tnm_scope scope = {.inputs = w->inputs,
                     .n_inputs = w->n_inputs,
                     .params = list,
                     .axes = w->axes};
  if (!fields || !list) return NULL;
  for (size_t i = 0; i < n; ++i) {
    if (w->axes && !strcmp(w->from->params[i].key, w->axes)) continue;
    fields[i] =
        (tn_field){.name = w->from->params[i].key, .type = TN_FIELD_FLOAT};
    list[scope.n_params++] = &fields[i];
  }
  return tnm_expr_parse(&w->source, &scope);
}

static void note_obstacle(void *ctx, const tnm_expr *at, int obstacle) {
  bool *found = ctx;
  (void)at;
  if (obstacle == TNM_UNKNOWN) *found = true;
}

/* Derives the gradient of a formula of floats, to see whether it has one
 * (TNM_DERIVED). */
static int try_gradient(const writer *w) {
  static const char *const output = "out";
  uint8_t inputs[TNM_EXPR_MAX_TENSORS];
  const uint8_t own = (uint8_t)tnm_expr_level(w->expr, NULL);
  const bool stop[TNM_EXPR_MAX_TENSORS] = {false};
  const tnm_expr *gradients[TNM_EXPR_MAX_TENSORS];
  bool found = false;
  memset(inputs, TNM_LEVEL_FULL, sizeof inputs);
  tnm_find_obstacles(w->expr, stop, note_obstacle, &found);
  if (found) return TNM_DERIVE_UNKNOWN;
  const tnm_levels levels = {inputs, &own, w->axes};
  const tnm_derivation d = {.arena = w->arena,
                            .formulas = &w->expr,
                            .outputs = &output,
                            .n_outputs = 1,
                            .inputs = w->inputs,
                            .n_inputs = w->n_inputs,
                            .sums = !w->axes && w->n_inputs > 1,
                            .levels = w->axes ? &levels : NULL};
  return tnm_derive(&d, gradients);
}

/* -------------------------------------------------------------------- text */

static bool add_param(const tn_value *value, bool is_axis, tn__buf *out,
                      tn__buf *why) {
  tn__buf_add(out, "  - {name: %s, type: %s, default: ", value->key,
              is_axis ? "int" : "float");
  if (value->type == TN_FIELD_FLOAT)
    tn__buf_double(out, value->as.f);
  else if (value->type == TN_FIELD_INT || value->type == TN_FIELD_BOOL)
    tn__buf_add(out, "%" PRId64, value->as.i);
  else if (value->type == TN_FIELD_STRING && value->as.s)
    tn__buf_json(out, value->as.s);
  else {
    tn__buf_add(why, "the parameter `%s` of a formula must be a number",
                value->key);
    return false;
  }
  tn__buf_add(out, "}\n");
  return true;
}

static bool add_params(const writer *w, tn__buf *out, tn__buf *why) {
  static const tn_value last = {.type = TN_FIELD_INT, .as.i = -1};
  const tn_formula *from = w->from;
  const bool lacks_axis = w->axes && find_param(from, w->axes) == from->n;
  if (from->n == 0 && !lacks_axis) return true;
  tn__buf_add(out, "params:\n");
  for (size_t i = 0; i < from->n; ++i)
    if (!add_param(&from->params[i],
                   w->axes && !strcmp(from->params[i].key, w->axes), out, why))
      return false;
  tn_value axis = last;
  axis.key = w->axes;
  return !lacks_axis || add_param(&axis, true, out, why);
}

static void add_inputs(const writer *w, tn__buf *out) {
  tn__buf_add(out, "inputs:\n");
  for (uint32_t i = 0; i < w->n_inputs; ++i) {
    tn__buf_add(out, "  - {name: %s, dtype: T", w->inputs[i]);
    if (w->axes && i > 0) tn__buf_add(out, ", shape: %s", w->inputs[0]);
    tn__buf_add(out, "}\n");
  }
}

/* A name for the output that no other operand has. */
static const char *find_output_name(const writer *w) {
  static const char *const names[] = {"out", "result", "value"};
  for (size_t k = 0; k < 2; ++k) {
    bool is_used = find_param(w->from, names[k]) < w->from->n;
    for (uint32_t i = 0; i < w->n_inputs; ++i)
      is_used = is_used || !strcmp(w->inputs[i], names[k]);
    if (!is_used) return names[k];
  }
  return names[2];
}

static void add_output(const writer *w, tn__buf *out) {
  const char *name = find_output_name(w);
  tn__buf_add(out, "outputs:\n  - {name: %s, dtype: T, shape: ", name);
  if (w->axes && tnm_expr_level(w->expr, NULL) == TNM_LEVEL_LINE)
    tn__buf_add(out, "{line: %s}", w->axes);
  else
    tn__buf_add(out, "%s",
                w->axes || w->n_inputs == 1 ? w->inputs[0] : "broadcast");
  tn__buf_add(out, "}\nforward: {%s: ", name);
  tn__buf_json(out, w->from->expression);
  tn__buf_add(out, "}\n");
}

static void add_gradient(const writer *w, bool is_float, tn__buf *out) {
  const int status = is_float ? try_gradient(w) : TNM_DERIVE_UNKNOWN;
  if (status == TNM_DERIVED)
    tn__buf_add(out, "gradient: auto\n");
  else
    tn__buf_add(out, "gradient: {none: true, why: %s}\n",
                !is_float ? "the formula computes integers"
                : status == TNM_DERIVE_LONG
                    ? "its formula is longer than a formula may be"
                    : "a function in the formula has no derivative here");
}

/* The types of the operands: those in which the formula is defined. A parameter
 * of a formula of integers would lose its fraction, so such a formula has none,
 * unless its functions are those of integers alone. */
static bool add_text(const writer *w, tn__buf *out, tn__buf *why) {
  const int classes = tnm_expr_classes(w->expr);
  const int narrow = TNM_CLASS_I32 | TNM_CLASS_I64;
  const bool floats = (classes & TNM_CLASS_FLOATS) == TNM_CLASS_FLOATS;
  const bool integers =
      (classes & narrow) == narrow && (!floats || w->from->n == 0);
  tn__buf_add(out, "opgen: 1\nop: ");
  tn__buf_json(out, w->from->name);
  tn__buf_add(out, "\nsummary: A formula\n");
  if (!add_params(w, out, why)) return false;
  tn__buf_add(out, "dtypes: {T: [%s%s%s]}\n", floats ? ALL_FLOATS : "",
              floats && integers ? ", " : "", integers ? ALL_INTEGERS : "");
  if (w->axes) tn__buf_add(out, "axes: [%s]\n", w->axes);
  add_inputs(w, out);
  add_output(w, out);
  add_gradient(w, floats, out);
  return true;
}

/* ------------------------------------------------------------------- checks */

static bool check_params(const writer *w, tn__buf *why) {
  for (size_t i = 0; i < w->from->n; ++i) {
    const char *key = w->from->params[i].key;
    if (w->used[i] || (w->axes && !strcmp(key, w->axes))) continue;
    tn__buf_add(why,
                "the parameter `%s` is not in the formula `%.200s`; use "
                "its name there, or leave it out",
                key, w->from->expression);
    return false;
  }
  if (w->n_inputs > 0) return true;
  tn__buf_add(why,
              "the formula `%.200s` has no input; a name in it that is no "
              "parameter is one",
              w->from->expression);
  return false;
}

/* Reads the names of the formula. False after a message. */
static bool read_names(writer *w, tn__buf *why) {
  tnm_parser parser;
  tnm_parser_init(&parser, &w->source);
  const tnm_expr *syntax = tnm_parser_read_expr(&parser);
  if (!syntax || !tnm_parser_expect_end(&parser)) return false;
  w->inputs = tn__arena_alloc(w->arena, TNM_EXPR_MAX_NODES * sizeof *w->inputs);
  w->used = tn__arena_alloc(w->arena, w->from->n + 1);
  if (!w->inputs || !w->used) return false;
  memset(w->used, 0, w->from->n + 1);
  find_axes(w, syntax);
  add_names(w, syntax);
  return check_params(w, why);
}

static tn_code write_formula(writer *w, tn__buf *out, tn__buf *why) {
  const bool has_names = read_names(w, why);
  if (has_names) w->expr = parse_formula(w);
  if (has_names && w->expr && add_text(w, out, why)) return TN_OK;
  if (tnm_diags_errors(w->diags) > 0) tnm_diags_add_text(w->diags, why);
  return why->n > 0 ? TN_INVALID : TN_OUT_OF_MEMORY;
}

tn_code tnm_formula_write(const tn__env *env, const tn_formula *from,
                          tn__buf *out, tn__buf *why) {
  static const char name[] = "(formula)";
  if (from->struct_size < sizeof *from) {
    tn__buf_add(why,
                "tn_formula.struct_size is %u; set it to sizeof(tn_formula)",
                (unsigned)from->struct_size);
    return TN_INVALID;
  }
  if (!from->expression) {
    tn__buf_add(why,
                "tn_formula.expression is NULL; set it to a text such as "
                "`scale*data^3`");
    return TN_INVALID;
  }
  for (uint32_t i = 0; i < from->n; ++i) {
    if (from->params && from->params[i].key) continue;
    tn__buf_add(why, "parameter %u of the formula has no name", i);
    return TN_INVALID;
  }
  tn__arena arena;
  tn_code rc = TN_OUT_OF_MEMORY;
  tnm_diags *diags = tnm_diags_create(env);
  if (!diags) return rc;
  tn__arena_init(&arena, env);
  const uint32_t file = tnm_diags_add_file(diags, name, from->expression,
                                           strlen(from->expression));
  writer w = {.from = from, .arena = &arena, .diags = diags};
  w.source = (tnm_source){&arena,
                          diags,
                          from->expression,
                          {.line = 1, .column = 1, .length = 1, .file = file}};
  if (tnm_text_check(diags, file, from->expression, strlen(from->expression)) &&
      !arena.failed)
    rc = write_formula(&w, out, why);
  else if (tnm_diags_errors(diags) > 0) {
    tnm_diags_add_text(diags, why);
    rc = TN_INVALID;
  }
  if (arena.failed || out->failed || why->failed) rc = TN_OUT_OF_MEMORY;
  tn__arena_deinit(&arena);
  tnm_diags_release(diags);
  return rc;
}
