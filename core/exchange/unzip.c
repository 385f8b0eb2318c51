/* SPDX-License-Identifier: Apache-2.0
 * unzip.c: one member of a zip as a stream of bytes, inflated with zlib in
 * pieces. It never gives more bytes than the directory declares.
 */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "exchange.h"

enum { PIECE = 16384 };

struct tn__unzip {
  tn__spot spot;
  const tn__member *member;
  uint64_t taken; /* stored bytes that were read */
  uint64_t given; /* bytes that were handed out */
  uLong sum;
  bool inflates;
  z_stream z;
  unsigned char piece[PIECE];
};

static void *zlib_alloc(void *env, uInt n, uInt size) {
  return tn__alloc(env, (size_t)n * size);
}

static void zlib_free(void *env, void *memory) {
  tn__free(env, memory);
}

static tn_code damaged(const tn__unzip *u, const char *what) {
  return tn__spot_fail(&u->spot, TN_INVALID, u->member->begin + u->taken,
                       "%s; the zip is damaged", what);
}

tn_code tn__unzip_open(const tn__spot *spot, const tn__member *member,
                       tn__unzip **out) {
  const tn__env *env = spot->file->env;
  tn__unzip *u = tn__zalloc(env, sizeof *u);
  *out = NULL;
  if (!u) return tn__fail_memory(sizeof *u, "reading a zip");
  u->spot = *spot;
  u->member = member;
  u->sum = crc32(0, NULL, 0);
  u->inflates = member->method != 0;
  u->z.zalloc = zlib_alloc;
  u->z.zfree = zlib_free;
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

/* The next stored bytes; none at the end. */
static tn_code refill(tn__unzip *u) {
  uint64_t left = u->member->stored - u->taken;
  size_t n = left < PIECE ? (size_t)left : PIECE;
  TN__TRY(tn__file_read(&u->spot, u->member->begin + u->taken, u->piece, n));
  u->taken += n;
  u->z.next_in = u->piece;
  u->z.avail_in = (uInt)n;
  return TN_OK;
}

/* Inflates until `n` bytes are there, or, with *at_end, the stream is over. */
static tn_code inflate_some(tn__unzip *u, unsigned char *to, size_t n,
                            bool *at_end) {
  *at_end = false;
  while (n > 0 && !*at_end) {
    uInt room = n < INT_MAX ? (uInt)n : INT_MAX;
    if (u->z.avail_in == 0) TN__TRY(refill(u));
    bool starved = u->z.avail_in == 0;
    u->z.next_out = to;
    u->z.avail_out = room;
    int status = inflate(&u->z, Z_NO_FLUSH);
    size_t made = room - u->z.avail_out;
    *at_end = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR)
      return tn__fail_memory(sizeof u->z, "inflating a member of a zip");
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      return damaged(u, "its compressed data makes no sense");
    if (starved && made == 0 && !*at_end)
      return damaged(u, "its compressed data ends too early");
    to += made;
    n -= made;
  }
  if (n > 0) return damaged(u, "it has fewer bytes than declared");
  return TN_OK;
}

tn_code tn__unzip_read(void *unzip, void *to, size_t n) {
  tn__unzip *u = unzip;
  bool at_end = false;
  if (n > u->member->bytes - u->given)
    return damaged(u, "it has fewer bytes than declared");
  if (u->inflates) {
    TN__TRY(inflate_some(u, to, n, &at_end));
  } else {
    TN__TRY(tn__file_read(&u->spot, u->member->begin + u->taken, to, n));
    u->taken += n;
  }
  u->given += n;
  if (n > 0) u->sum = crc32_z(u->sum, to, n); /* no bytes would reset it */
  return TN_OK;
}

/* zlib says where a stream ends only when it is asked for more. */
static tn_code inflate_end(tn__unzip *u) {
  unsigned char more = 0;
  for (;;) {
    if (u->z.avail_in == 0) TN__TRY(refill(u));
    bool starved = u->z.avail_in == 0;
    u->z.next_out = &more;
    u->z.avail_out = 1;
    int status = inflate(&u->z, Z_NO_FLUSH);
    if (u->z.avail_out == 0)
      return damaged(u, "it has more bytes than declared");
    if (status == Z_STREAM_END) break;
    if (starved || (status != Z_OK && status != Z_BUF_ERROR))
      return damaged(u, "its compressed data does not end");
  }
  if (u->z.avail_in > 0 || u->taken != u->member->stored)
    return damaged(u, "something follows its compressed data");
  return TN_OK;
}

tn_code tn__unzip_end(tn__unzip *u) {
  if (u->given != u->member->bytes)
    return damaged(u, "it has more bytes than declared");
  if (u->inflates) TN__TRY(inflate_end(u));
  if (u->sum == u->member->crc) return TN_OK;
  return damaged(u, "its checksum is wrong");
}
