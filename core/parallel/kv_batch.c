/* SPDX-License-Identifier: Apache-2.0
 * kv_batch.c: checks the list of keys and arrays of a call, and groups the
 * arrays by keys.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

/* ------------------------------------------------------------------- checks */

enum { SHAPE_TEXT = 320 };

static const char *show_shape(const tn_tensor *t, char to[SHAPE_TEXT]) {
  size_t at = 1;
  to[0] = '(';
  for (int32_t i = 0; i < t->ndim && at < SHAPE_TEXT - 24; ++i)
    at += (size_t)snprintf(to + at, SHAPE_TEXT - at, "%s%" PRId64,
                           i == 0 ? "" : ",", t->shape[i]);
  (void)snprintf(to + at, SHAPE_TEXT - at, ")");
  return to;
}

static bool has_same_shape(const tn_tensor *a, const tn_tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* Checks that an item has arrays. */
static tn_code check_item(const tn_kvstore *kv, const tn_keyed *item) {
  char name[TN__KV_KEY_TEXT];
  tn__kv_key_show(&item->key, name);
  if (item->n == 0)
    return tn_fail(TN_INVALID, "%s: key %s has no arrays; pass at least one",
                   kv->function, name);
  for (uint32_t i = 0; i < item->n; ++i)
    if (!item->arrays || !item->arrays[i])
      return tn_fail(TN_INVALID, "%s: array %u of key %s is NULL", kv->function,
                     i, name);
  return TN_OK;
}

/* Checks shape and type of array `i` of an item. */
static tn_code check_array(const tn_kvstore *kv, const tn__kv_entry *entry,
                           const tn_keyed *item, uint32_t i) {
  const tn_tensor *array = tn_array_tensor(item->arrays[i]);
  const tn_tensor *local = tn_array_tensor(entry->local);
  char name[TN__KV_KEY_TEXT], found[SHAPE_TEXT], right[SHAPE_TEXT];
  tn__kv_key_show(&item->key, name);
  if (!has_same_shape(array, local))
    return tn_fail(TN_SHAPE,
                   "%s: array %u of key %s has the shape %s, but "
                   "tn_kvstore_init gave the key the shape %s",
                   kv->function, i, name, show_shape(array, found),
                   show_shape(local, right));
  if (array->dtype != local->dtype)
    return tn_fail(TN_DTYPE,
                   "%s: array %u of key %s is %s, but tn_kvstore_init gave the "
                   "key the type %s; convert it with tn_array_cast",
                   kv->function, i, name, tn_dtype_name(array->dtype),
                   tn_dtype_name(local->dtype));
  return TN_OK;
}

static tn_code check_list(const tn_kvstore *kv, const tn_keyed *items,
                          size_t n) {
  if (!items && n > 0)
    return tn_fail(TN_INVALID, "%s: the list of keys is NULL", kv->function);
  for (size_t i = 0; i < n; ++i) TN__TRY(check_item(kv, &items[i]));
  return TN_OK;
}

tn_code tn__kv_check_new(const tn_kvstore *kv, const tn_keyed *items,
                         size_t n) {
  char name[TN__KV_KEY_TEXT];
  TN__TRY(check_list(kv, items, n));
  for (size_t i = 0; i < n; ++i) {
    tn__kv_key_show(&items[i].key, name);
    if (items[i].n != 1)
      return tn_fail(TN_INVALID,
                     "%s: key %s has %u arrays; pass one, its first value",
                     kv->function, name, items[i].n);
    if (tn__kv_find(&kv->table, &items[i].key))
      return tn_fail(TN_EXISTS,
                     "%s: the store has key %s already; init each key once, "
                     "then push",
                     kv->function, name);
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- grouping */

/* Numbers the keys of the list, and counts their arrays. */
static tn_code count_groups(const tn_kvstore *kv, const tn_keyed *items,
                            size_t n, tn__kv_batch *batch) {
  for (size_t i = 0; i < n; ++i) {
    tn__kv_entry *entry = NULL;
    TN__TRY(tn__kv_find_or_fail(kv, &items[i].key, &entry));
    for (uint32_t k = 0; k < items[i].n; ++k)
      TN__TRY(check_array(kv, entry, &items[i], k));
    if (entry->group == 0) {
      batch->groups[batch->n++] =
          (tn__kv_group){.entry = entry, .priority = items[i].priority};
      entry->group = batch->n;
    }
    tn__kv_group *group = &batch->groups[entry->group - 1];
    group->n += items[i].n;
    if (items[i].priority > group->priority)
      group->priority = items[i].priority;
  }
  return TN_OK;
}

/* Fills in the arrays of the groups, in the order of the list. */
static void fill_groups(const tn_kvstore *kv, const tn_keyed *items, size_t n,
                        tn__kv_batch *batch) {
  tn_array **arrays = batch->arrays;
  for (size_t g = 0; g < batch->n; ++g) {
    batch->groups[g].arrays = arrays;
    arrays += batch->groups[g].n;
    batch->groups[g].n = 0;
  }
  for (size_t i = 0; i < n; ++i) {
    const tn__kv_entry *entry = tn__kv_find(&kv->table, &items[i].key);
    tn__kv_group *group = &batch->groups[entry->group - 1];
    memcpy(group->arrays + group->n, items[i].arrays,
           items[i].n * sizeof *group->arrays);
    group->n += items[i].n;
  }
}

/* Inserts each group before those with lower priorities; equal ones keep their
 * order. */
static void sort_groups(tn__kv_batch *batch) {
  for (size_t i = 1; i < batch->n; ++i) {
    const tn__kv_group group = batch->groups[i];
    size_t at = i;
    for (; at > 0 && batch->groups[at - 1].priority < group.priority; --at)
      batch->groups[at] = batch->groups[at - 1];
    batch->groups[at] = group;
  }
}

tn_code tn__kv_batch_init(const tn_kvstore *kv, const tn_keyed *items, size_t n,
                          tn__kv_batch *out) {
  size_t n_arrays = 0;
  *out = (tn__kv_batch){0};
  TN__TRY(check_list(kv, items, n));
  if (n == 0) return TN_OK;
  for (size_t i = 0; i < n; ++i) n_arrays += items[i].n;
  out->groups = calloc(n, sizeof *out->groups);
  out->arrays = calloc(n_arrays, sizeof *out->arrays);
  tn_code rc = out->groups && out->arrays ? count_groups(kv, items, n, out)
                                          : tn__kv_fail_memory(kv->function);
  if (rc == TN_OK) fill_groups(kv, items, n, out);
  for (size_t g = 0; g < out->n; ++g) out->groups[g].entry->group = 0;
  if (rc == TN_OK)
    sort_groups(out);
  else
    tn__kv_batch_deinit(out);
  return rc;
}

void tn__kv_batch_deinit(tn__kv_batch *batch) {
  free(batch->groups);
  free(batch->arrays);
  *batch = (tn__kv_batch){0};
}
