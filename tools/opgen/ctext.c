/* SPDX-License-Identifier: Apache-2.0
 * ctext.c: lays out string literals, comments and bytes. For any text of a
 * manifest the result is always one literal or one comment.
 */
#include <string.h>

#include "cprint.h"

void c_print_blanks(tn__buf *out, size_t n) {
  static const char blanks[] = "                ";
  for (; n > sizeof blanks - 1; n -= sizeof blanks - 1)
    tn__buf_bytes(out, blanks, sizeof blanks - 1);
  tn__buf_bytes(out, blanks, n);
}

size_t c_width(const char *text) {
  size_t n = 0;
  for (; *text != '\0' && *text != '\n'; ++text)
    n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

/* Columns of n bytes. */
static size_t count_columns(const char *text, size_t n) {
  size_t width = 0;
  for (size_t i = 0; i < n; ++i)
    width += ((unsigned char)text[i] & 0xc0) != 0x80;
  return width;
}

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

enum { OUTERMOST = 4 }; /* columns of a field of an outer initialiser */

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
  size_t columns = 0;
  out->n = 0;
  while (text[n] != '\0') {
    const size_t before = out->n;
    add_escaped(out, text[n], n > 0 ? text[n - 1] : '\0');
    if (out->failed) return strlen(text);
    columns += c_width(out->s + before);
    if (columns > width && any.text > 0) {
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

static void add_quoted(tn__buf *out, const tn__buf *piece) {
  tn__buf_bytes(out, "\"", 1);
  if (piece->n > 0) tn__buf_bytes(out, piece->s, piece->n);
  tn__buf_bytes(out, "\"", 1);
}

/* Adds pieces of `width` columns, one below the other; the first one at the
 * column that the line has reached. */
static void add_pieces(tn__buf *out, const char *text, size_t column,
                       size_t width, tn__buf *piece) {
  for (;;) {
    text += next_piece(text, width, piece);
    add_quoted(out, piece);
    if (*text == '\0' || piece->failed) break;
    tn__buf_bytes(out, "\n", 1);
    c_print_blanks(out, column);
  }
  tn__buf_bytes(out, ",\n", 2);
}

/* Tests whether pieces of `width` columns would end within the page even at a
 * later column. Several are beside the field only in an initialiser that is
 * inside of another. */
static bool fits_beside(const char *text, size_t column, size_t width,
                        bool inner, tn__buf *piece) {
  bool fits = true;
  for (bool one = true; fits; one = false) {
    text += next_piece(text, width, piece);
    const size_t columns = piece->n > 0 ? count_columns(piece->s, piece->n) : 0;
    const bool last = *text == '\0' || piece->failed;
    fits = column + columns + strlen(last ? "\"\"," : "\"\"") <= C_PAGE &&
           (inner || (one && last));
    if (last) break;
  }
  return fits;
}

void c_print_literal(tn__buf *out, size_t column, const char *field,
                     const char *text) {
  const size_t marks = strlen("\"\",");
  const size_t beside = column + strlen(field) + strlen(". = ");
  const size_t below = *field != '\0' ? column + C_FURTHER : column;
  const size_t width = C_PAGE - marks - below;
  tn__buf piece;
  tn__buf_init(&piece, out->env);
  c_print_blanks(out, column);
  if (*field != '\0') tn__buf_add(out, ".%s =", field);
  if (*field == '\0') {
    add_pieces(out, text, column, width, &piece);
  } else if (fits_beside(text, beside, width, column > OUTERMOST, &piece)) {
    tn__buf_bytes(out, " ", 1);
    add_pieces(out, text, beside, width, &piece);
  } else {
    tn__buf_bytes(out, "\n", 1);
    c_print_blanks(out, below);
    add_pieces(out, text, below, width, &piece);
  }
  out->failed |= piece.failed;
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
static void add_word(tn__buf *out, const char *word, size_t n) {
  size_t from = 0;
  for (size_t i = 1; i < n; ++i) {
    const bool star_slash = word[i] == '/' && word[i - 1] == '*';
    const bool slash_star = word[i] == '*' && word[i - 1] == '/';
    if (!star_slash && !slash_star) continue;
    tn__buf_bytes(out, word + from, i - from);
    tn__buf_bytes(out, " ", 1);
    from = i;
  }
  tn__buf_bytes(out, word + from, n - from);
}

static void begin_line(tn__buf *out, size_t column, const char *mark) {
  c_print_blanks(out, column);
  tn__buf_add(out, "%s", mark);
}

void c_print_comment(tn__buf *out, size_t column, const char *text,
                     const char *last) {
  size_t at = column + strlen("/*");
  size_t blanks = 0;
  text += strspn(text, " \t\r\n");
  begin_line(out, column, "/*");
  while (*text != '\0') {
    const size_t n = word_at(text, &blanks);
    const size_t width = count_columns(text, n);
    const bool ends = text[n + blanks] == '\0' && *last == '\0';
    if (at + 1 + width + (ends ? strlen(" */") : 0) > C_PAGE) {
      tn__buf_bytes(out, "\n", 1);
      begin_line(out, column, " *");
      at = column + strlen(" *");
    }
    tn__buf_bytes(out, " ", 1);
    add_word(out, text, n);
    at += 1 + width;
    text += n + blanks;
  }
  if (*last != '\0') {
    tn__buf_bytes(out, "\n", 1);
    begin_line(out, column, " * ");
    tn__buf_bytes(out, last, strlen(last));
  }
  tn__buf_bytes(out, " */\n", 4);
}

void c_print_section(tn__buf *out, const char *title) {
  const size_t used = strlen("/*  */") + 1 + c_width(title);
  tn__buf_bytes(out, "/* ", 3);
  for (size_t i = used; i < C_PAGE; ++i) tn__buf_bytes(out, "-", 1);
  tn__buf_add(out, " %s */\n", title);
}

/* -------------------------------------------------------------------- bytes */

enum { BYTES_PER_LINE = 8, COLUMNS_PER_BYTE = 6 };

/* The byte if a comment of the dump may contain it, else a dot. */
static char visible_byte(char byte) {
  const bool plain =
      byte > 0x20 && byte < 0x7f && strchr("*/\\?", byte) == NULL;
  return plain ? byte : '.';
}

/* Prints some bytes and, after them, the same as text. */
static void print_row(tn__buf *out, size_t column, const char *bytes,
                      size_t n) {
  static const char digits[] = "0123456789abcdef";
  char text[BYTES_PER_LINE + 1] = "";
  c_print_blanks(out, column - 1);
  for (size_t i = 0; i < n; ++i) {
    const unsigned byte = (unsigned char)bytes[i];
    const char item[] = {' ', '0', 'x', digits[byte >> 4], digits[byte & 15],
                         ','};
    tn__buf_bytes(out, item, sizeof item);
    text[i] = visible_byte(bytes[i]);
  }
  c_print_blanks(out, (BYTES_PER_LINE - n) * COLUMNS_PER_BYTE);
  tn__buf_add(out, " /* %s */\n", text);
}

void c_print_bytes(tn__buf *out, size_t column, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i += BYTES_PER_LINE)
    print_row(out, column, bytes + i,
              n - i < BYTES_PER_LINE ? n - i : BYTES_PER_LINE);
}
