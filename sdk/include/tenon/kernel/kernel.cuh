/* SPDX-License-Identifier: Apache-2.0
 * kernel.cuh: common parts of kernels for CUDA devices: elements of all types,
 * arguments of kernels, reductions over the threads of a block, and launches.
 * For CUDA C++ only; nothing here is part of the ABI. Loops over tensors of any
 * strides are in elementwise.cuh, which includes this.
 *
 *   enum { OUT, DATA };
 *   struct acme_extent { int64_t rows, columns; };
 *
 *   template <class C>
 *   __global__ void __launch_bounds__(TN_CUDA_THREADS)
 *       acme_row_sums(tn_cuda_arrays<2> a, acme_extent v) {
 *     __shared__ C part[TN_CUDA_THREADS];
 *     for (int64_t r = blockIdx.x; r < v.rows; r += gridDim.x) {
 *       C sum = 0;
 *       for (int64_t k = threadIdx.x; k < v.columns; k += TN_CUDA_THREADS)
 *         sum += tn_cuda_read<C>(a.at[DATA], r * v.columns + k);
 *       sum = tn_cuda_reduce(part, sum, tn_cuda_plus());
 *       if (threadIdx.x == 0) tn_cuda_write(a.at[OUT], r, sum);
 *     }
 *   }
 *
 *   extern "C" int32_t acme_row_sums_cuda(const tn_frame *call) {
 *     const acme_extent v = {call->in[0].shape[0], call->in[0].shape[1]};
 *     tn_cuda_arrays<2> a;
 *     a.at[OUT] = tn_cuda_to(&call->out[0], call->req[0]);
 *     a.at[DATA] = tn_cuda_from(&call->in[0]);
 *     return tn_cuda_on(call, [&](cudaStream_t stream) {
 *       return tn_cuda_by_compute(a.at[DATA].dtype, [&](auto type) {
 *         typedef decltype(type) C;
 *         return tn_cuda_start(call, acme_row_sums<C>, v.rows, stream, a, v);
 *       });
 *     });
 *   }
 *
 * A call is launched on its stream without a wait: its kernel declares
 * TN_KERNEL_ASYNC. The arguments of a kernel are an array of tn_cuda_array,
 * with all memory of the device that it uses, and one more without addresses:
 * so the memory of a launch is known before it runs.
 */
#ifndef TENON_KERNEL_KERNEL_CUH_
#define TENON_KERNEL_KERNEL_CUH_

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tenon/draft/capture.h"
#include "tenon/kernel/kernel.h"
#include "tenon/kernel/operand.h"

enum { TN_CUDA_THREADS = 256 }; /* of a block */

/* ----------------------------------------------------------------- elements */

/* An element in memory with a type that C++ does not distinguish. */
struct tn_cuda_bool {
  uint8_t byte;
};

/* An element as the type to compute in. */
template <class C, class T>
__device__ __forceinline__ C tn_cuda_get(T x) {
  return (C)x;
}

template <class C>
__device__ __forceinline__ C tn_cuda_get(tn_cuda_bool x) {
  return (C)(x.byte != 0);
}

template <class C>
__device__ __forceinline__ C tn_cuda_get(__half x) {
  return (C)__half2float(x);
}

template <class C>
__device__ __forceinline__ C tn_cuda_get(__nv_bfloat16 x) {
  return (C)__bfloat162float(x);
}

/* A float without its fraction, the nearest that an integer type has if it is
 * too large, 0 for NaN. */
template <class T, class C>
__device__ __forceinline__ T tn_cuda_whole(C x) {
  const int bits = 8 * (int)sizeof(T) - ((T)-1 < (T)0);
  const C high = (C)((uint64_t)1 << (bits - 1)) * 2;
  const C low = (T)-1 < (T)0 ? -high : (C)0;
  const T most = (T)(((uint64_t)1 << (bits - 1)) * 2 - 1);
  if (x != x) return 0;
  if (x >= high) return most;
  return x > low ? (T)x : (T)low;
}

/* The element that is written for a value, by the rules of convert.h; the
 * second argument selects the type. */
template <class T, class C>
__device__ __forceinline__ T tn_cuda_put(C x, T) {
  return (T)x;
}

/* Conversions of floats to integers: selected by argument, so that floats to
 * floats are not. */
#define TN_CUDA_WHOLE(type)                                     \
  __device__ __forceinline__ type tn_cuda_put(float x, type) {  \
    return tn_cuda_whole<type>(x);                              \
  }                                                             \
  __device__ __forceinline__ type tn_cuda_put(double x, type) { \
    return tn_cuda_whole<type>(x);                              \
  }
TN_CUDA_WHOLE(int8_t)
TN_CUDA_WHOLE(uint8_t)
TN_CUDA_WHOLE(int16_t)
TN_CUDA_WHOLE(uint16_t)
TN_CUDA_WHOLE(int32_t)
TN_CUDA_WHOLE(uint32_t)
TN_CUDA_WHOLE(int64_t)
TN_CUDA_WHOLE(uint64_t)
#undef TN_CUDA_WHOLE

template <class C>
__device__ __forceinline__ tn_cuda_bool tn_cuda_put(C x, tn_cuda_bool) {
  tn_cuda_bool truth;
  truth.byte = x != (C)0;
  return truth;
}

__device__ __forceinline__ __half tn_cuda_put(float x, __half) {
  return __float2half_rn(x);
}

__device__ __forceinline__ __half tn_cuda_put(double x, __half) {
  return __double2half(x);
}

__device__ __forceinline__ __nv_bfloat16 tn_cuda_put(float x, __nv_bfloat16) {
  return __float2bfloat16_rn(x);
}

__device__ __forceinline__ __nv_bfloat16 tn_cuda_put(double x, __nv_bfloat16) {
  return __double2bfloat16(x);
}

template <class C>
__device__ __forceinline__ __half tn_cuda_put(C x, __half) {
  return __float2half_rn((float)x); /* never called: no integer class has it */
}

template <class C>
__device__ __forceinline__ __nv_bfloat16 tn_cuda_put(C x, __nv_bfloat16) {
  return __float2bfloat16_rn((float)x); /* never called, as above */
}

/* Sets *to, or adds to it: the sum is rounded once. Integers wrap. */
template <class C>
__device__ __forceinline__ C tn_cuda_sum(C a, C b) {
  return a + b;
}

__device__ __forceinline__ int32_t tn_cuda_sum(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}

__device__ __forceinline__ int64_t tn_cuda_sum(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* True for integers: then a value is converted before it is added. */
template <class T>
struct tn_cuda_is_whole {
  enum { value = 0 };
};
#define TN_CUDA_IS_WHOLE(type)    \
  template <>                     \
  struct tn_cuda_is_whole<type> { \
    enum { value = 1 };           \
  };
TN_CUDA_IS_WHOLE(tn_cuda_bool)
TN_CUDA_IS_WHOLE(int8_t)
TN_CUDA_IS_WHOLE(uint8_t)
TN_CUDA_IS_WHOLE(int16_t)
TN_CUDA_IS_WHOLE(uint16_t)
TN_CUDA_IS_WHOLE(int32_t)
TN_CUDA_IS_WHOLE(uint32_t)
TN_CUDA_IS_WHOLE(int64_t)
TN_CUDA_IS_WHOLE(uint64_t)
#undef TN_CUDA_IS_WHOLE

template <class C, class T>
__device__ __forceinline__ void tn_cuda_set(T *to, C value, int add) {
  if (add && tn_cuda_is_whole<T>::value) {
    const int64_t fresh = tn_cuda_get<int64_t>(tn_cuda_put(value, T()));
    *to = tn_cuda_put(tn_cuda_sum(fresh, tn_cuda_get<int64_t>(*to)), T());
    return;
  }
  if (add) value = tn_cuda_sum(value, tn_cuda_get<C>(*to));
  *to = tn_cuda_put(value, T());
}

/* Calls `visit` with element i of an array of any type. */
template <class Visit>
__device__ __forceinline__ void tn_cuda_visit(void *array, tn_dtype dtype,
                                              int64_t i, Visit visit) {
  switch (dtype) {
    case TN_F32:
      return visit((float *)array + i);
    case TN_F16:
      return visit((__half *)array + i);
    case TN_BF16:
      return visit((__nv_bfloat16 *)array + i);
    case TN_F64:
      return visit((double *)array + i);
    case TN_BOOL:
      return visit((tn_cuda_bool *)array + i);
    case TN_I8:
      return visit((int8_t *)array + i);
    case TN_U8:
      return visit((uint8_t *)array + i);
    case TN_I16:
      return visit((int16_t *)array + i);
    case TN_U16:
      return visit((uint16_t *)array + i);
    case TN_I32:
      return visit((int32_t *)array + i);
    case TN_U32:
      return visit((uint32_t *)array + i);
    case TN_U64:
      return visit((uint64_t *)array + i);
    default:
      return visit((int64_t *)array + i);
  }
}

template <class C>
struct tn_cuda_reader {
  C *value;
  template <class T>
  __device__ __forceinline__ void operator()(const T *at) const {
    *value = tn_cuda_get<C>(*at);
  }
};

template <class C>
struct tn_cuda_writer {
  C value;
  int add;
  template <class T>
  __device__ __forceinline__ void operator()(T *at) const {
    tn_cuda_set(at, value, add);
  }
};

/* The type in which elements of a float type are computed. */
template <class T>
struct tn_cuda_compute {
  typedef float type;
};
template <>
struct tn_cuda_compute<double> {
  typedef double type;
};

/* ------------------------------------------------------------------- arrays */

/* An array of the device, as an argument of a kernel. */
struct tn_cuda_array {
  void *data;    /* of the element with index 0; NULL: there is none */
  int64_t low;   /* bytes from `data` to the first one used: 0, or less if steps
                    are negative */
  int64_t bytes; /* from there on */
  tn_dtype dtype;
  int16_t writes; /* 0: read only */
  int16_t adds;   /* tn_cuda_write adds to the old value */
};

template <int N>
struct tn_cuda_arrays {
  tn_cuda_array at[N];
};

/* Element `i`, counted in memory, as the type to compute in. */
template <class C>
__device__ __forceinline__ C tn_cuda_read(const tn_cuda_array &array,
                                          int64_t i) {
  C value;
  tn_cuda_reader<C> reader = {&value};
  tn_cuda_visit(array.data, array.dtype, i, reader);
  return value;
}

/* Sets element `i`, or adds to it. */
template <class C>
__device__ __forceinline__ void tn_cuda_write(const tn_cuda_array &array,
                                              int64_t i, C value) {
  tn_cuda_writer<C> writer = {value, array.adds};
  tn_cuda_visit(array.data, array.dtype, i, writer);
}

/* --------------------------------------------------------------------- host */

/* Blocks of 256 threads for so many pieces of work: no more than keep every
 * multiprocessor busy; each continues with further pieces. */
static inline unsigned tn_cuda_blocks(const tn_frame *call, int64_t pieces) {
  int processors = 0;
  if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                             call->run->device_id) != cudaSuccess)
    processors = 64;
  const int64_t most = (int64_t)processors * 16;
  const int64_t wanted = (pieces + 255) / 256;
  return (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

/* Launches a kernel with blocks of 256 threads, without a wait. The result is
 * that of this launch alone, unlike that of cudaGetLastError. Other compilers
 * than nvcc need an own function of this name. */
#ifdef __CUDACC__
template <class... Args>
static inline cudaError_t tn_cuda_launch(void (*kernel)(Args...),
                                         unsigned blocks, cudaStream_t stream,
                                         Args... args) {
  void *at[] = {(void *)&args...};
  return cudaLaunchKernel((const void *)kernel, dim3(blocks), dim3(256), at, 0,
                          stream);
}
#endif

/* Returns true for a fault of an earlier kernel; any next call reports it. */
static inline bool tn_cuda_is_fault(int error) {
  return error == 700 || error == 702 || (error >= 709 && error <= 721);
}

static inline int32_t tn_cuda_check(const tn_frame *call, cudaError_t error) {
  if (error == cudaSuccess) return TN_OK;
  const bool records = error >= 900 && error <= 908; /* another thread */
  const int32_t code = error == cudaErrorMemoryAllocation ? TN_OUT_OF_MEMORY
                       : records                          ? TN_BUSY
                                                          : TN_DEVICE;
  return TN_FAIL(call, code, "CUDA: %s (%s)%s", cudaGetErrorString(error),
                 cudaGetErrorName(error),
                 tn_cuda_is_fault(error)
                     ? "; an operation before this one may be the cause, and "
                       "the GPU is lost to this process"
                     : "");
}

/* A tensor that a kernel reads, of any strides. */
static inline tn_cuda_array tn_cuda_from(const tn_tensor *tensor) {
  const int64_t width = tn_dtype_bytes(tensor->dtype);
  int64_t low = 0, high = 0;
  tn_cuda_array array;
  memset(&array, 0, sizeof array);
  if (tensor->data == NULL || tn_tensor_size(tensor) == 0) return array;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const int64_t reach = (tensor->shape[d] - 1) * tensor->strides[d];
    (reach < 0 ? low : high) += reach;
  }
  array.data = (char *)tensor->data + tensor->byte_offset;
  array.low = low * width;
  array.bytes = tn_dtype_bytes_of(tensor->dtype, high - low + 1);
  array.dtype = tensor->dtype;
  return array;
}

/* A tensor that a kernel writes; without data if it is not requested. */
static inline tn_cuda_array tn_cuda_to(const tn_tensor *tensor, tn_req req) {
  tn_cuda_array array = tn_cuda_from(tensor);
  array.writes = 1;
  array.adds = req == TN_REQ_ADD;
  if (req == TN_REQ_NULL) array.data = NULL;
  return array;
}

/* `n` elements of workspace, which are written. */
static inline tn_cuda_array tn_cuda_room(void *data, tn_dtype dtype,
                                         int64_t n) {
  tn_cuda_array array;
  memset(&array, 0, sizeof array);
  array.data = data;
  array.bytes = tn_dtype_bytes_of(dtype, n);
  array.dtype = dtype;
  array.writes = 1;
  return array;
}

/* The place of the params of each run, a struct of `bytes`, for a kernel;
 * without data if the call is not recorded: then call->params counts. */
static inline tn_cuda_array tn_cuda_live_params(const tn_frame *call,
                                                int64_t bytes) {
  const void *at = tn_call_device_params(call);
  tn_cuda_array array =
      tn_cuda_room((void *)(uintptr_t)at, TN_U8, at != NULL ? bytes : 0);
  array.writes = 0;
  return array;
}

/* Functions of the driver that make a context current. The runtime has none: if
 * no context is current it reports device 0, and opens that when it is
 * restored.
 */
struct tn_cuda_contexts {
  cudaError_t error; /* of the search for the others */
  CUresult (*current)(CUcontext *);
  CUresult (*of_stream)(CUstream, CUcontext *);
  CUresult (*push)(CUcontext);
  CUresult (*pop)(CUcontext *);
};

#if CUDART_VERSION < 12000
#error "Tenon's kernels want a CUDA toolkit of release 12.0 or later"
#endif

template <class Function>
static inline void tn_cuda_find(tn_cuda_contexts *in, const char *name,
                                Function *out) {
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  void *at = NULL;
#if CUDART_VERSION >= 12050
  cudaError_t error = cudaGetDriverEntryPointByVersion(
      name, &at, 12000, cudaEnableDefault, &found);
#else
  cudaError_t error =
      cudaGetDriverEntryPoint(name, &at, cudaEnableDefault, &found);
#endif
  if (error == cudaSuccess && at == NULL) error = cudaErrorSymbolNotFound;
  if (error != cudaSuccess) in->error = error;
  *out = (Function)at;
}

static inline tn_cuda_contexts tn_cuda_contexts_find() {
  tn_cuda_contexts contexts = {cudaSuccess, NULL, NULL, NULL, NULL};
  tn_cuda_find(&contexts, "cuCtxGetCurrent", &contexts.current);
  tn_cuda_find(&contexts, "cuStreamGetCtx", &contexts.of_stream);
  tn_cuda_find(&contexts, "cuCtxPushCurrent", &contexts.push);
  tn_cuda_find(&contexts, "cuCtxPopCurrent", &contexts.pop);
  return contexts;
}

static inline const tn_cuda_contexts &tn_cuda_contexts_get() {
  static const tn_cuda_contexts contexts = tn_cuda_contexts_find();
  return contexts;
}

/* A result of the driver: the runtime has the same numbers. */
static inline int32_t tn_cuda_check(const tn_frame *call, CUresult result) {
  return tn_cuda_check(call, (cudaError_t)result);
}

/* Runs `run(stream)`, which returns a code, with the context of the stream
 * current; then restores the thread's own, if it has one. */
template <class Run>
static inline int32_t tn_cuda_on(const tn_frame *call, Run run) {
  const tn_cuda_contexts &contexts = tn_cuda_contexts_get();
  CUcontext wanted = NULL, before = NULL;
  void *queue = NULL;
  int32_t code = tn_call_stream(call, TN_DEVICE_CUDA, &queue);
  const cudaStream_t stream = (cudaStream_t)queue;
  if (code == TN_OK) code = tn_cuda_check(call, contexts.error);
  if (code == TN_OK)
    code = tn_cuda_check(call, contexts.of_stream(stream, &wanted));
  if (code == TN_OK) code = tn_cuda_check(call, contexts.current(&before));
  if (code != TN_OK) return code;
  if (before == wanted) return run(stream);
  code = tn_cuda_check(call, contexts.push(wanted));
  if (code != TN_OK) return code;
  code = run(stream);
  (void)contexts.pop(&wanted);
  return code;
}

/* Launches `kernel` with at most so many blocks; each continues with further
 * work. 0 is no launch. */
template <class... Args>
static inline int32_t tn_cuda_start(const tn_frame *call,
                                    void (*kernel)(Args...), int64_t blocks,
                                    cudaStream_t stream, Args... args) {
  if (blocks == 0) return TN_OK;
  const unsigned most = tn_cuda_blocks(call, blocks * TN_CUDA_THREADS);
  return tn_cuda_check(call, tn_cuda_launch(kernel, most, stream, args...));
}

/* The same for `n` threads' work. */
template <class... Args>
static inline int32_t tn_cuda_start_each(const tn_frame *call,
                                         void (*kernel)(Args...), int64_t n,
                                         cudaStream_t stream, Args... args) {
  return tn_cuda_start(call, kernel,
                       (n + TN_CUDA_THREADS - 1) / TN_CUDA_THREADS, stream,
                       args...);
}

/* Calls `run` with a value of the type in which floats of a dtype are computed:
 * f64 in itself, others in f32. */
template <class Run>
static inline int32_t tn_cuda_by_compute(tn_dtype dtype, Run run) {
  return dtype == TN_F64 ? run(double()) : run(float());
}

/* Calls `run` with a value of the type of elements of a float dtype. */
template <class Run>
static inline int32_t tn_cuda_by_float(tn_dtype dtype, Run run) {
  switch (dtype) {
    case TN_F16:
      return run(__half());
    case TN_BF16:
      return run(__nv_bfloat16());
    case TN_F64:
      return run(double());
    default:
      return run(float());
  }
}

/* Calls `run` with a value of an unsigned type of 1, 2, 4 or 8 bytes, for
 * kernels that only move elements. */
template <class Run>
static inline int32_t tn_cuda_by_width(int64_t bytes, Run run) {
  switch (bytes) {
    case 1:
      return run(uint8_t());
    case 2:
      return run(uint16_t());
    case 4:
      return run(uint32_t());
    default:
      return run(uint64_t());
  }
}

/* Calls `run` with a value of a type for elements of any dtype, for kernels
 * that add them: signed integers become unsigned ones, which have the same bits
 * in sums. */
template <class Run>
static inline int32_t tn_cuda_by_sum(tn_dtype dtype, Run run) {
  if (dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 || dtype == TN_F64)
    return tn_cuda_by_float(dtype, run);
  if (dtype == TN_BOOL) return run(tn_cuda_bool());
  return tn_cuda_by_width(tn_dtype_bytes(dtype), run);
}

#include "tenon/kernel/block_reduce.cuh"

#endif /* TENON_KERNEL_KERNEL_CUH_ */
