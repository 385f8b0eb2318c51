/* SPDX-License-Identifier: Apache-2.0
 * quoted.c: converts positions inside of a quoted text to positions in the
 * file. Escapes are longer than the characters they represent, and readers of
 * the text count the characters.
 */
#include <string.h>

#include "diag.h"

/* A registered text in quotes. `pos` is its position in the file; its length
 * counts the characters there, with escapes. n_read is the number of characters
 * of the text without escapes. */
typedef struct quoted {
  tnm_pos pos;
  uint32_t n_read;
} quoted;

/* Tests whether a byte continues a UTF-8 character. */
static bool is_continuation(char c) {
  return ((unsigned char)c & 0xc0u) == 0x80u;
}

/* Returns the number of characters of a UTF-8 text. */
static uint32_t count_characters(const char *text) {
  uint32_t n = 0;
  for (; *text != '\0'; ++text) n += !is_continuation(*text);
  return n;
}

void tnm_diags_add_quoted(tnm_diags *diags, tnm_pos pos, const char *text) {
  const uint32_t n_read = count_characters(text);
  if (n_read >= pos.length) return;
  quoted *q = tn__arena_alloc(&diags->arena, sizeof *q);
  if (q == NULL) return;
  *q = (quoted){pos, n_read};
  if (tn__vec_push(diags->env, &diags->quoted, q) != TN_OK)
    diags->failed = true;
}

/* Returns the number of characters in the file that represent the next
 * character of the text. In single quotes the only escape is the doubled
 * quote. */
static uint32_t count_file_characters(char quote, const char *at) {
  if (quote == '\'') return at[0] == '\'' ? 2 : 1;
  if (at[0] != '\\') return 1;
  switch (at[1]) {
    case 'x':
      return 4;
    case 'u':
      return 6;
    case 'U':
      return 10;
    default:
      return 2;
  }
}

/* Returns the address after n characters of UTF-8. */
static const char *skip_characters(const char *at, uint32_t n) {
  for (; n > 0 && *at != '\0'; --n) do
      ++at;
    while (is_continuation(*at));
  return at;
}

/* Returns the number of characters of the file between the opening quote and
 * character `n` of the text. */
static uint32_t find_file_offset(const tnm_diags *diags, const quoted *q,
                                 uint32_t n) {
  const char *at = tnm_diags_get_file(diags, q->pos.file)->text;
  for (uint32_t line = 1; line < q->pos.line && at != NULL; ++line)
    at = strchr(at, '\n') == NULL ? NULL : strchr(at, '\n') + 1;
  if (at == NULL || n >= q->n_read) return q->pos.length;
  at = skip_characters(at, q->pos.column - 2);
  const char quote = *at;
  uint32_t total = 0;
  for (at = skip_characters(at, 1); n > 0 && *at != '\0'; --n) {
    const uint32_t w = count_file_characters(quote, at);
    at = skip_characters(at, w);
    total += w;
  }
  return total;
}

/* Converts a position in the text of a value in quotes to one in the file,
 * where escapes are longer. A position that covers the whole text is returned
 * unchanged. */
tnm_pos tnm_diags_file_pos(const tnm_diags *diags, tnm_pos pos) {
  for (size_t i = 0; i < diags->quoted.n; ++i) {
    const quoted *q = diags->quoted.v[i];
    const tnm_pos start = q->pos;
    if (start.file != pos.file || start.line != pos.line ||
        pos.column < start.column || pos.column > start.column + q->n_read)
      continue;
    const uint32_t from = pos.column - start.column;
    const uint32_t end = find_file_offset(diags, q, from + pos.length);
    pos.column = start.column + find_file_offset(diags, q, from);
    pos.length = start.column + end - pos.column;
    if (pos.length == 0) pos.length = 1;
    break;
  }
  return pos;
}
