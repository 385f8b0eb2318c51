/* SPDX-License-Identifier: Apache-2.0
 * The planner of MXNet 0.12 compared with a planner written from the same
 * rules, entry by entry on random nets.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "nets.h"
#include "random_net.h"
#include "reference.h"

enum { N_NETS = 1000 };

static compat_options options_of(uint64_t seed) {
  static const uint32_t RANGES[] = {0, 1, 2, 4, 16, 100};
  uint64_t state = ~seed;
  return (compat_options){
      .no_accumulate = true,
      .no_inplace = random_below(&state, 4) == 0,
      .no_share = random_below(&state, 4) == 0,
      .match_range = RANGES[random_below(&state, 6)],
      .sweep = random_below(&state, 4) == 0,
      .n_colours = random_below(&state, 3) == 0 ? random_below(&state, 5) : 0};
}

static void compare_plans(const tn__plan_net *net,
                          const compat_options *options, uint64_t seed) {
  static reference_plan expected;
  tn__memory_plan plan;
  cr_assert_eq(compat_plan_init(&plan, tn__env_default(), net, options), TN_OK,
               "seed %lu: %s", (unsigned long)seed, tn_error_text());
  reference_run(&expected, net, options);
  for (uint32_t e = 0; e < net->n_entries; ++e) {
    cr_assert_eq(plan.places[e].storage, expected.storage[e],
                 "seed %lu, entry %u: storage %d, not %d", (unsigned long)seed,
                 e, plan.places[e].storage, expected.storage[e]);
    cr_assert_eq(plan.places[e].alias, expected.alias[e],
                 "seed %lu, entry %u: in the memory of input %d, not %d",
                 (unsigned long)seed, e, plan.places[e].alias,
                 expected.alias[e]);
  }
  cr_assert_eq(plan.n_storages, (size_t)expected.n_storages, "seed %lu",
               (unsigned long)seed);
  for (size_t s = 0; s < plan.n_storages; ++s)
    cr_assert_eq(plan.storages[s].bytes, expected.bytes[s],
                 "seed %lu, storage %zu", (unsigned long)seed, s);
  cr_assert_eq(sum_separate(&plan), expected.total, "seed %lu",
               (unsigned long)seed);
  tn__memory_plan_deinit(&plan);
}

Test(compat, gives_every_entry_the_storage_of_the_rules) {
  random_net *net = malloc(sizeof *net);
  for (uint64_t seed = 1; seed <= N_NETS; ++seed) {
    const compat_options options = options_of(seed);
    random_net_make(net, seed);
    compare_plans(&net->net, &options, seed);
  }
  free(net);
}
