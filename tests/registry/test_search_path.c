/* SPDX-License-Identifier: Apache-2.0
 * test_search_path.c: no plugin is loaded through a file or folder that another
 * user may change, at any place of the path.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "world.h"

enum { NOBODY = 65534 };

/* The path DIR/above/plugins/fix.so. */
typedef struct tree {
  world w;
  char above[128], plugins[160], file[192], link[160];
} tree;

static void open_tree(tree *t, uint32_t trust) {
  size_t size;
  uint8_t *bytes = fixture_bytes("fix", &size);
  world_open(&t->w, trust);
  (void)snprintf(t->above, sizeof t->above, "%s/above", t->w.folder);
  (void)snprintf(t->plugins, sizeof t->plugins, "%s/plugins", t->above);
  (void)snprintf(t->file, sizeof t->file, "%s/fix.so", t->plugins);
  (void)snprintf(t->link, sizeof t->link, "%s/link", t->w.folder);
  cr_assert_eq(mkdir(t->above, 0755), 0);
  cr_assert_eq(mkdir(t->plugins, 0755), 0);
  cr_assert_eq(chmod(t->above, 0755) | chmod(t->plugins, 0755), 0);
  (void)world_file(&t->w, "above/plugins/fix.so", bytes, size);
  cr_assert_eq(chmod(t->file, 0644), 0);
  free(bytes);
}

static void close_tree(tree *t) {
  (void)unlink(t->file);
  (void)unlink(t->plugins); /* a link, in one test */
  (void)rmdir(t->plugins);
  (void)rmdir(t->above);
  world_close(&t->w);
}

/* Expects that a search of `path` fails with a message about `culprit` and
 * loads nothing. */
static void expect_refusal(tree *t, const char *path, const char *culprit,
                           const char *why) {
  char expected[512];
  (void)snprintf(expected, sizeof expected, "%s: %s", culprit, why);
  cr_assert_eq(tn__plugins_load_path(t->w.registry, path), TN_INVALID,
               "%s was searched, although %s %s", path, culprit, why);
  cr_assert(strstr(tn_error_text(), expected), "%s", tn_error_text());
  cr_assert_eq(t->w.registry->plugins.n, 0);
}

static void expect_load(tree *t, const char *path) {
  cr_assert_eq(tn__plugins_load_path(t->w.registry, path), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(t->w.registry->plugins.n, 1);
  cr_assert_eq(tn__plugin_unload(t->w.registry, "fix"), TN_OK);
}

/* Whether the test's user can change the owner of files; prints a line if
 * not. */
static bool is_root(void) {
  if (geteuid() == 0) return true;
  cr_log_warn("only root can give files away: this part is not run");
  return false;
}

Test(search_path, refuses_a_folder_below_one_that_others_may_write) {
  tree t;
  open_tree(&t, 0);
  expect_load(&t, t.plugins);
  cr_assert_eq(chmod(t.above, 0777), 0);
  expect_refusal(&t, t.plugins, t.above, "is writable by everybody");
  cr_assert(strstr(tn_error_text(), "(it is on the way to"), "%s",
            tn_error_text());
  close_tree(&t);
}

Test(search_path, allows_a_sticky_folder_above_but_not_as_the_folder) {
  tree t;
  open_tree(&t, 0);
  cr_assert_eq(chmod(t.above, 01777), 0);
  expect_load(&t, t.plugins);
  cr_assert_eq(chmod(t.plugins, 01777), 0);
  expect_refusal(&t, t.plugins, t.plugins, "is writable by everybody");
  close_tree(&t);
}

/* A user's private group has the user's number; root has none. */
Test(search_path, refuses_a_file_that_a_group_may_write) {
  tree t;
  if (!is_root()) return;
  open_tree(&t, 0);
  cr_assert_eq(chmod(t.file, 0664), 0);
  expect_refusal(&t, t.plugins, t.file, "is writable by its group (0)");
  cr_assert_eq(chmod(t.file, 0646), 0);
  expect_refusal(&t, t.plugins, t.file, "is writable by everybody");
  cr_assert_eq(chmod(t.file, 0644), 0);
  cr_assert_eq(chmod(t.above, 0775), 0);
  cr_assert_eq(chown(t.above, 0, NOBODY), 0);
  expect_refusal(&t, t.plugins, t.above, "is writable by its group (65534)");
  close_tree(&t);
}

Test(search_path, refuses_a_file_of_another_user) {
  tree t;
  if (!is_root()) return;
  open_tree(&t, 0);
  cr_assert_eq(chown(t.above, NOBODY, NOBODY), 0);
  expect_refusal(&t, t.plugins, t.above, "belongs to user 65534");
  cr_assert_eq(chmod(t.above, 01755), 0);
  expect_refusal(&t, t.plugins, t.above, "belongs to user 65534");
  cr_assert_eq(chown(t.above, 0, 0) | chown(t.file, NOBODY, NOBODY), 0);
  expect_refusal(&t, t.plugins, t.file, "belongs to user 65534");
  close_tree(&t);
}

Test(search_path, follows_links_and_examines_their_folders) {
  tree t;
  open_tree(&t, 0);
  cr_assert_eq(symlink("above/plugins", t.link), 0);
  expect_load(&t, t.link);
  cr_assert_eq(chmod(t.above, 0777), 0);
  expect_refusal(&t, t.link, t.above, "is writable by everybody");
  close_tree(&t);
}

/* The real folder is safe, but others may point the link to another one. */
Test(search_path, refuses_a_link_in_a_folder_that_others_may_write) {
  tree t;
  open_tree(&t, 0);
  char real[160];
  (void)snprintf(real, sizeof real, "%s/real", t.w.folder);
  cr_assert_eq(rename(t.plugins, real), 0);
  cr_assert_eq(symlink(real, t.plugins), 0);
  expect_load(&t, t.plugins);
  cr_assert_eq(chmod(t.above, 0777), 0);
  expect_refusal(&t, t.plugins, t.above, "is writable by everybody");
  cr_assert_eq(unlink(t.plugins) | rename(real, t.plugins), 0);
  close_tree(&t);
}

/* Its owner may point it to another folder. */
Test(search_path, refuses_a_link_of_another_user) {
  tree t;
  if (!is_root()) return;
  open_tree(&t, 0);
  cr_assert_eq(symlink("above/plugins", t.link), 0);
  expect_load(&t, t.link);
  cr_assert_eq(lchown(t.link, NOBODY, NOBODY), 0);
  expect_refusal(&t, t.link, t.link, "belongs to user 65534");
  close_tree(&t);
}

Test(search_path, refuses_links_that_lead_to_each_other) {
  tree t;
  open_tree(&t, 0);
  cr_assert_eq(symlink("link", t.link), 0);
  cr_assert_neq(tn__plugins_load_path(t.w.registry, t.link), TN_OK);
  cr_assert_eq(t.w.registry->plugins.n, 0);
  close_tree(&t);
}

/* Acts as another user between the examination of a path and its opening. */
static int open_late(const char *path) {
  if (chmod(path, 0666)) abort();
  return tn__os_real.open(path);
}

Test(search_path, examines_the_file_that_it_has_opened) {
  tree t;
  open_tree(&t, 0);
  tn__os os = tn__os_real;
  os.open = open_late;
  t.w.env.os = &os;
  expect_refusal(&t, t.plugins, t.file, "is writable by everybody");
  t.w.env.os = &tn__os_real;
  close_tree(&t);
}

Test(search_path, survives_each_failing_call_of_the_system) {
  tree t;
  open_tree(&t, 0);
  cr_assert_eq(symlink("above/plugins", t.link), 0);
  t.w.env.os = &world_os;
  for (size_t at = 0;; ++at) {
    world_os_failure = (failure){0, at, false};
    tn_code rc = tn__plugins_load_path(t.w.registry, t.link);
    if (world_os_failure.calls <= at) break;
    cr_assert(rc == TN_OK || rc == TN_IO || rc == TN_PLUGIN, "%zu: %s", at,
              tn_error_text());
    if (rc == TN_OK) (void)tn__plugin_unload(t.w.registry, "fix");
    cr_assert_lt(at, 1000);
  }
  world_heal(&t.w);
  t.w.env.os = &tn__os_real;
  close_tree(&t);
}

Test(search_path, examines_nothing_if_the_host_allows_any_folder) {
  tree t;
  open_tree(&t, TN_TRUST_ANY_FOLDER);
  cr_assert_eq(chmod(t.above, 0777) | chmod(t.file, 0666), 0);
  expect_load(&t, t.plugins);
  close_tree(&t);
}

Test(search_path, leaves_a_file_of_its_own_name_to_the_caller) {
  tree t;
  open_tree(&t, 0);
  cr_assert_eq(chmod(t.above, 0777) | chmod(t.file, 0666), 0);
  cr_assert_eq(tn__plugin_load(t.w.registry, t.file), TN_OK, "%s",
               tn_error_text());
  close_tree(&t);
}
