/* SPDX-License-Identifier: Apache-2.0
 * emit_file.c: writes the common parts of generated files: the banner and the
 * check of the version of op.h. They contain no time and no path, so that equal
 * manifests give equal files.
 */
#include <inttypes.h>
#include <string.h>

#include "emit.h"

/* The lists of one manifest's operators, as a plugin of their own. */
typedef struct subset {
  const tn_op **operators;
  const tn_kernel **kernels;
  const tn_target **targets;
  tn_plugin plugin;
} subset;

static bool subset_init(emit *e, subset *part) {
  const tn_plugin *whole = e->plugin->plugin;
  *part = (subset){.plugin = *whole};
  part->operators = tn__arena_alloc(
      e->arena, (whole->n_operators + 1u) * sizeof *part->operators);
  part->kernels = tn__arena_alloc(
      e->arena, (whole->n_kernels + 1u) * sizeof *part->kernels);
  part->targets = tn__arena_alloc(
      e->arena, (whole->n_targets + 1u) * sizeof *part->targets);
  part->plugin.operators = part->operators;
  part->plugin.kernels = part->kernels;
  part->plugin.targets = part->targets;
  part->plugin.n_operators = 0;
  part->plugin.n_kernels = 0;
  part->plugin.n_targets = 0;
  return !e->arena->failed;
}

static void add_kernel(subset *part, const tn_kernel *kernel) {
  if (kernel != NULL) part->kernels[part->plugin.n_kernels++] = kernel;
}

static void add_operator(subset *part, const tnm_operator *op) {
  if (op->op != NULL) part->operators[part->plugin.n_operators++] = op->op;
  if (op->target != NULL) part->targets[part->plugin.n_targets++] = op->target;
  add_kernel(part, op->generated);
  add_kernel(part, op->generated_backward);
  for (size_t i = 0; i < op->n_kernels; ++i) {
    if (op->kernels[i].companion) continue;
    add_kernel(part, op->kernels[i].forward);
    add_kernel(part, op->kernels[i].backward);
  }
}

/* Hash of the tables of one manifest, so that a change of another one does not
 * change this one's files. */
static uint64_t hash_of(emit *e, const char *stem) {
  subset part;
  tn__buf bytes;
  if (!subset_init(e, &part)) return 0;
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (strcmp(e->plugin->operators[i].stem, stem) == 0)
      add_operator(&part, &e->plugin->operators[i]);
  tn__buf_init(&bytes, e->env);
  tn__tables_encode(&part.plugin, &bytes);
  const uint64_t hash = bytes.n > 0 ? tn__hash(bytes.s, bytes.n) : 0;
  e->c.failed |= bytes.failed;
  tn__buf_deinit(&bytes);
  return hash;
}

/* "quadratic.yaml" for a stem; "plugin.yaml" if it has no operators. */
static const char *file_of(const emit *e, const char *stem) {
  for (size_t i = 0; i < e->plugin->n_operators; ++i)
    if (strcmp(e->plugin->operators[i].stem, stem) == 0)
      return e->plugin->operators[i].file;
  return "plugin.yaml";
}

static const char *format_banner(emit *e, const char *file, const char *stem) {
  return name_format(e, "%s: written by opgen %s from %s; do not edit.", file,
                     OPGEN_VERSION, file_of(e, stem));
}

void emit_banner(emit *e, const char *file, const char *stem) {
  c_comment(&e->c, format_banner(e, file, stem));
}

void emit_hashed_banner(emit *e, const char *file, const char *stem) {
  const uint64_t hash = strcmp(stem, "plugin") == 0
                            ? e->plugin->plugin->manifest_hash
                            : hash_of(e, stem);
  c_comment_lines(&e->c, format_banner(e, file, stem),
                  name_format(e, "Manifest %016" PRIx64 ".", hash));
}

void emit_guard(emit *e, const char *guard) {
  c_declare(&e->c, "#define", guard, false);
  c_add(&e->c, "#ifndef %s\n#define %s\n\n", guard, guard);
}

void emit_include(emit *e) {
  c_add(&e->c,
        "#include <tenon/plugin/op.h>\n\n"
        "#if TN_ABI_MAJOR != %d\n"
        "#error \"written for op.h %d.x; regenerate with the opgen of this "
        "op.h\"\n"
        "#endif\n\n",
        TN_ABI_MAJOR, TN_ABI_MAJOR);
}
