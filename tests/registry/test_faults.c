/* SPDX-License-Identifier: Apache-2.0
 * test_faults.c: every allocation and every system call fails in turn, once and
 * from then on. Each time there is an error, the registry is unchanged, no
 * memory remains, and the step works without the fault.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef tn_code step(world *w);

static tn_code load_fix(world *w) {
  return tn__plugin_load(w->registry, fixture_path("fix"));
}

static tn_code load_extra(world *w) {
  return tn__plugin_load(w->registry, fixture_path("extra"));
}

static tn_code load_swap(world *w) {
  return tn__plugin_load(w->registry, fixture_path("swap"));
}

static tn_code look_up(world *w) {
  tn_operator *op;
  tn_params *params;
  TN__TRY(tn__operator_get(w->registry, "fix.echo@1", &op));
  TN__TRY(tn__params_parse(op, "n=3", &params));
  tn__params_release(params);
  return TN_OK;
}

static tn_code inspect_plugin(world *w) {
  tn_inspection *inspection;
  TN__TRY(tn__inspection_open(&w->env, fixture_path("fix"), &inspection));
  tn__inspection_close(inspection);
  return TN_OK;
}

static tn_code unload_fix(world *w) {
  return tn__plugin_unload(w->registry, "fix");
}

static tn_code unload_extra(world *w) {
  return tn__plugin_unload(w->registry, "extra");
}

static step *const steps[] = {load_extra,   inspect_plugin, load_fix, look_up,
                              load_swap,    unload_fix,     load_fix, look_up,
                              unload_extra, unload_fix};
enum { N_STEPS = sizeof steps / sizeof *steps };

/* Runs all steps. A fault must leave everything unchanged; afterwards the step
 * must work without it. False if no step had a fault. */
static bool survive_fault(world *w, size_t *failed_step) {
  bool struck = false;
  for (size_t i = 0; i < N_STEPS; ++i) {
    char before[1024], after[1024];
    world_snapshot(w, before, sizeof before);
    tn_code rc = steps[i](w);
    if (!rc) continue;
    cr_assert_not(struck, "step %zu fails after the fault: %s", i,
                  tn_error_text());
    struck = true;
    *failed_step = i;
    cr_assert(rc == TN_OUT_OF_MEMORY || rc == TN_IO || rc == TN_PLUGIN,
              "step %zu: code %d: %s", i, rc, tn_error_text());
    cr_assert_neq(tn_error_text()[0], 0);
    world_snapshot(w, after, sizeof after);
    cr_assert_str_eq(before, after, "step %zu", i);
    world_heal(w);
    cr_assert_eq(steps[i](w), TN_OK, "step %zu does not work afterwards: %s", i,
                 tn_error_text());
  }
  return struck;
}

static void memory_fails(bool sticky) {
  size_t step_of_fault = 0, faults = 0;
  for (bool struck = true; struck; ++faults) {
    world w;
    cr_assert_lt(faults, 5000);
    world_open(&w, TN_TRUST_REPLACE);
    w.memory = (failure){0, faults, sticky};
    struck = survive_fault(&w, &step_of_fault);
    cr_assert(struck || w.memory.calls <= faults,
              "failure of allocation %zu went unnoticed", faults);
    world_close(&w);
  }
  cr_assert_gt(faults, 30);
}

Test(faults, survives_each_failing_allocation) {
  memory_fails(false);
}

Test(faults, survives_an_allocator_that_never_recovers) {
  memory_fails(true);
}

static void system_fails(bool sticky) {
  size_t step_of_fault = 0, n = 0;
  for (bool more = true; more; ++n) {
    world w;
    cr_assert_lt(n, 1000);
    world_open(&w, TN_TRUST_REPLACE);
    w.env.os = &world_os;
    world_os_failure = (failure){0, n, sticky};
    (void)survive_fault(&w, &step_of_fault);
    more = world_os_failure.at != n || world_os_failure.calls > n;
    world_heal(&w);
    world_close(&w);
  }
  cr_assert_gt(n, 30);
}

Test(faults, survives_each_failing_call_of_the_system) {
  system_fails(false);
}

Test(faults, survives_a_system_that_never_recovers) {
  system_fails(true);
}

/* A search continues after a refusal, so a failure costs one plugin; another
 * plugin may wait for this one. */
Test(faults, a_search_survives_each_failing_allocation) {
  bool struck = true;
  for (size_t n = 0; struck; ++n) {
    world w;
    size_t size;
    world_open(&w, 0);
    uint8_t *file = fixture_bytes("user", &size);
    (void)world_file(&w, "a.so", file, size);
    free(file);
    file = fixture_bytes("fix", &size);
    (void)world_file(&w, "b.so", file, size);
    free(file);
    w.memory = (failure){0, n, false};
    const tn_code rc = tn__plugins_load_path(w.registry, w.folder);
    struck = w.memory.calls > n;
    cr_assert_lt(n, 1000);
    cr_assert(rc == TN_OK || struck, "%s", tn_error_text());
    cr_assert(rc != TN_OK || w.registry->plugins.n == 2,
              "allocation %zu: a plugin is missing, and nothing was said", n);
    world_heal(&w);
    world_close(&w);
  }
}

Test(faults, names_the_file_that_the_system_refused) {
  size_t calls = 0;
  for (size_t n = 0; n < 8; ++n) {
    world w;
    world_open(&w, 0);
    w.env.os = &world_os;
    world_os_failure = (failure){0, n, true};
    if (load_fix(&w)) {
      ++calls;
      cr_assert(strstr(tn_error_text(), "fix.so"), "%s", tn_error_text());
    }
    world_heal(&w);
    world_close(&w);
  }
  cr_assert_eq(calls, 8);
}
