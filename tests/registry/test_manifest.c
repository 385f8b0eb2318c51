/* SPDX-License-Identifier: Apache-2.0
 * test_manifest.c: manifests as plugins, for the registry: every system call
 * fails in turn, necessary files are missing, files change.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <string.h>

#include "world.h"

/* Every system has libm, and no other operator computes `cbrt` of a
 * parameter. */
static const char root[] =
    "opgen: 1\n"
    "op: root\n"
    "summary: Cube root of a parameter\n"
    "params: [{name: a, type: float, default: 27}]\n"
    "outputs: [{name: out, dtype: f64, shape: []}]\n"
    "binding:\n"
    "  library: libm.so.6\n"
    "  symbol: cbrt\n"
    "  returns: {c: double, to: out}\n"
    "  args: [{c: double, pass: a}]\n"
    "examples: [{name: doc, out: 3}]\n";

static const char plugin[] =
    "opgen: 1\n"
    "plugin: roots\n"
    "release: 2\n"
    "summary: Roots\n"
    "license: MIT\n"
    "operators: [root.yaml]\n";

static tn_code helper_folder(const tn__env *env, char *to) {
  (void)env;
  strcpy(to, HELPERS);
  return TN_OK;
}

static tn_code no_helpers(const tn__env *env, char *to) {
  (void)env;
  strcpy(to, "/nowhere");
  return TN_OK;
}

/* Opens a world with a plugin of one operator in its folder; the path is
 * borrowed until the next call. */
static const char *open_world(world *w, uint32_t trust) {
  world_open(w, trust);
  w->registry->helpers = helper_folder;
  (void)world_file(w, "root.yaml", root, sizeof root - 1);
  return world_file(w, "plugin.yaml", plugin, sizeof plugin - 1);
}

/* A fault leaves the registry unchanged; without it, loading works. Some faults
 * are harmless: a failed look-up of an optional name. False if there are fewer
 * calls than the one that is to fail. */
static bool survive_fault(world *w, const char *path, size_t *struck) {
  char before[256], after[256];
  world_snapshot(w, before, sizeof before);
  const tn_code rc = tn__plugin_load(w->registry, path);
  const bool reached = world_os_failure.calls > world_os_failure.at;
  if (rc) {
    ++*struck;
    cr_assert(rc == TN_IO || rc == TN_PLUGIN || rc == TN_NOT_FOUND,
              "code %d: %s", rc, tn_error_text());
    cr_assert_neq(tn_error_text()[0], 0);
    world_snapshot(w, after, sizeof after);
    cr_assert_str_eq(before, after);
    world_heal(w);
    cr_assert_eq(tn__plugin_load(w->registry, path), TN_OK, "%s",
                 tn_error_text());
  }
  world_heal(w);
  cr_assert_eq(tn__plugin_unload(w->registry, "roots"), TN_OK);
  return reached;
}

static size_t system_fails(bool sticky) {
  size_t struck = 0, n = 0;
  for (bool more = true; more; ++n) {
    world w;
    char path[PATH_MAX];
    cr_assert_lt(n, 1000);
    strcpy(path, open_world(&w, TN_TRUST_BINDINGS));
    w.env.os = &world_os;
    world_os_failure = (failure){0, n, sticky};
    more = survive_fault(&w, path, &struck);
    world_close(&w);
  }
  return struck;
}

Test(manifest, survives_each_failing_call_of_the_system) {
  cr_assert_gt(system_fails(false), 8);
}

Test(manifest, survives_a_system_that_never_recovers) {
  cr_assert_gt(system_fails(true), 8);
}

static void expect_failure(world *w, const char *path, tn_code code,
                           const char *part) {
  cr_assert_eq(tn__plugin_load(w->registry, path), code, "%s", tn_error_text());
  cr_assert_not_null(strstr(tn_error_text(), part), "%s", tn_error_text());
}

Test(manifest, is_refused_without_its_reader) {
  world w;
  const char *path = open_world(&w, 0);
  w.registry->helpers = no_helpers;
  expect_failure(
      &w, path, TN_PLUGIN,
      "/nowhere/libtenon-manifest.so.0, which reads them, cannot be opened");
  w.registry->helpers = NULL;
  expect_failure(&w, path, TN_UNSUPPORTED, "this host does not read manifests");
  world_close(&w);
}

Test(manifest, is_refused_if_the_probe_is_missing) {
  world w;
  char path[PATH_MAX];
  strcpy(path, open_world(&w, TN_TRUST_BINDINGS));
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn__plugin_unload(w.registry, "roots"), TN_OK);
  w.registry->trust = 0; /* its reader is open already */
  w.registry->helpers = no_helpers;
  expect_failure(&w, path, TN_PLUGIN,
                 "/nowhere/tenon/tenon-probe: is not installed");
  world_close(&w);
}

Test(manifest, is_tried_and_enters_like_any_plugin) {
  world w;
  char path[PATH_MAX], all[256];
  strcpy(path, open_world(&w, 0));
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_OK, "%s", tn_error_text());
  world_snapshot(&w, all, sizeof all);
  cr_assert_str_eq(all,
                   "plugin roots\n"
                   "operator roots.root@1: roots.root.cpu\n"
                   "0 extensions\n");
  world_close(&w);
}

Test(manifest, that_is_no_file_is_refused) {
  world w;
  char path[PATH_MAX];
  strcpy(path, open_world(&w, 0));
  strcpy(strrchr(path, '/'), "/missing.yaml");
  expect_failure(&w, path, TN_NOT_FOUND, "missing.yaml");
  world_close(&w);
}
