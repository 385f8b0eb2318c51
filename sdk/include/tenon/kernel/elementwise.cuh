/* SPDX-License-Identifier: Apache-2.0
 * elementwise.cuh: loops of kernels on CUDA devices over tensors of any
 * strides, types and requests, like elementwise.h on the CPU. For CUDA C++
 * only; nothing here is part of the ABI.
 *
 *   struct cube_f32 {
 *     typedef float type;
 *     enum { n_in = 1 };
 *     explicit cube_f32(const void *) {}
 *     __device__ float operator()(const float *x) const {
 *       return x[0] * x[0] * x[0];
 *     }
 *   };
 *
 *   static const tn_cuda_map map = {
 *       {tn_cuda_run<cube_f32>, NULL, NULL, NULL}, 0, 1, {0}};
 *
 *   extern "C" int32_t acme_cube_cuda(const tn_frame *call) {
 *     return tn_cuda_map_run(call, &map, 1);
 *   }
 *
 * is a kernel for f16, bf16 and f32. The struct, constructed from `params`, is
 * copied to the device. A call is launched on its stream without a wait: its
 * kernel declares TN_KERNEL_ASYNC. Where an operator has dynamic parameters,
 * the struct has tn_cuda_live as its base and a constructor that is __device__
 * as well: then its kernel can be TN_KERNEL_CAPTURABLE.
 */
#ifndef TENON_KERNEL_ELEMENTWISE_CUH_
#define TENON_KERNEL_ELEMENTWISE_CUH_

#include "tenon/kernel/kernel.cuh"

/* ------------------------------------------------------------------- device */

/* Base of a loop that is constructed again on the device, from the parameters
 * there, in recorded calls (tenon/draft/capture.h). */
struct tn_cuda_live {};

template <class Loop>
__device__ __forceinline__ void tn_cuda_renew(Loop *loop, const void *params,
                                              const tn_cuda_live *) {
  if (params != NULL) *loop = Loop(params);
}

template <class Loop>
__device__ __forceinline__ void tn_cuda_renew(Loop *, const void *,
                                              const void *) {}

/* Dense operands of one element type, each aligned to 16 bytes; the output is
 * the first. */
struct tn_cuda_flat {
  int64_t n;
  int add;
  int n_operands;
  int width;        /* bytes of an element */
  const void *live; /* parameters on the device, or NULL */
  void *data[TN_KERNEL_MAX_OPERANDS];
};

/* Operands of any kind: the walk of elementwise.h. */
struct tn_cuda_view {
  int64_t n;
  int ndim;
  int add;
  int n_operands;
  const void *live; /* as above */
  int64_t shape[TN_MAX_NDIM];
  int64_t stride[TN_KERNEL_MAX_OPERANDS][TN_MAX_NDIM]; /* in elements */
  void *data[TN_KERNEL_MAX_OPERANDS];
  tn_dtype dtype[TN_KERNEL_MAX_OPERANDS];
};

/* 16 bytes of elements. */
template <class T>
struct alignas(16) tn_cuda_pack {
  enum { n = 16 / sizeof(T) };
  T at[n];
};

template <class Loop>
struct tn_cuda_shape {
  enum { n_in = Loop::n_in, room = n_in > 0 ? n_in : 1 };
};

/* One pack of every operand at once. */
template <class Loop, class T>
__device__ __forceinline__ void tn_cuda_pack_at(const Loop &loop,
                                                const tn_cuda_flat &flat,
                                                int64_t k) {
  typedef typename Loop::type C;
  typedef tn_cuda_pack<T> pack;
  pack in[tn_cuda_shape<Loop>::room];
  pack *to = (pack *)flat.data[0] + k;
  pack out;
  if (flat.add) out = *to;
#pragma unroll
  for (int j = 0; j < Loop::n_in; ++j)
    in[j] = ((const pack *)flat.data[1 + j])[k];
#pragma unroll
  for (int i = 0; i < pack::n; ++i) {
    C x[tn_cuda_shape<Loop>::room];
#pragma unroll
    for (int j = 0; j < Loop::n_in; ++j) x[j] = tn_cuda_get<C>(in[j].at[i]);
    tn_cuda_set(&out.at[i], loop(x), flat.add);
  }
  *to = out;
}

template <class Loop, class T>
__global__ void __launch_bounds__(256)
    tn_cuda_flat_loop(Loop loop, tn_cuda_flat flat) {
  typedef typename Loop::type C;
  enum { width = tn_cuda_pack<T>::n };
  const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  const int64_t packs = flat.n / width;
  tn_cuda_renew(&loop, flat.live, (const Loop *)NULL);
  for (int64_t k = first; k < packs; k += step)
    tn_cuda_pack_at<Loop, T>(loop, flat, k);
  for (int64_t i = packs * width + first; i < flat.n; i += step) {
    C x[tn_cuda_shape<Loop>::room];
#pragma unroll
    for (int j = 0; j < Loop::n_in; ++j)
      x[j] = tn_cuda_get<C>(((const T *)flat.data[1 + j])[i]);
    tn_cuda_set((T *)flat.data[0] + i, loop(x), flat.add);
  }
}

/* Reads element i of an operand. Loops over doubles have another function,
 * because operands of them may be TN_KERNEL_ODD_U64. */
template <class C>
__device__ __forceinline__ void tn_cuda_fetch(C *to, void *array,
                                              tn_dtype dtype, int64_t i) {
  tn_cuda_reader<C> reader = {to};
  tn_cuda_visit(array, dtype, i, reader);
}

__device__ __forceinline__ void tn_cuda_fetch(double *to, void *array,
                                              tn_dtype dtype, int64_t i) {
  tn_cuda_reader<double> reader = {to};
  if (dtype != TN_KERNEL_ODD_U64) return tn_cuda_visit(array, dtype, i, reader);
  *to = (double)tn_math_odd_u64(((const uint64_t *)array)[i]);
}

/* Index is the type that counts elements: divisions of 32 bits are faster. */
template <class Loop, class Index>
__global__ void __launch_bounds__(256)
    tn_cuda_view_loop(Loop loop, tn_cuda_view view) {
  typedef typename Loop::type C;
  const Index step = (Index)gridDim.x * (Index)blockDim.x;
  Index i = (Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x;
  tn_cuda_renew(&loop, view.live, (const Loop *)NULL);
  for (; i < (Index)view.n; i += step) {
    int64_t at[1 + Loop::n_in] = {0};
    C x[tn_cuda_shape<Loop>::room];
    Index left = i;
    for (int d = view.ndim - 1; d >= 0; --d) {
      const Index length = (Index)view.shape[d];
      const int64_t place = (int64_t)(d > 0 ? left % length : left);
      left /= length;
#pragma unroll
      for (int k = 0; k <= Loop::n_in; ++k) at[k] += place * view.stride[k][d];
    }
#pragma unroll
    for (int j = 0; j < Loop::n_in; ++j)
      tn_cuda_fetch(&x[j], view.data[1 + j], view.dtype[1 + j], at[1 + j]);
    tn_cuda_writer<C> writer = {loop(x), view.add};
    tn_cuda_visit(view.data[0], view.dtype[0], at[0], writer);
  }
}

/* --------------------------------------------------------------------- host */

/* Whether all operands are dense, aligned and of one type. */
static inline int tn_cuda_is_flat(const tn_kernel_task *task) {
  int flat = task->walk.ndim == 1;
  for (uint32_t k = 0; k < task->walk.n_operands; ++k)
    flat = flat && task->walk.stride[k][0] == 1 &&
           task->dtype[k] == task->dtype[0] &&
           ((uintptr_t)task->walk.data[k] & 15) == 0;
  return flat;
}

template <class Loop, class T>
static int32_t tn_cuda_run_flat(const tn_frame *call,
                                const tn_kernel_task *task) {
  tn_cuda_flat flat;
  flat.n = task->walk.size;
  flat.add = (int)task->add;
  flat.n_operands = Loop::n_in + 1;
  flat.width = (int)sizeof(T);
  flat.live = tn_call_device_params(call);
  for (uint32_t k = 0; k <= Loop::n_in; ++k) flat.data[k] = task->walk.data[k];
  const unsigned blocks = tn_cuda_blocks(call, flat.n / tn_cuda_pack<T>::n + 1);
  return tn_cuda_check(call, tn_cuda_launch(tn_cuda_flat_loop<Loop, T>, blocks,
                                            (cudaStream_t)call->run->stream,
                                            Loop(call->params), flat));
}

template <class Loop>
static int32_t tn_cuda_run_view(const tn_frame *call,
                                const tn_kernel_task *task) {
  tn_cuda_view view;
  const cudaStream_t stream = (cudaStream_t)call->run->stream;
  const Loop loop(call->params);
  memset(&view, 0, sizeof view);
  view.n = task->walk.size;
  view.ndim = task->walk.ndim;
  view.add = (int)task->add;
  view.n_operands = Loop::n_in + 1;
  view.live = tn_call_device_params(call);
  for (int d = 0; d < view.ndim; ++d) view.shape[d] = task->walk.shape[d];
  for (uint32_t k = 0; k <= Loop::n_in; ++k) {
    view.data[k] = task->walk.data[k];
    view.dtype[k] = task->dtype[k];
    for (int d = 0; d < view.ndim; ++d)
      view.stride[k][d] = task->walk.stride[k][d];
  }
  const unsigned blocks = tn_cuda_blocks(call, view.n);
  return tn_cuda_check(
      call, view.n < INT32_MAX
                ? tn_cuda_launch(tn_cuda_view_loop<Loop, uint32_t>, blocks,
                                 stream, loop, view)
                : tn_cuda_launch(tn_cuda_view_loop<Loop, int64_t>, blocks,
                                 stream, loop, view));
}

/* The element types of one type to compute in that have loops of their own,
 * where all operands have it: 0 if this is none of them. */
template <class Loop>
static int tn_cuda_try_flat(const tn_frame *call, const tn_kernel_task *task,
                            int32_t *code, float) {
  if (task->dtype[0] == TN_F32)
    *code = tn_cuda_run_flat<Loop, float>(call, task);
  else if (task->dtype[0] == TN_F16)
    *code = tn_cuda_run_flat<Loop, __half>(call, task);
  else if (task->dtype[0] == TN_BF16)
    *code = tn_cuda_run_flat<Loop, __nv_bfloat16>(call, task);
  else
    return 0;
  return 1;
}

template <class Loop, class C>
static int tn_cuda_try_flat(const tn_frame *call, const tn_kernel_task *task,
                            int32_t *code, C) {
  if (task->dtype[0] != task->mode.compute) return 0;
  *code = tn_cuda_run_flat<Loop, C>(call, task);
  return 1;
}

/* Launches one formula over the operands of a task. [worker] */
template <class Loop>
static int32_t tn_cuda_run(const tn_frame *call, const tn_kernel_task *task) {
  typedef typename Loop::type C;
  int32_t code = TN_OK;
  if (tn_cuda_is_flat(task) && tn_cuda_try_flat<Loop>(call, task, &code, C()))
    return code;
  return tn_cuda_run_view<Loop>(call, task);
}

/* One output of an element-wise operator; NULL: not computed in that type. */
struct tn_cuda_map {
  int32_t (*run[5])(const tn_frame *call, const tn_kernel_task *task);
  /* f32, f64, i32, i64, u64 */
  uint32_t out; /* index in call->out */
  uint32_t n_in;
  uint32_t in[TN_KERNEL_MAX_IN];     /* indices in call->in */
  tn_dtype least = TN_DTYPE_UNKNOWN; /* as of tn_kernel_map */
};

static inline int32_t tn_cuda_map_one(const tn_frame *call,
                                      const tn_cuda_map *map) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_I32, TN_I64, TN_U64};
  tn_kernel_task task;
  tn_kernel_map operands = {};
  operands.out = map->out;
  operands.least = map->least;
  tn_kernel_task_init(&task, call, &operands);
  if (task.mode.compute == TN_DTYPE_UNKNOWN)
    return TN_FAIL(call, TN_DTYPE,
                   "output %u has a type in which nothing is computed: 0x%x",
                   map->out, (unsigned)task.dtype[0]);
  tn_kernel_walk_init(&task.walk, &call->out[map->out]);
  if (task.walk.size == 0) return TN_OK;
  for (uint32_t i = 0; i < map->n_in; ++i) {
    const int32_t code = tn_kernel_task_add(&task, call, map->in[i]);
    if (code != TN_OK) return code;
  }
  tn_kernel_task_round(&task);
  tn_kernel_walk_begin(&task.walk);
  for (int c = 0; c < 5; ++c)
    if (types[c] == task.mode.compute && map->run[c] != NULL)
      return map->run[c](call, &task);
  return TN_FAIL(call, TN_DTYPE, "this kernel does not compute in %s",
                 tn_kernel_compute_name(task.mode.compute));
}

static inline int32_t tn_cuda_maps(const tn_frame *call,
                                   const tn_cuda_map *maps, uint32_t n_maps) {
  for (uint32_t i = 0; i < call->n_out; ++i) {
    uint32_t m = 0;
    while (m < n_maps && maps[m].out != i) ++m;
    if (call->req[i] == TN_REQ_NULL) continue;
    if (m == n_maps)
      return TN_FAIL(call, TN_UNSUPPORTED, "output %u is not computed here", i);
    const int32_t code = tn_cuda_map_one(call, &maps[m]);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

/* Launches every requested output; those without a map must not be requested.
 * Several maps of one call must not be run under TN_REQ_INPLACE if a later one
 * reads what an earlier one overwrites. TN_OK, or a code with TN_FAIL. [worker]
 */
static inline int32_t tn_cuda_map_run(const tn_frame *call,
                                      const tn_cuda_map *maps,
                                      uint32_t n_maps) {
  return tn_cuda_on(
      call, [=](cudaStream_t) { return tn_cuda_maps(call, maps, n_maps); });
}

#endif /* TENON_KERNEL_ELEMENTWISE_CUH_ */
