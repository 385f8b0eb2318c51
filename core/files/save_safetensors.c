/* SPDX-License-Identifier: Apache-2.0
 * save_safetensors.c: writes a .safetensors: the header, padded so that the
 * elements begin at a multiple of 8, then the arrays. Arrays with wide elements
 * come first, so that every array is aligned.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"

static const char *name_dtype(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
      return "F16";
    case TN_BF16:
      return "BF16";
    case TN_F32:
      return "F32";
    case TN_F64:
      return "F64";
    case TN_I8:
      return "I8";
    case TN_I16:
      return "I16";
    case TN_I32:
      return "I32";
    case TN_I64:
      return "I64";
    case TN_U8:
      return "U8";
    case TN_U16:
      return "U16";
    case TN_U32:
      return "U32";
    case TN_U64:
      return "U64";
    default:
      return "BOOL";
  }
}

static void add_metadata(const tn_bundle_content *content, tn__buf *out) {
  tn__buf_add(out, "\"__metadata__\":{");
  for (size_t i = 0; i < content->n_metadata; ++i) {
    if (i) tn__buf_add(out, ",");
    tn__buf_json(out, content->metadata[i].key);
    tn__buf_add(out, ":");
    tn__buf_json(out, content->metadata[i].value);
  }
  tn__buf_add(out, "}%s", content->n_items ? "," : "");
}

static void add_item(const tn_bundle_item *item, uint64_t begin, tn__buf *out) {
  const tn_tensor *t = &item->array->tensor;
  tn__buf_json(out, item->name);
  tn__buf_add(out, ":{\"dtype\":\"%s\",\"shape\":[", name_dtype(t->dtype));
  for (int32_t i = 0; i < t->ndim; ++i)
    tn__buf_add(out, "%s%lld", i ? "," : "", (long long)t->shape[i]);
  tn__buf_add(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
              begin + tn__array_bytes(item->array));
}

static void add_header(const tn_bundle_content *content,
                       const tn_bundle_item *items, tn__buf *out) {
  uint64_t at = 0;
  tn__buf_bytes(out, "\0\0\0\0\0\0\0\0{", 9);
  if (content->n_metadata > 0) add_metadata(content, out);
  for (size_t i = 0; i < content->n_items; ++i) {
    if (i) tn__buf_add(out, ",");
    add_item(&items[i], at, out);
    at += tn__array_bytes(items[i].array);
  }
  tn__buf_add(out, "}");
  while (!out->failed && out->n % 8 != 0) tn__buf_bytes(out, " ", 1);
}

static int compare_widths(const void *a, const void *b) {
  const tn_bundle_item *x = a, *y = b;
  int64_t m = tn_dtype_bytes(x->array->tensor.dtype);
  int64_t n = tn_dtype_bytes(y->array->tensor.dtype);
  return m != n ? (m < n) - (m > n) : strcmp(x->name, y->name);
}

static tn_code put_all(tn__sink *sink, const tn_bundle_content *content,
                       const tn_bundle_item *items, tn__buf *head) {
  add_header(content, items, head);
  if (head->failed) return tn__fail_memory(head->n, "a header of safetensors");
  for (int i = 0; i < 8; ++i)
    head->s[i] = (char)((uint64_t)(head->n - 8) >> 8 * i & 0xff);
  TN__TRY(tn__sink_write(sink, head->s, head->n));
  for (size_t i = 0; i < content->n_items; ++i)
    TN__TRY(tn__array_stream(items[i].array, tn__sink_write, sink));
  return TN_OK;
}

tn_code tn__safetensors_save(tn__sink *sink, const tn_bundle_content *content) {
  tn__buf head;
  const size_t n = content->n_items, bytes = n * sizeof(tn_bundle_item);
  tn_bundle_item *items = tn__alloc(sink->env, bytes);
  if (!items) return tn__fail_memory(bytes, "writing a .safetensors");
  if (n > 0) memcpy(items, content->items, bytes);
  if (n > 1) qsort(items, n, sizeof *items, compare_widths);
  tn__buf_init(&head, sink->env);
  tn_code rc = put_all(sink, content, items, &head);
  tn__buf_deinit(&head);
  tn__free(sink->env, items);
  return rc;
}
