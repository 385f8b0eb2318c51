/* SPDX-License-Identifier: Apache-2.0
 * codes.c: the codes of all messages in order, for `opgen explain`. Their texts
 * are in codes_form.c, codes_expressions.c, codes_rules.c, codes_lints.c and
 * codes_built.c.
 */
#include "codes.h"

#include <stdbool.h>
#include <string.h>

#include "manifest.h"

static const tnm_code *const tables[] = {tnm_codes_form, tnm_codes_expressions,
                                         tnm_codes_rules, tnm_codes_lints,
                                         tnm_codes_built};

/* Returns the code number `index` of all tables; NULL after the last one. */
static const tnm_code *find_code(size_t index) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    for (const tnm_code *c = tables[i]; c->code != NULL; ++c) {
      if (index-- == 0) return c;
    }
  }
  return NULL;
}

const char *tnm_code_at(size_t index) {
  const tnm_code *found = find_code(index);
  return found == NULL ? NULL : found->code;
}

/* Tests whether `wanted`, a code that a user writes, means the entry `code`. A
 * lint has the code W0101 as a warning and E0101 as an error. */
static bool is_same_code(const char *code, const char *wanted) {
  if (strcmp(code, wanted) == 0) return true;
  return code[0] == 'W' && wanted[0] == 'E' &&
         strcmp(code + 1, wanted + 1) == 0;
}

const char *tnm_code_explain(const char *code) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    for (const tnm_code *c = tables[i]; c->code != NULL; ++c) {
      if (is_same_code(c->code, code)) return c->text;
    }
  }
  return NULL;
}
