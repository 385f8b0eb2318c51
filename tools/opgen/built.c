/* SPDX-License-Identifier: Apache-2.0
 * built.c: checks a built plugin in the order of a host: the note before
 * anything is mapped, the dynamic symbols, loading, and the examples of its
 * manifests. Code of the plugin runs in a child process only.
 */
#include "built.h"

#include <elf.h>
#include <math.h>
#include <string.h>

#include "emit.h"
#include "trial.h"

/* Largest plugin that is read. */
#define MOST_BYTES ((size_t)256 << 20)

/* One built plugin. Messages refer to its beginning: it has no lines. */
typedef struct subject {
  const opgen_args *args;
  const char *path;
  tnm_diags *diags;
  uint32_t file;
  bool has_left; /* loading it leaves processes */
} subject;

bool is_built_plugin(const char *path) {
  const size_t n = strlen(path);
  return n > 3 && strcmp(path + n - 3, ".so") == 0;
}

#define REPORT(s, code, ...)                                                 \
  tnm_diag_add((s)->diags,                                                   \
               &(tnm_diag_spec){                                             \
                   (code),                                                   \
                   {.line = 1, .column = 1, .length = 1, .file = (s)->file}, \
                   NULL},                                                    \
               __VA_ARGS__)

/* ---------------------------------------------------------- dynamic symbols */

/* A file in memory, and a part of it. */
typedef struct image {
  const char *bytes;
  size_t n;
} image;

static bool copy_out(const image *file, uint64_t at, void *out, size_t bytes) {
  if (at > file->n || bytes > file->n - at) return false;
  memcpy(out, file->bytes + at, bytes);
  return true;
}

/* The name of a symbol; NULL if it is outside of the file. */
static const char *name_of(const image *file, const Elf64_Shdr *names,
                           uint32_t at) {
  if (names->sh_offset > file->n || names->sh_size > file->n - names->sh_offset)
    return NULL;
  const char *table = file->bytes + names->sh_offset;
  if (at >= names->sh_size ||
      memchr(table + at, '\0', names->sh_size - at) == NULL)
    return NULL;
  return table + at;
}

static bool is_exported(const Elf64_Sym *symbol) {
  const unsigned bind = ELF64_ST_BIND(symbol->st_info);
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);
  return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
         (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE) &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

static void check_symbols(const subject *s, const image *file,
                          const Elf64_Shdr *table, const Elf64_Shdr *names) {
  const uint64_t n = table->sh_size / sizeof(Elf64_Sym);
  for (uint64_t i = 0; i < n; ++i) {
    Elf64_Sym symbol;
    if (!copy_out(file, table->sh_offset + i * sizeof symbol, &symbol,
                  sizeof symbol))
      return;
    const char *name = name_of(file, names, symbol.st_name);
    if (name == NULL || !is_exported(&symbol) ||
        strcmp(name, "tn_plugin_entry") == 0)
      continue;
    const size_t id = REPORT(s, "E0081", "the plugin exports `%s`, too", name);
    if (ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE)
      tnm_diag_add_help(
          s->diags, id,
          "the process keeps a file with a unique symbol for ever; "
          "compile it with `-fno-gnu-unique`");
    else
      tnm_diag_add_help(s->diags, id,
                        "make it static, or link with the plugin.gen.map that "
                        "opgen writes: `-Wl,--version-script=plugin.gen.map`");
  }
}

static void check_exports(const subject *s, const image *file) {
  Elf64_Ehdr head;
  if (!copy_out(file, 0, &head, sizeof head)) return;
  for (uint32_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr table, names;
    if (!copy_out(file, head.e_shoff + (uint64_t)i * sizeof table, &table,
                  sizeof table))
      return;
    if (table.sh_type != SHT_DYNSYM || table.sh_link >= head.e_shnum) continue;
    if (copy_out(file, head.e_shoff + (uint64_t)table.sh_link * sizeof names,
                 &names, sizeof names))
      check_symbols(s, file, &table, &names);
  }
}

/* ------------------------------------------------------------------ loading */

/* Reports findings. Both children find processes that the loading of the plugin
 * leaves; those are reported once. */
static void report_findings(const subject *s, const trial_finding *finding) {
  for (; finding != NULL; finding = finding->next)
    if (!s->has_left || strcmp(finding->code, "E0208") != 0)
      REPORT(s, finding->code, "%s", finding->text);
}

/* True if the host loads it. `fine` is false if the attempt failed. */
static bool check_loading(subject *s, bool *fine) {
  const trial_files files = {.path = s->path, .seconds = s->args->seconds};
  trials t;
  *fine = trials_load(&t, &files);
  const bool loaded = *fine && t.refused == NULL;
  if (t.refused != NULL)
    REPORT(s, "E0080", "%s%s",
           t.died ? "while it was loaded and unloaded, "
                  : "this host does not load it: ",
           t.refused);
  report_findings(s, t.findings);
  for (const trial_finding *f = t.findings; f != NULL; f = f->next)
    s->has_left = s->has_left || strcmp(f->code, "E0208") == 0;
  trials_deinit(&t);
  return loaded;
}

/* ----------------------------------------------------------------- examples */

static const tnm_plugin *manifests_of(const tn__vec *plugins,
                                      const char *name) {
  for (size_t i = 0; i < plugins->n; ++i) {
    const tnm_plugin *plugin = plugins->v[i];
    if (strcmp(plugin->plugin->name, name) == 0) return plugin;
  }
  return NULL;
}

/* Adds help for a stated value with fewer digits than the type has: 1e-3 is
 * larger than any rounding to four digits. */
static void help_digits(const subject *s, size_t id, double distance) {
  if (!(distance < 1e-3)) return;
  tnm_diag_add_help(s->diags, id,
                    "write these digits, or add `tol: 1e%d` to the example",
                    (int)ceil(log10(distance)));
}

static const char *title_operator(const tnm_operator *op) {
  return op->op != NULL ? op->op->name : op->target->op;
}

static void compare_example(const subject *s, const tnm_operator *op,
                            size_t index, const trial *t) {
  const tnm_example *example = &op->examples[index];
  if (t->error != NULL)
    tnm_diag_add(s->diags, &(tnm_diag_spec){"E0082", example->pos, NULL},
                 "example `%s`: %s", example->name, t->error);
  for (const trial_finding *f = t->findings; f != NULL; f = f->next)
    tnm_diag_add(s->diags, &(tnm_diag_spec){f->code, example->pos, NULL},
                 "example `%s` of `%s`, %s", example->name, title_operator(op),
                 f->text);
  for (const trial_value *v = t->values; v != NULL; v = v->next) {
    if (trial_agrees(example, v)) continue;
    tn__buf text;
    tn__buf_init(&text, tn__env_default());
    trial_print(&text, v);
    const size_t id = tnm_diag_add(
        s->diags, &(tnm_diag_spec){"E0083", example->pos, NULL},
        "example `%s`: `%s%s` comes out as %.200s", example->name,
        v->grad ? "grad." : "", v->name, text.s != NULL ? text.s : "?");
    help_digits(s, id, trial_distance(example, v));
    tn__buf_deinit(&text);
  }
}

static bool check_examples(const subject *s, const tnm_plugin *plugin) {
  trials t;
  const trial_files files = {.path = s->path,
                             .with = s->args->with,
                             .n_with = s->args->n_with,
                             .seconds = s->args->seconds,
                             .strict = true};
  const bool fine = trials_init(&t, plugin, &files);
  for (size_t i = 0; fine && i < plugin->n_operators; ++i)
    for (size_t k = 0; k < plugin->operators[i].n_examples; ++k)
      compare_example(s, &plugin->operators[i], k, &t.v[i][k]);
  report_findings(s, t.findings);
  trials_deinit(&t);
  return fine;
}

void built_compare(const tn_plugin *manifests, const tn_plugin *found,
                   tn__buf *out) {
  if (strcmp(found->name, manifests->name) != 0)
    tn__buf_add(out, "this is the plugin `%s`, not `%s`", found->name,
                manifests->name);
  else if (found->manifest_hash != manifests->manifest_hash)
    tn__buf_add(out,
                "it was not built from the manifests of `%s` given here; build "
                "it again",
                found->name);
}

static bool is_companion(const tn_plugin *of, const char *name) {
  static const char end[] = "_cuda";
  const size_t n = strlen(of->name);
  return strncmp(name, of->name, n) == 0 && strcmp(name + n, end) == 0;
}

/* The plugin with the manifests. Those of `acme` are also those of its
 * companion `acme_cuda`. NULL if `name` is no companion, or if its tables do
 * not fit in memory, which the arena of `e` records. */
static const tn_plugin *companion_of(emit *e, const tn__vec *plugins,
                                     const char *name) {
  for (size_t i = 0; i < plugins->n; ++i) {
    const tnm_plugin *plugin = plugins->v[i];
    if (!is_companion(plugin->plugin, name)) continue;
    e->plugin = plugin;
    const tnm_plugin *companion = make_cuda_companion(e);
    return companion != NULL ? companion->plugin : NULL;
  }
  return NULL;
}

/* Reports manifests of another plugin: otherwise an author would believe them
 * checked. */
static void report_stranger(const subject *s, const tn__vec *plugins,
                            const tn_plugin *tables) {
  tn__buf names;
  tn__buf_init(&names, tn__env_default());
  for (size_t i = 0; i < plugins->n; ++i)
    tn__buf_add(&names, "%s`%s`", i > 0 ? ", " : "",
                ((const tnm_plugin *)plugins->v[i])->plugin->name);
  const size_t id =
      REPORT(s, "E0084", "this is the plugin `%s`, the manifests are of %s",
             tables->name, names.s != NULL ? names.s : "others");
  tn__buf_deinit(&names);
  tnm_diag_add_help(s->diags, id,
                    "give the manifests of `%s`, or check it without any; pass "
                    "the other plugins that it calls with `--with`",
                    tables->name);
}

static void report_other(const subject *s, const tn_plugin *manifests,
                         const tn_plugin *tables) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  built_compare(manifests, tables, &text);
  if (text.n > 0) {
    const size_t id = REPORT(s, "E0084", "%s", text.s);
    tnm_diag_add_help(s->diags, id, "`opgen diff` shows the differences");
  }
  tn__buf_deinit(&text);
}

static bool compare_tables(const subject *s, const built_manifests *given,
                           const tn_plugin *tables, tn__arena *arena) {
  const tnm_plugin *plugin = manifests_of(given->plugins, tables->name);
  emit e = {.env = tn__env_default(), .arena = arena};
  if (plugin != NULL && plugin->plugin->manifest_hash == tables->manifest_hash)
    return check_examples(s, plugin);
  const tn_plugin *own = plugin != NULL
                             ? plugin->plugin
                             : companion_of(&e, given->plugins, tables->name);
  if (arena->failed) {
    tn__fail_memory(sizeof *tables, "the tables of a plugin");
    return false;
  }
  if (own != NULL)
    report_other(s, own, tables);
  else if (given->plugins->n > 0 && given->whole)
    report_stranger(s, given->plugins, tables);
  return true;
}

static bool check_manifests(const subject *s, const built_manifests *given) {
  tn__arena arena;
  const tn_plugin *tables = NULL;
  tn__arena_init(&arena, tn__env_default());
  const bool fine = tnm_read_note(&arena, s->path, &tables) != TN_OK ||
                    compare_tables(s, given, tables, &arena);
  tn__arena_deinit(&arena);
  return fine;
}

bool built_check(const opgen_args *args, const char *path,
                 const built_manifests *given, tnm_diags *diags) {
  char *bytes = NULL;
  image file = {0};
  bool fine = true;
  subject s = {.args = args, .path = path, .diags = diags};
  s.file = tnm_diags_add_file(diags, path, "", 0);
  if (tnm_read_file(tn__env_default(), path, MOST_BYTES, &bytes, &file.n) !=
      TN_OK) {
    REPORT(&s, "E0001", "cannot read `%s`: %s", path, tn_error_text());
    return true;
  }
  file.bytes = bytes;
  if (check_loading(&s, &fine)) {
    check_exports(&s, &file);
    fine = check_manifests(&s, given);
  }
  tn__free(tn__env_default(), bytes);
  if (!fine) fprintf(stderr, "opgen: %s: it could not be checked\n", path);
  return fine;
}
