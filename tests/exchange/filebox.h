/* SPDX-License-Identifier: Apache-2.0
 * filebox.h: a folder for the files of one test, the files of independent
 * origin in tests/fuzz/seeds, and short functions to write and read them.
 */
#ifndef TESTS_NDARRAY_FILEBOX_H_
#define TESTS_NDARRAY_FILEBOX_H_

#include "fixture.h"
#include "formats.h"

void box_open(void);  /* opens a world (fixture.h) too */
void box_close(void); /* removes the folder; no temporary file may remain */

/* "folder/name"; valid until the next call. */
const char *box_path(const char *name);
/* Path of a seed, "npy/f4.npy"; valid until the next call. */
const char *seed_path(const char *name);

/* The bytes of a file. */
typedef struct bytes {
  unsigned char data[8192];
  size_t n;
} bytes;
void read_bytes(const char *path, bytes *out);
void write_bytes(const char *path, const bytes *b);
void add_bytes(bytes *b, const void *data, size_t n);

/* Open a file that must be valid, and one array of it. */
tn_bundle *open_bundle(const char *path);
tn_array *get_array(tn_bundle *bundle, const char *name);

/* Asserts dtype, shape and all bytes of the elements, row-major. `name` NULL is
 * the only array. */
void expect_array(const char *path, const char *name, const tn_spec *spec,
                  const void *elements);
#define SPEC(dtype, ...)                                         \
  (&(const tn_spec){dtype, sizeof((int64_t[]){__VA_ARGS__}) / 8, \
                    (const int64_t[]){__VA_ARGS__}})

/* Opens the file and reads all of its arrays, copied and mapped. Returns the
 * first failure, or TN_OK. */
tn_code read_all(const char *path);

#endif /* TESTS_NDARRAY_FILEBOX_H_ */
