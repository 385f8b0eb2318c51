/* SPDX-License-Identifier: Apache-2.0
 * kvstore.c: the public functions of a key-value store. Each checks its
 * arguments and holds the lock of the store.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

/* -------------------------------------------------------------------- kinds */

static const tn__kv_kind kinds[] = {{.name = "local", .on_cpu = true},
                                    {.name = "device"},
                                    {.name = "dist_sync", .has_ranks = true},
                                    {.name = "dist_async",
                                     .on_cpu = true,
                                     .has_ranks = true,
                                     .is_async = true}};

static const tn__kv_kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

/* ---------------------------------------------------------------- the store */

static tn_code create_store(tn_runtime *rt, const tn__kv_kind *kind,
                            tn_kvstore **out) {
  tn_kvstore *kv = calloc(1, sizeof *kv);
  if (!kv) return tn__kv_fail_memory("tn_kvstore_create");
  kv->rt = rt;
  kv->kind = kind;
  kv->n_owners = 1;
  kv->ranks.size = 1;
  tn_code rc = tn_variable_create(rt, NULL, NULL, &kv->keeper);
  if (rc == TN_OK && pthread_mutex_init(&kv->lock, NULL) != 0) {
    tn_variable_release(kv->keeper);
    rc = tn__kv_fail_memory("tn_kvstore_create");
  }
  if (rc == TN_OK)
    *out = kv;
  else
    free(kv);
  return rc;
}

tn_code tn_kvstore_create(tn_runtime *rt, const char *kind,
                          const tn_kvstore_options *options, tn_kvstore **out) {
  static const tn_kvstore_options usual = {.struct_size = sizeof usual};
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(kind);
  if (!options) options = &usual;
  if (options->struct_size < sizeof *options)
    return tn_fail(TN_INVALID,
                   "tn_kvstore_create: tn_kvstore_options.struct_size is %u; "
                   "set it to sizeof(tn_kvstore_options)",
                   options->struct_size);
  const tn__kv_kind *found = find_kind(kind);
  if (!found)
    return tn_fail(TN_INVALID,
                   "tn_kvstore_create: `%s` is no kind of store; the kinds are "
                   "local, device, dist_sync and dist_async",
                   kind);
  TN__TRY(create_store(rt, found, out));
  if (!found->has_ranks) return TN_OK;
  (*out)->function = __func__;
  tn_code rc = tn__kv_ranks_init(*out, options);
  if (rc == TN_OK && found->is_async) rc = tn__kv_async_open(*out);
  if (rc == TN_OK) return rc;
  tn_kvstore_release(*out);
  *out = NULL;
  return rc;
}

tn_kvstore *tn_kvstore_retain(tn_kvstore *kv) {
  if (kv) atomic_fetch_add(&kv->n_owners, 1);
  return kv;
}

static void drop_states(tn_kvstore *kv) {
  for (size_t i = 0; i < kv->table.n; ++i)
    tn__kv_entry_drop_states(kv->table.v[i], kv->updater.n_states);
}

void tn_kvstore_release(tn_kvstore *kv) {
  if (!kv || atomic_fetch_sub(&kv->n_owners, 1) != 1) return;
  tn__kv_async_close(kv);
  drop_states(kv);
  tn__kv_updater_deinit(&kv->updater);
  tn__kv_table_deinit(&kv->table);
  tn__kv_ranks_deinit(&kv->ranks);
  (void)pthread_mutex_destroy(&kv->lock);
  tn_variable_release(kv->keeper);
  free(kv);
}

const char *tn_kvstore_kind(const tn_kvstore *kv) {
  return kv ? kv->kind->name : "";
}

int32_t tn_kvstore_rank(const tn_kvstore *kv) {
  return kv ? kv->ranks.rank : 0;
}

int32_t tn_kvstore_size(const tn_kvstore *kv) {
  return kv ? kv->ranks.size : 0;
}

tn_code tn_kvstore_barrier(tn_kvstore *kv) {
  TN__REQUIRE(kv);
  if (!kv->kind->has_ranks) return TN_OK;
  if (kv->async) TN__TRY(tn__kv_async_flush(kv));
  return tn__comm_barrier(kv->rt, kv->ranks.group);
}

static void lock_store(tn_kvstore *kv, const char *function) {
  (void)pthread_mutex_lock(&kv->lock);
  kv->function = function;
  kv->first_error = TN_OK;
}

/* Returns the code of the function, or of the first failure that travels. */
static tn_code unlock_store(tn_kvstore *kv, tn_code rc) {
  if (rc == TN_OK && kv->first_error != TN_OK)
    rc = tn_fail(kv->first_error, "%s", kv->first_text);
  (void)pthread_mutex_unlock(&kv->lock);
  return rc;
}

/* ------------------------------------------------------------------- values */

static tn_code create_value(tn_kvstore *kv, const tn_keyed *item,
                            tn__kv_entry **out) {
  tn_array *first = item->arrays[0];
  const tn_place place =
      kv->kind->on_cpu ? (tn_place){TN_DEVICE_CPU, 0} : tn__kv_place_of(first);
  if (tn__kv_entry_create(&item->key, out) != TN_OK)
    return tn__kv_fail_memory(kv->function);
  TN__TRY(tn__kv_create_like(kv->rt, first, place, &(*out)->local));
  TN__TRY(tn__kv_settle(kv, &item->key, (*out)->local,
                        tn_array_copy((*out)->local, first)));
  return kv->kind->has_ranks ? tn__kv_ranks_share(kv, *out) : TN_OK;
}

/* Removes the keys after the first `n`. */
static void remove_keys(tn_kvstore *kv, size_t n) {
  for (size_t i = n; i < kv->table.n; ++i)
    tn__kv_ranks_forget(kv, kv->table.v[i]);
  tn__kv_table_cut(&kv->table, n);
}

/* Adds new keys: all, or none. A key that is twice in the list is found when
 * its second entry is about to be added. */
static tn_code add_keys(tn_kvstore *kv, const tn_keyed *items, size_t n) {
  const size_t n_before = kv->table.n;
  TN__TRY(tn__kv_check_new(kv, items, n));
  if (tn__kv_table_reserve(&kv->table, n) != TN_OK)
    return tn__kv_fail_memory(kv->function);
  for (size_t i = 0; i < n; ++i) {
    tn__kv_entry *entry = NULL;
    tn_code rc = tn__kv_check_new(kv, &items[i], 1);
    if (rc == TN_OK) rc = create_value(kv, &items[i], &entry);
    if (rc == TN_OK) {
      tn__kv_table_add(&kv->table, entry);
      continue;
    }
    if (entry) tn__kv_entry_destroy(entry);
    remove_keys(kv, n_before);
    return rc;
  }
  return TN_OK;
}

static tn_code push_group(tn_kvstore *kv, tn__kv_group *group) {
  if (kv->async) return tn__kv_async_push(kv, group);
  TN__TRY(tn__kv_sum(kv, group));
  return tn__kv_update(kv, group);
}

static tn_code push_values(tn_kvstore *kv, const tn_keyed *items, size_t n) {
  tn__kv_batch batch;
  const bool is_sync = kv->kind->has_ranks && !kv->async;
  tn_code rc = tn__kv_batch_init(kv, items, n, &batch);
  if (rc == TN_OK && is_sync) rc = tn__kv_ranks_push(kv, &batch);
  for (size_t g = 0; g < batch.n && rc == TN_OK && !is_sync; ++g)
    rc = push_group(kv, &batch.groups[g]);
  tn__kv_batch_deinit(&batch);
  return rc;
}

static tn_code pull_group(tn_kvstore *kv, const tn__kv_group *group) {
  tn_code rc = kv->async ? tn__kv_async_pull(kv, group->entry) : TN_OK;
  for (size_t i = 0; i < group->n && rc == TN_OK; ++i)
    rc = tn__kv_settle(kv, &group->entry->key, group->arrays[i],
                       tn_array_copy(group->arrays[i], group->entry->local));
  return rc;
}

static tn_code pull_values(tn_kvstore *kv, const tn_keyed *items, size_t n) {
  tn__kv_batch batch;
  tn_code rc = tn__kv_batch_init(kv, items, n, &batch);
  for (size_t g = 0; g < batch.n && rc == TN_OK; ++g)
    rc = pull_group(kv, &batch.groups[g]);
  tn__kv_batch_deinit(&batch);
  return rc;
}

/* Other ranks use what this one has just set, so all of them wait for it.
 * Without the lock, which their requests need. */
static tn_code agree_if_async(tn_kvstore *kv, tn_code rc) {
  return kv->async ? tn__kv_ranks_agree(kv, rc) : rc;
}

tn_code tn_kvstore_init(tn_kvstore *kv, const tn_keyed *values, size_t n) {
  TN__REQUIRE(kv);
  lock_store(kv, __func__);
  const size_t n_before = kv->table.n;
  tn_code rc = unlock_store(kv, add_keys(kv, values, n));
  if (!kv->async) return rc;
  rc = tn__kv_ranks_agree(kv, rc);
  if (rc == TN_OK) return rc;
  lock_store(kv, __func__);
  remove_keys(kv, n_before);
  return unlock_store(kv, rc);
}

tn_code tn_kvstore_push(tn_kvstore *kv, const tn_keyed *values, size_t n) {
  TN__REQUIRE(kv);
  lock_store(kv, __func__);
  return unlock_store(kv, push_values(kv, values, n));
}

tn_code tn_kvstore_pull(tn_kvstore *kv, const tn_keyed *out, size_t n) {
  TN__REQUIRE(kv);
  lock_store(kv, __func__);
  return unlock_store(kv, pull_values(kv, out, n));
}

/* Checks a list before the other list of the call is used. */
static tn_code check_list(const tn_kvstore *kv, const tn_keyed *items,
                          size_t n) {
  tn__kv_batch batch;
  const tn_code rc = tn__kv_batch_init(kv, items, n, &batch);
  tn__kv_batch_deinit(&batch);
  return rc;
}

tn_code tn_kvstore_push_pull(tn_kvstore *kv, const tn_keyed *values,
                             size_t n_values, const tn_keyed *out,
                             size_t n_out) {
  TN__REQUIRE(kv);
  lock_store(kv, __func__);
  tn_code rc = check_list(kv, out, n_out);
  if (rc == TN_OK) rc = push_values(kv, values, n_values);
  if (rc == TN_OK) rc = pull_values(kv, out, n_out);
  return unlock_store(kv, rc);
}

tn_code tn_kvstore_broadcast(tn_kvstore *kv, const tn_keyed *values,
                             size_t n_values, const tn_keyed *out,
                             size_t n_out) {
  TN__REQUIRE(kv);
  if (kv->async) {
    TN__TRY(tn_kvstore_init(kv, values, n_values));
    return tn_kvstore_pull(kv, out, n_out);
  }
  lock_store(kv, __func__);
  const size_t n_before = kv->table.n;
  tn_code rc = add_keys(kv, values, n_values);
  if (rc == TN_OK) {
    rc = pull_values(kv, out, n_out);
    if (rc != TN_OK) remove_keys(kv, n_before);
  }
  return unlock_store(kv, rc);
}

/* ----------------------------------------------------------------- updaters */

tn_code tn_kvstore_set_updater(tn_kvstore *kv, tn_kvstore_update *update,
                               void *ctx, void (*drop)(void *ctx)) {
  TN__REQUIRE(kv);
  lock_store(kv, __func__);
  tn__kv_updater old = kv->updater;
  drop_states(kv);
  kv->updater = (tn__kv_updater){.update = update, .ctx = ctx, .drop = drop};
  const tn_code rc = unlock_store(kv, TN_OK);
  tn__kv_updater_deinit(&old);
  return agree_if_async(kv, rc);
}

tn_code tn_kvstore_set_optimizer(tn_kvstore *kv, const char *name,
                                 const char *params) {
  TN__REQUIRE(kv);
  TN__REQUIRE(name);
  lock_store(kv, __func__);
  tn__kv_updater updater, old = kv->updater;
  tn_code rc = tn__kv_updater_init(kv, name, params, &updater);
  if (rc != TN_OK) return agree_if_async(kv, unlock_store(kv, rc));
  if (old.op != updater.op) drop_states(kv);
  for (size_t i = 0; i < kv->table.n; ++i) tn__kv_drop_call(kv->table.v[i]);
  kv->updater = updater;
  rc = unlock_store(kv, TN_OK);
  tn__kv_updater_deinit(&old);
  return agree_if_async(kv, rc);
}

tn_code tn_kvstore_save_states(tn_kvstore *kv, const char *path) {
  TN__REQUIRE(kv);
  TN__REQUIRE(path);
  if (kv->async) TN__TRY(tn_kvstore_barrier(kv));
  lock_store(kv, __func__);
  return unlock_store(kv, tn__kv_states_save(kv, path));
}

tn_code tn_kvstore_load_states(tn_kvstore *kv, const char *path) {
  TN__REQUIRE(kv);
  TN__REQUIRE(path);
  if (kv->async) TN__TRY(tn_kvstore_barrier(kv));
  lock_store(kv, __func__);
  return unlock_store(kv, tn__kv_states_load(kv, path));
}
