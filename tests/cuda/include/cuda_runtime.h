/* SPDX-License-Identifier: Apache-2.0
 * cuda_runtime.h: the parts of the CUDA runtime and language that the .cu files
 * of this repository use, for a C++ compiler of the host. Device code is plain
 * C++; a launch enqueues it on the simulated device (tests/cuda/fake_cuda.h),
 * which runs it later, thread by thread. It is before the toolkit's folder on
 * the include path of the tests.
 */
#ifndef FAKE_CUDA_RUNTIME_H_
#define FAKE_CUDA_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __host__
#define __global__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
/* One block runs at a time, so shared memory may be static. */
#define __shared__ static

typedef struct CUstream_st *cudaStream_t;
typedef int cudaError_t;
typedef int cudaDeviceAttr;
enum {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorSymbolNotFound = 500
};
#define CUDART_VERSION 13000
typedef int cudaDriverEntryPointQueryResult;
enum { cudaEnableDefault = 0, cudaDriverEntryPointSymbolNotFound = 1 };
enum { cudaDevAttrMultiProcessorCount = 16 };

extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **out, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult *found);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute,
                                   int device);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
}

/* Where device code is, while it runs on the fake's one thread. */
struct fake_index {
  unsigned x;
};
extern "C" struct fake_indices {
  struct fake_index grid;
  struct fake_index block;
  struct fake_index block_at;
  struct fake_index thread_at;
} fake_cuda_at;
#define gridDim (fake_cuda_at.grid)
#define blockDim (fake_cuda_at.block)
#define blockIdx (fake_cuda_at.block_at)
#define threadIdx (fake_cuda_at.thread_at)

extern "C" void fake_cuda_barrier(void);
#define __syncthreads fake_cuda_barrier

/* The upper half of a product. */
static inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return (uint64_t)((unsigned __int128)a * b >> 64);
}

static inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)a * b >> 32);
}

/* A double as an f32 that is rounded to odd: to a half from there it rounds as
 * it would at once, which by way of the nearest it would not. */
static inline float fake_cuda_odd(double x) {
  float single = (float)x;
  uint32_t bits;
  if (x == x && (double)single != x) {
    memcpy(&bits, &single, sizeof bits);
    const double gone = (double)single - x;
    if ((gone > 0) == (x > 0)) --bits; /* it is larger than x is */
    bits |= 1;
    memcpy(&single, &bits, sizeof single);
  }
  return single;
}

static inline double rsqrt(double x) {
  return 1 / __builtin_sqrt(x);
}

/* The value of the thread with a number that differs in the bits of `apart`.
 * Here the whole block must call it, as for a barrier, and not only a warp. */
template <class T>
static T __shfl_xor_sync(unsigned, T mine, unsigned apart) {
  static T given[1024];
  given[threadIdx.x] = mine;
  __syncthreads();
  const T taken = given[threadIdx.x ^ apart];
  __syncthreads();
  return taken;
}

/* -------------------------------------------------------------------- launch
 */

/* Memory that a launch uses. */
struct fake_cuda_use {
  const void *address;
  size_t bytes;
  int writes;
};

enum { FAKE_CUDA_MOST_USES = 12 };

/* A launch on its way. `run` computes one thread. */
struct fake_cuda_work {
  struct fake_cuda_work *next;
  void (*run)(const struct fake_cuda_work *work);
  unsigned blocks;
  unsigned n_uses;
  struct fake_cuda_use uses[FAKE_CUDA_MOST_USES];
};

extern "C" {
/* Takes `work` over, which is from malloc. */
cudaError_t fake_cuda_launch(cudaStream_t stream, struct fake_cuda_work *work);
/* The device's bytes from an address on, on its thread. */
void *fake_cuda_reach(const void *address);
}

static inline void fake_cuda_uses(fake_cuda_work *work, const void *address,
                                  size_t bytes, int writes) {
  if (address == NULL || bytes == 0) return;
  if (work->n_uses == FAKE_CUDA_MOST_USES) abort();
  fake_cuda_use *use = &work->uses[work->n_uses++];
  use->address = address;
  use->bytes = bytes;
  use->writes = writes;
}

/* The memory that an argument of a kernel refers to, and the same argument with
 * addresses of the host. None, unless another function of this name has the
 * type. */
template <class T>
static inline void fake_cuda_declare(fake_cuda_work *, const T &) {}
template <class T>
static inline void fake_cuda_translate(T &) {}

template <class A, class B>
struct fake_cuda_two : fake_cuda_work {
  void (*kernel)(A, B);
  A a;
  B b;
  fake_cuda_two(const A &a_, const B &b_) : a(a_), b(b_) {}
};

template <class A, class B>
static void fake_cuda_run_two(const fake_cuda_work *work) {
  const fake_cuda_two<A, B> *two = (const fake_cuda_two<A, B> *)work;
  A a = two->a;
  B b = two->b;
  fake_cuda_translate(a);
  fake_cuda_translate(b);
  two->kernel(a, b);
}

/* Placement, without the library of C++. */
struct fake_cuda_place {};
inline void *operator new(size_t, void *at, fake_cuda_place) {
  return at;
}

template <class A, class B>
static cudaError_t tn_cuda_launch(void (*kernel)(A, B), unsigned blocks,
                                  cudaStream_t stream, A a, B b) {
  void *memory = malloc(sizeof(fake_cuda_two<A, B>));
  if (memory == NULL) abort();
  memset(memory, 0, sizeof(fake_cuda_two<A, B>));
  fake_cuda_two<A, B> *work =
      new (memory, fake_cuda_place()) fake_cuda_two<A, B>(a, b);
  work->kernel = kernel;
  work->run = fake_cuda_run_two<A, B>;
  work->blocks = blocks;
  work->n_uses = 0;
  fake_cuda_declare(work, a);
  fake_cuda_declare(work, b);
  return fake_cuda_launch(stream, work);
}

template <class A>
struct fake_cuda_one : fake_cuda_work {
  void (*kernel)(A);
  A a;
  explicit fake_cuda_one(const A &a_) : a(a_) {}
};

template <class A>
static void fake_cuda_run_one(const fake_cuda_work *work) {
  const fake_cuda_one<A> *one = (const fake_cuda_one<A> *)work;
  A a = one->a;
  fake_cuda_translate(a);
  one->kernel(a);
}

template <class A>
static cudaError_t tn_cuda_launch(void (*kernel)(A), unsigned blocks,
                                  cudaStream_t stream, A a) {
  void *memory = malloc(sizeof(fake_cuda_one<A>));
  if (memory == NULL) abort();
  memset(memory, 0, sizeof(fake_cuda_one<A>));
  fake_cuda_one<A> *work = new (memory, fake_cuda_place()) fake_cuda_one<A>(a);
  work->kernel = kernel;
  work->run = fake_cuda_run_one<A>;
  work->blocks = blocks;
  work->n_uses = 0;
  fake_cuda_declare(work, a);
  return fake_cuda_launch(stream, work);
}

#endif /* FAKE_CUDA_RUNTIME_H_ */
