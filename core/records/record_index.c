/* SPDX-License-Identifier: Apache-2.0
 * record_index.c: the index of a file of records: lines "KEY<tab>OFFSET".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records.h"

/* ------------------------------------------------------------------ entries */

tn_code tn__record_index_add(const tn__env *env, tn__record_index *index,
                             const tn__record_entry *entry) {
  if (index->n == index->capacity) {
    const size_t capacity = index->capacity ? 2 * index->capacity : 64;
    tn__record_entry *more = tn__alloc(env, capacity * sizeof *more);
    if (more == NULL)
      return tn__fail_memory(capacity * sizeof *more, "the index of a file");
    if (index->n > 0) memcpy(more, index->entries, index->n * sizeof *more);
    tn__free(env, index->entries);
    index->entries = more;
    index->capacity = capacity;
  }
  index->entries[index->n++] = *entry;
  return TN_OK;
}

void tn__record_index_deinit(const tn__env *env, tn__record_index *index) {
  tn__free(env, index->entries);
  tn__free(env, index->by_key);
  *index = (tn__record_index){0};
}

/* A key and the number of its entry. */
typedef struct keyed {
  uint64_t key;
  uint32_t number;
} keyed;

static int compare_keys(const void *a, const void *b) {
  const uint64_t x = ((const keyed *)a)->key, y = ((const keyed *)b)->key;
  return x < y ? -1 : x > y;
}

static tn_code check_keys(const char *path, const keyed *keys, size_t n) {
  for (size_t i = 1; i < n; ++i)
    if (keys[i].key == keys[i - 1].key)
      return tn__fail(TN_EXISTS,
                      "%s: key %" PRIu64
                      " occurs twice; give every record a key of its own",
                      path, keys[i].key);
  return TN_OK;
}

tn_code tn__record_index_sort(const tn__env *env, const char *path,
                              tn__record_index *index) {
  const size_t n = index->n;
  if (n > UINT32_MAX)
    return tn__fail(TN_OUT_OF_RANGE, "%s: more than %" PRIu32 " records", path,
                    UINT32_MAX);
  if (n == 0) return TN_OK;
  keyed *keys = tn__alloc(env, n * sizeof *keys);
  index->by_key = tn__alloc(env, n * sizeof *index->by_key);
  tn_code rc = keys != NULL && index->by_key != NULL
                   ? TN_OK
                   : tn__fail_memory(n * sizeof *keys, "the keys of an index");
  if (rc == TN_OK) {
    for (size_t i = 0; i < n; ++i)
      keys[i] = (keyed){index->entries[i].key, (uint32_t)i};
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 0; i < n; ++i) index->by_key[i] = keys[i].number;
    rc = check_keys(path, keys, n);
  }
  tn__free(env, keys);
  return rc;
}

size_t tn__record_index_find(const tn__record_index *index, uint64_t key) {
  size_t begin = 0, end = index->n;
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    const size_t entry = index->by_key[middle];
    if (index->entries[entry].key == key) return entry;
    if (index->entries[entry].key < key)
      begin = middle + 1;
    else
      end = middle;
  }
  return index->n;
}

/* ------------------------------------------------------------------ reading */

/* The text of an index while it is read. */
typedef struct text {
  const char *path;
  const char *at;
  const char *end;
  uint64_t line; /* from 1 on */
  uint64_t size; /* of the file of records */
} text;

static tn_code fail_line(const text *t, const char *why) {
  return tn__fail(TN_INVALID,
                  "%s, line %" PRIu64
                  ": %s; a line has a key, a tab and the offset of a record",
                  t->path, t->line, why);
}

static tn_code read_number(text *t, uint64_t *out) {
  const char *begin = t->at;
  uint64_t value = 0;
  for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; ++t->at) {
    const uint64_t digit = (uint64_t)(*t->at - '0');
    if (value > (UINT64_MAX - digit) / 10)
      return fail_line(t, "a number does not fit into 64 bits");
    value = 10 * value + digit;
  }
  if (t->at == begin) return fail_line(t, "a number is missing");
  *out = value;
  return TN_OK;
}

/* True if this character is next, which is then read. */
static bool take(text *t, char c) {
  if (t->at == t->end || *t->at != c) return false;
  ++t->at;
  return true;
}

static tn_code check_offset(const text *t, const tn__record_index *index,
                            uint64_t offset) {
  if (offset % 4 != 0) return fail_line(t, "the offset is no multiple of 4");
  if (offset >= t->size)
    return fail_line(t, "the offset is after the end of the file of records");
  if (index->n > 0 && index->entries[index->n - 1].offset >= offset)
    return fail_line(t, "the offset is not greater than the one before");
  return TN_OK;
}

static tn_code read_lines(const tn__env *env, text *t, tn__record_index *out) {
  for (; t->at < t->end; ++t->line) {
    tn__record_entry entry;
    TN__TRY(read_number(t, &entry.key));
    if (!take(t, '\t')) return fail_line(t, "a tab is missing");
    TN__TRY(read_number(t, &entry.offset));
    (void)take(t, '\r');
    if (!take(t, '\n') && t->at < t->end)
      return fail_line(t, "the line does not end after the offset");
    TN__TRY(check_offset(t, out, entry.offset));
    TN__TRY(tn__record_index_add(env, out, &entry));
  }
  return TN_OK;
}

static tn_code load_text(const tn__env *env, const tn__file *file, text *t,
                         tn__record_index *out) {
  const size_t n = (size_t)file->size;
  char *bytes = tn__alloc(env, n + 1);
  if (bytes == NULL) return tn__fail_memory(n + 1, "the text of an index");
  tn_code rc = tn__file_read(&(tn__spot){file, NULL}, 0, bytes, n);
  t->at = bytes;
  t->end = bytes + n;
  if (rc == TN_OK) rc = read_lines(env, t, out);
  tn__free(env, bytes);
  return rc;
}

tn_code tn__record_index_load(const tn__env *env, const char *path,
                              uint64_t size, tn__record_index *out) {
  tn__file file;
  text t = {.path = path, .line = 1, .size = size};
  *out = (tn__record_index){0};
  TN__TRY(tn__file_open(env, path, &file));
  tn_code rc = load_text(env, &file, &t, out);
  tn__file_close(&file);
  if (rc == TN_OK) rc = tn__record_index_sort(env, path, out);
  if (rc != TN_OK) tn__record_index_deinit(env, out);
  return rc;
}

/* ------------------------------------------------------------------ writing */

tn_code tn__record_index_save(const tn__record_index *index, tn__sink *to) {
  for (size_t i = 0; i < index->n; ++i) {
    char line[48];
    const int n = snprintf(line, sizeof line, "%" PRIu64 "\t%" PRIu64 "\n",
                           index->entries[i].key, index->entries[i].offset);
    TN__TRY(tn__sink_write(to, line, (size_t)n));
  }
  return TN_OK;
}
