/* SPDX-License-Identifier: Apache-2.0
 * unzip.c: reads one member of a zip as a stream of bytes, and inflates it with
 * zlib piece by piece. The stream never has more bytes than the directory
 * declares.
 */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "formats.h"

enum { PIECE = 16384 };

struct tn__unzip {
  tn__spot spot;
  const tn__zip_member *member;
  uint64_t n_read;     /* stored bytes that are read */
  uint64_t n_returned; /* bytes that the caller has received */
  uLong sum;
  bool inflates;
  z_stream z;
  unsigned char piece[PIECE];
};

static void *zlib_alloc_memory(void *env, uInt n, uInt size) {
  return tn__alloc(env, (size_t)n * size);
}

static void zlib_free_memory(void *env, void *memory) {
  tn__free(env, memory);
}

static tn_code fail_damaged(const tn__unzip *u, const char *reason) {
  return tn__spot_fail(&u->spot, TN_INVALID, u->member->begin + u->n_read,
                       "%s; the zip is damaged", reason);
}

tn_code tn__unzip_open(const tn__spot *spot, const tn__zip_member *member,
                       tn__unzip **out) {
  const tn__env *env = spot->file->env;
  tn__unzip *u = tn__zalloc(env, sizeof *u);
  *out = NULL;
  if (!u) return tn__fail_memory(sizeof *u, "reading a zip");
  u->spot = *spot;
  u->member = member;
  u->sum = crc32(0, NULL, 0);
  u->inflates = member->method != 0;
  u->z.zalloc = zlib_alloc_memory;
  u->z.zfree = zlib_free_memory;
  u->z.opaque = (void *)(uintptr_t)env; /* only read */
  if (u->inflates && inflateInit2(&u->z, -MAX_WBITS) != Z_OK) {
    tn__free(env, u);
    return tn__fail_memory(sizeof *u, "inflating a member of a zip");
  }
  *out = u;
  return TN_OK;
}

void tn__unzip_close(tn__unzip *u) {
  if (!u) return;
  if (u->inflates) (void)inflateEnd(&u->z);
  tn__free(u->spot.file->env, u);
}

/* Reads the next stored bytes; none at the end. */
static tn_code refill_input(tn__unzip *u) {
  uint64_t left = u->member->stored - u->n_read;
  size_t n = left < PIECE ? (size_t)left : PIECE;
  TN__TRY(tn__file_read(&u->spot, u->member->begin + u->n_read, u->piece, n));
  u->n_read += n;
  u->z.next_in = u->piece;
  u->z.avail_in = (uInt)n;
  return TN_OK;
}

/* Inflates `n` bytes. Sets *at_end if the stream ends. */
static tn_code inflate_some(tn__unzip *u, unsigned char *to, size_t n,
                            bool *at_end) {
  *at_end = false;
  while (n > 0 && !*at_end) {
    uInt room = n < INT_MAX ? (uInt)n : INT_MAX;
    if (u->z.avail_in == 0) TN__TRY(refill_input(u));
    bool starved = u->z.avail_in == 0;
    u->z.next_out = to;
    u->z.avail_out = room;
    int status = inflate(&u->z, Z_NO_FLUSH);
    size_t made = room - u->z.avail_out;
    *at_end = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR)
      return tn__fail_memory(sizeof u->z, "inflating a member of a zip");
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      return fail_damaged(u, "its compressed data makes no sense");
    if (starved && made == 0 && !*at_end)
      return fail_damaged(u, "its compressed data ends too early");
    to += made;
    n -= made;
  }
  if (n > 0) return fail_damaged(u, "it has fewer bytes than declared");
  return TN_OK;
}

tn_code tn__unzip_read(void *unzip, void *to, size_t n) {
  tn__unzip *u = unzip;
  bool at_end = false;
  if (n > u->member->bytes - u->n_returned)
    return fail_damaged(u, "it has fewer bytes than declared");
  if (u->inflates) {
    TN__TRY(inflate_some(u, to, n, &at_end));
  } else {
    TN__TRY(tn__file_read(&u->spot, u->member->begin + u->n_read, to, n));
    u->n_read += n;
  }
  u->n_returned += n;
  if (n > 0) u->sum = crc32_z(u->sum, to, n); /* no bytes would reset it */
  return TN_OK;
}

/* Finds the end of the stream, which zlib reports only on a request for more
 * bytes. */
static tn_code end_inflate(tn__unzip *u) {
  unsigned char more = 0;
  for (;;) {
    if (u->z.avail_in == 0) TN__TRY(refill_input(u));
    bool starved = u->z.avail_in == 0;
    u->z.next_out = &more;
    u->z.avail_out = 1;
    int status = inflate(&u->z, Z_NO_FLUSH);
    if (u->z.avail_out == 0)
      return fail_damaged(u, "it has more bytes than declared");
    if (status == Z_STREAM_END) break;
    if (starved || (status != Z_OK && status != Z_BUF_ERROR))
      return fail_damaged(u, "its compressed data does not end");
  }
  if (u->z.avail_in > 0 || u->n_read != u->member->stored)
    return fail_damaged(u, "something follows its compressed data");
  return TN_OK;
}

tn_code tn__unzip_end(tn__unzip *u) {
  if (u->n_returned != u->member->bytes)
    return fail_damaged(u, "it has more bytes than declared");
  if (u->inflates) TN__TRY(end_inflate(u));
  if (u->sum == u->member->crc) return TN_OK;
  return fail_damaged(u, "its checksum is wrong");
}
