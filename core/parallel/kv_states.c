/* SPDX-License-Identifier: Apache-2.0
 * kv_states.c: files of the states of a store's operator. Arrays of a file:
 *
 *   operator       its name, "optim.adam_update", as bytes
 *   KEY/STATE      a state, as the operator names it
 *   KEY/           the number of updates, an i64
 *
 * where KEY is "n3" for a number and "tweight" for a text. Bytes of a text
 * other than letters, digits, "_" and "-" are written as "%" and two digits.
 *
 * In a store with ranks, the states of an owner are sent to all ranks first,
 * and rank 0 writes the file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"
#include "tenon/exchange.h"

/* -------------------------------------------------------------------- names */

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* The name of a state in a file; NULL without memory. The caller frees it. */
static char *make_name(const tn_key *key, const char *state) {
  const size_t bytes =
      32 + strlen(state) + (key->text ? 3 * strlen(key->text) : 0);
  char *name = malloc(bytes);
  if (!name) return NULL;
  size_t at = 0;
  if (!key->text) at = (size_t)sprintf(name, "n%" PRId64, key->number);
  if (key->text) name[at++] = 't';
  for (const char *c = key->text; c && *c; ++c) {
    if (is_plain(*c))
      name[at++] = *c;
    else
      at += (size_t)sprintf(name + at, "%%%02X", (unsigned)(unsigned char)*c);
  }
  (void)sprintf(name + at, "/%s", state);
  return name;
}

/* ------------------------------------------------------------------- saving */

/* The arrays to write; all are released at the end. */
typedef struct content {
  tn_bundle_item *items;
  char **names; /* of the items */
  size_t n;
} content;

static tn_code add_item(const tn_kvstore *kv, content *to, char *name,
                        tn_array *array) {
  if (!name) return tn__kv_fail_memory(kv->function);
  to->names[to->n] = name;
  to->items[to->n++] = (tn_bundle_item){name, tn_array_retain(array)};
  return TN_OK;
}

/* A new array on the CPU with these elements. */
static tn_code make_array(tn_runtime *rt, const tn_spec *spec, const void *data,
                          size_t bytes, tn_array **out) {
  TN__TRY(tn_array_create(rt, spec, out));
  const tn_code rc = tn_array_set(*out, data, bytes);
  if (rc == TN_OK) return rc;
  tn_array_release(*out);
  *out = NULL;
  return rc;
}

/* Sends the states of an owner to all ranks, into `to`. */
static tn_code share_states(tn_kvstore *kv, const tn__kv_entry *entry,
                            tn_array **to) {
  tn_array **from = tn__kv_is_owner(kv, entry) ? entry->states : to;
  for (uint32_t k = 0; k < kv->updater.n_states; ++k)
    TN__TRY(tn__kv_ranks_broadcast(kv, entry->owner, from[k], to[k]));
  return TN_OK;
}

/* Adds the count of updates and the states of a key. */
static tn_code add_states(const tn_kvstore *kv, content *to,
                          const tn__kv_entry *entry, tn_array **states) {
  const tn_op *desc = tn_operator_desc(kv->updater.op);
  tn_array *count = NULL;
  TN__TRY(make_array(kv->rt, &(tn_spec){TN_I64, 0, NULL}, &entry->n_updates,
                     sizeof entry->n_updates, &count));
  tn_code rc = add_item(kv, to, make_name(&entry->key, ""), count);
  tn_array_release(count);
  for (uint32_t k = 0; k < kv->updater.n_states && rc == TN_OK; ++k)
    rc =
        add_item(kv, to, make_name(&entry->key, desc->aux[k]->name), states[k]);
  return rc;
}

static tn_code add_entry(tn_kvstore *kv, content *to,
                         const tn__kv_entry *entry) {
  tn_array **shared = NULL;
  if (entry->owner < 0) return add_states(kv, to, entry, entry->states);
  TN__TRY(tn__kv_states_create(kv, entry, &shared));
  tn_code rc = share_states(kv, entry, shared);
  if (rc == TN_OK) rc = add_states(kv, to, entry, shared);
  tn__kv_states_release(shared, kv->updater.n_states);
  return rc;
}

static tn_code add_operator(const tn_kvstore *kv, content *to) {
  const char *name = tn_operator_name(kv->updater.op);
  const int64_t length = (int64_t)strlen(name);
  char *item = malloc(sizeof "operator");
  tn_array *array = NULL;
  if (item) memcpy(item, "operator", sizeof "operator");
  tn_code rc = make_array(kv->rt, &(tn_spec){TN_U8, 1, &length}, name,
                          (size_t)length, &array);
  if (rc == TN_OK) rc = add_item(kv, to, item, array);
  if (to->n == 0) free(item);
  tn_array_release(array);
  return rc;
}

static tn_code check_operator(const tn_kvstore *kv) {
  if (kv->updater.op) return TN_OK;
  return tn_fail(TN_INVALID,
                 "%s: the store has no operator as updater, and so no states; "
                 "call tn_kvstore_set_optimizer first",
                 kv->function);
}

static tn_code collect_states(tn_kvstore *kv, content *to) {
  const size_t most = 1 + kv->table.n * (1u + kv->updater.n_states);
  to->items = calloc(most, sizeof *to->items);
  to->names = calloc(most, sizeof *to->names);
  if (!to->items || !to->names) return tn__kv_fail_memory(kv->function);
  TN__TRY(add_operator(kv, to));
  for (size_t i = 0; i < kv->table.n; ++i)
    if (kv->table.v[i]->n_updates > 0)
      TN__TRY(add_entry(kv, to, kv->table.v[i]));
  return TN_OK;
}

static void release_content(content *to) {
  for (size_t i = 0; i < to->n; ++i) {
    tn_array_release(to->items[i].array);
    free(to->names[i]);
  }
  free(to->items);
  free(to->names);
}

tn_code tn__kv_states_save(tn_kvstore *kv, const char *path) {
  content to = {0};
  TN__TRY(check_operator(kv));
  tn_code rc = collect_states(kv, &to);
  if (rc == TN_OK && kv->ranks.rank == 0)
    rc = tn_bundle_save(
        kv->rt, path,
        &(tn_bundle_content){.struct_size = sizeof(tn_bundle_content),
                             .items = to.items,
                             .n_items = to.n});
  release_content(&to);
  return tn__kv_ranks_agree(kv, rc);
}

/* ------------------------------------------------------------------ loading */

/* The states of one key, read from a file. */
typedef struct loaded {
  tn_array **states; /* NULL: the key is not in the file */
  int64_t n_updates;
} loaded;

typedef struct loading {
  const tn_kvstore *kv;
  const char *path;
  tn_bundle *file;
  loaded *entries; /* one for each entry of the store */
  size_t n_read;   /* arrays of the file */
} loading;

/* Checks that the file is of the store's operator. */
static tn_code compare_operator(loading *l) {
  const char *own = tn_operator_name(l->kv->updater.op);
  tn_array *array = NULL;
  char name[256] = "";
  TN__TRY(tn_bundle_get(l->file, "operator", 0, &array));
  const tn_tensor *t = tn_array_tensor(array);
  tn_code rc = TN_OK;
  if (t->dtype == TN_U8 && t->ndim == 1 && t->shape[0] < (int64_t)sizeof name)
    rc = tn_array_get(array, name, (size_t)t->shape[0]);
  tn_array_release(array);
  ++l->n_read;
  if (rc != TN_OK || strcmp(name, own) == 0) return rc;
  return tn_fail(TN_INVALID,
                 "%s: %s has the states of operator %s, but the store has %s",
                 l->kv->function, l->path, name, own);
}

static bool is_alike(const tn_tensor *a, const tn_tensor *b) {
  bool alike = a->dtype == b->dtype && a->ndim == b->ndim;
  for (int32_t i = 0; i < a->ndim && alike; ++i)
    alike = a->shape[i] == b->shape[i];
  return alike;
}

/* Reads an array of the file into one of the same shape and type. */
static tn_code read_into(loading *l, const char *name, tn_array *to) {
  tn_array *from = NULL;
  TN__TRY(tn_bundle_get(l->file, name, 0, &from));
  tn_code rc = is_alike(tn_array_tensor(from), tn_array_tensor(to))
                   ? tn_array_copy(to, from)
                   : tn_fail(TN_SHAPE,
                             "%s: %s: array %s has another shape or type than "
                             "this state has for its key",
                             l->kv->function, l->path, name);
  tn_array_release(from);
  ++l->n_read;
  return rc;
}

static tn_code read_count(loading *l, const char *name, int64_t *out) {
  tn_array *count = NULL;
  TN__TRY(tn_array_create(l->kv->rt, &(tn_spec){TN_I64, 0, NULL}, &count));
  tn_code rc = read_into(l, name, count);
  if (rc == TN_OK) rc = tn_array_get(count, out, sizeof *out);
  tn_array_release(count);
  if (rc != TN_OK || *out >= 0) return rc;
  return tn_fail(TN_INVALID, "%s: %s: array %s is negative", l->kv->function,
                 l->path, name);
}

static bool has_array(const tn_bundle *file, const char *name) {
  tn_bundle_entry entry;
  size_t low = 0, high = tn_bundle_size(file);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (tn_bundle_at(file, middle, &entry) != TN_OK) return false;
    const int order = strcmp(entry.name, name);
    if (order == 0) return true;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return false;
}

static tn_code read_named(loading *l, char *name, tn_array *to,
                          int64_t *count) {
  if (!name) return tn__kv_fail_memory(l->kv->function);
  const tn_code rc = to ? read_into(l, name, to) : read_count(l, name, count);
  free(name);
  return rc;
}

/* Reads the states of entry `i`, if the file has them. */
static tn_code read_entry(loading *l, size_t i) {
  const tn_kvstore *kv = l->kv;
  const tn__kv_entry *entry = kv->table.v[i];
  const tn_op *desc = tn_operator_desc(kv->updater.op);
  char *name = make_name(&entry->key, "");
  if (!name) return tn__kv_fail_memory(kv->function);
  if (!has_array(l->file, name)) {
    free(name);
    return TN_OK;
  }
  tn_code rc = read_named(l, name, NULL, &l->entries[i].n_updates);
  if (rc == TN_OK) rc = tn__kv_states_create(kv, entry, &l->entries[i].states);
  for (uint32_t k = 0; k < kv->updater.n_states && rc == TN_OK; ++k)
    rc = read_named(l, make_name(&entry->key, desc->aux[k]->name),
                    l->entries[i].states[k], NULL);
  return rc;
}

static tn_code read_file(loading *l) {
  TN__TRY(compare_operator(l));
  for (size_t i = 0; i < l->kv->table.n; ++i) TN__TRY(read_entry(l, i));
  if (l->n_read == tn_bundle_size(l->file)) return TN_OK;
  return tn_fail(TN_NOT_FOUND,
                 "%s: %s has the states of keys that the store does not have; "
                 "init all keys first",
                 l->kv->function, l->path);
}

/* Drops the states of a key that another rank owns. */
static void drop_states(tn__kv_entry *entry, uint32_t n_states) {
  tn__kv_states_release(entry->states, n_states);
  entry->states = NULL;
}

/* Gives each entry the states that were read, or the old ones back. */
static void end_loading(loading *l, bool use) {
  const uint32_t n = l->kv->updater.n_states;
  for (size_t i = 0; i < l->kv->table.n; ++i) {
    tn__kv_entry *entry = l->kv->table.v[i];
    const loaded old = {entry->states, entry->n_updates};
    if (use) {
      tn__kv_drop_call(entry);
      entry->states = l->entries[i].states;
      entry->n_updates = l->entries[i].states ? l->entries[i].n_updates : 0;
      l->entries[i] = old;
      if (!tn__kv_is_owner(l->kv, entry)) drop_states(entry, n);
    }
    tn__kv_states_release(l->entries[i].states, n);
  }
  free(l->entries);
  tn_bundle_close(l->file);
}

tn_code tn__kv_states_load(tn_kvstore *kv, const char *path) {
  loading l = {.kv = kv, .path = path};
  TN__TRY(check_operator(kv));
  l.entries = calloc(kv->table.n + 1, sizeof *l.entries);
  tn_code rc = l.entries ? tn_bundle_open(kv->rt, path, &l.file)
                         : tn__kv_fail_memory(kv->function);
  if (rc == TN_OK) rc = read_file(&l);
  rc = tn__kv_ranks_agree(kv, rc);
  if (l.entries) end_loading(&l, rc == TN_OK);
  return rc;
}
