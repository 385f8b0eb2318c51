/* SPDX-License-Identifier: Apache-2.0
 * expr_c.c: writes one formula as C. Every composed text fits on a line: a
 * longer one is split, and its longest operand becomes a variable first. A
 * repeated part becomes a variable as well. The order of operations is that of
 * the formula, so the variables change no result.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emit_kernel.h"

/* The precedence of a text in C; the lower, the tighter. A name or a number is
 * an atom, a call is primary. */
enum { ATOM, PRIMARY, UNARY, PRODUCT, SUM, COMPARISON, CHOICE };

/* The C type of a part. */
enum {
  VALUE, /* the type of the class */
  TRUTH, /* int, 1 or 0: a comparison */
  WRAP   /* the unsigned type of an integer class, whose arithmetic wraps; that
            of u64 is VALUE as well */
};

/* A part of the formula as C. */
typedef struct piece {
  const char *text;
  int level;
  int type;
} piece;

typedef struct writer {
  const kernel_pass *pass;
  int class_bit;
  unsigned n_variables;
  tnm_sharing sharing; /* repeated parts ... */
  piece *shared;       /* ... and the variables for those written so far */
  size_t n_shared;
} writer;

static bool is_integer(const writer *w) {
  return (w->class_bit & TNM_CLASS_FLOATS) == 0;
}

static const char *type_name(const writer *w, int type) {
  if (type == TRUTH) return "int";
  if (type == VALUE) return formula_type(w->pass, w->class_bit);
  return w->class_bit == TNM_CLASS_I32 ? "uint32_t" : "uint64_t";
}

#define PIECE(w, level, type, ...) \
  ((piece){pass_format((w)->pass, __VA_ARGS__), (level), (type)})

/* ------------------------------------------------------------------- pieces */

/* Makes a variable of a piece. */
static void hoist_piece(writer *w, piece *part) {
  const unsigned number = ++w->n_variables;
  c_add(w->pass->c, "const %s t%u = %s;\n", type_name(w, part->type), number,
        part->text);
  *part = PIECE(w, ATOM, part->type, "t%u", number);
}

/* Makes variables of the longest parts until they fit with `extra` columns. */
static void fit_pieces(writer *w, piece *parts, size_t n, size_t extra) {
  for (;;) {
    size_t longest = 0;
    size_t total = extra;
    for (size_t i = 0; i < n; ++i) {
      total += strlen(parts[i].text);
      if (strlen(parts[i].text) > strlen(parts[longest].text)) longest = i;
    }
    if (total <= C_LONGEST_EXPRESSION || parts[longest].level == ATOM) return;
    hoist_piece(w, &parts[longest]);
  }
}

/* A piece as an operand of an operation that needs precedence `level`. */
static const char *as_bracketed(writer *w, piece part, int level) {
  if (part.level <= level) return part.text;
  return pass_format(w->pass, "(%s)", part.text);
}

static piece cast_piece(writer *w, piece part, int type) {
  fit_pieces(w, &part, 1, 12);
  return PIECE(w, UNARY, type, "(%s)%s", type_name(w, type),
               as_bracketed(w, part, PRIMARY));
}

/* Converts for functions and comparisons: an int is already an i32. */
static piece as_value(writer *w, piece part) {
  if (part.type == VALUE) return part;
  if (part.type == WRAP && w->class_bit == TNM_CLASS_U64) {
    part.type = VALUE;
    return part;
  }
  if (part.type == TRUTH && w->class_bit == TNM_CLASS_I32) {
    part.type = VALUE;
    return part;
  }
  return cast_piece(w, part, VALUE);
}

/* The suffix of a literal that makes it as wide as the class. */
static const char *wrap_suffix(const writer *w) {
  return w->class_bit == TNM_CLASS_I32 ? "u" : "ull";
}

/* Converts for `+ - *`: integer operands wrap. */
static piece as_term(writer *w, piece part) {
  if (!is_integer(w)) return as_value(w, part);
  if (part.type == WRAP) return part;
  if (strspn(part.text, "0123456789") == strlen(part.text))
    return PIECE(w, ATOM, WRAP, "%s%s", part.text, wrap_suffix(w));
  if (part.type == VALUE && w->class_bit == TNM_CLASS_U64) {
    part.type = WRAP;
    return part;
  }
  return cast_piece(w, part, WRAP);
}

static const char *literal_suffix(const writer *w) {
  return w->class_bit == TNM_CLASS_F32 ? "f" : "";
}

/* ------------------------------------------------------------------- leaves */

/* A whole number within the class; if only its negative is within, it wraps to
 * that. */
static piece whole_number(writer *w, const tnm_expr *number) {
  uint64_t wide = 0;
  (void)tnm_number_read_whole(number, &wide);
  if (w->class_bit != TNM_CLASS_I32)
    return wide <= INT64_MAX
               ? PIECE(w, ATOM, VALUE, "%" PRIu64, wide)
               : PIECE(w, ATOM, WRAP, "%" PRIu64 "%s", wide, wrap_suffix(w));
  const uint32_t low = (uint32_t)wide;
  return low <= INT32_MAX ? PIECE(w, ATOM, VALUE, "%" PRIu32, low)
                          : PIECE(w, ATOM, WRAP, "%" PRIu32 "u", low);
}

/* From this value on a number is nearer to infinity than to FLT_MAX. */
#define BEYOND_FLOAT 0x1.ffffffp127

/* A number as written, unless that is long or invalid in f32. */
static piece plain_number(writer *w, const tnm_expr *expr) {
  const bool single = w->class_bit == TNM_CLASS_F32;
  if (is_integer(w)) return whole_number(w, expr);
  if (single && expr->number >= BEYOND_FLOAT)
    return PIECE(w, ATOM, VALUE, "INFINITY");
  if (expr->number == 0 || (single && (float)expr->number == 0))
    return PIECE(w, ATOM, VALUE, "0.0%s", literal_suffix(w));
  tn__buf buf;
  tn__buf_init(&buf, w->pass->arena->env);
  if (expr->text != NULL && strlen(expr->text) <= 24)
    tn__buf_add(&buf, "%s", expr->text);
  else
    tn__buf_double(&buf, expr->number);
  const char *text = buf.s != NULL ? buf.s : "";
  const piece part = PIECE(w, ATOM, VALUE, "%s%s%s", text,
                           strpbrk(text, ".eE") ? "" : ".0", literal_suffix(w));
  w->pass->c->failed |= buf.failed;
  tn__buf_deinit(&buf);
  return part;
}

/* Converts a number to the computing type of the formula. */
static piece as_operand(writer *w, piece part) {
  if (w->pass->form != FORM_WIDE) return part;
  return PIECE(w, PRIMARY, VALUE, "tn_wide_of(%s)", part.text);
}

static piece write_number(writer *w, const tnm_expr *expr) {
  return as_operand(w, plain_number(w, expr));
}

/* ---------------------------------------------------------------- operators */

static piece write_expr(writer *w, const tnm_expr *expr);

static piece render_value(writer *w, const tnm_expr *expr) {
  return as_value(w, write_expr(w, expr));
}

static piece render_term(writer *w, const tnm_expr *expr) {
  return as_term(w, write_expr(w, expr));
}

/* Writes "left op right"; the right operand of the same level keeps its
 * brackets. So does a comparison on either side of another: C has two levels of
 * them. */
static piece write_infix(writer *w, const char *op, int level, piece parts[2]) {
  const bool compares = level == COMPARISON;
  fit_pieces(w, parts, 2, strlen(op) + 6);
  return PIECE(w, level, compares ? TRUTH : parts[0].type, "%s %s %s",
               as_bracketed(w, parts[0], compares ? level - 1 : level), op,
               as_bracketed(w, parts[1], level - 1));
}

/* Writes "tn_math_pow_f32(a, b)". */
static piece call_math(writer *w, const char *name, piece *parts, uint32_t n) {
  const char *end =
      w->pass->form == FORM_WIDE ? "wide" : tnm_class_name(w->class_bit);
  const char *function = pass_format(w->pass, "tn_math_%s_%s", name, end);
  fit_pieces(w, parts, n, strlen(function) + 2 * n);
  return PIECE(w, PRIMARY, VALUE, "%s(%s%s%s%s%s)", function, parts[0].text,
               n > 1 ? ", " : "", n > 1 ? parts[1].text : "", n > 2 ? ", " : "",
               n > 2 ? parts[2].text : "");
}

/* Writes a minus; two signs in a row would be a decrement. */
static piece write_negative(writer *w, const tnm_expr *expr) {
  if (is_integer(w)) {
    const piece part = write_expr(w, expr->args[0]);
    if (part.type == VALUE && expr->args[0]->kind == TNM_NUMBER &&
        w->class_bit != TNM_CLASS_U64)
      return PIECE(w, UNARY, VALUE, "-%s", part.text);
    piece parts[2] = {PIECE(w, ATOM, WRAP, "0%s", wrap_suffix(w)),
                      as_term(w, part)};
    return write_infix(w, "-", SUM, parts);
  }
  piece part = render_value(w, expr->args[0]);
  fit_pieces(w, &part, 1, 3);
  if (part.text[0] == '-') return PIECE(w, UNARY, VALUE, "-(%s)", part.text);
  return PIECE(w, UNARY, VALUE, "-%s", as_bracketed(w, part, UNARY));
}

static piece multiply_pieces(writer *w, piece a, piece b) {
  piece parts[2] = {a, b};
  return write_infix(w, "*", PRODUCT, parts);
}

/* Writes base * base ..., by squaring; exponents from 2 on. */
static piece write_product(writer *w, piece base, uint64_t exponent) {
  piece result = base;
  bool begun = false;
  for (uint64_t left = exponent; left > 0; left >>= 1) {
    const bool is_name =
        base.level == ATOM && strlen(base.text) < C_LONGEST_EXPRESSION / 4;
    if (left > 1 && !is_name) hoist_piece(w, &base);
    if (left == 3 && !begun)
      return multiply_pieces(w, multiply_pieces(w, base, base), base);
    if (left & 1) {
      result = begun ? multiply_pieces(w, result, base) : base;
      begun = true;
    }
    if (left > 1) base = multiply_pieces(w, base, base);
  }
  return result;
}

static piece write_power(writer *w, const tnm_expr *expr) {
  const double exponent = tnm_power_exponent(expr);
  if (exponent == 1) return write_expr(w, expr->args[0]);
  if (exponent >= 2 && tnm_expr_is_product(expr, w->class_bit))
    return write_product(w, render_term(w, expr->args[0]), (uint64_t)exponent);
  piece parts[2] = {render_value(w, expr->args[0])};
  if (tnm_expr_is_root(expr)) return call_math(w, "sqrt", parts, 1);
  if (exponent == -1) {
    const piece one = PIECE(w, ATOM, VALUE, "1.0%s", literal_suffix(w));
    piece quotient[2] = {as_operand(w, one), parts[0]};
    return write_infix(w, "/", PRODUCT, quotient);
  }
  parts[1] = render_value(w, expr->args[1]);
  return call_math(w, "pow", parts, 2);
}

static bool is_constant(const tnm_expr *expr) {
  if (expr->kind == TNM_NUMBER) return true;
  if (expr->n_args == 0) return false;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    if (!is_constant(expr->args[i])) return false;
  return true;
}

/* Whether a comparison of numbers without sign has a constant result: x < 0. */
static bool is_below_0(const tnm_expr *expr) {
  const tnm_expr *least = expr->args[strchr("<g", expr->op) != NULL];
  return strchr("<>lg", expr->op) != NULL && least->kind == TNM_NUMBER &&
         least->number == 0;
}

/* Writes such a comparison by means of the greater one of x and 0: compilers
 * warn of the comparison itself. */
static piece write_below_0(writer *w, const tnm_expr *expr) {
  const tnm_expr *other = expr->args[strchr("<g", expr->op) == NULL];
  const bool is_below = strchr("<>", expr->op) != NULL;
  piece x = render_value(w, other);
  if (x.level != ATOM) hoist_piece(w, &x);
  piece parts[2] = {x, PIECE(w, ATOM, VALUE, "0")};
  piece sides[2] = {call_math(w, "max", parts, 2), x};
  return write_infix(w, is_below ? "!=" : "==", COMPARISON, sides);
}

/* Compilers warn of a comparison with a constant result, such as that of x == x
 * or (x < y) == 2. A variable for one side avoids that. */
static void avoid_constant(writer *w, const tnm_expr *expr, piece parts[2]) {
  for (int i = 0; i < 2; ++i)
    if (parts[i].type == TRUTH && is_constant(expr->args[1 - i]))
      hoist_piece(w, &parts[i]);
  if (strcmp(parts[0].text, parts[1].text) == 0) hoist_piece(w, &parts[1]);
}

static piece write_comparison(writer *w, const tnm_expr *expr) {
  static const char *const names[] = {"<=", ">=", "==", "!="};
  static const char letters[] = "lgen";
  const char *found = strchr(letters, expr->op);
  const char plain[2] = {expr->op, '\0'};
  if (w->class_bit == TNM_CLASS_U64 && is_below_0(expr))
    return write_below_0(w, expr);
  piece parts[2] = {write_expr(w, expr->args[0]), write_expr(w, expr->args[1])};
  if (is_integer(w)) avoid_constant(w, expr, parts);
  for (int i = 0; i < 2; ++i) parts[i] = as_value(w, parts[i]);
  return write_infix(w, found ? names[found - letters] : plain, COMPARISON,
                     parts);
}

/* Writes `/` and `%`: functions where the class requires more than C's
 * operators. */
static piece write_division(writer *w, const tnm_expr *expr) {
  piece parts[2] = {render_value(w, expr->args[0]),
                    render_value(w, expr->args[1])};
  if (expr->op == '%') return call_math(w, "mod", parts, 2);
  return is_integer(w) ? call_math(w, "div", parts, 2)
                       : write_infix(w, "/", PRODUCT, parts);
}

static piece write_binary(writer *w, const tnm_expr *expr) {
  if (expr->op == '^') return write_power(w, expr);
  if (expr->op == '/' || expr->op == '%') return write_division(w, expr);
  if (!strchr("+-*", expr->op)) return write_comparison(w, expr);
  piece parts[2] = {render_term(w, expr->args[0]),
                    render_term(w, expr->args[1])};
  const char op[2] = {expr->op, '\0'};
  return write_infix(w, op, expr->op == '*' ? PRODUCT : SUM, parts);
}

/* ---------------------------------------------------------------- functions */

/* Writes "t != 0": a condition, as an int. */
static piece write_condition(writer *w, const tnm_expr *expr) {
  const piece part = write_expr(w, expr);
  if (part.type == TRUTH) return part;
  piece parts[2] = {as_value(w, part),
                    is_integer(w)
                        ? PIECE(w, ATOM, VALUE, "0")
                        : PIECE(w, ATOM, VALUE, "0.0%s", literal_suffix(w))};
  return write_infix(w, "!=", COMPARISON, parts);
}

/* Writes a selection. For floats it is a function, because compilers vectorise
 * it rather than `?:`. */
static piece write_choice(writer *w, const tnm_expr *expr) {
  piece parts[3] = {write_condition(w, expr->args[0]),
                    render_value(w, expr->args[1]),
                    render_value(w, expr->args[2])};
  if (!is_integer(w)) return call_math(w, "select", parts, 3);
  fit_pieces(w, parts, 3, 12);
  return PIECE(w, CHOICE, VALUE, "%s ? %s : %s",
               as_bracketed(w, parts[0], COMPARISON),
               as_bracketed(w, parts[1], COMPARISON),
               as_bracketed(w, parts[2], COMPARISON));
}

bool formula_has_form(const char *name, formula_form form) {
  static const char *const names[][20] = {
      [FORM_OWN] = {NULL},
      [FORM_NEAR] = {"sin", "cos", "tan", "log", "log2", "log10"},
      [FORM_DIRECT] = {"floor", "ceil", "trunc", "round", "rint", "round_even"},
      [FORM_WIDE] = {"exp", "log", "log1p", "log2", "log10", "sqrt", "rsqrt",
                     "sin", "cos", "tan", "asin", "acos", "sinh", "cosh",
                     "tanh", "acosh", "erfc", "gelu"}};
  for (const char *const *each = names[form]; *each != NULL; ++each)
    if (strcmp(*each, name) == 0) return true;
  return false;
}

const char *formula_form_end(formula_form form) {
  static const char *const ends[] = {[FORM_OWN] = "",
                                     [FORM_NEAR] = "_near",
                                     [FORM_DIRECT] = "_direct",
                                     [FORM_WIDE] = "_wide"};
  return ends[form];
}

static piece write_call(writer *w, const tnm_expr *expr) {
  const char *name = tnm_function_at(expr->index)->name;
  const formula_form form =
      w->pass->form != FORM_WIDE && formula_has_form(name, w->pass->form)
          ? w->pass->form
          : FORM_OWN;
  piece parts[3];
  if (expr->index == TNM_F_POW) return write_power(w, expr);
  if (expr->index == TNM_F_SELECT) return write_choice(w, expr);
  for (uint32_t i = 0; i < expr->n_args; ++i)
    parts[i] = render_value(w, expr->args[i]);
  if (form == FORM_NEAR) parts[1] = PIECE(w, ATOM, VALUE, "far");
  return call_math(w,
                   pass_format(w->pass, "%s%s", name, formula_form_end(form)),
                   parts, expr->n_args + (form == FORM_NEAR));
}

static piece render_new(writer *w, const tnm_expr *expr) {
  switch (expr->kind) {
    case TNM_NUMBER:
      return write_number(w, expr);
    case TNM_NEG:
      return write_negative(w, expr);
    case TNM_BINARY:
      return write_binary(w, expr);
    case TNM_CALL:
      return write_call(w, expr);
    default:
      return PIECE(w, ATOM, VALUE, "%s", formula_variable(w->pass, expr));
  }
}

/* Writes an expression; a repeated one has its variable. */
static piece write_expr(writer *w, const tnm_expr *expr) {
  for (size_t i = 0; i < w->n_shared; ++i)
    if (w->sharing.v[i] == expr) return w->shared[i];
  return render_new(w, expr);
}

/* ----------------------------------------------------------------- formulas */

void emit_formula(const kernel_pass *pass, const tnm_expr *expr,
                  int class_bit) {
  writer w = {.pass = pass, .class_bit = class_bit};
  expr = tnm_expr_share(pass->arena, expr, &w.sharing);
  w.shared = tn__arena_alloc(pass->arena, (w.sharing.n + 1) * sizeof *w.shared);
  if (expr == NULL || w.shared == NULL) {
    pass->c->failed = true;
    return;
  }
  while (w.n_shared < w.sharing.n) {
    piece part = render_new(&w, w.sharing.v[w.n_shared]);
    if (part.level != ATOM) hoist_piece(&w, &part);
    w.shared[w.n_shared++] = part;
  }
  c_add(pass->c, "return %s;\n", render_value(&w, expr).text);
}
