/* SPDX-License-Identifier: Apache-2.0
 * array.h: arrays. A part of tenon.h, which has the conventions.
 */
#ifndef TENON_HOST_ARRAY_H_
#define TENON_HOST_ARRAY_H_

#include "tenon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ arrays */

/* Element type and shape of a new array. */
typedef struct tn_spec {
  tn_dtype dtype;
  int32_t ndim;
  const int64_t *shape; /* ndim entries >= 0; may be NULL for ndim 0 */
} tn_spec;

/* A dense array on the CPU; its content is undefined, its memory is allocated
 * at its first write. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_create(tn_runtime *rt, const tn_spec *spec,
                                           tn_array **out);

/* Reads "cuda(1)"; "cuda" means "cuda(0)". TN_INVALID, TN_NOT_FOUND. [any] */
TN_API TN_MUST_USE tn_code tn_place_parse(tn_runtime *rt, const char *text,
                                          tn_place *out);

/* Like tn_array_create, on any device. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_create_on(tn_runtime *rt,
                                              const tn_spec *spec,
                                              tn_place place, tn_array **out);

/* A dense array on the CPU for data that goes to or comes from the device at
 * `place`: its memory is pinned, if the device can pin any, so that copies
 * between the two overlap with other work. The content is undefined at first;
 * the memory is allocated at once and counts as staging of that device. For a
 * place of the CPU this is tn_array_create. The caller releases *out.
 * TN_NOT_FOUND for an unknown place, TN_OUT_OF_MEMORY. [any] */
TN_API TN_MUST_USE tn_code tn_array_create_pinned(tn_runtime *rt,
                                                  const tn_spec *spec,
                                                  tn_place place,
                                                  tn_array **out);

/* Adds an owner; returns `array`. [any] */
TN_API tn_array *tn_array_retain(tn_array *array);

/* Removes an owner; NULL is allowed. [any] */
TN_API void tn_array_release(tn_array *array);

/* Copies `bytes` bytes, dense and row-major, into the array. TN_INVALID if the
 * array has another size (tn_tensor_bytes). Bits after the last element of a
 * packed type become 0. `data` is not used after the return. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_set(tn_array *array, const void *data,
                                        size_t bytes);

/* Waits for the elements and copies them out, dense and row-major. An array
 * that was never written reads as zeros. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_get(tn_array *array, void *data,
                                        size_t bytes);

/* Dtype, shape, strides and, once the array has memory, its address. Borrowed
 * until release. [any] */
TN_API const tn_tensor *tn_array_tensor(const tn_array *array);

/* Number of elements. [any] */
TN_API int64_t tn_array_size(const tn_array *array);

/* Waits until the array can be read: everything scheduled that writes it is
 * complete, on its device too. Reports the error that it carries.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_wait(tn_array *array);

/* Waits until the array can be written: nothing reads it any more either.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_wait_write(tn_array *array);

/* Like tn_array_wait, for at most `ns` nanoseconds; then TN_BUSY.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_wait_for(tn_array *array, uint64_t ns);

/* Copies the elements of `from` into `to`: equal shapes, any strides, any
 * devices of one runtime, and any dtypes. Numbers are rounded once, to nearest
 * even, where they become floats. Floats become integers towards zero; a value
 * out of range becomes the nearest bound, NaN becomes 0. Integers wrap. To bool
 * is "not 0". Storage types are copied as they are; TN_DTYPE for a conversion
 * from or to one, which operators do. If both have the same elements, nothing
 * is copied; they may overlap in part. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_copy(tn_array *to, tn_array *from);

/* A new dense array with the same elements as another dtype, or on another
 * device. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_cast(tn_array *array, tn_dtype dtype,
                                         tn_array **out);
TN_API TN_MUST_USE tn_code tn_array_to(tn_array *array, tn_place place,
                                       tn_array **out);

/* Views share memory with the array they come from and keep it alive. Negative
 * axes and indices count from the end. A view of packed elements (types below 8
 * bits) must be dense, begin at a whole byte, and end at one or at the end of
 * the array; TN_UNSUPPORTED for others. */

/* Elements begin, begin+step, ... before `end` along an axis; step may be
 * negative. */
typedef struct tn_range {
  int32_t axis;
  int32_t reserved; /* 0 */
  int64_t begin;
  int64_t end;
  int64_t step; /* 0 means 1 */
} tn_range;

/* A part along one axis; begin and end are clipped to the array. The caller
 * releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_slice(tn_array *array,
                                          const tn_range *range,
                                          tn_array **out);

/* One index along an axis, which disappears. The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_index(tn_array *array, int32_t axis,
                                          int64_t index, tn_array **out);

/* The same elements under another shape; one dimension may be -1. TN_INVALID
 * if the strides do not allow it without a copy. The caller releases *out.
 * [any] */
TN_API TN_MUST_USE tn_code tn_array_reshape(tn_array *array, int32_t ndim,
                                            const int64_t *shape,
                                            tn_array **out);

/* Axes in another order; `axes` has ndim entries, `axes` NULL reverses them.
 * The caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_transpose(tn_array *array,
                                              const int32_t *axes,
                                              tn_array **out);

/* Dimensions of 1 repeated (stride 0) to a larger shape. The view is read-only
 * where elements repeat: calls refuse it as an output. The caller releases
 * *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_broadcast(tn_array *array, int32_t ndim,
                                              const int64_t *shape,
                                              tn_array **out);

/* The same memory as elements of another type of the same size: the bits of
 * f32 as u32, for instance. Writes through one are seen through the other, and
 * calls are ordered as for any view. A tape sees no derivative between the two.
 * TN_DTYPE if the sizes differ, or if `dtype` is bool and the array is not. The
 * caller releases *out. [any] */
TN_API TN_MUST_USE tn_code tn_array_bits(tn_array *array, tn_dtype dtype,
                                         tn_array **out);

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_ARRAY_H_ */
