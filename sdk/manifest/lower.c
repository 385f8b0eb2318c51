/* SPDX-License-Identifier: Apache-2.0
 * lower.c: reads a plugin: plugin.yaml, the files that it lists, and the tables
 * of all of them. lower_op.c reads single documents.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "binding.h"
#include "front.h"

/* ----------------------------------------------------------------- a reader */

void tnm_reader_init(tnm_reader *reader, const tn__env *env, tn__arena *arena,
                     tnm_diags *diags) {
  *reader = (tnm_reader){.env = env, .arena = arena, .diags = diags};
}

void tnm_reader_deinit(tnm_reader *reader) {
  tn__vec_deinit(reader->env, &reader->operators);
  tn__vec_deinit(reader->env, &reader->files);
  tn__vec_deinit(reader->env, &reader->targets);
  tn__vec_deinit(reader->env, &reader->calls);
  tn__map_deinit(reader->env, &reader->names);
  tn__map_deinit(reader->env, &reader->kernels);
}

bool tnm_reader_push(tnm_reader *reader, tn__vec *vec, void *item) {
  if (tn__vec_push(reader->env, vec, item) == TN_OK) return true;
  reader->arena->failed = true;
  return false;
}

/* -------------------------------------------------------------------- files */

static tn_code read_bytes(const tn__env *env, int fd, size_t n, char **out) {
  char *text = tn__alloc(env, n + 1);
  if (text == NULL) return tn__fail_memory(n + 1, "the text of a file");
  size_t got = 0;
  while (got < n) {
    ssize_t more = env->os->pread(fd, text + got, n - got, (int64_t)got);
    if (more < 0) {
      tn__free(env, text);
      return tn__fail(TN_IO, "%s", strerror(errno));
    }
    if (more == 0) break;
    got += (size_t)more;
  }
  if (got < n) {
    tn__free(env, text);
    return tn__fail(TN_IO, "it became shorter while it was read");
  }
  text[n] = '\0';
  *out = text;
  return TN_OK;
}

static tn_code read_open_file(const tn__env *env, int fd, size_t max,
                              char **out, size_t *n) {
  struct stat info;
  if (env->os->fstat(fd, &info) != 0)
    return tn__fail(TN_IO, "%s", strerror(errno));
  if (!S_ISREG(info.st_mode)) return tn__fail(TN_IO, "it is no regular file");
  if (info.st_size < 0 || (uint64_t)info.st_size > max)
    return tn__fail(TN_IO, "it is larger than %zu bytes", max);
  *n = (size_t)info.st_size;
  return read_bytes(env, fd, *n, out);
}

tn_code tnm_read_file(const tn__env *env, const char *path, size_t max,
                      char **out, size_t *n) {
  *out = NULL;
  int fd = env->os->open(path);
  if (fd < 0) return tn__fail(TN_IO, "%s", strerror(errno));
  tn_code code = read_open_file(env, fd, max, out, n);
  env->os->close(fd);
  return code;
}

/* Reports a manifest that cannot be read. `named` is the value in plugin.yaml
 * that names the file; NULL if no file names it. */
static void report_unreadable_file(tnm_reader *reader, const char *path,
                                   const tnm_tree *named) {
  const char *base = strrchr(path, '/');
  base = base == NULL ? path : base + 1;
  tnm_pos pos =
      named == NULL
          ? tnm_pos_start(tnm_diags_add_file(reader->diags, path, "", 0))
          : named->pos;
  tnm_diag_spec spec = {"E0001", pos, NULL};
  size_t id = tnm_diag_add(reader->diags, &spec, "cannot read `%s`: %s", base,
                           tn_error_text());
  if (named != NULL)
    tnm_diag_add_help(reader->diags, id,
                      "`operators` lists files beside plugin.yaml");
  else if (strcmp(base, "plugin.yaml") == 0)
    tnm_diag_add_help(reader->diags, id,
                      "write one that names the plugin and lists its files of "
                      "operators: `opgen: 1`, `plugin: NAME`, `release: 1`, "
                      "`summary`, `license`, `operators: [FILE.yaml]`");
}

/* Reads a manifest, or the text that replaces it. The caller frees *out. */
static tn_code read_manifest(const tnm_reader *reader, const char *path,
                             char **out, size_t *n) {
  const tnm_text *text = reader->text;
  if (text == NULL || strcmp(text->path, path) != 0)
    return tnm_read_file(reader->env, path, TNM_MAX_BYTES, out, n);
  *out = tn__alloc(reader->env, text->n + 1);
  if (*out == NULL) return tn__fail_memory(text->n + 1, "a manifest");
  memcpy(*out, text->text, text->n);
  (*out)[text->n] = '\0';
  *n = text->n;
  return TN_OK;
}

/* Reads the documents of one file. Returns false if none can be lowered. */
static bool read_documents(tnm_reader *reader, const char *path,
                           const tnm_tree *named, tnm_tree **documents) {
  char *text;
  size_t n;
  *documents = NULL;
  tn_code code = read_manifest(reader, path, &text, &n);
  if (code == TN_OUT_OF_MEMORY) reader->arena->failed = true;
  if (code == TN_OUT_OF_MEMORY) return false;
  if (code != TN_OK) {
    report_unreadable_file(reader, path, named);
    return false;
  }
  uint32_t file = tnm_diags_add_file(reader->diags, path, text, n);
  tn__free(reader->env, text);
  char *copy = tn__arena_text(reader->arena, path, strlen(path));
  if (copy == NULL || tnm_diags_has_failed(reader->diags) ||
      !tnm_reader_push(reader, &reader->files, copy))
    return false;
  const char *kept = tnm_diags_get_text(reader->diags, file, &n);
  bool ok = tnm_text_check(reader->diags, file, kept, n) &&
            tnm_tree_read(reader->arena, reader->diags, file, documents);
  if (ok && *documents == NULL) {
    tnm_diag_spec spec = {"E0013", tnm_pos_start(file), NULL};
    size_t id = tnm_diag_add(reader->diags, &spec, "this manifest is empty");
    tnm_diag_add_help(reader->diags, id, "begin it with `opgen: 1`");
  }
  return *documents != NULL;
}

/* -------------------------------------------------------------- plugin.yaml */

/* The contents of plugin.yaml, and the folder of the plugin. */
typedef struct plugin_source {
  tnm_reader *reader;
  const char *folder; /* path of the folder: "", or ends in '/' */
  const char *only;   /* name of the single manifest to read; NULL: all */
  tnm_tree *tree;
  tn_plugin *tables;
  bool unloadable;
} plugin_source;

/* Sets p->folder, and p->only for a single manifest. False: no memory. */
static bool split_path(tnm_reader *reader, const char *path, plugin_source *p) {
  struct stat info;
  size_t n = strlen(path);
  if (reader->env->os->stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    p->folder = tnm_format_text(reader->arena, "%s%s", path,
                                n > 0 && path[n - 1] == '/' ? "" : "/");
    return p->folder != NULL;
  }
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  p->folder = tn__arena_text(reader->arena, path, length);
  if (strcmp(path + length, "plugin.yaml") != 0)
    p->only = tn__arena_text(reader->arena, path + length, n - length);
  return !reader->arena->failed;
}

/* Reads the name of an author's function, `init` or `fini`. */
static const char *read_function_name(const plugin_source *p, const char *key) {
  const tnm_tree *value = tnm_tree_get(p->tree, key);
  if (value == NULL || !tnm_read_symbol(p->reader->diags, value)) return NULL;
  return value->text;
}

static void init_tables(plugin_source *p, const char *name) {
  *p->tables = (tn_plugin){.magic = TN_PLUGIN_MAGIC,
                           .struct_size = sizeof *p->tables,
                           .abi_major = TN_ABI_MAJOR,
                           .abi_minor = TN_ABI_MINOR,
                           .min_host_minor = TN_TARGET_MINOR,
                           .release = 1,
                           .name = name,
                           .opgen = TN_VERSION};
}

static void read_plugin_keys(plugin_source *p) {
  tnm_reader *reader = p->reader;
  const tnm_tree *name = tnm_tree_get(p->tree, "plugin");
  const tnm_tree *release = tnm_tree_get(p->tree, "release");
  reader->release = INT32_MAX;
  reader->name = "plugin";
  if (name != NULL && tnm_read_name(reader->diags, name, "a plugin"))
    reader->name = name->text;
  if (release != NULL)
    tnm_read_u32(reader->diags, release, 1, &reader->release);
  reader->init_symbol = read_function_name(p, "init");
  reader->fini_symbol = read_function_name(p, "fini");
  p->unloadable = tnm_get_bool(reader->diags, p->tree, "unloadable");
  init_tables(p, reader->name);
  p->tables->release = reader->release;
  p->tables->summary = tnm_get_text(p->tree, "summary");
  p->tables->license = tnm_get_text(p->tree, "license");
  tnm_lower_dependencies(reader, tnm_tree_get(p->tree, "requires"), p->tables);
}

/* Reads plugin.yaml into p->tree. Returns false after a mistake. */
static bool read_plugin_file(plugin_source *p) {
  tnm_reader *reader = p->reader;
  const char *path = tnm_format_text(reader->arena, "%splugin.yaml", p->folder);
  tnm_tree *documents;
  p->tables = TNM_NEW(reader->arena, tn_plugin, 1);
  if (path == NULL || p->tables == NULL ||
      !read_documents(reader, path, NULL, &documents))
    return false;
  if (p->only != NULL) reader->plugin_file = path;
  p->tree = documents;
  if (documents->next != NULL) {
    tnm_diag_spec spec = {"E0013", documents->next->pos, NULL};
    size_t id =
        tnm_diag_add(reader->diags, &spec, "plugin.yaml holds one document");
    tnm_diag_add_help(reader->diags, id, "operators are in files of their own");
  }
  if (!tnm_check_format(reader, p->tree)) return false;
  if (!tnm_schema_check(reader->diags, &tnm_schema_plugin, p->tree))
    return false;
  read_plugin_keys(p);
  return true;
}

/* ---------------------------------------------------------------- operators */

static bool is_file_name(const char *text) {
  const char *allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  size_t n = strlen(text);
  return n > 5 && n <= 2 * TNM_MAX_NAME && text[0] != '.' &&
         strspn(text, allowed) == n && strcmp(text + n - 5, ".yaml") == 0;
}

/* Checks one name of a manifest in plugin.yaml. False after a message. */
static bool check_file_name(tnm_reader *reader, const tnm_tree *item) {
  if (!tnm_check_scalar(reader->diags, item, "the name of a file"))
    return false;
  if (is_file_name(item->text)) return true;
  tnm_diag_spec spec = {"E0015", item->pos, NULL};
  size_t id =
      tnm_diag_add(reader->diags, &spec,
                   "`%.80s` cannot be the name of a manifest", item->text);
  tnm_diag_add_help(reader->diags, id,
                    "use letters, digits, `_`, `-`, and `.yaml` at the end, no "
                    "folders");
  return false;
}

static void lower_documents(tnm_reader *reader, tnm_tree *documents,
                            const char *file) {
  for (tnm_tree *d = documents; d != NULL && !reader->arena->failed;
       d = d->next)
    tnm_lower_document(reader, d, file);
}

/* Reads the manifest that one item of plugin.yaml names. */
static void read_operators(plugin_source *p, const tnm_tree *item) {
  tnm_reader *reader = p->reader;
  const char *path =
      tnm_format_text(reader->arena, "%s%s", p->folder, item->text);
  tnm_tree *documents;
  if (path == NULL || !read_documents(reader, path, item, &documents)) return;
  lower_documents(reader, documents, item->text);
}

static void report_unlisted_file(plugin_source *p, const tnm_tree *list) {
  tnm_diag_spec spec = {"E0009", list->key_pos, NULL};
  size_t id = tnm_diag_add(p->reader->diags, &spec,
                           "plugin.yaml does not list `%s`", p->only);
  tnm_diag_add_help(p->reader->diags, id,
                    "add it at the end of `operators`; their order is ABI");
}

static void read_listed_files(plugin_source *p) {
  const tnm_tree *list = tnm_tree_get(p->tree, "operators");
  tnm_unique names;
  bool found = p->only == NULL;
  if (list == NULL || !tnm_unique_init(&names, p->reader->arena, list->n))
    return;
  for (const tnm_tree *item = list->first; item != NULL; item = item->next) {
    if (!check_file_name(p->reader, item) ||
        !tnm_unique_add(&names, p->reader->diags, item))
      continue;
    if (p->only != NULL && strcmp(p->only, item->text) != 0) continue;
    found = true;
    read_operators(p, item);
  }
  if (!found) report_unlisted_file(p, list);
}

/* ---------------------------------------------------- without a plugin.yaml */

/* Sets up a plugin without plugin.yaml: release 1, `since` without limit. */
static void begin_plugin_without_file(plugin_source *p, const char *name) {
  p->tables = TNM_NEW(p->reader->arena, tn_plugin, 1);
  p->reader->name = name;
  p->reader->release = INT32_MAX;
  if (p->tables != NULL) init_tables(p, name);
}

/* Returns the name of the folder that contains a file. */
static const char *find_folder_name(const plugin_source *p, const char *path) {
  const tnm_reader *reader = p->reader;
  char real[PATH_MAX];
  if (reader->env->os->realpath(path, real) == NULL) return "";
  char *slash = strrchr(real, '/');
  if (slash == NULL) return "";
  *slash = '\0';
  const char *name = strrchr(real, '/');
  const char *copy = tnm_format_text(reader->arena, "%s", name ? name + 1 : "");
  return copy != NULL ? copy : "";
}

static bool is_plugin_name(const char *name) {
  return name[0] >= 'a' && name[0] <= 'z' && strlen(name) <= TNM_MAX_NAME &&
         strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
             strlen(name) &&
         strncmp(name, "tn_", 3) != 0 && strcmp(name, "tn") != 0;
}

static void report_folder_name(const plugin_source *p, uint32_t file,
                               const char *name) {
  tnm_diag_spec spec = {"E0015", tnm_pos_start(file), NULL};
  size_t id =
      tnm_diag_add(p->reader->diags, &spec,
                   "`%.80s`, the name of this folder, cannot be the name "
                   "of a plugin",
                   name);
  tnm_diag_add_help(p->reader->diags, id,
                    "put a plugin.yaml beside this file that names the plugin");
}

/* Reads a lone operator file; the plugin gets the name of the folder. */
static void read_file_without_plugin(plugin_source *p, const char *path) {
  tnm_tree *documents;
  const char *name = find_folder_name(p, path);
  const bool fine = is_plugin_name(name);
  begin_plugin_without_file(p, fine ? name : "plugin");
  if (!read_documents(p->reader, path, NULL, &documents)) return;
  if (!fine) report_folder_name(p, documents->pos.file, name);
  lower_documents(p->reader, documents, p->only);
}

/* Reads operators without a file: the text itself is the plugin. */
static void read_text(plugin_source *p) {
  const tnm_text *text = p->reader->text;
  tnm_tree *documents;
  begin_plugin_without_file(p, text->plugin);
  if (read_documents(p->reader, text->path, NULL, &documents))
    lower_documents(p->reader, documents, text->path);
}

/* ------------------------------------------------------------------- tables */

static void add_kernel(const tn_kernel **kernels, uint32_t *n,
                       const tn_kernel *kernel) {
  if (kernel != NULL) kernels[(*n)++] = kernel;
}

static void add_kernels(const tn_kernel **kernels, uint32_t *n,
                        const tnm_operator *o) {
  if (o->binding != NULL) add_kernel(kernels, n, o->binding->kernel);
  add_kernel(kernels, n, o->generated);
  add_kernel(kernels, n, o->generated_backward);
  for (size_t i = 0; i < o->n_kernels; ++i) {
    if (o->kernels[i].companion) continue;
    add_kernel(kernels, n, o->kernels[i].forward);
    add_kernel(kernels, n, o->kernels[i].backward);
  }
}

static void add_target(const tn_target **targets, uint32_t *n,
                       const tn_target *target) {
  for (uint32_t i = 0; i < *n; ++i) {
    if (strcmp(targets[i]->op, target->op) == 0) return;
  }
  targets[(*n)++] = target;
}

/* Tests whether opgen generates all code of the plugin. Such a plugin keeps no
 * state, so it can be unloaded. */
static bool is_generated(const tnm_reader *reader) {
  if (reader->init_symbol != NULL || reader->fini_symbol != NULL) return false;
  for (size_t i = 0; i < reader->operators.n; ++i) {
    const tnm_operator *o = reader->operators.v[i];
    if (o->infer_symbol != NULL || o->binding != NULL) return false;
    for (size_t k = 0; k < o->n_kernels; ++k)
      if (!o->kernels[k].companion) return false;
  }
  return true;
}

/* Lists operators, kernels and targets in the tables. False: no memory. */
static bool fill_tables(plugin_source *p) {
  const tnm_reader *reader = p->reader;
  tn_plugin *t = p->tables;
  size_t n_kernels = 0;
  for (size_t i = 0; i < reader->operators.n; ++i) {
    const tnm_operator *o = reader->operators.v[i];
    n_kernels += 3 + 2 * o->n_kernels;
  }
  const tn_op **ops =
      TNM_NEW(reader->arena, const tn_op *, reader->operators.n);
  const tn_kernel **kernels =
      TNM_NEW(reader->arena, const tn_kernel *, n_kernels);
  const tn_target **targets =
      TNM_NEW(reader->arena, const tn_target *, reader->operators.n);
  if (ops == NULL || kernels == NULL || targets == NULL) return false;
  for (size_t i = 0; i < reader->operators.n; ++i) {
    const tnm_operator *o = reader->operators.v[i];
    if (o->op != NULL) ops[t->n_operators++] = o->op;
    if (o->target != NULL) add_target(targets, &t->n_targets, o->target);
    add_kernels(kernels, &t->n_kernels, o);
  }
  t->operators = ops;
  t->kernels = kernels;
  t->targets = targets;
  if (p->unloadable || is_generated(reader)) t->flags |= TN_PLUGIN_UNLOADABLE;
  return true;
}

/* Tests whether one operator file is read without a plugin.yaml, because its
 * folder has none. */
static bool has_no_plugin_file(const plugin_source *p) {
  const tnm_reader *reader = p->reader;
  struct stat info;
  if (p->only == NULL || reader->options == NULL || !reader->options->lone)
    return false;
  const char *path = tnm_format_text(reader->arena, "%splugin.yaml", p->folder);
  return path != NULL && reader->env->os->stat(path, &info) != 0 &&
         errno == ENOENT;
}

/* Tests whether the one file to read does not exist, although plugin.yaml lists
 * it. */
static bool is_file_missing(const plugin_source *p, const char *path) {
  const tnm_reader *reader = p->reader;
  struct stat info;
  if (p->only == NULL ||
      (reader->text != NULL && strcmp(reader->text->path, path) == 0))
    return false;
  return reader->env->os->stat(path, &info) != 0 && errno == ENOENT;
}

/* Reads the manifests at `path`, or a text if it is NULL. False after a
 * message. */
static bool read_operators_from(plugin_source *p, const char *path) {
  if (path == NULL) {
    read_text(p);
    return true;
  }
  tnm_tree *none;
  if (!split_path(p->reader, path, p)) return false;
  if (is_file_missing(p, path))
    return read_documents(p->reader, path, NULL, &none);
  if (has_no_plugin_file(p)) {
    read_file_without_plugin(p, path);
    return true;
  }
  if (!read_plugin_file(p)) return false;
  p->reader->whole = p->only == NULL;
  read_listed_files(p);
  return true;
}

/* Checks that all operators fit the kind of the plugin: a compiled plugin, or a
 * manifest that is loaded without compiling. A host that registers a text
 * supplies the functions by itself. */
static void check_operator_kinds(const tnm_reader *reader) {
  const tnm_operator *bound = NULL, *compiled = NULL;
  for (size_t i = 0; i < reader->operators.n; ++i) {
    const tnm_operator *o = reader->operators.v[i];
    if (o->binding != NULL && bound == NULL) bound = o;
    if (o->binding == NULL && compiled == NULL) compiled = o;
  }
  if (bound == NULL || compiled == NULL ||
      (reader->text != NULL && reader->text->plugin != NULL))
    return;
  const tnm_diag_spec spec = {"E0085", compiled->pos, "compiled"};
  const size_t id =
      tnm_diag_add(reader->diags, &spec,
                   "a plugin is compiled, or its operators are all "
                   "bound to libraries");
  tnm_diag_add_place(reader->diags, id, bound->pos, "bound");
  tnm_diag_add_help(reader->diags, id, "give each kind a plugin of its own");
}

tn_plugin *tnm_read_tables(tnm_reader *reader, const char *path) {
  plugin_source p = {.reader = reader};
  size_t before = tnm_diags_errors(reader->diags);
  if (!read_operators_from(&p, path)) return NULL;
  if (tnm_diags_errors(reader->diags) == before) check_operator_kinds(reader);
  if (tnm_diags_errors(reader->diags) == before) tnm_lower_second_order(reader);
  if (tnm_diags_errors(reader->diags) == before && !reader->target_only)
    tnm_check_calls(reader);
  if (tnm_diags_errors(reader->diags) == before && !reader->target_only)
    tnm_check_graph_shapes(reader);
  if (reader->arena->failed || tnm_diags_has_failed(reader->diags) ||
      tnm_diags_errors(reader->diags) > before || !fill_tables(&p))
    return NULL;
  return p.tables;
}

/* ------------------------------------------------------------------- result */

/* Computes the hash that ties note and descriptor. False: no memory. */
static bool set_manifest_hash(const tn__env *env, tn_plugin *tables) {
  tn__buf buf;
  tn__buf_init(&buf, env);
  tn__tables_encode(tables, &buf);
  bool ok = !buf.failed;
  if (ok) tables->manifest_hash = tn__hash(buf.s, buf.n);
  tn__buf_deinit(&buf);
  return ok;
}

/* Copies the lists of operators and files to *out. False: no memory. */
static bool copy_lists(tnm_plugin *out, const tnm_reader *reader) {
  tnm_operator *operators =
      TNM_NEW(&out->arena, tnm_operator, reader->operators.n);
  const char **files = TNM_NEW(&out->arena, const char *, reader->files.n);
  if (operators == NULL || files == NULL) return false;
  for (size_t i = 0; i < reader->operators.n; ++i)
    operators[i] = *(const tnm_operator *)reader->operators.v[i];
  for (size_t i = 0; i < reader->files.n; ++i) files[i] = reader->files.v[i];
  out->operators = operators;
  out->n_operators = reader->operators.n;
  out->files = files;
  out->n_files = reader->files.n;
  return true;
}

/* Reads a plugin into *out. False after a mistake or when memory ran out. */
static bool read_plugin_into(tnm_plugin *out, tnm_reader *reader,
                             const char *path) {
  tn_plugin *tables = tnm_read_tables(reader, path);
  if (tables == NULL || !set_manifest_hash(reader->env, tables) ||
      !copy_lists(out, reader))
    return false;
  out->plugin = tables;
  out->init_symbol = reader->init_symbol;
  out->fini_symbol = reader->fini_symbol;
  return true;
}

tnm_plugin *tnm_plugin_read(const tn__env *env, const char *path,
                            const tnm_read_options *options, tnm_diags *diags) {
  return tnm_plugin_read_with(env, path, NULL, options, diags);
}

tnm_plugin *tnm_plugin_read_with(const tn__env *env, const char *path,
                                 const tnm_text *text,
                                 const tnm_read_options *options,
                                 tnm_diags *diags) {
  tnm_plugin *out = tn__zalloc(env, sizeof *out);
  if (out == NULL) {
    tn__fail_memory(sizeof *out, "a plugin's manifest");
    return NULL;
  }
  tn__arena_init(&out->arena, env);
  tnm_reader reader;
  tnm_reader_init(&reader, env, &out->arena, diags);
  reader.options = options;
  reader.text = text;
  size_t before = tnm_diags_errors(diags);
  bool ok = read_plugin_into(out, &reader, path);
  tnm_reader_deinit(&reader);
  if (ok) return out;
  const char *name = path != NULL ? path : text->path;
  size_t errors = tnm_diags_errors(diags) - before;
  tn_code rc =
      out->arena.failed || tnm_diags_has_failed(diags) || errors == 0
          ? tn__fail(TN_OUT_OF_MEMORY, "%s: no memory for its manifest", name)
          : tn__fail(TN_INVALID, "%s: %zu mistakes in its manifest", name,
                     errors);
  if (options != NULL && options->result != NULL) *options->result = rc;
  tnm_plugin_release(out);
  return NULL;
}

void tnm_plugin_release(tnm_plugin *plugin) {
  if (plugin == NULL) return;
  const tn__env *env = plugin->arena.env;
  tn__arena_deinit(&plugin->arena);
  tn__free(env, plugin);
}
