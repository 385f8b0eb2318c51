/* SPDX-License-Identifier: Apache-2.0
 * test_host.c: the folders of plugins that the command searches: the user's own
 * is one of them, unless the program runs with the rights of another user.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon_tool.h"

static char home[64];
static char folder[128];
static char file[160];

/* A user folder with a link to a plugin. */
static void make_home(void) {
  (void)snprintf(home, sizeof home, "/tmp/tenon-home-XXXXXX");
  cr_assert_not_null(mkdtemp(home));
  cr_assert_eq(chmod(home, 0755), 0); /* other users may look into it */
  const char *const parts[] = {"/.local", "/.local/lib", "/.local/lib/tenon"};
  for (size_t i = 0; i < 3; ++i) {
    (void)snprintf(folder, sizeof folder, "%s%s", home, parts[i]);
    cr_assert_eq(mkdir(folder, 0755), 0);
  }
  (void)snprintf(file, sizeof file, "%s/elemwise.so", folder);
  cr_assert_eq(symlink(PLUGIN_FILE, file), 0);
  setenv("HOME", home, 1);
  unsetenv("TENON_PLUGIN_PATH");
}

static void remove_home(void) {
  unlink(file);
  for (size_t i = 0; i < 3; ++i) {
    rmdir(folder);
    *strrchr(folder, '/') = '\0';
  }
  rmdir(home);
}

TestSuite(host, .init = make_home, .fini = remove_home);

/* How many plugins come from the user folder. */
static size_t count_plugins(void) {
  const arguments args = {0};
  tn_plugin_info info;
  text why = {0};
  host h;
  size_t n = 0;
  cr_assert(host_open(&h, &args, 1, &why), "%s", text_get(&why));
  cr_assert(host_load(&h, &args, &why), "%s", text_get(&why));
  for (size_t i = 0; !tn_plugin_at(h.rt, i, &info); ++i)
    n += !strcmp(info.plugin->name, "elemwise");
  host_close(&h);
  text_deinit(&why);
  return n;
}

Test(host, loads_the_plugins_of_the_user_folder) {
  cr_expect_eq(count_plugins(), 1);
}

Test(host, refuses_a_user_folder_that_others_may_write) {
  cr_assert_eq(chmod(folder, 0777), 0);
  cr_expect_eq(count_plugins(), 0);
}

Test(host, needs_no_user_folder) {
  setenv("HOME", "/nowhere", 1);
  cr_expect_eq(count_plugins(), 0);
  unsetenv("HOME");
  cr_expect_eq(count_plugins(), 0);
}

Test(host, ignores_a_home_that_is_relative_or_has_a_colon) {
  cr_assert_eq(chdir("/"), 0);
  setenv("HOME", home + 1, 1);
  cr_expect_eq(count_plugins(), 0);
  char both[160];
  (void)snprintf(both, sizeof both, "/nowhere:%s", home);
  setenv("HOME", both, 1);
  cr_expect_eq(count_plugins(), 0);
}

Test(host, has_no_user_folder_with_the_rights_of_another_user) {
  if (geteuid() != 0)
    cr_skip_test("only root can change the real user of a process");
  cr_assert_eq(setresuid(65534, 0, 0), 0);
  cr_expect_eq(count_plugins(), 0);
  cr_assert_eq(setresuid(0, 0, 0), 0);
  cr_expect_eq(count_plugins(), 1);
}
