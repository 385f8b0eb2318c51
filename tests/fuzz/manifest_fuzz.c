/* SPDX-License-Identifier: Apache-2.0
 * manifest_fuzz.c: any bytes as the manifest of an operator, and as the
 * plugin.yaml of a good one. Refused input has messages with a place in a file.
 * Accepted input gives valid tables that survive being encoded. Time and memory
 * are within bounds of the size.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "manifest.h"

static const char good_plugin[] =
    "opgen: 1\nplugin: demo\nrelease: 2\nsummary: Operators\n"
    "license: Apache-2.0\noperators: [op.yaml]\n";
static const char good_op[] =
    "opgen: 1\nop: scale\nsummary: Scaled\ninputs: [{name: x, dtype: f32}]\n"
    "outputs: [{name: y, dtype: f32, shape: x}]\nforward: {y: 2*x}\n"
    "gradient: auto\n";

/* The files that there are. */
typedef struct memory_file {
  const char *name;
  const uint8_t *data;
  size_t n;
} memory_file;

enum { FIRST = 1000 };
static memory_file files[2] = {{.name = "plugin.yaml"}, {.name = "op.yaml"}};

static int memory_open(const char *path) {
  for (int i = 0; i < 2; ++i)
    if (strcmp(path, files[i].name) == 0) return FIRST + i;
  errno = ENOENT;
  return -1;
}

static int memory_fstat(int fd, struct stat *out) {
  *out =
      (struct stat){.st_mode = S_IFREG, .st_size = (off_t)files[fd - FIRST].n};
  return 0;
}

static int memory_stat(const char *path, struct stat *out) {
  const int fd = memory_open(path);
  return fd < 0 ? -1 : memory_fstat(fd, out);
}

static ssize_t memory_pread(int fd, void *to, size_t n, int64_t at) {
  const memory_file *file = &files[fd - FIRST];
  const size_t left = file->n - (size_t)at;
  if (n > left) n = left;
  if (n > 0) memcpy(to, file->data + at, n);
  return (ssize_t)n;
}

static int memory_close(int fd) {
  (void)fd;
  return 0;
}

static const tn__os memory_os = {.open = memory_open,
                                 .fstat = memory_fstat,
                                 .stat = memory_stat,
                                 .pread = memory_pread,
                                 .close = memory_close};

/* ---------------------------------------------------------------- messages */

static unsigned long lines_of(const memory_file *file) {
  unsigned long n = 1;
  for (size_t i = 0; i < file->n; ++i) n += file->data[i] == '\n';
  return n;
}

/* "op.yaml:3:14: error[E0012]: text" */
static void check_line(const char *line) {
  char *end = NULL;
  const char *colon = strchr(line, ':');
  fuzz_check(colon != NULL, "a message names no file");
  if (colon == NULL) return;
  const size_t n = (size_t)(colon - line);
  const memory_file *file = NULL;
  for (int i = 0; i < 2; ++i)
    if (strlen(files[i].name) == n && memcmp(files[i].name, line, n) == 0)
      file = &files[i];
  fuzz_check(file != NULL, "a message is about another file");
  const unsigned long row = strtoul(colon + 1, &end, 10);
  if (!(row >= 1 && row <= lines_of(file))) fprintf(stderr, "%s\n", line);
  fuzz_check(row >= 1 && row <= lines_of(file), "a message has no line");
  fuzz_check(*end == ':' && strtoul(end + 1, &end, 10) >= 1,
             "a message has no column");
  fuzz_check(
      strncmp(end, ": error[E", 9) == 0 || strncmp(end, ": warning[W", 11) == 0,
      "a message has no code");
}

/* Everything that is printed in a format; the caller frees it. */
static char *printed(const tnm_diags *diags, int format) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  fuzz_check(to != NULL, "there is no stream");
  tnm_diags_print(diags, to, format, format == TNM_HUMAN);
  (void)fclose(to);
  return text;
}

static void check_messages(const tnm_diags *diags) {
  free(printed(diags, TNM_HUMAN));
  free(printed(diags, TNM_JSON));
  char *text = printed(diags, TNM_SHORT);
  for (char *line = text; line != NULL && *line != '\0';) {
    char *end = strchr(line, '\n');
    if (end != NULL) *end = '\0';
    if (strncmp(line, "opgen: ", 7) != 0) check_line(line);
    line = end != NULL ? end + 1 : NULL;
  }
  free(text);
}

/* ------------------------------------------------------------------ reading */

/* An accepted manifest must be valid, and must be the same after encoding and
 * decoding. */
static void check_tables(const tn__env *env, const tnm_plugin *plugin) {
  tn__buf bytes;
  tn__arena arena;
  const tn_plugin *back = NULL;
  fuzz_check(tn__tables_check(env, plugin->plugin, false) == TN_OK,
             "tables that were written make no sense");
  tn__buf_init(&bytes, env);
  tn__arena_init(&arena, env);
  tn__tables_encode(plugin->plugin, &bytes);
  fuzz_check(tn__tables_decode(&arena, bytes.s, bytes.n, &back) == TN_OK,
             "an encoding cannot be decoded");
  fuzz_check(tn__tables_compare(env, back, bytes.s, bytes.n) == TN_OK,
             "decoded tables differ");
  tn__arena_deinit(&arena);
  tn__buf_deinit(&bytes);
}

static void read_plugin(size_t size) {
  tn__env env = *tn__env_default();
  env.allocator = fuzz_allocator;
  env.os = &memory_os;
  const tnm_read_options options = {.n_with = 0};
  const size_t mark = fuzz_meter();
  tnm_diags *diags = tnm_diags_create(&env);
  fuzz_check(diags != NULL, "there is no memory");
  tnm_plugin *plugin = tnm_plugin_read(&env, "plugin.yaml", &options, diags);
  fuzz_check((plugin == NULL) == (tnm_diags_errors(diags) > 0),
             "what is refused has no message");
  check_messages(diags);
  if (plugin != NULL) check_tables(&env, plugin);
  fuzz_check(fuzz_most(mark) <= 4096 * size + (8 << 20),
             "reading took too much memory");
  tnm_plugin_release(plugin);
  tnm_diags_release(diags);
  fuzz_check(fuzz_left(mark) == 0, "memory is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  files[0].data = (const uint8_t *)good_plugin;
  files[0].n = sizeof good_plugin - 1;
  files[1].data = data;
  files[1].n = size;
  read_plugin(size);
  files[0].data = data;
  files[0].n = size;
  files[1].data = (const uint8_t *)good_op;
  files[1].n = sizeof good_op - 1;
  read_plugin(size);
  return 0;
}
