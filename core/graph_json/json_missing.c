/* SPDX-License-Identifier: Apache-2.0
 * json_missing.c: collects the plugins and operators that a graph file uses
 * and that the registry does not have, so that one message lists all of them.
 * Missing: the plugin is not loaded. Unknown: it is, without the operator.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

enum {
  LOST_BYTES = 3500,
  NAME_BYTES = 200
}; /* largest number of bytes of all names in a message, and of one name */

/* Tests whether the message has space for `bytes` more. Counts one more missing
 * name, and one that is not in the message if there is no space. */
static bool reserve_message_bytes(tn__graph_reader *r, size_t bytes) {
  ++r->n_missing;
  if (r->missing.n + r->unknown.n + bytes <= LOST_BYTES) return true;
  ++r->n_unnamed;
  return false;
}

void tn__json_note_missing(tn__graph_reader *r, const char *what,
                           const char *name, const char *detail) {
  if (reserve_message_bytes(r, strnlen(name, NAME_BYTES) + strlen(detail)))
    tn__buf_add(&r->missing, "%s%s `%.*s`%s", r->missing.n > 0 ? ", " : "",
                what, NAME_BYTES, name, detail);
}

/* ---------------------------------------------------------------- operators */

/* Finds the loaded plugin with the prefix of the operator name `op`; NULL if it
 * is not loaded. */
static const tn_plugin *find_plugin(const tn__graph_reader *r, const char *op) {
  tn_plugin_info info;
  for (size_t i = 0; !tn__plugin_at(r->caller->registry, i, &info); ++i) {
    const size_t n = strlen(info.plugin->name);
    if (!strncmp(info.plugin->name, op, n) && op[n] == '.') return info.plugin;
  }
  return NULL;
}

/* Finds the operator of a plugin with this name and any interface number; NULL
 * if there is none. */
static const tn_op *find_any_interface(const tn_plugin *plugin,
                                       const char *name) {
  for (uint32_t i = 0; i < plugin->n_operators; ++i)
    if (!strcmp(plugin->operators[i]->name, name)) return plugin->operators[i];
  return NULL;
}

static const char *find_near_name(const tn_plugin *plugin, const char *name) {
  enum { LIMIT = 1000 }; /* maximal number of names to compare */
  const char *names[LIMIT];
  size_t n = 0;
  for (uint32_t i = 0; i < plugin->n_operators && n < LIMIT; ++i)
    if (!(plugin->operators[i]->flags & TN_OP_BACKWARD_ONLY))
      names[n++] = plugin->operators[i]->name;
  return tn__find_nearest_word(name, names, n);
}

/* Notes an operator that its loaded plugin does not have. */
static void add_unknown_operator(tn__graph_reader *r, const tn__node_draft *d,
                                 const tn_plugin *plugin) {
  const char *own = d->op + strlen(plugin->name) + 1;
  const char *interface = strchr(own, '@');
  char name[NAME_BYTES];
  tn__buf *to = &r->unknown;
  (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(own, "@"), own);
  if (!reserve_message_bytes(r, 2 * strlen(name) + strlen(plugin->name) + 300))
    return;
  const tn_op *same = interface ? find_any_interface(plugin, name) : NULL;
  const char *near = same ? NULL : find_near_name(plugin, name);
  if (to->n > 0) tn__buf_add(to, "; ");
  if (d->seen & TN__KEY_NAME) tn__buf_add(to, "node `%.200s`: ", d->name);
  if (same)
    tn__buf_add(
        to, "operator `%s` in plugin `%s` has interface %" PRIu32 ", not %.20s",
        name, plugin->name, same->interface, interface + 1);
  else
    tn__buf_add(to, "no operator `%s` in plugin `%s`", name, plugin->name);
  if (near) tn__buf_add(to, ", did you mean `%s`", near);
}

tn_code tn__json_note_missing_operator(tn__graph_reader *r,
                                       const tn__node_draft *d) {
  char detail[256];
  if (tn__map_get(&r->missing_names, d->op)) return TN_OK;
  const tn_plugin *plugin = find_plugin(r, d->op);
  (void)snprintf(detail, sizeof detail, " (node `%.200s`)",
                 d->seen & TN__KEY_NAME ? d->name : "");
  if (plugin)
    add_unknown_operator(r, d, plugin);
  else
    tn__json_note_missing(r, "operator", d->op, detail);
  return tn__map_set(r->env, &r->missing_names, d->op, r);
}

tn_code tn__json_check_found(const tn__graph_reader *r) {
  if (r->n_missing == 0) return TN_OK;
  if (r->missing.failed || r->unknown.failed)
    return tn__fail_memory(LOST_BYTES, "a message");
  if (r->unknown.n == 0)
    tn__fail(TN_NOT_FOUND, "the graph needs plugins that are not loaded: %s",
             r->missing.s);
  else if (r->missing.n == 0)
    tn__fail(TN_NOT_FOUND, "%s", r->unknown.s);
  else
    tn__fail(TN_NOT_FOUND,
             "%s; the graph needs plugins that are not loaded: "
             "%s",
             r->unknown.s, r->missing.s);
  if (r->n_unnamed > 0)
    tn__fail_more(TN_NOT_FOUND, ", and %" PRIu32 " more", r->n_unnamed);
  if (r->missing.n > 0)
    tn__fail_more(TN_NOT_FOUND, "; load the plugins that have it first");
  return TN_NOT_FOUND;
}
