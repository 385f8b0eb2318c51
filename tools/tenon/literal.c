/* SPDX-License-Identifier: Apache-2.0
 * literal.c: nested lists of numbers, as people type them, become a tensor.
 * Every complaint shows the text with a caret under the offending character.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* ------------------------------------------------------------------ carets */

static bool is_continuation(char c) {
  return ((unsigned char)c & 0xc0u) == 0x80u;
}

/* Appends part of a source on one line: control characters become blanks. */
static void add_source(text *t, const char *begin, const char *end) {
  for (; begin < end; ++begin) {
    char c = (unsigned char)*begin < 0x20 ? ' ' : *begin;
    text_add_bytes(t, &c, 1);
  }
}

/* The part of a long source around `at`, and where the caret belongs. */
static void add_excerpt(text *t, const char *source, const char *at) {
  enum { BEFORE = 40, AFTER = 30 };
  const char *begin = at - source > BEFORE ? at - BEFORE : source;
  const char *end = at + strnlen(at, AFTER);
  while (begin > source && is_continuation(*begin)) --begin;
  while (is_continuation(*end)) ++end;
  const char *dots = begin > source ? "..." : "";
  text_add(t, "\n  %s", dots);
  add_source(t, begin, end);
  text_add(t, "%s\n  %*s", *end ? "..." : "", (int)strlen(dots), "");
  for (; begin < at; ++begin)
    if (!is_continuation(*begin)) text_add(t, " ");
  text_add(t, "^");
}

bool fail_at(text *why, const char *source, const char *at, const char *format,
             ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  text excerpt = {0};
  add_excerpt(&excerpt, source, at);
  report_failure(why, "%s%s", message, text_get(&excerpt));
  text_deinit(&excerpt);
  return false;
}

/* ------------------------------------------------------------------ parser */

typedef struct parser {
  const char *source;
  const char *at;
  tensor *out; /* ndim is -1 until a number or an empty list was seen */
  text *why;
  text elements;
} parser;

enum { MAX_TOKEN = 64 };

static void skip_blanks(parser *p) {
  while (isspace((unsigned char)*p->at)) ++p->at;
}

/* How a character that does not belong is called in a message. */
static const char *name_of(char c, char buffer[4]) {
  if (c == '\0') return "the end";
  if ((unsigned char)c < 0x20 || (unsigned char)c > 0x7e) return "this";
  buffer[0] = buffer[2] = '`';
  buffer[1] = c;
  buffer[3] = '\0';
  return buffer;
}

static bool report_unexpected(parser *p, const char *expected) {
  char buffer[4];
  return fail_at(p->why, p->source, p->at, "expected %s, found %s", expected,
                 name_of(*p->at, buffer));
}

/* A number or word. Brackets, commas and blanks end it. */
static bool parse_token(parser *p, char token[MAX_TOKEN]) {
  size_t n = strcspn(p->at, "[](),; \t\r\n");
  if (n == 0) return report_unexpected(p, "a number or `[`");
  if (n >= MAX_TOKEN)
    return fail_at(p->why, p->source, p->at,
                   "a number of %zu characters; write at most %d", n,
                   MAX_TOKEN - 1);
  memcpy(token, p->at, n);
  token[n] = '\0';
  return true;
}

static bool parse_element(parser *p, int32_t depth) {
  char token[MAX_TOKEN];
  unsigned char element[8] = {0};
  if (!parse_token(p, token)) return false;
  if (p->out->ndim >= 0 && p->out->ndim != depth)
    return fail_at(p->why, p->source, p->at,
                   "a number where other lists have a list: all numbers must "
                   "stand at the same depth, which is %d so far",
                   p->out->ndim);
  if (!element_parse(p->out->dtype, token, element, p->why)) {
    text problem = *p->why;
    *p->why = (text){0};
    fail_at(p->why, p->source, p->at, "%s", text_get(&problem));
    text_deinit(&problem);
    return false;
  }
  p->out->ndim = depth;
  p->at += strlen(token);
  text_add_bytes(&p->elements, (const char *)element,
                 (size_t)tn_dtype_bytes_of(p->out->dtype, 1));
  return true;
}

static bool report_ragged(parser *p, int64_t found, int64_t expected) {
  return fail_at(p->why, p->source, p->at,
                 "this list has %s%lld element%s, the first at its depth has "
                 "%lld: all lists at one depth must be equally long",
                 found > expected ? "at least " : "", (long long)found,
                 found == 1 ? "" : "s", (long long)expected);
}

static bool parse_value(parser *p, int32_t depth);

/* Elements up to and including the closing bracket. */
static bool parse_items(parser *p, int32_t depth, int64_t *n) {
  const int64_t known = p->out->shape[depth];
  for (*n = 0;; ++p->at) {
    skip_blanks(p);
    if (*n == 0 && *p->at == ']') break;
    if (known >= 0 && *n == known) return report_ragged(p, known + 1, known);
    if (!parse_value(p, depth + 1)) return false;
    ++*n;
    skip_blanks(p);
    if (*p->at == ']') break;
    if (*p->at != ',') return report_unexpected(p, "`,` or `]`");
  }
  if (known >= 0 && *n != known) return report_ragged(p, *n, known);
  ++p->at;
  return true;
}

static bool parse_list(parser *p, int32_t depth) {
  if (p->out->ndim >= 0 && depth >= p->out->ndim)
    return fail_at(p->why, p->source, p->at,
                   "a list where other lists have a number: all numbers must "
                   "stand at the same depth, which is %d so far",
                   p->out->ndim);
  if (depth == TN_MAX_NDIM)
    return fail_at(p->why, p->source, p->at,
                   "lists are nested too deeply: an array has at most %d "
                   "dimensions",
                   TN_MAX_NDIM);
  int64_t n = 0;
  ++p->at;
  if (!parse_items(p, depth, &n)) return false;
  if (n == 0 && p->out->ndim < 0) p->out->ndim = depth + 1;
  p->out->shape[depth] = n;
  return true;
}

/* Recursion is bounded by TN_MAX_NDIM. */
static bool parse_value(parser *p, int32_t depth) {
  skip_blanks(p);
  return *p->at == '[' ? parse_list(p, depth) : parse_element(p, depth);
}

static bool parse_all(parser *p) {
  skip_blanks(p);
  if (!*p->at)
    return report_failure(
        p->why,
        "the text is empty; write a number or a list, such as "
        "[[1,2],[3,4]]");
  if (!parse_value(p, 0)) return false;
  skip_blanks(p);
  if (*p->at) return report_unexpected(p, "nothing more");
  if (p->elements.failed) return report_failure(p->why, "out of memory");
  return tensor_alloc(p->out, p->why);
}

bool literal_parse(const char *source, tn_dtype dtype, tensor *out, text *why) {
  const size_t size = (size_t)tn_dtype_bytes_of(dtype, 1);
  *out = (tensor){.dtype = dtype, .ndim = -1};
  for (int i = 0; i < TN_MAX_NDIM; ++i) out->shape[i] = -1;
  parser p = {.source = source, .at = source, .out = out, .why = why};
  bool ok = parse_all(&p);
  for (size_t i = 0; ok && i < out->n; ++i)
    tensor_set(out, i, p.elements.data + i * size);
  text_deinit(&p.elements);
  return ok;
}
