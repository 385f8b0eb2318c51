/* SPDX-License-Identifier: Apache-2.0
 * records.h: files of records (tenon/data.h has the format).
 *
 * files: pieces.h        heads of pieces
 *        record_index.c  reads, checks and writes the index of a file
 *        record_write.c  divides records into pieces and writes them
 *        record_header.c headers with labels
 *        record_join.c   joins the pieces of a record in memory
 *        record_read.c   reads records, skips damage, divides a file into parts
 */
#ifndef TENON_RECORDS_H_
#define TENON_RECORDS_H_

#include "files.h"
#include "tenon/data.h"

/* A line of an index. */
typedef struct tn__record_entry {
  uint64_t key;
  uint64_t offset;
} tn__record_entry;

/* The lines of an index in the order of their offsets. */
typedef struct tn__record_index {
  size_t n;
  size_t capacity;
  tn__record_entry *entries;
  uint32_t *by_key; /* numbers of entries, in the order of their keys; NULL
                       until tn__record_index_sort */
} tn__record_index;

/* Reads the index at `path` of a file of `size` bytes. TN_INVALID names the
 * line and the mistake. */
tn_code tn__record_index_load(const tn__env *env, const char *path,
                              uint64_t size, tn__record_index *out);
/* Adds an entry after all others. */
tn_code tn__record_index_add(const tn__env *env, tn__record_index *index,
                             const tn__record_entry *entry);
/* Sorts the keys. TN_EXISTS names a key that occurs twice, in the index at
 * `path`. */
tn_code tn__record_index_sort(const tn__env *env, const char *path,
                              tn__record_index *index);
/* Returns the number of the entry of a key in a sorted index, or its size. */
size_t tn__record_index_find(const tn__record_index *index, uint64_t key);
tn_code tn__record_index_save(const tn__record_index *index, tn__sink *to);
void tn__record_index_deinit(const tn__env *env, tn__record_index *index);

/* tenon/data.h, with checked arguments. */
tn_code tn__record_writer_create(const tn__env *env, const char *path,
                                 const char *index, tn_record_writer **out);
tn_code tn__record_write(tn_record_writer *writer, uint64_t key,
                         const void *data, size_t bytes);
tn_code tn__record_write_labelled(tn_record_writer *writer, uint64_t key,
                                  const tn_record_header *header);
tn_code tn__record_writer_finish(tn_record_writer *writer);
void tn__record_writer_release(tn_record_writer *writer);

tn_code tn__record_reader_open(const tn__env *env, const char *path,
                               const tn_record_options *options,
                               tn_record_reader **out);
tn_code tn__record_read(tn_record_reader *reader, tn_record *out);
tn_code tn__record_find(tn_record_reader *reader, uint64_t key, tn_record *out);
void tn__record_rewind(tn_record_reader *reader);
uint64_t tn__record_count_damage(const tn_record_reader *reader);
tn_code tn__record_damage_get(const tn_record_reader *reader,
                              tn_record_damage *out);
tn_code tn__record_count(const tn_record_reader *reader, uint64_t *out);
void tn__record_reader_release(tn_record_reader *reader);
tn_code tn__record_header_read(const tn_record *record, tn_record_header *out);

/* From now on the reader finds records without reading their data: their member
 * `data` is not NULL, but has no bytes. */
void tn__record_read_heads_only(tn_record_reader *reader);
/* The byte after the last record that was read. */
uint64_t tn__record_end(const tn_record_reader *reader);
/* Joins the pieces of one record in place: `raw` has the n bytes of the file
 * from its head to its end. Returns the data and sets *bytes; NULL if it is not
 * one whole record. For several threads, which have read the file themselves.
 */
unsigned char *tn__record_join(unsigned char *raw, size_t n, size_t *bytes);

/* The runtime's side of both, for api_records.c. */
const tn__env *tn__record_writer_env(const tn_record_writer *writer);
const tn__env *tn__record_reader_env(const tn_record_reader *reader);

#endif /* TENON_RECORDS_H_ */
