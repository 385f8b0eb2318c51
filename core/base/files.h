/* SPDX-License-Identifier: Apache-2.0
 * files.h: files as a whole: read at a place, replaced when the new one is
 * complete, and the JSON that is in some of them. For the folders that read and
 * write files; not part of base.h, which everybody includes.
 *
 * files: file.c  reading a file at a place; messages that say where
 *        sink.c  a new file that appears when it is complete
 *        json.c  JSON, asked for by who knows what must come
 */
#ifndef TENON_BASE_FILES_H_
#define TENON_BASE_FILES_H_

#include "base.h"

/* ----------------------------------------------------------------- reading */

typedef struct tn__file {
  const tn__env *env;
  const char *path; /* for messages */
  int fd;           /* -1: not open */
  uint64_t size;
} tn__file;

/* A regular file, for reading. `path` is borrowed until close. */
tn_code tn__file_open(const tn__env *env, const char *path, tn__file *out);
void tn__file_close(tn__file *file);

/* What messages are about: a file, and an array in it or NULL. */
typedef struct tn__spot {
  const tn__file *file;
  const char *entry;
} tn__spot;

#define TN__NOWHERE UINT64_MAX
/* "path: array `entry`: text (at byte N)"; N counts in the file, or in the
 * array's member of a zip. */
tn_code tn__spot_fail(const tn__spot *spot, tn_code code, uint64_t at,
                      const char *format, ...) TN_PRINTF(4, 5);

/* Exactly `n` bytes from byte `at`, which the caller has compared with the
 * size. */
tn_code tn__file_read(const tn__spot *spot, uint64_t at, void *to, size_t n);

/* ----------------------------------------------------------------- writing */

/* A file on its way. It takes the place of the one of its name, or of the one
 * that a link of its name leads to, and has that one's permissions. What is no
 * regular file (a device, a FIFO) is not replaced but written to; a FIFO
 * without a reader is an error. */
typedef struct tn__sink {
  const tn__env *env;
  const char *path; /* for messages */
  char *target;     /* where links lead; NULL: `path` is written to */
  char *temporary;  /* its name until it is complete */
  int fd;
  uint64_t at;           /* bytes written so far, buffered ones included */
  size_t n;              /* of the buffer */
  unsigned char *buffer; /* SINK_BUFFER bytes */
} tn__sink;

/* `path` is borrowed until close. */
tn_code tn__sink_open(const tn__env *env, const char *path, tn__sink *out);
tn_code tn__sink_write(void *sink, const void *bytes, size_t n);
/* Overwrites bytes that were written; TN_UNSUPPORTED where the file is not
 * regular. */
tn_code tn__sink_patch(tn__sink *sink, uint64_t at, const void *bytes,
                       size_t n);
/* A durable file is on the disk before it has its name, which then never leads
 * to less than all of it, even if the machine stops; what can be made again at
 * will gets there when the system likes. */
typedef enum tn__sink_way { TN__SINK_DURABLE, TN__SINK_QUICK } tn__sink_way;

/* Gives the file its name. */
tn_code tn__sink_commit(tn__sink *sink, tn__sink_way way);
/* Without commit, removes what there is. */
void tn__sink_close(tn__sink *sink);

/* -------------------------------------------------------------------- JSON */

/* A text that is read once, from its begin, and overwritten with the strings
 * that it holds. A NUL stands behind its end. */
typedef struct tn__json {
  char *text;
  char *at;
  char *end;
  uint64_t line; /* line feeds before `at` */
  /* Fails with what was expected at `at`, and says where that is. */
  tn_code (*fail)(const struct tn__json *json, const char *expected);
} tn__json;

static inline tn_code tn__json_fail(const tn__json *json,
                                    const char *expected) {
  return json->fail(json, expected);
}
/* Skips blanks, and this character if it is next. */
bool tn__json_take(tn__json *json, char c);
tn_code tn__json_want(tn__json *json, char c);
/* Skips blanks, and this word if it is next: `null`. */
bool tn__json_word(tn__json *json, const char *word);
/* A string, decoded in place and NUL-terminated; it may hold no NUL. */
tn_code tn__json_string(tn__json *json, const char **out);
/* A whole number from 0 to 2^63 - 1. */
tn_code tn__json_number(tn__json *json, int64_t *out);
/* Nothing but blanks is left. */
tn_code tn__json_end(tn__json *json);

#endif /* TENON_BASE_FILES_H_ */
