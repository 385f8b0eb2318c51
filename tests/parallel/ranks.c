/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <pthread.h>
#include <stdlib.h>

/* Sessions of different groups of threads have different texts. */
static _Atomic int n_sessions;

static const char *join_and_run(member *me) {
  char session[32];
  (void)snprintf(session, sizeof session, "session %d", (int)n_sessions);
  const tn_group_options how = {.struct_size = sizeof how,
                                .check = 1,
                                .timeout_ms = 60000,
                                .rank = me->rank,
                                .size = me->size,
                                .backend = "local",
                                .session = session};
  RANK_OK(tn_plugin_load(me->rt, COMM_FILE));
  RANK_OK(tn_group_join(me->rt, &how, &me->world));
  return me->run(me);
}

static void *run_member(void *arg) {
  member *me = arg;
  me->failure = join_and_run(me);
  tn_group_release(me->world);
  return NULL;
}

static void run_size(const char *(*run)(member *me), int32_t size,
                     uint32_t engine) {
  static member members[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  ++n_sessions;
  for (int32_t r = 0; r < size; ++r) {
    members[r] = (member){.rank = r, .size = size, .run = run};
    members[r].rt = open_runtime(engine, &members[r].memory);
    cr_assert_eq(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
  }
  for (int32_t r = 0; r < size; ++r) (void)pthread_join(threads[r], NULL);
  for (int32_t r = 0; r < size; ++r)
    cr_assert_null(members[r].failure, "rank %d of %d: %s", (int)r, (int)size,
                   members[r].failure);
  for (int32_t r = 0; r < size; ++r)
    close_runtime(members[r].rt, &members[r].memory);
}

void run_ranks_at_once(const char *(*run)(member *me)) {
  for (int32_t size = 1; size <= MOST_RANKS; size *= 2)
    run_size(run, size, TN_ENGINE_POOLED);
  run_size(run, 2, TN_ENGINE_THREADED);
}

void run_ranks(const char *(*run)(member *me)) {
  run_ranks_at_once(run);
  run_size(run, 2, TN_ENGINE_NAIVE);
}

tn_array *fill_vector(member *me, tn_dtype dtype, int64_t n, double number) {
  tn_array *wide = NULL, *array = NULL;
  double *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; ++i) v[i] = number;
  const tn_spec spec = {TN_F64, 1, &n};
  tn_code rc = tn_array_create(me->rt, &spec, &wide);
  if (rc == TN_OK) rc = tn_array_set(wide, v, (size_t)n * sizeof *v);
  if (rc == TN_OK) rc = tn_array_cast(wide, dtype, &array);
  tn_array_release(wide);
  free(v);
  return rc == TN_OK ? array : NULL;
}

static const char *compare_elements(member *me, tn_array *array, int64_t n,
                                    double number) {
  tn_array *wide = NULL;
  double *v = malloc((size_t)n * sizeof *v);
  tn_code rc = tn_array_cast(array, TN_F64, &wide);
  if (rc == TN_OK) rc = tn_array_get(wide, v, (size_t)n * sizeof *v);
  tn_array_release(wide);
  int64_t i = 0;
  while (rc == TN_OK && i < n && v[i] == number) ++i;
  const double found = rc == TN_OK && i < n ? v[i] : number;
  free(v);
  RANK_OK(rc);
  if (i < n) RANK_FAIL("element %d is %g, not %g", (int)i, found, number);
  return NULL;
}

const char *compare_pulled(member *me, tn_kvstore *kv, tn_key key,
                           const tn_spec *spec, double number) {
  tn_array *out = NULL;
  RANK_OK(tn_array_create(me->rt, spec, &out));
  RANK_OK(tn_kvstore_pull(kv, &(tn_keyed){key, &out, 1, 0}, 1));
  RANK_TRY(compare_elements(me, out, tn_array_size(out), number));
  tn_array_release(out);
  return NULL;
}
