/* SPDX-License-Identifier: Apache-2.0
 * cmd_inspect.c: `tenon inspect` prints the description in the note of a plugin
 * file. The file is read, never loaded: none of its code runs.
 */
#include <inttypes.h>

#include "tenon_tool.h"

static const char *machine_name(uint32_t machine) {
  switch (machine) {
    case 62:
      return "x86-64";
    case 183:
      return "aarch64";
    default:
      return "another machine";
  }
}

/* ------------------------------------------------------------------ people */

/* "elemwise >=2, nn >=1" */
static void add_dependencies(const tn_plugin *plugin, table *rows) {
  const uint32_t n = TN_HAS(plugin, dependencies) ? plugin->n_dependencies : 0;
  text list = {0};
  for (uint32_t i = 0; i < n; ++i)
    text_add(&list, "%s%s >=%" PRIu32, i ? ", " : "",
             plugin->dependencies[i]->plugin, plugin->dependencies[i]->release);
  if (n) {
    table_add(rows, "requires");
    table_add(rows, "%s", text_get(&list));
  }
  text_deinit(&list);
}

static void add_facts(const tn_note *note, const tn_plugin *plugin,
                      table *rows) {
  if (plugin) {
    table_add(rows, "release");
    table_add(rows, "%" PRIu32, plugin->release);
    table_add(rows, "license");
    table_add(rows, "%s", plugin->license ? plugin->license : "not stated");
    table_add(rows, "written by");
    table_add(rows, "opgen %s", plugin->opgen ? plugin->opgen : "?");
    add_dependencies(plugin, rows);
  }
  table_add(rows, "ABI");
  table_add(
      rows, "%" PRIu32 ".%" PRIu32 ", for hosts from %" PRIu32 ".%" PRIu32,
      note->abi_major, note->abi_minor, note->abi_major, note->min_host_minor);
  table_add(rows, "machine");
  table_add(rows, "%s (%" PRIu32 "), %" PRIu32 " bits",
            machine_name(note->machine), note->machine, note->pointer_bits);
  table_add(rows, "manifest");
  table_add(rows, "%" PRIu64 " bytes", note->manifest_size);
}

static void add_operators(const tn_plugin *plugin, text *out) {
  table rows = {.n_columns = 2};
  if (plugin->n_operators) text_add(out, "\noperators\n");
  for (uint32_t i = 0; i < plugin->n_operators; ++i) {
    const tn_op *op = plugin->operators[i];
    text signature = {0};
    describe_signature(op, &signature);
    table_add(&rows, "%s.%s@%" PRIu32 "%s", plugin->name, op->name,
              op->interface, text_get(&signature));
    table_add(&rows, "%s", op->summary ? op->summary : "");
    text_deinit(&signature);
  }
  table_print(&rows, "  ", out);
}

static void add_kernels(const tn_plugin *plugin, text *out) {
  table rows = {.n_columns = 5};
  if (plugin->n_kernels) text_add(out, "\nkernels\n");
  for (uint32_t i = 0; i < plugin->n_kernels; ++i) {
    const tn_kernel *kernel = plugin->kernels[i];
    text dtypes = {0};
    describe_kernel_dtypes(kernel, &dtypes);
    table_add(&rows, "%s", kernel->op);
    table_add(&rows, "%s",
              kernel->pass == TN_PASS_BACKWARD ? "backward" : "forward");
    table_add(&rows, "%s", device_name(kernel->device_type));
    table_add(&rows, "%s", text_get(&dtypes));
    table_add(&rows, "%s", kernel->id);
    text_deinit(&dtypes);
  }
  table_print(&rows, "  ", out);
}

static void add_targets(const tn_plugin *plugin, text *out) {
  if (plugin->n_targets) text_add(out, "\noperators of other plugins\n");
  for (uint32_t i = 0; i < plugin->n_targets; ++i)
    text_add(out, "  %s\n", plugin->targets[i]->op);
}

static void add_line(text *out, const char *line) {
  const size_t from = out->n;
  text_add(out, "%s", line);
  text_make_line(out, from);
  text_add(out, "\n");
}

static void print_inspection(const tn_inspection *inspection, const char *path,
                             text *out) {
  const tn_plugin *plugin = tn_inspection_plugin(inspection);
  const char *refusal = tn_inspection_refusal(inspection);
  table rows = {.n_columns = 2};
  add_line(out, plugin ? plugin->name : path);
  if (plugin && plugin->summary) add_line(out, plugin->summary);
  text_add(out, "\n");
  table_add(&rows, "file");
  table_add(&rows, "%s", path);
  add_facts(tn_inspection_note(inspection), plugin, &rows);
  table_add(&rows, "this host");
  table_add(&rows, "%s%s", refusal ? "refuses it: " : "loads it",
            refusal ? refusal : "");
  table_print(&rows, "  ", out);
  if (!plugin) return;
  add_operators(plugin, out);
  add_kernels(plugin, out);
  add_targets(plugin, out);
}

/* -------------------------------------------------------------------- JSON */

static void add_json_note(const tn_note *note, text *out) {
  text_add(out,
           "\"abi\": {\"major\": %" PRIu32 ", \"minor\": %" PRIu32
           ", \"min_host_minor\": %" PRIu32 "}, \"machine\": %" PRIu32
           ", \"pointer_bits\": %" PRIu32 ", \"manifest_size\": %" PRIu64,
           note->abi_major, note->abi_minor, note->min_host_minor,
           note->machine, note->pointer_bits, note->manifest_size);
}

static tn_code print_json(tn_runtime *rt, const tn_inspection *inspection,
                          const char *path, text *out) {
  const tn_plugin *plugin = tn_inspection_plugin(inspection);
  const char *refusal = tn_inspection_refusal(inspection);
  tn_text *tables = NULL;
  tn_code code = plugin ? tn_plugin_json(rt, plugin, &tables) : TN_OK;
  if (code) return code;
  text_add(out, "{\"file\": ");
  text_add_json(out, path);
  text_add(out, ", ");
  add_json_note(tn_inspection_note(inspection), out);
  text_add(out, ", \"loads\": %s, \"refusal\": ", refusal ? "false" : "true");
  text_add_json(out, refusal);
  text_add(out, ", \"plugin\": %s}\n", plugin ? tn_text_get(tables) : "null");
  tn_text_release(tables);
  return TN_OK;
}

/* ----------------------------------------------------------------- command */

static tn_code inspect_files(tn_runtime *rt, const arguments *args, text *out) {
  const char *path = args->words[0];
  tn_inspection *inspection = NULL;
  tn_code code = tn_inspection_open(rt, path, &inspection);
  if (code) return code;
  if (args->given & OPTION_JSON)
    code = print_json(rt, inspection, path, out);
  else
    print_inspection(inspection, path, out);
  tn_inspection_close(inspection);
  return code;
}

int cmd_inspect(const arguments *args, text *out, text *why) {
  host h;
  if (args->n_words != 1) {
    report_failure(why,
                   "inspect wants one file, such as `tenon inspect plugin.so`");
    return STATUS_USAGE;
  }
  if (!host_open(&h, args, 1, why)) return STATUS_FAILED;
  bool ok = !inspect_files(h.rt, args, out) || fail_library(why);
  host_close(&h);
  return ok ? STATUS_OK : STATUS_FAILED;
}
