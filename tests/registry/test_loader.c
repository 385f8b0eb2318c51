/* SPDX-License-Identifier: Apache-2.0
 * test_loader.c: loads a sound ELF file as a plugin into the registry, or
 * refuses it with a message.
 */
#include <criterion/criterion.h>
#include <fenv.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "world.h"

static void expect_refusal(world *w, const char *path, tn_code code,
                           const char *text) {
  char before[1024], after[1024];
  world_snapshot(w, before, sizeof before);
  cr_assert_eq(tn__plugin_load(w->registry, path), code, "%s: %s", path,
               tn_error_text());
  cr_assert(strstr(tn_error_text(), text), "%s", tn_error_text());
  cr_assert(strstr(tn_error_text(), path), "%s", tn_error_text());
  world_snapshot(w, after, sizeof after);
  cr_assert_str_eq(before, after);
}

static const char *patched_file(world *w, size_t offset, uint32_t value) {
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  for (size_t i = 0; i + 8 < size; ++i)
    if (!memcmp(file + i, "Tenon\0\0", 8))
      memcpy(file + i + 8 + offset, &value, sizeof value);
  const char *path = world_file(w, "patched.so", file, size);
  free(file);
  return path;
}

Test(loader, loads_a_sound_plugin) {
  world w;
  char now[1024];
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("fix")), TN_OK, "%s",
               tn_error_text());
  world_snapshot(&w, now, sizeof now);
  cr_assert_str_eq(now,
                   "plugin fix\n"
                   "operator fix.echo@1: fix.echo.cpu fix.echo.spare\n"
                   "operator fix.echo@2:\n"
                   "1 extensions\n");
  const tn__plugin *plugin = w.registry->plugins.v[0];
  cr_assert_eq(plugin->instance, (void *)(uintptr_t)&plugin->host);
  cr_assert_str_eq(plugin->kernels[1].withdrawn, "it is the spare one");
  cr_assert_null(plugin->kernels[0].withdrawn);
  world_close(&w);
  cr_assert(strstr(w.log, "3 fix: goodbye\n"), "fini was not called: %s",
            w.log);
}

Test(loader, refuses_the_same_file_twice_by_any_name) {
  world w;
  char link[128];
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("fix")), TN_OK);
  expect_refusal(&w, fixture_path("fix"), TN_EXISTS,
                 "is loaded already, as plugin \"fix\"");
  (void)snprintf(link, sizeof link, "%s/link.so", w.folder);
  cr_assert_eq(symlink(fixture_path("fix"), link), 0);
  cr_assert_eq(tn__plugin_load(w.registry, link), TN_EXISTS);
  world_close(&w);
}

Test(loader, refuses_a_second_plugin_of_the_same_name) {
  world w;
  size_t size;
  uint8_t *file = fixture_bytes("fix", &size);
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("fix")), TN_OK);
  expect_refusal(&w, world_file(&w, "copy.so", file, size), TN_EXISTS,
                 "a plugin named \"fix\" is loaded already, from ");
  free(file);
  world_close(&w);
}

Test(loader, loads_one_file_into_two_runtimes) {
  world a, b;
  world_open(&a, 0);
  world_open(&b, 0);
  cr_assert_eq(tn__plugin_load(a.registry, fixture_path("fix")), TN_OK);
  cr_assert_eq(tn__plugin_load(b.registry, fixture_path("fix")), TN_OK);
  const tn__plugin *first = a.registry->plugins.v[0];
  const tn__plugin *second = b.registry->plugins.v[0];
  cr_assert_neq(first->instance, second->instance);
  world_close(&a);
  cr_assert_eq(tn__plugin_unload(b.registry, "fix"), TN_OK);
  world_close(&b);
}

Test(loader, refuses_versions_that_cannot_work) {
  world w;
  world_open(&w, 0);
  expect_refusal(&w, patched_file(&w, offsetof(tn_note, abi_major), 3),
                 TN_PLUGIN,
                 "abi_major is 3, this host expects 0; build the plugin with");
  expect_refusal(
      &w, patched_file(&w, offsetof(tn_note, min_host_minor), 99), TN_PLUGIN,
      "min_host_minor is 99, this host has ABI 0.2; use a newer Tenon");
  expect_refusal(&w, patched_file(&w, offsetof(tn_note, pointer_bits), 32),
                 TN_PLUGIN, "pointer_bits is 32, this host expects 64");
  expect_refusal(&w, patched_file(&w, offsetof(tn_note, abi_minor), 0),
                 TN_PLUGIN, "the ABI is 0.0 for hosts from 2 in the note, 0.2");
  world_close(&w);
}

Test(loader, inspects_files_that_it_does_not_load) {
  world w;
  tn_inspection *inspection = NULL;
  world_open(&w, 0);
  cr_assert_eq(tn__inspection_open(&w.env, fixture_path("fix"), &inspection),
               TN_OK);
  cr_assert_null(inspection->refusal);
  cr_assert_str_eq(inspection->plugin->operators[1]->summary, "The second");
  cr_assert_null(inspection->plugin->kernels[0]->compute);
  tn__inspection_close(inspection);
  cr_assert_eq(
      tn__inspection_open(
          &w.env, patched_file(&w, offsetof(tn_note, min_host_minor), 99),
          &inspection),
      TN_OK);
  cr_assert(strstr(inspection->refusal, "min_host_minor is 99"));
  cr_assert_not_null(inspection->plugin);
  tn__inspection_close(inspection);
  cr_assert_eq(tn__inspection_open(
                   &w.env, patched_file(&w, offsetof(tn_note, abi_major), 3),
                   &inspection),
               TN_OK);
  cr_assert(strstr(inspection->refusal, "abi_major is 3"));
  cr_assert_null(inspection->plugin);
  cr_assert_eq(inspection->note.abi_major, 3);
  tn__inspection_close(inspection);
  world_close(&w);
}

Test(loader, refuses_an_invalid_descriptor) {
  world w;
  world_open(&w, 0);
  expect_refusal(&w, fixture_path("noentry"), TN_PLUGIN,
                 "does not export tn_plugin_entry");
  expect_refusal(&w, fixture_path("badmagic"), TN_PLUGIN,
                 "the magic of tn_plugin_entry is 1122334455667788");
  expect_refusal(&w, fixture_path("undefined"), TN_PLUGIN,
                 "tenon_nobody_has_this");
  expect_refusal(&w, fixture_path("contradict"), TN_PLUGIN,
                 "release is 7 in the note, 8 in the descriptor");
  expect_refusal(
      &w, fixture_path("senseless"), TN_PLUGIN,
      "the kernel senseless.lost.cpu is for senseless.lost@1, which its "
      "plugin does not define");
  expect_refusal(
      &w, fixture_path("twice"), TN_EXISTS,
      "the plugin \"twice\" defines the operator twice.echo@1 twice");
  world_close(&w);
}

Test(loader, reports_why_init_failed) {
  world w;
  world_open(&w, 0);
  expect_refusal(&w, fixture_path("badinit"), TN_DEVICE,
                 "init of the plugin \"badinit\" failed: no licence server at "
                 "localhost (TN_DEVICE)");
  expect_refusal(&w, fixture_path("user"), TN_NOT_FOUND,
                 "there is no fix.count/1");
  expect_refusal(&w, fixture_path("device"), TN_UNSUPPORTED,
                 "\"tn.device/1\" is provided, but this host takes no devices");
  world_close(&w);
}

Test(loader, keeps_denormals_and_the_rounding_mode) {
  world w;
  volatile float smallest = FLT_MIN, half = 0.5f;
  volatile double one = 1, three = 3;
  const double third = one / three;
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("floating")), TN_OK,
               "%s", tn_error_text());
  cr_assert_gt(smallest * half, 0.0f);
  cr_assert_eq(fegetround(), FE_TONEAREST);
  cr_assert_eq(one / three, third);
  cr_assert_eq(tn__plugin_unload(w.registry, "floating"), TN_OK);
  cr_assert_eq(fegetround(), FE_TONEAREST);
  world_close(&w);
}

/* ----------------------------------------------------------------- static */

static int32_t compute_nothing(const tn_frame *call) {
  (void)call;
  return TN_OK;
}

Test(loader, adds_a_plugin_that_is_linked_in) {
  static const tn_op op = {
      .struct_size = sizeof op, .interface = 1, .name = "nop"};
  static const tn_op *const ops[] = {&op};
  static const tn_kernel kernel = {.struct_size = sizeof kernel,
                                   .when = TN_NONE,
                                   .op = "linked.nop@1",
                                   .id = "linked.nop.cpu",
                                   .compute = compute_nothing};
  static const tn_kernel *const kernels[] = {&kernel};
  tn_plugin plugin = {.magic = TN_PLUGIN_MAGIC,
                      .struct_size = sizeof plugin,
                      .abi_minor = TN_ABI_MINOR,
                      .n_operators = 1,
                      .n_kernels = 1,
                      .name = "linked",
                      .operators = ops,
                      .kernels = kernels};
  world w;
  tn_plugin_info info;
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_add(w.registry, &plugin), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__plugin_at(w.registry, 0, &info), TN_OK);
  cr_assert_str_eq(info.path, "(static)");
  cr_assert_eq(info.plugin, &plugin);
  cr_assert_eq(tn__plugin_add(w.registry, &plugin), TN_EXISTS);
  cr_assert_eq(tn__plugin_unload(w.registry, "linked"), TN_OK);
  plugin.struct_size = 64;
  cr_assert_eq(tn__plugin_add(w.registry, &plugin), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "struct_size of tn_plugin_entry is 64"));
  plugin.magic = 0;
  cr_assert_eq(tn__plugin_add(w.registry, &plugin), TN_PLUGIN);
  cr_assert_eq(tn__plugin_add(w.registry, NULL), TN_INVALID);
  world_close(&w);
}

/* ----------------------------------------------------------------- folders */

static void put_plugin(world *w, const char *name, const char *from) {
  size_t size;
  uint8_t *file = fixture_bytes(from, &size);
  (void)world_file(w, name, file, size);
  free(file);
}

/* True if a line of the log has the level TN_LOG_WARNING. */
static bool has_warning(const world *w) {
  return strncmp(w->log, "2 ", 2) == 0 || strstr(w->log, "\n2 ") != NULL;
}

Test(search, loads_a_folder_in_order_of_names_and_goes_on_after_a_refusal) {
  world w;
  char now[1024];
  world_open(&w, 0);
  put_plugin(&w, "c.so", "fix");
  put_plugin(&w, "a.so", "sticky");
  put_plugin(&w, "b.so", "badinit");
  put_plugin(&w, "d.so", "twice");
  put_plugin(&w, ".hidden.so", "extra");
  put_plugin(&w, "note.txt", "extra");
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_DEVICE);
  cr_assert(strstr(tn_error_text(), "no licence server"), "%s",
            tn_error_text());
  cr_assert(has_warning(&w), "nothing was logged");
  cr_assert(strstr(w.log, "defines the operator twice.echo@1 twice"));
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, "plugin sticky\nplugin fix\noperator"), "%s", now);
  world_close(&w);
}

Test(search, loads_a_plugin_after_the_one_with_the_extension_it_needs) {
  world w;
  char now[1024];
  world_open(&w, 0);
  put_plugin(&w, "a.so", "frugal"); /* requires middle.count/1 */
  put_plugin(&w, "b.so", "user");   /* fix.count/1 */
  put_plugin(&w, "c.so", "middle"); /* fix.count/1 */
  put_plugin(&w, "d.so", "fix");
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_OK, "%s",
               tn_error_text());
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now,
                   "plugin fix\nplugin user\nplugin middle\n"
                   "plugin frugal\n"),
            "%s", now);
  cr_assert(strstr(w.log, "frugal: with 43\n"), "%s", w.log);
  cr_assert(strstr(w.log,
                   "3 loading: loaded plugin middle 0 (0 operators, "
                   "0 kernels) from /tmp/"),
            "%s", w.log);
  cr_assert_not(has_warning(&w), "something was refused: %s", w.log);
  world_close(&w);
}

Test(search, loads_a_plugin_after_the_one_that_it_requires) {
  world w;
  char now[1024];
  world_open(&w, 0);
  put_plugin(&w, "a.so", "dependent");
  put_plugin(&w, "b.so", "demanding");
  put_plugin(&w, "c.so", "fix");
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_UNSUPPORTED);
  cr_assert(strstr(tn_error_text(),
                   "b.so: the plugin \"demanding\" requires the plugin "
                   "\"fix\", release 4 or newer; release 3 is loaded, from "),
            "%s", tn_error_text());
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, "plugin fix\nplugin dependent\n"), "%s", now);
  cr_assert_null(strstr(now, "demanding"), "%s", now);
  world_close(&w);
}

Test(search, names_a_required_plugin_that_is_missing) {
  world w;
  world_open(&w, 0);
  put_plugin(&w, "a.so", "dependent");
  put_plugin(&w, "b.so", "sticky");
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_NOT_FOUND);
  cr_assert(strstr(tn_error_text(),
                   "the plugin \"dependent\" requires the plugin \"fix\", "
                   "release 3 or newer, which is not loaded"),
            "%s", tn_error_text());
  cr_assert_eq(w.registry->plugins.n, 1);
  world_close(&w);
}

Test(loader, keeps_a_plugin_that_another_one_requires) {
  world w;
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("dependent")),
               TN_NOT_FOUND);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("fix")), TN_OK);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("dependent")), TN_OK,
               "%s", tn_error_text());
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_BUSY);
  cr_assert(strstr(tn_error_text(), "the plugin \"dependent\" requires it"),
            "%s", tn_error_text());
  cr_assert_eq(tn__plugin_unload(w.registry, "dependent"), TN_OK);
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_OK);
  world_close(&w);
}

Test(search, finds_extensions_across_folders) {
  world w, other;
  char both[256];
  world_open(&w, 0);
  world_open(&other, 0);
  put_plugin(&w, "user.so", "user");
  put_plugin(&other, "fix.so", "fix");
  (void)snprintf(both, sizeof both, "%s:%s", w.folder, other.folder);
  cr_assert_eq(tn__plugins_load_path(w.registry, both), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(w.registry->plugins.n, 2);
  world_close(&w);
  world_close(&other);
}

Test(search, loads_a_plugin_without_an_optional_extension) {
  world w;
  char now[1024];
  world_open(&w, 0);
  put_plugin(&w, "a.so", "frugal");
  put_plugin(&w, "b.so", "user");
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_NOT_FOUND);
  cr_assert(strstr(tn_error_text(), "there is no fix.count/1"), "%s",
            tn_error_text());
  world_snapshot(&w, now, sizeof now);
  cr_assert_str_eq(now, "plugin frugal\n0 extensions\n");
  const char *first = strstr(w.log, "without\n");
  cr_assert(first && strstr(first, "frugal: ends\n"),
            "the first attempt was not undone: %s", w.log);
  const char *refusal = strstr(w.log, "there is no fix.count/1");
  cr_assert(refusal && !strstr(refusal + 1, "there is no fix.count/1"),
            "not one refusal: %s", w.log);
  world_close(&w);
}

Test(search, refuses_folders_that_cannot_be_trusted) {
  world w;
  char both[256];
  world_open(&w, 0);
  put_plugin(&w, "fix.so", "fix");
  cr_assert_eq(tn__plugins_load_path(w.registry, "plugins"), TN_INVALID);
  cr_assert(strstr(tn_error_text(), "\"plugins\", which is not an absolute"));
  cr_assert_eq(tn__plugins_load_path(w.registry, ""), TN_INVALID);
  cr_assert_eq(tn__plugins_load_path(w.registry, "/nowhere"), TN_NOT_FOUND);
  cr_assert_eq(chmod(w.folder, 0777), 0);
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_INVALID);
  cr_assert(strstr(tn_error_text(), "is writable by everybody"));
  cr_assert_eq(w.registry->plugins.n, 0);
  cr_assert_eq(chmod(w.folder, 0755), 0);
  (void)snprintf(both, sizeof both, "/nowhere:%s", w.folder);
  cr_assert_eq(tn__plugins_load_path(w.registry, both), TN_NOT_FOUND);
  cr_assert_eq(w.registry->plugins.n, 1);
  world_close(&w);
}

Test(search, trusts_any_folder_if_the_host_allows_it) {
  world w;
  world_open(&w, TN_TRUST_ANY_FOLDER);
  put_plugin(&w, "fix.so", "fix");
  cr_assert_eq(chmod(w.folder, 0777), 0);
  cr_assert_eq(tn__plugins_load_path(w.registry, w.folder), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(w.registry->plugins.n, 1);
  world_close(&w);
}
