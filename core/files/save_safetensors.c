/* SPDX-License-Identifier: Apache-2.0
 * save_safetensors.c: writes a .safetensors: the header, padded so that the
 * elements begin at a multiple of 8, then the arrays. Arrays with wide elements
 * come first, so that every array is aligned.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"

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
  tn__buf_add(out, ":{\"dtype\":\"%s\",\"shape\":[",
              tn__safetensors_name(t->dtype));
  for (int32_t i = 0; i < t->ndim; ++i)
    tn__buf_add(out, "%s%lld", i ? "," : "", (long long)t->shape[i]);
  tn__buf_add(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
              begin + (uint64_t)tn_tensor_bytes(t));
}

static void add_header(const tn_bundle_content *content,
                       const tn_bundle_item *items, tn__buf *out) {
  uint64_t at = 0;
  tn__buf_bytes(out, "\0\0\0\0\0\0\0\0{", 9);
  if (content->n_metadata > 0) add_metadata(content, out);
  for (size_t i = 0; i < content->n_items; ++i) {
    if (i) tn__buf_add(out, ",");
    add_item(&items[i], at, out);
    at += (uint64_t)tn_tensor_bytes(&items[i].array->tensor);
  }
  tn__buf_add(out, "}");
  while (!out->failed && out->n % 8 != 0) tn__buf_bytes(out, " ", 1);
}

/* The format wants whole bytes of every array. */
static tn_code check_item(const char *path, const tn_bundle_item *item) {
  const tn_tensor *t = &item->array->tensor;
  if (!tn__safetensors_name(t->dtype))
    return tn__fail(TN_UNSUPPORTED,
                    "%s: `%s` is %s, which .safetensors cannot name; convert "
                    "it first (operator elemwise.cast)",
                    path, item->name, tn__dtype_name(t->dtype));
  if (tn_tensor_size(t) * tn_dtype_bits(t->dtype) % 8 == 0) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "%s: `%s` has %lld elements of %s, which end within a byte; "
                  "a .safetensors has whole bytes only: save an even number",
                  path, item->name, (long long)tn_tensor_size(t),
                  tn__dtype_name(t->dtype));
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
  for (size_t i = 0; i < n; ++i)
    TN__TRY(check_item(sink->path, &content->items[i]));
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
