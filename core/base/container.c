/* SPDX-License-Identifier: Apache-2.0
 * container.c: the vector of pointers and the map from strings to pointers.
 */
#include <assert.h>
#include <string.h>

#include "base.h"

/* ------------------------------------------------------------------ vector */

tn_code tn__vec_reserve(const tn__env *env, tn__vec *vec, size_t more) {
  size_t bytes = 0;
  if (vec->capacity - vec->n >= more) return TN_OK;
  size_t capacity = vec->capacity < 4 ? 8 : vec->capacity * 2;
  if (capacity < vec->n + more) capacity = vec->n + more;
  if (!tn__mul(capacity, sizeof(void *), &bytes))
    return tn__fail_memory(SIZE_MAX, "a list");
  void **v = tn__alloc(env, bytes);
  if (v == NULL) return tn__fail_memory(bytes, "a list");
  if (vec->n > 0) memcpy(v, vec->v, vec->n * sizeof(void *));
  tn__free(env, vec->v);
  vec->v = v;
  vec->capacity = capacity;
  return TN_OK;
}

tn_code tn__vec_push(const tn__env *env, tn__vec *vec, void *item) {
  TN__TRY(tn__vec_reserve(env, vec, 1));
  vec->v[vec->n++] = item;
  return TN_OK;
}

void tn__vec_insert_reserved(tn__vec *vec, size_t at, void *item) {
  assert(vec->n < vec->capacity && at <= vec->n);
  memmove(vec->v + at + 1, vec->v + at, (vec->n - at) * sizeof(void *));
  vec->v[at] = item;
  ++vec->n;
}

void tn__vec_remove(tn__vec *vec, size_t at) {
  assert(at < vec->n);
  memmove(vec->v + at, vec->v + at + 1, (vec->n - at - 1) * sizeof(void *));
  --vec->n;
}

void tn__vec_deinit(const tn__env *env, tn__vec *vec) {
  tn__free(env, vec->v);
  *vec = (tn__vec){0};
}

/* --------------------------------------------------------------------- map */

/* Open addressing with linear probing; at most three quarters full. */
struct tn__map_slot {
  uint64_t hash;
  const char *key; /* NULL: empty */
  void *value;
};

static struct tn__map_slot *find_slot(const tn__map *map, const char *key,
                                      uint64_t hash) {
  const size_t mask = map->capacity - 1;
  for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
    struct tn__map_slot *slot = &map->slots[i];
    if (slot->key == NULL) return slot;
    if (slot->hash == hash && strcmp(slot->key, key) == 0) return slot;
  }
}

static uint64_t hash_key(const char *key) {
  return tn__keyed_hash(key, strlen(key));
}

void *tn__map_get(const tn__map *map, const char *key) {
  if (map->capacity == 0) return NULL;
  return find_slot(map, key, hash_key(key))->value;
}

static size_t capacity_for(size_t n) {
  size_t capacity = 16;
  while (capacity / 4 * 3 < n) capacity *= 2;
  return capacity;
}

tn_code tn__map_reserve(const tn__env *env, tn__map *map, size_t more) {
  const size_t want = capacity_for(map->n + more);
  if (want <= map->capacity) return TN_OK;
  tn__map grown = {.n = map->n, .capacity = want};
  size_t bytes = 0;
  if (!tn__mul(want, sizeof *grown.slots, &bytes))
    return tn__fail_memory(SIZE_MAX, "a table of names");
  grown.slots = tn__zalloc(env, bytes);
  if (grown.slots == NULL) return tn__fail_memory(bytes, "a table of names");
  for (size_t i = 0; i < map->capacity; ++i) {
    const struct tn__map_slot *slot = &map->slots[i];
    if (slot->key != NULL) *find_slot(&grown, slot->key, slot->hash) = *slot;
  }
  tn__free(env, map->slots);
  *map = grown;
  return TN_OK;
}

tn_code tn__map_set(const tn__env *env, tn__map *map, const char *key,
                    void *value) {
  TN__TRY(tn__map_reserve(env, map, 1));
  const uint64_t hash = hash_key(key);
  struct tn__map_slot *slot = find_slot(map, key, hash);
  if (slot->key == NULL) ++map->n;
  *slot = (struct tn__map_slot){hash, key, value};
  return TN_OK;
}

/* Closes the gap, so that no probe stops early. */
static void close_gap(tn__map *map, size_t gap) {
  const size_t mask = map->capacity - 1;
  for (size_t i = (gap + 1) & mask; map->slots[i].key != NULL;
       i = (i + 1) & mask) {
    const size_t home = (size_t)map->slots[i].hash & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    map->slots[gap] = map->slots[i];
    map->slots[i] = (struct tn__map_slot){0};
    gap = i;
  }
}

void tn__map_remove(tn__map *map, const char *key) {
  if (map->capacity == 0) return;
  struct tn__map_slot *slot = find_slot(map, key, hash_key(key));
  if (slot->key == NULL) return;
  *slot = (struct tn__map_slot){0};
  --map->n;
  close_gap(map, (size_t)(slot - map->slots));
}

void tn__map_deinit(const tn__env *env, tn__map *map) {
  tn__free(env, map->slots);
  *map = (tn__map){0};
}
