/* SPDX-License-Identifier: Apache-2.0
 * emit_plugin.c: writes the parts that a plugin has once: the exported entry,
 * the note that is read before the file is opened, and the list of exported
 * symbols.
 */
#include <inttypes.h>
#include <string.h>

#include "emit.h"

/* ------------------------------------------------------------------- header */

void emit_plugin_header(emit *e) {
  const char *name = e->plugin->plugin->name;
  const char *guard =
      name_format(e, "%s_PLUGIN_GEN_H_", name_identifier(e, name, true));
  emit_banner(e, "plugin.gen.h", "plugin");
  emit_guard(e, guard);
  emit_include(e);
  c_add(&e->c, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  if (e->plugin->init_symbol != NULL) {
    c_comment(&e->c, "tn_plugin.init: runs when the plugin is loaded. [load]");
    c_function_head(
        &e->c, &(c_function){"int32_t ", e->plugin->init_symbol,
                             "const tn_host *host, tn_registrar *registrar, "
                             "void **instance",
                             ";"});
    c_add(&e->c, "\n");
  }
  if (e->plugin->fini_symbol != NULL) {
    c_comment(&e->c, "tn_plugin.fini: undoes init. [load]");
    c_function_head(&e->c, &(c_function){"void ", e->plugin->fini_symbol,
                                         "void *instance", ";"});
    c_add(&e->c, "\n");
  }
  c_comment(
      &e->c,
      "The entry; with TN_STATIC_PLUGINS, the argument of tn_plugin_add().");
  c_add(&e->c, "extern const tn_plugin TN_PLUGIN_ENTRY(%s);\n", name);
  c_add(&e->c, "\n#ifdef __cplusplus\n}\n#endif\n#endif /* %s */\n", guard);
}

/* ---------------------------------------------------------------- the lists */

/* The operator that a table belongs to. */
static const tnm_operator *owner_of(const emit *e, const void *table) {
  for (size_t i = 0; i < e->plugin->n_operators; ++i) {
    const tnm_operator *op = &e->plugin->operators[i];
    if (op->op == table || op->target == table) return op;
  }
  return NULL;
}

static void emit_operators(emit *e) {
  const tn_plugin *plugin = e->plugin->plugin;
  if (plugin->n_operators == 0) return;
  emit_pointers_open(e, "tn_op", "operators");
  for (uint32_t i = 0; i < plugin->n_operators; ++i) {
    const tnm_operator *op = owner_of(e, plugin->operators[i]);
    c_item(&e->c, "&", name_format(e, "%s_op", name_operator(e, op).symbol));
  }
  c_close(&e->c);
}

static void emit_kernels_list(emit *e) {
  const tn_plugin *plugin = e->plugin->plugin;
  if (plugin->n_kernels == 0) return;
  emit_pointers_open(e, "tn_kernel", "kernels");
  for (uint32_t i = 0; i < plugin->n_kernels; ++i)
    c_item(&e->c, "&", name_kernel_table(e, plugin->kernels[i]));
  c_close(&e->c);
}

static void emit_targets(emit *e) {
  const tn_plugin *plugin = e->plugin->plugin;
  if (plugin->n_targets == 0) return;
  emit_pointers_open(e, "tn_target", "targets");
  for (uint32_t i = 0; i < plugin->n_targets; ++i)
    c_item(&e->c, "&", name_target(e, owner_of(e, plugin->targets[i])));
  c_close(&e->c);
}

static void emit_dependencies(emit *e) {
  const tn_plugin *plugin = e->plugin->plugin;
  if (plugin->n_dependencies == 0) return;
  for (uint32_t i = 0; i < plugin->n_dependencies; ++i) {
    c_open(&e->c, "static const tn_dependency",
           name_format(e, "dependency_%" PRIu32, i));
    c_value(&e->c, "struct_size", "sizeof(tn_dependency)");
    c_u32(&e->c, "release", plugin->dependencies[i]->release);
    c_string(&e->c, "plugin", plugin->dependencies[i]->plugin);
    c_close(&e->c);
  }
  emit_pointers_open(e, "tn_dependency", "dependencies");
  for (uint32_t i = 0; i < plugin->n_dependencies; ++i)
    c_item(&e->c, "", name_format(e, "&dependency_%" PRIu32, i));
  c_close(&e->c);
}

/* ---------------------------------------------------------------- the entry */

static void emit_entry(emit *e) {
  const tn_plugin *plugin = e->plugin->plugin;
  c_file *c = &e->c;
  c_open(c, "TN_PLUGIN_EXPORT const tn_plugin",
         name_format(e, "TN_PLUGIN_ENTRY(%s)", plugin->name));
  c_value(c, "magic", "TN_PLUGIN_MAGIC");
  c_value(c, "struct_size", "sizeof(tn_plugin)");
  c_value(c, "abi_major", "TN_ABI_MAJOR");
  c_value(c, "abi_minor", "TN_ABI_MINOR");
  c_value(c, "min_host_minor", "TN_TARGET_MINOR");
  c_value(c, "flags",
          (plugin->flags & TN_PLUGIN_UNLOADABLE) != 0 ? "TN_PLUGIN_UNLOADABLE"
                                                      : NULL);
  c_u32(c, "release", plugin->release);
  c_u32(c, "n_operators", plugin->n_operators);
  c_u32(c, "n_kernels", plugin->n_kernels);
  c_u32(c, "n_targets", plugin->n_targets);
  c_value(c, "manifest_hash", "MANIFEST_HASH");
  c_string(c, "name", plugin->name);
  c_string(c, "summary", plugin->summary);
  c_string(c, "license", plugin->license);
  c_string(c, "opgen", plugin->opgen);
  c_value(c, "operators", plugin->n_operators > 0 ? "operators" : NULL);
  c_value(c, "kernels", plugin->n_kernels > 0 ? "kernels" : NULL);
  c_value(c, "targets", plugin->n_targets > 0 ? "targets" : NULL);
  c_value(c, "init", e->plugin->init_symbol);
  c_value(c, "fini", e->plugin->fini_symbol);
  c_u32(c, "n_dependencies", plugin->n_dependencies);
  c_value(c, "dependencies",
          plugin->n_dependencies > 0 ? "dependencies" : NULL);
  c_close(c);
}

/* ----------------------------------------------------------------- the note */

static void emit_note_head(emit *e) {
  c_add(&e->c,
        "const struct {\n"
        "uint32_t name_size;\n"
        "uint32_t desc_size;\n"
        "uint32_t type;\n"
        "char name[8];\n"
        "tn_note note;\n"
        "uint8_t manifest[(MANIFEST_SIZE + 3) / 4 * 4];\n"
        "} __attribute__((packed)) tn_plugin_note TN_NOTE_SECTION = {\n"
        ".name_size = sizeof TN_NOTE_NAME,\n"
        ".desc_size = sizeof(tn_note) + MANIFEST_SIZE,\n"
        ".type = TN_NOTE_TYPE,\n"
        ".name = TN_NOTE_NAME,\n"
        ".note = {\n"
        ".magic = TN_PLUGIN_MAGIC,\n"
        ".header_size = sizeof(tn_note),\n"
        ".abi_major = TN_ABI_MAJOR,\n"
        ".abi_minor = TN_ABI_MINOR,\n"
        ".min_host_minor = TN_TARGET_MINOR,\n"
        ".machine = TN_NOTE_MACHINE,\n"
        ".pointer_bits = 8 * sizeof(void *),\n"
        ".manifest_hash = MANIFEST_HASH,\n"
        ".manifest_size = MANIFEST_SIZE,\n"
        "},\n");
}

static void emit_note(emit *e, const tn__buf *manifest) {
  c_comment(
      &e->c,
      "The note of the file: an ELF note header, tn_note, and the tables "
      "above in the encoding that docs/reference/note-format.md describes.");
  c_add(&e->c, "#ifndef TN_STATIC_PLUGINS\n");
  emit_note_head(e);
  c_add(&e->c, ".manifest = {\n");
  c_bytes(&e->c, manifest->s, manifest->n);
  c_add(&e->c, "},\n};\n#endif\n");
}

/* -------------------------------------------------------------------- files */

/* The stem after `last` in the order of names, or NULL. */
static const char *next_stem(const emit *e, const char *last) {
  const char *next = NULL;
  for (size_t i = 0; i < e->plugin->n_operators; ++i) {
    const char *stem = e->plugin->operators[i].stem;
    if (strcmp(stem, last) > 0 && (next == NULL || strcmp(stem, next) < 0))
      next = stem;
  }
  return next;
}

void emit_plugin_includes(emit *e) {
  for (const char *s = next_stem(e, ""); s != NULL; s = next_stem(e, s))
    c_add(&e->c, "#include \"%s.gen.h\"\n", s);
}

void emit_plugin_tables(emit *e) {
  tn__buf manifest;
  tn__buf_init(&manifest, e->env);
  tn__tables_encode(e->plugin->plugin, &manifest);
  c_add(&e->c,
        "#define MANIFEST_HASH 0x%016" PRIx64
        "ull\n#define MANIFEST_SIZE %zu\n\n",
        e->plugin->plugin->manifest_hash, manifest.n);
  emit_operators(e);
  emit_kernels_list(e);
  emit_targets(e);
  emit_dependencies(e);
  emit_entry(e);
  c_add(&e->c, "\n");
  emit_note(e, &manifest);
  e->c.failed |= manifest.failed;
  tn__buf_deinit(&manifest);
}

/* Compiles the functions that the loops of all files share. */
void emit_plugin_kernel_source(emit *e) {
  emit_banner(e, "plugin.kernel.gen.c", "plugin");
  c_add(&e->c,
        "#define TN_KERNEL_PLUGIN %s\n#define TN_KERNEL_HOME\n"
        "#include <tenon/kernel/kernel.h>\n",
        name_identifier(e, e->plugin->plugin->name, false));
}

void emit_plugin_source(emit *e) {
  emit_hashed_banner(e, "plugin.gen.c", "plugin");
  c_add(&e->c, "#include \"plugin.gen.h\"\n\n");
  c_add(&e->c, "#include <tenon/plugin/note.h>\n\n");
  emit_plugin_includes(e);
  c_add(&e->c, "\n");
  emit_plugin_tables(e);
}

void emit_plugin_map(emit *e, const char *name) {
  c_add(&e->c,
        "/* %s: written by opgen %s; do not edit. */\n"
        "{\nglobal: tn_plugin_entry;\nlocal: *;\n};\n",
        name, OPGEN_VERSION);
}
