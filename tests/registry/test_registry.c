/* SPDX-License-Identifier: Apache-2.0
 * test_registry.c: names, kernels of other plugins, replacement, unloading.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static void load_fixture(world *w, const char *name) {
  cr_assert_eq(tn__plugin_load(w->registry, fixture_path(name)), TN_OK, "%s",
               tn_error_text());
}

static void unload_plugin(world *w, const char *name) {
  cr_assert_eq(tn__plugin_unload(w->registry, name), TN_OK, "%s",
               tn_error_text());
}

static tn_operator *get_operator(world *w, const char *name) {
  tn_operator *op = NULL;
  cr_assert_eq(tn__operator_get(w->registry, name, &op), TN_OK, "%s",
               tn_error_text());
  return op;
}

static void expect_missing(world *w, const char *name, const char *text) {
  tn_operator *op = NULL;
  cr_assert_eq(tn__operator_get(w->registry, name, &op), TN_NOT_FOUND);
  cr_assert_null(op);
  cr_assert(strstr(tn_error_text(), text), "%s", tn_error_text());
}

Test(registry, finds_the_newest_interface_by_a_bare_name) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  cr_assert_str_eq(get_operator(&w, "fix.echo")->name, "fix.echo@2");
  cr_assert_str_eq(get_operator(&w, "fix.echo@1")->name, "fix.echo@1");
  world_close(&w);
}

Test(registry, orders_interfaces_as_numbers) {
  cr_assert_lt(tn__operator_compare("a.b@2", "a.b@10"), 0);
  cr_assert_gt(tn__operator_compare("a.b@10", "a.b@9"), 0);
  cr_assert_lt(tn__operator_compare("a.b@10", "a.b"), 0);
  cr_assert_lt(tn__operator_compare("a.b@3", "a.bc@1"), 0);
  cr_assert_lt(tn__operator_compare("a.a@3", "a.b@1"), 0);
  cr_assert_eq(tn__operator_compare("a.b@1", "a.b@1"), 0);
}

Test(registry, suggests_a_similar_name_for_an_unknown_one) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  expect_missing(&w, "fix.ecko",
                 "no operator \"fix.ecko\"; did you mean \"fix.echo\"?");
  expect_missing(&w, "echo", "did you mean \"fix.echo\"?");
  expect_missing(&w, "vision.conv", "no plugin \"vision\" is loaded");
  expect_missing(&w, "zzzzzzzzz", "names have the form plugin.operator");
  expect_missing(&w, "fix.echo@3", "there is no operator \"fix.echo@3\"");
  cr_assert_eq(tn__operator_get(w.registry, NULL, &(tn_operator *){0}),
               TN_INVALID);
  world_close(&w);
}

Test(registry, lists_operators_by_name_and_plugins_by_loading) {
  world w;
  tn_operator *op = NULL;
  tn_plugin_info info;
  world_open(&w, 0);
  load_fixture(&w, "sticky");
  load_fixture(&w, "fix");
  cr_assert_eq(tn__operator_at(w.registry, 0, &op), TN_OK);
  cr_assert_str_eq(op->name, "fix.echo@1");
  cr_assert_eq(tn__operator_at(w.registry, 2, &op), TN_OK);
  cr_assert_str_eq(op->name, "sticky.stay@1");
  cr_assert_eq(tn__operator_at(w.registry, 3, &op), TN_NOT_FOUND);
  cr_assert_eq(tn__plugin_at(w.registry, 0, &info), TN_OK);
  cr_assert_str_eq(info.plugin->name, "sticky");
  cr_assert_eq(tn__plugin_at(w.registry, 2, &info), TN_NOT_FOUND);
  cr_assert_null(info.plugin);
  world_close(&w);
}

Test(registry, has_default_params_ready) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  const tn_params *defaults = get_operator(&w, "fix.echo@1")->defaults;
  cr_assert_not_null(defaults);
  cr_assert_eq(*(const int64_t *)defaults->data, 1);
  world_close(&w);
}

/* ------------------------------------------------- kernels of other plugins */

static const char with_extra[] =
    "operator fix.echo@1: extra.echo.cpu fix.echo.cpu fix.echo.spare\n";

Test(kernels_for, may_come_after_the_operator) {
  world w;
  char now[1024];
  world_open(&w, 0);
  load_fixture(&w, "fix");
  load_fixture(&w, "extra");
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, with_extra), "%s", now);
  world_close(&w);
}

Test(kernels_for, may_come_before_the_operator_and_outlive_it) {
  world w;
  char now[1024];
  world_open(&w, 0);
  load_fixture(&w, "extra");
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, "waiting extra.echo.cpu\n"), "%s", now);
  load_fixture(&w, "fix");
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, with_extra), "%s", now);
  cr_assert_null(strstr(now, "waiting"));
  unload_plugin(&w, "fix");
  world_snapshot(&w, now, sizeof now);
  cr_assert_str_eq(now, "plugin extra\nwaiting extra.echo.cpu\n0 extensions\n");
  load_fixture(&w, "fix");
  unload_plugin(&w, "extra");
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, "fix.echo@1: fix.echo.cpu fix.echo.spare\n"), "%s",
            now);
  world_close(&w);
}

Test(kernels_for, are_refused_if_built_for_another_operator) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("misfit")), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(),
                   "the kernel misfit.echo.cpu of the plugin \"misfit\" was "
                   "built for another fix.echo@1"),
            "%s", tn_error_text());
  cr_assert_eq(get_operator(&w, "fix.echo@1")->kernels.n, 2);
  world_close(&w);
}

Test(kernels_for, continue_to_wait_if_the_loaded_operator_does_not_fit) {
  world w;
  char now[1024];
  world_open(&w, 0);
  load_fixture(&w, "misfit");
  load_fixture(&w, "fix");
  world_snapshot(&w, now, sizeof now);
  cr_assert(strstr(now, "fix.echo@1: fix.echo.cpu fix.echo.spare\n"), "%s",
            now);
  cr_assert(strstr(now, "waiting misfit.echo.cpu\n"), "%s", now);
  cr_assert(strstr(w.log, "was built for another fix.echo@1"), "%s", w.log);
  world_close(&w);
}

Test(registry, pins_one_kernel) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  load_fixture(&w, "extra");
  tn_operator *op = get_operator(&w, "fix.echo@1");
  cr_assert_eq(tn__operator_pin(op, "extra.echo.cpu"), TN_OK);
  cr_assert_str_eq(op->pin->desc->id, "extra.echo.cpu");
  cr_assert_eq(tn__operator_pin(op, "fix.echo.gpu"), TN_NOT_FOUND);
  cr_assert(strstr(tn_error_text(), "it has extra.echo.cpu, fix.echo.cpu, "));
  cr_assert_str_eq(op->pin->desc->id, "extra.echo.cpu");
  unload_plugin(&w, "extra");
  cr_assert_null(op->pin);
  cr_assert_eq(tn__operator_pin(op, NULL), TN_OK);
  world_close(&w);
}

/* -------------------------------------------------------------- replacement */

Test(replace, needs_the_trust_of_the_host) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("swap")),
               TN_UNSUPPORTED);
  cr_assert(strstr(tn_error_text(), "swap.echo@2 asks to replace fix.echo"));
  expect_missing(&w, "swap.echo", "no operator");
  world_close(&w);
}

Test(replace, is_found_by_the_other_name_until_it_is_unloaded) {
  world w;
  world_open(&w, TN_TRUST_REPLACE);
  load_fixture(&w, "fix");
  load_fixture(&w, "swap");
  cr_assert_str_eq(get_operator(&w, "fix.echo")->name, "swap.echo@2");
  cr_assert_str_eq(get_operator(&w, "fix.echo@2")->name, "swap.echo@2");
  cr_assert_str_eq(get_operator(&w, "fix.echo@1")->name, "fix.echo@1");
  cr_assert_str_eq(get_operator(&w, "swap.echo")->name, "swap.echo@2");
  unload_plugin(&w, "swap");
  cr_assert_str_eq(get_operator(&w, "fix.echo")->name, "fix.echo@2");
  world_close(&w);
}

/* ---------------------------------------------------------------- unloading */

Test(unload, leaves_handles_that_are_valid_again_after_a_reload) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  tn_operator *op = get_operator(&w, "fix.echo@1");
  unload_plugin(&w, "fix");
  cr_assert_null(op->desc);
  cr_assert_str_eq(op->name, "fix.echo@1");
  expect_missing(&w, "fix.echo@1", "any more: its plugin was unloaded");
  cr_assert_eq(tn__operator_hold(op), TN_NOT_FOUND);
  load_fixture(&w, "fix");
  cr_assert_eq(get_operator(&w, "fix.echo@1"), op);
  cr_assert_str_eq(op->desc->summary, "The first");
  world_close(&w);
}

Test(unload, is_refused_while_params_live) {
  world w;
  tn_params *params = NULL;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  cr_assert_eq(
      tn__params_create(get_operator(&w, "fix.echo"), NULL, 0, &params), TN_OK);
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_BUSY);
  cr_assert_str_eq(tn_error_text(),
                   "the plugin \"fix\" cannot be unloaded: 1 params of "
                   "fix.echo@2 not released");
  tn__params_release(params);
  unload_plugin(&w, "fix");
  world_close(&w);
}

Test(unload, lists_every_holder) {
  world w;
  tn_params *params = NULL;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  load_fixture(&w, "user");
  tn_operator *op = get_operator(&w, "fix.echo");
  cr_assert_eq(tn__params_create(op, NULL, 0, &params), TN_OK);
  cr_assert_eq(tn__operator_hold(op), TN_OK);
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_BUSY);
  cr_assert_str_eq(tn_error_text(),
                   "the plugin \"fix\" cannot be unloaded: 1 params of "
                   "fix.echo@2 not released, 1 call, graph, program, tape or "
                   "prepared call of fix.echo@2, "
                   "the plugin \"user\" uses its extension \"fix.count/1\"");
  tn__operator_unhold(op);
  tn__params_release(params);
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_BUSY);
  unload_plugin(&w, "user");
  unload_plugin(&w, "fix");
  world_close(&w);
}

/* The host never says that it no longer uses an extension. */
Test(unload, refuses_a_plugin_whose_extension_the_host_uses) {
  world w;
  const void *table = &w;
  world_open(&w, 0);
  cr_assert_eq(tn__extension_use(w.registry, "fix.count/1", &table),
               TN_NOT_FOUND);
  cr_assert_str_eq(tn_error_text(),
                   "load the plugin that provides \"fix.count/1\"");
  cr_assert_eq(table, &w);
  load_fixture(&w, "fix");
  cr_assert_eq(tn__extension_use(w.registry, "fix.count/1", &table), TN_OK);
  cr_assert(table != NULL && table != &w);
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_BUSY);
  cr_assert_str_eq(tn_error_text(),
                   "the plugin \"fix\" cannot be unloaded: the host uses its "
                   "extension \"fix.count/1\"");
  world_close(&w);
}

Test(unload, refuses_an_unknown_plugin) {
  world w;
  world_open(&w, 0);
  cr_assert_eq(tn__plugin_unload(w.registry, "fix"), TN_NOT_FOUND);
  cr_assert_str_eq(tn_error_text(), "no plugin named \"fix\" is loaded");
  world_close(&w);
}

static const char *put_padded(world *w, const char *from, size_t more) {
  size_t size;
  uint8_t *file = fixture_bytes(from, &size);
  memset(file + size, 0, more);
  const char *path = world_file(w, "plugin.so", file, size + more);
  free(file);
  return path;
}

/* The C library would return the old code for the old name. */
Test(unload, remembers_files_that_stay_mapped) {
  world w;
  world_open(&w, 0);
  const char *path = put_padded(&w, "sticky", 0);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_OK);
  unload_plugin(&w, "sticky");
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_OK, "%s", tn_error_text());
  unload_plugin(&w, "sticky");
  cr_assert_eq(remove(path), 0);
  path = put_padded(&w, "sticky", 8);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "has changed since it was unloaded"));
  world_close(&w);
}

Test(unload, remembers_mapped_files_after_a_failed_init) {
  world w;
  world_open(&w, 0);
  const char *path = put_padded(&w, "sour", 0);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_DEVICE);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_DEVICE);
  cr_assert_eq(remove(path), 0);
  path = put_padded(&w, "fix", 8);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "its old code is still mapped"));
  world_close(&w);
}

Test(unload, loads_a_new_file_if_the_old_one_was_unmapped) {
  world w;
  world_open(&w, 0);
  const char *path = put_padded(&w, "fix", 0);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_OK);
  unload_plugin(&w, "fix");
  cr_assert_eq(remove(path), 0);
  path = put_padded(&w, "extra", 0);
  cr_assert_eq(tn__plugin_load(w.registry, path), TN_OK, "%s", tn_error_text());
  world_close(&w);
}

/* ------------------------------------------------------------ host services */

Test(host, fail_fills_the_slot_of_the_call) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  const tn__plugin *plugin = w.registry->plugins.v[0];
  tn__slot slot = {0};
  tn_run run = {.struct_size = sizeof run, .host_data = &slot};
  const tn_frame call = {
      .struct_size = sizeof call, .host = &plugin->host, .run = &run};
  cr_assert_eq(plugin->kernels[0].desc->compute(&call), TN_UNIMPLEMENTED);
  cr_assert_eq(slot.code, TN_UNIMPLEMENTED);
  cr_assert_str_eq(slot.text, "a fixture computes nothing");
  cr_assert_eq(plugin->host.fail(&call, TN_OK, "f.c", 1, "%d", 7), TN_PLUGIN,
               "a described failure is never a success");
  cr_assert_str_eq(slot.text, "7");
  world_close(&w);
}

static int32_t keep_shape(tn__slot *slot, const tn_frame *frame,
                          const tn_sig *shape, uint32_t list, uint32_t index) {
  (void)frame;
  *(tn_sig *)slot->ctx = *shape;
  return list == TN_OPERAND_OUT && index == 1 ? TN_OK : TN_INTERNAL;
}

Test(host, set_shape_calls_the_function_of_the_slot) {
  world w;
  tn_sig got = {0};
  world_open(&w, 0);
  load_fixture(&w, "fix");
  const tn_host *host = &((const tn__plugin *)w.registry->plugins.v[0])->host;
  tn__slot slot = {.set_shape = keep_shape, .ctx = &got};
  tn_run run = {.struct_size = sizeof run, .host_data = &slot};
  const tn_frame call = {.struct_size = sizeof call, .host = host, .run = &run};
  const int64_t shape[] = {2, -1}, bad[] = {2, -2};
  cr_assert_eq(host->set_shape(&call, TN_OPERAND_OUT, 1, 2, shape), TN_OK);
  cr_assert(got.ndim == 2 && got.shape[0] == 2 && got.shape[1] == -1);
  cr_assert_eq(host->set_shape(&call, TN_OPERAND_OUT, 1, 2, bad), TN_INVALID);
  cr_assert_eq(host->set_shape(&call, TN_OPERAND_OUT, 1, 17, shape),
               TN_INVALID);
  cr_assert_eq(host->set_shape(&call, 3, 1, 2, shape), TN_INVALID);
  slot.set_shape = NULL;
  cr_assert_eq(host->set_shape(&call, TN_OPERAND_OUT, 1, 2, shape), TN_INVALID);
  cr_assert_str_eq(slot.text, "set_shape: this call does not decide shapes");
  world_close(&w);
}

Test(host, returns_extensions_during_init_only) {
  world w;
  world_open(&w, 0);
  load_fixture(&w, "fix");
  const tn_host *host = &((const tn__plugin *)w.registry->plugins.v[0])->host;
  cr_assert_null(host->extension(host, "fix.count/1"));
  cr_assert(strstr(w.log, "outside init"));
  world_close(&w);
}
