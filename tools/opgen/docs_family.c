/* SPDX-License-Identifier: Apache-2.0
 * docs_family.c: the families of a plugin's operators, as lists of a manual
 * have them.
 */
#include <ctype.h>
#include <string.h>

#include "docs.h"

bool docs_is_of_family(const tnm_operator *op, const char *family) {
  if (!docs_is_listed(op)) return false;
  const char *own = op->op->family;
  if (own == NULL || family == NULL) return own == family;
  return strcmp(own, family) == 0;
}

/* Returns the number of the first operator of a family; n_operators if there is
 * none. */
static size_t find_first(const docs *d, const char *family) {
  size_t i = 0;
  while (i < d->plugin->n_operators &&
         !docs_is_of_family(&d->plugin->operators[i], family))
    ++i;
  return i;
}

void docs_families(tn__buf *out, const docs *d, docs_write_family *write) {
  const size_t n = d->plugin->n_operators;
  for (size_t i = 0; i < n; ++i) {
    const tnm_operator *op = &d->plugin->operators[i];
    if (!docs_is_listed(op) || op->op->family == NULL) continue;
    if (find_first(d, op->op->family) == i) write(out, d, op->op->family);
  }
  if (find_first(d, NULL) < n) write(out, d, NULL);
}

static bool has_families(const docs *d) {
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    const tnm_operator *op = &d->plugin->operators[i];
    if (docs_is_listed(op) && op->op->family != NULL) return true;
  }
  return false;
}

void docs_family_title(tn__buf *out, const docs *d, const char *family,
                       const char *marks) {
  if (!has_families(d)) return;
  const char *name = family != NULL ? family : "without a family";
  tn__buf_add(out, "%s%c%s%s\n\n", marks, toupper((unsigned char)name[0]),
              name + 1, marks[0] == '*' ? marks : "");
}
