/* SPDX-License-Identifier: Apache-2.0
 * npy.c: a .npy file of NumPy, format 1 to 3, becomes a tensor. Nothing in the
 * file is believed: every size is checked against the file's length before
 * memory is taken.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tenon_tool.h"

enum {
  PREFIX = 8, /* magic and version */
  MAX_HEADER = 64 * 1024
};

static const struct {
  const char *descr;
  tn_dtype dtype;
} descrs[] = {{"<f2", TN_F16}, {"<f4", TN_F32}, {"<f8", TN_F64},
              {"|i1", TN_I8},  {"<i2", TN_I16}, {"<i4", TN_I32},
              {"<i8", TN_I64}, {"|u1", TN_U8},  {"<u2", TN_U16},
              {"<u4", TN_U32}, {"<u8", TN_U64}, {"|b1", TN_BOOL}};

typedef struct npy {
  const char *path;
  text *why;
  FILE *file;
  uint64_t size;   /* of the file */
  uint64_t offset; /* of the elements */
  const char *at;  /* in the header */
  bool fortran;
  unsigned seen;               /* keys: 1 descr, 2 fortran_order, 4 shape */
  char header[MAX_HEADER + 1]; /* the dictionary, NUL-terminated */
} npy;

static bool read_exactly(npy *f, void *to, size_t n) {
  if (fread(to, 1, n, f->file) == n) return true;
  return fail(f->why,
              "%s: the file ends within the header, at byte %ld; it is "
              "truncated",
              f->path, ftell(f->file));
}

/* ------------------------------------------------------------------ header */

static bool malformed(npy *f, const char *expected) {
  return fail(f->why,
              "%s: the header is malformed at character %td: expected %s; save "
              "the array again with numpy.save",
              f->path, f->at - f->header + 1, expected);
}

static void skip_blanks(npy *f) {
  while (isspace((unsigned char)*f->at)) ++f->at;
}

static bool take(npy *f, char c) {
  skip_blanks(f);
  if (*f->at != c) return false;
  ++f->at;
  return true;
}

static bool take_word(npy *f, const char *word) {
  skip_blanks(f);
  if (strncmp(f->at, word, strlen(word)) != 0) return false;
  f->at += strlen(word);
  return true;
}

/* A quoted string of at most `n` - 1 characters. */
static bool parse_string(npy *f, char *to, size_t n) {
  skip_blanks(f);
  const char quote = *f->at;
  if (quote != '\'' && quote != '"') return malformed(f, "a quoted string");
  const char *end = strchr(f->at + 1, quote);
  if (!end) return malformed(f, "a closing quote");
  size_t length = (size_t)(end - f->at) - 1;
  if (length >= n) return malformed(f, "a short string");
  memcpy(to, f->at + 1, length);
  to[length] = '\0';
  f->at = end + 1;
  return true;
}

static bool parse_descr(npy *f, tensor *out) {
  char descr[16];
  skip_blanks(f);
  if (*f->at == '[')
    return fail(f->why,
                "%s: records (structured types) are not supported; save one "
                "field of the array",
                f->path);
  if (!parse_string(f, descr, sizeof descr)) return false;
  for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; ++i) {
    bool one_byte = descrs[i].descr[2] == '1'; /* byte order means nothing */
    if (strcmp(descr + one_byte, descrs[i].descr + one_byte) != 0) continue;
    out->dtype = descrs[i].dtype;
    return true;
  }
  return fail(f->why,
              "%s: element type `%s` is not supported; convert the array, for "
              "example with .astype('<f4')",
              f->path, descr);
}

static bool parse_order(npy *f) {
  f->fortran = take_word(f, "True");
  return f->fortran || take_word(f, "False") || malformed(f, "True or False");
}

static bool parse_shape(npy *f, tensor *out) {
  if (!take(f, '(')) return malformed(f, "`(`");
  while (!take(f, ')')) {
    char *end = NULL;
    if (out->ndim == TN_MAX_NDIM)
      return fail(f->why, "%s: more than %d dimensions", f->path, TN_MAX_NDIM);
    if (!isdigit((unsigned char)*f->at)) return malformed(f, "a dimension");
    errno = 0;
    out->shape[out->ndim++] = strtoll(f->at, &end, 10);
    if (errno) return malformed(f, "a dimension below 2^63");
    f->at = end;
    if (!take(f, ',') && *f->at != ')') return malformed(f, "`,` or `)`");
  }
  return true;
}

static bool parse_entry(npy *f, tensor *out) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  char key[32];
  unsigned k = 0;
  if (!parse_string(f, key, sizeof key)) return false;
  while (k < 3 && strcmp(key, keys[k]) != 0) ++k;
  if (k == 3 || f->seen & 1u << k)
    return malformed(f, "descr, fortran_order and shape, once each");
  f->seen |= 1u << k;
  if (!take(f, ':')) return malformed(f, "`:`");
  if (k == 0) return parse_descr(f, out);
  return k == 1 ? parse_order(f) : parse_shape(f, out);
}

static bool parse_header(npy *f, tensor *out) {
  f->at = f->header;
  if (!take(f, '{')) return malformed(f, "`{`");
  while (!take(f, '}')) {
    if (!parse_entry(f, out)) return false;
    if (!take(f, ',') && *f->at != '}') return malformed(f, "`,` or `}`");
  }
  if (f->seen != 7)
    return malformed(f, "descr, fortran_order and shape, once each");
  skip_blanks(f);
  return *f->at ? malformed(f, "the end") : true;
}

/* -------------------------------------------------------------------- file */

static bool open_file(npy *f) {
  struct stat info;
  if (stat(f->path, &info))
    return fail(f->why, "%s: %s", f->path, strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fail(f->why, "%s: not a regular file", f->path);
  f->size = (uint64_t)info.st_size;
  f->file = fopen(f->path, "rb");
  return f->file || fail(f->why, "%s: %s", f->path, strerror(errno));
}

/* Length of the dictionary: 2 bytes in format 1, 4 bytes later. */
static bool read_length(npy *f, uint32_t *length) {
  unsigned char prefix[PREFIX];
  if (f->size < PREFIX + 2)
    return fail(f->why, "%s: %" PRIu64 " bytes are too short for a .npy file",
                f->path, f->size);
  if (!read_exactly(f, prefix, sizeof prefix)) return false;
  if (memcmp(prefix, "\x93NUMPY", 6) != 0)
    return fail(f->why,
                "%s: not a .npy file: it does not begin with \\x93NUMPY",
                f->path);
  if (prefix[6] < 1 || prefix[6] > 3)
    return fail(f->why,
                "%s: .npy format %u.%u is not known; 1 to 3 are supported",
                f->path, (unsigned)prefix[6], (unsigned)prefix[7]);
  unsigned char bytes[4] = {0};
  size_t n = prefix[6] == 1 ? 2 : 4;
  f->offset = PREFIX + n;
  if (!read_exactly(f, bytes, n)) return false;
  *length = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
            (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
  return true;
}

static bool read_header(npy *f) {
  uint32_t length = 0;
  if (!read_length(f, &length)) return false;
  if (length > MAX_HEADER)
    return fail(f->why,
                "%s: a header of %" PRIu32
                " bytes; at most %d are "
                "accepted",
                f->path, length, MAX_HEADER);
  f->offset += length;
  return read_exactly(f, f->header, length);
}

/* The number of elements must be what the rest of the file holds, so a hostile
 * shape never decides how much memory is taken. */
static bool check_length(npy *f, const tensor *out) {
  uint64_t have = f->size - f->offset;
  uint64_t want = (uint64_t)tn_dtype_bytes(out->dtype);
  bool overflow = false;
  for (int32_t i = 0; i < out->ndim; ++i)
    if (out->shape[i] == 0) want = 0;
  for (int32_t i = 0; i < out->ndim && want; ++i)
    overflow |= __builtin_mul_overflow(want, (uint64_t)out->shape[i], &want);
  if (overflow)
    return fail(f->why, "%s: the shape's size overflows 64 bits", f->path);
  if (have == want) return true;
  return fail(f->why,
              "%s: the shape wants %" PRIu64
              " bytes of elements, the file has "
              "%" PRIu64 "; it is %s",
              f->path, want, have, have < want ? "truncated" : "damaged");
}

/* -------------------------------------------------------------------- data */

/* Turns column-major elements into row-major ones: walks the target in order
 * with one counter per dimension. */
static void from_fortran(const tensor *from, tensor *to) {
  size_t size = (size_t)tn_dtype_bytes(to->dtype);
  size_t strides[TN_MAX_NDIM] = {0};
  int64_t index[TN_MAX_NDIM] = {0};
  size_t stride = 1;
  for (int32_t d = 0; d < to->ndim; ++d) {
    strides[d] = stride;
    stride *= (size_t)to->shape[d];
  }
  size_t source = 0;
  for (size_t i = 0; i < to->n; ++i) {
    memcpy(to->data + i * size, from->data + source * size, size);
    for (int32_t d = to->ndim - 1; d >= 0; --d) {
      source += strides[d];
      if (++index[d] < to->shape[d]) break;
      source -= strides[d] * (size_t)to->shape[d];
      index[d] = 0;
    }
  }
}

static bool reorder(tensor *t, text *why) {
  tensor rows = *t;
  if (!tensor_alloc(&rows, why)) return false;
  from_fortran(t, &rows);
  free(t->data);
  *t = rows;
  return true;
}

static bool read_data(npy *f, tensor *out) {
  if (!tensor_alloc(out, f->why)) return false;
  if (fread(out->data, 1, out->bytes, f->file) != out->bytes)
    return fail(f->why, "%s: the file became shorter while it was read",
                f->path);
  for (size_t i = 0; out->dtype == TN_BOOL && i < out->n; ++i)
    out->data[i] = out->data[i] != 0; /* any other byte is true for NumPy */
  return !f->fortran || out->ndim < 2 || reorder(out, f->why);
}

bool npy_read(const char *path, tensor *out, text *why) {
  npy f = {.path = path, .why = why};
  *out = (tensor){0};
  bool ok = open_file(&f) && read_header(&f) && parse_header(&f, out) &&
            check_length(&f, out) && read_data(&f, out);
  if (!ok) tensor_deinit(out);
  if (f.file) fclose(f.file);
  return ok;
}
