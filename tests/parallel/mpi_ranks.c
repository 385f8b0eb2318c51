/* SPDX-License-Identifier: Apache-2.0
 * mpi_ranks.c: the cases of store_cases.c on processes: `mpirun -n N
 * mpi_ranks`. Each process is a rank. Rank 0 writes TAP.
 */
#include "ranks.h"

static const char *join_mpi(member *me) {
  const tn_group_options how = {.struct_size = sizeof how,
                                .check = 1,
                                .timeout_ms = 60000,
                                .backend = "mpi"};
  RANK_OK(tn_plugin_load(me->rt, COMM_FILE));
  RANK_OK(tn_group_join(me->rt, &how, &me->world));
  me->rank = tn_group_rank(me->world);
  me->size = tn_group_size(me->world);
  return NULL;
}

/* Returns 1 if the case fails. */
static int run_case(member *me, const store_case *c, int number) {
  const char *failure = c->run(me);
  if (failure)
    fprintf(stderr, "# %s, rank %d: %s\n", c->name, (int)me->rank, failure);
  if (me->rank == 0)
    printf("%s %d - %s\n", failure ? "not ok" : "ok", number, c->name);
  (void)fflush(stdout);
  return failure != NULL;
}

int main(void) {
  static member me;
  int n_failed = 0, number = 0;
  me.rt = open_runtime(TN_ENGINE_POOLED, &me.memory);
  const char *failure = join_mpi(&me);
  if (failure) {
    fprintf(stderr, "# %s\n", failure);
    return 1;
  }
  for (const store_case *c = store_cases; c->name; ++c)
    if (!c->breaks) n_failed += run_case(&me, c, ++number);
  if (me.rank == 0) printf("1..%d\n", number);
  tn_group_release(me.world);
  close_runtime(me.rt, &me.memory);
  return n_failed;
}
