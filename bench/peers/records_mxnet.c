/* SPDX-License-Identifier: Apache-2.0
 * Records per second by the reader of Apache MXNet 1.9.1, as bench/records.c:
 *
 *   records_mxnet LIBRARY FOLDER
 *
 * LIBRARY is a libmxnet.so, which is opened with dlopen. Prints `read` and
 * `find`; for the latter it goes to the offset in the index and reads one
 * record, as MXIndexedRecordIO of its Python package does.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../measure.h"

#define SECONDS 0.3

static struct {
  int (*create)(const char *path, void **out);
  int (*release)(void *reader);
  int (*read)(void *reader, const char **data, size_t *bytes);
  int (*seek)(void *reader, size_t offset);
  const char *(*error)(void);
} mxnet;

typedef struct task {
  const char *path;
  void *reader;
  size_t n, bytes;
  size_t *offsets; /* in a random order */
} task;

static void must_succeed(int failed) {
  if (failed) measure_fail("%s", mxnet.error());
}

static void open_library(const char *path) {
  const struct {
    const char *name;
    void *to;
  } symbols[] = {{"MXRecordIOReaderCreate", &mxnet.create},
                 {"MXRecordIOReaderFree", &mxnet.release},
                 {"MXRecordIOReaderReadRecord", &mxnet.read},
                 {"MXRecordIOReaderSeek", &mxnet.seek},
                 {"MXGetLastError", &mxnet.error}};
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) measure_fail("%s", dlerror());
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; ++i) {
    void *symbol = dlsym(library, symbols[i].name);
    if (!symbol) measure_fail("%s", dlerror());
    memcpy(symbols[i].to, &symbol, sizeof symbol);
  }
}

/* Opens the file again each time: a reader that has met the end returns no more
 * records. */
static void read_all(void *arg) {
  task *t = arg;
  const char *data = NULL;
  size_t bytes = 0, n = 0;
  t->bytes = 0;
  must_succeed(mxnet.create(t->path, &t->reader));
  for (;; ++n) {
    must_succeed(mxnet.read(t->reader, &data, &bytes));
    if (!data) break;
    t->bytes += bytes;
  }
  (void)mxnet.release(t->reader);
  t->n = n;
}

static void find_all(void *arg) {
  task *t = arg;
  t->bytes = 0;
  for (size_t i = 0; i < t->n; ++i) {
    const char *data = NULL;
    size_t bytes = 0;
    must_succeed(mxnet.seek(t->reader, t->offsets[i]));
    must_succeed(mxnet.read(t->reader, &data, &bytes));
    t->bytes += bytes;
  }
}

/* Reads the offsets, and shuffles them. */
static void read_index(task *t, const char *path) {
  FILE *file = fopen(path, "r");
  uint64_t state = 2;
  t->offsets = calloc(t->n, sizeof *t->offsets);
  if (!file || !t->offsets) measure_fail("%s cannot be read", path);
  for (size_t i = 0; i < t->n; ++i)
    if (fscanf(file, "%*u %zu", &t->offsets[i]) != 1)
      measure_fail("%s is too short", path);
  (void)fclose(file);
  for (size_t i = t->n; i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t k = (size_t)(state >> 33) % i, offset = t->offsets[k];
    t->offsets[k] = t->offsets[i - 1];
    t->offsets[i - 1] = offset;
  }
}

int main(int argc, char **argv) {
  task t = {0};
  char path[4096], index[4096];
  if (argc != 3) measure_fail("usage: records_mxnet LIBRARY FOLDER");
  (void)snprintf(path, sizeof path, "%s/data.rec", argv[2]);
  (void)snprintf(index, sizeof index, "%s/data.idx", argv[2]);
  open_library(argv[1]);
  t.path = path;
  const double read = measure_cpu(read_all, &t, SECONDS);
  printf("read %.1f\n", (double)t.n * 1e9 / read);
  read_index(&t, index);
  must_succeed(mxnet.create(path, &t.reader));
  const double find = measure_cpu(find_all, &t, SECONDS);
  printf("find %.1f\n", (double)t.n * 1e9 / find);
  (void)mxnet.release(t.reader);
  free(t.offsets);
  (void)fflush(stdout);
  _Exit(0); /* its library would wait for its threads */
}
