/* SPDX-License-Identifier: Apache-2.0
 * cmd_check.c: `opgen check`: every mistake of the given manifests in one run.
 */
#include <string.h>

#include "opgen.h"

/* False if the check itself could not be done. */
static bool check_path(const opgen_args *args, const char *path,
                       tnm_diags *diags) {
  const tnm_read_options options = {args->with, args->n_with};
  const size_t before = tnm_diags_errors(diags);
  tnm_plugin *plugin =
      tnm_plugin_read(tn__env_default(), path, &options, diags);
  if (plugin == NULL) {
    if (tnm_diags_errors(diags) > before) return true;
    fprintf(stderr, "opgen: %s: %s\n", path, tn_error_text());
    return false;
  }
  const bool fine = opgen_check_examples(plugin, diags);
  if (!fine) fprintf(stderr, "opgen: %s: %s\n", path, tn_error_text());
  tnm_plugin_release(plugin);
  return fine;
}

int cmd_check(const opgen_args *args) {
  static const char *const here[] = {"."};
  const char *const *paths = args->n_files > 0 ? args->files : here;
  const size_t n = args->n_files > 0 ? args->n_files : 1;
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  bool fine = diags != NULL;
  if (diags == NULL) fprintf(stderr, "opgen: out of memory\n");
  for (size_t i = 0; i < n && fine; ++i)
    fine = check_path(args, paths[i], diags);
  if (diags != NULL) {
    tnm_diags_print(diags, stderr, args->format, opgen_color());
    fine = fine && tnm_diags_errors(diags) == 0 &&
           !(args->werror && tnm_diags_warnings(diags) > 0);
  }
  tnm_diags_release(diags);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}
