/* SPDX-License-Identifier: Apache-2.0
 * operator.c: finds an operator by its name, and for a name that is none the
 * nearest one, or the way to load more plugins.
 */
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* Copies the part of "plugin.op@1" after the plugin, without the interface. */
static char *own_name(const char *name) {
  const char *dot = strchr(name, '.');
  const char *own = dot ? dot + 1 : name;
  return strndup(own, strcspn(own, "@"));
}

static bool is_of_plugin(const char *name, const char *plugin) {
  const size_t n = strlen(plugin);
  return !strncmp(name, plugin, n) && name[n] == '.';
}

static bool plugin_is_loaded(tn_runtime *rt, const char *name) {
  tn_plugin_info info;
  for (size_t i = 0; !tn_plugin_at(rt, i, &info); ++i)
    if (is_of_plugin(name, info.plugin->name)) return true;
  return false;
}

/* Own names of all operators, in the order of tn_operator_at. */
static char **all_names(tn_runtime *rt, size_t *n) {
  tn_operator *op = NULL;
  size_t count = 0;
  while (!tn_operator_at(rt, count, &op)) ++count;
  char **names = (char **)calloc(count + 1, sizeof *names);
  for (*n = 0; names && *n < count && !tn_operator_at(rt, *n, &op); ++*n) {
    names[*n] = own_name(tn_operator_name(op));
    if (!names[*n]) break;
  }
  return names;
}

void operator_nearest(tn_runtime *rt, const char *name, text *out) {
  size_t n = 0;
  tn_operator *op = NULL;
  char *wanted = own_name(name);
  char **names = all_names(rt, &n);
  const char *meant = wanted && names
                          ? did_you_mean(wanted, (const char *const *)names, n)
                          : NULL;
  for (size_t i = 0; meant && i < n; ++i)
    if (names[i] == meant && !tn_operator_at(rt, i, &op)) {
      const char *full = tn_operator_name(op);
      text_add(out, "%.*s", (int)strcspn(full, "@"), full);
    }
  for (size_t i = 0; names && i < n; ++i) free(names[i]);
  free(names);
  free(wanted);
}

bool operator_find(tn_runtime *rt, const char *name, tn_operator **out,
                   text *why) {
  const tn_code code = tn_operator_get(rt, name, out);
  if (!code) return true;
  fail_library(why);
  if (code != TN_NOT_FOUND || strstr(text_get(why), "did you mean"))
    return false;
  text meant = {0};
  operator_nearest(rt, name, &meant);
  if (meant.n)
    report_failure(why, "%s; did you mean \"%s\"?", text_get(why),
                   text_get(&meant));
  else if (!plugin_is_loaded(rt, name) && strchr(name, '.'))
    report_failure(why, "%s; %s", text_get(why), host_hint);
  text_deinit(&meant);
  return false;
}
