/* SPDX-License-Identifier: Apache-2.0
 * files.h: whole files: reading at a position, replacing a file by a complete
 * new one, and reading JSON. For folders that read and write files; not part of
 * base.h, which every folder includes.
 *
 *   files: file.c  reads a file at a position; messages with that position
 *          sink.c  a new file that appears when it is complete
 *          json.c  JSON, read by callers that know the expected next token
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

/* The subject of messages: a file, and an array in it or NULL. */
typedef struct tn__spot {
  const tn__file *file;
  const char *entry;
} tn__spot;

#define TN__NOWHERE UINT64_MAX
/* "path: array `entry`: text (at byte N)"; N counts in the file, or in the
 * array's member of a zip. */
tn_code tn__spot_fail(const tn__spot *spot, tn_code code, uint64_t at,
                      const char *format, ...) TN_PRINTF(4, 5);

/* Reads exactly `n` bytes from byte `at`. The caller has compared both with the
 * size. */
tn_code tn__file_read(const tn__spot *spot, uint64_t at, void *to, size_t n);

/* ----------------------------------------------------------------- writing */

/* A file that is being written. It replaces the file of its name, or the file
 * that a link of its name points to, and keeps that file's permissions. A
 * special file (a device, a FIFO) is not replaced but written to; a FIFO
 * without a reader is an error. */
typedef struct tn__sink {
  const tn__env *env;
  const char *path; /* for messages */
  char *target;     /* target of links; NULL: `path` is written to */
  char *temporary;  /* its name until it is complete */
  int fd;
  uint64_t at;           /* bytes written so far, including buffered ones */
  size_t n;              /* bytes in the buffer */
  unsigned char *buffer; /* SINK_BUFFER bytes */
} tn__sink;

/* `path` is borrowed until close. */
tn_code tn__sink_open(const tn__env *env, const char *path, tn__sink *out);
tn_code tn__sink_write(void *sink, const void *bytes, size_t n);
/* Overwrites written bytes; TN_UNSUPPORTED if the file is not regular. */
tn_code tn__sink_patch(tn__sink *sink, uint64_t at, const void *bytes,
                       size_t n);
/* A durable file is on the disk before it gets its name. So the name always
 * leads to the whole file, even if the machine stops. A quick file reaches the
 * disk when the system decides; use it for data that can be created again. */
typedef enum tn__sink_mode { TN__SINK_DURABLE, TN__SINK_QUICK } tn__sink_mode;

/* Gives the file its name. */
tn_code tn__sink_commit(tn__sink *sink, tn__sink_mode mode);
/* Without commit, removes the temporary file. */
void tn__sink_close(tn__sink *sink);

/* -------------------------------------------------------------------- JSON */

/* A text that is read once, from its beginning. Its strings are decoded in
 * place. A NUL follows its end. */
typedef struct tn__json {
  char *text;
  char *at;
  char *end;
  uint64_t line; /* line feeds before `at` */
  /* Fails with the expected token at `at`, and the position. */
  tn_code (*fail)(const struct tn__json *json, const char *expected);
} tn__json;

static inline tn_code tn__json_fail(const tn__json *json,
                                    const char *expected) {
  return json->fail(json, expected);
}
/* Skips blanks, and this character if it is next. True if it was. */
bool tn__json_take(tn__json *json, char c);
/* Skips blanks and this character; fails if another one is next. */
tn_code tn__json_expect(tn__json *json, char c);
/* Skips blanks, and this word if it is next: `null`. */
bool tn__json_word(tn__json *json, const char *word);
/* A string, decoded in place and NUL-terminated; it may contain no NUL. */
tn_code tn__json_string(tn__json *json, const char **out);
/* A whole number from 0 to 2^63 - 1. */
tn_code tn__json_number(tn__json *json, int64_t *out);
/* Fails unless only blanks are left. */
tn_code tn__json_end(tn__json *json);

#endif /* TENON_BASE_FILES_H_ */
