/* SPDX-License-Identifier: Apache-2.0
 * save_npz.c: writes a .npz: a zip of .npy members, stored or deflated. All
 * times are in 1980, and every member uses the large form of sizes (zip64). So
 * there is one form only, and the same content always makes the same bytes.
 */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "formats.h"

enum {
  PIECE = 1 << 14,
  LOCAL_BYTES = 30,
  LOCAL_EXTRA = 20,
  ENTRY_EXTRA = 28,
  VERSION = 45,       /* zip64 */
  UTF8_NAME = 1 << 11 /* flag */
};

/* A complete member, for the directory. */
typedef struct written {
  uint64_t at;
  uint64_t stored;
  uint64_t bytes;
  uint32_t sum;
} written;

/* The member that is being written. */
typedef struct packer {
  tn__sink *sink;
  bool deflates;
  uint64_t bytes;
  uLong sum;
  z_stream z;
  unsigned char piece[PIECE];
} packer;

/* ------------------------------------------------------------------- bytes */

static unsigned char *put_u16(unsigned char *p, uint32_t n) {
  *p++ = (unsigned char)n;
  *p++ = (unsigned char)(n >> 8);
  return p;
}

static unsigned char *put_u32(unsigned char *p, uint32_t n) {
  return put_u16(put_u16(p, n & 0xffff), n >> 16);
}

static unsigned char *put_u64(unsigned char *p, uint64_t n) {
  return put_u32(put_u32(p, (uint32_t)n), (uint32_t)(n >> 32));
}

/* Writes the fields that local header and directory share: from the version to
 * the length of the extra field. */
static unsigned char *put_common(unsigned char *p, uint32_t method,
                                 const written *w, size_t n_name) {
  p = put_u16(p, VERSION);
  p = put_u16(p, UTF8_NAME);
  p = put_u16(p, method);
  p = put_u16(p, 0);          /* midnight */
  p = put_u16(p, 1 << 5 | 1); /* the first of January 1980 */
  p = put_u32(p, w->sum);
  p = put_u32(p, UINT32_MAX); /* the sizes are in the extra field */
  p = put_u32(p, UINT32_MAX);
  return put_u16(p, (uint32_t)n_name + 4);
}

/* ------------------------------------------------------------------ members */

static void *zlib_alloc_memory(void *env, uInt n, uInt size) {
  return tn__alloc(env, (size_t)n * size);
}

static void zlib_free_memory(void *env, void *memory) {
  tn__free(env, memory);
}

/* Writes the output of deflate until it needs more input. */
static tn_code deflate_some(packer *k, int flush) {
  do {
    k->z.next_out = k->piece;
    k->z.avail_out = PIECE;
    (void)deflate(&k->z, flush); /* fails on no input */
    TN__TRY(tn__sink_write(k->sink, k->piece, PIECE - k->z.avail_out));
  } while (k->z.avail_out == 0);
  return TN_OK;
}

/* A tn__write_fn. */
static tn_code pack_bytes(void *ctx, const void *bytes, size_t n) {
  packer *k = ctx;
  const unsigned char *next = bytes;
  if (n == 0) return TN_OK; /* no bytes would reset the sum */
  k->sum = crc32_z(k->sum, next, n);
  k->bytes += n;
  if (!k->deflates) return tn__sink_write(k->sink, bytes, n);
  while (n > 0) {
    uInt some = n < INT_MAX ? (uInt)n : INT_MAX;
    k->z.next_in = (unsigned char *)(uintptr_t)next; /* only read */
    k->z.avail_in = some;
    TN__TRY(deflate_some(k, Z_NO_FLUSH));
    next += some;
    n -= some;
  }
  return TN_OK;
}

static tn_code pack_array(packer *k, const tn_bundle_item *item) {
  tn__buf head;
  tn__buf_init(&head, k->sink->env);
  tn_code rc = tn__npy_header(k->sink->path, item->name, item->array, &head);
  if (!rc) rc = pack_bytes(k, head.s, head.n);
  tn__buf_deinit(&head);
  if (!rc) rc = tn__array_stream(item->array, pack_bytes, k);
  if (!rc && k->deflates) rc = deflate_some(k, Z_FINISH);
  return rc;
}

static tn_code pack_deflated(packer *k, const tn_bundle_item *item) {
  k->z.zalloc = zlib_alloc_memory;
  k->z.zfree = zlib_free_memory;
  k->z.opaque = (void *)(uintptr_t)k->sink->env; /* only read */
  if (deflateInit2(&k->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return tn__fail_memory(1 << 18, "compressing an array");
  tn_code rc = pack_array(k, item);
  (void)deflateEnd(&k->z);
  return rc;
}

/* Writes the header. This happens twice, because sizes and sum are known only
 * after the data. */
static tn_code put_local(packer *k, const written *w, const char *name,
                         bool again) {
  unsigned char head[LOCAL_BYTES], extra[LOCAL_EXTRA];
  const size_t n = strlen(name);
  unsigned char *p = put_u32(head, 0x04034b50);
  p = put_common(p, k->deflates ? Z_DEFLATED : 0, w, n);
  put_u16(p, LOCAL_EXTRA);
  p = put_u16(put_u16(extra, 1), LOCAL_EXTRA - 4);
  put_u64(put_u64(p, w->bytes), w->stored);
  if (again) {
    TN__TRY(tn__sink_patch(k->sink, w->at, head, sizeof head));
    return tn__sink_patch(k->sink, w->at + sizeof head + n + 4, extra,
                          sizeof extra);
  }
  TN__TRY(tn__sink_write(k->sink, head, sizeof head));
  TN__TRY(tn__sink_write(k->sink, name, n));
  TN__TRY(tn__sink_write(k->sink, ".npy", 4));
  return tn__sink_write(k->sink, extra, sizeof extra);
}

static tn_code put_member(packer *k, const tn_bundle_item *item, written *w) {
  *w = (written){.at = k->sink->at};
  TN__TRY(put_local(k, w, item->name, false));
  uint64_t begin = k->sink->at;
  k->bytes = 0;
  k->sum = crc32(0, NULL, 0);
  TN__TRY(k->deflates ? pack_deflated(k, item) : pack_array(k, item));
  w->stored = k->sink->at - begin;
  w->bytes = k->bytes;
  w->sum = (uint32_t)k->sum;
  return put_local(k, w, item->name, true);
}

/* ---------------------------------------------------------------- directory */

static tn_code put_entry(packer *k, const written *w, const char *name) {
  unsigned char head[46], extra[ENTRY_EXTRA];
  const size_t n = strlen(name);
  unsigned char *p = put_u32(head, 0x02014b50);
  p = put_u16(p, 3 << 8 | VERSION); /* created on Unix */
  p = put_common(p, k->deflates ? Z_DEFLATED : 0, w, n);
  p = put_u16(p, ENTRY_EXTRA);
  p = put_u16(put_u16(put_u16(p, 0), 0), 0); /* comment, disk, attributes */
  p = put_u32(p, 0100644u << 16); /* mode of a file: its owner may write */
  put_u32(p, UINT32_MAX);
  p = put_u16(put_u16(extra, 1), ENTRY_EXTRA - 4);
  put_u64(put_u64(put_u64(p, w->bytes), w->stored), w->at);
  TN__TRY(tn__sink_write(k->sink, head, sizeof head));
  TN__TRY(tn__sink_write(k->sink, name, n));
  TN__TRY(tn__sink_write(k->sink, ".npy", 4));
  return tn__sink_write(k->sink, extra, sizeof extra);
}

static tn_code put_end(tn__sink *sink, uint64_t n, uint64_t begin) {
  unsigned char end[56 + 20 + 22] = {0};
  const uint64_t at = sink->at;
  unsigned char *p = put_u32(end, 0x06064b50);
  p = put_u64(p, 56 - 12); /* length of the rest of the record */
  p = put_u16(put_u16(p, 3 << 8 | VERSION), VERSION);
  p = put_u64(p, 0); /* disks */
  p = put_u64(put_u64(p, n), n);
  p = put_u64(put_u64(p, at - begin), begin);
  p = put_u32(put_u32(p, 0x07064b50), 0);
  p = put_u32(put_u64(p, at), 1);
  p = put_u64(put_u32(p, 0x06054b50), UINT64_MAX << 32);
  p = put_u32(p, UINT32_MAX);
  put_u32(p, UINT32_MAX);
  return tn__sink_write(sink, end, sizeof end);
}

static tn_code put_all(packer *k, const tn_bundle_content *content,
                       written *members) {
  for (size_t i = 0; i < content->n_items; ++i)
    TN__TRY(put_member(k, &content->items[i], &members[i]));
  uint64_t begin = k->sink->at;
  for (size_t i = 0; i < content->n_items; ++i)
    TN__TRY(put_entry(k, &members[i], content->items[i].name));
  return put_end(k->sink, content->n_items, begin);
}

tn_code tn__npz_save(tn__sink *sink, const tn_bundle_content *content) {
  const tn__env *env = sink->env;
  const size_t bytes = content->n_items * sizeof(written);
  packer *k = tn__zalloc(env, sizeof *k);
  written *members = tn__zalloc(env, bytes);
  tn_code rc = k && members ? TN_OK : tn__fail_memory(bytes, "writing a .npz");
  if (!rc) {
    k->sink = sink;
    k->deflates = (content->flags & TN_BUNDLE_DEFLATE) != 0;
    rc = put_all(k, content, members);
  }
  tn__free(env, members);
  tn__free(env, k);
  return rc;
}
