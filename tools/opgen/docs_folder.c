/* SPDX-License-Identifier: Apache-2.0
 * docs_folder.c: writes a manual as a folder of Markdown files: README.md,
 * which lists the operators, and NAME.md for each operator.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "docs.h"

static bool has_page(const docs *d, size_t i) {
  return d->plugin->operators[i].op != NULL;
}

static bool has_unlisted(const docs *d) {
  for (size_t i = 0; i < d->plugin->n_operators; ++i)
    if (has_page(d, i) && !docs_is_listed(&d->plugin->operators[i]))
      return true;
  return false;
}

static void add_row(tn__buf *out, const tn_op *op) {
  tn__buf_add(out, "| [%s](%s.md) | ", op->name, op->name);
  docs_plain(out, op->summary != NULL ? op->summary : "");
  tn__buf_add(out, " |\n");
}

static void add_family(tn__buf *out, const docs *d, const char *family) {
  docs_family_title(out, d, family, "### ");
  tn__buf_add(out, "| operator | summary |\n|---|---|\n");
  for (size_t i = 0; i < d->plugin->n_operators; ++i)
    if (docs_is_of_family(&d->plugin->operators[i], family))
      add_row(out, d->plugin->operators[i].op);
  tn__buf_add(out, "\n");
}

static void add_unlisted(tn__buf *out, const docs *d) {
  tn__buf_add(out, "| operator | summary |\n|---|---|\n");
  for (size_t i = 0; i < d->plugin->n_operators; ++i)
    if (has_page(d, i) && !docs_is_listed(&d->plugin->operators[i]))
      add_row(out, d->plugin->operators[i].op);
  tn__buf_add(out, "\n");
}

static void write_index(tn__buf *out, const docs *d) {
  const tn_plugin *plugin = d->plugin->plugin;
  docs_title(out, plugin);
  if (plugin->n_operators > 0) {
    tn__buf_add(out, "## Operators\n\n");
    docs_families(out, d, add_family);
  }
  if (has_unlisted(d)) {
    tn__buf_add(out, "## For gradients\n\n");
    add_unlisted(out, d);
  }
  docs_added_kernels(out, d);
}

static bool write_file(const char *folder, const char *name, tn__buf *text) {
  tn__buf path;
  tn__buf_init(&path, tn__env_default());
  tn__buf_add(&path, "%s/%s.md", folder, name);
  docs_trim_end(text);
  const bool fine =
      !path.failed && !text->failed && opgen_file_write(path.s, text);
  tn__buf_deinit(&path);
  return fine;
}

static bool write_operator(const docs *d, const char *folder, size_t i) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  docs_page(&text, d, i, 1);
  const bool fine = write_file(folder, d->plugin->operators[i].op->name, &text);
  tn__buf_deinit(&text);
  return fine;
}

static bool write_list(const docs *d, const char *folder) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  write_index(&text, d);
  const bool fine = write_file(folder, "README", &text);
  tn__buf_deinit(&text);
  return fine;
}

bool docs_folder(const docs *d, const char *folder) {
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
    fprintf(stderr, "opgen: cannot make %s: %s\n", folder, strerror(errno));
    return false;
  }
  bool fine = write_list(d, folder);
  for (size_t i = 0; i < d->plugin->n_operators && fine; ++i)
    if (has_page(d, i)) fine = write_operator(d, folder, i);
  return fine;
}
