/* SPDX-License-Identifier: Apache-2.0
 * print.c: prints messages for people and programs: with source line and
 * carets, one line each, or as JSON. The position of a caret counts display
 * columns, not bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "diag.h"

/* Maximal number of characters of a line that is printed in full, and number of
 * characters before the caret in a longer line, of which only a part is
 * printed. */
enum { LINE_MAX_SHOWN = 160, BEFORE_CARET = 60 };

typedef struct printer {
  const tnm_diags *diags;
  FILE *to;
  bool color;
  int gutter; /* columns that line numbers occupy, left of the source */
} printer;

/* Returns the escape sequence `code`; "" if the output has no colours. */
static const char *get_color_code(const printer *p, const char *code) {
  return p->color ? code : "";
}

#define PLAIN "\033[0m"
#define BOLD "\033[1m"
#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define BLUE "\033[1;34m"

static bool is_warning(const tnm_message *m) {
  return m->spec.code[0] == 'W';
}

/* Returns "error" or "warning". */
static const char *get_severity(const tnm_message *m) {
  return is_warning(m) ? "warning" : "error";
}

/* ------------------------------------------------------------- source lines */

typedef struct line {
  const char *text;
  size_t n;
} line;

/* Returns the text of line `number`, from 1; an empty line if the file has
 * fewer. */
static line find_line(const tnm_file *file, uint32_t number) {
  const char *at = file->text;
  const char *end = at + file->n;
  for (uint32_t i = 1; i < number && at != NULL && at < end; ++i) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    at = newline == NULL ? end : newline + 1;
  }
  const char *stop = at == end ? end : memchr(at, '\n', (size_t)(end - at));
  if (stop == NULL) stop = end;
  if (stop > at && stop[-1] == '\r') --stop;
  return (line){at, (size_t)(stop - at)};
}

/* Decodes the next character of a line. Returns U+FFFD for a character that
 * cannot be printed. */
static uint32_t next_character(line *rest, size_t *bytes) {
  uint32_t c;
  *bytes = tnm_decode_utf8(rest->text, rest->n, &c);
  bool shown = *bytes > 0 && c >= 0x20 && !(c >= 0x7f && c < 0xa0) &&
               c != 0x2028 && c != 0x2029 && c != 0xfeff;
  if (*bytes == 0) *bytes = 1;
  rest->text += *bytes;
  rest->n -= *bytes;
  if (c == '\t') return ' ';
  return shown ? c : 0xfffd;
}

/* Returns the number of characters of a line. */
static uint32_t count_line_characters(line l) {
  uint32_t n = 0;
  for (size_t bytes; l.n > 0; ++n) next_character(&l, &bytes);
  return n;
}

/* The visible part of a line: characters from `first` on, 0-based. */
typedef struct window {
  uint32_t first;
  uint32_t end;
  uint32_t length; /* characters of the whole line */
} window;

/* Chooses the part of a long line that is printed, so that it shows `column`.
 */
static window choose_window(line l, uint32_t column) {
  window w = {0, 0, count_line_characters(l)};
  w.end = w.length;
  if (w.length <= LINE_MAX_SHOWN) return w;
  if (column > LINE_MAX_SHOWN / 2) w.first = column - 1 - BEFORE_CARET;
  if (w.first > w.length - 1) w.first = w.length - 1;
  if (w.end > w.first + LINE_MAX_SHOWN) w.end = w.first + LINE_MAX_SHOWN;
  return w;
}

/* Prints the part of a source line that the window shows. */
static void print_source(const printer *p, line l, window w) {
  if (w.first > 0) fputs("...", p->to);
  uint32_t i = 0;
  while (l.n > 0 && i < w.end) {
    const char *at = l.text;
    size_t bytes;
    uint32_t c = next_character(&l, &bytes);
    if (i++ < w.first) continue;
    if (c == 0xfffd)
      fputs("\xef\xbf\xbd", p->to);
    else if (c == ' ')
      fputc(' ', p->to);
    else
      fwrite(at, 1, bytes, p->to);
  }
  if (w.end < w.length) fputs("...", p->to);
}

/* Returns the number of terminal columns of the characters [from, to) of a
 * line, counted from 0. A character after the end of the line counts as one
 * column. */
static uint32_t measure_columns(line l, uint32_t from, uint32_t to) {
  uint32_t width = 0;
  for (uint32_t i = 0; i < to; ++i) {
    size_t bytes;
    uint32_t one =
        l.n > 0 ? (uint32_t)tnm_character_width(next_character(&l, &bytes)) : 1;
    if (i >= from) width += one;
  }
  return width;
}

/* ------------------------------------------------------------------- places */

/* A place that is printed with carets: that of the message itself, or another
 * one that the message refers to. */
typedef struct place {
  tnm_pos pos;
  char mark;
  const char *label;
} place;

/* Prints a line number left of the source; blanks for 0. */
static void print_line_number(const printer *p, uint32_t number) {
  fputs(get_color_code(p, BLUE), p->to);
  if (number == 0)
    fprintf(p->to, "%*s |", p->gutter, "");
  else
    fprintf(p->to, "%*u |", p->gutter, number);
  fputs(get_color_code(p, PLAIN), p->to);
}

/* Prints the carets that mark a place below the source line, with the text
 * after them. */
static void print_carets(const printer *p, line l, window w,
                         const place *where) {
  uint32_t from = where->pos.column - 1;
  uint32_t to = from + where->pos.length;
  uint32_t least = w.end > from ? w.end : from + 1;
  if (to > least) to = least;
  uint32_t indent = measure_columns(l, w.first, from) + (w.first > 0 ? 3 : 0);
  uint32_t width = measure_columns(l, from, to);
  print_line_number(p, 0);
  fprintf(p->to, " %*s%s", (int)indent, "", get_color_code(p, RED));
  for (uint32_t i = 0; i < (width == 0 ? 1 : width); ++i)
    fputc(where->mark, p->to);
  if (where->label != NULL && where->label[0] != '\0')
    fprintf(p->to, " %s", where->label);
  fprintf(p->to, "%s\n", get_color_code(p, PLAIN));
}

/* Prints the source line of a place and marks the place. `before` is the place
 * that was printed before it, or NULL. */
static void print_place(const printer *p, const place *where,
                        const place *before, uint32_t main_file) {
  const tnm_file *file = tnm_diags_get_file(p->diags, where->pos.file);
  line l = find_line(file, where->pos.line);
  if (l.n == 0) return;
  window w = choose_window(l, where->pos.column);
  bool new_file =
      where->pos.file != (before == NULL ? main_file : before->pos.file);
  bool shown = before != NULL && !new_file && w.length <= LINE_MAX_SHOWN &&
               before->pos.line == where->pos.line;
  if (new_file)
    fprintf(p->to, "%*s::: %s:%u:%u\n", p->gutter + 1, "", file->name,
            where->pos.line, where->pos.column);
  if (!shown) {
    print_line_number(p, where->pos.line);
    fputc(' ', p->to);
    print_source(p, l, w);
    fputc('\n', p->to);
  }
  print_carets(p, l, w, where);
}

enum { MAX_PLACES = 8 };

/* Tests whether place `a` is printed before `b`: places in the file of the
 * message come first; those in one file are in order of lines. */
static bool is_place_before(const place *a, const place *b,
                            uint32_t main_file) {
  bool a_main = a->pos.file == main_file;
  bool b_main = b->pos.file == main_file;
  if (a_main != b_main) return a_main;
  return tnm_pos_compare(a->pos, b->pos) < 0;
}

/* Collects the places of a message in the order of printing. Returns their
 * number. */
static size_t collect_places(const tnm_message *m, place *places) {
  size_t n = 1;
  places[0] = (place){m->spec.pos, '^', m->spec.under};
  for (const tnm_extra *x = m->extras; x != NULL && n < MAX_PLACES;
       x = x->next) {
    if (x->kind != TNM_ALSO) continue;
    place add = {x->pos, '-', x->text};
    size_t at = n++;
    for (; at > 0 && is_place_before(&add, &places[at - 1], m->spec.pos.file);
         --at)
      places[at] = places[at - 1];
    places[at] = add;
  }
  return n;
}

/* Returns the width of the longest line number, at least 3. */
static int measure_line_numbers(const place *places, size_t n) {
  int width = 3;
  for (size_t i = 0; i < n; ++i) {
    int digits = snprintf(NULL, 0, "%u", places[i].pos.line);
    if (digits > width) width = digits;
  }
  return width;
}

/* ----------------------------------------------------------------- messages */

/* Prints the first line of a message: position, severity, code and text. */
static void print_message_head(const printer *p, const tnm_message *m) {
  const tnm_file *file = tnm_diags_get_file(p->diags, m->spec.pos.file);
  fprintf(p->to, "%s%s:%u:%u: %s%s[%s]: %s%s%s\n", get_color_code(p, BOLD),
          file->name, m->spec.pos.line, m->spec.pos.column,
          get_color_code(p, is_warning(m) ? YELLOW : RED), get_severity(m),
          m->spec.code, get_color_code(p, PLAIN), m->text,
          get_color_code(p, PLAIN));
}

/* Prints all messages for readers, with their source lines. */
static void print_as_text(printer *p, const tnm_message *m) {
  place places[MAX_PLACES];
  size_t n = collect_places(m, places);
  p->gutter = measure_line_numbers(places, n);
  print_message_head(p, m);
  for (size_t i = 0; i < n; ++i)
    print_place(p, &places[i], i == 0 ? NULL : &places[i - 1],
                m->spec.pos.file);
  for (const tnm_extra *x = m->extras; x != NULL; x = x->next) {
    if (x->kind == TNM_ALSO) continue;
    fprintf(p->to, "%*s= %s%s:%s %s\n", p->gutter + 1, "",
            get_color_code(p, BOLD), x->kind == TNM_NOTE ? "note" : "help",
            get_color_code(p, PLAIN), x->text);
  }
}

/* Returns "s" unless n is 1. */
static const char *get_plural_suffix(size_t n) {
  return n == 1 ? "" : "s";
}

/* Returns the code that the last line of the output names: that of the first
 * error, or of the first warning if there is no error. */
static const char *find_first_code(const tnm_diags *diags) {
  const tnm_message *first = diags->sorted.v[0];
  for (size_t i = 0; i < diags->sorted.n; ++i) {
    const tnm_message *m = diags->sorted.v[i];
    if (!is_warning(m)) return m->spec.code;
  }
  return first->spec.code;
}

/* Prints the last line: the numbers of errors and warnings. */
static void print_message_count(const printer *p) {
  const tnm_diags *d = p->diags;
  fputs("opgen: ", p->to);
  if (d->errors > 0)
    fprintf(p->to, "%zu error%s", d->errors, get_plural_suffix(d->errors));
  if (d->warnings > 0)
    fprintf(p->to, "%s%zu warning%s", d->errors > 0 ? ", " : "", d->warnings,
            get_plural_suffix(d->warnings));
  fprintf(p->to, " in %zu manifest%s; ", d->files.n,
          get_plural_suffix(d->files.n));
  if (d->errors + d->warnings > d->sorted.n)
    fprintf(p->to, "the first %zu are shown; ", d->sorted.n);
  fprintf(p->to, "`opgen explain %s` says more\n", find_first_code(d));
}

/* --------------------------------------------------------------------- JSON */

static void write_json_place(tn__buf *buf, const tnm_diags *diags,
                             tnm_pos pos) {
  tn__buf_add(buf, "\"file\": ");
  tn__buf_json(buf, tnm_diags_get_file(diags, pos.file)->name);
  tn__buf_add(buf, ", \"line\": %u, \"column\": %u, \"length\": %u", pos.line,
              pos.column, pos.length);
}

/* Writes the notes, help lines or places (`kind`) of a message as JSON. */
static void write_json_extras(tn__buf *buf, const tnm_diags *diags,
                              const tnm_message *m, int kind) {
  static const char *const names[] = {
      [TNM_NOTE] = "notes", [TNM_HELP] = "help", [TNM_ALSO] = "places"};
  const char *separator = "";
  tn__buf_add(buf, ", \"%s\": [", names[kind]);
  for (const tnm_extra *x = m->extras; x != NULL; x = x->next) {
    if (x->kind != kind) continue;
    tn__buf_add(buf, "%s", separator);
    separator = ", ";
    if (kind == TNM_ALSO) {
      tn__buf_add(buf, "{");
      write_json_place(buf, diags, x->pos);
      tn__buf_add(buf, ", \"label\": ");
    }
    tn__buf_json(buf, x->text);
    if (kind == TNM_ALSO) tn__buf_add(buf, "}");
  }
  tn__buf_add(buf, "]");
}

static void write_json_message(tn__buf *buf, const tnm_diags *diags,
                               const tnm_message *m) {
  tn__buf_add(buf, "{");
  write_json_place(buf, diags, m->spec.pos);
  tn__buf_add(buf, ", \"severity\": \"%s\", \"code\": \"%s\", \"message\": ",
              get_severity(m), m->spec.code);
  tn__buf_json(buf, m->text);
  tn__buf_add(buf, ", \"label\": ");
  tn__buf_json(buf, m->spec.under);
  write_json_extras(buf, diags, m, TNM_NOTE);
  write_json_extras(buf, diags, m, TNM_HELP);
  write_json_extras(buf, diags, m, TNM_ALSO);
  tn__buf_add(buf, "}");
}

/* Prints all messages as JSON. */
static void print_json(const printer *p) {
  const tnm_diags *diags = p->diags;
  tn__buf buf;
  tn__buf_init(&buf, diags->env);
  tn__buf_add(&buf, "[");
  for (size_t i = 0; i < diags->sorted.n; ++i) {
    if (i > 0) tn__buf_add(&buf, ",\n ");
    write_json_message(&buf, diags, diags->sorted.v[i]);
  }
  tn__buf_add(&buf, "]\n");
  if (!buf.failed) fwrite(buf.s, 1, buf.n, p->to);
  tn__buf_deinit(&buf);
}

void tnm_diags_print(const tnm_diags *diags, FILE *to, int format, bool color) {
  printer p = {diags, to, color && format == TNM_HUMAN, 3};
  if (format == TNM_JSON) {
    print_json(&p);
    return;
  }
  if (diags->sorted.n == 0) return;
  for (size_t i = 0; i < diags->sorted.n; ++i) {
    if (format == TNM_HUMAN)
      print_as_text(&p, diags->sorted.v[i]);
    else
      print_message_head(&p, diags->sorted.v[i]);
  }
  print_message_count(&p);
}

void tnm_diags_add_text(const tnm_diags *diags, tn__buf *out) {
  char *text = NULL;
  size_t n = 0;
  FILE *file = open_memstream(&text, &n);
  if (file == NULL) {
    tn__buf_add(out, "%zu mistakes", tnm_diags_errors(diags));
    return;
  }
  tnm_diags_print(diags, file, TNM_HUMAN, false);
  const bool closed = fclose(file) == 0;
  while (closed && n > 0 && text[n - 1] == '\n') --n;
  if (closed) tn__buf_bytes(out, text, n);
  free(text);
}
