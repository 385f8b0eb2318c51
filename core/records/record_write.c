/* SPDX-License-Identifier: Apache-2.0
 * record_write.c: writes a file of records.
 */
#include <string.h>

#include "pieces.h"
#include "records.h"

struct tn_record_writer {
  const tn__env *env;
  char *path;
  char *index_path; /* NULL: no index */
  tn__sink sink;
  bool is_open;
  tn__record_index index;
};

static tn_code open_sink(tn_record_writer *w, const char *path,
                         const char *index) {
  w->path = tn__strdup(w->env, path);
  w->index_path = index ? tn__strdup(w->env, index) : NULL;
  if (w->path == NULL || (index && w->index_path == NULL))
    return tn__fail_memory(strlen(path) + 1, "the name of a file");
  TN__TRY(tn__sink_open(w->env, w->path, &w->sink));
  w->is_open = true;
  return TN_OK;
}

tn_code tn__record_writer_create(const tn__env *env, const char *path,
                                 const char *index, tn_record_writer **out) {
  tn_record_writer *w = tn__zalloc(env, sizeof *w);
  if (w == NULL) return tn__fail_memory(sizeof *w, "a writer of records");
  w->env = env;
  tn__env_retain(env);
  const tn_code rc = open_sink(w, path, index);
  if (rc == TN_OK)
    *out = w;
  else
    tn__record_writer_release(w);
  return rc;
}

const tn__env *tn__record_writer_env(const tn_record_writer *writer) {
  return writer->env;
}

void tn__record_writer_release(tn_record_writer *w) {
  const tn__env *env = w->env;
  if (w->is_open) tn__sink_close(&w->sink);
  tn__record_index_deinit(env, &w->index);
  tn__free(env, w->path);
  tn__free(env, w->index_path);
  tn__free(env, w);
  tn__env_release(env);
}

static tn_code write_piece(tn_record_writer *w, uint32_t kind,
                           const unsigned char *data, size_t bytes) {
  static const unsigned char zeros[4];
  unsigned char head[TN__PIECE_HEAD];
  tn__piece_set_number(head, TN_RECORD_MAGIC);
  tn__piece_set_number(head + 4, kind << 29 | (uint32_t)bytes);
  TN__TRY(tn__sink_write(&w->sink, head, sizeof head));
  if (bytes > 0) TN__TRY(tn__sink_write(&w->sink, data, bytes));
  const size_t rest = (size_t)tn__piece_pad(bytes) - bytes;
  return rest > 0 ? tn__sink_write(&w->sink, zeros, rest) : TN_OK;
}

/* Returns the place of the next TN_RECORD_MAGIC at a multiple of four, or
 * `bytes`. */
static size_t find_magic(const unsigned char *data, size_t at, size_t bytes) {
  for (; at + 4 <= bytes; at += 4)
    if (tn__piece_get_number(data + at) == TN_RECORD_MAGIC) return at;
  return bytes;
}

static tn_code write_pieces(tn_record_writer *w, const unsigned char *data,
                            size_t bytes) {
  size_t begin = 0;
  for (;;) {
    const size_t end = find_magic(data, begin, bytes);
    const bool is_last = end == bytes;
    uint32_t kind = begin == 0 ? TN__PIECE_FIRST : TN__PIECE_MIDDLE;
    if (is_last) kind = begin == 0 ? TN__PIECE_WHOLE : TN__PIECE_LAST;
    TN__TRY(write_piece(w, kind, data + begin, end - begin));
    if (is_last) return TN_OK;
    begin = end + 4;
  }
}

static tn_code close_after(tn_record_writer *w, tn_code rc) {
  if (rc == TN_OK) return TN_OK;
  tn__sink_close(&w->sink);
  w->is_open = false;
  return rc;
}

static tn_code check_open(const tn_record_writer *w) {
  if (w->is_open) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: no record can be added, because the writer has finished "
                  "or failed; create another one",
                  w->path);
}

tn_code tn__record_write(tn_record_writer *w, uint64_t key, const void *data,
                         size_t bytes) {
  const tn__record_entry entry = {key, w->sink.at};
  TN__TRY(check_open(w));
  if (bytes > TN__PIECE_MOST)
    return tn__fail(
        TN_OUT_OF_RANGE,
        "%s: a record of %zu bytes is too long; the format has room "
        "for %u; divide it",
        w->path, bytes, TN__PIECE_MOST);
  if (w->index_path != NULL)
    TN__TRY(tn__record_index_add(w->env, &w->index, &entry));
  return close_after(w, write_pieces(w, data, bytes));
}

/* Writes the index, and gives both files their names. */
static tn_code finish_with_index(tn_record_writer *w) {
  tn__sink to;
  TN__TRY(tn__record_index_sort(w->env, w->index_path, &w->index));
  TN__TRY(tn__sink_open(w->env, w->index_path, &to));
  tn_code rc = tn__record_index_save(&w->index, &to);
  if (rc == TN_OK) rc = tn__sink_commit(&w->sink, TN__SINK_DURABLE);
  if (rc == TN_OK) rc = tn__sink_commit(&to, TN__SINK_DURABLE);
  tn__sink_close(&to);
  return rc;
}

tn_code tn__record_writer_finish(tn_record_writer *w) {
  TN__TRY(check_open(w));
  const tn_code rc = w->index_path != NULL
                         ? finish_with_index(w)
                         : tn__sink_commit(&w->sink, TN__SINK_DURABLE);
  tn__sink_close(&w->sink);
  w->is_open = false;
  return rc;
}
