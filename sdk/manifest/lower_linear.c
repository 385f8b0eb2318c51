/* SPDX-License-Identifier: Apache-2.0
 * lower_linear.c: lowers `gradient: {linear: ...}`: groups of inputs in which
 * outputs are linear, as bits of each input's gradient. Reports contradictions.
 */
#include <string.h>

#include "front.h"

enum { MOST_GROUPS = 32 };

/* Reports a mistake in `linear`; `what` is a format with one name. Returns the
 * message's id. */
static size_t report_bad_group(tnm_lower *lower, tnm_pos pos, const char *what,
                               const char *name) {
  tnm_diag_spec spec = {"E0090", pos, NULL};
  return tnm_diag_add(lower->diags, &spec, what, name);
}

/* ------------------------------------------------------------------- groups */

/* Marks one input as a member of linear group number `group`. Returns false
 * after a message. */
static bool read_group_member(tnm_lower *lower, const tnm_tree *node,
                              uint32_t group, tn_input_gradient **all) {
  if (!tnm_check_scalar(lower->diags, node, "an input")) return false;
  const uint32_t i = tnm_find_operand(lower, TN_OPERAND_IN, node->text);
  if (i == TN_NONE) {
    tnm_report_operand(lower, node->pos, TN_OPERAND_IN, node->text);
  } else if (all[i]->stop) {
    const size_t id = report_bad_group(
        lower, node->pos, "input `%s` is never differentiated", node->text);
    tnm_diag_add_help(lower->diags, id, "remove it from `linear`");
  } else {
    all[i]->linear |= UINT32_C(1) << group;
    return true;
  }
  return false;
}

/* Marks all inputs of a linear group. Returns false after a message. */
static bool read_group(tnm_lower *lower, const tnm_tree *list, uint32_t group,
                       tn_input_gradient **all) {
  bool good = list->first != NULL;
  if (list->first == NULL)
    tnm_diag_add_help(
        lower->diags,
        report_bad_group(lower, list->pos, "a group of no inputs%s", ""),
        "remove it, or name the inputs in which outputs are linear");
  for (const tnm_tree *node = list->first; node != NULL; node = node->next)
    good &= read_group_member(lower, node, group, all);
  return good;
}

/* Reads linear groups: `[data]` is one, `[[data], [weight]]` are two. Returns
 * false after a message. */
static bool read_groups(tnm_lower *lower, const tnm_tree *list,
                        tn_input_gradient **all) {
  uint32_t n = 0;
  bool good = true;
  if (list->first == NULL || list->first->kind == TNM_SCALAR)
    return read_group(lower, list, 0, all);
  for (const tnm_tree *node = list->first; node != NULL; node = node->next) {
    if (node->kind != TNM_LIST) {
      const size_t id =
          report_bad_group(lower, node->pos, "`%.80s` is an input among groups",
                           node->kind == TNM_SCALAR ? node->text : "this");
      tnm_diag_add_help(lower->diags, id, "make it a list: `[%.80s]`",
                        node->kind == TNM_SCALAR ? node->text : "...");
      return false;
    }
    if (n == MOST_GROUPS) {
      report_bad_group(lower, node->pos, "there are more than 32 groups%s", "");
      return false;
    }
    good &= read_group(lower, node, n++, all);
  }
  return good;
}

/* ----------------------------------------------------------- contradictions */

/* Checks one need of the gradient of linear input i. That gradient does not
 * depend on the elements of an input of the same group, or of an output. */
static void check_linear_need(tnm_lower *lower, const tnm_tree *list,
                              uint32_t i, const tn_need *need,
                              tn_input_gradient **all) {
  const char *const *in = lower->operands[TN_OPERAND_IN].names;
  const char *const *out = lower->operands[TN_OPERAND_OUT].names;
  if (need->metadata || need->what == TN_NEED_GRAD_OUT) return;
  const bool input = need->what == TN_NEED_IN;
  if (input && (all[need->index]->linear & all[i]->linear) == 0) return;
  const size_t id =
      report_bad_group(lower, list->key_pos,
                       "outputs are linear in `%s`, but its gradient reads "
                       "more than that allows",
                       in[i]);
  tnm_diag_add_help(lower->diags, id,
                    "remove `%s` from `needs: {%s: ...}`, or `linear`",
                    (input ? in : out)[need->index], in[i]);
}

/* Checks that input i is in a group if it is differentiated, and the needs of
 * its gradient. */
static void check_linear_input(tnm_lower *lower, const tnm_tree *list,
                               uint32_t i, tn_input_gradient **all) {
  const char *name = lower->operands[TN_OPERAND_IN].names[i];
  if (all[i]->stop) return;
  if (all[i]->linear == 0) {
    const size_t id =
        report_bad_group(lower, list->key_pos,
                         "input `%s` is differentiated and in no group of "
                         "`linear`",
                         name);
    tnm_diag_add_help(lower->diags, id,
                      "add it to the groups in which outputs are linear, or "
                      "remove `linear`");
    return;
  }
  for (uint32_t k = 0; k < all[i]->n_needs; ++k)
    check_linear_need(lower, list, i, &all[i]->needs[k], all);
}

void tnm_lower_linear(tnm_lower *lower, const tnm_tree *list,
                      tn_input_gradient **all) {
  const tn_gradient *g = lower->gradient;
  if (list == NULL) return;
  if (tnm_tree_get(tnm_tree_get(lower->doc, "gradient"), "kernel") == NULL) {
    const size_t id = report_bad_group(
        lower, list->key_pos, "`linear` without `kernel: backward`%s", "");
    tnm_diag_add_help(
        lower->diags, id,
        "remove it: formulas and graphs have gradients as they are");
    return;
  }
  if (lower->operands[TN_OPERAND_AUX].n > 0) {
    const size_t id = report_bad_group(
        lower, list->key_pos,
        "`linear` beside `aux`: outputs depend on a changed state%s", "");
    tnm_diag_add_help(lower->diags, id,
                      "remove `linear`, or give the operator no states");
    return;
  }
  if (!read_groups(lower, list, all)) return;
  for (uint32_t i = 0; i < g->n_inputs; ++i)
    check_linear_input(lower, list, i, all);
}
