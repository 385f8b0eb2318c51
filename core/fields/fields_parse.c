/* SPDX-License-Identifier: Apache-2.0
 * fields_parse.c: splits the text form of parameters, `a=1 b=[2, 3] name="two
 * words"`, into keys and values. fields_value.c converts the values.
 */
#include <ctype.h>
#include <string.h>

#include "fields.h"

/* Reads a copy of the text, and overwrites the ends of words with NUL. */
typedef struct reader {
  const char *where;
  char *at;
} reader;

static tn_code fail_bad_text(const reader *r, const char *near,
                             const char *what) {
  return tn__fail(TN_INVALID,
                  "parameters of %s: %s near `%.40s`; write key=value with "
                  "blanks between, for example a=1 b=[2, 3] c=\"two words\"",
                  r->where, what, near);
}

/* The character of the escape `\c`; NUL if there is no such escape. */
static char unescape_char(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case '"':
    case '\\':
      return c;
    default:
      return '\0';
  }
}

/* Reads a quoted text; replaces escapes in place, which only shortens it. */
static tn_code read_quoted(reader *r, tn_value *out) {
  const char *begin = r->at++;
  char *to = r->at;
  out->as.s = to;
  out->n = TN__QUOTED;
  for (; *r->at != '"'; ++r->at) {
    char c = *r->at;
    if (c == '\0')
      return fail_bad_text(r, begin, "a text without closing quote");
    if (c == '\\') {
      c = unescape_char(*++r->at);
      if (c == '\0')
        return fail_bad_text(r, r->at - 1, "an unknown escape in a text");
    }
    *to++ = c;
  }
  ++r->at;
  *to = '\0';
  return TN_OK;
}

/* Reads a list up to its closing bracket; it may contain blanks. */
static tn_code read_list(reader *r, tn_value *out) {
  const char close = *r->at == '[' ? ']' : ')';
  char *begin = r->at;
  char *end = strchr(begin, close);
  if (end == NULL)
    return fail_bad_text(r, begin, "a list without closing bracket");
  out->as.s = begin;
  r->at = end + 1;
  return TN_OK;
}

static void read_word(reader *r, tn_value *out) {
  out->as.s = r->at;
  while (*r->at != '\0' && !isspace((unsigned char)*r->at)) ++r->at;
}

/* Ends the value before r->at. */
static tn_code end_value(reader *r) {
  if (*r->at == '\0') return TN_OK;
  if (!isspace((unsigned char)*r->at))
    return fail_bad_text(r, r->at, "no blank after a value");
  *r->at++ = '\0';
  return TN_OK;
}

static tn_code read_pair(reader *r, tn_value *out) {
  char *key = r->at;
  *out = tn_value_text(key, NULL);
  while (*r->at != '\0' && *r->at != '=' && !isspace((unsigned char)*r->at))
    ++r->at;
  if (*r->at != '=') return fail_bad_text(r, key, "a word without `=`");
  if (r->at == key) return fail_bad_text(r, key, "a value without a key");
  *r->at++ = '\0';
  if (*r->at == '"')
    TN__TRY(read_quoted(r, out));
  else if (*r->at == '[' || *r->at == '(')
    TN__TRY(read_list(r, out));
  else
    read_word(r, out);
  return end_value(r);
}

static tn_code read_all(reader *r, tn_value *values, size_t *n) {
  for (;; ++*n) {
    while (isspace((unsigned char)*r->at)) ++r->at;
    if (*r->at == '\0') return TN_OK;
    TN__TRY(read_pair(r, &values[*n]));
  }
}

tn_code tn__fields_parse(const tn__env *env, const tn__fields *fields,
                         const char *text, void **out) {
  const size_t length = strlen(text);
  size_t most = 0, n = 0;
  *out = NULL;
  for (const char *s = text; *s != '\0'; ++s) most += *s == '=';
  /* A pair that fails is begun but not counted, so there is one more. */
  const size_t bytes = (most + 1) * sizeof(tn_value) + length + 1;
  tn_value *values = tn__alloc(env, bytes);
  if (values == NULL) return tn__fail_memory(bytes, "the text of parameters");
  char *copy = (char *)(values + most + 1);
  memcpy(copy, text, length + 1);
  tn_code rc = read_all(&(reader){fields->where, copy}, values, &n);
  if (rc == TN_OK) rc = tn__fields_build(env, fields, values, n, out);
  tn__free(env, values);
  return rc;
}
