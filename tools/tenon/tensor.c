/* SPDX-License-Identifier: Apache-2.0
 * tensor.c: dense arrays of the tool's own, between the readers, the library
 * and the printer.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* The shape as "(2, 3)". */
static void add_shape(text *out, const tensor *t) {
  text_add(out, "(");
  for (int32_t i = 0; i < t->ndim; ++i)
    text_add(out, "%s%" PRId64, i ? ", " : "", t->shape[i]);
  text_add(out, ")");
}

/* Bytes of the whole, or false if they do not fit a size. */
static bool measure_bytes(tensor *t) {
  size_t n = 1;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] < 0) return false;
    if (__builtin_mul_overflow(n, (size_t)t->shape[i], &n)) return false;
  }
  t->n = n;
  if (n > PTRDIFF_MAX / sizeof(double)) return false; /* no type is wider */
  t->bytes = (size_t)tn_dtype_bytes_of(t->dtype, (int64_t)n);
  return true;
}

bool tensor_alloc(tensor *t, text *why) {
  t->data = measure_bytes(t) ? (unsigned char *)calloc(t->bytes + 1, 1) : NULL;
  if (t->data) return true;
  text shape = {0};
  add_shape(&shape, t);
  report_failure(
      why, "no memory for an array of shape %s and type %s; make it smaller",
      text_get(&shape), dtype_name(t->dtype));
  text_deinit(&shape);
  return false;
}

void tensor_get(const tensor *t, size_t i, void *element) {
  const size_t size = (size_t)tn_dtype_bytes(t->dtype);
  if (size > 0)
    memcpy(element, t->data + i * size, size);
  else
    *(unsigned char *)element =
        (unsigned char)tn_storage_get_code(t->data, t->dtype, (int64_t)i);
}

void tensor_set(tensor *t, size_t i, const void *element) {
  const size_t size = (size_t)tn_dtype_bytes(t->dtype);
  if (size > 0)
    memcpy(t->data + i * size, element, size);
  else
    tn_storage_set_code(t->data, t->dtype, (int64_t)i,
                        *(const unsigned char *)element);
}

void tensor_deinit(tensor *t) {
  free(t->data);
  *t = (tensor){0};
}

bool tensor_to_array(const tensor *t, tn_runtime *rt, tn_array **out,
                     text *why) {
  const tn_spec spec = {t->dtype, t->ndim, t->shape};
  if (tn_array_create(rt, &spec, out)) return fail_library(why);
  if (!tn_array_set(*out, t->data, t->bytes)) return true;
  tn_array_release(*out);
  *out = NULL;
  return fail_library(why);
}

bool tensor_from_array(tn_array *array, tensor *out, text *why) {
  const tn_tensor *from = tn_array_tensor(array);
  *out = (tensor){.dtype = from->dtype, .ndim = from->ndim};
  if (from->ndim > 0)
    memcpy(out->shape, from->shape, (size_t)from->ndim * sizeof *out->shape);
  if (!tensor_alloc(out, why)) return false;
  if (!tn_array_get(array, out->data, out->bytes)) return true;
  tensor_deinit(out);
  return fail_library(why);
}
