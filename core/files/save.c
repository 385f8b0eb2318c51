/* SPDX-License-Identifier: Apache-2.0
 * save.c: writes arrays to a file. It chooses the format by the file's name,
 * checks names and metadata, and streams the elements of any array as dense
 * bytes. A regular file appears under its name only when it is complete.
 */
#include <string.h>

#include "formats.h"

/* ---------------------------------------------------------------- elements */

enum { PIECE = 1 << 14 };

/* Elements that are being written. */
typedef struct stream {
  tn_array *array;
  tn__write_fn *write;
  void *ctx;
  unsigned char *piece; /* PIECE bytes */
} stream;

static tn_code stream_zeros(stream *s, uint64_t bytes) {
  memset(s->piece, 0, PIECE);
  while (bytes > 0) {
    size_t n = bytes < PIECE ? (size_t)bytes : PIECE;
    TN__TRY(s->write(s->ctx, s->piece, n));
    bytes -= n;
  }
  return TN_OK;
}

/* Writes elements that fit into a piece. */
static tn_code stream_piece(stream *s, const tn_tensor *part, size_t bytes) {
  int64_t strides[TN_MAX_NDIM];
  tn_tensor dense = *part;
  dense.data = s->piece;
  dense.strides = strides;
  tn__strides_dense(part->ndim, part->shape, strides);
  tn__tensor_copy(&dense, part);
  return s->write(s->ctx, s->piece, bytes);
}

/* Writes as many rows together as fit into a piece. A longer row is written in
 * parts. */
static tn_code stream_part(stream *s, const tn_tensor *t) {
  int64_t shape[TN_MAX_NDIM];
  const int64_t size = tn_dtype_bytes(t->dtype);
  const int64_t n = t->shape[0], row = tn_tensor_size(t) / n * size;
  const int64_t step = row <= PIECE ? PIECE / row : 1;
  tn_tensor part = *t;
  part.shape = shape;
  memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
  for (int64_t i = 0; i < n; i += step) {
    part.data = (char *)t->data + i * t->strides[0] * size;
    if (row > PIECE) {
      tn_tensor inner = part;
      --inner.ndim, ++inner.shape, ++inner.strides;
      TN__TRY(stream_part(s, &inner));
      continue;
    }
    shape[0] = step < n - i ? step : n - i;
    TN__TRY(stream_piece(s, &part, (size_t)(shape[0] * row)));
  }
  return TN_OK;
}

static tn_code run_stream(void *arg, tn__token *token) {
  stream *s = arg;
  tn_tensor t = tn__array_metadata(s->array);
  const uint64_t bytes = (uint64_t)tn_tensor_bytes(&t);
  (void)token;
  t.data = tn__array_data(s->array);
  if (bytes == 0) return TN_OK;
  if (!t.data) return stream_zeros(s, bytes);
  if (tn_tensor_is_contiguous(&t))
    return s->write(s->ctx, t.data, (size_t)bytes);
  return stream_part(s, &t);
}

static tn_code stream_on_cpu(stream *s) {
  const tn__access use = {&s->array->block->var, TN__READ, 0};
  return tn__run_here(s->array->env->engine,
                      &(tn__job){.name = "tn_bundle_save",
                                 .run = run_stream,
                                 .arg = s,
                                 .access = &use,
                                 .n_access = 1});
}

tn_code tn__array_stream(tn_array *array, tn__write_fn *write, void *ctx) {
  stream s = {.array = array, .write = write, .ctx = ctx};
  const tn__env *env = array->env;
  tn_array *here = NULL;
  if (array->block->device != env->cpu) {
    TN__TRY(tn__array_to(array, env->cpu, &here));
    s.array = here;
  }
  s.piece = tn__alloc(env, PIECE);
  tn_code rc =
      s.piece ? stream_on_cpu(&s) : tn__fail_memory(PIECE, "writing an array");
  tn__free(env, s.piece);
  tn__array_release(here);
  return rc;
}

/* -------------------------------------------------------------------- .npy */

/* Pads the header so that the elements begin at a multiple of 64, as NumPy
 * does. */
static void format_npy_dict(const char *descr, const tn_tensor *t,
                            tn__buf *out) {
  tn__buf_add(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
              tn_dtype_bytes(t->dtype) == 1 ? '|' : '<', descr);
  for (int32_t i = 0; i < t->ndim; ++i)
    tn__buf_add(out, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
  tn__buf_add(out, "%s), }", t->ndim == 1 ? "," : "");
  while (!out->failed && (out->n + 1) % 64 != 0) tn__buf_bytes(out, " ", 1);
  tn__buf_bytes(out, "\n", 1);
}

tn_code tn__npy_header(const char *path, const char *name,
                       const tn_array *array, tn__buf *out) {
  const tn_dtype dtype = array->tensor.dtype;
  const char *descr = tn__npy_descr(dtype);
  if (!descr)
    return tn__fail(TN_UNSUPPORTED,
                    "%s: %s%s%s is %s, which .npy cannot name; save a "
                    ".safetensors, or the array converted to %s",
                    path, name ? "`" : "the array", name ? name : "",
                    name ? "`" : "", tn__dtype_name(dtype),
                    tn__dtype_is_storage(dtype)
                        ? "another type (operator elemwise.cast)"
                        : "f32 (tn_array_cast)");
  tn__buf_bytes(out, "\x93NUMPY\1\0\0\0", 10);
  format_npy_dict(descr, &array->tensor, out);
  if (out->failed) return tn__fail_memory(128, "the header of a .npy");
  out->s[8] = (char)((out->n - 10) & 0xff);
  out->s[9] = (char)((out->n - 10) >> 8);
  return TN_OK;
}

static tn_code save_npy(tn__sink *sink, const tn_bundle_content *content) {
  tn__buf head;
  tn_array *array = content->items[0].array;
  tn__buf_init(&head, sink->env);
  tn_code rc = tn__npy_header(sink->path, NULL, array, &head);
  if (!rc) rc = tn__sink_write(sink, head.s, head.n);
  if (!rc) rc = tn__array_stream(array, tn__sink_write, sink);
  tn__buf_deinit(&head);
  return rc;
}

/* ----------------------------------------------------------------- content */

/* Properties of a format. */
typedef struct format {
  const char *end; /* end of the file's name */
  tn_code (*save)(tn__sink *sink, const tn_bundle_content *content);
  bool named;
  bool deflates;
  bool describes; /* has metadata */
} format;

static const format formats[] = {
    {".npy", save_npy, .named = false},
    {".npz", tn__npz_save, .named = true, .deflates = true},
    {".safetensors", tn__safetensors_save, .named = true, .describes = true}};

static tn_code find_format(const char *path, const format **out) {
  size_t n = strlen(path);
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; ++i) {
    size_t m = strlen(formats[i].end);
    if (n <= m || strcmp(path + n - m, formats[i].end) != 0) continue;
    *out = &formats[i];
    return TN_OK;
  }
  return tn__fail(TN_INVALID,
                  "%s: the end of a file's name decides its format: .npy, .npz "
                  "or .safetensors",
                  path);
}

static tn_code check_content(const char *path, const format *f,
                             const tn_bundle_content *content) {
  if (!f->named && content->n_items != 1)
    return tn__fail(TN_INVALID,
                    "%s: a .npy holds one array, not %zu; save a .npz", path,
                    content->n_items);
  if (content->flags & ~(uint32_t)TN_BUNDLE_DEFLATE ||
      (content->flags && !f->deflates))
    return tn__fail(TN_INVALID,
                    "%s: the flags are 0x%x; a .npz takes TN_BUNDLE_DEFLATE, "
                    "other formats none",
                    path, (unsigned)content->flags);
  if (content->n_metadata > 0 && !f->describes)
    return tn__fail(TN_INVALID, "%s: only a .safetensors holds metadata", path);
  return TN_OK;
}

/* The map finds repeated names; it borrows them. */
static tn_code add_names(const tn__env *env, const char *path,
                         const tn_bundle_content *content, tn__map *map) {
  TN__TRY(tn__map_reserve(env, map, content->n_items));
  for (size_t i = 0; i < content->n_items; ++i) {
    const char *name = content->items[i].name;
    const char *fault = tn__find_name_fault(name, strlen(name));
    if (!fault && strcmp(name, "__metadata__") == 0)
      fault = "`__metadata__` means something else to safetensors";
    if (!fault && strlen(name) > 60000)
      fault = "the name of an array is longer than 60000 bytes";
    if (fault) return tn__fail(TN_INVALID, "%s: array %zu: %s", path, i, fault);
    if (tn__map_get(map, name))
      return tn__fail(TN_INVALID, "%s: two arrays are named `%.200s`", path,
                      name);
    TN__TRY(tn__map_set(env, map, name, content->items[i].array));
  }
  return TN_OK;
}

/* The header is JSON, so texts must be UTF-8. */
static tn_code check_metadata(const char *path, size_t i, const char *kind,
                              const char *text) {
  if (tn__is_utf8(text, strlen(text))) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s: the %s of metadata %zu is not UTF-8, and a .safetensors "
                  "holds nothing else; encode it",
                  path, kind, i);
}

static tn_code add_keys(const tn__env *env, const char *path,
                        const tn_bundle_content *content, tn__map *map) {
  TN__TRY(tn__map_reserve(env, map, content->n_metadata));
  for (size_t i = 0; i < content->n_metadata; ++i) {
    const char *key = content->metadata[i].key;
    TN__TRY(check_metadata(path, i, "key", key));
    TN__TRY(check_metadata(path, i, "value", content->metadata[i].value));
    if (tn__map_get(map, key))
      return tn__fail(TN_INVALID, "%s: the metadata has the key `%.200s` twice",
                      path, key);
    TN__TRY(tn__map_set(env, map, key, (void *)(uintptr_t)key));
  }
  return TN_OK;
}

static tn_code check_names(const tn__env *env, const char *path,
                           const tn_bundle_content *content) {
  tn__map names = {0}, keys = {0};
  tn_code rc = add_names(env, path, content, &names);
  if (!rc) rc = add_keys(env, path, content, &keys);
  tn__map_deinit(env, &names);
  tn__map_deinit(env, &keys);
  return rc;
}

tn_code tn__file_save_bundle(const tn__env *env, const char *path,
                             const tn_bundle_content *content) {
  const format *f = NULL;
  tn__sink sink;
  TN__TRY(find_format(path, &f));
  TN__TRY(check_content(path, f, content));
  if (f->named) TN__TRY(check_names(env, path, content));
  TN__TRY(tn__sink_open(env, path, &sink));
  tn_code rc = f->save(&sink, content);
  if (!rc) rc = tn__sink_commit(&sink, TN__SINK_DURABLE);
  tn__sink_close(&sink);
  return rc;
}
