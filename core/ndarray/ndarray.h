/* SPDX-License-Identifier: Apache-2.0
 * ndarray.h: arrays, views and eager calls. Uses base, storage and registry.
 *
 * files: array.c    life of an array, copy in and out
 *        view.c     slice, index, transpose, broadcast
 *        reshape.c  the same elements under another shape
 *        copy.c     strided copy and fill between tensors
 *        add.c      strided accumulation
 *        call.c     one forward call: bind, infer, settle, run, deliver
 *        backward.c the same for a gradient
 *        query.c    what a call would do: infer, explain
 *        work.c     the state of a call (call.h): begin, room, end
 *        bind.c     arrays take the places of operands
 *        settle.c   shapes are inferred, outputs checked or made
 *        overlap.c  which operands share memory
 *        lower.c    requests and layouts that a kernel does not take itself
 *        run.c      choose, prepare, place, compute, hand back
 *        dynamic.c  outputs whose shape compute states
 */
#ifndef TENON_NDARRAY_H_
#define TENON_NDARRAY_H_

#include "registry.h"
#include "storage.h"

/* An array: a block and a view of it. `tensor.data` is NULL until the block has
 * memory. Immutable but for that, and the elements. */
struct tn_array {
  const tn__env *env;
  _Atomic int64_t n_owners;
  tn__block *block;
  int64_t offset;   /* bytes from the block's begin to the first element */
  tn_tensor tensor; /* shape and strides point behind this struct */
};

tn_code tn__array_create(const tn__env *env, const tn_spec *spec,
                         tn_array **out);
void tn__array_release(tn_array *array);
/* Takes memory if there is none yet, and sets tensor.data. */
tn_code tn__array_materialise(tn_array *array);
/* The array's tensor; its `data` is set if the block has memory by now. */
const tn_tensor *tn__array_tensor(const tn_array *array);
/* Where the first element lies; NULL while the block has no memory. Calls use
 * this, not tensor.data, which is set for users only. */
void *tn__array_data(const tn_array *array);
/* All of its tensor but `data`, which another thread may be about to set. */
tn_tensor tn__array_metadata(const tn_array *array);
tn_code tn__array_set(tn_array *array, const void *data, size_t bytes);
tn_code tn__array_get(tn_array *array, void *data, size_t bytes);

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

/* Whether two positions of the tensor are one element (a broadcast view). */
bool tn__tensor_repeats(const tn_tensor *t);

/* to = from, and to += from; equal shapes and dtypes, any strides; `to` must
 * not repeat elements and must not overlap `from` unless they are identical. */
void tn__tensor_copy(const tn_tensor *to, const tn_tensor *from);
void tn__tensor_add(const tn_tensor *to, const tn_tensor *from);
void tn__tensor_zero(const tn_tensor *to);

/* What calls need of the runtime. */
typedef struct tn__caller {
  const tn__env *env;
  tn__registry *registry;
  uint64_t seed;
  _Atomic uint64_t random_offset; /* Philox blocks drawn so far */
  pthread_mutex_t serial;         /* held by kernels that are not reentrant */
} tn__caller;

tn_code tn__caller_init(tn__caller *caller, const tn__env *env,
                        tn__registry *registry, uint64_t seed);
void tn__caller_deinit(tn__caller *caller);

/* What a call is of. */
typedef struct tn__target_op {
  tn__caller *caller;
  tn_operator *op;
  const tn_params *params; /* NULL: all defaults */
  uint32_t pass;           /* TN_PASS_* */
  uint32_t flags;          /* TN_CALL_TRAIN or 0 */
} tn__target_op;

/* A forward call of `target`. */
tn_code tn__call(const tn__target_op *target, const tn_inputs *in,
                 const tn_outputs *out);
tn_code tn__call_backward(tn__caller *caller, tn_operator *op,
                          const tn_backward *call);
/* tn_operator_infer: checks `io` and completes it. */
tn_code tn__call_infer(tn__caller *caller, tn_operator *op,
                       const tn_params *params, tn_signature *io);
/* tn_operator_explain: the text of every candidate. */
tn_code tn__call_explain(tn__caller *caller, tn_operator *op,
                         const tn_inputs *in, const tn_params *params,
                         tn_text **out);

#endif /* TENON_NDARRAY_H_ */
