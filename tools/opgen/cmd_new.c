/* SPDX-License-Identifier: Apache-2.0
 * cmd_new.c: `opgen new`: creates a project that builds, or adds an operator to
 * an existing one. Nothing is overwritten except for the list of operators in
 * plugin.yaml. If a step fails, all changes are undone.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "new.h"

enum { MAX_MADE = 16, MAX_PATH = 4096, MAX_NAME = 64 };

/* A created or changed file, which can be undone. */
typedef struct made {
  char path[MAX_PATH];
  char *before; /* text of the file before its change; NULL: it is new */
  bool is_dir;
} made;

typedef struct job {
  opgen_args args;
  char plugin[MAX_NAME + 1];
  char op[MAX_NAME + 1]; /* "" for --missing of a whole plugin */
  const char *dir;
  const new_shape *shape;
  new_words words;
  char target[2 * MAX_NAME + 32]; /* "nn.softmax@1", with --for */
  char owner[MAX_NAME + 1];
  new_owner found;
  char installed[2][PATH_MAX]; /* folders of Tenon's manifests, and of its
                                  bindings */
  const char *folders[2];      /* the known ones of `installed` */
  bool has_cuda;
  made made[MAX_MADE];
  size_t n_made;
} job;

/* ----------------------------------------------------------------- mistakes */

static bool failed_to(const char *what, const char *path) {
  fprintf(stderr, "opgen new: cannot %s %s: %s\n", what, path, strerror(errno));
  return false;
}

static void print_help_line(const char *text) {
  fprintf(stderr, "  = help: %s\n", text);
}

/* --------------------------------------------------------- reading, writing */

char *new_read(const char *path, bool quiet) {
  struct stat about;
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  if (file != NULL && fstat(fileno(file), &about) == 0) {
    text = tn__alloc(tn__env_default(), (size_t)about.st_size + 1);
    const size_t n =
        text != NULL ? fread(text, 1, (size_t)about.st_size, file) : 0;
    if (text != NULL) text[n] = '\0';
    if (text != NULL && ferror(file) != 0) {
      tn__free(tn__env_default(), text);
      text = NULL;
    }
  }
  if (text == NULL && !quiet) failed_to("read", path);
  if (file != NULL) (void)fclose(file);
  return text;
}

static bool file_exists(const char *path) {
  struct stat about;
  return lstat(path, &about) == 0;
}

/* Builds a path. One that is too long becomes a path that no file has. */
static void path_of(const job *j, const char *name, char *out) {
  const bool here = strcmp(j->dir, ".") == 0;
  const int n = snprintf(out, MAX_PATH, "%s%s%s", here ? "" : j->dir,
                         here ? "" : "/", name);
  if (n < 0 || n >= MAX_PATH) out[0] = '\0';
}

static made *add_made(job *j, const char *path) {
  made *m = &j->made[j->n_made++];
  *m = (made){0};
  (void)snprintf(m->path, sizeof m->path, "%s", path);
  return m;
}

static bool write_text(const char *path, const char *mode, const char *text) {
  FILE *file = fopen(path, mode);
  if (file == NULL) return failed_to("write", path);
  const bool written = fputs(text, file) >= 0;
  const bool closed = fclose(file) == 0;
  return (written && closed) || failed_to("write", path);
}

static bool make_dir(job *j, const char *path) {
  if (mkdir(path, 0777) == 0) {
    add_made(j, path)->is_dir = true;
    return true;
  }
  return errno == EEXIST || failed_to("make", path);
}

/* Writes a new file of the project. */
static bool write_new(job *j, const char *name, const tn__buf *text) {
  char path[MAX_PATH];
  path_of(j, name, path);
  if (text->failed) {
    fprintf(stderr, "opgen new: out of memory\n");
    return false;
  }
  FILE *file = fopen(path, "wx");
  if (file == NULL && errno == EEXIST) {
    fprintf(stderr, "opgen new: %s exists already, nothing is written over\n",
            path);
    print_help_line("choose another name, or remove that file");
    return false;
  }
  if (file == NULL) return failed_to("write", path);
  (void)fclose(file);
  add_made(j, path);
  return write_text(path, "wb", text->s != NULL ? text->s : "");
}

static bool write_template(job *j, const char *name, const char *text) {
  tn__buf out;
  tn__buf_init(&out, tn__env_default());
  new_expand(&out, text, &j->words);
  const bool fine = write_new(j, name, &out);
  tn__buf_deinit(&out);
  return fine;
}

static bool write_meson(job *j, bool bound) {
  tn__buf out;
  tn__buf_init(&out, tn__env_default());
  new_expand(&out, bound ? new_bound_project : new_project, &j->words);
  new_expand(&out, new_find_tenon, &j->words);
  new_expand(&out, bound ? new_bound_meson : new_meson, &j->words);
  const bool fine = write_new(j, "meson.build", &out);
  tn__buf_deinit(&out);
  return fine;
}

/* Adds `file` to the operators of a plugin.yaml. */
static bool list_file(job *j, const char *name, const char *file) {
  char path[MAX_PATH];
  tn__buf out;
  path_of(j, name, path);
  char *before = new_read(path, false);
  if (before == NULL) return false;
  tn__buf_init(&out, tn__env_default());
  bool fine = new_list_add(&out, before, file) && !out.failed;
  if (!fine) {
    fprintf(stderr, "opgen new: the list `operators` of %s is not found\n",
            path);
    print_help_line("write it at the beginning of a line: `operators: [...]`");
    tn__free(tn__env_default(), before);
  } else {
    add_made(j, path)->before = before;
    fine = write_text(path, "wb", out.s);
  }
  tn__buf_deinit(&out);
  return fine;
}

/* Undoes all changes, the last one first; or only forgets them. */
static void finish_changes(job *j, bool keep) {
  while (j->n_made > 0) {
    made *m = &j->made[--j->n_made];
    if (!keep && m->before != NULL) (void)write_text(m->path, "wb", m->before);
    if (!keep && m->before == NULL && m->is_dir) (void)rmdir(m->path);
    if (!keep && m->before == NULL && !m->is_dir) (void)unlink(m->path);
    tn__free(tn__env_default(), m->before);
  }
}

static void print_made(const job *j) {
  for (size_t i = 0; i < j->n_made; ++i)
    if (!j->made[i].is_dir)
      printf("%s %s\n", j->made[i].before != NULL ? "changed" : "wrote",
             j->made[i].path);
}

/* -------------------------------------------------------------------- stubs */

/* Finds an unused name: "prelu.c", "prelu_stubs.c", "prelu_stubs2.c", ... */
static void free_name(const job *j, const new_stubs *stubs, char *name) {
  const char *end = stubs->cuda ? "cu" : "c";
  char path[MAX_PATH];
  for (int i = 0;; ++i) {
    char number[16] = "";
    if (i > 1) (void)snprintf(number, sizeof number, "%d", i);
    (void)snprintf(name, MAX_PATH, "%s%s%s.%s", stubs->stem,
                   i > 0 ? "_stubs" : "", number, end);
    path_of(j, name, path);
    if (!file_exists(path)) return;
  }
}

/* Writes the stubs in C, or in CUDA C++. */
static bool write_stubs(job *j, const tnm_plugin *plugin, bool cuda) {
  char name[MAX_PATH];
  tn__buf out;
  new_stubs stubs = {.plugin = plugin,
                     .folder = j->dir,
                     .op = j->op[0] != '\0' ? j->op : NULL,
                     .cuda = cuda};
  tn__buf_init(&out, tn__env_default());
  bool fine = new_stubs_write(&stubs, &out);
  if (fine && stubs.n > 0) {
    free_name(j, &stubs, name);
    fine = write_new(j, name, &out);
  }
  tn__buf_deinit(&out);
  return fine;
}

/* Tests whether the plugin has a companion for CUDA devices. */
static bool has_companion(const tnm_plugin *plugin) {
  const opgen_selection wanted = {.cuda = true, .names_only = true};
  opgen_files files;
  const bool any = opgen_find_bound(plugin) == NULL &&
                   opgen_files_init(&files, plugin, &wanted) && files.n > 0;
  if (opgen_find_bound(plugin) == NULL) opgen_files_deinit(&files);
  return any;
}

/* Reads the plugin with its current files, and writes the missing functions. */
static bool write_missing(job *j) {
  char path[MAX_PATH];
  path_of(j, "plugin.yaml", path);
  tnm_plugin *plugin = opgen_read(&j->args, path);
  if (plugin == NULL) return false;
  const bool fine =
      write_stubs(j, plugin, false) && write_stubs(j, plugin, true);
  j->has_cuda = has_companion(plugin);
  tnm_plugin_release(plugin);
  return fine;
}

/* ----------------------------------------------------------------- projects */

static bool write_operator(job *j) {
  char name[MAX_PATH];
  (void)snprintf(name, sizeof name, "%s.yaml", j->op);
  return write_template(j, name, j->shape->manifest);
}

/* Meson creates a target with the plugin's name; it reserves some names
 * itself. */
static bool is_free_target(const job *j) {
  static const char *const taken[] = {"all",      "benchmark", "clean",
                                      "coverage", "dist",      "distcheck",
                                      "install",  "phony",     "reconfigure",
                                      "test",     "uninstall"};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; ++i) {
    if (j->shape->is_bound || strcmp(j->plugin, taken[i]) != 0) continue;
    fprintf(stderr, "opgen new: `%s` is a target that meson has itself\n",
            j->plugin);
    print_help_line("choose another name for the plugin");
    return false;
  }
  return true;
}

/* Two plugins of one name cannot be loaded into one host. */
static bool is_free_plugin(const job *j) {
  char path[PATH_MAX];
  if (!new_is_installed(j->plugin, path)) return true;
  fprintf(stderr, "opgen new: a plugin `%s` is installed already: %s\n",
          j->plugin, path);
  print_help_line(
      "choose another name, as a host loads one plugin of a name; or run this "
      "in the folder of that plugin's plugin.yaml; kernels for its operators "
      "begin with `--for`");
  return false;
}

static bool write_project(job *j) {
  const bool bound = j->shape->is_bound;
  const bool fine =
      is_free_target(j) && is_free_plugin(j) && make_dir(j, j->dir) &&
      write_operator(j) && write_template(j, "plugin.yaml", new_plugin_yaml) &&
      write_meson(j, bound) &&
      write_template(j, "README.md", bound ? new_bound_readme : new_readme) &&
      write_template(j, ".gitignore", new_gitignore) &&
      (bound || write_template(j, "meson_options.txt", new_meson_options)) &&
      write_missing(j);
  if (!fine) return false;
  print_made(j);
  if (j->words.target != NULL) new_owner_print(&j->found);
  new_next_print(&(new_next){j->plugin, j->dir, bound, j->has_cuda});
  return true;
}

/* Prints the lines that the author has to add to the build file. */
static void print_build_lines(const job *j) {
  const size_t prefix = strcmp(j->dir, ".") == 0 ? 0 : strlen(j->dir) + 1;
  if (j->shape != NULL && j->shape->is_bound)
    printf("add to the manifests in meson.build: '%s.yaml',\n", j->op);
  if (j->words.target != NULL && j->found.others.n > 0)
    printf("add to others in meson.build, unless it is there: %s,\n",
           j->words.others);
  if (j->words.target != NULL && j->found.manifests.n > 0)
    printf("add to manifests in meson.build, unless it is there: %s,\n",
           j->words.manifests);
  if (j->words.target != NULL) new_owner_print(&j->found);
  for (size_t i = 0; i < j->n_made; ++i) {
    const char *path = j->made[i].path + prefix;
    const char *end = strrchr(path, '.');
    if (end == NULL || (strcmp(end, ".c") != 0 && strcmp(end, ".cu") != 0))
      continue;
    printf("add to %s in meson.build: '%s',\n",
           strcmp(end, ".cu") == 0 ? "cuda_sources" : "sources", path);
  }
  new_next_print_short();
}

static bool is_same_plugin(const job *j, const char *path,
                           const tnm_plugin *plugin) {
  const char *name = plugin->plugin->name;
  if (strcmp(name, j->plugin) == 0) return true;
  fprintf(stderr, "opgen new: %s is the plugin `%s`, not `%s`\n", path, name,
          j->plugin);
  fprintf(stderr,
          "  = help: write `opgen new %s.%s`, or `-o DIR` for a new project\n",
          name, j->op);
  return false;
}

static bool is_same_kind(const job *j, const char *path,
                         const tnm_plugin *plugin) {
  const bool bound = opgen_find_bound(plugin) != NULL;
  if (plugin->n_operators == 0 || bound == j->shape->is_bound) return true;
  fprintf(stderr, "opgen new: the operators of %s are %s\n", path,
          bound ? "bound to libraries: nothing is compiled"
                : "compiled, one that is bound to a library is not");
  if (bound)
    fprintf(stderr,
            "  = help: write `--from binding`, or `-o DIR` for another "
            "project\n");
  else
    print_help_line("give it a plugin of its own: another name, and `-o DIR`");
  return false;
}

static bool add_to_project(job *j) {
  char path[MAX_PATH], name[MAX_PATH];
  path_of(j, "plugin.yaml", path);
  tnm_plugin *plugin = opgen_read(&j->args, path);
  if (plugin == NULL) return false;
  const bool fits =
      is_same_plugin(j, path, plugin) && is_same_kind(j, path, plugin);
  j->words.since = plugin->plugin->release;
  tnm_plugin_release(plugin);
  if (!fits) return false;
  (void)snprintf(name, sizeof name, "%s.yaml", j->op);
  const bool fine = write_operator(j) && list_file(j, "plugin.yaml", name) &&
                    write_missing(j);
  if (!fine) return false;
  print_made(j);
  print_build_lines(j);
  return true;
}

static bool add_missing(job *j) {
  char path[MAX_PATH];
  path_of(j, "plugin.yaml", path);
  if (!file_exists(path)) {
    fprintf(stderr, "opgen new: there is no %s\n", path);
    print_help_line("run it in the plugin's folder, or say `-o DIR`");
    return false;
  }
  if (!write_missing(j)) return false;
  if (j->n_made == 0) {
    printf("nothing is missing\n");
    return true;
  }
  print_made(j);
  print_build_lines(j);
  return true;
}

/* ---------------------------------------------------------------- arguments */

static bool is_name(const char *s, size_t n) {
  static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
  static const char others[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  if (n == 0 || n > MAX_NAME || strchr(lower, s[0]) == NULL) return false;
  return strspn(s, others) >= n;
}

static bool is_ours(const char *s, size_t n) {
  return strncmp(s, "tn", 2) == 0 && (n == 2 || s[2] == '_');
}

static int bad_name(const char *text, const char *what) {
  fprintf(stderr, "opgen new: `%s` %s\n", text, what);
  print_help_line(
      "write PLUGIN.OP; both are lower-case letters, digits and `_`, a "
      "letter first, at most 64; neither is `tn` or begins with `tn_`");
  return EXIT_USAGE;
}

/* Generated files of the plugin have these names. */
static int report_reserved(const char *text, const char *owner) {
  fprintf(stderr, "opgen new: `%s` would have files of %s\n", text, owner);
  print_help_line("choose another name for the operator");
  return EXIT_USAGE;
}

/* Reads "plugin.op", or with --missing also "plugin". EXIT_FINE unless it
 * reported a mistake. */
static int read_name(job *j) {
  const char *text = j->args.files[0];
  const size_t n = strcspn(text, ".");
  const char *op = text[n] == '.' ? text + n + 1 : "";
  const size_t n_op = strlen(op);
  if (!is_name(text, n) || is_ours(text, n) ||
      (text[n] == '.' && (!is_name(op, n_op) || is_ours(op, n_op))))
    return bad_name(text, "cannot be the name of an operator");
  if (n_op == 0 && !j->args.missing)
    return bad_name(text, "names a plugin, but no operator of it");
  if (strcmp(op, "plugin") == 0)
    return report_reserved(text, "the plugin itself");
  if (strcmp(op, "cuda") == 0)
    return report_reserved(text, "the plugin's kernels for CUDA");
  memcpy(j->plugin, text, n);
  memcpy(j->op, op, n_op);
  return EXIT_FINE;
}

/* Reads "cpu,cuda". */
static int read_kernels(job *j, const char *text, bool *cpu) {
  *cpu = false;
  while (*text != '\0') {
    const size_t n = strcspn(text, ",");
    const bool is_cpu = n == 3 && memcmp(text, "cpu", 3) == 0;
    const bool is_cuda = n == 4 && memcmp(text, "cuda", 4) == 0;
    if (!is_cpu && !is_cuda)
      return opgen_usage_error("new",
                               "`--kernels` takes cpu and cuda, not "
                               "`%.*s`",
                               (int)n, text);
    *cpu |= is_cpu;
    j->words.cuda |= is_cuda;
    text += n + (text[n] == ',' ? 1 : 0);
  }
  return EXIT_FINE;
}

/* Reads "nn.softmax" or "nn.softmax@1". */
static int read_target(job *j, const char *text) {
  const size_t n = strcspn(text, "."), n_op = strcspn(text + n, "@");
  const char *at = text + n + n_op;
  char *end = NULL;
  const unsigned long interface = *at == '@' ? strtoul(at + 1, &end, 10) : 1;
  const bool numbered =
      *at == '\0' ||
      (at[1] > '0' && at[1] <= '9' && *end == '\0' && interface <= UINT32_MAX);
  if (n_op < 2 || !numbered || !is_name(text, n) ||
      !is_name(text + n + 1, n_op - 1))
    return opgen_usage_error("new",
                             "`--for` takes an operator of another plugin, "
                             "`nn.softmax` or `nn.softmax@1`, not `%s`",
                             text);
  memcpy(j->owner, text, n);
  (void)snprintf(j->target, sizeof j->target, "%.*s@%lu", (int)(n + n_op), text,
                 interface);
  if (strcmp(j->owner, j->plugin) == 0)
    return opgen_usage_error("new",
                             "`%s` is of this plugin: list the kernel in its "
                             "own manifest",
                             text);
  j->words.target = j->target;
  j->words.cpu = true;
  j->shape = &new_shape_for;
  return EXIT_FINE;
}

/* Finds the manifests of Tenon's plugins, which are installed with this
 * program; manifests of bindings are plugins themselves. */
static void find_installed(job *j) {
  static const char *const beside[] = {OPGEN_MANIFESTS, OPGEN_PLUGINS};
  j->args.installed = j->folders;
  for (size_t i = 0; i < sizeof beside / sizeof *beside; ++i)
    if (opgen_find_installed(beside[i], j->installed[i]))
      j->folders[j->args.n_installed++] = j->installed[i];
}

static int read_shape(job *j) {
  const opgen_args *args = &j->args;
  const char *names[NEW_N_SHAPES];
  const char *name = args->from;
  bool cpu = false;
  if (args->target != NULL && (name != NULL || args->kernels != NULL))
    return opgen_usage_error("new",
                             "`--for` begins a kernel for the cpu; `--from` "
                             "and `--kernels` do not go with it");
  if (args->target != NULL) return read_target(j, args->target);
  const int rc =
      args->kernels != NULL ? read_kernels(j, args->kernels, &cpu) : EXIT_FINE;
  if (rc != EXIT_FINE) return rc;
  if (name == NULL) name = args->kernels != NULL ? "relu" : "quadratic";
  j->shape = new_shape_find(name, names);
  if (j->shape == NULL) {
    const char *near = tn__find_nearest_word(name, names, NEW_N_SHAPES);
    if (near != NULL)
      return opgen_usage_error("new",
                               "unknown example `%s`; did you mean "
                               "`%s`?",
                               name, near);
    return opgen_usage_error("new",
                             "unknown example `%s`; there are "
                             "quadratic, relu, convolution and binding",
                             name);
  }
  if (args->kernels != NULL && j->shape->is_bound)
    return opgen_usage_error("new",
                             "a library has the function of `%s` already; "
                             "`--kernels` does not go with it",
                             name);
  if (args->kernels != NULL && !j->shape->has_kernel)
    return opgen_usage_error("new",
                             "the kernels of `%s` are generated; take "
                             "`--from relu` to write one",
                             name);
  j->words.cpu = j->shape->has_kernel &&
                 (cpu || args->kernels == NULL || !j->shape->has_formula);
  return EXIT_FINE;
}

/* Finds the plugin of the operator in `--for`. */
static bool find_owner(job *j) {
  if (j->words.target == NULL) return true;
  j->found = (new_owner){.name = j->owner, .target = j->target};
  if (!new_owner_find(&j->found, &j->args)) return false;
  j->words.others = j->found.others.n > 0 ? j->found.others.s : "";
  j->words.manifests = j->found.manifests.n > 0 ? j->found.manifests.s : "";
  return true;
}

static void choose_dir(job *j) {
  if (j->args.out_dir != NULL)
    j->dir = j->args.out_dir;
  else
    j->dir = file_exists("plugin.yaml") ? "." : j->plugin;
}

int cmd_new(const opgen_args *args) {
  static job j;
  char path[MAX_PATH];
  j = (job){.args = *args, .words = {.since = 1}};
  int rc = read_name(&j);
  if (rc == EXIT_FINE && args->missing &&
      (args->from != NULL || args->kernels != NULL || args->target != NULL))
    rc = opgen_usage_error("new",
                           "`--missing` follows the manifests; "
                           "`--from`, `--for` and `--kernels` do not go with "
                           "it");
  if (rc == EXIT_FINE && !args->missing) rc = read_shape(&j);
  if (rc != EXIT_FINE) return rc;
  j.words.plugin = j.plugin;
  j.words.op = j.op;
  find_installed(&j);
  choose_dir(&j);
  path_of(&j, "plugin.yaml", path);
  bool fine = find_owner(&j);
  if (fine && args->missing)
    fine = add_missing(&j);
  else if (fine)
    fine = file_exists(path) ? add_to_project(&j) : write_project(&j);
  finish_changes(&j, fine);
  if (j.words.target != NULL) new_owner_deinit(&j.found);
  return fine ? EXIT_FINE : EXIT_ERRORS;
}
