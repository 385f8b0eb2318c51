/* SPDX-License-Identifier: Apache-2.0
 * output.c: writes the generated files. Everything is rendered in memory before
 * the first byte is written. An unchanged file is not touched, so that a build
 * compiles only changed files.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit.h"
#include "files.h"
#include "opgen.h"

/* ---------------------------------------------------------------- rendering */

typedef struct renderer {
  opgen_files *files;
  emit emit;
  bool render;
  claims *claims; /* or NULL */
} renderer;

/* Begins an empty file, of the operators of `stem` or, with NULL, of the
 * plugin. */
static void begin_file(renderer *r, const char *name, const char *stem) {
  c_init(&r->emit.c, r->emit.env);
  r->files->v[r->files->n].name = name;
  if (r->claims != NULL)
    r->emit.c.listener = claims_begin(r->claims, &r->emit, name, stem);
}

static void end_file(renderer *r) {
  tn__buf *text = &r->files->v[r->files->n++].text;
  tn__buf_init(text, r->emit.env);
  if (r->claims == NULL) c_print(&r->emit.c, text);
  text->failed |= r->emit.c.failed;
  c_deinit(&r->emit.c);
}

static void add_stem(renderer *r, const char *stem) {
  begin_file(r, name_format(&r->emit, "%s.gen.h", stem), stem);
  if (r->render) emit_header(&r->emit, stem);
  end_file(r);
  begin_file(r, name_format(&r->emit, "%s.gen.c", stem), stem);
  if (r->render) emit_source(&r->emit, stem);
  end_file(r);
  if (!has_formulas(&r->emit, stem)) return;
  begin_file(r, name_format(&r->emit, "%s.formula.gen.h", stem), stem);
  if (r->render) emit_formula_header(&r->emit, stem);
  end_file(r);
  begin_file(r, name_format(&r->emit, "%s.kernel.gen.c", stem), stem);
  if (r->render) emit_kernel_source(&r->emit, stem);
  end_file(r);
}

static bool is_first(const tnm_plugin *plugin, size_t index) {
  const char *stem = plugin->operators[index].stem;
  for (size_t i = 0; i < index; ++i)
    if (strcmp(plugin->operators[i].stem, stem) == 0) return false;
  return true;
}

static void add_map(renderer *r, const char *name) {
  begin_file(r, name, NULL);
  if (r->render) emit_plugin_map(&r->emit, name);
  end_file(r);
}

static void add_plugin(renderer *r) {
  begin_file(r, "plugin.gen.h", NULL);
  if (r->render) emit_plugin_header(&r->emit);
  end_file(r);
  begin_file(r, "plugin.gen.c", NULL);
  if (r->render) emit_plugin_source(&r->emit);
  end_file(r);
  if (has_formulas(&r->emit, NULL)) {
    begin_file(r, "plugin.kernel.gen.c", NULL);
    if (r->render) emit_plugin_kernel_source(&r->emit);
    end_file(r);
  }
  add_map(r, "plugin.gen.map");
}

/* Adds the companion: loops if there are formulas, tables if there are
 * kernels. */
static void add_cuda(renderer *r, const tnm_plugin *plugin) {
  bool any = false;
  for (size_t i = 0; i < plugin->n_operators; ++i) {
    const char *stem = plugin->operators[i].stem;
    any |= has_cuda(&plugin->operators[i]);
    if (!is_first(plugin, i) || !has_formulas(&r->emit, stem)) continue;
    begin_file(r, name_format(&r->emit, "%s.gen.cu", stem), stem);
    if (r->render) emit_cuda_source(&r->emit, stem);
    end_file(r);
  }
  if (!any) return;
  begin_file(r, "cuda.gen.h", NULL);
  if (r->render) emit_cuda_header(&r->emit);
  end_file(r);
  begin_file(r, "cuda.gen.c", NULL);
  if (r->render) emit_cuda_plugin(&r->emit);
  end_file(r);
  add_map(r, "cuda.gen.map");
}

static void add_tests(renderer *r, const tnm_plugin *plugin) {
  begin_file(r, name_format(&r->emit, "%s_test.gen.c", plugin->plugin->name),
             NULL);
  if (r->render) emit_test_source(&r->emit);
  end_file(r);
}

static bool is_complete(const opgen_files *files) {
  bool failed = files->arena.failed;
  for (size_t i = 0; i < files->n; ++i) failed |= files->v[i].text.failed;
  if (failed) fprintf(stderr, "opgen: out of memory\n");
  return !failed;
}

bool opgen_files_init(opgen_files *files, const tnm_plugin *plugin,
                      const opgen_selection *wanted) {
  const tn__env *env = tn__env_default();
  *files = (opgen_files){0};
  tn__arena_init(&files->arena, env);
  files->v = tn__arena_alloc(&files->arena,
                             (4 * plugin->n_operators + 4) * sizeof *files->v);
  if (files->v == NULL) return is_complete(files);
  renderer r = {
      .files = files, .render = !wanted->names_only, .claims = wanted->claims};
  r.emit = (emit){.env = env, .plugin = plugin, .arena = &files->arena};
  if (wanted->cuda) {
    add_cuda(&r, plugin);
    return is_complete(files);
  }
  if (wanted->tests) {
    add_tests(&r, plugin);
    return is_complete(files);
  }
  for (size_t i = 0; i < plugin->n_operators; ++i)
    if (is_first(plugin, i)) add_stem(&r, plugin->operators[i].stem);
  add_plugin(&r);
  return is_complete(files);
}

void opgen_files_deinit(opgen_files *files) {
  for (size_t i = 0; i < files->n; ++i) tn__buf_deinit(&files->v[i].text);
  tn__arena_deinit(&files->arena);
}

/* ------------------------------------------------------------------ writing */

static bool failed_to(const char *what, const char *path) {
  fprintf(stderr, "opgen: cannot %s %s: %s\n", what, path, strerror(errno));
  return false;
}

/* Tests whether the file contains exactly this text. */
static bool is_same(const char *path, const char *text, size_t n) {
  char chunk[4096];
  size_t at = 0, got = 0;
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) {
    if (got > n - at || memcmp(chunk, text + at, got) != 0) break;
    at += got;
  }
  const bool same = got == 0 && at == n && ferror(file) == 0;
  (void)fclose(file);
  return same;
}

static tn_code write_whole(const char *path, const char *text, size_t n) {
  tn__sink sink;
  TN__TRY(tn__sink_open(tn__env_default(), path, &sink));
  tn_code rc = tn__sink_write(&sink, text, n);
  if (rc == TN_OK) rc = tn__sink_commit(&sink, TN__SINK_QUICK);
  tn__sink_close(&sink);
  return rc;
}

bool opgen_file_replace(const char *path, const char *text, size_t n) {
  if (write_whole(path, text, n) == TN_OK) return true;
  fprintf(stderr, "opgen: %s\n", tn_error_text());
  return false;
}

bool opgen_file_write(const char *path, const tn__buf *text) {
  const char *s = text->s != NULL ? text->s : "";
  return is_same(path, s, text->n) || opgen_file_replace(path, s, text->n);
}

bool opgen_files_write(const opgen_files *files, const char *dir) {
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) return failed_to("make", dir);
  bool fine = true;
  for (size_t i = 0; i < files->n && fine; ++i) {
    tn__buf path;
    tn__buf_init(&path, tn__env_default());
    tn__buf_add(&path, "%s/%s", dir, files->v[i].name);
    fine = !path.failed && opgen_file_write(path.s, &files->v[i].text);
    tn__buf_deinit(&path);
  }
  return fine;
}

/* ------------------------------------------------------------------ depfile */

/* Adds a path with blanks, `#` and `$` escaped for make and ninja. */
static void add_escaped(tn__buf *out, const char *path) {
  for (; *path != '\0'; ++path) {
    if (*path == ' ' || *path == '#') tn__buf_bytes(out, "\\", 1);
    if (*path == '$') tn__buf_bytes(out, "$", 1);
    tn__buf_bytes(out, path, 1);
  }
}

bool opgen_depfile_write(const opgen_files *files, const opgen_args *args,
                         const tnm_plugin *plugin) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  for (size_t i = 0; i < files->n; ++i) {
    tn__buf_add(&text, i > 0 ? " " : "");
    add_escaped(&text, args->out_dir);
    tn__buf_add(&text, "/");
    add_escaped(&text, files->v[i].name);
  }
  tn__buf_add(&text, ":");
  for (size_t i = 0; i < plugin->n_files; ++i) {
    if (access(plugin->files[i], F_OK) != 0) continue;
    tn__buf_add(&text, " \\\n  ");
    add_escaped(&text, plugin->files[i]);
  }
  tn__buf_add(&text, "\n");
  const bool fine =
      !text.failed && opgen_file_replace(args->depfile, text.s, text.n);
  tn__buf_deinit(&text);
  return fine;
}
