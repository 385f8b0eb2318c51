/* SPDX-License-Identifier: Apache-2.0
 * array.c: creation, release and memory of arrays. An array made by
 * tn__array_create_on is in the same piece of memory as its block: its *home*.
 * Views and wrapped arrays have memory of their own. view.c makes views.
 */
#include <string.h>

#include "ndarray.h"

/* Cannot overflow: tn__tensor_bytes has accepted the shape. */
void tn__strides_dense(int32_t ndim, const int64_t *shape, int64_t *strides) {
  int64_t step = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    strides[i] = step;
    if (shape[i] > 1) step *= shape[i];
  }
}

static tn_code check_spec(const tn_spec *spec) {
  if (!tn__dtype_bit(spec->dtype))
    return tn__fail(TN_DTYPE,
                    "an array cannot have the dtype 0x%x, which is no"
                    " element type of op.h",
                    (unsigned)spec->dtype);
  if (spec->ndim < 0 || spec->ndim > TN_MAX_NDIM)
    return tn__fail(TN_INVALID,
                    "an array cannot have %d dimensions; 0 to %d"
                    " are allowed",
                    (int)spec->ndim, TN_MAX_NDIM);
  if (spec->ndim > 0 && !spec->shape)
    return tn__fail(TN_INVALID,
                    "the shape of an array with %d dimensions is"
                    " NULL",
                    (int)spec->ndim);
  for (int32_t i = 0; i < spec->ndim; ++i)
    if (spec->shape[i] < 0)
      return tn__fail(TN_INVALID,
                      "dimension %d of an array is %lld; it must be"
                      " 0 or more",
                      (int)i, (long long)spec->shape[i]);
  return TN_OK;
}

static tn_code too_large(const tn_spec *spec) {
  tn__fail(TN_OUT_OF_RANGE, "an array of %s with shape (",
           tn__dtype_name(spec->dtype));
  for (int32_t i = 0; i < spec->ndim; ++i)
    tn__fail_more(TN_OUT_OF_RANGE, "%s%lld", i ? "," : "",
                  (long long)spec->shape[i]);
  return tn__fail_more(TN_OUT_OF_RANGE,
                       ") has more bytes than an address can"
                       " count");
}

static size_t shell_bytes(int32_t ndim) {
  return sizeof(tn_array) + 2 * (size_t)ndim * sizeof(int64_t);
}

/* Initialises an array without a block; the caller fills in the tensor. Assigns
 * member by member: a copy of the whole struct takes twice as long. */
static tn_array *shell_init(void *memory, const tn__device *device,
                            int32_t ndim) {
  tn_array *array = memory;
  array->env = device->env;
  atomic_init(&array->n_owners, 1);
  atomic_init(&array->n_holds, 1);
  array->home = NULL;
  array->offset = 0;
  tn_tensor *t = &array->tensor;
  *t = (tn_tensor){.device_type = device->type,
                   .device_id = device->id,
                   .ndim = ndim,
                   .shape = (int64_t *)(void *)(array + 1)};
  t->strides = t->shape + ndim;
  return array;
}

static tn_code shell_create(const tn__device *device, int32_t ndim,
                            tn_array **out) {
  const size_t bytes = shell_bytes(ndim);
  void *memory = tn__alloc(device->env, bytes);
  if (!memory) return tn__fail_memory(bytes, "an array's description");
  *out = shell_init(memory, device, ndim);
  return TN_OK;
}

static tn_code spec_bytes(const tn_spec *spec, size_t *bytes) {
  TN__TRY(check_spec(spec));
  if (tn__tensor_bytes(spec->dtype, spec->ndim, spec->shape, bytes))
    return TN_OK;
  return too_large(spec);
}

/* Fills in the dense tensor of a valid spec. */
static void dense_init(tn_tensor *t, const tn_spec *spec) {
  t->dtype = spec->dtype;
  for (int32_t i = 0; i < spec->ndim; ++i) t->shape[i] = spec->shape[i];
  tn__strides_dense(spec->ndim, spec->shape, t->strides);
}

tn_code tn__array_create_on(tn__device *device, const tn_spec *spec,
                            tn_array **out) {
  *out = NULL;
  size_t bytes = 0;
  tn__block *block = NULL;
  void *memory = NULL;
  TN__TRY(spec_bytes(spec, &bytes));
  TN__TRY(tn__block_create_with(device, bytes, shell_bytes(spec->ndim), &block,
                                &memory));
  tn_array *array = shell_init(memory, device, spec->ndim);
  array->block = array->home = block;
  dense_init(&array->tensor, spec);
  *out = array;
  return TN_OK;
}

tn_code tn__array_create(const tn__env *env, const tn_spec *spec,
                         tn_array **out) {
  return tn__array_create_on(env->cpu, spec, out);
}

tn_code tn__array_wrap(tn__device *device, const tn_spec *spec,
                       const tn__foreign *memory, tn_array **out) {
  *out = NULL;
  size_t bytes = 0;
  tn_array *array = NULL;
  TN__TRY(spec_bytes(spec, &bytes));
  if (bytes > memory->bytes)
    return tn__fail(TN_INVALID,
                    "an array of %zu bytes does not fit into %zu bytes of "
                    "memory",
                    bytes, memory->bytes);
  TN__TRY(shell_create(device, spec->ndim, &array));
  dense_init(&array->tensor, spec);
  const tn_code rc = tn__block_wrap(device, memory, &array->block);
  if (rc) {
    tn__free(array->env, array);
    return rc;
  }
  tn__env_retain(array->env);
  *out = array;
  return TN_OK;
}

tn_code tn__array_create_pinned(tn__device *device, const tn_spec *spec,
                                tn_array **out) {
  TN__TRY(tn__array_create_on(device->env->cpu, spec, out));
  const tn_code rc = tn__block_pin((*out)->block, device);
  if (rc == TN_OK) return TN_OK;
  tn__array_release(*out);
  *out = NULL;
  return rc;
}

/* A view of packed elements has bytes of its own, so that a write of one view
 * changes no other: it is dense, begins at a whole byte, and ends at one or at
 * the end of the array. */
static tn_code check_packed_view(const tn_array *from, const tn__view *view,
                                 const tn_tensor *t) {
  const int64_t n = tn_tensor_size(t), all = tn_tensor_size(&from->tensor);
  const int64_t end = view->offset + n, shared = 8 / tn_dtype_bits(t->dtype);
  if (n == 0 || (tn_tensor_is_contiguous(t) && view->offset % shared == 0 &&
                 (end % shared == 0 || end == all)))
    return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "a view of %lld elements of %s from element %lld of %lld: "
                  "%lld of them share a byte, so a view has to be dense and "
                  "to begin and end at multiples of %lld; convert the array "
                  "first (operator elemwise.cast)",
                  (long long)n, tn__dtype_name(t->dtype),
                  (long long)view->offset, (long long)all, (long long)shared,
                  (long long)shared);
}

tn_code tn__array_view(tn_array *from, const tn__view *view, tn_array **out) {
  const tn_dtype dtype = from->tensor.dtype;
  *out = NULL;
  tn_array *array = NULL;
  TN__TRY(shell_create(from->block->device, view->ndim, &array));
  array->tensor.dtype = dtype;
  for (int32_t i = 0; i < view->ndim; ++i) {
    array->tensor.shape[i] = view->shape[i];
    array->tensor.strides[i] = view->strides[i];
  }
  const tn_code rc = tn_dtype_is_packed(dtype)
                         ? check_packed_view(from, view, &array->tensor)
                         : TN_OK;
  if (rc) {
    tn__free(array->env, array);
    return rc;
  }
  array->offset = from->offset + tn_dtype_bytes_of(dtype, view->offset);
  array->block = tn__block_retain(from->block);
  tn__env_retain(array->env);
  *out = array;
  return TN_OK;
}

static bool hold_ends(tn_array *array) {
  return atomic_load_explicit(&array->n_holds, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(&array->n_holds, 1, memory_order_acq_rel) ==
             1;
}

/* Ends an array without holds. Frees everything except the home, which contains
 * the array; the caller releases that. */
static void shell_end(tn_array *array) {
  if (array->block != array->home) tn__block_release(array->block);
  if (!array->home) tn__free(array->env, array);
}

void tn__array_unhold(tn_array *array) {
  if (!hold_ends(array)) return;
  tn__block *home = array->home;
  shell_end(array);
  tn__block_release(home);
}

void tn__array_set_block(tn_array *array, tn__block *block) {
  if (array->block != array->home) tn__block_release(array->block);
  array->block = tn__block_retain(block);
}

/* An array with a home uses the runtime through it; any other one owns the
 * runtime. The release of that is last, because it may end the runtime. */
void tn__array_release(tn_array *array) {
  if (!array) return;
  if (atomic_load_explicit(&array->n_owners, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&array->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = array->env;
  tn__block *home = array->home;
  tn__device *device = home ? home->device : NULL;
  const bool ends = hold_ends(array);
  if (ends) shell_end(array);
  if (!home)
    tn__env_release(env);
  else if (ends)
    tn__block_release_with_runtime(home);
  else
    tn__device_release_runtime(device);
}

tn_tensor tn__array_metadata(const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  return (tn_tensor){.device_type = t->device_type,
                     .device_id = t->device_id,
                     .ndim = t->ndim,
                     .dtype = t->dtype,
                     .shape = t->shape,
                     .strides = t->strides};
}

/* Several threads may find the memory at the same time. Only the first store
 * takes effect, and every reader of the field has called this function. */
const tn_tensor *tn__array_tensor(const tn_array *array) {
  tn_array *self = (tn_array *)(uintptr_t)array;
  void *data = tn__array_data(array);
  void *none = NULL;
  if (data && !__atomic_load_n(&self->tensor.data, __ATOMIC_ACQUIRE))
    __atomic_compare_exchange_n(&self->tensor.data, &none, data, 0,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return &array->tensor;
}

tn_code tn__array_materialise(tn_array *array) {
  TN__TRY(tn__block_materialise(array->block));
  tn__array_tensor(array);
  return TN_OK;
}

/* No thread pushes meanwhile, so no pending operation writes the block yet. */
static tn_code block_zeros(tn__block *block) {
  tn__engine *engine = block->device->env->engine;
  tn_code rc = TN_OK;
  tn__engine_pause(engine);
  if (!atomic_load_explicit(&block->data, memory_order_acquire)) {
    rc = tn__block_materialise(block);
    if (rc == TN_OK) memset(block->data, 0, block->bytes);
  }
  tn__engine_resume(engine);
  return rc;
}

tn_code tn__array_materialise_zeros(tn_array *array) {
  tn__block *block = array->block;
  if (!tn__array_data(array) && block->bytes > 0 && !block->device->table)
    TN__TRY(block_zeros(block));
  return tn__array_materialise(array);
}

uint32_t tn__array_write_mode(const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  const size_t bytes = tn__dense_bytes(t);
  return bytes == array->block->bytes ? TN__OVERWRITE : TN__UPDATE;
}

tn_code tn__array_materialise_for_write(tn_array *array) {
  return tn__array_write_mode(array) == TN__OVERWRITE
             ? tn__array_materialise(array)
             : tn__array_materialise_zeros(array);
}

/* ----------------------------------------------------------------- messages */

void tn__fail_tensor(tn_code code, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape) {
  tn__fail_more(code, " %s (",
                dtype == TN_DTYPE_UNKNOWN ? "?" : tn__dtype_name(dtype));
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0)
      tn__fail_more(code, i ? ",?" : "?");
    else
      tn__fail_more(code, i ? ",%lld" : "%lld", (long long)shape[i]);
  }
  tn__fail_more(code, ndim < 0 ? "unknown rank)" : ")");
}
