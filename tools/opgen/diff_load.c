/* SPDX-License-Identifier: Apache-2.0
 * diff_load.c: loads the two sides of a comparison. An existing path is a
 * manifest, a folder of manifests or a built plugin; any other may be REV:PATH.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diff.h"
#include "git.h"

static bool is_built(const char *path) {
  char magic[4] = {0};
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  const bool elf = fread(magic, 1, sizeof magic, file) == sizeof magic &&
                   memcmp(magic, "\177ELF", sizeof magic) == 0;
  (void)fclose(file);
  return elf;
}

static bool read_built(diff_side *side, const char *path) {
  if (tnm_read_note(&side->arena, path, &side->tables) == TN_OK) return true;
  fprintf(stderr, "opgen: %s: %s\n", path, tn_error_text());
  return false;
}

static bool read_manifests(diff_side *side, const char *path) {
  side->manifests = opgen_read_lone(side->args, path);
  if (side->manifests == NULL) return false;
  side->tables = side->manifests->plugin;
  return true;
}

static size_t add_companion(const tnm_operator *op, const tn_kernel **out) {
  size_t n = 0;
  for (size_t i = 0; i < op->n_kernels; ++i) {
    const tnm_kernel *kernel = &op->kernels[i];
    if (!kernel->companion) continue;
    if (kernel->forward != NULL) out[n++] = kernel->forward;
    if (kernel->backward != NULL) out[n++] = kernel->backward;
  }
  return n;
}

bool diff_side_add_companion(diff_side *side) {
  const tnm_plugin *from = side->manifests;
  size_t most = from->plugin->n_kernels;
  for (size_t i = 0; i < from->n_operators; ++i)
    most += 2 * from->operators[i].n_kernels;
  tn_plugin *tables = tn__arena_alloc(&side->arena, sizeof *tables);
  const tn_kernel **kernels =
      tn__arena_alloc(&side->arena, (most + 1) * sizeof *kernels);
  if (tables == NULL || kernels == NULL) {
    fprintf(stderr, "opgen: out of memory\n");
    return false;
  }
  *tables = *from->plugin;
  for (uint32_t i = 0; i < tables->n_kernels; ++i)
    kernels[i] = tables->kernels[i];
  for (size_t i = 0; i < from->n_operators; ++i)
    tables->n_kernels += (uint32_t)add_companion(&from->operators[i],
                                                 kernels + tables->n_kernels);
  tables->kernels = kernels;
  side->tables = tables;
  return true;
}

/* A path in a revision: a folder, and the one file in it, or "". */
typedef struct within {
  char folder[PATH_MAX];
  char file[PATH_MAX];
} within;

static bool split_path(const char *path, within *to) {
  const size_t n = strlen(path);
  const char *slash = strrchr(path, '/');
  const bool file = n > 5 && strcmp(path + n - 5, ".yaml") == 0;
  size_t length = n;
  if (n >= PATH_MAX) return false;
  if (file) length = slash != NULL ? (size_t)(slash - path) : 0;
  memcpy(to->folder, path, length);
  to->folder[length] = '\0';
  if (length == 0) memcpy(to->folder, ".", 2);
  (void)snprintf(to->file, sizeof to->file, "%s",
                 !file           ? ""
                 : slash != NULL ? slash + 1
                                 : path);
  return true;
}

/* The name of a folder, which may no longer exist. It names the plugin unless
 * plugin.yaml does. */
static const char *name_of(const char *folder, char real[PATH_MAX]) {
  if (realpath(folder, real) == NULL)
    (void)snprintf(real, PATH_MAX, "%s", folder);
  const char *slash = strrchr(real, '/');
  const char *name = slash != NULL ? slash + 1 : real;
  return *name != '\0' && *name != '.' ? name : "plugin";
}

static bool join_path(char to[PATH_MAX], const char *folder, const char *name) {
  const int n = snprintf(to, PATH_MAX, "%s/%s", folder, name);
  if (n > 0 && n < PATH_MAX) return true;
  fprintf(stderr, "opgen: `%s/%s` is too long for a path\n", folder, name);
  return false;
}

/* Reads the output of `git show`, in a folder of its name in `base`. */
static bool read_exported(diff_side *side, const char *revision,
                          const within *from, const char *base) {
  char real[PATH_MAX], folder[PATH_MAX], file[PATH_MAX];
  if (!join_path(folder, base, name_of(from->folder, real)) ||
      !join_path(file, folder, from->file))
    return false;
  if (mkdir(folder, 0700) != 0) {
    fprintf(stderr, "opgen: cannot make `%s`: %s\n", folder, strerror(errno));
    return false;
  }
  const bool fine = git_export(revision, from->folder, folder) &&
                    read_manifests(side, *from->file != '\0' ? file : folder);
  git_remove(folder);
  return fine;
}

/* Reads the folder of a revision from a temporary one and deletes that. The
 * reader keeps no reference to it. */
static bool read_revision(diff_side *side, const char *path,
                          const char *colon) {
  char revision[PATH_MAX], base[PATH_MAX];
  within from;
  const char *tmp = getenv("TMPDIR");
  const size_t n = (size_t)(colon - path);
  if (n >= sizeof revision || !split_path(colon + 1, &from)) {
    fprintf(stderr, "opgen: `%s` is too long for a path\n", path);
    return false;
  }
  if (!join_path(base, tmp != NULL && *tmp != '\0' ? tmp : "/tmp",
                 "opgen.XXXXXX"))
    return false;
  if (mkdtemp(base) == NULL) {
    fprintf(stderr, "opgen: cannot make a temporary folder: %s\n",
            strerror(errno));
    return false;
  }
  memcpy(revision, path, n);
  revision[n] = '\0';
  const bool fine = read_exported(side, revision, &from, base);
  (void)rmdir(base);
  return fine;
}

bool diff_side_init(diff_side *side, const opgen_args *args, const char *path) {
  struct stat info;
  const char *colon = strchr(path, ':');
  *side = (diff_side){.args = args, .path = path};
  tn__arena_init(&side->arena, tn__env_default());
  const bool exists = stat(path, &info) == 0;
  if (!exists && colon != NULL) return read_revision(side, path, colon);
  if (exists && S_ISREG(info.st_mode) && is_built(path))
    return read_built(side, path);
  return read_manifests(side, path);
}

void diff_side_deinit(diff_side *side) {
  tnm_plugin_release(side->manifests);
  tn__arena_deinit(&side->arena);
}
