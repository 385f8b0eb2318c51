/* SPDX-License-Identifier: Apache-2.0
 * sources.h: the kinds of data sets. A source is opened once: it then knows the
 * place of every example, and has checked all of them. Later jobs on several
 * threads read examples; nothing of the source changes any more.
 *
 * files: source_arrays.c   examples in arrays
 *        source_csv.c      lines of a table
 *        source_libsvm.c   lines "label index:value ..."
 *        source_idx.c      files of MNIST
 *        source_records.c  files of records, and images in them
 *        source_params.c   parameters of kinds
 *        text_lines.c      lines of a text
 *        text_numbers.c    numbers in a line
 *        gzip_file.c       decompresses a file
 *        example_file.c    reads examples of a file by their places
 */
#ifndef TENON_SOURCES_H_
#define TENON_SOURCES_H_

#include "fields.h"
#include "files.h"
#include "tenon/data.h"
#include "tenon/engine.h"

/* ------------------------------------------------------------------- common */

/* An array of a batch. */
typedef struct tn__batch_field {
  tn_dtype dtype;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
} tn__batch_field;

/* Memory that grows. */
typedef struct tn__room {
  unsigned char *data;
  size_t capacity;
} tn__room;

/* Makes room for n bytes. Keeps the first `used` ones. */
tn_code tn__room_reserve(const tn__env *env, tn__room *room, size_t n,
                         size_t used);

/* A request to fill the arrays of a batch. */
typedef struct tn__filling {
  uint32_t n;            /* examples */
  const uint64_t *index; /* their numbers */
  uint64_t key;          /* of the epoch: see tn__example_seed */
  void *const *to;       /* the memory of each array of the source */
  tn__room *room;        /* for bytes of a file */
} tn__filling;

/* A request to open a data set. */
typedef struct tn__opening {
  tn_runtime *rt;
  const tn__env *env;
  const char *path;
  const char *params;
  const tn_data_options *options; /* with defaults filled in */
} tn__opening;

typedef struct tn__source tn__source;
struct tn__source {
  const tn__env *env;
  const char *kind;
  uint32_t batch;     /* examples of a batch */
  uint64_t n;         /* examples */
  uint64_t n_damaged; /* places that were left out */
  uint32_t n_fields;  /* arrays that `fill` writes */
  tn__batch_field *fields;
  uint32_t n_read; /* variables that `fill` reads */
  tn_variable **read;
  /* An operator that makes the first array of a batch of the first N_DECODED
   * fields; NULL: the fields are the arrays. */
  tn_operator *decode;
  tn_params *decode_params;
  /* Fills the arrays. [worker] */
  tn_code (*fill)(const tn__source *source, const tn__filling *filling);
  /* Frees all members that only this kind has. */
  void (*deinit)(tn__source *source);
};
enum { TN__N_DECODED = 3 }; /* bytes, offsets, seeds */

/* Allocates a source of `bytes` bytes, which begin with a tn__source of n
 * fields. */
tn_code tn__source_create(const tn__opening *opening, size_t bytes, uint32_t n,
                          tn__source **out);
/* Frees the source; NULL is allowed. */
void tn__source_release(tn__source *source);
/* Sets field f: (batch) and then the dimensions of one example. */
tn_code tn__source_set_field(tn__source *source, uint32_t f, tn_dtype dtype,
                             const tn__batch_field *example);

tn_code tn__source_of_arrays(const tn__opening *opening, uint32_t n,
                             tn_array *const *fields, tn__source **out);
tn_code tn__source_of_csv(const tn__opening *opening, tn__source **out);
tn_code tn__source_of_libsvm(const tn__opening *opening, tn__source **out);
tn_code tn__source_of_idx(const tn__opening *opening, tn__source **out);
tn_code tn__source_of_records(const tn__opening *opening, tn__source **out);
tn_code tn__source_of_images(const tn__opening *opening, tn__source **out);

/* --------------------------------------------------------------- parameters */

/* A parameter of a kind: a member of its struct. */
typedef struct tn__source_param {
  const char *name;
  uint32_t type; /* TN_FIELD_* */
  uint32_t offset;
  uint32_t has_offset; /* of the int32_t that is 1 if there is a value; 0: there
                          is always one */
  int64_t least;       /* of integers; INT64_MIN: any */
  const char *default_text;
} tn__source_param;

typedef struct tn__source_params {
  const tn__source_param *v;
  uint32_t n;
  uint32_t size;     /* of the struct */
  const char *where; /* for messages */
} tn__source_params;

/* Makes the struct of opening->params. The caller frees *out. */
tn_code tn__source_params_parse(const tn__opening *opening,
                                const tn__source_params *params, void **out);

/* ------------------------------------------------------ numbers by chance */

#define TN__GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser of splitmix64 (decision 109). */
static inline uint64_t tn__mix(uint64_t z) {
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* The key of an epoch. */
static inline uint64_t tn__epoch_key(uint64_t seed, uint64_t epoch) {
  return tn__mix(tn__mix(seed + TN__GOLDEN) + (epoch + 1) * TN__GOLDEN);
}

/* The seed of an example in an epoch; at least 0. */
static inline int64_t tn__example_seed(uint64_t key, uint64_t example) {
  return (int64_t)(tn__mix(tn__mix(~key) + (example + 1) * TN__GOLDEN) >> 1);
}

/* ----------------------------------------------------- examples of a file */

/* Bytes of one example. */
typedef struct tn__place {
  uint64_t offset;
  uint64_t bytes;
} tn__place;

/* A file with the places of its examples, which rise. */
typedef struct tn__example_file {
  const tn__env *env;
  char *path;
  tn__file file;
  bool is_open;
  size_t n;
  size_t capacity;
  tn__place *places;
} tn__example_file;

tn_code tn__example_file_open(const tn__env *env, const char *path,
                              tn__example_file *out);
void tn__example_file_deinit(tn__example_file *file);
tn_code tn__example_file_add(tn__example_file *file, uint64_t offset,
                             uint64_t bytes);

/* One example of a batch, in memory that the reader may change. */
typedef struct tn__example {
  uint32_t at; /* its position in the batch */
  unsigned char *data;
  size_t bytes;
  uint64_t offset; /* in the file, for messages */
} tn__example;

typedef tn_code tn__use_example(void *context, const tn__example *example);

/* Reads the examples of a batch, and calls `use` for each in their order.
 * Neighbours in the file are read together. [worker] */
tn_code tn__example_file_read(const tn__example_file *file,
                              const tn__filling *filling, tn__use_example *use,
                              void *context);

/* Decompresses a file of gzip into `out`, which the caller frees in any case,
 * and sets *n to the number of bytes. TN_INVALID if it is damaged. */
tn_code tn__gzip_read(const tn__file *file, tn__room *out, size_t *n);

/* ------------------------------------------------------------------ texts */

/* A line while it is read. It ends before its line feed. */
typedef struct tn__line {
  const char *path;
  const char *begin;
  const char *end;
  const char *at;
  uint64_t number; /* from 1 on; 0: not known */
  uint64_t offset; /* of its first byte in the file */
} tn__line;

/* Fails with the file, the line and the column of line->at. `remedy` tells the
 * user how to continue. */
tn_code tn__line_fail(const tn__line *line, const char *remedy,
                      const char *format, ...) TN_PRINTF(3, 4);

/* Checks one line; sets *is_example to false if it has none. */
typedef tn_code tn__check_line(void *context, tn__line *line, bool *is_example);

typedef struct tn__line_scan {
  tn__check_line *check;
  void *context;
  bool skips;         /* lines with a mistake (TN_INVALID) */
  uint64_t n_skipped; /* is counted */
} tn__line_scan;

/* Reads all lines of a file, and adds the place of each example. */
tn_code tn__scan_lines(tn__example_file *file, tn__line_scan *scan);

/* An example as a line. */
tn__line tn__line_of_example(const tn__example_file *file,
                             const tn__example *example);

/* Reads a whole number of [begin, end), which it fills. False if it is not one,
 * or if 64 bits are not enough. */
bool tn__read_whole(const char *begin, const char *end, int64_t *out);
/* Reads a number and stores it as element `at` of type f32, f64, i32, i64 or
 * u8. False if it is not one of this type. */
bool tn__store_number(const char *begin, const char *end, tn_dtype dtype,
                      void *to, size_t at);

#endif /* TENON_SOURCES_H_ */
