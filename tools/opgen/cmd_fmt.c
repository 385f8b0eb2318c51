/* SPDX-License-Identifier: Apache-2.0
 * cmd_fmt.c: `opgen fmt`: writes manifests in canonical form. A formatter must
 * never change the meaning of a manifest. Before anything is written, the trees
 * of both texts are compared, and the tables byte for byte if the plugin can be
 * read.
 */
#include <string.h>

#include "opgen.h"

/* One file. */
typedef struct job {
  const char *path;
  tnm_diags *diags;
  char *text;
  size_t n;
  tn__buf out;
} job;

/* ---------------------------------------------------------------- the proof */

/* Encodes the tables of the plugin that the file belongs to; `text`, if any,
 * replaces its content. False without tables: the manifest has mistakes, or is
 * alone. */
static bool encode_tables(const job *j, const tnm_text *text, tn__buf *out) {
  const tnm_read_options options = {.lone = true};
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  if (diags == NULL) return false;
  tnm_plugin *plugin =
      tnm_plugin_read_with(tn__env_default(), j->path, text, &options, diags);
  tnm_diags_release(diags);
  if (plugin == NULL) return false;
  tn__tables_encode(plugin->plugin, out);
  tnm_plugin_release(plugin);
  return !out->failed;
}

static bool is_equal(const tn__buf *a, const tn__buf *b) {
  return a->n == b->n && memcmp(a->s, b->s, a->n) == 0;
}

static bool has_same_tables(const job *j) {
  const tnm_text text = {.path = j->path, .text = j->out.s, .n = j->out.n};
  tn__buf before, after;
  tn__buf_init(&before, tn__env_default());
  tn__buf_init(&after, tn__env_default());
  const bool same =
      !encode_tables(j, NULL, &before) ||
      (encode_tables(j, &text, &after) && is_equal(&before, &after));
  tn__buf_deinit(&before);
  tn__buf_deinit(&after);
  if (!same)
    fprintf(stderr,
            "opgen: %s: formatted, it would give other tables, so it was left "
            "as it is; please report it with the file\n",
            j->path);
  return same;
}

/* ----------------------------------------------------------------- one file */

/* The exit status for one file whose canonical form is known. */
static int finish_file(const job *j, bool only_check) {
  if (j->out.n == j->n && memcmp(j->out.s, j->text, j->n) == 0)
    return EXIT_FINE;
  if (!has_same_tables(j)) return EXIT_ERRORS;
  if (!only_check)
    return opgen_file_replace(j->path, j->out.s, j->out.n) ? EXIT_FINE
                                                           : EXIT_ERRORS;
  printf("%s\n", j->path);
  return EXIT_ERRORS;
}

static int format_text(job *j, bool only_check) {
  const uint32_t file = tnm_diags_add_file(j->diags, j->path, j->text, j->n);
  const tn_code code =
      tnm_layout_text(tn__env_default(), j->diags, file, j->path, &j->out);
  if (code == TN_OK) return finish_file(j, only_check);
  if (code != TN_INVALID) fprintf(stderr, "opgen: %s\n", tn_error_text());
  return EXIT_ERRORS;
}

static int format_file(const char *path, tnm_diags *diags, bool only_check) {
  job j = {.path = path, .diags = diags};
  int status = EXIT_ERRORS;
  tn__buf_init(&j.out, tn__env_default());
  if (tnm_read_file(tn__env_default(), path, TNM_MAX_BYTES, &j.text, &j.n) ==
      TN_OK)
    status = format_text(&j, only_check);
  else
    fprintf(stderr, "opgen: cannot read %s: %s\n", path, tn_error_text());
  tn__free(tn__env_default(), j.text);
  tn__buf_deinit(&j.out);
  return status;
}

int cmd_fmt(const opgen_args *args) {
  int status = EXIT_FINE;
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  if (diags == NULL) {
    fprintf(stderr, "opgen: out of memory\n");
    return EXIT_ERRORS;
  }
  for (size_t i = 0; i < args->n_files; ++i)
    if (format_file(args->files[i], diags, args->only_check) != EXIT_FINE)
      status = EXIT_ERRORS;
  tnm_diags_print(diags, stderr, args->format, opgen_has_color());
  tnm_diags_release(diags);
  return status;
}
