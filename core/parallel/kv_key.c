/* SPDX-License-Identifier: Apache-2.0
 * kv_key.c: keys of a store, the table of its entries, and messages that name
 * keys.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { MOST_COMPARED = 128, MOST_LISTED = 8 };

/* ----------------------------------------------------------------- messages */

const char *tn__kv_key_show(const tn_key *key, char to[TN__KV_KEY_TEXT]) {
  if (!key->text)
    (void)snprintf(to, TN__KV_KEY_TEXT, "%" PRId64, key->number);
  else if (snprintf(to, TN__KV_KEY_TEXT, "\"%s\"", key->text) >=
           TN__KV_KEY_TEXT)
    memcpy(to + TN__KV_KEY_TEXT - 5, "...\"", 5);
  return to;
}

static bool carries_error(tn_array *array) {
  const tn_code code = tn_array_wait_for(array, 0);
  return code != TN_OK && code != TN_BUSY;
}

tn_code tn__kv_settle(tn_kvstore *kv, const tn_key *key, tn_array *array,
                      tn_code code) {
  char name[TN__KV_KEY_TEXT], why[sizeof kv->first_text];
  if (code == TN_OK) return TN_OK;
  (void)snprintf(why, sizeof why, "%s: key %s: %s", kv->function,
                 tn__kv_key_show(key, name), tn_error_text());
  if (!array || !carries_error(array)) return tn_fail(code, "%s", why);
  if (kv->first_error != TN_OK) return TN_OK;
  kv->first_error = code;
  memcpy(kv->first_text, why, sizeof why);
  return TN_OK;
}

tn_code tn__kv_fail_memory(const char *function) {
  return tn_fail(TN_OUT_OF_MEMORY, "%s: no memory is left", function);
}

/* --------------------------------------------------------------- similarity */

static size_t take_less(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Changes of one character that turn a text into another one. */
static size_t count_changes(const char *a, const char *b) {
  size_t row[MOST_COMPARED + 1];
  const size_t n = strlen(b);
  if (n > MOST_COMPARED) return SIZE_MAX;
  for (size_t j = 0; j <= n; ++j) row[j] = j;
  for (size_t i = 1; a[i - 1]; ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n; ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = take_less(changed, take_less(row[j], row[j - 1]) + 1);
    }
  }
  return row[n];
}

/* How much a key differs from an unknown one; SIZE_MAX: too much. */
static size_t compare_keys(const tn_key *unknown, const tn_key *key) {
  char text[24];
  if (!unknown->text && !key->text) return SIZE_MAX;
  if (!unknown->text || !key->text) {
    const tn_key *number = unknown->text ? key : unknown;
    (void)snprintf(text, sizeof text, "%" PRId64, number->number);
    return strcmp(text, unknown->text ? unknown->text : key->text) == 0
               ? 0
               : SIZE_MAX;
  }
  const size_t changes = count_changes(unknown->text, key->text);
  return changes <= 1 + strlen(unknown->text) / 4 ? changes : SIZE_MAX;
}

static const tn_key *find_similar(const tn__kv_table *table,
                                  const tn_key *unknown) {
  const tn_key *found = NULL;
  size_t fewest = SIZE_MAX;
  for (size_t i = 0; i < table->n && fewest > 0; ++i) {
    const size_t changes = compare_keys(unknown, &table->v[i]->key);
    if (changes < fewest) {
      fewest = changes;
      found = &table->v[i]->key;
    }
  }
  return found;
}

/* Writes the first keys of the store, with commas between. */
static void list_keys(const tn__kv_table *table, char *to, size_t bytes) {
  char name[TN__KV_KEY_TEXT];
  size_t at = 0;
  for (size_t i = 0; i < table->n && i < MOST_LISTED; ++i)
    at += (size_t)snprintf(to + at, bytes - at, "%s%s", i == 0 ? "" : ", ",
                           tn__kv_key_show(&table->v[i]->key, name));
  if (table->n > MOST_LISTED)
    (void)snprintf(to + at, bytes - at, " and %zu others",
                   table->n - MOST_LISTED);
}

static tn_code fail_unknown(const tn_kvstore *kv, const tn_key *key) {
  char name[TN__KV_KEY_TEXT], other[TN__KV_KEY_TEXT];
  char list[MOST_LISTED * (TN__KV_KEY_TEXT + 2) + 40];
  const tn_key *similar = find_similar(&kv->table, key);
  tn__kv_key_show(key, name);
  if (kv->table.n == 0)
    return tn_fail(TN_NOT_FOUND,
                   "%s: key %s is unknown; the store has no keys, so call "
                   "tn_kvstore_init first",
                   kv->function, name);
  if (similar && !similar->text != !key->text)
    return tn_fail(TN_NOT_FOUND,
                   "%s: key %s is unknown; the store has the %s %s",
                   kv->function, name, similar->text ? "text" : "number",
                   tn__kv_key_show(similar, other));
  if (similar)
    return tn_fail(TN_NOT_FOUND, "%s: key %s is unknown; did you mean %s?",
                   kv->function, name, tn__kv_key_show(similar, other));
  list_keys(&kv->table, list, sizeof list);
  return tn_fail(TN_NOT_FOUND, "%s: key %s is unknown; the store has %s",
                 kv->function, name, list);
}

/* -------------------------------------------------------------------- table */

/* FNV-1a; the last steps spread the bits. */
static uint64_t hash_key(const tn_key *key) {
  uint64_t hash = 0xcbf29ce484222325u;
  char bytes[sizeof key->number];
  memcpy(bytes, &key->number, sizeof bytes);
  const char *from = key->text ? key->text : bytes;
  const size_t n = key->text ? strlen(key->text) : sizeof bytes;
  for (size_t i = 0; i < n; ++i)
    hash = (hash ^ (unsigned char)from[i]) * 0x100000001b3u;
  return hash ^ hash >> 32;
}

static bool is_same(const tn_key *a, const tn_key *b) {
  if (!a->text || !b->text)
    return !a->text && !b->text && a->number == b->number;
  return strcmp(a->text, b->text) == 0;
}

/* The slot of a key: with its entry, or free. */
static size_t find_slot(const tn__kv_table *table, const tn_key *key,
                        uint64_t hash) {
  const size_t mask = table->capacity * 2 - 1;
  size_t at = (size_t)hash & mask;
  while (table->slots[at] != 0) {
    const tn__kv_entry *entry = table->v[table->slots[at] - 1];
    if (entry->hash == hash && is_same(&entry->key, key)) break;
    at = (at + 1) & mask;
  }
  return at;
}

tn__kv_entry *tn__kv_find(const tn__kv_table *table, const tn_key *key) {
  if (table->capacity == 0) return NULL;
  const uint32_t number = table->slots[find_slot(table, key, hash_key(key))];
  return number == 0 ? NULL : table->v[number - 1];
}

tn_code tn__kv_find_or_fail(const tn_kvstore *kv, const tn_key *key,
                            tn__kv_entry **out) {
  *out = tn__kv_find(&kv->table, key);
  return *out ? TN_OK : fail_unknown(kv, key);
}

static void fill_slots(tn__kv_table *table) {
  for (size_t i = 0; i < table->n; ++i) {
    const tn__kv_entry *entry = table->v[i];
    table->slots[find_slot(table, &entry->key, entry->hash)] = (uint32_t)i + 1;
  }
}

tn_code tn__kv_table_reserve(tn__kv_table *table, size_t n) {
  size_t capacity = table->capacity == 0 ? 16 : table->capacity;
  if (n > UINT32_MAX / 4 - table->n) return TN_OUT_OF_MEMORY;
  while (capacity < table->n + n) capacity *= 2;
  if (capacity == table->capacity) return TN_OK;
  uint32_t *slots = calloc(capacity * 2, sizeof *slots);
  tn__kv_entry **v = slots ? realloc(table->v, capacity * sizeof *v) : NULL;
  if (!v) {
    free(slots);
    return TN_OUT_OF_MEMORY;
  }
  free(table->slots);
  table->v = v;
  table->slots = slots;
  table->capacity = capacity;
  fill_slots(table);
  return TN_OK;
}

void tn__kv_table_add(tn__kv_table *table, tn__kv_entry *entry) {
  const size_t at = find_slot(table, &entry->key, entry->hash);
  entry->number = (int64_t)table->n;
  table->v[table->n++] = entry;
  table->slots[at] = (uint32_t)table->n;
}

void tn__kv_table_cut(tn__kv_table *table, size_t n) {
  for (size_t i = n; i < table->n; ++i) tn__kv_entry_destroy(table->v[i]);
  table->n = n;
  if (table->capacity == 0) return;
  memset(table->slots, 0, table->capacity * 2 * sizeof *table->slots);
  fill_slots(table);
}

void tn__kv_table_deinit(tn__kv_table *table) {
  tn__kv_table_cut(table, 0);
  free(table->v);
  free(table->slots);
}

/* ------------------------------------------------------------------ entries */

tn_code tn__kv_entry_create(const tn_key *key, tn__kv_entry **out) {
  tn__kv_entry *entry = calloc(1, sizeof *entry);
  char *text = NULL;
  if (entry && key->text) {
    const size_t bytes = strlen(key->text) + 1;
    text = malloc(bytes);
    if (text) memcpy(text, key->text, bytes);
  }
  if (!entry || (key->text && !text)) {
    free(entry);
    return TN_OUT_OF_MEMORY;
  }
  entry->text = text;
  entry->key = (tn_key){text, key->text ? 0 : key->number};
  entry->hash = hash_key(&entry->key);
  entry->owner = -1;
  *out = entry;
  return TN_OK;
}

void tn__kv_entry_drop_states(tn__kv_entry *entry, uint32_t n_states) {
  tn__kv_drop_call(entry);
  tn__kv_states_release(entry->states, n_states);
  entry->states = NULL;
  entry->n_updates = 0;
}

void tn__kv_entry_destroy(tn__kv_entry *entry) {
  for (size_t i = 0; i < entry->n_copies; ++i)
    tn_array_release(entry->copies[i]);
  free(entry->copies);
  tn__kv_drop_call(entry);
  tn_array_release(entry->sum);
  tn_array_release(entry->total);
  tn_array_release(entry->local);
  free(entry->text);
  free(entry);
}
