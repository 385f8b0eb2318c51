/* SPDX-License-Identifier: Apache-2.0
 * test_kvstore_ranks.c: the cases of store_cases.c, on 1, 2 and 4 runtimes of
 * one process.
 */
#include "ranks.h"

Test(kvstore_ranks, hold_the_cases_of_all_engines, .timeout = 100) {
  for (const store_case *c = store_cases; c->name; ++c)
    if (!c->waits) run_ranks(c->run);
}

Test(kvstore_ranks, hold_the_cases_that_wait, .timeout = 100) {
  for (const store_case *c = store_cases; c->name; ++c)
    if (c->waits) run_ranks_at_once(c->run);
}

Test(kvstore_ranks, need_the_plugin_comm) {
  meter memory;
  tn_kvstore *kv = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, &memory);
  FAILS(tn_kvstore_create(rt, "dist_sync", NULL, &kv), TN_NOT_FOUND,
        "tn_kvstore_create: groups need plugin `comm`; load it");
  close_runtime(rt, &memory);
}
