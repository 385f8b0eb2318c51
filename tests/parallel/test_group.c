/* SPDX-License-Identifier: Apache-2.0
 * test_group.c: groups of the host (tenon/comm.h), on runtimes of one process.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "ranks.h"

static const char *has_properties(member *me) {
  RANK_HOLDS(strcmp(tn_group_name(me->world), "world") == 0);
  RANK_HOLDS(tn_group_rank(me->world) == me->rank);
  RANK_HOLDS(tn_group_size(me->world) == me->size);
  return NULL;
}

Test(group, has_name_rank_and_size) {
  run_ranks(has_properties);
}

static _Atomic int n_arrived;

static const char *waits_for_all(member *me) {
  for (int i = 1; i <= 20; ++i) {
    ++n_arrived;
    RANK_OK(tn_group_barrier(me->world));
    RANK_HOLDS(n_arrived >= i * me->size);
  }
  RANK_OK(tn_group_barrier(me->world));
  n_arrived = 0;
  return NULL;
}

Test(group, waits_for_all_ranks_at_a_barrier) {
  run_ranks(waits_for_all);
}

/* Even and odd ranks, from the highest rank on; rank 3 joins none. */
static const char *divides(member *me) {
  tn_rank_group *part = NULL;
  const int32_t colour = me->rank == 3 ? -1 : me->rank % 2;
  RANK_OK(tn_group_split(me->world, colour, -me->rank, "half", &part));
  if (colour < 0) {
    RANK_HOLDS(!part);
    return NULL;
  }
  const int32_t size = me->size > 2 && colour == 0 ? 2 : 1;
  RANK_HOLDS(tn_group_size(part) == size);
  RANK_HOLDS(tn_group_rank(part) == (size == 2 && me->rank == 0 ? 1 : 0));
  RANK_HOLDS(strcmp(tn_group_name(part), "half") == 0);
  RANK_OK(tn_group_barrier(part));
  tn_group_release(part);
  return NULL;
}

Test(group, divides_into_groups) {
  run_ranks(divides);
}

static const char *names_second_group(member *me) {
  tn_rank_group *again = me->world;
  const tn_group_options how = {
      .struct_size = sizeof how, .backend = "local", .session = "another"};
  RANK_FAILS(tn_group_join(me->rt, &how, &again), TN_EXISTS, "tn_group_join: ");
  RANK_HOLDS(!again && strstr(tn_error_text(), "world"));
  return NULL;
}

Test(group, refuses_a_second_group_of_a_name) {
  run_ranks(names_second_group);
}

Test(group, is_alone_without_options) {
  meter memory;
  tn_rank_group *alone = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_NAIVE, &memory);
  OK(tn_plugin_load(rt, COMM_FILE));
  OK(tn_group_join(rt, NULL, &alone));
  cr_assert_eq(tn_group_rank(alone), 0);
  cr_assert_eq(tn_group_size(alone), 1);
  OK(tn_group_barrier(alone));
  tn_group_release(alone);
  close_runtime(rt, &memory);
}

Test(group, keeps_its_runtime) {
  meter memory;
  tn_rank_group *alone = NULL;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, &memory);
  OK(tn_plugin_load(rt, COMM_FILE));
  OK(tn_group_join(rt, NULL, &alone));
  tn_runtime_release(rt);
  OK(tn_group_barrier(alone));
  tn_group_release(alone);
  cr_assert_eq(memory.n_living, 0);
}

Test(group, describes_the_backends) {
  meter memory;
  char text[4096], some[8];
  size_t length = 0, again = 0;
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, &memory);
  OK(tn_plugin_load(rt, COMM_FILE));
  OK(tn_comm_describe(rt, text, sizeof text, &length));
  cr_assert_eq(strlen(text), length);
  cr_assert_not_null(strstr(text, "local"));
  cr_assert_not_null(strstr(text, "mpi"));
  OK(tn_comm_describe(rt, some, sizeof some, &again));
  cr_assert_eq(again, length);
  cr_assert_eq(strncmp(some, text, sizeof some - 1), 0);
  cr_assert_eq(strlen(some), sizeof some - 1);
  OK(tn_comm_describe(rt, NULL, 0, &again));
  cr_assert_eq(again, length);
  close_runtime(rt, &memory);
}

Test(group, names_arguments_that_are_null) {
  meter memory;
  tn_rank_group *none = NULL;
  const tn_group_options small = {.struct_size = 8};
  tn_runtime *rt = open_runtime(TN_ENGINE_POOLED, &memory);
  FAILS(tn_group_join(NULL, NULL, &none), TN_INVALID, "`rt` is NULL");
  FAILS(tn_group_join(rt, NULL, NULL), TN_INVALID, "`out` is NULL");
  FAILS(tn_group_join(rt, NULL, &none), TN_NOT_FOUND,
        "tn_group_join: groups need plugin `comm`; load it into the runtime");
  FAILS(tn_comm_describe(rt, NULL, 0, NULL), TN_NOT_FOUND, "plugin `comm`");
  OK(tn_plugin_load(rt, COMM_FILE));
  FAILS(tn_group_join(rt, &small, &none), TN_INVALID, "struct_size is 8");
  FAILS(tn_group_split(NULL, 0, 0, "x", &none), TN_INVALID, "`group`");
  FAILS(tn_group_barrier(NULL), TN_INVALID, "`group` is NULL");
  FAILS(tn_comm_describe(NULL, NULL, 0, NULL), TN_INVALID, "`rt` is NULL");
  FAILS(tn_comm_describe(rt, NULL, 1, NULL), TN_INVALID, "`to` is NULL");
  cr_assert_str_eq(tn_group_name(NULL), "");
  cr_assert_eq(tn_group_rank(NULL), 0);
  cr_assert_eq(tn_group_size(NULL), 0);
  tn_group_release(NULL);
  close_runtime(rt, &memory);
}
