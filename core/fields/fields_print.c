/* SPDX-License-Identifier: Apache-2.0
 * fields_print.c: prints a params struct as text that tn__fields_parse reads
 * back, and as JSON, and computes its hash.
 */
#include <math.h>
#include <string.h>

#include "fields.h"

/* A text in quotes, with the escapes that fields_parse.c reads. */
static void print_quoted(tn__buf *out, const char *text) {
  static const char plain[] = "\"\\\n\t\r", escaped[] = "\"\\ntr";
  tn__buf_add(out, "\"");
  for (const char *s = text; *s != '\0'; ++s) {
    const char *special = strchr(plain, *s);
    if (special == NULL)
      tn__buf_bytes(out, s, 1);
    else
      tn__buf_add(out, "\\%c", escaped[special - plain]);
  }
  tn__buf_add(out, "\"");
}

/* JSON has no infinity and NaN; they become texts. */
static void print_double(tn__buf *out, double v, bool json) {
  const bool quote = json && !isfinite(v);
  if (quote) tn__buf_add(out, "\"");
  tn__buf_double(out, v);
  if (quote) tn__buf_add(out, "\"");
}

static void print_ints(tn__buf *out, const tn_ints *list) {
  tn__buf_add(out, "[");
  for (int64_t i = 0; i < list->n; ++i)
    tn__buf_add(out, "%s%lld", i == 0 ? "" : ", ", (long long)list->v[i]);
  tn__buf_add(out, "]");
}

static void print_floats(tn__buf *out, const tn_floats *list, bool json) {
  tn__buf_add(out, "[");
  for (int64_t i = 0; i < list->n; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    print_double(out, list->v[i], json);
  }
  tn__buf_add(out, "]");
}

/* The name of an enum's value, or of an element type. */
static const char *name_of(const tn_field *field, const void *at) {
  if (field->type == TN_FIELD_DTYPE)
    return tn__dtype_name(*(const tn_dtype *)at);
  const uint32_t index = *(const uint32_t *)at;
  return index < field->n_values ? field->values[index] : "?";
}

static void print_member(const tn_field *field, const void *data, tn__buf *out,
                         bool json) {
  const void *at = tn__member_of(field, data);
  if (!tn__member_is_set(field, data)) {
    tn__buf_add(out, json ? "null" : "None");
    return;
  }
  switch (field->type) {
    case TN_FIELD_BOOL:
      tn__buf_add(out, *(const int32_t *)at != 0 ? "true" : "false");
      break;
    case TN_FIELD_INT:
      tn__buf_add(out, "%lld", (long long)*(const int64_t *)at);
      break;
    case TN_FIELD_FLOAT:
      print_double(out, *(const double *)at, json);
      break;
    case TN_FIELD_INTS:
      print_ints(out, at);
      break;
    case TN_FIELD_FLOATS:
      print_floats(out, at, json);
      break;
    case TN_FIELD_STRING:
      (json ? tn__buf_json : print_quoted)(out, *(const char *const *)at);
      break;
    default:
      (json ? tn__buf_json(out, name_of(field, at))
            : tn__buf_add(out, "%s", name_of(field, at)));
  }
}

void tn__fields_text(const tn__fields *fields, const void *data, tn__buf *out) {
  for (uint32_t i = 0; i < fields->n; ++i) {
    tn__buf_add(out, "%s%s=", i == 0 ? "" : " ", fields->fields[i]->name);
    print_member(fields->fields[i], data, out, false);
  }
}

void tn__fields_json(const tn__fields *fields, const void *data, tn__buf *out) {
  tn__buf_add(out, "{");
  for (uint32_t i = 0; i < fields->n; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    tn__buf_json(out, fields->fields[i]->name);
    tn__buf_add(out, ": ");
    print_member(fields->fields[i], data, out, true);
  }
  tn__buf_add(out, "}");
}

/* -------------------------------------------------------------------- hash */

static uint64_t member_hash(const tn_field *field, const void *data) {
  const void *at = tn__member_of(field, data);
  tn_ints list;
  if (!tn__member_is_set(field, data)) return 1;
  switch (field->type) {
    case TN_FIELD_INT:
    case TN_FIELD_FLOAT:
      return tn__hash(at, 8);
    case TN_FIELD_INTS:
    case TN_FIELD_FLOATS: /* the same layout */
      memcpy(&list, at, sizeof list);
      return tn__hash(list.v, (size_t)list.n * 8);
    case TN_FIELD_STRING: {
      const char *text = *(const char *const *)at;
      return tn__hash(text, strlen(text));
    }
    default:
      return tn__hash(at, 4);
  }
}

uint64_t tn__fields_hash(const tn__fields *fields, const void *data) {
  uint64_t hash = fields->n;
  for (uint32_t i = 0; i < fields->n; ++i) {
    const uint64_t pair[] = {hash, member_hash(fields->fields[i], data)};
    hash = tn__hash(pair, sizeof pair);
  }
  return hash;
}

/* -------------------------------------------------------------------- equal */

static bool is_member_equal(const tn_field *field, const void *a,
                            const void *b) {
  const void *x = tn__member_of(field, a), *y = tn__member_of(field, b);
  tn_ints left, right;
  if (tn__member_is_set(field, a) != tn__member_is_set(field, b)) return false;
  if (!tn__member_is_set(field, a)) return true;
  switch (field->type) {
    case TN_FIELD_INT:
    case TN_FIELD_FLOAT:
      return memcmp(x, y, 8) == 0;
    case TN_FIELD_INTS:
    case TN_FIELD_FLOATS: /* the same layout */
      memcpy(&left, x, sizeof left);
      memcpy(&right, y, sizeof right);
      return left.n == right.n &&
             (left.n == 0 || memcmp(left.v, right.v, (size_t)left.n * 8) == 0);
    case TN_FIELD_STRING:
      return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    default:
      return memcmp(x, y, 4) == 0;
  }
}

bool tn__fields_equal(const tn__fields *fields, const void *a, const void *b) {
  for (uint32_t i = 0; i < fields->n; ++i)
    if (!is_member_equal(fields->fields[i], a, b)) return false;
  return true;
}
