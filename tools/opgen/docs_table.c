/* SPDX-License-Identifier: Apache-2.0
 * docs_table.c: writes the tables on the page of an operator.
 */
#include <inttypes.h>
#include <string.h>

#include "binding.h"
#include "docs.h"
#include "emit.h"

void docs_plain(tn__buf *out, const char *text) {
  for (; *text != '\0'; ++text) {
    if (strchr("\\`*_[]<>|", *text) != NULL) tn__buf_add(out, "\\");
    tn__buf_bytes(out, *text == '\n' ? " " : text, 1);
  }
}

/* Number of backticks at the begin of the text. */
static size_t count_backticks(const char *text, size_t n) {
  size_t marks = 0;
  while (marks < n && text[marks] == '`') ++marks;
  return marks;
}

/* Length of the code that begins with `marks` backticks, including those at its
 * end. If as many do not follow, they are text: their number. */
static size_t code_length(const char *text, size_t n, size_t marks) {
  for (size_t i = marks; i < n;) {
    const size_t found = count_backticks(text + i, n - i);
    if (found == marks) return i + found;
    i += found > 0 ? found : 1;
  }
  return marks;
}

void docs_line(tn__buf *out, const char *line, size_t n) {
  for (size_t i = 0; i < n;) {
    const size_t marks = count_backticks(line + i, n - i);
    const size_t length = marks > 0 ? code_length(line + i, n - i, marks) : 1;
    if (line[i] == '<')
      tn__buf_add(out, "&lt;");
    else
      tn__buf_bytes(out, line + i, length);
    i += length;
  }
}

/* Adds the text of code to a cell. */
static void add_cell(tn__buf *out, const char *text) {
  for (; text != NULL && *text != '\0'; ++text) {
    if (*text == '|') tn__buf_add(out, "\\");
    tn__buf_bytes(out, *text == '\n' ? " " : text, 1);
  }
}

static void add_code(tn__buf *out, const char *text) {
  tn__buf_add(out, "`");
  add_cell(out, text);
  tn__buf_add(out, "`");
}

static void add_life(tn__buf *out, const tn_op *op, uint32_t since,
                     uint32_t deprecated, const char *use) {
  if (since > op->since) tn__buf_add(out, " Since release %u.", since);
  if (deprecated == 0) return;
  tn__buf_add(out, " **Deprecated** since release %u", deprecated);
  if (use != NULL) tn__buf_add(out, ": use ");
  if (use != NULL) docs_plain(out, use);
  tn__buf_add(out, ".");
}

/* Adds the meaning as a sentence: authors omit the full stop. */
static void add_doc(tn__buf *out, const char *doc) {
  const size_t n = doc != NULL ? strlen(doc) : 0;
  if (n == 0) return;
  tn__buf line;
  tn__buf_init(&line, tn__env_default());
  docs_line(&line, doc, n);
  add_cell(out, line.s);
  out->failed |= line.failed;
  tn__buf_deinit(&line);
  if (strchr(".!?:\n", doc[n - 1]) == NULL) tn__buf_add(out, ".");
}

/* --------------------------------------------------------------- parameters */

static void add_type(tn__buf *out, const tn_field *f) {
  static const char *const names[] = {
      "?", "bool", "int", "float", "string", "enum", "ints", "floats", "dtype"};
  tn__buf_add(out, "%s", f->type < 9 ? names[f->type] : "?");
  if ((f->flags & TN_FIELD_OPTIONAL) != 0) tn__buf_add(out, " or None");
}

static void add_bound(tn__buf *out, const tn_field *f, bool max) {
  const bool real = f->type == TN_FIELD_FLOAT || f->type == TN_FIELD_FLOATS;
  if (real)
    tn__buf_double(out, max ? f->max_float : f->min_float);
  else
    tn__buf_add(out, "%" PRId64, max ? f->max_int : f->min_int);
}

/* Adds one bound with the word before it. */
static void add_side(tn__buf *out, const tn_field *f, bool max) {
  const bool open = (f->flags & (max ? TN_FIELD_BELOW : TN_FIELD_ABOVE)) != 0;
  if (open)
    tn__buf_add(out, max ? "below " : "above ");
  else
    tn__buf_add(out, max ? "at most " : "at least ");
  add_bound(out, f, max);
}

static void add_limits(tn__buf *out, const tn_field *f) {
  const bool min = (f->flags & TN_FIELD_HAS_MIN) != 0;
  const bool max = (f->flags & TN_FIELD_HAS_MAX) != 0;
  const bool open = (f->flags & (TN_FIELD_ABOVE | TN_FIELD_BELOW)) != 0;
  if (min && max && !open) {
    add_bound(out, f, false);
    tn__buf_add(out, " to ");
    add_bound(out, f, true);
  } else {
    if (min) add_side(out, f, false);
    if (min && max) tn__buf_add(out, ", ");
    if (max) add_side(out, f, true);
  }
  if ((f->flags & TN_FIELD_NONZERO) != 0)
    tn__buf_add(out, "%snot 0", min || max ? ", " : "");
}

static void add_rank(tn__buf *out, const tn_op *op, const tn_field *f,
                     bool more) {
  if (f->type != TN_FIELD_INTS && f->type != TN_FIELD_FLOATS) return;
  const char *separator = more ? "; " : "";
  if (f->rank_of != TN_NONE)
    tn__buf_add(out, "%sas many as `%s`", separator,
                op->params[f->rank_of]->name);
  else if (f->max_rank == TN_NONE && f->min_rank > 0)
    tn__buf_add(out, "%s%u or more numbers", separator, f->min_rank);
  else if (f->max_rank != TN_NONE && f->min_rank == f->max_rank)
    tn__buf_add(out, "%s%u numbers", separator, f->min_rank);
  else if (f->max_rank != TN_NONE)
    tn__buf_add(out, "%s%u to %u numbers", separator, f->min_rank, f->max_rank);
}

static void add_range(tn__buf *out, const tn_op *op, const tn_field *f) {
  const size_t before = out->n;
  for (uint32_t i = 0; i < f->n_values; ++i) {
    tn__buf_add(out, i > 0 ? ", " : "");
    add_code(out, f->values[i]);
  }
  add_limits(out, f);
  add_rank(out, op, f, out->n > before);
}

static void add_param(tn__buf *out, const tn_op *op, const tn_field *f) {
  tn__buf_add(out, "| `%s` | ", f->name);
  add_type(out, f);
  tn__buf_add(out, " | ");
  if ((f->flags & TN_FIELD_REQUIRED) != 0)
    tn__buf_add(out, "required");
  else if (f->default_text != NULL && *f->default_text != '\0')
    add_code(out, f->default_text);
  else
    tn__buf_add(out, "empty");
  tn__buf_add(out, " | ");
  add_range(out, op, f);
  tn__buf_add(out, " | ");
  add_doc(out, f->doc);
  if (f->alias != NULL) tn__buf_add(out, " Also `%s`.", f->alias);
  if ((f->flags & TN_FIELD_DYNAMIC) != 0)
    tn__buf_add(out, " May change between calls.");
  add_life(out, op, f->since, f->deprecated_since, f->use);
  tn__buf_add(out, " |\n");
}

void docs_params(tn__buf *out, const tn_op *op) {
  tn__buf_add(out,
              "| name | type | default | range | meaning |\n"
              "|---|---|---|---|---|\n");
  for (uint32_t i = 0; i < op->n_params; ++i) add_param(out, op, op->params[i]);
  tn__buf_add(out, "\n");
}

/* ----------------------------------------------------------------- operands */

static void add_dtype(tn__buf *out, const tn_op *op, const tn_arg *arg) {
  if (arg->dtype_param != TN_NONE)
    tn__buf_add(out, "as `%s`", op->params[arg->dtype_param]->name);
  else if (arg->dtype_var != TN_NONE)
    tn__buf_add(out, "`%s`", op->dtype_vars[arg->dtype_var]->name);
  else
    tn__buf_add(out, "%s", tn__dtype_name(arg->dtype));
}

static void add_shape(tn__buf *out, const tn_arg *arg) {
  const bool is_function =
      arg->shape_kind == TN_SHAPE_HOOK &&
      (arg->shape_text == NULL || strncmp(arg->shape_text, "{c:", 3) == 0);
  if (arg->shape_text != NULL && !is_function)
    add_code(out, arg->shape_text);
  else
    tn__buf_add(out, (arg->flags & TN_ARG_DYNAMIC) != 0 ? "decided by the call"
                     : arg->shape_kind == TN_SHAPE_HOOK
                         ? "decided by the operator"
                     : arg->shape_kind == TN_SHAPE_BROADCAST ? "broadcast"
                                                             : "any");
}

static const char *role_of(const tn_arg *arg) {
  return arg->role == TN_ROLE_WEIGHT  ? " A weight."
         : arg->role == TN_ROLE_LABEL ? " A label."
         : arg->role == TN_ROLE_LOSS  ? " A loss."
                                      : "";
}

static void add_count(tn__buf *out, const tn_op *op, const tn_node *node) {
  if (node->op == TN_NODE_PARAM)
    tn__buf_add(out, " As many as `%s` says.", op->params[node->a]->name);
  else
    tn__buf_add(out, " As many as parameters and inputs say.");
}

/* Adds the inputs with memory that output number `i` may take. */
static void add_memory(tn__buf *out, const tnm_operator *from, uint32_t i) {
  const tn_op *op = from->op;
  const tn_arg *arg = op->outputs[i];
  const uint32_t n = from->n_inplace[TN_PASS_FORWARD];
  bool first = true;
  if ((arg->flags & TN_ARG_VIEW) != 0 && arg->inplace < op->n_inputs) {
    tn__buf_add(out, " Has the elements of `%s`, and may take its memory.",
                op->inputs[arg->inplace]->name);
    return;
  }
  for (uint32_t k = 0; k < n; ++k) {
    const tn_inplace *pair = &from->inplace[TN_PASS_FORWARD][k];
    if (pair->out != i) continue;
    tn__buf_add(out, first ? " May take the memory of `%s`" : " or `%s`",
                op->inputs[pair->in]->name);
    first = false;
  }
  if (!first) tn__buf_add(out, ".");
}

static void add_traits(tn__buf *out, const tnm_operator *from,
                       const tn_arg *arg, uint32_t list) {
  const tn_op *op = from->op;
  if (list != TN_OPERAND_AUX) tn__buf_add(out, "%s", role_of(arg));
  if ((arg->flags & TN_ARG_OPTIONAL) != 0)
    tn__buf_add(out, " May be left out.");
  if ((arg->flags & TN_ARG_VARIADIC) != 0) tn__buf_add(out, " Any number.");
  if (list == TN_OPERAND_OUT && arg->count < op->n_nodes)
    add_count(out, op, &op->nodes[arg->count]);
  if ((arg->flags & TN_ARG_HIDDEN) != 0)
    tn__buf_add(out, " Hidden: kept for the gradient.");
  if ((arg->flags & TN_ARG_TRAINED) != 0)
    tn__buf_add(out, " Changes in training only.");
  for (uint32_t i = 0; list == TN_OPERAND_OUT && i < op->n_outputs; ++i)
    if (op->outputs[i] == arg) add_memory(out, from, i);
  if (list == TN_OPERAND_OUT && arg->init < op->n_inputs)
    tn__buf_add(out, " Begins as a copy of `%s`.", op->inputs[arg->init]->name);
  if (arg->initial != NULL) {
    tn__buf_add(out, " Begins as ");
    add_code(out, arg->initial);
    tn__buf_add(out, ".");
  }
}

void docs_operands(tn__buf *out, const tnm_operator *from, uint32_t list) {
  const tn_op *op = from->op;
  const tn_arg *const *args = list == TN_OPERAND_IN    ? op->inputs
                              : list == TN_OPERAND_OUT ? op->outputs
                                                       : op->aux;
  const uint32_t n = list == TN_OPERAND_IN    ? op->n_inputs
                     : list == TN_OPERAND_OUT ? op->n_outputs
                                              : op->n_aux;
  tn__buf_add(out,
              "| name | type | shape | meaning |\n"
              "|---|---|---|---|\n");
  for (uint32_t i = 0; i < n; ++i) {
    tn__buf_add(out, "| `%s` | ", args[i]->name);
    add_dtype(out, op, args[i]);
    tn__buf_add(out, " | ");
    add_shape(out, args[i]);
    tn__buf_add(out, " | ");
    add_doc(out, args[i]->doc);
    add_traits(out, from, args[i], list);
    add_life(out, op, args[i]->since, args[i]->deprecated_since, args[i]->use);
    tn__buf_add(out, " |\n");
  }
  tn__buf_add(out, "\n");
}

void docs_dtypes(tn__buf *out, const tnm_operator *from) {
  const tn_op *op = from->op;
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    tn__buf_add(out, "%s`%s` is one of ", i > 0 ? "; " : "",
                op->dtype_vars[i]->name);
    tn__buf_dtypes(out, op->dtype_vars[i]->allowed);
    if (from->compute != NULL && from->compute[i] != TN_DTYPE_UNKNOWN)
      tn__buf_add(out, ", computed in %s", tn__dtype_name(from->compute[i]));
  }
  if (op->n_dtype_vars > 0) tn__buf_add(out, ".\n\n");
}

/* ------------------------------------------------------------------ kernels */

static uint64_t dtypes_of(const tn_kernel *kernel, const tn_op *op) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    const uint64_t own = i < kernel->n_dtype_sets ? kernel->dtype_sets[i] : 0;
    set |= own != 0 ? own : op->dtype_vars[i]->allowed;
  }
  return set;
}

/* Adds the properties after the name of a kernel. */
static void add_facts(tn__buf *out, const tn_kernel *k, const tn_op *op,
                      bool cuda) {
  tn__buf_add(out, "` | %s | %s | ",
              k->pass == TN_PASS_BACKWARD ? "gradient" : "forward",
              cuda ? "cuda" : "cpu");
  tn__buf_dtypes(out, dtypes_of(k, op));
  tn__buf_add(out, " | ");
  if ((k->writes & TN_WRITES_WRITE) != 0) tn__buf_add(out, "write ");
  if ((k->writes & TN_WRITES_ADD) != 0) tn__buf_add(out, "add ");
  if ((k->writes & TN_WRITES_INPLACE) != 0) tn__buf_add(out, "inplace ");
  tn__buf_add(out, "| ");
  if (k->when_text != NULL) add_code(out, k->when_text);
  if (k->requirement != NULL) {
    tn__buf_add(out, " with ");
    docs_plain(out, k->requirement);
  }
  tn__buf_add(out, " |\n");
}

static void add_kernel(tn__buf *out, const tn_kernel *k, const tn_op *op) {
  if (k == NULL) return;
  tn__buf_add(out, "| `%s", k->id);
  add_facts(out, k, op, k->device_type == TN_DEVICE_CUDA);
}

/* Adds generated kernels, including the companion's, which are the same. */
static void add_generated(tn__buf *out, const tn_kernel *k,
                          const tnm_operator *op) {
  if (k == NULL) return;
  add_kernel(out, k, op->op);
  tn__buf_add(out, "| `");
  write_cuda_id(out, op, k->id);
  add_facts(out, k, op->op, true);
}

void docs_kernels(tn__buf *out, const tnm_operator *op) {
  const tn_op *desc = op->op != NULL ? op->op : op->target_op;
  tn__buf_add(out,
              "| kernel | computes | device | types | writes | when |\n"
              "|---|---|---|---|---|---|\n");
  if (op->binding != NULL) add_kernel(out, op->binding->kernel, desc);
  for (size_t i = 0; i < op->n_kernels; ++i) {
    add_kernel(out, op->kernels[i].forward, desc);
    add_kernel(out, op->kernels[i].backward, desc);
  }
  add_generated(out, op->generated, op);
  add_generated(out, op->generated_backward, op);
  tn__buf_add(out, "\n");
}

void docs_added_kernels(tn__buf *out, const docs *d) {
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    const tnm_operator *op = &d->plugin->operators[i];
    if (op->target == NULL) continue;
    tn__buf_add(out, "## Kernels for ");
    docs_plain(out, op->target->op);
    tn__buf_add(out, "\n\n");
    docs_kernels(out, op);
  }
}
