/* SPDX-License-Identifier: Apache-2.0
 * dlpack.c: imports arrays of other libraries and exports arrays, without a
 * copy if possible. Nothing of an imported tensor is used before it is checked.
 * An export keeps its array, and so the runtime, until its deleter is called.
 */
#include "exchange.h"

/* ------------------------------------------------------------------ import */

/* A tensor of another library, and the function that returns it. */
typedef struct dl_import {
  const tn__env *env;
  const tn_tensor *tensor;
  tn__device *device;
  int64_t strides[TN_MAX_NDIM];
  char *first;    /* element (0,0,...) */
  int64_t lowest; /* position of the lowest element, counted from `first` */
  int64_t n;      /* elements from the lowest to the highest */
  void (*return_object)(void *object);
  void *object;
} dl_import;

static tn_code check_dtype(const tn_tensor *t) {
  if (tn__dtype_bit(t->dtype)) return TN_OK;
  unsigned lanes = (unsigned)(t->dtype >> 16);
  if (lanes == 0)
    return tn__fail(TN_DTYPE,
                    "DLPack: the element type has 0 lanes, where one of single "
                    "values has 1; fill in `dtype`");
  if (lanes != 1)
    return tn__fail(TN_DTYPE,
                    "DLPack: elements are vectors of %u lanes; only single "
                    "values are supported: use one more dimension",
                    lanes);
  return tn__fail(TN_DTYPE,
                  "DLPack: elements have type code %u with %u bits, which is "
                  "no element type of op.h; convert them first",
                  (unsigned)(t->dtype & 0xffu),
                  (unsigned)(t->dtype >> 8 & 0xffu));
}

static tn_code check_shape(const tn_tensor *t) {
  if (t->ndim < 0 || t->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID, "DLPack: %d dimensions; 0 to %d are supported",
                    (int)t->ndim, TN_MAX_NDIM);
  if (t->ndim > 0 && !t->shape)
    return tn__fail(TN_INVALID, "DLPack: %d dimensions, but the shape is NULL",
                    (int)t->ndim);
  for (int32_t i = 0; i < t->ndim; ++i)
    if (t->shape[i] < 0)
      return tn__fail(TN_INVALID,
                      "DLPack: dimension %d is %lld; it must be 0 or more",
                      (int)i, (long long)t->shape[i]);
  return TN_OK;
}

static tn_code fail_too_large(void) {
  return tn__fail(TN_OUT_OF_RANGE,
                  "DLPack: shape and strides lead further than an address "
                  "can count");
}

/* Finds the range of elements that the strides reach, around the first one. */
static tn_code find_extent(dl_import *g) {
  const tn_tensor *t = g->tensor;
  int64_t low = 0, high = 0, bytes = 0;
  for (int32_t i = 0; i < t->ndim; ++i) {
    int64_t reach = 0;
    int64_t *end = g->strides[i] < 0 ? &low : &high;
    if (__builtin_mul_overflow(t->shape[i] - 1, g->strides[i], &reach) ||
        __builtin_add_overflow(*end, reach, end))
      return fail_too_large();
  }
  if (__builtin_sub_overflow(high, low, &g->n) ||
      __builtin_add_overflow(g->n, 1, &g->n) ||
      __builtin_mul_overflow(g->n, tn_dtype_bytes(t->dtype), &bytes))
    return fail_too_large();
  g->lowest = low;
  return TN_OK;
}

static tn_code check_address(dl_import *g) {
  const tn_tensor *t = g->tensor;
  uintptr_t address = 0;
  if (!t->data)
    return tn__fail(TN_INVALID,
                    "DLPack: the data is NULL, but there are %lld elements",
                    (long long)tn_tensor_size(t));
  if (__builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &address))
    return tn__fail(TN_INVALID,
                    "DLPack: byte_offset %llu leads beyond the last address",
                    (unsigned long long)t->byte_offset);
  if (!tn_dtype_is_packed(t->dtype) &&
      address % (uintptr_t)tn_dtype_bytes(t->dtype) != 0)
    return tn__fail(TN_INVALID,
                    "DLPack: the elements of %s begin at address %p, which is "
                    "no multiple of %lld; hand over a copy",
                    tn__dtype_name(t->dtype), (void *)address,
                    (long long)tn_dtype_bytes(t->dtype));
  g->first = (char *)address;
  return find_extent(g);
}

static tn_code check_packed(const dl_import *g) {
  tn_tensor t = *g->tensor;
  t.strides = (int64_t *)(uintptr_t)g->strides; /* only read */
  if (!tn_dtype_is_packed(t.dtype) || tn_tensor_is_contiguous(&t)) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "DLPack: the elements of %s are not dense; several of them "
                  "share a byte, so hand over a dense copy",
                  tn__dtype_name(t.dtype));
}

static tn_code check_import(dl_import *g) {
  const tn_tensor *t = g->tensor;
  size_t bytes = 0;
  TN__TRY(check_dtype(t));
  TN__TRY(check_shape(t));
  TN__TRY(tn__device_find(g->env->cpu->devices, t->device_type, t->device_id,
                          &g->device));
  if (!tn__tensor_bytes(t->dtype, t->ndim, t->shape, &bytes))
    return fail_too_large();
  tn__strides_dense(t->ndim, t->shape, g->strides);
  if (bytes == 0) return TN_OK;
  /* Strides of dimensions of size 1 may have any value; they are not used. */
  for (int32_t i = 0; t->strides && i < t->ndim; ++i)
    if (t->shape[i] > 1) g->strides[i] = t->strides[i];
  TN__TRY(check_packed(g));
  return check_address(g);
}

/* True if two indices may name one element, other than by a stride of 0. Also
 * true for some unusual layouts in which none do. */
static bool has_overlap(const dl_import *g) {
  int64_t left =
      g->n - 1; /* extent of the dimensions that are not visited yet */
  bool done[TN_MAX_NDIM] = {false};
  for (int32_t round = 0; round < g->tensor->ndim; ++round) {
    int32_t widest = -1;
    int64_t step = 0;
    for (int32_t i = 0; i < g->tensor->ndim; ++i) {
      int64_t stride = g->strides[i] < 0 ? -g->strides[i] : g->strides[i];
      if (done[i] || g->tensor->shape[i] == 1 || stride <= step) continue;
      widest = i;
      step = stride;
    }
    if (widest < 0) return false;
    done[widest] = true;
    left -= (g->tensor->shape[widest] - 1) * step;
    if (left >= step) return true;
  }
  return false;
}

/* Wraps the whole range as one dimension. Its block then becomes the block of
 * an array that was created before: nothing can fail after the memory has an
 * owner. */
static tn_code wrap_elements(const dl_import *g, tn_array **out) {
  const tn_tensor *t = g->tensor;
  const size_t size = (size_t)tn_dtype_bytes(t->dtype);
  tn_array *all = NULL;
  const tn_spec flat = {t->dtype, 1, &g->n};
  const tn__foreign memory = {
      .data = g->first + g->lowest * (int64_t)size,
      .bytes = (size_t)tn_dtype_bytes_of(t->dtype, g->n),
      .drop = g->return_object,
      .ctx = g->object};
  tn_array *shaped = NULL;
  const tn_spec spec = {t->dtype, t->ndim, t->shape};
  TN__TRY(tn__array_create_on(g->device, &spec, &shaped));
  tn_code rc = tn__array_wrap(g->device, &flat, &memory, &all);
  if (!rc) {
    tn__array_set_block(shaped, all->block);
    shaped->offset = -g->lowest * (int64_t)size;
    for (int32_t i = 0; i < t->ndim; ++i)
      shaped->tensor.strides[i] = g->strides[i];
    *out = shaped;
    shaped = NULL;
  }
  tn__array_release(all);
  tn__array_release(shaped);
  return rc;
}

/* An empty tensor has no memory, but its owner is kept too. */
static tn_code wrap_nothing(const dl_import *g, tn_array **out) {
  static char nothing;
  const tn_tensor *t = g->tensor;
  const tn__foreign memory = {
      .data = &nothing, .drop = g->return_object, .ctx = g->object};
  return tn__array_wrap(g->device, &(tn_spec){t->dtype, t->ndim, t->shape},
                        &memory, out);
}

static void return_nothing(void *object) {
  (void)object;
}

/* Copies to a new dense array. The memory keeps its owner until the copy is
 * complete, also if the copy fails. */
static tn_code copy_elements(const dl_import *g, tn_array **out) {
  const tn_tensor *t = g->tensor;
  tn_array *source = NULL, *copy = NULL;
  dl_import borrowed = *g;
  borrowed.return_object = return_nothing;
  TN__TRY(wrap_elements(&borrowed, &source));
  tn_code rc = tn__array_create_on(
      g->device, &(tn_spec){t->dtype, t->ndim, t->shape}, &copy);
  if (!rc) rc = tn__array_copy(copy, source);
  if (!rc) rc = tn__array_wait(source, TN__WAIT_ALL, TN__FOREVER);
  if (!rc) rc = tn__array_wait(copy, TN__WAIT_WRITERS, TN__FOREVER);
  tn__array_release(source);
  if (rc) {
    tn__array_release(copy);
    return rc;
  }
  g->return_object(g->object);
  *out = copy;
  return TN_OK;
}

static tn_code import_tensor(dl_import *g, bool read_only, uint32_t flags,
                             tn_array **out) {
  *out = NULL;
  if (flags & ~(uint32_t)TN_DLPACK_BORROW)
    return tn__fail(TN_INVALID,
                    "DLPack: the flags of the import are 0x%x; they may have "
                    "TN_DLPACK_BORROW only",
                    (unsigned)flags);
  TN__TRY(check_import(g));
  if (g->first == NULL) return wrap_nothing(g, out);
  if (!(flags & TN_DLPACK_BORROW) && (read_only || has_overlap(g)))
    return copy_elements(g, out);
  return wrap_elements(g, out);
}

static void delete_plain(void *object) {
  tn_dlpack *d = object;
  if (d->deleter) d->deleter(d);
}

static void delete_versioned(void *object) {
  tn_dlpack_versioned *d = object;
  if (d->deleter) d->deleter(d);
}

/* The same function with another address: it marks blocks of memory that must
 * not be written. */
static void delete_read_only(void *object) {
  delete_versioned(object);
}

tn_code tn__array_from_dlpack(const tn__env *env, tn_dlpack *from,
                              uint32_t flags, tn_array **out) {
  dl_import g = {.env = env,
                 .tensor = &from->tensor,
                 .return_object = delete_plain,
                 .object = from};
  return import_tensor(&g, false, flags, out);
}

/* If the major version differs, only the version field may be read. */
tn_code tn__array_from_dlpack_versioned(const tn__env *env,
                                        tn_dlpack_versioned *from,
                                        uint32_t flags, tn_array **out) {
  *out = NULL;
  if (from->major != TN_DLPACK_MAJOR)
    return tn__fail(TN_UNSUPPORTED,
                    "DLPack: the object has version %u.%u; %d.x is supported. "
                    "Ask its producer for max_version (%d, %d)",
                    (unsigned)from->major, (unsigned)from->minor,
                    TN_DLPACK_MAJOR, TN_DLPACK_MAJOR, TN_DLPACK_MINOR);
  dl_import g = {.env = env, .tensor = &from->tensor, .object = from};
  if (from->flags & TN_DLPACK_PADDED && tn_dtype_is_packed(from->tensor.dtype))
    return tn__fail(TN_UNSUPPORTED,
                    "DLPack: each element has bytes of its own although its "
                    "type has fewer bits; ask its producer for packed elements "
                    "or for a type of 8 bits");
  const bool read_only = (from->flags & TN_DLPACK_READ_ONLY) != 0;
  g.return_object = read_only ? delete_read_only : delete_versioned;
  return import_tensor(&g, read_only, flags, out);
}

/* ------------------------------------------------------------------ export */

/* Zeros a block that was never written. If another thread has counted a write
 * since then, it has written the block or will do so. */
static tn_code fill_zeros(void *arg, tn__token *token) {
  tn__block *block = arg;
  if (atomic_load(&block->version) != 1) return TN_OK;
  return tn__device_fill(token, block->device, atomic_load(&block->data), 0,
                         block->bytes);
}

/* True if no thread has written the block or will do so. Then it counts as
 * written by the caller. */
static bool is_first_write(tn__block *block) {
  uint64_t none = 0;
  return atomic_compare_exchange_strong(&block->version, &none, 1);
}

static tn_code make_readable(tn_array *array) {
  tn__block *block = array->block;
  TN__TRY(tn__array_wait(array, TN__WAIT_WRITERS, TN__FOREVER));
  bool fresh = block->bytes > 0 && !tn__array_data(array);
  TN__TRY(tn__array_materialise(array));
  if (!fresh || !is_first_write(block)) return TN_OK;
  const tn__access use = {&block->var, TN__OVERWRITE, 0};
  TN__TRY(tn__push(array->env->engine,
                   &(tn__job){.name = "tn_array_to_dlpack",
                              .run = fill_zeros,
                              .arg = block,
                              .access = &use,
                              .n_access = 1,
                              .flags = TN__JOB_SMALL,
                              .queue = block->device->compute}));
  return tn__array_wait(array, TN__WAIT_WRITERS, TN__FOREVER);
}

/* The tensor borrows shape and strides of the array, which never change. */
static tn_tensor export_tensor(const tn_array *array) {
  tn_tensor t = tn__array_metadata(array);
  t.data = tn_tensor_size(&t) > 0 ? tn__array_data(array) : NULL;
  return t;
}

/* Frees the object first: the array may be the last owner of the runtime and
 * its allocator. */
static void free_export(tn_array *array, void *object) {
  tn__free(array->env, object);
  tn__array_release(array);
}

static void delete_export(tn_dlpack *self) {
  free_export(self->manager_ctx, self);
}

static void delete_export_versioned(tn_dlpack_versioned *self) {
  free_export(self->manager_ctx, self);
}

static tn_code alloc_export(tn_array *array, size_t bytes, void **out) {
  void *object = tn__alloc(array->env, bytes);
  if (!object) return tn__fail_memory(bytes, "a DLPack object");
  tn_code rc = make_readable(array);
  if (rc) {
    tn__free(array->env, object);
    return rc;
  }
  atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  *out = object;
  return TN_OK;
}

tn_code tn__array_to_dlpack(tn_array *array, tn_dlpack **out) {
  void *memory = NULL;
  *out = NULL;
  TN__TRY(alloc_export(array, sizeof(tn_dlpack), &memory));
  tn_dlpack *d = memory;
  *d = (tn_dlpack){.tensor = export_tensor(array),
                   .manager_ctx = array,
                   .deleter = delete_export};
  *out = d;
  return TN_OK;
}

tn_code tn__array_to_dlpack_versioned(tn_array *array,
                                      tn_dlpack_versioned **out) {
  void *memory = NULL;
  *out = NULL;
  TN__TRY(alloc_export(array, sizeof(tn_dlpack_versioned), &memory));
  tn_dlpack_versioned *d = memory;
  *d = (tn_dlpack_versioned){.major = TN_DLPACK_MAJOR,
                             .minor = TN_DLPACK_MINOR,
                             .manager_ctx = array,
                             .deleter = delete_export_versioned,
                             .tensor = export_tensor(array)};
  if (tn__tensor_has_repeats(&array->tensor) ||
      array->block->drop == delete_read_only)
    d->flags = TN_DLPACK_READ_ONLY;
  *out = d;
  return TN_OK;
}
