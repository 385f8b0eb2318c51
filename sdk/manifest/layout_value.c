/* SPDX-License-Identifier: Apache-2.0
 * layout_value.c: writes one value of a manifest: a scalar unchanged, and
 * brackets on one line or on several if necessary. layout.c writes blocks.
 */
#include <string.h>

#include "layout.h"

/* --------------------------------------------------------------- the output */

/* Returns the number of characters in n bytes of text. */
static size_t count_columns(const char *text, size_t n) {
  size_t width = 0;
  for (size_t i = 0; i < n; ++i)
    width += ((unsigned char)text[i] & 0xc0u) != 0x80u;
  return width;
}

size_t tnm_current_column(const tnm_layout *l) {
  size_t begin = l->out->n;
  while (begin > 0 && l->out->s[begin - 1] != '\n') --begin;
  return count_columns(l->out->s + begin, l->out->n - begin);
}

void tnm_copy_bytes(tnm_layout *l, size_t begin, size_t end) {
  tn__buf_bytes(l->out, l->text + begin, end - begin);
}

static void write_blanks(tnm_layout *l, size_t n) {
  for (size_t i = 0; i < n; ++i) tn__buf_bytes(l->out, " ", 1);
}

void tnm_new_line(tnm_layout *l, size_t indent) {
  tn__buf_bytes(l->out, "\n", 1);
  write_blanks(l, indent);
}

void tnm_write_trailing(tnm_layout *l, const tnm_comment *comments,
                        size_t gap) {
  if (comments == NULL) return;
  const size_t wanted = comments->column - 1;
  const size_t least = tnm_current_column(l) + gap;
  const size_t column = wanted > least ? wanted : least;
  for (const tnm_comment *c = comments; c != NULL; c = c->next) {
    if (c != comments) tn__buf_bytes(l->out, "\n", 1);
    write_blanks(l, column - tnm_current_column(l));
    tnm_copy_bytes(l, c->begin, c->end);
  }
}

/* ------------------------------------------------------------------ scalars */

/* A part of a manifest that read_next_line reads line by line: bytes up to
 * `stop`, with the next line at `at`. [begin, end) is the current line, without
 * the blanks around it. */
typedef struct line_reader {
  const char *text;
  size_t at;
  size_t stop;
  size_t begin;
  size_t end;
} line_reader;

/* Moves to the next line, without the blanks around it. Returns false after
 * the last line. */
static bool read_next_line(line_reader *p) {
  if (p->at > p->stop) return false;
  size_t eol = p->at;
  while (eol < p->stop && p->text[eol] != '\n') ++eol;
  p->begin = p->at;
  p->end = eol;
  p->at = eol + 1;
  while (p->begin < p->end && p->text[p->begin] == ' ') ++p->begin;
  while (p->end > p->begin && strchr(" \r", p->text[p->end - 1]) != NULL)
    --p->end;
  return true;
}

/* Returns a reader of the lines of a scalar, before the first line. */
static line_reader make_line_reader(const tnm_layout *l,
                                    const tnm_syntax *node) {
  return (line_reader){.text = l->text, .at = node->begin, .stop = node->end};
}

/* Tests whether a scalar is on one line of the manifest. */
static bool is_one_line(const tnm_layout *l, const tnm_syntax *node) {
  return memchr(l->text + node->begin, '\n', node->end - node->begin) == NULL;
}

/* Tests whether the lines of a scalar can be joined to one line: no line is
 * empty, and no line ends in an escape. */
static bool can_join_lines(const tnm_layout *l, const tnm_syntax *node) {
  const bool escapes = node->end > node->begin && l->text[node->begin] == '"';
  line_reader p = make_line_reader(l, node);
  while (read_next_line(&p))
    if (p.begin == p.end || (escapes && l->text[p.end - 1] == '\\'))
      return false;
  return true;
}

/* Tests whether a scalar has several lines that cannot be joined to one line.
 */
static bool has_unjoinable_lines(const tnm_layout *l, const tnm_syntax *node) {
  if (node->kind == TNM_SCALAR)
    return !is_one_line(l, node) && !can_join_lines(l, node);
  for (const tnm_syntax *c = node->first; c != NULL; c = c->next)
    if (has_unjoinable_lines(l, c)) return true;
  return false;
}

/* Writes one line of prose that YAML has split at commas, with one blank after
 * each comma. If `continues` is true, the line continues the text before it.
 */
static void write_prose(tnm_layout *l, const line_reader *p, bool continues) {
  for (size_t i = p->begin; i < p->end; ++i) {
    const char c = l->text[i];
    const bool after = continues && l->out->s[l->out->n - 1] == ' ';
    if (c == ' ' && after) continue;
    if (c == ',' && after) l->out->s[--l->out->n] = '\0';
    tn__buf_add(l->out, c == ',' ? ", " : "%c", c);
    continues = true;
  }
}

/* Writes the lines of a scalar as one line. */
static void write_joined_lines(tnm_layout *l, const tnm_syntax *node) {
  line_reader p = make_line_reader(l, node);
  for (bool first = true; read_next_line(&p); first = false) {
    const bool ended = l->out->n > 0 && l->out->s[l->out->n - 1] == ' ';
    write_blanks(l, first || ended ? 0 : 1);
    if (node->joined)
      write_prose(l, &p, !first);
    else
      tnm_copy_bytes(l, p.begin, p.end);
  }
}

/* Writes the value in its original number of lines. */
static void write_lines(tnm_layout *l, const tnm_syntax *node, size_t indent) {
  line_reader p = make_line_reader(l, node);
  for (bool first = true; read_next_line(&p); first = false) {
    if (!first) tnm_new_line(l, p.begin < p.end ? indent : 0);
    tnm_copy_bytes(l, p.begin, p.end);
  }
}

/* Reads the digit after `|`: the indentation of the text, counted from the
 * indentation of the entry. */
static size_t read_indent(const tnm_layout *l, const tnm_syntax *node,
                          size_t header) {
  for (size_t i = node->begin; i < header; ++i)
    if (l->text[i] >= '1' && l->text[i] <= '9')
      return (size_t)(l->text[i] - '0');
  return 0;
}

/* Returns the number of blanks before the first line with text in [at, end). */
static size_t find_text_indent(const tnm_layout *l, size_t at, size_t end) {
  while (at < end) {
    size_t blank = 0;
    while (at + blank < end && l->text[at + blank] == ' ') ++blank;
    if (at + blank < end && strchr("\r\n", l->text[at + blank]) == NULL)
      return blank;
    while (at < end && l->text[at] != '\n') ++at;
    ++at;
  }
  return 0;
}

/* Writes one line of a `|` text; blanks beyond the indentation belong to it. */
static size_t write_text_line(tnm_layout *l, size_t at, size_t end,
                              const size_t indents[2]) {
  size_t eol = at;
  while (eol < end && l->text[eol] != '\n') ++eol;
  const size_t next = eol + 1;
  while (eol > at && l->text[eol - 1] == '\r') --eol;
  size_t begin = at;
  while (begin < eol && begin - at < indents[0] && l->text[begin] == ' ')
    ++begin;
  tnm_new_line(l, begin < eol ? indents[1] : 0);
  tnm_copy_bytes(l, begin, eol);
  return next;
}

/* Writes the line with `|` or `>`. If the file ends within the text, without a
 * line end, the layout adds a line end and writes `-`, which removes the line
 * end from the value. */
static void write_text_header(tnm_layout *l, const tnm_syntax *node, size_t n) {
  const bool cut = node->end == l->n && l->text[l->n - 1] != '\n';
  for (size_t i = node->begin; i < node->begin + n; ++i)
    if (!cut || (l->text[i] != '+' && l->text[i] != '-'))
      tnm_copy_bytes(l, i, i + 1);
  if (cut) tn__buf_add(l->out, "-");
}

/* Writes a scalar that follows a `|` or `>`: the line with that character, then
 * the lines of the text. */
static void write_block_scalar(tnm_layout *l, const tnm_syntax *node,
                               size_t indent) {
  size_t eol = node->begin, header = 0;
  while (eol < node->end && l->text[eol] != '\n') ++eol;
  while (node->begin + header < eol &&
         strchr(" #\r", l->text[node->begin + header]) == NULL)
    ++header;
  write_text_header(l, node, header);
  tnm_write_trailing(l, node->head, TNM_GAP);
  const size_t stated = read_indent(l, node, node->begin + header);
  const size_t indents[2] = {
      find_text_indent(l, eol + 1, node->end),
      indent + (stated != 0 ? stated : TNM_INDENT),
  };
  const size_t own[2] = {
      stated != 0 ? node->column - 1 + stated : indents[0],
      indents[1],
  };
  size_t end = node->end;
  while (end > eol && strchr("\r\n", l->text[end - 1]) != NULL) --end;
  for (size_t at = eol + 1; at <= end && eol < end;)
    at = write_text_line(l, at, end, stated != 0 ? own : indents);
  l->has_kept_lines = end < node->end;
  for (size_t at = end; at < node->end; ++at)
    if (l->text[at] == '\n') tn__buf_bytes(l->out, "\n", 1);
}

/* ----------------------------------------------------------------- brackets */

/* Writes the colon after a key in braces, if the key has a colon. The blank
 * after a key without a value separates it from prose before it. */
static void write_colon(tnm_layout *l, const tnm_syntax *node) {
  const bool empty = node->kind == TNM_SCALAR && node->begin == node->end;
  const char *gap = l->text + node->key_end;
  const size_t n = empty ? node->begin - node->key_end : 0;
  const bool colon = !empty || memchr(gap, ':', n) != NULL;
  tn__buf_add(l->out, colon ? ": " : " ");
}

/* Writes a value on one line into a buffer. Returns false if the value cannot
 * be on one line. */
static bool write_on_one_line(tnm_layout *l, const tnm_syntax *node,
                              const tnm_schema *schema) {
  if (node->commented || node->block) return false;
  if (node->kind == TNM_SCALAR) {
    write_joined_lines(l, node);
    return is_one_line(l, node) || can_join_lines(l, node);
  }
  const bool map = node->kind == TNM_MAP;
  tnm_syntax **children = tnm_order_keys(l->arena, map ? schema : NULL, node);
  bool fine = children != NULL;
  tn__buf_bytes(l->out, map ? "{" : "[", 1);
  for (size_t i = 0; i < node->n && fine; ++i) {
    const tnm_syntax *c = children[i];
    if (i > 0) tn__buf_bytes(l->out, ", ", 2);
    tnm_copy_bytes(l, c->key, c->key_end);
    if (map) write_colon(l, c);
    fine = write_on_one_line(
        l, c, map ? tnm_schema_of_value(schema, c->name) : schema);
  }
  tn__buf_bytes(l->out, map ? "}" : "]", 1);
  return fine;
}

/* Returns the number of columns of a value that is written on one line;
 * SIZE_MAX if it cannot be on one line. */
static size_t measure_one_line(const tnm_layout *l, const tnm_syntax *node,
                               const tnm_schema *schema) {
  tn__buf buf;
  tn__buf_init(&buf, l->arena->env);
  tnm_layout flat = {
      .arena = l->arena, .text = l->text, .n = l->n, .out = &buf};
  const bool fine = write_on_one_line(&flat, node, schema);
  const size_t width = fine ? count_columns(buf.s, buf.n) : SIZE_MAX;
  l->out->failed |= buf.failed;
  tn__buf_deinit(&buf);
  return width;
}

/* Tests whether a value that begins in `column` fits the line. */
static bool fits_line(const tnm_layout *l, const tnm_syntax *node,
                      const tnm_schema *schema, size_t column) {
  const size_t width = measure_one_line(l, node, schema);
  return width != SIZE_MAX && column + width <= TNM_MAX_LINE;
}

/* Tests whether a list or mapping contains a mapping, at any depth. */
static bool contains_map(const tnm_syntax *node) {
  for (const tnm_syntax *c = node->first; c != NULL; c = c->next)
    if (c->kind == TNM_MAP || contains_map(c)) return true;
  return false;
}

static bool has_line_breaks(const tnm_syntax *node) {
  for (const tnm_syntax *c = node->first; c != NULL; c = c->next)
    if ((c != node->first && c->after_break) || has_line_breaks(c)) return true;
  return false;
}

bool tnm_needs_block(const tnm_layout *l, const tnm_syntax *node,
                     const tnm_schema *schema, size_t column) {
  if (!node->flow || node->commented || node->n == 0 ||
      has_unjoinable_lines(l, node))
    return false;
  if (node->kind == TNM_LIST && !contains_map(node)) return false;
  return !fits_line(l, node, schema, column);
}

/* Writes a list of numbers. Keeps the lines of the author, and breaks only
 * lines that are too long. */
static void write_number_list(tnm_layout *l, const tnm_syntax *node) {
  if (node->kind != TNM_LIST) {
    (void)write_on_one_line(l, node, NULL);
    return;
  }
  tn__buf_bytes(l->out, "[", 1);
  const size_t column = tnm_current_column(l);
  for (const tnm_syntax *c = node->first; c != NULL; c = c->next) {
    if (c != node->first) {
      const size_t width = measure_one_line(l, c, NULL);
      tn__buf_bytes(l->out, ",", 1);
      if (c->after_break || width > TNM_MAX_LINE ||
          tnm_current_column(l) + width + 2 > TNM_MAX_LINE)
        tnm_new_line(l, column);
      else
        write_blanks(l, 1);
    }
    write_number_list(l, c);
  }
  tn__buf_bytes(l->out, "]", 1);
}

/* Copies a value unchanged, only with other indentation. It contains comments
 * or a text with lines that cannot be joined. */
static void copy_value(tnm_layout *l, const tnm_syntax *node, size_t indent) {
  const size_t now = tnm_current_column(l) + 1;
  line_reader p = make_line_reader(l, node);
  for (bool first = true; read_next_line(&p); first = false) {
    if (first) {
      tnm_copy_bytes(l, p.begin, p.end);
      continue;
    }
    size_t column = 0;
    while (p.begin > column && l->text[p.begin - column - 1] == ' ') ++column;
    size_t moved = column + now;
    moved = moved > node->column + indent ? moved - node->column : indent + 1;
    tnm_new_line(l, p.begin < p.end ? moved : 0);
    tnm_copy_bytes(l, p.begin, p.end);
  }
}

void tnm_write_value(tnm_layout *l, const tnm_syntax *node, size_t indent,
                     const tnm_schema *schema) {
  if (node->block)
    write_block_scalar(l, node, indent);
  else if (node->joined && can_join_lines(l, node))
    write_joined_lines(l, node);
  else if (node->kind == TNM_SCALAR)
    write_lines(l, node, indent + TNM_INDENT);
  else if (node->commented || has_unjoinable_lines(l, node))
    copy_value(l, node, indent);
  else if (node->kind == TNM_LIST && !contains_map(node) &&
           (has_line_breaks(node) ||
            !fits_line(l, node, schema, tnm_current_column(l))))
    write_number_list(l, node);
  else
    (void)write_on_one_line(l, node, schema);
}
