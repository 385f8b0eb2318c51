/* SPDX-License-Identifier: Apache-2.0
 * Two ranks push their gradients of one weight. Each rank is a thread with a
 * runtime of its own; with the backend "mpi" it is a process of mpirun.
 */
#include <pthread.h>
#include <stdio.h>
#include <tenon/comm.h>
#include <tenon/kvstore.h>
#include <tenon/tenon.h>

enum { RANKS = 2 };

/* An updater: value = value - sum. */
static tn_code subtract_sum(void *ctx, const tn_key *key, tn_array *sum,
                            tn_array *value) {
  tn_operator *sub = NULL;
  const tn_code rc = tn_operator_get(ctx, "elemwise.sub", &sub);
  (void)key;
  return rc ? rc : tn_call(ctx, sub, TN_IN(value, sum), NULL, TN_OUT(&value));
}

static tn_code train_rank(tn_runtime *rt, int32_t rank) {
  const float weight = 10, gradient = (float)(rank + 1);
  float result = 0;
  tn_rank_group *world = NULL;
  tn_kvstore *kv = NULL;
  tn_array *array = NULL;
  tn_code rc = tn_plugins_load_standard(rt);
  const tn_group_options how = {.struct_size = sizeof how,
                                .backend = "local",
                                .rank = rank,
                                .size = RANKS};
  if (!rc) rc = tn_group_join(rt, &how, &world);
  if (!rc) rc = tn_kvstore_create(rt, "dist_sync", NULL, &kv);
  if (!rc) rc = tn_kvstore_set_updater(kv, subtract_sum, rt, NULL);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 0, NULL}, &array);
  if (!rc) rc = tn_array_set(array, &weight, sizeof weight);
  if (!rc) rc = tn_kvstore_init(kv, &TN_KEYED("weight", array), 1);
  if (!rc) rc = tn_array_set(array, &gradient, sizeof gradient);
  if (!rc) rc = tn_kvstore_push(kv, &TN_KEYED("weight", array), 1);
  if (!rc) rc = tn_kvstore_pull(kv, &TN_KEYED("weight", array), 1);
  if (!rc) rc = tn_array_get(array, &result, sizeof result);
  if (!rc && rank == 0) printf("10 - (1 + 2) = %g\n", result);
  if (rc) fprintf(stderr, "rank %d: %s\n", rank, tn_error_text());
  tn_array_release(array);
  tn_kvstore_release(kv);
  tn_group_release(world);
  return rc;
}

static void *run_rank(void *arg) {
  tn_runtime *rt = NULL;
  if (tn_runtime_create(NULL, &rt) || train_rank(rt, *(const int32_t *)arg))
    *(int32_t *)arg = -1;
  tn_runtime_release(rt);
  return NULL;
}

int main(void) {
  int32_t ranks[RANKS] = {0, 1};
  pthread_t threads[RANKS];
  int failures = 0;
  for (int r = 0; r < RANKS; ++r)
    if (pthread_create(&threads[r], NULL, run_rank, &ranks[r])) return 1;
  for (int r = 0; r < RANKS; ++r) {
    pthread_join(threads[r], NULL);
    failures += ranks[r] < 0;
  }
  return failures;
}
