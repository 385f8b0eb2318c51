/* SPDX-License-Identifier: Apache-2.0
 * store_cases.c: cases of stores with ranks, for runtimes of one process and
 * for processes of mpirun.
 */
#include <semaphore.h>
#include <unistd.h>

#include "ranks.h"

enum { LENGTH = 5 };

static const int64_t length = LENGTH;
static const tn_spec vector = {TN_F32, 1, &length};

/* All keys have an owner, or none has. */
static tn_code open_ranks(member *me, bool owned, tn_kvstore **out) {
  const tn_kvstore_options options = {
      .struct_size = sizeof options,
      .bucket_bytes = 3 * LENGTH * sizeof(float),
      .owner_bytes = owned ? 1 : UINT64_MAX};
  return tn_kvstore_create(me->rt, "dist_sync", &options, out);
}

/* Initialises a key with `number` on rank 0, and another one elsewhere. */
static tn_code init_key(member *me, tn_kvstore *kv, tn_key key, double number) {
  tn_array *first =
      fill_vector(me, TN_F32, LENGTH, me->rank == 0 ? number : -7);
  const tn_code rc = tn_kvstore_init(kv, &(tn_keyed){key, &first, 1, 0}, 1);
  tn_array_release(first);
  return rc;
}

static tn_code push_number(member *me, tn_kvstore *kv, tn_key key,
                           double number) {
  tn_array *value = fill_vector(me, TN_F32, LENGTH, number);
  const tn_code rc = tn_kvstore_push(kv, &(tn_keyed){key, &value, 1, 0}, 1);
  tn_array_release(value);
  return rc;
}

static double sum_of_ranks(const member *me) {
  return me->size * (me->size + 1) / 2;
}

/* ---------------------------------------------------------------- one key */

static const char *has_properties(member *me) {
  tn_kvstore *kv = NULL;
  RANK_OK(tn_kvstore_create(me->rt, "dist_sync", NULL, &kv));
  RANK_HOLDS(strcmp(tn_kvstore_kind(kv), "dist_sync") == 0);
  RANK_HOLDS(tn_kvstore_rank(kv) == me->rank);
  RANK_HOLDS(tn_kvstore_size(kv) == me->size);
  RANK_OK(tn_kvstore_barrier(kv));
  tn_kvstore_release(kv);
  return NULL;
}

static const char *sums_over_ranks(member *me) {
  const tn_key a = {"a", 0};
  tn_kvstore *kv = NULL;
  RANK_OK(open_ranks(me, false, &kv));
  RANK_OK(init_key(me, kv, a, 3));
  RANK_TRY(compare_pulled(me, kv, a, &vector, 3));
  for (int i = 1; i <= 20; ++i) {
    RANK_OK(push_number(me, kv, a, i * (me->rank + 1)));
    RANK_TRY(compare_pulled(me, kv, a, &vector, i * sum_of_ranks(me)));
  }
  tn_kvstore_release(kv);
  return NULL;
}

/* Four devices of each rank. */
static const char *sums_devices(member *me) {
  const int64_t shape[] = {SIDE, SIDE};
  const tn_spec spec = {TN_F32, 2, shape};
  const tn_key key = {NULL, 3};
  tn_kvstore *kv = NULL;
  tn_array *v[N_DEVICES];
  make_arrays(me->rt, 1, v);
  RANK_OK(tn_kvstore_create(me->rt, "dist_sync", NULL, &kv));
  RANK_OK(tn_kvstore_init(kv, &(tn_keyed){key, v, 1, 0}, 1));
  RANK_OK(tn_kvstore_push_pull(kv, &(tn_keyed){key, v, N_DEVICES, 0}, 1,
                               &(tn_keyed){key, v, N_DEVICES, 0}, 1));
  RANK_TRY(compare_pulled(me, kv, key, &spec, 4.0 * me->size));
  release_arrays(N_DEVICES, v);
  tn_kvstore_release(kv);
  return NULL;
}

/* ----------------------------------------------------------------- many keys
 */

enum { MANY = 13 };

/* Keys of two types and different lengths, with priorities, in small buckets.
 */
static const char *shares_buckets(member *me) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F32, TN_F32, TN_I32};
  int64_t lengths[MANY];
  tn_spec specs[MANY];
  tn_keyed list[MANY];
  tn_array *arrays[MANY];
  tn_kvstore *kv = NULL;
  RANK_OK(open_ranks(me, false, &kv));
  for (int i = 0; i < MANY; ++i) {
    lengths[i] = i % 5;
    specs[i] = (tn_spec){dtypes[i % 4], 1, &lengths[i]};
    arrays[i] = fill_vector(me, dtypes[i % 4], lengths[i], i * (me->rank + 1));
    list[i] = (tn_keyed){{NULL, i}, &arrays[i], 1, i * 7 % 5};
  }
  RANK_OK(tn_kvstore_init(kv, list, MANY));
  for (int round = 0; round < 3; ++round)
    RANK_OK(tn_kvstore_push(kv, list, MANY));
  for (int i = 0; i < MANY; ++i)
    RANK_TRY(
        compare_pulled(me, kv, list[i].key, &specs[i], i * sum_of_ranks(me)));
  release_arrays(MANY, arrays);
  tn_kvstore_release(kv);
  return NULL;
}

/* ------------------------------------------------------------------ updaters
 */

static const char *updates_by_function(member *me, bool owned) {
  const tn_key keys[] = {{"a", 0}, {NULL, 1}, {"b", 0}};
  tn_kvstore *kv = NULL;
  RANK_OK(open_ranks(me, owned, &kv));
  for (int k = 0; k < 3; ++k) RANK_OK(init_key(me, kv, keys[k], k));
  RANK_OK(tn_kvstore_set_updater(kv, add_received, me->rt, NULL));
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 3; ++k)
      RANK_OK(push_number(me, kv, keys[k], me->rank + 1));
  for (int k = 0; k < 3; ++k)
    RANK_TRY(
        compare_pulled(me, kv, keys[k], &vector, k + 4 * sum_of_ranks(me)));
  tn_kvstore_release(kv);
  return NULL;
}

static const char *updates_without_owners(member *me) {
  return updates_by_function(me, false);
}

static const char *updates_with_owners(member *me) {
  return updates_by_function(me, true);
}

/* A store of one process gets the sum of all ranks, and the results are equal.
 */
static const char *equals_one_process(member *me, bool owned) {
  static const char *const name = "optim.adam_update";
  const tn_key key = {"w", 0};
  tn_kvstore *kv = NULL, *one = NULL;
  tn_array *a = NULL, *b = NULL;
  float x[LENGTH], y[LENGTH];
  RANK_OK(open_ranks(me, owned, &kv));
  RANK_OK(tn_kvstore_create(me->rt, "local", NULL, &one));
  RANK_OK(tn_kvstore_set_optimizer(kv, name, "lr=0.125"));
  RANK_OK(tn_kvstore_set_optimizer(one, name, "lr=0.125"));
  RANK_OK(init_key(me, kv, key, 1));
  a = fill_vector(me, TN_F32, LENGTH, 1);
  RANK_OK(tn_kvstore_init(one, &(tn_keyed){key, &a, 1, 0}, 1));
  tn_array_release(a);
  for (int i = 1; i <= 5; ++i) {
    RANK_OK(push_number(me, kv, key, i * (me->rank + 1)));
    RANK_OK(push_number(me, one, key, i * sum_of_ranks(me)));
  }
  RANK_OK(tn_array_create(me->rt, &vector, &a));
  RANK_OK(tn_array_create(me->rt, &vector, &b));
  RANK_OK(tn_kvstore_pull(kv, &(tn_keyed){key, &a, 1, 0}, 1));
  RANK_OK(tn_kvstore_pull(one, &(tn_keyed){key, &b, 1, 0}, 1));
  RANK_OK(tn_array_get(a, x, sizeof x));
  RANK_OK(tn_array_get(b, y, sizeof y));
  RANK_HOLDS(memcmp(x, y, sizeof x) == 0);
  tn_array_release(b), tn_array_release(a);
  tn_kvstore_release(one), tn_kvstore_release(kv);
  return NULL;
}

static const char *equals_without_owners(member *me) {
  return equals_one_process(me, false);
}

static const char *equals_with_owners(member *me) {
  return equals_one_process(me, true);
}

/* The value of each key after another push of ones. */
static const char *continues_with(member *me, tn_kvstore *kv, double mom) {
  static const tn_key keys[] = {{"a", 0}, {"b", 0}, {"c", 0}};
  for (int k = 0; k < 3; ++k) RANK_OK(push_number(me, kv, keys[k], 1));
  for (int k = 0; k < 3; ++k)
    RANK_TRY(compare_pulled(me, kv, keys[k], &vector, mom));
  return NULL;
}

static const char *saves_states(member *me) {
  static const tn_key keys[] = {{"a", 0}, {"b", 0}, {"c", 0}};
  char path[64];
  const double n = me->size;
  (void)snprintf(path, sizeof path, "/tmp/tenon-ranks-%ld-%d.npz",
                 (long)getppid(), (int)me->size);
  for (int owned = 0; owned < 2; ++owned) {
    tn_kvstore *first = NULL, *next = NULL;
    RANK_OK(open_ranks(me, owned, &first));
    RANK_OK(tn_kvstore_set_optimizer(first, "optim.sgd_mom_update",
                                     "lr=1 momentum=0.5"));
    for (int k = 0; k < 3; ++k) RANK_OK(init_key(me, first, keys[k], 0));
    RANK_TRY(continues_with(me, first, -n));
    RANK_OK(tn_kvstore_save_states(first, path));
    RANK_OK(open_ranks(me, !owned, &next));
    RANK_OK(tn_kvstore_set_optimizer(next, "optim.sgd_mom_update",
                                     "lr=1 momentum=0.5"));
    for (int k = 0; k < 3; ++k) RANK_OK(init_key(me, next, keys[k], 0));
    RANK_OK(tn_kvstore_load_states(next, path));
    RANK_TRY(continues_with(me, next, -1.5 * n)); /* mom: -n/2 - n */
    RANK_TRY(continues_with(me, first, -2.5 * n));
    RANK_OK(tn_kvstore_barrier(next));
    if (me->rank == 0) (void)unlink(path);
    RANK_OK(tn_kvstore_barrier(next));
    RANK_FAILS(tn_kvstore_load_states(next, path), TN_NOT_FOUND, "tenon-ranks");
    tn_kvstore_release(next), tn_kvstore_release(first);
  }
  return NULL;
}

static const char *reports_failed_file(member *me) {
  tn_kvstore *kv = NULL;
  RANK_OK(open_ranks(me, false, &kv));
  RANK_OK(tn_kvstore_set_optimizer(kv, "optim.sgd_update", "lr=1"));
  const tn_code rc =
      tn_kvstore_save_states(kv, "/tmp/tenon-no-folder/states.npz");
  RANK_HOLDS(rc != TN_OK);
  RANK_HOLDS(strstr(tn_error_text(),
                    me->rank == 0 ? "tenon-no-folder" : "on another rank"));
  tn_kvstore_release(kv);
  return NULL;
}

/* -------------------------------------------------------------------- order */

/* A job that ends when the test posts its semaphore. */
static tn_code wait_for_go(void *arg) {
  (void)sem_wait(arg);
  return TN_OK;
}

/* Each rank has another key whose gradient is late: it is complete only after
 * all pushes were scheduled. */
static const char *keeps_order(member *me) {
  enum { ROUNDS = 10 };
  tn_kvstore *kv = NULL;
  tn_array *values[MOST_RANKS];
  tn_variable *late = NULL;
  sem_t go;
  (void)sem_init(&go, 0, 0);
  RANK_OK(open_ranks(me, false, &kv));
  for (int k = 0; k < MOST_RANKS; ++k) {
    RANK_OK(init_key(me, kv, (tn_key){NULL, k}, 0));
    values[k] = fill_vector(me, TN_F32, LENGTH, k + 1);
  }
  RANK_OK(tn_array_variable(values[me->rank], &late));
  RANK_OK(tn_push(me->rt, &(tn_job){.struct_size = sizeof(tn_job),
                                    .run = wait_for_go,
                                    .arg = &go,
                                    TN_USES({late, TN_UPDATE})}));
  for (int round = 0; round < ROUNDS; ++round)
    for (int k = 0; k < MOST_RANKS; ++k)
      RANK_OK(tn_kvstore_push(kv, &(tn_keyed){{NULL, k}, &values[k], 1, 0}, 1));
  (void)sem_post(&go);
  for (int k = 0; k < MOST_RANKS; ++k)
    RANK_TRY(
        compare_pulled(me, kv, (tn_key){NULL, k}, &vector, (k + 1) * me->size));
  tn_variable_release(late);
  release_arrays(MOST_RANKS, values);
  tn_kvstore_release(kv);
  (void)sem_destroy(&go);
  return NULL;
}

/* ------------------------------------------------------------------ failures
 */

static tn_code fail_job(void *arg) {
  (void)arg;
  return tn_fail(TN_IO, "the disk is on the moon");
}

/* Schedules work that fails, and writes the array. */
static tn_code spoil_array(member *me, tn_array *array) {
  tn_variable *variable = NULL;
  tn_code rc = tn_array_variable(array, &variable);
  if (rc == TN_OK)
    rc = tn_push(me->rt, &(tn_job){.struct_size = sizeof(tn_job),
                                   .run = fail_job,
                                   TN_USES({variable, TN_OVERWRITE})});
  tn_variable_release(variable);
  return rc;
}

/* The last rank pushes an array with an error: each rank gets one. */
static const char *shares_failure(member *me) {
  const tn_key a = {"a", 0};
  tn_kvstore *kv = NULL;
  tn_array *value = fill_vector(me, TN_F32, LENGTH, 1);
  RANK_OK(open_ranks(me, false, &kv));
  RANK_OK(init_key(me, kv, a, 0));
  RANK_TRY(compare_pulled(me, kv, a, &vector, 0));
  if (me->rank == me->size - 1) RANK_OK(spoil_array(me, value));
  tn_code rc = tn_kvstore_push(kv, &TN_KEYED("a", value), 1);
  tn_array_release(value);
  RANK_OK(tn_array_create(me->rt, &vector, &value));
  const tn_code pulled = tn_kvstore_pull(kv, &TN_KEYED("a", value), 1);
  const tn_code waited = tn_array_wait(value);
  RANK_HOLDS(waited != TN_OK && (rc == TN_OK || rc == waited));
  RANK_HOLDS(pulled == TN_OK || pulled == waited);
  RANK_HOLDS(strstr(tn_error_text(), me->rank == me->size - 1
                                         ? "the disk is on the moon"
                                         : "group `world` is broken"));
  tn_array_release(value);
  tn_kvstore_release(kv);
  return NULL;
}

static const char *names_missing_group(member *me) {
  tn_kvstore *kv = NULL;
  const tn_kvstore_options options = {.struct_size = sizeof options,
                                      .group = "moon"};
  RANK_FAILS(tn_kvstore_create(me->rt, "dist_sync", &options, &kv),
             TN_NOT_FOUND, "moon");
  RANK_HOLDS(!kv && strstr(tn_error_text(), "call tn_group_join first"));
  const tn_kvstore_options small = {.struct_size = 4};
  RANK_FAILS(tn_kvstore_create(me->rt, "dist_sync", &small, &kv), TN_INVALID,
             "struct_size is 4");
  return NULL;
}

/* -------------------------------------------------------------- dist_async */

static const tn_key three_keys[] = {{"a", 0}, {NULL, 1}, {"b", 0}};

/* No rank pushes while the values are compared. */
static const char *compare_all(member *me, tn_kvstore *kv, double first,
                               double step) {
  RANK_OK(tn_kvstore_barrier(kv));
  for (int k = 0; k < 3; ++k)
    RANK_TRY(compare_pulled(me, kv, three_keys[k], &vector, first + k * step));
  RANK_OK(tn_kvstore_barrier(kv));
  return NULL;
}

static const char *open_async(member *me, tn_kvstore **kv) {
  RANK_OK(tn_kvstore_create(me->rt, "dist_async", NULL, kv));
  RANK_HOLDS(strcmp(tn_kvstore_kind(*kv), "dist_async") == 0);
  for (int k = 0; k < 3; ++k) RANK_OK(init_key(me, *kv, three_keys[k], k));
  return compare_all(me, *kv, 0, 1);
}

/* A pull has the earlier pushes of its rank, and perhaps others. */
static const char *applies_each_push(member *me) {
  enum { ROUNDS = 10 };
  tn_kvstore *kv = NULL;
  tn_array *out = NULL;
  float x[LENGTH];
  RANK_TRY(open_async(me, &kv));
  RANK_OK(tn_kvstore_set_updater(kv, add_received, me->rt, NULL));
  RANK_OK(tn_array_create(me->rt, &vector, &out));
  for (int i = 1; i <= ROUNDS; ++i)
    for (int k = 0; k < 3; ++k) {
      RANK_OK(push_number(me, kv, three_keys[k], me->rank + 1));
      RANK_OK(tn_kvstore_pull(kv, &(tn_keyed){three_keys[k], &out, 1, 0}, 1));
      RANK_OK(tn_array_get(out, x, sizeof x));
      RANK_HOLDS(x[0] >= (float)(k + i * (me->rank + 1)));
      RANK_HOLDS(x[0] <= (float)(k + ROUNDS * sum_of_ranks(me)));
    }
  RANK_TRY(compare_all(me, kv, ROUNDS * sum_of_ranks(me), 1));
  tn_array_release(out);
  tn_kvstore_release(kv);
  return NULL;
}

/* Several stores, whose owners make steps by an operator with a state. */
static const char *makes_steps_on_the_owner(member *me) {
  static const char *const name = "optim.sgd_mom_update";
  tn_kvstore *kv = NULL, *other = NULL;
  double value = 0, mom = 0;
  RANK_TRY(open_async(me, &kv));
  RANK_TRY(open_async(me, &other));
  RANK_OK(tn_kvstore_set_optimizer(kv, name, "lr=1 momentum=0.5"));
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) RANK_OK(push_number(me, kv, three_keys[k], 1));
  for (int i = 0; i < 3 * me->size; ++i) {
    mom = 0.5 * mom - 1;
    value += mom;
  }
  RANK_TRY(compare_all(me, kv, value, 1));
  RANK_TRY(compare_all(me, other, 0, 1));
  tn_kvstore_release(kv);
  for (int k = 0; k < 3; ++k) RANK_OK(push_number(me, other, three_keys[k], 7));
  RANK_TRY(compare_all(me, other, 7, 0));
  tn_kvstore_release(other);
  return NULL;
}

static tn_code refuse_update(void *ctx, const tn_key *key, tn_array *received,
                             tn_array *local) {
  (void)ctx, (void)key, (void)received, (void)local;
  return tn_fail(TN_IO, "no room for the step");
}

/* The rank that pulls the value gets the reason of its owner. */
static const char *shares_failed_update(member *me) {
  tn_kvstore *kv = NULL;
  tn_array *out = NULL;
  int n_failed = 0;
  RANK_TRY(open_async(me, &kv));
  RANK_OK(tn_kvstore_set_updater(kv, refuse_update, NULL, NULL));
  RANK_OK(tn_array_create(me->rt, &vector, &out));
  for (int k = 0; k < 3; ++k) {
    tn_code rc = push_number(me, kv, three_keys[k], 1);
    if (rc == TN_OK)
      rc = tn_kvstore_pull(kv, &(tn_keyed){three_keys[k], &out, 1, 0}, 1);
    if (rc == TN_OK) rc = tn_array_wait(out);
    n_failed += rc != TN_OK;
    RANK_HOLDS(strstr(tn_error_text(), "no room for the step"));
  }
  RANK_HOLDS(n_failed == 3);
  tn_array_release(out);
  tn_kvstore_release(kv);
  RANK_HOLDS(me->size == 1 || tn_wait_all(me->rt) != TN_OK);
  return NULL;
}

/* A list with a known key adds nothing. */
static const char *refuses_known_keys(member *me) {
  const tn_key key = {"new", 0};
  tn_kvstore *kv = NULL;
  RANK_TRY(open_async(me, &kv));
  tn_array *value = fill_vector(me, TN_F32, LENGTH, 1);
  const tn_keyed list[] = {{key, &value, 1, 0}, {three_keys[0], &value, 1, 0}};
  RANK_HOLDS(tn_kvstore_init(kv, list, 2) == TN_EXISTS);
  RANK_FAILS(push_number(me, kv, key, 1), TN_NOT_FOUND, "new");
  RANK_TRY(compare_all(me, kv, 0, 1));
  tn_array_release(value);
  tn_kvstore_release(kv);
  return NULL;
}

const store_case store_cases[] = {
    {.name = "have_rank_size_and_a_barrier", .run = has_properties},
    {.name = "sum_the_values_of_all_ranks", .run = sums_over_ranks},
    {.name = "sum_the_devices_of_all_ranks", .run = sums_devices},
    {.name = "sum_many_keys_in_buckets", .run = shares_buckets},
    {.name = "update_on_each_rank", .run = updates_without_owners},
    {.name = "update_on_the_owner", .run = updates_with_owners},
    {.name = "equal_one_process", .run = equals_without_owners},
    {.name = "equal_one_process_with_owners", .run = equals_with_owners},
    {.name = "save_and_load_the_states_of_owners", .run = saves_states},
    {.name = "report_a_file_that_rank_0_cannot_write",
     .run = reports_failed_file},
    {.name = "keep_the_order_of_pushes_with_late_arrays",
     .run = keeps_order,
     .waits = true},
    {.name = "share_the_failure_of_a_rank",
     .run = shares_failure,
     .waits = true,
     .breaks = true},
    {.name = "name_a_group_that_is_missing", .run = names_missing_group},
    {.name = "apply_pushes_when_they_arrive",
     .run = applies_each_push,
     .waits = true},
    {.name = "make_steps_on_the_owner_of_a_key",
     .run = makes_steps_on_the_owner,
     .waits = true},
    {.name = "share_a_failed_update",
     .run = shares_failed_update,
     .waits = true,
     .breaks = true},
    {.name = "refuse_known_keys", .run = refuses_known_keys, .waits = true},
    {.name = NULL},
};
