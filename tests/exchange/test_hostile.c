/* SPDX-License-Identifier: Apache-2.0
 * test_hostile.c: invalid files. Each is refused with a message that names the
 * file, and leaves no memory in use.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "filebox.h"

TestSuite(hostile, .init = box_open, .fini = box_close);

/* Expects a refusal with a message that begins with the path. */
static void expect_refused(const char *name, const bytes *b) {
  write_bytes(box_path(name), b);
  cr_assert_neq(read_all(box_path(name)), TN_OK, "%zu bytes were taken", b->n);
  cr_expect_eq(strncmp(tn_error_text(), box_path(name), strlen(box_path(name))),
               0, "%s", tn_error_text());
}

static void truncate_everywhere(const char *seed, const char *name) {
  bytes b = {.n = 0};
  read_bytes(seed_path(seed), &b);
  for (size_t n = b.n; n-- > 0;) {
    b.n = n;
    expect_refused(name, &b);
  }
}

Test(hostile, files_truncated_at_any_byte_are_refused) {
  truncate_everywhere("npy/f8_columns.npy", "x.npy");
  truncate_everywhere("npz/stored.npz", "x.npz");
  truncate_everywhere("npz/deflated.npz", "x.npz");
  truncate_everywhere("npz/zip64.npz", "x.npz");
  truncate_everywhere("safetensors/mixed.safetensors", "x.safetensors");
}

Test(hostile, files_with_bytes_after_their_end_are_refused) {
  static const char *const seeds[][2] = {
      {"npy/f4.npy", "x.npy"},
      {"npz/stored.npz", "x.npz"},
      {"safetensors/mixed.safetensors", "x.safetensors"}};
  for (size_t i = 0; i < 3; ++i) {
    bytes b = {.n = 0};
    read_bytes(seed_path(seeds[i][0]), &b);
    add_bytes(&b, "x", 1);
    expect_refused(seeds[i][1], &b);
  }
}

Test(hostile, files_of_other_formats_are_refused) {
  tn_bundle *bundle = NULL;
  cr_expect_eq(tn__bundle_open(&w.env, box_path("no.npy"), &bundle),
               TN_NOT_FOUND);
  cr_expect_eq(tn__bundle_open(&w.env, "/", &bundle), TN_INVALID);
  EXPECT_TEXT("/: not a regular file");
  cr_expect_null(bundle);
}

/* -------------------------------------------------------------------- .npy */

static void make_npy(const char *dict, size_t n_data, bytes *out) {
  static const unsigned char zeros[64] = {0};
  const size_t n = strlen(dict);
  const unsigned char length[2] = {(unsigned char)n, (unsigned char)(n >> 8)};
  out->n = 0;
  add_bytes(out, "\x93NUMPY\1\0", 8);
  add_bytes(out, length, 2);
  add_bytes(out, dict, n);
  add_bytes(out, zeros, n_data);
}

static void expect_npy(const char *dict, size_t n_data, const char *part) {
  bytes b;
  make_npy(dict, n_data, &b);
  expect_refused("x.npy", &b);
  EXPECT_TEXT(part);
}

#define DICT(descr, order, shape) \
  "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

Test(hostile, malformed_npy_dictionaries_are_refused) {
  static const char *const dicts[] = {
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
      DICT("<f4", "False", "()") "x",
  };
  for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; ++i)
    expect_npy(dicts[i], 4, "the header is malformed: expected");
  expect_npy(DICT("<f4", "False", "(-2,)"), 8,
             "a dimension of 0 or more; save the array again with numpy.save "
             "(at byte 61)");
}

Test(hostile, npy_types_that_op_h_does_not_have_are_refused_with_advice) {
  expect_npy(DICT("<c8", "False", "()"), 8, "element type `<c8` is not");
  expect_npy(DICT("|O", "False", "()"), 8, "element type `|O` is not");
  expect_npy(DICT("|V2", "False", "()"), 2, "bfloat16");
  expect_npy(DICT("|f4", "False", "()"), 4, "element type `|f4` is not");
  expect_npy(DICT("\x1b\xca"
                  "f8",
                  "False", "()"),
             8, "element type `??f8` is");
  expect_npy(DICT("", "False", "()"), 4, "element type");
  expect_npy("{'descr': [('a', '<f4')], 'fortran_order': False}", 4, "records");
}

Test(hostile, false_npy_sizes_are_refused) {
  expect_npy(DICT("<f8", "False", "(4294967296, 4294967296)"), 8, "overflows");
  expect_npy(DICT("<f8", "False", "(0, 9223372036854775807, 3)"), 0,
             "overflows");
  expect_npy(DICT("<f8", "False", "(99999999999999999999,)"), 8,
             "a dimension below 2^63");
  expect_npy(DICT("|u1", "False", "(1000000000000,)"), 8,
             "the shape wants 1000000000000 bytes of elements, the file has 8; "
             "it is truncated");
  expect_npy(DICT("|u1", "False", "(7,)"), 8, "it is damaged");
  expect_npy(DICT("|u1", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), 1,
             "more than 16 dimensions");
}

Test(hostile, npy_headers_are_measured_before_memory_is_allocated) {
  bytes b = {.n = 0};
  add_bytes(&b, "\x93NUMPY\2\0\xff\xff\xff\xff{", 13);
  expect_refused("x.npy", &b);
  EXPECT_TEXT("a header of 4294967295 bytes; at most 65536 are accepted");
  b.data[6] = 4;
  expect_refused("x.npy", &b);
  EXPECT_TEXT(".npy format 4.0 is not known");
  make_npy(DICT("<f4", "False", "()"), 4, &b);
  b.data[40] = 0;
  expect_refused("x.npy", &b);
  EXPECT_TEXT("NUL");
}

/* ------------------------------------------------------------- .safetensors */

static void make_safetensors(const char *text, size_t n_data, bytes *out) {
  static const unsigned char zeros[64] = {0};
  const uint64_t n = strlen(text);
  out->n = 0;
  add_bytes(out, &n, 8); /* tests run on little-endian machines */
  add_bytes(out, text, n);
  add_bytes(out, zeros, n_data);
}

static void expect_safetensors(const char *text, size_t n_data,
                               const char *part) {
  bytes b;
  make_safetensors(text, n_data, &b);
  expect_refused("x.safetensors", &b);
  EXPECT_TEXT(part);
}

#define ITEM(name, dtype, shape, begin, end)               \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape \
  ",\"data_offsets\":[" #begin "," #end "]}"

Test(hostile, false_safetensors_ranges_are_refused) {
  expect_safetensors("{" ITEM("a", "F32", "[2]", 0, 8) "}", 7,
                     "array `a`: its range [0, 8) is not within the 7 bytes");
  expect_safetensors("{" ITEM("a", "F32", "[2]", 8, 0) "}", 8, "its range");
  expect_safetensors("{" ITEM("a", "F32", "[2]", 0, 4) "}", 4,
                     "the shape wants 8 bytes of elements, its range has 4");
  expect_safetensors("{" ITEM("a", "F32", "[1]", 4, 8) "}", 8,
                     "bytes before it belong to no array");
  expect_safetensors("{" ITEM("a", "F32", "[1]", 0, 4) "}", 8,
                     "bytes at the end belong to no array");
  expect_safetensors(
      "{" ITEM("a", "F32", "[2]", 0, 8) "," ITEM("b", "F32", "[2]", 4, 12) "}",
      12, "array `b`: it overlaps another array");
  expect_safetensors(
      "{" ITEM("a", "U8", "[8]", 0, 8) "," ITEM("b", "U8", "[0]", 4, 4) "}", 8,
      "it overlaps another array");
  expect_safetensors("{}", 1, "bytes at the end belong to no array");
}

Test(hostile, false_safetensors_shapes_are_refused) {
  expect_safetensors("{" ITEM("a", "F32", "[4294967296,4294967296]", 0, 0) "}",
                     0, "overflows");
  expect_safetensors("{" ITEM("a", "F32", "[-1]", 0, 0) "}", 0,
                     "expected a whole number");
  expect_safetensors("{" ITEM("a", "F32", "[9223372036854775808]", 0, 0) "}", 0,
                     "a number below 2^63");
  expect_safetensors("{" ITEM("a", "F32", "[1.5]", 0, 4) "}", 4, "`]`");
  expect_safetensors("{" ITEM("a", "F32", "[01]", 0, 4) "}", 4, "leading zero");
  expect_safetensors(
      "{" ITEM("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1,
      "more than 16 dimensions");
  expect_safetensors("{" ITEM("a", "F6_E2M3", "[4]", 0, 3) "}", 3,
                     "array `a`: element type `F6_E2M3` is not supported");
  expect_safetensors("{" ITEM("a", "\\u001b[2J", "[1]", 0, 1) "}", 1,
                     "array `a`: element type `?[2J` is not supported");
}

Test(hostile, false_sizes_of_packed_elements_are_refused) {
  expect_safetensors("{" ITEM("a", "F4", "[4]", 0, 4) "}", 4,
                     "the shape wants 2 bytes of elements, its range has 4");
  expect_safetensors("{" ITEM("a", "F4", "[3]", 0, 2) "}", 2,
                     "an odd number of elements of 4 bits ends within a byte");
  expect_safetensors("{" ITEM("a", "F4", "[1152921504606846976]", 0, 0) "}", 0,
                     "overflows");
}

Test(hostile, malformed_safetensors_headers_are_refused) {
  static const char *const texts[] = {
      "",
      " {}",
      "[]",
      "{",
      "{}{",
      "{\"a\"}",
      "{\"a\":1}",
      "{\"a\":{}}",
      "{\"a\":{\"dtype\":\"U8\"}}",
      "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}",
      "{\"a\":{\"what\":\"U8\"}}",
      "{\"__metadata__\":{\"a\":1}}",
      "{\"__metadata__\":{},\"__metadata__\":{}}",
      "{\"a",
      "{\"a\\",
      "{\"\\x\":",
      "{\"\\u12\":",
      "{\"\\u0000\":{}}",
      "{\"\\ud800\":{}}",
      "{\"\\ud800\\u0041\":{}}",
      "{\"\xff\":{}}",
      "{\"\1\":{}}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
    expect_safetensors(texts[i], 0, "the header is malformed: expected");
  expect_safetensors("{\"a\":1}", 0, "`{` (at byte 13)");
}

Test(hostile, safetensors_headers_are_measured_before_memory_is_allocated) {
  bytes b = {.n = 0};
  add_bytes(&b, "\1\xe1\xf5\5\0\0\0\0{}", 10); /* 100000001 */
  expect_refused("x.safetensors", &b);
  EXPECT_TEXT("a header of 100000001 bytes; at most 100000000 are accepted");
  b.data[0] = 0;
  expect_refused("x.safetensors", &b);
  EXPECT_TEXT("the file ends within its header of 100000000 bytes");
  memset(b.data, 0xff, 8);
  expect_refused("x.safetensors", &b);
}

Test(hostile, names_that_occur_twice_or_lead_elsewhere_are_refused) {
  expect_safetensors(
      "{" ITEM("a", "U8", "[1]", 0, 1) "," ITEM("a", "U8", "[1]", 1, 2) "}", 2,
      "two arrays are named `a`");
  expect_safetensors("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0,
                     "the metadata has the key `k` twice");
  expect_safetensors("{" ITEM("", "U8", "[1]", 0, 1) "}", 1, "is empty");
  expect_safetensors("{" ITEM("/etc/a", "U8", "[1]", 0, 1) "}", 1,
                     "begins with a slash (at byte 10)");
  expect_safetensors("{" ITEM("a/../b", "U8", "[1]", 0, 1) "}", 1, "`..`");
  expect_safetensors("{" ITEM("..", "U8", "[1]", 0, 1) "}", 1, "`..`");
  expect_safetensors("{" ITEM("a\\\\b", "U8", "[1]", 0, 1) "}", 1, "backslash");
  expect_safetensors("{" ITEM("a\\nb", "U8", "[1]", 0, 1) "}", 1, "control");
}

/* -------------------------------------------------------------------- .npz */

/* Fields of a member's headers. Zero fields get their true values. */
typedef struct header_fields {
  const char *name;
  uint16_t method;
  uint16_t flags;
  uint32_t sum;
  uint32_t stored;
  uint32_t size;
} header_fields;

static void add_u16(bytes *b, uint32_t n) {
  add_bytes(b, &n, 2);
}

static void add_u32(bytes *b, uint32_t n) {
  add_bytes(b, &n, 4);
}

static void add_common(bytes *b, const header_fields *l, const bytes *data,
                       const bytes *raw) {
  add_u16(b, 20);
  add_u16(b, l->flags);
  add_u16(b, l->method);
  add_u32(b, 0);
  add_u32(b, l->sum ? l->sum : (uint32_t)crc32(0, raw->data, (uInt)raw->n));
  add_u32(b, l->stored ? l->stored : (uint32_t)data->n);
  add_u32(b, l->size ? l->size : (uint32_t)raw->n);
  add_u16(b, (uint32_t)strlen(l->name));
  add_u16(b, 0);
}

static void add_local(bytes *b, const header_fields *l, const bytes *data,
                      const bytes *raw) {
  add_bytes(b, "PK\3\4", 4);
  add_common(b, l, data, raw);
  add_bytes(b, l->name, strlen(l->name));
  add_bytes(b, data->data, data->n);
}

static void add_entry(bytes *b, const header_fields *l, const bytes *data,
                      const bytes *raw, uint32_t at) {
  add_bytes(b, "PK\1\2\24\0", 6);
  add_common(b, l, data, raw);
  add_u16(b, 0), add_u16(b, 0), add_u16(b, 0), add_u32(b, 0), add_u32(b, at);
  add_bytes(b, l->name, strlen(l->name));
}

static void add_end(bytes *b, uint32_t n, uint32_t begin) {
  uint32_t size = (uint32_t)b->n - begin;
  add_bytes(b, "PK\5\6", 4);
  add_u32(b, 0), add_u16(b, n), add_u16(b, n), add_u32(b, size),
      add_u32(b, begin);
  add_u16(b, 0);
}

/* Writes a zip of one member, with the fields of `l` in its local header and in
 * the directory. */
static void make_npz(const header_fields *l, const bytes *data,
                     const bytes *raw, bytes *out) {
  out->n = 0;
  add_local(out, l, data, raw);
  uint32_t begin = (uint32_t)out->n;
  add_entry(out, l, data, raw, 0);
  add_end(out, 1, begin);
}

static void deflate_bytes(const bytes *raw, bytes *out) {
  z_stream z = {.next_in = (unsigned char *)(uintptr_t)raw->data,
                .avail_in = (uInt)raw->n,
                .next_out = out->data,
                .avail_out = sizeof out->data};
  cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, 0), Z_OK);
  cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
  out->n = z.total_out;
  deflateEnd(&z);
}

static bytes raw_npy, packed_npy;

static void expect_npz(const header_fields *l, const char *part) {
  bytes b;
  make_npz(l, l->method == 8 ? &packed_npy : &raw_npy, &raw_npy, &b);
  if (!part) {
    write_bytes(box_path("x.npz"), &b);
    cr_assert_eq(read_all(box_path("x.npz")), TN_OK, "%s", tn_error_text());
    return;
  }
  expect_refused("x.npz", &b);
  EXPECT_TEXT(part);
}

Test(hostile, false_members_of_a_zip_are_refused) {
  make_npy(DICT("<f4", "False", "(2,)"), 8, &raw_npy);
  deflate_bytes(&raw_npy, &packed_npy);
  expect_npz(&(header_fields){.name = "a.npy"}, NULL);
  expect_npz(&(header_fields){.name = "a.npy", .method = 8}, NULL);
  expect_npz(&(header_fields){.name = "a.npy", .sum = 1},
             "array `a`: its checksum is wrong; the zip is damaged");
  expect_npz(&(header_fields){.name = "a.npy", .method = 8, .sum = 1},
             "checksum");
  expect_npz(&(header_fields){.name = "a.npy", .method = 8, .size = 4000},
             "the file has ");
  expect_npz(&(header_fields){.name = "a.npy", .method = 8, .size = 1 << 30},
             "1073741824 bytes cannot come from the");
  expect_npz(&(header_fields){.name = "a.npy", .stored = 70, .size = 70},
             "the file has");
  expect_npz(&(header_fields){.name = "a.npy", .stored = 9999, .size = 9999},
             "lead into the directory");
  expect_npz(&(header_fields){.name = "a.npy", .size = 50}, "cannot come from");
  expect_npz(&(header_fields){.name = "a.npy", .method = 12},
             "compression method 12");
  expect_npz(&(header_fields){.name = "a.npy", .flags = 1}, "it is encrypted");
  expect_npz(&(header_fields){.name = "../a.npy"}, "leads upwards");
  expect_npz(&(header_fields){.name = "/a.npy"}, "slash");
  expect_npz(&(header_fields){.name = ".npy"}, NULL);
}

/* The shape agrees with the size that the directory declares, but the stream
 * is shorter or longer. */
Test(hostile, deflated_members_have_exactly_the_declared_size) {
  static const size_t elements[] = {40, 0};
  for (size_t i = 0; i < 2; ++i) {
    bytes longer, b;
    make_npy(DICT("|u1", "False", "(16,)"), elements[i], &raw_npy);
    deflate_bytes(&raw_npy, &packed_npy);
    make_npy(DICT("|u1", "False", "(16,)"), 16, &longer);
    make_npz(&(header_fields){.name = "a.npy", .method = 8}, &packed_npy,
             &longer, &b);
    expect_refused("x.npz", &b);
    EXPECT_TEXT(i == 0 ? "it has more bytes than declared"
                       : "it has fewer bytes than declared");
  }
}

Test(hostile, invalid_compressed_data_is_refused) {
  make_npy(DICT("|u1", "False", "(16,)"), 16, &raw_npy);
  deflate_bytes(&raw_npy, &packed_npy);
  bytes data = packed_npy, b;
  data.data[0] = 0x07; /* a block of an unknown type */
  make_npz(&(header_fields){.name = "a.npy", .method = 8}, &data, &raw_npy, &b);
  expect_refused("x.npz", &b);
  EXPECT_TEXT("makes no sense");
  data = packed_npy;
  add_bytes(&data, "more", 4);
  make_npz(&(header_fields){.name = "a.npy", .method = 8}, &data, &raw_npy, &b);
  expect_refused("x.npz", &b);
  EXPECT_TEXT("something follows its compressed data");
  data = packed_npy;
  data.n -= 3;
  make_npz(&(header_fields){.name = "a.npy", .method = 8}, &data, &raw_npy, &b);
  expect_refused("x.npz", &b);
}

Test(hostile, members_that_overlap_or_have_one_name_are_refused) {
  bytes b = {.n = 0};
  make_npy(DICT("<f4", "False", "(2,)"), 8, &raw_npy);
  const header_fields a = {.name = "a.npy"}, c = {.name = "c.npy"};
  add_local(&b, &a, &raw_npy, &raw_npy);
  uint32_t begin = (uint32_t)b.n;
  add_entry(&b, &a, &raw_npy, &raw_npy, 0);
  add_entry(&b, &a, &raw_npy, &raw_npy, 0);
  add_end(&b, 2, begin);
  expect_refused("x.npz", &b);
  EXPECT_TEXT("overlaps the array `a`");

  b.n = 0;
  add_local(&b, &a, &raw_npy, &raw_npy);
  begin = (uint32_t)b.n;
  add_entry(&b, &c, &raw_npy, &raw_npy, 0);
  add_end(&b, 1, begin);
  expect_refused("x.npz", &b);
  EXPECT_TEXT("array `c`: its own header has another name");

  b.n = 0;
  add_local(&b, &a, &raw_npy, &raw_npy);
  uint32_t second = (uint32_t)b.n;
  add_local(&b, &a, &raw_npy, &raw_npy);
  begin = (uint32_t)b.n;
  add_entry(&b, &a, &raw_npy, &raw_npy, 0);
  add_entry(&b, &a, &raw_npy, &raw_npy, second);
  add_end(&b, 2, begin);
  expect_refused("x.npz", &b);
  EXPECT_TEXT("two arrays are named `a`");
}

Test(hostile, false_directories_are_refused) {
  bytes b, good;
  make_npy(DICT("<f4", "False", "(2,)"), 8, &raw_npy);
  make_npz(&(header_fields){.name = "a.npy"}, &raw_npy, &raw_npy, &good);
  static const struct {
    size_t from_end;
    unsigned char value;
  } faults[] = {{22, 'X'},         /* the mark */
                {18, 1},           /* disks */
                {14, 9},           /* members on this disk */
                {10, 1},           /* bytes of the directory */
                {9, 0xff}, {6, 0}, /* position of the directory */
                {3, 0xff}, {2, 1} /* length of the comment */};
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; ++i) {
    b = good;
    b.data[b.n - faults[i].from_end] = faults[i].value;
    expect_refused("x.npz", &b);
    EXPECT_TEXT("the zip is damaged");
  }
  b = good;
  b.data[b.n - 14] = b.data[b.n - 12] = 2; /* two members, room for one */
  expect_refused("x.npz", &b);
  EXPECT_TEXT("more members than the directory has room for");
}
