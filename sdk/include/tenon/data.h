/* SPDX-License-Identifier: Apache-2.0
 * data.h: data for training: files of records, and batches of examples. Part of
 * libtenon-data; the conventions are those of tenon.h.
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

/* A damaged place of a file. */
typedef struct tn_record_damage {
  uint64_t record;    /* number of undamaged records of the part before it */
  uint64_t offset;    /* the byte of the file */
  const char *reason; /* constant */
} tn_record_damage;

/* The last damaged place that the reader has met. TN_NOT_FOUND: it has met
 * none. Borrowed until the reader is released. [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_damage_get(const tn_record_reader *reader,
                                                tn_record_damage *out);

/* Number of records of the part, by the index. TN_INVALID without an index.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_count(const tn_record_reader *reader,
                                           uint64_t *out);

/* Frees the reader; NULL is allowed. [host-thread] */
TN_API void tn_record_reader_release(tn_record_reader *reader);

/* ------------------------------------------------------- labels of records */

/* A record of a labelled example, as MXNet's im2rec writes it (IRHeader): a
 * header of TN_RECORD_HEADER_BYTES, labels, then the data, usually the file of
 * an image. All numbers are little-endian. The header has n_labels (u32), label
 * (f32), id and id2 (u64). A record does not say whether it has a header. */
enum { TN_RECORD_HEADER_BYTES = 24 };

typedef struct tn_record_header {
  uint32_t n_labels;   /* 0: `label` is the only one; otherwise that many f32
                          follow the header */
  float label;         /* 0 if labels follow */
  uint64_t id;         /* usually the key */
  uint64_t id2;        /* usually 0 */
  const float *labels; /* NULL if n_labels is 0 */
  const void *data;    /* the bytes after the labels */
  uint64_t bytes;      /* of the data */
} tn_record_header;

/* Adds a record that begins with this header, as tn_record_write. Together with
 * the header it has fewer than 2^29 bytes. [host-thread] */
TN_API TN_MUST_USE tn_code tn_record_write_labelled(
    tn_record_writer *writer, uint64_t key, const tn_record_header *header);

/* Reads the header of a record. TN_INVALID if the record is shorter than its
 * header and labels. Borrowed as long as the record is. [any] */
TN_API TN_MUST_USE tn_code tn_record_header_read(const tn_record *record,
                                                 tn_record_header *out);

/* ----------------------------------------------------------------- batches */

/* Examples of a data set in batches. An *example* has the same number of arrays
 * each time, its *fields*: usually data and a label. Array f of a batch has the
 * examples' field f one after the other along its first dimension.
 *
 *   tn_data *data = NULL;
 *   tn_batch batch;
 *   const tn_data_options options = {
 *       .struct_size = sizeof options, .batch = 64, .shuffle = 1};
 *   tn_code rc = tn_data_open(
 *       rt, &(tn_data_file){"train.csv", "csv", "label=[0]"}, &options, &data);
 *   while (!rc && !(rc = tn_data_next(data, &batch)) && batch.n_arrays)
 *     rc = train(batch.arrays[0], batch.arrays[1]);
 *   tn_data_release(data);
 *
 * ORDER. Without `shuffle` the examples have the order of the data set. With it
 * the order of an epoch is a permutation that depends only on `seed`, the
 * number of the epoch and the number of examples; never on threads, prefetching
 * or the size of a batch.
 *
 * PARTS. With n_parts each of several processes reads another part of the data.
 * Every example is in one part; their numbers of examples differ by one at
 * most. The parts of an epoch are parts of its permutation, so with `shuffle` a
 * process sees other examples in each epoch.
 *
 * MEMORY. The engine prepares the next `prefetch` batches while the caller
 * works, in arrays that are used again. It orders their uses: calls that read a
 * batch may still be pending when the caller asks for the next one.
 *
 * THREADS. One thread at a time uses a data set. */
typedef struct tn_data tn_data;

enum { /* tn_data_options.last: the last batch, if examples are missing */
       TN_LAST_PAD = 0, /* it is filled with the first examples of the epoch;
                           batch.pad is their number */
       TN_LAST_DISCARD = 1, /* it is left out */
       TN_LAST_ROLL = 2     /* its examples begin the next epoch */
};

/* tn_data_options.prefetch: each batch is prepared when it is requested. */
#define TN_NO_PREFETCH UINT32_MAX

/* How batches are made. The host sets struct_size; zeros are the defaults. */
typedef struct tn_data_options {
  uint32_t struct_size; /* sizeof(tn_data_options) */
  uint32_t batch;       /* examples of a batch; 0: 1 */
  uint32_t last;        /* TN_LAST_* */
  uint32_t shuffle;     /* 1: in a random order */
  uint64_t seed;        /* of that order, and of random changes of images */
  uint32_t part;
  uint32_t n_parts;   /* 0: all data is one part */
  uint32_t prefetch;  /* batches that are prepared in advance; 0: 2 */
  uint32_t on_damage; /* TN_DAMAGE_SKIP: damaged examples of a file are left
                         out, and counted */
  /* The device of the batches. Host memory is pinned for it, and copies overlap
   * with other work. Zeros: the CPU. */
  tn_place place;
} tn_data_options;

/* A file of a data set. Frozen. */
typedef struct tn_data_file {
  const char *path;
  const char *kind;   /* "csv", "libsvm", "idx" (of MNIST), "records", "images"
                         (in a file of records) */
  const char *params; /* of the kind: "key=value ...", as for operators; NULL:
                         defaults. docs/reference/data.md has them */
} tn_data_file;

/* One batch. Frozen. */
typedef struct tn_batch {
  uint32_t n_arrays; /* fields; 0: the epoch has ended */
  uint32_t pad;      /* examples at the end that only fill the batch */
  uint64_t number;   /* of the batch in its epoch */
  uint64_t epoch;
  tn_array *const *arrays;
  uint64_t n_examples;   /* with those of `pad` */
  const uint64_t *index; /* number of each example in the data set */
} tn_batch;

/* Batches of n arrays on the CPU, whose first dimensions are equal: the number
 * of examples. The arrays are kept; of those whose examples are not dense, a
 * copy is. `options` may be NULL. TN_SHAPE, TN_UNSUPPORTED. The caller releases
 * *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_data_from_arrays(tn_runtime *rt,
                                               tn_array *const *fields,
                                               uint32_t n,
                                               const tn_data_options *options,
                                               tn_data **out);

/* Batches of a file, which stays open. All examples are found and checked now,
 * but not kept in memory. `options` may be NULL. TN_NOT_FOUND for an unknown
 * kind, a missing file or a missing operator; TN_IO; TN_INVALID for a mistake
 * in the file, with its line and column or its byte. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_data_open(tn_runtime *rt,
                                        const tn_data_file *file,
                                        const tn_data_options *options,
                                        tn_data **out);

/* Waits for the next batch of the epoch. At the end of the epoch
 * batch->n_arrays is 0, and again in each call until tn_data_rewind. Failures
 * of reading and decoding are reported here; a later call continues with the
 * next batch. Borrowed until the next call for `data`; copy an array to keep
 * it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_data_next(tn_data *data, tn_batch *batch);

/* Begins the next epoch, at any time. [host-thread] */
TN_API TN_MUST_USE tn_code tn_data_rewind(tn_data *data);

/* Number of examples of the part, without those that roll over. [host-thread]
 */
TN_API uint64_t tn_data_count_examples(const tn_data *data);
/* Number of batches of the current epoch. [host-thread] */
TN_API uint64_t tn_data_count_batches(const tn_data *data);
/* Number of damaged places that were left out. [host-thread] */
TN_API uint64_t tn_data_count_damage(const tn_data *data);

/* The position as a text: the epoch, the next batch, the examples that rolled
 * over. A data set that is opened in the same way continues there after
 * tn_data_restore, with the same batches; only `prefetch`, `place` and the path
 * may differ. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_data_save(const tn_data *data, tn_text **out);

/* Goes to a position. TN_INVALID for a text of another data set or of other
 * options. [host-thread] */
TN_API TN_MUST_USE tn_code tn_data_restore(tn_data *data, const char *state);

/* Waits for the batches that are being prepared, and frees everything; at any
 * time. NULL is allowed. [host-thread] */
TN_API void tn_data_release(tn_data *data);

#ifdef __cplusplus
}
#endif
#endif /* TENON_DATA_H_ */
