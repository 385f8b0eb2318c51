/* SPDX-License-Identifier: Apache-2.0
 * batches_test.h: for tests of batches: files in a folder of their own, and
 * sequences of examples.
 */
#ifndef TESTS_BATCHES_TEST_H_
#define TESTS_BATCHES_TEST_H_

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/data.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())
#define FAILS(call, code, part)                                               \
  do {                                                                        \
    const tn_code failed_ = (call);                                           \
    cr_assert_eq(failed_, (code), "%s: %s: %s", #call, tn_code_name(failed_), \
                 tn_error_text());                                            \
    cr_assert_not_null(strstr(tn_error_text(), (part)), "%s lacks `%s`",      \
                       tn_error_text(), (part));                              \
  } while (0)

#define OPTIONS(...)                                                \
  (&(const tn_data_options){.struct_size = sizeof(tn_data_options), \
                            __VA_ARGS__})

static char folder[] = "/tmp/tenon-batches-XXXXXX";

static inline void make_folder(void) {
  cr_assert_not_null(mkdtemp(folder));
}

/* The path of a file in the folder: valid until four later calls. */
static inline const char *path_of(const char *name) {
  static char paths[4][96];
  static int next;
  char *path = paths[next++ % 4];
  (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static inline void remove_folder(void) {
  static const char *const names[] = {"a.csv", "a.svm", "a.idx",
                                      "b.idx", "a.rec", "a.rec.idx"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    (void)unlink(path_of(names[i]));
  (void)rmdir(folder);
}

static inline const char *write_file(const char *name, const void *data,
                                     size_t bytes) {
  const char *path = path_of(name);
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "%s", path);
  cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
  cr_assert_eq(fclose(file), 0);
  return path;
}

static inline const char *write_text(const char *name, const char *text) {
  return write_file(name, text, strlen(text));
}

/* The numbers of the examples of some batches. */
typedef struct sequence {
  size_t n;
  uint64_t at[8192];
} sequence;

/* Reads batches until the epoch ends, at most `most`, and adds their examples
 * without those that only fill. */
static inline size_t read_batches(tn_data *data, size_t most, sequence *to) {
  size_t n = 0;
  for (; n < most; ++n) {
    tn_batch batch;
    OK(tn_data_next(data, &batch));
    if (batch.n_arrays == 0) break;
    for (uint64_t i = 0; i < batch.n_examples - batch.pad; ++i) {
      cr_assert_lt(to->n, sizeof to->at / sizeof *to->at);
      to->at[to->n++] = batch.index[i];
    }
  }
  return n;
}

static inline void expect_equal(const sequence *a, const sequence *b) {
  cr_assert_eq(a->n, b->n, "%zu examples instead of %zu", a->n, b->n);
  for (size_t i = 0; i < a->n; ++i)
    cr_assert_eq(a->at[i], b->at[i],
                 "example %zu is %" PRIu64 " instead of %" PRIu64, i, a->at[i],
                 b->at[i]);
}

/* Expects each example below n `times` times. */
static inline void expect_all(const sequence *s, size_t n, unsigned times) {
  unsigned *counts = calloc(n, sizeof *counts);
  cr_assert_eq(s->n, n * times, "%zu examples", s->n);
  for (size_t i = 0; i < s->n; ++i) {
    cr_assert_lt(s->at[i], n);
    ++counts[s->at[i]];
  }
  for (size_t i = 0; i < n; ++i) cr_assert_eq(counts[i], times);
  free(counts);
}

/* The elements of an array of a batch. */
static inline const void *elements(tn_array *array) {
  OK(tn_array_wait(array));
  return tn_array_tensor(array)->data;
}

static inline void expect_floats(tn_array *array, const float *want, size_t n) {
  const float *got = elements(array);
  cr_assert_eq(tn_array_tensor(array)->dtype, TN_F32);
  cr_assert_eq((size_t)tn_array_size(array), n);
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(memcmp(&got[i], &want[i], sizeof *got), 0,
                 "element %zu is %g instead of %g", i, (double)got[i],
                 (double)want[i]);
}

#endif /* TESTS_BATCHES_TEST_H_ */
