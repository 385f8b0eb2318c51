/* SPDX-License-Identifier: Apache-2.0
 * ctext.c: writes string literals and comments of C, broken to fit the page.
 * For any text of a manifest the result is always one literal or one comment.
 */
#include <string.h>

#include "cfile.h"

/* ------------------------------------------------------------------ strings */

/* Adds one character of a literal. A question mark after another is escaped,
 * because two of them begin a trigraph. */
static void add_escaped(tn__buf *out, char c, char last) {
  const unsigned char u = (unsigned char)c;
  if (c == '\n')
    tn__buf_bytes(out, "\\n", 2);
  else if (c == '"' || c == '\\' || (c == '?' && last == '?'))
    tn__buf_add(out, "\\%c", c);
  else if (u < 0x20 || u == 0x7f)
    tn__buf_add(out, "\\%03o", (unsigned)u);
  else
    tn__buf_bytes(out, &c, 1);
}

/* A possible end of a piece: bytes of text before it, and bytes of the
 * literal. */
typedef struct piece_end {
  size_t text;
  size_t literal;
} piece_end;

/* Escapes the longest part of `text` that ends at a line's end. If that does
 * not fit into `width` columns, the part ends after a blank, or at any
 * character. Returns its length. */
static size_t next_piece(const char *text, size_t width, tn__buf *out) {
  size_t n = 0;
  piece_end blank = {0}, any = {0};
  out->n = 0;
  while (text[n] != '\0') {
    add_escaped(out, text[n], n > 0 ? text[n - 1] : '\0');
    if (out->failed) return strlen(text);
    if (c_width(out->s) > width && any.text > 0) {
      const piece_end end = blank.text > 0 ? blank : any;
      out->n = end.literal;
      return end.text;
    }
    ++n;
    if (text[n - 1] == '\n') break;
    const bool whole = ((unsigned char)text[n] & 0xc0) != 0x80;
    if (whole) any = (piece_end){n, out->n};
    if (text[n - 1] == ' ') blank = any;
  }
  return n;
}

static bool is_one_piece(const char *text, size_t width, tn__buf *out) {
  return text[next_piece(text, width, out)] == '\0' && !out->failed &&
         c_width(out->s != NULL ? out->s : "") <= width;
}

enum { MOST_PROMISED = 4095 }; /* bytes of a literal, by C11 5.2.4.1 */

static void note_length(c_file *file, const char *text) {
  file->has_long |= strlen(text) > MOST_PROMISED;
}

void c_finish(c_file *file) {
  const char *text = file->text.s, *end = NULL;
  if (file->has_long && !file->text.failed) end = strstr(text, "*/\n");
  if (end == NULL) return;
  tn__buf whole;
  tn__buf_init(&whole, file->text.env);
  tn__buf_bytes(&whole, text, (size_t)(end - text));
  tn__buf_add(&whole,
              "*/\n#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n");
  tn__buf_add(&whole, "%s", end + strlen("*/\n"));
  tn__buf_deinit(&file->text);
  file->text = whole;
}

static void add_pieces(c_file *file, const char *text, size_t indent,
                       tn__buf *piece) {
  const size_t width = C_PAGE - indent - strlen("\"\",");
  do {
    text += next_piece(text, width, piece);
    c_add(file, "%*s\"%.*s\"%s\n", (int)indent, "", (int)piece->n,
          piece->n > 0 ? piece->s : "", *text == '\0' ? "," : "");
  } while (*text != '\0' && !piece->failed);
}

void c_string(c_file *file, const char *field, const char *text) {
  if (text == NULL) return;
  tn__buf piece;
  tn__buf_init(&piece, file->text.env);
  note_length(file, text);
  const size_t before =
      file->indent + strlen(".") + strlen(field) + strlen(" = \"\",");
  c_add(file, "%*s.%s =", (int)file->indent, "", field);
  if (before < C_PAGE && is_one_piece(text, C_PAGE - before, &piece)) {
    c_add(file, " \"%.*s\",\n", (int)piece.n, piece.n > 0 ? piece.s : "");
  } else {
    c_add(file, "\n");
    add_pieces(file, text, file->indent + 4, &piece);
  }
  file->text.failed |= piece.failed;
  tn__buf_deinit(&piece);
}

void c_item_string(c_file *file, const char *text) {
  tn__buf piece;
  tn__buf_init(&piece, file->text.env);
  note_length(file, text);
  add_pieces(file, text, file->indent, &piece);
  file->text.failed |= piece.failed;
  tn__buf_deinit(&piece);
}

/* ----------------------------------------------------------------- comments */

/* Length of the word at `text`, and of the blanks after it. */
static size_t word_at(const char *text, size_t *blanks) {
  const size_t n = strcspn(text, " \t\r\n");
  *blanks = strspn(text + n, " \t\r\n");
  return n;
}

/* Adds a word without characters that begin or end a comment. */
static void add_word(c_file *file, const char *word, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const bool star_slash = i > 0 && word[i] == '/' && word[i - 1] == '*';
    const bool slash_star = i > 0 && word[i] == '*' && word[i - 1] == '/';
    c_add(file, star_slash || slash_star ? " %c" : "%c", word[i]);
  }
}

/* Columns of n bytes. */
static size_t count_columns(const char *text, size_t n) {
  size_t width = 0;
  for (size_t i = 0; i < n; ++i)
    width += ((unsigned char)text[i] & 0xc0) != 0x80;
  return width;
}

void c_comment(c_file *file, size_t indent, const char *text) {
  size_t column = indent + strlen("/*");
  size_t blanks = 0;
  text += strspn(text, " \t\r\n");
  c_add(file, "%*s/*", (int)indent, "");
  while (*text != '\0') {
    const size_t n = word_at(text, &blanks);
    const size_t width = count_columns(text, n);
    const size_t end = text[n + blanks] == '\0' ? strlen(" */") : 0;
    if (column + 1 + width + end > C_PAGE) {
      c_add(file, "\n%*s *", (int)indent, "");
      column = indent + strlen(" *");
    }
    c_add(file, " ");
    add_word(file, text, n);
    column += 1 + width;
    text += n + blanks;
  }
  c_add(file, " */\n");
}

void c_section(c_file *file, const char *title) {
  const size_t used = strlen("/*  */") + 1 + c_width(title);
  c_blank_line(file);
  c_add(file, "/* ");
  for (size_t i = used; i < C_PAGE; ++i) c_add(file, "-");
  c_add(file, " %s */\n\n", title);
}

static void trim_blanks(c_file *file) {
  tn__buf *text = &file->text;
  while (text->n > 0 && text->s[text->n - 1] == '\n') text->s[--text->n] = '\0';
}

void c_blank_line(c_file *file) {
  trim_blanks(file);
  c_add(file, "\n\n");
}

void c_end(c_file *file) {
  trim_blanks(file);
  c_add(file, "\n");
}
