/* SPDX-License-Identifier: Apache-2.0
 * safetensors.c: reads the header of a .safetensors file: eight bytes of
 * length, then a JSON object with type, shape and range of every array. The
 * elements follow; they must fill the rest of the file without a gap.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 };

static const struct {
  char name[12];
  tn_dtype dtype;
} dtypes[] = {{"BOOL", TN_BOOL},
              {"U8", TN_U8},
              {"I8", TN_I8},
              {"I16", TN_I16},
              {"U16", TN_U16},
              {"F16", TN_F16},
              {"BF16", TN_BF16},
              {"I32", TN_I32},
              {"U32", TN_U32},
              {"F32", TN_F32},
              {"F64", TN_F64},
              {"I64", TN_I64},
              {"U64", TN_U64},
              {"F8_E4M3", TN_F8E4M3FN},
              {"F8_E4M3FNUZ", TN_F8E4M3FNUZ},
              {"F8_E5M2", TN_F8E5M2},
              {"F8_E5M2FNUZ", TN_F8E5M2FNUZ},
              {"F8_E8M0", TN_F8E8M0},
              {"F4", TN_F4E2M1}};

enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *tn__safetensors_name(tn_dtype dtype) {
  for (size_t i = 0; i < N_DTYPES; ++i)
    if (dtypes[i].dtype == dtype) return dtypes[i].name;
  return NULL;
}

/* State of the header's parser. */
typedef struct header {
  tn__json json; /* first, so that fail_json finds the other fields */
  tn__spot spot;
  tn_bundle *bundle;
  uint64_t begin; /* of the elements in the file */
  uint64_t bytes; /* of all elements */
} header;

/* One array of the header. */
typedef struct item {
  header *header;
  tn__spot spot;
  tn__bundle_entry *entry;
  unsigned seen; /* keys: 1 dtype, 2 shape, 4 data_offsets */
  int64_t shape[TN_MAX_NDIM];
  int64_t range[2]; /* within the elements */
} item;

static tn_code fail_json(const tn__json *json, const char *expected) {
  const header *h = (const header *)json;
  return tn__spot_fail(&h->spot, TN_INVALID,
                       LENGTH_BYTES + (uint64_t)(json->at - json->text),
                       "the header is malformed: expected %s", expected);
}

/* --------------------------------------------------------------- one array */

static tn_code parse_dtype(item *it) {
  const char *name = NULL;
  char shown[TN__SHOWN];
  TN__TRY(tn__json_string(&it->header->json, &name));
  for (size_t i = 0; i < N_DTYPES; ++i)
    if (strcmp(name, dtypes[i].name) == 0) {
      it->entry->dtype = dtypes[i].dtype;
      return TN_OK;
    }
  return tn__spot_fail(&it->spot, TN_UNSUPPORTED, TN__NOWHERE,
                       "element type `%s` is not supported; convert the "
                       "array, for example to F32",
                       tn__show_text(name, shown));
}

static tn_code parse_shape(item *it) {
  tn__json *json = &it->header->json;
  TN__TRY(tn__json_expect(json, '['));
  if (tn__json_take(json, ']')) return TN_OK;
  do {
    if (it->entry->ndim == TN_MAX_NDIM)
      return tn__spot_fail(&it->spot, TN_UNSUPPORTED, TN__NOWHERE,
                           "more than %d dimensions", TN_MAX_NDIM);
    TN__TRY(tn__json_number(json, &it->shape[it->entry->ndim]));
    ++it->entry->ndim;
  } while (tn__json_take(json, ','));
  return tn__json_expect(json, ']');
}

static tn_code parse_range(item *it) {
  tn__json *json = &it->header->json;
  TN__TRY(tn__json_expect(json, '['));
  TN__TRY(tn__json_number(json, &it->range[0]));
  TN__TRY(tn__json_expect(json, ','));
  TN__TRY(tn__json_number(json, &it->range[1]));
  return tn__json_expect(json, ']');
}

static tn_code parse_property(item *it) {
  static const char *const keys[] = {"dtype", "shape", "data_offsets"};
  static tn_code (*const parsers[])(item *) = {parse_dtype, parse_shape,
                                               parse_range};
  tn__json *json = &it->header->json;
  const char *key = NULL;
  size_t k = 0;
  TN__TRY(tn__json_string(json, &key));
  while (k < 3 && strcmp(key, keys[k]) != 0) ++k;
  if (k == 3 || it->seen & 1u << k)
    return tn__json_fail(json, "dtype, shape and data_offsets, once each");
  it->seen |= 1u << k;
  TN__TRY(tn__json_expect(json, ':'));
  return parsers[k](it);
}

static int64_t count_elements(const item *it) {
  int64_t n = 1;
  for (int32_t i = 0; i < it->entry->ndim; ++i) n *= it->shape[i];
  return n;
}

/* The range must be inside of the file and match the shape. */
static tn_code check_item(item *it) {
  tn__bundle_entry *e = it->entry;
  size_t want = 0;
  uint64_t begin = (uint64_t)it->range[0], end = (uint64_t)it->range[1];
  if (begin > end || end > it->header->bytes)
    return tn__spot_fail(&it->spot, TN_INVALID, TN__NOWHERE,
                         "its range [%" PRIu64 ", %" PRIu64
                         ") is not within "
                         "the %" PRIu64
                         " bytes of elements that the file has; "
                         "it is truncated or damaged",
                         begin, end, it->header->bytes);
  if (!tn__tensor_bytes(e->dtype, e->ndim, it->shape, &want))
    return tn__spot_fail(&it->spot, TN_OUT_OF_RANGE, TN__NOWHERE,
                         "the shape's size overflows 64 bits");
  if (tn_dtype_is_packed(e->dtype) && count_elements(it) % 2 != 0)
    return tn__spot_fail(&it->spot, TN_INVALID, TN__NOWHERE,
                         "an odd number of elements of 4 bits ends within a "
                         "byte; the format has whole bytes only");
  if (want != end - begin)
    return tn__spot_fail(&it->spot, TN_INVALID, TN__NOWHERE,
                         "the shape wants %zu bytes of elements, its range has "
                         "%" PRIu64 "; the file is damaged",
                         want, end - begin);
  e->begin = it->header->begin + begin;
  e->bytes = want;
  return TN_OK;
}

static tn_code keep_shape(item *it) {
  size_t bytes = (size_t)it->entry->ndim * sizeof(int64_t);
  int64_t *shape = tn__arena_alloc(&it->header->bundle->arena, bytes + 1);
  if (!shape) return tn__fail_memory(bytes, "a shape");
  memcpy(shape, it->shape, bytes);
  it->entry->shape = shape;
  return TN_OK;
}

static tn_code parse_item(header *h, const char *name) {
  item it = {.header = h, .spot = {&h->bundle->file, name}};
  const char *fault = tn__find_name_fault(name, strlen(name));
  if (fault)
    return tn__spot_fail(&h->spot, TN_INVALID,
                         LENGTH_BYTES + (uint64_t)(name - h->json.text), "%s",
                         fault);
  TN__TRY(tn__bundle_add(h->bundle, &it.entry));
  it.entry->name = name;
  TN__TRY(tn__json_expect(&h->json, '{'));
  do TN__TRY(parse_property(&it));
  while (tn__json_take(&h->json, ','));
  TN__TRY(tn__json_expect(&h->json, '}'));
  if (it.seen != 7)
    return tn__json_fail(&h->json, "dtype, shape and data_offsets, once each");
  TN__TRY(check_item(&it));
  return keep_shape(&it);
}

/* -------------------------------------------------------------- the header */

static tn_code parse_metadata(header *h) {
  TN__TRY(tn__json_expect(&h->json, '{'));
  if (tn__json_take(&h->json, '}')) return TN_OK;
  do {
    tn_bundle_pair *pair = NULL;
    TN__TRY(tn__bundle_add_pair(h->bundle, &pair));
    TN__TRY(tn__json_string(&h->json, &pair->key));
    TN__TRY(tn__json_expect(&h->json, ':'));
    TN__TRY(tn__json_string(&h->json, &pair->value));
  } while (tn__json_take(&h->json, ','));
  return tn__json_expect(&h->json, '}');
}

static tn_code parse_member(header *h, bool *has_metadata) {
  const char *name = NULL;
  TN__TRY(tn__json_string(&h->json, &name));
  TN__TRY(tn__json_expect(&h->json, ':'));
  if (strcmp(name, "__metadata__") != 0) return parse_item(h, name);
  if (*has_metadata) return tn__json_fail(&h->json, "only one __metadata__");
  *has_metadata = true;
  return parse_metadata(h);
}

static tn_code parse_header(header *h) {
  bool has_metadata = false;
  if (h->json.at == h->json.end || *h->json.at != '{')
    return tn__json_fail(&h->json, "`{`");
  TN__TRY(tn__json_expect(&h->json, '{'));
  if (!tn__json_take(&h->json, '}')) {
    do TN__TRY(parse_member(h, &has_metadata));
    while (tn__json_take(&h->json, ','));
    TN__TRY(tn__json_expect(&h->json, '}'));
  }
  return tn__json_end(&h->json);
}

static int compare_ranges(const void *a, const void *b) {
  const tn__bundle_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks that every byte of the elements belongs to exactly one array. */
static tn_code check_ranges(header *h) {
  tn__bundle_entry *e = h->bundle->entries;
  size_t n = h->bundle->n;
  uint64_t at = h->begin;
  if (n > 1) qsort(e, n, sizeof *e, compare_ranges);
  for (size_t i = 0; i < n; ++i) {
    const tn__spot spot = {&h->bundle->file, e[i].name};
    if (e[i].begin != at)
      return tn__spot_fail(&spot, TN_INVALID, e[i].begin,
                           "%s; the file is damaged",
                           e[i].begin < at ? "it overlaps another array"
                                           : "bytes before it belong to no "
                                             "array");
    at += e[i].bytes;
  }
  if (at == h->begin + h->bytes) return TN_OK;
  return tn__spot_fail(&h->spot, TN_INVALID, at,
                       "bytes at the end belong to no array; the file is "
                       "damaged");
}

static tn_code read_length(const tn__spot *spot, uint64_t *out) {
  unsigned char bytes[LENGTH_BYTES];
  const uint64_t size = spot->file->size;
  if (size < LENGTH_BYTES)
    return tn__spot_fail(spot, TN_INVALID, TN__NOWHERE,
                         "%" PRIu64
                         " bytes are too short for a .safetensors "
                         "file",
                         size);
  TN__TRY(tn__file_read(spot, 0, bytes, LENGTH_BYTES));
  *out = tn__le64(bytes);
  if (*out > MAX_HEADER)
    return tn__spot_fail(spot, TN_INVALID, 0,
                         "a header of %" PRIu64
                         " bytes; at most %d are "
                         "accepted",
                         *out, MAX_HEADER);
  if (*out > size - LENGTH_BYTES)
    return tn__spot_fail(spot, TN_INVALID, size,
                         "the file ends within its header of %" PRIu64
                         " bytes;"
                         " it is truncated",
                         *out);
  return TN_OK;
}

tn_code tn__safetensors_open(tn_bundle *bundle) {
  const tn__spot spot = {&bundle->file, NULL};
  uint64_t length = 0;
  TN__TRY(read_length(&spot, &length));
  char *text = tn__arena_alloc(&bundle->arena, (size_t)length + 1);
  if (!text) return tn__fail_memory((size_t)length, "a header of safetensors");
  TN__TRY(tn__file_read(&spot, LENGTH_BYTES, text, (size_t)length));
  header h = {.json = {text, text, text + length, 0, fail_json},
              .spot = spot,
              .bundle = bundle,
              .begin = LENGTH_BYTES + length,
              .bytes = bundle->file.size - LENGTH_BYTES - length};
  TN__TRY(parse_header(&h));
  return check_ranges(&h);
}
