/* SPDX-License-Identifier: Apache-2.0
 * npy.c: reads the header of a .npy file of NumPy, formats 1 to 3: a magic
 * number and a Python dictionary with element type, order and shape. The size
 * of the elements must match the file before memory is allocated.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"

enum { MAGIC = 8 /* with the version */, MAX_HEADER = 64 * 1024 };

static const struct {
  char descr[4]; /* without the byte order */
  tn_dtype dtype;
} descrs[] = {{"f2", TN_F16}, {"f4", TN_F32}, {"f8", TN_F64}, {"i1", TN_I8},
              {"i2", TN_I16}, {"i4", TN_I32}, {"i8", TN_I64}, {"u1", TN_U8},
              {"u2", TN_U16}, {"u4", TN_U32}, {"u8", TN_U64}, {"b1", TN_BOOL}};

enum { N_DESCRS = sizeof descrs / sizeof descrs[0] };

const char *tn__npy_descr(tn_dtype dtype) {
  for (size_t i = 0; i < N_DESCRS; ++i)
    if (descrs[i].dtype == dtype) return descrs[i].descr;
  return NULL;
}

/* State of the dictionary's parser. */
typedef struct dict {
  const tn__spot *spot;
  const char *text; /* NUL-terminated */
  const char *at;
  size_t offset; /* of the text in its file */
  tn__bundle_entry *entry;
  int64_t shape[TN_MAX_NDIM];
  unsigned seen; /* keys: 1 descr, 2 fortran_order, 4 shape */
} dict;

/* ------------------------------------------------------------- dictionary */

static tn_code fail_malformed(const dict *d, const char *expected) {
  return tn__spot_fail(d->spot, TN_INVALID,
                       d->offset + (uint64_t)(d->at - d->text),
                       "the header is malformed: expected %s; save the array "
                       "again with numpy.save",
                       expected);
}

static void skip_blanks(dict *d) {
  while (isspace((unsigned char)*d->at)) ++d->at;
}

static bool take_char(dict *d, char c) {
  skip_blanks(d);
  if (*d->at != c) return false;
  ++d->at;
  return true;
}

static bool take_word(dict *d, const char *word) {
  skip_blanks(d);
  if (strncmp(d->at, word, strlen(word)) != 0) return false;
  d->at += strlen(word);
  return true;
}

/* Parses a quoted string of at most `n` - 1 characters. */
static tn_code parse_string(dict *d, char *to, size_t n) {
  skip_blanks(d);
  const char quote = *d->at;
  if (quote != '\'' && quote != '"')
    return fail_malformed(d, "a quoted string");
  const char *end = strchr(d->at + 1, quote);
  if (!end) return fail_malformed(d, "a closing quote");
  size_t length = (size_t)(end - d->at) - 1;
  if (length >= n) return fail_malformed(d, "a short string");
  memcpy(to, d->at + 1, length);
  to[length] = '\0';
  d->at = end + 1;
  return TN_OK;
}

static tn_code fail_unknown_type(const dict *d, const char *descr) {
  char shown[TN__SHOWN];
  if (strcmp(descr + 1, "V2") == 0)
    return tn__spot_fail(d->spot, TN_UNSUPPORTED, TN__NOWHERE,
                         "element type `%s` is two bytes without a meaning; "
                         "if they are bfloat16, which this format cannot name, "
                         "save them as safetensors",
                         tn__show_text(descr, shown));
  return tn__spot_fail(d->spot, TN_UNSUPPORTED, TN__NOWHERE,
                       "element type `%s` is not supported; convert the array, "
                       "for example with .astype('<f4')",
                       tn__show_text(descr, shown));
}

static tn_code parse_descr(dict *d) {
  char descr[16];
  skip_blanks(d);
  if (*d->at == '[')
    return tn__spot_fail(d->spot, TN_UNSUPPORTED, TN__NOWHERE,
                         "records (structured types) are not supported; save "
                         "one field of the array");
  TN__TRY(parse_string(d, descr, sizeof descr));
  if (descr[0] == '\0' || !strchr("<>|=", descr[0]))
    return fail_unknown_type(d, descr[0] ? descr : "?");
  for (size_t i = 0; i < N_DESCRS; ++i) {
    if (strcmp(descr + 1, descrs[i].descr) != 0) continue;
    d->entry->dtype = descrs[i].dtype;
    bool one_byte = descr[2] == '1'; /* byte order means nothing */
    if (descr[0] == '|' && !one_byte) break;
    d->entry->swapped = descr[0] == '>' && !one_byte;
    return TN_OK;
  }
  return fail_unknown_type(d, descr);
}

static tn_code parse_order(dict *d) {
  d->entry->columns = take_word(d, "True");
  if (d->entry->columns || take_word(d, "False")) return TN_OK;
  return fail_malformed(d, "True or False");
}

static tn_code parse_dimension(dict *d, int64_t *out) {
  char *end = NULL;
  if (!isdigit((unsigned char)*d->at))
    return fail_malformed(d, "a dimension of 0 or more");
  errno = 0;
  *out = strtoll(d->at, &end, 10);
  if (errno) return fail_malformed(d, "a dimension below 2^63");
  d->at = end;
  if (*d->at == 'L') ++d->at; /* Python 2 wrote long integers so */
  return TN_OK;
}

static tn_code parse_shape(dict *d) {
  tn__bundle_entry *e = d->entry;
  if (!take_char(d, '(')) return fail_malformed(d, "`(`");
  while (!take_char(d, ')')) {
    if (e->ndim == TN_MAX_NDIM)
      return tn__spot_fail(d->spot, TN_UNSUPPORTED, TN__NOWHERE,
                           "more than %d dimensions", TN_MAX_NDIM);
    TN__TRY(parse_dimension(d, &d->shape[e->ndim]));
    ++e->ndim;
    if (!take_char(d, ',') && *d->at != ')')
      return fail_malformed(d, "`,` or `)`");
  }
  return TN_OK;
}

static tn_code parse_item(dict *d) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  static tn_code (*const parsers[])(dict *) = {parse_descr, parse_order,
                                               parse_shape};
  char key[32];
  size_t k = 0;
  TN__TRY(parse_string(d, key, sizeof key));
  while (k < 3 && strcmp(key, keys[k]) != 0) ++k;
  if (k == 3 || d->seen & 1u << k)
    return fail_malformed(d, "descr, fortran_order and shape, once each");
  d->seen |= 1u << k;
  if (!take_char(d, ':')) return fail_malformed(d, "`:`");
  return parsers[k](d);
}

static tn_code parse_dict(dict *d) {
  if (!take_char(d, '{')) return fail_malformed(d, "`{`");
  while (!take_char(d, '}')) {
    TN__TRY(parse_item(d));
    if (!take_char(d, ',') && *d->at != '}')
      return fail_malformed(d, "`,` or `}`");
  }
  if (d->seen != 7)
    return fail_malformed(d, "descr, fortran_order and shape, once each");
  skip_blanks(d);
  return *d->at ? fail_malformed(d, "the end") : TN_OK;
}

/* --------------------------------------------------------------- the header */

/* Reads the length of the dictionary and its position. The length has 2 bytes
 * in format 1 and 4 bytes later. */
static tn_code read_length(const tn__spot *spot, const tn__stream *stream,
                           size_t *begin, uint32_t *length) {
  unsigned char head[MAGIC + 4] = {0};
  if (stream->size < MAGIC + 2)
    return tn__spot_fail(spot, TN_INVALID, TN__NOWHERE,
                         "%" PRIu64 " bytes are too short for a .npy file",
                         stream->size);
  TN__TRY(stream->read(stream->ctx, head, MAGIC));
  if (memcmp(head, "\x93NUMPY", 6) != 0)
    return tn__spot_fail(spot, TN_INVALID, TN__NOWHERE,
                         "not a .npy file: it does not begin with \\x93NUMPY");
  if (head[6] < 1 || head[6] > 3)
    return tn__spot_fail(spot, TN_UNSUPPORTED, TN__NOWHERE,
                         ".npy format %u.%u is not known; 1 to 3 are supported",
                         (unsigned)head[6], (unsigned)head[7]);
  size_t n = head[6] == 1 ? 2 : 4;
  *begin = MAGIC + n;
  if (stream->size < *begin)
    return tn__spot_fail(spot, TN_INVALID, stream->size,
                         "the file ends within the header; it is truncated");
  TN__TRY(stream->read(stream->ctx, head + MAGIC, n));
  *length = tn__le32(head + MAGIC);
  return TN_OK;
}

/* The size of the elements must be the size of the rest of the file. So a
 * hostile shape never decides how much memory is allocated. */
static tn_code check_length(const tn__spot *spot, const tn__bundle_entry *entry,
                            uint64_t have) {
  size_t want = 0;
  if (!tn__tensor_bytes(entry->dtype, entry->ndim, entry->shape, &want))
    return tn__spot_fail(spot, TN_OUT_OF_RANGE, TN__NOWHERE,
                         "the shape's size overflows 64 bits");
  if (have == want) return TN_OK;
  return tn__spot_fail(spot, TN_INVALID, TN__NOWHERE,
                       "the shape wants %zu bytes of elements, the file has "
                       "%" PRIu64 "; it is %s",
                       want, have, have < want ? "truncated" : "damaged");
}

static tn_code parse_header(const tn__spot *spot, const char *text,
                            tn__arena *arena, tn__bundle_entry *entry) {
  dict d = {.spot = spot, .text = text, .at = text, .entry = entry};
  d.offset = (size_t)entry->begin - strlen(text);
  TN__TRY(parse_dict(&d));
  int64_t *shape =
      tn__arena_alloc(arena, (size_t)entry->ndim * sizeof *shape + 1);
  if (!shape) return tn__fail_memory(sizeof d.shape, "a shape");
  memcpy(shape, d.shape, (size_t)entry->ndim * sizeof *shape);
  entry->shape = shape;
  return TN_OK;
}

static tn_code read_dict(const tn__spot *spot, const tn__stream *stream,
                         char *text, size_t length) {
  TN__TRY(stream->read(stream->ctx, text, length));
  text[length] = '\0';
  if (strlen(text) == length) return TN_OK;
  return tn__spot_fail(spot, TN_INVALID, TN__NOWHERE,
                       "the header has a NUL character in it");
}

tn_code tn__npy_read(const tn__spot *spot, const tn__stream *stream,
                     tn__arena *arena, tn__bundle_entry *entry) {
  size_t begin = 0;
  uint32_t length = 0;
  TN__TRY(read_length(spot, stream, &begin, &length));
  if (length > MAX_HEADER)
    return tn__spot_fail(spot, TN_INVALID, TN__NOWHERE,
                         "a header of %" PRIu32
                         " bytes; at most %d are "
                         "accepted",
                         length, MAX_HEADER);
  if (stream->size - begin < length)
    return tn__spot_fail(spot, TN_INVALID, stream->size,
                         "the file ends within the header; it is truncated");
  char *text = tn__alloc(arena->env, (size_t)length + 1);
  if (!text) return tn__fail_memory((size_t)length + 1, "the header of a .npy");
  entry->begin = begin + length;
  tn_code rc = read_dict(spot, stream, text, length);
  if (!rc) rc = parse_header(spot, text, arena, entry);
  if (!rc) rc = check_length(spot, entry, stream->size - entry->begin);
  entry->bytes = stream->size - entry->begin;
  tn__free(arena->env, text);
  return rc;
}

/* ------------------------------------------------------------------ a file */

/* A whole file as a stream. */
typedef struct whole {
  const tn__spot *spot;
  uint64_t at;
} whole;

static tn_code read_whole(void *ctx, void *to, size_t n) {
  whole *w = ctx;
  TN__TRY(tn__file_read(w->spot, w->at, to, n));
  w->at += n;
  return TN_OK;
}

tn_code tn__npy_open(tn_bundle *bundle) {
  tn__bundle_entry *entry = NULL;
  const tn__spot spot = {&bundle->file, NULL};
  whole w = {&spot, 0};
  const tn__stream stream = {read_whole, &w, bundle->file.size};
  TN__TRY(tn__bundle_add(bundle, &entry));
  entry->name = "";
  return tn__npy_read(&spot, &stream, &bundle->arena, entry);
}
