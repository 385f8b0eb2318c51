/* SPDX-License-Identifier: Apache-2.0
 * diff_load.c: the two sides of a comparison. What exists is a manifest, a
 * folder of manifests or a built plugin; what does not may be REV:PATH.
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
  side->manifests = opgen_read(side->args, path);
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

bool diff_side_whole(diff_side *side) {
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

/* The folder that a path within a revision means. */
static void cut_file(char *path) {
  const size_t n = strlen(path);
  char *slash = strrchr(path, '/');
  if (n < 5 || strcmp(path + n - 5, ".yaml") != 0) return;
  if (slash != NULL)
    *slash = '\0';
  else
    *path = '\0';
}

/* The folder of a revision, in a temporary one that is gone afterwards: the
 * reading keeps nothing of it. */
static bool read_revision(diff_side *side, const char *path,
                          const char *colon) {
  char revision[PATH_MAX], within[PATH_MAX], folder[PATH_MAX];
  const char *base = getenv("TMPDIR");
  const size_t n = (size_t)(colon - path);
  const int made = snprintf(folder, sizeof folder, "%s/opgen.XXXXXX",
                            base != NULL && *base != '\0' ? base : "/tmp");
  if (n >= sizeof revision || strlen(colon) >= sizeof within || made < 0 ||
      (size_t)made >= sizeof folder || mkdtemp(folder) == NULL) {
    fprintf(stderr, "opgen: cannot make a temporary folder: %s\n",
            strerror(errno));
    return false;
  }
  memcpy(revision, path, n);
  revision[n] = '\0';
  (void)snprintf(within, sizeof within, "%s", colon + 1);
  cut_file(within);
  const bool fine =
      git_export(revision, *within != '\0' ? within : ".", folder) &&
      read_manifests(side, folder);
  git_forget(folder);
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
