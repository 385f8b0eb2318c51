/* SPDX-License-Identifier: Apache-2.0
 * json_tree.c: reads JSON into a tree: strings, whole numbers, true, false,
 * null, lists and objects. Each value and each string has its own memory in the
 * tree.
 */
#include "json_tree.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 400, BLOCK = 1 << 16 };

/* ------------------------------------------------------------------ memory */

typedef struct json_block {
  struct json_block *next;
  size_t used;
  size_t bytes;
  max_align_t data[];
} json_block;

static json_block *add_block(json_tree *tree, size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(json_block)) return NULL;
  json_block *block = (json_block *)calloc(1, sizeof *block + bytes);
  if (!block) return NULL;
  block->bytes = bytes;
  block->next = tree->blocks;
  tree->blocks = block;
  return block;
}

void *json_alloc(json_tree *tree, size_t n, size_t each) {
  const size_t align = sizeof(max_align_t);
  size_t bytes;
  if (__builtin_mul_overflow(n, each, &bytes) || bytes > SIZE_MAX - align)
    return NULL;
  bytes = (bytes / align + 1) * align;
  json_block *block = tree->blocks;
  if (!block || block->bytes - block->used < bytes)
    block = add_block(tree, bytes < BLOCK ? BLOCK : bytes);
  if (!block) return NULL;
  void *data = (char *)block->data + block->used;
  block->used += bytes;
  return data;
}

void json_tree_deinit(json_tree *tree) {
  while (tree->blocks) {
    json_block *block = tree->blocks;
    tree->blocks = block->next;
    free(block);
  }
  *tree = (json_tree){0};
}

/* ----------------------------------------------------------------- reading */

typedef struct reader {
  json_tree *tree;
  const char *begin;
  const char *at;
  int depth;
  text *why;
} reader;

static bool fail_json(const reader *r, const char *expected) {
  return report_failure(r->why, "byte %zu of the library's JSON: expected %s",
                        (size_t)(r->at - r->begin), expected);
}

static bool fail_memory(const reader *r) {
  return report_failure(r->why, "out of memory");
}

static void skip_blanks(reader *r) {
  r->at += strspn(r->at, " \t\r\n");
}

static bool take_character(reader *r, char c) {
  skip_blanks(r);
  if (*r->at != c) return false;
  ++r->at;
  return true;
}

static bool read_hex4(reader *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; ++i, ++r->at) {
    static const char digits[] = "0123456789abcdef";
    const char c =
        *r->at >= 'A' && *r->at <= 'F' ? (char)(*r->at + 32) : *r->at;
    const char *digit = c ? strchr(digits, c) : NULL;
    if (!digit) return fail_json(r, "four hexadecimal digits");
    *out = *out << 4 | (uint32_t)(digit - digits);
  }
  return true;
}

static char *put_utf8(char *to, uint32_t c) {
  const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (char)(first[more] | c >> 6 * more);
  for (int i = more - 1; i >= 0; --i)
    *to++ = (char)(0x80u | (c >> 6 * i & 0x3fu));
  return to;
}

/* Reads the escape after a backslash. */
static bool read_escape(reader *r, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  uint32_t c = 0, low = 0;
  const char *plain = *r->at ? strchr(from, *r->at) : NULL;
  if (plain) {
    ++r->at;
    *(*to)++ = into[plain - from];
    return true;
  }
  if (*r->at != 'u') return fail_json(r, "an escape");
  ++r->at;
  if (!read_hex4(r, &c)) return false;
  if (c >= 0xd800 && c < 0xdc00 && r->at[0] == '\\' && r->at[1] == 'u') {
    r->at += 2;
    if (!read_hex4(r, &low)) return false;
    c = 0x10000 + ((c - 0xd800) << 10) + ((low - 0xdc00) & 0x3ff);
  }
  *to = put_utf8(*to, c);
  return true;
}

/* The decoded text is never longer than its source. */
static bool read_string(reader *r, const char **out) {
  if (!take_character(r, '"')) return fail_json(r, "a string");
  const char *end = r->at;
  for (; *end && *end != '"'; ++end)
    if (*end == '\\' && end[1]) ++end;
  char *to = (char *)json_alloc(r->tree, (size_t)(end - r->at) + 1, 1);
  if (!to) return fail_memory(r);
  *out = to;
  while (*r->at && *r->at != '"') {
    if (*r->at != '\\') {
      *to++ = *r->at++;
      continue;
    }
    ++r->at;
    if (!read_escape(r, &to)) return false;
  }
  return take_character(r, '"') || fail_json(r, "a closing quote");
}

static bool read_number(reader *r, uint64_t *out) {
  const char *begin = r->at;
  for (*out = 0; *r->at >= '0' && *r->at <= '9'; ++r->at)
    if (__builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, (uint64_t)(*r->at - '0'), out))
      return fail_json(r, "a number below 2^64");
  return r->at > begin || fail_json(r, "a value");
}

static bool read_value(reader *r, json *to);

/* Reads items up to `end`, with a key before each in an object. */
static bool read_items(reader *r, json *to, char end) {
  const json **last = NULL;
  if (take_character(r, end)) return true;
  do {
    json *item = (json *)json_alloc(r->tree, 1, sizeof *item);
    if (!item) return fail_memory(r);
    if (to->kind == JSON_OBJECT) {
      if (!read_string(r, &item->key)) return false;
      if (!take_character(r, ':')) return fail_json(r, "`:`");
    }
    if (!read_value(r, item)) return false;
    if (last)
      *last = item;
    else
      to->first = item;
    last = &item->next;
    ++to->n;
  } while (take_character(r, ','));
  return take_character(r, end) || fail_json(r, "`,` or the end of a list");
}

static bool read_nested(reader *r, json *to, json_kind kind, char end) {
  to->kind = kind;
  if (++r->depth > DEEPEST) return fail_json(r, "fewer lists in lists");
  const bool ok = read_items(r, to, end);
  --r->depth;
  return ok;
}

static bool read_value(reader *r, json *to) {
  static const struct {
    const char *word;
    json_kind kind;
  } words[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
  skip_blanks(r);
  if (take_character(r, '{')) return read_nested(r, to, JSON_OBJECT, '}');
  if (take_character(r, '[')) return read_nested(r, to, JSON_LIST, ']');
  if (*r->at == '"') {
    to->kind = JSON_STRING;
    return read_string(r, &to->text);
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
    const size_t n = strlen(words[i].word);
    if (strncmp(r->at, words[i].word, n) != 0) continue;
    r->at += n;
    to->kind = words[i].kind;
    return true;
  }
  to->kind = JSON_NUMBER;
  return read_number(r, &to->number);
}

bool json_tree_parse(const char *source, json_tree *out, text *why) {
  *out = (json_tree){0};
  reader r = {.tree = out, .begin = source, .at = source, .why = why};
  out->root = (json *)json_alloc(out, 1, sizeof *out->root);
  bool ok = out->root ? read_value(&r, out->root) : fail_memory(&r);
  skip_blanks(&r);
  if (ok && *r.at) ok = fail_json(&r, "the end");
  if (!ok) json_tree_deinit(out);
  return ok;
}

/* ------------------------------------------------------------------ values */

const json *json_first(const json *value) {
  return value ? value->first : NULL;
}

const json *json_get(const json *object, const char *key) {
  for (const json *item = json_first(object); item; item = item->next)
    if (item->key && strcmp(item->key, key) == 0) return item;
  return NULL;
}

uint64_t json_number(const json *value) {
  return value && value->kind == JSON_NUMBER ? value->number : 0;
}

const char *json_text(const json *value) {
  return value && value->kind == JSON_STRING ? value->text : "";
}

bool json_is_true(const json *value) {
  return value && value->kind == JSON_TRUE;
}
