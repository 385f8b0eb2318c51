/* SPDX-License-Identifier: Apache-2.0
 * elementwise.h: loops of kernels on the CPU over tensors of any strides, types
 * and requests. Part of kernel.h, which includes it.
 *
 *   TN_KERNEL_BODY void cube(const tn_kernel_block *block,
 *                            const void *params) {
 *     const float *x = (const float *)block->in[0];
 *     float *y = (float *)block->out;
 *     (void)params;
 *     TN_KERNEL_INDEPENDENT
 *     for (int64_t i = 0; i < block->n; ++i) y[i] = x[i] * x[i] * x[i];
 *   }
 *   TN_KERNEL_LEVELS(cube)
 *
 *   static const tn_kernel_map map = {
 *       .f32 = TN_KERNEL_BODIES(cube), .n_in = 1, .in = {0}};
 *
 *   int32_t acme_cube_prepare(const tn_frame *call, tn_plan *plan) {
 *     return tn_kernel_map_prepare(call, plan, &map, 1);
 *   }
 *   int32_t acme_cube(const tn_frame *call) {
 *     return tn_kernel_map_run(call, &map, 1);
 *   }
 *
 * is a kernel for all calls that compute in f32 (f16, bf16, f32, and small
 * integers beside them), any strides, broadcast inputs and all requests, at the
 * level of x86 that the host allows. Bodies of other types are in .f64, .i32,
 * .i64 and .u64; body_forms.h makes those of .f16 and .bf16. opgen writes the
 * `prepare` for its own kernels; a manifest has no key for another.
 */
#ifndef TENON_KERNEL_ELEMENTWISE_H_
#define TENON_KERNEL_ELEMENTWISE_H_

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "tenon/draft/registers.h"
#include "tenon/kernel/convert.h"
#include "tenon/kernel/math/wide.h"
#include "tenon/kernel/tensor_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------- element-wise operators */

/* Bytes of scratch memory of a slice, for all operands together. */
#define TN_KERNEL_SCRATCH 16384
/* Elements of one slice of a parallel loop. */
#define TN_KERNEL_GRAIN 32768
#define TN_KERNEL_MAX_IN (TN_KERNEL_MAX_OPERANDS - 1)

/* The block that a body computes: n elements, dense, all of the body's type.
 * `out` may be the same memory as one of `in`, element for element. */
typedef struct tn_kernel_block {
  int64_t n;
  void *out;
  const void *in[TN_KERNEL_MAX_IN];
} tn_kernel_block;

/* Sets out[i] from in[...][i]. `params` is call->params. [worker] */
typedef void tn_kernel_body(const tn_kernel_block *block, const void *params);

/* One body at every level; the next lower one replaces NULL. */
typedef struct tn_kernel_bodies {
  tn_kernel_body *at[TN_KERNEL_N_LEVELS];
} tn_kernel_bodies;

/* The body of a level, or NULL if there is none at all. */
static inline tn_kernel_body *tn_kernel_body_at(const tn_kernel_bodies *bodies,
                                                uint32_t level) {
  while (level > 0 && !bodies->at[level]) --level;
  return bodies->at[level];
}

/* Its register kernels (register_loops.h), for each level above the lowest, by
 * the input that is in registers; NULL: none. */
typedef struct tn_kernel_registers {
  tn_register_kernel *at[TN_KERNEL_N_LEVELS - 1][TN_REGISTER_INPUTS];
} tn_kernel_registers;

/* One output of an element-wise operator: a body for each type that a call may
 * compute in; the types of all operands decide it (convert.h). Empty: no
 * body. */
typedef struct tn_kernel_map {
  tn_kernel_bodies f32;
  tn_kernel_bodies f64;
  uint32_t out; /* index in call->out */
  uint32_t n_in;
  uint32_t in[TN_KERNEL_MAX_IN]; /* indices in call->in */
  tn_kernel_bodies i32;
  tn_kernel_bodies i64;
  tn_kernel_bodies f16, bf16; /* body_forms.h; for calls of that type alone */
  /* body_forms.h; for two inputs in f32; that one is a single element, the same
   * for the whole block. */
  tn_kernel_bodies one[2];
  tn_kernel_registers registers; /* register_loops.h; for calls in f32 alone */
  /* Joined to the types of all operands: no call computes in less. Or
   * TN_DTYPE_UNKNOWN. */
  tn_dtype least;
  tn_kernel_bodies u64;
} tn_kernel_map;

/* The bodies that compute in a type. [any] */
static inline const tn_kernel_bodies *tn_kernel_map_bodies(
    const tn_kernel_map *map, tn_dtype compute) {
  if (compute == TN_F32) return &map->f32;
  if (compute == TN_F64) return &map->f64;
  if (compute == TN_F16) return &map->f16;
  if (compute == TN_BF16) return &map->bf16;
  if (compute == TN_U64) return &map->u64;
  return compute == TN_I32 ? &map->i32 : &map->i64;
}

/* Computes one output of a call that is dense, but of several types. */
TN_KERNEL_COMMON int32_t tn_kernel_map_mixed(const tn_frame *call,
                                             const tn_kernel_map *map);

/* Computes one output of any call. */
TN_KERNEL_COMMON int32_t tn_kernel_map_strided(const tn_frame *call,
                                               const tn_kernel_map *map);

/* The `prepare` for TN_CALL_REGISTERS (register_loops.h). [any] */
static inline int32_t tn_kernel_map_offer(const tn_frame *call, tn_plan *plan,
                                          const tn_kernel_map *maps,
                                          uint32_t n_maps);

/* --------------------------------------------------------- beyond the caches
 */

/* Bytes of all operands from which on the output is written past the caches. */
#define TN_KERNEL_STREAM (32 << 20)
/* Bytes of one operand that are computed before they are written so. */
#define TN_KERNEL_CHUNK 512
/* Bytes of all operands from which on they are prefetched, and the highest
 * number of operands: their pages must fit the first cache together. */
#define TN_KERNEL_FETCH (4 << 20)
#define TN_KERNEL_FETCHED 4
/* Decides whether operands that fit the last cache are prefetched as well. If
 * it serves only a few cores, as on AMD processors, it is faster than the
 * prefetches: an add of 1 M floats takes 0.82 of the time without them. */
static inline int tn_kernel_fetch_pays(int64_t bytes) {
  if (bytes < TN_KERNEL_FETCH) return 0;
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
  if (__builtin_cpu_is("amd")) return bytes >= TN_KERNEL_STREAM;
#endif
  return 1;
}
/* Bytes of one operand that are prefetched together: as many as arrive while
 * the body computes; and the distance. */
#define TN_KERNEL_PIECE 1024
#define TN_KERNEL_PREFETCH 4096

#if defined(__SSE2__)
/* Prefetches the lines of a later piece of an operand, one after the other.
 * More of them at once gain nothing: the processor then mixes them with those
 * of the next operand. */
static inline void tn_kernel_fetch(const void *operand) {
  const char *at = (const char *)operand + TN_KERNEL_PREFETCH;
  TN_KERNEL_ROLLED
  for (int64_t line = 0; line < TN_KERNEL_PIECE; line += 64)
    _mm_prefetch(at + line, _MM_HINT_T0);
}

/* Copies whole lines past the caches; `to` is aligned to 16. Meanwhile the
 * lines of a later chunk of the inputs are prefetched: otherwise reads and
 * writes of memory would alternate and wait for each other. Chunks are short,
 * so that these lines arrive while the body computes. */
static inline void tn_kernel_stream_chunk(void *to, const void *from,
                                          int64_t bytes,
                                          const char *const *later,
                                          uint32_t n_later) {
  __m128i *t = (__m128i *)to;
  const __m128i *f = (const __m128i *)from;
  for (int64_t at = 0; at < bytes; at += 64) {
    for (uint32_t k = 0; k < n_later; ++k)
      _mm_prefetch(later[k] + at, _MM_HINT_T0);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(t++, _mm_load_si128(f++));
  }
}
#endif

#ifdef __cplusplus
}
#endif

#include "tenon/kernel/strided.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------ the dense case
 */

/* A call with dense operands of one shape, all of the type that the body
 * computes in: the body can process all of it, in slices. */
typedef struct tn_kernel_dense {
  tn_kernel_block block;
  tn_kernel_body *body;
  const void *params;
  int64_t bytes; /* of one element */
  uint32_t n_in;
  uint8_t stream; /* 1: the output does not fit into any cache */
  uint8_t fetch;  /* 1: the operands do not fit the near caches */
} tn_kernel_dense;

/* Elements of one slice: short, so that threads end at the same time, but not
 * so short that cutting costs more; whole lines of any cache. */
static inline int64_t tn_kernel_dense_grain(const tn_kernel_dense *dense) {
  const int64_t n = dense->block.n / 16 / 1024 * 1024;
  const int64_t most = dense->stream ? 2 * TN_KERNEL_GRAIN : TN_KERNEL_GRAIN;
  return n < 4096 ? 4096 : n < most ? n : most;
}

static inline void tn_kernel_dense_block(const tn_kernel_dense *dense,
                                         tn_kernel_block *block, int64_t begin,
                                         int64_t n) {
  const int64_t skip = begin * dense->bytes;
  block->n = n;
  block->out = (char *)dense->block.out + skip;
  for (uint32_t k = 0; k < dense->n_in; ++k)
    block->in[k] = (const char *)dense->block.in[k] + skip;
}

#if defined(__SSE2__)
/* Computes into a piece of cache and writes that to memory, which is not read
 * for it. */
static inline void tn_kernel_dense_stream(const tn_kernel_dense *dense,
                                          int64_t begin, int64_t end) {
  TN_KERNEL_LINED char chunk[TN_KERNEL_CHUNK];
  const int64_t most = TN_KERNEL_CHUNK / dense->bytes;
  const int64_t ahead = TN_KERNEL_PREFETCH / dense->bytes;
  const char *later[TN_KERNEL_MAX_IN];
  tn_kernel_block block;
  for (; end - begin >= most; begin += most) {
    tn_kernel_dense_block(dense, &block, begin, most);
    void *to = block.out;
    block.out = chunk;
    dense->body(&block, dense->params);
    const int more = end - begin >= ahead + most;
    for (uint32_t k = 0; more && k < dense->n_in; ++k)
      later[k] = (const char *)block.in[k] + TN_KERNEL_PREFETCH;
    tn_kernel_stream_chunk(to, chunk, TN_KERNEL_CHUNK, later,
                           more ? dense->n_in : 0);
  }
  _mm_sfence();
  if (begin == end) return;
  tn_kernel_dense_block(dense, &block, begin, end - begin);
  dense->body(&block, dense->params);
}

/* Prefetches a piece of each operand while the body computes an earlier one:
 * data beyond the near caches arrives faster in consecutive lines.
 */
static inline void tn_kernel_dense_fetch(const tn_kernel_dense *dense,
                                         int64_t begin, int64_t end) {
  const int64_t most = TN_KERNEL_PIECE / dense->bytes;
  const int64_t ahead = TN_KERNEL_PREFETCH / dense->bytes;
  tn_kernel_block block;
  for (; end - begin >= ahead + most; begin += most) {
    tn_kernel_dense_block(dense, &block, begin, most);
    for (uint32_t k = 0; k < dense->n_in; ++k) tn_kernel_fetch(block.in[k]);
    tn_kernel_fetch(block.out);
    dense->body(&block, dense->params);
  }
  if (begin == end) return;
  tn_kernel_dense_block(dense, &block, begin, end - begin);
  dense->body(&block, dense->params);
}
#else
static inline void tn_kernel_dense_fetch(const tn_kernel_dense *dense,
                                         int64_t begin, int64_t end) {
  tn_kernel_block block;
  tn_kernel_dense_block(dense, &block, begin, end - begin);
  dense->body(&block, dense->params);
}

static inline void tn_kernel_dense_stream(const tn_kernel_dense *dense,
                                          int64_t begin, int64_t end) {
  tn_kernel_block block;
  tn_kernel_dense_block(dense, &block, begin, end - begin);
  dense->body(&block, dense->params);
}
#endif

/* Elements [begin, end); a tn_loop_body. [worker] */
static inline int32_t tn_kernel_dense_slice(void *arg, int64_t begin,
                                            int64_t end) {
  const tn_kernel_dense *dense = (const tn_kernel_dense *)arg;
  tn_kernel_block block;
  tn_kernel_dense_block(dense, &block, begin, end - begin);
  if (dense->stream && ((uintptr_t)block.out & 15) == 0)
    tn_kernel_dense_stream(dense, begin, end);
  else if (dense->fetch)
    tn_kernel_dense_fetch(dense, begin, end);
  else
    dense->body(&block, dense->params);
  return TN_OK;
}

/* Returns 1 if all operands of one output are dense and of one shape. *direct
 * becomes 0 unless they also are of one type with bodies in the map; *compute
 * is that type, or TN_DTYPE_UNKNOWN at first. */
static inline int tn_kernel_is_dense(const tn_frame *call,
                                     const tn_kernel_map *map,
                                     tn_dtype *compute, int *direct) {
  const tn_tensor *out = &call->out[map->out];
  if (*compute == TN_DTYPE_UNKNOWN) *compute = out->dtype;
  tn_dtype joined = tn_kernel_compute_at_least(out->dtype, map->least);
  int same = out->dtype == *compute && call->req[map->out] != TN_REQ_ADD;
  if (joined == TN_DTYPE_UNKNOWN || !tn_tensor_is_contiguous(out)) return 0;
  for (uint32_t i = 0; i < map->n_in; ++i) {
    const tn_tensor *in = &call->in[map->in[i]];
    const tn_dtype own = tn_kernel_compute(in->dtype);
    if (own == TN_DTYPE_UNKNOWN || in->ndim != out->ndim ||
        !tn_tensor_is_contiguous(in))
      return 0;
    for (int32_t d = 0; d < out->ndim; ++d)
      if (in->shape[d] != out->shape[d]) return 0;
    same = same && in->dtype == *compute;
    joined = tn_kernel_compute_join(joined, own);
  }
  const int half = *compute == TN_F16 || *compute == TN_BF16;
  const tn_kernel_bodies *bodies = tn_kernel_map_bodies(map, *compute);
  if (!same || (joined != *compute && !half) ||
      !tn_kernel_body_at(bodies, tn_kernel_level(call)))
    *direct = 0;
  return tn_kernel_map_bodies(map, joined)->at[0] != NULL;
}

/* The result of a call's `prepare`: all of it is dense, and, if it is in one
 * type (otherwise TN_DTYPE_UNKNOWN), the bodies for it. It does not depend on
 * sizes, so it is valid for any contiguous part of the call as well. */
typedef struct tn_kernel_ready {
  uint32_t level;
  tn_dtype compute;
} tn_kernel_ready;

/* Computes one output of a call that is ready. */
static inline int32_t tn_kernel_map_dense(const tn_frame *call,
                                          const tn_kernel_map *map,
                                          const tn_kernel_ready *ready) {
  tn_kernel_dense dense;
  const tn_tensor *out = &call->out[map->out];
  dense.body = tn_kernel_body_at(tn_kernel_map_bodies(map, ready->compute),
                                 ready->level);
  dense.params = call->params;
  dense.block.n = tn_tensor_size(out);
  dense.block.out = out->data;
  for (uint32_t i = 0; i < map->n_in; ++i)
    dense.block.in[i] = call->in[map->in[i]].data;
  if (dense.block.n <= TN_KERNEL_GRAIN) {
    if (dense.block.n > 0) dense.body(&dense.block, dense.params);
    return TN_OK;
  }
  dense.bytes = tn_dtype_bytes(ready->compute);
  dense.n_in = map->n_in;
  const int64_t all = dense.block.n * dense.bytes * (map->n_in + 1);
  dense.stream = call->req[map->out] == TN_REQ_WRITE && all >= TN_KERNEL_STREAM;
  dense.fetch = tn_kernel_fetch_pays(all) && map->n_in < TN_KERNEL_FETCHED;
  return call->host->parallel_for(call, dense.block.n,
                                  tn_kernel_dense_grain(&dense),
                                  tn_kernel_dense_slice, &dense);
}

#if TN_KERNEL_HAS_COMMON
TN_KERNEL_COMMON int32_t tn_kernel_map_mixed(const tn_frame *call,
                                             const tn_kernel_map *map) {
  const tn_tensor *out = &call->out[map->out];
  tn_kernel_task task;
  tn_kernel_task_init(&task, call, map);
  tn_kernel_walk_flat(&task.walk, out);
  if (task.walk.size == 0) return TN_OK;
  for (uint32_t i = 0; i < map->n_in; ++i) {
    const tn_tensor *in = &call->in[map->in[i]];
    tn_kernel_task_join(&task, i + 1, in->dtype);
    tn_kernel_walk_flat_add(&task.walk, in);
  }
  tn_kernel_task_round(&task);
  task.body = tn_kernel_body_at(tn_kernel_map_bodies(map, task.mode.compute),
                                task.mode.level);
  return tn_kernel_task_run(call, &task);
}

TN_KERNEL_COMMON int32_t tn_kernel_map_strided(const tn_frame *call,
                                               const tn_kernel_map *map) {
  const tn_tensor *out = &call->out[map->out];
  tn_kernel_task task;
  tn_kernel_task_init(&task, call, map);
  if (task.mode.compute == TN_DTYPE_UNKNOWN)
    return TN_FAIL(call, TN_DTYPE,
                   "output %u has a type in which nothing is computed: 0x%x",
                   map->out, (unsigned)task.dtype[0]);
  tn_kernel_walk_init(&task.walk, out);
  if (task.walk.size == 0) return TN_OK;
  for (uint32_t i = 0; i < map->n_in; ++i) {
    const int32_t code = tn_kernel_task_add(&task, call, map->in[i]);
    if (code != TN_OK) return code;
  }
  tn_kernel_task_round(&task);
  task.body = tn_kernel_body_at(tn_kernel_map_bodies(map, task.mode.compute),
                                task.mode.level);
  if (!task.body)
    return TN_FAIL(call, TN_DTYPE, "this kernel does not compute in %s",
                   tn_kernel_compute_name(task.mode.compute));
  tn_kernel_walk_begin(&task.walk);
  tn_kernel_task_repeat(&task, map);
  task.stream =
      call->req[map->out] == TN_REQ_WRITE && tn_kernel_task_streams(&task);
  return tn_kernel_task_run(call, &task);
}
#endif

/* Returns 1 if every requested output is dense; *compute is then the type of
 * all operands, or TN_DTYPE_UNKNOWN if they have several. */
static inline int tn_kernel_maps_dense(const tn_frame *call,
                                       const tn_kernel_map *maps,
                                       uint32_t n_maps, tn_dtype *compute) {
  int direct = 1;
  *compute = TN_DTYPE_UNKNOWN;
  for (uint32_t m = 0; m < n_maps; ++m) {
    if (maps[m].out >= call->n_out) return 0;
    if (call->req[maps[m].out] == TN_REQ_NULL) continue;
    if (!tn_kernel_is_dense(call, &maps[m], compute, &direct)) return 0;
  }
  if (*compute == TN_DTYPE_UNKNOWN) return 0;
  if (!direct) *compute = TN_DTYPE_UNKNOWN;
  return 1;
}

/* The `prepare` of a kernel that runs maps: does once the checks that
 * tn_kernel_map_run would do in every call; allocates nothing, except for an
 * offer (register_loops.h). [any] */
TN_KERNEL_COMMON int32_t tn_kernel_map_prepare(const tn_frame *call,
                                               tn_plan *plan,
                                               const tn_kernel_map *maps,
                                               uint32_t n_maps);

#if TN_KERNEL_HAS_COMMON
TN_KERNEL_COMMON int32_t tn_kernel_map_prepare(const tn_frame *call,
                                               tn_plan *plan,
                                               const tn_kernel_map *maps,
                                               uint32_t n_maps) {
  static const tn_kernel_ready all[][TN_KERNEL_N_LEVELS] = {
      {{0, TN_DTYPE_UNKNOWN}, {1, TN_DTYPE_UNKNOWN}, {2, TN_DTYPE_UNKNOWN}},
      {{0, TN_F32}, {1, TN_F32}, {2, TN_F32}},
      {{0, TN_F64}, {1, TN_F64}, {2, TN_F64}},
      {{0, TN_I32}, {1, TN_I32}, {2, TN_I32}},
      {{0, TN_I64}, {1, TN_I64}, {2, TN_I64}},
      {{0, TN_U64}, {1, TN_U64}, {2, TN_U64}},
      {{0, TN_F16}, {1, TN_F16}, {2, TN_F16}},
      {{0, TN_BF16}, {1, TN_BF16}, {2, TN_BF16}}};
  tn_dtype compute;
  uint32_t row = 0;
  if (call->flags & TN_CALL_REGISTERS)
    return tn_kernel_map_offer(call, plan, maps, n_maps);
  if (!tn_kernel_maps_dense(call, maps, n_maps, &compute)) return TN_OK;
  while (all[row][0].compute != compute) ++row;
  const tn_kernel_ready *ready = &all[row][tn_kernel_level(call)];
  plan->prepared = (void *)(uintptr_t)ready; /* only read */
  return TN_OK;
}
#endif

/* Computes every requested output; those without a map must not be requested.
 * Several maps of one call must not be run under TN_REQ_INPLACE if a later one
 * reads what an earlier one overwrites. `call->prepared` is the result of
 * tn_kernel_map_prepare, or NULL. TN_OK, or a code with TN_FAIL. [worker]
 */
TN_KERNEL_COMMON int32_t tn_kernel_map_run(const tn_frame *call,
                                           const tn_kernel_map *maps,
                                           uint32_t n_maps);

#if TN_KERNEL_HAS_COMMON
/* Computes one output by the fastest path. */
static inline int32_t tn_kernel_map_one(const tn_frame *call,
                                        const tn_kernel_map *map) {
  const tn_kernel_ready *ready = (const tn_kernel_ready *)call->prepared;
  if (!ready) return tn_kernel_map_strided(call, map);
  if (ready->compute == TN_DTYPE_UNKNOWN) return tn_kernel_map_mixed(call, map);
  return tn_kernel_map_dense(call, map, ready);
}

TN_KERNEL_COMMON int32_t tn_kernel_map_run(const tn_frame *call,
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
#endif

#ifdef __cplusplus
}
#endif

#include "tenon/draft/register_loops.h"
#include "tenon/kernel/body_forms.h"

#endif /* TENON_KERNEL_ELEMENTWISE_H_ */
