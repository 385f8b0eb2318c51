/* SPDX-License-Identifier: Apache-2.0
 * emit_cuda.c: writes the companion of a plugin, <plugin>.cuda.so. It is a
 * plugin of its own with every CUDA kernel of this plugin's operators: those
 * that compute formulas and those that the author writes. <stem>.gen.cu
 * contains the loops of a manifest, cuda.gen.c the tables, the entry and the
 * note, cuda.gen.h the declarations that generated files share; <stem>.gen.h
 * declares the author's functions.
 */
#include <string.h>

#include "emit.h"
#include "emit_kernel.h"
#include "tenon/draft/registers.h"
#include "tenon/plugin/device.h"

static bool is_written(const tnm_operator *op) {
  for (size_t i = 0; i < op->n_kernels; ++i)
    if (op->kernels[i].companion) return true;
  return false;
}

bool has_cuda(const tnm_operator *op) {
  return needs_formulas(op) || is_written(op);
}

/* ------------------------------------------------------------ the companion */

/* Zeroed memory of the arena; NULL after it ran out. */
static void *alloc_zeroed(emit *e, size_t bytes) {
  void *memory = tn__arena_alloc(e->arena, bytes + 1);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

void write_cuda_id(tn__buf *out, const tnm_operator *op, const char *id) {
  const char *device = strstr(id, ".cpu");
  const size_t n = device != NULL ? (size_t)(device - id) : strlen(id);
  tn__buf_add(out, "%.*s.cuda%s", (int)n, id,
              is_written(op) ? ".generated" : "");
}

static const char *copy_id(emit *e, const tnm_operator *op, const char *id) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  write_cuda_id(&text, op, id);
  const char *kept = name_format(e, "%s", text.failed ? "" : text.s);
  if (text.failed) e->arena->failed = true;
  tn__buf_deinit(&text);
  return kept;
}

static const tn_kernel *cuda_kernel(emit *e, const tnm_operator *op,
                                    const tn_kernel *cpu) {
  tn_kernel *kernel = cpu != NULL ? alloc_zeroed(e, sizeof *kernel) : NULL;
  if (kernel == NULL) return NULL;
  *kernel = *cpu;
  kernel->flags &= ~TN_KERNEL_REGISTERS;
  kernel->flags |= TN_KERNEL_ASYNC | TN_KERNEL_CAPTURABLE;
  if (kernel->flags & TN_KERNEL_ELEMENTWISE)
    kernel->flags |= TN_KERNEL_WIDE_OUT; /* tn_cuda_map_run converts */
  kernel->device_type = TN_DEVICE_CUDA;
  kernel->id = copy_id(e, op, cpu->id);
  return kernel;
}

static void fill_operator(emit *e, const tnm_operator *from, tnm_operator *to) {
  tn_target *target = alloc_zeroed(e, sizeof *target);
  if (target == NULL) return;
  *target = (tn_target){.struct_size = sizeof *target,
                        .params_size = from->op->params_size,
                        .n_params = from->op->n_params,
                        .op = name_operator(e, from).full,
                        .params = from->op->params};
  *to = (tnm_operator){
      .file = from->file,
      .stem = from->stem,
      .target = target,
      .target_op = from->op,
      .generated = cuda_kernel(e, from, from->generated),
      .generated_backward = cuda_kernel(e, from, from->generated_backward),
      .kernels = from->kernels,
      .n_kernels = from->n_kernels,
      .pos = from->pos};
}

static void add_table(tn_plugin *tables, const tn_kernel **kernels,
                      const tn_kernel *kernel) {
  if (kernel != NULL) kernels[tables->n_kernels++] = kernel;
}

/* Fills the lists of the companion's tables. */
static void fill_tables(const tnm_plugin *model, tn_plugin *tables,
                        const tn_kernel **kernels, const tn_target **targets) {
  tables->kernels = kernels;
  tables->targets = targets;
  for (size_t i = 0; i < model->n_operators; ++i) {
    const tnm_operator *op = &model->operators[i];
    targets[tables->n_targets++] = op->target;
    add_table(tables, kernels, op->generated);
    add_table(tables, kernels, op->generated_backward);
    for (size_t k = 0; k < op->n_kernels; ++k) {
      if (!op->kernels[k].companion) continue;
      add_table(tables, kernels, op->kernels[k].forward);
      add_table(tables, kernels, op->kernels[k].backward);
    }
  }
}

/* The largest possible number of kernel tables of these operators. */
static size_t most_kernels(const tnm_plugin *plugin) {
  size_t n = 0;
  for (size_t i = 0; i < plugin->n_operators; ++i)
    n += 2 + 2 * plugin->operators[i].n_kernels;
  return n;
}

static uint64_t hash_of(const emit *e, const tn_plugin *tables) {
  tn__buf bytes;
  tn__buf_init(&bytes, e->env);
  tn__tables_encode(tables, &bytes);
  const uint64_t hash = bytes.n > 0 ? tn__hash(bytes.s, bytes.n) : 0;
  tn__buf_deinit(&bytes);
  return hash;
}

const tnm_plugin *make_cuda_companion(emit *e) {
  const tnm_plugin *from = e->plugin;
  const size_t n = from->n_operators;
  tnm_plugin *model = alloc_zeroed(e, sizeof *model);
  tn_plugin *tables = alloc_zeroed(e, sizeof *tables);
  tnm_operator *operators = alloc_zeroed(e, n * sizeof *operators);
  const tn_kernel **kernels =
      alloc_zeroed(e, most_kernels(from) * sizeof *kernels);
  const tn_target **targets = alloc_zeroed(e, n * sizeof *targets);
  if (e->arena->failed) return NULL;
  *tables = *from->plugin;
  tables->name = name_format(e, "%s_cuda", from->plugin->name);
  tables->summary = name_format(e, "CUDA kernels of %s", from->plugin->name);
  tables->flags &= ~(uint32_t)TN_PLUGIN_UNLOADABLE;
  tables->n_operators = tables->n_kernels = tables->n_targets = 0;
  tables->operators = NULL;
  model->plugin = tables;
  model->operators = operators;
  for (size_t i = 0; i < n; ++i)
    if (has_cuda(&from->operators[i]))
      fill_operator(e, &from->operators[i], &operators[model->n_operators++]);
  fill_tables(model, tables, kernels, targets);
  if (e->arena->failed) return NULL;
  tables->manifest_hash = hash_of(e, tables);
  return model;
}

/* -------------------------------------------------------------------- files */

void emit_cuda_source(emit *e, const char *stem) {
  emit_banner(e, name_format(e, "%s.gen.cu", stem), stem);
  c_add(&e->c,
        "#include \"%s.formula.gen.h\"\n\n"
        "#include <tenon/kernel/%s.cuh>\n\n"
        "#include \"cuda.gen.h\"\n",
        stem, has_axes(e, stem) ? "lines" : "elementwise");
  for (size_t i = 0; i < e->plugin->n_operators; ++i) {
    const tnm_operator *op = &e->plugin->operators[i];
    if (strcmp(op->stem, stem) != 0 || !needs_formulas(op)) continue;
    c_section(&e->c, name_operator(e, op).full);
    emit_cuda_kernels(&e->c, e->plugin, op);
  }
}

void emit_cuda_header(emit *e) {
  const char *guard = name_format(
      e, "%s_CUDA_GEN_H_", name_identifier(e, e->plugin->plugin->name, true));
  emit_banner(e, "cuda.gen.h", "plugin");
  emit_guard(e, guard);
  emit_include(e);
  c_add(&e->c, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (needs_formulas(&e->plugin->operators[i]))
      emit_cuda_prototypes(&e->c, e->plugin, &e->plugin->operators[i]);
  c_add(&e->c, "\n#ifdef __cplusplus\n}\n#endif\n#endif /* %s */\n", guard);
}

/* Writes the table of one kernel, with its function. */
static void emit_one(emit *e, const char *plugin, const tnm_operator *from,
                     const tn_kernel *kernel) {
  tn__buf name;
  if (kernel == NULL) return;
  tn__buf_init(&name, e->env);
  emit_kernel_name(&name, from, kernel->pass);
  const char *compute =
      name_format(e, "%s_%s_cuda", plugin, name.s != NULL ? name.s : "");
  const char *prepare =
      from->axes == NULL ? NULL : name_format(e, "%s_prepare", compute);
  emit_kernel_table(
      e, kernel, &(kernel_functions){.prepare = prepare, .compute = compute});
  e->c.failed |= name.failed;
  tn__buf_deinit(&name);
}

/* Writes the tables of `added`, which the companion has for `op`. */
static void emit_added(emit *e, const char *plugin, const tnm_operator *op,
                       const tnm_operator *added) {
  e->op = op;
  c_section(&e->c, name_operator(e, added).full);
  emit_target(e, added);
  c_add(&e->c, "\n");
  emit_one(e, plugin, op, added->generated);
  emit_one(e, plugin, op, added->generated_backward);
  for (size_t i = 0; i < added->n_kernels; ++i)
    if (added->kernels[i].companion) emit_written(e, &added->kernels[i]);
  e->op = NULL;
}

void emit_cuda_plugin(emit *e) {
  const tnm_plugin *from = e->plugin;
  const tnm_plugin *companion = make_cuda_companion(e);
  size_t k = 0;
  if (companion == NULL) return;
  e->plugin = companion;
  emit_hashed_banner(e, "cuda.gen.c", "plugin");
  c_add(&e->c,
        "#include \"cuda.gen.h\"\n\n#include <tenon/plugin/device.h>\n"
        "#include <tenon/plugin/note.h>\n\n");
  emit_plugin_includes(e);
  for (size_t i = 0; i < from->n_operators; ++i) {
    const tnm_operator *op = &from->operators[i];
    if (has_cuda(op))
      emit_added(e, from->plugin->name, op, &companion->operators[k++]);
  }
  c_section(&e->c, companion->plugin->name);
  emit_plugin_tables(e);
  e->plugin = from;
}
