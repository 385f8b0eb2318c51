/* SPDX-License-Identifier: Apache-2.0
 * load.c: creates an array of the elements of one entry. The elements are read
 * into new memory, or the array uses pages of the file itself (TN_BUNDLE_MAP).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "formats.h"

/* ------------------------------------------------------------- conversions */

/* Converts to the byte order of this machine, which is little endian. */
static void swap_bytes(unsigned char *data, size_t bytes, size_t size) {
  for (size_t i = 0; i < bytes; i += size)
    for (size_t a = i, b = i + size - 1; a < b; ++a, --b) {
      unsigned char byte = data[a];
      data[a] = data[b];
      data[b] = byte;
    }
}

/* NumPy treats every byte but 0 as true; here true is 1. */
static void normalise_bools(unsigned char *data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) data[i] = data[i] != 0;
}

static void convert_elements(const tn__bundle_entry *entry,
                             unsigned char *data) {
  if (entry->swapped)
    swap_bytes(data, (size_t)entry->bytes,
               (size_t)tn_dtype_bytes(entry->dtype));
  if (entry->dtype == TN_BOOL) normalise_bools(data, (size_t)entry->bytes);
}

/* ----------------------------------------------------------------- reading */

static tn_code read_member(const tn__spot *spot, const tn__bundle_entry *entry,
                           void *to) {
  tn__unzip *unzip = NULL;
  char skipped[256];
  TN__TRY(tn__unzip_open(spot, entry->member, &unzip));
  tn_code rc = TN_OK;
  for (uint64_t left = entry->begin; left > 0 && !rc;) {
    size_t n = left < sizeof skipped ? (size_t)left : sizeof skipped;
    rc = tn__unzip_read(unzip, skipped, n);
    left -= n;
  }
  if (!rc) rc = tn__unzip_read(unzip, to, (size_t)entry->bytes);
  if (!rc) rc = tn__unzip_end(unzip);
  tn__unzip_close(unzip);
  return rc;
}

/* Writes the elements without the engine, because no one else has the array
 * yet. */
static tn_code read_into(const tn__spot *spot, const tn__bundle_entry *entry,
                         tn_array *array) {
  TN__TRY(tn__array_materialise(array));
  void *data = tn__array_data(array);
  if (entry->member)
    TN__TRY(read_member(spot, entry, data));
  else
    TN__TRY(tn__file_read(spot, entry->begin, data, (size_t)entry->bytes));
  convert_elements(entry, data);
  tn__array_count_write(array);
  return TN_OK;
}

static tn_code load_copy(const tn__spot *spot, const tn__bundle_entry *entry,
                         const tn_spec *spec, tn_array **out) {
  tn_array *array = NULL;
  TN__TRY(tn__array_create(spot->file->env, spec, &array));
  tn_code rc = read_into(spot, entry, array);
  if (rc) {
    tn__array_release(array);
    return rc;
  }
  *out = array;
  return TN_OK;
}

/* ----------------------------------------------------------------- mapping */

/* Pages of a file that are the memory of an array. */
typedef struct mapping {
  const tn__env *env; /* outlives every block */
  void *pages;
  size_t bytes;
} mapping;

static bool can_map(const tn__bundle_entry *entry) {
  return !entry->member && !entry->swapped && entry->dtype != TN_BOOL &&
         entry->bytes > 0 &&
         (tn_dtype_is_packed(entry->dtype) ||
          entry->begin % (uint64_t)tn_dtype_bytes(entry->dtype) == 0);
}

static void drop_mapping(void *ctx) {
  mapping *m = ctx;
  m->env->os->unmap(m->pages, m->bytes);
  tn__free(m->env, m);
}

static tn_code create_mapping(const tn__spot *spot, uint64_t begin,
                              size_t bytes, mapping **out) {
  const tn__env *env = spot->file->env;
  mapping *m = tn__alloc(env, sizeof *m);
  if (!m) return tn__fail_memory(sizeof *m, "a mapped file");
  *m = (mapping){.env = env, .bytes = bytes};
  m->pages = env->os->map(spot->file->fd, bytes, (int64_t)begin);
  if (!m->pages) {
    tn__free(env, m);
    return tn__spot_fail(spot, TN_IO, begin, "cannot be mapped: %s",
                         strerror(errno));
  }
  *out = m;
  return TN_OK;
}

static tn_code load_map(const tn__spot *spot, const tn__bundle_entry *entry,
                        const tn_spec *spec, tn_array **out) {
  mapping *m = NULL;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t before = (size_t)(entry->begin % page);
  TN__TRY(create_mapping(spot, entry->begin - before,
                         before + (size_t)entry->bytes, &m));
  const tn__foreign memory = {.data = (char *)m->pages + before,
                              .bytes = (size_t)entry->bytes,
                              .drop = drop_mapping,
                              .ctx = m};
  tn_code rc = tn__array_wrap(spot->file->env->cpu, spec, &memory, out);
  if (rc) drop_mapping(m);
  return rc;
}

/* --------------------------------------------------------------- interface */

/* Column-major elements are row-major elements of the reversed shape. */
static tn_code load_entry(const tn__spot *spot, const tn__bundle_entry *entry,
                          uint32_t flags, tn_array **out) {
  int64_t reversed[TN_MAX_NDIM];
  tn_spec spec = {entry->dtype, entry->ndim, entry->shape};
  if (entry->columns) {
    for (int32_t i = 0; i < entry->ndim; ++i)
      reversed[i] = entry->shape[entry->ndim - 1 - i];
    spec.shape = reversed;
  }
  if (flags & TN_BUNDLE_MAP && can_map(entry))
    return load_map(spot, entry, &spec, out);
  return load_copy(spot, entry, &spec, out);
}

tn_code tn__file_get_array(const tn_bundle *bundle, const char *name,
                           uint32_t flags, tn_array **out) {
  const tn__bundle_entry *entry = NULL;
  tn_array *array = NULL;
  *out = NULL;
  if (flags & ~(uint32_t)TN_BUNDLE_MAP)
    return tn__fail(TN_INVALID,
                    "the flags of tn_bundle_get are 0x%x; they may have "
                    "TN_BUNDLE_MAP only",
                    (unsigned)flags);
  TN__TRY(tn__bundle_find(bundle, name, &entry));
  const tn__spot spot = {&bundle->file, *entry->name ? entry->name : NULL};
  TN__TRY(load_entry(&spot, entry, flags, &array));
  if (!entry->columns || entry->ndim < 2) {
    *out = array;
    return TN_OK;
  }
  tn_code rc = tn__array_transpose(array, NULL, out);
  tn__array_release(array);
  return rc;
}
