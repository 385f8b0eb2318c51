/* SPDX-License-Identifier: Apache-2.0
 * cmd_check.c: `opgen check`: reports every mistake of the listed manifests and
 * built plugins in one run.
 */
#include <string.h>

#include "built.h"
#include "lint.h"
#include "opgen.h"

/* One run. */
typedef struct check {
  const opgen_args *args;
  lint_levels levels;
  tnm_diags *diags;
  tn__vec plugins; /* tnm_plugin *, without mistakes */
} check;

/* False if the check itself failed. */
static bool check_manifest(check *c, const char *path) {
  const tnm_read_options options = {
      .with = c->args->with, .n_with = c->args->n_with, .lone = true};
  const size_t before = tnm_diags_errors(c->diags);
  tnm_plugin *plugin =
      tnm_plugin_read(tn__env_default(), path, &options, c->diags);
  if (plugin == NULL && tnm_diags_errors(c->diags) > before) return true;
  const bool fine =
      plugin != NULL && opgen_check_examples(plugin, c->diags) &&
      opgen_check_names(plugin, c->diags) &&
      tn__vec_push(tn__env_default(), &c->plugins, plugin) == TN_OK;
  if (fine) return true;
  fprintf(stderr, "opgen: %s: %s\n", path, tn_error_text());
  tnm_plugin_release(plugin);
  return false;
}

/* Manifests come first: they contain the examples of the built plugins. */
static bool check_paths(check *c, const char *const *paths, size_t n) {
  bool fine = true;
  for (size_t i = 0; i < n && fine; ++i)
    if (!is_built_plugin(paths[i])) fine = check_manifest(c, paths[i]);
  /* lints run only when there are no mistakes */
  const bool lints = fine && tnm_diags_errors(c->diags) == 0;
  for (size_t i = 0; i < c->plugins.n && lints; ++i)
    lint_run(c->plugins.v[i], &c->levels, c->diags);
  const built_manifests given = {&c->plugins, lints};
  for (size_t i = 0; i < n && fine; ++i)
    if (is_built_plugin(paths[i]))
      fine = built_check(c->args, paths[i], &given, c->diags);
  return fine;
}

static int run_check(check *c) {
  static const char *const here[] = {"."};
  const opgen_args *args = c->args;
  const bool given = args->n_files > 0;
  bool fine =
      check_paths(c, given ? args->files : here, given ? args->n_files : 1);
  tnm_diags_print(c->diags, stderr, args->format, opgen_has_color());
  fine = fine && tnm_diags_errors(c->diags) == 0 &&
         !(args->werror && tnm_diags_warnings(c->diags) > 0);
  for (size_t i = 0; i < c->plugins.n; ++i) tnm_plugin_release(c->plugins.v[i]);
  tn__vec_deinit(tn__env_default(), &c->plugins);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}

int cmd_check(const opgen_args *args) {
  check c = {.args = args};
  if (args->list_lints) {
    lint_list();
    return EXIT_FINE;
  }
  if (!lint_levels_init(&c.levels, args)) return EXIT_USAGE;
  c.diags = tnm_diags_create(tn__env_default());
  if (c.diags == NULL) {
    fprintf(stderr, "opgen: out of memory\n");
    return EXIT_ERRORS;
  }
  const int status = run_check(&c);
  tnm_diags_release(c.diags);
  return status;
}
