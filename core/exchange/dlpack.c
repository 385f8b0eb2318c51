/* SPDX-License-Identifier: Apache-2.0
 * dlpack.c: arrays of other libraries come in, and ours go out, without a copy.
 */
#include "exchange.h"

/* ------------------------------------------------------------------ import */

/* A tensor of somebody else, checked, with what gives it back. */
typedef struct guest {
  const tn__env *env;
  const tn_tensor *tensor;
  tn__device *device;
  int64_t strides[TN_MAX_NDIM];
  char *first;    /* element (0,0,...) */
  int64_t lowest; /* the element that lies lowest, counted from it */
  int64_t n;      /* elements from the lowest to the highest */
  void (*give_back)(void *object);
  void *object;
} guest;

static tn_code dtype_check(const tn_tensor *t) {
  if (tn__dtype_bit(t->dtype)) return TN_OK;
  unsigned lanes = (unsigned)(t->dtype >> 16);
  if (lanes == 0)
    return tn__fail(TN_DTYPE,
                    "DLPack: the element type has 0 lanes, where one of single "
                    "values has 1; fill in `dtype`");
  if (lanes != 1)
    return tn__fail(TN_DTYPE,
                    "DLPack: elements are vectors of %u lanes; only single "
                    "values can be taken: hand over one more dimension",
                    lanes);
  return tn__fail(TN_DTYPE,
                  "DLPack: elements have type code %u with %u bits, which is "
                  "no element type of op.h; convert them first",
                  (unsigned)(t->dtype & 0xffu),
                  (unsigned)(t->dtype >> 8 & 0xffu));
}

static tn_code shape_check(const tn_tensor *t) {
  if (t->ndim < 0 || t->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID, "DLPack: %d dimensions; 0 to %d can be taken",
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

static tn_code too_large(void) {
  return tn__fail(TN_OUT_OF_RANGE,
                  "DLPack: shape and strides lead further than an address "
                  "can count");
}

/* The range of elements that the strides reach, around the first one. */
static tn_code extent_find(guest *g) {
  const tn_tensor *t = g->tensor;
  int64_t low = 0, high = 0, bytes = 0;
  for (int32_t i = 0; i < t->ndim; ++i) {
    int64_t reach = 0;
    int64_t *end = g->strides[i] < 0 ? &low : &high;
    if (__builtin_mul_overflow(t->shape[i] - 1, g->strides[i], &reach) ||
        __builtin_add_overflow(*end, reach, end))
      return too_large();
  }
  if (__builtin_sub_overflow(high, low, &g->n) ||
      __builtin_add_overflow(g->n, 1, &g->n) ||
      __builtin_mul_overflow(g->n, tn_dtype_bytes(t->dtype), &bytes))
    return too_large();
  g->lowest = low;
  return TN_OK;
}

static tn_code place_check(guest *g) {
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
  if (address % (uintptr_t)tn_dtype_bytes(t->dtype) != 0)
    return tn__fail(TN_INVALID,
                    "DLPack: the elements of %s begin at address %p, which is "
                    "no multiple of %lld; hand over a copy",
                    tn__dtype_name(t->dtype), (void *)address,
                    (long long)tn_dtype_bytes(t->dtype));
  g->first = (char *)address;
  return extent_find(g);
}

static tn_code guest_check(guest *g) {
  const tn_tensor *t = g->tensor;
  size_t bytes = 0;
  TN__TRY(dtype_check(t));
  TN__TRY(shape_check(t));
  TN__TRY(tn__device_find(g->env->cpu->devices, t->device_type, t->device_id,
                          &g->device));
  if (!tn__tensor_bytes(t->dtype, t->ndim, t->shape, &bytes))
    return too_large();
  tn__strides_dense(t->ndim, t->shape, g->strides);
  if (bytes == 0) return TN_OK;
  /* Along dimensions of 1 anything may stand, and nothing steps. */
  for (int32_t i = 0; t->strides && i < t->ndim; ++i)
    if (t->shape[i] > 1) g->strides[i] = t->strides[i];
  return place_check(g);
}

/* Whether two indices can mean one element, other than by a stride of 0. True
 * also for some that do not, which are no layout anybody uses. */
static bool overlaps_itself(const guest *g) {
  int64_t left = g->n - 1; /* what dimensions not looked at yet must span */
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

/* The whole range is wrapped as one dimension, and its block becomes that of an
 * array made before: nothing can fail once the memory has an owner. */
static tn_code wrap_elements(const guest *g, tn_array **out) {
  const tn_tensor *t = g->tensor;
  const size_t size = (size_t)tn_dtype_bytes(t->dtype);
  tn_array *all = NULL;
  const tn_spec flat = {t->dtype, 1, &g->n};
  const tn__foreign memory = {.data = g->first + g->lowest * (int64_t)size,
                              .bytes = (size_t)g->n * size,
                              .drop = g->give_back,
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

/* An empty tensor has no memory, but keeps its owner all the same. */
static tn_code wrap_nothing(const guest *g, tn_array **out) {
  static char nothing;
  const tn_tensor *t = g->tensor;
  const tn__foreign memory = {
      .data = &nothing, .drop = g->give_back, .ctx = g->object};
  return tn__array_wrap(g->device, &(tn_spec){t->dtype, t->ndim, t->shape},
                        &memory, out);
}

static void give_nothing_back(void *object) {
  (void)object;
}

/* A dense array of our own. The memory stays its owner's until the copy is
 * complete, whatever becomes of it. */
static tn_code copy_elements(const guest *g, tn_array **out) {
  const tn_tensor *t = g->tensor;
  tn_array *source = NULL, *copy = NULL;
  guest lent = *g;
  lent.give_back = give_nothing_back;
  TN__TRY(wrap_elements(&lent, &source));
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
  g->give_back(g->object);
  *out = copy;
  return TN_OK;
}

static tn_code guest_import(guest *g, bool read_only, uint32_t flags,
                            tn_array **out) {
  *out = NULL;
  if (flags & ~(uint32_t)TN_DLPACK_BORROW)
    return tn__fail(TN_INVALID,
                    "DLPack: the flags of the import are 0x%x; they may have "
                    "TN_DLPACK_BORROW only",
                    (unsigned)flags);
  TN__TRY(guest_check(g));
  if (g->first == NULL) return wrap_nothing(g, out);
  if (!(flags & TN_DLPACK_BORROW) && (read_only || overlaps_itself(g)))
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

/* The same: a block with this one is of memory that must not be written. */
static void delete_read_only(void *object) {
  delete_versioned(object);
}

tn_code tn__array_from_dlpack(const tn__env *env, tn_dlpack *from,
                              uint32_t flags, tn_array **out) {
  guest g = {.env = env,
             .tensor = &from->tensor,
             .give_back = delete_plain,
             .object = from};
  return guest_import(&g, false, flags, out);
}

/* Of another major version nothing but the version can be believed. */
tn_code tn__array_from_dlpack_versioned(const tn__env *env,
                                        tn_dlpack_versioned *from,
                                        uint32_t flags, tn_array **out) {
  *out = NULL;
  if (from->major != TN_DLPACK_MAJOR)
    return tn__fail(TN_UNSUPPORTED,
                    "DLPack: the object has version %u.%u; %d.x can be taken. "
                    "Ask its producer for max_version (%d, %d)",
                    (unsigned)from->major, (unsigned)from->minor,
                    TN_DLPACK_MAJOR, TN_DLPACK_MAJOR, TN_DLPACK_MINOR);
  guest g = {.env = env, .tensor = &from->tensor, .object = from};
  const bool read_only = (from->flags & TN_DLPACK_READ_ONLY) != 0;
  g.give_back = read_only ? delete_read_only : delete_versioned;
  return guest_import(&g, read_only, flags, out);
}

/* ------------------------------------------------------------------ export */

/* What an array that was never written reads as. Who counted a write of the
 * block since then has written it, or is about to. */
static tn_code zero_run(void *arg, tn__token *token) {
  tn__block *block = arg;
  if (atomic_load(&block->version) != 1) return TN_OK;
  return tn__device_fill(token, block->device, atomic_load(&block->data), 0,
                         block->bytes);
}

/* Whether nobody wrote the block, or is about to; the caller is, then. */
static bool first_write(tn__block *block) {
  uint64_t none = 0;
  return atomic_compare_exchange_strong(&block->version, &none, 1);
}

static tn_code readable_make(tn_array *array) {
  tn__block *block = array->block;
  TN__TRY(tn__array_wait(array, TN__WAIT_WRITERS, TN__FOREVER));
  bool fresh = block->bytes > 0 && !tn__array_data(array);
  TN__TRY(tn__array_materialise(array));
  if (!fresh || !first_write(block)) return TN_OK;
  const tn__access use = {&block->var, TN__OVERWRITE, 0};
  TN__TRY(tn__push(array->env->engine,
                   &(tn__job){.name = "tn_array_to_dlpack",
                              .run = zero_run,
                              .arg = block,
                              .access = &use,
                              .n_access = 1,
                              .flags = TN__JOB_SMALL,
                              .queue = block->device->compute}));
  return tn__array_wait(array, TN__WAIT_WRITERS, TN__FOREVER);
}

/* The tensor borrows shape and strides of the array, which do not change. */
static tn_tensor tensor_lend(const tn_array *array) {
  tn_tensor t = tn__array_metadata(array);
  t.data = tn_tensor_size(&t) > 0 ? tn__array_data(array) : NULL;
  return t;
}

/* The array may be what keeps the runtime, and with it the allocator. */
static void lent_free(tn_array *array, void *object) {
  tn__free(array->env, object);
  tn__array_release(array);
}

static void lent_delete(tn_dlpack *self) {
  lent_free(self->manager_ctx, self);
}

static void lent_delete_versioned(tn_dlpack_versioned *self) {
  lent_free(self->manager_ctx, self);
}

static tn_code lent_alloc(tn_array *array, size_t bytes, void **out) {
  void *object = tn__alloc(array->env, bytes);
  if (!object) return tn__fail_memory(bytes, "a DLPack object");
  tn_code rc = readable_make(array);
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
  TN__TRY(lent_alloc(array, sizeof(tn_dlpack), &memory));
  tn_dlpack *d = memory;
  *d = (tn_dlpack){.tensor = tensor_lend(array),
                   .manager_ctx = array,
                   .deleter = lent_delete};
  *out = d;
  return TN_OK;
}

tn_code tn__array_to_dlpack_versioned(tn_array *array,
                                      tn_dlpack_versioned **out) {
  void *memory = NULL;
  *out = NULL;
  TN__TRY(lent_alloc(array, sizeof(tn_dlpack_versioned), &memory));
  tn_dlpack_versioned *d = memory;
  *d = (tn_dlpack_versioned){.major = TN_DLPACK_MAJOR,
                             .minor = TN_DLPACK_MINOR,
                             .manager_ctx = array,
                             .deleter = lent_delete_versioned,
                             .tensor = tensor_lend(array)};
  if (tn__tensor_has_repeats(&array->tensor) ||
      array->block->drop == delete_read_only)
    d->flags = TN_DLPACK_READ_ONLY;
  *out = d;
  return TN_OK;
}
