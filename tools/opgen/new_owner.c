/* SPDX-License-Identifier: Apache-2.0
 * new_owner.c: finds the names for the build file of kernels for another
 * plugin's operator: the plugin, which the tests load, and its manifests, which
 * contain the examples.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "built.h"
#include "new.h"

/* ----------------------------------------------------------- words of meson */

static void begin_item(tn__buf *list) {
  if (list->n > 0) tn__buf_add(list, ", ");
}

/* Adds a string in the syntax of meson. */
static void add_string(tn__buf *list, const char *text) {
  begin_item(list);
  tn__buf_add(list, "'");
  for (; *text != '\0'; ++text)
    if (*text == '\n')
      tn__buf_add(list, "\\n");
    else
      tn__buf_add(list, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
  tn__buf_add(list, "'");
}

/* ------------------------------------------------------ plugins of `--with` */

/* Reads kernels for the operator; NULL if no file describes it. The caller
 * releases the result. */
static tnm_plugin *probe_target(const char *target,
                                const tnm_read_options *options) {
  char document[256];
  const int n = snprintf(document, sizeof document,
                         "opgen: 1\nkernels_for: %s\n"
                         "kernels: [{device: cpu, forward: probe_cpu}]\n",
                         target);
  const tnm_text text = {
      .path = target, .text = document, .n = (size_t)n, .plugin = "probe"};
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  tnm_plugin *plugin = NULL;
  if (diags != NULL && n > 0 && (size_t)n < sizeof document)
    plugin =
        tnm_plugin_read_with(tn__env_default(), NULL, &text, options, diags);
  tnm_diags_release(diags);
  return plugin;
}

/* Does the same with one path. */
static tnm_plugin *probe_path(const char *target, const char *path) {
  const tnm_read_options options = {.with = &path, .n_with = 1};
  return probe_target(target, &options);
}

/* The file that loads a plugin without compiled parts. False if `path` is
 * neither plugin.yaml nor its folder. */
static bool plugin_file(const char *path, char *file) {
  struct stat about;
  const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
  const int n =
      snprintf(file, PATH_MAX, "%s%s", path, folder ? "/plugin.yaml" : "");
  const char *name = strrchr(file, '/');
  return n > 0 && n < PATH_MAX && name != NULL &&
         strcmp(name, "/plugin.yaml") == 0;
}

/* Tests whether a built plugin in `--with` has the operator. */
static bool is_with(const opgen_args *args, const char *called) {
  bool found = false;
  for (size_t i = 0; i < args->n_with && !found; ++i) {
    tnm_plugin *plugin = is_built_plugin(args->with[i])
                             ? probe_path(called, args->with[i])
                             : NULL;
    found = plugin != NULL;
    tnm_plugin_release(plugin);
  }
  return found;
}

static void add_with(new_owner *o, const char *path) {
  char file[PATH_MAX];
  const bool built = is_built_plugin(path);
  tnm_plugin *plugin = probe_path(o->target, path);
  const tnm_operator *described =
      plugin != NULL ? plugin->operators[0].described : NULL;
  const bool bound = described != NULL && described->binding != NULL &&
                     plugin_file(path, file);
  add_string(built || bound ? &o->others : &o->manifests, bound ? file : path);
  o->is_built |= bound || (built && plugin != NULL);
  o->is_described |= described != NULL;
  tnm_plugin_release(plugin);
}

/* ---------------------------------------------------------------- installed */

/* "PREFIX/lib/tenon/nn.so" */
static bool is_installed(const char *beside, const char *name,
                         const char *end) {
  char folder[PATH_MAX], path[PATH_MAX];
  struct stat about;
  if (!opgen_find_installed(beside, folder)) return false;
  const int n = snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
  return n > 0 && (size_t)n < sizeof path && stat(path, &about) == 0;
}

static void add_installed(new_owner *o) {
  if (!o->is_built && is_installed(OPGEN_PLUGINS, o->name, ".so")) {
    begin_item(&o->others);
    tn__buf_add(&o->others, "plugindir / '%s.so'", o->name);
    o->is_built = true;
  }
  if (!o->is_built && is_installed(OPGEN_PLUGINS, o->name, "/plugin.yaml")) {
    begin_item(&o->others);
    tn__buf_add(&o->others, "plugindir / '%s/plugin.yaml'", o->name);
    o->is_built = o->is_described = true;
  }
  if (!o->is_described &&
      is_installed(OPGEN_MANIFESTS, o->name, "/plugin.yaml")) {
    begin_item(&o->manifests);
    tn__buf_add(&o->manifests, "manifestdir / '%s'", o->name);
    o->is_described = true;
  }
}

/* --------------------------------------------------------- called operators */

/* Adds the plugin of "elemwise.neg@1", if it is installed and not in
 * `others`. */
static void add_called(new_owner *o, const opgen_args *args,
                       const char *called) {
  char name[128], item[sizeof name + 32];
  const size_t n = strcspn(called, ".");
  if (n >= sizeof name) return;
  memcpy(name, called, n);
  name[n] = '\0';
  (void)snprintf(item, sizeof item, "plugindir / '%s.so'", name);
  if (strcmp(name, o->name) == 0 ||
      (o->others.n > 0 && strstr(o->others.s, item) != NULL) ||
      !is_installed(OPGEN_PLUGINS, name, ".so") || is_with(args, called))
    return;
  begin_item(&o->others);
  tn__buf_add(&o->others, "%s", item);
}

static void add_calls(new_owner *o, const opgen_args *args) {
  const tnm_read_options options = {.with = args->with,
                                    .n_with = args->n_with,
                                    .installed = args->installed,
                                    .n_installed = args->n_installed};
  tnm_plugin *plugin = probe_target(o->target, &options);
  const tn_gradient *g =
      plugin != NULL ? plugin->operators[0].target_op->gradient : NULL;
  for (uint32_t i = 0; g != NULL && i < g->n_inputs; ++i)
    for (uint32_t k = 0; k < g->inputs[i]->n_steps; ++k)
      if (g->inputs[i]->steps[k].what == TN_STEP_CALL)
        add_called(o, args, g->inputs[i]->steps[k].op);
  tnm_plugin_release(plugin);
}

/* ------------------------------------------------------------------ outside */

bool new_owner_find(new_owner *o, const opgen_args *args) {
  char path[PATH_MAX];
  tn__buf_init(&o->others, tn__env_default());
  tn__buf_init(&o->manifests, tn__env_default());
  for (size_t i = 0; i < args->n_with; ++i)
    if (realpath(args->with[i], path) != NULL) add_with(o, path);
  add_installed(o);
  add_calls(o, args);
  if (!o->others.failed && !o->manifests.failed) return true;
  fprintf(stderr, "opgen new: out of memory\n");
  return false;
}

void new_owner_deinit(new_owner *o) {
  tn__buf_deinit(&o->others);
  tn__buf_deinit(&o->manifests);
}

void new_owner_print(const new_owner *o) {
  if (!o->is_built)
    printf(
        "edit others in meson.build: add the path of the built plugin `%s`, "
        "which is\n"
        "  not known here; the tests call its operators\n",
        o->name);
  if (!o->is_described)
    printf(
        "edit manifests in meson.build: add the folder of the manifests of "
        "`%s`, which\n"
        "  is not known here; the tests compute their examples\n",
        o->name);
}
