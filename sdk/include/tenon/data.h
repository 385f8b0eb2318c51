/* SPDX-License-Identifier: Apache-2.0
 * data.h: files of records for training. Part of libtenon-data; the conventions
 * are those of tenon.h.
 *
 *   tn_record_reader *file = NULL;
 *   tn_record record;
 *   tn_code rc = tn_record_reader_open(rt, "train.rec", NULL, &file);
 *   while (!rc && !(rc = tn_record_read(file, &record)) && record.data)
 *     rc = use(record.data, record.bytes);
 *   tn_record_reader_release(file);
 */
#ifndef TENON_DATA_H_
#define TENON_DATA_H_

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------- files of records */

/* A file of records (RecordIO, as MXNet and dmlc write it): each record is any
 * bytes, fewer than 2^29. In the file each piece has a head of eight
 * bytes, little-endian: the number TN_RECORD_MAGIC, and the length with the
 * kind of the piece in its three highest bits (0: a whole record, 1: the first
 * piece, 2: one in the middle, 3: the last). Zeros fill a piece up to a
 * multiple of four bytes. Where the data itself has TN_RECORD_MAGIC at a
 * multiple of four, it is divided there into pieces, and the number is left
 * out. So a reader can start anywhere and finds the next record by that number.
 *
 * An index is a text file with a line "KEY<tab>OFFSET" for each record. */
#define TN_RECORD_MAGIC 0xced7230au

typedef struct tn_record_writer tn_record_writer;
typedef struct tn_record_reader tn_record_reader;

/* One record. */
typedef struct tn_record {
  const void *data; /* borrowed until the reader's next call; NULL: there are no
                       more records */
  uint64_t bytes;
  uint64_t key;    /* of the index; without an index the number of the record,
                      from 0 on, in the reader's part */
  uint64_t offset; /* of its head in the file */
} tn_record;

/* Begins a new file, and an index unless `index` is NULL. Both get their names
 * when they are complete, in tn_record_writer_finish; until then older files of
 * these names stay as they are. TN_IO. The caller releases *out. [host-thread]
 */
TN_API TN_MUST_USE tn_code tn_record_writer_create(tn_runtime *rt,
                                                   const char *path,
                                                   const char *index,
                                                   tn_record_writer **out);

/* Adds a record of fewer than 2^29 bytes (TN_OUT_OF_RANGE). `key` is for the
 * index. After TN_IO the writer can only be released. [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_write(tn_record_writer *writer,
                                           uint64_t key, const void *data,
                                           size_t bytes);

/* Completes the files. TN_EXISTS if a key occurs twice, TN_IO: then older files
 * stay as they were. No record can be added afterwards. [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_writer_finish(tn_record_writer *writer);

/* Frees the writer; unfinished files are removed. NULL is allowed.
 * [host-thread] */
TN_API void tn_record_writer_release(tn_record_writer *writer);

enum {                     /* tn_record_options.on_damage */
       TN_DAMAGE_STOP = 0, /* TN_INVALID, with the record and the byte */
       TN_DAMAGE_SKIP = 1  /* continue with the next whole record */
};

/* How a file of records is read. The host sets struct_size; zeros are the
 * defaults. */
typedef struct tn_record_options {
  uint32_t struct_size; /* sizeof(tn_record_options) */
  uint32_t on_damage;   /* TN_DAMAGE_* */
  /* Reads part `part` of `n_parts` only; n_parts 0: all. The parts have about
   * as many bytes each; together they have each record once. */
  uint32_t part;
  uint32_t n_parts;
  const char *index; /* NULL: none. With an index, parts have about as many
                        records each, and records can be read by key */
} tn_record_options;

/* Opens a file for reading; `options` NULL: the defaults. TN_IO; TN_INVALID for
 * an index that is not one, or has an offset outside of the file. The caller
 * releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code
tn_record_reader_open(tn_runtime *rt, const char *path,
                      const tn_record_options *options, tn_record_reader **out);

/* Reads the next record of the part. TN_INVALID for damage, unless it is
 * skipped; a later call continues after it. TN_IO. Borrowed until the reader's
 * next call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_read(tn_record_reader *reader,
                                          tn_record *out);

/* Reads the record of a key, anywhere in the file; the next record is then the
 * one after it. TN_NOT_FOUND; TN_INVALID without an index. Borrowed until the
 * reader's next call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_find(tn_record_reader *reader,
                                          uint64_t key, tn_record *out);

/* Goes back to the first record of the part. [host-thread] */
TN_API void tn_record_rewind(tn_record_reader *reader);

/* How many damaged places the reader has met. [host-thread] */
TN_API uint64_t tn_record_count_damage(const tn_record_reader *reader);

/* Number of records of the part, by the index. TN_INVALID without an index.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_count(const tn_record_reader *reader,
                                           uint64_t *out);

/* Frees the reader; NULL is allowed. [host-thread] */
TN_API void tn_record_reader_release(tn_record_reader *reader);

#ifdef __cplusplus
}
#endif
#endif /* TENON_DATA_H_ */
