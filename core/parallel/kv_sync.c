/* SPDX-License-Identifier: Apache-2.0
 * kv_sync.c: a store whose values are the same on all ranks of a group. All
 * ranks make the same collective calls in the same order: this order depends
 * on the keys, sizes and priorities of the call alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

#define DEFAULT_BYTES ((uint64_t)4 << 20)

/* ---------------------------------------------------------------- the group */

tn_code tn__kv_ranks_init(tn_kvstore *kv, const tn_kvstore_options *options) {
  const char *name = options->group ? options->group : "world";
  const tn_comm *comm = NULL;
  tn_comm_group group = {.struct_size = sizeof group};
  tn_comm_reason why = {""};
  tn__kv_ranks *ranks = &kv->ranks;
  TN__TRY(tn__comm_find(kv->rt, "tn_kvstore_create", &comm));
  const tn_code rc = comm->find(comm->ctx, name, &group, &why);
  if (rc != TN_OK)
    return tn_fail(rc, "tn_kvstore_create: %s; call tn_group_join first",
                   why.text);
  ranks->rank = group.rank;
  ranks->size = group.size;
  ranks->bucket_bytes =
      options->bucket_bytes ? options->bucket_bytes : DEFAULT_BYTES;
  ranks->owner_bytes =
      options->owner_bytes ? options->owner_bytes : DEFAULT_BYTES;
  const size_t bytes = strlen(name) + 1;
  ranks->group = malloc(bytes);
  ranks->owned = calloc((size_t)group.size, sizeof *ranks->owned);
  if (!ranks->group || !ranks->owned)
    return tn__kv_fail_memory("tn_kvstore_create");
  memcpy(ranks->group, name, bytes);
  return TN_OK;
}

void tn__kv_ranks_deinit(tn__kv_ranks *ranks) {
  free(ranks->group);
  free(ranks->owned);
}

/* ------------------------------------------------------------------- owners */

static void choose_owner(tn_kvstore *kv, tn__kv_entry *entry) {
  const tn_tensor *t = tn_array_tensor(entry->local);
  tn__kv_ranks *ranks = &kv->ranks;
  entry->bytes = (uint64_t)tn_tensor_bytes(t);
  if (entry->bytes < ranks->owner_bytes && !kv->kind->is_async) return;
  entry->owner = 0;
  for (int32_t r = 1; r < ranks->size; ++r)
    if (ranks->owned[r] < ranks->owned[entry->owner]) entry->owner = r;
  ranks->owned[entry->owner] += entry->bytes;
}

void tn__kv_ranks_forget(tn_kvstore *kv, const tn__kv_entry *entry) {
  if (entry->owner >= 0) kv->ranks.owned[entry->owner] -= entry->bytes;
}

/* Whether the owner of a key updates it alone. */
static bool has_owner(const tn_kvstore *kv, const tn__kv_entry *entry) {
  return entry->owner >= 0 && (kv->kind->is_async || tn__kv_has_updater(kv));
}

bool tn__kv_is_owner(const tn_kvstore *kv, const tn__kv_entry *entry) {
  return !has_owner(kv, entry) || entry->owner == kv->ranks.rank;
}

/* --------------------------------------------------------- collective calls */

/* A call of an operator of plugin `comm`, with existing outputs. */
typedef struct collective {
  const char *op;
  tn_value values[2]; /* next to the group */
  size_t n_values;
  size_t n;
  tn_array **in;
  tn_array **out;
} collective;

static tn_code call_collective(const tn_kvstore *kv, const collective *c) {
  tn_value values[3] = {tn_value_text("group", kv->ranks.group)};
  tn_operator *op = NULL;
  tn_params *params = NULL;
  for (size_t i = 0; i < c->n_values; ++i) values[1 + i] = c->values[i];
  TN__TRY(tn_operator_get(kv->rt, c->op, &op));
  TN__TRY(tn_params_create(op, values, 1 + c->n_values, &params));
  const tn_code rc = tn_call(kv->rt, op, &(const tn_inputs){c->n, c->in},
                             params, &(const tn_outputs){c->n, c->out, NULL});
  tn_params_release(params);
  return rc;
}

static tn_code call_with_root(const tn_kvstore *kv, const char *op,
                              int32_t root, tn_array *from, tn_array *to) {
  return call_collective(kv,
                         &(collective){.op = op,
                                       .values = {tn_value_int("root", root)},
                                       .n_values = 1,
                                       .n = 1,
                                       .in = &from,
                                       .out = &to});
}

tn_code tn__kv_ranks_broadcast(tn_kvstore *kv, int32_t root, tn_array *from,
                               tn_array *to) {
  return call_with_root(kv, "comm.broadcast", root, from, to);
}

tn_code tn__kv_ranks_share(tn_kvstore *kv, tn__kv_entry *entry) {
  choose_owner(kv, entry);
  const tn_code rc =
      tn__kv_settle(kv, &entry->key, entry->local,
                    tn__kv_ranks_broadcast(kv, 0, entry->local, entry->local));
  if (rc != TN_OK) tn__kv_ranks_forget(kv, entry);
  return rc;
}

tn_code tn__kv_ranks_agree(tn_kvstore *kv, tn_code code) {
  char why[1024];
  int32_t least = code;
  tn_array *own = NULL, *all = NULL;
  if (!kv->kind->has_ranks) return code;
  (void)snprintf(why, sizeof why, "%s", tn_error_text());
  const tn_spec spec = {TN_I32, 0, NULL};
  tn_code rc = tn_array_create(kv->rt, &spec, &own);
  if (rc == TN_OK) rc = tn_array_create(kv->rt, &spec, &all);
  if (rc == TN_OK) rc = tn_array_set(own, &least, sizeof least);
  if (rc == TN_OK)
    rc = call_collective(kv,
                         &(collective){.op = "comm.all_reduce",
                                       .values = {tn_value_text("op", "min")},
                                       .n_values = 1,
                                       .n = 1,
                                       .in = &own,
                                       .out = &all});
  if (rc == TN_OK) rc = tn_array_get(all, &least, sizeof least);
  tn_array_release(all);
  tn_array_release(own);
  if (code != TN_OK) return tn_fail(code, "%s", why);
  if (rc != TN_OK || least == TN_OK) return rc;
  return tn_fail(least, "%s: failed on another rank with %s", kv->function,
                 tn_code_name(least));
}

/* ------------------------------------------------------------------ buckets */

/* Keys that share one call. */
typedef struct bucket {
  size_t first; /* group of the batch */
  size_t n;
  uint64_t bytes;
} bucket;

/* The array that receives the sum over all ranks. */
static tn_code prepare_total(tn_kvstore *kv, tn__kv_entry *entry) {
  if (entry->total) return TN_OK;
  return tn__kv_settle(
      kv, &entry->key, NULL,
      tn__kv_create_like(kv->rt, entry->local, tn__kv_place_of(entry->local),
                         &entry->total));
}

/* Calls all_reduce for the groups of a bucket. Without an updater the result is
 * the value itself. `arrays` has room for twice as many arrays. */
static tn_code reduce_bucket(tn_kvstore *kv, tn__kv_batch *batch,
                             const bucket *b, tn_array **arrays) {
  tn__kv_group *groups = batch->groups + b->first;
  if (b->n == 0) return TN_OK;
  for (size_t g = 0; g < b->n; ++g) {
    tn__kv_entry *entry = groups[g].entry;
    if (tn__kv_has_updater(kv)) TN__TRY(prepare_total(kv, entry));
    arrays[g] = groups[g].received;
    arrays[b->n + g] = tn__kv_has_updater(kv) ? entry->total : entry->local;
    groups[g].received = arrays[b->n + g];
  }
  const tn_code rc = call_collective(
      kv, &(collective){.op = "comm.all_reduce",
                        .values = {tn_value_int("num_arrays", (int64_t)b->n)},
                        .n_values = 1,
                        .n = b->n,
                        .in = arrays,
                        .out = arrays + b->n});
  return tn__kv_settle(kv, &groups->entry->key, arrays[b->n], rc);
}

static bool fits_bucket(const tn_kvstore *kv, const tn__kv_batch *batch,
                        const bucket *b, const tn__kv_entry *entry) {
  const tn_array *first = batch->groups[b->first].entry->local;
  const tn_place a = tn__kv_place_of(first);
  const tn_place c = tn__kv_place_of(entry->local);
  return b->n == 0 ||
         (tn_array_tensor(first)->dtype ==
              tn_array_tensor(entry->local)->dtype &&
          a.device_type == c.device_type && a.device_id == c.device_id &&
          b->bytes + entry->bytes <= kv->ranks.bucket_bytes);
}

/* Sums a large key on its owner. */
static tn_code reduce_to_owner(tn_kvstore *kv, tn__kv_group *group) {
  tn__kv_entry *entry = group->entry;
  TN__TRY(prepare_total(kv, entry));
  const tn_code rc = call_with_root(kv, "comm.reduce", entry->owner,
                                    group->received, entry->total);
  group->received = entry->total;
  return tn__kv_settle(kv, &entry->key, entry->total, rc);
}

/* Sums the groups over all ranks, in their order. */
static tn_code reduce_groups(tn_kvstore *kv, tn__kv_batch *batch,
                             tn_array **arrays) {
  bucket b = {0};
  for (size_t g = 0; g < batch->n; ++g) {
    tn__kv_group *group = &batch->groups[g];
    const bool owned = has_owner(kv, group->entry);
    if (owned || !fits_bucket(kv, batch, &b, group->entry)) {
      TN__TRY(reduce_bucket(kv, batch, &b, arrays));
      b = (bucket){.first = g};
    }
    if (owned) {
      TN__TRY(reduce_to_owner(kv, group));
      b.first = g + 1;
    } else {
      ++b.n;
      b.bytes += group->entry->bytes;
    }
  }
  return reduce_bucket(kv, batch, &b, arrays);
}

/* Updates a value on this rank, if it is the owner or there is none. */
static tn_code update_group(tn_kvstore *kv, const tn__kv_group *group) {
  if (tn__kv_is_owner(kv, group->entry)) return tn__kv_update(kv, group);
  ++group->entry->n_updates;
  return TN_OK;
}

/* Sends updated values from their owners to all ranks. */
static tn_code send_values(tn_kvstore *kv, const tn__kv_batch *batch) {
  for (size_t g = 0; g < batch->n; ++g) {
    tn__kv_entry *entry = batch->groups[g].entry;
    if (!has_owner(kv, entry)) continue;
    TN__TRY(tn__kv_settle(
        kv, &entry->key, entry->local,
        tn__kv_ranks_broadcast(kv, entry->owner, entry->local, entry->local)));
  }
  return TN_OK;
}

tn_code tn__kv_ranks_push(tn_kvstore *kv, tn__kv_batch *batch) {
  tn_array **arrays = malloc(2 * (batch->n + 1) * sizeof *arrays);
  tn_code rc = arrays ? TN_OK : tn__kv_fail_memory(kv->function);
  for (size_t g = 0; g < batch->n && rc == TN_OK; ++g)
    rc = tn__kv_sum(kv, &batch->groups[g]);
  if (rc == TN_OK) rc = reduce_groups(kv, batch, arrays);
  for (size_t g = 0; g < batch->n && rc == TN_OK; ++g)
    rc = update_group(kv, &batch->groups[g]);
  if (rc == TN_OK) rc = send_values(kv, batch);
  free(arrays);
  return rc;
}
