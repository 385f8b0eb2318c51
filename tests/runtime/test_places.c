/* SPDX-License-Identifier: Apache-2.0
 * test_places.c: devices that a plugin adds to a runtime. They are found by
 * name, have limits and arrays, and exist until the end of the runtime.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "../by_hand.h"
#include "../must.h"
#include "fake_end.h"
#include "probe.h"
#include "tenon/tenon.h"

static fake *f;
static tn_runtime *rt;
static int finished;

static int32_t init_fakes(const tn_host *host, tn_registrar *registrar,
                          void **instance) {
  (void)host;
  *instance = NULL;
  return registrar->provide(registrar, TN_DEVICE_EXTENSION, fake_table(f));
}

/* All work of its devices must have ended before. */
static void end_fakes(void *instance) {
  (void)instance;
  fake_counts counts = fake_counts_get(f);
  cr_expect(counts.pieces == 0 && counts.queues == 0 && counts.fences == 0);
  ++finished;
}

static const tn_plugin fakes = {PLUGIN_BY_HAND("fakes", 1, "Two devices"),
                                .init = init_fakes, .fini = end_fakes};

static void setup(void) {
  const tn_memory_limit limits[] = {{TN_DEVICE_EXT, 1, 100000}};
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 2,
                              .n_memory_limits = 1,
                              .memory_limits = limits};
  f = fake_create(&(fake_options){.count = 2, .latency_us = 50});
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &fakes), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK, "%s", tn_error_text());
}

static void teardown(void) {
  tn_runtime_release(rt);
  must_hold(finished == 1, "the device was not ended once");
  end_fake(f);
}

TestSuite(places, .init = setup, .fini = teardown);

static tn_place place_of(const char *text) {
  tn_place place;
  cr_assert_eq(tn_place_parse(rt, text, &place), TN_OK, "%s", tn_error_text());
  return place;
}

static tn_array *array_at(const char *text, int64_t n) {
  tn_array *x = NULL;
  cr_assert_eq(
      tn_array_create_on(rt, &(tn_spec){TN_F32, 1, &n}, place_of(text), &x),
      TN_OK, "%s", tn_error_text());
  return x;
}

static void expect_text(const char *part) {
  cr_assert_not_null(strstr(tn_error_text(), part), "\"%s\" is missing in: %s",
                     part, tn_error_text());
}

Test(places, are_listed_after_the_cpu) {
  tn_device_entry entry;
  cr_assert_eq(tn_device_at(rt, 0, &entry), TN_OK);
  cr_assert_str_eq(entry.name, "cpu");
  cr_assert_eq(tn_device_at(rt, 1, &entry), TN_OK);
  cr_assert_str_eq(entry.name, "fake");
  cr_assert_eq(entry.device_type, TN_DEVICE_EXT);
  cr_assert_eq(entry.count, 2);
  cr_assert_eq(tn_device_at(rt, 2, &entry), TN_NOT_FOUND);
}

Test(places, keep_their_plugin_until_the_end_of_the_runtime) {
  cr_assert_eq(tn_plugin_unload(rt, "fakes"), TN_BUSY);
  expect_text("fakes");
  cr_assert_eq(finished, 0);
}

Test(places, hold_arrays_that_move) {
  const float values[] = {1, 2};
  float got[2];
  tn_array *x = array_at("fake", 2), *y = NULL, *z = NULL;
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
  cr_assert_eq(tn_array_to(x, place_of("fake(1)"), &y), TN_OK);
  cr_assert_eq(tn_array_to(y, place_of("cpu"), &z), TN_OK);
  cr_assert_eq(tn_array_wait(z), TN_OK);
  cr_assert_eq(tn_array_get(z, got, sizeof got), TN_OK);
  cr_assert(got[0] == 1 && got[1] == 2);
  cr_assert_eq(tn_wait_all(rt), TN_OK);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

Test(places, may_have_pending_work_at_the_end) {
  tn_array *x = array_at("cpu", 5000), *y = NULL, *z = NULL;
  static const float values[5000];
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
  cr_assert_eq(tn_array_to(x, place_of("fake(0)"), &y), TN_OK);
  cr_assert_eq(tn_array_to(y, place_of("fake(1)"), &z), TN_OK);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

Test(places, have_limits_and_report_their_memory) {
  static const float values[20000];
  tn_memory m = {.struct_size = sizeof m};
  tn_array *x = array_at("fake(1)", 20000), *y = array_at("fake(1)", 20000);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn_array_set(y, values, sizeof values), TN_OUT_OF_MEMORY);
  expect_text("fake(1)");
  cr_assert_eq(tn_memory_get(rt, place_of("fake(1)"), &m), TN_OK);
  cr_assert_eq(m.limit, 100000);
  cr_assert_eq(m.live, sizeof values);
  cr_assert_eq(tn_memory_get(rt, place_of("fake(0)"), &m), TN_OK);
  cr_assert_eq(m.limit, UINT64_MAX);
  tn_array_release(x);
  cr_assert_eq(tn_array_set(y, values, sizeof values), TN_OK, "%s",
               tn_error_text());
  tn_array_release(y);
}

Test(places, without_a_kernel_refuse_a_call) {
  tn_operator *op = NULL;
  tn_array *x = array_at("fake", 2), *y = NULL;
  cr_assert_eq(tn_operator_get(rt, "probe.all", &op), TN_OK);
  cr_assert_neq(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_OK);
  cr_assert_null(y);
  tn_array_release(x);
}
