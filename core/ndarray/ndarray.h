/* SPDX-License-Identifier: Apache-2.0
 * ndarray.h: arrays and their views. Uses base, engine and storage. An array is
 * a description of elements in a block. Terms are in docs/glossary.md.
 *
 * files: array.c         creation and release of arrays, their memory
 *        access.c        copies elements in and out; waits
 *        transfer.c      copies between arrays, across dtypes and devices
 *        view.c          slice, index, transpose, broadcast, bits
 *        array_reshape.c the same elements with another shape
 *        array_overlap.c finds arrays that share memory
 *        strided_walk.c  the loop over two tensors; the next three use it
 *        strided_copy.c  copy and fill of tensors
 *        strided_cast.c  copy across dtypes
 *        strided_add.c   accumulation
 *        strided_sum.c   sums over broadcast dimensions
 *        elements.c      copies, sums and zeros on the host or on a device
 */
#ifndef TENON_NDARRAY_H_
#define TENON_NDARRAY_H_

#include "storage.h"

/* ------------------------------------------------------------------- arrays */

/* An array: a block and a view of it. `tensor.data` is NULL until the block has
 * memory. Immutable except for that and the elements.
 *
 * An owner of an array keeps its runtime alive. The release of the last owner
 * ends the runtime and its workers, so pending operations must not be owners.
 * They own blocks, or *hold* arrays: a hold keeps the description and the
 * block, but not the runtime, which waits for operations before it ends. Before
 * a push of an operation that writes a block, the caller materialises the array
 * (tn__array_materialise) and counts the write (tn__array_count_write). */
struct tn_array {
  const tn__env *env;
  _Atomic int32_t n_owners;
  _Atomic int32_t n_holds; /* all owners together count as one */
  tn__block *block;
  tn__block *home;  /* owned; the block with the piece of memory that contains
                       this struct, mostly `block`; NULL: memory of its own */
  int64_t offset;   /* bytes from the block's begin to the first element */
  tn_tensor tensor; /* shape and strides point to memory after this struct */
};

/* Creates a dense array on the cpu, or on any device. */
tn_code tn__array_create(const tn__env *env, const tn_spec *spec,
                         tn_array **out);
tn_code tn__array_create_on(tn__device *device, const tn_spec *spec,
                            tn_array **out);
/* Creates a dense array on the cpu, in host memory that `device` reads fast.
 * The memory is allocated at once. */
tn_code tn__array_create_pinned(tn__device *device, const tn_spec *spec,
                                tn_array **out);
/* Creates a dense array in foreign memory; see tn__block_wrap. */
tn_code tn__array_wrap(tn__device *device, const tn_spec *spec,
                       const tn__foreign *memory, tn_array **out);
/* Makes a new array a view of another block, which it retains. */
void tn__array_set_block(tn_array *array, tn__block *block);
static inline tn_array *tn__array_retain(tn_array *array) {
  atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  return array;
}
void tn__array_release(tn_array *array); /* NULL is allowed */
static inline void tn__array_hold(tn_array *array) {
  atomic_fetch_add_explicit(&array->n_holds, 1, memory_order_relaxed);
}
void tn__array_unhold(tn_array *array);
/* Allocates memory if there is none yet, and sets tensor.data. */
tn_code tn__array_materialise(tn_array *array);
/* The same for an operation that reads the array or writes a part of its block:
 * on the cpu, memory that was never written reads as zeros. */
tn_code tn__array_materialise_zeros(tn_array *array);
tn_code tn__array_materialise_for_write(tn_array *array);
/* The array's tensor; its `data` is set if the block has memory by now. */
const tn_tensor *tn__array_tensor(const tn_array *array);
/* Address of the first element; NULL while the block has no memory. Calls use
 * this and not tensor.data, which is set for users only. */
static inline void *tn__array_data(const tn_array *array) {
  char *base =
      (char *)atomic_load_explicit(&array->block->data, memory_order_acquire);
  return base ? base + array->offset : NULL;
}
/* The tensor without `data`, which another thread may set at the same time. */
tn_tensor tn__array_metadata(const tn_array *array);
/* The same with the address of its elements. */
static inline tn_tensor tn__array_tensor_with_data(const tn_array *array) {
  tn_tensor tensor = tn__array_metadata(array);
  tensor.data = tn__array_data(array);
  return tensor;
}
/* Mode of an operation that writes the whole array, for its block's variable:
 * TN__OVERWRITE, or TN__UPDATE if the array is a part of the block. */
uint32_t tn__array_write_mode(const tn_array *array);

/* Counts an operation that writes the array, when it is pushed. Does nothing
 * until the block is watched. */
static inline void tn__array_count_write(tn_array *array) {
  _Atomic uint64_t *version = &array->block->version;
  if (atomic_load_explicit(version, memory_order_relaxed) != 0)
    atomic_fetch_add_explicit(version, 1, memory_order_relaxed);
}
/* Watches the block: the number changes with each write that follows. */
static inline uint64_t tn__array_watch(tn_array *array) {
  _Atomic uint64_t *version = &array->block->version;
  uint64_t now = atomic_load_explicit(version, memory_order_relaxed);
  if (now != 0 || atomic_compare_exchange_strong(version, &now, 1))
    return now != 0 ? now : 1;
  return now;
}

/* Copy elements in and out, dense and row-major, ordered by the array's
 * variable; complete on return. They report the error that the array carries; a
 * set of a whole block clears it. */
tn_code tn__array_set(tn_array *array, const void *data, size_t bytes);
tn_code tn__array_get(tn_array *array, void *data, size_t bytes);
/* Waits as tn__wait does, for TN__WAIT_WRITERS or TN__WAIT_ALL. */
tn_code tn__array_wait(tn_array *array, uint32_t mode, uint64_t ns);

/* to = from, pushed to the engine: any strides, dtypes and devices of one
 * runtime. */
tn_code tn__array_copy(tn_array *to, tn_array *from);
/* The same into a new dense array. */
tn_code tn__array_cast(tn_array *array, tn_dtype dtype, tn_array **out);
tn_code tn__array_to(tn_array *array, tn__device *device, tn_array **out);

/* A view of `from` with these dimensions; strides in elements, `offset` in
 * elements from the first of `from`. */
typedef struct tn__view {
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
  int64_t offset;
} tn__view;
tn_code tn__array_view(tn_array *from, const tn__view *view, tn_array **out);
tn_code tn__array_slice(tn_array *array, const tn_range *range, tn_array **out);
tn_code tn__array_index(tn_array *array, int32_t axis, int64_t index,
                        tn_array **out);
tn_code tn__array_reshape(tn_array *array, int32_t ndim, const int64_t *shape,
                          tn_array **out);
tn_code tn__array_transpose(tn_array *array, const int32_t *axes,
                            tn_array **out);
tn_code tn__array_broadcast(tn_array *array, int32_t ndim, const int64_t *shape,
                            tn_array **out);
/* The same bytes as elements of another type of the same size. */
tn_code tn__array_bits(tn_array *array, tn_dtype dtype, tn_array **out);

/* Strides of a dense tensor, in elements. */
void tn__strides_dense(int32_t ndim, const int64_t *shape, int64_t *strides);
/* True if two positions of the tensor are the same element (a broadcast view).
 */
bool tn__tensor_has_repeats(const tn_tensor *t);

/* to = from, and to += from, for equal shapes and dtypes and any strides. `to`
 * must not repeat elements and must not overlap `from` unless they are
 * identical. */
void tn__tensor_copy(const tn_tensor *to, const tn_tensor *from);
void tn__tensor_add(const tn_tensor *to, const tn_tensor *from);
void tn__tensor_zero(const tn_tensor *to);
/* Sums `from` into `to`, in f64, over the dimensions in which `to` was
 * broadcast to the shape of `from`. With `add` the sum is added to the present
 * values. The dtypes are floats, equal or not. Long sums use all workers;
 * `engine` may be NULL. */
void tn__tensor_sum(tn__engine *engine, const tn_tensor *to,
                    const tn_tensor *from, bool add);
/* tn__tensor_copy on all workers if the tensor is large; `engine` may be NULL.
 */
void tn__tensor_copy_shared(tn__engine *engine, const tn_tensor *to,
                            const tn_tensor *from);
/* The same across dtypes, by the rules of tn_array_copy. */
void tn__tensor_cast(tn__engine *engine, const tn_tensor *to,
                     const tn_tensor *from);

/* A place for work on elements: `device` contains all operands, and the token
 * has one of its queues. */
typedef struct tn__site {
  tn__device *device;
  tn__token *token;
  tn__engine *engine; /* its workers may share the work; NULL: none do */
} tn__site;

/* The same as tn__tensor_copy, add, sum and zero, and a fill with ones, at a
 * site: done on return on the host, enqueued on a device with queues. On such a
 * device, copies and zeros of dense tensors always work, copies of strided ones
 * need tn__device_can_sum, and the rest needs tn__elements_can_add. Everything
 * else is TN_UNSUPPORTED. */
tn_code tn__elements_copy(const tn__site *site, const tn_tensor *to,
                          const tn_tensor *from);
tn_code tn__elements_add(const tn__site *site, const tn_tensor *to,
                         const tn_tensor *from);
tn_code tn__elements_sum(const tn__site *site, const tn_tensor *to,
                         const tn_tensor *from, bool add);
tn_code tn__elements_zero(const tn__site *site, const tn_tensor *to);
tn_code tn__elements_fill_one(const tn__site *site, const tn_tensor *to,
                              bool add);
bool tn__elements_can_add(const tn__device *device, tn_dtype dtype);
/* Returns whether tn__elements_sum sums f32 into f16 and bf16. */
bool tn__elements_can_sum_wide(const tn__device *device);

enum { TN__DISJOINT = 0, TN__OVERLAP = 1, TN__ALIAS = 2 };

/* Relation of the memory of two arrays. TN__ALIAS if they have the same
 * elements in the same order: pointer and dtype are equal, and so are shape and
 * strides, or both are dense and of one size. */
int tn__arrays_overlap(const tn_array *a, const tn_array *b);

/* Adds " f32 (2,3)" to the error text. */
void tn__fail_tensor(tn_code code, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape);

#endif /* TENON_NDARRAY_H_ */
