/* SPDX-License-Identifier: Apache-2.0
 * kv_sum.c: sums the pushed arrays of a key on the device of its value. Arrays
 * of other devices are copied there first. The copies and the sum are kept for
 * the next push.
 */
#include <stdlib.h>
#include <string.h>

#include "store.h"

tn_place tn__kv_place_of(const tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  return (tn_place){t->device_type, t->device_id};
}

static bool is_same_place(tn_place a, tn_place b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

tn_code tn__kv_create_like(tn_runtime *rt, const tn_array *like, tn_place place,
                           tn_array **out) {
  const tn_tensor *t = tn_array_tensor(like);
  return tn_array_create_on(rt, &(tn_spec){t->dtype, t->ndim, t->shape}, place,
                            out);
}

static tn_code settle_step(tn_kvstore *kv, const tn__kv_group *group,
                           tn_array *array, tn_code code) {
  return tn__kv_settle(kv, &group->entry->key, array, code);
}

/* ------------------------------------------------------------------- copies */

/* Makes room for the copies of `n` arrays. */
static tn_code reserve_copies(const tn_kvstore *kv, tn__kv_entry *entry,
                              size_t n) {
  if (n <= entry->n_copies) return TN_OK;
  tn_array **copies = realloc(entry->copies, n * sizeof *copies);
  if (!copies) return tn__kv_fail_memory(kv->function);
  memset(copies + entry->n_copies, 0, (n - entry->n_copies) * sizeof *copies);
  entry->copies = copies;
  entry->n_copies = n;
  return TN_OK;
}

/* Creates the copy of an array on another device: in pinned memory if the copy
 * is on cpu(0). */
static tn_code create_copy(const tn_kvstore *kv, tn__kv_entry *entry,
                           const tn_array *from, tn_array **out) {
  const tn_tensor *t = tn_array_tensor(entry->local);
  const tn_spec spec = {t->dtype, t->ndim, t->shape};
  const tn_place to = tn__kv_place_of(entry->local);
  return is_same_place(to, (tn_place){TN_DEVICE_CPU, 0})
             ? tn_array_create_pinned(kv->rt, &spec, tn__kv_place_of(from), out)
             : tn_array_create_on(kv->rt, &spec, to, out);
}

/* Replaces array `i` of a group by a copy on the device of the value. */
static tn_code copy_array(tn_kvstore *kv, tn__kv_group *group, size_t i) {
  tn__kv_entry *entry = group->entry;
  TN__TRY(reserve_copies(kv, entry, group->n));
  tn_array **copy = &entry->copies[i];
  if (!*copy)
    TN__TRY(settle_step(kv, group, NULL,
                        create_copy(kv, entry, group->arrays[i], copy)));
  TN__TRY(
      settle_step(kv, group, *copy, tn_array_copy(*copy, group->arrays[i])));
  group->arrays[i] = *copy;
  return TN_OK;
}

/* Replaces the arrays of other devices in the group by copies. */
static tn_code gather_arrays(tn_kvstore *kv, tn__kv_group *group) {
  const tn_place place = tn__kv_place_of(group->entry->local);
  for (size_t i = 0; i < group->n; ++i)
    if (!is_same_place(tn__kv_place_of(group->arrays[i]), place))
      TN__TRY(copy_array(kv, group, i));
  return TN_OK;
}

/* --------------------------------------------------------------------- sums */

static tn_code find_add(const tn_kvstore *kv, tn_operator **out) {
  if (tn_operator_get(kv->rt, "tensor.add_n", out) == TN_OK) return TN_OK;
  return tn_fail(TN_NOT_FOUND,
                 "the sum of several arrays needs operator `tensor.add_n`; "
                 "load plugin `tensor`");
}

static tn_code sum_arrays(tn_kvstore *kv, tn__kv_group *group) {
  tn__kv_entry *entry = group->entry;
  const bool is_value = !tn__kv_has_updater(kv) && !kv->kind->has_ranks;
  tn_array **sum = is_value ? &entry->local : &entry->sum;
  tn_operator *add = NULL;
  TN__TRY(settle_step(kv, group, NULL, find_add(kv, &add)));
  TN__TRY(gather_arrays(kv, group));
  if (!*sum)
    TN__TRY(
        settle_step(kv, group, NULL,
                    tn__kv_create_like(kv->rt, entry->local,
                                       tn__kv_place_of(entry->local), sum)));
  group->received = *sum;
  return settle_step(
      kv, group, *sum,
      tn_call(kv->rt, add, &(const tn_inputs){group->n, group->arrays}, NULL,
              &(const tn_outputs){1, sum, NULL}));
}

/* A single array is used where it is, if it is only copied. */
static tn_code pass_array(tn_kvstore *kv, tn__kv_group *group) {
  if (tn__kv_has_updater(kv) || kv->kind->has_ranks)
    TN__TRY(gather_arrays(kv, group));
  group->received = group->arrays[0];
  return TN_OK;
}

tn_code tn__kv_sum(tn_kvstore *kv, tn__kv_group *group) {
  return group->n == 1 ? pass_array(kv, group) : sum_arrays(kv, group);
}
