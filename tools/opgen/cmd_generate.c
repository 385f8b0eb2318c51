/* SPDX-License-Identifier: Apache-2.0
 * cmd_generate.c: `opgen generate` and `opgen outputs`, the two commands for
 * build files.
 */
#include <string.h>
#include <sys/stat.h>

#include "opgen.h"

static tnm_plugin *read_manifests(const opgen_args *args, const char *path,
                                  bool lone) {
  const tnm_read_options options = {.with = args->with,
                                    .n_with = args->n_with,
                                    .installed = args->installed,
                                    .n_installed = args->n_installed,
                                    .lone = lone};
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  if (diags == NULL) {
    fprintf(stderr, "opgen: out of memory\n");
    return NULL;
  }
  tnm_plugin *plugin =
      tnm_plugin_read(tn__env_default(), path, &options, diags);
  if (plugin != NULL &&
      (!opgen_check_names(plugin, diags) || tnm_diags_errors(diags) > 0)) {
    tnm_plugin_release(plugin);
    plugin = NULL;
  }
  tnm_diags_print(diags, stderr, args->format, opgen_has_color());
  if (plugin == NULL && tnm_diags_errors(diags) == 0)
    fprintf(stderr, "opgen: %s: %s\n", path, tn_error_text());
  tnm_diags_release(diags);
  return plugin;
}

tnm_plugin *opgen_read(const opgen_args *args, const char *path) {
  return read_manifests(args, path, false);
}

tnm_plugin *opgen_read_lone(const opgen_args *args, const char *path) {
  return read_manifests(args, path, true);
}

static bool is_file(const char *path, const struct stat *want) {
  struct stat have;
  return stat(path, &have) == 0 && have.st_dev == want->st_dev &&
         have.st_ino == want->st_ino;
}

/* plugin.yaml lists the operator files already. Those on the command line are
 * checked against it, so that a build file cannot name an unused one. */
static bool all_listed(const opgen_args *args, const tnm_plugin *plugin) {
  for (size_t i = 1; i < args->n_files; ++i) {
    struct stat want;
    bool found = false;
    if (stat(args->files[i], &want) != 0) {
      fprintf(stderr, "opgen: %s: no such file\n", args->files[i]);
      return false;
    }
    for (size_t k = 0; k < plugin->n_files && !found; ++k)
      found = is_file(plugin->files[k], &want);
    if (found) continue;
    fprintf(stderr,
            "opgen: %s is not listed in `operators` of %s\n"
            "  = help: add it there, or take it out of the command\n",
            args->files[i], args->files[0]);
    return false;
  }
  return true;
}

static bool write_all(const opgen_args *args, const tnm_plugin *plugin) {
  opgen_files files;
  const opgen_selection wanted = {.cuda = args->cuda, .tests = args->tests};
  bool fine = opgen_files_init(&files, plugin, &wanted) &&
              opgen_files_write(&files, args->out_dir);
  if (fine && args->depfile != NULL)
    fine = opgen_depfile_write(&files, args, plugin);
  opgen_files_deinit(&files);
  return fine;
}

const tnm_operator *opgen_find_bound(const tnm_plugin *plugin) {
  for (size_t i = 0; i < plugin->n_operators; ++i)
    if (plugin->operators[i].binding != NULL) return &plugin->operators[i];
  return NULL;
}

bool opgen_is_compiled(const tnm_plugin *plugin) {
  const tnm_operator *op = opgen_find_bound(plugin);
  if (op == NULL) return true;
  fprintf(stderr,
          "opgen: %s: operator `%s` is bound to a library, so there is nothing "
          "to compile\n"
          "  = help: load %s itself\n",
          plugin->files[0], op->op->name, plugin->files[0]);
  return false;
}

int cmd_generate(const opgen_args *args) {
  if (args->out_dir == NULL)
    return opgen_usage_error(args->command, "`-o DIR` is missing");
  tnm_plugin *plugin = opgen_read(args, args->files[0]);
  if (plugin == NULL) return EXIT_ERRORS;
  const bool fine = opgen_is_compiled(plugin) && all_listed(args, plugin) &&
                    write_all(args, plugin);
  tnm_plugin_release(plugin);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}

int cmd_outputs(const opgen_args *args) {
  opgen_files files;
  tnm_plugin *plugin = opgen_read(args, args->files[0]);
  if (plugin == NULL) return EXIT_ERRORS;
  if (!opgen_is_compiled(plugin)) {
    tnm_plugin_release(plugin);
    return EXIT_ERRORS;
  }
  const opgen_selection wanted = {
      .cuda = args->cuda, .tests = args->tests, .names_only = true};
  const bool fine = opgen_files_init(&files, plugin, &wanted);
  for (size_t i = 0; i < files.n && fine; ++i) puts(files.v[i].name);
  opgen_files_deinit(&files);
  tnm_plugin_release(plugin);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}
