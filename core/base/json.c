/* SPDX-License-Identifier: Apache-2.0
 * json.c: JSON of strings, whole numbers and punctuation. The caller knows the
 * expected next token and requests it. There is no recursion and no allocation:
 * strings are decoded in place.
 */
#include <string.h>

#include "files.h"

static void skip_blanks(tn__json *json) {
  for (; json->at < json->end && memchr(" \t\r\n", *json->at, 4); ++json->at)
    json->line += *json->at == '\n';
}

bool tn__json_take(tn__json *json, char c) {
  skip_blanks(json);
  if (json->at == json->end || *json->at != c) return false;
  ++json->at;
  return true;
}

tn_code tn__json_expect(tn__json *json, char c) {
  const char expected[] = {'`', c, '`', '\0'};
  return tn__json_take(json, c) ? TN_OK : tn__json_fail(json, expected);
}

bool tn__json_word(tn__json *json, const char *word) {
  const size_t n = strlen(word);
  skip_blanks(json);
  if ((size_t)(json->end - json->at) < n || memcmp(json->at, word, n) != 0)
    return false;
  json->at += n;
  return true;
}

tn_code tn__json_end(tn__json *json) {
  skip_blanks(json);
  return json->at == json->end ? TN_OK : tn__json_fail(json, "the end");
}

tn_code tn__json_number(tn__json *json, int64_t *out) {
  int64_t n = 0;
  skip_blanks(json);
  const char *begin = json->at;
  for (; json->at < json->end && *json->at >= '0' && *json->at <= '9';
       ++json->at)
    if (__builtin_mul_overflow(n, 10, &n) ||
        __builtin_add_overflow(n, *json->at - '0', &n))
      return tn__json_fail(json, "a number below 2^63");
  if (json->at == begin) return tn__json_fail(json, "a whole number");
  if (*begin == '0' && json->at - begin > 1)
    return tn__json_fail(json, "a number without a leading zero");
  *out = n;
  return TN_OK;
}

/* ----------------------------------------------------------------- strings */

static bool read_hex4(const tn__json *json, uint32_t *out) {
  *out = 0;
  if (json->end - json->at < 4) return false;
  for (int i = 0; i < 4; ++i) {
    char c = json->at[i];
    uint32_t digit = 0;
    if (c >= '0' && c <= '9')
      digit = (uint32_t)(c - '0');
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
      digit = (uint32_t)((c | 0x20) - 'a' + 10);
    else
      return false;
    *out = *out << 4 | digit;
  }
  return true;
}

/* Reads four digits after \u, and the second half of a surrogate pair. */
static tn_code read_code_point(tn__json *json, uint32_t *out) {
  uint32_t low = 0;
  if (!read_hex4(json, out))
    return tn__json_fail(json, "four hexadecimal digits");
  json->at += 4;
  if (*out == 0) return tn__json_fail(json, "a string without NUL");
  if (*out < 0xd800 || *out > 0xdfff) return TN_OK;
  if (*out > 0xdbff || json->end - json->at < 6 || json->at[0] != '\\' ||
      json->at[1] != 'u')
    return tn__json_fail(json, "the second half of a surrogate pair");
  json->at += 2;
  if (!read_hex4(json, &low) || low < 0xdc00 || low > 0xdfff)
    return tn__json_fail(json, "the second half of a surrogate pair");
  json->at += 4;
  *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
  return TN_OK;
}

static char *put_utf8(char *to, uint32_t c) {
  if (c < 0x80) {
    *to++ = (char)c;
    return to;
  }
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  *to++ = (char)((0xff80u >> more & 0xffu) | c >> 6 * more);
  while (more-- > 0) *to++ = (char)(0x80u | (c >> 6 * more & 0x3fu));
  return to;
}

/* Decodes the escape after a backslash; the result is never longer than its
 * source. */
static tn_code decode_escape(tn__json *json, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  uint32_t c = 0;
  if (json->at == json->end) return tn__json_fail(json, "an escape");
  const char *found = memchr(from, *json->at, sizeof from - 1);
  if (found) {
    ++json->at;
    *(*to)++ = into[found - from];
    return TN_OK;
  }
  if (*json->at != 'u') return tn__json_fail(json, "an escape of JSON");
  ++json->at;
  TN__TRY(read_code_point(json, &c));
  *to = put_utf8(*to, c);
  return TN_OK;
}

/* Copies one character unchanged. */
static tn_code copy_character(tn__json *json, char **to) {
  size_t n = tn__utf8_length(json->at);
  if (n == 0 || (unsigned char)*json->at < 0x20)
    return tn__json_fail(json,
                         "a character of UTF-8, control characters "
                         "escaped");
  memmove(*to, json->at, n);
  *to += n;
  json->at += n;
  return TN_OK;
}

/* Decoded text never overtakes the text that is read. So the NUL replaces at
 * most the closing quote. */
tn_code tn__json_string(tn__json *json, const char **out) {
  if (!tn__json_take(json, '"')) return tn__json_fail(json, "a string");
  char *to = json->at;
  *out = to;
  while (json->at < json->end && *json->at != '"') {
    if (*json->at == '\\') {
      ++json->at;
      TN__TRY(decode_escape(json, &to));
    } else {
      TN__TRY(copy_character(json, &to));
    }
  }
  if (json->at == json->end) return tn__json_fail(json, "a closing quote");
  ++json->at;
  *to = '\0';
  return TN_OK;
}
