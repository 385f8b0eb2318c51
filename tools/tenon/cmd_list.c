/* SPDX-License-Identifier: Apache-2.0
 * cmd_list.c: `tenon list`: plugins, operators and devices of this machine, and
 * the backends of plugin `comm`.
 */
#include <string.h>

#include "tenon/plugin/comm.h"
#include "tenon_tool.h"

/* Without a word, the first N_USUAL kinds are listed. */
enum { N_KINDS = 4, N_USUAL = 3, KIND_OPERATORS = 1 };
const char *const list_words[] = {"plugins", "operators", "devices", "backends",
                                  NULL};

/* Which kinds [first, end) are listed, and the text in names of operators. */
typedef struct choice {
  size_t first;
  size_t end;
  const char *text; /* "" for all */
} choice;

/* ------------------------------------------------------------------ people */

static void add_heads(table *rows, const char *const *heads) {
  for (size_t i = 0; i < rows->n_columns; ++i) table_add(rows, "%s", heads[i]);
}

static bool list_plugins(tn_runtime *rt, const choice *c, text *out) {
  (void)c;
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
  if (!rows.n_cells) text_add(out, "no plugin is loaded; %s\n", host_hint);
  table_print(&rows, "", out);
  return true;
}

/* Whether the operator is listed: it can be called, and has the text in its
 * name. */
static bool is_listed(const tn_op *desc, const char *name, const choice *c) {
  return desc && !(desc->flags & TN_OP_BACKWARD_ONLY) &&
         strcasestr(name, c->text) != NULL;
}

/* The family of an operator; NULL: none. */
static const char *family_of(const tn_op *desc) {
  return TN_HAS(desc, family) ? desc->family : NULL;
}

static bool is_of_family(const tn_op *desc, const char *family) {
  const char *own = family_of(desc);
  return own && family ? !strcmp(own, family) : own == family;
}

/* The listed operators of one plugin. */
typedef struct plugin_list {
  tn_runtime *rt;
  const tn_plugin *plugin;
  const choice *choice;
  bool has_families; /* a family is printed already */
} plugin_list;

/* Adds a row for an operator if it is listed. */
static void add_operator(const plugin_list *list, const tn_op *desc,
                         table *rows) {
  tn_operator *op = NULL;
  text name = {0};
  text_add(&name, "%s.%s@%u", list->plugin->name, desc->name, desc->interface);
  if (is_listed(desc, text_get(&name), list->choice) &&
      !tn_operator_get(list->rt, text_get(&name), &op)) {
    table_add(rows, "%s", text_get(&name));
    table_add(rows, "%s%s", desc->summary ? desc->summary : "",
              desc->deprecated_since ? " (deprecated)" : "");
  }
  text_deinit(&name);
}

/* Adds the operators of a family (NULL: those without one), in the order of the
 * manifests, under the name of the family. */
static void add_family(plugin_list *list, const char *family, text *out) {
  table rows = {.n_columns = 2};
  for (uint32_t i = 0; i < list->plugin->n_operators; ++i)
    if (is_of_family(list->plugin->operators[i], family))
      add_operator(list, list->plugin->operators[i], &rows);
  list->has_families = list->has_families || (family && rows.n_cells);
  if (rows.n_cells && list->has_families) {
    const size_t from = out->n;
    text_add(out, "  %s", family ? family : "without a family");
    text_make_line(out, from);
    text_add(out, "\n");
  }
  table_print(&rows, list->has_families ? "    " : "  ", out);
}

/* Tests whether operator `n` is the first one of its family. */
static bool is_first_of_family(const tn_plugin *plugin, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (is_of_family(plugin->operators[i], family_of(plugin->operators[n])))
      return false;
  return true;
}

/* The operators of one plugin by family. The families have the order of their
 * first operators; operators without one are last. */
static void add_plugin(plugin_list *list, text *out) {
  const tn_plugin *plugin = list->plugin;
  text rows = {0};
  for (uint32_t i = 0; i < plugin->n_operators; ++i)
    if (family_of(plugin->operators[i]) && is_first_of_family(plugin, i))
      add_family(list, family_of(plugin->operators[i]), &rows);
  add_family(list, NULL, &rows);
  if (rows.n)
    text_add(out, "%s%s%s%s\n%s", out->n ? "\n" : "", plugin->name,
             plugin->summary ? ": " : "",
             plugin->summary ? plugin->summary : "", text_get(&rows));
  out->failed = out->failed || rows.failed;
  text_deinit(&rows);
}

static bool list_operators(tn_runtime *rt, const choice *c, text *out) {
  text all = {0};
  tn_plugin_info info;
  for (size_t i = 0; !tn_plugin_at(rt, i, &info); ++i)
    add_plugin(&(plugin_list){rt, info.plugin, c, false}, &all);
  if (!all.n)
    text_add(&all, "no operator: no plugin that has one is loaded; %s\n",
             host_hint);
  out->failed = out->failed || all.failed;
  text_add(out, "%s", text_get(&all));
  text_deinit(&all);
  return true;
}

static bool list_devices(tn_runtime *rt, const choice *c, text *out) {
  (void)c;
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

/* ---------------------------------------------------------------- backends */

/* Calls `add` with the name and the detail of each backend of plugin `comm`.
 * False if the plugin is not loaded. */
static bool visit_backends(tn_runtime *rt,
                           void (*add)(void *to, size_t i, const char *name,
                                       const char *detail),
                           void *to) {
  const void *functions = NULL;
  char lines[4000];
  if (tn_plugin_extension(rt, TN_COMM_EXTENSION, &functions)) return false;
  const tn_comm *comm = functions;
  comm->describe(comm->ctx, lines, sizeof lines);
  char *rest = NULL;
  size_t i = 0;
  for (char *line = strtok_r(lines, "\n", &rest); line;
       line = strtok_r(NULL, "\n", &rest)) {
    char *detail = strstr(line, ": ");
    if (!detail) continue;
    *detail = 0;
    add(to, i++, line, detail + 2);
  }
  return true;
}

static void add_backend_row(void *to, size_t i, const char *name,
                            const char *detail) {
  (void)i;
  table_add(to, "%s", name);
  table_add(to, "%s", detail);
}

static bool list_backends(tn_runtime *rt, const choice *c, text *out) {
  (void)c;
  table rows = {.n_columns = 2};
  static const char *const heads[] = {"NAME", "DETAIL"};
  add_heads(&rows, heads);
  if (visit_backends(rt, add_backend_row, &rows))
    table_print(&rows, "", out);
  else
    text_add(out, "no backend: plugin `comm` is not loaded; %s\n", host_hint);
  return true;
}

static void add_backend_json(void *to, size_t i, const char *name,
                             const char *detail) {
  text_add(to, "%s{\"name\": ", i ? ", " : "");
  text_add_json(to, name);
  text_add(to, ", \"detail\": ");
  text_add_json(to, detail);
  text_add(to, "}");
}

static bool json_backends(tn_runtime *rt, const choice *c, text *out) {
  (void)c;
  (void)visit_backends(rt, add_backend_json, out);
  return true;
}

/* -------------------------------------------------------------------- JSON */

static bool json_plugins(tn_runtime *rt, const choice *c, text *out) {
  (void)c;
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

static bool json_operators(tn_runtime *rt, const choice *c, text *out) {
  tn_operator *op = NULL;
  const char *separator = "";
  for (size_t i = 0; !tn_operator_at(rt, i, &op); ++i) {
    const tn_op *desc = tn_operator_desc(op);
    if (!is_listed(desc, tn_operator_name(op), c)) continue;
    text_add(out, "%s{\"name\": ", separator);
    text_add_json(out, tn_operator_name(op));
    text_add(out, ", \"family\": ");
    text_add_json(out, family_of(desc));
    text_add(out, ", \"summary\": ");
    text_add_json(out, desc->summary);
    text_add(out, ", \"deprecated\": %s}",
             desc->deprecated_since ? "true" : "false");
    separator = ", ";
  }
  return true;
}

static bool json_devices(tn_runtime *rt, const choice *c, text *out) {
  (void)c;
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

typedef bool list_fn(tn_runtime *rt, const choice *c, text *out);
static list_fn *const for_people[N_KINDS] = {list_plugins, list_operators,
                                             list_devices, list_backends};
static list_fn *const for_programs[N_KINDS] = {json_plugins, json_operators,
                                               json_devices, json_backends};

static bool print_json(tn_runtime *rt, const choice *c, text *out) {
  text_add(out, "{");
  for (size_t k = c->first; k < c->end; ++k) {
    text_add(out, "%s\"%s\": [", k > c->first ? ", " : "", list_words[k]);
    if (!for_programs[k](rt, c, out)) return false;
    text_add(out, "]");
  }
  text_add(out, "}\n");
  return true;
}

static bool print_tables(tn_runtime *rt, const choice *c, text *out) {
  for (size_t k = c->first; k < c->end; ++k) {
    if (c->end - c->first > 1)
      text_add(out, "%s%s\n", k > c->first ? "\n" : "", list_words[k]);
    if (!for_people[k](rt, c, out)) return false;
  }
  return true;
}

static bool choose_operators(const arguments *args, choice *out, text *why) {
  *out = (choice){.end = N_USUAL, .text = ""};
  if (args->n_words == 0) return true;
  const char *word = args->words[0];
  for (size_t k = 0; k < N_KINDS; ++k) {
    if (strcmp(word, list_words[k]) != 0) continue;
    const size_t most = k == KIND_OPERATORS ? 2 : 1;
    out->first = k;
    out->end = k + 1;
    if (most == 2 && args->n_words > 1) out->text = args->words[1];
    return args->n_words <= most ||
           report_failure(why, "list: unexpected `%s`; name one kind or none",
                          args->words[most]);
  }
  const char *meant = did_you_mean(word, list_words, N_KINDS);
  return report_failure(
      why, "list: unknown kind `%s`%s%s%s", word,
      meant ? "; did you mean `" : "; there are plugins, operators, ",
      meant ? meant : "devices and backends", meant ? "`?" : "");
}

/* A text that no operator has is a mistake, with the nearest name. */
static bool check_text(tn_runtime *rt, const choice *c, text *why) {
  tn_operator *op = NULL;
  text nearest = {0};
  if (!*c->text) return true;
  for (size_t i = 0; !tn_operator_at(rt, i, &op); ++i)
    if (is_listed(tn_operator_desc(op), tn_operator_name(op), c)) return true;
  operator_nearest(rt, c->text, &nearest);
  report_failure(why, "list operators: no operator has `%s` in its name%s%s%s",
                 c->text, nearest.n ? "; did you mean \"" : "",
                 text_get(&nearest), nearest.n ? "\"?" : "");
  text_deinit(&nearest);
  return false;
}

int cmd_list(const arguments *args, text *out, text *why) {
  choice c;
  host h;
  if (!choose_operators(args, &c, why)) return STATUS_USAGE;
  if (!host_open(&h, args, 1, why)) return STATUS_FAILED;
  bool ok = host_load(&h, args, why) && check_text(h.rt, &c, why);
  if (ok) {
    ok = args->given & OPTION_JSON ? print_json(h.rt, &c, out)
                                   : print_tables(h.rt, &c, out);
    if (!ok) fail_library(why);
  }
  host_close(&h);
  return ok ? STATUS_OK : STATUS_FAILED;
}
