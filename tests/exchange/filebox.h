/* SPDX-License-Identifier: Apache-2.0
 * filebox.h: a folder for the files of one test, the files of independent
 * origin in tests/fuzz/seeds, and short ways to write and read them.
 */
#ifndef TESTS_NDARRAY_FILEBOX_H_
#define TESTS_NDARRAY_FILEBOX_H_

#include "exchange.h"
#include "fixture.h"

void box_open(void);  /* with a world (fixture.h) */
void box_close(void); /* removes the folder; nothing may be left */

/* "folder/name"; valid until the next call. */
const char *box_path(const char *name);
/* Path of a seed, "npy/f4.npy"; valid until the next call. */
const char *seed_path(const char *name);

/* The bytes of a file. */
typedef struct bytes {
  unsigned char data[8192];
  size_t n;
} bytes;
void bytes_read(const char *path, bytes *out);
void bytes_write(const char *path, const bytes *b);
void bytes_add(bytes *b, const void *data, size_t n);

/* Opens a file that must be right, and one array of it. */
tn_bundle *opened(const char *path);
tn_array *got(tn_bundle *bundle, const char *name);

/* Asserts dtype, shape and the very bytes of the elements, row-major; `name`
 * NULL is the only array. */
void expect_array(const char *path, const char *name, const tn_spec *spec,
                  const void *elements);
#define SPEC(dtype, ...)                                         \
  (&(const tn_spec){dtype, sizeof((int64_t[]){__VA_ARGS__}) / 8, \
                    (const int64_t[]){__VA_ARGS__}})

/* Opens the file and reads all of its arrays, as a whole and mapped: what
 * failed first, or TN_OK. */
tn_code read_all(const char *path);

#endif /* TESTS_NDARRAY_FILEBOX_H_ */
