/* SPDX-License-Identifier: Apache-2.0
 * test_device.c: plugins that provide devices, and a host that accepts or
 * refuses these.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "world.h"

/* Records the devices that it accepts: all but the refused one. */
typedef struct taker {
  const tn_device *taken[4];
  size_t n;
  const char *refused;
} taker;

static tn_code accept_device(void *ctx, const tn_device *table) {
  taker *t = ctx;
  if (t->refused && !strcmp(table->name, t->refused))
    return tn__fail(TN_EXISTS, "one %s is enough", table->name);
  t->taken[t->n++] = table;
  return TN_OK;
}

static void open_for(world *w, taker *t) {
  world_open(w, 0);
  tn__registry_destroy(w->registry);
  const tn__registry_options options = {
      .env = &w->env, .device_add = accept_device, .device_ctx = t};
  cr_assert_eq(tn__registry_create(&options, &w->registry), TN_OK);
}

static const tn_device second = {
    .struct_size = sizeof second, .device_type = 100, .name = "second"};

static int32_t init(const tn_host *host, tn_registrar *registrar,
                    void **instance) {
  (void)host, (void)instance;
  return registrar->provide(registrar, TN_DEVICE_EXTENSION, &second);
}

static const tn_plugin linked = {.magic = TN_PLUGIN_MAGIC,
                                 .struct_size = sizeof linked,
                                 .abi_minor = TN_ABI_MINOR,
                                 .name = "linked",
                                 .init = init};

Test(device, is_accepted_from_each_plugin_once) {
  world w;
  taker t = {.n = 0};
  open_for(&w, &t);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("device")), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__plugin_add(w.registry, &linked), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(t.n, 2);
  cr_assert_str_eq(t.taken[0]->name, "slow");
  cr_assert_eq(t.taken[1], &second);
  world_close(&w);
}

Test(device, that_is_not_accepted_refuses_its_plugin) {
  world w;
  taker t = {.refused = "slow"};
  char now[1024];
  open_for(&w, &t);
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("device")), TN_EXISTS);
  cr_assert(strstr(tn_error_text(), "one slow is enough"), "%s",
            tn_error_text());
  cr_assert(strstr(tn_error_text(), fixture_path("device")), "%s",
            tn_error_text());
  world_snapshot(&w, now, sizeof now);
  cr_assert_null(strstr(now, "device"), "%s", now);
  t.refused = NULL;
  cr_assert_eq(tn__plugin_load(w.registry, fixture_path("device")), TN_OK);
  world_close(&w);
}

Test(device, keeps_its_plugin_from_being_unloaded) {
  world w;
  taker t = {.n = 0};
  open_for(&w, &t);
  cr_assert_eq(tn__plugin_add(w.registry, &linked), TN_OK);
  cr_assert_eq(tn__plugin_unload(w.registry, "linked"), TN_BUSY);
  cr_assert_str_eq(tn_error_text(),
                   "the plugin \"linked\" cannot be unloaded: the runtime uses "
                   "its devices \"second\" until it ends");
  world_close(&w);
}
