/* SPDX-License-Identifier: Apache-2.0
 * Tests of npy.c. Every file is put together here byte by byte, after the
 * description of the format in NumPy's documentation (numpy.lib.format).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon_tool.h"

static char path[] = "test_npy_XXXXXX";

static void make_file(void) {
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  close(fd);
}

static void remove_file(void) {
  remove(path);
}

TestSuite(npy, .init = make_file, .fini = remove_file);

static void write_bytes(const void *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  cr_assert_eq(fwrite(bytes, 1, n, file), n);
  cr_assert_eq(fclose(file), 0);
}

/* A file of format `version` with this dictionary and these elements. */
static void write_npy(int version, const char *header, const void *data,
                      size_t n) {
  unsigned char bytes[1024] = "\x93NUMPY";
  size_t length = strlen(header);
  size_t at = 6;
  bytes[at++] = (unsigned char)version;
  bytes[at++] = 0;
  bytes[at++] = (unsigned char)(length & 0xff);
  bytes[at++] = (unsigned char)(length >> 8);
  if (version > 1) at += 2; /* the upper half of the length is zero */
  memcpy(bytes + at, header, length);
  at += length;
  if (n) memcpy(bytes + at, data, n);
  write_bytes(bytes, at + n);
}

static void expect_printed(const char *expected) {
  tensor t = {0};
  text out = {0}, why = {0};
  cr_assert(npy_read(path, &t, &why), "%s", text_get(&why));
  print_tensor(&t, false, &out);
  cr_expect_str_eq(text_get(&out), expected);
  tensor_deinit(&t);
  text_deinit(&out);
}

/* The message must be the path, then `expected`. */
static void expect_refused(const char *expected) {
  tensor t = {0};
  text why = {0};
  cr_expect_not(npy_read(path, &t, &why));
  cr_expect_null(t.data);
  cr_assert_eq(strncmp(text_get(&why), path, strlen(path)), 0);
  cr_expect_str_eq(text_get(&why) + strlen(path), expected);
  text_deinit(&why);
}

#define HEADER(descr, order, shape) \
  "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

Test(npy, reads_formats_1_to_3) {
  const float data[] = {1, 2, 3, 4, 5, 6};
  for (int version = 1; version <= 3; ++version) {
    write_npy(version, HEADER("<f4", "False", "(2, 3)"), data, sizeof data);
    expect_printed("[[1, 2, 3],\n [4, 5, 6]]\n");
  }
}

Test(npy, turns_column_major_order_around) {
  const int32_t data[] = {1, 4, 2, 5, 3, 6};
  write_npy(1, HEADER("<i4", "True", "(2, 3)"), data, sizeof data);
  expect_printed("[[1, 2, 3],\n [4, 5, 6]]\n");
  /* Element (i,j,k) of shape (2,2,2) lies at i + 2j + 4k. */
  const int8_t cube[] = {0, 1, 2, 3, 4, 5, 6, 7};
  write_npy(1, HEADER("|i1", "True", "(2, 2, 2)"), cube, sizeof cube);
  expect_printed("[[[0, 4],\n  [2, 6]],\n [[1, 5],\n  [3, 7]]]\n");
}

Test(npy, reads_every_element_type) {
  write_npy(1, HEADER("<f2", "False", "(2,)"), (uint16_t[]){0x3c00, 0xc000}, 4);
  expect_printed("[1, -2]\n");
  write_npy(1, HEADER("<f8", "False", "()"), (double[]){0.1}, 8);
  expect_printed("0.1\n");
  write_npy(1, HEADER("<i2", "False", "(1,)"), (int16_t[]){-300}, 2);
  expect_printed("[-300]\n");
  write_npy(1, HEADER("<i8", "False", "(1,)"), (int64_t[]){INT64_MIN}, 8);
  expect_printed("[-9223372036854775808]\n");
  write_npy(1, HEADER("|u1", "False", "(1,)"), (uint8_t[]){255}, 1);
  expect_printed("[255]\n");
  write_npy(1, HEADER("<u2", "False", "(1,)"), (uint16_t[]){65535}, 2);
  expect_printed("[65535]\n");
  write_npy(1, HEADER("<u4", "False", "(1,)"), (uint32_t[]){4294967295u}, 4);
  expect_printed("[4294967295]\n");
  write_npy(1, HEADER("<u8", "False", "(1,)"), (uint64_t[]){UINT64_MAX}, 8);
  expect_printed("[18446744073709551615]\n");
  write_npy(1, HEADER("|b1", "False", "(3,)"), (uint8_t[]){0, 1, 2}, 3);
  expect_printed("[false, true, true]\n");
}

Test(npy, reads_empty_arrays) {
  write_npy(1, HEADER("<f4", "False", "(0, 3)"), NULL, 0);
  expect_printed("[]\n");
}

Test(npy, refuses_other_byte_orders_and_types) {
  write_npy(1, HEADER(">f4", "False", "(1,)"), "\0\0\0", 4);
  expect_refused(
      ": element type `>f4` is not supported; convert the array, for example "
      "with .astype('<f4')");
  write_npy(1, HEADER("<c8", "False", "(1,)"), "\0\0\0\0\0\0\0", 8);
  expect_refused(
      ": element type `<c8` is not supported; convert the array, for example "
      "with .astype('<f4')");
  write_npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False}", NULL, 0);
  expect_refused(
      ": records (structured types) are not supported; save one field of the "
      "array");
}

Test(npy, refuses_files_that_are_something_else) {
  write_bytes("", 0);
  expect_refused(": 0 bytes are too short for a .npy file");
  write_bytes("PK\3\4 a zip file", 15);
  expect_refused(": not a .npy file: it does not begin with \\x93NUMPY");
  write_npy(4, HEADER("<f4", "False", "(1,)"), "\0\0\0", 4);
  expect_refused(": .npy format 4.0 is not known; 1 to 3 are supported");
}

Test(npy, refuses_missing_files_and_folders) {
  tensor t = {0};
  text why = {0};
  cr_expect_not(npy_read("no such file.npy", &t, &why));
  cr_expect_str_eq(text_get(&why),
                   "no such file.npy: No such file or directory");
  cr_expect_not(npy_read(".", &t, &why));
  cr_expect_str_eq(text_get(&why), ".: not a regular file");
  text_deinit(&why);
}

Test(npy, refuses_truncated_and_overlong_data) {
  write_npy(1, HEADER("<f4", "False", "(2, 3)"), "\0\0\0\0\0\0\0", 8);
  expect_refused(
      ": the shape wants 24 bytes of elements, the file has 8; it is "
      "truncated");
  write_npy(1, HEADER("<f4", "False", "()"), "\0\0\0\0\0\0\0", 8);
  expect_refused(
      ": the shape wants 4 bytes of elements, the file has 8; it is damaged");
}

Test(npy, refuses_every_truncated_prefix_without_reading_beyond) {
  const char *header = HEADER("<f4", "False", "(1,)");
  unsigned char bytes[128] = "\x93NUMPY\1";
  size_t n = 10 + strlen(header) + 4;
  bytes[8] = (unsigned char)strlen(header);
  memcpy(bytes + 10, header, strlen(header));
  for (size_t length = 0; length < n; ++length) {
    tensor t = {0};
    text why = {0};
    write_bytes(bytes, length);
    cr_expect_not(npy_read(path, &t, &why), "%zu bytes were taken", length);
    cr_expect_neq(why.n, 0);
    text_deinit(&why);
  }
}

Test(npy, refuses_sizes_that_overflow) {
  write_npy(1, HEADER("<f8", "False", "(4294967296, 4294967296)"), NULL, 0);
  expect_refused(": the shape's size overflows 64 bits");
  write_npy(1, HEADER("<f8", "False", "(99999999999999999999,)"), NULL, 0);
  expect_refused(
      ": the header is malformed at character 52: expected a dimension below "
      "2^63; save the array again with numpy.save");
  write_npy(1, HEADER("|u1", "False", "(1000000000000,)"), NULL, 0);
  expect_refused(
      ": the shape wants 1000000000000 bytes of elements, the file has 0; it "
      "is truncated");
}

Test(npy, refuses_huge_headers_before_it_takes_memory) {
  write_bytes("\x93NUMPY\2\0\xff\xff\xff\xff{", 13);
  expect_refused(": a header of 4294967295 bytes; at most 65536 are accepted");
}

Test(npy, refuses_malformed_dictionaries) {
  const char *const headers[] = {
      "",
      "[]",
      "{",
      "{}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'descr': '<f4'}",
      "{'what': 1}",
      "{'descr: 1}",
      "{'descr' '<f4'}",
      "{'fortran_order': Maybe}",
      "{'shape': 3}",
      "{'shape': (-1,)}",
      "{'shape': (1 2)}",
      "{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
  };
  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; ++i) {
    tensor t = {0};
    text why = {0};
    write_npy(1, headers[i], NULL, 0);
    cr_expect_not(npy_read(path, &t, &why), "taken: %s", headers[i]);
    cr_expect_neq(why.n, 0);
    text_deinit(&why);
  }
}
