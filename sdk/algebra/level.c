/* SPDX-License-Identifier: Apache-2.0
 * level.c: formulas over lines: the names of reductions, and the elements of a
 * line that a formula depends on.
 */
#include <string.h>

#include "algebra.h"

static const char *const names[TNM_N_REDUCTIONS] = {"sum", "mean", "max", "min",
                                                    "logsumexp"};

const char *tnm_reduction_name(uint32_t reduction) {
  return names[reduction];
}

uint32_t tnm_reduction_find(const char *name) {
  for (uint32_t i = 0; i < TNM_N_REDUCTIONS; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return TN_NONE;
}

static int leaf_level(const tnm_expr *e, const tnm_levels *levels) {
  if (e->kind == TNM_INPUT)
    return levels == NULL ? TNM_LEVEL_FULL : levels->inputs[e->index];
  if (e->kind == TNM_OUTPUT || e->kind == TNM_GRAD)
    return levels == NULL ? TNM_LEVEL_FULL : levels->outputs[e->index];
  return TNM_LEVEL_NONE;
}

int tnm_expr_level(const tnm_expr *expr, const tnm_levels *levels) {
  int level = leaf_level(expr, levels);
  if (expr->kind == TNM_REDUCE) return TNM_LEVEL_LINE;
  for (uint32_t i = 0; i < expr->n_args; ++i)
    level |= tnm_expr_level(expr->args[i], levels);
  return level;
}

uint32_t tnm_expr_stages(const tnm_expr *expr) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < expr->n_args; ++i) {
    const uint32_t stages = tnm_expr_stages(expr->args[i]);
    if (stages > most) most = stages;
  }
  return most + (expr->kind == TNM_REDUCE ? 1 : 0);
}
