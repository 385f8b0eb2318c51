/* SPDX-License-Identifier: Apache-2.0
 * test_files.c: valid files of arrays: files of independent origin
 * (tests/reference/files.py), round trips, and files that cannot be written.
 * test_hostile.c tests invalid files.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filebox.h"

TestSuite(files, .init = box_open, .fini = box_close);

static const float matrix_f4[] = {1, 2, 3, 4, 5, 6.5f};
static const double matrix_f8[] = {1, 2, 3, 4, 5, 6.5};

/* ----------------------------------------------------------- other programs */

Test(files, npy_of_every_format_and_order_reads_as_numpy_wrote_it) {
  expect_array(seed_path("npy/f4.npy"), NULL, SPEC(TN_F32, 2, 3), matrix_f4);
  expect_array(seed_path("npy/f8_columns.npy"), NULL, SPEC(TN_F64, 2, 3),
               matrix_f8);
  expect_array(seed_path("npy/i4_big.npy"), "", SPEC(TN_I32, 3),
               (int32_t[]){1, -2, 70000});
  expect_array(seed_path("npy/f8_big_columns.npy"), NULL, SPEC(TN_F64, 2, 3),
               matrix_f8);
  expect_array(seed_path("npy/bools.npy"), NULL, SPEC(TN_BOOL, 3),
               (uint8_t[]){1, 0, 1});
  expect_array(seed_path("npy/u1_empty.npy"), NULL, SPEC(TN_U8, 0, 3), "");
  expect_array(seed_path("npy/f2_scalar.npy"), NULL,
               &(tn_spec){TN_F16, 0, NULL}, (uint16_t[]){0xbe00});
}

Test(files, npz_stored_and_deflated_read_as_numpy_wrote_them) {
  int16_t ramp[300];
  for (int i = 0; i < 300; ++i) ramp[i] = (int16_t)i;
  expect_array(seed_path("npz/stored.npz"), "weight", SPEC(TN_F32, 2, 3),
               matrix_f4);
  expect_array(seed_path("npz/stored.npz"), "bias", &(tn_spec){TN_I64, 0, NULL},
               (int64_t[]){7});
  expect_array(seed_path("npz/stored.npz"), "none", SPEC(TN_U16, 2, 0), "");
  expect_array(seed_path("npz/deflated.npz"), "ramp", SPEC(TN_I16, 300), ramp);
  expect_array(seed_path("npz/deflated.npz"), "columns", SPEC(TN_F64, 2, 3),
               matrix_f8);
  expect_array(seed_path("npz/zip64.npz"), NULL, SPEC(TN_BOOL, 3),
               (uint8_t[]){1, 0, 1});
}

Test(files, safetensors_read_with_all_types_and_unaligned_ranges) {
  const char *path = seed_path("safetensors/mixed.safetensors");
  expect_array(path, "weight", SPEC(TN_F32, 2, 3), matrix_f4);
  expect_array(path, "half", SPEC(TN_F16, 2), (uint16_t[]){0x3800, 0xc000});
  expect_array(path, "brain", SPEC(TN_BF16, 2), (uint16_t[]){0x3f80, 0xc000});
  expect_array(path, "flags", SPEC(TN_BOOL, 3), (uint8_t[]){1, 0, 1});
  expect_array(path, "step", &(tn_spec){TN_I64, 0, NULL}, (int64_t[]){-9});
  expect_array(path, "none", SPEC(TN_U16, 4, 0), "");
}

Test(files, a_bundle_lists_its_arrays_in_order_of_names) {
  static const char *const names[] = {"brain", "flags", "half",
                                      "none",  "step",  "weight"};
  tn_bundle *bundle = open_bundle(seed_path("safetensors/mixed.safetensors"));
  cr_assert_eq(bundle->n, 6);
  for (size_t i = 0; i < 6; ++i)
    cr_expect_str_eq(bundle->entries[i].name, names[i]);
  cr_assert_eq(bundle->n_metadata, 2);
  cr_expect_str_eq(bundle->metadata[0].key,
                   "Gr\xc3\xb6\xc3\x9f"
                   "e");
  cr_expect_str_eq(bundle->metadata[0].value, "\"2\"\n");
  cr_expect_str_eq(bundle->metadata[1].key, "format");
  cr_expect_str_eq(bundle->metadata[1].value, "pt");
  tn__bundle_close(bundle);
}

Test(files, bundles_without_arrays_are_bundles) {
  tn_array *array = NULL;
  const char *const names[] = {"npz/empty.npz",
                               "safetensors/empty.safetensors"};
  for (size_t i = 0; i < 2; ++i) {
    tn_bundle *bundle = open_bundle(seed_path(names[i]));
    cr_expect_eq(bundle->n, 0);
    cr_expect_eq(tn__bundle_get(bundle, NULL, 0, &array), TN_NOT_FOUND);
    cr_expect_eq(tn__bundle_get(bundle, "a", 0, &array), TN_NOT_FOUND);
    tn__bundle_close(bundle);
  }
}

Test(files, a_format_without_an_ending_is_found_by_its_first_bytes) {
  const char *const names[] = {"npy/f4.npy", "npz/stored.npz",
                               "safetensors/mixed.safetensors"};
  for (size_t i = 0; i < 3; ++i) {
    bytes b = {.n = 0};
    read_bytes(seed_path(names[i]), &b);
    write_bytes(box_path("unnamed"), &b);
    cr_expect_eq(read_all(box_path("unnamed")), TN_OK, "%s", tn_error_text());
  }
  write_bytes(box_path("unnamed"), &(bytes){.data = "some text", .n = 9});
  cr_expect_eq(read_all(box_path("unnamed")), TN_INVALID);
  EXPECT_TEXT("unnamed: neither a .npy, nor a .npz, nor a .safetensors");
}

Test(files, a_wrong_name_is_reported_with_the_nearest_one) {
  tn_array *array = NULL;
  tn_bundle *bundle = open_bundle(seed_path("npz/stored.npz"));
  cr_expect_eq(tn__bundle_get(bundle, "wieght", 0, &array), TN_NOT_FOUND);
  EXPECT_TEXT("no array `wieght` among 3", "is `weight` meant?");
  cr_expect_eq(tn__bundle_get(bundle, NULL, 0, &array), TN_NOT_FOUND);
  EXPECT_TEXT("there are 3 arrays in the file; say which one is meant");
  cr_expect_eq(tn__bundle_get(bundle, "bias", 8, &array), TN_INVALID);
  tn__bundle_close(bundle);
}

Test(files, json_escapes_become_utf_8) {
  char text[] = "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\/\\b\\\"\" ";
  tn__json json = {text, text, text + sizeof text - 1, 0, NULL};
  const char *string = NULL;
  cr_assert_eq(tn__json_string(&json, &string), TN_OK, "%s", tn_error_text());
  cr_expect_str_eq(string, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\b\"");
  cr_expect_eq(tn__json_end(&json), TN_OK);
}

/* ------------------------------------------------------------------ mapping */

static tn_array *map_array(const char *path, const char *name) {
  tn_array *array = NULL;
  tn_bundle *bundle = open_bundle(path);
  cr_assert_eq(tn__bundle_get(bundle, name, TN_BUNDLE_MAP, &array), TN_OK);
  tn__bundle_close(bundle);
  return array;
}

Test(files, mapped_elements_are_the_files_own_and_writes_stay_private) {
  bytes before = {.n = 0}, after = {.n = 0};
  read_bytes(seed_path("npy/f4.npy"), &before);
  write_bytes(box_path("m.npy"), &before);
  tn_array *array = map_array(box_path("m.npy"), NULL);
  cr_expect_not_null(array->block->drop);
  cr_expect_eq((uintptr_t)tn__array_data(array) % 4096, 128);
  const float other[6] = {9, 9, 9, 9, 9, 9};
  cr_assert_eq(tn__array_set(array, other, sizeof other), TN_OK);
  expect(array, 6, other);
  tn__array_release(array);
  read_bytes(box_path("m.npy"), &after);
  cr_expect_eq(memcmp(before.data, after.data, before.n), 0);
}

Test(files, entries_that_cannot_be_mapped_are_read) {
  const char *path = seed_path("safetensors/mixed.safetensors");
  tn_array *array = map_array(path, "step"); /* not aligned */
  cr_expect_null(array->block->drop);
  tn__array_release(array);
  array = map_array(path, "weight"); /* the elements begin at byte 427 */
  cr_expect_null(array->block->drop);
  tn__array_release(array);
  array = map_array(seed_path("npy/i4_big.npy"), NULL); /* big endian */
  cr_expect_null(array->block->drop);
  tn__array_release(array);
}

/* -------------------------------------------------------------- round trips */

static tn_code save_with_flags(const char *path, const tn_bundle_item *items,
                               size_t n, uint32_t flags) {
  return tn__bundle_save(
      &w.env, path,
      &(tn_bundle_content){.struct_size = sizeof(tn_bundle_content),
                           .flags = flags,
                           .items = items,
                           .n_items = n});
}

static tn_code save_items(const char *path, const tn_bundle_item *items,
                          size_t n) {
  return save_with_flags(path, items, n, 0);
}

/* Bit patterns that must survive: NaN with a payload, -0, the largest. */
static const uint64_t patterns[] = {0x7ff8123456789abc, 0x8000000000000000,
                                    0xffffffffffffffff, 0x0123456789abcdef};

static tn_array *make_patterned(tn_dtype dtype, unsigned char *to) {
  static const unsigned char bools[4] = {1, 0, 0, 1};
  const size_t n = (size_t)tn_dtype_bytes_of(dtype, 4);
  memcpy(to, dtype == TN_BOOL ? (const void *)bools : (const void *)patterns,
         n);
  tn_array *array = empty(dtype, SHAPE(2, 2));
  cr_assert_eq(tn__array_set(array, to, n), TN_OK);
  return array;
}

static void round_trip(const char *name, size_t d, uint32_t flags) {
  unsigned char elements[32];
  const tn_dtype dtype = tn__dtype_at(d);
  tn_array *array = make_patterned(dtype, elements);
  const tn_bundle_item item = {"x", array};
  cr_assert_eq(save_with_flags(box_path(name), &item, 1, flags), TN_OK, "%s",
               tn_error_text());
  tn__array_release(array);
  expect_array(box_path(name), NULL, SPEC(dtype, 2, 2), elements);
}

Test(files, every_type_survives_every_format_bit_for_bit) {
  for (size_t d = 0; d < TN__N_DTYPES; ++d) {
    if (tn__dtype_bit(tn__dtype_at(d)) & (TN_BITS_PACKED & ~TN_BIT_F4E2M1))
      continue; /* no format has them */
    round_trip("x.safetensors", d, 0);
    if (tn__dtype_at(d) == TN_BF16 || tn__dtype_is_storage(tn__dtype_at(d)))
      continue;
    round_trip("x.npy", d, 0);
    round_trip("x.npz", d, 0);
    round_trip("x.npz", d, TN_BUNDLE_DEFLATE);
  }
}

/* As safetensors 0.8.0 reads and writes them. */
Test(files, safetensors_name_storage_types_as_others_do) {
  static const struct {
    tn_dtype dtype;
    const char *text;
  } types[] = {{TN_F8E4M3FN, "\"F8_E4M3\""},
               {TN_F8E4M3FNUZ, "\"F8_E4M3FNUZ\""},
               {TN_F8E5M2, "\"F8_E5M2\""},
               {TN_F8E5M2FNUZ, "\"F8_E5M2FNUZ\""},
               {TN_F8E8M0, "\"F8_E8M0\""},
               {TN_F4E2M1, "\"F4\",\"shape\":[2,2],\"data_offsets\":[0,2]"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    bytes b = {.n = 0};
    unsigned char elements[32];
    tn_array *array = make_patterned(types[i].dtype, elements);
    const tn_bundle_item item = {"x", array};
    cr_assert_eq(save_items(box_path("x.safetensors"), &item, 1), TN_OK);
    tn__array_release(array);
    read_bytes(box_path("x.safetensors"), &b);
    cr_expect(memmem(b.data, b.n, types[i].text, strlen(types[i].text)), "%s",
              types[i].text);
  }
}

Test(files, storage_types_that_a_format_lacks_are_refused_with_advice) {
  tn_array *packed = empty(TN_I4, SHAPE(2)), *odd = empty(TN_F4E2M1, SHAPE(3));
  tn_array *narrow = empty(TN_F8E5M2, SHAPE(2));
  tn_bundle_item item = {"x", packed};
  cr_expect_eq(save_items(box_path("x.safetensors"), &item, 1), TN_UNSUPPORTED);
  EXPECT_TEXT("x.safetensors: `x` is i4, which .safetensors cannot name",
              "elemwise.cast");
  item.array = odd;
  cr_expect_eq(save_items(box_path("x.safetensors"), &item, 1), TN_UNSUPPORTED);
  EXPECT_TEXT(
      "x.safetensors: `x` has 3 elements of f4e2m1, which end within "
      "a byte");
  item.array = narrow;
  cr_expect_eq(save_items(box_path("x.npy"), &item, 1), TN_UNSUPPORTED);
  EXPECT_TEXT("x.npy: the array is f8e5m2, which .npy cannot name",
              ".safetensors", "elemwise.cast");
  tn__array_release(packed), tn__array_release(odd);
  tn__array_release(narrow);
}

Test(files, npy_is_written_byte_for_byte_as_numpy_does) {
  bytes theirs = {.n = 0}, ours = {.n = 0};
  tn_array *array = floats(SHAPE(2, 3), 6, matrix_f4);
  const tn_bundle_item item = {NULL, array};
  cr_assert_eq(save_items(box_path("f4.npy"), &item, 1), TN_OK, "%s",
               tn_error_text());
  tn__array_release(array);
  read_bytes(seed_path("npy/f4.npy"), &theirs);
  read_bytes(box_path("f4.npy"), &ours);
  cr_assert_eq(ours.n, theirs.n);
  cr_expect_eq(memcmp(ours.data, theirs.data, ours.n), 0);
}

Test(files, safetensors_are_written_aligned_wide_elements_first) {
  static const char text[] =
      "{\"__metadata__\":{\"k\":\"v\\n\"},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[4,5]}}";
  bytes b = {.n = 0};
  tn_array *one = scalar(1), *flag = empty(TN_BOOL, SHAPE(1));
  cr_assert_eq(tn__array_set(flag, "\1", 1), TN_OK);
  const tn_bundle_item items[] = {{"a", flag}, {"b", one}};
  const tn_bundle_pair pair = {"k", "v\n"};
  cr_assert_eq(tn__bundle_save(&w.env, box_path("x.safetensors"),
                               &(tn_bundle_content){
                                   .struct_size = sizeof(tn_bundle_content),
                                   .items = items,
                                   .n_items = 2,
                                   .metadata = &pair,
                                   .n_metadata = 1}),
               TN_OK, "%s", tn_error_text());
  read_bytes(box_path("x.safetensors"), &b);
  const size_t n = sizeof text - 1, padded = (n + 7) / 8 * 8;
  cr_assert_eq(b.n, 8 + padded + 5);
  cr_expect_eq(b.data[0] | b.data[1] << 8, (int)padded);
  cr_expect_eq(memcmp(b.data + 8, text, n), 0);
  cr_expect_eq(memcmp(b.data + 8 + padded, "\0\0\x80\x3f\1", 5), 0);
  tn__array_release(one), tn__array_release(flag);
}

Test(files, views_are_written_as_the_elements_they_show) {
  enum { ROWS = 300, COLUMNS = 500 };
  int32_t *values = malloc(sizeof(int32_t) * ROWS * COLUMNS);
  int32_t *turned = malloc(sizeof(int32_t) * ROWS * COLUMNS);
  tn_array *array = empty(TN_I32, SHAPE(ROWS, COLUMNS)), *view = NULL;
  for (int32_t i = 0; i < ROWS * COLUMNS; ++i) {
    values[i] = i;
    turned[i % COLUMNS * ROWS + i / COLUMNS] = i;
  }
  cr_assert_eq(tn__array_set(array, values, sizeof(int32_t) * ROWS * COLUMNS),
               TN_OK);
  cr_assert_eq(tn__array_transpose(array, NULL, &view), TN_OK);
  const tn_bundle_item item = {"x", view};
  cr_assert_eq(save_with_flags(box_path("v.npz"), &item, 1, TN_BUNDLE_DEFLATE),
               TN_OK, "%s", tn_error_text());
  expect_array(box_path("v.npz"), "x", SPEC(TN_I32, COLUMNS, ROWS), turned);
  tn__array_release(view), tn__array_release(array);
  free(values), free(turned);
}

Test(files, rows_longer_than_the_buffer_and_backward_steps_are_written_too) {
  enum { N = 20000 };
  static uint16_t values[2 * N], expected[2 * (N / 2)];
  tn_array *array = empty(TN_U16, SHAPE(2, N)), *view = NULL;
  for (size_t i = 0; i < 2 * N; ++i) values[i] = (uint16_t)(i * 7);
  for (size_t r = 0; r < 2; ++r)
    for (size_t i = 0; i < N / 2; ++i)
      expected[r * (N / 2) + i] = values[r * N + N - 1 - 2 * i];
  cr_assert_eq(tn__array_set(array, values, sizeof values), TN_OK);
  cr_assert_eq(
      tn__array_slice(
          array,
          &(tn_range){.axis = 1, .begin = N - 1, .end = -N - 1, .step = -2},
          &view),
      TN_OK, "%s", tn_error_text());
  const tn_bundle_item item = {"x", view};
  cr_assert_eq(save_items(box_path("v.npy"), &item, 1), TN_OK, "%s",
               tn_error_text());
  expect_array(box_path("v.npy"), NULL, SPEC(TN_U16, 2, N / 2), expected);
  tn__array_release(view), tn__array_release(array);
}

Test(files, scalars_empty_and_unwritten_arrays_come_back) {
  static const float zeros[6] = {0};
  tn_array *one = scalar(2.5f), *none = empty(TN_F32, SHAPE(3, 0)),
           *fresh = empty(TN_F32, SHAPE(2, 3));
  const tn_bundle_item items[] = {
      {"one", one}, {"none", none}, {"deep/fresh", fresh}};
  const char *const names[] = {"x.npz", "x.safetensors"};
  for (size_t i = 0; i < 2; ++i) {
    const char *path = box_path(names[i]);
    cr_assert_eq(save_items(path, items, 3), TN_OK, "%s", tn_error_text());
    expect_array(path, "one", &(tn_spec){TN_F32, 0, NULL}, (float[]){2.5f});
    expect_array(path, "none", SPEC(TN_F32, 3, 0), "");
    expect_array(path, "deep/fresh", SPEC(TN_F32, 2, 3), zeros);
  }
  tn__array_release(one), tn__array_release(none), tn__array_release(fresh);
}

Test(files, the_same_content_makes_the_same_bytes) {
  const char *const names[] = {"a.npz", "b.npz"};
  bytes b[2] = {{.n = 0}, {.n = 0}};
  tn_array *array = floats(SHAPE(2, 3), 6, matrix_f4);
  const tn_bundle_item item = {"x", array};
  for (size_t i = 0; i < 2; ++i) {
    cr_assert_eq(
        save_with_flags(box_path(names[i]), &item, 1, TN_BUNDLE_DEFLATE),
        TN_OK);
    read_bytes(box_path(names[i]), &b[i]);
  }
  cr_assert_eq(b[0].n, b[1].n);
  cr_expect_eq(memcmp(b[0].data, b[1].data, b[0].n), 0);
  tn__array_release(array);
}

/* ------------------------------------------------------------------ refusals
 */

Test(files, contents_that_a_format_cannot_hold_are_refused_with_advice) {
  tn_array *array = empty(TN_BF16, SHAPE(2));
  tn_bundle_item items[] = {{"x", array}, {"x", array}};
  cr_expect_eq(save_items(box_path("x.npy"), items, 1), TN_UNSUPPORTED);
  EXPECT_TEXT("x.npy: the array is bf16, which .npy cannot name",
              ".safetensors", "tn_array_cast");
  cr_expect_eq(save_items(box_path("x.npz"), items, 1), TN_UNSUPPORTED);
  EXPECT_TEXT("`x` is bf16");
  cr_expect_eq(save_items(box_path("x.npy"), items, 2), TN_INVALID);
  EXPECT_TEXT("a .npy holds one array, not 2; save a .npz");
  cr_expect_eq(save_items(box_path("x.pt"), items, 1), TN_INVALID);
  EXPECT_TEXT("x.pt: the end of a file's name decides its format");
  cr_expect_eq(save_items(box_path("x.safetensors"), items, 2), TN_INVALID);
  EXPECT_TEXT("two arrays are named `x`");
  cr_expect_eq(
      save_with_flags(box_path("x.safetensors"), items, 1, TN_BUNDLE_DEFLATE),
      TN_INVALID);
  items[0].name = "../x";
  cr_expect_eq(save_items(box_path("x.safetensors"), items, 1), TN_INVALID);
  EXPECT_TEXT("array 0: the name of an array leads upwards with `..`");
  tn__array_release(array);
}

Test(files, metadata_that_is_not_utf_8_is_refused) {
  tn_array *array = scalar(1);
  const tn_bundle_item item = {"x", array};
  const tn_bundle_pair pairs[] = {{"k\xff", "v"}, {"k", "v\xc3"}};
  static const char *const said[] = {
      "x.safetensors: the key of metadata 0 is not UTF-8",
      "x.safetensors: the value of metadata 0 is not UTF-8"};
  for (size_t i = 0; i < 2; ++i) {
    const tn_bundle_content content = {.struct_size = sizeof content,
                                       .items = &item,
                                       .n_items = 1,
                                       .metadata = &pairs[i],
                                       .n_metadata = 1};
    cr_expect_eq(tn__bundle_save(&w.env, box_path("x.safetensors"), &content),
                 TN_INVALID);
    EXPECT_TEXT(said[i]);
  }
  tn__array_release(array);
}

Test(files, a_failed_write_leaves_no_files) {
  tn_array *array = scalar(1);
  const tn_bundle_item item = {"x", array};
  cr_expect_eq(save_items(box_path("no/x.npy"), &item, 1), TN_IO);
  EXPECT_TEXT("no/x.npy: cannot be created: No such file");
  cr_assert_eq(mkdir(box_path("d.npy"), 0700), 0);
  cr_expect_eq(save_items(box_path("d.npy"), &item, 1), TN_IO);
  EXPECT_TEXT("d.npy: cannot be written: Is a directory");
  cr_expect_eq(rmdir(box_path("d.npy")), 0);
  tn__array_release(array);
}

static int fail_sync(int fd) {
  (void)fd;
  return -1;
}

static ssize_t fail_write(int fd, const void *from, size_t n, int64_t at) {
  (void)fd, (void)from, (void)n, (void)at;
  return -1;
}

Test(files, a_failed_save_leaves_the_old_file_as_it_was) {
  tn_array *one = scalar(1), *two = scalar(2);
  const tn_bundle_item items[] = {{"x", one}, {"y", two}};
  cr_assert_eq(save_items(box_path("x.npz"), items, 1), TN_OK);
  tn__os os[] = {tn__os_real, tn__os_real};
  os[0].sync = fail_sync;
  os[1].pwrite = fail_write;
  for (size_t i = 0; i < 2; ++i) {
    w.env.os = &os[i];
    cr_expect_eq(save_items(box_path("x.npz"), items, 2), TN_IO);
    EXPECT_TEXT("x.npz: cannot be");
    w.env.os = &tn__os_real;
    expect_array(box_path("x.npz"), "x", &(tn_spec){TN_F32, 0, NULL},
                 (float[]){1});
  }
  tn__array_release(one), tn__array_release(two);
}

/* ----------------------------------------- links, FIFOs, permissions, names */

/* Mode of the name itself; does not follow links. */
static mode_t mode_of(const char *path) {
  struct stat info;
  cr_assert_eq(lstat(path, &info), 0, "%s", path);
  return info.st_mode;
}

/* A name in the box. The caller frees it. */
static char *box_name(const char *name) {
  char *copy = strdup(box_path(name));
  cr_assert_not_null(copy);
  return copy;
}

static void save_scalar(const char *path, float value, tn_code expected) {
  tn_array *array = scalar(value);
  const tn_bundle_item item = {"x", array};
  cr_assert_eq(save_items(path, &item, 1), expected, "%s", tn_error_text());
  tn__array_release(array);
}

static void expect_scalar(const char *path, float value) {
  expect_array(path, NULL, &(tn_spec){TN_F32, 0, NULL}, &value);
}

Test(files, a_link_stays_and_its_target_is_replaced) {
  char *link = box_name("link.npy"), *next = box_name("next.npy"),
       *file = box_name("file.npy");
  cr_assert_eq(symlink("next.npy", link), 0);
  cr_assert_eq(symlink("file.npy", next), 0);
  for (int i = 0; i < 2; ++i) { /* created, then replaced */
    save_scalar(link, (float)i, TN_OK);
    cr_expect(S_ISLNK(mode_of(link)) && S_ISLNK(mode_of(next)));
    cr_expect(S_ISREG(mode_of(file)));
    expect_scalar(file, (float)i);
  }
  char *whole = realpath(file, NULL);
  cr_assert(whole && unlink(link) == 0 && symlink(whole, link) == 0);
  save_scalar(link, 7, TN_OK);
  expect_scalar(file, 7);
  cr_assert(unlink(link) == 0 && symlink("link.npy", link) == 0);
  save_scalar(link, 8, TN_IO);
  EXPECT_TEXT("link.npy: cannot be created: Too many levels of symbolic links");
  free(link), free(next), free(file), free(whole);
}

Test(files, a_replaced_file_keeps_its_permissions) {
  static const mode_t modes[] = {0600, 0640, 0444, 0666};
  char *path = box_name("x.npy");
  const mode_t mask = umask(022);
  save_scalar(path, 1, TN_OK);
  cr_expect_eq(mode_of(path) & 07777, 0644);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i) {
    cr_assert_eq(chmod(path, modes[i]), 0);
    save_scalar(path, 2, TN_OK);
    cr_expect_eq(mode_of(path) & 07777, modes[i], "%o", (unsigned)modes[i]);
  }
  umask(mask);
  free(path);
}

/* The other end is open already, so no one waits. */
Test(files, a_fifo_is_written_to) {
  bytes file, piped;
  char *fifo = box_name("fifo.npy");
  save_scalar(box_path("file.npy"), 5, TN_OK);
  read_bytes(box_path("file.npy"), &file);
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  const int end = open(fifo, O_RDONLY | O_NONBLOCK);
  cr_assert_geq(end, 0);
  save_scalar(fifo, 5, TN_OK);
  const ssize_t n = read(end, piped.data, sizeof piped.data);
  cr_expect_eq(n, (ssize_t)file.n);
  cr_expect_eq(memcmp(piped.data, file.data, file.n), 0);
  cr_expect(S_ISFIFO(mode_of(fifo)));
  cr_assert_eq(rename(fifo, box_path("fifo.npz")), 0);
  save_scalar(box_path("fifo.npz"), 5, TN_UNSUPPORTED);
  EXPECT_TEXT("fifo.npz: is no regular file", "save into a regular file");
  close(end);
  free(fifo);
}

/* To open it would wait for a reader that may never come. */
Test(files, a_fifo_without_a_reader_is_refused) {
  char *fifo = box_name("fifo.npy");
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  save_scalar(fifo, 5, TN_IO);
  EXPECT_TEXT("fifo.npy: is a FIFO (named pipe) without a reader");
  cr_expect(S_ISFIFO(mode_of(fifo)));
  free(fifo);
}

/* The reader is slower than the writer; no byte is lost. */
Test(files, a_fifo_with_a_slow_reader_gets_all_bytes) {
  enum { N = 100000 };
  static float values[N];
  char *fifo = box_name("fifo.npy"), command[256];
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  const int end = open(fifo, O_RDONLY | O_NONBLOCK);
  (void)snprintf(command, sizeof command, "cat '%s' | wc -c > '%s.n'", fifo,
                 fifo);
  FILE *reader = popen(command, "w");
  cr_assert(end >= 0 && reader);
  tn_array *array = floats(1, (const int64_t[]){N}, N, values);
  const tn_bundle_item item = {"x", array};
  cr_assert_eq(save_items(fifo, &item, 1), TN_OK, "%s", tn_error_text());
  close(end);
  cr_assert_eq(pclose(reader), 0);
  (void)snprintf(command, sizeof command, "%s.n", fifo);
  FILE *counted = fopen(command, "r");
  unsigned long n = 0;
  cr_assert(counted && fscanf(counted, "%lu", &n) == 1);
  cr_expect_eq(n, 128 + sizeof values);
  (void)fclose(counted);
  tn__array_release(array);
  free(fifo);
}

Test(files, a_name_may_be_as_long_as_the_system_allows) {
  char name[256];
  memset(name, 'n', 255);
  strcpy(name + 255 - 4, ".npy");
  save_scalar(box_path(name), 3, TN_OK);
  expect_scalar(box_path(name), 3);
}

Test(files, every_allocation_of_reading_and_writing_may_fail) {
  static const char *const seeds[] = {"npz/deflated.npz", "npy/f8_columns.npy",
                                      "safetensors/mixed.safetensors"};
  for (size_t i = 0; i < 3; ++i) {
    tn_code rc = TN_OUT_OF_MEMORY;
    for (int64_t k = 1; rc; ++k) {
      w.memory.asked = 0;
      w.memory.fail_at = k;
      w.memory.for_ever = true;
      rc = read_all(seed_path(seeds[i]));
      w.memory.fail_at = 0;
      if (rc) cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
      cr_assert_lt(k, 500);
      tn__heap_trim(w.env.cpu);
    }
  }
  tn_array *array = floats(SHAPE(2, 3), 6, matrix_f4);
  const tn_bundle_item item = {"x", array};
  static const char *const names[] = {"x.npy", "x.npz", "x.safetensors"};
  for (size_t i = 0; i < 3; ++i) {
    tn_code rc = TN_OUT_OF_MEMORY;
    for (int64_t k = 1; rc; ++k) {
      w.memory.asked = 0;
      w.memory.fail_at = k;
      rc = save_with_flags(box_path(names[i]), &item, 1,
                           i == 1 ? TN_BUNDLE_DEFLATE : 0);
      w.memory.fail_at = 0;
      if (rc) cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
      cr_assert_lt(k, 500);
    }
  }
  tn__array_release(array);
}
