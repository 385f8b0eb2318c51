/* SPDX-License-Identifier: Apache-2.0
 * A file of records with an index: written, read in two parts, searched by key.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/data.h>

static tn_code save(tn_runtime *rt) {
  static const char *const words[] = {"one", "two", "three", "four", "five"};
  tn_record_writer *file = NULL;
  tn_code rc = tn_record_writer_create(rt, "words.rec", "words.idx", &file);
  for (uint64_t i = 0; !rc && i < 5; ++i)
    rc = tn_record_write(file, 100 + i, words[i], strlen(words[i]));
  if (!rc) rc = tn_record_writer_finish(file);
  tn_record_writer_release(file);
  return rc;
}

static void show(const tn_record *record) {
  printf("%" PRIu64 " at byte %" PRIu64 ": %.*s\n", record->key, record->offset,
         (int)record->bytes, (const char *)record->data);
}

/* One of two processes that share the work. */
static tn_code read_part(tn_runtime *rt, uint32_t part) {
  tn_record_reader *file = NULL;
  tn_record record;
  const tn_record_options options = {.struct_size = sizeof options,
                                     .part = part,
                                     .n_parts = 2,
                                     .index = "words.idx"};
  tn_code rc = tn_record_reader_open(rt, "words.rec", &options, &file);
  printf("part %u\n", part);
  while (!rc && !(rc = tn_record_read(file, &record)) && record.data)
    show(&record);
  if (!rc) rc = tn_record_find(file, 104, &record);
  if (!rc) show(&record);
  if (!rc && tn_record_find(file, 7, &record)) printf("%s\n", tn_error_text());
  tn_record_reader_release(file);
  return rc;
}

int main(void) {
  tn_runtime *rt = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = save(rt);
  for (uint32_t part = 0; !rc && part < 2; ++part) rc = read_part(rt, part);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
