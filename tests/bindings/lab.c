/* SPDX-License-Identifier: Apache-2.0
 * lab.c: see lab.h.
 */
#include "lab.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void lab_open(lab *l, const tn_options *options) {
  OK(tn_runtime_create(options, &l->rt));
  strcpy(l->folder, "/tmp/tenon-test-XXXXXX");
  cr_assert_not_null(mkdtemp(l->folder));
  strcat(l->folder, "/lab");
  cr_assert_eq(mkdir(l->folder, 0700), 0);
}

void lab_close(lab *l) {
  static const char *const files[] = {"op.yaml", "plugin.yaml", "other.yaml",
                                      "beside.so"};
  tn_runtime_release(l->rt);
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", l->folder, files[i]);
    (void)unlink(path);
  }
  cr_assert_eq(rmdir(l->folder), 0);
  *strrchr(l->folder, '/') = 0;
  cr_assert_eq(rmdir(l->folder), 0);
}

const char *lab_text(const char *text) {
  static char to[8192];
  size_t n = 0;
  for (; *text; ++text) {
    const char *part = *text == '@' ? LIBRARY_FILE : NULL;
    const size_t length = part ? strlen(part) : 1;
    cr_assert_lt(n + length, sizeof to);
    memcpy(to + n, part ? part : text, length);
    n += length;
  }
  to[n] = 0;
  return to;
}

const char *lab_file(lab *l, const char *name, const char *text) {
  static char path[128];
  (void)snprintf(path, sizeof path, "%s/%s", l->folder, name);
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  cr_assert_geq(fputs(lab_text(text), file), 0);
  cr_assert_eq(fclose(file), 0);
  return path;
}

tn_code lab_load(lab *l, const char *text) {
  return tn_plugin_load(l->rt, lab_file(l, "op.yaml", text));
}

const char *lab_simple(const char *symbol) {
  static char text[1024];
  (void)snprintf(text, sizeof text,
                 "opgen: 1\n"
                 "op: simple\n"
                 "summary: A function of one tensor\n"
                 "inputs: [{name: x, dtype: f32}]\n"
                 "outputs: [{name: out, dtype: f32, shape: x}]\n"
                 "binding:\n"
                 "  library: \"@\"\n"
                 "  symbol: %s\n"
                 "  thread: any\n"
                 "  args:\n"
                 "    - {c: int32, pass: size(x)}\n"
                 "    - {c: const float*, pass: x}\n"
                 "    - {c: float*, pass: out}\n"
                 "examples: [{name: doc, x: [1, 2, 3], out: [1, 2, 3]}]\n",
                 symbol);
  return text;
}
