/* SPDX-License-Identifier: Apache-2.0
 * source_idx.c: files of arrays as MNIST has them: two zeros, the type and the
 * number of dimensions in a byte each, then each dimension in four bytes, and
 * the elements, all with the highest byte first. The first dimension counts the
 * examples. A second file has the labels.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "sources.h"

typedef struct idx_params {
  const char *label;
  int32_t has_label;
  int32_t has_dtype;
  tn_dtype dtype;
  double scale;
} idx_params;

static const tn__source_param params[] = {
    {"label", TN_FIELD_STRING, offsetof(idx_params, label),
     offsetof(idx_params, has_label), INT64_MIN, "None"},
    {"dtype", TN_FIELD_DTYPE, offsetof(idx_params, dtype),
     offsetof(idx_params, has_dtype), INT64_MIN, "None"},
    {"scale", TN_FIELD_FLOAT, offsetof(idx_params, scale), 0, INT64_MIN, "1"}};
static const tn__source_params idx_fields = {
    params, sizeof params / sizeof *params, sizeof(idx_params),
    "data of kind idx"};

enum { DATA, LABEL, MOST_DIMS = TN_MAX_NDIM, HEAD = 4 };

/* An open file of one field. */
typedef struct idx_file {
  tn__example_file file; /* without places */
  tn__room content;      /* the bytes of a compressed file, decompressed */
  uint64_t size;         /* of the file, decompressed */
  tn_dtype dtype;        /* of its elements */
  tn__batch_field example;
  uint64_t n;       /* examples */
  uint64_t begin;   /* of the elements */
  size_t n_example; /* elements of an example */
  bool converts;
  tn_dtype result; /* the type after the conversion */
  double scale;
} idx_file;

typedef struct idx {
  tn__source base;
  idx_params *params;
  idx_file files[2];
} idx;

/* ------------------------------------------------------------------ opening */

/* Reads n bytes, which the file has, or had when it was opened. */
static tn_code read_bytes(const idx_file *f, uint64_t at, void *to, size_t n) {
  if (!f->content.data)
    return tn__file_read(&(tn__spot){&f->file.file, NULL}, at, to, n);
  memcpy(to, f->content.data + at, n);
  return TN_OK;
}

static uint32_t get_number(const unsigned char *from) {
  return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 |
         (uint32_t)from[2] << 8 | from[3];
}

static tn_code fail_file(const idx_file *f, const char *problem) {
  return tn__fail(TN_INVALID,
                  "%s: %s; a file of kind idx begins with 0, 0, its type and "
                  "its number of dimensions",
                  f->file.path, problem);
}

static tn_dtype find_type(unsigned char code) {
  switch (code) {
    case 0x08:
      return TN_U8;
    case 0x09:
      return TN_I8;
    case 0x0b:
      return TN_I16;
    case 0x0c:
      return TN_I32;
    case 0x0d:
      return TN_F32;
    case 0x0e:
      return TN_F64;
    default:
      return TN_DTYPE_UNKNOWN;
  }
}

static tn_code check_head(idx_file *f, const unsigned char *head) {
  if (head[0] != 0 || head[1] != 0)
    return fail_file(f, "the first two bytes are not 0");
  f->dtype = find_type(head[2]);
  if (f->dtype == TN_DTYPE_UNKNOWN)
    return fail_file(f, "the third byte is no type of elements");
  if (head[3] < 1 || head[3] > MOST_DIMS)
    return fail_file(f, "the number of dimensions is not from 1 to 16");
  return TN_OK;
}

/* Reads the dimensions, and compares them with the size of the file. */
static tn_code read_dims(idx_file *f, int32_t ndim) {
  unsigned char dims[4 * MOST_DIMS];
  const size_t n = 4 * (size_t)ndim;
  size_t bytes = (size_t)tn_dtype_bytes(f->dtype);
  if (f->size < HEAD + n)
    return fail_file(f, "the file ends inside of the dimensions");
  TN__TRY(read_bytes(f, HEAD, dims, n));
  f->n = get_number(dims);
  f->begin = HEAD + n;
  f->n_example = 1;
  f->example.ndim = ndim - 1;
  for (int32_t d = 1; d < ndim; ++d) {
    const uint32_t dim = get_number(dims + 4 * d);
    f->example.shape[d - 1] = dim;
    if (!tn__mul(f->n_example, dim, &f->n_example))
      return fail_file(f, "the dimensions are too large");
  }
  if (!tn__mul(bytes, f->n_example, &bytes) ||
      !tn__mul(bytes, (size_t)f->n, &bytes))
    return fail_file(f, "the dimensions are too large");
  if (bytes == f->size - f->begin) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s has %" PRIu64
                  " bytes of elements, and its dimensions "
                  "need %zu; the file is damaged or not complete",
                  f->file.path, f->size - f->begin, bytes);
}

/* Decompresses the file if it begins as gzip does. */
static tn_code read_content(idx_file *f) {
  unsigned char mark[2] = {0};
  size_t n = 0;
  f->size = f->file.file.size;
  if (f->size >= sizeof mark) TN__TRY(read_bytes(f, 0, mark, sizeof mark));
  if (mark[0] != 0x1f || mark[1] != 0x8b) return TN_OK;
  TN__TRY(tn__gzip_read(&f->file.file, &f->content, &n));
  f->size = n;
  return TN_OK;
}

static tn_code open_file(const tn__env *env, const char *path, idx_file *f) {
  unsigned char head[HEAD];
  TN__TRY(tn__example_file_open(env, path, &f->file));
  TN__TRY(read_content(f));
  if (f->size < HEAD) return fail_file(f, "the file is too short");
  TN__TRY(read_bytes(f, 0, head, HEAD));
  TN__TRY(check_head(f, head));
  f->result = f->dtype;
  return read_dims(f, head[3]);
}

/* ------------------------------------------------------------------ reading */

/* Reverses the bytes of n elements. */
static void swap_bytes(unsigned char *at, size_t n, size_t bytes) {
  for (; n > 0; --n, at += bytes)
    for (size_t i = 0; i < bytes / 2; ++i) {
      const unsigned char byte = at[i];
      at[i] = at[bytes - 1 - i];
      at[bytes - 1 - i] = byte;
    }
}

/* An element in the order of bytes of this machine. */
static double get_element(tn_dtype dtype, const unsigned char *from) {
  int16_t i16;
  int32_t i32;
  float f32;
  double f64;
  switch (dtype) {
    case TN_U8:
      return *from;
    case TN_I8:
      return *(const signed char *)from;
    case TN_I16:
      memcpy(&i16, from, sizeof i16);
      return i16;
    case TN_I32:
      memcpy(&i32, from, sizeof i32);
      return i32;
    case TN_F32:
      memcpy(&f32, from, sizeof f32);
      return (double)f32;
    default:
      memcpy(&f64, from, sizeof f64);
      return f64;
  }
}

/* Converts n elements. */
static void convert_elements(const idx_file *f, const unsigned char *from,
                             void *to) {
  const size_t bytes = (size_t)tn_dtype_bytes(f->dtype);
  for (size_t i = 0; i < f->n_example; ++i) {
    const double value = get_element(f->dtype, from + i * bytes) * f->scale;
    if (f->result == TN_F32)
      ((float *)to)[i] = (float)value;
    else
      ((double *)to)[i] = value;
  }
}

/* Reads example `index` of a file, and stores it at `to`. */
static tn_code read_example(const idx_file *f, uint64_t index, tn__room *room,
                            void *to) {
  const size_t bytes = (size_t)tn_dtype_bytes(f->dtype);
  const size_t n = f->n_example * bytes;
  unsigned char *raw = to;
  if (f->converts) {
    TN__TRY(tn__room_reserve(f->file.env, room, n + 1, 0));
    raw = room->data;
  }
  TN__TRY(read_bytes(f, f->begin + index * n, raw, n));
  swap_bytes(raw, f->n_example, bytes);
  if (f->converts) convert_elements(f, raw, to);
  return TN_OK;
}

static tn_code fill_idx(const tn__source *source, const tn__filling *f) {
  const idx *t = (const idx *)source;
  for (uint32_t k = 0; k < source->n_fields; ++k) {
    const idx_file *file = &t->files[k];
    const size_t bytes = file->n_example * (size_t)tn_dtype_bytes(file->result);
    for (uint32_t i = 0; i < f->n; ++i)
      TN__TRY(read_example(file, f->index[i], f->room,
                           (char *)f->to[k] + i * bytes));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- source */

static void deinit_idx(tn__source *source) {
  idx *t = (idx *)source;
  for (int i = 0; i < 2; ++i) {
    tn__example_file_deinit(&t->files[i].file);
    tn__free(source->env, t->files[i].content.data);
  }
  tn__free(source->env, t->params);
}

static tn_code check_params(const idx_params *p) {
  if (p->has_dtype && p->dtype != TN_F32 && p->dtype != TN_F64)
    return tn__fail(TN_INVALID,
                    "data of kind idx: `dtype` is %s; use f32 or f64, or leave "
                    "it out for the type of the file",
                    tn_dtype_name(p->dtype));
  if (!p->has_dtype && p->scale != 1.0)
    return tn__fail(TN_INVALID,
                    "data of kind idx: `scale` needs `dtype` f32 or f64");
  return TN_OK;
}

static tn_code open_labels(idx *t, const tn__opening *o) {
  idx_file *data = &t->files[DATA], *label = &t->files[LABEL];
  TN__TRY(open_file(o->env, t->params->label, label));
  if (label->n != data->n)
    return tn__fail(TN_SHAPE,
                    "%s has %" PRIu64 " labels, and %s has %" PRIu64
                    " examples; take the two files of one data set",
                    label->file.path, label->n, data->file.path, data->n);
  return tn__source_set_field(&t->base, LABEL, label->dtype, &label->example);
}

static tn_code open_idx(idx *t, const tn__opening *o) {
  void *values = NULL;
  idx_file *data = &t->files[DATA];
  TN__TRY(tn__source_params_parse(o, &idx_fields, &values));
  t->params = values;
  TN__TRY(check_params(t->params));
  TN__TRY(open_file(o->env, o->path, data));
  t->base.n = data->n;
  data->converts = t->params->has_dtype;
  data->scale = t->params->scale;
  if (data->converts) data->result = t->params->dtype;
  TN__TRY(tn__source_set_field(&t->base, DATA, data->result, &data->example));
  t->base.n_fields = t->params->has_label ? 2 : 1;
  return t->params->has_label ? open_labels(t, o) : TN_OK;
}

tn_code tn__source_of_idx(const tn__opening *opening, tn__source **out) {
  tn__source *source = NULL;
  TN__TRY(tn__source_create(opening, sizeof(idx), 2, &source));
  source->kind = "idx";
  source->fill = fill_idx;
  source->deinit = deinit_idx;
  for (int i = 0; i < 2; ++i) ((idx *)source)->files[i].file.env = opening->env;
  const tn_code rc = open_idx((idx *)source, opening);
  if (rc == TN_OK)
    *out = source;
  else
    tn__source_release(source);
  return rc;
}
