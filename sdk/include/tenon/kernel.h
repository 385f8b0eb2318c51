/* SPDX-License-Identifier: Apache-2.0
 * kernel.h: helpers for kernels on the CPU: half precision, the functions of
 * the expression language, and loops over strided tensors. Header only, C11 or
 * C++17, op.h and libc; nothing here is part of the ABI, everything is compiled
 * into the plugin. Generated kernels use it; so can written ones.
 *
 *   static void cube(const tn_kernel_block *block, const void *params) {
 *     const float *x = (const float *)block->in[0];
 *     float *y = (float *)block->out;
 *     (void)params;
 *     TN_KERNEL_INDEPENDENT
 *     for (int64_t i = 0; i < block->n; ++i) y[i] = x[i] * x[i] * x[i];
 *   }
 *
 *   int32_t acme_cube(const tn_frame *call) {
 *     static const tn_kernel_map map = {cube, NULL, 0, 1, {0}};
 *     return tn_kernel_map_run(call, &map, 1);
 *   }
 *
 * is a kernel for f16, bf16 and f32, any strides, broadcast inputs and all
 * requests.
 */
#ifndef TENON_KERNEL_H_
#define TENON_KERNEL_H_

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stands before a loop whose iterations do not depend on each other, though
 * its pointers may be equal (TN_REQ_INPLACE): it may be vectorised. That is a
 * permission. clang takes it for an order and warns where it cannot follow, as
 * at -O1, so that warning is off. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define TN_KERNEL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TN_KERNEL_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TN_KERNEL_INDEPENDENT
#endif

/* A function that is worth compiling once per file only. */
#if defined(__GNUC__)
#define TN_KERNEL_ONCE static __attribute__((noinline, unused))
#else
#define TN_KERNEL_ONCE static inline
#endif

/* -------------------------------------------------------------------- bits */

/* The bits of a float, and a float of bits. [any] */
static inline uint32_t tn_kernel_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float tn_kernel_f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t tn_kernel_f64_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double tn_kernel_f64_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* a where the condition holds, otherwise b. Both are computed, which is what
 * lets a loop be vectorised. [any] */
static inline uint32_t tn_kernel_select_bits(int condition, uint32_t a,
                                             uint32_t b) {
  const uint32_t mask = 0u - (uint32_t)(condition != 0);
  return (a & mask) | (b & ~mask);
}

static inline float tn_kernel_select_f32(int condition, float a, float b) {
  return tn_kernel_f32_from_bits(tn_kernel_select_bits(
      condition, tn_kernel_f32_bits(a), tn_kernel_f32_bits(b)));
}

/* SSE2 compares no 64-bit integers, so here gcc finds the vector form only if
 * it is left the choice; arms that compute want -fno-trapping-math. */
static inline double tn_kernel_select_f64(int condition, double a, double b) {
  return tn_kernel_f64_from_bits(condition ? tn_kernel_f64_bits(a)
                                           : tn_kernel_f64_bits(b));
}

/* ---------------------------------------------------------- half precision */

/* Exact. Without branches, so that loops are vectorised. [any] */
static inline float tn_kernel_f16_to_f32(uint16_t half) {
  const uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
  const uint32_t rest = ((uint32_t)half & 0x7fffu) << 13;
  const uint32_t exponent = rest & 0x0f800000u;
  const uint32_t normal = rest + 0x38000000u;  /* bias 127 instead of 15 */
  const uint32_t special = rest + 0x70000000u; /* exponent 255 instead of 31 */
  /* m * 2^-24 as the difference of (1 + m/1024) * 2^-14 and 2^-14. */
  const float subnormal = tn_kernel_f32_from_bits(rest + 0x38800000u) -
                          tn_kernel_f32_from_bits(0x38800000u);
  uint32_t bits =
      tn_kernel_select_bits(exponent == 0x0f800000u, special, normal);
  bits =
      tn_kernel_select_bits(exponent == 0, tn_kernel_f32_bits(subnormal), bits);
  return tn_kernel_f32_from_bits(bits | sign);
}

/* Rounds to nearest, ties to even; what is too large becomes infinite, NaN a
 * quiet NaN of the same sign. [any] */
static inline uint16_t tn_kernel_f32_to_f16(float value) {
  const uint32_t all = tn_kernel_f32_bits(value);
  const uint32_t sign = (all >> 16) & 0x8000u;
  const uint32_t rest = all & 0x7fffffffu;
  const uint32_t odd = (rest >> 13) & 1u;
  const uint32_t normal = (rest - 0x38000000u + 0x0fffu + odd) >> 13;
  /* Adding 0.5 leaves multiples of 2^-24 in the lowest bits, rounded. */
  const uint32_t subnormal =
      tn_kernel_f32_bits(tn_kernel_f32_from_bits(rest) + 0.5f) - 0x3f000000u;
  const uint32_t special =
      tn_kernel_select_bits(rest > 0x7f800000u, 0x7e00u, 0x7c00u);
  uint32_t bits = tn_kernel_select_bits(rest < 0x38800000u, subnormal, normal);
  bits = tn_kernel_select_bits(rest >= 0x47800000u, special, bits);
  return (uint16_t)(bits | sign);
}

/* Exact. [any] */
static inline float tn_kernel_bf16_to_f32(uint16_t bits) {
  return tn_kernel_f32_from_bits((uint32_t)bits << 16);
}

/* Rounds to nearest, ties to even; NaN stays NaN. [any] */
static inline uint16_t tn_kernel_f32_to_bf16(float value) {
  const uint32_t all = tn_kernel_f32_bits(value);
  const uint32_t odd = (all >> 16) & 1u;
  const uint32_t rounded = (all + 0x7fffu + odd) >> 16;
  const uint32_t quiet = (all >> 16) | 0x40u;
  return (uint16_t)tn_kernel_select_bits((all & 0x7fffffffu) > 0x7f800000u,
                                         quiet, rounded);
}

/* --------------------------------------------------------------- functions */

/* The smaller and the larger; the first of two that are equal, and NaN where
 * the first is NaN. [any] */
static inline float tn_kernel_min_f32(float a, float b) {
  return tn_kernel_select_f32(b < a, b, a);
}

static inline double tn_kernel_min_f64(double a, double b) {
  return tn_kernel_select_f64(b < a, b, a);
}

static inline float tn_kernel_max_f32(float a, float b) {
  return tn_kernel_select_f32(b > a, b, a);
}

static inline double tn_kernel_max_f64(double a, double b) {
  return tn_kernel_select_f64(b > a, b, a);
}

/* 1, -1, or 0 for zeros and NaN. [any] */
static inline float tn_kernel_sign_f32(float x) {
  return tn_kernel_select_f32(x > 0, 1, tn_kernel_select_f32(x < 0, -1, 0));
}

static inline double tn_kernel_sign_f64(double x) {
  return tn_kernel_select_f64(x > 0, 1, tn_kernel_select_f64(x < 0, -1, 0));
}

/* The remainder of a / b with the sign of b; 0 where b is 0. [any] */
static inline float tn_kernel_mod_f32(float a, float b) {
  const float rest = fmodf(a, b);
  const float moved = (rest > 0 && b < 0) || (rest < 0 && b > 0) ? b : 0;
  return tn_kernel_select_f32(b < 0 || b > 0 || b != b, rest + moved, 0);
}

static inline double tn_kernel_mod_f64(double a, double b) {
  const double rest = fmod(a, b);
  const double moved = (rest > 0 && b < 0) || (rest < 0 && b > 0) ? b : 0;
  return tn_kernel_select_f64(b < 0 || b > 0 || b != b, rest + moved, 0);
}

/* 1 / (1 + exp(-x)). [any] */
static inline float tn_kernel_sigmoid_f32(float x) {
  return 1.0f / (1.0f + expf(-x));
}

static inline double tn_kernel_sigmoid_f64(double x) {
  return 1.0 / (1.0 + exp(-x));
}

/* ------------------------------------------------------------- loop walker */

/* Operands of one loop, the output first. */
#define TN_KERNEL_MAX_OPERANDS 16

/* A loop over all elements of tensors of one shape. Dimensions of length 1 are
 * dropped, the others ordered as they lie in the first operand and merged where
 * all operands allow it, so that dense tensors make one dimension. */
typedef struct tn_kernel_walk {
  int64_t size; /* elements */
  int32_t ndim; /* at least 1 after tn_kernel_walk_begin */
  uint32_t n_operands;
  int64_t shape[TN_MAX_NDIM];
  int64_t stride[TN_KERNEL_MAX_OPERANDS][TN_MAX_NDIM]; /* in elements */
  int64_t bytes[TN_KERNEL_MAX_OPERANDS];               /* of one element */
  char *data[TN_KERNEL_MAX_OPERANDS];
} tn_kernel_walk;

/* Elements that lie on a line in every operand. */
typedef struct tn_kernel_run {
  int64_t n;
  char *at[TN_KERNEL_MAX_OPERANDS];       /* the first one */
  int64_t stride[TN_KERNEL_MAX_OPERANDS]; /* in elements */
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

/* Whether steps along `outer` continue those along `inner` everywhere. */
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

/* The largest stride of the first operand goes outside. */
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
 * of dimensions, and ends before `end`. [worker] */
static inline void tn_kernel_walk_run(const tn_kernel_walk *walk, int64_t index,
                                      int64_t end, tn_kernel_run *run) {
  const int32_t inner = walk->ndim - 1;
  int64_t left = index;
  int64_t place[TN_MAX_NDIM];
  for (int32_t d = inner; d > 0; --d) {
    place[d] = left % walk->shape[d];
    left /= walk->shape[d];
  }
  place[0] = left;
  run->n = walk->shape[inner] - place[inner];
  if (run->n > end - index) run->n = end - index;
  for (uint32_t k = 0; k < walk->n_operands; ++k) {
    int64_t offset = 0;
    for (int32_t d = 0; d <= inner; ++d)
      offset += place[d] * walk->stride[k][d];
    run->at[k] = walk->data[k] + offset * walk->bytes[k];
    run->stride[k] = walk->stride[k][inner];
  }
}

/* ----------------------------------------------------- loading and storing */

/* Whether a dtype is one of f16, bf16, f32 and f64. [any] */
static inline int tn_kernel_is_float(tn_dtype dtype) {
  return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_F16 ||
         dtype == TN_BF16;
}

/* Element i of an array of floats. */
static inline double tn_kernel_get(const void *from, tn_dtype dtype,
                                   int64_t i) {
  if (dtype == TN_F64) return ((const double *)from)[i];
  if (dtype == TN_F32) return (double)((const float *)from)[i];
  const uint16_t half = ((const uint16_t *)from)[i];
  return (double)(dtype == TN_F16 ? tn_kernel_f16_to_f32(half)
                                  : tn_kernel_bf16_to_f32(half));
}

/* n elements of a float type, `stride` elements apart. */
typedef struct tn_kernel_line {
  char *at;
  int64_t stride;
  int64_t n;
  tn_dtype dtype;
} tn_kernel_line;

/* Reads a line. [worker] */
TN_KERNEL_ONCE void tn_kernel_load_f32(float *__restrict to,
                                       const tn_kernel_line *from) {
  const int64_t n = from->n;
  const int64_t stride = from->stride;
  const float *single = (const float *)(const void *)from->at;
  const uint16_t *half = (const uint16_t *)(const void *)from->at;
  if (from->dtype == TN_F32) {
    for (int64_t i = 0; i < n; ++i) to[i] = single[i * stride];
  } else if (from->dtype == TN_F16) {
    for (int64_t i = 0; i < n; ++i)
      to[i] = tn_kernel_f16_to_f32(half[i * stride]);
  } else if (from->dtype == TN_BF16) {
    for (int64_t i = 0; i < n; ++i)
      to[i] = tn_kernel_bf16_to_f32(half[i * stride]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      to[i] = (float)tn_kernel_get(from->at, from->dtype, i * stride);
  }
}

TN_KERNEL_ONCE void tn_kernel_load_f64(double *__restrict to,
                                       const tn_kernel_line *from) {
  const int64_t n = from->n;
  const int64_t stride = from->stride;
  const double *wide = (const double *)(const void *)from->at;
  if (from->dtype == TN_F64) {
    for (int64_t i = 0; i < n; ++i) to[i] = wide[i * stride];
  } else {
    for (int64_t i = 0; i < n; ++i)
      to[i] = tn_kernel_get(from->at, from->dtype, i * stride);
  }
}

/* Writes a line. [worker] */
TN_KERNEL_ONCE void tn_kernel_store_f32(const tn_kernel_line *to,
                                        const float *__restrict from) {
  const int64_t n = to->n;
  const int64_t stride = to->stride;
  double *wide = (double *)(void *)to->at;
  float *single = (float *)(void *)to->at;
  uint16_t *half = (uint16_t *)(void *)to->at;
  if (to->dtype == TN_F32) {
    for (int64_t i = 0; i < n; ++i) single[i * stride] = from[i];
  } else if (to->dtype == TN_F16) {
    for (int64_t i = 0; i < n; ++i)
      half[i * stride] = tn_kernel_f32_to_f16(from[i]);
  } else if (to->dtype == TN_BF16) {
    for (int64_t i = 0; i < n; ++i)
      half[i * stride] = tn_kernel_f32_to_bf16(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) wide[i * stride] = (double)from[i];
  }
}

TN_KERNEL_ONCE void tn_kernel_store_f64(const tn_kernel_line *to,
                                        const double *__restrict from) {
  tn_kernel_line one = {to->at, 1, 1, to->dtype};
  const int64_t step = to->stride * tn_dtype_bytes(to->dtype);
  double *wide = (double *)(void *)to->at;
  if (to->dtype == TN_F64) {
    for (int64_t i = 0; i < to->n; ++i) wide[i * to->stride] = from[i];
    return;
  }
  for (int64_t i = 0; i < to->n; ++i) {
    const float single = (float)from[i];
    tn_kernel_store_f32(&one, &single);
    one.at += step;
  }
}

/* --------------------------------------------------- element-wise operators */

/* Elements that one pass through scratch memory takes. */
#define TN_KERNEL_BLOCK 256
/* Elements of one slice of a parallel loop. */
#define TN_KERNEL_GRAIN 65536
#define TN_KERNEL_MAX_IN (TN_KERNEL_MAX_OPERANDS - 1)

/* What a body computes: n elements, dense, all of the body's type. `out` may
 * be the same memory as one of `in`, element for element. */
typedef struct tn_kernel_block {
  int64_t n;
  void *out;
  const void *in[TN_KERNEL_MAX_IN];
} tn_kernel_block;

/* Sets out[i] from in[...][i]. `params` is call->params. [worker] */
typedef void tn_kernel_body(const tn_kernel_block *block, const void *params);

/* One output of an element-wise operator. */
typedef struct tn_kernel_map {
  tn_kernel_body *f32; /* for f16, bf16 and f32; or NULL */
  tn_kernel_body *f64; /* if any operand is f64; or NULL */
  uint32_t out;        /* index in call->out */
  uint32_t n_in;
  uint32_t in[TN_KERNEL_MAX_IN]; /* indices in call->in */
} tn_kernel_map;

/* One map of one call, shared by its slices. */
typedef struct tn_kernel_task {
  tn_kernel_walk walk; /* operand 0 is the output */
  tn_kernel_body *body;
  const void *params;
  tn_dtype compute; /* TN_F32 or TN_F64 */
  uint32_t add;     /* 1 under TN_REQ_ADD */
  tn_dtype dtype[TN_KERNEL_MAX_OPERANDS];
} tn_kernel_task;

typedef union tn_kernel_scratch {
  float f32[TN_KERNEL_BLOCK];
  double f64[TN_KERNEL_BLOCK];
} tn_kernel_scratch;

/* Reads a line into scratch, in f32 or f64. */
static inline void tn_kernel_load(tn_kernel_scratch *to, tn_dtype compute,
                                  const tn_kernel_line *from) {
  if (compute == TN_F32)
    tn_kernel_load_f32(to->f32, from);
  else
    tn_kernel_load_f64(to->f64, from);
}

/* Adds scratch to a line of the same type. */
static inline void tn_kernel_add_same(const tn_kernel_line *to,
                                      const tn_kernel_scratch *from) {
  float *single = (float *)(void *)to->at;
  double *wide = (double *)(void *)to->at;
  if (to->dtype == TN_F32)
    for (int64_t i = 0; i < to->n; ++i) single[i * to->stride] += from->f32[i];
  else
    for (int64_t i = 0; i < to->n; ++i) wide[i * to->stride] += from->f64[i];
}

/* Adds a line of another type to scratch. */
static inline void tn_kernel_add_other(tn_kernel_scratch *sum, tn_dtype compute,
                                       const tn_kernel_line *from) {
  tn_kernel_scratch old;
  tn_kernel_load(&old, compute, from);
  if (compute == TN_F32)
    for (int64_t i = 0; i < from->n; ++i) sum->f32[i] += old.f32[i];
  else
    for (int64_t i = 0; i < from->n; ++i) sum->f64[i] += old.f64[i];
}

/* Writes or adds scratch to the output's line. The sum is rounded once. */
static inline void tn_kernel_put(const tn_kernel_task *task,
                                 const tn_kernel_line *to,
                                 tn_kernel_scratch *from) {
  if (task->add && to->dtype == task->compute) {
    tn_kernel_add_same(to, from);
    return;
  }
  if (task->add) tn_kernel_add_other(from, task->compute, to);
  if (task->compute == TN_F32)
    tn_kernel_store_f32(to, from->f32);
  else
    tn_kernel_store_f64(to, from->f64);
}

/* Whether the body can work in the operand's own memory. */
static inline int tn_kernel_is_direct(const tn_kernel_task *task,
                                      const tn_kernel_run *run, uint32_t k) {
  return task->dtype[k] == task->compute && run->stride[k] == 1 &&
         !(k == 0 && task->add);
}

/* Runs the body over one line of every operand, through scratch where the
 * operand is not what the body takes. A broadcast operand (stride 0) is read
 * into scratch like any other, so the body's loop is always the dense one. */
static inline void tn_kernel_task_block(const tn_kernel_task *task,
                                        const tn_kernel_run *run,
                                        tn_kernel_scratch *scratch) {
  tn_kernel_block block;
  block.n = run->n;
  for (uint32_t k = 1; k < task->walk.n_operands; ++k) {
    const tn_kernel_line line = {run->at[k], run->stride[k], run->n,
                                 task->dtype[k]};
    const int direct = tn_kernel_is_direct(task, run, k);
    if (!direct) tn_kernel_load(&scratch[k], task->compute, &line);
    block.in[k - 1] = direct ? (const void *)line.at : &scratch[k];
  }
  if (tn_kernel_is_direct(task, run, 0)) {
    block.out = run->at[0];
    task->body(&block, task->params);
    return;
  }
  const tn_kernel_line out = {run->at[0], run->stride[0], run->n,
                              task->dtype[0]};
  block.out = &scratch[0];
  task->body(&block, task->params);
  tn_kernel_put(task, &out, &scratch[0]);
}

/* Elements [begin, end) of the loop; a tn_loop_body. [worker] */
static inline int32_t tn_kernel_task_slice(void *arg, int64_t begin,
                                           int64_t end) {
  const tn_kernel_task *task = (const tn_kernel_task *)arg;
  tn_kernel_scratch scratch[TN_KERNEL_MAX_OPERANDS];
  while (begin < end) {
    tn_kernel_run run;
    int direct = 1;
    tn_kernel_walk_run(&task->walk, begin, end, &run);
    for (uint32_t k = 0; k < task->walk.n_operands; ++k)
      direct = direct && tn_kernel_is_direct(task, &run, k);
    if (!direct && run.n > TN_KERNEL_BLOCK) run.n = TN_KERNEL_BLOCK;
    tn_kernel_task_block(task, &run, scratch);
    begin += run.n;
  }
  return TN_OK;
}

/* Adds an operand after checking it; TN_OK or a described failure. */
static inline int32_t tn_kernel_task_add(tn_kernel_task *task,
                                         const tn_frame *call, uint32_t index) {
  const tn_tensor *tensor = &call->in[index];
  if (tensor->ndim < 0)
    return TN_FAIL(call, TN_INVALID, "input %u is not given", index);
  if (!tn_kernel_is_float(tensor->dtype))
    return TN_FAIL(call, TN_DTYPE, "input %u is not f16, bf16, f32 or f64",
                   index);
  task->dtype[task->walk.n_operands] = tensor->dtype;
  if (tensor->dtype == TN_F64) task->compute = TN_F64;
  if (!tn_kernel_walk_add(&task->walk, tensor))
    return TN_FAIL(call, TN_SHAPE,
                   "the shape of input %u is not that of the output, and "
                   "cannot be broadcast to it",
                   index);
  if (!tensor->data)
    return TN_FAIL(call, TN_INVALID, "input %u has no data", index);
  return TN_OK;
}

/* Computes one output. */
TN_KERNEL_ONCE int32_t tn_kernel_map_one(const tn_frame *call,
                                         const tn_kernel_map *map) {
  const tn_tensor *out = &call->out[map->out];
  tn_kernel_task task;
  if (!tn_kernel_is_float(out->dtype))
    return TN_FAIL(call, TN_DTYPE, "output %u is not f16, bf16, f32 or f64",
                   map->out);
  task.params = call->params;
  task.compute = out->dtype == TN_F64 ? TN_F64 : TN_F32;
  task.add = call->req[map->out] == TN_REQ_ADD;
  task.dtype[0] = out->dtype;
  tn_kernel_walk_init(&task.walk, out);
  if (task.walk.size == 0) return TN_OK;
  for (uint32_t i = 0; i < map->n_in; ++i) {
    const int32_t code = tn_kernel_task_add(&task, call, map->in[i]);
    if (code != TN_OK) return code;
  }
  task.body = task.compute == TN_F32 ? map->f32 : map->f64;
  if (!task.body)
    return TN_FAIL(call, TN_DTYPE, "this kernel does not compute in %s",
                   task.compute == TN_F32 ? "f32" : "f64");
  tn_kernel_walk_begin(&task.walk);
  if (task.walk.size <= TN_KERNEL_GRAIN)
    return tn_kernel_task_slice(&task, 0, task.walk.size);
  return call->host->parallel_for(call, task.walk.size, TN_KERNEL_GRAIN,
                                  tn_kernel_task_slice, &task);
}

/* Computes every output that is asked for; those without a map must not be.
 * Several maps of one call must not be run under TN_REQ_INPLACE if a later one
 * reads what an earlier one overwrites. TN_OK, or a code with TN_FAIL. [worker]
 */
static inline int32_t tn_kernel_map_run(const tn_frame *call,
                                        const tn_kernel_map *maps,
                                        uint32_t n_maps) {
  for (uint32_t i = 0; i < call->n_out; ++i) {
    uint32_t m = 0;
    while (m < n_maps && maps[m].out != i) ++m;
    if (call->req[i] == TN_REQ_NULL) continue;
    if (m == n_maps)
      return TN_FAIL(call, TN_UNSUPPORTED, "output %u is not computed here", i);
    const int32_t code = tn_kernel_map_one(call, &maps[m]);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_H_ */
