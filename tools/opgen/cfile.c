/* SPDX-License-Identifier: Apache-2.0
 * cfile.c: adds parts to the model of a C file: lines of code, fields of
 * initialisers, flags, function heads. cprint.c lays them out.
 */
#include "cfile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void c_init(c_file *file, const tn__env *env) {
  *file = (c_file){.line = 0};
  tn__buf_init(&file->words, env);
  tn__buf_init(&file->parts, env);
}

void c_deinit(c_file *file) {
  tn__buf_deinit(&file->words);
  tn__buf_deinit(&file->parts);
}

/* -------------------------------------------------------------------- parts */

static void add_part(c_file *file, const c_part *part) {
  tn__buf_bytes(&file->parts, part, sizeof *part);
  file->failed |= file->parts.failed || file->words.failed;
  file->line = file->words.n;
}

static void add_word(c_file *file, const char *text) {
  if (text == NULL) text = "";
  tn__buf_bytes(&file->words, text, strlen(text) + 1);
}

/* Adds a part of one text or two. */
static void add_texts(c_file *file, c_kind kind, const char *first,
                      const char *second) {
  const c_part part = {kind, file->words.n, 0};
  add_word(file, first);
  add_word(file, second);
  add_part(file, &part);
}

/* Ends the open line at each line feed of the new words. */
static void end_lines(c_file *file, size_t from) {
  char *words = file->words.s;
  const size_t end = file->words.n;
  for (size_t i = from; i < end; ++i) {
    if (words[i] != '\n') continue;
    const size_t next = i + 1;
    words[i] = '\0';
    add_part(file, &(c_part){C_LINE, file->line, 0});
    file->line = next;
  }
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
  const size_t from = file->words.n;
  va_start(args, format);
  va_copy(again, args);
  const int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof small)
    tn__buf_bytes(&file->words, small, (size_t)n);
  else if (n >= 0)
    add_long(&file->words, format, again, (size_t)n);
  va_end(again);
  file->failed |= file->words.failed;
  if (!file->failed) end_lines(file, from);
}

void c_comment(c_file *file, const char *text) {
  c_comment_lines(file, text, NULL);
}

void c_comment_lines(c_file *file, const char *text, const char *last) {
  add_texts(file, C_COMMENT, text, last);
}

void c_section(c_file *file, const char *title) {
  add_texts(file, C_SECTION, title, NULL);
}

void c_bytes(c_file *file, const void *bytes, size_t n) {
  const c_part part = {C_BYTES, file->words.n, n};
  tn__buf_bytes(&file->words, bytes, n);
  add_part(file, &part);
}

void c_declare(c_file *file, const char *type, const char *name, bool again) {
  const c_listener *listener = file->listener;
  if (listener != NULL) listener->tell(listener->self, type, name, again);
}

/* ------------------------------------------------------------- initialisers */

void c_open(c_file *file, const char *type, const char *declarator) {
  c_declare(file, type, declarator, false);
  c_add(file, "%s %s = {\n", type, declarator);
}

void c_open_list(c_file *file, const char *type, const char *declarator) {
  c_declare(file, type, declarator, false);
  c_add(file, "%s %s[] = {\n", type, declarator);
  if (file->failed) return;
  c_part *parts = (c_part *)(void *)file->parts.s;
  parts[file->parts.n / sizeof *parts - 1].kind = C_LIST;
}

void c_close(c_file *file) {
  c_add(file, "};\n\n");
}

void c_item(c_file *file, const char *before, const char *text) {
  c_add(file, "%s%s,\n", before, text);
}

void c_value(c_file *file, const char *field, const char *value) {
  if (value != NULL) c_add(file, ".%s = %s,\n", field, value);
}

void c_index(c_file *file, const char *field, uint32_t value) {
  if (value == TN_NONE)
    c_value(file, field, "TN_NONE");
  else
    c_add(file, ".%s = %" PRIu32 ",\n", field, value);
}

void c_u32(c_file *file, const char *field, uint32_t value) {
  if (value != 0) c_index(file, field, value);
}

void c_i64(c_file *file, const char *field, int64_t value) {
  if (value == INT64_MIN)
    c_value(file, field, "INT64_MIN");
  else if (value == INT64_MAX)
    c_value(file, field, "INT64_MAX");
  else if (value != 0)
    c_add(file, ".%s = %" PRId64 ",\n", field, value);
}

void c_f64(c_file *file, const char *field, double value) {
  tn__buf text;
  if (value == 0 && !signbit(value)) return;
  tn__buf_init(&text, file->words.env);
  if (isinf(value))
    tn__buf_add(&text, value < 0 ? "-INFINITY" : "INFINITY");
  else
    tn__buf_double(&text, value);
  if (isfinite(value) && text.s && strpbrk(text.s, ".e") == NULL)
    tn__buf_add(&text, ".0");
  c_value(file, field, text.s);
  file->failed |= text.failed;
  tn__buf_deinit(&text);
}

enum { MOST_PROMISED = 4095 }; /* bytes of a literal, by C11 5.2.4.1 */

void c_string(c_file *file, const char *field, const char *text) {
  if (text == NULL) return;
  file->has_long |= strlen(text) > MOST_PROMISED;
  add_texts(file, C_LITERAL, field, text);
}

void c_item_string(c_file *file, const char *text) {
  c_string(file, "", text);
}

void c_offsetof(c_file *file, const char *field, const char *type,
                const char *member) {
  c_add(file, ".%s = offsetof(%s, %s),\n", field, type, member);
}

static const char *empty_name(const c_bit *bits) {
  while (bits->bit != 0) ++bits;
  return bits->name;
}

void c_bits(c_file *file, const char *field, const c_bit *bits, uint64_t set) {
  const char *empty = empty_name(bits);
  const char *before = "";
  bool any = false;
  for (const c_bit *bit = bits; bit->bit != 0; ++bit)
    any |= (set & bit->bit) != 0;
  if (!any && empty == NULL) return;
  if (field != NULL) c_add(file, ".%s = ", field);
  for (const c_bit *bit = bits; bit->bit != 0; ++bit) {
    if ((set & bit->bit) == 0) continue;
    c_add(file, "%s%s", before, bit->name);
    before = " | ";
  }
  c_add(file, "%s,\n", any ? "" : empty);
}

/* ---------------------------------------------------------------- functions */

void c_function_head(c_file *file, const c_function *f) {
  c_declare(file, f->result, f->name, *f->end == ';');
  c_add(file, "%s%s(%s)%s\n", f->result, f->name, f->parameters, f->end);
}

void c_assert_layout(c_file *file, const char *type, const char *member,
                     uint32_t value) {
  if (member == NULL)
    c_add(file, "_Static_assert(sizeof(%s) == %" PRIu32 ", \"size\");\n", type,
          value);
  else
    c_add(file, "_Static_assert(offsetof(%s, %s) == %" PRIu32 ", \"%s\");\n",
          type, member, value, member);
}
