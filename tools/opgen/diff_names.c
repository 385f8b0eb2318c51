/* SPDX-License-Identifier: Apache-2.0
 * diff_names.c: renamed items, and the comparison of texts with their names. A
 * new name is one change, and not one per rule that contains it.
 */
#include <string.h>

#include "diff.h"

struct diff_rename {
  const char *old;
  const char *new;
  const diff_rename *next;
};

void diff_rename_add(diff *d, const char *old, const char *new) {
  if (strcmp(old, new) == 0) return;
  diff_rename *rename = tn__arena_alloc(d->arena, sizeof *rename);
  if (rename == NULL) return;
  *rename = (diff_rename){old, new, d->renames};
  d->renames = rename;
}

/* The new name of an old one of `n` bytes. */
static const char *find_renamed(const diff *d, const char *old, size_t n) {
  for (const diff_rename *r = d->renames; r != NULL; r = r->next)
    if (strlen(r->old) == n && memcmp(r->old, old, n) == 0) return r->new;
  return NULL;
}

const char *diff_new_name(const diff *d, const char *old) {
  return old == NULL ? NULL : diff_text(find_renamed(d, old, strlen(old)), old);
}

/* ----------------------------------------------------------------- formulas */

static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/* Length of the token: a word or number, text in quotes, or one character. */
static size_t token_length(const char *s) {
  const size_t n = strspn(s, letters);
  if (n > 0) return n;
  if (*s != '"') return 1;
  const char *end = strchr(s + 1, '"');
  return end != NULL ? (size_t)(end + 1 - s) : strlen(s);
}

/* The characters before `s`: the dot of `grad.`, another dot, or none. */
typedef enum dot { DOT_NONE, DOT_GRAD, DOT_OTHER } dot;

static dot dot_before(const char *text, const char *s) {
  if (s == text || s[-1] != '.') return DOT_NONE;
  const size_t n = (size_t)(s - text);
  const bool grad = n >= 5 && memcmp(s - 5, "grad.", 5) == 0 &&
                    (n == 5 || strchr(letters, s[-6]) == NULL);
  return grad ? DOT_GRAD : DOT_OTHER;
}

/* Tests whether a word of `text` names a parameter or operand of the operator:
 * no function, no `plugin.operator`, and no parameter of a called one. */
static bool is_name(const char *text, const char *s, size_t n) {
  const char *next = s + n + strspn(s + n, " ");
  if (strcspn(s, "0123456789\"") == 0 || *next == '(') return false;
  if (*next == '.' && next[1] != '.') return false;
  if (*next == '=' && next[1] != '=') return false;
  return dot_before(text, s) != DOT_OTHER;
}

bool diff_is_same_formula(const diff *d, const char *old, const char *new) {
  const char *a = old, *b = new;
  for (;;) {
    a += strspn(a, " ");
    b += strspn(b, " ");
    if (*a == '\0' || *b == '\0') return *a == *b;
    const size_t n = token_length(a), m = token_length(b);
    const char *renamed = is_name(old, a, n) ? find_renamed(d, a, n) : NULL;
    const char *want = diff_text(renamed, a);
    if ((renamed != NULL ? strlen(renamed) : n) != m || memcmp(want, b, m) != 0)
      return false;
    a += n;
    b += m;
  }
}
