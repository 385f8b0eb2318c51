/* SPDX-License-Identifier: Apache-2.0
 * scratch.c: temporary files, and the content of standard input in one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon_tool.h"

char *scratch_create(const char *suffix, text *why) {
  const char *folder = secure_getenv("TMPDIR");
  text path = {0};
  text_add(&path, "%s/tenon-XXXXXX%s", folder && *folder ? folder : "/tmp",
           suffix);
  const int file = path.failed ? -1 : mkstemps(path.data, (int)strlen(suffix));
  if (file >= 0) {
    close(file);
    return path.data; /* the caller frees it */
  }
  report_failure(why, "cannot create the temporary file %s: %s",
                 text_get(&path), strerror(errno));
  text_deinit(&path);
  return NULL;
}

void scratch_remove(char *path) {
  if (path) unlink(path);
  free(path);
}

static bool copy_stream(FILE *from, FILE *to) {
  char block[1 << 16];
  for (size_t n = 0; (n = fread(block, 1, sizeof block, from)) > 0;)
    if (fwrite(block, 1, n, to) != n) return false;
  return !ferror(from);
}

char *scratch_stdin(text *why) {
  if (isatty(STDIN_FILENO)) {
    report_failure(
        why,
        "`@-` reads a file from standard input, which is a terminal; redirect "
        "it, such as `tenon run OP @- < x.npy`");
    return NULL;
  }
  char *path = scratch_create("", why);
  FILE *to = path ? fopen(path, "wb") : NULL;
  errno = 0;
  bool ok = to && copy_stream(stdin, to);
  if (to && fclose(to) != 0) ok = false;
  if (ok || !path) return path;
  report_failure(why, "cannot copy standard input to %s: %s", path,
                 strerror(errno));
  scratch_remove(path);
  return NULL;
}

bool scratch_read(const char *path, text *out, text *why) {
  char block[1 << 16];
  FILE *file = fopen(path, "rb");
  if (!file) return report_failure(why, "%s: %s", path, strerror(errno));
  for (size_t n = 0; (n = fread(block, 1, sizeof block, file)) > 0;)
    text_add_bytes(out, block, n);
  const bool ok = !ferror(file);
  fclose(file);
  return ok ||
         report_failure(why, "%s: cannot be read: %s", path, strerror(errno));
}
