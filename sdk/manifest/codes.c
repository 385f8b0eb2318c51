/* SPDX-License-Identifier: Apache-2.0
 * The codes of all messages in order, for `opgen explain`. Their texts stand in
 * codes_form.c, codes_expressions.c and codes_rules.c.
 */
#include "codes.h"

#include <string.h>

#include "manifest.h"

static const tnm_code *const tables[] = {tnm_codes_form, tnm_codes_expressions,
                                         tnm_codes_rules};

static const tnm_code *code_at(size_t index) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    for (const tnm_code *c = tables[i]; c->code != NULL; ++c) {
      if (index-- == 0) return c;
    }
  }
  return NULL;
}

const char *tnm_code_at(size_t index) {
  const tnm_code *found = code_at(index);
  return found == NULL ? NULL : found->code;
}

const char *tnm_code_explain(const char *code) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
    for (const tnm_code *c = tables[i]; c->code != NULL; ++c) {
      if (strcmp(c->code, code) == 0) return c->text;
    }
  }
  return NULL;
}
