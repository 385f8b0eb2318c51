/* SPDX-License-Identifier: Apache-2.0
 * diff_op.c: compares the operators of a plugin: which exist and in which
 * order, their properties, gradients and kernels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "diff.h"

/* -------------------------------------------------------------- the heading */

static void compare_interface(diff *d) {
  const uint32_t was = d->a->interface, is = d->b->interface;
  if (was == is) return;
  diff_add(d, is > was ? DIFF_OK : DIFF_ABI, DIFF_AT("interface"),
           "interface %s %u -> %u", is > was ? "raised" : "lowered", was, is);
  d->excused = is > was;
}

/* The family of an operator; NULL: none, as in a plugin for an older host. */
static const char *family_of(const tn_op *op) {
  return TN_HAS(op, family) ? op->family : NULL;
}

static void compare_head(diff *d) {
  compare_interface(d);
  diff_lives(d, DIFF_AT("since"), "the operator",
             (diff_life){d->a->since, d->a->deprecated_since, d->a->use},
             (diff_life){d->b->since, d->b->deprecated_since, d->b->use});
  const char *was = family_of(d->a), *is = family_of(d->b);
  if (!diff_is_same(was, is))
    diff_add(d, DIFF_DOC, DIFF_AT("family"), "family changed %s -> %s",
             diff_text(was, "none"), diff_text(is, "none"));
  if (!diff_is_same(d->a->summary, d->b->summary))
    diff_add(d, DIFF_DOC, DIFF_AT("summary"), "summary changed");
  if (!diff_is_same(d->a->doc, d->b->doc))
    diff_add(d, DIFF_DOC, DIFF_AT("doc"), "doc changed");
  if (!diff_is_same(d->a->replaces, d->b->replaces))
    diff_add(d, DIFF_MODEL, DIFF_AT("replaces"), "replaces changed %s -> %s",
             diff_text(d->a->replaces, "none"),
             diff_text(d->b->replaces, "none"));
  const uint32_t changed =
      (d->a->flags ^ d->b->flags) & (uint32_t)TN_OP_BACKWARD_ONLY;
  if (changed != 0)
    diff_add(d, (d->b->flags & changed) != 0 ? DIFF_SOURCE : DIFF_OK,
             DIFF_AT("backward_only"), "%s users now",
             (d->b->flags & changed) != 0 ? "hidden from" : "shown to");
}

/* ------------------------------------------------------------- the gradient */

static const char *const kinds[] = {"none", "kernel", "graph"};

static uint32_t kind_of(const tn_gradient *g) {
  return g != NULL && g->kind <= TN_GRADIENT_GRAPH ? g->kind : TN_GRADIENT_NONE;
}

/* The name in NEW of a name of `op`, of either side. */
static const char *new_name(const diff *d, const tn_op *op, const char *name) {
  return op == d->a ? diff_new_name(d, name) : name;
}

/* The gradient of the input with this name in NEW. */
static const tn_input_gradient *gradient_of(const diff *d, const tn_op *op,
                                            const char *name) {
  for (uint32_t i = 0; op->gradient != NULL && i < op->gradient->n_inputs; ++i)
    if (i < op->n_inputs &&
        strcmp(new_name(d, op, op->inputs[i]->name), name) == 0)
      return op->gradient->inputs[i];
  return NULL;
}

static const char *need_name(const tn_op *op, const tn_need *need) {
  if (need->what == TN_NEED_IN)
    return need->index < op->n_inputs ? op->inputs[need->index]->name : "";
  return need->index < op->n_outputs ? op->outputs[need->index]->name : "";
}

/* Tests whether `op` keeps as much as `need` of `other`, or more. */
static bool covers_need(const diff *d, const tn_op *op,
                        const tn_input_gradient *g, const tn_need *need) {
  const tn_op *other = op == d->a ? d->b : d->a;
  const char *name = new_name(d, other, need_name(other, need));
  for (uint32_t i = 0; i < g->n_needs; ++i)
    if (g->needs[i].what == need->what &&
        g->needs[i].metadata <= need->metadata &&
        strcmp(new_name(d, op, need_name(op, &g->needs[i])), name) == 0)
      return true;
  return false;
}

static const char *need_prefix(const tn_need *need) {
  return need->what == TN_NEED_GRAD_OUT ? "grad." : "";
}

static void compare_needs(diff *d, const char *name, const tn_input_gradient *a,
                          const tn_input_gradient *b) {
  const char *const *path = DIFF_AT("gradient", "needs", name);
  for (uint32_t i = 0; i < a->n_needs; ++i)
    if (!covers_need(d, d->b, b, &a->needs[i]))
      diff_add(d, DIFF_ABI, path, "gradient of `%s` keeps %s%s no more", name,
               need_prefix(&a->needs[i]), need_name(d->a, &a->needs[i]));
  for (uint32_t i = 0; i < b->n_needs; ++i)
    if (!covers_need(d, d->a, a, &b->needs[i]))
      diff_add(d, DIFF_OK, path, "gradient of `%s` keeps %s%s, too", name,
               need_prefix(&b->needs[i]), need_name(d->b, &b->needs[i]));
}

/* The key of a gradient's formulas in the manifest. */
static const char *formula_key(const tn_op *op) {
  return kind_of(op->gradient) == TN_GRADIENT_GRAPH ? "graph" : "formula";
}

static void compare_input_gradient(diff *d, const char *name,
                                   const tn_input_gradient *a,
                                   const tn_input_gradient *b) {
  if (a->stop != b->stop) {
    diff_add(
        d, b->stop ? DIFF_MODEL : DIFF_OK, DIFF_AT("gradient", "stop", name),
        b->stop ? "`%s` has no gradient any more" : "`%s` has a gradient now",
        name);
    return;
  }
  if ((a->linear != 0) != (b->linear != 0))
    diff_add(d, b->linear ? DIFF_OK : DIFF_MODEL,
             DIFF_AT("gradient", "linear", name),
             b->linear ? "gradient of `%s` has gradients now"
                       : "gradient of `%s` has no gradients any more",
             name);
  if (a->formula && b->formula &&
      !diff_is_same_formula(d, a->formula, b->formula))
    diff_add(d, DIFF_MODEL, DIFF_AT("gradient", formula_key(d->b), name),
             "gradient of `%s` changed %s -> %s", name, a->formula, b->formula);
  else
    compare_needs(d, name, a, b);
}

static void compare_gradient(diff *d) {
  const uint32_t was = kind_of(d->a->gradient), is = kind_of(d->b->gradient);
  const char *const *path = DIFF_AT("gradient");
  if (was != is) {
    diff_add(d,
             was == TN_GRADIENT_NONE  ? DIFF_OK
             : is == TN_GRADIENT_NONE ? DIFF_SOURCE
                                      : DIFF_ABI,
             path, "gradient changed %s -> %s", kinds[was], kinds[is]);
    return;
  }
  if (is == TN_GRADIENT_NONE) {
    if (d->a->gradient != NULL && d->b->gradient != NULL &&
        !diff_is_same(d->a->gradient->why, d->b->gradient->why))
      diff_add(d, DIFF_DOC, path, "reason for no gradient changed");
    return;
  }
  for (uint32_t i = 0; i < d->b->n_inputs; ++i) {
    const char *name = d->b->inputs[i]->name;
    const tn_input_gradient *a = gradient_of(d, d->a, name);
    const tn_input_gradient *b = gradient_of(d, d->b, name);
    if (a != NULL && b != NULL) compare_input_gradient(d, name, a, b);
  }
}

/* ------------------------------------------------------------- one operator */

static const tnm_operator *manifest_of(const diff_side *side,
                                       const char *name) {
  const tnm_plugin *plugin = side->manifests;
  for (size_t i = 0; plugin != NULL && i < plugin->n_operators; ++i) {
    const tnm_operator *op = &plugin->operators[i];
    if (op->op != NULL && strcmp(op->op->name, name) == 0) return op;
  }
  return NULL;
}

static const char *full_name(diff *d, const char *plugin, const char *name) {
  const size_t n = strlen(plugin) + strlen(name) + 2;
  char *text = tn__arena_alloc(d->arena, n);
  if (text != NULL) (void)snprintf(text, n, "%s.%s", plugin, name);
  return diff_text(text, name);
}

/* Makes `name`, that of `a` or `b`, the operator of the next rows. */
static void set_current(diff *d, const tn_op *a, const tn_op *b,
                        const char *name) {
  const tn_plugin *tables = b != NULL ? d->new->tables : d->old->tables;
  d->a = a;
  d->b = b;
  d->excused = false;
  d->renames = NULL;
  d->name = full_name(d, tables->name, name);
  d->written = b != NULL ? manifest_of(d->new, name) : NULL;
  d->was = a != NULL ? manifest_of(d->old, a->name) : NULL;
}

/* Tests for an operator that opgen derived from one that is compared itself. */
static bool is_derived(const diff *d) {
  return d->written != NULL && d->written->parent != NULL;
}

static void report_new(diff *d, const diff_match *m, uint32_t i) {
  char what[96];
  const tn_op *b = d->new->tables->operators[i];
  set_current(d, NULL, b, b->name);
  if (is_derived(d)) return;
  (void)snprintf(what, sizeof what, "operator `%s`", d->b->name);
  if (!diff_is_last(m, i) && !m->loose_new[i])
    diff_add(d, DIFF_ABI, DIFF_AT("op"), "operator added before others");
  else if (diff_since(d, DIFF_AT("since"), what, d->b->since))
    diff_add(d, DIFF_OK, DIFF_AT("op"), "operator added, since %u",
             d->b->since);
}

static diff_list names_of(diff *d, const tn_plugin *tables) {
  const uint32_t n = tables->n_operators;
  const char **names = tn__arena_alloc(d->arena, (n + 1u) * sizeof *names);
  for (uint32_t i = 0; i < n && names != NULL; ++i)
    names[i] = tables->operators[i]->name;
  return (diff_list){names, n};
}

static void compare_operators(diff *d, const diff_match *m) {
  for (uint32_t i = 0; i < m->n_old; ++i) {
    const tn_op *a = d->old->tables->operators[i];
    if (m->to_new[i] == DIFF_GONE) {
      set_current(d, a, NULL, a->name);
      diff_add(d, DIFF_SOURCE, NULL, "operator removed");
      continue;
    }
    const tn_op *b = d->new->tables->operators[m->to_new[i]];
    set_current(d, a, b, b->name);
    if (m->moved[i])
      diff_add(d, DIFF_ABI, DIFF_AT("op"), "operators[%u] moved to %" PRId64, i,
               m->to_new[i]);
    if (is_derived(d)) continue;
    compare_head(d);
    diff_params(d);
    diff_operands(d);
    compare_gradient(d);
  }
}

/* ------------------------------------------------------------------ kernels */

/* Finds a kernel by id and pass. */
static const tn_kernel *find_kernel(const tn_plugin *tables,
                                    const tn_kernel *kernel) {
  for (uint32_t i = 0; i < tables->n_kernels; ++i) {
    const tn_kernel *k = tables->kernels[i];
    if (k->pass == kernel->pass && strcmp(k->id, kernel->id) == 0) return k;
  }
  return NULL;
}

static const char *pass_name(const tn_kernel *kernel) {
  return kernel->pass == TN_PASS_BACKWARD ? "backward " : "";
}

static void compare_sets(diff *d, const tn_kernel *a, const tn_kernel *b) {
  for (uint32_t i = 0; i < a->n_dtype_sets && i < b->n_dtype_sets; ++i) {
    const uint64_t was = a->dtype_sets[i], is = b->dtype_sets[i];
    if (was == is) continue;
    const bool narrow = is != 0 && (was == 0 || (was & ~is) != 0);
    diff_add(d, narrow ? DIFF_SOURCE : DIFF_OK, DIFF_AT("kernels"),
             "%skernel %s takes %s types", pass_name(b), b->id,
             narrow ? "fewer" : "more");
  }
}

static uint32_t count_pairs(const tn_kernel *kernel) {
  return TN_HAS(kernel, inplace) ? kernel->n_inplace : 0;
}

/* Tests whether two kernels support the same in-place pairs. */
static bool has_same_pairs(const tn_kernel *a, const tn_kernel *b) {
  const uint32_t n = count_pairs(a);
  return n == count_pairs(b) && (n == 0 || memcmp(a->inplace, b->inplace,
                                                  n * sizeof *a->inplace) == 0);
}

static void compare_kernel(diff *d, const tn_kernel *a, const tn_kernel *b) {
  const uint32_t lost = a->flags & ~b->flags;
  compare_sets(d, a, b);
  if (a->writes == b->writes && !has_same_pairs(a, b))
    diff_add(d, DIFF_OK, DIFF_AT("kernels"),
             "%skernel %s works in place in other memory", pass_name(b), b->id);
  if (a->writes != b->writes)
    diff_add(d, DIFF_OK, DIFF_AT("kernels"),
             "%skernel %s writes in other ways; the core lowers the rest",
             pass_name(b), b->id);
  if ((lost & TN_KERNEL_DETERMINISTIC) != 0)
    diff_add(d, DIFF_MODEL, DIFF_AT("kernels"),
             "%skernel %s is not deterministic any more", pass_name(b), b->id);
}

/* The document with the kernels of "nn.convolution@1": the operator, or a
 * `kernels_for`. */
static const tnm_operator *writer_of(const diff_side *side, const char *full,
                                     const char *target) {
  const tnm_plugin *plugin = side->manifests;
  for (size_t i = 0; plugin != NULL && i < plugin->n_operators; ++i) {
    const tnm_operator *op = &plugin->operators[i];
    if (op->target != NULL && strcmp(op->target->op, target) == 0) return op;
  }
  const size_t n = strlen(side->tables->name);
  const bool own = strncmp(full, side->tables->name, n) == 0 && full[n] == '.';
  return own ? manifest_of(side, full + n + 1) : NULL;
}

/* Makes the operator of a kernel, "nn.convolution@1", current like
 * set_current. */
static void set_current_kernel(diff *d, const tn_kernel *kernel) {
  const size_t n = strcspn(kernel->op, "@");
  d->excused = false;
  d->name = diff_text(tn__arena_text(d->arena, kernel->op, n), kernel->op);
  d->written = writer_of(d->new, d->name, kernel->op);
}

/* Tests whether the tables have the operator with the same interface, or it
 * belongs to another plugin. */
static bool has_operator(diff *d, const tn_plugin *tables,
                         const tn_kernel *kernel) {
  const size_t n = strlen(tables->name);
  if (strncmp(kernel->op, tables->name, n) != 0 || kernel->op[n] != '.')
    return true;
  for (uint32_t i = 0; i < tables->n_operators; ++i) {
    const tn_op *op = tables->operators[i];
    char interface[16];
    (void)snprintf(interface, sizeof interface, "@%" PRIu32, op->interface);
    const char *full = full_name(d, tables->name, op->name);
    const size_t length = strlen(full);
    if (strncmp(kernel->op, full, length) == 0 &&
        strcmp(kernel->op + length, interface) == 0)
      return true;
  }
  return false;
}

static void compare_kernels(diff *d) {
  const tn_plugin *old = d->old->tables, *new = d->new->tables;
  for (uint32_t i = 0; i < old->n_kernels; ++i) {
    const tn_kernel *a = old->kernels[i], *b = find_kernel(new, a);
    if (!has_operator(d, new, a)) continue;
    set_current_kernel(d, a);
    if (b != NULL)
      compare_kernel(d, a, b);
    else
      diff_add(d, DIFF_SOURCE, DIFF_AT("kernels"), "%skernel %s removed",
               pass_name(a), a->id);
  }
  for (uint32_t i = 0; i < new->n_kernels; ++i) {
    const tn_kernel *b = new->kernels[i];
    if (find_kernel(old, b) != NULL || !has_operator(d, old, b)) continue;
    set_current_kernel(d, b);
    diff_add(d, DIFF_OK, DIFF_AT("kernels"), "%skernel %s added", pass_name(b),
             b->id);
  }
}

/* --------------------------------------------------------------- the plugin */

/* Tests for a plugin.yaml, which must name a licence; a single file has
 * none. */
static bool is_described(const tn_plugin *plugin) {
  return plugin->license != NULL;
}

/* The least release of another plugin that one side requires; 0: none. */
static uint32_t required_release(const tn_plugin *plugin, const char *name) {
  const uint32_t n = TN_HAS(plugin, dependencies) ? plugin->n_dependencies : 0;
  for (uint32_t i = 0; i < n; ++i)
    if (strcmp(plugin->dependencies[i]->plugin, name) == 0)
      return plugin->dependencies[i]->release;
  return 0;
}

static void compare_dependencies(diff *d) {
  const tn_plugin *old = d->old->tables, *new = d->new->tables;
  const uint32_t n_old = TN_HAS(old, dependencies) ? old->n_dependencies : 0;
  const uint32_t n_new = TN_HAS(new, dependencies) ? new->n_dependencies : 0;
  for (uint32_t i = 0; i < n_new; ++i) {
    const tn_dependency *other = new->dependencies[i];
    const uint32_t before = required_release(old, other->plugin);
    if (before != other->release)
      diff_add(d, before < other->release ? DIFF_SOURCE : DIFF_OK, NULL,
               "requires %s >=%u now", other->plugin, other->release);
  }
  for (uint32_t i = 0; i < n_old; ++i)
    if (required_release(new, old->dependencies[i]->plugin) == 0)
      diff_add(d, DIFF_OK, NULL, "requires %s no more",
               old->dependencies[i]->plugin);
}

static void compare_plugin(diff *d) {
  const tn_plugin *old = d->old->tables, *new = d->new->tables;
  d->name = new->name;
  d->written = NULL;
  d->excused = false;
  if (strcmp(old->name, new->name) != 0)
    diff_add(d, DIFF_SOURCE, NULL, "plugin renamed %s -> %s", old->name,
             new->name);
  if (!is_described(old) || !is_described(new)) return;
  if (!diff_is_same(old->summary, new->summary))
    diff_add(d, DIFF_DOC, NULL, "summary of the plugin changed");
  if (!diff_is_same(old->license, new->license))
    diff_add(d, DIFF_DOC, NULL, "license changed %s -> %s", old->license,
             new->license);
  compare_dependencies(d);
  if (new->release < old->release)
    diff_add(d, DIFF_SOURCE, NULL, "release lowered %u -> %u", old->release,
             new->release);
  else if (new->release == old->release && d->rows.n > 0)
    diff_add(d, DIFF_NOTE, NULL,
             "release is still %u although the plugin changed", new->release);
}

/* Operators that only gradients use are found by their names. Derived ones
 * follow all others, so additions move them. */
static void mark_loose(bool *loose, const tn_plugin *tables) {
  for (uint32_t i = 0; i < tables->n_operators; ++i)
    loose[i] = (tables->operators[i]->flags & TN_OP_BACKWARD_ONLY) != 0;
}

void diff_operators(diff *d) {
  diff_match m;
  const diff_list old = names_of(d, d->old->tables);
  const diff_list new = names_of(d, d->new->tables);
  if (d->arena->failed || !diff_match_init(d, &m, old, new)) return;
  mark_loose(m.loose_old, d->old->tables);
  mark_loose(m.loose_new, d->new->tables);
  if (!diff_match_finish(d, &m)) return;
  compare_operators(d, &m);
  for (uint32_t i = 0; i < m.n_new; ++i)
    if (m.to_old[i] == DIFF_GONE) report_new(d, &m, i);
  if (strcmp(d->old->tables->name, d->new->tables->name) == 0)
    compare_kernels(d);
  compare_plugin(d);
}
