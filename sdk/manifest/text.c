/* SPDX-License-Identifier: Apache-2.0
 * text.c: the text of manifests: UTF-8, its width in a terminal, and the bytes
 * that are refused before YAML is parsed. It knows nothing of keys and values.
 */
#include <string.h>

#include "front.h"

/* Tests whether bytes [from, to) exist and are continuation bytes of UTF-8. */
static bool has_continuation_bytes(const char *text, size_t n, size_t from,
                                   size_t to) {
  if (to > n) return false;
  for (size_t i = from; i < to; ++i) {
    if (((unsigned char)text[i] & 0xc0u) != 0x80u) return false;
  }
  return true;
}

/* Returns the 6 bits of a character in byte i, a continuation byte of UTF-8. */
static uint32_t read_continuation_bits(const char *text, size_t i) {
  return (unsigned char)text[i] & 0x3fu;
}

size_t tnm_decode_utf8(const char *text, size_t n, uint32_t *out) {
  *out = 0;
  if (n == 0) return 0;
  unsigned char first = (unsigned char)text[0];
  if (first < 0x80) {
    *out = first;
    return 1;
  }
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 ||
      !has_continuation_bytes(text, n, 1, length))
    return 0;
  uint32_t c = first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i)
    c = c << 6 | read_continuation_bits(text, i);
  bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
  *out = c;
  return length;
}

typedef struct range {
  uint32_t from;
  uint32_t to;
} range;

/* Tests whether one of n sorted ranges contains the character. */
static bool is_in_ranges(const range *ranges, size_t n, uint32_t c) {
  for (size_t i = 0; i < n; ++i) {
    if (c >= ranges[i].from && c <= ranges[i].to) return true;
  }
  return false;
}

int tnm_character_width(uint32_t character) {
  static const range none[] = {{0x300, 0x36f},   {0x1ab0, 0x1aff},
                               {0x1dc0, 0x1dff}, {0x200b, 0x200f},
                               {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}};
  static const range wide[] = {
      {0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
      {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
      {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
      {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  if (character < 0x300) return 1;
  if (is_in_ranges(none, sizeof none / sizeof *none, character)) return 0;
  return is_in_ranges(wide, sizeof wide / sizeof *wide, character) ? 2 : 1;
}

/* Tests whether a manifest may not contain this character: control characters
 * and U+FEFF, which terminals or YAML interpret, and the line ends U+2028 and
 * U+2029, at which editors do not count a line. */
static bool is_forbidden(uint32_t c) {
  return (c < 0x20 && c != '\n') || (c >= 0x7f && c < 0xa0) || c == 0x2028 ||
         c == 0x2029 || c == 0xfeff;
}

/* Reports a character that manifests may not contain. */
static void report_forbidden_character(tnm_diags *diags, tnm_pos pos,
                                       uint32_t c) {
  if (c == '\t') {
    tnm_diag_spec spec = {"E0003", pos, "tab"};
    size_t id = tnm_diag_add(diags, &spec, "tab character");
    tnm_diag_add_help(diags, id, "indent with blanks, two per level");
    return;
  }
  tnm_diag_spec spec = {"E0002", pos, NULL};
  size_t id = tnm_diag_add(diags, &spec, "invalid character U+%04X", c);
  tnm_diag_add_help(diags, id, "%s",
                    c == 0xfeff
                        ? "save the file as UTF-8 without a byte order mark"
                        : "remove it; manifests are plain text");
}

/* Reports a byte that is no UTF-8. */
static void report_invalid_byte(tnm_diags *diags, tnm_pos pos, char byte) {
  tnm_diag_spec spec = {"E0002", pos, NULL};
  size_t id = tnm_diag_add(diags, &spec, "invalid UTF-8: byte 0x%02X",
                           (unsigned)(unsigned char)byte);
  tnm_diag_add_help(diags, id, "save the file as UTF-8");
}

/* Tests whether a carriage return is the end of a line together with a line
 * feed; such a carriage return is allowed. */
static bool is_line_end(const char *text, size_t n, size_t at) {
  return text[at] == '\r' && at + 1 < n && text[at + 1] == '\n';
}

bool tnm_text_check(tnm_diags *diags, uint32_t file, const char *text,
                    size_t n) {
  tnm_pos pos = tnm_pos_start(file);
  for (size_t i = 0; i < n;) {
    uint32_t c;
    size_t length = tnm_decode_utf8(text + i, n - i, &c);
    if (length == 0) {
      report_invalid_byte(diags, pos, text[i]);
      return false;
    }
    if (is_forbidden(c) && !is_line_end(text, n, i)) {
      report_forbidden_character(diags, pos, c);
      return false;
    }
    i += length;
    pos.column = c == '\n' ? 1 : pos.column + 1;
    if (c == '\n') ++pos.line;
  }
  return true;
}
