/* SPDX-License-Identifier: Apache-2.0
 * tensor_walk.h: a loop over the elements of several tensors of one shape and
 * any strides, and compiler attributes for loops of kernels. Part of kernel.h,
 * by elementwise.h.
 */
#include "tenon/kernel/kernel.h" /* includes this file: before the guard */

#ifndef TENON_KERNEL_TENSOR_WALK_H_
#define TENON_KERNEL_TENSOR_WALK_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Precedes a loop with independent iterations, although its pointers may be
 * equal (TN_REQ_INPLACE): the compiler may vectorise it. clang reads it as an
 * order and warns if it cannot, as at -O1, so that warning is off. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define TN_KERNEL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TN_KERNEL_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TN_KERNEL_INDEPENDENT
#endif

/* Precedes a loop that must stay as it is written. nvcc does not know gcc's
 * name for it. */
#if defined(__clang__)
#define TN_KERNEL_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define TN_KERNEL_ROLLED _Pragma("GCC unroll 1")
#else
#define TN_KERNEL_ROLLED
#endif

/* Aligned to a cache line. */
#if defined(__GNUC__)
#define TN_KERNEL_LINED __attribute__((aligned(64)))
#elif defined(__cplusplus)
#define TN_KERNEL_LINED alignas(64)
#else
#define TN_KERNEL_LINED _Alignas(64)
#endif

/* ------------------------------------------------------------- loop walker */

/* Operands of one loop, the output first. */
#define TN_KERNEL_MAX_OPERANDS 16

/* A loop over all elements of tensors of one shape. Dimensions of length 1 are
 * dropped, the others ordered as in the memory of the first operand and merged
 * if all operands allow it, so that dense tensors make one dimension. */
typedef struct tn_kernel_walk {
  int64_t size; /* elements */
  int32_t ndim; /* at least 1 after tn_kernel_walk_begin */
  uint32_t n_operands;
  int64_t shape[TN_MAX_NDIM];
  int64_t stride[TN_KERNEL_MAX_OPERANDS][TN_MAX_NDIM]; /* in elements */
  int64_t bytes[TN_KERNEL_MAX_OPERANDS];               /* of one element */
  char *data[TN_KERNEL_MAX_OPERANDS];
} tn_kernel_walk;

/* Elements with one constant stride in every operand. */
typedef struct tn_kernel_run {
  int64_t n;
  char *at[TN_KERNEL_MAX_OPERANDS];       /* the first one */
  int64_t stride[TN_KERNEL_MAX_OPERANDS]; /* in elements */
  int64_t place[TN_MAX_NDIM];             /* of the first one */
} tn_kernel_run;

/* Starts with the operand that has the loop's whole shape. [worker] */
static inline void tn_kernel_walk_init(tn_kernel_walk *walk,
                                       const tn_tensor *first) {
  walk->size = tn_tensor_size(first);
  walk->ndim = first->ndim;
  walk->n_operands = 1;
  walk->bytes[0] = tn_dtype_bytes(first->dtype);
  walk->data[0] = (char *)first->data;
  for (int32_t d = 0; d < first->ndim; ++d) {
    walk->shape[d] = first->shape[d];
    walk->stride[0][d] = first->strides[d];
  }
}

/* Adds an operand of the same shape or one that is broadcast to it: 1, or 0 if
 * it does not fit. At most TN_KERNEL_MAX_OPERANDS in all. [worker] */
static inline int tn_kernel_walk_add(tn_kernel_walk *walk,
                                     const tn_tensor *tensor) {
  const uint32_t k = walk->n_operands++;
  const int32_t missing = walk->ndim - tensor->ndim;
  if (missing < 0) return 0;
  walk->bytes[k] = tn_dtype_bytes(tensor->dtype);
  walk->data[k] = (char *)tensor->data;
  for (int32_t d = 0; d < missing; ++d) walk->stride[k][d] = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const int repeat = tensor->shape[d] == 1;
    if (!repeat && tensor->shape[d] != walk->shape[missing + d]) return 0;
    walk->stride[k][missing + d] = repeat ? 0 : tensor->strides[d];
  }
  return 1;
}

/* The same for operands that are all dense and of one shape: one dimension, and
 * nothing to begin. [worker] */
static inline void tn_kernel_walk_flat_add(tn_kernel_walk *walk,
                                           const tn_tensor *tensor) {
  const uint32_t k = walk->n_operands++;
  walk->bytes[k] = tn_dtype_bytes(tensor->dtype);
  walk->data[k] = (char *)tensor->data;
  walk->stride[k][0] = 1;
}

static inline void tn_kernel_walk_flat(tn_kernel_walk *walk,
                                       const tn_tensor *first) {
  walk->size = tn_tensor_size(first);
  walk->ndim = 1;
  walk->n_operands = 0;
  walk->shape[0] = walk->size;
  tn_kernel_walk_flat_add(walk, first);
}

/* Copies dimension `from` to `to`. [worker] */
static inline void tn_kernel_walk_move(tn_kernel_walk *walk, int32_t to,
                                       int32_t from) {
  walk->shape[to] = walk->shape[from];
  for (uint32_t k = 0; k < walk->n_operands; ++k)
    walk->stride[k][to] = walk->stride[k][from];
}

static inline void tn_kernel_walk_swap(tn_kernel_walk *walk, int32_t a,
                                       int32_t b) {
  const int64_t length = walk->shape[a];
  walk->shape[a] = walk->shape[b];
  walk->shape[b] = length;
  for (uint32_t k = 0; k < walk->n_operands; ++k) {
    const int64_t stride = walk->stride[k][a];
    walk->stride[k][a] = walk->stride[k][b];
    walk->stride[k][b] = stride;
  }
}

/* Returns 1 if steps along `outer` continue those along `inner` in every
 * operand. */
static inline int tn_kernel_walk_joins(const tn_kernel_walk *walk,
                                       int32_t outer, int32_t inner) {
  for (uint32_t k = 0; k < walk->n_operands; ++k)
    if (walk->stride[k][outer] != walk->stride[k][inner] * walk->shape[inner])
      return 0;
  return 1;
}

static inline void tn_kernel_walk_drop(tn_kernel_walk *walk) {
  int32_t kept = 0;
  for (int32_t d = 0; d < walk->ndim; ++d)
    if (walk->shape[d] != 1) tn_kernel_walk_move(walk, kept++, d);
  walk->ndim = kept;
}

/* The largest stride of the first operand becomes the outermost. */
static inline void tn_kernel_walk_sort(tn_kernel_walk *walk) {
  const int64_t *stride = walk->stride[0];
  for (int32_t d = 1; d < walk->ndim; ++d)
    for (int32_t e = d; e > 0 && llabs(stride[e - 1]) < llabs(stride[e]); --e)
      tn_kernel_walk_swap(walk, e - 1, e);
}

static inline void tn_kernel_walk_merge(tn_kernel_walk *walk) {
  int32_t last = 0;
  for (int32_t d = 1; d < walk->ndim; ++d) {
    const int64_t length = walk->shape[last];
    const int joins = tn_kernel_walk_joins(walk, last, d);
    if (!joins) ++last;
    tn_kernel_walk_move(walk, last, d);
    if (joins) walk->shape[last] *= length;
  }
  walk->ndim = last + 1;
}

/* Once all operands are known: drops, sorts and merges dimensions. [worker] */
static inline void tn_kernel_walk_begin(tn_kernel_walk *walk) {
  tn_kernel_walk_drop(walk);
  if (walk->ndim > 0) {
    tn_kernel_walk_sort(walk);
    tn_kernel_walk_merge(walk);
    return;
  }
  walk->ndim = 1;
  walk->shape[0] = 1;
  for (uint32_t k = 0; k < walk->n_operands; ++k) walk->stride[k][0] = 1;
}

/* The longest run that begins at element `index` of the loop, in its own order
 * of dimensions, and ends before `end`; run->place is its begin. [worker] */
static inline void tn_kernel_walk_run(const tn_kernel_walk *walk, int64_t index,
                                      int64_t end, tn_kernel_run *run) {
  const int32_t inner = walk->ndim - 1;
  int64_t left = index;
  for (int32_t d = inner; d > 0; --d) {
    run->place[d] = left % walk->shape[d];
    left /= walk->shape[d];
  }
  run->place[0] = left;
  run->n = walk->shape[inner] - run->place[inner];
  if (run->n > end - index) run->n = end - index;
  for (uint32_t k = 0; k < walk->n_operands; ++k) {
    int64_t offset = 0;
    for (int32_t d = 0; d <= inner; ++d)
      offset += run->place[d] * walk->stride[k][d];
    run->at[k] = walk->data[k] + offset * walk->bytes[k];
    run->stride[k] = walk->stride[k][inner];
  }
}

/* Moves a run to the elements after it; its length is then the rest of the
 * line. The loop must have more elements. [worker] */
static inline void tn_kernel_walk_next(const tn_kernel_walk *walk,
                                       tn_kernel_run *run) {
  int32_t d = walk->ndim - 1;
  int64_t by = run->n;
  for (;;) {
    run->place[d] += by;
    for (uint32_t k = 0; k < walk->n_operands; ++k)
      run->at[k] += by * walk->stride[k][d] * walk->bytes[k];
    if (d == 0 || run->place[d] < walk->shape[d]) break;
    by = -walk->shape[d];
    run->place[d] += by;
    for (uint32_t k = 0; k < walk->n_operands; ++k)
      run->at[k] += by * walk->stride[k][d] * walk->bytes[k];
    by = 1;
    --d;
  }
  d = walk->ndim - 1;
  run->n = walk->shape[d] - run->place[d];
}

/* Whole lines from `run` on, along the dimension before the last, that end
 * before `left` elements do; 1 for a part of a line. */
static inline int64_t tn_kernel_walk_lines(const tn_kernel_walk *walk,
                                           const tn_kernel_run *run,
                                           int64_t left) {
  const int32_t d = walk->ndim - 2;
  if (d < 0 || run->n < walk->shape[d + 1]) return 1;
  const int64_t lines = walk->shape[d] - run->place[d];
  return left < lines * run->n ? left / run->n : lines;
}

/* Moves down by `n` of those lines. */
static inline void tn_kernel_walk_down(const tn_kernel_walk *walk,
                                       tn_kernel_run *run, int64_t lines) {
  const int32_t d = walk->ndim - 2;
  if (lines == 0) return;
  run->place[d] += lines;
  for (uint32_t k = 0; k < walk->n_operands; ++k)
    run->at[k] += lines * walk->stride[k][d] * walk->bytes[k];
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_TENSOR_WALK_H_ */
