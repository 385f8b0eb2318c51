/* SPDX-License-Identifier: Apache-2.0
 * print.c: a tensor becomes nested lists: for people one row per line, for
 * programs JSON.
 */
#include <string.h>

#include "tenon_tool.h"

typedef struct printer {
  const tensor *t;
  text *out;
  bool summarise;
} printer;

static void add_element(const tensor *t, size_t i, text *out) {
  unsigned char element[8];
  tensor_get(t, i, element);
  number_add(out, t->dtype, element);
}

/* Prints the separator of two entries: rows begin on a new line, under the
 * bracket that they belong to. */
static void print_separator(const printer *p, int32_t depth) {
  if (depth + 1 == p->t->ndim)
    text_add(p->out, ", ");
  else
    text_add(p->out, ",\n%*s", depth + 1, "");
}

/* Prints the part from element `first` with lists of `n` elements each.
 * Recursion is bounded by TN_MAX_NDIM. */
static void print_part(const printer *p, int32_t depth, size_t first,
                       size_t n) {
  if (depth == p->t->ndim) {
    add_element(p->t, first, p->out);
    return;
  }
  const int64_t length = p->t->shape[depth];
  const size_t inner = n / (size_t)length;
  const bool cut = p->summarise && length - PRINT_EDGE > PRINT_EDGE;
  text_add(p->out, "[");
  for (int64_t i = 0; i < length; ++i) {
    if (i) print_separator(p, depth);
    if (cut && i == PRINT_EDGE) {
      text_add(p->out, "...");
      print_separator(p, depth);
      i = length - PRINT_EDGE;
    }
    print_part(p, depth + 1, first + (size_t)i * inner, inner);
  }
  text_add(p->out, "]");
}

void print_tensor(const tensor *t, bool full, text *out) {
  const printer p = {t, out, !full && t->n > PRINT_LIMIT};
  if (t->n == 0)
    text_add(out, "[]");
  else
    print_part(&p, 0, 0, t->n);
  text_add(out, "\n");
}

/* -------------------------------------------------------------------- JSON */

static void add_json_element(const tensor *t, size_t i, text *out) {
  text number = {0};
  add_element(t, i, &number);
  const char *last = text_get(&number);
  if (*last == '-') ++last;
  if (*last == 'n' || *last == 'i') {
    text_add_json(out, text_get(&number));
  } else {
    text_add(out, "%s", text_get(&number));
  }
  text_deinit(&number);
}

static size_t add_json_part(const tensor *t, int32_t depth, size_t first,
                            text *out) {
  if (depth == t->ndim) {
    add_json_element(t, first, out);
    return first + 1;
  }
  text_add(out, "[");
  for (int64_t i = 0; i < t->shape[depth]; ++i) {
    if (i) text_add(out, ", ");
    first = add_json_part(t, depth + 1, first, out);
  }
  text_add(out, "]");
  return first;
}

void print_tensor_json(const char *name, const tensor *t, text *out) {
  text_add(out, "{\"name\": ");
  text_add_json(out, name);
  text_add(out, ", \"dtype\": ");
  text_add_json(out, dtype_name(t->dtype));
  text_add(out, ", \"shape\": [");
  for (int32_t i = 0; i < t->ndim; ++i)
    text_add(out, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
  text_add(out, "], \"data\": ");
  if (t->n == 0)
    text_add(out, "[]"); /* (10^12, 0) is as empty as (0) */
  else
    add_json_part(t, 0, 0, out);
  text_add(out, "}");
}
