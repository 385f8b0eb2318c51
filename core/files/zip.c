/* SPDX-License-Identifier: Apache-2.0
 * zip.c: reads the directory of a .npz: its members and the positions of their
 * bytes. Nothing in the directory may contradict the file or itself.
 *
 * A zip is read from its end: a record there leads to the central directory,
 * and the entries of the directory lead to the members. A second set of records
 * (zip64) contains sizes above 32 bits.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"

enum {
  END_BYTES = 22,
  END64_BYTES = 56,
  LOCATOR_BYTES = 20,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30,
  MAX_COMMENT = 65535,
  ENCRYPTED = 1,
  SIZES_FOLLOW = 8, /* the local header has no sizes and sum */
  STORED = 0,
  DEFLATED = 8
};

#define END_MARK 0x06054b50u
#define END64_MARK 0x06064b50u
#define LOCATOR_MARK 0x07064b50u
#define ENTRY_MARK 0x02014b50u
#define LOCAL_MARK 0x04034b50u
#define IN_ZIP64 0xffffffffu

/* Deflate cannot produce more than this from one byte (258 bytes of 2 bits). A
 * larger declared ratio is false. */
enum { MAX_RATIO = 1032 };

/* The central directory. */
typedef struct directory {
  tn_bundle *bundle;
  uint64_t begin;
  uint64_t bytes;
  uint64_t n;
  const unsigned char *records; /* all of its bytes */
  uint64_t used;                /* end of the data that was read last */
} directory;

/* One entry of the directory. */
typedef struct record {
  const unsigned char *fixed;
  const unsigned char *name;
  const unsigned char *extra;
  size_t n_name;
  size_t n_extra;
  uint64_t at; /* position in the file */
  uint64_t stored;
  uint64_t bytes;
  uint64_t local; /* position of the local header */
} record;

static tn_code fail_damaged(const tn_bundle *bundle, uint64_t at,
                            const char *reason) {
  const tn__spot spot = {&bundle->file, NULL};
  return tn__spot_fail(&spot, TN_INVALID, at, "%s; the zip is damaged", reason);
}

/* ------------------------------------------------------------ end of the zip
 */

/* The record is before a comment, and contains its length. */
static tn_code find_end(const tn_bundle *bundle, unsigned char *tail,
                        uint64_t *at) {
  const uint64_t size = bundle->file.size;
  const tn__spot spot = {&bundle->file, NULL};
  size_t n = size < END_BYTES + MAX_COMMENT ? (size_t)size
                                            : (size_t)END_BYTES + MAX_COMMENT;
  if (n < END_BYTES)
    return tn__spot_fail(&spot, TN_INVALID, TN__NOWHERE,
                         "%" PRIu64 " bytes are too short for a .npz file",
                         size);
  TN__TRY(tn__file_read(&spot, size - n, tail, n));
  for (size_t i = n - END_BYTES + 1; i-- > 0;) {
    if (tn__le32(tail + i) != END_MARK) continue;
    if (i + END_BYTES + tn__le16(tail + i + 20) != n) continue;
    memmove(tail, tail + i, END_BYTES);
    *at = size - n + i;
    return TN_OK;
  }
  return fail_damaged(
      bundle, TN__NOWHERE,
      "not a .npz file, or a truncated one: it does not end as a zip");
}

/* Reads the larger record, if a locator is before the smaller one. `end`
 * becomes the required end of the directory. */
static tn_code read_end64(directory *d, uint64_t *end) {
  unsigned char bytes[END64_BYTES];
  const tn__spot spot = {&d->bundle->file, NULL};
  if (*end < LOCATOR_BYTES + END64_BYTES) return TN_OK;
  TN__TRY(tn__file_read(&spot, *end - LOCATOR_BYTES, bytes, LOCATOR_BYTES));
  if (tn__le32(bytes) != LOCATOR_MARK) return TN_OK;
  uint64_t at = tn__le64(bytes + 8);
  if (at != *end - LOCATOR_BYTES - END64_BYTES)
    return fail_damaged(d->bundle, *end - LOCATOR_BYTES,
                        "the locator does not lead to the record before it");
  TN__TRY(tn__file_read(&spot, at, bytes, END64_BYTES));
  if (tn__le32(bytes) != END64_MARK ||
      tn__le64(bytes + 24) != tn__le64(bytes + 32) || tn__le32(bytes + 16))
    return fail_damaged(d->bundle, at,
                        "the zip64 record is none, or of several disks");
  d->n = tn__le64(bytes + 32);
  d->bytes = tn__le64(bytes + 40);
  d->begin = tn__le64(bytes + 48);
  *end = at;
  return TN_OK;
}

static tn_code find_directory(directory *d, unsigned char *tail) {
  uint64_t end = 0;
  TN__TRY(find_end(d->bundle, tail, &end));
  if (tn__le16(tail + 4) || tn__le16(tail + 6) ||
      tn__le16(tail + 8) != tn__le16(tail + 10))
    return fail_damaged(d->bundle, end, "a zip of several disks");
  d->n = tn__le16(tail + 10);
  d->bytes = tn__le32(tail + 12);
  d->begin = tn__le32(tail + 16);
  TN__TRY(read_end64(d, &end));
  if (d->begin > end || d->bytes != end - d->begin)
    return fail_damaged(d->bundle, end,
                        "the directory is not between members and end");
  if (d->n > d->bytes / ENTRY_BYTES)
    return fail_damaged(d->bundle, end,
                        "more members than the directory has room for");
  return TN_OK;
}

/* ------------------------------------------------------------ its entries */

/* Replaces a 32-bit number that is full by the next 64-bit number of the zip64
 * field. */
static bool widen_number(const unsigned char **next, const unsigned char *end,
                         uint64_t *number) {
  if (*number != IN_ZIP64) return true;
  if (end - *next < 8) return false;
  *number = tn__le64(*next);
  *next += 8;
  return true;
}

static tn_code widen_record(const directory *d, record *r) {
  const unsigned char *at = r->extra, *end = r->extra + r->n_extra;
  while (end - at >= 4) {
    const unsigned char *field = at + 4;
    size_t n = tn__le16(at + 2);
    if ((size_t)(end - field) < n) break;
    at = field + n;
    if (tn__le16(field - 4) != 1) continue;
    if (widen_number(&field, at, &r->bytes) &&
        widen_number(&field, at, &r->stored) &&
        widen_number(&field, at, &r->local))
      return TN_OK;
    return fail_damaged(d->bundle, r->at,
                        "a member's zip64 field is too short");
  }
  if (at != end)
    return fail_damaged(d->bundle, r->at, "a member's extra field is damaged");
  return TN_OK;
}

/* Reads the entry at *offset and advances *offset to the next one. */
static tn_code read_record(const directory *d, uint64_t *offset, record *r) {
  const unsigned char *p = d->records + *offset;
  uint64_t left = d->bytes - *offset;
  *r = (record){.fixed = p, .at = d->begin + *offset};
  if (left < ENTRY_BYTES || tn__le32(p) != ENTRY_MARK)
    return fail_damaged(d->bundle, r->at, "an entry of the directory is none");
  r->n_name = tn__le16(p + 28);
  r->n_extra = tn__le16(p + 30);
  uint64_t n = ENTRY_BYTES + r->n_name + r->n_extra + tn__le16(p + 32);
  if (n > left)
    return fail_damaged(d->bundle, r->at,
                        "an entry leads beyond the directory");
  r->name = p + ENTRY_BYTES;
  r->extra = r->name + r->n_name;
  r->stored = tn__le32(p + 20);
  r->bytes = tn__le32(p + 24);
  r->local = tn__le32(p + 42);
  *offset += n;
  return widen_record(d, r);
}

/* "weights.npy" becomes "weights". */
static tn_code copy_record_name(const directory *d, const record *r,
                                const char **out) {
  const tn__spot spot = {&d->bundle->file, NULL};
  size_t n = r->n_name;
  if (n > 4 && memcmp(r->name + n - 4, ".npy", 4) == 0) n -= 4;
  char *name = tn__arena_text(&d->bundle->arena, (const char *)r->name, n);
  if (!name) return tn__fail_memory(n, "the name of an array");
  const char *fault = tn__find_name_fault(name, n);
  if (fault) return tn__spot_fail(&spot, TN_INVALID, r->at, "%s", fault);
  *out = name;
  return TN_OK;
}

static tn_code check_method(const tn__spot *spot, const record *r) {
  uint16_t method = tn__le16(r->fixed + 10);
  if (tn__le16(r->fixed + 8) & ENCRYPTED)
    return tn__spot_fail(spot, TN_UNSUPPORTED, r->at,
                         "it is encrypted; save the file without a password");
  if (method != STORED && method != DEFLATED)
    return tn__spot_fail(spot, TN_UNSUPPORTED, r->at,
                         "compression method %u is not supported; save it with "
                         "numpy.savez or numpy.savez_compressed",
                         (unsigned)method);
  if (method == STORED ? r->stored != r->bytes
                       : r->bytes / MAX_RATIO > r->stored)
    return tn__spot_fail(spot, TN_INVALID, r->at,
                         "%" PRIu64 " bytes cannot come from the %" PRIu64
                         " that are stored; the zip is damaged",
                         r->bytes, r->stored);
  return TN_OK;
}

/* ------------------------------------------------------------ their members */

/* True if the fields that the local header contains are equal to those of the
 * directory. */
static bool local_agrees(const unsigned char *local, const record *r) {
  const unsigned char *entry = r->fixed;
  if (tn__le32(local) != LOCAL_MARK ||
      tn__le16(local + 8) != tn__le16(entry + 10) ||
      tn__le16(local + 26) != r->n_name)
    return false;
  if (tn__le16(local + 6) & SIZES_FOLLOW) return true;
  uint32_t stored = tn__le32(local + 18), bytes = tn__le32(local + 22);
  return tn__le32(local + 14) == tn__le32(entry + 16) &&
         (stored == IN_ZIP64 || stored == r->stored) &&
         (bytes == IN_ZIP64 || bytes == r->bytes);
}

static tn_code check_local_name(const tn__spot *spot, const record *r) {
  unsigned char name[256];
  for (size_t i = 0; i < r->n_name; i += sizeof name) {
    size_t n = r->n_name - i < sizeof name ? r->n_name - i : sizeof name;
    TN__TRY(tn__file_read(spot, r->local + LOCAL_BYTES + i, name, n));
    if (memcmp(name, r->name + i, n) != 0)
      return tn__spot_fail(spot, TN_INVALID, r->local,
                           "its own header has another name; the zip is "
                           "damaged");
  }
  return TN_OK;
}

static tn_code find_member(const directory *d, const tn__spot *spot,
                           const record *r, tn__zip_member *member) {
  unsigned char local[LOCAL_BYTES];
  if (r->local > d->begin || d->begin - r->local < LOCAL_BYTES)
    return tn__spot_fail(spot, TN_INVALID, r->at,
                         "it begins at byte %" PRIu64
                         ", where the directory "
                         "is; the zip is damaged",
                         r->local);
  TN__TRY(tn__file_read(spot, r->local, local, LOCAL_BYTES));
  if (!local_agrees(local, r))
    return tn__spot_fail(spot, TN_INVALID, r->local,
                         "its own header contradicts the directory; the zip is "
                         "damaged");
  uint64_t header = LOCAL_BYTES + (uint64_t)r->n_name + tn__le16(local + 28);
  uint64_t room = d->begin - r->local;
  if (header > room || r->stored > room - header)
    return tn__spot_fail(spot, TN_INVALID, r->local,
                         "its %" PRIu64
                         " bytes lead into the directory; the "
                         "zip is damaged",
                         r->stored);
  *member = (tn__zip_member){.local = r->local,
                             .begin = r->local + header,
                             .stored = r->stored,
                             .bytes = r->bytes,
                             .crc = tn__le32(r->fixed + 16),
                             .method = tn__le16(r->fixed + 10)};
  return check_local_name(spot, r);
}

static tn_code read_entry(const directory *d, const record *r) {
  tn_bundle *bundle = d->bundle;
  tn__bundle_entry *entry = NULL;
  TN__TRY(tn__bundle_add(bundle, &entry));
  TN__TRY(copy_record_name(d, r, &entry->name));
  const tn__spot spot = {&bundle->file, entry->name};
  tn__zip_member *member = tn__arena_alloc(&bundle->arena, sizeof *member);
  if (!member) return tn__fail_memory(sizeof *member, "a member of a zip");
  TN__TRY(check_method(&spot, r));
  TN__TRY(find_member(d, &spot, r, member));
  entry->member = member;
  tn__unzip *unzip = NULL;
  TN__TRY(tn__unzip_open(&spot, member, &unzip));
  const tn__stream stream = {tn__unzip_read, unzip, member->bytes};
  tn_code rc = tn__npy_read(&spot, &stream, &bundle->arena, entry);
  tn__unzip_close(unzip);
  return rc;
}

static int compare_places(const void *a, const void *b) {
  const tn__zip_member *x = ((const tn__bundle_entry *)a)->member;
  const tn__zip_member *y = ((const tn__bundle_entry *)b)->member;
  return (x->local > y->local) - (x->local < y->local);
}

/* Members must not overlap, because a small file could then look large. */
static tn_code check_overlaps(tn_bundle *bundle) {
  tn__bundle_entry *e = bundle->entries;
  if (bundle->n > 1) qsort(e, bundle->n, sizeof *e, compare_places);
  for (size_t i = 1; i < bundle->n; ++i) {
    const tn__spot spot = {&bundle->file, e[i].name};
    const tn__zip_member *before = e[i - 1].member;
    if (e[i].member->local < before->begin + before->stored)
      return tn__spot_fail(&spot, TN_INVALID, e[i].member->local,
                           "it overlaps the array `%.200s`; the zip is damaged",
                           e[i - 1].name);
  }
  return TN_OK;
}

static tn_code read_entries(directory *d) {
  uint64_t offset = 0;
  for (uint64_t i = 0; i < d->n; ++i) {
    record r;
    TN__TRY(read_record(d, &offset, &r));
    TN__TRY(read_entry(d, &r));
  }
  if (offset != d->bytes)
    return fail_damaged(d->bundle, d->begin + offset,
                        "something follows the last entry of the directory");
  return check_overlaps(d->bundle);
}

static tn_code load_directory(directory *d) {
  const tn__spot spot = {&d->bundle->file, NULL};
  unsigned char *records = tn__alloc(d->bundle->env, (size_t)d->bytes);
  if (!records)
    return tn__fail_memory((size_t)d->bytes, "the directory of a zip");
  tn_code rc = tn__file_read(&spot, d->begin, records, (size_t)d->bytes);
  d->records = records;
  if (!rc) rc = read_entries(d);
  tn__free(d->bundle->env, records);
  return rc;
}

tn_code tn__npz_open(tn_bundle *bundle) {
  directory d = {.bundle = bundle};
  size_t bytes = END_BYTES + MAX_COMMENT;
  unsigned char *tail = tn__alloc(bundle->env, bytes);
  if (!tail) return tn__fail_memory(bytes, "the end of a zip");
  tn_code rc = find_directory(&d, tail);
  tn__free(bundle->env, tail);
  return rc ? rc : load_directory(&d);
}
