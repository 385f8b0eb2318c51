/* SPDX-License-Identifier: Apache-2.0
 * record_read.c: reads a file of records. A record of one piece is handed out
 * from the buffer of the file, one of several pieces is joined in a buffer of
 * its own. Nothing is allocated before the lengths in the file have been
 * compared with the size of the file.
 */
#include <inttypes.h>
#include <string.h>

#include "pieces.h"
#include "records.h"

/* Bytes that are read at once: after a jump, and at most while the file is read
 * in order. */
enum { LEAST_BUFFER = 1 << 12, MOST_BUFFER = 1 << 18 };

/* A part of the memory of a reader. */
typedef struct bytes {
  unsigned char *data;
  size_t capacity;
} bytes;

struct tn_record_reader {
  const tn__env *env;
  char *path;
  tn__file file;
  bool is_open;
  bool skips; /* damage */
  bool has_index;
  bool heads_only;
  uint64_t begin; /* of the part: a byte, or the number of an entry */
  uint64_t end;
  uint64_t at;     /* the next record: a byte, or the number of an entry */
  uint64_t n_read; /* records of the part so far */
  uint64_t n_damaged;
  tn_record_damage damage; /* the last one; `reason` NULL: none */
  uint64_t after;          /* the byte after the last record that was read */
  bytes buffer; /* n_buffered bytes of the file from buffered_at on */
  uint64_t buffered_at;
  size_t n_buffered;
  size_t ahead; /* bytes of the last read, if it was not longer */
  bytes joined; /* a record of several pieces */
  tn__record_index index;
};

/* ------------------------------------------------------------------- memory */

static tn_code reserve(const tn__env *env, bytes *b, size_t n, size_t used) {
  if (n <= b->capacity) return TN_OK;
  const size_t twice = 2 * b->capacity;
  const size_t capacity = n > twice ? n : twice;
  unsigned char *more = tn__alloc(env, capacity);
  if (more == NULL) return tn__fail_memory(capacity, "a record");
  if (used > 0) memcpy(more, b->data, used);
  tn__free(env, b->data);
  *b = (bytes){more, capacity};
  return TN_OK;
}

/* The number of bytes to read from a byte on. It grows while the file is read
 * in order, and is small for records that are found by key. */
static size_t choose_length(tn_record_reader *r, uint64_t at, size_t n) {
  const bool is_next =
      at >= r->buffered_at && at <= r->buffered_at + r->n_buffered;
  const uint64_t rest = r->file.size - at;
  if (!is_next || r->heads_only || r->ahead == 0)
    r->ahead = LEAST_BUFFER;
  else if (r->ahead < MOST_BUFFER)
    r->ahead *= 4;
  const size_t length = n > r->ahead ? n : r->ahead;
  return length > rest ? (size_t)rest : length;
}

/* Sets *out to bytes [at, at + n) of the file, which has them. */
static tn_code get_bytes(tn_record_reader *r, uint64_t at, size_t n,
                         const unsigned char **out) {
  const bool is_buffered =
      at >= r->buffered_at && at + n <= r->buffered_at + r->n_buffered;
  if (!is_buffered) {
    const size_t some = choose_length(r, at, n);
    r->n_buffered = 0;
    TN__TRY(reserve(r->env, &r->buffer, some, 0));
    TN__TRY(
        tn__file_read(&(tn__spot){&r->file, NULL}, at, r->buffer.data, some));
    r->buffered_at = at;
    r->n_buffered = some;
  }
  *out = r->buffer.data + (at - r->buffered_at);
  return TN_OK;
}

/* ------------------------------------------------------------------- pieces */

/* The head of a piece. */
typedef struct piece {
  uint32_t kind;
  uint32_t bytes;
} piece;

/* A place that is damaged. */
static tn_code fail_at(tn_record_reader *r, uint64_t at, const char *reason) {
  r->damage = (tn_record_damage){r->n_read, at, reason};
  return tn__fail(TN_INVALID,
                  "%s: record %" PRIu64 " of the part, at byte %" PRIu64
                  ": %s; use TN_DAMAGE_SKIP to continue after it, or write the "
                  "file again",
                  r->path, r->n_read, at, reason);
}

/* Reads and checks the head at a byte of the file. */
static tn_code read_head(tn_record_reader *r, uint64_t at, piece *out) {
  const unsigned char *head = NULL;
  if (at + TN__PIECE_HEAD > r->file.size)
    return fail_at(r, at, "the file ends inside of the head of a record");
  TN__TRY(get_bytes(r, at, TN__PIECE_HEAD, &head));
  if (tn__piece_get_number(head) != TN_RECORD_MAGIC)
    return fail_at(r, at, "no record begins here");
  const uint32_t word = tn__piece_get_number(head + 4);
  *out = (piece){word >> 29, word & TN__PIECE_MOST};
  if (out->kind > TN__PIECE_LAST)
    return fail_at(r, at, "the head of a record has an unknown kind");
  if (tn__piece_pad(out->bytes) > r->file.size - at - TN__PIECE_HEAD)
    return fail_at(r, at, "the file ends inside of the record");
  return TN_OK;
}

/* Adds the data of a piece to the joined record, which has *n bytes. */
static tn_code join_piece(tn_record_reader *r, uint64_t at, const piece *p,
                          size_t *n) {
  const unsigned char *data = NULL;
  const size_t more = p->bytes + (p->kind == TN__PIECE_FIRST ? 0u : 4u);
  if (r->heads_only) {
    *n += more;
    return TN_OK;
  }
  TN__TRY(reserve(r->env, &r->joined, *n + more, *n));
  if (p->kind != TN__PIECE_FIRST)
    tn__piece_set_number(r->joined.data + *n, TN_RECORD_MAGIC);
  if (p->bytes > 0) {
    TN__TRY(get_bytes(r, at + TN__PIECE_HEAD, p->bytes, &data));
    memcpy(r->joined.data + *n + (more - p->bytes), data, p->bytes);
  }
  *n += more;
  return TN_OK;
}

/* Reads all pieces of a record of several. */
static tn_code join_pieces(tn_record_reader *r, uint64_t at, piece p,
                           tn_record *out, uint64_t *after) {
  size_t n = 0;
  TN__TRY(reserve(r->env, &r->joined, 1, 0));
  for (;;) {
    TN__TRY(join_piece(r, at, &p, &n));
    at += TN__PIECE_HEAD + tn__piece_pad(p.bytes);
    if (p.kind == TN__PIECE_LAST) break;
    TN__TRY(read_head(r, at, &p));
    if (p.kind != TN__PIECE_MIDDLE && p.kind != TN__PIECE_LAST)
      return fail_at(r, at,
                     "another record begins before the last piece of one");
  }
  out->data = r->joined.data;
  out->bytes = n;
  *after = at;
  return TN_OK;
}

/* Reads the record at a byte of the file; *after is the byte after it. */
static tn_code read_at(tn_record_reader *r, uint64_t at, tn_record *out,
                       uint64_t *after) {
  static const unsigned char nothing[1];
  const unsigned char *data = nothing;
  piece p;
  TN__TRY(read_head(r, at, &p));
  out->offset = at;
  if (p.kind == TN__PIECE_FIRST) return join_pieces(r, at, p, out, after);
  if (p.kind != TN__PIECE_WHOLE)
    return fail_at(r, at, "a piece of a record without its first piece");
  if (p.bytes > 0 && !r->heads_only)
    TN__TRY(get_bytes(r, at + TN__PIECE_HEAD, p.bytes, &data));
  out->data = data;
  out->bytes = p.bytes;
  *after = at + TN__PIECE_HEAD + tn__piece_pad(p.bytes);
  return TN_OK;
}

/* ----------------------------------------------------------------- the next */

/* Sets *out to the first byte from `at` on at which a record begins, or to the
 * end of the file. */
static tn_code find_record(tn_record_reader *r, uint64_t at, uint64_t *out) {
  for (; at + TN__PIECE_HEAD <= r->file.size; at += 4) {
    const unsigned char *head = NULL;
    TN__TRY(get_bytes(r, at, TN__PIECE_HEAD, &head));
    const uint32_t kind = tn__piece_get_number(head + 4) >> 29;
    if (tn__piece_get_number(head) == TN_RECORD_MAGIC &&
        (kind == TN__PIECE_WHOLE || kind == TN__PIECE_FIRST))
      break;
  }
  *out = at + TN__PIECE_HEAD <= r->file.size ? at : r->file.size;
  return TN_OK;
}

/* Reads the next record by its place; `at` moves in any case. */
static tn_code read_by_place(tn_record_reader *r, tn_record *out) {
  uint64_t after = r->at;
  const tn_code rc = read_at(r, r->at, out, &after);
  if (rc == TN_INVALID) {
    /* The search changes no text of an error, unless it fails itself. */
    TN__TRY(find_record(r, r->at + 4, &r->at));
    return rc;
  }
  if (rc == TN_OK) r->at = r->after = after;
  return rc;
}

static tn_code read_by_index(tn_record_reader *r, tn_record *out) {
  const tn__record_entry *entry = &r->index.entries[r->at];
  const tn_code rc = read_at(r, entry->offset, out, &r->after);
  out->key = entry->key;
  if (rc == TN_OK || rc == TN_INVALID) ++r->at;
  return rc;
}

tn_code tn__record_read(tn_record_reader *r, tn_record *out) {
  *out = (tn_record){0};
  while (r->at < r->end) {
    out->key = r->n_read;
    const tn_code rc =
        r->has_index ? read_by_index(r, out) : read_by_place(r, out);
    if (rc == TN_OK) {
      ++r->n_read;
      return TN_OK;
    }
    if (rc == TN_INVALID) ++r->n_damaged;
    if (rc != TN_INVALID || !r->skips) {
      *out = (tn_record){0};
      return rc;
    }
  }
  return TN_OK;
}

tn_code tn__record_find(tn_record_reader *r, uint64_t key, tn_record *out) {
  *out = (tn_record){0};
  if (!r->has_index)
    return tn__fail(TN_INVALID,
                    "%s: records are found by key only with an index; set "
                    "tn_record_options.index",
                    r->path);
  const size_t entry = tn__record_index_find(&r->index, key);
  if (entry == r->index.n)
    return tn__fail(TN_NOT_FOUND,
                    "%s: the index has no record with key %" PRIu64, r->path,
                    key);
  r->at = entry;
  const tn_code rc = read_by_index(r, out);
  if (rc != TN_OK) *out = (tn_record){0};
  return rc;
}

void tn__record_rewind(tn_record_reader *r) {
  r->at = r->begin;
  r->n_read = 0;
}

void tn__record_read_heads_only(tn_record_reader *r) {
  r->heads_only = true;
}

uint64_t tn__record_end(const tn_record_reader *r) {
  return r->after;
}

uint64_t tn__record_count_damage(const tn_record_reader *r) {
  return r->n_damaged;
}

tn_code tn__record_damage_get(const tn_record_reader *r,
                              tn_record_damage *out) {
  if (r->damage.reason == NULL)
    return tn__fail(TN_NOT_FOUND, "%s: no damaged place was met so far",
                    r->path);
  *out = r->damage;
  return TN_OK;
}

tn_code tn__record_count(const tn_record_reader *r, uint64_t *out) {
  if (!r->has_index)
    return tn__fail(TN_INVALID,
                    "%s: records are counted only with an index; set "
                    "tn_record_options.index, or read them all",
                    r->path);
  *out = r->end - r->begin;
  return TN_OK;
}

/* --------------------------------------------------------------------- life */

/* Returns floor(n * part / n_parts), for part <= n_parts < 2^32. */
static uint64_t divide(uint64_t n, uint64_t part, uint64_t n_parts) {
  return n / n_parts * part + n % n_parts * part / n_parts;
}

/* Sets the part to whole records. */
static tn_code choose_part(tn_record_reader *r,
                           const tn_record_options *options) {
  const uint64_t n_parts = options->n_parts == 0 ? 1 : options->n_parts;
  const uint64_t n = r->has_index ? r->index.n : r->file.size;
  r->begin = divide(n, options->part, n_parts);
  r->end = divide(n, options->part + UINT64_C(1), n_parts);
  if (r->has_index) return TN_OK;
  if (options->part > 0)
    TN__TRY(find_record(r, tn__piece_pad(r->begin), &r->begin));
  if (options->part + UINT64_C(1) == n_parts) return TN_OK;
  return find_record(r, tn__piece_pad(r->end), &r->end);
}

static tn_code open_all(tn_record_reader *r, const char *path,
                        const tn_record_options *options) {
  r->path = tn__strdup(r->env, path);
  if (r->path == NULL)
    return tn__fail_memory(strlen(path) + 1, "the name of a file");
  TN__TRY(tn__file_open(r->env, r->path, &r->file));
  r->is_open = true;
  r->skips = options->on_damage == TN_DAMAGE_SKIP;
  if (options->index != NULL) {
    TN__TRY(
        tn__record_index_load(r->env, options->index, r->file.size, &r->index));
    r->has_index = true;
  }
  TN__TRY(choose_part(r, options));
  tn__record_rewind(r);
  return TN_OK;
}

tn_code tn__record_reader_open(const tn__env *env, const char *path,
                               const tn_record_options *options,
                               tn_record_reader **out) {
  tn_record_reader *r = tn__zalloc(env, sizeof *r);
  if (r == NULL) return tn__fail_memory(sizeof *r, "a reader of records");
  r->env = env;
  tn__env_retain(env);
  const tn_code rc = open_all(r, path, options);
  if (rc == TN_OK)
    *out = r;
  else
    tn__record_reader_release(r);
  return rc;
}

const tn__env *tn__record_reader_env(const tn_record_reader *reader) {
  return reader->env;
}

void tn__record_reader_release(tn_record_reader *r) {
  const tn__env *env = r->env;
  if (r->is_open) tn__file_close(&r->file);
  tn__record_index_deinit(env, &r->index);
  tn__free(env, r->buffer.data);
  tn__free(env, r->joined.data);
  tn__free(env, r->path);
  tn__free(env, r);
  tn__env_release(env);
}
