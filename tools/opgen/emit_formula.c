/* SPDX-License-Identifier: Apache-2.0
 * emit_formula.c: writes <stem>.formula.gen.h: the formulas of a manifest as
 * functions for the loops of the CPU, those of CUDA, and tests.
 */
#include <string.h>

#include "emit.h"
#include "emit_kernel.h"

bool has_formulas(const emit *e, const char *stem) {
  for (size_t i = 0; i < e->plugin->n_operators; ++i) {
    const tnm_operator *op = &e->plugin->operators[i];
    if ((stem == NULL || strcmp(op->stem, stem) == 0) && needs_formulas(op))
      return true;
  }
  return false;
}

void emit_formula_header(emit *e, const char *stem) {
  const char *guard =
      name_format(e, "%s_%s_FORMULA_GEN_H_",
                  name_identifier(e, e->plugin->plugin->name, true),
                  name_identifier(e, stem, true));
  emit_banner(e, name_format(e, "%s.formula.gen.h", stem), stem);
  emit_guard(e, guard);
  c_add(&e->c, "#include <tenon/kernel/math.h>\n\n#include \"%s.gen.h\"\n\n",
        stem);
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (strcmp(e->plugin->operators[i].stem, stem) == 0)
      emit_formulas(&e->c, e->plugin, &e->plugin->operators[i]);
  c_add(&e->c, "\n");
  c_add(&e->c, "#endif /* %s */\n", guard);
}
