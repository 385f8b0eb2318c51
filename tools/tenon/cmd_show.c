/* SPDX-License-Identifier: Apache-2.0
 * cmd_show.c: `tenon show`: one operator, as its plugin declares it, and the
 * kernels that all loaded plugins have for it.
 */
#include <inttypes.h>
#include <string.h>

#include "tenon_tool.h"

/* ----------------------------------------------------------------- sections */

/* Markdown, indented. */
static void add_doc(const char *doc, text *out) {
  if (!doc || !*doc) return;
  text_add(out, "\n");
  while (*doc) {
    size_t n = strcspn(doc, "\n");
    if (n) text_add(out, "  %.*s", (int)n, doc);
    text_add(out, "\n");
    doc += n + (doc[n] == '\n');
  }
}

static void add_head(const tn_operator *op, const tn_op *desc, text *out) {
  text_add(out, "%s", tn_operator_name(op));
  describe_signature(desc, out);
  text_make_line(out, 0);
  text_add(out, "\n");
  const size_t summary = out->n;
  text_add(out, "%s", desc->summary ? desc->summary : "");
  text_make_line(out, summary);
  text_add(out, "\n");
  if (desc->deprecated_since)
    text_add(out, "deprecated since release %" PRIu32 "%s%s\n",
             desc->deprecated_since, desc->use ? "; use " : "",
             desc->use ? desc->use : "");
  add_doc(desc->doc, out);
}

static void add_param(const tn_op *desc, const tn_field *field, table *rows) {
  text range = {0};
  text notes = {0};
  describe_field_range(desc, field, &range);
  describe_field_notes(field, &notes);
  table_add(rows, "%s", field->name);
  table_add(rows, "%s", describe_field_type(field));
  if (field->default_text)
    table_add(rows, "default %s", field->default_text);
  else
    table_add(rows, "required");
  table_add(rows, "%s", text_get(&range));
  table_add(rows, "%s%s", field->doc ? field->doc : "", text_get(&notes));
  text_deinit(&range);
  text_deinit(&notes);
}

static void add_params(const tn_op *desc, text *out) {
  table rows = {.n_columns = 5};
  if (!desc->n_params) return;
  text_add(out, "\nparameters\n");
  for (uint32_t i = 0; i < desc->n_params; ++i)
    add_param(desc, desc->params[i], &rows);
  table_print(&rows, "  ", out);
}

/* Further properties of an operand, in the order of importance. */
static void add_arg_notes(const tn_op *desc, const tn_arg *arg, text *out) {
  static const struct {
    uint32_t flag;
    const char *note;
  } notes[] = {{TN_ARG_OPTIONAL, "optional"},
               {TN_ARG_VARIADIC, "any number"},
               {TN_ARG_HIDDEN, "hidden"},
               {TN_ARG_CONTIGUOUS, "contiguous"},
               {TN_ARG_DYNAMIC, "shape decided while computing"},
               {TN_ARG_TRAINED, "changes in training only"},
               {TN_ARG_VIEW, "the elements of an input"}};
  const char *separator = "";
  for (size_t i = 0; i < sizeof notes / sizeof notes[0]; ++i) {
    if (!(arg->flags & notes[i].flag)) continue;
    text_add(out, "%s%s", separator, notes[i].note);
    separator = ", ";
  }
  if (describe_is_counted(desc, arg)) {
    text_add(out, "%s", separator);
    describe_count(desc, arg, out);
  }
}

typedef struct arg_list {
  const char *title;
  const tn_arg *const *args;
  uint32_t n;
} arg_list;

static void add_args(const tn_op *desc, arg_list list, text *out) {
  table rows = {.n_columns = 5};
  if (!list.n) return;
  text_add(out, "\n%s\n", list.title);
  for (uint32_t i = 0; i < list.n; ++i) {
    const tn_arg *arg = list.args[i];
    text shape = {0};
    text notes = {0};
    describe_shape(desc, arg, &shape);
    add_arg_notes(desc, arg, &notes);
    table_add(&rows, "%s", arg->name);
    table_add(&rows, "%s", describe_dtype(desc, arg));
    table_add(&rows, "%s", text_get(&shape));
    table_add(&rows, "%s", text_get(&notes));
    table_add(&rows, "%s", arg->doc ? arg->doc : "");
    text_deinit(&shape);
    text_deinit(&notes);
  }
  table_print(&rows, "  ", out);
}

static void add_types(const tn_op *desc, text *out) {
  table rows = {.n_columns = 2};
  if (!desc->n_dtype_vars) return;
  text_add(out, "\ntypes\n");
  for (uint32_t i = 0; i < desc->n_dtype_vars; ++i) {
    text names = {0};
    dtype_set_add(&names, desc->dtype_vars[i]->allowed);
    table_add(&rows, "%s", desc->dtype_vars[i]->name);
    table_add(&rows, "%s", text_get(&names));
    text_deinit(&names);
  }
  table_print(&rows, "  ", out);
}

static void add_requirements(const tn_op *desc, text *out) {
  table rows = {.n_columns = 2};
  if (!desc->n_requires) return;
  text_add(out, "\nconditions\n");
  for (uint32_t i = 0; i < desc->n_requires; ++i) {
    table_add(&rows, "%s", desc->requirements[i]->that);
    table_add(&rows, "%s", desc->requirements[i]->say);
  }
  table_print(&rows, "  ", out);
}

/* ----------------------------------------------------------------- gradient */

/* Operands that must stay alive until the gradient is computed. Output
 * gradients are created for each call and are not kept. */
static void add_keeps(const tn_op *desc, const tn_input_gradient *g,
                      text *out) {
  const char *separator = "keeps ";
  for (uint32_t i = 0; i < g->n_needs; ++i) {
    const tn_need *need = &g->needs[i];
    if (need->what == TN_NEED_GRAD_OUT) continue;
    const tn_arg *const *list =
        need->what == TN_NEED_IN ? desc->inputs : desc->outputs;
    text_add(out, need->metadata ? "%sshape(%s)" : "%s%s", separator,
             list[need->index]->name);
    separator = ", ";
  }
  if (*separator == 'k') text_add(out, "keeps nothing");
}

static void add_input_gradient(const tn_op *desc, uint32_t i, table *rows) {
  const tn_input_gradient *g = desc->gradient->inputs[i];
  const char *name = desc->inputs[i]->name;
  text keeps = {0};
  if (!g->stop) add_keeps(desc, g, &keeps);
  if (g->stop)
    table_add(rows, "grad.%s is never asked for", name);
  else if (g->formula)
    table_add(rows, "grad.%s = %s", name, g->formula);
  else
    table_add(rows, "grad.%s by a backward kernel", name);
  table_add(rows, "%s", text_get(&keeps));
  text_deinit(&keeps);
}

static void add_gradient(const tn_op *desc, text *out) {
  const tn_gradient *gradient = desc->gradient;
  table rows = {.n_columns = 2};
  text_add(out, "\ngradient\n");
  if (!gradient || gradient->kind == TN_GRADIENT_NONE) {
    const char *why = gradient ? gradient->why : NULL;
    text_add(out, "  none%s%s\n", why ? ": " : "", why ? why : "");
    return;
  }
  for (uint32_t i = 0; i < gradient->n_inputs && i < desc->n_inputs; ++i)
    add_input_gradient(desc, i, &rows);
  table_print(&rows, "  ", out);
}

/* ------------------------------------------------------------------ kernels */

static void add_kernel(const tn_plugin *plugin, const tn_kernel *kernel,
                       table *rows) {
  text dtypes = {0};
  describe_kernel_dtypes(kernel, &dtypes);
  table_add(rows, "%s",
            kernel->pass == TN_PASS_BACKWARD ? "backward" : "forward");
  table_add(rows, "%s", device_name(kernel->device_type));
  table_add(rows, "%s", kernel->id);
  table_add(rows, "%s", text_get(&dtypes));
  table_add(rows, "priority %" PRId32, kernel->priority);
  table_add(rows, "plugin %s", plugin->name);
  table_add(rows, "%s%s%s%s%s", kernel->when_text ? "when " : "",
            kernel->when_text ? kernel->when_text : "",
            kernel->when_text && kernel->requirement ? ", " : "",
            kernel->requirement ? "needs " : "",
            kernel->requirement ? kernel->requirement : "");
  text_deinit(&dtypes);
}

static void add_kernels(tn_runtime *rt, const char *name, text *out) {
  table rows = {.n_columns = 7};
  tn_plugin_info info;
  for (size_t i = 0; !tn_plugin_at(rt, i, &info); ++i)
    for (uint32_t k = 0; k < info.plugin->n_kernels; ++k)
      if (!strcmp(info.plugin->kernels[k]->op, name))
        add_kernel(info.plugin, info.plugin->kernels[k], &rows);
  text_add(out, "\nkernels\n%s", rows.n_cells ? "" : "  none is loaded\n");
  table_print(&rows, "  ", out);
}

/* Both passes of a kernel have its id, and its options. */
static bool is_first_pass(const tn_plugin *plugin, uint32_t k) {
  for (uint32_t i = 0; i < k; ++i)
    if (!strcmp(plugin->kernels[i]->id, plugin->kernels[k]->id)) return false;
  return true;
}

static void add_options(const tn_kernel *kernel, text *out) {
  const tn_op owner = {.struct_size = sizeof owner,
                       .params = kernel->options,
                       .n_params = kernel->n_options};
  table rows = {.n_columns = 5};
  if (kernel->n_options == 0) return;
  text_add(out, "\noptions of %s\n", kernel->id);
  for (uint32_t i = 0; i < kernel->n_options; ++i)
    add_param(&owner, kernel->options[i], &rows);
  table_print(&rows, "  ", out);
}

static void add_all_options(tn_runtime *rt, const char *name, text *out) {
  tn_plugin_info info;
  for (size_t i = 0; !tn_plugin_at(rt, i, &info); ++i)
    for (uint32_t k = 0; k < info.plugin->n_kernels; ++k)
      if (!strcmp(info.plugin->kernels[k]->op, name) &&
          is_first_pass(info.plugin, k))
        add_options(info.plugin->kernels[k], out);
}

/* ----------------------------------------------------------------- command */

static void print_operator(tn_runtime *rt, const tn_operator *op, text *out) {
  const tn_op *desc = tn_operator_desc(op);
  add_head(op, desc, out);
  add_params(desc, out);
  add_args(desc, (arg_list){"inputs", desc->inputs, desc->n_inputs}, out);
  add_args(desc, (arg_list){"outputs", desc->outputs, desc->n_outputs}, out);
  add_args(desc, (arg_list){"state", desc->aux, desc->n_aux}, out);
  add_types(desc, out);
  add_requirements(desc, out);
  add_gradient(desc, out);
  add_kernels(rt, tn_operator_name(op), out);
  add_all_options(rt, tn_operator_name(op), out);
}

static tn_code print_why(tn_operator *op, bool json, text *out) {
  tn_text *reasons = NULL;
  tn_code code = tn_operator_explain(op, NULL, NULL, &reasons);
  if (code) return code;
  if (json) {
    text_add(out, ", \"why\": ");
    text_add_json(out, tn_text_get(reasons));
  } else {
    text_add(out, "\nwhy\n%s", tn_text_get(reasons));
  }
  tn_text_release(reasons);
  return TN_OK;
}

static tn_code print_json(tn_operator *op, bool reasons, text *out) {
  tn_text *tables = NULL;
  tn_code code = tn_operator_json(op, &tables);
  if (code) return code;
  text_add(out, "{\"operator\": %s", tn_text_get(tables));
  tn_text_release(tables);
  if (reasons) code = print_why(op, true, out);
  text_add(out, "}\n");
  return code;
}

static tn_code show_operator(tn_runtime *rt, tn_operator *op,
                             const arguments *args, text *out) {
  const bool reasons = args->given & OPTION_WHY;
  if (args->given & OPTION_JSON) return print_json(op, reasons, out);
  print_operator(rt, op, out);
  return reasons ? print_why(op, false, out) : TN_OK;
}

int cmd_show(const arguments *args, text *out, text *why) {
  host h;
  tn_operator *op = NULL;
  if (args->n_words != 1) {
    report_failure(why,
                   "show wants one operator, such as `tenon show "
                   "elemwise.quadratic`; `tenon list operators` names them");
    return STATUS_USAGE;
  }
  if (!host_open(&h, args, 1, why)) return STATUS_FAILED;
  bool ok =
      host_load(&h, args, why) && operator_find(h.rt, args->words[0], &op, why);
  if (ok && show_operator(h.rt, op, args, out)) ok = fail_library(why);
  host_close(&h);
  return ok ? STATUS_OK : STATUS_FAILED;
}
