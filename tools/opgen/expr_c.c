/* SPDX-License-Identifier: Apache-2.0
 * expr_c.c: one formula as C. Every text that is put together fits on a line:
 * what would not is split, the longest operand first becoming a variable of its
 * own. The order of operations is that of the formula, so the variables change
 * no result.
 */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "cfile.h"
#include "emit_kernel.h"

/* What fits between "    const double t99 = " and ";". */
#define ROOM 56

/* How tightly a text binds in C; the lower, the tighter. A name or a number is
 * an atom, a call is primary. */
enum { ATOM, PRIMARY, UNARY, PRODUCT, SUM, COMPARISON };

/* A part of the formula, already C. */
typedef struct piece {
  const char *text;
  int level;
  bool is_int; /* a comparison: an int where the others are floating */
} piece;

typedef struct writer {
  tn__arena arena; /* texts */
  tn__buf lines;   /* definitions of variables */
  unsigned n_variables;
  bool f64;
  tnm_sharing shared; /* what occurs more than once: a variable each */
  piece *variables;
  size_t n_known; /* of them so far */
} writer;

/* ------------------------------------------------------------------- names */

/* Names that generated kernels use themselves. Those of manifests are in lower
 * case, so a capital letter makes them different from all others. */
static bool is_taken(const char *name) {
  static const char *const taken[] = {
      "i",     "p",    "block", "params", "ceil",   "ceilf",
      "erff",  "expf", "fabs",  "fmod",   "floorf", "fabsf",
      "fmodf", "logf", "powf",  "sqrtf",  "tanhf"};
  if (strncmp(name, "grad_", 5) == 0) return true;
  if (name[0] == 't' && name[1] != '\0' &&
      strspn(name + 1, "0123456789") == strlen(name + 1))
    return true;
  for (size_t i = 0; i < sizeof taken / sizeof *taken; ++i)
    if (strcmp(taken[i], name) == 0) return true;
  return false;
}

void emit_variable(tn__buf *out, const tnm_expr *name) {
  if (name->kind == TNM_GRAD)
    tn__buf_add(out, "grad_%s", name->text);
  else
    tn__buf_add(out, "%s%s", name->text, is_taken(name->text) ? "_V" : "");
}

/* Adds a name to a list unless it is there. */
static void collect(const tnm_expr **list, size_t *n, const tnm_expr *name) {
  for (size_t i = 0; i < *n; ++i)
    if (list[i]->kind == name->kind && list[i]->index == name->index) return;
  list[(*n)++] = name;
}

static void collect_all(const tnm_expr *expr, formula_names *names) {
  if (expr->kind == TNM_PARAM)
    collect(names->params, &names->n_params, expr);
  else if (expr->kind == TNM_INPUT || expr->kind == TNM_OUTPUT ||
           expr->kind == TNM_GRAD)
    collect(names->tensors, &names->n_tensors, expr);
  for (uint32_t i = 0; i < expr->n_args; ++i) collect_all(expr->args[i], names);
}

static size_t count_nodes(const tnm_expr *expr) {
  size_t n = 1;
  for (uint32_t i = 0; i < expr->n_args; ++i) n += count_nodes(expr->args[i]);
  return n;
}

bool formula_names_collect(tn__arena *arena, const tnm_expr *expr,
                           formula_names *names) {
  size_t n = count_nodes(expr);
  *names = (formula_names){0};
  names->tensors = tn__arena_alloc(arena, n * sizeof *names->tensors);
  names->params = tn__arena_alloc(arena, n * sizeof *names->params);
  if (!names->tensors || !names->params) return false;
  collect_all(expr, names);
  return true;
}

/* ------------------------------------------------------------------ pieces */

/* Moves a text into the arena. */
static const char *keep(writer *w, tn__buf *buf) {
  const char *text =
      buf->failed ? NULL : tn__arena_text(&w->arena, buf->s, buf->n);
  if (!text) w->arena.failed = true;
  tn__buf_deinit(buf);
  return text ? text : "";
}

static piece format(writer *w, int level, const char *pattern, ...)
    TN_PRINTF(3, 4);

static piece format(writer *w, int level, const char *pattern, ...) {
  /* Texts are bounded by ROOM plus names of at most 64 characters. */
  char text[1024];
  va_list args;
  tn__buf buf;
  va_start(args, pattern);
  int n = vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  tn__buf_init(&buf, w->arena.env);
  if (n >= 0 && (size_t)n < sizeof text)
    tn__buf_bytes(&buf, text, (size_t)n);
  else
    buf.failed = true;
  return (piece){keep(w, &buf), level, false};
}

/* Makes a variable of a piece. */
static void hoist(writer *w, piece *part) {
  unsigned number = ++w->n_variables;
  const char *type = part->is_int ? "int" : w->f64 ? "double" : "float";
  tn__buf_add(&w->lines, "    const %s t%u = %s;\n", type, number, part->text);
  piece name = format(w, ATOM, "t%u", number);
  name.is_int = part->is_int;
  *part = name;
}

/* Hoists the longest of the parts until they fit with `extra` columns. */
static void fit(writer *w, piece *parts, size_t n, size_t extra) {
  for (;;) {
    size_t longest = 0;
    size_t total = extra;
    for (size_t i = 0; i < n; ++i) {
      total += strlen(parts[i].text);
      if (strlen(parts[i].text) > strlen(parts[longest].text)) longest = i;
    }
    if (total <= ROOM || parts[longest].level == ATOM) return;
    hoist(w, &parts[longest]);
  }
}

/* A comparison as the number 1 or 0. */
static piece as_number(writer *w, piece part) {
  if (!part.is_int) return part;
  const char *type = w->f64 ? "double" : "float";
  fit(w, &part, 1, 10);
  if (part.level == ATOM) return format(w, UNARY, "(%s)%s", type, part.text);
  return format(w, UNARY, "(%s)(%s)", type, part.text);
}

/* A piece as an operand of something that takes what binds as tight as
 * `level`. */
static const char *operand(writer *w, piece part, int level) {
  if (part.level <= level) return part.text;
  return format(w, PRIMARY, "(%s)", part.text).text;
}

static const char *suffix(const writer *w) {
  return w->f64 ? "" : "f";
}

static const char *class_name(const writer *w) {
  return w->f64 ? "f64" : "f32";
}

/* ------------------------------------------------------------------ leaves */

/* As written, unless that is long or means nothing in f32. */
static piece number(writer *w, const tnm_expr *expr) {
  tn__buf buf;
  if (!w->f64 && expr->number > (double)FLT_MAX)
    return format(w, ATOM, "INFINITY");
  if (expr->number == 0 || (!w->f64 && (float)expr->number == 0))
    return format(w, ATOM, "0.0%s", suffix(w));
  tn__buf_init(&buf, w->arena.env);
  if (strlen(expr->text) <= 24)
    tn__buf_add(&buf, "%s", expr->text);
  else
    tn__buf_double(&buf, expr->number);
  if (buf.s && !strpbrk(buf.s, ".eE")) tn__buf_add(&buf, ".0");
  tn__buf_add(&buf, "%s", suffix(w));
  return (piece){keep(w, &buf), ATOM, false};
}

static piece variable(writer *w, const tnm_expr *expr) {
  tn__buf buf;
  tn__buf_init(&buf, w->arena.env);
  emit_variable(&buf, expr);
  if (expr->kind != TNM_PARAM) tn__buf_add(&buf, "[i]");
  return (piece){keep(w, &buf), ATOM, false};
}

/* --------------------------------------------------------------- operators */

static piece render(writer *w, const tnm_expr *expr);

static piece render_number(writer *w, const tnm_expr *expr) {
  return as_number(w, render(w, expr));
}

/* "left op right"; the right operand of the same level keeps its brackets. */
static piece infix(writer *w, const char *op, int level, piece parts[2]) {
  fit(w, parts, 2, strlen(op) + 6);
  return format(w, level, "%s %s %s", operand(w, parts[0], level), op,
                operand(w, parts[1], level - 1));
}

/* "function(a, b)"; `parts` fit. */
static piece call_2(writer *w, const char *function, piece parts[2]) {
  fit(w, parts, 2, strlen(function) + 4);
  return format(w, PRIMARY, "%s(%s, %s)", function, parts[0].text,
                parts[1].text);
}

/* "tn_math_min_f32" */
static const char *helper(writer *w, const char *name) {
  return format(w, PRIMARY, "tn_math_%s_%s", name, class_name(w)).text;
}

/* "tn_math_exp_f32(a)" */
static piece helper_1(writer *w, const char *name, piece part) {
  const char *function = helper(w, name);
  fit(w, &part, 1, strlen(function) + 2);
  return format(w, PRIMARY, "%s(%s)", function, part.text);
}

static piece negative(writer *w, const tnm_expr *expr) {
  piece part = render_number(w, expr->args[0]);
  fit(w, &part, 1, 3);
  /* Two signs in a row would be a decrement. */
  if (part.text[0] == '-') return format(w, UNARY, "-(%s)", part.text);
  return format(w, UNARY, "-%s", operand(w, part, UNARY));
}

/* The value of an exponent that is a plain number, otherwise 0. */
static double constant_exponent(const tnm_expr *expr) {
  if (expr->kind == TNM_NUMBER) return expr->number;
  if (expr->kind == TNM_NEG && expr->args[0]->kind == TNM_NUMBER)
    return -expr->args[0]->number;
  return 0;
}

/* base * base ..., `n` factors from 2 to 4. The base must be a name. */
static piece product(writer *w, piece base, int n) {
  const char *b = base.text;
  if (base.level != ATOM || 3 * (strlen(b) + 3) > ROOM) {
    hoist(w, &base);
    b = base.text;
  }
  if (n == 2) return format(w, PRODUCT, "%s * %s", b, b);
  if (n == 3) return format(w, PRODUCT, "%s * %s * %s", b, b, b);
  piece square = format(w, PRODUCT, "%s * %s", b, b);
  hoist(w, &square);
  return format(w, PRODUCT, "%s * %s", square.text, square.text);
}

static piece power(writer *w, const tnm_expr *expr) {
  double exponent = constant_exponent(expr->args[1]);
  piece parts[2] = {render_number(w, expr->args[0])};
  if (exponent == 1) return parts[0];
  if (exponent == 2 || exponent == 3 || exponent == 4)
    return product(w, parts[0], (int)exponent);
  if (exponent == 0.5) return helper_1(w, "sqrt", parts[0]);
  if (exponent == -1) {
    fit(w, parts, 1, 9);
    return format(w, PRODUCT, "1.0%s / %s", suffix(w),
                  operand(w, parts[0], UNARY));
  }
  parts[1] = render_number(w, expr->args[1]);
  return call_2(w, helper(w, "pow"), parts);
}

static piece comparison(writer *w, const tnm_expr *expr, piece parts[2]) {
  static const char *const names[] = {"<=", ">=", "==", "!="};
  static const char letters[] = "lgen";
  const char *found = strchr(letters, expr->op);
  char plain[2] = {expr->op, '\0'};
  piece result =
      infix(w, found ? names[found - letters] : plain, COMPARISON, parts);
  result.is_int = true;
  return result;
}

static piece binary(writer *w, const tnm_expr *expr) {
  if (expr->op == '^') return power(w, expr);
  piece parts[2] = {render_number(w, expr->args[0]),
                    render_number(w, expr->args[1])};
  switch (expr->op) {
    case '+':
      return infix(w, "+", SUM, parts);
    case '-':
      return infix(w, "-", SUM, parts);
    case '*':
      return infix(w, "*", PRODUCT, parts);
    case '/':
      return infix(w, "/", PRODUCT, parts);
    case '%':
      return call_2(w, helper(w, "mod"), parts);
    default:
      return comparison(w, expr, parts);
  }
}

/* --------------------------------------------------------------- functions */

static piece select_call(writer *w, const tnm_expr *expr) {
  piece parts[3];
  const char *function = helper(w, "select");
  parts[0] = render(w, expr->args[0]);
  for (size_t i = 1; i < 3; ++i) parts[i] = render_number(w, expr->args[i]);
  if (!parts[0].is_int) {
    fit(w, parts, 1, 10);
    parts[0] = format(w, COMPARISON, "%s != 0.0%s", operand(w, parts[0], SUM),
                      suffix(w));
    parts[0].is_int = true;
  }
  fit(w, parts, 3, strlen(function) + 6);
  return format(w, PRIMARY, "%s(%s, %s, %s)", function, parts[0].text,
                parts[1].text, parts[2].text);
}

/* "tn_math_cos_f32(x)" */
static piece math_call(writer *w, const tnm_expr *expr) {
  const char *function =
      format(w, PRIMARY, "tn_math_%s_%s", expr->text, class_name(w)).text;
  piece parts[3] = {{"", ATOM, false}, {"", ATOM, false}, {"", ATOM, false}};
  for (uint32_t i = 0; i < expr->n_args; ++i)
    parts[i] = render_number(w, expr->args[i]);
  fit(w, parts, expr->n_args, strlen(function) + 2 * expr->n_args);
  return format(w, PRIMARY, "%s(%s%s%s%s%s)", function, parts[0].text,
                expr->n_args > 1 ? ", " : "", parts[1].text,
                expr->n_args > 2 ? ", " : "", parts[2].text);
}

static piece call(writer *w, const tnm_expr *expr) {
  if (expr->index == TNM_F_POW) return power(w, expr);
  if (expr->index == TNM_F_SELECT) return select_call(w, expr);
  return math_call(w, expr);
}

static piece render(writer *w, const tnm_expr *expr) {
  for (size_t i = 0; i < w->n_known; ++i)
    if (w->shared.v[i] == expr) return w->variables[i];
  switch (expr->kind) {
    case TNM_NUMBER:
      return number(w, expr);
    case TNM_NEG:
      return negative(w, expr);
    case TNM_BINARY:
      return binary(w, expr);
    case TNM_CALL:
      return call(w, expr);
    default:
      return variable(w, expr);
  }
}

/* -------------------------------------------------------------- loop bodies */

/* Makes variables of the parts that occur more than once; returns the formula
 * as a graph in which they do. */
static const tnm_expr *share(writer *w, const tnm_expr *expr) {
  const tnm_expr *graph = tnm_expr_share(&w->arena, expr, &w->shared);
  w->variables =
      tn__arena_alloc(&w->arena, (w->shared.n + 1) * sizeof *w->variables);
  if (graph == NULL || w->variables == NULL) return expr;
  for (size_t i = 0; i < w->shared.n; ++i) {
    w->variables[i] = render(w, w->shared.v[i]);
    if (w->variables[i].level != ATOM) hoist(w, &w->variables[i]);
    w->n_known = i + 1;
  }
  return graph;
}

void emit_formula(tn__buf *out, const loop_body *f, size_t column) {
  writer w = {.f64 = f->f64};
  tn__arena_init(&w.arena, out->env);
  tn__buf_init(&w.lines, out->env);
  piece value = render_number(&w, share(&w, f->expr));
  size_t width = strlen(f->target) + strlen("[i] = ;") + strlen(value.text);
  if (4 + width > C_PAGE && value.level != ATOM) {
    hoist(&w, &value);
    width = C_PAGE;
  }
  if (w.lines.n > 0)
    tn__buf_add(out, " {\n%s    %s[i] = %s;\n  }\n", w.lines.s, f->target,
                value.text);
  else
    tn__buf_add(out, "%s%s[i] = %s;\n",
                column + 1 + width <= C_PAGE ? " " : "\n    ", f->target,
                value.text);
  if (w.arena.failed || w.lines.failed) out->failed = true;
  tn__buf_deinit(&w.lines);
  tn__arena_deinit(&w.arena);
}
