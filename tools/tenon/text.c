/* SPDX-License-Identifier: Apache-2.0
 * text.c: growing text, messages, and tables with aligned columns. Everything
 * that the command prints is collected here first, so that a command that fails
 * half way prints nothing but its message.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* Makes room for `n` more bytes and a NUL. */
static bool reserve_bytes(text *t, size_t n) {
  if (t->failed) return false;
  if (n < t->capacity - t->n) return true;
  size_t capacity = t->capacity ? t->capacity : 256;
  while (capacity - t->n <= n) {
    if (capacity > SIZE_MAX / 2) return !(t->failed = true);
    capacity *= 2;
  }
  char *data = (char *)realloc(t->data, capacity);
  if (!data) return !(t->failed = true);
  t->data = data;
  t->capacity = capacity;
  return true;
}

void text_add_bytes(text *t, const char *bytes, size_t n) {
  if (!reserve_bytes(t, n)) return;
  if (n) memcpy(t->data + t->n, bytes, n);
  t->n += n;
  t->data[t->n] = '\0';
}

static void add_formatted(text *t, const char *format, va_list args) {
  char small[256];
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(small, sizeof small, format, args);
  if (n < 0) {
    t->failed = true;
  } else if ((size_t)n < sizeof small) {
    text_add_bytes(t, small, (size_t)n);
  } else if (reserve_bytes(t, (size_t)n)) {
    vsnprintf(t->data + t->n, (size_t)n + 1, format, again);
    t->n += (size_t)n;
  }
  va_end(again);
}

void text_add(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_formatted(t, format, args);
  va_end(args);
}

/* Length of the UTF-8 sequence at `at`, or 0 if there is none: a stray byte, a
 * longer form than needed, a surrogate, or beyond the last code point. */
static size_t utf8_length(const char *at) {
  const unsigned char first = (unsigned char)at[0];
  const unsigned char second = (unsigned char)(first ? at[1] : 0);
  const size_t n = first < 0x80   ? 1
                   : first < 0xc2 ? 0
                   : first < 0xe0 ? 2
                   : first < 0xf0 ? 3
                   : first < 0xf5 ? 4
                                  : 0;
  for (size_t i = 1; i < n; ++i)
    if (((unsigned char)at[i] & 0xc0u) != 0x80u) return 0;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
    return 0;
  return n;
}

static void add_json_char(text *t, char c) {
  if (c == '"' || c == '\\') {
    text_add(t, "\\%c", c);
  } else if (c == '\n') {
    text_add(t, "\\n");
  } else if ((unsigned char)c < 0x20) {
    text_add(t, "\\u%04x", (unsigned)(unsigned char)c);
  } else {
    text_add_bytes(t, &c, 1);
  }
}

void text_add_json(text *t, const char *string) {
  if (!string) {
    text_add(t, "null");
    return;
  }
  text_add(t, "\"");
  while (*string) {
    const size_t n = utf8_length(string);
    if (n == 1)
      add_json_char(t, *string);
    else if (n)
      text_add_bytes(t, string, n);
    else
      text_add(t, "\\ufffd");
    string += n ? n : 1;
  }
  text_add(t, "\"");
}

const char *text_get(const text *t) {
  return t->data ? t->data : "";
}

void text_deinit(text *t) {
  free(t->data);
  *t = (text){0};
}

bool report_failure(text *why, const char *format, ...) {
  text message = {0}; /* arguments may point into `why` */
  va_list args;
  va_start(args, format);
  add_formatted(&message, format, args);
  va_end(args);
  text_deinit(why);
  *why = message;
  return false;
}

bool fail_library(text *why) {
  return report_failure(why, "%s", tn_error_text());
}

/* ------------------------------------------------------------- for terminals
 */

/* Controls, marks that reverse or hide text, and line separators. */
static bool is_hidden(uint32_t c) {
  static const uint32_t ranges[][2] = {
      {0x00, 0x08},     {0x0b, 0x1f},      {0x7f, 0x9f},     {0x61c, 0x61c},
      {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f}, {0xfeff, 0xfeff},
      {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i)
    if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
  return false;
}

static uint32_t code_point(const char *at, size_t n) {
  static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t c = (unsigned char)at[0] & first_bits[n];
  for (size_t i = 1; i < n; ++i) c = c << 6 | ((unsigned char)at[i] & 0x3fu);
  return c;
}

/* As JSON escapes it, where it is one, so that JSON stays JSON. */
static void add_escaped(text *t, const char *at, size_t n) {
  const uint32_t c = n ? code_point(at, n) : 0;
  if (!n)
    text_add(t, "\\x%02x", (unsigned)(unsigned char)*at);
  else if (c == '\n')
    text_add(t, "\\n");
  else if (c < 0x10000)
    text_add(t, "\\u%04x", (unsigned)c);
  else
    text_add(t, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(c - 0x10000) >> 10),
             0xdc00u + ((unsigned)c & 0x3ffu));
}

/* The same text, escaped from byte `from` to its end. */
static void escape_text(text *t, size_t from, bool lines) {
  text shown = {0};
  for (size_t at = from; at < t->n;) {
    const char *c = t->data + at;
    const size_t n = *c ? utf8_length(c) : 0;
    if (n && !is_hidden(code_point(c, n)) && (lines || *c != '\n'))
      text_add_bytes(&shown, c, n);
    else
      add_escaped(&shown, c, n);
    at += n ? n : 1;
  }
  t->failed |= shown.failed;
  if (!t->failed && t->n > from) {
    t->n = from;
    text_add_bytes(t, text_get(&shown), shown.n);
  }
  text_deinit(&shown);
}

void text_make_line(text *t, size_t from) {
  escape_text(t, from, false);
}

void text_print(text *t, FILE *file) {
  if (!t->is_binary) escape_text(t, 0, true);
  fwrite(text_get(t), 1, t->n, file);
}

/* ------------------------------------------------------------------ tables */

void table_add(table *t, const char *format, ...) {
  const size_t from = t->cells.n;
  va_list args;
  va_start(args, format);
  add_formatted(&t->cells, format, args);
  va_end(args);
  text_make_line(&t->cells, from);
  text_add_bytes(&t->cells, "", 1);
  t->n_cells++;
}

/* Number of code points; for Latin text this is the number of terminal columns.
 */
static size_t count_columns(const char *cell) {
  size_t n = 0;
  for (; *cell; ++cell) n += ((unsigned char)*cell & 0xc0u) != 0x80u;
  return n;
}

/* Widest cell of a column. */
static size_t column_width(const table *t, size_t column) {
  const char *cell = t->cells.data;
  size_t widest = 0;
  for (size_t i = 0; i < t->n_cells; ++i, cell += strlen(cell) + 1) {
    size_t w = count_columns(cell);
    if (i % t->n_columns == column && w > widest) widest = w;
  }
  return widest;
}

/* Prints the row that begins at `cell`; returns the cell after it. Blanks are
 * delayed until the next character, so that no line ends with them. */
static const char *print_row(const char *cell, const size_t *widths, size_t n,
                             text *out) {
  size_t blanks = 0;
  for (size_t c = 0; c < n; ++c) {
    if (*cell) {
      text_add(out, "%*s%s", (int)blanks, "", cell);
      blanks = 0;
    }
    blanks += widths[c] - count_columns(cell) + (widths[c] ? 2 : 0);
    cell += strlen(cell) + 1;
  }
  text_add(out, "\n");
  return cell;
}

static void print_rows(const table *t, const char *indent, text *out) {
  enum { MAX_COLUMNS = 8 };
  size_t widths[MAX_COLUMNS] = {0};
  for (size_t c = 0; c < t->n_columns; ++c) widths[c] = column_width(t, c);
  const char *cell = t->cells.data;
  for (size_t i = 0; i < t->n_cells; i += t->n_columns) {
    text_add(out, "%s", indent);
    cell = print_row(cell, widths, t->n_columns, out);
  }
}

void table_print(table *t, const char *indent, text *out) {
  if (t->cells.failed) {
    out->failed = true;
  } else if (t->n_cells) {
    print_rows(t, indent, out);
  }
  text_deinit(&t->cells);
  t->n_cells = 0;
}
