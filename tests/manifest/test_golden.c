/* SPDX-License-Identifier: Apache-2.0
 * test_golden.c: reads the bad manifests of tests/opgen/err in this process:
 * the messages of `opgen check`, and a bad manifest for every code. tests/opgen
 * tests the codes that opgen finds by running the operator (E007x), in built
 * plugins (E008x) and by its lints (W01xx). tests/opgen/cases.py writes the
 * cases into the folder that CASES names.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static char *read_text(const char *path) {
  FILE *from = fopen(path, "rb");
  if (from == NULL) return NULL;
  char *text = calloc(1, 1 << 20);
  if (fread(text, 1, (1 << 20) - 1, from) == 0) text[0] = '\0';
  fclose(from);
  return text;
}

static bool is_found_by_opgen(const char *code) {
  return strncmp(code, "E007", 4) == 0 || strncmp(code, "E008", 4) == 0 ||
         strncmp(code, "E02", 3) == 0 || strncmp(code, "W01", 3) == 0;
}

/* A message of the registry has no position. */
static bool needs_runtime(const char *text, const char *folder) {
  return strstr(text, "[E007") != NULL || strstr(text, "[W01") != NULL ||
         strncmp(text, folder, strlen(folder)) != 0;
}

/* Cases that need arguments of a command line. */
static bool needs_arguments(const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/args", folder);
  FILE *args = fopen(path, "rb");
  if (args != NULL) fclose(args);
  return args != NULL;
}

/* Calls `body` with each case that has an expected text; counts them. */
static size_t each_case(void (*body)(const char *folder, const char *expected,
                                     void *arg),
                        void *arg) {
  const char *cases = getenv("CASES");
  DIR *folder = opendir(cases != NULL ? cases : "");
  cr_assert_not_null(folder, "run it by tests/opgen/cases.py");
  size_t n = 0;
  for (struct dirent *e; (e = readdir(folder)) != NULL;) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/expected.stderr", cases, e->d_name);
    char *expected = e->d_name[0] == '.' ? NULL : read_text(path);
    if (expected == NULL) continue;
    snprintf(path, sizeof path, "%s/%s", cases, e->d_name);
    body(path, expected, arg);
    free(expected);
    ++n;
  }
  closedir(folder);
  return n;
}

static void compare_case(const char *folder, const char *expected, void *arg) {
  (void)arg;
  if (needs_runtime(expected, folder) || needs_arguments(folder)) return;
  tnm_plugin *plugin;
  char *came = memory_read(tn__env_default(), folder, TNM_HUMAN, &plugin);
  const bool mistakes = strstr(expected, " error[") != NULL;
  cr_expect_eq(plugin == NULL, mistakes, "%s is %s", folder,
               plugin ? "taken" : "refused");
  cr_expect_str_eq(came, expected, "%s: came\n%s", folder, came);
  tnm_plugin_release(plugin);
  free(came);
}

Test(golden, every_bad_manifest_has_the_expected_messages) {
  cr_assert_gt(each_case(compare_case, NULL), 150);
}

static void find_code(const char *folder, const char *expected, void *arg) {
  (void)folder;
  const char **code = arg;
  char text[16];
  if (*code == NULL) return;
  snprintf(text, sizeof text, "[%s]", *code);
  if (strstr(expected, text) != NULL) *code = NULL;
}

Test(golden, every_code_has_a_bad_manifest) {
  for (size_t i = 0; tnm_code_at(i) != NULL; ++i) {
    const char *code = tnm_code_at(i);
    if (is_found_by_opgen(code)) continue;
    const char *wanted = code;
    each_case(find_code, &wanted);
    cr_expect_null(wanted, "%s has no case in tests/opgen/err", code);
  }
}

static void find_unlisted(const char *folder, const char *expected, void *arg) {
  (void)arg;
  for (const char *at = expected; (at = strstr(at, "[E")) != NULL; ++at) {
    char code[6];
    memcpy(code, at + 1, 5);
    code[5] = '\0';
    if (at[6] != ']') continue;
    cr_expect_not_null(tnm_code_explain(code), "%s: %s", folder, code);
  }
}

Test(golden, every_reported_code_is_explained) {
  cr_assert_gt(each_case(find_unlisted, NULL), 150);
}
