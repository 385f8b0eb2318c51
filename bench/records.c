/* SPDX-License-Identifier: Apache-2.0
 * Records per second of a file of records, on the calling thread:
 *
 *   records write FOLDER BYTES N    data.rec and data.idx, N records
 *   records read FOLDER             prints the figures
 *
 * `read` is one record after the other; `find` each record by its key, in a
 * random order; `batch` and `shuffle` are batches of 64, in order and in a
 * random order. The file is in the memory of the system.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/data.h>

#include "measure.h"

enum { BATCH = 64 };

#define SECONDS 0.3

typedef struct task {
  tn_runtime *rt;
  tn_record_reader *reader;
  tn_data *data;
  uint64_t n, bytes; /* of all records */
  uint64_t *order;   /* keys */
} task;

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* splitmix64 */
static uint64_t draw(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Records of exactly `bytes` bytes, a multiple of 8. */
static void write_file(tn_runtime *rt, const char *path, const char *index,
                       size_t bytes, uint64_t n) {
  tn_record_writer *writer = NULL;
  uint64_t state = 1, *record = malloc(bytes);
  if (!record) measure_fail("no memory for a record");
  must_succeed(tn_record_writer_create(rt, path, index, &writer));
  for (uint64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < bytes / 8; ++k) record[k] = draw(&state);
    must_succeed(tn_record_write(writer, i, record, bytes));
  }
  must_succeed(tn_record_writer_finish(writer));
  tn_record_writer_release(writer);
  free(record);
}

/* ----------------------------------------------------------------- records */

static void read_all(void *arg) {
  task *t = arg;
  tn_record record;
  uint64_t n = 0;
  t->bytes = 0;
  tn_record_rewind(t->reader);
  for (;; ++n) {
    must_succeed(tn_record_read(t->reader, &record));
    if (!record.data) break;
    t->bytes += record.bytes;
  }
  if (t->n > 0 && n != t->n)
    measure_fail("there were %llu records", (unsigned long long)n);
  t->n = n;
}

static void find_all(void *arg) {
  task *t = arg;
  tn_record record;
  t->bytes = 0;
  for (uint64_t i = 0; i < t->n; ++i) {
    must_succeed(tn_record_find(t->reader, t->order[i], &record));
    t->bytes += record.bytes;
  }
}

static void make_order(task *t) {
  uint64_t state = 2;
  t->order = malloc(t->n * sizeof *t->order);
  if (!t->order) measure_fail("no memory for an order");
  for (uint64_t i = 0; i < t->n; ++i) t->order[i] = i;
  for (uint64_t i = t->n; i > 1; --i) {
    const uint64_t k = draw(&state) % i, key = t->order[k];
    t->order[k] = t->order[i - 1];
    t->order[i - 1] = key;
  }
}

/* ----------------------------------------------------------------- batches */

static void read_batches(void *arg) {
  const task *t = arg;
  tn_batch batch;
  uint64_t n = 0;
  do {
    must_succeed(tn_data_next(t->data, &batch));
    n += batch.n_examples - batch.pad;
  } while (batch.n_arrays > 0);
  if (n != t->n) measure_fail("there were %llu records", (unsigned long long)n);
  must_succeed(tn_data_rewind(t->data));
}

static void measure_batches(task *t, const char *name, const char *path,
                            uint32_t shuffle) {
  const tn_data_file file = {path, "records", NULL};
  const tn_data_options options = {.struct_size = sizeof options,
                                   .batch = BATCH,
                                   .shuffle = shuffle,
                                   .prefetch = TN_NO_PREFETCH};
  must_succeed(tn_data_open(t->rt, &file, &options, &t->data));
  printf("%s %.1f\n", name,
         (double)t->n * 1e9 / measure_cpu(read_batches, t, SECONDS));
  tn_data_release(t->data);
}

static void measure_file(task *t, const char *path, const char *index) {
  const tn_record_options options = {.struct_size = sizeof options,
                                     .index = index};
  must_succeed(tn_record_reader_open(t->rt, path, NULL, &t->reader));
  const double read = measure_cpu(read_all, t, SECONDS);
  printf("read %.1f\n", (double)t->n * 1e9 / read);
  tn_record_reader_release(t->reader);
  make_order(t);
  must_succeed(tn_record_reader_open(t->rt, path, &options, &t->reader));
  const double find = measure_cpu(find_all, t, SECONDS);
  printf("find %.1f\n", (double)t->n * 1e9 / find);
  tn_record_reader_release(t->reader);
  measure_batches(t, "batch", path, 0);
  measure_batches(t, "shuffle", path, 1);
  free(t->order);
}

int main(int argc, char **argv) {
  task t = {0};
  char path[4096], index[4096];
  const int is_writing = argc == 5 && strcmp(argv[1], "write") == 0;
  if (!is_writing && (argc != 3 || strcmp(argv[1], "read") != 0))
    measure_fail("usage: records write FOLDER BYTES N, or read FOLDER");
  must_succeed(
      tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                      .workers = 1,
                                      .engine = TN_ENGINE_NAIVE},
                        &t.rt));
  (void)snprintf(path, sizeof path, "%s/data.rec", argv[2]);
  (void)snprintf(index, sizeof index, "%s/data.idx", argv[2]);
  if (is_writing)
    write_file(t.rt, path, index, strtoull(argv[3], NULL, 10),
               strtoull(argv[4], NULL, 10));
  else
    measure_file(&t, path, index);
  tn_runtime_release(t.rt);
  return 0;
}
