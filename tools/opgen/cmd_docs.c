/* SPDX-License-Identifier: Apache-2.0
 * cmd_docs.c: `opgen docs`: writes the manual of a plugin, as one Markdown file
 * or as a folder of them. The built plugin, if there is one, computes the
 * examples.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "docs.h"

/* --------------------------------------------------------- the built plugin */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* Length of the folder of the manifests in `path`. */
static size_t folder_length(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return strlen(path);
  return (size_t)(base_name(path) - path);
}

/* Finds the built plugin: in the option, or next to the manifests. False if
 * there is none; then `out` is empty. */
static bool find_built(const opgen_args *args, const tnm_plugin *plugin,
                       tn__buf *out) {
  if (args->plugin != NULL) {
    tn__buf_add(out, "%s", args->plugin);
    return !out->failed;
  }
  const char *path = args->files[0];
  const size_t n = folder_length(path);
  tn__buf_bytes(out, path, n);
  tn__buf_add(out, "%s%s.so", n > 0 && path[n - 1] != '/' ? "/" : "",
              plugin->plugin->name);
  return !out->failed && access(out->s, R_OK) == 0;
}

/* ----------------------------------------------------------------- one file */

static void write_line(tn__buf *out, const tn_op *op, const char *note) {
  tn__buf_add(out, "- [%s](#op-%s): ", op->name, op->name);
  docs_plain(out, op->summary != NULL ? op->summary : "");
  tn__buf_add(out, "%s\n", note);
}

static void write_family(tn__buf *out, const docs *d, const char *family) {
  docs_trim_end(out);
  tn__buf_add(out, "\n");
  docs_family_title(out, d, family, "**");
  for (size_t i = 0; i < d->plugin->n_operators; ++i)
    if (docs_is_of_family(&d->plugin->operators[i], family))
      write_line(out, d->plugin->operators[i].op, "");
}

/* Writes the list of all operators, those for gradients last. */
static void write_contents(tn__buf *out, const docs *d) {
  docs_families(out, d, write_family);
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    const tnm_operator *op = &d->plugin->operators[i];
    if (op->op != NULL && !docs_is_listed(op))
      write_line(out, op->op, " (for gradients)");
  }
}

void docs_trim_end(tn__buf *out) {
  while (out->n > 1 && out->s[out->n - 2] == '\n') out->s[--out->n] = '\0';
}

static void write_all(tn__buf *out, const docs *d) {
  const tn_plugin *plugin = d->plugin->plugin;
  docs_title(out, plugin);
  write_contents(out, d);
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    if (d->plugin->operators[i].op == NULL) continue;
    tn__buf_add(out, "\n<a id=\"op-%s\"></a>\n\n",
                d->plugin->operators[i].op->name);
    docs_page(out, d, i, 2);
    docs_trim_end(out);
  }
  if (plugin->n_operators > 0) tn__buf_add(out, "\n");
  docs_added_kernels(out, d);
  docs_trim_end(out);
}

static bool write_one(const docs *d, const char *path) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  write_all(&text, d);
  bool fine = !text.failed;
  if (fine && path != NULL) fine = opgen_file_write(path, &text);
  if (fine && path == NULL) fputs(text.s, stdout);
  tn__buf_deinit(&text);
  return fine;
}

/* ------------------------------------------------------------------ command */

static bool write_docs(const opgen_args *args, const docs *d) {
  if (args->pages == NULL) return write_one(d, args->out_dir);
  return docs_folder(d, args->pages);
}

/* A manual must not contain an example with another result than the manifest
 * states. */
static bool check_results(const docs *d) {
  bool fine = true;
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    const tnm_operator *op = &d->plugin->operators[i];
    for (size_t k = 0; k < op->n_examples; ++k)
      for (const trial_value *v = d->trials->v[i][k].values; v != NULL;
           v = v->next) {
        if (trial_agrees(&op->examples[k], v)) continue;
        fprintf(stderr,
                "opgen: %s: example `%s` of `%s`: `%s%s` differs from the "
                "result of %s\n",
                op->file, op->examples[k].name,
                op->op != NULL ? op->op->name : op->target->op,
                v->grad ? "grad." : "", v->name, d->built);
        fine = false;
      }
  }
  return fine;
}

/* A file on the command line must be a plugin. A file that was only found may
 * be anything; then the pages say that nothing was computed. */
static bool is_loaded(const opgen_args *args, const trials *t) {
  if (args->plugin == NULL || t->refused == NULL) return true;
  fprintf(stderr, "opgen: %s: nothing can be computed with it: %s\n",
          args->plugin, t->refused);
  return false;
}

static bool write_with(const opgen_args *args, const tnm_plugin *plugin,
                       const char *path) {
  trials t;
  docs d = {.plugin = plugin, .trials = &t, .built = base_name(path)};
  const trial_files files = {.path = path,
                             .with = args->with,
                             .n_with = args->n_with,
                             .seconds = args->seconds};
  const bool fine = trials_init(&t, plugin, &files) && is_loaded(args, &t) &&
                    check_results(&d) && write_docs(args, &d);
  trials_deinit(&t);
  return fine;
}

int cmd_docs(const opgen_args *args) {
  if (args->out_dir != NULL && args->pages != NULL)
    return opgen_usage_error(args->command,
                             "`-o` and `--pages` exclude each "
                             "other");
  tnm_plugin *plugin = opgen_read_lone(args, args->files[0]);
  if (plugin == NULL) return EXIT_ERRORS;
  tn__buf built;
  tn__buf_init(&built, tn__env_default());
  const docs without = {.plugin = plugin};
  const bool fine = find_built(args, plugin, &built)
                        ? write_with(args, plugin, built.s)
                        : write_docs(args, &without);
  tn__buf_deinit(&built);
  tnm_plugin_release(plugin);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}
