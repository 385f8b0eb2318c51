/* SPDX-License-Identifier: Apache-2.0
 * cmd_show.c: `opgen show`: prints the formulas of an operator, the operands
 * that its gradient keeps alive, its ways of writing and its kernels; or the
 * generated C.
 */
#include <inttypes.h>
#include <string.h>

#include "binding.h"
#include "opgen.h"

enum { SECOND_COLUMN = 40 };

/* ------------------------------------------------------ formulas and shapes */

/* Width of the longest name before `=`. */
static int name_width(const tn_op *op) {
  size_t width = 0;
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    const size_t n = strlen(op->outputs[i]->name);
    if (n > width) width = n;
  }
  const bool has = op->gradient != NULL && op->gradient->n_inputs > 0;
  for (uint32_t i = 0; has && i < op->n_inputs; ++i) {
    const size_t n = strlen("grad.") + strlen(op->inputs[i]->name);
    if (n > width) width = n;
  }
  return (int)width;
}

/* Prints the formula of each output, or its shape where a kernel computes
 * it. */
static void show_outputs(const tn_op *op, int width) {
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    const tn_arg *out = op->outputs[i];
    const char *label = out->formula != NULL ? "forward" : "shape";
    const char *text = out->formula != NULL ? out->formula : out->shape_text;
    printf("%-9s %-*s = %s\n", label, width, out->name,
           text != NULL ? text : "any");
  }
}

static void print_need(const tn_op *op, const tn_need *need) {
  const char *name = need->what == TN_NEED_IN ? op->inputs[need->index]->name
                                              : op->outputs[need->index]->name;
  const char *grad = need->what == TN_NEED_GRAD_OUT ? "grad." : "";
  printf(need->metadata ? "shape(%s%s)" : "%s%s", grad, name);
}

static void show_input_gradient(const tn_op *op, uint32_t index, int width) {
  const tn_input_gradient *gradient = op->gradient->inputs[index];
  printf("gradient  grad.%-*s ", width - (int)strlen("grad."),
         op->inputs[index]->name);
  if (gradient->stop) {
    printf("= none: never differentiated\n");
  } else if (gradient->formula != NULL) {
    printf("= %s\n", gradient->formula);
  } else {
    printf("by the kernel from ");
    for (uint32_t i = 0; i < gradient->n_needs; ++i) {
      if (i > 0) printf(", ");
      print_need(op, &gradient->needs[i]);
    }
    printf("\n");
  }
}

/* Prints the inputs of each group in which outputs are linear. */
static void show_linear(const tn_op *op) {
  enum { MOST_GROUPS = 32 };
  bool any = false;
  for (uint32_t g = 0; g < MOST_GROUPS; ++g) {
    const char *before = any ? " and in " : "linear    in ";
    for (uint32_t i = 0; i < op->gradient->n_inputs; ++i) {
      if ((op->gradient->inputs[i]->linear >> g & 1) == 0) continue;
      printf("%s%s", before, op->inputs[i]->name);
      before = ", ";
      any = true;
    }
  }
  if (any) printf("; so gradients have gradients\n");
}

static void show_gradient(const tn_op *op, int width) {
  const tn_gradient *gradient = op->gradient;
  if (gradient == NULL || gradient->kind == TN_GRADIENT_NONE) {
    const char *why = gradient != NULL ? gradient->why : NULL;
    printf("gradient  none%s%s\n", why != NULL ? ": " : "",
           why != NULL ? why : "");
    return;
  }
  for (uint32_t i = 0; i < gradient->n_inputs; ++i)
    show_input_gradient(op, i, width);
  show_linear(op);
}

/* -------------------------------------------------------- needs and kernels */

/* 2 if some gradient needs the value, 1 if only dtype and shape, 0 if none
 * does. */
static int need_of(const tn_op *op, uint32_t what, uint32_t index) {
  int most = 0;
  const tn_gradient *gradient = op->gradient;
  for (uint32_t i = 0; gradient != NULL && i < gradient->n_inputs; ++i) {
    const tn_input_gradient *input = gradient->inputs[i];
    for (uint32_t k = 0; k < input->n_needs; ++k) {
      const tn_need *need = &input->needs[k];
      const int how = need->metadata ? 1 : 2;
      if (need->what == what && need->index == index && how > most) most = how;
    }
  }
  return most;
}

static void add_need(tn__buf *out, int how, const char *name) {
  if (how == 0) return;
  if (out->n > 0) tn__buf_add(out, " ");
  tn__buf_add(out, how == 1 ? "shape(%s)" : "%s", name);
}

static void add_needs(tn__buf *out, const tn_op *op) {
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    add_need(out, need_of(op, TN_NEED_IN, i), op->inputs[i]->name);
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    add_need(out, need_of(op, TN_NEED_OUT, i), op->outputs[i]->name);
}

static uint32_t forward_writes(const tnm_operator *op) {
  uint32_t writes = op->generated != NULL ? op->generated->writes : 0;
  if (op->binding != NULL) writes |= op->binding->kernel->writes;
  for (size_t i = 0; i < op->n_kernels; ++i)
    if (op->kernels[i].forward != NULL)
      writes |= op->kernels[i].forward->writes;
  return writes;
}

static void add_inplace(tn__buf *out, const tnm_operator *op,
                        const tn_op *desc) {
  for (uint32_t i = 0; i < op->n_inplace[TN_PASS_FORWARD]; ++i) {
    const tn_inplace *pair = &op->inplace[TN_PASS_FORWARD][i];
    tn__buf_add(out, " inplace(%s -> %s)", desc->inputs[pair->in]->name,
                desc->outputs[pair->out]->name);
  }
}

static void add_writes(tn__buf *out, const tnm_operator *op,
                       const tn_op *desc) {
  const uint32_t writes = forward_writes(op);
  if ((writes & TN_WRITES_WRITE) != 0) tn__buf_add(out, " write");
  if ((writes & TN_WRITES_ADD) != 0) tn__buf_add(out, " add");
  if ((writes & TN_WRITES_INPLACE) != 0) add_inplace(out, op, desc);
}

static void show_keeps(const tnm_operator *op, const tn_op *desc) {
  tn__buf line;
  tn__buf_init(&line, tn__env_default());
  add_needs(&line, desc);
  if (line.n == 0) tn__buf_add(&line, "nothing");
  const int gap = SECOND_COLUMN - (int)strlen("keeps     ") - (int)line.n;
  tn__buf_add(&line, "%*swrites ", gap > 2 ? gap : 2, "");
  add_writes(&line, op, desc);
  printf("keeps     %s\n", line.s != NULL ? line.s : "");
  tn__buf_deinit(&line);
}

/* ------------------------------------------------------------------ kernels */

static const char *device_name(int32_t type) {
  return type == TN_DEVICE_CUDA ? "cuda" : "cpu";
}

/* The types that the kernel accepts for all type variables; those of the
 * operator if it accepts all. */
static uint64_t dtypes_of(const tn_kernel *kernel, const tn_op *op) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < op->n_dtype_vars; ++i) {
    const uint64_t own = i < kernel->n_dtype_sets ? kernel->dtype_sets[i] : 0;
    set |= own != 0 ? own : op->dtype_vars[i]->allowed;
  }
  return set;
}

static void add_dtypes(tn__buf *out, const tn_kernel *kernel, const tn_op *op) {
  const uint64_t set = dtypes_of(kernel, op);
  if (set != 0) tn__buf_add(out, ": ");
  if (set != 0) tn__buf_dtypes(out, set);
}

static void add_device(tn__buf *out, const tn_kernel *kernel, const tn_op *op) {
  tn__buf_add(out, "%s", device_name(kernel->device_type));
  add_dtypes(out, kernel, op);
}

/* Adds "   (f16, bf16 compute in f32)", and the `compute` type of each
 * variable. */
static void add_compute(tn__buf *out, const tnm_operator *op,
                        const tn_op *desc) {
  uint64_t narrow = 0;
  for (uint32_t i = 0; i < desc->n_dtype_vars; ++i) {
    const uint64_t own =
        i < op->generated->n_dtype_sets ? op->generated->dtype_sets[i] : 0;
    if (op->compute != NULL && op->compute[i] != TN_DTYPE_UNKNOWN)
      tn__buf_add(out, "   (%s computes in %s)", desc->dtype_vars[i]->name,
                  tn__dtype_name(op->compute[i]));
    else
      narrow |= own & (TN_BIT_F16 | TN_BIT_BF16);
  }
  if (narrow != 0)
    tn__buf_add(out, "   (%s compute in f32)",
                narrow == TN_BIT_F16    ? "f16"
                : narrow == TN_BIT_BF16 ? "bf16"
                                        : "f16, bf16");
}

/* The same formulas are used for the cpu and, in the companion, for CUDA
 * devices. */
static void show_generated(const tnm_operator *op, const tn_op *desc) {
  tn__buf line;
  tn__buf_init(&line, tn__env_default());
  tn__buf_add(&line, "cpu, cuda");
  add_dtypes(&line, op->generated, desc);
  add_compute(&line, op, desc);
  printf("kernels   %s\n", line.s != NULL ? line.s : "");
  tn__buf_deinit(&line);
}

static void show_written(const tnm_kernel *kernel, const tn_op *op) {
  const tn_kernel *table =
      kernel->forward != NULL ? kernel->forward : kernel->backward;
  const char *symbols[] = {kernel->forward_symbol, kernel->backward_symbol};
  tn__buf line;
  tn__buf_init(&line, tn__env_default());
  add_device(&line, table, op);
  tn__buf_add(&line, "  ");
  for (size_t i = 0; i < 2; ++i)
    if (symbols[i] != NULL) tn__buf_add(&line, " %s", symbols[i]);
  if (table->when_text != NULL)
    tn__buf_add(&line, "   when %s", table->when_text);
  printf("kernels   %s\n", line.s != NULL ? line.s : "");
  tn__buf_deinit(&line);
}

static void show_bound(const tn_kernel *kernel, const tn_op *op) {
  tn__buf line;
  tn__buf_init(&line, tn__env_default());
  add_device(&line, kernel, op);
  printf("kernels   %s   %s\n", line.s != NULL ? line.s : "",
         kernel->requirement);
  tn__buf_deinit(&line);
}

static void show_operator(const tnm_operator *op) {
  const tn_op *desc = op->op != NULL ? op->op : op->target_op;
  if (desc == NULL) return;
  if (op->op != NULL) {
    const int width = name_width(desc);
    if (desc->family != NULL) printf("family    %s\n", desc->family);
    show_outputs(desc, width);
    show_gradient(desc, width);
    show_keeps(op, desc);
  }
  if (op->binding != NULL) show_bound(op->binding->kernel, desc);
  if (op->generated != NULL) show_generated(op, desc);
  for (size_t i = 0; i < op->n_kernels; ++i)
    show_written(&op->kernels[i], desc);
}

/* ----------------------------------------------------------------- commands */

static void show_title(const tnm_plugin *plugin, const tnm_operator *op) {
  if (op->op != NULL)
    printf("%s.%s@%" PRIu32 "\n", plugin->plugin->name, op->op->name,
           op->op->interface);
  else
    printf("%s for %s\n", plugin->plugin->name, op->target->op);
}

static int show_c(const tnm_plugin *plugin) {
  opgen_files files;
  if (!opgen_is_compiled(plugin)) return EXIT_ERRORS;
  const bool fine = opgen_files_init(&files, plugin, &(opgen_selection){0});
  for (size_t i = 0; i < files.n && fine; ++i) {
    if (strncmp(files.v[i].name, "plugin.gen", strlen("plugin.gen")) == 0)
      continue;
    if (i > 0) printf("\n");
    fputs(files.v[i].text.s, stdout);
  }
  opgen_files_deinit(&files);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}

/* Prints the author's operators; NAME_grad follows from them. */
static void show_written_ones(const tnm_plugin *plugin) {
  size_t n = 0;
  size_t shown = 0;
  for (size_t i = 0; i < plugin->n_operators; ++i)
    if (plugin->operators[i].parent == NULL) ++n;
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    const tnm_operator *op = &plugin->operators[i];
    if (op->parent != NULL) continue;
    if (shown++ > 0) printf("\n");
    if (n > 1) show_title(plugin, op);
    show_operator(op);
  }
}

int cmd_show(const opgen_args *args) {
  int status = EXIT_FINE;
  tnm_plugin *plugin = opgen_read_lone(args, args->files[0]);
  if (plugin == NULL) return EXIT_ERRORS;
  if (args->show_c) status = show_c(plugin);
  if (!args->show_c) show_written_ones(plugin);
  tnm_plugin_release(plugin);
  return status;
}
