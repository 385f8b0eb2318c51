/* SPDX-License-Identifier: Apache-2.0
 * eval_literal.c: reads the inputs of `opgen eval`: a number, or nested lists
 * of numbers as JSON has them.
 */
#include <ctype.h>
#include <string.h>

#include "eval.h"

enum { MOST_NUMBERS = 1 << 20 };

typedef struct reader {
  const char *text;
  const char *at;
  tnm_data *data;
  double *values; /* room for every number of the text */
  int32_t ndim;   /* depth of the numbers; -1 before the first */
  const char *fault;
} reader;

static void skip_blanks(reader *r) {
  while (isspace((unsigned char)*r->at)) ++r->at;
}

static bool accept(reader *r, char c) {
  skip_blanks(r);
  if (*r->at != c) return false;
  ++r->at;
  return true;
}

static bool set_fault(reader *r, const char *fault) {
  if (!r->fault) r->fault = fault;
  return false;
}

/* Skips a word if it is next. */
static bool accept_word(reader *r, const char *word) {
  const size_t n = strlen(word);
  if (strncmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

/* Reads `true`, `false`, or a number. */
static bool read_number(reader *r, double *out) {
  char *end = NULL;
  skip_blanks(r);
  *out = 1;
  if (accept_word(r, "true")) return true;
  *out = 0;
  if (accept_word(r, "false")) return true;
  if (tn__read_double(r->at, &end, out) != TN_OK || end == r->at)
    return set_fault(r, "a number is missing");
  r->at = end;
  return true;
}

static bool read_value(reader *r, int32_t depth);

/* Reads the items of a list after its bracket. */
static bool read_items(reader *r, int32_t depth) {
  int64_t n = 0;
  if (!accept(r, ']')) {
    do {
      if (!read_value(r, depth + 1)) return false;
      ++n;
    } while (accept(r, ','));
    if (!accept(r, ']')) return set_fault(r, "`,` or `]` is missing");
  }
  int64_t *length = &r->data->shape[depth];
  if (*length >= 0 && *length != n)
    return set_fault(r, "the lists of one level have different lengths");
  *length = n;
  if (n == 0 && r->ndim < depth + 1) r->ndim = depth + 1;
  return true;
}

static bool read_value(reader *r, int32_t depth) {
  if (accept(r, '[')) {
    if (depth == TN_MAX_NDIM)
      return set_fault(r, "it has more levels than an array has dimensions");
    if (r->data->n > 0 && r->ndim <= depth)
      return set_fault(r, "a list and a number are beside each other");
    return read_items(r, depth);
  }
  if (r->ndim >= 0 && r->ndim != depth)
    return set_fault(r, "a list and a number are beside each other");
  r->ndim = depth;
  return read_number(r, &r->values[r->data->n]) && ++r->data->n > 0;
}

/* Reports the place of a mistake. Returns false. */
static bool report_fault(const reader *r) {
  fprintf(stderr,
          "opgen eval: the input `%.60s`%s is invalid at character %zu: %s\n"
          "  = help: an input is a number or nested lists, as in [[1, 2], [3, "
          "4]]\n",
          r->text, strlen(r->text) > 60 ? " ..." : "",
          (size_t)(r->at - r->text) + 1, r->fault);
  return false;
}

bool eval_read_literal(tn__arena *arena, const char *text, tnm_data *out) {
  const size_t most = strlen(text) / 2 + 2;
  reader r = {.text = text, .at = text, .data = out, .ndim = -1};
  *out = (tnm_data){0};
  for (int32_t d = 0; d < TN_MAX_NDIM; ++d) out->shape[d] = -1;
  if (most > MOST_NUMBERS) {
    r.fault = "it is too long";
    return report_fault(&r);
  }
  r.values = tn__arena_alloc(arena, most * sizeof *r.values);
  if (!r.values) {
    fprintf(stderr, "opgen: out of memory\n");
    return false;
  }
  const bool read = read_value(&r, 0);
  skip_blanks(&r);
  if (read && *r.at != '\0') (void)set_fault(&r, "nothing may follow here");
  if (r.fault) return report_fault(&r);
  out->ndim = r.ndim;
  out->values = r.values;
  return true;
}
