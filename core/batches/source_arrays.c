/* SPDX-License-Identifier: Apache-2.0
 * source_arrays.c: examples in arrays, and the functions that all sources
 * share.
 */
#include "sources.h"

#include <inttypes.h>
#include <string.h>

/* ------------------------------------------------------------------- common */

tn_code tn__room_reserve(const tn__env *env, tn__room *room, size_t n,
                         size_t used) {
  if (n <= room->capacity) return TN_OK;
  const size_t twice = 2 * room->capacity;
  const size_t capacity = n > twice ? n : twice;
  unsigned char *more = tn__alloc(env, capacity);
  if (!more) return tn__fail_memory(capacity, "bytes of a data set");
  if (used > 0) memcpy(more, room->data, used);
  tn__free(env, room->data);
  *room = (tn__room){more, capacity};
  return TN_OK;
}

tn_code tn__source_create(const tn__opening *opening, size_t bytes, uint32_t n,
                          tn__source **out) {
  const tn__env *env = opening->env;
  tn__source *source = tn__zalloc(env, bytes);
  *out = NULL;
  if (!source) return tn__fail_memory(bytes, "a data set");
  *source =
      (tn__source){.env = env, .batch = opening->options->batch, .n_fields = n};
  source->fields = tn__zalloc(env, n * sizeof *source->fields);
  if (!source->fields) {
    tn__free(env, source);
    return tn__fail_memory(n * sizeof *source->fields, "a data set");
  }
  *out = source;
  return TN_OK;
}

void tn__source_release(tn__source *source) {
  if (!source) return;
  const tn__env *env = source->env;
  if (source->deinit) source->deinit(source);
  for (uint32_t i = 0; source->read && i < source->n_read; ++i)
    tn_variable_release(source->read[i]);
  tn_params_release(source->decode_params);
  tn__free(env, source->read);
  tn__free(env, source->fields);
  tn__free(env, source);
}

tn_code tn__source_set_field(tn__source *source, uint32_t f, tn_dtype dtype,
                             const tn__batch_field *example) {
  tn__batch_field *field = &source->fields[f];
  if (example->ndim >= TN_MAX_NDIM)
    return tn__fail(TN_UNSUPPORTED,
                    "the examples of field %" PRIu32
                    " have %d dimensions; with that of the batch there can be "
                    "%d",
                    f, (int)example->ndim, TN_MAX_NDIM);
  field->dtype = dtype;
  field->ndim = example->ndim + 1;
  field->shape[0] = source->batch;
  for (int32_t d = 0; d < example->ndim; ++d)
    field->shape[d + 1] = example->shape[d];
  return TN_OK;
}

/* ------------------------------------------------------------------- arrays */

/* Examples i of the field are `bytes` bytes from i * step on. */
typedef struct rows {
  tn_array *array;
  int64_t step;
  size_t bytes;
} rows;

typedef struct arrays {
  tn__source base;
  rows *rows; /* one for each field */
} arrays;

static tn_code fill_rows(const tn__source *source, const tn__filling *f) {
  const arrays *all = (const arrays *)source;
  for (uint32_t k = 0; k < source->n_fields; ++k) {
    const rows *r = &all->rows[k];
    const char *from = tn_array_tensor(r->array)->data;
    char *to = f->to[k];
    for (uint32_t i = 0; i < f->n && r->bytes > 0; ++i)
      memcpy(to + i * r->bytes, from + (int64_t)f->index[i] * r->step,
             r->bytes);
  }
  return TN_OK;
}

static void deinit_arrays(tn__source *source) {
  arrays *all = (arrays *)source;
  for (uint32_t k = 0; all->rows && k < source->n_fields; ++k)
    tn_array_release(all->rows[k].array);
  tn__free(source->env, all->rows);
}

static tn_code check_array(uint32_t f, const tn_array *array, uint64_t n) {
  if (!array)
    return tn__fail(TN_INVALID,
                    "tn_data_from_arrays: field %" PRIu32 " is NULL", f);
  const tn_tensor *t = tn_array_tensor(array);
  if (t->device_type != TN_DEVICE_CPU)
    return tn__fail(TN_UNSUPPORTED,
                    "tn_data_from_arrays: field %" PRIu32
                    " is not on the CPU; copy it there with tn_array_to",
                    f);
  if (t->ndim == 0)
    return tn__fail(TN_SHAPE,
                    "tn_data_from_arrays: field %" PRIu32
                    " has no dimension of examples; reshape it to one",
                    f);
  if ((uint64_t)t->shape[0] != n)
    return tn__fail(TN_SHAPE,
                    "tn_data_from_arrays: field %" PRIu32 " has %" PRId64
                    " examples, and field 0 has %" PRIu64
                    "; the first dimensions must be equal",
                    f, t->shape[0], n);
  return TN_OK;
}

/* True if each example is dense. */
static bool has_dense_rows(const tn_tensor *t) {
  int64_t step = 1;
  for (int32_t d = t->ndim; d-- > 1; step *= t->shape[d])
    if (t->shape[d] != 1 && t->strides[d] != step) return false;
  return true;
}

/* Sets the description of a field from an array, and keeps the array, or a copy
 * with dense examples. */
static tn_code set_rows(tn__source *source, uint32_t f, tn_array *array,
                        rows *out) {
  tn__batch_field example = {0};
  const tn_tensor *t = tn_array_tensor(array);
  int64_t n = 1;
  if (has_dense_rows(t))
    out->array = tn_array_retain(array);
  else
    TN__TRY(tn_array_cast(array, t->dtype, &out->array));
  t = tn_array_tensor(out->array);
  example.ndim = t->ndim - 1;
  for (int32_t d = 1; d < t->ndim; ++d) {
    example.shape[d - 1] = t->shape[d];
    n *= t->shape[d];
  }
  if (n * tn_dtype_bits(t->dtype) % 8 != 0)
    return tn__fail(TN_UNSUPPORTED,
                    "tn_data_from_arrays: an example of field %" PRIu32
                    " has %" PRId64
                    " elements of %s, which is no whole number "
                    "of bytes; use another type",
                    f, n, tn_dtype_name(t->dtype));
  out->bytes = (size_t)tn_dtype_bytes_of(t->dtype, n);
  out->step = tn_dtype_is_packed(t->dtype)
                  ? (int64_t)out->bytes
                  : t->strides[0] * tn_dtype_bytes(t->dtype);
  return tn__source_set_field(source, f, t->dtype, &example);
}

static tn_code init_arrays(arrays *all, tn_array *const *fields) {
  tn__source *source = &all->base;
  const uint32_t n = source->n_fields;
  source->kind = "arrays";
  source->n = (uint64_t)tn_array_tensor(fields[0])->shape[0];
  source->fill = fill_rows;
  source->deinit = deinit_arrays;
  all->rows = tn__zalloc(source->env, n * sizeof *all->rows);
  source->read = tn__zalloc(source->env, n * sizeof *source->read);
  if (!all->rows || !source->read)
    return tn__fail_memory(n * sizeof *all->rows, "a data set");
  for (uint32_t f = 0; f < n; ++f) {
    TN__TRY(set_rows(source, f, fields[f], &all->rows[f]));
    TN__TRY(tn_array_variable(all->rows[f].array, &source->read[f]));
    ++source->n_read;
  }
  return TN_OK;
}

tn_code tn__source_of_arrays(const tn__opening *opening, uint32_t n,
                             tn_array *const *fields, tn__source **out) {
  tn__source *source = NULL;
  TN__TRY(check_array(0, fields[0],
                      fields[0] && tn_array_tensor(fields[0])->ndim > 0
                          ? (uint64_t)tn_array_tensor(fields[0])->shape[0]
                          : 0));
  for (uint32_t f = 1; f < n; ++f)
    TN__TRY(check_array(f, fields[f],
                        (uint64_t)tn_array_tensor(fields[0])->shape[0]));
  TN__TRY(tn__source_create(opening, sizeof(arrays), n, &source));
  const tn_code rc = init_arrays((arrays *)source, fields);
  if (rc == TN_OK)
    *out = source;
  else
    tn__source_release(source);
  return rc;
}
