/* SPDX-License-Identifier: Apache-2.0
 * einsum_labels.c: einsum_labels.h.
 */
#include "einsum_labels.h"

#include <stdio.h>
#include <string.h>

#include "move.h"

/* ------------------------------------------------------------------ parsing */

/* A text that is read, and the place of the next character. */
typedef struct reader {
  const tn_frame *call;
  const char *text;
  int32_t at;
} reader;

static int32_t find_letter(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static char get_letter(int32_t label) {
  return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

static int32_t refuse_text(const reader *r, const char *reason) {
  return TN_FAIL(r->call, TN_INVALID,
                 "`equation` %.256s: character %d (`%.1s`): %s", r->text,
                 (int)r->at + 1, r->text + r->at, reason);
}

static int32_t add_label(const reader *r, einsum_term *term, int32_t label) {
  if (term->n == TN_MAX_NDIM)
    return refuse_text(r, "an array has at most 16 dimensions");
  term->label[term->n++] = (int8_t)label;
  return TN_OK;
}

/* Reads `...`. */
static int32_t read_ellipsis(reader *r, einsum_term *term) {
  if (strncmp(r->text + r->at, "...", 3) != 0)
    return refuse_text(r, "write three dots, for any number of dimensions");
  if (term->ellipsis >= 0)
    return refuse_text(r, "each operand may have `...` once");
  term->ellipsis = term->n;
  r->at += 3;
  return TN_OK;
}

/* Reads a term, up to a comma, an arrow or the end. */
static int32_t read_term(reader *r, einsum_term *term) {
  *term = (einsum_term){.ellipsis = -1};
  for (;;) {
    const char c = r->text[r->at];
    int32_t code = TN_OK;
    if (c == '\0' || c == ',' || c == '-') return TN_OK;
    if (c == ' ') {
      ++r->at;
    } else if (c == '.') {
      code = read_ellipsis(r, term);
    } else if (find_letter(c) >= 0) {
      code = add_label(r, term, find_letter(c));
      ++r->at;
    } else {
      code = refuse_text(
          r, "labels are letters; `,`, `->` and `...` are between them");
    }
    if (code != TN_OK) return code;
  }
}

static int count_letter(const einsum_term *term, int32_t letter) {
  int n = 0;
  for (int32_t i = 0; i < term->n; ++i) n += term->label[i] == letter;
  return n;
}

/* Without `->`, the output has the labels that occur once, in the order of
 * their codes. */
static int32_t make_output(const reader *r, einsum_equation *e) {
  e->out = (einsum_term){.ellipsis = -1};
  for (int32_t i = 0; i < e->n_terms; ++i)
    if (e->in[i].ellipsis >= 0) e->out.ellipsis = 0;
  for (int32_t letter = 0; letter < EINSUM_LETTERS; ++letter) {
    int n = 0;
    for (int32_t i = 0; i < e->n_terms; ++i)
      n += count_letter(&e->in[i], letter);
    const int32_t code = n == 1 ? add_label(r, &e->out, letter) : TN_OK;
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

static int32_t read_output(reader *r, einsum_equation *e) {
  if (r->text[r->at + 1] != '>') return refuse_text(r, "write `->`");
  r->at += 2;
  const int32_t begin = r->at;
  const int32_t code = read_term(r, &e->out);
  if (code != TN_OK) return code;
  if (r->text[r->at] != '\0') return refuse_text(r, "there is one output");
  r->at = begin;
  for (; r->text[r->at] != '\0'; ++r->at) {
    const int32_t letter = find_letter(r->text[r->at]);
    int n = 0;
    if (letter < 0) continue;
    for (int32_t i = 0; i < e->n_terms; ++i)
      n += count_letter(&e->in[i], letter);
    if (n == 0) return refuse_text(r, "no operand has this label");
    if (count_letter(&e->out, letter) > 1)
      return refuse_text(r, "a label of the output occurs once");
  }
  return TN_OK;
}

int32_t einsum_parse(const tn_frame *call, const char *text,
                     einsum_equation *e) {
  reader r = {call, text, 0};
  memset(e, 0, sizeof *e);
  if (strlen(text) > EINSUM_TEXT)
    return TN_FAIL(call, TN_INVALID,
                   "`equation` has %lld characters; at most %d are possible",
                   (long long)strlen(text), EINSUM_TEXT);
  for (;;) {
    if (e->n_terms == EINSUM_TERMS)
      return refuse_text(&r, "there are more than 32 operands");
    const int32_t code = read_term(&r, &e->in[e->n_terms++]);
    if (code != TN_OK) return code;
    if (text[r.at] != ',') break;
    ++r.at;
  }
  return text[r.at] == '-' ? read_output(&r, e) : make_output(&r, e);
}

/* ---------------------------------------------------------------- expansion */

/* The name of a label for messages. */
typedef struct label_name {
  char text[24];
} label_name;

static label_name name_label(const einsum_equation *e, int32_t label) {
  label_name name;
  if (label < EINSUM_LETTERS)
    (void)snprintf(name.text, sizeof name.text, "%c", get_letter(label));
  else
    (void)snprintf(name.text, sizeof name.text, "...[%d]",
                   (int)(label - EINSUM_LETTERS + e->n_ellipsis - TN_MAX_NDIM));
  return name;
}

/* Replaces the dots of a term by n labels: the last ones, so that the last
 * dimensions of all operands have equal labels. */
static void insert_labels(einsum_term *term, int32_t n) {
  int8_t label[TN_MAX_NDIM];
  int32_t k = 0;
  if (term->ellipsis < 0) return;
  for (int32_t i = 0; i < term->ellipsis; ++i) label[k++] = term->label[i];
  for (int32_t i = 0; i < n; ++i) label[k++] = (int8_t)(EINSUM_LABELS - n + i);
  for (int32_t i = term->ellipsis; i < term->n; ++i)
    label[k++] = term->label[i];
  memcpy(term->label, label, (size_t)k);
  term->n = k;
}

/* Sets the length of a label, or compares it. Dimensions of `...` with length 1
 * are repeated. */
static int32_t merge_length(const tn_frame *call, einsum_equation *e,
                            int32_t operand, int32_t label, int64_t length) {
  int64_t *known = &e->length[label];
  const int repeats = label >= EINSUM_LETTERS;
  if (length < 0) e->may_grow[label] = 1;
  if (length < 0 || *known == length || (repeats && length == 1 && *known >= 0))
    return TN_OK;
  if (*known >= 0 && !(repeats && *known == 1))
    return TN_FAIL(call, TN_SHAPE,
                   "label `%s` has length %lld in operand %d, but %lld before",
                   name_label(e, label).text, (long long)length, (int)operand,
                   (long long)*known);
  *known = length;
  return TN_OK;
}

static int32_t check_ranks(const tn_frame *call, const tn_tensor *operands,
                           einsum_equation *e) {
  for (int32_t i = 0; i < e->n_terms; ++i) {
    const int32_t ndim = operands[i].ndim, n = e->in[i].n;
    const int has_dots = e->in[i].ellipsis >= 0;
    if (ndim < n || (!has_dots && ndim > n))
      return TN_FAIL(call, TN_SHAPE,
                     "operand %d has %d dimensions, but `equation` has %d "
                     "labels for it%s",
                     (int)i, (int)ndim, (int)n,
                     has_dots || ndim < n ? "" : "; `...` is for the others");
    if (has_dots && ndim - n > e->n_ellipsis) e->n_ellipsis = ndim - n;
  }
  if (e->out.ellipsis >= 0 && e->out.n + e->n_ellipsis > TN_MAX_NDIM)
    return TN_FAIL(call, TN_SHAPE,
                   "the output would have %d dimensions; at most %d are "
                   "possible",
                   (int)(e->out.n + e->n_ellipsis), TN_MAX_NDIM);
  return TN_OK;
}

int32_t einsum_expand(const tn_frame *call, const tn_tensor *operands,
                      einsum_equation *e) {
  int32_t code = check_ranks(call, operands, e);
  if (code != TN_OK) return code;
  for (int32_t l = 0; l < EINSUM_LABELS; ++l) e->length[l] = -1;
  for (int32_t i = 0; i < e->n_terms && code == TN_OK; ++i) {
    insert_labels(&e->in[i], operands[i].ndim - e->in[i].n);
    for (int32_t d = 0; d < operands[i].ndim && code == TN_OK; ++d)
      code = merge_length(call, e, i, e->in[i].label[d], operands[i].shape[d]);
  }
  insert_labels(&e->out, e->n_ellipsis);
  return code;
}
