/* SPDX-License-Identifier: Apache-2.0
 * cmd_list.c: `tenon list`: plugins, operators and devices of this machine.
 */
#include <string.h>

#include "tenon_tool.h"

enum { N_KINDS = 3 };
static const char *const kinds[N_KINDS] = {"plugins", "operators", "devices"};

/* ------------------------------------------------------------------ people */

static void add_heads(table *rows, const char *const *heads) {
  for (size_t i = 0; i < rows->n_columns; ++i) table_add(rows, "%s", heads[i]);
}

static bool list_plugins(tn_runtime *rt, text *out) {
  table rows = {.n_columns = 6};
  static const char *const heads[] = {"NAME",    "RELEASE", "OPERATORS",
                                      "KERNELS", "LICENSE", "PATH"};
  tn_plugin_info info;
  for (size_t i = 0; !tn_plugin_at(rt, i, &info); ++i) {
    const tn_plugin *p = info.plugin;
    if (i == 0) add_heads(&rows, heads);
    table_add(&rows, "%s", p->name);
    table_add(&rows, "%u", p->release);
    table_add(&rows, "%u", p->n_operators);
    table_add(&rows, "%u", p->n_kernels);
    table_add(&rows, "%s", p->license ? p->license : "");
    table_add(&rows, "%s", info.path);
  }
  if (!rows.n_cells) text_add(out, "no plugin is loaded\n");
  table_print(&rows, "", out);
  return true;
}

static bool list_operators(tn_runtime *rt, text *out) {
  table rows = {.n_columns = 2};
  tn_operator *op = NULL;
  for (size_t i = 0; !tn_operator_at(rt, i, &op); ++i) {
    const tn_op *desc = tn_operator_desc(op);
    if (!desc || desc->flags & TN_OP_BACKWARD_ONLY) continue;
    table_add(&rows, "%s", tn_operator_name(op));
    table_add(&rows, "%s%s", desc->summary ? desc->summary : "",
              desc->deprecated_since ? " (deprecated)" : "");
  }
  if (!rows.n_cells) text_add(out, "no operator: no plugin is loaded\n");
  table_print(&rows, "", out);
  return true;
}

static bool list_devices(tn_runtime *rt, text *out) {
  table rows = {.n_columns = 3};
  static const char *const heads[] = {"NAME", "COUNT", "DETAIL"};
  tn_device_entry entry;
  size_t n = 0;
  add_heads(&rows, heads);
  for (; !tn_device_at(rt, n, &entry); ++n) {
    table_add(&rows, "%s", entry.name);
    table_add(&rows, "%d", (int)entry.count);
    table_add(&rows, "%s", entry.detail ? entry.detail : "");
  }
  table_print(&rows, "", out);
  if (n == 1) text_add(out, "no other device plugin is loaded\n");
  return true;
}

/* -------------------------------------------------------------------- JSON */

static bool json_plugins(tn_runtime *rt, text *out) {
  tn_plugin_info info;
  for (size_t i = 0; !tn_plugin_at(rt, i, &info); ++i) {
    tn_text *tables = NULL;
    if (tn_plugin_json(rt, info.plugin, &tables)) return false;
    text_add(out, "%s{\"path\": ", i ? ", " : "");
    text_add_json(out, info.path);
    text_add(out, ", \"plugin\": %s}", tn_text_get(tables));
    tn_text_release(tables);
  }
  return true;
}

static bool json_operators(tn_runtime *rt, text *out) {
  tn_operator *op = NULL;
  const char *separator = "";
  for (size_t i = 0; !tn_operator_at(rt, i, &op); ++i) {
    const tn_op *desc = tn_operator_desc(op);
    if (!desc || desc->flags & TN_OP_BACKWARD_ONLY) continue;
    text_add(out, "%s{\"name\": ", separator);
    text_add_json(out, tn_operator_name(op));
    text_add(out, ", \"summary\": ");
    text_add_json(out, desc->summary);
    text_add(out, ", \"deprecated\": %s}",
             desc->deprecated_since ? "true" : "false");
    separator = ", ";
  }
  return true;
}

static bool json_devices(tn_runtime *rt, text *out) {
  tn_device_entry entry;
  for (size_t i = 0; !tn_device_at(rt, i, &entry); ++i) {
    text_add(out, "%s{\"name\": ", i ? ", " : "");
    text_add_json(out, entry.name);
    text_add(out, ", \"type\": %d, \"count\": %d, \"detail\": ",
             (int)entry.device_type, (int)entry.count);
    text_add_json(out, entry.detail);
    text_add(out, "}");
  }
  return true;
}

/* ----------------------------------------------------------------- command */

typedef bool list_fn(tn_runtime *rt, text *out);
static list_fn *const for_people[N_KINDS] = {list_plugins, list_operators,
                                             list_devices};
static list_fn *const for_programs[N_KINDS] = {json_plugins, json_operators,
                                               json_devices};

static bool print_json(tn_runtime *rt, size_t first, size_t end, text *out) {
  text_add(out, "{");
  for (size_t k = first; k < end; ++k) {
    text_add(out, "%s\"%s\": [", k > first ? ", " : "", kinds[k]);
    if (!for_programs[k](rt, out)) return false;
    text_add(out, "]");
  }
  text_add(out, "}\n");
  return true;
}

static bool print_tables(tn_runtime *rt, size_t first, size_t end, text *out) {
  for (size_t k = first; k < end; ++k) {
    if (end - first > 1)
      text_add(out, "%s%s\n", k > first ? "\n" : "", kinds[k]);
    if (!for_people[k](rt, out)) return false;
  }
  return true;
}

/* The kinds [*first, *end) that the words ask for. */
static bool choose(const arguments *args, size_t *first, size_t *end,
                   text *why) {
  *first = 0;
  *end = N_KINDS;
  if (args->n_words == 0) return true;
  const char *word = args->words[0];
  for (size_t k = 0; k < N_KINDS; ++k) {
    if (strcmp(word, kinds[k]) != 0) continue;
    *first = k;
    *end = k + 1;
    return args->n_words == 1 ||
           fail(why, "list: unexpected `%s`; name one kind or none",
                args->words[1]);
  }
  const char *meant = did_you_mean(word, kinds, N_KINDS);
  return fail(why, "list: unknown kind `%s`%s%s%s", word,
              meant ? "; did you mean `" : "; there are plugins, operators ",
              meant ? meant : "and devices", meant ? "`?" : "");
}

int cmd_list(const arguments *args, text *out, text *why) {
  size_t first = 0;
  size_t end = 0;
  host h;
  if (!choose(args, &first, &end, why)) return STATUS_USAGE;
  if (!host_open(&h, args, 1, why)) return STATUS_FAILED;
  bool ok = host_load(&h, args, why);
  if (ok) {
    ok = args->given & OPTION_JSON ? print_json(h.rt, first, end, out)
                                   : print_tables(h.rt, first, end, out);
    if (!ok) fail_library(why);
  }
  host_close(&h);
  return ok ? STATUS_OK : STATUS_FAILED;
}
