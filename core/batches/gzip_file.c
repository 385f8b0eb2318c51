/* SPDX-License-Identifier: Apache-2.0
 * gzip_file.c: decompresses a whole file of gzip into memory.
 */
#include <zlib.h>

#include "sources.h"

enum { PIECE = 1 << 16, GZIP_ONLY = 16 };

typedef struct inflation {
  const tn__file *file;
  z_stream z;
  uint64_t n_read; /* compressed bytes */
  tn__room *to;
  size_t n;
  unsigned char piece[PIECE];
} inflation;

static void *allocate_memory(void *env, uInt n, uInt size) {
  return tn__alloc(env, (size_t)n * size);
}

static void free_memory(void *env, void *memory) {
  tn__free(env, memory);
}

static tn_code fail_damaged(const inflation *f, const char *reason) {
  return tn__spot_fail(&(tn__spot){f->file, NULL}, TN_INVALID,
                       f->n_read - f->z.avail_in,
                       "%s; the compressed file is damaged", reason);
}

static tn_code read_piece(inflation *f) {
  const uint64_t rest = f->file->size - f->n_read;
  const size_t n = rest < PIECE ? (size_t)rest : PIECE;
  if (n == 0) return fail_damaged(f, "the end is missing");
  TN__TRY(tn__file_read(&(tn__spot){f->file, NULL}, f->n_read, f->piece, n));
  f->n_read += n;
  f->z.next_in = f->piece;
  f->z.avail_in = (uInt)n;
  return TN_OK;
}

/* Inflates until the stream ends. */
static tn_code inflate_all(inflation *f) {
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (f->z.avail_in == 0) TN__TRY(read_piece(f));
    TN__TRY(tn__room_reserve(f->file->env, f->to, f->n + PIECE, f->n));
    f->z.next_out = f->to->data + f->n;
    f->z.avail_out = PIECE;
    status = inflate(&f->z, Z_NO_FLUSH);
    f->n += PIECE - f->z.avail_out;
    if (status == Z_MEM_ERROR)
      return tn__fail_memory(PIECE, "a compressed file");
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      return fail_damaged(f, f->z.msg ? f->z.msg : "wrong bytes");
  }
  return TN_OK;
}

static tn_code begin_and_inflate(inflation *f) {
  f->z.zalloc = allocate_memory;
  f->z.zfree = free_memory;
  f->z.opaque = (void *)(uintptr_t)f->file->env; /* only read */
  if (inflateInit2(&f->z, MAX_WBITS + GZIP_ONLY) != Z_OK)
    return tn__fail_memory(PIECE, "a compressed file");
  const tn_code rc = inflate_all(f);
  (void)inflateEnd(&f->z);
  return rc;
}

tn_code tn__gzip_read(const tn__file *file, tn__room *out, size_t *n) {
  inflation *f = tn__zalloc(file->env, sizeof *f);
  if (!f) return tn__fail_memory(sizeof *f, "a compressed file");
  f->file = file;
  f->to = out;
  const tn_code rc = begin_and_inflate(f);
  *n = f->n;
  tn__free(file->env, f);
  return rc;
}
