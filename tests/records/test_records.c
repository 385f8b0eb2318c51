/* SPDX-License-Identifier: Apache-2.0
 * test_records.c: files of records: the bytes that MXNet writes
 * (tests/reference/records.py), parts, indices, damage, and messages.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/data.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())
#define FAILS(call, code, part)                                          \
  do {                                                                   \
    cr_assert_eq((call), (code), "%s: %s", #call, tn_error_text());      \
    cr_assert_not_null(strstr(tn_error_text(), (part)), "%s lacks `%s`", \
                       tn_error_text(), (part));                         \
  } while (0)

typedef struct blob {
  const char *data;
  size_t bytes;
} blob;

typedef struct file_case {
  const char *name;
  size_t n;
  blob records[5];
  const char *file;
  size_t bytes;
} file_case;

static const file_case cases[] = {
#include "records_cases.inc"
};
enum { N_CASES = sizeof cases / sizeof *cases };

static tn_runtime *rt;
static char folder[] = "/tmp/tenon-records-XXXXXX";
static char rec[64], idx[64];

static void open_all(void) {
  OK(tn_runtime_create(NULL, &rt));
  cr_assert_not_null(mkdtemp(folder));
  (void)snprintf(rec, sizeof rec, "%s/file.rec", folder);
  (void)snprintf(idx, sizeof idx, "%s/file.idx", folder);
}

static void close_all(void) {
  tn_runtime_release(rt);
  (void)unlink(rec);
  (void)unlink(idx);
  (void)rmdir(folder);
}

TestSuite(records, .init = open_all, .fini = close_all);

/* -------------------------------------------------------------------- files */

static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s", path);
  cr_assert_eq(fseek(file, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  char *data = malloc(*bytes + 1);
  cr_assert_eq(fread(data, 1, *bytes, file), *bytes);
  data[*bytes] = 0;
  (void)fclose(file);
  return data;
}

static void write_file(const char *path, const char *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "%s", path);
  cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
  cr_assert_eq(fclose(file), 0);
}

static void write_records(const blob *records, size_t n, const char *index) {
  tn_record_writer *writer = NULL;
  OK(tn_record_writer_create(rt, rec, index, &writer));
  for (size_t i = 0; i < n; ++i)
    OK(tn_record_write(writer, 10 * i, records[i].data, records[i].bytes));
  OK(tn_record_writer_finish(writer));
  tn_record_writer_release(writer);
}

static tn_record_reader *open_reader(const tn_record_options *options) {
  tn_record_reader *reader = NULL;
  OK(tn_record_reader_open(rt, rec, options, &reader));
  return reader;
}

static void expect_record(tn_record_reader *reader, const blob *want) {
  tn_record got;
  OK(tn_record_read(reader, &got));
  cr_assert_not_null(got.data);
  cr_assert_eq(got.bytes, want->bytes);
  cr_assert_eq(memcmp(got.data, want->data, want->bytes), 0);
}

static void expect_end(tn_record_reader *reader) {
  tn_record got;
  for (int i = 0; i < 2; ++i) {
    OK(tn_record_read(reader, &got));
    cr_assert_null(got.data);
  }
}

Test(records, are_written_as_mxnet_writes_them) {
  for (size_t i = 0; i < N_CASES; ++i) {
    size_t bytes = 0;
    write_records(cases[i].records, cases[i].n, NULL);
    char *data = read_file(rec, &bytes);
    cr_assert_eq(bytes, cases[i].bytes, "%s", cases[i].name);
    cr_assert_eq(memcmp(data, cases[i].file, bytes), 0, "%s", cases[i].name);
    free(data);
  }
}

Test(records, that_mxnet_wrote_are_read) {
  for (size_t i = 0; i < N_CASES; ++i) {
    write_file(rec, cases[i].file, cases[i].bytes);
    tn_record_reader *reader = open_reader(NULL);
    for (int twice = 0; twice < 2; ++twice) {
      for (size_t k = 0; k < cases[i].n; ++k)
        expect_record(reader, &cases[i].records[k]);
      expect_end(reader);
      tn_record_rewind(reader);
    }
    tn_record_reader_release(reader);
  }
}

/* Records of a length and content that a seed draws, with many pieces. */
static blob *draw_records(size_t n, unsigned seed) {
  blob *records = calloc(n, sizeof *records);
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const size_t bytes = seed >> 24;
    unsigned char *data = malloc(bytes + 4);
    for (size_t at = 0; at < bytes; at += 4) {
      seed = seed * 1664525u + 1013904223u;
      const unsigned magic = TN_RECORD_MAGIC, word = seed >> 30 ? seed : magic;
      for (unsigned b = 0; b < 4; ++b)
        data[at + b] = (unsigned char)(word >> 8 * b);
    }
    records[i] = (blob){(char *)data, bytes};
  }
  return records;
}

static void free_records(blob *records, size_t n) {
  for (size_t i = 0; i < n; ++i) free((char *)(uintptr_t)records[i].data);
  free(records);
}

enum { MANY = 500 };

/* Reads all parts of the file one after the other. */
static void expect_parts(const blob *records, uint32_t n_parts,
                         const char *index) {
  size_t next = 0;
  for (uint32_t part = 0; part < n_parts; ++part) {
    const tn_record_options options = {.struct_size = sizeof options,
                                       .part = part,
                                       .n_parts = n_parts,
                                       .index = index};
    tn_record_reader *reader = open_reader(&options);
    tn_record got;
    uint64_t n = 0, count = 0;
    for (;; ++n, ++next) {
      OK(tn_record_read(reader, &got));
      if (!got.data) break;
      cr_assert_lt(next, (size_t)MANY);
      cr_assert_eq(got.key, index ? 10 * next : n);
      cr_assert_eq(got.bytes, records[next].bytes);
      cr_assert_eq(memcmp(got.data, records[next].data, got.bytes), 0);
    }
    if (index) OK(tn_record_count(reader, &count));
    if (index) cr_assert_eq(count, n);
    tn_record_reader_release(reader);
  }
  cr_assert_eq(next, (size_t)MANY, "%u parts", n_parts);
}

Test(records, of_all_parts_are_those_of_the_file) {
  blob *records = draw_records(MANY, 3);
  write_records(records, MANY, idx);
  for (uint32_t n = 1; n < 12; ++n) {
    expect_parts(records, n, NULL);
    expect_parts(records, n, idx);
  }
  expect_parts(records, 3 * MANY, NULL);
  expect_parts(records, 3 * MANY, idx);
  free_records(records, MANY);
}

Test(records, are_found_by_their_key) {
  blob *records = draw_records(MANY, 5);
  const tn_record_options options = {.struct_size = sizeof options,
                                     .index = idx};
  tn_record got;
  write_records(records, MANY, idx);
  tn_record_reader *reader = open_reader(&options);
  for (size_t i = MANY; i-- > 1;) {
    OK(tn_record_find(reader, 10 * (i - 1), &got));
    cr_assert_eq(got.bytes, records[i - 1].bytes);
    cr_assert_eq(memcmp(got.data, records[i - 1].data, got.bytes), 0);
    expect_record(reader, &records[i]);
  }
  FAILS(tn_record_find(reader, 11, &got), TN_NOT_FOUND, "key 11");
  cr_assert_null(got.data);
  tn_record_reader_release(reader);
  reader = open_reader(NULL);
  FAILS(tn_record_find(reader, 10, &got), TN_INVALID, "index");
  tn_record_reader_release(reader);
  free_records(records, MANY);
}

/* ------------------------------------------------------------------- damage */

static const blob three[] = {{"one!", 4}, {"two", 3}, {"three", 5}};

/* Writes three records, with one byte of the file changed, or its end cut off.
 */
static void damage(size_t at, int value, size_t cut) {
  size_t bytes = 0;
  write_records(three, 3, NULL);
  char *data = read_file(rec, &bytes);
  if (value >= 0) data[at] = (char)value;
  write_file(rec, data, bytes - cut);
  free(data);
}

Test(records, that_are_damaged_are_reported_and_the_next_one_is_read) {
  tn_record got;
  damage(12, 0, 0); /* the head of the second record */
  tn_record_reader *reader = open_reader(NULL);
  expect_record(reader, &three[0]);
  FAILS(tn_record_read(reader, &got), TN_INVALID,
        "record 1 of the part, at "
        "byte 12: no record begins here");
  cr_assert_null(got.data);
  expect_record(reader, &three[2]);
  expect_end(reader);
  cr_assert_eq(tn_record_count_damage(reader), 1);
  tn_record_reader_release(reader);
}

Test(records, that_are_damaged_are_skipped_if_the_reader_may) {
  const tn_record_options options = {.struct_size = sizeof options,
                                     .on_damage = TN_DAMAGE_SKIP};
  damage(19, 0x40, 0); /* the second record: a piece from the middle of one */
  tn_record_reader *reader = open_reader(&options);
  expect_record(reader, &three[0]);
  expect_record(reader, &three[2]);
  expect_end(reader);
  cr_assert_eq(tn_record_count_damage(reader), 1);
  tn_record_reader_release(reader);
}

Test(records, at_a_cut_end_are_reported) {
  static const char *const why[] = {"inside of the record",
                                    "inside of the head"};
  for (int i = 0; i < 2; ++i) {
    tn_record got;
    damage(0, -1, i == 0 ? 4 : 12);
    tn_record_reader *reader = open_reader(NULL);
    expect_record(reader, &three[0]);
    expect_record(reader, &three[1]);
    FAILS(tn_record_read(reader, &got), TN_INVALID, why[i]);
    expect_end(reader);
    tn_record_reader_release(reader);
  }
}

/* Every byte of a file with several pieces, changed in turn: no record that is
 * read is longer than the file, and the reader comes to the end. */
Test(records, of_hostile_files_end) {
  size_t bytes = 0;
  const tn_record_options options = {.struct_size = sizeof options,
                                     .on_damage = TN_DAMAGE_SKIP};
  blob *records = draw_records(6, 9);
  write_records(records, 6, NULL);
  char *data = read_file(rec, &bytes);
  for (size_t at = 0; at < bytes; ++at) {
    const char old = data[at];
    data[at] = (char)(old ^ (1 << at % 8));
    write_file(rec, data, bytes);
    data[at] = old;
    tn_record_reader *reader = open_reader(&options);
    tn_record got;
    size_t n = 0;
    do {
      OK(tn_record_read(reader, &got));
      cr_assert_leq(got.bytes, bytes);
    } while (got.data && ++n < bytes);
    cr_assert_lt(n, bytes);
    tn_record_reader_release(reader);
  }
  free(data);
  free_records(records, 6);
}

/* ----------------------------------------------------------------- mistakes */

Test(records, of_an_unfinished_file_leave_the_old_one) {
  tn_record_writer *writer = NULL;
  size_t bytes = 0;
  write_file(rec, "old", 3);
  OK(tn_record_writer_create(rt, rec, NULL, &writer));
  OK(tn_record_write(writer, 0, "new", 3));
  tn_record_writer_release(writer);
  char *data = read_file(rec, &bytes);
  cr_assert_str_eq(data, "old");
  free(data);
}

Test(records, with_a_key_twice_are_refused_at_the_end) {
  tn_record_writer *writer = NULL;
  size_t bytes = 0;
  write_file(rec, "old", 3);
  OK(tn_record_writer_create(rt, rec, idx, &writer));
  OK(tn_record_write(writer, 7, "a", 1));
  OK(tn_record_write(writer, 7, "b", 1));
  FAILS(tn_record_writer_finish(writer), TN_EXISTS, "key 7 occurs twice");
  FAILS(tn_record_write(writer, 8, "c", 1), TN_INVALID, "finished");
  tn_record_writer_release(writer);
  char *data = read_file(rec, &bytes);
  cr_assert_str_eq(data, "old");
  free(data);
  cr_assert_neq(access(idx, F_OK), 0);
}

Test(records, too_long_for_the_format_are_refused) {
  tn_record_writer *writer = NULL;
  static const char byte;
  OK(tn_record_writer_create(rt, rec, NULL, &writer));
  FAILS(tn_record_write(writer, 0, &byte, (size_t)1 << 29), TN_OUT_OF_RANGE,
        "536870911");
  OK(tn_record_write(writer, 0, &byte, 1));
  OK(tn_record_writer_finish(writer));
  tn_record_writer_release(writer);
}

Test(records, with_a_wrong_index_name_the_line) {
  static const struct {
    const char *index, *why;
  } wrong[] = {
      {"0\t0\n1\n", "line 2: a tab is missing"},
      {"0\t0\nx\t12\n", "line 2: a number is missing"},
      {"0\t0\n1\t13\n", "line 2: the offset is no multiple of 4"},
      {"0\t0\n1\t400\n", "line 2: the offset is after the end"},
      {"0\t12\n1\t0\n", "line 2: the offset is not greater"},
      {"0\t0 \n", "line 1: the line does not end"},
      {"0\t0\n99999999999999999999\t12\n", "line 2: a number does not"}};
  tn_record_reader *reader = NULL;
  const tn_record_options options = {.struct_size = sizeof options,
                                     .index = idx};
  write_records(three, 3, NULL);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    write_file(idx, wrong[i].index, strlen(wrong[i].index));
    FAILS(tn_record_reader_open(rt, rec, &options, &reader), TN_INVALID,
          wrong[i].why);
  }
  write_file(idx, "5\t0\n5\t12\n", 9);
  FAILS(tn_record_reader_open(rt, rec, &options, &reader), TN_EXISTS, "key 5");
  cr_assert_null(reader);
}

Test(records, with_wrong_options_are_refused) {
  tn_record_reader *reader = NULL;
  tn_record_writer *writer = NULL;
  write_records(three, 3, NULL);
  FAILS(
      tn_record_reader_open(rt, rec, &(tn_record_options){.part = 0}, &reader),
      TN_INVALID, "struct_size");
  FAILS(tn_record_reader_open(
            rt, rec,
            &(tn_record_options){.struct_size = sizeof(tn_record_options),
                                 .part = 2,
                                 .n_parts = 2},
            &reader),
        TN_INVALID, "part 2 of 2");
  FAILS(tn_record_reader_open(rt, "/nowhere/file.rec", NULL, &reader),
        TN_NOT_FOUND, "/nowhere/file.rec");
  FAILS(tn_record_writer_create(rt, rec, rec, &writer), TN_INVALID,
        "another name");
  FAILS(tn_record_writer_create(rt, "/nowhere/file.rec", NULL, &writer), TN_IO,
        "/nowhere/file.rec");
}

/* ------------------------------------------------------------------- labels */

/* The record that mxnet.recordio.pack makes of IRHeader(0, 1.5, 258, 3) and
 * "abcde", and of IRHeader(0, [2, -1], 7, 0) and "x": struct "IfQQ". */
static const char one_label[] =
    "\0\0\0\0\0\0\xc0\x3f\2\1\0\0\0\0\0\0\3\0\0\0\0\0\0\0abcde";
static const char two_labels[] =
    "\2\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\x80\xbfx";

static void expect_header(tn_record_reader *reader,
                          const tn_record_header *want) {
  tn_record record;
  tn_record_header got;
  OK(tn_record_read(reader, &record));
  OK(tn_record_header_read(&record, &got));
  cr_assert_eq(got.n_labels, want->n_labels);
  cr_assert_eq(got.label, want->label);
  cr_assert_eq(got.id, want->id);
  cr_assert_eq(got.id2, want->id2);
  for (uint32_t i = 0; i < want->n_labels; ++i)
    cr_assert_eq(got.labels[i], want->labels[i]);
  cr_assert_eq(got.bytes, want->bytes);
  cr_assert_eq(memcmp(got.data, want->data, want->bytes), 0);
}

Test(records, with_labels_are_written_as_mxnet_packs_them) {
  static const float labels[] = {2, -1};
  static const tn_record_header headers[] = {
      {.label = 1.5f, .id = 258, .id2 = 3, .data = "abcde", .bytes = 5},
      {.n_labels = 2, .id = 7, .labels = labels, .data = "x", .bytes = 1}};
  static const blob wanted[] = {{one_label, sizeof one_label - 1},
                                {two_labels, sizeof two_labels - 1}};
  tn_record_writer *writer = NULL;
  OK(tn_record_writer_create(rt, rec, NULL, &writer));
  for (int i = 0; i < 2; ++i)
    OK(tn_record_write_labelled(writer, 0, &headers[i]));
  OK(tn_record_writer_finish(writer));
  tn_record_writer_release(writer);
  tn_record_reader *reader = open_reader(NULL);
  for (int i = 0; i < 2; ++i) expect_record(reader, &wanted[i]);
  expect_end(reader);
  tn_record_rewind(reader);
  for (int i = 0; i < 2; ++i) expect_header(reader, &headers[i]);
  tn_record_reader_release(reader);
}

Test(records, without_room_for_their_labels_are_refused) {
  tn_record_header got;
  for (uint64_t n = 0; n < sizeof two_labels - 2; ++n) {
    char *data = malloc(n + 1); /* no byte after it may be read */
    memcpy(data, two_labels, n);
    const tn_record record = {.data = data, .bytes = n, .offset = 48};
    FAILS(tn_record_header_read(&record, &got), TN_INVALID, "byte 48");
    cr_assert_null(got.data);
    free(data);
  }
  const float longest[] = {0};
  const tn_record record = {.data = "\xff\xff\xff\xff", .bytes = 4};
  FAILS(tn_record_header_read(&record, &got), TN_INVALID, "shorter");
  tn_record_writer *writer = NULL;
  OK(tn_record_writer_create(rt, rec, NULL, &writer));
  for (int i = 0; i < 2; ++i) {
    const tn_record_header header = {.n_labels = i ? UINT32_MAX : 0,
                                     .labels = longest,
                                     .data = longest,
                                     .bytes = i ? 0 : (1u << 29) - 24};
    FAILS(tn_record_write_labelled(writer, 0, &header), TN_OUT_OF_RANGE,
          "536870911");
  }
  tn_record_writer_release(writer);
}

Test(records, that_are_damaged_have_a_place_and_a_reason) {
  tn_record got;
  tn_record_damage place;
  damage(12, 0, 0);
  tn_record_reader *reader = open_reader(NULL);
  expect_record(reader, &three[0]);
  FAILS(tn_record_damage_get(reader, &place), TN_NOT_FOUND, "no damaged place");
  FAILS(tn_record_read(reader, &got), TN_INVALID, "byte 12");
  OK(tn_record_damage_get(reader, &place));
  cr_assert_eq(place.record, 1);
  cr_assert_eq(place.offset, 12);
  cr_assert_str_eq(place.reason, "no record begins here");
  tn_record_reader_release(reader);
}
