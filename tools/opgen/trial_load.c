/* SPDX-License-Identifier: Apache-2.0
 * trial_load.c: loads the plugin with the examples, the plugins of the
 * operators that its gradients call, and those of the operators that its
 * kernels implement.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "built.h"
#include "trial_child.h"

/* Makes a name with a slash, so that the linker does not search for it. */
tn_code trial_load_one(tn_runtime *rt, const char *path) {
  char file[PATH_MAX];
  const int n = snprintf(file, sizeof file, "%s%s",
                         strchr(path, '/') != NULL ? "" : "./", path);
  if (n < 0 || (size_t)n >= sizeof file)
    return tn__fail(TN_INVALID, "%.80s...: this name is too long", path);
  return tn_plugin_load(rt, file);
}

/* Tests whether a plugin needs no compilation. One with unreadable manifests
 * counts as such: loading it reports the reason. */
static bool is_bound(const trial_files *files, const char *path) {
  const tn__env *env = tn__env_default();
  const tnm_read_options options = {
      .with = files->with, .n_with = files->n_with, .lone = true};
  tnm_diags *diags = tnm_diags_create(env);
  if (diags == NULL) return true;
  tnm_plugin *plugin = tnm_plugin_read(env, path, &options, diags);
  const bool bound = plugin == NULL || opgen_find_bound(plugin) != NULL;
  tnm_plugin_release(plugin);
  tnm_diags_release(diags);
  return bound;
}

/* Loads the plugins of `--with`: built plugins, and manifests that are complete
 * plugins. Other manifests only describe the target of `kernels_for`. */
static tn_code load_with(tn_runtime *rt, const trial_files *files,
                         const char *path) {
  char file[PATH_MAX];
  struct stat about;
  const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
  const int n =
      snprintf(file, sizeof file, "%s%s", path, folder ? "/plugin.yaml" : "");
  if (n < 0 || (size_t)n >= sizeof file)
    return tn__fail(TN_INVALID, "%.80s...: this name is too long", path);
  return is_built_plugin(path) || is_bound(files, file)
             ? trial_load_one(rt, file)
             : TN_OK;
}

/* Loads an installed plugin of bindings if a call is one of its operators. */
static void load_bound(tn_runtime *rt, const char *folder, const char *call,
                       const char *whose) {
  char file[PATH_MAX];
  struct stat about;
  tn_operator *op = NULL;
  if (tn_operator_get(rt, call, &op) == TN_OK) return;
  const int n = snprintf(file, sizeof file, "%s/%.*s/plugin.yaml", folder,
                         (int)strcspn(call, "."), call);
  if (n < 0 || (size_t)n >= sizeof file || stat(file, &about) != 0) return;
  if (trial_load_one(rt, file) != TN_OK)
    trial_write(TRIAL_LOG, "0 opgen: %s is not there for %s: %s", call, whose,
                tn_error_text());
}

/* Loads the plugins that one gradient calls. */
static void load_steps(tn_runtime *rt, const char *folder,
                       const tn_input_gradient *input) {
  for (uint32_t i = 0; i < input->n_steps; ++i)
    if (input->steps[i].what == TN_STEP_CALL)
      load_bound(rt, folder, input->steps[i].op, "a gradient");
}

/* Tests for examples of kernels for an operator of another plugin. */
static bool is_for_another(const tnm_operator *op) {
  return op->target != NULL && op->n_examples > 0;
}

/* The gradient of the operator of the examples. */
static const tn_gradient *graph_of(const tnm_operator *op) {
  const tn_op *desc = is_for_another(op) ? op->target_op : op->op;
  const tn_gradient *gradient = desc != NULL ? desc->gradient : NULL;
  const bool graph = gradient != NULL && gradient->kind == TN_GRADIENT_GRAPH;
  return graph ? gradient : NULL;
}

static bool has_graph(const tnm_plugin *plugin) {
  bool any = false;
  for (size_t i = 0; i < plugin->n_operators; ++i)
    any = any || graph_of(&plugin->operators[i]) != NULL;
  return any;
}

/* Tests whether examples need more than the plugin itself. */
static bool needs_others(const tnm_plugin *plugin) {
  bool any = has_graph(plugin);
  for (size_t i = 0; i < plugin->n_operators; ++i)
    any = any || is_for_another(&plugin->operators[i]);
  return any;
}

/* Loads the installed plugins: built ones, and called bindings. A built one may
 * fail to load (none installed; this one, in another build); then the call
 * reports that it is missing. */
static void load_installed(tn_runtime *rt, const tnm_plugin *plugin,
                           bool *quiet) {
  char folder[PATH_MAX];
  if (!opgen_find_installed(OPGEN_PLUGINS, folder)) return;
  *quiet = true;
  const tn_code ignored = tn_plugins_load_path(rt, folder);
  (void)ignored;
  *quiet = false;
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    const tn_gradient *gradient = graph_of(&plugin->operators[i]);
    for (uint32_t k = 0; gradient != NULL && k < gradient->n_inputs; ++k)
      load_steps(rt, folder, gradient->inputs[k]);
    if (is_for_another(&plugin->operators[i]))
      load_bound(rt, folder, plugin->operators[i].target->op, "a kernel");
  }
}

tn_code trial_load(tn_runtime *rt, const tnm_plugin *plugin,
                   const trial_files *files, bool *quiet) {
  /* Built ones first: some provide functions that the plugin looks for. */
  for (size_t i = 0; i < files->n_with; ++i)
    if (is_built_plugin(files->with[i]))
      TN__TRY(load_with(rt, files, files->with[i]));
  TN__TRY(trial_load_one(rt, files->path));
  if (!needs_others(plugin)) return TN_OK;
  for (size_t i = 0; i < files->n_with; ++i)
    if (!is_built_plugin(files->with[i]))
      TN__TRY(load_with(rt, files, files->with[i]));
  load_installed(rt, plugin, quiet);
  return TN_OK;
}
