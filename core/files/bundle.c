/* SPDX-License-Identifier: Apache-2.0
 * bundle.c: an open file of arrays. It chooses the reader of the format, sorts
 * the table of contents, checks that names are unique, and finds names.
 */
#include <stdlib.h>
#include <string.h>

#include "formats.h"

/* ---------------------------------------------------------------- contents */

/* Returns a list of twice the length and frees the old one. Without memory it
 * returns NULL and keeps the old one. No list is longer than the file. */
static void *grow_list(const tn__env *env, void *old, size_t size,
                       size_t *capacity) {
  size_t room = *capacity ? 2 * *capacity : 16;
  void *list = tn__zalloc(env, room * size);
  if (!list) {
    tn__fail_memory(room * size, "the table of contents of a file");
    return NULL;
  }
  if (old) memcpy(list, old, *capacity * size);
  tn__free(env, old);
  *capacity = room;
  return list;
}

tn_code tn__bundle_add(tn_bundle *bundle, tn__bundle_entry **out) {
  if (bundle->n == bundle->capacity) {
    tn__bundle_entry *list = grow_list(bundle->env, bundle->entries,
                                       sizeof *list, &bundle->capacity);
    if (!list) return TN_OUT_OF_MEMORY;
    bundle->entries = list;
  }
  *out = &bundle->entries[bundle->n++];
  return TN_OK;
}

tn_code tn__bundle_add_pair(tn_bundle *bundle, tn_bundle_pair **out) {
  if (bundle->n_metadata == bundle->metadata_capacity) {
    tn_bundle_pair *list = grow_list(bundle->env, bundle->metadata,
                                     sizeof *list, &bundle->metadata_capacity);
    if (!list) return TN_OUT_OF_MEMORY;
    bundle->metadata = list;
  }
  *out = &bundle->metadata[bundle->n_metadata++];
  return TN_OK;
}

static int compare_names(const void *a, const void *b) {
  const tn__bundle_entry *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static int compare_keys(const void *a, const void *b) {
  const tn_bundle_pair *x = a, *y = b;
  return strcmp(x->key, y->key);
}

/* Sorts the names and keys, and checks that they are unique. */
static tn_code sort_contents(tn_bundle *bundle) {
  const tn__spot spot = {&bundle->file, NULL};
  tn__bundle_entry *e = bundle->entries;
  tn_bundle_pair *m = bundle->metadata;
  if (bundle->n > 1) qsort(e, bundle->n, sizeof *e, compare_names);
  for (size_t i = 1; i < bundle->n; ++i)
    if (strcmp(e[i - 1].name, e[i].name) == 0)
      return tn__spot_fail(&spot, TN_INVALID, TN__NOWHERE,
                           "two arrays are named `%.200s`", e[i].name);
  if (bundle->n_metadata > 1)
    qsort(m, bundle->n_metadata, sizeof *m, compare_keys);
  for (size_t i = 1; i < bundle->n_metadata; ++i)
    if (strcmp(m[i - 1].key, m[i].key) == 0)
      return tn__spot_fail(&spot, TN_INVALID, TN__NOWHERE,
                           "the metadata has the key `%.200s` twice", m[i].key);
  return TN_OK;
}

/* ------------------------------------------------------------------ format */

typedef tn_code open_fn(tn_bundle *bundle);

static bool has_ending(const char *path, const char *end) {
  size_t n = strlen(path), m = strlen(end);
  return n > m && strcmp(path + n - m, end) == 0;
}

static open_fn *find_format_by_name(const char *path) {
  if (has_ending(path, ".npy")) return tn__npy_open;
  if (has_ending(path, ".npz")) return tn__npz_open;
  if (has_ending(path, ".safetensors")) return tn__safetensors_open;
  return NULL;
}

static tn_code find_format_by_content(const tn__file *file, open_fn **out) {
  unsigned char head[9] = {0};
  const tn__spot spot = {file, NULL};
  size_t n = file->size < sizeof head ? (size_t)file->size : sizeof head;
  TN__TRY(tn__file_read(&spot, 0, head, n));
  if (memcmp(head, "\x93NUMPY", 6) == 0)
    *out = tn__npy_open;
  else if (memcmp(head, "PK", 2) == 0)
    *out = tn__npz_open;
  else if (head[8] == '{')
    *out = tn__safetensors_open;
  else
    return tn__spot_fail(&spot, TN_INVALID, 0,
                         "neither a .npy, nor a .npz, nor a .safetensors file");
  return TN_OK;
}

static tn_code read_contents(tn_bundle *bundle) {
  open_fn *open = find_format_by_name(bundle->file.path);
  if (!open) TN__TRY(find_format_by_content(&bundle->file, &open));
  TN__TRY(open(bundle));
  return sort_contents(bundle);
}

/* -------------------------------------------------------------------- life */

tn_code tn__file_open_bundle(const tn__env *env, const char *path,
                             tn_bundle **out) {
  *out = NULL;
  tn_bundle *bundle = tn__zalloc(env, sizeof *bundle);
  if (!bundle) return tn__fail_memory(sizeof *bundle, "an opened file");
  bundle->env = env;
  bundle->file.fd = -1;
  tn__arena_init(&bundle->arena, env);
  tn__env_retain(env);
  char *name = tn__arena_text(&bundle->arena, path, strlen(path));
  tn_code rc = name ? tn__file_open(env, name, &bundle->file)
                    : tn__fail_memory(strlen(path), "the name of a file");
  if (!rc) rc = read_contents(bundle);
  if (rc) {
    tn__file_close_bundle(bundle);
    return rc;
  }
  *out = bundle;
  return TN_OK;
}

void tn__file_close_bundle(tn_bundle *bundle) {
  if (!bundle) return;
  const tn__env *env = bundle->env;
  tn__file_close(&bundle->file);
  tn__free(env, bundle->entries);
  tn__free(env, bundle->metadata);
  tn__arena_deinit(&bundle->arena);
  tn__free(env, bundle);
  tn__env_release(env); /* last: it may destroy the runtime */
}

/* -------------------------------------------------------------------- find */

static tn_code find_only(const tn_bundle *bundle,
                         const tn__bundle_entry **out) {
  const tn__spot spot = {&bundle->file, NULL};
  if (bundle->n != 1)
    return tn__spot_fail(&spot, TN_NOT_FOUND, TN__NOWHERE,
                         "there are %zu arrays in the file; say which one is "
                         "meant",
                         bundle->n);
  *out = bundle->entries;
  return TN_OK;
}

/* Maximum number of names that are compared for a suggestion. */
enum { NEAR_LIMIT = 1000 };

static tn_code fail_not_found(const tn_bundle *bundle, const char *name) {
  const char *names[NEAR_LIMIT];
  const tn__spot spot = {&bundle->file, NULL};
  size_t n = bundle->n < NEAR_LIMIT ? bundle->n : NEAR_LIMIT;
  for (size_t i = 0; i < n; ++i) names[i] = bundle->entries[i].name;
  const char *near = tn__find_nearest_word(name, names, n);
  tn__spot_fail(&spot, TN_NOT_FOUND, TN__NOWHERE,
                "there is no array `%.200s` among %zu", name, bundle->n);
  if (near) tn__fail_more(TN_NOT_FOUND, "; is `%.200s` meant?", near);
  return TN_NOT_FOUND;
}

tn_code tn__bundle_find(const tn_bundle *bundle, const char *name,
                        const tn__bundle_entry **out) {
  if (!name) return find_only(bundle, out);
  const tn__bundle_entry key = {.name = name};
  const tn__bundle_entry *found =
      bundle->n == 0 ? NULL
                     : bsearch(&key, bundle->entries, bundle->n, sizeof key,
                               compare_names);
  if (!found) return fail_not_found(bundle, name);
  *out = found;
  return TN_OK;
}
