/* SPDX-License-Identifier: Apache-2.0
 * docs_page.c: writes the page of one operator: description, formulas,
 * parameters, operands, gradient, examples, kernels, in this order on every
 * page.
 */
#include <inttypes.h>
#include <string.h>

#include "docs.h"

/* The state of one page. */
typedef struct page {
  tn__buf *out;
  const docs *docs;
  const tnm_operator *op;
  const trial *trials; /* per example, or NULL */
  int level;
} page;

static void write_heading(const page *p, int below, const char *title) {
  for (int i = 0; i < p->level + below; ++i) tn__buf_add(p->out, "#");
  tn__buf_add(p->out, " %s\n\n", title);
}

bool docs_is_listed(const tnm_operator *op) {
  return op->op != NULL && (op->op->flags & TN_OP_BACKWARD_ONLY) == 0;
}

/* ----------------------------------------------------------------- the head */

static void write_life(const page *p) {
  const tn_op *op = p->op->op;
  tn__buf_add(p->out, "Since release %u", op->since);
  if (op->interface > 1) tn__buf_add(p->out, "; interface %u", op->interface);
  tn__buf_add(p->out, ".");
  if (op->deprecated_since > 0) {
    tn__buf_add(p->out, " **Deprecated** since release %u",
                op->deprecated_since);
    if (op->use != NULL) tn__buf_add(p->out, ": use ");
    docs_plain(p->out, op->use != NULL ? op->use : "");
    tn__buf_add(p->out, ".");
  }
  if (op->family != NULL) tn__buf_add(p->out, " Family: %s.", op->family);
  if (op->replaces != NULL)
    tn__buf_add(p->out, " Replaces `%s` where the host allows it.",
                op->replaces);
  if ((op->flags & TN_OP_BACKWARD_ONLY) != 0)
    tn__buf_add(p->out, " Used by gradients; not listed for users.");
  tn__buf_add(p->out, "\n\n");
}

static void write_line(const page *p, const char *line, size_t n, bool fenced) {
  if (fenced)
    tn__buf_bytes(p->out, line, n);
  else
    docs_line(p->out, line, n);
}

static void write_bold(const page *p, const char *text, size_t n) {
  tn__buf_add(p->out, "**");
  docs_line(p->out, text, n);
  tn__buf_add(p->out, "**");
}

/* Headings of the author would be larger than those of the page: they become
 * bold. */
static void write_doc(const page *p, const char *doc) {
  bool fenced = false;
  for (const char *line = doc; *line != '\0';) {
    const size_t n = strcspn(line, "\n");
    const size_t marks = strspn(line, "#");
    if (strncmp(line, "```", 3) == 0) fenced = !fenced;
    if (!fenced && marks > 0 && line[marks] == ' ')
      write_bold(p, line + marks + 1, n - marks - 1);
    else
      write_line(p, line, n, fenced);
    tn__buf_add(p->out, "\n");
    line += n + (line[n] == '\n');
  }
  if (fenced) tn__buf_add(p->out, "```\n");
  tn__buf_add(p->out, "\n");
}

void docs_title(tn__buf *out, const tn_plugin *plugin) {
  tn__buf_add(out, "# %s\n\n", plugin->name);
  if (plugin->summary != NULL) {
    docs_plain(out, plugin->summary);
    tn__buf_add(out, ".\n\n");
  }
  if (plugin->license != NULL) {
    tn__buf_add(out, "Release %u, license ", plugin->release);
    docs_plain(out, plugin->license);
    tn__buf_add(out, ".\n\n");
  }
}

static void write_head(const page *p) {
  const tn_op *op = p->op->op;
  for (int i = 0; i < p->level; ++i) tn__buf_add(p->out, "#");
  tn__buf_add(p->out, " ");
  docs_plain(p->out, p->docs->plugin->plugin->name);
  tn__buf_add(p->out, ".");
  docs_plain(p->out, op->name);
  tn__buf_add(p->out, "\n\n");
  if (op->summary != NULL) {
    docs_plain(p->out, op->summary);
    tn__buf_add(p->out, ".\n\n");
  }
  if (op->doc != NULL) write_doc(p, op->doc);
  write_life(p);
}

/* ----------------------------------------------------------------- formulas */

static bool has_formula(const tn_op *op) {
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->formula != NULL) return true;
  return false;
}

static void write_formulas(const page *p) {
  const tn_op *op = p->op->op;
  if (!has_formula(op)) return;
  write_heading(p, 1, "Formula");
  tn__buf_add(p->out, "```\n");
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->formula != NULL)
      tn__buf_add(p->out, "%s = %s\n", op->outputs[i]->name,
                  op->outputs[i]->formula);
  tn__buf_add(p->out, "```\n\n");
}

static void write_tables(const page *p) {
  const tn_op *op = p->op->op;
  if (op->n_params > 0) {
    write_heading(p, 1, "Parameters");
    docs_params(p->out, op);
  }
  if (op->n_inputs > 0) {
    write_heading(p, 1, "Inputs");
    docs_operands(p->out, p->op, TN_OPERAND_IN);
  }
  write_heading(p, 1, "Outputs");
  docs_operands(p->out, p->op, TN_OPERAND_OUT);
  if (op->n_aux > 0) {
    write_heading(p, 1, "States");
    tn__buf_add(p->out, "Passed after the inputs, and changed by a call.\n\n");
    docs_operands(p->out, p->op, TN_OPERAND_AUX);
  }
  docs_dtypes(p->out, p->op);
}

static void write_requirements(const page *p) {
  const tn_op *op = p->op->op;
  if (op->n_requires == 0) return;
  write_heading(p, 1, "Requirements");
  for (uint32_t i = 0; i < op->n_requires; ++i)
    tn__buf_add(
        p->out, "- `%s`: %s\n", op->requirements[i]->that,
        op->requirements[i]->say != NULL ? op->requirements[i]->say : "");
  tn__buf_add(p->out, "\n");
}

/* ----------------------------------------------------------------- gradient */

static void add_need(tn__buf *out, const tn_op *op, const tn_need *need) {
  const char *name = need->what == TN_NEED_IN ? op->inputs[need->index]->name
                                              : op->outputs[need->index]->name;
  const char *grad = need->what == TN_NEED_GRAD_OUT ? "grad." : "";
  tn__buf_add(out, need->metadata ? "shape(%s%s)" : "%s%s", grad, name);
}

/* Writes the operands with memory that the gradient of input `i` may take. */
static void write_gradient_memory(const page *p, uint32_t i) {
  const tn_op *op = p->op->op;
  const uint32_t n_in = op->n_inputs, n_out = op->n_outputs;
  bool first = true;
  for (uint32_t k = 0; k < p->op->n_inplace[TN_PASS_BACKWARD]; ++k) {
    const tn_inplace *pair = &p->op->inplace[TN_PASS_BACKWARD][k];
    if (pair->out != i) continue;
    const tn_need operand = {.what = pair->in < n_out ? TN_NEED_GRAD_OUT
                                     : pair->in < n_out + n_in ? TN_NEED_IN
                                                               : TN_NEED_OUT,
                             .index = pair->in < n_out ? pair->in
                                      : pair->in < n_out + n_in
                                          ? pair->in - n_out
                                          : pair->in - n_out - n_in};
    tn__buf_add(p->out, first ? "; may take the memory of " : " or ");
    add_need(p->out, op, &operand);
    first = false;
  }
}

static void write_input_gradient(const page *p, uint32_t i) {
  const tn_op *op = p->op->op;
  const tn_input_gradient *g = op->gradient->inputs[i];
  tn__buf_add(p->out, "grad.%s", op->inputs[i]->name);
  if (g->stop)
    tn__buf_add(p->out, " is never asked for");
  else if (g->formula != NULL)
    tn__buf_add(p->out, " = %s", g->formula);
  for (uint32_t k = 0; !g->stop && g->formula == NULL && k < g->n_needs; ++k) {
    tn__buf_add(p->out, k > 0 ? ", " : " by a kernel from ");
    add_need(p->out, op, &g->needs[k]);
  }
  write_gradient_memory(p, i);
  tn__buf_add(p->out, "\n");
}

/* Writes the inputs of each group in which outputs are linear. */
static void write_linear(const page *p) {
  enum { MOST_GROUPS = 32 };
  const tn_op *op = p->op->op;
  bool any = false;
  for (uint32_t g = 0; g < MOST_GROUPS; ++g) {
    const char *before = any ? ", and in " : "Linear in ";
    for (uint32_t i = 0; i < op->gradient->n_inputs; ++i) {
      if ((op->gradient->inputs[i]->linear >> g & 1) == 0) continue;
      tn__buf_add(p->out, "%s`%s`", before, op->inputs[i]->name);
      before = " with ";
      any = true;
    }
  }
  if (any) tn__buf_add(p->out, ": gradients have gradients of any order.\n\n");
}

/* 2: some gradient reads the value, 1: dtype and shape, 0: nothing. */
static int need_of(const tn_op *op, uint32_t what, uint32_t index) {
  int most = 0;
  for (uint32_t i = 0; i < op->gradient->n_inputs; ++i) {
    const tn_input_gradient *g = op->gradient->inputs[i];
    for (uint32_t k = 0; k < g->n_needs; ++k) {
      const int how = g->needs[k].metadata ? 1 : 2;
      if (g->needs[k].what == what && g->needs[k].index == index && how > most)
        most = how;
    }
  }
  return most;
}

static void add_kept_operand(tn__buf *out, int how, const char *name,
                             bool *any) {
  if (how == 0) return;
  tn__buf_add(out, *any ? ", " : " ");
  tn__buf_add(out, how == 1 ? "the shape of `%s`" : "`%s`", name);
  *any = true;
}

static void write_needs(const page *p) {
  const tn_op *op = p->op->op;
  bool any = false;
  tn__buf_add(p->out, "Kept for it:");
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    add_kept_operand(p->out, need_of(op, TN_NEED_IN, i), op->inputs[i]->name,
                     &any);
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    add_kept_operand(p->out, need_of(op, TN_NEED_OUT, i), op->outputs[i]->name,
                     &any);
  tn__buf_add(p->out, any ? ".\n\n" : " nothing.\n\n");
}

static void write_gradient(const page *p) {
  const tn_gradient *g = p->op->op->gradient;
  write_heading(p, 1, "Gradient");
  if (g == NULL || g->kind == TN_GRADIENT_NONE) {
    tn__buf_add(p->out, "None");
    if (g != NULL && g->why != NULL) {
      tn__buf_add(p->out, ": ");
      docs_plain(p->out, g->why);
    }
    tn__buf_add(p->out, ".\n\n");
    return;
  }
  tn__buf_add(p->out, "```\n");
  for (uint32_t i = 0; i < g->n_inputs; ++i) write_input_gradient(p, i);
  tn__buf_add(p->out, "```\n\n");
  write_needs(p);
  write_linear(p);
}

/* ----------------------------------------------------------------- examples */

/* Width of the longest label of an example, so that values are aligned. */
static int label_width(const tnm_example *e) {
  size_t width = 0;
  for (size_t i = 0; i < e->n_params; ++i)
    if (strlen(e->params[i].key) > width) width = strlen(e->params[i].key);
  for (size_t i = 0; i < e->n_items; ++i)
    if (strlen(e->items[i].name) > width) width = strlen(e->items[i].name);
  for (size_t i = 0; i < e->n_grads; ++i)
    if (strlen(e->grads[i].name) + 5 > width)
      width = strlen(e->grads[i].name) + 5;
  return (int)width;
}

static bool is_output(const tn_op *op, const char *name) {
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (strcmp(op->outputs[i]->name, name) == 0) return true;
  return false;
}

static void write_items(const page *p, const tnm_example_item *items, size_t n,
                        const char *prefix, int width) {
  for (size_t i = 0; i < n; ++i) {
    tn__buf_add(p->out, "%s%-*s = ", prefix, width - (int)strlen(prefix),
                items[i].name);
    trial_print_data(p->out, &items[i].data);
    tn__buf_add(p->out, "\n");
  }
}

/* Writes the inputs of a call: parameters, inputs, states, and gradients of
 * outputs. */
static void write_arguments(const page *p, const tnm_example *e, int width) {
  for (size_t i = 0; i < e->n_params; ++i)
    tn__buf_add(p->out, "%-*s = %s\n", width, e->params[i].key,
                e->params[i].as.s != NULL ? e->params[i].as.s : "None");
  for (size_t i = 0; i < e->n_items; ++i)
    if (!is_output(p->op->op, e->items[i].name))
      write_items(p, &e->items[i], 1, "", width);
  for (size_t i = 0; i < e->n_grads; ++i)
    if (is_output(p->op->op, e->grads[i].name))
      write_items(p, &e->grads[i], 1, "grad.", width);
}

static void write_stated(const page *p, const tnm_example *e, int width) {
  for (size_t i = 0; i < e->n_items; ++i)
    if (is_output(p->op->op, e->items[i].name))
      write_items(p, &e->items[i], 1, "", width);
  for (size_t i = 0; i < e->n_grads; ++i)
    if (!is_output(p->op->op, e->grads[i].name))
      write_items(p, &e->grads[i], 1, "grad.", width);
}

static void write_computed(const page *p, const trial *t, int width) {
  for (const trial_value *v = t->values; v != NULL; v = v->next) {
    const char *prefix = v->grad ? "grad." : "";
    tn__buf_add(p->out, "%s%-*s = ", prefix, width - (int)strlen(prefix),
                v->name);
    trial_print(p->out, v);
    tn__buf_add(p->out, "\n");
  }
}

static void write_example(const page *p, size_t index) {
  const tnm_example *e = &p->op->examples[index];
  const trial *t = p->trials != NULL ? &p->trials[index] : NULL;
  const bool computed = t != NULL && t->error == NULL;
  const int width = label_width(e);
  write_heading(p, 2, e->name);
  if (e->training) tn__buf_add(p->out, "In training:\n\n");
  tn__buf_add(p->out, "```\n");
  write_arguments(p, e, width);
  tn__buf_add(p->out, "```\n\n%s\n\n```\n",
              computed ? "gives, computed:" : "gives, as the manifest states:");
  if (computed)
    write_computed(p, t, width);
  else
    write_stated(p, e, width);
  tn__buf_add(p->out, "```\n\n");
  if (t == NULL || t->error == NULL) return;
  tn__buf_add(p->out, "It could not be computed: ");
  docs_plain(p->out, t->error);
  tn__buf_add(p->out, "\n\n");
}

/* Names the built plugin that computed the examples. */
static void write_computer(const page *p) {
  const size_t n = p->op->n_examples;
  size_t computed = 0;
  for (size_t i = 0; i < n; ++i) computed += p->trials[i].error == NULL;
  if (computed == 0) return;
  tn__buf_add(p->out, "%s with `%s`.\n\n",
              computed == n ? "Computed" : "The others were computed",
              p->docs->built);
}

static void write_examples(const page *p) {
  if (p->op->n_examples == 0) return;
  write_heading(p, 1, "Examples");
  for (size_t i = 0; i < p->op->n_examples; ++i) write_example(p, i);
  if (p->trials != NULL) write_computer(p);
}

static bool has_kernels(const tnm_operator *op) {
  return op->n_kernels > 0 || op->generated != NULL ||
         op->generated_backward != NULL || op->binding != NULL;
}

void docs_page(tn__buf *out, const docs *d, size_t index, int level) {
  const page p = {.out = out,
                  .docs = d,
                  .op = &d->plugin->operators[index],
                  .trials = d->trials != NULL ? d->trials->v[index] : NULL,
                  .level = level};
  write_head(&p);
  write_formulas(&p);
  write_tables(&p);
  write_requirements(&p);
  write_gradient(&p);
  write_examples(&p);
  if (!has_kernels(p.op)) return;
  write_heading(&p, 1, "Kernels");
  docs_kernels(out, p.op);
}
