/* SPDX-License-Identifier: Apache-2.0
 * cfile.c: writes initialisers, flags and function heads, in the format of
 * clang-format with the repository's settings. ctext.c writes strings and
 * comments.
 */
#include "cfile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void c_init(c_file *file, const tn__env *env) {
  *file = (c_file){.indent = 4};
  tn__buf_init(&file->text, env);
}

void c_deinit(c_file *file) {
  tn__buf_deinit(&file->text);
}

static void add_long(tn__buf *buf, const char *format, va_list args, size_t n) {
  char *text = tn__alloc(buf->env, n + 1);
  if (text == NULL) {
    buf->failed = true;
    return;
  }
  (void)vsnprintf(text, n + 1, format, args);
  tn__buf_bytes(buf, text, n);
  tn__free(buf->env, text);
}

void c_add(c_file *file, const char *format, ...) {
  char small[256];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof small)
    tn__buf_bytes(&file->text, small, (size_t)n);
  else if (n >= 0)
    add_long(&file->text, format, again, (size_t)n);
  va_end(again);
}

void c_declare(c_file *file, const char *type, const char *name, bool again) {
  const c_listener *listener = file->listener;
  if (listener != NULL) listener->tell(listener->self, type, name, again);
}

size_t c_width(const char *text) {
  size_t n = 0;
  for (; *text != '\0' && *text != '\n'; ++text)
    n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

/* ------------------------------------------------------------- initialisers */

static void open_with(c_file *file, const char *type, const char *declarator,
                      const char *end) {
  c_declare(file, type, declarator, false);
  const size_t width =
      strlen(type) + 1 + strlen(declarator) + strlen(end) + strlen(" = {");
  file->indent = width <= C_PAGE ? 4 : 8;
  c_add(file, "%s%s%s%s = {\n", type, width <= C_PAGE ? " " : "\n    ",
        declarator, end);
}

void c_open(c_file *file, const char *type, const char *declarator) {
  open_with(file, type, declarator, "");
}

void c_open_list(c_file *file, const char *type, const char *declarator) {
  open_with(file, type, declarator, "[]");
  file->list = file->text.n;
}

/* clang-format puts five or more short items in columns, unless a comment
 * follows each. */
enum { LEAST_NUMBERED = 5 };

/* Adds its number after each of the items, which have one line each. */
static void number_items(c_file *file) {
  const char *items = file->text.s + file->list;
  size_t n = 0, widest = 0;
  for (const char *s = items; *s != '\0'; s = strchr(s, '\n') + 1, ++n)
    if (c_width(s) > widest) widest = c_width(s);
  if (n < LEAST_NUMBERED || widest + strlen(" /* 999 */") > C_PAGE) return;
  tn__buf copy;
  tn__buf_init(&copy, file->text.env);
  tn__buf_bytes(&copy, items, file->text.n - file->list);
  file->text.n = file->list;
  const char *s = copy.failed ? "" : copy.s;
  for (size_t i = 0; *s != '\0'; ++i) {
    const size_t length = strcspn(s, "\n");
    c_add(file, "%.*s%*s /* %zu */\n", (int)length, s,
          (int)(widest - c_width(s)), "", i);
    s += length + 1;
  }
  file->text.failed |= copy.failed;
  tn__buf_deinit(&copy);
}

void c_close(c_file *file) {
  if (file->list != 0 && !file->text.failed) number_items(file);
  file->list = 0;
  c_add(file, "};\n");
  file->indent = 4;
}

void c_item(c_file *file, const char *before, const char *text) {
  c_add(file, "%*s%s%s,\n", (int)file->indent, "", before, text);
}

void c_value(c_file *file, const char *field, const char *value) {
  if (value == NULL) return;
  const size_t width = file->indent + strlen(".") + strlen(field) +
                       strlen(" = ,") + c_width(value);
  c_add(file, "%*s.%s =", (int)file->indent, "", field);
  if (width > C_PAGE)
    c_add(file, "\n%*s", (int)file->indent + 4, "");
  else
    c_add(file, " ");
  c_add(file, "%s,\n", value);
}

void c_index(c_file *file, const char *field, uint32_t value) {
  char text[16];
  (void)snprintf(text, sizeof text, "%" PRIu32, value);
  c_value(file, field, value == TN_NONE ? "TN_NONE" : text);
}

void c_u32(c_file *file, const char *field, uint32_t value) {
  if (value != 0) c_index(file, field, value);
}

void c_i64(c_file *file, const char *field, int64_t value) {
  char text[32];
  if (value == 0) return;
  (void)snprintf(text, sizeof text, "%" PRId64, value);
  if (value == INT64_MIN)
    c_value(file, field, "INT64_MIN");
  else
    c_value(file, field, value == INT64_MAX ? "INT64_MAX" : text);
}

void c_u64(c_file *file, const char *field, uint64_t value) {
  char text[32];
  if (value == 0) return;
  (void)snprintf(text, sizeof text, "0x%016" PRIx64 "ull", value);
  c_value(file, field, text);
}

void c_f64(c_file *file, const char *field, double value) {
  tn__buf text;
  if (value == 0 && !signbit(value)) return;
  tn__buf_init(&text, file->text.env);
  if (isinf(value))
    tn__buf_add(&text, value < 0 ? "-INFINITY" : "INFINITY");
  else
    tn__buf_double(&text, value);
  if (isfinite(value) && text.s && strpbrk(text.s, ".e") == NULL)
    tn__buf_add(&text, ".0");
  c_value(file, field, text.s);
  file->text.failed |= text.failed;
  tn__buf_deinit(&text);
}

void c_offsetof(c_file *file, const char *field, const char *type,
                const char *member) {
  const size_t before =
      file->indent + strlen(".") + strlen(field) + strlen(" = offsetof(");
  const bool fits =
      before + strlen(type) + strlen(", ") + strlen(member) + strlen("),") <=
      C_PAGE;
  c_add(file, "%*s.%s = offsetof(%s,", (int)file->indent, "", field, type);
  if (fits)
    c_add(file, " %s),\n", member);
  else
    c_add(file, "\n%*s%s),\n", (int)before, "", member);
}

/* -------------------------------------------------------------------- flags */

static size_t bits_width(const c_bit *bits, uint64_t set) {
  size_t width = 0;
  for (; bits->bit != 0; ++bits) {
    if ((set & bits->bit) != 0)
      width += strlen(bits->name) + (width > 0 ? strlen(" | ") : 0);
  }
  return width;
}

/* Fills lines with names; `column` is the column of the next name, `margin` the
 * one of further lines. */
static void bits_fill(c_file *file, const c_bit *bits, uint64_t set,
                      const size_t columns[2]) {
  size_t column = columns[0];
  for (bool first = true; bits->bit != 0; ++bits) {
    if ((set & bits->bit) == 0) continue;
    set &= ~bits->bit;
    const size_t width = strlen(bits->name) + (set != 0 ? strlen(" |") : 1);
    if (!first && column + 1 + width > C_PAGE) {
      c_add(file, "\n%*s", (int)columns[1], "");
      column = columns[1];
    } else if (!first) {
      c_add(file, " ");
      ++column;
    }
    c_add(file, "%s%s", bits->name, set != 0 ? " |" : ",\n");
    column += width;
    first = false;
  }
}

static const char *empty_name(const c_bit *bits) {
  while (bits->bit != 0) ++bits;
  return bits->name;
}

void c_bits(c_file *file, const char *field, const c_bit *bits, uint64_t set) {
  const size_t width = bits_width(bits, set);
  const size_t indent = file->indent;
  if (width == 0) {
    const char *name = empty_name(bits);
    if (name == NULL) return;
    if (field != NULL)
      c_value(file, field, name);
    else
      c_item(file, "", name);
    return;
  }
  c_add(file, "%*s", (int)indent, "");
  if (field == NULL) {
    bits_fill(file, bits, set, (size_t[]){indent, indent + 4});
    return;
  }
  const size_t column = indent + strlen(".") + strlen(field) + strlen(" = ");
  if (column + width + 1 > C_PAGE && indent + 4 + width + 1 <= C_PAGE) {
    c_add(file, ".%s =\n%*s", field, (int)indent + 4, "");
    bits_fill(file, bits, set, (size_t[]){indent + 4, indent + 4});
    return;
  }
  c_add(file, ".%s = ", field);
  bits_fill(file, bits, set, (size_t[]){column, column});
}

/* ---------------------------------------------------------------- functions */

/* Length of the first parameter, with calls in it and the comma after it. */
static size_t first_of(const char *parameters) {
  size_t n = 0;
  int depth = 0;
  for (; parameters[n] != '\0' && (depth > 0 || parameters[n] != ','); ++n)
    depth += (parameters[n] == '(') - (parameters[n] == ')');
  return n + (parameters[n] == ',' ? 1 : 0);
}

/* Tests whether every parameter fits between `column` and the end of the
 * page. */
static bool all_fit(const c_function *f, size_t column) {
  for (const char *s = f->parameters; *s != '\0';) {
    const size_t n = first_of(s);
    const size_t end = s[n] == '\0' ? strlen(")") + strlen(f->end) : 0;
    if (column + n + end > C_PAGE) return false;
    s += n + strspn(s + n, " ");
  }
  return true;
}

/* Fills lines with parameters; further lines begin at `margin`. */
static void fill_parameters(c_file *file, const c_function *f, size_t margin) {
  size_t column = margin;
  for (const char *s = f->parameters; *s != '\0';) {
    const size_t n = first_of(s);
    const size_t end = s[n] == '\0' ? strlen(")") + strlen(f->end) : 0;
    if (s > f->parameters && column + 1 + n + end > C_PAGE) {
      c_add(file, "\n%*s", (int)margin, "");
      column = margin;
    } else if (s > f->parameters) {
      c_add(file, " ");
      ++column;
    }
    c_add(file, "%.*s", (int)n, s);
    column += n;
    s += n + strspn(s + n, " ");
  }
  c_add(file, ")%s\n", f->end);
}

void c_function_head(c_file *file, const c_function *f) {
  const size_t head = strlen(f->result) + strlen(f->name) + 1;
  const size_t n = strlen(f->result);
  const size_t blank = n > 0 && f->result[n - 1] == ' ' ? 1 : 0;
  const size_t indent = strspn(f->result, " ") + 4;
  c_declare(file, f->result, f->name, *f->end == ';');
  if (all_fit(f, head)) {
    c_add(file, "%s%s(", f->result, f->name);
    fill_parameters(file, f, head);
  } else if (head <= C_PAGE) {
    c_add(file, "%s%s(\n%*s", f->result, f->name, (int)indent, "");
    fill_parameters(file, f, indent);
  } else {
    const size_t margin = strlen(f->name) + 1;
    const bool fits = all_fit(f, margin);
    c_add(file, "%.*s\n%s(%s", (int)(n - blank), f->result, f->name,
          fits ? "" : "\n    ");
    fill_parameters(file, f, fits ? margin : 4);
  }
}

static void assert_size(c_file *file, const char *type, uint32_t value) {
  char is[32];
  (void)snprintf(is, sizeof is, " == %" PRIu32 ",", value);
  const size_t width =
      strlen("_Static_assert(sizeof() \"size\");") + strlen(type) + strlen(is);
  c_add(file, "_Static_assert(sizeof(%s)%s%s\"size\");\n", type, is,
        width <= C_PAGE ? " " : "\n               ");
}

void c_assert_layout(c_file *file, const char *type, const char *member,
                     uint32_t value) {
  char is[32];
  if (member == NULL) {
    assert_size(file, type, value);
    return;
  }
  (void)snprintf(is, sizeof is, " == %" PRIu32 ",", value);
  const size_t width = strlen("_Static_assert(offsetof(, )") + strlen(type) +
                       strlen(member) + strlen(is);
  const bool one_line = width + strlen(" \"\");") + strlen(member) <= C_PAGE;
  c_add(file, "_Static_assert(offsetof(%s,%s%s)%s%s\"%s\");\n", type,
        width <= C_PAGE ? " " : "\n                        ", member, is,
        one_line ? " " : "\n               ", member);
}
