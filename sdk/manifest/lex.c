/* SPDX-License-Identifier: Apache-2.0
 * lex.c: splits the expression language into tokens. It reports nothing: a
 * character that begins no token becomes a bad token, and the parser reports
 * it.
 */
#include <string.h>

#include "expr.h"

/* Tests whether a character is a digit. <ctype.h> depends on the locale, but a
 * manifest is always UTF-8. */
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Tests whether a character may be part of a name: a letter, a digit or `_`. */
static bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         is_digit(c);
}

/* Tests whether a byte continues a UTF-8 character. */
static bool is_continuation(char c) {
  return ((unsigned char)c & 0xc0u) == 0x80u;
}

/* Returns the number of digits at the start of a text. */
static size_t count_digits(const char *at) {
  size_t n = 0;
  while (is_digit(at[n])) ++n;
  return n;
}

/* Reads a number: digits, a fraction and an exponent, of which it must have
 * digits or a fraction. Letters and digits directly after it belong to it. So
 * "0x10" is one bad number, and not a number and a name; "1.5.2" is one bad
 * number, and not two numbers. */
static int read_number(const char *at, size_t *n) {
  size_t end = count_digits(at);
  bool bad = false;
  if (at[end] == '.' && is_digit(at[end + 1]))
    end += 1 + count_digits(at + end + 1);
  if (at[end] == 'e' || at[end] == 'E') {
    size_t sign = at[end + 1] == '+' || at[end + 1] == '-' ? 1 : 0;
    size_t exponent = count_digits(at + end + 1 + sign);
    if (exponent > 0) end += 1 + sign + exponent;
  }
  while (is_name_character(at[end]) ||
         (at[end] == '.' && is_digit(at[end + 1]))) {
    bad = true;
    ++end;
  }
  *n = end;
  return bad ? TNM_TOKEN_BAD_NUMBER : TNM_TOKEN_NUMBER;
}

/* Returns the operator at the start of a text, and sets *n to its length; 0 if
 * there is none. */
static char read_operator(const char *at, size_t *n) {
  static const struct {
    const char *text;
    char op;
  } longer[] = {
      {"...", TNM_SPREAD}, {"<=", 'l'}, {">=", 'g'}, {"==", 'e'}, {"!=", 'n'},
  };
  for (size_t i = 0; i < sizeof longer / sizeof *longer; ++i) {
    *n = strlen(longer[i].text);
    if (strncmp(at, longer[i].text, *n) == 0) return longer[i].op;
  }
  *n = 1;
  return strchr("+-*/%^<>(),.", *at) ? *at : '\0';
}

/* Returns the number of bytes of the UTF-8 character at `at`. */
static size_t count_character_bytes(const char *at) {
  size_t n = 1;
  while (is_continuation(at[n])) ++n;
  return n;
}

tnm_token tnm_read_token(tnm_lexer *lexer) {
  while (*lexer->at == ' ') {
    ++lexer->at;
    ++lexer->pos.column;
  }
  const char *at = lexer->at;
  tnm_token token = {.text = at, .pos = lexer->pos};
  token.pos.length = 1;
  if (*at == '\0') return token;
  if (is_digit(*at) || (*at == '.' && is_digit(at[1]))) {
    token.kind = read_number(at, &token.n);
  } else if (is_name_character(*at)) {
    token.kind = TNM_TOKEN_NAME;
    while (is_name_character(at[token.n])) ++token.n;
  } else {
    token.op = read_operator(at, &token.n);
    token.kind = token.op ? TNM_TOKEN_OPERATOR : TNM_TOKEN_BAD;
  }
  if (token.kind == TNM_TOKEN_BAD)
    token.n = count_character_bytes(at);
  else
    token.pos.length = (uint32_t)token.n;
  lexer->at += token.n;
  lexer->pos.column += token.pos.length;
  return token;
}
